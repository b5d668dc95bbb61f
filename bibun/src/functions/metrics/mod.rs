//! Metrics of predictions, which are plain numbers without derivatives.

mod classification;
mod regression;

pub use classification::{accuracy, binary_accuracy, confusion_matrix};
pub use regression::r2_score;
