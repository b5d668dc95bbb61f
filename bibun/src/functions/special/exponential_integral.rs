//! Exponential integrals.

use bibun_array::Number;
use bibun_array::math::Special as Function;

use crate::functions::families::{call, element_function, unary};
use crate::functions::to_float_of;
use crate::variable::Variable;

unary! {
    samples in unary_samples;

    /// Computes the exponential integral `E₁(x) = ∫₁^∞ e^(-x t) / t dt` of each element: `∞` at zero, NaN below it.
    ///
    /// The relative error is below `1e-14` in f64.
    ///
    /// Gradient: `-gy e^-x / x`.
    /// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 5.1; `scipy.special.exp1`.
    ///
    /// ```
    /// use bibun::{functions::exp1, Variable};
    /// let y = exp1(Variable::new([0.0, 1.0])).to_vec::<f64>();
    /// assert_eq!(y[0], f64::INFINITY);
    /// assert!((y[1] - 0.219_383_934_395_520_3).abs() < 1e-15);
    /// ```
    exp1(x) -> Exp1 {
        value: x.expn(1.0),
        derivative(x; gy): -(gy * x.expn(0.0)),
        sample: (0.5..3.0, |x| reference(1, x)),
    }

    /// Computes the exponential integral `Ei(x)`, the principal value of `∫ e^t / t dt` over t up to x, of each
    /// element: `-∞` at zero.
    ///
    /// The error is below `1e-14` times the larger of 1 and the result in f64.
    ///
    /// Gradient: `gy e^x / x`.
    /// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 5.1; `scipy.special.expi`.
    ///
    /// ```
    /// use bibun::{functions::expi, Variable};
    /// let y = expi(Variable::new([0.0, 1.0, -1.0])).to_vec::<f64>();
    /// assert_eq!(y[0], f64::NEG_INFINITY);
    /// assert!((y[1] - 1.895_117_816_355_936_8).abs() < 1e-15);
    /// assert!((y[2] + 0.219_383_934_395_520_3).abs() < 1e-15);
    /// ```
    expi(x) -> Expi {
        operation: Special(Function::Expi),
        // In two factors, because the exponential overflows before its quotient does.
        derivative(x; gy): gy * ((x * 0.5).exp() / x * (x * 0.5).exp()),
        sample: (-3.0..-0.5, |x| -reference(1, -x)),
    }
}

/// Computes the exponential integral `Eₙ(x) = ∫₁^∞ e^(-x t) / tⁿ dt` of each element, NaN below zero. At zero it is
/// `1 / (n - 1)`, or infinite for the first two.
///
/// The relative error is below `1e-14` in f64.
///
/// Shapes: x any → the same.
/// Types: floats; integers give f64.
/// Gradient: `-gy expn(n - 1, x)`.
/// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions" (1964), 5.1; `scipy.special.expn`.
///
/// ```
/// use bibun::{functions::expn, Variable};
/// let y = expn(2, Variable::new([0.0, 1.0])).to_vec::<f64>();
/// assert_eq!(y[0], 1.0);
/// assert!((y[1] - 0.148_495_506_775_922_05).abs() < 1e-15);
/// ```
#[track_caller]
pub fn expn(n: u32, x: impl Into<Variable>) -> Variable {
    call(
        OfOrder::function(),
        &[f64::from(n)],
        [to_float_of("expn", x.into())],
    )
}

impl Variable {
    /// Calls [`functions::expn`](crate::functions::expn) of this Variable.
    #[must_use]
    #[track_caller]
    pub fn expn(&self, n: u32) -> Self {
        expn(n, self)
    }
}

/// The function of a constant order.
struct OfOrder;

element_function! {
    OfOrder = "expn", [x] [n];
    value: x.expn(n);
    derivative(x; gy): -(gy * x.expn(n - 1.0));
}

/// The same as an operation of formulas.
pub(super) struct Expn;

element_function! {
    Expn = "expn", [a, b] [];
    operation: Special(Function::Expn);
    derivative(a, b; gy): -(gy * a.expn(b - 1.0));
    derivative(; gy): Number::from(0.0);
}

/// Computes the integral over `u = 1 / t` from 0 to 1, of `e^(-x / u) uⁿ⁻²`, by Simpson's rule.
#[cfg(test)]
fn reference(n: i32, x: f64) -> f64 {
    const STEPS: u32 = 20_000;
    let f = |i: u32| {
        let u = f64::from(i) / f64::from(STEPS);
        if i == 0 {
            0.0
        } else {
            (-x / u).exp() * u.powi(n - 2)
        }
    };
    let weight = |i: u32| match i {
        0 | STEPS => 1.0,
        _ if i % 2 == 1 => 4.0,
        _ => 2.0,
    };
    (0..=STEPS).map(|i| weight(i) * f(i)).sum::<f64>() / f64::from(3 * STEPS)
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    let mut all = unary_samples();
    all.push(
        Sample::new(
            "expn",
            |x| vec![expn(2, &x[0])],
            |x| {
                let y = x[0].to_vec::<f64>().into_iter().map(|x| reference(2, x));
                vec![bibun_array::Array::from(y.collect::<Vec<_>>())]
            },
        )
        .input([3], 0.5..3.0),
    );
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Variable, grad};

    #[test]
    fn the_slope_is_finite_where_the_exponential_is_not() {
        let slope = |x: f64| grad(|x| expi(x), &Variable::constant(x)).item::<f64>();
        let expected = 350f64.exp() / 712.0 * 362f64.exp();
        assert!((slope(712.0) / expected - 1.0).abs() < 1e-14);
        assert_eq!(slope(720.0), f64::INFINITY);
        let again = grad(|x| grad(|x| expi(x), x), &Variable::constant(712.0));
        assert!((again.item::<f64>() / (expected * (1.0 - 1.0 / 712.0)) - 1.0).abs() < 1e-13);
    }
}
