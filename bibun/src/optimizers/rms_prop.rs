//! RMSprop: steps scaled by the size of recent gradients.

use bibun_array::math::Float;
use bibun_array::{Given, Number};

use super::rule::{ParameterStep, UpdateRule, rule};
use super::rule_optimizer::RuleOptimizer;

/// RMSprop: `ms ← α ms + (1 - α) gw²`, `w ← w - η gw / (√ms + ε)`, from `ms = 0`, the mean of squares.
///
/// ε is added to the root, as in PyTorch and Chainer; TensorFlow adds it under the root.
///
/// Source: Tieleman, Hinton, "Lecture 6.5 - rmsprop: divide the gradient by a running average of
/// its recent magnitude", Coursera, 2012.
///
/// ```
/// use bibun::optimizers::{Optimizer, RmsProp};
/// use bibun::Variable;
/// let w = Variable::new(0.0);
/// w.set_grad(&Variable::constant(-1000.0));
/// RmsProp::new(0.5).update(&w);
/// assert!((w.item::<f64>() - 5.0).abs() < 1e-8);
/// ```
pub type RmsProp = RuleOptimizer<RmsPropRule, 1, 4>;

impl RmsProp {
    /// Creates the optimizer with learning rate η, commonly 0.01, and `α = 0.99`, `ε = 10⁻⁸`.
    ///
    /// # Panics
    /// Panics if the learning rate is negative or not finite.
    #[track_caller]
    pub fn new(learning_rate: f64) -> Self {
        Self::with_rule(learning_rate, RmsPropRule::default())
    }
}

rule! {
    RmsPropRule of RmsProp {
        alpha(0.99) in Fraction: "decay rate α of the running average";
        epsilon(1e-8) in NotNegative: "number ε added to the root";
    }
}

impl UpdateRule<1, 4> for RmsPropRule {
    const NAME: &'static str = "RmsProp";
    const STATE: [&'static str; 1] = ["ms"];

    fn check(&self) -> Result<(), String> {
        self.check_options()
    }

    fn given(&self, step: &ParameterStep) -> [Given; 4] {
        [
            step.learning_rate,
            self.epsilon,
            self.alpha,
            1.0 - self.alpha,
        ]
        .map(Given::Number)
    }

    #[inline(always)]
    fn element<T: Float>(
        w: Number<T>,
        gw: Number<T>,
        [ms]: [Number<T>; 1],
        [rate, epsilon, alpha, rest]: [Number<T>; 4],
    ) -> (Number<T>, [Number<T>; 1]) {
        let ms = alpha * ms + rest * gw * gw;
        (w - rate * gw / (ms.sqrt() + epsilon), [ms])
    }
}
