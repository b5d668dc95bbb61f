//! Elementwise functions at the limits of numbers: value, first and second derivatives at zeros,
//! subnormal numbers, both ends of the range, infinities and NaN, against the exact values in
//! `tests/golden/edges/edges.txt`, which `make.py` in that folder computed with many digits.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bibun_array::{Array, DType};

use crate::functions::*;
use crate::transformations::{grad, jvp};
use crate::variable::Variable;

/// The tolerances for values, first and second derivatives, in units in the last place of the exact
/// number. First derivatives are products of a few rounded factors, second ones sums of such
/// products.
const ULPS: [f64; 3] = [4.0, 16.0, 64.0];

/// Returns the tolerances of a function, with reasons for the larger ones.
fn ulps(function: &str) -> [f64; 3] {
    match function {
        // The tails of exponentials of rounded multiples and squares: their relative error grows
        // with the argument.
        "gelu" | "gelu_tanh" | "erf" | "erfc" | "celu" | "ndtr" | "normal_density" => [200.0; 3],
        // Computed to relative errors that their documentation states.
        "lgamma" | "digamma" | "polygamma" | "zeta" | "betaln" | "erfcx" | "i0" | "i1" | "j0"
        | "j1" | "y0" | "y1" | "k0" | "k1" | "k0e" | "k1e" | "exp1" | "expi" | "expn" => {
            [100.0, 200.0, 400.0]
        }
        "beta" | "ndtri" | "log_ndtr" | "i0e" | "i1e" => [1e4; 3],
        "gammainc" | "gammaincc" | "gammaincinv" | "gammainccinv" | "betainc" | "betaincinv" => {
            [1e4, 1e6, 1e8]
        }
        // The sigmoid of a rounded multiple.
        "logaddexp2" => [4.0, 2e3, 2e3],
        // x times a number that is already below the range of normal numbers.
        "silu" | "mish" => [64.0, 16.0, 64.0],
        _ => ULPS,
    }
}

/// A custom formula, which is only in the table of checks.
const OWN: &str = "wave";

/// Functions without derivatives, which are exact.
const PREDICATES: [&str; 13] = [
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "logical_not",
    "is_nan",
    "is_finite",
    "is_inf",
];

type Call = Box<dyn Fn(&[Variable]) -> Variable>;

macro_rules! calls {
    (
        unary { $($one:literal: $f:expr,)+ }
        binary { $($two:literal: $g:expr,)+ }
        of_three { $($three:literal: $h:expr,)+ }
    ) => {
        fn calls() -> BTreeMap<&'static str, Call> {
            fn unary(f: impl Fn(&Variable) -> Variable + 'static) -> Call {
                Box::new(move |x| f(&x[0]))
            }
            fn binary(f: impl Fn(&Variable, &Variable) -> Variable + 'static) -> Call {
                Box::new(move |x| f(&x[0], &x[1]))
            }
            fn of_three(
                f: impl Fn(&Variable, &Variable, &Variable) -> Variable + 'static,
            ) -> Call {
                Box::new(move |x| f(&x[0], &x[1], &x[2]))
            }
            BTreeMap::from([
                $(($one, unary($f)),)+
                $(($two, binary($g)),)+
                $(($three, of_three($h)),)+
            ])
        }
    };
}

calls! {
    unary {
        "exp": |x| exp(x),
        "exp2": |x| exp2(x),
        "expm1": |x| expm1(x),
        "log": |x| log(x),
        "log2": |x| log2(x),
        "log10": |x| log10(x),
        "log1p": |x| log1p(x),
        "sinh": |x| sinh(x),
        "cosh": |x| cosh(x),
        "tanh": |x| tanh(x),
        "asinh": |x| asinh(x),
        "acosh": |x| acosh(x),
        "atanh": |x| atanh(x),
        "sin": |x| sin(x),
        "cos": |x| cos(x),
        "tan": |x| tan(x),
        "asin": |x| asin(x),
        "acos": |x| acos(x),
        "atan": |x| atan(x),
        "sinc": |x| sinc(x),
        "degrees": |x| degrees(x),
        "radians": |x| radians(x),
        "sqrt": |x| sqrt(x),
        "rsqrt": |x| rsqrt(x),
        "cbrt": |x| cbrt(x),
        "reciprocal": |x| reciprocal(x),
        "square": |x| square(x),
        "pow_0": |x| pow(x, 0),
        "pow_1": |x| pow(x, 1),
        "pow_2": |x| pow(x, 2),
        "pow_3": |x| pow(x, 3),
        "pow_5": |x| pow(x, 5),
        "pow_-1": |x| pow(x, -1),
        "pow_-3": |x| pow(x, -3),
        "pow_0.5": |x| pow(x, 0.5),
        "pow_1.75": |x| pow(x, 1.75),
        "erf": |x| erf(x),
        "erfc": |x| erfc(x),
        "erfinv": |x| erfinv(x),
        "floor": |x| floor(x),
        "ceil": |x| ceil(x),
        "round": |x| round(x),
        "trunc": |x| trunc(x),
        "sign": |x| sign(x),
        "abs": |x| abs(x),
        "negative": |x| -x,
        "clip": |x| clip(x, -0.75, 0.875),
        "sigmoid": |x| sigmoid(x),
        "log_sigmoid": |x| log_sigmoid(x),
        "silu": |x| silu(x),
        "hardsigmoid": |x| hardsigmoid(x),
        "hardtanh": |x| hardtanh(x),
        "hardswish": |x| hardswish(x),
        "softsign": |x| softsign(x),
        "relu": |x| relu(x),
        "relu6": |x| relu6(x),
        "clipped_relu": |x| clipped_relu(x, 0.75),
        "leaky_relu": |x| leaky_relu(x, 0.25),
        "elu": |x| elu(x, 0.75),
        "selu": |x| selu(x),
        "celu": |x| celu(x, 0.75),
        "softplus": |x| softplus(x, 1.5),
        "mish": |x| mish(x),
        "gelu": |x| gelu(x),
        "gelu_tanh": |x| gelu_tanh(x),
        "tanhshrink": |x| tanhshrink(x),
        "softshrink": |x| softshrink(x, 0.75),
        "hardshrink": |x| hardshrink(x, 0.75),
        "threshold": |x| threshold(x, 0.75, 3.0),
        "huber": |x| huber(x, 0.75),
        "ndtr": |x| ndtr(x),
        "ndtri": |x| ndtri(x),
        "log_ndtr": |x| log_ndtr(x),
        "erfcx": |x| erfcx(x),
        "lgamma": |x| lgamma(x),
        "digamma": |x| digamma(x),
        "polygamma": |x| polygamma(1, x),
        "zeta": |q| zeta(2.5, q),
        "entr": |x| entr(x),
        "logit": |x| logit(x),
        "log1mexp": |x| log1mexp(x),
        "frac": |x| frac(x),
        "nan_to_num": |x| nan_to_num(x),
        "nan_to_num_with": |x| nan_to_num_with(x, 1.0, 2.0, 3.0),
        "i0": |x| i0(x),
        "i1": |x| i1(x),
        "i0e": |x| i0e(x),
        "i1e": |x| i1e(x),
        "j0": |x| j0(x),
        "j1": |x| j1(x),
        "y0": |x| y0(x),
        "y1": |x| y1(x),
        "k0": |x| k0(x),
        "k1": |x| k1(x),
        "k0e": |x| k0e(x),
        "k1e": |x| k1e(x),
        "exp1": |x| exp1(x),
        "expi": |x| expi(x),
        "expn": |x| expn(2, x),
        "normal_density": Variable::normal_density,
        "exp_of_negative": |x| (-x.abs()).exp_of_negative(),
        "logistic_density": Variable::logistic_density,
        "one_minus_square": Variable::one_minus_square,
    }
    binary {
        "add": |a, b| a + b,
        "subtract": |a, b| a - b,
        "multiply": |a, b| a * b,
        "divide": |a, b| a / b,
        "logaddexp": |a, b| logaddexp(a, b),
        "atan2": |a, b| atan2(a, b),
        "hypot": |a, b| hypot(a, b),
        "direction": |a, b| a.direction(b),
        "inversion": Variable::inversion,
        "pow": |a, b| pow(a, b),
        "swish": |x, beta| swish(x, beta),
        "fmod": |a, b| fmod(a, b),
        "remainder": |a, b| remainder(a, b),
        "maximum": |a, b| maximum(a, b),
        "minimum": |a, b| minimum(a, b),
        "copysign": |a, b| copysign(a, b),
        "heaviside": |a, b| heaviside(a, b),
        "fmax": |a, b| fmax(a, b),
        "fmin": |a, b| fmin(a, b),
        "logaddexp2": |a, b| logaddexp2(a, b),
        "xlogy": |a, b| xlogy(a, b),
        "xlog1py": |a, b| xlog1py(a, b),
        "rel_entr": |a, b| rel_entr(a, b),
        "beta": |a, b| beta(a, b),
        "betaln": |a, b| betaln(a, b),
        "gammainc": |a, x| gammainc(a, x),
        "gammaincc": |a, x| gammaincc(a, x),
        "gammaincinv": |a, p| gammaincinv(a, p),
        "gammainccinv": |a, q| gammainccinv(a, q),
        "squared_error": |a, b| squared_error(a, b),
        "absolute_error": |a, b| absolute_error(a, b),
        "sigmoid_cross_entropy": |x, t| sigmoid_cross_entropy_with(x, t, Reduction::None),
    }
    of_three {
        "betainc": |a, b, x| betainc(a, b, x),
        "betaincinv": |a, b, p| betaincinv(a, b, p),
    }
}

/// The lines of one function in one precision.
#[derive(Default)]
struct Table {
    /// One column for each argument.
    arguments: Vec<Vec<f64>>,
    /// One column for the value and each derivative; `None` where there is nothing to compare.
    results: Vec<Vec<Option<f64>>>,
}

fn tables() -> HashMap<(String, DType), Table> {
    let mut tables: HashMap<(String, DType), Table> = HashMap::new();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../golden/edges/edges.txt");
    for line in std::fs::read_to_string(path).expect(path).lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let dtype = if words[1] == "f32" {
            DType::F32
        } else {
            DType::F64
        };
        let equals = words.iter().position(|&word| word == "=").expect("results");
        let number = |word: &str| word.parse::<f64>().expect("a number");
        let table = tables.entry((words[0].to_owned(), dtype)).or_default();
        let arguments = words[2..equals].iter().map(|word| number(word));
        let results = words[equals + 1..].iter();
        let results = results.map(|&word| (word != "?").then(|| number(word)));
        table.arguments.resize(arguments.len(), Vec::new());
        table.results.resize(results.len(), Vec::new());
        (table.arguments.iter_mut().zip(arguments)).for_each(|(column, x)| column.push(x));
        (table.results.iter_mut().zip(results)).for_each(|(column, y)| column.push(y));
    }
    tables
}

/// Returns the distance from `wanted` to the next number of its precision.
fn spacing(wanted: f64, dtype: DType) -> f64 {
    match dtype == DType::F32 {
        true => {
            let size = (wanted.abs() as f32).min(f32::MAX);
            f64::from(size) - f64::from(f32::from_bits(size.to_bits().saturating_sub(1)))
        }
        false => {
            let size = wanted.abs();
            size - f64::from_bits(size.to_bits().saturating_sub(1))
        }
    }
}

/// Returns the error of `got` in units in the last place; infinity if only one of the two is a
/// number.
fn error(got: f64, wanted: f64, order: usize, dtype: DType) -> f64 {
    let (wanted, smallest, largest) = match dtype == DType::F32 {
        true => (
            f64::from(wanted as f32),
            f64::from(f32::MIN_POSITIVE),
            f64::from(f32::MAX),
        ),
        false => (wanted, f64::MIN_POSITIVE, f64::MAX),
    };
    // The factors of a derivative may underflow below the range of normal numbers.
    let lost = order > 0 && got.abs() <= smallest && wanted.abs() <= smallest;
    if got == wanted || got.is_nan() && wanted.is_nan() || lost {
        return 0.0;
    }
    let held = |x: f64| x.clamp(-largest, largest);
    match got.is_finite() == wanted.is_finite() {
        true if got.is_finite() => (got - wanted).abs() / spacing(wanted, dtype).max(5e-324),
        // Infinity instead of the largest number, or the other way round, is one step off.
        false if held(got) == held(wanted) => 1.0,
        _ => f64::INFINITY,
    }
}

/// Returns the orders of derivative of the columns of results.
fn orders(arguments: usize) -> &'static [usize] {
    match arguments {
        1 => &[0, 1, 2],
        2 => &[0, 1, 1, 2, 2, 2],
        _ => &[0, 1, 1, 1, 2, 2, 2, 2, 2, 2],
    }
}

/// Computes the value and all derivatives, in the order of the columns.
fn computed(call: &Call, x: &[Variable]) -> Vec<Variable> {
    let x = x.to_vec();
    let gradient = |x: &Vec<Variable>| grad(|x| call(x).sum(..), x);
    let mut results = vec![call(&x)];
    results.extend(gradient(&x));
    for i in 0..x.len() {
        let second = grad(|x| gradient(x)[i].sum(..), &x);
        results.extend(second.into_iter().skip(i));
    }
    results
}

/// Computes the derivative of a function of one argument by tangents.
fn tangent(call: &Call, x: &Variable) -> Variable {
    let one = Variable::constant(Array::ones(x.shape(), x.dtype()));
    jvp(|x| call(std::slice::from_ref(x)), x, &one).1
}

#[test]
fn values_and_derivatives_where_numbers_end() {
    let calls = calls();
    let mut wrong = Vec::new();
    let mut lines = 0;
    for ((name, dtype), table) in tables() {
        let call = &calls[&name[..]];
        let variable = |column: &Vec<f64>| {
            Variable::new(Array::from_vec(column.clone(), [column.len()]).cast(dtype))
        };
        let x: Vec<Variable> = table.arguments.iter().map(variable).collect();
        let labels: &[&str] = match x.len() {
            1 => &["value", "derivative", "second derivative"],
            2 => &["value", "a", "b", "aa", "ab", "bb"],
            _ => &["value", "a", "b", "c", "aa", "ab", "ac", "bb", "bc", "cc"],
        };
        let mut compare = |label: &str, order: usize, got: &Variable, wanted: &[Option<f64>]| {
            let got = got.cast(DType::F64).to_vec::<f64>();
            for (row, (&got, wanted)) in got.iter().zip(wanted).enumerate() {
                let Some(wanted) = *wanted else { continue };
                let error = error(got, wanted, order, dtype);
                if error > ulps(&name)[order] {
                    let at: Vec<f64> = table.arguments.iter().map(|x| x[row]).collect();
                    wrong.push(format!(
                        "{name} {dtype} at {at:?}: {label} {got:e}, not {wanted:e} ({error:.0} ulp)"
                    ));
                }
            }
        };
        for (column, got) in computed(call, &x).iter().enumerate() {
            compare(
                labels[column],
                orders(x.len())[column],
                got,
                &table.results[column],
            );
        }
        if let [x] = &x[..] {
            compare("tangent", 1, &tangent(call, x), &table.results[1]);
        }
        lines += table.arguments[0].len();
    }
    assert!(lines > 3000, "only {lines} lines");
    assert!(
        wrong.is_empty(),
        "{} numbers of {lines} lines are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn every_elementwise_function_is_in_the_table() {
    let tables = tables();
    // Powers have their exponents after the name.
    let function = |name: &'static str| name.strip_prefix("pow_").map_or(name, |_| "pow");
    let known: BTreeSet<&str> = calls().into_keys().map(function).collect();
    let elementwise: BTreeSet<&str> = (crate::functions::samples().iter())
        .filter(|sample| sample.elementwise && sample.name != OWN)
        .filter(|sample| !PREDICATES.contains(&sample.name))
        .map(|sample| sample.name)
        .collect();
    let missing: Vec<&&str> = elementwise.difference(&known).collect();
    assert!(
        missing.is_empty(),
        "without a row in make.py and here: {missing:?}"
    );
    for name in calls().into_keys() {
        for dtype in [DType::F32, DType::F64] {
            let table = tables.get(&(name.to_owned(), dtype));
            assert!(table.is_some(), "{name} {dtype} has no lines in edges.txt");
        }
    }
}
