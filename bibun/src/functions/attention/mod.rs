//! Attention, and the masked softmax.

mod masked_softmax;
mod options;
mod rotary;
mod scaled_dot_product;

pub use masked_softmax::*;
pub use options::*;
pub use rotary::*;
pub use scaled_dot_product::*;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [
        masked_softmax::samples(),
        options::samples(),
        rotary::samples(),
        scaled_dot_product::samples(),
    ]
    .concat()
}
