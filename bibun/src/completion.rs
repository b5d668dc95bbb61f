//! The moment at which the gradient of a leaf is complete: when the last function that used the leaf has
//! been asked for its part. Hooks get it then, while the walk goes on.

use std::sync::Arc;

use indexmap::IndexMap;
use indexmap::map::Entry;
use rustc_hash::{FxBuildHasher, FxHashSet};

use crate::node::{Edge, Key, Node};
use crate::variable::Variable;

/// The leaves with hooks that gradients are arriving at, in the order in which they were reached.
// PERF: without hooks nothing is ever counted.
#[derive(Default)]
pub(crate) struct Incomplete<'a> {
    leaves: IndexMap<Key, Parts<'a>, FxBuildHasher>,
    is_counted: bool,
}

/// The gradient of a leaf so far, and the number of uses of the leaf that have not been asked yet.
struct Parts<'a> {
    edge: &'a Edge,
    sum: Option<Variable>,
    uses_left: usize,
}

impl<'a> Incomplete<'a> {
    pub(crate) fn is_empty(&self) -> bool {
        self.leaves.is_empty()
    }

    fn of(&mut self, key: Key, edge: &'a Edge) -> &mut Parts<'a> {
        self.leaves.entry(key).or_insert(Parts {
            edge,
            sum: None,
            uses_left: 0,
        })
    }

    pub(crate) fn add(&mut self, key: Key, edge: &'a Edge, part: Variable) {
        let parts = self.of(key, edge);
        parts.sum = Some(match parts.sum.take() {
            Some(sum) => sum + part,
            None => part,
        });
    }

    /// Takes out the gradients that are complete after `node` has been asked. When the first part of all
    /// has arrived, the nodes behind `waiting` are searched once for other uses of leaves with hooks.
    pub(crate) fn after(
        &mut self,
        node: &'a Arc<Node>,
        waiting: impl Iterator<Item = &'a Arc<Node>>,
        is_wanted: impl Fn(&Edge) -> bool,
    ) -> Vec<(&'a Edge, Variable)> {
        let mut complete = Vec::new();
        if self.is_counted {
            for edge in hooked(node, &is_wanted) {
                if let Some(key) = edge.key()
                    && let Entry::Occupied(mut parts) = self.leaves.entry(key)
                {
                    let left = parts.get().uses_left.saturating_sub(1);
                    parts.get_mut().uses_left = left;
                    if left == 0 {
                        let Parts { edge, sum, .. } = parts.shift_remove();
                        complete.extend(sum.map(|sum| (edge, sum)));
                    }
                }
            }
            return complete;
        }
        self.is_counted = true;
        let mut seen: FxHashSet<usize> = FxHashSet::default();
        let mut pending: Vec<&Arc<Node>> = waiting.collect();
        while let Some(node) = pending.pop() {
            if seen.insert(node.address()) {
                for edge in hooked(node, &is_wanted) {
                    if let Some(key) = edge.key() {
                        self.of(key, edge).uses_left += 1;
                    }
                }
                pending.extend(node.inputs().iter().filter_map(|edge| match edge {
                    Edge::Output(node, _) if is_wanted(edge) => Some(&**node),
                    Edge::Output(..) | Edge::Leaf(_) | Edge::Cut(_) | Edge::None => None,
                }));
            }
        }
        self.leaves.retain(|_, parts| {
            if parts.uses_left == 0 {
                complete.extend(parts.sum.take().map(|sum| (parts.edge, sum)));
            }
            parts.uses_left > 0
        });
        complete
    }

    /// Returns the gradients that no use has completed, because no gradient arrived at a function
    /// between.
    pub(crate) fn rest(self) -> impl Iterator<Item = (&'a Edge, Variable)> {
        let parts = self.leaves.into_values();
        parts.filter_map(|parts| Some((parts.edge, parts.sum?)))
    }
}

/// Returns the wanted inputs of a node that are leaves with hooks.
fn hooked(node: &Arc<Node>, is_wanted: impl Fn(&Edge) -> bool) -> impl Iterator<Item = &Edge> {
    let edges = node.inputs().iter();
    edges
        .filter(move |edge| matches!(edge, Edge::Leaf(leaf) if leaf.has_hooks()) && is_wanted(edge))
}
