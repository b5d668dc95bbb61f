//! Random programs, read from bytes: a list of values, and instructions that compute further ones from
//! some of them. The fuzz target `compile` and the tests of the workspace run them, eagerly and
//! compiled.

use std::fmt;
use std::sync::Arc;

use bibun::array::{Array, DType, Index, interpreted};
use bibun::functions as f;
use bibun::{Variable, attempt, compile, grad};

/// The largest number of elements of a value.
const MOST: usize = 20_000;

/// The number of values that a program returns.
const RETURNED: usize = 8;

/// Bytes that are read one after the other. Behind them there are zeros.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn next(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn below(&mut self, end: usize) -> usize {
        usize::from(self.next()) % end
    }
}

/// What to compute, from which values, and a number for all else.
#[derive(Clone, Copy)]
struct Instruction {
    what: u8,
    a: usize,
    b: usize,
    n: u8,
}

/// A function of some inputs.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) inputs: Vec<Variable>,
    instructions: Vec<Instruction>,
    /// Whether the gradient of the last values is returned, too.
    has_gradient: bool,
}

type Unary = fn(&Variable) -> Variable;
type Binary = fn(&Variable, &Variable) -> Variable;
type AlongAxis = fn(&Variable, isize) -> Variable;

const UNARY: &[(&str, Unary)] = &[
    ("negative", |x| f::negative(x)),
    ("sin", |x| f::sin(x)),
    ("exp", |x| f::exp(x)),
    ("square", |x| f::square(x)),
    ("tanh", |x| f::tanh(x)),
    ("abs", |x| f::abs(x)),
    ("relu", |x| f::relu(x)),
    ("sqrt", |x| f::sqrt(x)),
    ("log", |x| f::log(x)),
    ("reciprocal", |x| f::reciprocal(x)),
    ("sigmoid", |x| f::sigmoid(x)),
    ("cos", |x| f::cos(x)),
    ("tan", |x| f::tan(x)),
    ("erf", |x| f::erf(x)),
    ("gelu", |x| f::gelu(x)),
    ("floor", |x| f::floor(x)),
    ("ceil", |x| f::ceil(x)),
    ("round", |x| f::round(x)),
    ("trunc", |x| f::trunc(x)),
    ("sign", |x| f::sign(x)),
    ("expm1", |x| f::expm1(x)),
    ("log1p", |x| f::log1p(x)),
    ("cbrt", |x| f::cbrt(x)),
    ("rsqrt", |x| f::rsqrt(x)),
    ("softplus", |x| f::softplus(x, 2.0)),
    ("silu", |x| f::silu(x)),
    ("asinh", |x| f::asinh(x)),
    ("atan", |x| f::atan(x)),
    ("acos", |x| f::acos(x)),
    ("atanh", |x| f::atanh(x)),
    ("sinh", |x| f::sinh(x)),
    ("exp2", |x| f::exp2(x)),
    ("log2", |x| f::log2(x)),
    ("sinc", |x| f::sinc(x)),
    ("erfinv", |x| f::erfinv(x)),
    ("is_nan", |x| f::is_nan(x)),
    ("is_finite", |x| f::is_finite(x)),
    ("logical_not", |x| f::logical_not(x)),
];

const BINARY: &[(&str, Binary)] = &[
    ("add", |a, b| f::add(a, b)),
    ("subtract", |a, b| f::subtract(a, b)),
    ("multiply", |a, b| f::multiply(a, b)),
    ("divide", |a, b| f::divide(a, b)),
    ("maximum", |a, b| f::maximum(a, b)),
    ("minimum", |a, b| f::minimum(a, b)),
    ("atan2", |a, b| f::atan2(a, b)),
    ("hypot", |a, b| f::hypot(a, b)),
    ("pow", |a, b| f::pow(a, b)),
    ("logaddexp", |a, b| f::logaddexp(a, b)),
    ("remainder", |a, b| f::remainder(a, b)),
    ("fmod", |a, b| f::fmod(a, b)),
    ("less", |a, b| f::less(a, b)),
    ("less_equal", |a, b| f::less_equal(a, b)),
    ("greater", |a, b| f::greater(a, b)),
    ("equal", |a, b| f::equal(a, b)),
    ("not_equal", |a, b| f::not_equal(a, b)),
    ("logical_and", |a, b| f::logical_and(a, b)),
    ("logical_xor", |a, b| f::logical_xor(a, b)),
    ("where_", |a, b| f::where_(f::less(a, b), a, b)),
];

const ALONG_AXIS: &[(&str, AlongAxis)] = &[
    ("sum", |x, axis| f::sum(x, axis)),
    ("mean", |x, axis| f::mean(x, axis)),
    ("max", |x, axis| f::max(x, axis)),
    ("min", |x, axis| f::min(x, axis)),
    ("prod", |x, axis| f::prod(x, axis)),
    ("any", |x, axis| f::any(x, axis)),
    ("var", |x, axis| f::var(x, axis, 0)),
    ("norm", |x, axis| f::norm(x, axis)),
    ("logsumexp", |x, axis| f::logsumexp(x, axis)),
    ("argmax", |x, axis| f::argmax(x, axis)),
    ("cumsum", |x, axis| f::cumsum(x, axis)),
    ("cumprod", |x, axis| f::cumprod(x, axis)),
    ("softmax", |x, axis| f::softmax(x, axis)),
    ("log_softmax", |x, axis| f::log_softmax(x, axis)),
    ("sort", |x, axis| f::sort(x, axis)),
    ("argsort", |x, axis| f::argsort(x, axis)),
    ("flip", |x, axis| f::flip(x, axis)),
    ("roll", |x, axis| f::roll(x, 2, axis)),
    ("expand_dims", |x, axis| f::expand_dims(x, axis)),
    ("sum of all", |x, _| f::sum(x, ..)),
    ("max of all", |x, _| f::max(x, ..)),
    ("mean of all", |x, _| f::mean(x, ..)),
    ("transpose", |x, _| f::transpose(x)),
    ("flatten", |x, _| f::reshape(x, x.size())),
];

/// The other instructions.
const OTHERS: &[&str] = &[
    "slice",
    "cast",
    "broadcast_to",
    "matmul",
    "concat",
    "take",
    "half",
    "number",
];

impl Instruction {
    fn name(&self) -> String {
        let all = UNARY.iter().map(|(name, _)| *name);
        let all = all.chain(BINARY.iter().map(|(name, _)| *name));
        let all = all.chain(ALONG_AXIS.iter().map(|(name, _)| *name));
        let mut all = all.chain(OTHERS.iter().copied());
        all.nth(usize::from(self.what))
            .expect("its number")
            .to_owned()
    }

    fn count() -> usize {
        UNARY.len() + BINARY.len() + ALONG_AXIS.len() + OTHERS.len()
    }

    fn run(&self, values: &[Variable]) -> Variable {
        let (a, b) = (&values[self.a], &values[self.b]);
        let axis = match a.rank() {
            0 => 0,
            rank => usize::from(self.n) % rank,
        } as isize;
        let mut what = usize::from(self.what);
        if let Some((_, function)) = UNARY.get(what) {
            return function(a);
        }
        what -= UNARY.len();
        if let Some((_, function)) = BINARY.get(what) {
            return function(a, &fitting(a, b));
        }
        what -= BINARY.len();
        if let Some((_, function)) = ALONG_AXIS.get(what) {
            return function(a, axis);
        }
        let n = usize::from(self.n);
        match OTHERS[what - ALONG_AXIS.len()] {
            "slice" => {
                let index: Vec<Index> = (a.shape().iter().enumerate())
                    .map(|(i, &size)| match (n >> (2 * i)) & 3 {
                        0 => Index::from(..),
                        1 => Index::from((size as isize / 3)..),
                        2 => Index::from(..(size as isize - size as isize / 4)),
                        _ => Index::from(..).step_by(-2),
                    })
                    .collect();
                f::slice(a, &index)
            }
            "cast" => f::cast(a, real_dtype(n)),
            "broadcast_to" => {
                let mut shape = a.shape().to_vec();
                shape.insert(0, n % 4);
                f::broadcast_to(a, shape)
            }
            "matmul" => f::matmul(
                a,
                if n % 2 == 0 {
                    b.clone()
                } else {
                    f::transpose(b)
                },
            ),
            "concat" => f::concat([a, b], axis),
            "take" => {
                let size = a.shape().get(axis as usize).copied().unwrap_or(1);
                let index = f::remainder(f::cast(b, DType::I64), size.max(1) as i32);
                f::take(a, index, axis)
            }
            "half" => f::multiply(a, 0.5),
            _ => f::subtract(f64::from(self.n) / 16.0, a),
        }
    }
}

/// `b`, or its sum if it does not broadcast with `a`, or would become too large.
fn fitting(a: &Variable, b: &Variable) -> Variable {
    match a.shape().broadcast(&b.shape()) {
        Some(shape) if shape.size() <= MOST => b.clone(),
        _ => f::sum(b, ..),
    }
}

/// Whether an instruction would compute too much.
fn is_large(instruction: &Instruction, values: &[Variable]) -> bool {
    let (a, b) = (&values[instruction.a], &values[instruction.b]);
    a.size().saturating_mul(4) > MOST * 4
        || a.size().saturating_mul(b.size().max(1)) > MOST * 50 && instruction.name() == "matmul"
        || a.size().saturating_mul(b.size().max(1)) > MOST * 4 && instruction.name() == "take"
}

impl Program {
    /// Reads a program. Instructions that functions refuse are left out.
    pub(crate) fn read(bytes: &[u8], most: usize) -> Self {
        let bytes = &mut Bytes(bytes);
        let flags = bytes.next();
        let inputs: Vec<Variable> = (0..=flags % 4).map(|_| input(bytes)).collect();
        let mut values = inputs.clone();
        let mut instructions = Vec::new();
        while !bytes.0.is_empty() && instructions.len() < most {
            let what = bytes.below(Instruction::count()) as u8;
            // Mostly one of the last values.
            let mut operand = || {
                let back = match bytes.next() {
                    n @ 0..200 => usize::from(n) % 5,
                    n => usize::from(n),
                };
                values.len() - 1 - back % values.len()
            };
            let (a, b) = (operand(), operand());
            let n = bytes.next();
            let instruction = Instruction { what, a, b, n };
            if is_large(&instruction, &values) {
                continue;
            }
            // What a function refuses, it refuses compiled, too; there are tests for that.
            if let Ok(y) = attempt(|| instruction.run(&values))
                && y.size() <= MOST
            {
                values.push(y);
                instructions.push(instruction);
            }
        }
        let mut program = Self {
            inputs,
            instructions,
            has_gradient: flags & 128 != 0,
        };
        // Some functions have no derivative.
        program.has_gradient &= attempt(|| program.run(&program.inputs)).is_ok();
        program
    }

    fn values(&self, inputs: &[Variable]) -> Vec<Variable> {
        let mut values = inputs.to_vec();
        for instruction in &self.instructions {
            let y = instruction.run(&values);
            values.push(y);
        }
        values
    }

    /// The last values, and the gradient of their sum if it is asked for.
    pub(crate) fn run(&self, inputs: &[Variable]) -> Vec<Variable> {
        let mut outputs = self.last(inputs);
        if self.has_gradient {
            outputs.extend(self.gradient(inputs, |inputs| self.last(inputs)));
        }
        outputs
    }

    /// The last values.
    fn last(&self, inputs: &[Variable]) -> Vec<Variable> {
        let mut values = self.values(inputs);
        values.split_off(values.len().saturating_sub(RETURNED))
    }

    /// The gradient of the sum of what `f` returns, by those of the inputs that are floats.
    fn gradient(
        &self,
        inputs: &[Variable],
        f: impl Fn(&[Variable]) -> Vec<Variable>,
    ) -> Vec<Variable> {
        let floats = |x: &&Variable| x.dtype().is_float();
        let wanted: Vec<Variable> = inputs.iter().filter(floats).cloned().collect();
        let sum = |wanted: &Vec<Variable>| {
            let mut wanted = wanted.iter();
            let inputs = inputs.iter().map(|x| match x.dtype().is_float() {
                true => wanted.next().expect("as many as before").clone(),
                false => x.clone(),
            });
            let outputs = f(&inputs.collect::<Vec<_>>());
            let sums = outputs.iter().filter(floats);
            let sums = sums.map(|y| f::cast(f::sum(y, ..), DType::F64));
            sums.fold(Variable::constant(0.0), |sum, y| sum + y)
        };
        grad(sum, &wanted)
    }

    /// Panics if a compiled run has other bits than the eager one, by machine code or by the interpreter.
    pub(crate) fn check(&self) {
        let eager = self.run(&self.inputs);
        let shared = Arc::new(self.clone());
        let compiled = || {
            let program = Arc::clone(&shared);
            let compiled = compile(move |x: &Vec<Variable>| program.run(x));
            // The second run finds the program.
            let first = compiled.call(&self.inputs);
            (first, compiled.call(&self.inputs))
        };
        let ((assembled, again), (interpreted, _)) = (compiled(), interpreted(compiled));
        for (i, y) in eager.iter().enumerate() {
            for (how, found) in [
                ("by machine code", &assembled[i]),
                ("the second time", &again[i]),
                ("by the interpreter", &interpreted[i]),
            ] {
                let is_same = y.array().has_same_bits(&found.array());
                assert!(
                    is_same,
                    "result {i} {how} is {found:?}, not {y:?}\n{self:?}"
                );
            }
        }
    }
}

/// Returns a dtype of real numbers: few functions of the programs are defined for complex ones.
fn real_dtype(number: usize) -> DType {
    let real: Vec<DType> = DType::ALL
        .into_iter()
        .filter(|dtype| !dtype.is_complex())
        .collect();
    real[number % real.len()]
}

/// An input of any dtype, of special or ordinary values, in some layout.
fn input(bytes: &mut Bytes<'_>) -> Variable {
    const SIZES: [usize; 12] = [3, 1, 2, 0, 5, 8, 16, 17, 33, 64, 67, 130];
    const SPECIAL: [f64; 16] = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1e-320,
        -1e-40,
        1e300,
        -3e38,
        65504.0,
        127.0,
        -129.0,
        9.3e18,
    ];
    let dtype = real_dtype(usize::from(bytes.next()));
    let rank = bytes.below(4);
    let shape: Vec<usize> = (0..rank).map(|_| SIZES[bytes.below(SIZES.len())]).collect();
    let size: usize = shape.iter().product();
    if size > MOST / 2 {
        return Variable::constant(Array::scalar(1.0).cast(dtype));
    }
    let (layout, kind) = (bytes.next(), bytes.next());
    let mut state = u32::from(bytes.next()) + 1;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 16
    };
    let mut values = |count: usize| -> Array {
        let draw = |_| match kind % 4 {
            0 => f64::from(next()) / 16384.0 - 2.0,
            1 => f64::from(next() % 7) - 3.0,
            2 => SPECIAL[next() as usize % 16],
            _ => match next() % 8 {
                0 => SPECIAL[next() as usize % 16],
                _ => f64::from(next()) / 4096.0 - 8.0,
            },
        };
        Array::from_vec((0..count).map(draw).collect::<Vec<f64>>(), count).cast(dtype)
    };
    let array = match layout % 7 {
        0 | 1 => values(size).reshape(&shape[..]),
        2 => {
            let back: Vec<usize> = shape.iter().rev().copied().collect();
            values(size).reshape(back).transpose()
        }
        3 => {
            let whole = values(2 * size).reshape([&shape[..], &[2]].concat());
            let mut index = vec![Index::from(..); rank];
            index.push(Index::from(1));
            whole.slice(&index)
        }
        4 => {
            let index = vec![Index::from(..).step_by(-1); rank];
            values(size).reshape(&shape[..]).slice(&index)
        }
        5 => values(1).reshape(()).broadcast_to(&shape[..]),
        _ => {
            // Some axes repeat.
            let sizes = shape.iter().enumerate();
            let own = sizes.map(|(i, &size)| match (layout >> (3 + i)) & 1 {
                0 => size,
                _ => 1,
            });
            let own: Vec<usize> = own.collect();
            values(own.iter().product())
                .reshape(own)
                .broadcast_to(&shape[..])
        }
    };
    Variable::constant(array)
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, x) in self.inputs.iter().enumerate() {
            let (array, shape) = (x.array(), x.shape());
            writeln!(f, "%{i}: {} {shape} by {:?}", x.dtype(), array.strides())?;
        }
        for (i, instruction) in self.instructions.iter().enumerate() {
            let Instruction { a, b, n, .. } = instruction;
            let i = self.inputs.len() + i;
            writeln!(f, "%{i} = {} %{a} %{b} {n}", instruction.name())?;
        }
        write!(f, "gradient: {}", self.has_gradient)
    }
}
