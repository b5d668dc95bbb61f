//! Functions of one complex number, without overflow in between where the result is finite.
//!
//! Roots, logarithms and powers are continuous from above at their cut, the negative real axis, as
//! in C and NumPy (W. Kahan, "Branch cuts for complex elementary functions", 1987).

use num_complex::Complex;

use crate::Complex64;

/// Computes the quotient, scaled by the larger part of the divisor (R. L. Smith, "Algorithm 116",
/// 1962).
pub(super) fn divide(a: Complex64, b: Complex64) -> Complex64 {
    if b.im == 0.0 && b.re == 0.0 || b.re.abs() >= b.im.abs() {
        if b.im == 0.0 {
            return Complex::new(a.re / b.re, a.im / b.re);
        }
        let ratio = b.im / b.re;
        let scale = b.re + b.im * ratio;
        return Complex::new((a.re + a.im * ratio) / scale, (a.im - a.re * ratio) / scale);
    }
    let ratio = b.re / b.im;
    let scale = b.re * ratio + b.im;
    Complex::new((a.re * ratio + a.im) / scale, (a.im * ratio - a.re) / scale)
}

/// Computes the root with a positive real part.
pub(super) fn sqrt(x: Complex64) -> Complex64 {
    let size = x.norm();
    if size == 0.0 {
        return Complex::new(0.0, x.im);
    }
    if x.im.is_infinite() {
        return Complex::new(f64::INFINITY, x.im);
    }
    // The larger part by a sum without cancellation, halved first lest it overflows.
    let larger = (x.re.abs() / 2.0 + size / 2.0).sqrt();
    let smaller = x.im.abs() / larger / 2.0;
    match x.re >= 0.0 {
        true => Complex::new(larger, smaller.copysign(x.im)),
        false => Complex::new(smaller, larger.copysign(x.im)),
    }
}

pub(super) fn exp(x: Complex64) -> Complex64 {
    if x.im == 0.0 {
        return Complex::new(x.re.exp(), x.im);
    }
    let (sin, cos) = x.im.sin_cos();
    // An infinite angle has no direction, which does not matter at zero.
    if x.re == f64::NEG_INFINITY {
        return Complex::ZERO;
    }
    let size = x.re.exp();
    if size.is_infinite() && x.re.is_finite() {
        // The parts may be finite nevertheless.
        let half = (x.re / 2.0).exp();
        return Complex::new(cos * half * half, sin * half * half);
    }
    Complex::new(size * cos, size * sin)
}

/// Computes `e^x - 1` without cancellation near zero.
pub(super) fn expm1(x: Complex64) -> Complex64 {
    let (sin, cos) = x.im.sin_cos();
    // cos(b) - 1 = -2 sin²(b / 2)
    let half = (x.im / 2.0).sin();
    let grown = x.re.exp_m1();
    Complex::new(grown * cos - 2.0 * half * half, (grown + 1.0) * sin)
}

pub(super) fn log(x: Complex64) -> Complex64 {
    let (large, small) = match x.re.abs() >= x.im.abs() {
        true => (x.re.abs(), x.im.abs()),
        false => (x.im.abs(), x.re.abs()),
    };
    // Near the unit circle, the logarithm of the size is small.
    let of_size = match (0.7..1.5).contains(&large) {
        true => ((large - 1.0) * (large + 1.0) + small * small).ln_1p() / 2.0,
        false => x.norm().ln(),
    };
    Complex::new(of_size, x.arg())
}

/// Computes `log(1 + x)` without cancellation near zero.
pub(super) fn log1p(x: Complex64) -> Complex64 {
    if x.re.abs() < 0.5 && x.im.abs() < 0.5 {
        let of_size = (x.re * (2.0 + x.re) + x.im * x.im).ln_1p() / 2.0;
        return Complex::new(of_size, x.im.atan2(1.0 + x.re));
    }
    log(1.0 + x)
}

/// Computes the power, by products if the exponent is a small integer. Every number to the power of
/// zero is 1.
pub(super) fn power(x: Complex64, exponent: Complex64) -> Complex64 {
    const MOST: f64 = 64.0;
    if exponent == Complex::ZERO {
        return Complex::ONE;
    }
    if exponent.im == 0.0 {
        let e = exponent.re;
        if e.fract() == 0.0 && e.abs() <= MOST {
            // The power of x may be infinite where its reciprocal is not. Powers of infinity are NaN.
            let inverse = divide(Complex::ONE, x);
            return match e > 0.0 {
                true => x.powi(e as i32),
                false if x == Complex::ZERO => inverse,
                false => inverse.powi(-e as i32),
            };
        }
        if x == Complex::ZERO {
            return Complex::from(0f64.powf(e));
        }
        return Complex::from_polar(x.norm().powf(e), x.arg() * e);
    }
    if x == Complex::ZERO && exponent.re > 0.0 {
        return Complex::ZERO;
    }
    exp(exponent * log(x))
}

pub(super) fn sinh(x: Complex64) -> Complex64 {
    if x.im == 0.0 {
        return Complex::new(x.re.sinh(), x.im);
    }
    let (sin, cos) = x.im.sin_cos();
    match half_of_exp(x.re.abs()) {
        Some(times) => Complex::new(times(cos) * x.re.signum(), times(sin)),
        None => Complex::new(x.re.sinh() * cos, x.re.cosh() * sin),
    }
}

pub(super) fn cosh(x: Complex64) -> Complex64 {
    if x.im == 0.0 {
        return Complex::new(x.re.cosh(), x.im * x.re.signum());
    }
    let (sin, cos) = x.im.sin_cos();
    match half_of_exp(x.re.abs()) {
        Some(times) => Complex::new(times(cos), times(sin) * x.re.signum()),
        None => Complex::new(x.re.cosh() * cos, x.re.sinh() * sin),
    }
}

/// Returns the product with `e^x / 2`, which is `sinh x` and `cosh x`, if they are close to overflow or beyond: the
/// product may be finite nevertheless.
fn half_of_exp(x: f64) -> Option<impl Fn(f64) -> f64> {
    (x > 709.0 && x.is_finite()).then(|| {
        let root = (x / 2.0).exp();
        move |factor: f64| factor * root / 2.0 * root
    })
}

/// Computes the quotient of the two, from `tan(b)` and the bounded `sinh(a)`, or its limit far out
/// (Kahan, as above).
pub(super) fn tanh(x: Complex64) -> Complex64 {
    // Beyond, the real part rounds to 1, and sinh² comes close to overflow.
    const FAR: f64 = 22.0;
    if x.re.abs() > FAR {
        let imaginary = 4.0 * (x.im.sin() * x.im.cos()) * (-2.0 * x.re.abs()).exp();
        return Complex::new(1f64.copysign(x.re), imaginary);
    }
    let (tan, sinh) = (x.im.tan(), x.re.sinh());
    let beta = 1.0 + tan * tan;
    let cosh = (1.0 + sinh * sinh).sqrt();
    if tan.is_infinite() {
        return Complex::new(cosh / sinh, 1.0 / tan);
    }
    let scale = 1.0 + beta * sinh * sinh;
    Complex::new(beta * cosh * sinh / scale, tan / scale)
}

/// i x
fn turned(x: Complex64) -> Complex64 {
    Complex::new(-x.im, x.re)
}

/// -i x
fn turned_back(x: Complex64) -> Complex64 {
    Complex::new(x.im, -x.re)
}

pub(super) fn sin(x: Complex64) -> Complex64 {
    turned_back(sinh(turned(x)))
}

pub(super) fn cos(x: Complex64) -> Complex64 {
    cosh(turned(x))
}

pub(super) fn tan(x: Complex64) -> Complex64 {
    turned_back(tanh(turned(x)))
}

/// Computes `1 / (1 + e^-x)` by the exponential that does not overflow.
pub(super) fn sigmoid(x: Complex64) -> Complex64 {
    match x.re >= 0.0 {
        true => divide(Complex::ONE, 1.0 + exp(-x)),
        false => {
            let grown = exp(x);
            divide(grown, 1.0 + grown)
        }
    }
}

/// Computes `sigmoid(x) sigmoid(-x)`, an even function.
pub(super) fn logistic_density(x: Complex64) -> Complex64 {
    let falling = exp(if x.re >= 0.0 { -x } else { x });
    let whole = 1.0 + falling;
    divide(falling, whole * whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against mpmath, with 30 digits.
    #[test]
    fn hyperbolic_functions_far_out() {
        const INFINITY: f64 = f64::INFINITY;
        for sign in [1.0, -1.0] {
            let far = |f: fn(Complex64) -> Complex64, im: f64| f(Complex::new(sign * 1e3, im));
            // An exact zero times a number too large is no NaN.
            assert_eq!(far(sinh, 0.0), Complex::new(sign * INFINITY, 0.0));
            assert_eq!(far(cosh, 0.0), Complex::new(INFINITY, 0.0));
            assert_eq!(
                sin(Complex::new(0.0, sign * 1e3)),
                Complex::new(0.0, sign * INFINITY)
            );
            assert_eq!(
                cos(Complex::new(0.0, sign * 1e3)),
                Complex::new(INFINITY, 0.0)
            );
        }
        // The cosine of this angle is 6e-17.
        let x = Complex::new(712.0, std::f64::consts::FRAC_PI_2);
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-12;
        let expected = 5.053845668074347e292;
        assert!(
            near(sinh(x).re, expected) && near(cosh(x).re, expected),
            "{} {}",
            sinh(x),
            cosh(x)
        );
        assert!(near(sinh(-x.conj()).re, -expected) && sinh(x).im == INFINITY);
        let below = sinh(Complex::new(708.9, 1.0));
        let above = sinh(Complex::new(709.1, 1.0));
        assert!(near(above.re / below.re, 0.2f64.exp()) && near(above.im / below.im, 0.2f64.exp()));
    }

    /// Against mpmath, with 30 digits.
    #[test]
    fn powers_whose_reciprocals_are_not_finite() {
        let of = |re: f64, im: f64, e: f64| power(Complex::new(re, im), e.into());
        assert_eq!(of(1e200, 1e200, -2.0), Complex::ZERO);
        for e in [-1.0, -2.0, -3.0] {
            assert_eq!(of(0.0, 0.0, e).re, f64::INFINITY);
        }
        for (found, expected) in [
            (of(1e154, 1e154, -2.0), Complex::new(0.0, -5e-309)),
            (of(1e78, -2e78, -4.0), Complex::new(-1.12e-314, -3.84e-314)),
            (
                of(3e-100, 4e-100, -3.0),
                Complex::new(-7.488e297, -2.816e297),
            ),
        ] {
            assert!(
                (found - expected).norm() <= 1e-8 * expected.norm(),
                "{found} {expected}"
            );
        }
    }
}
