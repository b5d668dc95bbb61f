//! Linear algebra: factorisations of matrices, systems of equations, functions and norms of matrices.
//!
//! Matrices are the last two axes; all axes in front are those of a batch. Names are those of `numpy.linalg`. All
//! functions have derivatives of any order in both directions, except where their documentation says which do not
//! exist, and work under `vmap` and in compiled functions. They are computed on the CPU.

mod cholesky;
mod determinant;
mod eigh;
mod least_squares;
mod lu;
mod matrices;
mod norm;
mod products;
mod qr;
#[cfg(test)]
mod reference;
mod solve;
mod spectral;
mod svd;
mod triangular_solve;

pub use super::{diagonal, matmul, outer, tensordot, trace};
pub use bibun_array::Triangle;
pub use cholesky::{cholesky, cholesky_ex, cholesky_inverse, cholesky_solve};
pub use determinant::{det, logdet, slogdet};
pub use eigh::{eigh, eigvalsh};
pub use least_squares::{lstsq, matrix_rank, pinv, pinv_with};
pub use lu::{Lu, lu, lu_factor};
pub use norm::{MatrixNorm, Norm, VectorNorm, cond, matrix_norm, norm, vector_norm};
pub use products::{block_diag, corrcoef, cov, cross, kron, matrix_power, multi_dot, vander};
pub use qr::{Qr, qr, qr_full};
pub use solve::{inv, inv_ex, solve, solve_ex};
pub use spectral::{expm, fractional_matrix_power, logm, sqrtm};
pub use svd::{Svd, svd, svd_full, svdvals};
pub use triangular_solve::triangular_solve;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [
        cholesky::samples(),
        determinant::samples(),
        eigh::samples(),
        least_squares::samples(),
        lu::samples(),
        norm::samples(),
        products::samples(),
        qr::samples(),
        solve::samples(),
        spectral::samples(),
        svd::samples(),
        triangular_solve::samples(),
    ]
    .concat()
}
