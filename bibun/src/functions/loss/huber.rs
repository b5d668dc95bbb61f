//! Huber's loss: squared near to zero, absolute far from it.

use crate::functions::family::unary;
use crate::functions::{Operand, subtract};
use crate::variable::Variable;

unary! {
    /// Huber's function of a difference, `x² / 2` where `|x| ≤ δ` and `δ (|x| - δ / 2)` beyond
    /// (P. J. Huber, Robust estimation of a location parameter, 1964).
    ///
    /// Shapes: x any → the same. Types: f32, f64; integers give f64.
    /// Gradient: `gy x` where `|x| ≤ δ`, `±gy δ` beyond.
    ///
    /// ```
    /// use bibun::{functions::huber, Variable};
    /// let y = huber(Variable::new([0.5, -3.0]), 1.0);
    /// assert_eq!(y.to_vec::<f64>(), [0.125, 2.5]);
    /// ```
    huber(x, delta) -> Huber {
        value: x.abs().less_equal(delta).where_(0.5 * x * x, delta * (x.abs() - 0.5 * delta)),
        gradient(x; gy): gy * x.abs().less_equal(delta).where_(x, delta * x.sign()),
        sample(0.7): (0.8..2.0, |x| 0.7 * (x - 0.35)),
    }
}

/// [`huber`] of the difference of predictions and targets, one loss for each element.
///
/// Shapes: x, t that broadcast → their common shape. Types: f32, f64; integers give f64.
/// Gradient: as [`huber`]'s to x, the opposite to t.
///
/// # Panics
/// If the shapes do not broadcast.
///
/// ```
/// use bibun::{functions::huber_loss, Variable};
/// let y = huber_loss(Variable::new([1.0, 5.0]), 2.0, 1.0);
/// assert_eq!(y.to_vec::<f64>(), [0.5, 2.5]);
/// ```
#[track_caller]
pub fn huber_loss(x: impl Into<Operand>, t: impl Into<Operand>, delta: f64) -> Variable {
    huber(subtract(x, t), delta)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gradients;

    #[test]
    fn squared_inside_absolute_outside_and_smooth_between() {
        let x = Variable::new([-2.0, -0.5, 0.0, 0.5, 2.0]);
        let t = Variable::new([0.0, 0.25, 0.0, 0.0, 0.0]);
        let y = huber_loss(&x, &t, 0.5);
        assert_eq!(y.to_vec::<f64>(), [0.875, 0.25, 0.0, 0.125, 0.875]);
        let gradients = gradients(&[&y.sum(..)], &[&x, &t]);
        let gx = gradients[0].as_ref().unwrap().to_vec::<f64>();
        assert_eq!(gx, [-0.5, -0.5, 0.0, 0.5, 0.5]);
        let gt = gradients[1].as_ref().unwrap().to_vec::<f64>();
        assert_eq!(gt, [0.5, 0.5, 0.0, -0.5, -0.5]);
    }
}
