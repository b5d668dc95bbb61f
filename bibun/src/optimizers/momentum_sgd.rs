//! Gradient descent with momentum.

use super::Optimizer;
use super::state::{Formula, Real, States};
use crate::links::Chain;

/// Stochastic gradient descent with momentum: `v ← μ v - η gw`, `w ← w + v`, from `v = 0`.
///
/// Source: Polyak, "Some methods of speeding up the convergence of iteration methods", 1964.
///
/// ```
/// use bibun::optimizers::{MomentumSgd, Optimizer};
/// use bibun::Variable;
/// let w = Variable::new(0.0);
/// w.set_grad(&Variable::constant(-1.0));
/// let mut optimizer = MomentumSgd::new(0.5, 0.5);
/// optimizer.update(&w);
/// optimizer.update(&w);
/// assert_eq!(w.item::<f64>(), 0.5 + (0.25 + 0.5));
/// ```
#[derive(Debug)]
pub struct MomentumSgd {
    learning_rate: f64,
    momentum: f64,
    states: States<1>,
}

impl MomentumSgd {
    /// With learning rate η and momentum μ, commonly 0.9.
    pub fn new(learning_rate: f64, momentum: f64) -> Self {
        Self {
            learning_rate,
            momentum,
            states: States::default(),
        }
    }
}

impl Optimizer for MomentumSgd {
    fn update(&mut self, model: &dyn Chain) {
        let formula = HeavyBall {
            learning_rate: self.learning_rate,
            momentum: self.momentum,
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

struct HeavyBall {
    learning_rate: f64,
    momentum: f64,
}

impl Formula<1> for HeavyBall {
    fn apply<T: Real>(&self, _: u64, w: &mut [T], gw: &[T], [v]: [&mut [T]; 1]) {
        let rate = T::from_f64(self.learning_rate);
        let momentum = T::from_f64(self.momentum);
        for ((w, &gw), v) in w.iter_mut().zip(gw).zip(v) {
            *v = momentum * *v - rate * gw;
            *w = *w + *v;
        }
    }
}
