//! The transformations that walk backwards.

use std::fmt;

use bibun_array::Array;

use super::running::followed;
use super::{expect_floats, float_leaves, settled, watched};
use crate::call::calling;
use crate::error::{Error, Location, caller, raise};
use crate::functions::zeros_like;
use crate::reverse::Paths;
use crate::scope;
use crate::tree::{Leaves, Mapper, Tree};
use crate::variable::Variable;

/// A result that [`value_and_grad`] can differentiate: a scalar loss, or a pair of a scalar loss and
/// other results of the function.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no objective",
    label = "this is neither a Variable nor a Variable with something else",
    note = "the function must give its loss, or a pair of its loss and any Tree"
)]
pub trait Objective: Tree {
    /// Returns the result that is differentiated.
    fn loss(&self) -> &Variable;
}

impl Objective for Variable {
    fn loss(&self) -> &Variable {
        self
    }
}

impl<T: Tree> Objective for (Variable, T) {
    fn loss(&self) -> &Variable {
        &self.0
    }
}

/// Computes the gradient of `f` at `x`: a container like `x` with the derivative of the result with
/// respect to each leaf. The derivative is zero if the result does not depend on the leaf. The
/// gradient has no value in place of [frozen](crate::transformations) parameters.
///
/// Shapes: `f(x)` must have a single element; each gradient has the shape and dtype of its leaf.
/// Captured values are constants ([what is constant](crate::transformations)).
///
/// ```
/// use bibun::{grad, Variable};
/// let x = Variable::constant(2.0);
/// let cube = |x: &Variable| x * x * x;
/// assert_eq!(grad(cube, &x).item::<f64>(), 12.0);
/// assert_eq!(grad(|x| grad(cube, x), &x).item::<f64>(), 12.0);
///
/// let (da, db) = grad(|(a, b)| a * b, &(Variable::constant(3.0), Variable::constant(5.0)));
/// assert_eq!((da.item::<f64>(), db.item::<f64>()), (5.0, 3.0));
/// ```
///
/// # Panics
/// Panics if `f(x)` is not a single float, if `x` has no Variable that is not frozen or has one that
/// is not a float, or if a rule is missing or fails.
#[track_caller]
pub fn grad<A: Tree>(f: impl FnOnce(&A) -> Variable, x: &A) -> A {
    differentiate("grad", f, x).1
}

/// Computes the value and the [gradient](grad) of `f` at `x` in one run.
///
/// If `f` returns a pair, its first part is the loss, and the second part is returned with it, for
/// example predictions or an accuracy. With a model as `x`, this is the core of a train step; see
/// [`Chain::set_gradients`](crate::links::Chain::set_gradients).
///
/// ```
/// use bibun::{value_and_grad, Variable};
/// let x = Variable::constant([1.0, 2.0]);
/// let ((loss, square), gradient) = value_and_grad(
///     |x| {
///         let square = x * x;
///         (square.sum(..), square)
///     },
///     &x,
/// );
/// assert_eq!(loss.item::<f64>(), 5.0);
/// assert_eq!(square.to_vec::<f64>(), [1.0, 4.0]);
/// assert_eq!(gradient.to_vec::<f64>(), [2.0, 4.0]);
/// ```
///
/// # Panics
/// Panics in the same cases as [`grad`].
#[track_caller]
pub fn value_and_grad<A: Tree, Y: Objective>(f: impl FnOnce(&A) -> Y, x: &A) -> (Y, A) {
    differentiate("value_and_grad", f, x)
}

#[track_caller]
fn differentiate<A: Tree, Y: Objective>(
    function: &'static str,
    f: impl FnOnce(&A) -> Y,
    x: &A,
) -> (Y, A) {
    let _called = calling(function);
    let leaves = float_leaves(function, x);
    let (traced, gradients) = run(function, leaves, f, x);
    let gradients = traced.or_zero(gradients);
    let gradient = traced.leaves.derivatives(x, &gradients);
    (
        settled(traced.output, traced.kept, traced.lost_at),
        gradient,
    )
}

/// Computes the value and the gradient with respect to each parameter of a model, or `None` where no path leads to it.
#[track_caller]
pub(crate) fn value_and_gradients<M: Tree, Y: Objective>(
    f: impl FnOnce(&M) -> Y,
    model: &M,
) -> (Y, Vec<Option<Variable>>) {
    let function = "value_and_grad";
    let _called = calling(function);
    let leaves = expect_floats(function, model, Leaves::trainable_of_model(model));
    let (traced, gradients) = run(function, leaves, f, model);
    (
        settled(traced.output, traced.kept, traced.lost_at),
        gradients,
    )
}

/// Runs an objective, and computes its gradients.
#[track_caller]
fn run<A: Tree, Y: Objective>(
    function: &'static str,
    leaves: Leaves,
    f: impl FnOnce(&A) -> Y,
    x: &A,
) -> (Traced<Y>, Vec<Option<Variable>>) {
    let traced = Traced::run(leaves, f, x);
    let loss = traced.output.loss().spec();
    if loss.dtype.is_complex() {
        let what = format!("the function gives {loss}; {}", crate::reverse::REAL_LOSS);
        raise(Error::argument(function, what));
    }
    if loss.shape.size() != 1 || !loss.dtype.is_float() {
        let what = format!(
            "the function gives {loss}; to have a gradient it must give a single float (jacobian \
             and vjp are for others)"
        );
        raise(Error::argument(function, what));
    }
    // The loss is the first leaf.
    let mut cotangents = vec![None; traced.outputs.variables.len()];
    cotangents[0] = Some(Variable::constant(Array::ones(loss.shape, loss.dtype)));
    let gradients = traced.gradients(cotangents);
    (traced, gradients)
}

/// One recorded run of a function, and the paths back through it.
struct Traced<Y> {
    leaves: Leaves,
    output: Y,
    outputs: Leaves,
    paths: Paths,
    /// Whether results keep their history.
    kept: bool,
    /// The location of the transformation, if it took the values of leaves.
    lost_at: Option<Location>,
}

impl<Y: Tree> Traced<Y> {
    #[track_caller]
    fn run<A: Tree>(leaves: Leaves, f: impl FnOnce(&A) -> Y, x: &A) -> Self {
        let location = caller();
        let recording = scope::is_recording();
        let (inputs, computed) = watched(&leaves);
        let output = followed(&inputs, || f(&leaves.replaced(x, &inputs)));
        let outputs = Leaves::of(&output);
        let edges = |list: &[Variable]| list.iter().map(Variable::edge).collect();
        let paths = Paths::between(edges(&outputs.variables), edges(&inputs));
        let kept = recording && (computed || paths.leave());
        let takes_leaves = leaves.variables.iter().any(Variable::is_leaf);
        Self {
            lost_at: (recording && !kept && takes_leaves).then_some(location),
            leaves,
            output,
            outputs,
            paths,
            kept,
        }
    }

    fn pull_back(&self, cotangents: Vec<Option<Variable>>) -> Vec<Variable> {
        self.or_zero(self.gradients(cotangents))
    }

    /// Returns the gradients, or `None` where no path leads to a leaf.
    fn gradients(&self, cotangents: Vec<Option<Variable>>) -> Vec<Option<Variable>> {
        let seeded = cotangents.iter().flatten().any(Variable::has_history);
        let create_graph = self.kept || seeded && scope::is_recording();
        let mut gradients = self.paths.pull_back(cotangents.clone(), create_graph);
        // A rule has captured a Variable with history, so the dependence on leaves is needed, too.
        if self.lost_at.is_some() && gradients.iter().flatten().any(Variable::has_history) {
            gradients = self.paths.pull_back(cotangents, true);
        }
        let marked = |gradient: Variable| match self.lost_at {
            Some(location) if !gradient.has_history() => gradient.lost_at(location),
            _ => gradient,
        };
        (gradients.into_iter())
            .map(|gradient| gradient.map(marked))
            .collect()
    }

    fn or_zero(&self, gradients: Vec<Option<Variable>>) -> Vec<Variable> {
        let pairs = self.leaves.variables.iter().zip(gradients);
        pairs
            .map(|(x, gradient)| gradient.unwrap_or_else(|| zeros_like(x)))
            .collect()
    }
}

/// Computes the value of `f` at `x`, and returns it with a [`Pullback`], which computes the product
/// of a cotangent with the Jacobian.
///
/// `f` is run once. The pullback can be called any number of times, also under [`vmap`](crate::vmap).
///
/// ```
/// use bibun::{vjp, Variable};
/// let x = Variable::constant([1.0, 2.0]);
/// let (y, pullback) = vjp(|x| x * x, &x);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 4.0]);
/// let gx = pullback.call(&Variable::constant([10.0, 1.0]));
/// assert_eq!(gx.to_vec::<f64>(), [20.0, 4.0]);
/// ```
///
/// # Panics
/// Panics if `x` has no Variable, or has one that is not a float.
#[track_caller]
pub fn vjp<A: Tree, Y: Tree>(f: impl FnOnce(&A) -> Y, x: &A) -> (Y, Pullback<A, Y>) {
    let _called = calling("vjp");
    let leaves = float_leaves("vjp", x);
    let traced = Traced::run(leaves, f, x);
    let plain: Vec<Variable> = traced.leaves.variables.clone();
    let argument = traced.leaves.replaced(x, &plain);
    let output = traced
        .outputs
        .replaced(&traced.output, &traced.outputs.variables);
    (
        settled(output, traced.kept, traced.lost_at),
        Pullback { argument, traced },
    )
}

/// The second result of [`vjp`]: a function from cotangents of the result to cotangents of the
/// argument. It holds the history of the run.
pub struct Pullback<A, Y> {
    argument: A,
    traced: Traced<Y>,
}

impl<A: Tree, Y: Tree> Pullback<A, Y> {
    /// Computes the cotangent of the argument from that of the result, which must have the structure,
    /// shapes and dtypes of the result. The values of parts that are not floats are ignored.
    ///
    /// # Panics
    /// Panics if the cotangent differs from the result in structure, shape or dtype.
    #[track_caller]
    pub fn call(&self, cotangent: &Y) -> A {
        let _called = calling("vjp");
        let outputs = &self.traced.outputs;
        let cotangents = outputs.matching("vjp", ["the result", "the cotangent"], cotangent);
        let cotangents = cotangents
            .into_iter()
            .map(|gy| gy.dtype().is_differentiable().then_some(gy));
        let gradients = self.traced.pull_back(cotangents.collect());
        self.traced.leaves.derivatives(&self.argument, &gradients)
    }

    /// Does the same for a flat list of leaves.
    pub(super) fn call_flat(&self, cotangents: Vec<Option<Variable>>) -> Vec<Variable> {
        self.traced.pull_back(cotangents)
    }

    pub(super) fn leaves(&self) -> &Leaves {
        &self.traced.leaves
    }

    pub(super) fn outputs(&self) -> &Leaves {
        &self.traced.outputs
    }

    pub(super) fn paths(&self) -> &Paths {
        &self.traced.paths
    }

    pub(super) fn is_kept(&self) -> bool {
        self.traced.kept
    }

    pub(super) fn lost_at(&self) -> Option<Location> {
        self.traced.lost_at
    }
}

impl<A, Y> fmt::Debug for Pullback<A, Y> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inputs = &self.traced.leaves.names;
        let outputs = &self.traced.outputs.names;
        write!(f, "Pullback from {outputs:?} to {inputs:?}")
    }
}

/// Returns the same values as constants: no derivative, of any order and kind, goes through them.
///
/// ```
/// use bibun::{grad, stop_gradient, Variable};
/// let g = grad(|x| x * stop_gradient(x), &Variable::constant(3.0));
/// assert_eq!(g.item::<f64>(), 3.0);
/// ```
#[must_use]
pub fn stop_gradient<A: Tree>(x: &A) -> A {
    x.map(&mut Mapper::new(&mut |x, _| x.detach()))
}
