//! Distributions over classes: by number, and as one-hot vectors.

use bibun_array::{DType, Generator, Shape, s};

use super::parameters::{gumbels, log_of_probability, parameter, times};
use super::{Distribution, Statistic, Support};
use crate::Tree;
use crate::call::composite;
use crate::error::{Error, raise};
use crate::functions::condition::expect_everywhere;
use crate::functions::{
    Operand, argmax, broadcast_to, cast, concat, cumsum, exp, expand_dims, flip, full_like, gather,
    greater, greater_equal, is_finite, less, log_softmax, logical_and, minimum, one_hot, squeeze,
    where_, zeros_like,
};
use crate::variable::Variable;

/// Returns the logarithms of probabilities `[.., k]` that sum to 1, after a check.
#[track_caller]
pub(super) fn log_probs_of_probs(name: &'static str, probs: Operand) -> Variable {
    let probs = classes(name, "probs", probs);
    let holds = logical_and(greater_equal(&probs, 0.0), is_finite(&probs));
    expect_everywhere(
        name,
        "probs",
        &probs,
        &holds,
        "a finite number, not negative",
    );
    let total = expand_dims(probs.sum(-1), -1);
    expect_everywhere(
        name,
        "the sum of probs",
        &total,
        &greater(&total, 0.0),
        "positive",
    );
    log_of_probability(&probs) - total.log()
}

/// Returns the logarithms of the probabilities that a softmax over the last axis makes of logits.
#[track_caller]
pub(super) fn log_probs_of_logits(name: &'static str, logits: Operand) -> Variable {
    let logits = classes(name, "logits", logits);
    let holds = less(&logits, f64::INFINITY);
    expect_everywhere(name, "logits", &logits, &holds, "a number, not ∞");
    let most = logits.max(-1);
    let holds = greater(&most, f64::NEG_INFINITY);
    expect_everywhere(
        name,
        "the largest of the logits",
        &most,
        &holds,
        "a number above -∞",
    );
    log_softmax(logits, -1)
}

#[track_caller]
fn classes(name: &'static str, what: &str, x: Operand) -> Variable {
    let x = parameter(name, x);
    if x.shape().last().is_none_or(|&classes| classes == 0) {
        let what = format!(
            "{what} has the shape {}; its last axis must have the classes",
            x.shape()
        );
        raise(Error::argument(name, what));
    }
    x
}

/// Returns the number of classes.
pub(super) fn count(log_probs: &Variable) -> usize {
    *log_probs.shape().last().expect("checked when it was made")
}

/// Returns the shape without the axis of classes.
pub(super) fn batch(log_probs: &Variable) -> Shape {
    let shape = log_probs.shape();
    shape.removed(shape.rank() - 1)
}

/// Draws class numbers of a shape that ends in that of the batch.
fn draw_classes(log_probs: &Variable, shape: &Shape, generator: &mut Generator) -> Variable {
    // The largest of the log-probabilities with Gumbel noise is each class with its probability.
    let all = shape.inserted(shape.rank(), count(log_probs));
    argmax(log_probs + gumbels(log_probs, &all, generator), -1)
}

/// `-Σ p log p`, with 0 for impossible classes.
fn entropy(log_probs: &Variable) -> Variable {
    -times(&exp(log_probs), log_probs).sum(-1)
}

/// Defines how a distribution over classes is made of their probabilities.
macro_rules! of_classes {
    ($Name:ident) => {
        impl $Name {
            /// Creates the distribution from weights `[.., k]`, which are divided by their sums.
            ///
            /// # Panics
            /// Panics if a weight is negative or not finite, or a sum is zero.
            #[track_caller]
            pub fn from_probs(probs: impl Into<Operand>) -> Self {
                let _whole = composite(stringify!($Name));
                let log_probs = log_probs_of_probs(stringify!($Name), probs.into());
                Self { log_probs }
            }

            /// Creates the distribution from the results `[.., k]` of a network before the softmax.
            ///
            /// # Panics
            /// Panics if a logit is NaN or ∞, or all are -∞.
            #[track_caller]
            pub fn from_logits(logits: impl Into<Operand>) -> Self {
                let _whole = composite(stringify!($Name));
                let log_probs = log_probs_of_logits(stringify!($Name), logits.into());
                Self { log_probs }
            }

            /// Computes the probabilities `[.., k]`.
            #[track_caller]
            pub fn probs(&self) -> Variable {
                exp(&self.log_probs)
            }
        }
    };
}

/// The distribution of a class number `0..k`.
///
/// Samples are i64. Drawing adds Gumbel noise to the logarithms (E. J. Gumbel, 1954).
///
/// ```
/// use bibun::distributions::{Categorical, Distribution};
/// let x = Categorical::from_probs([1.0, 1.0, 2.0]);
/// assert_eq!(x.log_prob([0, 2]).to_vec::<f64>(), [0.25f64.ln(), 0.5f64.ln()]);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Categorical {
    /// The logarithms of the probabilities `[.., k]`, which sum to 1 over the last axis.
    pub log_probs: Variable,
}

of_classes!(Categorical);

impl Categorical {
    /// The number that belongs to the class x, or to the nearest one, of numbers `[.., k]`.
    fn of_class(&self, numbers: &Variable, x: &Variable) -> Variable {
        let batch = self.batch_shape();
        let shape = x
            .shape()
            .broadcast(&batch)
            .expect("the shapes have been checked");
        let all = shape.inserted(shape.rank(), count(numbers));
        let most = (count(numbers) - 1) as f64;
        let class = cast(x.clip(0.0, most), DType::I64);
        let at = expand_dims(broadcast_to(class, &shape), -1);
        squeeze(gather(broadcast_to(numbers, all), at, -1), -1)
    }

    /// The probability up to each class. Where no class behind it is possible, it is 1 without rounding.
    fn sums(&self) -> Variable {
        let p = self.probs();
        let from_here = flip(cumsum(flip(&p, -1), -1), -1);
        let none = zeros_like(p.slice(s![..., ..1]));
        let behind = concat([&from_here.slice(s![..., 1..]), &none], -1);
        where_(behind.equal(0.0), 1.0, minimum(cumsum(p, -1), 1.0))
    }
}

impl Distribution for Categorical {
    fn name(&self) -> &'static str {
        "Categorical"
    }

    fn batch_shape(&self) -> Shape {
        batch(&self.log_probs)
    }

    fn dtype(&self) -> DType {
        self.log_probs.dtype()
    }

    fn support(&self) -> Support {
        let most = (count(&self.log_probs) - 1) as f64;
        Support::CountsTo(full_like(self.log_probs.max(-1), most))
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        draw_classes(&self.log_probs, shape, generator)
    }

    fn log_density(&self, x: &Variable) -> Variable {
        // Where there is nothing to check, a number out of range reads the nearest class.
        self.of_class(&self.log_probs, x)
    }

    fn cumulative(&self, x: &Variable) -> Option<Variable> {
        let up_to_class = self.of_class(&self.sums(), &x.floor());
        Some(where_(x.less(0.0), 0.0, up_to_class))
    }

    fn quantile(&self, p: &Variable) -> Option<Variable> {
        let is_below = self.sums().less(expand_dims(p, -1));
        Some(cast(is_below, self.dtype()).sum(-1))
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        Some(match statistic {
            // A class number has no value.
            Statistic::Mean | Statistic::Variance => return None,
            Statistic::Mode => argmax(&self.log_probs, -1),
            Statistic::Entropy => entropy(&self.log_probs),
        })
    }
}

/// The distribution of a class as a vector with a single 1.
///
/// ```
/// use bibun::distributions::{Distribution, OneHotCategorical};
/// let x = OneHotCategorical::from_probs([1.0, 1.0, 2.0]);
/// assert_eq!(x.log_prob([0.0, 0.0, 1.0]).item::<f64>(), 0.5f64.ln());
/// assert_eq!(x.mean().to_vec::<f64>(), [0.25, 0.25, 0.5]);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct OneHotCategorical {
    /// The logarithms of the probabilities `[.., k]`, which sum to 1 over the last axis.
    pub log_probs: Variable,
}

of_classes!(OneHotCategorical);

impl OneHotCategorical {
    fn one_hot(&self, class: Variable) -> Variable {
        one_hot(class, count(&self.log_probs), self.dtype())
    }
}

impl Distribution for OneHotCategorical {
    fn name(&self) -> &'static str {
        "OneHotCategorical"
    }

    fn batch_shape(&self) -> Shape {
        batch(&self.log_probs)
    }

    fn event_shape(&self) -> Shape {
        Shape::new(&[count(&self.log_probs)])
    }

    fn dtype(&self) -> DType {
        self.log_probs.dtype()
    }

    fn support(&self) -> Support {
        Support::OneHot
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        let shape = shape.removed(shape.rank() - 1);
        self.one_hot(draw_classes(&self.log_probs, &shape, generator))
    }

    fn log_density(&self, x: &Variable) -> Variable {
        times(x, &self.log_probs).sum(-1)
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        let p = self.probs();
        Some(match statistic {
            Statistic::Mean => p,
            Statistic::Variance => &p * (1.0 - &p),
            Statistic::Mode => self.one_hot(argmax(&self.log_probs, -1)),
            Statistic::Entropy => entropy(&self.log_probs),
        })
    }
}
