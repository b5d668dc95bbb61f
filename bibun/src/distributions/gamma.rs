//! The gamma distribution.

use bibun_array::{DType, Generator, Shape};

use super::parameters::{described_by, parameterized};
use super::{Distribution, Reparameterized, Statistic, Support};
use crate::functions::{
    broadcast_to, digamma, gammainc, gammaincinv, lgamma, maximum, random_log_gamma, xlogy,
};
use crate::variable::Variable;

parameterized! {
    /// The gamma distribution, with the density `βᵅ xᵅ⁻¹ exp(-βx) / Γ(α)` from 0 on. With `β = 1/2` it is
    /// the χ² distribution of `2α` degrees of freedom.
    ///
    /// ```
    /// use bibun::distributions::{Distribution, Gamma};
    /// let x = Gamma::new(3.0, 2.0);
    /// assert_eq!((x.mean().item::<f64>(), x.variance().item::<f64>()), (1.5, 0.75));
    /// ```
    Gamma {
        /// The shape α.
        concentration: expect_positive,
        /// The rate β.
        rate: expect_positive,
    }
}

impl Distribution for Gamma {
    described_by!(Gamma, rate);

    fn support(&self) -> Support {
        Support::NonNegative
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        let concentration = broadcast_to(&self.concentration, shape);
        // Where the number is too small, the smallest one, which has a density.
        let is_double = self.dtype() == DType::F64;
        let least = if is_double {
            f64::MIN_POSITIVE
        } else {
            f64::from(f32::MIN_POSITIVE)
        };
        let x = random_log_gamma(concentration, generator).exp() / &self.rate;
        x.clip(least, None)
    }

    fn log_density(&self, x: &Variable) -> Variable {
        let (a, b) = (&self.concentration, &self.rate);
        xlogy(a, b) + xlogy(a - 1.0, x) - b * x - lgamma(a)
    }

    fn cumulative(&self, x: &Variable) -> Option<Variable> {
        Some(gammainc(&self.concentration, &self.rate * maximum(x, 0.0)))
    }

    fn quantile(&self, p: &Variable) -> Option<Variable> {
        Some(gammaincinv(&self.concentration, p) / &self.rate)
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        let (a, b) = (&self.concentration, &self.rate);
        Some(match statistic {
            Statistic::Mean => a / b,
            Statistic::Variance => a / b.square(),
            Statistic::Mode => maximum(a - 1.0, 0.0) / b,
            Statistic::Entropy => a - b.log() + lgamma(a) + (1.0 - a) * digamma(a),
        })
    }
}

impl Reparameterized for Gamma {}
