//! Integers in formulas, written once for `i64` and for the symbols that record what is computed.

use std::fmt::Debug;

use super::Truth;
use crate::Whole;

/// An integer that wraps around at the ends of its range: `i64`, or a symbol that stands for one.
/// Formulas are written over [`Whole`](crate::Whole), which has the operators.
pub trait Integer: Copy + Debug + Send + Sync + 'static {
    /// The type of the result of comparisons.
    type Truth: Truth;

    /// Creates a number that is a constant of the formula.
    fn from_i64(x: i64) -> Self;
    /// Returns `a` where the mask holds, `b` elsewhere.
    fn select(mask: Self::Truth, a: Self, b: Self) -> Self;
    /// Computes `self + other`.
    fn sum(self, other: Self) -> Self;
    /// Computes `self - other`.
    fn difference(self, other: Self) -> Self;
    /// Computes `self other`.
    fn product(self, other: Self) -> Self;
    /// Computes `self / other` rounded towards zero. The smallest number divided by -1 is the
    /// smallest number. `other` is not 0.
    fn quotient(self, other: Self) -> Self;
    /// Computes the remainder of [`quotient`](Integer::quotient), with the sign of `self`. `other`
    /// is not 0.
    fn rest(self, other: Self) -> Self;
    /// Computes the bitwise and.
    fn bits_and(self, other: Self) -> Self;
    /// Computes the bitwise or.
    fn bits_or(self, other: Self) -> Self;
    /// Computes the bitwise exclusive or.
    fn bits_xor(self, other: Self) -> Self;
    /// Returns the greater of two numbers.
    fn maximum(self, other: Self) -> Self;
    /// Returns the lesser of two numbers.
    fn minimum(self, other: Self) -> Self;
    /// Returns whether `self == other`.
    fn equal(self, other: Self) -> Self::Truth;
    /// Returns whether `self < other`.
    fn less(self, other: Self) -> Self::Truth;
}

impl Integer for i64 {
    type Truth = bool;

    #[inline(always)]
    fn from_i64(x: i64) -> Self {
        x
    }
    #[inline(always)]
    fn select(mask: bool, a: Self, b: Self) -> Self {
        if mask { a } else { b }
    }
    #[inline(always)]
    fn sum(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn difference(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }
    #[inline(always)]
    fn product(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }
    #[inline(always)]
    fn quotient(self, other: Self) -> Self {
        self.wrapping_div(other)
    }
    #[inline(always)]
    fn rest(self, other: Self) -> Self {
        self.wrapping_rem(other)
    }
    #[inline(always)]
    fn bits_and(self, other: Self) -> Self {
        self & other
    }
    #[inline(always)]
    fn bits_or(self, other: Self) -> Self {
        self | other
    }
    #[inline(always)]
    fn bits_xor(self, other: Self) -> Self {
        self ^ other
    }
    #[inline(always)]
    fn maximum(self, other: Self) -> Self {
        self.max(other)
    }
    #[inline(always)]
    fn minimum(self, other: Self) -> Self {
        self.min(other)
    }
    #[inline(always)]
    fn equal(self, other: Self) -> bool {
        self == other
    }
    #[inline(always)]
    fn less(self, other: Self) -> bool {
        self < other
    }
}

/// The divisor, with 1 in the place of zero, where there is no quotient. That result is not used.
#[inline(always)]
pub(crate) fn divisor<T: Integer>(b: Whole<T>) -> Whole<T> {
    Whole::where_(b.equal(0), 1, b)
}

/// The greatest integer that is at most `a / b`, or 0 if `b` is zero.
#[inline(always)]
pub(crate) fn floor_quotient<T: Integer>(a: Whole<T>, b: Whole<T>) -> Whole<T> {
    let quotient = a.quotient(divisor(b));
    let rest = a - quotient * b;
    let is_above = rest.not_equal(0) & (rest.less(0) ^ b.less(0));
    let below = Whole::where_(is_above, quotient - 1, quotient);
    Whole::where_(b.equal(0), 0, below)
}

/// The remainder of [`floor_quotient`], with the sign of `b`, or 0 if `b` is zero.
#[inline(always)]
pub(crate) fn floor_remainder<T: Integer>(a: Whole<T>, b: Whole<T>) -> Whole<T> {
    let rest = a.rest(divisor(b));
    let is_turned = rest.not_equal(0) & (rest.less(0) ^ b.less(0));
    Whole::where_(is_turned, rest + b, rest)
}

/// `base^exponent` modulo `2^64` by squaring, for an exponent that is not negative.
#[inline(always)]
pub(crate) fn power(mut base: i64, mut exponent: i64) -> i64 {
    let mut power: i64 = 1;
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = power.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    power
}
