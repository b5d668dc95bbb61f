//! LAMB: Adam with steps in proportion to each parameter's length.

use super::adam::Moments;
use super::blocks::sum_of_squares;
use super::rule::{Real, Rule, Step};
use super::rule_optimizer::RuleOptimizer;

/// LAMB: [`Adam`](super::Adam)'s direction, made as long as the parameter. With `m̂` and `v̂` as there:
///
/// ```text
/// r = m̂ / (√v̂ + ε) + λ w
/// w ← w - η ‖w‖₂ / ‖r‖₂ r
/// ```
///
/// The norms are over the whole parameter; where one of them is 0 their ratio counts as 1. The
/// paper's bounds φ of `‖w‖` are left out, as in most implementations. As the norms must be known
/// first, there are two passes over each parameter.
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
pub type Lamb = RuleOptimizer<LambRule, 2>;

impl Lamb {
    /// With learning rate η, commonly 0.001, and `β₁ = 0.9`, `β₂ = 0.999`, `ε = 10⁻⁶`, `λ = 0.01`.
    pub fn new(learning_rate: f64) -> Self {
        let rule = LambRule {
            betas: [0.9, 0.999],
            epsilon: 1e-6,
            weight_decay: 0.01,
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

    /// With another `λ`.
    #[must_use]
    pub fn weight_decay(self, weight_decay: f64) -> Self {
        self.with(|rule| rule.weight_decay = weight_decay)
    }
}

/// The rule of [`Lamb`].
#[derive(Clone, Copy, Debug)]
pub struct LambRule {
    /// β₁ and β₂.
    pub betas: [f64; 2],
    /// ε.
    pub epsilon: f64,
    /// λ.
    pub weight_decay: f64,
}

impl Rule<2> for LambRule {
    const STATE: [&'static str; 2] = ["m", "v"];
    const MEASURES: bool = true;

    /// Moves the moments on; gives `‖w‖²` and `‖r‖²`.
    fn measure<T: Real>(&self, step: &Step, w: &[T], gw: &[T], [m, v]: [&mut [T]; 2]) -> [f64; 2] {
        let moments = Moments::new(self.betas, self.epsilon, step.number);
        let decay = T::from_f64(self.weight_decay);
        let mut directions = 0.0;
        for (((&w, &gw), m), v) in w.iter().zip(gw).zip(m).zip(v) {
            let r = (moments.direction(gw, m, v) + decay * w).to_f64();
            directions += r * r;
        }
        [sum_of_squares(w), directions]
    }

    fn apply<T: Real>(&self, step: &Step, w: &mut [T], _: &[T], [m, v]: [&mut [T]; 2]) {
        let moments = Moments::new(self.betas, self.epsilon, step.number);
        let [length, directions] = step.sums.map(f64::sqrt);
        let ratio = match length > 0.0 && directions > 0.0 {
            true => length / directions,
            false => 1.0,
        };
        let [rate, decay] = [step.learning_rate * ratio, self.weight_decay].map(T::from_f64);
        for ((w, m), v) in w.iter_mut().zip(m).zip(v) {
            *w = *w - rate * (moments.ratio(*m, *v) + decay * *w);
        }
    }
}
