//! `rsqrt`, `cbrt`, `hypot`, `powf` and `powi`.
//!
//! Method: `cbrt` starts from a polynomial on the fraction and takes one step of Halley's iteration
//! with an exact residual. `hypot` scales by a power of two at the ends of the range. A power is
//! `e^(y ln |x|)`: in f64 for an f32, with the logarithm and the product in two parts for an f64.
//! Bounds: `cbrt` 1 ulp, `rsqrt`, `hypot` and powers 1.5 ulp.
//! Source: Muller, "Elementary Functions", third edition; special values of powers as in ISO C99,
//! annex F.9.4.4.

use super::Float;
use super::coefficients::{CBRT_F32, CBRT_F64};
use super::exponential::{exp_briefly, exp_parts};
use super::kernel::{Kernel, nearest, polynomial, power_of_two, scale, split, two_product};
use super::logarithm::{ln_briefly, ln_in_two_parts};

/// The constants of roots, and the power of a magnitude.
pub(crate) trait Power: Copy + 'static {
    /// `m^(1/3)` for a fraction `m`.
    const CBRT: &'static [Self];
    /// Squares of numbers between the reciprocal of the first and the first neither overflow nor
    /// lose bits. A multiplication by the second, or by its reciprocal, brings any other number
    /// into that range.
    const HYPOT: (Self, Self);

    /// `self^y` for a number that is not negative, except for `y = 0` and `self = 1`.
    fn magnitude_to_the<T: Kernel<Precision = Self>>(x: T, y: T::Double) -> T;
}

impl Power for f32 {
    const CBRT: &'static [Self] = CBRT_F32;
    const HYPOT: (Self, Self) = ((1_u64 << 50) as f32, (1_u128 << 100) as f32);

    #[inline(always)]
    fn magnitude_to_the<T: Kernel<Precision = Self>>(x: T, y: T::Double) -> T {
        let x = x.widen();
        let ln = ln_briefly(x);
        let ln = Float::select(x.equal(Float::ZERO), Float::NEG_INFINITY, ln);
        let ln = Float::select(x.less(Float::INFINITY), ln, x);
        T::narrow(exp_briefly(y * ln))
    }
}

impl Power for f64 {
    const CBRT: &'static [Self] = CBRT_F64;
    const HYPOT: (Self, Self) = (1e150, f64::from_bits((1023 + 600) << 52));

    #[inline(always)]
    fn magnitude_to_the<T: Kernel<Precision = Self>>(x: T, y: T::Double) -> T {
        let x = x.widen();
        let (high, low) = ln_in_two_parts(x);
        let high = Float::select(x.equal(Float::ZERO), Float::NEG_INFINITY, high);
        let high = Float::select(x.less(Float::INFINITY), high, x);
        let (product, product_low) = two_product(y, high);
        let product_low = y.mul_add(low, product_low);
        // Beyond the range of the exponential, the second part means nothing and may be NaN.
        let in_range = product.abs().less(Float::from_f64(1000.0));
        let product_low = Float::select(in_range, product_low, Float::ZERO);
        let (power, n) = exp_parts(product, product_low);
        T::narrow(scale(power, n))
    }
}

#[inline(always)]
pub(crate) fn rsqrt<T: Float>(x: T) -> T {
    T::ONE / x.sqrt()
}

#[inline(always)]
pub(crate) fn cbrt<T: Kernel>(x: T) -> T {
    let a = x.abs();
    let (k, m) = split(a);
    let third = nearest(k * T::from_f64(1.0 / 3.0));
    let rest = k - (T::TWO + T::ONE) * third;
    let (above, below) = (rest.greater(T::ZERO), rest.less(T::ZERO));
    let m_scaled = T::select(above, m * T::TWO, T::select(below, m * T::HALF, m));
    let two_third = T::from_f64(1.2599210498948732);
    let factor = T::select(
        above,
        two_third,
        T::select(below, T::HALF * two_third * two_third, T::ONE),
    );
    let y = polynomial(m, T::Precision::CBRT) * factor;
    let (square, square_low) = two_product(y, y);
    let (cube, cube_low) = two_product(square, y);
    let residual = (m_scaled - cube) - square_low.mul_add(y, cube_low);
    let y = (y * residual / T::TWO.mul_add(cube, m_scaled) + y) * power_of_two(third);
    T::select(a.greater(T::ZERO) & a.less(T::INFINITY), y.copysign(x), x)
}

#[inline(always)]
pub(crate) fn hypot<T: Kernel>(x: T, y: T) -> T {
    let (a, b) = (x.abs(), y.abs());
    let larger = a.maximum(b);
    let (limit, step) = T::pair(T::Precision::HYPOT);
    let (down, up) = (larger.greater(limit), (larger * limit).less(T::ONE));
    let scale = T::select(down, T::ONE / step, T::select(up, step, T::ONE));
    let back = T::select(down, step, T::select(up, T::ONE / step, T::ONE));
    let (a, b) = (a * scale, b * scale);
    let length = a.mul_add(a, b * b).sqrt() * back;
    // An infinite side counts even if the other one is NaN.
    T::select(
        a.equal(T::INFINITY) | b.equal(T::INFINITY),
        T::INFINITY,
        length,
    )
}

/// `x^y`, where `y` is an f64 so that every `i32` and f32 fits, and `odd` is whether it is an odd
/// integer.
#[inline(always)]
fn power<T: Kernel>(x: T, y: T::Double, integer: T::Truth, odd: T::Truth) -> T {
    let magnitude = T::Precision::magnitude_to_the(x.abs(), y);
    let negative = x.is_sign_negative();
    let signed = T::select(negative & odd, -magnitude, magnitude);
    // A negative finite number has no power between two integers, but -0 and -inf have.
    let imaginary = x.less(T::ZERO) & x.greater(T::NEG_INFINITY) & !integer;
    let y_infinite = y.abs().equal(Float::INFINITY);
    let one = y.equal(Float::ZERO) | x.equal(T::ONE) | (x.equal(-T::ONE) & y_infinite);
    T::select(one, T::ONE, T::select(imaginary, T::NAN, signed))
}

#[inline(always)]
pub(crate) fn powf<T: Kernel>(x: T, y: T) -> T {
    let integer = y.trunc().equal(y);
    let half = y * Float::HALF;
    let odd = integer & !half.trunc().equal(half);
    power(x, y.widen(), integer, odd)
}

#[inline(always)]
pub(crate) fn powi<T: Kernel>(x: T, n: i32) -> T {
    match n {
        -1 => T::ONE / x,
        0 => T::ONE,
        1 => x,
        2 => x * x,
        3 => x * x * x,
        4 => (x * x) * (x * x),
        _ => power(
            x,
            Float::from_f64(n as f64),
            true.into(),
            (n & 1 != 0).into(),
        ),
    }
}
