//! Functions with discrete results (positions, truth values, random draws), which have no
//! derivative.

use std::fmt;

use bibun_array::Array;

use crate::batch::Batched;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Arity, Fixed, Function, Item, Mismatch, Needs, Saved, Spec};
use crate::variable::Variable;

/// The rules of one discrete function.
pub(crate) trait DiscreteRule: Clone + fmt::Debug + Send + Sync + 'static {
    /// The number of inputs.
    type Inputs: Arity;

    /// Returns the function's name.
    fn name(&self) -> &'static str;

    /// Returns the output's shape and dtype.
    fn shape(&self, inputs: Inputs<Self, &Spec>) -> Result<Spec, Mismatch>;

    /// Returns whether complex numbers are taken. Defaults to `false`.
    fn takes_complex(&self) -> bool {
        false
    }

    /// Computes the value.
    fn forward(&self, inputs: Inputs<Self, Array>) -> Array;

    /// Applies the function to all batch elements. Defaults to the rule of elementwise functions.
    fn batch(&self, inputs: Inputs<Self, Batched>) -> [Batched; 1] {
        Batched::of_elements(&Discrete(self.clone()), inputs)
    }
}

/// One `T` for each input of a rule.
type Inputs<R, T> = <<R as DiscreteRule>::Inputs as Arity>::Of<T>;

/// The family: a [`DiscreteRule`] as a [`Function`].
#[derive(Clone)]
pub(crate) struct Discrete<R>(pub(crate) R);

impl<R: DiscreteRule> Discrete<R> {
    /// Applies the function to these inputs.
    #[track_caller]
    pub(crate) fn of(rule: R, inputs: Inputs<R, Variable>) -> Variable {
        let [y] = crate::apply(Self(rule), inputs);
        y
    }

    /// Returns `None` for each input.
    fn nothing<T: Item>(cx: &Context<'_>) -> Inputs<R, Option<T>> {
        R::Inputs::collect((0..cx.input_count()).map(|_| None))
    }
}

impl<R: DiscreteRule> Function for Discrete<R> {
    type Inputs = R::Inputs;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING
    }

    fn shape(&self, inputs: Inputs<R, &Spec>) -> Result<[Spec; 1], Mismatch> {
        Ok([self.0.shape(inputs)?])
    }

    fn takes_complex(&self) -> bool {
        self.0.takes_complex()
    }

    fn forward(&self, inputs: Inputs<R, Array>) -> [Array; 1] {
        [self.0.forward(inputs)]
    }

    fn vjp(&self, cx: &Context<'_>, _: [Variable; 1]) -> Inputs<R, Option<Variable>> {
        Self::nothing(cx)
    }

    fn jvp(&self, _: &Context<'_>, _: Inputs<R, Option<Variable>>) -> [Option<Variable>; 1] {
        [None]
    }

    fn batch(&self, inputs: Inputs<R, Batched>) -> [Batched; 1] {
        self.0.batch(inputs)
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        _: [ExampleCotangent; 1],
    ) -> Inputs<R, Option<ExampleGradient>> {
        Self::nothing(cx)
    }
}

impl<R: fmt::Debug> fmt::Debug for Discrete<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
