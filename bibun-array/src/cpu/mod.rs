//! The CPU device: threads for large work, vector instructions chosen when the program runs.

mod convolution;
mod elementwise;
mod index;
mod matmul;
mod normalize;
mod product;
mod program;
mod random;
mod reduce;
mod scan;
mod sort;
mod taps;
mod threads;
mod tile;
mod update;

use std::ops::Range;
use std::sync::Arc;

use pulp::{Simd, WithSimd};

pub(crate) use program::Program;

use crate::convolution::{Convolution, ConvolutionPart};
use crate::dtype::with_dtype;
use crate::kernel::{Kernel, Slice};
use crate::random::Distribution;
use crate::waiting::shared;
use crate::{Array, Change, DType, Element, Scalar, Shape, Taps, Update, View};

use crate::device::{Complaint, Device, Memory, Normalization, Reduction, Scan};
use crate::storage::Buffer;

/// The CPU.
#[derive(Debug)]
pub(crate) struct Cpu;

pub(crate) static CPU: Cpu = Cpu;

impl Memory for Buffer {
    fn device(&self) -> &'static dyn Device {
        &CPU
    }
    fn dtype(&self) -> DType {
        self.dtype()
    }
    fn bytes(&self) -> usize {
        self.bytes()
    }
}

impl Device for Cpu {
    fn name(&self) -> &str {
        "cpu"
    }

    fn empty(&'static self, shape: &Shape, dtype: DType) -> Array {
        with_dtype!(dtype, T => Array::filled_by(shape.clone(), |_: &mut [T]| ()))
    }

    fn upload(&'static self, elements: Slice<'_>) -> Arc<dyn Memory> {
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

    fn download(&'static self, x: &Array, _: &'static str) -> Array {
        self.copy(x)
    }

    fn copy(&'static self, x: &Array) -> Array {
        shared(|| {
            with_dtype!(x.dtype(), T => {
                Array::filled_by(x.shape().clone(), |out: &mut [T]| elementwise::copy(x, out))
            })
        })
    }

    fn update(
        &'static self,
        update: &Update,
        parameter: &mut Array,
        gradient: &Array,
        state: &mut [Array],
    ) {
        shared(|| update::update(update, parameter, gradient, state));
    }

    fn sum_of_squares(
        &'static self,
        changes: &[Change],
        parameter: &Array,
        gradient: &Array,
    ) -> Array {
        shared(|| update::sum_of_squares(changes, parameter, gradient))
    }

    fn check(&'static self, x: &Array, bounds: Range<i64>, complaint: Complaint) {
        index::check(x, bounds, complaint);
    }

    fn nonzero(&'static self, x: &Array) -> Array {
        with_dtype!(x.dtype(), T => index::nonzero::<T>(x))
    }

    fn elementwise(&'static self, kernel: &Kernel, inputs: &mut [Array]) -> Array {
        shared(|| elementwise::elementwise(kernel, inputs))
    }

    fn assign(&'static self, target: &mut Array, part: View, value: &Array) {
        shared(|| {
            with_dtype!(target.dtype(), T => {
                elementwise::assign(target.as_mut_slice::<T>(), &part.0, value);
            });
        })
    }

    fn reduce(&'static self, reduction: Reduction, x: &Array, axes: &[usize]) -> Array {
        shared(|| reduce::reduce(reduction, x, axes))
    }

    fn scan(&'static self, scan: Scan, x: &Array, axis: usize) -> Array {
        shared(|| scan::scan(scan, x, axis))
    }

    fn normalize(&'static self, rule: Normalization, x: &Array, axes: &[usize]) -> [Array; 3] {
        shared(|| normalize::normalize(rule, x, axes))
    }

    fn normalize_gradient(
        &'static self,
        rule: Normalization,
        results: [&Array; 2],
        cotangents: [&Array; 3],
        axes: &[usize],
    ) -> Array {
        shared(|| normalize::gradient(rule, results, cotangents, axes))
    }

    fn argsort(&'static self, x: &Array, axis: usize, descending: bool, count: usize) -> Array {
        shared(|| sort::argsort(x, axis, descending, count))
    }

    fn gemm(&'static self, alpha: f64, a: &Array, b: &Array, beta: f64, c: Array) -> Array {
        shared(|| matmul::gemm(alpha, a, b, beta, c))
    }

    fn convolve(
        &'static self,
        convolution: &Convolution,
        made: ConvolutionPart,
        a: &Array,
        b: &Array,
    ) -> Array {
        shared(|| convolution::convolve(convolution, made, a, b))
    }

    fn patches(&'static self, convolution: &Convolution, x: &Array) -> Array {
        shared(|| convolution::patches(convolution, x))
    }

    fn take(&'static self, x: &Array, indices: &Array, axis: usize) -> Array {
        shared(|| with_dtype!(x.dtype(), T => index::take::<T>(x, indices, axis)))
    }

    fn add_at(&'static self, target: Array, indices: &Array, axis: usize, value: &Array) -> Array {
        shared(
            || with_dtype!(target.dtype(), T => index::add_at::<T>(target, indices, axis, value)),
        )
    }

    fn gather(&'static self, x: &Array, indices: &Array, axis: usize) -> Array {
        shared(|| with_dtype!(x.dtype(), T => index::gather::<T>(x, indices, axis)))
    }

    fn scatter_add(
        &'static self,
        target: Array,
        indices: &Array,
        axis: usize,
        value: &Array,
    ) -> Array {
        shared(
            || with_dtype!(target.dtype(), T => index::scatter_add::<T>(target, indices, axis, value)),
        )
    }

    fn window_sum(&'static self, x: &Array, axis: usize, taps: &Taps) -> Array {
        shared(|| match x.dtype() {
            DType::F32 => taps::window_sum::<f32>(x, axis, taps),
            DType::F64 => taps::window_sum::<f64>(x, axis, taps),
            DType::Bool | DType::I64 => unreachable!("the caller refuses what is not a float"),
        })
    }

    fn window_max(&'static self, x: &Array, rows: &Taps, columns: &Taps) -> (Array, Array) {
        shared(|| with_dtype!(x.dtype(), T => taps::window_max::<T>(x, rows, columns)))
    }

    fn random(
        &'static self,
        distribution: Distribution,
        keys: &[u64],
        counter: u64,
        shape: &Shape,
    ) -> Array {
        shared(|| random::random(distribution, keys, counter, shape))
    }
}

/// Whether machines with such instructions are so old that little code is worth more to them than fast
/// code: those of x86-64 without AVX2, made before 2013. Others without vectors may be all there are.
const fn is_plain<S: Simd>() -> bool {
    S::IS_SCALAR && cfg!(target_arch = "x86_64")
}

/// Does what is done so seldom that the widest vectors need no copy of it.
#[cfg(target_arch = "x86_64")]
fn dispatch_seldom<Op: WithSimd>(op: Op) -> Op::Output {
    match pulp::x86::V3::try_new() {
        Some(simd) => Simd::vectorize(simd, op),
        None => Simd::vectorize(pulp::Scalar, op),
    }
}

/// Does what is done seldom.
#[cfg(not(target_arch = "x86_64"))]
fn dispatch_seldom<Op: WithSimd>(op: Op) -> Op::Output {
    pulp::Arch::new().dispatch(op)
}

/// Whether work of about so many nanoseconds on one thread gains from several. Handing work to the
/// pool from outside takes tens of microseconds where its threads have gone to sleep; on a thread of
/// the pool itself, a few.
fn worth_threads(nanoseconds: usize) -> bool {
    let least = match rayon::current_thread_index() {
        Some(_) => 10_000,
        None => 150_000,
    };
    nanoseconds >= least && rayon::current_num_threads() > 1
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
