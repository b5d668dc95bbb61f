//! Hooks: callbacks for gradients and function calls as they happen.

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

/// A callback that gets a gradient and may return another one to replace it.
pub(crate) type GradientHook = dyn Fn(&Variable) -> Option<Variable> + Send + Sync;

/// The hooks on one gradient, in the order in which they were registered.
#[derive(Default)]
pub(crate) struct GradientHooks {
    hooks: RwLock<Vec<(u64, Arc<GradientHook>)>>,
    next: AtomicU64,
}

impl GradientHooks {
    pub(crate) fn is_empty(&self) -> bool {
        read(&self.hooks).is_empty()
    }

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
        // The hook's captures may lead to more history.
        drop(removed);
    }

    pub(crate) fn call(&self, gradient: &mut Variable) {
        // A hook may register other hooks.
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

/// The handle of a hook, returned by [`Variable::register_hook`], for removing it. Dropping the
/// handle does not remove the hook.
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

/// The walk that a [`FunctionEvent`] belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The function ran.
    Forward,
    /// The function's gradient rule ran.
    Backward,
}

/// One run of a function or of its gradient rule, as [`with_hook`] reports it.
#[derive(Debug)]
pub struct FunctionEvent<'a> {
    /// Whether the function or its gradient rule ran.
    pub phase: Phase,
    /// The function's name.
    pub name: &'static str,
    /// The location of the function's call.
    pub location: Location,
    /// The inputs of the function, or the cotangents of its outputs where one arrived.
    pub inputs: &'a [Option<Variable>],
    /// The outputs of the function, or the cotangents of its inputs where there are any.
    pub outputs: &'a [Option<Variable>],
    /// The duration of the run.
    pub duration: Duration,
}

type FunctionHook = Rc<dyn Fn(&FunctionEvent<'_>)>;

thread_local! {
    static HOOKS: RefCell<Vec<FunctionHook>> = const { RefCell::new(Vec::new()) };
    static DETECTS_ANOMALY: Cell<bool> = const { Cell::new(false) };
    static IS_QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f`, and calls `hook` after every function and every gradient rule that runs in it: for
/// profiles, statistics or a trace. Draws of random numbers and updates of
/// [buffers](crate::links::Buffer) are functions too (`random_normal`, `update_buffer`). Functions
/// called by a rule or a hook are not reported.
///
/// Inside `vmap` and `jvp` a function is reported where it is called, and again one level below,
/// where it runs for all batch elements.
///
/// ```
/// use bibun::{with_hook, Phase, Variable};
/// use std::{cell::RefCell, rc::Rc};
/// let names = Rc::new(RefCell::new(Vec::new()));
/// let seen = Rc::clone(&names);
/// let x = Variable::new(1.0);
/// with_hook(
///     move |event| seen.borrow_mut().push((event.phase, event.name)),
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

/// Runs `f`, and panics where a function or a gradient rule returns a value that is not finite
/// although all its inputs are. The error names the function, the location of its forward call and
/// the first such value. Every value is checked, which takes time.
///
/// An infinity that is used on purpose, as in a mask, passes without an error.
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

/// Runs `f` with or without a search for anomalies.
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

/// Returns whether anomalies are searched for.
pub(crate) fn detects_anomaly() -> bool {
    DETECTS_ANOMALY.get()
}

/// Returns whether there are hooks on functions.
pub(crate) fn are_any() -> bool {
    HOOKS.with_borrow(|hooks| !hooks.is_empty())
}

pub(crate) fn put_aside() -> impl Sized {
    let hooks = Aside::of(&HOOKS, Vec::new());
    let flags = [&DETECTS_ANOMALY, &IS_QUIET].map(|flag| Aside::of(flag, false));
    (hooks, flags)
}

/// A guard that turns off reports and the search for anomalies for the functions that are called. A
/// walk reports the rules, not the functions that they call.
pub(crate) struct Quiet(bool);

pub(crate) fn quiet() -> Quiet {
    Quiet(IS_QUIET.replace(true))
}

impl Drop for Quiet {
    fn drop(&mut self) {
        IS_QUIET.set(self.0);
    }
}

/// Calls the hooks, without reporting the functions that they call.
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

/// The state of a call before it runs, for the hooks after it.
pub(crate) struct Before {
    name: &'static str,
    location: Location,
    inputs: Vec<Option<Variable>>,
    is_told: bool,
    must_stay_finite: bool,
    start: Instant,
}

/// Prepares the hooks around a function.
pub(crate) fn before_forward(
    name: &'static str,
    location: Location,
    inputs: &[Variable],
) -> Before {
    let is_quiet = IS_QUIET.get();
    let is_told = !is_quiet && are_any();
    // Hidden values are checked one level below.
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

/// Runs a gradient rule with the hooks around it.
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
