//! Bounds for gradients.

use bibun_array::math::Float;
use bibun_array::{Change, ElementFormula, Number, elementwise};

use super::{Hook, Site};

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

impl ElementFormula<2, 1> for ClipValue {
    const NAME: &'static str = "clip_value";

    #[inline(always)]
    fn value<T: Float>([_, gw]: [Number<T>; 2], [bound]: [Number<T>; 1]) -> Number<T> {
        let above = gw.less(-bound).where_(-bound, gw);
        gw.greater(bound).where_(bound, above)
    }
}

impl Hook for ClipValue {
    fn change(&self, _: &Site<'_>) -> Option<Change> {
        Some(Change::of(*self, [], [self.0]))
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
    fn measures(&self) -> bool {
        true
    }

    fn change(&self, site: &Site<'_>) -> Option<Change> {
        let factor = elementwise(Factor, [site.squares.clone()], [self.0]);
        // Where it can be known without waiting, nothing is done for nothing.
        let is_one = factor.known_item() == Some(1.0);
        let factor = factor
            .cast(site.gradient.dtype().accumulator())
            .to(site.device);
        (!is_one).then(|| Change::of(*self, [factor], []))
    }
}

impl ElementFormula<3> for ClipNorm {
    const NAME: &'static str = "clip_norm";

    #[inline(always)]
    fn value<T: Float>([_, gw, factor]: [Number<T>; 3], []: [Number<T>; 0]) -> Number<T> {
        gw * factor
    }
}

/// What gradients are multiplied by, from the square of their norm and its bound.
struct Factor;

impl ElementFormula<1, 1> for Factor {
    const NAME: &'static str = "clip_norm factor";

    #[inline(always)]
    fn value<T: Float>([squares]: [Number<T>; 1], [bound]: [Number<T>; 1]) -> Number<T> {
        let norm = squares.sqrt();
        let is_long = norm.greater(bound).logical_and(norm.less(f64::INFINITY));
        is_long.where_(bound / norm, 1.0)
    }
}
