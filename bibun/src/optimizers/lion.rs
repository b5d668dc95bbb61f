//! Lion: the sign of a momentum.

use bibun_array::math::Float;
use bibun_array::{Given, Number};

use super::rule::{ParameterStep, UpdateRule};
use super::rule_optimizer::RuleOptimizer;

/// Lion: `w ← w - η (sign(β₁ m + (1 - β₁) gw) + λ w)`, then `m ← β₂ m + (1 - β₂) gw`, from `m = 0`.
/// The sign of 0 is 0.
///
/// Source: Chen et al., "Symbolic discovery of optimization algorithms", 2023, algorithm 2.
///
/// ```
/// use bibun::optimizers::{Lion, Optimizer};
/// use bibun::Variable;
/// let w = Variable::new([0.0, 0.0]);
/// w.set_grad(&Variable::constant([0.001, -1000.0]));
/// Lion::new(0.5).update(&w);
/// assert_eq!(w.to_vec::<f64>(), [-0.5, 0.5]);
/// ```
pub type Lion = RuleOptimizer<LionRule, 1, 6>;

impl Lion {
    /// Creates the optimizer with learning rate η, commonly a third to a tenth of Adam's, and
    /// `β₁ = 0.9`, `β₂ = 0.99`, `λ = 0`.
    pub fn new(learning_rate: f64) -> Self {
        let rule = LionRule {
            betas: [0.9, 0.99],
            weight_decay: 0.0,
        };
        Self::with_rule(learning_rate, rule)
    }

    /// Sets `β₁` and `β₂`. They default to 0.9 and 0.99.
    #[must_use]
    pub fn betas(self, first: f64, second: f64) -> Self {
        self.with(|rule| rule.betas = [first, second])
    }

    /// Sets the weight decay `λ`. Defaults to 0.
    #[must_use]
    pub fn weight_decay(self, weight_decay: f64) -> Self {
        self.with(|rule| rule.weight_decay = weight_decay)
    }
}

/// The rule of [`Lion`].
#[derive(Clone, Copy, Debug)]
pub struct LionRule {
    /// The decay rates β₁ and β₂.
    pub betas: [f64; 2],
    /// The weight decay λ.
    pub weight_decay: f64,
}

impl UpdateRule<1, 6> for LionRule {
    const STATE: [&'static str; 1] = ["m"];

    fn given(&self, step: &ParameterStep) -> [Given; 6] {
        let [first, second] = self.betas;
        let rests = [1.0 - first, 1.0 - second];
        let given = [
            step.learning_rate,
            self.weight_decay,
            first,
            rests[0],
            second,
            rests[1],
        ];
        given.map(Given::Number)
    }

    #[inline(always)]
    fn element<T: Float>(
        w: Number<T>,
        gw: Number<T>,
        [m]: [Number<T>; 1],
        [rate, decay, beta_w, rest_w, beta_m, rest_m]: [Number<T>; 6],
    ) -> (Number<T>, [Number<T>; 1]) {
        let direction = (beta_w * m + rest_w * gw).sign();
        let w = w - rate * (direction + decay * w);
        (w, [beta_m * m + rest_m * gw])
    }
}
