//! Dropout of whole channels, and the one that keeps the statistics of SELU networks.

use bibun_array::{Distribution, Generator, Shape};

use super::draws::Random;
use crate::call::composite;
use crate::error::{Error, raise};
use crate::functions::{cast, to_float, where_};
use crate::scope;
use crate::variable::Variable;

/// Sets whole channels of each example to zero with probability `rate` in training mode, and divides the
/// others by `1 - rate` to keep the expectation; returns x in evaluation mode.
///
/// Shapes: x `[n, c, ..]` → the same. Types: floats; integers give f64.
/// Gradient: `gy / (1 - rate)` to the remaining channels, zero elsewhere.
///
/// Source: Tompson et al., "Efficient object localization using convolutional networks", 2015;
/// `torch.nn.functional.dropout2d`, for any number of axes.
///
/// # Panics
/// Panics if `rate` is not in `[0, 1)`, or x has fewer than two axes.
///
/// ```
/// use bibun::array::{Array, DType, Generator};
/// use bibun::{functions::feature_dropout, Variable};
/// let x = Variable::new(Array::ones([1, 3, 2], DType::F64));
/// let y = feature_dropout(&x, 0.5, &mut Generator::new(0)).to_vec::<f64>();
/// assert!(y.chunks(2).all(|channel| channel == [0.0; 2] || channel == [2.0; 2]));
/// ```
#[track_caller]
pub fn feature_dropout(x: impl Into<Variable>, rate: f64, generator: &mut Generator) -> Variable {
    let function = "feature_dropout";
    let _whole = composite(function);
    expect_rate(function, rate);
    let x = to_float(x.into());
    let channels = channels(function, &x);
    if !scope::is_training() || rate == 0.0 {
        return x;
    }
    let left = Distribution::bernoulli(1.0 - rate);
    let left = Random::new("random_bernoulli", left, channels, x.device()).draw(generator);
    let scale = cast(left, x.dtype()) * (1.0 / (1.0 - rate));
    x * scale
}

/// Sets each element with probability `rate` to the value that SELU has far below zero in training mode, and
/// scales and shifts the result so that mean 0 and variance 1 remain; returns x in evaluation mode.
///
/// Shapes: x any → the same. Types: floats; integers give f64.
/// Gradient: the scale times `gy` to the remaining elements, zero elsewhere.
///
/// Source: Klambauer et al., "Self-normalizing neural networks", 2017.
///
/// # Panics
/// Panics if `rate` is not in `[0, 1)`.
///
/// ```
/// use bibun::array::{DType, Generator};
/// use bibun::{functions::alpha_dropout, Variable};
/// let random = &mut Generator::new(0);
/// let x = Variable::new(random.normal(100_000, 0.0, 1.0, DType::F64));
/// let y = alpha_dropout(&x, 0.3, random);
/// assert!(y.mean(..).item::<f64>().abs() < 0.02);
/// assert!((y.var(.., 0).item::<f64>() - 1.0).abs() < 0.02);
/// ```
#[track_caller]
pub fn alpha_dropout(x: impl Into<Variable>, rate: f64, generator: &mut Generator) -> Variable {
    let function = "alpha_dropout";
    let _whole = composite(function);
    expect_rate(function, rate);
    let x = to_float(x.into());
    let shape = x.shape();
    lowered(x, rate, shape, generator)
}

/// Sets whole channels of each example to the value that SELU has far below zero, with probability `rate`, as
/// [`alpha_dropout`] does with elements; returns x in evaluation mode.
///
/// Shapes: x `[n, c, ..]` → the same. Types: floats; integers give f64.
/// Gradient: the scale times `gy` to the remaining channels, zero elsewhere.
///
/// Source: Klambauer et al., "Self-normalizing neural networks", 2017;
/// `torch.nn.functional.feature_alpha_dropout`.
///
/// # Panics
/// Panics if `rate` is not in `[0, 1)`, or x has fewer than two axes.
///
/// ```
/// use bibun::array::{Array, DType, Generator};
/// use bibun::{functions::feature_alpha_dropout, Variable};
/// let x = Variable::new(Array::ones([1, 3, 2], DType::F64));
/// let y = feature_alpha_dropout(&x, 0.5, &mut Generator::new(0)).to_vec::<f64>();
/// assert!(y.chunks(2).all(|channel| channel[0] == channel[1]));
/// ```
#[track_caller]
pub fn feature_alpha_dropout(
    x: impl Into<Variable>,
    rate: f64,
    generator: &mut Generator,
) -> Variable {
    let function = "feature_alpha_dropout";
    let _whole = composite(function);
    expect_rate(function, rate);
    let x = to_float(x.into());
    let shape = channels(function, &x);
    lowered(x, rate, shape, generator)
}

/// Returns the shape of what is drawn once for each channel.
#[track_caller]
fn channels(function: &'static str, x: &Variable) -> Shape {
    let shape = x.shape();
    if shape.rank() < 2 {
        let what = format!("x is {}, it must be [n, c, ..]", x.spec());
        raise(Error::argument(function, what));
    }
    let one = std::iter::repeat_n(1, shape.rank() - 2);
    shape[..2].iter().copied().chain(one).collect()
}

/// Draws what is left, in a shape that broadcasts to x, and lowers the rest.
#[track_caller]
fn lowered(x: Variable, rate: f64, shape: Shape, generator: &mut Generator) -> Variable {
    /// The value of SELU at -∞.
    const LOWEST: f64 = -1.758_099_340_847_376_8;
    if !scope::is_training() || rate == 0.0 {
        return x;
    }
    let left = Distribution::bernoulli(1.0 - rate);
    let left = Random::new("random_bernoulli", left, shape, x.device()).draw(generator);
    let scale = 1.0 / ((1.0 - rate) * (1.0 + rate * LOWEST * LOWEST)).sqrt();
    let shift = -scale * rate * LOWEST;
    where_(left, x * scale + shift, scale * LOWEST + shift)
}

#[track_caller]
fn expect_rate(function: &'static str, rate: f64) {
    if !(0.0..1.0).contains(&rate) {
        let what = format!("the rate is {rate}, it must be at least 0 and less than 1");
        raise(Error::argument(function, what));
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use bibun_array::Array;
    // The stream starts anew with every call; see `dropout`.
    let of_channels = Sample::new(
        "feature_dropout",
        |x| {
            let generator = &mut Generator::new(7);
            vec![crate::train_mode(|| feature_dropout(&x[0], 0.5, generator))]
        },
        |x| {
            let left = Generator::new(7).bernoulli(0.5, [2, 4]).to_vec::<bool>();
            assert!(left.contains(&true) && left.contains(&false));
            let x = x[0].to_vec::<f64>();
            let y = (0..24).map(|i| if left[i / 3] { 2.0 * x[i] } else { 0.0 });
            vec![Array::from_vec(y.collect(), [2, 4, 3])]
        },
    );
    let alpha = Sample::new(
        "alpha_dropout",
        |x| {
            let generator = &mut Generator::new(7);
            vec![crate::train_mode(|| alpha_dropout(&x[0], 0.25, generator))]
        },
        |x| {
            let left = Generator::new(7).bernoulli(0.75, [4, 3]).to_vec::<bool>();
            // λα of SELU.
            let low: f64 = -1.050_700_987_355_480_5 * 1.673_263_242_354_377_2;
            let scale = (0.75 * (1.0 + 0.25 * low * low)).powf(-0.5);
            let x = x[0].to_vec::<f64>().into_iter().zip(left);
            let y = x.map(|(x, left)| scale * (if left { x } else { low } - 0.25 * low));
            vec![Array::from_vec(y.collect(), [4, 3])]
        },
    );
    let alpha_of_channels = Sample::new(
        "feature_alpha_dropout",
        |x| {
            let generator = &mut Generator::new(7);
            vec![crate::train_mode(|| {
                feature_alpha_dropout(&x[0], 0.5, generator)
            })]
        },
        |x| {
            let left = Generator::new(7).bernoulli(0.5, [2, 4]).to_vec::<bool>();
            // λα of SELU.
            let low: f64 = -1.050_700_987_355_480_5 * 1.673_263_242_354_377_2;
            let scale = (0.5 * (1.0 + 0.5 * low * low)).powf(-0.5);
            let x = x[0].to_vec::<f64>();
            let y = (0..24).map(|i| scale * (if left[i / 3] { x[i] } else { low } - 0.5 * low));
            vec![Array::from_vec(y.collect(), [2, 4, 3])]
        },
    );
    vec![
        alpha_of_channels.input([2, 4, 3], -1.0..1.0),
        of_channels.input([2, 4, 3], -1.0..1.0),
        alpha.input([4, 3], -1.0..1.0),
    ]
}
