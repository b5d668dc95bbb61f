//! The binomial distribution.

use bibun_array::{Generator, Shape};

use super::bernoulli::{log_likelihood, logits, logits_of_probs};
use super::parameters::{described_by, parameters};
use super::{Distribution, Statistic, Support};
use crate::Tree;
use crate::call::composite;
use crate::functions::condition::expect_everywhere;
use crate::functions::{
    Operand, betainc, broadcast_to, clip, greater_equal, is_finite, lgamma, logical_and, minimum,
    random_binomial, sigmoid, where_,
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
    /// The logarithm of `p / (1 - p)`.
    pub logits: Variable,
}

impl Binomial {
    /// Creates the distribution from numbers of trials and probabilities of success, which broadcast.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast, a number of trials is not a whole number from 0 on, or a
    /// probability is not between 0 and 1.
    #[track_caller]
    pub fn from_probs(total_count: impl Into<Operand>, probs: impl Into<Operand>) -> Self {
        let _whole = composite("Binomial");
        Self::of(
            total_count.into(),
            logits_of_probs("Binomial", probs.into()),
        )
    }

    /// Creates the distribution from numbers of trials and the logarithms of `p / (1 - p)`, which broadcast.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast, a number of trials is not a whole number from 0 on, or a logit
    /// is NaN.
    #[track_caller]
    pub fn from_logits(total_count: impl Into<Operand>, logits_: impl Into<Operand>) -> Self {
        let _whole = composite("Binomial");
        Self::of(total_count.into(), logits("Binomial", logits_.into()))
    }

    #[track_caller]
    fn of(total_count: Operand, logits: Variable) -> Self {
        let [total_count, logits] = parameters("Binomial", [total_count, logits.into()]);
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
            logits,
        }
    }

    /// Computes the probability of success.
    #[track_caller]
    pub fn probs(&self) -> Variable {
        sigmoid(&self.logits)
    }
}

impl Distribution for Binomial {
    described_by!(Binomial, logits);

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
        choices + log_likelihood(&self.logits, x, &rest)
    }

    fn cumulative(&self, x: &Variable) -> Option<Variable> {
        let n = &self.total_count;
        let k = x.floor();
        let inside = clip(minimum(&k, n - 1.0), 0.0, f64::INFINITY);
        let all = greater_equal(&k, n);
        let rest = where_(&all, 1.0, n - &inside);
        let failures = sigmoid(-&self.logits);
        let part = betainc(rest, inside + 1.0, failures);
        Some(where_(k.less(0.0), 0.0, where_(all, 1.0, part)))
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        let (n, p) = (&self.total_count, self.probs());
        Some(match statistic {
            Statistic::Mean => n * p,
            Statistic::Variance => n * p * sigmoid(-&self.logits),
            Statistic::Mode => minimum(((n + 1.0) * p).floor(), n),
            Statistic::Entropy => return None,
        })
    }
}
