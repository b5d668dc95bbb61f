//! The interface of a device on which arrays are stored and computed.
//!
//! [`Array`] knows shapes, strides and dtypes, and leaves everything that touches elements to its
//! device. The CPU is one implementation; nothing in this file would change for another.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use crate::convolution::{Convolution, ConvolutionPart};
use crate::kernel::Kernel;
use crate::random::Distribution;
use crate::shape::Layout;
use crate::{Array, Change, DType, Error, Recurrence, Shape, Slice, Stencil, Update};

/// Memory on a device.
pub trait Memory: Any + Send + Sync + fmt::Debug {
    /// Returns the device that the memory is on.
    fn device(&self) -> &'static dyn Device;

    /// Returns the type of the elements.
    fn dtype(&self) -> DType;

    /// Returns the number of bytes.
    fn bytes(&self) -> usize;
}

/// The error to raise for an element that is not allowed, made from its position in row-major order and that element.
pub type Complaint = Arc<dyn Fn(usize, i64) -> Error + Send + Sync>;

/// A reduction over axes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reduce {
    /// The sum (of bools: the number of `true`, as `i64`).
    Sum,
    /// The product (of bools as `i64`).
    Product,
    /// The largest value, or NaN if there is one.
    Max,
    /// The smallest value, or NaN if there is one.
    Min,
    /// The position of the first largest value (or the first NaN), as `i64`; over one axis.
    ArgMax,
    /// The position of the first smallest value (or the first NaN), as `i64`; over one axis.
    ArgMin,
    /// Whether all elements are true (nonzero).
    All,
    /// Whether any element is true (nonzero).
    Any,
}

/// What an element becomes when values are written to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scatter {
    /// The last of the values.
    Set,
    /// The largest of the element and the values, or NaN if there is one. Complex numbers have none.
    Max,
    /// The smallest of the element and the values, or NaN if there is one. Complex numbers have none.
    Min,
}

/// A running reduction along an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scan {
    /// The running sum.
    Sum,
    /// The running product.
    Product,
}

/// The rule of a normalisation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Normalization {
    /// Whether the mean is subtracted.
    pub centered: bool,
    /// The number added to the variance before its root is taken.
    pub epsilon: f64,
}

/// The rule of an attention.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Attention {
    /// Whether a query attends to no key behind its own position.
    pub causal: bool,
    /// The factor of the products of queries and keys.
    pub scale: f64,
}

/// A place where arrays are stored and computed. Callers have checked shapes, dtypes and bounds.
///
/// A new device needs memory, that is, [`upload`](Device::upload) and
/// [`download`](Device::download), and is then complete: every other operation goes through the
/// host until the device implements it. All arrays passed to a device are its own, or repeat a
/// single value, which is on every device.
///
/// A device is a `static`, or is never freed. Two devices are equal if they are the same object.
///
/// ```
/// use bibun_array::{cpu, Array};
/// let x = Array::from([1.0, 2.0]);
/// assert!(x.device() == cpu());
/// assert!(x.to(cpu()).shares_memory_with(&x));
/// ```
pub trait Device: Any + fmt::Debug + Send + Sync {
    /// Returns a name for display, such as `cpu`.
    fn name(&self) -> &str;

    /// Returns the device that computes what this one does not implement: `cpu()`, for a device
    /// whose elements come to memory on the host by [`download`](Device::download).
    fn host(&self) -> &'static dyn Device;

    /// Returns whether arrays on the CPU may be passed to this device beside its own. Defaults to
    /// false.
    fn takes_constants(&self) -> bool {
        false
    }

    /// Copies elements from the host.
    fn upload(&'static self, elements: Slice<'_>) -> Arc<dyn Memory>;

    /// Returns a row-major copy of an array in memory on the host. This waits for the device, which
    /// otherwise only [`nonzero`](Device::nonzero) does, and raises the errors that
    /// [`check`](Device::check) has found in the meantime. `asked_by` is the name of the function
    /// that reads the elements, such as `to_vec`, for messages and profiles.
    fn download(&'static self, x: &Array, asked_by: &'static str) -> Array;

    /// Returns a row-major copy of an array.
    fn copy(&'static self, x: &Array) -> Array {
        on_host(self, "copy", [x], |[x]| x)
    }

    /// Returns a row-major array of unspecified content, to be written by [`Device::assign`].
    fn empty(&'static self, shape: &Shape, dtype: DType) -> Array {
        uploaded(self, self.host().empty(shape, dtype))
    }

    /// Computes a kernel at every element. The inputs have one shape. The device may use the memory
    /// of an input that no other array shares for the result.
    fn elementwise(&'static self, kernel: &Kernel, inputs: &mut [Array]) -> Array {
        let inputs = inputs.iter().map(|x| downloaded(self, kernel.name(), x));
        uploaded(
            self,
            self.host()
                .elementwise(kernel, &mut inputs.collect::<Vec<_>>()),
        )
    }

    /// Changes a parameter and its state in their own memory, at each element by the [`Update`] and
    /// the gradient. All of these arrays have one shape. An array that is shared is copied first.
    /// The gradient has the dtype of the parameter; the state has that dtype or its
    /// [accumulator](DType::accumulator).
    fn update(
        &'static self,
        update: &Update,
        parameter: &mut Array,
        gradient: &Array,
        state: &mut [Array],
    ) {
        let fetched = |x: &Array| downloaded(self, update.name(), x);
        let (mut own, gradient) = (fetched(parameter), fetched(gradient));
        let mut states: Vec<Array> = state.iter().map(fetched).collect();
        self.host()
            .update(&update.map(fetched), &mut own, &gradient, &mut states);
        *parameter = uploaded(self, own);
        for (state, own) in state.iter_mut().zip(states) {
            *state = uploaded(self, own);
        }
    }

    /// Computes `Σ g²` of a gradient after some changes, as a single element of `f64`. The squares
    /// are `f64`, too, because those of an `f32` could overflow.
    fn sum_of_squares(
        &'static self,
        changes: &[Change],
        parameter: &Array,
        gradient: &Array,
    ) -> Array {
        let fetched = |x: &Array| downloaded(self, "sum_of_squares", x);
        let changes: Vec<Change> = changes.iter().map(|change| change.map(fetched)).collect();
        let (parameter, gradient) = (fetched(parameter), fetched(gradient));
        uploaded(
            self,
            self.host().sum_of_squares(&changes, &parameter, &gradient),
        )
    }

    /// Writes `value` over the elements in `part`, a window on the elements of `target` in
    /// row-major order. The shapes of `part` and `value` are equal, and `part` contains no element
    /// twice. A `target` that is shared or stored in another order is copied first.
    fn assign(&'static self, target: &mut Array, part: View, value: &Array) {
        *target = on_host(self, "assign", [target, value], |[mut target, value]| {
            self.host().assign(&mut target, part, &value);
            target
        });
    }

    /// Reduces `axes` (sorted), which are left out of the result's shape. For `Max` to `ArgMin`,
    /// each element of the result has at least one element to choose from.
    fn reduce(&'static self, reduction: Reduce, x: &Array, axes: &[usize]) -> Array {
        on_host(self, "reduce", [x], |[x]| {
            self.host().reduce(reduction, &x, axes)
        })
    }

    /// Checks that all elements of `x`, of `i64`, are within `bounds`. If an element is not, raises
    /// the error that `complaint` makes from it: at once, or at the next
    /// [`download`](Device::download). Results that are computed from such elements until then do
    /// not matter, but must do no harm.
    fn check(&'static self, x: &Array, bounds: Range<i64>, complaint: Complaint) {
        self.host()
            .check(&downloaded(self, "check", x), bounds, complaint);
    }

    /// Returns the indices of the elements that are not zero (or `true`), in row-major order, as
    /// the rows of an `i64` matrix `[count, rank]`. NaN is not zero. This waits, because the shape
    /// of the result is not known before.
    fn nonzero(&'static self, x: &Array) -> Array {
        on_host(self, "nonzero", [x], |[x]| self.host().nonzero(&x))
    }

    /// Picks elements along `axis`: `y[.., i.., ..] = x[.., indices[i..], ..]`, with the axes of
    /// `indices` in the place of `axis`. Indices are within the axis, and negative ones count from
    /// its end.
    fn take(&'static self, x: &Array, indices: &Array, axis: usize) -> Array {
        on_host(self, "take", [x, indices], |[x, indices]| {
            self.host().take(&x, &indices, axis)
        })
    }

    /// Adds `value` to the elements of `target` that [`Device::take`] would pick at `indices` along
    /// `axis`. Values at equal indices add up in their order (bools combine by "or"). The shape of
    /// `value` is that of the result of `take`. The memory of `target` is reused if no other array
    /// shares it.
    fn add_at(&'static self, target: Array, indices: &Array, axis: usize, value: &Array) -> Array {
        let inputs = [&target, indices, value];
        on_host(self, "add_at", inputs, |[target, indices, value]| {
            self.host().add_at(target, &indices, axis, &value)
        })
    }

    /// Picks elements along `axis` with one index per element: `y[..i..] = x[..indices[..i..]..]`.
    /// The shapes are equal except along `axis`. Indices are as in [`Device::take`].
    fn gather(&'static self, x: &Array, indices: &Array, axis: usize) -> Array {
        on_host(self, "gather", [x, indices], |[x, indices]| {
            self.host().gather(&x, &indices, axis)
        })
    }

    /// Adds `value` to the elements of `target` that [`Device::gather`] would pick, as
    /// [`Device::add_at`] does.
    fn scatter_add(
        &'static self,
        target: Array,
        indices: &Array,
        axis: usize,
        value: &Array,
    ) -> Array {
        let inputs = [&target, indices, value];
        on_host(self, "scatter_add", inputs, |[target, indices, value]| {
            self.host().scatter_add(target, &indices, axis, &value)
        })
    }

    /// Writes `value` to the elements of `target` that [`Device::gather`] would pick, one after the
    /// other, in row-major order. The memory of `target` is reused if no other array shares it.
    fn scatter(
        &'static self,
        rule: Scatter,
        target: Array,
        indices: &Array,
        axis: usize,
        value: &Array,
    ) -> Array {
        let inputs = [&target, indices, value];
        on_host(self, "scatter", inputs, |[target, indices, value]| {
            self.host().scatter(rule, target, &indices, axis, &value)
        })
    }

    /// Draws numbers from Philox streams, starting at block `counter`: each of the `keys` is a
    /// stream for an equal part of the elements, in row-major order. [`Distribution`] defines which
    /// words make which element, so that all devices draw the same numbers.
    fn random(
        &'static self,
        distribution: Distribution,
        keys: &[u64],
        counter: u64,
        shape: &Shape,
    ) -> Array {
        uploaded(self, self.host().random(distribution, keys, counter, shape))
    }

    /// Computes `alpha a b + beta c` with the matrix products of the last two axes. All axes before
    /// them are equal. `c` broadcasts to the shape of the result and is not read if `beta` is 0.
    /// All arrays have one dtype of numbers. The device may use the memory of `c`.
    fn gemm(&'static self, alpha: f64, a: &Array, b: &Array, beta: f64, c: Array) -> Array {
        on_host(self, "gemm", [a, b, &c], |[a, b, c]| {
            self.host().gemm(alpha, &a, &b, beta, c)
        })
    }

    /// Computes one part of a convolution from the other two; see [`Convolution::product`]. Both
    /// are floats of one dtype.
    fn convolve(
        &'static self,
        convolution: &Convolution,
        made: ConvolutionPart,
        a: &Array,
        b: &Array,
    ) -> Array {
        on_host(self, "convolve", [a, b], |[a, b]| {
            self.host().convolve(convolution, made, &a, &b)
        })
    }

    /// Computes the patches of a convolution; see [`Convolution::patches`]. `x` has a float dtype.
    fn patches(&'static self, convolution: &Convolution, x: &Array) -> Array {
        on_host(self, "patches", [x], |[x]| {
            self.host().patches(convolution, &x)
        })
    }

    /// Computes a running reduction along `axis`. `x` is not `bool`.
    fn scan(&'static self, scan: Scan, x: &Array, axis: usize) -> Array {
        on_host(self, "scan", [x], |[x]| self.host().scan(scan, &x, axis))
    }

    /// Computes `[mean, variance]` over `axes` (sorted), which are kept with size 1, of an array of floats; see
    /// [`Array::moments`].
    fn moments(&'static self, x: &Array, axes: &[usize]) -> [Array; 2] {
        let x = downloaded(self, "moments", x);
        let results = self.host().moments(&x, axes);
        results.map(|result| uploaded(self, result))
    }

    /// Computes `[y, mean, variance]` over `axes` (sorted) of an array of floats; see
    /// [`Array::normalize`].
    fn normalize(
        &'static self,
        rule: Normalization,
        x: &Array,
        axes: &[usize],
        parameters: &[&Array],
    ) -> [Array; 3] {
        let fetched = |x| downloaded(self, "normalize", x);
        let (x, parameters) = (fetched(x), parameters.iter().map(|&x| fetched(x)));
        let parameters: Vec<Array> = parameters.collect();
        let parameters: Vec<&Array> = parameters.iter().collect();
        let results = self.host().normalize(rule, &x, axes, &parameters);
        results.map(|result| uploaded(self, result))
    }

    /// Computes the cotangents of an array that was normalised over `axes`, and of its scale and
    /// shift if it has a scale; see [`normalize_gradient`](crate::normalize_gradient).
    fn normalize_gradient(
        &'static self,
        rule: Normalization,
        axes: &[usize],
        x: &Array,
        statistics: [&Array; 2],
        scale: Option<&Array>,
        cotangents: [&Array; 3],
    ) -> Vec<Array> {
        let fetched = |x| downloaded(self, "normalize_gradient", x);
        let (x, scale) = (fetched(x), scale.map(fetched));
        let (statistics, cotangents) = (statistics.map(fetched), cotangents.map(fetched));
        let (statistics, cotangents) = (statistics.each_ref(), cotangents.each_ref());
        let host = self.host();
        let results =
            host.normalize_gradient(rule, axes, &x, statistics, scale.as_ref(), cotangents);
        let results = results.into_iter().map(|result| uploaded(self, result));
        results.collect()
    }

    /// Computes the attention of queries `[.., q, d]` to keys `[.., k, d]` with values `[.., k, v]`:
    /// see [`attention`](crate::attention). The mask is `[.., q, k]`. All axes in front are equal,
    /// and all floats have one dtype.
    fn attention(
        &'static self,
        rule: Attention,
        inputs: [&Array; 3],
        mask: Option<&Array>,
    ) -> [Array; 2] {
        let fetched = |x| downloaded(self, "attention", x);
        let (inputs, mask) = (inputs.map(fetched), mask.map(fetched));
        let results = (self.host()).attention(rule, inputs.each_ref(), mask.as_ref());
        results.map(|result| uploaded(self, result))
    }

    /// Computes the cotangents of queries, keys and values from the results of
    /// [`Device::attention`] and the cotangent of the first, `[y, log sums, gy]`.
    fn attention_gradient(
        &'static self,
        rule: Attention,
        inputs: [&Array; 3],
        mask: Option<&Array>,
        results: [&Array; 3],
    ) -> [Array; 3] {
        let fetched = |x| downloaded(self, "attention_gradient", x);
        let (inputs, mask, results) =
            (inputs.map(fetched), mask.map(fetched), results.map(fetched));
        let gradients = self.host().attention_gradient(
            rule,
            inputs.each_ref(),
            mask.as_ref(),
            results.each_ref(),
        );
        gradients.map(|gradient| uploaded(self, gradient))
    }

    /// Runs a cell over all steps of sequences; see [`recurrence`](crate::recurrence). The device may
    /// use the memory of the inputs.
    fn recurrence(&'static self, rule: &Recurrence, inputs: Vec<Array>) -> Vec<Array> {
        let fetched = |x: &Array| downloaded(self, "recurrence", x);
        let outputs = self
            .host()
            .recurrence(rule, inputs.iter().map(fetched).collect());
        outputs.into_iter().map(|y| uploaded(self, y)).collect()
    }

    /// Computes the cotangents of a recurrence; see
    /// [`recurrence_gradient`](crate::recurrence_gradient).
    fn recurrence_gradient(&'static self, rule: &Recurrence, inputs: &[Array]) -> Vec<Array> {
        let fetched = |x: &Array| downloaded(self, "recurrence_gradient", x);
        let inputs: Vec<Array> = inputs.iter().map(fetched).collect();
        let results = self.host().recurrence_gradient(rule, &inputs);
        results.into_iter().map(|gx| uploaded(self, gx)).collect()
    }

    /// Returns the positions along `axis` of the first `count` elements in ascending or descending
    /// order, as `i64`. NaN is greater than all numbers, and equal elements stay in their order.
    fn argsort(&'static self, x: &Array, axis: usize, descending: bool, count: usize) -> Array {
        on_host(self, "argsort", [x], |[x]| {
            self.host().argsort(&x, axis, descending, count)
        })
    }

    /// Computes the weighted sums of the elements that each `stencil` reads, along as many axes from `first` on.
    /// `x` has a float dtype.
    fn reduce_window(&'static self, x: &Array, first: usize, stencil: &[Stencil]) -> Array {
        on_host(self, "reduce_window", [x], |[x]| {
            self.host().reduce_window(&x, first, stencil)
        })
    }

    /// Returns the largest element in each window over the last two axes and its position, as `i64`
    /// in row-major order over these axes. NaN is larger than all numbers, of equal elements the
    /// first is taken, and no window is empty.
    fn window_max(&'static self, x: &Array, rows: &Stencil, columns: &Stencil) -> (Array, Array) {
        let x = downloaded(self, "window_max", x);
        let (largest, positions) = self.host().window_max(&x, rows, columns);
        (uploaded(self, largest), uploaded(self, positions))
    }

    /// Waits until all work given to the device so far is done.
    fn synchronize(&'static self) {}
}

impl PartialEq for dyn Device {
    /// Whether both are the same object. A device of size zero has no address of its own, but its
    /// type distinguishes it from all others.
    fn eq(&self, other: &Self) -> bool {
        self.type_id() == other.type_id() && (size_of_val(self) == 0 || ptr::addr_eq(self, other))
    }
}

/// The result of the CPU for arrays of a device, moved to the device.
fn on_host<D: Device + ?Sized, const N: usize>(
    device: &'static D,
    operation: &'static str,
    inputs: [&Array; N],
    work: impl FnOnce([Array; N]) -> Array,
) -> Array {
    let inputs = inputs.map(|x| downloaded(device, operation, x));
    uploaded(device, work(inputs))
}

/// The array on the host.
fn downloaded<D: Device + ?Sized>(device: &'static D, asked_by: &'static str, x: &Array) -> Array {
    match x.inline() {
        Some(_) => x.clone(),
        None => device.download(x, asked_by),
    }
}

/// An array of the host, moved to a device.
pub(crate) fn uploaded<D: Device + ?Sized>(device: &'static D, x: Array) -> Array {
    if x.inline().is_some() {
        return x;
    }
    let x = x.to_row_major();
    let memory = crate::dtype::with_dtype!(x.dtype(), T => {
        device.upload(<T as crate::Element>::to_slice(x.host_slice::<T>()))
    });
    Array::from_memory(memory, x.shape())
}

/// A window on the elements of an array: shape, strides and the first element.
#[derive(Clone, Debug)]
pub struct View(pub(crate) Layout);

impl View {
    /// Returns the sizes of the axes.
    pub fn shape(&self) -> &Shape {
        &self.0.shape
    }

    /// Returns the steps between neighbours along each axis, in elements.
    pub fn strides(&self) -> &[isize] {
        &self.0.strides
    }

    /// Returns the position of the first element.
    pub fn offset(&self) -> usize {
        self.0.offset
    }
}
