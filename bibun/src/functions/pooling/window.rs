//! Windows over axes: their positions, and weighted sums of their elements.

use std::fmt;
use std::sync::Arc;

use bibun_array::{Array, Shape, Stencil, allocating};

use crate::batch::Batched;
use crate::error::{Error, raise};
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Mismatch, Spec};
use crate::functions::Padding;
use crate::functions::batch_in_front;
use crate::functions::families::{Linear, LinearRule};
use crate::variable::Variable;

/// Options of pooling over the last axes, one for each size of the kernel.
///
/// Sizes are numbers, arrays, slices or vectors, so that the number of axes may be known only at run
/// time. A kernel alone, `[2, 2]`, converts into a pooling whose windows are side by side.
///
/// ```
/// use bibun::{array::{Array, DType}, functions::{max_pool, Pooling}, Variable};
/// let x = Variable::new(Array::zeros([1, 3, 7, 8], DType::F32));
/// let y = max_pool(&x, Pooling::new([3, 2]).stride(2).padding([1, 0]));
/// assert_eq!(y.shape(), [1, 3, 4, 4]);
/// let y = max_pool(&x, vec![2; x.rank() - 2]);
/// assert_eq!(y.shape(), [1, 3, 3, 4]);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pooling {
    kernel: Shape,
    stride: Shape,
    padding: PoolingPadding,
    dilation: Shape,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor: Option<usize>,
}

/// The padding of a [`Pooling`]: a number for all axes, a number or a pair of numbers for each, or a
/// [`Padding`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PoolingPadding {
    /// As much as makes the result `⌈size / stride⌉` long, as [`Padding::Same`].
    Same,
    /// The number of elements on both sides of all axes, or of each.
    Sizes(Shape),
    /// The numbers of elements before and after each axis.
    Pairs(Vec<(usize, usize)>),
}

impl fmt::Display for PoolingPadding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same => f.write_str("padding as for the same size"),
            Self::Sizes(sizes) => write!(f, "padding {sizes}"),
            Self::Pairs(pairs) => write!(f, "padding {pairs:?}"),
        }
    }
}

impl PoolingPadding {
    /// Returns the number of axes that there are numbers for.
    fn axes(&self) -> usize {
        match self {
            Self::Same => 1,
            Self::Sizes(sizes) => sizes.rank(),
            Self::Pairs(pairs) => pairs.len(),
        }
    }

    /// Returns the padding of one axis.
    fn along(&self, axis: usize) -> Padding<1> {
        match self {
            Self::Same => Padding::Same,
            Self::Sizes(sizes) => Padding::Sizes([size_along(sizes, axis)]),
            Self::Pairs(pairs) => Padding::Pairs([pairs[axis.min(pairs.len() - 1)]]),
        }
    }
}

macro_rules! padding_from {
    ($([$($bounds:tt)*] $Numbers:ty, $Kind:ident;)+) => {$(
        impl<$($bounds)*> From<$Numbers> for PoolingPadding {
            fn from(numbers: $Numbers) -> Self {
                Self::$Kind(numbers.into())
            }
        }
    )+};
}
padding_from! {
    [] usize, Sizes;
    [] Shape, Sizes;
    [] &[usize], Sizes;
    [] Vec<usize>, Sizes;
    [const N: usize] [usize; N], Sizes;
    [] &[(usize, usize)], Pairs;
    [] Vec<(usize, usize)>, Pairs;
    [const N: usize] [(usize, usize); N], Pairs;
}

impl<const N: usize> From<Padding<N>> for PoolingPadding {
    fn from(padding: Padding<N>) -> Self {
        match padding {
            Padding::Valid => Self::Sizes(Shape::from(0)),
            Padding::Same => Self::Same,
            Padding::Sizes(sizes) => Self::Sizes(sizes.into()),
            Padding::Pairs(pairs) => Self::Pairs(pairs.into()),
        }
    }
}

/// Returns the size for an axis, of one for all or one for each.
fn size_along(sizes: &Shape, axis: usize) -> usize {
    sizes[axis.min(sizes.rank() - 1)]
}

impl Pooling {
    /// Creates a pooling with windows of the sizes `kernel`, side by side, without padding.
    pub fn new(kernel: impl Into<Shape>) -> Self {
        let kernel = kernel.into();
        Self {
            stride: kernel.clone(),
            kernel,
            padding: PoolingPadding::Sizes(Shape::from(0)),
            dilation: Shape::from(1),
            ceil_mode: false,
            count_include_pad: true,
            divisor: None,
        }
    }

    /// Sets the stride, the distance between the beginnings of neighbouring windows: one for all
    /// axes, or one for each. Defaults to the size of the kernel.
    #[must_use]
    pub fn stride(self, stride: impl Into<Shape>) -> Self {
        let stride = stride.into();
        Self { stride, ..self }
    }

    /// Sets the padding. It counts as zeros for an average, and is never the maximum for a maximum.
    /// Defaults to none.
    #[must_use]
    pub fn padding(self, padding: impl Into<PoolingPadding>) -> Self {
        let padding = padding.into();
        Self { padding, ..self }
    }

    /// Sets the dilation, the distance between the elements of a window: one for all axes, or one
    /// for each. Defaults to 1.
    #[must_use]
    pub fn dilation(self, dilation: impl Into<Shape>) -> Self {
        let dilation = dilation.into();
        Self { dilation, ..self }
    }

    /// Sets whether a last window may reach beyond the padding, if it begins before it and by less than the
    /// stride; otherwise elements at the end may be left out. Defaults to false.
    #[must_use]
    pub fn ceil_mode(self, ceil_mode: bool) -> Self {
        Self { ceil_mode, ..self }
    }

    /// Sets whether an average counts the padding among its elements. Defaults to true.
    #[must_use]
    pub fn count_include_pad(self, count_include_pad: bool) -> Self {
        Self {
            count_include_pad,
            ..self
        }
    }

    /// Sets the number by which the sum of a window is divided in an average, instead of the number of
    /// its elements; 1 gives sums.
    ///
    /// ```
    /// use bibun::{functions::{avg_pool, Pooling}, Variable};
    /// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(avg_pool(&x, Pooling::new([2, 2]).divisor(1)).to_vec::<f64>(), [10.0]);
    /// ```
    #[must_use]
    pub fn divisor(self, divisor: usize) -> Self {
        let divisor = Some(divisor);
        Self { divisor, ..self }
    }

    /// Returns the stencil of each of the last axes of x, with the weights of averages.
    #[track_caller]
    pub(super) fn stencil(&self, function: &'static str, x: &Variable) -> Arc<[Stencil]> {
        let axes = self.kernel.rank();
        for (name, sizes) in [
            ("kernel", &self.kernel),
            ("stride", &self.stride),
            ("dilation", &self.dilation),
        ] {
            if sizes.contains(&0) {
                let what = format!("{name} = {sizes} must be positive");
                raise(Error::argument(function, what));
            }
        }
        for (name, count) in [
            ("strides", self.stride.rank()),
            ("paddings", self.padding.axes()),
            ("dilations", self.dilation.rank()),
        ] {
            if count != axes && count != 1 {
                let kernel = &self.kernel;
                let what =
                    format!("there are {count} {name} for the {axes} axes of kernel = {kernel}");
                raise(Error::argument(function, what));
            }
        }
        if self.divisor == Some(0) {
            raise(Error::argument(function, "divisor = 0 must be positive"));
        }
        let sizes = last_sizes(function, x, axes);
        let stencil = (0..axes).map(|axis| self.axis_stencil(axis, sizes[axis]));
        match allocating(function, || stencil.collect::<Option<_>>()) {
            Some(stencil) => stencil,
            None => {
                let Self {
                    kernel,
                    stride,
                    dilation,
                    ..
                } = self;
                let must_hold = format!(
                    "windows (kernel {kernel}, stride {stride}, {}, dilation {dilation}) must fit into x \
                     with its padding, and every window must see at least one element",
                    self.padding
                );
                mismatch(function, x, axes, must_hold)
            }
        }
    }

    /// Returns the stencil of one axis, or `None` if there are no windows or one of them covers no
    /// element.
    fn axis_stencil(&self, axis: usize, size: usize) -> Option<Stencil> {
        let (kernel, stride) = (self.kernel[axis], size_along(&self.stride, axis));
        let dilation = size_along(&self.dilation, axis);
        let padding = self.padding.along(axis);
        let window = padding.window(0, size, kernel, stride, dilation);
        let [padding, _] = window.padding;
        let behind = padding.saturating_add(size);
        let (padded, extent) = (window.padded(size), window.extent());
        let count = match (self.ceil_mode, padded.checked_sub(extent)) {
            (false, rest) => rest? / stride + 1,
            // A window that would begin after the elements is left out.
            (true, Some(rest)) => (rest.div_ceil(stride) + 1).min(behind.div_ceil(stride)),
            // The one window reaches beyond the padding, by less than it moves.
            (true, None) if behind > 0 && extent - padded < stride => 1,
            (true, None) => return None,
        };
        // Returns the number of positions of window `i` that come before `place`.
        let before = |i: usize, place: usize| {
            let reach = place.saturating_sub(i.saturating_mul(stride));
            reach.div_ceil(dilation).min(window.kernel)
        };
        let sees = |i: usize| before(i, padding) < before(i, behind);
        // The first window reaches least far to the right, the last one to the left.
        if count > 0 && !(sees(0) && sees(count - 1)) {
            return None;
        }
        let of_each = (0..count).map(|i| {
            let own = before(i, padding)..before(i, behind);
            let counted = match self.count_include_pad {
                true => before(i, padded),
                false => own.len(),
            };
            let weight = match self.divisor {
                None => 1.0 / counted as f64,
                // The weights of the axes are multiplied.
                Some(divisor) if axis == 0 => 1.0 / divisor as f64,
                Some(_) => 1.0,
            };
            own.map(move |tap| (i * stride + tap * dilation - padding, weight))
        });
        let stencil = Stencil::new(size, of_each);
        let sees = |i: usize| stencil.of(i).next().is_some();
        (0..count).all(sees).then_some(stencil)
    }
}

impl<T: Into<Shape>> From<T> for Pooling {
    fn from(kernel: T) -> Self {
        Self::new(kernel)
    }
}

impl From<&Self> for Pooling {
    fn from(pooling: &Self) -> Self {
        pooling.clone()
    }
}

/// Returns windows that divide the last axes of x into `windows` parts of nearly equal sizes, with
/// the weights of averages. They overlap where the sizes are not divisible.
#[track_caller]
pub(super) fn adaptive_stencil(
    function: &'static str,
    x: &Variable,
    windows: &Shape,
) -> Arc<[Stencil]> {
    let axes = windows.rank();
    let sizes = last_sizes(function, x, axes);
    if (sizes.iter().zip(windows.iter())).any(|(&size, &count)| size == 0 && count > 0) {
        let must_hold = "every window must see at least one element";
        mismatch(function, x, axes, must_hold)
    }
    let stencil = sizes.iter().copied().zip(windows.iter().copied());
    let stencil = stencil.map(|(size, count)| {
        let of_each = (0..count).map(|i| {
            let begin = share(i, size, count);
            let end = size - share(count - 1 - i, size, count);
            let weight = 1.0 / (end - begin) as f64;
            (begin..end).map(move |at| (at, weight))
        });
        Stencil::new(size, of_each)
    });
    allocating(function, || stencil.collect())
}

/// Computes `⌊i size / count⌋`, however large the product is.
pub(super) fn share(i: usize, size: usize, count: usize) -> usize {
    (i as u128 * size as u128 / count as u128) as usize
}

/// Returns the sizes of this many last axes.
#[track_caller]
pub(super) fn last_sizes(function: &'static str, x: &Variable, axes: usize) -> Shape {
    let shape = x.shape();
    match shape.rank().checked_sub(axes) {
        Some(in_front) => Shape::from(&shape[in_front..]),
        None => mismatch(
            function,
            x,
            axes,
            format!("x must have at least {axes} axes"),
        ),
    }
}

/// Returns the sizes of the last `N` axes.
#[track_caller]
pub(super) fn last_axes<const N: usize>(function: &'static str, x: &Variable) -> [usize; N] {
    let sizes = last_sizes(function, x, N);
    sizes.dims().expect("as many as asked for")
}

#[cold]
#[track_caller]
pub(super) fn mismatch(
    function: &'static str,
    x: &Variable,
    axes: usize,
    must_hold: impl std::fmt::Display,
) -> ! {
    let name = match axes {
        1 => "x [.., l]",
        2 => "x [.., h, w]",
        3 => "x [.., d, h, w]",
        _ => "x",
    };
    crate::error::mismatch(function, &[(name, &x.spec())], must_hold)
}

/// Returns the shape of the results of windows.
pub(super) fn shape_of_windows(x: &Shape, stencil: &[Stencil]) -> Shape {
    let in_front = &x[..x.rank() - stencil.len()];
    let windows = stencil.iter().map(Stencil::count);
    in_front.iter().copied().chain(windows).collect()
}

/// Returns x with its batch axis before the axes of the windows, and the position of the batch
/// axis.
pub(super) fn batch_axes_before(x: Variable, axis: usize, axes: usize) -> (Variable, usize) {
    match axis < x.rank() - axes {
        true => (x, axis),
        false => (batch_in_front(x, axis), 0),
    }
}

/// Returns the example gradient of an input of windows over its last axes, whose cotangent
/// `transpose` computes.
pub(super) fn gradient_of_windows(
    x: &Shape,
    stencil: &[Stencil],
    gy: ExampleCotangent,
    transpose: impl FnOnce(Variable) -> Variable,
) -> ExampleGradient {
    let (axis, in_front) = (gy.examples.axis(), x.rank() - stencil.len());
    let examples = match axis.checked_sub(in_front) {
        None => Some(gy.examples),
        // Windows that do not overlap keep examples separate.
        Some(own) => {
            let stencil = &stencil[own];
            let seen = |window| stencil.of(window).map(|(position, _)| position);
            gy.examples
                .parted(axis, x[axis], (0..stencil.count()).map(seen))
        }
    };
    match examples {
        Some(examples) => ExampleGradient::sliced(transpose(gy.cotangent), examples),
        None => ExampleGradient::Mixed,
    }
}

/// The weighted sums of windows over the last axes.
#[derive(Clone, Debug)]
pub(super) struct WindowSum {
    name: &'static str,
    /// The name of the transpose.
    transposed: &'static str,
    stencil: Arc<[Stencil]>,
}

impl WindowSum {
    #[track_caller]
    pub(super) fn of(
        [name, transposed]: [&'static str; 2],
        stencil: Arc<[Stencil]>,
        x: Variable,
    ) -> Variable {
        let rule = Self {
            name,
            transposed,
            stencil,
        };
        Linear::of(rule, x)
    }
}

impl LinearRule for WindowSum {
    fn name(&self) -> &'static str {
        self.name
    }
    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        if !x.dtype.is_float() {
            return Err(Mismatch::new(&[("x", x)], "x must be of floats"));
        }
        Ok(Spec::new(
            shape_of_windows(&x.shape, &self.stencil),
            x.dtype,
        ))
    }
    fn takes_complex(&self) -> bool {
        false
    }

    fn forward(&self, x: Array) -> Array {
        x.reduce_window(&self.stencil)
    }
    fn transpose(&self, _: &Spec, gy: Variable) -> Variable {
        let stencil = self.stencil.iter().map(Stencil::transposed).collect();
        Self::of([self.transposed, self.name], stencil, gy)
    }
    fn batch(&self, x: Variable, axis: usize) -> Batched {
        let (x, axis) = batch_axes_before(x, axis, self.stencil.len());
        Batched::along(Linear::of(self.clone(), x), axis)
    }

    fn per_example(&self, x: &Spec, gy: ExampleCotangent) -> ExampleGradient {
        gradient_of_windows(&x.shape, &self.stencil, gy, |gy| self.transpose(x, gy))
    }
}

/// Computes a pooling by plain loops.
#[cfg(test)]
pub(super) fn reference(
    x: &Array,
    pooling: [&[usize]; 4],
    windows: &[usize],
    // Gets the elements of a window in row-major order with their positions, and the number that
    // counts.
    of_window: impl Fn(&[(f64, usize)], usize) -> f64,
) -> Array {
    let [kernel, stride, padding, dilation] = pooling;
    let axes = kernel.len();
    let (in_front, sizes) = x.shape().split_at(x.rank() - axes);
    let elements = x.to_vec::<f64>();
    let decoded = |mut i: usize, sizes: &[usize]| {
        let mut index = vec![0; sizes.len()];
        for axis in (0..sizes.len()).rev() {
            index[axis] = i % sizes[axis];
            i /= sizes[axis];
        }
        index
    };
    let own: usize = sizes.iter().product();
    let mut y = Vec::new();
    for block in 0..in_front.iter().product() {
        for window in 0..windows.iter().product() {
            let window = decoded(window, windows);
            let (mut seen, mut counted) = (Vec::new(), 0);
            for tap in 0..kernel.iter().product() {
                let tap = decoded(tap, kernel);
                let padded: Vec<usize> = (0..axes)
                    .map(|axis| window[axis] * stride[axis] + tap[axis] * dilation[axis])
                    .collect();
                if (0..axes).any(|axis| padded[axis] >= sizes[axis] + 2 * padding[axis]) {
                    continue;
                }
                counted += 1;
                let inside = |axis: usize| {
                    (padding[axis]..padding[axis] + sizes[axis]).contains(&padded[axis])
                };
                if (0..axes).all(inside) {
                    let position = (0..axes).fold(0, |at, axis| {
                        at * sizes[axis] + padded[axis] - padding[axis]
                    });
                    seen.push((elements[block * own + position], position));
                }
            }
            y.push(of_window(&seen, counted));
        }
    }
    let shape: Shape = in_front.iter().chain(windows).copied().collect();
    Array::from_vec(y, shape)
}
