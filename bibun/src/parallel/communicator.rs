//! What a process knows of the others.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::time::{Duration, Instant};

use bibun_array::{Array, DType, Shape, cpu};

use super::engine::{Failure, Group, Handle, Job, Order, Outcome, Settings, Work};
use super::engine::{add_time, lost, start, try_answer};
use super::transport::Transport;
use crate::call::calling;
use crate::error::{Error, Location, caller, raise};
use crate::function::Spec;

/// A group of processes, as one of them sees it: how many there are, which it is, and how arrays go from one
/// to the other. Clones are the same group; when the last one is dropped, the process takes leave of the
/// others.
///
/// A collective is called by all processes of the group, in the same order, with arrays of the same shape and
/// dtype; each process gets its result. An array that is on a device goes through the memory of the CPU, and
/// its result is there again. The methods here take arrays; of Variables, with derivatives, there are the
/// functions of the same names ([`functions::all_reduce`](crate::functions::all_reduce) and so on).
///
/// ```
/// use bibun::array::Array;
/// use bibun::parallel::local;
/// local::run(2, |world| {
///     let own = Array::from([1.0 + world.rank() as f64]);
///     assert_eq!(world.all_reduce(&own).to_vec::<f64>(), [3.0]);
///     assert_eq!(world.all_gather(&own).to_vec::<f64>(), [1.0, 2.0]);
///     assert_eq!(world.broadcast(&own, 1).to_vec::<f64>(), [2.0]);
/// });
/// ```
///
/// # Panics
/// Every collective panics with [`Error::Communication`] if the processes do not come together; see the
/// [module](crate::parallel). After such a fault the communicator stays as it is: all later calls panic too.
#[derive(Clone)]
pub struct Communicator {
    group: Arc<Group>,
    handle: Arc<Handle>,
}

/// What a process has sent to others, and the time that collectives took; see [`Communicator::traffic`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Traffic {
    /// The number of bytes of elements that were sent to others, without what says to which collective they
    /// belong.
    pub bytes_sent: u64,
    /// The time in which a collective was under way.
    pub busy: Duration,
    /// The time in which the program waited for one: what was not hidden behind computation.
    pub waited: Duration,
}

/// A collective that is under way while the program goes on.
#[must_use = "the result has to be waited for"]
#[derive(Debug)]
pub struct Pending {
    reply: Receiver<Outcome>,
    early: Option<Outcome>,
    settings: Arc<Settings>,
    function: &'static str,
    location: Location,
}

impl Communicator {
    /// Starts the communication of this process, by a transport that is made on the thread that will use it.
    ///
    /// # Errors
    /// Returns the error of `connect`.
    pub fn new<E: Send + 'static>(
        connect: impl FnOnce() -> Result<Box<dyn Transport>, E> + Send + 'static,
    ) -> Result<Self, E> {
        let (orders, received) = channel();
        let settings = Arc::new(Settings::new());
        let (thread, rank, size) = start(Arc::clone(&settings), received, connect)?;
        let group = Group {
            context: 0,
            ranks: (0..size).collect(),
            rank,
            splits: AtomicU64::new(0),
        };
        Ok(Self {
            group: Arc::new(group),
            handle: Arc::new(Handle {
                orders,
                settings,
                thread: Some(thread),
            }),
        })
    }

    /// Returns the number of this process in the group, from 0.
    pub fn rank(&self) -> usize {
        self.group.rank
    }

    /// Returns the number of processes in the group.
    pub fn size(&self) -> usize {
        self.group.ranks.len()
    }

    /// Returns whether this is the first process of the group: the one that prints and writes.
    pub fn is_first(&self) -> bool {
        self.rank() == 0
    }

    /// Sets the longest time that a collective waits for a message from another process, for all groups of
    /// this process; after it, the collective ends with an error that names that process. It must be longer
    /// than the longest step of the slowest process. Defaults to five minutes.
    pub fn set_timeout(&self, timeout: Duration) {
        let milliseconds = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        self.handle
            .settings
            .patience
            .store(milliseconds, Ordering::Relaxed);
    }

    /// Returns the part of `count` things that belongs to this process: parts follow each other by rank, and
    /// differ by one at most.
    ///
    /// ```
    /// let parts = bibun::parallel::local::run(3, |world| world.share(10));
    /// assert_eq!(parts, [0..3, 3..6, 6..10]);
    /// ```
    pub fn share(&self, count: usize) -> Range<usize> {
        let at = |rank: usize| count * rank / self.size();
        at(self.rank())..at(self.rank() + 1)
    }

    /// Returns what this process has sent, and the time that it took, since it began.
    pub fn traffic(&self) -> Traffic {
        let Settings {
            sent, busy, waited, ..
        } = &*self.handle.settings;
        let time = |sum: &AtomicU64| Duration::from_nanos(sum.load(Ordering::Relaxed));
        Traffic {
            bytes_sent: sent.load(Ordering::Relaxed),
            busy: time(busy),
            waited: time(waited),
        }
    }

    // ----- collectives

    /// Returns the sum of the arrays of all processes.
    #[track_caller]
    pub fn all_reduce(&self, x: &Array) -> Array {
        let _called = calling("all_reduce");
        self.expect_numbers("all_reduce", x);
        let work = Work::AllReduce(flat(x), 1.0);
        let what = what("all_reduce", x);
        let sum = self.start("all_reduce", what, work).wait();
        shaped(sum, x.shape().clone()).to(x.device())
    }

    /// Starts a sum of arrays of rank 1, times a number.
    #[track_caller]
    pub(super) fn start_sum(&self, what: String, x: &Array, scale: f64) -> Pending {
        self.start("all_reduce", what, Work::AllReduce(flat(x), scale))
    }

    /// Starts the sum, times a number, of arrays of rank 1, of which each process gets that at its rank.
    #[track_caller]
    pub(super) fn start_sums(&self, what: String, parts: Vec<Array>, scale: f64) -> Pending {
        self.start("reduce_scatter", what, Work::Reduce(parts, scale))
    }

    /// Starts to gather arrays of rank 1, which may differ in length.
    #[track_caller]
    pub(super) fn start_gather(&self, what: String, x: &Array) -> Pending {
        let work = Work::Exchange(vec![flat(x); self.size()]);
        self.start("all_gather", what, work)
    }

    /// Returns the arrays of all processes, one behind the other along the first axis.
    ///
    /// # Panics
    /// Panics if the arrays have no axes.
    #[track_caller]
    pub fn all_gather(&self, x: &Array) -> Array {
        let _called = calling("all_gather");
        expect_axis("all_gather", x);
        let work = Work::Exchange(vec![flat(x); self.size()]);
        let all = self
            .start("all_gather", what("all_gather", x), work)
            .wait_all();
        let mut sizes = x.shape().to_vec();
        sizes[0] *= self.size();
        joined(&all, sizes).to(x.device())
    }

    /// Returns one part of the sum of the arrays of all processes: of as many parts along the first axis as
    /// there are processes, that at the rank of this one.
    ///
    /// # Panics
    /// Panics if the first axis cannot be divided into that many equal parts.
    #[track_caller]
    pub fn reduce_scatter(&self, x: &Array) -> Array {
        let _called = calling("reduce_scatter");
        self.expect_numbers("reduce_scatter", x);
        let (parts, shape) = self.parts("reduce_scatter", x);
        let what = what("reduce_scatter", x);
        let pending = self.start("reduce_scatter", what, Work::Reduce(parts, 1.0));
        shaped(pending.wait(), shape).to(x.device())
    }

    /// Sends each process one part of an array along the first axis, and returns the parts that each has
    /// for this one, in the order of the ranks.
    ///
    /// # Panics
    /// Panics if the first axis cannot be divided into as many equal parts as there are processes.
    #[track_caller]
    pub fn all_to_all(&self, x: &Array) -> Array {
        let _called = calling("all_to_all");
        let (parts, _) = self.parts("all_to_all", x);
        let pending = self.start("all_to_all", what("all_to_all", x), Work::Exchange(parts));
        joined(&pending.wait_all(), x.shape().to_vec()).to(x.device())
    }

    /// Returns the array of the process `root`. Those of the others are not looked at beyond their shape.
    ///
    /// # Panics
    /// Panics if there is no such process.
    #[track_caller]
    pub fn broadcast(&self, x: &Array, root: usize) -> Array {
        let _called = calling("broadcast");
        self.expect_rank("broadcast", root);
        let what = format!("{} from {root}", what("broadcast", x));
        let y = self.start("broadcast", what, Work::Broadcast(flat(x), root));
        shaped(y.wait(), x.shape().clone()).to(x.device())
    }

    /// Returns the sum of the arrays of all processes on the process `root`, and zeros on the others.
    ///
    /// # Panics
    /// Panics if there is no such process.
    #[track_caller]
    pub fn reduce(&self, x: &Array, root: usize) -> Array {
        let _called = calling("reduce");
        self.expect_numbers("reduce", x);
        self.expect_rank("reduce", root);
        let flat = flat(x);
        let nothing = flat.slice(&[(0..0usize).into()]);
        let part = |rank| if rank == root { &flat } else { &nothing }.clone();
        let parts = (0..self.size()).map(part).collect();
        let what = format!("{} to {root}", what("reduce", x));
        let sum = self.start("reduce", what, Work::Reduce(parts, 1.0)).wait();
        match self.rank() == root {
            true => shaped(sum, x.shape().clone()).to(x.device()),
            false => Array::zeros(x.shape(), x.dtype()),
        }
    }

    /// Sends an array to another process, which calls [`receive`](Self::receive); does not wait for that.
    ///
    /// # Panics
    /// Panics if there is no such process, or it is this one.
    #[track_caller]
    pub fn send(&self, x: &Array, to: usize) {
        let _called = calling("send");
        self.expect_other("send", to);
        let what = format!("a message of {} {}", x.shape(), x.dtype());
        let pending = self.start("send", what, Work::Send(flat(x), to));
        pending.answer();
    }

    /// Returns the array of this shape and dtype that another process [sends](Self::send).
    ///
    /// # Panics
    /// Panics if there is no such process, or it is this one.
    #[track_caller]
    pub fn receive(&self, spec: &Spec, from: usize) -> Array {
        let _called = calling("receive");
        self.expect_other("receive", from);
        let what = format!("a message of {spec}");
        let pending = self.start("receive", what, Work::Receive(from));
        shaped(pending.wait(), spec.shape.clone())
    }

    /// Waits until all processes have come here.
    #[track_caller]
    pub fn barrier(&self) {
        let _called = calling("barrier");
        let nothing = Array::zeros([0], DType::U8);
        let work = Work::Exchange(vec![nothing; self.size()]);
        self.start("barrier", "barrier".to_owned(), work).wait_all();
    }

    /// Returns the bytes of all processes, which may differ in length, in the order of the ranks.
    #[track_caller]
    pub fn gather_bytes(&self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let _called = calling("gather_bytes");
        let own = Array::from_slice(bytes, [bytes.len()]);
        let work = Work::Exchange(vec![own; self.size()]);
        let pending = self.start("gather_bytes", "gather_bytes".to_owned(), work);
        let all = pending.wait_all();
        all.iter().map(Array::to_vec::<u8>).collect()
    }

    /// Returns the bytes of the first process. Those of the others are not looked at.
    #[track_caller]
    pub fn broadcast_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let _called = calling("broadcast_bytes");
        let own = Array::from_slice(bytes, [bytes.len()]);
        let what = "broadcast_bytes".to_owned();
        let pending = self.start("broadcast_bytes", what, Work::Broadcast(own, 0));
        pending.wait().to_vec::<u8>()
    }

    /// Divides the group: processes with the same color are a group from now on, in the order of their ranks
    /// in this one.
    ///
    /// ```
    /// use bibun::array::Array;
    /// use bibun::parallel::local;
    /// let sums = local::run(4, |world| {
    ///     let pair = world.split(world.rank() / 2);
    ///     pair.all_reduce(&Array::from([world.rank() as f64])).to_vec::<f64>()[0]
    /// });
    /// assert_eq!(sums, [1.0, 1.0, 5.0, 5.0]);
    /// ```
    #[track_caller]
    #[must_use]
    pub fn split(&self, color: usize) -> Self {
        let _called = calling("split");
        let own = Array::from([color as i64]);
        let work = Work::Exchange(vec![own; self.size()]);
        let colors = self.start("split", "split".to_owned(), work).wait_all();
        let is_own = |rank: &usize| colors[*rank].to_vec::<i64>() == [color as i64];
        let members: Vec<usize> = (0..self.size()).filter(is_own).collect();
        let number = self.group.splits.fetch_add(1, Ordering::Relaxed);
        let group = Group {
            context: mixed(&[self.group.context, number, color as u64]),
            rank: members
                .iter()
                .position(|&rank| rank == self.rank())
                .expect("itself"),
            ranks: members.iter().map(|&rank| self.group.ranks[rank]).collect(),
            splits: AtomicU64::new(0),
        };
        Self {
            group: Arc::new(group),
            handle: Arc::clone(&self.handle),
        }
    }

    // ----- helpers

    #[track_caller]
    fn start(&self, function: &'static str, what: String, work: Work) -> Pending {
        let location = caller();
        let (reply, answer) = sync_channel(1);
        let job = Job {
            group: Arc::clone(&self.group),
            what,
            location,
            work,
            reply,
        };
        let early = match self.handle.orders.send(Order::Do(job)) {
            Ok(()) => None,
            Err(_) => Some(Err(lost())),
        };
        Pending {
            reply: answer,
            early,
            settings: Arc::clone(&self.handle.settings),
            function,
            location,
        }
    }

    /// Returns the parts of an array along its first axis, one for each process, and their shape.
    #[track_caller]
    fn parts(&self, function: &'static str, x: &Array) -> (Vec<Array>, Shape) {
        expect_axis(function, x);
        let (size, count) = (self.size(), x.shape()[0]);
        if !count.is_multiple_of(size) {
            let what = format!(
                "x is {}, whose first axis cannot be divided into {size} equal parts, one for each process",
                x.shape()
            );
            raise(Error::argument(function, what));
        }
        let mut sizes = x.shape().to_vec();
        sizes[0] = count / size;
        let x = flat(x);
        let length = x.size() / size;
        let part = |i: usize| x.slice(&[(i * length..(i + 1) * length).into()]);
        ((0..size).map(part).collect(), sizes.into())
    }

    #[track_caller]
    fn expect_numbers(&self, function: &'static str, x: &Array) {
        if x.dtype() == DType::Bool {
            let what = "x is bool, and truths are not added; cast to a number first";
            raise(Error::argument(function, what));
        }
    }

    #[track_caller]
    pub(crate) fn expect_rank(&self, function: &'static str, rank: usize) {
        if rank >= self.size() {
            let what = format!("there is no process {rank} in a group of {}", self.size());
            raise(Error::argument(function, what));
        }
    }

    #[track_caller]
    pub(crate) fn expect_other(&self, function: &'static str, rank: usize) {
        self.expect_rank(function, rank);
        if rank == self.rank() {
            let what = format!("process {rank} is this one itself");
            raise(Error::argument(function, what));
        }
    }
}

impl Pending {
    /// Returns whether [`wait`](Self::wait) would return at once.
    pub fn is_done(&mut self) -> bool {
        if self.early.is_none() {
            self.early = try_answer(&self.reply);
        }
        self.early.is_some()
    }

    /// Waits for the result.
    ///
    /// # Panics
    /// Panics if the processes do not come together.
    pub fn wait(self) -> Array {
        self.wait_all().pop().expect("there is one result")
    }

    /// Waits for the results from each process.
    pub(super) fn wait_all(self) -> Vec<Array> {
        self.answer()
    }

    fn answer(self) -> Vec<Array> {
        let outcome = match self.early {
            Some(outcome) => outcome,
            None => {
                let began = Instant::now();
                let outcome = self.reply.recv().unwrap_or_else(|_| Err(lost()));
                add_time(&self.settings.waited, began);
                outcome
            }
        };
        outcome.unwrap_or_else(|Failure(what)| {
            raise(Error::Communication {
                function: self.function,
                what,
                location: self.location,
            })
        })
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} of {}", self.rank(), self.size())
    }
}

/// Returns a collective with what all processes must agree on.
fn what(function: &str, x: &Array) -> String {
    format!("{function} of {} {}", x.shape(), x.dtype())
}

fn flat(x: &Array) -> Array {
    let x = x.to(cpu()).to_row_major();
    x.reshape([x.size()])
}

fn shaped(x: Array, shape: Shape) -> Array {
    x.reshape(shape)
}

fn joined(parts: &[Array], sizes: Vec<usize>) -> Array {
    let parts: Vec<&Array> = parts.iter().collect();
    shaped(bibun_array::concat(&parts, 0), sizes.into())
}

#[track_caller]
fn expect_axis(function: &'static str, x: &Array) {
    if x.rank() == 0 {
        raise(Error::argument(
            function,
            "x has no axes, it must have a first one",
        ));
    }
}

/// Mixes numbers into one that other numbers do not give, as far as 64 bits go.
fn mixed(numbers: &[u64]) -> u64 {
    let mut sum = 0x9e37_79b9_7f4a_7c15;
    for number in numbers {
        sum = (sum ^ number).wrapping_mul(0xff51_afd7_ed55_8ccd);
        sum ^= sum >> 32;
    }
    sum
}
