//! What a device must be able to do for arrays to live on it.
//!
//! [`Array`] knows shapes, strides and dtypes and asks its device for everything that touches
//! elements. The CPU is one implementation; nothing above this file would change for another.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::convolution::{Convolution, ConvolutionPart};
use crate::cpu::Cpu;
use crate::kernel::{Kernel, Slice};
use crate::random::Distribution;
use crate::{Array, DType, Error, Shape, Taps, attempt, raise};

/// Memory on a device.
pub trait Memory: Any + Send + Sync + fmt::Debug {
    /// The device it is on.
    fn device(&self) -> &'static dyn Device;

    /// How many bytes it has.
    fn bytes(&self) -> usize;
}

/// A reduction over axes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduction {
    /// Sum (of bools: how many are true, as `i64`).
    Sum,
    /// Product (of bools as `i64`).
    Product,
    /// Largest value; NaN if there is any.
    Max,
    /// Smallest value; NaN if there is any.
    Min,
    /// Position of the first largest value (or the first NaN), as `i64`; over one axis.
    ArgMax,
    /// Position of the first smallest value (or the first NaN), as `i64`; over one axis.
    ArgMin,
    /// Whether all are true (nonzero).
    All,
    /// Whether any is true (nonzero).
    Any,
}

/// A running reduction along an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scan {
    /// Running sum.
    Sum,
    /// Running product.
    Product,
}

/// What is done to elements when they are normalised.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Normalization {
    /// Whether the mean is subtracted.
    pub centered: bool,
    /// What is added to the variance before its root is taken.
    pub epsilon: f64,
}

/// The operations a device provides. Callers have checked shapes, dtypes and bounds.
pub trait Device: fmt::Debug + Send + Sync {
    /// A name for people, such as `cpu`.
    fn name(&self) -> &str;

    /// A row-major array of unspecified content, to be written by [`Device::assign`].
    fn empty(&self, shape: &Shape, dtype: DType) -> Array;

    /// Copies elements from the host.
    fn upload(&self, elements: Slice<'_>) -> Arc<dyn Memory>;

    /// A row-major copy of an array, as memory on the host.
    fn download(&self, x: &Array) -> Array;

    /// Computes a kernel at every element; the inputs have one shape. The device may take the
    /// memory of an input that nobody else holds for the result.
    fn elementwise(&self, kernel: &Kernel, inputs: &mut [Array]) -> Array;

    /// Writes `value` over the elements that `part` sees, a window on the elements of `target` in
    /// row-major order; the shapes of `part` and `value` are equal and no element of `part` is
    /// seen twice. A `target` that is shared or lies in another order is copied first.
    fn assign(&self, target: &mut Array, part: View, value: &Array);

    /// Reduces `axes` (sorted), which are left out of the result's shape. `Max` to `ArgMin` get at
    /// least one element for each of the result.
    fn reduce(&self, reduction: Reduction, x: &Array, axes: &[usize]) -> Array;
    /// Picks along `axis`: `y[.., i.., ..] = x[.., indices[i..], ..]`, with the axes of `indices`
    /// in the place of `axis`. Indices are not negative.
    fn take(&self, x: &Array, indices: &Array, axis: usize) -> Array;

    /// Adds `value` into `target` at `indices` along `axis`: what [`Device::take`] picks, spread
    /// again; equal indices add up, in their order (for bools, by "or"). The shape of `value` is
    /// that of what `take` would pick. The memory of `target` is reused if nobody else holds it.
    fn add_at(&self, target: Array, indices: &Array, axis: usize, value: &Array) -> Array;

    /// Picks along `axis` with one index per element: `y[..i..] = x[..indices[..i..]..]`; apart
    /// from `axis` the shapes are equal. Indices are not negative.
    fn gather(&self, x: &Array, indices: &Array, axis: usize) -> Array;

    /// Adds `value` into `target` where [`Device::gather`] would pick, as [`Device::add_at`] does.
    fn scatter_add(&self, target: Array, indices: &Array, axis: usize, value: &Array) -> Array;

    /// Numbers drawn from Philox streams, from block `counter` on: an equal part of the elements, in
    /// row-major order, from the stream of each of the `keys`. Which words make which element is part
    /// of [`Distribution`]'s definition, so that all devices draw alike.
    fn random(
        &self,
        distribution: Distribution,
        keys: &[u64],
        counter: u64,
        shape: &Shape,
    ) -> Array;

    /// `alpha a b + beta c` with the matrix products of the last two axes; all axes before are
    /// equal, `c` broadcasts to the shape of the result and is not read if `beta` is 0. The
    /// dtypes are one of `f32`, `f64` and `i64`. The device may take the memory of `c`.
    fn gemm(&self, alpha: f64, a: &Array, b: &Array, beta: f64, c: Array) -> Array;

    /// One part of a convolution from the other two; see [`Convolution::product`]. Both are of `f32`
    /// or both of `f64`.
    fn convolve(
        &self,
        convolution: &Convolution,
        made: ConvolutionPart,
        a: &Array,
        b: &Array,
    ) -> Array;

    /// What the kernels of a convolution see; see [`Convolution::patches`]. `x` is of floats.
    fn patches(&self, convolution: &Convolution, x: &Array) -> Array;

    /// Runs along `axis`; `x` is not of `bool`.
    fn scan(&self, scan: Scan, x: &Array, axis: usize) -> Array;

    /// `[y, mean, variance]` over `axes` (sorted) of an array of floats; see [`Array::normalize`].
    fn normalize(&self, rule: Normalization, x: &Array, axes: &[usize]) -> [Array; 3];

    /// The cotangent of what was normalised over `axes`, from the results `[y, variance]` and the
    /// cotangents `[gy, gmean, gvariance]`.
    fn normalize_gradient(
        &self,
        rule: Normalization,
        results: [&Array; 2],
        cotangents: [&Array; 3],
        axes: &[usize],
    ) -> Array;

    /// The positions along `axis` of its `count` first elements in ascending or descending order,
    /// as `i64`. NaN is greater than all numbers; equal elements stay in their order.
    fn argsort(&self, x: &Array, axis: usize, descending: bool, count: usize) -> Array;

    /// The weighted sums of what `taps` read along `axis`; `x` is of floats.
    fn window_sum(&self, x: &Array, axis: usize, taps: &Taps) -> Array;

    /// The largest of what windows over the last two axes see and its position, as `i64` in
    /// row-major order over these axes. NaN is larger than all numbers, the first of equal elements
    /// is taken, and no window is empty.
    fn window_max(&self, x: &Array, rows: &Taps, columns: &Taps) -> (Array, Array);

    /// Waits until everything asked so far has been done.
    fn synchronize(&self) {}
}

/// A window on the elements of an array: shape, strides and the first element.
#[derive(Clone, Debug)]
pub struct View(pub(crate) crate::shape::Layout);

/// The CPU.
pub fn cpu() -> &'static dyn Device {
    &Cpu
}

/// Runs the part of a function that asks for memory.
///
/// # Panics
/// If the system refuses memory, with an [`Error::OutOfMemory`] that has the name of the function and
/// the place of its call.
///
/// ```
/// use bibun_array::{allocating, attempt, Array, DType, Error};
/// let refused: Result<Array, Error> =
///     attempt(|| allocating("mask", || Array::ones([1 << 29, 1 << 29], DType::Bool).tril(0)));
/// assert!(matches!(refused, Err(Error::OutOfMemory { function: "mask", .. })));
/// ```
#[track_caller]
pub fn allocating<T>(function: &'static str, work: impl FnOnce() -> T) -> T {
    let location = crate::caller();
    attempt(work).unwrap_or_else(|error| {
        raise(match error {
            Error::OutOfMemory { bytes, .. } => Error::OutOfMemory {
                function,
                bytes,
                location,
            },
            other => other,
        })
    })
}

/// The one device that holds all of the inputs; arrays of a single repeated value are everywhere.
#[track_caller]
pub(crate) fn common<'a>(
    function: &'static str,
    inputs: impl IntoIterator<Item = &'a Array>,
) -> &'static dyn Device {
    let mut device: Option<&'static dyn Device> = None;
    for input in inputs {
        if let Some(memory) = input.memory() {
            let other = memory.device();
            match device {
                Some(device) if device.name() != other.name() => raise(Error::invalid(
                    function,
                    format!(
                        "the arrays are on two devices, {} and {}",
                        device.name(),
                        other.name()
                    ),
                )),
                _ => device = Some(other),
            }
        }
    }
    device.unwrap_or_else(cpu)
}
