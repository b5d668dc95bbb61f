//! The pass over the memory of a parameter: block by block, its gradient is prepared, changed and
//! used while it is in the first-level cache.

use std::mem;

use pulp::{Arch, NullaryFnOnce};
use smallvec::SmallVec;

use super::steps::{Steps, gather};
use super::threads::{Sharing, chunks, for_each};
use super::worth_threads;
use crate::dtype::{Accumulator, with_float};
use crate::kernel::Kernel;
use crate::math::Machine;
use crate::update::Run;
use crate::{Array, Change, Element, Given, Slice, Update};

/// The number of elements processed at a time if something has to be computed or gathered first: half a
/// page, so that processors look ahead in all memory that is read by turns.
const BLOCK: usize = 512;
/// The number of elements that a thread takes at once, and whose squares are added up before those of
/// others.
const SHARE: usize = 1 << 16;

pub(super) fn update(
    update: &Update,
    parameter: &mut Array,
    gradient: &Array,
    state: &mut [Array],
) {
    let stored = parameter.dtype();
    let computed = stored.accumulator();
    if computed != stored {
        let cast = |x: &Array| x.cast(computed);
        let (mut own, mut own_state) =
            (cast(parameter), state.iter().map(cast).collect::<Vec<_>>());
        self::update(&update.map(cast), &mut own, &cast(gradient), &mut own_state);
        *parameter = own.cast(stored);
        for (state, own) in state.iter_mut().zip(own_state) {
            *state = own.cast(state.dtype());
        }
        return;
    }
    match computed.computed() {
        Accumulator::F32 => pass(update, update.single(), parameter, gradient, state),
        Accumulator::F64 => pass(update, update.double(), parameter, gradient, state),
        Accumulator::Bool | Accumulator::I64 | Accumulator::C64 | Accumulator::C128 => {
            unreachable!("a parameter is of floats")
        }
    }
}

fn pass<T: Machine + Element>(
    update: &Update,
    run: Run<T>,
    parameter: &mut Array,
    gradient: &Array,
    state: &mut [Array],
) {
    let given: SmallVec<[f64; 9]> = (update.given().iter())
        .map(|given| match given {
            Given::Number(x) => *x,
            Given::Element(x) => x.item(),
        })
        .collect();
    let elements = parameter.as_mut_slice::<T>();
    let state: SmallVec<[&mut [T]; 3]> = state.iter_mut().map(Array::as_mut_slice).collect();
    let changes = update.changes();
    if elements.len() < 2 * SHARE || !worth_threads(elements.len()) {
        return Part {
            start: 0,
            elements,
            state,
        }
        .run(&given, changes, gradient, run);
    }
    let mut states: SmallVec<[_; 3]> = state.into_iter().map(|x| x.chunks_mut(SHARE)).collect();
    let mut parts: Vec<Part<'_, T>> = (elements.chunks_mut(SHARE).enumerate())
        .map(|(i, elements)| {
            let state = states.iter_mut().map(|chunks| chunks.next());
            let state = state.map(|chunk| chunk.expect("state has the size of its parameter"));
            Part {
                start: i * SHARE,
                elements,
                state: state.collect(),
            }
        })
        .collect();
    for_each(chunks(&mut parts, 1), true, 1, &|_, part| {
        for part in part {
            part.run(&given, changes, gradient, run);
        }
    });
}

/// Some elements of a parameter and of its state.
struct Part<'a, T> {
    start: usize,
    elements: &'a mut [T],
    state: SmallVec<[&'a mut [T]; 3]>,
}

impl<T: Machine + Element> Part<'_, T> {
    fn run(&mut self, given: &[f64], changes: &[Change], gradient: &Array, run: Run<T>) {
        let mut gradient = Prepared::new(changes, gradient, self.elements.len());
        let (block, mut done) = (gradient.block, 0);
        for elements in self.elements.chunks_mut(block) {
            let len = elements.len();
            let gradient = gradient.at(self.start + done, elements);
            let own = self
                .state
                .iter_mut()
                .map(|state| &mut state[done..done + len]);
            run(
                given,
                elements,
                gradient,
                &mut own.collect::<SmallVec<[_; 3]>>(),
            );
            done += len;
        }
    }
}

pub(super) fn sum_of_squares(changes: &[Change], parameter: &Array, gradient: &Array) -> Array {
    let stored = parameter.dtype();
    let computed = stored.accumulator();
    if computed != stored {
        let cast = |x: &Array| x.cast(computed);
        let changes: Vec<Change> = changes.iter().map(|change| change.map(cast)).collect();
        return sum_of_squares(&changes, &cast(parameter), &cast(gradient));
    }
    with_float!(stored, T => Array::scalar(sum::<T>(changes, parameter, gradient)))
}

fn sum<T: Machine + Element>(changes: &[Change], parameter: &Array, gradient: &Array) -> f64 {
    let size = parameter.size();
    // Without changes the parameter is not read.
    let parameter = if changes.is_empty() {
        gradient
    } else {
        parameter
    };
    let share = |first: usize| {
        let end = size.min(first + SHARE);
        let mut prepared = Prepared::<T>::new(changes, gradient, end - first);
        let block = prepared.block;
        let mut parameter = Source::<T>::new(parameter, block);
        let (mut sums, mut rest) = ([0.0; SUMS], 0.0);
        for start in (first..end).step_by(block) {
            let parameter = parameter.at(start, block.min(end - start));
            let (x, sums) = (prepared.at(start, parameter), &mut sums);
            rest = Arch::new().dispatch(Squares { x, sums });
        }
        sums.iter().sum::<f64>() + rest
    };
    // Memory delivers about four elements in a nanosecond.
    let sharing = Sharing::of(size / 4);
    let mut sums = vec![0.0; size.div_ceil(SHARE)];
    for_each(chunks(&mut sums, 1), sharing, 1, &|i, sum| {
        sum.fill(share(i * SHARE));
    });
    sums.iter().sum()
}

/// The number of sums of squares side by side.
const SUMS: usize = 32;

/// Adds squares to independent sums. The output is the sum over the elements that do not fill them.
struct Squares<'a, T> {
    x: &'a [T],
    sums: &'a mut [f64; SUMS],
}

impl<T: Machine> NullaryFnOnce for Squares<'_, T> {
    type Output = f64;
    #[inline(always)]
    fn call(self) -> f64 {
        let (chunks, rest) = self.x.as_chunks::<SUMS>();
        let mut sums = *self.sums;
        for chunk in chunks {
            for (sum, x) in sums.iter_mut().zip(chunk) {
                *sum += x.to_f64() * x.to_f64();
            }
        }
        *self.sums = sums;
        rest.iter().map(|x| x.to_f64() * x.to_f64()).sum()
    }
}

/// A gradient with the changes to apply to it.
struct Prepared<'a, T> {
    gradient: Source<'a, T>,
    changes: Vec<(&'a Kernel, Vec<Source<'a, T>>)>,
    /// The gradient after the last change, and memory for the next.
    changed: [Vec<T>; 2],
    /// The number of elements at a time.
    block: usize,
}

impl<'a, T: Machine + Element> Prepared<'a, T> {
    fn new(changes: &'a [Change], gradient: &'a Array, size: usize) -> Self {
        let is_there = changes.is_empty() && gradient.as_slice::<T>().is_some();
        let block = if is_there { size } else { BLOCK.min(size) }.max(1);
        let sources = |change: &'a Change| {
            let others = change.others().iter().map(|x| Source::new(x, block));
            (change.kernel(), others.collect())
        };
        let memory = if changes.is_empty() { 0 } else { block };
        Self {
            gradient: Source::new(gradient, block),
            changes: changes.iter().map(sources).collect(),
            changed: [(); 2].map(|()| vec![T::ZERO; memory]),
            block,
        }
    }

    /// The changed gradient for the elements of a parameter from `start` on.
    fn at(&mut self, start: usize, parameter: &[T]) -> &[T] {
        let len = parameter.len();
        let [changed, next] = &mut self.changed;
        for (i, (kernel, others)) in self.changes.iter_mut().enumerate() {
            let gradient = match i {
                0 => self.gradient.at(start, len),
                _ => &changed[..len],
            };
            let mut inputs = SmallVec::<[Slice<'_>; 4]>::new();
            inputs.extend([parameter, gradient].map(T::to_slice));
            inputs.extend(
                others
                    .iter_mut()
                    .map(|other| T::to_slice(other.at(start, len))),
            );
            kernel.run(&inputs, T::to_slice_mut(&mut next[..len]));
            drop(inputs);
            mem::swap(changed, next);
        }
        match self.changes.is_empty() {
            true => self.gradient.at(start, len),
            false => &changed[..len],
        }
    }
}

/// The source of the elements of an array, in row-major order.
enum Source<'a, T> {
    Direct(&'a [T]),
    /// One value, repeated for the longest run that is asked for.
    Repeat(Vec<T>),
    /// Memory, the walk over it, and room for gathered elements.
    Gather(&'a [T], Steps, Vec<T>),
}

impl<'a, T: Machine + Element> Source<'a, T> {
    fn new(x: &'a Array, block: usize) -> Self {
        let first = || x.element(&vec![0; x.rank()]);
        let repeated = x.inline().or_else(|| (x.size() == 1).then(first));
        match (repeated, x.as_slice()) {
            (Some(value), _) => Self::Repeat(vec![T::from_scalar(value); block]),
            (None, Some(elements)) => Self::Direct(elements),
            (None, None) => {
                let buffer = x.buffer().expect("the device was chosen by its memory");
                Self::Gather(
                    buffer.as_slice(),
                    Steps::new(x.layout()),
                    vec![T::ZERO; block],
                )
            }
        }
    }

    fn at(&mut self, start: usize, len: usize) -> &[T] {
        match self {
            Self::Direct(elements) => &elements[start..start + len],
            Self::Repeat(elements) => &elements[..len],
            Self::Gather(memory, steps, room) => {
                gather(memory, steps, start, &mut room[..len]);
                &room[..len]
            }
        }
    }
}
