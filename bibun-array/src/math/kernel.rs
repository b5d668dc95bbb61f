//! Common parts of the families of functions: bit manipulation of floating-point numbers,
//! error-free transformations, and Horner's rule.
//!
//! Everything here is free of branches and `#[inline(always)]`, so that a loop over a slice becomes
//! one vector instruction per operation. Conversions between floats and integers go through the
//! bits of a number with a known exponent, because the machine's own conversion is missing (64 bit,
//! AVX2) or wrapped in range checks.
//!
//! Source: the error-free transformations are Dekker's (1971) and Knuth's; the shifter is from
//! Muller et al., "Handbook of Floating-Point Arithmetic", second edition.

use super::Float;
use super::error_function::ErrorFunction;
use super::hyperbolic::Hyperbolic;
use super::power::Power;
use super::trigonometric::Trigonometric;

/// A number whose representation the families of functions may take apart: f32, f64, or a symbol
/// that stands for one of them.
pub(crate) trait Kernel: Float {
    /// The type of the constants.
    type Precision: Precision;
    /// This number with the precision of f64.
    type Double: Kernel<Precision = f64, Double = Self::Double, Truth = Self::Truth>;

    /// A constant.
    fn of(x: Self::Precision) -> Self;

    /// The same number in double precision.
    fn widen(self) -> Self::Double;

    /// The nearest number to one in double precision.
    fn narrow(x: Self::Double) -> Self;

    /// `2^n` for an integer `n` in the range of normal exponents, given the sum of `n` and
    /// [`Precision::POWER_SHIFTER`].
    fn power_of_two(sum: Self) -> Self;

    /// Whether an integer is odd, given its sum with [`Precision::SHIFTER`].
    fn is_odd(sum: Self) -> Self::Truth;

    /// Whether the second lowest bit of an integer is set, which is 2 or 3 modulo 4, given its sum
    /// with [`Precision::SHIFTER`].
    fn has_bit_of_two(sum: Self) -> Self::Truth;

    /// The exponent `k` of a positive normal number `x = 2^k m` with `sqrt(1/2) <= m < sqrt(2)`.
    fn exponent(self) -> Self;

    /// The fraction `m` of the same number.
    fn fraction(self) -> Self;

    /// Two constants.
    #[inline(always)]
    fn pair((high, low): (Self::Precision, Self::Precision)) -> (Self, Self) {
        (Self::of(high), Self::of(low))
    }
}

/// The constants of one of the two precisions.
pub(crate) trait Precision:
    ErrorFunction + Hyperbolic + Power + Trigonometric + Copy + 'static
{
    /// `1.5 * 2^p` for `p` fraction bits: adding it leaves an integer in the low bits of the sum.
    const SHIFTER: Self;
    /// The sum of that and the bias of exponents.
    const POWER_SHIFTER: Self;
    /// The distance from 1 to the next larger number.
    const EPSILON: Self;
    /// The smallest normal number.
    const MIN_POSITIVE: Self;
    /// `2^(p + 2)`, which makes every subnormal number normal, and `p + 2`.
    const LIFT: (Self, Self);
}

macro_rules! kernel {
    ($float:ident, $bits:ident, $fraction_bits:literal) => {
        impl Precision for $float {
            const SHIFTER: Self = 1.5 * (1_u64 << $fraction_bits) as Self;
            const POWER_SHIFTER: Self = Self::SHIFTER + (Self::MAX_EXP - 1) as Self;
            const EPSILON: Self = Self::EPSILON;
            const MIN_POSITIVE: Self = Self::MIN_POSITIVE;
            const LIFT: (Self, Self) = (
                (1_u64 << ($fraction_bits + 2)) as Self,
                $fraction_bits as Self + 2.0,
            );
        }

        impl Kernel for $float {
            type Precision = Self;
            type Double = f64;

            #[inline(always)]
            fn of(x: Self) -> Self {
                x
            }

            #[inline(always)]
            fn widen(self) -> f64 {
                self as f64
            }

            #[inline(always)]
            fn narrow(x: f64) -> Self {
                x as Self
            }

            #[inline(always)]
            fn power_of_two(sum: Self) -> Self {
                Self::from_bits(sum.to_bits() << $fraction_bits)
            }

            #[inline(always)]
            fn is_odd(sum: Self) -> bool {
                sum.to_bits() & 1 != 0
            }

            #[inline(always)]
            fn has_bit_of_two(sum: Self) -> bool {
                sum.to_bits() & 2 != 0
            }

            #[inline(always)]
            fn exponent(self) -> Self {
                // 2^p as a float holds integers below 2^p in its fraction.
                const HOLDER: $float = (1_u64 << $fraction_bits) as $float;
                const BIAS: $float = ($float::MAX_EXP - 1) as $float;
                let bits = self.to_bits().wrapping_add(Self::ABOVE_ROOT);
                Self::from_bits((bits >> $fraction_bits) | HOLDER.to_bits()) - (HOLDER + BIAS)
            }

            #[inline(always)]
            fn fraction(self) -> Self {
                const FRACTION: $bits = (1 << $fraction_bits) - 1;
                const ROOT: $bits = std::$float::consts::FRAC_1_SQRT_2.to_bits();
                let bits = self.to_bits().wrapping_add(Self::ABOVE_ROOT);
                Self::from_bits((bits & FRACTION) + ROOT)
            }
        }

        impl Root for $float {
            type Bits = $bits;
            const ABOVE_ROOT: $bits =
                (1.0 as $float).to_bits() - std::$float::consts::FRAC_1_SQRT_2.to_bits();
        }
    };
}

/// The distance from the bits of `sqrt(1/2)` to those of 1. Added to the bits of a number, it makes
/// the exponent change at `sqrt(1/2)`.
trait Root {
    type Bits;
    const ABOVE_ROOT: Self::Bits;
}

kernel!(f32, u32, 23);
kernel!(f64, u64, 52);

/// `coefficients[0] + coefficients[1] x + ...` by Horner's rule.
#[inline(always)]
pub(super) fn polynomial<T: Kernel>(x: T, coefficients: &[T::Precision]) -> T {
    let (last, rest) = coefficients
        .split_last()
        .expect("a polynomial has a coefficient");
    rest.iter().rev().fold(T::of(*last), |sum, &coefficient| {
        sum.mul_add(x, T::of(coefficient))
    })
}

/// Half of the distance from 1 to the next larger number.
#[inline(always)]
pub(super) fn half_epsilon<T: Kernel>() -> T {
    T::of(T::Precision::EPSILON) * T::HALF
}

/// The nearest integer, for magnitudes below `2^(p - 1)`. Halves go to the even one.
#[inline(always)]
pub(super) fn nearest<T: Kernel>(x: T) -> T {
    let shifter = T::of(T::Precision::SHIFTER);
    (x + shifter) - shifter
}

/// The integer nearest to a product, with the same bounds.
#[inline(always)]
pub(super) fn nearest_product<T: Kernel>(x: T, y: T) -> T {
    let shifter = T::of(T::Precision::SHIFTER);
    x.mul_add(y, shifter) - shifter
}

/// `2^n x`, rounded once, for an integer `n` of up to twice the range of exponents.
#[inline(always)]
pub(super) fn scale<T: Kernel>(x: T, n: T) -> T {
    let half = nearest_product(n, T::HALF);
    x * power_of_two(half) * power_of_two(n - half)
}

/// `2^n` for an integer `n` in the range of normal exponents.
#[inline(always)]
pub(super) fn power_of_two<T: Kernel>(n: T) -> T {
    T::power_of_two(n + T::of(T::Precision::POWER_SHIFTER))
}

/// A positive number, which may be subnormal, as `(k, m)` with `x = 2^k m` and
/// `sqrt(1/2) <= m < sqrt(2)`.
#[inline(always)]
pub(super) fn split<T: Kernel>(x: T) -> (T, T) {
    let subnormal = x.less(T::of(T::Precision::MIN_POSITIVE));
    let (factor, exponent) = T::pair(T::Precision::LIFT);
    let x = T::select(subnormal, x * factor, x);
    let k = x.exponent() - T::select(subnormal, exponent, T::ZERO);
    (k, x.fraction())
}

/// `a + b` and its rounding error.
#[inline(always)]
pub(super) fn two_sum<T: Float>(a: T, b: T) -> (T, T) {
    let sum = a + b;
    let shadow = sum - a;
    (sum, (a - (sum - shadow)) + (b - shadow))
}

/// `a + b` and its rounding error, where `|a| >= |b|` or `a` is zero.
#[inline(always)]
pub(super) fn ordered_sum<T: Float>(a: T, b: T) -> (T, T) {
    let sum = a + b;
    (sum, b - (sum - a))
}

/// `a b` and its rounding error.
#[inline(always)]
pub(super) fn two_product<T: Float>(a: T, b: T) -> (T, T) {
    let product = a * b;
    (product, a.mul_add(b, -product))
}

/// `(a + a_low) / (b + b_low)`, to about half a unit in the last place.
#[inline(always)]
pub(super) fn quotient<T: Float>((a, a_low): (T, T), (b, b_low): (T, T)) -> T {
    let reciprocal = T::ONE / b;
    let first = a * reciprocal;
    let rest = (-first).mul_add(b, a) + (-first).mul_add(b_low, a_low);
    rest.mul_add(reciprocal, first)
}
