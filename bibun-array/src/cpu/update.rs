//! The pass over the memory of a parameter: block by block, its gradient is prepared, changed and
//! used while it is in the first-level cache.

use std::mem;

use pulp::{Arch, NullaryFnOnce};
use smallvec::SmallVec;

use super::elementwise::{Steps, gather};
use crate::dtype::{Accumulator, with_float};
use crate::kernel::Kernel;
use crate::math::Machine;
use crate::update::Run;
use crate::{Array, Change, Element, Given, Slice, Update};

/// The number of elements processed at a time if something has to be computed or gathered first.
const BLOCK: usize = 1024;

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
        Accumulator::Bool | Accumulator::I64 => unreachable!("a parameter is of floats"),
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
    let parameter = parameter.as_mut_slice::<T>();
    let mut state: SmallVec<[&mut [T]; 3]> = state.iter_mut().map(Array::as_mut_slice).collect();
    let mut gradient = Prepared::new(update.changes(), gradient, parameter.len());
    let (block, mut start) = (gradient.block, 0);
    for parameter in parameter.chunks_mut(block) {
        let len = parameter.len();
        let gradient = gradient.at(start, parameter);
        let own = state.iter_mut().map(|state| &mut state[start..start + len]);
        run(
            &given,
            parameter,
            gradient,
            &mut own.collect::<SmallVec<[_; 3]>>(),
        );
        start += len;
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
    let mut prepared = Prepared::<T>::new(changes, gradient, size);
    let block = prepared.block;
    // Without changes the parameter is not read.
    let parameter = if changes.is_empty() {
        gradient
    } else {
        parameter
    };
    let mut parameter = Source::<T>::new(parameter, block);
    let (mut sums, mut rest) = ([0.0; 8], 0.0);
    for start in (0..size).step_by(block) {
        let parameter = parameter.at(start, block.min(size - start));
        let (x, sums) = (prepared.at(start, parameter), &mut sums);
        rest = Arch::new().dispatch(Squares { x, sums });
    }
    sums.iter().sum::<f64>() + rest
}

/// Adds squares to independent sums. The output is the sum over the elements that do not fill them.
struct Squares<'a, T> {
    x: &'a [T],
    sums: &'a mut [f64; 8],
}

impl<T: Machine> NullaryFnOnce for Squares<'_, T> {
    type Output = f64;
    #[inline(always)]
    fn call(self) -> f64 {
        let chunks = self.x.chunks_exact(self.sums.len());
        let rest = chunks.remainder();
        for chunk in chunks {
            for (sum, x) in self.sums.iter_mut().zip(chunk) {
                *sum += x.to_f64() * x.to_f64();
            }
        }
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
