//! Formulas as data: the computation of an elementwise function, as a list of operations.
//!
//! A formula is written once, as a function over [`Float`](crate::math::Float) numbers. On `f32`
//! and `f64` it is the loop of the CPU; on [`Symbol`]s it records its operations, and that list can
//! be printed, compared, hashed, composed, [expanded](Formula::expanded) into arithmetic and
//! [written](Formula::cuda) in CUDA C.
//!
//! Formulas cannot branch on values: comparisons return a [`Truth`](crate::math::Truth), which
//! selects. [`Operation::branches`] is true of the few functions that branch or loop.
//!
//! ```
//! use bibun_array::formula::Formula;
//! let relu = Formula::trace(1, 0, |x, _| x[0].maximum(0.0));
//! let tanh = Formula::trace(1, 0, |x, _| x[0].tanh());
//! assert_eq!(relu.of(&[&tanh]).to_string(), "v0 = tanh(x0)\nmaximum(v0, 0)");
//! ```

mod cuda;
mod expansion;
mod fusion;
mod operation;
mod symbol;

use std::fmt;

pub(crate) use fusion::{Member, Source, Target};
pub use operation::{Operation, Type};
pub use symbol::{Any, Symbol, Symbolic, SymbolicTruth};

use crate::{Definition, ElementFormula, Mask, Number, Whole, ops};

/// The number of a line of a formula.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Node(u32);

impl Node {
    /// Returns the number of the line.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// One step: an operation, the lines of its arguments, and the type of its value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Line {
    operation: Operation,
    value: Type,
    arguments: [Node; 3],
}

impl Line {
    fn new(operation: Operation, value: Type, arguments: &[Node]) -> Self {
        debug_assert_eq!(
            arguments.len(),
            operation.arguments().len(),
            "{operation:?}"
        );
        let mut all = [Node(0); 3];
        all[..arguments.len()].copy_from_slice(arguments);
        Self {
            operation,
            value,
            arguments: all,
        }
    }

    /// Returns the operation.
    pub const fn operation(&self) -> Operation {
        self.operation
    }

    /// Returns the type of the value.
    pub const fn value(&self) -> Type {
        self.value
    }

    /// The loop that computes the line from runs of its arguments, if there is one.
    pub(crate) fn loop_definition(&self) -> Option<&'static Definition> {
        match (self.operation, self.value) {
            (Operation::Widen, _) | (Operation::ToNumber, Type::Double) => Some(&ops::CAST_TO_F64),
            (Operation::Narrow, _) | (Operation::ToNumber, Type::Single) => Some(&ops::CAST_TO_F32),
            (Operation::ToInteger, _) => Some(&ops::CAST_TO_I64),
            (Operation::Select, Type::Integer) => Some(&ops::SELECT_INTEGERS),
            (operation, _) => operation.definition(),
        }
    }

    /// Returns the lines of the arguments.
    pub fn arguments(&self) -> &[Node] {
        &self.arguments[..self.operation.arguments().len()]
    }
}

/// The computation of an elementwise function: operations in an order in which they can be
/// executed, none of which is repeated or unused. It has one result, or several, as for an
/// [`Update`](crate::Update). Two formulas are equal if they have the same operations in the same
/// order.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Formula {
    lines: Vec<Line>,
    inputs: usize,
    given: usize,
    results: Vec<Node>,
}

/// A value that a traced function may return.
pub trait Traceable {
    /// Returns the lines of the values.
    #[doc(hidden)]
    fn nodes(self) -> Vec<Node>;
}
impl Traceable for Number<Symbol> {
    fn nodes(self) -> Vec<Node> {
        vec![self.0.node()]
    }
}
impl Traceable for Mask<Symbol> {
    fn nodes(self) -> Vec<Node> {
        vec![self.0.node()]
    }
}
impl Traceable for Whole<Symbol<i64>> {
    fn nodes(self) -> Vec<Node> {
        vec![self.0.node()]
    }
}
impl Traceable for SymbolicTruth {
    fn nodes(self) -> Vec<Node> {
        vec![self.node()]
    }
}
impl<Y: Traceable> Traceable for Vec<Y> {
    fn nodes(self) -> Vec<Node> {
        self.into_iter().flat_map(Traceable::nodes).collect()
    }
}

/// A value in a formula that is built from the lines of another.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// A number.
    Number(Number<Symbol>),
    /// The result of a comparison.
    Truth(Mask<Symbol>),
    /// An integer.
    Integer(Whole<Symbol<i64>>),
}

impl Part {
    /// Returns the number.
    ///
    /// # Panics
    /// Panics if this is not a number.
    pub fn number(self) -> Number<Symbol> {
        match self {
            Self::Number(x) => x,
            Self::Truth(_) | Self::Integer(_) => unreachable!("{self:?} is no number"),
        }
    }

    /// Returns the integer.
    ///
    /// # Panics
    /// Panics if this is not an integer.
    pub fn integer(self) -> Whole<Symbol<i64>> {
        match self {
            Self::Integer(x) => x,
            Self::Number(_) | Self::Truth(_) => unreachable!("{self:?} is no integer"),
        }
    }

    /// Returns the result of a comparison.
    ///
    /// # Panics
    /// Panics if this is not the result of a comparison.
    pub fn truth(self) -> Mask<Symbol> {
        match self {
            Self::Truth(truth) => truth,
            Self::Number(_) | Self::Integer(_) => unreachable!("{self:?} is no truth"),
        }
    }
}

impl Traceable for Part {
    fn nodes(self) -> Vec<Node> {
        match self {
            Self::Number(x) => x.nodes(),
            Self::Truth(x) => x.nodes(),
            Self::Integer(x) => x.nodes(),
        }
    }
}

impl Formula {
    /// A formula of those of the lines that the results need.
    fn new(lines: Vec<Line>, inputs: usize, given: usize, results: &[Node]) -> Self {
        let mut needed = vec![false; lines.len()];
        results.iter().for_each(|node| needed[node.index()] = true);
        for (i, line) in lines.iter().enumerate().rev() {
            if needed[i] {
                line.arguments()
                    .iter()
                    .for_each(|node| needed[node.index()] = true);
            }
        }
        let mut places = vec![Node(0); lines.len()];
        let mut kept = Vec::with_capacity(lines.len());
        for (i, line) in lines.iter().enumerate().filter(|(i, _)| needed[*i]) {
            places[i] = Node(kept.len() as u32);
            let mut line = *line;
            line.arguments = line.arguments.map(|node| places[node.index()]);
            kept.push(line);
        }
        Self {
            lines: kept,
            inputs,
            given,
            results: results.iter().map(|node| places[node.index()]).collect(),
        }
    }

    /// The formula of these lines: operations with types and the numbers of arguments.
    #[cfg(test)]
    pub(crate) fn of_lines(
        lines: &[(Operation, Type, Vec<usize>)],
        inputs: usize,
        results: &[usize],
    ) -> Self {
        let node = |&i: &usize| Node(i as u32);
        let lines = lines.iter().map(|(operation, value, arguments)| {
            let arguments: Vec<Node> = arguments.iter().map(node).collect();
            Line::new(*operation, *value, &arguments)
        });
        let results: Vec<Node> = results.iter().map(node).collect();
        Self::new(lines.collect(), inputs, 0, &results)
    }

    /// Reads a formula that is a type.
    pub fn read<const N: usize, const G: usize, F: ElementFormula<N, G>>() -> Self {
        crate::kernel::trace::<N, G, F>()
    }

    /// Returns the lines, each after the lines of its arguments.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Returns the number of inputs.
    pub const fn inputs(&self) -> usize {
        self.inputs
    }

    /// Returns the type of each input, which is `Number` for an input that is not read.
    pub fn input_types(&self) -> Vec<Type> {
        let mut types = vec![Type::Number; self.inputs];
        for line in &self.lines {
            if let Operation::Input(i) = line.operation {
                types[usize::from(i)] = line.value;
            }
        }
        types
    }

    /// Returns the number of numbers that are given with a call.
    pub const fn given(&self) -> usize {
        self.given
    }

    /// Returns the line of the result, or that of the first result if there are several.
    pub fn result(&self) -> Node {
        self.results[0]
    }

    /// Returns the lines of all results.
    pub fn results(&self) -> &[Node] {
        &self.results
    }

    /// Returns whether the formula reads an input.
    pub fn reads(&self, input: usize) -> bool {
        let reads =
            |line: &Line| matches!(line.operation, Operation::Input(i) if usize::from(i) == input);
        self.lines.iter().any(reads)
    }

    /// Returns the constant that the result is, or `None` if it is not constant.
    pub fn constant(&self) -> Option<f64> {
        match self.lines[self.result().index()].operation {
            Operation::Constant(bits) => Some(f64::from_bits(bits)),
            _ => None,
        }
    }

    /// Composes this formula with others, which compute its inputs. The composed formula has all
    /// their inputs, those of the first one first, and all their given numbers after those of this
    /// formula.
    ///
    /// # Panics
    /// Panics if there is not one formula for each input.
    #[must_use]
    pub fn of(&self, inner: &[&Self]) -> Self {
        assert_eq!(inner.len(), self.inputs, "a formula for each input");
        let inputs: Vec<Type> = (inner.iter())
            .flat_map(|formula| formula.input_types())
            .collect();
        let given = self.given + inner.iter().map(|formula| formula.given).sum::<usize>();
        Self::trace_of(&inputs, given, |x, c| {
            let (own, mut c) = c.split_at(self.given);
            let mut x = x;
            let parts: Vec<Part> = (inner.iter())
                .map(|formula| {
                    let (mine, others) = x.split_at(formula.inputs);
                    let (numbers, rest) = c.split_at(formula.given);
                    (x, c) = (others, rest);
                    formula.on(mine, numbers)
                })
                .collect();
            self.on(&parts, own)
        })
    }

    /// Returns the value on symbols, while another formula is traced.
    pub fn on(&self, x: &[Part], given: &[Number<Symbol>]) -> Part {
        self.values(x, given)[self.result().index()]
    }

    /// Returns the values of all results on symbols, while another formula is traced.
    pub fn results_on(&self, x: &[Part], given: &[Number<Symbol>]) -> Vec<Part> {
        let values = self.values(x, given);
        self.results
            .iter()
            .map(|node| values[node.index()])
            .collect()
    }

    /// Returns the values of all lines on symbols, while another formula is traced.
    pub fn values(&self, x: &[Part], given: &[Number<Symbol>]) -> Vec<Part> {
        let mut values: Vec<Part> = Vec::with_capacity(self.lines.len());
        for line in &self.lines {
            let value = match line.operation {
                Operation::Input(i) => x[usize::from(i)],
                Operation::Given(i) => Part::Number(given[usize::from(i)]),
                operation => {
                    let arguments = line.arguments().iter().map(|node| values[node.index()]);
                    operation.apply(&arguments.collect::<Vec<_>>())
                }
            };
            values.push(value);
        }
        values
    }
}

impl fmt::Display for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<String> = Vec::with_capacity(self.lines.len());
        let mut next = 0;
        for (i, line) in self.lines.iter().enumerate() {
            let arguments: Vec<&str> = line
                .arguments()
                .iter()
                .map(|node| names[node.index()].as_str())
                .collect();
            let text = line.operation.written(&arguments);
            let is_named = !line.arguments().is_empty() && self.results != [Node(i as u32)];
            names.push(match is_named {
                true => {
                    let name = format!("v{next}");
                    next += 1;
                    writeln!(f, "{name} = {text}")?;
                    name
                }
                false => text,
            });
        }
        let results = self.results.iter().map(|node| names[node.index()].as_str());
        f.write_str(&results.collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Debug for Formula {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Formula({} inputs, {} given:\n{self})",
            self.inputs, self.given
        )
    }
}

impl Operation {
    /// The operation on these texts.
    fn written(self, arguments: &[&str]) -> String {
        match (self, arguments) {
            (Self::Input(i), _) => format!("x{i}"),
            (Self::Given(i), _) => format!("c{i}"),
            (Self::Constant(bits), _) => f64::from_bits(bits).to_string(),
            (Self::Always(holds), _) => holds.to_string(),
            (Self::Whole(x), _) => x.to_string(),
            (Self::Negative, [a]) => format!("-{a}"),
            (_, []) => self.name().to_owned(),
            (
                Self::Add
                | Self::Subtract
                | Self::Multiply
                | Self::Divide
                | Self::Equal
                | Self::Less
                | Self::LessEqual
                | Self::BitsAnd
                | Self::BitsOr
                | Self::BitsXor,
                [a, b],
            ) => format!("{a} {} {b}", self.name()),
            _ => format!("{}({})", self.name(), arguments.join(", ")),
        }
    }
}
