//! The logarithm of a sum of exponentials.

use bibun_array::{Array, Axes, ops};

use super::reduction::Over;
use crate::batch::Batched;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::families::method;
use crate::functions::fused::fused;
use crate::functions::{equal, reshape, shift_over, shifted_exp, sum, to_float, where_};
use crate::variable::Variable;

/// Computes `log Σ exp x` over axes from the differences to the largest element, so that nothing
/// overflows.
///
/// Shapes: x any → without the axes, or with size 1 for them under
/// [`keep_dims`](bibun_array::keep_dims).
/// Types: floats; integers give f64.
/// Gradient: `gy softmax(x)`, however large x is; 0 to elements of -∞, even where all elements and
/// y are -∞; elements of ∞ share `gy` equally.
///
/// # Panics
/// Panics if there are no elements to add up, or there is no such axis.
///
/// ```
/// use bibun::{functions::logsumexp, Variable};
/// let x = Variable::new([[1000.0, 1000.0], [0.0, f64::NEG_INFINITY]]);
/// assert_eq!(logsumexp(&x, 1).to_vec::<f64>(), [1000.0 + 2f64.ln(), 0.0]);
/// ```
#[track_caller]
pub fn logsumexp(x: impl Into<Variable>, axes: impl Into<Axes>) -> Variable {
    let x = to_float(x.into());
    let over = Over::new("logsumexp", &axes.into(), &x);
    let [y] = crate::apply(LogSumExp { over }, [x]);
    y
}
method!(logsumexp, axes: impl Into<Axes>);

#[derive(Clone, PartialEq, Debug)]
struct LogSumExp {
    over: Over,
}

impl LogSumExp {
    /// Returns the exponential of each element divided by that of y, and the sum of these
    /// quotients, which would be 1 if y were not rounded.
    fn shares(&self, x: Variable, y: Variable) -> [Variable; 2] {
        // y is only a shift here: any other gives the same quotients and the same derivatives.
        let y = reshape(y, self.over.aligned(&x.shape())).detach();
        // If all elements are -∞, every share is 0; if some are ∞, the finite elements' shares are
        // 0.
        let y = where_(equal(&y, f64::NEG_INFINITY), 0.0, y);
        let shares = where_(equal(&x, f64::INFINITY), 0.0, x - y).exp_of_negative();
        let total = sum(&shares, self.over.kept_axes());
        let total = where_(equal(&total, 0.0), 1.0, total);
        [shares, total]
    }

    fn value(&self, [x]: [Array; 1]) -> [Array; 1] {
        let axes = self.over.kept_axes();
        let largest = shift_over(&x, &self.over.axes);
        // Infinity minus infinity would be NaN.
        let shift = largest.equal(f64::NEG_INFINITY).where_(0.0, &largest);
        let reduced = self.over.reduced(x.shape());
        let total = shifted_exp(x, shift.clone()).sum(axes);
        let y = ops::add(ops::log(total), shift);
        [y.reshape(reduced)]
    }
}

impl Function for LogSumExp {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "logsumexp"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(0).output(0)
    }

    fn shape(&self, [x]: [&Spec; 1]) -> Result<[Spec; 1], Mismatch> {
        self.over.of_something(x)
    }

    fn forward(&self, [x]: [Array; 1]) -> [Array; 1] {
        bibun_array::fused(self.clone(), [x], Self::value)
    }

    fn in_accumulator(&self) -> bool {
        true
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 1] {
        let values = [cx.input(0), cx.output(0), gy];
        fused(self.clone(), values, |own, [x, y, gy]| {
            let gy = reshape(gy, own.over.aligned(&x.shape()));
            let [shares, total] = own.shares(x, y);
            [shares * (gy / total)]
        })
        .map(Some)
    }

    fn jvp(&self, cx: &Context<'_>, [dx]: [Option<Variable>; 1]) -> [Option<Variable>; 1] {
        [dx.map(|dx| {
            let values = [cx.input(0), cx.output(0), dx];
            let [dy] = fused(self.clone(), values, |own, [x, y, dx]| {
                let shape = y.shape();
                let [shares, total] = own.shares(x, y);
                let dy = sum(shares * dx, own.over.kept_axes()) / total;
                [reshape(dy, shape)]
            });
            dy
        })]
    }

    fn batch(&self, x: [Batched; 1]) -> [Batched; 1] {
        let over = self.over.in_batch();
        Batched::in_front(Self { over }, x)
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
    let reference = |x: &[f64]| x.iter().map(|x| x.exp()).sum::<f64>().ln();
    reduction_samples(
        "logsumexp",
        -2.0..2.0,
        |x, axes| logsumexp(x, axes),
        reference,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transformations::{grad, jvp};
    use crate::{GradOptions, attempt, gradients_with, s};
    use bibun_array::DType;

    #[test]
    fn infinities_are_safe() {
        let low = f64::NEG_INFINITY;
        let x = Variable::new([[low, low], [low, 3.0], [0.0, f64::INFINITY]]);
        let y = logsumexp(&x, 1);
        assert_eq!(y.to_vec::<f64>(), [low, 3.0, f64::INFINITY]);
        let x = Variable::new([[low, low], [low, 3.0], [-1e4, 1e4]]);
        let total = logsumexp(&x, 1).sum(..);
        let first = gradients_with(&[&total], &[&x], GradOptions::new().create_graph());
        let first = first[0].clone().unwrap();
        assert_eq!(first.to_vec::<f64>(), [0.0, 0.0, 0.0, 1.0, 0.0, 1.0]);
        let second = gradients_with(
            &[&first.square().sum(..)],
            &[&x],
            GradOptions::new().create_graph(),
        );
        assert_eq!(second[0].as_ref().unwrap().to_vec::<f64>(), [0.0; 6]);
    }

    /// y is rounded to whole numbers there, and no exponential of a difference from it is a share
    /// by itself.
    #[test]
    fn gradients_of_large_numbers_are_shares() {
        let third = 1.0f32 / 3.0;
        for (x, shares) in [
            (vec![1e7f32, 1e7], vec![0.5, 0.5]),
            (vec![-1e7, -1e7, -1e7], vec![third; 3]),
            (vec![3e38, 3e38], vec![0.5, 0.5]),
            (vec![3e38, -3e38], vec![1.0, 0.0]),
            (vec![f32::INFINITY, 0.0], vec![1.0, 0.0]),
        ] {
            let x = Variable::new(Array::from(x));
            let ones = Variable::constant(Array::ones(x.shape(), DType::F32));
            let first = grad(|x| logsumexp(x, 0), &x).to_vec::<f32>();
            for (got, share) in first.iter().zip(&shares) {
                assert!((got - share).abs() < 1e-7, "{first:?}");
            }
            let (_, slope) = jvp(|x| logsumexp(x, 0), &x, &ones);
            assert!((slope.item::<f32>() - 1.0).abs() < 1e-6);
            let second = grad(|x| grad(|x| logsumexp(x, 0), x).slice(s![0]), &x);
            let [p, q] = [shares[0], shares[1]];
            let second = second.to_vec::<f32>();
            assert!((second[0] - p * (1.0 - p)).abs() < 1e-7, "{second:?}");
            assert!((second[1] + p * q).abs() < 1e-7, "{second:?}");
        }
    }

    #[test]
    fn nothing_has_no_sum_of_exponentials() {
        let nothing = Variable::new(Array::zeros([2, 0], DType::F64));
        assert!(attempt(|| logsumexp(&nothing, 1)).is_err());
        assert_eq!(logsumexp(&nothing, 0).shape(), [0]);
    }
}
