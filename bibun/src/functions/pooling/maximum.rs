//! Max pooling.

use std::sync::Arc;

use bibun_array::{Array, DType, Shape, Stencil};

use crate::batch::Batched;
use crate::call::composite;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::families::method;
use crate::functions::pooling::average::axes_of_channels;
use crate::functions::pooling::window::{
    Pooling, adaptive_stencil, batch_axes_before, gradient_of_windows, shape_of_windows,
};
use crate::functions::{gather, max, reshape, scatter_add};
use crate::variable::Variable;

/// Computes the maxima of windows over the last axes, `y[.., o] = maxⱼ x[.., o s + j d − p]`.
///
/// The kernel has one size for each of these axes. Padding is never the maximum; NaN always is.
///
/// Shapes: x `[.., h, w]` → `[.., (h + 2p − (k − 1)d − 1)/s + 1, ..]`, rounded down, or up with
/// [`Pooling::ceil_mode`]; likewise over one, three or more axes.
/// Types: all.
/// Gradient: `gy` of each window to its maximum, the first of equal ones. (With [`max`], equal
/// maxima share it. Here a window saves one position, so that the cost of the gradient is
/// proportional to the number of windows and not to their sizes.)
///
/// # Panics
/// Panics if a window covers nothing but padding or x has too few axes, or if a size of the kernel,
/// a stride or a dilation is 0, or if there are several strides, paddings or dilations, but not one
/// for each axis.
///
/// ```
/// use bibun::{functions::max_pool, Variable};
/// let x = Variable::new([[1.0, 2.0, 3.0, 3.0], [5.0, 0.0, 3.0, 1.0]]);
/// let y = max_pool(&x, [2, 2]);
/// assert_eq!(y.to_vec::<f64>(), [5.0, 3.0]);
/// y.sum(..).backward();
/// assert_eq!(x.grad().unwrap().to_vec::<f64>(), [0.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0]);
/// ```
#[track_caller]
pub fn max_pool(x: impl Into<Variable>, pooling: impl Into<Pooling>) -> Variable {
    max_pool_with_indices(x, pooling).0
}
method!(max_pool, pooling: impl Into<Pooling>);

/// Computes [`max_pool`] and the positions of the maxima, which are counted in row-major order over
/// the axes of the windows.
///
/// Shapes: x `[.., h, w]` → two results, both of the shape of [`max_pool`].
/// Types: all; positions are i64.
/// Gradient: that of [`max_pool`]; the positions have none.
///
/// # Panics
/// Panics as [`max_pool`] does.
///
/// ```
/// use bibun::{functions::max_pool_with_indices, Variable};
/// let x = Variable::new([[1.0, 2.0], [5.0, 0.0]]);
/// let (y, positions) = max_pool_with_indices(&x, [2, 2]);
/// assert_eq!((y.item::<f64>(), positions.item::<i64>()), (5.0, 2));
/// ```
#[track_caller]
pub fn max_pool_with_indices(
    x: impl Into<Variable>,
    pooling: impl Into<Pooling>,
) -> (Variable, Variable) {
    let x = x.into();
    let stencil = pooling.into().stencil("max_pool", &x);
    MaxPool::of("max_pool", stencil, x)
}

/// Computes the maxima of the given number of windows along each of the last axes, which cover the
/// axis.
///
/// Window i of o along an axis of n covers the elements from `⌊i n / o⌋` to before
/// `⌈(i + 1) n / o⌉`.
///
/// Shapes: x `[.., h, w]` → `[.., windows]`, over one, two or more axes.
/// Types: all.
/// Gradient: that of [`max_pool`].
///
/// # Panics
/// Panics if a window would be empty, or x has too few axes.
///
/// ```
/// use bibun::{functions::adaptive_max_pool, Variable};
/// let x = Variable::new([1.0, 2.0, 3.0, 2.0, 1.0]);
/// assert_eq!(adaptive_max_pool(&x, [2]).to_vec::<f64>(), [3.0, 3.0]);
/// ```
#[track_caller]
pub fn adaptive_max_pool(x: impl Into<Variable>, windows: impl Into<Shape>) -> Variable {
    let x = x.into();
    let stencil = adaptive_stencil("adaptive_max_pool", &x, &windows.into());
    MaxPool::of("adaptive_max_pool", stencil, x).0
}

/// Computes the maximum of each channel: [`max`] over all axes after the second.
///
/// Shapes: x `[n, c, ..]` → `[n, c]`.
/// Types: all.
/// Gradient: that of [`max`].
///
/// # Panics
/// Panics if x has fewer than three axes, or channels without elements.
///
/// ```
/// use bibun::{functions::global_max_pool, Variable};
/// let x = Variable::new([[[1.0, 2.0, 6.0], [4.0, 7.0, 6.0]]]);
/// assert_eq!(global_max_pool(&x).to_vec::<f64>(), [6.0, 7.0]);
/// ```
#[track_caller]
pub fn global_max_pool(x: impl Into<Variable>) -> Variable {
    let _whole = composite("global_max_pool");
    let x = x.into();
    let axes = axes_of_channels("global_max_pool", &x);
    max(x, &axes[..])
}

/// The maxima of windows over the last axes, and their positions.
#[derive(Clone, Debug)]
struct MaxPool {
    name: &'static str,
    stencil: Arc<[Stencil]>,
}

impl MaxPool {
    #[track_caller]
    fn of(name: &'static str, stencil: Arc<[Stencil]>, x: Variable) -> (Variable, Variable) {
        let [y, positions] = crate::apply(Self { name, stencil }, [x]);
        (y, positions)
    }

    /// Returns the shape with the axes of the windows merged into one.
    fn folded(&self, shape: &Shape) -> Shape {
        let (in_front, own) = shape.split_at(shape.rank() - self.stencil.len());
        let own: usize = own.iter().product();
        in_front.iter().copied().chain([own]).collect()
    }
}

impl Function for MaxPool {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<2>;

    fn name(&self) -> &'static str {
        self.name
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.output(1)
    }

    fn shape(&self, [x]: [&Spec; 1]) -> Result<[Spec; 2], Mismatch> {
        let shape = shape_of_windows(&x.shape, &self.stencil);
        Ok([x.dtype, DType::I64].map(|dtype| Spec::new(&shape, dtype)))
    }

    fn forward(&self, [x]: [Array; 1]) -> [Array; 2] {
        let (y, positions) = x.window_max(&self.stencil);
        [y, positions]
    }

    fn vjp(&self, cx: &Context<'_>, [gy, _]: [Variable; 2]) -> [Option<Variable>; 1] {
        let windows = self.folded(cx.output_shape(0));
        let (x, dtype) = (cx.input_shape(0), gy.dtype());
        let zeros = Variable::constant(Array::zeros(self.folded(x), dtype));
        let positions = reshape(cx.output(1), &windows);
        let gx = scatter_add(zeros, positions, -1, reshape(gy, &windows));
        [Some(reshape(gx, x))]
    }

    fn jvp(&self, cx: &Context<'_>, [dx]: [Option<Variable>; 1]) -> [Option<Variable>; 2] {
        let dy = dx.map(|dx| {
            let y = cx.output_shape(0);
            let positions = reshape(cx.output(1), self.folded(y));
            let dx = reshape(dx, self.folded(cx.input_shape(0)));
            reshape(gather(dx, positions, -1), y)
        });
        [dy, None]
    }

    fn batch(&self, x: [Batched; 1]) -> [Batched; 2] {
        let (x, axis) = Batched::mapped(x);
        let (x, axis) = batch_axes_before(x, axis, self.stencil.len());
        crate::apply(self.clone(), [x]).map(|y| Batched::along(y, axis))
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy, gi]: [ExampleCotangent; 2],
    ) -> [Option<ExampleGradient>; 1] {
        let x = cx.input_shape(0);
        [Some(gradient_of_windows(x, &self.stencil, gy, |gy| {
            let [gx] = self.vjp(cx, [gy, gi.cotangent]);
            gx.expect("there is only one input")
        }))]
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::window::reference;
    use crate::conformance::Sample;

    fn largest(seen: &[(f64, usize)]) -> (f64, usize) {
        seen.iter()
            .copied()
            .reduce(|a, b| if b.0 > a.0 { b } else { a })
            .expect("an element")
    }
    fn largest_of(x: &Array, pooling: [&[usize]; 4], windows: &[usize]) -> Array {
        reference(x, pooling, windows, |seen, _| largest(seen).0)
    }
    let range = -2.0..2.0;
    vec![
        Sample::new(
            "max_pool",
            |x| vec![max_pool(&x[0], Pooling::new([3]).stride(2))],
            |x| vec![largest_of(&x[0], [&[3], &[2], &[0], &[1]], &[2])],
        )
        .input([2, 6], range.clone()),
        Sample::new(
            "max_pool_with_indices",
            |x| {
                let pooling = Pooling::new([3, 2]).stride([2, 1]).padding([1, 1]);
                let (y, positions) = max_pool_with_indices(&x[0], pooling);
                vec![y, positions]
            },
            |x| {
                let pooling: [&[usize]; 4] = [&[3, 2], &[2, 1], &[1, 1], &[1, 1]];
                let positions = |seen: &[(f64, usize)], _| largest(seen).1 as f64;
                let positions = reference(&x[0], pooling, &[3, 4], positions);
                vec![
                    largest_of(&x[0], pooling, &[3, 4]),
                    positions.cast(DType::I64),
                ]
            },
        )
        .input([2, 1, 5, 3], range.clone()),
        Sample::new(
            "max_pool",
            |x| {
                let pooling = Pooling::new([2, 2]).stride([2, 3]).padding([0, 1]);
                vec![max_pool(&x[0], pooling.dilation([1, 2]).ceil_mode(true))]
            },
            |x| {
                vec![largest_of(
                    &x[0],
                    [&[2, 2], &[2, 3], &[0, 1], &[1, 2]],
                    &[3, 2],
                )]
            },
        )
        .input([3, 5, 4], range.clone()),
        Sample::new(
            "max_pool",
            |x| {
                let pooling = Pooling::new([2, 1, 2]).stride([3, 1, 2]).padding([1, 0, 0]);
                vec![max_pool(&x[0], pooling.ceil_mode(true))]
            },
            |x| {
                let pooling: [&[usize]; 4] = [&[2, 1, 2], &[3, 1, 2], &[1, 0, 0], &[1, 1, 1]];
                vec![largest_of(&x[0], pooling, &[2, 2, 2])]
            },
        )
        .input([2, 4, 2, 3], range.clone()),
        // The only window is longer than the axis.
        Sample::new(
            "max_pool",
            |x| {
                vec![max_pool(
                    &x[0],
                    Pooling::new([6]).stride([3]).ceil_mode(true),
                )]
            },
            |x| vec![largest_of(&x[0], [&[6], &[3], &[0], &[1]], &[1])],
        )
        .input([2, 4], range.clone()),
        Sample::new(
            "adaptive_max_pool",
            |x| vec![adaptive_max_pool(&x[0], [3, 2])],
            |x| {
                let at = |b, i, j| x[0].element(&[b, i, j]).to_f64();
                let mut y = Vec::new();
                for b in 0..2 {
                    for rows in [0..2, 1..4, 3..5] {
                        for columns in [0..2, 1..3] {
                            let pairs = rows
                                .clone()
                                .flat_map(|i| columns.clone().map(move |j| (i, j)));
                            let elements = pairs.map(|(i, j)| at(b, i, j));
                            y.push(elements.fold(f64::NEG_INFINITY, f64::max));
                        }
                    }
                }
                vec![Array::from_vec(y, [2, 3, 2])]
            },
        )
        .input([2, 5, 3], range.clone()),
        Sample::new(
            "global_max_pool",
            |x| vec![global_max_pool(&x[0])],
            |x| {
                let rows = x[0].to_vec::<f64>();
                let largest = rows
                    .chunks(6)
                    .map(|row| row.iter().copied().fold(f64::MIN, f64::max));
                vec![Array::from_vec(largest.collect(), [2, 3])]
            },
        )
        .input([2, 3, 2, 3], range),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::jvp;
    use crate::{attempt, gradients};

    #[test]
    fn a_window_over_no_axes_is_an_element() {
        let x = Variable::new([[1.0, -2.0]]);
        let none = Vec::<usize>::new;
        let y = max_pool(&x, none());
        assert_eq!(y.to_vec::<f64>(), [1.0, -2.0]);
        y.sum(..).backward();
        assert_eq!(x.grad().unwrap().to_vec::<f64>(), [1.0, 1.0]);
        assert_eq!(adaptive_max_pool(&x, none()).to_vec::<f64>(), [1.0, -2.0]);
    }

    #[test]
    fn same_padding_is_that_of_convolutions() {
        use crate::functions::{PoolingPadding, avg_pool};
        let x = Variable::new([[4.0, 1.0, 2.0, 3.0, 5.0]]);
        // One in front and one behind: windows around 0, 2 and 4.
        let pooling = Pooling::new([3]).stride(2).padding(PoolingPadding::Same);
        assert_eq!(max_pool(&x, pooling).to_vec::<f64>(), [4.0, 3.0, 5.0]);
        // One behind only.
        let pooling = Pooling::new([2]).stride(1).padding(PoolingPadding::Same);
        assert_eq!(
            max_pool(&x, &pooling).to_vec::<f64>(),
            [4.0, 2.0, 3.0, 5.0, 5.0]
        );
        let y = avg_pool(&x, pooling.count_include_pad(false));
        assert_eq!(y.to_vec::<f64>(), [2.5, 1.5, 2.5, 4.0, 5.0]);
        let pooling = Pooling::new([2]).padding([(1, 0)]);
        assert_eq!(max_pool(&x, pooling).to_vec::<f64>(), [4.0, 2.0, 5.0]);
    }

    #[test]
    fn of_equal_elements_the_first_is_taken_in_both_directions() {
        // In row-major order the 3 of the first row comes before that of the first column.
        let x = Variable::new([[1.0, 3.0], [3.0, 3.0]]);
        let (y, positions) = max_pool_with_indices(&x, [2, 2]);
        assert_eq!((y.item::<f64>(), positions.item::<i64>()), (3.0, 1));
        let gx = gradients(&[&y], &[&x]);
        let gx = gx[0].as_ref().expect("a gradient").to_vec::<f64>();
        assert_eq!(gx, [0.0, 1.0, 0.0, 0.0]);
        let tangent = Variable::constant([[1.0, 10.0], [100.0, 1000.0]]);
        let (_, dy) = jvp(|x| vec![max_pool(&x[0], [2, 2])], &[x], &[tangent]);
        assert_eq!(dy[0].as_ref().expect("a tangent").item::<f64>(), 10.0);
    }

    #[test]
    fn nan_is_largest_and_minus_infinity_is_larger_than_padding() {
        let x = Variable::new([[1.0, f64::NAN], [f64::NAN, 3.0]]);
        let (y, positions) = max_pool_with_indices(&x, [2, 2]);
        assert!(y.item::<f64>().is_nan());
        assert_eq!(positions.item::<i64>(), 1);
        let x = Variable::new([f64::NEG_INFINITY, f64::NEG_INFINITY]);
        let (y, positions) = max_pool_with_indices(&x, Pooling::new([3]).stride(1).padding(1));
        assert_eq!(y.to_vec::<f64>(), [f64::NEG_INFINITY; 2]);
        assert_eq!(positions.to_vec::<i64>(), [0, 0]);
    }

    #[test]
    fn whole_numbers_and_no_examples_are_pooled() {
        let y = max_pool(Variable::constant([3i64, -1, -7, -2]), 2);
        assert_eq!(y.to_vec::<i64>(), [3, -2]);
        let x = Variable::new(Array::zeros([2, 0, 4, 4], DType::F32));
        let y = max_pool(&x, [3, 3]);
        assert_eq!(y.shape(), [2, 0, 1, 1]);
        let gx = gradients(&[&y.sum(..)], &[&x]);
        assert_eq!(gx[0].as_ref().expect("a gradient").shape(), x.shape());
    }

    #[test]
    fn overlapping_windows_add_up_in_f32() {
        let x = Variable::new([0.0f32, 2.0, 1.0]);
        let y = max_pool(&x, Pooling::new([2]).stride(1));
        let gx = gradients(&[&y.sum(..)], &[&x]);
        let gx = gx[0].as_ref().expect("a gradient").to_vec::<f32>();
        assert_eq!(gx, [0.0, 2.0, 0.0]);
    }

    #[test]
    fn mistakes_are_named() {
        let x = Variable::new(Array::zeros([2, 3], DType::F64));
        let text = attempt(|| max_pool(&x, Pooling::new([2, 2]).padding([2, 0])));
        let text = text.unwrap_err().to_string();
        assert!(text.starts_with("max_pool: inputs do not fit"), "{text}");
        assert!(text.contains("x [.., h, w] = [2, 3] f64"), "{text}");
        assert!(text.contains("must see at least one element"), "{text}");
        // Of the dilated window's taps, one hits the only element.
        let one = Variable::new(Array::zeros([1], DType::F64));
        assert!(attempt(|| max_pool(&one, Pooling::new([2]).dilation(2).padding(1))).is_err());
        assert!(attempt(|| global_max_pool(&x)).is_err());
        // Beyond the axis by as much as the stride.
        let long = |stride: usize| Pooling::new([5]).stride([stride]).ceil_mode(true);
        assert_eq!(max_pool(&x, long(3)).shape(), [2, 1]);
        assert!(attempt(|| max_pool(&x, long(2))).is_err());
    }
}
