//! Gradient descent with momentum.

use bibun_array::math::Float;
use bibun_array::{Given, Number};

use super::rule::{ParameterStep, UpdateRule};
use super::rule_optimizer::RuleOptimizer;
use super::settings::{Range, check};

/// Stochastic gradient descent with momentum: `v ← μ v - η gw`, `w ← w + v`, from `v = 0`.
///
/// The learning rate is part of `v`, as in Chainer: a new one affects later gradients only.
/// PyTorch's `v` is `μ v + gw` and its step `η v`, which is the same as long as η does not change.
///
/// Source: Polyak, "Some methods of speeding up the convergence of iteration methods", 1964.
///
/// ```
/// use bibun::optimizers::{MomentumSgd, Optimizer};
/// use bibun::Variable;
/// let w = Variable::new(0.0);
/// w.set_grad(&Variable::constant(-1.0));
/// let mut optimizer = MomentumSgd::new(0.5, 0.5);
/// optimizer.update(&w);
/// optimizer.update(&w);
/// assert_eq!(w.item::<f64>(), 0.5 + (0.25 + 0.5));
/// ```
pub type MomentumSgd = RuleOptimizer<MomentumSgdRule, 1, 2>;

impl MomentumSgd {
    /// Creates the optimizer with learning rate η and momentum μ, commonly 0.9.
    ///
    /// # Panics
    /// Panics if one of them is negative or not finite.
    #[track_caller]
    pub fn new(learning_rate: f64, momentum: f64) -> Self {
        Self::with_rule(learning_rate, MomentumSgdRule { momentum })
    }
}

/// The rule of [`MomentumSgd`].
#[derive(Clone, Copy, Debug)]
pub struct MomentumSgdRule {
    /// The momentum μ.
    pub momentum: f64,
}

impl UpdateRule<1, 2> for MomentumSgdRule {
    const NAME: &'static str = "MomentumSgd";
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
        (w + v, [v])
    }
}
