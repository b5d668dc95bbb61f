//! Activation functions.

mod exponential_unit;
mod gated;
mod gelu;
mod joined;
mod relu;
mod shrink;
mod sigmoid;
mod softmax;

pub use exponential_unit::*;
pub use gated::*;
pub use gelu::*;
pub use joined::*;
pub use relu::*;
pub use shrink::*;
pub use sigmoid::*;
pub use softmax::*;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [
        exponential_unit::samples(),
        gated::samples(),
        gelu::samples(),
        joined::samples(),
        relu::samples(),
        shrink::samples(),
        sigmoid::samples(),
        softmax::samples(),
    ]
    .concat()
}
