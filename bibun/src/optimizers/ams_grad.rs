//! AMSGrad: Adam whose scale never shrinks.

use super::adam::Moments;
use super::rule::{Real, Rule, Step};
use super::rule_optimizer::RuleOptimizer;

/// AMSGrad: [`Adam`](super::Adam) with the largest second moment so far in place of the present one,
/// `u ← max(u, v)`, `w ← w - η m̂ / (√û + ε)`.
///
/// The moments are corrected for their bias as in Adam, the second one after the maximum was taken,
/// as in PyTorch; the paper has no correction and no ε. In the state u is called `largest`.
///
/// Source: Reddi, Kale, Kumar, "On the convergence of Adam and beyond", ICLR 2018, algorithm 2.
///
/// ```
/// use bibun::optimizers::{AmsGrad, Optimizer};
/// use bibun::Variable;
/// let w = Variable::new([1.0, 2.0]);
/// w.set_grad(&Variable::constant([0.001, 1000.0]));
/// AmsGrad::new(0.1).update(&w);
/// for (w, expected) in w.to_vec::<f64>().iter().zip([0.9, 1.9]) {
///     assert!((w - expected).abs() < 1e-5);
/// }
/// ```
pub type AmsGrad = RuleOptimizer<AmsGradRule, 3>;

impl AmsGrad {
    /// With learning rate η, commonly 0.001, and `β₁ = 0.9`, `β₂ = 0.999`, `ε = 10⁻⁸`.
    pub fn new(learning_rate: f64) -> Self {
        let rule = AmsGradRule {
            betas: [0.9, 0.999],
            epsilon: 1e-8,
        };
        Self::with_rule(learning_rate, rule)
    }

    /// With other `β₁` and `β₂`.
    #[must_use]
    pub fn betas(self, first: f64, second: f64) -> Self {
        self.with(|rule| rule.betas = [first, second])
    }

    /// With another `ε`.
    #[must_use]
    pub fn epsilon(self, epsilon: f64) -> Self {
        self.with(|rule| rule.epsilon = epsilon)
    }
}

/// The rule of [`AmsGrad`].
#[derive(Clone, Copy, Debug)]
pub struct AmsGradRule {
    /// β₁ and β₂.
    pub betas: [f64; 2],
    /// ε.
    pub epsilon: f64,
}

impl Rule<3> for AmsGradRule {
    const STATE: [&'static str; 3] = ["m", "v", "largest"];

    fn apply<T: Real>(&self, step: &Step, w: &mut [T], gw: &[T], state: [&mut [T]; 3]) {
        let moments = Moments::new(self.betas, self.epsilon, step.number);
        let rate = T::from_f64(step.learning_rate);
        let [m, v, largest] = state;
        for ((((w, &gw), m), v), largest) in w.iter_mut().zip(gw).zip(m).zip(v).zip(largest) {
            moments.follow(gw, m, v);
            *largest = T::select(*v > *largest, *v, *largest);
            *w = *w - rate * moments.ratio(*m, *largest);
        }
    }
}
