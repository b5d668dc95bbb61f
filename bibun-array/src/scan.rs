//! Running sums and products.

use crate::device::Scan;
use crate::error::allocating;
use crate::placement::common;
use crate::{Array, DType, normalize_axis};

impl Array {
    /// Computes the running sum along `axis`: each element of the result is the sum of all elements
    /// up to and including that position. `bool` is summed as `i64`, and integers wrap around.
    ///
    /// Sums of `f32` are computed in double precision and those of `f64` in twice that, so that
    /// each result is nearly the exact sum rounded.
    ///
    /// # Panics
    /// Panics if there is no such axis.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([[1, 2, 3], [4, 5, 6]]);
    /// assert_eq!(x.cumsum(1).to_vec::<i64>(), [1, 3, 6, 4, 9, 15]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn cumsum(&self, axis: isize) -> Self {
        self.scanned("cumsum", Scan::Sum, axis)
    }

    /// Computes the running product along `axis`: each element of the result is the product of all
    /// elements up to and including that position. `bool` is multiplied as `i64`, and integers wrap
    /// around. Products of `f32` are computed in double precision.
    ///
    /// # Panics
    /// Panics if there is no such axis.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::arange(1, 6).cumprod(0).to_vec::<i64>(), [1, 2, 6, 24, 120]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn cumprod(&self, axis: isize) -> Self {
        self.scanned("cumprod", Scan::Product, axis)
    }

    #[track_caller]
    fn scanned(&self, function: &'static str, scan: Scan, axis: isize) -> Self {
        let axis = normalize_axis(function, axis, self.rank());
        allocating(function, || match self.dtype() {
            DType::Bool => common("scan", [self]).scan(scan, &self.cast(DType::I64), axis),
            _ => common("scan", [self]).scan(scan, self, axis),
        })
    }
}
