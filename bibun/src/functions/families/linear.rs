//! Linear functions of one input: the tangent passes through the function itself, the cotangent
//! through its transpose, and all further derivatives follow.

use std::fmt;

use bibun_array::Array;

use crate::batch::Batched;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient, Examples};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::batch_in_front;
use crate::variable::Variable;

/// The rules of one linear function.
pub(crate) trait LinearRule: Clone + fmt::Debug + Send + Sync + 'static {
    /// Returns the function's name.
    fn name(&self) -> &'static str;

    /// Returns the output's shape and dtype. Defaults to those of `x`.
    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        Ok(x.clone())
    }

    /// Computes the value.
    fn forward(&self, x: Array) -> Array;

    /// Returns whether `forward` gets 16-bit floats as `f32`; see [`Function::in_accumulator`]. Defaults to `false`.
    fn in_accumulator(&self) -> bool {
        false
    }

    /// Applies the transposed map (of complex numbers: its conjugate) to a cotangent, given the spec of
    /// the input.
    fn transpose(&self, x: &Spec, gy: Variable) -> Variable;

    /// Returns whether complex numbers are taken, of which both parts are mapped in the same way.
    /// Defaults to `true`.
    fn takes_complex(&self) -> bool {
        true
    }

    /// Applies the function to all batch elements of `x`, whose batch axis is `axis`. Defaults to
    /// the rule of elementwise functions.
    fn batch(&self, x: Variable, axis: usize) -> Batched {
        Batched::along(Linear::of(self.clone(), x), axis)
    }

    /// Returns the positions in the input of the examples of the output, or `None` if they are
    /// unknown. Defaults to the same positions.
    fn examples(&self, _x: &Spec, y: &Examples) -> Option<Examples> {
        Some(y.clone())
    }

    /// Returns the example gradient of the input, given its spec. Defaults to the transpose.
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
    /// Applies the function to `x`.
    #[track_caller]
    pub(crate) fn of(rule: R, x: Variable) -> Variable {
        let [y] = crate::apply(Self(rule), [x]);
        y
    }

    /// Applies the function to `x` with the batch axis, which is `axis`, moved in front of the
    /// rule's own axes.
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

    fn takes_complex(&self) -> bool {
        self.0.takes_complex()
    }

    fn forward(&self, [x]: [Array; 1]) -> [Array; 1] {
        [self.0.forward(x)]
    }

    fn in_accumulator(&self) -> bool {
        self.0.in_accumulator()
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
