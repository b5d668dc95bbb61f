//! Folds across memory: neighbouring results take whole rows of elements.

use pulp::{Arch, Simd, WithSimd};

use super::along::Beside;
use super::fold::{Fold, RUN, Sum};
use super::{LANES, Plan};
use crate::cpu::is_plain;
use crate::storage::{list, page, prefetch};
use crate::{DType, Slice, SliceMut};

/// Takes `count` elements, from position `from` on, into each of the results from `first` on.
#[inline(always)]
pub(super) fn take<S: Simd, F: Fold>(
    memory: &[F::Input],
    plan: &Plan,
    first: usize,
    (from, count): (usize, usize),
    totals: &mut [F::Total],
) {
    let mut parts = list(F::START, totals.len());
    let mut beside = Beside::default();
    for kept in plan.kept.runs(first, totals.len()) {
        let step = kept.step as usize;
        let totals = &mut totals[kept.done..][..kept.len];
        let parts = &mut parts[kept.done..][..kept.len];
        let mut rows = Rows::<F> {
            parts,
            taken: 0,
            totals,
        };
        for run in plan.reduced.runs(from, count) {
            let at = |i: usize| kept.start + run.start + i * run.step as usize;
            let mut i = 0;
            if step == 1 && const { !is_plain::<S>() } {
                while i < run.len {
                    i += rows.take_some(&memory[at(i)..], run.step as usize, run.len - i);
                }
            }
            for i in i..run.len {
                rows.take(beside.one_another(&memory[at(i)..], step, kept.len));
            }
        }
        rows.collect();
    }
}

/// The largest number of rows of which a part takes an element before the next part does, so that their lines
/// stay in the nearest cache.
const AT_ONCE: usize = RUN;

/// Some rows of elements, and what is asked for behind each.
struct Block<'a, T> {
    memory: &'a [T],
    step: usize,
    count: usize,
    ahead: usize,
    /// Whether parts are collected after these rows.
    is_full: bool,
}

/// Neighbouring results, each with its own part.
pub(super) struct Rows<'a, F: Fold> {
    parts: &'a mut [F::Part],
    /// The number of elements in each part.
    taken: usize,
    totals: &'a mut [F::Total],
}

impl<F: Fold> Rows<'_, F> {
    /// Takes one element into each result.
    #[inline(always)]
    fn take(&mut self, row: &[F::Input]) {
        for (part, &x) in self.parts.iter_mut().zip(row) {
            *part = F::add(*part, x);
        }
        if let Some(most) = F::RUN {
            self.taken += 1;
            if self.taken == most {
                self.collect();
            }
        }
    }

    /// Takes one element of each of some of `count` rows, which are `step` apart, into each result, those of the
    /// first row first. Returns the number of these rows.
    #[inline(always)]
    fn take_some(&mut self, memory: &[F::Input], step: usize, count: usize) -> usize {
        // PERF: wide rows push each other out of the cache, as each has the same place in its page, so only their
        // next columns are asked for.
        let is_wide = step > page::<F::Input>() / 2;
        let most = if is_wide { AT_ONCE / 2 } else { AT_ONCE };
        let count = count
            .min(most)
            .min(F::RUN.map_or(most, |run| run - self.taken));
        let block = Block {
            memory,
            step,
            count,
            ahead: if is_wide { 4 * LANES } else { count * step },
            is_full: F::RUN == Some(self.taken + count),
        };
        let mut at = 0;
        // Parts of more bytes do not fit the registers of every machine. What is rare is not worth the code.
        if const { size_of::<F::Part>() <= size_of::<f32>() && !F::SELDOM } {
            self.take_columns::<{ 2 * LANES }>(&block, &mut at);
        }
        self.take_columns::<LANES>(&block, &mut at);
        if const { !F::SELDOM } {
            self.take_columns::<{ LANES / 2 }>(&block, &mut at);
            self.take_columns::<{ LANES / 4 }>(&block, &mut at);
        }
        self.take_columns::<1>(&block, &mut at);
        self.taken = match F::RUN {
            Some(_) if !block.is_full => self.taken + count,
            _ => 0,
        };
        count
    }

    /// Takes as many columns as there are, from one on, `WIDTH` at a time. Their parts stay in registers, from
    /// where they are collected if they are full.
    #[inline(always)]
    fn take_columns<const WIDTH: usize>(&mut self, block: &Block<'_, F::Input>, at: &mut usize) {
        let (parts, _) = self.parts[*at..].as_chunks_mut::<WIDTH>();
        let (totals, _) = self.totals[*at..].as_chunks_mut::<WIDTH>();
        for (parts, totals) in parts.iter_mut().zip(totals) {
            // PERF: a copy that is only indexed by constants stays in registers.
            let mut own = *parts;
            let mut start = *at;
            for _ in 0..block.count {
                let row: &[F::Input; WIDTH] = block.memory[start..]
                    .first_chunk()
                    .expect("there is an element for each result");
                prefetch(row, block.ahead);
                for lane in 0..WIDTH {
                    own[lane] = F::add(own[lane], row[lane]);
                }
                start += block.step;
            }
            if block.is_full {
                for lane in 0..WIDTH {
                    totals[lane] = F::collect(totals[lane], own[lane]);
                }
                own = [F::START; WIDTH];
            }
            *parts = own;
            *at += WIDTH;
        }
    }

    #[inline(always)]
    fn collect(&mut self) {
        for (total, part) in self.totals.iter_mut().zip(&mut *self.parts) {
            *total = F::collect(*total, std::mem::replace(part, F::START));
        }
        self.taken = 0;
    }
}

/// Sums of the columns of rows that come one after the other.
pub(in crate::cpu) enum ColumnSums {
    F32(Columns<Sum<f32>>),
    F64(Columns<Sum<f64>>),
}

/// Folds of columns.
pub(in crate::cpu) struct Columns<F: Fold> {
    parts: Vec<F::Part>,
    taken: usize,
    totals: Vec<F::Total>,
}

impl<F: Fold> Columns<F> {
    fn new(width: usize) -> Self {
        Self {
            parts: list(F::START, width),
            taken: 0,
            totals: list(F::EMPTY, width),
        }
    }

    fn rows(&mut self) -> Rows<'_, F> {
        Rows {
            parts: &mut self.parts,
            taken: self.taken,
            totals: &mut self.totals,
        }
    }

    fn merge(&mut self, other: &Self) {
        for (total, &other) in self.totals.iter_mut().zip(&other.totals) {
            *total = F::merge(*total, other);
        }
    }

    fn finish(&self, out: &mut [F::Output]) {
        for (y, &total) in out.iter_mut().zip(&self.totals) {
            *y = F::finish(total, 1);
        }
    }
}

struct TakeRows<'a, F: Fold>(&'a mut Columns<F>, &'a [F::Input]);

impl<F: Fold> WithSimd for TakeRows<'_, F> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self(columns, memory) = self;
        let mut rows = columns.rows();
        let width = rows.parts.len();
        let count = memory.len() / width;
        let mut i = 0;
        if const { !is_plain::<S>() } {
            while i < count {
                i += rows.take_some(&memory[i * width..], width, count - i);
            }
        }
        for row in memory[i * width..].chunks_exact(width) {
            rows.take(row);
        }
        columns.taken = rows.taken;
    }
}

impl ColumnSums {
    pub(in crate::cpu) fn new(dtype: DType, width: usize) -> Self {
        match dtype {
            DType::F32 => Self::F32(Columns::new(width)),
            DType::F64 => Self::F64(Columns::new(width)),
            DType::Bool
            | DType::U8
            | DType::I32
            | DType::I64
            | DType::F16
            | DType::BF16
            | DType::C64
            | DType::C128 => {
                unreachable!("`column_piece` was asked")
            }
        }
    }

    /// Adds rows of one element for each column.
    pub(in crate::cpu) fn take(&mut self, x: Slice<'_>) {
        match (self, x) {
            (Self::F32(sums), Slice::F32(x)) => Arch::new().dispatch(TakeRows(sums, x)),
            (Self::F64(sums), Slice::F64(x)) => Arch::new().dispatch(TakeRows(sums, x)),
            (Self::F32(_) | Self::F64(_), _) => unreachable!("rows have the dtype of the sums"),
        }
    }

    /// Ends a piece.
    pub(in crate::cpu) fn end(&mut self) {
        match self {
            Self::F32(sums) => sums.rows().collect(),
            Self::F64(sums) => sums.rows().collect(),
        }
    }

    /// Adds the sums of a piece that follows.
    pub(in crate::cpu) fn merge(&mut self, other: &Self) {
        match (self, other) {
            (Self::F32(sums), Self::F32(other)) => sums.merge(other),
            (Self::F64(sums), Self::F64(other)) => sums.merge(other),
            (Self::F32(_) | Self::F64(_), _) => unreachable!("pieces have one dtype"),
        }
    }

    pub(in crate::cpu) fn finish(&self, out: SliceMut<'_>) {
        match (self, out) {
            (Self::F32(sums), SliceMut::F32(out)) => sums.finish(out),
            (Self::F64(sums), SliceMut::F64(out)) => sums.finish(out),
            (Self::F32(_) | Self::F64(_), _) => unreachable!("sums have the dtype of the rows"),
        }
    }
}
