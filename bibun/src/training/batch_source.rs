//! Where batches come from.

use std::error::Error;

use crate::datasets::{Batch, DataLoader, Dataset};
use crate::serializers::Stateful;

/// What can go wrong outside of the program: files, data, devices.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// An endless supply of batches that knows where it stands, so that it can be resumed.
///
/// [`DataLoader`](crate::datasets::DataLoader) of a data set is one.
pub trait BatchSource: Stateful {
    /// What the model is given.
    type Batch;

    /// The next batch, and the number of examples in it. After the last one of a pass comes the
    /// first of the next.
    ///
    /// # Errors
    /// Returns an error if the data cannot be read.
    fn next_batch(&mut self) -> Result<(Self::Batch, usize), BoxError>;

    /// Passes made so far, with the part of the one that is not complete.
    fn epoch(&self) -> f64;

    /// One pass through all examples in order, with their numbers, that moves nothing: for
    /// evaluation.
    fn once(&self) -> Once<'_, Self::Batch>;
}

/// One pass through a [`BatchSource`].
pub type Once<'a, B> = Box<dyn Iterator<Item = Result<(B, usize), BoxError>> + 'a>;

impl<D: Dataset> BatchSource for DataLoader<D> {
    type Batch = Batch<D>;

    fn next_batch(&mut self) -> Result<(Self::Batch, usize), BoxError> {
        let left = self.dataset().len() - self.position();
        let examples = self.batch_size().min(left);
        Ok((Self::next_batch(self)?, examples))
    }

    fn epoch(&self) -> f64 {
        self.epoch_detail()
    }

    fn once(&self) -> Once<'_, Self::Batch> {
        let mut left = self.dataset().len();
        Box::new(Self::once(self).map(move |batch| {
            let examples = self.batch_size().min(left);
            left -= examples;
            Ok((batch?, examples))
        }))
    }
}
