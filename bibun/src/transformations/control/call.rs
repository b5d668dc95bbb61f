//! Control flow as a [`Function`]: a call that runs a loop over Variables, or is a step of a program
//! that will.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bibun_array::{
    Array, DType, Draws, Shape, Tracer, in_row_major_memory, is_traced, record_call, undrawn,
};

pub(super) use super::super::derived::Forward;
use super::super::derived::{
    Batch, FirstRun, along, in_front, inputs, pull_apart_again, pull_through, values, watched,
};
use super::super::running::{followed, may_be_followed};
use super::are_traced;
use crate::apply;
use crate::batch::Batched;
use crate::call::Called;
use crate::context::Context;
use crate::error::{Error, caller, refuse};
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Function, Mismatch, Needs, Saved, Spec, Variadic};
use crate::functions::zeros_like;
use crate::randomness;
use crate::reverse::Paths;
use crate::scope;
use crate::surroundings::{self, Captured, Scopes};
use crate::variable::Variable;

/// A call of control flow. Its rules are such calls, too, of the same inputs and of cotangents,
/// tangents or batches: on traced values, none of them can run before the program does.
#[derive(Clone)]
pub(super) struct ControlCall {
    name: &'static str,
    run: Arc<Forward>,
    /// Whether this is one step of a loop, and not the whole.
    is_step: bool,
    /// The shapes and dtypes of the outputs, if values are traced.
    outputs: Option<Arc<[Spec]>>,
    /// The scopes around the call.
    scopes: Scopes,
    /// The surroundings of the first run, for all rules.
    first: FirstRun,
    kept: Option<Arc<Kept>>,
}

/// The history of a run, kept for its gradient.
struct Kept {
    /// The inputs that have history.
    watched: Vec<bool>,
    /// Whether a transformation around the call may ask for the gradient.
    is_followed: bool,
    paths: OnceLock<Paths>,
}

/// Traces a function for the shapes and dtypes that it returns.
pub(super) fn trace_once(
    name: &'static str,
    inputs: &[Variable],
    f: impl FnOnce(&[Variable]) -> Vec<Variable>,
) -> Vec<Spec> {
    let tracer = Tracer::new(name);
    let input = |x: &Variable| {
        let Spec { shape, dtype } = x.spec();
        Variable::constant(tracer.input(&Array::zeros(&shape, dtype)))
    };
    let inputs: Vec<Variable> = inputs.iter().map(input).collect();
    // The body reads buffers and leaves itself, when the program runs it.
    let own = tracer.clone();
    let lift = move |x: &Array| own.row_major_input(x.shape(), x.dtype());
    let run = || tracer.run(|| scope::sealed(name, || f(&inputs)));
    let run = || Draws::record(|| surroundings::lifting(lift, run));
    // It runs for the shapes, as one batch element that draws its own numbers.
    let run = || randomness::in_batch(Vec::new(), run);
    let ((outputs, found), draws) = undrawn(run);
    tracer.expect_not_refused();
    if !found.changed.is_empty() || found.captured.iter().any(Captured::is_changed_around) {
        let what = "the function changes a buffer, or reads one that has been changed before (the \
                    stream of `Dropout`, running statistics), and inside of `compile` its second \
                    run for a gradient would see the change; a Rust loop is traced with its buffers";
        refuse(Error::argument(name, what));
    }
    if !draws.are_traced() {
        let what = "the function draws random numbers, and inside of `compile` the same ones would \
                    come again in every run; make the `Generator` part of the state";
        refuse(Error::argument(name, what));
    }
    let arrays: Vec<Array> = outputs.iter().map(Variable::array).collect();
    // Refuses values of other traces.
    let _ = tracer.finish(&arrays);
    outputs.iter().map(Variable::spec).collect()
}

impl ControlCall {
    /// Calls a function. Inputs that are traced need the shapes of the `outputs`.
    pub(super) fn call(
        name: &'static str,
        run: Arc<Forward>,
        inputs: Vec<Variable>,
        outputs: Option<Vec<Spec>>,
    ) -> Vec<Variable> {
        let call = Self::new(name, run, false);
        call.run_on(inputs, || outputs.unwrap_or_default())
    }

    /// Returns a function that is called as a whole, as a program is. The order in which cotangents
    /// are added up is then the same as in one, and so are the bits of their sum.
    pub(super) fn step(name: &'static str, run: Arc<Forward>) -> Arc<Forward> {
        Arc::new(
            move |inputs| match inputs.iter().all(|x| x.bare().is_some()) {
                true => run(inputs),
                false => {
                    let call = Self::new(name, Arc::clone(&run), true);
                    call.run_on(inputs.to_vec(), Vec::new)
                }
            },
        )
    }

    fn new(name: &'static str, run: Arc<Forward>, is_step: bool) -> Self {
        Self {
            name,
            run,
            is_step,
            outputs: None,
            scopes: Scopes::current(),
            first: FirstRun::default(),
            kept: None,
        }
    }

    /// Calls another function of the same call.
    fn call_rule(
        &self,
        run: Arc<Forward>,
        inputs: Vec<Variable>,
        outputs: impl FnOnce() -> Vec<Spec>,
    ) -> Vec<Variable> {
        let call = Self {
            run,
            ..self.clone()
        };
        call.run_on(inputs, outputs)
    }

    fn run_on(
        mut self,
        inputs: Vec<Variable>,
        outputs: impl FnOnce() -> Vec<Spec>,
    ) -> Vec<Variable> {
        self.outputs = are_traced(&inputs).then(|| outputs().into());
        let watched: Vec<bool> = inputs.iter().map(Variable::has_history).collect();
        let is_recorded = scope::is_recording() && watched.contains(&true);
        let is_here = self.outputs.is_none() && inputs.iter().all(|x| x.level() == 0);
        self.kept = (is_recorded && is_here).then(|| {
            Arc::new(Kept {
                watched,
                is_followed: may_be_followed(&inputs),
                paths: OnceLock::new(),
            })
        });
        apply::run(&self, inputs, caller(), false)
    }

    /// Runs the function on values that are there.
    fn run_here(&self, inputs: Vec<Array>) -> Vec<Array> {
        let inputs: Vec<Variable> = inputs.into_iter().map(Variable::constant).collect();
        let run = || match &self.kept {
            Some(kept) => kept.run(&*self.run, &inputs),
            None => (self.run)(&inputs),
        };
        let outputs = scope::sealed(self.name, || self.first.run(run));
        outputs.iter().map(|y| self.in_order(y.array())).collect()
    }

    /// Returns a result in the memory that it has in a program. Later sums may depend on it, to
    /// the last bit.
    fn in_order(&self, y: Array) -> Array {
        match self.is_step {
            true => y,
            false => in_row_major_memory(y),
        }
    }

    /// Makes the run a step of the program that is being traced.
    fn run_later(&self, inputs: &[Array], outputs: &[Spec]) -> Vec<Array> {
        let specs = outputs.iter().map(|spec| (spec.shape.clone(), spec.dtype));
        let specs: Vec<(Shape, DType)> = specs.collect();
        let (name, location) = (self.name, caller());
        let Self {
            run, scopes, first, ..
        } = self.clone();
        record_call(name, inputs, &specs, move |inputs| {
            let (_, _entered) = Called::begin(name, location);
            let inputs: Vec<Variable> = inputs.into_iter().map(Variable::constant).collect();
            let run = || scope::sealed(name, || run(&inputs));
            let outputs = first.run_apart(&scopes, run);
            outputs.iter().map(Variable::array).collect()
        })
    }
}

impl Kept {
    fn run(&self, f: &Forward, inputs: &[Variable]) -> Vec<Variable> {
        let (inputs, targets) = watched(inputs, |i| self.watched[i]);
        let run = || f(&inputs);
        let outputs = match self.is_followed {
            true => followed(&inputs, run),
            false => scope::recording(true, run),
        };
        let edges = outputs.iter().map(Variable::edge).collect();
        let _ = self.paths.set(Paths::between(edges, targets));
        outputs
    }
}

fn only_floats(cotangents: Vec<Variable>) -> Vec<Option<Variable>> {
    let float = |gy: Variable| gy.dtype().is_differentiable().then_some(gy);
    cotangents.into_iter().map(float).collect()
}

impl Function for ControlCall {
    type Inputs = Variadic;
    type Outputs = Variadic;

    fn name(&self) -> &'static str {
        self.name
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::ALL.without_outputs()
    }

    fn shape(&self, _: Vec<&Spec>) -> Result<Vec<Spec>, Mismatch> {
        Err(Mismatch::KNOWN_BY_RUNNING)
    }

    fn takes_complex(&self) -> bool {
        true
    }

    fn forward(&self, inputs: Vec<Array>) -> Vec<Array> {
        match &self.outputs {
            Some(outputs) if inputs.iter().any(is_traced) => self.run_later(&inputs, outputs),
            _ => self.run_here(inputs),
        }
    }

    /// Walks back through the first run, or through another one if the result is to be recorded.
    fn vjp(&self, cx: &Context<'_>, gy: Vec<Variable>) -> Vec<Option<Variable>> {
        let count = cx.input_count();
        let kept = self.kept.as_ref().and_then(|kept| kept.paths.get());
        if let Some(paths) = kept
            && !cx.create_graph
            && gy.iter().all(|gy| gy.level() == 0)
        {
            let gx = paths.pull_back(only_floats(gy), false).into_iter();
            let in_order = |gx: Variable| Variable::constant(self.in_order(gx.array()));
            return gx.map(|gx| gx.map(in_order)).collect();
        }
        let needs: Vec<bool> = (0..count).map(|i| cx.needs(i)).collect();
        let (run, asked) = (Arc::clone(&self.run), needs.clone());
        let rule = move |values: &[Variable]| {
            let (x, gy) = values.split_at(count);
            let gx = pull_through(|x| run(x), x, |i| asked[i], gy.to_vec());
            let wanted = gx.into_iter().zip(x).zip(&asked);
            let wanted = wanted.filter(|(_, asked)| **asked);
            wanted
                .map(|((gx, x), _)| gx.unwrap_or_else(|| zeros_like(x)))
                .collect()
        };
        let values = inputs(cx).into_iter().chain(gy).collect();
        let specs = || {
            let needed = (0..count).filter(|&i| needs[i]);
            needed.map(|i| cx.input_spec(i).clone()).collect()
        };
        let mut gx = self.call_rule(Arc::new(rule), values, specs).into_iter();
        let in_place = |&needed: &bool| if needed { gx.next() } else { None };
        needs.iter().map(in_place).collect()
    }

    /// Runs the function with tangents, for outputs and their tangents at once.
    fn jvp(&self, cx: &Context<'_>, dx: Vec<Option<Variable>>) -> Vec<Option<Variable>> {
        let count = cx.input_count();
        let moving: Vec<usize> = (0..count).filter(|&i| dx[i].is_some()).collect();
        let run = Arc::clone(&self.run);
        let rule = move |values: &[Variable]| {
            let (x, dx) = values.split_at(count);
            let (y, dy) = along(|x| run(x), &moving, x, dx);
            [y, dy].concat()
        };
        let values = inputs(cx).into_iter().chain(dx.into_iter().flatten());
        let specs = || {
            let spec = |i| Spec::new(cx.output_shape(i), cx.output_dtype(i));
            let outputs = || (0..cx.output_count()).map(spec);
            match &self.outputs {
                Some(outputs) => [&outputs[..], outputs].concat(),
                None => outputs().chain(outputs()).collect(),
            }
        };
        let mut outputs = self.call_rule(Arc::new(rule), values.collect(), specs);
        let tangents = outputs.split_off(outputs.len() / 2);
        cx.give_outputs(outputs);
        tangents.into_iter().map(Some).collect()
    }

    fn batch(&self, inputs: Vec<Batched>) -> Vec<Batched> {
        let batch = Batch::of(&inputs);
        let rule = batch.of_function(Arc::clone(&self.run));
        // The batch elements at this level draw in the rule.
        let call = Self {
            scopes: Scopes::current(),
            ..self.clone()
        };
        let specs = || {
            let outputs = self.outputs.as_deref().expect("inputs were traced already");
            let batched =
                |spec: &Spec| Spec::new([&[batch.count], &spec.shape[..]].concat(), spec.dtype);
            outputs.iter().map(batched).collect()
        };
        in_front(call.call_rule(rule, values(inputs), specs))
    }

    /// Walks through the function itself, if its values are there.
    fn per_example(
        &self,
        cx: &Context<'_>,
        gy: Vec<ExampleCotangent>,
    ) -> Vec<Option<ExampleGradient>> {
        if are_traced(&inputs(cx)) {
            return vec![Some(ExampleGradient::Unknown); cx.input_count()];
        }
        let run_again = |x: &[Variable]| self.first.run_recorded(&self.scopes, || (self.run)(x));
        pull_apart_again(run_again, cx, gy)
    }

    fn kept(&self) -> Vec<Array> {
        let paths = self.kept.as_ref().and_then(|kept| kept.paths.get());
        let nodes = paths.map(Paths::nodes).unwrap_or_default();
        nodes.iter().flat_map(|node| node.kept()).collect()
    }
}

impl fmt::Debug for ControlCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
