//! Bounds for gradients.

use super::{Hook, Site};
use crate::optimizers::blocks::sum_of_squares;
use crate::optimizers::rule::Real;

/// Clipping by value: every element of the gradients is brought into `-c ..= c`. NaN stays.
///
/// ```
/// use bibun::Variable;
/// use bibun::optimizers::hooks::ClipValue;
/// use bibun::optimizers::{Optimizer, Sgd};
/// let w = Variable::new([0.0, 0.0]);
/// w.set_grad(&Variable::constant([0.5, -30.0]));
/// Sgd::new(1.0).hook(ClipValue(1.0)).update(&w);
/// assert_eq!(w.to_vec::<f64>(), [-0.5, 1.0]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ClipValue(
    /// c.
    pub f64,
);

impl Hook for ClipValue {
    fn apply<T: Real>(&self, _: &Site<'_>, _: &[T], gw: &mut [T]) {
        let bound = T::from_f64(self.0);
        for gw in gw {
            *gw = T::select(*gw > bound, bound, T::select(*gw < -bound, -bound, *gw));
        }
    }
}

/// Clipping by norm: all gradients together, as one vector, are made no longer than `c`:
/// `gw ← gw · min(1, c / ‖gw‖₂)`, where the norm is over the parameters that the hook is for and of
/// the gradients as the hooks before it left them.
///
/// A norm that is not finite clips nothing, so that the infinities and NaNs that are in the
/// gradients stay where they are and do not spread to parameters without them. (With gradients of
/// `f64` whose squares have no finite sum, which begins at about 10¹⁵⁴, that is so too.)
///
/// Source: Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural networks",
/// ICML 2013. PyTorch's `clip_grad_norm_` divides by `‖gw‖₂ + 10⁻⁶`.
///
/// ```
/// use bibun::Variable;
/// use bibun::optimizers::hooks::ClipNorm;
/// use bibun::optimizers::{Optimizer, Sgd};
/// let model = (Variable::new(0.0), Variable::new(0.0));
/// model.0.set_grad(&Variable::constant(-3.0));
/// model.1.set_grad(&Variable::constant(-4.0));
/// Sgd::new(1.0).hook(ClipNorm(0.5)).update(&model);
/// assert!((model.0.item::<f64>() - 0.3).abs() < 1e-15);
/// assert!((model.1.item::<f64>() - 0.4).abs() < 1e-15);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ClipNorm(
    /// c.
    pub f64,
);

impl Hook for ClipNorm {
    const MEASURES: bool = true;

    fn measure<T: Real>(&self, _: &Site<'_>, _: &[T], gw: &[T]) -> f64 {
        sum_of_squares(gw)
    }

    fn apply<T: Real>(&self, site: &Site<'_>, _: &[T], gw: &mut [T]) {
        let norm = site.sum.sqrt();
        if norm > self.0 && norm.is_finite() {
            let factor = T::from_f64(self.0 / norm);
            for gw in gw {
                *gw = *gw * factor;
            }
        }
    }
}
