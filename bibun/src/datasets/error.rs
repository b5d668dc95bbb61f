//! Errors of data sets.

use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;

use bibun_array::{DType, FileError, Shape};

use super::IdxError;

/// The reason why an example or a batch could not be made.
///
/// The message names the file and what was expected of it. A mistake of the caller (an index out of
/// bounds, a batch size of 0) panics instead.
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
    /// An error in a file in the MNIST format.
    #[error(transparent)]
    Idx(#[from] IdxError),
    /// An error in a `.npy` or `.npz` file.
    #[error(transparent)]
    Numpy(#[from] FileError),
    /// An error of the operating system.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file or folder.
        file: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// A file has unexpected content.
    #[error("{}: {what}", file.display())]
    Format {
        /// The file or folder.
        file: PathBuf,
        /// A description of what was found and what was expected.
        what: String,
    },
    /// A cell of a table has unexpected content.
    #[error("{}, line {line}, column `{column}`: {what}", file.display())]
    Cell {
        /// The file.
        file: PathBuf,
        /// The line in the file, from 1.
        line: u64,
        /// The name of the column, or its number from 0 if columns have no names.
        column: String,
        /// A description of what was found and what was expected.
        what: String,
    },
    /// A file could not be downloaded.
    #[error(
        "{url} could not be downloaded to {}: {what}; to do it by hand, fetch the file elsewhere \
         (SHA-256 {sha256}) and put it there", file.display()
    )]
    Download {
        /// The address of the file.
        url: String,
        /// The path to which the file was to be saved.
        file: PathBuf,
        /// The expected checksum.
        sha256: String,
        /// A description of what happened, and what was expected.
        what: String,
    },
    /// The arrays of examples for one batch have different shapes.
    #[error(
        "arrays of the shapes {left} and {right} cannot be one batch: bring them to one shape, or \
         make each a `Sequence`, which pads the first axis"
    )]
    Shapes {
        /// The shape of the first array.
        left: Shape,
        /// The shape of another array.
        right: Shape,
    },
    /// The arrays of examples for one batch have different dtypes.
    #[error("arrays of {left} and {right} cannot be one batch: bring them to one dtype")]
    DTypes {
        /// The dtype of the first array.
        left: DType,
        /// The dtype of another array.
        right: DType,
    },
    /// A batch of no examples.
    #[error("no examples make no batch")]
    Empty,
    /// An error of a custom data set.
    #[error(transparent)]
    Other(Box<dyn StdError + Send + Sync>),
}

impl DataError {
    /// Creates an error of a custom data set, from another error or from a text.
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
