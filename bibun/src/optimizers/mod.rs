//! Optimizers: how parameters follow their gradients.
//!
//! ```
//! use bibun::links::Chain;
//! use bibun::optimizers::{Optimizer, Sgd};
//! use bibun::Variable;
//!
//! // The smallest x² - 6 x.
//! let x = Variable::new(0.0);
//! let mut optimizer = Sgd::new(0.1);
//! for _ in 0..100 {
//!     x.clear_grads();
//!     (&x * &x - 6.0 * &x).backward();
//!     optimizer.update(&x);
//! }
//! assert!((x.item::<f64>() - 3.0).abs() < 1e-8);
//! ```

mod adam;
mod momentum_sgd;
mod sgd;
mod state;

pub use adam::Adam;
pub use momentum_sgd::MomentumSgd;
pub use sgd::Sgd;

use crate::links::Chain;

/// Moves the parameters of a [`Chain`] by their gradients.
///
/// Parameters are updated in their own memory, in one pass over parameter, gradient and state, as
/// long as no history holds the old values: let go of the loss first. A parameter without a
/// gradient is left alone, together with its state. A shared parameter is updated once. An
/// optimizer keeps the parameters that it has state for.
pub trait Optimizer {
    /// One step, by the gradients that have accumulated.
    fn update(&mut self, model: &dyn Chain);

    /// The length of a step.
    fn learning_rate(&self) -> f64;

    /// Changes the length of the steps to come.
    fn set_learning_rate(&mut self, learning_rate: f64);
}
