//! Functions that connect values by weights: products of matrices and what is made of them.

mod attention;
mod convolution;
mod einsum;
mod embedding;
mod linear;
mod matmul;
mod unfold;

pub use attention::*;
pub use convolution::*;
pub use einsum::*;
pub use embedding::*;
pub use linear::*;
pub use matmul::*;
pub use unfold::*;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [
        attention::samples(),
        convolution::samples(),
        einsum::samples(),
        embedding::samples(),
        linear::samples(),
        matmul::samples(),
        unfold::samples(),
    ]
    .concat()
}
