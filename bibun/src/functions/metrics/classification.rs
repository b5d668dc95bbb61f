//! Metrics of classification.

use bibun_array::{Array, DType};

use crate::call::composite;
use crate::error::{Error, raise};
use crate::functions::softmax_cross_entropy;
use crate::variable::Variable;

/// Returns the fraction of positions at which the largest score is that of the right class. Of
/// equal scores the first counts as the largest.
///
/// Shapes: y `[n, c, ...]`, t `[n, ...]` of integers. Positions of class -1 are ignored, as in
/// [`softmax_cross_entropy`](crate::functions::softmax_cross_entropy). The result is NaN if there
/// are no others.
///
/// ```
/// use bibun::functions::accuracy;
/// use bibun::Variable;
/// let y = Variable::constant([[0.1, 2.0], [3.0, 1.0], [0.0, 1.0], [1.0, 0.0]]);
/// assert_eq!(accuracy(&y, [1i64, 0, 0, -1]), 2.0 / 3.0);
/// ```
///
/// # Panics
/// Panics if the shapes do not fit or t is not of integers.
#[track_caller]
pub fn accuracy(y: &Variable, t: impl Into<Variable>) -> f64 {
    let (y, t) = expect_classes("accuracy", y, &t.into());
    let found = y.argmax(1).equal(&t).sum(..).item::<i64>();
    let all = t.greater_equal(0).sum(..).item::<i64>();
    found as f64 / all as f64
}

/// Returns the fraction of positions at which the score is positive exactly if the class is 1.
///
/// Shapes: y and t of one shape, t of integers. Positions of class -1 are ignored, as in
/// [`sigmoid_cross_entropy`](crate::functions::sigmoid_cross_entropy). The result is NaN if there
/// are no others.
///
/// ```
/// use bibun::functions::binary_accuracy;
/// use bibun::Variable;
/// let y = Variable::constant([2.0, -1.0, 0.5, 3.0]);
/// assert_eq!(binary_accuracy(&y, [1i64, 0, 0, -1]), 2.0 / 3.0);
/// ```
///
/// # Panics
/// Panics if the shapes differ or t is not of integers.
#[track_caller]
pub fn binary_accuracy(y: &Variable, t: impl Into<Variable>) -> f64 {
    let (y, t) = expect_same_shape("binary_accuracy", y, &t.into());
    let found = y
        .greater(0.0)
        .cast(DType::I64)
        .equal(&t)
        .sum(..)
        .item::<i64>();
    let all = t.greater_equal(0).sum(..).item::<i64>();
    found as f64 / all as f64
}

/// Returns the fraction of positions at which the right class has one of the `k` largest scores. Of
/// equal scores the first counts as the largest.
///
/// Shapes: y `[n, c, ...]`, t `[n, ...]` of integers. Positions of class -1 are ignored. The result is
/// NaN if there are no others.
///
/// ```
/// use bibun::functions::top_k_accuracy;
/// use bibun::Variable;
/// let y = Variable::constant([[0.5, 0.2, 0.1], [0.3, 0.4, 0.2], [0.2, 0.4, 0.3], [0.7, 0.2, 0.1]]);
/// assert_eq!(top_k_accuracy(&y, [0i64, 1, 2, 2], 2), 0.75);
/// ```
///
/// # Panics
/// Panics if the shapes do not fit, t is not of integers, or there are fewer than `k` classes.
#[track_caller]
pub fn top_k_accuracy(y: &Variable, t: impl Into<Variable>, k: usize) -> f64 {
    let (y, t) = expect_classes("top_k_accuracy", y, &t.into());
    if k > y.shape()[1] {
        let what = format!("there are fewer than {k} classes in y of {}", y.shape());
        raise(Error::argument("top_k_accuracy", what));
    }
    let (_, largest) = y.top_k(k, 1);
    let found = largest.equal(t.expand_dims(1)).sum(..).item::<i64>();
    let all = t.greater_equal(0).sum(..).item::<i64>();
    found as f64 / all as f64
}

/// Returns the perplexity of scores, the exponential of the mean cross entropy: the number of equally
/// probable classes among which the choice would be as uncertain.
///
/// Shapes: y `[n, c, ...]`, t `[n, ...]` of integers. Positions of class -1 are ignored, as in
/// [`softmax_cross_entropy`]. The result is NaN if there are no others.
///
/// ```
/// use bibun::functions::perplexity;
/// use bibun::Variable;
/// let y = Variable::constant([[1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0]]);
/// assert!((perplexity(&y, [0i64, 3]) - 4.0).abs() < 1e-12);
/// ```
///
/// # Panics
/// Panics if the shapes do not fit, t is not of integers, or a class is not -1 or in `0..c`.
#[track_caller]
pub fn perplexity(y: &Variable, t: impl Into<Variable>) -> f64 {
    let (y, t) = expect_classes("perplexity", y, &t.into());
    if t.greater_equal(0).sum(..).item::<i64>() == 0 {
        return f64::NAN;
    }
    let _whole = composite("perplexity");
    let loss = softmax_cross_entropy(Variable::constant(y), Variable::constant(t));
    loss.array().cast(DType::F64).item::<f64>().exp()
}

/// Returns scores `[n, c, ...]` and classes `[n, ...]`.
#[track_caller]
pub(super) fn expect_classes(function: &'static str, y: &Variable, t: &Variable) -> (Array, Array) {
    let (y, t) = (y.array(), t.array());
    if y.rank() < 2 || y.shape().removed(1) != *t.shape() || !t.dtype().is_integer() {
        let (y, t) = (y.shape(), (t.shape(), t.dtype()));
        let what = format!(
            "y is {y}, t {} {}, expected y [n, c, ...] and t [n, ...] of integers",
            t.0, t.1
        );
        raise(Error::argument(function, what));
    }
    (y, t)
}

/// Returns scores and classes of one shape.
#[track_caller]
pub(super) fn expect_same_shape(
    function: &'static str,
    y: &Variable,
    t: &Variable,
) -> (Array, Array) {
    let (y, t) = (y.array(), t.array());
    if y.shape() != t.shape() || !t.dtype().is_integer() {
        let (y, dtype) = (y.shape(), t.dtype());
        let what = format!(
            "y is {y}, t {} {dtype}, expected the same shape and integers",
            t.shape()
        );
        raise(Error::argument(function, what));
    }
    (y, t)
}

#[track_caller]
pub(super) fn expect_class(function: &'static str, class: i64, classes: usize) {
    if class >= classes as i64 || class < -1 {
        let what = format!(
            "a class is {class}, expected -1 or 0 to {}",
            classes as i64 - 1
        );
        raise(Error::argument(function, what));
    }
}

/// Counts the examples of each class by predicted class: rows are the right classes, columns those
/// with the largest score.
///
/// Shapes: y `[n, c]`, t `[n]` of integers → `[c, c]` i64. Examples of class -1 are ignored.
///
/// ```
/// use bibun::functions::confusion_matrix;
/// use bibun::Variable;
/// let y = Variable::constant([[0.1, 2.0], [3.0, 1.0], [0.0, 1.0], [1.0, 0.0]]);
/// let matrix = confusion_matrix(&y, [1i64, 0, 0, -1]);
/// assert_eq!(matrix.to_vec::<i64>(), [1, 1, 0, 1]);
/// ```
///
/// # Panics
/// Panics if the shapes do not fit, t is not of integers, or a class is not -1 or in `0..c`.
#[track_caller]
pub fn confusion_matrix(y: &Variable, t: impl Into<Variable>) -> Array {
    let (y, t) = (y.array(), t.into().array());
    let (Some([n, classes]), Some([count]), true) =
        (y.shape().dims(), t.shape().dims(), t.dtype().is_integer())
    else {
        let (y, dtype) = (y.shape(), t.dtype());
        let what = format!(
            "y is {y}, t {} {dtype}, expected y [n, c] and t [n] of integers",
            t.shape()
        );
        raise(Error::argument("confusion_matrix", what))
    };
    if n != count {
        let what = format!("y is {}, t {}, expected as many", y.shape(), t.shape());
        raise(Error::argument("confusion_matrix", what));
    }
    let mut matrix = vec![0i64; classes * classes];
    for (right, found) in t
        .to_vec::<i64>()
        .into_iter()
        .zip(y.argmax(1).to_vec::<i64>())
    {
        expect_class("confusion_matrix", right, classes);
        if right >= 0 {
            matrix[right as usize * classes + found as usize] += 1;
        }
    }
    Array::from_vec(matrix, [classes, classes])
}
