//! Code against an evaluator that goes line by line on single numbers.

use super::machine::{Machine, Written};
use super::*;
use crate::cpu::reduce;
use crate::formula::{Operation, Type};
use crate::math::Kernel;
use crate::storage::Buffer;
use crate::{DType, Mask, Number, Reduce, bf16, f16};

/// A value at one element.
#[derive(Clone, Copy, Debug)]
enum Scalar {
    Single(f32),
    Double(f64),
    Integer(i64),
    Truth(bool),
}
use Scalar::{Double, Integer, Single, Truth};

impl Scalar {
    /// The bits, in which all NaN are one.
    fn bits(self) -> u64 {
        match self {
            Single(x) if x.is_nan() => u64::from(f32::NAN.to_bits()),
            Double(x) if x.is_nan() => f64::NAN.to_bits(),
            Single(x) => u64::from(x.to_bits()),
            Double(x) => x.to_bits(),
            Integer(x) => x.cast_unsigned(),
            Truth(x) => u64::from(x),
        }
    }

    fn truth(self) -> bool {
        matches!(self, Truth(true))
    }
}

/// One operation on floats.
fn on_floats<T: Kernel<Truth = bool>>(operation: Operation, a: &[T]) -> Result<T, bool> {
    use Operation as O;
    Ok(match (operation, a) {
        (O::Add, &[a, b]) => a + b,
        (O::Subtract, &[a, b]) => a - b,
        (O::Multiply, &[a, b]) => a * b,
        (O::Divide, &[a, b]) => a / b,
        (O::MultiplyAdd, &[a, b, c]) => a.mul_add(b, c),
        (O::Negative, &[a]) => -a,
        (O::Abs, &[a]) => a.abs(),
        (O::Sqrt, &[a]) => a.sqrt(),
        (O::Floor, &[a]) => a.floor(),
        (O::Ceil, &[a]) => a.ceil(),
        (O::Trunc, &[a]) => a.trunc(),
        (O::Round, &[a]) => a.round(),
        (O::CopySign, &[a, b]) => a.copysign(b),
        (O::Sin, &[a]) => a.sin(),
        (O::Tan, &[a]) => a.tan(),
        (O::Lgamma, &[a]) => a.lgamma(),
        (O::Fmod, &[a, b]) => a.fmod(b),
        (O::PowerOfTwo, &[a]) => T::power_of_two(a),
        (O::Exponent, &[a]) => a.exponent(),
        (O::Fraction, &[a]) => a.fraction(),
        (O::Equal, &[a, b]) => return Err(a.equal(b)),
        (O::Less, &[a, b]) => return Err(a.less(b)),
        (O::LessEqual, &[a, b]) => return Err(a.less_equal(b)),
        (O::IsNan, &[a]) => return Err(a.is_nan()),
        (O::IsOdd, &[a]) => return Err(T::is_odd(a)),
        (O::HasBitOfTwo, &[a]) => return Err(T::has_bit_of_two(a)),
        (O::IsSignNegative, &[a]) => return Err(a.is_sign_negative()),
        _ => panic!("{operation:?} is no arithmetic"),
    })
}

fn on_integers(operation: Operation, a: &[i64]) -> Scalar {
    use Operation as O;
    Integer(match (operation, a) {
        (O::Add, &[a, b]) => a.wrapping_add(b),
        (O::Subtract, &[a, b]) => a.wrapping_sub(b),
        (O::Multiply, &[a, b]) => a.wrapping_mul(b),
        (O::Maximum, &[a, b]) => a.max(b),
        (O::Minimum, &[a, b]) => a.min(b),
        // There is none of 0, whose value nobody uses.
        (O::Quotient | O::Rest, &[_, 0]) => 0,
        (O::Quotient, &[a, b]) => a.wrapping_div(b),
        (O::Rest, &[a, b]) => a.wrapping_rem(b),
        (O::BitsAnd, &[a, b]) => a & b,
        (O::BitsOr, &[a, b]) => a | b,
        (O::BitsXor, &[a, b]) => a ^ b,
        (O::Equal, &[a, b]) => return Truth(a == b),
        (O::Less, &[a, b]) => return Truth(a < b),
        _ => panic!("{operation:?} is not for integers"),
    })
}

/// The values of all lines at one element.
fn values(formula: &Formula, inputs: &[Scalar]) -> Vec<Scalar> {
    use Operation as O;
    let mut values: Vec<Scalar> = Vec::new();
    for line in formula.lines() {
        let a: Vec<Scalar> = line
            .arguments()
            .iter()
            .map(|node| values[node.index()])
            .collect();
        let value = match (line.operation(), line.value(), a.as_slice()) {
            (O::Input(i), ..) => inputs[usize::from(i)],
            (O::Constant(bits), Type::Single, _) => Single(f64::from_bits(bits) as f32),
            (O::Constant(bits), ..) => Double(f64::from_bits(bits)),
            (O::Always(holds), ..) => Truth(holds),
            (O::Whole(x), ..) => Integer(x),
            (O::Select, _, &[truth, x, y]) => {
                if truth.truth() {
                    x
                } else {
                    y
                }
            }
            (O::Not, _, &[x]) => Truth(!x.truth()),
            (O::And, _, &[x, y]) => Truth(x.truth() & y.truth()),
            (O::Or, _, &[x, y]) => Truth(x.truth() | y.truth()),
            (O::Xor, _, &[x, y]) => Truth(x.truth() ^ y.truth()),
            (O::Widen, _, &[Single(x)]) => Double(f64::from(x)),
            (O::Narrow, _, &[Double(x)]) => Single(x as f32),
            (O::ToNumber, Type::Single, &[Integer(x)]) => Single(x as f32),
            (O::ToNumber, _, &[Integer(x)]) => Double(x as f64),
            (O::ToInteger, _, &[Single(x)]) => Integer(x as i64),
            (O::ToInteger, _, &[Double(x)]) => Integer(x as i64),
            (operation, _, [Single(_), ..]) => {
                let a: Vec<f32> = (a.iter())
                    .map(|x| {
                        if let Single(x) = x {
                            *x
                        } else {
                            panic!("{line:?}")
                        }
                    })
                    .collect();
                on_floats(operation, &a).map_or_else(Truth, Single)
            }
            (operation, _, [Double(_), ..]) => {
                let a: Vec<f64> = (a.iter())
                    .map(|x| {
                        if let Double(x) = x {
                            *x
                        } else {
                            panic!("{line:?}")
                        }
                    })
                    .collect();
                on_floats(operation, &a).map_or_else(Truth, Double)
            }
            (operation, ..) => {
                let a: Vec<i64> = (a.iter())
                    .map(|x| {
                        if let Integer(x) = x {
                            *x
                        } else {
                            panic!("{line:?}")
                        }
                    })
                    .collect();
                on_integers(operation, &a)
            }
        };
        values.push(value);
    }
    values
}

/// Elements of one dtype, with what a value becomes that is stored as such, and the value of one.
macro_rules! elements {
    ($($Variant:ident($type:ty): $stored:expr, $Scalar:ident: $value:expr;)*) => {
        #[derive(Clone, Debug)]
        enum Elements {
            $($Variant(Vec<$type>),)*
        }

        impl Elements {
            fn of(dtype: DType, values: impl Iterator<Item = Scalar>) -> Self {
                match dtype {
                    $(DType::$Variant => Self::$Variant(values.map(|value| match value {
                        Scalar::$Scalar(x) => $stored(x),
                        _ => panic!("{value:?} is not computed for {dtype}"),
                    }).collect()),)*
                    DType::C64 | DType::C128 => unreachable!("it has no formula"),
                }
            }

            fn zeros(dtype: DType, n: usize) -> Self {
                match dtype {
                    $(DType::$Variant => Self::$Variant(vec![<$type>::default(); n]),)*
                    DType::C64 | DType::C128 => unreachable!("it has no formula"),
                }
            }

            fn copied(slice: Slice<'_>) -> Self {
                match slice {
                    $(Slice::$Variant(x) => Self::$Variant(x.to_vec()),)*
                    Slice::C64(_) | Slice::C128(_) => unreachable!("it has no formula"),
                }
            }

            fn dtype(&self) -> DType {
                match self {
                    $(Self::$Variant(_) => DType::$Variant,)*
                }
            }

            fn at(&self, i: usize) -> Scalar {
                match self {
                    $(Self::$Variant(x) => Scalar::$Scalar($value(x[i])),)*
                }
            }

            fn slice(&self, n: usize) -> Slice<'_> {
                match self {
                    $(Self::$Variant(x) => Slice::$Variant(&x[..n]),)*
                }
            }

            fn slice_mut(&mut self, n: usize) -> SliceMut<'_> {
                match self {
                    $(Self::$Variant(x) => SliceMut::$Variant(&mut x[..n]),)*
                }
            }
        }
    };
}
elements! {
    Bool(bool): |x| x, Truth: |x| x;
    U8(u8): |x| x as u8, Integer: i64::from;
    I32(i32): |x| x as i32, Integer: i64::from;
    I64(i64): |x| x, Integer: |x| x;
    F16(f16): f16::from_f32, Single: f16::to_f32;
    BF16(bf16): bf16::from_f32, Single: bf16::to_f32;
    F32(f32): |x| x, Single: |x| x;
    F64(f64): |x| x, Double: |x| x;
}

impl Elements {
    fn random(of: Type, n: usize, random: &mut Random) -> Self {
        Self::of(own_dtype(of), (0..n).map(|_| random.scalar(of)))
    }
}

/// A small generator (xorshift, Marsaglia 2003).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 16) as usize % n
    }

    fn scalar(&mut self, of: Type) -> Scalar {
        match of {
            Type::Single => Single(self.number() as f32),
            Type::Integer => Integer(self.integer()),
            Type::Truth => Truth(self.below(2) == 1),
            Type::Double | Type::Number => Double(self.number()),
        }
    }

    /// A number, special ones often.
    fn number(&mut self) -> f64 {
        match self.below(4) {
            0 => NUMBERS[self.below(NUMBERS.len())],
            1 => (self.below(41) as f64 - 20.0) * 0.5,
            2 => (self.next() as f64 / u64::MAX as f64 - 0.5) * 4.0,
            _ => f64::from(f32::from_bits(self.next() as u32)),
        }
    }

    fn integer(&mut self) -> i64 {
        match self.below(3) {
            0 => INTEGERS[self.below(INTEGERS.len())],
            1 => self.below(9) as i64 - 4,
            _ => self.next().cast_signed() >> self.below(64),
        }
    }
}

const NUMBERS: [f64; 30] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    1.5,
    2.5,
    -2.5,
    3.0,
    126.0,
    -126.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    -f64::NAN,
    f64::MIN_POSITIVE,
    5e-324,
    1e-45,
    -1e-40,
    f32::MIN_POSITIVE as f64,
    f64::MAX,
    f32::MAX as f64,
    9223372036854775808.0,
    -9223372036854775808.0,
    9223372036854774784.0,
    4294967296.5,
    -2147483649.0,
    std::f64::consts::FRAC_1_SQRT_2,
    1e300,
];

const INTEGERS: [i64; 12] = [
    0,
    1,
    -1,
    i64::MAX,
    i64::MIN,
    i64::MIN + 1,
    1 << 53,
    (1 << 53) + 1,
    (1 << 24) + 1,
    -((1 << 62) + 129),
    0xFFFF_FFFF,
    -0x8000_0000,
];

/// Code for elements of the types of the formula.
fn code(formula: &Formula, repeats: &[bool], n: usize, level: Level) -> Option<Code> {
    let (inputs, outputs) = own_dtypes(formula, repeats);
    Code::for_level(formula, &inputs, &elements(&outputs), n, false, level)
}

/// Outputs of all elements.
fn elements(outputs: &[DType]) -> Vec<Target> {
    outputs.iter().copied().map(Target::Elements).collect()
}

fn levels() -> impl Iterator<Item = Level> {
    Level::ALL.into_iter().filter(|level| level.is_available())
}

/// Compares the code with the values, at lengths up to that of the inputs.
fn check(formula: &Formula, inputs: &[Elements], repeats: &[bool], lengths: &[usize]) {
    let (_, outputs) = own_dtypes(formula, repeats);
    check_stored(formula, inputs, repeats, &outputs, lengths);
}

/// The same with outputs of these dtypes.
fn check_stored(
    formula: &Formula,
    inputs: &[Elements],
    repeats: &[bool],
    outputs: &[DType],
    lengths: &[usize],
) {
    let dtypes: Vec<(DType, bool)> = (inputs.iter().zip(repeats))
        .map(|(input, &repeats)| (input.dtype(), repeats))
        .collect();
    for level in levels() {
        let targets = elements(outputs);
        let made_for = |n: usize| Code::for_level(formula, &dtypes, &targets, n, false, level);
        let long = made_for(MANY).expect("there are instructions");
        for &n in lengths {
            let slices: Vec<Slice<'_>> = (inputs.iter().zip(repeats))
                .map(|(input, repeats)| input.slice(if *repeats { 1 } else { n }))
                .collect();
            let mut expected: Vec<Vec<Scalar>> = vec![Vec::new(); outputs.len()];
            for i in 0..n {
                let at: Vec<Scalar> = (inputs.iter().zip(repeats))
                    .map(|(input, repeats)| input.at(if *repeats { 0 } else { i }))
                    .collect();
                let all = values(formula, &at);
                for (expected, node) in expected.iter_mut().zip(formula.results()) {
                    expected.push(all[node.index()]);
                }
            }
            let expected: Vec<Elements> = (expected.into_iter().zip(outputs))
                .map(|(values, &dtype)| Elements::of(dtype, values.into_iter()))
                .collect();
            // Made for many elements, for this number, or for another small number.
            let short = [n, n % 6].map(|n| made_for(n).expect("it has been made for many"));
            for code in short.iter().chain([&long]) {
                let zeros = outputs.iter().map(|&dtype| Elements::zeros(dtype, n + 1));
                let mut got: Vec<Elements> = zeros.collect();
                let mut targets: Vec<SliceMut<'_>> =
                    got.iter_mut().map(|output| output.slice_mut(n)).collect();
                code.run(&slices, &mut targets);
                for (got, expected) in got.iter().zip(&expected) {
                    for i in 0..n {
                        let (got, expected) = (got.at(i), expected.at(i));
                        assert_eq!(
                            got.bits(),
                            expected.bits(),
                            "{level:?}: {got:?} is not {expected:?} at {i} of {n} in {formula:?}"
                        );
                    }
                    // What follows is as it was.
                    assert_eq!(got.at(n).bits(), 0);
                }
                check_taking(code, n, inputs, &slices, outputs, &expected);
            }
            if n >= MOST {
                let far = Code::for_level(formula, &dtypes, &targets, n, true, level);
                let mut buffers: Vec<Buffer> = (outputs.iter())
                    .map(|&dtype| Buffer::of(dtype, n))
                    .collect();
                let mut outs: Vec<SliceMut<'_>> =
                    buffers.iter_mut().map(Buffer::as_mut_run).collect();
                far.expect("it has been made").run(&slices, &mut outs);
                for (out, expected) in outs.iter().zip(&expected) {
                    let out = Elements::copied(out.as_slice());
                    for i in 0..n {
                        let (got, expected) = (out.at(i), expected.at(i));
                        assert_eq!(
                            got.bits(),
                            expected.bits(),
                            "{level:?}: past the caches at {i} of {n} in {formula:?}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn whole_vectors_are_written_past_the_caches() {
    let formula = Formula::identity(Type::Single);
    let (inputs, outputs) = own_dtypes(&formula, &[false]);
    if let Some(code) = Code::past_caches(&formula, &inputs, &outputs) {
        let listing = code.listing();
        assert!(listing.contains("vmovntps") && listing.contains("sfence"));
        // The last elements are no whole vectors.
        assert!(listing.contains("vmovups"));
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
#[should_panic(expected = "an output past the caches that is not aligned")]
fn outputs_past_the_caches_are_aligned() {
    let formula = Formula::identity(Type::Single);
    let (inputs, outputs) = own_dtypes(&formula, &[false]);
    let Some(code) = Code::past_caches(&formula, &inputs, &outputs) else {
        panic!("an output past the caches that is not aligned: there is no code");
    };
    let x = vec![1.0; 64];
    let mut buffer = Buffer::of(DType::F32, 80);
    let mut run = buffer.as_mut_run();
    let out = run.range(1, 64);
    code.run(&[Slice::F32(&x)], &mut [out]);
}

/// Compares what code computes in the memory of inputs, as far as it can.
fn check_taking(
    code: &Code,
    n: usize,
    inputs: &[Elements],
    slices: &[Slice<'_>],
    outputs: &[DType],
    expected: &[Elements],
) {
    let mut homes: Vec<Option<usize>> = Vec::new();
    for (output, &dtype) in outputs.iter().enumerate() {
        let home = (0..inputs.len()).find(|&i| {
            let is_whole = inputs[i].dtype() == dtype && !code.repeats(i);
            n > 0 && is_whole && !homes.contains(&Some(i)) && code.may_take(output, i, n)
        });
        homes.push(home);
    }
    if homes.iter().all(Option::is_none) {
        return;
    }
    let memory = homes.iter().zip(outputs).map(|(home, &dtype)| match home {
        Some(i) => Elements::of(dtype, (0..n).map(|at| inputs[*i].at(at))),
        None => Elements::zeros(dtype, n),
    });
    let mut got: Vec<Elements> = memory.collect();
    let read: Vec<Read<'_>> = (slices.iter().enumerate())
        .map(
            |(i, &slice)| match homes.iter().position(|home| *home == Some(i)) {
                Some(output) => Read::Output(output),
                None => Read::Slice(slice),
            },
        )
        .collect();
    let mut targets: Vec<SliceMut<'_>> = got.iter_mut().map(|output| output.slice_mut(n)).collect();
    code.run_taking(&read, &mut targets);
    for (got, expected) in got.iter().zip(expected) {
        for i in 0..n {
            assert_eq!(
                got.at(i).bits(),
                expected.at(i).bits(),
                "in place at {i} of {n}"
            );
        }
    }
}

/// The arithmetic on numbers, with the number of arguments.
const ARITHMETIC: [(Operation, usize); 11] = [
    (Operation::Add, 2),
    (Operation::Subtract, 2),
    (Operation::Multiply, 2),
    (Operation::Divide, 2),
    (Operation::MultiplyAdd, 3),
    (Operation::Negative, 1),
    (Operation::Abs, 1),
    (Operation::Sqrt, 1),
    (Operation::Floor, 1),
    (Operation::Trunc, 1),
    (Operation::Round, 1),
];

/// What depends on the bits of a number, also on those of NaN.
const OF_BITS: [(Operation, usize); 4] = [
    (Operation::Ceil, 1),
    (Operation::PowerOfTwo, 1),
    (Operation::Exponent, 1),
    (Operation::Fraction, 1),
];
const COMPARISONS: [(Operation, usize); 4] = [
    (Operation::Equal, 2),
    (Operation::Less, 2),
    (Operation::LessEqual, 2),
    (Operation::IsNan, 1),
];
const TESTS_OF_BITS: [(Operation, usize); 3] = [
    (Operation::IsOdd, 1),
    (Operation::HasBitOfTwo, 1),
    (Operation::IsSignNegative, 1),
];
const OF_INTEGERS: [Operation; 8] = [
    Operation::Add,
    Operation::Subtract,
    Operation::Multiply,
    Operation::Maximum,
    Operation::Minimum,
    Operation::BitsAnd,
    Operation::BitsOr,
    Operation::BitsXor,
];

/// One operation on inputs of these types.
fn alone(operation: Operation, value: Type, inputs: &[Type]) -> Formula {
    let mut lines: Vec<_> = (0..)
        .zip(inputs)
        .map(|(i, &of)| (Operation::Input(i), of, vec![]))
        .collect();
    lines.push((operation, value, (0..inputs.len()).collect()));
    Formula::of_lines(&lines, inputs.len(), &[inputs.len()])
}

/// Every operation alone, with the types of its arguments.
fn operations() -> Vec<(Operation, Type, Vec<Type>)> {
    use Operation as O;
    let mut all = Vec::new();
    for of in [Type::Single, Type::Double] {
        for (operation, count) in ARITHMETIC.into_iter().chain(OF_BITS) {
            all.push((operation, of, vec![of; count]));
        }
        all.push((O::CopySign, of, vec![of; 2]));
        for (operation, count) in COMPARISONS.into_iter().chain(TESTS_OF_BITS) {
            all.push((operation, Type::Truth, vec![of; count]));
        }
        all.push((O::Select, of, vec![Type::Truth, of, of]));
        all.push((O::ToInteger, Type::Integer, vec![of]));
        all.push((O::ToNumber, of, vec![Type::Integer]));
    }
    for operation in OF_INTEGERS {
        all.push((operation, Type::Integer, vec![Type::Integer; 2]));
    }
    for operation in [O::Equal, O::Less] {
        all.push((operation, Type::Truth, vec![Type::Integer; 2]));
    }
    all.push((
        O::Select,
        Type::Integer,
        vec![Type::Truth, Type::Integer, Type::Integer],
    ));
    for operation in [O::And, O::Or, O::Xor] {
        all.push((operation, Type::Truth, vec![Type::Truth; 2]));
    }
    all.push((O::Not, Type::Truth, vec![Type::Truth]));
    all.push((O::Widen, Type::Double, vec![Type::Single]));
    all.push((O::Narrow, Type::Single, vec![Type::Double]));
    all
}

#[test]
fn every_operation_has_the_bits_of_numbers() {
    for (operation, value, inputs) in operations() {
        let formula = alone(operation, value, &inputs);
        // All pairs of special values.
        let n = NUMBERS.len() * NUMBERS.len();
        let elements: Vec<Elements> = (inputs.iter().enumerate())
            .map(|(place, of)| {
                let at = |i: usize| match place {
                    0 => i % NUMBERS.len(),
                    1 => i / NUMBERS.len(),
                    _ => (i * 7 + i / NUMBERS.len()) % NUMBERS.len(),
                };
                match of {
                    Type::Single => Elements::F32((0..n).map(|i| NUMBERS[at(i)] as f32).collect()),
                    Type::Integer => {
                        let integer = |i| INTEGERS[at(i) % INTEGERS.len()];
                        Elements::I64((0..n).map(integer).collect())
                    }
                    Type::Truth => Elements::Bool((0..n).map(|i| at(i) % 2 == 1).collect()),
                    _ => Elements::F64((0..n).map(|i| NUMBERS[at(i)]).collect()),
                }
            })
            .collect();
        let repeats = vec![false; inputs.len()];
        check(&formula, &elements, &repeats, &[n]);
        let repeats: Vec<bool> = (0..inputs.len()).map(|i| i == 0).collect();
        check(&formula, &elements, &repeats, &[70]);
        let repeats: Vec<bool> = (0..inputs.len()).map(|i| i != 0).collect();
        check(&formula, &elements, &repeats, &[70]);
    }
}

#[test]
fn all_lengths_have_all_elements() {
    let lengths: Vec<usize> = (0..=140).collect();
    let random = &mut Random(7);
    for (operation, value, inputs) in operations() {
        let is_one = matches!(
            operation,
            Operation::Add
                | Operation::Less
                | Operation::Widen
                | Operation::Narrow
                | Operation::And
                | Operation::Select
                | Operation::IsOdd
        );
        if is_one {
            let formula = alone(operation, value, &inputs);
            let elements: Vec<Elements> = inputs
                .iter()
                .map(|&of| Elements::random(of, 141, random))
                .collect();
            check(&formula, &elements, &vec![false; inputs.len()], &lengths);
        }
    }
}

/// A formula of random operations.
fn random_formula(random: &mut Random, lines: usize, types: &[Type]) -> (Formula, Vec<Type>) {
    use Operation as O;
    let has_calls = random.below(3) == 0;
    let inputs: Vec<Type> = (0..1 + random.below(6))
        .map(|_| types[random.below(types.len())])
        .collect();
    let mut all: Vec<(Operation, Type, Vec<usize>)> = (0..)
        .zip(&inputs)
        .map(|(i, &of)| (O::Input(i), of, vec![]))
        .collect();
    // A line of every type.
    for &of in types {
        all.push(match of {
            Type::Single => (O::Constant(0.75f64.to_bits()), of, vec![]),
            Type::Integer => (O::Whole(5), of, vec![]),
            Type::Truth => (O::Always(true), of, vec![]),
            Type::Double | Type::Number => (O::Constant(f64::to_bits(-3.3)), of, vec![]),
        });
    }
    for i in 0..lines {
        let of = types[random.below(types.len())];
        let window = 2 + random.below(250);
        let pick = |of: Type, random: &mut Random| {
            let candidates: Vec<usize> = (0..all.len()).filter(|&line| all[line].1 == of).collect();
            let near = candidates.len().saturating_sub(window);
            match random.below(4) {
                0 => candidates[random.below(candidates.len())],
                _ => candidates[near + random.below(candidates.len() - near)],
            }
        };
        let is_float = matches!(of, Type::Single | Type::Double);
        let floats: Vec<Type> = (types.iter().copied())
            .filter(|of| matches!(of, Type::Single | Type::Double))
            .collect();
        let input_of = |of: Type| inputs.iter().position(|&input| input == of);
        let has = |of: Type| types.contains(&of);
        let float = if floats.is_empty() {
            None
        } else {
            Some(floats[random.below(floats.len())])
        };
        let kind = random.below(12);
        let (operation, arguments): (Operation, Vec<usize>) = match (of, kind) {
            (_, 0) if has(Type::Truth) && of != Type::Truth => {
                let truth = pick(Type::Truth, random);
                (O::Select, vec![truth, pick(of, random), pick(of, random)])
            }
            (Type::Single, 1) if has(Type::Double) => (O::Narrow, vec![pick(Type::Double, random)]),
            (Type::Double, 1) if has(Type::Single) => (O::Widen, vec![pick(Type::Single, random)]),
            (Type::Single | Type::Double, 2) if has(Type::Integer) => {
                (O::ToNumber, vec![pick(Type::Integer, random)])
            }
            (_, 3) if is_float => match input_of(of) {
                Some(input) => (OF_BITS[random.below(4)].0, vec![input]),
                None => (O::Abs, vec![pick(of, random)]),
            },
            (_, 4) if is_float => {
                let value = if of == Type::Single {
                    0.1f32.into()
                } else {
                    0.1
                } * (i % 7) as f64;
                (O::Constant(value.to_bits()), vec![])
            }
            (_, 5) if is_float => match input_of(of) {
                Some(input) => (O::CopySign, vec![pick(of, random), input]),
                None => (O::Negative, vec![pick(of, random)]),
            },
            (Type::Single | Type::Double, 6) if has_calls && random.below(3) == 0 => {
                let called = [(O::Sin, 1), (O::Tan, 1), (O::Lgamma, 1), (O::Fmod, 2)];
                // Sine and tangent of f32 do not branch.
                let first = if of == Type::Single { 2 } else { 0 };
                let (operation, count) = called[first + random.below(4 - first)];
                (operation, (0..count).map(|_| pick(of, random)).collect())
            }
            (Type::Integer, 6) if has_calls => {
                let operation = [O::Quotient, O::Rest][random.below(2)];
                (operation, vec![pick(of, random), pick(of, random)])
            }
            (Type::Single | Type::Double, _) => {
                let (operation, count) = ARITHMETIC[random.below(ARITHMETIC.len())];
                (operation, (0..count).map(|_| pick(of, random)).collect())
            }
            (Type::Integer, 1) => match float {
                Some(float) => (O::ToInteger, vec![pick(float, random)]),
                None => (O::Whole(i as i64), vec![]),
            },
            (Type::Integer, _) => {
                let operation = OF_INTEGERS[random.below(OF_INTEGERS.len())];
                (operation, vec![pick(of, random), pick(of, random)])
            }
            (_, 0..5) => match (float, random.below(3)) {
                (Some(float), 0) if input_of(float).is_some() => {
                    let (operation, _) = TESTS_OF_BITS[random.below(3)];
                    (operation, vec![input_of(float).unwrap_or(0)])
                }
                (Some(float), 1 | 2) => {
                    let (operation, count) = COMPARISONS[random.below(4)];
                    (operation, (0..count).map(|_| pick(float, random)).collect())
                }
                _ if has(Type::Integer) => {
                    let integers = vec![pick(Type::Integer, random), pick(Type::Integer, random)];
                    ([O::Equal, O::Less][random.below(2)], integers)
                }
                _ => (O::Always(i % 2 == 0), vec![]),
            },
            (_, 5) => (O::Not, vec![pick(of, random)]),
            _ => {
                let operation = [O::And, O::Or, O::Xor][random.below(3)];
                (operation, vec![pick(of, random), pick(of, random)])
            }
        };
        all.push((operation, of, arguments));
    }
    let results: Vec<usize> = (0..1 + random.below(4))
        .map(|i| all.len() - 1 - if i == 0 { 0 } else { random.below(all.len()) })
        .collect();
    (Formula::of_lines(&all, inputs.len(), &results), inputs)
}

#[test]
fn random_formulas_have_the_bits_of_numbers() {
    use Type::{Double, Integer, Single, Truth};
    let random = &mut Random(0x9E37_79B9_7F4A_7C15);
    let mixtures: [&[Type]; 6] = [
        &[Single],
        &[Double],
        &[Single, Truth],
        &[Double, Truth, Integer],
        &[Single, Double, Truth],
        &[Single, Double, Truth, Integer],
    ];
    for round in 0..240 {
        let lines = match round % 4 {
            0 => 5 + random.below(20),
            1 => 30 + random.below(60),
            _ => 100 + random.below(200),
        };
        let (formula, types) = random_formula(random, lines, mixtures[round % 6]);
        let inputs: Vec<Elements> = types
            .iter()
            .map(|&of| Elements::random(of, 80, random))
            .collect();
        let repeats: Vec<bool> = types.iter().map(|_| random.below(3) == 0).collect();
        check(&formula, &inputs, &repeats, &[1, 2, 7, 19, 79]);
    }
}

/// Gives the plans of some formulas for some machine.
pub(super) fn with_plans<M: Machine>(machine: M, see: impl Fn(&Plan<M>)) {
    let of_formula = |formula: &Formula, repeats: &[bool]| {
        let reduced = formula.with_reduced_angles();
        let formula = reduced.as_ref().unwrap_or(formula);
        let (inputs, outputs) = own_dtypes(formula, repeats);
        let steps = Steps::new(formula, &inputs, &elements(&outputs)).expect("all types are known");
        for n in [MANY, 1, 3] {
            see(&Plan::new(&steps, machine, n, false).expect("there are instructions"));
        }
        let folds = folds_of(&outputs);
        if !folds.is_empty() {
            let all = 0..outputs.len();
            let numbers: Vec<usize> = all.chain(folds.iter().map(|fold| fold.0)).collect();
            let formula = formula.with_results(&numbers);
            let targets = elements(&outputs).into_iter();
            let targets: Vec<Target> = targets.chain(folds.iter().map(|fold| fold.1)).collect();
            let steps = Steps::new(&formula, &inputs, &targets).expect("all types are known");
            for n in [64, 160] {
                see(&Plan::new(&steps, machine, n, false).expect("there are instructions"));
            }
        }
    };
    for (operation, value, inputs) in operations() {
        let formula = alone(operation, value, &inputs);
        of_formula(&formula, &vec![false; inputs.len()]);
        of_formula(&formula, &vec![true; inputs.len()]);
    }
    use Type::{Double, Integer, Single, Truth};
    let random = &mut Random(99);
    for round in 0..60 {
        let types: &[Type] = match round % 3 {
            0 => &[Single, Truth],
            1 => &[Double, Truth],
            _ => &[Single, Double, Truth, Integer],
        };
        let lines = 20 + random.below(400);
        let (formula, types) = random_formula(random, lines, types);
        let repeats: Vec<bool> = types.iter().map(|_| random.below(2) == 0).collect();
        of_formula(&formula, &repeats);
    }
}

/// Compares what was written with what another disassembler reads.
pub(super) fn compare(written: &Written, read: impl Fn(&[u8]) -> Vec<(usize, String)>) {
    let read = read(&written.bytes);
    let notes = written.notes.as_ref().expect("they are written");
    for (note, (start, text)) in notes.iter().zip(&read) {
        assert_eq!((note.start, &note.text), (*start, text));
    }
    assert_eq!(notes.len(), read.len());
}

/// The same of some formulas.
pub(super) fn compare_plans<M: Machine>(machine: M, read: impl Fn(&[u8]) -> Vec<(usize, String)>) {
    with_plans(machine, |plan| {
        let (assembled, notes) = assemble(plan, true);
        let (bytes, notes) = (assembled.code, Some(notes));
        compare(
            &Written {
                bytes,
                notes,
                line: None,
            },
            &read,
        );
    });
}

#[test]
fn functions_have_the_bits_of_their_loops() {
    let random = &mut Random(5);
    let n = 700;
    for of in [Type::Single, Type::Double] {
        let inputs = [0; 3].map(|_| Elements::random(of, n, random));
        let slices = inputs.each_ref().map(|input| input.slice(n));
        for &operation in Operation::ALL {
            let arguments = operation.arguments();
            let is_of_numbers = arguments.iter().all(|&of| of == Type::Number);
            let value = operation.value();
            let Some(definition) = operation.definition() else {
                continue;
            };
            if !is_of_numbers || !matches!(value, Type::Number | Type::Truth) {
                continue;
            }
            let formula = alone(operation, value, arguments).expanded(of);
            let output = if value == Type::Truth { value } else { of };
            let mut expected = Elements::zeros(own_dtype(output), n);
            definition.run(&[], &slices[..arguments.len()], expected.slice_mut(n));
            for level in levels() {
                let Some(code) = code(&formula, &vec![false; arguments.len()], MANY, level) else {
                    panic!("{level:?} refuses {operation:?}");
                };
                let mut got = Elements::zeros(own_dtype(output), n);
                code.run(&slices[..arguments.len()], &mut [got.slice_mut(n)]);
                for i in 0..n {
                    let at = inputs.each_ref().map(|input| input.at(i));
                    let (got, expected) = (got.at(i), expected.at(i));
                    assert_eq!(
                        got.bits(),
                        expected.bits(),
                        "{level:?}: {operation:?} of {at:?} is {got:?}, not {expected:?}"
                    );
                }
            }
        }
    }
}

/// A scalar program: each line of some recent ones.
#[test]
fn long_programs_are_assembled() {
    let random = &mut Random(3);
    let of = Type::Double;
    let mut lines: Vec<(Operation, Type, Vec<usize>)> = (0..100)
        .map(|i| (Operation::Input(i), of, vec![]))
        .collect();
    for _ in 0..10_000 {
        let (operation, count) = ARITHMETIC[random.below(5)];
        let mut argument = || lines.len() - 1 - random.below(300.min(lines.len()));
        let arguments = (0..count).map(|_| argument()).collect();
        lines.push((operation, of, arguments));
    }
    let results: Vec<usize> = (0..60).map(|i| lines.len() - 1 - 5 * i).collect();
    let formula = Formula::of_lines(&lines, 100, &results);
    let inputs: Vec<Elements> = (0..100).map(|_| Elements::random(of, 3, random)).collect();
    check(&formula, &inputs, &[false; 100], &[1, 3]);
    let (inputs, outputs) = own_dtypes(&formula, &[false; 100]);
    let steps = Steps::new(&formula, &inputs, &elements(&outputs)).expect("all are f64");
    let (assembled, _) = assemble(
        &Plan::new(&steps, Level::ALL[0], MANY, false).expect("arithmetic"),
        false,
    );
    assert!(
        assembled.slots > 50,
        "{} slots do not test spills",
        assembled.slots
    );
}

#[test]
fn what_is_not_arithmetic_is_refused() {
    let function = alone(Operation::Exp, Type::Double, &[Type::Double]);
    let untyped = alone(Operation::Add, Type::Number, &[Type::Number; 2]);
    let given = alone(Operation::Given(0), Type::Single, &[]);
    for level in Level::ALL {
        for formula in [&function, &untyped, &given] {
            let repeats = vec![false; formula.inputs()];
            assert!(code(formula, &repeats, MANY, level).is_none());
        }
    }
}

#[test]
fn the_environment_can_forbid_it() {
    let formula = alone(Operation::Add, Type::Single, &[Type::Single; 2]);
    let code = Code::new(&formula, &[false; 2]);
    if std::env::var_os("BIBUN_JIT").is_some_and(|value| value == "0") {
        assert!(code.is_none());
        return;
    }
    assert_eq!(code.is_some(), best().is_some());
    let name = "assembler::tests::the_environment_can_forbid_it";
    let status = std::process::Command::new(std::env::current_exe().expect("this is a program"))
        .args(["--exact", name])
        .env("BIBUN_JIT", "0")
        .stdout(std::process::Stdio::null())
        .status();
    assert!(status.expect("it starts").success());
}

#[test]
fn the_listing_names_lines() {
    let formula = alone(Operation::Tanh, Type::Number, &[Type::Number]).expanded(Type::Single);
    for level in levels() {
        let code = code(&formula, &[false], MANY, level).expect("it is arithmetic");
        let text = code.listing();
        assert!(text.contains("vfmadd") || text.contains("fmla"), "{text}");
        assert!(text.contains("= multiply_add v"), "{text}");
        let bytes = text.lines().filter(|line| !line.starts_with(';'));
        let digits: usize = bytes
            .map(|line| line.split(' ').next().map_or(0, str::len))
            .sum();
        assert!(digits > 600, "{text}");
    }
}

macro_rules! refused {
    ($($name:ident: $inputs:expr, $outputs:expr;)*) => {$(
        #[test]
        #[should_panic(expected = "another")]
        fn $name() {
            let formula = alone(Operation::Add, Type::Single, &[Type::Single; 2]);
            let Some(code) = Code::new(&formula, &[false; 2]) else {
                panic!("nothing to ask of this machine");
            };
            code.run(&$inputs, &mut $outputs);
        }
    )*};
}
refused! {
    another_length_is_refused: [Slice::F32(&[1.0; 20]), Slice::F32(&[1.0; 19])], [SliceMut::F32(&mut [0.0; 20])];
    another_short_length_is_refused: [Slice::F32(&[1.0; 2]), Slice::F32(&[1.0; 1])], [SliceMut::F32(&mut [0.0; 2])];
    another_dtype_is_refused: [Slice::F32(&[1.0; 20]), Slice::F64(&[1.0; 20])], [SliceMut::F32(&mut [0.0; 20])];
    another_dtype_of_an_output_is_refused: [Slice::F32(&[1.0; 20]), Slice::F32(&[1.0; 20])], [SliceMut::F64(&mut [0.0; 20])];
    a_missing_input_is_refused: [Slice::F32(&[1.0; 20])], [SliceMut::F32(&mut [0.0; 20])];
}
#[test]
fn extremes_with_constants_keep_nan_and_zeros() {
    let formula = Formula::trace(2, 0, |x, _| {
        let [x, y] = [x[0], x[1]];
        let mut all = vec![x.maximum(y), x.minimum(y), x.maximum(x), x.clip(-1.0, 1.0)];
        for c in [0.0, -0.0, 1.5, f64::NAN, f64::NEG_INFINITY] {
            let c = Number::from(c);
            all.extend([x.maximum(c), c.maximum(x), x.minimum(c), c.minimum(x)]);
            all.push(x.less(c).where_(x, c));
            all.push(Mask(!x.less(c).0).where_(x, c));
            all.push(c.less(x).where_(x, c));
            all.push(x.less_equal(c).where_(x, c));
        }
        all
    });
    let n = NUMBERS.len() * NUMBERS.len();
    let pairs = (0..n).map(|i| (NUMBERS[i % NUMBERS.len()], NUMBERS[i / NUMBERS.len()]));
    let (x, y): (Vec<f64>, Vec<f64>) = pairs.unzip();
    let inputs = [Elements::F64(x.clone()), Elements::F64(y.clone())];
    check(&formula.expanded(Type::Double), &inputs, &[false; 2], &[n]);
    let single = |x: Vec<f64>| Elements::F32(x.into_iter().map(|x| x as f32).collect());
    check(
        &formula.expanded(Type::Single),
        &[single(x), single(y)],
        &[false; 2],
        &[n],
    );
}

/// Sums of elements of every dtype, in the type in which they are computed, stored in every dtype.
#[test]
fn all_dtypes_come_from_memory_and_go_there() {
    let random = &mut Random(11);
    let lengths = [0, 1, 2, 3, 5, 8, 17, 33, 131];
    let is_real = |dtype: &DType| !dtype.is_complex();
    for from in DType::ALL.into_iter().filter(is_real) {
        for to in DType::ALL.into_iter().filter(is_real) {
            let [of, into] = [from, to].map(order::computed);
            let mut lines = vec![
                (Operation::Input(0), of, vec![]),
                (Operation::Input(1), of, vec![]),
            ];
            lines.push(match of {
                Type::Truth => (Operation::Xor, of, vec![0, 1]),
                _ => (Operation::Add, of, vec![0, 1]),
            });
            let conversion = match (of, into) {
                (Type::Single, Type::Double) => Some(Operation::Widen),
                (Type::Double, Type::Single) => Some(Operation::Narrow),
                (Type::Integer, Type::Single | Type::Double) => Some(Operation::ToNumber),
                (Type::Single | Type::Double, Type::Integer) => Some(Operation::ToInteger),
                (Type::Truth, _) | (_, Type::Truth) if of != into => continue,
                _ => None,
            };
            lines.extend(conversion.map(|operation| (operation, into, vec![2])));
            let results = [lines.len() - 1, lines.len() - 1];
            let formula = Formula::of_lines(&lines, 2, &results);
            let inputs = [0; 2].map(|_| Elements::of(from, (0..131).map(|_| random.scalar(of))));
            let own = own_dtype(into);
            check_stored(&formula, &inputs, &[false; 2], &[to, own], &lengths);
            check_stored(&formula, &inputs, &[true, false], &[own, to], &lengths);
            check_stored(&formula, &inputs, &[true, true], &[to, to], &lengths);
        }
    }
}

#[test]
fn all_halves_are_read_and_ties_are_rounded_to_even() {
    let copy = Formula::of_lines(&[(Operation::Input(0), Type::Single, vec![])], 1, &[0]);
    let all = || 0..=u16::MAX;
    let halves = [
        Elements::F16(all().map(f16::from_bits).collect()),
        Elements::BF16(all().map(bf16::from_bits).collect()),
    ];
    for halves in halves {
        check_stored(&copy, &[halves], &[false], &[DType::F32], &[1 << 16]);
    }
    for to in [DType::BF16, DType::F16] {
        let is_brain = to == DType::BF16;
        let near = |bits: u16| match is_brain {
            true => u32::from(bits) << 16,
            false => f16::from_bits(bits).to_f32().to_bits(),
        };
        // Half of the distance to the next, and its neighbours.
        let half = if is_brain { 1 << 15 } else { 1 << 12 };
        let steps = [0, 1, half - 1, half, half + 1];
        let numbers = all()
            .step_by(3)
            .flat_map(|bits| steps.map(|step| f32::from_bits(near(bits).wrapping_add(step))));
        let numbers: Vec<f32> = numbers.collect();
        let n = numbers.len();
        check_stored(&copy, &[Elements::F32(numbers)], &[false], &[to], &[n]);
    }
}

#[test]
fn integers_are_rounded_once_to_f32() {
    let random = &mut Random(21);
    let formula = alone(Operation::ToNumber, Type::Single, &[Type::Integer]);
    let near_ties = (0..4000).map(|_| {
        // A number of 24 bits, a half of its last place, and a little more or less.
        let bits = random.below(1 << 24) as i64 | 1 << 23;
        let places = 1 + random.below(39);
        let little = [-1, 0, 1, 2, -2][random.below(5)];
        let sign = [1, -1][random.below(2)];
        Integer(sign * ((bits << places) + (1 << (places - 1)) + little))
    });
    let integers = Elements::of(DType::I64, near_ties);
    check(&formula, &[integers], &[false], &[4000]);
}

#[test]
fn functions_are_called_where_they_are_chosen() {
    let random = &mut Random(17);
    for of in [Type::Single, Type::Double] {
        let lines = [
            (Operation::Input(0), of, vec![]),
            (Operation::Lgamma, of, vec![0]),
            (Operation::Input(1), Type::Truth, vec![]),
            (Operation::Select, of, vec![2, 1, 0]),
            (Operation::Sqrt, of, vec![0]),
            (Operation::Multiply, of, vec![3, 4]),
        ];
        let formula = Formula::of_lines(&lines, 2, &[5]);
        let numbers = Elements::random(of, 140, random);
        // Nowhere in the first vectors, then here and there.
        let truths = (0..140).map(|i| Truth(i > 100 && i % 3 == 0));
        let inputs = [numbers, Elements::of(DType::Bool, truths)];
        check(&formula, &inputs, &[false; 2], &[1, 50, 140]);
        check(&formula, &inputs, &[true, false], &[1, 50, 140]);
    }
}

#[test]
fn many_rows_are_computed_in_few_calls() {
    use Type::{Double, Integer, Single, Truth};
    let random = &mut Random(31);
    for round in 0..30 {
        let types: &[Type] = match round % 3 {
            0 => &[Single, Truth],
            1 => &[Double],
            _ => &[Single, Double, Truth, Integer],
        };
        let lines = 5 + random.below(120);
        let (formula, types) = random_formula(random, lines, types);
        let rows = 1 + random.below(5);
        let n = 8 + random.below(40);
        let repeats: Vec<bool> = types.iter().map(|_| random.below(3) == 0).collect();
        // For each input, whether all rows have the same elements.
        let is_same: Vec<bool> = types.iter().map(|_| random.below(2) == 0).collect();
        let inputs: Vec<Elements> = types
            .iter()
            .map(|&of| Elements::random(of, rows * n, random))
            .collect();
        let in_row = |i: usize| if repeats[i] { 1 } else { n };
        let slices: Vec<Slice<'_>> = (0..inputs.len())
            .map(|i| inputs[i].slice(in_row(i) * if is_same[i] { 1 } else { rows }))
            .collect();
        let (_, outputs) = own_dtypes(&formula, &repeats);
        for level in levels() {
            let code = code(&formula, &repeats, n, level).expect("there are instructions");
            let mut got: Vec<Elements> = outputs
                .iter()
                .map(|&dtype| Elements::zeros(dtype, rows * n + 1))
                .collect();
            let mut targets: Vec<SliceMut<'_>> = got
                .iter_mut()
                .map(|output| output.slice_mut(rows * n))
                .collect();
            let most = 1 + random.below(rows);
            code.run_rows(n, &slices, &mut targets, &mut |done, places| {
                for (i, place) in places.iter_mut().enumerate() {
                    place.step = if is_same[i] { 0 } else { in_row(i) };
                    place.first = done * place.step;
                }
                most.min(rows - done)
            });
            for (row, column) in (0..rows).flat_map(|row| (0..n).map(move |column| (row, column))) {
                let at: Vec<Scalar> = (0..inputs.len())
                    .map(|i| {
                        let row = if is_same[i] { 0 } else { row };
                        inputs[i].at(row * in_row(i) + if repeats[i] { 0 } else { column })
                    })
                    .collect();
                let all = values(&formula, &at);
                for (got, node) in got.iter().zip(formula.results()) {
                    let (got, expected) = (got.at(row * n + column), all[node.index()]);
                    assert_eq!(
                        got.bits(),
                        expected.bits(),
                        "{level:?}: {got:?} is not {expected:?} at {column} of row {row} in {formula:?}"
                    );
                }
            }
            // What follows is as it was.
            assert!(got.iter().all(|got| got.at(rows * n).bits() == 0));
        }
    }
}

/// Folds of all kinds of results that are f32, by their numbers.
fn folds_of(outputs: &[DType]) -> Vec<(usize, Target)> {
    let singles = (0..outputs.len()).filter(|&i| outputs[i] == DType::F32);
    let kinds = [Reduce::Sum, Reduce::Max, Reduce::Min].into_iter().cycle();
    singles
        .zip(kinds)
        .map(|(i, reduction)| (i, Target::Fold(reduction)))
        .collect()
}

/// Rows of elements, some results of which are stored, some folded, and some both, against folds of what
/// is stored.
#[test]
fn rows_are_folded_as_reductions_are() {
    use Type::{Double, Single, Truth};
    let random = &mut Random(41);
    let mut all = 0;
    for round in 0..180 {
        let types: &[Type] = match round / 2 % 3 {
            0 => &[Single],
            1 => &[Single, Truth],
            _ => &[Single, Double],
        };
        let (formula, types) = match round {
            0..3 => (Formula::identity(Single), vec![Single]),
            _ => {
                let lines = 5 + random.below(120);
                random_formula(random, lines, types)
            }
        };
        let rows = 1 + random.below(5);
        // Whole numbers of turns, of vectors, and others.
        let n = [64, 96, 40, 136, 33, 47, 1000, 128, 512, 504, 1024, 2049][round % 12]
            + 8 * random.below(3);
        let repeats: Vec<bool> = match round {
            0..3 => vec![false],
            _ => types.iter().map(|_| random.below(3) == 0).collect(),
        };
        let inputs: Vec<Elements> = types
            .iter()
            .map(|&of| match (of, round % 2) {
                // Numbers whose sums are numbers.
                (Single, 0) => {
                    let number = |_| (random.below(2000) as f32 - 1000.0) / 7.0;
                    Elements::F32((0..rows * n).map(number).collect())
                }
                _ => Elements::random(of, rows * n, random),
            })
            .collect();
        let in_row = |i: usize| if repeats[i] { 1 } else { n };
        let slices: Vec<Slice<'_>> = (0..inputs.len())
            .map(|i| inputs[i].slice(in_row(i) * rows))
            .collect();
        let all_rows = |done: usize, places: &mut [Place]| {
            for (i, place) in places.iter_mut().enumerate() {
                place.step = in_row(i);
                place.first = done * place.step;
            }
            rows - done
        };
        let (dtypes, outputs) = own_dtypes(&formula, &repeats);
        for level in levels() {
            let stored = elements(&outputs);
            let code = |formula: &Formula, targets: &[Target]| {
                Code::for_level(formula, &dtypes, targets, n, false, level)
            };
            let plain = code(&formula, &stored).expect("there are instructions");
            let mut expected: Vec<Elements> = outputs
                .iter()
                .map(|&dtype| Elements::zeros(dtype, rows * n))
                .collect();
            let mut targets: Vec<SliceMut<'_>> = expected
                .iter_mut()
                .map(|output| output.slice_mut(rows * n))
                .collect();
            plain.run_rows(n, &slices, &mut targets, &mut { all_rows });
            drop(targets);
            // All results, and folds of some; only the last result and folds.
            let folds = folds_of(&outputs);
            for first in [0, outputs.len() - 1] {
                let mut made: Vec<(usize, Target)> =
                    (first..outputs.len()).map(|i| (i, stored[i])).collect();
                made.splice(0..0, folds.iter().copied());
                let (numbers, targets): (Vec<usize>, Vec<Target>) = made.into_iter().unzip();
                let Some(code) = code(&formula.with_results(&numbers), &targets) else {
                    assert!(
                        folds.is_empty() || !n.is_multiple_of(8),
                        "{level:?}: {n} elements"
                    );
                    continue;
                };
                let mut got: Vec<Elements> = targets
                    .iter()
                    .map(|target| Elements::zeros(target.dtype(), target.in_row(n) * rows + 1))
                    .collect();
                let mut outs: Vec<SliceMut<'_>> = (got.iter_mut().zip(&targets))
                    .map(|(got, target)| got.slice_mut(target.in_row(n) * rows))
                    .collect();
                code.run_rows(n, &slices, &mut outs, &mut { all_rows });
                drop(outs);
                for ((number, target), got) in numbers.iter().zip(&targets).zip(&got) {
                    let source = expected[*number].slice(rows * n);
                    let mut folded = Elements::zeros(DType::F32, rows);
                    let expected = match target {
                        Target::Elements(_) => &expected[*number],
                        Target::Fold(reduction) => {
                            all += 1;
                            let out = folded.slice_mut(rows);
                            reduce::reduce_rows(*reduction, source, n, out);
                            &folded
                        }
                    };
                    let count = target.in_row(n) * rows;
                    for i in 0..count {
                        let (got, expected) = (got.at(i), expected.at(i));
                        assert_eq!(
                            got.bits(),
                            expected.bits(),
                            "{level:?}: {target:?} {got:?} is not {expected:?} at {i} of rows of {n} in {formula:?}"
                        );
                    }
                    assert_eq!(got.at(count).bits(), 0);
                }
            }
        }
    }
    assert!(best().is_none() || all > 100, "{all} folds test little");
}
