//! `erf`, `erfc`, `erfinv`, and the normal distribution and its density.
//!
//! Method: `erf x = x P(x^2)` up to 1. Further out `erfc x = e^(-x^2) H(t) / (x + 3)` with
//! `t = (x - 3) / (x + 3)`, which maps the whole half line to a short interval; `x^2` is computed
//! in two parts, so that the exponential is accurate in the far tail. In f32 this form, with 2 in the
//! place of 3, serves for `erfc` from 0 on, `erf` is one polynomial whose variable and coefficients are chosen, and the
//! normal distribution of a negative `x` is `e^(-x^2 / 2)` times a quotient of polynomials, and `gelu x` is
//! `max(x, 0)` minus `|x|` times that of `-|x|`. `erfinv` is `x`
//! times a polynomial in `w = -ln(1 - x^2)` or, from `w = 6` on, in its square root.
//! Bounds: `erf` 1.5 ulp, `erfc` 5 ulp, `erfinv` 4 ulp; in f32 6.5 ulp for the distribution and GELU and 2.5 for the
//! density, of which the f64 ones are those of a rounded argument.
//! Source: Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x" (1981),
//! for the substitution; Giles, "Approximating the erfinv function" (2010), for the variable `w`.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use super::coefficients::{
    ERF_CENTRE_F32, ERF_F64, ERF_TAIL_F32, ERFC_F32, ERFC_F64, ERFINV_CENTRE_F32,
    ERFINV_CENTRE_F64, ERFINV_MIDDLE_F32, ERFINV_MIDDLE_F64, ERFINV_TAIL_F64, NORMAL_TAIL_F32,
};
use super::exponential::{exp_of_negative, exp_parts, scaled_exp, scaled_gaussian};
use super::kernel::{Kernel, polynomial, scale, two_product, two_sum};
use super::logarithm::{Logarithm, ln};

/// The constants of the error functions.
pub(crate) trait ErrorFunction: Logarithm {
    /// `erfinv(x) / x` in powers of `w - 3`.
    const ERFINV_CENTRE: &'static [Self];
    /// `erfinv(x) / x` in powers of `sqrt(w) - 3.25`.
    const ERFINV_MIDDLE: &'static [Self];
    /// `erfinv(x) / x` in powers of `sqrt(w) - 5`; no f32 below 1 has a `w` that large.
    const ERFINV_TAIL: Option<&'static [Self]>;

    fn erf<T: Kernel<Precision = Self>>(x: T) -> T;

    fn erfc<T: Kernel<Precision = Self>>(x: T) -> T;

    fn normal_distribution<T: Kernel<Precision = Self>>(x: T) -> T;

    fn normal_density<T: Kernel<Precision = Self>>(x: T) -> T;

    fn gelu<T: Kernel<Precision = Self>>(x: T) -> T;
}

impl ErrorFunction for f32 {
    const ERFINV_CENTRE: &'static [Self] = ERFINV_CENTRE_F32;
    const ERFINV_MIDDLE: &'static [Self] = ERFINV_MIDDLE_F32;
    const ERFINV_TAIL: Option<&'static [Self]> = None;

    #[inline(always)]
    fn erf<T: Kernel<Precision = Self>>(x: T) -> T {
        let a = x.abs();
        let near = a.less(T::of(1.65));
        // From here on erf is rounded to 1.
        let one = T::of(3.92);
        let held = T::select(a.greater(one), one, a);
        let variable = T::select(near, x.mul_add(x, T::of(-1.8125)), held - T::of(2.75));
        let (shared, further) = ERF_TAIL_F32.split_at(ERF_CENTRE_F32.len());
        let further = T::select(near, T::ZERO, polynomial(variable, further));
        let coefficients = ERF_CENTRE_F32.iter().zip(shared).rev();
        let ratio = coefficients.fold(further, |sum, (&centre, &tail)| {
            sum.mul_add(variable, T::select(near, T::of(centre), T::of(tail)))
        });
        let scale = T::select(near, x, T::ONE.copysign(x));
        scale.mul_add(ratio, scale)
    }

    #[inline(always)]
    fn erfc<T: Kernel<Precision = Self>>(x: T) -> T {
        let a = x.abs();
        // From here on erfc is zero, and not computed: see `exp`.
        let zero = a.greater(T::of(10.06));
        let a = T::select(zero, T::ZERO, a);
        let reciprocal = T::ONE / (a + T::TWO);
        let t = (a - T::TWO) * reciprocal;
        let (square, square_low) = two_product(a, a);
        let factor = polynomial(t, ERFC_F32) * reciprocal;
        let tail = scaled_exp(-square, -square_low, factor);
        let tail = T::select(zero, T::ZERO, tail);
        T::select(x.less(T::ZERO), T::TWO - tail, tail)
    }

    #[inline(always)]
    fn normal_distribution<T: Kernel<Precision = Self>>(x: T) -> T {
        let (held, zero) = held(x);
        let (tail, power) = scaled_gaussian(held, normal_tail(held));
        let tail = T::select(zero, T::ZERO, tail * power);
        T::select(x.less(T::ZERO), tail, T::ONE - tail)
    }

    #[inline(always)]
    fn normal_density<T: Kernel<Precision = Self>>(x: T) -> T {
        let (held, zero) = held(x);
        let (density, power) = scaled_gaussian(held, T::of(FRAC_1_SQRT_TAU as f32));
        T::select(zero, T::ZERO, density * power)
    }

    #[inline(always)]
    fn gelu<T: Kernel<Precision = Self>>(x: T) -> T {
        let (held, _) = held(x);
        let zero = -T::ZERO;
        let relu = T::select(x.less(zero), zero, x);
        let (tail, power) = scaled_gaussian(held, normal_tail(held));
        // Not the distribution, which may be below the normal numbers, times `|x|`.
        (-tail).mul_add(power * held, relu)
    }
}

/// `|x|`, or 0 where `e^(-x^2 / 2)` is zero and not computed, and whether it is.
#[inline(always)]
fn held<T: Kernel<Precision = f32>>(x: T) -> (T, T::Truth) {
    let a = x.abs();
    let zero = a.greater(T::of(14.4));
    (T::select(zero, T::ZERO, a), zero)
}

/// `e^(a^2 / 2)` times the normal distribution of `-a`, for an `a` from 0 to 14.4.
#[inline(always)]
fn normal_tail<T: Kernel<Precision = f32>>(a: T) -> T {
    let (numerator, divisor) = NORMAL_TAIL_F32;
    polynomial(a, numerator) / polynomial(a, divisor)
}

impl ErrorFunction for f64 {
    const ERFINV_CENTRE: &'static [Self] = ERFINV_CENTRE_F64;
    const ERFINV_MIDDLE: &'static [Self] = ERFINV_MIDDLE_F64;
    const ERFINV_TAIL: Option<&'static [Self]> = Some(ERFINV_TAIL_F64);

    #[inline(always)]
    fn erf<T: Kernel<Precision = Self>>(x: T) -> T {
        let a = x.abs();
        T::select(
            a.greater(T::ONE),
            (T::ONE - erfc_tail(a)).copysign(x),
            erf_centre(x),
        )
    }

    #[inline(always)]
    fn erfc<T: Kernel<Precision = Self>>(x: T) -> T {
        let tail = erfc_tail(x.abs());
        let y = T::select(x.less(T::ZERO), T::TWO - tail, tail);
        T::select(x.abs().less(T::of(0.75)), T::ONE - erf_centre(x), y)
    }

    #[inline(always)]
    fn normal_distribution<T: Kernel<Precision = Self>>(x: T) -> T {
        T::HALF * erfc(x * T::of(-FRAC_1_SQRT_2))
    }

    #[inline(always)]
    fn normal_density<T: Kernel<Precision = Self>>(x: T) -> T {
        exp_of_negative(x * x * -T::HALF) * T::of(FRAC_1_SQRT_TAU)
    }

    #[inline(always)]
    fn gelu<T: Kernel<Precision = Self>>(x: T) -> T {
        // From here on the distribution is zero, of which infinity would make NaN.
        let least = T::of(-40.0);
        T::select(x.less(least), least, x) * normal_distribution(x)
    }
}

/// `1 / sqrt(2 pi)`.
const FRAC_1_SQRT_TAU: f64 = 0.5 * FRAC_2_SQRT_PI * FRAC_1_SQRT_2;

/// `erf x` for `|x| <= 1`, in f64.
#[inline(always)]
fn erf_centre<T: Kernel<Precision = f64>>(x: T) -> T {
    x.mul_add(polynomial(x * x, ERF_F64), x)
}

/// `erfc a` for `a >= 3/4`, in f64.
#[inline(always)]
fn erfc_tail<T: Kernel<Precision = f64>>(a: T) -> T {
    // From here on it is zero.
    let zero = T::of(28.0);
    let a = T::select(a.greater(zero), zero, a);
    let three = T::TWO + T::ONE;
    let (divisor, divisor_low) = two_sum(a, three);
    let reciprocal = T::ONE / divisor;
    // The relative error of the reciprocal, to correct what is multiplied by it.
    let missing = (-reciprocal).mul_add(divisor, T::ONE) - reciprocal * divisor_low;
    let over = |x: T| x.mul_add(reciprocal, x * reciprocal * missing);
    let t = over(a - three);
    let (square, square_low) = two_product(a, a);
    let (power, n) = exp_parts(-square, -square_low);
    scale(power * over(polynomial(t, ERFC_F64)), n)
}

#[inline(always)]
pub(crate) fn erf<T: Kernel>(x: T) -> T {
    T::Precision::erf(x)
}

#[inline(always)]
pub(crate) fn erfc<T: Kernel>(x: T) -> T {
    T::Precision::erfc(x)
}

#[inline(always)]
pub(crate) fn normal_distribution<T: Kernel>(x: T) -> T {
    T::Precision::normal_distribution(x)
}

#[inline(always)]
pub(crate) fn normal_density<T: Kernel>(x: T) -> T {
    T::Precision::normal_density(x)
}

#[inline(always)]
pub(crate) fn gelu<T: Kernel>(x: T) -> T {
    T::Precision::gelu(x)
}

#[inline(always)]
pub(crate) fn erfinv<T: Kernel>(x: T) -> T {
    let w = -ln((T::ONE - x) * (T::ONE + x));
    let root = w.sqrt();
    let mut factor = polynomial(root - T::from_f64(3.25), T::Precision::ERFINV_MIDDLE);
    if let Some(tail) = T::Precision::ERFINV_TAIL {
        let far = polynomial(root - T::from_f64(5.0), tail);
        factor = T::select(w.greater(T::from_f64(16.4)), far, factor);
    }
    let centre = polynomial(w - T::from_f64(3.0), T::Precision::ERFINV_CENTRE);
    factor = T::select(w.less(T::from_f64(6.0)), centre, factor);
    x * T::select(w.equal(T::INFINITY), w, factor)
}
