//! Composite functions, each shown as one.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{Call, Datum, Frame, History};
use crate::call::Composite;
use crate::node::Creator;

/// A composite function with parts in this history.
struct Found {
    composite: Arc<Composite>,
    parent: Option<usize>,
    /// The number of calls that are parts of it, or of its parts.
    size: usize,
    /// The link that it was called in.
    link: Option<usize>,
    frame: Option<usize>,
}

impl History {
    /// Puts a frame around the parts of every composite function with several parts, after the
    /// existing frames. A composite with a single part is that part, with the composite's name.
    pub(super) fn frame_composites(&mut self) {
        let mut found: Vec<Found> = Vec::new();
        let mut known: FxHashMap<usize, usize> = FxHashMap::default();
        let own = self.calls.iter().map(|call| {
            let innermost = call.first().composite()?;
            // From the inside outwards as far as composites are new, then back.
            let mut new = Vec::new();
            let mut around = Some(innermost);
            let mut parent = None;
            while let Some(composite) = around {
                parent = known.get(&address(composite)).copied();
                if parent.is_some() {
                    break;
                }
                new.push(composite);
                around = composite.parent.as_ref();
            }
            for composite in new.into_iter().rev() {
                known.insert(address(composite), found.len());
                found.push(Found {
                    composite: Arc::clone(composite),
                    parent,
                    size: 0,
                    link: call.frame,
                    frame: None,
                });
                parent = Some(found.len() - 1);
            }
            let mut place = parent;
            while let Some(at) = place {
                found[at].size += 1;
                place = found[at].parent;
            }
            parent
        });
        let own: Vec<Option<usize>> = own.collect();
        for at in 0..found.len() {
            let (parent, link) = (found[at].parent, found[at].link);
            let around = parent.map_or(link, |parent| found[parent].frame);
            // Two frames around the same calls are one.
            let is_same = parent.is_some_and(|parent| found[parent].size == found[at].size);
            if found[at].size < 2 || is_same {
                found[at].frame = around;
                continue;
            }
            let Composite { name, location, .. } = *found[at].composite;
            found[at].frame = Some(self.frames.len());
            self.frames.push(Frame {
                name: name.to_owned(),
                parent: around,
                location: Some(location),
            });
        }
        for (call, own) in self.calls.iter_mut().zip(own) {
            call.frame = own.map_or(call.frame, |at| found[at].frame);
            let mut place = own;
            while let Some(at) = place.filter(|&at| found[at].size == 1) {
                call.name = found[at].composite.name;
                place = found[at].parent;
            }
        }
    }

    /// Returns the history that the table and pictures show.
    pub(super) fn shown(&self) -> Cow<'_, Self> {
        match self.is_unfolded || !self.frames.iter().any(Frame::is_function) {
            true => Cow::Borrowed(self),
            false => Cow::Owned(self.folded().0),
        }
    }

    /// Returns the same history with every composite function as one call, and the number that each
    /// call has there.
    pub(super) fn folded(&self) -> (Self, Vec<usize>) {
        // For each call, the outermost composite function around it.
        let whole = |call: &Call| {
            let around = self.enclosing(call.frame);
            around.filter(|&at| self.frames[at].is_function()).last()
        };
        let mut numbers: FxHashMap<usize, usize> = FxHashMap::default();
        let mut groups: Vec<(Option<usize>, Vec<usize>)> = Vec::new();
        let mut group_of = Vec::with_capacity(self.calls.len());
        for (at, call) in self.calls.iter().enumerate() {
            let whole = whole(call);
            let known = whole.and_then(|whole| numbers.get(&whole).copied());
            let group = known.unwrap_or_else(|| {
                groups.push((whole, Vec::new()));
                groups.len() - 1
            });
            numbers.extend(whole.map(|whole| (whole, group)));
            groups[group].1.push(at);
            group_of.push(group);
        }
        let order = self.in_order(&group_of, groups.len());
        let mut place_of = vec![0; groups.len()];
        for (place, &group) in order.iter().enumerate() {
            place_of[group] = place;
        }

        // Hides values that are made and used in only one group, and single numbers.
        let is_seen = |datum: &Datum, at: usize| {
            let Some(maker) = datum.maker.map(|maker| group_of[maker]) else {
                let mut users = datum.consumers.iter().map(|&call| &groups[group_of[call]]);
                let is_inside =
                    !datum.consumers.is_empty() && users.all(|(whole, _)| whole.is_some());
                return !(is_inside && datum.kind() == "constant" && datum.is_single());
            };
            groups[maker].1.len() == 1
                || self.outputs.contains(&at)
                || datum.consumers.iter().any(|&user| group_of[user] != maker)
        };
        let mut number = vec![None; self.data.len()];
        let mut data: Vec<Datum> = Vec::new();
        for (at, datum) in self.data.iter().enumerate() {
            if !is_seen(datum, at) {
                continue;
            }
            let place = |call: &usize| place_of[group_of[*call]];
            let mut consumers: Vec<usize> = datum.consumers.iter().map(place).collect();
            consumers.sort_unstable();
            consumers.dedup();
            number[at] = Some(data.len());
            data.push(Datum {
                entry: datum.entry.clone(),
                parameter: datum.parameter.clone(),
                maker: datum.maker.as_ref().map(place),
                consumers,
                frame: None,
            });
        }

        let calls = order.iter().map(|&group| {
            let (whole, members) = &groups[group];
            let calls = || members.iter().map(|&at| &self.calls[at]);
            if let ([only], None) = (&members[..], whole) {
                let call = &self.calls[*only];
                let renumbered =
                    |list: &[usize]| list.iter().filter_map(|&at| number[at]).collect();
                return Call {
                    name: call.name,
                    parts: call.parts.clone(),
                    inputs: renumbered(&call.inputs),
                    outputs: renumbered(&call.outputs),
                    frame: call.frame,
                };
            }
            let is_own = |at: &usize| {
                let maker = self.data[*at].maker;
                maker.is_some_and(|maker| group_of[maker] == group)
            };
            let mut inputs: Vec<usize> = Vec::new();
            for at in calls()
                .flat_map(|call| &call.inputs)
                .filter(|at| !is_own(at))
            {
                if let Some(at) = number[*at]
                    && !inputs.contains(&at)
                {
                    inputs.push(at);
                }
            }
            // Constants come after values with a gradient.
            inputs.sort_by_key(|&at| (data[at].kind() == "constant", at));
            let outputs = calls().flat_map(|call| &call.outputs);
            let frame = whole.map(|whole| &self.frames[whole]);
            Call {
                name: whole_name(self.calls[members[0]].first()),
                parts: calls().flat_map(|call| call.parts.clone()).collect(),
                inputs,
                outputs: outputs.filter_map(|&at| number[at]).collect(),
                frame: frame.and_then(|frame| frame.parent),
            }
        });
        let mut folded = Self {
            calls: calls.collect(),
            data,
            outputs: self.outputs.iter().filter_map(|&at| number[at]).collect(),
            frames: Vec::new(),
            is_unfolded: true,
        };
        let links = self.frames.iter().take_while(|frame| !frame.is_function());
        folded.frames.extend(links.map(Frame::clone));
        folded.place_data();
        let numbers = group_of.iter().map(|&group| place_of[group]).collect();
        (folded, numbers)
    }

    /// Returns groups of calls in an order in which they may have run, close to the order of the
    /// calls.
    fn in_order(&self, group_of: &[usize], groups: usize) -> Vec<usize> {
        let mut after: Vec<Vec<usize>> = vec![Vec::new(); groups];
        let mut waiting = vec![0usize; groups];
        for (at, &group) in group_of.iter().enumerate() {
            for next in self.next(at).map(|call| group_of[call]) {
                if next != group {
                    after[group].push(next);
                    waiting[next] += 1;
                }
            }
        }
        let ready = (0..groups).filter(|&group| waiting[group] == 0);
        let mut ready: BinaryHeap<Reverse<usize>> = ready.map(Reverse).collect();
        let mut order = Vec::with_capacity(groups);
        while let Some(Reverse(group)) = ready.pop() {
            order.push(group);
            for &next in &after[group] {
                waiting[next] -= 1;
                if waiting[next] == 0 {
                    ready.push(Reverse(next));
                }
            }
        }
        debug_assert_eq!(
            order.len(),
            groups,
            "a function is over before what it gives is used"
        );
        order
    }
}

/// Returns the name of the function that the user called.
fn whole_name(part: &Creator) -> &'static str {
    let around = std::iter::successors(part.composite(), |inner| inner.parent.as_ref());
    around
        .last()
        .map_or(part.name(), |outermost| outermost.name)
}

fn address(composite: &Arc<Composite>) -> usize {
    Arc::as_ptr(composite).addr()
}
