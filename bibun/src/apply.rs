//! The one door: every function, of the library or of a user, is run and recorded here.

use std::panic::Location;
use std::sync::Arc;

use bibun_array::Array;

use crate::call::Called;
use crate::error::{Error, Place, raise};
use crate::function::{
    AnyFunction, Arity, Function, Inputs, Items, Mismatch, Outputs, Spec, items,
};
use crate::node::{Cut, Edge, Node, Record, Way};
use crate::variable::{Value, Variable};
use crate::{batch, forward, hooks, rules, scope};

/// Applies a function: checks shapes and dtypes, lets the innermost transformation or the arrays'
/// device run it, and records the call if a gradient can reach it.
///
/// A Variable that is moved in and used nowhere else gives its memory to the result.
///
/// # Panics
/// If the inputs do not fit the function.
#[track_caller]
pub fn apply<F: Function>(function: F, inputs: Inputs<F, Variable>) -> Outputs<F, Variable> {
    run(&function, inputs, Location::caller(), false)
}

/// [`apply`], recorded in any case, as if every input required a gradient.
#[track_caller]
pub(crate) fn apply_watched<F: Function>(
    function: F,
    inputs: Inputs<F, Variable>,
) -> Outputs<F, Variable> {
    run(&function, inputs, Location::caller(), true)
}

/// Runs a function by the rules in force, with hooks around it.
#[inline]
pub(crate) fn run<F: Function>(
    function: &F,
    inputs: Inputs<F, Variable>,
    place: Place,
    watched: bool,
) -> Outputs<F, Variable> {
    let (called, _entered) = Called::begin(function.name(), place);
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
    let hooks = hooks::before_forward(function.name(), called.place, inputs.as_ref());
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

/// Shape rule, run, record.
// PERF: lists stay in the arity's own form, arrays for most functions: a scalar function costs more
// in moving lists about than in arithmetic.
fn run_as_it_is<F: Function>(
    function: &F,
    inputs: Inputs<F, Variable>,
    called: Called,
    watched: bool,
) -> Outputs<F, Variable> {
    let (mut inputs, place) = (inputs, called.place);
    let edges = F::Inputs::map_mut(&mut inputs, Variable::take_edge);
    let input_specs = F::Inputs::map_ref(&inputs, Variable::spec);
    let output_specs = match function.shape(F::Inputs::map_ref(&input_specs, |spec| spec)) {
        Ok(specs) => specs,
        Err(mismatch) => mismatched(function.name(), &mismatch),
    };
    if let Some(spec) = (output_specs.as_ref().iter()).find(|spec| !spec.shape.is_addressable()) {
        too_large(function.name(), spec, place)
    }
    let call = Call {
        input_specs: input_specs.as_ref(),
        output_specs: output_specs.as_ref(),
        edges: edges.as_ref(),
        place,
    };

    let has_history = call.edges.iter().fold(false, |any, edge| match edge {
        Edge::Cut(Cut::Absent) => absent(function.name(), place),
        edge => any | edge.is_some(),
    });
    if has_history {
        scope::with_seal(|seal| {
            if call.edges.iter().any(|edge| seal.is_broken_by(edge)) {
                broken(seal, "has history", function.name(), place);
            }
        });
    }
    let differentiable = watched || has_history && scope::is_recording();
    if !(differentiable && call.output_specs.iter().any(|spec| spec.dtype.is_float())) {
        let outputs = compute(function, inputs, &call);
        let edge = constant_edge(&call, has_history);
        return F::Outputs::map(outputs, |value| {
            let edge = match value.dtype().is_float() {
                true => edge.clone(),
                false => Edge::None,
            };
            Variable::fixed(value, edge)
        });
    }

    let needs = F::Inputs::map_ref(&edges, Edge::is_some);
    let keeps = function.keeps(needs.as_ref());
    let retain = scope::is_retaining();
    let mut i = 0;
    let kept_inputs = F::Inputs::map_ref(&inputs, |input| {
        let kept = retain || keeps.has_input(i);
        i += 1;
        kept.then(|| input.value())
    });
    let outputs = compute(function, inputs, &call);
    let mut i = 0;
    let kept_outputs = F::Outputs::map_ref(&outputs, |value| {
        let kept = retain || keeps.has_output(i);
        i += 1;
        kept.then(|| Arc::clone(value))
    });
    let record = Record {
        function: function.clone(),
        inputs: edges,
        input_specs,
        kept_inputs,
        output_specs,
        kept_outputs,
    };
    let node: Arc<Node> = Arc::new(Node::new(record, called));
    scope::with_seal(|seal| seal.remember(&node));
    let mut slot = 0;
    F::Outputs::map(outputs, |value| {
        let edge = match node.output_specs()[slot].dtype.is_float() {
            true => Edge::Output(Way::to(&node), slot as u32),
            false => Edge::None,
        };
        slot += 1;
        Variable::fixed(value, edge)
    })
}

/// What results without history remember of that which they could have had.
fn constant_edge(call: &Call<'_>, has_history: bool) -> Edge {
    let recording = scope::is_recording();
    if has_history && !recording {
        return Edge::Cut(Cut::Unrecorded(call.place));
    }
    let lost = call.edges.iter().find_map(Edge::lost_at);
    match lost.filter(|_| recording) {
        Some(place) => Edge::Cut(Cut::Lost(place)),
        None => match call.edges.iter().find_map(Edge::unrecorded_at) {
            Some(place) => Edge::Cut(Cut::Unrecorded(place)),
            None => Edge::None,
        },
    }
}

/// What a call is known by, apart from its values.
#[derive(Clone, Copy)]
struct Call<'a> {
    input_specs: &'a [Spec],
    output_specs: &'a [Spec],
    edges: &'a [Edge],
    place: Place,
}

/// Computes the outputs of inputs without history: on arrays, or by the innermost transformation that hides an input.
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
    let outputs = function.forward(F::Inputs::map(inputs, into_array));
    debug_assert!(
        outputs.as_ref().len() == call.output_specs.len()
            && outputs
                .as_ref()
                .iter()
                .zip(call.output_specs)
                .all(|(array, spec)| {
                    *array.shape() == spec.shape && array.dtype() == spec.dtype
                }),
        "{}: forward gave {:?}, the shape rule said {:?}",
        function.name(),
        outputs.as_ref(),
        call.output_specs,
    );
    F::Outputs::map(outputs, |array| Arc::new(Value::Array(array)))
}

/// Lets the transformation at `level` run a function.
///
/// It works one level below, on Variables with their history there, so that an outer walk finds
/// its way through it; what `run` records is the history at this level.
fn transform(
    function: &dyn AnyFunction,
    inputs: Items<Variable>,
    level: scope::Level,
    call: &Call<'_>,
) -> Items<Arc<Value>> {
    scope::with_seal(|seal| {
        if seal.hides(level) {
            broken(
                seal,
                "is hidden by a transformation",
                function.name(),
                call.place,
            );
        }
    });
    let batched = inputs.iter().any(|input| input.is_batched_at(level));
    let inputs = items(
        (inputs.into_iter().zip(call.edges))
            .map(|(input, edge)| Variable::fixed(input.into_value(), edge.clone())),
    );
    match batched {
        true => batch::run(function, inputs, level, call.output_specs, call.place),
        false => {
            let (input_specs, output_specs) = (call.input_specs, call.output_specs);
            forward::run(
                function,
                inputs,
                level,
                input_specs,
                output_specs,
                call.place,
            )
        }
    }
}

fn into_array(input: Variable) -> Array {
    match Arc::try_unwrap(input.into_value()) {
        Ok(Value::Array(array)) => array,
        Ok(hidden) => unreachable!("{hidden:?} is handled by its transformation"),
        Err(shared) => shared.to_array(),
    }
}

/// A sealed function has used what it must not.
#[cold]
fn broken(seal: &scope::Seal, why: &str, user: &'static str, place: Place) -> ! {
    raise(Error::Argument {
        function: seal.function,
        what: format!(
            "the function captures a Variable that {why}, and its gradient would be lost; hand it \
             in as part of the argument ({user} uses it)"
        ),
        place,
    })
}

/// A gradient is used where there is none.
#[cold]
fn absent(function: &'static str, place: Place) -> ! {
    raise(Error::Argument {
        function,
        what: Variable::ABSENT.to_owned(),
        place,
    })
}

#[cold]
fn too_large(function: &'static str, spec: &Spec, place: Place) -> ! {
    raise(Error::Array(bibun_array::Error::TooLarge {
        function,
        shape: spec.shape.clone(),
        location: place,
    }))
}

#[cold]
fn mismatched(function: &'static str, mismatch: &Mismatch) -> ! {
    raise(Error::mismatch(function, mismatch))
}
