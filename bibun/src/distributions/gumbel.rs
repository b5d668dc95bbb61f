//! The Gumbel distribution.

use std::f64::consts::PI;

use bibun_array::{Generator, Shape};

use super::parameters::{EULER, described_by, gumbels, parameterized};
use super::{Distribution, Reparameterized, Statistic, Support};
use crate::variable::Variable;

parameterized! {
    /// The Gumbel distribution of extremes, with the density `exp(-(z + exp(-z))) / β` for
    /// `z = (x - μ) / β`.
    ///
    /// ```
    /// use bibun::distributions::{Distribution, Gumbel};
    /// assert_eq!(Gumbel::new(0.0, 1.0).cdf(0.0).item::<f64>(), (-1f64).exp());
    /// ```
    Gumbel {
        /// The mode μ.
        loc: expect_finite,
        /// The scale β.
        scale: expect_positive,
    }
}

impl Distribution for Gumbel {
    described_by!(Gumbel, loc);

    fn support(&self) -> Support {
        Support::Real
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        &self.loc + &self.scale * gumbels(&self.loc, shape, generator)
    }

    fn log_density(&self, x: &Variable) -> Variable {
        let z = (x - &self.loc) / &self.scale;
        -(&z + (-&z).exp()) - self.scale.log()
    }

    fn cumulative(&self, x: &Variable) -> Option<Variable> {
        // Where exp(-z) would overflow, the result has long been 0, and so have its derivatives.
        let z = ((x - &self.loc) / &self.scale).clip(-80.0, None);
        Some((-(-z).exp()).exp())
    }

    fn quantile(&self, p: &Variable) -> Option<Variable> {
        Some(&self.loc - &self.scale * (-p.log()).log())
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        Some(match statistic {
            Statistic::Mean => &self.loc + EULER * &self.scale,
            Statistic::Variance => self.scale.square() * (PI * PI / 6.0),
            Statistic::Mode => self.loc.clone(),
            Statistic::Entropy => self.scale.log() + (1.0 + EULER),
        })
    }
}

impl Reparameterized for Gumbel {}
