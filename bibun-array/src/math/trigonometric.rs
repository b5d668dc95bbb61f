//! `sin`, `cos`, `tan` and their inverses.
//!
//! Method: `x 2 / pi` is split into quadrants and a fraction without loss, by as many parts of
//! `2 / pi` as the size of `x` requires, and polynomials for sine and cosine over `|r| <= pi / 4`
//! follow. Loops use a short reduction: f32 subtracts `n pi / 2` in three parts up to 30,000, f64 has
//! `2 / pi` in three parts up to 2^32. Numbers beyond are computed again. For f32 this is done in f64
//! and for every finite number without a branch: `x = 2^s x'`, where `x'` is an integer if `s > 0`, and
//! `2^s 2 / pi` modulo 4 is one of four constants (Payne and Hanek's reduction, with selections instead of
//! table look-ups), which costs four times as much as all the rest. For f64 it is done one by one, in
//! integers of 192 bits. So loops use `sin_slice` and similar, and machine code
//! branches. The inverses fold their argument into a short interval by identities with a
//! single division.
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
use super::kernel::{
    Kernel, Precision, half_epsilon, nearest, ordered_sum, polynomial, quotient, two_product,
    two_sum,
};

const TAN_PI_8: f64 = 0.41421356237309503;

/// An angle as `n pi / 2 + r + r_low` up to a multiple of `2 pi`, with `|r| <= pi / 4`.
#[derive(Clone, Copy)]
pub(crate) struct Reduced<T> {
    /// `n` plus [`Precision::SHIFTER`](super::kernel::Precision::SHIFTER).
    sum: T,
    r: T,
    r_low: T,
}

/// The reduction and the constants of the trigonometric functions.
pub(crate) trait Trigonometric: Copy + 'static {
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

    /// Up to this magnitude, [`Trigonometric::reduce`] is accurate.
    const REDUCIBLE: Self;

    /// The reduction of numbers up to a limit, without a branch.
    fn reduce<T: Kernel<Precision = Self>>(x: T) -> Reduced<T>;

    /// The reduction of all numbers that have one without a branch: all of f32, and of f64 those up to
    /// the same limit.
    fn reduce_all<T: Kernel<Precision = Self>>(x: T) -> Reduced<T>;
}

/// Whether [`Trigonometric::reduce`] is not accurate for this number. It is for infinities and NaN.
#[inline(always)]
pub(crate) fn is_beyond<T: Kernel>(x: T) -> T::Truth {
    let magnitude = x.abs();
    magnitude.greater(T::of(T::Precision::REDUCIBLE)) & magnitude.less(T::INFINITY)
}

/// Numbers of the machine, for which the reduction of large arguments may branch.
pub(crate) trait Reducible: Kernel {
    /// The reduction, with a branch if the type needs one.
    fn reduced(self) -> Reduced<Self>;

    /// The reduction of a finite number for which [`Trigonometric::reduce`] is not accurate.
    fn reduce_exactly(self) -> Reduced<Self>;
}

impl Trigonometric for f32 {
    const SIN: &'static [Self] = SIN_F32;
    const COS: &'static [Self] = COS_F32;
    const FRAC_PI_2: (Self, Self) = (std::f32::consts::FRAC_PI_2, -4.371139e-8);
    const ASIN: &'static [Self] = ASIN_F32;
    const ATAN: &'static [Self] = ATAN_F32;
    const LARGE: Self = 1e37;

    const REDUCIBLE: Self = 30000.0;

    #[inline(always)]
    fn reduce<T: Kernel<Precision = Self>>(x: T) -> Reduced<T> {
        const FRAC_PI_2: [f32; 3] = [std::f32::consts::FRAC_PI_2, -4.371139e-8, -1.7151245e-15];
        let [first, second, third] = FRAC_PI_2.map(T::of);
        let shifter = T::of(f32::SHIFTER);
        let sum = x.mul_add(T::of(std::f32::consts::FRAC_2_PI), shifter);
        let n = sum - shifter;
        // Both x and the product are multiples of 2^-24, and their difference is below 1.
        let high = (-n).mul_add(first, x);
        let (product, product_low) = two_product(n, second);
        let (r, rest) = ordered_sum(high, -product);
        let r_low = (-n).mul_add(third, rest - product_low);
        Reduced { sum, r, r_low }
    }

    #[inline(always)]
    fn reduce_all<T: Kernel<Precision = Self>>(x: T) -> Reduced<T> {
        let beyond = is_beyond(x);
        let (far, near) = (reduce_in_double(x), Self::reduce(x));
        Reduced {
            sum: T::select(beyond, far.sum, near.sum),
            r: T::select(beyond, far.r, near.r),
            r_low: T::select(beyond, far.r_low, near.r_low),
        }
    }
}

/// The reduction of every f32.
#[inline(always)]
fn reduce_in_double<T: Kernel<Precision = f32>>(x: T) -> Reduced<T> {
    const STEP: f64 = (1_u64 << 26) as f64;
    // Row k serves from 2^(26 k + 24) on, where x / 2^(26 k) is an integer of at most 50 bits.
    let x = x.widen();
    let constant = |x: f64| T::Double::of(x);
    let mut start = (1_u64 << 24) as f64;
    let mut row_scale = 1.0;
    let mut scale = constant(1.0);
    let (high, middle, low) = FRAC_2_PI_ROWS[0];
    let [mut high, mut middle, mut low] = [high, middle, low].map(constant);
    for row in &FRAC_2_PI_ROWS[1..] {
        start *= STEP;
        row_scale /= STEP;
        let reached = x.abs().greater_equal(constant(start));
        scale = Float::select(reached, constant(row_scale), scale);
        high = Float::select(reached, constant(row.0), high);
        middle = Float::select(reached, constant(row.1), middle);
        low = Float::select(reached, constant(row.2), low);
    }
    let x = x * scale;
    // 24 bits times 29 bits are exact, and so are both differences.
    let product = x * high;
    let first = nearest(product);
    let fraction = product - first;
    let second = nearest(x.mul_add(middle, fraction));
    let fraction = x.mul_add(low, x.mul_add(middle, fraction - second));
    let n = first + second;
    let r = fraction * constant(f64::FRAC_PI_2.0);
    let rounded = T::narrow(r);
    let quarters = constant(-4.0).mul_add(nearest(n * constant(0.25)), n);
    Reduced {
        sum: T::narrow(quarters) + T::of(f32::SHIFTER),
        r: rounded,
        r_low: T::narrow(r - rounded.widen()),
    }
}

impl Reducible for f32 {
    #[inline(always)]
    fn reduced(self) -> Reduced<Self> {
        f32::reduce_all(self)
    }

    #[inline(always)]
    fn reduce_exactly(self) -> Reduced<Self> {
        reduce_in_double(self)
    }
}

impl Trigonometric for f64 {
    const SIN: &'static [Self] = SIN_F64;
    const COS: &'static [Self] = COS_F64;
    const FRAC_PI_2: (Self, Self) = (std::f64::consts::FRAC_PI_2, 6.123233995736766e-17);
    const ASIN: &'static [Self] = ASIN_F64;
    const ATAN: &'static [Self] = ATAN_F64;
    const LARGE: Self = 1e307;
    const REDUCIBLE: Self = (1_u64 << 32) as f64;

    #[inline(always)]
    fn reduce<T: Kernel<Precision = Self>>(x: T) -> Reduced<T> {
        let (first, first_low) = two_product(x, T::of(FRAC_2_PI[0]));
        let (second, second_low) = two_product(x, T::of(FRAC_2_PI[1]));
        let n = nearest(first);
        let (rest, rest_low) = two_sum(first_low, second);
        let (fraction, fraction_low) = two_sum(first - n, rest);
        let third = x.mul_add(T::of(FRAC_2_PI[2]), second_low);
        let reduced = from_quadrants(n, fraction, fraction_low + (rest_low + third));
        let small = x.abs().less_equal(T::of(FRAC_PI_4));
        Reduced {
            sum: T::select(small, T::of(f64::SHIFTER), reduced.sum),
            r: T::select(small, x, reduced.r),
            r_low: T::select(small, T::ZERO, reduced.r_low),
        }
    }

    #[inline(always)]
    fn reduce_all<T: Kernel<Precision = Self>>(x: T) -> Reduced<T> {
        Self::reduce(x)
    }
}

impl Reducible for f64 {
    #[inline(always)]
    fn reduced(self) -> Reduced<Self> {
        if self.abs() <= FRAC_PI_4 {
            // A quarter of all angles, which need none of the rest.
            let (sum, r_low) = (Self::SHIFTER, 0.0);
            Reduced {
                sum,
                r: self,
                r_low,
            }
        } else if is_beyond(self) {
            self.reduce_exactly()
        } else {
            <Self as Trigonometric>::reduce(self)
        }
    }

    /// With `|x| = 2^e m` and an integer `m` of 53 bits, bits of `2 / pi` of weight `2^(2 - e)` or
    /// more contribute multiples of 4. The product of `m` and the next 192 bits, modulo `2^192`,
    /// begins with the two bits of the quadrant. The part that is cut off is below `2^-136`.
    fn reduce_exactly(self) -> Reduced<Self> {
        let bits = self.abs().to_bits();
        let m = bits & ((1 << 52) - 1) | 1 << 52;
        // The table starts 64 bits before the binary point; the window starts at weight 2^(1 - e).
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
        // As a signed number, the bits after the quadrant are the distance to the nearest one.
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

/// `n + fraction + fraction_low` quadrants, where the last is small compared with 1.
#[inline(always)]
fn from_quadrants<T: Kernel<Precision = f64>>(n: T, fraction: T, fraction_low: T) -> Reduced<T> {
    let (quarter, quarter_low) = T::pair(f64::FRAC_PI_2);
    let (fraction, fraction_low) = two_sum(fraction, fraction_low);
    let (r, r_low) = two_product(fraction, quarter);
    let r_low = r_low + fraction.mul_add(quarter_low, fraction_low * quarter);
    let sum = n + T::of(f64::SHIFTER);
    Reduced { sum, r, r_low }
}

/// Sine and cosine of a number of at most `pi / 4`, each in two parts that are not yet added.
#[inline(always)]
fn sin_cos_parts<T: Kernel>(r: T, r_low: T) -> [(T, T); 2] {
    let (z, z_low) = two_product(r, r);
    let sin_low = (z * r).mul_add(polynomial(z, T::Precision::SIN), r_low);
    let slope = polynomial(z, T::Precision::COS).mul_add(z, -T::HALF);
    let cos_low = z.mul_add(slope, -r.mul_add(r_low, T::HALF * z_low));
    [(r, sin_low), (T::ONE, cos_low)]
}

#[inline(always)]
fn sin_of<T: Kernel>(Reduced { sum, r, r_low }: Reduced<T>) -> T {
    let [sin, cos] = sin_cos_parts(r, r_low).map(|(high, low)| high + low);
    // One quarter turn exchanges sine and cosine, two change the sign.
    let y = T::select(T::is_odd(sum), cos, sin);
    T::select(T::has_bit_of_two(sum), -y, y)
}

#[inline(always)]
fn cos_of<T: Kernel>(Reduced { sum, r, r_low }: Reduced<T>) -> T {
    let [sin, cos] = sin_cos_parts(r, r_low).map(|(high, low)| high + low);
    let odd = T::is_odd(sum);
    let y = T::select(odd, sin, cos);
    T::select(T::has_bit_of_two(sum) ^ odd, -y, y)
}

#[inline(always)]
fn tan_of<T: Kernel>(Reduced { sum, r, r_low }: Reduced<T>) -> T {
    let [sin, cos] = sin_cos_parts(r, r_low).map(|(high, low)| ordered_sum(high, low));
    let odd = T::is_odd(sum);
    let choose = |a: (T, T), b: (T, T)| (T::select(odd, a.0, b.0), T::select(odd, a.1, b.1));
    let (numerator, low) = choose(cos, sin);
    let y = quotient((numerator, low), choose(sin, cos));
    T::select(odd, -y, y)
}

/// `x` itself where its cube is below half an ulp, which keeps the sign of zero, and `y` elsewhere.
#[inline(always)]
pub(crate) fn unless_tiny<T: Kernel>(x: T, y: T) -> T {
    T::select((x.abs() * x.abs()).less(half_epsilon()), x, y)
}

macro_rules! of_angles {
    ($($name:ident $everywhere:ident $reduced:ident $slice:ident |$x:ident, $angle:ident| $value:expr;)+) => { $(
        #[inline(always)]
        pub(crate) fn $name<T: Reducible>($x: T) -> T {
            let $angle = $x.reduced();
            $value
        }

        /// The same without a branch, where there is one: see [`Trigonometric::reduce_all`].
        #[inline(always)]
        pub(crate) fn $everywhere<T: Kernel>($x: T) -> T {
            let $angle = T::Precision::reduce_all($x);
            $value
        }

        /// The same for numbers that are not [beyond](is_beyond) the short reduction.
        #[inline(always)]
        pub(crate) fn $reduced<T: Kernel>($x: T) -> T {
            let $angle = T::Precision::reduce($x);
            $value
        }

        /// The loop with the short reduction, and then a second one for the numbers for which it is
        /// not accurate.
        #[inline(always)]
        pub(crate) fn $slice<T: Reducible<Truth = bool>>(x: &[T], y: &mut [T]) {
            let mut any_beyond = false;
            for (y, &$x) in y.iter_mut().zip(x) {
                let $angle = T::Precision::reduce($x);
                *y = $value;
                any_beyond |= is_beyond($x);
            }
            if !any_beyond {
                return;
            }
            for (y, &$x) in y.iter_mut().zip(x) {
                if is_beyond($x) {
                    let $angle = $x.reduce_exactly();
                    *y = $value;
                }
            }
        }
    )+ };
}

of_angles! {
    sin sin_everywhere sin_reduced sin_slice |x, angle| unless_tiny(x, sin_of(angle));
    cos cos_everywhere cos_reduced cos_slice |x, angle| cos_of(angle);
    tan tan_everywhere tan_reduced tan_slice |x, angle| unless_tiny(x, tan_of(angle));
}

/// `asin a` for `|a| <= 1/2`, and for `a > 1/2` the part `asin sqrt((1 - a) / 2)` of
/// `asin a = pi / 2 - 2 asin sqrt((1 - a) / 2)`; and whether it is the second case.
#[inline(always)]
fn folded_asin<T: Kernel>(a: T) -> (T, T::Truth) {
    let large = a.greater(T::HALF);
    let half = (T::ONE - a) * T::HALF;
    let z = T::select(large, half, a * a);
    let s = T::select(large, half.sqrt(), a);
    ((s * z).mul_add(polynomial(z, T::Precision::ASIN), s), large)
}

#[inline(always)]
pub(crate) fn asin<T: Kernel>(x: T) -> T {
    let (s, large) = folded_asin(x.abs());
    let (quarter, quarter_low) = T::pair(T::Precision::FRAC_PI_2);
    let y = T::select(large, quarter - T::TWO.mul_add(s, -quarter_low), s);
    y.copysign(x)
}

#[inline(always)]
pub(crate) fn acos<T: Kernel>(x: T) -> T {
    let (s, large) = folded_asin(x.abs());
    let (quarter, quarter_low) = T::pair(T::Precision::FRAC_PI_2);
    let negative = x.less(T::ZERO);
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
fn atan_of_ratio<T: Kernel>(numerator: T, denominator: T) -> (T, T) {
    let large = numerator.greater(T::from_f64(TAN_PI_8) * denominator);
    let t = T::select(large, numerator - denominator, numerator)
        / T::select(large, numerator + denominator, denominator);
    let z = t * t;
    let tail = (t * z) * polynomial(z, T::Precision::ATAN);
    let (quarter, quarter_low) = T::pair(T::Precision::FRAC_PI_2);
    let base = T::select(large, quarter * T::HALF, T::ZERO);
    let base_low = T::select(large, quarter_low * T::HALF, T::ZERO);
    let (high, low) = ordered_sum(base, t);
    (high, low + (tail + base_low))
}

#[inline(always)]
pub(crate) fn atan<T: Kernel>(x: T) -> T {
    let a = x.abs();
    let steep = a.greater(T::ONE);
    let (high, low) = atan_of_ratio(T::select(steep, T::ONE, a), T::select(steep, a, T::ONE));
    let (quarter, quarter_low) = T::pair(T::Precision::FRAC_PI_2);
    let y = T::select(steep, (quarter - high) + (quarter_low - low), high + low);
    y.copysign(x)
}

#[inline(always)]
pub(crate) fn atan2<T: Kernel>(y: T, x: T) -> T {
    let (a, b) = (y.abs(), x.abs());
    let steep = a.greater(b);
    let (numerator, denominator) = (T::select(steep, b, a), T::select(steep, a, b));
    // Two infinities are at 45 degrees, two zeros at 0, and no sum may overflow.
    let large = T::of(T::Precision::LARGE);
    let numerator = T::select(numerator.equal(T::INFINITY), large, numerator);
    let denominator = T::select(
        denominator.equal(T::INFINITY),
        T::select(numerator.equal(large), large, denominator),
        denominator,
    );
    let denominator = T::select(denominator.equal(T::ZERO), T::ONE, denominator);
    let down = T::select(denominator.greater(large), T::HALF * T::HALF, T::ONE);
    let (high, low) = atan_of_ratio(numerator * down, denominator * down);
    // The angle to the nearer half of the x axis, then to the right half, then with the sign of y.
    let (quarter, quarter_low) = T::pair(T::Precision::FRAC_PI_2);
    let (from_y, from_y_low) = ordered_sum(quarter, -high);
    let high = T::select(steep, from_y, high);
    let low = T::select(steep, from_y_low + (quarter_low - low), low);
    let (from_left, from_left_low) = ordered_sum(T::TWO * quarter, -high);
    let left = x.is_sign_negative();
    let high = T::select(left, from_left, high);
    let low = T::select(left, from_left_low + (T::TWO * quarter_low - low), low);
    T::select(x.is_nan(), x, (high + low).copysign(y))
}
