//! `rsqrt`, `cbrt`, `hypot`, `powf` and `powi`.
//!
//! Method: `cbrt` starts from a polynomial on the fraction and takes one step of Halley's iteration
//! with an exact residual. `hypot` scales by a power of two at the ends of the range. A power is
//! `e^(y ln |x|)`: in f64 for an f32, with the logarithm and the product in two parts for an f64.
//! Bounds: `cbrt` 1 ulp, `rsqrt`, `hypot` and powers 1.5 ulp.
//! Source: Muller, "Elementary Functions", third edition; special values of
//! powers as in ISO C99, annex F.9.4.4.

use super::Float;
use super::coefficients::{CBRT_F32, CBRT_F64};
use super::exponential::{exp, exp_parts};
use super::kernel::{Kernel, nearest, polynomial, scale, split, two_product};
use super::logarithm::{ln, ln_in_two_parts};

/// The constants of roots, and the power of a magnitude.
pub(super) trait Power: Kernel {
    /// `m^(1/3)` for a fraction `m`.
    const CBRT: &'static [Self];
    /// Squares of numbers between the reciprocal of the first and the first neither overflow nor
    /// lose bits; the second takes any number at either end there.
    const HYPOT: (Self, Self);

    /// `self^y` for a number that is not negative, and for neither `y = 0` nor `self = 1`.
    fn magnitude_to_the(self, y: f64) -> Self;
}

impl Power for f32 {
    const CBRT: &'static [Self] = CBRT_F32;
    const HYPOT: (Self, Self) = ((1_u64 << 50) as f32, (1_u128 << 100) as f32);

    #[inline(always)]
    fn magnitude_to_the(self, y: f64) -> Self {
        exp(y * ln(self as f64)) as f32
    }
}

impl Power for f64 {
    const CBRT: &'static [Self] = CBRT_F64;
    const HYPOT: (Self, Self) = (1e150, f64::from_bits((1023 + 600) << 52));

    #[inline(always)]
    fn magnitude_to_the(self, y: f64) -> Self {
        let (high, low) = ln_in_two_parts(self);
        let high = f64::select(self == 0.0, f64::NEG_INFINITY, high);
        let high = f64::select(self < f64::INFINITY, high, self);
        let (product, product_low) = two_product(y, high);
        let product_low = y.mul_add(low, product_low);
        // Beyond the range of the exponential the second part means nothing and may be NaN.
        let product_low = f64::select(product.abs() < 1000.0, product_low, 0.0);
        let (power, n) = exp_parts(product, product_low);
        scale(power, n)
    }
}

#[inline(always)]
pub(super) fn rsqrt<T: Float>(x: T) -> T {
    T::ONE / x.sqrt()
}

#[inline(always)]
pub(super) fn cbrt<T: Power>(x: T) -> T {
    let a = x.abs();
    let (k, m) = split(a);
    let third = nearest(k * T::from_f64(1.0 / 3.0));
    let rest = k - (T::TWO + T::ONE) * third;
    let (above, below) = (rest > T::ZERO, rest < T::ZERO);
    let m_scaled = T::select(above, m * T::TWO, T::select(below, m * T::HALF, m));
    let two_third = T::from_f64(1.2599210498948732);
    let factor = T::select(
        above,
        two_third,
        T::select(below, T::HALF * two_third * two_third, T::ONE),
    );
    let y = polynomial(m, T::CBRT) * factor;
    let (square, square_low) = two_product(y, y);
    let (cube, cube_low) = two_product(square, y);
    let residual = (m_scaled - cube) - square_low.mul_add(y, cube_low);
    let y = (y * residual / T::TWO.mul_add(cube, m_scaled) + y) * T::power_of_two(third);
    T::select((a > T::ZERO) & (a < T::INFINITY), y.copysign(x), x)
}

#[inline(always)]
pub(super) fn hypot<T: Power>(x: T, y: T) -> T {
    let (a, b) = (x.abs(), y.abs());
    let larger = a.maximum(b);
    let (limit, step) = T::HYPOT;
    let (down, up) = (larger > limit, larger * limit < T::ONE);
    let scale = T::select(down, T::ONE / step, T::select(up, step, T::ONE));
    let back = T::select(down, step, T::select(up, T::ONE / step, T::ONE));
    let (a, b) = (a * scale, b * scale);
    let length = a.mul_add(a, b * b).sqrt() * back;
    // An infinite side counts even beside NaN.
    T::select((a == T::INFINITY) | (b == T::INFINITY), T::INFINITY, length)
}

/// `x^y` where `y` is an f64 so that every `i32` and f32 fits; `odd` says whether it is an odd
/// integer.
#[inline(always)]
fn power<T: Power>(x: T, y: f64, integer: bool, odd: bool) -> T {
    let magnitude = x.abs().magnitude_to_the(y);
    let negative = x.is_sign_negative();
    let signed = T::select(negative & odd, -magnitude, magnitude);
    // A negative finite number has no power between two integers; -0 and -inf have.
    let imaginary = (x < T::ZERO) & (x > T::NEG_INFINITY) & !integer;
    let y_infinite = y.abs() == f64::INFINITY;
    let one = (y == 0.0) | (x == T::ONE) | ((x == -T::ONE) & y_infinite);
    T::select(one, T::ONE, T::select(imaginary, T::NAN, signed))
}

#[inline(always)]
pub(super) fn powf<T: Power>(x: T, y: T) -> T {
    let y = y.to_f64();
    let integer = y.trunc() == y;
    let odd = integer & ((y * 0.5).trunc() != y * 0.5);
    power(x, y, integer, odd)
}

#[inline(always)]
pub(super) fn powi<T: Power>(x: T, n: i32) -> T {
    match n {
        -1 => T::ONE / x,
        0 => T::ONE,
        1 => x,
        2 => x * x,
        3 => x * x * x,
        4 => (x * x) * (x * x),
        _ => power(x, n as f64, true, n & 1 != 0),
    }
}
