//! Powers and roots.

use bibun_array::{Array, Number, ops};

use crate::call::composite;
use crate::function::{Fixed, Mismatch, Spec};
use crate::functions::complex::Power as ComplexPower;
use crate::functions::families::{
    Discrete, DiscreteRule, ElementFunction, call, element_function, function_type, method, unary,
};
use crate::functions::{Operand, constant_beside, to_differentiable, to_number};
use crate::variable::Variable;

unary! {
    samples in unary_samples;

    /// Computes the square root of each element; NaN for negative numbers.
    ///
    /// Gradient: `gy / 2y`, infinite at zero.
    ///
    /// ```
    /// use bibun::{functions::sqrt, Variable};
    /// assert_eq!(sqrt(Variable::new([4.0, 9.0])).to_vec::<f64>(), [2.0, 3.0]);
    /// ```
    sqrt(x) via to_differentiable -> Sqrt {
        operation: Sqrt,
        derivative(y; gy): gy * 0.5 / y,
        sample: (0.3..3.0, f64::sqrt),
    }

    /// Computes `1 / √x` of each element; infinite at zero, NaN for negative numbers.
    ///
    /// Gradient: `-gy y³ / 2`.
    ///
    /// ```
    /// use bibun::{functions::rsqrt, Variable};
    /// assert_eq!(rsqrt(Variable::new([4.0, 0.25])).to_vec::<f64>(), [0.5, 2.0]);
    /// ```
    rsqrt(x) via to_differentiable -> Rsqrt {
        operation: Rsqrt,
        derivative(y; gy): gy * -0.5 * y * y * y,
        sample: (0.3..3.0, |x| 1.0 / x.sqrt()),
    }

    /// Computes the cube root of each element, also of negative numbers.
    ///
    /// Gradient: `gy / 3y²`, infinite at zero.
    ///
    /// ```
    /// use bibun::{functions::cbrt, Variable};
    /// assert_eq!(cbrt(Variable::new([8.0, -27.0])).to_vec::<f64>(), [2.0, -3.0]);
    /// ```
    cbrt(x) -> Cbrt {
        operation: Cbrt,
        derivative(y; gy): gy * y.reciprocal().square() / 3.0,
        sample: (-3.0..-0.3, f64::cbrt),
    }

    /// Computes the reciprocal `1 / x` of each element.
    ///
    /// Gradient: `-gy y²`.
    ///
    /// ```
    /// use bibun::{functions::reciprocal, Variable};
    /// assert_eq!(reciprocal(Variable::new([4.0, -2.0])).to_vec::<f64>(), [0.25, -0.5]);
    /// ```
    reciprocal(x) via to_differentiable -> Reciprocal {
        operation: Reciprocal,
        derivative(y; gy): -(gy * y * y),
        sample: (-3.0..-0.5, |x| 1.0 / x),
    }

    /// Computes the square `x²` of each element. Integers wrap around.
    ///
    /// Gradient: `2 gy x`.
    ///
    /// ```
    /// use bibun::{functions::square, Variable};
    /// assert_eq!(square(Variable::new([3.0, -4.0])).to_vec::<f64>(), [9.0, 16.0]);
    /// ```
    square(x) via to_number -> Square {
        operation: Square,
        derivative(x; gy): gy * x * 2.0,
        sample: (-2.0..2.0, |x| x * x),
    }
}

/// Computes the power `xᵉ`, for an exponent that is a number or an array. `x⁰` and `1ᵉ` are 1, even
/// for NaN.
///
/// A number as the exponent is a constant. The exponents -1 and 1 to 4 are computed by quotients and
/// products, so that derivatives of every order are right at zero and for negative x.
///
/// Shapes: x, exponent that broadcast → their common shape.
/// Types: all, promoted; integers to the power of integers wrap around, bool counts as i64. Complex
/// powers are `exp(e log x)`, from above at the negative real axis; at zero they are 1 if `e = 0`, 0 if
/// `Re e > 0`, and infinite or NaN otherwise.
/// Gradient: `gy e xᵉ⁻¹` to x, zero where `e = 0`; `gy y log x` to the exponent, zero where `x = 0`
/// and `e ≥ 0` (of complex numbers `Re e ≥ 0`), NaN for negative x. Of complex numbers it has conjugates
/// of the derivatives. (PyTorch gives NaN for complex 0⁰ with arrays, and for the gradient of x¹ at 0.)
///
/// # Panics
/// Panics if the shapes do not broadcast, or integers have a negative integer exponent.
///
/// ```
/// use bibun::{functions::pow, Variable};
/// let x = Variable::new([-2.0, 3.0]);
/// assert_eq!(pow(&x, 3).to_vec::<f64>(), [-8.0, 27.0]);
/// assert_eq!(pow(2, &x).to_vec::<f64>(), [0.25, 8.0]);
/// assert_eq!(x.pow(Variable::new([3.0, 2.0])).to_vec::<f64>(), [-8.0, 9.0]);
/// ```
#[track_caller]
pub fn pow(x: impl Into<Operand>, exponent: impl Into<Operand>) -> Variable {
    match (x.into(), exponent.into()) {
        (Operand::Variable(x), Operand::Number(exponent))
            if !exponent.dtype().is_complex()
                && (exponent.dtype().is_float() || x.dtype().is_differentiable()) =>
        {
            let x = to_differentiable(x);
            // The exponent, rounded to the dtype of x.
            let exponent = exponent.cast(x.dtype().to_real().accumulator()).to_f64();
            match EXPONENTS.iter().find(|(known, _)| *known == exponent) {
                Some((_, function)) => call(function(), &[], [x]),
                None if x.dtype().is_complex() => complex_power(x, exponent),
                None => call(ConstantPower::function(), &[exponent], [x]),
            }
        }
        (x, exponent) => {
            let (inputs, _whole) = Operand::pair("pow", x, exponent);
            let inputs = inputs.map(to_number);
            if inputs[0].dtype().is_complex() {
                let [x, exponent] = inputs;
                return ComplexPower::of(x, exponent);
            }
            match inputs[0].dtype().is_float() {
                true => call(Pow::function(), &[], inputs),
                false => Discrete::of(IntegerPower, inputs),
            }
        }
    }
}
method!(pow, exponent: impl Into<Operand>);

/// Returns the power of complex numbers with a constant exponent: products, so that derivatives of
/// every order are right at zero, if it is a small positive integer.
#[track_caller]
fn complex_power(x: Variable, exponent: f64) -> Variable {
    const MOST: f64 = 64.0;
    let _whole = composite("pow");
    if exponent.fract() != 0.0 || !(1.0..=MOST).contains(&exponent) {
        let exponent = Array::full(x.shape(), exponent).cast(x.dtype());
        let exponent = constant_beside(&[&x], exponent);
        return ComplexPower::of(x, exponent);
    }
    let (mut rest, mut base, mut product) = (exponent as u32, x, None);
    loop {
        if rest % 2 == 1 {
            product = Some(match product {
                None => base.clone(),
                Some(product) => base.clone() * product,
            });
        }
        rest /= 2;
        if rest == 0 {
            return product.expect("the exponent is not zero");
        }
        base = square(base);
    }
}

/// The power with a constant exponent.
struct ConstantPower;

element_function! {
    ConstantPower = "pow", [x] [e];
    value: x.pow(e);
    derivative(x; gy): gy * (x.pow(e - 1.0) * e);
}

/// A constructor of a function.
type Made = fn() -> &'static ElementFunction;

/// The constant exponents whose powers are products or quotients.
macro_rules! known_exponents {
    ($($exponent:literal -> $Power:ident $x:tt { $($rules:tt)+ })+) => {
        $(
            struct $Power;
            element_function! { $Power = "pow", $x []; $($rules)+ }
        )+

        const EXPONENTS: &[(f64, Made)] = &[$(($exponent, $Power::function)),+];
    };
}

known_exponents! {
    -1.0 -> Inverse[x] { value: 1.0 / x; derivative(y; gy): -(gy * y * y); }
    0.0 -> Zeroth[_x] { value: Number::from(1.0); derivative(; gy): Number::from(0.0); }
    1.0 -> First[x] { value: x; }
    2.0 -> Second[x] { value: x * x; derivative(x; gy): gy * x * 2.0; }
    3.0 -> Third[x] { value: x * x * x; derivative(x; gy): gy * (x * x * 3.0); }
    4.0 -> Fourth[x] { value: (x * x) * (x * x); derivative(x; gy): gy * (x * x * x * 4.0); }
}

/// A power of integers by integers, none of which is negative.
#[derive(Clone, Copy, Debug)]
struct IntegerPower;

impl DiscreteRule for IntegerPower {
    type Inputs = Fixed<2>;

    fn name(&self) -> &'static str {
        "pow"
    }

    fn shape(&self, [a, b]: [&Spec; 2]) -> Result<Spec, Mismatch> {
        match a == b {
            true => Ok(a.clone()),
            false => Err(Mismatch::new(&[("a", a), ("b", b)], "both must be equal")),
        }
    }

    fn forward(&self, [a, b]: [Array; 2]) -> Array {
        ops::pow(a, b)
    }
}

function_type!(pow, 2, Pow);

element_function! {
    Pow = "pow", [a, b] [];
    operation: Power;
    derivative(a, b; gy): {
        // 0 · 0⁻¹ is zero here, and so is its product with gy. The same holds where a⁻¹ overflows,
        // and where a is NaN, whose power to 0 is 1 nevertheless.
        let is_finite = a.reciprocal().abs().less(f64::INFINITY);
        let undefined = is_finite.logical_not().logical_and(b.equal(0.0));
        gy * b * undefined.where_(1.0, a).pow(b - 1.0)
    };
    derivative(a, b, y; gy): {
        // 0ᵉ log 0 and ∞⁻ᵉ log ∞ are zero here too.
        let undefined = (a.equal(0.0).logical_and(b.greater_equal(0.0)))
            .logical_or(a.equal(f64::INFINITY).logical_and(b.less(0.0)));
        gy * y * undefined.where_(1.0, a).log()
    };
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    let mut samples = unary_samples();
    for exponent in [0, 1, 2, 3, 5, -1, -3] {
        let range = if exponent < 0 { -2.0..-0.5 } else { -2.0..2.0 };
        samples.push(Sample::unary(
            "pow",
            range,
            move |x| pow(x, exponent),
            move |x| x.powi(exponent),
        ));
    }
    for exponent in [0.5, 1.7, -0.3] {
        samples.push(Sample::unary(
            "pow",
            0.4..2.0,
            move |x| pow(x, exponent),
            move |x| x.powf(exponent),
        ));
    }
    samples.push(Sample::unary(
        "pow",
        -2.0..2.0,
        |x| pow(1.5, x),
        |x| 1.5f64.powf(x),
    ));
    samples.push(Sample::binary(
        "pow",
        0.4..2.0,
        -2.0..2.0,
        |a, b| pow(a, b),
        f64::powf,
    ));
    samples
}

#[cfg(test)]
mod tests {
    use bibun_array::DType;

    use super::*;
    use crate::functions::probe::{assert_finite, derivatives, gradient, partial_derivatives};

    #[test]
    fn derivatives_of_constant_powers_at_zero_and_below() {
        assert_eq!(derivatives(|x| pow(x, 0), 0.0, 2), [1.0, 0.0, 0.0]);
        assert_eq!(derivatives(|x| pow(x, 1), 0.0, 3), [0.0, 1.0, 0.0, 0.0]);
        assert_eq!(
            derivatives(|x| pow(x, 2), 0.0, 4),
            [0.0, 0.0, 2.0, 0.0, 0.0]
        );
        assert_eq!(derivatives(|x| pow(x, 2.0), 0.0, 3), [0.0, 0.0, 2.0, 0.0]);
        assert_eq!(
            derivatives(|x| pow(x, 3), 0.0, 4),
            [0.0, 0.0, 0.0, 6.0, 0.0]
        );
        assert_eq!(derivatives(|x| square(x), 0.0, 3), [0.0, 0.0, 2.0, 0.0]);
        assert_eq!(
            derivatives(|x| pow(x, 3), -2.0, 4),
            [-8.0, 12.0, -12.0, 6.0, 0.0]
        );
        assert_eq!(derivatives(|x| pow(x, -1), -2.0, 2), [-0.5, -0.25, -0.25]);
        let infinity = f64::INFINITY;
        assert_eq!(derivatives(|x| pow(x, 1.5), 0.0, 2), [0.0, 0.0, infinity]);
        assert_eq!(gradient(|x| sqrt(x), 0.0), infinity);
        assert_eq!(gradient(|x| pow(x, 0), f64::NAN), 0.0);
    }

    #[test]
    fn variable_exponents_at_zero_and_left_of_it() {
        let power = |a: &Variable, b: &Variable| pow(a, b);
        assert_eq!(partial_derivatives(power, 0.0, 2.0), [0.0, 0.0]);
        assert_eq!(partial_derivatives(power, 0.0, 1.0), [1.0, 0.0]);
        assert_eq!(partial_derivatives(power, 0.0, 0.0), [0.0, 0.0]);
        assert_eq!(partial_derivatives(power, 3.0, 0.0), [0.0, 3.0f64.ln()]);
        let [base, exponent] = partial_derivatives(power, -2.0, 3.0);
        assert_eq!(base, 12.0);
        assert!(exponent.is_nan());
        let exponents = Array::from([2.0, 3.0, 0.0, 1.0]);
        assert_finite(
            "pow of a negative base",
            |x| pow(x, exponents.cast(x.dtype())),
            &[-2.0, -0.5, -1.0, -3.0],
        );
        assert_finite(
            "pow of zero",
            |x| pow(x, exponents.cast(x.dtype())),
            &[0.0; 4],
        );
        // d²(xᵉ)/dx² = 2 where e = 2, whatever x is.
        let two = Variable::constant([2.0]);
        assert_eq!(derivatives(|x| pow(x, &two), 0.0, 3), [0.0, 0.0, 2.0, 0.0]);
        assert_eq!(
            derivatives(|x| pow(x, &two), -3.0, 3),
            [9.0, -6.0, 2.0, 0.0]
        );
    }

    #[test]
    fn dtypes() {
        let x = Variable::new([2, 3]);
        assert_eq!(pow(&x, 2).to_vec::<i64>(), [4, 9]);
        assert_eq!(pow(&x, 0.5).dtype(), DType::F64);
        assert_eq!(pow(2, &x).to_vec::<i64>(), [4, 8]);
        let x = Variable::new([2.0f32]);
        assert_eq!(pow(&x, 0.5).dtype(), DType::F32);
        assert_eq!(pow(0.5, &x).dtype(), DType::F32);
        assert_eq!(square(Variable::new([true])).to_vec::<i64>(), [1]);
    }
}
