//! Factors that increase at first.

use super::cosine::half_wave;
use super::{Lasting, Schedule, between, progress};

/// Creates a linear warm-up: `(t + 1) / n` for `n` steps, then 1. The factor of the first step is
/// `1/n`, not 0, and that of the last one is 1.
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

/// The schedule of [`warm_up`].
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

/// Creates one cycle of `n` steps: half a wave up from 1/25 to 1, which the 0.3 `n`-th step
/// reaches, then half a wave down to 1/250,000 at the last step, `t = n - 1`, where it stays. The
/// learning rate of the optimizer is the largest one.
///
/// Source: Smith, Topin, "Super-convergence: very fast training of neural networks using large
/// learning rates", 2019; the factors are those of PyTorch's `OneCycleLR`. PyTorch also moves the
/// momentum unless that is turned off; this schedule changes the learning rate only.
///
/// ```
/// use bibun::optimizers::schedule::{Schedule, one_cycle};
/// let schedule = one_cycle(100);
/// assert_eq!([0, 29, 99, 100].map(|t| schedule.factor(t)), [0.04, 1.0, 4e-6, 4e-6]);
/// ```
pub fn one_cycle(steps: u64) -> OneCycle {
    OneCycle {
        steps,
        rise: 0.3,
        start: 1.0 / 25.0,
        end: 1.0 / 250_000.0,
        is_linear: false,
        has_three_phases: false,
    }
}

/// The schedule of [`one_cycle`].
#[derive(Clone, Copy, Debug)]
pub struct OneCycle {
    steps: u64,
    rise: f64,
    start: f64,
    end: f64,
    is_linear: bool,
    has_three_phases: bool,
}

impl OneCycle {
    /// Sets the fraction of the steps in which the factor rises (PyTorch's `pct_start`). Defaults
    /// to 0.3.
    #[must_use]
    pub fn rise(mut self, rise: f64) -> Self {
        self.rise = rise;
        self
    }

    /// Sets the factors at the first step and at the end (in PyTorch, `1 / div_factor`, and that
    /// divided by `final_div_factor`). They default to 1/25 and 1/250,000.
    #[must_use]
    pub fn from_to(mut self, start: f64, end: f64) -> Self {
        (self.start, self.end) = (start, end);
        self
    }

    /// Uses straight lines instead of half waves (PyTorch's `anneal_strategy="linear"`).
    #[must_use]
    pub fn linearly(mut self) -> Self {
        self.is_linear = true;
        self
    }

    /// Uses three phases: up, down to the starting factor in as many steps, and from there to the
    /// end (PyTorch's `three_phase=True`).
    #[must_use]
    pub fn three_phases(mut self) -> Self {
        self.has_three_phases = true;
        self
    }
}

impl Schedule for OneCycle {
    fn factor(&self, step: u64) -> f64 {
        let last = self.steps.saturating_sub(1);
        let (step, last) = (step.min(last) as f64, last as f64);
        // The step of the largest factor; below 0 if the rise has no step of its own.
        let peak = self.rise * self.steps as f64 - 1.0;
        let up = (peak, self.start, 1.0);
        let phases: &[(f64, f64, f64)] = match self.has_three_phases {
            false => &[up, (last, 1.0, self.end)],
            true => &[
                up,
                (2.0 * peak, 1.0, self.start),
                (last, self.start, self.end),
            ],
        };
        let mut begin = 0.0;
        for &(end, from, to) in phases {
            if step <= end {
                let progress = match begin < end {
                    true => (step - begin) / (end - begin),
                    false => 1.0,
                };
                return match self.is_linear {
                    true => between(from, to, 1.0 - progress),
                    false => between(from, to, half_wave(progress)),
                };
            }
            begin = end;
        }
        self.end
    }
}

impl Lasting for OneCycle {
    fn steps(&self) -> u64 {
        self.steps
    }
}
