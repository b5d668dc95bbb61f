//! Reductions: sums, products, extremes, means, `all` and `any`.

use crate::device::Reduce;
use crate::error::allocating;
use crate::{Array, Axes, DType, Error, Shape, ops, raise};

impl Array {
    /// Computes the sum over axes. The sum of `bool` is the number of `true`, as `i64`. The sum of
    /// no elements is 0, and integers wrap around.
    ///
    /// Floats are added up in parts of at most 16 elements, up to 32 parts are joined (up to 32 elements are
    /// added one after another), and all parts of longer sums are collected in twice the precision: the
    /// error is below 32 ε Σ|x| with ε = 2⁻²⁴ for `f32` and 2⁻⁵³ for `f64`, however many elements there are
    /// (pairwise summation: (log₂ n) ε Σ|x|; plain loops: n ε Σ|x|). A sum that is finite may be infinite or
    /// NaN if that of some elements is too large. The result does not depend on the number of threads, not even
    /// in the last bit.
    ///
    /// # Panics
    /// Panics if an axis does not exist or is named twice.
    ///
    /// ```
    /// use bibun_array::{keep_dims, Array};
    /// let x = Array::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.sum(..).item::<f64>(), 10.0);
    /// assert_eq!(x.sum(0).to_vec::<f64>(), [4.0, 6.0]);
    /// assert_eq!(x.sum(keep_dims(-1)).shape(), &[2, 1][..]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn sum(&self, axes: impl Into<Axes>) -> Self {
        self.reduced("sum", Reduce::Sum, &axes.into())
    }

    /// Computes the product over axes, of `bool` as `i64`. The product of no elements is 1,
    /// integers wrap around, and elements of `f32` are multiplied in double precision.
    ///
    /// # Panics
    /// Panics if an axis does not exist or is named twice.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::arange(1, 6).prod(..).item::<i64>(), 120);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn prod(&self, axes: impl Into<Axes>) -> Self {
        self.reduced("prod", Reduce::Product, &axes.into())
    }

    /// Computes the largest value over axes, or NaN if there is one.
    ///
    /// # Panics
    /// Panics if there are no elements to choose from, or an axis does not exist or is named twice.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([[1.0, 5.0], [3.0, 4.0]]);
    /// assert_eq!(x.max(0).to_vec::<f64>(), [3.0, 5.0]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn max(&self, axes: impl Into<Axes>) -> Self {
        self.extreme("max", Reduce::Max, &axes.into())
    }

    /// Computes the smallest value over axes, or NaN if there is one.
    ///
    /// # Panics
    /// Panics if there are no elements to choose from, or an axis does not exist or is named twice.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([[1.0, 5.0], [3.0, 4.0]]);
    /// assert_eq!(x.min(-1).to_vec::<f64>(), [1.0, 3.0]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn min(&self, axes: impl Into<Axes>) -> Self {
        self.extreme("min", Reduce::Min, &axes.into())
    }

    /// Returns the position over axes of the largest value, as `i64`. This is the first of equal
    /// values, or the first NaN if there is one. Over several axes it is the position in row-major
    /// order of these axes.
    ///
    /// # Panics
    /// Panics if there are no elements to choose from, or an axis does not exist or is named twice.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([[1.0, 5.0, 5.0], [3.0, 4.0, 0.0]]);
    /// assert_eq!(x.argmax(1).to_vec::<i64>(), [1, 1]);
    /// assert_eq!(x.argmax(..).item::<i64>(), 1);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn argmax(&self, axes: impl Into<Axes>) -> Self {
        self.position("argmax", Reduce::ArgMax, &axes.into())
    }

    /// Returns the position over axes of the smallest value, as `i64`; see [`Array::argmax`].
    ///
    /// # Panics
    /// Panics if there are no elements to choose from, or an axis does not exist or is named twice.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([[1.0, 5.0, 5.0], [3.0, 4.0, 0.0]]);
    /// assert_eq!(x.argmin(0).to_vec::<i64>(), [0, 1, 1]);
    /// assert_eq!(x.argmin(..).item::<i64>(), 5);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn argmin(&self, axes: impl Into<Axes>) -> Self {
        self.position("argmin", Reduce::ArgMin, &axes.into())
    }

    /// Returns whether all elements over axes are true, that is, not zero (so NaN is true). For no
    /// elements this is true.
    ///
    /// # Panics
    /// Panics if an axis does not exist or is named twice.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([[true, true], [true, false]]);
    /// assert_eq!(x.all(1).to_vec::<bool>(), [true, false]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn all(&self, axes: impl Into<Axes>) -> Self {
        self.reduced("all", Reduce::All, &axes.into())
    }

    /// Returns whether any element over axes is true, that is, not zero (so NaN is true). For no
    /// elements this is false.
    ///
    /// # Panics
    /// Panics if an axis does not exist or is named twice.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert!(Array::from([0, 0, 3i64]).any(..).item::<bool>());
    /// ```
    #[must_use]
    #[track_caller]
    pub fn any(&self, axes: impl Into<Axes>) -> Self {
        self.reduced("any", Reduce::Any, &axes.into())
    }

    /// Computes the arithmetic mean over axes. For integers and bools it is `f64`; for no elements
    /// it is NaN.
    ///
    /// # Panics
    /// Panics if an axis does not exist or is named twice.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::arange(0, 4).mean(..).item::<f64>(), 1.5);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn mean(&self, axes: impl Into<Axes>) -> Self {
        let axes = axes.into();
        let count = self.count_over("mean", &axes);
        let (x, dtype) = self.to_float();
        let sum = x.reduced("mean", Reduce::Sum, &axes);
        ops::cast(sum / count as f64, dtype)
    }

    /// Computes the variance over axes: the squared distances from the mean, summed and divided by
    /// `n - ddof`. `ddof` 0 is for the variance of the values themselves, 1 for the unbiased
    /// estimate of the variance of the population that they are a sample of. The result is NaN or
    /// infinite if `n <= ddof`, and `f64` for integers and bools.
    ///
    /// Differences from a number near the elements are squared and added up, see [`Array::moments`], so values far
    /// from zero lose no precision.
    ///
    /// # Panics
    /// Panics if an axis does not exist or is named twice.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([1.0, 2.0, 3.0, 4.0]);
    /// assert_eq!(x.var(.., 0).item::<f64>(), 1.25);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn var(&self, axes: impl Into<Axes>, ddof: usize) -> Self {
        let (variance, dtype) = self.variance("var", &axes.into(), ddof);
        ops::cast(variance, dtype)
    }

    /// Computes the standard deviation over axes: the square root of [`Array::var`].
    ///
    /// # Panics
    /// Panics if an axis does not exist or is named twice.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1.0, 3.0]).std(.., 0).item::<f64>(), 1.0);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn std(&self, axes: impl Into<Axes>, ddof: usize) -> Self {
        let (variance, dtype) = self.variance("std", &axes.into(), ddof);
        ops::cast(ops::sqrt(variance), dtype)
    }

    /// Computes `[mean, variance]` over axes in one pass, the variance as by [`Array::var`] with `ddof` 0. For integers
    /// and bools they are `f64`; for no elements they are NaN.
    ///
    /// Both come from sums of the differences between elements and a number near them, and of the squares of these.
    /// Those of lines of neighbouring `f32` are added up as by [`Array::sum`]; others, and those whose squares are beyond
    /// 10³⁰ or below 10⁻²⁰, in double precision.
    ///
    /// # Panics
    /// Panics if an axis does not exist or is named twice, or the elements are complex.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let [mean, variance] = Array::from([[1.0, 2.0, 3.0], [7.0, 7.0, 7.0]]).moments(1);
    /// assert_eq!(mean.to_vec::<f64>(), [2.0, 7.0]);
    /// assert_eq!(variance.to_vec::<f64>(), [2.0 / 3.0, 0.0]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn moments(&self, axes: impl Into<Axes>) -> [Self; 2] {
        let axes = axes.into();
        let (x, dtype, _) = self.expect_moments("moments", &axes);
        x.moments_over("moments", &axes)
            .map(|y| ops::cast(y, dtype))
    }

    #[track_caller]
    fn reduced(&self, function: &'static str, reduction: Reduce, axes: &Axes) -> Self {
        let (axes, keep_dims) = axes.resolve(function, self.rank());
        let mut y = allocating(function, || self.device().reduce(reduction, self, &axes));
        if keep_dims {
            for &axis in &axes {
                y = y.expand_dims(axis as isize);
            }
        }
        y
    }

    /// [`Array::reduced`], which raises an error if there are no elements to choose from.
    #[track_caller]
    fn extreme(&self, function: &'static str, reduction: Reduce, axes: &Axes) -> Self {
        if self.dtype().is_complex() {
            ops::no_such_dtype(function, self.dtype());
        }
        let (reduced, _) = axes.resolve(function, self.rank());
        if self.size() == 0 && self.shape().reduced(&reduced, false).size() > 0 {
            let what = format!(
                "nothing to choose from along axes {reduced:?} of the shape {}",
                self.shape()
            );
            raise(Error::invalid(function, what));
        }
        self.reduced(function, reduction, axes)
    }

    /// The position of an extreme, along one axis, which several are joined to.
    #[track_caller]
    fn position(&self, function: &'static str, reduction: Reduce, axes: &Axes) -> Self {
        let (reduced, keep_dims) = axes.resolve(function, self.rank());
        if let [_] = *reduced {
            return self.extreme(function, reduction, axes);
        }
        let kept = (0..self.rank()).filter(|axis| !reduced.contains(axis));
        let order: Vec<isize> = (kept.chain(reduced.iter().copied()))
            .map(|axis| axis as isize)
            .collect();
        let shape = self.shape().reduced(&reduced, false);
        let count: usize = reduced.iter().map(|&axis| self.shape()[axis]).product();
        let joined: Shape = shape.iter().copied().chain([count]).collect();
        let joined = self.permute(&order).reshape(joined);
        let y = joined.extreme(function, reduction, &Axes::from(-1));
        y.reshape(self.shape().reduced(&reduced, keep_dims))
    }

    /// The number of elements that go into each element of a reduction.
    #[track_caller]
    fn count_over(&self, function: &'static str, axes: &Axes) -> usize {
        let (axes, _) = axes.resolve(function, self.rank());
        axes.iter().map(|&axis| self.shape()[axis]).product()
    }

    /// The variance in the type in which it is computed, and the dtype of the result.
    #[track_caller]
    fn variance(&self, function: &'static str, axes: &Axes, ddof: usize) -> (Self, DType) {
        let (x, dtype, count) = self.expect_moments(function, axes);
        let [_, variance] = x.moments_over(function, axes);
        let degrees = count.saturating_sub(ddof);
        let variance = match ddof {
            0 => variance,
            _ => variance * (count as f64 / degrees as f64),
        };
        (variance, dtype)
    }

    /// The elements in the type in which their moments are computed, the dtype of these, and the number of elements.
    #[track_caller]
    fn expect_moments(&self, function: &'static str, axes: &Axes) -> (Self, DType, usize) {
        if self.dtype().is_complex() {
            ops::no_such_dtype(function, self.dtype());
        }
        let (x, dtype) = self.to_float();
        let count = x.count_over(function, axes);
        (x, dtype, count)
    }

    #[track_caller]
    fn moments_over(&self, function: &'static str, axes: &Axes) -> [Self; 2] {
        let (axes, keep_dims) = axes.resolve(function, self.rank());
        let moments = allocating(function, || self.device().moments(self, &axes));
        match keep_dims {
            true => moments,
            false => moments.map(|y| y.reshape(self.shape().reduced(&axes, false))),
        }
    }

    /// The elements in the type in which their mean is computed, and the dtype of the result.
    #[track_caller]
    fn to_float(&self) -> (Self, DType) {
        let dtype = match self.dtype().is_differentiable() {
            true => self.dtype(),
            false => DType::F64,
        };
        (self.cast(dtype.accumulator()), dtype)
    }
}
