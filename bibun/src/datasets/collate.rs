//! Collation of examples into batches.

use bibun_array::{Array, Scalar, bf16, f16, stack};

use super::DataError;
use crate::tree::for_tuples;

/// Examples that can be collated into a batch.
///
/// | example | batch |
/// | [`Array`] of one shape | `Array` with a new first axis |
/// | [`Array`] of one shape | `Array` with a new first axis |
/// | [`Sequence`] | [`Padded`] |
/// | `bool`, `u8`, `i32`, `i64`, `f16`, `bf16`, `f32`, `f64` | `Array` `[n]` of that dtype |
/// | `usize` | `Array` `[n]` of i64 |
/// | `String` | `Vec<String>` |
/// | a tuple of up to 8 | the tuple of their batches |
///
/// Implement it for custom examples:
///
/// ```
/// use bibun::array::Array;
/// use bibun::datasets::{Collate, DataError};
/// struct House {
///     rooms: Array,
///     price: f64,
/// }
/// struct Houses {
///     rooms: Array,
///     prices: Array,
/// }
/// impl Collate for House {
///     type Batch = Houses;
///     fn collate(houses: Vec<Self>) -> Result<Houses, DataError> {
///         let (rooms, prices) = houses.into_iter().map(|house| (house.rooms, house.price)).unzip();
///         Ok(Houses {
///             rooms: Array::collate(rooms)?,
///             prices: f64::collate(prices)?,
///         })
///     }
/// }
/// let house = |price| House { rooms: Array::from([3.0, 4.0]), price };
/// let houses = House::collate(vec![house(1.5), house(2.5)])?;
/// assert_eq!(houses.rooms.shape(), &[2, 2]);
/// assert_eq!(houses.prices.to_vec::<f64>(), [1.5, 2.5]);
/// # Ok::<(), DataError>(())
/// ```
pub trait Collate: Sized + Send + 'static {
    /// The batch type of several examples.
    type Batch: Send + 'static;

    /// Collates these examples, in order, into a batch.
    ///
    /// # Errors
    /// Returns an error if there are no examples, or they do not fit together.
    fn collate(examples: Vec<Self>) -> Result<Self::Batch, DataError>;
}

impl Collate for Array {
    type Batch = Self;

    fn collate(examples: Vec<Self>) -> Result<Self, DataError> {
        let first = examples.first().ok_or(DataError::Empty)?;
        for other in &examples {
            expect_dtype(first, other)?;
            if other.shape() != first.shape() {
                return Err(DataError::Shapes {
                    left: first.shape().clone(),
                    right: other.shape().clone(),
                });
            }
        }
        Ok(stack(&examples.iter().collect::<Vec<_>>(), 0))
    }
}

fn expect_dtype(first: &Array, other: &Array) -> Result<(), DataError> {
    let [left, right] = [first.dtype(), other.dtype()];
    if left == right {
        return Ok(());
    }
    Err(DataError::DTypes { left, right })
}

macro_rules! collate_numbers {
    ($($number:ty),*) => {$(
        impl Collate for $number {
            type Batch = Array;

            fn collate(examples: Vec<Self>) -> Result<Array, DataError> {
                if examples.is_empty() {
                    return Err(DataError::Empty);
                }
                Ok(Array::from(examples))
            }
        }
    )*};
}
collate_numbers!(bool, u8, i32, i64, f16, bf16, f32, f64);

impl Collate for usize {
    type Batch = Array;

    fn collate(examples: Vec<Self>) -> Result<Array, DataError> {
        i64::collate(examples.into_iter().map(|number| number as i64).collect())
    }
}

impl Collate for String {
    type Batch = Vec<Self>;

    fn collate(examples: Vec<Self>) -> Result<Vec<Self>, DataError> {
        Ok(examples)
    }
}

macro_rules! tuples {
    ($(($($part:ident $i:tt),*))*) => {$(
        impl<$($part: Collate),*> Collate for ($($part,)*) {
            type Batch = ($($part::Batch,)*);

            fn collate(examples: Vec<Self>) -> Result<Self::Batch, DataError> {
                let mut lists = ($(Vec::<$part>::with_capacity(examples.len()),)*);
                for example in examples {
                    $(lists.$i.push(example.$i);)*
                }
                Ok(($($part::collate(lists.$i)?,)*))
            }
        }
    )*};
}
for_tuples!(tuples);

/// An array `[time, ..]` whose first axis, such as time or the position in a text, may differ in
/// length from that of other examples.
///
/// ```
/// use bibun::array::Array;
/// use bibun::datasets::{Collate, Sequence};
/// let words = |list: &[i64]| Sequence::new(Array::from(list)).padded_with(-1);
/// let batch = Sequence::collate(vec![words(&[3, 1, 4]), words(&[1])])?;
/// assert_eq!(batch.values.to_vec::<i64>(), [3, 1, 4, 1, -1, -1]);
/// assert_eq!(batch.lengths, [3, 1]);
/// # Ok::<(), bibun::datasets::DataError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sequence {
    values: Array,
    padding: Scalar,
}

impl Sequence {
    /// Creates a sequence that is padded with zeros (or `false`).
    ///
    /// # Panics
    /// Panics if the array has no axis.
    #[track_caller]
    pub fn new(values: impl Into<Array>) -> Self {
        let values = values.into();
        if values.rank() == 0 {
            crate::error::raise(crate::Error::argument(
                "Sequence",
                "an array without axes has no length",
            ));
        }
        Self {
            values,
            padding: Scalar::I64(0),
        }
    }

    /// Sets another padding value, which is cast to the dtype of the array. Defaults to zero.
    #[must_use]
    pub fn padded_with(mut self, padding: impl Into<Scalar>) -> Self {
        self.padding = padding.into();
        self
    }

    /// Returns the array, `[time, ..]`.
    pub fn values(&self) -> &Array {
        &self.values
    }
}

/// Sequences of different lengths in one array, with their lengths.
#[derive(Clone, Debug)]
pub struct Padded {
    /// The values, `[n, time, ..]`, where `time` is the length of the longest sequence.
    pub values: Array,
    /// The length of each sequence, before padding.
    pub lengths: Vec<usize>,
}

impl Padded {
    /// Returns a mask `[n, time]` of bool: `true` for values of a sequence and `false` for padding.
    ///
    /// ```
    /// use bibun::array::Array;
    /// use bibun::datasets::{Collate, Sequence};
    /// let sequences = [1, 3].map(|length| Sequence::new(Array::arange(0, length)));
    /// let batch = Sequence::collate(sequences.into())?;
    /// assert_eq!(batch.mask().to_vec::<bool>(), [true, false, false, true, true, true]);
    /// # Ok::<(), bibun::datasets::DataError>(())
    /// ```
    pub fn mask(&self) -> Array {
        let time = self.values.shape()[1];
        let rows = self.lengths.iter();
        let mask: Vec<bool> = rows
            .flat_map(|&length| (0..time).map(move |step| step < length))
            .collect();
        Array::from_vec(mask, [self.lengths.len(), time])
    }
}

impl Collate for Sequence {
    type Batch = Padded;

    fn collate(examples: Vec<Self>) -> Result<Padded, DataError> {
        let first = &examples.first().ok_or(DataError::Empty)?.values;
        for Self { values, .. } in &examples {
            expect_dtype(first, values)?;
            if values.shape()[1..] != first.shape()[1..] {
                return Err(DataError::Shapes {
                    left: first.shape().clone(),
                    right: values.shape().clone(),
                });
            }
        }
        let lengths: Vec<usize> = examples
            .iter()
            .map(|sequence| sequence.values.shape()[0])
            .collect();
        let time = lengths.iter().copied().max().unwrap_or(0);
        let padded: Vec<Array> = examples
            .into_iter()
            .map(|Self { values, padding }| {
                let length = values.shape()[0];
                let shape = values.shape().replaced(0, time - length);
                let padding = Array::full(shape, padding.cast(values.dtype()));
                bibun_array::concat(&[&values, &padding], 0)
            })
            .collect();
        Ok(Padded {
            values: Array::collate(padded)?,
            lengths,
        })
    }
}
