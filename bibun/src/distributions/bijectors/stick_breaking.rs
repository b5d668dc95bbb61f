//! From vectors of numbers to the simplex.

use bibun_array::{Array, Shape, s};

use super::Bijector;
use crate::Tree;
use crate::error::{Error, raise};
use crate::functions::{concat, cumsum, flip, log_sigmoid, maximum, zeros_like};
use crate::variable::Variable;

/// Vectors `[.., k - 1]` of any numbers to vectors `[.., k]` of positive numbers whose sum is 1, by breaking
/// pieces from a stick: the part `σ(xᵢ - log(k - i))` of what is left, for `i = 1, ..., k - 1`. Zeros become
/// equal pieces.
///
/// Source: Stan Development Team, "Stan reference manual", section on simplex transforms.
///
/// ```
/// use bibun::distributions::bijectors::{Bijector, StickBreaking};
/// use bibun::Variable;
/// let y = StickBreaking.forward(&Variable::constant([0.0, 0.0, 0.0]));
/// assert!((y - 0.25).abs().max(..).item::<f64>() < 1e-15);
/// ```
#[derive(Clone, Copy, Debug, Tree)]
pub struct StickBreaking;

/// `x - log(k - i)`, which is what the sigmoid is taken of.
fn centered(x: &Variable) -> Variable {
    let pieces = *x.shape().last().expect("the shape has been checked") as i64;
    let left = flip(Variable::constant(Array::arange(1, pieces + 1)), 0);
    x - left.cast(x.dtype()).log()
}

impl Bijector for StickBreaking {
    fn name(&self) -> &'static str {
        "StickBreaking"
    }

    fn event_rank(&self) -> usize {
        1
    }

    fn forward(&self, x: &Variable) -> Variable {
        let z = centered(x);
        let none = zeros_like(z.slice(s![..., ..1]));
        let log_left = cumsum(log_sigmoid(-&z), -1);
        let log_left = concat([&none, &log_left], -1);
        let log_part = concat([&log_sigmoid(&z), &none], -1);
        (log_left + log_part).exp()
    }

    fn inverse(&self, y: &Variable) -> Variable {
        let y = maximum(y, 0.0);
        // What is left behind each piece, as a sum and not as a difference from 1.
        let left = flip(cumsum(flip(&y, -1), -1), -1);
        let z = y.slice(s![..., ..-1]).log() - left.slice(s![..., 1..]).log();
        &z + (&z - centered(&z))
    }

    fn log_abs_det_jacobian(&self, x: &Variable, y: &Variable) -> Variable {
        let log_piece = y.slice(s![..., ..-1]).log();
        (log_piece + log_sigmoid(-centered(x))).sum(-1)
    }

    fn forward_shape(&self, x: &Shape) -> Shape {
        let last = x.rank() - 1;
        if x[last] == 0 {
            let what = format!("vectors {x} without elements cannot break anything");
            raise(Error::argument("StickBreaking", what));
        }
        x.replaced(last, x[last] + 1)
    }

    fn inverse_shape(&self, y: &Shape) -> Shape {
        let last = y.rank() - 1;
        if y[last] < 2 {
            let what = format!("the pieces {y} must be two or more");
            raise(Error::argument("StickBreaking", what));
        }
        y.replaced(last, y[last] - 1)
    }
}
