//! Attention, and the masked softmax.

mod masked_softmax;
mod scaled_dot_product;

pub use masked_softmax::*;
pub use scaled_dot_product::*;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [masked_softmax::samples(), scaled_dot_product::samples()].concat()
}
