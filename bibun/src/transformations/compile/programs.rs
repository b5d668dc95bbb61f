//! The programs of a function, and the number of its traces.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

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
             fields is traced once, for the function and for each of its derivatives, so call it with the same \
             ones, or raise the limit",
            limit.saturating_add(1),
            specs.collect::<Vec<_>>().join(", ")
        );
        raise(Error::argument("compile", what))
    }
}

/// Up to `KEPT` programs of a function, each for other inputs. The one that was used last is the last; the first
/// goes if there are too many.
pub(super) struct Programs<T, const KEPT: usize>(Mutex<Vec<T>>);

impl<T, const KEPT: usize> Default for Programs<T, KEPT> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone, const KEPT: usize> Programs<T, KEPT> {
    /// The program that was used last.
    pub(super) fn last(&self) -> Option<T> {
        lock(&self.0).last().cloned()
    }

    /// The first of what `of` finds in a program, beginning with the one that was used last.
    pub(super) fn find_last<U>(&self, of: impl FnMut(&T) -> Option<U>) -> Option<U> {
        lock(&self.0).iter().rev().find_map(of)
    }

    pub(super) fn get(&self, fits: impl Fn(&T) -> bool) -> Option<T> {
        get(&mut lock(&self.0), fits)
    }

    /// Returns the program that `fits` these inputs, or traces it if there is none.
    pub(super) fn get_or_trace(
        &self,
        counts: &Counts,
        inputs: &[Array],
        fits: impl Fn(&T) -> bool,
        trace: impl FnOnce() -> T,
    ) -> T {
        // In this order: a trace is counted under the lock under which its program is put there.
        let is_reached = counts.is_reached();
        if let Some(known) = self.get(&fits) {
            return known;
        }
        if is_reached {
            counts.refuse(inputs);
        }
        let made = trace();
        let mut all = lock(&self.0);
        // Another thread may have traced the same in the meantime.
        if let Some(known) = get(&mut all, &fits) {
            return known;
        }
        if !counts.add() {
            drop(all);
            counts.refuse(inputs);
        }
        if all.len() == KEPT {
            all.remove(0);
        }
        all.push(made.clone());
        made
    }
}

fn get<T: Clone>(all: &mut [T], fits: impl Fn(&T) -> bool) -> Option<T> {
    let known = all.iter().rposition(fits)?;
    all[known..].rotate_left(1);
    all.last().cloned()
}
