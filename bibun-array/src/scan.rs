//! Running sums and products.

use crate::device::{Scan, allocating, common};
use crate::{Array, DType, normalize_axis};

impl Array {
    /// Running sum along `axis`: each element is the sum of those up to and with it. Of `bool` as
    /// `i64`; integers wrap around.
    ///
    /// Sums of `f32` are kept in double precision and those of `f64` in twice that, so that each
    /// result is nearly the exact sum rounded.
    ///
    /// # Panics
    /// If there is no such axis.
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

    /// Running product along `axis`: each element is the product of those up to and with it. Of
    /// `bool` as `i64`; integers wrap around. Products of `f32` are kept in double precision.
    ///
    /// # Panics
    /// If there is no such axis.
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
