//! Clipping of gradients.

use bibun_array::math::Float;
use bibun_array::{Change, ElementFormula, Number, elementwise};

use super::{Hook, Site};
use crate::optimizers::settings::{Range, check};

/// Clipping by value: every element of the gradients is limited to `-c ..= c`. NaN stays NaN.
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
    /// The bound c, which must be at least 0. With an infinite one nothing is clipped.
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
    fn check(&self) -> Result<(), String> {
        check("bound of ClipValue", self.0, Range::Bound)
    }

    fn change(&self, _: &Site<'_>) -> Option<Change> {
        Some(Change::of(*self, [], [self.0]))
    }

    fn is_elementwise(&self) -> bool {
        true
    }
}

/// Clipping by norm: all gradients together, as one vector, are limited to the length `c`:
/// `gw ← gw · min(1, c / ‖gw‖₂)`. The norm is over the parameters that the hook applies to, of the
/// gradients as the hooks before it left them.
///
/// If the norm is not finite, nothing is clipped, so that infinities and NaNs in the gradients do
/// not spread to parameters without them. (The same holds for gradients of `f64` so large that the
/// sum of their squares overflows, from about 10¹⁵⁴ on.)
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
    /// The bound c, which must be at least 0. With an infinite one nothing is clipped.
    pub f64,
);

impl Hook for ClipNorm {
    fn check(&self) -> Result<(), String> {
        check("bound of ClipNorm", self.0, Range::Bound)
    }

    fn measures(&self) -> bool {
        true
    }

    fn change(&self, site: &Site<'_>) -> Option<Change> {
        let factor = elementwise(Factor, [site.squares.clone()], [self.0]);
        // If the factor is known to be one without waiting for it, there is no change to make.
        let is_one = factor.known_item() == Some(1.0);
        let factor = factor
            .cast(site.gradient.dtype().accumulator().to_real())
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

/// The factor of the gradients, from the square of their norm and its bound.
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
