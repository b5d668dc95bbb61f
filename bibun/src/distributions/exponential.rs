//! The exponential distribution.

use bibun_array::{Generator, Shape};

use super::parameters::{described_by, exponentials, parameterized};
use super::{Distribution, Reparameterized, Statistic, Support};
use crate::functions::{maximum, zeros_like};
use crate::variable::Variable;

parameterized! {
    /// The exponential distribution, with the density `λ exp(-λx)` from 0 on.
    ///
    /// ```
    /// use bibun::distributions::{Distribution, Exponential};
    /// assert_eq!(Exponential::new(4.0).mean().item::<f64>(), 0.25);
    /// ```
    Exponential {
        /// The rate λ, which is the reciprocal of the mean.
        rate: expect_positive,
    }
}

impl Distribution for Exponential {
    described_by!(Exponential, rate);

    fn support(&self) -> Support {
        Support::NonNegative
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        exponentials(&self.rate, shape, generator) / &self.rate
    }

    fn log_density(&self, x: &Variable) -> Variable {
        self.rate.log() - &self.rate * x
    }

    fn cumulative(&self, x: &Variable) -> Option<Variable> {
        Some(-(-(&self.rate * maximum(x, 0.0))).expm1())
    }

    fn quantile(&self, p: &Variable) -> Option<Variable> {
        Some(-(-p).log1p() / &self.rate)
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        Some(match statistic {
            Statistic::Mean => self.rate.reciprocal(),
            Statistic::Variance => self.rate.reciprocal().square(),
            Statistic::Mode => zeros_like(&self.rate),
            Statistic::Entropy => 1.0 - self.rate.log(),
        })
    }
}

impl Reparameterized for Exponential {}
