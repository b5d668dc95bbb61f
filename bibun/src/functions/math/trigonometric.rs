//! Trigonometric functions and their inverses; angles are in radians.

use bibun_array::Number;
use bibun_array::math::Float;

use crate::call::composite;
use crate::functions::families::{binary, call, element_function, function_type, method, unary};
use crate::functions::{complex, imag, real, tanh, to_differentiable, to_float};
use crate::variable::Variable;

const PI: f64 = std::f64::consts::PI;

unary! {
    samples in unary_samples;

    /// Computes the sine of each element; NaN at infinity.
    ///
    /// Gradient: `gy cos x`.
    ///
    /// ```
    /// use bibun::{functions::sin, Variable};
    /// assert_eq!(sin(Variable::new([0.0, std::f64::consts::FRAC_PI_2])).to_vec::<f64>(), [0.0, 1.0]);
    /// ```
    sin(x) via to_differentiable -> Sin {
        operation: Sin,
        derivative(x; gy): gy * x.cos(),
        sample: (-3.0..3.0, f64::sin),
    }

    /// Computes the cosine of each element; NaN at infinity.
    ///
    /// Gradient: `-gy sin x`.
    ///
    /// ```
    /// use bibun::{functions::cos, Variable};
    /// assert_eq!(cos(Variable::new([0.0, std::f64::consts::PI])).to_vec::<f64>(), [1.0, -1.0]);
    /// ```
    cos(x) via to_differentiable -> Cos {
        operation: Cos,
        derivative(x; gy): -(gy * x.sin()),
        sample: (-3.0..3.0, f64::cos),
    }

    /// Computes the inverse sine of each element, in `[-π/2, π/2]`; NaN below -1 and above 1.
    ///
    /// Gradient: `gy / √(1 - x²)`, infinite at -1 and 1.
    ///
    /// ```
    /// use bibun::{functions::asin, Variable};
    /// assert_eq!(asin(Variable::new([1.0])).to_vec::<f64>(), [std::f64::consts::FRAC_PI_2]);
    /// ```
    asin(x) -> Asin {
        operation: Asin,
        derivative(x; gy): gy * x.one_minus_square().rsqrt(),
        sample: (-0.8..0.8, f64::asin),
    }

    /// Computes the inverse cosine of each element, in `[0, π]`; NaN below -1 and above 1.
    ///
    /// Gradient: `-gy / √(1 - x²)`, infinite at -1 and 1.
    ///
    /// ```
    /// use bibun::{functions::acos, Variable};
    /// assert_eq!(acos(Variable::new([1.0])).to_vec::<f64>(), [0.0]);
    /// ```
    acos(x) -> Acos {
        operation: Acos,
        derivative(x; gy): -(gy * x.one_minus_square().rsqrt()),
        sample: (-0.8..0.8, f64::acos),
    }

    /// Computes the inverse tangent of each element, in `[-π/2, π/2]`.
    ///
    /// Gradient: `gy / (1 + x²)`.
    ///
    /// ```
    /// use bibun::{functions::atan, Variable};
    /// assert_eq!(atan(Variable::new([1.0])).to_vec::<f64>(), [std::f64::consts::FRAC_PI_4]);
    /// ```
    atan(x) -> Atan {
        operation: Atan,
        derivative(x; gy): gy * x.hypot(1.0).reciprocal().square(),
        sample: (-3.0..3.0, f64::atan),
    }

    /// Computes `sin πx / πx` of each element: 1 at zero, and exactly 0 at other integers and at
    /// infinity.
    ///
    /// Gradient: `gy (cos πx - y) / x`, zero at zero; there it is computed as a power series, whose
    /// derivatives are right at every order.
    ///
    /// Source: `numpy.sinc` and `torch.sinc`, which are NaN at infinity.
    ///
    /// ```
    /// use bibun::{functions::sinc, Variable};
    /// let y = sinc(Variable::new([0.0, 0.5, 1.0]));
    /// assert_eq!(y.to_vec::<f64>(), [1.0, std::f64::consts::FRAC_2_PI, 0.0]);
    /// ```
    sinc(x) -> Sinc {
        value: {
            let is_zero = x.equal(0.0);
            is_zero.where_(1.0, sin_pi(x) / (is_zero.where_(1.0, x) * PI))
        },
        derivative(x; gy): gy * sinc_slope(x),
        sample: (-2.0..2.0, |x| (PI * x).sin() / (PI * x)),
    }
}

/// Computes the tangent of each element; NaN at infinity.
///
/// Shapes: x any → the same.
/// Types: floats and complex numbers; integers and bools give f64.
/// Gradient: `gy (1 + y²)`; of complex numbers that of `-i tanh(i x)`, which does not cancel where y comes close to i.
///
/// ```
/// use bibun::{functions::tan, Variable};
/// assert_eq!(tan(Variable::new([0.0])).to_vec::<f64>(), [0.0]);
/// ```
#[track_caller]
pub fn tan(x: impl Into<Variable>) -> Variable {
    let x = to_differentiable(x.into());
    if !x.dtype().is_complex() {
        return call(Tan::function(), &[], [x]);
    }
    let _whole = composite("tan");
    // By parts, because a product with i makes NaN of an infinite one.
    let y = tanh(complex(-imag(&x), real(x)));
    complex(imag(&y), -real(y))
}
method!(tan);
function_type!(tan, 1, Tan);

element_function! {
    Tan = "tan", [x] [];
    operation: Tan;
    derivative(y; gy): gy * (1.0 + y * y);
}

/// Returns `x - n` for the nearest integer `n`, in radians of half turns, and the sign `(-1)ⁿ`. Any
/// number that is too large for a fraction counts as an even integer, infinity too.
fn half_turns<T: Float>(x: Number<T>) -> [Number<T>; 2] {
    let n = x.round();
    let is_even = (n * 0.5).equal((n * 0.5).floor());
    let rest = x.abs().equal(f64::INFINITY).where_(0.0, x - n);
    [rest * PI, is_even.where_(1.0, -1.0)]
}

/// `sin πx`.
fn sin_pi<T: Float>(x: Number<T>) -> Number<T> {
    let [rest, sign] = half_turns(x);
    rest.sin() * sign
}

/// `cos πx`.
fn cos_pi<T: Float>(x: Number<T>) -> Number<T> {
    let [rest, sign] = half_turns(x);
    rest.cos() * sign
}

/// The derivative of `sinc`. Its own derivatives are derived from it, so that neither branch may be
/// infinite or NaN where the other is taken.
fn sinc_slope<T: Float>(x: Number<T>) -> Number<T> {
    let is_near = x.abs().less(0.5);
    // Near zero the terms of the quotient cancel. The series is
    // -π²x/3 (1 - u/(2·5) (1 - u/(4·7) (1 - ..))), and the first factor left out is below 1e-18.
    let near = is_near.where_(x, 0.0);
    let u = (near * PI).square();
    let series = (1..=12).rev().fold(Number::from(1.0), |sum, k| {
        let k = f64::from(2 * k);
        sum * u * (-1.0 / (k * (k + 3.0))) + 1.0
    });
    let far = is_near.where_(1.0, x);
    let quotient = (cos_pi(far) - sin_pi(far) / (far * PI)) / far;
    is_near.where_(near * series * (-PI * PI / 3.0), quotient)
}

binary! {
    samples in binary_samples;

    /// Computes the angle of the point `(b, a)`, in `[-π, π]`: the inverse tangent of `a / b` in
    /// the right quadrant.
    ///
    /// Gradient: `gy b / (a² + b²)` to a, `-gy a / (a² + b²)` to b, both zero at the origin.
    ///
    /// ```
    /// use bibun::{functions::atan2, Variable};
    /// let y = atan2(Variable::new([1.0, 0.0]), Variable::new([0.0, -1.0]));
    /// assert_eq!(y.to_vec::<f64>(), [std::f64::consts::FRAC_PI_2, std::f64::consts::PI]);
    /// ```
    atan2(a, b) via to_float -> Atan2 {
        operation: Atan2,
        derivative(a, b; gy): gy * b.inversion(a),
        derivative(a, b; gy): -(gy * a.inversion(b)),
        sample: (-2.0..2.0, 0.4..2.0, f64::atan2),
    }
}

/// Converts radians to degrees, `180 x / π`.
///
/// Shapes: x any → the same.
/// Types: floats; integers give f64.
/// Gradient: `180 gy / π`.
///
/// ```
/// use bibun::{functions::degrees, Variable};
/// assert_eq!(degrees(Variable::new([std::f64::consts::PI])).to_vec::<f64>(), [180.0]);
/// ```
#[track_caller]
pub fn degrees(x: impl Into<Variable>) -> Variable {
    let _whole = composite("degrees");
    to_float(x.into()) * 1f64.to_degrees()
}
method!(degrees);

/// Converts degrees to radians, `π x / 180`.
///
/// Shapes: x any → the same.
/// Types: floats; integers give f64.
/// Gradient: `π gy / 180`.
///
/// ```
/// use bibun::{functions::radians, Variable};
/// assert_eq!(radians(Variable::new([180.0])).to_vec::<f64>(), [std::f64::consts::PI]);
/// ```
#[track_caller]
pub fn radians(x: impl Into<Variable>) -> Variable {
    let _whole = composite("radians");
    to_float(x.into()) * 1f64.to_radians()
}
method!(radians);

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    let mut samples = [unary_samples(), binary_samples()].concat();
    samples.extend([
        Sample::unary("tan", -1.0..1.0, |x| tan(x), f64::tan).of(Tan::function(), &[]),
        Sample::binary("atan2", 0.4..2.0, -2.0..2.0, |a, b| atan2(a, b), f64::atan2),
        Sample::unary("degrees", -2.0..2.0, |x| degrees(x), f64::to_degrees),
        Sample::unary("radians", -200.0..200.0, |x| radians(x), f64::to_radians),
    ]);
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::probe::{assert_finite, derivatives, gradient, partial_derivatives};

    #[test]
    fn large_arguments() {
        let points = [-1000.0, -1.0, 0.0, 1.0, 1000.0];
        assert_finite("sin", |x| sin(x), &points);
        assert_finite("cos", |x| cos(x), &points);
        assert_finite("tan", |x| tan(x), &points);
        assert_finite("atan", |x| atan(x), &points);
        assert_eq!(gradient(|x| atan(x), 1e200), 0.0);
    }

    /// Against mpmath: `1 / cos² x`, and its derivative.
    #[test]
    fn the_derivative_of_complex_tangents() {
        use crate::functions::complex;
        use crate::{jvp, transformations::grad};
        use bibun_array::Complex;

        type C = Complex<f64>;
        let one = || Variable::constant([C::ONE]);
        let slope = |x: &Variable| jvp(|x| tan(x), x, &one()).1;
        for (x, first, second) in [
            (
                C::new(0.5, 30.0),
                C::new(1.892_465_182_577_645e-26, 2.947_339_893_986_874_4e-26),
                C::new(-5.894_679_787_973_749e-26, 3.784_930_365_155_29e-26),
            ),
            (
                C::new(-1.25, 0.75),
                C::new(-0.735_213_025_636_589_6, -1.059_092_890_466_872_8),
                C::new(3.474_722_257_899_803, -1.201_130_428_727_899_7),
            ),
            (C::new(0.5, -400.0), C::ZERO, C::ZERO),
            (C::new(0.5, 800.0), C::ZERO, C::ZERO),
        ] {
            let at = Variable::new([x]);
            let conjugate = grad(|x| real(tan(x)).sum(..), &at).to_vec::<C>()[0];
            let found = [
                (slope(&at).to_vec::<C>()[0], first),
                (conjugate.conj(), first),
                (jvp(slope, &at, &one()).1.to_vec::<C>()[0], second),
            ];
            for (found, expected) in found {
                let is_near = (found - expected).norm() <= 1e-14 * expected.norm();
                assert!(is_near, "{found} instead of {expected} at {x}");
            }
        }
        let far = tan(complex(0.5, Variable::new([f64::INFINITY]))).to_vec::<C>();
        assert_eq!(far, [C::I]);
    }

    #[test]
    fn ends_and_the_origin() {
        assert_eq!(gradient(|x| asin(x), 1.0), f64::INFINITY);
        assert_eq!(gradient(|x| acos(x), -1.0), f64::NEG_INFINITY);
        assert!(gradient(|x| asin(x), 1.5).is_nan());
        assert_eq!(
            partial_derivatives(|a, b| atan2(a, b), 0.0, 0.0),
            [0.0, 0.0]
        );
        assert_eq!(
            partial_derivatives(|a, b| atan2(a, b), 0.0, 2.0),
            [0.5, 0.0]
        );
        assert_eq!(
            partial_derivatives(|a, b| atan2(a, b), 0.0, -2.0),
            [-0.5, 0.0]
        );
        let y = atan2(Variable::new([1]), Variable::new([1]));
        assert_eq!(y.to_vec::<f64>(), [std::f64::consts::FRAC_PI_4]);
    }

    #[test]
    fn sinc_at_zero_and_beside_it() {
        // The derivatives of order 2n at zero are (-1)ⁿ π²ⁿ / (2n + 1).
        let at_zero = derivatives(|x| sinc(x), 0.0, 4);
        let expected = [1.0, 0.0, -PI.powi(2) / 3.0, 0.0, PI.powi(4) / 5.0];
        for (got, wanted) in at_zero.iter().zip(expected) {
            assert!((got - wanted).abs() <= 1e-14 * wanted.abs(), "{at_zero:?}");
        }
        // The series and the quotient meet at a half.
        let beside = |x: f64| derivatives(|x| sinc(x), x, 4);
        let (left, right) = (beside(0.5f64.next_down()), beside(0.5));
        for (left, right) in left.iter().zip(&right) {
            assert!((left - right).abs() < 1e-13, "{left} {right}");
        }
        let points = [-1e6, -0.5, -1e-8, 0.0, 1e-8, 0.3, 0.5, 1.0, 2.5, 1e6];
        assert_finite("sinc", |x| sinc(x), &points);
        assert_eq!(derivatives(|x| sinc(x), 3.0, 1), [0.0, -1.0 / 3.0]);
        assert_eq!(derivatives(|x| sinc(x), f64::INFINITY, 2), [0.0; 3]);
    }
}
