//! The Poisson distribution.

use bibun_array::{DType, Generator, Shape};

use super::parameters::{HALF_LOG_TWO_PI, counts_to, described_by, parameterized};
use super::quantiles::least_count;
use super::{Distribution, Statistic, Support};
use crate::functions::{
    broadcast_to, entr, gammaincc, lgamma, logical_and, random_poisson, where_, xlogy,
};
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

impl Poisson {
    /// The entropy: a sum over counts up to a rate from which the series in powers of its reciprocal is exact.
    /// Source: R. J. Evans, J. Boersma, "The entropy of a Poisson distribution", 1988.
    fn sum_of_entropy(&self) -> Variable {
        let is_wide = self.dtype() == DType::F64;
        let (limit, most) = if is_wide { (200.0, 450) } else { (20.0, 80) };
        let rate = &self.rate;
        let is_large = rate.greater(limit);
        let large = where_(&is_large, rate, limit);
        let u = large.reciprocal();
        let series = &u * (1.0 / 12.0 + &u * (1.0 / 24.0 + &u * (19.0 / 360.0 + 9.0 / 80.0 * &u)));
        let of_large = 0.5 * large.log() + (0.5 + HALF_LOG_TWO_PI) - series;

        let small = where_(&is_large, 1.0, rate);
        // At 0 the sum is 0 with its slope, as all of its counts are above 1.
        let held = where_(small.equal(0.0), 1.0, &small);
        let log = lgamma(counts_to(most, rate) + 1.0);
        let weights = (counts_to(most, rate) * held.log() - &held - &log).exp();
        let sum = where_(small.equal(0.0), 0.0, (weights * log).sum(0));
        where_(is_large, of_large, entr(&small) + small + sum)
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

    fn quantile(&self, p: &Variable) -> Option<Variable> {
        let rate = &self.rate;
        // Nine deviations above the mean, and more where it is small, leave less than the last digit of 1.
        let count = least_count(self, p, &(rate + 9.0 * rate.sqrt() + 60.0).ceil())?;
        let has_no_end = logical_and(p.equal(1.0), rate.greater(0.0));
        Some(where_(has_no_end, f64::INFINITY, count))
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        Some(match statistic {
            Statistic::Mean | Statistic::Variance => self.rate.clone(),
            Statistic::Mode => self.rate.floor(),
            Statistic::Entropy => self.sum_of_entropy(),
        })
    }
}
