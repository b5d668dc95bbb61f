//! Scopes that change how functions are run. They belong to the current thread and end on panic, too.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bibun_array::{Array, is_traced};
use rustc_hash::FxHashSet;

use crate::error::{Error, refuse};
use crate::leaf::Leaf;
use crate::node::{Edge, Node};
use crate::surroundings::{Aside, keep_to_this_task};
use crate::variable::Variable;

thread_local! {
    static MODE: Cell<Mode> = const { Cell::new(Mode::START) };
    static IS_ATTENDED: Cell<bool> = const { Cell::new(false) };
    static IS_SEALED: Cell<bool> = const { Cell::new(false) };
    static SEAL: RefCell<Option<Seal>> = const { RefCell::new(None) };
    static LEVEL: Cell<Level> = const { Cell::new(0) };
}

/// The level that was begun last, on any thread.
static LAST_LEVEL: AtomicU64 = AtomicU64::new(0);

/// The mode in which functions are run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    record: bool,
    train: bool,
    retain: bool,
    /// Tangents of transformations up to this level are dropped.
    constant_to: Level,
}

impl Mode {
    const START: Self = Self {
        record: true,
        train: true,
        retain: false,
        constant_to: 0,
    };
}

/// Restores the old mode, also on panic.
struct Restore(Mode);

impl Drop for Restore {
    fn drop(&mut self) {
        MODE.set(self.0);
    }
}

pub(crate) fn within<T>(mode: Mode, f: impl FnOnce() -> T) -> T {
    keep_to_this_task();
    let _restore = Restore(MODE.replace(mode));
    f()
}

/// Runs `f` without recording history. Its results have no creator, and they are constants for every
/// derivative that is taken around `f`, backwards or forwards. Derivatives taken inside `f` are not
/// affected.
///
/// ```
/// use bibun::{grad, jvp, no_grad, Variable};
/// let x = Variable::new(3.0);
/// assert!(no_grad(|| &x * &x).creator().is_none());
/// let f = |x: &Variable| x * no_grad(|| x * x);
/// assert_eq!(grad(f, &x).item::<f64>(), 9.0);
/// assert_eq!(jvp(f, &x, &Variable::constant(1.0)).1.item::<f64>(), 9.0);
/// ```
pub fn no_grad<T>(f: impl FnOnce() -> T) -> T {
    within(
        Mode {
            record: false,
            constant_to: LEVEL.get(),
            ..MODE.get()
        },
        f,
    )
}

/// Runs `f` with history recorded (`true`, the initial state) or not.
pub(crate) fn recording<T>(record: bool, f: impl FnOnce() -> T) -> T {
    within(
        Mode {
            record,
            ..MODE.get()
        },
        f,
    )
}

/// Runs `f` in training mode, the initial mode: dropout is active, and batch statistics are computed.
///
/// ```
/// use bibun::{is_training, eval_mode, train_mode};
/// eval_mode(|| {
///     assert!(!is_training());
///     train_mode(|| assert!(is_training()));
/// });
/// ```
pub fn train_mode<T>(f: impl FnOnce() -> T) -> T {
    within(
        Mode {
            train: true,
            ..MODE.get()
        },
        f,
    )
}

/// Runs `f` in evaluation mode: functions that behave differently during training behave as they do
/// in use.
pub fn eval_mode<T>(f: impl FnOnce() -> T) -> T {
    within(
        Mode {
            train: false,
            ..MODE.get()
        },
        f,
    )
}

/// Runs `f` with every value of its history saved, also those that no rule needs, so that they can be
/// read later.
///
/// ```
/// use bibun::{retain, Variable};
/// let x = Variable::new(3.0);
/// let y = retain(|| -(&x + 1.0));
/// let between = &y.creator().unwrap().inputs()[0];
/// assert_eq!(between.value().unwrap().item::<f64>(), 4.0);
/// ```
pub fn retain<T>(f: impl FnOnce() -> T) -> T {
    within(
        Mode {
            retain: true,
            ..MODE.get()
        },
        f,
    )
}

/// Runs `f` with attention to every call: replaced rules, hooks, or a search for anomalies.
pub(crate) fn attended<T>(f: impl FnOnce() -> T) -> T {
    attended_if(true, f)
}

/// Runs `f` with or without attention to every call.
pub(crate) fn attended_if<T>(is_attended: bool, f: impl FnOnce() -> T) -> T {
    keep_to_this_task();
    struct Leave(bool);
    impl Drop for Leave {
        fn drop(&mut self) {
            IS_ATTENDED.set(self.0);
        }
    }
    let _leave = Leave(IS_ATTENDED.replace(is_attended));
    f()
}

/// Returns whether every call needs attention.
// PERF: one flag for all of these, because it is read for every function.
#[inline]
pub(crate) fn is_attended() -> bool {
    IS_ATTENDED.get()
}

/// The seal around a function that must not use values from outside that have history or are hidden.
#[derive(Debug)]
pub(crate) struct Seal {
    pub(crate) function: &'static str,
    /// The innermost transformation around the seal.
    around: Level,
    /// The nodes and leaves that were made inside the seal.
    made: FxHashSet<usize>,
}

impl Seal {
    /// Returns whether the history behind this edge comes from outside.
    pub(crate) fn is_broken_by(&self, edge: &Edge) -> bool {
        match edge {
            Edge::Output(node, _) => !self.made.contains(&node.address()),
            Edge::Leaf(leaf) => !self.made.contains(&Arc::as_ptr(leaf).addr()),
            Edge::None | Edge::Cut(_) => false,
        }
    }

    /// Returns whether values hidden by a transformation at this level come from outside.
    pub(crate) fn hides(&self, level: Level) -> bool {
        level <= self.around
    }
}

/// Runs `f`, which must not use values from outside that have history or are hidden by a
/// transformation.
pub(crate) fn sealed<T>(function: &'static str, f: impl FnOnce() -> T) -> T {
    sealed_with(function, FxHashSet::default(), f).0
}

/// Does the same as [`sealed`], for a function that goes on with the nodes and leaves `made` before. Returns
/// these and its own.
pub(crate) fn sealed_with<T>(
    function: &'static str,
    made: FxHashSet<usize>,
    f: impl FnOnce() -> T,
) -> (T, FxHashSet<usize>) {
    struct Unseal(Option<Seal>);
    impl Drop for Unseal {
        fn drop(&mut self) {
            IS_SEALED.set(self.0.is_some());
            SEAL.replace(self.0.take());
        }
    }
    keep_to_this_task();
    let seal = Seal {
        function,
        around: LEVEL.get(),
        made,
    };
    let _unseal = Unseal(SEAL.replace(Some(seal)));
    IS_SEALED.set(true);
    let result = f();
    let seal = SEAL.with_borrow_mut(Option::take);
    (result, seal.map(|seal| seal.made).unwrap_or_default())
}

/// Calls `see` with the seal around the running function, if there is one.
// PERF: a separate flag, because it is read for every function.
#[inline]
pub(crate) fn with_seal(see: impl FnOnce(&mut Seal)) {
    if IS_SEALED.get() {
        SEAL.with_borrow_mut(|seal| seal.as_mut().map(see));
    }
}

/// Adds a leaf to those made inside the seal.
pub(crate) fn remember_leaf(leaf: &Arc<Leaf>) {
    with_seal(|seal| {
        seal.made.insert(Arc::as_ptr(leaf).addr());
    });
}

/// Refuses to put a value of a trace into a leaf that was there before, where it would stay.
pub(crate) fn expect_to_stay(leaf: &Arc<Leaf>, function: &'static str, value: Option<&Array>) {
    let mut leaves = false;
    with_seal(|seal| {
        let is_inside = seal.made.contains(&Arc::as_ptr(leaf).addr());
        leaves = !is_inside && value.is_some_and(is_traced);
    });
    if leaves {
        let what = "changes a leaf that was there before while `compile` traces a function, which \
                    would happen once and not in every run; return the value, and change the leaf \
                    outside";
        refuse(Error::argument(function, what));
    }
}

/// Refuses to read the gradient of an argument of a trace, or of a leaf that was there before.
#[track_caller]
pub(crate) fn expect_known_gradient(x: &Variable) {
    let mut is_outside = false;
    with_seal(|seal| {
        let is_compiled = seal.function == "compile";
        let is_there_before = x.is_leaf() && seal.is_broken_by(&x.home());
        let is_traced = || x.plain_array().is_some_and(|x| is_traced(&x));
        is_outside = is_compiled && (is_there_before || is_traced());
    });
    if is_outside {
        let what = "reads the gradient of a Variable while `compile` traces a function, which would be that \
                    of this moment in every run; make the gradient part of the argument, or compute it \
                    here by `grad` or `value_and_grad`";
        refuse(Error::argument("grad", what));
    }
}

/// Adds a node to those made inside the seal.
pub(crate) fn remember(node: &Arc<Node>) {
    with_seal(|seal| {
        seal.made.insert(node.address());
    });
}

/// Returns the current mode.
pub(crate) fn mode() -> Mode {
    MODE.get()
}

/// Returns whether functions record history now.
pub fn is_recording() -> bool {
    MODE.get().record
}

/// Returns whether training mode is on.
pub fn is_training() -> bool {
    MODE.get().train
}

/// Returns whether tangents at this level are dropped.
pub(crate) fn is_constant(level: Level) -> bool {
    level <= MODE.get().constant_to
}

pub(crate) fn is_retaining() -> bool {
    MODE.get().retain
}

/// The number of a transformation that hides values (`vmap`, `jvp`). 0 stands for none. Inner
/// transformations have higher levels, and no two have the same one, so that a value that has escaped
/// from one is never taken for a value of another.
pub(crate) type Level = u64;

/// Returns the level of the innermost transformation.
pub(crate) fn level() -> Level {
    LEVEL.get()
}

/// Runs `f` one level deeper, with the level as its argument.
pub(crate) fn nested<T>(f: impl FnOnce(Level) -> T) -> T {
    let level = 1 + LAST_LEVEL.fetch_add(1, Ordering::Relaxed);
    at_least(level, || f(level))
}

/// Runs `f` inside the transformation at this level.
pub(crate) fn at_least<T>(level: Level, f: impl FnOnce() -> T) -> T {
    struct Leave(Level);
    impl Drop for Leave {
        fn drop(&mut self) {
            LEVEL.set(self.0);
        }
    }
    keep_to_this_task();
    let _leave = Leave(LEVEL.replace(LEVEL.get().max(level)));
    f()
}

pub(crate) fn put_aside() -> impl Sized {
    (
        Aside::of(&MODE, Mode::START),
        Aside::of(&IS_ATTENDED, false),
        (Aside::of(&IS_SEALED, false), Aside::of(&SEAL, None)),
        Aside::of(&LEVEL, 0),
    )
}
