//! The geometric distribution.

use bibun_array::{Generator, Shape};

use super::chance::Chance;
use super::parameters::{described_by, exponentials};
use super::{Distribution, Statistic, Support};
use crate::Tree;
use crate::call::composite;
use crate::functions::condition::expect_everywhere;
use crate::functions::{Operand, cast, full_like, maximum, where_, zeros_like};
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
    chance: Chance,
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
        Self::of(Chance::from_probs("Geometric", probs.into()))
    }

    /// Creates the distribution from the logarithms of `p / (1 - p)`.
    ///
    /// # Panics
    /// Panics if one is NaN or -∞.
    #[track_caller]
    pub fn from_logits(logits: impl Into<Operand>) -> Self {
        let _whole = composite("Geometric");
        Self::of(Chance::from_logits("Geometric", logits.into()))
    }

    #[track_caller]
    fn of(chance: Chance) -> Self {
        let (what, given, bound) = match &chance {
            Chance::Probs(p) => ("the probability", p, 0.0),
            Chance::Logits(x) => ("the logit", x, f64::NEG_INFINITY),
        };
        let must = format!("greater than {bound}");
        expect_everywhere("Geometric", what, given, &given.greater(bound), &must);
        Self { chance }
    }

    /// Computes the probability of success.
    #[track_caller]
    pub fn probs(&self) -> Variable {
        self.chance.probs()
    }

    /// Computes the logarithm of `p / (1 - p)`.
    #[track_caller]
    pub fn logits(&self) -> Variable {
        self.chance.logits()
    }

    pub(super) fn chance(&self) -> &Chance {
        &self.chance
    }
}

impl Distribution for Geometric {
    described_by!(Geometric, chance);

    fn support(&self) -> Support {
        Support::Counts
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        // The whole part of an exponential number of rate -log(1 - p).
        let rate = -self.chance.log_of_zero();
        (exponentials(self.chance.given(), shape, generator) / rate).floor()
    }

    fn log_density(&self, x: &Variable) -> Variable {
        self.chance.log_likelihood(&full_like(x, 1.0), x)
    }

    fn cumulative(&self, x: &Variable) -> Option<Variable> {
        let trials = maximum(x.floor() + 1.0, 0.0);
        let (is_certain, held) = self.chance.uncertain();
        let inside = -(&trials * held.log_of_zero()).expm1();
        let failures = where_(trials.equal(0.0), 1.0, self.chance.of_zero()).pow(trials);
        let certain = 1.0 - failures;
        Some(where_(is_certain, certain, inside))
    }

    fn quantile(&self, p: &Variable) -> Option<Variable> {
        let (is_certain, held) = self.chance.uncertain();
        let trials = ((-p).log1p() / held.log_of_zero()).ceil();
        // The logarithms are rounded, so the count may be one more or one less.
        let least = maximum(trials - 2.0, 0.0).detach();
        let is_below = |k: &Variable| Some(cast(self.cumulative(k)?.less(p), self.dtype()));
        let count = &least + is_below(&least)? + is_below(&(&least + 1.0))?;
        Some(where_(is_certain, 0.0, count))
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        let p = self.probs();
        let mean = match &self.chance {
            Chance::Probs(p) => (1.0 - p) / p,
            Chance::Logits(x) => (-x).exp(),
        };
        Some(match statistic {
            Statistic::Mean => mean,
            Statistic::Variance => mean / p,
            Statistic::Mode => zeros_like(&p),
            Statistic::Entropy => match &self.chance {
                Chance::Probs(p) => self.chance.entropy() / p,
                // Of a probability that underflows, too.
                Chance::Logits(_) => -self.log_density(&mean),
            },
        })
    }
}
