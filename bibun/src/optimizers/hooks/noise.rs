//! Noise on gradients.

use bibun_array::math::Float;
use bibun_array::{Change, Distribution, ElementFormula, Generator, Number, Shape};

use super::{Hook, Site};
use crate::optimizers::settings::{Range, expect};

/// Gradient noise: `gw ← gw + N(0, σ²)` with `σ² = η / (1 + t)^γ` at step t from 0.
///
/// The noise depends only on the seed, the step, the position of the parameter in the model and
/// that of the element in the parameter.
///
/// Source: Neelakantan et al., "Adding gradient noise improves learning for very deep networks",
/// 2015, where η is 0.01, 0.3 or 1 and γ is 0.55.
///
/// ```
/// use bibun::Variable;
/// use bibun::optimizers::hooks::GradientNoise;
/// use bibun::optimizers::{Optimizer, Sgd};
/// let step = |seed| {
///     let w = Variable::new([0.0, 0.0]);
///     w.set_grad(&Variable::constant([0.0, 0.0]));
///     Sgd::new(1.0).hook(GradientNoise::new(0.01, seed)).update(&w);
///     w.to_vec::<f64>()
/// };
/// assert_eq!(step(1), step(1));
/// assert_ne!(step(1), step(2));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GradientNoise {
    variance: f64,
    decay: f64,
    seed: u64,
}

impl GradientNoise {
    /// Creates the hook with the variance η of the first step, and `γ = 0.55`.
    ///
    /// # Panics
    /// Panics if the variance is negative or not finite.
    #[track_caller]
    pub fn new(variance: f64, seed: u64) -> Self {
        expect("new", "variance η", variance, Range::NotNegative);
        Self {
            variance,
            decay: 0.55,
            seed,
        }
    }

    /// Sets the decay γ. Defaults to 0.55.
    ///
    /// # Panics
    /// Panics if it is not finite.
    #[must_use]
    #[track_caller]
    pub fn decay(mut self, decay: f64) -> Self {
        expect("decay", "decay γ", decay, Range::Finite);
        self.decay = decay;
        self
    }
}

impl ElementFormula<3> for GradientNoise {
    const NAME: &'static str = "gradient_noise";

    #[inline(always)]
    fn value<T: Float>([_, gw, noise]: [Number<T>; 3], []: [Number<T>; 0]) -> Number<T> {
        gw + noise
    }
}

impl Hook for GradientNoise {
    fn change(&self, site: &Site<'_>) -> Option<Change> {
        let std = (self.variance / (1.0 + site.step as f64).powf(self.decay)).sqrt();
        let mut stream = Generator::new(self.seed)
            .split(site.step)
            .split(site.number as u64);
        let (shape, dtype) = (site.gradient.shape(), site.gradient.dtype());
        let distribution = Distribution::normal(0.0, std, dtype.to_real());
        let noise = match dtype.is_complex() {
            true => {
                let parts = [&shape[..], &[2]].concat();
                let parts = stream.draw(distribution, Shape::new(&parts), site.device);
                parts.view_as_complex()
            }
            false => stream.draw(distribution, shape, site.device),
        };
        Some(Change::of(*self, [noise], []))
    }
}
