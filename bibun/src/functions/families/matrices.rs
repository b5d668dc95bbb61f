//! Functions of matrices, which are the last axes of their inputs; all axes in front are those of a batch.

use std::fmt;

use bibun_array::Array;

use crate::batch::Batched;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Arity, Function, Inputs, Mismatch, Needs, Outputs, Saved, Spec};
use crate::functions::conj;
use crate::variable::Variable;

/// The rules of one function of matrices. All inputs have the same axes in front, and so have all outputs.
pub(crate) trait MatrixRule: Clone + fmt::Debug + Send + Sync + 'static {
    type Inputs: Arity;
    type Outputs: Arity;
    fn name(&self) -> &'static str;
    /// Whether 16-bit floats are cast to `f32` before, and the results back. Defaults to `false`.
    fn in_accumulator(&self) -> bool {
        false
    }
    /// Whether complex numbers are taken: of those that it takes, the function must be complex differentiable, and
    /// rules are written as if they were real (the family conjugates). Defaults to `false`.
    fn takes_complex(&self) -> bool {
        false
    }
    /// The number of axes of the first input that are not of the batch.
    fn rank(&self) -> usize {
        2
    }
    fn saves(&self, needs: Needs<'_>) -> Saved;
    fn results(&self, x: ListOf<Self::Inputs, &Spec>) -> ListOf<Self::Outputs, Spec>;
    fn forward(&self, x: ListOf<Self::Inputs, Array>) -> ListOf<Self::Outputs, Array>;
    fn vjp(
        &self,
        cx: &Context<'_>,
        gy: ListOf<Self::Outputs, Variable>,
    ) -> ListOf<Self::Inputs, Option<Variable>>;
    fn jvp(
        &self,
        cx: &Context<'_>,
        dx: ListOf<Self::Inputs, Option<Variable>>,
    ) -> ListOf<Self::Outputs, Option<Variable>>;
}

pub(crate) type ListOf<A, T> = <A as Arity>::Of<T>;

/// The family: a [`MatrixRule`] as a [`Function`].
#[derive(Clone)]
pub(crate) struct OfMatrices<R>(R);

impl<R: MatrixRule> OfMatrices<R> {
    /// The rule's cotangents, of complex numbers with the conjugate of each derivative.
    fn pulled(
        &self,
        cx: &Context<'_>,
        gy: ListOf<R::Outputs, Variable>,
    ) -> ListOf<R::Inputs, Option<Variable>> {
        if !gy.as_ref().iter().any(|gy| gy.dtype().is_complex()) {
            return self.0.vjp(cx, gy);
        }
        let gx = self.0.vjp(cx, R::Outputs::map(gy, conj));
        R::Inputs::map(gx, |gx| gx.map(conj))
    }

    /// Applies the function.
    #[track_caller]
    pub(crate) fn of(rule: R, x: ListOf<R::Inputs, Variable>) -> ListOf<R::Outputs, Variable> {
        crate::apply(Self(rule), x)
    }
}

impl<R: MatrixRule> Function for OfMatrices<R> {
    type Inputs = R::Inputs;
    type Outputs = R::Outputs;

    fn name(&self) -> &'static str {
        self.0.name()
    }
    fn in_accumulator(&self) -> bool {
        self.0.in_accumulator()
    }
    fn takes_complex(&self) -> bool {
        self.0.takes_complex()
    }
    fn saves(&self, needs: Needs<'_>) -> Saved {
        self.0.saves(needs)
    }
    fn shape(&self, x: Inputs<Self, &Spec>) -> Result<Outputs<Self, Spec>, Mismatch> {
        Ok(self.0.results(x))
    }
    fn forward(&self, x: Inputs<Self, Array>) -> Outputs<Self, Array> {
        self.0.forward(x)
    }
    fn vjp(&self, cx: &Context<'_>, gy: Outputs<Self, Variable>) -> Inputs<Self, Option<Variable>> {
        self.pulled(cx, gy)
    }
    fn jvp(
        &self,
        cx: &Context<'_>,
        dx: Inputs<Self, Option<Variable>>,
    ) -> Outputs<Self, Option<Variable>> {
        self.0.jvp(cx, dx)
    }
    fn batch(&self, x: Inputs<Self, Batched>) -> Outputs<Self, Batched> {
        Batched::in_front(self.clone(), x)
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        gy: Outputs<Self, ExampleCotangent>,
    ) -> Inputs<Self, Option<ExampleGradient>> {
        let count = cx.needs.len();
        let batch = cx.input_shape(0).rank() - self.0.rank();
        let all = gy.as_ref().iter().map(|gy| Some(gy.examples.clone()));
        let examples = all.reduce(|a, b| a?.merged(&b?)).flatten();
        match examples.filter(|examples| examples.axis() < batch) {
            Some(examples) => {
                let gx = self.pulled(cx, R::Outputs::map(gy, |gy| gy.cotangent));
                R::Inputs::map(gx, |gx| {
                    Some(ExampleGradient::sliced(gx?, examples.clone()))
                })
            }
            // Only `vjp` knows what an element of a matrix depends on.
            None => R::Inputs::collect(
                (0..count).map(|i| cx.needs(i).then_some(ExampleGradient::Unknown)),
            ),
        }
    }
}

impl<R: fmt::Debug> fmt::Debug for OfMatrices<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
