//! Lion: the sign of a momentum.

use super::rule::{Real, Rule, Step};
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
pub type Lion = RuleOptimizer<LionRule, 1>;

impl Lion {
    /// With learning rate η, a third to a tenth of Adam's, and `β₁ = 0.9`, `β₂ = 0.99`, `λ = 0`.
    pub fn new(learning_rate: f64) -> Self {
        let rule = LionRule {
            betas: [0.9, 0.99],
            weight_decay: 0.0,
        };
        Self::with_rule(learning_rate, rule)
    }

    /// With other `β₁` and `β₂`.
    #[must_use]
    pub fn betas(self, first: f64, second: f64) -> Self {
        self.with(|rule| rule.betas = [first, second])
    }

    /// With another `λ`.
    #[must_use]
    pub fn weight_decay(self, weight_decay: f64) -> Self {
        self.with(|rule| rule.weight_decay = weight_decay)
    }
}

/// The rule of [`Lion`].
#[derive(Clone, Copy, Debug)]
pub struct LionRule {
    /// β₁ and β₂.
    pub betas: [f64; 2],
    /// λ.
    pub weight_decay: f64,
}

impl Rule<1> for LionRule {
    const STATE: [&'static str; 1] = ["m"];

    fn apply<T: Real>(&self, step: &Step, w: &mut [T], gw: &[T], [m]: [&mut [T]; 1]) {
        let [rate, decay] = [step.learning_rate, self.weight_decay].map(T::from_f64);
        let betas = self.betas.map(T::from_f64);
        let rests = self.betas.map(|beta| T::from_f64(1.0 - beta));
        for ((w, &gw), m) in w.iter_mut().zip(gw).zip(m) {
            let direction = (betas[0] * *m + rests[0] * gw).sign();
            *w = *w - rate * (direction + decay * *w);
            *m = betas[1] * *m + rests[1] * gw;
        }
    }
}
