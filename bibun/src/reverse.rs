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

use crate::context::{Call, Context};
use crate::error::{Error, attempt, raise};
use crate::function::{Items, items};
use crate::node::{Edge, Key, Node};
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
    /// use bibun::{grad, grad_with, GradOptions, Variable};
    /// let x = Variable::new(2.0);
    /// let y = &x * &x * &x;
    /// let dy = grad_with(&[&y], &[&x], &GradOptions::create_graph()).remove(0).unwrap();
    /// let ddy = grad(&[&dy], &[&x]).remove(0).unwrap();
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
    /// [`Variable::clear_grad`]. [`grad_with`] makes none.
    ///
    /// # Panics
    /// If the cotangent does not look like this Variable, and as [`Variable::backward`].
    #[track_caller]
    pub fn backward_with(&self, options: &GradOptions) {
        if !self.requires_grad() {
            let what = "no leaf took part in this Variable, so it has no gradient";
            raise(Error::argument("backward", what));
        }
        let outputs = seeded("backward", &[self], options);
        scope::recording(options.create_graph, || {
            walk(
                &outputs,
                &Wanted::Leaves,
                options.retain_grad,
                &mut |edge, gradient| {
                    edge.add_gradient(gradient);
                },
            );
        });
    }
}

/// The gradients of the sum of `outputs` with respect to `inputs` (leaves or anything between);
/// `None` where no output depends on an input. Nothing accumulates anywhere.
///
/// ```
/// use bibun::{grad, Variable};
/// let x = Variable::new([1.0, 2.0]);
/// let z = Variable::new(1.0);
/// let y = (&x * &x).sum(..);
/// let gradients = grad(&[&y], &[&x, &z]);
/// assert_eq!(gradients[0].as_ref().unwrap().to_vec::<f64>(), [2.0, 4.0]);
/// assert!(gradients[1].is_none());
/// ```
///
/// # Panics
/// If an output has more than one element (see [`grad_with`] for cotangents), a rule is missing or
/// fails, with the place of the forward call.
#[track_caller]
pub fn grad(outputs: &[&Variable], inputs: &[&Variable]) -> Vec<Option<Variable>> {
    grad_with(outputs, inputs, &GradOptions::default())
}

/// [`grad`] with options: cotangents of the outputs, and whether to record history.
///
/// # Panics
/// As [`grad`], and if cotangents do not look like the outputs.
#[track_caller]
pub fn grad_with(
    outputs: &[&Variable],
    inputs: &[&Variable],
    options: &GradOptions,
) -> Vec<Option<Variable>> {
    let outputs = seeded("grad", outputs, options);
    let targets: Vec<Edge> = inputs.iter().map(|input| input.edge()).collect();
    let wanted = Wanted::only(&outputs, &targets);
    let mut found: FxHashMap<Key, Variable> = FxHashMap::default();
    scope::recording(options.create_graph, || {
        walk(&outputs, &wanted, false, &mut |edge, gradient| {
            if let Some(key) = edge.key() {
                insert_or_add(found.entry(key), gradient);
            }
        });
    });
    let find = |target: &Edge| target.key().and_then(|key| found.get(&key).cloned());
    targets.iter().map(find).collect()
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
        reaching: FxHashSet<usize>,
    },
}

impl Wanted {
    fn only(outputs: &[(Edge, Variable)], targets: &[Edge]) -> Self {
        // Nothing of a lower generation than all targets can lead to one.
        let lowest = targets
            .iter()
            .map(Edge::generation)
            .min()
            .unwrap_or(u64::MAX);
        let targets: FxHashSet<Key> = targets.iter().filter_map(Edge::key).collect();
        let mut seen: FxHashSet<usize> = FxHashSet::default();
        let mut nodes: Vec<&Arc<Node>> = Vec::new();
        let mut pending: Vec<&Edge> = outputs.iter().map(|(edge, _)| edge).collect();
        while let Some(edge) = pending.pop() {
            if let Edge::Output(node, _) = edge
                && node.generation > lowest
                && seen.insert(node.address())
            {
                nodes.push(node);
                pending.extend(node.inputs());
            }
        }
        nodes.sort_unstable_by_key(|node| node.generation);
        let mut wanted = Self::Only {
            targets,
            reaching: FxHashSet::default(),
        };
        for node in nodes {
            if node.inputs().iter().any(|edge| wanted.follows(edge))
                && let Self::Only { reaching, .. } = &mut wanted
            {
                reaching.insert(node.address());
            }
        }
        wanted
    }

    /// Whether a gradient along this edge is of use.
    fn follows(&self, edge: &Edge) -> bool {
        match (self, edge) {
            (_, Edge::None) => false,
            (Self::Leaves, _) => true,
            (Self::Only { .. }, Edge::Leaf(_)) => self.is_target(edge),
            (Self::Only { .. }, Edge::Output(node, _)) => {
                self.is_target(edge) || self.goes_through(node)
            }
        }
    }

    fn goes_through(&self, node: &Arc<Node>) -> bool {
        match self {
            Self::Leaves => true,
            Self::Only { reaching, .. } => reaching.contains(&node.address()),
        }
    }

    fn is_target(&self, edge: &Edge) -> bool {
        match self {
            Self::Leaves => matches!(edge, Edge::Leaf(_)),
            Self::Only { targets, .. } => edge.key().is_some_and(|key| targets.contains(&key)),
        }
    }

    fn is_target_output(&self, node: &Arc<Node>, slot: u32) -> bool {
        match self {
            Self::Leaves => false,
            Self::Only { targets, .. } => targets.contains(&(node.address(), slot)),
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
            Edge::Leaf(_) if wanted.is_target(edge) => return arrive(edge, cotangent),
            Edge::Leaf(_) | Edge::None => return,
        };
        let place = &mut self.wait(node).cotangents[slot as usize];
        *place = Some(match place.take() {
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

/// Walks back from `outputs` and calls `arrive` with every part of a gradient that reaches a
/// wanted edge.
fn walk(outputs: &[(Edge, Variable)], wanted: &Wanted, retain_grad: bool, arrive: Arrive<'_>) {
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
            for (slot, gradient) in (0..).zip(&cotangents) {
                let Some(gradient) = gradient else { continue };
                if retain_grad {
                    node.retain_gradient(slot);
                }
                node.note_gradient(slot, gradient);
                if wanted.is_target_output(node, slot) {
                    arrive(&Edge::Output(Arc::clone(node), slot), gradient.clone());
                }
            }
            if wanted.goes_through(node) {
                let needs = items(node.inputs().iter().map(|edge| wanted.follows(edge)));
                asked.set(Some(node));
                let gradients = pull_back(node, &mut cotangents, &needs);
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
    });
    if let Err(error) = walked {
        raise(match asked.get() {
            Some(node) => Error::InGradient {
                function: node.function().name(),
                place: node.place,
                source: Box::new(error),
            },
            None => error,
        })
    }
}

/// Asks a node's rule for the cotangents of its inputs.
fn pull_back(
    node: &Arc<Node>,
    cotangents: &mut [Option<Variable>],
    needs: &[bool],
) -> Items<Option<Variable>> {
    for (cotangent, spec) in cotangents.iter_mut().zip(node.output_specs()) {
        cotangent.get_or_insert_with(|| {
            Variable::constant(Array::zeros(spec.shape.clone(), spec.dtype))
        });
    }
    let cx = Context {
        call: Call::Node(node),
        needs,
    };
    let gradients = node.function().vjp(&cx, cotangents);
    assert_eq!(
        gradients.len(),
        node.inputs().len(),
        "{}: wrong number of gradients",
        node.function().name()
    );
    for (i, (gradient, expected)) in gradients.iter().zip(node.input_specs()).enumerate() {
        if let Some(gradient) = gradient
            && needs[i]
            && !gradient.has_spec(expected)
        {
            raise(Error::WrongRule {
                function: node.function().name(),
                rule: "vjp",
                argument: format!("input {i}"),
                found: Box::new(gradient.spec()),
                expected: Box::new(expected.clone()),
            });
        }
    }
    gradients
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
