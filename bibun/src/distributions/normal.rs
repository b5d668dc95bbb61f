//! The normal distribution, and that of its exponential.

use bibun_array::{Generator, Shape};

use super::parameters::{HALF_LOG_TWO_PI, described_by, normals, parameterized};
use super::{Distribution, Reparameterized, Statistic, Support};
use crate::functions::{ndtr, ndtri, where_};
use crate::variable::Variable;

parameterized! {
    /// The normal distribution, with the density `exp(-z²/2) / (σ √2π)` for `z = (x - μ) / σ`.
    ///
    /// ```
    /// use bibun::distributions::{Distribution, Normal};
    /// let x = Normal::new(1.0, 2.0);
    /// assert_eq!(x.cdf(1.0).item::<f64>(), 0.5);
    /// assert_eq!(x.variance().item::<f64>(), 4.0);
    /// ```
    Normal {
        /// The mean μ.
        loc: expect_finite,
        /// The standard deviation σ.
        scale: expect_positive,
    }
}

impl Distribution for Normal {
    described_by!(Normal, loc);

    fn support(&self) -> Support {
        Support::Real
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        &self.loc + &self.scale * normals(&self.loc, shape, generator)
    }

    fn log_density(&self, x: &Variable) -> Variable {
        let z = (x - &self.loc) / &self.scale;
        -0.5 * z.square() - self.scale.log() - HALF_LOG_TWO_PI
    }

    fn cumulative(&self, x: &Variable) -> Option<Variable> {
        Some(ndtr((x - &self.loc) / &self.scale))
    }

    fn quantile(&self, p: &Variable) -> Option<Variable> {
        Some(&self.loc + &self.scale * ndtri(p))
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        Some(match statistic {
            Statistic::Mean | Statistic::Mode => self.loc.clone(),
            Statistic::Variance => self.scale.square(),
            Statistic::Entropy => self.scale.log() + (0.5 + HALF_LOG_TWO_PI),
        })
    }
}

impl Reparameterized for Normal {}

parameterized! {
    /// The distribution of `exp(x)` for normally distributed x.
    ///
    /// ```
    /// use bibun::distributions::{Distribution, LogNormal};
    /// assert_eq!(LogNormal::new(0.0, 1.0).cdf(1.0).item::<f64>(), 0.5);
    /// ```
    LogNormal {
        /// The mean μ of the logarithm.
        loc: expect_finite,
        /// The standard deviation σ of the logarithm.
        scale: expect_positive,
    }
}

impl LogNormal {
    /// The distribution of the logarithm.
    pub(super) fn of_logarithm(&self) -> Normal {
        Normal {
            loc: self.loc.clone(),
            scale: self.scale.clone(),
        }
    }
}

impl Distribution for LogNormal {
    described_by!(LogNormal, loc);

    fn support(&self) -> Support {
        Support::Positive
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        self.of_logarithm().draw(shape, generator).exp()
    }

    fn log_density(&self, x: &Variable) -> Variable {
        let log = x.log();
        self.of_logarithm().log_density(&log) - log
    }

    fn cumulative(&self, x: &Variable) -> Option<Variable> {
        let outside = x.less_equal(0.0);
        let log = where_(&outside, 1.0, x).log();
        Some(where_(outside, 0.0, self.of_logarithm().cumulative(&log)?))
    }

    fn quantile(&self, p: &Variable) -> Option<Variable> {
        Some(self.of_logarithm().quantile(p)?.exp())
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        let variance = self.scale.square();
        Some(match statistic {
            Statistic::Mean => (&self.loc + 0.5 * variance).exp(),
            Statistic::Variance => variance.expm1() * (2.0 * &self.loc + &variance).exp(),
            Statistic::Mode => (&self.loc - variance).exp(),
            Statistic::Entropy => self.of_logarithm().statistic(statistic)? + &self.loc,
        })
    }
}

impl Reparameterized for LogNormal {}
