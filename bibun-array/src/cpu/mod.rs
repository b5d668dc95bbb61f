//! The CPU device: threads for large work, vector instructions chosen at run time.

mod attention;
pub(crate) mod band;
mod complex;
mod convolution;
mod elementwise;
mod fused;
mod index;
mod interpreter;
mod join;
pub(crate) mod matmul;
pub(crate) mod normalize;
mod pass;
mod product;
mod program;
mod random;
mod recurrence;
pub(crate) mod reduce;
mod rows;
mod scan;
mod sort;
mod stencil;
mod steps;
pub(crate) mod threads;
pub(crate) mod tile;
mod transpose;
mod update;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use pulp::{Simd, WithSimd};

pub(crate) use convolution::ConvolutionRows;
pub(crate) use elementwise::output_layout;
pub(crate) use fused::Fused;
#[doc(hidden)]
pub use interpreter::interpreted;
pub(crate) use join::Join;
pub(crate) use program::Program;
pub(crate) use rows::{RowSource, RowStep, RowValue, RowWork, Rows, Widths};
pub(crate) use threads::{Sharing, chunks, for_each};
pub(crate) use tile::Float;

use crate::complex::by_parts;
use crate::conversion::convert;
use crate::convolution::{Convolution, ConvolutionPart};
use crate::dtype::{with_accumulator, with_float, with_word};
use crate::kernel::Kernel;
use crate::random::Distribution;
use crate::waiting::shared;
use crate::{
    Array, Change, DType, Element, Recurrence, Scalar, Shape, Slice, Stencil, Update, View, ops,
};

use crate::device::{Attention, Complaint, Device, Memory, Normalization, Reduce, Scan, Scatter};
use crate::shape::Layout;
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

/// Gathers on the CPU, and raises the complaint about the first index that is out of bounds.
pub(crate) fn gather_within(
    x: &Array,
    indices: &Array,
    axis: usize,
    complaint: Complaint,
) -> Array {
    shared(|| {
        with_word!(x.dtype(), W => {
            index::gather_within::<W>(x, indices, axis, Some(complaint))
        })
    })
}

/// Adds on the CPU at indices, and raises the complaint about the first of them that is out of bounds.
pub(crate) fn scatter_add_within(
    target: Array,
    indices: &Array,
    axis: usize,
    value: &Array,
    complaint: Option<Complaint>,
) -> Array {
    if target.dtype().is_complex() {
        return by_parts([&target, value], |[target, value]| {
            scatter_add_within(target, indices, axis, &value, complaint.clone())
        });
    }
    added(target, value, |target, value| {
        with_accumulator!(target.dtype(), T => {
            index::scatter_add::<T>(target, indices, axis, value, complaint)
        })
    })
}

impl Device for Cpu {
    fn name(&self) -> &str {
        "cpu"
    }

    fn host(&self) -> &'static dyn Device {
        &CPU
    }

    fn empty(&'static self, shape: &Shape, dtype: DType) -> Array {
        with_word!(dtype, W => Array::moved(dtype, shape.clone(), |_: &mut [W]| ()))
    }

    fn upload(&'static self, elements: Slice<'_>) -> Arc<dyn Memory> {
        let mut buffer = Buffer::of(elements.dtype(), elements.len());
        convert(elements, buffer.as_mut_run());
        Arc::new(buffer)
    }

    fn download(&'static self, x: &Array, _: &'static str) -> Array {
        self.copy(x)
    }

    fn copy(&'static self, x: &Array) -> Array {
        shared(|| elementwise::copy(x))
    }

    fn update(
        &'static self,
        update: &Update,
        parameter: &mut Array,
        gradient: &Array,
        state: &mut [Array],
    ) {
        if parameter.dtype().is_complex() {
            return complex::update(update, parameter, gradient, state);
        }
        shared(|| update::update(update, parameter, gradient, state));
    }

    fn sum_of_squares(
        &'static self,
        changes: &[Change],
        parameter: &Array,
        gradient: &Array,
    ) -> Array {
        if gradient.dtype().is_complex() {
            return complex::sum_of_squares(changes, parameter, gradient);
        }
        shared(|| update::sum_of_squares(changes, parameter, gradient))
    }

    fn check(&'static self, x: &Array, bounds: Range<i64>, complaint: Complaint) {
        index::check(x, bounds, complaint);
    }

    fn nonzero(&'static self, x: &Array) -> Array {
        shared(|| index::nonzero(&converted(x, DType::Bool)))
    }

    fn elementwise(&'static self, kernel: &Kernel, inputs: &mut [Array]) -> Array {
        shared(|| elementwise::elementwise(kernel, inputs))
    }

    fn assign(&'static self, target: &mut Array, part: View, value: &Array) {
        shared(|| elementwise::assign(target, &part.0, value));
    }

    fn reduce(&'static self, reduction: Reduce, x: &Array, axes: &[usize]) -> Array {
        if x.dtype().is_complex() {
            return complex::reduce(reduction, x, axes);
        }
        shared(|| {
            let y = reduce::reduce(reduction, &widened(x), axes);
            let is_sum = matches!(reduction, Reduce::Sum | Reduce::Product);
            let of_elements = matches!(reduction, Reduce::Max | Reduce::Min);
            match of_elements || is_sum && x.dtype().is_float() {
                true => ops::cast(y, x.dtype()),
                false => y,
            }
        })
    }

    fn scan(&'static self, scan: Scan, x: &Array, axis: usize) -> Array {
        if x.dtype().is_complex() {
            return complex::scan(scan, x, axis);
        }
        shared(|| {
            let y = scan::scan(scan, &widened(x), axis);
            match x.dtype().is_float() {
                true => ops::cast(y, x.dtype()),
                false => y,
            }
        })
    }

    fn moments(&'static self, x: &Array, axes: &[usize]) -> [Array; 2] {
        shared(|| normalize::moments(&widened(x), axes).map(|result| ops::cast(result, x.dtype())))
    }

    fn normalize(
        &'static self,
        rule: Normalization,
        x: &Array,
        axes: &[usize],
        parameters: &[&Array],
    ) -> [Array; 3] {
        shared(|| {
            let parameters: Vec<_> = parameters.iter().map(|x| widened(x)).collect();
            let parameters: Vec<&Array> = parameters.iter().map(|x| &**x).collect();
            let results = normalize::normalize(rule, &widened(x), axes, &parameters);
            results.map(|result| ops::cast(result, x.dtype()))
        })
    }

    fn normalize_gradient(
        &'static self,
        rule: Normalization,
        axes: &[usize],
        x: &Array,
        statistics: [&Array; 2],
        scale: Option<&Array>,
        cotangents: [&Array; 3],
    ) -> Vec<Array> {
        shared(|| {
            let dtype = x.dtype();
            let (statistics, cotangents) = (statistics.map(widened), cotangents.map(widened));
            let statistics = statistics.each_ref().map(|x| &**x);
            let cotangents = cotangents.each_ref().map(|x| &**x);
            let (x, scale) = (widened(x), scale.map(widened));
            let scale = scale.as_deref();
            let results = normalize::gradient(rule, axes, &x, statistics, scale, cotangents);
            let results = results.into_iter().map(|result| ops::cast(result, dtype));
            results.collect()
        })
    }

    fn attention(
        &'static self,
        rule: Attention,
        inputs: [&Array; 3],
        mask: Option<&Array>,
    ) -> [Array; 2] {
        shared(|| {
            let (x, mask) = (inputs.map(widened), mask.map(kept_or_widened));
            let [y, log_sums] =
                attention::attention(rule, x.each_ref().map(|x| &**x), mask.as_deref());
            [ops::cast(y, inputs[0].dtype()), log_sums]
        })
    }

    fn attention_gradient(
        &'static self,
        rule: Attention,
        inputs: [&Array; 3],
        mask: Option<&Array>,
        results: [&Array; 3],
    ) -> [Array; 3] {
        shared(|| {
            let (x, mask) = (inputs.map(widened), mask.map(kept_or_widened));
            let results = results.map(widened);
            let x = x.each_ref().map(|x| &**x);
            let gradients =
                attention::gradient(rule, x, mask.as_deref(), results.each_ref().map(|x| &**x));
            gradients.map(|gradient| ops::cast(gradient, inputs[0].dtype()))
        })
    }

    fn recurrence(&'static self, rule: &Recurrence, inputs: Vec<Array>) -> Vec<Array> {
        shared(|| {
            let dtype = inputs[0].dtype();
            let wide = inputs
                .into_iter()
                .map(|x| ops::cast(x, dtype.accumulator()));
            let outputs = recurrence::run(rule, wide.collect()).into_iter();
            outputs.map(|y| ops::cast(y, dtype)).collect()
        })
    }

    fn recurrence_gradient(&'static self, rule: &Recurrence, inputs: &[Array]) -> Vec<Array> {
        shared(|| {
            let dtype = inputs[0].dtype();
            let wide: Vec<Cow<'_, Array>> = inputs.iter().map(widened).collect();
            let results = recurrence::gradient(rule, &wide).into_iter();
            results.map(|gx| ops::cast(gx, dtype)).collect()
        })
    }

    fn argsort(&'static self, x: &Array, axis: usize, descending: bool, count: usize) -> Array {
        shared(|| sort::argsort(&widened(x), axis, descending, count))
    }

    fn gemm(&'static self, alpha: f64, a: &Array, b: &Array, beta: f64, c: Array) -> Array {
        if a.dtype().is_complex() {
            return complex::gemm(alpha, a, b, beta, c);
        }
        shared(|| {
            let (dtype, computed) = (a.dtype(), a.dtype().accumulator());
            let c = ops::cast(c, computed);
            ops::cast(
                matmul::gemm(alpha, &widened(a), &widened(b), beta, c),
                dtype,
            )
        })
    }

    fn convolve(
        &'static self,
        convolution: &Convolution,
        made: ConvolutionPart,
        a: &Array,
        b: &Array,
    ) -> Array {
        shared(|| {
            let y = convolution::convolve(convolution, made, &widened(a), &widened(b));
            ops::cast(y, a.dtype())
        })
    }

    fn patches(&'static self, convolution: &Convolution, x: &Array) -> Array {
        shared(|| ops::cast(convolution::patches(convolution, &widened(x)), x.dtype()))
    }

    fn take(&'static self, x: &Array, indices: &Array, axis: usize) -> Array {
        shared(|| with_word!(x.dtype(), W => index::take::<W>(x, indices, axis)))
    }

    fn add_at(&'static self, target: Array, indices: &Array, axis: usize, value: &Array) -> Array {
        if target.dtype().is_complex() {
            return by_parts([&target, value], |[target, value]| {
                self.add_at(target, indices, axis, &value)
            });
        }
        added(
            target,
            value,
            |target, value| with_accumulator!(target.dtype(), T => index::add_at::<T>(target, indices, axis, value)),
        )
    }

    fn gather(&'static self, x: &Array, indices: &Array, axis: usize) -> Array {
        shared(|| with_word!(x.dtype(), W => index::gather::<W>(x, indices, axis)))
    }

    fn scatter_add(
        &'static self,
        target: Array,
        indices: &Array,
        axis: usize,
        value: &Array,
    ) -> Array {
        scatter_add_within(target, indices, axis, value, None)
    }

    fn scatter(
        &'static self,
        rule: Scatter,
        target: Array,
        indices: &Array,
        axis: usize,
        value: &Array,
    ) -> Array {
        if target.dtype().is_complex() {
            // The values of both parts come from the same places.
            return by_parts([&target, value], |[target, value]| {
                self.scatter(rule, target, indices, axis, &value)
            });
        }
        added(
            target,
            value,
            |target, value| with_accumulator!(target.dtype(), T => index::scatter::<T>(rule, target, indices, axis, value)),
        )
    }

    fn reduce_window(&'static self, x: &Array, first: usize, stencil: &[Stencil]) -> Array {
        shared(|| {
            let wide = widened(x);
            let y =
                with_float!(wide.dtype(), T => stencil::reduce_window::<T>(&wide, first, stencil));
            ops::cast(y, x.dtype())
        })
    }

    fn window_max(&'static self, x: &Array, rows: &Stencil, columns: &Stencil) -> (Array, Array) {
        shared(|| {
            let wide = widened(x);
            let (y, positions) = with_accumulator!(wide.dtype(), T => {
                stencil::window_max::<T>(&wide, rows, columns)
            });
            (ops::cast(y, x.dtype()), positions)
        })
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

/// `x` as another dtype. Repeated elements are converted once.
fn converted(x: &Array, dtype: DType) -> Cow<'_, Array> {
    if x.dtype() == dtype {
        return Cow::Borrowed(x);
    }
    if x.inline().is_some() {
        return Cow::Owned(x.cast(dtype));
    }
    let layout = x.layout();
    let sizes = layout.shape.iter().zip(layout.strides.iter());
    let once = Layout {
        shape: sizes
            .map(|(&size, &step)| if step == 0 { size.min(1) } else { size })
            .collect(),
        ..layout.clone()
    };
    Cow::Owned(ops::cast(x.clone().with_layout(once), dtype).broadcast_to(x.shape()))
}

/// `x` in the type in which it is computed.
fn widened(x: &Array) -> Cow<'_, Array> {
    converted(x, x.dtype().accumulator())
}

/// A mask of bools, or of floats in the type in which they are computed.
fn kept_or_widened(mask: &Array) -> Cow<'_, Array> {
    match mask.dtype() == DType::Bool {
        true => Cow::Borrowed(mask),
        false => widened(mask),
    }
}

/// Adds values to a target in the type in which they are computed.
fn added(target: Array, value: &Array, add: impl FnOnce(Array, &Array) -> Array) -> Array {
    shared(|| {
        let dtype = target.dtype();
        let wide = ops::cast(target, dtype.accumulator());
        ops::cast(add(wide, &widened(value)), dtype)
    })
}

/// Whether machines with these instructions are so old that small code is worth more to them than
/// fast code: x86-64 without AVX2, made before 2013. Other machines without vectors may be current
/// ones.
const fn is_plain<S: Simd>() -> bool {
    S::IS_SCALAR && cfg!(target_arch = "x86_64")
}

/// Runs an operation with vectors of at most 32 bytes: one that waits for memory and not for arithmetic, or is so
/// rare that it needs no version for the widest vectors.
#[cfg(target_arch = "x86_64")]
pub(crate) fn dispatch_short<Op: WithSimd>(op: Op) -> Op::Output {
    match pulp::x86::V3::try_new() {
        Some(simd) => Simd::vectorize(simd, op),
        None => Simd::vectorize(pulp::Scalar, op),
    }
}

/// Runs an operation.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn dispatch_short<Op: WithSimd>(op: Op) -> Op::Output {
    pulp::Arch::new().dispatch(op)
}

/// Whether work of about this many nanoseconds on one thread gains from several. Sharing it costs a
/// microsecond or two.
pub(crate) fn worth_threads(nanoseconds: usize) -> bool {
    Sharing::of(nanoseconds) != Sharing::Never && rayon::current_num_threads() > 1
}

/// The elements under `x`: its memory, or the single value that it repeats.
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
