//! Sums and maxima of windows: across an axis by whole rows, along columns last.

use std::array;
use std::ops::{Add, Mul};

use pulp::{Arch, NullaryFnOnce};

use super::index::spread;
use super::threads::{chunks, for_each};
use super::worth_threads;
use crate::{Array, Element, Scalar, Stencil};

/// The number of elements that are compared together, if rows are long.
const LANES: usize = 16;

/// The most elements in a window for which those of both axes are compared at once.
const FEW: usize = 9;

/// Elements that can be weighted.
pub(super) trait Weighted: Element + Add<Output = Self> + Mul<Output = Self> {}
impl Weighted for f32 {}
impl Weighted for f64 {}

/// See [`Device::reduce_window`](crate::Device::reduce_window).
pub(super) fn reduce_window<T: Weighted>(x: &Array, axis: usize, stencil: &Stencil) -> Array {
    let shape = x.shape().replaced(axis, stencil.count());
    let inner: usize = shape[axis + 1..].iter().product();
    let weights = stencil.weights().iter();
    let weights: Vec<T> = weights.map(|&w| T::from_scalar(Scalar::F64(w))).collect();
    let x = spread(x);
    let x = x.host_slice::<T>();
    Array::filled_by(shape, |out: &mut [T]| {
        if out.is_empty() {
            return;
        }
        let row = if inner == 1 { stencil.count() } else { inner };
        let work = out.len() / stencil.count() * stencil.positions().len();
        let sum = |first, out: &mut [T]| {
            Arch::new().dispatch(Sum {
                x,
                out,
                first,
                inner,
                stencil,
                weights: &weights,
            });
        };
        let part = part(out.len() / row, work) * row;
        match part < out.len() {
            true => for_each(chunks(out, part), true, 1, &|i, out| {
                sum(i * (part / row), out);
            }),
            false => sum(0, out),
        }
    })
}

/// The number of rows that a thread takes at a time, for work of about this many nanoseconds.
fn part(rows: usize, work: usize) -> usize {
    match worth_threads(work) {
        true => rows.div_ceil(4 * rayon::current_num_threads()),
        false => rows,
    }
}

struct Sum<'a, T> {
    x: &'a [T],
    out: &'a mut [T],
    /// The number of the first row of `out` among all rows.
    first: usize,
    inner: usize,
    stencil: &'a Stencil,
    weights: &'a [T],
}

impl<T: Weighted> NullaryFnOnce for Sum<'_, T> {
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
        } = self;
        let (count, size, positions) = (stencil.count(), stencil.size(), stencil.positions());
        if inner == 1 {
            for (i, out) in out.chunks_exact_mut(count).enumerate() {
                let x = &x[(first + i) * size..][..size];
                let mut begin = 0;
                for (y, &end) in out.iter_mut().zip(stencil.ends()) {
                    let stencil = positions[begin..end].iter().zip(&weights[begin..end]);
                    *y = stencil.fold(T::default(), |sum, (&at, &w)| sum + w * x[at]);
                    begin = end;
                }
            }
            return;
        }
        for (i, out) in out.chunks_exact_mut(inner).enumerate() {
            let (block, window) = ((first + i) / count, (first + i) % count);
            let range = stencil.range(window);
            let mut rows = positions[range.clone()].iter().zip(&weights[range]);
            let row = |at: usize| &x[(block * size + at) * inner..][..inner];
            match rows.next() {
                Some((&at, &w)) => out.iter_mut().zip(row(at)).for_each(|(y, &x)| *y = w * x),
                None => out.fill(T::default()),
            }
            for (&at, &w) in rows {
                (out.iter_mut().zip(row(at))).for_each(|(y, &x)| *y = *y + w * x);
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
    let ranked = ranked(columns);
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
                let before = at[i] < positions[i];
                let take = (x[i] > values[i])
                    | ((x[i] == values[i]) & before)
                    | (is_nan(x[i]) & (!is_nan(values[i]) | before));
                values[i] = if take { x[i] } else { values[i] };
                positions[i] = if take { at[i] } else { positions[i] };
            }
        }
    }
}

impl<T: Element + PartialOrd> NullaryFnOnce for Max<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        match self.width < LANES {
            true => self.by::<{ LANES / 4 }>(),
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

#[inline(always)]
fn is_nan<T: Element>(x: T) -> bool {
    let itself = x;
    x != itself
}
