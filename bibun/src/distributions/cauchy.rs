//! The Cauchy distribution.

use std::f64::consts::PI;

use bibun_array::{Generator, Shape};

use super::parameters::{described_by, open_uniforms, parameterized};
use super::{Distribution, Reparameterized, Statistic, Support};
use crate::functions::{atan2, full_like, where_};
use crate::variable::Variable;

parameterized! {
    /// The Cauchy distribution, with the density `1 / (π γ (1 + z²))` for `z = (x - x₀) / γ`. It has no mean
    /// and no variance: both are NaN.
    ///
    /// ```
    /// use bibun::distributions::{Cauchy, Distribution};
    /// let x = Cauchy::new(0.0, 1.0);
    /// assert!((x.cdf(1.0).item::<f64>() - 0.75).abs() < 1e-15);
    /// assert!(x.mean().item::<f64>().is_nan());
    /// ```
    Cauchy {
        /// The median x₀, which is the mode, too.
        loc: expect_finite,
        /// The distance γ of the quartiles from the median.
        scale: expect_positive,
    }
}

impl Cauchy {
    /// The distance from the median up to which the probability is p, for `scale` 1.
    fn standard_quantile(p: &Variable) -> Variable {
        // tan π(p - ½) near the median, and ∓ 1 / tan πp for the tails, where p keeps its digits.
        let is_below = p.less(0.5);
        let tail = where_(&is_below, p, 1.0 - p);
        let far = tail.less(0.25);
        let of_tail = where_(&far, &tail, 0.25);
        let distance = (PI * of_tail).tan().reciprocal();
        let near = (PI * (where_(&far, 0.5, p) - 0.5)).tan();
        where_(far, where_(is_below, -&distance, &distance), near)
    }
}

impl Distribution for Cauchy {
    described_by!(Cauchy, loc);

    fn support(&self) -> Support {
        Support::Real
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        let u = open_uniforms(&self.loc, shape, generator);
        &self.loc + &self.scale * Self::standard_quantile(&u)
    }

    fn log_density(&self, x: &Variable) -> Variable {
        let z = (x - &self.loc) / &self.scale;
        -(PI * &self.scale).log() - z.square().log1p()
    }

    fn cumulative(&self, x: &Variable) -> Option<Variable> {
        // The angle of the point (-z, 1), which is small on the left.
        Some(atan2(1.0, (&self.loc - x) / &self.scale) / PI)
    }

    fn quantile(&self, p: &Variable) -> Option<Variable> {
        Some(&self.loc + &self.scale * Self::standard_quantile(p))
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        Some(match statistic {
            Statistic::Mode => self.loc.clone(),
            Statistic::Mean | Statistic::Variance => full_like(&self.loc, f64::NAN),
            Statistic::Entropy => (4.0 * PI * &self.scale).log(),
        })
    }
}

impl Reparameterized for Cauchy {}
