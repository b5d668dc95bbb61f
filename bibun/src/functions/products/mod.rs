//! Products of vectors, matrices and tensors, including those with weights.

mod einsum;
mod embedding;
mod linear;
mod matmul;

pub use einsum::*;
pub use embedding::*;
pub use linear::*;
pub use matmul::*;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [
        einsum::samples(),
        embedding::samples(),
        linear::samples(),
        matmul::samples(),
    ]
    .concat()
}
