//! Hooks: being told of gradients and of function calls as they happen.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use crate::error::{Error, Location, raise};
use crate::function::Items;
use crate::locks::{self, read, write};
use crate::node::{Edge, Node};
use crate::scope;
use crate::surroundings::Aside;
use crate::variable::Variable;

// ----- hooks on gradients

/// Sees a gradient, and may put another in its place.
pub(crate) type GradientHook = dyn Fn(&Variable) -> Option<Variable> + Send + Sync;

/// The hooks on one gradient, in the order in which they were registered.
#[derive(Default)]
pub(crate) struct GradientHooks {
    hooks: RwLock<Vec<(u64, Arc<GradientHook>)>>,
    next: AtomicU64,
}

impl GradientHooks {
    pub(crate) fn add(&self, hook: Arc<GradientHook>) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        write(&self.hooks).push((number, hook));
        number
    }

    pub(crate) fn remove(&self, number: u64) {
        let mut hooks = write(&self.hooks);
        let at = hooks.iter().position(|(other, _)| *other == number);
        let removed = at.map(|at| hooks.remove(at));
        drop(hooks);
        // What it captured may lead anywhere.
        drop(removed);
    }

    pub(crate) fn call(&self, gradient: &mut Variable) {
        // A hook may register others.
        let hooks = read(&self.hooks).clone();
        locks::assert_none_held();
        for (_, hook) in hooks {
            if let Some(changed) = hook(gradient) {
                if !changed.has_same_spec(gradient) {
                    let (found, expected) = (changed.spec(), gradient.spec());
                    let what = format!("the hook gave {found} for a gradient that is {expected}");
                    raise(Error::argument("register_hook", what));
                }
                *gradient = changed;
            }
        }
    }
}

impl fmt::Debug for GradientHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GradientHooks")
    }
}

/// What [`Variable::register_hook`] gives: the means to remove the hook. Dropping it leaves the
/// hook in place.
#[derive(Debug)]
pub struct HookHandle {
    edge: Edge,
    number: u64,
}

impl HookHandle {
    pub(crate) fn new(edge: Edge, number: u64) -> Self {
        Self { edge, number }
    }

    /// Removes the hook.
    pub fn remove(self) {
        self.edge.remove_hook(self.number);
    }
}

// ----- hooks on functions

/// Which walk a [`FunctionEvent`] belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The function ran.
    Forward,
    /// Its gradient rule ran.
    Backward,
}

/// One run of a function or of its gradient rule: what [`with_hook`] tells.
#[derive(Debug)]
pub struct FunctionEvent<'a> {
    /// Whether the function ran or its gradient rule.
    pub phase: Phase,
    /// The function's name.
    pub name: &'static str,
    /// Where the function was called.
    pub location: Location,
    /// What went in: the inputs, or the cotangents of the outputs, where one arrived.
    pub inputs: &'a [Option<Variable>],
    /// What came out: the outputs, or the cotangents of the inputs, where there are any.
    pub outputs: &'a [Option<Variable>],
    /// How long it took.
    pub duration: Duration,
}

type FunctionHook = Rc<dyn Fn(&FunctionEvent<'_>)>;

thread_local! {
    static HOOKS: RefCell<Vec<FunctionHook>> = const { RefCell::new(Vec::new()) };
    static DETECTS_ANOMALY: Cell<bool> = const { Cell::new(false) };
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`, and tells `hook` of every function and every gradient rule that runs in it, after it
/// has run: for profiles, statistics, a trace. Draws of random numbers and changes of
/// [buffers](crate::links::Buffer) are functions too (`random_normal`, `update_buffer`). What a rule or a
/// hook calls is not told.
///
/// Inside `vmap` and `jvp` a function is told of where it is called, and again one level below,
/// where it runs for all lanes.
///
/// ```
/// use bibun::{with_hook, Phase, Variable};
/// use std::{cell::RefCell, rc::Rc};
/// let names = Rc::new(RefCell::new(Vec::new()));
/// let told = Rc::clone(&names);
/// let x = Variable::new(1.0);
/// with_hook(
///     move |event| told.borrow_mut().push((event.phase, event.name)),
///     || x.tanh().exp().backward(),
/// );
/// let (forward, backward) = (Phase::Forward, Phase::Backward);
/// let expected = [(forward, "tanh"), (forward, "exp"), (backward, "exp"), (backward, "tanh")];
/// assert_eq!(*names.borrow(), expected);
/// ```
pub fn with_hook<T>(hook: impl Fn(&FunctionEvent<'_>) + 'static, f: impl FnOnce() -> T) -> T {
    struct Remove;
    impl Drop for Remove {
        fn drop(&mut self) {
            HOOKS.with_borrow_mut(Vec::pop);
        }
    }
    HOOKS.with_borrow_mut(|hooks| hooks.push(Rc::new(hook)));
    let _remove = Remove;
    scope::attended(f)
}

/// Runs `f`, and panics where a function or a gradient rule gives a value that is not finite
/// though it was given finite ones: the error names the function, the place of its forward call and
/// the first such value. Costs a look at every value.
///
/// An infinity that is put in on purpose, as in a mask, is passed on without a word.
///
/// ```
/// use bibun::{attempt, detect_anomaly, Variable};
/// let x = Variable::new([4.0, 0.0]);
/// let error = attempt(|| detect_anomaly(|| x.sqrt().sum(..).backward())).unwrap_err();
/// let message = error.to_string();
/// assert!(message.contains("in the gradient of sqrt"));
/// assert!(message.contains("the gradient of input 0 is inf at [1]"));
/// ```
pub fn detect_anomaly<T>(f: impl FnOnce() -> T) -> T {
    detecting_anomaly(true, || scope::attended(f))
}

/// Runs `f` with a search for anomalies, or without.
pub(crate) fn detecting_anomaly<T>(detects: bool, f: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            DETECTS_ANOMALY.set(self.0);
        }
    }
    let _restore = Restore(DETECTS_ANOMALY.replace(detects));
    f()
}

/// Whether anomalies are searched for.
pub(crate) fn detects_anomaly() -> bool {
    DETECTS_ANOMALY.get()
}

/// Whether there are hooks on functions.
pub(crate) fn are_any() -> bool {
    HOOKS.with_borrow(|hooks| !hooks.is_empty())
}

pub(crate) fn put_aside() -> impl Sized {
    let hooks = Aside::of(&HOOKS, Vec::new());
    let flags = [&DETECTS_ANOMALY, &IS_QUIET].map(|flag| Aside::of(flag, false));
    (hooks, flags)
}

/// Until this is dropped, nothing is told of the functions that are called, nor are anomalies looked for
/// in them: what a walk calls is told rule by rule.
pub(crate) struct Quiet(bool);

pub(crate) fn quiet() -> Quiet {
    Quiet(IS_QUIET.replace(true))
}

impl Drop for Quiet {
    fn drop(&mut self) {
        IS_QUIET.set(self.0);
    }
}

/// Calls the hooks, without telling them of what they call.
fn tell(event: &FunctionEvent<'_>) {
    struct PutBack(Vec<FunctionHook>);
    impl Drop for PutBack {
        fn drop(&mut self) {
            HOOKS.replace(std::mem::take(&mut self.0));
        }
    }
    let hooks = PutBack(HOOKS.take());
    let _quiet = quiet();
    hooks.0.iter().for_each(|hook| hook(event));
}

/// What must be known of a call before it runs.
pub(crate) struct Before {
    name: &'static str,
    location: Location,
    inputs: Vec<Option<Variable>>,
    is_told: bool,
    must_stay_finite: bool,
    start: Instant,
}

/// The hooks around a function.
pub(crate) fn before_forward(
    name: &'static str,
    location: Location,
    inputs: &[Variable],
) -> Before {
    let is_quiet = IS_QUIET.get();
    let is_told = !is_quiet && are_any();
    // What transformations hide is looked at one level below.
    let is_plain = || inputs.iter().all(|x| x.level() == 0);
    let is_finite = || inputs.iter().all(|x| x.first_non_finite().is_none());
    Before {
        name,
        location,
        inputs: match is_told {
            true => inputs.iter().cloned().map(Some).collect(),
            false => Vec::new(),
        },
        is_told,
        must_stay_finite: !is_quiet && DETECTS_ANOMALY.get() && is_plain() && is_finite(),
        start: Instant::now(),
    }
}

impl Before {
    pub(crate) fn after(self, outputs: &[Variable]) {
        let duration = self.start.elapsed();
        if self.must_stay_finite {
            for (i, y) in outputs.iter().enumerate() {
                let what = format!("output {i} is");
                check_finite(self.name, self.location, &what, y);
            }
        }
        if self.is_told {
            let outputs: Vec<Option<Variable>> = outputs.iter().cloned().map(Some).collect();
            tell(&FunctionEvent {
                phase: Phase::Forward,
                name: self.name,
                location: self.location,
                inputs: &self.inputs,
                outputs: &outputs,
                duration,
            });
        }
    }
}

/// The hooks around a gradient rule.
pub(crate) fn around_backward(
    node: &Node,
    cotangents: &mut [Option<Variable>],
    rule: impl FnOnce(&mut [Option<Variable>]) -> Items<Option<Variable>>,
) -> Items<Option<Variable>> {
    let is_told = are_any();
    let detects = DETECTS_ANOMALY.get();
    let inputs = cotangents.to_vec();
    let are_finite = |list: &[Option<Variable>]| {
        list.iter()
            .flatten()
            .all(|x| x.first_non_finite().is_none())
    };
    let must_stay_finite = detects && are_finite(&inputs);
    let start = Instant::now();
    let gradients = rule(cotangents);
    let duration = start.elapsed();
    let name = node.function().name();
    if must_stay_finite {
        for (i, gradient) in gradients.iter().enumerate() {
            if let Some(gradient) = gradient {
                let what = format!("the gradient of input {i} is");
                check_finite(name, node.location, &what, gradient);
            }
        }
    }
    if is_told {
        tell(&FunctionEvent {
            phase: Phase::Backward,
            name,
            location: node.location,
            inputs: &inputs,
            outputs: &gradients,
            duration,
        });
    }
    gradients
}

fn check_finite(function: &'static str, location: Location, what: &str, x: &Variable) {
    if let Some((index, element, count)) = x.first_non_finite() {
        let others = match count {
            1 => String::new(),
            _ => format!(" (the first of {count} such elements)"),
        };
        raise(Error::Anomaly {
            function,
            what: format!(
                "{what} {element} at {index:?}{others}, though all it was given is finite"
            ),
            location,
        });
    }
}
