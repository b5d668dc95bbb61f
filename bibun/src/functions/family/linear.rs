//! Linear functions of one input: the tangent goes through the function itself, the cotangent
//! through its transpose, and every further derivative follows.

use std::fmt;

use bibun_array::Array;

use crate::batch::Lane;
use crate::context::Context;
use crate::examples::{Owned, Share};
use crate::function::{Fixed, Function, Keeps, Mismatch, Needs, Spec};
use crate::variable::Variable;

/// What is particular to one linear function.
pub(crate) trait LinearRule: Clone + fmt::Debug + Send + Sync + 'static {
    /// The function's name.
    fn name(&self) -> &'static str;

    /// The output's shape and dtype.
    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch>;

    /// The value.
    fn forward(&self, x: Array) -> Array;

    /// The transposed map applied to a cotangent, for an input that looked like `x`.
    fn transpose(&self, x: &Spec, gy: Variable) -> Variable;

    /// The function on all lanes of `x`, which lie along `axis`.
    fn batch(&self, x: Variable, axis: usize) -> Lane;

    /// Where the examples lie in an input that looked like `x`, and what reaches it.
    fn per_example(&self, x: &Spec, gy: Owned) -> Share;
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
}

impl<R: LinearRule> Function for Linear<R> {
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

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 1] {
        [Some(self.0.transpose(cx.input_spec(0), gy))]
    }

    fn jvp(&self, _: &Context<'_>, dx: [Option<Variable>; 1]) -> [Option<Variable>; 1] {
        dx.map(|dx| dx.map(|dx| Self::of(self.0.clone(), dx)))
    }

    fn batch(&self, [Lane { value, axis }]: [Lane; 1]) -> [Lane; 1] {
        [self.0.batch(value, axis.expect("the only input has lanes"))]
    }

    fn per_example(&self, cx: &Context<'_>, [gy]: [Owned; 1]) -> [Option<Share>; 1] {
        [Some(self.0.per_example(cx.input_spec(0), gy))]
    }
}

impl<R: fmt::Debug> fmt::Debug for Linear<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
