//! Reductions over any axes of any layout.
//!
//! Axes of step 0 are removed first, because they repeat values. The others are sorted by their
//! step. If the smallest step belongs to a reduced axis, each result is folded *along* memory in
//! [`LANES`] parts that vector instructions advance together. Otherwise whole rows of results are
//! folded *across*, one row of elements at a time.
//!
//! The work is split by sizes only, never by the number of threads, so results are the same to the
//! last bit on any machine, whatever its number of vector lanes.

use std::marker::PhantomData;

use pulp::{Arch, Simd, WithSimd};
use smallvec::SmallVec;

use super::elementwise::{PARALLEL, Steps};
use super::threads::{chunks, for_each};
use super::{converted, dispatch_seldom, elements, is_plain, worth_threads};
use crate::device::Reduce;
use crate::dtype::Accumulator;
use crate::shape::{Layout, Shape};
use crate::storage::list;
use crate::{Array, DType, Element, Slice, SliceMut, ops};

/// The number of parts that a fold along memory computes side by side.
pub(crate) const LANES: usize = 32;
/// The number of results that a fold computes at once: their parts fit the first-level cache.
const TILE: usize = 4096;
/// The number of pieces into which the elements of a few large results are split.
const PIECES: usize = 16;
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

/// A fold of elements into one value.
pub(super) trait Fold: Send + Sync {
    type Input: Element;
    /// The type of a lane.
    type Part: Copy + Send + Sync;
    /// The type in which parts are collected.
    type Total: Copy + Send + Sync;
    type Output: Element;
    /// The number of elements that a part takes before it is collected, if it does not take all.
    const RUN: Option<usize> = None;
    /// Whether it is so rare that it needs no version for the widest vectors.
    const SELDOM: bool = false;
    const START: Self::Part;
    const EMPTY: Self::Total;
    /// The element that changes no part.
    const NEUTRAL: Self::Input;
    fn add(part: Self::Part, x: Self::Input) -> Self::Part;
    fn join(a: Self::Part, b: Self::Part) -> Self::Part;
    fn collect(total: Self::Total, part: Self::Part) -> Self::Total;
    fn merge(a: Self::Total, b: Self::Total) -> Self::Total;
    /// The result, if every element stands for `repeats` equal ones.
    fn finish(total: Self::Total, repeats: usize) -> Self::Output;
}

pub(super) struct Sum<T>(PhantomData<T>);
pub(super) struct Product<T>(PhantomData<T>);
struct Max<T>(PhantomData<T>);
struct Min<T>(PhantomData<T>);
struct All;
struct Any;

/// A fold whose parts are also its totals: how to start, add an element, join two parts and finish.
macro_rules! fold {
    ($fold:ty: $input:ty => $part:ty => $output:ty, $start:expr, $neutral:expr,
     $add:expr, $join:expr, $finish:expr $(, seldom: $seldom:expr)?) => {
        impl Fold for $fold {
            type Input = $input;
            type Part = $part;
            type Total = $part;
            type Output = $output;
            const START: $part = $start;
            const EMPTY: $part = $start;
            const NEUTRAL: $input = $neutral;
            $(const SELDOM: bool = $seldom;)?
            #[inline(always)]
            fn add(part: $part, x: $input) -> $part {
                let add: fn($part, $input) -> $part = $add;
                add(part, x)
            }
            #[inline(always)]
            fn join(a: $part, b: $part) -> $part {
                let join: fn($part, $part) -> $part = $join;
                join(a, b)
            }
            #[inline(always)]
            fn collect(total: $part, part: $part) -> $part {
                Self::join(total, part)
            }
            #[inline(always)]
            fn merge(a: $part, b: $part) -> $part {
                Self::join(a, b)
            }
            fn finish(total: $part, repeats: usize) -> $output {
                let finish: fn($part, usize) -> $output = $finish;
                finish(total, repeats)
            }
        }
    };
}

fold!(Sum<bool>: bool => i64 => i64, 0, false, |a, x| a + i64::from(x), |a, b| a + b,
      |a, n| a.wrapping_mul(n as i64));
fold!(Sum<i64>: i64 => i64 => i64, 0, 0, |a, x| a.wrapping_add(x), |a, b| a.wrapping_add(b),
      |a, n| a.wrapping_mul(n as i64));
fold!(Sum<f32>: f32 => f64 => f32, 0.0, 0.0, |a, x| a + f64::from(x), |a, b| a + b,
      |a, n| (a * n as f64) as f32);
fold!(Product<i64>: i64 => i64 => i64, 1, 1, |a, x| a.wrapping_mul(x), |a, b| a.wrapping_mul(b),
      |a, n| power(a, n, i64::wrapping_mul), seldom: true);
fold!(Product<f32>: f32 => f64 => f32, 1.0, 1.0, |a, x| a * f64::from(x), |a, b| a * b,
      |a, n| power(a, n, |a, b| a * b) as f32, seldom: true);
fold!(Product<f64>: f64 => f64 => f64, 1.0, 1.0, |a, x| a * x, |a, b| a * b,
      |a, n| power(a, n, |a, b| a * b), seldom: true);
fold!(Any: bool => bool => bool, false, false, |a, x| a | x, |a, b| a | b, |a, _| a,
      seldom: true);
fold!(All: bool => bool => bool, true, true, |a, x| a & x, |a, b| a & b, |a, _| a,
      seldom: true);
fold!(Max<i64>: i64 => i64 => i64, i64::MIN, i64::MIN, |a, x| a.max(x), |a, b| a.max(b), |a, _| a);
fold!(Min<i64>: i64 => i64 => i64, i64::MAX, i64::MAX, |a, x| a.min(x), |a, b| a.min(b), |a, _| a);

macro_rules! fold_float_extremes {
    ($($float:ty),*) => {$(
        fold!(Max<$float>: $float => $float => $float, <$float>::NEG_INFINITY, <$float>::NEG_INFINITY,
              |a, x| if x > a || x.is_nan() { x } else { a },
              |a, x| if x > a || x.is_nan() { x } else { a }, |a, _| a);
        fold!(Min<$float>: $float => $float => $float, <$float>::INFINITY, <$float>::INFINITY,
              |a, x| if x < a || x.is_nan() { x } else { a },
              |a, x| if x < a || x.is_nan() { x } else { a }, |a, _| a);
    )*};
}
fold_float_extremes!(f32, f64);

/// Doubles: parts of few elements, collected in twice the precision.
impl Fold for Sum<f64> {
    type Input = f64;
    type Part = f64;
    type Total = Compensated;
    type Output = f64;
    const RUN: Option<usize> = Some(16);
    const START: f64 = 0.0;
    const EMPTY: Compensated = Compensated {
        sum: 0.0,
        error: 0.0,
    };
    const NEUTRAL: f64 = 0.0;
    #[inline(always)]
    fn add(part: f64, x: f64) -> f64 {
        part + x
    }
    #[inline(always)]
    fn join(a: f64, b: f64) -> f64 {
        a + b
    }
    #[inline(always)]
    fn collect(total: Compensated, part: f64) -> Compensated {
        total.plus(part)
    }
    #[inline(always)]
    fn merge(a: Compensated, b: Compensated) -> Compensated {
        let mut total = a.plus(b.sum);
        total.error += b.error;
        total
    }
    fn finish(total: Compensated, repeats: usize) -> f64 {
        total.value() * repeats as f64
    }
}

/// A sum and the error of its rounding.
#[derive(Clone, Copy)]
pub(super) struct Compensated {
    sum: f64,
    error: f64,
}

impl Compensated {
    /// Adds `x` and its exact rounding error (Knuth, The Art of Computer Programming, volume 2,
    /// 4.2.2, theorem B).
    #[inline(always)]
    fn plus(self, x: f64) -> Self {
        let sum = self.sum + x;
        let taken = sum - self.sum;
        let error = (self.sum - (sum - taken)) + (x - taken);
        Self {
            sum,
            error: self.error + error,
        }
    }

    fn value(self) -> f64 {
        // Once the sum is infinite, its error means nothing.
        match self.error.is_finite() {
            true => self.sum + self.error,
            false => self.sum,
        }
    }
}

/// `x` to the power `n` by squaring.
fn power<T: Copy>(x: T, n: usize, times: fn(T, T) -> T) -> T {
    match n {
        1 => x,
        _ if n.is_multiple_of(2) => power(times(x, x), n / 2, times),
        _ => times(power(times(x, x), n / 2, times), x),
    }
}

/// A fold that finds an extreme.
trait Extreme<T: Element>: Fold<Input = T, Part = T, Total = T, Output = T> {
    /// Whether `x`, which comes after `best`, replaces it.
    fn beats(x: T, best: T) -> bool;
    /// Whether `x` is the extreme that the fold found.
    fn is(x: T, extreme: T) -> bool;
}

macro_rules! extremes {
    ($($type:ty),*) => {$(
        extremes!(@one Max<$type>, $type, >);
        extremes!(@one Min<$type>, $type, <);
    )*};
    (@one $fold:ty, $type:ty, $before:tt) => {
        impl Extreme<$type> for $fold {
            #[inline(always)]
            fn beats(x: $type, best: $type) -> bool {
                // Only NaN is unequal to itself.
                #[allow(clippy::eq_op)]
                let nan = (x != x) & (best == best);
                (x $before best) | nan
            }
            #[inline(always)]
            fn is(x: $type, extreme: $type) -> bool {
                #[allow(clippy::eq_op)]
                let nan = (x != x) & (extreme != extreme);
                (x == extreme) | nan
            }
        }
    };
}
extremes!(i64, f32, f64);

// ----- the elements of each result

/// The elements of each result.
struct Plan {
    /// The first elements of the results, in the memory order of the results.
    kept: Steps,
    /// The walk from the first element of a result to its others.
    reduced: Steps,
    /// Whether neighbouring results are closer in memory than the elements of one result.
    across: bool,
    /// The number of equal elements for which each element that is read stands.
    repeats: usize,
    /// The sizes of the results in memory order.
    shape: Shape,
    /// The layout of the results in that memory.
    layout: Layout,
    /// Whether some axis of the result is reversed in memory.
    flipped: bool,
}

impl Plan {
    /// The plan for an array that is not empty.
    fn new(x: &Layout, axes: &[usize]) -> Self {
        /// An axis of the array: size, step and place in the result.
        type Axis = (usize, usize, usize);
        let mut kept: SmallVec<[Axis; 4]> = SmallVec::new();
        let mut reduced: SmallVec<[Axis; 4]> = SmallVec::new();
        let (mut first, mut repeats, mut flips) = (x.offset, 1, SmallVec::<[usize; 4]>::new());
        let shape = x.shape.reduced(axes, false);
        let mut place = 0;
        for (axis, (&size, &step)) in x.shape.iter().zip(x.strides.iter()).enumerate() {
            let is_reduced = axes.contains(&axis);
            if size > 1 && step < 0 {
                first = first.wrapping_add_signed((size - 1) as isize * step);
            }
            if is_reduced {
                match step {
                    0 => repeats *= size,
                    _ if size == 1 => {}
                    _ => reduced.push((size, step.unsigned_abs(), 0)),
                }
                continue;
            }
            if size > 1 && step != 0 {
                kept.push((size, step.unsigned_abs(), place));
                if step < 0 {
                    flips.push(place);
                }
            }
            place += 1;
        }
        kept.sort_by_key(|&(_, step, _)| std::cmp::Reverse(step));
        reduced.sort_by_key(|&(_, step, _)| std::cmp::Reverse(step));

        let across = match (kept.last(), reduced.last()) {
            (Some(kept), Some(reduced)) => kept.1 < reduced.1,
            (kept, _) => kept.is_some(),
        };
        let mut strides: SmallVec<[isize; 4]> = SmallVec::from_elem(0, shape.rank());
        let mut offset = 0;
        let mut step = 1;
        for &(size, _, place) in kept.iter().rev() {
            strides[place] = step;
            if flips.contains(&place) {
                offset += (size - 1) * step as usize;
                strides[place] = -step;
            }
            step *= size as isize;
        }
        let layout = Layout {
            shape,
            strides: strides.into_iter().collect(),
            offset,
        };
        let steps = |axes: &[Axis], offset| {
            Steps::new(&Layout {
                shape: axes.iter().map(|axis| axis.0).collect(),
                strides: axes.iter().map(|axis| axis.1 as isize).collect(),
                offset,
            })
        };
        Self {
            across,
            repeats,
            shape: kept.iter().map(|axis| axis.0).collect(),
            layout,
            flipped: !flips.is_empty(),
            reduced: steps(&reduced, 0),
            kept: steps(&kept, first),
        }
    }
}

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
    fn take<S: Simd>(part: PartOf<'_, Self>);
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
    fn with_simd<S: Simd>(self, _: S) {
        R::take::<S>(self.0);
    }
}

impl<I: Element, T: Copy + Send + Sync, O: Element> Erased<I, T, O> {
    fn of<R: Reducer<Input = I, Total = T, Output = O>>() -> Self {
        fn take<R: Reducer>(part: PartOf<'_, R>) {
            let part = Take::<R>(part);
            match const { R::SELDOM } {
                true => dispatch_seldom(part),
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
        let threads = worth_threads(work / 4);
        let tile = tile(plan.across, depth);
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

        let piece = piece(plan.across, depth, out.len());
        if piece < depth {
            let pieces = depth.div_ceil(piece);
            let mut totals = list(self.empty, pieces * out.len());
            for_each(chunks(&mut totals, out.len()), threads, 1, &|i, totals| {
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

        for_each(chunks(out, tile), threads, 1, &|i, out| {
            let mut totals = list(self.empty, out.len());
            take(i * tile, &mut totals, 0, depth);
            (self.finish)(&totals, plan.repeats, out);
        });
    }
}

/// The number of results that are computed at once from `depth` elements each.
fn tile(across: bool, depth: usize) -> usize {
    match across {
        true => TILE,
        false => (PARALLEL / 4 / depth).clamp(1, TILE),
    }
}

/// The number of elements of a result that are reduced before it is merged: few results of many
/// elements are split into pieces, which are merged in order.
fn piece(across: bool, depth: usize, results: usize) -> usize {
    let piece = match across {
        true => depth.div_ceil(PIECES),
        false => depth.div_ceil(PIECES).max(BLOCK),
    };
    let are_few = results.div_ceil(tile(across, depth)) < PIECES;
    match results * depth >= PARALLEL && are_few {
        true => piece.min(depth),
        false => depth,
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
        Slice::Bool(_) | Slice::U8(_) | Slice::I32(_) | Slice::F16(_) | Slice::BF16(_) => {
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

/// Sums of the columns of rows that come one after the other.
pub(super) enum ColumnSums {
    F32(Columns<Sum<f32>>),
    F64(Columns<Sum<f64>>),
}

/// Folds of columns.
pub(super) struct Columns<F: Fold> {
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
        while memory.len() >= AT_ONCE * width && rows.has_room() {
            rows.take_some(std::array::from_fn(|i| &memory[i * width..][..width]));
            memory = &memory[AT_ONCE * width..];
        }
        for row in memory.chunks_exact(width) {
            rows.take(row);
        }
        columns.taken = rows.taken;
    }
}

impl ColumnSums {
    pub(super) fn new(dtype: DType, width: usize) -> Self {
        match dtype {
            DType::F32 => Self::F32(Columns::new(width)),
            DType::F64 => Self::F64(Columns::new(width)),
            DType::Bool | DType::U8 | DType::I32 | DType::I64 | DType::F16 | DType::BF16 => {
                unreachable!("`column_piece` was asked")
            }
        }
    }

    /// Adds rows of one element for each column.
    pub(super) fn take(&mut self, x: Slice<'_>) {
        match (self, x) {
            (Self::F32(sums), Slice::F32(x)) => Arch::new().dispatch(TakeRows(sums, x)),
            (Self::F64(sums), Slice::F64(x)) => Arch::new().dispatch(TakeRows(sums, x)),
            (Self::F32(_) | Self::F64(_), _) => unreachable!("rows have the dtype of the sums"),
        }
    }

    /// Ends a piece.
    pub(super) fn end(&mut self) {
        match self {
            Self::F32(sums) => sums.rows().collect(),
            Self::F64(sums) => sums.rows().collect(),
        }
    }

    /// Adds the sums of a piece that follows.
    pub(super) fn merge(&mut self, other: &Self) {
        match (self, other) {
            (Self::F32(sums), Self::F32(other)) => sums.merge(other),
            (Self::F64(sums), Self::F64(other)) => sums.merge(other),
            (Self::F32(_) | Self::F64(_), _) => unreachable!("pieces have one dtype"),
        }
    }

    pub(super) fn finish(&self, out: SliceMut<'_>) {
        match (self, out) {
            (Self::F32(sums), SliceMut::F32(out)) => sums.finish(out),
            (Self::F64(sums), SliceMut::F64(out)) => sums.finish(out),
            (Self::F32(_) | Self::F64(_), _) => unreachable!("sums have the dtype of the rows"),
        }
    }
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
    fn take<S: Simd>(part: PartOf<'_, Self>) {
        let Part {
            memory,
            plan,
            first,
            totals,
            from,
            count,
        } = part;
        let mut parts = vec![F::START; if plan.across { totals.len() } else { 0 }];
        let mut beside = Beside::default();
        for kept in plan.kept.runs(first, totals.len()) {
            let step = kept.step as usize;
            let totals = &mut totals[kept.done..][..kept.len];
            if plan.across {
                let mut rows = Rows::<F> {
                    parts: &mut parts[kept.done..][..kept.len],
                    taken: 0,
                    totals,
                };
                for run in plan.reduced.runs(from, count) {
                    let at = |i: usize| kept.start + run.start + i * run.step as usize;
                    let mut i = 0;
                    while step == 1 && i + AT_ONCE <= run.len && rows.has_room() {
                        rows.take_some(std::array::from_fn(|k| &memory[at(i + k)..][..kept.len]));
                        i += AT_ONCE;
                    }
                    for i in i..run.len {
                        rows.take(beside.one_another(&memory[at(i)..], step, kept.len));
                    }
                }
                rows.collect();
                continue;
            }
            let is_even = plan.reduced.even_step() == Some(1);
            if is_even && count <= LANES {
                take_short::<F>(&memory[kept.start + from..], step, count, totals);
                continue;
            }
            if is_even && F::RUN.is_none_or(|most| count <= most * LANES) {
                take_long::<F>(&memory[kept.start + from..], step, count, totals);
                continue;
            }
            for (i, total) in totals.iter_mut().enumerate() {
                let memory = &memory[kept.start + i * step..];
                let mut lanes = Lanes::<F>::new(*total);
                for run in plan.reduced.runs(from, count) {
                    let (memory, step) = (&memory[run.start..], run.step as usize);
                    lanes.take::<S>(&mut beside, memory, step, run.len);
                }
                lanes.collect();
                *total = lanes.total;
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

/// Takes `count` neighbouring elements into each result, one after the other. The first elements of
/// results are `step` apart.
#[inline(always)]
fn take_short<F: Fold>(memory: &[F::Input], step: usize, count: usize, totals: &mut [F::Total]) {
    // Several results at a time, because each waits for its last element.
    const SIDE: usize = 8;
    let (sides, rest) = totals.as_chunks_mut::<SIDE>();
    let done = sides.len() * SIDE;
    for (i, totals) in sides.iter_mut().enumerate() {
        let rows: [&[F::Input]; SIDE] =
            std::array::from_fn(|row| &memory[(i * SIDE + row) * step..][..count]);
        let mut parts = [F::START; SIDE];
        for at in 0..count {
            for (part, row) in parts.iter_mut().zip(rows) {
                *part = F::add(*part, row[at]);
            }
        }
        for (total, part) in totals.iter_mut().zip(parts) {
            *total = F::collect(*total, part);
        }
    }
    for (i, total) in rest.iter_mut().enumerate() {
        let elements = memory[(done + i) * step..][..count].iter();
        *total = F::collect(*total, elements.fold(F::START, |part, &x| F::add(part, x)));
    }
}

/// Takes `count` neighbouring elements into each result, in [`LANES`] parts. The first elements of
/// results are `step` apart.
#[inline(always)]
fn take_long<F: Fold>(memory: &[F::Input], step: usize, count: usize, totals: &mut [F::Total]) {
    // The last parts of several results are joined side by side.
    const SIDE: usize = 16;
    for (i, totals) in totals.chunks_mut(SIDE).enumerate() {
        let mut parts = [[F::START; LANES]; SIDE];
        for (row, parts) in (i * SIDE..).zip(&mut parts[..totals.len()]) {
            let (whole, rest) = memory[row * step..][..count].as_chunks::<LANES>();
            // PERF: a copy that is only indexed by constants stays in registers.
            let mut own = *parts;
            for chunk in whole {
                for lane in 0..LANES {
                    own[lane] = F::add(own[lane], chunk[lane]);
                }
            }
            if !rest.is_empty() {
                let mut chunk = [F::NEUTRAL; LANES];
                chunk[..rest.len()].copy_from_slice(rest);
                for lane in 0..LANES {
                    own[lane] = F::add(own[lane], chunk[lane]);
                }
            }
            *parts = own;
        }
        for parts in &mut parts {
            join_halves::<F, 16>(parts);
            join_halves::<F, 8>(parts);
        }
        let mut across = [[F::START; SIDE]; 8];
        for (lane, across) in across.iter_mut().enumerate() {
            for (part, parts) in across.iter_mut().zip(&parts) {
                *part = parts[lane];
            }
        }
        for width in [4, 2, 1] {
            let (first, others) = across.split_at_mut(width);
            for (first, other) in first.iter_mut().zip(others) {
                for (a, &b) in first.iter_mut().zip(&*other) {
                    *a = F::join(*a, b);
                }
            }
        }
        for (total, &part) in totals.iter_mut().zip(&across[0]) {
            *total = F::collect(*total, part);
        }
    }
}

/// Joins each of the first `WIDTH` parts with its counterpart in the next ones.
// PERF: a width that is known lets the compiler use vectors.
#[inline(always)]
fn join_halves<F: Fold, const WIDTH: usize>(parts: &mut [F::Part; LANES]) {
    for lane in 0..WIDTH {
        parts[lane] = F::join(parts[lane], parts[lane + WIDTH]);
    }
}

/// Moves elements together that are apart, so that only contiguous vectors are processed.
#[derive(Default)]
struct Beside<T>(Vec<T>);

impl<T: Element> Beside<T> {
    /// `count` elements in steps of `step`.
    #[inline(always)]
    fn one_another<'a>(&'a mut self, memory: &'a [T], step: usize, count: usize) -> &'a [T] {
        match step {
            1 => &memory[..count],
            _ => self.copied(memory, step, count),
        }
    }

    /// Compiled once for all folds.
    #[inline(never)]
    fn copied(&mut self, memory: &[T], step: usize, count: usize) -> &[T] {
        self.0.resize(count, memory[(count - 1) * step]);
        let (last, others) = self.0.split_last_mut().expect("a run has elements");
        for (y, x) in others.iter_mut().zip(memory.chunks_exact(step)) {
            *y = x[0];
        }
        *last = memory[(count - 1) * step];
        &self.0
    }
}

/// One result, whose elements are distributed over several parts.
struct Lanes<F: Fold> {
    parts: [F::Part; LANES],
    /// The number of elements in the fullest part.
    taken: usize,
    total: F::Total,
}

impl<F: Fold> Lanes<F> {
    #[inline(always)]
    fn new(total: F::Total) -> Self {
        Self {
            parts: [F::START; LANES],
            taken: 0,
            total,
        }
    }

    /// Takes `len` elements in steps of `step`.
    #[inline(always)]
    fn take<S: Simd>(
        &mut self,
        beside: &mut Beside<F::Input>,
        memory: &[F::Input],
        step: usize,
        len: usize,
    ) {
        let mut done = 0;
        while done < len {
            let mut count = len - done;
            if step != 1 {
                count = count.min(BLOCK);
            }
            if let Some(most) = F::RUN {
                count = count.min((most - self.taken) * LANES);
            }
            self.advance::<S>(beside.one_another(&memory[done * step..], step, count));
            done += count;
            if let Some(most) = F::RUN {
                self.taken += count.div_ceil(LANES);
                if self.taken == most {
                    self.collect();
                }
            }
        }
    }

    #[inline(always)]
    fn advance<S: Simd>(&mut self, memory: &[F::Input]) {
        let (chunks, rest) = memory.as_chunks::<LANES>();
        if const { is_plain::<S>() } {
            for chunk in chunks {
                self.add(chunk);
            }
        } else {
            // A copy that is only indexed by constants stays in registers.
            let mut parts = self.parts;
            for chunk in chunks {
                for lane in 0..LANES {
                    parts[lane] = F::add(parts[lane], chunk[lane]);
                }
            }
            self.parts = parts;
        }
        self.add(rest);
    }

    #[inline(always)]
    fn add(&mut self, memory: &[F::Input]) {
        for (part, &x) in self.parts.iter_mut().zip(memory) {
            *part = F::add(*part, x);
        }
    }

    #[inline(always)]
    fn collect(&mut self) {
        let mut parts = std::mem::replace(&mut self.parts, [F::START; LANES]);
        join_halves::<F, 16>(&mut parts);
        join_halves::<F, 8>(&mut parts);
        join_halves::<F, 4>(&mut parts);
        join_halves::<F, 2>(&mut parts);
        join_halves::<F, 1>(&mut parts);
        self.total = F::collect(self.total, parts[0]);
        self.taken = 0;
    }
}

/// The number of rows whose elements a part takes one after the other before it is written back.
const AT_ONCE: usize = 4;

/// Neighbouring results, each with its own part.
struct Rows<'a, F: Fold> {
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

    /// Whether parts may take another [`AT_ONCE`] elements before they are collected.
    #[inline(always)]
    fn has_room(&self) -> bool {
        F::RUN.is_none_or(|most| self.taken + AT_ONCE <= most)
    }

    /// Takes elements into each result, those of the first row first.
    #[inline(always)]
    fn take_some(&mut self, rows: [&[F::Input]; AT_ONCE]) {
        // PERF: a loop over the rows inside of the loop over parts is no vector instructions.
        let [a, b, c, d] = rows;
        for ((((part, &a), &b), &c), &d) in self.parts.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *part = F::add(F::add(F::add(F::add(*part, a), b), c), d);
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

// ----- positions of extremes

/// The position of the extreme along one axis.
struct Position<T, F>(PhantomData<(T, F)>);

/// The best value so far and its position, if there is one.
type Best<T> = Option<(T, usize)>;

impl<T: Element, F: Extreme<T>> Reducer for Position<T, F> {
    type Input = T;
    type Total = Best<T>;
    type Output = i64;
    const EMPTY: Best<T> = None;
    const SELDOM: bool = matches!(T::DTYPE, DType::I64);

    #[inline(always)]
    fn take<S: Simd>(part: PartOf<'_, Self>) {
        let Part {
            memory,
            plan,
            first,
            totals,
            from,
            count,
        } = part;
        let mut beside = Beside::default();
        // One axis makes one run.
        let (mut start_of_axis, mut axis_step) = (0, 0);
        plan.reduced.for_each_run(from, count, |_, start, step, _| {
            (start_of_axis, axis_step) = (start, step as usize);
        });
        plan.kept.for_each_run(
            first,
            totals.len(),
            #[inline(always)]
            |done, start, step, len| {
                let step = step as usize;
                let totals = &mut totals[done..done + len];
                let memory = &memory[start + start_of_axis..];
                if plan.across {
                    take_rows::<T, F>(memory, step, axis_step, from, count, totals);
                } else {
                    for (i, total) in totals.iter_mut().enumerate() {
                        let best = best_of_run::<S, T, F>(
                            &mut beside,
                            &memory[i * step..],
                            axis_step,
                            count,
                        );
                        *total = Self::merge(*total, best.map(|(x, at)| (x, at + from)));
                    }
                }
            },
        );
    }

    #[inline(always)]
    fn merge(a: Best<T>, b: Best<T>) -> Best<T> {
        match (a, b) {
            (Some((best, _)), Some((x, _))) if !F::beats(x, best) => a,
            (_, None) => a,
            (_, Some(_)) => b,
        }
    }
    fn finish(total: Best<T>, _repeats: usize) -> i64 {
        total.map_or(0, |(_, at)| at as i64)
    }
}

/// The best of `count` elements in steps of `step`.
#[inline(always)]
fn best_of_run<S: Simd, T: Element, F: Extreme<T>>(
    beside: &mut Beside<T>,
    memory: &[T],
    step: usize,
    count: usize,
) -> Best<T> {
    let run = &memory[..(count - 1) * step + 1];
    if const { is_plain::<S>() } || count <= LANES {
        let (mut best, mut at) = (run[0], 0);
        for i in 1..count {
            let x = run[i * step];
            let beats = F::beats(x, best);
            best = if beats { x } else { best };
            at = if beats { i } else { at };
        }
        return Some((best, at));
    }
    let mut best: Best<T> = None;
    for (i, block) in run.chunks(BLOCK * step).enumerate() {
        let mut lanes = Lanes::<F>::new(F::EMPTY);
        lanes.take::<S>(beside, block, step, block.len().div_ceil(step));
        lanes.collect();
        if best.is_none_or(|(best, _)| F::beats(lanes.total, best)) {
            best = Some((lanes.total, i));
        }
    }
    best.map(|(extreme, block)| {
        let mut candidates = run[block * BLOCK * step..].iter().step_by(step);
        let at = candidates.position(|&x| F::is(x, extreme));
        (
            extreme,
            block * BLOCK + at.expect("the extreme is one of them"),
        )
    })
}

/// Takes `count` rows, `row_step` apart, into neighbouring results.
#[inline(always)]
fn take_rows<T: Element, F: Extreme<T>>(
    memory: &[T],
    step: usize,
    row_step: usize,
    from: usize,
    count: usize,
    totals: &mut [Best<T>],
) {
    // Positions of 32 bits, counted anew in each block of rows, because vectors hold more of them.
    let mut best = list(F::EMPTY, totals.len());
    let mut at = list(0u32, totals.len());
    let mut beside = Beside::default();
    for block in (0..count).step_by(u32::MAX as usize) {
        let memory = &memory[block * row_step..];
        for (best, &x) in best.iter_mut().zip(memory.iter().step_by(step)) {
            *best = x;
        }
        at.fill(0);
        for i in 1..(count - block).min(u32::MAX as usize) {
            let row = beside.one_another(&memory[i * row_step..], step, totals.len());
            for ((best, at), &x) in best.iter_mut().zip(&mut at).zip(row) {
                let beats = F::beats(x, *best);
                *best = if beats { x } else { *best };
                *at = if beats { i as u32 } else { *at };
            }
        }
        for (total, (&x, &at)) in totals.iter_mut().zip(best.iter().zip(&at)) {
            let found = Some((x, from + block + at as usize));
            *total = <Position<T, F> as Reducer>::merge(*total, found);
        }
    }
}
