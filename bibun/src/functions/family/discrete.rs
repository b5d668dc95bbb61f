//! Functions of one input to positions or truths, which have no derivative.

use std::fmt;

use bibun_array::Array;

use crate::batch::Lane;
use crate::context::Context;
use crate::examples::{Owned, Share};
use crate::function::{Fixed, Function, Keeps, Mismatch, Needs, Spec};
use crate::variable::Variable;

/// What is particular to one such function.
pub(crate) trait DiscreteRule: Clone + fmt::Debug + Send + Sync + 'static {
    /// The function's name.
    fn name(&self) -> &'static str;

    /// The output's shape and dtype, which is no float.
    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch>;

    /// The value.
    fn forward(&self, x: Array) -> Array;

    /// The function on all lanes of `x`, which lie along `axis`.
    fn batch(&self, x: Variable, axis: usize) -> Lane;
}

/// The family: a [`DiscreteRule`] as a [`Function`].
#[derive(Clone)]
pub(crate) struct Discrete<R>(pub(crate) R);

impl<R: DiscreteRule> Discrete<R> {
    /// The function of `x`.
    #[track_caller]
    pub(crate) fn of(rule: R, x: Variable) -> Variable {
        let [y] = crate::apply(Self(rule), [x]);
        y
    }
}

impl<R: DiscreteRule> Function for Discrete<R> {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn keeps(&self, _: Needs<'_>) -> Keeps {
        Keeps::NOTHING
    }

    fn shape(&self, [x]: [&Spec; 1]) -> Result<[Spec; 1], Mismatch> {
        Ok([self.0.shape(x)?])
    }

    fn forward(&self, [x]: [Array; 1]) -> [Array; 1] {
        [self.0.forward(x)]
    }

    fn vjp(&self, _: &Context<'_>, _: [Variable; 1]) -> [Option<Variable>; 1] {
        [None]
    }

    fn jvp(&self, _: &Context<'_>, _: [Option<Variable>; 1]) -> [Option<Variable>; 1] {
        [None]
    }

    fn batch(&self, [Lane { value, axis }]: [Lane; 1]) -> [Lane; 1] {
        [self.0.batch(value, axis.expect("the only input has lanes"))]
    }

    fn per_example(&self, _: &Context<'_>, _: [Owned; 1]) -> [Option<Share>; 1] {
        [None]
    }
}

impl<R: fmt::Debug> fmt::Debug for Discrete<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
