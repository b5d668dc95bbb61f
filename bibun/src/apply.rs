//! The entry point of all calls: every function, of the library or of a user, is run and recorded
//! here.

use std::convert::identity;
use std::sync::Arc;

use bibun_array::Array;

use crate::call::Called;
use crate::error::{Error, Location, raise, refuse};
use crate::function::{
    AnyFunction, Arity, Function, Inputs, Item, Items, Mismatch, Outputs, Saved, Spec, items,
};
use crate::node::{Cut, Edge, Node, Record, Way};
use crate::variable::{Value, Variable};
use crate::{hooks, rules, scope};

/// Applies a function: checks shapes and dtypes, runs it on the device of the arrays or by the
/// innermost transformation, and records the call if a gradient can reach it.
///
/// The memory of a Variable that is moved in and used nowhere else is reused for the result.
///
/// # Panics
/// Panics if the inputs do not fit the function.
#[track_caller]
pub fn apply<F: Function>(function: F, inputs: Inputs<F, Variable>) -> Outputs<F, Variable> {
    run(&function, inputs, std::panic::Location::caller(), false)
}

/// Does the same as [`apply`], and always records the call, as if every input required a gradient.
#[track_caller]
pub(crate) fn apply_watched<F: Function>(
    function: F,
    inputs: Inputs<F, Variable>,
) -> Outputs<F, Variable> {
    run(&function, inputs, std::panic::Location::caller(), true)
}

/// Does the same as [`apply`], for a derivative rule whose inputs are known to fit.
// PERF: a call whose inputs have no history and are not hidden, without hooks or replaced rules,
// needs no checks and no record, and those are all that a scalar function costs.
#[track_caller]
#[inline]
pub(crate) fn apply_fitting<F: Function>(
    function: F,
    inputs: Inputs<F, Variable>,
) -> Outputs<F, Variable> {
    let is_quick = !scope::is_attended() && inputs.as_ref().iter().all(|x| x.bare().is_some());
    if !is_quick {
        return apply(function, inputs);
    }
    let outputs = forward(&function, F::Inputs::map(inputs, into_array));
    F::Outputs::map(outputs, Variable::constant)
}

/// Runs a function by the rules in force, with hooks around it.
#[inline]
pub(crate) fn run<F: Function>(
    function: &F,
    inputs: Inputs<F, Variable>,
    location: Location,
    watched: bool,
) -> Outputs<F, Variable> {
    let (mut called, _entered) = Called::begin(function.name(), location);
    let _settled = called.settle(inputs.as_ref());
    match scope::is_attended() {
        false => run_as_it_is(function, inputs, called, watched),
        true => run_attended(function, inputs, called, watched),
    }
}

#[cold]
#[inline(never)]
fn run_attended<F: Function>(
    function: &F,
    inputs: Inputs<F, Variable>,
    called: Called,
    watched: bool,
) -> Outputs<F, Variable> {
    let hooks = hooks::before_forward(function.name(), called.location, inputs.as_ref());
    let outputs = match rules::replaced(function) {
        None => run_as_it_is(function, inputs, called, watched),
        Some(replaced) => {
            let inputs = inputs.into_iter().collect();
            let outputs = run_as_it_is(&replaced, inputs, called, watched);
            F::Outputs::collect(outputs.into_iter())
        }
    };
    hooks.after(outputs.as_ref());
    outputs
}

/// Asks the shape rule, runs the function and records the call.
// PERF: lists have the form of the arity, which is an array for most functions, because moving lists
// costs a scalar function more than its arithmetic. Code that does not depend on the function is in
// functions of the arity alone, so that it is compiled once for each arity.
fn run_as_it_is<F: Function>(
    function: &F,
    inputs: Inputs<F, Variable>,
    called: Called,
    watched: bool,
) -> Outputs<F, Variable> {
    let mut inputs = inputs;
    let edges = F::Inputs::map_mut(&mut inputs, Variable::take_edge);
    let input_specs = F::Inputs::map_ref(&inputs, Variable::spec);
    if input_specs
        .as_ref()
        .iter()
        .any(|spec| spec.dtype.is_complex())
        && !function.takes_complex()
    {
        not_complex(function.name(), input_specs.as_ref());
    }
    let output_specs = match function.shape(F::Inputs::map_ref(&input_specs, identity)) {
        Ok(specs) => Some(specs),
        Err(Mismatch::KNOWN_BY_RUNNING) => None,
        Err(mismatch) => mismatched(function.name(), &mismatch),
    };
    let call = Call {
        input_specs: input_specs.as_ref(),
        output_specs: output_specs.as_ref().map(AsRef::as_ref),
        edges: edges.as_ref(),
        location: called.location,
    };
    if let Some(edge) = constant_edge(function.name(), &call, watched) {
        let outputs = compute(function, inputs, &call);
        return remembering::<F::Outputs>(outputs, &|_| edge.clone());
    }
    let needs = F::Inputs::map_ref(&edges, Edge::is_some);
    let saves = function.saves(needs.as_ref());
    let saved_inputs = kept::<F::Inputs, _>(&inputs, saves, Saved::has_input, Variable::value);
    let outputs = compute(function, inputs, &call);
    let saved_outputs = kept::<F::Outputs, _>(&outputs, saves, Saved::has_output, Arc::clone);
    let output_specs =
        output_specs.unwrap_or_else(|| F::Outputs::map_ref(&outputs, |value| value.spec()));
    let record = Record {
        function: function.clone(),
        inputs: edges,
        input_specs,
        saved_inputs,
        output_specs,
        saved_outputs,
    };
    let node: Arc<Node> = Arc::new(Node::new(record, called));
    scope::remember(&node);
    remembering::<F::Outputs>(outputs, &|slot| Edge::Output(Way::to(&node), slot))
}

/// Returns the values of the items that are saved.
fn kept<A: Arity, T: Item>(
    items: &A::Of<T>,
    saves: Saved,
    is_kept: impl Fn(Saved, usize) -> bool,
    value: impl Fn(&T) -> Arc<Value>,
) -> A::Of<Option<Arc<Value>>> {
    let retain = scope::is_retaining();
    let mut places = 0..;
    A::map_ref(items, |item| {
        let at = places.next().expect("fewer items than numbers");
        (retain || is_kept(saves, at)).then(|| value(item))
    })
}

/// Returns the outputs with the edge that `edge` returns for each position.
fn remembering<A: Arity>(
    outputs: A::Of<Arc<Value>>,
    edge: &dyn Fn(u32) -> Edge,
) -> A::Of<Variable> {
    let mut slots = 0..;
    A::map(outputs, |value| {
        let slot = slots.next().expect("fewer outputs than numbers");
        let edge = match value.dtype().is_differentiable() {
            true => edge(slot),
            false => Edge::None,
        };
        Variable::fixed(value, edge)
    })
}

/// Checks a call. Returns the edge of its results if they are not to be recorded.
fn constant_edge(function: &'static str, call: &Call<'_>, watched: bool) -> Option<Edge> {
    let specs = call.output_specs.unwrap_or_default();
    if let Some(spec) = specs.iter().find(|spec| !spec.shape.is_addressable()) {
        too_large(function, spec, call.location)
    }
    let has_history = call.edges.iter().fold(false, |any, edge| match edge {
        Edge::Cut(Cut::Absent) => absent(function, call.location),
        edge => any | edge.is_some(),
    });
    let recording = scope::is_recording();
    if has_history {
        scope::with_seal(|seal| {
            // A program reads leaves in every run, and without recording no gradient is lost.
            let is_harmless = !recording && seal.function == "compile";
            if !is_harmless && call.edges.iter().any(|edge| seal.is_broken_by(edge)) {
                broken(seal, "has history", function, call.location);
            }
        });
    }
    let differentiable = watched || has_history && recording;
    let is_float = |spec: &Spec| spec.dtype.is_differentiable();
    if differentiable && (call.output_specs.is_none() || specs.iter().any(is_float)) {
        return None;
    }
    if has_history && !recording {
        return Some(Edge::Cut(Cut::Unrecorded(call.location)));
    }
    let lost = call.edges.iter().find_map(Edge::lost_at);
    Some(match lost.filter(|_| recording) {
        Some(location) => Edge::Cut(Cut::Lost(location)),
        None => match call.edges.iter().find_map(Edge::unrecorded_at) {
            Some(location) => Edge::Cut(Cut::Unrecorded(location)),
            None => Edge::None,
        },
    })
}

/// A call without its values.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) input_specs: &'a [Spec],
    /// `None` where the shapes are known only by running the function.
    pub(crate) output_specs: Option<&'a [Spec]>,
    edges: &'a [Edge],
    pub(crate) location: Location,
}

/// Computes the outputs from inputs without history: on arrays, or by the innermost transformation
/// that hides an input.
fn compute<F: Function>(
    function: &F,
    inputs: Inputs<F, Variable>,
    call: &Call<'_>,
) -> Outputs<F, Arc<Value>> {
    let levels = inputs.as_ref().iter().map(Variable::level);
    let level = levels.max().unwrap_or(0);
    if level > 0 {
        let outputs = transform(function, items(inputs), level, call);
        return F::Outputs::collect(outputs.into_iter());
    }
    let outputs = forward(function, F::Inputs::map(inputs, into_array));
    if cfg!(debug_assertions)
        && let Some(specs) = call.output_specs
    {
        assert_specs(function.name(), outputs.as_ref(), specs);
    }
    F::Outputs::map(outputs, in_memory)
}

/// Computes the outputs from arrays.
#[inline]
fn forward<F: Function>(function: &F, inputs: Inputs<F, Array>) -> Outputs<F, Array> {
    let is_narrow = |x: &Array| x.dtype().is_float() && x.dtype() != x.dtype().accumulator();
    match function.in_accumulator() && inputs.as_ref().iter().any(is_narrow) {
        false => function.forward(inputs),
        true => {
            let outputs = forward_in_accumulator(function, items(inputs));
            F::Outputs::collect(outputs.into_iter())
        }
    }
}

/// Runs a function in the accumulator dtypes of its floats, and rounds the results.
#[cold]
fn forward_in_accumulator(function: &dyn AnyFunction, inputs: Items<Array>) -> Items<Array> {
    let specs: Vec<Spec> = (inputs.iter())
        .map(|x| Spec::new(x.shape(), x.dtype()))
        .collect();
    let specs = function.shape(&specs.iter().collect::<Vec<_>>());
    let wide = |x: Array| match x.dtype().is_float() {
        true => x.cast(x.dtype().accumulator()),
        false => x,
    };
    let mut outputs = function.forward(items(inputs.into_iter().map(wide)));
    if let Ok(specs) = specs {
        for (output, spec) in outputs.iter_mut().zip(&specs) {
            *output = output.cast(spec.dtype);
        }
    }
    outputs
}

fn in_memory(array: Array) -> Arc<Value> {
    Arc::new(Value::Array(array))
}

/// Asserts that the outputs of a function are as its shape rule said.
fn assert_specs(function: &str, outputs: &[Array], specs: &[Spec]) {
    let fits = |(array, spec): (&Array, &Spec)| {
        *array.shape() == spec.shape && array.dtype() == spec.dtype
    };
    assert!(
        outputs.len() == specs.len() && outputs.iter().zip(specs).all(fits),
        "{function}: forward gave {outputs:?}, the shape rule said {specs:?}",
    );
}

/// Runs a function by the innermost transformation that hides an input.
fn transform(
    function: &dyn AnyFunction,
    inputs: Items<Variable>,
    level: scope::Level,
    call: &Call<'_>,
) -> Items<Arc<Value>> {
    scope::with_seal(|seal| {
        if seal.hides(level) {
            let why = "is hidden by a transformation";
            broken(seal, why, function.name(), call.location);
        }
    });
    let hidden = |x: &Variable| x.look(|value| value.hidden().cloned());
    let mut hidden = inputs.iter().filter_map(hidden);
    let innermost = hidden.find(|hidden| hidden.level() == level);
    let innermost = innermost.expect("an input is hidden at this level");
    let inputs = inputs.into_iter().zip(call.edges);
    let inputs = items(inputs.map(|(x, edge)| Variable::fixed(x.into_value(), edge.clone())));
    innermost.run(function, inputs, call)
}

pub(crate) fn into_array(input: Variable) -> Array {
    match Arc::try_unwrap(input.into_value()) {
        Ok(Value::Array(array)) => array,
        Ok(hidden) => hidden.to_array(),
        Err(shared) => shared.to_array(),
    }
}

/// Reports that a sealed function has used a captured value.
#[cold]
fn broken(seal: &scope::Seal, why: &str, user: &'static str, location: Location) -> ! {
    let error = Error::Argument {
        function: seal.function,
        what: format!(
            "the function captures a Variable that {why}, and its gradient would be lost; hand it \
             in as part of the argument ({user} uses it), or `detach` it if it is a constant here"
        ),
        location,
    };
    match seal.function {
        // Where there are values, there is no such seal.
        "compile" => refuse(error),
        _ => raise(error),
    }
}

/// Reports that the gradient of a frozen parameter is used.
#[cold]
fn absent(function: &'static str, location: Location) -> ! {
    raise(Error::Argument {
        function,
        what: Variable::ABSENT.to_owned(),
        location,
    })
}

/// Reports that a function is not defined for complex numbers.
#[cold]
fn not_complex(function: &'static str, inputs: &[Spec]) -> ! {
    let inputs: Vec<String> = inputs.iter().map(Spec::to_string).collect();
    let what = format!(
        "it is not defined for complex numbers (the inputs are {}); `real`, `imag`, `abs` and \
         `view_as_real` give real ones",
        inputs.join(", ")
    );
    raise(Error::argument(function, what))
}

#[cold]
fn too_large(function: &'static str, spec: &Spec, location: Location) -> ! {
    raise(Error::Array(bibun_array::Error::TooLarge {
        function,
        shape: spec.shape.clone(),
        location,
    }))
}

#[cold]
fn mismatched(function: &'static str, mismatch: &Mismatch) -> ! {
    raise(Error::mismatch(function, mismatch))
}
