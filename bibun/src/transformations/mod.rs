//! Transformations: functions of functions.
//!
//! | | gives |
//! |---|---|
//! | [`grad`], [`value_and_grad`] | the gradient of a function with a scalar result |
//! | [`vjp`] | the value, and the product of a cotangent with the Jacobian, any number of times |
//! | [`jvp`] | the value, and the product of the Jacobian with a tangent, in one run |
//! | [`linearize`] | the value, and the latter any number of times |
//! | [`jacobian`], [`hessian`], [`hvp`] | all first and second derivatives; a Hessian times a vector |
//! | [`vmap`] | one function of one example as a function of many at once |
//! | [`per_example`] | the gradient of each example's loss by itself, from one run |
//! | [`checkpoint`] | the same function, which is run again for its gradient instead of remembered |
//! | [`stop_gradient`] | the same values, as constants |
//!
//! Each takes an ordinary Rust function of a [`Tree`] (a Variable, a tuple, a `Vec`, a map, a
//! struct with `#[derive(Tree)]`, a whole model) and is called inside each other in any order.
//!
//! # What is constant
//!
//! A derivative is taken with respect to the argument and nothing else. *Values that the function
//! captures are constants of this derivative*, whatever they are elsewhere: a Variable captured
//! from an outer transformation is a constant of the inner derivative and a variable of the outer.
//!
//! ```
//! use bibun::{grad, Variable};
//! // d/dx [x · d/dy (x + y)] = 1
//! let one = Variable::constant(1.0);
//! let g = grad(|x| x * grad(|y| x + y, &one), &Variable::constant(3.0));
//! assert_eq!(g.item::<f64>(), 1.0);
//! ```
//!
//! # What is remembered
//!
//! Results have history only if somebody can ask for it: if the function captured a Variable that
//! has history, or the argument was computed from one. A *leaf* given as the argument counts as its
//! value; a later `backward` to that leaf that meets the result is an error, for it would overlook how
//! the result depends on it ([`Variable::detach`] makes it a constant). So `grad` in `grad` is the second derivative, `grad(|x| critic(&model, x), &x)` can be
//! part of a loss whose `backward` reaches the parameters of `model`, and a training step by
//! [`value_and_grad`] over a model leaves nothing behind.
//!
//! # What is frozen
//!
//! No derivative is taken by a frozen parameter
//! ([`Variable::set_requires_grad`], [`Chain::freeze`](crate::links::Chain::freeze)): it is a constant
//! of all transformations. A gradient looks like the argument, but has nothing in the place of a
//! frozen parameter: that there is no gradient is something else than that it is zero, and whoever uses it
//! is told so. `vmap` takes lanes of frozen parameters as of others.
//!
//! ```
//! use bibun::links::Chain;
//! use bibun::{attempt, grad, tree_zip, Variable};
//! let model = [Variable::new(2.0), Variable::new(3.0)];
//! model[0].freeze();
//! let gradient = grad(|[a, b]| a * b, &model);
//! assert_eq!(gradient.parameters().len(), 1);
//! assert!(attempt(|| &gradient[0] + 1.0).is_err());
//! let model = tree_zip(|w, g| w - 0.5 * g, &model, &gradient);
//! assert_eq!(model.map(|w| w.item::<f64>()), [2.0, 2.0]);
//! ```

mod checkpoint;
mod container;
mod custom;
mod gradient;
mod jacobian;
mod per_example;
mod tangent;
mod vectorize;

pub use checkpoint::checkpoint;
pub use container::Container;
pub use custom::{Custom, custom, custom_gradient};
pub use gradient::{Objective, Pullback, grad, stop_gradient, value_and_grad, vjp};
pub use jacobian::{hessian, hvp, jacobian, jacobian_forward, jacobian_reverse};
pub use per_example::{PerExample, Rows, clip_factors, per_example, per_example_with};
pub use tangent::{Linearized, jvp, linearize};
pub use vectorize::{BatchAxes, VmapOptions, vmap, vmap_with};

use crate::error::{Error, Location, raise};
use crate::functions::watch;
use crate::tree::{Leaves, Tree};
use crate::variable::Variable;

/// The leaves of an argument, of which a derivative shall be taken: all that are not frozen.
///
/// # Panics
/// If there are none, or one is not a float.
#[track_caller]
fn float_leaves<A: Tree>(function: &'static str, argument: &A) -> Leaves {
    let leaves = Leaves::trainable(argument);
    if leaves.variables.is_empty() {
        let what = match Leaves::of(argument).variables.is_empty() {
            true => "there is no Variable in the argument to differentiate by",
            false => {
                "every Variable in the argument is frozen, and nothing is differentiated by these \
                 (unfreeze what is wanted)"
            }
        };
        raise(Error::argument(function, what));
    }
    for (name, x) in leaves.names.iter().zip(&leaves.variables) {
        if !x.dtype().is_float() {
            let of = if name.is_empty() { "" } else { " at " };
            let what = format!(
                "the argument{of}{name} is {}, and there is no derivative by integers or bools; \
                 let the function capture it",
                x.spec()
            );
            raise(Error::argument(function, what));
        }
    }
    leaves
}

/// The leaves as the function under differentiation sees them, with history that begins here and goes
/// on behind them; and whether one of them was computed.
fn watched(leaves: &Leaves) -> (Vec<Variable>, bool) {
    let inputs = leaves.variables.iter();
    let computed = inputs.clone().any(|x| x.has_history() && !x.is_leaf());
    (inputs.map(watch).collect(), computed)
}

/// Cuts history off unless it is to be `kept`, at the place of the transformation if the value of a
/// leaf went in. Leaves stay what they are.
fn settled<Y: Tree>(output: Y, kept: bool, lost_at: Option<Location>) -> Y {
    if kept {
        return output;
    }
    let leaves = Leaves::of(&output);
    if !leaves.variables.iter().any(Variable::has_history) {
        return output;
    }
    let cut = |x: &Variable| match lost_at {
        _ if x.is_leaf() || !x.has_history() => x.clone(),
        Some(location) => x.clone().lost_at(location),
        None => x.clone().without_history(),
    };
    let cut: Vec<Variable> = leaves.variables.iter().map(cut).collect();
    leaves.replaced(&output, &cut)
}
