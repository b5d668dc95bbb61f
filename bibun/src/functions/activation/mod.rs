//! Activation functions.

mod exponential_unit;
mod gelu;
mod relu;
mod shrink;
mod sigmoid;

pub use exponential_unit::*;
pub use gelu::*;
pub use relu::*;
pub use shrink::*;
pub use sigmoid::*;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [
        exponential_unit::samples(),
        gelu::samples(),
        relu::samples(),
        shrink::samples(),
        sigmoid::samples(),
    ]
    .concat()
}
