//! The divergence of Kullback and Leibler.

use super::mean_error::of_errors;
use super::options::options;
use crate::functions::Reduction;
use crate::functions::families::{call, element_function};
use crate::variable::Variable;

options! {
    /// Options of [`kl_div_with`]. A [`Reduction`] converts into them.
    ///
    /// ```
    /// use bibun::functions::KlDivOptions;
    /// assert!(KlDivOptions::new().log_target(true).log_target);
    /// ```
    KlDivOptions {
        /// Whether the targets are logarithms of probabilities too. Defaults to false.
        log_target: bool = false,
    }
}

/// Computes the mean of `t (log t - x)`, the terms of the divergence of the distribution with log
/// probabilities x from that with probabilities t (S. Kullback and R. A. Leibler, On information and
/// sufficiency, 1951).
///
/// The mean is over all elements, as in PyTorch. The mean divergence of n distributions is
/// [`Reduction::Sum`] divided by n.
///
/// Shapes: x, t of one shape → `[]`.
/// Types: floats, promoted; integers give f64. The mean of no elements is 0.
/// Gradient: `-gy t / size` to x, `gy (log t - x + 1) / size` to t. A term with `t = 0` is 0.
///
/// # Panics
/// Panics if the shapes differ.
///
/// ```
/// use bibun::{functions::kl_div, Variable};
/// let x = Variable::new([0.5f64, 0.5]).log();
/// let loss = kl_div(&x, Variable::constant([1.0, 0.0]));
/// assert_eq!(loss.item::<f64>(), 2f64.ln() / 2.0);
/// ```
#[track_caller]
pub fn kl_div(x: impl Into<Variable>, t: impl Into<Variable>) -> Variable {
    kl_div_with(x, t, Reduction::Mean)
}

/// Computes [`kl_div`] with options: another reduction, or targets that are logarithms.
///
/// Shapes: x, t of one shape → `[]`, or the same shape under [`Reduction::None`].
/// Gradient: with logarithms t as targets, `-gy eᵗ / size` to x and `gy eᵗ (t - x + 1) / size` to t.
///
/// # Panics
/// Panics if the shapes differ.
///
/// ```
/// use bibun::{functions::{kl_div_with, KlDivOptions}, Variable};
/// let x = Variable::new([0.5f64, 0.5]).log();
/// let t = Variable::constant([0.0, f64::NEG_INFINITY]);
/// let loss = kl_div_with(&x, t, KlDivOptions::new().log_target(true));
/// assert_eq!(loss.item::<f64>(), 2f64.ln() / 2.0);
/// ```
#[track_caller]
pub fn kl_div_with(
    x: impl Into<Variable>,
    t: impl Into<Variable>,
    options: impl Into<KlDivOptions>,
) -> Variable {
    let options = options.into();
    let inputs = [("x", x.into()), ("t", t.into())];
    of_errors("kl_div", inputs, options.reduction, |inputs| {
        let function = match options.log_target {
            true => OfLogarithms::function(),
            false => OfProbabilities::function(),
        };
        call(function, &[], inputs)
    })
}

/// `t (log t - x)`.
struct OfProbabilities;

element_function! {
    OfProbabilities = "kl_div", [x, t] [];
    value: {
        let nothing = t.equal(0.0);
        t * (nothing.where_(1.0, t).log() - nothing.where_(0.0, x))
    };
    derivative(b; gy): -(gy * b);
    derivative(a, b; gy): gy * (b.log() - a + 1.0);
}

/// `eᵗ (t - x)`.
struct OfLogarithms;

element_function! {
    OfLogarithms = "kl_div", [x, t] [];
    value: {
        let nothing = t.equal(f64::NEG_INFINITY);
        t.exp() * (nothing.where_(0.0, t) - nothing.where_(0.0, x))
    };
    derivative(b; gy): -(gy * b.exp());
    derivative(a, b; gy): {
        let nothing = b.equal(f64::NEG_INFINITY);
        gy * (b.exp() * (nothing.where_(0.0, b) - nothing.where_(0.0, a) + 1.0))
    };
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use bibun_array::Array;
    let mut samples = Vec::new();
    for (log_target, reduction) in [
        (false, Reduction::None),
        (false, Reduction::Mean),
        (true, Reduction::None),
        (true, Reduction::Sum),
    ] {
        let sample = Sample::new(
            "kl_div",
            move |x| {
                let options = KlDivOptions::from(reduction).log_target(log_target);
                vec![kl_div_with(&x[0], &x[1], options)]
            },
            move |x| {
                let pairs = x[0].to_vec::<f64>().into_iter().zip(x[1].to_vec::<f64>());
                let term = |(x, t): (f64, f64)| match log_target {
                    true => t.exp() * (t - x),
                    false => t * (t.ln() - x),
                };
                let terms: Vec<f64> = pairs.map(term).collect();
                let total: f64 = terms.iter().sum();
                vec![match reduction {
                    Reduction::None => Array::from_vec(terms, x[0].shape()),
                    Reduction::Mean => Array::scalar(total / 6.0),
                    Reduction::Sum => Array::scalar(total),
                }]
            },
        );
        let targets = if log_target { -2.0..-0.1 } else { 0.1..0.9 };
        samples.push(sample.input([2, 3], -2.0..-0.1).input([2, 3], targets));
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transformations::grad;

    #[test]
    fn what_is_impossible_adds_nothing() {
        let low = f64::NEG_INFINITY;
        let x = Variable::new([low, low, -1.0, 0.0]);
        let t = Variable::constant([0.0, 0.5, 0.0, 1.0]);
        let losses = kl_div_with(&x, &t, Reduction::None);
        assert_eq!(losses.to_vec::<f64>(), [0.0, f64::INFINITY, 0.0, 0.0]);
        let slope = grad(|x| kl_div_with(x, &t, Reduction::Sum), &x);
        assert_eq!(slope.to_vec::<f64>(), [0.0, -0.5, 0.0, -1.0]);
        let x = Variable::new([low, -1.0, 0.0]);
        let log_t = Variable::new([low, low, 0.0]);
        let options = KlDivOptions::new().log_target(true);
        let loss = |t: &Variable| kl_div_with(&x, t, options.clone().reduction(Reduction::Sum));
        assert_eq!(loss(&log_t).item::<f64>(), 0.0);
        let slope = |t: &Variable| grad(loss, t);
        assert_eq!(slope(&log_t).to_vec::<f64>(), [0.0, 0.0, 1.0]);
        let second = grad(|t| slope(t).sum(..), &log_t);
        assert_eq!(second.to_vec::<f64>(), [0.0, 0.0, 2.0]);
    }
}
