//! Cosine schedules.

use std::f64::consts::PI;

use super::{Lasting, Schedule, between, progress};
use crate::error::{Error, raise};

/// Creates cosine annealing: `(1 + cos(π t/n)) / 2` for `n` steps, then 0.
///
/// Source: Loshchilov, Hutter, "SGDR: stochastic gradient descent with warm restarts", ICLR 2017.
///
/// ```
/// use bibun::optimizers::schedule::{Schedule, cosine};
/// let schedule = cosine(100).down_to(0.2);
/// assert_eq!([0, 50, 100, 1000].map(|t| schedule.factor(t)), [1.0, 0.6, 0.2, 0.2]);
/// ```
pub fn cosine(steps: u64) -> Cosine {
    Cosine { steps, end: 0.0 }
}

/// The schedule of [`cosine()`].
#[derive(Clone, Copy, Debug)]
pub struct Cosine {
    steps: u64,
    end: f64,
}

impl Cosine {
    /// Sets the factor at the end. Defaults to 0.
    #[must_use]
    pub fn down_to(mut self, end: f64) -> Self {
        self.end = end;
        self
    }
}

impl Schedule for Cosine {
    fn factor(&self, step: u64) -> f64 {
        between(1.0, self.end, half_wave(progress(step, self.steps)))
    }
}

impl Lasting for Cosine {
    fn steps(&self) -> u64 {
        self.steps
    }
}

/// Creates cosine annealing with warm restarts: periods of `steps`, `steps · multiplier`,
/// `steps · multiplier²`... steps, each from 1 down to 0.
///
/// Source: Loshchilov, Hutter, "SGDR: stochastic gradient descent with warm restarts", ICLR 2017.
///
/// ```
/// use bibun::optimizers::schedule::{Schedule, cosine_restarts};
/// let schedule = cosine_restarts(100, 2);
/// assert_eq!([0, 100, 300].map(|t| schedule.factor(t)), [1.0; 3]);
/// assert!(schedule.factor(299) < 0.001);
/// ```
///
/// # Panics
/// Panics if `steps` or `multiplier` is 0.
#[track_caller]
pub fn cosine_restarts(steps: u64, multiplier: u64) -> CosineRestarts {
    if steps == 0 || multiplier == 0 {
        let what = format!("a period of {steps} steps, times {multiplier}, never ends one");
        raise(Error::argument("cosine_restarts", what));
    }
    CosineRestarts {
        steps,
        multiplier,
        end: 0.0,
    }
}

/// The schedule of [`cosine_restarts`].
#[derive(Clone, Copy, Debug)]
pub struct CosineRestarts {
    steps: u64,
    multiplier: u64,
    end: f64,
}

impl CosineRestarts {
    /// Sets the factor at the end of each period. Defaults to 0.
    #[must_use]
    pub fn down_to(mut self, end: f64) -> Self {
        self.end = end;
        self
    }
}

impl Schedule for CosineRestarts {
    fn factor(&self, step: u64) -> f64 {
        let (mut step, mut period) = (step, self.steps);
        match self.multiplier {
            1 => step %= period,
            multiplier => {
                while step >= period {
                    step -= period;
                    period = period.saturating_mul(multiplier);
                }
            }
        }
        between(1.0, self.end, half_wave(progress(step, period)))
    }
}

/// Returns a half wave from 1 down to 0 as `progress` goes from 0 to 1.
pub(super) fn half_wave(progress: f64) -> f64 {
    0.5 * (1.0 + (PI * progress).cos())
}
