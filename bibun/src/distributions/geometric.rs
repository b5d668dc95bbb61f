//! The geometric distribution.

use bibun_array::{Generator, Shape};

use super::bernoulli::{Chance, logits, logits_of_probs};
use super::parameters::{described_by, exponentials, times};
use super::{Distribution, Statistic, Support};
use crate::Tree;
use crate::call::composite;
use crate::functions::condition::expect_everywhere;
use crate::functions::{Operand, entr, full_like, log_sigmoid, maximum, where_, zeros_like};
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
    /// p, if it was given.
    given: Option<Variable>,
}

impl Geometric {
    /// Creates the distribution from probabilities of success.
    ///
    /// Gradients to 1 are limits from inside: infinite for values of probability 0, and for the entropy.
    ///
    /// # Panics
    /// Panics if a probability is not positive or above 1.
    #[track_caller]
    pub fn from_probs(probs: impl Into<Operand>) -> Self {
        let _whole = composite("Geometric");
        let (logits, given) = logits_of_probs("Geometric", probs.into());
        Self::of(logits, Some(given))
    }

    /// Creates the distribution from the logarithms of `p / (1 - p)`.
    ///
    /// # Panics
    /// Panics if one is NaN or -∞.
    #[track_caller]
    pub fn from_logits(logits_: impl Into<Operand>) -> Self {
        let _whole = composite("Geometric");
        Self::of(logits("Geometric", logits_.into()), None)
    }

    #[track_caller]
    fn of(logits: Variable, given: Option<Variable>) -> Self {
        let holds = logits.greater(f64::NEG_INFINITY);
        let must = "that of a positive probability";
        expect_everywhere("Geometric", "the logit", &logits, &holds, must);
        Self { logits, given }
    }

    /// Computes the probability of success.
    #[track_caller]
    pub fn probs(&self) -> Variable {
        self.chance().of_one()
    }

    pub(super) fn chance(&self) -> Chance<'_> {
        Chance {
            logits: &self.logits,
            given: self.given.as_ref(),
        }
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
        self.chance().log_likelihood(&full_like(x, 1.0), x)
    }

    fn cumulative(&self, x: &Variable) -> Option<Variable> {
        let trials = maximum(x.floor() + 1.0, 0.0);
        let none = trials.equal(0.0);
        let log = where_(&none, 0.0, &trials * log_sigmoid(-&self.logits));
        Some(self.chance().with_ends(-log.expm1(), |p| {
            1.0 - where_(none, 1.0, 1.0 - p).pow(trials)
        }))
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        let (chance, p) = (self.chance(), self.probs());
        let mean = chance.with_ends((-&self.logits).exp(), |p| (1.0 - p) / p);
        Some(match statistic {
            Statistic::Mean => mean,
            Statistic::Variance => mean / p,
            Statistic::Mode => zeros_like(&self.logits),
            Statistic::Entropy => {
                let inside = log_sigmoid(&self.logits) + times(&mean, &log_sigmoid(-&self.logits));
                chance.with_ends(-inside, |p| (entr(p) + entr(1.0 - p)) / p)
            }
        })
    }
}
