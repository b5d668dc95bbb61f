//! What goes on beside the steps of training.

use std::fmt;
use std::path::Path;

use super::batch_source::BoxError;
use super::log::{Entry, Log};
use super::report::Report;
use super::terminal::Terminal;
use super::{Clock, Trigger, Until};
use crate::optimizers::Optimizer;
use crate::serializers::{State, StateError};

/// Something that goes on beside the steps of training: evaluation, plots, early stopping.
///
/// After each step every extension is told of it (`after_step`), in the order of adding; then those
/// that are due `run`; then, if a line of the log is due, it is written and all are shown it
/// (`logged`). A snapshot comes last, so that it holds all of this.
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
    /// Under which its state is saved; of several with one name, the second is called `name_2`.
    fn name(&self) -> &str;

    /// When [`run`](Self::run) is due.
    fn trigger(&self) -> &Trigger {
        &Trigger::Never
    }

    /// The files that it writes in the folder and replaces as a whole, by their names there. Where
    /// training goes back and takes another way, they are set aside; see
    /// [`Trainer::run`](super::Trainer::run).
    fn files(&self) -> Vec<&Path> {
        Vec::new()
    }

    /// Before the first step, also the first after a resumption.
    ///
    /// # Errors
    /// What ends the training.
    fn start(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        Ok(())
    }

    /// After every step. The report is that of the step.
    ///
    /// # Errors
    /// What ends the training.
    fn after_step(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        Ok(())
    }

    /// When it is due. What is put in the report here goes into the log.
    ///
    /// # Errors
    /// What ends the training.
    fn run(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        Ok(())
    }

    /// After a line of the log.
    ///
    /// # Errors
    /// What ends the training.
    fn logged(&mut self, entry: &Entry, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        Ok(())
    }

    /// After the last step, however it came to be the last.
    ///
    /// # Errors
    /// What is then the result of the training.
    fn finish(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        Ok(())
    }

    /// What a snapshot has to keep of it.
    fn state(&self) -> State {
        State::new()
    }

    /// Goes back to where `state` was taken.
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
    /// The model that is being trained.
    pub fn model(&self) -> &M {
        self.model
    }

    /// The optimizer.
    pub fn optimizer(&mut self) -> &mut dyn Optimizer {
        self.optimizer
    }

    /// Where training stands.
    pub fn clock(&self) -> &Clock {
        self.clock
    }

    /// Which part of the training has been made, from 0 to 1.
    pub fn progress(&self) -> f64 {
        self.until.progress(self.clock)
    }

    /// How long the training shall be.
    pub fn until(&self) -> Until {
        self.until
    }

    /// What is told of this step.
    pub fn report(&mut self) -> &mut Report {
        self.report
    }

    /// The log so far.
    pub fn log(&self) -> &Log {
        self.log
    }

    /// Where files go.
    ///
    /// # Errors
    /// Returns an error if the training has no folder.
    pub fn folder(&self) -> Result<&Path, BoxError> {
        let none = "files go to the folder of the training, but `Trainer::folder` was not called";
        self.folder.ok_or_else(|| none.into())
    }

    /// Prints a line, above a progress bar that may be there.
    pub fn print(&self, line: impl fmt::Display) {
        self.terminal.print(line);
    }

    /// The terminal.
    pub(super) fn terminal(&mut self) -> &mut Terminal {
        self.terminal
    }

    /// Ends the training after this step.
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
