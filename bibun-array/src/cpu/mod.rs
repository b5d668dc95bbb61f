//! The CPU device: threads for large work, vector instructions chosen when the program runs.

mod elementwise;
mod matmul;
mod reduce;

use std::sync::Arc;

use crate::dtype::with_dtype;
use crate::kernel::{Kernel, Slice};
use crate::{Array, Element, Scalar, View};

use crate::device::{Device, Memory, Reduction};
use crate::storage::Buffer;

/// The CPU.
#[derive(Debug)]
pub(crate) struct Cpu;

impl Memory for Buffer {
    fn bytes(&self) -> usize {
        self.bytes()
    }
    fn device(&self) -> &'static dyn Device {
        &Cpu
    }
}

impl Device for Cpu {
    fn name(&self) -> &str {
        "cpu"
    }

    fn upload(&self, elements: Slice<'_>) -> Arc<dyn Memory> {
        fn copied<T: Element>(elements: &[T]) -> Arc<dyn Memory> {
            let mut buffer = Buffer::new::<T>(elements.len());
            buffer.as_mut_slice().copy_from_slice(elements);
            Arc::new(buffer)
        }
        match elements {
            Slice::Bool(x) => copied(x),
            Slice::I64(x) => copied(x),
            Slice::F32(x) => copied(x),
            Slice::F64(x) => copied(x),
        }
    }

    fn download(&self, x: &Array) -> Array {
        with_dtype!(x.dtype(), T => {
            Array::filled_by(x.shape().clone(), |out: &mut [T]| elementwise::copy(x, out))
        })
    }

    fn elementwise(&self, kernel: &dyn Kernel, inputs: &mut [Array]) -> Array {
        elementwise::elementwise(kernel, inputs)
    }

    fn assign(&self, target: &mut Array, part: View, value: &Array) {
        with_dtype!(target.dtype(), T => {
            elementwise::assign(target.as_mut_slice::<T>(), &part.0, value);
        });
    }

    fn reduce(&self, reduction: Reduction, x: &Array, axes: &[usize]) -> Array {
        reduce::reduce(reduction, x, axes)
    }

    fn gemm(&self, alpha: f64, a: &Array, b: &Array, beta: f64, c: Array) -> Array {
        matmul::gemm(alpha, a, b, beta, c)
    }
}

/// The elements under `x`: its memory, or the single value it repeats.
fn elements<'a, T: Element>(x: &'a Array, inline: &'a Option<Scalar>) -> &'a [T] {
    match inline {
        Some(scalar) => {
            std::slice::from_ref(T::borrow_scalar(scalar).expect("the dtype was matched"))
        }
        None => x
            .buffer()
            .expect("the device was chosen by its memory")
            .as_slice(),
    }
}
