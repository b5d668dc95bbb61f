//! Operators and elementwise functions against plain loops, over layouts, sizes and dtypes.

use std::f64::consts::{LN_2, PI};

use crate::layouts::DTYPES;
use bibun_array::{Array, ArrayLike, DType, Element, Error, Scalar, attempt, ops, s};

const SIZES: [[usize; 2]; 5] = [[0, 3], [1, 1], [1, 3], [25, 41], [200, 350]];

/// Arrays of one shape that lie in memory in every way: in a row, transposed, with gaps, backwards,
/// repeated along an axis, repeated altogether.
fn layouts<T: Element>([rows, columns]: [usize; 2], element: impl Fn(usize) -> T) -> Vec<Array> {
    let numbered = |size: usize| (0..size).map(&element).collect::<Vec<T>>();
    let size = rows * columns;
    vec![
        Array::from_vec(numbered(size), [rows, columns]),
        Array::from_vec(numbered(size), [columns, rows]).transpose(),
        Array::from_vec(numbered(4 * size), [2 * rows, 2 * columns]).slice(s![1..; 2, ..; 2]),
        Array::from_vec(numbered(size), [rows, columns]).slice(s![..; -1, ..; -1]),
        Array::from_vec(numbered(columns), [1, columns]).broadcast_to([rows, columns]),
        Array::from_vec(numbered(rows), [rows, 1]).broadcast_to([rows, columns]),
        Array::from(vec![element(1)]).broadcast_to([rows, columns]),
    ]
}

/// Numbers of both signs, none of them twice, in `(-4, 4)`.
fn wave(i: usize) -> f64 {
    4.0 * (0.7 * i as f64 + 0.3).sin()
}

/// The same for integers, zeros among them.
fn integer(i: usize) -> i64 {
    (i as i64 * 7 + 3) % 11 - 5
}

#[track_caller]
fn assert_close(name: &str, found: f64, want: f64, tolerance: f64) {
    let close = (found - want).abs() <= tolerance * want.abs().max(tolerance);
    let same = found == want && found.is_sign_negative() == want.is_sign_negative();
    assert!(
        same || found.is_nan() && want.is_nan() || (found.is_finite() && close),
        "{name}: found {found:e}, want {want:e}"
    );
}

/// Checks every element of `y` against `want`, which is exact or in `f64`.
#[track_caller]
fn assert_all_close(name: &str, y: &Array, want: &[f64]) {
    let tolerance = if y.dtype() == DType::F32 { 6e-7 } else { 4e-15 };
    let y = y.cast(DType::F64).to_vec::<f64>();
    assert_eq!(y.len(), want.len(), "{name}");
    for (&found, &want) in y.iter().zip(want) {
        assert_close(name, found, want, tolerance);
    }
}

fn values(x: &Array) -> Vec<f64> {
    x.cast(DType::F64).to_vec()
}

type Unary = (
    &'static str,
    fn(&Array) -> Array,
    fn(Array) -> Array,
    fn(f64) -> f64,
);

/// A function, its by-value form, and the same from the standard library or by a plain series.
macro_rules! table {
    ($($name:ident: $reference:expr;)+) => {
        [$((stringify!($name), Array::$name, ops::$name, $reference)),+]
    };
}

fn float_functions() -> impl Iterator<Item = Unary> {
    let table: [Unary; 30] = table! {
        sqrt: f64::sqrt;
        rsqrt: |x| 1.0 / x.sqrt();
        cbrt: f64::cbrt;
        reciprocal: f64::recip;
        exp: f64::exp;
        exp2: f64::exp2;
        expm1: f64::exp_m1;
        log: f64::ln;
        log2: f64::log2;
        log10: f64::log10;
        log1p: f64::ln_1p;
        sin: f64::sin;
        cos: f64::cos;
        tan: f64::tan;
        asin: f64::asin;
        acos: f64::acos;
        atan: f64::atan;
        sinh: f64::sinh;
        cosh: f64::cosh;
        tanh: f64::tanh;
        asinh: asinh;
        acosh: acosh;
        atanh: |x| if x == 0.0 { x } else { 0.5 * (2.0 * x / (1.0 - x)).ln_1p() };
        erf: erf;
        erfc: erfc;
        erfinv: erfinv;
        sigmoid: |x| 1.0 / (1.0 + (-x).exp());
        softplus: |x| if x > 40.0 { x } else { x.exp().ln_1p() };
        lgamma: lgamma;
        digamma: digamma;
    };
    table.into_iter()
}

fn asinh(x: f64) -> f64 {
    if x.is_infinite() {
        return x;
    }
    let square = x * x;
    (x.abs() + square / (1.0 + (1.0 + square).sqrt()))
        .ln_1p()
        .copysign(x)
}

fn acosh(x: f64) -> f64 {
    if x < 1.0 {
        return f64::NAN;
    }
    (x - 1.0 + ((x - 1.0) * (x + 1.0)).sqrt()).ln_1p()
}

/// Maclaurin's series, whose terms have one sign when `e^(-x²)` is taken out.
fn erf(x: f64) -> f64 {
    if x.is_nan() || x == 0.0 {
        return x;
    }
    if x.abs() > 6.0 {
        return 1.0f64.copysign(x);
    }
    let (mut sum, mut term) = (x, x);
    for n in 1..200 {
        term *= 2.0 * x * x / f64::from(2 * n + 1);
        sum += term;
    }
    2.0 / PI.sqrt() * (-x * x).exp() * sum
}

/// Laplace's continued fraction on the right, where `1 - erf` would cancel.
fn erfc(x: f64) -> f64 {
    if x.is_nan() || x < 1.5 {
        return 1.0 - erf(x);
    }
    if x > 27.0 {
        return 0.0;
    }
    let fraction = (1..400)
        .rev()
        .fold(x, |rest, n| x + f64::from(n) / 2.0 / rest);
    (-x * x).exp() / PI.sqrt() / fraction
}

/// Newton's steps on `erf`.
fn erfinv(y: f64) -> f64 {
    if y.is_nan() || y.abs() > 1.0 {
        return f64::NAN;
    }
    if y.abs() == 1.0 {
        return f64::INFINITY.copysign(y);
    }
    if y == 0.0 {
        return y;
    }
    let mut x = y;
    for _ in 0..10 {
        x -= (erf(x) - y) * PI.sqrt() / 2.0 * (x * x).exp();
    }
    x
}

/// Stirling's series far on the right, and the recurrence to get there.
fn lgamma(x: f64) -> f64 {
    if x == f64::INFINITY || x == 0.0 {
        return f64::INFINITY;
    }
    let (mut x, mut product) = (x, 1.0);
    while x < 20.0 {
        product *= x;
        x += 1.0;
    }
    let z = 1.0 / (x * x);
    let series = (1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z / 1680.0))) / x;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * PI).ln() + series - product.ln()
}

fn digamma(x: f64) -> f64 {
    if x == f64::INFINITY {
        return x;
    }
    if x == 0.0 {
        return -f64::INFINITY.copysign(x);
    }
    let (mut x, mut sum) = (x, 0.0);
    while x < 20.0 {
        sum += 1.0 / x;
        x += 1.0;
    }
    let z = 1.0 / (x * x);
    let series = z * (1.0 / 12.0 - z * (1.0 / 120.0 - z * (1.0 / 252.0 - z / 240.0)));
    x.ln() - 0.5 / x - series - sum
}

/// Where a function has values and the reference keeps its digits.
fn domain(name: &str, x: f64) -> f64 {
    match name {
        "sqrt" | "rsqrt" | "log" | "log2" | "log10" | "log1p" => x.abs(),
        "asin" | "acos" | "atanh" | "erfinv" => x / 5.0,
        "acosh" => 1.0 + x.abs(),
        "lgamma" | "digamma" => 2.5 + x.abs(),
        "erf" | "erfc" => x / 1.5,
        _ => x,
    }
}

/// The references of these lose digits themselves.
fn slack(name: &str) -> f64 {
    match name {
        "erf" | "erfc" | "erfinv" | "asinh" | "acosh" | "atanh" | "softplus" => 1e-13,
        "lgamma" | "digamma" => 3e-12,
        _ => 4e-15,
    }
}

#[test]
fn functions_of_floats_over_layouts_sizes_and_types() {
    for (name, function, by_value, reference) in float_functions() {
        let singles = |size| layouts(size, |i| domain(name, wave(i)) as f32);
        let doubles = |size| layouts(size, |i| domain(name, wave(i)));
        for x in SIZES
            .into_iter()
            .flat_map(|size| [singles(size), doubles(size)].concat())
        {
            let before = values(&x);
            let y = function(&x);
            assert_eq!((y.shape(), y.dtype()), (x.shape(), x.dtype()), "{name}");
            let tolerance = if y.dtype() == DType::F32 {
                6e-7
            } else {
                slack(name)
            };
            // Enough of the large ones, whose parts are computed by several threads.
            let step = (x.size() / 500).max(1);
            let found = values(&y);
            assert_eq!(found.len(), before.len());
            for i in (0..x.size()).step_by(step) {
                assert_close(name, found[i], reference(before[i]), tolerance);
            }
            assert_eq!(values(&x), before, "{name} wrote to its input");
            assert_eq!(values(&by_value(x)), found, "{name} by value");
        }
    }
}

#[test]
fn functions_of_floats_at_special_points() {
    let special = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        1.0,
        -1.0,
    ];
    for (name, function, _, reference) in float_functions() {
        let y = function(&Array::from(special)).to_vec::<f64>();
        let z = function(&Array::from(special.map(|x| x as f32)));
        for ((x, y), z) in special.into_iter().zip(y).zip(values(&z)) {
            let poles = ["lgamma", "digamma"].contains(&name);
            if poles && x < 0.0 {
                // The recurrence of the reference does not reach over the poles.
                let want = if name == "lgamma" {
                    f64::INFINITY
                } else {
                    f64::NAN
                };
                let want = if x.is_infinite() && name == "digamma" {
                    y
                } else {
                    want
                };
                assert_close(name, y, want, 0.0);
                continue;
            }
            assert_close(&format!("{name}({x})"), y, reference(x), slack(name));
            assert_close(&format!("{name}({x}) in f32"), z, reference(x), 6e-7);
        }
    }
}

#[test]
fn functions_of_floats_take_integers_and_bool_as_f64() {
    let integers = Array::from([0, 1, 2, 7]);
    let bools = Array::from([false, true]);
    for (name, function, ..) in float_functions() {
        for x in [&integers, &bools] {
            let y = function(x);
            assert_eq!(y.dtype(), DType::F64, "{name}");
            let want = function(&x.cast(DType::F64));
            for (found, want) in values(&y).into_iter().zip(values(&want)) {
                assert_close(name, found, want, 0.0);
            }
        }
    }
}

#[test]
fn rounding_and_signs() {
    let table: [Unary; 8] = table! {
        floor: f64::floor;
        ceil: f64::ceil;
        trunc: f64::trunc;
        round: f64::round_ties_even;
        abs: f64::abs;
        square: |x| x * x;
        negative: |x| -x;
        sign: |x| if x == 0.0 { 0.0 } else if x.is_nan() { x } else { x.signum() };
    };
    let special = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -0.0,
        0.5,
        1.5,
        -2.5,
        1e300,
        5e15,
    ];
    for (name, function, by_value, reference) in table {
        let halves = |i| (wave(i) * 2.0).round() / 2.0;
        for size in SIZES {
            let floats = [layouts(size, halves), layouts(size, |i| halves(i) as f32)].concat();
            for x in floats.into_iter().chain(layouts(size, integer)) {
                let want: Vec<f64> = values(&x).into_iter().map(reference).collect();
                let y = function(&x);
                assert_eq!(y.dtype(), x.dtype(), "{name}");
                match x.dtype() {
                    // Integers have no negative zero.
                    DType::I64 => assert_eq!(values(&y), want, "{name}"),
                    _ => assert_all_close(name, &y, &want),
                }
                assert_eq!(values(&by_value(x)), values(&y), "{name} by value");
            }
        }
        for (x, y) in special
            .into_iter()
            .zip(values(&function(&Array::from(special))))
        {
            if name == "sign" && x == 0.0 {
                assert_eq!(y, 0.0);
                continue;
            }
            assert_close(name, y, reference(x), 0.0);
        }
    }
    let extremes = Array::from([i64::MIN, i64::MAX]);
    assert_eq!(extremes.abs().to_vec::<i64>(), [i64::MIN, i64::MAX]);
    assert_eq!(extremes.negative().to_vec::<i64>(), [i64::MIN, -i64::MAX]);
    assert_eq!(extremes.square().to_vec::<i64>(), [0, 1]);
    assert_eq!(extremes.floor().to_vec::<i64>(), [i64::MIN, i64::MAX]);
    assert_eq!(
        Array::from([true, false]).negative().to_vec::<i64>(),
        [-1, 0]
    );
    assert_eq!(Array::from([true]).round().dtype(), DType::Bool);
}

#[test]
fn predicates() {
    let x = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        1e-310,
    ];
    for x in [Array::from(x), Array::from(x.map(|x| x as f32))] {
        assert_eq!(
            x.is_nan().to_vec::<bool>(),
            [true, false, false, false, false, false]
        );
        assert_eq!(
            x.is_inf().to_vec::<bool>(),
            [false, true, true, false, false, false]
        );
        assert_eq!(
            x.is_finite().to_vec::<bool>(),
            [false, false, false, true, true, true]
        );
        assert_eq!(
            x.logical_not().to_vec::<bool>()[..5],
            [false, false, false, true, true]
        );
    }
    for x in [Array::from([1, 0]), Array::from([true, false])] {
        assert_eq!(x.is_nan().to_vec::<bool>(), [false, false]);
        assert_eq!(x.is_inf().to_vec::<bool>(), [false, false]);
        assert_eq!(x.is_finite().to_vec::<bool>(), [true, true]);
        assert_eq!(x.logical_not().to_vec::<bool>(), [false, true]);
    }
}

/// Python's `//` and `%` of floats, as the language reference defines them from C's `fmod`.
fn python_divmod(a: f64, b: f64) -> (f64, f64) {
    let mut remainder = a % b;
    let mut quotient = (a - remainder) / b;
    if remainder != 0.0 && (remainder < 0.0) != (b < 0.0) {
        remainder += b;
        quotient -= 1.0;
    }
    (quotient.round(), remainder)
}

type Binary = (
    &'static str,
    fn(&Array, Array) -> Array,
    fn(Array, Array) -> Array,
    fn(f64, f64) -> f64,
);

macro_rules! binary_table {
    ($($name:ident: $reference:expr;)+) => {
        [$((stringify!($name), |a: &Array, b: Array| a.$name(b), ops::$name, $reference)),+]
    };
}

fn number(x: bool) -> f64 {
    f64::from(u8::from(x))
}

#[test]
fn functions_of_two_arrays_over_layouts_sizes_and_types() {
    let table: [Binary; 21] = binary_table! {
        add: |a, b| a + b;
        subtract: |a, b| a - b;
        multiply: |a, b| a * b;
        divide: |a, b| a / b;
        maximum: f64::max;
        minimum: f64::min;
        fmod: |a, b| a % b;
        remainder: |a, b| python_divmod(a, b).1;
        floor_divide: |a, b| python_divmod(a, b).0;
        atan2: f64::atan2;
        hypot: f64::hypot;
        logaddexp: |a, b| (a.exp() + b.exp()).ln();
        pow: f64::powf;
        equal: |a, b| number(a == b);
        not_equal: |a, b| number(a != b);
        less: |a, b| number(a < b);
        less_equal: |a, b| number(a <= b);
        greater: |a, b| number(a > b);
        greater_equal: |a, b| number(a >= b);
        logical_and: |a, b| number(a != 0.0 && b != 0.0);
        logical_or: |a, b| number(a != 0.0 || b != 0.0);
    };
    for (name, function, by_value, reference) in table {
        for size in SIZES {
            let left = [
                layouts(size, wave),
                layouts(size, |i| wave(i) as f32),
                layouts(size, |i| integer(i).max(1)),
            ]
            .concat();
            for (i, a) in left.iter().enumerate() {
                let right = [
                    layouts(size, |i| wave(i + 5)),
                    layouts(size, |i| wave(i + 5) as f32),
                    layouts(size, |i| integer(i + 3).max(1)),
                ];
                for b in right.map(|layouts| layouts[(i + size[1]) % layouts.len()].clone()) {
                    let promoted = a.dtype().promote(b.dtype());
                    let to = |x: &Array| values(&x.cast(promoted));
                    let y = function(a, b.clone());
                    let step = (y.size() / 500).max(1);
                    let found = values(&y);
                    let single = y.dtype() == DType::F32;
                    let cancels = name == "logaddexp";
                    for (k, (a, b)) in to(a).into_iter().zip(to(&b)).enumerate().step_by(step) {
                        let want = reference(a, b);
                        let want = if single && ["remainder", "fmod"].contains(&name) {
                            f64::from(want as f32)
                        } else {
                            want
                        };
                        // Near its zeros, logaddexp is exact to a part of its arguments.
                        if cancels {
                            let tolerance = if single { 3e-6 } else { 1e-14 };
                            assert!((found[k] - want).abs() < tolerance, "{name}({a}, {b})");
                            continue;
                        }
                        let tolerance = if single { 6e-7 } else { 4e-15 };
                        assert_close(
                            &format!("{name}({a}, {b})"),
                            found[k] + 0.0,
                            want + 0.0,
                            tolerance,
                        );
                    }
                    let again = values(&by_value(a.clone(), b));
                    let same = |(x, y): (&f64, &f64)| x == y || x.is_nan() && y.is_nan();
                    assert!(again.iter().zip(&found).all(same), "{name} by value");
                }
            }
        }
    }
}

#[test]
fn functions_of_two_arrays_at_special_points() {
    let special = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        0.0,
        -0.0,
        1.0,
        -1.0,
        3.5,
    ];
    let propagating = |choose: fn(f64, f64) -> f64| {
        move |a: f64, b: f64| {
            if a.is_nan() || b.is_nan() {
                f64::NAN
            } else {
                choose(a, b)
            }
        }
    };
    for a in special {
        for b in special {
            let at = |function: fn(Array, Array) -> Array| {
                let single = function(Array::from(a as f32), Array::from(b as f32));
                let double = function(Array::from(a), Array::from(b))
                    .cast(DType::F64)
                    .item();
                let widened = single.cast(DType::F64).item::<f64>();
                let same =
                    widened.is_nan() && f64::is_nan(double) || widened as f32 == double as f32;
                assert!(same, "{a} {b}: {widened} in f32, {double} in f64");
                double
            };
            let check = |name: &str, found: f64, want: f64| {
                assert_close(&format!("{name}({a}, {b})"), found, want, 1e-15);
            };
            check("add", at(ops::add), a + b);
            check("divide", at(ops::divide), a / b);
            check("fmod", at(ops::fmod), a % b);
            check("atan2", at(ops::atan2), a.atan2(b));
            check("hypot", at(ops::hypot), a.hypot(b));
            check("pow", at(ops::pow), a.powf(b));
            check(
                "maximum",
                at(ops::maximum).abs(),
                propagating(f64::max)(a, b).abs(),
            );
            check(
                "minimum",
                at(ops::minimum).abs(),
                propagating(f64::min)(a, b).abs(),
            );
            check("less", at(ops::less), number(a < b));
            check("equal", at(ops::equal), number(a == b));
            check("not_equal", at(ops::not_equal), number(a != b));
            let (quotient, remainder) = (at(ops::floor_divide), at(ops::remainder));
            if b == 0.0 {
                check("floor_divide", quotient, a / b);
                check("remainder", remainder, f64::NAN);
            } else if a.is_finite() && b.is_finite() {
                assert_eq!((quotient, remainder), python_divmod(a, b));
            } else if a.is_finite() && !b.is_nan() {
                // Python: 3 // inf is 0 and -3 // inf is -1.
                let below = a != 0.0 && (a < 0.0) != (b < 0.0);
                assert_eq!(quotient, if below { -1.0 } else { 0.0 });
                assert_eq!(remainder, if below { b } else { a });
            } else {
                assert!(quotient.is_nan() && remainder.is_nan(), "{a} // {b}");
            }
        }
    }
    assert_close(
        "logaddexp",
        Array::from(1e4).logaddexp(1e4).item(),
        1e4 + LN_2,
        1e-15,
    );
    // The quotient rounds to 10, the remainder does not vanish.
    assert_eq!(Array::from(1.0).floor_divide(0.1).item::<f64>(), 9.0);
    assert_eq!(Array::from(1.0).remainder(0.1).item::<f64>(), 1.0 % 0.1);
}

#[test]
fn integers_wrap_around_and_survive_zero() {
    let extremes = [i64::MIN, i64::MIN + 1, -7, -1, 0, 1, 2, 7, i64::MAX];
    for a in extremes {
        for b in extremes {
            let at = |function: fn(Array, Array) -> Array| {
                function(Array::from(vec![a; 3]), Array::from(vec![b; 3])).to_vec::<i64>()[1]
            };
            assert_eq!(at(ops::add), a.wrapping_add(b));
            assert_eq!(at(ops::subtract), a.wrapping_sub(b));
            assert_eq!(at(ops::multiply), a.wrapping_mul(b));
            let wide = |x: i128| x as i64;
            let (a, b) = (i128::from(a), i128::from(b));
            if b == 0 {
                assert_eq!(
                    [at(ops::floor_divide), at(ops::remainder), at(ops::fmod)],
                    [0; 3]
                );
                continue;
            }
            let floor = a.div_euclid(b) - i128::from(b < 0 && a.rem_euclid(b) != 0);
            assert_eq!(at(ops::floor_divide), wide(floor), "{a} // {b}");
            assert_eq!(at(ops::remainder), wide(a - floor * b), "{a} % {b}");
            assert_eq!(at(ops::fmod), wide(a % b));
        }
    }
    assert_eq!(
        (Array::from([1, 0, -1]) / 0).to_vec::<f64>()[..1],
        [f64::INFINITY]
    );
    assert_eq!(
        (Array::from([7, 8]) / Array::from([2, 0])).dtype(),
        DType::F64
    );
}

#[test]
fn powers() {
    let x = Array::from([1.7, -2.3, 0.0, 1e5]);
    for exponent in [-1, 1, 2, 3, 4] {
        let want: Vec<f64> = x.to_vec::<f64>().iter().map(|x| x.powi(exponent)).collect();
        assert_all_close("pow", &x.pow(exponent), &want);
        assert_all_close("pow", &x.pow(f64::from(exponent)), &want);
        assert_all_close(
            "pow",
            &x.pow(Array::from(vec![f64::from(exponent); 4])),
            &want,
        );
    }
    assert_eq!(x.pow(2).to_vec::<f64>(), x.square().to_vec::<f64>());
    assert_eq!(
        Array::from([f64::NAN, 2.0]).pow(0).to_vec::<f64>(),
        [1.0, 1.0]
    );
    assert_eq!(Array::from([2.0f32]).pow(0.5).dtype(), DType::F32);
    assert_eq!(
        Array::from([3, -2])
            .pow(Array::from([[3], [0]]))
            .to_vec::<i64>(),
        [27, -8, 1, 1]
    );
    assert_eq!(
        Array::from([3i64]).pow(i64::MAX).to_vec::<i64>(),
        [power_of_three(i64::MAX)]
    );
    assert_eq!(Array::from([4, 9]).pow(0.5).to_vec::<f64>(), [2.0, 3.0]);
    assert_eq!(
        Array::from([true, false])
            .pow(Array::from([true, true]))
            .to_vec::<i64>(),
        [1, 0]
    );
    assert_eq!(
        Array::from([true, false]).pow(2.0).to_vec::<f64>(),
        [1.0, 0.0]
    );
    let negative = attempt(|| Array::from([1, 2]).pow(Array::from([1, -1])));
    assert!(matches!(
        negative,
        Err(Error::Invalid {
            function: "pow",
            ..
        })
    ));
    let base = Array::from([1.5, 2.0]);
    assert_eq!(base.pow(Array::from(2)).to_vec::<f64>(), [2.25, 4.0]);
}

/// `3^exponent` modulo `2^64`, from the order of 3, which is `2^62`.
fn power_of_three(exponent: i64) -> i64 {
    let mut power: i64 = 1;
    for bit in (0..62).rev() {
        power = power.wrapping_mul(power);
        if exponent >> bit & 1 == 1 {
            power = power.wrapping_mul(3);
        }
    }
    power
}

#[test]
fn operators_take_arrays_references_and_numbers_on_either_side() {
    let x = Array::from([1.0, -2.5]);
    let y = Array::from([4.0, 3.0]);
    macro_rules! check {
        ($($operator:tt $assign:tt $expected:expr;)+) => {$(
            let expected: fn(f64, f64) -> f64 = $expected;
            let want = [expected(1.0, 4.0), expected(-2.5, 3.0)];
            assert_eq!((x.clone() $operator y.clone()).to_vec::<f64>(), want);
            assert_eq!((&x $operator y.clone()).to_vec::<f64>(), want);
            assert_eq!((x.clone() $operator &y).to_vec::<f64>(), want);
            assert_eq!((&x $operator &y).to_vec::<f64>(), want);
            let mut z = x.clone();
            z $assign &y;
            assert_eq!(z.to_vec::<f64>(), want);
            let want = [expected(1.0, 3.0), expected(-2.5, 3.0)];
            assert_eq!((&x $operator 3.0).to_vec::<f64>(), want);
            assert_eq!((&x $operator 3.0f32).to_vec::<f64>(), want);
            assert_eq!((&x $operator 3).to_vec::<f64>(), want);
            assert_eq!((x.clone() $operator 3i64).to_vec::<f64>(), want);
            let mut z = x.clone();
            z $assign 3;
            assert_eq!(z.to_vec::<f64>(), want);
            let want = [expected(3.0, 1.0), expected(3.0, -2.5)];
            assert_eq!((3.0 $operator &x).to_vec::<f64>(), want);
            assert_eq!((3.0 $operator x.clone()).to_vec::<f64>(), want);
            assert_eq!((3 $operator &x).to_vec::<f64>(), want);
            assert_eq!((3 $operator x.clone()).to_vec::<f64>(), want);
        )+};
    }
    check! {
        + += |a, b| a + b;
        - -= |a, b| a - b;
        * *= |a, b| a * b;
        / /= |a, b| a / b;
        % %= |a, b| python_divmod(a, b).1;
    }
    assert_eq!((-&x).to_vec::<f64>(), [-1.0, 2.5]);
    assert_eq!((-x).to_vec::<f64>(), [-1.0, 2.5]);
}

#[test]
fn bits_and_logic() {
    let (a, b) = (
        Array::from([true, true, false]),
        Array::from([true, false, false]),
    );
    assert_eq!((&a & &b).to_vec::<bool>(), [true, false, false]);
    assert_eq!((&a | &b).to_vec::<bool>(), [true, true, false]);
    assert_eq!((&a ^ &b).to_vec::<bool>(), [false, true, false]);
    assert_eq!((!&a).to_vec::<bool>(), [false, false, true]);
    assert_eq!((true ^ &a).to_vec::<bool>(), [false, false, true]);
    assert_eq!(a.logical_xor(&b).to_vec::<bool>(), [false, true, false]);
    assert_eq!((&a + &b).to_vec::<bool>(), [true, true, false]);
    assert_eq!((&a * &b).to_vec::<bool>(), [true, false, false]);
    assert_eq!((&a - &b).to_vec::<i64>(), [0, 1, 0]);
    assert_eq!(a.maximum(&b).to_vec::<bool>(), [true, true, false]);
    assert_eq!(a.less(&b).to_vec::<bool>(), [false; 3]);
    assert_eq!(b.less(&a).to_vec::<bool>(), [false, true, false]);
    let n = Array::from([6, -1]);
    assert_eq!((&n & 3).to_vec::<i64>(), [2, 3]);
    assert_eq!((1 | &n).to_vec::<i64>(), [7, -1]);
    assert_eq!((&n ^ true).to_vec::<i64>(), [7, -2]);
    assert_eq!((!n).to_vec::<i64>(), [-7, 0]);
    let mut c = a;
    c &= b;
    c |= false;
    c ^= true;
    assert_eq!(c.to_vec::<bool>(), [false, true, true]);
    for refused in [
        attempt(|| Array::from([1.0]) & 1),
        attempt(|| !Array::from([1.0])),
        attempt(|| Array::from([1.0]).bitwise_or(Array::from([true]))),
    ] {
        assert!(matches!(refused, Err(Error::Invalid { .. })));
    }
}

#[test]
fn dtypes_of_mixed_operands() {
    let of = |dtype| Array::ones([2], dtype);
    for a in DTYPES {
        for b in DTYPES {
            let want = a.promote(b);
            assert_eq!((of(a) + of(b)).dtype(), want);
            let quotient = if want.is_float() { want } else { DType::F64 };
            assert_eq!((of(a) / of(b)).dtype(), quotient);
            assert_eq!(of(a).atan2(of(b)).dtype(), quotient);
            assert_eq!(of(a).less(of(b)).dtype(), DType::Bool);
            assert_eq!(of(a).maximum(of(b)).dtype(), want);
        }
        let of_float = if a.is_float() { a } else { DType::F64 };
        assert_eq!((of(a) * 0.5).dtype(), of_float);
        assert_eq!((of(a) * 0.5f32).dtype(), of_float);
        assert_eq!((0.5 * of(a)).dtype(), of_float);
        let of_integer = if a == DType::Bool { DType::I64 } else { a };
        assert_eq!((of(a) * 2).dtype(), of_integer);
        assert_eq!((2 - of(a)).dtype(), of_integer);
        assert_eq!(of(a).maximum(true).dtype(), a);
        assert_eq!(of(a).clip(0.0, 1.0).dtype(), of_float);
    }
    // Comparing with a fraction must not cut it off.
    assert_eq!(
        Array::from([0, 1]).less(0.5).to_vec::<bool>(),
        [true, false]
    );
    assert_eq!(
        ArrayLike::from(Scalar::F64(2.5))
            .beside(DType::F32)
            .item::<f64>(),
        2.5
    );
}

#[test]
fn operands_that_are_moved_give_their_memory() {
    let address = |x: &Array| x.as_slice::<f64>().expect("in a row").as_ptr();
    let x = Array::from(vec![0.5; 5000]);
    let start = address(&x);
    let y = ops::exp(-(x * 2.0 + 1.0)).maximum(0.0);
    assert_ne!(address(&y), start, "maximum borrows");
    drop(y);
    let x = Array::from(vec![0.5; 5000]);
    let start = address(&x);
    let y = ops::maximum(ops::tanh(1.0 - x), Array::scalar(0.25));
    assert_eq!(address(&y), start);
    let y = Array::full([5000], 2.0) + y;
    assert_eq!(address(&y), start);
    let mut y = ops::clip(y, Array::scalar(0.0), Array::scalar(2.25));
    y += 1;
    y *= Array::full([5000], 2.0);
    assert_eq!(address(&y), start);
    let kept = y.clone();
    y -= 1.0;
    assert_ne!(address(&y), start);
    assert_eq!(kept.to_vec::<f64>()[0], y.to_vec::<f64>()[0] + 1.0);
    let y = ops::where_(Array::full([5000], true), y, Array::scalar(0.0));
    let start = address(&y);
    assert_eq!(address(&ops::cast(y, DType::F64)), start);
}

#[test]
fn assignment_keeps_shape_and_dtype_or_refuses_and_leaves_the_array_whole() {
    let mut x = Array::from([1.0f32, 2.0]);
    x += Array::from([0.5, 0.25]);
    assert_eq!(
        (x.dtype(), x.to_vec::<f32>()),
        (DType::F32, vec![1.5, 2.25])
    );
    let mut n = Array::from([1, 2]);
    for refused in [
        attempt(|| n += 0.5),
        attempt(|| n /= 2),
        attempt(|| n += Array::from([[1, 2], [3, 4]])),
        attempt(|| n += Array::from([1, 2, 3])),
    ] {
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    }
    assert_eq!(n.to_vec::<i64>(), [1, 2]);
    n %= 2;
    n -= true;
    assert_eq!(n.to_vec::<i64>(), [0, -1]);
    let mut b = Array::from([true, false]);
    let refused: Result<(), Error> = attempt(|| b -= Array::from([true, true]));
    let refused = refused.expect_err("i64 does not fit bool");
    assert!(
        refused
            .to_string()
            .starts_with("sub_assign: the result is i64"),
        "{refused}"
    );
    assert_eq!(b.to_vec::<bool>(), [true, false]);
    let mut z = Array::zeros([2, 2], DType::F64);
    z += Array::from([1.0, 2.0]);
    assert_eq!(z.to_vec::<f64>(), [1.0, 2.0, 1.0, 2.0]);
}

#[test]
fn shapes_that_do_not_broadcast_are_told_with_the_place() {
    let (a, b) = (
        Array::zeros([2, 3], DType::F32),
        Array::zeros([4], DType::F32),
    );
    let line = line!() + 1;
    let sum = attempt(|| &a + &b);
    let Err(Error::Broadcast {
        function: "add",
        left,
        right,
        location,
    }) = sum
    else {
        panic!("{sum:?}")
    };
    assert_eq!((&left, &right), (a.shape(), b.shape()));
    assert_eq!((location.file(), location.line()), (file!(), line));
    for location in [
        attempt(|| a.atan2(&b)),
        attempt(|| ops::where_(a.clone(), b.clone(), 1.0.into())),
    ]
    .map(|failed: Result<Array, Error>| match failed {
        Err(Error::Broadcast { location, .. }) => location,
        other => panic!("{other:?}"),
    }) {
        assert_eq!(location.file(), file!());
    }
}

#[test]
fn clip_over_layouts_and_special_points() {
    for size in SIZES {
        for x in layouts(size, wave) {
            let want: Vec<f64> = values(&x).iter().map(|x| x.clamp(-1.0, 2.0)).collect();
            assert_eq!(x.clip(-1.0, 2.0).to_vec::<f64>(), want);
            let low = Array::full([size[0], 1], -1.0);
            assert_eq!(x.clip(low, 2).to_vec::<f64>(), want);
        }
        for x in layouts(size, integer) {
            let want: Vec<i64> = x.to_vec::<i64>().iter().map(|&x| x.clamp(-2, 3)).collect();
            assert_eq!(x.clip(-2, 3).to_vec::<i64>(), want);
        }
    }
    let nan = f64::NAN;
    let found = Array::from([nan, 1.0, 5.0]).clip(0.0, 3.0).to_vec::<f64>();
    assert!(found[0].is_nan() && found[1..] == [1.0, 3.0]);
    assert!(Array::from(1.0).clip(nan, 3.0).item::<f64>().is_nan());
    assert!(Array::from(1.0).clip(0.0, nan).item::<f64>().is_nan());
    assert_eq!(
        Array::from([0.0, 9.0]).clip(5.0, 3.0).to_vec::<f64>(),
        [3.0, 3.0]
    );
    assert_eq!(
        Array::from([0.0f32])
            .clip(f64::NEG_INFINITY, -0.5)
            .to_vec::<f32>(),
        [-0.5]
    );
    assert_eq!(
        Array::from([true, false]).clip(true, true).to_vec::<bool>(),
        [true, true]
    );
}

#[test]
fn where_over_layouts_and_types() {
    for size in SIZES {
        let conditions = layouts(size, |i| integer(i) > 0);
        for (i, condition) in conditions.iter().enumerate() {
            let a = &layouts(size, wave)[(i + 1) % 7];
            let b = &layouts(size, |i| wave(i) as f32 + 1.0)[(i + 2) % 7];
            let want: Vec<f64> = (condition.to_vec::<bool>().into_iter())
                .zip(values(a).into_iter().zip(values(b)))
                .map(|(condition, (a, b))| if condition { a } else { b })
                .collect();
            assert_eq!(condition.where_(a, b).to_vec::<f64>(), want);
            assert_eq!(
                condition.cast(DType::F32).where_(a, b).to_vec::<f64>(),
                want
            );
        }
    }
    let condition = Array::from([true, false]);
    assert_eq!(condition.where_(1, 2).to_vec::<i64>(), [1, 2]);
    assert_eq!(condition.where_(1.5, 2).to_vec::<f64>(), [1.5, 2.0]);
    assert_eq!(
        condition.where_(true, &condition).to_vec::<bool>(),
        [true, false]
    );
    let y = condition.where_(Array::from([[1.0f32], [2.0]]), 0.0);
    assert_eq!(y.to_vec::<f32>(), [1.0, 0.0, 2.0, 0.0]);
    assert!(
        Array::from(true)
            .where_(f64::NAN, 0.0)
            .item::<f64>()
            .is_nan()
    );
}

#[test]
fn casts_agree_with_those_of_single_values() {
    let special = [
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
        -0.0,
        1e300,
        -1e300,
        2.9,
        -2.9,
    ];
    let sources = [
        Array::from(special),
        Array::from(special.map(|x| x as f32)),
        Array::from([i64::MIN, i64::MAX, 0, 1, (1 << 53) + 1]),
        Array::from([true, false]),
    ];
    for x in &sources {
        for dtype in [DType::Bool, DType::I64, DType::F32, DType::F64] {
            let y = x.cast(dtype);
            for i in 0..x.size() {
                let (found, want) = (y.element(&[i]), x.element(&[i]).cast(dtype));
                assert_eq!(found.dtype(), dtype);
                let same = found == want || found.to_f64().is_nan() && want.to_f64().is_nan();
                assert!(
                    same,
                    "{:?} as {dtype}: {found:?}, {want:?}",
                    x.element(&[i])
                );
            }
        }
    }
    for size in SIZES {
        for x in layouts(size, wave) {
            let want: Vec<i64> = values(&x).iter().map(|&x| x as i64).collect();
            assert_eq!(x.cast(DType::I64).to_vec::<i64>(), want);
        }
    }
}
