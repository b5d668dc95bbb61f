//! The transformations that walk forwards.

use std::fmt;
use std::sync::Arc;

use super::gradient::Pullback;
use super::{float_leaves, vjp};
use crate::call::calling;
use crate::forward;
use crate::functions::zeros_like;
use crate::node::Node;
use crate::scope;
use crate::tree::{Leaves, Tree};
use crate::variable::Variable;

/// Computes the value of `f` at `x` and its derivative there along `tangent`: the product of the
/// Jacobian with a vector, in one run of `f` that records nothing.
///
/// The tangent has the structure of `x`. The derivative has the structure of the result, and is zero
/// where the result does not depend on `x` or is not a float.
///
/// ```
/// use bibun::{jvp, Variable};
/// let (y, dy) = jvp(|x| x * x, &Variable::constant(3.0), &Variable::constant(1.0));
/// assert_eq!((y.item::<f64>(), dy.item::<f64>()), (9.0, 6.0));
/// ```
///
/// # Panics
/// Panics if `x` has no Variable or has one that is not a float, or if the tangent differs from `x`
/// in structure, shape or dtype.
#[track_caller]
pub fn jvp<A: Tree, Y: Tree>(f: impl FnOnce(&A) -> Y, x: &A, tangent: &A) -> (Y, Y) {
    let _called = calling("jvp");
    let leaves = float_leaves("jvp", x);
    let tangents = leaves.matching("jvp", ["the argument", "the tangent"], tangent);
    let mut result = None;
    let run = |duals: &[Variable]| {
        let y = f(&leaves.replaced(x, duals));
        let outputs = Leaves::of(&y);
        let variables = outputs.variables.clone();
        result = Some((y, outputs));
        variables
    };
    let (values, tangents) = forward::jvp(run, &leaves.variables, &tangents);
    let (y, outputs) = result.expect("the function has run");
    let tangents = or_zeros(&values, tangents);
    (
        outputs.replaced(&y, &values),
        outputs.replaced(&y, &tangents),
    )
}

fn or_zeros(values: &[Variable], tangents: Vec<Option<Variable>>) -> Vec<Variable> {
    let or_zero = |(y, dy): (_, Option<Variable>)| dy.unwrap_or_else(|| zeros_like(y));
    values.iter().zip(tangents).map(or_zero).collect()
}

/// Computes the value of `f` at `x`, and returns it with its derivative there as a function of the
/// tangent: [`jvp`] for many tangents, with one run of `f`.
///
/// All values of the run are saved, and each call asks the functions in its history for their `jvp`
/// rules.
///
/// ```
/// use bibun::{linearize, Variable};
/// let x = Variable::constant(3.0);
/// let (y, derivative) = linearize(|x| x * x, &x);
/// assert_eq!(y.item::<f64>(), 9.0);
/// assert_eq!(derivative.call(&Variable::constant(1.0)).item::<f64>(), 6.0);
/// assert_eq!(derivative.call(&Variable::constant(0.5)).item::<f64>(), 3.0);
/// ```
///
/// # Panics
/// Panics if `x` has no Variable, or has one that is not a float.
#[track_caller]
pub fn linearize<A: Tree, Y: Tree>(f: impl FnOnce(&A) -> Y, x: &A) -> (Y, Linearized<A, Y>) {
    let _called = calling("linearize");
    let (y, pullback) = vjp(|x| scope::retain(|| f(x)), x);
    let nodes = pullback.paths().nodes();
    let output = pullback.outputs().replaced(&y, &Leaves::of(&y).variables);
    (
        y,
        Linearized {
            output,
            pullback,
            nodes,
        },
    )
}

/// The second result of [`linearize`]: a function from tangents of the argument to tangents of the
/// result. It holds the history of the run, with all values.
pub struct Linearized<A, Y> {
    output: Y,
    pullback: Pullback<A, Y>,
    nodes: Vec<Arc<Node>>,
}

impl<A: Tree, Y: Tree> Linearized<A, Y> {
    /// Computes the tangent of the result from that of the argument.
    ///
    /// # Panics
    /// Panics if the tangent differs from the argument in structure, shape or dtype.
    #[track_caller]
    pub fn call(&self, tangent: &A) -> Y {
        let _called = calling("linearize");
        let leaves = self.pullback.leaves();
        let tangents = leaves.matching("linearize", ["the argument", "the tangent"], tangent);
        self.pullback
            .outputs()
            .replaced(&self.output, &self.call_flat(&tangents))
    }

    /// Does the same for a flat list of leaves.
    pub(super) fn call_flat(&self, tangents: &[Variable]) -> Vec<Variable> {
        push_forward(&self.pullback, &self.nodes, tangents)
    }
}

/// Computes the tangents of the outputs of a run that was recorded with all its values.
pub(super) fn push_forward<A: Tree, Y: Tree>(
    run: &Pullback<A, Y>,
    nodes: &[Arc<Node>],
    tangents: &[Variable],
) -> Vec<Variable> {
    let create_graph = run.is_kept() && scope::is_recording();
    let pushed = forward::push_forward(run.paths(), nodes, tangents, create_graph);
    let marked = pushed
        .into_iter()
        .map(|pushed| match (pushed, run.lost_at()) {
            (Some(dy), Some(location)) if !dy.has_history() => Some(dy.lost_at(location)),
            (dy, _) => dy,
        });
    or_zeros(&run.outputs().variables, marked.collect())
}

impl<A, Y> fmt::Debug for Linearized<A, Y> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Linearized, {} functions", self.nodes.len())
    }
}
