//! A compiled function as a [`Function`] with all rules: each rule is a compiled function, too.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bibun_array::listing::Listing;
use bibun_array::{
    Array, DType, Draws, Program, Shape, Tracer, cpu, is_another_device, is_traced, undrawn,
};
use rustc_hash::FxHashSet;

pub(super) use super::super::derived::Forward;
use super::super::derived::{
    Batch, FirstRun, along, in_front, inputs, pull_apart_again, values, watched,
};
use super::super::running::{followed, may_be_followed};
use super::back::{Back, Terms};
use super::partial::{Differentiable, Ran};
use super::programs::{Counts, Programs};
use super::shown::Shown;
use crate::apply;
use crate::batch::Batched;
use crate::context::Context;
use crate::error::{Error, Location, attempt, caller, raise};
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Function, Mismatch, Needs, Saved, Spec, Variadic};
use crate::locks::lock;
use crate::randomness::{self, BatchPart};
use crate::reverse::Paths;
use crate::scope;
use crate::surroundings::{self, Captured, Found, Scopes};
use crate::tree::Buffer;
use crate::variable::Variable;

/// The structure of a result, kept by whoever runs the function.
pub(super) type Form = Arc<dyn Any + Send + Sync>;

/// The number of programs that a function keeps. The one that was used least recently goes first.
const PROGRAMS: usize = 32;

/// What a run of a function notes for whoever traces it.
#[derive(Clone, Default)]
pub(super) struct Notes {
    /// The structure of the result.
    pub(super) form: Option<Form>,
    /// The names of its leaves.
    pub(super) names: Option<Arc<[String]>>,
    /// The terms of the gradients that were asked for.
    pub(super) terms: Option<Terms>,
}

thread_local! {
    /// The notes of the last run of a function on this thread.
    static NOTES: RefCell<Notes> = const {
        RefCell::new(Notes { form: None, names: None, terms: None })
    };
}

/// Notes the structure of a result and the names of its leaves, for whoever traces the function.
pub(super) fn note(form: Form, names: Arc<[String]>) {
    NOTES.with_borrow_mut(|notes| (notes.form, notes.names) = (Some(form), Some(names)));
}

/// A function and its programs, one for each list of shapes.
pub(super) struct Core {
    forward: Arc<Forward>,
    /// Whether it runs again what has run before, so that buffers have been changed already.
    pub(super) runs_again: bool,
    traced: Programs<Arc<Traced>, PROGRAMS>,
    /// The compiled functions that are its rules.
    rules: Mutex<HashMap<RuleKey, Arc<Core>>>,
    /// The programs whose gradients may be asked for.
    differentiable: Programs<Arc<Differentiable>, PROGRAMS>,
    /// Whether gradients were asked for whose own gradients may be asked for.
    is_differentiated_again: AtomicBool,
    /// Whether no program can do what it does.
    is_untraceable: AtomicBool,
    pub(super) counts: Arc<Counts>,
    /// The names of the inputs, as far as they have some.
    names: Arc<[String]>,
}

/// What a rule depends on beside the shapes of its inputs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum RuleKey {
    Back(Back),
    /// The inputs that have a tangent.
    Jvp(Vec<bool>),
    Batch(Batch),
}

impl fmt::Display for RuleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Back(Back { examples: None, .. }) => f.write_str("gradient"),
            Self::Back(_) => f.write_str("gradients of examples"),
            Self::Jvp(_) => f.write_str("tangent"),
            Self::Batch(batch) => write!(f, "batch of {}", batch.count),
        }
    }
}

/// A program with what it was traced for.
pub(super) struct Traced {
    pub(super) signature: Signature,
    pub(super) program: Program,
    pub(super) notes: Notes,
    /// The buffers and leaves that the function reads, which are inputs behind those of the argument.
    captured: Vec<Captured>,
    /// Which of them were frozen while it was traced.
    frozen: Vec<bool>,
    /// The buffers that it changes. Their new contents are outputs behind those of the result.
    changed: Vec<Buffer>,
    /// Whether a run depends on its inputs alone, so that all runs are the same.
    sees_nothing: bool,
    /// The time of each step in the last profile.
    times: Mutex<Vec<Duration>>,
}

impl Traced {
    pub(super) fn new(
        signature: Signature,
        program: Program,
        notes: Notes,
        captured: Vec<Captured>,
        changed: Vec<Buffer>,
    ) -> Self {
        let frozen = captured.iter().map(Captured::is_frozen).collect();
        let is_alone = captured.is_empty() && changed.is_empty();
        let sees_nothing = is_alone && program.sees_inputs_alone();
        Self {
            signature,
            program,
            notes,
            captured,
            frozen,
            changed,
            sees_nothing,
            times: Mutex::default(),
        }
    }

    /// The program of a way back, which sees its inputs alone.
    pub(super) fn of_way(program: Program, terms: Terms) -> Self {
        let notes = Notes {
            terms: Some(terms),
            ..Notes::default()
        };
        let signature = Signature::of(&[], &[]);
        Self::new(signature, program, notes, Vec::new(), Vec::new())
    }

    /// Whether the program is for these inputs, and for leaves that are frozen as they are now.
    pub(super) fn fits(&self, inputs: &[Array], leaves: &[bool]) -> bool {
        let frozen = self.captured.iter().map(Captured::is_frozen);
        self.signature.fits(inputs, leaves) && self.frozen.iter().copied().eq(frozen)
    }

    /// The inputs, and those that the function captures.
    fn with_captured(&self, mut inputs: Vec<Array>, captured: &[Variable]) -> Vec<Array> {
        inputs.extend(captured.iter().map(|x| x.array().to_row_major()));
        inputs
    }

    fn captured(&self) -> Vec<Variable> {
        self.captured.iter().map(Captured::get).collect()
    }

    /// Runs the program and measures the time of each step. Buffers do not change.
    pub(super) fn profile(&self, inputs: Vec<Array>) {
        let all = self.with_captured(inputs, &self.captured());
        let (_, times) = self.program.profile(all);
        *lock(&self.times) = times;
    }

    pub(super) fn listing(&self) -> Listing {
        Listing {
            times: lock(&self.times).clone(),
            ..self.program.listing()
        }
    }

    /// Runs the program, again if another thread has changed a buffer in the meantime.
    pub(super) fn run(&self, inputs: &[Array]) -> Vec<Array> {
        loop {
            if let Some(outputs) = self.run_once(inputs.to_vec()) {
                return outputs;
            }
        }
    }

    /// Runs the program, unless another thread changes a buffer in the meantime: then this run changes
    /// none.
    fn run_once(&self, inputs: Vec<Array>) -> Option<Vec<Array>> {
        let captured = self.captured();
        let mut outputs = self.program.run(self.with_captured(inputs, &captured));
        let contents = outputs.split_off(outputs.len() - self.changed.len());
        let contents: Vec<Variable> = contents.into_iter().map(Variable::constant).collect();
        let old = |buffer: &Buffer| {
            let is_it =
                |own: &Captured| matches!(own, Captured::Buffer(own) if own.is_same(buffer));
            let position = self.captured.iter().position(is_it);
            position.map_or_else(|| buffer.get(), |i| captured[i].clone())
        };
        let changes = || self.changed.iter().zip(&contents);
        let olds: Vec<Variable> = self.changed.iter().map(old).collect();
        let is_done =
            |((buffer, new), old): &((&Buffer, &Variable), &Variable)| buffer.exchange(old, new);
        let done = changes().zip(&olds).take_while(is_done).count();
        if done == self.changed.len() {
            return Some(outputs);
        }
        // Another run has come in between.
        for ((buffer, new), old) in changes().zip(&olds).take(done) {
            buffer.exchange(new, old);
        }
        None
    }
}

/// The shape, the dtype and the strides of an input, and whether it is a single value without memory.
pub(super) type InputSpec = (Shape, DType, Vec<isize>, bool);

/// What a program is for.
#[derive(Debug)]
pub(super) struct Signature {
    inputs: Vec<InputSpec>,
    /// Whether the function sees each input as a leaf; empty if none.
    leaves: Vec<bool>,
    is_training: bool,
    is_recording: bool,
    /// The part of a batch that random numbers are drawn for.
    part: Option<BatchPart>,
}

impl Signature {
    pub(super) fn of(inputs: &[Array], leaves: &[bool]) -> Self {
        Self {
            inputs: inputs.iter().map(spec).collect(),
            leaves: leaves.to_vec(),
            is_training: scope::is_training(),
            is_recording: scope::is_recording(),
            part: randomness::part(),
        }
    }

    fn fits(&self, inputs: &[Array], leaves: &[bool]) -> bool {
        let mut all = self.inputs.iter().zip(inputs);
        self.is_training == scope::is_training()
            && self.is_recording == scope::is_recording()
            && self.part == randomness::part()
            && self.inputs.len() == inputs.len()
            && self.leaves == leaves
            && all.all(|((shape, dtype, strides, is_inline), x)| {
                // PERF: a loop, for a call that compares memory takes longer than a few strides.
                *dtype == x.dtype()
                    && shape == x.shape()
                    && strides.iter().eq(x.strides())
                    && *is_inline == x.memory().is_none()
            })
    }
}

impl Core {
    pub(super) fn new(forward: Arc<Forward>, counts: Arc<Counts>) -> Self {
        Self {
            forward,
            runs_again: false,
            traced: Programs::default(),
            rules: Mutex::default(),
            differentiable: Programs::default(),
            is_differentiated_again: AtomicBool::new(false),
            is_untraceable: AtomicBool::new(false),
            counts,
            names: Arc::default(),
        }
    }

    pub(super) fn with_names(self, names: Vec<String>) -> Self {
        let names = names.into();
        Self { names, ..self }
    }

    fn rule(&self, key: RuleKey, forward: impl FnOnce(Arc<Forward>) -> Arc<Forward>) -> Arc<Self> {
        let runs_again = matches!(key, RuleKey::Back(_));
        let make = || {
            let forward = forward(Arc::clone(&self.forward));
            Arc::new(Self {
                runs_again,
                names: Arc::clone(&self.names),
                ..Self::new(forward, Arc::clone(&self.counts))
            })
        };
        Arc::clone(lock(&self.rules).entry(key).or_insert_with(make))
    }

    /// Runs the program for inputs without history, if there is one and it sees nothing else. Returns the
    /// outputs and the program.
    // PERF: such a call needs no scopes and leaves no history, which cost more than a few numbers.
    pub(super) fn run_known(&self, inputs: Vec<Array>) -> Option<(Vec<Array>, Arc<Traced>)> {
        let is_here = |x: &Array| x.memory().is_none_or(|memory| memory.device() == cpu());
        if is_another_device() || !inputs.iter().all(is_here) {
            return None;
        }
        let traced = self.traced.get(|one| one.fits(&inputs, &[]))?;
        if !traced.sees_nothing {
            return None;
        }
        Some((traced.program.run(inputs), traced))
    }

    /// The program for an argument.
    pub(super) fn program_of(&self, inputs: &[Variable]) -> (Arc<Traced>, Vec<Array>) {
        let arrays: Vec<Array> = inputs.iter().map(Variable::array).collect();
        let program = self.program(&arrays, &leaves_of(inputs), &Scopes::current());
        (program, arrays)
    }

    /// The program for these inputs, which is traced if there is none. The function sees some of them as
    /// `leaves`, so that it can ask for gradients by them.
    fn program(&self, inputs: &[Array], leaves: &[bool], scopes: &Scopes) -> Arc<Traced> {
        let fits = |one: &Arc<Traced>| one.fits(inputs, leaves);
        (self.traced).get_or_trace(&self.counts, inputs, fits, || {
            let signature = Signature::of(inputs, leaves);
            let traced = trace(&*self.forward, inputs, scopes, signature, self.runs_again);
            Arc::new(traced)
        })
    }

    /// The program for these inputs of the results, and of what a gradient needs, or of the gradient.
    fn differentiable(
        &self,
        gradient: &Gradient,
        inputs: &[Array],
        scopes: &Scopes,
    ) -> Arc<Differentiable> {
        let Gradient {
            wanted,
            is_followed,
            is_last,
            ..
        } = gradient;
        let again = self.is_differentiated_again.load(Ordering::Relaxed);
        let with_gradient = *is_last && !again;
        let fits = |one: &Arc<Differentiable>| {
            one.wanted == *wanted
                && one.is_followed == *is_followed
                && (with_gradient || one.gradient.is_none())
                && one.traced.fits(inputs, &[])
        };
        (self.differentiable).get_or_trace(&self.counts, inputs, fits, || {
            let signature = Signature::of(inputs, &[]);
            Arc::new(Differentiable::trace(
                self,
                wanted,
                *is_followed,
                with_gradient,
                inputs,
                scopes,
                signature,
            ))
        })
    }

    /// Computes the function itself.
    pub(super) fn compute(&self, inputs: &[Variable]) -> Vec<Variable> {
        (self.forward)(inputs)
    }

    /// The programs of the function and of its rules that were used last, to be shown.
    pub(super) fn programs(&self) -> Vec<Shown> {
        let mut programs = Vec::new();
        self.list_programs(None, &mut programs);
        programs
    }

    fn list_programs(&self, key: Option<&str>, programs: &mut Vec<Shown>) {
        if let Some(traced) = self.traced.last() {
            programs.push(traced.shown(key, &self.names));
        }
        let of = |what: &str| match key {
            None => what.to_owned(),
            Some(key) => format!("{what} of the {key}"),
        };
        let mut differentiable = self.differentiable.last();
        let mut what = "value";
        while let Some(own) = differentiable {
            let title = match own.gradient {
                Some(_) => of(&format!("{what} with its gradient")),
                None => of(&format!("{what} before its gradient")),
            };
            programs.push(own.traced.shown(Some(&title), &self.names));
            for (title, traced) in own.programs() {
                programs.push(traced.shown(Some(&of(title)), &[]));
            }
            (differentiable, what) = (own.latest(), "gradient");
        }
        let rules = lock(&self.rules).clone();
        let name = |rule: &RuleKey| match key {
            None => rule.to_string(),
            Some(key) => format!("{rule} of the {key}"),
        };
        let mut rules: Vec<(String, Arc<Self>)> = rules
            .into_iter()
            .map(|(key, rule)| (name(&key), rule))
            .collect();
        rules.sort_by(|a, b| a.0.cmp(&b.0));
        for (key, rule) in rules {
            rule.list_programs(Some(&key), programs);
        }
    }
}

impl Traced {
    /// The program of the function, or of one of its rules.
    fn shown(&self, rule: Option<&str>, names: &[String]) -> Shown {
        let listing = self.listing();
        let captured = self.captured.iter().map(|captured| match captured {
            Captured::Buffer(_) => "buffer".to_owned(),
            Captured::Leaf(_) => "leaf".to_owned(),
        });
        let arguments = listing.inputs.len() - self.captured.len();
        let extra = arguments.saturating_sub(names.len());
        let inputs = names.iter().take(arguments).cloned();
        let inputs = inputs.chain(vec![String::new(); extra]).chain(captured);
        let mut outputs = match rule {
            None => self.notes.names.as_deref().unwrap_or_default().to_vec(),
            Some(_) => Vec::new(),
        };
        outputs.resize(listing.outputs.len() - self.changed.len(), String::new());
        outputs.resize(listing.outputs.len(), "buffer".to_owned());
        let specs = listing.inputs.iter().take(arguments);
        let specs: Vec<String> = specs.map(|&x| listing.values[x].to_string()).collect();
        let title = rule.unwrap_or("function");
        Shown {
            title: match &specs[..] {
                [] => title.to_owned(),
                [one] => format!("{title} of {one}"),
                [..] => format!("{title} of {} inputs", specs.len()),
            },
            is_function: rule.is_none(),
            inputs: inputs.collect(),
            outputs,
            listing,
        }
    }
}

/// A recording of a function.
pub(super) struct Trace<T> {
    pub(super) tracer: Tracer,
    /// The traced inputs.
    pub(super) given: Vec<Array>,
    pub(super) result: T,
    pub(super) found: Found,
    pub(super) notes: Notes,
    /// The nodes and leaves that the function has made.
    pub(super) made: FxHashSet<usize>,
}

/// Records a function.
pub(super) fn record<T>(
    inputs: &[Array],
    scopes: &Scopes,
    f: impl FnOnce(&[Variable]) -> T,
) -> Trace<T> {
    let tracer = Tracer::new("compile");
    let given: Vec<Array> = inputs.iter().map(|x| tracer.input(x)).collect();
    let inputs: Vec<Variable> = given.iter().cloned().map(Variable::constant).collect();
    let run = || scope::sealed_with("compile", FxHashSet::default(), || f(&inputs));
    let run = || scopes.run(run);
    let own = tracer.clone();
    let lift = move |x: &Array| own.row_major_input(x.shape(), x.dtype());
    let run = || Draws::record(|| tracer.run(|| surroundings::lifting(lift, run)));
    // What is drawn while a function is traced is no draw of the run around it.
    let ((((result, made), found), draws), notes) = noting(|| undrawn(run));
    // The function may have caught it, and gone another way than it goes with values.
    tracer.expect_not_refused();
    if !draws.are_traced() {
        let what = "the function draws from a generator, and the same numbers would come again \
                    in every run; make the generator part of the argument (a link such as \
                    `Dropout` has its own stream)";
        raise(Error::argument("compile", what));
    }
    Trace {
        tracer,
        given,
        result,
        found,
        notes,
        made,
    }
}

/// Traces a function.
pub(super) fn trace(
    forward: &dyn Fn(&[Variable]) -> Vec<Variable>,
    inputs: &[Array],
    scopes: &Scopes,
    signature: Signature,
    runs_again: bool,
) -> Traced {
    let leaves = signature.leaves.clone();
    let trace = record(inputs, scopes, |inputs| match &leaves[..] {
        [] => forward(inputs),
        _ => forward(&with_leaves(inputs, &leaves)),
    });
    let changed = match runs_again {
        true => Vec::new(),
        false => trace.found.changed,
    };
    let (changed, contents): (Vec<Buffer>, Vec<Variable>) = changed.into_iter().unzip();
    let outputs = trace.result.iter().chain(&contents);
    let outputs: Vec<Array> = outputs.map(Variable::array).collect();
    let program = trace.tracer.finish(&outputs);
    let captured = trace.found.captured;
    Traced::new(signature, program, trace.notes, captured, changed)
}

/// Which of these inputs are leaves that gradients go to; empty if none.
fn leaves_of(inputs: &[Variable]) -> Vec<bool> {
    let is_leaf = |x: &Variable| x.is_leaf() && x.has_history();
    match inputs.iter().any(is_leaf) {
        true => inputs.iter().map(is_leaf).collect(),
        false => Vec::new(),
    }
}

/// The inputs, with leaves in the place of some.
fn with_leaves(inputs: &[Variable], leaves: &[bool]) -> Vec<Variable> {
    let both = inputs.iter().zip(leaves);
    let own = both.map(|(x, is_leaf)| match is_leaf {
        true => Variable::new(x.array()),
        false => x.clone(),
    });
    own.collect()
}

/// Runs `f`, and returns its notes. Those of a function around it stay as they are.
pub(super) fn noting<T>(f: impl FnOnce() -> T) -> (T, Notes) {
    struct PutBack(Notes);
    impl Drop for PutBack {
        fn drop(&mut self) {
            NOTES.set(std::mem::take(&mut self.0));
        }
    }
    let _put_back = PutBack(NOTES.take());
    let result = f();
    (result, NOTES.take())
}

/// Notes the terms of gradients.
pub(super) fn note_terms(terms: Terms) {
    NOTES.with_borrow_mut(|notes| notes.terms = Some(terms));
}

/// The elements of Variables that a program can run on as they are.
pub(super) fn plain_arrays(inputs: &[Variable]) -> Option<Vec<Array>> {
    let is_here = |x: &Array| !is_traced(x) && x.device() == cpu();
    let arrays = inputs.iter().map(|x| x.plain_array().filter(is_here));
    arrays.collect()
}

pub(super) fn spec(x: &Array) -> InputSpec {
    let is_inline = x.memory().is_none();
    (
        x.shape().clone(),
        x.dtype(),
        x.strides().to_vec(),
        is_inline,
    )
}

/// A call of a compiled function. Its rules are compiled functions of the same inputs and of
/// cotangents, tangents or batches.
#[derive(Clone)]
pub(super) struct CompiledCall {
    core: Arc<Core>,
    scopes: Scopes,
    /// The surroundings of the first run, which later runs for derivatives see.
    first: FirstRun,
    /// The notes of the function, once it has run.
    made: Arc<Mutex<Notes>>,
    /// What the gradient of the call is made of, if it may be asked for.
    gradient: Option<Arc<Gradient>>,
    /// The run that this call is a way back from.
    from: Option<(Arc<Ran>, Back)>,
}

/// What the gradient of a call is made of.
struct Gradient {
    /// The inputs that have history.
    wanted: Vec<bool>,
    /// Whether a transformation around the call may ask for it.
    is_followed: bool,
    /// Whether a gradient of this gradient is unlikely, so that it is best computed with the result.
    is_last: bool,
    /// The program that has run, and what it returned.
    ran: OnceLock<Arc<Ran>>,
}

impl Gradient {
    /// What a gradient by these inputs will need, if there can be one.
    fn of(inputs: &[Variable]) -> Option<Arc<Self>> {
        let wanted: Vec<bool> = inputs.iter().map(Variable::has_history).collect();
        let is_here = inputs.iter().all(|x| x.level() == 0);
        let is_wanted = scope::is_recording() && is_here && wanted.contains(&true);
        is_wanted.then(|| {
            // A transformation puts Variables of its own in the place of inputs, and one around it others
            // in the place of those.
            let is_last = inputs.iter().all(|x| x.edge().generation() <= 1);
            Arc::new(Self {
                wanted,
                is_followed: may_be_followed(inputs),
                is_last,
                ran: OnceLock::new(),
            })
        })
    }
}

impl CompiledCall {
    /// Calls the function. Returns the leaves of the result, and its structure.
    pub(super) fn call(
        core: &Arc<Core>,
        inputs: Vec<Variable>,
        location: Location,
    ) -> (Vec<Variable>, Option<Form>) {
        let call = Self {
            core: Arc::clone(core),
            scopes: Scopes::current(),
            first: FirstRun::default(),
            made: Arc::default(),
            gradient: None,
            from: None,
        };
        let (outputs, notes) = call.run_on(inputs, location);
        (outputs, notes.form)
    }

    /// Calls the function without history, and takes the inputs: the memory of those that nobody else
    /// holds may become that of results.
    pub(super) fn call_donated(
        core: &Arc<Core>,
        inputs: Vec<Variable>,
        location: Location,
    ) -> (Vec<Variable>, Option<Form>) {
        let is_here = |x: &Array| !is_traced(x) && x.device() == cpu();
        let is_plain = |x: &Variable| x.look(|value| value.array().is_some_and(is_here));
        if !inputs.iter().all(is_plain) {
            return scope::recording(false, || Self::call(core, inputs, location));
        }
        let leaves = leaves_of(&inputs);
        let arrays: Vec<Array> = inputs.into_iter().map(apply::into_array).collect();
        let traced = core.program(&arrays, &leaves, &Scopes::current());
        let Some(outputs) = traced.run_once(arrays) else {
            let what = "another thread has changed a buffer while the program was running, which \
                        cannot run again because its argument was given away; use `call`";
            raise(Error::argument("compile", what));
        };
        let form = traced.notes.form.clone();
        (outputs.into_iter().map(Variable::constant).collect(), form)
    }

    /// Calls a rule: another function, in the same surroundings.
    fn call_rule(
        &self,
        core: Arc<Core>,
        inputs: Vec<Variable>,
        from: Option<(Arc<Ran>, Back)>,
    ) -> (Vec<Variable>, Notes) {
        let call = Self {
            core,
            made: Arc::default(),
            from,
            ..self.clone()
        };
        call.run_on(inputs, caller())
    }

    fn run_on(mut self, inputs: Vec<Variable>, location: Location) -> (Vec<Variable>, Notes) {
        self.gradient = Gradient::of(&inputs);
        let mut outputs = apply::run(&self, inputs, location, false);
        let gradient = self.gradient.as_ref();
        if let Some(ran) = gradient.and_then(|gradient| gradient.ran.get()) {
            // No gradient goes through what does not depend on values with history.
            for (y, is_constant) in outputs.iter_mut().zip(&ran.differentiable.constant) {
                if *is_constant {
                    *y = y.detach();
                }
            }
        }
        let notes = std::mem::take(&mut *lock(&self.made));
        (outputs, notes)
    }

    /// Runs a program in the surroundings of the first run.
    fn run(&self, traced: &Traced, inputs: Vec<Array>) -> Vec<Array> {
        self.note(traced.notes.clone());
        match traced.sees_nothing {
            true => traced.program.run(inputs),
            false => self.first.run(|| traced.run(&inputs)),
        }
    }

    /// Runs a program whose gradient may be asked for.
    fn run_before_gradient(
        &self,
        gradient: &Gradient,
        differentiable: Arc<Differentiable>,
        given: Vec<Array>,
    ) -> Vec<Array> {
        let mut outputs = self.run(&differentiable.traced, given.clone());
        let behind = outputs.split_off(differentiable.results);
        let _ = gradient.ran.set(Arc::new(Ran {
            differentiable,
            given,
            behind,
        }));
        outputs
    }

    /// Runs the program of a way back on what is there already, if there is one.
    fn run_back(&self, ran: &Ran, back: &Back, cotangents: &[Array]) -> Option<Vec<Array>> {
        let given = ran.inputs(cotangents);
        let of = &ran.differentiable;
        if let Some(gradient) = &self.gradient {
            let own = of.differentiable(&self.core, back, cotangents, &gradient.wanted)?;
            return Some(self.run_before_gradient(gradient, own, given));
        }
        let pulled = of.pulled(&self.core, back, cotangents)?;
        Some(self.run(&pulled, given))
    }

    fn note(&self, notes: Notes) {
        let mut made = lock(&self.made);
        made.form = notes.form.or(made.form.take());
        made.terms = notes.terms.or(made.terms.take());
    }

    /// The function that computes the terms of a way back from inputs and cotangents.
    fn core_of(&self, back: &Back, count: usize) -> Arc<Core> {
        let own = back.clone();
        self.core.rule(RuleKey::Back(back.clone()), |forward| {
            Arc::new(move |values| {
                let (x, gy) = values.split_at(count);
                let (x_watched, inputs) = watched(x, |i| own.needs[i]);
                let outputs = followed(&x_watched, || forward(&x_watched));
                let outputs: Vec<_> = outputs.iter().map(Variable::edge).collect();
                let paths = Paths::between(outputs.clone(), inputs.clone());
                let create_graph = scope::is_recording()
                    && (paths.leave() || values.iter().any(Variable::has_history));
                let cotangents = gy.iter();
                let cotangents = cotangents.map(|gy| Some(gy.clone())).collect();
                let (values, terms) = own.walk(outputs, &inputs, cotangents, create_graph);
                note_terms(terms);
                values
            })
        })
    }

    /// Walks back: by the gradient that has come with the result, from what was kept, or in another run.
    fn walk_back(
        &self,
        cx: &Context<'_>,
        back: &Back,
        cotangents: Vec<Variable>,
    ) -> (Vec<Variable>, Terms) {
        let inputs = inputs(cx);
        let ran = self.gradient.as_ref().and_then(|own| own.ran.get());
        let is_recorded = cx.create_graph
            && scope::is_recording()
            && inputs.iter().chain(&cotangents).any(Variable::has_history);
        let constants = |arrays: Vec<Array>| arrays.into_iter().map(Variable::constant).collect();
        if let Some(ran) = ran
            && !is_recorded
            && let Some(cotangents) = plain_arrays(&cotangents)
        {
            let of_wanted = Back::whole(ran.differentiable.wanted.clone());
            if let Some(terms) = &ran.differentiable.gradient
                && *back == of_wanted
                && cotangents[0].known_item() == Some(1.0)
            {
                return (constants(ran.behind.clone()), Arc::clone(terms));
            }
            let call = Self {
                gradient: None,
                made: Arc::default(),
                ..self.clone()
            };
            if let Some(values) = call.run_back(ran, back, &cotangents) {
                let terms = lock(&call.made).terms.take();
                return (constants(values), terms.expect("they were traced"));
            }
        }
        if is_recorded {
            let again = &self.core.is_differentiated_again;
            again.store(true, Ordering::Relaxed);
        }
        let core = self.core_of(back, inputs.len());
        let from = ran.map(|ran| (Arc::clone(ran), back.clone()));
        let (values, notes) = self.call_rule(core, [inputs, cotangents].concat(), from);
        let terms = notes.terms.expect("the rule has run, or was traced");
        (values, terms)
    }
}

impl Function for CompiledCall {
    type Inputs = Variadic;
    type Outputs = Variadic;

    fn name(&self) -> &'static str {
        "compile"
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

    /// Runs the program for these shapes. Inside another trace, and on other devices than the CPU,
    /// the function itself runs.
    fn forward(&self, inputs: Vec<Array>) -> Vec<Array> {
        let is_elsewhere = |x: &Array| x.device() != cpu();
        if inputs.iter().any(|x| is_traced(x) || is_elsewhere(x)) {
            let inputs: Vec<Variable> = inputs.into_iter().map(Variable::constant).collect();
            let run = || scope::sealed("compile", || (self.core.forward)(&inputs));
            let (outputs, notes) = noting(|| self.first.run(|| self.scopes.run(run)));
            self.note(notes);
            return outputs.iter().map(Variable::array).collect();
        }
        if let Some((ran, back)) = &self.from
            && let Some(outputs) = self.run_back(ran, back, &inputs[back.needs.len()..])
        {
            return outputs;
        }
        let Some(gradient) = &self.gradient else {
            return self.run(&self.core.program(&inputs, &[], &self.scopes), inputs);
        };
        let own = (self.core).differentiable(gradient, &inputs, &self.scopes);
        self.run_before_gradient(gradient, own, inputs)
    }

    fn vjp(&self, cx: &Context<'_>, gy: Vec<Variable>) -> Vec<Option<Variable>> {
        let needs = (0..cx.input_count()).map(|i| cx.needs(i));
        let back = Back::whole(needs.collect());
        let (values, terms) = self.walk_back(cx, &back, gy);
        back.gradients(&terms, values)
    }

    fn jvp(&self, cx: &Context<'_>, dx: Vec<Option<Variable>>) -> Vec<Option<Variable>> {
        let count = cx.input_count();
        let moves: Vec<bool> = dx.iter().map(Option::is_some).collect();
        let moving: Vec<usize> = (0..count).filter(|&i| moves[i]).collect();
        let core = self.core.rule(RuleKey::Jvp(moves), |forward| {
            Arc::new(move |values| {
                let (x, dx) = values.split_at(count);
                along(|x| forward(x), &moving, x, dx).1
            })
        });
        let values = inputs(cx).into_iter().chain(dx.into_iter().flatten());
        let (tangents, _) = self.call_rule(core, values.collect(), None);
        tangents.into_iter().map(Some).collect()
    }

    fn batch(&self, inputs: Vec<Batched>) -> Vec<Batched> {
        let batch = Batch::of(&inputs);
        let key = RuleKey::Batch(batch.clone());
        let core = self.core.rule(key, |forward| batch.of_function(forward));
        // The batch elements at this level draw in the rule.
        let call = Self {
            scopes: Scopes::current(),
            ..self.clone()
        };
        let (outputs, notes) = call.call_rule(core, values(inputs), None);
        self.note(notes);
        in_front(outputs)
    }

    /// Walks back through the function by a program, or itself if no program can tell which example what
    /// belongs to.
    fn per_example(
        &self,
        cx: &Context<'_>,
        gy: Vec<ExampleCotangent>,
    ) -> Vec<Option<ExampleGradient>> {
        let needs = (0..cx.input_count()).map(|i| cx.needs(i));
        let back = Back {
            needs: needs.collect(),
            examples: Some(gy.iter().map(|gy| gy.examples.clone()).collect()),
        };
        let cotangents = gy.iter().map(|gy| gy.cotangent.clone()).collect();
        let core = self.core_of(&back, cx.input_count());
        if !core.is_untraceable.load(Ordering::Relaxed) {
            match attempt(|| self.walk_back(cx, &back, cotangents)) {
                Ok((values, terms)) => return back.example_gradients(&terms, values),
                Err(_) => core.is_untraceable.store(true, Ordering::Relaxed),
            }
        }
        let run = |x: &[Variable]| {
            let run = || (self.core.forward)(x);
            self.first.run_recorded(&self.scopes, run)
        };
        pull_apart_again(run, cx, gy)
    }

    fn kept(&self) -> Vec<Array> {
        let own = self.gradient.as_ref().and_then(|own| own.ran.get());
        let from = self.from.as_ref().map(|(ran, _)| ran);
        let kept = own.into_iter().chain(from);
        kept.flat_map(|ran| ran.behind.iter().cloned()).collect()
    }
}

impl fmt::Debug for CompiledCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("compile")
    }
}
