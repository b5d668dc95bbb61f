//! Linear functions of one input: the tangent goes through the function itself, the cotangent
//! through its transpose, and every further derivative follows.

use std::fmt;

use bibun_array::Array;

use crate::batch::Batched;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient, Examples};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::batch_in_front;
use crate::variable::Variable;

/// What is particular to one linear function.
pub(crate) trait LinearRule: Clone + fmt::Debug + Send + Sync + 'static {
    /// The function's name.
    fn name(&self) -> &'static str;

    /// The output's shape and dtype. Defaults to those of `x`.
    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        Ok(x.clone())
    }

    /// The value.
    fn forward(&self, x: Array) -> Array;

    /// The transposed map applied to a cotangent, for an input that looked like `x`.
    fn transpose(&self, x: &Spec, gy: Variable) -> Variable;

    /// The function on all lanes of `x`, which lie along `axis`. Defaults to what it is for elements.
    fn batch(&self, x: Variable, axis: usize) -> Batched {
        Batched::along(Linear::of(self.clone(), x), axis)
    }

    /// Where the examples of the output lie in an input that looked like `x`, if that can be told.
    /// Defaults to the same place.
    fn examples(&self, _x: &Spec, y: &Examples) -> Option<Examples> {
        Some(y.clone())
    }

    /// What reaches an input that looked like `x`. Defaults to the transpose.
    fn per_example(&self, x: &Spec, gy: ExampleCotangent) -> ExampleGradient {
        match self.examples(x, &gy.examples) {
            Some(examples) => ExampleGradient::sliced(self.transpose(x, gy.cotangent), examples),
            None => ExampleGradient::Unknown,
        }
    }
}

/// The family: a [`LinearRule`] as a [`Function`].
#[derive(Clone)]
pub(crate) struct Linear<R>(pub(crate) R);

impl<R: LinearRule> Linear<R> {
    /// The function of `x`.
    #[track_caller]
    pub(crate) fn of(rule: R, x: Variable) -> Variable {
        let [y] = crate::apply(Self(rule), [x]);
        y
    }

    /// The function of `x` whose lanes, along `axis`, are put in front of the rule's own axes.
    pub(crate) fn in_front(rule: R, x: Variable, axis: usize) -> Batched {
        Batched::along(Self::of(rule, batch_in_front(x, axis)), 0)
    }
}

impl<R: LinearRule> Function for Linear<R> {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING
    }

    fn shape(&self, [x]: [&Spec; 1]) -> Result<[Spec; 1], Mismatch> {
        Ok([self.0.shape(x)?])
    }

    fn forward(&self, [x]: [Array; 1]) -> [Array; 1] {
        [self.0.forward(x)]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 1] {
        [Some(self.0.transpose(cx.input_spec(0), gy))]
    }

    fn jvp(&self, _: &Context<'_>, dx: [Option<Variable>; 1]) -> [Option<Variable>; 1] {
        dx.map(|dx| dx.map(|dx| Self::of(self.0.clone(), dx)))
    }

    fn batch(&self, x: [Batched; 1]) -> [Batched; 1] {
        let (x, axis) = Batched::mapped(x);
        [self.0.batch(x, axis)]
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 1] {
        [Some(self.0.per_example(cx.input_spec(0), gy))]
    }
}

impl<R: fmt::Debug> fmt::Debug for Linear<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
