//! Products of a matrix with a vector, and of two vectors.

use std::array;

use pulp::{Simd, WithSimd};

use super::scratch::Scratch;
use super::{Work, from};
use crate::cpu::matmul::Matrix;
use crate::cpu::tile::{Float, LANES};

/// Rows that are multiplied with a vector at once: when rows are read, and when columns are.
const ROWS: usize = 8;
const COLUMN: usize = 1024;

/// The product `y = alpha a x + beta y`, where `y` has a step.
pub(super) struct WithVector<'a, T> {
    pub(super) alpha: T,
    pub(super) a: Matrix<'a, T>,
    pub(super) x: &'a [T],
    pub(super) beta: T,
    pub(super) addend: Option<Matrix<'a, T>>,
    pub(super) y: &'a mut [T],
    pub(super) step: usize,
    /// Whether the product is just this one sum.
    pub(super) alone: bool,
}

impl<'a, T: Float> WithVector<'a, T> {
    pub(super) fn cut(self, tasks: usize) -> Vec<Work<'a, T>> {
        let Self {
            alpha,
            a,
            x,
            beta,
            addend,
            y,
            step,
            alone,
        } = self;
        let rows = y
            .len()
            .div_ceil(step)
            .div_ceil(tasks)
            .next_multiple_of(LANES);
        let part = |(i, y)| {
            let a = from(a, i * rows * a.row);
            Work::Vector(WithVector {
                alpha,
                a,
                x,
                beta,
                addend: addend.map(|addend| addend.rows_from(i * rows)),
                y,
                step,
                alone,
            })
        };
        y.chunks_mut(rows * step).enumerate().map(part).collect()
    }

    /// Writes sums, starting at a row.
    #[inline(always)]
    fn finish(&mut self, first: usize, sums: &[T]) {
        let (alpha, beta) = (self.alpha, self.beta);
        for (i, &sum) in sums.iter().enumerate() {
            let y = &mut self.y[(first + i) * self.step];
            let old = self.addend.map_or(*y, |addend| addend.at(first + i, 0));
            *y = match beta == T::ZERO {
                true => alpha.times(sum),
                false => beta.times(old).plus_product(alpha, sum),
            };
        }
    }
}

impl<T: Float> WithSimd for &mut WithVector<'_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let lanes = T::lanes::<S>();
        let m = self.y.len().div_ceil(self.step);
        let WithVector { a, x, .. } = *self;
        let k = x.len();
        let mut scratch = Scratch::<T>::take();
        if self.alone {
            let (buffer, _) = scratch.split(if a.column == 1 { 0 } else { k }, 0);
            for (l, to) in buffer.iter_mut().enumerate() {
                *to = a.memory[l * a.column];
            }
            let a = if a.column == 1 {
                &a.memory[..k]
            } else {
                buffer
            };
            let mut sum = [T::ZERO];
            simd.vectorize(Dot {
                a,
                x,
                sum: &mut sum,
            });
            self.finish(0, &sum);
        } else if a.row == 1 && a.column != 1 {
            let height = COLUMN.min(m.next_multiple_of(lanes));
            let (sums, _) = scratch.split(height * lanes, 0);
            for first in (0..m).step_by(COLUMN) {
                let count = COLUMN.min(m - first);
                simd.vectorize(Columns {
                    a: from(a, first),
                    x,
                    count,
                    height,
                    sums,
                });
                self.finish(first, &sums[..count]);
            }
        } else {
            let (buffer, _) = scratch.split(if a.column == 1 { 0 } else { k * ROWS }, 0);
            for first in (0..m).step_by(ROWS) {
                let count = ROWS.min(m - first);
                let mut rows = from(a, first * a.row);
                if a.column != 1 {
                    for (i, to) in buffer.chunks_exact_mut(k).take(count).enumerate() {
                        for (l, to) in to.iter_mut().enumerate() {
                            *to = rows.memory[i * a.row + l * a.column];
                        }
                    }
                    rows = Matrix {
                        memory: buffer,
                        row: k,
                        column: 1,
                    };
                }
                let mut sums = [T::ZERO; ROWS];
                simd.vectorize(Dots {
                    a: rows,
                    x,
                    count,
                    sums: &mut sums,
                });
                self.finish(first, &sums[..count]);
            }
        }
        scratch.give_back();
    }
}

/// One dot product, in several sums, so that an addition does not wait for the previous one.
struct Dot<'a, T> {
    a: &'a [T],
    x: &'a [T],
    sum: &'a mut [T; 1],
}

impl<T: Float> WithSimd for Dot<'_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { a, x, sum } = self;
        let lanes = T::lanes::<S>();
        let mut sums = [T::splat(simd, T::ZERO); ROWS];
        let (mut a, mut x) = (a.chunks_exact(ROWS * lanes), x.chunks_exact(ROWS * lanes));
        for (a, x) in (&mut a).zip(&mut x) {
            for i in 0..ROWS {
                let (a, x) = (T::load::<S>(&a[i * lanes..]), T::load::<S>(&x[i * lanes..]));
                sums[i] = T::multiply_add(simd, a, x, sums[i]);
            }
        }
        for (a, x) in a.remainder().chunks(lanes).zip(x.remainder().chunks(lanes)) {
            sums[0] = T::multiply_add(simd, T::load_part(simd, a), T::load_part(simd, x), sums[0]);
        }
        for i in [4, 2, 1] {
            for j in 0..i {
                sums[j] = T::add(simd, sums[j], sums[j + i]);
            }
        }
        sum[0] = T::sum(simd, sums[0]);
    }
}

/// `count` dot products of rows with `x`.
struct Dots<'a, T> {
    a: Matrix<'a, T>,
    x: &'a [T],
    count: usize,
    sums: &'a mut [T; ROWS],
}

impl<T: Float> WithSimd for Dots<'_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { a, x, count, sums } = self;
        let lanes = T::lanes::<S>();
        let (whole, rest) = x.split_at(x.len() / lanes * lanes);
        let row = |i: usize| &a.memory[i.min(count - 1) * a.row..][..x.len()];
        let rows: [&[T]; ROWS] = array::from_fn(row);
        let starts: [&[T]; ROWS] = array::from_fn(|i| &rows[i][..whole.len()]);
        let mut partial = [T::splat(simd, T::ZERO); ROWS];
        let mut l = 0;
        while l + lanes <= whole.len() {
            let factor = T::load::<S>(&whole[l..]);
            for i in 0..ROWS {
                let read = T::load::<S>(&starts[i][l..]);
                partial[i] = T::multiply_add(simd, factor, read, partial[i]);
            }
            l += lanes;
        }
        if !rest.is_empty() {
            let factor = T::load_part(simd, rest);
            for i in 0..ROWS {
                let read = T::load_part(simd, &rows[i][whole.len()..]);
                partial[i] = T::multiply_add(simd, factor, read, partial[i]);
            }
        }
        for i in 0..ROWS {
            sums[i] = T::sum(simd, partial[i]);
        }
    }
}

/// The same for `count` rows that are neighbours in memory, with columns apart: `height` sums for
/// each lane of a vector of `x`.
struct Columns<'a, T> {
    a: Matrix<'a, T>,
    x: &'a [T],
    count: usize,
    height: usize,
    sums: &'a mut [T],
}

impl<T: Float> WithSimd for Columns<'_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            a,
            x,
            count,
            height,
            sums,
        } = self;
        let lanes = T::lanes::<S>();
        sums.fill(T::ZERO);
        const MANY: usize = 8;
        for first in (0..x.len()).step_by(MANY * lanes) {
            let end = x.len().min(first + MANY * lanes);
            for l in first..end.min(first + lanes) {
                let sums = &mut sums[(l - first) * height..][..height];
                let mut l = l;
                while l < end {
                    l += lanes
                        * match (end - l).div_ceil(lanes) {
                            MANY => add_columns::<S, T, MANY>(simd, a, x, l, count, sums),
                            4.. => add_columns::<S, T, 4>(simd, a, x, l, count, sums),
                            _ => add_columns::<S, T, 1>(simd, a, x, l, count, sums),
                        };
                }
            }
        }
        let rest = x.len() % lanes;
        if rest > 0 {
            // Missing elements are 0 in dot products, too, which turns -0 into 0.
            let zero = T::splat(simd, T::ZERO);
            for lane in rest..lanes {
                let sums = &mut sums[lane * height..][..height];
                for sums in sums.chunks_exact_mut(lanes) {
                    let sum = T::multiply_add(simd, zero, zero, T::load::<S>(sums));
                    T::store::<S>(sums, sum);
                }
            }
        }
        // The order in which a vector is summed.
        let mut half = lanes / 2;
        while half > 0 {
            let (low, high) = sums.split_at_mut(half * height);
            for (low, high) in low.chunks_exact_mut(lanes).zip(high.chunks_exact(lanes)) {
                T::store::<S>(low, T::add(simd, T::load::<S>(low), T::load::<S>(high)));
            }
            half /= 2;
        }
    }
}

/// Adds `N` columns, starting at `l` and one vector apart, to the sums of one lane.
#[inline(always)]
fn add_columns<S: Simd, T: Float, const N: usize>(
    simd: S,
    a: Matrix<'_, T>,
    x: &[T],
    l: usize,
    count: usize,
    sums: &mut [T],
) -> usize {
    let lanes = T::lanes::<S>();
    let columns: [&[T]; N] = array::from_fn(|i| &a.memory[(l + i * lanes) * a.column..][..count]);
    let factors: [_; N] = array::from_fn(|i| T::splat(simd, x[l + i * lanes]));
    let mut at = 0;
    while at + lanes <= count {
        let mut sum = T::load::<S>(&sums[at..]);
        for i in 0..N {
            sum = T::multiply_add(simd, factors[i], T::load::<S>(&columns[i][at..]), sum);
        }
        T::store::<S>(&mut sums[at..], sum);
        at += lanes;
    }
    if at < count {
        let mut sum = T::load::<S>(&sums[at..]);
        for i in 0..N {
            sum = T::multiply_add(simd, factors[i], T::load_part(simd, &columns[i][at..]), sum);
        }
        T::store::<S>(&mut sums[at..], sum);
    }
    N
}
