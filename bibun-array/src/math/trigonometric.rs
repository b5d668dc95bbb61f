//! `sin`, `cos`, `tan` and their inverses.
//!
//! Method: `x = 2^s x'` with one of few integers `s`; `2^s 2 / pi` modulo 4 is a constant in two or
//! three parts, and `x'` times it gives the quadrant and the fraction of it without loss, however
//! large `x` is: Payne and Hanek's reduction without a branch. f32 does it in f64 and picks among
//! five constants; f64 looks its constant up in a table of 32 rows, which stays in the first cache.
//! Polynomials for sine and cosine over `|r| <= pi / 4` follow. The inverses fold their argument into
//! a short interval by identities with a single division.
//! Bounds: `sin`, `cos` 1 ulp, `tan` 2 ulp, the inverses 3 ulp; for every finite argument.
//! Source: Payne and Hanek, "Radian reduction for trigonometric functions" (1983); Muller, "Elementary
//! Functions", third edition, chapter 11; Moshier, "Methods and Programs for Mathematical
//! Functions" (1989), for the folding of the arctangent.

use std::f64::consts::FRAC_PI_4;

use super::Float;
use super::coefficients::{
    ASIN_F32, ASIN_F64, ATAN_F32, ATAN_F64, COS_F64, COS_SHORT_F64, QUADRANTS_F32, QUADRANTS_HIGH,
    QUADRANTS_LOW, QUADRANTS_MIDDLE, SIN_F64, SIN_SHORT_F64,
};
use super::kernel::{Kernel, nearest, ordered_sum, polynomial, two_product, two_sum};

const TAN_PI_8: f64 = 0.41421356237309503;

/// The reduction and the constants of the trigonometric functions.
pub(super) trait Trigonometric: Kernel {
    /// `(sin r - r) / r^3` in powers of `r^2`, always evaluated in f64.
    const SIN: &'static [f64];
    /// `(cos r - 1 + r^2 / 2) / r^4` in powers of `r^2`, always evaluated in f64.
    const COS: &'static [f64];
    /// `pi / 2` as the nearest number and the rest.
    const FRAC_PI_2: (Self, Self);
    /// `(asin s - s) / s^3` in powers of `s^2`.
    const ASIN: &'static [Self];
    /// `(atan s - s) / s^3` in powers of `s^2`.
    const ATAN: &'static [Self];
    /// Above this, numbers are scaled down before they are added.
    const LARGE: Self;

    /// `(n, r, r_low)` with `self = n pi / 2 + r + r_low` up to a multiple of `2 pi`, and `|r| <= pi / 4`.
    fn reduce(self) -> (f64, f64, f64);
}

impl Trigonometric for f32 {
    const SIN: &'static [f64] = SIN_SHORT_F64;
    const COS: &'static [f64] = COS_SHORT_F64;
    const FRAC_PI_2: (Self, Self) = (std::f32::consts::FRAC_PI_2, -4.371139e-8);
    const ASIN: &'static [Self] = ASIN_F32;
    const ATAN: &'static [Self] = ATAN_F32;
    const LARGE: Self = 1e37;

    #[inline(always)]
    fn reduce(self) -> (f64, f64, f64) {
        const STEP: f64 = 1.0 / (1_u64 << 26) as f64;
        let mut x = self as f64;
        let (mut high, mut low) = QUADRANTS_F32[0];
        // Each step takes 2^26 from x and gives it to the constant, as long as x is that large.
        let mut power = 1.0;
        let mut scale = 1.0;
        for row in &QUADRANTS_F32[1..] {
            power /= STEP;
            let larger = x.abs() >= power;
            (high, low) = (
                f64::select(larger, row.0, high),
                f64::select(larger, row.1, low),
            );
            scale = f64::select(larger, 1.0 / power, scale);
        }
        x *= scale;
        // 24 bits times 29 bits: exact.
        let whole = x * high;
        let first = nearest(whole);
        let fraction = whole - first;
        let second = nearest(x.mul_add(low, fraction));
        let fraction = x.mul_add(low, fraction - second);
        (first + second, fraction * f64::FRAC_PI_2.0, 0.0)
    }
}

impl Trigonometric for f64 {
    const SIN: &'static [f64] = SIN_F64;
    const COS: &'static [f64] = COS_F64;
    const FRAC_PI_2: (Self, Self) = (std::f64::consts::FRAC_PI_2, 6.123233995736766e-17);
    const ASIN: &'static [Self] = ASIN_F64;
    const ATAN: &'static [Self] = ATAN_F64;
    const LARGE: Self = 1e307;

    #[inline(always)]
    fn reduce(self) -> (f64, f64, f64) {
        const BIAS: u64 = 1023;
        // Row k is for 2^(32 k) <= |x| < 2^(32 k + 32), and the first one for all below, too.
        let magnitude = f64::select(self.abs() > 1.0, self.abs(), 1.0);
        let row = (((magnitude.to_bits() >> 52) + 1) >> 5) & 31;
        let x = self * f64::from_bits((BIAS - (row << 5)) << 52);
        let row = row as usize;
        let (first, first_low) = two_product(x, QUADRANTS_HIGH[row]);
        let (second, second_low) = two_product(x, QUADRANTS_MIDDLE[row]);
        let n = nearest(first);
        let (rest, rest_low) = two_sum(first_low, second);
        let (fraction, fraction_low) = two_sum(first - n, rest);
        let third = x.mul_add(QUADRANTS_LOW[row], second_low);
        let (fraction, low) = two_sum(fraction, fraction_low + (rest_low + third));
        let (r, r_low) = two_product(fraction, Self::FRAC_PI_2.0);
        let r_low = r_low + fraction.mul_add(Self::FRAC_PI_2.1, low * Self::FRAC_PI_2.0);
        let small = self.abs() <= FRAC_PI_4;
        (
            f64::select(small, 0.0, n),
            f64::select(small, self, r),
            f64::select(small, 0.0, r_low),
        )
    }
}

/// Sine and cosine in f64.
#[inline(always)]
fn sin_cos<T: Trigonometric>(x: T) -> (f64, f64) {
    let (n, r, r_low) = x.reduce();
    let z = r * r;
    let sin = r + (z * r).mul_add(polynomial(z, T::SIN), r_low);
    let half = 0.5 * z;
    let near = 1.0 - half;
    let rest = (z * z).mul_add(polynomial(z, T::COS), -(r * r_low));
    let cos = near + ((1.0 - near - half) + rest);
    // The low bits of n count quarter turns.
    let quadrant = (n + f64::SHIFTER).to_bits();
    let odd = quadrant & 1 != 0;
    let (sin, cos) = (f64::select(odd, cos, sin), f64::select(odd, sin, cos));
    let sin_sign = (quadrant & 2) << 62;
    let cos_sign = (quadrant.wrapping_add(1) & 2) << 62;
    (
        f64::from_bits(sin.to_bits() ^ sin_sign),
        f64::from_bits(cos.to_bits() ^ cos_sign),
    )
}

/// `x` itself where its cube is below half a unit, which keeps the sign of zero, and else `y`.
#[inline(always)]
pub(super) fn unless_tiny<T: Float>(x: T, y: T) -> T {
    T::select(x.abs() * x.abs() < T::EPSILON * T::HALF, x, y)
}

#[inline(always)]
pub(super) fn sin<T: Trigonometric>(x: T) -> T {
    unless_tiny(x, T::from_f64(sin_cos(x).0))
}

#[inline(always)]
pub(super) fn cos<T: Trigonometric>(x: T) -> T {
    T::from_f64(sin_cos(x).1)
}

#[inline(always)]
pub(super) fn tan<T: Trigonometric>(x: T) -> T {
    let (sin, cos) = sin_cos(x);
    unless_tiny(x, T::from_f64(sin / cos))
}

/// `asin a` for `|a| <= 1/2`, and for `a > 1/2` the part `asin sqrt((1 - a) / 2)` of
/// `asin a = pi / 2 - 2 asin sqrt((1 - a) / 2)`, and which of the two it is.
#[inline(always)]
fn folded_asin<T: Trigonometric>(a: T) -> (T, bool) {
    let large = a > T::HALF;
    let half = (T::ONE - a) * T::HALF;
    let z = T::select(large, half, a * a);
    let s = T::select(large, half.sqrt(), a);
    ((s * z).mul_add(polynomial(z, T::ASIN), s), large)
}

#[inline(always)]
pub(super) fn asin<T: Trigonometric>(x: T) -> T {
    let (s, large) = folded_asin(x.abs());
    let (quarter, quarter_low) = T::FRAC_PI_2;
    let y = T::select(large, quarter - T::TWO.mul_add(s, -quarter_low), s);
    y.copysign(x)
}

#[inline(always)]
pub(super) fn acos<T: Trigonometric>(x: T) -> T {
    let (s, large) = folded_asin(x.abs());
    let (quarter, quarter_low) = T::FRAC_PI_2;
    let negative = x < T::ZERO;
    let middle = quarter - (s.copysign(x) - quarter_low);
    let right = T::TWO * s;
    let left = T::TWO * (quarter - (s - quarter_low));
    T::select(large, T::select(negative, left, right), middle)
}

/// `atan(numerator / denominator)` for `0 <= numerator <= denominator`, with one division.
///
/// Above `tan(pi / 8)` it is `pi / 4 + atan((numerator - denominator) / (numerator + denominator))`.
#[inline(always)]
fn atan_of_ratio<T: Trigonometric>(numerator: T, denominator: T) -> (T, T) {
    let large = numerator > T::from_f64(TAN_PI_8) * denominator;
    let t = T::select(large, numerator - denominator, numerator)
        / T::select(large, numerator + denominator, denominator);
    let z = t * t;
    let tail = (t * z) * polynomial(z, T::ATAN);
    let base = T::select(large, T::FRAC_PI_2.0 * T::HALF, T::ZERO);
    let base_low = T::select(large, T::FRAC_PI_2.1 * T::HALF, T::ZERO);
    let (high, low) = ordered_sum(base, t);
    (high, low + (tail + base_low))
}

#[inline(always)]
pub(super) fn atan<T: Trigonometric>(x: T) -> T {
    let a = x.abs();
    let steep = a > T::ONE;
    let (high, low) = atan_of_ratio(T::select(steep, T::ONE, a), T::select(steep, a, T::ONE));
    let (quarter, quarter_low) = T::FRAC_PI_2;
    let y = T::select(steep, (quarter - high) + (quarter_low - low), high + low);
    y.copysign(x)
}

#[inline(always)]
pub(super) fn atan2<T: Trigonometric>(y: T, x: T) -> T {
    let (a, b) = (y.abs(), x.abs());
    let steep = a > b;
    let (numerator, denominator) = (T::select(steep, b, a), T::select(steep, a, b));
    // Two infinities stand at 45 degrees, two zeros at 0; and no sum may overflow.
    let numerator = T::select(numerator == T::INFINITY, T::LARGE, numerator);
    let denominator = T::select(
        denominator == T::INFINITY,
        T::select(numerator == T::LARGE, T::LARGE, denominator),
        denominator,
    );
    let denominator = T::select(denominator == T::ZERO, T::ONE, denominator);
    let down = T::select(denominator > T::LARGE, T::HALF * T::HALF, T::ONE);
    let (high, low) = atan_of_ratio(numerator * down, denominator * down);
    // The angle to the nearer half of the x axis, then to the right half, then with the sign of y.
    let (quarter, quarter_low) = T::FRAC_PI_2;
    let (from_y, from_y_low) = ordered_sum(quarter, -high);
    let high = T::select(steep, from_y, high);
    let low = T::select(steep, from_y_low + (quarter_low - low), low);
    let (from_left, from_left_low) = ordered_sum(T::TWO * quarter, -high);
    let left = x.is_sign_negative();
    let high = T::select(left, from_left, high);
    let low = T::select(left, from_left_low + (T::TWO * quarter_low - low), low);
    T::select(x.is_nan(), x, (high + low).copysign(y))
}
