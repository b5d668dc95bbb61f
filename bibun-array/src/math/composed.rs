//! Functions in derivatives that must be computed as one, because a formula of sums, products and
//! roots would lose a small difference, overflow on the way, or multiply zero by an infinity; and
//! the remainders of rounded quotients.

use super::{Float, Truth};

#[inline(always)]
pub(crate) fn one_minus_square<T: Float>(x: T) -> T {
    (T::ONE - x) * (T::ONE + x)
}

#[inline(always)]
pub(crate) fn logistic_density<T: Float>(x: T) -> T {
    let e = (-x.abs()).exp_of_negative();
    e / (T::ONE + e).square()
}

/// `a` and `b` divided by the larger magnitude, and that magnitude. Infinities become 1 or -1.
#[inline(always)]
fn parts<T: Float>(a: T, b: T) -> [T; 3] {
    let largest = a.abs().maximum(b.abs());
    let part = |x: T| T::select(x.abs().equal(T::INFINITY), x.sign(), x / largest);
    [part(a), part(b), largest]
}

#[inline(always)]
pub(crate) fn direction<T: Float>(a: T, b: T) -> T {
    let [u, v, largest] = parts(a, b);
    T::select(largest.equal(T::ZERO), T::ZERO, u / (u * u + v * v).sqrt())
}

#[inline(always)]
pub(crate) fn inversion<T: Float>(a: T, b: T) -> T {
    let [u, v, largest] = parts(a, b);
    T::select(
        largest.equal(T::ZERO),
        T::ZERO,
        u / (u * u + v * v) / largest,
    )
}

/// Whether exactly one holds.
#[inline(always)]
fn differ<B: Truth>(a: B, b: B) -> B {
    (a & !b) | (b & !a)
}

/// `a - b floor(a / b)` without intermediate rounding: the exact remainder of the quotient rounded
/// towards zero, moved to the sign of `b`.
#[inline(always)]
pub(crate) fn floor_remainder<T: Float>(a: T, b: T) -> T {
    let remainder = a.fmod(b);
    let apart = differ(remainder.less(T::ZERO), b.less(T::ZERO));
    let moved = T::select(apart, remainder + b, remainder);
    T::select(remainder.equal(T::ZERO), remainder.copysign(b), moved)
}

/// `floor(a / b)`, for which rounding `a / b` must not reach the next integer: `a` minus the exact
/// remainder is a multiple of `b`, up to rounding.
#[inline(always)]
pub(crate) fn floor_quotient<T: Float>(a: T, b: T) -> T {
    let remainder = a.fmod(b);
    let apart = differ(remainder.less(T::ZERO), b.less(T::ZERO));
    let below = apart & !remainder.equal(T::ZERO);
    let quotient = (a - remainder) / b - T::select(below, T::ONE, T::ZERO);
    let whole = T::select(
        quotient.equal(T::ZERO),
        quotient.copysign(a / b),
        quotient.round(),
    );
    T::select(b.equal(T::ZERO), a / b, whole)
}
