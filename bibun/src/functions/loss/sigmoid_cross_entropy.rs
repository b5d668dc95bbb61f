//! Cross entropy of binary targets.

use super::binary_cross_entropy::of_answers;
use crate::call::composite;
use crate::functions::families::{call, element_function};
use crate::functions::{BinaryCrossEntropyOptions, Reduction};
use crate::variable::Variable;

/// Computes the mean cross entropy of binary targets and the sigmoid of scores,
/// `-t log σ(x) - (1 - t) log(1 - σ(x)) = softplus(x) - x t`, which is stable for all scores.
///
/// Shapes: x, t of one shape → `[]`.
/// Types: x floats; integers give f64; t integers or bool (0 or 1, and -1 for elements to ignore),
/// or float probabilities. The mean is over the elements that are not ignored, and 0 if there are
/// none.
/// Gradient: `gy (σ(x) - t) / n` to x, exact on both tails; to probabilities t `-gy x / n`.
///
/// # Panics
/// Panics if the shapes differ.
///
/// ```
/// use bibun::{functions::sigmoid_cross_entropy, Variable};
/// let x = Variable::new([1000.0, 0.0]);
/// let loss = sigmoid_cross_entropy(&x, Variable::constant([1i64, -1]));
/// assert_eq!(loss.item::<f64>(), 0.0);
/// ```
#[track_caller]
pub fn sigmoid_cross_entropy(x: impl Into<Variable>, t: impl Into<Variable>) -> Variable {
    sigmoid_cross_entropy_with(x, t, Reduction::Mean)
}

/// Computes [`sigmoid_cross_entropy`] with options: another reduction, weights of the elements, or
/// weights of the positive answers.
///
/// Shapes: x, t of one shape → `[]`, or the same shape under [`Reduction::None`].
///
/// # Panics
/// Panics if the shapes differ or the weights do not broadcast to them.
///
/// ```
/// use bibun::functions::{sigmoid_cross_entropy_with, BinaryCrossEntropyOptions, Reduction};
/// use bibun::Variable;
/// let x = Variable::new([0.0, 1000.0, 3.0]);
/// let t = Variable::constant([1i64, 0, -1]);
/// let losses = sigmoid_cross_entropy_with(&x, &t, Reduction::None);
/// assert_eq!(losses.to_vec::<f64>(), [2f64.ln(), 1000.0, 0.0]);
///
/// let options = BinaryCrossEntropyOptions::new().reduction(Reduction::None).pos_weight(3.0);
/// let losses = sigmoid_cross_entropy_with(&x, &t, options);
/// assert_eq!(losses.to_vec::<f64>(), [3.0 * 2f64.ln(), 1000.0, 0.0]);
/// ```
#[track_caller]
pub fn sigmoid_cross_entropy_with(
    x: impl Into<Variable>,
    t: impl Into<Variable>,
    options: impl Into<BinaryCrossEntropyOptions>,
) -> Variable {
    let _whole = composite("sigmoid_cross_entropy");
    of_answers(
        "sigmoid_cross_entropy",
        [x.into(), t.into()],
        &options.into(),
        |inputs| call(SigmoidCrossEntropy::function(), &[], inputs),
        |inputs| call(WeightedSigmoidCrossEntropy::function(), &[], inputs),
    )
}

/// `w |x| + log(1 + e^-|x|)`, where `w` is the probability of the class that x speaks against; 0 ·
/// ∞ is 0 here.
macro_rules! loss {
    ($x:ident, $w:expr) => {{
        let w = $w;
        w.equal(0.0).where_(0.0, w * $x.abs()) + (-$x.abs()).exp().log1p()
    }};
}

/// `g (σ(x) - t)`, as a difference whose terms are exact on both tails.
macro_rules! slope {
    ($x:ident, $t:ident, $g:ident) => {
        $g * ($x.sigmoid() * (1.0 - $t) - (-$x).sigmoid() * $t)
    };
}

struct SigmoidCrossEntropy;

element_function! {
    SigmoidCrossEntropy = "sigmoid_cross_entropy", [x, t] [];
    // softplus(x) - x t, computed without a subtraction.
    value: loss!(x, x.greater(0.0).where_(1.0 - t, t));
    fused(a, b; gy): slope!(a, b, gy);
    fused(a; gy): -(gy * a);
}

struct WeightedSigmoidCrossEntropy;

element_function! {
    WeightedSigmoidCrossEntropy = "sigmoid_cross_entropy", [x, t, v] [];
    // v t softplus(-x) + (1 - t) softplus(x); 0 · ∞ is 0 here.
    value: {
        let (own, rest) = (v * t, 1.0 - t);
        own.equal(0.0).where_(0.0, own * own.equal(0.0).where_(0.0, -x).softplus())
            + rest.equal(0.0).where_(0.0, rest * rest.equal(0.0).where_(0.0, x).softplus())
    };
    derivative(a, b, c; gy): gy * (a.sigmoid() * (1.0 - b) - (-a).sigmoid() * (c * b));
    derivative(a, c; gy): gy * (c * (-a).softplus() - a.softplus());
    derivative(a, b; gy): gy * b.equal(0.0).where_(0.0, b * b.equal(0.0).where_(0.0, -a).softplus());
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use bibun_array::Array;

    use crate::conformance::{Sample, beside};
    let loss = |x: f64, t: f64| {
        let p = 1.0 / (1.0 + (-x).exp());
        -t * p.ln() - (1.0 - t) * (1.0 - p).ln()
    };
    let answers = Variable::constant([[1i64, 0, -1], [0, 0, 1]]);
    let of_answers = move |x: &Array| {
        let t = [1.0, 0.0, -1.0, 0.0, 0.0, 1.0];
        let pairs = x.to_vec::<f64>().into_iter().zip(t);
        let losses = pairs.map(|(x, t)| if t < 0.0 { 0.0 } else { loss(x, t) });
        losses.collect::<Vec<f64>>()
    };
    let per_answer = answers.clone();
    vec![
        Sample::new(
            "sigmoid_cross_entropy",
            |x| vec![sigmoid_cross_entropy(&x[0], &x[1])],
            move |x| {
                let pairs = x[0].to_vec::<f64>().into_iter().zip(x[1].to_vec::<f64>());
                vec![Array::scalar(
                    pairs.map(|(x, t)| loss(x, t)).sum::<f64>() / 6.0,
                )]
            },
        )
        .input([2, 3], -2.0..2.0)
        .input([2, 3], 0.1..0.9),
        Sample::new(
            "sigmoid_cross_entropy",
            move |x| vec![sigmoid_cross_entropy(&x[0], beside(x, &answers))],
            move |x| vec![Array::scalar(of_answers(&x[0]).iter().sum::<f64>() / 5.0)],
        )
        .input([2, 3], -2.0..2.0),
        Sample::new(
            "sigmoid_cross_entropy",
            move |x| {
                let t = beside(x, &per_answer);
                vec![sigmoid_cross_entropy_with(&x[0], t, Reduction::None)]
            },
            move |x| vec![Array::from_vec(of_answers(&x[0]), [2, 3])],
        )
        .input([2, 3], -2.0..2.0),
        Sample::new(
            "sigmoid_cross_entropy",
            |x| {
                let options = BinaryCrossEntropyOptions::new()
                    .pos_weight(&x[2])
                    .weight(&x[3]);
                vec![sigmoid_cross_entropy_with(&x[0], &x[1], options)]
            },
            |x| {
                let [x, t, v, w] = [0, 1, 2, 3].map(|i| x[i].to_vec::<f64>());
                let of = |x: f64, t: f64, v: f64| {
                    v * t * (1.0 + (-x).exp()).ln() + (1.0 - t) * (1.0 + x.exp()).ln()
                };
                let total: f64 = (0..6).map(|i| w[i / 3] * of(x[i], t[i], v[i % 3])).sum();
                vec![Array::scalar(total / 6.0)]
            },
        )
        .input([2, 3], -2.0..2.0)
        .input([2, 3], 0.1..0.9)
        .input([3], 0.5..2.0)
        .input([2, 1], 0.5..2.0),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transformations::grad;
    use crate::{attempt, gradients};

    #[test]
    fn large_scores_have_finite_losses_and_gradients() {
        let x = Variable::new([1e4f32, -1e4, 1e4, -1e4]);
        let t = Variable::constant([true, true, false, false]);
        let losses = sigmoid_cross_entropy_with(&x, &t, Reduction::None);
        assert_eq!(losses.to_vec::<f32>(), [0.0, 1e4, 1e4, 0.0]);
        let gradients = gradients(&[&losses.sum(..)], &[&x]);
        assert_eq!(
            gradients[0].as_ref().unwrap().to_vec::<f32>(),
            [0.0, -1.0, 1.0, 0.0]
        );
    }

    /// If the prediction is certain and right, the loss and its gradient are small but not rounded
    /// to zero.
    #[test]
    fn both_tails_are_exact() {
        let infinity = f64::INFINITY;
        let x = Variable::new([40.0, -40.0, infinity, -infinity, -infinity]);
        let t = Variable::constant([1i64, 0, 1, 0, 1]);
        let losses = sigmoid_cross_entropy_with(&x, &t, Reduction::None);
        let tail = (-40f64).exp();
        assert_eq!(losses.to_vec::<f64>(), [tail, tail, 0.0, 0.0, infinity]);
        let first = |x: &Variable| grad(|x| sigmoid_cross_entropy_with(x, &t, Reduction::Sum), x);
        assert_eq!(first(&x).to_vec::<f64>(), [-tail, tail, 0.0, 0.0, -1.0]);
        let second = grad(|x| first(x).sum(..), &x);
        assert_eq!(second.to_vec::<f64>(), [tail, tail, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn weighted_tails_are_exact() {
        let infinity = f64::INFINITY;
        let x = Variable::new([40.0, -40.0, infinity, -infinity, 0.0, -infinity]);
        let t = Variable::constant([1i64, 0, 1, 0, 1, 1]);
        let with = |x: &Variable, reduction| {
            let options = BinaryCrossEntropyOptions::new().reduction(reduction);
            sigmoid_cross_entropy_with(x, &t, options.pos_weight(3.0))
        };
        let tail = (-40f64).exp();
        let losses = with(&x, Reduction::None).to_vec::<f64>();
        assert_eq!(
            losses,
            [3.0 * tail, tail, 0.0, 0.0, 3.0 * 2f64.ln(), infinity]
        );
        let first = |x: &Variable| grad(|x| with(x, Reduction::Sum), x);
        let slopes = first(&x).to_vec::<f64>();
        assert_eq!(slopes, [-3.0 * tail, tail, 0.0, 0.0, -1.5, -3.0]);
        let second = grad(|x| first(x).sum(..), &x);
        assert_eq!(
            second.to_vec::<f64>(),
            [3.0 * tail, tail, 0.0, 0.0, 0.75, 0.0]
        );
    }

    #[test]
    fn shapes_must_be_equal() {
        let error = attempt(|| sigmoid_cross_entropy(Variable::new([[1.0]]), Variable::new([1.0])));
        let message = error.unwrap_err().to_string();
        assert!(
            message.contains("x = [1, 1] f64, t = [1] f64 (shapes must be equal)"),
            "{message}"
        );
    }
}
