//! The multinomial distribution.

use bibun_array::{DType, Generator, Shape, s};

use super::categorical::{batch, count, log_probs_of_logits, log_probs_of_probs};
use super::parameters::{counts_to, times};
use super::{Distribution, Statistic, Support};
use crate::Tree;
use crate::call::composite;
use crate::functions::{
    Operand, broadcast_to, clip, cumsum, exp, expand_dims, flip, full_like, is_inf, lgamma,
    log1mexp, logical_or, random_binomial, slice, stack, where_,
};
use crate::variable::Variable;

/// The multinomial distribution: the counts of k classes among n independent draws.
///
/// ```
/// use bibun::distributions::{Distribution, Multinomial};
/// let x = Multinomial::from_probs(3, [0.5, 0.5]);
/// assert!((x.log_prob([1, 2]).item::<f64>() - 0.375f64.ln()).abs() < 1e-14);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Multinomial {
    /// The number n of draws.
    pub total_count: usize,
    /// The logarithms of the probabilities `[.., k]`, which sum to 1 over the last axis.
    pub log_probs: Variable,
}

impl Multinomial {
    /// Creates the distribution from the number of draws and weights `[.., k]`, which are divided by their
    /// sums.
    ///
    /// # Panics
    /// Panics if a weight is negative or not finite, or a sum is zero.
    #[track_caller]
    pub fn from_probs(total_count: usize, probs: impl Into<Operand>) -> Self {
        let _whole = composite("Multinomial");
        Self {
            total_count,
            log_probs: log_probs_of_probs("Multinomial", probs.into()),
        }
    }

    /// Creates the distribution from the number of draws and the results `[.., k]` of a network before the
    /// softmax.
    ///
    /// # Panics
    /// Panics if a logit is NaN or ∞, or all are -∞.
    #[track_caller]
    pub fn from_logits(total_count: usize, logits: impl Into<Operand>) -> Self {
        let _whole = composite("Multinomial");
        Self {
            total_count,
            log_probs: log_probs_of_logits("Multinomial", logits.into()),
        }
    }

    /// Computes the probabilities `[.., k]`.
    #[track_caller]
    pub fn probs(&self) -> Variable {
        exp(&self.log_probs)
    }

    /// The entropy of n separate draws, less that of the order in which counts can come: a sum over the counts of each
    /// class.
    fn sum_of_entropy(&self) -> Variable {
        let n = self.total_count as f64;
        let of_draw = -times(&self.probs(), &self.log_probs).sum(-1);
        let all = lgamma(full_like(&of_draw, n + 1.0));
        // A class that is certain has all draws, one without probability has none.
        let is_certain = self.log_probs.equal(0.0);
        let is_end = logical_or(&is_certain, is_inf(&self.log_probs));
        let log = where_(&is_end, -1.0, &self.log_probs);
        let k = counts_to(self.total_count, &log);
        let rest = n - &k;
        let ways = lgamma(full_like(&k, n + 1.0)) - lgamma(&k + 1.0) - lgamma(&rest + 1.0);
        let weights = (ways + &k * &log + rest * log1mexp(-log)).exp();
        let of_certain = where_(is_certain, expand_dims(&all, -1), 0.0);
        let orders = where_(is_end, of_certain, (weights * lgamma(k + 1.0)).sum(0)).sum(-1);
        n * of_draw - (all - orders)
    }
}

impl Distribution for Multinomial {
    fn name(&self) -> &'static str {
        "Multinomial"
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
        let total = self.total_count as f64;
        Support::CountVectors(full_like(self.log_probs.max(-1), total))
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        // One class after the other: of those that are left, the count of a class is binomial with its
        // share of the probability that is left.
        let probs = broadcast_to(self.probs().detach(), shape);
        let left = flip(cumsum(flip(&probs, -1), -1), -1);
        let is_possible = left.greater(0.0);
        let share = clip(
            where_(&is_possible, &probs / where_(&is_possible, left, 1.0), 0.0),
            0.0,
            1.0,
        );
        let last = count(&self.log_probs) - 1;
        let mut rest = full_like(share.max(-1), self.total_count as f64);
        let mut counts = Vec::with_capacity(last + 1);
        for class in 0..last {
            let of_class = random_binomial(&rest, slice(&share, s![..., class]), generator);
            rest -= &of_class;
            counts.push(of_class);
        }
        counts.push(rest);
        stack(counts.iter().collect::<Vec<_>>(), -1)
    }

    fn log_density(&self, x: &Variable) -> Variable {
        let total = self.total_count as f64;
        let ways = lgamma(full_like(x.max(-1), total + 1.0)) - lgamma(x + 1.0).sum(-1);
        ways + times(x, &self.log_probs).sum(-1)
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        let (total, p) = (self.total_count as f64, self.probs());
        Some(match statistic {
            Statistic::Mean => total * p,
            Statistic::Variance => total * &p * (1.0 - &p),
            Statistic::Entropy => self.sum_of_entropy(),
            Statistic::Mode => return None,
        })
    }
}
