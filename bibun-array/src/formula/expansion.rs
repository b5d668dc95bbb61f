//! Named functions expanded into arithmetic: the formulas of [`math`](crate::math), traced.

use super::symbol::{traced, write};
use super::{Formula, Line, Node, Operation, Part, Symbol, Symbolic, Type};
use crate::math::{
    Float, Kernel, composed, error_function, exponential, hyperbolic, logarithm, power,
    trigonometric,
};
use crate::{Mask, Number, Whole};

/// A match of all operations with their computation on arguments of some type.
macro_rules! by_operation {
    ($operation:expr, $arguments:ident; $T:ty, $number:path, $truth:path) => {{
        use Operation::*;
        let n = |i: usize| $number($arguments[i]);
        let t = |i: usize| $truth($arguments[i]);
        match $operation {
            Input(_) | Given(_) => unreachable!("inputs have their values"),
            Constant(bits) => Done::Number(<$T>::from_f64(f64::from_bits(bits))),
            Always(holds) => Done::Truth(holds.into()),
            Largest => Done::Number(<$T>::largest()),
            Add => Done::Number(n(0) + n(1)),
            Subtract => Done::Number(n(0) - n(1)),
            Multiply => Done::Number(n(0) * n(1)),
            Divide => Done::Number(n(0) / n(1)),
            MultiplyAdd => Done::Number(n(0).mul_add(n(1), n(2))),
            Negative => Done::Number(-n(0)),
            Abs => Done::Number(n(0).abs()),
            Sign => Done::Number(n(0).sign()),
            Sqrt => Done::Number(n(0).sqrt()),
            Floor => Done::Number(n(0).floor()),
            Ceil => Done::Number(n(0).ceil()),
            Trunc => Done::Number(n(0).trunc()),
            Round => Done::Number(n(0).round()),
            Maximum => Done::Number(n(0).maximum(n(1))),
            Minimum => Done::Number(n(0).minimum(n(1))),
            Clip => Done::Number(n(0).clip(n(1), n(2))),
            Equal => Done::Truth(n(0).equal(n(1))),
            Less => Done::Truth(n(0).less(n(1))),
            LessEqual => Done::Truth(n(0).less_equal(n(1))),
            IsNan => Done::Truth(n(0).is_nan()),
            And => Done::Truth(t(0) & t(1)),
            Or => Done::Truth(t(0) | t(1)),
            Xor => Done::Truth(t(0) ^ t(1)),
            Not => Done::Truth(!t(0)),
            Select => Done::Number(<$T>::select(t(0), n(1), n(2))),
            Square => Done::Number(n(0).square()),
            Reciprocal => Done::Number(n(0).reciprocal()),
            Rsqrt => Done::Number(n(0).rsqrt()),
            Cbrt => Done::Number(n(0).cbrt()),
            Hypot => Done::Number(n(0).hypot(n(1))),
            Power => Done::Number(n(0).powf(n(1))),
            OneMinusSquare => Done::Number(n(0).one_minus_square()),
            Direction => Done::Number(n(0).direction(n(1))),
            Inversion => Done::Number(n(0).inversion(n(1))),
            Exp => Done::Number(n(0).exp()),
            ExpOfNegative => Done::Number(n(0).exp_of_negative()),
            Exp2 => Done::Number(n(0).exp2()),
            Expm1 => Done::Number(n(0).expm1()),
            Log => Done::Number(n(0).ln()),
            Log2 => Done::Number(n(0).log2()),
            Log10 => Done::Number(n(0).log10()),
            Log1p => Done::Number(n(0).log1p()),
            Logaddexp => Done::Number(n(0).logaddexp(n(1))),
            Sigmoid => Done::Number(n(0).sigmoid()),
            LogSigmoid => Done::Number(n(0).log_sigmoid()),
            LogisticDensity => Done::Number(n(0).logistic_density()),
            Softplus => Done::Number(n(0).softplus()),
            Sin => Done::Number(n(0).sin()),
            Cos => Done::Number(n(0).cos()),
            Tan => Done::Number(n(0).tan()),
            Asin => Done::Number(n(0).asin()),
            Acos => Done::Number(n(0).acos()),
            Atan => Done::Number(n(0).atan()),
            Atan2 => Done::Number(n(0).atan2(n(1))),
            Sinh => Done::Number(n(0).sinh()),
            Cosh => Done::Number(n(0).cosh()),
            Tanh => Done::Number(n(0).tanh()),
            Asinh => Done::Number(n(0).asinh()),
            Acosh => Done::Number(n(0).acosh()),
            Atanh => Done::Number(n(0).atanh()),
            Erf => Done::Number(n(0).erf()),
            Erfc => Done::Number(n(0).erfc()),
            Erfinv => Done::Number(n(0).erfinv()),
            NormalDistribution => Done::Number(n(0).normal_distribution()),
            NormalDensity => Done::Number(n(0).normal_density()),
            Gelu => Done::Number(n(0).gelu()),
            Lgamma => Done::Number(n(0).lgamma()),
            Digamma => Done::Number(n(0).digamma()),
            Special(function) => {
                let arguments: Vec<$T> = (0..function.arguments().len()).map(n).collect();
                Done::Number(<$T>::special(function, &arguments))
            }
            Fmod => Done::Number(n(0).fmod(n(1))),
            Remainder => Done::Number(n(0).remainder(n(1))),
            CopySign => Done::Number(n(0).copysign(n(1))),
            IsSignNegative => Done::Truth(n(0).is_sign_negative()),
            PowerOfTwo | IsOdd | HasBitOfTwo | Exponent | Fraction | Widen | Narrow => {
                unreachable!("of expanded formulas only")
            }
            Whole(_) | Quotient | Rest | BitsAnd | BitsOr | BitsXor | ToNumber | ToInteger => {
                unreachable!("of integers")
            }
        }
    }};
}

/// The result of an operation.
pub(crate) enum Done<T: Float> {
    Number(T),
    Truth(T::Truth),
}

impl Operation {
    /// The operation on symbols.
    pub(crate) fn apply(self, arguments: &[Part]) -> Part {
        if let Some(part) = self.apply_to_integers(arguments) {
            return part;
        }
        let number = |part: Part| part.number().0;
        let truth = |part: Part| part.truth().0;
        match by_operation!(self, arguments; Symbol, number, truth) {
            Done::Number(x) => Part::Number(Number(x)),
            Done::Truth(x) => Part::Truth(Mask(x)),
        }
    }

    /// The operation, if it has integer arguments or an integer result.
    fn apply_to_integers(self, arguments: &[Part]) -> Option<Part> {
        use Part::Integer as I;
        let truth = |answer| Part::Truth(Mask(answer));
        Some(match (self, arguments) {
            (Self::Whole(x), _) => I(x.into()),
            (Self::Add, &[I(a), I(b)]) => I(a + b),
            (Self::Subtract, &[I(a), I(b)]) => I(a - b),
            (Self::Multiply, &[I(a), I(b)]) => I(a * b),
            (Self::Maximum, &[I(a), I(b)]) => I(a.maximum(b)),
            (Self::Minimum, &[I(a), I(b)]) => I(a.minimum(b)),
            (Self::Quotient, &[I(a), I(b)]) => I(a.quotient(b)),
            (Self::Rest, &[I(a), I(b)]) => I(a.rest(b)),
            (Self::BitsAnd, &[I(a), I(b)]) => I(a & b),
            (Self::BitsOr, &[I(a), I(b)]) => I(a | b),
            (Self::BitsXor, &[I(a), I(b)]) => I(a ^ b),
            (Self::Select, &[Part::Truth(c), I(a), I(b)]) => I(Whole::where_(c.0, a, b)),
            (Self::Equal, &[I(a), I(b)]) => truth(a.equal(b)),
            (Self::Less, &[I(a), I(b)]) => truth(a.less(b)),
            (Self::ToNumber, &[I(x)]) => Part::Number(x.to_number()),
            (Self::ToInteger, &[Part::Number(x)]) => I(x.to_integer()),
            _ => return None,
        })
    }

    /// Returns whether the operation branches or loops, so that it has no expansion in this
    /// precision. These are the special functions, the remainder, and sine, cosine and tangent in
    /// f64, which branch beyond `2^32`. A device has its own functions for them.
    pub const fn branches(self, precision: Type) -> bool {
        match self {
            Self::Lgamma | Self::Digamma | Self::Special(_) | Self::Fmod => true,
            Self::Sin | Self::Cos | Self::Tan => !matches!(precision, Type::Single),
            _ => false,
        }
    }

    /// Whether the CPU branches: for sine, cosine and tangent of f32, too, because what large angles
    /// need costs more than all the rest.
    pub(crate) const fn branches_on_cpu(self, precision: Type) -> bool {
        matches!(self, Self::Sin | Self::Cos | Self::Tan) || self.branches(precision)
    }
}

/// One step of the expansion of a named function. Arithmetic stays unchanged.
fn step<P: Symbolic>(operation: Operation, x: &[Symbol<P>]) -> Option<Symbol<P>>
where
    Symbol<P>: Kernel,
{
    use Operation::*;
    Some(match (operation, x) {
        (Square, &[x]) => x * x,
        (Reciprocal, &[x]) => Symbol::ONE / x,
        (Clip, &[x, low, high]) => x.maximum(low).minimum(high),
        (LogSigmoid, &[x]) => -(-x).softplus(),
        (LogisticDensity, &[x]) => composed::logistic_density(x),
        (OneMinusSquare, &[x]) => composed::one_minus_square(x),
        (Direction, &[a, b]) => composed::direction(a, b),
        (Inversion, &[a, b]) => composed::inversion(a, b),
        (Maximum, &[a, b]) => Symbol::select(a.less(b) | b.is_nan(), b, a),
        (Minimum, &[a, b]) => Symbol::select(b.less(a) | b.is_nan(), b, a),
        (Sign, &[x]) => {
            let of_zero_or_nan = Symbol::select(x.equal(Symbol::ZERO), Symbol::ZERO, x);
            let below = Symbol::select(x.less(Symbol::ZERO), -Symbol::ONE, of_zero_or_nan);
            Symbol::select(x.greater(Symbol::ZERO), Symbol::ONE, below)
        }
        (Remainder, &[a, b]) => composed::floor_remainder(a, b),
        (Exp, &[x]) => exponential::exp(x),
        (ExpOfNegative, &[x]) => exponential::exp_of_negative(x),
        (Exp2, &[x]) => exponential::exp2(x),
        (Expm1, &[x]) => exponential::expm1(x),
        (Sigmoid, &[x]) => exponential::sigmoid(x),
        (Log, &[x]) => logarithm::ln(x),
        (Log2, &[x]) => logarithm::log2(x),
        (Log10, &[x]) => logarithm::log10(x),
        (Log1p, &[x]) => logarithm::log1p(x),
        (Softplus, &[x]) => logarithm::softplus(x),
        (Logaddexp, &[a, b]) => logarithm::logaddexp(a, b),
        (Sin, &[x]) => trigonometric::sin_everywhere(x),
        (Cos, &[x]) => trigonometric::cos_everywhere(x),
        (Tan, &[x]) => trigonometric::tan_everywhere(x),
        (Asin, &[x]) => trigonometric::asin(x),
        (Acos, &[x]) => trigonometric::acos(x),
        (Atan, &[x]) => trigonometric::atan(x),
        (Atan2, &[a, b]) => trigonometric::atan2(a, b),
        (Sinh, &[x]) => hyperbolic::sinh(x),
        (Cosh, &[x]) => hyperbolic::cosh(x),
        (Tanh, &[x]) => hyperbolic::tanh(x),
        (Asinh, &[x]) => hyperbolic::asinh(x),
        (Acosh, &[x]) => hyperbolic::acosh(x),
        (Atanh, &[x]) => hyperbolic::atanh(x),
        (Erf, &[x]) => error_function::erf(x),
        (Erfc, &[x]) => error_function::erfc(x),
        (Erfinv, &[x]) => error_function::erfinv(x),
        (NormalDistribution, &[x]) => error_function::normal_distribution(x),
        (NormalDensity, &[x]) => error_function::normal_density(x),
        (Gelu, &[x]) => error_function::gelu(x),
        (Rsqrt, &[x]) => power::rsqrt(x),
        (Cbrt, &[x]) => power::cbrt(x),
        (Hypot, &[a, b]) => power::hypot(a, b),
        (Power, &[a, b]) => power::powf(a, b),
        _ => return None,
    })
}

impl Formula {
    /// Returns the formula for f32 (`Type::Single`) or f64, with all functions expanded into
    /// arithmetic except those that [branch](Operation::branches). Computed line by line, with each
    /// operation rounded once, it has the same bits as the loops of the CPU.
    ///
    /// ```
    /// use bibun_array::formula::{Formula, Operation, Type};
    /// let tanh = Formula::trace(1, 0, |x, _| x[0].tanh()).expanded(Type::Single);
    /// assert!(tanh.lines().iter().all(|line| line.operation() != Operation::Tanh));
    /// ```
    ///
    /// # Panics
    /// Panics if `precision` is neither of the two.
    #[must_use]
    pub fn expanded(&self, precision: Type) -> Self {
        let can_expand = |line: &Line| !line.operation.branches(line.value);
        self.typed(precision).all_expanded(&can_expand)
    }

    /// A formula whose lines have types, with all functions expanded into arithmetic except those
    /// that [branch on the CPU](Operation::branches_on_cpu).
    pub(crate) fn arithmetic(&self) -> Self {
        self.all_expanded(&|line: &Line| !line.operation.branches_on_cpu(line.value))
    }

    fn all_expanded(&self, can_expand: &dyn Fn(&Line) -> bool) -> Self {
        let (mut formula, mut changed) = self.once_expanded(can_expand);
        while changed {
            (formula, changed) = formula.once_expanded(can_expand);
        }
        formula
    }

    /// The same formula, of numbers of this precision.
    pub(super) fn typed(&self, precision: Type) -> Self {
        assert!(
            matches!(precision, Type::Single | Type::Double),
            "a formula is expanded for f32 or for f64"
        );
        let typed = |line: &Line| Line {
            value: match line.value {
                Type::Number => precision,
                value => value,
            },
            operation: match (line.operation, precision) {
                // From here on, constants are those of the precision.
                (Operation::Constant(bits), Type::Single) => {
                    let rounded = f64::from_bits(bits) as f32;
                    Operation::Constant(f64::from(rounded).to_bits())
                }
                (Operation::Largest, Type::Single) => {
                    Operation::Constant(f64::from(f32::MAX).to_bits())
                }
                (Operation::Largest, _) => Operation::Constant(f64::MAX.to_bits()),
                (operation, _) => operation,
            },
            arguments: line.arguments,
        };
        Self {
            lines: self.lines.iter().map(typed).collect(),
            results: self.results.clone(),
            ..*self
        }
    }

    fn once_expanded(&self, can_expand: &dyn Fn(&Line) -> bool) -> (Self, bool) {
        let mut changed = false;
        let (lines, results) =
            traced(&mut || {
                let mut places: Vec<Node> = Vec::with_capacity(self.lines.len());
                for line in &self.lines {
                    let arguments: Vec<Node> = line
                        .arguments()
                        .iter()
                        .map(|node| places[node.index()])
                        .collect();
                    let expanded = match (can_expand(line), line.value) {
                        (true, Type::Single) => expand::<f32>(line.operation, &arguments),
                        (true, Type::Double) => expand::<f64>(line.operation, &arguments),
                        _ => None,
                    };
                    changed |= expanded.is_some();
                    places.push(expanded.unwrap_or_else(|| {
                        write(Line::new(line.operation, line.value, &arguments))
                    }));
                }
                let results = self.results.iter().map(|node| places[node.index()]);
                results.collect()
            });
        (Self::new(lines, self.inputs, self.given, &results), changed)
    }
}

impl Formula {
    /// A formula whose lines have types, with sine, cosine and tangent expanded into arithmetic that is
    /// accurate up to a limit. Those of larger numbers are chosen as they are. Returns `None` if there
    /// are none.
    #[allow(
        dead_code,
        reason = "only the assembler asks for it, which not all systems have"
    )]
    pub(crate) fn with_reduced_angles(&self) -> Option<Self> {
        use Operation::{Cos, Sin, Tan};
        fn reduced<P: Symbolic>(operation: Operation, argument: Node, whole: Node) -> Node
        where
            Symbol<P>: Kernel,
        {
            let x: Symbol<P> = Symbol::at(argument);
            let reduced = match operation {
                Sin => trigonometric::sin_reduced(x),
                Cos => trigonometric::cos_reduced(x),
                _ => trigonometric::tan_reduced(x),
            };
            Symbol::select(trigonometric::is_beyond(x), Symbol::at(whole), reduced).node()
        }
        let is_angle = |line: &Line| matches!(line.operation, Sin | Cos | Tan);
        if !self.lines.iter().any(is_angle) {
            return None;
        }
        let (lines, results) = traced(&mut || {
            let mut places: Vec<Node> = Vec::with_capacity(self.lines.len());
            for line in &self.lines {
                let arguments: Vec<Node> = (line.arguments().iter())
                    .map(|node| places[node.index()])
                    .collect();
                let node = write(Line::new(line.operation, line.value, &arguments));
                if !is_angle(line) {
                    places.push(node);
                    continue;
                }
                places.push(match line.value {
                    Type::Single => reduced::<f32>(line.operation, arguments[0], node),
                    _ => reduced::<f64>(line.operation, arguments[0], node),
                });
            }
            let results = self.results.iter().map(|node| places[node.index()]);
            results.collect()
        });
        let formula = Self::new(lines, self.inputs, self.given, &results);
        Some(formula.arithmetic())
    }
}

/// The functions that are composed of others in every precision.
fn compose(operation: Operation, x: &[Symbol]) -> Option<Symbol> {
    use Operation::*;
    Some(match (operation, x) {
        (ExpOfNegative, &[x]) => x.exp(),
        (LogSigmoid, &[x]) => -(-x).softplus(),
        (LogisticDensity, &[x]) => composed::logistic_density(x),
        (OneMinusSquare, &[x]) => composed::one_minus_square(x),
        (Direction, &[a, b]) => composed::direction(a, b),
        (Inversion, &[a, b]) => composed::inversion(a, b),
        _ => return None,
    })
}

impl Formula {
    /// The formula without the functions that are not `known` and can be composed of others.
    pub(crate) fn composed(&self, known: &dyn Fn(Operation) -> bool) -> Self {
        let (lines, results) =
            traced(&mut || {
                let mut places: Vec<Node> = Vec::with_capacity(self.lines.len());
                for line in &self.lines {
                    let arguments: Vec<Node> = line
                        .arguments()
                        .iter()
                        .map(|node| places[node.index()])
                        .collect();
                    let made = match known(line.operation) {
                        true => None,
                        false => {
                            let symbols: Vec<Symbol> =
                                arguments.iter().map(|&node| Symbol::at(node)).collect();
                            compose(line.operation, &symbols).map(Symbol::node)
                        }
                    };
                    places.push(made.unwrap_or_else(|| {
                        write(Line::new(line.operation, line.value, &arguments))
                    }));
                }
                let results = self.results.iter().map(|node| places[node.index()]);
                results.collect()
            });
        Self::new(lines, self.inputs, self.given, &results)
    }
}

fn expand<P: Symbolic>(operation: Operation, arguments: &[Node]) -> Option<Node>
where
    Symbol<P>: Kernel,
{
    let is_of_numbers = operation
        .arguments()
        .iter()
        .all(|&argument| argument == Type::Number);
    if !is_of_numbers || operation.value() != Type::Number {
        return None;
    }
    let symbols: Vec<Symbol<P>> = arguments.iter().map(|&node| Symbol::known(node)).collect();
    Some(step(operation, &symbols)?.node())
}
