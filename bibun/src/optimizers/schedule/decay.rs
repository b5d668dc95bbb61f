//! Decaying and piecewise constant factors.

use super::{Lasting, Schedule, between, progress};
use crate::error::{Error, raise};
use crate::optimizers::rule::power;

/// Creates a step decay: `γ^⌊t/n⌋`, one more factor of γ every `steps` steps.
///
/// ```
/// use bibun::optimizers::schedule::{Schedule, step_decay};
/// let schedule = step_decay(30, 0.5);
/// assert_eq!([0, 29, 30, 60].map(|t| schedule.factor(t)), [1.0, 1.0, 0.5, 0.25]);
/// ```
///
/// # Panics
/// Panics if `steps` is 0.
#[track_caller]
pub fn step_decay(steps: u64, gamma: f64) -> StepDecay {
    if steps == 0 {
        raise(Error::argument("step_decay", "every 0 steps"));
    }
    StepDecay { steps, gamma }
}

/// The schedule of [`step_decay`].
#[derive(Clone, Copy, Debug)]
pub struct StepDecay {
    steps: u64,
    gamma: f64,
}

impl Schedule for StepDecay {
    fn factor(&self, step: u64) -> f64 {
        power(self.gamma, step / self.steps)
    }
}

/// Creates an exponential decay: `γᵗ`.
///
/// ```
/// use bibun::optimizers::schedule::{Schedule, exponential};
/// assert_eq!([0, 1, 2].map(|t| exponential(0.5).factor(t)), [1.0, 0.5, 0.25]);
/// ```
pub fn exponential(gamma: f64) -> Exponential {
    Exponential { gamma }
}

/// The schedule of [`exponential`].
#[derive(Clone, Copy, Debug)]
pub struct Exponential {
    gamma: f64,
}

impl Schedule for Exponential {
    fn factor(&self, step: u64) -> f64 {
        power(self.gamma, step)
    }
}

/// Creates a polynomial decay: `(1 - t/n)ᵖ` for `n` steps, then 0.
///
/// ```
/// use bibun::optimizers::schedule::{Schedule, polynomial};
/// let schedule = polynomial(4, 2.0);
/// assert_eq!([0, 1, 2, 4, 5].map(|t| schedule.factor(t)), [1.0, 0.5625, 0.25, 0.0, 0.0]);
/// ```
pub fn polynomial(steps: u64, power: f64) -> Polynomial {
    Polynomial {
        steps,
        power,
        end: 0.0,
    }
}

/// Creates a linear decay: `1 - t/n` for `n` steps, then 0.
///
/// ```
/// use bibun::optimizers::schedule::{Schedule, linear};
/// let schedule = linear(4).down_to(0.5);
/// assert_eq!([0, 1, 2, 4, 5].map(|t| schedule.factor(t)), [1.0, 0.875, 0.75, 0.5, 0.5]);
/// ```
pub fn linear(steps: u64) -> Polynomial {
    polynomial(steps, 1.0)
}

/// The schedule of [`polynomial`] and [`linear`].
#[derive(Clone, Copy, Debug)]
pub struct Polynomial {
    steps: u64,
    power: f64,
    end: f64,
}

impl Polynomial {
    /// Sets the factor at the end. Defaults to 0.
    #[must_use]
    pub fn down_to(mut self, end: f64) -> Self {
        self.end = end;
        self
    }
}

impl Schedule for Polynomial {
    fn factor(&self, step: u64) -> f64 {
        let remaining = 1.0 - progress(step, self.steps);
        between(1.0, self.end, remaining.powf(self.power))
    }
}

impl Lasting for Polynomial {
    fn steps(&self) -> u64 {
        self.steps
    }
}

/// Creates a piecewise constant schedule: `first`, and from each step in `changes` on the factor
/// paired with it.
///
/// ```
/// use bibun::optimizers::schedule::{Schedule, piecewise};
/// let schedule = piecewise(1.0, [(100, 0.3), (200, 0.1)]);
/// assert_eq!([0, 99, 100, 200, 999].map(|t| schedule.factor(t)), [1.0, 1.0, 0.3, 0.1, 0.1]);
/// ```
///
/// # Panics
/// Panics if the steps are not in ascending order.
#[track_caller]
pub fn piecewise(first: f64, changes: impl Into<Vec<(u64, f64)>>) -> Piecewise {
    let changes = changes.into();
    if !changes.is_sorted_by(|a, b| a.0 < b.0) {
        let steps: Vec<u64> = changes.iter().map(|&(step, _)| step).collect();
        let what = format!("the steps {steps:?} do not ascend");
        raise(Error::argument("piecewise", what));
    }
    Piecewise { first, changes }
}

/// The schedule of [`piecewise`].
#[derive(Clone, Debug)]
pub struct Piecewise {
    first: f64,
    changes: Vec<(u64, f64)>,
}

impl Schedule for Piecewise {
    fn factor(&self, step: u64) -> f64 {
        let begun = self.changes.partition_point(|&(start, _)| start <= step);
        match begun.checked_sub(1) {
            None => self.first,
            Some(last) => self.changes[last].1,
        }
    }
}

impl Lasting for Piecewise {
    fn steps(&self) -> u64 {
        self.changes.last().map_or(0, |&(step, _)| step)
    }
}
