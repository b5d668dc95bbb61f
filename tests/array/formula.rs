//! Formulas as data: what they print, and that what is written of them computes what the loops do.

use std::process::Command;

use bibun_array::formula::{Formula, Operation, Symbol, SymbolicTruth, Type};
use bibun_array::math::{Float, Machine};
use bibun_array::{
    Array, DType, Element, Generator, Kernel, Mask, Number, Scalar, ops, run_kernel,
};

fn unary(f: impl Fn(Number<Symbol>) -> Number<Symbol>) -> Formula {
    Formula::trace(1, 0, |x, _| f(x[0]))
}

#[test]
fn a_formula_prints_what_it_does() {
    let gelu = unary(|x| 0.5 * x * (1.0 + (0.7978845608 * (x + 0.044715 * x * x * x)).tanh()));
    assert_eq!(
        gelu.to_string(),
        "v0 = 0.5 * x0\nv1 = 0.044715 * x0\nv2 = v1 * x0\nv3 = v2 * x0\nv4 = x0 + v3\n\
         v5 = 0.7978845608 * v4\nv6 = tanh(v5)\nv7 = 1 + v6\nv0 * v7"
    );
    let leaky = Formula::trace(1, 1, |x, c| x[0].greater(0.0).where_(x[0], c[0] * x[0]));
    assert_eq!((leaky.inputs(), leaky.given()), (1, 1));
    assert_eq!(
        leaky.to_string(),
        "v0 = 0 < x0\nv1 = c0 * x0\nwhere(v0, x0, v1)"
    );
}

#[test]
fn what_is_the_same_is_written_once_and_what_nobody_needs_not_at_all() {
    let formula = unary(|x| {
        let _unused = x.exp();
        let a = (x + 1.0) * (x + 1.0);
        a * 1.0 / 1.0
    });
    assert_eq!(formula.to_string(), "v0 = x0 + 1\nv0 * v0");
    assert_eq!(formula, unary(|x| (x + 1.0) * (x + 1.0)));
    assert_ne!(formula, unary(|x| (x + 1.0) * (x + 2.0)));
}

#[test]
fn formulas_of_formulas() {
    let add = Formula::trace(2, 1, |x, c| x[0] + c[0] * x[1]);
    let composed = add.of(&[
        &unary(|x| x.exp()),
        &Formula::trace(1, 1, |x, c| x[0] * c[0]),
    ]);
    assert_eq!((composed.inputs(), composed.given()), (2, 2));
    assert_eq!(
        composed.to_string(),
        "v0 = exp(x0)\nv1 = x1 * c1\nv2 = c0 * v1\nv0 + v2"
    );
}

/// Functions of `math` without a branch: the name, how it is traced, and how the loops compute it.
macro_rules! functions {
    ($macro:ident) => {
        $macro! {
            unary: exp exp_of_negative exp2 expm1 ln log2 log10 log1p sigmoid log_sigmoid logistic_density softplus
                asin acos atan sinh cosh tanh asinh acosh atanh erf erfc erfinv
                normal_distribution normal_density gelu rsqrt cbrt sqrt abs sign floor ceil trunc round square reciprocal one_minus_square;
            single: sin cos tan;
            binary: atan2 hypot powf logaddexp maximum minimum direction inversion copysign;
        }
    };
}

/// Arguments at which a function is compared: special ones, and bits at random, with many of
/// moderate size among them.
fn arguments_f32(count: usize, mut state: u64) -> Vec<f32> {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        2.0,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MIN_POSITIVE,
        -f32::MIN_POSITIVE,
        f32::from_bits(1),
        -f32::from_bits(1),
        f32::MAX,
        f32::MIN,
        1e-40,
        -1e-40,
        88.8,
        -87.4,
        103.9,
        16777216.0,
    ];
    let mut x = special.to_vec();
    while x.len() < count {
        let bits = next(&mut state);
        x.push(match bits >> 62 {
            0 => f32::from_bits(bits as u32),
            1 => (bits as u32 as f32 / 2f32.powi(31) - 1.0) * 100.0,
            2 => (bits as u32 as f32 / 2f32.powi(31) - 1.0) * 4.0,
            _ => bits as u32 as f32 / 2f32.powi(32) * 2.0 - 1.0,
        });
    }
    x
}

fn arguments_f64(count: usize, mut state: u64) -> Vec<f64> {
    let special = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        2.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        f64::MIN_POSITIVE,
        -f64::MIN_POSITIVE,
        f64::from_bits(1),
        -f64::from_bits(1),
        f64::MAX,
        f64::MIN,
        1e-310,
        -1e-310,
        709.8,
        -745.2,
        1e16,
    ];
    let mut x = special.to_vec();
    while x.len() < count {
        let bits = next(&mut state);
        let unit = (bits >> 11) as f64 / 2f64.powi(53);
        x.push(match bits & 3 {
            0 => f64::from_bits(next(&mut state)),
            1 => (unit * 2.0 - 1.0) * 700.0,
            2 => (unit * 2.0 - 1.0) * 4.0,
            _ => unit * 2.0 - 1.0,
        });
    }
    x
}

/// Splitmix64.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e3779b97f4a7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
    z ^ (z >> 31)
}

fn formula_of(name: &str) -> Formula {
    macro_rules! find {
        (unary: $($one:ident)*; single: $($single:ident)*; binary: $($two:ident)*;) => {
            match name {
                $(stringify!($one) => unary(|x| Number(Float::$one(x.0))),)*
                $(stringify!($single) => unary(|x| Number(Float::$single(x.0))),)*
                $(stringify!($two) => Formula::trace(2, 0, |x, _| Number(Float::$two(x[0].0, x[1].0))),)*
                _ => unreachable!(),
            }
        };
    }
    functions!(find)
}

/// Every function of `math` without a branch, in CUDA C.
fn text_of_all() -> String {
    let mut text = String::new();
    macro_rules! write_all {
        (unary: $($one:ident)*; single: $($single:ident)*; binary: $($two:ident)*;) => {
            for name in [$(stringify!($one),)* $(stringify!($two),)*] {
                for (suffix, precision) in [("f32", Type::Single), ("f64", Type::Double)] {
                    let formula = formula_of(name);
                    let kernel = formula.cuda(&format!("{name}_{suffix}"), precision);
                    text += &kernel.expect("it has no branch");
                }
            }
            for name in [$(stringify!($single),)*] {
                let kernel = formula_of(name).cuda(&format!("{name}_f32"), Type::Single);
                text += &kernel.expect("it has no branch in f32");
            }
        };
    }
    functions!(write_all);
    text
}

#[test]
fn the_text_for_cuda() {
    let leaky = Formula::trace(1, 1, |x, c| x[0].greater(0.0).where_(x[0], c[0] * x[0]));
    let mut text = leaky.cuda("leaky_relu", Type::Single).expect("no branch");
    for (name, precision) in [("exp_f32", Type::Single), ("tanh_f64", Type::Double)] {
        let formula = formula_of(name.split('_').next().expect("a name"));
        text += &formula.cuda(name, precision).expect("no branch");
    }
    let momentum = Formula::trace(3, 2, |x, c| {
        let v = c[0] * x[2] - c[1] * x[1];
        vec![x[0] + v, v]
    });
    text += &momentum.cuda("momentum", Type::Single).expect("no branch");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../golden/array/kernels.cu");
    if std::env::var_os("BIBUN_WRITE_GOLDEN").is_some() {
        std::fs::write(path, &text).expect("the golden file can be written");
    }
    let golden = std::fs::read_to_string(path).expect("the golden file is there");
    assert!(
        text == golden,
        "the text differs from {path}; BIBUN_WRITE_GOLDEN=1 writes it anew:\n{text}"
    );
    assert!(
        Formula::trace(1, 0, |x, _| x[0].digamma())
            .cuda("digamma", Type::Double)
            .is_none()
    );
}

#[test]
fn functions_that_branch_say_so() {
    let branching = |precision| {
        let all = Operation::ALL
            .iter()
            .filter(move |operation| operation.branches(precision));
        all.map(|operation| operation.name()).collect::<Vec<_>>()
    };
    assert_eq!(branching(Type::Single), ["lgamma", "digamma", "fmod"]);
    assert_eq!(
        branching(Type::Double),
        ["sin", "cos", "tan", "lgamma", "digamma", "fmod"]
    );
}

/// What CUDA has and C has not, and a loop over the "threads" of one block.
pub(crate) const PRELUDE: &str = r#"
#include <math.h>
#include <stdbool.h>
#include <string.h>
#define __global__
#define __restrict__ restrict
struct dim { unsigned x; };
static const struct dim gridDim = {1}, blockDim = {1}, blockIdx = {0}, threadIdx = {0};
static inline unsigned __float_as_uint(float x) { unsigned y; memcpy(&y, &x, 4); return y; }
static inline float __uint_as_float(unsigned x) { float y; memcpy(&y, &x, 4); return y; }
static inline long long __double_as_longlong(double x) { long long y; memcpy(&y, &x, 8); return y; }
static inline double __longlong_as_double(long long x) { double y; memcpy(&y, &x, 8); return y; }
"#;

/// Reads the arguments of each function from a file and writes its values to another.
const MAIN: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static void *all(const char *path, size_t bytes) {
  void *x = malloc(bytes);
  FILE *file = fopen(path, "rb");
  if (!file || fread(x, 1, bytes, file) != bytes) exit(1);
  fclose(file);
  return x;
}
int main(int count, char **paths) {
  size_t n = COUNT;
  float *af = all(paths[1], 4 * n), *bf = all(paths[2], 4 * n), *yf = malloc(4 * n);
  double *ad = all(paths[3], 8 * n), *bd = all(paths[4], 8 * n), *yd = malloc(8 * n);
  FILE *out = fopen(paths[5], "wb");
  CALLS
  return fclose(out);
}
"#;

/// The C compiler of this machine, if it has one.
pub(crate) fn compiler() -> Option<&'static str> {
    let runs = |compiler: &&str| Command::new(compiler).arg("--version").output().is_ok();
    let found = ["cc", "gcc", "clang"].into_iter().find(runs);
    if found.is_none() {
        eprintln!("skipped: there is no C compiler");
    }
    found
}

#[test]
fn the_text_computes_what_the_loops_do() {
    let Some(compiler) = compiler() else {
        return;
    };
    const COUNT: usize = 100_000;
    let folder = std::env::temp_dir().join(format!("bibun-formula-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    let (af, bf) = (arguments_f32(COUNT, 1), reversed(arguments_f32(COUNT, 2)));
    let (ad, bd) = (arguments_f64(COUNT, 3), reversed(arguments_f64(COUNT, 4)));
    let bytes_f32 = |x: &[f32]| x.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let bytes_f64 = |x: &[f64]| x.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let files = [
        ("af", bytes_f32(&af)),
        ("bf", bytes_f32(&bf)),
        ("ad", bytes_f64(&ad)),
        ("bd", bytes_f64(&bd)),
    ];
    for (name, bytes) in files {
        std::fs::write(folder.join(name), bytes).expect("a temporary file");
    }
    let mut calls = String::new();
    let mut expected: Vec<(String, Vec<u64>)> = Vec::new();
    macro_rules! compute {
        (unary: $($one:ident)*; single: $($single:ident)*; binary: $($two:ident)*;) => {
            $(
                calls += concat!(stringify!($one), "_f32(af, yf, n); fwrite(yf, 4, n, out);\n");
                let y = af.iter().map(|&x| bits_f32(Float::$one(x))).collect();
                expected.push((concat!(stringify!($one), " f32").to_owned(), y));
                calls += concat!(stringify!($one), "_f64(ad, yd, n); fwrite(yd, 8, n, out);\n");
                let y = ad.iter().map(|&x| bits_f64(Float::$one(x))).collect();
                expected.push((concat!(stringify!($one), " f64").to_owned(), y));
            )*
            $(
                calls += concat!(stringify!($single), "_f32(af, yf, n); fwrite(yf, 4, n, out);\n");
                let y = af.iter().map(|&x| bits_f32(Float::$single(x))).collect();
                expected.push((concat!(stringify!($single), " f32").to_owned(), y));
            )*
            $(
                calls += concat!(stringify!($two), "_f32(af, bf, yf, n); fwrite(yf, 4, n, out);\n");
                let y = af.iter().zip(&bf).map(|(&a, &b)| bits_f32(Float::$two(a, b))).collect();
                expected.push((concat!(stringify!($two), " f32").to_owned(), y));
                calls += concat!(stringify!($two), "_f64(ad, bd, yd, n); fwrite(yd, 8, n, out);\n");
                let y = ad.iter().zip(&bd).map(|(&a, &b)| bits_f64(Float::$two(a, b))).collect();
                expected.push((concat!(stringify!($two), " f64").to_owned(), y));
            )*
        };
    }
    functions!(compute);
    let main = MAIN
        .replace("COUNT", &COUNT.to_string())
        .replace("CALLS", &calls);
    let text = format!(
        "{PRELUDE}{}{main}",
        text_of_all().replace("extern \"C\" ", "static ")
    );
    let (source, program, output) = (folder.join("all.c"), folder.join("all"), folder.join("y"));
    std::fs::write(&source, text).expect("a temporary file");
    let compiled = Command::new(compiler)
        .args(["-O1", "-std=c11", "-ffp-contract=off", "-o"])
        .args([&program, &source])
        .arg("-lm")
        .output()
        .expect("the compiler runs");
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    let inputs = ["af", "bf", "ad", "bd"].map(|name| folder.join(name));
    let status = Command::new(&program).args(inputs).arg(&output).status();
    assert!(status.expect("the program runs").success());
    let bytes = std::fs::read(&output).expect("the program has written its values");
    std::fs::remove_dir_all(&folder).expect("the temporary files can be removed");
    let mut rest = &bytes[..];
    for (name, expected) in expected {
        let width = if name.ends_with("f32") { 4 } else { 8 };
        let (own, others) = rest.split_at(width * COUNT);
        rest = others;
        let got = own.chunks(width).map(|y| match width {
            4 => bits_f32(f32::from_le_bytes(y.try_into().expect("4 bytes"))),
            _ => bits_f64(f64::from_le_bytes(y.try_into().expect("8 bytes"))),
        });
        let different: Vec<usize> = got
            .zip(&expected)
            .enumerate()
            .filter(|(_, (a, b))| a != *b)
            .map(|(i, _)| i)
            .collect();
        let first = different.first().map(|&i| (af[i], bf[i], ad[i], bd[i]));
        assert!(
            different.is_empty(),
            "{name}: {} differ, the first at {first:?}",
            different.len()
        );
    }
    assert!(rest.is_empty());
}

fn reversed<T>(mut x: Vec<T>) -> Vec<T> {
    x.reverse();
    x
}

/// The bits, of all NaNs the same.
fn bits_f32(x: f32) -> u64 {
    u64::from(if x.is_nan() {
        f32::NAN.to_bits()
    } else {
        x.to_bits()
    })
}

fn bits_f64(x: f64) -> u64 {
    if x.is_nan() {
        f64::NAN.to_bits()
    } else {
        x.to_bits()
    }
}

/// A formula drawn at random: `size` operations of values before them.
fn random_formula(size: usize, state: &mut u64) -> Formula {
    Formula::trace(2, 1, |x, c| {
        let mut values = vec![x[0], x[1], c[0], Number(Symbol::from_f64(0.75))];
        for _ in 0..size {
            let mut pick = || values[next(state) as usize % values.len()];
            let (a, b, d) = (pick(), pick(), pick());
            values.push(match next(state) % 12 {
                0 => a + b,
                1 => a - b,
                2 => a * b,
                3 => a / b,
                4 => -a,
                5 => a.exp(),
                6 => a.tanh(),
                7 => a.greater(b).where_(d, a),
                8 => a
                    .less_equal(b)
                    .logical_or(d.is_nan())
                    .logical_not()
                    .where_(1.0, b),
                9 => a.maximum(b).minimum(d),
                10 => a.logistic_density(),
                _ => a.clip(-1.0, 2.0).direction(b),
            });
        }
        values[values.len() - 1]
    })
}

#[test]
fn formulas_without_a_loop_compute_what_their_operations_do_one_by_one() {
    let mut state = 7;
    for round in 0..60 {
        let formula = random_formula(1 + round % 40, &mut state);
        let kernel = Kernel::from_formula("random", &formula).with_given(&[1.25]);
        assert_eq!(kernel.formula(DType::F64).as_ref(), Some(&formula));
        for dtype in [DType::F32, DType::F64] {
            for size in [0, 1, 5, 1000, 5000] {
                let mut draw = Generator::new(round as u64);
                let x = [0, 1].map(|_| draw.normal([size], 0.0, 2.0, dtype));
                let one_by_one = evaluate(&formula, &x, 1.25);
                let y = run_kernel(&kernel, &mut { x });
                assert_eq!(
                    (y.dtype(), y.shape()),
                    (one_by_one.dtype(), one_by_one.shape())
                );
                let bits = |y: &Array| {
                    let y = y.cast(DType::F64).to_vec::<f64>();
                    y.into_iter().map(bits_f64).collect::<Vec<_>>()
                };
                assert!(bits(&y) == bits(&one_by_one), "{dtype} {size}: {formula}");
            }
        }
    }
}

#[test]
fn formulas_of_nothing_but_a_leaf() {
    let x = Array::from([1.5f32, -2.0]);
    let value = |formula: &Formula| {
        run_kernel(
            &Kernel::from_formula("leaf", formula).with_given(&[3.0]),
            &mut [x.clone()],
        )
    };
    assert_eq!(
        value(&Formula::trace(1, 1, |x, _| x[0])).to_vec::<f32>(),
        [1.5, -2.0]
    );
    assert_eq!(
        value(&Formula::trace(1, 1, |_, c| c[0])).to_vec::<f32>(),
        [3.0; 2]
    );
    assert_eq!(
        value(&unary(|_| Number::from(0.5))).to_vec::<f32>(),
        [0.5; 2]
    );
    assert_eq!(
        value(&unary(|_| Number::largest())).to_vec::<f32>(),
        [f32::MAX; 2]
    );
    let always = Formula::trace(1, 0, |_, _| Mask(SymbolicTruth::from(true)));
    assert_eq!(value(&always).to_vec::<bool>(), [true; 2]);
    let negative = Formula::trace(1, 0, |x, _| Mask(x[0].0.is_sign_negative()));
    assert_eq!(value(&negative).to_vec::<bool>(), [false, true]);
}

/// Each operation on whole arrays.
fn evaluate(formula: &Formula, x: &[Array], given: f64) -> Array {
    let mut values: Vec<Array> = Vec::new();
    let number = |n: f64| Array::full(x[0].shape(), Scalar::F64(n).cast(x[0].dtype()));
    for line in formula.lines() {
        let v = |i: usize| values[line.arguments()[i].index()].clone();
        let value = match line.operation() {
            Operation::Input(i) => x[usize::from(i)].clone(),
            Operation::Given(_) => number(given),
            Operation::Constant(bits) => number(f64::from_bits(bits)),
            Operation::Add => ops::add(v(0), v(1)),
            Operation::Subtract => ops::subtract(v(0), v(1)),
            Operation::Multiply => ops::multiply(v(0), v(1)),
            Operation::Divide => ops::divide(v(0), v(1)),
            Operation::Negative => ops::negative(v(0)),
            Operation::Exp => ops::exp(v(0)),
            Operation::Tanh => ops::tanh(v(0)),
            Operation::Less => ops::less(v(0), v(1)),
            Operation::LessEqual => ops::less_equal(v(0), v(1)),
            Operation::IsNan => ops::is_nan(v(0)),
            Operation::Or => ops::logical_or(v(0), v(1)),
            Operation::Not => ops::logical_not(v(0)),
            Operation::Select => ops::where_(v(0), v(1), v(2)),
            Operation::Maximum => ops::maximum(v(0), v(1)),
            Operation::Minimum => ops::minimum(v(0), v(1)),
            Operation::Clip => ops::clip(v(0), v(1), v(2)),
            Operation::LogisticDensity | Operation::Direction => {
                let b = line.arguments().last().expect("it has arguments");
                per_element(line.operation(), &v(0), &values[b.index()])
            }
            other => unreachable!("{other:?} is not drawn"),
        };
        values.push(value);
    }
    values[formula.result().index()].clone()
}

/// The two functions that arrays do not have.
fn per_element(operation: Operation, a: &Array, b: &Array) -> Array {
    fn values<T: Machine + Element>(operation: Operation, a: &Array, b: &Array) -> Array {
        let pairs = a.to_vec::<T>().into_iter().zip(b.to_vec::<T>());
        let values = pairs.map(|(a, b)| match operation {
            Operation::Direction => a.direction(b),
            _ => a.logistic_density(),
        });
        Array::from_vec(values.collect(), a.shape().clone())
    }
    match a.dtype() {
        DType::F32 => values::<f32>(operation, a, b),
        _ => values::<f64>(operation, a, b),
    }
}
