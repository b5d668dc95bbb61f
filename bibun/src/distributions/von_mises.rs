//! The von Mises distribution of angles.

use std::f64::consts::{PI, TAU};

use bibun_array::{Generator, Shape};

use super::parameters::{described_by, parameterized};
use super::{Distribution, Statistic, Support};
use crate::functions::{broadcast_to, i0e, i1e, random_von_mises, remainder};
use crate::variable::Variable;

parameterized! {
    /// The von Mises distribution of angles in radians, with the density `exp(κ cos(x - μ)) / 2π I₀(κ)`.
    ///
    /// Samples are on `[-π, π)`; a density belongs to every angle. The variance is the circular one,
    /// `1 - I₁(κ) / I₀(κ)`.
    ///
    /// ```
    /// use bibun::distributions::{Distribution, VonMises};
    /// let x = VonMises::new(0.0, 1.0);
    /// let turn = std::f64::consts::TAU;
    /// let (here, there) = (x.log_prob(0.5).item::<f64>(), x.log_prob(0.5 - turn).item::<f64>());
    /// assert!((here - there).abs() < 1e-12);
    /// ```
    VonMises {
        /// The mean direction μ, which is the mode, too.
        loc: expect_finite,
        /// The concentration κ; for large ones, `1/κ` is about the variance of a normal distribution.
        concentration: expect_positive,
    }
}

impl VonMises {
    /// The expected cosine of the angle from the mean direction.
    pub(super) fn mean_cosine(&self) -> Variable {
        i1e(&self.concentration) / i0e(&self.concentration)
    }

    /// `log 2π I₀(κ)`
    pub(super) fn log_normalizer(&self) -> Variable {
        i0e(&self.concentration).log() + &self.concentration + TAU.ln()
    }
}

impl Distribution for VonMises {
    described_by!(VonMises, loc);

    fn support(&self) -> Support {
        Support::Real
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        let x = random_von_mises(broadcast_to(&self.concentration, shape), generator);
        remainder(x + &self.loc + PI, TAU) - PI
    }

    fn log_density(&self, x: &Variable) -> Variable {
        // κ (cos d - 1) = -2κ sin²(d/2), which loses nothing near the mean.
        let half = (0.5 * (x - &self.loc)).sin();
        let log_normalizer = i0e(&self.concentration).log() + TAU.ln();
        -2.0 * &self.concentration * half.square() - log_normalizer
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        Some(match statistic {
            Statistic::Mean | Statistic::Mode => self.loc.clone(),
            Statistic::Variance => 1.0 - self.mean_cosine(),
            Statistic::Entropy => self.log_normalizer() - &self.concentration * self.mean_cosine(),
        })
    }
}
