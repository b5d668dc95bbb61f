//! Losses of embeddings, which are vectors: near where they belong together, far apart elsewhere.

use super::options::options;
use crate::call::composite;
use crate::error::mismatch;
use crate::functions::{
    Reduction, cast, cosine_similarity, float_of, minimum, pairwise_distance, relu, where_,
};
use crate::variable::Variable;

options! {
    /// Options of [`triplet_margin_loss_with`]. A [`Reduction`] converts into them.
    ///
    /// ```
    /// use bibun::functions::TripletMarginOptions;
    /// assert_eq!(TripletMarginOptions::new().margin(0.2).p, 2.0);
    /// ```
    TripletMarginOptions {
        /// How much farther away the negative should be than the positive. Defaults to 1.
        margin: f64 = 1.0,
        /// The order of the norm that measures distances, as
        /// [`pairwise_distance`](crate::functions::pairwise_distance) has it. Defaults to 2.
        p: f64 = 2.0,
        /// Whether the distance of positive and negative counts instead of that of anchor and negative
        /// where it is smaller (V. Balntas et al., Learning shallow convolutional feature descriptors with
        /// triplet losses, 2016). Defaults to false.
        swap: bool = false,
    }
}

/// Computes the mean of `1 - cos(a, b)` over pairs of vectors whose targets are 1, and of
/// `max(0, cos(a, b) - margin)` over those whose targets are -1.
///
/// Shapes: a, b of one shape `[n.., d]`, t `[n..]` → `[]`.
/// Types: floats, promoted; integers give f64. The mean of no pairs is 0.
/// Gradient: through [`cosine_similarity`]; 0 where the loss is 0, and to vectors of zeros.
///
/// # Panics
/// Panics if the shapes do not fit.
///
/// ```
/// use bibun::{functions::cosine_embedding_loss, Variable};
/// let a = Variable::new([[2.0, 0.0], [2.0, 0.0]]);
/// let b = Variable::new([[0.0, 3.0], [1.0, 0.0]]);
/// let loss = cosine_embedding_loss(&a, &b, Variable::constant([1i64, -1]), 0.5);
/// assert_eq!(loss.item::<f64>(), (1.0 + 0.5) / 2.0);
/// ```
#[track_caller]
pub fn cosine_embedding_loss(
    a: impl Into<Variable>,
    b: impl Into<Variable>,
    t: impl Into<Variable>,
    margin: f64,
) -> Variable {
    cosine_embedding_loss_with(a, b, t, margin, Reduction::Mean)
}

/// Computes [`cosine_embedding_loss`] with another reduction: one loss for each pair, or their sum.
///
/// Shapes: a, b of one shape `[n.., d]`, t `[n..]` → `[]`, or `[n..]` under [`Reduction::None`].
///
/// # Panics
/// Panics if the shapes do not fit.
///
/// ```
/// use bibun::{functions::{cosine_embedding_loss_with, Reduction}, Variable};
/// let a = Variable::new([[2.0, 0.0], [2.0, 0.0]]);
/// let b = Variable::new([[0.0, 3.0], [1.0, 0.0]]);
/// let t = Variable::constant([1i64, -1]);
/// let losses = cosine_embedding_loss_with(&a, &b, &t, 0.5, Reduction::None);
/// assert_eq!(losses.to_vec::<f64>(), [1.0, 0.5]);
/// ```
#[track_caller]
pub fn cosine_embedding_loss_with(
    a: impl Into<Variable>,
    b: impl Into<Variable>,
    t: impl Into<Variable>,
    margin: f64,
    reduction: Reduction,
) -> Variable {
    let function = "cosine_embedding_loss";
    let _whole = composite(function);
    let (a, b, t) = (a.into(), b.into(), t.into());
    let (a_spec, b_spec, t_spec) = (a.spec(), b.spec(), t.spec());
    let rank = a_spec.shape.rank();
    if rank == 0 || a_spec.shape != b_spec.shape || a_spec.shape.removed(rank - 1) != t_spec.shape {
        let inputs = [
            ("a [n.., d]", &a_spec),
            ("b [n.., d]", &b_spec),
            ("t [n..]", &t_spec),
        ];
        mismatch(function, &inputs, "n and d must be equal")
    }
    let dtype = float_of(a_spec.dtype, [&b]);
    let [a, b] = [a, b].map(|x| cast(x, dtype.accumulator()));
    let cosine = cosine_similarity(a, b, -1);
    let losses = where_(t.greater(0), 1.0 - &cosine, relu(&cosine - margin));
    cast(reduction.of(losses), dtype)
}

/// Computes the mean of `max(0, |a - p| - |a - n| + 1)`: the anchor a should be nearer to the positive p
/// than to the negative n by 1.
///
/// Shapes: anchor, positive, negative of one shape `[n.., d]` → `[]`.
/// Types: floats, promoted; integers give f64. The mean of no triplets is 0.
/// Gradient: through [`pairwise_distance`]; 0 where the loss is 0. Equal vectors have gradient 0, for
/// which PyTorch adds 10⁻⁶ to each difference.
/// Source: F. Schroff, D. Kalenichenko and J. Philbin, FaceNet: a unified embedding for face recognition
/// and clustering, 2015, with distances instead of their squares.
///
/// # Panics
/// Panics if the shapes differ.
///
/// ```
/// use bibun::{functions::triplet_margin_loss, Variable};
/// let anchor = Variable::new([[0.0, 0.0], [0.0, 0.0]]);
/// let positive = Variable::new([[0.0, 1.0], [0.0, 1.0]]);
/// let negative = Variable::new([[1.5, 0.0], [3.0, 4.0]]);
/// assert_eq!(triplet_margin_loss(&anchor, &positive, &negative).item::<f64>(), 0.25);
/// ```
#[track_caller]
pub fn triplet_margin_loss(
    anchor: impl Into<Variable>,
    positive: impl Into<Variable>,
    negative: impl Into<Variable>,
) -> Variable {
    triplet_margin_loss_with(anchor, positive, negative, Reduction::Mean)
}

/// Computes [`triplet_margin_loss`] with options: another reduction, another margin, another norm, or
/// with positive and negative kept apart too.
///
/// Shapes: anchor, positive, negative of one shape `[n.., d]` → `[]`, or `[n..]` under
/// [`Reduction::None`].
///
/// # Panics
/// Panics if the shapes differ, or there is no norm of this order.
///
/// ```
/// use bibun::{functions::{triplet_margin_loss_with, TripletMarginOptions}, Variable};
/// let [anchor, positive, negative] = [0.0, 1.0, 1.5].map(|x| Variable::new([[x]]));
/// let options = TripletMarginOptions::new().swap(true);
/// let loss = triplet_margin_loss_with(&anchor, &positive, &negative, options);
/// assert_eq!(loss.item::<f64>(), 1.0 - 0.5 + 1.0);
/// ```
#[track_caller]
pub fn triplet_margin_loss_with(
    anchor: impl Into<Variable>,
    positive: impl Into<Variable>,
    negative: impl Into<Variable>,
    options: impl Into<TripletMarginOptions>,
) -> Variable {
    let function = "triplet_margin_loss";
    let _whole = composite(function);
    let options = options.into();
    let [a, p, n] = super::mean_error::alike(
        function,
        [
            ("anchor", anchor.into()),
            ("positive", positive.into()),
            ("negative", negative.into()),
        ],
    );
    let dtype = float_of(a.dtype(), [&p, &n]);
    let [a, p, n] = [a, p, n].map(|x| cast(x, dtype.accumulator()));
    let distance = |a, b| pairwise_distance(a, b, options.p);
    let near = distance(&a, &p);
    let mut far = distance(&a, &n);
    if options.swap {
        far = minimum(far, distance(&p, &n));
    }
    cast(
        options.reduction.of(relu(near - far + options.margin)),
        dtype,
    )
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::{Sample, beside};
    use bibun_array::Array;
    let reduced = |losses: Vec<f64>, reduction| {
        let total: f64 = losses.iter().sum();
        vec![match reduction {
            Reduction::None => Array::from(losses),
            Reduction::Mean => Array::scalar(total / losses.len() as f64),
            Reduction::Sum => Array::scalar(total),
        }]
    };
    let mut samples = Vec::new();
    for (reduction, signs) in [(Reduction::None, [1i64, -1]), (Reduction::Mean, [-1, 1])] {
        let targets = Variable::constant(signs);
        let sample = Sample::new(
            "cosine_embedding_loss",
            move |x| {
                let t = beside(x, &targets);
                vec![cosine_embedding_loss_with(&x[0], &x[1], t, 0.1, reduction)]
            },
            move |x| {
                let [a, b] = [0, 1].map(|i| x[i].to_vec::<f64>());
                let pairs = a.chunks(3).zip(b.chunks(3)).zip(signs);
                let losses = pairs.map(|((a, b), t)| {
                    let dot =
                        |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
                    let cosine = dot(a, b) / (dot(a, a) * dot(b, b)).sqrt();
                    if t > 0 {
                        1.0 - cosine
                    } else {
                        (cosine - 0.1).max(0.0)
                    }
                });
                reduced(losses.collect(), reduction)
            },
        );
        samples.push(sample.input([2, 3], 0.5..2.0).input([2, 3], 0.5..2.0));
    }
    for (reduction, p, swap) in [
        (Reduction::None, 2.0, false),
        (Reduction::Mean, 3.0, true),
        (Reduction::Sum, 1.0, false),
    ] {
        let sample = Sample::new(
            "triplet_margin_loss",
            move |x| {
                let options = TripletMarginOptions::from(reduction).margin(4.0);
                let options = options.p(p).swap(swap);
                vec![triplet_margin_loss_with(&x[0], &x[1], &x[2], options)]
            },
            move |x| {
                let x = [0, 1, 2].map(|i| x[i].to_vec::<f64>());
                let losses = (0..2).map(|row| {
                    let distance = |a: usize, b: usize| {
                        let pairs = x[a].iter().zip(&x[b]).skip(row * 3).take(3);
                        let powers = pairs.map(|(a, b)| (a - b).abs().powf(p));
                        powers.sum::<f64>().powf(1.0 / p)
                    };
                    let far = distance(0, 2);
                    let far = if swap { far.min(distance(1, 2)) } else { far };
                    (distance(0, 1) - far + 4.0).max(0.0)
                });
                reduced(losses.collect(), reduction)
            },
        );
        let sample = sample.input([2, 3], 0.5..1.0).input([2, 3], -0.4..0.2);
        samples.push(sample.input([2, 3], 1.2..2.0));
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transformations::grad;

    #[test]
    fn equal_vectors_have_no_gradient() {
        let a = Variable::new([[0.0, 0.0], [1.0, 1.0]]);
        let t = Variable::constant([1i64, -1]);
        let loss = |a: &Variable| cosine_embedding_loss(a, a, &t, 0.0);
        assert!((loss(&a).item::<f64>() - 1.0).abs() < 1e-15);
        let slope = |a: &Variable| grad(loss, a);
        assert!(
            slope(&a)
                .to_vec::<f64>()
                .iter()
                .all(|slope| slope.abs() < 1e-15)
        );
        let second = grad(|a| slope(a).sum(..), &a).to_vec::<f64>();
        assert!(second.iter().all(|second| second.is_finite()), "{second:?}");
        let loss = |a: &Variable| triplet_margin_loss(a, a, a);
        assert_eq!(loss(&a).item::<f64>(), 1.0);
        assert_eq!(grad(loss, &a).to_vec::<f64>(), [0.0; 4]);
    }
}
