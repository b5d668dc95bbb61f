//! Adam: steps scaled by running estimates of the gradient's first two moments.

use super::rule::{Real, Rule, Step, power};
use super::rule_optimizer::RuleOptimizer;

/// Adam. At step t of a parameter, from `m = v = 0`:
///
/// ```text
/// m ← β₁ m + (1 - β₁) gw             m̂ = m / (1 - β₁ᵗ)
/// v ← β₂ v + (1 - β₂) gw²            v̂ = v / (1 - β₂ᵗ)
/// w ← w - η m̂ / (√v̂ + ε)
/// ```
///
/// Source: Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015, algorithm 1. (Chainer
/// has `√v + ε` and the correction of `v` in the learning rate, as in the text after it.)
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
pub type Adam = RuleOptimizer<AdamRule, 2>;

impl Adam {
    /// With learning rate η, commonly 0.001, and `β₁ = 0.9`, `β₂ = 0.999`, `ε = 10⁻⁸`.
    pub fn new(learning_rate: f64) -> Self {
        Self::with_rule(learning_rate, AdamRule::default())
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

/// The rule of [`Adam`].
#[derive(Clone, Copy, Debug)]
pub struct AdamRule {
    /// β₁ and β₂.
    pub betas: [f64; 2],
    /// ε.
    pub epsilon: f64,
}

impl Default for AdamRule {
    fn default() -> Self {
        Self {
            betas: [0.9, 0.999],
            epsilon: 1e-8,
        }
    }
}

impl Rule<2> for AdamRule {
    const STATE: [&'static str; 2] = ["m", "v"];

    fn apply<T: Real>(&self, step: &Step, w: &mut [T], gw: &[T], [m, v]: [&mut [T]; 2]) {
        let moments = Moments::new(self.betas, self.epsilon, step.number);
        let rate = T::from_f64(step.learning_rate);
        for (((w, &gw), m), v) in w.iter_mut().zip(gw).zip(m).zip(v) {
            *w = *w - rate * moments.direction(gw, m, v);
        }
    }
}

/// What Adam's steps and those of its relatives have in common, computed in f64 once for all
/// elements.
#[derive(Clone, Copy)]
pub(super) struct Moments<T> {
    betas: [T; 2],
    rests: [T; 2],
    unbias_m: T,
    root_unbias_v: T,
    epsilon: T,
}

impl<T: Real> Moments<T> {
    pub(super) fn new(betas: [f64; 2], epsilon: f64, step: u64) -> Self {
        let [unbias_m, unbias_v] = betas.map(|beta| 1.0 / (1.0 - power(beta, step)));
        Self {
            betas: betas.map(T::from_f64),
            rests: betas.map(|beta| T::from_f64(1.0 - beta)),
            unbias_m: T::from_f64(unbias_m),
            root_unbias_v: T::from_f64(unbias_v.sqrt()),
            epsilon: T::from_f64(epsilon),
        }
    }

    /// Moves the moments on, and gives `m̂ / (√v̂ + ε)`.
    #[inline]
    pub(super) fn direction(&self, gw: T, m: &mut T, v: &mut T) -> T {
        self.follow(gw, m, v);
        self.ratio(*m, *v)
    }

    /// Moves the moments on.
    #[inline]
    pub(super) fn follow(&self, gw: T, m: &mut T, v: &mut T) {
        *m = self.betas[0] * *m + self.rests[0] * gw;
        *v = self.betas[1] * *v + self.rests[1] * gw * gw;
    }

    /// `m̂ / (√v̂ + ε)`.
    #[inline]
    pub(super) fn ratio(&self, m: T, v: T) -> T {
        self.unbias_m * m / (v.sqrt() * self.root_unbias_v + self.epsilon)
    }
}
