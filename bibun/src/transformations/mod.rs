//! Transformations: functions of functions.
//!
//! | | computes |
//! |---|---|
//! | [`grad`], [`value_and_grad`] | the gradient of a function with a scalar result |
//! | [`vjp`] | the value, and the product of a cotangent with the Jacobian, any number of times |
//! | [`jvp`] | the value, and the product of the Jacobian with a tangent, in one run |
//! | [`linearize`] | the value, and the product with a tangent any number of times |
//! | [`jacobian`], [`hessian`], [`hvp`] | all first and second derivatives; a Hessian times a vector |
//! | [`vmap`] | a function of one example, applied to many examples at once |
//! | [`per_example`] | the gradient of each example's loss, from one run |
//! | [`checkpoint`] | the same function, run again for its gradient instead of recorded |
//! | [`compile`] | the same function, run as a program in few passes over memory |
//! | [`cond`], [`while_loop`], [`fori_loop`], [`scan`] | branches and loops that all of these, and `compile`, go through |
//! | [`stop_gradient`] | the same values, as constants |
//!
//! Each takes an ordinary Rust function of a [`Tree`] (a Variable, a tuple, a `Vec`, a map, a struct
//! with `#[derive(Tree)]`, a whole model), and they can be nested in any order.
//!
//! # What is constant
//!
//! A derivative is taken with respect to the argument and nothing else. *Values that the function
//! captures are constants of this derivative*, whatever they are elsewhere: a Variable captured from
//! an outer transformation is a constant of the inner derivative and a variable of the outer one.
//!
//! ```
//! use bibun::{grad, Variable};
//! // d/dx [x · d/dy (x + y)] = 1
//! let one = Variable::constant(1.0);
//! let g = grad(|x| x * grad(|y| x + y, &one), &Variable::constant(3.0));
//! assert_eq!(g.item::<f64>(), 1.0);
//! ```
//!
//! # What is recorded
//!
//! Results have history only if it can be used: if the function captured a Variable with history, or
//! if the argument was computed from one. A *leaf* given as the argument counts as its value. If a
//! later `backward` to that leaf meets the result, it is an error, because the gradient would not
//! include how the result depends on the leaf ([`Variable::detach`] makes the result a constant). So
//! `grad` inside `grad` is the second derivative, `grad(|x| critic(&model, x), &x)` can be part of a
//! loss whose `backward` reaches the parameters of `model`, and a train step by [`value_and_grad`] on
//! a model leaves no history behind.
//!
//! # What is frozen
//!
//! No derivative is taken with respect to a frozen parameter ([`Variable::set_requires_grad`],
//! [`Chain::freeze`](crate::links::Chain::freeze)): it is a constant of all transformations. A
//! gradient has the structure of the argument, but no value in place of a frozen parameter, because a
//! missing gradient is not the same as a zero one. To compute with such a place is an error. `vmap`
//! treats frozen parameters like all others.
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
mod compile;
mod container;
mod control;
mod custom;
mod derived;
mod gradient;
mod jacobian;
mod per_example;
mod running;
mod tangent;
mod vectorize;

pub use checkpoint::checkpoint;
#[cfg(feature = "training")]
pub(crate) use compile::LossPrograms;
pub use compile::{Compiled, compile};
pub use container::Container;
pub use control::{ScanOptions, cond, fori_loop, scan, scan_with, while_loop};
pub(crate) use custom::Closures;
pub use custom::{Custom, custom, custom_gradient};
pub(crate) use derived::{along, inputs as inputs_of, pull_through};
pub(crate) use gradient::value_and_gradients;
pub use gradient::{Objective, Pullback, grad, stop_gradient, value_and_grad, vjp};
pub use jacobian::{hessian, hvp, jacobian, jacobian_forward, jacobian_reverse};
pub use per_example::{PerExample, Rows, clip_factors, per_example, per_example_with};
pub(crate) use running::{are_followed, put_aside};
pub use tangent::{Linearized, jvp, linearize};
pub use vectorize::{BatchAxes, VmapOptions, vmap, vmap_with};

use crate::error::{Error, Location, raise};
use crate::functions::watch;
use crate::tree::{Leaves, Tree};
use crate::variable::Variable;

/// Returns the leaves of an argument with respect to which a derivative is taken: all that are not
/// frozen.
///
/// # Panics
/// Panics if there are none, or if one is not a float.
#[track_caller]
fn float_leaves<A: Tree>(function: &'static str, argument: &A) -> Leaves {
    expect_floats(function, argument, Leaves::trainable(argument))
}

/// Checks the leaves of an argument with respect to which a derivative is taken.
#[track_caller]
fn expect_floats<A: Tree>(function: &'static str, argument: &A, leaves: Leaves) -> Leaves {
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
        if !x.dtype().is_differentiable() {
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

/// Returns the leaves as the function under differentiation sees them, with history that begins here
/// and continues behind them, and whether one of them was computed.
fn watched(leaves: &Leaves) -> (Vec<Variable>, bool) {
    let inputs = leaves.variables.iter();
    let computed = inputs.clone().any(|x| x.has_history() && !x.is_leaf());
    (inputs.map(watch).collect(), computed)
}

/// Cuts off history unless it is to be `kept`. The results are marked with the location of the
/// transformation if the value of a leaf went in. Leaves do not change.
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
