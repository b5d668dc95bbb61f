//! What a derivative rule may look at: the values its function kept, and all shapes.

use std::sync::Arc;

use bibun_array::{DType, Shape};

use crate::error::{Error, caller, raise};
use crate::function::{AnyFunction, Spec};
use crate::node::{Edge, Node, Way};
use crate::rules;
use crate::variable::Variable;

/// The call whose derivative a rule is asked for.
#[derive(Debug)]
pub struct Context<'a> {
    pub(crate) call: Call<'a>,
    pub(crate) needs: &'a [bool],
    /// Whether values come with the way back to where they came from, so that what the rule makes
    /// of them can be differentiated again.
    pub(crate) create_graph: bool,
}

/// Where the values come from: kept by a node (`vjp`), or at hand (`jvp`).
pub(crate) enum Call<'a> {
    Node(&'a Arc<Node>),
    Values {
        function: &'a dyn AnyFunction,
        inputs: &'a [Variable],
        input_specs: &'a [Spec],
        outputs: &'a [Variable],
        output_specs: &'a [Spec],
    },
}

impl Context<'_> {
    /// Input `i`.
    ///
    /// # Panics
    /// If the function did not declare that it keeps it.
    pub fn input(&self, i: usize) -> Variable {
        match &self.call {
            Call::Values { inputs, .. } => inputs[i].clone(),
            Call::Node(node) => {
                let Some(value) = &node.kept_inputs()[i] else {
                    not_kept(node.function().name(), format!("input {i}"))
                };
                let edge = match self.create_graph {
                    true => node.inputs()[i].clone(),
                    false => Edge::None,
                };
                Variable::fixed(Arc::clone(value), edge)
            }
        }
    }

    /// Output `i`.
    ///
    /// # Panics
    /// If the function did not declare that it keeps it.
    pub fn output(&self, i: usize) -> Variable {
        match &self.call {
            Call::Values { outputs, .. } => outputs[i].clone(),
            Call::Node(node) => {
                let Some(value) = &node.kept_outputs()[i] else {
                    not_kept(node.function().name(), format!("output {i}"))
                };
                let edge = match self.create_graph {
                    true => Edge::Output(Way::to(node), i as u32),
                    false => Edge::None,
                };
                Variable::fixed(Arc::clone(value), edge)
            }
        }
    }

    /// The cotangents that the function's own rule gives: for a rule that stands in its place by
    /// [`Rules`](crate::Rules).
    ///
    /// # Panics
    /// In a function's own rule, or if the own rule is missing or fails.
    #[track_caller]
    pub fn original_vjp(&self, gy: &[Variable]) -> Vec<Option<Variable>> {
        let function = self.function();
        match rules::original_vjp(function, self, gy) {
            Some(gradients) => gradients,
            None => raise(Error::argument(
                function.name(),
                "this is the function's own rule",
            )),
        }
    }

    fn function(&self) -> &dyn AnyFunction {
        match &self.call {
            Call::Node(node) => node.function(),
            Call::Values { function, .. } => *function,
        }
    }

    /// Whether the gradient of input `i` is wanted. Rules may leave out the others.
    pub fn needs(&self, i: usize) -> bool {
        self.needs[i]
    }

    /// How many inputs there were.
    pub fn input_count(&self) -> usize {
        self.input_specs().len()
    }

    /// The shape and dtype of input `i`.
    pub fn input_spec(&self, i: usize) -> &Spec {
        &self.input_specs()[i]
    }

    /// How many outputs there were.
    pub fn output_count(&self) -> usize {
        self.output_specs().len()
    }

    /// The shape of input `i`.
    pub fn input_shape(&self, i: usize) -> &Shape {
        &self.input_specs()[i].shape
    }

    /// The dtype of input `i`.
    pub fn input_dtype(&self, i: usize) -> DType {
        self.input_specs()[i].dtype
    }

    /// The shape of output `i`.
    pub fn output_shape(&self, i: usize) -> &Shape {
        &self.output_specs()[i].shape
    }

    /// The dtype of output `i`.
    pub fn output_dtype(&self, i: usize) -> DType {
        self.output_specs()[i].dtype
    }

    fn input_specs(&self) -> &[Spec] {
        match &self.call {
            Call::Node(node) => node.input_specs(),
            Call::Values { input_specs, .. } => input_specs,
        }
    }

    fn output_specs(&self) -> &[Spec] {
        match &self.call {
            Call::Node(node) => node.output_specs(),
            Call::Values { output_specs, .. } => output_specs,
        }
    }
}

fn not_kept(function: &'static str, argument: String) -> ! {
    let place = caller();
    raise(Error::NotKept {
        function,
        argument,
        place,
    })
}

impl std::fmt::Debug for Call<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Node(node) => node.function().name(),
            Self::Values { function, .. } => function.name(),
        })
    }
}
