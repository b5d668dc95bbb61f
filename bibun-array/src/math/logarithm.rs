//! `ln`, `log2`, `log10`, `log1p`, and on top of them `softplus` and `logaddexp`.
//!
//! Method: `x = 2^k m` with `sqrt(1/2) <= m < sqrt(2)`, `f = m - 1`, `s = f / (2 + f)`; then
//! `ln m = 2 atanh s = f - f^2 / 2 + s (f^2 / 2 + s^2 R(s^2))`, whose first terms are kept separate
//! from the small last one. `log2` and `log10` multiply by a two-part constant before `k` is added.
//! Bounds: 1 ulp for the logarithms, 2.5 ulp for `softplus`; for `logaddexp` 2 ulp of the largest of
//! its arguments and its result.
//! Source: the form of `ln m` is the one of Ng's fdlibm (1993), with the compensations that a fused
//! multiply-add makes cheap; Muller, "Elementary Functions", third edition.

use super::Float;
use super::coefficients::{LN_1P_F32, LN_BRIEF_F64, LN_F32, LN_F64, LN_REST_F64};
use super::exponential::{Exponential, exp_of_negative};
use super::kernel::{
    Kernel, half_epsilon, ordered_sum, polynomial, power_of_two, split, two_product, two_sum,
};

/// The constants of the logarithms.
pub(crate) trait Logarithm: Exponential {
    /// `log2 e` as the nearest number and the rest.
    const LOG2_E: (Self, Self);
    /// `log10 e` as the nearest number and the rest.
    const LOG10_E: (Self, Self);
    /// `log10 2` in two parts: a product of the first with any exponent is exact.
    const LOG10_2: (Self, Self);

    /// `ln(1 + f)` as `high + low` for `sqrt(1/2) <= 1 + f < sqrt(2)`.
    fn ln_of_fraction<T: Kernel<Precision = Self>>(f: T) -> (T, T);

    /// The same with less error in `high`.
    fn ln_of_fraction_in_parts<T: Kernel<Precision = Self>>(f: T) -> (T, T) {
        Self::ln_of_fraction(f)
    }

    /// `ln(1 + x)` for `x` from 0 to 1.
    fn log1p_to_one<T: Kernel<Precision = Self>>(x: T) -> T;
}

impl Logarithm for f32 {
    const LOG2_E: (Self, Self) = (std::f32::consts::LOG2_E, 1.925963e-8);
    const LOG10_E: (Self, Self) = (std::f32::consts::LOG10_E, -1.010305e-8);
    const LOG10_2: (Self, Self) = (0.3010254, 4.605039e-6);

    #[inline(always)]
    fn ln_of_fraction<T: Kernel<Precision = Self>>(f: T) -> (T, T) {
        let slope = polynomial(f, LN_F32).mul_add(f, -T::HALF);
        (f, f * f * slope)
    }

    #[inline(always)]
    fn ln_of_fraction_in_parts<T: Kernel<Precision = Self>>(f: T) -> (T, T) {
        let square = f * f;
        let (high, low) = ordered_sum(f, -(T::HALF * square));
        (high, (square * f).mul_add(polynomial(f, LN_F32), low))
    }

    #[inline(always)]
    fn log1p_to_one<T: Kernel<Precision = Self>>(x: T) -> T {
        (x * x).mul_add(polynomial(x, LN_1P_F32), x)
    }
}

impl Logarithm for f64 {
    const LOG2_E: (Self, Self) = (std::f64::consts::LOG2_E, 2.0355273740931033e-17);
    const LOG10_E: (Self, Self) = (std::f64::consts::LOG10_E, 1.098319650216765e-17);
    const LOG10_2: (Self, Self) = (0.30102999560767785, 5.630334806675098e-11);

    #[inline(always)]
    fn ln_of_fraction<T: Kernel<Precision = Self>>(f: T) -> (T, T) {
        let s = f / (T::TWO + f);
        let z = s * s;
        let half_square = T::HALF * f * f;
        let tail = s * z.mul_add(polynomial(z, LN_F64), half_square);
        let (high, low) = ordered_sum(f, -half_square);
        (high, low + tail)
    }

    #[inline(always)]
    fn log1p_to_one<T: Kernel<Precision = Self>>(x: T) -> T {
        log1p(x)
    }
}

/// `ln(1 + f)` as `high + low` for `sqrt(1/2) <= 1 + f < sqrt(2)`.
#[inline(always)]
fn ln_of_fraction<T: Kernel>(f: T) -> (T, T) {
    T::Precision::ln_of_fraction(f)
}

/// The same with a low part that is a hundredth of the high one.
#[inline(always)]
fn ln_of_fraction_in_parts<T: Kernel>(f: T) -> (T, T) {
    T::Precision::ln_of_fraction_in_parts(f)
}

/// Sets the values of a logarithm at zero, at infinity, below zero and at NaN.
#[inline(always)]
fn at_the_ends<T: Float>(x: T, y: T) -> T {
    let y = T::select(x.equal(T::INFINITY), x, y);
    let y = T::select(x.equal(T::ZERO), T::NEG_INFINITY, y);
    T::select(x.greater_equal(T::ZERO), y, T::NAN)
}

/// `k unit + (high + low)`, where `k` times the first part of the unit is exact.
#[inline(always)]
fn add_exponent<T: Kernel>(k: T, unit: (T, T), (high, low): (T, T)) -> T {
    let sum = k.mul_add(unit.0, high);
    let rest = high - (-k).mul_add(unit.0, sum);
    sum + (rest + k.mul_add(unit.1, low))
}

#[inline(always)]
pub(crate) fn ln<T: Kernel>(x: T) -> T {
    let (k, m) = split(x);
    at_the_ends(
        x,
        add_exponent(k, T::pair(T::Precision::LN_2), ln_of_fraction(m - T::ONE)),
    )
}

/// A logarithm to another base: `per_e` is the new logarithm of e, `per_2` that of 2.
#[inline(always)]
fn logarithm<T: Kernel>(x: T, per_e: (T, T), per_2: (T, T)) -> T {
    let (k, m) = split(x);
    let (high, low) = ln_of_fraction_in_parts(m - T::ONE);
    let (product, rest) = two_product(high, per_e.0);
    let rest = low.mul_add(per_e.0, high.mul_add(per_e.1, rest));
    at_the_ends(x, add_exponent(k, per_2, (product, rest)))
}

#[inline(always)]
pub(crate) fn log2<T: Kernel>(x: T) -> T {
    logarithm(
        x,
        T::pair(<T::Precision as Logarithm>::LOG2_E),
        (T::ONE, T::ZERO),
    )
}

#[inline(always)]
pub(crate) fn log10<T: Kernel>(x: T) -> T {
    logarithm(
        x,
        T::pair(T::Precision::LOG10_E),
        T::pair(T::Precision::LOG10_2),
    )
}

/// `ln(1 + x)`: the rounding error of `1 + x`, divided by `1 + x`, corrects the logarithm.
#[inline(always)]
pub(crate) fn log1p<T: Kernel>(x: T) -> T {
    let (u, u_low) = two_sum(T::ONE, x);
    let (k, m) = (u.exponent(), u.fraction());
    // Beyond 2^100 there is nothing to correct, and no number for the reciprocal of the power.
    let most = T::from_f64(100.0);
    let reciprocal = power_of_two(-T::select(k.greater(most), most, k));
    let f = m - T::ONE;
    // For so small a correction, a parabola is good enough for 1 / m.
    let slope = f.mul_add(T::from_f64(0.7), -T::ONE);
    let reciprocal = reciprocal * slope.mul_add(f, T::ONE);
    let (high, low) = ln_of_fraction_in_parts(f);
    let low = u_low.mul_add(reciprocal, low);
    let y = at_the_ends(u, add_exponent(k, T::pair(T::Precision::LN_2), (high, low)));
    T::select(x.abs().less(half_epsilon()), x, y)
}

/// `ln(1 + e^x) = max(x, 0) + log1p(e^-|x|)`.
#[inline(always)]
pub(crate) fn softplus<T: Kernel>(x: T) -> T {
    T::select(x.greater(T::ZERO), x, T::ZERO)
        + T::Precision::log1p_to_one(exp_of_negative(-x.abs()))
}

#[inline(always)]
pub(crate) fn logaddexp<T: Kernel>(a: T, b: T) -> T {
    let y = a.maximum(b) + T::Precision::log1p_to_one(exp_of_negative(-(a - b).abs()));
    // Equal infinities have no difference.
    T::select(a.equal(b), a + T::of(T::Precision::LN_2_NEAREST.0), y)
}

/// `ln x` for a positive finite `x`, as a sum of two with a relative error of about 2^-64.
///
/// In addition to `ln_of_fraction`, the quotient `s` and the first two terms `2 s + 2/3 s^3` of the
/// series are computed in two parts.
#[inline(always)]
pub(crate) fn ln_in_two_parts<T: Kernel<Precision = f64>>(x: T) -> (T, T) {
    const TWO_THIRDS: (f64, f64) = (2.0 / 3.0, 3.700743415417188e-17);
    let (two_thirds, two_thirds_low) = T::pair(TWO_THIRDS);
    let (ln_2, ln_2_low) = T::pair(f64::LN_2);
    let (k, m) = split(x);
    let f = m - T::ONE;
    let (divisor, divisor_low) = ordered_sum(T::TWO, f);
    let s = f / divisor;
    let s_low = ((-s).mul_add(divisor, f) - s * divisor_low) / divisor;
    let (z, z_low) = two_product(s, s);
    let z_low = (T::TWO * s).mul_add(s_low, z_low);
    let (factor, factor_low) = ordered_sum(two_thirds, z * polynomial(z, LN_REST_F64));
    let (cube, cube_low) = two_product(z, s);
    let cube_low = z.mul_add(s_low, z_low.mul_add(s, cube_low));
    let (term, term_low) = two_product(cube, factor);
    let term_low = cube.mul_add(
        factor_low + two_thirds_low,
        cube_low.mul_add(factor, term_low),
    );
    let (fraction, fraction_low) = ordered_sum(T::TWO * s, term);
    let fraction_low = fraction_low + T::TWO.mul_add(s_low, term_low);
    let (high, low) = ordered_sum(k * ln_2, fraction);
    ordered_sum(high, low + k.mul_add(ln_2_low, fraction_low))
}

/// `ln x` of a positive number, with a relative error of `1e-11`.
#[inline(always)]
pub(crate) fn ln_briefly<T: Kernel<Precision = f64>>(x: T) -> T {
    let f = x.fraction() - T::ONE;
    let slope = polynomial(f, LN_BRIEF_F64).mul_add(f, -T::HALF);
    let fraction = (f * f).mul_add(slope, f);
    x.exponent()
        .mul_add(T::of(std::f64::consts::LN_2), fraction)
}
