//! Products with few columns, which would leave most of a vector empty: the lanes of vectors are rows.

use std::array;

use pulp::{Simd, WithSimd};

use super::part::Part;
use super::plan::depth;
use super::scratch::Scratch;
use crate::cpu::matmul::Matrix;
use crate::cpu::tile::{Float, LANES, transposed};

/// The numbers of columns for which this is compiled. Others are filled up.
const WIDE: usize = 8;
const SLIM: usize = 4;
/// The number of vectors of rows that are worth a copy of `b`.
const FEW: usize = 4;

/// Whether the rows of `a` are transposed in registers, square by square: where that takes less time than half
/// of the multiplications by whole vectors.
pub(super) fn is_narrow<S: Simd, T: Float>([m, n, k]: [usize; 3], a: Matrix<'_, T>) -> bool {
    let lanes = T::lanes::<S>();
    let is_wide = const { S::REGISTER_COUNT >= 32 } && 2 * n <= lanes && lanes >= 2 * SLIM;
    is_wide && a.column == 1 && m >= FEW * lanes && k >= lanes
}

impl<T: Float> Part<'_, T> {
    /// Computes a product for which [`is_narrow`] holds.
    #[inline(always)]
    pub(super) fn narrow<S: Simd>(&mut self, simd: S) {
        match self.n <= SLIM {
            true => simd.vectorize(Narrow::<T, SLIM>(self)),
            false => simd.vectorize(Narrow::<T, WIDE>(self)),
        }
    }
}

/// A product of at most `N` columns.
struct Narrow<'t, 'a, T, const N: usize>(&'t mut Part<'a, T>);

impl<T: Float, const N: usize> WithSimd for Narrow<'_, '_, T, N> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Part {
            m,
            n,
            k,
            alpha,
            a,
            b,
            beta,
            addend,
            ref mut out,
        } = *self.0;
        let (lanes, depth) = (T::lanes::<S>(), depth(k));
        let mut scratch = Scratch::<T>::take();
        let b = match b.column == 1 && b.row == N && n == N {
            true => b.memory[..k * N].as_chunks::<N>().0,
            false => {
                let copy = scratch.split(k * N, 0).0.as_chunks_mut::<N>().0;
                for (l, copy) in copy.iter_mut().enumerate() {
                    *copy = array::from_fn(|j| if j < n { b.at(l, j) } else { T::ZERO });
                }
                copy
            }
        };
        let zero = T::splat(simd, T::ZERO);
        let alpha = T::splat(simd, alpha);
        for row in (0..m).step_by(lanes) {
            // The last rows overlap the previous ones, of which the same results are written again.
            let row = row.min(m - lanes);
            let rows: [&[T]; LANES] =
                array::from_fn(|i| &a.memory[(row + i.min(lanes - 1)) * a.row..][..k]);
            let mut totals = [zero; N];
            let mut adds = false;
            if let Some(addend) = addend.filter(|_| beta != T::ZERO) {
                let beta = T::splat(simd, beta);
                for j in 0..n {
                    let mut column = [T::ZERO; LANES];
                    for i in 0..lanes {
                        column[i] = addend.at(row + i, j);
                    }
                    totals[j] = T::multiply(simd, beta, T::load::<S>(&column));
                }
                adds = true;
            }
            for first in (0..k).step_by(depth) {
                let end = k.min(first + depth);
                let mut sums = [zero; N];
                let mut l = first;
                while l + lanes <= end {
                    let square = transposed::<S, T>(simd, |i| &rows[i][l..]);
                    add_products::<S, T, N>(simd, &square[..lanes], &b[l..], &mut sums);
                    l += lanes;
                }
                if l < end {
                    let mut square = [zero; LANES];
                    for i in 0..lanes {
                        square[i] = T::load_part(simd, &rows[i][l..end]);
                    }
                    T::transpose(simd, &mut square);
                    add_products::<S, T, N>(simd, &square[..end - l], &b[l..], &mut sums);
                }
                for j in 0..N {
                    let sum = T::multiply(simd, alpha, sums[j]);
                    totals[j] = if adds {
                        T::add(simd, totals[j], sum)
                    } else {
                        sum
                    };
                }
                adds = true;
            }
            let mut square = [zero; LANES];
            square[..N].copy_from_slice(&totals);
            T::transpose(simd, &mut square);
            for i in 0..lanes {
                T::store_part(simd, out.some(row + i, 0, n), square[i]);
            }
        }
        scratch.give_back();
    }
}

/// Adds the products of some columns of `a`, each in one vector, with as many rows of `b`.
#[inline(always)]
fn add_products<S: Simd, T: Float, const N: usize>(
    simd: S,
    columns: &[T::Vector<S>],
    rows: &[[T; N]],
    sums: &mut [T::Vector<S>; N],
) {
    for (&column, row) in columns.iter().zip(&rows[..columns.len()]) {
        for j in 0..N {
            sums[j] = T::multiply_add(simd, column, T::splat(simd, row[j]), sums[j]);
        }
    }
}
