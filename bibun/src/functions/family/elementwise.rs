//! Elementwise functions: each output element depends on the input elements at the same index.

use std::fmt;

use bibun_array::Array;

use crate::batch::Lane;
use crate::context::Context;
use crate::examples::{Owned, Share};
use crate::function::{Arity, Fixed, Function, Keeps, Mismatch, Needs, Spec};
use crate::variable::Variable;

/// What is particular to one elementwise function of `N` inputs of equal shape and dtype.
pub(crate) trait ElementwiseRule<const N: usize>:
    Copy + fmt::Debug + Send + Sync + 'static
{
    /// The function's name.
    const NAME: &'static str;

    /// The values that [`ElementwiseRule::partial`] reads for the inputs in `needs`.
    fn keeps(needs: Needs<'_>) -> Keeps;

    /// The dtype and what else must hold; the shapes are equal.
    fn output(self, inputs: [&Spec; N]) -> Result<Spec, Mismatch> {
        Ok(inputs[0].clone())
    }

    /// The values.
    fn forward(self, inputs: [Array; N]) -> Array;

    /// `g ∂y/∂xᵢ`: the whole of both derivative rules, for the Jacobian is diagonal.
    fn partial(self, i: usize, cx: &Context<'_>, g: Variable) -> Variable;
}

/// The family: an [`ElementwiseRule`] as a [`Function`].
#[derive(Clone, Copy)]
pub(crate) struct Elementwise<const N: usize, R>(pub(crate) R);

impl<const N: usize, R: ElementwiseRule<N>> Function for Elementwise<N, R> {
    type Inputs = Fixed<N>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        R::NAME
    }

    fn keeps(&self, needs: Needs<'_>) -> Keeps {
        R::keeps(needs)
    }

    fn shape(&self, inputs: [&Spec; N]) -> Result<[Spec; 1], Mismatch> {
        let first = inputs[0];
        if inputs.iter().any(|input| *input != first) {
            let inputs: Vec<(&str, &Spec)> = ["x0", "x1", "x2"].into_iter().zip(inputs).collect();
            return Err(Mismatch::new(&inputs, "all must be equal"));
        }
        Ok([self.0.output(inputs)?])
    }

    fn forward(&self, inputs: [Array; N]) -> [Array; 1] {
        [self.0.forward(inputs)]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; N] {
        let mut gy = Some(gy);
        std::array::from_fn(|i| {
            if !cx.needs(i) {
                return None;
            }
            // The last one that needs the cotangent gets it whole, and may reuse its memory.
            let last = (i + 1..N).all(|later| !cx.needs(later));
            let gy = if last { gy.take() } else { gy.clone() };
            Some(self.0.partial(i, cx, gy.expect("taken by the last only")))
        })
    }

    fn jvp(&self, cx: &Context<'_>, dx: [Option<Variable>; N]) -> [Option<Variable>; 1] {
        let terms = dx.into_iter().enumerate();
        let terms = terms.filter_map(|(i, dx)| Some(self.0.partial(i, cx, dx?)));
        [terms.reduce(|sum, term| sum + term)]
    }

    fn batch(&self, inputs: [Lane; N]) -> [Lane; 1] {
        let (inputs, axis) = Lane::aligned(&inputs);
        let [value] = crate::apply(*self, Fixed::<N>::collect(inputs.into_iter()));
        [Lane::along(value, axis)]
    }

    fn per_example(&self, cx: &Context<'_>, [gy]: [Owned; 1]) -> [Option<Share>; N] {
        gy.through(|gy| self.vjp(cx, [gy]))
    }
}

impl<const N: usize, R: fmt::Debug> fmt::Debug for Elementwise<N, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
