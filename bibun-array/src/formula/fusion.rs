//! Formulas of several kernels that are computed in one pass.

use std::collections::HashMap;

use super::symbol::{traced, write};
use super::{Formula, Line, Node, Operation, Type};
use crate::dtype::Accumulator;
use crate::{DType, Element, Reduce, Scalar};

/// A formula among others that are computed together.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// A formula with the types of its lines known, and no given numbers.
    pub(crate) formula: Formula,
    pub(crate) inputs: Vec<Source>,
}

/// Where an input of a [`Member`] comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// An input of the whole.
    Input(usize),
    /// The result of an earlier member.
    Member(usize),
    /// A value that is known.
    Constant(Scalar),
}

/// What a pass makes of a result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// Its elements, of this dtype.
    Elements(DType),
    /// One element for each row of f32, as reductions of rows compute it.
    Fold(Reduce),
}

impl Target {
    /// The number of elements in each row.
    pub(crate) const fn in_row(self, width: usize) -> usize {
        match self {
            Self::Elements(_) => width,
            Self::Fold(_) => 1,
        }
    }
}

impl Line {
    /// A known value.
    fn constant(x: Scalar) -> Self {
        let value = Type::of(x.dtype());
        let operation = match value {
            Type::Truth => Operation::Always(bool::from_scalar(x)),
            Type::Integer => Operation::Whole(i64::from_scalar(x)),
            Type::Number | Type::Single | Type::Double => {
                Operation::Constant(f64::from_scalar(x).to_bits())
            }
        };
        Self::new(operation, value, &[])
    }
}

impl Type {
    /// The type in which elements of a dtype are computed.
    pub(crate) fn of(dtype: DType) -> Self {
        match dtype.computed() {
            Accumulator::Bool => Self::Truth,
            Accumulator::I64 => Self::Integer,
            Accumulator::F32 => Self::Single,
            Accumulator::F64 => Self::Double,
            Accumulator::C64 | Accumulator::C128 => crate::dtype::not_complex(),
        }
    }
}

impl Formula {
    /// The formula for inputs and a result of these dtypes (the result last), with the given numbers
    /// as constants, of operations that have loops. `None` if an operation has none.
    pub(crate) fn bound(&self, dtypes: &[DType], given: &[f64]) -> Option<Self> {
        let precision = dtypes
            .iter()
            .rev()
            .find_map(|&dtype| match Type::of(dtype) {
                Type::Single => Some(Type::Single),
                Type::Double => Some(Type::Double),
                _ => None,
            });
        let composed = self.composed(&|operation| {
            operation.arguments().is_empty() || operation.definition().is_some()
        });
        let mut formula = match precision {
            Some(precision) => composed.typed(precision),
            None => composed,
        };
        for line in &mut formula.lines {
            if let Operation::Given(i) = line.operation {
                let x = given[usize::from(i)];
                let x = match line.value {
                    Type::Single => f64::from(x as f32),
                    _ => x,
                };
                line.operation = Operation::Constant(x.to_bits());
            }
        }
        formula.given = 0;
        let has_loop = |line: &Line| {
            line.arguments().is_empty() && line.value != Type::Number
                || line.loop_definition().is_some()
        };
        formula.lines.iter().all(has_loop).then_some(formula)
    }

    /// The formula that computes the results of some members from common inputs of these types.
    pub(crate) fn fused(inputs: &[Type], members: &[Member], results: &[usize]) -> Self {
        let (lines, results) = traced(&mut || {
            let sources: Vec<Node> = (inputs.iter().enumerate())
                .map(|(i, &value)| write(Line::new(Operation::Input(i as u8), value, &[])))
                .collect();
            let mut made: Vec<Node> = Vec::with_capacity(members.len());
            for member in members {
                let mut places: Vec<Node> = Vec::with_capacity(member.formula.lines.len());
                for line in &member.formula.lines {
                    let node = match line.operation {
                        Operation::Input(i) => match member.inputs[usize::from(i)] {
                            Source::Input(i) => sources[i],
                            Source::Member(i) => made[i],
                            Source::Constant(x) => write(Line::constant(x)),
                        },
                        operation => {
                            let arguments: Vec<Node> = (line.arguments().iter())
                                .map(|node| places[node.index()])
                                .collect();
                            write(Line::new(operation, line.value, &arguments))
                        }
                    };
                    places.push(node);
                }
                made.push(places[member.formula.result().index()]);
            }
            results.iter().map(|&member| made[member]).collect()
        });
        Self::new(lines, inputs.len(), 0, &results)
    }

    /// The formula of one input of this type, which is the result.
    pub(crate) fn identity(of: Type) -> Self {
        let input = Line::new(Operation::Input(0), of, &[]);
        Self::new(vec![input], 1, 0, &[Node(0)])
    }

    /// The formula of some of the results, by their numbers.
    pub(crate) fn with_results(&self, results: &[usize]) -> Self {
        let results: Vec<Node> = results.iter().map(|&i| self.results[i]).collect();
        Self::new(self.lines.clone(), self.inputs, self.given, &results)
    }

    /// The same formula with its lines in an order in which few values are alive at a time: each
    /// result is computed after all that it alone needs.
    pub(crate) fn in_depth_first_order(&self) -> Self {
        let mut places: HashMap<Node, Node> = HashMap::new();
        let mut lines: Vec<Line> = Vec::with_capacity(self.lines.len());
        for &result in &self.results {
            let mut open = vec![(result, false)];
            while let Some((node, are_arguments_done)) = open.pop() {
                if places.contains_key(&node) {
                    continue;
                }
                let line = self.lines[node.index()];
                if are_arguments_done {
                    let arguments: Vec<Node> =
                        line.arguments().iter().map(|node| places[node]).collect();
                    places.insert(node, Node(lines.len() as u32));
                    lines.push(Line::new(line.operation, line.value, &arguments));
                } else {
                    open.push((node, true));
                    open.extend(line.arguments().iter().rev().map(|&node| (node, false)));
                }
            }
        }
        Self {
            lines,
            results: self.results.iter().map(|node| places[node]).collect(),
            ..*self
        }
    }
}
