//! Connectionist temporal classification.

use bibun_array::{Array, DType};

use super::band::log_band_scan;
use super::options::options;
use crate::call::composite;
use crate::error::{Error, mismatch, raise};
use crate::functions::condition::expect_everywhere;
use crate::functions::{
    Reduction, broadcast_to, cast, concat, cumsum, equal, expand_dims, full_like, gather,
    greater_equal, in_accumulator, less, less_equal, logical_and, logsumexp, maximum, not_equal,
    pad, reshape, slice, squeeze, stack, to_float, to_indices, where_,
};
use crate::s;
use crate::variable::Variable;

options! {
    /// Options of [`ctc_loss_with`]. A [`Reduction`] converts into them.
    ///
    /// ```
    /// use bibun::functions::CtcOptions;
    /// assert_eq!(CtcOptions::new().target_lengths([2i64, 1]).blank, 0);
    /// ```
    CtcOptions {
        /// The class number of the blank. Defaults to 0.
        blank: usize = 0,
        /// Whether infinite losses, of targets that do not fit into the time, are 0. Defaults to false.
        zero_infinity: bool = false,
        ;
        /// The number of time steps of each example, integers `[n]`; what is behind is ignored. Defaults to
        /// all.
        input_lengths,
        /// The number of labels of each example, integers `[n]`; what is behind is ignored. Defaults to all.
        target_lengths,
    }
}

/// Computes the mean loss of connectionist temporal classification: the negative logarithm of the
/// probability that the classes drawn at each time step are the labels t, where equal neighbours count
/// once and blanks (class 0) are left out afterwards.
///
/// The mean is over the examples, whose losses are divided by their number of labels first, as in
/// PyTorch.
///
/// Shapes: log probabilities `[n, time, c]`, such as those of
/// [`log_softmax`](crate::functions::log_softmax) over the last axis, and labels t `[n, s]` → `[]`; or
/// `[time, c]` and `[s]`, one example.
/// Types: log probabilities floats; integers give f64; t integers.
/// Gradient: to each log probability `-gy` times the probability that its class is drawn then, given the
/// labels; 0 where a loss is infinite.
/// Source: A. Graves, S. Fernández, F. Gomez and J. Schmidhuber, Connectionist temporal classification:
/// labelling unsegmented sequence data with recurrent neural networks, 2006.
///
/// # Panics
/// Panics if the shapes do not fit, there are no time steps, or a label is not a class number.
///
/// ```
/// use bibun::{functions::ctc_loss, Variable};
/// let log_p = Variable::new([[[0.25, 0.75], [0.5, 0.5]]]).log();
/// let loss = ctc_loss(&log_p, Variable::constant([[1i64]]));
/// let p = 0.75 * 0.5 + 0.75 * 0.5 + 0.25 * 0.5;        // the class twice, before or after a blank
/// assert!((loss.item::<f64>() + f64::ln(p)).abs() < 1e-15);
/// ```
#[track_caller]
pub fn ctc_loss(log_probabilities: impl Into<Variable>, t: impl Into<Variable>) -> Variable {
    ctc_loss_with(log_probabilities, t, Reduction::Mean)
}

/// Computes [`ctc_loss`] with options: another reduction, another blank, lengths of inputs and targets,
/// or zeros for infinite losses.
///
/// Shapes: as for [`ctc_loss`] → `[]`, or one loss for each example under [`Reduction::None`].
///
/// # Panics
/// Panics as [`ctc_loss`] does, or if there is no class with the number of the blank, or not one length
/// for each example that its time or labels have room for.
///
/// ```
/// use bibun::{functions::{ctc_loss_with, CtcOptions, Reduction}, Variable};
/// let log_p = Variable::new([[[0.25, 0.75], [0.5, 0.5]]]).log();
/// let options = CtcOptions::from(Reduction::None).input_lengths([1i64]);
/// let losses = ctc_loss_with(&log_p, Variable::constant([[1i64]]), options);
/// assert_eq!(losses.to_vec::<f64>(), [-0.75f64.ln()]);
/// ```
#[track_caller]
pub fn ctc_loss_with(
    log_probabilities: impl Into<Variable>,
    t: impl Into<Variable>,
    options: impl Into<CtcOptions>,
) -> Variable {
    let function = "ctc_loss";
    let _whole = composite(function);
    let (log_p, t) = (to_float(log_probabilities.into()), to_indices(t));
    let options = options.into();
    let (spec, t_spec) = (log_p.spec(), t.spec());
    let rank = spec.shape.rank();
    let fits = matches!(rank, 2 | 3)
        && t_spec.shape.rank() + 1 == rank
        && (rank == 2 || spec.shape[0] == t_spec.shape[0])
        && spec.shape[rank - 2] > 0;
    if !fits || t_spec.dtype != DType::I64 {
        let inputs = [
            ("log probabilities [n, time, c]", &spec),
            ("t [n, s]", &t_spec),
        ];
        mismatch(
            function,
            &inputs,
            "n must be equal, time positive, t integers",
        )
    }
    let (blank, classes) = (options.blank, spec.shape[rank - 1]);
    if blank >= classes {
        let what = format!("the blank is class {blank}, but there are only {classes} classes");
        raise(Error::argument(function, what));
    }
    let examples = t_spec.shape.removed(rank - 2);
    let lengths = |name, lengths: &Option<Variable>, least: usize, most: usize| {
        let lengths = to_indices(lengths.as_ref()?);
        if lengths.shape() != examples || lengths.dtype() != DType::I64 {
            let inputs = [("t [n, s]", &t_spec), (name, &lengths.spec())];
            mismatch(function, &inputs, "lengths must be integers [n]")
        }
        let (low, high) = (least as i64, most as i64);
        let fits = logical_and(greater_equal(&lengths, low), less_equal(&lengths, high));
        let must = format!("from {least} to {most}");
        expect_everywhere(function, name, &lengths, &fits, &must);
        Some(reshape(lengths, [examples.size(), 1]))
    };
    let input_lengths = lengths(
        "input_lengths",
        &options.input_lengths,
        0,
        spec.shape[rank - 2],
    );
    let target_lengths = lengths(
        "target_lengths",
        &options.target_lengths,
        0,
        t_spec.shape[rank - 2],
    );
    let count = examples.size();
    let t = reshape(t, [count, t_spec.shape[rank - 2]]);
    in_accumulator(log_p, |log_p| {
        let log_p = reshape(log_p, [count, spec.shape[rank - 2], classes]);
        let losses = losses(log_p, t, blank, input_lengths, target_lengths.as_ref());
        let losses = reshape(losses, &examples);
        let losses = match options.zero_infinity {
            true => where_(equal(&losses, f64::INFINITY), 0.0, losses),
            false => losses,
        };
        if options.reduction != Reduction::Mean {
            return options.reduction.of(losses);
        }
        let labels = match target_lengths {
            None => return Reduction::Mean.of(losses / t_spec.shape[rank - 2].max(1) as f64),
            Some(lengths) => maximum(reshape(lengths, &examples), 1),
        };
        let labels = cast(labels, losses.dtype());
        Reduction::Mean.of(losses / labels)
    })
}

/// Computes the losses `[n]` of log probabilities `[n, time, c]` and labels `[n, s]`, with lengths
/// `[n, 1]`.
///
/// The places of the labels, with blanks before, between and behind them, are `[n, 2s + 1]`. At each time
/// step, a place is reached from itself, from the one before, or from the one before that, unless it is a
/// blank or the label is the same. Places behind the end of a target lead nowhere.
#[track_caller]
fn losses(
    log_p: Variable,
    mut t: Variable,
    blank: usize,
    input_lengths: Option<Variable>,
    target_lengths: Option<&Variable>,
) -> Variable {
    const NEVER: f64 = f64::NEG_INFINITY;
    let [count, time, classes] = log_p.shape()[..] else {
        unreachable!("three axes")
    };
    let labels = t.shape()[1];
    let places = 2 * labels + 1;
    if let Some(lengths) = target_lengths {
        let number = cumsum(cast(equal(&t, &t), DType::I64), 1);
        t = where_(number.less_equal(lengths), t, blank);
    }
    let is_class = logical_and(greater_equal(&t, 0), less(&t, classes));
    let must = format!("class numbers from 0 to {}", classes - 1);
    expect_everywhere("ctc_loss", "t", &t, &is_class, &must);
    let own = full_like(t.slice(s![.., ..0]).sum(1), blank as i64);
    let between = full_like(&t, blank as i64);
    let pairs = reshape(stack([&between, &t], 2), [count, 2 * labels]);
    let classes = concat([&pairs, &reshape(own, [count, 1])], 1);
    let skips = match labels {
        0 => not_equal(&classes, &classes),
        _ => {
            let later = slice(&classes, s![.., 2..]);
            let differ = not_equal(&later, slice(&classes, s![.., ..places - 2]));
            let skips = logical_and(differ, not_equal(later, blank));
            pad(skips, &[(0, 0), (2, 0)], false)
        }
    };
    let at = broadcast_to(expand_dims(classes, 1), [count, time, places]);
    let emissions = gather(log_p, at, 2);
    // An alignment begins at the first blank or the first label.
    let start = Array::arange(0, (time * places) as i64).reshape([time, places]);
    let is_start = start.less(2).logical_or(start.greater_equal(places as i64));
    let is_start = is_start.to(emissions.device());
    let emissions = where_(is_start, emissions, NEVER);
    let reached = log_band_scan(emissions, skips);
    let reached = match &input_lengths {
        None => slice(reached, s![.., -1]),
        Some(lengths) => {
            let last = expand_dims(maximum(lengths - 1, 0), 2);
            let last = broadcast_to(last, [count, 1, places]);
            squeeze(gather(reached, last, 1), 1)
        }
    };
    // At the last blank, or at the last label before it.
    let ends = match target_lengths {
        Some(lengths) => {
            let last = lengths * 2;
            let reached = pad(reached, &[(0, 0), (1, 0)], NEVER);
            gather(reached, concat([&last, &(&last + 1)], 1), 1)
        }
        None => slice(reached, s![.., places - 2.min(places)..]),
    };
    let losses = -logsumexp(ends, 1);
    // Two places that are never reached share the cotangent of what follows from them, which is 0 only
    // where the end is reached.
    let losses = where_(equal(&losses, f64::INFINITY), f64::INFINITY, losses);
    let Some(lengths) = input_lengths else {
        return losses;
    };
    // Without any time, nothing but no labels is certain.
    let labels = target_lengths.map_or(full_like(&lengths, labels as i64), Variable::clone);
    let of_nothing = where_(equal(labels, 0), 0.0, f64::INFINITY);
    let of_nothing = cast(reshape(of_nothing, [count]), losses.dtype());
    where_(reshape(equal(lengths, 0), [count]), of_nothing, losses)
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::{Sample, beside};
    use bibun_array::Array;
    /// Adds up the probabilities of all sequences of classes that mean the labels.
    fn reference(log_p: &[f64], classes: usize, labels: &[i64], blank: i64) -> f64 {
        let time = log_p.len() / classes;
        let mut total = 0.0;
        for number in 0..classes.pow(time as u32) {
            let drawn: Vec<i64> = (0..time)
                .map(|step| (number / classes.pow(step as u32) % classes) as i64)
                .collect();
            let mut meant = drawn.clone();
            meant.dedup();
            meant.retain(|&class| class != blank);
            if meant == labels {
                let terms = drawn.iter().enumerate();
                let log: f64 = terms
                    .map(|(step, &class)| log_p[step * classes + class as usize])
                    .sum();
                total += log.exp();
            }
        }
        -total.ln()
    }
    let mut samples = Vec::new();
    for (reduction, blank, lengths) in [
        (Reduction::Mean, 0i64, None),
        (Reduction::None, 2, None),
        (Reduction::Mean, 0, Some(([4i64, 3], [2i64, 1]))),
        (Reduction::Sum, 2, Some(([3, 4], [1, 2]))),
    ] {
        let labels = match (blank, lengths) {
            (0, None) => [[1i64, 2], [1, 1]],
            (_, None) => [[0, 1], [1, 1]],
            (0, _) => [[1, 1], [2, -1]],
            _ => [[1, 7], [0, 0]],
        };
        let targets = Variable::constant(labels);
        let sample = Sample::new(
            "ctc_loss",
            move |x| {
                let mut options = CtcOptions::from(reduction).blank(blank as usize);
                if let Some((inputs, targets)) = lengths {
                    options = options
                        .input_lengths(beside(x, Variable::constant(inputs)))
                        .target_lengths(beside(x, Variable::constant(targets)));
                }
                vec![ctc_loss_with(&x[0], beside(x, &targets), options)]
            },
            move |x| {
                let x = x[0].to_vec::<f64>();
                let (times, counts) = lengths.unwrap_or(([4, 4], [2, 2]));
                let losses = [0, 1].map(|row| {
                    let log_p = &x[row * 12..][..times[row] as usize * 3];
                    let labels = &labels[row][..counts[row] as usize];
                    reference(log_p, 3, labels, blank)
                });
                let per_label = losses[0] / counts[0] as f64 + losses[1] / counts[1] as f64;
                vec![match reduction {
                    Reduction::None => Array::from(losses),
                    Reduction::Mean => Array::scalar(per_label / 2.0),
                    Reduction::Sum => Array::scalar(losses[0] + losses[1]),
                }]
            },
        );
        samples.push(sample.input([2, 4, 3], -2.0..-0.1));
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transformations::grad;
    use crate::{attempt, functions::log_softmax};
    use bibun_array::Array;

    fn scores(shape: [usize; 3]) -> Variable {
        let value = |i: usize| ((i * 37 % 101) as f64 - 50.5) / 25.0;
        let size = shape.iter().product();
        Variable::new(Array::from_vec((0..size).map(value).collect(), shape))
    }

    /// The gradient of the mean below, as PyTorch computes it.
    const SLOPES: [f64; 44] = [
        -0.015582202222364925,
        -0.11675558187154053,
        0.12284154995869585,
        0.00949623413520962,
        0.0015719121949586776,
        -0.01646537361548078,
        -0.01952304694904396,
        0.034416508369566064,
        0.05624412370670842,
        0.006401000648469331,
        -0.06567695247263824,
        0.0030318281174604935,
        -0.08213574675528662,
        0.10134558841493667,
        -0.05362635002921611,
        0.03441650836956607,
        -0.04648396754676932,
        0.004429474621312029,
        -0.043425383208338525,
        0.08547987613379582,
        -0.02968768318916965,
        0.10134558841493677,
        -0.1060744135953332,
        0.0344165083695661,
        -0.005746452874333199,
        0.006644211931968044,
        0.029187662109647888,
        -0.03008542116727273,
        -0.043873024119760094,
        0.00892127009715144,
        0.1842623249380437,
        -0.14931057091543504,
        -0.02482420482498111,
        -0.011557031018341234,
        0.02918766210964789,
        0.007193573733674453,
        -0.019815594907119385,
        -0.17545451235246773,
        0.18426232493804384,
        0.011007782321543275,
        -0.14190934817405523,
        -0.015498128136286494,
        0.0291876621096479,
        0.1282198142006938,
    ];

    /// The numbers are PyTorch's.
    #[test]
    fn as_in_pytorch() {
        let x = scores([2, 6, 4]);
        let t = Variable::constant([[1i64, 2, 2], [3, 1, 9]]);
        let options = CtcOptions::new()
            .input_lengths([6i64, 5])
            .target_lengths([3i64, 2]);
        let loss = |reduction| {
            let options = options.clone().reduction(reduction);
            ctc_loss_with(log_softmax(&x, -1), &t, options)
        };
        let losses = loss(Reduction::None).to_vec::<f64>();
        for (found, expected) in losses.iter().zip([7.956530972767209, 5.462282423436283]) {
            assert!((found - expected).abs() < 1e-13, "{losses:?}");
        }
        let mean = loss(Reduction::Mean);
        assert!((mean.item::<f64>() - 2.691659101320272).abs() < 1e-13);
        mean.backward();
        let slopes = x.grad().unwrap().to_vec::<f64>();
        for (found, expected) in slopes.iter().zip(SLOPES) {
            assert!((found - expected).abs() < 1e-14, "{slopes:?}");
        }
        assert_eq!(slopes[44..], [0.0; 4]);
    }

    #[test]
    fn what_does_not_fit_is_infinite_without_nan() {
        let x = scores([2, 2, 3]);
        let t = Variable::constant([[1i64, 1], [1, 2]]);
        let with = |x: &Variable, zero| {
            let options = CtcOptions::from(Reduction::None).zero_infinity(zero);
            ctc_loss_with(log_softmax(x, -1), &t, options)
        };
        assert_eq!(with(&x, false).to_vec::<f64>()[0], f64::INFINITY);
        assert_eq!(with(&x, true).to_vec::<f64>()[0], 0.0);
        for zero in [true, false] {
            let first = |x: &Variable| grad(|x| with(x, zero).sum(..), x);
            let slopes = first(&x).to_vec::<f64>();
            assert!(slopes[..6] == [0.0; 6] && slopes[6] != 0.0, "{slopes:?}");
            let second = grad(|x| first(x).square().sum(..), &x).to_vec::<f64>();
            assert!(second.iter().all(|x| x.is_finite()), "{second:?}");
        }
    }

    #[test]
    fn no_labels_are_blanks_only() {
        let x = scores([1, 3, 2]);
        let nothing = Variable::constant(Array::zeros([1, 0], DType::I64));
        let blanks: f64 = log_softmax(&x, -1).to_vec::<f64>().iter().step_by(2).sum();
        let found = ctc_loss(log_softmax(&x, -1), nothing).item::<f64>();
        assert!((found + blanks).abs() < 1e-15);
        let options = CtcOptions::new().target_lengths([0i64]);
        let found = ctc_loss_with(log_softmax(&x, -1), [[1i64, 1]], &options).item::<f64>();
        assert!((found + blanks).abs() < 1e-15);
        // One example has no axis for examples.
        let one = log_softmax(x.reshape([3, 2]), -1);
        let options = CtcOptions::from(Reduction::None).target_lengths(0i64);
        let found = ctc_loss_with(one, [1i64, 1], options);
        assert_eq!(found.shape().rank(), 0);
        assert!((found.item::<f64>() + blanks).abs() < 1e-15);
    }

    #[test]
    fn without_time_only_no_labels_are_possible() {
        let x = scores([3, 2, 2]);
        let options = CtcOptions::from(Reduction::None).input_lengths([0i64, 0, 2]);
        let options = options.target_lengths([0i64, 1, 1]);
        let loss = |x: &Variable| ctc_loss_with(log_softmax(x, -1), [[1i64], [1], [1]], &options);
        let found = loss(&x).to_vec::<f64>();
        assert!(
            found[..2] == [0.0, f64::INFINITY] && found[2].is_finite(),
            "{found:?}"
        );
        let slopes = grad(|x| loss(x).sum(..), &x).to_vec::<f64>();
        assert!(slopes[..8] == [0.0; 8] && slopes[8] != 0.0, "{slopes:?}");
    }

    #[test]
    fn mistakes_are_named() {
        let x = scores([2, 3, 2]);
        let message = |t: Variable, options: CtcOptions| {
            attempt(|| ctc_loss_with(&x, &t, options))
                .unwrap_err()
                .to_string()
        };
        let found = message(Variable::constant([[1i64]]), CtcOptions::new());
        assert!(found.contains("t [n, s] = [1, 1] i64"), "{found}");
        let t = Variable::constant([[1i64], [1]]);
        let found = message(t.clone(), CtcOptions::new().blank(2));
        assert!(
            found.contains("the blank is class 2, but there are only 2"),
            "{found}"
        );
        let found = message(t, CtcOptions::new().input_lengths([3i64]));
        assert!(found.contains("input_lengths = [1] i64"), "{found}");
    }
}
