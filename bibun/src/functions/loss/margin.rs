//! Losses of numbers whose targets are 1 and -1: hinges and rankings.

use super::mean_error::of_errors;
use crate::functions::{Reduction, log_sigmoid, relu, where_};
use crate::variable::Variable;

/// Computes the mean hinge loss, `max(0, 1 - t x)`, of scores x and targets t, which are 1 or -1.
///
/// Shapes: x, t of one shape → `[]`.
/// Types: floats, promoted; integers give f64. The mean of no elements is 0.
/// Gradient: `-gy t / size` where `t x < 1`, 0 elsewhere.
/// Source: C. Cortes and V. Vapnik, Support-vector networks, 1995.
///
/// # Panics
/// Panics if the shapes differ.
///
/// ```
/// use bibun::{functions::hinge_loss, Variable};
/// let x = Variable::new([0.5, 3.0]);
/// assert_eq!(hinge_loss(&x, Variable::constant([1i64, -1])).item::<f64>(), 2.25);
/// ```
#[track_caller]
pub fn hinge_loss(x: impl Into<Variable>, t: impl Into<Variable>) -> Variable {
    hinge_loss_with(x, t, Reduction::Mean)
}

/// Computes [`hinge_loss`] with another reduction: one loss for each element, or their sum.
///
/// Shapes: x, t of one shape → `[]`, or the same shape under [`Reduction::None`].
///
/// # Panics
/// Panics if the shapes differ.
///
/// ```
/// use bibun::{functions::{hinge_loss_with, Reduction}, Variable};
/// let x = Variable::new([0.5, 3.0]);
/// let losses = hinge_loss_with(&x, Variable::constant([1i64, -1]), Reduction::None);
/// assert_eq!(losses.to_vec::<f64>(), [0.5, 4.0]);
/// ```
#[track_caller]
pub fn hinge_loss_with(
    x: impl Into<Variable>,
    t: impl Into<Variable>,
    reduction: Reduction,
) -> Variable {
    let inputs = [("x", x.into()), ("t", t.into())];
    of_errors("hinge_loss", inputs, reduction, |[x, t]| relu(1.0 - t * x))
}

/// Computes the mean of distances x whose targets t are 1, and of `max(0, margin - x)` for those whose
/// targets are -1.
///
/// Shapes: x, t of one shape → `[]`.
/// Types: floats, promoted; integers give f64. The mean of no elements is 0.
/// Gradient: `gy / size` where t is 1; `-gy / size` where t is -1 and `x < margin`; 0 elsewhere.
///
/// # Panics
/// Panics if the shapes differ.
///
/// ```
/// use bibun::{functions::hinge_embedding_loss, Variable};
/// let x = Variable::new([0.5, 0.25, 3.0]);
/// let loss = hinge_embedding_loss(&x, Variable::constant([1i64, -1, -1]), 1.0);
/// assert_eq!(loss.item::<f64>(), 1.25 / 3.0);
/// ```
#[track_caller]
pub fn hinge_embedding_loss(
    x: impl Into<Variable>,
    t: impl Into<Variable>,
    margin: f64,
) -> Variable {
    hinge_embedding_loss_with(x, t, margin, Reduction::Mean)
}

/// Computes [`hinge_embedding_loss`] with another reduction: one loss for each element, or their sum.
///
/// Shapes: x, t of one shape → `[]`, or the same shape under [`Reduction::None`].
///
/// # Panics
/// Panics if the shapes differ.
///
/// ```
/// use bibun::{functions::{hinge_embedding_loss_with, Reduction}, Variable};
/// let x = Variable::new([0.5, 0.25, 3.0]);
/// let t = Variable::constant([1i64, -1, -1]);
/// let losses = hinge_embedding_loss_with(&x, &t, 1.0, Reduction::None);
/// assert_eq!(losses.to_vec::<f64>(), [0.5, 0.75, 0.0]);
/// ```
#[track_caller]
pub fn hinge_embedding_loss_with(
    x: impl Into<Variable>,
    t: impl Into<Variable>,
    margin: f64,
    reduction: Reduction,
) -> Variable {
    let inputs = [("x", x.into()), ("t", t.into())];
    of_errors("hinge_embedding_loss", inputs, reduction, |[x, t]| {
        where_(t.greater(0.0), &x, relu(margin - &x))
    })
}

/// Computes the mean of `log(1 + exp(-t x))` for scores x and targets t, which are 1 or -1.
///
/// It neither overflows nor rounds to zero. With targets 1 and 0 it is
/// [`sigmoid_cross_entropy`](crate::functions::sigmoid_cross_entropy).
///
/// Shapes: x, t of one shape → `[]`.
/// Types: floats, promoted; integers give f64. The mean of no elements is 0.
/// Gradient: `-gy t σ(-t x) / size`.
///
/// # Panics
/// Panics if the shapes differ.
///
/// ```
/// use bibun::{functions::soft_margin_loss, Variable};
/// let x = Variable::new([0.0, 1000.0]);
/// let loss = soft_margin_loss(&x, Variable::constant([1i64, 1]));
/// assert_eq!(loss.item::<f64>(), 2f64.ln() / 2.0);
/// ```
#[track_caller]
pub fn soft_margin_loss(x: impl Into<Variable>, t: impl Into<Variable>) -> Variable {
    soft_margin_loss_with(x, t, Reduction::Mean)
}

/// Computes [`soft_margin_loss`] with another reduction: one loss for each element, or their sum.
///
/// Shapes: x, t of one shape → `[]`, or the same shape under [`Reduction::None`].
///
/// # Panics
/// Panics if the shapes differ.
///
/// ```
/// use bibun::{functions::{soft_margin_loss_with, Reduction}, Variable};
/// let x = Variable::new([0.0, 1000.0]);
/// let losses = soft_margin_loss_with(&x, Variable::constant([1i64, -1]), Reduction::None);
/// assert_eq!(losses.to_vec::<f64>(), [2f64.ln(), 1000.0]);
/// ```
#[track_caller]
pub fn soft_margin_loss_with(
    x: impl Into<Variable>,
    t: impl Into<Variable>,
    reduction: Reduction,
) -> Variable {
    let inputs = [("x", x.into()), ("t", t.into())];
    of_errors("soft_margin_loss", inputs, reduction, |[x, t]| {
        -log_sigmoid(t * x)
    })
}

/// Computes the mean of `max(0, margin - t (a - b))`: with target 1, the score a should be greater than
/// b by the margin; with target -1, b greater than a.
///
/// Shapes: a, b, t of one shape → `[]`.
/// Types: floats, promoted; integers give f64. The mean of no elements is 0.
/// Gradient: `-gy t / size` to a and the opposite to b where `t (a - b) < margin`, 0 elsewhere.
///
/// # Panics
/// Panics if the shapes differ.
///
/// ```
/// use bibun::{functions::margin_ranking_loss, Variable};
/// let (a, b) = (Variable::new([1.0, 1.0]), Variable::new([0.75, 3.0]));
/// let loss = margin_ranking_loss(&a, &b, Variable::constant([1i64, 1]), 0.5);
/// assert_eq!(loss.item::<f64>(), (0.25 + 2.5) / 2.0);
/// ```
#[track_caller]
pub fn margin_ranking_loss(
    a: impl Into<Variable>,
    b: impl Into<Variable>,
    t: impl Into<Variable>,
    margin: f64,
) -> Variable {
    margin_ranking_loss_with(a, b, t, margin, Reduction::Mean)
}

/// Computes [`margin_ranking_loss`] with another reduction: one loss for each element, or their sum.
///
/// Shapes: a, b, t of one shape → `[]`, or the same shape under [`Reduction::None`].
///
/// # Panics
/// Panics if the shapes differ.
///
/// ```
/// use bibun::{functions::{margin_ranking_loss_with, Reduction}, Variable};
/// let (a, b) = (Variable::new([1.0, 1.0]), Variable::new([0.75, 3.0]));
/// let t = Variable::constant([1i64, -1]);
/// let losses = margin_ranking_loss_with(&a, &b, &t, 0.5, Reduction::None);
/// assert_eq!(losses.to_vec::<f64>(), [0.25, 0.0]);
/// ```
#[track_caller]
pub fn margin_ranking_loss_with(
    a: impl Into<Variable>,
    b: impl Into<Variable>,
    t: impl Into<Variable>,
    margin: f64,
    reduction: Reduction,
) -> Variable {
    let inputs = [("a", a.into()), ("b", b.into()), ("t", t.into())];
    of_errors("margin_ranking_loss", inputs, reduction, |[a, b, t]| {
        relu(margin - t * (a - b))
    })
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::{Sample, beside};
    use bibun_array::Array;
    type Loss = fn(f64, f64) -> f64;
    type Function = fn(&Variable, Variable, Reduction) -> Variable;
    let signs = [1.0, -1.0, -1.0, 1.0, 1.0, -1.0];
    let targets = Variable::constant(Array::from_vec(signs.to_vec(), [2, 3]));
    let functions: [(&'static str, Function, Loss); 3] = [
        (
            "hinge_loss",
            |x, t, reduction| hinge_loss_with(x, t, reduction),
            |x, t| (1.0 - t * x).max(0.0),
        ),
        (
            "hinge_embedding_loss",
            |x, t, reduction| hinge_embedding_loss_with(x, t, 0.6, reduction),
            |x, t| if t > 0.0 { x } else { (0.6 - x).max(0.0) },
        ),
        (
            "soft_margin_loss",
            |x, t, reduction| soft_margin_loss_with(x, t, reduction),
            |x, t| (1.0 + (-t * x).exp()).ln(),
        ),
    ];
    let reduced = |losses: Vec<f64>, reduction| {
        let total: f64 = losses.iter().sum();
        vec![match reduction {
            Reduction::None => Array::from_vec(losses, [2, 3]),
            Reduction::Mean => Array::scalar(total / 6.0),
            Reduction::Sum => Array::scalar(total),
        }]
    };
    let mut samples = Vec::new();
    for (reduction, range) in [
        (Reduction::None, -2.0..-1.1),
        (Reduction::Mean, 0.1..0.5),
        (Reduction::Sum, 1.1..2.0),
    ] {
        for (name, function, loss) in functions {
            let targets = targets.clone();
            let sample = Sample::new(
                name,
                move |x| vec![function(&x[0], beside(x, &targets), reduction)],
                move |x| {
                    let pairs = x[0].to_vec::<f64>().into_iter().zip(signs);
                    reduced(pairs.map(|(x, t)| loss(x, t)).collect(), reduction)
                },
            );
            samples.push(sample.input([2, 3], range.clone()));
        }
        let targets = targets.clone();
        let ranking = Sample::new(
            "margin_ranking_loss",
            move |x| {
                let t = beside(x, &targets);
                vec![margin_ranking_loss_with(&x[0], &x[1], t, 0.3, reduction)]
            },
            move |x| {
                let pairs = x[0].to_vec::<f64>().into_iter().zip(x[1].to_vec::<f64>());
                let losses = pairs
                    .zip(signs)
                    .map(|((a, b), t)| (0.3 - t * (a - b)).max(0.0));
                reduced(losses.collect(), reduction)
            },
        );
        samples.push(ranking.input([2, 3], 0.5..2.0).input([2, 3], -2.0..0.1));
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;
    use crate::transformations::grad;

    #[test]
    fn at_the_margin_and_far_away() {
        let x = Variable::new([1.0, -1.0]);
        let t = Variable::constant([1i64, -1]);
        assert_eq!(grad(|x| hinge_loss(x, &t), &x).to_vec::<f64>(), [0.0, 0.0]);
        let x = Variable::new([-1e4f32, 1e4, 40.0]);
        let t = Variable::constant([1i64, 1, 1]);
        let losses = soft_margin_loss_with(&x, &t, Reduction::None).to_vec::<f32>();
        assert_eq!(losses[..2], [1e4, 0.0]);
        assert!((losses[2] / (-40f32).exp() - 1.0).abs() < 1e-6);
        let slopes = grad(|x| soft_margin_loss_with(x, &t, Reduction::Sum), &x);
        assert_eq!(slopes.to_vec::<f32>()[..2], [-1.0, 0.0]);
    }

    #[test]
    fn shapes_must_be_equal() {
        let [a, b] = [Variable::new([1.0, 2.0]), Variable::new([1.0])];
        let error = attempt(|| margin_ranking_loss(&a, &a, &b, 0.0)).unwrap_err();
        let message = error.to_string();
        let expected =
            "margin_ranking_loss: inputs do not fit: a = [2] f64, b = [2] f64, t = [1] f64";
        assert!(message.starts_with(expected), "{message}");
    }
}
