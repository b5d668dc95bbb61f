//! Errors that end training early.

use std::io;
use std::path::PathBuf;

use super::batch_source::BoxError;
use crate::error::{Error, attempt, raise};
use crate::serializers::{FileError, StateError};

/// The reason why training could not continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainingError {
    /// The loss or a parameter is infinite or NaN.
    #[error("{what} is {value} at iteration {iteration}{}", because(anomaly))]
    NotFinite {
        /// The step, counted from 1.
        iteration: u64,
        /// The name of the number: the loss, or a parameter by its name.
        what: String,
        /// The value.
        value: f64,
        /// The first function that produced such a value, if it was found.
        anomaly: Option<Box<Error>>,
    },
    /// The data cannot be read.
    #[error("the data: {0}")]
    Data(BoxError),
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A snapshot belongs to another training.
    #[error(
        "{}: {source} (it is of another model, optimizer or data set: choose another folder, or move \
         this one away)",
        file.display()
    )]
    OtherTraining {
        /// The snapshot.
        file: PathBuf,
        /// The differences.
        source: StateError,
    },
    /// The folder contains snapshots that the training does not continue from.
    #[error(
        "{}: there are snapshots of another run in here, such as {}; go on from them by `resume`, \
         choose another folder, or move this one away",
        folder.display(), snapshot.display()
    )]
    OtherSnapshots {
        /// The folder.
        folder: PathBuf,
        /// The name of one of them.
        snapshot: PathBuf,
    },
    /// Another training is using the folder.
    #[error(
        "{}: {} trains in this folder; wait until it has ended, or choose another folder",
        folder.display(), who(*process)
    )]
    FolderInUse {
        /// The folder.
        folder: PathBuf,
        /// The id of the process, if it can be read.
        process: Option<u32>,
    },
    /// The folder no longer exists, or another one is in its place.
    #[error("{}: the folder was moved, deleted or replaced while it was trained in", folder.display())]
    FolderGone {
        /// The folder.
        folder: PathBuf,
    },
    /// An error or a panic ended a step before it was complete.
    #[error(
        "step {iteration} was broken off by an error or a panic, and how much of it has been done is \
         not known; go back to a snapshot by `resume`, or begin anew"
    )]
    BrokenOff {
        /// The step, counted from 1.
        iteration: u64,
    },
    /// An extension failed.
    #[error("{extension}: {source}")]
    Extension {
        /// The name of the extension.
        extension: String,
        /// The cause.
        source: BoxError,
    },
    /// The processes of a training do not come together: one of them has ended, hangs, or is somewhere else
    /// in the program.
    #[error("{0}")]
    Communication(Box<Error>),
    /// Interrupts cannot be handled, because another part of the program handles them.
    #[error("interrupts: {0}")]
    Interrupts(BoxError),
}

impl TrainingError {
    /// Returns a function that wraps an error of the operating system on a file.
    pub(super) fn io(file: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let file = file.into();
        move |source| Self::File(FileError::Io { file, source })
    }
}

/// Runs something that takes all processes.
pub(super) fn together<T>(f: impl FnOnce() -> T) -> Result<T, TrainingError> {
    attempt(f).map_err(|error| match is_of_communication(&error) {
        true => TrainingError::Communication(Box::new(error)),
        false => raise(error),
    })
}

/// Returns whether processes did not come together.
pub(super) fn is_of_communication(error: &Error) -> bool {
    match error {
        Error::Communication { .. } => true,
        Error::InGradient { source, .. } | Error::InLink { source, .. } => {
            is_of_communication(source)
        }
        _ => false,
    }
}

fn because(anomaly: &Option<Box<Error>>) -> String {
    match anomaly {
        Some(error) => format!(": {error}"),
        None => String::new(),
    }
}

fn who(process: Option<u32>) -> String {
    match process {
        Some(process) if process == std::process::id() => {
            "another `Trainer` of this process".to_owned()
        }
        Some(process) => format!("process {process}"),
        None => "another process".to_owned(),
    }
}
