//! The surroundings of a piece of code, which it uses beside its arguments: scopes, random numbers,
//! buffers and leaves. With the same surroundings, it can be run again, or elsewhere, as the same
//! function.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem;
use std::sync::{Arc, Once, Weak};
use std::thread::LocalKey;

use bibun_array::{Array, Draws, is_traced};
use rustc_hash::FxHashMap;

use crate::call;
use crate::error::{Error, raise};
use crate::hooks;
use crate::leaf::{self, Leaf, LeafOwner};
use crate::links;
use crate::locks;
use crate::randomness::{self, BatchDraws, BatchPart};
use crate::rules::{self, Rules};
use crate::scope::{self, Mode};
use crate::transformations;
use crate::tree::Buffer;
use crate::variable::{Value, Variable};

/// The scopes that are open on a thread, to be opened on another: recording or
/// [`no_grad`](crate::no_grad), [`train_mode`](crate::train_mode) or [`eval_mode`](crate::eval_mode),
/// [`retain`](crate::retain), [`detect_anomaly`](crate::detect_anomaly), the [`Rules`] in force, and
/// the way in which batch elements of [`vmap`](crate::vmap) draw random numbers.
///
/// A scope belongs to the thread that opened it, and a task that is given to another thread or to a
/// pool sees the scopes of that thread. To give a task the scopes of the current thread, hand them
/// over with it. (A hook of [`with_hook`](crate::with_hook) stays with its thread.)
///
/// ```
/// use bibun::{is_training, eval_mode, Scopes};
/// eval_mode(|| {
///     let scopes = Scopes::current();
///     std::thread::scope(|threads| {
///         threads.spawn(|| assert!(is_training()));
///         threads.spawn(|| scopes.run(|| assert!(!is_training())));
///     });
/// });
/// ```
#[derive(Clone, Debug)]
pub struct Scopes {
    mode: Mode,
    level: scope::Level,
    detects_anomaly: bool,
    rules: Rules,
    batch: Vec<BatchDraws>,
    part: Option<BatchPart>,
    /// The function that was running, if what it sees is recorded.
    inside: Option<Weak<()>>,
}

impl Scopes {
    /// Returns the scopes that are open on this thread.
    pub fn current() -> Self {
        Self {
            mode: scope::mode(),
            level: scope::level(),
            detects_anomaly: hooks::detects_anomaly(),
            rules: Rules::in_force(),
            batch: randomness::batch(),
            part: randomness::part(),
            inside: inside(),
        }
    }

    /// Runs `f` with these scopes instead of those that are open on this thread.
    ///
    /// # Panics
    /// Panics if these are scopes of a function that [`compile`](crate::compile) or
    /// [`checkpoint`](crate::checkpoint) runs at this moment on another thread: what it draws and reads there would
    /// not be known in the next run.
    #[track_caller]
    pub fn run<T>(&self, f: impl FnOnce() -> T) -> T {
        if self.inside.is_some() {
            self.expect_same_thread();
        }
        let attended = self.detects_anomaly || !self.rules.is_empty() || hooks::are_any();
        let inside = || scope::attended_if(attended, f);
        let inside = || randomness::in_batch(self.batch.clone(), inside);
        let inside = || randomness::in_part(self.part, inside);
        let inside = || rules::with_in_force(self.rules.clone(), inside);
        let inside = || hooks::detecting_anomaly(self.detects_anomaly, inside);
        scope::within(self.mode, || scope::at_least(self.level, inside))
    }

    #[track_caller]
    fn expect_same_thread(&self) {
        let running = self.inside.as_ref().and_then(Weak::upgrade);
        let is_here = |running: &Arc<()>| {
            INSIDE.with_borrow(|own| own.as_ref().is_some_and(|own| Arc::ptr_eq(own, running)))
        };
        if running.is_some_and(|running| !is_here(&running)) {
            let what = "these are scopes of a function that `compile`, `checkpoint` or a transformation like them \
                        runs on another thread; such a function computes on one thread";
            raise(Error::argument("Scopes::run", what));
        }
    }
}

/// Returns the function that is running here, if what it sees is recorded.
fn inside() -> Option<Weak<()>> {
    let own = |own: &mut Option<Arc<()>>| Arc::downgrade(own.get_or_insert_default());
    ARE_LAYERS.get().then(|| INSIDE.with_borrow_mut(own))
}

/// The surroundings that a function saw in its first run.
#[derive(Debug)]
pub(crate) struct Surroundings {
    scopes: Scopes,
    draws: Draws,
    contents: Contents,
}

/// The contents of buffers and leaves.
#[derive(Clone, Debug, Default)]
struct Contents {
    /// The buffers and their contents. There are few, so they are searched one by one.
    buffers: Vec<(Buffer, Variable)>,
    /// The leaves by address. Each leaf is held, so that no other leaf can get its address.
    leaves: FxHashMap<usize, (Arc<Leaf>, Arc<Value>)>,
}

impl Surroundings {
    /// Runs a function for the first time, and records what it sees.
    pub(crate) fn record<T>(f: impl FnOnce() -> T) -> (T, Self) {
        let scopes = Scopes::current();
        let ((result, contents), draws) =
            Draws::record(|| with_layer(Layer::Recording(Contents::default()), f));
        let surroundings = Self {
            scopes,
            draws,
            contents,
        };
        (result, surroundings)
    }

    /// Runs the function again. It sees the same surroundings as the first time, and changes nothing.
    pub(crate) fn again<T>(&self, f: impl FnOnce() -> T) -> T {
        self.again_under(&self.scopes, f)
    }

    /// Does the same as [`again`](Self::again), under other scopes.
    pub(crate) fn again_under<T>(&self, scopes: &Scopes, f: impl FnOnce() -> T) -> T {
        let layer = Layer::Apart(self.contents.clone());
        scopes.run(|| self.draws.repeat(|| with_layer(layer, f).0))
    }
}

// ----- buffers and leaves

/// A view of buffers and leaves on a thread. Of several views, the innermost applies.
#[derive(Debug)]
enum Layer {
    /// The contents at the first read.
    Recording(Contents),
    /// Contents that only this thread sees.
    Apart(Contents),
    /// The same. A content that is not among them yet is first replaced by another value.
    Lifted(Contents, Lifted),
}

/// The values that replace contents, for a function that is traced.
struct Lifted {
    lift: Box<dyn FnMut(&Array) -> Array>,
    captured: Vec<(Captured, Variable)>,
}

impl fmt::Debug for Lifted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.captured.fmt(f)
    }
}

/// A value that a function finds in its surroundings.
#[derive(Clone, Debug)]
pub(crate) enum Captured {
    Buffer(Buffer),
    Leaf(Arc<LeafOwner>),
}

impl Captured {
    /// Whether this is a leaf that is frozen now.
    pub(crate) fn is_frozen(&self) -> bool {
        matches!(self, Self::Leaf(owner) if owner.leaf().is_frozen())
    }

    /// Returns the value as this thread sees it, as a constant.
    pub(crate) fn get(&self) -> Variable {
        match self {
            Self::Buffer(buffer) => buffer.get(),
            Self::Leaf(leaf) => match leaf.value().array() {
                Some(array) => Variable::constant(array.clone()),
                None => unreachable!("leaves are not hidden"),
            },
        }
    }
}

impl Captured {
    /// Whether this is a buffer that a function that is being traced has changed.
    pub(crate) fn is_changed_around(&self) -> bool {
        let Self::Buffer(buffer) = self else {
            return false;
        };
        LAYERS.with_borrow_mut(|layers| {
            layers.iter_mut().any(|layer| match layer {
                Layer::Lifted(contents, lifted) => find(contents, buffer)
                    .is_some_and(|x| !lifted.captured.iter().any(|(_, own)| own.is_identical(x))),
                Layer::Apart(_) | Layer::Recording(_) => false,
            })
        })
    }
}

/// What a function that was traced found in its surroundings: in the order in which they were lifted,
/// and the buffers that it changed, with their new values.
pub(crate) struct Found {
    pub(crate) captured: Vec<Captured>,
    pub(crate) changed: Vec<(Buffer, Variable)>,
}

/// Runs `f`, which sees what `lift` makes of the contents of buffers and leaves, and whose changes of
/// buffers nobody else sees.
pub(crate) fn lifting<T>(
    lift: impl FnMut(&Array) -> Array + 'static,
    f: impl FnOnce() -> T,
) -> (T, Found) {
    let lifted = Lifted {
        lift: Box::new(lift),
        captured: Vec::new(),
    };
    let (result, layer) = in_layer(Layer::Lifted(Contents::default(), lifted), f);
    let Layer::Lifted(contents, lifted) = layer else {
        unreachable!("layers end in order")
    };
    let is_lifted = |x: &Variable| {
        lifted
            .captured
            .iter()
            .any(|(_, lifted)| lifted.is_identical(x))
    };
    let changed = contents.buffers.into_iter().filter(|(_, x)| !is_lifted(x));
    let found = Found {
        changed: changed.collect(),
        captured: (lifted.captured.into_iter())
            .map(|(captured, _)| captured)
            .collect(),
    };
    (result, found)
}

impl Layer {
    fn contents(&mut self) -> &mut Contents {
        match self {
            Self::Recording(contents) | Self::Apart(contents) | Self::Lifted(contents, _) => {
                contents
            }
        }
    }
}

thread_local! {
    static LAYERS: RefCell<Vec<Layer>> = const { RefCell::new(Vec::new()) };
    static ARE_LAYERS: Cell<bool> = const { Cell::new(false) };
    /// Stands for the outermost function that sees a layer, as long as it runs, if somebody asks.
    static INSIDE: RefCell<Option<Arc<()>>> = const { RefCell::new(None) };
}

fn with_layer<T>(layer: Layer, f: impl FnOnce() -> T) -> (T, Contents) {
    let (result, mut layer) = in_layer(layer, f);
    (result, mem::take(layer.contents()))
}

fn in_layer<T>(layer: Layer, f: impl FnOnce() -> T) -> (T, Layer) {
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            drop(pop());
        }
    }
    fn pop() -> Layer {
        LAYERS.with_borrow_mut(|layers| {
            if layers.len() == 1 {
                ARE_LAYERS.set(false);
                INSIDE.take();
            }
            layers.pop().expect("layers end in order")
        })
    }
    LAYERS.with_borrow_mut(|layers| layers.push(layer));
    ARE_LAYERS.set(true);
    let end = End;
    let result = f();
    mem::forget(end);
    (result, pop())
}

impl Lifted {
    fn of(&mut self, captured: Captured, array: &Array) -> Variable {
        let x = Variable::constant((self.lift)(array));
        self.captured.push((captured, x.clone()));
        x
    }
}

fn find<'a>(contents: &'a mut Contents, buffer: &Buffer) -> Option<&'a mut Variable> {
    let mut all = contents.buffers.iter_mut();
    Some(&mut all.find(|(own, _)| own.is_same(buffer))?.1)
}

/// Returns the content of a buffer as this thread sees it. `held` returns the content for all others.
pub(crate) fn look(buffer: &Buffer, held: impl Fn() -> Variable) -> Variable {
    if !ARE_LAYERS.get() {
        return held();
    }
    LAYERS.with_borrow_mut(|layers| {
        let mut known = None;
        let mut from = 0;
        for (i, layer) in layers.iter_mut().enumerate().rev() {
            let found = match layer {
                Layer::Apart(contents) => find(contents, buffer).cloned(),
                Layer::Lifted(contents, lifted) => {
                    let known = find(contents, buffer).cloned();
                    let own = || Some(held()).filter(|x| is_traced(&x.array()));
                    Some(known.or_else(own).unwrap_or_else(|| {
                        let x = lifted.of(Captured::Buffer(buffer.clone()), &held().array());
                        contents.buffers.push((buffer.clone(), x.clone()));
                        x
                    }))
                }
                Layer::Recording(_) => None,
            };
            if let Some(x) = found {
                (known, from) = (Some(x), i + 1);
                break;
            }
        }
        let x = known.unwrap_or_else(held);
        for layer in &mut layers[from..] {
            if let Layer::Recording(contents) = layer
                && find(contents, buffer).is_none()
            {
                contents.buffers.push((buffer.clone(), x.clone()));
            }
        }
        x
    })
}

/// Puts a value into a buffer for this thread only, if others are not to see it. Returns whether it
/// did.
pub(crate) fn put_apart(buffer: &Buffer, value: &Variable) -> bool {
    ARE_LAYERS.get()
        && LAYERS.with_borrow_mut(|layers| {
            let mut apart = layers.iter_mut().rev();
            let is_apart = |layer: &&mut Layer| !matches!(layer, Layer::Recording(_));
            let Some(layer) = apart.find(is_apart) else {
                return false;
            };
            let contents = layer.contents();
            match find(contents, buffer) {
                Some(x) => *x = value.clone(),
                None => contents.buffers.push((buffer.clone(), value.clone())),
            }
            true
        })
}

/// Returns the value of a leaf as this thread sees it. In a second run, it is the value of the first
/// run.
#[inline]
pub(crate) fn look_at_leaf(leaf: &Arc<Leaf>, held: Arc<Value>) -> Arc<Value> {
    match ARE_LAYERS.get() {
        false => held,
        true => look_at_leaf_in_layers(leaf, held),
    }
}

#[cold]
fn look_at_leaf_in_layers(leaf: &Arc<Leaf>, held: Arc<Value>) -> Arc<Value> {
    let address = Arc::as_ptr(leaf).addr();
    LAYERS.with_borrow_mut(|layers| {
        let known = |layer: &mut Layer| match layer {
            Layer::Apart(contents) => contents.leaves.get(&address).map(|known| known.1.clone()),
            // A leaf that the function has made itself is part of its trace.
            Layer::Lifted(..) if held.array().is_some_and(is_traced) => None,
            Layer::Lifted(contents, lifted) => {
                let lift = || {
                    let array = held.array().expect("leaves are not hidden");
                    let x = lifted.of(Captured::Leaf(LeafOwner::of(leaf)), array);
                    (Arc::clone(leaf), Arc::new(Value::Array(x.array())))
                };
                let known = contents.leaves.entry(address).or_insert_with(lift);
                Some(Arc::clone(&known.1))
            }
            Layer::Recording(_) => None,
        };
        let mut inner_first = layers.iter_mut().enumerate().rev();
        let found = inner_first.find_map(|(i, layer)| Some((i, known(layer)?)));
        let (from, value) = found.map_or((0, held), |(i, value)| (i + 1, value));
        for layer in &mut layers[from..] {
            if let Layer::Recording(contents) = layer {
                let first = || (Arc::clone(leaf), Arc::clone(&value));
                contents.leaves.entry(address).or_insert_with(first);
            }
        }
        value
    })
}

// ----- tasks of others

/// A thread-local that has its initial value until this guard is dropped.
pub(crate) struct Aside<L: Local + 'static>(&'static LocalKey<L>, Option<L::Value>);

/// The interface of a thread-local.
pub(crate) trait Local {
    type Value;
    fn swap(&self, value: Self::Value) -> Self::Value;
}

impl<T> Local for Cell<T> {
    type Value = T;
    fn swap(&self, value: T) -> T {
        self.replace(value)
    }
}

impl<T> Local for RefCell<T> {
    type Value = T;
    fn swap(&self, value: T) -> T {
        self.replace(value)
    }
}

impl<L: Local> Aside<L> {
    pub(crate) fn of(key: &'static LocalKey<L>, beginning: L::Value) -> Self {
        Self(key, Some(key.with(|local| local.swap(beginning))))
    }
}

impl<L: Local> Drop for Aside<L> {
    fn drop(&mut self) {
        if let Some(own) = self.1.take() {
            self.0.with(|local| local.swap(own));
        }
    }
}

/// Ensures that other tasks, which a thread runs while it waits for a kernel, do not see the scopes
/// of the waiting task. Called where a scope is opened.
#[inline]
pub(crate) fn keep_to_this_task() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| bibun_array::set_put_aside(put_aside));
}

fn put_aside() -> Box<dyn Any> {
    locks::assert_none_held();
    Box::new((
        (call::put_aside(), links::put_aside(), leaf::put_aside()),
        (scope::put_aside(), hooks::put_aside()),
        (rules::put_aside(), randomness::put_aside()),
        transformations::put_aside(),
        (
            Aside::of(&LAYERS, Vec::new()),
            Aside::of(&ARE_LAYERS, false),
            Aside::of(&INSIDE, None),
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grad;
    use crate::transformations::are_followed;

    #[test]
    fn tasks_of_others_ask_for_no_derivatives_by_the_arguments_of_a_waiting_one() {
        let g = grad(
            |x| {
                let aside = put_aside();
                assert!(!are_followed([x]));
                drop(aside);
                assert!(are_followed([x]));
                x.square()
            },
            &Variable::new(3.0),
        );
        assert_eq!(g.item::<f64>(), 6.0);
    }
}
