//! Smaller steps where nothing gets better.

use crate::optimizers::schedule::ReduceOnPlateau;
use crate::serializers::{State, StateError, Stateful};
use crate::training::{BoxError, Entry, Extension, Session};

/// Lowers the learning rate when a logged value has not got better for some lines of the log, as
/// [`ReduceOnPlateau`] says.
///
/// ```
/// use bibun::optimizers::schedule::ReduceOnPlateau;
/// use bibun::training::LowerRateOnPlateau;
/// let lower = LowerRateOnPlateau::new("test/loss", ReduceOnPlateau::new(0.1));
/// # let _ = lower;
/// ```
#[derive(Debug)]
pub struct LowerRateOnPlateau {
    value: String,
    rule: ReduceOnPlateau,
}

impl LowerRateOnPlateau {
    /// Watches the value of this name.
    pub fn new(value: impl Into<String>, rule: ReduceOnPlateau) -> Self {
        let value = value.into();
        Self { value, rule }
    }
}

impl<M> Extension<M> for LowerRateOnPlateau {
    fn name(&self) -> &str {
        "lower_rate_on_plateau"
    }

    fn logged(&mut self, entry: &Entry, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        if let Some(value) = entry.get(&self.value) {
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
