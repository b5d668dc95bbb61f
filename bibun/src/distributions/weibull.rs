//! The Weibull distribution.

use bibun_array::{Generator, Shape};

use super::parameters::{EULER, described_by, exponentials, parameterized};
use super::{Distribution, Reparameterized, Statistic, Support};
use crate::functions::{lgamma, maximum, where_, xlogy};
use crate::variable::Variable;

parameterized! {
    /// The Weibull distribution, with the density `k/λ (x/λ)ᵏ⁻¹ exp(-(x/λ)ᵏ)` from 0 on.
    ///
    /// ```
    /// use bibun::distributions::{Distribution, Weibull};
    /// let x = Weibull::new(2.0, 3.0);
    /// assert!((x.cdf(2.0).item::<f64>() - (1.0 - (-1f64).exp())).abs() < 1e-15);
    /// ```
    Weibull {
        /// The scale λ.
        scale: expect_positive,
        /// The shape k.
        concentration: expect_positive,
    }
}

impl Weibull {
    /// The expected value of a power of x.
    pub(super) fn moment(&self, power: f64) -> Variable {
        self.scale.pow(power) * lgamma(1.0 + power / &self.concentration).exp()
    }
}

impl Distribution for Weibull {
    described_by!(Weibull, scale);

    fn support(&self) -> Support {
        Support::NonNegative
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        let x = exponentials(&self.scale, shape, generator);
        &self.scale * x.pow(self.concentration.reciprocal())
    }

    fn log_density(&self, x: &Variable) -> Variable {
        let (k, z) = (&self.concentration, x / &self.scale);
        (k / &self.scale).log() + xlogy(k - 1.0, &z) - z.pow(k)
    }

    fn cumulative(&self, x: &Variable) -> Option<Variable> {
        // Where the power is above 80, the result has long been 1, and so its derivatives 0.
        let z = maximum(x, 0.0) / &self.scale;
        let far = (&self.concentration * z.log()).greater(80f64.ln());
        let power = where_(&far, 1.0, z).pow(&self.concentration);
        Some(where_(far, 1.0, -(-power).expm1()))
    }

    fn quantile(&self, p: &Variable) -> Option<Variable> {
        let x = -(-p).log1p();
        Some(&self.scale * x.pow(self.concentration.reciprocal()))
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        let k = &self.concentration;
        Some(match statistic {
            Statistic::Mean => self.moment(1.0),
            Statistic::Variance => self.moment(2.0) - self.moment(1.0).square(),
            Statistic::Mode => {
                let above = k.greater(1.0);
                let base = where_(&above, (k - 1.0) / k, 1.0);
                where_(above, &self.scale * base.pow(k.reciprocal()), 0.0)
            }
            Statistic::Entropy => EULER * (1.0 - k.reciprocal()) + (&self.scale / k).log() + 1.0,
        })
    }
}

impl Reparameterized for Weibull {}
