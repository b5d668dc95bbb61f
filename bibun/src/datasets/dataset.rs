//! The data set trait and its adapters.

use std::fmt;
use std::sync::Arc;

use bibun_array::Generator;

use super::splits::{self, SplitSize};
use super::{Collate, DataError};

/// The batch type of the examples of a data set.
pub type Batch<D> = <<D as Dataset>::Example as Collate>::Batch;

/// Examples by index.
///
/// Threads read a data set at the same time, so it is shared and does not change. An [`Arc`] of a
/// data set is a data set too.
///
/// ```
/// use bibun::array::{Array, DType, Generator};
/// use bibun::datasets::{DataLoader, DataError, Dataset};
/// /// Points of the plane and whether they lie within the unit circle.
/// struct Points;
/// impl Dataset for Points {
///     type Example = (Array, bool);
///     fn len(&self) -> usize {
///         1000
///     }
///     fn example(&self, _: usize, random: &mut Generator) -> Result<(Array, bool), DataError> {
///         let point = random.uniform(2, -1.0, 1.0, DType::F32);
///         let inside = (&point * &point).sum(..).item::<f32>() < 1.0;
///         Ok((point, inside))
///     }
/// }
/// let (x, t) = DataLoader::new(Points, 100).next_batch()?;
/// assert_eq!((x.shape(), t.shape()), (&[100, 2].into(), &[100].into()));
/// # Ok::<(), DataError>(())
/// ```
pub trait Dataset: Send + Sync + 'static {
    /// The type of the examples.
    type Example: Collate;

    /// Returns the number of examples.
    fn len(&self) -> usize;

    /// Returns whether there are no examples.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the example with this index. Its randomness is drawn from `random`, a separate
    /// stream for each example: under [`DataLoader`](super::DataLoader) it depends on seed, epoch
    /// and index only.
    ///
    /// # Errors
    /// Returns an error if the example cannot be read.
    ///
    /// # Panics
    /// Panics if there is no such example.
    fn example(&self, index: usize, random: &mut Generator) -> Result<Self::Example, DataError>;

    /// Returns examples as a batch without going through each of them, if that is faster. The batch
    /// must equal the one that the examples would make. Defaults to `None`, which stands for no
    /// such way.
    fn gathered(&self, _indices: &[usize]) -> Option<Result<Batch<Self>, DataError>> {
        None
    }

    /// Returns examples as a batch; example `i` draws from `random.split(i)`.
    ///
    /// # Errors
    /// Returns an error if an example cannot be read, or they do not fit together.
    fn batch(&self, indices: &[usize], random: &Generator) -> Result<Batch<Self>, DataError> {
        if let Some(batch) = self.gathered(indices) {
            return batch;
        }
        let examples = indices
            .iter()
            .map(|&index| self.example(index, &mut random.split(index as u64)));
        Self::Example::collate(examples.collect::<Result<_, _>>()?)
    }

    /// Returns the data set of `f(example, random)`; see [`transforms`](super::transforms).
    ///
    /// ```
    /// use bibun::array::{Array, Generator};
    /// use bibun::datasets::Dataset;
    /// let squares = vec![1.0, 2.0, 3.0].map(|x, _| Ok(x * x));
    /// assert_eq!(squares.example(2, &mut Generator::new(0))?, 9.0);
    /// # Ok::<(), bibun::datasets::DataError>(())
    /// ```
    fn map<E, F>(self, f: F) -> Mapped<Self, F>
    where
        Self: Sized,
        E: Collate,
        F: Fn(Self::Example, &mut Generator) -> Result<E, DataError> + Send + Sync + 'static,
    {
        Mapped { dataset: self, f }
    }

    /// Returns the data set of the examples with these indices, in this order.
    ///
    /// # Panics
    /// Panics if there is no such example.
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::datasets::Dataset;
    /// let some = vec![1.5, 2.5, 3.5].subset([2, 0]);
    /// assert_eq!(some.len(), 2);
    /// assert_eq!(some.example(0, &mut Generator::new(0))?, 3.5);
    /// # Ok::<(), bibun::datasets::DataError>(())
    /// ```
    #[track_caller]
    fn subset(self, indices: impl Into<Vec<usize>>) -> Subset<Self>
    where
        Self: Sized,
    {
        let (indices, len) = (indices.into(), self.len());
        if let Some(index) = indices.iter().find(|&&index| index >= len) {
            crate::error::raise(crate::Error::argument(
                "subset",
                format!("there is no example {index} among {len}"),
            ));
        }
        Subset {
            dataset: self,
            indices,
        }
    }

    /// Returns the data set of these examples followed by those of another data set.
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::datasets::Dataset;
    /// let both = vec![1.5, 2.5].chain(vec![3.5]);
    /// assert_eq!(both.len(), 3);
    /// assert_eq!(both.example(2, &mut Generator::new(0))?, 3.5);
    /// # Ok::<(), bibun::datasets::DataError>(())
    /// ```
    fn chain<D>(self, other: D) -> Chained<Self, D>
    where
        Self: Sized,
        D: Dataset<Example = Self::Example>,
    {
        Chained {
            first: self,
            second: other,
        }
    }

    /// Splits the data set at random into parts, given as fractions (`[0.8, 0.2]`) or as counts
    /// (`[50_000, 10_000]`); see [`splits::shuffled`].
    ///
    /// # Panics
    /// Panics if the parts together are larger than the whole.
    ///
    /// ```
    /// use bibun::datasets::{Dataset, Digits};
    /// let [train, valid] = Digits::new(0).images(0..500).shuffled_split([0.9, 0.1], 1);
    /// assert_eq!((train.len(), valid.len()), (450, 50));
    /// ```
    #[track_caller]
    fn shuffled_split<S: SplitSize, const N: usize>(
        self,
        shares: [S; N],
        seed: u64,
    ) -> [Subset<Arc<Self>>; N]
    where
        Self: Sized,
    {
        let parts = splits::shuffled(self.len(), shares, seed);
        parts_of(self, parts)
    }

    /// Splits the data set into parts that each have their fraction of every class to within one
    /// example; see [`splits::stratified`].
    ///
    /// # Panics
    /// Panics if the numbers of labels and examples differ, or the parts together are larger than
    /// the whole.
    ///
    /// ```
    /// use bibun::datasets::{Dataset, Digits};
    /// let images = Digits::new(0).images(0..500);
    /// let labels = images.labels().to_vec();
    /// let [train, valid] = images.stratified_split(&labels, [0.9, 0.1], 1);
    /// assert_eq!((train.len(), valid.len()), (450, 50));
    /// ```
    #[track_caller]
    fn stratified_split<L: Ord, S: SplitSize, const N: usize>(
        self,
        labels: &[L],
        shares: [S; N],
        seed: u64,
    ) -> [Subset<Arc<Self>>; N]
    where
        Self: Sized,
    {
        if labels.len() != self.len() {
            let what = format!("{} labels for {} examples", labels.len(), self.len());
            crate::error::raise(crate::Error::argument("stratified_split", what));
        }
        let parts = splits::stratified(labels, shares, seed);
        parts_of(self, parts)
    }
}

fn parts_of<D: Dataset, const N: usize>(dataset: D, parts: [Vec<usize>; N]) -> [Subset<Arc<D>>; N] {
    let dataset = Arc::new(dataset);
    parts.map(|indices| Subset {
        dataset: dataset.clone(),
        indices,
    })
}

/// Some examples of a data set. Made by [`Dataset::subset`] and the splits.
#[derive(Clone, Debug)]
pub struct Subset<D> {
    dataset: D,
    indices: Vec<usize>,
}

impl<D> Subset<D> {
    /// Returns the indices that the examples have in the whole data set.
    pub fn indices(&self) -> &[usize] {
        &self.indices
    }

    /// Returns the whole data set.
    pub fn whole(&self) -> &D {
        &self.dataset
    }
}

impl<D: Dataset> Dataset for Subset<D> {
    type Example = D::Example;

    fn len(&self) -> usize {
        self.indices.len()
    }

    fn example(&self, index: usize, random: &mut Generator) -> Result<D::Example, DataError> {
        self.dataset.example(self.indices[index], random)
    }

    fn gathered(&self, indices: &[usize]) -> Option<Result<Batch<Self>, DataError>> {
        let indices: Vec<usize> = indices.iter().map(|&index| self.indices[index]).collect();
        self.dataset.gathered(&indices)
    }
}

/// A data set followed by another. Made by [`Dataset::chain`].
#[derive(Clone, Debug)]
pub struct Chained<A, B> {
    first: A,
    second: B,
}

impl<A: Dataset, B: Dataset<Example = A::Example>> Dataset for Chained<A, B> {
    type Example = A::Example;

    fn len(&self) -> usize {
        self.first.len() + self.second.len()
    }

    fn example(&self, index: usize, random: &mut Generator) -> Result<A::Example, DataError> {
        match index.checked_sub(self.first.len()) {
            None => self.first.example(index, random),
            Some(index) => self.second.example(index, random),
        }
    }
}

/// A data set whose examples are mapped by a function. Made by [`Dataset::map`].
#[derive(Clone)]
pub struct Mapped<D, F> {
    dataset: D,
    f: F,
}

impl<D: fmt::Debug, F> fmt::Debug for Mapped<D, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mapped").field(&self.dataset).finish()
    }
}

impl<D, E, F> Dataset for Mapped<D, F>
where
    D: Dataset,
    E: Collate,
    F: Fn(D::Example, &mut Generator) -> Result<E, DataError> + Send + Sync + 'static,
{
    type Example = E;

    fn len(&self) -> usize {
        self.dataset.len()
    }

    fn example(&self, index: usize, random: &mut Generator) -> Result<E, DataError> {
        let example = self.dataset.example(index, random)?;
        (self.f)(example, random)
    }
}

macro_rules! forward_dataset {
    ($($pointer:ident),*) => {$(
        impl<D: Dataset + ?Sized> Dataset for $pointer<D> {
            type Example = D::Example;

            fn len(&self) -> usize {
                (**self).len()
            }

            fn example(
                &self,
                index: usize,
                random: &mut Generator,
            ) -> Result<D::Example, DataError> {
                (**self).example(index, random)
            }

            fn gathered(&self, indices: &[usize]) -> Option<Result<Batch<Self>, DataError>> {
                (**self).gathered(indices)
            }

            fn batch(
                &self,
                indices: &[usize],
                random: &Generator,
            ) -> Result<Batch<Self>, DataError> {
                (**self).batch(indices, random)
            }
        }
    )*};
}
forward_dataset!(Arc, Box);
