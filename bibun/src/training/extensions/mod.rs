//! What can be hung onto a training.

mod best;
mod call;
mod early_stopping;
mod evaluator;
mod goal;
mod histograms;
mod plateau;
mod plot;
mod progress_bar;
mod table;
mod tensorboard;

pub use best::KeepBest;
pub use call::Call;
pub use early_stopping::EarlyStopping;
pub use evaluator::Evaluator;
pub use goal::Goal;
pub use histograms::Histograms;
pub use plateau::LowerRateOnPlateau;
pub use plot::Plot;
pub use progress_bar::ProgressBar;
pub use table::Table;
pub use tensorboard::TensorBoard;
