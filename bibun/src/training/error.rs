//! What can end training early.

use std::io;
use std::path::PathBuf;

use super::batch_source::BoxError;
use crate::error::Error;
use crate::serializers::{FileError, StateError};

/// Why training could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainingError {
    /// A number that training rests on is infinite or none at all.
    #[error("{what} is {value} at iteration {iteration}{}", because(anomaly))]
    NotFinite {
        /// The step, counted from 1.
        iteration: u64,
        /// Which number: the loss, or a parameter by its name.
        what: String,
        /// What it is.
        value: f64,
        /// The first function that gave such a value, if it was found.
        anomaly: Option<Box<Error>>,
    },
    /// The data cannot be read.
    #[error("the data: {0}")]
    Data(BoxError),
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A snapshot is not of this training.
    #[error(
        "{}: {source} (it is of another model, optimizer or data set: choose another folder, or move \
         this one away)",
        file.display()
    )]
    OtherTraining {
        /// The snapshot.
        file: PathBuf,
        /// In what it differs.
        source: StateError,
    },
    /// The folder holds snapshots that the training does not go on from.
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
    /// Another training works in the folder.
    #[error(
        "{}: {} trains in this folder; wait until it has ended, or choose another folder",
        folder.display(), who(*process)
    )]
    FolderInUse {
        /// The folder.
        folder: PathBuf,
        /// The number of the process, if it can be read.
        process: Option<u32>,
    },
    /// The folder is not there any more, or another one is in its place.
    #[error("{}: the folder was moved, deleted or replaced while it was trained in", folder.display())]
    FolderGone {
        /// The folder.
        folder: PathBuf,
    },
    /// An error or a panic has ended a step in the midst of it.
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
        /// Its name.
        extension: String,
        /// What went wrong.
        source: BoxError,
    },
    /// Interrupts cannot be listened to, for another part of the program does.
    #[error("interrupts: {0}")]
    Interrupts(BoxError),
}

impl TrainingError {
    /// What the operating system says of a file.
    pub(super) fn io(file: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let file = file.into();
        move |source| Self::File(FileError::Io { file, source })
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
