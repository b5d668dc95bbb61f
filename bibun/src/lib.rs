//! bibun: automatic differentiation and neural networks.
//!
//! A [`Variable`] remembers the [`Function`] that made it. Everything else is a walk over that
//! memory.
//!
//! ```
//! use bibun::Variable;
//! let x = Variable::new([1.0, 2.0, 3.0]);
//! let y = (&x * &x).sum(..);
//! y.backward();
//! assert_eq!(x.grad().unwrap().to_vec::<f64>(), [2.0, 4.0, 6.0]);
//! ```

#![forbid(unsafe_code)]

// The code that #[derive(Chain)] generates names the crate from outside.
extern crate self as bibun;

mod apply;
mod batch;
mod batch_axis;
#[cfg(doctest)]
mod book;
mod call;
mod check;
mod completion;
#[cfg(test)]
mod conformance;
mod context;
pub mod datasets;
pub mod distributions;
mod error;
mod example_axis;
mod examples;
mod forward;
mod function;
pub mod functions;
mod hidden;
mod history;
mod hooks;
pub mod initializers;
mod leaf;
/// Fourier transforms: what is in [`functions::fft`](mod@functions::fft).
#[cfg(feature = "fft")]
pub mod fft {
    pub use crate::functions::fft::*;
}
/// Linear algebra: what is in [`functions::linalg`].
pub mod linalg {
    pub use crate::functions::linalg::*;
}
pub mod links;
mod locks;
mod node;
pub mod optimizers;
pub mod parallel;
mod per_example;
mod randomness;
mod release;
mod reverse;
mod rules;
mod scope;
pub mod serializers;
mod surroundings;
#[cfg(feature = "training")]
pub mod training;
pub mod transformations;
mod tree;
mod variable;

pub use bibun_array as array;
pub use bibun_array::s;

pub use apply::apply;
pub use batch::Batched;
pub use bibun_derive::Tree;
pub use check::{GradientCheckOptions, GradientError, assert_gradients, gradient_check};
pub use context::Context;
pub use error::{Error, LinkPath, Location, attempt};
pub use examples::{ExampleCotangent, ExampleGradient, Examples, OuterProduct, ProductForm};
pub use function::{
    Arity, Fixed, Function, Inputs, Item, Mismatch, Needs, Outputs, Saved, Spec, Variadic, no_rule,
};
pub use history::{History, history};
pub use hooks::{FunctionEvent, HookHandle, Phase, detect_anomaly, with_hook};
pub use node::{Creator, HistoryEntry};
pub use randomness::{BatchPart, Randomness};
pub use reverse::{GradOptions, gradients, gradients_with};
pub use rules::{Replaceable, Rules};
pub use scope::{eval_mode, is_recording, is_training, no_grad, retain, train_mode};
pub use surroundings::Scopes;
pub use transformations::{
    BatchAxes, Compiled, Container, Custom, Linearized, Objective, PerExample, Pullback, Rows,
    ScanOptions, VmapOptions, checkpoint, clip_factors, compile, cond, custom, custom_gradient,
    fori_loop, grad, hessian, hvp, jacobian, jacobian_forward, jacobian_reverse, jvp, linearize,
    per_example, per_example_with, scan, scan_with, stop_gradient, value_and_grad, vjp, vmap,
    vmap_with, while_loop,
};
pub use tree::{Mapper, Role, Tree, Visitor, ravel_tree, tree_map, tree_zip};
pub use variable::Variable;

/// What `#[derive(Tree)]` writes of the fields that it leaves out.
#[doc(hidden)]
pub mod skipped {
    pub use crate::tree::skipped::*;
}

/// The README's programs, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
