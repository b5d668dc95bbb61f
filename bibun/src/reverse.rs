//! The reverse walk: from outputs back to the values they were computed from, by each function's
//! `vjp` rule.
//!
//! Nodes wait in a heap by generation, so that a node's turn comes when all cotangents of its outputs
//! have arrived. Nothing recurses, so a chain may be millions of functions long.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use bibun_array::{Array, is_traced};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::call::calling;
use crate::completion::Incomplete;
use crate::context::Context;
use crate::error::{Error, attempt, raise, refuse};
use crate::function::{Items, items};
use crate::hooks;
use crate::node::{Cut, Edge, Key, Node, Way};
use crate::scope;
use crate::variable::Variable;

/// Options of [`gradients_with`] and [`Variable::backward_with`].
#[derive(Clone, Debug, Default)]
pub struct GradOptions {
    /// The cotangent of each output. An empty list stands for ones, and each output must then have a
    /// single element.
    pub cotangents: Vec<Variable>,
    /// Whether history is recorded on the way, so that gradients can be differentiated again.
    pub create_graph: bool,
    /// Whether `backward` also saves the gradients of intermediate Variables, and not only those of
    /// leaves.
    pub retain_grad: bool,
}

impl GradOptions {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records history on the way back, for derivatives of derivatives.
    ///
    /// ```
    /// use bibun::{gradients, gradients_with, GradOptions, Variable};
    /// let x = Variable::new(2.0);
    /// let y = &x * &x * &x;
    /// let dy = gradients_with(&[&y], &[&x], GradOptions::new().create_graph()).remove(0).unwrap();
    /// let ddy = gradients(&[&dy], &[&x]).remove(0).unwrap();
    /// assert_eq!((dy.item::<f64>(), ddy.item::<f64>()), (12.0, 12.0));
    /// ```
    #[must_use]
    pub fn create_graph(mut self) -> Self {
        self.create_graph = true;
        self
    }

    /// Sets the cotangents to start from, one for each output.
    ///
    /// ```
    /// use bibun::{GradOptions, Variable};
    /// let x = Variable::new([1.0, 2.0]);
    /// let y = &x * &x;
    /// y.backward_with(GradOptions::new().cotangents(&[&Variable::constant([1.0, 10.0])]));
    /// assert_eq!(x.grad().unwrap().to_vec::<f64>(), [2.0, 40.0]);
    /// ```
    #[must_use]
    pub fn cotangents(mut self, cotangents: &[&Variable]) -> Self {
        self.cotangents = cotangents.iter().map(|&gy| gy.clone()).collect();
        self
    }

    /// Also saves the gradients of intermediate Variables in `backward`, and not only those of leaves.
    #[must_use]
    pub fn retain_grad(mut self) -> Self {
        self.retain_grad = true;
        self
    }
}

impl From<&Self> for GradOptions {
    fn from(options: &Self) -> Self {
        options.clone()
    }
}

impl Variable {
    /// Walks history backwards and adds the gradient of this Variable to the `grad` of every leaf it
    /// was computed from. This Variable must have a single element.
    ///
    /// # Panics
    /// Panics if the number of elements is not one (see [`Variable::backward_with`] for cotangents),
    /// if no leaf took part, or if a rule fails. The error then has the location of the forward call.
    #[track_caller]
    pub fn backward(&self) {
        self.backward_with(GradOptions::new());
    }

    /// Does the same as [`Variable::backward`], from a given cotangent or with history recorded on
    /// the way.
    ///
    /// A recorded gradient leads back to the leaf that holds it, and such a cycle is freed only after
    /// [`Variable::clear_grad`]. [`gradients_with`] makes no such cycles.
    ///
    /// # Panics
    /// Panics if the cotangent differs from this Variable in shape or dtype, and in the cases of
    /// [`Variable::backward`].
    #[track_caller]
    pub fn backward_with(&self, options: impl Into<GradOptions>) {
        let _called = calling("backward");
        let options = &options.into();
        if let Some(location) = self.edge().lost_at() {
            raise(Error::LeafLost { location });
        }
        if self.plain_array().is_some_and(|x| is_traced(&x)) {
            let what = "gradients would be put into leaves once, while `compile` traces its function, \
                        and not in every run; return what `grad` or `value_and_grad` returns";
            refuse(Error::argument("backward", what));
        }
        if !self.requires_grad() {
            let what = match self.edge().unrecorded_at() {
                Some(location) => format!(
                    "this Variable was computed under no_grad, so it has no history and no \
                     gradient (the call at {location} was not recorded)"
                ),
                None => "no leaf took part in this Variable, so it has no gradient".to_owned(),
            };
            raise(Error::argument("backward", what));
        }
        let outputs = seeded("backward", &[self], options);
        let direction = Direction {
            wanted: &Wanted::Leaves,
            create_graph: options.create_graph,
            retain_grad: options.retain_grad,
        };
        walk(outputs, direction, &mut |edge, gradient| {
            edge.add_gradient(match options.create_graph {
                true => gradient,
                false => gradient.without_history(),
            });
        });
    }
}

/// Computes the gradients of the sum of `outputs` with respect to `inputs`, which may be leaves or
/// intermediate Variables. A gradient is `None` if no output depends on the input. Nothing
/// accumulates in leaves.
///
/// ```
/// use bibun::{gradients, Variable};
/// let x = Variable::new([1.0, 2.0]);
/// let z = Variable::new(1.0);
/// let y = (&x * &x).sum(..);
/// let gradients = gradients(&[&y], &[&x, &z]);
/// assert_eq!(gradients[0].as_ref().unwrap().to_vec::<f64>(), [2.0, 4.0]);
/// assert!(gradients[1].is_none());
/// ```
///
/// # Panics
/// Panics if an output has more than one element (see [`gradients_with`] for cotangents), or if a
/// rule is missing or fails. The error then has the location of the forward call.
#[track_caller]
pub fn gradients(outputs: &[&Variable], inputs: &[&Variable]) -> Vec<Option<Variable>> {
    gradients_with(outputs, inputs, GradOptions::new())
}

/// Does the same as [`gradients`], with options: cotangents of the outputs, and whether to record
/// history.
///
/// # Panics
/// Panics if cotangents differ from the outputs in shape or dtype, and in the cases of [`gradients`].
#[track_caller]
pub fn gradients_with(
    outputs: &[&Variable],
    inputs: &[&Variable],
    options: impl Into<GradOptions>,
) -> Vec<Option<Variable>> {
    let _called = calling("gradients");
    let options = &options.into();
    let seeds = seeded("gradients", outputs, options);
    let targets: Vec<Edge> = inputs.iter().map(|input| input.edge()).collect();
    let (outputs, cotangents): (Vec<Edge>, Vec<Variable>) = seeds.into_iter().unzip();
    let cotangents = cotangents.into_iter().map(Some).collect();
    let gradients = Paths::between(outputs, targets).pull_back(cotangents, options.create_graph);
    match options.create_graph {
        true => gradients,
        false => gradients
            .into_iter()
            .map(|gradient| gradient.map(Variable::without_history))
            .collect(),
    }
}

/// The paths from outputs back to inputs: found once, walked any number of times.
pub(crate) struct Paths {
    outputs: Vec<Edge>,
    inputs: Vec<Edge>,
    wanted: Wanted,
    /// Whether the outputs also depend on other values that have history.
    leave: bool,
}

impl Paths {
    pub(crate) fn between(outputs: Vec<Edge>, inputs: Vec<Edge>) -> Self {
        let (wanted, leave) = Wanted::only(&outputs, &inputs);
        Self {
            outputs,
            inputs,
            wanted,
            leave,
        }
    }

    /// Returns whether the outputs also depend on other values that have history. A derivative with
    /// respect to the inputs may then be differentiated again with respect to those.
    pub(crate) fn leave(&self) -> bool {
        self.leave
    }

    /// Computes the gradients of the inputs, or `None` for an input that no path leads to. Without
    /// `create_graph`, the gradients have history only from values that rules captured.
    pub(crate) fn pull_back(
        &self,
        cotangents: Vec<Option<Variable>>,
        create_graph: bool,
    ) -> Vec<Option<Variable>> {
        let seeds = self.outputs.iter().zip(cotangents);
        let seeds = seeds.filter_map(|(edge, cotangent)| Some((edge.clone(), cotangent?)));
        let mut found: FxHashMap<Key, Variable> = FxHashMap::default();
        let direction = Direction {
            wanted: &self.wanted,
            create_graph,
            retain_grad: false,
        };
        walk(seeds.collect(), direction, &mut |edge, gradient| {
            if let Some(key) = edge.key() {
                insert_or_add(found.entry(key), gradient);
            }
        });
        let find = |input: &Edge| input.key().and_then(|key| found.get(&key).cloned());
        self.inputs.iter().map(find).collect()
    }

    /// Returns the nodes on the paths, in the order in which they ran.
    pub(crate) fn nodes(&self) -> Vec<Arc<Node>> {
        let mut seen: FxHashSet<usize> = FxHashSet::default();
        let mut nodes: Vec<&Arc<Node>> = Vec::new();
        let mut pending: Vec<&Edge> = self.outputs.iter().collect();
        while let Some(edge) = pending.pop() {
            if let Edge::Output(node, _) = edge
                && self.wanted.goes_through(node)
                && seen.insert(node.address())
            {
                nodes.push(node);
                pending.extend(node.inputs());
            }
        }
        nodes.sort_by_key(|node| node.generation);
        nodes.into_iter().cloned().collect()
    }

    /// Returns whether a path to an input leads along this edge.
    pub(crate) fn follows(&self, edge: &Edge) -> bool {
        self.wanted.follows(edge)
    }

    pub(crate) fn go_through(&self, node: &Arc<Node>) -> bool {
        self.wanted.goes_through(node)
    }

    pub(crate) fn is_target(&self, edge: &Edge) -> bool {
        self.wanted.is_target(edge)
    }

    pub(crate) fn outputs(&self) -> &[Edge] {
        &self.outputs
    }

    pub(crate) fn inputs(&self) -> &[Edge] {
        &self.inputs
    }
}

/// Returns the outputs' edges with their cotangents.
#[track_caller]
fn seeded(
    function: &'static str,
    outputs: &[&Variable],
    options: &GradOptions,
) -> Vec<(Edge, Variable)> {
    let given = &options.cotangents;
    if !given.is_empty() && given.len() != outputs.len() {
        let what = format!("{} outputs, but {} cotangents", outputs.len(), given.len());
        raise(Error::argument(function, what));
    }
    let mut seeds = Vec::with_capacity(outputs.len());
    for (i, output) in outputs.iter().enumerate() {
        let spec = output.spec();
        let cotangent = match given.get(i) {
            Some(cotangent) if cotangent.spec() == spec => cotangent.clone(),
            Some(cotangent) => {
                let what = format!("the output is {spec}, its cotangent {}", cotangent.spec());
                raise(Error::argument(function, what))
            }
            None if spec.dtype.is_complex() => {
                let what = format!("the output is {spec}; {REAL_LOSS}");
                raise(Error::argument(function, what))
            }
            None if spec.shape.size() == 1 => {
                Variable::constant(Array::ones(spec.shape, spec.dtype))
            }
            None => {
                let what = format!(
                    "the output is {spec}; without a cotangent it must have a single element"
                );
                raise(Error::argument(function, what))
            }
        };
        seeds.push((output.edge(), cotangent));
    }
    seeds
}

/// Why a complex number has no gradient.
pub(crate) const REAL_LOSS: &str =
    "only real numbers have a gradient: take `real` or `abs` of it (or `vjp`, with a cotangent)";

/// The targets of a walk, and thereby the edges to follow.
enum Wanted {
    /// All leaves. Every recorded node leads to one.
    Leaves,
    /// Some edges, and the nodes from which one of them can be reached.
    Only {
        targets: FxHashSet<Key>,
        /// The lowest generation of a target.
        lowest: u64,
        reaching: Reaching,
    },
}

/// The nodes from which a target can be reached.
enum Reaching {
    /// All nodes of a higher generation than the targets: every path leads to a target.
    All,
    Some(FxHashSet<usize>),
}

impl Wanted {
    /// Finds the nodes that lead from `outputs` to `targets`, and whether any other path leaves the
    /// part of history between them.
    fn only(outputs: &[Edge], targets: &[Edge]) -> (Self, bool) {
        // No node of a lower generation than all targets can lead to one.
        let generations = || {
            let targets = targets.iter().filter(|target| target.is_some());
            targets.map(Edge::generation)
        };
        let lowest = generations().min().unwrap_or(u64::MAX);
        let level = generations().all(|generation| generation == lowest);
        let by_leaf = targets.iter().any(|target| matches!(target, Edge::Leaf(_)));
        let targets: FxHashSet<Key> = targets.iter().filter_map(Edge::key).collect();
        let mut leave = false;
        let mut seen: FxHashSet<usize> = FxHashSet::default();
        let mut nodes: Vec<&Arc<Node>> = Vec::new();
        let mut pending: Vec<&Edge> = outputs.iter().collect();
        while let Some(edge) = pending.pop() {
            match edge {
                Edge::Output(node, _) if node.generation > lowest => {
                    if seen.insert(node.address()) {
                        nodes.push(node);
                        pending.extend(node.inputs());
                    }
                }
                Edge::Cut(Cut::Lost(location)) if by_leaf => raise(Error::LeafLost { location }),
                Edge::None | Edge::Cut(_) => {}
                Edge::Leaf(_) | Edge::Output(..) => {
                    leave |= edge.key().is_some_and(|key| !targets.contains(&key));
                }
            }
        }
        // PERF: most often all paths lead to the targets, and no further set is needed.
        if level && !leave {
            let reaching = Reaching::All;
            let wanted = Self::Only {
                targets,
                lowest,
                reaching,
            };
            return (wanted, leave);
        }
        nodes.sort_unstable_by_key(|node| node.generation);
        let mut wanted = Self::Only {
            targets,
            lowest,
            reaching: Reaching::Some(FxHashSet::default()),
        };
        for node in nodes {
            if node.inputs().iter().any(|edge| wanted.follows(edge))
                && let Self::Only {
                    reaching: Reaching::Some(reaching),
                    ..
                } = &mut wanted
            {
                reaching.insert(node.address());
            }
        }
        (wanted, leave)
    }

    /// Returns whether a gradient along this edge is needed.
    fn follows(&self, edge: &Edge) -> bool {
        match (self, edge) {
            (_, Edge::None | Edge::Cut(_)) => false,
            (Self::Leaves, Edge::Leaf(_)) => self.is_target(edge),
            (Self::Leaves, Edge::Output(..)) => true,
            (Self::Only { .. }, Edge::Leaf(_)) => self.is_target(edge),
            (Self::Only { .. }, Edge::Output(node, _)) => {
                self.goes_through(node) || self.is_target(edge)
            }
        }
    }

    fn goes_through(&self, node: &Arc<Node>) -> bool {
        match self {
            Self::Leaves => true,
            Self::Only {
                lowest, reaching, ..
            } => match reaching {
                Reaching::All => node.generation > *lowest,
                Reaching::Some(reaching) => reaching.contains(&node.address()),
            },
        }
    }

    fn is_target(&self, edge: &Edge) -> bool {
        match self {
            // A leaf that was frozen after the run gets no gradient any more.
            Self::Leaves => matches!(edge, Edge::Leaf(leaf) if !leaf.is_frozen()),
            Self::Only { targets, .. } => edge.key().is_some_and(|key| targets.contains(&key)),
        }
    }

    fn is_target_output(&self, node: &Arc<Node>, slot: u32) -> bool {
        match self {
            Self::Leaves => false,
            Self::Only {
                targets,
                lowest,
                reaching,
            } => match reaching {
                Reaching::All if node.generation != *lowest => false,
                Reaching::All | Reaching::Some(_) => targets.contains(&(node.address(), slot)),
            },
        }
    }
}

/// The callback for each part of a gradient that reaches a wanted edge.
type Arrive<'a> = &'a mut dyn FnMut(&Edge, Variable);

/// A node to whose outputs cotangents are arriving.
struct Waiting<'a> {
    node: &'a Arc<Node>,
    cotangents: Items<Option<Variable>>,
}

impl<'a> Waiting<'a> {
    fn new(node: &'a Arc<Node>) -> Self {
        let cotangents = items(node.output_specs().iter().map(|_| None));
        Self { node, cotangents }
    }
}

/// The nodes that wait for their turn.
// PERF: in a history that is a chain only one node ever waits, which needs neither map nor heap.
#[derive(Default)]
struct Queue<'a> {
    only: Option<Waiting<'a>>,
    waiting: FxHashMap<usize, Waiting<'a>>,
    /// The gradients of leaves that have hooks.
    hooked: Incomplete<'a>,
    /// The latest generation comes first. Within one generation, nodes come in the order in which
    /// they were reached, so that sums are always formed in the same order.
    order: BinaryHeap<(u64, Reverse<usize>, usize)>,
    reached: usize,
}

impl<'a> Queue<'a> {
    /// Delivers a cotangent to the leaf or node that an edge leads to. A node then waits for its
    /// turn.
    fn deliver(
        &mut self,
        edge: &'a Edge,
        cotangent: Variable,
        wanted: &Wanted,
        arrive: Arrive<'_>,
    ) {
        let (node, slot) = match edge {
            Edge::Output(node, slot) => (node, *slot),
            Edge::Leaf(leaf) if wanted.is_target(edge) => match leaf.has_hooks() {
                false => return arrive(edge, cotangent),
                // Hooks get the whole gradient.
                true => {
                    if let Some(key) = edge.key() {
                        self.hooked.add(key, edge, cotangent);
                    }
                    return;
                }
            },
            Edge::Leaf(_) | Edge::Cut(_) | Edge::None => return,
        };
        let location = &mut self.wait(node).cotangents[slot as usize];
        *location = Some(match location.take() {
            Some(sum) => sum + cotangent,
            None => cotangent,
        });
    }

    /// Returns the entry of a waiting node.
    fn wait(&mut self, node: &'a Arc<Node>) -> &mut Waiting<'a> {
        if let Some(only) = self.only.take_if(|only| !Arc::ptr_eq(only.node, node)) {
            self.line_up(only.node, |_| only);
        }
        if self.only.is_none() && !self.waiting.is_empty() {
            return self.line_up(node, Waiting::new);
        }
        self.only.get_or_insert_with(|| Waiting::new(node))
    }

    fn line_up(
        &mut self,
        node: &'a Arc<Node>,
        new: impl FnOnce(&'a Arc<Node>) -> Waiting<'a>,
    ) -> &mut Waiting<'a> {
        let address = node.address();
        self.waiting.entry(address).or_insert_with(|| {
            self.order
                .push((node.generation, Reverse(self.reached), address));
            self.reached += 1;
            new(node)
        })
    }

    /// Returns the gradients of leaves with hooks that are complete after a node has been asked.
    fn complete(&mut self, node: &'a Arc<Node>, wanted: &Wanted) -> Vec<(&'a Edge, Variable)> {
        if self.hooked.is_empty() {
            return Vec::new();
        }
        let waiting = self.waiting.values().chain(&self.only);
        let waiting = waiting.map(|waiting| waiting.node);
        self.hooked
            .after(node, waiting, |edge| wanted.follows(edge))
    }

    fn next(&mut self) -> Option<Waiting<'a>> {
        if let Some(only) = self.only.take() {
            return Some(only);
        }
        let (_, _, address) = self.order.pop()?;
        self.waiting.remove(&address)
    }
}

/// The direction of a walk, and whether it records history.
#[derive(Clone, Copy)]
struct Direction<'a> {
    wanted: &'a Wanted,
    /// Whether gradients can be differentiated again.
    create_graph: bool,
    retain_grad: bool,
}

/// Walks back from `outputs` and calls `arrive` with every part of a gradient that reaches a wanted
/// edge.
///
/// Functions are recorded if an input has history. Without `create_graph`, cotangents start without
/// history at this level, and rules get values without it, so a gradient that still has history when
/// it arrives has it from a value that a rule captured. One level below, under `vmap` or `jvp`, the
/// history of an outer walk goes on in either case.
fn walk(outputs: Vec<(Edge, Variable)>, direction: Direction<'_>, arrive: Arrive<'_>) {
    let _quiet = if scope::is_attended() {
        Some(hooks::quiet())
    } else {
        None
    };
    match direction.create_graph {
        true => scope::recording(true, || walk_back(&outputs, direction, arrive)),
        false => {
            let plain = |(edge, seed): (Edge, Variable)| (edge, seed.without_history());
            let outputs: Vec<_> = outputs.into_iter().map(plain).collect();
            walk_back(&outputs, direction, arrive);
        }
    }
}

fn walk_back(outputs: &[(Edge, Variable)], direction: Direction<'_>, arrive: Arrive<'_>) {
    let wanted = direction.wanted;
    // The node whose rule is running, to be named if the rule fails.
    let asked: Cell<Option<&Arc<Node>>> = Cell::new(None);
    let walked = attempt(|| {
        let mut queue = Queue::default();
        for (edge, cotangent) in outputs {
            queue.deliver(edge, cotangent.clone(), wanted, arrive);
        }
        while let Some(Waiting {
            node,
            mut cotangents,
        }) = queue.next()
        {
            for (slot, gradient) in (0..).zip(&mut cotangents) {
                let Some(gradient) = gradient else { continue };
                node.call_hooks(slot, gradient);
                if direction.retain_grad {
                    node.retain_gradient(slot);
                }
                node.note_gradient(slot, gradient);
                if wanted.is_target_output(node, slot) {
                    arrive(&Edge::Output(Way::to(node), slot), gradient.clone());
                }
            }
            if wanted.goes_through(node) {
                if matches!(wanted, Wanted::Leaves)
                    && let Some(location) = node.inputs().iter().find_map(Edge::lost_at)
                {
                    raise(Error::LeafLost { location });
                }
                let needs = items(node.inputs().iter().map(|edge| wanted.follows(edge)));
                asked.set(Some(node));
                let cx = Context::of(node, &needs, direction.create_graph);
                let gradients = match scope::is_attended() {
                    false => cx.ask_vjp(&mut cotangents),
                    true => hooks::around_backward(node, &mut cotangents, |gy| cx.ask_vjp(gy)),
                };
                asked.set(None);
                for ((edge, gradient), needed) in node.inputs().iter().zip(gradients).zip(needs) {
                    if let Some(gradient) = gradient
                        && needed
                    {
                        queue.deliver(edge, gradient, wanted, arrive);
                    }
                }
                for (edge, gradient) in queue.complete(node, wanted) {
                    call_hooks(edge, gradient, arrive);
                }
            }
        }
        for (edge, gradient) in queue.hooked.rest() {
            call_hooks(edge, gradient, arrive);
        }
    });
    if let Err(error) = walked {
        raise(match asked.get() {
            Some(node) => node.failed(error),
            None => error,
        })
    }
}

/// Calls the hooks of a leaf with its whole gradient, which then arrives.
fn call_hooks(edge: &Edge, mut gradient: Variable, arrive: Arrive<'_>) {
    if let Edge::Leaf(leaf) = edge {
        leaf.call_hooks(&mut gradient);
    }
    arrive(edge, gradient);
}

fn insert_or_add(entry: Entry<'_, Key, Variable>, gradient: Variable) {
    match entry {
        Entry::Vacant(empty) => {
            empty.insert(gradient);
        }
        Entry::Occupied(mut sum) => {
            let old = sum.insert(Variable::constant(0.0));
            sum.insert(old + gradient);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether the nodes between had to be listed.
    fn are_listed(outputs: &[&Variable], inputs: &[&Variable]) -> bool {
        let edges = |list: &[&Variable]| list.iter().map(|x| x.edge()).collect();
        match Paths::between(edges(outputs), edges(inputs)).wanted {
            Wanted::Only { reaching, .. } => matches!(reaching, Reaching::Some(_)),
            Wanted::Leaves => unreachable!("inputs are asked for"),
        }
    }

    #[test]
    fn nodes_are_listed_only_where_paths_lead_elsewhere() {
        let (x, w) = (Variable::new(2.0), Variable::new(3.0));
        let (y, z) = (x.tanh().exp(), (&x * &w).sin());
        assert!(!are_listed(&[&y], &[&x]));
        assert!(!are_listed(&[&y, &z], &[&x, &w]));
        // The other path leads to the other leaf.
        assert!(are_listed(&[&z], &[&x]));
        // The inputs are of different generations.
        assert!(are_listed(&[&y], &[&x, &x.tanh()]));
    }
}
