//! The progress of training, and triggers.

use std::fmt;
use std::time::Duration;

use crate::error::{Error, raise};
use crate::serializers::{State, StateError, Stateful};

/// The progress of training, after the step that has just been made.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct Clock {
    pub(super) iteration: u64,
    pub(super) epoch: f64,
    pub(super) epoch_before: f64,
    pub(super) examples: u64,
    pub(super) elapsed: Duration,
}

impl Clock {
    /// Returns the number of steps made so far.
    pub fn iteration(&self) -> u64 {
        self.iteration
    }

    /// Returns the number of passes over the data, including the completed fraction of the current
    /// one.
    pub fn epoch(&self) -> f64 {
        self.epoch
    }

    /// Returns the number of complete passes over the data.
    pub fn epochs(&self) -> u64 {
        passed(self.epoch, 1.0) as u64
    }

    /// Returns the number of examples seen so far, counting repetitions.
    pub fn examples(&self) -> u64 {
        self.examples
    }

    /// Returns the time spent in training, including the time before it was resumed.
    pub fn elapsed(&self) -> Duration {
        self.elapsed
    }
}

impl Stateful for Clock {
    fn state(&self) -> State {
        let mut state = State::new();
        state.insert("iteration", self.iteration);
        state.insert("epoch", self.epoch);
        state.insert("epoch_before", self.epoch_before);
        state.insert("examples", self.examples);
        state.insert("elapsed", self.elapsed.as_secs_f64());
        state
    }

    fn load_state(&mut self, state: &State) -> Result<(), StateError> {
        let elapsed = Duration::try_from_secs_f64(state.number("elapsed")?)
            .map_err(|_| StateError::wrong("elapsed", "is no duration"))?;
        *self = Self {
            iteration: state.count("iteration")?,
            epoch: state.number("epoch")?,
            epoch_before: state.number("epoch_before")?,
            examples: state.count("examples")?,
            elapsed,
        };
        Ok(())
    }
}

/// Returns the number of periods that are over at `epoch`, with a tolerance because sums of
/// fractions of an epoch are not exact.
fn passed(epoch: f64, period: f64) -> f64 {
    (epoch / period + 1e-9).floor()
}

/// The times at which something is due.
///
/// ```
/// use bibun::training::Trigger;
/// let often = Trigger::Epochs(0.1);
/// let first_steps = Trigger::when(|clock| clock.iteration() <= 10);
/// # let _ = (often, first_steps);
/// ```
pub enum Trigger {
    /// A period in steps.
    Iterations(u64),
    /// A period in passes over the data, more than 0, which may be a fraction of one.
    Epochs(f64),
    /// A list of steps, counted from 1.
    At(Vec<u64>),
    /// Never due.
    Never,
    /// A function that returns whether something is due.
    When(Box<dyn Fn(&Clock) -> bool + Send>),
}

impl Trigger {
    /// Creates a trigger that is due when a function of the [`Clock`] returns true.
    pub fn when(due: impl Fn(&Clock) -> bool + Send + 'static) -> Self {
        Self::When(Box::new(due))
    }

    /// Checks a trigger that a function is given.
    #[track_caller]
    pub(super) fn expect(&self, function: &'static str) {
        if let Self::Epochs(period) = self
            && (period.is_nan() || *period <= 0.0)
        {
            let what = format!("the period of {period} epochs is not more than 0");
            raise(Error::argument(function, what));
        }
    }

    /// Returns whether the trigger is due after the step that has just been made.
    pub fn is_due(&self, clock: &Clock) -> bool {
        match self {
            Self::Iterations(period) => clock.iteration.is_multiple_of((*period).max(1)),
            Self::Epochs(period) => {
                passed(clock.epoch, *period) > passed(clock.epoch_before, *period)
            }
            Self::At(iterations) => iterations.contains(&clock.iteration),
            Self::Never => false,
            Self::When(due) => due(clock),
        }
    }
}

impl fmt::Debug for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Iterations(period) => f.debug_tuple("Iterations").field(period).finish(),
            Self::Epochs(period) => f.debug_tuple("Epochs").field(period).finish(),
            Self::At(iterations) => f.debug_tuple("At").field(iterations).finish(),
            Self::Never => f.write_str("Never"),
            Self::When(_) => f.write_str("When(..)"),
        }
    }
}

/// The length of the training.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Until {
    /// A number of steps.
    Iterations(u64),
    /// A number of passes over the data, not negative.
    Epochs(f64),
    /// A time, including the time spent before training was resumed.
    Elapsed(Duration),
}

impl Until {
    /// Checks a length that a function is given.
    #[track_caller]
    pub(super) fn expect(self, function: &'static str) {
        if let Self::Epochs(epochs) = self
            && (epochs.is_nan() || epochs < 0.0)
        {
            let what = format!("{epochs} epochs are no length; it must be at least 0");
            raise(Error::argument(function, what));
        }
    }

    /// Returns the fraction of the training that has been made, at most 1.
    pub fn progress(self, clock: &Clock) -> f64 {
        let part = match self {
            Self::Iterations(iterations) => clock.iteration as f64 / iterations as f64,
            Self::Epochs(epochs) => (clock.epoch + 1e-9) / epochs,
            Self::Elapsed(time) => clock.elapsed.as_secs_f64() / time.as_secs_f64(),
        };
        // A training of length zero is finished.
        if part.is_nan() { 1.0 } else { part.min(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the iterations after which a trigger is due, with `steps` steps an epoch.
    fn due(trigger: &Trigger, steps: u64, iterations: u64) -> Vec<u64> {
        let at = |iteration: u64| iteration as f64 / steps as f64;
        let clocks = (1..=iterations).map(|iteration| Clock {
            iteration,
            epoch: at(iteration),
            epoch_before: at(iteration - 1),
            ..Clock::default()
        });
        let due = clocks.filter(|clock| trigger.is_due(clock));
        due.map(|clock| clock.iteration).collect()
    }

    #[test]
    fn triggers() {
        assert_eq!(due(&Trigger::Iterations(3), 10, 10), [3, 6, 9]);
        assert_eq!(due(&Trigger::Epochs(1.0), 7, 22), [7, 14, 21]);
        assert_eq!(
            due(&Trigger::Epochs(0.1), 10, 11),
            (1..=11).collect::<Vec<_>>()
        );
        assert_eq!(due(&Trigger::Epochs(0.5), 7, 14), [4, 7, 11, 14]);
        assert_eq!(due(&Trigger::Epochs(2.0), 3, 13), [6, 12]);
        assert_eq!(due(&Trigger::At(vec![2, 5]), 3, 9), [2, 5]);
        assert_eq!(due(&Trigger::Never, 3, 9), [0u64; 0]);
        assert_eq!(
            due(&Trigger::when(|clock| clock.iteration() == 4), 3, 9),
            [4]
        );
    }

    #[test]
    fn ends() {
        let clock = Clock {
            iteration: 30,
            epoch: 3.0,
            elapsed: Duration::from_secs(5),
            ..Clock::default()
        };
        assert_eq!(Until::Iterations(30).progress(&clock), 1.0);
        assert_eq!(Until::Iterations(60).progress(&clock), 0.5);
        assert_eq!(Until::Epochs(3.0).progress(&clock), 1.0);
        assert!(Until::Epochs(4.0).progress(&clock) < 0.76);
        assert_eq!(
            Until::Elapsed(Duration::from_secs(10)).progress(&clock),
            0.5
        );
        assert_eq!(Until::Iterations(0).progress(&Clock::default()), 1.0);
    }
}
