//! The binomial distribution.

use bibun_array::{Generator, Shape};

use super::chance::Chance;
use super::parameters::{counts_to, described_by, parameters};
use super::quantiles::least_count;
use super::{Distribution, Statistic, Support};
use crate::Tree;
use crate::call::composite;
use crate::functions::condition::expect_everywhere;
use crate::functions::{
    Operand, betainc, broadcast_to, clip, greater_equal, is_finite, lgamma, logical_and, minimum,
    random_binomial, where_,
};
use crate::variable::Variable;

/// The binomial distribution: the number of successes among n trials of probability p.
///
/// ```
/// use bibun::distributions::{Binomial, Distribution};
/// let heads = Binomial::from_probs(4, 0.5);
/// assert!((heads.log_prob(2).item::<f64>() - 0.375f64.ln()).abs() < 1e-14);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Binomial {
    /// The number of trials n, as floats.
    pub total_count: Variable,
    chance: Chance,
}

impl Binomial {
    /// Creates the distribution from numbers of trials and probabilities of success, which broadcast.
    ///
    /// Gradients to 0 and 1 are limits from inside: infinite for values of probability 0.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast, a number of trials is not a whole number from 0 on, or a
    /// probability is not between 0 and 1.
    #[track_caller]
    pub fn from_probs(total_count: impl Into<Operand>, probs: impl Into<Operand>) -> Self {
        let _whole = composite("Binomial");
        let chance = Chance::from_probs("Binomial", probs.into());
        Self::of(total_count.into(), &chance)
    }

    /// Creates the distribution from numbers of trials and the logarithms of `p / (1 - p)`, which broadcast.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast, a number of trials is not a whole number from 0 on, or a logit
    /// is NaN.
    #[track_caller]
    pub fn from_logits(total_count: impl Into<Operand>, logits: impl Into<Operand>) -> Self {
        let _whole = composite("Binomial");
        let chance = Chance::from_logits("Binomial", logits.into());
        Self::of(total_count.into(), &chance)
    }

    #[track_caller]
    fn of(total_count: Operand, chance: &Chance) -> Self {
        let [total_count, given] = parameters("Binomial", [total_count, chance.given().into()]);
        let whole = total_count.equal(total_count.floor());
        let holds = logical_and(greater_equal(&total_count, 0.0), whole);
        let holds = logical_and(holds, is_finite(&total_count));
        expect_everywhere(
            "Binomial",
            "total_count",
            &total_count,
            &holds,
            "a whole number, not negative",
        );
        Self {
            total_count,
            chance: chance.replaced(given),
        }
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

    /// The entropy of n separate trials, less that of the order in which counts can come: a sum over all counts.
    fn sum_of_entropy(&self) -> Variable {
        let (n, h) = (&self.total_count, self.chance.entropy());
        let most = match n.size() {
            0 => 0.0,
            _ => n.max(..).item::<f64>(),
        };
        // Where all outcomes are the same, there is one order, and the slope is that of the trials.
        let (is_certain, chance) = self.chance.uncertain();
        let held = Self {
            total_count: n.clone(),
            chance,
        };
        let k = minimum(counts_to(most as usize, n), n);
        let is_new = counts_to(most as usize, n).less_equal(n);
        let weights = where_(is_new, held.log_density(&k).exp(), 0.0);
        let orders = lgamma(n + 1.0) - (weights * (lgamma(&k + 1.0) + lgamma(n - &k + 1.0))).sum(0);
        where_(n.equal(0.0), 0.0, n * h) - where_(is_certain, 0.0, orders)
    }
}

impl Distribution for Binomial {
    described_by!(Binomial, chance);

    fn support(&self) -> Support {
        Support::CountsTo(self.total_count.clone())
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        let count = broadcast_to(&self.total_count, shape);
        random_binomial(count, self.probs(), generator)
    }

    fn log_density(&self, x: &Variable) -> Variable {
        let (n, rest) = (&self.total_count, &self.total_count - x);
        let choices = lgamma(n + 1.0) - lgamma(x + 1.0) - lgamma(&rest + 1.0);
        choices + self.chance.log_likelihood(x, &rest)
    }

    fn cumulative(&self, x: &Variable) -> Option<Variable> {
        let n = &self.total_count;
        let k = x.floor();
        let inside = clip(minimum(&k, n - 1.0), 0.0, f64::INFINITY);
        let all = greater_equal(&k, n);
        let rest = where_(&all, 1.0, n - &inside);
        let part = betainc(rest, inside + 1.0, self.chance.of_zero());
        Some(where_(k.less(0.0), 0.0, where_(all, 1.0, part)))
    }

    fn quantile(&self, p: &Variable) -> Option<Variable> {
        let n = &self.total_count;
        let count = least_count(self, p, n)?;
        // The distribution function may round to 1 before.
        let is_all = logical_and(p.equal(1.0), self.probs().greater(0.0));
        Some(where_(is_all, n.detach(), count))
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        let (n, p) = (&self.total_count, self.probs());
        Some(match statistic {
            Statistic::Mean => n * p,
            Statistic::Variance => n * p * self.chance.of_zero(),
            Statistic::Mode => minimum(((n + 1.0) * p).floor(), n),
            Statistic::Entropy => self.sum_of_entropy(),
        })
    }
}
