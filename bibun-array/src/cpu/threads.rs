//! Distribution of work over threads. The work on each part is called through a function pointer,
//! so that the machinery is compiled for each type of element and not for each kernel.
//!
//! A thread of one of rayon's pools shares its work with the others of that pool, any other thread with
//! a team of as many threads as rayon's own pool has.

mod team;

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use smallvec::SmallVec;

/// Memory that can be split between chunks.
pub(crate) trait Chunks: Sized + Send {
    type Chunk;
    /// The number of chunks.
    fn count(&self) -> usize;
    /// The first `count` chunks and the others.
    fn split(self, count: usize) -> (Self, Self);
    /// All elements as one chunk.
    fn one(self) -> Self::Chunk;
}

/// Chunks of a number of elements. The last one may have fewer.
pub(crate) struct ChunksOf<'a, T>(&'a mut [T], usize);

pub(crate) fn chunks<T>(out: &mut [T], len: usize) -> ChunksOf<'_, T> {
    ChunksOf(out, len)
}

impl<'a, T: Send> Chunks for ChunksOf<'a, T> {
    type Chunk = &'a mut [T];
    fn count(&self) -> usize {
        self.0.len().div_ceil(self.1)
    }
    fn split(self, count: usize) -> (Self, Self) {
        let (first, others) = self.0.split_at_mut((count * self.1).min(self.0.len()));
        (Self(first, self.1), Self(others, self.1))
    }
    fn one(self) -> Self::Chunk {
        self.0
    }
}

/// Each chunk with the one of the same number.
impl<A: Chunks, B: Chunks> Chunks for (A, B) {
    type Chunk = (A::Chunk, B::Chunk);
    fn count(&self) -> usize {
        self.0.count().min(self.1.count())
    }
    fn split(self, count: usize) -> (Self, Self) {
        let (a, b) = (self.0.split(count), self.1.split(count));
        ((a.0, b.0), (a.1, b.1))
    }
    fn one(self) -> Self::Chunk {
        (self.0.one(), self.1.one())
    }
}

/// Whether several threads share some work.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Sharing {
    Never,
    /// If the others take longer than sharing them does, by the time that the first part took, or if the parts are
    /// few.
    IfSlow,
    Always,
}

/// The number of runs of neighbouring chunks for each thread: every run has to be prepared for, and one that takes
/// longer than others is waited for.
const RUNS: usize = 2;

/// The least number of parts of which one is timed: of a few long ones, to wait for the first costs more than to
/// share what need not be shared.
const LEAST_PARTS: usize = 8;

/// The time on one thread from which sharing pays: caches of other processors have to bring their parts.
const WORTH: Duration = Duration::from_micros(8);

impl Sharing {
    /// For work of about this many nanoseconds on one thread. What is in a near cache can take a tenth of that.
    pub(crate) fn of(nanoseconds: usize) -> Self {
        match nanoseconds {
            ..10_000 => Self::Never,
            10_000..40_000 => Self::IfSlow,
            _ => Self::Always,
        }
    }
}

impl From<bool> for Sharing {
    fn from(threads: bool) -> Self {
        match threads {
            true => Self::Always,
            false => Self::Never,
        }
    }
}

/// Calls `each` with the number of every chunk and the chunk, on several threads if `sharing` says so. These
/// take at least `least` neighbouring chunks at a time.
pub(crate) fn for_each<C: Chunks>(
    chunks: C,
    sharing: impl Into<Sharing>,
    least: usize,
    each: &(dyn Fn(usize, C::Chunk) + Sync),
) {
    for_each_run(chunks, sharing, least, &|first, run| {
        for_each_of(first, run, &mut |i, chunk| each(i, chunk));
    });
}

/// Calls `each` with the number of every chunk and the chunk, in order.
pub(super) fn for_each_of<C: Chunks>(
    first: usize,
    mut run: C,
    each: &mut dyn FnMut(usize, C::Chunk),
) {
    for i in 0..run.count() {
        let (one, rest) = run.split(1);
        each(first + i, one.one());
        run = rest;
    }
}

/// [`for_each`] for work that needs preparation: calls `each` for runs of neighbouring chunks, with
/// the number of the first.
pub(crate) fn for_each_run<C: Chunks>(
    chunks: C,
    sharing: impl Into<Sharing>,
    least: usize,
    each: &(dyn Fn(usize, C) + Sync),
) {
    let sharing = sharing.into();
    let count = chunks.count();
    if count == 0 {
        return;
    }
    let all = rayon::current_num_threads();
    let most = match sharing != Sharing::Never && all > 1 && !team::is_busy() {
        true => count.div_ceil(RUNS * all).max(least),
        false => count,
    };
    if count <= most || rayon::current_thread_index().is_some() {
        halve(chunks, 0, count, most, each);
        return;
    }
    let runs = (RUNS * all).min(count / least.max(1));
    // The others wait for the part that is timed, so it is a small one.
    let few = most.div_ceil(4);
    if sharing == Sharing::IfSlow && few * LEAST_PARTS <= count {
        let (first, others) = chunks.split(few);
        let start = Instant::now();
        each(0, first);
        let left = count - few;
        match start.elapsed() * (left.div_ceil(few) as u32) < WORTH {
            true => each(few, others),
            false => share(others, few, left, runs, each),
        }
    } else {
        share(chunks, 0, count, runs, each);
    }
}

/// Shares `runs` of nearly as many chunks with the team. The first chunk has the number `first`.
fn share<C: Chunks>(
    chunks: C,
    first: usize,
    count: usize,
    runs: usize,
    each: &(dyn Fn(usize, C) + Sync),
) {
    let runs = runs.clamp(1, count);
    let start = |run: usize| run * count / runs;
    let mut rest = Some(chunks);
    let mut shares: SmallVec<[Mutex<Option<C>>; 16]> = SmallVec::new();
    for run in 0..runs {
        let all = rest.take().expect("there are chunks left");
        let (share, others) = match run + 1 < runs {
            true => {
                let (share, others) = all.split(start(run + 1) - start(run));
                (share, Some(others))
            }
            false => (all, None),
        };
        rest = others;
        shares.push(Mutex::new(Some(share)));
    }
    let one = |run: usize| {
        let share = shares[run]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        each(first + start(run), share.expect("each share is done once"));
    };
    if !team::share(rayon::current_num_threads(), runs, &one) {
        numbers(0, runs, &one);
    }
}

/// Calls a function with the numbers from `first` to `end`, on the threads of rayon's own pool.
fn numbers(first: usize, end: usize, each: &(dyn Fn(usize) + Sync)) {
    if end - first <= 1 {
        return (first..end).for_each(each);
    }
    let half = usize::midpoint(first, end);
    both(&mut || numbers(first, half, each), &mut || {
        numbers(half, end, each)
    });
}

/// Splits into halves until a run has no more than `most` chunks.
fn halve<C: Chunks>(
    chunks: C,
    first: usize,
    count: usize,
    most: usize,
    each: &(dyn Fn(usize, C) + Sync),
) {
    if count <= most {
        return each(first, chunks);
    }
    let half = count / 2;
    let (left, right) = chunks.split(half);
    let (mut left, mut right) = (Some(left), Some(right));
    both(
        &mut || {
            let left = left.take().expect("it is called once");
            halve(left, first, half, most, each);
        },
        &mut || {
            let right = right.take().expect("it is called once");
            halve(right, first + half, count - half, most, each);
        },
    );
}

/// Calls both functions, on two threads if one is waiting for work.
fn both(one: &mut (dyn FnMut() + Send), other: &mut (dyn FnMut() + Send)) {
    rayon::join(one, other);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::sleep;

    /// How often each chunk was met, and how many threads met some.
    fn met(count: usize, sharing: Sharing, time: Duration) -> (Vec<usize>, usize) {
        let mut out = vec![0; 3 * count - 1];
        let who = Mutex::new(std::collections::HashSet::new());
        for_each(chunks(&mut out, 3), sharing, 1, &|i, chunk| {
            sleep(time);
            chunk.iter_mut().for_each(|y| *y += i + 1);
            who.lock()
                .expect("nobody panics")
                .insert(std::thread::current().id());
        });
        (out, who.into_inner().expect("nobody panics").len())
    }

    #[test]
    fn each_chunk_is_met_once_with_its_number() {
        for count in [1, 2, 7, 8, 9, 40, 1001] {
            for sharing in [Sharing::Never, Sharing::IfSlow, Sharing::Always] {
                for micros in [0, 30] {
                    let (out, _) = met(count, sharing, Duration::from_micros(micros));
                    let expected: Vec<usize> = (0..3 * count - 1).map(|i| i / 3 + 1).collect();
                    assert_eq!(out, expected, "{count} {sharing:?} {micros}");
                }
            }
        }
    }

    #[test]
    fn slow_work_is_shared() {
        if rayon::current_num_threads() == 1 {
            return;
        }
        // The team may be at work for another test.
        let shared = || met(64, Sharing::IfSlow, Duration::from_millis(1)).1 > 1;
        assert!((0..20).any(|_| shared()));
    }
}
