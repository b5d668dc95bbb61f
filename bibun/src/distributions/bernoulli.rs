//! The Bernoulli distribution.

use bibun_array::{Generator, Shape};

use super::parameters::{
    described_by, expect_probability, log_of_probability, parameter, times, uniforms,
};
use super::{Distribution, Statistic, Support};
use crate::Tree;
use crate::call::composite;
use crate::functions::condition::expect_everywhere;
use crate::functions::{
    Operand, cast, entr, full_like, greater_equal, is_nan, log_sigmoid, logical_not, logical_or,
    sigmoid, where_,
};
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
    /// The logarithm of `p / (1 - p)`.
    pub logits: Variable,
    /// p, if it was given.
    given: Option<Variable>,
}

/// A chance of two outcomes, 1 or 0, as distributions hold it.
pub(super) struct Chance<'a> {
    /// The logarithm of `p / (1 - p)`.
    pub(super) logits: &'a Variable,
    /// p itself, if it was given. At 0 and 1 the logits are infinite, and only it has derivatives.
    pub(super) given: Option<&'a Variable>,
}

impl Chance<'_> {
    /// Where p was given as 0 or 1.
    pub(super) fn ends(&self) -> Option<Variable> {
        let p = self.given?;
        Some(logical_or(p.equal(0.0), p.equal(1.0)))
    }

    /// What is computed from the logits, but from p itself at 0 and 1.
    pub(super) fn with_ends(
        &self,
        inside: Variable,
        at_ends: impl FnOnce(&Variable) -> Variable,
    ) -> Variable {
        let (Some(ends), Some(p)) = (self.ends(), self.given) else {
            return inside;
        };
        let p = where_(&ends, p, 0.5);
        where_(ends, at_ends(&p), inside)
    }

    /// The probability of 1.
    pub(super) fn of_one(&self) -> Variable {
        self.with_ends(sigmoid(self.logits), Variable::clone)
    }

    /// The probability of 0.
    pub(super) fn of_zero(&self) -> Variable {
        self.with_ends(sigmoid(-self.logits), |p| 1.0 - p)
    }

    /// `ones log p + zeros log(1 - p)`, where none of something counts as 0.
    pub(super) fn log_likelihood(&self, ones: &Variable, zeros: &Variable) -> Variable {
        let inside =
            times(ones, &log_sigmoid(self.logits)) + times(zeros, &log_sigmoid(-self.logits));
        self.with_ends(inside, |p| {
            weighted_log(ones, p) + weighted_log(zeros, &(1.0 - p))
        })
    }

    /// The entropy, whose slope at 0 and 1 is infinite.
    pub(super) fn entropy(&self) -> Variable {
        let inside = -(times(&sigmoid(self.logits), &log_sigmoid(self.logits))
            + times(&sigmoid(-self.logits), &log_sigmoid(-self.logits)));
        self.with_ends(inside, |p| entr(p) + entr(1.0 - p))
    }

    /// The divergence from another one.
    pub(super) fn kl_to(&self, q: &Self) -> Variable {
        let of_ones = log_sigmoid(self.logits) - log_sigmoid(q.logits);
        let of_zeros = log_sigmoid(-self.logits) - log_sigmoid(-q.logits);
        let inside =
            times(&sigmoid(self.logits), &of_ones) + times(&sigmoid(-self.logits), &of_zeros);
        let ends = match (self.ends(), q.ends()) {
            (None, None) => return inside,
            (Some(ends), None) | (None, Some(ends)) => ends,
            (Some(of_p), Some(of_q)) => logical_or(of_p, of_q),
        };
        let [p, q] = [self, q].map(|chance| where_(&ends, chance.of_one(), 0.5));
        let cross = weighted_log(&p, &q) + weighted_log(&(1.0 - &p), &(1.0 - q));
        where_(ends, -(entr(&p) + entr(1.0 - p) + cross), inside)
    }
}

/// `count log p`, and 0 for no count, with all derivatives by p.
fn weighted_log(count: &Variable, p: &Variable) -> Variable {
    count * where_(count.equal(0.0), 1.0, p).log()
}

/// Returns `log(p / (1 - p))` and p after a check.
#[track_caller]
pub(super) fn logits_of_probs(name: &'static str, probs: Operand) -> (Variable, Variable) {
    let p = parameter(name, probs);
    expect_probability(name, "probs", &p);
    let logits = log_of_probability(&p) - log_of_probability(&(1.0 - &p));
    (logits, p)
}

/// Returns logits after a check.
#[track_caller]
pub(super) fn logits(name: &'static str, logits: Operand) -> Variable {
    let x = parameter(name, logits);
    expect_everywhere(name, "logits", &x, &logical_not(is_nan(&x)), "a number");
    x
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
        let (logits, given) = logits_of_probs("Bernoulli", probs.into());
        Self {
            logits,
            given: Some(given),
        }
    }

    /// Creates the distribution from the logarithms of `p / (1 - p)`, the results of a network before the
    /// sigmoid.
    ///
    /// # Panics
    /// Panics if one is NaN.
    #[track_caller]
    pub fn from_logits(logits_: impl Into<Operand>) -> Self {
        let _whole = composite("Bernoulli");
        Self {
            logits: logits("Bernoulli", logits_.into()),
            given: None,
        }
    }

    /// Computes the probability of 1.
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

impl Distribution for Bernoulli {
    described_by!(Bernoulli, logits);

    fn support(&self) -> Support {
        Support::CountsTo(full_like(&self.logits, 1.0))
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        let u = uniforms(&self.logits, shape, generator);
        cast(u.less(self.probs()), self.dtype())
    }

    fn log_density(&self, x: &Variable) -> Variable {
        self.chance().log_likelihood(x, &(1.0 - x))
    }

    fn cumulative(&self, x: &Variable) -> Option<Variable> {
        let from_zero = where_(x.less(0.0), 0.0, self.chance().of_zero());
        Some(where_(greater_equal(x, 1.0), 1.0, from_zero))
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        let p = self.probs();
        Some(match statistic {
            Statistic::Mean => p,
            Statistic::Variance => p * self.chance().of_zero(),
            Statistic::Mode => cast(self.logits.greater(0.0), self.dtype()),
            Statistic::Entropy => self.chance().entropy(),
        })
    }
}
