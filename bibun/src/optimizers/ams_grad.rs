//! AMSGrad: Adam whose scale never shrinks.

use bibun_array::math::Float;
use bibun_array::{Given, Number};

use super::adam::{follow, moments, ratio};
use super::rule::{ParameterStep, UpdateRule, rule};
use super::rule_optimizer::RuleOptimizer;

/// AMSGrad: [`Adam`](super::Adam) with the largest second moment so far instead of the present one,
/// `u ← max(u, v)`, `w ← w - η m̂ / (√û + ε)`.
///
/// The moments are corrected for their bias as in Adam, the second one after taking the maximum, as
/// in PyTorch; the paper has no correction and no ε. In the state, u is called `largest`.
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
pub type AmsGrad = RuleOptimizer<AmsGradRule, 3, 9>;

impl AmsGrad {
    /// Creates the optimizer with learning rate η, commonly 0.001, and `β₁ = 0.9`, `β₂ = 0.999`,
    /// `ε = 10⁻⁸`.
    ///
    /// # Panics
    /// Panics if the learning rate is negative or not finite.
    #[track_caller]
    pub fn new(learning_rate: f64) -> Self {
        Self::with_rule(learning_rate, AmsGradRule::default())
    }
}

rule! {
    AmsGradRule of AmsGrad {
        betas(first: 0.9, second: 0.999) in Fraction: "decay rates β₁ and β₂ of the moments";
        epsilon(1e-8) in NotNegative: "number ε added to the root";
    }
}

impl UpdateRule<3, 9> for AmsGradRule {
    const NAME: &'static str = "AmsGrad";
    const STATE: [&'static str; 3] = ["m", "v", "largest"];

    fn check(&self) -> Result<(), String> {
        self.check_options()
    }

    fn given(&self, step: &ParameterStep) -> [Given; 9] {
        let ends = [step.learning_rate, 0.0];
        moments(self.betas, self.epsilon, step.number, ends).map(Given::Number)
    }

    #[inline(always)]
    fn element<T: Float>(
        w: Number<T>,
        gw: Number<T>,
        [m, v, largest]: [Number<T>; 3],
        given: [Number<T>; 9],
    ) -> (Number<T>, [Number<T>; 3]) {
        let ([.., rate, _], [m, v]) = (given, follow([m, v], gw, given));
        let largest = v.greater(largest).where_(v, largest);
        (w - rate * ratio([m, largest], given), [m, v, largest])
    }
}
