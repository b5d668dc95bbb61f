//! Gradient descent.

use bibun_array::math::Float;
use bibun_array::{Given, Number};

use super::rule::{ParameterStep, UpdateRule};
use super::rule_optimizer::RuleOptimizer;

/// Stochastic gradient descent, `w ← w - η gw`.
///
/// Source: Robbins, Monro, "A stochastic approximation method", 1951.
///
/// ```
/// use bibun::optimizers::{Optimizer, Sgd};
/// use bibun::Variable;
/// let w = Variable::new([1.0, 2.0]);
/// (&w * &w).sum(..).backward();
/// Sgd::new(0.25).update(&w);
/// assert_eq!(w.to_vec::<f64>(), [0.5, 1.0]);
/// ```
pub type Sgd = RuleOptimizer<SgdRule, 0, 1>;

impl Sgd {
    /// Creates the optimizer with learning rate η.
    ///
    /// # Panics
    /// Panics if the learning rate is negative or not finite.
    #[track_caller]
    pub fn new(learning_rate: f64) -> Self {
        Self::with_rule(learning_rate, SgdRule)
    }
}

/// The rule of [`Sgd`].
#[derive(Clone, Copy, Debug)]
pub struct SgdRule;

impl UpdateRule<0, 1> for SgdRule {
    const NAME: &'static str = "Sgd";
    const STATE: [&'static str; 0] = [];

    fn given(&self, step: &ParameterStep) -> [Given; 1] {
        [Given::Number(step.learning_rate)]
    }

    #[inline(always)]
    fn element<T: Float>(
        w: Number<T>,
        gw: Number<T>,
        []: [Number<T>; 0],
        [rate]: [Number<T>; 1],
    ) -> (Number<T>, [Number<T>; 0]) {
        (w - rate * gw, [])
    }
}
