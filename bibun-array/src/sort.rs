//! Sorting along an axis.

use crate::error::allocating;
use crate::placement::common;
use crate::{Array, Error, normalize_axis, raise};

impl Array {
    /// Returns the positions, as `i64`, that put `axis` in ascending order. NaN is last, and equal
    /// elements (such as the two zeros) stay in their order.
    ///
    /// # Panics
    /// Panics if there is no such axis.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([2.0, f64::NAN, 1.0, 2.0]);
    /// assert_eq!(x.argsort(0).to_vec::<i64>(), [2, 0, 3, 1]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn argsort(&self, axis: isize) -> Self {
        let axis = normalize_axis("argsort", axis, self.rank());
        let count = self.shape()[axis];
        allocating("argsort", || {
            common("argsort", [self]).argsort(self, axis, false, count)
        })
    }

    /// Sorts the elements along `axis` in ascending order; see [`Array::argsort`].
    ///
    /// # Panics
    /// Panics if there is no such axis.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([[3, 1, 2], [6, 5, 4]]);
    /// assert_eq!(x.sort(-1).to_vec::<i64>(), [1, 2, 3, 4, 5, 6]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn sort(&self, axis: isize) -> Self {
        let axis = normalize_axis("sort", axis, self.rank());
        let device = common("sort", [self]);
        allocating("sort", || {
            let positions = device.argsort(self, axis, false, self.shape()[axis]);
            device.gather(self, &positions, axis)
        })
    }

    /// Returns the `k` largest elements along `axis`, largest first, and their positions as `i64`.
    /// NaN counts as larger than all numbers, as in [`Array::max`]. Of equal elements, the first
    /// comes first.
    ///
    /// # Panics
    /// Panics if there is no such axis, or it has fewer than `k` elements.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let (values, positions) = Array::from([3, 9, 1, 9]).top_k(3, 0);
    /// assert_eq!(values.to_vec::<i64>(), [9, 9, 3]);
    /// assert_eq!(positions.to_vec::<i64>(), [1, 3, 0]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn top_k(&self, k: usize, axis: isize) -> (Self, Self) {
        let axis = normalize_axis("top_k", axis, self.rank());
        if k > self.shape()[axis] {
            let what = format!("{k} elements of axis {axis} of the shape {}", self.shape());
            raise(Error::invalid("top_k", what));
        }
        let device = common("sort", [self]);
        allocating("top_k", || {
            let positions = device.argsort(self, axis, true, k);
            (device.gather(self, &positions, axis), positions)
        })
    }
}
