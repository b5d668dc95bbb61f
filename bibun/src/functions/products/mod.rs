//! Products of vectors, matrices and tensors, including those with weights.

mod bilinear;
mod convolve;
mod einsum;
mod embedding;
mod embedding_bag;
mod linear;
mod matmul;

pub use bilinear::*;
pub use convolve::*;
pub use einsum::*;
pub use embedding::*;
pub use embedding_bag::*;
pub use linear::*;
pub use matmul::*;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [
        einsum::samples(),
        embedding::samples(),
        linear::samples(),
        matmul::samples(),
        bilinear::samples(),
        convolve::samples(),
        embedding_bag::samples(),
    ]
    .concat()
}
