//! Elementwise computation: passes the elements of all inputs, whatever their strides, to the
//! kernel in short runs that stay in the first-level cache.
//!
//! The result has the memory order of the first dense input. Inputs in that order are passed to the
//! kernel in place, long rows of others are read where they lie, a repeated value is expanded once,
//! and what is left is gathered run by run. Types that are computed in another type are converted to it and back run by run.

use pulp::{Arch, NullaryFnOnce};
use smallvec::SmallVec;

use super::pass;
use super::steps::{Places, Steps, Walk, gather};
use super::threads::{Chunks, Sharing, chunks, for_each, for_each_run};
use super::tile::SQUARE;
use super::transpose::{Transpose, Transposed};
use crate::conversion::convert;
use crate::dtype::{with_dtype, with_word};
use crate::kernel::Kernel;
use crate::shape::Layout;
use crate::storage::{Buffer, Word};
use crate::{Array, DType, Element, Scalar, Slice, SliceMut};

/// The number of elements passed to a kernel at once: three inputs of doubles fit the first-level
/// cache.
pub(super) const RUN: usize = 1024;
/// The same for a result of at least so many elements, which goes to far memory: a call for the next elements
/// waits until most of those before it are written.
const LONG_RUN: usize = 4096;
pub(super) const FAR: usize = 1 << 22;
/// Below this many elements, another thread costs more than it helps.
pub(super) const PARALLEL: usize = 1 << 15;
/// From this many elements on, it helps the fastest kernel, too.
const SURELY_PARALLEL: usize = 1 << 18;

/// How threads share a computation at so many elements.
pub(super) fn sharing(elements: usize) -> Sharing {
    match elements {
        ..PARALLEL => Sharing::Never,
        PARALLEL..SURELY_PARALLEL => Sharing::IfSlow,
        _ => Sharing::Always,
    }
}

/// Computes `kernel` over inputs of one shape.
pub(super) fn elementwise(kernel: &Kernel, inputs: &mut [Array]) -> Array {
    let layout = output_layout(inputs);
    let dtype = kernel.output(inputs[0].dtype());
    if let Some(pass) = pass::pass(kernel, inputs, &layout) {
        let made = pass.run_taking(inputs).pop();
        return made.expect("a kernel has one result");
    }
    let Some((input, mut result)) = take_reusable(dtype, inputs, &layout) else {
        let plan = Plan::new(kernel, inputs, None, &layout);
        return Array::dense(dtype, layout.clone(), &mut |out| plan.fill(out));
    };
    let start = result.layout().offset;
    let plan = Plan::new(kernel, inputs, Some((input, dtype)), &layout);
    let buffer = result.unique_buffer().expect("take_reusable checked it");
    plan.fill(buffer.as_mut_run().range(start, layout.shape.size()));
    result
}

/// Copies the elements of `x` in row-major order.
pub(super) fn copy(x: &Array) -> Array {
    let buffer = x.buffer().expect("the device was chosen by its memory");
    with_word!(x.dtype(), W => Array::moved(x.dtype(), x.shape().clone(), |out: &mut [W]| {
        let (memory, steps) = (buffer.as_words::<W>(), Steps::new(x.layout()));
        let turned = steps.turned_axis();
        let least = if turned == Some(0) { SQUARE } else { 1 };
        let Some((share, each)) = steps.shares(out.len(), least) else {
            return fill_copy(memory, &steps, turned, out);
        };
        for_each(chunks(out, share * each), true, 1, &|i, out| {
            let part = steps.part(i * share, out.len() / each);
            fill_copy(memory, &part, turned, out);
        });
    }))
}

/// Gathers all elements, of which those along the axis `turned` are neighbours in memory.
fn fill_copy<W: Transposed>(memory: &[W], steps: &Steps, turned: Option<usize>, out: &mut [W]) {
    match turned {
        None => gather(memory, steps, 0, out),
        Some(axis) => W::transpose(Transpose {
            memory,
            steps,
            axis,
            out,
        }),
    }
}

/// Copies `value` over the elements in `part`, a window on `target`. Both have one dtype.
pub(super) fn assign(target: &mut Array, part: &Layout, value: &Array) {
    if target.size() == 1 {
        let element = value.element(&vec![0; value.rank()]);
        *target = Array::constant(element, target.shape().clone());
        return;
    }
    let value = value.to_row_major();
    let steps = Steps::new(part);
    with_word!(target.dtype(), W => {
        let target = target.as_mut_words::<W>();
        match value.inline() {
            Some(element) => steps.fill(target, value.size(), W::of(element)),
            None => steps.write_shared(target, value.host_words::<W>()),
        }
    });
}

/// The dense layout of the result.
pub(crate) fn output_layout(inputs: &[Array]) -> Layout {
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

/// Takes out an input that has the result's type and order and whose memory no other array shares.
/// A placeholder stays behind.
fn take_reusable(dtype: DType, inputs: &mut [Array], layout: &Layout) -> Option<(usize, Array)> {
    let position = inputs.iter_mut().position(|input| {
        input.dtype() == dtype
            && input.unique_buffer().is_some()
            && input.layout().has_steps_of(layout)
    })?;
    let placeholder = Array::zeros(layout.shape.clone(), dtype);
    Some((
        position,
        std::mem::replace(&mut inputs[position], placeholder),
    ))
}

/// The source of the runs of one input.
pub(super) enum Source<'a> {
    /// The input's own memory, which has the order of the result.
    Direct(Slice<'a>),
    /// A single value.
    Repeat(Scalar),
    /// Elements that have to be gathered, and their places if they are known.
    Gather(&'a Buffer, Steps, Option<&'a Places>),
    /// The memory of the result, which has held this input so far.
    Result,
}

/// An input, and the types in which it is stored and computed.
pub(super) struct Input<'a> {
    pub(super) source: Source<'a>,
    /// The position in the source of the first element that is computed.
    pub(super) start: usize,
    pub(super) stored: DType,
    pub(super) computed: DType,
}

/// Memory for a run of one input.
pub(super) struct Scratch {
    /// The place of the run in the input's memory, if its elements are neighbours there.
    place: Option<usize>,
    /// The place of the element of which `gathered` is full.
    full_of: Option<usize>,
    /// The gathered elements.
    gathered: Option<Buffer>,
    /// The input of the kernel, unless it is `gathered` or the input's own memory.
    ready: Option<Buffer>,
}

impl<'a> Input<'a> {
    fn new(kernel: &Kernel, source: Source<'a>, stored: DType) -> Self {
        let computed = kernel.computed(stored);
        let source = match source {
            Source::Repeat(value) => Source::Repeat(value.cast(computed)),
            other => other,
        };
        Self {
            source,
            start: 0,
            stored,
            computed,
        }
    }

    pub(super) fn scratch(&self, run: usize) -> Scratch {
        let gathers = matches!(self.source, Source::Gather(..));
        let is_ready = matches!(self.source, Source::Direct(_)) || gathers;
        let mut ready =
            (!is_ready || self.stored != self.computed).then(|| Buffer::of(self.computed, run));
        if let (Source::Repeat(value), Some(ready)) = (&self.source, &mut ready) {
            with_word!(self.computed, W => ready.as_mut_words::<W>().fill(W::of(*value)));
        }
        Scratch {
            place: None,
            full_of: None,
            gathered: gathers.then(|| Buffer::of(self.stored, run)),
            ready,
        }
    }

    /// Prepares the run at a position, before `result` is written there.
    pub(super) fn bring(&self, position: usize, result: Slice<'_>, scratch: &mut Scratch) {
        let len = result.len();
        let elements = match (&self.source, &mut scratch.gathered) {
            (Source::Repeat(_), _) => return,
            (Source::Direct(memory), _) => memory.range(self.start + position, len),
            (Source::Result, _) => result,
            (Source::Gather(memory, steps, places), Some(gathered)) => {
                let position = self.start + position;
                with_word!(self.stored, W => {
                    let memory = memory.as_words::<W>();
                    let gathered = &mut gathered.as_mut_words::<W>()[..len];
                    match places {
                        Some(places) => places.gather(memory, steps.offset, position, gathered),
                        None => gather(memory, steps, position, gathered),
                    }
                });
                gathered.as_run().range(0, len)
            }
            (Source::Gather(..), None) => unreachable!("there is memory for what is collected"),
        };
        if let Some(ready) = &mut scratch.ready {
            convert(elements, ready.as_mut_run().range(0, len));
        }
    }

    /// The walk through rows that need not be gathered, because each is in one place, or one element.
    fn walk(&self, position: usize) -> Option<Walk<'_>> {
        match &self.source {
            Source::Gather(_, steps, _)
                if self.stored == self.computed && matches!(steps.inner().1, 0 | 1) =>
            {
                Some(Walk::new(steps, self.start + position))
            }
            _ => None,
        }
    }

    /// Prepares a run of a row that begins at this place.
    fn bring_from(&self, place: usize, scratch: &mut Scratch) {
        let (Source::Gather(memory, steps, _), Some(gathered)) =
            (&self.source, &mut scratch.gathered)
        else {
            unreachable!("only what is gathered has a walk")
        };
        if steps.inner().1 == 1 {
            scratch.place = Some(place);
            return;
        }
        if scratch.full_of != Some(place) {
            with_word!(self.stored, W => {
                let element = memory.as_words::<W>()[place];
                Arch::new().dispatch(Fill(gathered.as_mut_words::<W>(), element));
            });
            scratch.full_of = Some(place);
        }
    }

    /// The elements from a position on, if they are in place and need no conversion.
    pub(super) fn in_place(&self, position: usize, len: usize) -> Option<Slice<'_>> {
        match &self.source {
            Source::Direct(memory) if self.stored == self.computed => {
                Some(memory.range(self.start + position, len))
            }
            Source::Direct(_) | Source::Repeat(_) | Source::Gather(..) | Source::Result => None,
        }
    }

    /// The run that was prepared.
    pub(super) fn run<'b>(
        &'b self,
        position: usize,
        len: usize,
        scratch: &'b Scratch,
    ) -> Slice<'b> {
        if let (Source::Gather(memory, ..), Some(place)) = (&self.source, scratch.place) {
            return memory.as_run().range(place, len);
        }
        match (&self.source, &scratch.ready, &scratch.gathered) {
            (_, Some(brought), _) | (_, None, Some(brought)) => brought.as_run().range(0, len),
            (Source::Direct(memory), None, None) => memory.range(self.start + position, len),
            (_, None, None) => unreachable!("every source but Direct has scratch memory"),
        }
    }
}

/// Fills memory with one element.
struct Fill<'a, T>(&'a mut [T], T);

impl<T: Copy> NullaryFnOnce for Fill<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        self.0.fill(self.1);
    }
}

struct Plan<'a> {
    kernel: &'a Kernel,
    inputs: SmallVec<[Input<'a>; 3]>,
    /// The length of the shortest rows that are gathered, if they are long: no run goes on behind the
    /// end of one, so that most need not be copied.
    row: Option<usize>,
}

impl<'a> Plan<'a> {
    /// `result`: the number of the input that is stored where the result will be, and its dtype.
    fn new(
        kernel: &'a Kernel,
        inputs: &'a [Array],
        result: Option<(usize, DType)>,
        layout: &Layout,
    ) -> Self {
        let inputs = inputs.iter().enumerate().map(|(i, input)| {
            if let Some((_, dtype)) = result.filter(|(place, _)| *place == i) {
                return Input::new(kernel, Source::Result, dtype);
            }
            let own = input.layout();
            let source = if own.strides.repeat_one(&own.shape) {
                match input.size() {
                    0 => Source::Repeat(Scalar::zero(input.dtype())),
                    _ => Source::Repeat(input.element(&vec![0; input.rank()])),
                }
            } else {
                let buffer = input.buffer().expect("the device was chosen by its memory");
                match own.has_steps_of(layout) {
                    true => Source::Direct(buffer.as_run().range(own.offset, own.shape.size())),
                    false => {
                        let steps = Steps::new(&in_memory_order(own, layout));
                        Source::Gather(buffer, steps, None)
                    }
                }
            };
            Input::new(kernel, source, input.dtype())
        });
        let inputs: SmallVec<[Input<'_>; 3]> = inputs.collect();
        let rows = inputs.iter().filter_map(|input| match &input.source {
            Source::Gather(_, steps, _) => Some(steps.inner().0),
            Source::Direct(_) | Source::Repeat(_) | Source::Result => None,
        });
        Self {
            kernel,
            row: rows.min().filter(|&row| row >= RUN / 8),
            inputs,
        }
    }

    fn fill(&self, out: SliceMut<'_>) {
        let sharing = sharing(out.len());
        if sharing == Sharing::Never || rayon::current_num_threads() == 1 {
            return self.fill_from(0, out);
        }
        // Elementwise results do not depend on how the work is split.
        let share = out
            .len()
            .div_ceil(16 * rayon::current_num_threads())
            .next_multiple_of(RUN);
        with_dtype!(out.dtype(), T => {
            let out = T::from_slice_mut(out).expect("its dtype was asked for");
            for_each_run(chunks(out, share), sharing, 1, &|first, run| {
                self.fill_from(first * share, T::to_slice_mut(run.one()));
            });
        });
    }

    /// Fills the part of the result that starts at `start` in memory order.
    fn fill_from(&self, start: usize, mut out: SliceMut<'_>) {
        let (len, stored) = (out.len(), out.dtype());
        if let Some(inputs) = self.in_place(start, len, stored) {
            return self.kernel.run(&inputs, out);
        }
        let run = if len >= FAR { LONG_RUN } else { RUN }.min(len);
        let mut scratch: SmallVec<[Scratch; 3]> =
            self.inputs.iter().map(|input| input.scratch(run)).collect();
        let computed = self.kernel.computed(stored);
        let mut result = (computed != stored).then(|| Buffer::of(computed, run));
        let mut walks: SmallVec<[Option<Walk<'_>>; 3]> = match self.row {
            Some(_) => self.inputs.iter().map(|input| input.walk(start)).collect(),
            None => self.inputs.iter().map(|_| None).collect(),
        };
        let mut done = 0;
        while done < len {
            let position = start + done;
            let end = self.row.map_or(usize::MAX, |row| row - position % row);
            let len = end.min(run).min(len - done);
            let block = out.range(done, len);
            done += len;
            for ((input, scratch), walk) in self.inputs.iter().zip(&mut scratch).zip(&mut walks) {
                match walk {
                    Some(walk) => {
                        input.bring_from(walk.place(), scratch);
                        walk.go_on(len);
                    }
                    None => input.bring(position, block.as_slice(), scratch),
                }
            }
            let inputs: SmallVec<[Slice<'_>; 3]> = self
                .inputs
                .iter()
                .zip(&scratch)
                .map(|(input, scratch)| input.run(position, len, scratch))
                .collect();
            match &mut result {
                None => self.kernel.run(&inputs, block),
                Some(result) => {
                    self.kernel.run(&inputs, result.as_mut_run().range(0, len));
                    convert(result.as_run().range(0, len), block);
                }
            }
        }
    }
}

impl Plan<'_> {
    /// The elements of all inputs, if the kernel can read them where they are: then no runs are needed.
    fn in_place(
        &self,
        start: usize,
        len: usize,
        stored: DType,
    ) -> Option<SmallVec<[Slice<'_>; 3]>> {
        if self.kernel.computed(stored) != stored
            || !self.kernel.reads_once(self.inputs[0].stored, len)
        {
            return None;
        }
        self.inputs
            .iter()
            .map(|input| input.in_place(start, len))
            .collect()
    }
}

/// The axes of `own` in the memory order of `layout`.
pub(super) fn in_memory_order(own: &Layout, layout: &Layout) -> Layout {
    let order = layout.order();
    Layout {
        shape: order.iter().map(|&axis| own.shape[axis]).collect(),
        strides: order.iter().map(|&axis| own.strides[axis]).collect(),
        offset: own.offset,
    }
}
