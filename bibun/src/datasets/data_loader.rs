//! Iteration over a data set, batch by batch.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use bibun_array::Generator;

use super::{Batch, DataError, Dataset};
use crate::call::calling;
use crate::error::{Error, attempt, raise};
use crate::parallel::Communicator;
use crate::randomness::BatchPart;
use crate::serializers::{State, StateError, Stateful};
use crate::surroundings::Scopes;

/// The batches of a data set, one epoch after another without end.
///
/// Examples come in their own order or, after [`DataLoader::shuffle`], in an order that is drawn
/// anew for each epoch. With [`DataLoader::prefetch`], threads make batches before they are
/// requested; order and values are the same for any number of threads.
///
/// The batches are determined by the seed, the epoch and the position in it. The order is the first
/// permutation drawn from `Generator::new(seed).split(epoch)`. The randomness of example `i` comes
/// from stream `i`, split from that generator. The saved state is the position of the consumer;
/// batches that were made ahead are made again after a resume.
///
/// If a batch cannot be made, its turn gives an error (or a panic) once, and the loader continues
/// with the next batch. The loader is not an `Iterator`, because a loop over it would never end.
///
/// ```
/// use bibun::datasets::{DataLoader, Digits};
/// use bibun::serializers::Stateful;
/// let digits = Digits::new(0).images(0..100);
/// let mut batches = DataLoader::new(digits.clone(), 32).shuffle(7).prefetch(4, 2);
/// let sizes = [(); 4].map(|()| batches.next_batch().unwrap().0.shape()[0]);
/// assert_eq!(sizes, [32, 32, 32, 4]);
/// assert!(batches.is_new_epoch());
///
/// let saved = batches.state();
/// let (_, t) = batches.next_batch()?;
/// let mut resumed = DataLoader::new(digits, 32).shuffle(0);
/// resumed.load_state(&saved)?;
/// assert_eq!(resumed.next_batch()?.1.to_vec::<i64>(), t.to_vec::<i64>());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct DataLoader<D: Dataset> {
    dataset: Arc<D>,
    plan: Plan,
    /// The position of the consumer.
    cursor: Cursor,
    /// The processes that the data is divided among, if it is.
    world: Option<Communicator>,
    /// The share of this process in the last batch.
    share: Share,
    ahead: usize,
    threads: usize,
    /// The pipeline that makes the batches from `cursor` on, once they are requested.
    pipeline: Option<Pipeline<D, Schedule>>,
}

/// The division of the data set into batches.
#[derive(Clone, Debug)]
struct Plan {
    examples: usize,
    batch_size: usize,
    drop_last: bool,
    shuffled: bool,
    seed: u64,
    /// The number of this process, and the number of all.
    process: [usize; 2],
}

/// The part of a batch that one of several processes has.
#[derive(Clone, Copy, Debug)]
struct Share {
    examples: usize,
    weight: f64,
    part: BatchPart,
}

/// The position of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cursor {
    epoch: u64,
    position: usize,
}

impl<D: Dataset> DataLoader<D> {
    /// Creates a loader of batches of `batch_size` examples in order; the last one of an epoch has
    /// the remaining examples. To use the data set elsewhere too, pass an [`Arc`] of it.
    ///
    /// # Panics
    /// Panics if the batch size is 0 or the data set is empty.
    #[track_caller]
    pub fn new(dataset: D, batch_size: usize) -> Self {
        let _called = calling("DataLoader");
        let examples = dataset.len();
        if batch_size == 0 {
            raise(Error::argument(
                "DataLoader",
                "a batch of 0 examples is no batch",
            ));
        }
        if examples == 0 {
            raise(Error::argument(
                "DataLoader",
                "the data set has no examples",
            ));
        }
        Self {
            dataset: Arc::new(dataset),
            plan: Plan {
                examples,
                batch_size,
                drop_last: false,
                shuffled: false,
                seed: 0,
                process: [0, 1],
            },
            cursor: Cursor {
                epoch: 0,
                position: 0,
            },
            world: None,
            share: Share {
                examples: 0,
                weight: 1.0,
                part: BatchPart::new(0..0, 0),
            },
            ahead: 0,
            threads: 0,
            pipeline: None,
        }
    }

    /// Draws a new order for each epoch. The seed is also that of augmentation.
    #[must_use]
    pub fn shuffle(mut self, seed: u64) -> Self {
        self.plan.shuffled = true;
        self.seed(seed)
    }

    /// Sets the seed of the randomness of examples. Defaults to 0.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.plan.seed = seed;
        self.pipeline = None;
        self
    }

    /// Leaves out the last batch of an epoch if it is not full.
    ///
    /// # Panics
    /// Panics if there are fewer examples than the batch size.
    #[must_use]
    #[track_caller]
    pub fn drop_last(mut self) -> Self {
        let Plan {
            examples,
            batch_size,
            ..
        } = self.plan;
        if batch_size > examples {
            let what = format!("{examples} examples do not fill a batch of {batch_size}");
            raise(Error::argument("drop_last", what));
        }
        self.plan.drop_last = true;
        self.pipeline = None;
        self
    }

    /// Divides every batch among the processes of a group: the batch size is that of all together, and
    /// each process gets its part of every batch, in the order of the ranks. So the examples of a step, their
    /// order and their randomness are the same for any number of processes, no example is used twice, and
    /// the position that is saved is that of all.
    ///
    /// Parts differ by one example at most; [`share`](Self::share) says how much the last one weighs. A
    /// process without an example in a batch, because there are fewer than processes, gets the first one
    /// with a weight of zero, so that it can take part in the step.
    ///
    /// All processes must have the same data, batch size, seed and position. They compare them when the first
    /// batch is requested, and again after a state is loaded: so that request is a collective.
    ///
    /// ```
    /// use bibun::datasets::DataLoader;
    /// use bibun::parallel::local;
    /// let parts = local::run(2, |world| {
    ///     let mut loader = DataLoader::new(vec![1i64, 2, 3, 4, 5], 4).shard(&world);
    ///     [(); 2].map(|()| (loader.next_batch().unwrap().to_vec::<i64>(), loader.share()))
    /// });
    /// assert_eq!(parts[0], [(vec![1, 2], 1.0), (vec![5], 0.0)]);
    /// assert_eq!(parts[1], [(vec![3, 4], 1.0), (vec![5], 2.0)]);
    /// ```
    #[must_use]
    pub fn shard(mut self, processes: &Communicator) -> Self {
        self.plan.process = [processes.rank(), processes.size()];
        self.world = Some(processes.clone());
        self.pipeline = None;
        self
    }

    /// Returns the weight of the last batch of this process in the mean over all processes: the number of
    /// its examples, by the mean of those numbers. It is 1 if the data is not [divided](Self::shard). A
    /// loss that is a mean over the examples of this process, times this weight, has the loss over all
    /// examples as its mean over the processes.
    pub fn share(&self) -> f64 {
        self.share.weight
    }

    /// Returns the number of examples in the last batch that belong to this process.
    pub fn examples(&self) -> usize {
        self.share.examples
    }

    /// Returns the part of the batch of all processes that the last batch of this process is. A step in a loop
    /// of one's own is to be [run](BatchPart::run) in it, so that dropout and the like draw for each example
    /// what they would draw on one process; a [`Trainer`](crate::training::Trainer) does so.
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::datasets::DataLoader;
    /// use bibun::functions::dropout;
    /// use bibun::parallel::local;
    /// let masked = |processes| {
    ///     let parts = local::run(processes, |world| {
    ///         let mut loader = DataLoader::new(vec![1.0; 10], 10).shard(&world);
    ///         let x = loader.next_batch().unwrap();
    ///         let random = &mut Generator::new(0);
    ///         loader.part().run(|| dropout(&x, 0.5, random)).to_vec::<f64>()
    ///     });
    ///     parts.concat()
    /// };
    /// assert_eq!(masked(3), masked(1));
    /// ```
    pub fn part(&self) -> BatchPart {
        self.share.part
    }

    /// Makes up to `batches` batches, but at least one for each thread, ahead on `threads` threads.
    /// With 0 threads, each batch is made when it is requested.
    ///
    /// # Panics
    /// Panics if there are more than 65,536 batches or threads.
    #[must_use]
    #[track_caller]
    pub fn prefetch(mut self, batches: usize, threads: usize) -> Self {
        self.ahead = batches.max(threads);
        if self.ahead > 1 << 16 {
            let what = format!(
                "{batches} batches on {threads} threads; there can be at most 65536 of both"
            );
            raise(Error::argument("prefetch", what));
        }
        self.threads = threads;
        self.pipeline = None;
        self
    }

    /// Returns the next batch; after the last one of an epoch, the first one of the next.
    ///
    /// # Errors
    /// Returns an error if an example cannot be read or examples do not fit together. The batch is
    /// then skipped: the next call returns the one after it.
    ///
    /// # Panics
    /// Panics if the data is [divided](Self::shard) and the processes have other data or settings, or do not
    /// come together.
    #[track_caller]
    pub fn next_batch(&mut self) -> Result<Batch<D>, DataError> {
        if let (Some(world), None) = (&self.world, &self.pipeline) {
            let _called = calling("DataLoader");
            expect_same_plan(world, &self.plan, self.cursor);
        }
        let pipeline = self.pipeline.get_or_insert_with(|| {
            let schedule = Schedule {
                plan: self.plan.clone(),
                cursor: self.cursor,
                order: None,
            };
            Pipeline::new(self.dataset.clone(), schedule, self.ahead, self.threads)
        });
        self.share = self.plan.share(&self.plan.range(self.cursor));
        self.cursor = self.plan.after(self.cursor);
        pipeline.next().expect("a schedule does not end")
    }

    /// Returns an iterator over all examples once, in order, for evaluation. It does not move the
    /// loader and includes the last batch even if that is not full. Of data that is
    /// [divided](Self::shard), it is the part of this process. Threads work ahead as they do for the
    /// loader. The randomness of examples is the same in every such pass.
    ///
    /// ```
    /// use bibun::datasets::DataLoader;
    /// let batches = DataLoader::new(vec![1.0f64, 2.0, 3.0], 2).shuffle(0);
    /// let sums = batches.once().map(|batch| Ok(batch?.sum(..).item::<f64>()));
    /// let sums: Vec<f64> = sums.collect::<Result<_, bibun::datasets::DataError>>()?;
    /// assert_eq!(sums, [3.0, 3.0]);
    /// # Ok::<(), bibun::datasets::DataError>(())
    /// ```
    pub fn once(&self) -> impl Iterator<Item = Result<Batch<D>, DataError>> + use<D> {
        let plan = Plan {
            drop_last: false,
            shuffled: false,
            ..self.plan
        };
        // Training never reaches an epoch with this number.
        let random = plan.random(u64::MAX);
        let jobs = plan.ranges_once().map(move |own| Job {
            indices: own.collect(),
            random: random.clone(),
        });
        Pipeline::new(self.dataset.clone(), jobs, self.ahead, self.threads)
    }

    /// Returns the number of examples in each batch of [`once`](Self::once).
    #[cfg(feature = "training")]
    pub(crate) fn sizes_once(&self) -> impl Iterator<Item = usize> + use<D> {
        self.plan.clone().ranges_once().map(|own| own.len())
    }

    /// Returns the number of complete passes over the data set.
    pub fn epoch(&self) -> u64 {
        self.cursor.epoch
    }

    /// Returns the number of examples of this pass that have been returned.
    pub fn position(&self) -> usize {
        self.cursor.position
    }

    /// Returns the number of passes, including the completed fraction of the current one.
    pub fn epoch_detail(&self) -> f64 {
        let Cursor { epoch, position } = self.cursor;
        epoch as f64 + position as f64 / self.plan.examples_per_epoch() as f64
    }

    /// Returns whether the last batch ended a pass.
    pub fn is_new_epoch(&self) -> bool {
        self.cursor.epoch > 0 && self.cursor.position == 0
    }

    /// Returns the number of batches in a pass.
    pub fn batches_per_epoch(&self) -> usize {
        self.plan
            .examples_per_epoch()
            .div_ceil(self.plan.batch_size)
    }

    /// Returns the number of examples in a batch; the last batch of a pass may have fewer.
    pub fn batch_size(&self) -> usize {
        self.plan.batch_size
    }

    /// Returns the data set.
    pub fn dataset(&self) -> &D {
        &self.dataset
    }
}

impl<D: Dataset> fmt::Debug for DataLoader<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataLoader")
            .field("plan", &self.plan)
            .field("cursor", &self.cursor)
            .field("ahead", &self.ahead)
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

/// The state has `epoch`, `position` and `seed`, and the number of examples, which must be the
/// same.
impl<D: Dataset> Stateful for DataLoader<D> {
    fn state(&self) -> State {
        let values = [
            ("epoch", self.cursor.epoch),
            ("position", self.cursor.position as u64),
            ("seed", self.plan.seed),
            ("examples", self.plan.examples as u64),
        ];
        values.into_iter().collect()
    }

    fn load_state(&mut self, state: &State) -> Result<(), StateError> {
        let (epoch, seed) = (state.count("epoch")?, state.count("seed")?);
        let (examples, expected) = (state.count("examples")?, self.plan.examples);
        if examples != expected as u64 {
            let what = format!("is {examples}, but the data set has {expected}");
            return Err(StateError::wrong("examples", what));
        }
        let found = state.count("position")?;
        let within = usize::try_from(found)
            .ok()
            .filter(|&position| self.plan.begins_batch(position));
        let Some(position) = within else {
            let what = format!(
                "is {found}, where no batch of {} examples begins",
                self.plan.batch_size
            );
            return Err(StateError::wrong("position", what));
        };
        self.cursor = Cursor { epoch, position };
        self.plan.seed = seed;
        self.pipeline = None;
        Ok(())
    }
}

impl Plan {
    /// Returns the stream of an epoch.
    fn random(&self, epoch: u64) -> Generator {
        Generator::new(self.seed).split(epoch)
    }

    /// Returns whether a batch can begin at this position. A position saved with another batch size
    /// may be valid.
    fn begins_batch(&self, position: usize) -> bool {
        let least = if self.drop_last { self.batch_size } else { 1 };
        self.examples
            .checked_sub(position)
            .is_some_and(|left| left >= least)
    }

    fn range(&self, cursor: Cursor) -> Range<usize> {
        let start = cursor.position;
        start..start.saturating_add(self.batch_size).min(self.examples)
    }

    /// Returns the part of a range that belongs to this process.
    fn own(&self, range: &Range<usize>) -> Range<usize> {
        let [rank, size] = self.process;
        let at = |rank: usize| range.start + range.len() * rank / size;
        at(rank)..at(rank + 1)
    }

    /// Returns the parts of this process in one pass over all examples, in order.
    fn ranges_once(self) -> impl Iterator<Item = Range<usize>> {
        let starts = (0..self.examples).step_by(self.batch_size);
        let ranges = starts.map(move |position| {
            let epoch = u64::MAX;
            self.own(&self.range(Cursor { epoch, position }))
        });
        ranges.filter(|own| !own.is_empty())
    }

    fn share(&self, range: &Range<usize>) -> Share {
        let (examples, size) = (self.own(range).len(), self.process[1]);
        let weight = match (examples * size).cmp(&range.len()) {
            std::cmp::Ordering::Equal => 1.0,
            _ => (examples * size) as f64 / range.len() as f64,
        };
        let first = self.own(range).start - range.start;
        // A process without an example has the first one.
        let part = match examples {
            0 => BatchPart::new(0..1, range.len()),
            _ => BatchPart::new(first..first + examples, range.len()),
        };
        Share {
            examples,
            weight,
            part,
        }
    }

    fn after(&self, cursor: Cursor) -> Cursor {
        let position = self.range(cursor).end;
        match self.begins_batch(position) {
            true => Cursor { position, ..cursor },
            false => Cursor {
                epoch: cursor.epoch.wrapping_add(1),
                position: 0,
            },
        }
    }

    fn examples_per_epoch(&self) -> usize {
        match self.drop_last {
            true => self.examples - self.examples % self.batch_size,
            false => self.examples,
        }
    }
}

/// Checks that all processes divide the same batches.
#[track_caller]
fn expect_same_plan(world: &Communicator, plan: &Plan, cursor: Cursor) {
    let own = [
        ("the number of examples", plan.examples as u64),
        ("the batch size", plan.batch_size as u64),
        (
            "the order (0 as it is, 1 shuffled)",
            u64::from(plan.shuffled),
        ),
        ("drop_last (0 no, 1 yes)", u64::from(plan.drop_last)),
        ("the seed", plan.seed),
        ("the epoch", cursor.epoch),
        ("the position", cursor.position as u64),
    ];
    let bytes: Vec<u8> = own
        .iter()
        .flat_map(|(_, number)| number.to_le_bytes())
        .collect();
    let all = world.gather_bytes(&bytes);
    for (rank, theirs) in all.iter().enumerate() {
        let (first, theirs) = (all[0].as_chunks::<8>().0, theirs.as_chunks::<8>().0);
        let mut pairs = own.iter().zip(first.iter().zip(theirs));
        let differs = pairs.find(|(_, (first, theirs))| first != theirs);
        if let Some(((name, _), (first, theirs))) = differs {
            let [first, theirs] = [first, theirs].map(|&bytes| u64::from_le_bytes(bytes));
            let what = format!(
                "the processes divide different data: {name} is {first} on process 0 and {theirs} on \
                 process {rank}; all must have the same data and settings"
            );
            raise(Error::argument("DataLoader", what));
        }
    }
}

/// A batch to be made.
struct Job {
    indices: Vec<usize>,
    random: Generator,
}

/// All batches from a position on.
struct Schedule {
    plan: Plan,
    cursor: Cursor,
    /// The order of the epoch at `cursor`, once it is drawn.
    order: Option<Epoch>,
}

struct Epoch {
    number: u64,
    random: Generator,
    /// The order; empty if the examples come in their own order.
    order: Vec<i64>,
}

impl Iterator for Schedule {
    type Item = Job;

    fn next(&mut self) -> Option<Job> {
        let Cursor { epoch: number, .. } = self.cursor;
        let epoch = match self.order.take() {
            Some(epoch) if epoch.number == number => epoch,
            _ => {
                let random = self.plan.random(number);
                let order = match self.plan.shuffled {
                    true => random.clone().permutation(self.plan.examples).to_vec(),
                    false => Vec::new(),
                };
                Epoch {
                    number,
                    random,
                    order,
                }
            }
        };
        let whole = self.plan.range(self.cursor);
        let own = self.plan.own(&whole);
        // A process without an example takes part with one of no weight.
        let range = match own.is_empty() {
            true => whole.start..whole.start + 1,
            false => own,
        };
        self.cursor = self.plan.after(self.cursor);
        let indices = match epoch.order.get(range.clone()) {
            Some(order) if self.plan.shuffled => {
                order.iter().map(|&index| index as usize).collect()
            }
            _ => range.collect(),
        };
        let random = epoch.random.clone();
        self.order = Some(epoch);
        Some(Job { indices, random })
    }
}

/// The outcome of a job: a batch, an error, or a panic to be raised in the consumer's thread.
enum Outcome<B> {
    Made(Result<B, DataError>),
    Raised(Error),
    Panicked(Box<dyn Any + Send>),
}

impl<B> Outcome<B> {
    fn of(make: impl FnOnce() -> Result<B, DataError>) -> Self {
        match catch_unwind(AssertUnwindSafe(|| attempt(make))) {
            Ok(Ok(made)) => Self::Made(made),
            Ok(Err(error)) => Self::Raised(error),
            Err(payload) => Self::Panicked(payload),
        }
    }

    fn handed_over(self) -> Result<B, DataError> {
        match self {
            Self::Made(made) => made,
            Self::Raised(error) => raise(error),
            Self::Panicked(payload) => resume_unwind(payload),
        }
    }
}

/// Batches from jobs, in the order of the jobs.
struct Pipeline<D: Dataset, J> {
    dataset: Arc<D>,
    jobs: J,
    ahead: usize,
    workers: Option<Workers<Batch<D>>>,
}

/// Threads that wait for jobs, and the jobs that they were given.
struct Workers<B> {
    /// The queue of jobs, with the scopes of the requesting thread.
    jobs: Sender<(Job, Scopes, ReplyTo<B>)>,
    /// The receivers of the outcomes, in order.
    pending: VecDeque<Receiver<Outcome<B>>>,
    stop: Arc<AtomicBool>,
}

type ReplyTo<B> = std::sync::mpsc::SyncSender<Outcome<B>>;

impl<D: Dataset, J: Iterator<Item = Job>> Pipeline<D, J> {
    fn new(dataset: Arc<D>, jobs: J, ahead: usize, threads: usize) -> Self {
        let workers = (threads > 0).then(|| Workers::start(&dataset, threads));
        Self {
            dataset,
            jobs,
            ahead,
            workers,
        }
    }
}

impl<D: Dataset, J: Iterator<Item = Job>> Iterator for Pipeline<D, J> {
    type Item = Result<Batch<D>, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some(workers) = &mut self.workers else {
            let Job { indices, random } = self.jobs.next()?;
            return Some(self.dataset.batch(&indices, &random));
        };
        // The batch that is requested now, and those ahead of it.
        while workers.pending.len() <= self.ahead {
            let Some(job) = self.jobs.next() else { break };
            workers.ask(job);
        }
        let outcome = workers.pending.pop_front()?.recv();
        let outcome = outcome.unwrap_or_else(|_| {
            let what = "a thread ended before its batch was made";
            Outcome::Made(Err(DataError::other(what)))
        });
        Some(outcome.handed_over())
    }
}

impl<B: Send + 'static> Workers<B> {
    fn start<D>(dataset: &Arc<D>, threads: usize) -> Self
    where
        D: Dataset,
        D::Example: super::Collate<Batch = B>,
    {
        let (jobs, queue) = channel::<(Job, Scopes, ReplyTo<B>)>();
        let queue = Arc::new(Mutex::new(queue));
        let stop = Arc::new(AtomicBool::new(false));
        for number in 0..threads {
            let (dataset, queue, stop) = (dataset.clone(), queue.clone(), stop.clone());
            let work = move || {
                loop {
                    // The lock is released before the work begins.
                    let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok((Job { indices, random }, scopes, reply)) = job else {
                        break;
                    };
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let make = || dataset.batch(&indices, &random);
                    let outcome = Outcome::of(|| scopes.run(make));
                    // The consumer may be gone.
                    let _ = reply.send(outcome);
                }
            };
            let name = format!("batches {number}");
            let thread = thread::Builder::new().name(name).spawn(work);
            if let Err(error) = thread {
                raise(Error::argument("prefetch", format!("no thread: {error}")));
            }
        }
        Self {
            jobs,
            pending: VecDeque::new(),
            stop,
        }
    }

    fn ask(&mut self, job: Job) {
        let (reply, outcome) = sync_channel(1);
        // If no thread takes the job, `outcome` reports that when its turn comes.
        let _ = self.jobs.send((job, Scopes::current(), reply));
        self.pending.push_back(outcome);
    }
}

impl<B> Drop for Workers<B> {
    /// Tells the threads to end after their present work, without waiting for them.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
