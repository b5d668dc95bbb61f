//! Negative log likelihoods of numbers: of counts, and of numbers with a variance.

use std::f64::consts::TAU;

use super::mean_error::of_errors;
use super::options::options;
use crate::error::mismatch;
use crate::functions::operand::MUST_BROADCAST;
use crate::functions::{
    Reduction, broadcast_to, cast, exp, float_of, log, maximum, square, to_float, where_,
};
use crate::variable::Variable;

options! {
    /// Options of [`poisson_nll_loss_with`]. A [`Reduction`] converts into them.
    ///
    /// ```
    /// use bibun::functions::PoissonNllOptions;
    /// assert_eq!(PoissonNllOptions::new().log_input(false).eps, 1e-8);
    /// ```
    PoissonNllOptions {
        /// Whether the inputs are logarithms of the expectations. Defaults to true.
        log_input: bool = true,
        /// Whether `log t!` is added, by Stirling's formula where `t > 1` and as 0 elsewhere. Defaults to
        /// false.
        full: bool = false,
        /// What is added to expectations, so that their logarithms are finite. Defaults to 10⁻⁸.
        eps: f64 = 1e-8,
    }
}

options! {
    /// Options of [`gaussian_nll_loss_with`]. A [`Reduction`] converts into them.
    ///
    /// ```
    /// use bibun::functions::GaussianNllOptions;
    /// assert_eq!(GaussianNllOptions::new().full(true).eps, 1e-6);
    /// ```
    GaussianNllOptions {
        /// Whether the constant `log(2π) / 2` is added. Defaults to false.
        full: bool = false,
        /// The smallest variance; smaller ones count as this one. Defaults to 10⁻⁶.
        eps: f64 = 1e-6,
    }
}

/// Computes the mean negative log likelihood of counts t, which are Poisson distributed with
/// expectations eˣ, up to a constant: `eˣ - t x`.
///
/// Shapes: x, t of one shape → `[]`.
/// Types: floats, promoted; integers give f64. The mean of no elements is 0.
/// Gradient: `gy (eˣ - t) / size` to x, `-gy x / size` to t.
///
/// # Panics
/// Panics if the shapes differ.
///
/// ```
/// use bibun::{functions::poisson_nll_loss, Variable};
/// let x = Variable::new([0.0, 0.0]);
/// assert_eq!(poisson_nll_loss(&x, Variable::constant([3i64, 0])).item::<f64>(), 1.0);
/// ```
#[track_caller]
pub fn poisson_nll_loss(x: impl Into<Variable>, t: impl Into<Variable>) -> Variable {
    poisson_nll_loss_with(x, t, Reduction::Mean)
}

/// Computes [`poisson_nll_loss`] with options: another reduction, the term `log t!` that the inputs do
/// not change, or expectations as inputs, `x - t log(x + eps)`.
///
/// Shapes: x, t of one shape → `[]`, or the same shape under [`Reduction::None`].
///
/// # Panics
/// Panics if the shapes differ.
///
/// ```
/// use bibun::{functions::{poisson_nll_loss_with, PoissonNllOptions}, Variable};
/// let x = Variable::new([2.0]);
/// let options = PoissonNllOptions::new().log_input(false).eps(0.0);
/// let loss = poisson_nll_loss_with(&x, Variable::constant([1i64]), options);
/// assert_eq!(loss.item::<f64>(), 2.0 - 2f64.ln());
/// ```
#[track_caller]
pub fn poisson_nll_loss_with(
    x: impl Into<Variable>,
    t: impl Into<Variable>,
    options: impl Into<PoissonNllOptions>,
) -> Variable {
    let options = options.into();
    let inputs = [("x", x.into()), ("t", t.into())];
    of_errors("poisson_nll_loss", inputs, options.reduction, |[x, t]| {
        let losses = match options.log_input {
            true => exp(&x) - &t * x,
            false => &x - &t * log(&x + options.eps),
        };
        if !options.full {
            return losses;
        }
        let is_large = t.greater(1.0);
        let t = where_(&is_large, t, 1.0);
        let stirling = &t * log(&t) - &t + 0.5 * log(TAU * &t);
        losses + where_(is_large, stirling, 0.0)
    })
}

/// Computes the mean negative log likelihood of targets t, which are normally distributed around x with
/// these variances, up to a constant: `(log variance + (x - t)² / variance) / 2`.
///
/// Shapes: x, t of one shape, variance that broadcasts to it → `[]`.
/// Types: floats, promoted; integers give f64. The mean of no elements is 0.
/// Gradient: to all three. Variances below 10⁻⁶ count as 10⁻⁶, and get the gradient that 10⁻⁶ would
/// get, so that they can grow again (as in PyTorch).
/// Source: D. A. Nix and A. S. Weigend, Estimating the mean and variance of the target probability
/// distribution, 1994.
///
/// # Panics
/// Panics if the shapes of x and t differ, or variance does not broadcast to them.
///
/// ```
/// use bibun::{functions::gaussian_nll_loss, Variable};
/// let x = Variable::new([1.0, 2.0]);
/// let t = Variable::constant([3.0, 2.0]);
/// assert_eq!(gaussian_nll_loss(&x, &t, Variable::new([1.0, 1.0])).item::<f64>(), 1.0);
/// ```
#[track_caller]
pub fn gaussian_nll_loss(
    x: impl Into<Variable>,
    t: impl Into<Variable>,
    variance: impl Into<Variable>,
) -> Variable {
    gaussian_nll_loss_with(x, t, variance, Reduction::Mean)
}

/// Computes [`gaussian_nll_loss`] with options: another reduction, another smallest variance, or the
/// constant `log(2π) / 2`.
///
/// Shapes: x, t of one shape, variance that broadcasts to it → `[]`, or the same shape under
/// [`Reduction::None`].
///
/// # Panics
/// Panics if the shapes of x and t differ, or variance does not broadcast to them.
///
/// ```
/// use bibun::{functions::{gaussian_nll_loss_with, Reduction}, Variable};
/// let x = Variable::new([1.0, 2.0]);
/// let t = Variable::constant([3.0, 2.0]);
/// let losses = gaussian_nll_loss_with(&x, &t, Variable::new([1.0]), Reduction::None);
/// assert_eq!(losses.to_vec::<f64>(), [2.0, 0.0]);
/// ```
#[track_caller]
pub fn gaussian_nll_loss_with(
    x: impl Into<Variable>,
    t: impl Into<Variable>,
    variance: impl Into<Variable>,
    options: impl Into<GaussianNllOptions>,
) -> Variable {
    let function = "gaussian_nll_loss";
    let _whole = crate::call::composite(function);
    let (x, variance, options) = (x.into(), to_float(variance.into()), options.into());
    let (x_spec, spec) = (x.spec(), variance.spec());
    if !spec.shape.broadcasts_to(&x_spec.shape) {
        mismatch(
            function,
            &[("x", &x_spec), ("variance", &spec)],
            MUST_BROADCAST,
        )
    }
    let t = t.into();
    let dtype = float_of(x_spec.dtype, [&t, &variance]);
    // Clipped with the gradient of what is not clipped, before it is broadcast.
    let variance = cast(variance, dtype.accumulator());
    let lift = maximum(&variance, options.eps) - &variance;
    let variance = broadcast_to(variance + lift.detach(), &x_spec.shape);
    let inputs = [("x", x), ("t", t), ("variance", variance)];
    let constant = if options.full { 0.5 * TAU.ln() } else { 0.0 };
    let loss = of_errors(function, inputs, options.reduction, |[x, t, variance]| {
        0.5 * (log(&variance) + square(x - t) / variance) + constant
    });
    cast(loss, dtype)
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use bibun_array::Array;
    let mut samples = Vec::new();
    for (log_input, full, reduction) in [
        (true, false, Reduction::Mean),
        (true, true, Reduction::None),
        (false, false, Reduction::Sum),
    ] {
        let sample = Sample::new(
            "poisson_nll_loss",
            move |x| {
                let options = PoissonNllOptions::from(reduction);
                let options = options.log_input(log_input).full(full);
                vec![poisson_nll_loss_with(&x[0], &x[1], options)]
            },
            move |x| {
                let pairs = x[0].to_vec::<f64>().into_iter().zip(x[1].to_vec::<f64>());
                let loss = |(x, t): (f64, f64)| {
                    let loss = match log_input {
                        true => x.exp() - t * x,
                        false => x - t * (x + 1e-8).ln(),
                    };
                    let rest = t * t.ln() - t + 0.5 * (TAU * t).ln();
                    if full { loss + rest } else { loss }
                };
                let losses: Vec<f64> = pairs.map(loss).collect();
                let total: f64 = losses.iter().sum();
                vec![match reduction {
                    Reduction::None => Array::from_vec(losses, [2, 3]),
                    Reduction::Mean => Array::scalar(total / 6.0),
                    Reduction::Sum => Array::scalar(total),
                }]
            },
        );
        samples.push(sample.input([2, 3], 0.5..2.0).input([2, 3], 1.2..4.0));
    }
    for (full, reduction) in [(false, Reduction::Mean), (true, Reduction::None)] {
        let sample = Sample::new(
            "gaussian_nll_loss",
            move |x| {
                let options = GaussianNllOptions::from(reduction).full(full);
                vec![gaussian_nll_loss_with(&x[0], &x[1], &x[2], options)]
            },
            move |x| {
                let [m, t, v] = [0, 1, 2].map(|i| x[i].to_vec::<f64>());
                let constant = if full { TAU.ln() } else { 0.0 };
                let losses = (0..6).map(|i| {
                    let v = v[i / 3];
                    0.5 * (v.ln() + (m[i] - t[i]) * (m[i] - t[i]) / v + constant)
                });
                let losses: Vec<f64> = losses.collect();
                vec![match reduction {
                    Reduction::None => Array::from_vec(losses, [2, 3]),
                    _ => Array::scalar(losses.iter().sum::<f64>() / 6.0),
                }]
            },
        );
        let sample = sample.input([2, 3], -2.0..2.0).input([2, 3], -2.0..2.0);
        samples.push(sample.input([2, 1], 0.3..2.0));
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;
    use crate::transformations::grad;

    #[test]
    fn counts_up_to_one_add_nothing() {
        let options = PoissonNllOptions::from(Reduction::None).full(true);
        let x = Variable::new([0.0, 0.0, 0.0]);
        let t = Variable::new([0.0, 1.0, 2.0]);
        let loss = |t: &Variable| poisson_nll_loss_with(&x, t, &options);
        let stirling = 2.0 * 2f64.ln() - 2.0 + 0.5 * (2.0 * TAU).ln();
        assert_eq!(loss(&t).to_vec::<f64>(), [1.0, 1.0, 1.0 + stirling]);
        let slope = grad(|t| loss(t).sum(..), &t).to_vec::<f64>();
        assert_eq!(slope[..2], [0.0, 0.0]);
        assert!((slope[2] - 2f64.ln() - 0.25).abs() < 1e-15);
    }

    #[test]
    fn small_variances_can_grow() {
        let (x, t) = (Variable::new([1.0]), Variable::constant([1.5]));
        let variance = Variable::new([0.0]);
        let options = GaussianNllOptions::new().eps(0.1);
        let loss = |v: &Variable| gaussian_nll_loss_with(&x, &t, v, &options);
        assert_eq!(
            loss(&variance).item::<f64>(),
            0.5 * (0.1f64.ln() + 0.25 / 0.1)
        );
        let slope = grad(loss, &variance).item::<f64>();
        assert!((slope - 0.5 * (10.0 - 25.0)).abs() < 1e-13, "{slope}");
        let error = attempt(|| gaussian_nll_loss(&x, &t, Variable::new([1.0, 1.0]))).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("x = [1] f64, variance = [2] f64"),
            "{message}"
        );
    }
}
