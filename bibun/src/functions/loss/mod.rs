//! Losses, which measure the distance of predictions from their targets.

mod cross_entropy;
mod error;
mod huber;
mod mean_error;
mod reduction;
mod sigmoid_cross_entropy;

pub use cross_entropy::*;
pub use error::*;
pub use huber::*;
pub use mean_error::*;
pub use reduction::*;
pub use sigmoid_cross_entropy::*;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [
        cross_entropy::samples(),
        error::samples(),
        huber::samples(),
        mean_error::samples(),
        sigmoid_cross_entropy::samples(),
    ]
    .concat()
}
