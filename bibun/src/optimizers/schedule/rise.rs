//! Factors that grow first.

use super::cosine::half_wave;
use super::{Lasting, Schedule, between, progress};

/// Linear warm-up: `(t + 1) / n` for `n` steps, then 1. The first step is `1/n`, not 0, and the last
/// one 1.
///
/// Source: Goyal et al., "Accurate, large minibatch SGD: training ImageNet in 1 hour", 2017.
///
/// ```
/// use bibun::optimizers::schedule::{Schedule, warm_up};
/// let schedule = warm_up(4);
/// assert_eq!([0, 1, 3, 4, 100].map(|t| schedule.factor(t)), [0.25, 0.5, 1.0, 1.0, 1.0]);
/// ```
pub fn warm_up(steps: u64) -> WarmUp {
    WarmUp { steps }
}

/// By [`warm_up`].
#[derive(Clone, Copy, Debug)]
pub struct WarmUp {
    steps: u64,
}

impl Schedule for WarmUp {
    fn factor(&self, step: u64) -> f64 {
        progress(step.saturating_add(1), self.steps)
    }
}

impl Lasting for WarmUp {
    fn steps(&self) -> u64 {
        self.steps
    }
}

/// One cycle: in the first 0.3 of `n` steps half a wave up from 1/25 to 1, then half a wave down to
/// 1/250,000, where it stays. The learning rate of the optimizer is the largest.
///
/// Source: Smith, Topin, "Super-convergence: very fast training of neural networks using large
/// learning rates", 2019; half waves as in PyTorch's `OneCycleLR`, which leaves momentum alone only
/// when told so, while this is about the learning rate only.
///
/// ```
/// use bibun::optimizers::schedule::{Schedule, one_cycle};
/// let schedule = one_cycle(100);
/// assert_eq!([0, 30, 100, 101].map(|t| schedule.factor(t)), [0.04, 1.0, 4e-6, 4e-6]);
/// ```
pub fn one_cycle(steps: u64) -> OneCycle {
    OneCycle {
        steps,
        rise: 0.3,
        start: 1.0 / 25.0,
        end: 1.0 / 250_000.0,
    }
}

/// By [`one_cycle`].
#[derive(Clone, Copy, Debug)]
pub struct OneCycle {
    steps: u64,
    rise: f64,
    start: f64,
    end: f64,
}

impl OneCycle {
    /// With another part of the steps that go up than 0.3.
    #[must_use]
    pub fn rise(mut self, rise: f64) -> Self {
        self.rise = rise;
        self
    }

    /// With other factors at the first step and at the end.
    #[must_use]
    pub fn from_to(mut self, start: f64, end: f64) -> Self {
        (self.start, self.end) = (start, end);
        self
    }
}

impl Schedule for OneCycle {
    fn factor(&self, step: u64) -> f64 {
        let progress = progress(step, self.steps);
        match progress < self.rise {
            true => between(self.start, 1.0, half_wave(progress / self.rise)),
            false => between(
                1.0,
                self.end,
                half_wave((progress - self.rise) / (1.0 - self.rise)),
            ),
        }
    }
}

impl Lasting for OneCycle {
    fn steps(&self) -> u64 {
        self.steps
    }
}
