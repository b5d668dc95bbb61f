//! Huber's loss, which is squared near zero and absolute far from it.

use super::mean_error::of_errors;
use crate::functions::families::unary;
use crate::functions::{Operand, Reduction, subtract};
use crate::variable::Variable;

unary! {
    samples in unary_samples;

    /// Computes Huber's function of each element, `x² / 2` where `|x| ≤ δ` and `δ (|x| - δ / 2)`
    /// beyond (P. J. Huber, Robust estimation of a location parameter, 1964).
    ///
    /// Gradient: `gy x` where `|x| ≤ δ`, `±gy δ` beyond; to `δ`, if it is a Variable, `gy (|x| - δ)`
    /// beyond.
    ///
    /// ```
    /// use bibun::{functions::huber, Variable};
    /// let y = huber(Variable::new([0.5, -3.0]), 1.0);
    /// assert_eq!(y.to_vec::<f64>(), [0.125, 2.5]);
    /// ```
    huber(x, delta) -> Huber {
        value: x.abs().less_equal(delta).where_(0.5 * x * x, delta * (x.abs() - 0.5 * delta)),
        derivative(x; gy): gy * x.abs().less_equal(delta).where_(x, delta * x.sign()),
        parameter(x; gy): gy * x.abs().less_equal(delta).where_(0.0, x.abs() - delta),
        sample(0.7): (0.8..2.0, move |x| delta * (x - 0.5 * delta)),
    }
}

/// Computes the mean of [`huber`] of the differences between predictions and targets.
///
/// Shapes: x, t of one shape → `[]`.
/// Types: floats, promoted; integers give f64. The mean of no elements is 0.
/// Gradient: that of [`huber`], divided by the number of elements, to x and to `delta`, if it is a Variable; the
/// opposite to t.
///
/// # Panics
/// Panics if the shapes of x and t differ, because broadcasting would be a mistake here; `huber(x - t, delta)`
/// broadcasts.
///
/// ```
/// use bibun::{functions::huber_loss, Variable};
/// let y = huber_loss(Variable::new([1.0, 5.0]), Variable::constant([2.0, 2.0]), 1.0);
/// assert_eq!(y.item::<f64>(), 1.5);
/// ```
#[track_caller]
pub fn huber_loss(
    x: impl Into<Variable>,
    t: impl Into<Variable>,
    delta: impl Into<Operand>,
) -> Variable {
    huber_loss_with(x, t, delta, Reduction::Mean)
}

/// Computes [`huber_loss`] with another reduction: one loss for each element, or their sum.
///
/// Shapes: x, t of one shape → `[]`, or the same shape under [`Reduction::None`].
/// Types: floats, promoted; integers give f64.
/// Gradient: that of [`huber_loss`], divided by the number of elements only for the mean.
///
/// # Panics
/// Panics if the shapes differ.
///
/// ```
/// use bibun::{functions::{huber_loss_with, Reduction}, Variable};
/// let (x, t) = (Variable::new([1.0, 5.0]), Variable::constant([2.0, 2.0]));
/// assert_eq!(huber_loss_with(&x, &t, 1.0, Reduction::None).to_vec::<f64>(), [0.5, 2.5]);
/// ```
#[track_caller]
pub fn huber_loss_with(
    x: impl Into<Variable>,
    t: impl Into<Variable>,
    delta: impl Into<Operand>,
    reduction: Reduction,
) -> Variable {
    let inputs = [("x", x.into()), ("t", t.into())];
    of_errors("huber_loss", inputs, reduction, |[x, t]| {
        huber(subtract(x, t), delta)
    })
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use bibun_array::Array;
    let mut samples = unary_samples();
    for reduction in [Reduction::None, Reduction::Mean, Reduction::Sum] {
        let sample = Sample::new(
            "huber_loss",
            move |x| vec![huber_loss_with(&x[0], &x[1], 0.7, reduction)],
            move |x| {
                let pairs = x[0].to_vec::<f64>().into_iter().zip(x[1].to_vec::<f64>());
                let losses: Vec<f64> = pairs.map(|(x, t)| 0.7 * (x - t - 0.35)).collect();
                let total: f64 = losses.iter().sum();
                vec![match reduction {
                    Reduction::None => Array::from_vec(losses, x[0].shape()),
                    Reduction::Mean => Array::scalar(total / 6.0),
                    Reduction::Sum => Array::scalar(total),
                }]
            },
        );
        samples.push(sample.input([2, 3], 0.5..2.0).input([2, 3], -2.0..-0.4));
    }
    let of_delta = Sample::new(
        "huber_loss",
        |x| vec![huber_loss(&x[0], &x[1], &x[2])],
        |x| {
            let [x, t, delta] = [0, 1, 2].map(|i| x[i].to_vec::<f64>());
            let losses = (0..6).map(|i| delta[0] * (x[i] - t[i] - 0.5 * delta[0]));
            vec![Array::scalar(losses.sum::<f64>() / 6.0)]
        },
    );
    let of_delta = of_delta.input([2, 3], 0.5..2.0).input([2, 3], -2.0..-0.4);
    samples.push(of_delta.input([], 0.4..0.8));
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{attempt, gradients};

    #[test]
    fn squared_inside_absolute_outside_and_smooth_between() {
        let x = Variable::new([-2.0, -0.5, 0.0, 0.5, 2.0]);
        let t = Variable::new([0.0, 0.25, 0.0, 0.0, 0.0]);
        let y = huber_loss_with(&x, &t, 0.5, Reduction::None);
        assert_eq!(y.to_vec::<f64>(), [0.875, 0.25, 0.0, 0.125, 0.875]);
        let gradients = gradients(&[&y.sum(..)], &[&x, &t]);
        let gx = gradients[0].as_ref().unwrap().to_vec::<f64>();
        assert_eq!(gx, [-0.5, -0.5, 0.0, 0.5, 0.5]);
        let gt = gradients[1].as_ref().unwrap().to_vec::<f64>();
        assert_eq!(gt, [0.5, 0.5, 0.0, -0.5, -0.5]);
        assert_eq!(huber_loss(&x, &t, 0.5).item::<f64>(), 2.125 / 5.0);
        let column = x.reshape([5, 1]);
        let message = attempt(|| huber_loss(&column, &t, 0.5))
            .unwrap_err()
            .to_string();
        assert!(
            message.starts_with("huber_loss: inputs do not fit: x = [5, 1]"),
            "{message}"
        );
    }
}
