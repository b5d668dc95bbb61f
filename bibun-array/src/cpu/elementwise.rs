//! Elementwise computation: brings the elements of all inputs, whatever their strides, to the
//! kernel in short runs that stay in the first-level cache.
//!
//! The result takes the memory order of the first dense input. Inputs in that order are handed to
//! the kernel where they lie; a repeated single value is spread once; all others are gathered run
//! by run.

use smallvec::SmallVec;

use super::threads::{chunks, for_each};
use crate::dtype::with_dtype;
use crate::kernel::{Kernel, Slice};
use crate::shape::Layout;
use crate::storage::Buffer;
use crate::{Array, DType, Element};

/// Elements that a kernel sees at once: three inputs of doubles fit the first-level cache.
const RUN: usize = 1024;
/// Below this many elements another thread costs more than it helps.
pub(super) const PARALLEL: usize = 1 << 16;

/// Computes `kernel` over inputs of one shape.
pub(super) fn elementwise(kernel: &Kernel, inputs: &mut [Array]) -> Array {
    let layout = output_layout(inputs);
    with_dtype!(kernel.output(inputs[0].dtype()), T => {
        match take_reusable::<T>(inputs, &layout) {
            Some((input, mut result)) => {
                let start = result.layout().offset;
                let size = layout.shape.size();
                let plan = Plan::new(kernel, inputs, Some(input), &layout);
                let buffer = result.unique_buffer().expect("take_reusable checked it");
                plan.fill(&mut buffer.as_mut_slice::<T>()[start..start + size]);
                result
            }
            None => {
                let plan = Plan::new(kernel, inputs, None, &layout);
                Array::dense_filled_by(layout.clone(), |out: &mut [T]| plan.fill(out))
            }
        }
    })
}

/// Copies the elements of `x` in row-major order.
pub(super) fn copy<T: Element>(x: &Array, out: &mut [T]) {
    let buffer = x.buffer().expect("the device was chosen by its memory");
    gather(buffer.as_slice::<T>(), &Steps::new(x.layout()), 0, out);
}

/// Copies `value` over the elements that `part` sees in `target`.
pub(super) fn assign<T: Element>(target: &mut [T], part: &Layout, value: &Array) {
    let value = value.to_row_major();
    let steps = Steps::new(part);
    let Some(elements) = value.as_slice::<T>() else {
        let element = T::from_scalar(value.inline().expect("row-major or a repeated value"));
        steps.for_each_run(0, part.shape.size(), |_, start, step, len| {
            if step == 1 {
                target[start..start + len].fill(element);
                return;
            }
            for i in 0..len {
                target[start.strict_add_signed(i as isize * step)] = element;
            }
        });
        return;
    };
    steps.for_each_run(0, elements.len(), |done, start, step, len| {
        let elements = &elements[done..done + len];
        if step == 1 {
            target[start..start + len].copy_from_slice(elements);
        } else {
            for (i, &x) in elements.iter().enumerate() {
                target[start.strict_add_signed(i as isize * step)] = x;
            }
        }
    });
}

/// The dense layout of the result.
fn output_layout(inputs: &[Array]) -> Layout {
    let shape = inputs[0].shape();
    let dense = inputs
        .iter()
        .find(|input| input.inline().is_none() && input.layout().is_dense());
    let guide = dense
        .or_else(|| {
            inputs
                .iter()
                .find(|x| !x.layout().strides.repeat_one(shape))
        })
        .unwrap_or(&inputs[0]);
    if guide.layout().is_row_major() {
        return Layout::row_major(shape.clone());
    }
    Layout::in_order(shape.clone(), &guide.layout().order())
}

/// An input of the result's type and order that nobody else holds: taken out (a placeholder stays).
fn take_reusable<T: Element>(inputs: &mut [Array], layout: &Layout) -> Option<(usize, Array)> {
    let position = inputs.iter_mut().position(|input| {
        input.dtype() == T::DTYPE
            && input.unique_buffer().is_some()
            && input.layout().has_steps_of(layout)
    })?;
    let placeholder = Array::zeros(layout.shape.clone(), T::DTYPE);
    Some((
        position,
        std::mem::replace(&mut inputs[position], placeholder),
    ))
}

/// Where the runs of one input come from.
enum Source<'a> {
    /// The input's own memory, which has the order of the result.
    Direct(Slice<'a>),
    /// A single value.
    Repeat(Array),
    /// Elements that have to be collected.
    Gather(Slice<'a>, Steps),
    /// The memory of the result, which held this input until now.
    Result,
}

struct Plan<'a> {
    kernel: &'a Kernel,
    sources: SmallVec<[Source<'a>; 3]>,
    dtypes: SmallVec<[DType; 3]>,
}

impl<'a> Plan<'a> {
    fn new(
        kernel: &'a Kernel,
        inputs: &'a [Array],
        result: Option<usize>,
        layout: &Layout,
    ) -> Self {
        let sources = inputs.iter().enumerate().map(|(i, input)| {
            if Some(i) == result {
                return Source::Result;
            }
            let own = input.layout();
            if own.strides.repeat_one(&own.shape) {
                return Source::Repeat(input.clone());
            }
            let buffer = input.buffer().expect("the device was chosen by its memory");
            let memory = with_dtype!(input.dtype(), T => T::to_slice(buffer.as_slice::<T>()));
            if own.has_steps_of(layout) {
                return Source::Direct(memory.range(own.offset, own.shape.size()));
            }
            Source::Gather(memory, Steps::new(&in_memory_order(own, layout)))
        });
        Self {
            kernel,
            sources: sources.collect(),
            dtypes: inputs.iter().map(Array::dtype).collect(),
        }
    }

    fn fill<T: Element>(&self, out: &mut [T]) {
        if out.len() < PARALLEL || rayon::current_num_threads() == 1 {
            return self.fill_from(0, out);
        }
        // Elementwise results do not depend on how the work is cut.
        let share = out
            .len()
            .div_ceil(4 * rayon::current_num_threads())
            .next_multiple_of(RUN);
        for_each(chunks(out, share), true, 1, &|i, chunk| {
            self.fill_from(i * share, chunk);
        });
    }

    /// Fills the part of the result that starts at `start` in memory order.
    fn fill_from<T: Element>(&self, start: usize, out: &mut [T]) {
        let run = RUN.min(out.len());
        let mut scratch: SmallVec<[Option<Buffer>; 3]> = self
            .sources
            .iter()
            .zip(&self.dtypes)
            .map(|(source, &dtype)| match source {
                Source::Direct(_) => None,
                Source::Repeat(input) => with_dtype!(dtype, U => {
                    let mut buffer = Buffer::new::<U>(run);
                    let first = vec![0; input.rank()];
                    if run > 0 {
                        buffer.as_mut_slice().fill(U::from_scalar(input.element(&first)));
                    }
                    Some(buffer)
                }),
                Source::Gather(..) | Source::Result => {
                    with_dtype!(dtype, U => Some(Buffer::new::<U>(run)))
                }
            })
            .collect();
        for (i, block) in out.chunks_mut(RUN).enumerate() {
            let position = start + i * RUN;
            for (source, scratch) in self.sources.iter().zip(&mut scratch) {
                match source {
                    Source::Gather(memory, steps) => {
                        let scratch = scratch.as_mut().expect("made above");
                        let len = block.len();
                        match *memory {
                            Slice::Bool(x) => gather(x, steps, position, scratch.first(len)),
                            Slice::I64(x) => gather(x, steps, position, scratch.first(len)),
                            Slice::F32(x) => gather(x, steps, position, scratch.first(len)),
                            Slice::F64(x) => gather(x, steps, position, scratch.first(len)),
                        }
                    }
                    Source::Result => {
                        let scratch = scratch.as_mut().expect("made above");
                        scratch.first::<T>(block.len()).copy_from_slice(block);
                    }
                    Source::Direct(_) | Source::Repeat(_) => {}
                }
            }
            let inputs: SmallVec<[Slice<'_>; 3]> = self
                .sources
                .iter()
                .zip(&scratch)
                .zip(&self.dtypes)
                .map(|((source, scratch), &dtype)| match (source, scratch) {
                    (Source::Direct(memory), _) => memory.range(position, block.len()),
                    (_, Some(scratch)) => with_dtype!(dtype, U => {
                        U::to_slice(&scratch.as_slice::<U>()[..block.len()])
                    }),
                    (_, None) => unreachable!("every source but Direct has scratch memory"),
                })
                .collect();
            self.kernel.run(&inputs, T::to_slice_mut(block));
        }
    }
}

/// The axes of `own` in the order in which `layout` lies in memory.
fn in_memory_order(own: &Layout, layout: &Layout) -> Layout {
    let order = layout.order();
    Layout {
        shape: order.iter().map(|&axis| own.shape[axis]).collect(),
        strides: order.iter().map(|&axis| own.strides[axis]).collect(),
        offset: own.offset,
    }
}

/// Collects the elements from `position` on, as many as `out` has.
pub(super) fn gather<T: Element>(memory: &[T], steps: &Steps, position: usize, out: &mut [T]) {
    steps.for_each_run(position, out.len(), |done, start, step, len| {
        let out = &mut out[done..done + len];
        match step {
            1 => out.copy_from_slice(&memory[start..start + len]),
            0 => out.fill(memory[start]),
            step if step > 0 => {
                let elements = memory[start..].iter().step_by(step as usize);
                out.iter_mut().zip(elements).for_each(|(y, &x)| *y = x);
            }
            step => {
                let elements = memory[..=start].iter().rev().step_by(step.unsigned_abs());
                out.iter_mut().zip(elements).for_each(|(y, &x)| *y = x);
            }
        }
    });
}

/// A walk over the elements of a layout in row-major order, in runs of one step. Axes of size 1
/// are left out and axes that follow each other evenly are joined, so that runs are long.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    sizes: SmallVec<[usize; 4]>,
    strides: SmallVec<[isize; 4]>,
    offset: usize,
}

impl Steps {
    pub(super) fn new(layout: &Layout) -> Self {
        let mut sizes: SmallVec<[usize; 4]> = SmallVec::new();
        let mut strides: SmallVec<[isize; 4]> = SmallVec::new();
        for (&size, &stride) in layout.shape.iter().zip(layout.strides.iter()) {
            if size == 1 {
                continue;
            }
            match (sizes.last_mut(), strides.last_mut()) {
                (Some(outer), Some(step)) if *step == stride * size as isize => {
                    *outer *= size;
                    *step = stride;
                }
                _ => {
                    sizes.push(size);
                    strides.push(stride);
                }
            }
        }
        if sizes.is_empty() {
            sizes.push(1);
            strides.push(1);
        }
        Self {
            sizes,
            strides,
            offset: layout.offset,
        }
    }

    /// The step between neighbours, if all of them are equally far from each other.
    pub(super) fn even_step(&self) -> Option<isize> {
        match self.strides[..] {
            [step] => Some(step),
            _ => None,
        }
    }

    /// How many elements there are.
    pub(super) fn len(&self) -> usize {
        self.sizes.iter().product()
    }

    /// The same walk from another first element.
    pub(super) fn starting_at(&mut self, offset: usize) -> &Self {
        self.offset = offset;
        self
    }

    /// Calls `run(done, start, step, len)` for all of [`runs`](Steps::runs).
    // Inlined so that loops inside of `run` use the vector instructions that the caller enabled.
    #[inline(always)]
    pub(super) fn for_each_run(
        &self,
        position: usize,
        count: usize,
        mut run: impl FnMut(usize, usize, isize, usize),
    ) {
        for one in self.runs(position, count) {
            run(one.done, one.start, one.step, one.len);
        }
    }

    /// The elements `position..position + count` in runs of one step.
    #[inline(always)]
    pub(super) fn runs(&self, position: usize, count: usize) -> Runs<'_> {
        let mut runs = Runs {
            steps: self,
            index: SmallVec::new(),
            start: self.offset as isize,
            done: 0,
            count,
        };
        if let ([_], [step]) = (&self.sizes[..], &self.strides[..]) {
            runs.index.push(position);
            runs.start += position as isize * step;
        } else {
            runs.move_to(position);
        }
        runs
    }
}

/// Elements in one step from each other.
pub(super) struct Run {
    /// How many elements came before.
    pub(super) done: usize,
    pub(super) start: usize,
    pub(super) step: isize,
    pub(super) len: usize,
}

/// See [`Steps::runs`].
pub(super) struct Runs<'a> {
    steps: &'a Steps,
    /// Where the walk stands along each axis.
    index: SmallVec<[usize; 4]>,
    start: isize,
    done: usize,
    count: usize,
}

impl Runs<'_> {
    fn move_to(&mut self, position: usize) {
        let mut rest = position;
        self.index.resize(self.steps.sizes.len(), 0);
        for (axis, &size) in self.steps.sizes.iter().enumerate().rev() {
            self.index[axis] = rest % size.max(1);
            rest /= size.max(1);
            self.start += self.index[axis] as isize * self.steps.strides[axis];
        }
    }

    /// Goes to the next row: the innermost axis is at its end.
    fn carry(&mut self) {
        let Steps { sizes, strides, .. } = self.steps;
        let mut axis = sizes.len() - 1;
        while self.index[axis] == sizes[axis] && axis > 0 {
            self.start -= self.index[axis] as isize * strides[axis];
            self.index[axis] = 0;
            axis -= 1;
            self.index[axis] += 1;
            self.start += strides[axis];
        }
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;
    #[inline(always)]
    fn next(&mut self) -> Option<Run> {
        if self.done == self.count {
            return None;
        }
        let inner = self.steps.sizes.len() - 1;
        let (size, step) = (self.steps.sizes[inner], self.steps.strides[inner]);
        let run = Run {
            done: self.done,
            start: self.start as usize,
            step,
            len: (size - self.index[inner]).min(self.count - self.done),
        };
        self.done += run.len;
        self.index[inner] += run.len;
        self.start += run.len as isize * step;
        if self.index[inner] == size && inner > 0 {
            self.carry();
        }
        Some(run)
    }
}
