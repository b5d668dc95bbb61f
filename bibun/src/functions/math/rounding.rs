//! Rounding, signs, ranges, and the maximum and minimum of two values.

use bibun_array::Number;

use crate::call::composite;
use crate::functions::families::{
    binary, call, call_with, element_function, function_type, method, unary,
};
use crate::functions::{Bound, imag, real, to_float_of, to_number};
use crate::variable::Variable;

unary! {
    samples in unary_samples;

    // These functions are constant between their steps.

    /// Rounds each element down to an integer, in the dtype of x.
    ///
    /// Gradient: zero, also at the steps.
    ///
    /// ```
    /// use bibun::{functions::floor, Variable};
    /// assert_eq!(floor(Variable::new([1.5, -1.5])).to_vec::<f64>(), [1.0, -2.0]);
    /// ```
    floor(x) via to_number -> Floor {
        operation: Floor,
        derivative(; gy): Number::from(0.0),
        sample: (0.1..0.9, f64::floor),
    }

    /// Rounds each element up to an integer, in the dtype of x.
    ///
    /// Gradient: zero, also at the steps.
    ///
    /// ```
    /// use bibun::{functions::ceil, Variable};
    /// assert_eq!(ceil(Variable::new([1.5, -1.5])).to_vec::<f64>(), [2.0, -1.0]);
    /// ```
    ceil(x) via to_number -> Ceil {
        operation: Ceil,
        derivative(; gy): Number::from(0.0),
        sample: (-1.9..-1.1, f64::ceil),
    }

    /// Rounds each element to the nearest integer, in the dtype of x; halves are rounded to the
    /// even one.
    ///
    /// Gradient: zero, also at the steps.
    ///
    /// ```
    /// use bibun::{functions::round, Variable};
    /// assert_eq!(round(Variable::new([0.5, 1.5, -2.6])).to_vec::<f64>(), [0.0, 2.0, -3.0]);
    /// ```
    round(x) via to_number -> Round {
        operation: Round,
        derivative(; gy): Number::from(0.0),
        sample: (0.6..1.4, f64::round),
    }

    /// Computes the part of each element behind the point, with its sign; NaN of infinities.
    ///
    /// Gradient: `gy`, also at the steps.
    ///
    /// ```
    /// use bibun::{functions::frac, Variable};
    /// assert_eq!(frac(Variable::new([1.5, -1.25])).to_vec::<f64>(), [0.5, -0.25]);
    /// ```
    frac(x) -> Frac {
        value: x - x.trunc(),
        derivative(; gy): gy,
        sample: (1.1..1.9, f64::fract),
    }

    /// Rounds each element towards zero to an integer, in the dtype of x.
    ///
    /// Gradient: zero, also at the steps.
    ///
    /// ```
    /// use bibun::{functions::trunc, Variable};
    /// assert_eq!(trunc(Variable::new([1.5, -1.5])).to_vec::<f64>(), [1.0, -1.0]);
    /// ```
    trunc(x) via to_number -> Trunc {
        operation: Trunc,
        derivative(; gy): Number::from(0.0),
        sample: (-1.9..-1.1, f64::trunc),
    }

    /// Computes the sign of each element: -1, 0 or 1 for negative, zero or positive; NaN stays NaN.
    ///
    /// Gradient: zero, also at zero.
    ///
    /// ```
    /// use bibun::{functions::sign, Variable};
    /// assert_eq!(sign(Variable::new([-2.0, 0.0, 7.0])).to_vec::<f64>(), [-1.0, 0.0, 1.0]);
    /// ```
    sign(x) via to_number -> Sign {
        operation: Sign,
        derivative(; gy): Number::from(0.0),
        sample: (-2.0..-0.1, f64::signum),
    }
}

/// Computes the absolute value `|x|` of each element; that of a complex number is real.
///
/// Shapes: x any → the same.
/// Types: all; bool gives i64, complex numbers give the dtype of their parts.
/// Gradient: `gy sign(x)`, or `gy x / |x|` for complex numbers; zero at zero.
///
/// ```
/// use bibun::{array::Complex, functions::abs, Variable};
/// assert_eq!(abs(Variable::new([1.0, -2.0])).to_vec::<f64>(), [1.0, 2.0]);
/// assert_eq!(abs(Variable::new([Complex::new(3.0, 4.0)])).to_vec::<f64>(), [5.0]);
/// ```
#[track_caller]
pub fn abs(x: impl Into<Variable>) -> Variable {
    let x = to_number(x.into());
    if !x.dtype().is_complex() {
        return call(Abs::function(), &[], [x]);
    }
    let _whole = composite("abs");
    hypot(real(&x), imag(x))
}
method!(abs);
function_type!(abs, 1, Abs);

element_function! {
    Abs = "abs", [x] [];
    operation: Abs;
    fused(x; gy): gy * x.sign();
}

/// Clips each element to a range, `min(max(x, low), high)`, which is `high` where `low > high`. A
/// bound is a number, an array or a Variable, or `None` where there is none.
///
/// Shapes: x and bounds that broadcast → their common shape.
/// Types: floats, promoted; integers and bools stay so between bounds that are integers, and give f64 otherwise.
/// Gradient: `gy` to x where `low ≤ x ≤ high`, the bounds included, and to a bound that is a Variable
/// where it is the result and x is not.
///
/// # Panics
/// Panics if the shapes do not broadcast.
///
/// ```
/// use bibun::{functions::clip, Variable};
/// let x = Variable::new([-2.0, 0.5, 3.0]);
/// assert_eq!(clip(&x, 0.0, 1.0).to_vec::<f64>(), [0.0, 0.5, 1.0]);
/// assert_eq!(clip(&x, None, 1.0).to_vec::<f64>(), [-2.0, 0.5, 1.0]);
/// assert_eq!(clip(Variable::constant([-2i64, 7]), 0, None).to_vec::<i64>(), [0, 7]);
/// let low = Variable::new([-1.0, 0.0, 1.0]);
/// let y = clip(&x, &low, None);
/// assert_eq!(y.to_vec::<f64>(), [-1.0, 0.5, 3.0]);
/// y.sum(..).backward();
/// assert_eq!(low.grad().unwrap().to_vec::<f64>(), [1.0, 0.0, 0.0]);
/// ```
#[track_caller]
pub fn clip(x: impl Into<Variable>, low: impl Into<Bound>, high: impl Into<Bound>) -> Variable {
    let (x, low, high) = (x.into(), low.into(), high.into());
    if !x.dtype().is_differentiable() && low.is_integer() && high.is_integer() {
        let _whole = composite("clip");
        let x = low.bounds().map_or(x.clone(), |low| maximum(x, low));
        return high.bounds().map_or(x.clone(), |high| minimum(x, high));
    }
    let low = low.or(f64::NEG_INFINITY);
    let high = high.or(f64::INFINITY);
    let x = to_float_of("clip", x);
    let names = ["low", "high"];
    call_with("clip", Clip::function(), x, names, [low, high])
}
method!(clip, low: impl Into<Bound>, high: impl Into<Bound>);

function_type!(clip, 1, Clip);

element_function! {
    Clip = "clip", [x] [low, high];
    value: x.maximum(low).minimum(high);
    fused(x; gy): x
        .less(low)
        .logical_or(x.greater(high))
        .where_(0.0, gy);
    derivative(x; gy): x
        .less(low)
        .logical_and(low.less_equal(high))
        .where_(gy, 0.0);
    derivative(x; gy): x.maximum(low).greater(high).where_(gy, 0.0);
}

binary! {
    samples in binary_samples;

    /// Computes the maximum of two values, element by element; NaN if one is NaN.
    ///
    /// Gradient: `gy` to the greater, half to each where they are equal.
    ///
    /// ```
    /// use bibun::{functions::maximum, Variable};
    /// assert_eq!(maximum(Variable::new([-1.0, 2.0]), 0.0).to_vec::<f64>(), [0.0, 2.0]);
    /// ```
    maximum(a, b) -> Maximum {
        operation: Maximum,
        derivative(a, b; gy): a.less(b).where_(0.0, a.equal(b).where_(gy * 0.5, gy)),
        derivative(a, b; gy): b.less(a).where_(0.0, a.equal(b).where_(gy * 0.5, gy)),
        sample: (-2.0..2.0, -2.0..2.0, f64::max),
    }

    /// Computes the minimum of two values, element by element; NaN if one is NaN.
    ///
    /// Gradient: `gy` to the lesser, half to each where they are equal.
    ///
    /// ```
    /// use bibun::{functions::minimum, Variable};
    /// assert_eq!(minimum(Variable::new([-1.0, 2.0]), 0.0).to_vec::<f64>(), [-1.0, 0.0]);
    /// ```
    minimum(a, b) -> Minimum {
        operation: Minimum,
        derivative(a, b; gy): a.greater(b).where_(0.0, a.equal(b).where_(gy * 0.5, gy)),
        derivative(a, b; gy): b.greater(a).where_(0.0, a.equal(b).where_(gy * 0.5, gy)),
        sample: (-2.0..2.0, -2.0..2.0, f64::min),
    }

    /// Computes the remainder `a - b n` of the quotient `n = a / b` rounded towards zero. It has
    /// the sign of a, as with Rust's `%` and C's `fmod`. By zero it is NaN for floats and 0 for
    /// integers.
    ///
    /// Gradient: `gy` to a, `-gy n` to b, also at the steps.
    ///
    /// ```
    /// use bibun::{functions::fmod, Variable};
    /// assert_eq!(fmod(Variable::new([7.0, -7.0]), 4.0).to_vec::<f64>(), [3.0, -3.0]);
    /// ```
    fmod(a, b) via to_number -> Fmod {
        operation: Fmod,
        derivative(; gy): gy,
        // Apart from rounding, b divides a minus the remainder.
        derivative(a, b, y; gy): -(gy * ((a - y) / b).round()),
        sample: (-7.0..-6.2, 1.6..2.0, |a, b| a - b * f64::trunc(a / b)),
    }

    /// Computes the remainder `a - b n` of the quotient `n = a / b` rounded down. It has the sign
    /// of b, as with Python's `%`. By zero it is NaN for floats and 0 for integers.
    ///
    /// Gradient: `gy` to a, `-gy n` to b, also at the steps.
    ///
    /// ```
    /// use bibun::{functions::remainder, Variable};
    /// assert_eq!(remainder(Variable::new([7.0, -7.0]), 4.0).to_vec::<f64>(), [3.0, 1.0]);
    /// ```
    remainder(a, b) via to_number -> Remainder {
        operation: Remainder,
        derivative(; gy): gy,
        derivative(a, b, y; gy): -(gy * ((a - y) / b).round()),
        sample: (-7.0..-6.2, 1.6..2.0, |a, b| a - b * f64::floor(a / b)),
    }

    /// Computes `√(a² + b²)`, element by element, without overflow or underflow in between.
    ///
    /// Gradient: `gy a / y` to a, `gy b / y` to b, both zero at the origin.
    ///
    /// ```
    /// use bibun::{functions::hypot, Variable};
    /// assert_eq!(hypot(Variable::new([3.0, 3e300]), 4.0).to_vec::<f64>(), [5.0, 3e300]);
    /// ```
    hypot(a, b) via to_float -> Hypot {
        operation: Hypot,
        derivative(a, b; gy): gy * a.direction(b),
        derivative(a, b; gy): gy * b.direction(a),
        sample: (0.5..2.0, -2.0..-0.5, f64::hypot),
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use bibun_array::Array;

    use crate::conformance::Sample;
    let mut samples = [unary_samples(), binary_samples()].concat();
    for range in [0.1..2.0, -2.0..-0.1] {
        let sample = Sample::unary("abs", range, |x| abs(x), f64::abs);
        samples.push(sample.of(Abs::function(), &[]));
    }
    let clipped = |x: f64, low: f64, high: f64| f64::min(f64::max(x, low), high);
    samples.push(
        Sample::unary(
            "clip",
            -2.0..2.0,
            |x| clip(x, -0.7, 0.9),
            move |x| clipped(x, -0.7, 0.9),
        )
        .of(Clip::function(), &[-0.7, 0.9]),
    );
    samples.push(Sample::unary(
        "clip",
        -2.0..2.0,
        |x| clip(x, None, 0.3),
        |x| f64::min(x, 0.3),
    ));
    samples.push(Sample::with_parameters(
        "clip",
        -2.0..2.0,
        &[-0.7, 0.9],
        |x, bounds| clip(x, &bounds[0], &bounds[1]),
        move |x, bounds| clipped(x, bounds[0], bounds[1]),
    ));
    // A number beside a Variable, and a bound for each column.
    samples.push(Sample::with_parameters(
        "clip",
        -2.0..2.0,
        &[0.9],
        |x, bounds| clip(x, -0.7, &bounds[0]),
        move |x, bounds| clipped(x, -0.7, bounds[0]),
    ));
    samples.push(
        Sample::new(
            "clip",
            |x| vec![clip(&x[0], &x[1], None)],
            |x| {
                let low = x[1].to_vec::<f64>();
                let y = x[0].to_vec::<f64>().into_iter().enumerate();
                let y = y.map(|(i, x)| f64::max(x, low[i % 3])).collect();
                vec![Array::from_vec(y, [2, 3])]
            },
        )
        .input([2, 3], -2.0..2.0)
        .input([3], -1.0..1.0),
    );
    samples
}

#[cfg(test)]
mod tests {
    use bibun_array::DType;

    use super::*;
    use crate::functions::probe::{derivatives, gradient, partial_derivatives};

    #[test]
    fn steps_have_zero_gradients() {
        let functions: [fn(&Variable) -> Variable; 5] = [
            |x| floor(x),
            |x| ceil(x),
            |x| round(x),
            |x| trunc(x),
            |x| sign(x),
        ];
        for function in functions {
            for x in [-1.5, 0.0, 2.0, 2.5] {
                assert_eq!(gradient(function, x), 0.0);
            }
        }
        assert_eq!(derivatives(|x| round(x), 2.5, 0), [2.0]);
    }

    #[test]
    fn kinks_and_ties() {
        assert_eq!(gradient(|x| abs(x), 0.0), 0.0);
        assert_eq!(derivatives(|x| abs(x), -3.0, 2), [3.0, -1.0, 0.0]);
        let clipped = |x| gradient(|x| clip(x, -1.0, 2.0), x);
        assert_eq!(
            [-1.1, -1.0, 0.0, 2.0, 2.1].map(clipped),
            [0.0, 1.0, 1.0, 1.0, 0.0]
        );
        assert_eq!(clip(Variable::new([0.0]), 2.0, 1.0).to_vec::<f64>(), [1.0]);
        assert!(clip(Variable::new([f64::NAN]), 1.0, 2.0).to_vec::<f64>()[0].is_nan());
        // Where x is at a bound, it gets all; where the bounds are the wrong way round, the high one.
        let low = |x, low| partial_derivatives(|x, low| clip(x, low, 2.0), x, low);
        assert_eq!(low(-1.0, -1.0), [1.0, 0.0]);
        assert_eq!(low(-1.5, -1.0), [0.0, 1.0]);
        assert_eq!(low(-1.5, 3.0), [0.0, 0.0]);
        let high = |x, high| partial_derivatives(|x, high| clip(x, -1.0, high), x, high);
        assert_eq!(high(2.0, 2.0), [1.0, 0.0]);
        assert_eq!(high(0.0, -3.0), [0.0, 1.0]);
        assert_eq!(
            partial_derivatives(|a, b| maximum(a, b), 1.0, 1.0),
            [0.5, 0.5]
        );
        assert_eq!(
            partial_derivatives(|a, b| maximum(a, b), 1.0, 2.0),
            [0.0, 1.0]
        );
        assert_eq!(
            partial_derivatives(|a, b| minimum(a, b), 1.0, 1.0),
            [0.5, 0.5]
        );
        assert_eq!(
            partial_derivatives(|a, b| minimum(a, b), 1.0, 2.0),
            [1.0, 0.0]
        );
        assert_eq!(
            partial_derivatives(|a, b| hypot(a, b), 0.0, 0.0),
            [0.0, 0.0]
        );
        assert_eq!(
            partial_derivatives(|a, b| hypot(a, b), 3e300, -4e300),
            [0.6, -0.8]
        );
    }

    #[test]
    fn remainders() {
        assert_eq!(
            partial_derivatives(|a, b| fmod(a, b), -7.0, 2.0),
            [1.0, 3.0]
        );
        assert_eq!(
            partial_derivatives(|a, b| remainder(a, b), -7.0, 2.0),
            [1.0, 4.0]
        );
        assert_eq!(
            partial_derivatives(|a, b| remainder(a, b), 6.0, 2.0),
            [1.0, -3.0]
        );
        assert_eq!(
            partial_derivatives(|a, b| remainder(a, b), 0.3, 0.1),
            [1.0, -2.0]
        );
        let x = Variable::new([true, false]);
        assert_eq!(remainder(&x, true).to_vec::<i64>(), [0, 0]);
    }

    #[test]
    fn integers_stay_integers() {
        let x = Variable::new([-3, 4]);
        assert_eq!(abs(&x).to_vec::<i64>(), [3, 4]);
        assert_eq!(sign(&x).to_vec::<i64>(), [-1, 1]);
        assert_eq!(floor(&x).to_vec::<i64>(), [-3, 4]);
        assert_eq!(maximum(&x, 0).to_vec::<i64>(), [0, 4]);
        assert_eq!(hypot(&x, 4).dtype(), DType::F64);
    }

    #[test]
    fn bounds_of_other_dtypes_and_shapes() {
        let x = Variable::new([-3f32, 4.0]);
        assert_eq!(clip(&x, None, 1).dtype(), DType::F32);
        assert_eq!(clip(&x, None, None).to_vec::<f32>(), [-3.0, 4.0]);
        let high = Variable::new([[1.0], [2.0]]);
        let y = clip(&x, 0, &high);
        assert_eq!((y.shape().to_vec(), y.dtype()), (vec![2, 2], DType::F64));
        assert_eq!(y.to_vec::<f64>(), [0.0, 1.0, 0.0, 2.0]);
        let three = Variable::new([1.0, 2.0, 3.0]);
        let error = crate::attempt(|| clip(&x, &three, None)).expect_err("an error");
        let message = error.to_string();
        assert!(message.contains("x = [2] f32, low = [3] f64"), "{message}");
    }

    #[test]
    fn integers_between_integers_stay_integers() {
        let x = Variable::constant([-3i64, 1, 9]);
        assert_eq!(clip(&x, 0, 5).to_vec::<i64>(), [0, 1, 5]);
        assert_eq!(
            clip(&x, None, Variable::constant([0i64, 0, 0])).to_vec::<i64>(),
            [-3, 0, 0]
        );
        assert_eq!(clip(&x, None, None).dtype(), DType::I64);
        assert_eq!(clip(Variable::constant([7u8]), 0, 5).to_vec::<u8>(), [5]);
        assert_eq!(clip(&x, 0.5, None).to_vec::<f64>(), [0.5, 1.0, 9.0]);
    }
}
