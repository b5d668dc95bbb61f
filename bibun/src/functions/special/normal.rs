//! The normal distribution function, its logarithm and its inverse, and the scaled error function.

use std::f64::consts::TAU;

use bibun_array::Number;
use bibun_array::math::Special as Function;

#[cfg(test)]
use crate::functions::activation::normal_distribution as distribution;
use crate::functions::families::{element_function, unary};

unary! {
    /// Computes the distribution function of the standard normal distribution,
    /// `1/√(2π) ∫₋∞ˣ e^(-t²/2) dt`, of each element.
    ///
    /// It is at most 5 units in the last place off in f32. In f64 the relative error is below `1e-15 (1 + x²)`
    /// on the left, and `1e-15` on the right of zero.
    ///
    /// Gradient: `gy e^(-x²/2) / √(2π)`.
    ///
    /// ```
    /// use bibun::{functions::ndtr, Variable};
    /// assert_eq!(ndtr(Variable::new([0.0, 9.0])).to_vec::<f64>(), [0.5, 1.0]);
    /// ```
    ndtr(x) -> Ndtr {
        value: x.normal_distribution(),
        derivative(x; gy): gy * x.normal_density(),
        sample: (-3.0..3.0, distribution),
    }

    /// Computes the inverse of [`ndtr`] of each element: infinite at 0 and 1, NaN outside.
    ///
    /// The relative error is below `2e-15` in f64.
    ///
    /// Gradient: `gy √(2π) e^(y²/2)`.
    ///
    /// ```
    /// use bibun::{functions::ndtri, Variable};
    /// let y = ndtri(Variable::new([0.0, 0.5, 0.975])).to_vec::<f64>();
    /// assert_eq!(y[..2], [f64::NEG_INFINITY, 0.0]);
    /// assert!((y[2] - 1.959_963_984_540_054).abs() < 1e-14);
    /// ```
    ndtri(x) -> Ndtri {
        operation: Special(Function::Ndtri),
        derivative(y; gy): gy * TAU.sqrt() * (y * y * 0.5).exp(),
        sample: (0.1..0.9, |x| {
            // Newton's method.
            (0..60).fold(0.0, |y: f64, _| {
                y - (distribution(y) - x) * TAU.sqrt() * (y * y / 2.0).exp()
            })
        }),
    }

    /// Computes the logarithm of [`ndtr`] of each element, accurately far on the left and far on the right,
    /// where `log(ndtr(x))` is infinite or rounded to 0.
    ///
    /// The relative errors of the value and of its first two derivatives are below `1e-13` in f64.
    ///
    /// Gradient: `gy e^(-x²/2) / (√(2π) ndtr(x))`, without cancellation on either side, as the higher ones are.
    /// Source: Gautschi, "Evaluation of the repeated integrals of the coerror function" (1977), for the
    /// derivatives.
    ///
    /// ```
    /// use bibun::{functions::log_ndtr, Variable};
    /// let y = log_ndtr(Variable::new([0.0, -100.0])).to_vec::<f64>();
    /// assert!((y[0] + 2f64.ln()).abs() < 1e-15);
    /// assert!((y[1] + 5005.524_208_694_205).abs() < 1e-9);
    /// ```
    log_ndtr(x) -> LogNdtr {
        value: x.log_ndtr(0.0),
        derivative(x; gy): gy * x.log_ndtr(1.0),
        sample: (-3.0..3.0, |x| distribution(x).ln()),
    }

    /// Computes the scaled complementary error function `e^(x²) erfc x` of each element, which decreases as
    /// `1 / √π x` where [`erfc`](crate::functions::erfc) underflows.
    ///
    /// The relative error is below `1e-14` in f64 on the right of -1, and `1e-13` on its left.
    ///
    /// Gradient: `gy (2 x y - 2/√π)`, without cancellation on the right, as the higher ones are.
    /// Source: Gautschi, "Evaluation of the repeated integrals of the coerror function" (1977), for the
    /// derivatives.
    ///
    /// ```
    /// use bibun::{functions::erfcx, Variable};
    /// let y = erfcx(Variable::new([0.0, 1e10])).to_vec::<f64>();
    /// assert_eq!(y[0], 1.0);
    /// assert!((y[1] * 1e10 - 1.0 / std::f64::consts::PI.sqrt()).abs() < 1e-15);
    /// ```
    erfcx(x) -> Erfcx {
        value: x.erfcx(0.0),
        derivative(x; gy): gy * x.erfcx(1.0),
        sample: (-1.5..1.5, |x| {
            // The series of positive terms for e^(x²) erf x.
            let (mut term, mut sum) = (x, x);
            for n in 1..80 {
                term *= 2.0 * x * x / f64::from(2 * n + 1);
                sum += term;
            }
            (x * x).exp() - std::f64::consts::FRAC_2_SQRT_PI * sum
        }),
    }
}

/// The derivative of an order of `erfcx`, as an operation of formulas.
pub(super) struct ScaledErfc;

element_function! {
    ScaledErfc = "erfcx", [a, b] [];
    operation: Special(Function::Erfcx);
    derivative(a, b; gy): gy * a.erfcx(b + 1.0);
    derivative(; gy): Number::from(0.0);
}

/// The derivative of an order of `log_ndtr`.
pub(super) struct LogDistribution;

element_function! {
    LogDistribution = "log_ndtr", [a, b] [];
    operation: Special(Function::LogNdtr);
    derivative(a, b; gy): gy * a.log_ndtr(b + 1.0);
    derivative(; gy): Number::from(0.0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::probe::{assert_finite, derivatives};

    #[test]
    fn far_from_zero() {
        let points = [-1000.0, -5.0, -0.1, 0.0, 0.1, 5.0, 1000.0];
        assert_finite("ndtr", |x| ndtr(x), &points);
        assert_finite("log_ndtr", |x| log_ndtr(x), &points);
        assert_finite("erfcx", |x| erfcx(x), &[-5.0, 0.0, 0.4, 0.6, 5.0, 1000.0]);
        assert_finite("ndtri", |x| ndtri(x), &[0.1, 0.5, 0.9]);
    }

    #[test]
    fn derivatives_do_not_cancel_far_out() {
        // e^(x²) erfc x = 1/√π (1/x - 1/2x³ + ..), term by term.
        let found = derivatives(|x| erfcx(x), 1e5, 3);
        let scale = 1.0 / std::f64::consts::PI.sqrt();
        for (found, expected) in found.iter().zip([1e-5, -1e-10, 2e-15, -6e-20]) {
            assert!((found / (scale * expected) - 1.0).abs() < 1e-9, "{found}");
        }
        // log ndtr = -x²/2 - log(-x) - 1/x² + ..
        let found = derivatives(|x| log_ndtr(x), -1e4, 3);
        let expected = [1e4 + 1e-4, -1.0 + 1e-8, 2e-12];
        for (found, expected) in found[1..].iter().zip(expected) {
            assert!((found / expected - 1.0).abs() < 1e-6, "{found} {expected}");
        }
    }
}
