//! The reverse walk: from outputs back to what they came from, asking each function's `vjp` rule.
//!
//! Nodes wait in a heap by generation, so that a node's turn comes when all cotangents of its
//! outputs have arrived. Nothing recurses; a chain may be millions of functions long.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use bibun_array::Array;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::call::calling;
use crate::context::Context;
use crate::error::{Error, attempt, raise};
use crate::function::{Items, items};
use crate::hooks;
use crate::node::{Cut, Edge, Key, Node, Way};
use crate::scope;
use crate::variable::Variable;

/// How gradients are taken.
#[derive(Clone, Debug, Default)]
pub struct GradOptions {
    /// The cotangent of each output. An empty list stands for ones, and the outputs must then have
    /// a single element each.
    pub cotangents: Vec<Variable>,
    /// Whether history is recorded on the way, so that gradients can be differentiated again.
    pub create_graph: bool,
    /// Whether `backward` keeps the gradients of everything between, not only of leaves.
    pub retain_grad: bool,
}

impl GradOptions {
    /// Records history on the way back: for derivatives of derivatives.
    ///
    /// ```
    /// use bibun::{gradients, gradients_with, GradOptions, Variable};
    /// let x = Variable::new(2.0);
    /// let y = &x * &x * &x;
    /// let dy = gradients_with(&[&y], &[&x], &GradOptions::create_graph()).remove(0).unwrap();
    /// let ddy = gradients(&[&dy], &[&x]).remove(0).unwrap();
    /// assert_eq!((dy.item::<f64>(), ddy.item::<f64>()), (12.0, 12.0));
    /// ```
    pub fn create_graph() -> Self {
        Self {
            create_graph: true,
            ..Self::default()
        }
    }

    /// Starts from these cotangents, one for each output.
    ///
    /// ```
    /// use bibun::{GradOptions, Variable};
    /// let x = Variable::new([1.0, 2.0]);
    /// let y = &x * &x;
    /// y.backward_with(&GradOptions::cotangents(&[&Variable::constant([1.0, 10.0])]));
    /// assert_eq!(x.grad().unwrap().to_vec::<f64>(), [2.0, 40.0]);
    /// ```
    pub fn cotangents(cotangents: &[&Variable]) -> Self {
        Self {
            cotangents: cotangents.iter().map(|&gy| gy.clone()).collect(),
            ..Self::default()
        }
    }
}

impl Variable {
    /// Walks history backwards and adds the gradient of this Variable, which has a single
    /// element, to the `grad` of every leaf it was computed from.
    ///
    /// # Panics
    /// If there is not just one element (see [`Variable::backward_with`] for cotangents), if no
    /// leaf took part, or if a rule fails, with the place of the forward call.
    #[track_caller]
    pub fn backward(&self) {
        self.backward_with(&GradOptions::default());
    }

    /// [`Variable::backward`] from a given cotangent, or recording history on the way.
    ///
    /// A recorded gradient remembers the leaf that holds it: such a ring is freed only after
    /// [`Variable::clear_grad`]. [`gradients_with`] makes none.
    ///
    /// # Panics
    /// If the cotangent does not look like this Variable, and as [`Variable::backward`].
    #[track_caller]
    pub fn backward_with(&self, options: &GradOptions) {
        let _called = calling("backward");
        if let Some(location) = self.edge().lost_at() {
            raise(Error::LeafLost { location });
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

/// The gradients of the sum of `outputs` with respect to `inputs` (leaves or anything between);
/// `None` where no output depends on an input. Nothing accumulates anywhere.
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
/// If an output has more than one element (see [`gradients_with`] for cotangents), a rule is missing or
/// fails, with the place of the forward call.
#[track_caller]
pub fn gradients(outputs: &[&Variable], inputs: &[&Variable]) -> Vec<Option<Variable>> {
    gradients_with(outputs, inputs, &GradOptions::default())
}

/// [`gradients`] with options: cotangents of the outputs, and whether to record history.
///
/// # Panics
/// As [`gradients`], and if cotangents do not look like the outputs.
#[track_caller]
pub fn gradients_with(
    outputs: &[&Variable],
    inputs: &[&Variable],
    options: &GradOptions,
) -> Vec<Option<Variable>> {
    let _called = calling("gradients");
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

/// The ways from outputs back to inputs: found once, walked any number of times.
pub(crate) struct Paths {
    outputs: Vec<Edge>,
    inputs: Vec<Edge>,
    wanted: Wanted,
    /// Whether the outputs also depend on something else that has history.
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

    /// Whether the outputs also depend on something else that has history, so that a derivative
    /// with respect to the inputs may be differentiated again by that.
    pub(crate) fn leave(&self) -> bool {
        self.leave
    }

    /// The gradients of the inputs, `None` where no way leads to one. Without `create_graph` they
    /// have history only from what rules captured.
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

    /// The nodes on the ways, in the order in which they ran.
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

    /// Whether a way to an input leads along this edge, through this node, and ends at this edge.
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

/// The outputs' edges with their cotangents.
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

/// What a walk is for, and so which edges are worth following.
enum Wanted {
    /// All leaves: what was recorded leads to one.
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
    /// All of a higher generation than the targets: no way leads anywhere else.
    All,
    Some(FxHashSet<usize>),
}

impl Wanted {
    /// The nodes that lead from `outputs` to `targets`, and whether any other way leaves the part
    /// of history between them.
    fn only(outputs: &[Edge], targets: &[Edge]) -> (Self, bool) {
        // Nothing of a lower generation than all targets can lead to one.
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
        // PERF: most often all ways lead to the targets, and no further set is needed.
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

    /// Whether a gradient along this edge is of use.
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
            // One that was frozen after the run takes no gradient any more.
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

/// What is done with each part of a gradient that reaches a wanted edge.
type Arrive<'a> = &'a mut dyn FnMut(&Edge, Variable);

/// A node whose outputs' cotangents are arriving.
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
// PERF: where history is a chain only one node ever waits; it needs neither map nor heap.
#[derive(Default)]
struct Queue<'a> {
    only: Option<Waiting<'a>>,
    waiting: FxHashMap<usize, Waiting<'a>>,
    /// The gradients of leaves that have hooks.
    hooked: Vec<(&'a Edge, Variable)>,
    /// The latest generation first; within one, nodes in the order in which they were reached, so
    /// that sums are always formed in the same order.
    order: BinaryHeap<(u64, Reverse<usize>, usize)>,
    reached: usize,
}

impl<'a> Queue<'a> {
    /// Takes a cotangent to where an edge leads: a leaf, or a node that it makes wait.
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
                // Hooks see the whole gradient, at the end.
                true => {
                    let mut hooked = self.hooked.iter_mut();
                    match hooked.find(|(known, _)| known.key() == edge.key()) {
                        Some((_, sum)) => *sum = &*sum + cotangent,
                        None => self.hooked.push((edge, cotangent)),
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

    /// The place where a node waits.
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

    fn next(&mut self) -> Option<Waiting<'a>> {
        if let Some(only) = self.only.take() {
            return Some(only);
        }
        let (_, _, address) = self.order.pop()?;
        self.waiting.remove(&address)
    }
}

/// Where a walk goes and what it leaves behind.
#[derive(Clone, Copy)]
struct Direction<'a> {
    wanted: &'a Wanted,
    /// Whether gradients can be differentiated again.
    create_graph: bool,
    retain_grad: bool,
}

/// Walks back from `outputs` and calls `arrive` with every part of a gradient that reaches a
/// wanted edge.
///
/// Functions are recorded if an input has history. Where none is to be created, cotangents start
/// without history at this level, and rules are given values without it: what still has history when
/// it arrives has it from something that a rule captured. One level below, under `vmap` or `jvp`, an
/// outer walk's history goes on in either case.
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
    // Whose rule is asked: the one to name if it fails.
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
            }
        }
        for (edge, mut gradient) in queue.hooked {
            if let Edge::Leaf(leaf) = edge {
                leaf.call_hooks(&mut gradient);
                arrive(edge, gradient);
            }
        }
    });
    if let Err(error) = walked {
        raise(match asked.get() {
            Some(node) => node.failed(error),
            None => error,
        })
    }
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

    /// Whether the nodes between had to be listed.
    fn are_listed(outputs: &[&Variable], inputs: &[&Variable]) -> bool {
        let edges = |list: &[&Variable]| list.iter().map(|x| x.edge()).collect();
        match Paths::between(edges(outputs), edges(inputs)).wanted {
            Wanted::Only { reaching, .. } => matches!(reaching, Reaching::Some(_)),
            Wanted::Leaves => unreachable!("inputs are asked for"),
        }
    }

    #[test]
    fn the_nodes_between_are_listed_only_where_ways_lead_elsewhere() {
        let (x, w) = (Variable::new(2.0), Variable::new(3.0));
        let (y, z) = (x.tanh().exp(), (&x * &w).sin());
        assert!(!are_listed(&[&y], &[&x]));
        assert!(!are_listed(&[&y, &z], &[&x, &w]));
        // By the other leaf.
        assert!(are_listed(&[&z], &[&x]));
        // By inputs that are not equally far back.
        assert!(are_listed(&[&y], &[&x, &x.tanh()]));
    }
}
