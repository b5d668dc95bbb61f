//! Passes through the rows of a matrix: products with vectors, and changes on the way.

use std::array;

use pulp::Simd;

use super::batch::Large;
use crate::cpu::Float;

/// The number of rows that are gone through at once.
pub(super) const ROWS: usize = 4;

/// Goes through some columns of a few rows. First, if it `CHANGES`, the rows become `a + of_v wᵀ + of_w vᵀ`. If it has
/// `SUMS`, products with x are added to them, a vector for each row; and if it `MIRRORS`, `of_x a` to `out`.
#[inline(always)]
pub(super) fn pass<S, T, const CHANGES: bool, const SUMS: bool, const MIRRORS: bool>(
    simd: S,
    rows: [&mut [T]; ROWS],
    [x, v, w]: [&[T]; 3],
    [of_x, of_v, of_w]: &[[T::Vector<S>; ROWS]; 3],
    sums: &mut [T::Vector<S>; ROWS],
    out: &mut [T],
) where
    S: Simd,
    T: Large,
{
    let lanes = T::lanes::<S>();
    let [a, b, c, d] = rows.map(|row| row.chunks_exact_mut(lanes));
    let others = (x.chunks_exact(lanes).zip(v.chunks_exact(lanes)))
        .zip(w.chunks_exact(lanes).zip(out.chunks_exact_mut(lanes)));
    for (((a, b), (c, d)), ((x, v), (w, out))) in a.zip(b).zip(c.zip(d)).zip(others) {
        let [x, v, w] = [x, v, w].map(T::load::<S>);
        let mut sum = T::load::<S>(out);
        for (i, row) in [a, b, c, d].into_iter().enumerate() {
            let mut element = T::load::<S>(row);
            if CHANGES {
                element = T::multiply_add(simd, of_v[i], w, element);
                element = T::multiply_add(simd, of_w[i], v, element);
                T::store::<S>(row, element);
            }
            if SUMS {
                sums[i] = T::multiply_add(simd, element, x, sums[i]);
            }
            if MIRRORS {
                sum = T::multiply_add(simd, element, of_x[i], sum);
            }
        }
        if MIRRORS {
            T::store::<S>(out, sum);
        }
    }
}

/// Returns the products of a few rows with x, a vector of sums for each.
#[inline(always)]
pub(super) fn products<S: Simd, T: Large>(
    simd: S,
    rows: [&[T]; ROWS],
    x: &[T],
) -> [T::Vector<S>; ROWS] {
    let lanes = T::lanes::<S>();
    let zero = T::splat(simd, T::of(0.0));
    let mut sums = [[zero; ROWS]; 2];
    let [a, b, c, d] = rows.map(|row| row.chunks_exact(lanes));
    let both = a.zip(b).zip(c.zip(d)).zip(x.chunks_exact(lanes));
    for (k, (((a, b), (c, d)), x)) in both.enumerate() {
        let x = T::load::<S>(x);
        let own = &mut sums[k % 2];
        for (sum, row) in own.iter_mut().zip([a, b, c, d]) {
            *sum = T::multiply_add(simd, T::load::<S>(row), x, *sum);
        }
    }
    array::from_fn(|i| <T as Float>::add(simd, sums[0][i], sums[1][i]))
}
