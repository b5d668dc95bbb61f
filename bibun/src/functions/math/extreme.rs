//! The largest and the smallest element over axes.

use bibun_array::{Array, Axes};

use super::reduction::Over;
use crate::batch::Batched;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::families::method;
use crate::functions::fused::fused;
use crate::functions::{cast, equal, greater, less, logical_not, reshape, sum, where_};
use crate::variable::Variable;

/// Returns the maximum over axes; NaN if any element is NaN.
///
/// Shapes: x any → without the axes, or with size 1 for them under
/// [`keep_dims`](bibun_array::keep_dims).
/// Types: all.
/// Gradient: `gy` to the maximum; equal maxima share it equally. NaN to all elements if the maximum is NaN.
///
/// # Panics
/// Panics if there are no elements to choose from, or there is no such axis.
///
/// ```
/// use bibun::{functions::max, Variable};
/// let x = Variable::new([[1.0, 5.0, 5.0], [3.0, 2.0, 0.0]]);
/// let y = max(&x, 1);
/// assert_eq!(y.to_vec::<f64>(), [5.0, 3.0]);
/// y.sum(..).backward();
/// assert_eq!(x.grad().unwrap().to_vec::<f64>(), [0.0, 0.5, 0.5, 1.0, 0.0, 0.0]);
/// ```
#[track_caller]
pub fn max(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    extreme("max", x.into(), &axes.into())
}
method!(max, axes: impl Into<Axes>);

/// Returns the minimum over axes; NaN if any element is NaN.
///
/// Shapes: x any → without the axes, or with size 1 for them under
/// [`keep_dims`](bibun_array::keep_dims).
/// Types: all.
/// Gradient: `gy` to the minimum; equal minima share it equally. NaN to all elements if the minimum is NaN.
///
/// # Panics
/// Panics if there are no elements to choose from, or there is no such axis.
///
/// ```
/// use bibun::{functions::min, Variable};
/// let x = Variable::new([[1.0, 5.0], [3.0, 2.0]]);
/// assert_eq!(min(&x, ..).item::<f64>(), 1.0);
/// ```
#[track_caller]
pub fn min(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    extreme("min", x.into(), &axes.into())
}
method!(min, axes: impl Into<Axes>);

/// Returns the minimum and the maximum over axes, in one function; both are NaN if any element is
/// NaN.
///
/// Shapes: x any → two results without the axes, or with size 1 for them under
/// [`keep_dims`](bibun_array::keep_dims).
/// Types: all.
/// Gradient: that of the first result to the minimum, that of the second to the maximum; equal ones
/// share it equally.
///
/// Source: `torch.aminmax`.
///
/// # Panics
/// Panics if there are no elements to choose from, or there is no such axis.
///
/// ```
/// use bibun::{functions::aminmax, Variable};
/// let x = Variable::new([[1.0, 5.0, 5.0], [3.0, 2.0, 0.0]]);
/// let [least, most] = aminmax(&x, 1);
/// assert_eq!(least.to_vec::<f64>(), [1.0, 0.0]);
/// assert_eq!(most.to_vec::<f64>(), [5.0, 3.0]);
/// (most - least).sum(..).backward();
/// assert_eq!(x.grad().unwrap().to_vec::<f64>(), [-1.0, 0.5, 0.5, 1.0, 0.0, -1.0]);
/// ```
#[track_caller]
pub fn aminmax(x: impl Into<Variable>, axes: impl Into<Axes>) -> [Variable; 2] {
    let x = x.into();
    let over = Over::new("aminmax", &axes.into(), &x);
    crate::apply(AMinMax { over }, [x])
}
method!(aminmax -> [Self; 2], axes: impl Into<Axes>);

#[track_caller]
fn extreme(name: &'static str, x: Variable, axes: &Axes) -> Variable {
    let over = Over::new(name, axes, &x);
    let [y] = crate::apply(Extreme { name, over }, [x]);
    y
}

#[derive(Clone, PartialEq, Debug)]
struct Extreme {
    name: &'static str,
    over: Over,
}

impl Extreme {
    fn is_maximum(&self) -> bool {
        self.name == "max"
    }
}

/// The elements that a result was chosen from: those that are equal to it.
struct Chosen<'a> {
    over: &'a Over,
    /// The elements that are less extreme than the result.
    others: Variable,
    /// The number of those that are not, as floats that hold it; NaN where the result is.
    count: Variable,
}

/// Returns the number of elements that an extreme was chosen from, or NaN where that is NaN, so that it is not hidden in
/// derivatives.
pub(in crate::functions) fn if_number(extreme: &Variable, count: Variable) -> Variable {
    where_(equal(extreme, extreme), count, f64::NAN)
}

impl<'a> Chosen<'a> {
    /// Finds the elements equal to a result, which is a maximum or a minimum.
    fn new(over: &'a Over, is_maximum: bool, x: &Variable, y: Variable) -> Self {
        let y = reshape(y, over.aligned(&x.shape()));
        // Written so that NaN is not less than NaN.
        let others = match is_maximum {
            true => less(x, &y),
            false => greater(x, &y),
        };
        // PERF: floats, because their sums are part of the pass that makes them.
        let ones = cast(logical_not(&others), x.dtype().accumulator());
        let count = if_number(&y, sum(ones, over.kept_axes()));
        Self {
            over,
            others,
            count,
        }
    }

    /// Gives equal shares of the output's cotangent to the elements.
    fn vjp(self, gy: Variable) -> Variable {
        let dtype = gy.dtype();
        let gy = cast(reshape(gy, self.count.shape()), self.count.dtype());
        where_(self.others, 0.0, cast(gy / self.count, dtype))
    }

    /// Returns the mean of the elements' tangents.
    fn jvp(self, dx: Variable) -> Variable {
        let dtype = dx.dtype();
        let chosen = cast(where_(self.others, 0.0, dx), self.count.dtype());
        let total = sum(chosen, self.over.kept_axes());
        let mean = cast(total / self.count, dtype);
        let shape = self.over.reduced(&mean.shape());
        reshape(mean, shape)
    }
}

impl Function for Extreme {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        self.name
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(0).output(0)
    }

    fn shape(&self, [x]: [&Spec; 1]) -> Result<[Spec; 1], Mismatch> {
        self.over.of_something(x)
    }

    fn forward(&self, [x]: [Array; 1]) -> [Array; 1] {
        [match self.name {
            "max" => x.max(self.over.axes()),
            _ => x.min(self.over.axes()),
        }]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 1] {
        let values = [cx.input(0), cx.output(0), gy];
        fused(self.clone(), values, |own, [x, y, gy]| {
            [Chosen::new(&own.over, own.is_maximum(), &x, y).vjp(gy)]
        })
        .map(Some)
    }

    fn jvp(&self, cx: &Context<'_>, [dx]: [Option<Variable>; 1]) -> [Option<Variable>; 1] {
        let values = dx.map(|dx| [cx.input(0), cx.output(0), dx]);
        let dy = values.map(|values| {
            fused(self.clone(), values, |own, [x, y, dx]| {
                [Chosen::new(&own.over, own.is_maximum(), &x, y).jvp(dx)]
            })
        });
        [dy.map(|[dy]| dy)]
    }

    fn batch(&self, x: [Batched; 1]) -> [Batched; 1] {
        let over = self.over.in_batch();
        Batched::in_front(Self { over, ..*self }, x)
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 1] {
        let examples = self.over.examples(cx.input_shape(0), &gy.examples);
        ExampleCotangent { examples, ..gy }.pull_back(|gy| self.vjp(cx, [gy]))
    }
}

/// The minimum and the maximum.
#[derive(Clone, Debug)]
struct AMinMax {
    over: Over,
}

impl AMinMax {
    fn chosen(&self, cx: &Context<'_>) -> [Chosen<'_>; 2] {
        let x = &cx.input(0);
        [0, 1].map(|output| Chosen::new(&self.over, output == 1, x, cx.output(output)))
    }
}

impl Function for AMinMax {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<2>;

    fn name(&self) -> &'static str {
        "aminmax"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(0).output(0).output(1)
    }

    fn shape(&self, [x]: [&Spec; 1]) -> Result<[Spec; 2], Mismatch> {
        let [y] = self.over.of_something(x)?;
        Ok([y.clone(), y])
    }

    fn forward(&self, [x]: [Array; 1]) -> [Array; 2] {
        [x.min(self.over.axes()), x.max(self.over.axes())]
    }

    fn vjp(&self, cx: &Context<'_>, gy: [Variable; 2]) -> [Option<Variable>; 1] {
        let [least, most] = self.chosen(cx);
        let [of_least, of_most] = gy;
        [Some(least.vjp(of_least) + most.vjp(of_most))]
    }

    fn jvp(&self, cx: &Context<'_>, [dx]: [Option<Variable>; 1]) -> [Option<Variable>; 2] {
        match dx {
            Some(dx) => self.chosen(cx).map(|chosen| Some(chosen.jvp(dx.clone()))),
            None => [None, None],
        }
    }

    fn batch(&self, x: [Batched; 1]) -> [Batched; 2] {
        let over = self.over.in_batch();
        Batched::in_front(Self { over }, x)
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        gy: [ExampleCotangent; 2],
    ) -> [Option<ExampleGradient>; 1] {
        let [least, most] = gy;
        // Each slice of x may reach both results.
        let Some(examples) = least.examples.merged(&most.examples) else {
            return [Some(ExampleGradient::Unknown)];
        };
        let examples = self.over.examples(cx.input_shape(0), &examples);
        let [gx] = self.vjp(cx, [least.cotangent, most.cotangent]);
        [gx.map(|gx| ExampleGradient::sliced(gx, examples))]
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use crate::functions::{over_axes, reduction_samples};
    use bibun_array::keep_dims;
    let largest = |x: &[f64]| x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let smallest = |x: &[f64]| x.iter().copied().fold(f64::INFINITY, f64::min);
    let both = |shape: &[usize], axes: Axes, own: &'static [usize], keep: bool| {
        Sample::new(
            "aminmax",
            move |x| aminmax(&x[0], axes.clone()).to_vec(),
            move |x| {
                let least = over_axes(&x[0], own, keep, smallest);
                vec![least, over_axes(&x[0], own, keep, largest)]
            },
        )
        .input(shape, -2.0..2.0)
    };
    let mut samples = [
        reduction_samples("max", -2.0..2.0, |x, axes| max(x, axes), largest),
        reduction_samples("min", -2.0..2.0, |x, axes| min(x, axes), smallest),
    ]
    .concat();
    samples.extend([
        both(&[2, 3], Axes::from(..), &[0, 1], false),
        both(&[2, 3], Axes::from(0), &[0], false),
        both(&[2, 1, 3], Axes::from(1), &[1], false),
        both(&[2, 3, 2], keep_dims(1), &[1], true),
    ]);
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::jvp;
    use crate::{attempt, gradients};
    use bibun_array::DType;

    /// More than half-precision floats can count.
    #[test]
    fn many_equal_elements_of_16_bits_share_equally() {
        const COUNT: usize = 70_000;
        for dtype in [DType::F16, DType::BF16] {
            let x = Variable::new(Array::ones([2, COUNT], dtype));
            let ones = Variable::constant(Array::ones([2, COUNT], dtype));
            for y in [max(&x, 1), aminmax(&x, 1)[0].clone()] {
                let gx = gradients(&[&(y * 35_000.0).sum(..)], &[&x]);
                let gx = gx[0].as_ref().unwrap().array().cast(DType::F64);
                assert_eq!(
                    [gx.min(..), gx.max(..)].map(|gx| gx.item::<f64>()),
                    [0.5; 2]
                );
            }
            let both: [fn(&Variable) -> Variable; 2] =
                [|x| max(x, 1), |x| aminmax(x, 1)[1].clone()];
            for f in both {
                let (_, dy) = jvp(|x| vec![f(&x[0])], &[x.clone()], &[ones.clone()]);
                let dy = dy[0].as_ref().unwrap().array().cast(DType::F64);
                assert_eq!(dy.to_vec::<f64>(), [1.0, 1.0]);
            }
        }
    }

    #[test]
    fn equal_elements_share_equally_in_both_directions() {
        let x = Variable::new([[2.0, 2.0, 1.0], [3.0, 3.0, 3.0]]);
        let y = min(&x, 0) * Variable::constant([1.0, 2.0, 4.0]);
        let gx = gradients(&[&y.sum(..)], &[&x]);
        let expected = [1.0, 2.0, 4.0, 0.0, 0.0, 0.0];
        assert_eq!(gx[0].as_ref().unwrap().to_vec::<f64>(), expected);
        let gx = gradients(&[&(max(&x, ..) * 6.0)], &[&x]);
        assert_eq!(
            gx[0].as_ref().unwrap().to_vec::<f64>(),
            [0.0, 0.0, 0.0, 2.0, 2.0, 2.0]
        );
        let tangent = Variable::constant([[1.0, 3.0, 0.0], [1.0, 2.0, 6.0]]);
        let (_, dy) = jvp(|x| vec![max(&x[0], 1)], &[x], &[tangent]);
        assert_eq!(dy[0].as_ref().unwrap().to_vec::<f64>(), [2.0, 3.0]);
    }

    #[test]
    fn nan_propagates_and_infinity_counts() {
        let x = Variable::new([[1.0, f64::NAN], [2.0, 3.0]]);
        for extreme in [max(&x, 1), min(&x, 1)] {
            assert!(extreme.to_vec::<f64>()[0].is_nan());
            let gradients = gradients(&[&extreme.sum(..)], &[&x]);
            let gx = gradients[0].as_ref().unwrap().to_vec::<f64>();
            assert!(gx[0].is_nan() && gx[1].is_nan());
            assert_eq!(gx[2] + gx[3], 1.0);
        }
        let x = Variable::new([f64::NEG_INFINITY, f64::NEG_INFINITY]);
        let y = max(&x, ..);
        assert_eq!(y.item::<f64>(), f64::NEG_INFINITY);
        let gradients = gradients(&[&y], &[&x]);
        assert_eq!(gradients[0].as_ref().unwrap().to_vec::<f64>(), [0.5, 0.5]);
    }

    #[test]
    fn both_extremes_are_those_of_min_and_max() {
        let x = Variable::new([[2.0, 2.0, 1.0], [3.0, f64::NAN, 3.0], [4.0, 4.0, 4.0]]);
        let [least, most] = aminmax(&x, 1);
        let bits = |y: &Variable| y.to_vec::<f64>().into_iter().map(f64::to_bits);
        assert!(bits(&least).eq(bits(&min(&x, 1))));
        assert!(bits(&most).eq(bits(&max(&x, 1))));
        let total = (&least * 6.0 + &most * 12.0)
            .slice(crate::s![..; 2])
            .sum(..);
        let gx = gradients(&[&total], &[&x]);
        let gx = gx[0].as_ref().unwrap().slice(crate::s![..; 2]);
        assert_eq!(gx.to_vec::<f64>(), [6.0, 6.0, 6.0, 6.0, 6.0, 6.0]);
        // One result alone.
        let gx = gradients(&[&aminmax(&x, 1)[1].slice(crate::s![0])], &[&x]);
        let gx = gx[0].as_ref().unwrap().slice(crate::s![0]);
        assert_eq!(gx.to_vec::<f64>(), [0.5, 0.5, 0.0]);
        let x = Variable::constant([true, false]);
        let found = aminmax(&x, 0).map(|y| y.item::<bool>());
        assert_eq!(found, [false, true]);
    }

    #[test]
    fn whole_numbers_have_extremes_and_nothing_has_none() {
        let x = Variable::constant([3i64, -1]);
        assert_eq!(
            (max(&x, 0).item::<i64>(), min(&x, 0).item::<i64>()),
            (3, -1)
        );
        let nothing = Variable::new(Array::zeros([2, 0], DType::F64));
        let message = attempt(|| max(&nothing, 1)).unwrap_err().to_string();
        assert!(message.contains("something over axes [1]"), "{message}");
        assert_eq!(max(&nothing, 0).shape(), [0]);
    }
}
