//! The geometric distribution.

use bibun_array::{Generator, Shape};

use super::bernoulli::{log_likelihood, logits, logits_of_probs};
use super::parameters::{described_by, exponentials};
use super::{Distribution, Statistic, Support};
use crate::Tree;
use crate::call::composite;
use crate::functions::condition::expect_everywhere;
use crate::functions::{Operand, full_like, log_sigmoid, maximum, sigmoid, where_, zeros_like};
use crate::variable::Variable;

/// The geometric distribution: the number of failures before the first success, with the probability
/// `(1 - p)ᵏ p` of `k = 0, 1, ...`.
///
/// ```
/// use bibun::distributions::{Distribution, Geometric};
/// assert_eq!(Geometric::from_probs(0.5).log_prob(2).item::<f64>(), 0.125f64.ln());
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Geometric {
    /// The logarithm of `p / (1 - p)`, for the probability p of success.
    pub logits: Variable,
}

impl Geometric {
    /// Creates the distribution from probabilities of success.
    ///
    /// # Panics
    /// Panics if a probability is not positive or above 1.
    #[track_caller]
    pub fn from_probs(probs: impl Into<Operand>) -> Self {
        let _whole = composite("Geometric");
        Self::of(logits_of_probs("Geometric", probs.into()))
    }

    /// Creates the distribution from the logarithms of `p / (1 - p)`.
    ///
    /// # Panics
    /// Panics if one is NaN or -∞.
    #[track_caller]
    pub fn from_logits(logits_: impl Into<Operand>) -> Self {
        let _whole = composite("Geometric");
        Self::of(logits("Geometric", logits_.into()))
    }

    #[track_caller]
    fn of(logits: Variable) -> Self {
        let holds = logits.greater(f64::NEG_INFINITY);
        let must = "that of a positive probability";
        expect_everywhere("Geometric", "the logit", &logits, &holds, must);
        Self { logits }
    }

    /// Computes the probability of success.
    #[track_caller]
    pub fn probs(&self) -> Variable {
        sigmoid(&self.logits)
    }
}

impl Distribution for Geometric {
    described_by!(Geometric, logits);

    fn support(&self) -> Support {
        Support::Counts
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        // The whole part of an exponential number of rate -log(1 - p).
        (exponentials(&self.logits, shape, generator) / -log_sigmoid(-&self.logits)).floor()
    }

    fn log_density(&self, x: &Variable) -> Variable {
        log_likelihood(&self.logits, &full_like(x, 1.0), x)
    }

    fn cumulative(&self, x: &Variable) -> Option<Variable> {
        let trials = maximum(x.floor() + 1.0, 0.0);
        let log = where_(trials.equal(0.0), 0.0, &trials * log_sigmoid(-&self.logits));
        Some(-log.expm1())
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        let (p, mean) = (self.probs(), (-&self.logits).exp());
        Some(match statistic {
            Statistic::Mean => mean,
            Statistic::Variance => mean / p,
            Statistic::Mode => zeros_like(&self.logits),
            Statistic::Entropy => -log_likelihood(&self.logits, &full_like(&mean, 1.0), &mean),
        })
    }
}
