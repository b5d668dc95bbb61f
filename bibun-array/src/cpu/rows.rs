//! Steps that go through some rows at a time: what one of them leaves is still in the cache when the
//! next one reads it, and need not go to memory if no other step reads it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use super::convolution::{self, ConvolutionRows};
use super::elementwise::{Input, sharing};
use super::fused::Fused;
use super::matmul;
use super::reduce::{ColumnSums, reduce_rows};
use super::threads::{Chunks, chunks, for_each_of, for_each_run};
use crate::conversion::convert;
use crate::device::Reduce;
use crate::shape::Layout;
use crate::storage::Buffer;
use crate::waiting::shared;
use crate::{Array, DType, Slice, SliceMut};

/// The most elements at a time of the widest rows that are kept for another step: more do not stay in the cache.
const BLOCK: usize = 1 << 15;

/// The most elements at a time of the widest rows, if fewer of them are kept: each block begins anew to ask for
/// memory, and threads share blocks.
const FAR_BLOCK: usize = 1 << 18;

/// The number of blocks of products and convolutions for which fewer elements are computed at a time, so that
/// threads share them, but no fewer than [`LEAST_BLOCK`]. Of other steps, it is four times as many pieces of a quarter,
/// of which a thread takes some as one.
const BLOCKS: usize = 8;

/// See [`BLOCKS`].
const LEAST_BLOCK: usize = 1 << 13;

/// The number of multiplications of a product that take as long as an element of a pass.
const PRODUCTS: usize = 64;

/// Steps that compute rows of values from the same rows of others.
#[derive(Debug)]
pub(crate) struct Rows {
    /// The number of rows, and of elements in the widest that is read or computed.
    rows: usize,
    widest: usize,
    /// The number of elements of a row that all steps go through.
    passed: usize,
    /// The number of rows that go through all steps together.
    block: usize,
    /// The least number of rows that a thread takes at a time. The columns of as many rows are summed before the
    /// sums are merged with those of others.
    piece: usize,
    values: Vec<RowValue>,
    /// Whether a step computes the value, which else is left out.
    is_made: Vec<bool>,
    /// The position of each value among the outputs that have rows.
    outputs: Vec<Option<usize>>,
    steps: Vec<RowStep>,
    /// The arrays that must have memory.
    read_as_rows: Vec<usize>,
}

/// What a step computes.
#[derive(Clone, Debug)]
pub(crate) enum RowWork {
    /// Formulas at each element.
    Pass(Arc<Fused>),
    /// Each row becomes a number.
    Reduce(Reduce),
    /// The same, by machine code.
    Fold(Arc<Fused>),
    /// Each column becomes a number.
    SumOfColumns,
    /// `alpha a b + beta c` for rows of `a`, with a `b` of this size.
    Product { alpha: f64, beta: f64, size: usize },
    /// Each row is an example.
    Convolution(Arc<ConvolutionRows>),
}

/// A step, with the values that it reads and writes.
#[derive(Debug)]
pub(crate) struct RowStep {
    pub(crate) work: RowWork,
    pub(crate) inputs: Vec<RowSource>,
    pub(crate) outputs: Vec<usize>,
}

/// Where an input of a step comes from.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum RowSource {
    /// The value with this number, in the same rows.
    Value(usize),
    /// The array with this number.
    Array(usize),
}

/// What a step computes for each row, or the sums of columns.
#[derive(Debug)]
pub(crate) struct RowValue {
    pub(crate) dtype: DType,
    /// The number of elements in each row, or 0 for sums of columns.
    pub(crate) width: usize,
    pub(crate) layout: Layout,
    pub(crate) is_output: bool,
}

/// The number of elements in some of the rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Widths {
    /// In the widest that is read.
    pub(crate) read: usize,
    /// In the widest that several steps read or compute.
    pub(crate) kept: usize,
}

impl Rows {
    /// Creates the steps for this number of rows. `piece` is that of
    /// [`column_piece`](super::reduce::column_piece) if columns are summed.
    pub(crate) fn new(
        rows: usize,
        Widths { read, kept }: Widths,
        piece: Option<usize>,
        values: Vec<RowValue>,
        steps: Vec<RowStep>,
    ) -> Self {
        let mut read_as_rows: Vec<usize> = Vec::new();
        for step in &steps {
            let tables: &[usize] = match step.work {
                RowWork::Pass(_) => &[],
                RowWork::Reduce(_)
                | RowWork::Fold(_)
                | RowWork::SumOfColumns
                | RowWork::Product { .. }
                | RowWork::Convolution(_) => &[0],
            };
            for &table in tables {
                if let RowSource::Array(array) = step.inputs[table] {
                    read_as_rows.push(array);
                }
            }
        }
        let mut outputs = 0;
        let outputs = values.iter().map(|value| {
            let is_output = value.is_output && value.width > 0;
            outputs += usize::from(is_output);
            is_output.then(|| outputs - 1)
        });
        let mut is_made = vec![false; values.len()];
        let made = steps.iter().flat_map(|step| &step.outputs);
        made.for_each(|&value| is_made[value] = true);
        let widths = values.iter().map(|value| value.width);
        let passed = steps.iter().map(|step| match &step.work {
            // What it reads may be repeated along the rows, and what it makes be folded.
            RowWork::Pass(fused) | RowWork::Fold(fused) => fused.size() / rows,
            RowWork::Reduce(_)
            | RowWork::SumOfColumns
            | RowWork::Product { .. }
            | RowWork::Convolution(_) => {
                let inputs = step.inputs.iter().map(|source| match source {
                    RowSource::Value(value) => values[*value].width,
                    RowSource::Array(_) => read,
                });
                let outputs = step.outputs.iter().map(|&value| values[value].width);
                inputs.chain(outputs).max().unwrap_or(0)
            }
        });
        let passed = passed.sum();
        let mut plan = Self {
            rows,
            widest: widths.chain([read, 1]).max().expect("there is one"),
            passed,
            block: 1,
            piece: 1,
            outputs: outputs.collect(),
            is_made,
            values,
            steps,
            read_as_rows,
        };
        let most = (FAR_BLOCK / plan.widest).min(BLOCK / kept);
        let most = most.clamp(1, piece.unwrap_or(rows));
        let share = (rows * plan.widest / BLOCKS).max(LEAST_BLOCK) / plan.widest;
        let share = share.clamp(1, most);
        let at_once = plan.steps.iter().filter_map(|step| match &step.work {
            RowWork::Convolution(convolution) => Some(convolution.at_once()),
            _ => None,
        });
        // Each convolution takes whole groups of its examples, but for the last ones of all.
        let together = at_once.reduce(least_common_multiple);
        (plan.block, plan.piece) = if let Some(together) = together {
            let block = share.next_multiple_of(together).min(rows);
            (block, piece.unwrap_or(block))
        } else if plan.products() > 0 {
            let block = matmul::block_of_rows(share, rows).min(piece.unwrap_or(rows));
            (block, piece.unwrap_or(block))
        } else {
            (most, piece.unwrap_or(share.div_ceil(4)))
        };
        plan
    }

    /// Computes the outputs in the order of the values, or returns `None` if an array that is read as
    /// rows turns out to repeat a single value, or a convolution would not employ all threads.
    pub(crate) fn run(&self, arrays: &[Array]) -> Option<Vec<Array>> {
        if (self.read_as_rows.iter()).any(|&i| arrays[i].inline().is_some()) {
            return None;
        }
        let is_convolution = |step: &RowStep| matches!(step.work, RowWork::Convolution(_));
        let is_short = || self.rows.div_ceil(self.piece) < rayon::current_num_threads();
        if self.steps.iter().any(is_convolution) && is_short() {
            return None;
        }
        Some(shared(|| self.computed(arrays)))
    }

    fn computed(&self, arrays: &[Array]) -> Vec<Array> {
        let arrays = &*self.with_factors(arrays);
        let weights = &self.weights(arrays)[..];
        let mut buffers: Vec<Option<Buffer>> = (self.values.iter())
            .map(|value| {
                let size = value.layout.shape.size();
                value.is_output.then(|| Buffer::of(value.dtype, size))
            })
            .collect();
        let outs = buffers.iter_mut().zip(&self.values);
        let outs = outs.filter(|(_, value)| value.width > 0);
        let outs =
            outs.filter_map(|(buffer, value)| Some((buffer.as_mut()?.as_mut_run(), value.width)));
        let parts = Pieces {
            outs: outs.collect(),
            piece: self.piece,
            rows: self.rows,
        };
        let has_sums = self.sums().next().is_some();
        let mut sums: Vec<Vec<ColumnSums>> = (0..self.rows.div_ceil(self.piece))
            .map(|_| self.sums().map(|(_, sum)| sum).collect())
            .collect();
        let elements = self.rows * (self.passed + self.products() / PRODUCTS);
        let per_piece = (parts, chunks(&mut sums, 1));
        for_each_run(per_piece, sharing(elements), 1, &|first, run| {
            let mut scratch = Scratch::new(self, run.0.rows, arrays, weights);
            // PERF: each block begins anew, so those of a run are no smaller than the cache wants them.
            if !has_sums {
                let parts = run.0;
                return scratch.piece(first * self.piece, parts.rows, parts.one(), &mut []);
            }
            for_each_of(first, run, &mut |piece, (outs, sums)| {
                let start = piece * self.piece;
                let count = self.piece.min(self.rows - start);
                scratch.piece(start, count, outs, &mut sums[0]);
            });
        });
        let (merged, others) = sums.split_at_mut(1);
        for other in others {
            (merged[0].iter_mut().zip(other)).for_each(|(sum, other)| sum.merge(other));
        }
        for ((value, _), sum) in self.sums().zip(&merged[0]) {
            let buffer = buffers[value].as_mut().expect("sums are outputs");
            sum.finish(buffer.as_mut_run());
        }
        let made = buffers.into_iter().zip(&self.values);
        made.filter_map(|(buffer, value)| Some(Array::of_buffer(buffer?, value.layout.clone())))
            .collect()
    }

    /// The machine code of the passes as text.
    pub(crate) fn assembly(&self) -> Vec<String> {
        let code = |step: &RowStep| match &step.work {
            RowWork::Pass(fused) | RowWork::Fold(fused) => fused.assembly(),
            RowWork::Reduce(_)
            | RowWork::SumOfColumns
            | RowWork::Product { .. }
            | RowWork::Convolution(_) => None,
        };
        self.steps.iter().filter_map(code).collect()
    }

    /// The arrays, with the right factors of products in the order in which rows are multiplied.
    fn with_factors<'a>(&self, arrays: &'a [Array]) -> Cow<'a, [Array]> {
        let mut arrays = Cow::Borrowed(arrays);
        for step in &self.steps {
            if let RowWork::Product { .. } = step.work
                && let RowSource::Array(b) = step.inputs[1]
                && let Some(factor) = matmul::factor_of_rows(&arrays[b], self.rows)
            {
                arrays.to_mut()[b] = factor;
            }
        }
        arrays
    }

    /// The weights of each step that is a convolution.
    fn weights(&self, arrays: &[Array]) -> Vec<Option<convolution::Weights>> {
        let steps = self
            .steps
            .iter()
            .map(|step| match (&step.work, step.inputs.get(1)) {
                (RowWork::Convolution(convolution), Some(RowSource::Array(w))) => {
                    Some(convolution.weights(&arrays[*w]))
                }
                _ => None,
            });
        steps.collect()
    }

    /// The number of multiplications for a row.
    fn products(&self) -> usize {
        let sizes = self.steps.iter().map(|step| match &step.work {
            RowWork::Product { size, .. } => *size,
            RowWork::Convolution(convolution) => convolution.products(),
            _ => 0,
        });
        sizes.sum()
    }

    /// The sums of columns, before the first row, with the numbers of their values.
    fn sums(&self) -> impl Iterator<Item = (usize, ColumnSums)> + '_ {
        let values = self.values.iter().enumerate();
        values
            .filter(|(_, value)| value.width == 0)
            .map(|(i, value)| (i, ColumnSums::new(value.dtype, value.layout.shape.size())))
    }

    /// The number of elements of a value in each row.
    fn width(&self, value: usize) -> usize {
        self.values[value].width
    }
}

/// The least number that is a multiple of both.
fn least_common_multiple(a: usize, b: usize) -> usize {
    let (mut divisor, mut rest) = (a, b);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a / divisor * b
}

impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, block, .. } = self;
        write!(f, "{block} of {rows} rows at a time")
    }
}

/// The memory of the values of a block.
struct Scratch<'a> {
    plan: &'a Rows,
    /// The number of rows that go through all steps together.
    block: usize,
    arrays: &'a [Array],
    /// The weights of each step that is a convolution, and its own memory.
    weights: &'a [Option<convolution::Weights>],
    convolutions: Vec<Option<convolution::Scratch>>,
    /// The memory of values that are no outputs, and of single numbers, which passes repeat.
    buffers: Vec<Option<Buffer>>,
}

impl<'a> Scratch<'a> {
    fn new(
        plan: &'a Rows,
        rows: usize,
        arrays: &'a [Array],
        weights: &'a [Option<convolution::Weights>],
    ) -> Self {
        let block = plan.block.min(rows);
        let buffers = plan
            .values
            .iter()
            .zip(plan.outputs.iter().zip(&plan.is_made))
            .map(|(value, (output, is_made))| {
                let is_own = output.is_none() || value.width == 1;
                (is_own && *is_made).then(|| Buffer::of(value.dtype, block * value.width))
            });
        let convolutions = plan.steps.iter().map(|step| match &step.work {
            RowWork::Convolution(own) => own.scratch(plan.values[step.outputs[0]].dtype),
            _ => None,
        });
        Self {
            plan,
            block,
            arrays,
            weights,
            convolutions: convolutions.collect(),
            buffers: buffers.collect(),
        }
    }

    /// Computes `count` rows, whose first one is `start`.
    fn piece(
        &mut self,
        start: usize,
        count: usize,
        mut outs: Vec<SliceMut<'_>>,
        sums: &mut [ColumnSums],
    ) {
        for done in (0..count).step_by(self.block) {
            let rows = self.block.min(count - done);
            let mut block: SmallVec<[SliceMut<'_>; 4]> = outs
                .iter_mut()
                .map(|out| {
                    let width = out.len() / count;
                    out.range(done * width, rows * width)
                })
                .collect();
            self.block(start + done, rows, &mut block, sums);
        }
        sums.iter_mut().for_each(ColumnSums::end);
    }

    fn block(
        &mut self,
        start: usize,
        rows: usize,
        outs: &mut [SliceMut<'_>],
        sums: &mut [ColumnSums],
    ) {
        let plan = self.plan;
        let mut sums = sums.iter_mut();
        for (number, step) in plan.steps.iter().enumerate() {
            // Outputs are taken out, so that inputs can be read.
            let mut own: SmallVec<[Option<Buffer>; 3]> = (step.outputs.iter())
                .map(|&value| self.buffers[value].take())
                .collect();
            let mut readable: SmallVec<[Option<Slice<'_>>; 4]> = SmallVec::new();
            let mut writable: SmallVec<[Option<SliceMut<'_>>; 4]> = SmallVec::new();
            for (i, out) in outs.iter_mut().enumerate() {
                let is_written = step
                    .outputs
                    .iter()
                    .any(|&v| self.plan.outputs[v] == Some(i));
                let len = out.len();
                match is_written {
                    true => {
                        writable.push(Some(out.range(0, len)));
                        readable.push(None);
                    }
                    false => {
                        readable.push(Some(out.as_slice()));
                        writable.push(None);
                    }
                }
            }
            if let RowWork::SumOfColumns = step.work {
                let sum = sums.next().expect("there is one for each such step");
                sum.take(self.rows_of(step.inputs[0], start, rows, &readable));
                continue;
            }
            let mut targets: SmallVec<[SliceMut<'_>; 3]> = SmallVec::new();
            for (buffer, &value) in own.iter_mut().zip(&step.outputs) {
                targets.push(match (buffer, self.plan.outputs[value]) {
                    (Some(buffer), _) => {
                        let run = buffer.as_mut_run();
                        run.split_at(rows * plan.width(value)).0
                    }
                    (None, output) => {
                        let out = output.and_then(|output| writable[output].take());
                        out.expect("a value has memory, and a step writes it once")
                    }
                });
            }
            let mut own_scratch = self.convolutions[number].take();
            let convolved = (self.weights[number].as_ref(), own_scratch.as_mut());
            self.step(step, convolved, start, rows, &readable, &mut targets);
            self.convolutions[number] = own_scratch;
            for (target, &value) in targets.iter().zip(&step.outputs) {
                let out = self.plan.outputs[value].and_then(|output| writable[output].take());
                if let Some(out) = out {
                    convert(target.as_slice(), out);
                }
            }
            drop(targets);
            for (buffer, &value) in own.into_iter().zip(&step.outputs) {
                self.buffers[value] = buffer;
            }
        }
    }

    fn step(
        &self,
        step: &RowStep,
        (weights, scratch): (
            Option<&convolution::Weights>,
            Option<&mut convolution::Scratch>,
        ),
        start: usize,
        rows: usize,
        outs: &[Option<Slice<'_>>],
        targets: &mut [SliceMut<'_>],
    ) {
        let source = |i: usize| self.rows_of(step.inputs[i], start, rows, outs);
        match &step.work {
            RowWork::Pass(fused) | RowWork::Fold(fused) => {
                let first = start * (fused.size() / self.plan.rows);
                let inputs = step
                    .inputs
                    .iter()
                    .enumerate()
                    .map(|(i, &input)| match input {
                        RowSource::Array(array) => fused.input(i, &self.arrays[array], first),
                        RowSource::Value(value) => match &self.buffers[value] {
                            Some(buffer) => {
                                fused.input_of_block(i, buffer, rows * self.plan.width(value))
                            }
                            None => fused.input_of_run(i, source(i)),
                        },
                    });
                let inputs: SmallVec<[Input<'_>; 8]> = inputs.collect();
                fused.fill_from(0, &inputs, targets);
            }
            RowWork::Reduce(reduction) => {
                let x = source(0);
                reduce_rows(*reduction, x, x.len() / rows, targets[0].range(0, rows));
            }
            RowWork::Product { alpha, beta, .. } => {
                let [b, c] = [1, 2].map(|i| match step.inputs[i] {
                    RowSource::Array(array) => &self.arrays[array],
                    RowSource::Value(_) => unreachable!("it is there before"),
                });
                let len = rows * self.plan.width(step.outputs[0]);
                let out = targets[0].range(0, len);
                matmul::rows([*alpha, *beta], source(0), b, c, rows, out);
            }
            RowWork::Convolution(convolution) => {
                let len = rows * self.plan.width(step.outputs[0]);
                let weights = weights.expect("they were made ready");
                convolution.run(source(0), weights, scratch, targets[0].range(0, len));
            }
            RowWork::SumOfColumns => unreachable!("it has no rows of its own"),
        }
    }

    /// Some rows of an array or of a value.
    fn rows_of<'b>(
        &'b self,
        source: RowSource,
        start: usize,
        rows: usize,
        outs: &[Option<Slice<'b>>],
    ) -> Slice<'b> {
        match source {
            RowSource::Array(array) => {
                let x = &self.arrays[array];
                let width = x.size() / self.plan.rows;
                let buffer = x.buffer().expect("it has memory, as was asked");
                let first = x.layout().offset + start * width;
                buffer.as_run().range(first, rows * width)
            }
            RowSource::Value(value) => match (&self.buffers[value], self.plan.outputs[value]) {
                (Some(buffer), _) => buffer.as_run().range(0, rows * self.plan.width(value)),
                (None, output) => {
                    let out = output.and_then(|output| outs[output]);
                    out.expect("a value has memory, and is not read where it is written")
                }
            },
        }
    }
}

/// Pieces of all outputs, of one number of rows each.
struct Pieces<'a> {
    /// The elements of each output, and their number in a row.
    outs: Vec<(SliceMut<'a>, usize)>,
    piece: usize,
    rows: usize,
}

impl<'a> Chunks for Pieces<'a> {
    type Chunk = Vec<SliceMut<'a>>;
    fn count(&self) -> usize {
        self.rows.div_ceil(self.piece)
    }
    fn split(self, count: usize) -> (Self, Self) {
        let at = (count * self.piece).min(self.rows);
        let split = |(out, width): (SliceMut<'a>, usize)| {
            let (first, others) = out.split_at(at * width);
            ((first, width), (others, width))
        };
        let (first, others) = self.outs.into_iter().map(split).unzip();
        let part = |outs, rows| Self {
            outs,
            piece: self.piece,
            rows,
        };
        (part(first, at), part(others, self.rows - at))
    }
    fn one(self) -> Self::Chunk {
        self.outs.into_iter().map(|(out, _)| out).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads share a pass by what it goes through, also if it stores one number for each row.
    #[test]
    fn the_work_of_a_fold_is_what_it_reads() {
        let (rows, width) = (64, 1000);
        let Some(fold) = Fused::fold_of(rows, width, Reduce::Max) else {
            return;
        };
        let maximum = RowValue {
            dtype: DType::F32,
            width: 1,
            layout: Layout::row_major([rows, 1].into()),
            is_output: true,
        };
        let step = RowStep {
            work: RowWork::Pass(Arc::new(fold)),
            inputs: vec![RowSource::Array(0)],
            outputs: vec![0],
        };
        let widths = Widths {
            read: width,
            kept: 1,
        };
        let plan = Rows::new(rows, widths, None, vec![maximum], vec![step]);
        assert_eq!(plan.passed, width);
    }
}
