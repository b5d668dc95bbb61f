//! Functions of lists of Variables, and the rules that follow from the function itself: they run it
//! again, recorded, with tangents, or for all batch elements at once.

use std::sync::{Arc, OnceLock};

use bibun_array::Array;

use super::running::followed;
use crate::batch::{Batched, run_batch};
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::forward;
use crate::functions::{watch, zeros_like};
use crate::node::Edge;
use crate::per_example::{Part, pull_apart};
use crate::randomness::{self, Draw};
use crate::reverse::Paths;
use crate::scope;
use crate::surroundings::{Scopes, Surroundings};
use crate::variable::Variable;

/// A function of lists.
pub(super) type Forward = dyn Fn(&[Variable]) -> Vec<Variable> + Send + Sync;

/// A run for all batch elements at once: the batch axis of each input, the number of batch elements, and
/// how they draw.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Batch {
    pub(super) axes: Vec<Option<usize>>,
    pub(super) count: usize,
    draw: Draw,
}

impl Batch {
    /// Returns what a batch rule is asked for.
    pub(super) fn of(inputs: &[Batched]) -> Self {
        Self {
            axes: inputs.iter().map(|input| input.axis).collect(),
            count: Batched::batch_size(inputs),
            draw: randomness::draw_of_rule(),
        }
    }

    /// Returns the same run with other inputs, which have these batch axes.
    pub(super) fn along(&self, axes: Vec<Option<usize>>) -> Self {
        let (count, draw) = (self.count, self.draw);
        Self { axes, count, draw }
    }

    /// Runs `f` on single batch elements. The results have the batch axis in front.
    pub(super) fn run(
        &self,
        f: impl FnOnce(&[Variable]) -> Vec<Variable>,
        values: &[Variable],
    ) -> Vec<Variable> {
        let inputs = values.iter().zip(&self.axes).map(|(value, &axis)| Batched {
            value: value.clone(),
            axis,
        });
        let outputs = run_batch(f, &inputs.collect::<Vec<_>>(), self.draw);
        outputs.iter().map(|y| y.to_front(self.count)).collect()
    }

    /// Returns the function of all batch elements.
    pub(super) fn of_function(&self, forward: Arc<Forward>) -> Arc<Forward> {
        let own = self.clone();
        Arc::new(move |values| own.run(|x| forward(x), values))
    }
}

/// The surroundings of the first run of a function, once it has run. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct FirstRun(Arc<OnceLock<Surroundings>>);

impl FirstRun {
    /// Runs the function for the first time, or again.
    pub(super) fn run<T>(&self, run: impl FnOnce() -> T) -> T {
        if let Some(first) = self.0.get() {
            return first.again(run);
        }
        let (result, surroundings) = Surroundings::record(run);
        // No other thread runs it meanwhile, because a call is one run at one level.
        let _ = self.0.set(surroundings);
        result
    }

    /// Runs the function again, recorded, for its derivatives.
    pub(super) fn run_recorded<T>(&self, scopes: &Scopes, run: impl FnOnce() -> T) -> T {
        let run = || scope::recording(true, run);
        match self.0.get() {
            Some(first) => first.again_under(scopes, run),
            None => scopes.run(|| self.run(run)),
        }
    }

    /// Runs the function again, or apart from what will be its first run.
    pub(super) fn run_apart<T>(&self, scopes: &Scopes, run: impl FnOnce() -> T) -> T {
        match self.0.get() {
            Some(first) => first.again(run),
            None => scopes.run(run),
        }
    }
}

/// Returns the array of a value that is the same for all batch elements, and has been repeated for them, in
/// front, at most.
#[track_caller]
pub(super) fn shared_array(x: &Variable) -> Array {
    let all = Batched::all(x);
    match all.size() {
        0 => Array::zeros(x.shape(), x.dtype()),
        _ => all.slice(&vec![0.into(); all.rank() - x.rank()]),
    }
}

/// Returns the values of a batch rule's inputs.
pub(super) fn values(inputs: Vec<Batched>) -> Vec<Variable> {
    inputs.into_iter().map(|input| input.value).collect()
}

/// Returns results that have the batch axis in front.
pub(super) fn in_front(outputs: Vec<Variable>) -> Vec<Batched> {
    outputs.into_iter().map(|y| Batched::along(y, 0)).collect()
}

/// Walks back through a second run of a function, which is recorded, with a cotangent for each
/// example.
pub(super) fn pull_apart_again(
    run: impl FnOnce(&[Variable]) -> Vec<Variable>,
    cx: &Context<'_>,
    gy: Vec<ExampleCotangent>,
) -> Vec<Option<ExampleGradient>> {
    let (watched, targets) = watched(&inputs(cx), |i| cx.needs(i));
    let outputs = followed(&watched, || run(&watched));
    let outputs = outputs.iter().map(Variable::edge).zip(gy).collect();
    let parts = pull_apart(outputs, targets, cx.create_graph);
    parts.into_iter().map(Part::sum).collect()
}

/// Computes the value of `f` and its derivative along the tangents of the inputs in `moving`.
pub(crate) fn along(
    f: impl FnOnce(&[Variable]) -> Vec<Variable>,
    moving: &[usize],
    inputs: &[Variable],
    tangents: &[Variable],
) -> (Vec<Variable>, Vec<Variable>) {
    let primals: Vec<Variable> = moving.iter().map(|&i| inputs[i].clone()).collect();
    let run = |duals: &[Variable]| {
        let mut all = inputs.to_vec();
        for (&i, dual) in moving.iter().zip(duals) {
            all[i] = dual.clone();
        }
        f(&all)
    };
    let (outputs, tangents) = forward::jvp(run, &primals, tangents);
    let or_zero = |(y, dy): (_, Option<Variable>)| dy.unwrap_or_else(|| zeros_like(y));
    let tangents = outputs.iter().zip(tangents).map(or_zero).collect();
    (outputs, tangents)
}

pub(crate) fn inputs(cx: &Context<'_>) -> Vec<Variable> {
    (0..cx.input_count()).map(|i| cx.input(i)).collect()
}

/// Returns the inputs and their edges. The history of those that are needed begins here. The others
/// do not change: they are constants or frozen parameters.
pub(super) fn watched(
    inputs: &[Variable],
    needs: impl Fn(usize) -> bool,
) -> (Vec<Variable>, Vec<Edge>) {
    let watched = inputs.iter().enumerate().map(|(i, x)| match needs(i) {
        true => {
            let x = watch(x);
            let edge = x.edge();
            (x, edge)
        }
        false => (x.clone(), Edge::None),
    });
    watched.unzip()
}

/// Computes the cotangents of those `inputs` that are needed, in a run of `f` that is recorded only
/// for this. They can be differentiated again if inputs or cotangents have history.
pub(crate) fn pull_through(
    f: impl FnOnce(&[Variable]) -> Vec<Variable>,
    inputs: &[Variable],
    needs: impl Fn(usize) -> bool,
    cotangents: Vec<Variable>,
) -> Vec<Option<Variable>> {
    let (watched, targets) = watched(inputs, needs);
    let outputs = followed(&watched, || f(&watched));
    let outputs = outputs.iter().map(Variable::edge).collect();
    let paths = Paths::between(outputs, targets);
    let mut sources = inputs.iter().chain(&cotangents);
    let create_graph =
        scope::is_recording() && (paths.leave() || sources.any(Variable::has_history));
    let cotangents = cotangents
        .into_iter()
        .map(|gy| gy.dtype().is_differentiable().then_some(gy));
    paths.pull_back(cotangents.collect(), create_graph)
}
