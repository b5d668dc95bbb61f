//! Extensions, which run beside the steps of training.

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use super::batch_source::BoxError;
use super::log::{Entry, Log};
use super::report::Report;
use super::terminal::Terminal;
use super::{Clock, TrainingError, Trigger, Until};
use crate::optimizers::Optimizer;
use crate::serializers::{State, StateError};

/// Something that runs beside the steps of training: evaluation, plots, early stopping.
///
/// After each step `after_step` of every extension is called, in the order in which they were
/// added. Then `run` of those that are due is called. Then, if a line of the log is due, it is
/// written and `logged` of all is called with it. A snapshot comes last, so that it includes all of
/// this.
///
/// ```
/// use bibun::links::Chain;
/// use bibun::training::{BoxError, Entry, Extension, Session};
///
/// /// Prints the loss of every line of the log.
/// struct Shout;
/// impl<M: Chain> Extension<M> for Shout {
///     fn name(&self) -> &str {
///         "shout"
///     }
///     fn logged(&mut self, entry: &Entry, session: &mut Session<'_, M>) -> Result<(), BoxError> {
///         session.print(format!("{:?}!", entry.get("loss")));
///         Ok(())
///     }
/// }
/// ```
#[allow(unused_variables)]
pub trait Extension<M> {
    /// Returns the name under which the extension's state is saved; if several have the same name,
    /// the second is called `name_2`.
    fn name(&self) -> &str;

    /// Returns the trigger for [`run`](Self::run).
    fn trigger(&self) -> &Trigger {
        &Trigger::Never
    }

    /// Returns the names, in the folder, of the files that the extension writes and replaces as a
    /// whole. When training goes back to an earlier step and continues differently, these files are
    /// set aside; see [`Trainer::run`](super::Trainer::run).
    fn files(&self) -> Vec<&Path> {
        Vec::new()
    }

    /// Returns whether the extension does nothing but show and write, so that of several processes only the
    /// first one runs it ([`Trainer::parallel`](super::Trainer::parallel)). Defaults to `false`: all run it,
    /// and what it reports is the mean over all.
    fn is_for_first(&self) -> bool {
        false
    }

    /// Runs before the first step, also before the first one after a resume.
    ///
    /// # Errors
    /// Returns an error if the training is to end with it.
    fn start(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        Ok(())
    }

    /// Runs after every step. The report is that of the step.
    ///
    /// # Errors
    /// Returns an error if the training is to end with it.
    fn after_step(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        Ok(())
    }

    /// Runs when the extension is due. Values added to the report here go into the log.
    ///
    /// # Errors
    /// Returns an error if the training is to end with it.
    fn run(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        Ok(())
    }

    /// Runs after a line of the log.
    ///
    /// # Errors
    /// Returns an error if the training is to end with it.
    fn logged(&mut self, entry: &Entry, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        Ok(())
    }

    /// Runs after the last step, for whatever reason it was the last.
    ///
    /// # Errors
    /// Returns an error if it is to be the result of the training.
    fn finish(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        Ok(())
    }

    /// Returns the state that a snapshot saves for the extension. It is asked for when the extension is added, too: a
    /// snapshot that does not know the extension brings it back to that state.
    fn state(&self) -> State {
        State::new()
    }

    /// Restores the state that was taken.
    ///
    /// # Errors
    /// Returns an error if the state is of something else.
    fn load_state(&mut self, state: &State) -> Result<(), StateError> {
        Ok(())
    }
}

/// The training as its extensions see it.
pub struct Session<'a, M> {
    pub(super) model: &'a M,
    pub(super) optimizer: &'a mut dyn Optimizer,
    pub(super) clock: &'a Clock,
    pub(super) until: Until,
    pub(super) report: &'a mut Report,
    pub(super) log: &'a Log,
    pub(super) folder: Option<&'a Path>,
    pub(super) terminal: &'a mut Terminal,
    pub(super) stop: &'a mut Option<String>,
}

impl<M> Session<'_, M> {
    /// Returns the model that is being trained.
    pub fn model(&self) -> &M {
        self.model
    }

    /// Returns the optimizer.
    pub fn optimizer(&mut self) -> &mut dyn Optimizer {
        self.optimizer
    }

    /// Returns the progress of training.
    pub fn clock(&self) -> &Clock {
        self.clock
    }

    /// Returns the fraction of the training that has been made, from 0 to 1.
    pub fn progress(&self) -> f64 {
        self.until.progress(self.clock)
    }

    /// Returns the length of the training.
    pub fn until(&self) -> Until {
        self.until
    }

    /// Returns the report of this step.
    pub fn report(&mut self) -> &mut Report {
        self.report
    }

    /// Returns the log so far.
    pub fn log(&self) -> &Log {
        self.log
    }

    /// Returns the folder for files.
    ///
    /// # Errors
    /// Returns an error if the training has no folder.
    pub fn folder(&self) -> Result<&Path, BoxError> {
        if self.terminal.is_quiet {
            return Err(
                "only the first process has a folder; ask `Session::is_first` before".into(),
            );
        }
        let none = "files go to the folder of the training, but `Trainer::folder` was not called";
        self.folder.ok_or_else(|| none.into())
    }

    /// Returns the path of a file in the folder, and creates the folders of the file in it.
    ///
    /// # Errors
    /// Returns an error if the training has no folder, or a folder cannot be created.
    pub fn file(&self, name: impl AsRef<Path>) -> Result<PathBuf, BoxError> {
        let folder = self.folder()?;
        let file = folder.join(name);
        // A folder of the training that has gone away does not come back.
        if let Some(own) = file.parent()
            && folder.is_dir()
        {
            fs::create_dir_all(own).map_err(TrainingError::io(own))?;
        }
        Ok(file)
    }

    /// Returns whether this is the first process of a training, or the only one: the one that has a folder
    /// and prints.
    pub fn is_first(&self) -> bool {
        !self.terminal.is_quiet
    }

    /// Prints a line, above the progress bar if there is one.
    pub fn print(&self, line: impl fmt::Display) {
        self.terminal.print(line);
    }

    /// Returns the terminal.
    pub(super) fn terminal(&mut self) -> &mut Terminal {
        self.terminal
    }

    /// Ends the training after this step, with a reason.
    pub fn stop(&mut self, reason: impl Into<String>) {
        self.stop.get_or_insert_with(|| reason.into());
    }
}

impl<M> fmt::Debug for Session<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
