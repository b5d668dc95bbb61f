//! A lower learning rate when a value stops improving.

use super::watched::Watched;
use crate::optimizers::schedule::ReduceOnPlateau;
use crate::serializers::{State, StateError, Stateful};
use crate::training::{BoxError, Entry, Extension, Session};

/// An extension that lowers the learning rate when a logged value has not improved for some lines
/// of the log, by the rule of [`ReduceOnPlateau`].
///
/// A line without the value is not counted; if no line has had it so far, a printed line says so once.
///
/// ```
/// use bibun::optimizers::schedule::ReduceOnPlateau;
/// use bibun::training::LowerRateOnPlateau;
/// let lower = LowerRateOnPlateau::new("test/loss", ReduceOnPlateau::new(0.1));
/// # let _ = lower;
/// ```
#[derive(Debug)]
pub struct LowerRateOnPlateau {
    value: Watched,
    rule: ReduceOnPlateau,
}

impl LowerRateOnPlateau {
    /// Creates an extension that observes the value of this name.
    pub fn new(value: impl Into<String>, rule: ReduceOnPlateau) -> Self {
        Self {
            value: Watched::new(value),
            rule,
        }
    }
}

impl<M> Extension<M> for LowerRateOnPlateau {
    fn name(&self) -> &str {
        "lower_rate_on_plateau"
    }

    fn logged(&mut self, entry: &Entry, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        if let Some(value) = self.value.value("lower_rate_on_plateau", entry, session) {
            self.rule.observe(value, session.optimizer());
        }
        Ok(())
    }

    fn state(&self) -> State {
        self.rule.state()
    }

    fn load_state(&mut self, state: &State) -> Result<(), StateError> {
        self.rule.load_state(state)
    }
}
