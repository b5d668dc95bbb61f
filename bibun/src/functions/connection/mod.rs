//! Functions that connect values by weights: products of matrices and what is made of them.

mod linear;
mod matmul;

pub use linear::*;
pub use matmul::*;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [matmul::samples(), linear::samples()].concat()
}
