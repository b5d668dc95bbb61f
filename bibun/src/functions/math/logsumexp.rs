//! The logarithm of a sum of exponentials.

use bibun_array::{Array, Axes, ops};

use super::reduction::Over;
use crate::batch::Batched;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::families::{call, method};
use crate::functions::fused::fused;
use crate::functions::{
    ShiftedExp, cast, equal, reshape, shift_over, shifted_exp, sum, to_float_of, where_,
};
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
    let x = to_float_of("logsumexp", x.into());
    let over = Over::new("logsumexp", &axes.into(), &x);
    let [y, _, _] = crate::apply(LogSumExp { over }, [x]);
    y
}
method!(logsumexp, axes: impl Into<Axes>);

/// The logarithm and, for the derivatives, `Σ exp(x - shift)` and the shift. The shift cancels in
/// `exp(x - shift) / Σ exp(x - shift)`, and so counts as a constant.
#[derive(Clone, PartialEq, Debug)]
struct LogSumExp {
    over: Over,
}

impl LogSumExp {
    /// Returns `exp(x - shift)`.
    fn exponentials(&self, x: &Variable, shift: Variable) -> Variable {
        let shift = reshape(shift, self.over.aligned(&x.shape())).broadcast_to(x.shape());
        call(ShiftedExp::function(), &[], [x.clone(), shift])
    }

    fn value(&self, [x]: [Array; 1]) -> [Array; 3] {
        let largest = shift_over(&x, &self.over.axes);
        // Infinity minus infinity would be NaN.
        let shift = largest.equal(f64::NEG_INFINITY).where_(0.0, &largest);
        let total = shifted_exp(x.clone(), shift.clone()).sum(self.over.kept_axes());
        let y = ops::add(ops::log(total.clone()), shift.clone());
        let reduced = self.over.reduced(x.shape());
        [y, total, shift].map(|y| y.reshape(reduced.clone()))
    }
}

impl Function for LogSumExp {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<3>;

    fn name(&self) -> &'static str {
        "logsumexp"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(0).output(1).output(2)
    }

    fn shape(&self, [x]: [&Spec; 1]) -> Result<[Spec; 3], Mismatch> {
        let [y] = self.over.of_something(x)?;
        // A sum of many is beyond the range of 16 bits.
        let total = Spec::new(&y.shape, x.dtype.accumulator());
        Ok([y.clone(), total, y])
    }

    fn forward(&self, [x]: [Array; 1]) -> [Array; 3] {
        bibun_array::fused(self.clone(), [x], Self::value)
    }

    fn in_accumulator(&self) -> bool {
        true
    }

    fn vjp(&self, cx: &Context<'_>, [gy, g_total, _]: [Variable; 3]) -> [Option<Variable>; 1] {
        // Where there is nothing but -∞, the exponentials are 0.
        let total = cx.output(1);
        let total = where_(equal(&total, 0.0), 1.0, total);
        let values = [cx.input(0), cx.output(2), gy / total + g_total];
        fused(self.clone(), values, |own, [x, shift, scale]| {
            let scale = reshape(scale, own.over.aligned(&x.shape()));
            [cast(own.exponentials(&x, shift) * scale, x.dtype())]
        })
        .map(Some)
    }

    fn jvp(&self, cx: &Context<'_>, [dx]: [Option<Variable>; 1]) -> [Option<Variable>; 3] {
        let Some(dx) = dx else {
            return [None, None, None];
        };
        let total = cx.output(1);
        let values = [cx.input(0), cx.output(2), cast(dx, total.dtype())];
        let [d_total] = fused(self.clone(), values, |own, [x, shift, dx]| {
            let shape = shift.shape();
            let sum = sum(own.exponentials(&x, shift) * dx, own.over.kept_axes());
            [reshape(sum, shape)]
        });
        let total = where_(equal(&total, 0.0), 1.0, total);
        let dy = cast(&d_total / total, cx.input(0).dtype());
        [Some(dy), Some(d_total), None]
    }

    fn batch(&self, x: [Batched; 1]) -> [Batched; 3] {
        let over = self.over.in_batch();
        Batched::in_front(Self { over }, x)
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        gy: [ExampleCotangent; 3],
    ) -> [Option<ExampleGradient>; 1] {
        if gy.iter().any(|other| other.examples != gy[0].examples) {
            return [Some(ExampleGradient::Unknown)];
        }
        let examples = self.over.examples(cx.input_shape(0), &gy[0].examples);
        let [gx] = self.vjp(cx, gy.map(|gy| gy.cotangent));
        [gx.map(|gx| ExampleGradient::sliced(gx, examples))]
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
    fn the_sum_of_many_is_beyond_the_range_of_16_bits() {
        for dtype in [DType::F16, DType::BF16] {
            let x = Variable::new(Array::zeros([1, 80_000], dtype));
            let first = grad(|x| logsumexp(x, 1).sum(..), &x);
            assert_eq!(first.dtype(), dtype);
            let share = first.to_vec::<f32>()[0];
            assert!((share * 80_000.0 - 1.0).abs() < 0.01, "{share}");
        }
    }

    #[test]
    fn nothing_has_no_sum_of_exponentials() {
        let nothing = Variable::new(Array::zeros([2, 0], DType::F64));
        assert!(attempt(|| logsumexp(&nothing, 1)).is_err());
        assert_eq!(logsumexp(&nothing, 0).shape(), [0]);
    }
}
