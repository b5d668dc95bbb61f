//! Exponential integrals.
//!
//! Method: the series around zero, and on the right of 1 the continued fraction (`E`) or from 40 on the asymptotic
//! series (`Ei`), whose smallest term is below the last digit there.
//! Bounds: relative error 1e-14; for `Ei`, relative to the larger of 1 and the value.
//! Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", chapter 5.

use super::Float;

/// Euler's constant.
const GAMMA: f64 = 0.577_215_664_901_532_9;

/// `E_n(x)`, the integral of `e^(-x t) / t^n` over `t` from 1 on, for integers `n`; those below 1 are derivatives of
/// the others.
pub(super) fn expn(x: f64, n: f64) -> f64 {
    if x.is_nan() || n.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 {
        return if n > 1.0 {
            1.0 / (n - 1.0)
        } else {
            f64::INFINITY
        };
    }
    if x == f64::INFINITY {
        return 0.0;
    }
    if n <= 0.0 {
        // e^-x m! / x^(m + 1) Σ x^k / k!, which is Σ m! / (m - j)! / x^(j + 1).
        let m = -n;
        let (mut term, mut sum, mut j) = (1.0 / x, 0.0, 0.0);
        while j <= m {
            sum += term;
            term *= (m - j) / x;
            j += 1.0;
        }
        let root = (-0.5 * x).exp();
        return root * sum * root;
    }
    if x < 1.0 { near(x, n) } else { fraction(x, n) }
}

/// By the series of powers, for `n >= 1` and `x < 1`.
fn near(x: f64, n: f64) -> f64 {
    let mut power = 1.0;
    let mut sum = 0.0;
    let mut k = 0.0;
    loop {
        let term = if k == n - 1.0 {
            let harmonic: f64 = (1..n as u64).map(|j| 1.0 / j as f64).sum();
            power * (harmonic - GAMMA - Float::ln(x))
        } else {
            power / (n - 1.0 - k)
        };
        sum += term;
        k += 1.0;
        power *= -x / k;
        if power.abs() <= 1e-18 * sum.abs() {
            return sum;
        }
    }
}

/// By the continued fraction, from its front.
fn fraction(x: f64, n: f64) -> f64 {
    let mut b = x + n;
    let mut c = f64::INFINITY;
    let mut d = 1.0 / b;
    let mut value = d;
    let mut k = 1.0;
    while k < 500.0 {
        let a = -k * (n - 1.0 + k);
        b += 2.0;
        d = 1.0 / (a * d + b);
        c = b + a / c;
        let factor = c * d;
        value *= factor;
        if (factor - 1.0).abs() < 1e-16 {
            break;
        }
        k += 1.0;
    }
    value * (-x).exp()
}

/// `Ei(x)`, the principal value of the integral of `e^t / t` over `t` up to `x`.
pub(super) fn expi(x: f64) -> f64 {
    if x < 0.0 {
        return -expn(-x, 1.0);
    }
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x.is_nan() || x == f64::INFINITY {
        return x;
    }
    if x < 40.0 {
        let (mut power, mut sum, mut k) = (1.0, 0.0, 1.0);
        loop {
            power *= x / k;
            let term = power / k;
            sum += term;
            if term <= 1e-18 * sum {
                return sum + (Float::ln(x) + GAMMA);
            }
            k += 1.0;
        }
    }
    let (mut term, mut sum, mut k) = (1.0, 0.0, 1.0);
    while k < x && term > 1e-18 {
        sum += term;
        term *= k / x;
        k += 1.0;
    }
    let root = (0.5 * x).exp();
    root * (sum / x) * root
}
