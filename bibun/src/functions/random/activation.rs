//! Activations with random numbers: rectifiers with random slopes, and samples of classes.

use bibun_array::{DType, Distribution, Generator, normalize_axis};

use super::draws::Random;
use crate::call::composite;
use crate::error::{Error, raise};
use crate::functions::condition::expect_everywhere;
use crate::functions::{
    Operand, argmax, cast, divide, in_accumulator, leaky_relu, log, maximum, moveaxis, multiply,
    one_hot_of_classes, softmax, to_float, where_,
};
use crate::scope;
use crate::variable::Variable;

/// Computes the rectifier with random slopes: `x` where it is positive, `a x` elsewhere, with a number
/// `a` for each element that is drawn uniformly from `[low, high)` in training mode, and is
/// `(low + high) / 2` in evaluation mode.
///
/// Shapes: x any → the same.
/// Types: floats; integers give f64.
/// Gradient: `gy` where `x > 0`, `a gy` elsewhere, also at zero.
/// Source: B. Xu, N. Wang, T. Chen and M. Li, Empirical evaluation of rectified activations in
/// convolutional network, 2015.
///
/// # Panics
/// Panics if `low` is not below `high`.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::{eval_mode, functions::rrelu, Variable};
/// let x = Variable::new([-8.0, 2.0]);
/// let generator = &mut Generator::new(0);
/// let y = rrelu(&x, 0.125, 0.375, generator).to_vec::<f64>();
/// assert!(-3.0 < y[0] && y[0] <= -1.0 && y[1] == 2.0);
/// let y = eval_mode(|| rrelu(&x, 0.125, 0.375, generator));
/// assert_eq!(y.to_vec::<f64>(), [-2.0, 2.0]);
/// ```
#[track_caller]
pub fn rrelu(x: impl Into<Variable>, low: f64, high: f64, generator: &mut Generator) -> Variable {
    let _whole = composite("rrelu");
    if low.partial_cmp(&high) != Some(std::cmp::Ordering::Less) {
        let what =
            format!("the slopes are from {low} to {high}, the first must be the smaller one");
        raise(Error::argument("rrelu", what));
    }
    let x = to_float(x.into());
    if !scope::is_training() {
        return leaky_relu(x, (low + high) / 2.0);
    }
    let slopes = uniform(&x, low, high, generator);
    where_(x.greater(0.0), &x, multiply(&x, slopes))
}

/// Draws from the classes with scores x along `axis`, relaxed to probabilities: the softmax of
/// `(x + g) / tau`, with numbers `g` from the standard Gumbel distribution. With `hard`, each result is
/// the class of the greatest probability, 1 beside zeros, with the gradient of the probabilities.
///
/// The smaller the temperature `tau` is, the nearer are the probabilities to 0 and 1.
///
/// Shapes: x any → the same.
/// Types: floats; integers give f64.
/// Gradient: `p (gy - Σ gy p) / tau` with the probabilities p, in both cases; with `(x + g) / tau` to the scores, that of a
/// quotient to `tau`, if it is a Variable.
/// Source: E. Jang, S. Gu and B. Poole, Categorical reparameterization with Gumbel-softmax, 2017; C. J.
/// Maddison, A. Mnih and Y. W. Teh, The concrete distribution, 2017.
///
/// # Panics
/// Panics if there is no such axis, or `tau` is not positive.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::{functions::gumbel_softmax, Variable};
/// let x = Variable::new([[0.0, 1.0, 2.0], [-1e4, 0.0, -1e4]]);
/// let y = gumbel_softmax(&x, 0.5, false, 1, &mut Generator::new(0));
/// assert!((y.sum(1) - 1.0).abs().max(..).item::<f64>() < 1e-15);
/// let y = gumbel_softmax(&x, 0.5, true, 1, &mut Generator::new(0)).to_vec::<f64>();
/// assert_eq!(y[3..], [0.0, 1.0, 0.0]);
/// ```
#[track_caller]
pub fn gumbel_softmax(
    x: impl Into<Variable>,
    tau: impl Into<Operand>,
    hard: bool,
    axis: isize,
    generator: &mut Generator,
) -> Variable {
    let function = "gumbel_softmax";
    let _whole = composite(function);
    let (x, tau) = (to_float(x.into()), tau.into());
    let all = tau.clone().beside(x.dtype());
    expect_everywhere(function, "tau", &all, &all.greater(0.0), "positive");
    let axis = normalize_axis(function, axis, x.rank()) as isize;
    in_accumulator(x, |x| {
        // 0 is drawn too, whose noise would be infinite.
        let noise = -log(-log(maximum(uniform(&x, 0.0, 1.0, generator), 1e-30)));
        let p = softmax(divide(&x + noise, tau), axis);
        if !hard {
            return p;
        }
        let classes = x.shape()[axis as usize];
        let drawn = one_hot_of_classes(argmax(&p, axis), classes, DType::Bool);
        let drawn = cast(moveaxis(drawn, -1, axis), p.dtype());
        // Exactly 0 and 1, which adding and subtracting p would round.
        &p - p.detach() + drawn
    })
}

/// Draws a number for each element of x, the same ones for every dtype.
#[track_caller]
fn uniform(x: &Variable, low: f64, high: f64, generator: &mut Generator) -> Variable {
    let uniform = Distribution::uniform(low, high, DType::F32);
    let uniform = Random::new("random_uniform", uniform, x.shape(), x.device());
    cast(uniform.draw(generator), x.dtype())
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use crate::train_mode;
    use bibun_array::Array;
    // The streams start anew with every call, so that all calls draw the same.
    let mut samples = vec![
        Sample::new(
            "rrelu",
            |x| {
                vec![train_mode(|| {
                    rrelu(&x[0], 0.2, 0.6, &mut Generator::new(7))
                })]
            },
            |x| {
                let slopes = Generator::new(7).uniform(x[0].shape(), 0.2, 0.6, DType::F32);
                let pairs = x[0]
                    .to_vec::<f64>()
                    .into_iter()
                    .zip(slopes.cast(DType::F64).to_vec::<f64>());
                let y = pairs.map(|(x, slope)| if x > 0.0 { x } else { slope * x });
                vec![Array::from_vec(y.collect(), x[0].shape())]
            },
        )
        .input([4, 3], -2.0..-0.1),
        Sample::new(
            "rrelu",
            |x| {
                vec![crate::eval_mode(|| {
                    rrelu(&x[0], 0.2, 0.6, &mut Generator::new(7))
                })]
            },
            |x| {
                let y = x[0].to_vec::<f64>().into_iter();
                let y = y.map(|x| if x > 0.0 { x } else { 0.4 * x });
                vec![Array::from_vec(y.collect(), x[0].shape())]
            },
        )
        .input([4, 3], -2.0..2.0),
    ];
    samples.push(
        Sample::new(
            "gumbel_softmax",
            |x| vec![gumbel_softmax(&x[0], 0.7, false, 1, &mut Generator::new(7))],
            |x| {
                let uniform = Generator::new(7).uniform(x[0].shape(), 0.0, 1.0, DType::F32);
                let pairs = x[0]
                    .to_vec::<f64>()
                    .into_iter()
                    .zip(uniform.cast(DType::F64).to_vec::<f64>());
                let powers = pairs.map(|(x, u)| ((x - (-u.ln()).ln()) / 0.7).exp());
                let powers: Vec<f64> = powers.collect();
                let rows = powers.chunks(4).flat_map(|row| {
                    let total: f64 = row.iter().sum();
                    row.iter().map(move |power| power / total)
                });
                vec![Array::from_vec(rows.collect(), [3, 4])]
            },
        )
        .input([3, 4], -2.0..2.0),
    );
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transformations::grad;
    use crate::{Variable, train_mode};

    #[test]
    fn slopes_are_drawn_for_each_element() {
        let x = Variable::new([-1.0; 1000]);
        let y = train_mode(|| rrelu(&x, 0.25, 0.5, &mut Generator::new(0)));
        let y = y.to_vec::<f64>();
        assert!(y.iter().all(|&y| -0.5 < y && y <= -0.25));
        let mean = y.iter().sum::<f64>() / 1000.0;
        assert!((mean + 0.375).abs() < 0.01, "{mean}");
    }

    #[test]
    fn classes_are_drawn_by_their_probabilities() {
        let x = Variable::new(bibun_array::Array::from([[1.0, 2.0, 3.0]]).log())
            .broadcast_to([60_000, 3]);
        let draw = |x: &Variable, hard| gumbel_softmax(x, 0.5, hard, 1, &mut Generator::new(3));
        let y = draw(&x, true);
        assert!(y.to_vec::<f64>().iter().all(|&y| y == 0.0 || y == 1.0));
        let parts = y.mean(0).to_vec::<f64>();
        for (part, expected) in parts.iter().zip([1.0 / 6.0, 1.0 / 3.0, 0.5]) {
            assert!((part - expected).abs() < 0.01, "{parts:?}");
        }
        let x = x.slice(crate::s![..2]).detach();
        let w = Variable::constant([1.0, -2.0, 5.0]);
        let slope = |hard| grad(|x| (draw(x, hard) * &w).sum(..), &x).to_vec::<f64>();
        assert_eq!(slope(true), slope(false));
    }

    #[test]
    fn half_precision_has_no_infinite_noise() {
        let x = Variable::new(bibun_array::Array::zeros([100, 1000], DType::BF16));
        let y = gumbel_softmax(&x, 1.0, false, 1, &mut Generator::new(1));
        assert!(
            y.cast(DType::F32)
                .to_vec::<f32>()
                .iter()
                .all(|y| y.is_finite())
        );
    }
}
