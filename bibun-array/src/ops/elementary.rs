//! Powers, exponentials, logarithms, trigonometric, hyperbolic and special functions of floats, by
//! [`math`](crate::math), which also states how exact each of them is.

use super::arithmetic::{floats, numbers};
use super::{binary, cast, unary};
use crate::math::{Float, integer};
use crate::{Array, ArrayLike, DType, Definition, ElementFormula, Mask, Number, elementwise};

unary! {
    /// Computes the square root of each element, which is NaN below zero.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([4, 9]).sqrt().to_vec::<f64>(), [2.0, 3.0]);
    /// ```
    sqrt(x) -> SQRT {
        float: x.sqrt(),
        @via floats
    }

    /// Computes `1 / √x` of each element, which is infinite at zero and NaN below.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([4.0, 0.25]).rsqrt().to_vec::<f64>(), [0.5, 2.0]);
    /// ```
    rsqrt(x) -> RSQRT {
        float: x.rsqrt(),
        @via floats
    }

    /// Computes the cube root of each element, of negative numbers, too.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([8.0, -27.0]).cbrt().to_vec::<f64>(), [2.0, -3.0]);
    /// ```
    cbrt(x) -> CBRT {
        float: x.cbrt(),
        @via floats
    }

    /// Computes `1 / x` of each element, as a float for integers, too (for which NumPy divides in
    /// integers).
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([4, -2]).reciprocal().to_vec::<f64>(), [0.25, -0.5]);
    /// ```
    reciprocal(x) -> RECIPROCAL {
        float: 1.0 / x,
        @via floats
    }

    /// Computes `e^x` of each element.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([0.0, -1000.0]).exp().to_vec::<f64>(), [1.0, 0.0]);
    /// ```
    exp(x) -> EXP {
        float: x.exp(),
        @via floats
    }

    /// Computes `2^x` of each element.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([3.0, -1.0]).exp2().to_vec::<f64>(), [8.0, 0.5]);
    /// ```
    exp2(x) -> EXP2 {
        float: x.exp2(),
        @via floats
    }

    /// Computes `e^x - 1` of each element, without cancellation near zero.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([0.0, 1e-20]).expm1().to_vec::<f64>(), [0.0, 1e-20]);
    /// ```
    expm1(x) -> EXPM1 {
        float: x.expm1(),
        @via floats
    }

    /// Computes the natural logarithm of each element, which is `-∞` at zero and NaN below.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1.0, 0.0]).log().to_vec::<f64>(), [0.0, f64::NEG_INFINITY]);
    /// ```
    log(x) -> LOG {
        float: x.log(),
        @via floats
    }

    /// Computes the logarithm to base 2 of each element, which is `-∞` at zero and NaN below.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([8.0, 0.5]).log2().to_vec::<f64>(), [3.0, -1.0]);
    /// ```
    log2(x) -> LOG2 {
        float: x.log2(),
        @via floats
    }

    /// Computes the logarithm to base 10 of each element, which is `-∞` at zero and NaN below.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([100, 1000]).log10().to_vec::<f64>(), [2.0, 3.0]);
    /// ```
    log10(x) -> LOG10 {
        float: x.log10(),
        @via floats
    }

    /// Computes `log(1 + x)` of each element, without cancellation near zero. It is `-∞` at -1 and
    /// NaN below.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([0.0, 1e-20]).log1p().to_vec::<f64>(), [0.0, 1e-20]);
    /// ```
    log1p(x) -> LOG1P {
        float: x.log1p(),
        @via floats
    }

    /// Computes the sine of each element, an angle in radians. It is NaN at infinity.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let y = Array::from([0.0, std::f64::consts::FRAC_PI_2]).sin();
    /// assert_eq!(y.to_vec::<f64>(), [0.0, 1.0]);
    /// ```
    sin(x) -> SIN {
        angle: x.sin(),
        @via floats
    }

    /// Computes the cosine of each element, an angle in radians. It is NaN at infinity.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([0.0, std::f64::consts::PI]).cos().to_vec::<f64>(), [1.0, -1.0]);
    /// ```
    cos(x) -> COS {
        angle: x.cos(),
        @via floats
    }

    /// Computes the tangent of each element, an angle in radians. It is NaN at infinity.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([0.0, 1e-20]).tan().to_vec::<f64>(), [0.0, 1e-20]);
    /// ```
    tan(x) -> TAN {
        angle: x.tan(),
        @via floats
    }

    /// Computes the inverse sine of each element, in `[-π/2, π/2]`. It is NaN outside `[-1, 1]`.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let y = Array::from([0.0, 1.0]).asin();
    /// assert_eq!(y.to_vec::<f64>(), [0.0, std::f64::consts::FRAC_PI_2]);
    /// ```
    asin(x) -> ASIN {
        float: x.asin(),
        @via floats
    }

    /// Computes the inverse cosine of each element, in `[0, π]`. It is NaN outside `[-1, 1]`.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1.0, -1.0]).acos().to_vec::<f64>(), [0.0, std::f64::consts::PI]);
    /// ```
    acos(x) -> ACOS {
        float: x.acos(),
        @via floats
    }

    /// Computes the inverse tangent of each element, in `[-π/2, π/2]`.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let y = Array::from([0.0, 1.0]).atan();
    /// assert_eq!(y.to_vec::<f64>(), [0.0, std::f64::consts::FRAC_PI_4]);
    /// ```
    atan(x) -> ATAN {
        float: x.atan(),
        @via floats
    }

    /// Computes the hyperbolic sine of each element.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([0.0, 1e-20]).sinh().to_vec::<f64>(), [0.0, 1e-20]);
    /// ```
    sinh(x) -> SINH {
        float: x.sinh(),
        @via floats
    }

    /// Computes the hyperbolic cosine of each element.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([0.0, 1e3]).cosh().to_vec::<f64>(), [1.0, f64::INFINITY]);
    /// ```
    cosh(x) -> COSH {
        float: x.cosh(),
        @via floats
    }

    /// Computes the hyperbolic tangent of each element.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([0.0, 50.0]).tanh().to_vec::<f64>(), [0.0, 1.0]);
    /// ```
    tanh(x) -> TANH {
        float: x.tanh(),
        @via floats
    }

    /// Computes the inverse hyperbolic sine of each element.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([0.0, 1e-20]).asinh().to_vec::<f64>(), [0.0, 1e-20]);
    /// ```
    asinh(x) -> ASINH {
        float: x.asinh(),
        @via floats
    }

    /// Computes the inverse hyperbolic cosine of each element, which is NaN below 1.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1.0, f64::INFINITY]).acosh().to_vec::<f64>(), [0.0, f64::INFINITY]);
    /// ```
    acosh(x) -> ACOSH {
        float: x.acosh(),
        @via floats
    }

    /// Computes the inverse hyperbolic tangent of each element, which is infinite at -1 and 1 and
    /// NaN outside.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([0.0, 1.0]).atanh().to_vec::<f64>(), [0.0, f64::INFINITY]);
    /// ```
    atanh(x) -> ATANH {
        float: x.atanh(),
        @via floats
    }

    /// Computes the error function `2/√π ∫₀ˣ e^(-t²) dt` of each element.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([0.0, 9.0]).erf().to_vec::<f64>(), [0.0, 1.0]);
    /// ```
    erf(x) -> ERF {
        float: x.erf(),
        @via floats
    }

    /// Computes `1 - erf(x)` of each element, without cancellation.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([0.0, -9.0]).erfc().to_vec::<f64>(), [1.0, 2.0]);
    /// ```
    erfc(x) -> ERFC {
        float: x.erfc(),
        @via floats
    }

    /// Computes the inverse of `erf` of each element, which is infinite at -1 and 1 and NaN
    /// outside.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([0.0, 1.0]).erfinv().to_vec::<f64>(), [0.0, f64::INFINITY]);
    /// ```
    erfinv(x) -> ERFINV {
        float: x.erfinv(),
        @via floats
    }

    /// Computes the logistic function `1 / (1 + e^-x)` of each element, without overflow on either
    /// side.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([0.0, 100.0]).sigmoid().to_vec::<f64>(), [0.5, 1.0]);
    /// ```
    sigmoid(x) -> SIGMOID {
        float: x.sigmoid(),
        @via floats
    }

    /// Computes `log(1 + e^x)` of each element, without overflow or cancellation.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let y = Array::from([0.0, 1000.0]).softplus();
    /// assert_eq!(y.to_vec::<f64>(), [std::f64::consts::LN_2, 1000.0]);
    /// ```
    softplus(x) -> SOFTPLUS {
        float: x.softplus(),
        @via floats
    }

    /// Computes `log |Γ(x)|` of each element, which is infinite at 0 and the negative integers.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1.0, 0.0]).lgamma().to_vec::<f64>(), [0.0, f64::INFINITY]);
    /// ```
    lgamma(x) -> LGAMMA {
        float: x.lgamma(),
        @via floats
    }

    /// Computes the derivative of `log Γ(x)` of each element, which is NaN at the negative
    /// integers.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let y = Array::from(1.0).digamma().item::<f64>();
    /// assert!((y + 0.5772156649015329).abs() < 1e-15);
    /// ```
    digamma(x) -> DIGAMMA {
        float: x.digamma(),
        @via floats
    }
}

binary! {
    /// Computes the angle of the point `(b, a)`, in `[-π, π]`, with C99's conventions for the signs
    /// of zeros and infinities.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let y = Array::from([0.0, 1.0]).atan2(Array::from([-1.0, 1.0]));
    /// assert_eq!(y.to_vec::<f64>(), [std::f64::consts::PI, std::f64::consts::FRAC_PI_4]);
    /// ```
    atan2(a, b) -> ATAN2 {
        float: a.atan2(b),
        @via floats
    }

    /// Computes `√(a² + b²)`, without intermediate overflow.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let y = Array::from([3e300, 5.0]).hypot(Array::from([4e300, 12.0]));
    /// assert_eq!(y.to_vec::<f64>(), [5e300, 13.0]);
    /// ```
    hypot(a, b) -> HYPOT {
        float: a.hypot(b),
        @via floats
    }

    /// Computes `log(e^a + e^b)`, without intermediate overflow.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let y = Array::from([0.0, 1000.0]).logaddexp(0.0);
    /// assert_eq!(y.to_vec::<f64>(), [std::f64::consts::LN_2, 1000.0]);
    /// ```
    logaddexp(a, b) -> LOGADDEXP {
        float: a.logaddexp(b),
        @via floats
    }
}

/// Computes [`Array::pow`] of arrays passed by value, which may give their memory to the result.
///
/// ```
/// use bibun_array::{ops, Array};
/// let y = ops::pow(Array::from([2.0, 3.0]), Array::from(2));
/// assert_eq!(y.to_vec::<f64>(), [4.0, 9.0]);
/// ```
#[track_caller]
pub fn pow(base: Array, exponent: Array) -> Array {
    let dtype = numbers(base.dtype().promote(exponent.dtype()));
    if let (Some(number), 0, true) = (
        exponent.inline(),
        exponent.rank(),
        dtype.is_differentiable(),
    ) && !exponent.dtype().is_complex()
    {
        // The exponent is rounded to the type in which the power is computed.
        let exponent = number.cast(dtype.to_real().accumulator()).to_f64();
        return power_of_floats(cast(base, dtype), exponent);
    }
    if dtype.is_integer() && exponent.dtype() != DType::Bool {
        let is_negative = exponent.less(0).cast(DType::I64);
        let what = "an integer to a negative integer power; make one of them a float";
        is_negative.expect_between("pow", 0..1, |_| what.to_owned());
    }
    power(base, exponent)
}

struct Power;
impl ElementFormula<1, 1> for Power {
    const NAME: &'static str = "pow";
    #[inline(always)]
    fn value<T: Float>([x]: [Number<T>; 1], [exponent]: [Number<T>; 1]) -> Number<T> {
        x.pow(exponent)
    }
}

struct IntegerPower<const EXPONENT: i32>;
impl<const EXPONENT: i32> ElementFormula<1> for IntegerPower<EXPONENT> {
    const NAME: &'static str = "pow";
    #[inline(always)]
    fn value<T: Float>([x]: [Number<T>; 1], []: [Number<T>; 0]) -> Number<T> {
        Number(x.0.powi(EXPONENT))
    }
}

/// A power with one exponent for all elements. The exponents -1 and 1 to 4 are computed by
/// divisions and products.
#[track_caller]
fn power_of_floats(base: Array, exponent: f64) -> Array {
    match exponent {
        -1.0 => elementwise(IntegerPower::<-1>, [base], []),
        1.0 => elementwise(IntegerPower::<1>, [base], []),
        2.0 => elementwise(IntegerPower::<2>, [base], []),
        3.0 => elementwise(IntegerPower::<3>, [base], []),
        4.0 => elementwise(IntegerPower::<4>, [base], []),
        _ => elementwise(Power, [base], [exponent]),
    }
}

binary! {
    @function
    power = pow(a, b) -> POWER {
        integer_loop: integer::power(a, b),
        float: a.pow(b),
        @via numbers
    }
}

impl Array {
    /// Computes `x^exponent` for an array or a number. `x^0` and `1^exponent` are 1 even for NaN.
    ///
    /// Integers to the power of integers stay integers and wrap around. The exponents -1 and 1 to 4
    /// of floats, given as numbers, are computed by divisions and products.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast, or integers have a negative integer exponent.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([2.0, 3.0]).pow(2).to_vec::<f64>(), [4.0, 9.0]);
    /// assert_eq!(Array::from([2, 3]).pow(Array::from([10, 0])).to_vec::<i64>(), [1024, 1]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn pow(&self, exponent: impl Into<ArrayLike>) -> Self {
        let dtype = self.dtype();
        match exponent.into() {
            // Rounded to the type in which the power is computed, not to the one in which it is
            // stored.
            ArrayLike::Number(exponent)
                if dtype.is_differentiable() && !exponent.dtype().is_complex() =>
            {
                let exponent = exponent.cast(dtype.to_real().accumulator()).to_f64();
                power_of_floats(self.clone(), exponent)
            }
            exponent => pow(self.clone(), exponent.beside(dtype)),
        }
    }
}

pub(crate) static MULTIPLY_ADD: Definition = super::definition! { multiply_add[3] [a, b, c]:
    float: Number(a.0.mul_add(b.0, c.0)),
};

pub(crate) static COPY_SIGN: Definition = super::definition! { copysign[2] [a, b]:
    float: a.copysign(b),
};

pub(crate) static IS_SIGN_NEGATIVE: Definition = super::definition! { is_sign_negative[1] [x]:
    float_to_bool: Mask(x.0.is_sign_negative()),
};

/// The normal distribution in formulas.
pub(crate) static NORMAL_DISTRIBUTION: Definition =
    super::definition! { normal_distribution[1] [x]: float: x.normal_distribution(), };

/// Its density.
pub(crate) static NORMAL_DENSITY: Definition =
    super::definition! { normal_density[1] [x]: float: x.normal_density(), };

/// The Gaussian error linear unit in formulas.
pub(crate) static GELU: Definition = super::definition! { gelu[1] [x]: float: x.gelu(), };

/// The exponential of numbers that are not positive, in formulas.
pub(crate) static EXP_OF_NEGATIVE: Definition =
    super::definition! { exp_of_negative[1] [x]: float: x.exp_of_negative(), };
