//! The Laplace distribution.

use bibun_array::{Generator, Shape};

use super::parameters::{described_by, open_uniforms, parameterized};
use super::{Distribution, Reparameterized, Statistic, Support};
use crate::functions::{minimum, where_};
use crate::variable::Variable;

parameterized! {
    /// The Laplace distribution, with the density `exp(-|x - μ| / b) / 2b`.
    ///
    /// ```
    /// use bibun::distributions::{Distribution, Laplace};
    /// assert_eq!(Laplace::new(1.0, 3.0).variance().item::<f64>(), 18.0);
    /// ```
    Laplace {
        /// The mean μ, which is the median and the mode, too.
        loc: expect_finite,
        /// The mean distance b from the mean.
        scale: expect_positive,
    }
}

impl Laplace {
    /// The distance from the mean up to which the probability is p, for `scale` 1.
    fn standard_quantile(p: &Variable) -> Variable {
        // log 2p below the mean, -log 2(1 - p) above: each where it loses nothing.
        let below = p.less(0.5);
        let tail = where_(&below, p, 1.0 - p);
        let log = (2.0 * tail).log();
        where_(below, &log, -&log)
    }
}

impl Distribution for Laplace {
    described_by!(Laplace, loc);

    fn support(&self) -> Support {
        Support::Real
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        let u = open_uniforms(&self.loc, shape, generator);
        &self.loc + &self.scale * Self::standard_quantile(&u)
    }

    fn log_density(&self, x: &Variable) -> Variable {
        -((x - &self.loc).abs() / &self.scale) - (2.0 * &self.scale).log()
    }

    fn cumulative(&self, x: &Variable) -> Option<Variable> {
        let z = (x - &self.loc) / &self.scale;
        let tail = 0.5 * minimum(&z, -&z).exp();
        Some(where_(z.less(0.0), &tail, 1.0 - &tail))
    }

    fn quantile(&self, p: &Variable) -> Option<Variable> {
        Some(&self.loc + &self.scale * Self::standard_quantile(p))
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        Some(match statistic {
            Statistic::Mean | Statistic::Mode => self.loc.clone(),
            Statistic::Variance => 2.0 * self.scale.square(),
            Statistic::Entropy => 1.0 + (2.0 * &self.scale).log(),
        })
    }
}

impl Reparameterized for Laplace {}
