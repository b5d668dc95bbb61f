//! History: the nodes that function calls leave behind, and the public view of them.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use bibun_array::{Array, DType, Device, Shape};
use rustc_hash::FxHashSet;

use crate::call::{Called, Composite};
use crate::error::{Error, Location};
use crate::function::{AnyFunction, Function, Inputs, Outputs, Spec};
use crate::hooks::{GradientHook, GradientHooks};
use crate::leaf::{Leaf, accumulate, exchange};
use crate::locks::{Held, lock};
use crate::release::{Released, release};
use crate::variable::{Value, Variable};

/// One call of a function: its generation, its location and its [`Record`].
pub(crate) struct Node<R: Recorded + ?Sized = dyn Recorded> {
    pub(crate) generation: u64,
    pub(crate) location: Location,
    /// The device that it was computed on, or `None` if all inputs are on every device.
    pub(crate) device: Option<&'static dyn Device>,
    /// The composite function that called it.
    pub(crate) composite: Option<Arc<Composite>>,
    /// The names, retained gradients and hooks of outputs, which are rare.
    notes: OnceLock<Box<Mutex<Notes>>>,
    record: R,
}

/// The record of a call: the edges of its inputs, and only those values that the function's rules
/// read. Lists have the form of the function's arity, so that the record is one piece of memory.
pub(crate) struct Record<F: Function> {
    pub(crate) function: F,
    pub(crate) inputs: Inputs<F, Edge>,
    pub(crate) input_specs: Inputs<F, Spec>,
    pub(crate) saved_inputs: Inputs<F, Option<Arc<Value>>>,
    pub(crate) output_specs: Outputs<F, Spec>,
    pub(crate) saved_outputs: Outputs<F, Option<Arc<Value>>>,
}

/// A [`Record`] with its function erased.
pub(crate) trait Recorded: Send + Sync {
    fn function(&self) -> &dyn AnyFunction;
    fn inputs(&self) -> &[Edge];
    fn input_specs(&self) -> &[Spec];
    fn saved_inputs(&self) -> &[Option<Arc<Value>>];
    fn output_specs(&self) -> &[Spec];
    fn saved_outputs(&self) -> &[Option<Arc<Value>>];
}

impl<F: Function> Recorded for Record<F> {
    fn function(&self) -> &dyn AnyFunction {
        &self.function
    }
    fn inputs(&self) -> &[Edge] {
        self.inputs.as_ref()
    }
    fn input_specs(&self) -> &[Spec] {
        self.input_specs.as_ref()
    }
    fn saved_inputs(&self) -> &[Option<Arc<Value>>] {
        self.saved_inputs.as_ref()
    }
    fn output_specs(&self) -> &[Spec] {
        self.output_specs.as_ref()
    }
    fn saved_outputs(&self) -> &[Option<Arc<Value>>] {
        self.saved_outputs.as_ref()
    }
}

impl<R: Recorded + ?Sized> Deref for Node<R> {
    type Target = R;
    fn deref(&self) -> &R {
        &self.record
    }
}

/// Names, retained gradients and hooks, by output.
#[derive(Default)]
struct Notes {
    names: BTreeMap<u32, String>,
    gradients: BTreeMap<u32, Option<Variable>>,
    hooks: BTreeMap<u32, Arc<GradientHooks>>,
}

impl<R: Recorded> Node<R> {
    pub(crate) fn new(record: R, called: Called) -> Self {
        let generations = record.inputs().iter().map(Edge::generation);
        Self {
            generation: 1 + generations.max().unwrap_or(0),
            location: called.location,
            device: called.device,
            composite: called.composite(),
            notes: OnceLock::new(),
            record,
        }
    }
}

impl Node {
    /// Returns the address, which is unique among nodes.
    pub(crate) fn address(self: &Arc<Self>) -> usize {
        Arc::as_ptr(self).addr()
    }

    /// Returns the arrays that the call saves or holds for its rules, without the values that a
    /// transformation hides.
    pub(crate) fn kept(&self) -> Vec<Array> {
        let saved = self.saved_inputs().iter().chain(self.saved_outputs());
        let saved = saved.flatten().filter_map(|value| value.array().cloned());
        saved.chain(self.function().kept()).collect()
    }

    /// Returns the error that asking for its gradient failed.
    pub(crate) fn failed(&self, source: Error) -> Error {
        Error::InGradient {
            function: self.function().name(),
            location: self.location,
            source: Box::new(source),
        }
    }

    fn notes(&self) -> Held<MutexGuard<'_, Notes>> {
        lock(self.notes.get_or_init(Box::default))
    }

    /// Calls the hooks of an output with its gradient, which they may change.
    pub(crate) fn call_hooks(&self, slot: u32, gradient: &mut Variable) {
        if self.notes.get().is_some() {
            let hooks = self.notes().hooks.get(&slot).cloned();
            if let Some(hooks) = hooks {
                hooks.call(gradient);
            }
        }
    }

    /// Requests that the gradient of an output is saved.
    pub(crate) fn retain_gradient(&self, slot: u32) {
        self.notes().gradients.entry(slot).or_default();
    }

    /// Saves the gradient of an output, if that was requested.
    pub(crate) fn note_gradient(&self, slot: u32, gradient: &Variable) {
        if self.notes.get().is_none() || !self.notes().gradients.contains_key(&slot) {
            return;
        }
        accumulate(gradient.clone(), |sum| {
            exchange(self.notes().gradients.entry(slot).or_default(), sum)
        });
    }
}

/// A node as history holds it. When the last owner drops it, it is queued in `release`.
#[derive(Clone)]
pub(crate) struct Way(Option<Arc<Node>>);

impl Way {
    pub(crate) fn to(node: &Arc<Node>) -> Self {
        Self(Some(Arc::clone(node)))
    }
}

impl Deref for Way {
    type Target = Arc<Node>;
    #[inline]
    fn deref(&self) -> &Arc<Node> {
        self.0.as_ref().expect("it is taken out by `drop` only")
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        if let Some(node) = self.0.take()
            && Arc::strong_count(&node) == 1
        {
            release(Released::Node(node));
        }
    }
}

/// The edge from a Variable back to the leaf or function call it came from.
#[derive(Clone, Default)]
pub(crate) enum Edge {
    /// A constant, without an edge.
    #[default]
    None,
    /// No edge, and yet not an ordinary constant.
    Cut(Cut),
    Leaf(Arc<Leaf>),
    /// An output of a function call, by its position.
    Output(Way, u32),
}

/// The kinds of values whose edge is cut off.
#[derive(Clone, Copy)]
pub(crate) enum Cut {
    /// In a model, a parameter and not a buffer.
    Parameter,
    /// A result that the transformation at this location computed from the value of a leaf. It
    /// depends on that leaf, but the dependence is unknown.
    Lost(Location),
    /// A result that was not recorded: a constant like any other.
    Unrecorded(Location),
    /// A parameter that gets no gradient.
    Frozen,
    /// In a gradient, the place of a frozen parameter: there is no value.
    Absent,
}

/// The key of an edge: the address of the leaf or node, and the output.
pub(crate) type Key = (usize, u32);

impl Edge {
    pub(crate) fn is_some(&self) -> bool {
        matches!(self, Self::Leaf(_) | Self::Output(..))
    }

    /// Returns the location of the transformation that lost the dependence on a leaf.
    pub(crate) fn lost_at(&self) -> Option<Location> {
        match self {
            Self::Cut(Cut::Lost(location)) => Some(location),
            Self::None | Self::Cut(_) | Self::Leaf(_) | Self::Output(..) => None,
        }
    }

    /// Returns the location of the call under `no_grad` that was not recorded.
    pub(crate) fn unrecorded_at(&self) -> Option<Location> {
        match self {
            Self::Cut(Cut::Unrecorded(location)) => Some(location),
            Self::None | Self::Cut(_) | Self::Leaf(_) | Self::Output(..) => None,
        }
    }

    pub(crate) fn generation(&self) -> u64 {
        match self {
            Self::Output(node, _) => node.generation,
            Self::Leaf(_) | Self::Cut(_) | Self::None => 0,
        }
    }

    pub(crate) fn key(&self) -> Option<Key> {
        match self {
            Self::None | Self::Cut(_) => None,
            Self::Leaf(leaf) => Some((Arc::as_ptr(leaf).addr(), 0)),
            Self::Output(node, slot) => Some((node.address(), *slot)),
        }
    }

    pub(crate) fn name(&self) -> Option<String> {
        match self {
            Self::None | Self::Cut(_) => None,
            Self::Leaf(leaf) => leaf.name(),
            Self::Output(node, slot) => {
                node.notes.get()?;
                node.notes().names.get(slot).cloned()
            }
        }
    }

    pub(crate) fn set_name(&self, name: String) -> Result<(), &'static str> {
        match self {
            Self::None | Self::Cut(_) => {
                return Err("a constant has no name; make it a leaf by Variable::new");
            }
            Self::Leaf(leaf) => leaf.set_name(name),
            Self::Output(node, slot) => {
                node.notes().names.insert(*slot, name);
            }
        }
        Ok(())
    }

    pub(crate) fn gradient(&self) -> Option<Variable> {
        match self {
            Self::None | Self::Cut(_) => None,
            Self::Leaf(leaf) => leaf.gradient(),
            Self::Output(node, slot) => {
                node.notes.get()?;
                node.notes().gradients.get(slot).cloned().flatten()
            }
        }
    }

    /// Sets the gradient. Returns whether there is a place for it.
    pub(crate) fn set_gradient(&self, gradient: Option<Variable>) -> bool {
        match self {
            Self::None | Self::Cut(_) => return false,
            Self::Leaf(leaf) => leaf.set_gradient(gradient),
            Self::Output(node, slot) => {
                if node.notes.get().is_none() {
                    return false;
                }
                let old = match node.notes().gradients.get_mut(slot) {
                    Some(retained) => std::mem::replace(retained, gradient),
                    None => return false,
                };
                drop(old);
            }
        }
        true
    }

    /// Adds to the gradient of a leaf.
    pub(crate) fn add_gradient(&self, gradient: Variable) {
        if let Self::Leaf(leaf) = self {
            leaf.add_gradient(gradient);
        }
    }

    /// Adds a hook. Returns the number by which it can be removed.
    pub(crate) fn add_hook(&self, hook: Arc<GradientHook>) -> Option<u64> {
        match self {
            Self::None | Self::Cut(_) => None,
            Self::Leaf(leaf) => Some(leaf.add_hook(hook)),
            Self::Output(node, slot) => {
                Some(node.notes().hooks.entry(*slot).or_default().add(hook))
            }
        }
    }

    pub(crate) fn remove_hook(&self, number: u64) {
        match self {
            Self::None | Self::Cut(_) => {}
            Self::Leaf(leaf) => leaf.remove_hook(number),
            Self::Output(node, slot) => {
                if let Some(hooks) = node.notes().hooks.get(slot) {
                    hooks.remove(number);
                }
            }
        }
    }

    pub(crate) fn retain_gradient(&self) {
        if let Self::Output(node, slot) = self {
            node.retain_gradient(*slot);
        }
    }
}

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut(Cut::Frozen | Cut::Absent) => f.write_str("frozen"),
            Self::None | Self::Cut(_) => f.write_str("constant"),
            Self::Leaf(_) => f.write_str("leaf"),
            Self::Output(node, slot) => write!(f, "output {slot} of {}", node.function().name()),
        }
    }
}

/// The function call that made a Variable, returned by [`Variable::creator`].
#[derive(Clone)]
pub struct Creator(pub(crate) Way);

impl Creator {
    /// Returns the function's name.
    pub fn name(&self) -> &'static str {
        self.0.function().name()
    }

    /// Returns the function with its parameters (axes, exponents, ...), for people to read.
    pub fn describe(&self) -> String {
        format!("{:?}", self.0.function())
    }

    /// Returns the number of functions from the leaves up to this one, on the longest path.
    pub fn generation(&self) -> u64 {
        self.0.generation
    }

    /// Returns the location of the function's call.
    pub fn location(&self) -> Location {
        self.0.location
    }

    /// Returns the composite function that called it.
    pub(crate) fn composite(&self) -> Option<&Arc<Composite>> {
        self.0.composite.as_ref()
    }

    /// Returns the inputs of the function, in order.
    pub fn inputs(&self) -> Vec<HistoryEntry> {
        let node = &self.0;
        (0..node.inputs().len())
            .map(|i| HistoryEntry {
                edge: node.inputs()[i].clone(),
                spec: node.input_specs()[i].clone(),
                value: node.saved_inputs()[i].clone(),
            })
            .collect()
    }

    /// Returns the outputs of the function, in order.
    pub fn outputs(&self) -> Vec<HistoryEntry> {
        let node = &self.0;
        (0..node.output_specs().len())
            .map(|i| HistoryEntry {
                edge: Edge::Output(node.clone(), i as u32),
                spec: node.output_specs()[i].clone(),
                value: node.saved_outputs()[i].clone(),
            })
            .collect()
    }

    /// Returns whether both are the same call.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the number of bytes of the values that this call saves for its rules, and that its function
    /// [holds](Function::kept) for them. Values shared by several calls are counted for each of them.
    pub fn kept_bytes(&self) -> usize {
        distinct_bytes(self.kept())
    }

    /// Returns the arrays that this call saves for its rules, without the values that a
    /// transformation hides.
    pub(crate) fn kept(&self) -> Vec<Array> {
        self.0.kept()
    }
}

/// Returns the number of bytes of the memory of some arrays, each counted once.
pub(crate) fn distinct_bytes(arrays: impl IntoIterator<Item = Array>) -> usize {
    let mut known = FxHashSet::default();
    let is_new = |x: &Array| x.memory_key().is_some_and(|key| known.insert(key));
    let arrays = arrays.into_iter().filter(is_new);
    arrays.map(|x| x.memory_bytes()).sum()
}

impl fmt::Debug for Creator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} called at {}", self.0.function(), self.0.location)
    }
}

/// A Variable as history remembers it. Its shape and its creator are always known. Its value is known
/// if a rule or the [`retain`](crate::retain) scope saves it, or if it is a leaf.
#[derive(Clone)]
pub struct HistoryEntry {
    edge: Edge,
    spec: Spec,
    value: Option<Arc<Value>>,
}

impl HistoryEntry {
    /// Creates the entry of a Variable, with its value.
    pub(crate) fn of(x: &Variable) -> Self {
        Self {
            value: (!x.has_history() || !x.is_leaf()).then(|| x.value()),
            edge: x.edge(),
            spec: x.spec(),
        }
    }

    /// Returns the edge.
    pub(crate) fn edge(&self) -> &Edge {
        &self.edge
    }

    /// Returns a unique key, made from the edge or from the value of a constant, or `None` if it has
    /// neither.
    pub(crate) fn key(&self) -> Option<Key> {
        let constant = || Some((Arc::as_ptr(self.value.as_ref()?).addr(), 0));
        self.edge.key().or_else(constant)
    }

    /// Returns the shape.
    pub fn shape(&self) -> &Shape {
        &self.spec.shape
    }

    /// Returns the dtype.
    pub fn dtype(&self) -> DType {
        self.spec.dtype
    }

    /// Returns the function call that made it, or `None` for leaves and constants.
    pub fn creator(&self) -> Option<Creator> {
        match &self.edge {
            Edge::Output(node, _) => Some(Creator(node.clone())),
            Edge::Leaf(_) | Edge::Cut(_) | Edge::None => None,
        }
    }

    /// Returns the index of this value among its creator's outputs, or `None` for leaves and
    /// constants.
    pub fn output_index(&self) -> Option<usize> {
        match &self.edge {
            Edge::Output(_, slot) => Some(*slot as usize),
            Edge::Leaf(_) | Edge::Cut(_) | Edge::None => None,
        }
    }

    /// Returns whether it is a leaf.
    pub fn is_leaf(&self) -> bool {
        matches!(self.edge, Edge::Leaf(_))
    }

    /// Returns the name, or `None` if there is none.
    pub fn name(&self) -> Option<String> {
        self.edge.name()
    }

    /// Returns the gradient, if one has accumulated or is retained.
    pub fn grad(&self) -> Option<Variable> {
        self.edge.gradient()
    }

    /// Returns the Variable itself, if its value is still there.
    pub fn value(&self) -> Option<Variable> {
        let value = match (&self.value, &self.edge) {
            // The leaf itself, unless it has another value by now.
            (value, Edge::Leaf(leaf))
                if (value.as_ref()).is_none_or(|value| Arc::ptr_eq(value, &leaf.value())) =>
            {
                return Some(Variable::of_leaf(leaf));
            }
            (Some(value), _) => Arc::clone(value),
            (None, Edge::Leaf(_)) => unreachable!("a leaf has a value"),
            (None, Edge::Output(node, slot)) => node.saved_outputs()[*slot as usize]
                .as_ref()
                .map(Arc::clone)?,
            (None, Edge::None | Edge::Cut(_)) => return None,
        };
        Some(Variable::fixed(value, self.edge.clone()))
    }
}

impl fmt::Debug for HistoryEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.spec, self.edge)
    }
}
