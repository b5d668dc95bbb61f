//! Folds across memory: neighbouring results take whole rows of elements.

use pulp::{Arch, Simd, WithSimd};

use super::along::Beside;
use super::fold::{Fold, Sum};
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
            while step == 1 && i + AT_ONCE <= run.len && rows.has_room::<S>() {
                let next = AT_ONCE * run.step as usize;
                rows.take_some(
                    std::array::from_fn(|k| &memory[at(i + k)..][..kept.len]),
                    next,
                );
                i += AT_ONCE;
            }
            for i in i..run.len {
                rows.take(beside.one_another(&memory[at(i)..], step, kept.len));
            }
        }
        rows.collect();
    }
}

/// The number of rows whose elements a part takes one after the other before it is written back.
// PERF: there is a register for the place of each row; 16 rows take twice as long.
const AT_ONCE: usize = 8;

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

    /// Whether parts may take another [`AT_ONCE`] elements at once before they are collected.
    #[inline(always)]
    fn has_room<S: Simd>(&self) -> bool {
        !const { is_plain::<S>() } && F::RUN.is_none_or(|most| self.taken + AT_ONCE <= most)
    }

    /// Takes elements into each result, those of the first row first, and asks for those that are so many
    /// elements behind them.
    #[inline(always)]
    fn take_some(&mut self, rows: [&[F::Input]; AT_ONCE], ahead: usize) {
        let (parts, last) = self.parts.as_chunks_mut::<LANES>();
        let count = parts.len();
        let all = rows.map(|row| &row.as_chunks::<LANES>().0[..count]);
        // PERF: wide rows would push each other out of the cache: each has the same place in its page.
        let ahead = match ahead > AT_ONCE * page::<F::Input>() / 2 {
            true => 0,
            false => ahead,
        };
        for (i, parts) in parts.iter_mut().enumerate() {
            let mut own = *parts;
            for row in all {
                let row = &row[i];
                prefetch(row, ahead);
                for lane in 0..LANES {
                    own[lane] = F::add(own[lane], row[lane]);
                }
            }
            *parts = own;
        }
        for row in rows {
            for (part, &x) in last.iter_mut().zip(row.as_chunks::<LANES>().1) {
                *part = F::add(*part, x);
            }
        }
        if let Some(most) = F::RUN {
            self.taken += AT_ONCE;
            if self.taken == most {
                self.collect();
            }
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
        let mut memory = memory;
        while memory.len() >= AT_ONCE * width && rows.has_room::<S>() {
            let next = AT_ONCE * width;
            rows.take_some(std::array::from_fn(|i| &memory[i * width..][..width]), next);
            memory = &memory[AT_ONCE * width..];
        }
        for row in memory.chunks_exact(width) {
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
