//! Reductions over any axes of any layout.
//!
//! Axes of step 0 are removed first, because they repeat values. The others are sorted by their
//! step. If the smallest step belongs to a reduced axis, each result is folded *along* memory in
//! [`LANES`] parts that vector instructions advance together. Otherwise whole rows of results are
//! folded *across*, one row of elements at a time.
//!
//! The work is split by sizes only, never by the number of threads, so results are the same to the
//! last bit on any machine, whatever its number of vector lanes.

mod across;
mod along;
mod fold;
mod lanes;
mod plan;
mod position;

use std::marker::PhantomData;

use pulp::{Arch, Simd, WithSimd};

pub(super) use self::across::ColumnSums;
pub(crate) use self::fold::RUN;
use self::fold::{All, Any, Extreme, Max, Min};
pub(super) use self::fold::{Fold, Product, Sum};
use self::plan::{Plan, TILE, piece};
use self::position::Position;
use super::threads::{Sharing, chunks, for_each};
use super::{converted, dispatch_short, elements};
use crate::device::Reduce;
use crate::dtype::Accumulator;
use crate::shape::{Layout, Shape};
use crate::storage::list;
use crate::{Array, DType, Element, Slice, SliceMut, ops};

/// The number of parts that a fold along memory computes side by side.
pub(crate) const LANES: usize = 32;
/// The number of elements whose extreme is found before checking whether it is a new one, and the
/// least number of neighbours in a piece.
const BLOCK: usize = 1024;

/// Reduces `axes` of `x`, whose type is its own accumulator.
pub(super) fn reduce(reduction: Reduce, x: &Array, axes: &[usize]) -> Array {
    match (reduction, x.dtype().computed()) {
        (Reduce::Sum, Accumulator::Bool) => run::<Folded<Sum<bool>>>(x, axes),
        (Reduce::All | Reduce::Min, Accumulator::Bool) => run::<Folded<All>>(x, axes),
        (Reduce::Any | Reduce::Max, Accumulator::Bool) => run::<Folded<Any>>(x, axes),
        (Reduce::Product, Accumulator::Bool) => ops::cast(reduce(Reduce::All, x, axes), DType::I64),
        (Reduce::ArgMax | Reduce::ArgMin, Accumulator::Bool) => {
            reduce(reduction, &converted(x, DType::I64), axes)
        }
        (Reduce::All | Reduce::Any, _) => reduce(reduction, &converted(x, DType::Bool), axes),
        (_, Accumulator::I64) => reduce_numbers::<i64>(reduction, x, axes),
        (_, Accumulator::F32) => reduce_numbers::<f32>(reduction, x, axes),
        (_, Accumulator::F64) => reduce_numbers::<f64>(reduction, x, axes),
        (_, Accumulator::C64 | Accumulator::C128) => crate::dtype::not_complex(),
    }
}

fn reduce_numbers<T: Element>(reduction: Reduce, x: &Array, axes: &[usize]) -> Array
where
    Sum<T>: Fold<Input = T>,
    Product<T>: Fold<Input = T>,
    Max<T>: Extreme<T>,
    Min<T>: Extreme<T>,
{
    match reduction {
        Reduce::Sum => run::<Folded<Sum<T>>>(x, axes),
        Reduce::Product => run::<Folded<Product<T>>>(x, axes),
        Reduce::Max => run::<Folded<Max<T>>>(x, axes),
        Reduce::Min => run::<Folded<Min<T>>>(x, axes),
        Reduce::ArgMax => run::<Position<T, Max<T>>>(&forward(x, axes), axes),
        Reduce::ArgMin => run::<Position<T, Min<T>>>(&forward(x, axes), axes),
        Reduce::All | Reduce::Any => unreachable!("of truths only"),
    }
}

/// `x` with positive steps along `axes`, which counting positions requires.
fn forward(x: &Array, axes: &[usize]) -> Array {
    match axes.iter().any(|&axis| x.strides()[axis] < 0) {
        true => x.to_row_major(),
        false => x.clone(),
    }
}

// ----- the computation

/// A way to compute results.
trait Reducer: Sized {
    type Input: Element;
    type Total: Copy + Send + Sync;
    type Output: Element;
    const EMPTY: Self::Total;
    /// See [`Fold::SELDOM`].
    const SELDOM: bool;
    /// Takes `count` elements, from position `from` on, into each of `totals`. There are at most
    /// [`TILE`] of these, and the first is that of result `first`.
    fn take<S: Simd>(simd: S, part: PartOf<'_, Self>);
    fn merge(a: Self::Total, b: Self::Total) -> Self::Total;
    fn finish(total: Self::Total, repeats: usize) -> Self::Output;
}

/// Some elements of some results.
struct Part<'a, I, T> {
    memory: &'a [I],
    plan: &'a Plan,
    /// The number of the first result.
    first: usize,
    /// The results, at most [`TILE`].
    totals: &'a mut [T],
    /// The position of the first element of each.
    from: usize,
    /// The number of elements of each.
    count: usize,
}

type PartOf<'a, R> = Part<'a, <R as Reducer>::Input, <R as Reducer>::Total>;

/// A [`Reducer`] reduced to its types and function pointers, so that its callers are compiled once
/// for each combination of types.
struct Erased<I, T, O> {
    empty: T,
    take: fn(Part<'_, I, T>),
    /// Merges totals with others at the same positions.
    merge: fn(&mut [T], &[T]),
    /// The results of totals; see [`Reducer::finish`].
    finish: fn(&[T], usize, &mut [O]),
}

fn run<R: Reducer>(x: &Array, axes: &[usize]) -> Array {
    Erased::of::<R>().run(x, axes)
}

struct Take<'a, R: Reducer>(PartOf<'a, R>);

impl<R: Reducer> WithSimd for Take<'_, R> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        R::take(simd, self.0);
    }
}

impl<I: Element, T: Copy + Send + Sync, O: Element> Erased<I, T, O> {
    fn of<R: Reducer<Input = I, Total = T, Output = O>>() -> Self {
        fn take<R: Reducer>(part: PartOf<'_, R>) {
            let part = Take::<R>(part);
            match const { R::SELDOM } {
                true => dispatch_short(part),
                false => Arch::new().dispatch(part),
            }
        }
        Self {
            empty: R::EMPTY,
            take: take::<R>,
            merge: |totals, others| {
                for (total, &other) in totals.iter_mut().zip(others) {
                    *total = R::merge(*total, other);
                }
            },
            finish: |totals, repeats, out| {
                for (y, &total) in out.iter_mut().zip(totals) {
                    *y = R::finish(total, repeats);
                }
            },
        }
    }

    /// Reduces rows of `width` neighbouring elements, as [`fill`](Self::fill) does if it does not
    /// split them.
    fn rows(&self, memory: &[I], width: usize, out: &mut [O]) {
        let plan = Plan::new(&Layout::row_major(Shape::from([out.len(), width])), &[1]);
        let mut totals = list(self.empty, out.len().min(TILE));
        for (i, out) in out.chunks_mut(TILE).enumerate() {
            let totals = &mut totals[..out.len()];
            totals.fill(self.empty);
            (self.take)(Part {
                memory,
                plan: &plan,
                first: i * TILE,
                totals,
                from: 0,
                count: width,
            });
            (self.finish)(totals, 1, out);
        }
    }

    fn run(&self, x: &Array, axes: &[usize]) -> Array {
        let shape = x.shape().reduced(axes, false);
        if x.size() == 0 {
            let mut y = [O::default()];
            (self.finish)(&[self.empty], 1, &mut y);
            return Array::constant(y[0].to_scalar(), shape);
        }
        let plan = Plan::new(x.layout(), axes);
        let inline = x.inline();
        let memory = elements(x, &inline);
        let results = Array::filled_by(plan.shape.clone(), |out| self.fill(&plan, memory, out));
        let results = results.with_layout(plan.layout);
        match plan.flipped {
            true => results.to_row_major(),
            false => results,
        }
    }

    fn fill(&self, plan: &Plan, memory: &[I], out: &mut [O]) {
        let depth = plan.reduced.len();
        let work = out.len() * depth;
        // Memory delivers about four elements in a nanosecond.
        let sharing = Sharing::of(work / 4);
        let tile = plan.tile();
        let take = |first, totals: &mut [T], from, count| {
            (self.take)(Part {
                memory,
                plan,
                first,
                totals,
                from,
                count,
            });
        };

        let piece = plan.piece();
        if piece < depth {
            let pieces = depth.div_ceil(piece);
            let mut totals = list(self.empty, pieces * out.len());
            for_each(chunks(&mut totals, out.len()), sharing, 1, &|i, totals| {
                for (k, totals) in totals.chunks_mut(tile).enumerate() {
                    take(k * tile, totals, i * piece, piece.min(depth - i * piece));
                }
            });
            let (merged, others) = totals.split_at_mut(out.len());
            for other in others.chunks(out.len()) {
                (self.merge)(merged, other);
            }
            return (self.finish)(merged, plan.repeats, out);
        }

        for_each(chunks(out, tile), sharing, 1, &|i, out| {
            let mut totals = list(self.empty, out.len());
            take(i * tile, &mut totals, 0, depth);
            (self.finish)(&totals, plan.repeats, out);
        });
    }
}

// ----- rows and columns of a table that is computed part by part

/// Whether [`reduce_rows`] computes what [`reduce`] does for as many rows of `width` neighbours.
pub(crate) fn reduces_rows(reduction: Reduce, dtype: DType, rows: usize, width: usize) -> bool {
    let is_known = matches!(reduction, Reduce::Sum | Reduce::Max | Reduce::Min)
        && matches!(dtype, DType::F32 | DType::F64 | DType::I64);
    is_known && rows > 1 && width > 1 && piece(false, width, rows) == width
}

/// Whether [`reduce_rows`] distributes rows over parts, as machine code does.
pub(crate) fn folds_rows(reduction: Reduce, dtype: DType, width: usize) -> bool {
    matches!(reduction, Reduce::Sum | Reduce::Max | Reduce::Min)
        && dtype == DType::F32
        && width > LANES
}

/// Reduces rows of `width` neighbouring elements.
pub(crate) fn reduce_rows(reduction: Reduce, x: Slice<'_>, width: usize, out: SliceMut<'_>) {
    fn rows<T: Element>(reduction: Reduce, x: &[T], width: usize, out: SliceMut<'_>)
    where
        Sum<T>: Fold<Input = T, Output = T>,
        Max<T>: Fold<Input = T, Output = T>,
        Min<T>: Fold<Input = T, Output = T>,
    {
        let out = T::from_slice_mut(out).expect("results have the dtype of the elements");
        match reduction {
            Reduce::Sum => Erased::of::<Folded<Sum<T>>>().rows(x, width, out),
            Reduce::Max => Erased::of::<Folded<Max<T>>>().rows(x, width, out),
            Reduce::Min => Erased::of::<Folded<Min<T>>>().rows(x, width, out),
            Reduce::Product | Reduce::All | Reduce::Any | Reduce::ArgMax | Reduce::ArgMin => {
                unreachable!("`reduces_rows` was asked")
            }
        }
    }
    match x {
        Slice::F32(x) => rows(reduction, x, width, out),
        Slice::F64(x) => rows(reduction, x, width, out),
        Slice::I64(x) => rows(reduction, x, width, out),
        Slice::Bool(_)
        | Slice::U8(_)
        | Slice::I32(_)
        | Slice::F16(_)
        | Slice::BF16(_)
        | Slice::C64(_)
        | Slice::C128(_) => {
            unreachable!("`reduces_rows` was asked")
        }
    }
}

/// The number of rows that [`ColumnSums`] take before they are merged with those of the rows before,
/// as [`reduce`] does, or `None` if they cannot compute the same.
pub(crate) fn column_piece(dtype: DType, rows: usize, width: usize) -> Option<usize> {
    let is_known = matches!(dtype, DType::F32 | DType::F64) && rows > 1 && width > 1;
    is_known.then(|| piece(true, rows, width))
}
// ----- folds

/// A reducer by any [`Fold`].
struct Folded<F>(PhantomData<F>);

impl<F: Fold> Reducer for Folded<F> {
    type Input = F::Input;
    type Total = F::Total;
    type Output = F::Output;
    const EMPTY: F::Total = F::EMPTY;
    const SELDOM: bool = F::SELDOM;

    #[inline(always)]
    fn take<S: Simd>(simd: S, part: PartOf<'_, Self>) {
        let Part {
            memory,
            plan,
            first,
            totals,
            from,
            count,
        } = part;
        let range = (from, count);
        if plan.across {
            return across::take::<S, F>(memory, plan, first, range, totals);
        }
        for kept in plan.kept.runs(first, totals.len()) {
            let step = kept.step as usize;
            let totals = &mut totals[kept.done..][..kept.len];
            let memory = &memory[kept.start..];
            match plan.reduced.even_step() == Some(1) {
                true if count <= LANES => {
                    along::take_few::<S, F>(&memory[from..], step, count, totals);
                }
                true => {
                    for (i, total) in totals.iter_mut().enumerate() {
                        let row = &memory[i * step + from..][..count];
                        along::take_row::<S, F>(simd, row, total);
                    }
                }
                false => along::take::<S, F>(simd, memory, step, &plan.reduced, range, totals),
            }
        }
    }

    #[inline(always)]
    fn merge(a: F::Total, b: F::Total) -> F::Total {
        F::merge(a, b)
    }
    fn finish(total: F::Total, repeats: usize) -> F::Output {
        F::finish(total, repeats)
    }
}
