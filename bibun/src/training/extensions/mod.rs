//! What can be hung onto a training.

mod best;
mod call;
mod early_stopping;
mod evaluator;
mod goal;
#[cfg(feature = "plots")]
mod histograms;
mod plateau;
#[cfg(feature = "plots")]
mod plot;
mod progress_bar;
mod table;
#[cfg(feature = "tensorboard")]
mod tensorboard;

pub use best::KeepBest;
pub use call::Call;
pub use early_stopping::EarlyStopping;
pub use evaluator::Evaluator;
pub use goal::Goal;
#[cfg(feature = "plots")]
pub use histograms::Histograms;
pub use plateau::LowerRateOnPlateau;
#[cfg(feature = "plots")]
pub use plot::Plot;
pub use progress_bar::ProgressBar;
pub use table::Table;
#[cfg(feature = "tensorboard")]
pub use tensorboard::TensorBoard;
