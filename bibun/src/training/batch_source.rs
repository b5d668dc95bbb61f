//! Sources of batches.

use std::error::Error;

use crate::datasets::{Batch, DataLoader, Dataset};
use crate::randomness::BatchPart;
use crate::serializers::Stateful;

/// An error from outside of the program: files, data, devices.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// An endless supply of batches that knows its position, so that it can be resumed.
///
/// A [`DataLoader`](crate::datasets::DataLoader) is a source of batches.
pub trait BatchSource: Stateful {
    /// The type of the batches that the model is given.
    type Batch;

    /// Returns the next batch, and the number of examples in it that belong to this process. After the last batch of a pass
    /// comes the first of the next.
    ///
    /// # Errors
    /// Returns an error if the data cannot be read.
    fn next_batch(&mut self) -> Result<(Self::Batch, usize), BoxError>;

    /// Returns the weight of the last batch of this process in the mean over all processes; see
    /// [`DataLoader::share`]. Defaults to 1.
    fn share(&self) -> f64 {
        1.0
    }

    /// Returns the part of the whole batch that the last batch of this process is, for which the step draws
    /// its random numbers; see [`DataLoader::part`]. Defaults to none.
    fn part(&self) -> Option<BatchPart> {
        None
    }

    /// Returns the number of passes so far, including the completed fraction of the current one.
    fn epoch(&self) -> f64;

    /// Returns an iterator over all examples once, in order, as batches with their numbers of
    /// examples. It does not change the position; it is for evaluation.
    fn once(&self) -> Once<'_, Self::Batch>;
}

/// One pass over a [`BatchSource`].
pub type Once<'a, B> = Box<dyn Iterator<Item = Result<(B, usize), BoxError>> + 'a>;

impl<D: Dataset> BatchSource for DataLoader<D> {
    type Batch = Batch<D>;

    fn next_batch(&mut self) -> Result<(Self::Batch, usize), BoxError> {
        let batch = Self::next_batch(self)?;
        Ok((batch, self.examples()))
    }

    fn share(&self) -> f64 {
        Self::share(self)
    }

    fn part(&self) -> Option<BatchPart> {
        Some(Self::part(self))
    }

    fn epoch(&self) -> f64 {
        self.epoch_detail()
    }

    fn once(&self) -> Once<'_, Self::Batch> {
        let mut sizes = self.sizes_once();
        Box::new(Self::once(self).map(move |batch| {
            let examples = sizes.next().unwrap_or_default();
            Ok((batch?, examples))
        }))
    }
}
