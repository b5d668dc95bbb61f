//! Margins between the scores of classes, and losses of several classes at once.

use bibun_array::DType;

use super::mean_error::alike;
use super::options::options;
use crate::call::composite;
use crate::error::{Error, mismatch, raise};
use crate::function::Spec;
use crate::functions::{
    Reduction, any, cast, cumsum, expand_dims, gather, in_accumulator, logical_and, logical_not,
    mean, nll_loss_with, not_equal, one_hot_of_classes, relu, sigmoid_cross_entropy_with, square,
    sum, take, to_float, to_indices, where_,
};
use crate::variable::Variable;

options! {
    /// Options of [`multi_margin_loss_with`]. A [`Reduction`] converts into them.
    ///
    /// ```
    /// use bibun::functions::MultiMarginOptions;
    /// assert_eq!(MultiMarginOptions::new().p(2).margin, 1.0);
    /// ```
    MultiMarginOptions {
        /// How much greater the score of the class should be than those of others. Defaults to 1.
        margin: f64 = 1.0,
        /// The power of the violations: 1 or 2. Defaults to 1.
        p: usize = 1,
        ;
        /// A weight for each class `[c]`, by which the losses of its examples are multiplied. The mean
        /// divides by the number of examples nevertheless, as in PyTorch. Defaults to none.
        class_weight,
    }
}

options! {
    /// Options of [`multilabel_soft_margin_loss_with`]. A [`Reduction`] converts into them.
    ///
    /// ```
    /// use bibun::functions::{MultilabelSoftMarginOptions, Reduction};
    /// let options = MultilabelSoftMarginOptions::new().class_weight([1.0, 2.0]);
    /// assert_eq!(options.reduction, Reduction::Mean);
    /// ```
    MultilabelSoftMarginOptions {
        ;
        /// A factor for the terms of each class `[c]`. Defaults to none.
        class_weight,
    }
}

/// Computes the mean hinge loss of the margins between the score of the right class and the others,
/// `Σⱼ max(0, 1 - x[t] + x[j]) / c` over the classes `j ≠ t`.
///
/// Shapes: x `[n, c]` (or `[c]`, one example), t class numbers `[n]` (or `[]`) → `[]`. Examples of class
/// -1 are ignored; the mean is over the remaining ones, and 0 if there are none.
/// Types: x floats; integers give f64; t integers.
/// Gradient: `gy / (n c)` to each `x[j]` that violates the margin, and the opposite to `x[t]`; 0 where
/// the margin is kept, also exactly.
/// Source: K. Crammer and Y. Singer, On the algorithmic implementation of multiclass kernel-based vector
/// machines, 2001.
///
/// # Panics
/// Panics if the shapes do not fit or a class number is outside of `0..c`.
///
/// ```
/// use bibun::{functions::multi_margin_loss, Variable};
/// let x = Variable::new([[0.5, 2.0, 1.25, -3.0]]);
/// let loss = multi_margin_loss(&x, Variable::constant([1i64]));
/// assert_eq!(loss.item::<f64>(), 0.25 / 4.0);
/// ```
#[track_caller]
pub fn multi_margin_loss(x: impl Into<Variable>, t: impl Into<Variable>) -> Variable {
    multi_margin_loss_with(x, t, Reduction::Mean)
}

/// Computes [`multi_margin_loss`] with options: another reduction, another margin, squares, or class
/// weights.
///
/// Shapes: x, t as for [`multi_margin_loss`] → `[]`, or one loss for each example under
/// [`Reduction::None`].
///
/// # Panics
/// Panics as [`multi_margin_loss`] does, if there is not one weight for each class, or if `p` is neither
/// 1 nor 2.
///
/// ```
/// use bibun::{functions::{multi_margin_loss_with, MultiMarginOptions}, Variable};
/// let x = Variable::new([[0.5, 2.0]]);
/// let options = MultiMarginOptions::new().margin(2.0).p(2);
/// let loss = multi_margin_loss_with(&x, Variable::constant([1i64]), options);
/// assert_eq!(loss.item::<f64>(), 0.125);
/// ```
#[track_caller]
pub fn multi_margin_loss_with(
    x: impl Into<Variable>,
    t: impl Into<Variable>,
    options: impl Into<MultiMarginOptions>,
) -> Variable {
    let function = "multi_margin_loss";
    let _whole = composite(function);
    let (x, t, options) = (to_float(x.into()), to_indices(t), options.into());
    let (x_spec, t_spec) = (x.spec(), t.spec());
    let rank = x_spec.shape.rank();
    let fits = matches!(rank, 1 | 2) && x_spec.shape.removed(rank - 1) == t_spec.shape;
    if !fits || t_spec.dtype != DType::I64 {
        let inputs = [("x [n, c]", &x_spec), ("t [n]", &t_spec)];
        mismatch(function, &inputs, "n must be equal, t integers")
    }
    let MultiMarginOptions { margin, p, .. } = options;
    if !matches!(p, 1 | 2) {
        raise(Error::argument(
            function,
            format!("the power p is {p}, it must be 1 or 2"),
        ));
    }
    let classes = x_spec.shape[rank - 1];
    let weight = options.class_weight;
    if let Some(weight) = weight.as_ref().filter(|weight| weight.shape() != [classes]) {
        let inputs = [("x [n, c]", &x_spec), ("class_weight [c]", &weight.spec())];
        mismatch(function, &inputs, "c must be equal")
    }
    in_accumulator(x, |x| {
        let counted = not_equal(&t, -1);
        let own = -nll_loss_with(&x, &t, Reduction::None);
        let t = where_(&counted, &t, 0);
        let hinges = relu(&x - expand_dims(own, -1) + margin);
        let hinges = if p == 2 { square(hinges) } else { hinges };
        let others = logical_not(one_hot_of_classes(&t, classes, DType::Bool));
        let mut losses = sum(where_(others, hinges, 0.0), -1) / classes as f64;
        if let Some(weight) = weight {
            losses *= take(cast(weight, losses.dtype()), t, 0);
        }
        let losses = where_(&counted, losses, 0.0);
        options.reduction.of_weighted(losses, &counted)
    })
}

/// Computes the mean hinge loss of the margins between the scores of the classes that an example has and
/// those that it has not, `Σᵢⱼ max(0, 1 - x[i] + x[j]) / c` over its classes `i` and the other classes
/// `j`.
///
/// Shapes: x `[n.., c]`, t class numbers `[n.., s]` → `[]`. The list of an example's classes ends before
/// its first negative number.
/// Types: x floats; integers give f64; t integers. The mean of no examples is 0.
/// Gradient: `∓gy / (n c)` for each violation of a margin; 0 where the margin is kept, also exactly.
///
/// # Panics
/// Panics if the shapes do not fit or a class number is not less than `c`.
///
/// ```
/// use bibun::{functions::multilabel_margin_loss, Variable};
/// let x = Variable::new([[2.0, 0.5, 1.25, -3.0]]);
/// let loss = multilabel_margin_loss(&x, Variable::constant([[0i64, 3, -1, 2]]));
/// assert_eq!(loss.item::<f64>(), (0.25 + 4.5 + 5.25) / 4.0);
/// ```
#[track_caller]
pub fn multilabel_margin_loss(x: impl Into<Variable>, t: impl Into<Variable>) -> Variable {
    multilabel_margin_loss_with(x, t, Reduction::Mean)
}

/// Computes [`multilabel_margin_loss`] with another reduction: one loss for each example, or their sum.
///
/// Shapes: x `[n.., c]`, t `[n.., s]` → `[]`, or `[n..]` under [`Reduction::None`].
///
/// # Panics
/// Panics as [`multilabel_margin_loss`] does.
///
/// ```
/// use bibun::{functions::{multilabel_margin_loss_with, Reduction}, Variable};
/// let x = Variable::new([[2.0, 0.5], [2.0, 0.5]]);
/// let t = Variable::constant([[1i64, -1], [-1, -1]]);
/// let losses = multilabel_margin_loss_with(&x, &t, Reduction::None);
/// assert_eq!(losses.to_vec::<f64>(), [1.25, 0.0]);
/// ```
#[track_caller]
pub fn multilabel_margin_loss_with(
    x: impl Into<Variable>,
    t: impl Into<Variable>,
    reduction: Reduction,
) -> Variable {
    let function = "multilabel_margin_loss";
    let _whole = composite(function);
    let (x, t) = (to_float(x.into()), to_indices(t));
    let (x_spec, t_spec) = (x.spec(), t.spec());
    let rank = x_spec.shape.rank();
    let fits = rank > 0
        && t_spec.shape.rank() == rank
        && x_spec.shape.removed(rank - 1) == t_spec.shape.removed(rank - 1);
    if !fits || t_spec.dtype != DType::I64 {
        let inputs = [("x [n.., c]", &x_spec), ("t [n.., s]", &t_spec)];
        mismatch(function, &inputs, "n must be equal, t integers")
    }
    let classes = x_spec.shape[rank - 1];
    in_accumulator(x, |x| {
        let ended = cast(t.less(0), DType::I64);
        let listed = cumsum(ended, -1).equal(0);
        let t = where_(&listed, t, 0);
        let own = gather(&x, &t, -1);
        let listed = expand_dims(listed, -1);
        let had = logical_and(one_hot_of_classes(t, classes, DType::Bool), &listed);
        let others = expand_dims(logical_not(any(had, -2)), -2);
        let hinges = relu(1.0 - expand_dims(own, -1) + expand_dims(x, -2));
        let hinges = where_(logical_and(listed, others), hinges, 0.0);
        reduction.of(sum(hinges, [-2, -1]) / classes as f64)
    })
}

/// Computes the mean cross entropy of binary targets for each class and the sigmoid of its score.
///
/// It is [`sigmoid_cross_entropy`](crate::functions::sigmoid_cross_entropy) with a mean over the classes
/// first, so that [`Reduction::None`] gives one loss for each example, and [`Reduction::Sum`] their sum.
///
/// Shapes: x, t of one shape `[n.., c]` → `[]`.
/// Types: x floats; integers give f64; t integers or bool (0 or 1), or float probabilities.
/// Gradient: `gy (σ(x) - t) / size`.
///
/// # Panics
/// Panics if the shapes differ.
///
/// ```
/// use bibun::{functions::multilabel_soft_margin_loss, Variable};
/// let x = Variable::new([[0.0, 1000.0]]);
/// let loss = multilabel_soft_margin_loss(&x, Variable::constant([[1i64, 1]]));
/// assert_eq!(loss.item::<f64>(), 2f64.ln() / 2.0);
/// ```
#[track_caller]
pub fn multilabel_soft_margin_loss(x: impl Into<Variable>, t: impl Into<Variable>) -> Variable {
    multilabel_soft_margin_loss_with(x, t, Reduction::Mean)
}

/// Computes [`multilabel_soft_margin_loss`] with options: another reduction, or class weights.
///
/// Shapes: x, t of one shape `[n.., c]` → `[]`, or `[n..]` under [`Reduction::None`].
///
/// # Panics
/// Panics if the shapes differ or there is not one weight for each class.
///
/// ```
/// use bibun::{functions::{multilabel_soft_margin_loss_with, Reduction}, Variable};
/// let x = Variable::new([[0.0, 1000.0], [0.0, 0.0]]);
/// let t = Variable::constant([[1i64, 1], [0, 1]]);
/// let losses = multilabel_soft_margin_loss_with(&x, &t, Reduction::None);
/// assert_eq!(losses.to_vec::<f64>(), [2f64.ln() / 2.0, 2f64.ln()]);
/// ```
#[track_caller]
pub fn multilabel_soft_margin_loss_with(
    x: impl Into<Variable>,
    t: impl Into<Variable>,
    options: impl Into<MultilabelSoftMarginOptions>,
) -> Variable {
    let function = "multilabel_soft_margin_loss";
    let _whole = composite(function);
    let options = options.into();
    let [x, t] = alike(function, [("x", to_float(x.into())), ("t", t.into())]);
    let x_spec = x.spec();
    let classes = x_spec.shape.last().copied();
    let weight_spec = options.class_weight.as_ref().map(Variable::spec);
    let fits = |weight: &Spec| weight.shape.rank() == 1 && weight.shape.last().copied() == classes;
    if classes.is_none() || !weight_spec.as_ref().is_none_or(fits) {
        let mut inputs = vec![("x [n.., c]", &x_spec)];
        inputs.extend(weight_spec.iter().map(|spec| ("class_weight [c]", spec)));
        mismatch(function, &inputs, "c must be equal")
    }
    // Floats, so that no element is ignored.
    let t = cast(t, x_spec.dtype);
    in_accumulator(x, |x| {
        let mut losses = sigmoid_cross_entropy_with(x, t, Reduction::None);
        if let Some(weight) = &options.class_weight {
            losses *= cast(weight, losses.dtype());
        }
        options.reduction.of(mean(losses, -1))
    })
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::{Sample, beside};
    use bibun_array::Array;
    let weight = [0.5, 2.0, 1.5];
    let mut samples = Vec::new();
    for (reduction, p, weighted) in [(Reduction::Mean, 1, false), (Reduction::None, 2, true)] {
        let targets = Variable::constant([2i64, -1, 0]);
        let sample = Sample::new(
            "multi_margin_loss",
            move |x| {
                let mut options = MultiMarginOptions::from(reduction).margin(0.3).p(p);
                if weighted {
                    options = options.class_weight(beside(x, Variable::constant(weight)));
                }
                vec![multi_margin_loss_with(&x[0], beside(x, &targets), options)]
            },
            move |x| {
                let x = x[0].to_vec::<f64>();
                let losses = [(0, 2), (2, 0)].map(|(row, t)| {
                    let row = &x[row * 3..][..3];
                    let others = (0..3).filter(|&j| j != t);
                    let hinge = |j: usize| f64::max(0.0, 0.3 - row[t] + row[j]);
                    let total: f64 = others.map(|j| hinge(j).powi(p as i32)).sum();
                    total / 3.0 * if weighted { weight[t] } else { 1.0 }
                });
                vec![match reduction {
                    Reduction::None => Array::from([losses[0], 0.0, losses[1]]),
                    _ => Array::scalar((losses[0] + losses[1]) / 2.0),
                }]
            },
        );
        samples.push(sample.input([3, 3], -2.0..2.0));
    }
    for reduction in [Reduction::Mean, Reduction::None] {
        let targets = Variable::constant([[2i64, 0, -1], [-1, 1, 2]]);
        let sample = Sample::new(
            "multilabel_margin_loss",
            move |x| {
                vec![multilabel_margin_loss_with(
                    &x[0],
                    beside(x, &targets),
                    reduction,
                )]
            },
            move |x| {
                let x = x[0].to_vec::<f64>();
                let pairs = [(2, 1), (2, 3), (0, 1), (0, 3)];
                let total = pairs.map(|(i, j)| f64::max(0.0, 1.0 - x[i] + x[j]));
                let loss = total.iter().sum::<f64>() / 4.0;
                vec![match reduction {
                    Reduction::None => Array::from([loss, 0.0]),
                    _ => Array::scalar(loss / 2.0),
                }]
            },
        );
        samples.push(sample.input([2, 4], -0.4..0.4));
    }
    for (reduction, weighted) in [(Reduction::Sum, false), (Reduction::None, true)] {
        let sample = Sample::new(
            "multilabel_soft_margin_loss",
            move |x| {
                let mut options = MultilabelSoftMarginOptions::from(reduction);
                if weighted {
                    options = options.class_weight(beside(x, Variable::constant(weight)));
                }
                vec![multilabel_soft_margin_loss_with(&x[0], &x[1], options)]
            },
            move |x| {
                let [x, t] = [0, 1].map(|i| x[i].to_vec::<f64>());
                let losses = [0, 3].map(|row| {
                    let terms = (0..3).map(|c| {
                        let (x, t) = (x[row + c], t[row + c]);
                        (x.exp().ln_1p() - x * t) * if weighted { weight[c] } else { 1.0 }
                    });
                    terms.sum::<f64>() / 3.0
                });
                vec![match reduction {
                    Reduction::None => Array::from(losses),
                    _ => Array::scalar(losses[0] + losses[1]),
                }]
            },
        );
        samples.push(sample.input([2, 3], -2.0..2.0).input([2, 3], 0.1..0.9));
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;

    #[test]
    fn one_example() {
        let x = Variable::new([0.5, 2.0, 1.25, -3.0]);
        let loss = multi_margin_loss_with(&x, Variable::constant(1i64), Reduction::None);
        assert_eq!((loss.shape().rank(), loss.item::<f64>()), (0, 0.25 / 4.0));
        let loss = multilabel_margin_loss_with(&x, [1i64, -1], Reduction::None);
        assert_eq!((loss.shape().rank(), loss.item::<f64>()), (0, 0.25 / 4.0));
    }

    #[test]
    fn wrong_classes_are_named() {
        let x = Variable::new([[0.5, 2.0]]);
        for class in [2, -2] {
            let error = attempt(|| multi_margin_loss(&x, [class])).unwrap_err();
            let message = error.to_string();
            assert!(
                message.contains(&format!("no class {class} among 2")),
                "{message}"
            );
        }
        assert!(attempt(|| multilabel_margin_loss(&x, [[2i64, -1]])).is_err());
        let options = MultiMarginOptions::new().p(3);
        let error = attempt(|| multi_margin_loss_with(&x, [1i64], options)).unwrap_err();
        assert!(error.to_string().contains("the power p is 3"), "{error}");
    }
}
