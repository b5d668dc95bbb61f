//! Losses, which measure the distance of predictions from their targets.

mod band;
mod binary_cross_entropy;
mod cross_entropy;
mod ctc;
mod divergence;
mod embedding;
mod error;
mod huber;
mod likelihood;
mod margin;
mod mean_error;
mod multi_margin;
mod options;
mod reduction;
mod sigmoid_cross_entropy;

pub use binary_cross_entropy::*;
pub use cross_entropy::*;
pub use ctc::*;
pub use divergence::*;
pub use embedding::*;
pub use error::*;
pub use huber::*;
pub use likelihood::*;
pub use margin::*;
pub use mean_error::*;
pub use multi_margin::*;
pub use reduction::*;
pub use sigmoid_cross_entropy::*;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [
        band::samples(),
        binary_cross_entropy::samples(),
        cross_entropy::samples(),
        ctc::samples(),
        divergence::samples(),
        embedding::samples(),
        error::samples(),
        huber::samples(),
        likelihood::samples(),
        margin::samples(),
        mean_error::samples(),
        multi_margin::samples(),
        sigmoid_cross_entropy::samples(),
    ]
    .concat()
}
