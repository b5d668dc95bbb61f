//! AdaDelta: steps in the units of the parameters.

use bibun_array::math::Float;
use bibun_array::{Given, Number};

use super::rule::{ParameterStep, UpdateRule, rule};
use super::rule_optimizer::RuleOptimizer;

/// AdaDelta. From `g = d = 0`:
///
/// ```text
/// g ← ρ g + (1 - ρ) gw²
/// s = gw √(d + ε) / √(g + ε)
/// d ← ρ d + (1 - ρ) s²
/// w ← w - η s
/// ```
///
/// The paper and Chainer have no learning rate, which corresponds to `η = 1`.
///
/// Source: Zeiler, "ADADELTA: an adaptive learning rate method", 2012, algorithm 1.
///
/// ```
/// use bibun::optimizers::{AdaDelta, Optimizer};
/// use bibun::Variable;
/// let w = Variable::new(0.0);
/// w.set_grad(&Variable::constant(-100.0));
/// AdaDelta::new(1.0).update(&w);
/// assert!((w.item::<f64>() - (1e-6f64 / 0.05).sqrt()).abs() < 1e-8);
/// ```
pub type AdaDelta = RuleOptimizer<AdaDeltaRule, 2, 4>;

impl AdaDelta {
    /// Creates the optimizer with learning rate η, which is 1 in the paper, and `ρ = 0.95`,
    /// `ε = 10⁻⁶`.
    ///
    /// # Panics
    /// Panics if the learning rate is negative or not finite.
    #[track_caller]
    pub fn new(learning_rate: f64) -> Self {
        Self::with_rule(learning_rate, AdaDeltaRule::default())
    }
}

rule! {
    AdaDeltaRule of AdaDelta {
        rho(0.95) in Fraction: "decay rate ρ of the running averages";
        epsilon(1e-6) in NotNegative: "number ε added under the roots";
    }
}

impl UpdateRule<2, 4> for AdaDeltaRule {
    const NAME: &'static str = "AdaDelta";
    const STATE: [&'static str; 2] = ["g", "d"];

    fn check(&self) -> Result<(), String> {
        self.check_options()
    }

    fn given(&self, step: &ParameterStep) -> [Given; 4] {
        [step.learning_rate, self.epsilon, self.rho, 1.0 - self.rho].map(Given::Number)
    }

    #[inline(always)]
    fn element<T: Float>(
        w: Number<T>,
        gw: Number<T>,
        [g, d]: [Number<T>; 2],
        [rate, epsilon, rho, rest]: [Number<T>; 4],
    ) -> (Number<T>, [Number<T>; 2]) {
        let g = rho * g + rest * gw * gw;
        let s = gw * (d + epsilon).sqrt() / (g + epsilon).sqrt();
        (w - rate * s, [g, rho * d + rest * s * s])
    }
}
