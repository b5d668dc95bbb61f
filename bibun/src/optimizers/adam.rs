//! Adam: steps scaled by running estimates of the gradient's first two moments.

use super::Optimizer;
use super::state::{Formula, Real, States};
use crate::links::Chain;

/// Adam. At step t of a parameter, from `m = v = 0`:
///
/// ```text
/// m ← β₁ m + (1 - β₁) gw             m̂ = m / (1 - β₁ᵗ)
/// v ← β₂ v + (1 - β₂) gw²            v̂ = v / (1 - β₂ᵗ)
/// w ← w - η m̂ / (√v̂ + ε)
/// ```
///
/// Source: Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015, algorithm 1.
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
#[derive(Debug)]
pub struct Adam {
    learning_rate: f64,
    betas: [f64; 2],
    epsilon: f64,
    states: States<2>,
}

impl Adam {
    /// With learning rate η, commonly 0.001, and `β₁ = 0.9`, `β₂ = 0.999`, `ε = 10⁻⁸`.
    pub fn new(learning_rate: f64) -> Self {
        Self {
            learning_rate,
            betas: [0.9, 0.999],
            epsilon: 1e-8,
            states: States::default(),
        }
    }

    /// With other `β₁` and `β₂`.
    #[must_use]
    pub fn betas(mut self, first: f64, second: f64) -> Self {
        self.betas = [first, second];
        self
    }

    /// With another `ε`.
    #[must_use]
    pub fn epsilon(mut self, epsilon: f64) -> Self {
        self.epsilon = epsilon;
        self
    }
}

impl Optimizer for Adam {
    fn update(&mut self, model: &dyn Chain) {
        let formula = Moments {
            learning_rate: self.learning_rate,
            betas: self.betas,
            epsilon: self.epsilon,
        };
        self.states.update(model, &formula);
    }

    fn learning_rate(&self) -> f64 {
        self.learning_rate
    }

    fn set_learning_rate(&mut self, learning_rate: f64) {
        self.learning_rate = learning_rate;
    }
}

struct Moments {
    learning_rate: f64,
    betas: [f64; 2],
    epsilon: f64,
}

impl Formula<2> for Moments {
    fn apply<T: Real>(&self, step: u64, w: &mut [T], gw: &[T], [m, v]: [&mut [T]; 2]) {
        // What does not depend on the element is computed in f64, once.
        let [unbias_m, unbias_v] = self.betas.map(|beta| 1.0 / (1.0 - power(beta, step)));
        let rate = T::from_f64(self.learning_rate * unbias_m);
        let root_unbias_v = T::from_f64(unbias_v.sqrt());
        let [beta_m, beta_v] = self.betas.map(T::from_f64);
        let [rest_m, rest_v] = self.betas.map(|beta| T::from_f64(1.0 - beta));
        let epsilon = T::from_f64(self.epsilon);
        for (((w, &gw), m), v) in w.iter_mut().zip(gw).zip(m).zip(v) {
            *m = beta_m * *m + rest_m * gw;
            *v = beta_v * *v + rest_v * gw * gw;
            *w = *w - rate * *m / (v.sqrt() * root_unbias_v + epsilon);
        }
    }
}

/// `xⁿ` by squaring, which rounds alike on every machine.
fn power(mut x: f64, mut n: u64) -> f64 {
    let mut power = 1.0;
    while n > 0 {
        if n % 2 == 1 {
            power *= x;
        }
        x *= x;
        n /= 2;
    }
    power
}
