//! Normalisation: elements minus their mean, divided by their standard deviation.

use crate::device::Normalization;
use crate::error::allocating;
use crate::placement::common;
use crate::{Array, DType, Error, normalize_axes, raise};

impl Array {
    /// Normalises over `axes` and returns `[y, mean, variance]` with
    /// `y = (x - mean) / √(variance + epsilon)`. The mean and the variance (divided by `n`) have
    /// size 1 along the axes. Without [`centered`](Normalization::centered) the mean is taken to be
    /// zero, and the variance is the mean square.
    ///
    /// Sums of `f32` are computed in double precision, and the mean is subtracted before squaring.
    ///
    /// # Panics
    /// Panics if the dtype is not a float, or an axis does not exist or is named twice.
    ///
    /// ```
    /// use bibun_array::{Array, Normalization};
    /// let rule = Normalization { centered: true, epsilon: 0.0 };
    /// let [y, mean, variance] = Array::from([[1.0, 3.0], [5.0, 5.5]]).normalize(rule, &[1]);
    /// assert_eq!(y.to_vec::<f64>(), [-1.0, 1.0, -1.0, 1.0]);
    /// assert_eq!(mean.to_vec::<f64>(), [2.0, 5.25]);
    /// assert_eq!(variance.to_vec::<f64>(), [1.0, 0.0625]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn normalize(&self, rule: Normalization, axes: &[isize]) -> [Self; 3] {
        expect_floats(self.dtype());
        let axes = normalize_axes("normalize", axes, self.rank());
        allocating("normalize", || {
            common("normalize", [self]).normalize(rule, self, &axes)
        })
    }
}

/// Computes the cotangent of the input of [`Array::normalize`], from its results `[y, variance]`
/// and the cotangents `[gy, gmean, gvariance]` of its results.
///
/// # Panics
/// Panics if the dtype is not a float, or the arrays do not have the shapes that
/// [`Array::normalize`] returns.
///
/// ```
/// use bibun_array::{normalize_gradient, Array, DType, Normalization};
/// let rule = Normalization { centered: true, epsilon: 0.0 };
/// let [y, _, variance] = Array::from([1.0, 3.0, 8.0]).normalize(rule, &[0]);
/// let (zero, gy) = (Array::zeros([1], DType::F64), Array::ones([3], DType::F64));
/// // All elements together: the normalised sum never changes.
/// let gx = normalize_gradient(rule, [&y, &variance], [&gy, &zero, &zero], &[0]);
/// assert!(gx.to_vec::<f64>().iter().all(|g| g.abs() < 1e-15));
/// ```
#[must_use]
#[track_caller]
pub fn normalize_gradient(
    rule: Normalization,
    results: [&Array; 2],
    cotangents: [&Array; 3],
    axes: &[isize],
) -> Array {
    let ([y, variance], [gy, gmean, gvariance]) = (results, cotangents);
    expect_floats(y.dtype());
    let axes = normalize_axes("normalize_gradient", axes, y.rank());
    let reduced = y.shape().reduced(&axes, true);
    let like = |x: &Array, shape| x.shape() == shape && x.dtype() == y.dtype();
    let small = [variance, gmean, gvariance];
    if !like(gy, y.shape()) || small.iter().any(|x| !like(x, &reduced)) {
        let what = format!(
            "y and gy must be equal in shape and dtype, and the others be {reduced} {}",
            y.dtype()
        );
        raise(Error::invalid("normalize_gradient", what));
    }
    let device = common("normalize_gradient", [y, gy, variance, gmean, gvariance]);
    allocating("normalize_gradient", || {
        device.normalize_gradient(rule, results, cotangents, &axes)
    })
}

#[track_caller]
fn expect_floats(dtype: DType) {
    if !dtype.is_float() {
        raise(Error::invalid(
            "normalize",
            format!("the dtype is {dtype}, it must be a float"),
        ));
    }
}
