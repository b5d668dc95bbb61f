//! What can go wrong with data.

use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;

use bibun_array::{DType, FileError, Shape};

use super::IdxError;

/// Why an example or a batch could not be had.
///
/// The message names the file and what was expected of it. A mistake of the caller (an index out
/// of bounds, a batch size of 0) panics instead.
///
/// ```
/// use bibun::array::Array;
/// use bibun::datasets::{Collate, DataError};
/// let lengths = vec![Array::from([1.0, 2.0]), Array::from([3.0])];
/// let error = Array::collate(lengths).unwrap_err();
/// assert!(matches!(error, DataError::Shapes { .. }));
/// assert!(error.to_string().contains("[2] and [1]"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A file of the MNIST kind.
    #[error(transparent)]
    Idx(#[from] IdxError),
    /// A `.npy` or `.npz` file.
    #[error(transparent)]
    Numpy(#[from] FileError),
    /// The operating system says no.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file or folder.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The content of a file is not what it should be.
    #[error("{}: {what}", file.display())]
    Format {
        /// The file or folder.
        file: PathBuf,
        /// What was met and what was expected.
        what: String,
    },
    /// A cell of a table is not what it should be.
    #[error("{}, line {line}, column `{column}`: {what}", file.display())]
    Cell {
        /// The file.
        file: PathBuf,
        /// The line of the file, from 1.
        line: u64,
        /// The name of the column, or its number from 0 where columns have no names.
        column: String,
        /// What was met and what was expected.
        what: String,
    },
    /// A file could not be fetched.
    #[error(
        "{url} could not be downloaded to {}: {what}; to do it by hand, fetch the file elsewhere \
         (SHA-256 {sha256}) and put it there", file.display()
    )]
    Download {
        /// Where it should have come from.
        url: String,
        /// Where it should have gone.
        file: PathBuf,
        /// The checksum it should have.
        sha256: String,
        /// What happened, and what was expected.
        what: String,
    },
    /// The arrays of examples that should become one batch have different shapes.
    #[error(
        "arrays of the shapes {left} and {right} cannot be one batch: bring them to one shape, or \
         make each a `Sequence`, which pads the first axis"
    )]
    Shapes {
        /// The shape of the first.
        left: Shape,
        /// The shape of another.
        right: Shape,
    },
    /// The arrays of examples that should become one batch have different dtypes.
    #[error("arrays of {left} and {right} cannot be one batch: bring them to one dtype")]
    DTypes {
        /// The dtype of the first.
        left: DType,
        /// The dtype of another.
        right: DType,
    },
    /// A batch of no examples.
    #[error("no examples make no batch")]
    Empty,
    /// Whatever a data set of your own has to say.
    #[error(transparent)]
    Other(Box<dyn StdError + Send + Sync>),
}

impl DataError {
    /// An error of a data set of your own, from another error or from words.
    ///
    /// ```
    /// use bibun::datasets::DataError;
    /// assert_eq!(DataError::other("the sensor is off").to_string(), "the sensor is off");
    /// ```
    pub fn other(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Other(error.into())
    }

    #[cfg(any(feature = "csv", feature = "download", feature = "images"))]
    pub(super) fn io(file: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io {
            file: file.into(),
            source,
        }
    }

    #[cfg(any(feature = "csv", feature = "images", feature = "npz"))]
    pub(super) fn format(file: impl Into<PathBuf>, what: impl Into<String>) -> Self {
        Self::Format {
            file: file.into(),
            what: what.into(),
        }
    }
}
