//! Gradient descent.

use super::rule::{Real, Rule, Step};
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
pub type Sgd = RuleOptimizer<SgdRule, 0>;

impl Sgd {
    /// With learning rate η.
    pub fn new(learning_rate: f64) -> Self {
        Self::with_rule(learning_rate, SgdRule)
    }
}

/// The rule of [`Sgd`].
#[derive(Clone, Copy, Debug)]
pub struct SgdRule;

impl Rule<0> for SgdRule {
    const STATE: [&'static str; 0] = [];

    fn apply<T: Real>(&self, step: &Step, w: &mut [T], gw: &[T], []: [&mut [T]; 0]) {
        let rate = T::from_f64(step.learning_rate);
        for (w, &gw) in w.iter_mut().zip(gw) {
            *w = *w - rate * gw;
        }
    }
}
