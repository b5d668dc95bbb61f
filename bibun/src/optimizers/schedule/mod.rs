//! Schedules: changes of the learning rate over the steps.
//!
//! A [`Schedule`] is a factor for each step, counted from 0, by which an optimizer multiplies its
//! learning rate. It is a function of the step alone, so a resumed optimizer continues it without
//! further state. Schedules with an end ([`Lasting`]) are joined by [`then`](Lasting::then); any
//! two are multiplied by [`times`](Schedule::times); a number is a constant schedule.
//!
//! ```
//! use bibun::optimizers::schedule::{Lasting, Schedule, cosine, warm_up};
//! use bibun::optimizers::{Adam, Optimizer};
//! let optimizer = Adam::new(0.001).schedule(warm_up(100).then(cosine(900).down_to(0.1)));
//! assert_eq!(optimizer.learning_rate(), 0.001 / 100.0);
//!
//! let schedule = warm_up(4).then(1.0.for_steps(2)).then(cosine(10)).times(0.5);
//! let factors: Vec<f64> = (0..7).map(|step| schedule.factor(step)).collect();
//! assert_eq!(factors, [0.125, 0.25, 0.375, 0.5, 0.5, 0.5, 0.5]);
//! ```
//!
//! | | factor at step t |
//! |---|---|
//! | `1.0` | 1 |
//! | [`step_decay(n, γ)`](step_decay) | `γ^⌊t/n⌋` |
//! | [`exponential(γ)`](exponential) | `γᵗ` |
//! | [`polynomial(n, p)`](polynomial), [`linear(n)`](linear) | `(1 - t/n)ᵖ` |
//! | [`cosine(n)`](cosine), [`cosine_restarts(n, k)`](cosine_restarts) | `(1 + cos(π t/n)) / 2`, again with n, kn, k²n... |
//! | [`warm_up(n)`](warm_up) | `(t + 1) / n` |
//! | [`one_cycle(n)`](one_cycle) | up from 1/25 to 1, down to 1/250,000 at `t = n - 1` |
//! | [`piecewise(f, [(t₁, f₁), ...])`](piecewise) | `f`, from `t₁` on `f₁`, ... |
//!
//! [`ReduceOnPlateau`] observes a metric instead, and sets the learning rate of an optimizer.

mod cosine;
mod decay;
mod plateau;
mod rise;

use std::fmt;

pub use cosine::{Cosine, CosineRestarts, cosine, cosine_restarts};
pub use decay::{
    Exponential, Piecewise, Polynomial, StepDecay, exponential, linear, piecewise, polynomial,
    step_decay,
};
pub use plateau::ReduceOnPlateau;
pub use rise::{OneCycle, WarmUp, one_cycle, warm_up};

/// A factor of the learning rate for each step.
///
/// ```
/// use bibun::optimizers::schedule::Schedule;
/// use bibun::optimizers::{Optimizer, Sgd};
///
/// #[derive(Debug)]
/// struct InverseSquareRoot;
/// impl Schedule for InverseSquareRoot {
///     fn factor(&self, step: u64) -> f64 {
///         1.0 / ((step + 1) as f64).sqrt()
///     }
/// }
///
/// let w = bibun::Variable::new(0.0);
/// let mut optimizer = Sgd::new(0.5).schedule(InverseSquareRoot);
/// for _ in 0..3 {
///     optimizer.update(&w);
/// }
/// assert_eq!(optimizer.learning_rate(), 0.25);
/// ```
pub trait Schedule: fmt::Debug + Send + Sync {
    /// Returns the factor of a step, counted from 0.
    fn factor(&self, step: u64) -> f64;

    /// Returns the product of two schedules.
    fn times<S: Schedule>(self, other: S) -> Times<Self, S>
    where
        Self: Sized,
    {
        Times(self, other)
    }

    /// Returns the schedule limited to its first `steps` steps; after them it keeps its factor of
    /// step `steps`.
    fn for_steps(self, steps: u64) -> ForSteps<Self>
    where
        Self: Sized,
    {
        ForSteps {
            schedule: self,
            steps,
        }
    }
}

/// A [`Schedule`] with an end, after which it is constant.
pub trait Lasting: Schedule {
    /// Returns the number of steps of the schedule.
    fn steps(&self) -> u64;

    /// Returns this schedule followed, after its end, by another one from its step 0.
    fn then<S: Schedule>(self, next: S) -> Then<Self, S>
    where
        Self: Sized,
    {
        Then(self, next)
    }
}

impl Schedule for f64 {
    fn factor(&self, _: u64) -> f64 {
        *self
    }
}

impl<S: Schedule + ?Sized> Schedule for Box<S> {
    fn factor(&self, step: u64) -> f64 {
        (**self).factor(step)
    }
}

/// The schedule of [`Schedule::times`].
#[derive(Clone, Copy, Debug)]
pub struct Times<A, B>(A, B);

impl<A: Schedule, B: Schedule> Schedule for Times<A, B> {
    fn factor(&self, step: u64) -> f64 {
        self.0.factor(step) * self.1.factor(step)
    }
}

impl<A: Lasting, B: Lasting> Lasting for Times<A, B> {
    fn steps(&self) -> u64 {
        self.0.steps().max(self.1.steps())
    }
}

/// The schedule of [`Schedule::for_steps`].
#[derive(Clone, Copy, Debug)]
pub struct ForSteps<S> {
    schedule: S,
    steps: u64,
}

impl<S: Schedule> Schedule for ForSteps<S> {
    fn factor(&self, step: u64) -> f64 {
        self.schedule.factor(step.min(self.steps))
    }
}

impl<S: Schedule> Lasting for ForSteps<S> {
    fn steps(&self) -> u64 {
        self.steps
    }
}

/// The schedule of [`Lasting::then`].
#[derive(Clone, Copy, Debug)]
pub struct Then<A, B>(A, B);

impl<A: Lasting, B: Schedule> Schedule for Then<A, B> {
    fn factor(&self, step: u64) -> f64 {
        match step.checked_sub(self.0.steps()) {
            None => self.0.factor(step),
            Some(step) => self.1.factor(step),
        }
    }
}

impl<A: Lasting, B: Lasting> Lasting for Then<A, B> {
    fn steps(&self) -> u64 {
        self.0.steps().saturating_add(self.1.steps())
    }
}

/// Returns the fraction of `steps` that is over, at most 1.
fn progress(step: u64, steps: u64) -> f64 {
    match step < steps {
        true => step as f64 / steps as f64,
        false => 1.0,
    }
}

/// Interpolates from `start` to `end` as `remaining` goes from 1 to 0.
fn between(start: f64, end: f64, remaining: f64) -> f64 {
    start * remaining + end * (1.0 - remaining)
}
