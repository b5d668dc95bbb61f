//! Losses of class probabilities: cross entropy with softmax, and negative log likelihood.

use bibun_array::{Array, DType, keep_dims, ops};

use super::options::options;
use crate::batch::Batched;
use crate::call::composite;
use crate::context::Context;
use crate::error::{Error, raise};
use crate::examples::{ExampleCotangent, ExampleGradient, Examples};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::families::call;
use crate::functions::fused::fused;
use crate::functions::{
    Reduction, ShiftedExp, cast, expand_dims, gather, log_softmax, moveaxis, not_equal,
    one_hot_of_classes, reshape, scatter_add, shift_over, shifted_exp, sum, take, to_float,
    to_indices, where_,
};
use crate::variable::Variable;

options! {
    /// Options of [`softmax_cross_entropy_with`] and [`nll_loss_with`]. A [`Reduction`] converts into
    /// them.
    ///
    /// ```
    /// use bibun::functions::{CrossEntropyOptions, Reduction};
    /// let options = CrossEntropyOptions::new().reduction(Reduction::Sum);
    /// assert_eq!(options.ignore_index, -1);
    /// ```
    CrossEntropyOptions {
        /// The class number of examples that are ignored. Defaults to -1.
        ignore_index: i64 = -1,
        /// The part of the target's probability that is shared equally by all `c` classes, between 0 and
        /// 1: the probabilities are `(1 - s) t + s / c` (Szegedy et al., "Rethinking the Inception
        /// Architecture for Computer Vision", 2016). Defaults to 0.
        label_smoothing: f64 = 0.0,
        ;
        /// A weight for each class `[c]`, by which the losses of its examples are multiplied, and the
        /// terms of the class under label smoothing. The mean divides by the sum of the weights of all
        /// examples that are not ignored, as in PyTorch; with probabilities as targets, by the number of
        /// examples. Defaults to no weights.
        class_weight,
    }
}

/// Computes the mean cross entropy of targets and the softmax of scores, `-log softmax(x)[t]`.
///
/// Shapes: x `[n, c]` or `[n, c, d..]` with the classes on axis 1 (or `[c]`, one example); t class
/// numbers, integers of the shape of x without the classes, or the probabilities of the classes,
/// floats of the shape of x → `[]`. Examples of class -1 are ignored; the mean is over the
/// remaining ones, and 0 if there are none.
/// Types: x floats; integers give f64.
/// Gradient: `gy (softmax(x) - onehot(t)) / n` to x; to probabilities t `-gy log softmax(x) / n`.
///
/// [`softmax_cross_entropy_with`] takes options.
///
/// # Panics
/// Panics if the shapes do not fit or a class number is outside of `0..c`.
///
/// ```
/// use bibun::{functions::softmax_cross_entropy, Variable};
/// let x = Variable::new([[0.0, 0.0], [1000.0, 0.0]]);
/// let t = Variable::constant([1i64, 0]);
/// let loss = softmax_cross_entropy(&x, &t);
/// assert!((loss.item::<f64>() - 2f64.ln() / 2.0).abs() < 1e-15);
/// loss.backward();
/// assert_eq!(x.grad().unwrap().to_vec::<f64>(), [0.25, -0.25, 0.0, 0.0]);
/// ```
#[track_caller]
pub fn softmax_cross_entropy(x: impl Into<Variable>, t: impl Into<Variable>) -> Variable {
    softmax_cross_entropy_with(x, t, Reduction::Mean)
}

/// Computes [`softmax_cross_entropy`] with options: another reduction, another class number to
/// ignore, class weights, or label smoothing.
///
/// Shapes: x, t as for [`softmax_cross_entropy`] → `[]`, or one loss for each example under
/// [`Reduction::None`]: the shape of x without the classes.
///
/// # Panics
/// Panics as [`softmax_cross_entropy`] does, if there is not one weight for each class, or if
/// `label_smoothing` is not between 0 and 1.
///
/// ```
/// use bibun::{functions::{softmax_cross_entropy_with, Reduction}, Variable};
/// let x = Variable::new([[0.0, 0.0], [1000.0, 0.0], [7.0, 7.0]]);
/// let t = Variable::constant([1i64, 1, -1]);
/// let losses = softmax_cross_entropy_with(&x, &t, Reduction::None);
/// assert_eq!(losses.to_vec::<f64>(), [2f64.ln(), 1000.0, 0.0]);
/// ```
#[track_caller]
pub fn softmax_cross_entropy_with(
    x: impl Into<Variable>,
    t: impl Into<Variable>,
    options: impl Into<CrossEntropyOptions>,
) -> Variable {
    let _whole = composite("softmax_cross_entropy");
    let function = "softmax_cross_entropy";
    let (x, t, options) = (to_float(x.into()), to_indices(t), options.into());
    let Some(axis) = class_axis(&x) else {
        mismatch(function, &x.spec(), &t.spec())
    };
    if t.dtype() == DType::I64 {
        let losses = |x, t| {
            let [losses, ..] = crate::apply(SoftmaxCrossEntropy, [x, t]);
            losses
        };
        return of_classes(function, t, x, &options, losses, |x, axis| {
            log_softmax(x, axis)
        });
    }
    let (x_spec, t_spec) = (x.spec(), t.spec());
    if x_spec.shape != t_spec.shape {
        mismatch(function, &x_spec, &t_spec);
    }
    let t = distribution(function, cast(t, x_spec.dtype), &options, axis);
    options
        .reduction
        .of(of_distribution(log_softmax(x, axis as isize), t, axis))
}

/// Computes the mean negative log likelihood of classes, `-p[t]`, for log probabilities `p` such as
/// those of [`log_softmax`].
///
/// Shapes: p `[n, c]` or `[n, c, d..]` with the classes on axis 1 (or `[c]`, one example), t
/// integers of the shape of p without the classes → `[]`. Examples of class -1 are ignored; the
/// mean is over the remaining ones, and 0 if there are none.
/// Types: p floats; integers give f64.
/// Gradient: `-gy / n` to the elements that t selects, 0 elsewhere.
///
/// # Panics
/// Panics if the shapes do not fit or a class number is outside of `0..c`.
///
/// ```
/// use bibun::{functions::nll_loss, Variable};
/// let p = Variable::new([[-1.0, -2.0], [-3.0, -4.0]]);
/// assert_eq!(nll_loss(&p, Variable::constant([1i64, 0])).item::<f64>(), 2.5);
/// ```
#[track_caller]
pub fn nll_loss(log_probabilities: impl Into<Variable>, classes: impl Into<Variable>) -> Variable {
    nll_loss_with(log_probabilities, classes, Reduction::Mean)
}

/// Computes [`nll_loss`] with options, as [`softmax_cross_entropy_with`] takes them.
///
/// Shapes: as for [`nll_loss`] → `[]`, or one loss for each example under [`Reduction::None`].
///
/// # Panics
/// Panics as [`nll_loss`] does, if there is not one weight for each class, or if `label_smoothing` is
/// not between 0 and 1.
///
/// ```
/// use bibun::{functions::{nll_loss_with, Reduction}, Variable};
/// let p = Variable::new([[-1.0, -2.0], [-3.0, -4.0]]);
/// let t = Variable::constant([1i64, 0]);
/// assert_eq!(nll_loss_with(&p, t, Reduction::None).to_vec::<f64>(), [2.0, 3.0]);
/// ```
#[track_caller]
pub fn nll_loss_with(
    log_probabilities: impl Into<Variable>,
    classes: impl Into<Variable>,
    options: impl Into<CrossEntropyOptions>,
) -> Variable {
    let _whole = composite("nll_loss");
    let (x, t) = (to_float(log_probabilities.into()), to_indices(classes));
    let losses = |x, t| {
        let [losses] = crate::apply(NegativeLogLikelihood, [x, t]);
        losses
    };
    of_classes("nll_loss", t, x, &options.into(), losses, |x, _| x)
}

/// Returns the axis of the classes, of one example `[c]` or of many `[n, c, ..]`.
fn class_axis(x: &Variable) -> Option<usize> {
    match x.rank() {
        0 => None,
        rank => Some(usize::from(rank > 1)),
    }
}

/// Computes the losses of examples with class numbers by a function of scores `[n, c, ..]` and
/// valid class numbers `[n, 1, ..]`, with 0 for the ignored examples. Under label smoothing, they are
/// those of log probabilities and of a distribution over all classes.
#[track_caller]
fn of_classes(
    function: &'static str,
    t: Variable,
    x: Variable,
    options: &CrossEntropyOptions,
    losses: impl FnOnce(Variable, Variable) -> Variable,
    log_p: impl FnOnce(Variable, isize) -> Variable,
) -> Variable {
    let (x_spec, t_spec) = (x.spec(), t.spec());
    let axis = class_axis(&x)
        .filter(|&axis| t_spec.dtype == DType::I64 && x_spec.shape.removed(axis) == t_spec.shape);
    let Some(axis) = axis else {
        mismatch(function, &x_spec, &t_spec)
    };
    let mut weight = not_equal(&t, options.ignore_index);
    let valid = where_(&weight, t, 0);
    let smooth = options.label_smoothing != 0.0;
    let mut losses = if smooth {
        let classes = one_hot_of_classes(&valid, x_spec.shape[axis], x_spec.dtype);
        let classes = moveaxis(classes, -1, axis as isize);
        let t = distribution(function, classes, options, axis);
        of_distribution(log_p(x, axis as isize), t, axis)
    } else {
        let classes = expand_dims(&valid, axis as isize);
        let found = match axis {
            0 => losses(expand_dims(x, 0), expand_dims(classes, 0)),
            _ => losses(x, classes),
        };
        reshape(found, &t_spec.shape)
    };
    losses = where_(&weight, losses, 0.0);
    if let Some(factors) = &options.class_weight {
        let factors = take(expect_weight(function, factors, &x_spec, axis), valid, 0);
        weight = where_(weight, factors, 0.0);
        if !smooth {
            losses *= &weight;
        }
    }
    options.reduction.of_weighted(losses, &weight)
}

/// Returns probabilities of classes, smoothed and multiplied by the classes' weights.
#[track_caller]
fn distribution(
    function: &'static str,
    mut t: Variable,
    options: &CrossEntropyOptions,
    axis: usize,
) -> Variable {
    let spec = t.spec();
    let smoothing = options.label_smoothing;
    if !(0.0..=1.0).contains(&smoothing) {
        let what = format!("`label_smoothing` is {smoothing}, it must be between 0 and 1");
        raise(Error::argument(function, what));
    }
    if smoothing != 0.0 {
        t = t * (1.0 - smoothing) + smoothing / spec.shape[axis] as f64;
    }
    if let Some(weight) = &options.class_weight {
        let weight = expect_weight(function, weight, &spec, axis);
        let mut along = vec![1; spec.shape.rank()];
        along[axis] = spec.shape[axis];
        t *= reshape(weight, along);
    }
    t
}

/// Computes `-Σ t log p` over the classes. A probability of 0 times -∞ is 0 here.
#[track_caller]
fn of_distribution(log_p: Variable, t: Variable, axis: usize) -> Variable {
    let nothing = (t.equal(0.0)).logical_and(log_p.equal(f64::NEG_INFINITY));
    -sum(t * nothing.where_(0.0, log_p), axis as isize)
}

#[track_caller]
fn expect_weight(
    function: &'static str,
    weight: &Variable,
    x: &Spec,
    class_axis: usize,
) -> Variable {
    if weight.shape() != [x.shape[class_axis]] {
        let inputs = [("x [n, c, ..]", x), ("class_weight [c]", &weight.spec())];
        crate::error::mismatch(function, &inputs, "c must be equal")
    }
    cast(weight, x.dtype)
}

#[cold]
#[track_caller]
fn mismatch(function: &'static str, x: &Spec, t: &Spec) -> ! {
    let must_hold = "t must be class numbers (integers) [n, ..] or, for softmax_cross_entropy, \
                     probabilities [n, c, ..]";
    crate::error::mismatch(function, &[("x [n, c, ..]", x), ("t", t)], must_hold)
}

/// Returns the spec of the losses of scores `x [n, c, ..]` and class numbers `t [n, 1, ..]`, one
/// for each.
fn shape_of_losses(x: &Spec, t: &Spec) -> Result<Spec, Mismatch> {
    if x.shape.rank() < 2 || x.shape.replaced(1, 1) != t.shape || t.dtype != DType::I64 {
        let inputs = [("x [n, c, ..]", x), ("t [n, 1, ..]", t)];
        return Err(Mismatch::new(&inputs, "the sizes must be equal, t be i64"));
    }
    Ok(Spec::new(&t.shape, x.dtype))
}

/// Raises an error for class numbers out of range, negative ones included.
fn check_classes(function: &'static str, t: &Array, classes: usize) {
    t.expect_between(function, 0..classes as i64, move |class| {
        format!("there is no class {class} among {classes} (`ignore_index` leaves one out)")
    });
}

/// Returns the examples in scores, which have all classes where losses have an axis of size 1.
fn of_classes_too(losses: &Examples, x: &Spec) -> Examples {
    match losses.axis() {
        1 => losses.owned_by(1, vec![losses.owner(0); x.shape[1]]),
        _ => losses.clone(),
    }
}

/// The losses and, for the derivatives, `Σ exp(x - shift)` and the shift. The shift
/// cancels in `exp(x - shift) / Σ exp(x - shift)`, and so counts as a constant.
#[derive(Clone, Copy, Debug)]
struct SoftmaxCrossEntropy;

impl SoftmaxCrossEntropy {
    /// `exp(x - shift)` times a factor. A compiled function has the exponential from the losses.
    fn scaled_exp(cx: &Context<'_>, scale: Variable) -> Variable {
        let values = [cx.input(0), cx.output(2), scale];
        let [y] = fused((), values, |(), [x, shift, scale]| {
            let shift = shift.broadcast_to(x.shape());
            [call(ShiftedExp::function(), &[], [x, shift]) * scale]
        });
        y
    }

    /// `Σ exp(x - shift)` and the shift.
    fn total([x]: [Array; 1]) -> [Array; 2] {
        let classes = keep_dims(1);
        let shift = shift_over(&x, &[1]);
        [shifted_exp(x, shift.clone()).sum(classes), shift]
    }
}

impl Function for SoftmaxCrossEntropy {
    type Inputs = Fixed<2>;
    type Outputs = Fixed<3>;

    fn name(&self) -> &'static str {
        "softmax_cross_entropy"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(0).input(1).output(1).output(2)
    }

    fn shape(&self, [x, t]: [&Spec; 2]) -> Result<[Spec; 3], Mismatch> {
        let y = shape_of_losses(x, t)?;
        // A sum of many is beyond the range of 16 bits.
        let total = Spec::new(&y.shape, x.dtype.accumulator());
        Ok([y.clone(), total, y])
    }

    fn forward(&self, [x, t]: [Array; 2]) -> [Array; 3] {
        check_classes("softmax_cross_entropy", &t, x.shape()[1]);
        if t.size() == 0 {
            let nothing = Array::zeros(t.shape(), x.dtype());
            return [nothing.clone(), nothing.clone(), nothing];
        }
        let [total, shift] = bibun_array::fused((), [x.clone()], |(), x| Self::total(x));
        // The difference of the large numbers comes first, and is exact where it matters.
        let own = x.gather(&t, 1);
        let losses = own.equal(f64::INFINITY).where_(0.0, &shift - &own) + ops::log(total.clone());
        [losses, total, shift]
    }

    fn in_accumulator(&self) -> bool {
        true
    }

    fn vjp(&self, cx: &Context<'_>, [gy, g_total, _]: [Variable; 3]) -> [Option<Variable>; 2] {
        if !cx.needs(0) {
            return [None, None];
        }
        let gx = Self::scaled_exp(cx, &gy / cx.output(1) + g_total);
        let gx = scatter_add(cast(gx, gy.dtype()), cx.input(1), 1, -gy);
        [Some(gx), None]
    }

    fn jvp(&self, cx: &Context<'_>, [dx, _]: [Option<Variable>; 2]) -> [Option<Variable>; 3] {
        let Some(dx) = dx else {
            return [None, None, None];
        };
        let total = cx.output(1);
        let exponentials = Self::scaled_exp(cx, cast(dx.clone(), total.dtype()));
        let d_total = sum(exponentials, keep_dims(1));
        let dtype = dx.dtype();
        [
            Some(cast(&d_total / total, dtype) - gather(dx, cx.input(1), 1)),
            Some(d_total),
            None,
        ]
    }

    fn batch(&self, inputs: [Batched; 2]) -> [Batched; 3] {
        Batched::as_examples(*self, inputs)
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        gy: [ExampleCotangent; 3],
    ) -> [Option<ExampleGradient>; 2] {
        let examples = of_classes_too(&gy[0].examples, cx.input_spec(0));
        if gy.iter().any(|other| other.examples != gy[0].examples) {
            return [Some(ExampleGradient::Unknown), None];
        }
        let [gx, _] = self.vjp(cx, gy.map(|gy| gy.cotangent));
        [gx.map(|gx| ExampleGradient::sliced(gx, examples)), None]
    }
}

/// `-x[t]` along axis 1.
#[derive(Clone, Copy, Debug)]
struct NegativeLogLikelihood;

impl Function for NegativeLogLikelihood {
    type Inputs = Fixed<2>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "nll_loss"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(1)
    }

    fn shape(&self, [x, t]: [&Spec; 2]) -> Result<[Spec; 1], Mismatch> {
        Ok([shape_of_losses(x, t)?])
    }

    fn forward(&self, [x, t]: [Array; 2]) -> [Array; 1] {
        check_classes("nll_loss", &t, x.shape()[1]);
        [ops::negative(x.gather(&t, 1))]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 2] {
        let x = cx.input_spec(0);
        let nothing = Variable::constant(Array::zeros(&x.shape, x.dtype));
        [
            cx.needs(0)
                .then(|| scatter_add(nothing, cx.input(1), 1, -gy)),
            None,
        ]
    }

    fn jvp(&self, cx: &Context<'_>, [dx, _]: [Option<Variable>; 2]) -> [Option<Variable>; 1] {
        [dx.map(|dx| -gather(dx, cx.input(1), 1))]
    }

    fn batch(&self, inputs: [Batched; 2]) -> [Batched; 1] {
        Batched::as_examples(*self, inputs)
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 2] {
        let examples = of_classes_too(&gy.examples, cx.input_spec(0));
        ExampleCotangent { examples, ..gy }.pull_back(|gy| self.vjp(cx, [gy]))
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::{Sample, beside};
    let range = -2.0..2.0;
    let weight = [0.5, 2.0, 1.5];
    // `x [n, 3, d]` in a flat vector; the losses of class numbers by plain loops.
    let losses = move |x: &[f64], t: &[i64], d: usize, weighted: bool| -> Vec<f64> {
        let loss = |(place, &t): (usize, &i64)| {
            if t == -1 {
                return 0.0;
            }
            let at = |class: usize| x[place / d * 3 * d + class * d + place % d];
            let total: f64 = (0..3).map(|class| at(class).exp()).sum();
            let factor = if weighted { weight[t as usize] } else { 1.0 };
            factor * (total.ln() - at(t as usize))
        };
        t.iter().enumerate().map(loss).collect()
    };
    let options = move |reduction, weighted: bool, x: &[Variable]| CrossEntropyOptions {
        reduction,
        class_weight: weighted.then(|| beside(x, Variable::constant(weight))),
        ..CrossEntropyOptions::new()
    };
    let classes = |shape: &[usize]| match *shape {
        [] => Array::scalar(2i64),
        [_] => Array::from([2i64, -1, 0, 0]),
        _ => Array::from([[1i64, 2], [-1, 0]]),
    };
    let mut samples = Vec::new();
    for (x_shape, t_shape) in [
        (vec![4, 3], vec![4]),
        (vec![2, 3, 2], vec![2, 2]),
        (vec![3], vec![]),
    ] {
        for (reduction, weighted) in [
            (Reduction::Mean, false),
            (Reduction::Sum, true),
            (Reduction::None, false),
            (Reduction::Mean, true),
        ] {
            let t = classes(&t_shape);
            let d = if x_shape.len() == 3 { 2 } else { 1 };
            let t_of = t.clone();
            let reference = move |x: &[f64]| {
                let t = t_of.to_vec::<i64>();
                let losses = losses(x, &t, d, weighted);
                let total: f64 = losses.iter().sum();
                let counted = t.iter().filter(|&&t| t != -1);
                let count: f64 = counted
                    .map(|&t| if weighted { weight[t as usize] } else { 1.0 })
                    .sum();
                match reduction {
                    Reduction::Mean => Array::scalar(total / count),
                    Reduction::Sum => Array::scalar(total),
                    Reduction::None => Array::from_vec(losses, t_of.shape()),
                }
            };
            let of_scores = reference.clone();
            let targets = Variable::constant(t);
            let call_targets = targets.clone();
            samples.push(
                Sample::new(
                    "softmax_cross_entropy",
                    move |x| {
                        let options = options(reduction, weighted, x);
                        let t = beside(x, &call_targets);
                        vec![softmax_cross_entropy_with(&x[0], t, &options)]
                    },
                    move |x| vec![of_scores(&x[0].to_vec::<f64>())],
                )
                .input(&x_shape, range.clone()),
            );
            // nll_loss gets the log softmax of the scores, so that its losses are the same.
            samples.push(
                Sample::new(
                    "nll_loss",
                    move |x| {
                        let axis = if x[0].rank() == 1 { 0 } else { 1 };
                        let p = log_softmax(&x[0], axis);
                        let t = beside(x, &targets);
                        vec![nll_loss_with(p, t, options(reduction, weighted, x))]
                    },
                    move |x| vec![reference(&x[0].to_vec::<f64>())],
                )
                .input(&x_shape, range.clone()),
            );
        }
    }
    for (reduction, weighted) in [(Reduction::Mean, false), (Reduction::None, true)] {
        let reference = move |x: &[Array]| {
            let (x, t) = (x[0].to_vec::<f64>(), x[1].to_vec::<f64>());
            let losses: Vec<f64> = (0..2)
                .map(|i| {
                    let total: f64 = (0..3).map(|c| x[i * 3 + c].exp()).sum();
                    let terms = (0..3).map(|c| {
                        let factor = if weighted { weight[c] } else { 1.0 };
                        factor * t[i * 3 + c] * (total.ln() - x[i * 3 + c])
                    });
                    terms.sum()
                })
                .collect();
            vec![match reduction {
                Reduction::None => Array::from(losses),
                _ => Array::scalar(losses.iter().sum::<f64>() / 2.0),
            }]
        };
        samples.push(
            Sample::new(
                "softmax_cross_entropy",
                move |x| {
                    let options = options(reduction, weighted, x);
                    vec![softmax_cross_entropy_with(&x[0], &x[1], &options)]
                },
                reference,
            )
            .input([2, 3], range.clone())
            .input([2, 3], 0.1..0.9),
        );
    }
    for weighted in [false, true] {
        let smoothed =
            move |x: &[Variable]| options(Reduction::Mean, weighted, x).label_smoothing(0.3);
        let targets = Variable::constant([[1i64, 2], [-1, 0]]);
        let of_log_p = targets.clone();
        let reference = move |x: &[Array]| {
            let x = x[0].to_vec::<f64>();
            let t = [1i64, 2, -1, 0];
            let all = [0i64, 1, 2].map(|class| losses(&x, &[class; 4], 2, weighted));
            let own = losses(&x, &t, 2, weighted).into_iter().enumerate();
            let total: f64 = own
                .filter(|&(place, _)| t[place] != -1)
                .map(|(place, own)| {
                    0.7 * own + 0.1 * all.iter().map(|losses| losses[place]).sum::<f64>()
                })
                .sum();
            vec![Array::scalar(total / if weighted { 4.0 } else { 3.0 })]
        };
        samples.push(
            Sample::new(
                "softmax_cross_entropy",
                move |x| {
                    vec![softmax_cross_entropy_with(
                        &x[0],
                        beside(x, &targets),
                        smoothed(x),
                    )]
                },
                reference,
            )
            .input([2, 3, 2], range.clone()),
        );
        samples.push(
            Sample::new(
                "nll_loss",
                move |x| {
                    let p = log_softmax(&x[0], 1);
                    vec![nll_loss_with(p, beside(x, &of_log_p), smoothed(x))]
                },
                reference,
            )
            .input([2, 3, 2], range.clone()),
        );
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::vmap;
    use crate::transformations::grad;
    use crate::{attempt, gradients, s};

    type Loss<'a> = &'a dyn Fn(&Variable, &Variable) -> Variable;

    #[test]
    fn an_infinite_score_is_certain() {
        let x = Variable::new([[f64::INFINITY, 1.0, f64::NEG_INFINITY]]);
        let loss = softmax_cross_entropy(&x, Variable::constant([0i64]));
        assert_eq!(loss.item::<f64>(), 0.0);
        let gradients = gradients(&[&loss], &[&x]);
        let gradient = gradients[0].as_ref().expect("a gradient");
        assert_eq!(gradient.to_vec::<f64>(), [0.0; 3]);
        let wrong = softmax_cross_entropy(&x, Variable::constant([1i64]));
        assert_eq!(wrong.item::<f64>(), f64::INFINITY);
        let x = Variable::new([[1.0, 1.0, f64::NEG_INFINITY]]);
        let loss = softmax_cross_entropy(&x, Variable::constant([[1.0, 0.0, 0.0]]));
        assert_eq!(loss.item::<f64>(), 2f64.ln());
        let gradients = crate::gradients(&[&loss], &[&x]);
        let gradient = gradients[0].as_ref().expect("a gradient");
        assert_eq!(gradient.to_vec::<f64>(), [-0.5, 0.5, 0.0]);
    }

    #[test]
    fn certain_scores_have_no_second_derivative() {
        for x in [[f64::INFINITY, 1.0], [1e4, 0.0]] {
            let x = Variable::new([x]);
            let t = Variable::constant([1i64]);
            let loss = |x: &Variable| softmax_cross_entropy(x, &t);
            for i in 0..2 {
                let second = grad(|x| grad(loss, x).slice(s![0, i]).sum(..), &x);
                assert_eq!(second.to_vec::<f64>(), [0.0; 2]);
            }
        }
    }

    #[test]
    fn the_sum_over_many_classes_is_beyond_the_range_of_16_bits() {
        for dtype in [DType::F16, DType::BF16] {
            let x = Variable::new(Array::zeros([1, 80_000], dtype));
            let loss = softmax_cross_entropy(&x, Variable::constant([3i64]));
            assert!((loss.array().cast(DType::F32).item::<f32>() - 80_000f32.ln()).abs() < 0.05);
            let gradient = gradients(&[&loss], &[&x]).remove(0).expect("a gradient");
            assert_eq!(gradient.dtype(), dtype);
            let gradient = gradient.to_vec::<f32>();
            assert_eq!(gradient[3], -1.0);
            assert!((gradient[0] * 80_000.0 - 1.0).abs() < 0.01);
        }
    }

    #[test]
    fn classes_may_have_batch_elements_too() {
        let x = Variable::new([[1.0, 2.0, 3.0], [0.0, 5.0, 1.0]]);
        let t = Variable::constant([2i64, 1]);
        let whole = softmax_cross_entropy_with(&x, &t, Reduction::None);
        let batch = vmap(
            |v| vec![softmax_cross_entropy(&v[0], &v[1])],
            &[x, t],
            &[Some(0), Some(0)],
        );
        assert_eq!(batch[0].to_vec::<f64>(), whole.to_vec::<f64>());
        // One row of scores for every class.
        let batch = vmap(
            |v| {
                vec![softmax_cross_entropy(
                    Variable::constant([0.0, 1.0, 2.0]),
                    &v[0],
                )]
            },
            &[Variable::constant([0i64, 1, 2])],
            &[Some(0)],
        );
        let steps = batch[0].to_vec::<f64>();
        assert!(
            (steps[0] - steps[1] - 1.0).abs() < 1e-15 && (steps[1] - steps[2] - 1.0).abs() < 1e-15
        );
    }

    #[test]
    fn both_gradients_agree_and_ignored_examples_have_none() {
        let x = Variable::new([[1.0, -2.0, 300.0], [0.5, 0.25, 1.0], [1.0, 2.0, 3.0]]);
        let t = Variable::constant([0i64, 2, -1]);
        let loss = softmax_cross_entropy(&x, &t);
        let fused = gradients(&[&loss], &[&x])[0].clone().unwrap();
        let options = crate::GradOptions::new().create_graph();
        let composed = crate::gradients_with(&[&loss], &[&x], &options)[0]
            .clone()
            .unwrap();
        let (fused, composed) = (fused.to_vec::<f64>(), composed.to_vec::<f64>());
        for (a, b) in fused.iter().zip(&composed) {
            assert!((a - b).abs() < 1e-15, "{fused:?} {composed:?}");
        }
        assert_eq!(fused[6..], [0.0; 3]);
    }

    #[test]
    fn nothing_but_ignored_examples_is_zero() {
        let x = Variable::new([[1.0f32, 2.0]]);
        let loss = softmax_cross_entropy(&x, Variable::constant([-1i64]));
        assert_eq!(loss.item::<f32>(), 0.0);
        let none = Variable::new(Array::zeros([0, 3], DType::F32));
        let loss = softmax_cross_entropy(&none, Variable::constant(Array::zeros([0], DType::I64)));
        assert_eq!(loss.item::<f32>(), 0.0);
    }

    #[test]
    fn one_example_has_one_loss_without_axes() {
        let x = Variable::new([[1.0, 2.0, 3.0], [0.0, 5.0, 1.0]]);
        let t = Variable::constant([2i64, -1]);
        let weighted = CrossEntropyOptions {
            reduction: Reduction::None,
            class_weight: Some(Variable::constant([1.0, 2.0, 3.0])),
            ..CrossEntropyOptions::new()
        };
        let probabilities = Variable::constant([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]]);
        for options in [CrossEntropyOptions::from(Reduction::None), weighted] {
            let losses: [Loss<'_>; 3] = [
                &|x, t| softmax_cross_entropy_with(x, t, &options),
                &|x, t| nll_loss_with(log_softmax(x, -1), t, &options),
                &|x, t| {
                    // The class number only selects a row.
                    let row = t
                        .less(0)
                        .where_(probabilities.take(1, 0), probabilities.take(0, 0));
                    softmax_cross_entropy_with(x, row, &options)
                },
            ];
            for loss in losses {
                let one = loss(&x.take(0, 0), &t.take(0, 0));
                assert_eq!(one.shape(), [0; 0]);
                let batch = vmap(
                    |v| vec![loss(&v[0], &v[1])],
                    &[x.clone(), t.clone()],
                    &[Some(0), Some(0)],
                );
                assert_eq!(batch[0].shape(), [2]);
                assert_eq!(batch[0].to_vec::<f64>()[0], one.item::<f64>());
            }
        }
    }

    #[test]
    fn factors_of_classes_divide_the_mean() {
        let x = Variable::new([[1.0, -2.0, 0.5], [0.5, 0.25, 1.0], [1.0, 2.0, 3.0]]);
        let t = Variable::constant([0i64, 2, -1]);
        let factors = Variable::new([0.5, 7.0, 2.0]);
        let with = |reduction, t: &Variable, factors: &Variable| {
            let options = CrossEntropyOptions {
                reduction,
                class_weight: Some(factors.clone()),
                ..CrossEntropyOptions::new()
            };
            softmax_cross_entropy_with(&x, t, options)
        };
        let each = with(Reduction::None, &t, &factors).to_vec::<f64>();
        let mean = with(Reduction::Mean, &t, &factors);
        assert!((mean.item::<f64>() - (each[0] + each[1]) / 2.5).abs() < 1e-15);
        // A common factor changes nothing: the mean is homogeneous of degree zero in the weights.
        let slope = gradients(&[&mean], &[&factors])[0].clone().unwrap();
        assert!((slope * &factors).sum(..).item::<f64>().abs() < 1e-15);
        let nothing = Variable::new([0.0; 3]);
        let ignored = Variable::constant([-1i64; 3]);
        for mean in [
            with(Reduction::Mean, &t, &nothing),
            with(Reduction::Mean, &ignored, &factors),
        ] {
            assert_eq!(mean.item::<f64>(), 0.0);
            assert_eq!(
                gradients(&[&mean], &[&x])[0]
                    .clone()
                    .unwrap()
                    .to_vec::<f64>(),
                [0.0; 9]
            );
        }
    }

    /// The numbers are PyTorch's, of `F.cross_entropy` with `label_smoothing=0.1`.
    #[test]
    fn smooth_labels() {
        let x = Variable::new([[1.0, -2.0, 0.5], [0.5, 0.25, 1.0], [1.0, 2.0, 3.0]]);
        let weight = Variable::constant([0.5, 7.0, 2.0]);
        let options = CrossEntropyOptions::new().label_smoothing(0.1);
        let classes = Variable::constant([0i64, 2, -1]);
        let loss = softmax_cross_entropy_with(&x, &classes, &options);
        assert!((loss.item::<f64>() - 0.6973839012350086).abs() < 1e-14);
        let options = options.class_weight(&weight);
        let loss = softmax_cross_entropy_with(&x, &classes, &options);
        assert!((loss.item::<f64>() - 1.141032189937559).abs() < 1e-14);
        let shares = Variable::constant([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.2, 0.3, 0.5]]);
        let loss = softmax_cross_entropy_with(&x, &shares, &options);
        assert!((loss.item::<f64>() - 6.789590338658449).abs() < 1e-14);
        let options = CrossEntropyOptions::new().label_smoothing(1.5);
        let message = attempt(|| softmax_cross_entropy_with(&x, &classes, &options)).unwrap_err();
        assert!(
            message.to_string().contains("`label_smoothing` is 1.5"),
            "{message}"
        );
    }

    #[test]
    fn mistakes_are_named() {
        let x = Variable::new([[1.0, 2.0]]);
        let message = |t: Variable| {
            let first = attempt(|| softmax_cross_entropy(&x, &t))
                .unwrap_err()
                .to_string();
            let second = attempt(|| nll_loss(&x, &t)).unwrap_err().to_string();
            (first, second)
        };
        let (first, second) = message(Variable::constant([2i64]));
        assert!(first.contains("no class 2 among 2") && second.contains("no class 2 among 2"));
        let (first, second) = message(Variable::constant([-2i64]));
        assert!(first.contains("no class -2") && second.contains("no class -2"));
        let (scores, t) = (
            Variable::new([[1.0, 2.0]; 3]),
            Variable::constant([-1i64, 1, 5]),
        );
        for found in [
            attempt(|| softmax_cross_entropy(&scores, &t)),
            attempt(|| nll_loss(&scores, &t)),
        ] {
            let found = found.unwrap_err().to_string();
            assert!(found.contains("no class 5 among 2"), "{found}");
            assert!(found.contains("; it is element 2"), "{found}");
        }
        let (first, second) = message(Variable::constant([0i64, 0]));
        assert!(
            first.contains("x [n, c, ..] = [1, 2] f64, t = [2] i64"),
            "{first}"
        );
        assert!(
            second.starts_with("nll_loss: inputs do not fit"),
            "{second}"
        );
        let options = CrossEntropyOptions {
            class_weight: Some(Variable::constant([1.0])),
            ..CrossEntropyOptions::new()
        };
        let t = Variable::constant([0i64]);
        let message = attempt(|| softmax_cross_entropy_with(&x, &t, &options)).unwrap_err();
        assert!(
            message.to_string().contains("class_weight [c] = [1] f64"),
            "{message}"
        );
    }
}
