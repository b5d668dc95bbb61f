//! Elementary functions for f32 and f64, written so that loops over them become vector code.
//!
//! Every function is a scalar one without branches, inlined into its caller. A plain loop over
//! slices therefore vectorises, with the instructions that the function around the loop may use: in
//! an operation passed to `pulp::Arch::dispatch` these are AVX-512, AVX2 with FMA, or NEON.
//! Elsewhere results are the same to the last bit, but on x86-64 every fused multiply-add is then a
//! call. Exceptions are `sin`, `cos` and `tan`, which are faster as `sin_slice` and similar, because what
//! large angles need is a loop of its own there (and in f64 a branch here); and `lgamma`, `digamma` and the
//! functions of [`Special`], which take one number at a time.
//!
//! The operation should be a type with an `#[inline(always)]` method, as below: the compiler may
//! not inline a closure with a large body, which then has none of these instructions.
//!
//! Special values (signed zeros, infinities, NaN, subnormal numbers, both ends of the range) follow
//! C99 and NumPy. "At most n ulp off" means n units in the last place of the exact result, in both
//! types, rounded up from what the tests measure.
//!
//! ```
//! use bibun_array::math::Float;
//!
//! struct Sigmoid<'a>(&'a [f32], &'a mut [f32]);
//!
//! impl pulp::NullaryFnOnce for Sigmoid<'_> {
//!     type Output = ();
//!
//!     #[inline(always)]
//!     fn call(self) {
//!         for (y, x) in self.1.iter_mut().zip(self.0) {
//!             *y = x.sigmoid();
//!         }
//!     }
//! }
//!
//! let mut y = [0.0; 3];
//! pulp::Arch::new().dispatch(Sigmoid(&[0.0, 0.5, 1.0], &mut y));
//! assert_eq!(y[0], 0.5);
//! ```

mod bessel;
mod coefficients;
pub(crate) mod composed;
pub(crate) mod error_function;
pub(crate) mod exponential;
mod exponential_integral;
mod gamma;
pub(crate) mod hyperbolic;
mod hyperdual;
mod incomplete;
pub(crate) mod integer;
pub(crate) mod kernel;
pub(crate) mod logarithm;
mod normal;
pub(crate) mod power;
mod special;
pub(crate) mod trigonometric;

pub use integer::Integer;
pub(crate) use kernel::Kernel;
pub use special::Special;

use std::fmt::{Debug, Display};
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

/// The result of a comparison: `bool`, or a symbol that stands for one. Formulas cannot branch on
/// it, but [select](Float::select).
pub trait Truth:
    Copy
    + Debug
    + From<bool>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + BitXor<Output = Self>
    + Not<Output = Self>
    + Send
    + Sync
    + 'static
{
}

impl Truth for bool {}

/// A floating-point number with its elementary functions: f32, f64, or a
/// [`Symbol`](crate::formula::Symbol) that records what is computed from it.
///
/// Some methods have the names of inherent ones of the standard library, which take precedence in a
/// call on a concrete type. Generic code always calls these.
pub trait Float:
    Copy
    + Debug
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + Send
    + Sync
    + 'static
{
    /// The type of the result of comparisons.
    type Truth: Truth;

    /// 0.
    const ZERO: Self;
    /// 1/2.
    const HALF: Self;
    /// 1.
    const ONE: Self;
    /// 2.
    const TWO: Self;
    /// Not a number.
    const NAN: Self;
    /// Positive infinity.
    const INFINITY: Self;
    /// Negative infinity.
    const NEG_INFINITY: Self;

    /// Returns the largest finite number.
    #[must_use]
    fn largest() -> Self;

    /// Returns the number of this type nearest to `x`.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(f32::from_f64(0.1), 0.1_f32);
    /// ```
    #[must_use]
    fn from_f64(x: f64) -> Self;

    /// Returns `a` if the mask is true, else `b`. Both are computed: this is a choice, not a
    /// branch.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(f32::select(true, 1.0, 2.0), 1.0);
    /// ```
    #[must_use]
    fn select(mask: Self::Truth, a: Self, b: Self) -> Self;

    /// Returns whether `self == other`.
    #[must_use]
    fn equal(self, other: Self) -> Self::Truth;

    /// Returns whether `self < other`.
    #[must_use]
    fn less(self, other: Self) -> Self::Truth;

    /// Returns whether `self <= other`.
    #[must_use]
    fn less_equal(self, other: Self) -> Self::Truth;

    /// Returns whether `self > other`.
    #[must_use]
    #[inline(always)]
    fn greater(self, other: Self) -> Self::Truth {
        other.less(self)
    }

    /// Returns whether `self >= other`.
    #[must_use]
    #[inline(always)]
    fn greater_equal(self, other: Self) -> Self::Truth {
        other.less_equal(self)
    }

    /// Returns whether this is NaN.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert!(Float::is_nan(f32::NAN));
    /// ```
    #[must_use]
    fn is_nan(self) -> Self::Truth;

    /// Computes `e^x`. At most 1 ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(1.0_f32.exp(), 2.7182817);
    /// ```
    #[must_use]
    fn exp(self) -> Self;

    /// Computes `e^x` of an `x` that is not positive, or NaN, in fewer steps than
    /// [`exp`](Self::exp) and with the same bits. Rounding errors may make `x` positive, up to 64; what
    /// is beyond has no meaning.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!((-1.0_f32).exp_of_negative(), (-1.0_f32).exp());
    /// ```
    #[must_use]
    #[inline(always)]
    fn exp_of_negative(self) -> Self {
        self.exp()
    }

    /// Computes `2^x`. At most 1 ulp off, exact at integers.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::exp2(-3.0_f64), 0.125);
    /// ```
    #[must_use]
    fn exp2(self) -> Self;

    /// Computes `e^x - 1`, without cancellation near zero. At most 1.5 ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::expm1(1e-20_f64), 1e-20);
    /// ```
    #[must_use]
    fn expm1(self) -> Self;

    /// Computes `1 / (1 + e^-x)`. At most 1.5 ulp off, on the left tail, too.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(0.0_f64.sigmoid(), 0.5);
    /// ```
    #[must_use]
    fn sigmoid(self) -> Self;

    /// Computes the natural logarithm, which is NaN below zero. At most 1 ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::ln(1.0_f64), 0.0);
    /// ```
    #[must_use]
    fn ln(self) -> Self;

    /// Computes the logarithm to base 2, which is NaN below zero. At most 1 ulp off, exact at
    /// powers of 2.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::log2(8.0_f64), 3.0);
    /// ```
    #[must_use]
    fn log2(self) -> Self;

    /// Computes the logarithm to base 10, which is NaN below zero. At most 1 ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::log10(1000.0_f64), 3.0);
    /// ```
    #[must_use]
    fn log10(self) -> Self;

    /// Computes `ln(1 + x)`, without cancellation near zero. It is NaN below -1. At most 1 ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::log1p(1e-20_f64), 1e-20);
    /// ```
    #[must_use]
    fn log1p(self) -> Self;

    /// Computes `ln(1 + e^x)`, without overflow or cancellation. At most 2.5 ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(1000.0_f64.softplus(), 1000.0);
    /// ```
    #[must_use]
    fn softplus(self) -> Self;

    /// Computes the sine, accurately for every finite number. At most 1 ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::sin(1e22_f64), -0.8522008497671888);
    /// ```
    #[must_use]
    fn sin(self) -> Self;

    /// Computes the cosine, accurately for every finite number. At most 1 ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::cos(0.0_f64), 1.0);
    /// ```
    #[must_use]
    fn cos(self) -> Self;

    /// Computes the tangent, accurately for every finite number. At most 2.5 ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::tan(0.0_f64), 0.0);
    /// ```
    #[must_use]
    fn tan(self) -> Self;

    /// Computes the inverse sine, in `[-pi/2, pi/2]`. It is NaN outside `[-1, 1]`. At most 2.5 ulp
    /// off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::asin(1.0_f64), std::f64::consts::FRAC_PI_2);
    /// ```
    #[must_use]
    fn asin(self) -> Self;

    /// Computes the inverse cosine, in `[0, pi]`. It is NaN outside `[-1, 1]`. At most 1.5 ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::acos(1.0_f64), 0.0);
    /// ```
    #[must_use]
    fn acos(self) -> Self;

    /// Computes the inverse tangent, in `[-pi/2, pi/2]`. At most 2 ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::atan(1.0_f64), std::f64::consts::FRAC_PI_4);
    /// ```
    #[must_use]
    fn atan(self) -> Self;

    /// Computes the hyperbolic sine. At most 2.5 ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::sinh(0.0_f64), 0.0);
    /// ```
    #[must_use]
    fn sinh(self) -> Self;

    /// Computes the hyperbolic cosine. At most 1.5 ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::cosh(0.0_f64), 1.0);
    /// ```
    #[must_use]
    fn cosh(self) -> Self;

    /// Computes the hyperbolic tangent. At most 1.5 ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::tanh(30.0_f64), 1.0);
    /// ```
    #[must_use]
    fn tanh(self) -> Self;

    /// Computes the inverse hyperbolic sine. At most 2 ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::asinh(0.0_f64), 0.0);
    /// ```
    #[must_use]
    fn asinh(self) -> Self;

    /// Computes the inverse hyperbolic cosine, which is NaN below 1. At most 2 ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::acosh(1.0_f64), 0.0);
    /// ```
    #[must_use]
    fn acosh(self) -> Self;

    /// Computes the inverse hyperbolic tangent, which is NaN outside `[-1, 1]`. At most 2 ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::atanh(1.0_f64), f64::INFINITY);
    /// ```
    #[must_use]
    fn atanh(self) -> Self;

    /// Computes the error function, `2 / sqrt(pi)` times the integral of `e^(-t^2)` from 0 to `x`.
    /// At most 1.5 ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(9.0_f64.erf(), 1.0);
    /// ```
    #[must_use]
    fn erf(self) -> Self;

    /// Computes `1 - erf x`, without cancellation on the right. At most 5 ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(0.0_f64.erfc(), 1.0);
    /// ```
    #[must_use]
    fn erfc(self) -> Self;

    /// Computes the distribution function of the standard normal distribution, `erfc(-x / sqrt(2)) / 2`.
    /// At most 6.5 ulp off in f32; in f64 as far off as `erfc` of the rounded argument.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(0.0_f64.normal_distribution(), 0.5);
    /// ```
    #[must_use]
    fn normal_distribution(self) -> Self;

    /// Computes the density of the standard normal distribution, `e^(-x^2 / 2) / sqrt(2 pi)`. At most
    /// 2.5 ulp off in f32; in f64 as far off as `exp` of the rounded argument.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!((0.0_f64.normal_density() * 1e9).round(), 398942280.0);
    /// ```
    #[must_use]
    fn normal_density(self) -> Self;

    /// Computes `x` times its normal distribution, the Gaussian error linear unit. At most 6.5 ulp off in f32; in
    /// f64 as far off as the distribution.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(20.0_f64.gelu(), 20.0);
    /// assert_eq!(f64::NEG_INFINITY.gelu(), 0.0);
    /// ```
    #[must_use]
    fn gelu(self) -> Self;

    /// Computes the inverse of `erf`, which is infinite at -1 and 1 and NaN outside. At most 4 ulp
    /// off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(1.0_f64.erfinv(), f64::INFINITY);
    /// ```
    #[must_use]
    fn erfinv(self) -> Self;

    /// Computes `1 / sqrt(x)`. At most 1.5 ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(4.0_f64.rsqrt(), 0.5);
    /// ```
    #[must_use]
    fn rsqrt(self) -> Self;

    /// Computes the cube root, of negative numbers, too. At most 1 ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::cbrt(-27.0_f64), -3.0);
    /// ```
    #[must_use]
    fn cbrt(self) -> Self;

    /// Computes the angle of the point `(other, self)`, in `[-pi, pi]`, with the conventions of C99
    /// for zeros and infinities. At most 2 ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::atan2(1.0_f64, 0.0), std::f64::consts::FRAC_PI_2);
    /// ```
    #[must_use]
    fn atan2(self, other: Self) -> Self;

    /// Computes `sqrt(x^2 + y^2)`, without intermediate overflow or underflow. At most 1.5 ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::hypot(3e300_f64, 4e300), 5e300);
    /// ```
    #[must_use]
    fn hypot(self, other: Self) -> Self;

    /// Computes `x^y`, with the conventions of C99: `x^0` and `1^y` are 1 even for NaN. At most 1.5
    /// ulp off.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::powf(32.0_f64, 0.2), 2.0);
    /// ```
    #[must_use]
    fn powf(self, exponent: Self) -> Self;

    /// Computes `ln(e^x + e^y)`, without overflow. The error is at most 2 ulp of the largest of
    /// `|x|`, `|y|` and the result: if the result is close to zero, the maximum and the rest
    /// cancel.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(0.0_f64.logaddexp(0.0), std::f64::consts::LN_2);
    /// ```
    #[must_use]
    fn logaddexp(self, other: Self) -> Self;

    /// Computes `x^n`. The exponents -1 to 4 are products (or a division), rounded after each step;
    /// every other power is at most 1.5 ulp off. A loop vectorises if the exponent is a constant or
    /// the compiler can move the choice out of the loop.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::powi(2.0_f64, 10), 1024.0);
    /// ```
    #[must_use]
    fn powi(self, exponent: i32) -> Self;

    /// Computes `ln |gamma(x)|`, which is infinite at 0 and the negative integers. The relative
    /// error is at most 1e-14 (in f64) away from the zeros below 0. Not vectorised.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(1.0_f64.lgamma(), 0.0);
    /// ```
    #[must_use]
    fn lgamma(self) -> Self;

    /// Computes the derivative of `ln gamma(x)`, which is NaN at the negative integers and infinite
    /// at 0. The relative error is at most 1e-14 (in f64) away from its zeros. Not vectorised.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!((1.0_f64.digamma() * 1e9).round(), -577215665.0);
    /// ```
    #[must_use]
    fn digamma(self) -> Self;

    /// Computes a special function. Not vectorised.
    ///
    /// ```
    /// # use bibun_array::math::{Float, Special};
    /// assert_eq!(f64::special(Special::Erfcx, &[0.0, 0.0]), 1.0);
    /// ```
    #[must_use]
    fn special(function: Special, arguments: &[Self]) -> Self;

    /// Computes the square root, correctly rounded. It is NaN below zero.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::sqrt(9.0_f64), 3.0);
    /// ```
    #[must_use]
    fn sqrt(self) -> Self;

    /// Computes the magnitude.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::abs(-2.0_f64), 2.0);
    /// ```
    #[must_use]
    fn abs(self) -> Self;

    /// Computes the sign: -1, 0 or 1; 0 at both zeros, NaN at NaN.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!((-2.0_f64).sign(), -1.0);
    /// ```
    #[must_use]
    fn sign(self) -> Self;

    /// Returns the magnitude of `self` with the sign of `sign`.
    #[must_use]
    fn copysign(self, sign: Self) -> Self;

    /// Returns whether the sign bit is set.
    #[must_use]
    fn is_sign_negative(self) -> Self::Truth;

    /// Computes the remainder of the quotient rounded towards zero, with the sign of `self`: C's
    /// `fmod`.
    #[must_use]
    fn fmod(self, other: Self) -> Self;

    /// Computes the remainder of `floor(self / other)`, with the sign of `other`: Python's `%`.
    #[must_use]
    #[inline(always)]
    fn remainder(self, other: Self) -> Self {
        composed::floor_remainder(self, other)
    }

    /// Clamps `self` between two numbers. The result is NaN if any of the three is NaN.
    #[must_use]
    #[inline(always)]
    fn clip(self, low: Self, high: Self) -> Self {
        self.maximum(low).minimum(high)
    }

    /// Computes `x^2`.
    #[must_use]
    #[inline(always)]
    fn square(self) -> Self {
        self * self
    }

    /// Computes `1 / x`.
    #[must_use]
    #[inline(always)]
    fn reciprocal(self) -> Self {
        Self::ONE / self
    }

    /// Computes `1 - x^2`, without cancellation near 1.
    #[must_use]
    #[inline(always)]
    fn one_minus_square(self) -> Self {
        composed::one_minus_square(self)
    }

    /// Computes `ln(sigmoid x)`, accurately on both tails.
    #[must_use]
    #[inline(always)]
    fn log_sigmoid(self) -> Self {
        -(-self).softplus()
    }

    /// Computes `sigmoid(x) sigmoid(-x)`, accurately on both tails: the density of the logistic
    /// distribution, and the derivative of the sigmoid.
    #[must_use]
    #[inline(always)]
    fn logistic_density(self) -> Self {
        composed::logistic_density(self)
    }

    /// Computes `x / sqrt(x^2 + y^2)`, without intermediate overflow. It is 0 at the origin.
    #[must_use]
    #[inline(always)]
    fn direction(self, other: Self) -> Self {
        composed::direction(self, other)
    }

    /// Computes `x / (x^2 + y^2)`, without intermediate overflow. It is 0 at the origin.
    #[must_use]
    #[inline(always)]
    fn inversion(self, other: Self) -> Self {
        composed::inversion(self, other)
    }

    /// Returns the greatest integer that is at most `self`.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::floor(-1.5_f64), -2.0);
    /// ```
    #[must_use]
    fn floor(self) -> Self;

    /// Returns the least integer that is at least `self`.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::ceil(-1.5_f64), -1.0);
    /// ```
    #[must_use]
    fn ceil(self) -> Self;

    /// Returns the nearest integer towards zero.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::trunc(-1.5_f64), -1.0);
    /// ```
    #[must_use]
    fn trunc(self) -> Self;

    /// Returns the nearest integer. Halves go to the even one, as in NumPy.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::round(2.5_f64), 2.0);
    /// ```
    #[must_use]
    fn round(self) -> Self;

    /// Returns the larger of two numbers, or NaN if either is NaN.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(1.0_f64.maximum(2.0), 2.0);
    /// ```
    #[must_use]
    fn maximum(self, other: Self) -> Self;

    /// Returns the smaller of two numbers, or NaN if either is NaN.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(1.0_f64.minimum(2.0), 1.0);
    /// ```
    #[must_use]
    fn minimum(self, other: Self) -> Self;

    /// Computes `self * factor + term`, rounded once.
    ///
    /// ```
    /// # use bibun_array::math::Float;
    /// assert_eq!(Float::mul_add(2.0_f64, 3.0, 1.0), 7.0);
    /// ```
    #[must_use]
    fn mul_add(self, factor: Self, term: Self) -> Self;
}

/// A number type of the machine: f32 or f64.
pub trait Machine: Float<Truth = bool> + PartialOrd + Display {
    /// Returns the same number as an f64.
    ///
    /// ```
    /// # use bibun_array::math::Machine;
    /// assert_eq!(0.5_f32.to_f64(), 0.5);
    /// ```
    #[must_use]
    fn to_f64(self) -> f64;

    /// Writes the sine of each `x` to the `y` at the same position, up to the shorter length. This is
    /// faster than [`sin`](Float::sin), which has a branch for numbers beyond 2^32 in f64, and computes
    /// in two ways in f32.
    ///
    /// ```
    /// # use bibun_array::math::{Float, Machine};
    /// let mut y = [9.0];
    /// Machine::sin_slice(&[0.0_f64], &mut y);
    /// assert_eq!(y, [Float::sin(0.0)]);
    /// ```
    fn sin_slice(x: &[Self], y: &mut [Self]);

    /// Writes the cosine of each `x` to the `y` at the same position, up to the shorter length. This is
    /// faster than [`cos`](Float::cos), which has a branch for numbers beyond 2^32 in f64, and computes
    /// in two ways in f32.
    ///
    /// ```
    /// # use bibun_array::math::{Float, Machine};
    /// let mut y = [9.0];
    /// Machine::cos_slice(&[0.0_f64], &mut y);
    /// assert_eq!(y, [Float::cos(0.0)]);
    /// ```
    fn cos_slice(x: &[Self], y: &mut [Self]);

    /// Writes the tangent of each `x` to the `y` at the same position, up to the shorter length. This
    /// is faster than [`tan`](Float::tan), which has a branch for numbers beyond 2^32 in f64, and computes
    /// in two ways in f32.
    ///
    /// ```
    /// # use bibun_array::math::{Float, Machine};
    /// let mut y = [9.0];
    /// Machine::tan_slice(&[0.0_f64], &mut y);
    /// assert_eq!(y, [Float::tan(0.0)]);
    /// ```
    fn tan_slice(x: &[Self], y: &mut [Self]);
}

macro_rules! float {
    ($float:ident,
     unary { $($family1:ident: $($unary:ident),+;)+ }
     binary { $($family2:ident: $($binary:ident),+;)+ }
     slices { $($slice:ident),+ }
    ) => {
        impl Float for $float {
            type Truth = bool;

            const ZERO: Self = 0.0;
            const HALF: Self = 0.5;
            const ONE: Self = 1.0;
            const TWO: Self = 2.0;
            const NAN: Self = Self::NAN;
            const INFINITY: Self = Self::INFINITY;
            const NEG_INFINITY: Self = Self::NEG_INFINITY;

            #[inline(always)]
            fn largest() -> Self {
                Self::MAX
            }

            #[inline(always)]
            fn from_f64(x: f64) -> Self {
                x as Self
            }

            #[inline(always)]
            fn select(mask: bool, a: Self, b: Self) -> Self {
                if mask { a } else { b }
            }

            #[inline(always)]
            fn equal(self, other: Self) -> bool {
                self == other
            }

            #[inline(always)]
            fn less(self, other: Self) -> bool {
                self < other
            }

            #[inline(always)]
            fn less_equal(self, other: Self) -> bool {
                self <= other
            }

            #[inline(always)]
            fn is_nan(self) -> bool {
                self.is_nan()
            }

            $($(
                #[inline(always)]
                fn $unary(self) -> Self {
                    $family1::$unary(self)
                }
            )+)+

            $($(
                #[inline(always)]
                fn $binary(self, other: Self) -> Self {
                    $family2::$binary(self, other)
                }
            )+)+

            #[inline(always)]
            fn powi(self, exponent: i32) -> Self {
                power::powi(self, exponent)
            }

            fn lgamma(self) -> Self {
                gamma::lgamma(self as f64) as Self
            }

            fn digamma(self) -> Self {
                gamma::digamma(self as f64) as Self
            }

            #[inline(always)]
            fn special(function: Special, arguments: &[Self]) -> Self {
                let mut wide = [0.0; 3];
                (wide.iter_mut().zip(arguments)).for_each(|(wide, &x)| *wide = x as f64);
                function.value(wide) as Self
            }

            #[inline(always)]
            fn sqrt(self) -> Self {
                self.sqrt()
            }

            #[inline(always)]
            fn abs(self) -> Self {
                self.abs()
            }

            #[inline(always)]
            fn sign(self) -> Self {
                let of_zero_or_nan = Self::select(self == 0.0, 0.0, self);
                Self::select(self > 0.0, 1.0, Self::select(self < 0.0, -1.0, of_zero_or_nan))
            }

            #[inline(always)]
            fn copysign(self, sign: Self) -> Self {
                self.copysign(sign)
            }

            #[inline(always)]
            fn is_sign_negative(self) -> bool {
                self.is_sign_negative()
            }

            #[inline(always)]
            fn fmod(self, other: Self) -> Self {
                self % other
            }

            #[inline(always)]
            fn floor(self) -> Self {
                self.floor()
            }

            #[inline(always)]
            fn ceil(self) -> Self {
                self.ceil()
            }

            #[inline(always)]
            fn trunc(self) -> Self {
                self.trunc()
            }

            #[inline(always)]
            fn round(self) -> Self {
                self.round_ties_even()
            }

            #[inline(always)]
            fn maximum(self, other: Self) -> Self {
                // A constant is not NaN, and then this is one instruction.
                Self::select((self < other) | other.is_nan(), other, self)
            }

            #[inline(always)]
            fn minimum(self, other: Self) -> Self {
                Self::select((self > other) | other.is_nan(), other, self)
            }

            #[inline(always)]
            fn mul_add(self, factor: Self, term: Self) -> Self {
                self.mul_add(factor, term)
            }
        }

        impl Machine for $float {
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }

            $(
                #[inline(always)]
                fn $slice(x: &[Self], y: &mut [Self]) {
                    trigonometric::$slice(x, y);
                }
            )+
        }
    };
}

macro_rules! floats {
    ($($float:ident),+) => {
        $(float! {
            $float,
            unary {
                exponential: exp, exp_of_negative, exp2, expm1, sigmoid;
                logarithm: ln, log2, log10, log1p, softplus;
                trigonometric: sin, cos, tan, asin, acos, atan;
                hyperbolic: sinh, cosh, tanh, asinh, acosh, atanh;
                error_function: erf, erfc, erfinv, normal_distribution, normal_density, gelu;
                power: rsqrt, cbrt;
            }
            binary {
                trigonometric: atan2;
                power: hypot, powf;
                logarithm: logaddexp;
            }
            slices { sin_slice, cos_slice, tan_slice }
        })+
    };
}

floats!(f32, f64);
