//! `sinh`, `cosh`, `tanh` and their inverses.
//!
//! Method: the three are rational in `e^x - 1` or `e^x`, divided by 4 so that they do not overflow
//! before the results do; `tanh` of f64 has its numerator and denominator in two parts, and that of
//! f32 is a polynomial near zero. The inverses are `log1p` of an argument that does not cancel.
//! Bounds: `tanh` 1.5 ulp, `cosh` 1.5 ulp, `sinh` 2.5 ulp, the inverses 2 ulp.
//! Source: the identities of Kahan's "Branch cuts for complex elementary functions" (1987) and of
//! Beebe, "The Mathematical-Function Computation Handbook" (2017).

use super::coefficients::TANH_F32;
use super::exponential::{Exponential, exp_shifted, expm1_quarter, one_plus_exp_near_one};
use super::kernel::{Kernel, half_epsilon, polynomial, quotient, two_sum};
use super::logarithm::log1p;
use super::trigonometric::unless_tiny;

#[inline(always)]
pub(crate) fn sinh<T: Kernel>(x: T) -> T {
    let (q, q_low) = expm1_quarter(x.abs());
    let q = q + q_low;
    let y = T::TWO * (q + q / T::from_f64(4.0).mul_add(q, T::ONE));
    unless_tiny(x, y.copysign(x))
}

#[inline(always)]
pub(crate) fn cosh<T: Kernel>(x: T) -> T {
    let quarter = exp_shifted(x.abs(), T::TWO);
    T::TWO * (quarter + T::from_f64(1.0 / 16.0) / quarter)
}

/// The hyperbolic tangent of one precision.
pub(crate) trait Hyperbolic: Copy + 'static {
    fn tanh<T: Kernel<Precision = Self>>(x: T) -> T;
}

impl Hyperbolic for f32 {
    /// `x + x^3 P(x^2)` up to 5/8, and `1 - 2 / (e^2x + 1)` beyond, where the quotient is below
    /// one half, so that its errors count little.
    #[inline(always)]
    fn tanh<T: Kernel<Precision = Self>>(x: T) -> T {
        // From here on, tanh is rounded to 1.
        let limit = T::of(9.03);
        let a = T::select(x.abs().greater(limit), limit, x.abs());
        let far = T::ONE - T::TWO / one_plus_exp_near_one(T::TWO * a);
        let z = a * a;
        let near = (a * z).mul_add(polynomial(z, TANH_F32), a);
        T::select(a.less(T::of(0.625)), near, far).copysign(x)
    }
}

impl Hyperbolic for f64 {
    /// `(e^2x - 1) / (e^2x + 1)`.
    #[inline(always)]
    fn tanh<T: Kernel<Precision = Self>>(x: T) -> T {
        // From 20 on, tanh is rounded to 1.
        let limit = T::of(20.0);
        let a = T::select(x.abs().greater(limit), limit, x.abs());
        let (q, q_low) = expm1_quarter(T::TWO * a);
        let (divisor, divisor_low) = two_sum(q, T::HALF);
        unless_tiny(
            x,
            quotient((q, q_low), (divisor, divisor_low + q_low)).copysign(x),
        )
    }
}

#[inline(always)]
pub(crate) fn tanh<T: Kernel>(x: T) -> T {
    T::Precision::tanh(x)
}

/// `ln(1 + u)`, or `ln(2 x)` if `x` is so large that `u` is `2 x` or has overflowed.
#[inline(always)]
fn log1p_or_twice<T: Kernel>(x: T, u: T) -> T {
    let large = (x * (T::TWO * half_epsilon())).greater(T::ONE);
    let ln_2 = T::select(large, T::of(T::Precision::LN_2_NEAREST.0), T::ZERO);
    log1p(T::select(large, x, u)) + ln_2
}

#[inline(always)]
pub(crate) fn asinh<T: Kernel>(x: T) -> T {
    let a = x.abs();
    let u = a + a * a / (T::ONE + a.mul_add(a, T::ONE).sqrt());
    unless_tiny(x, log1p_or_twice(a, u).copysign(x))
}

#[inline(always)]
pub(crate) fn acosh<T: Kernel>(x: T) -> T {
    let t = x - T::ONE;
    let y = log1p_or_twice(x, t + t.mul_add(t, T::TWO * t).sqrt());
    T::select(x.greater_equal(T::ONE), y, T::NAN)
}

#[inline(always)]
pub(crate) fn atanh<T: Kernel>(x: T) -> T {
    let a = x.abs();
    let y = T::HALF * log1p(T::TWO * a / (T::ONE - a));
    unless_tiny(x, y.copysign(x))
}
