//! Invertible, differentiable functions, for [`Transformed`](super::Transformed) distributions.
//!
//! A tuple of two, three or four bijectors, and a `Vec`, apply one after the other, the first one first;
//! [`Inverse`] turns one around.
//!
//! ```
//! use bibun::distributions::bijectors::{Affine, Bijector, Sigmoid};
//! use bibun::Variable;
//! let f = (Affine::new(0.0, 2.0), Sigmoid);
//! let x = Variable::constant([-1.0, 0.5]);
//! let y = f.forward(&x);
//! assert!((f.inverse(&y) - &x).abs().max(..).item::<f64>() < 1e-15);
//! // The logarithm of the slope 2 y (1 - y).
//! let slope = 2.0 * &y * (1.0 - &y);
//! assert!((f.log_abs_det_jacobian(&x, &y) - slope.log()).abs().max(..).item::<f64>() < 1e-15);
//! ```

mod autoregressive;
mod composition;
mod elementwise;
mod stick_breaking;

pub use autoregressive::Autoregressive;
pub use composition::Inverse;
pub use elementwise::{Affine, Exp, Sigmoid, Softplus, Tanh};
pub use stick_breaking::StickBreaking;

use bibun_array::Shape;

use crate::tree::Tree;
use crate::variable::Variable;

/// A function with an inverse, and the logarithm of the volume by which it stretches space.
///
/// A bijector of numbers has the event rank 0 and applies to each element; one of vectors has the event rank
/// 1 and applies along the last axis.
pub trait Bijector: Tree {
    /// Returns the name, for errors.
    fn name(&self) -> &'static str;

    /// Returns the number of axes of a single value. Defaults to 0.
    fn event_rank(&self) -> usize {
        0
    }

    /// Computes the function.
    fn forward(&self, x: &Variable) -> Variable;

    /// Computes the inverse. Numbers outside of the image count as its nearest end.
    fn inverse(&self, y: &Variable) -> Variable;

    /// Computes the logarithm of the absolute value of the determinant of `dy/dx` at x, whose image is y.
    ///
    /// Shapes: x, y `[.., event]` → `[..]`.
    fn log_abs_det_jacobian(&self, x: &Variable, y: &Variable) -> Variable;

    /// Returns the shape of the function's values for x of a shape. Defaults to the same.
    ///
    /// # Panics
    /// Panics if it takes no values of this shape.
    fn forward_shape(&self, x: &Shape) -> Shape {
        x.clone()
    }

    /// Returns the shape of the x whose images have a shape. Defaults to the same.
    ///
    /// # Panics
    /// Panics if there are none.
    fn inverse_shape(&self, y: &Shape) -> Shape {
        y.clone()
    }

    /// Returns where a function of numbers increases (else it decreases), as bools that broadcast with x, or
    /// `None` for a function of vectors. Defaults to `None`.
    fn increases(&self) -> Option<Variable> {
        None
    }
}
