//! `exp`, `exp2`, `expm1` and `sigmoid`.
//!
//! Method: `x = n ln 2 + r` with `|r| <= ln 2 / 2` by Cody and Waite's two-part constant, a
//! polynomial for `(e^r - 1 - r) / r^2`, and a multiplication by `2^n` in two factors, so that
//! results at both ends of the range, subnormal ones included, are rounded once. The sum that rounds to
//! `n` already has the bits of `2^n`. Results of `exp`
//! that are zero are not computed, because processors take many times as long for a product that is
//! too small.
//! Bounds: `exp`, `exp2` 1 ulp, `expm1` 1.5 ulp, `sigmoid` 2.5 ulp.
//! Source: Cody and Waite, "Software Manual for the Elementary Functions" (1980);
//! Muller, "Elementary Functions", third edition.

use super::coefficients::{EXP_BRIEF_F64, EXP_F32, EXP_F64, EXP2_F32, EXP2_F64};
use super::kernel::{
    Kernel, Precision, half_epsilon, nearest, nearest_product, ordered_sum, polynomial,
    power_of_two, scale, two_product, two_sum,
};

/// The constants of the exponential functions.
pub(crate) trait Exponential: Copy + 'static {
    /// `ln 2` in two parts: a product of the first with any exponent is exact.
    const LN_2: (Self, Self);
    /// `ln 2` as the nearest number and the rest.
    const LN_2_NEAREST: (Self, Self);
    const LOG2_E: Self;
    /// `(e^r - 1 - r) / r^2`.
    const EXP: &'static [Self];
    /// `(2^r - 1 - r ln 2) / r^2`.
    const EXP2: &'static [Self];
    /// Below the first, `e^x` is zero; above the second, `e^x / 2` is infinite.
    const EXP_RANGE: (Self, Self);
    /// Below the first, `2^x` is zero; above the second, it is infinite.
    const EXP2_RANGE: (Self, Self);
    /// Below this, `e^x - 1` is rounded to -1.
    const EXPM1_FLOOR: Self;
    /// For `2^n` in two factors: the second, and what it adds to the exponent of the first. In a
    /// result below 1 the second may make a subnormal number, in others infinity.
    const LAST_FACTORS: [(Self, Self); 2];
    /// [`Precision::POWER_SHIFTER`] and what the second factor of a result below 1 adds.
    const SHIFTER_BELOW: Self;
    /// `e^r` times that factor.
    const EXP_BELOW: &'static [Self];
}

/// The coefficients of `factor e^(scale x)` from those of [`Exponential::EXP`]. Both are powers of two, so
/// that nothing is rounded.
macro_rules! scaled_exp_coefficients {
    ($float:ident, $exp:expr, $factor:expr, $scale:expr) => {{
        const LENGTH: usize = 2 + $exp.len();
        const COEFFICIENTS: [$float; LENGTH] = {
            let mut scaled = [1.0; LENGTH];
            let (mut i, mut power) = (0, $factor);
            while i < LENGTH {
                scaled[i] = power * if i < 2 { 1.0 } else { $exp[i - 2] };
                power *= $scale;
                i += 1;
            }
            scaled
        };
        &COEFFICIENTS
    }};
}

impl Exponential for f32 {
    const LN_2: (Self, Self) = (0.69314575, 1.4286068e-6);
    const LN_2_NEAREST: (Self, Self) = (std::f32::consts::LN_2, -1.9046542e-9);
    const LOG2_E: Self = std::f32::consts::LOG2_E;
    const EXP: &'static [Self] = EXP_F32;
    const EXP2: &'static [Self] = EXP2_F32;
    const EXP_RANGE: (Self, Self) = (-104.0, 89.6);
    const EXP2_RANGE: (Self, Self) = (-151.0, 129.0);
    const EXPM1_FLOOR: Self = -18.0;
    const LAST_FACTORS: [(Self, Self); 2] = [(1.0 / (1_u64 << 32) as f32, 32.0), (4.0, -2.0)];
    const SHIFTER_BELOW: Self = Self::POWER_SHIFTER + Self::LAST_FACTORS[0].1;
    const EXP_BELOW: &'static [Self] =
        scaled_exp_coefficients!(f32, EXP_F32, f32::LAST_FACTORS[0].0, 1.0);
}

impl Exponential for f64 {
    const LN_2: (Self, Self) = (0.6931471804855391, 7.440617110012397e-11);
    const LN_2_NEAREST: (Self, Self) = (std::f64::consts::LN_2, 2.3190468138462996e-17);
    const LOG2_E: Self = std::f64::consts::LOG2_E;
    const EXP: &'static [Self] = EXP_F64;
    const EXP2: &'static [Self] = EXP2_F64;
    const EXP_RANGE: (Self, Self) = (-746.0, 710.6);
    const EXP2_RANGE: (Self, Self) = (-1076.0, 1025.0);
    const EXPM1_FLOOR: Self = -40.0;
    const LAST_FACTORS: [(Self, Self); 2] = [(1.0 / (1_u128 << 64) as f64, 64.0), (4.0, -2.0)];
    const SHIFTER_BELOW: Self = Self::POWER_SHIFTER + Self::LAST_FACTORS[0].1;
    const EXP_BELOW: &'static [Self] =
        scaled_exp_coefficients!(f64, EXP_F64, f64::LAST_FACTORS[0].0, 1.0);
}

/// [`Exponential::EXP_BELOW`] of `-r / 2`.
const EXP_BELOW_OF_HALF: &[f32] =
    scaled_exp_coefficients!(f32, EXP_F32, f32::LAST_FACTORS[0].0, -0.5);

/// `x` clamped to the range. NaN stays NaN.
#[inline(always)]
fn clamp<T: Kernel>(x: T, range: (T::Precision, T::Precision)) -> T {
    let (low, high) = T::pair(range);
    let x = T::select(x.less(low), low, x);
    T::select(x.greater(high), high, x)
}

/// `(n, r, r_low)` with `x = n ln 2 + r + r_low`.
#[inline(always)]
fn reduce<T: Kernel>(x: T) -> (T, T, T) {
    let n = nearest_product(x, T::of(T::Precision::LOG2_E));
    let (first, second) = T::pair(T::Precision::LN_2);
    let high = (-n).mul_add(first, x);
    let r = (-n).mul_add(second, high);
    (n, r, (-n).mul_add(second, high - r))
}

/// `(n + shifter, r)` with `x = n ln 2 + r`.
#[inline(always)]
fn reduce_onto<T: Kernel>(x: T, shifter: T) -> (T, T) {
    let sum = x.mul_add(T::of(T::Precision::LOG2_E), shifter);
    let n = sum - shifter;
    let (first, second) = T::pair(T::Precision::LN_2);
    (sum, (-n).mul_add(second, (-n).mul_add(first, x)))
}

/// The same with [`Precision::POWER_SHIFTER`], for an `n` so small that `ln 2` is exact enough.
#[inline(always)]
fn reduce_briefly<T: Kernel>(x: T) -> (T, T) {
    let shifter = T::of(T::Precision::POWER_SHIFTER);
    let sum = x.mul_add(T::of(T::Precision::LOG2_E), shifter);
    let (ln_2, _) = T::pair(T::Precision::LN_2_NEAREST);
    (sum, (shifter - sum).mul_add(ln_2, x))
}

/// `e^r` for `|r| <= ln 2 / 2`.
#[inline(always)]
fn exp_of_rest<T: Kernel>(r: T) -> T {
    let slope = polynomial(r, T::Precision::EXP).mul_add(r, T::ONE);
    slope.mul_add(r, T::ONE)
}

/// `e^(x + x_low)` as `(m, n)`, meaning `2^n m`, for an `x_low` of at most a few ulp of `x`.
#[inline(always)]
pub(crate) fn exp_parts<T: Kernel>(x: T, x_low: T) -> (T, T) {
    let (n, r, r_low) = reduce(clamp(x, T::Precision::EXP_RANGE));
    let (r, r_low) = two_sum(r, r_low + x_low);
    (
        T::ONE + (r + (r * r).mul_add(polynomial(r, T::Precision::EXP), r_low)),
        n,
    )
}

/// `2^-shift e^x`.
#[inline(always)]
pub(crate) fn exp_shifted<T: Kernel>(x: T, shift: T) -> T {
    let (n, r, _) = reduce(clamp(x, T::Precision::EXP_RANGE));
    scale(exp_of_rest(r), n - shift)
}

/// `e^x` for an `x` so close to 0 that neither `e^x` nor `2^n` leaves the normal numbers, with an error
/// of `1e-9 x`.
#[inline(always)]
pub(crate) fn exp_near_one<T: Kernel>(x: T) -> T {
    let (sum, r) = reduce_briefly(x);
    exp_of_rest(r) * T::power_of_two(sum)
}

/// `1 + e^x` in the same way.
#[inline(always)]
pub(crate) fn one_plus_exp_near_one<T: Kernel>(x: T) -> T {
    let (sum, r) = reduce_briefly(x);
    exp_of_rest(r).mul_add(T::power_of_two(sum), T::ONE)
}

#[inline(always)]
pub(crate) fn exp<T: Kernel>(x: T) -> T {
    let zero = x.less(T::of(T::Precision::EXP_RANGE.0));
    let x = T::select(zero, T::ZERO, x);
    let high = T::of(T::Precision::EXP_RANGE.1);
    let x = T::select(x.greater(high), high, x);
    let negative = x.less(T::ZERO);
    let [(below, add_below), (above, add_above)] = T::Precision::LAST_FACTORS.map(T::pair);
    let shifter = T::of(T::Precision::POWER_SHIFTER);
    let shifter = T::select(negative, shifter + add_below, shifter + add_above);
    let (sum, r) = reduce_onto(x, shifter);
    let y = exp_of_rest(r) * T::power_of_two(sum) * T::select(negative, below, above);
    T::select(zero, T::ZERO, y)
}

/// The same for an `x` that is not positive, with the same bits.
#[inline(always)]
pub(crate) fn exp_of_negative<T: Kernel>(x: T) -> T {
    let zero = x.less(T::of(T::Precision::EXP_RANGE.0));
    let x = T::select(zero, T::ZERO, x);
    let (sum, r) = reduce_onto(x, T::of(T::Precision::SHIFTER_BELOW));
    let y = polynomial(r, T::Precision::EXP_BELOW) * T::power_of_two(sum);
    T::select(zero, T::ZERO, y)
}

/// `factor e^(x + x_low)` for an `x` from the range that is not positive, a small `x_low`, and a factor
/// from 1/64 to 64.
#[inline(always)]
pub(crate) fn scaled_exp<T: Kernel>(x: T, x_low: T, factor: T) -> T {
    let shifter = T::of(T::Precision::SHIFTER_BELOW);
    let sum = x.mul_add(T::of(T::Precision::LOG2_E), shifter);
    let n = sum - shifter;
    let (first, second) = T::pair(T::Precision::LN_2);
    let r = (-n).mul_add(first, x) + (-n).mul_add(second, x_low);
    polynomial(r, T::Precision::EXP_BELOW) * factor * T::power_of_two(sum)
}

/// `factor e^(-a^2 / 2)` in the same way, as the product of a number and a power of two.
#[inline(always)]
pub(crate) fn scaled_gaussian<T: Kernel<Precision = f32>>(a: T, factor: T) -> (T, T) {
    let (square, square_low) = two_product(a, a);
    let shifter = T::of(f32::SHIFTER_BELOW);
    let sum = square.mul_add(T::of(-0.5 * f32::LOG2_E), shifter);
    let n = sum - shifter;
    let [first, second] = [f32::LN_2.0, f32::LN_2.1].map(|part| T::of(2.0 * part));
    let r = n.mul_add(first, square) + n.mul_add(second, square_low);
    (
        polynomial(r, EXP_BELOW_OF_HALF) * factor,
        T::power_of_two(sum),
    )
}

/// `e^x` to 27 bits, where that is a number of f32.
#[inline(always)]
pub(crate) fn exp_briefly<T: Kernel<Precision = f64>>(x: T) -> T {
    let (sum, r) = reduce_briefly(clamp(x, (-110.0, 90.0)));
    let slope = polynomial(r, EXP_BRIEF_F64).mul_add(r, T::ONE);
    slope.mul_add(r, T::ONE) * T::power_of_two(sum)
}

#[inline(always)]
pub(crate) fn exp2<T: Kernel>(x: T) -> T {
    let x = clamp(x, T::Precision::EXP2_RANGE);
    let n = nearest(x);
    let r = x - n;
    let (first, second) = T::pair(T::Precision::LN_2_NEAREST);
    let rest = (r * r).mul_add(polynomial(r, T::Precision::EXP2), r * second);
    scale(T::ONE + r.mul_add(first, rest), n)
}

/// `(e^x - 1) / 4` as a sum of two. The division keeps `2^n` finite wherever `sinh x` is.
#[inline(always)]
pub(crate) fn expm1_quarter<T: Kernel>(x: T) -> (T, T) {
    let (n, r, r_low) = reduce(clamp(
        x,
        (T::Precision::EXPM1_FLOOR, T::Precision::EXP_RANGE.1),
    ));
    let (p, p_low) = ordered_sum(r, (r * r).mul_add(polynomial(r, T::Precision::EXP), r_low));
    let power = power_of_two(n - T::TWO);
    let (high, low) = two_sum(power - T::HALF * T::HALF, power * p);
    (high, power.mul_add(p_low, low))
}

#[inline(always)]
pub(crate) fn expm1<T: Kernel>(x: T) -> T {
    let (high, low) = expm1_quarter(x);
    // x itself where x^2 / 2 is below half an ulp: keeps subnormal numbers and the sign of zero.
    T::select(
        x.abs().less(half_epsilon()),
        x,
        (high + low) * T::from_f64(4.0),
    )
}

#[inline(always)]
pub(crate) fn sigmoid<T: Kernel>(x: T) -> T {
    // With e = e^-|x| the sum 1 + e neither overflows nor cancels: 1 / (1 + e) on the right of
    // zero, e / (1 + e) on the left.
    let e = exp_of_negative(-x.abs());
    T::select(x.less(T::ZERO), e, T::ONE) / (T::ONE + e)
}
