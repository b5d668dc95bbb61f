//! RMSprop as Alex Graves used it: steps scaled by the variance of recent gradients, with momentum.

use bibun_array::math::Float;
use bibun_array::{Given, Number};

use super::rule::{ParameterStep, UpdateRule, rule};
use super::rule_optimizer::RuleOptimizer;

/// RMSprop with momentum and with the mean of the gradients subtracted. From `n = g = d = 0`:
///
/// ```text
/// n ← α n + (1 - α) gw²
/// g ← α g + (1 - α) gw
/// d ← μ d - η gw / √(n - g² + ε)
/// w ← w + d
/// ```
///
/// Source: Graves, "Generating sequences with recurrent neural networks", 2013, equations 38 to 41.
///
/// ```
/// use bibun::optimizers::{Optimizer, RmsPropGraves};
/// use bibun::Variable;
/// let w = Variable::new(0.0);
/// w.set_grad(&Variable::constant(-1.0));
/// RmsPropGraves::new(0.5).update(&w);
/// let variance = 0.05 - 0.05f64.powi(2);
/// assert!((w.item::<f64>() - 0.5 / (variance + 1e-4).sqrt()).abs() < 1e-12);
/// ```
pub type RmsPropGraves = RuleOptimizer<RmsPropGravesRule, 3, 5>;

impl RmsPropGraves {
    /// Creates the optimizer with learning rate η, which is `10⁻⁴` in the paper, and the paper's
    /// `α = 0.95`, `μ = 0.9`, `ε = 10⁻⁴`.
    ///
    /// # Panics
    /// Panics if the learning rate is negative or not finite.
    #[track_caller]
    pub fn new(learning_rate: f64) -> Self {
        Self::with_rule(learning_rate, RmsPropGravesRule::default())
    }
}

rule! {
    RmsPropGravesRule of RmsPropGraves {
        alpha(0.95) in Fraction: "decay rate α of the running averages";
        momentum(0.9) in NotNegative: "momentum μ";
        epsilon(1e-4) in NotNegative: "number ε added under the root";
    }
}

impl UpdateRule<3, 5> for RmsPropGravesRule {
    const NAME: &'static str = "RmsPropGraves";
    const STATE: [&'static str; 3] = ["n", "g", "d"];

    fn check(&self) -> Result<(), String> {
        self.check_options()
    }

    fn given(&self, step: &ParameterStep) -> [Given; 5] {
        let [alpha, rest] = [self.alpha, 1.0 - self.alpha];
        [step.learning_rate, self.epsilon, alpha, rest, self.momentum].map(Given::Number)
    }

    #[inline(always)]
    fn element<T: Float>(
        w: Number<T>,
        gw: Number<T>,
        [n, g, d]: [Number<T>; 3],
        [rate, epsilon, alpha, rest, momentum]: [Number<T>; 5],
    ) -> (Number<T>, [Number<T>; 3]) {
        let n = alpha * n + rest * gw * gw;
        let g = alpha * g + rest * gw;
        let d = momentum * d - rate * gw / (n - g * g + epsilon).sqrt();
        (w + d, [n, g, d])
    }
}
