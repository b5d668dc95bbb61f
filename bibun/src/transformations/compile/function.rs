//! A compiled function as a [`Function`] with all rules: each rule is a compiled function, too.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use bibun_array::{Array, DType, Draws, Program, Shape, Tracer, cpu, is_traced};

use super::super::custom::{along, pull_apart_again, pull_through, watched};
use crate::apply;
use crate::batch::{Batched, run_batch};
use crate::context::Context;
use crate::error::{Error, Location, caller, raise};
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Function, Mismatch, Needs, Saved, Spec, Variadic};
use crate::functions::ones_like;
use crate::locks::lock;
use crate::randomness::{self, Draw};
use crate::reverse::Paths;
use crate::scope;
use crate::surroundings::{self, Captured, Scopes, Surroundings};
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
    /// Which of the cotangents that were asked for there are.
    pub(super) present: Option<Arc<[bool]>>,
}

thread_local! {
    /// The notes of the last run of a function on this thread.
    static NOTES: RefCell<Notes> = const { RefCell::new(Notes { form: None, present: None }) };
}

/// Notes the structure of a result, for whoever traces the function.
pub(super) fn note(form: Form) {
    NOTES.with_borrow_mut(|notes| notes.form = Some(form));
}

/// A function and its programs, one for each list of shapes.
pub(super) struct Core {
    forward: Arc<Forward>,
    /// Whether it runs again what has run before, so that buffers have been changed already.
    runs_again: bool,
    traced: Mutex<Vec<Arc<Traced>>>,
    /// The compiled functions that are its rules.
    rules: Mutex<HashMap<RuleKey, Arc<Core>>>,
    counts: Arc<Counts>,
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
    /// The inputs whose gradients are computed with a single number.
    WithGradient(Vec<bool>),
    /// The batch axis of each input, the number of batch elements, and how they draw.
    Batch(Vec<Option<usize>>, usize, Draw),
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
}

impl Traced {
    /// The inputs, and those that the function captures.
    pub(super) fn with_captured(
        &self,
        mut inputs: Vec<Array>,
        captured: &[Variable],
    ) -> Vec<Array> {
        inputs.extend(captured.iter().map(|x| x.array().to_row_major()));
        inputs
    }

    pub(super) fn captured(&self) -> Vec<Variable> {
        self.captured.iter().map(Captured::get).collect()
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

    /// Runs the program, unless another thread changes a buffer in the meantime.
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
        let mut changes = self.changed.iter().zip(&contents).enumerate();
        // The first decides; the others have been changed by the same runs.
        let is_done = changes.all(|(i, (buffer, new))| buffer.exchange(&old(buffer), new) || i > 0);
        is_done.then_some(outputs)
    }
}

/// The shape, the dtype and the strides of an input, and whether it is a single value without memory.
type InputSpec = (Shape, DType, Vec<isize>, bool);

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
            counts,
        }
    }

    fn rule(&self, key: RuleKey, forward: impl FnOnce(Arc<Forward>) -> Arc<Forward>) -> Arc<Self> {
        let runs_again = matches!(key, RuleKey::Vjp(_));
        let make = || {
            let forward = forward(Arc::clone(&self.forward));
            Arc::new(Self {
                runs_again,
                ..Self::new(forward, Arc::clone(&self.counts))
            })
        };
        Arc::clone(lock(&self.rules).entry(key).or_insert_with(make))
    }

    /// The function together with its gradient by the `wanted` inputs, if it returns a single number:
    /// whether it does, its result, and its gradient.
    fn with_gradient(&self, wanted: &[bool]) -> Arc<Self> {
        let asked = wanted.to_vec();
        self.rule(RuleKey::WithGradient(wanted.to_vec()), |forward| {
            Arc::new(move |x| {
                let (x, targets) = watched(x, |i| asked[i]);
                let outputs = scope::recording(true, || forward(&x));
                let seed = match &outputs[..] {
                    [y] if y.size() == 1 && y.dtype().is_float() => Some(ones_like(y)),
                    _ => None,
                };
                let is_one = Variable::constant(seed.is_some());
                let edges = outputs.iter().map(Variable::edge).collect();
                let outputs = [vec![is_one], outputs].concat();
                let Some(seed) = seed else { return outputs };
                let gx = Paths::between(edges, targets).pull_back(vec![Some(seed)], false);
                let gx = present(gx, &asked);
                outputs.into_iter().chain(gx).collect()
            })
        })
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
        let traces = self.counts.traces.fetch_add(1, Ordering::Relaxed) + 1;
        let limit = self.counts.limit.load(Ordering::Relaxed);
        if traces > limit {
            self.counts.traces.fetch_sub(1, Ordering::Relaxed);
            let specs: Vec<String> = (signature.inputs.iter())
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
        let made = trace(&*self.forward, inputs, scopes, signature, self.runs_again);
        let made = Arc::new(made);
        let mut traced = lock(&self.traced);
        if traced.len() == PROGRAMS {
            traced.remove(0);
        }
        traced.push(Arc::clone(&made));
        made
    }

    /// The program that was used last.
    pub(super) fn latest(&self) -> Option<Arc<Traced>> {
        lock(&self.traced).last().cloned()
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
    let tracer = Tracer::new("compile");
    let inputs: Vec<Variable> = inputs
        .iter()
        .map(|x| Variable::constant(tracer.input(x)))
        .collect();
    let run = || scopes.run(|| scope::sealed("compile", || forward(&inputs)));
    let lifting_tracer = tracer.clone();
    let lift = move |x: &Array| lifting_tracer.row_major_input(x.shape(), x.dtype());
    let run = || Draws::record(|| tracer.run(|| surroundings::lifting(lift, run)));
    let (((outputs, found), draws), notes) = noting(run);
    if draws != Draws::default() {
        let what = "the function draws from a generator, and the same numbers would come again \
                    in every run; draw them outside and pass them as an argument (a link such \
                    as `Dropout` has its own stream)";
        raise(Error::argument("compile", what));
    }
    let changed = match runs_again {
        true => Vec::new(),
        false => found.changed,
    };
    let (changed, contents): (Vec<Buffer>, Vec<Variable>) = changed.into_iter().unzip();
    let outputs: Vec<Array> = outputs
        .iter()
        .chain(&contents)
        .map(Variable::array)
        .collect();
    Traced {
        signature,
        program: tracer.finish(&outputs),
        notes,
        captured: found.captured,
        changed,
    }
}

/// Runs `f`, and returns its notes. Those of a function around it stay as they are.
fn noting<T>(f: impl FnOnce() -> T) -> (T, Notes) {
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

/// The gradients that there are. Which these are is noted.
pub(super) fn present(gx: Vec<Option<Variable>>, asked: &[bool]) -> Vec<Variable> {
    let asked_for = gx.into_iter().zip(asked).filter(|(_, asked)| **asked);
    let gx: Vec<Option<Variable>> = asked_for.map(|(gx, _)| gx).collect();
    let present = gx.iter().map(Option::is_some).collect();
    NOTES.with_borrow_mut(|notes| notes.present = Some(present));
    gx.into_iter().flatten().collect()
}

/// The elements of Variables that a program can run on as they are.
pub(super) fn plain_arrays(inputs: &[Variable]) -> Option<Vec<Array>> {
    let is_here = |x: &Array| !is_traced(x) && x.device() == cpu();
    let arrays = inputs.iter().map(|x| x.plain_array().filter(is_here));
    arrays.collect()
}

fn spec(x: &Array) -> InputSpec {
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
    /// The gradient of a result that is a single number, computed with it.
    gradient: Option<Arc<Gradient>>,
}

/// The gradient of a single number, which most losses are asked for next.
struct Gradient {
    /// The inputs that have history.
    wanted: Vec<bool>,
    computed: OnceLock<Vec<Option<Array>>>,
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
                let computed = OnceLock::new();
                Arc::new(Gradient { wanted, computed })
            }),
        };
        let outputs = apply::run(&call, inputs, location, false);
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
    fn run(&self, core: &Core, inputs: Vec<Array>) -> Vec<Array> {
        let traced = core.program(&inputs, &self.scopes);
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
    /// The gradient that was computed with the result, if it is asked for as it is.
    fn known_gradient(&self, cx: &Context<'_>, gy: &[Variable]) -> Option<Vec<Option<Variable>>> {
        let Gradient { wanted, computed } = &**self.gradient.as_ref()?;
        let mut computed = computed.get().filter(|_| !cx.create_graph)?.iter();
        let [gy] = gy else { return None };
        if gy.plain_array()?.known_item() != Some(1.0) {
            return None;
        }
        let each = wanted.iter().enumerate().map(|(i, &wanted)| {
            let gx = if wanted {
                computed.next()?.clone()
            } else {
                None
            };
            gx.filter(|_| cx.needs(i)).map(Variable::constant)
        });
        Some(each.collect())
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
            return self.run(&self.core, inputs);
        };
        let mut outputs = self.run(&self.core.with_gradient(&gradient.wanted), inputs);
        if outputs.remove(0).item() {
            let mut gx = outputs.split_off(1).into_iter();
            let present = lock(&self.made).present.clone().expect("it was traced");
            let each = present
                .iter()
                .map(|&present| if present { gx.next() } else { None });
            let _ = gradient.computed.set(each.collect());
        }
        outputs
    }

    fn vjp(&self, cx: &Context<'_>, gy: Vec<Variable>) -> Vec<Option<Variable>> {
        if let Some(known) = self.known_gradient(cx, &gy) {
            return known;
        }
        let count = cx.input_count();
        let needs: Vec<bool> = (0..count).map(|i| cx.needs(i)).collect();
        let key = RuleKey::Vjp(needs.clone());
        let asked = needs.clone();
        let core = self.core.rule(key, |forward| {
            Arc::new(move |values| {
                let (x, gy) = values.split_at(count);
                let gx = pull_through(|x| forward(x), x, |i| asked[i], gy.to_vec());
                present(gx, &asked)
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
