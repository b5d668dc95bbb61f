//! Metrics of predictions, which are plain numbers without derivatives.

mod classification;
mod ranking;
mod regression;
mod scores;

pub use classification::{accuracy, binary_accuracy, confusion_matrix, perplexity, top_k_accuracy};
pub use ranking::{average_precision, roc_auc};
pub use regression::r2_score;
pub use scores::{Average, f1_score, precision, recall};
