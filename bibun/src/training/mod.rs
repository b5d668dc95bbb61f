//! Training: a loop that monitors, stops, resumes and saves, with extensions.
//!
//! A [`Trainer`] takes batches from a [`BatchSource`], lets a [`TrainStep`] learn from each, and
//! leaves the rest to [`Extension`]s:
//!
//! | | |
//! |---|---|
//! | [`Evaluator`] | evaluation of the model on other data |
//! | [`PrintReport`], [`ProgressBar`] | the log and the progress on the terminal |
//! | [`Plot`], [`Histograms`], [`TensorBoard`] | pictures, and files for TensorBoard |
//! | [`EarlyStopping`], [`LowerRateOnPlateau`] | a stop or a lower learning rate when a value stops improving |
//! | [`KeepBest`] | the best model so far, in a file |
//! | [`Callback`] | a custom function at chosen times |
//!
//! A [`Trigger`] makes something due after steps or epochs. The [`Log`] has a line for each epoch,
//! or for each time set by [`Trainer::log_every`]. With a [`Trainer::folder`] the log is written
//! there as `log.jsonl`, [`Snapshots`] are written there and resumed from, and pictures are drawn:
//!
//! ```no_run
//! use bibun::optimizers::Adam;
//! use bibun::training::{Plot, ProgressBar, Snapshots, Step, PrintReport, Trainer, Trigger, Until};
//! # use bibun::{Variable, array::Array, datasets::DataLoader};
//! # let (model, batches) = (Variable::new(0.0), DataLoader::new(Array::from([1.0]), 1));
//! # let loss = |w: &Variable, x: &Array, _: &mut Step<'_>| (w - x).square().mean(..);
//! let mut trainer = Trainer::new(model, batches, Adam::new(0.001), loss)
//!     .until(Until::Epochs(20.0))
//!     .folder("result")
//!     .snapshots(Snapshots::every(Trigger::Epochs(1.0)))
//!     .stop_on_interrupt()
//!     .extend(PrintReport::new(["epoch", "loss", "elapsed_time"]))
//!     .extend(ProgressBar::new())
//!     .extend(Plot::new("loss.svg", ["loss"]));
//! trainer.resume()?;      // where the last run of this program came to, if there was one
//! trainer.run()?;
//! # Ok::<(), bibun::training::TrainingError>(())
//! ```

mod batch_source;
mod clock;
mod compiled;
mod error;
mod extension;
mod extensions;
mod folder;
mod interrupt;
mod log;
mod report;
mod snapshots;
mod terminal;
mod together;
mod train_step;
mod trainer;

pub use batch_source::{BatchSource, BoxError, Once};
pub use clock::{Clock, Trigger, Until};
pub use compiled::LossPrograms;
pub use error::TrainingError;
pub use extension::{Extension, Session};
#[cfg(feature = "tensorboard")]
pub use extensions::TensorBoard;
pub use extensions::{
    Callback, EarlyStopping, Evaluator, Goal, KeepBest, LowerRateOnPlateau, PrintReport,
    ProgressBar,
};
#[cfg(feature = "plots")]
pub use extensions::{Histograms, Plot};
pub use log::{Entry, Log};
pub use report::{Report, Step};
pub use snapshots::Snapshots;
pub use train_step::{GradientStep, TrainStep};
pub use trainer::{Outcome, Resumed, Trainer};
