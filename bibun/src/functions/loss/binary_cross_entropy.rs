//! Cross entropy of binary targets and probabilities, and what it shares with that of scores.

use bibun_array::{DType, Number, math::Float};

use super::mean_error::alike;
use super::options::options;
use crate::call::composite;
use crate::functions::families::{call, element_function};
use crate::functions::operand::MUST_BROADCAST;
use crate::functions::{Reduction, broadcast_to, cast, not_equal, to_float_of, to_indices, where_};
use crate::variable::Variable;

options! {
    /// Options of [`binary_cross_entropy_with`] and
    /// [`sigmoid_cross_entropy_with`](crate::functions::sigmoid_cross_entropy_with). A
    /// [`Reduction`] converts into them.
    ///
    /// ```
    /// use bibun::functions::{BinaryCrossEntropyOptions, Reduction};
    /// let options = BinaryCrossEntropyOptions::new().reduction(Reduction::Sum).pos_weight([3.0]);
    /// assert_eq!(options.pos_weight.unwrap().to_vec::<f64>(), [3.0]);
    /// ```
    BinaryCrossEntropyOptions {
        ;
        /// A factor for the loss of each element, which broadcasts to the shape of x. The mean divides by
        /// the number of elements nevertheless, as in PyTorch. Defaults to none.
        weight,
        /// A factor for the term of the positive answer, which broadcasts to the shape of x: the loss is
        /// `-v t log p - (1 - t) log(1 - p)`. Defaults to none.
        pos_weight,
    }
}

/// Computes the mean cross entropy of binary targets and probabilities,
/// `-t log p - (1 - t) log(1 - p)`, with logarithms of at least -100.
///
/// [`sigmoid_cross_entropy`](crate::functions::sigmoid_cross_entropy) takes scores and loses no digits
/// near 0 and 1.
///
/// Shapes: p, t of one shape → `[]`.
/// Types: p floats between 0 and 1 (NaN beyond); integers give f64; t integers or bool (0 or 1, and -1
/// for elements to ignore), or float probabilities. The mean is over the elements that are not ignored,
/// and 0 if there are none.
/// Gradient: `gy ((1 - t) / (1 - p) - t / p) / n` to p, whose denominators are at least 10⁻¹², so that a
/// wrong certainty has a large gradient and no infinite one; to probabilities t
/// `gy (log(1 - p) - log p) / n`.
///
/// # Panics
/// Panics if the shapes differ.
///
/// ```
/// use bibun::{functions::binary_cross_entropy, Variable};
/// let p = Variable::new([0.5, 1.0, 0.0]);
/// let loss = binary_cross_entropy(&p, Variable::constant([1i64, 1, -1]));
/// assert_eq!(loss.item::<f64>(), 2f64.ln() / 2.0);
/// ```
#[track_caller]
pub fn binary_cross_entropy(p: impl Into<Variable>, t: impl Into<Variable>) -> Variable {
    binary_cross_entropy_with(p, t, Reduction::Mean)
}

/// Computes [`binary_cross_entropy`] with options: another reduction, weights of the elements, or
/// weights of the positive answers.
///
/// Shapes: p, t of one shape → `[]`, or the same shape under [`Reduction::None`].
///
/// # Panics
/// Panics if the shapes differ or the weights do not broadcast to them.
///
/// ```
/// use bibun::{functions::{binary_cross_entropy_with, Reduction}, Variable};
/// let p = Variable::new([0.5, 0.0, 0.0]);
/// let losses = binary_cross_entropy_with(&p, Variable::constant([1i64, 1, 0]), Reduction::None);
/// assert_eq!(losses.to_vec::<f64>(), [2f64.ln(), 100.0, 0.0]);
/// ```
#[track_caller]
pub fn binary_cross_entropy_with(
    p: impl Into<Variable>,
    t: impl Into<Variable>,
    options: impl Into<BinaryCrossEntropyOptions>,
) -> Variable {
    let _whole = composite("binary_cross_entropy");
    of_answers(
        "binary_cross_entropy",
        [p.into(), t.into()],
        &options.into(),
        |inputs| call(BinaryCrossEntropy::function(), &[], inputs),
        |inputs| call(WeightedBinaryCrossEntropy::function(), &[], inputs),
    )
}

/// Reduces the losses of answers, which are given as functions of `x, t` and of `x, t, pos_weight`.
#[track_caller]
pub(super) fn of_answers(
    function: &'static str,
    [x, t]: [Variable; 2],
    options: &BinaryCrossEntropyOptions,
    losses: impl FnOnce([Variable; 2]) -> Variable,
    weighted: impl FnOnce([Variable; 3]) -> Variable,
) -> Variable {
    let [x, t] = alike(
        function,
        [("x", to_float_of(function, x)), ("t", to_indices(t))],
    );
    let counted = (t.dtype() == DType::I64).then(|| not_equal(&t, -1));
    let t = cast(t, x.dtype());
    let factor = |name, weight: &Option<Variable>| {
        let weight = weight.as_ref()?;
        let (x_spec, spec) = (x.spec(), weight.spec());
        if !spec.shape.broadcasts_to(&x_spec.shape) {
            crate::error::mismatch(function, &[("x", &x_spec), (name, &spec)], MUST_BROADCAST)
        }
        Some(broadcast_to(cast(weight, x_spec.dtype), &x_spec.shape))
    };
    let weight = factor("weight", &options.weight);
    let mut losses = match factor("pos_weight", &options.pos_weight) {
        None => losses([x, t]),
        Some(pos_weight) => weighted([x, t, pos_weight]),
    };
    if let Some(counted) = &counted {
        losses = where_(counted, losses, 0.0);
    }
    if let Some(weight) = weight {
        losses *= weight;
    }
    match counted {
        Some(counted) => options.reduction.of_weighted(losses, &counted),
        None => options.reduction.of(losses),
    }
}

/// `max(log p, -100)`, whose derivative is 0 where it is -100.
#[inline(always)]
fn log_of<T: Float>(p: Number<T>) -> Number<T> {
    let floor = (-100f64).exp();
    let tiny = p.abs().less(floor);
    tiny.where_(-100.0, tiny.where_(1.0, p).log())
}

/// `max(log(1 - p), -100)`, whose derivative is 0 where it is -100.
#[inline(always)]
fn log_of_rest<T: Float>(p: Number<T>) -> Number<T> {
    let certain = p.equal(1.0);
    certain.where_(-100.0, (-certain.where_(0.0, p)).log1p())
}

/// A probability as a denominator.
#[inline(always)]
fn divisor<T: Float>(p: Number<T>) -> Number<T> {
    p.maximum(1e-12)
}

struct BinaryCrossEntropy;

element_function! {
    BinaryCrossEntropy = "binary_cross_entropy", [p, t] [];
    value: -(t * log_of(p) + (1.0 - t) * log_of_rest(p));
    fused(a, b; gy): gy * ((1.0 - b) / divisor(1.0 - a) - b / divisor(a));
    derivative(a; gy): gy * (log_of_rest(a) - log_of(a));
}

struct WeightedBinaryCrossEntropy;

element_function! {
    WeightedBinaryCrossEntropy = "binary_cross_entropy", [p, t, v] [];
    value: -(v * t * log_of(p) + (1.0 - t) * log_of_rest(p));
    derivative(a, b, c; gy): gy * ((1.0 - b) / divisor(1.0 - a) - c * b / divisor(a));
    derivative(a, c; gy): gy * (log_of_rest(a) - c * log_of(a));
    derivative(a, b; gy): -(gy * b * log_of(a));
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use bibun_array::Array;

    use crate::conformance::{Sample, beside};
    let loss = |p: f64, t: f64, v: f64| -v * t * p.ln() - (1.0 - t) * (1.0 - p).ln();
    let answers = Variable::constant([[1i64, 0, -1], [0, 0, 1]]);
    vec![
        Sample::new(
            "binary_cross_entropy",
            |x| vec![binary_cross_entropy(&x[0], &x[1])],
            move |x| {
                let pairs = x[0].to_vec::<f64>().into_iter().zip(x[1].to_vec::<f64>());
                let total: f64 = pairs.map(|(p, t)| loss(p, t, 1.0)).sum();
                vec![Array::scalar(total / 6.0)]
            },
        )
        .input([2, 3], 0.1..0.9)
        .input([2, 3], 0.1..0.9),
        Sample::new(
            "binary_cross_entropy",
            |x| {
                let options = BinaryCrossEntropyOptions::new().reduction(Reduction::None);
                let options = options.pos_weight(&x[2]).weight(&x[3]);
                vec![binary_cross_entropy_with(&x[0], &x[1], options)]
            },
            move |x| {
                let [p, t, v, w] = [0, 1, 2, 3].map(|i| x[i].to_vec::<f64>());
                let losses = (0..6).map(|i| w[i / 3] * loss(p[i], t[i], v[i % 3]));
                vec![Array::from_vec(losses.collect(), [2, 3])]
            },
        )
        .input([2, 3], 0.1..0.9)
        .input([2, 3], 0.1..0.9)
        .input([3], 0.5..2.0)
        .input([2, 1], 0.5..2.0),
        Sample::new(
            "binary_cross_entropy",
            move |x| vec![binary_cross_entropy(&x[0], beside(x, &answers))],
            move |x| {
                let t = [1.0, 0.0, -1.0, 0.0, 0.0, 1.0];
                let pairs = x[0].to_vec::<f64>().into_iter().zip(t);
                let losses = pairs.map(|(p, t)| if t < 0.0 { 0.0 } else { loss(p, t, 1.0) });
                vec![Array::scalar(losses.sum::<f64>() / 5.0)]
            },
        )
        .input([2, 3], 0.1..0.9),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;
    use crate::transformations::grad;

    #[test]
    fn certainties_are_finite() {
        for dtype in [DType::F32, DType::F64] {
            let p = Variable::new([0.0, 1.0, 0.0, 1.0]).cast(dtype);
            let t = Variable::constant([1.0, 0.0, 0.0, 1.0]).cast(dtype);
            let loss = |p: &Variable, t: &Variable| {
                binary_cross_entropy_with(p, t, Reduction::None).cast(DType::F64)
            };
            assert_eq!(loss(&p, &t).to_vec::<f64>(), [100.0, 100.0, 0.0, 0.0]);
            let slope = |p: &Variable, t: &Variable| grad(|p| loss(p, t).sum(..), p);
            let first = slope(&p, &t).cast(DType::F64).to_vec::<f64>();
            for (found, expected) in first.iter().zip([-1e12, 1e12, 1.0, -1.0]) {
                assert!((found / expected - 1.0).abs() < 1e-6, "{first:?}");
            }
            let of_t = grad(|t| slope(&p, t).sum(..), &t);
            assert!(
                of_t.cast(DType::F64)
                    .to_vec::<f64>()
                    .iter()
                    .all(|x| x.is_finite())
            );
            let second = grad(|p| slope(p, &t).sum(..), &p);
            assert!(
                second
                    .cast(DType::F64)
                    .to_vec::<f64>()
                    .iter()
                    .all(|x| x.is_finite())
            );
        }
        let beyond = Variable::new([-0.1, 1.1]);
        let losses = binary_cross_entropy_with(&beyond, [1i64, 1], Reduction::None);
        assert!(losses.to_vec::<f64>().iter().all(|loss| loss.is_nan()));
    }

    #[test]
    fn weights_must_broadcast() {
        let p = Variable::new([[0.5, 0.5]]);
        let options = BinaryCrossEntropyOptions::new().weight([1.0, 2.0, 3.0]);
        let error = attempt(|| binary_cross_entropy_with(&p, &p, options)).unwrap_err();
        let message = error.to_string();
        assert!(
            message.contains("x = [1, 2] f64, weight = [3] f64"),
            "{message}"
        );
        let options = BinaryCrossEntropyOptions::new().pos_weight([[[1.0]]]);
        assert!(attempt(|| binary_cross_entropy_with(&p, &p, options)).is_err());
    }
}
