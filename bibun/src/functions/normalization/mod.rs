//! Normalization: values transformed to mean 0 and variance 1.
//!
//! One function, [`normalize`](normalize::normalize), is behind all of them; they differ in the
//! axes over which they take mean and variance, and along which scale and shift vary.

mod batch;
mod gradient;
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
