//! AdamW: Adam with decoupled weight decay.

use bibun_array::math::Float;
use bibun_array::{Given, Number};

use super::adam::{follow, moments, ratio};
use super::rule::{ParameterStep, UpdateRule, rule};
use super::rule_optimizer::RuleOptimizer;

/// AdamW: [`Adam`](super::Adam) with a weight decay that does not go through the moments,
/// `w ← w - η (m̂ / (√v̂ + ε) + λ w)`.
///
/// As in PyTorch, the decay is `η λ`, which includes the learning rate; in the paper it is λ times
/// the schedule's factor alone.
///
/// Source: Loshchilov, Hutter, "Decoupled weight decay regularization", ICLR 2019, algorithm 2.
///
/// ```
/// use bibun::optimizers::{AdamW, Optimizer};
/// use bibun::Variable;
/// let w = Variable::new([1.0, 2.0]);
/// w.set_grad(&Variable::constant([0.0, 0.0]));
/// AdamW::new(0.5).weight_decay(0.5).update(&w);
/// assert_eq!(w.to_vec::<f64>(), [0.75, 1.5]);
/// ```
pub type AdamW = RuleOptimizer<AdamWRule, 2, 9>;

impl AdamW {
    /// Creates the optimizer with learning rate η, commonly 0.001, and `β₁ = 0.9`, `β₂ = 0.999`,
    /// `ε = 10⁻⁸`, `λ = 0.01`.
    ///
    /// # Panics
    /// Panics if the learning rate is negative or not finite.
    #[track_caller]
    pub fn new(learning_rate: f64) -> Self {
        Self::with_rule(learning_rate, AdamWRule::default())
    }
}

rule! {
    AdamWRule of AdamW {
        betas(first: 0.9, second: 0.999) in Fraction: "decay rates β₁ and β₂ of the moments";
        epsilon(1e-8) in NotNegative: "number ε added to the root";
        weight_decay(0.01) in NotNegative: "weight decay λ";
    }
}

impl UpdateRule<2, 9> for AdamWRule {
    const NAME: &'static str = "AdamW";
    const STATE: [&'static str; 2] = ["m", "v"];

    fn check(&self) -> Result<(), String> {
        self.check_options()
    }

    fn given(&self, step: &ParameterStep) -> [Given; 9] {
        let ends = [step.learning_rate, self.weight_decay];
        moments(self.betas, self.epsilon, step.number, ends).map(Given::Number)
    }

    #[inline(always)]
    fn element<T: Float>(
        w: Number<T>,
        gw: Number<T>,
        state: [Number<T>; 2],
        given: [Number<T>; 9],
    ) -> (Number<T>, [Number<T>; 2]) {
        let ([.., rate, decay], state) = (given, follow(state, gw, given));
        (w - rate * (ratio(state, given) + decay * w), state)
    }
}
