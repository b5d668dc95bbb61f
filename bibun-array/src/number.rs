//! Numbers inside kernels: `f32` and `f64` under one notation, mixed freely with literals, and
//! integers in the same way.
//!
//! An expression such as `gy * (1.0 - y * y)` means the same for [`Number<f32>`], for `Number<f64>`
//! and for whole arrays, so that a formula written once can become one vector loop.

use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

use crate::math::{Float, Integer};

/// A floating-point number in a kernel. Literals of type `f64` mix with either precision.
///
/// ```
/// use bibun_array::Number;
/// let y = Number(0.5f32);
/// assert_eq!((1.0 - y * y).0, 0.75f32);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Number<T>(pub T);

/// The result of a comparison in a kernel.
///
/// ```
/// use bibun_array::Number;
/// let x = Number(-2.0f64);
/// assert_eq!(x.greater(0.0).where_(x, 0.0).0, 0.0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Mask<T: Float>(pub T::Truth);

impl<T: Float> From<f64> for Number<T> {
    #[inline(always)]
    fn from(x: f64) -> Self {
        Self(T::from_f64(x))
    }
}

macro_rules! operators {
    ($($operator:ident::$method:ident),*) => {$(
        impl<T: Float> $operator for Number<T> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                Self(self.0.$method(other.0))
            }
        }
        impl<T: Float> $operator<f64> for Number<T> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: f64) -> Self {
                self.$method(Self::from(other))
            }
        }
        impl<T: Float> $operator<Number<T>> for f64 {
            type Output = Number<T>;
            #[inline(always)]
            fn $method(self, other: Number<T>) -> Number<T> {
                Number::from(self).$method(other)
            }
        }
    )*};
}
operators!(Add::add, Sub::sub, Mul::mul, Div::div);

impl<T: Float> Neg for Number<T> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self(-self.0)
    }
}

macro_rules! functions {
    ($($function:ident),*) => {$(
        #[doc = concat!("See [`Float::", stringify!($function), "`].")]
        #[inline(always)]
        #[must_use]
        pub fn $function(self) -> Self {
            Self(Float::$function(self.0))
        }
    )*};
}

macro_rules! binary_functions {
    ($($function:ident),*) => {$(
        #[doc = concat!("See [`Float::", stringify!($function), "`].")]
        #[inline(always)]
        #[must_use]
        pub fn $function(self, other: impl Into<Self>) -> Self {
            Self(Float::$function(self.0, other.into().0))
        }
    )*};
}

impl<T: Float> Number<T> {
    functions!(
        abs,
        acos,
        acosh,
        asin,
        asinh,
        atan,
        atanh,
        cbrt,
        ceil,
        cos,
        cosh,
        digamma,
        erf,
        erfc,
        erfinv,
        exp,
        exp_of_negative,
        exp2,
        expm1,
        floor,
        gelu,
        lgamma,
        log10,
        log1p,
        log2,
        log_sigmoid,
        logistic_density,
        normal_density,
        normal_distribution,
        one_minus_square,
        reciprocal,
        round,
        rsqrt,
        sigmoid,
        sign,
        sin,
        sinh,
        softplus,
        sqrt,
        square,
        tan,
        tanh,
        trunc
    );

    /// Computes the natural logarithm; see [`Float::ln`].
    #[inline(always)]
    #[must_use]
    pub fn log(self) -> Self {
        Self(self.0.ln())
    }

    /// Returns the greater of two numbers, or NaN if either is NaN; see [`Float::maximum`].
    #[inline(always)]
    #[must_use]
    pub fn maximum(self, other: impl Into<Self>) -> Self {
        Self(self.0.maximum(other.into().0))
    }

    /// Returns the smaller of two numbers, or NaN if either is NaN; see [`Float::minimum`].
    #[inline(always)]
    #[must_use]
    pub fn minimum(self, other: impl Into<Self>) -> Self {
        Self(self.0.minimum(other.into().0))
    }

    /// Clamps `self` between two numbers. NaN stays NaN.
    #[inline(always)]
    #[must_use]
    pub fn clip(self, low: impl Into<Self>, high: impl Into<Self>) -> Self {
        Self(self.0.clip(low.into().0, high.into().0))
    }

    binary_functions!(
        atan2, copysign, direction, fmod, hypot, inversion, logaddexp, remainder
    );

    /// Computes `self^exponent`; see [`Float::powf`].
    #[inline(always)]
    #[must_use]
    pub fn pow(self, exponent: impl Into<Self>) -> Self {
        Self(self.0.powf(exponent.into().0))
    }

    /// Returns the largest finite number.
    #[inline(always)]
    #[must_use]
    pub fn largest() -> Self {
        Self(T::largest())
    }

    /// Returns whether this is NaN.
    #[inline(always)]
    pub fn is_nan(self) -> Mask<T> {
        Mask(Float::is_nan(self.0))
    }

    /// Returns whether `self == other`.
    #[inline(always)]
    pub fn equal(self, other: impl Into<Self>) -> Mask<T> {
        Mask(Float::equal(self.0, other.into().0))
    }

    /// Returns whether `self != other`.
    #[inline(always)]
    pub fn not_equal(self, other: impl Into<Self>) -> Mask<T> {
        Mask(!Float::equal(self.0, other.into().0))
    }

    /// Returns whether `self > other`.
    #[inline(always)]
    pub fn greater(self, other: impl Into<Self>) -> Mask<T> {
        Mask(Float::greater(self.0, other.into().0))
    }

    /// Returns whether `self >= other`.
    #[inline(always)]
    pub fn greater_equal(self, other: impl Into<Self>) -> Mask<T> {
        Mask(Float::greater_equal(self.0, other.into().0))
    }

    /// Returns whether `self < other`.
    #[inline(always)]
    pub fn less(self, other: impl Into<Self>) -> Mask<T> {
        Mask(Float::less(self.0, other.into().0))
    }

    /// Returns whether `self <= other`.
    #[inline(always)]
    pub fn less_equal(self, other: impl Into<Self>) -> Mask<T> {
        Mask(Float::less_equal(self.0, other.into().0))
    }
}

impl<T: Float> Mask<T> {
    /// Returns `a` where the comparison holds, `b` elsewhere.
    #[inline(always)]
    pub fn where_(self, a: impl Into<Number<T>>, b: impl Into<Number<T>>) -> Number<T> {
        Number(T::select(self.0, a.into().0, b.into().0))
    }

    /// Returns whether both hold.
    #[inline(always)]
    #[must_use]
    pub fn logical_and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns whether the comparison does not hold.
    #[inline(always)]
    #[must_use]
    pub fn logical_not(self) -> Self {
        Self(!self.0)
    }

    /// Returns whether one or both hold.
    #[inline(always)]
    #[must_use]
    pub fn logical_or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// An integer in a kernel. It wraps around at the ends of its range, and literals mix with it.
///
/// ```
/// use bibun_array::Whole;
/// let x = Whole(i64::MAX);
/// assert_eq!((x + 1).0, i64::MIN);
/// assert_eq!(Whole::where_(x.less(0), 0, x).0, i64::MAX);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Whole<T>(pub T);

impl<T: Integer> From<i64> for Whole<T> {
    #[inline(always)]
    fn from(x: i64) -> Self {
        Self(T::from_i64(x))
    }
}

macro_rules! integer_operators {
    ($($operator:ident::$method:ident => $function:ident),*) => {$(
        impl<T: Integer, X: Into<Whole<T>>> $operator<X> for Whole<T> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: X) -> Self {
                Self(self.0.$function(other.into().0))
            }
        }
    )*};
}
integer_operators!(
    Add::add => sum,
    Sub::sub => difference,
    Mul::mul => product,
    BitAnd::bitand => bits_and,
    BitOr::bitor => bits_or,
    BitXor::bitxor => bits_xor
);

impl<T: Integer> Neg for Whole<T> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self::from(0) - self
    }
}

impl<T: Integer> Not for Whole<T> {
    type Output = Self;
    #[inline(always)]
    fn not(self) -> Self {
        self ^ -1
    }
}

impl<T: Integer> Whole<T> {
    /// Returns `a` where `condition` holds, `b` elsewhere.
    #[inline(always)]
    pub fn where_(condition: T::Truth, a: impl Into<Self>, b: impl Into<Self>) -> Self {
        Self(T::select(condition, a.into().0, b.into().0))
    }

    /// Returns the magnitude. That of the smallest integer is the smallest integer itself.
    #[inline(always)]
    #[must_use]
    pub fn abs(self) -> Self {
        Self::where_(self.less(0), -self, self)
    }

    /// Returns the sign: -1, 0 or 1.
    #[inline(always)]
    #[must_use]
    pub fn sign(self) -> Self {
        self.minimum(1).maximum(-1)
    }

    /// Returns the greater of two integers.
    #[inline(always)]
    #[must_use]
    pub fn maximum(self, other: impl Into<Self>) -> Self {
        Self(self.0.maximum(other.into().0))
    }

    /// Returns the lesser of two integers.
    #[inline(always)]
    #[must_use]
    pub fn minimum(self, other: impl Into<Self>) -> Self {
        Self(self.0.minimum(other.into().0))
    }

    /// Clamps `self` between two integers.
    #[inline(always)]
    #[must_use]
    pub fn clip(self, low: impl Into<Self>, high: impl Into<Self>) -> Self {
        self.maximum(low).minimum(high)
    }

    /// Returns the quotient rounded towards zero; see [`Integer::quotient`].
    #[inline(always)]
    #[must_use]
    pub fn quotient(self, other: Self) -> Self {
        Self(self.0.quotient(other.0))
    }

    /// Returns the remainder of [`quotient`](Whole::quotient); see [`Integer::rest`].
    #[inline(always)]
    #[must_use]
    pub fn rest(self, other: Self) -> Self {
        Self(self.0.rest(other.0))
    }

    /// Returns whether `self == other`.
    #[inline(always)]
    pub fn equal(self, other: impl Into<Self>) -> T::Truth {
        self.0.equal(other.into().0)
    }

    /// Returns whether `self != other`.
    #[inline(always)]
    pub fn not_equal(self, other: impl Into<Self>) -> T::Truth {
        !self.equal(other)
    }

    /// Returns whether `self < other`.
    #[inline(always)]
    pub fn less(self, other: impl Into<Self>) -> T::Truth {
        self.0.less(other.into().0)
    }

    /// Returns whether `self <= other`.
    #[inline(always)]
    pub fn less_equal(self, other: impl Into<Self>) -> T::Truth {
        !other.into().less(self)
    }

    /// Returns whether `self > other`.
    #[inline(always)]
    pub fn greater(self, other: impl Into<Self>) -> T::Truth {
        other.into().less(self)
    }

    /// Returns whether `self >= other`.
    #[inline(always)]
    pub fn greater_equal(self, other: impl Into<Self>) -> T::Truth {
        !self.less(other)
    }
}
