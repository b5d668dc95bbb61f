//! Adam: steps scaled by running estimates of the gradient's first two moments.

use bibun_array::math::Float;
use bibun_array::{Given, Number};

use super::rule::{ParameterStep, UpdateRule, power, rule};
use super::rule_optimizer::RuleOptimizer;

/// Adam. At step t of a parameter, from `m = v = 0`:
///
/// ```text
/// m ← β₁ m + (1 - β₁) gw             m̂ = m / (1 - β₁ᵗ)
/// v ← β₂ v + (1 - β₂) gw²            v̂ = v / (1 - β₂ᵗ)
/// w ← w - η m̂ / (√v̂ + ε)
/// ```
///
/// Source: Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015, algorithm 1.
/// (Chainer uses `√v + ε` and puts the correction of `v` into the learning rate, as in the text
/// after the algorithm.)
///
/// ```
/// use bibun::optimizers::{Adam, Optimizer};
/// use bibun::Variable;
/// let w = Variable::new([1.0, 2.0]);
/// w.set_grad(&Variable::constant([0.001, 1000.0]));
/// Adam::new(0.1).update(&w);
/// // The first step has the length of the learning rate, whatever the gradient's.
/// for (w, expected) in w.to_vec::<f64>().iter().zip([0.9, 1.9]) {
///     assert!((w - expected).abs() < 1e-5);
/// }
/// ```
pub type Adam = RuleOptimizer<AdamRule, 2, 9>;

impl Adam {
    /// Creates the optimizer with learning rate η, commonly 0.001, and `β₁ = 0.9`, `β₂ = 0.999`,
    /// `ε = 10⁻⁸`.
    ///
    /// # Panics
    /// Panics if the learning rate is negative or not finite.
    #[track_caller]
    pub fn new(learning_rate: f64) -> Self {
        Self::with_rule(learning_rate, AdamRule::default())
    }
}

rule! {
    AdamRule of Adam {
        betas(first: 0.9, second: 0.999) in Fraction: "decay rates β₁ and β₂ of the moments";
        epsilon(1e-8) in NotNegative: "number ε added to the root";
    }
}

impl UpdateRule<2, 9> for AdamRule {
    const NAME: &'static str = "Adam";
    const STATE: [&'static str; 2] = ["m", "v"];

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
        state: [Number<T>; 2],
        given: [Number<T>; 9],
    ) -> (Number<T>, [Number<T>; 2]) {
        let ([.., rate, _], state) = (given, follow(state, gw, given));
        (w - rate * ratio(state, given), state)
    }
}

/// Returns the numbers given to Adam and its relatives, computed in f64 once for all elements: β₁,
/// β₂, 1 - β₁, 1 - β₂, the corrections of m and √v, ε, η and λ.
pub(super) fn moments(betas: [f64; 2], epsilon: f64, number: u64, ends: [f64; 2]) -> [f64; 9] {
    let [unbias_m, unbias_v] = betas.map(|beta| 1.0 / (1.0 - power(beta, number)));
    let ([a, b], [rate, decay], root_unbias_v) = (betas, ends, unbias_v.sqrt());
    let rests = [1.0 - a, 1.0 - b];
    [
        a,
        b,
        rests[0],
        rests[1],
        unbias_m,
        root_unbias_v,
        epsilon,
        rate,
        decay,
    ]
}

/// Returns the moments after one more step.
#[inline(always)]
pub(super) fn follow<T: Float>(
    [m, v]: [Number<T>; 2],
    gw: Number<T>,
    [beta_m, beta_v, rest_m, rest_v, ..]: [Number<T>; 9],
) -> [Number<T>; 2] {
    [beta_m * m + rest_m * gw, beta_v * v + rest_v * gw * gw]
}

/// Computes `m̂ / (√v̂ + ε)`.
#[inline(always)]
pub(super) fn ratio<T: Float>(
    [m, v]: [Number<T>; 2],
    [.., unbias_m, root_unbias_v, epsilon, _, _]: [Number<T>; 9],
) -> Number<T> {
    unbias_m * m / (v.sqrt() * root_unbias_v + epsilon)
}
