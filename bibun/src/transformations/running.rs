//! The arguments that running transformations will take derivatives with respect to.

use std::cell::RefCell;

use rustc_hash::FxHashSet;

use crate::node::Edge;
use crate::scope;
use crate::surroundings::Aside;
use crate::variable::Variable;

/// A call of history, by its address and its generation.
type Place = (usize, u64);

thread_local! {
    static RUNNING: RefCell<Vec<Place>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn put_aside() -> impl Sized {
    Aside::of(&RUNNING, Vec::new())
}

/// Runs a function of arguments, recorded, whose derivatives with respect to them will be asked for.
pub(super) fn followed<T>(arguments: &[Variable], f: impl FnOnce() -> T) -> T {
    let _followed = Followed::begin(arguments);
    scope::recording(true, f)
}

/// Arguments that are followed until this is dropped.
struct Followed {
    before: usize,
}

impl Followed {
    fn begin(arguments: &[Variable]) -> Self {
        RUNNING.with_borrow_mut(|running| {
            let before = running.len();
            let place = |x: &Variable| match x.edge() {
                Edge::Output(node, _) => Some((node.address(), node.generation)),
                Edge::Leaf(_) | Edge::Cut(_) | Edge::None => None,
            };
            running.extend(arguments.iter().filter_map(place));
            Self { before }
        })
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        RUNNING.with_borrow_mut(|running| running.truncate(self.before));
    }
}

/// Returns whether one of some Variables may have been computed from an argument of a transformation that is running
/// in this thread. It is true for some that were computed meanwhile from others, too.
// PERF: it does not walk history, so that a chain of calls is not walked once for each of them.
pub(super) fn may_be_followed(variables: &[Variable]) -> bool {
    lowest_generation().is_some_and(|lowest| {
        let mut edges = variables.iter().map(Variable::edge);
        edges.any(|edge| edge.generation() >= lowest)
    })
}

/// Returns the generation of the first argument that is followed.
fn lowest_generation() -> Option<u64> {
    RUNNING.with_borrow(|running| running.iter().map(|&(_, generation)| generation).min())
}

/// Returns whether one of some Variables was computed from an argument of a transformation that is running in this
/// thread, and so has a derivative that will be asked for.
pub(crate) fn are_followed<'a>(variables: impl IntoIterator<Item = &'a Variable>) -> bool {
    let Some(lowest) = lowest_generation() else {
        return false;
    };
    RUNNING.with_borrow(|running| {
        let followed: FxHashSet<usize> = running.iter().map(|&(address, _)| address).collect();
        let mut seen: FxHashSet<usize> = FxHashSet::default();
        let mut pending: Vec<Edge> = variables.into_iter().map(Variable::edge).collect();
        while let Some(edge) = pending.pop() {
            if let Edge::Output(node, _) = edge
                && node.generation >= lowest
                && seen.insert(node.address())
            {
                if followed.contains(&node.address()) {
                    return true;
                }
                pending.extend(node.inputs().iter().cloned());
            }
        }
        false
    })
}
