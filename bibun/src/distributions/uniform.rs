//! The uniform distribution.

use bibun_array::{Generator, Shape};

use super::parameters::{described_by, parameters, uniforms};
use super::{Distribution, Reparameterized, Statistic, Support};
use crate::Tree;
use crate::call::composite;
use crate::functions::condition::expect_everywhere;
use crate::functions::{Operand, broadcast_to, clip, is_finite, logical_and};
use crate::variable::Variable;

/// The uniform distribution on an interval.
///
/// ```
/// use bibun::distributions::{Distribution, Uniform};
/// let x = Uniform::new(1.0, [2.0, 5.0]);
/// assert_eq!(x.mean().to_vec::<f64>(), [1.5, 3.0]);
/// ```
#[derive(Clone, Debug, Tree)]
pub struct Uniform {
    /// The lower end.
    pub low: Variable,
    /// The upper end, which is above the lower one.
    pub high: Variable,
}

impl Uniform {
    /// Creates the distribution from the ends of its interval, which broadcast.
    ///
    /// # Panics
    /// Panics if the shapes do not broadcast, an end is not finite, or the lower one is not below the upper
    /// one.
    #[track_caller]
    pub fn new(low: impl Into<Operand>, high: impl Into<Operand>) -> Self {
        let _whole = composite("Uniform");
        let [low, high] = parameters("Uniform", [low.into(), high.into()]);
        let holds = logical_and(low.less(&high), is_finite(&high - &low));
        expect_everywhere(
            "Uniform",
            "low",
            &low,
            &holds,
            "below high, at a finite distance",
        );
        Self { low, high }
    }
}

impl Distribution for Uniform {
    described_by!(Uniform, low);

    fn support(&self) -> Support {
        Support::Interval(self.low.clone(), self.high.clone())
    }

    fn draw(&self, shape: &Shape, generator: &mut Generator) -> Variable {
        &self.low + (&self.high - &self.low) * uniforms(&self.low, shape, generator)
    }

    fn log_density(&self, x: &Variable) -> Variable {
        let log = -(&self.high - &self.low).log();
        let shape = x
            .shape()
            .broadcast(&log.shape())
            .expect("the shapes have been checked");
        broadcast_to(log, shape)
    }

    fn cumulative(&self, x: &Variable) -> Option<Variable> {
        Some(clip((x - &self.low) / (&self.high - &self.low), 0.0, 1.0))
    }

    fn quantile(&self, p: &Variable) -> Option<Variable> {
        Some(&self.low + p * (&self.high - &self.low))
    }

    fn statistic(&self, statistic: Statistic) -> Option<Variable> {
        Some(match statistic {
            Statistic::Mean | Statistic::Mode => 0.5 * (&self.low + &self.high),
            Statistic::Variance => (&self.high - &self.low).square() / 12.0,
            Statistic::Entropy => (&self.high - &self.low).log(),
        })
    }
}

impl Reparameterized for Uniform {}
