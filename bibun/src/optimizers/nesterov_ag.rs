//! Nesterov's accelerated gradient.

use bibun_array::math::Float;
use bibun_array::{Given, Number};

use super::rule::{ParameterStep, UpdateRule};
use super::rule_optimizer::RuleOptimizer;
use super::settings::{Range, check};

/// Nesterov's accelerated gradient: `v ← μ v - η gw`, `w ← w + μ v - η gw`, from `v = 0`.
///
/// Here `w` is the look-ahead point, at which the gradient is taken, as in Chainer and PyTorch;
/// Sutskever et al. write the same for the point `w - μ v` behind it.
///
/// Source: Nesterov, "A method of solving a convex programming problem with convergence rate
/// O(1/k²)", 1983; Sutskever et al., "On the importance of initialization and momentum in deep
/// learning", ICML 2013; in this form, Bengio et al., "Advances in optimizing recurrent networks",
/// 2013.
///
/// ```
/// use bibun::optimizers::{NesterovAg, Optimizer};
/// use bibun::Variable;
/// let w = Variable::new(0.0);
/// w.set_grad(&Variable::constant(-1.0));
/// let mut optimizer = NesterovAg::new(0.5, 0.5);
/// optimizer.update(&w);
/// assert_eq!(w.item::<f64>(), 0.25 + 0.5);
/// ```
pub type NesterovAg = RuleOptimizer<NesterovAgRule, 1, 2>;

impl NesterovAg {
    /// Creates the optimizer with learning rate η and momentum μ, commonly 0.9.
    ///
    /// # Panics
    /// Panics if one of them is negative or not finite.
    #[track_caller]
    pub fn new(learning_rate: f64, momentum: f64) -> Self {
        Self::with_rule(learning_rate, NesterovAgRule { momentum })
    }
}

/// The rule of [`NesterovAg`].
#[derive(Clone, Copy, Debug)]
pub struct NesterovAgRule {
    /// The momentum μ.
    pub momentum: f64,
}

impl UpdateRule<1, 2> for NesterovAgRule {
    const NAME: &'static str = "NesterovAg";
    const STATE: [&'static str; 1] = ["v"];

    fn check(&self) -> Result<(), String> {
        check("momentum μ", self.momentum, Range::NotNegative)
    }

    fn given(&self, step: &ParameterStep) -> [Given; 2] {
        [step.learning_rate, self.momentum].map(Given::Number)
    }

    #[inline(always)]
    fn element<T: Float>(
        w: Number<T>,
        gw: Number<T>,
        [v]: [Number<T>; 1],
        [rate, momentum]: [Number<T>; 2],
    ) -> (Number<T>, [Number<T>; 1]) {
        let v = momentum * v - rate * gw;
        (w + (momentum * v - rate * gw), [v])
    }
}
