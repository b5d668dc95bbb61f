//! The best model so far.

use super::Goal;
use crate::links::Chain;
use crate::serializers::{State, StateError, save_npz};
use crate::training::{BoxError, Entry, Extension, Session};

/// Writes the model to a file of the folder whenever a logged value is better than ever: parameters
/// and buffers, to be loaded by [`Chain::load_state`].
///
/// ```
/// use bibun::training::{Goal, KeepBest};
/// let best = KeepBest::new("best.npz", "test/loss", Goal::Lowest);
/// # let _ = best;
/// ```
#[derive(Debug)]
pub struct KeepBest {
    file: String,
    value: String,
    goal: Goal,
    best: f64,
}

impl KeepBest {
    /// Writes `file` when the value of this name is better than ever.
    pub fn new(file: impl Into<String>, value: impl Into<String>, goal: Goal) -> Self {
        Self {
            file: file.into(),
            value: value.into(),
            goal,
            best: f64::NAN,
        }
    }
}

impl<M: Chain> Extension<M> for KeepBest {
    fn name(&self) -> &str {
        "keep_best"
    }

    fn start(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        session.folder().map(drop)
    }

    fn logged(&mut self, entry: &Entry, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        if let Some(value) = entry.get(&self.value)
            && self.goal.is_better(value, self.best, 0.0)
        {
            self.best = value;
            save_npz(session.folder()?.join(&self.file), &session.model().state())?;
        }
        Ok(())
    }

    fn state(&self) -> State {
        [("best", self.best)].into_iter().collect()
    }

    fn load_state(&mut self, state: &State) -> Result<(), StateError> {
        self.best = state.number("best")?;
        Ok(())
    }
}
