//! How good predictions are: plain numbers, which nothing is differentiated by.

mod classification;
mod regression;

pub use classification::{accuracy, binary_accuracy, confusion_matrix};
pub use regression::r2_score;
