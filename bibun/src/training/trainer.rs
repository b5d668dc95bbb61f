//! The training loop.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bibun_array::Generator;

use super::batch_source::{BatchSource, BoxError};
use super::compiled::LossPrograms;
use super::error;
use super::extension::{Extension, Session};
use super::folder::Folder;
use super::interrupt::Interrupts;
use super::log::{self, Log};
use super::report::{Report, Step};
use super::snapshots::{self, Examined, Line, Snapshots};
use super::terminal::Terminal;
use super::together::{self, Agreed};
use super::train_step::{GradientStep, TrainStep};
use super::{Clock, TrainingError, Trigger, Until};
use crate::call::calling;
use crate::history::{History, history};
use crate::links::Chain;
use crate::optimizers::Optimizer;
use crate::parallel::Communicator;
use crate::randomness::in_part;
use crate::scope::train_mode;
use crate::serializers::{FileError, State, StateError, Stateful, load_snapshot};
use crate::tree::Tree;
use crate::variable::Variable;

/// A training loop: takes batches from a [`BatchSource`], learns from each by a [`TrainStep`], and
/// lets [`Extension`]s monitor, evaluate, draw, stop and save.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::datasets::{DataLoader, Digits};
/// use bibun::functions::{accuracy, softmax_cross_entropy};
/// use bibun::links::{Link, Linear};
/// use bibun::optimizers::Adam;
/// use bibun::training::{Evaluator, Step, Trainer, Until};
/// use bibun::{array::Array, Variable};
///
/// let loss = |model: &Linear, (x, t): &(Array, Array), step: &mut Step<'_>| {
///     let y = model.forward(&Variable::constant(x));
///     step.report("accuracy", accuracy(&y, t));
///     softmax_cross_entropy(y, t)
/// };
/// let digits = Digits::new(0);
/// let train = DataLoader::new(digits.images(0..500), 50).shuffle(0);
/// let test = DataLoader::new(digits.images(500..600), 50);
/// let model = Linear::new(784, 10, &mut Generator::new(0));
/// let mut trainer = Trainer::new(model, train, Adam::new(0.01), loss)
///     .until(Until::Epochs(3.0))
///     .extend(Evaluator::new("test", test, loss));
/// trainer.run()?;
/// let last = trainer.log().last().unwrap();
/// assert!(last.get("test/accuracy").unwrap() > 0.5);
/// # Ok::<(), bibun::training::TrainingError>(())
/// ```
pub struct Trainer<M, S: BatchSource> {
    model: M,
    source: S,
    train_step: Box<dyn TrainStep<M, S::Batch>>,
    programs: Option<LossPrograms<M, S::Batch>>,
    until: Until,
    seed: u64,
    folder: Option<PathBuf>,
    snapshots: Option<Snapshots>,
    log_trigger: Trigger,
    graph: Option<PathBuf>,
    interruptible: bool,
    /// The processes that train together.
    world: Option<Communicator>,
    /// Whether one of them was interrupted.
    interrupted: bool,
    extensions: Vec<Added<M>>,
    clock: Clock,
    report: Report,
    log: Log,
    terminal: Terminal,
    stopped: Option<String>,
    /// The snapshots in the folder.
    line: Line,
    /// The step that was begun and has not been completed, counted from 1.
    begun: Option<u64>,
}

/// An extension and the name under which its state is saved.
struct Added<M> {
    name: String,
    extension: Box<dyn Extension<M>>,
    /// The state in which it was added.
    initial: State,
}

/// The way in which a training ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The training reached its full length.
    Finished,
    /// An extension stopped the training, with this reason.
    Stopped(String),
    /// An interrupt stopped the training.
    Interrupted,
}

/// `finished`, `stopped: ...` or `interrupted`.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished => f.write_str("finished"),
            Self::Stopped(reason) => write!(f, "stopped: {reason}"),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

/// The result of [`Trainer::resume`] and [`Trainer::resume_from`].
#[derive(Debug)]
pub struct Resumed {
    /// The snapshot from which training continues, or `None` if there is no snapshot.
    pub snapshot: Option<PathBuf>,
    /// The errors of snapshots in the folder that could not be read. [`Trainer::run`] sets these
    /// snapshots aside.
    pub damaged: Vec<FileError>,
    /// The snapshots of later steps in the folder, which are abandoned. [`Trainer::run`] sets them
    /// aside.
    pub abandoned: Vec<PathBuf>,
}

/// The snapshot from which training continues, and the ones that were passed over.
impl fmt::Display for Resumed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for damaged in &self.damaged {
            writeln!(f, "passed over {damaged}")?;
        }
        for abandoned in &self.abandoned {
            writeln!(f, "abandoned {}", abandoned.display())?;
        }
        match &self.snapshot {
            Some(file) => write!(f, "training goes on from {}", file.display()),
            None => f.write_str("training begins"),
        }
    }
}

impl<M: Chain + 'static, S: BatchSource> Trainer<M, S> {
    /// Creates a training from an optimizer and a loss, which is a function of model and batch.
    pub fn new<F>(model: M, source: S, optimizer: impl Optimizer + 'static, loss: F) -> Self
    where
        F: Fn(&M, &S::Batch, &mut Step<'_>) -> Variable + 'static,
    {
        Self::with_train_step(model, source, GradientStep::new(optimizer, loss))
    }

    /// Creates a training with a custom train step.
    pub fn with_train_step(
        model: M,
        source: S,
        train_step: impl TrainStep<M, S::Batch> + 'static,
    ) -> Self {
        Self {
            model,
            source,
            train_step: Box::new(train_step),
            programs: None,
            until: Until::Epochs(1.0),
            seed: 0,
            folder: None,
            snapshots: None,
            log_trigger: Trigger::Epochs(1.0),
            graph: None,
            interruptible: false,
            world: None,
            interrupted: false,
            extensions: Vec::new(),
            clock: Clock::default(),
            report: Report::default(),
            log: Log::default(),
            terminal: Terminal::default(),
            stopped: None,
            line: Line::default(),
            begun: None,
        }
    }

    /// Compiles the loss together with its gradient, as [`compile`](crate::compile) does: the first step
    /// with batches of some shapes traces it, and later steps run a program. A ragged last batch of an
    /// epoch is a second program. The training has the same bits, and its snapshots are the same, so it
    /// can be compiled or not each time that it is resumed.
    ///
    /// The loss may not read values while it is traced, which is an error with its line. It reports
    /// metrics by [`Step::report_metric`], and draws random numbers in the data set or by links. Numbers
    /// that it captures keep their values. The update of the parameters, evaluation and extensions run as
    /// before.
    ///
    /// ```
    /// use bibun::array::{Array, Generator};
    /// use bibun::datasets::{DataLoader, Digits};
    /// use bibun::functions::{accuracy, softmax_cross_entropy};
    /// use bibun::links::{Linear, Link};
    /// use bibun::optimizers::Adam;
    /// use bibun::training::{Step, Trainer};
    /// use bibun::Variable;
    ///
    /// let loss = |model: &Linear, (x, t): &(Array, Array), step: &mut Step<'_>| {
    ///     let (y, t) = (model.forward(&Variable::constant(x)), Variable::constant(t));
    ///     step.report_metric("accuracy", [&y, &t], |[y, t]| accuracy(y, t));
    ///     softmax_cross_entropy(y, t)
    /// };
    /// let train = DataLoader::new(Digits::new(0).images(0..120), 50).shuffle(0);
    /// let model = Linear::new(784, 10, &mut Generator::new(0));
    /// let mut trainer = Trainer::new(model, train, Adam::new(0.01), loss).compiled();
    /// trainer.run()?;
    /// assert!(trainer.log().last().unwrap().get("accuracy").is_some());
    /// # Ok::<(), bibun::training::TrainingError>(())
    /// ```
    ///
    /// # Panics
    /// [`run`](Self::run) panics with a train step that does not compile its loss; that of
    /// [`Trainer::new`] does.
    #[must_use]
    pub fn compiled(mut self) -> Self
    where
        S::Batch: Tree + 'static,
    {
        self.programs = Some(LossPrograms::new());
        self
    }

    /// Returns how often the loss has been traced so far; it is 0 if the trainer is not
    /// [compiled](Self::compiled).
    pub fn traces(&self) -> usize {
        self.programs.as_ref().map_or(0, LossPrograms::traces)
    }

    /// Sets the length of the training. Defaults to one epoch.
    ///
    /// # Panics
    /// Panics if a number of epochs is negative or NaN.
    #[must_use]
    #[track_caller]
    pub fn until(mut self, until: Until) -> Self {
        until.expect("until");
        self.until = until;
        self
    }

    /// Sets the seed of the random numbers from [`Step::random`]. Defaults to 0.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the folder for the log, snapshots and pictures. Without a folder nothing is written.
    /// Only one training at a time can run in a folder.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self.line = Line::default();
        self
    }

    /// Makes snapshots in the folder.
    #[must_use]
    pub fn snapshots(mut self, snapshots: Snapshots) -> Self {
        self.snapshots = Some(snapshots);
        self
    }

    /// Sets when a line of the log is due. Defaults to every epoch.
    ///
    /// # Panics
    /// Panics if a period in epochs is not more than 0.
    #[must_use]
    #[track_caller]
    pub fn log_every(mut self, trigger: Trigger) -> Self {
        trigger.expect("log_every");
        self.log_trigger = trigger;
        self
    }

    /// Draws the history of the first loss into a file in the folder: an interactive page
    /// (`.html`), or `.svg`, `.dot`, `.txt`; see [`History::save`].
    #[must_use]
    pub fn draw_graph(mut self, file: impl Into<PathBuf>) -> Self {
        self.graph = Some(file.into());
        self
    }

    /// Lets Ctrl-C end the training after the current step, with a snapshot if there are snapshots.
    /// A second Ctrl-C ends the program at once. Interrupts come to the process as a whole, so this
    /// is for programs that do not handle them themselves.
    #[must_use]
    pub fn stop_on_interrupt(mut self) -> Self {
        self.interruptible = true;
        self
    }

    /// Trains together with other processes: there is one log, one line of snapshots and one progress for
    /// all, those of the first process. Only the first one needs the folder.
    ///
    /// What steps report is the mean over all processes, which all get; so extensions that stop or change
    /// the training do so on all. Those that only show or write
    /// ([`is_for_first`](Extension::is_for_first)) run on the first process. An
    /// [`Evaluator`](super::Evaluator) with data that is
    /// [divided](crate::datasets::DataLoader::shard) evaluates a part on each.
    ///
    /// The optimizer is to be a [`DataParallel`](crate::parallel::DataParallel), and the data divided. A
    /// snapshot has nothing of the number of processes in it: training goes on with any other.
    ///
    /// ```
    /// use bibun::datasets::DataLoader;
    /// use bibun::optimizers::Sgd;
    /// use bibun::parallel::{DataParallel, local};
    /// use bibun::training::{Step, Trainer, Until};
    /// use bibun::{Variable, array::Array};
    /// let train = |processes| {
    ///     let trained = local::run(processes, |world| {
    ///         let data = DataLoader::new(vec![1.0, 2.0, 3.0, 6.0], 4).shard(&world);
    ///         let loss = |w: &Variable, x: &Array, _: &mut Step<'_>| (w - x).square().mean(..);
    ///         let optimizer = DataParallel::new(Sgd::new(0.25), &world);
    ///         let mut trainer = Trainer::new(Variable::new(0.0), data, optimizer, loss)
    ///             .until(Until::Iterations(50))
    ///             .parallel(&world);
    ///         trainer.run().unwrap();
    ///         (trainer.model().item::<f64>(), trainer.log().last().unwrap().get("loss"))
    ///     });
    ///     trained[0]
    /// };
    /// assert_eq!(train(1), train(2));
    /// ```
    #[must_use]
    pub fn parallel(mut self, world: &Communicator) -> Self {
        self.world = Some(world.clone());
        self.terminal.is_quiet = !world.is_first();
        self
    }

    /// Adds an extension.
    #[must_use]
    pub fn extend(mut self, extension: impl Extension<M> + 'static) -> Self {
        let name = extension.name();
        let is_taken = |name: &str| self.extensions.iter().any(|added| added.name == name);
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        let name = names
            .find(|name| !is_taken(name))
            .expect("there is always a next number");
        let extension = Box::new(extension);
        let initial = extension.state();
        self.extensions.push(Added {
            name,
            extension,
            initial,
        });
        self
    }

    /// Returns the model.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// Returns the model and consumes the trainer.
    pub fn into_model(self) -> M {
        self.model
    }

    /// Returns the log so far.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Returns the progress of training.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Restores the state of the newest snapshot in the folder, if there is one; otherwise training
    /// begins from the start. All snapshots in the folder are read, and damaged ones are passed
    /// over. Nothing is written: [`run`](Self::run) sets aside the ones that were passed over. The
    /// same parameters are frozen as in the snapshot: to train others from here on, freeze and
    /// unfreeze after this call.
    ///
    /// # Errors
    /// Returns an error if the folder cannot be read, or the snapshot is of another training;
    /// nothing has changed then.
    pub fn resume(&mut self) -> Result<Resumed, TrainingError> {
        let Examined {
            newest,
            damaged,
            line,
            ..
        } = match self.own_folder() {
            Some(folder) => snapshots::examine(folder, None)?,
            None => Examined::default(),
        };
        let newest = self.of_first(newest)?;
        let snapshot = match newest {
            Some((file, state)) => {
                self.load(&file, &state)?;
                Some(file)
            }
            None => None,
        };
        self.line = line;
        Ok(Resumed {
            snapshot,
            damaged,
            abandoned: Vec::new(),
        })
    }

    /// Restores the state of a snapshot.
    ///
    /// If it is one of those in the folder, later snapshots there are abandoned: [`run`](Self::run)
    /// sets them aside. If it is from elsewhere, the folder must not contain snapshots.
    ///
    /// # Errors
    /// Returns an error if the snapshot cannot be read or is of another training; nothing has
    /// changed then.
    pub fn resume_from(&mut self, snapshot: impl AsRef<Path>) -> Result<Resumed, TrainingError> {
        let file = snapshot.as_ref();
        let own = match self.is_first() {
            true => Some((file.to_owned(), load_snapshot(file)?)),
            false => None,
        };
        let (_, state) = self.of_first(own)?.expect("the first one has read it");
        let before = std::mem::take(&mut self.line);
        let loaded = self.load(file, &state);
        if let Err(error) = loaded {
            self.line = before;
            return Err(error);
        }
        let own = self
            .own_folder()
            .filter(|folder| is_in(file, folder, self.clock.iteration));
        let examined = match own {
            Some(folder) => snapshots::examine(folder, Some(self.clock.iteration))?,
            None => Examined::default(),
        };
        self.line = examined.line;
        Ok(Resumed {
            snapshot: Some(file.to_owned()),
            damaged: examined.damaged,
            abandoned: examined.later,
        })
    }

    /// Returns whether this is the process that has the folder.
    fn is_first(&self) -> bool {
        self.world.as_ref().is_none_or(Communicator::is_first)
    }

    /// Returns the folder, on the process that has it.
    fn own_folder(&self) -> Option<&PathBuf> {
        self.folder.as_ref().filter(|_| self.is_first())
    }

    /// Returns what the first process has read.
    fn of_first(
        &self,
        own: Option<(PathBuf, State)>,
    ) -> Result<Option<(PathBuf, State)>, TrainingError> {
        let Some(world) = &self.world else {
            return Ok(own);
        };
        let state = together::first_has(world, own.as_ref().map(|(_, state)| state))?;
        let file = own.map_or_else(|| PathBuf::from("the snapshot"), |(file, _)| file);
        Ok(state.map(|state| (file, state)))
    }

    fn load(&mut self, file: &Path, state: &State) -> Result<(), TrainingError> {
        self.load_state(state)
            .map_err(|source| TrainingError::OtherTraining {
                file: file.to_owned(),
                source,
            })
    }

    /// Trains from the present state until the training is finished, stopped or interrupted. A
    /// training that an extension has stopped stays stopped, even when it is resumed; an
    /// interrupted one continues.
    ///
    /// While it runs, the folder is locked: no other training can use it. Before the first step,
    /// snapshots that [`resume`](Self::resume) or [`resume_from`](Self::resume_from) has passed
    /// over are moved to a new folder in it, `set_aside_1`. If some of them are of later steps, so
    /// are the log and the files of extensions ([`Extension::files`]), as the abandoned training
    /// left them. Nothing is deleted.
    ///
    /// # Errors
    /// Returns an error if data or files cannot be read or written, a number is not finite, another
    /// training uses the folder, or the folder has snapshots that this training does not continue
    /// from.
    ///
    /// Returns an error also if an error or a panic ended an earlier step before it was complete,
    /// because the batch has been taken, random numbers have been drawn, and buffers or some of the
    /// parameters may have changed. Such a training can continue after [`resume`](Self::resume),
    /// [`resume_from`](Self::resume_from) or [`load_state`](Stateful::load_state) has restored
    /// everything. However, if an optimizer's rule or hook has panicked in the middle of a
    /// parameter, that parameter is lost, and only a new model in a new `Trainer` can continue. An
    /// error in writing a snapshot comes after the step: then the training can simply be run again.
    ///
    /// # Panics
    /// Panics if there is a mistake in the loss (shapes that do not fit), with its location, as
    /// everywhere.
    #[track_caller]
    pub fn run(&mut self) -> Result<Outcome, TrainingError> {
        let _called = calling("");
        if let Some(iteration) = self.begun {
            return Err(TrainingError::BrokenOff { iteration });
        }
        let folder = self.open_folder()?;
        let folder = folder.as_ref();
        let interrupts = match self.interruptible {
            true => Some(Interrupts::listen()?),
            false => None,
        };
        self.each(|extension, session| extension.start(session))?;
        let outcome = self.go_on(folder, interrupts.as_ref());
        // Extensions release the terminal even if something went wrong.
        let finished = self.each(|extension, session| extension.finish(session));
        self.terminal.bar = None;
        let outcome = outcome?;
        finished?;
        Ok(outcome)
    }

    /// Opens the folder, and brings its contents to the present state of the training.
    fn open_folder(&mut self) -> Result<Option<Folder>, TrainingError> {
        let Some(path) = self.own_folder().cloned() else {
            if self.world.is_some() && self.clock.iteration > 0 {
                self.save(None)?;
            }
            return Ok(None);
        };
        let folder = Folder::open(&path)?;
        self.line.check(&path)?;
        let iteration = self.clock.iteration;
        let is_new = iteration == 0 && self.log.entries().is_empty();
        let mut files = Vec::new();
        if is_new || self.line.strange().any(|strange| strange > iteration) {
            files.extend(Log::is_in(folder.path()?).then(|| PathBuf::from(log::FILE)));
            files.extend(self.graph.clone().filter(|_| iteration == 0));
            for Added { extension, .. } in &self.extensions {
                files.extend(extension.files().into_iter().map(Path::to_owned));
            }
        }
        // Snapshots are moved last, the latest first, so that if this is interrupted, the rest can
        // be resumed from.
        let snapshots = self
            .line
            .strange()
            .map(|strange| snapshots::name(strange).into());
        folder.set_aside(files.into_iter().chain(snapshots))?;
        self.line.forget_strange();
        self.log.write(folder.path()?)?;
        // A training resumed from elsewhere can be resumed from this folder from now on.
        if iteration > 0 {
            self.save(Some(&folder))?;
        }
        Ok(Some(folder))
    }

    fn go_on(
        &mut self,
        folder: Option<&Folder>,
        interrupts: Option<&Interrupts>,
    ) -> Result<Outcome, TrainingError> {
        let before = self.clock.elapsed;
        let start = Instant::now();
        let outcome = loop {
            if self.until.progress(&self.clock) >= 1.0 {
                break Outcome::Finished;
            }
            if let Some(reason) = &self.stopped {
                break Outcome::Stopped(reason.clone());
            }
            let is_heard = match self.world {
                None => interrupts.is_some_and(Interrupts::heard),
                Some(_) => std::mem::take(&mut self.interrupted),
            };
            if is_heard {
                break Outcome::Interrupted;
            }
            // An error or a panic leaves this set.
            self.begun = Some(self.clock.iteration + 1);
            self.step(folder, interrupts, || before + start.elapsed())?;
            self.begun = None;
            let due = |snapshots: &Snapshots| snapshots.trigger.is_due(&self.clock);
            if self.snapshots.as_ref().is_some_and(due) {
                self.save(folder)?;
            }
        };
        // The last gradients may have been the first that were not finite.
        self.check_parameters()?;
        self.save(folder)?;
        Ok(outcome)
    }

    /// Makes one step and everything that is due after it, except a snapshot.
    fn step(
        &mut self,
        folder: Option<&Folder>,
        interrupts: Option<&Interrupts>,
        elapsed: impl Fn() -> Duration,
    ) -> Result<(), TrainingError> {
        // The first one is compared with those of the other processes.
        let next = error::together(|| self.source.next_batch())?;
        let (batch, mut examples) = next.map_err(TrainingError::Data)?;
        self.learn(&batch, examples)?;
        let mut now = elapsed();
        if let Some(world) = &self.world {
            let own = Agreed {
                examples,
                elapsed: now,
                is_interrupted: interrupts.is_some_and(Interrupts::heard),
            };
            let agreed = together::after_step(world, &own, &mut self.report)?;
            (examples, now) = (agreed.examples, agreed.elapsed);
            self.interrupted = agreed.is_interrupted;
        }
        // The next batch may reuse the memory of this one.
        drop(batch);
        self.clock.iteration += 1;
        self.clock.epoch_before = self.clock.epoch;
        self.clock.epoch = self.source.epoch();
        self.clock.examples += examples as u64;
        self.clock.elapsed = now;

        self.each(|extension, session| extension.after_step(session))?;
        let world = self.world.clone();
        self.each(|extension, session| {
            if !extension.trigger().is_due(session.clock) {
                return Ok(());
            }
            extension.run(session)?;
            if let Some(world) = world.as_ref().filter(|_| !extension.is_for_first()) {
                together::merge_reports(world, session.report)?;
            }
            Ok(())
        })?;
        // The time of the first process is that of all.
        if self.world.is_none() {
            self.clock.elapsed = elapsed();
        }
        self.log.interval.merge(&self.report);
        if self.log_trigger.is_due(&self.clock) {
            self.check_parameters()?;
            let rate = self.train_step.optimizer().learning_rate();
            let entry = self.log.close(&self.clock, rate).clone();
            if let Some(folder) = folder {
                self.log.append(folder.path()?)?;
            }
            self.each(|extension, session| extension.logged(&entry, session))?;
        }
        Ok(())
    }

    fn learn(&mut self, batch: &S::Batch, examples: usize) -> Result<(), TrainingError> {
        self.report.clear();
        let graph = self.graph.as_ref().filter(|_| self.clock.iteration == 0);
        let graph = graph
            .zip(self.own_folder())
            .map(|(file, folder)| folder.join(file));
        let mut drawn = Ok(());
        let model = &self.model;
        let mut draw = |loss: &Variable| {
            if let Some(file) = &graph {
                let history: History = history(loss).with_links(model);
                drawn = history.save(file).map_err(TrainingError::io(file));
            }
        };
        let mut step = Step {
            report: &mut self.report,
            random: Generator::new(self.seed).split(self.clock.iteration),
            clock: &self.clock,
            examples,
            weight: examples as f64,
            share: self.source.share(),
            look: graph.is_some().then_some(&mut draw),
            traced: None,
        };
        let update = || match &mut self.programs {
            None => self.train_step.update(model, batch, &mut step),
            Some(programs) => (self.train_step).update_compiled(model, batch, &mut step, programs),
        };
        in_part(self.source.part(), || train_mode(update))?;
        drawn
    }

    /// Checks that all parameters are finite before they are logged or saved.
    fn check_parameters(&self) -> Result<(), TrainingError> {
        for (name, parameter) in self.model.parameters() {
            if let Some((_, value, _)) = parameter.first_non_finite() {
                return Err(TrainingError::NotFinite {
                    iteration: self.clock.iteration,
                    what: format!("an element of the parameter `{name}`"),
                    value,
                    anomaly: None,
                });
            }
        }
        Ok(())
    }

    /// Saves a snapshot of this step, unless there is one.
    fn save(&mut self, folder: Option<&Folder>) -> Result<(), TrainingError> {
        let iteration = self.clock.iteration;
        let Some(snapshots) = &self.snapshots else {
            return Ok(());
        };
        let mut is_due = folder.is_some() && !self.line.has(iteration);
        if let Some(world) = &self.world {
            is_due = together::first_says(world, is_due)?;
        }
        if !is_due {
            return Ok(());
        }
        self.check_parameters()?;
        // Of several processes, each may have a part of it.
        let state = error::together(|| self.state())?;
        let Some(folder) = folder else {
            return Ok(());
        };
        snapshots.save(folder.path()?, &mut self.line, iteration, &state)
    }

    /// Calls `f` with every extension in turn, and the session.
    fn each(
        &mut self,
        mut f: impl FnMut(&mut dyn Extension<M>, &mut Session<'_, M>) -> Result<(), BoxError>,
    ) -> Result<(), TrainingError> {
        let (is_first, folder) = (self.is_first(), self.own_folder().cloned());
        for Added {
            name, extension, ..
        } in &mut self.extensions
        {
            if !is_first && extension.is_for_first() {
                continue;
            }
            let mut session = Session {
                model: &self.model,
                optimizer: self.train_step.optimizer(),
                clock: &self.clock,
                until: self.until,
                report: &mut self.report,
                log: &self.log,
                folder: folder.as_deref(),
                terminal: &mut self.terminal,
                stop: &mut self.stopped,
            };
            f(&mut **extension, &mut session).map_err(|source| TrainingError::Extension {
                extension: name.clone(),
                source,
            })?;
        }
        Ok(())
    }

    fn load_parts(&mut self, state: &State) -> Result<(), StateError> {
        let model = state.part("model");
        self.model
            .load_state(&model)
            .map_err(|error| error.within("model"))?;
        let frozen = state.part("frozen");
        for (name, parameter) in self.model.parameters() {
            if parameter.is_leaf() {
                parameter.set_requires_grad(frozen.get(&name).is_none());
            }
        }
        let train_step = state.part("train_step");
        self.train_step
            .load_state(&train_step)
            .map_err(|error| error.within("train_step"))?;
        state.load_part("source", &mut self.source)?;
        state.load_part("clock", &mut self.clock)?;
        state.load_part("log", &mut self.log)?;
        let stopped = state.text("stopped").map(str::to_owned);
        self.stopped = stopped.ok();
        self.seed = state.count("seed")?;
        for added in &mut self.extensions {
            let name = format!("extensions/{}", added.name);
            let mut part = state.part(&name);
            // An extension added since then starts from its initial state.
            if part.is_empty() {
                part = added.initial.clone();
            }
            if !part.is_empty() {
                (added.extension.load_state(&part)).map_err(|error| error.within(&name))?;
            }
        }
        Ok(())
    }
}

impl<M: Chain + 'static, S: BatchSource> Stateful for Trainer<M, S> {
    fn state(&self) -> State {
        let mut state = State::new();
        state.insert_part("model", self.model.state());
        let mut frozen = self.model.parameters();
        frozen.retain(|(_, parameter)| parameter.is_frozen());
        let frozen = frozen.into_iter().map(|(name, _)| (name, true));
        state.insert_part("frozen", frozen.collect());
        state.insert_part("train_step", self.train_step.state());
        state.insert_part("source", self.source.state());
        state.insert_part("clock", self.clock.state());
        state.insert_part("log", self.log.state());
        state.insert("seed", self.seed);
        if let Some(reason) = &self.stopped {
            state.insert("stopped", reason.as_str());
        }
        for Added {
            name, extension, ..
        } in &self.extensions
        {
            state.insert_part(&format!("extensions/{name}"), extension.state());
        }
        state
    }

    fn load_state(&mut self, state: &State) -> Result<(), StateError> {
        let before = self.state();
        // A panic in the middle leaves the training partly loaded.
        let begun = self.begun.replace(self.clock.iteration);
        if let Err(error) = self.load_parts(state) {
            self.load_parts(&before)
                .expect("a training fits to its own state");
            self.begun = begun;
            return Err(error);
        }
        self.begun = None;
        // Gradients may be left from an incomplete step.
        self.model.clear_grads();
        self.line = Line::default();
        Ok(())
    }
}

/// Returns whether a file is the snapshot of a step in a folder.
fn is_in(file: &Path, folder: &Path, iteration: u64) -> bool {
    let parent = file.parent().filter(|parent| *parent != Path::new(""));
    let parent = parent.unwrap_or(Path::new("."));
    let is_same =
        matches!((parent.canonicalize(), folder.canonicalize()), (Ok(a), Ok(b)) if a == b);
    is_same && file.file_name() == Some(snapshots::name(iteration).as_ref())
}

impl<M, S: BatchSource> fmt::Debug for Trainer<M, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.extensions.iter().map(|added| &*added.name).collect();
        f.debug_struct("Trainer")
            .field("clock", &self.clock)
            .field("until", &self.until)
            .field("folder", &self.folder)
            .field("extensions", &names)
            .finish_non_exhaustive()
    }
}
