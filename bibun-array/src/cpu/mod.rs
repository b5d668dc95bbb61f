//! The CPU device: threads for large work, vector instructions chosen when the program runs.

mod elementwise;

use std::sync::Arc;

use crate::dtype::with_dtype;
use crate::kernel::{Kernel, Slice};
use crate::{Array, Element, View};

use crate::device::{Device, Memory};
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
}
