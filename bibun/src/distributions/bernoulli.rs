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
    Operand, cast, full_like, greater_equal, is_nan, log_sigmoid, logical_not, sigmoid, where_,
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
}

/// Returns `log(p / (1 - p))` after a check.
#[track_caller]
pub(super) fn logits_of_probs(name: &'static str, probs: Operand) -> Variable {
    let p = parameter(name, probs);
    expect_probability(name, "probs", &p);
    log_of_probability(&p) - log_of_probability(&(1.0 - &p))
}

/// Returns logits after a check.
#[track_caller]
pub(super) fn logits(name: &'static str, logits: Operand) -> Variable {
    let x = parameter(name, logits);
    expect_everywhere(name, "logits", &x, &logical_not(is_nan(&x)), "a number");
    x
}

/// `ones log p + zeros log(1 - p)`, where none of something counts as 0.
pub(super) fn log_likelihood(logits: &Variable, ones: &Variable, zeros: &Variable) -> Variable {
    times(ones, &log_sigmoid(logits)) + times(zeros, &log_sigmoid(-logits))
}

impl Bernoulli {
    /// Creates the distribution from probabilities of 1.
    ///
    /// # Panics
    /// Panics if a probability is not between 0 and 1.
    #[track_caller]
    pub fn from_probs(probs: impl Into<Operand>) -> Self {
        let _whole = composite("Bernoulli");
        Self {
            logits: logits_of_probs("Bernoulli", probs.into()),
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
        }
    }

    /// Computes the probability of 1.
    #[track_caller]
    pub fn probs(&self) -> Variable {
        sigmoid(&self.logits)
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
        log_likelihood(&self.logits, x, &(1.0 - x))
    }

    fn cumulative(&self, x: &Variable) -> Option<Variable> {
        let from_zero = where_(x.less(0.0), 0.0, sigmoid(-&self.logits));
        Some(where_(greater_equal(x, 1.0), 1.0, from_zero))
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        let p = self.probs();
        Some(match statistic {
            Statistic::Mean => p,
            Statistic::Variance => p * sigmoid(-&self.logits),
            Statistic::Mode => cast(self.logits.greater(0.0), self.dtype()),
            Statistic::Entropy => -log_likelihood(&self.logits, &p, &sigmoid(-&self.logits)),
        })
    }
}
