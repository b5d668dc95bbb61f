//! Normalization of channels over the examples of a batch.

use bibun_array::Normalization;
use smallvec::SmallVec;

use super::normalize::{Scaling, expect_epsilon, expect_several, normalize, others};
use crate::call::composite;
use crate::error::mismatch;
use crate::function::Spec;
use crate::functions::OptionalVariable;
use crate::functions::products::reshaped;
use crate::functions::{cast, float_of, rsqrt, to_accumulator};
use crate::variable::Variable;

/// Normalizes each channel over the batch, `y = gamma (x - mean) / √(variance + epsilon) + beta`
/// (Ioffe and Szegedy 2015, arXiv:1502.03167).
///
/// Shapes: x `[n, c, d..]`, gamma and beta, if any, `[c]` → the shape of x.
/// Types: x floats; integers give f64. The variance is divided by the number of elements.
/// Gradient: through mean and variance too, so examples are not independent of each other.
///
/// # Panics
/// Panics if x has no axis of channels, it has only one value per channel (whose variance is 0, so
/// that the result would be 0 whatever x is), gamma or beta does not fit, or epsilon is negative.
///
/// ```
/// use bibun::{functions::batch_normalization, Variable};
/// let x = Variable::new([[1.0, 10.0], [3.0, 30.0]]);
/// let y = batch_normalization(&x, None, Variable::new([0.0, 5.0]), 0.0);
/// assert_eq!(y.to_vec::<f64>(), [-1.0, 4.0, 1.0, 6.0]);
/// ```
#[track_caller]
pub fn batch_normalization(
    x: impl Into<Variable>,
    gamma: impl Into<OptionalVariable>,
    beta: impl Into<OptionalVariable>,
    epsilon: f64,
) -> Variable {
    let [y, ..] = batch_normalization_with_statistics(x, gamma, beta, epsilon);
    y
}

/// Computes [`batch_normalization`] and returns the statistics of the batch too:
/// `[y, mean, variance]`.
///
/// Shapes: as for [`batch_normalization`]; mean and variance `[c]`.
/// Types: those of [`batch_normalization`].
/// Gradient: from all three results.
///
/// # Panics
/// Panics as [`batch_normalization`] does.
///
/// ```
/// use bibun::{functions::batch_normalization_with_statistics, Variable};
/// let x = Variable::new([[1.0, 10.0], [3.0, 30.0]]);
/// let [_, mean, variance] = batch_normalization_with_statistics(&x, None, None, 1e-5);
/// assert_eq!(mean.to_vec::<f64>(), [2.0, 20.0]);
/// assert_eq!(variance.to_vec::<f64>(), [1.0, 100.0]);
/// ```
#[track_caller]
pub fn batch_normalization_with_statistics(
    x: impl Into<Variable>,
    gamma: impl Into<OptionalVariable>,
    beta: impl Into<OptionalVariable>,
    epsilon: f64,
) -> [Variable; 3] {
    let _whole = composite("batch_normalization");
    let function = "batch_normalization";
    let x = x.into();
    expect_channels(function, &x);
    let over = others(&[1], x.rank());
    expect_several(function, ("x [n, c, d..]", &x), &over, "channel");
    let (gamma, beta) = (gamma.into(), beta.into());
    let scaling = Scaling::of(function, &x, &[1], [gamma.get(), beta.get()]);
    let channels = x.shape()[1];
    let rule = Normalization {
        centered: true,
        epsilon,
    };
    let [y, mean, variance] = normalize(function, x, &over, rule, scaling);
    [y, reshaped(mean, channels), reshaped(variance, channels)]
}

/// Computes [`batch_normalization`] with a given mean and variance, such as those of all training
/// examples, so that examples are independent of each other.
///
/// Shapes: x `[n, c, d..]`, gamma and beta, if any, mean and variance `[c]` → the shape of x.
/// Types: floats; integers give f64. x, gamma and beta are promoted, the mean and the variance may have more precision.
/// Gradient: to all five.
///
/// # Panics
/// Panics if x has no axis of channels, one of the other arguments does not fit, or epsilon is
/// negative.
///
/// ```
/// use bibun::{functions::fixed_batch_normalization, Variable};
/// let x = Variable::new([[1.0, 10.0]]);
/// let (mean, variance) = (Variable::new([0.0, 4.0]), Variable::new([1.0, 4.0]));
/// let y = fixed_batch_normalization(&x, None, None, &mean, &variance, 0.0);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 3.0]);
/// ```
#[track_caller]
pub fn fixed_batch_normalization(
    x: impl Into<Variable>,
    gamma: impl Into<OptionalVariable>,
    beta: impl Into<OptionalVariable>,
    mean: impl Into<Variable>,
    variance: impl Into<Variable>,
    epsilon: f64,
) -> Variable {
    let _whole = composite("fixed_batch_normalization");
    let function = "fixed_batch_normalization";
    let (x, mean, variance) = (x.into(), mean.into(), variance.into());
    let (gamma, beta) = (gamma.into(), beta.into());
    expect_channels(function, &x);
    expect_epsilon(function, epsilon);
    let channels = x.shape()[1];
    let parameters = [("gamma", gamma.get()), ("beta", beta.get())];
    let statistics = [("mean", Some(&mean)), ("variance", Some(&variance))];
    let named: SmallVec<[(&str, Spec); 5]> = ([("x [n, c, d..]", Some(&x))].into_iter())
        .chain(parameters)
        .chain(statistics)
        .filter_map(|(name, value)| Some((name, value?.spec())))
        .collect();
    if named[1..].iter().any(|(_, spec)| spec.shape != [channels]) {
        let named: Vec<(&str, &Spec)> = named.iter().map(|(name, spec)| (*name, spec)).collect();
        mismatch(function, &named, "all others must be [c]");
    }
    // The factors and terms of each channel are combined first, so that there are only two passes
    // over x.
    let scale = rsqrt(to_accumulator(variance) + epsilon);
    let scale = match gamma.get() {
        Some(gamma) => gamma * scale,
        None => scale,
    };
    let shift = -(mean * &scale);
    let shift = match beta.get() {
        Some(beta) => beta + shift,
        None => shift,
    };
    let dtype = float_of(x.dtype(), gamma.get().into_iter().chain(beta.get()));
    let scaling = Scaling::of(function, &x, &[1], [Some(&scale), Some(&shift)]);
    cast(scaling.apply(to_accumulator(x)), dtype)
}

#[track_caller]
pub(super) fn expect_channels(function: &'static str, x: &Variable) {
    if x.rank() < 2 {
        let x = [("x [n, c, d..]", &x.spec())];
        mismatch(function, &x, "x must have an axis of channels")
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::normalize::reference;
    use crate::conformance::Sample;
    use bibun_array::{Array, Shape};
    let channel = |x: &Array, i: usize| {
        let inner: usize = x.shape()[2..].iter().product();
        i / inner % x.shape()[1]
    };
    let expected = move |x: &[Array]| {
        let group = |i| channel(&x[0], i);
        let channels = x[0].shape()[1];
        let [mut y, mean, variance] = reference(&x[0], channels, 0.1, group);
        for (k, parameter) in x[1..].iter().enumerate() {
            let parameter = parameter.to_vec::<f64>();
            for (i, y) in y.iter_mut().enumerate() {
                match k {
                    0 => *y *= parameter[group(i)],
                    _ => *y += parameter[group(i)],
                }
            }
        }
        let of_channels = |x| Array::from_vec(x, channels);
        vec![
            Array::from_vec(y, x[0].shape()),
            of_channels(mean),
            of_channels(variance),
        ]
    };
    let call = |x: &[Variable]| {
        let [y, mean, variance] =
            batch_normalization_with_statistics(&x[0], x.get(1), x.get(2), 0.1);
        vec![y, mean, variance]
    };
    let sample = |shape: Shape, parameters: usize| {
        let channels = shape[1];
        let mut sample = Sample::new("batch_normalization", call, expected).input(shape, -2.0..2.0);
        for _ in 0..parameters {
            sample = sample.input(channels, 0.5..2.0);
        }
        sample
    };
    let fixed = |shape: Shape| {
        let channels = shape[1];
        let call = |x: &[Variable]| {
            let (mean, variance) = (&x[3], &x[4]);
            let y = fixed_batch_normalization(&x[0], Some(&x[1]), Some(&x[2]), mean, variance, 0.1);
            vec![y]
        };
        let expected = move |x: &[Array]| {
            let at = |k: usize, i: usize| x[k].to_vec::<f64>()[channel(&x[0], i)];
            let elements = x[0].to_vec::<f64>().into_iter().enumerate();
            let y = elements
                .map(|(i, x)| at(1, i) * (x - at(3, i)) / (at(4, i) + 0.1).sqrt() + at(2, i));
            vec![Array::from_vec(y.collect(), x[0].shape())]
        };
        (Sample::new("fixed_batch_normalization", call, expected).input(shape, -2.0..2.0))
            .input(channels, 0.5..2.0)
            .input(channels, -1.0..1.0)
            .input(channels, -1.0..1.0)
            .input(channels, 0.5..2.0)
    };
    vec![
        sample([3, 2].into(), 2),
        sample([2, 3, 2].into(), 1),
        sample([2, 1, 3, 2].into(), 0),
        fixed([3, 2].into()),
        fixed([2, 3, 1, 2].into()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;

    #[test]
    fn mistakes_are_named() {
        let (x, batch) = (
            Variable::new([[1.0, 2.0]]),
            Variable::new([[1.0, 2.0], [3.0, 4.0]]),
        );
        let long = Variable::new([1.0; 3]);
        let message = attempt(|| batch_normalization(&batch, Some(&long), None, 1e-5))
            .expect_err("an error")
            .to_string();
        assert!(
            message.contains("x = [2, 2] f64, gamma = [3] f64"),
            "{message}"
        );
        assert!(message.contains("gamma and beta must be [2]"), "{message}");
        let message = attempt(|| batch_normalization(&long, None, None, 1e-5))
            .expect_err("an error")
            .to_string();
        assert!(message.contains("an axis of channels"), "{message}");
        let message = attempt(|| batch_normalization(&x, None, None, 1e-5))
            .expect_err("an error")
            .to_string();
        let expected = "batch_normalization: inputs do not fit: x [n, c, d..] = [1, 2] f64 (there \
                        must be more than one value in a channel";
        assert!(message.starts_with(expected), "{message}");
        // A batch without values is not one value, and a channel may have several values in one
        // example.
        let nothing = Variable::new(bibun_array::Array::zeros([0, 2], bibun_array::DType::F64));
        assert_eq!(
            batch_normalization(&nothing, None, None, 1e-5).shape(),
            [0, 2]
        );
        let y = batch_normalization([[[1.0, 3.0]]], None, None, 0.0);
        assert_eq!(y.to_vec::<f64>(), [-1.0, 1.0]);
        let message = attempt(|| fixed_batch_normalization(&x, None, None, &long, &long, 1e-5))
            .expect_err("an error")
            .to_string();
        assert!(
            message.contains("mean = [3] f64, variance = [3] f64"),
            "{message}"
        );
        assert!(attempt(|| fixed_batch_normalization(&x, None, None, &long, &long, -1.0)).is_err());
    }
}
