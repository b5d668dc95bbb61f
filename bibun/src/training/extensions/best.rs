//! The best model so far.

use std::path::Path;

use super::Goal;
use super::watched::Watched;
use crate::links::Chain;
use crate::serializers::{State, StateError, save_npz};
use crate::training::{BoxError, Entry, Extension, Session};

/// An extension that writes the model to a file in the folder whenever a logged value is better
/// than all before: parameters and buffers, to be loaded by [`Chain::load_state`].
///
/// A line without the value is not counted; if no line has had it so far, a printed line says so once.
///
/// Snapshots contain the best model, too: when training is resumed, the file is written again as it
/// was then.
///
/// ```
/// use bibun::training::{Goal, KeepBest};
/// let best = KeepBest::new("best.npz", "test/loss", Goal::Lowest);
/// # let _ = best;
/// ```
#[derive(Debug)]
pub struct KeepBest {
    file: String,
    value: Watched,
    goal: Goal,
    best: Option<(f64, State)>,
}

impl KeepBest {
    /// Creates an extension that writes `file` when the value of this name is better than all
    /// before.
    pub fn new(file: impl Into<String>, value: impl Into<String>, goal: Goal) -> Self {
        Self {
            file: file.into(),
            value: Watched::new(value),
            goal,
            best: None,
        }
    }

    /// Returns the best value, or NaN if there is none yet.
    fn best_value(&self) -> f64 {
        self.best.as_ref().map_or(f64::NAN, |(best, _)| *best)
    }

    fn write<M>(&self, session: &Session<'_, M>) -> Result<(), BoxError> {
        match &self.best {
            Some((_, model)) => Ok(save_npz(session.file(&self.file)?, model)?),
            None => Ok(()),
        }
    }
}

impl<M: Chain> Extension<M> for KeepBest {
    fn name(&self) -> &str {
        "keep_best"
    }

    fn is_for_first(&self) -> bool {
        true
    }

    fn files(&self) -> Vec<&Path> {
        vec![Path::new(&self.file)]
    }

    fn start(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        // The file in the folder may belong to another line of snapshots, or to none at all.
        self.write(session)
    }

    fn logged(&mut self, entry: &Entry, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        if let Some(value) = self.value.value("keep_best", entry, session)
            && self.goal.is_better(value, self.best_value(), 0.0)
        {
            self.best = Some((value, session.model().state()));
            self.write(session)?;
        }
        Ok(())
    }

    fn state(&self) -> State {
        let mut state = State::new();
        state.insert("best", self.best_value());
        if let Some((_, model)) = &self.best {
            state.insert_part("model", model.clone());
        }
        state
    }

    fn load_state(&mut self, state: &State) -> Result<(), StateError> {
        let best = state.number("best")?;
        self.best = (!best.is_nan()).then(|| (best, state.part("model")));
        Ok(())
    }
}
