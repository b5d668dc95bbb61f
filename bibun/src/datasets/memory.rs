//! Data sets in memory.

use bibun_array::{Array, Generator};

use super::{Batch, Collate, DataError, Dataset};
use crate::error::{Error, raise};
use crate::tree::for_tuples;

/// The slices along the first axis are the examples; a batch is one gather.
///
/// ```
/// use bibun::array::Array;
/// use bibun::datasets::DataLoader;
/// let rows = Array::from([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
/// let batch = DataLoader::new(rows, 2).next_batch()?;
/// assert_eq!(batch.to_vec::<f64>(), [1.0, 2.0, 3.0, 4.0]);
/// # Ok::<(), bibun::datasets::DataError>(())
/// ```
impl Dataset for Array {
    type Example = Self;

    fn len(&self) -> usize {
        match self.shape().first() {
            Some(&len) => len,
            None => raise(Error::argument(
                "Dataset",
                "an array without axes has no examples",
            )),
        }
    }

    fn example(&self, index: usize, _: &mut Generator) -> Result<Self, DataError> {
        Ok(self.take(&Self::scalar(index as i64), 0))
    }

    fn gathered(&self, indices: &[usize]) -> Option<Result<Self, DataError>> {
        let indices: Vec<i64> = indices.iter().map(|&index| index as i64).collect();
        Some(Ok(self.take(&Self::from(indices), 0)))
    }
}

/// A list of examples.
impl<E: Collate + Clone + Sync> Dataset for Vec<E> {
    type Example = E;

    fn len(&self) -> usize {
        self.len()
    }

    fn example(&self, index: usize, _: &mut Generator) -> Result<E, DataError> {
        Ok(self[index].clone())
    }
}

macro_rules! tuples {
    ($(($first:ident 0 $(, $other:ident $i:tt)*))*) => {$(
        /// Data sets side by side, all of one length: an example is a tuple of theirs.
        ///
        /// All of them draw from the same stream, so that an image and its mask, for example, are
        /// transformed alike if both are mapped by the same function.
        ///
        /// # Panics
        /// Panics if their lengths differ.
        #[allow(non_snake_case)]
        impl<$first: Dataset, $($other: Dataset),*> Dataset for ($first, $($other,)*) {
            type Example = ($first::Example, $($other::Example,)*);

            fn len(&self) -> usize {
                let ($first, $($other,)*) = self;
                let len = $first.len();
                $(
                    if $other.len() != len {
                        let what = format!("{len} examples beside {}", $other.len());
                        raise(Error::argument("Dataset", what));
                    }
                )*
                len
            }

            fn example(
                &self,
                index: usize,
                random: &mut Generator,
            ) -> Result<Self::Example, DataError> {
                let start = random.clone();
                let mut drawn = |stream: &Generator| {
                    // The next draw continues after the stream that has drawn most.
                    if stream.counter() > random.counter() {
                        *random = stream.clone();
                    }
                };
                let ($first, $($other,)*) = self;
                let mut stream = start.clone();
                let $first = $first.example(index, &mut stream)?;
                drawn(&stream);
                $(
                    let mut stream = start.clone();
                    let $other = $other.example(index, &mut stream)?;
                    drawn(&stream);
                )*
                Ok(($first, $($other,)*))
            }

            fn gathered(&self, indices: &[usize]) -> Option<Result<Batch<Self>, DataError>> {
                let ($first, $($other,)*) = self;
                let $first = $first.gathered(indices)?;
                $(let $other = $other.gathered(indices)?;)*
                let all = || Ok(($first?, $($other?,)*));
                Some(all())
            }
        }
    )*};
}
for_tuples!(tuples);
