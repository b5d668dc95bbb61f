//! Gradient descent.

use super::Optimizer;
use super::state::{Formula, Real, States};
use crate::links::Chain;

/// Stochastic gradient descent, `w ← w - η gw`.
///
/// ```
/// use bibun::optimizers::{Optimizer, Sgd};
/// use bibun::Variable;
/// let w = Variable::new([1.0, 2.0]);
/// (&w * &w).sum(..).backward();
/// Sgd::new(0.25).update(&w);
/// assert_eq!(w.to_vec::<f64>(), [0.5, 1.0]);
/// ```
#[derive(Debug)]
pub struct Sgd {
    learning_rate: f64,
    states: States<0>,
}

impl Sgd {
    /// With learning rate η.
    pub fn new(learning_rate: f64) -> Self {
        Self {
            learning_rate,
            states: States::default(),
        }
    }
}

impl Optimizer for Sgd {
    fn update(&mut self, model: &dyn Chain) {
        let formula = Descent(self.learning_rate);
        self.states.update(model, &formula);
    }

    fn learning_rate(&self) -> f64 {
        self.learning_rate
    }

    fn set_learning_rate(&mut self, learning_rate: f64) {
        self.learning_rate = learning_rate;
    }
}

struct Descent(f64);

impl Formula<0> for Descent {
    fn apply<T: Real>(&self, _: u64, w: &mut [T], gw: &[T], []: [&mut [T]; 0]) {
        let rate = T::from_f64(self.0);
        for (w, &gw) in w.iter_mut().zip(gw) {
            *w = *w - rate * gw;
        }
    }
}
