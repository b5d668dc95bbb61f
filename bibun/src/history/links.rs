//! The functions that belong to each link of a model.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::{Frame, History};
use crate::links::Chain;

impl History {
    /// Names the parameters as a model does, and finds the functions of its links, so that they can
    /// be shown together and folded.
    ///
    /// A function that takes the parameter `layers/0/weight` belongs to the link `layers/0`, which is
    /// part of `layers`. A link is closed: functions between two of its functions belong to it, too.
    /// If several links are interleaved (two cells called in turns, for example), they cannot be told
    /// apart, and only the link around all of them is shown. Parameters and single numbers (if their
    /// value is still there) that are used only inside a link are shown in it; other data are its
    /// inputs.
    ///
    /// Another call replaces the links. A pair of models, `(&a, &b)`, is a Chain as well.
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::links::{Linear, Link};
    /// use bibun::{history, Variable};
    /// let g = &mut Generator::new(0);
    /// let layers = [Linear::new(3, 4, g), Linear::new(4, 2, g)];
    /// let x = Variable::constant([[1f32, 2.0, 3.0]]);
    /// let y = layers[1].forward(&layers[0].forward(&x).tanh());
    /// let text = history(&y).with_links(&layers).to_string();
    /// assert!(text.contains("0/weight [4, 3], 0/bias [4] -> [1, 4]"));
    /// ```
    #[must_use]
    pub fn with_links<C: Chain + ?Sized>(mut self, model: &C) -> Self {
        let mut leaves = FxHashMap::default();
        for (at, datum) in self.data.iter_mut().enumerate() {
            datum.parameter = None;
            leaves.extend(datum.entry.key().map(|key| (key, at)));
        }
        for (name, parameter) in model.parameters() {
            if let Some(&at) = parameter.key().and_then(|key| leaves.get(&key)) {
                self.data[at].parameter = Some(name);
            }
        }
        // A composite function belongs to a link as a whole.
        self.set_frames(Vec::new(), |_| None);
        let (folded, number) = self.folded();
        let mut tree = Outline::of(&folded);
        let links = tree.place(&folded);
        self.set_frames(links, |call| tree.placed[number[call]]);
        self.place_data();
        self
    }

    /// Puts calls into links, and frames around the parts of functions.
    fn set_frames(&mut self, links: Vec<Frame>, link: impl Fn(usize) -> Option<usize>) {
        self.frames = links;
        for (at, call) in self.calls.iter_mut().enumerate() {
            call.frame = link(at);
        }
        self.frame_composites();
    }

    /// Returns the calls that use the outputs of a call.
    pub(super) fn next(&self, call: usize) -> impl Iterator<Item = usize> {
        let outputs = self.calls[call].outputs.iter();
        outputs.flat_map(|&output| self.data[output].consumers.iter().copied())
    }

    /// Returns the calls that made the inputs of a call.
    fn before(&self, call: usize) -> impl Iterator<Item = usize> {
        let inputs = self.calls[call].inputs.iter();
        inputs.filter_map(|&input| self.data[input].maker)
    }

    /// Puts data into the frames of the calls that use them.
    pub(super) fn place_data(&mut self) {
        for at in 0..self.data.len() {
            let datum = &self.data[at];
            let mut users = datum.consumers.iter().map(|&call| self.calls[call].frame);
            let place = match datum.maker {
                // A result is shown outside of the frames that do not use it any more.
                Some(maker) => {
                    let mut place = self.calls[maker].frame;
                    while let Some(frame) = place
                        && !users.clone().any(|user| self.is_inside(user, frame))
                    {
                        place = self.frames[frame].parent;
                    }
                    place
                }
                None if datum.parameter.is_some() || datum.is_single() => {
                    let first = users.next().flatten();
                    users.fold(first, |place, user| self.common(place, user))
                }
                None => None,
            };
            self.data[at].frame = place;
        }
    }

    /// Returns whether a place is a frame or is inside it.
    fn is_inside(&self, place: Option<usize>, frame: usize) -> bool {
        self.enclosing(place).any(|place| place == frame)
    }

    /// Returns a place and all frames around it, from the innermost.
    pub(super) fn enclosing(&self, place: Option<usize>) -> impl Iterator<Item = usize> {
        std::iter::successors(place, |&frame| self.frames[frame].parent)
    }

    /// Returns the innermost frame around both.
    fn common(&self, a: Option<usize>, b: Option<usize>) -> Option<usize> {
        self.enclosing(a).find(|&frame| self.is_inside(b, frame))
    }
}

/// The links that parameters name, before it is known which of them can be shown.
struct Outline {
    paths: Vec<String>,
    children: Vec<Vec<usize>>,
    /// For each call, the link of its parameters and all links around that link.
    owners: Vec<Vec<usize>>,
    /// For each link, the calls inside it, including those between them, in order.
    closures: Vec<Vec<usize>>,
    /// For each call, the frame where it is shown.
    placed: Vec<Option<usize>>,
}

impl Outline {
    fn of(history: &History) -> Self {
        let mut tree = Self {
            paths: Vec::new(),
            children: Vec::new(),
            owners: Vec::new(),
            closures: Vec::new(),
            placed: vec![None; history.calls.len()],
        };
        let mut known = BTreeMap::new();
        for call in &history.calls {
            let parameters = call.inputs.iter();
            let parameters = parameters.filter_map(|&at| history.data[at].parameter.as_deref());
            let paths = parameters.map(|name| name.rsplit_once('/').map_or("", |(path, _)| path));
            let path = paths.reduce(common_path).unwrap_or_default();
            let mut owners: Vec<usize> = Vec::new();
            let ends = path.match_indices('/').map(|(end, _)| end);
            for end in ends.chain((!path.is_empty()).then_some(path.len())) {
                let link = *known.entry(&path[..end]).or_insert_with(|| {
                    tree.paths.push(path[..end].to_owned());
                    tree.children.push(Vec::new());
                    if let Some(&parent) = owners.last() {
                        tree.children[parent].push(tree.paths.len() - 1);
                    }
                    tree.paths.len() - 1
                });
                owners.push(link);
            }
            tree.owners.push(owners);
        }
        let mut members = vec![Vec::new(); tree.paths.len()];
        for (call, owners) in tree.owners.iter().enumerate() {
            for &link in owners {
                members[link].push(call);
            }
        }
        let closures = members.iter().map(|members| closure(history, members));
        tree.closures = closures.collect();
        tree
    }

    /// Finds for each call the innermost link that can be shown around it.
    fn place(&mut self, history: &History) -> Vec<Frame> {
        let mut links: Vec<Frame> = Vec::new();
        let inner: Vec<bool> = {
            let mut inner = vec![false; self.paths.len()];
            for &child in self.children.iter().flatten() {
                inner[child] = true;
            }
            inner
        };
        let outermost = (0..self.paths.len()).filter(|&link| !inner[link]);
        let mut pending = vec![(
            None,
            outermost.collect(),
            (0..history.calls.len()).collect(),
        )];
        while let Some((parent, candidates, calls)) = pending.pop() {
            for (link, calls) in self.divide(history, candidates, calls) {
                let place = Some(links.len());
                links.push(Frame {
                    name: self.paths[link].clone(),
                    parent,
                    location: None,
                });
                for &call in &calls {
                    self.placed[call] = place;
                }
                pending.push((place, self.children[link].clone(), calls));
            }
        }
        links
    }

    /// Divides calls among links that are not interleaved. Links that are interleaved are replaced by
    /// their parts.
    fn divide(
        &self,
        history: &History,
        mut candidates: Vec<usize>,
        calls: Vec<usize>,
    ) -> Vec<(usize, Vec<usize>)> {
        loop {
            let mut vertices: FxHashMap<usize, usize> = FxHashMap::default();
            for &call in &calls {
                let owned = |link: &&usize| self.owners[call].contains(link);
                let around = |link: &&usize| self.closures[**link].binary_search(&call).is_ok();
                let mut around = candidates.iter().filter(around);
                let link = match candidates.iter().find(owned) {
                    Some(owner) => Some(owner),
                    None => around.next().filter(|_| around.next().is_none()),
                };
                // Links come first, then the calls that are in none of them.
                let vertex = link.map_or(self.paths.len() + call, |&link| link);
                vertices.insert(call, vertex);
            }
            let mut next: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
            for &call in &calls {
                let vertex = vertices[&call];
                let after = history.next(call).filter_map(|call| vertices.get(&call));
                let after = after.copied().filter(|&after| after != vertex);
                next.entry(vertex).or_default().extend(after);
            }
            let cyclic = on_cycles(&next);
            let (tangled, clear): (Vec<usize>, Vec<usize>) =
                candidates.iter().partition(|link| cyclic.contains(link));
            if tangled.is_empty() {
                let mut parts: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
                for &call in calls
                    .iter()
                    .filter(|call| vertices[call] < self.paths.len())
                {
                    parts.entry(vertices[&call]).or_default().push(call);
                }
                return parts.into_iter().collect();
            }
            candidates = clear;
            candidates.extend(tangled.iter().flat_map(|&link| &self.children[link]));
        }
    }
}

/// Returns the longest path that both begin with.
fn common_path<'a>(a: &'a str, b: &str) -> &'a str {
    let mut end = 0;
    for (part, other) in a.split('/').zip(b.split('/')) {
        if part != other {
            break;
        }
        end += part.len() + 1;
    }
    &a[..end.saturating_sub(1).min(a.len())]
}

/// Returns the calls and all calls between two of them, in order.
fn closure(history: &History, members: &[usize]) -> Vec<usize> {
    let (Some(&first), Some(&last)) = (members.first(), members.last()) else {
        return Vec::new();
    };
    let mut after = vec![false; last - first + 1];
    for &call in members {
        after[call - first] = true;
    }
    let mut before = after.clone();
    for call in first..=last {
        let mut makers = history.before(call).filter(|&maker| maker >= first);
        after[call - first] |= makers.any(|maker| after[maker - first]);
    }
    for call in (first..=last).rev() {
        let mut users = history.next(call).filter(|&user| user <= last);
        before[call - first] |= users.any(|user| before[user - first]);
    }
    let calls = first..=last;
    calls
        .filter(|call| after[call - first] && before[call - first])
        .collect()
}

/// Returns the vertices that can be reached from themselves (Tarjan's strongly connected components,
/// without recursion).
fn on_cycles(next: &BTreeMap<usize, Vec<usize>>) -> Vec<usize> {
    let mut order: FxHashMap<usize, usize> = FxHashMap::default();
    let mut lowest: FxHashMap<usize, usize> = FxHashMap::default();
    let mut open: Vec<usize> = Vec::new();
    let mut closed: rustc_hash::FxHashSet<usize> = rustc_hash::FxHashSet::default();
    let mut cyclic = Vec::new();
    for &root in next.keys() {
        let mut path: Vec<(usize, usize)> = Vec::new();
        if !order.contains_key(&root) {
            path.push((root, 0));
        }
        while let Some((vertex, tried)) = path.pop() {
            if tried == 0 {
                order.insert(vertex, order.len());
                lowest.insert(vertex, order[&vertex]);
                open.push(vertex);
            } else {
                let child = next[&vertex][tried - 1];
                if !closed.contains(&child) {
                    let low = lowest[&vertex].min(lowest[&child]);
                    lowest.insert(vertex, low);
                }
            }
            if let Some(&child) = next[&vertex].get(tried) {
                path.push((vertex, tried + 1));
                if !order.contains_key(&child) {
                    path.push((child, 0));
                }
            } else if lowest[&vertex] == order[&vertex] {
                let from = open.iter().rposition(|&other| other == vertex);
                let component = open.split_off(from.expect("it is open"));
                closed.extend(&component);
                if component.len() > 1 {
                    cyclic.extend(component);
                }
            }
        }
    }
    cyclic
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_common_beginnings() {
        assert_eq!(common_path("layers/0", "layers/1"), "layers");
        assert_eq!(common_path("layers/0", "layers/0"), "layers/0");
        assert_eq!(common_path("layers", "layers/1"), "layers");
        assert_eq!(common_path("layer", "layers"), "");
        assert_eq!(common_path("", "a"), "");
    }

    #[test]
    fn cycles_are_found() {
        let graph = BTreeMap::from([
            (0, vec![1]),
            (1, vec![2, 3]),
            (2, vec![1]),
            (3, vec![4]),
            (4, vec![]),
            (5, vec![6, 0]),
            (6, vec![5]),
        ]);
        let mut cyclic = on_cycles(&graph);
        cyclic.sort();
        assert_eq!(cyclic, [1, 2, 5, 6]);
    }
}
