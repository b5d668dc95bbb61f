//! What every kernel says that it computes: its formula, written in C, gives the elements that the CPU
//! gives, for all dtypes.

use std::any::Any;
use std::cell::RefCell;
use std::fmt::Write as _;
use std::process::Command;
use std::sync::Arc;

use bibun_array::formula::{Formula, Type};
use bibun_array::{Array, DType, Device, Error, Kernel, Memory, Scalar, Slice, attempt, cpu, ops};

use crate::common::Numbers;
use crate::formula::{PRELUDE, compiler};
use crate::layouts::DTYPES;

/// A device that computes as the CPU does and notes what its kernels are.
#[derive(Debug)]
struct Noting(());

static NOTING: Noting = Noting(());

#[derive(Debug)]
struct Held(Arc<dyn Memory>);

/// A kernel that has run, with what it was given and what it gave.
struct Noted {
    name: String,
    formula: Option<Formula>,
    inputs: Vec<Array>,
    output: Array,
}

thread_local! {
    static NOTED: RefCell<Vec<Noted>> = const { RefCell::new(Vec::new()) };
}

impl Memory for Held {
    fn device(&self) -> &'static dyn Device {
        &NOTING
    }
    fn dtype(&self) -> DType {
        self.0.dtype()
    }
    fn bytes(&self) -> usize {
        self.0.bytes()
    }
}

impl Device for Noting {
    fn name(&self) -> &str {
        "noting"
    }

    fn host(&self) -> &'static dyn Device {
        cpu()
    }

    fn upload(&'static self, elements: Slice<'_>) -> Arc<dyn Memory> {
        Arc::new(Held(cpu().upload(elements)))
    }

    fn download(&'static self, x: &Array, _: &'static str) -> Array {
        cpu().copy(&x.clone().map_memory(|memory| {
            let memory: Arc<dyn Any + Send + Sync> = memory;
            Arc::clone(&memory.downcast::<Held>().expect("memory of this device").0)
        }))
    }

    fn elementwise(&'static self, kernel: &Kernel, inputs: &mut [Array]) -> Array {
        let inputs: Vec<Array> = inputs.iter().map(|x| x.to(cpu())).collect();
        let output = cpu().elementwise(kernel, &mut inputs.clone());
        NOTED.with_borrow_mut(|noted| {
            noted.push(Noted {
                name: format!("{} of {}", kernel.name(), inputs[0].dtype()),
                formula: kernel.formula(inputs[0].dtype()),
                inputs,
                output: output.clone(),
            });
        });
        output.to(self)
    }
}

type Operation = (&'static str, fn(&[Array; 3]) -> Array);

macro_rules! operations {
    (unary: $($one:ident)*; binary: $($two:ident)*;) => {
        &[
            $((stringify!($one), |x| ops::$one(x[0].clone())),)*
            $((stringify!($two), |x| ops::$two(x[0].clone(), x[1].clone())),)*
            ("clip", |x| ops::clip(x[0].clone(), x[1].clone(), x[2].clone())),
            ("where_", |x| ops::where_(x[0].clone(), x[1].clone(), x[2].clone())),
            ("pow", |x| ops::pow(x[0].clone(), x[1].clone())),
        ]
    };
}

/// All elementwise operations but those of one argument that `formula.rs` tries, and those that branch.
const OPERATIONS: &[Operation] = operations!(
    unary: abs ceil floor invert is_finite is_inf is_nan logical_not negative round sign square
        trunc;
    binary: add bitwise_and bitwise_or bitwise_xor divide equal floor_divide greater greater_equal
        less less_equal logical_and logical_or logical_xor maximum minimum multiply not_equal
        subtract atan2 hypot logaddexp;
);

const COUNT: usize = 4000;

/// Awkward values and random ones.
fn draw(numbers: &mut Numbers, dtype: DType) -> Array {
    let integers = [
        0,
        1,
        -1,
        2,
        -2,
        7,
        i64::MAX,
        i64::MIN,
        i64::MIN + 1,
        1 << 31,
        255,
        256,
    ];
    let floats = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        0.5,
        3e9,
        -3e9,
        1e19,
        -1e19,
        f64::INFINITY,
        f64::NAN,
        1e-310,
    ];
    let floats = floats
        .into_iter()
        .chain([f64::NEG_INFINITY])
        .collect::<Vec<_>>();
    let mut pick = |count: usize| numbers.below(count);
    let words: Vec<usize> = (0..COUNT).map(|_| pick(1 << 40)).collect();
    if dtype.is_float() {
        let float = |&word: &usize| match word % 3 {
            0 => floats[word / 3 % floats.len()],
            1 => (word / 3) as f64 / 1e9 - 150.0,
            _ => (word / 3 % 17) as f64 - 8.0,
        };
        return Array::from_vec(words.iter().map(float).collect(), COUNT).cast(dtype);
    }
    let integer = |&word: &usize| match word % 3 {
        0 => integers[word / 3 % integers.len()],
        1 => (word as i64).wrapping_mul(0x9e37_79b9_7f4a_7c15_u64.cast_signed()),
        _ => (word / 3 % 17) as i64 - 8,
    };
    let x = Array::from_vec(words.iter().map(integer).collect(), COUNT);
    match dtype {
        DType::Bool => (x & 1).cast(dtype),
        _ => x.cast(dtype),
    }
}

#[test]
fn every_kernel_computes_its_formula() {
    let mut numbers = Numbers(11);
    for dtype in DTYPES {
        let x = [(); 3].map(|()| draw(&mut numbers, dtype).to(&NOTING));
        for (name, operation) in OPERATIONS {
            // What a dtype has not is refused; integers have no negative powers.
            let done: Result<_, Error> = attempt(|| operation(&x));
            assert!(
                done.is_ok()
                    || !dtype.is_float()
                    || name.starts_with("bitwise")
                    || *name == "invert",
                "{name} of {dtype}"
            );
        }
        for to in DTYPES {
            let _ = x[0].cast(to);
        }
        let condition = draw(&mut numbers, DType::Bool).to(&NOTING);
        let _ = condition.where_(&x[0], &x[1]);
    }
    let noted = NOTED.take();
    assert!(noted.len() > 200, "{} kernels", noted.len());
    let (with, without): (Vec<Noted>, Vec<Noted>) =
        noted.into_iter().partition(|noted| noted.formula.is_some());
    let mut without: Vec<&str> = without.iter().map(|noted| &*noted.name).collect();
    without.sort_unstable();
    without.dedup();
    assert_eq!(without, ["pow of i64", "pow of u8"]);
    if let Some(compiler) = compiler() {
        in_c(compiler, &with);
    }
}

/// The type of what a dtype is computed in.
fn c_type(dtype: DType) -> &'static str {
    match dtype.accumulator() {
        DType::Bool => "bool",
        DType::I64 => "long long",
        DType::F32 => "float",
        _ => "double",
    }
}

/// The elements in the type in which they are computed.
fn bytes(x: &Array) -> Vec<u8> {
    let x = x.cast(x.dtype().accumulator()).to_row_major();
    let header = x.to_npy().len() - x.size() * x.dtype().size();
    x.to_npy()[header..].to_vec()
}

fn in_c(compiler: &str, noted: &[Noted]) {
    let folder = std::env::temp_dir().join(format!("bibun-kernels-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    let (mut functions, mut calls, mut arguments) = (String::new(), String::new(), Vec::new());
    for (i, noted) in noted.iter().enumerate() {
        let mut dtypes = noted.inputs.iter().chain([&noted.output]).map(Array::dtype);
        let precision = match dtypes.any(|dtype| dtype == DType::F64) {
            true => Type::Double,
            false => Type::Single,
        };
        let formula = noted.formula.as_ref().expect("only those have come");
        let text = formula.cuda(&format!("f{i}"), precision);
        functions += &text.unwrap_or_else(|| panic!("{} branches: {formula}", noted.name));
        // Arguments of a call may be evaluated in any order.
        let mut names = String::new();
        calls += "  {";
        for (k, input) in noted.inputs.iter().enumerate() {
            let element = c_type(input.dtype());
            write!(calls, " void *x{k} = next(n * sizeof({element}));").expect("a string");
            write!(names, "x{k}, ").expect("a string");
            arguments.extend(bytes(input));
        }
        let result = c_type(noted.output.dtype());
        writeln!(
            calls,
            " f{i}({names}y, n); fwrite(y, sizeof({result}), n, out); }}"
        )
        .expect("a string");
    }
    let text = format!(
        "{PRELUDE}\n#include <stdio.h>\n#include <stdlib.h>\nstatic char *rest;\n\
         static void *next(size_t bytes) {{ void *x = rest; rest += bytes; return x; }}\n{}\n\
         int main(int count, char **paths) {{\n  size_t n = {COUNT};\n  void *y = malloc(8 * n);\n  \
         FILE *in = fopen(paths[1], \"rb\"), *out = fopen(paths[2], \"wb\");\n  \
         rest = malloc({length});\n  if (fread(rest, 1, {length}, in) != {length}) return 1;\n{calls}  \
         return fclose(out);\n}}\n",
        functions.replace("extern \"C\" ", "static "),
        length = arguments.len(),
    );
    let file = |name: &str| folder.join(name);
    std::fs::write(file("all.c"), text).expect("a temporary file");
    std::fs::write(file("x"), arguments).expect("a temporary file");
    let compiled = Command::new(compiler)
        .args(["-O1", "-std=c11", "-ffp-contract=off", "-o"])
        .args([file("all"), file("all.c")])
        .arg("-lm")
        .output()
        .expect("the compiler runs");
    let errors = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{errors}");
    let status = Command::new(file("all"))
        .args([file("x"), file("y")])
        .status();
    assert!(status.expect("the program runs").success());
    let found = std::fs::read(file("y")).expect("the program has written its values");
    std::fs::remove_dir_all(&folder).expect("the temporary files can be removed");

    let mut rest = &found[..];
    for noted in noted {
        let stored = noted.output.dtype();
        let width = stored.accumulator().size();
        let (own, others) = rest.split_at(COUNT * width);
        rest = others;
        // What is rounded from another type than that in which it is computed is rounded once.
        let is_cast = noted.name.starts_with("cast");
        if is_cast && stored != stored.accumulator() && stored.is_float() {
            continue;
        }
        let expected = noted.output.cast(stored.accumulator());
        for (i, bytes) in own.chunks(width).enumerate() {
            let found = scalar(bytes, stored.accumulator())
                .cast(stored)
                .cast(stored.accumulator());
            let expected = expected.element(&[i]);
            let is_nan = |x: Scalar| x.to_f64().is_nan();
            let same = found == expected
                && found.to_f64().is_sign_negative() == expected.to_f64().is_sign_negative();
            let at: Vec<Scalar> = noted.inputs.iter().map(|x| x.element(&[i])).collect();
            assert!(
                same || is_nan(found) && is_nan(expected),
                "{} to {stored} at {at:?}: {found:?} in C, {expected:?} in the loop",
                noted.name
            );
        }
    }
    assert!(rest.is_empty());
}

fn scalar(bytes: &[u8], dtype: DType) -> Scalar {
    match c_type(dtype) {
        "bool" => Scalar::Bool(bytes[0] != 0),
        "float" => Scalar::F32(f32::from_le_bytes(bytes.try_into().expect("4 bytes"))),
        "double" => Scalar::F64(f64::from_le_bytes(bytes.try_into().expect("8 bytes"))),
        _ => Scalar::I64(i64::from_le_bytes(bytes.try_into().expect("8 bytes"))),
    }
}
