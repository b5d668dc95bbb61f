//! Signs, steps, and numbers that are not finite.

use std::f64::consts::LN_2;

use bibun_array::math::Float;
use bibun_array::{Array, DType, Definition, Kernel, Number, Slice, SliceMut, run_kernel};

use crate::call::composite;
use crate::function::{Fixed, Mismatch, Spec};
use crate::functions::families::{
    Discrete, DiscreteRule, binary, call, element_function, function_type, method,
};
use crate::functions::{
    Operand, cast, exp2, less, maximum, minimum, multiply, to_float, to_float_of, to_number,
};
use crate::variable::Variable;

binary! {
    samples in binary_samples;

    /// Returns the magnitude of a with the sign of b, that of zeros and of NaN too, for each pair of elements.
    ///
    /// Gradient: `gy` to a, with the opposite sign where its own was changed, and 0 where it is 0; zero to b.
    ///
    /// ```
    /// use bibun::{functions::copysign, Variable};
    /// let y = copysign(Variable::new([3.0, -3.0]), -0.0);
    /// assert_eq!(y.to_vec::<f64>(), [-3.0, -3.0]);
    /// ```
    copysign(a, b) via to_float -> CopySign {
        value: a.copysign(b),
        derivative(a, b; gy): gy * a.sign() * Number::from(1.0).copysign(b),
        derivative(; gy): Number::from(0.0),
        sample: (-2.0..-0.3, 0.3..2.0, f64::copysign),
    }

    /// Computes the step function of Heaviside for each pair of elements: 0 where a is negative, 1 where it is
    /// positive, and b where it is 0.
    ///
    /// Gradient: zero to a; `gy` to b where a is 0, zero elsewhere.
    ///
    /// ```
    /// use bibun::{functions::heaviside, Variable};
    /// let y = heaviside(Variable::new([-2.0, 0.0, 2.0]), 0.5);
    /// assert_eq!(y.to_vec::<f64>(), [0.0, 0.5, 1.0]);
    /// ```
    heaviside(a, b) via to_float -> Heaviside {
        value: {
            let step = a.greater(0.0).where_(1.0, a.less(0.0).where_(0.0, a));
            a.equal(0.0).where_(b, step)
        },
        derivative(; gy): Number::from(0.0),
        derivative(a; gy): a.equal(0.0).where_(gy, 0.0),
        sample: (0.3..2.0, -2.0..2.0, |_, _| 1.0),
    }
}

/// The functions that ignore NaN, of floats; integers have none.
macro_rules! ignoring_nan {
    ($(
        $(#[$documentation:meta])*
        $name:ident -> $Rule:ident = $before:ident, $extreme:ident;
    )+) => {$(
        $(#[$documentation])*
        #[doc = $crate::functions::families::shapes_and_types!(binary)]
        #[track_caller]
        pub fn $name(a: impl Into<Operand>, b: impl Into<Operand>) -> Variable {
            let (inputs, _whole) = Operand::pair(stringify!($name), a.into(), b.into());
            match inputs[0].dtype().is_float() {
                true => call($Rule::function(), &[], inputs),
                false => {
                    let _whole = composite(stringify!($name));
                    let [a, b] = inputs;
                    $extreme(a, b)
                }
            }
        }
        method!($name, b: impl Into<Operand>);
        function_type!($name, 2, $Rule);

        element_function! {
            $Rule = stringify!($name), [a, b] [];
            value: {
                let is_first = b.is_nan().logical_or(a.$before(b));
                is_first.where_(a, b)
            };
            derivative(a, b; gy): b.is_nan().logical_or(a.$before(b)).where_(gy, 0.0);
            derivative(a, b; gy): b.is_nan().logical_or(a.$before(b)).where_(0.0, gy);
        }
    )+};
}

ignoring_nan! {
    /// Computes the maximum of two values, element by element, of which NaN is none: it is the result only where
    /// both are NaN.
    ///
    /// Gradient: `gy` to the greater one, to a where they are equal, as in PyTorch.
    ///
    /// ```
    /// use bibun::{functions::fmax, Variable};
    /// let y = fmax(Variable::new([1.0, f64::NAN]), 0.0);
    /// assert_eq!(y.to_vec::<f64>(), [1.0, 0.0]);
    /// ```
    fmax -> FMax = greater_equal, maximum;

    /// Computes the minimum of two values, element by element, of which NaN is none: it is the result only where
    /// both are NaN.
    ///
    /// Gradient: `gy` to the lesser one, to a where they are equal, as in PyTorch.
    ///
    /// ```
    /// use bibun::{functions::fmin, Variable};
    /// let y = fmin(Variable::new([1.0, f64::NAN]), 0.0);
    /// assert_eq!(y.to_vec::<f64>(), [0.0, 0.0]);
    /// ```
    fmin -> FMin = less_equal, minimum;
}

/// Returns, for each element, whether its sign is negative, which is so of `-0.0`, too.
///
/// Shapes: x any → the same.
/// Types: all → bool.
/// Gradient: none.
///
/// ```
/// use bibun::{functions::signbit, Variable};
/// let y = signbit(Variable::new([-1.0, -0.0, 0.0]));
/// assert_eq!(y.to_vec::<bool>(), [true, true, false]);
/// ```
#[track_caller]
pub fn signbit(x: impl Into<Variable>) -> Variable {
    let _whole = composite("signbit");
    let x = to_number(x.into());
    match x.dtype().is_float() {
        true => less(copysign(1.0, x), 0.0),
        false => less(x, 0),
    }
}
method!(signbit);

/// Replaces NaN by 0, and infinities by the largest and the lowest finite number of the dtype.
///
/// Shapes: x any → the same.
/// Types: floats; others stay as they are.
/// Gradient: `gy` where x is finite, zero elsewhere.
///
/// ```
/// use bibun::{functions::nan_to_num, Variable};
/// let y = nan_to_num(Variable::new([1.0, f64::NAN, f64::INFINITY]));
/// assert_eq!(y.to_vec::<f64>(), [1.0, 0.0, f64::MAX]);
/// ```
#[track_caller]
pub fn nan_to_num(x: impl Into<Variable>) -> Variable {
    let x = x.into();
    let [highest, lowest] = match x.dtype() {
        dtype if dtype.is_float() => [dtype.highest(), dtype.lowest()].map(|x| x.to_f64()),
        _ => [0.0; 2],
    };
    nan_to_num_with(x, 0.0, highest, lowest)
}
method!(nan_to_num);

/// Replaces NaN, positive and negative infinity by numbers.
///
/// Shapes: x any → the same.
/// Types: floats; others stay as they are.
/// Gradient: `gy` where x is finite, zero elsewhere.
///
/// ```
/// use bibun::{functions::nan_to_num_with, Variable};
/// let y = nan_to_num_with(Variable::new([f64::NAN, f64::INFINITY]), -1.0, 10.0, -10.0);
/// assert_eq!(y.to_vec::<f64>(), [-1.0, 10.0]);
/// ```
#[track_caller]
pub fn nan_to_num_with(x: impl Into<Variable>, nan: f64, above: f64, below: f64) -> Variable {
    let x = x.into();
    if x.dtype().is_complex() {
        return to_float_of("nan_to_num", x);
    }
    match x.dtype().is_float() {
        true => call(NanToNum::function(), &[nan, above, below], [x]),
        false => x,
    }
}
method!(nan_to_num_with, nan: f64, above: f64, below: f64);

struct NanToNum;

element_function! {
    NanToNum = "nan_to_num", [x] [nan, above, below];
    value: {
        let finite = x.equal(f64::NEG_INFINITY).where_(below, x);
        x.is_nan().where_(nan, x.equal(f64::INFINITY).where_(above, finite))
    };
    derivative(x; gy): x.abs().less(f64::INFINITY).where_(gy, 0.0);
}

/// Computes `x 2ⁿ` of each pair of elements, exactly where n is whole and the result is a normal number, even where
/// the power itself is out of range.
///
/// Shapes: inputs that broadcast → their common shape.
/// Types: floats, promoted; integers give f64.
/// Gradient: `gy 2ⁿ` to x, `gy log(2) y` to n.
///
/// # Panics
/// Panics if the shapes do not broadcast.
///
/// ```
/// use bibun::{functions::ldexp, Variable};
/// let y = ldexp(Variable::new([0.75, 3.0]), Variable::new([2, -1]));
/// assert_eq!(y.to_vec::<f64>(), [3.0, 1.5]);
/// ```
#[track_caller]
pub fn ldexp(x: impl Into<Operand>, n: impl Into<Operand>) -> Variable {
    let ([x, n], _pair) = Operand::pair("ldexp", x.into(), n.into());
    let _whole = composite("ldexp");
    if x.dtype().is_complex() {
        return multiply(x, exp2(n));
    }
    let [x, n] = [x, n].map(to_float);
    // With its reciprocal it is a normal number, and three of them are more than the whole range.
    let is_wide = x.dtype().accumulator() == DType::F64;
    let step: f64 = if is_wide { 1000.0 } else { 120.0 };
    call(
        Ldexp::function(),
        &[step, step.exp2(), (-step).exp2()],
        [x, n],
    )
}
method!(ldexp, n: impl Into<Operand>);

struct Ldexp;

element_function! {
    Ldexp = "ldexp", [a, b] [step, large, small];
    value: scaled(a, b, [step, large, small]);
    derivative(b; gy): scaled(gy, b, [step, large, small]);
    derivative(y; gy): gy * y * LN_2;
}

/// `x 2ⁿ` in three steps. What is left of n beside the large steps comes first, so that only the last step that
/// matters can leave the normal numbers, and round.
fn scaled<T: Float>(x: Number<T>, n: Number<T>, [step, large, small]: [Number<T>; 3]) -> Number<T> {
    let choose = |n: Number<T>, above, below, between| {
        let is_below = n.less_equal(-step);
        n.greater_equal(step)
            .where_(above, is_below.where_(below, between))
    };
    let after_one = choose(n, n - step, n + step, n);
    let rest = choose(after_one, after_one - step, after_one + step, after_one);
    let [first, second] = [n, after_one].map(|n| choose(n, large, small, 1.0.into()));
    x * rest.clip(-step, step).exp2() * first * second
}

/// Returns m and the integer n of `x = m 2ⁿ`, where m is from ½ to 1, in magnitude; x itself and 0 where it is
/// 0, infinite or NaN.
///
/// Shapes: x any → the same, twice.
/// Types: floats; integers give f64. n is i64.
/// Gradient: `gy 2⁻ⁿ` of m to x; none of n.
///
/// ```
/// use bibun::{functions::frexp, Variable};
/// let (m, n) = frexp(Variable::new([12.0, -0.375, 0.0]));
/// assert_eq!((m.to_vec::<f64>(), n.to_vec::<i64>()), (vec![0.75, -0.75, 0.0], vec![4, -1, 0]));
/// ```
#[track_caller]
pub fn frexp(x: impl Into<Variable>) -> (Variable, Variable) {
    let _whole = composite("frexp");
    let x = to_float(x.into());
    let n = Discrete::of(Exponent, [x.detach()]);
    let m = ldexp(&x, -cast(&n, x.dtype()));
    (m, n)
}

impl Variable {
    /// Calls [`functions::frexp`](crate::functions::frexp) of this Variable.
    #[must_use]
    #[track_caller]
    pub fn frexp(&self) -> (Self, Self) {
        frexp(self)
    }
}

#[derive(Clone, Copy, Debug)]
struct Exponent;

impl DiscreteRule for Exponent {
    type Inputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "frexp"
    }

    fn shape(&self, [x]: [&Spec; 1]) -> Result<Spec, Mismatch> {
        Ok(Spec::new(&x.shape, DType::I64))
    }

    fn forward(&self, [x]: [Array; 1]) -> Array {
        static EXPONENT: Definition = Definition::host("frexp", Some(DType::I64), |_, x, out| {
            let SliceMut::I64(out) = out else {
                unreachable!("it is defined so")
            };
            match x[0] {
                Slice::F32(x) => out
                    .iter_mut()
                    .zip(x)
                    .for_each(|(n, &x)| *n = exponent(x.into())),
                Slice::F64(x) => out.iter_mut().zip(x).for_each(|(n, &x)| *n = exponent(x)),
                _ => unreachable!("floats are computed as f32 or f64"),
            }
        });
        run_kernel(&Kernel::new(&EXPONENT, &[]), &mut [x])
    }
}

/// The n of `x = m 2ⁿ` for m from ½ to 1.
fn exponent(x: f64) -> i64 {
    if x == 0.0 || !x.is_finite() {
        return 0;
    }
    let of_bits = |x: f64| (x.to_bits() >> 52 & 0x7FF) as i64 - 1022;
    match x.is_normal() {
        true => of_bits(x),
        false => of_bits(x * 2f64.powi(64)) - 64,
    }
}

/// Returns the number next to a towards b, for each pair of elements; b where they are equal.
///
/// Shapes: inputs that broadcast → their common shape.
/// Types: floats, promoted; integers give f64. Gradient: none.
/// Source: `torch.nextafter`; IEEE 754.
///
/// # Panics
/// Panics if the shapes do not broadcast.
///
/// ```
/// use bibun::functions::nextafter;
/// let y = nextafter([1.0, 0.0], [2.0, -1.0]);
/// assert_eq!(y.to_vec::<f64>(), [1.0 + f64::EPSILON, -5e-324]);
/// ```
#[track_caller]
pub fn nextafter(a: impl Into<Operand>, b: impl Into<Operand>) -> Variable {
    let (inputs, _whole) = Operand::pair("nextafter", a.into(), b.into());
    let [a, b] = inputs;
    let name = NextAfter.name();
    Discrete::of(NextAfter, [to_float_of(name, a), to_float_of(name, b)])
}
method!(nextafter, b: impl Into<Operand>);

#[derive(Clone, Copy, Debug)]
struct NextAfter;

impl DiscreteRule for NextAfter {
    type Inputs = Fixed<2>;

    fn name(&self) -> &'static str {
        "nextafter"
    }

    fn shape(&self, [a, _]: [&Spec; 2]) -> Result<Spec, Mismatch> {
        Ok(a.clone())
    }

    fn forward(&self, [a, b]: [Array; 2]) -> Array {
        bibun_array::ops::nextafter(&a, &b)
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use bibun_array::Array;

    use crate::conformance::Sample;
    let mut samples = binary_samples();
    samples.extend([
        Sample::binary(
            "copysign",
            0.3..2.0,
            -2.0..-0.3,
            |a, b| copysign(a, b),
            f64::copysign,
        ),
        Sample::binary(
            "heaviside",
            -2.0..-0.3,
            -2.0..2.0,
            |a, b| heaviside(a, b),
            |_, _| 0.0,
        ),
        Sample::binary("fmax", -2.0..2.0, -2.0..2.0, |a, b| fmax(a, b), f64::max)
            .of(FMax::function(), &[]),
        Sample::binary("fmin", -2.0..2.0, -2.0..2.0, |a, b| fmin(a, b), f64::min)
            .of(FMin::function(), &[]),
        Sample::unary("nan_to_num", -2.0..2.0, |x| nan_to_num(x), |x| x)
            .of(NanToNum::function(), &[0.0, f64::MAX, f64::MIN]),
        Sample::unary(
            "nan_to_num_with",
            -2.0..2.0,
            |x| nan_to_num_with(x, 1.0, 2.0, 3.0),
            |x| x,
        ),
        Sample::new(
            "signbit",
            |x| vec![crate::functions::where_(signbit(&x[0]), &x[0], &x[0] * 2.0)],
            |x| {
                let y = x[0]
                    .to_vec::<f64>()
                    .into_iter()
                    .map(|x| if x < 0.0 { x } else { 2.0 * x });
                vec![Array::from_vec(y.collect(), [2, 3])]
            },
        )
        .input([2, 3], -2.0..2.0),
        Sample::new(
            "frexp",
            |x| vec![frexp(&x[0]).0],
            |x| {
                let mantissa = |x: f64| x / (x.abs().log2().floor() + 1.0).exp2();
                let y = x[0].to_vec::<f64>().into_iter().map(mantissa);
                vec![Array::from_vec(y.collect(), [2, 3])]
            },
        )
        .input([2, 3], 4.2..7.8),
        Sample::new(
            "ldexp",
            |x| vec![ldexp(&x[0], &x[1])],
            |x| {
                let pairs = x[0].to_vec::<f64>().into_iter().zip(x[1].to_vec::<f64>());
                vec![Array::from_vec(
                    pairs.map(|(x, n)| x * n.exp2()).collect(),
                    [2, 3],
                )]
            },
        )
        .input([2, 3], -2.0..2.0)
        .input([2, 3], -2.0..2.0)
        .of(
            Ldexp::function(),
            &[1000.0, 1000f64.exp2(), (-1000f64).exp2()],
        ),
    ]);
    samples
}

#[cfg(test)]
mod tests {
    use std::f64::consts::SQRT_2;

    use bibun_array::{DType, bf16};

    use super::*;
    use crate::attempt;
    use crate::functions::probe::{gradient, partial_derivatives};

    #[test]
    fn complex_numbers_are_refused_in_the_caller_s_line() {
        let z = Variable::constant(Array::zeros(2, DType::C128));
        let calls: [(&str, &dyn Fn() -> Variable); 2] = [
            ("nextafter", &|| nextafter(&z, &z)),
            ("nan_to_num", &|| nan_to_num(&z)),
        ];
        for (name, call) in calls {
            let error = attempt(call).unwrap_err().to_string();
            assert!(error.starts_with(&format!("{name}: x is c128")), "{error}");
            assert!(error.contains(file!()), "{error}");
        }
    }

    #[test]
    fn nan_is_ignored_and_ties_go_to_the_first() {
        let nan = f64::NAN;
        let (a, b) = (
            Variable::new([nan, 1.0, nan]),
            Variable::new([2.0, nan, nan]),
        );
        for y in [fmax(&a, &b), fmin(&a, &b)] {
            let y = y.to_vec::<f64>();
            assert_eq!(y[..2], [2.0, 1.0]);
            assert!(y[2].is_nan());
        }
        let both: [fn(&Variable, &Variable) -> Variable; 2] =
            [|a, b| fmax(a, b), |a, b| fmin(a, b)];
        for function in both {
            assert_eq!(partial_derivatives(function, 1.0, 1.0), [1.0, 0.0]);
            assert_eq!(partial_derivatives(function, nan, 1.0), [0.0, 1.0]);
            assert_eq!(partial_derivatives(function, 1.0, nan), [1.0, 0.0]);
        }
        assert_eq!(partial_derivatives(|a, b| fmax(a, b), 1.0, 2.0), [0.0, 1.0]);
        assert_eq!(partial_derivatives(|a, b| fmin(a, b), 1.0, 2.0), [1.0, 0.0]);
        assert_eq!(fmax(Variable::new([1, 5]), 3).to_vec::<i64>(), [3, 5]);
        assert_eq!(fmin(Variable::new([1, 5]), 3).to_vec::<i64>(), [1, 3]);
    }

    #[test]
    fn signs_and_steps() {
        let y = copysign(Variable::new([0.0, 1.0, f64::NAN]), -1.0);
        assert!(y.to_vec::<f64>().iter().all(|y| y.is_sign_negative()));
        assert_eq!(
            partial_derivatives(|a, b| copysign(a, b), -3.0, 1.0),
            [-1.0, 0.0]
        );
        assert_eq!(
            partial_derivatives(|a, b| copysign(a, b), 0.0, 1.0),
            [0.0, 0.0]
        );
        assert_eq!(
            partial_derivatives(|a, b| heaviside(a, b), 0.0, 3.0),
            [0.0, 1.0]
        );
        assert_eq!(
            partial_derivatives(|a, b| heaviside(a, b), 1.0, 3.0),
            [0.0, 0.0]
        );
        assert!(heaviside(f64::NAN, 0.5).item::<f64>().is_nan());
        assert_eq!(
            signbit(Variable::new([-1, 2])).to_vec::<bool>(),
            [true, false]
        );
        assert_eq!(signbit(Variable::new([-0.0f32])).to_vec::<bool>(), [true]);
    }

    #[test]
    fn what_is_not_finite_is_replaced_by_the_ends_of_the_dtype() {
        let x = Variable::new([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 2.0]);
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64] {
            let y = nan_to_num(x.cast(dtype));
            let (low, high) = (dtype.lowest().to_f64(), dtype.highest().to_f64());
            assert_eq!(
                (y.dtype(), y.to_vec::<f64>()),
                (dtype, vec![0.0, high, low, 2.0])
            );
        }
        let slopes = [f64::NAN, f64::INFINITY, 2.0].map(|x| gradient(|x| nan_to_num(x), x));
        assert_eq!(slopes, [0.0, 0.0, 1.0]);
        assert_eq!(nan_to_num(Variable::new([3])).to_vec::<i64>(), [3]);
    }

    #[test]
    fn powers_out_of_range_scale_numbers_in_range() {
        let least = 5e-324;
        let cases = [
            (least, 1100.0, 26f64.exp2()),
            (1e-308, 2044.0, 1e-308 * 1022f64.exp2() * 1022f64.exp2()),
            (1e300, -1100.0, 1e300 * (-550f64).exp2() * (-550f64).exp2()),
            (
                1e308,
                -2000.0,
                1e308 * (-1000f64).exp2() * (-1000f64).exp2(),
            ),
            (least, 2097.0, 1023f64.exp2()),
            (f64::MAX, -2098.0, least),
            (0.0, 9000.0, 0.0),
            (-1.0, 9000.0, f64::NEG_INFINITY),
            (1.0, -9000.0, 0.0),
            // Rounded on the way, too, it would be 4 times the least number.
            (
                1.0 + 0.5f64.powi(1) + 0.5f64.powi(2) - 0.5f64.powi(52),
                -1073.0,
                3.0 * least,
            ),
        ];
        for (x, n, expected) in cases {
            assert_eq!(ldexp(x, n).item::<f64>(), expected, "{x:e} {n}");
        }
        assert!(ldexp(1.0, f64::NAN).item::<f64>().is_nan());
        let root = ldexp(3.0, 0.5).item::<f64>() / 3.0;
        assert!((root - SQRT_2).abs() < 1e-15, "{root}");
        let small = Variable::new([1e-45f32, 3e38]).ldexp(Variable::new([250, -250]));
        let least = (-149f64).exp2();
        assert_eq!(
            small.cast(DType::F64).to_vec::<f64>(),
            [least * 250f64.exp2(), f64::from(3e38f32) * (-250f64).exp2()]
        );
        let [by_x, by_n] = partial_derivatives(|x, n| 1e-300 * ldexp(x, n), 1e-20, 1030.0);
        let power = 1e-300 * 1015f64.exp2() * 15f64.exp2();
        assert!((by_x / power - 1.0).abs() < 1e-14, "{by_x:e}");
        let expected = power * 1e-20 * LN_2;
        assert!((by_n / expected - 1.0).abs() < 1e-14, "{by_n:e}");
    }

    #[test]
    fn parts_of_floats_and_their_neighbours() {
        let x = [
            f64::MIN_POSITIVE,
            5e-324,
            f64::MAX,
            -1.0,
            f64::INFINITY,
            -0.0,
        ];
        let (m, n) = frexp(Variable::new(x));
        assert_eq!(n.to_vec::<i64>(), [-1021, -1073, 1024, 1, 0, 0]);
        let parts = m.to_vec::<f64>();
        assert_eq!(
            parts[..5],
            [0.5, 0.5, 1.0 - f64::EPSILON / 2.0, -0.5, f64::INFINITY]
        );
        assert!(parts[5] == 0.0 && parts[5].is_sign_negative());
        let (m, n) = frexp(Variable::new([bf16::from_f32(3.0)]));
        assert_eq!(
            (m.cast(DType::F64).item::<f64>(), n.item::<i64>()),
            (0.75, 2)
        );

        let neighbours = |dtype: DType| {
            let a = Variable::new([1.0, -1.0, 0.0, 0.0, 2.0]).cast(dtype);
            let b = Variable::new([9.0, 9.0, -1.0, 1.0, 2.0]).cast(dtype);
            nextafter(a, b).cast(DType::F64).to_vec::<f64>()
        };
        for (dtype, bits, least) in [
            (DType::F64, 52, 1074),
            (DType::F32, 23, 149),
            (DType::BF16, 7, 133),
            (DType::F16, 10, 24),
        ] {
            let (step, least) = (0.5f64.powi(bits), f64::from(-least).exp2());
            assert_eq!(
                neighbours(dtype),
                [1.0 + step, -1.0 + step / 2.0, -least, least, 2.0]
            );
        }
        assert!(nextafter([f64::NAN], 0.0).item::<f64>().is_nan());
        assert_eq!(
            nextafter(f64::MAX, f64::INFINITY).item::<f64>(),
            f64::INFINITY
        );
    }
}
