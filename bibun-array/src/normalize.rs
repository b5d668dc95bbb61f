//! Normalisation: elements minus their mean, divided by their standard deviation.

use smallvec::SmallVec;

use crate::device::Normalization;
use crate::error::allocating;
use crate::placement::common;
use crate::{Array, DType, Error, normalize_axes, raise};

impl Array {
    /// Normalises over `axes` and returns `[y, mean, variance]` with
    /// `y = (x - mean) / √(variance + epsilon)`. The mean and the variance (divided by `n`) have
    /// size 1 along the axes. Without [`centered`](Normalization::centered) the mean is taken to be
    /// zero, and the variance is the mean square. With parameters, y is multiplied by the first, the
    /// scale, and the second, the shift, is added.
    ///
    /// Shapes: the parameters, at most two, have as many axes as the array, of the same size or of
    /// size 1, and both the same.
    ///
    /// The mean and the variance come from sums of the differences between elements and a number near them, and of the
    /// squares of these. Those of lines of neighbouring `f32` are added up as by [`Array::sum`]; others, and those whose
    /// squares are beyond 10³⁰ or below 10⁻²⁰, in double precision.
    ///
    /// # Panics
    /// Panics if the dtype is not a float, an axis does not exist or is named twice, or the
    /// parameters do not fit or have another dtype.
    ///
    /// ```
    /// use bibun_array::{Array, Normalization};
    /// let rule = Normalization { centered: true, epsilon: 0.0 };
    /// let x = Array::from([[1.0, 3.0], [5.0, 5.5]]);
    /// let [y, mean, variance] = x.normalize(rule, &[1], &[]);
    /// assert_eq!(y.to_vec::<f64>(), [-1.0, 1.0, -1.0, 1.0]);
    /// assert_eq!(mean.to_vec::<f64>(), [2.0, 5.25]);
    /// assert_eq!(variance.to_vec::<f64>(), [1.0, 0.0625]);
    /// let (scale, shift) = (Array::from([[2.0, 3.0]]), Array::from([[0.0, 1.0]]));
    /// let [y, ..] = x.normalize(rule, &[1], &[&scale, &shift]);
    /// assert_eq!(y.to_vec::<f64>(), [-2.0, 4.0, -2.0, 4.0]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn normalize(
        &self,
        rule: Normalization,
        axes: &[isize],
        parameters: &[&Self],
    ) -> [Self; 3] {
        expect_floats(self.dtype());
        let axes = normalize_axes("normalize", axes, self.rank());
        expect_parameters("normalize", self, parameters);
        let device = common(
            "normalize",
            std::iter::once(self).chain(parameters.iter().copied()),
        );
        allocating("normalize", || {
            device.normalize(rule, self, &axes, parameters)
        })
    }
}

/// Computes the cotangents of the input and the parameters of [`Array::normalize`]: `[gx]`, or
/// `[gx, gscale, gshift]` if there is a scale. It reads the input, the results `[mean, variance]`,
/// the scale, and the cotangents `[gy, gmean, gvariance]` of the results.
///
/// # Panics
/// Panics if the dtype is not a float, or the arrays do not have the shapes that
/// [`Array::normalize`] takes and returns.
///
/// ```
/// use bibun_array::{normalize_gradient, Array, DType, Normalization};
/// let rule = Normalization { centered: true, epsilon: 0.0 };
/// let (x, scale) = (Array::from([1.0, 3.0, 8.0]), Array::from([2.0]));
/// let [_, mean, variance] = x.normalize(rule, &[0], &[&scale]);
/// let (zero, gy) = (Array::zeros([1], DType::F64), Array::ones([3], DType::F64));
/// let cotangents = [&gy, &zero, &zero];
/// let gradients = normalize_gradient(rule, &[0], &x, [&mean, &variance], Some(&scale), cotangents);
/// // All elements together: the normalised sum never changes.
/// assert!(gradients[0].to_vec::<f64>().iter().all(|g| g.abs() < 1e-15));
/// assert_eq!(gradients[2].to_vec::<f64>(), [3.0]);
/// ```
#[must_use]
#[track_caller]
pub fn normalize_gradient(
    rule: Normalization,
    axes: &[isize],
    x: &Array,
    statistics: [&Array; 2],
    scale: Option<&Array>,
    cotangents: [&Array; 3],
) -> Vec<Array> {
    let ([mean, variance], [gy, gmean, gvariance]) = (statistics, cotangents);
    expect_floats(x.dtype());
    let axes = normalize_axes("normalize_gradient", axes, x.rank());
    let reduced = x.shape().reduced(&axes, true);
    let like = |a: &Array, shape| a.shape() == shape && a.dtype() == x.dtype();
    let small = [mean, variance, gmean, gvariance];
    if !like(gy, x.shape()) || small.iter().any(|a| !like(a, &reduced)) {
        let what = format!(
            "x and gy must be equal in shape and dtype, and the others be {reduced} {}",
            x.dtype()
        );
        raise(Error::invalid("normalize_gradient", what));
    }
    let parameters: SmallVec<[&Array; 1]> = scale.into_iter().collect();
    expect_parameters("normalize_gradient", x, &parameters);
    let all = [x, gy].into_iter().chain(small).chain(scale);
    let device = common("normalize_gradient", all);
    allocating("normalize_gradient", || {
        device.normalize_gradient(rule, &axes, x, statistics, scale, cotangents)
    })
}

#[track_caller]
fn expect_parameters(function: &'static str, x: &Array, parameters: &[&Array]) {
    let fits = |parameter: &&Array| {
        let shape = parameter.shape();
        let mut axes = shape.iter().zip(x.shape().iter());
        shape.rank() == x.rank()
            && axes.all(|(&own, &size)| own == 1 || own == size)
            && parameter.dtype() == x.dtype()
            && shape == parameters[0].shape()
    };
    if parameters.len() > 2 || !parameters.iter().all(fits) {
        let found: Vec<String> = (parameters.iter())
            .map(|parameter| format!("{} {}", parameter.shape(), parameter.dtype()))
            .collect();
        let what = format!(
            "the parameters are {}; they must be a scale, and perhaps a shift of the same shape, \
             with axes of size 1 or those of {} {}",
            found.join(" and "),
            x.shape(),
            x.dtype()
        );
        raise(Error::invalid(function, what));
    }
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
