//! AdaGrad: steps scaled by all gradients so far.

use bibun_array::math::Float;
use bibun_array::{Given, Number};

use super::rule::{ParameterStep, UpdateRule, rule};
use super::rule_optimizer::RuleOptimizer;

/// AdaGrad: `h ← h + gw²`, `w ← w - η gw / (√h + ε)`, from `h = 0`.
///
/// Source: Duchi, Hazan, Singer, "Adaptive subgradient methods for online learning and stochastic
/// optimization", 2011, the diagonal form.
///
/// ```
/// use bibun::optimizers::{AdaGrad, Optimizer};
/// use bibun::Variable;
/// let w = Variable::new([1.0, 2.0]);
/// w.set_grad(&Variable::constant([0.001, 1000.0]));
/// AdaGrad::new(0.5).update(&w);
/// for (w, expected) in w.to_vec::<f64>().iter().zip([0.5, 1.5]) {
///     assert!((w - expected).abs() < 1e-5);
/// }
/// ```
pub type AdaGrad = RuleOptimizer<AdaGradRule, 1, 2>;

impl AdaGrad {
    /// Creates the optimizer with learning rate η, commonly 0.01, and `ε = 10⁻⁸`.
    ///
    /// # Panics
    /// Panics if the learning rate is negative or not finite.
    #[track_caller]
    pub fn new(learning_rate: f64) -> Self {
        Self::with_rule(learning_rate, AdaGradRule::default())
    }
}

rule! {
    AdaGradRule of AdaGrad {
        epsilon(1e-8) in NotNegative: "number ε added to the root";
    }
}

impl UpdateRule<1, 2> for AdaGradRule {
    const NAME: &'static str = "AdaGrad";
    const STATE: [&'static str; 1] = ["h"];

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
        [h]: [Number<T>; 1],
        [rate, epsilon]: [Number<T>; 2],
    ) -> (Number<T>, [Number<T>; 1]) {
        let h = h + gw * gw;
        (w - rate * gw / (h.sqrt() + epsilon), [h])
    }
}
