//! Singular vectors of large matrices, by the crate `faer`.

use faer::diag::DiagMut;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::svd;
use faer::prelude::default;
use faer::{MatMut, MatRef, Par};

use super::batch::Large;
use super::numbers::Numbers;

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
