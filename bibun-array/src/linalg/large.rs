//! Singular vectors of large matrices, triangular factors of complex numbers, and products, by the crate `faer`.

use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::lu::partial_pivoting::factor as lu_factor;
use faer::linalg::svd;
use faer::prelude::default;
use faer::traits::ComplexField;
use faer::{MatMut, MatRef, Par};
use num_complex::Complex;

use super::batch::Large;
use super::blocked::for_tiles;
use super::numbers::{Numbers, Real};

/// The number of elements from which on threads share a matrix.
const SHARED: usize = 128 * 128;

/// Of what has the same bits for any number of threads. Singular vectors have not: they are sums that threads divide, and
/// are computed by one.
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

/// Computes the singular values of a matrix `[m, n]` in rows, and the singular vectors, k of them on each side:
/// `u [m, k]` in rows, and each right one in a row of `vt`. Returns whether that succeeded.
pub(super) fn svd<T: Large>(
    a: &[T],
    [m, n]: [usize; 2],
    values: &mut [T],
    vectors: Option<[(&mut [T], usize); 2]>,
) -> bool {
    let par = Par::Seq;
    let (wanted, [u, v]) = match vectors {
        Some([(u, left), (vt, right)]) => {
            let wanted = match left == right && left == m.min(n) {
                true => svd::ComputeSvdVectors::Thin,
                false => svd::ComputeSvdVectors::Full,
            };
            let u = MatMut::from_row_major_slice_mut(u, m, left);
            let v = MatMut::from_column_major_slice_mut(vt, n, right);
            (wanted, [Some(u), Some(v.as_dyn_stride_mut())])
        }
        None => (svd::ComputeSvdVectors::No, [None, None]),
    };
    let scratch = svd::svd_scratch::<T>(m, n, wanted, wanted, par, default());
    let mut memory = MemBuffer::new(scratch);
    // Squares of the elements must be neither zero nor infinite.
    let largest = a
        .iter()
        .fold(T::of(0.0), |most, &x| Numbers::max(most, Numbers::abs(x)));
    let unit = match largest.to_f64() {
        size if size > 0.0 && size.is_finite() => largest.binade(),
        _ => T::of(1.0),
    };
    let scaled: Vec<T> = a.iter().map(|&x| x / unit).collect();
    let found = svd::svd(
        MatRef::from_row_major_slice(&scaled, m, n),
        DiagMut::from_slice_mut(&mut *values),
        u,
        v,
        par,
        MemStack::new(&mut memory),
        default(),
    );
    values.iter_mut().for_each(|x| *x *= unit);
    found.is_ok()
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
