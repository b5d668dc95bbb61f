//! Sums and maxima of windows: across an axis by whole rows, along columns last.

use std::array;
use std::ops::{Add, Mul, Range};

use pulp::{Arch, NullaryFnOnce};
use smallvec::SmallVec;

use super::index::spread;
use super::threads::{chunks, for_each, for_each_of, for_each_run};
use super::worth_threads;
use crate::{Array, Element, Shape, Stencil};

/// The number of elements that are compared together, if rows are long.
const LANES: usize = 16;

/// The fewest windows for which there is a loop, and the number of elements compared together in short rows.
const FEWEST: usize = LANES / 4;

/// The most elements in a window for which those of both axes are compared at once.
const FEW: usize = 9;

/// The bytes that stay in a near cache beside others.
const NEAR: usize = 1 << 16;

/// The most elements in a window that are added up in single precision.
const SHORT: usize = 16;

/// The most elements from one window to the next for which there is a loop of many windows.
const LONGEST: usize = 4;

/// Numbers in which elements are weighted and added up.
pub(super) trait Sums<T>:
    Copy + Default + PartialEq + Send + Sync + Add<Output = Self> + Mul<Output = Self>
{
    fn of(x: T) -> Self;
    fn weight(weight: f64) -> Self;
    fn rounded(self) -> T;
}

macro_rules! sums_of {
    ($($Element:ident in $Sum:ident),*) => {$(
        impl Sums<$Element> for $Sum {
            #[inline(always)]
            fn of(x: $Element) -> $Sum {
                x.into()
            }
            fn weight(weight: f64) -> $Sum {
                weight as $Sum
            }
            #[inline(always)]
            fn rounded(self) -> $Element {
                self as $Element
            }
        }
    )*};
}
sums_of!(f32 in f32, f32 in f64, f64 in f64);

/// See [`Device::reduce_window`](crate::Device::reduce_window).
pub(super) fn reduce_window<T: Element + Sums<T>>(
    x: &Array,
    first: usize,
    stencil: &[Stencil],
) -> Array
where
    f64: Sums<T>,
{
    let mut shape = x.shape().clone();
    let axes = Stencil::order(stencil).into_iter();
    let steps = axes.map(|axis| {
        shape = shape.replaced(first + axis, stencil[axis].count());
        Along::new(&stencil[axis], shape.clone(), first + axis)
    });
    let steps: SmallVec<[Along<'_, T>; 3]> = steps.collect();
    let planes: usize = x.shape()[..first].iter().product();
    let elements = steps.iter().map(|step| step.shape.size()).chain([x.size()]);
    let largest = elements.max().unwrap_or(0) / planes.max(1);
    match steps.len() > 1 && planes > 1 && largest * size_of::<T>() <= NEAR {
        true => by_planes(x, planes, largest, &steps),
        false => steps.iter().fold(x.clone(), |x, step| step.of_all(&x)),
    }
}

/// The sums along one axis.
struct Along<'a, T> {
    stencil: &'a Stencil,
    /// The shape of the result.
    shape: Shape,
    /// The length of a row of the result: along the axis, or of what is inside of it.
    row: usize,
    /// Writes rows, from one of this number on.
    sum: SumRows<'a, T>,
}

type SumRows<'a, T> = Box<dyn Fn(usize, &[T], &mut [T]) + Sync + 'a>;

impl<'a, T: Element + Sums<T>> Along<'a, T>
where
    f64: Sums<T>,
{
    fn new(stencil: &'a Stencil, shape: Shape, axis: usize) -> Self {
        let inner: usize = shape[axis + 1..].iter().product();
        // A weight such as a third is not rounded, and errors of long sums do not add up.
        let is_exact = |&weight: &f64| f64::of(T::weight(weight).rounded()) == weight;
        let is_short = (0..stencil.count()).all(|i| stencil.range(i).len() <= SHORT);
        Self {
            stencil,
            shape,
            row: if inner == 1 { stencil.count() } else { inner },
            sum: match is_short && stencil.weights().iter().all(is_exact) {
                true => sum_in::<T, T>(stencil, inner),
                false => sum_in::<T, f64>(stencil, inner),
            },
        }
    }

    /// About as many nanoseconds as it takes.
    fn work(&self) -> usize {
        self.shape.size() / self.stencil.count().max(1) * self.stencil.positions().len()
    }

    /// Computes the sums of a whole array.
    fn of_all(&self, x: &Array) -> Array {
        let x = spread(x);
        let x = x.host_slice::<T>();
        Array::filled_by(self.shape.clone(), |out: &mut [T]| {
            if out.is_empty() {
                return;
            }
            let part = part(out.len() / self.row, self.work()) * self.row;
            match part < out.len() {
                true => for_each(chunks(out, part), true, 1, &|i, out| {
                    (self.sum)(i * (part / self.row), x, out);
                }),
                false => (self.sum)(0, x, out),
            }
        })
    }
}

/// The function of [`Along`] with sums in some type.
fn sum_in<'a, T: Element, A: Sums<T> + 'a>(stencil: &'a Stencil, inner: usize) -> SumRows<'a, T> {
    let weights = stencil.weights().iter();
    let weights: Vec<A> = weights.map(|&weight| A::weight(weight)).collect();
    let columns = match inner {
        1 => Columns::of(stencil, &weights),
        _ => Columns::Any,
    };
    Box::new(move |first, x, out| {
        Arch::new().dispatch(Sum {
            x,
            out,
            first,
            inner,
            stencil,
            weights: &weights,
            columns: &columns,
        });
    })
}

/// Computes the sums along several axes, of some planes after the other: what is between two axes stays in a near cache.
fn by_planes<T: Element + Sums<T>>(
    x: &Array,
    planes: usize,
    largest: usize,
    steps: &[Along<'_, T>],
) -> Array
where
    f64: Sums<T>,
{
    let (last, others) = steps.split_last().expect("there are several axes");
    let of_plane = |step: &Along<'_, T>| step.shape.size() / planes;
    let (read, written) = (x.size() / planes, of_plane(last));
    let x = spread(x);
    let x = x.host_slice::<T>();
    let count = (NEAR / (largest * size_of::<T>()).max(1)).clamp(1, planes);
    let work = steps.iter().map(Along::work).sum();
    Array::filled_by(last.shape.clone(), |out: &mut [T]| {
        if out.is_empty() {
            return;
        }
        let chunks = chunks(out, count * written);
        for_each_run(chunks, worth_threads(work), 1, &|first, run| {
            // The first is taken in turns with the other if there are several results in between.
            let room = |is_needed| vec![T::default(); if is_needed { count * largest } else { 0 }];
            let mut rooms = [others.len() > 1, true].map(room);
            for_each_of(first, run, &mut |i, out| {
                let planes = out.len() / written;
                let mut x = &x[i * count * read..][..planes * read];
                let [mut room, mut next] = rooms.each_mut();
                for step in others {
                    let made = planes * of_plane(step);
                    (step.sum)(0, x, &mut next[..made]);
                    std::mem::swap(&mut room, &mut next);
                    x = &room[..made];
                }
                (last.sum)(0, x, out);
            });
        });
    })
}

/// The number of rows that a thread takes at a time, for work of about this many nanoseconds.
fn part(rows: usize, work: usize) -> usize {
    match worth_threads(work) {
        true => rows.div_ceil(4 * rayon::current_num_threads()),
        false => rows,
    }
}

/// How windows lie along the last axis, if loops can go through many of them at once.
enum Columns<A> {
    Regular(Regular<A>),
    /// All have as many elements: the columns of the first ones, then of the second ones, and so on, and their weights.
    Ranked(Vec<(Vec<u32>, Vec<A>)>),
    Any,
}

/// A range of windows that are alike by turns: those of one turn begin `step` elements after those of the turn before it,
/// with the same weights at the same distances.
struct Regular<A> {
    windows: Range<usize>,
    /// Where the first turn begins.
    start: usize,
    step: usize,
    /// The distances from the beginning of a turn, and the weights, for each of its windows.
    turn: Vec<Vec<(usize, A)>>,
}

impl<A: Copy + PartialEq> Columns<A> {
    fn of(stencil: &Stencil, weights: &[A]) -> Self {
        // Where windows move by two elements, those of the transposed sums are alike by turns of two.
        for windows in [1, 2] {
            if let Some(regular) = Regular::of(stencil, weights, windows)
                && (windows == 1 || regular.step == 1)
            {
                return Self::Regular(regular);
            }
        }
        let count = stencil.count();
        let most = if count > 0 { stencil.range(0).len() } else { 0 };
        let is_even = (0..count).all(|i| stencil.range(i).len() == most);
        if !is_even || most > FEW || u32::try_from(stencil.size()).is_err() {
            return Self::Any;
        }
        let places = ranked(stencil).into_iter().enumerate();
        let ranks = places.map(|(rank, places)| {
            let weight = |i: usize| weights[stencil.range(i).start + rank];
            (places, (0..count).map(weight).collect())
        });
        Self::Ranked(ranks.collect())
    }
}

impl<A: Copy + PartialEq> Regular<A> {
    /// The windows around those in the middle that are like them, by turns of so many.
    fn of(stencil: &Stencil, weights: &[A], turn: usize) -> Option<Self> {
        let (count, positions) = (stencil.count(), stencil.positions());
        let middle = count / 2;
        if middle + 2 * turn > count {
            return None;
        }
        let first = |windows: Range<usize>| {
            let elements = stencil.range(windows.start).start..stencil.range(windows.end - 1).end;
            positions[elements].iter().min().copied()
        };
        let start = first(middle..middle + turn)?;
        let step = first(middle + turn..middle + 2 * turn)?;
        let step = step
            .checked_sub(start)
            .filter(|step| (1..=LONGEST).contains(step))?;
        let is_alike = |&i: &usize| {
            // The window of the turn in the middle, and the number of turns from it.
            let like = middle + (i + turn * count - middle) % turn;
            let (range, own) = (stencil.range(i), stencil.range(like));
            let places = positions[range.clone()].iter().zip(&positions[own.clone()]);
            range.len() == own.len() && weights[range] == weights[own] && { places }
                .all(|(&place, &own)| place * turn + like * step == own * turn + i * step)
        };
        let before = (0..middle).rev().take_while(is_alike).count() / turn;
        let behind = (middle..count).take_while(is_alike).count() / turn;
        let windows = middle - before * turn..middle + behind * turn;
        let of_window = |window: usize| {
            let range = stencil.range(window);
            let distances = positions[range.clone()].iter().map(|&place| place - start);
            distances.zip(weights[range].iter().copied()).collect()
        };
        (windows.len() >= turn * FEWEST).then(|| Self {
            start: start - before * step,
            windows,
            step,
            turn: (middle..middle + turn).map(of_window).collect(),
        })
    }
}

/// Adds up weighted elements for pairs of windows, each tap at its distance from the place of the pair.
#[inline(always)]
fn sums_of_pairs<T: Copy, A: Sums<T>>(x: &[T], taps: [&[(usize, A)]; 2], out: &mut [T]) {
    match out.len() / 2 {
        LANES.. => sums_of_pairs_by::<T, A, LANES>(x, taps, out),
        8.. => sums_of_pairs_by::<T, A, 8>(x, taps, out),
        _ => sums_of_pairs_by::<T, A, FEWEST>(x, taps, out),
    }
}

/// The same for N pairs at a time, of at least as many.
#[inline(always)]
fn sums_of_pairs_by<T: Copy, A: Sums<T>, const N: usize>(
    x: &[T],
    taps: [&[(usize, A)]; 2],
    out: &mut [T],
) {
    let (mut start, last) = (0, out.len() / 2 - N);
    loop {
        let mut sums = [[A::default(); N]; 2];
        for side in 0..2 {
            for &(distance, weight) in taps[side] {
                let x = &x[start + distance..][..N];
                for i in 0..N {
                    sums[side][i] = sums[side][i] + weight * A::of(x[i]);
                }
            }
        }
        let out = &mut out[2 * start..][..2 * N];
        for i in 0..N {
            out[2 * i] = sums[0][i].rounded();
            out[2 * i + 1] = sums[1][i].rounded();
        }
        if start == last {
            return;
        }
        // The last ones begin so early that they are N.
        start = (start + N).min(last);
    }
}

/// Adds up weighted elements for every STEP-th place, each tap at its distance from it.
#[inline(always)]
fn sums<T: Copy, A: Sums<T>, const STEP: usize>(x: &[T], taps: &[(usize, A)], out: &mut [T]) {
    match out.len() {
        LANES.. => sums_by::<T, A, STEP, LANES>(x, taps, out),
        8.. => sums_by::<T, A, STEP, 8>(x, taps, out),
        4.. => sums_by::<T, A, STEP, 4>(x, taps, out),
        _ => sums_by::<T, A, STEP, 1>(x, taps, out),
    }
}

/// The same for N places at a time, of at least as many.
#[inline(always)]
fn sums_by<T: Copy, A: Sums<T>, const STEP: usize, const N: usize>(
    x: &[T],
    taps: &[(usize, A)],
    out: &mut [T],
) {
    let (mut start, last) = (0, out.len() - N);
    loop {
        let mut sums = [A::default(); N];
        for &(distance, weight) in taps {
            let x = &x[start * STEP + distance..][..(N - 1) * STEP + 1];
            for i in 0..N {
                sums[i] = sums[i] + weight * A::of(x[i * STEP]);
            }
        }
        let out = &mut out[start..][..N];
        for i in 0..N {
            out[i] = sums[i].rounded();
        }
        if start == last {
            return;
        }
        // The last ones begin so early that they are N.
        start = (start + N).min(last);
    }
}

struct Sum<'a, T, A> {
    x: &'a [T],
    out: &'a mut [T],
    /// The number of the first row of `out` among all rows.
    first: usize,
    inner: usize,
    stencil: &'a Stencil,
    weights: &'a [A],
    columns: &'a Columns<A>,
}

impl<T: Element, A: Sums<T>> NullaryFnOnce for Sum<'_, T, A> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Self {
            x,
            out,
            first,
            inner,
            stencil,
            weights,
            columns,
        } = self;
        let (count, size, positions) = (stencil.count(), stencil.size(), stencil.positions());
        if inner > 1 {
            let (mut block, mut window) = (first / count, first % count);
            let taps = positions.iter().zip(weights);
            let taps: Vec<(usize, A)> = taps.map(|(&at, &weight)| (at * inner, weight)).collect();
            for out in out.chunks_exact_mut(inner) {
                let block_of_x = &x[block * size * inner..][..size * inner];
                sums::<T, A, 1>(block_of_x, &taps[stencil.range(window)], out);
                window += 1;
                if window == count {
                    (block, window) = (block + 1, 0);
                }
            }
            return;
        }
        let rows = out.chunks_exact_mut(count).enumerate();
        let rows = rows.map(|(i, out)| (out, &x[(first + i) * size..][..size]));
        let one = |x: &[T], window: usize| {
            let range = stencil.range(window);
            let taps = positions[range.clone()].iter().zip(&weights[range]);
            taps.fold(A::default(), |sum, (&at, &w)| sum + w * A::of(x[at]))
                .rounded()
        };
        // PERF: loops, because what is called for each row would not have this function's instructions.
        match columns {
            Columns::Any => {
                for (out, x) in rows {
                    for (i, y) in out.iter_mut().enumerate() {
                        *y = one(x, i);
                    }
                }
            }
            Columns::Ranked(ranks) => {
                for (out, x) in rows {
                    for (i, y) in out.iter_mut().enumerate() {
                        let mut sum = A::default();
                        for (places, weights) in ranks {
                            sum = sum + weights[i] * A::of(x[places[i] as usize]);
                        }
                        *y = sum.rounded();
                    }
                }
            }
            Columns::Regular(Regular {
                windows,
                start,
                step,
                turn,
            }) => {
                // PERF: windows of the next row often follow as those of a row follow each other.
                let are_joined = *windows == (0..count) && size * turn.len() == count * step;
                let (len, windows) = match are_joined {
                    true => (out.len(), 0..out.len()),
                    false => (count, windows.clone()),
                };
                for (i, out) in out.chunks_exact_mut(len).enumerate() {
                    let x = &x[(first + i) * size..][..len / count * size];
                    for i in (0..windows.start).chain(windows.end..len) {
                        out[i] = one(x, i);
                    }
                    let (x, out) = (&x[*start..], &mut out[windows.clone()]);
                    match (&turn[..], step) {
                        ([first, second], _) => sums_of_pairs(x, [first, second], out),
                        (_, 1) => sums::<T, A, 1>(x, &turn[0], out),
                        (_, 2) => sums::<T, A, 2>(x, &turn[0], out),
                        (_, 3) => sums::<T, A, 3>(x, &turn[0], out),
                        _ => sums::<T, A, LONGEST>(x, &turn[0], out),
                    }
                }
            }
        }
    }
}

/// See [`Device::window_max`](crate::Device::window_max).
pub(super) fn window_max<T: Element + PartialOrd>(
    x: &Array,
    rows: &Stencil,
    columns: &Stencil,
) -> (Array, Array) {
    let last = x.rank() - 1;
    let shape = (x.shape().replaced(last - 1, rows.count())).replaced(last, columns.count());
    let x = spread(x);
    let x = x.host_slice::<T>();
    // All of a small plane is one row, if windows are small, too: loops over a few columns take longer than they save.
    let longest = |stencil: &Stencil| (0..stencil.count()).map(|i| stencil.range(i).len()).max();
    let of_each = longest(rows).unwrap_or(0) * longest(columns).unwrap_or(0);
    let is_small = rows.size().max(columns.size()) < LANES && of_each <= FEW;
    let joined = is_small.then(|| (Stencil::one(), rows.joined(columns)));
    let (rows, columns) = joined
        .as_ref()
        .map_or((rows, columns), |(one, all)| (one, all));
    let (regular, ranked) = (
        Regular::of(columns, &[()].repeat(columns.positions().len()), 1),
        ranked(columns),
    );
    let mut positions = None;
    let y = Array::filled_by(shape.clone(), |out: &mut [T]| {
        positions = Some(Array::filled_by(shape, |at: &mut [i64]| {
            if out.is_empty() {
                return;
            }
            let row = columns.count();
            let all = out.len() / row;
            let of_rows = rows.positions().len() * columns.size() / 4;
            let of_columns = rows.count() * columns.positions().len() * 2;
            let work = all / rows.count() * (of_rows + of_columns);
            let max = |first, out: &mut [T], at: &mut [i64]| {
                Arch::new().dispatch(Max {
                    x,
                    out,
                    at,
                    first,
                    rows,
                    width: columns.size(),
                    columns: &ranked,
                    regular: regular.as_ref(),
                    count: columns.count(),
                });
            };
            let part = part(all, work) * row;
            match part < out.len() {
                true => {
                    let both = (chunks(out, part), chunks(at, part));
                    for_each(both, true, 1, &|i, (out, at)| {
                        max(i * (part / row), out, at);
                    });
                }
                false => max(0, out, at),
            }
        }));
    });
    (y, positions.expect("filled along with the values"))
}

/// The columns of all windows by their rank: first the first ones, then the second ones, and so on. A window with fewer has its
/// last one again.
fn ranked(columns: &Stencil) -> Vec<Vec<u32>> {
    let count = columns.count();
    let own = |i: usize| &columns.positions()[columns.range(i)];
    let most = (0..count).map(|i| own(i).len()).max().unwrap_or(0);
    let ranks = (0..most).map(|rank| {
        let place = |i: usize| own(i)[rank.min(own(i).len() - 1)] as u32;
        (0..count).map(place).collect()
    });
    ranks.collect()
}

struct Max<'a, T> {
    x: &'a [T],
    out: &'a mut [T],
    at: &'a mut [i64],
    /// The number of the first row of `out` among all rows.
    first: usize,
    rows: &'a Stencil,
    /// The number of columns.
    width: usize,
    /// See [`ranked`].
    columns: &'a [Vec<u32>],
    regular: Option<&'a Regular<()>>,
    /// The number of windows along a row.
    count: usize,
}

/// The largest elements so far, and their positions.
struct Largest<T> {
    values: Vec<T>,
    positions: Vec<u32>,
}

impl<T: Element + PartialOrd> Largest<T> {
    fn new(len: usize) -> Self {
        Self {
            values: vec![T::default(); len],
            positions: vec![0; len],
        }
    }

    /// Writes the largest elements of some rows, from a column on.
    #[inline(always)]
    fn over<'a, const N: usize>(
        &mut self,
        column: usize,
        numbers: &[usize],
        row: impl Fn(usize) -> &'a [T],
    ) {
        let elements = |number: usize| -> &[T; N] {
            let all = row(number)[column..].first_chunk();
            all.expect("the columns are those of the row")
        };
        let position = |number: usize| (number * row(number).len() + column) as u32;
        let mut values = *elements(numbers[0]);
        let mut positions: [u32; N] = array::from_fn(|i| position(numbers[0]) + i as u32);
        for &number in &numbers[1..] {
            let (x, at) = (elements(number), position(number));
            for i in 0..N {
                let take = (x[i] > values[i]) | (is_nan(x[i]) & !is_nan(values[i]));
                values[i] = if take { x[i] } else { values[i] };
                positions[i] = if take { at + i as u32 } else { positions[i] };
            }
        }
        self.values[column..][..N].copy_from_slice(&values);
        self.positions[column..][..N].copy_from_slice(&positions);
    }

    /// Takes the elements of others at these places.
    #[inline(always)]
    fn pick(&mut self, others: &Self, places: &[u32]) {
        let len = others.values.len();
        let (values, positions) = (&others.values[..len], &others.positions[..len]);
        let own = self.values.iter_mut().zip(&mut self.positions);
        for ((x, at), &place) in own.zip(places) {
            (*x, *at) = (values[place as usize], positions[place as usize]);
        }
    }

    /// Writes the largest elements of windows of these, each at distances from a place `STEP` after that of the window
    /// before it, and their positions. Not more than N of them are compared at a time.
    #[inline(always)]
    fn of_windows<const STEP: usize, const N: usize>(
        &self,
        start: usize,
        taps: &[(usize, ())],
        out: &mut [T],
        at: &mut [i64],
    ) {
        match out.len() {
            LANES.. if N == LANES => self.of_some::<STEP, LANES>(start, taps, out, at),
            8.. if N == LANES => self.of_some::<STEP, 8>(start, taps, out, at),
            _ => self.of_some::<STEP, FEWEST>(start, taps, out, at),
        }
    }

    /// The same for N windows at a time, of at least as many.
    #[inline(always)]
    fn of_some<const STEP: usize, const N: usize>(
        &self,
        start: usize,
        taps: &[(usize, ())],
        out: &mut [T],
        at: &mut [i64],
    ) {
        let (mut first, last) = (0, out.len() - N);
        loop {
            let of_tap = |tap: usize| {
                let range = start + first * STEP + taps[tap].0..;
                let len = (N - 1) * STEP + 1;
                (
                    &self.values[range.clone()][..len],
                    &self.positions[range][..len],
                )
            };
            let (x, places) = of_tap(0);
            let (mut values, mut positions) = ([T::default(); N], [0; N]);
            for i in 0..N {
                (values[i], positions[i]) = (x[i * STEP], places[i * STEP]);
            }
            for tap in 1..taps.len() {
                let (x, places) = of_tap(tap);
                for i in 0..N {
                    let own = (values[i], positions[i]);
                    (values[i], positions[i]) = larger(own, (x[i * STEP], places[i * STEP]));
                }
            }
            out[first..][..N].copy_from_slice(&values);
            let at = &mut at[first..][..N];
            for i in 0..N {
                at[i] = i64::from(positions[i]);
            }
            if first == last {
                return;
            }
            // The last ones begin so early that they are N.
            first = (first + N).min(last);
        }
    }

    /// Takes what is larger in others, or as large and before.
    // PERF: loops of whole vectors, without a branch.
    #[inline(always)]
    fn take<const N: usize>(&mut self, others: &Self) {
        let (values, _) = self.values.as_chunks_mut::<N>();
        let (positions, _) = self.positions.as_chunks_mut::<N>();
        let (x, _) = others.values.as_chunks::<N>();
        let (at, _) = others.positions.as_chunks::<N>();
        let own = values.iter_mut().zip(positions);
        for ((values, positions), (x, at)) in own.zip(x.iter().zip(at)) {
            for i in 0..N {
                (values[i], positions[i]) = larger((values[i], positions[i]), (x[i], at[i]));
            }
        }
    }
}

impl<T: Element + PartialOrd> NullaryFnOnce for Max<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        match self.width < LANES {
            true => self.by::<FEWEST>(),
            false => self.by::<LANES>(),
        }
    }
}

impl<T: Element + PartialOrd> Max<'_, T> {
    /// Compares N elements at a time.
    #[inline(always)]
    fn by<const N: usize>(self) {
        let Self {
            rows,
            width,
            columns,
            regular,
            count,
            ..
        } = self;
        // The largest element of each column in the rows of a window.
        let mut of_rows = Largest::new(width);
        let wide = count.next_multiple_of(N);
        let (mut largest, mut others) = (Largest::new(wide), Largest::new(wide));
        let windows = (self.out.chunks_exact_mut(count)).zip(self.at.chunks_exact_mut(count));
        for (i, (out, at)) in windows.enumerate() {
            let (block, window) = (
                (self.first + i) / rows.count(),
                (self.first + i) % rows.count(),
            );
            let window = &rows.positions()[rows.range(window)];
            let row = |at: usize| &self.x[(block * rows.size() + at) * width..][..width];
            for start in (0..width).step_by(N) {
                // The last vector begins so early that it is whole, if there is one.
                match width.checked_sub(N) {
                    Some(last) => of_rows.over::<N>(start.min(last), window, row),
                    None => (0..width).for_each(|i| of_rows.over::<1>(i, window, row)),
                }
            }
            if let Some(regular) = regular {
                let Regular {
                    windows,
                    start,
                    step,
                    turn,
                } = regular;
                let taps = &turn[0];
                for i in (0..windows.start).chain(windows.end..count) {
                    let of = |places: &Vec<u32>| {
                        let place = places[i] as usize;
                        (of_rows.values[place], of_rows.positions[place])
                    };
                    let mut own = of(&columns[0]);
                    for places in &columns[1..] {
                        own = larger(own, of(places));
                    }
                    (out[i], at[i]) = (own.0, i64::from(own.1));
                }
                let (out, at) = (&mut out[windows.clone()], &mut at[windows.clone()]);
                match step {
                    1 => of_rows.of_windows::<1, N>(*start, taps, out, at),
                    2 => of_rows.of_windows::<2, N>(*start, taps, out, at),
                    3 => of_rows.of_windows::<3, N>(*start, taps, out, at),
                    _ => of_rows.of_windows::<LONGEST, N>(*start, taps, out, at),
                }
                continue;
            }
            largest.pick(&of_rows, &columns[0]);
            for places in &columns[1..] {
                others.pick(&of_rows, places);
                largest.take::<N>(&others);
            }
            out.copy_from_slice(&largest.values[..count]);
            for (y, &at) in at.iter_mut().zip(&largest.positions) {
                *y = i64::from(at);
            }
        }
    }
}

/// Of two elements and their positions the larger one, or of two that are as large the one before.
#[inline(always)]
fn larger<T: Element + PartialOrd>((own, place): (T, u32), (x, at): (T, u32)) -> (T, u32) {
    let before = at < place;
    let take = (x > own) | ((x == own) & before) | (is_nan(x) & (!is_nan(own) | before));
    (if take { x } else { own }, if take { at } else { place })
}

#[inline(always)]
fn is_nan<T: Element>(x: T) -> bool {
    let itself = x;
    x != itself
}
