//! Penalties on the size of the parameters.

use bibun_array::math::Float;
use bibun_array::{Change, ElementFormula, Number};

use super::{Hook, Site};
use crate::optimizers::settings::{Range, check};

/// Weight decay: `gw ← gw + λ w`, the gradient of the penalty `λ/2 Σ w²`.
///
/// With a rule that scales gradients, this is not the same as [`AdamW`](crate::optimizers::AdamW),
/// which applies the decay to the parameters directly.
///
/// Source: Krogh, Hertz, "A simple weight decay can improve generalization", NIPS 1991.
///
/// ```
/// use bibun::Variable;
/// use bibun::optimizers::hooks::WeightDecay;
/// use bibun::optimizers::{Optimizer, Sgd};
/// let w = Variable::new([1.0, -2.0]);
/// w.set_grad(&Variable::constant([0.0, 0.0]));
/// Sgd::new(1.0).hook(WeightDecay(0.25)).update(&w);
/// assert_eq!(w.to_vec::<f64>(), [0.75, -1.5]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct WeightDecay(
    /// The weight decay λ, finite and not negative.
    pub f64,
);

impl ElementFormula<2, 1> for WeightDecay {
    const NAME: &'static str = "weight_decay";

    #[inline(always)]
    fn value<T: Float>([w, gw]: [Number<T>; 2], [lambda]: [Number<T>; 1]) -> Number<T> {
        gw + lambda * w
    }
}

impl Hook for WeightDecay {
    fn check(&self) -> Result<(), String> {
        check("factor λ of WeightDecay", self.0, Range::NotNegative)
    }

    fn change(&self, _: &Site<'_>) -> Option<Change> {
        Some(Change::of(*self, [], [self.0]))
    }

    fn is_elementwise(&self) -> bool {
        true
    }
}

/// L1 penalty: `gw ← gw + λ sign w`, a subgradient of the penalty `λ Σ |w|`; at `w = 0` it adds
/// nothing.
///
/// Source: Tibshirani, "Regression shrinkage and selection via the lasso", 1996.
///
/// ```
/// use bibun::Variable;
/// use bibun::optimizers::hooks::Lasso;
/// use bibun::optimizers::{Optimizer, Sgd};
/// let w = Variable::new([1.0, -2.0, 0.0]);
/// w.set_grad(&Variable::constant([0.0, 0.0, 0.0]));
/// Sgd::new(1.0).hook(Lasso(0.25)).update(&w);
/// assert_eq!(w.to_vec::<f64>(), [0.75, -1.75, 0.0]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Lasso(
    /// The factor λ of the penalty, finite and not negative.
    pub f64,
);

impl ElementFormula<2, 1> for Lasso {
    const NAME: &'static str = "lasso";

    #[inline(always)]
    fn value<T: Float>([w, gw]: [Number<T>; 2], [lambda]: [Number<T>; 1]) -> Number<T> {
        gw + lambda * w.sign()
    }
}

impl Hook for Lasso {
    fn check(&self) -> Result<(), String> {
        check("factor λ of Lasso", self.0, Range::NotNegative)
    }

    fn change(&self, _: &Site<'_>) -> Option<Change> {
        Some(Change::of(*self, [], [self.0]))
    }

    fn is_elementwise(&self) -> bool {
        true
    }
}
