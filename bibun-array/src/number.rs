//! Numbers inside of kernels: `f32` and `f64` under one notation, mixed freely with literals.
//!
//! An expression such as `gy * (1.0 - y * y)` means the same for [`Number<f32>`], for
//! `Number<f64>` and for whole arrays, so that a formula written once can become one vector loop.

use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::math::Float;

/// A floating-point number in a kernel. Literals of type `f64` mix with either precision.
///
/// ```
/// use bibun_array::Number;
/// let y = Number(0.5f32);
/// assert_eq!((1.0 - y * y).0, 0.75f32);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Number<T>(pub T);

/// The answer of a comparison in a kernel.
///
/// ```
/// use bibun_array::Number;
/// let x = Number(-2.0f64);
/// assert_eq!(x.greater(0.0).where_(x, 0.0).0, 0.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mask<T>(bool, std::marker::PhantomData<T>);

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

impl<T: Float> Number<T> {
    functions!(
        abs, acos, acosh, asin, asinh, atan, atanh, cbrt, ceil, cos, cosh, digamma, erf, erfc,
        erfinv, exp, exp2, expm1, floor, lgamma, log10, log1p, log2, round, rsqrt, sigmoid, sign,
        sin, sinh, softplus, sqrt, tan, tanh, trunc
    );

    /// The natural logarithm; see [`Float::ln`].
    #[inline(always)]
    #[must_use]
    pub fn log(self) -> Self {
        Self(self.0.ln())
    }

    /// `log(sigmoid(self))`, exact on both tails.
    #[inline(always)]
    #[must_use]
    pub fn log_sigmoid(self) -> Self {
        -(-self).softplus()
    }

    /// `sigmoid(self) sigmoid(-self)`, exact on both tails: the density of the logistic
    /// distribution, and the derivative of the sigmoid.
    #[inline(always)]
    #[must_use]
    pub fn logistic_density(self) -> Self {
        let e = (-self.abs()).exp();
        e / (1.0 + e).square()
    }

    /// `self²`.
    #[inline(always)]
    #[must_use]
    pub fn square(self) -> Self {
        self * self
    }

    /// `1 / self`.
    #[inline(always)]
    #[must_use]
    pub fn reciprocal(self) -> Self {
        1.0 / self
    }

    /// The greater of two, NaN if either is; see [`Float::maximum`].
    #[inline(always)]
    #[must_use]
    pub fn maximum(self, other: impl Into<Self>) -> Self {
        Self(self.0.maximum(other.into().0))
    }

    /// The smaller of two, NaN if either is; see [`Float::minimum`].
    #[inline(always)]
    #[must_use]
    pub fn minimum(self, other: impl Into<Self>) -> Self {
        Self(self.0.minimum(other.into().0))
    }

    /// `self` held between two numbers, NaN if it is NaN.
    #[inline(always)]
    #[must_use]
    pub fn clip(self, low: impl Into<Self>, high: impl Into<Self>) -> Self {
        self.maximum(low).minimum(high)
    }

    /// Whether this is NaN.
    #[inline(always)]
    pub fn is_nan(self) -> Mask<T> {
        Mask(self.0.is_nan(), std::marker::PhantomData)
    }

    /// `self == other`.
    #[inline(always)]
    pub fn equal(self, other: impl Into<Self>) -> Mask<T> {
        Mask(self.0 == other.into().0, std::marker::PhantomData)
    }

    /// `self != other`.
    #[inline(always)]
    pub fn not_equal(self, other: impl Into<Self>) -> Mask<T> {
        Mask(self.0 != other.into().0, std::marker::PhantomData)
    }

    /// `self > other`.
    #[inline(always)]
    pub fn greater(self, other: impl Into<Self>) -> Mask<T> {
        Mask(self.0 > other.into().0, std::marker::PhantomData)
    }

    /// `self >= other`.
    #[inline(always)]
    pub fn greater_equal(self, other: impl Into<Self>) -> Mask<T> {
        Mask(self.0 >= other.into().0, std::marker::PhantomData)
    }

    /// `self < other`.
    #[inline(always)]
    pub fn less(self, other: impl Into<Self>) -> Mask<T> {
        Mask(self.0 < other.into().0, std::marker::PhantomData)
    }

    /// `self <= other`.
    #[inline(always)]
    pub fn less_equal(self, other: impl Into<Self>) -> Mask<T> {
        Mask(self.0 <= other.into().0, std::marker::PhantomData)
    }
}

impl<T: Float> Mask<T> {
    /// `a` where the comparison holds, `b` elsewhere.
    #[inline(always)]
    pub fn where_(self, a: impl Into<Number<T>>, b: impl Into<Number<T>>) -> Number<T> {
        Number(T::select(self.0, a.into().0, b.into().0))
    }

    /// Whether both hold.
    #[inline(always)]
    #[must_use]
    pub fn logical_and(self, other: Self) -> Self {
        Self(self.0 & other.0, self.1)
    }

    /// Whether one or both hold.
    #[inline(always)]
    #[must_use]
    pub fn logical_or(self, other: Self) -> Self {
        Self(self.0 | other.0, self.1)
    }
}
