//! Triangular factors of complex numbers, and products, by the crate `faer`.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::lu::partial_pivoting::factor as lu_factor;
use faer::prelude::default;
use faer::traits::ComplexField;
use faer::{MatMut, MatRef, Par};
use num_complex::Complex;

use super::batch::Large;
use super::blocked::for_tiles;
use super::numbers::Real;

/// The number of elements from which on threads share a matrix.
const SHARED: usize = 128 * 128;

/// Of what has the same bits for any number of threads.
pub(super) fn parallel(elements: usize) -> Par {
    match elements >= SHARED && rayon::current_num_threads() > 1 {
        true => Par::rayon(0),
        false => Par::Seq,
    }
}

/// Computes the triangular factors of a matrix of complex numbers, given as their parts, in place, and the row of each
/// row. Returns whether it did: it cannot divide by a pivot that is zero, even where there is nothing to eliminate.
pub(super) fn complex_lu<T: Large>(a: &mut [T], m: usize, n: usize, rows: &mut [i64]) -> bool {
    let par = parallel(m * n);
    let mut columns = vec![Complex::new(T::of(0.0), T::of(0.0)); m * n];
    for_tiles(m, n, |i, j| {
        let at = 2 * (i * n + j);
        columns[j * m + i] = Complex::new(a[at], a[at + 1]);
    });
    let (mut order, mut inverse) = (vec![0usize; m], vec![0usize; m]);
    let scratch = lu_factor::lu_in_place_scratch::<usize, Complex<T>>(m, n, par, default());
    let mut memory = MemBuffer::new(scratch);
    lu_factor::lu_in_place(
        MatMut::from_column_major_slice_mut(&mut columns, m, n),
        &mut order,
        &mut inverse,
        par,
        MemStack::new(&mut memory),
        default(),
    );
    let is_finite = |x: &T| Real::is_finite(*x);
    let of_factors = columns.iter().all(|x| is_finite(&x.re) && is_finite(&x.im));
    if !of_factors && a.iter().all(is_finite) {
        return false;
    }
    for_tiles(m, n, |i, j| {
        let (at, x) = (2 * (i * n + j), columns[j * m + i]);
        (a[at], a[at + 1]) = (x.re, x.im);
    });
    for (row, &from) in rows.iter_mut().zip(&order) {
        *row = from as i64;
    }
    true
}

/// Computes the product of square matrices.
pub(super) fn multiply<T: ComplexField>(a: &[T], b: &[T], out: &mut [T], n: usize) {
    let [a, b] = [a, b].map(|x| MatRef::from_row_major_slice(x, n, n));
    let out = MatMut::from_row_major_slice_mut(out, n, n);
    let one = faer::traits::math_utils::one::<T>();
    faer::linalg::matmul::matmul(out, faer::Accum::Replace, a, b, one, parallel(n * n));
}

/// Computes the product of square matrices of complex numbers, given as their parts.
pub(super) fn complex_multiply<T: Large>(a: &[T], b: &[T], out: &mut [T], n: usize) {
    let [a, b] = [a, b].map(|x| -> Vec<Complex<T>> {
        let pairs = x.chunks_exact(2);
        pairs.map(|x| Complex::new(x[0], x[1])).collect()
    });
    let mut product = vec![Complex::new(T::of(0.0), T::of(0.0)); n * n];
    multiply(&a, &b, &mut product, n);
    for (out, x) in out.chunks_exact_mut(2).zip(product) {
        (out[0], out[1]) = (x.re, x.im);
    }
}
