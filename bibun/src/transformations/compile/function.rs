//! A compiled function as a [`Function`] with all rules: each rule is a compiled function, too.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bibun_array::listing::Listing;
use bibun_array::{Array, Cut, DType, Draws, Program, Shape, Tracer, cpu, is_traced};

use super::super::custom::{along, pull_apart_again, pull_through};
use super::partial::{After, Differentiable};
use super::shown::Shown;
use crate::apply;
use crate::batch::{Batched, run_batch};
use crate::context::Context;
use crate::error::{Error, Location, caller, raise};
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Function, Mismatch, Needs, Saved, Spec, Variadic};
use crate::locks::lock;
use crate::randomness::{self, Draw};
use crate::scope;
use crate::surroundings::{self, Captured, Found, Scopes, Surroundings};
use crate::tree::Buffer;
use crate::variable::Variable;

/// The function, in terms of the leaves of its argument and result.
pub(super) type Forward = dyn Fn(&[Variable]) -> Vec<Variable> + Send + Sync;

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
    pub(super) names: Vec<String>,
    /// Which of the cotangents that were asked for there are.
    pub(super) present: Option<Arc<[bool]>>,
}

thread_local! {
    /// The notes of the last run of a function on this thread.
    static NOTES: RefCell<Notes> = const {
        RefCell::new(Notes { form: None, names: Vec::new(), present: None })
    };
}

/// Notes the structure of a result and the names of its leaves, for whoever traces the function.
pub(super) fn note(form: Form, names: Vec<String>) {
    NOTES.with_borrow_mut(|notes| (notes.form, notes.names) = (Some(form), names));
}

/// A function and its programs, one for each list of shapes.
pub(super) struct Core {
    forward: Arc<Forward>,
    /// Whether it runs again what has run before, so that buffers have been changed already.
    runs_again: bool,
    traced: Mutex<Vec<Arc<Traced>>>,
    /// The compiled functions that are its rules.
    rules: Mutex<HashMap<RuleKey, Arc<Core>>>,
    /// The programs whose gradients may be asked for.
    differentiable: Mutex<Vec<Arc<Differentiable>>>,
    counts: Arc<Counts>,
    /// The names of the inputs, as far as they have some.
    names: Arc<[String]>,
}

/// The number of traces so far, and the most that are allowed.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) traces: AtomicUsize,
    pub(super) limit: AtomicUsize,
}

impl Counts {
    pub(super) fn unlimited() -> Arc<Self> {
        Arc::new(Self {
            traces: AtomicUsize::new(0),
            limit: AtomicUsize::new(usize::MAX),
        })
    }
}

/// What a rule depends on beside the shapes of its inputs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum RuleKey {
    /// The inputs whose cotangents are asked for.
    Vjp(Vec<bool>),
    /// The inputs that have a tangent.
    Jvp(Vec<bool>),
    /// The batch axis of each input, the number of batch elements, and how they draw.
    Batch(Vec<Option<usize>>, usize, Draw),
}

impl fmt::Display for RuleKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vjp(_) => f.write_str("gradient"),
            Self::Jvp(_) => f.write_str("tangent"),
            Self::Batch(_, count, _) => write!(f, "batch of {count}"),
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
    /// The buffers that it changes. Their new contents are outputs behind those of the result.
    changed: Vec<Buffer>,
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
        Self {
            signature,
            program,
            notes,
            captured,
            changed,
            times: Mutex::default(),
        }
    }

    /// A program that sees its inputs alone.
    pub(super) fn of_program(signature: Signature, program: Program) -> Self {
        Self::new(signature, program, Notes::default(), Vec::new(), Vec::new())
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

    /// Whether a run depends on its inputs alone, so that all runs are the same.
    fn sees_nothing(&self) -> bool {
        self.captured.is_empty() && self.changed.is_empty() && self.program.is_of_kernels()
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
    is_training: bool,
    is_recording: bool,
}

impl Signature {
    pub(super) fn of(inputs: &[Array]) -> Self {
        Self {
            inputs: inputs.iter().map(spec).collect(),
            is_training: scope::is_training(),
            is_recording: scope::is_recording(),
        }
    }

    pub(super) fn fits(&self, inputs: &[Array]) -> bool {
        let mut all = self.inputs.iter().zip(inputs);
        self.is_training == scope::is_training()
            && self.is_recording == scope::is_recording()
            && self.inputs.len() == inputs.len()
            && all.all(|((shape, dtype, strides, is_inline), x)| {
                *dtype == x.dtype()
                    && shape == x.shape()
                    && strides == x.strides()
                    && *is_inline == x.memory().is_none()
            })
    }
}

impl Core {
    pub(super) fn new(forward: Arc<Forward>, counts: Arc<Counts>) -> Self {
        Self {
            forward,
            runs_again: false,
            traced: Mutex::default(),
            rules: Mutex::default(),
            differentiable: Mutex::default(),
            counts,
            names: Arc::default(),
        }
    }

    pub(super) fn with_names(self, names: Vec<String>) -> Self {
        let names = names.into();
        Self { names, ..self }
    }

    fn rule(&self, key: RuleKey, forward: impl FnOnce(Arc<Forward>) -> Arc<Forward>) -> Arc<Self> {
        let runs_again = matches!(key, RuleKey::Vjp(_));
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

    /// The program for these inputs, which is traced if there is none.
    pub(super) fn program(&self, inputs: &[Array], scopes: &Scopes) -> Arc<Traced> {
        {
            let mut traced = lock(&self.traced);
            let known = traced.iter().rposition(|one| one.signature.fits(inputs));
            if let Some(i) = known {
                traced[i..].rotate_left(1);
                return Arc::clone(&traced[traced.len() - 1]);
            }
        }
        let signature = Signature::of(inputs);
        self.count_trace(&signature.inputs);
        let made = trace(&*self.forward, inputs, scopes, signature, self.runs_again);
        let made = Arc::new(made);
        let mut traced = lock(&self.traced);
        if traced.len() == PROGRAMS {
            traced.remove(0);
        }
        traced.push(Arc::clone(&made));
        made
    }

    /// The program for these inputs of the results, and of what a gradient by the `wanted` inputs needs.
    fn differentiable(
        &self,
        wanted: &[bool],
        inputs: &[Array],
        scopes: &Scopes,
    ) -> Arc<Differentiable> {
        {
            let mut known = lock(&self.differentiable);
            let fits = |one: &Arc<Differentiable>| {
                one.wanted == wanted && one.traced.signature.fits(inputs)
            };
            if let Some(i) = known.iter().rposition(fits) {
                known[i..].rotate_left(1);
                return Arc::clone(&known[known.len() - 1]);
            }
        }
        let signature = Signature::of(inputs);
        self.count_trace(&signature.inputs);
        let made = Differentiable::trace(self, wanted, inputs, scopes, signature);
        let made = Arc::new(made);
        let mut known = lock(&self.differentiable);
        if known.len() == PROGRAMS {
            known.remove(0);
        }
        known.push(Arc::clone(&made));
        made
    }

    /// Computes the function itself.
    pub(super) fn compute(&self, inputs: &[Variable]) -> Vec<Variable> {
        (self.forward)(inputs)
    }

    /// Counts one more trace.
    pub(super) fn count_trace(&self, inputs: &[InputSpec]) {
        let traces = self.counts.traces.fetch_add(1, Ordering::Relaxed) + 1;
        let limit = self.counts.limit.load(Ordering::Relaxed);
        if traces > limit {
            self.counts.traces.fetch_sub(1, Ordering::Relaxed);
            let specs: Vec<String> = inputs
                .iter()
                .map(|(shape, dtype, ..)| format!("{dtype} {shape}"))
                .collect();
            let what = format!(
                "trace {traces} of at most {limit}, for inputs {}: each list of shapes, \
                 dtypes, strides and plain fields is traced once, so call it with the same ones, or \
                 raise the limit",
                specs.join(", ")
            );
            raise(Error::argument("compile", what));
        }
    }

    /// The programs of the function and of its rules that were used last, to be shown.
    pub(super) fn programs(&self) -> Vec<Shown> {
        let mut programs = Vec::new();
        self.list_programs(None, &mut programs);
        programs
    }

    fn list_programs(&self, key: Option<&str>, programs: &mut Vec<Shown>) {
        if let Some(traced) = lock(&self.traced).last().cloned() {
            programs.push(traced.shown(key, &self.names));
        }
        let differentiable = lock(&self.differentiable).last().cloned();
        if let Some(differentiable) = differentiable {
            let Differentiable { traced, after, .. } = &*differentiable;
            let of = |what: &str| match key {
                None => what.to_owned(),
                Some(key) => format!("{what} of the {key}"),
            };
            let title = match after {
                After::Gradient(_) => of("value with its gradient"),
                After::Kept(_) | After::Nothing => of("value before its gradient"),
            };
            programs.push(traced.shown(Some(&title), &self.names));
            if let After::Kept(pullback) = after
                && let Some(pulled) = pullback.latest()
                && let Some((traced, _)) = pulled.program()
            {
                programs.push(traced.shown(Some(&of("gradient")), &[]));
            }
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
            None => self.notes.names.clone(),
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
pub(super) struct Trace<T, U> {
    pub(super) tracer: Tracer,
    pub(super) result: T,
    pub(super) found: Found,
    pub(super) notes: Notes,
    /// The end of what was recorded of the function.
    pub(super) cut: Cut,
    /// What was recorded behind it.
    pub(super) after: U,
}

/// Records `f`, and what `after` makes of its result.
pub(super) fn record<T, U>(
    inputs: &[Array],
    scopes: &Scopes,
    f: impl FnOnce(&[Variable]) -> T,
    after: impl FnOnce(&T) -> U,
) -> Trace<T, U> {
    let tracer = Tracer::new("compile");
    let inputs: Vec<Variable> = inputs
        .iter()
        .map(|x| Variable::constant(tracer.input(x)))
        .collect();
    let run = || {
        let result = f(&inputs);
        // The function may have caught it, and gone another way than it goes with values.
        if let Some(error) = tracer.refused() {
            raise(Error::Array(error));
        }
        let cut = tracer.cut();
        let after = after(&result);
        (result, cut, after)
    };
    let run = || scopes.run(|| scope::sealed("compile", run));
    let lifting_tracer = tracer.clone();
    let lift = move |x: &Array| lifting_tracer.row_major_input(x.shape(), x.dtype());
    let run = || Draws::record(|| tracer.run(|| surroundings::lifting(lift, run)));
    let ((((result, cut, after), found), draws), notes) = noting(run);
    if draws != Draws::default() {
        let what = "the function draws from a generator, and the same numbers would come again \
                    in every run; draw them outside and pass them as an argument (a link such \
                    as `Dropout` has its own stream)";
        raise(Error::argument("compile", what));
    }
    Trace {
        tracer,
        result,
        found,
        notes,
        cut,
        after,
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
    let trace = record(inputs, scopes, forward, |_| ());
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

/// Which of the gradients that are asked for there are, and these.
pub(super) fn present(
    gradient: Vec<Option<Variable>>,
    asked: &[bool],
) -> (Vec<bool>, Vec<Variable>) {
    let asked_for = gradient.into_iter().zip(asked).filter(|(_, asked)| **asked);
    let gradient: Vec<Option<Variable>> = asked_for.map(|(gradient, _)| gradient).collect();
    let present = gradient.iter().map(Option::is_some).collect();
    (present, gradient.into_iter().flatten().collect())
}

/// The gradients that there are. Which these are is noted.
pub(super) fn noted_present(gradient: Vec<Option<Variable>>, asked: &[bool]) -> Vec<Variable> {
    let (present, gradient) = present(gradient, asked);
    NOTES.with_borrow_mut(|notes| notes.present = Some(present.into()));
    gradient
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
    first: Arc<OnceLock<Surroundings>>,
    /// The notes of the function, once it has run.
    made: Arc<Mutex<Notes>>,
    /// What is kept for the gradient, if it may be asked for.
    gradient: Option<Arc<Gradient>>,
}

/// What the gradient of a call is made of.
struct Gradient {
    /// The inputs that have history.
    wanted: Vec<bool>,
    /// The program that has run, and what it returned behind the results.
    kept: OnceLock<(Arc<Differentiable>, Vec<Array>)>,
}

impl CompiledCall {
    /// Calls the function. Returns the leaves of the result, and its structure.
    pub(super) fn call(
        core: &Arc<Core>,
        inputs: Vec<Variable>,
        location: Location,
    ) -> (Vec<Variable>, Option<Form>) {
        let wanted: Vec<bool> = inputs.iter().map(Variable::has_history).collect();
        let is_here = inputs.iter().all(|x| x.level() == 0);
        let is_wanted = scope::is_recording() && wanted.contains(&true) && is_here;
        let call = Self {
            core: Arc::clone(core),
            scopes: Scopes::current(),
            first: Arc::default(),
            made: Arc::default(),
            gradient: is_wanted.then(|| {
                let kept = OnceLock::new();
                Arc::new(Gradient { wanted, kept })
            }),
        };
        let mut outputs = apply::run(&call, inputs, location, false);
        let kept = call
            .gradient
            .as_ref()
            .and_then(|gradient| gradient.kept.get());
        if let Some((differentiable, _)) = kept {
            // No gradient goes through what does not depend on values with history.
            for (y, is_constant) in outputs.iter_mut().zip(&differentiable.constant) {
                if *is_constant {
                    *y = y.detach();
                }
            }
        }
        let form = lock(&call.made).form.take();
        (outputs, form)
    }

    /// Calls the function without history, and takes the inputs: the memory of those that nobody else
    /// holds may become that of results.
    pub(super) fn call_donated(
        core: &Arc<Core>,
        inputs: Vec<Variable>,
        location: Location,
    ) -> (Vec<Variable>, Option<Form>) {
        let Some(arrays) = plain_arrays(&inputs) else {
            return Self::call(core, inputs, location);
        };
        drop(inputs);
        let traced = core.program(&arrays, &Scopes::current());
        let Some(outputs) = traced.run_once(arrays) else {
            let what = "another thread has changed a buffer while the program was running, which \
                        cannot run again because its argument was given away; use `call`";
            raise(Error::argument("compile", what));
        };
        let form = traced.notes.form.clone();
        (outputs.into_iter().map(Variable::constant).collect(), form)
    }

    fn call_rule(&self, core: Arc<Core>, inputs: Vec<Variable>) -> Vec<Variable> {
        let call = Self {
            core,
            gradient: None,
            ..self.clone()
        };
        apply::run(&call, inputs, caller(), false)
    }

    /// Runs the program.
    fn run(&self, traced: &Traced, inputs: Vec<Array>) -> Vec<Array> {
        self.note(traced.notes.clone());
        match traced.sees_nothing() {
            true => traced.program.run(inputs),
            false => self.see_first(|| traced.run(&inputs)),
        }
    }

    /// Runs the function in the surroundings of its first run.
    fn see_first<T>(&self, run: impl FnOnce() -> T) -> T {
        if let Some(first) = self.first.get() {
            return first.again(run);
        }
        let (outputs, surroundings) = Surroundings::record(run);
        // No other thread runs it meanwhile, because a call is one run at one level.
        let _ = self.first.set(surroundings);
        outputs
    }

    fn note(&self, notes: Notes) {
        let mut made = lock(&self.made);
        made.form = notes.form.or(made.form.take());
        made.present = notes.present.or(made.present.take());
    }
}

impl CompiledCall {
    /// The gradient that was computed with the result, or is computed from what was kept. `None` if it is to
    /// be recorded, or nothing was kept.
    fn pulled_back(&self, cx: &Context<'_>, gy: &[Variable]) -> Option<Vec<Option<Variable>>> {
        let Gradient { wanted, kept } = &**self.gradient.as_ref()?;
        let (differentiable, kept) = kept.get().filter(|_| !cx.create_graph)?;
        let gy: Vec<Array> = gy
            .iter()
            .map(Variable::plain_array)
            .collect::<Option<_>>()?;
        let is_here = |g: &Array| !is_traced(g) && g.device() == cpu();
        if !gy.iter().all(is_here) {
            return None;
        }
        match &differentiable.after {
            After::Gradient(present) => {
                let is_one = gy[0].known_item() == Some(1.0);
                is_one.then(|| spread(cx, wanted, present, kept.clone()))
            }
            After::Kept(pullback) => {
                let needs: Vec<bool> = (0..wanted.len()).map(|i| cx.needs(i)).collect();
                if needs
                    .iter()
                    .zip(wanted)
                    .any(|(needed, wanted)| *needed && !wanted)
                {
                    return None;
                }
                let pulled = pullback.program(&self.core, &needs, &gy);
                let (traced, present) = pulled.program()?;
                let gx = self.run(traced, [&kept[..], &gy].concat());
                Some(spread(cx, &needs, present, gx))
            }
            After::Nothing => None,
        }
    }
}

/// The gradients that there are, in the places of the inputs that need them.
fn spread(
    cx: &Context<'_>,
    asked: &[bool],
    present: &[bool],
    gx: Vec<Array>,
) -> Vec<Option<Variable>> {
    let (mut present, mut gx) = (present.iter(), gx.into_iter());
    let each = asked.iter().enumerate().map(|(i, asked)| {
        let is_there = *asked && present.next() == Some(&true);
        let gx = is_there.then(|| gx.next().expect("one for each that is there"));
        gx.filter(|_| cx.needs(i)).map(Variable::constant)
    });
    each.collect()
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

    /// Runs the program for these shapes. Inside another trace, and on other devices than the CPU,
    /// the function itself runs.
    fn forward(&self, inputs: Vec<Array>) -> Vec<Array> {
        let is_elsewhere = |x: &Array| x.device() != cpu();
        if inputs.iter().any(|x| is_traced(x) || is_elsewhere(x)) {
            let inputs: Vec<Variable> = inputs.into_iter().map(Variable::constant).collect();
            let run = || scope::sealed("compile", || (self.core.forward)(&inputs));
            let (outputs, notes) = noting(|| self.see_first(|| self.scopes.run(run)));
            self.note(notes);
            return outputs.iter().map(Variable::array).collect();
        }
        let Some(gradient) = &self.gradient else {
            return self.run(&self.core.program(&inputs, &self.scopes), inputs);
        };
        let differentiable = self
            .core
            .differentiable(&gradient.wanted, &inputs, &self.scopes);
        let mut outputs = self.run(&differentiable.traced, inputs);
        let kept = outputs.split_off(differentiable.results);
        let _ = gradient.kept.set((differentiable, kept));
        outputs
    }

    fn vjp(&self, cx: &Context<'_>, gy: Vec<Variable>) -> Vec<Option<Variable>> {
        if let Some(gx) = self.pulled_back(cx, &gy) {
            return gx;
        }
        let count = cx.input_count();
        let needs: Vec<bool> = (0..count).map(|i| cx.needs(i)).collect();
        let key = RuleKey::Vjp(needs.clone());
        let asked = needs.clone();
        let core = self.core.rule(key, |forward| {
            Arc::new(move |values| {
                let (x, gy) = values.split_at(count);
                let gx = pull_through(|x| forward(x), x, |i| asked[i], gy.to_vec());
                noted_present(gx, &asked)
            })
        });
        let inputs = (0..count).map(|i| cx.input(i)).chain(gy).collect();
        let mut gx = self.call_rule(core, inputs).into_iter();
        let present = lock(&self.made).present.clone();
        let present = present.expect("the rule has run, or was traced");
        let mut present = present.iter();
        let mut each = |&needed: &bool| match needed && present.next() == Some(&true) {
            true => gx.next(),
            false => None,
        };
        needs.iter().map(&mut each).collect()
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
        let inputs = (0..count)
            .map(|i| cx.input(i))
            .chain(dx.into_iter().flatten());
        let tangents = self.call_rule(core, inputs.collect());
        tangents.into_iter().map(Some).collect()
    }

    fn batch(&self, inputs: Vec<Batched>) -> Vec<Batched> {
        let count = Batched::batch_size(&inputs);
        let draw = randomness::draw_of_rule();
        let axes: Vec<Option<usize>> = inputs.iter().map(|element| element.axis).collect();
        let core = self
            .core
            .rule(RuleKey::Batch(axes.clone(), count, draw), |forward| {
                Arc::new(move |values| {
                    let elements = values.iter().zip(&axes).map(|(value, &axis)| Batched {
                        value: value.clone(),
                        axis,
                    });
                    let batch = run_batch(|x| forward(x), &elements.collect::<Vec<_>>(), draw);
                    batch
                        .iter()
                        .map(|element| element.to_front(count))
                        .collect()
                })
            });
        let values = inputs.into_iter().map(|element| element.value).collect();
        let outputs = self.call_rule(core, values);
        outputs.into_iter().map(|y| Batched::along(y, 0)).collect()
    }

    /// Walks through the function itself, in the surroundings of the first run.
    fn per_example(
        &self,
        cx: &Context<'_>,
        gy: Vec<ExampleCotangent>,
    ) -> Vec<Option<ExampleGradient>> {
        let run = |x: &[Variable]| {
            let run = || scope::recording(true, || (self.core.forward)(x));
            match self.first.get() {
                Some(first) => first.again_under(&self.scopes, run),
                None => self.scopes.run(|| self.see_first(run)),
            }
        };
        pull_apart_again(run, cx, gy)
    }
}

impl fmt::Debug for CompiledCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("compile")
    }
}
