//! What the families share: bit surgery on floating-point numbers, sums of two, and Horner's rule.
//!
//! Everything here is free of branches and `#[inline(always)]`, so that a loop over a slice becomes
//! one vector instruction per operation. Conversions between floats and integers go through the
//! bits of a number with a known exponent, because the machine's own conversion is missing (64 bit,
//! AVX2) or wrapped in range checks.
//!
//! Source: the error-free transformations are Dekker's (1971) and Knuth's; the shifter is from
//! Muller et al., "Handbook of Floating-Point Arithmetic", second edition.

use super::Float;

/// The representation of a float, as the families of functions need it.
pub(super) trait Kernel: Float {
    /// `1.5 * 2^p` for `p` fraction bits: adding it leaves an integer in the low bits of the sum.
    const SHIFTER: Self;
    const FOUR: Self;
    /// The smallest normal number.
    const MIN_POSITIVE: Self;
    /// `2^(p + 2)`, which makes every subnormal number normal, and `p + 2`.
    const LIFT: (Self, Self);

    /// `2^n` for an integer `n` in the range of normal exponents.
    fn power_of_two(n: Self) -> Self;

    /// Of the angle of `n` quarter turns: whether `n` is odd, the sine is negative (for `n` modulo
    /// 4 of 2 or 3), and the cosine is (for 1 or 2).
    fn quarter_turns(n: Self) -> (bool, bool, bool);

    /// A positive normal number as `(k, m)` with `x = 2^k m` and `sqrt(1/2) <= m < sqrt(2)`.
    fn exponent_and_fraction(self) -> (Self, Self);

    /// The magnitude of `self` with the sign of `sign`.
    fn copysign(self, sign: Self) -> Self;

    /// Whether the sign bit is set.
    fn is_sign_negative(self) -> bool;
}

macro_rules! kernel {
    ($float:ident, $bits:ident, $fraction_bits:literal) => {
        impl Kernel for $float {
            const SHIFTER: Self = 1.5 * (1_u64 << $fraction_bits) as Self;
            const FOUR: Self = 4.0;
            const MIN_POSITIVE: Self = Self::MIN_POSITIVE;
            const LIFT: (Self, Self) = (
                (1_u64 << ($fraction_bits + 2)) as Self,
                $fraction_bits as Self + 2.0,
            );

            #[inline(always)]
            fn power_of_two(n: Self) -> Self {
                const BIAS: $float = ($float::MAX_EXP - 1) as $float;
                Self::from_bits((n + (Self::SHIFTER + BIAS)).to_bits() << $fraction_bits)
            }

            #[inline(always)]
            fn quarter_turns(n: Self) -> (bool, bool, bool) {
                let turns = (n + Self::SHIFTER).to_bits();
                (
                    turns & 1 != 0,
                    turns & 2 != 0,
                    turns.wrapping_add(1) & 2 != 0,
                )
            }

            #[inline(always)]
            fn exponent_and_fraction(self) -> (Self, Self) {
                const ONE: $bits = (1.0 as $float).to_bits();
                const ROOT: $bits = std::$float::consts::FRAC_1_SQRT_2.to_bits();
                const FRACTION: $bits = (1 << $fraction_bits) - 1;
                // 2^p as a float holds integers below 2^p in its fraction.
                const HOLDER: $float = (1_u64 << $fraction_bits) as $float;
                const BIAS: $float = ($float::MAX_EXP - 1) as $float;
                let bits = self.to_bits().wrapping_add(ONE - ROOT);
                let exponent = Self::from_bits((bits >> $fraction_bits) | HOLDER.to_bits());
                let fraction = Self::from_bits((bits & FRACTION) + ROOT);
                (exponent - (HOLDER + BIAS), fraction)
            }

            #[inline(always)]
            fn copysign(self, sign: Self) -> Self {
                self.copysign(sign)
            }

            #[inline(always)]
            fn is_sign_negative(self) -> bool {
                self.is_sign_negative()
            }
        }
    };
}

kernel!(f32, u32, 23);
kernel!(f64, u64, 52);

/// `coefficients[0] + coefficients[1] x + ...` by Horner's rule.
#[inline(always)]
pub(super) fn polynomial<T: Float>(x: T, coefficients: &[T]) -> T {
    let (last, rest) = coefficients
        .split_last()
        .expect("a polynomial has a coefficient");
    rest.iter()
        .rev()
        .fold(*last, |sum, &coefficient| sum.mul_add(x, coefficient))
}

/// The nearest integer, for magnitudes below `2^(p - 1)`; half goes to even.
#[inline(always)]
pub(super) fn nearest<T: Kernel>(x: T) -> T {
    (x + T::SHIFTER) - T::SHIFTER
}

/// `2^n x`, rounded once, for an integer `n` of up to twice the range of exponents.
#[inline(always)]
pub(super) fn scale<T: Kernel>(x: T, n: T) -> T {
    let half = nearest(n * T::HALF);
    x * T::power_of_two(half) * T::power_of_two(n - half)
}

/// A positive number as `(k, m)` with `x = 2^k m` and `sqrt(1/2) <= m < sqrt(2)`, subnormal ones
/// too.
#[inline(always)]
pub(super) fn split<T: Kernel>(x: T) -> (T, T) {
    let subnormal = x < T::MIN_POSITIVE;
    let (k, m) = T::select(subnormal, x * T::LIFT.0, x).exponent_and_fraction();
    (k - T::select(subnormal, T::LIFT.1, T::ZERO), m)
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
