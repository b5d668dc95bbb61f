//! The Poisson distribution.

use bibun_array::{Generator, Shape};

use super::parameters::{described_by, parameterized};
use super::{Distribution, Statistic, Support};
use crate::functions::{broadcast_to, gammaincc, lgamma, random_poisson, where_, xlogy};
use crate::variable::Variable;

parameterized! {
    /// The Poisson distribution of counts, with the probability `λᵏ exp(-λ) / k!` of `k = 0, 1, ...`.
    ///
    /// ```
    /// use bibun::distributions::{Distribution, Poisson};
    /// assert_eq!(Poisson::new(3.0).log_prob(0).item::<f64>(), -3.0);
    /// ```
    Poisson {
        /// The mean λ.
        rate: expect_not_negative,
    }
}

impl Distribution for Poisson {
    described_by!(Poisson, rate);

    fn support(&self) -> Support {
        Support::Counts
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        random_poisson(broadcast_to(&self.rate, shape), generator)
    }

    fn log_density(&self, x: &Variable) -> Variable {
        xlogy(x, &self.rate) - &self.rate - lgamma(x + 1.0)
    }

    fn cumulative(&self, x: &Variable) -> Option<Variable> {
        let outside = x.less(0.0);
        let count = where_(&outside, 1.0, x.floor() + 1.0);
        Some(where_(outside, 0.0, gammaincc(count, &self.rate)))
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        Some(match statistic {
            Statistic::Mean | Statistic::Variance => self.rate.clone(),
            Statistic::Mode => self.rate.floor(),
            Statistic::Entropy => return None,
        })
    }
}
