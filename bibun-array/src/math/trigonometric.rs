//! `sin`, `cos`, `tan` and their inverses.
//!
//! Method: `x 2 / pi` is split into quadrants and a fraction without loss, by as many parts of
//! `2 / pi` as the size of `x` asks for, and polynomials for sine and cosine over `|r| <= pi / 4`
//! follow. f32 does the first in f64 and for every finite number without a branch: `x = 2^s x'`,
//! where `x'` is an integer if `s > 0`, and `2^s 2 / pi` modulo 4 is one of four constants (Payne
//! and Hanek's reduction, with selections instead of table look-ups). In f64 that would cost more
//! than all the rest. So up to 2^32 a loop uses `2 / pi` in three parts, and numbers beyond are
//! done again one by one, in integers of 192 bits. That is a branch: loops over f64 use `sin_slice`
//! and its like. The inverses fold their argument into a short interval by identities with a single
//! division.
//! Bounds, for every finite argument: `sin`, `cos` 1 ulp, `tan`, `asin` 2.5 ulp, `acos` 1.5 ulp,
//! `atan`, `atan2` 2 ulp.
//! Source: Payne and Hanek, "Radian reduction for trigonometric functions" (1983); Muller,
//! "Elementary Functions", third edition; Moshier, "Methods and Programs for
//! Mathematical Functions" (1989), for the folding of the arctangent.

use std::f64::consts::FRAC_PI_4;

use super::Float;
use super::coefficients::{
    ASIN_F32, ASIN_F64, ATAN_F32, ATAN_F64, COS_F32, COS_F64, FRAC_2_PI, FRAC_2_PI_BITS,
    FRAC_2_PI_ROWS, SIN_F32, SIN_F64,
};
use super::kernel::{Kernel, nearest, ordered_sum, polynomial, two_product, two_sum};

const TAN_PI_8: f64 = 0.41421356237309503;

/// An angle as `n pi / 2 + r + r_low` up to a multiple of `2 pi`, with `|r| <= pi / 4`.
#[derive(Clone, Copy)]
pub(super) struct Reduced<T> {
    n: T,
    r: T,
    r_low: T,
}

/// The reduction and the constants of the trigonometric functions.
pub(super) trait Trigonometric: Kernel {
    /// `(sin r - r) / r^3` in powers of `r^2`.
    const SIN: &'static [Self];
    /// `(cos r - 1 + r^2 / 2) / r^4` in powers of `r^2`.
    const COS: &'static [Self];
    /// `pi / 2` as the nearest number and the rest.
    const FRAC_PI_2: (Self, Self);
    /// `(asin s - s) / s^3` in powers of `s^2`.
    const ASIN: &'static [Self];
    /// `(atan s - s) / s^3` in powers of `s^2`.
    const ATAN: &'static [Self];
    /// Above this, numbers are scaled down before they are added.
    const LARGE: Self;

    /// Whether `reduce` is right for this number, infinities and NaN included.
    fn is_reducible(self) -> bool;
    /// The reduction without a branch.
    fn reduce(self) -> Reduced<Self>;
    /// The reduction of a finite number for which the other one is not right.
    fn reduce_exactly(self) -> Reduced<Self>;
}

impl Trigonometric for f32 {
    const SIN: &'static [Self] = SIN_F32;
    const COS: &'static [Self] = COS_F32;
    const FRAC_PI_2: (Self, Self) = (std::f32::consts::FRAC_PI_2, -4.371139e-8);
    const ASIN: &'static [Self] = ASIN_F32;
    const ATAN: &'static [Self] = ATAN_F32;
    const LARGE: Self = 1e37;

    #[inline(always)]
    fn is_reducible(self) -> bool {
        true
    }

    #[inline(always)]
    fn reduce(self) -> Reduced<Self> {
        const STEP: f64 = (1_u64 << 26) as f64;
        // Row k serves from 2^(26 k + 24) on, where x / 2^(26 k) is an integer of at most 50 bits.
        let x = self as f64;
        let mut start = (1_u64 << 24) as f64;
        let mut scale = 1.0;
        let mut row_scale = 1.0;
        let (mut high, mut middle, mut low) = FRAC_2_PI_ROWS[0];
        for row in &FRAC_2_PI_ROWS[1..] {
            start *= STEP;
            row_scale /= STEP;
            let reached = x.abs() >= start;
            scale = f64::select(reached, row_scale, scale);
            high = f64::select(reached, row.0, high);
            middle = f64::select(reached, row.1, middle);
            low = f64::select(reached, row.2, low);
        }
        let x = x * scale;
        // 24 bits times 29 bits are exact, and so are both differences.
        let product = x * high;
        let first = nearest(product);
        let fraction = product - first;
        let second = nearest(x.mul_add(middle, fraction));
        let fraction = x.mul_add(low, x.mul_add(middle, fraction - second));
        let n = first + second;
        let r = fraction * f64::FRAC_PI_2.0;
        Reduced {
            n: (-4.0_f64).mul_add(nearest(n * 0.25), n) as f32,
            r: r as f32,
            r_low: (r - r as f32 as f64) as f32,
        }
    }

    #[inline(always)]
    fn reduce_exactly(self) -> Reduced<Self> {
        self.reduce()
    }
}

impl Trigonometric for f64 {
    const SIN: &'static [Self] = SIN_F64;
    const COS: &'static [Self] = COS_F64;
    const FRAC_PI_2: (Self, Self) = (std::f64::consts::FRAC_PI_2, 6.123233995736766e-17);
    const ASIN: &'static [Self] = ASIN_F64;
    const ATAN: &'static [Self] = ATAN_F64;
    const LARGE: Self = 1e307;

    #[inline(always)]
    fn is_reducible(self) -> bool {
        const LIMIT: f64 = (1_u64 << 32) as f64;
        !((self.abs() > LIMIT) & (self.abs() < Self::INFINITY))
    }

    #[inline(always)]
    fn reduce(self) -> Reduced<Self> {
        let (first, first_low) = two_product(self, FRAC_2_PI[0]);
        let (second, second_low) = two_product(self, FRAC_2_PI[1]);
        let n = nearest(first);
        let (rest, rest_low) = two_sum(first_low, second);
        let (fraction, fraction_low) = two_sum(first - n, rest);
        let third = self.mul_add(FRAC_2_PI[2], second_low);
        let reduced = from_quadrants(n, fraction, fraction_low + (rest_low + third));
        let small = self.abs() <= FRAC_PI_4;
        Reduced {
            n: Self::select(small, 0.0, reduced.n),
            r: Self::select(small, self, reduced.r),
            r_low: Self::select(small, 0.0, reduced.r_low),
        }
    }

    /// With `|x| = 2^e m` and an integer `m` of 53 bits, bits of `2 / pi` worth `2^(2 - e)` or more
    /// give multiples of 4. The product of `m` and the next 192 bits, modulo `2^192`, begins with
    /// the two bits of the quadrant; what is cut off is below `2^-136`.
    fn reduce_exactly(self) -> Reduced<Self> {
        let bits = self.abs().to_bits();
        let m = bits & ((1 << 52) - 1) | 1 << 52;
        // The table starts 64 bits before the binary point; the window starts at worth 2^(1 - e).
        let start = (bits >> 52) as usize - (1075 - 62);
        let (limb, shift) = (start / 64, start % 64);
        let window = |k: usize| {
            let pair =
                (FRAC_2_PI_BITS[limb + k] as u128) << 64 | FRAC_2_PI_BITS[limb + k + 1] as u128;
            (pair >> (64 - shift)) as u64
        };
        let low = m as u128 * window(2) as u128;
        let middle = m as u128 * window(1) as u128 + (low >> 64);
        let top = m
            .wrapping_mul(window(0))
            .wrapping_add((middle >> 64) as u64);
        let quadrant = (top >> 61).div_ceil(2);
        // As a signed number the bits behind the quadrant are the distance to the nearest one.
        let kept =
            (top as u128) << 66 | ((middle as u64) as u128) << 2 | (low as u64 >> 62) as u128;
        let distance = kept as i128;
        let fraction = distance as f64;
        let unit = 2.0_f64.powi(-128) * 1.0_f64.copysign(self);
        let fraction_low = (distance - fraction as i128) as f64;
        let n = (quadrant as f64).copysign(self);
        from_quadrants(n, fraction * unit, fraction_low * unit)
    }
}

/// `n + fraction + fraction_low` quadrants, where the last is small beside 1.
#[inline(always)]
fn from_quadrants(n: f64, fraction: f64, fraction_low: f64) -> Reduced<f64> {
    let (fraction, fraction_low) = two_sum(fraction, fraction_low);
    let (r, r_low) = two_product(fraction, f64::FRAC_PI_2.0);
    let r_low = r_low + fraction.mul_add(f64::FRAC_PI_2.1, fraction_low * f64::FRAC_PI_2.0);
    Reduced { n, r, r_low }
}

/// Sine and cosine of a reduced angle.
#[inline(always)]
fn sin_cos<T: Trigonometric>(Reduced { n, r, r_low }: Reduced<T>) -> (T, T) {
    let z = r * r;
    let sin = r + (z * r).mul_add(polynomial(z, T::SIN), r_low);
    let half = T::HALF * z;
    let near = T::ONE - half;
    let rest = (z * z).mul_add(polynomial(z, T::COS), -(r * r_low));
    let cos = near + ((T::ONE - near - half) + rest);
    // One quarter turn exchanges the two and changes a sign, two change both.
    let (odd, sin_negative, cos_negative) = T::quarter_turns(n);
    let (sin, cos) = (T::select(odd, cos, sin), T::select(odd, sin, cos));
    (
        T::select(sin_negative, -sin, sin),
        T::select(cos_negative, -cos, cos),
    )
}

/// The reduction, right for every number: with a branch where the type needs one.
#[inline(always)]
fn reduce<T: Trigonometric>(x: T) -> Reduced<T> {
    if x.is_reducible() {
        x.reduce()
    } else {
        x.reduce_exactly()
    }
}

/// `x` itself where its cube is below half a unit, which keeps the sign of zero, and else `y`.
#[inline(always)]
pub(super) fn unless_tiny<T: Float>(x: T, y: T) -> T {
    T::select(x.abs() * x.abs() < T::EPSILON * T::HALF, x, y)
}

macro_rules! from_sin_and_cos {
    ($($name:ident $slice:ident |$x:ident, $sin:pat_param, $cos:pat_param| $value:expr;)+) => { $(
        #[inline(always)]
        pub(super) fn $name<T: Trigonometric>($x: T) -> T {
            let ($sin, $cos) = sin_cos(reduce($x));
            $value
        }

        /// The loop without a branch, and then once more what it got wrong.
        #[inline(always)]
        pub(super) fn $slice<T: Trigonometric>(x: &[T], y: &mut [T]) {
            for (y, &$x) in y.iter_mut().zip(x) {
                let ($sin, $cos) = sin_cos($x.reduce());
                *y = $value;
            }
            if x.iter().fold(true, |all, x| all & x.is_reducible()) {
                return;
            }
            for (y, &$x) in y.iter_mut().zip(x) {
                if !$x.is_reducible() {
                    let ($sin, $cos) = sin_cos($x.reduce_exactly());
                    *y = $value;
                }
            }
        }
    )+ };
}

from_sin_and_cos! {
    sin sin_slice |x, sin, _| unless_tiny(x, sin);
    cos cos_slice |x, _, cos| cos;
    tan tan_slice |x, sin, cos| unless_tiny(x, sin / cos);
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
/// Above `tan(pi / 8)` it is
/// `pi / 4 + atan((numerator - denominator) / (numerator + denominator))`.
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
