//! Noise on gradients.

use bibun_array::Generator;

use super::{Hook, Site};
use crate::optimizers::rule::Real;

/// Gradient noise: `gw ← gw + N(0, σ²)` with `σ² = η / (1 + t)^γ` at step t from 0.
///
/// The numbers depend on the seed, the step, the place of the parameter in the model and that of
/// the element in the parameter, and on nothing else.
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
    /// With the variance η of the first step, and `γ = 0.55`.
    pub fn new(variance: f64, seed: u64) -> Self {
        Self {
            variance,
            decay: 0.55,
            seed,
        }
    }

    /// With another γ.
    #[must_use]
    pub fn decay(mut self, decay: f64) -> Self {
        self.decay = decay;
        self
    }
}

impl Hook for GradientNoise {
    fn apply<T: Real>(&self, site: &Site<'_>, _: &[T], gw: &mut [T]) {
        let std = (self.variance / (1.0 + site.step as f64).powf(self.decay)).sqrt();
        let stream = Generator::new(self.seed)
            .split(site.step)
            .split(site.number as u64);
        // A block of random words makes 16 bytes of elements; a piece may begin within one.
        let per_block = 16 / size_of::<T>();
        let (block, skipped) = (site.start / per_block, site.start % per_block);
        let noise = Generator::from_state(stream.key(), block as u64)
            .normal(skipped + gw.len(), 0.0, std, T::DTYPE)
            .to_vec::<T>();
        for (gw, &noise) in gw.iter_mut().zip(&noise[skipped..]) {
            *gw = *gw + noise;
        }
    }
}
