//! Stopping when a value stops improving.

use super::Goal;
use super::watched::Watched;
use crate::serializers::{State, StateError};
use crate::training::{BoxError, Entry, Extension, Session};

/// An extension that stops the training when a logged value has not improved for a number of lines
/// of the log.
///
/// A line without the value is not counted; if no line has had it so far, a printed line says so once.
///
/// Source: Prechelt, "Early stopping, but when?", in: Neural networks: tricks of the trade, 1998.
///
/// ```
/// use bibun::training::{EarlyStopping, Goal};
/// let stop = EarlyStopping::new("test/accuracy", Goal::Highest).patience(5).margin(0.001);
/// # let _ = stop;
/// ```
#[derive(Debug)]
pub struct EarlyStopping {
    value: Watched,
    goal: Goal,
    patience: u64,
    margin: f64,
    best: f64,
    waited: u64,
}

impl EarlyStopping {
    /// Creates an extension that stops when the value of this name has not improved for three
    /// lines.
    pub fn new(value: impl Into<String>, goal: Goal) -> Self {
        Self {
            value: Watched::new(value),
            goal,
            patience: 3,
            margin: 0.0,
            best: f64::NAN,
            waited: 0,
        }
    }

    /// Sets the number of lines without improvement after which the training stops. Defaults to
    /// three.
    #[must_use]
    pub fn patience(mut self, lines: u64) -> Self {
        self.patience = lines.max(1);
        self
    }

    /// Sets the difference by which a value must be better to count as an improvement. Defaults to
    /// 0.
    #[must_use]
    pub fn margin(mut self, margin: f64) -> Self {
        self.margin = margin;
        self
    }
}

impl<M> Extension<M> for EarlyStopping {
    fn name(&self) -> &str {
        "early_stopping"
    }

    fn logged(&mut self, entry: &Entry, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        let Some(value) = self.value.value("early_stopping", entry, session) else {
            return Ok(());
        };
        if self.goal.is_better(value, self.best, self.margin) {
            (self.best, self.waited) = (value, 0);
            return Ok(());
        }
        self.waited += 1;
        if self.waited >= self.patience {
            let Self {
                value,
                best,
                waited,
                ..
            } = self;
            let times = if *waited == 1 { "line" } else { "lines" };
            session.stop(format!(
                "{} has not got better than {best:.6} for {waited} {times} of the log",
                value.name()
            ));
        }
        Ok(())
    }

    fn state(&self) -> State {
        let mut state = State::new();
        state.insert("best", self.best);
        state.insert("waited", self.waited);
        state
    }

    fn load_state(&mut self, state: &State) -> Result<(), StateError> {
        (self.best, self.waited) = (state.number("best")?, state.count("waited")?);
        Ok(())
    }
}
