//! Rprop: steps by the signs of the gradients.

use bibun_array::math::Float;
use bibun_array::{Given, Number};

use super::rule::{ParameterStep, UpdateRule, rule};
use super::rule_optimizer::RuleOptimizer;

/// Rprop: every element has its own step length, which grows while its gradient keeps its sign and
/// shrinks when the sign changes. From `s = 1` and, for lack of a last gradient, `g = 0`:
///
/// ```text
/// gw g > 0:   s ← min(η₊ s, s_max)
/// gw g < 0:   s ← max(η₋ s, s_min),   gw ← 0
/// w ← w - η s sign gw,                g ← gw
/// ```
///
/// This rule is for full batches, because the signs of noisy gradients are not informative. Step
/// lengths are in units of the learning rate, so that it can be changed and scheduled; with a
/// constant learning rate this is the paper's rule with `Δ₀ = η` and bounds that are multiples of
/// η. After a change of sign the element skips one step, as in PyTorch and Chainer (the paper
/// undoes the previous step).
///
/// Source: Riedmiller, Braun, "A direct adaptive method for faster backpropagation learning: the
/// RPROP algorithm", 1993; in this form iRprop⁻, Igel, Hüsken, "Improving the Rprop learning
/// algorithm", 2000.
///
/// ```
/// use bibun::optimizers::{Optimizer, Rprop};
/// use bibun::Variable;
/// let w = Variable::new(0.0);
/// let mut optimizer = Rprop::new(0.5);
/// for _ in 0..2 {
///     w.set_grad(&Variable::constant(-1e-6));
///     optimizer.update(&w);
/// }
/// assert_eq!(w.item::<f64>(), 0.5 + 1.2 * 0.5);
/// ```
pub type Rprop = RuleOptimizer<RpropRule, 2, 5>;

impl Rprop {
    /// Creates the optimizer with the first step length η, commonly 0.01 or 0.1, and `η₋ = 0.5`,
    /// `η₊ = 1.2`, `s_min = 10⁻⁵`, `s_max = 500`, which are the paper's bounds for `η = 0.1`.
    ///
    /// # Panics
    /// Panics if the learning rate is negative or not finite.
    #[track_caller]
    pub fn new(learning_rate: f64) -> Self {
        Self::with_rule(learning_rate, RpropRule::default())
    }
}

rule! {
    RpropRule of Rprop {
        factors(shrink: 0.5, grow: 1.2) in NotNegative: "factors η₋ and η₊";
        bounds(smallest: 1e-5, largest: 500.0) in NotNegative: "smallest and the largest step length, as multiples of the learning rate";
    }
}

impl UpdateRule<2, 5> for RpropRule {
    const NAME: &'static str = "Rprop";
    const STATE: [&'static str; 2] = ["s", "g"];
    const INITIAL: [f64; 2] = [1.0, 0.0];

    fn check(&self) -> Result<(), String> {
        self.check_options()
    }

    fn given(&self, step: &ParameterStep) -> [Given; 5] {
        let [[shrink, grow], [smallest, largest]] = [self.factors, self.bounds];
        [step.learning_rate, shrink, grow, smallest, largest].map(Given::Number)
    }

    #[inline(always)]
    fn element<T: Float>(
        w: Number<T>,
        gw: Number<T>,
        [s, g]: [Number<T>; 2],
        [rate, shrink, grow, smallest, largest]: [Number<T>; 5],
    ) -> (Number<T>, [Number<T>; 2]) {
        // The product of signs is used because the product of the gradients could underflow.
        let agreement = gw.sign() * g.sign();
        let turned = agreement.less(0.0);
        let grown = (agreement.greater(0.0)).where_((s * grow).minimum(largest), s);
        let s = turned.where_((s * shrink).maximum(smallest), grown);
        let g = turned.where_(0.0, gw);
        (w - rate * s * g.sign(), [s, g])
    }
}
