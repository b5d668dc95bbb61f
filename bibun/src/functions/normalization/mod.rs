//! Normalisation: values brought to mean 0 and variance 1.
//!
//! One function, [`normalize`](normalize::normalize), does the work of all; they differ in the axes
//! over which they take mean and variance. Scales and shifts are ordinary inputs of ordinary
//! products and sums.

mod batch;
mod layer;
mod normalize;
mod response;

pub use batch::*;
pub use layer::*;
pub use response::*;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [
        batch::samples(),
        layer::samples(),
        normalize::samples(),
        response::samples(),
    ]
    .concat()
}
