//! The one door: every function, of the library or of a user, is run and recorded here.

use std::panic::Location;
use std::sync::Arc;

use bibun_array::Array;
use smallvec::SmallVec;

use crate::error::{Error, Place, raise};
use crate::function::{AnyFunction, Arity, Function, Inputs, Items, Outputs, Spec};
use crate::node::{Edge, Node};
use crate::variable::{Value, Variable};
use crate::{batch, forward, scope};

/// Applies a function: checks shapes and dtypes, lets the innermost transformation or the arrays'
/// device run it, and records the call if a gradient can reach it.
///
/// A Variable that is moved in and used nowhere else gives its memory to the result.
///
/// # Panics
/// If the inputs do not fit the function.
#[track_caller]
pub fn apply<F: Function>(function: F, inputs: Inputs<F, Variable>) -> Outputs<F, Variable> {
    let place = Location::caller();
    let outputs = run(&function, inputs.into_iter().collect(), place);
    F::Outputs::collect(outputs.into_iter())
}

/// [`apply`], recorded in any case, as if every input required a gradient.
#[track_caller]
pub(crate) fn apply_watched<F: Function>(
    function: F,
    inputs: Inputs<F, Variable>,
) -> Outputs<F, Variable> {
    let place = Location::caller();
    let outputs = run_and_record(&function, inputs.into_iter().collect(), place, true);
    F::Outputs::collect(outputs.into_iter())
}

/// [`apply`] without the arity.
pub(crate) fn run(
    function: &dyn AnyFunction,
    inputs: Items<Variable>,
    place: Place,
) -> Items<Variable> {
    run_and_record(function, inputs, place, false)
}

/// Shape rule, run, record.
fn run_and_record(
    function: &dyn AnyFunction,
    inputs: Items<Variable>,
    place: Place,
    watched: bool,
) -> Items<Variable> {
    let mut values: Items<Arc<Value>> = SmallVec::with_capacity(inputs.len());
    let mut edges: Items<Edge> = SmallVec::with_capacity(inputs.len());
    for input in inputs {
        let (value, edge) = input.into_parts();
        values.push(value);
        edges.push(edge);
    }
    let input_specs: Items<Spec> = values.iter().map(|value| value.spec()).collect();
    let output_specs = function.shape(&input_specs).unwrap_or_else(|mismatch| {
        raise(Error::Mismatch {
            function: function.name(),
            what: mismatch.0,
            place,
        })
    });

    let differentiable = watched || edges.iter().any(Edge::is_some) && scope::is_recording();
    if !(differentiable && output_specs.iter().any(|spec| spec.dtype.is_float())) {
        let outputs = compute(function, values, &edges, &input_specs, &output_specs, place);
        return outputs
            .into_iter()
            .map(|value| Variable::fixed(value, Edge::None))
            .collect();
    }

    let needs: SmallVec<[bool; 4]> = edges.iter().map(Edge::is_some).collect();
    let keeps = function.keeps(&needs);
    let retain = scope::is_retaining();
    let kept = |kept: bool, value: &Arc<Value>| (kept || retain).then(|| Arc::clone(value));
    let kept_inputs = values
        .iter()
        .enumerate()
        .map(|(i, value)| kept(keeps.has_input(i), value))
        .collect();
    let outputs = compute(function, values, &edges, &input_specs, &output_specs, place);
    let kept_outputs = outputs
        .iter()
        .enumerate()
        .map(|(i, value)| kept(keeps.has_output(i), value))
        .collect();
    let node = Arc::new(Node::new(
        function.boxed(),
        edges,
        input_specs,
        kept_inputs,
        output_specs,
        kept_outputs,
        place,
    ));
    outputs
        .into_iter()
        .enumerate()
        .map(|(i, value)| {
            let edge = match node.output_specs[i].dtype.is_float() {
                true => Edge::Output(Arc::clone(&node), i as u32),
                false => Edge::None,
            };
            Variable::fixed(value, edge)
        })
        .collect()
}

/// Computes the outputs: by the innermost transformation that hides an input, or on arrays.
///
/// A transformation works one level below, on Variables with their history there, so that an outer
/// walk finds its way through it; what is recorded here is the history at this level.
fn compute(
    function: &dyn AnyFunction,
    values: Items<Arc<Value>>,
    edges: &[Edge],
    input_specs: &[Spec],
    output_specs: &[Spec],
    place: Place,
) -> Items<Arc<Value>> {
    let level = values.iter().map(|value| value.level()).max().unwrap_or(0);
    if level == 0 {
        let outputs = function.forward(values.into_iter().map(into_array).collect());
        debug_assert!(
            outputs.len() == output_specs.len()
                && outputs.iter().zip(output_specs).all(|(array, spec)| {
                    *array.shape() == spec.shape && array.dtype() == spec.dtype
                }),
            "{}: forward gave {outputs:?}, the shape rule said {output_specs:?}",
            function.name(),
        );
        return outputs
            .into_iter()
            .map(|array| Arc::new(Value::Array(array)))
            .collect();
    }
    let batched = values.iter().any(|value| match &**value {
        Value::Batched(batched) => batched.level == level,
        Value::Dual(_) | Value::Array(_) => false,
    });
    let inputs = values
        .into_iter()
        .zip(edges)
        .map(|(value, edge)| Variable::fixed(value, edge.clone()))
        .collect();
    match batched {
        true => batch::run(function, inputs, level, output_specs, place),
        false => forward::run(function, inputs, level, input_specs, output_specs, place),
    }
}

fn into_array(value: Arc<Value>) -> Array {
    match Arc::try_unwrap(value) {
        Ok(Value::Array(array)) => array,
        Ok(hidden) => unreachable!("{hidden:?} is handled by its transformation"),
        Err(shared) => shared.to_array(),
    }
}
