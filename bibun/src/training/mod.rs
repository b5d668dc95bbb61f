//! Training: a loop that watches, stops, resumes and saves, and what can be hung onto it.

mod clock;
mod error;
mod extension;
mod extensions;
mod interrupt;
mod log;
mod report;
mod snapshots;
mod source;
mod terminal;
mod trainer;
mod updater;

pub use clock::{Clock, Trigger, Until};
pub use error::TrainingError;
pub use extension::{Extension, Session};
pub use extensions::{
    Call, EarlyStopping, Evaluator, Goal, Histograms, KeepBest, LowerRateOnPlateau, Plot,
    ProgressBar, Table, TensorBoard,
};
pub use log::{Entry, Log};
pub use report::{Report, Step};
pub use snapshots::Snapshots;
pub use source::{BoxError, Once, Source};
pub use trainer::{Outcome, Resumed, Trainer};
pub use updater::{Descent, Updater};
