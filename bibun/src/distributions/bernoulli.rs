//! The Bernoulli distribution.

use bibun_array::{Generator, Shape};

use super::chance::Chance;
use super::parameters::{described_by, uniforms};
use super::{Distribution, Statistic, Support};
use crate::Tree;
use crate::call::composite;
use crate::functions::{Operand, cast, full_like, greater_equal, where_};
use crate::variable::Variable;

/// The Bernoulli distribution: 1 with a probability p, else 0.
///
/// ```
/// use bibun::distributions::{Bernoulli, Distribution};
/// let coin = Bernoulli::from_probs([0.5, 1.0]);
/// assert_eq!(coin.log_prob(true).to_vec::<f64>(), [0.5f64.ln(), 0.0]);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Bernoulli {
    chance: Chance,
}

impl Bernoulli {
    /// Creates the distribution from probabilities of 1.
    ///
    /// Gradients to 0 and 1 are limits from inside: infinite for values of probability 0, and for the entropy.
    ///
    /// # Panics
    /// Panics if a probability is not between 0 and 1.
    #[track_caller]
    pub fn from_probs(probs: impl Into<Operand>) -> Self {
        let _whole = composite("Bernoulli");
        let chance = Chance::from_probs("Bernoulli", probs.into());
        Self { chance }
    }

    /// Creates the distribution from the logarithms of `p / (1 - p)`, the results of a network before the
    /// sigmoid.
    ///
    /// # Panics
    /// Panics if one is NaN.
    #[track_caller]
    pub fn from_logits(logits: impl Into<Operand>) -> Self {
        let _whole = composite("Bernoulli");
        let chance = Chance::from_logits("Bernoulli", logits.into());
        Self { chance }
    }

    /// Computes the probability of 1.
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

impl Distribution for Bernoulli {
    described_by!(Bernoulli, chance);

    fn support(&self) -> Support {
        Support::CountsTo(full_like(self.chance.given(), 1.0))
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        let u = uniforms(self.chance.given(), shape, generator);
        cast(u.less(self.probs()), self.dtype())
    }

    fn log_density(&self, x: &Variable) -> Variable {
        self.chance.log_likelihood(x, &(1.0 - x))
    }

    fn cumulative(&self, x: &Variable) -> Option<Variable> {
        let from_zero = where_(x.less(0.0), 0.0, self.chance.of_zero());
        Some(where_(greater_equal(x, 1.0), 1.0, from_zero))
    }

    fn quantile(&self, p: &Variable) -> Option<Variable> {
        let is_one = p.greater(self.chance.of_zero());
        Some(cast(is_one, self.dtype()))
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        let p = self.probs();
        Some(match statistic {
            Statistic::Mean => p,
            Statistic::Variance => p * self.chance.of_zero(),
            Statistic::Mode => cast(p.greater(0.5), self.dtype()),
            Statistic::Entropy => self.chance.entropy(),
        })
    }
}
