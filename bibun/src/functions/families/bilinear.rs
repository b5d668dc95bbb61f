//! Bilinear functions: linear in each of two inputs, with a transpose for each.

use std::fmt;

use bibun_array::Array;

use crate::batch::Batched;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::conj;
use crate::functions::families::sum_of;
use crate::variable::Variable;

/// The rules of one bilinear function.
pub(crate) trait BilinearRule: Clone + fmt::Debug + Send + Sync + 'static {
    /// Returns the function's name.
    fn name(&self) -> &'static str;

    /// Returns the output's shape and dtype.
    fn shape(&self, a: &Spec, b: &Spec) -> Result<Spec, Mismatch>;

    /// Computes the value.
    fn forward(&self, a: Array, b: Array) -> Array;

    /// Returns whether complex numbers are taken. Defaults to `true`.
    fn takes_complex(&self) -> bool {
        true
    }

    /// Computes the cotangent of `a`, given its spec, from the conjugate of `b`.
    fn transpose_a(&self, a: &Spec, b: Variable, gy: Variable) -> Variable;

    /// Computes the cotangent of `b`, given its spec, from the conjugate of `a`.
    fn transpose_b(&self, b: &Spec, a: Variable, gy: Variable) -> Variable;

    /// Applies the function to all batch elements; at least one of `a` and `b` has a batch axis.
    fn batch(&self, a: Batched, b: Batched) -> Batched;

    /// Returns the example gradients of `a` and `b`.
    fn per_example(&self, cx: &Context<'_>, gy: ExampleCotangent) -> [Option<ExampleGradient>; 2];
}

/// The family: a [`BilinearRule`] as a [`Function`].
#[derive(Clone)]
pub(crate) struct Bilinear<R>(pub(crate) R);

impl<R: BilinearRule> Bilinear<R> {
    /// Applies the function to `a` and `b`.
    #[track_caller]
    pub(crate) fn of(rule: R, a: Variable, b: Variable) -> Variable {
        let [y] = crate::apply(Self(rule), [a, b]);
        y
    }
}

impl<R: BilinearRule> Function for Bilinear<R> {
    type Inputs = Fixed<2>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn saves(&self, needs: Needs<'_>) -> Saved {
        let [a, b] = [0, 1].map(|i| Saved::NOTHING.input(i));
        b.only_if(needs[0]).and(a.only_if(needs[1]))
    }

    fn shape(&self, [a, b]: [&Spec; 2]) -> Result<[Spec; 1], Mismatch> {
        Ok([self.0.shape(a, b)?])
    }

    fn takes_complex(&self) -> bool {
        self.0.takes_complex()
    }

    fn forward(&self, [a, b]: [Array; 2]) -> [Array; 1] {
        [self.0.forward(a, b)]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 2] {
        let ga = || {
            self.0
                .transpose_a(cx.input_spec(0), conj(cx.input(1)), gy.clone())
        };
        let gb = || {
            self.0
                .transpose_b(cx.input_spec(1), conj(cx.input(0)), gy.clone())
        };
        [cx.needs(0).then(ga), cx.needs(1).then(gb)]
    }

    fn jvp(&self, cx: &Context<'_>, [da, db]: [Option<Variable>; 2]) -> [Option<Variable>; 1] {
        let from_a = da.map(|da| Self::of(self.0.clone(), da, cx.input(1)));
        let from_b = db.map(|db| Self::of(self.0.clone(), cx.input(0), db));
        [sum_of(from_a, from_b)]
    }

    fn batch(&self, [a, b]: [Batched; 2]) -> [Batched; 1] {
        [self.0.batch(a, b)]
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 2] {
        // Factors are kept as they are, and not as their conjugates.
        if gy.cotangent.dtype().is_complex() {
            return [0, 1].map(|i| cx.needs(i).then_some(ExampleGradient::Unknown));
        }
        self.0.per_example(cx, gy)
    }
}

impl<R: fmt::Debug> fmt::Debug for Bilinear<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
