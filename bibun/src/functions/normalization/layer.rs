//! Normalization of each example by itself.

use bibun_array::{Axes, Normalization};
use smallvec::SmallVec;

use super::batch::expect_channels;
use super::normalize::{Scaling, expect_several, normalize};
use crate::call::composite;
use crate::error::mismatch;
use crate::functions::OptionalVariable;
use crate::functions::products::reshaped;
use crate::variable::Variable;

/// Normalizes elements over axes, `y = gamma (x - mean) / √(variance + epsilon) + beta` (Ba, Kiros
/// and Hinton 2016, arXiv:1607.06450).
///
/// Shapes: x any, gamma and beta, if any, of the shape of x along the axes (for `-1`, `[c]`) → the
/// shape of x.
/// Types: x floats; integers give f64.
/// Gradient: through mean and variance too.
///
/// # Panics
/// Panics if there is no such axis, gamma or beta does not fit, or epsilon is negative.
///
/// ```
/// use bibun::{functions::layer_normalization, Variable};
/// let x = Variable::new([[1.0, 3.0], [20.0, 10.0]]);
/// let y = layer_normalization(&x, -1, Variable::new([1.0, 5.0]), None, 0.0);
/// assert_eq!(y.to_vec::<f64>(), [-1.0, 5.0, 1.0, -5.0]);
/// ```
#[track_caller]
pub fn layer_normalization(
    x: impl Into<Variable>,
    axes: impl Into<Axes>,
    gamma: impl Into<OptionalVariable>,
    beta: impl Into<OptionalVariable>,
    epsilon: f64,
) -> Variable {
    let _whole = composite("layer_normalization");
    let function = "layer_normalization";
    let x = x.into();
    let (over, _) = axes.into().resolve(function, x.rank());
    let (gamma, beta) = (gamma.into(), beta.into());
    let scaling = Scaling::of(function, &x, &over, [gamma.get(), beta.get()]);
    let [y, ..] = normalize(
        function,
        x,
        &over,
        Normalization {
            centered: true,
            epsilon,
        },
        scaling,
    );
    y
}

/// Divides elements by their root mean square over axes, `y = gamma x / √(mean x² + epsilon)`
/// (Zhang and Sennrich 2019, arXiv:1910.07467).
///
/// Shapes: x any, gamma, if any, of the shape of x along the axes (for `-1`, `[c]`) → the shape of
/// x.
/// Types: x floats; integers give f64.
/// Gradient: through the mean too.
///
/// # Panics
/// Panics if there is no such axis, gamma does not fit, or epsilon is negative.
///
/// ```
/// use bibun::{functions::rms_normalization, Variable};
/// let x = Variable::new([[4.0, -4.0], [0.0, 0.0]]);
/// let y = rms_normalization(&x, -1, None, 1e-300);
/// assert_eq!(y.to_vec::<f64>(), [1.0, -1.0, 0.0, 0.0]);
/// ```
#[track_caller]
pub fn rms_normalization(
    x: impl Into<Variable>,
    axes: impl Into<Axes>,
    gamma: impl Into<OptionalVariable>,
    epsilon: f64,
) -> Variable {
    let _whole = composite("rms_normalization");
    let function = "rms_normalization";
    let x = x.into();
    let (over, _) = axes.into().resolve(function, x.rank());
    let gamma = gamma.into();
    let scaling = Scaling::of(function, &x, &over, [gamma.get(), None]);
    let [y, ..] = normalize(
        function,
        x,
        &over,
        Normalization {
            centered: false,
            epsilon,
        },
        scaling,
    );
    y
}

/// Normalizes groups of channels of each example, then scales and shifts each channel:
/// `y = gamma (x - mean) / √(variance + epsilon) + beta` (Wu and He 2018, arXiv:1803.08494).
///
/// Shapes: x `[n, c, d..]`, gamma and beta, if any, `[c]` → the shape of x.
/// Types: x floats; integers give f64.
/// Gradient: through mean and variance too.
///
/// # Panics
/// Panics if x has no axis of channels, the number of channels is not a multiple of `groups`, a
/// group has only one value (which minus its own mean is 0), gamma or beta does not fit, or epsilon
/// is negative.
///
/// ```
/// use bibun::{functions::group_normalization, Variable};
/// let x = Variable::new([[1.0, 3.0, 20.0, 10.0]]);
/// let y = group_normalization(&x, 2, None, None, 0.0);
/// assert_eq!(y.to_vec::<f64>(), [-1.0, 1.0, 1.0, -1.0]);
/// ```
#[track_caller]
pub fn group_normalization(
    x: impl Into<Variable>,
    groups: usize,
    gamma: impl Into<OptionalVariable>,
    beta: impl Into<OptionalVariable>,
    epsilon: f64,
) -> Variable {
    let _whole = composite("group_normalization");
    let function = "group_normalization";
    let x = x.into();
    expect_channels(function, &x);
    let shape = x.shape();
    if groups == 0 || !shape[1].is_multiple_of(groups) {
        let must_hold = format!("c must be a multiple of the number of groups, {groups}");
        mismatch(function, &[("x [n, c, d..]", &x.spec())], must_hold)
    }
    let split = shape.replaced(1, shape[1] / groups).inserted(1, groups);
    if groups == shape[1] {
        let over: SmallVec<[usize; 4]> = (2..shape.rank()).collect();
        expect_several(function, ("x [n, c, d..]", &x), &over, "group");
    }
    let over: SmallVec<[usize; 4]> = (2..split.rank()).collect();
    let (gamma, beta) = (gamma.into(), beta.into());
    let scaling = Scaling::of(function, &x, &[1], [gamma.get(), beta.get()]).in_groups(groups);
    let rule = Normalization {
        centered: true,
        epsilon,
    };
    let [y, ..] = normalize(function, reshaped(x, &split), &over, rule, scaling);
    reshaped(y, shape)
}

/// Normalizes each channel of each example, `y = gamma (x - mean) / √(variance + epsilon) + beta`
/// (Ulyanov, Vedaldi and Lempitsky 2016, arXiv:1607.08022).
///
/// Shapes: x `[n, c, d, ..]`, gamma and beta, if any, `[c]` → the shape of x.
/// Types: x floats; integers give f64.
/// Gradient: through mean and variance too.
///
/// # Panics
/// Panics if x has no axis after the channels, it has only one value in each channel (which minus
/// its own mean is 0), gamma or beta does not fit, or epsilon is negative.
///
/// ```
/// use bibun::{functions::instance_normalization, Variable};
/// let x = Variable::new([[[1.0, 3.0], [20.0, 10.0]]]);
/// let y = instance_normalization(&x, None, None, 0.0);
/// assert_eq!(y.to_vec::<f64>(), [-1.0, 1.0, 1.0, -1.0]);
/// ```
#[track_caller]
pub fn instance_normalization(
    x: impl Into<Variable>,
    gamma: impl Into<OptionalVariable>,
    beta: impl Into<OptionalVariable>,
    epsilon: f64,
) -> Variable {
    let _whole = composite("instance_normalization");
    let function = "instance_normalization";
    let x = x.into();
    if x.rank() < 3 {
        let x = [("x [n, c, d, ..]", &x.spec())];
        mismatch(function, &x, "x must have an axis behind the channels")
    }
    let over: SmallVec<[usize; 4]> = (2..x.rank()).collect();
    let named = ("x [n, c, d, ..]", &x);
    expect_several(function, named, &over, "channel of an example");
    let (gamma, beta) = (gamma.into(), beta.into());
    let scaling = Scaling::of(function, &x, &[1], [gamma.get(), beta.get()]);
    let [y, ..] = normalize(
        function,
        x,
        &over,
        Normalization {
            centered: true,
            epsilon,
        },
        scaling,
    );
    y
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::normalize::reference;
    use crate::conformance::Sample;
    use bibun_array::{Array, Shape};
    /// The group of an element of x, the number of groups, and the index of the element's
    /// parameters.
    type Places = fn(&Shape, usize) -> (usize, usize, usize);
    let sample = |name: &'static str,
                  call: fn(&[Variable]) -> Variable,
                  places: Places,
                  x: Shape,
                  parameter: Shape,
                  parameters: usize| {
        let expected = move |x: &[Array]| {
            let shape = x[0].shape();
            let (_, groups, _) = places(shape, 0);
            let [mut y, ..] = reference(&x[0], groups, 0.1, |i| places(shape, i).0);
            for (k, parameter) in x[1..].iter().enumerate() {
                let parameter = parameter.to_vec::<f64>();
                for (i, y) in y.iter_mut().enumerate() {
                    match k {
                        0 => *y *= parameter[places(shape, i).2],
                        _ => *y += parameter[places(shape, i).2],
                    }
                }
            }
            vec![Array::from_vec(y, shape)]
        };
        let mut sample = Sample::new(name, move |x| vec![call(x)], expected).input(x, -2.0..2.0);
        for _ in 0..parameters {
            sample = sample.input(parameter.clone(), 0.5..2.0);
        }
        sample
    };
    let last: fn(&[Variable]) -> Variable =
        |x| layer_normalization(&x[0], -1, x.get(1), x.get(2), 0.1);
    let of_last: Places = |shape, i| {
        let width = shape[shape.rank() - 1];
        (i / width, shape.size() / width, i % width)
    };
    let last_two: fn(&[Variable]) -> Variable =
        |x| layer_normalization(&x[0], [-2, -1], x.get(1), x.get(2), 0.1);
    let of_last_two: Places = |shape, i| {
        let width = shape[shape.rank() - 1] * shape[shape.rank() - 2];
        (i / width, shape.size() / width, i % width)
    };
    let groups: fn(&[Variable]) -> Variable =
        |x| group_normalization(&x[0], 2, x.get(1), x.get(2), 0.1);
    let of_groups: Places = |shape, i| {
        let inner: usize = shape[2..].iter().product();
        (
            i / (inner * shape[1] / 2),
            2 * shape[0],
            i / inner % shape[1],
        )
    };
    let instance: fn(&[Variable]) -> Variable =
        |x| instance_normalization(&x[0], x.get(1), x.get(2), 0.1);
    let of_instance: Places = |shape, i| {
        let inner: usize = shape[2..].iter().product();
        (i / inner, shape[0] * shape[1], i / inner % shape[1])
    };
    let square = |x: &[Array]| {
        let (width, shape) = (x[0].shape()[x[0].rank() - 1], x[0].shape());
        let (elements, gamma) = (x[0].to_vec::<f64>(), x.get(1).map(Array::to_vec::<f64>));
        let y = elements.chunks(width).flat_map(|row| {
            let squares = row.iter().map(|x| x * x).sum::<f64>() / width as f64;
            let gamma = &gamma;
            row.iter().enumerate().map(move |(i, x)| {
                x / (squares + 0.1).sqrt() * gamma.as_ref().map_or(1.0, |gamma| gamma[i])
            })
        });
        vec![Array::from_vec(y.collect(), shape)]
    };
    let rms = |x: &[Variable]| vec![rms_normalization(&x[0], -1, x.get(1), 0.1)];
    vec![
        sample(
            "layer_normalization",
            last,
            of_last,
            [2, 3].into(),
            3.into(),
            2,
        ),
        sample(
            "layer_normalization",
            last,
            of_last,
            [2, 1, 3].into(),
            3.into(),
            1,
        ),
        sample(
            "layer_normalization",
            last,
            of_last,
            [4].into(),
            4.into(),
            0,
        ),
        sample(
            "layer_normalization",
            last_two,
            of_last_two,
            [2, 3, 2].into(),
            [3, 2].into(),
            2,
        ),
        sample(
            "group_normalization",
            groups,
            of_groups,
            [2, 4].into(),
            4.into(),
            2,
        ),
        sample(
            "group_normalization",
            groups,
            of_groups,
            [1, 2, 3].into(),
            2.into(),
            1,
        ),
        sample(
            "group_normalization",
            groups,
            of_groups,
            [2, 4, 1, 2].into(),
            4.into(),
            2,
        ),
        sample(
            "instance_normalization",
            instance,
            of_instance,
            [2, 3, 2].into(),
            3.into(),
            2,
        ),
        sample(
            "instance_normalization",
            instance,
            of_instance,
            [2, 1, 3, 2].into(),
            1.into(),
            0,
        ),
        Sample::new("rms_normalization", rms, square)
            .input([2, 3], -2.0..2.0)
            .input([3], 0.5..2.0),
        Sample::new("rms_normalization", rms, square).input([3, 1, 2], -2.0..2.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;

    #[test]
    fn mistakes_are_named() {
        let x = Variable::new([[1.0, 2.0, 3.0]]);
        let message = attempt(|| group_normalization(&x, 2, None, None, 1e-5))
            .expect_err("an error")
            .to_string();
        assert!(message.contains("x [n, c, d..] = [1, 3] f64"), "{message}");
        assert!(
            message.contains("multiple of the number of groups, 2"),
            "{message}"
        );
        assert!(attempt(|| group_normalization(&x, 0, None, None, 1e-5)).is_err());
        let message = attempt(|| instance_normalization(&x, None, None, 1e-5))
            .expect_err("an error")
            .to_string();
        assert!(message.contains("an axis behind the channels"), "{message}");
        let short = Variable::new([1.0]);
        let message = attempt(|| layer_normalization(&x, -1, None, Some(&short), 1e-5))
            .expect_err("an error")
            .to_string();
        assert!(message.contains("beta = [1] f64"), "{message}");
        assert!(attempt(|| layer_normalization(&x, 2, None, None, 1e-5)).is_err());
        assert!(attempt(|| rms_normalization(&x, -1, Some(&short), 1e-5)).is_err());
    }

    #[test]
    fn one_value_is_not_normalised() {
        let x = Variable::new([[[1.0], [2.0]], [[3.0], [4.0]]]);
        let message = |call: &dyn Fn() -> Variable| crate::attempt(call).unwrap_err().to_string();
        let found = message(&|| instance_normalization(&x, None, None, 1e-5));
        let expected = "instance_normalization: inputs do not fit: x [n, c, d, ..] = [2, 2, 1] f64 \
                        (there must be more than one value in a channel of an example";
        assert!(found.starts_with(expected), "{found}");
        let found = message(&|| group_normalization(&x, 2, None, None, 1e-5));
        let expected = "group_normalization: inputs do not fit: x [n, c, d..] = [2, 2, 1] f64 (there \
                        must be more than one value in a group";
        assert!(found.starts_with(expected), "{found}");
        let y = group_normalization(&x, 1, None, None, 0.0);
        assert_eq!(y.to_vec::<f64>(), [-1.0, 1.0, -1.0, 1.0]);
    }
}
