//! Functions that connect values by weights: products of matrices and what is made of them.

mod convolution;
mod einsum;
mod linear;
mod matmul;

pub use convolution::*;
pub use einsum::*;
pub use linear::*;
pub use matmul::*;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [
        convolution::samples(),
        einsum::samples(),
        linear::samples(),
        matmul::samples(),
    ]
    .concat()
}
