//! Metrics of regression.

use bibun_array::DType;

use crate::error::{Error, raise};
use crate::variable::Variable;

/// Returns the coefficient of determination, R² = 1 - Σ (t - y)² / Σ (t - t̄)², over all elements:
/// the fraction of the variance of t that y explains. It is 1 for predictions without error, 0 for
/// the mean, and negative for worse ones.
///
/// Shapes: y and t of one shape.
///
/// ```
/// use bibun::functions::r2_score;
/// use bibun::Variable;
/// let t = Variable::constant([1.0, 2.0, 3.0]);
/// assert_eq!(r2_score(&t, &t), 1.0);
/// assert_eq!(r2_score(&Variable::constant([2.0, 2.0, 2.0]), &t), 0.0);
/// ```
///
/// # Panics
/// Panics if the shapes differ.
#[track_caller]
pub fn r2_score(y: &Variable, t: impl Into<Variable>) -> f64 {
    let (y, t) = (y.array(), t.into().array());
    if y.shape() != t.shape() {
        let what = format!(
            "y is {}, t {}, expected the same shape",
            y.shape(),
            t.shape()
        );
        raise(Error::argument("r2_score", what));
    }
    let [y, t] = [y, t].map(|x| x.cast(DType::F64).to_vec::<f64>());
    let mean = t.iter().sum::<f64>() / t.len() as f64;
    let unexplained: f64 = y.iter().zip(&t).map(|(y, t)| (t - y).powi(2)).sum();
    let all: f64 = t.iter().map(|t| (t - mean).powi(2)).sum();
    1.0 - unexplained / all
}
