//! The programs of a function, and the number of its traces.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use bibun_array::Array;

use crate::error::{Error, raise};
use crate::locks::lock;

/// The number of traces so far, and the most that are allowed.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) traces: AtomicUsize,
    pub(super) limit: AtomicUsize,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            traces: AtomicUsize::new(0),
            limit: AtomicUsize::new(usize::MAX),
        }
    }
}

impl Counts {
    fn is_reached(&self) -> bool {
        self.traces.load(Ordering::Relaxed) >= self.limit.load(Ordering::Relaxed)
    }

    /// Counts one more trace, unless the limit is reached.
    fn add(&self) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        let next = |traces| (traces < limit).then_some(traces + 1);
        let traces = &self.traces;
        traces
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next)
            .is_ok()
    }

    fn refuse(&self, inputs: &[Array]) -> ! {
        let limit = self.limit.load(Ordering::Relaxed);
        let specs = inputs
            .iter()
            .map(|x| format!("{} {}", x.dtype(), x.shape()));
        let what = format!(
            "trace {} of at most {limit}, for inputs {}: each list of shapes, dtypes, strides and plain \
             fields is traced once, so call it with the same ones, or raise the limit",
            limit.saturating_add(1),
            specs.collect::<Vec<_>>().join(", ")
        );
        raise(Error::argument("compile", what))
    }
}

/// Up to `KEPT` programs of a function, each for other inputs. The first stays; of the others, the one that was not
/// used for longest goes if there are too many.
pub(super) struct Programs<T, const KEPT: usize> {
    // PERF: most functions have no other, and it is found without a lock.
    first: OnceLock<T>,
    /// Whether the first was used last.
    is_first_last: AtomicBool,
    /// The one that was used last is the last.
    others: Mutex<Vec<T>>,
}

impl<T, const KEPT: usize> Default for Programs<T, KEPT> {
    fn default() -> Self {
        Self {
            first: OnceLock::new(),
            is_first_last: AtomicBool::new(true),
            others: Mutex::default(),
        }
    }
}

impl<T: Clone, const KEPT: usize> Programs<T, KEPT> {
    /// The program that was used last.
    pub(super) fn last(&self) -> Option<T> {
        self.find_last(|program| Some(program.clone()))
    }

    /// The first of what `of` finds in a program, beginning with the one that was used last.
    pub(super) fn find_last<U>(&self, mut of: impl FnMut(&T) -> Option<U>) -> Option<U> {
        let is_first_last = self.is_first_last.load(Ordering::Relaxed);
        let first = |of: &mut dyn FnMut(&T) -> Option<U>| self.first.get().and_then(of);
        if is_first_last && let Some(found) = first(&mut of) {
            return Some(found);
        }
        let found = lock(&self.others).iter().rev().find_map(&mut of);
        found.or_else(|| first(&mut of))
    }

    pub(super) fn get(&self, fits: impl Fn(&T) -> bool) -> Option<Cow<'_, T>> {
        if let Some(first) = self.get_first(&fits) {
            return Some(Cow::Borrowed(first));
        }
        self.get_other(&mut lock(&self.others), fits)
            .map(Cow::Owned)
    }

    fn get_first(&self, fits: impl Fn(&T) -> bool) -> Option<&T> {
        let first = self.first.get().filter(|first| fits(first))?;
        if !self.is_first_last.load(Ordering::Relaxed) {
            self.is_first_last.store(true, Ordering::Relaxed);
        }
        Some(first)
    }

    fn get_other(&self, others: &mut [T], fits: impl Fn(&T) -> bool) -> Option<T> {
        let known = others.iter().rposition(fits)?;
        self.is_first_last.store(false, Ordering::Relaxed);
        others[known..].rotate_left(1);
        others.last().cloned()
    }

    /// Returns the program that `fits` these inputs, or traces it if there is none.
    pub(super) fn get_or_trace(
        &self,
        counts: &Counts,
        inputs: &[Array],
        fits: impl Fn(&T) -> bool,
        trace: impl FnOnce() -> T,
    ) -> T {
        // In this order: whoever has used up the limit has put its program there before.
        let is_reached = counts.is_reached();
        if let Some(known) = self.get(&fits) {
            return known.into_owned();
        }
        if is_reached {
            counts.refuse(inputs);
        }
        let made = trace();
        let mut others = lock(&self.others);
        // Another thread may have traced the same in the meantime.
        if let Some(first) = self.get_first(&fits) {
            return first.clone();
        }
        if let Some(known) = self.get_other(&mut others, &fits) {
            return known;
        }
        if !counts.add() {
            drop(others);
            counts.refuse(inputs);
        }
        if self.first.set(made.clone()).is_err() {
            if others.len() + 1 == KEPT {
                others.remove(0);
            }
            others.push(made.clone());
            self.is_first_last.store(false, Ordering::Relaxed);
        }
        made
    }
}
