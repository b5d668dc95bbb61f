//! The largest and the smallest element over axes.

use bibun_array::{Array, Axes};

use super::reduction::Over;
use crate::batch::Batched;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::families::method;
use crate::functions::{cast, greater, less, logical_not, reshape, sum, where_};
use crate::variable::Variable;

/// Returns the maximum over axes; NaN if any element is NaN.
///
/// Shapes: x any → without the axes, or with size 1 for them under
/// [`keep_dims`](bibun_array::keep_dims).
/// Types: all.
/// Gradient: `gy` to the maximum; equal maxima share it equally.
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
/// Gradient: `gy` to the minimum; equal minima share it equally.
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

#[track_caller]
fn extreme(name: &'static str, x: Variable, axes: &Axes) -> Variable {
    let over = Over::new(name, axes, &x);
    let [y] = crate::apply(Extreme { name, over }, [x]);
    y
}

#[derive(Clone, Debug)]
struct Extreme {
    name: &'static str,
    over: Over,
}

impl Extreme {
    /// Returns which elements are less extreme than the result, and the number of those that are
    /// not, as floats. (Written so that NaN is not less than NaN.)
    fn others(&self, cx: &Context<'_>) -> (Variable, Variable) {
        let (x, y) = (cx.input(0), cx.output(0));
        let dtype = x.dtype();
        let y = reshape(y, self.over.aligned(cx.input_shape(0)));
        let others = match self.name {
            "max" => less(x, y),
            _ => greater(x, y),
        };
        let equal = sum(logical_not(&others), self.over.kept_axes());
        (others, cast(equal, dtype))
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
        let (others, count) = self.others(cx);
        let share = reshape(gy, count.shape()) / count;
        [Some(where_(others, 0.0, share))]
    }

    fn jvp(&self, cx: &Context<'_>, [dx]: [Option<Variable>; 1]) -> [Option<Variable>; 1] {
        [dx.map(|dx| {
            let (others, count) = self.others(cx);
            let total = sum(where_(others, 0.0, dx), self.over.kept_axes());
            reshape(total / count, cx.output_shape(0))
        })]
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

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::functions::reduction_samples;
    let largest = |x: &[f64]| x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let smallest = |x: &[f64]| x.iter().copied().fold(f64::INFINITY, f64::min);
    [
        reduction_samples("max", -2.0..2.0, |x, axes| max(x, axes), largest),
        reduction_samples("min", -2.0..2.0, |x, axes| min(x, axes), smallest),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::jvp;
    use crate::{attempt, gradients};
    use bibun_array::DType;

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
        let x = Variable::new([1.0, f64::NAN]);
        assert!(max(&x, ..).item::<f64>().is_nan());
        let x = Variable::new([f64::NEG_INFINITY, f64::NEG_INFINITY]);
        let y = max(&x, ..);
        assert_eq!(y.item::<f64>(), f64::NEG_INFINITY);
        let gradients = gradients(&[&y], &[&x]);
        assert_eq!(gradients[0].as_ref().unwrap().to_vec::<f64>(), [0.5, 0.5]);
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
