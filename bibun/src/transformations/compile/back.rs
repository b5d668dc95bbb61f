//! Ways back through a function: from cotangents of its results to gradients, as lists of Variables that a
//! program can return.

use std::sync::Arc;

use bibun_array::{Array, is_traced};

use crate::examples::{ExampleCotangent, ExampleGradient, Examples, OuterProduct};
use crate::node::Edge;
use crate::per_example::{Part, pull_apart};
use crate::reverse::Paths;
use crate::variable::Variable;

/// A way back through a function.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Back {
    /// The inputs whose gradients are asked for.
    pub(super) needs: Vec<bool>,
    /// The examples that the slices of each cotangent belong to, if their gradients are kept apart.
    pub(super) examples: Option<Vec<Examples>>,
}

/// The terms of each gradient that is asked for. There is no gradient without terms.
pub(super) type Terms = Arc<[Vec<Term>]>;

/// A term of a gradient, without its values.
#[derive(Clone, Debug)]
pub(super) enum Term {
    /// The gradient itself.
    Whole,
    /// A [`Part`] of the gradients of examples.
    Sliced(Examples),
    Stacked,
    /// The factors are not those of the term.
    OuterProduct(OuterProduct),
}

impl Back {
    /// The way back of the ordinary gradient.
    pub(super) fn whole(needs: Vec<bool>) -> Self {
        let examples = None;
        Self { needs, examples }
    }

    /// Walks back. Returns the values of all terms, and the terms.
    pub(super) fn walk(
        &self,
        outputs: Vec<Edge>,
        inputs: &[Edge],
        cotangents: Vec<Option<Variable>>,
        create_graph: bool,
    ) -> (Vec<Variable>, Terms) {
        let inputs = inputs.iter().zip(&self.needs);
        let inputs = inputs.map(|(edge, needed)| match needed {
            true => edge.clone(),
            false => Edge::None,
        });
        let inputs: Vec<Edge> = inputs.collect();
        let asked = |i: &usize| self.needs[*i];
        let count = inputs.len();
        let mut values = Vec::new();
        let mut terms: Vec<Vec<Term>> = Vec::with_capacity(count);
        match &self.examples {
            None => {
                let paths = Paths::between(outputs, inputs);
                let gradients = paths.pull_back(cotangents, create_graph);
                for i in (0..count).filter(asked) {
                    terms.push(gradients[i].iter().map(|_| Term::Whole).collect());
                    values.extend(gradients[i].clone());
                }
            }
            Some(examples) => {
                let cotangents = cotangents.into_iter().zip(examples);
                let cotangents = cotangents.map(|(cotangent, examples)| ExampleCotangent {
                    cotangent: cotangent.expect("one for each output"),
                    examples: examples.clone(),
                });
                let outputs = outputs.into_iter().zip(cotangents).collect();
                let parts = pull_apart(outputs, inputs, create_graph);
                for i in (0..count).filter(asked) {
                    terms.push(parts[i].iter().map(Term::of).collect());
                    values.extend(parts[i].iter().flat_map(Term::values));
                }
            }
        }
        (values, terms.into())
    }

    /// Returns the terms of each input, of which there are none if there is no gradient of it.
    fn places<T>(
        &self,
        terms: &[Vec<Term>],
        mut next: impl FnMut(&Term) -> T,
    ) -> Vec<Option<Vec<T>>> {
        let mut terms = terms.iter();
        let mut place = |&asked: &bool| {
            let terms = asked.then(|| terms.next().expect("one for each that is asked for"))?;
            (!terms.is_empty()).then(|| terms.iter().map(&mut next).collect())
        };
        self.needs.iter().map(&mut place).collect()
    }

    /// The gradients, in the places of the inputs.
    pub(super) fn gradients(
        &self,
        terms: &[Vec<Term>],
        values: Vec<Variable>,
    ) -> Vec<Option<Variable>> {
        let mut values = values.into_iter();
        let places = self.places(terms, |_| values.next().expect("a value for each term"));
        let only = |terms: Option<Vec<Variable>>| terms?.pop();
        places.into_iter().map(only).collect()
    }

    /// The gradients of examples, in the places of the inputs.
    pub(super) fn example_gradients(
        &self,
        terms: &[Vec<Term>],
        values: Vec<Variable>,
    ) -> Vec<Option<ExampleGradient>> {
        let mut values = values.into_iter();
        let places = self.places(terms, |term| term.with(&mut values));
        let sum = |terms: Option<Vec<Part>>| Part::sum(terms.unwrap_or_default());
        places.into_iter().map(sum).collect()
    }
}

impl Term {
    fn of(part: &Part) -> Self {
        match part {
            Part::Sliced(sliced) => Self::Sliced(sliced.examples.clone()),
            Part::Stacked(_) => Self::Stacked,
            Part::OuterProduct(product) => {
                let empty = |x: &Variable| Variable::constant(Array::zeros((), x.dtype()));
                Self::OuterProduct(OuterProduct {
                    a: empty(&product.a),
                    b: empty(&product.b),
                    ..product.clone()
                })
            }
        }
    }

    fn values(part: &Part) -> Vec<Variable> {
        match part {
            Part::Sliced(sliced) => vec![sliced.cotangent.clone()],
            Part::Stacked(cotangent) => vec![cotangent.clone()],
            Part::OuterProduct(product) => vec![product.a.clone(), product.b.clone()],
        }
    }

    fn with(&self, values: &mut impl Iterator<Item = Variable>) -> Part {
        let mut next = || values.next().expect("as many as the term has");
        match self {
            Self::Whole => unreachable!("examples have parts"),
            Self::Sliced(examples) => Part::Sliced(ExampleCotangent {
                cotangent: next(),
                examples: examples.clone(),
            }),
            Self::Stacked => Part::Stacked(next()),
            Self::OuterProduct(product) => Part::OuterProduct(OuterProduct {
                a: next(),
                b: next(),
                ..product.clone()
            }),
        }
    }

    /// Whether the term is the same in every run: no function in it has captured a value of the trace.
    /// `values` are those of all terms.
    pub(super) fn are_free(terms: &[Vec<Self>], values: &[Variable]) -> bool {
        let mut values = values.iter().cloned();
        terms.iter().flatten().all(|term| match term {
            Self::Whole | Self::Sliced(_) | Self::Stacked => values.next().is_some(),
            Self::OuterProduct(product) => {
                let mut specimen = || {
                    let spec = values.next().expect("two factors").spec();
                    Variable::constant(Array::zeros(spec.shape.removed(0), spec.dtype))
                };
                let (a, b) = (specimen(), specimen());
                let sum = (product.sum)(&a, &b);
                sum.plain_array().is_some_and(|sum| !is_traced(&sum))
            }
        })
    }
}
