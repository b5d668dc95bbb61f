//! Sorting along an axis.

use crate::axes::from_front;
use crate::error::allocating;
use crate::ops::no_such_dtype;
use crate::placement::common;
use crate::{Array, Error, normalize_axis, raise};

/// An axis to sort along: `1` or `-1` in the order that the function has by itself, or one with an
/// order, [`ascending`] or [`descending`].
///
/// ```
/// use bibun_array::{descending, SortAxis};
/// assert_eq!(SortAxis::from(-1).resolve("sort", 3, false), (2, false));
/// assert_eq!(descending(-1).resolve("sort", 3, false), (2, true));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SortAxis {
    axis: isize,
    descending: Option<bool>,
}

/// Returns the axis, to be sorted along in ascending order.
///
/// ```
/// use bibun_array::{ascending, Array};
/// let (values, _) = Array::from([3.0, 9.0, 1.0]).top_k(2, ascending(0));
/// assert_eq!(values.to_vec::<f64>(), [1.0, 3.0]);
/// ```
pub fn ascending(axis: isize) -> SortAxis {
    SortAxis {
        axis,
        descending: Some(false),
    }
}

/// Returns the axis, to be sorted along in descending order.
///
/// ```
/// use bibun_array::{descending, Array};
/// let x = Array::from([3.0, 9.0, 1.0]).sort(descending(0));
/// assert_eq!(x.to_vec::<f64>(), [9.0, 3.0, 1.0]);
/// ```
pub fn descending(axis: isize) -> SortAxis {
    SortAxis {
        axis,
        descending: Some(true),
    }
}

impl SortAxis {
    /// Returns the axis of an array of this rank, counted from the front, and whether the order is
    /// descending. Defaults to the order that is given.
    ///
    /// # Panics
    /// Panics if there is no such axis.
    #[track_caller]
    pub fn resolve(self, function: &'static str, rank: usize, descending: bool) -> (usize, bool) {
        let axis = normalize_axis(function, self.axis, rank);
        (axis, self.descending.unwrap_or(descending))
    }
}

impl From<isize> for SortAxis {
    fn from(axis: isize) -> Self {
        Self {
            axis,
            descending: None,
        }
    }
}
impl From<i32> for SortAxis {
    fn from(axis: i32) -> Self {
        Self::from(axis as isize)
    }
}
impl From<usize> for SortAxis {
    fn from(axis: usize) -> Self {
        Self::from(from_front(axis))
    }
}

impl Array {
    #[track_caller]
    fn resolve(
        &self,
        function: &'static str,
        axis: impl Into<SortAxis>,
        descending: bool,
    ) -> (usize, bool) {
        if self.dtype().is_complex() {
            no_such_dtype(function, self.dtype());
        }
        axis.into().resolve(function, self.rank(), descending)
    }

    /// Returns the positions, as `i64`, that put an axis in order: ascending, unless the axis is
    /// [`descending`]. NaN counts as larger than all numbers, and equal elements (such as the two
    /// zeros) stay in their order, in both directions.
    ///
    /// # Panics
    /// Panics if there is no such axis, or the elements are complex.
    ///
    /// ```
    /// use bibun_array::{descending, Array};
    /// let x = Array::from([2.0, f64::NAN, 1.0, 2.0]);
    /// assert_eq!(x.argsort(0).to_vec::<i64>(), [2, 0, 3, 1]);
    /// assert_eq!(x.argsort(descending(0)).to_vec::<i64>(), [1, 0, 3, 2]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn argsort(&self, axis: impl Into<SortAxis>) -> Self {
        let (axis, descending) = self.resolve("argsort", axis, false);
        let count = self.shape()[axis];
        allocating("argsort", || {
            common("argsort", [self]).argsort(self, axis, descending, count)
        })
    }

    /// Sorts the elements along an axis, in ascending order, unless it is [`descending`]; see
    /// [`Array::argsort`].
    ///
    /// # Panics
    /// Panics if there is no such axis, or the elements are complex.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([[3, 1, 2], [6, 5, 4]]);
    /// assert_eq!(x.sort(-1).to_vec::<i64>(), [1, 2, 3, 4, 5, 6]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn sort(&self, axis: impl Into<SortAxis>) -> Self {
        let (axis, descending) = self.resolve("sort", axis, false);
        let device = common("sort", [self]);
        allocating("sort", || {
            let positions = device.argsort(self, axis, descending, self.shape()[axis]);
            device.gather(self, &positions, axis)
        })
    }

    /// Returns the `k` largest elements along an axis, largest first, and their positions as `i64`;
    /// the smallest, smallest first, if the axis is [`ascending`]. NaN counts as larger than all
    /// numbers, as in [`Array::max`]. Of equal elements, the first comes first.
    ///
    /// # Panics
    /// Panics if there is no such axis, it has fewer than `k` elements, or the elements are complex.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let (values, positions) = Array::from([3, 9, 1, 9]).top_k(3, 0);
    /// assert_eq!(values.to_vec::<i64>(), [9, 9, 3]);
    /// assert_eq!(positions.to_vec::<i64>(), [1, 3, 0]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn top_k(&self, k: usize, axis: impl Into<SortAxis>) -> (Self, Self) {
        let (axis, descending) = self.resolve("top_k", axis, true);
        if k > self.shape()[axis] {
            let shape = self.shape();
            let what = format!("axis {axis} of the shape {shape} has fewer than {k} elements");
            raise(Error::invalid("top_k", what));
        }
        let device = common("sort", [self]);
        allocating("top_k", || {
            let positions = device.argsort(self, axis, descending, k);
            (device.gather(self, &positions, axis), positions)
        })
    }
}
