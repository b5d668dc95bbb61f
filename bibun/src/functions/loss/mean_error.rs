//! Mean errors.

use crate::call::composite;
use crate::error::mismatch;
use crate::functions::{Reduction, absolute_error, cast, float_of, squared_error};
use crate::variable::Variable;

/// Computes the mean squared error, `Σ (x - t)² / size`.
///
/// Shapes: x, t of one shape → `[]`.
/// Types: floats, promoted; integers give f64. The mean of no elements is 0.
/// Gradient: `2 gy (x - t) / size` to x, the opposite to t.
///
/// # Panics
/// Panics if the shapes differ, because broadcasting would be a mistake here; [`squared_error`]
/// broadcasts.
///
/// ```
/// use bibun::{functions::mean_squared_error, Variable};
/// let x = Variable::new([1.0, 5.0]);
/// assert_eq!(mean_squared_error(&x, Variable::constant([2.0, 2.0])).item::<f64>(), 5.0);
/// ```
#[track_caller]
pub fn mean_squared_error(x: impl Into<Variable>, t: impl Into<Variable>) -> Variable {
    mean_squared_error_with(x, t, Reduction::Mean)
}

/// Computes [`mean_squared_error`] with another reduction: the squared errors themselves, or their
/// sum.
///
/// Shapes: x, t of one shape → `[]`, or the same shape under [`Reduction::None`].
/// Types: floats, promoted; integers give f64.
/// Gradient: that of [`mean_squared_error`], divided by the number of elements only for the mean.
///
/// # Panics
/// Panics if the shapes differ.
///
/// ```
/// use bibun::{functions::{mean_squared_error_with, Reduction}, Variable};
/// let x = Variable::new([1.0, 5.0]);
/// let errors = mean_squared_error_with(&x, Variable::constant([2.0, 2.0]), Reduction::None);
/// assert_eq!(errors.to_vec::<f64>(), [1.0, 9.0]);
/// ```
#[track_caller]
pub fn mean_squared_error_with(
    x: impl Into<Variable>,
    t: impl Into<Variable>,
    reduction: Reduction,
) -> Variable {
    let inputs = [("x", x.into()), ("t", t.into())];
    of_errors("mean_squared_error", inputs, reduction, |[x, t]| {
        squared_error(x, t)
    })
}

/// Computes the mean absolute error, `Σ |x - t| / size`.
///
/// Shapes: x, t of one shape → `[]`.
/// Types: floats, promoted; integers give f64. The mean of no elements is 0.
/// Gradient: `gy sign(x - t) / size` to x, the opposite to t; 0 where they are equal.
///
/// # Panics
/// Panics if the shapes differ, because broadcasting would be a mistake here; [`absolute_error`]
/// broadcasts.
///
/// ```
/// use bibun::{functions::mean_absolute_error, Variable};
/// let x = Variable::new([1.0, 5.0]);
/// assert_eq!(mean_absolute_error(&x, Variable::constant([2.0, 2.0])).item::<f64>(), 2.0);
/// ```
#[track_caller]
pub fn mean_absolute_error(x: impl Into<Variable>, t: impl Into<Variable>) -> Variable {
    mean_absolute_error_with(x, t, Reduction::Mean)
}

/// Computes [`mean_absolute_error`] with another reduction: the absolute errors themselves, or
/// their sum.
///
/// Shapes: x, t of one shape → `[]`, or the same shape under [`Reduction::None`].
/// Types: floats, promoted; integers give f64.
/// Gradient: that of [`mean_absolute_error`], divided by the number of elements only for the mean.
///
/// # Panics
/// Panics if the shapes differ.
///
/// ```
/// use bibun::{functions::{mean_absolute_error_with, Reduction}, Variable};
/// let x = Variable::new([1.0, 5.0]);
/// let errors = mean_absolute_error_with(&x, Variable::constant([2.0, 2.0]), Reduction::None);
/// assert_eq!(errors.to_vec::<f64>(), [1.0, 3.0]);
/// ```
#[track_caller]
pub fn mean_absolute_error_with(
    x: impl Into<Variable>,
    t: impl Into<Variable>,
    reduction: Reduction,
) -> Variable {
    let inputs = [("x", x.into()), ("t", t.into())];
    of_errors("mean_absolute_error", inputs, reduction, |[x, t]| {
        absolute_error(x, t)
    })
}

/// Computes a loss by reducing errors of inputs of one shape, which are computed in the accumulator's
/// dtype and rounded once.
#[track_caller]
pub(super) fn of_errors<const N: usize>(
    function: &'static str,
    inputs: [(&'static str, Variable); N],
    reduction: Reduction,
    errors: impl FnOnce([Variable; N]) -> Variable,
) -> Variable {
    let _whole = composite(function);
    let inputs = alike(function, inputs);
    let dtype = float_of(inputs[0].dtype(), &inputs[1..]);
    let inputs = inputs.map(|x| cast(x, dtype.accumulator()));
    cast(reduction.of(errors(inputs)), dtype)
}

/// Raises an error for inputs of different shapes.
#[track_caller]
pub(super) fn alike<const N: usize>(
    function: &'static str,
    inputs: [(&'static str, Variable); N],
) -> [Variable; N] {
    let specs = inputs.each_ref().map(|(name, x)| (*name, x.spec()));
    if specs.iter().any(|(_, spec)| spec.shape != specs[0].1.shape) {
        let inputs = specs.each_ref().map(|(name, spec)| (*name, spec));
        mismatch(function, &inputs, "shapes must be equal")
    }
    inputs.map(|(_, x)| x)
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use bibun_array::Array;
    let mean_of = |error: fn(f64) -> f64| {
        move |x: &[Array]| {
            let pairs = x[0].to_vec::<f64>().into_iter().zip(x[1].to_vec::<f64>());
            let total: f64 = pairs.map(|(x, t)| error(x - t)).sum();
            vec![Array::scalar(total / x[0].size() as f64)]
        }
    };
    let each_of = |error: fn(f64) -> f64| {
        move |x: &[Array]| {
            let pairs = x[0].to_vec::<f64>().into_iter().zip(x[1].to_vec::<f64>());
            let errors = pairs.map(|(x, t)| error(x - t)).collect();
            vec![Array::from_vec(errors, x[0].shape())]
        }
    };
    vec![
        Sample::new(
            "mean_squared_error",
            |x| vec![mean_squared_error_with(&x[0], &x[1], Reduction::None)],
            each_of(|d| d * d),
        )
        .input([2, 3], -2.0..2.0)
        .input([2, 3], -2.0..2.0),
        Sample::new(
            "mean_absolute_error",
            |x| {
                let sum = mean_absolute_error_with(&x[0], &x[1], Reduction::Sum);
                vec![sum / 6.0]
            },
            mean_of(f64::abs),
        )
        .input([2, 3], 0.5..2.0)
        .input([2, 3], -2.0..0.2),
        Sample::new(
            "mean_squared_error",
            |x| vec![mean_squared_error(&x[0], &x[1])],
            mean_of(|d| d * d),
        )
        .input([2, 3], -2.0..2.0)
        .input([2, 3], -2.0..2.0),
        Sample::new(
            "mean_absolute_error",
            |x| vec![mean_absolute_error(&x[0], &x[1])],
            mean_of(f64::abs),
        )
        .input([2, 3], 0.5..2.0)
        .input([2, 3], -2.0..0.2),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;

    #[test]
    fn a_column_is_not_a_row() {
        let x = Variable::new([[1.0], [2.0]]);
        let message = attempt(|| mean_squared_error(&x, Variable::constant([1.0, 2.0])));
        let message = message.unwrap_err().to_string();
        assert!(
            message
                .starts_with("mean_squared_error: inputs do not fit: x = [2, 1] f64, t = [2] f64")
        );
    }

    #[test]
    fn the_error_of_nothing_is_zero() {
        let nothing = Variable::new(bibun_array::Array::zeros([0], bibun_array::DType::F32));
        assert_eq!(mean_squared_error(&nothing, &nothing).item::<f32>(), 0.0);
        assert_eq!(mean_absolute_error(&nothing, &nothing).item::<f32>(), 0.0);
    }

    #[test]
    fn integers_give_f64() {
        let loss = mean_squared_error(Variable::constant([1i64, 2]), Variable::constant([1i64, 3]));
        assert_eq!(loss.item::<f64>(), 0.5);
    }
}
