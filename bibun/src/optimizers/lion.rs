//! Lion: the sign of a momentum.

use bibun_array::math::Float;
use bibun_array::{Given, Number};

use super::rule::{ParameterStep, UpdateRule, rule};
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
    ///
    /// # Panics
    /// Panics if the learning rate is negative or not finite.
    #[track_caller]
    pub fn new(learning_rate: f64) -> Self {
        Self::with_rule(learning_rate, LionRule::default())
    }
}

rule! {
    LionRule of Lion {
        betas(first: 0.9, second: 0.99) in Fraction: "decay rates β₁ and β₂";
        weight_decay(0.0) in NotNegative: "weight decay λ";
    }
}

impl UpdateRule<1, 6> for LionRule {
    const NAME: &'static str = "Lion";
    const STATE: [&'static str; 1] = ["m"];

    fn check(&self) -> Result<(), String> {
        self.check_options()
    }

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
