//! `lgamma` and `digamma`, in f64 for both types and with loops: one number at a time.
//!
//! Method: above 1/2 the recurrence leads `lgamma` to `[1, 2]`, where it is `(x - 1) (x - 2)` times
//! a polynomial and so exact at its two zeros; from 8 on Stirling's series is used. `digamma` goes
//! up to 10 and uses its asymptotic series. Below 1/2 both are reflected.
//! Bound: relative error 1e-14, away from the zeros below 0 and from the zero of `digamma` at 1.46.
//! Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", sections 6.1 and 6.3.

use std::f64::consts::PI;

use super::coefficients::{DIGAMMA, LGAMMA_F64, STIRLING};
use super::kernel::polynomial;

/// `ln sqrt(2 pi)`.
const HALF_LN_TWO_PI: f64 = 0.9189385332046728;

/// `ln |gamma(x)|`.
pub(super) fn lgamma(x: f64) -> f64 {
    if x.is_infinite() {
        f64::INFINITY
    } else if x < 0.5 {
        // gamma(x) gamma(1 - x) sin(pi x) = pi
        let distance = x - x.round();
        if x.abs() < f64::MIN_POSITIVE {
            return -x.abs().ln();
        }
        (PI / (PI * distance).sin().abs()).ln() - lgamma(1.0 - x)
    } else if x < 1.0 {
        x * (x - 1.0) * polynomial(x - 0.5, LGAMMA_F64) - x.ln()
    } else if x < 8.0 {
        let (mut x, mut product) = (x, 1.0);
        while x > 2.0 {
            x -= 1.0;
            product *= x;
        }
        (x - 1.0) * (x - 2.0) * polynomial(x - 1.5, LGAMMA_F64) + product.ln()
    } else {
        let reciprocal = 1.0 / x;
        let series = reciprocal * polynomial(reciprocal * reciprocal, STIRLING);
        (x - 0.5) * (x.ln() - 1.0) + (HALF_LN_TWO_PI - 0.5 + series)
    }
}

/// The derivative of `ln gamma(x)`, which is NaN at the negative integers and infinite at zero.
pub(super) fn digamma(x: f64) -> f64 {
    if x == 0.0 {
        -1.0 / x
    } else if x < 0.5 {
        // psi(1 - x) - psi(x) = pi / tan(pi x)
        let distance = x - x.round();
        if distance == 0.0 || x == f64::NEG_INFINITY {
            return f64::NAN;
        }
        digamma(1.0 - x) - PI / (PI * distance).tan()
    } else {
        let (mut x, mut sum) = (x, 0.0);
        while x < 10.0 {
            sum -= 1.0 / x;
            x += 1.0;
        }
        let square = 1.0 / (x * x);
        sum + (x.ln() - 0.5 / x - square * polynomial(square, DIGAMMA))
    }
}
