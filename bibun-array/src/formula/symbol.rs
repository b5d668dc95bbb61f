//! A number that stands for an element, and that records the operations on it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Sub};

use super::{Formula, Line, Node, Operation, Part, Type};
use crate::dtype::Accumulator;
use crate::math::{Float, Integer, Kernel, Special, Truth};
use crate::{DType, Element, Mask, Number, Whole};

/// A number in a formula that is being traced. A formula over [`Float`]s, called with symbols, is
/// [`Formula::trace`]d.
///
/// `P` is the type that it stands for: `f32`, `f64`, [`Any`] if the formula is the same for both,
/// or `i64`.
#[derive(Debug)]
pub struct Symbol<P = Any>(Value, PhantomData<fn() -> P>);

/// The result of a comparison of [`Symbol`]s.
#[derive(Clone, Copy, Debug)]
pub struct SymbolicTruth(Value);

/// Either precision.
#[derive(Debug)]
pub struct Any;

/// The value of a symbol. Constants become lines where they are used.
#[derive(Clone, Copy, Debug)]
enum Value {
    Line(Node),
    Constant(u64),
    Always(bool),
}

/// A type that symbols can stand for.
pub trait Symbolic: std::fmt::Debug + 'static {
    /// The type of the lines of such symbols.
    const TYPE: Type;
}
impl Symbolic for Any {
    const TYPE: Type = Type::Number;
}
impl Symbolic for f32 {
    const TYPE: Type = Type::Single;
}
impl Symbolic for f64 {
    const TYPE: Type = Type::Double;
}
impl Symbolic for i64 {
    const TYPE: Type = Type::Integer;
}

/// The map from inputs and given numbers to the lines of the results.
type Traced<'a> = dyn FnMut(&[Part], &[Number<Symbol>]) -> Vec<Node> + 'a;

/// The formula that is being traced.
#[derive(Default)]
struct Trace {
    lines: Vec<Line>,
    known: HashMap<Line, Node>,
}

thread_local! {
    static TRACE: RefCell<Trace> = RefCell::default();
}

/// The lines that `f` writes, and the lines of its results.
pub(super) fn traced(f: &mut dyn FnMut() -> Vec<Node>) -> (Vec<Line>, Vec<Node>) {
    /// Restores the surrounding trace, also after a panic.
    struct Around(Option<Trace>);
    impl Drop for Around {
        fn drop(&mut self) {
            TRACE.set(self.0.take().expect("taken when dropped only"));
        }
    }
    let _around = Around(Some(TRACE.take()));
    let results = f();
    (TRACE.take().lines, results)
}

/// Writes a line, or finds an equal one.
pub(super) fn write(line: Line) -> Node {
    TRACE.with_borrow_mut(|trace| {
        let next = Node(trace.lines.len() as u32);
        let node = *trace.known.entry(line).or_insert(next);
        if node == next {
            trace.lines.push(line);
        }
        node
    })
}

impl Value {
    fn node(self, value: Type) -> Node {
        match self {
            Self::Line(node) => node,
            Self::Constant(bits) if value == Type::Integer => {
                write(Line::new(Operation::Whole(bits.cast_signed()), value, &[]))
            }
            Self::Constant(bits) => write(Line::new(Operation::Constant(bits), value, &[])),
            Self::Always(holds) => write(Line::new(Operation::Always(holds), Type::Truth, &[])),
        }
    }
}

impl<P: Symbolic> Symbol<P> {
    pub(super) const fn at(node: Node) -> Self {
        Self(Value::Line(node), PhantomData)
    }

    /// The symbol of a line, whose value is known if it is a constant.
    pub(super) fn known(node: Node) -> Self {
        let operation = TRACE.with_borrow(|trace| trace.lines[node.index()].operation);
        match operation {
            Operation::Constant(bits) => Self(Value::Constant(bits), PhantomData),
            _ => Self::at(node),
        }
    }

    /// A constant of the formula.
    pub(super) const fn constant(x: f64) -> Self {
        Self(Value::Constant(x.to_bits()), PhantomData)
    }

    pub(super) fn node(self) -> Node {
        self.0.node(P::TYPE)
    }

    /// The symbol of a line without arguments.
    pub(super) fn source(operation: Operation) -> Self {
        Self::at(write(Line::new(operation, P::TYPE, &[])))
    }

    /// Writes an operation on numbers.
    #[inline(never)]
    fn number(operation: Operation, arguments: &[Self]) -> Self {
        Self::at(Self::line(operation, P::TYPE, arguments))
    }

    /// Writes a comparison of numbers.
    #[inline(never)]
    fn truth(operation: Operation, arguments: &[Self]) -> SymbolicTruth {
        if let (Operation::IsNan, [Self(Value::Constant(bits), _)]) = (operation, arguments) {
            return f64::from_bits(*bits).is_nan().into();
        }
        SymbolicTruth(Value::Line(Self::line(operation, Type::Truth, arguments)))
    }

    fn line(operation: Operation, value: Type, arguments: &[Self]) -> Node {
        let mut nodes = [Node(0); 3];
        for (node, argument) in nodes.iter_mut().zip(arguments) {
            *node = argument.node();
        }
        write(Line::new(operation, value, &nodes[..arguments.len()]))
    }

    fn is(self, x: f64) -> bool {
        matches!(self.0, Value::Constant(bits) if bits == x.to_bits())
    }
}

impl SymbolicTruth {
    pub(super) fn node(self) -> Node {
        self.0.node(Type::Truth)
    }

    fn line(operation: Operation, arguments: &[Self]) -> Self {
        let mut nodes = [Node(0); 3];
        for (node, argument) in nodes.iter_mut().zip(arguments) {
            *node = argument.node();
        }
        let nodes = &nodes[..arguments.len()];
        Self(Value::Line(write(Line::new(operation, Type::Truth, nodes))))
    }
}

impl<P> Clone for Symbol<P> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<P> Copy for Symbol<P> {}

macro_rules! operators {
    ($($operator:ident::$method:ident -> $operation:ident, $neutral:expr;)*) => {$(
        impl<P: Symbolic> $operator for Symbol<P> {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                // Products and quotients with 1 are the other number, to the bit.
                match $neutral.is_some_and(|neutral| other.is(neutral)) {
                    true => self,
                    false => Self::number(Operation::$operation, &[self, other]),
                }
            }
        }
    )*};
}
operators! {
    Add::add -> Add, None::<f64>;
    Sub::sub -> Subtract, None::<f64>;
    Mul::mul -> Multiply, Some(1.0);
    Div::div -> Divide, Some(1.0);
}

impl<P: Symbolic> Neg for Symbol<P> {
    type Output = Self;
    fn neg(self) -> Self {
        match self.0 {
            Value::Constant(bits) => Self::constant(-f64::from_bits(bits)),
            _ => Self::number(Operation::Negative, &[self]),
        }
    }
}

impl From<bool> for SymbolicTruth {
    fn from(holds: bool) -> Self {
        Self(Value::Always(holds))
    }
}
impl BitAnd for SymbolicTruth {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Value::Always(true), _) | (_, Value::Always(false)) => other,
            (Value::Always(false), _) | (_, Value::Always(true)) => self,
            _ => Self::line(Operation::And, &[self, other]),
        }
    }
}
impl BitOr for SymbolicTruth {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Value::Always(false), _) | (_, Value::Always(true)) => other,
            (Value::Always(true), _) | (_, Value::Always(false)) => self,
            _ => Self::line(Operation::Or, &[self, other]),
        }
    }
}
impl BitXor for SymbolicTruth {
    type Output = Self;
    fn bitxor(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Value::Always(false), _) => other,
            (_, Value::Always(false)) => self,
            (Value::Always(true), _) => !other,
            (_, Value::Always(true)) => !self,
            _ => Self::line(Operation::Xor, &[self, other]),
        }
    }
}
impl Not for SymbolicTruth {
    type Output = Self;
    fn not(self) -> Self {
        match self.0 {
            Value::Always(holds) => Self(Value::Always(!holds)),
            Value::Line(_) | Value::Constant(_) => Self::line(Operation::Not, &[self]),
        }
    }
}
impl Truth for SymbolicTruth {}

macro_rules! float {
    (
        unary { $($unary:ident -> $unary_operation:ident,)* }
        binary { $($binary:ident -> $binary_operation:ident,)* }
        truths { $($truth:ident($($other:ident)?) -> $truth_operation:ident,)* }
    ) => {
        impl<P: Symbolic> Float for Symbol<P> {
            type Truth = SymbolicTruth;

            const ZERO: Self = Self::constant(0.0);
            const HALF: Self = Self::constant(0.5);
            const ONE: Self = Self::constant(1.0);
            const TWO: Self = Self::constant(2.0);
            const NAN: Self = Self::constant(f64::NAN);
            const INFINITY: Self = Self::constant(f64::INFINITY);
            const NEG_INFINITY: Self = Self::constant(f64::NEG_INFINITY);

            fn largest() -> Self {
                Self::source(Operation::Largest)
            }
            fn from_f64(x: f64) -> Self {
                Self::constant(x)
            }
            fn select(mask: SymbolicTruth, a: Self, b: Self) -> Self {
                selected(mask, a, b)
            }
            fn powi(self, exponent: i32) -> Self {
                match exponent {
                    -1 => self.reciprocal(),
                    0 => Self::ONE,
                    1 => self,
                    2 => self * self,
                    3 => self * self * self,
                    4 => (self * self) * (self * self),
                    _ => self.powf(Self::constant(f64::from(exponent))),
                }
            }
            fn special(function: Special, arguments: &[Self]) -> Self {
                Self::number(Operation::Special(function), arguments)
            }
            fn clip(self, low: Self, high: Self) -> Self {
                Self::number(Operation::Clip, &[self, low, high])
            }
            fn mul_add(self, factor: Self, term: Self) -> Self {
                Self::number(Operation::MultiplyAdd, &[self, factor, term])
            }
            $(fn $unary(self) -> Self {
                Self::number(Operation::$unary_operation, &[self])
            })*
            $(fn $binary(self, other: Self) -> Self {
                Self::number(Operation::$binary_operation, &[self, other])
            })*
            $(fn $truth(self $(, $other: Self)?) -> SymbolicTruth {
                Self::truth(Operation::$truth_operation, &[self $(, $other)?])
            })*
        }
    };
}
float! {
    unary {
        abs -> Abs, sign -> Sign, sqrt -> Sqrt, floor -> Floor, ceil -> Ceil, trunc -> Trunc,
        round -> Round, square -> Square, reciprocal -> Reciprocal, rsqrt -> Rsqrt, cbrt -> Cbrt,
        one_minus_square -> OneMinusSquare, exp -> Exp, exp_of_negative -> ExpOfNegative,
        exp2 -> Exp2, expm1 -> Expm1, ln -> Log, log2 -> Log2, log10 -> Log10, log1p -> Log1p,
        sigmoid -> Sigmoid, log_sigmoid -> LogSigmoid, logistic_density -> LogisticDensity,
        softplus -> Softplus, sin -> Sin, cos -> Cos, tan -> Tan, asin -> Asin, acos -> Acos,
        atan -> Atan, sinh -> Sinh, cosh -> Cosh, tanh -> Tanh, asinh -> Asinh, acosh -> Acosh,
        atanh -> Atanh, erf -> Erf, erfc -> Erfc, erfinv -> Erfinv,
        normal_distribution -> NormalDistribution, normal_density -> NormalDensity, gelu -> Gelu,
        lgamma -> Lgamma, digamma -> Digamma,
    }
    binary {
        maximum -> Maximum, minimum -> Minimum, hypot -> Hypot, powf -> Power,
        direction -> Direction, inversion -> Inversion, logaddexp -> Logaddexp, atan2 -> Atan2,
        fmod -> Fmod, remainder -> Remainder, copysign -> CopySign,
    }
    truths {
        equal(other) -> Equal, less(other) -> Less, less_equal(other) -> LessEqual,
        is_nan() -> IsNan, is_sign_negative() -> IsSignNegative,
    }
}

macro_rules! kernel {
    ($float:ident, $widen:ident, $narrow:ident) => {
        impl Kernel for Symbol<$float> {
            type Precision = $float;
            type Double = Symbol<f64>;

            fn of(x: $float) -> Self {
                Self::constant(f64::from(x))
            }
            fn widen(self) -> Symbol<f64> {
                $widen(self)
            }
            fn narrow(x: Symbol<f64>) -> Self {
                $narrow(x)
            }
            fn power_of_two(sum: Self) -> Self {
                Self::number(Operation::PowerOfTwo, &[sum])
            }
            fn is_odd(sum: Self) -> SymbolicTruth {
                Self::truth(Operation::IsOdd, &[sum])
            }
            fn has_bit_of_two(sum: Self) -> SymbolicTruth {
                Self::truth(Operation::HasBitOfTwo, &[sum])
            }
            fn exponent(self) -> Self {
                Self::number(Operation::Exponent, &[self])
            }
            fn fraction(self) -> Self {
                Self::number(Operation::Fraction, &[self])
            }
        }
    };
}
kernel!(f32, widened, narrowed);
kernel!(f64, same, same);

fn same(x: Symbol<f64>) -> Symbol<f64> {
    x
}

fn widened(x: Symbol<f32>) -> Symbol<f64> {
    converted(Operation::Widen, x)
}

fn narrowed(x: Symbol<f64>) -> Symbol<f32> {
    converted(Operation::Narrow, x)
}

impl Formula {
    /// The conversion from one dtype to another, both in the types of their accumulators.
    pub(crate) fn cast(from: DType, to: DType) -> Self {
        use Accumulator::{Bool, C64, C128, F32, F64, I64};
        let one = |value: Type| -> [Part; 2] {
            let number = |x: f64| Part::Number(Number::from(x));
            let integer = |x: i64| Part::Integer(x.into());
            match value {
                Type::Integer => [1, 0].map(integer),
                _ => [1.0, 0.0].map(number),
            }
        };
        let of_truth = |value| {
            Self::trace_of(&[Type::Truth], 0, |x, _| {
                let [one, zero] = one(value);
                Operation::Select.apply(&[x[0], one, zero])
            })
        };
        let to_truth = |value| {
            Self::trace_of(&[value], 0, |x, _| {
                let [_, zero] = one(value);
                Operation::Not.apply(&[Operation::Equal.apply(&[x[0], zero])])
            })
        };
        match (from.computed(), to.computed()) {
            (Bool, Bool) => Self::one(None, Type::Truth, Type::Truth),
            (I64, I64) => Self::one(None, Type::Integer, Type::Integer),
            (F32, F32) | (F64, F64) => Self::one(None, Type::Number, Type::Number),
            (Bool, I64) => of_truth(Type::Integer),
            (Bool, F32 | F64) => of_truth(Type::Number),
            (I64, Bool) => to_truth(Type::Integer),
            (F32 | F64, Bool) => to_truth(Type::Number),
            (I64, F32 | F64) => Self::one(Some(Operation::ToNumber), Type::Integer, Type::Number),
            (F32 | F64, I64) => Self::trace_of(&[Type::Number], 0, |x, _| {
                let integer = x[0].number().to_integer();
                // It is held in the range of its type, which storing it does not do.
                let [low, high] = [to.lowest(), to.highest()].map(i64::from_scalar);
                match to == DType::I64 {
                    true => integer,
                    false => integer.clip(low, high),
                }
            }),
            (F32, F64) => Self::one(Some(Operation::Widen), Type::Single, Type::Double),
            (F64, F32) => Self::one(Some(Operation::Narrow), Type::Double, Type::Single),
            (C64 | C128, _) | (_, C64 | C128) => crate::dtype::not_complex(),
        }
    }

    /// One operation, or none, on one input.
    fn one(operation: Option<Operation>, input: Type, output: Type) -> Self {
        let (lines, results) = traced(&mut || {
            let x = write(Line::new(Operation::Input(0), input, &[]));
            let y = operation.map(|operation| write(Line::new(operation, output, &[x])));
            vec![y.unwrap_or(x)]
        });
        Self::new(lines, 1, 0, &results)
    }
}

macro_rules! integer {
    ($($method:ident -> $operation:ident,)*) => {
        impl Integer for Symbol<i64> {
            type Truth = SymbolicTruth;
            fn from_i64(x: i64) -> Self {
                Self(Value::Constant(x.cast_unsigned()), PhantomData)
            }
            fn select(mask: SymbolicTruth, a: Self, b: Self) -> Self {
                selected(mask, a, b)
            }
            $(fn $method(self, other: Self) -> Self {
                Self::number(Operation::$operation, &[self, other])
            })*
            fn equal(self, other: Self) -> SymbolicTruth {
                Self::truth(Operation::Equal, &[self, other])
            }
            fn less(self, other: Self) -> SymbolicTruth {
                Self::truth(Operation::Less, &[self, other])
            }
        }
    };
}
integer! {
    sum -> Add, difference -> Subtract, product -> Multiply, quotient -> Quotient, rest -> Rest,
    bits_and -> BitsAnd, bits_or -> BitsOr, bits_xor -> BitsXor, maximum -> Maximum,
    minimum -> Minimum,
}

fn selected<P: Symbolic>(mask: SymbolicTruth, a: Symbol<P>, b: Symbol<P>) -> Symbol<P> {
    match mask.0 {
        Value::Always(true) => a,
        Value::Always(false) => b,
        _ => {
            let nodes = [mask.node(), a.node(), b.node()];
            Symbol::at(write(Line::new(Operation::Select, P::TYPE, &nodes)))
        }
    }
}

impl Whole<Symbol<i64>> {
    /// The nearest number.
    pub(crate) fn to_number(self) -> Number<Symbol> {
        Number(converted(Operation::ToNumber, self.0))
    }
}

impl Number<Symbol> {
    /// The number without its fraction, clamped to the range of integers; 0 for NaN.
    pub(crate) fn to_integer(self) -> Whole<Symbol<i64>> {
        Whole(converted(Operation::ToInteger, self.0))
    }
}

fn numbers(x: &[Part]) -> Vec<Number<Symbol>> {
    x.iter().map(|part| part.number()).collect()
}

/// The result of an operation that converts to another type.
pub(super) fn converted<P: Symbolic, Q: Symbolic>(operation: Operation, x: Symbol<P>) -> Symbol<Q> {
    Symbol::at(write(Line::new(operation, Q::TYPE, &[x.node()])))
}

impl Formula {
    /// Reads a formula: runs `f` once, on symbols for `inputs` elements and for `given` numbers.
    ///
    /// ```
    /// use bibun_array::formula::Formula;
    /// let formula = Formula::trace(1, 1, |x, slope| x[0].greater(0.0).where_(x[0], slope[0] * x[0]));
    /// assert_eq!(
    ///     formula.to_string(),
    ///     "v0 = 0 < x0\nv1 = c0 * x0\nwhere(v0, x0, v1)"
    /// );
    /// ```
    pub fn trace<Y: super::Traceable>(
        inputs: usize,
        given: usize,
        f: impl FnOnce(&[crate::Number<Symbol>], &[crate::Number<Symbol>]) -> Y,
    ) -> Self {
        let mut f = Some(f);
        Self::trace_dyn(&vec![Type::Number; inputs], given, &mut |x, c| {
            let f = f.take().expect("it is called once");
            f(&numbers(x), c).nodes()
        })
    }

    /// Reads a formula as [`Formula::trace`] does, with inputs of other types: `Number`, `Truth`
    /// and `Integer`.
    ///
    /// ```
    /// use bibun_array::formula::{Formula, Type};
    /// let inputs = [Type::Truth, Type::Integer];
    /// let formula = Formula::trace_of(&inputs, 0, |x, _| {
    ///     bibun_array::Whole::where_(x[0].truth().0, x[1].integer() + 1, 0)
    /// });
    /// assert_eq!(formula.to_string(), "v0 = x1 + 1\nwhere(x0, v0, 0)");
    /// ```
    ///
    /// # Panics
    /// Panics if an input is of another type.
    pub fn trace_of<Y: super::Traceable>(
        inputs: &[Type],
        given: usize,
        f: impl FnOnce(&[Part], &[Number<Symbol>]) -> Y,
    ) -> Self {
        let mut f = Some(f);
        Self::trace_dyn(inputs, given, &mut |x, c| {
            let f = f.take().expect("it is called once");
            f(x, c).nodes()
        })
    }

    /// [`Formula::trace_of`] without generics, compiled once.
    fn trace_dyn(inputs: &[Type], given: usize, f: &mut Traced<'_>) -> Self {
        let count = |n: usize| u8::try_from(n).expect("a formula has at most 256 inputs");
        let (lines, results) = traced(&mut || {
            let input = |(i, value): (u8, &Type)| {
                let node = write(Line::new(Operation::Input(i), *value, &[]));
                match value {
                    Type::Number => Part::Number(Number(Symbol::at(node))),
                    Type::Truth => Part::Truth(Mask(SymbolicTruth(Value::Line(node)))),
                    Type::Integer => Part::Integer(Whole(Symbol::at(node))),
                    Type::Single | Type::Double => unreachable!("of expanded formulas only"),
                }
            };
            let x: Vec<Part> = (0..count(inputs.len())).zip(inputs).map(input).collect();
            let c: Vec<_> = (0..count(given))
                .map(|i| Number(Symbol::source(Operation::Given(i))))
                .collect();
            f(&x, &c)
        });
        Self::new(lines, inputs.len(), given, &results)
    }
}
