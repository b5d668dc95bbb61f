//! SMORMS3: steps scaled by the agreement of recent gradients.

use bibun_array::math::Float;
use bibun_array::{Given, Number};

use super::rule::{ParameterStep, UpdateRule, rule};
use super::rule_optimizer::RuleOptimizer;

/// SMORMS3. From `g = v = 0` and `memory = 1`:
///
/// ```text
/// r = 1 / (memory + 1)
/// g ← (1 - r) g + r gw
/// v ← (1 - r) v + r gw²
/// x = g² / (v + ε)
/// memory ← 1 + memory (1 - x)
/// w ← w - gw min(η, x) / (√v + ε)
/// ```
///
/// Source: Simon Funk, "RMSprop loses to SMORMS3 - beware the epsilon!", 2015.
///
/// ```
/// use bibun::optimizers::{Optimizer, Smorms3};
/// use bibun::Variable;
/// let w = Variable::new(0.0);
/// w.set_grad(&Variable::constant(-1000.0));
/// Smorms3::new(0.1).update(&w);
/// assert!((w.item::<f64>() - 0.1 * 2f64.sqrt()).abs() < 1e-12);
/// ```
pub type Smorms3 = RuleOptimizer<Smorms3Rule, 3, 2>;

impl Smorms3 {
    /// Creates the optimizer with learning rate η, commonly 0.001, and `ε = 10⁻¹⁶`.
    ///
    /// # Panics
    /// Panics if the learning rate is negative or not finite.
    #[track_caller]
    pub fn new(learning_rate: f64) -> Self {
        Self::with_rule(learning_rate, Smorms3Rule::default())
    }
}

rule! {
    Smorms3Rule of Smorms3 {
        epsilon(1e-16) in NotNegative: "number ε added in the denominators";
    }
}

impl UpdateRule<3, 2> for Smorms3Rule {
    const NAME: &'static str = "Smorms3";
    const STATE: [&'static str; 3] = ["g", "v", "memory"];
    const INITIAL: [f64; 3] = [0.0, 0.0, 1.0];

    fn check(&self) -> Result<(), String> {
        self.check_options()
    }

    fn given(&self, step: &ParameterStep) -> [Given; 2] {
        [step.learning_rate, self.epsilon].map(Given::Number)
    }

    #[inline(always)]
    fn element<T: Float>(
        w: Number<T>,
        gw: Number<T>,
        [g, v, memory]: [Number<T>; 3],
        [rate, epsilon]: [Number<T>; 2],
    ) -> (Number<T>, [Number<T>; 3]) {
        let r = 1.0 / (memory + 1.0);
        let g = (1.0 - r) * g + r * gw;
        let v = (1.0 - r) * v + r * gw * gw;
        let x = g * g / (v + epsilon);
        let memory = 1.0 + memory * (1.0 - x);
        let w = w - gw * x.minimum(rate) / (v.sqrt() + epsilon);
        (w, [g, v, memory])
    }
}
