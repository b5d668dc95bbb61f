//! LAMB: Adam with steps in proportion to each parameter's norm.

use bibun_array::math::Float;
use bibun_array::{ElementFormula, Given, Kernel, Number, elementwise};

use super::adam::{follow, moments, ratio};
use super::adam_w::AdamWRule;
use super::rule::{ParameterStep, UpdateRule, rule};
use super::rule_optimizer::RuleOptimizer;

/// LAMB: [`Adam`](super::Adam)'s direction, scaled to the norm of the parameter. With `m̂` and `v̂`
/// as in Adam:
///
/// ```text
/// r = m̂ / (√v̂ + ε) + λ w
/// w ← w - η ‖w‖₂ / ‖r‖₂ r
/// ```
///
/// The norms are over the whole parameter; if one of them is 0, their ratio counts as 1. The
/// paper's bounds φ of `‖w‖` are left out, as in most implementations. Because the norms must be
/// known first, there are two passes over each parameter.
///
/// Source: You et al., "Large batch optimization for deep learning: training BERT in 76 minutes",
/// ICLR 2020, algorithm 2.
///
/// ```
/// use bibun::optimizers::{Lamb, Optimizer};
/// use bibun::Variable;
/// let w = Variable::new([3.0, 4.0]);
/// w.set_grad(&Variable::constant([1.0, 0.0]));
/// Lamb::new(0.1).weight_decay(0.0).update(&w);
/// assert!((w.to_vec::<f64>()[0] - (3.0 - 0.1 * 5.0)).abs() < 1e-12);
/// ```
pub type Lamb = RuleOptimizer<LambRule, 2, 9>;

impl Lamb {
    /// Creates the optimizer with learning rate η, commonly 0.001, and `β₁ = 0.9`, `β₂ = 0.999`,
    /// `ε = 10⁻⁶`, `λ = 0.01`.
    ///
    /// # Panics
    /// Panics if the learning rate is negative or not finite.
    #[track_caller]
    pub fn new(learning_rate: f64) -> Self {
        Self::with_rule(learning_rate, LambRule::default())
    }
}

rule! {
    LambRule of Lamb {
        betas(first: 0.9, second: 0.999) in Fraction: "decay rates β₁ and β₂ of the moments";
        epsilon(1e-6) in NotNegative: "number ε added to the root";
        weight_decay(0.01) in NotNegative: "weight decay λ";
    }
}

impl LambRule {
    fn moments(&self, step: &ParameterStep) -> [f64; 9] {
        let ends = [step.learning_rate, self.weight_decay];
        moments(self.betas, self.epsilon, step.number, ends)
    }
}

impl UpdateRule<2, 9> for LambRule {
    const NAME: &'static str = "Lamb";
    const STATE: [&'static str; 2] = ["m", "v"];

    fn check(&self) -> Result<(), String> {
        self.check_options()
    }

    fn measured(&self, step: &ParameterStep) -> Option<Kernel> {
        Some(Kernel::of(Direction, self.moments(step)))
    }

    fn given(&self, step: &ParameterStep) -> [Given; 9] {
        let mut given = self.moments(step).map(Given::Number);
        given[7] = elementwise(Rate, step.squares.clone(), [step.learning_rate]).into();
        given
    }

    #[inline(always)]
    fn element<T: Float>(
        w: Number<T>,
        gw: Number<T>,
        state: [Number<T>; 2],
        given: [Number<T>; 9],
    ) -> (Number<T>, [Number<T>; 2]) {
        AdamWRule::element(w, gw, state, given)
    }
}

/// The direction r, from the parameter, its gradient and the moments.
struct Direction;

impl ElementFormula<4, 9> for Direction {
    const NAME: &'static str = "lamb direction";

    #[inline(always)]
    fn value<T: Float>([w, gw, m, v]: [Number<T>; 4], given: [Number<T>; 9]) -> Number<T> {
        let [.., decay] = given;
        ratio(follow([m, v], gw, given), given) + decay * w
    }
}

/// `η ‖w‖ / ‖r‖`, from the squares of the norms.
struct Rate;

impl ElementFormula<2, 1> for Rate {
    const NAME: &'static str = "lamb rate";

    #[inline(always)]
    fn value<T: Float>(squares: [Number<T>; 2], [rate]: [Number<T>; 1]) -> Number<T> {
        let [w, r] = squares.map(Number::sqrt);
        let ratio = w
            .greater(0.0)
            .logical_and(r.greater(0.0))
            .where_(w / r, 1.0);
        rate * ratio
    }
}
