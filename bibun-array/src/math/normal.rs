//! Functions around the normal distribution whose derivatives of every order are computed as such, because
//! differences of the lower ones would cancel far out: `erfcx`, and the logarithm of the distribution
//! function with its inverse.
//!
//! Method: the derivatives of `erfcx` are multiples of the repeated integrals of `erfc`. Their recurrence is
//! stable upwards on the left; on the right the quotients of neighbours are continued fractions. The
//! derivatives of logarithms follow as cumulants do from moments.
//! Source: Gautschi, "Evaluation of the repeated integrals of the coerror function" (1977).

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LN_2, SQRT_2};

use super::Float;
use super::coefficients::ERFC_F64;
use super::kernel::{polynomial, two_product};

/// `e^(x^2) erfc x`.
fn scaled(x: f64) -> f64 {
    if x < 0.74 {
        let (square, rest) = two_product(x, x);
        let power = square.exp();
        let power = if power.is_finite() {
            power + power * rest
        } else {
            power
        };
        power * Float::erfc(x)
    } else if x < 29.0 {
        polynomial((x - 3.0) / (x + 3.0), ERFC_F64) / (x + 3.0)
    } else {
        let square = 0.5 / x / x;
        let rest = 15.0 - square * (105.0 - square * (945.0 - square * 10395.0));
        let series = 1.0 - square * (1.0 - square * (3.0 - square * rest));
        0.5 * FRAC_2_SQRT_PI / x * series
    }
}

/// Writes the quotients of the derivatives of `erfcx` of orders 1, 2, .. by `erfcx`.
fn quotients(x: f64, quotients: &mut [f64]) {
    let orders = quotients.len();
    if x < 0.5 {
        // f' = 2 x f - 2 / sqrt(pi), and so on.
        let (mut before, mut last) = (1.0, 2.0 * x - FRAC_2_SQRT_PI / scaled(x));
        for (n, quotient) in quotients.iter_mut().enumerate() {
            *quotient = last;
            let next = 2.0 * x * last + 2.0 * (n as f64 + 1.0) * before;
            (before, last) = (last, next);
        }
        return;
    }
    // The quotient of neighbours is -2 n / (2 x + the next one's).
    let last = orders + 30 + (250.0 / (x * x)) as usize;
    let mut rest = 2.0 * last as f64 / (x + (x * x + 2.0 * last as f64).sqrt());
    for n in (1..=last).rev() {
        rest = 2.0 * n as f64 / (2.0 * x + rest);
        if n <= orders {
            quotients[n - 1] = -rest;
        }
    }
    let mut product = 1.0;
    for quotient in quotients {
        product *= *quotient;
        *quotient = product;
    }
}

/// The derivatives of order 1 to `n` of the logarithm of a function, of which the last is returned, from the
/// quotients of its derivatives by the function.
fn of_logarithm(quotients: &[f64]) -> f64 {
    let mut found: Vec<f64> = Vec::with_capacity(quotients.len());
    for n in 1..=quotients.len() {
        let (mut value, mut choose) = (quotients[n - 1], 1.0);
        for j in 1..n {
            value -= choose * found[j - 1] * quotients[n - j - 1];
            choose *= (n - j) as f64 / j as f64;
        }
        found.push(value);
    }
    *found.last().expect("an order above 0")
}

/// The derivative of order `n` of `e^(x^2) erfc x`.
pub(super) fn erfcx(x: f64, n: f64) -> f64 {
    if x.is_nan() || n.is_nan() {
        return f64::NAN;
    }
    let value = scaled(x);
    if n == 0.0 {
        return value;
    }
    let mut all = vec![0.0; n as usize];
    quotients(x, &mut all);
    let quotient = *all.last().expect("an order above 0");
    // 0 times an infinity at the ends.
    if value == 0.0 {
        0.0 * quotient.signum()
    } else {
        value * quotient
    }
}

/// The derivative of order `n` of `ln((1 + erf(x / sqrt(2))) / 2)`.
pub(super) fn log_ndtr(x: f64, n: f64) -> f64 {
    if x.is_nan() || n.is_nan() {
        return f64::NAN;
    }
    let n = n as usize;
    if n == 0 {
        return match x < -1.0 {
            true => scaled(-x * FRAC_1_SQRT_2).ln() - LN_2 - 0.5 * x * x,
            false => (-0.5 * Float::erfc(x * FRAC_1_SQRT_2)).ln_1p(),
        };
    }
    let mut all = vec![0.0; n];
    if x < 0.0 {
        // It is erfcx(-x / sqrt(2)) e^(-x^2 / 2) / 2.
        quotients(-x * FRAC_1_SQRT_2, &mut all);
        let of_square = [-x, -1.0].get(n - 1).copied().unwrap_or(0.0);
        return of_square + (-FRAC_1_SQRT_2).powi(n as i32) * of_logarithm(&all);
    }
    // From here on the density is 0.
    let x = x.min(40.0);
    let density = x.normal_density() / x.normal_distribution();
    // Hermite's polynomials.
    let (mut before, mut last) = (0.0, 1.0);
    for (k, quotient) in all.iter_mut().enumerate() {
        *quotient = density * last;
        (before, last) = (last, -x * last - k as f64 * before);
    }
    of_logarithm(&all)
}

/// The inverse of the distribution function.
pub(super) fn ndtri(p: f64) -> f64 {
    if p > 0.5 {
        return -ndtri(1.0 - p);
    }
    if p >= 0.25 {
        return SQRT_2 * (2.0 * p - 1.0).erfinv();
    }
    if p == 0.0 {
        return f64::NEG_INFINITY;
    }
    // Newton's method on the logarithms, whose difference is convex.
    let wanted = p.ln();
    let mut x = -(-2.0 * wanted).sqrt();
    for _ in 0..20 {
        let step = (log_ndtr(x, 0.0) - wanted) / log_ndtr(x, 1.0);
        x -= step;
        if step.abs() < 1e-10 * x.abs() {
            break;
        }
    }
    x
}
