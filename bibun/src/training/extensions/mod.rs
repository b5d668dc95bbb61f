//! Extensions for training.

mod best;
mod callback;
mod early_stopping;
mod evaluator;
mod goal;
#[cfg(feature = "plots")]
mod histograms;
mod plateau;
#[cfg(feature = "plots")]
mod plot;
mod print_report;
mod progress_bar;
#[cfg(feature = "tensorboard")]
mod tensorboard;
mod watched;

pub use best::KeepBest;
pub use callback::Callback;
pub use early_stopping::EarlyStopping;
pub use evaluator::Evaluator;
pub use goal::Goal;
#[cfg(feature = "plots")]
pub use histograms::Histograms;
pub use plateau::LowerRateOnPlateau;
#[cfg(feature = "plots")]
pub use plot::Plot;
pub use print_report::PrintReport;
pub use progress_bar::ProgressBar;
#[cfg(feature = "tensorboard")]
pub use tensorboard::TensorBoard;
