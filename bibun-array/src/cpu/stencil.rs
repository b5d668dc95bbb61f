//! Sums and maxima of windows: across an axis by whole rows, along columns last.

use std::ops::{Add, Mul};

use pulp::{Arch, NullaryFnOnce};

use super::index::spread;
use super::threads::{chunks, for_each};
use super::worth_threads;
use crate::{Array, Element, Scalar, Stencil};

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
                    columns,
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

struct Max<'a, T> {
    x: &'a [T],
    out: &'a mut [T],
    at: &'a mut [i64],
    /// The number of the first row of `out` among all rows.
    first: usize,
    rows: &'a Stencil,
    columns: &'a Stencil,
}

impl<T: Element + PartialOrd> NullaryFnOnce for Max<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Self { rows, columns, .. } = self;
        let (width, count) = (columns.size(), columns.count());
        // The largest element of each column in the rows of a window, and the number of its row.
        let mut largest = vec![T::default(); width];
        let mut row_of = vec![0u32; width];
        let windows = (self.out.chunks_exact_mut(count)).zip(self.at.chunks_exact_mut(count));
        for (i, (out, at)) in windows.enumerate() {
            let (block, window) = (
                (self.first + i) / rows.count(),
                (self.first + i) % rows.count(),
            );
            let window = &rows.positions()[rows.range(window)];
            let row = |at: usize| &self.x[(block * rows.size() + at) * width..][..width];
            largest.copy_from_slice(row(window[0]));
            row_of.fill(0);
            for (k, &at) in window.iter().enumerate().skip(1) {
                let best = largest.iter_mut().zip(&mut row_of);
                for ((best, of), &x) in best.zip(row(at)) {
                    let take = (x > *best) | (is_nan(x) & !is_nan(*best));
                    *best = if take { x } else { *best };
                    *of = if take { k as u32 } else { *of };
                }
            }
            let mut begin = 0;
            for ((y, at), &end) in out.iter_mut().zip(at).zip(columns.ends()) {
                let stencil = &columns.positions()[begin..end];
                let mut column = stencil[0];
                let (mut best, mut of) = (largest[column], row_of[column]);
                for &other in &stencil[1..] {
                    let (x, row) = (largest[other], row_of[other]);
                    // Of equal elements in several columns, the one in the first row comes first.
                    let before = row < of;
                    let take = (x > best)
                        | ((x == best) & before)
                        | (is_nan(x) & (!is_nan(best) | before));
                    best = if take { x } else { best };
                    of = if take { row } else { of };
                    column = if take { other } else { column };
                }
                *y = best;
                *at = (window[of as usize] * width + column) as i64;
                begin = end;
            }
        }
    }
}

#[inline(always)]
fn is_nan<T: Element>(x: T) -> bool {
    let itself = x;
    x != itself
}
