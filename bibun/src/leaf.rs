//! Leaves: where history ends and gradients accumulate.
//!
//! No lock is held during a computation: values are taken out, and put back when it is done.

use std::cell::RefCell;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock, Weak};
use std::thread::{self, ThreadId};

use bibun_array::Array;

use crate::error::{Error, raise};
use crate::hooks::{GradientHook, GradientHooks};
use crate::locks::{Held, lock, read, write};
use crate::release::{Released, release};
use crate::scope;
use crate::surroundings::{self, Aside, keep_to_this_task};
use crate::variable::{Value, Variable};

thread_local! {
    /// The leaves whose value is being updated by a function on this thread.
    static UPDATING: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn put_aside() -> impl Sized {
    Aside::of(&UPDATING, Vec::new())
}

/// The end of all history. Functions that used a leaf hold it by an edge.
#[derive(Debug)]
pub(crate) struct Leaf {
    value: RwLock<Slot>,
    name: Mutex<Option<String>>,
    /// Whether the leaf gets no gradient.
    frozen: AtomicBool,
    /// The hooks on the gradient, which are rare.
    hooks: OnceLock<Box<GradientHooks>>,
    accumulated: Mutex<Accumulated>,
}

/// The current location of the value.
#[derive(Debug)]
enum Slot {
    Here(Arc<Value>),
    /// Held by a thread that changes it in its own memory.
    Taken(ThreadId),
}

/// The gradient, stored only while there is a Variable to ask for it. A gradient with history leads
/// back to its leaf, and such a cycle must not keep itself alive.
#[derive(Debug)]
struct Accumulated {
    owner: Weak<LeafOwner>,
    gradient: Option<Variable>,
}

/// The part that is shared by all Variables that are one leaf.
#[derive(Debug)]
pub(crate) struct LeafOwner {
    leaf: Arc<Leaf>,
}

impl LeafOwner {
    pub(crate) fn new(value: Value) -> Arc<Self> {
        let owner = Arc::new_cyclic(|owner| Self {
            leaf: Arc::new(Leaf {
                value: RwLock::new(Slot::Here(Arc::new(value))),
                name: Mutex::new(None),
                frozen: AtomicBool::new(false),
                hooks: OnceLock::new(),
                accumulated: Mutex::new(Accumulated {
                    owner: Weak::clone(owner),
                    gradient: None,
                }),
            }),
        });
        scope::remember_leaf(&owner.leaf);
        owner
    }

    /// Returns the owner of a leaf that history leads to.
    pub(crate) fn of(leaf: &Arc<Leaf>) -> Arc<Self> {
        let mut accumulated = leaf.accumulated();
        accumulated.owner.upgrade().unwrap_or_else(|| {
            let leaf = Arc::clone(leaf);
            let owner = Arc::new(Self { leaf });
            accumulated.owner = Arc::downgrade(&owner);
            owner
        })
    }

    pub(crate) fn leaf(&self) -> &Arc<Leaf> {
        &self.leaf
    }

    /// Returns the value as this thread sees it. In a second run, it is the value of the first run.
    #[track_caller]
    pub(crate) fn value(&self) -> Arc<Value> {
        surroundings::look_at_leaf(&self.leaf, self.leaf.value())
    }
}

impl Drop for LeafOwner {
    fn drop(&mut self) {
        let mut accumulated = self.leaf.accumulated();
        // Another thread may have obtained this leaf from history in the meantime.
        if accumulated.owner.strong_count() == 0 {
            let gradient = accumulated.gradient.take();
            drop(accumulated);
            if let Some(gradient) = gradient {
                release(Released::Gradient(gradient));
            }
        }
    }
}

impl Drop for Leaf {
    fn drop(&mut self) {
        if let Some(hooks) = self.hooks.take() {
            release(Released::Hooks(hooks));
        }
    }
}

impl Leaf {
    #[track_caller]
    pub(crate) fn value(&self) -> Arc<Value> {
        if let Slot::Here(value) = &*read(&self.value) {
            return Arc::clone(value);
        }
        self.wait("array")
    }

    /// Returns the value once another thread that changes it in place has put it back.
    #[cold]
    #[track_caller]
    fn wait(&self, function: &'static str) -> Arc<Value> {
        loop {
            match &*read(&self.value) {
                Slot::Here(value) => return Arc::clone(value),
                Slot::Taken(by) if *by == thread::current().id() => {
                    let what = "this leaf is being updated on this very thread; read it before";
                    raise(Error::argument(function, what))
                }
                Slot::Taken(_) => {}
            }
            thread::yield_now();
        }
    }

    /// Marks this leaf as being updated by a function on this thread until the result is dropped. The
    /// function must return the new value and must not write another one meanwhile.
    #[track_caller]
    pub(crate) fn updating(self: &Arc<Self>, function: &'static str) -> impl Drop + use<> {
        struct End;
        impl Drop for End {
            fn drop(&mut self) {
                UPDATING.with_borrow_mut(Vec::pop);
            }
        }
        self.expect_no_update(function);
        keep_to_this_task();
        UPDATING.with_borrow_mut(|updating| updating.push(Arc::as_ptr(self).addr()));
        End
    }

    /// Checks that no function that updates this leaf is running on this thread, because it would
    /// conflict with a write.
    #[track_caller]
    pub(crate) fn expect_no_update(self: &Arc<Self>, function: &'static str) {
        let own = Arc::as_ptr(self).addr();
        if UPDATING.with_borrow(|updating| updating.contains(&own)) {
            let what = "this leaf is being updated on this very thread; return its new value from \
                        the function that is given to update";
            raise(Error::argument(function, what));
        }
    }

    /// Replaces the value.
    pub(crate) fn set_value(&self, value: Arc<Value>) {
        loop {
            let mut slot = write(&self.value);
            match &*slot {
                Slot::Taken(by) if *by != thread::current().id() => {}
                Slot::Here(_) | Slot::Taken(_) => {
                    let old = mem::replace(&mut *slot, Slot::Here(value));
                    drop(slot);
                    return drop(old);
                }
            }
            drop(slot);
            thread::yield_now();
        }
    }

    /// Replaces `old` by a value, if `old` is still the current value.
    pub(crate) fn replace_value(&self, old: &Arc<Value>, value: Arc<Value>) -> bool {
        let mut slot = write(&self.value);
        match &*slot {
            Slot::Here(present) if Arc::ptr_eq(present, old) => {
                let old = mem::replace(&mut *slot, Slot::Here(value));
                drop(slot);
                drop(old);
                true
            }
            Slot::Here(_) | Slot::Taken(_) => false,
        }
    }

    /// Changes the array in its own memory, unless history holds it. Other threads that read the leaf
    /// meanwhile wait; `change` itself must not read it. If it panics, its changes so far remain.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Array)) {
        struct Taken<'a>(&'a Leaf, Option<Array>);
        impl Drop for Taken<'_> {
            fn drop(&mut self) {
                let array = self.1.take().expect("it is taken out here only");
                *write(&self.0.value) = Slot::Here(Arc::new(Value::Array(array)));
            }
        }
        let value = loop {
            self.value();
            let mut slot = write(&self.value);
            match mem::replace(&mut *slot, Slot::Taken(thread::current().id())) {
                Slot::Here(value) => break value,
                taken @ Slot::Taken(_) => *slot = taken,
            }
        };
        let array = match Arc::try_unwrap(value) {
            Ok(Value::Array(array)) => array,
            Ok(_) => unreachable!("a leaf holds an array"),
            Err(shared) => shared.to_array(),
        };
        let mut taken = Taken(self, Some(array));
        change(taken.1.as_mut().expect("it is there"));
    }

    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen.load(Ordering::Relaxed)
    }

    pub(crate) fn set_frozen(&self, frozen: bool) {
        self.frozen.store(frozen, Ordering::Relaxed);
    }

    // ----- the gradient

    fn accumulated(&self) -> Held<MutexGuard<'_, Accumulated>> {
        lock(&self.accumulated)
    }

    pub(crate) fn gradient(&self) -> Option<Variable> {
        self.accumulated().gradient.clone()
    }

    pub(crate) fn set_gradient(&self, gradient: Option<Variable>) {
        let mut accumulated = self.accumulated();
        let old = mem::replace(&mut accumulated.gradient, gradient);
        drop(accumulated);
        drop(old);
    }

    /// Adds to the gradient.
    pub(crate) fn add_gradient(&self, gradient: Variable) {
        accumulate(gradient, |sum| {
            let mut accumulated = self.accumulated();
            match accumulated.owner.strong_count() {
                // No Variable is left to ask for it.
                0 => {
                    drop(accumulated);
                    drop(sum);
                    None
                }
                _ => exchange(&mut accumulated.gradient, sum),
            }
        });
    }

    // ----- name and hooks

    pub(crate) fn name(&self) -> Option<String> {
        lock(&self.name).clone()
    }

    pub(crate) fn set_name(&self, name: String) {
        *lock(&self.name) = Some(name);
    }

    pub(crate) fn has_hooks(&self) -> bool {
        self.hooks.get().is_some_and(|hooks| !hooks.is_empty())
    }

    pub(crate) fn call_hooks(&self, gradient: &mut Variable) {
        if let Some(hooks) = self.hooks.get() {
            hooks.call(gradient);
        }
    }

    pub(crate) fn add_hook(&self, hook: Arc<GradientHook>) -> u64 {
        self.hooks.get_or_init(Box::default).add(hook)
    }

    pub(crate) fn remove_hook(&self, number: u64) {
        if let Some(hooks) = self.hooks.get() {
            hooks.remove(number);
        }
    }
}

/// Stores a sum in an empty place, or takes out the present value together with the sum, so that they
/// can be added.
pub(crate) fn exchange(
    location: &mut Option<Variable>,
    sum: Variable,
) -> Option<(Variable, Variable)> {
    match location.take() {
        Some(present) => Some((present, sum)),
        None => {
            *location = Some(sum);
            None
        }
    }
}

/// Adds a gradient to a stored one. `exchange` locks the place and stores the sum there, or returns
/// it together with the value that it found. The two are then added without the lock, and the sum is
/// tried again.
pub(crate) fn accumulate(
    gradient: Variable,
    exchange: impl Fn(Variable) -> Option<(Variable, Variable)>,
) {
    let mut sum = gradient;
    while let Some((present, added)) = exchange(sum) {
        sum = present + added;
    }
}
