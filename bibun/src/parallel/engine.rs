//! The thread that speaks with the other processes: collectives one after the other, each written as sends
//! and receives.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError};
use std::time::{Duration, Instant};

use bibun_array::{Array, DType, Index};
use rustc_hash::FxHashMap;

use super::transport::{Message, Transport};
use crate::error::Location;

/// Some of the processes, with the numbers that they have in the whole.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) context: u64,
    pub(super) ranks: Vec<usize>,
    /// The number of this process in the group.
    pub(super) rank: usize,
    /// The number of groups that were split from this one.
    pub(super) splits: AtomicU64,
}

/// What a collective does with arrays of rank 1.
#[derive(Debug)]
pub(super) enum Work {
    /// Sends an array to each process of the group, and returns those of each.
    Exchange(Vec<Array>),
    /// Sends an array to each process of the group, and returns the sum of those of each, times a number.
    Reduce(Vec<Array>, f64),
    /// Returns the sum of the arrays of all, times a number.
    AllReduce(Array, f64),
    /// Returns the array of one process.
    Broadcast(Array, usize),
    Send(Array, usize),
    Receive(usize),
}

pub(super) type Outcome = Result<Vec<Array>, Failure>;

/// The reason why a collective gave no result.
#[derive(Clone, Debug)]
pub(super) struct Failure(pub(super) String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A collective to be done.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) group: Arc<Group>,
    /// The collective, as it is compared with that of the others.
    pub(super) what: String,
    pub(super) location: Location,
    pub(super) work: Work,
    pub(super) reply: SyncSender<Outcome>,
}

/// An order to the thread.
#[derive(Debug)]
pub(super) enum Order {
    Do(Job),
    /// The last order: with the error that ends this process, if it is one.
    Leave(Option<String>),
}

/// The part of an engine that others may change.
#[derive(Debug)]
pub(super) struct Settings {
    /// The longest time that a collective waits for a message, in milliseconds.
    pub(super) patience: AtomicU64,
    /// The number of bytes of elements that were sent.
    pub(super) sent: AtomicU64,
    /// The time, in nanoseconds, in which a collective was under way.
    pub(super) busy: AtomicU64,
    /// The time, in nanoseconds, in which the program waited for one.
    pub(super) waited: AtomicU64,
}

impl Settings {
    pub(super) fn new() -> Self {
        Self {
            patience: AtomicU64::new(300_000),
            sent: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            waited: AtomicU64::new(0),
        }
    }
}

/// Adds the time since `began`.
pub(super) fn add_time(sum: &AtomicU64, began: Instant) {
    let nanoseconds = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    sum.fetch_add(nanoseconds, Ordering::Relaxed);
}

/// The time between two looks at what others have asked for while messages are on their way.
const SOON: Duration = Duration::from_micros(100);

/// The longest time without a look at the transport while a collective waits.
const LOOK: Duration = Duration::from_millis(50);

/// The size in bytes up to which an array is sent as a whole to be added up, which takes half the time of
/// sending its parts.
const SMALL: usize = 4096;

/// The time that is left to a last message.
const FAREWELL: Duration = Duration::from_secs(2);

/// A part of a collective that has arrived.
struct Arrived {
    what: String,
    location: String,
    elements: Array,
}

pub(super) struct Engine {
    transport: Box<dyn Transport>,
    settings: Arc<Settings>,
    /// The messages that nobody has asked for yet, by group and sender.
    arrived: FxHashMap<(u64, usize), VecDeque<Arrived>>,
    /// The processes that have ended, with the error if it was one.
    left: FxHashMap<usize, Option<String>>,
    /// The last collective that each process took part in.
    seen: FxHashMap<usize, String>,
    failure: Option<Failure>,
}

impl Engine {
    pub(super) fn new(transport: Box<dyn Transport>, settings: Arc<Settings>) -> Self {
        Self {
            transport,
            settings,
            arrived: FxHashMap::default(),
            left: FxHashMap::default(),
            seen: FxHashMap::default(),
            failure: None,
        }
    }

    /// Carries out orders until there are no more.
    pub(super) fn run(mut self, orders: &Receiver<Order>) {
        loop {
            let order = match self.transport.is_idle() {
                true => orders.recv().map_err(|_| None),
                false => match orders.recv_timeout(SOON) {
                    Ok(order) => Ok(order),
                    Err(RecvTimeoutError::Timeout) => Err(Some(())),
                    Err(RecvTimeoutError::Disconnected) => Err(None),
                },
            };
            match order {
                Ok(Order::Do(job)) => {
                    let outcome = self.carry_out(&job.group, &job.what, job.location, job.work);
                    // Nobody may wait for it any more.
                    let _ = job.reply.send(outcome);
                }
                Ok(Order::Leave(why)) => return self.leave(why),
                Err(None) => return self.leave(None),
                Err(Some(())) => {
                    if let Err(failure) = self.look(Duration::ZERO) {
                        self.failure.get_or_insert(failure);
                    }
                }
            }
        }
    }

    fn leave(mut self, why: Option<String>) {
        let why = why.or_else(|| self.failure.as_ref().map(|failure| failure.0.clone()));
        let after_fault = why.is_some();
        self.tell_all(&why);
        let end = Instant::now() + FAREWELL;
        while !self.transport.is_idle() && (!after_fault || Instant::now() < end) {
            if self.look(SOON).is_err() {
                break;
            }
        }
        self.transport.close(after_fault);
    }

    /// Tells all others that nothing will come from here any more.
    fn tell_all(&mut self, why: &Option<String>) {
        let rank = self.transport.rank();
        for other in (0..self.transport.size()).filter(|&other| other != rank) {
            // Those that have ended do not hear it.
            let _ = self
                .transport
                .send(other, Message::Left { why: why.clone() });
        }
    }

    fn carry_out(&mut self, group: &Group, what: &str, location: Location, work: Work) -> Outcome {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let collective = Collective {
            group,
            what,
            location,
        };
        let began = Instant::now();
        let outcome = self.work(&collective, work);
        add_time(&self.settings.busy, began);
        if let Err(failure) = &outcome {
            self.failure = Some(failure.clone());
            self.tell_all(&Some(failure.0.clone()));
        }
        outcome
    }

    fn work(&mut self, collective: &Collective<'_>, work: Work) -> Outcome {
        let Group { ranks, rank, .. } = collective.group;
        let (size, rank) = (ranks.len(), *rank);
        match work {
            Work::Exchange(arrays) => self.exchange(collective, arrays),
            Work::Reduce(arrays, scale) => Ok(vec![self.reduce(collective, arrays, scale)?]),
            Work::AllReduce(x, scale) if x.size() * x.dtype().size() <= SMALL => {
                let all = self.exchange(collective, vec![x; size])?;
                Ok(vec![sum(all.into_iter().map(Ok), scale)?])
            }
            Work::AllReduce(x, scale) => {
                let parts = (0..size).map(|part| part_of(&x, part, size)).collect();
                let own = self.reduce(collective, parts, scale)?;
                let all = self.exchange(collective, vec![own; size])?;
                Ok(vec![joined(all)])
            }
            Work::Broadcast(x, root) => {
                // Each passes on a part, so that nobody sends more than twice the array.
                let own = if rank == root {
                    for other in (0..size).filter(|&other| other != root) {
                        self.send(collective, other, part_of(&x, other, size))?;
                    }
                    part_of(&x, rank, size)
                } else {
                    self.expect(collective, root)?
                };
                let all = self.exchange(collective, vec![own; size])?;
                Ok(vec![joined(all)])
            }
            Work::Send(x, to) => {
                self.send(collective, to, x)?;
                Ok(Vec::new())
            }
            Work::Receive(from) => Ok(vec![self.expect(collective, from)?]),
        }
    }

    fn exchange(&mut self, collective: &Collective<'_>, mut arrays: Vec<Array>) -> Outcome {
        for other in collective.others() {
            self.send(collective, other, arrays[other].clone())?;
        }
        for other in collective.others() {
            arrays[other] = self.expect(collective, other)?;
        }
        Ok(arrays)
    }

    fn reduce(
        &mut self,
        collective: &Collective<'_>,
        arrays: Vec<Array>,
        scale: f64,
    ) -> Result<Array, Failure> {
        let rank = collective.group.rank;
        for other in collective.others() {
            self.send(collective, other, arrays[other].clone())?;
        }
        let parts = (0..arrays.len()).map(|from| match from == rank {
            true => Ok(arrays[from].clone()),
            false => self.expect(collective, from),
        });
        sum(parts, scale)
    }

    fn send(
        &mut self,
        collective: &Collective<'_>,
        to: usize,
        elements: Array,
    ) -> Result<(), Failure> {
        let to = collective.group.ranks[to];
        let bytes = elements.size() * elements.dtype().size();
        self.settings
            .sent
            .fetch_add(bytes as u64, Ordering::Relaxed);
        let message = Message::Part {
            context: collective.group.context,
            what: collective.what.to_owned(),
            location: collective.location.to_string(),
            elements,
        };
        // The reason may be in a message that is here already.
        let Err(error) = self.transport.send(to, message) else {
            return Ok(());
        };
        while self.look(Duration::ZERO)? {}
        Err(match self.left.get(&to) {
            Some(why) => self.ended(collective, to, why.as_ref()),
            None => Failure(format!("{}: process {to}: {error}", self.here())),
        })
    }

    /// Returns the next array that a process has sent for a collective.
    fn expect(&mut self, collective: &Collective<'_>, from: usize) -> Result<Array, Failure> {
        let (context, from) = (collective.group.context, collective.group.ranks[from]);
        let mut since = Instant::now();
        loop {
            let queue = self.arrived.get_mut(&(context, from));
            if let Some(arrived) = queue.and_then(VecDeque::pop_front) {
                return match arrived.what == collective.what {
                    true => Ok(arrived.elements),
                    false => Err(Failure(format!(
                        "{} is at {collective}, but process {from} is at {}, called at {}; all \
                         processes must take part in the same collectives in the same order",
                        self.here(),
                        arrived.what,
                        arrived.location
                    ))),
                };
            }
            if let Some(why) = self.left.get(&from) {
                return Err(self.ended(collective, from, why.as_ref()));
            }
            let fault = self.left.iter().find(|(_, why)| why.is_some());
            if let Some((&other, why)) = fault {
                return Err(self.ended(collective, other, why.as_ref()));
            }
            let patience = Duration::from_millis(self.settings.patience.load(Ordering::Relaxed));
            let waited = since.elapsed();
            if waited >= patience {
                let last = match self.seen.get(&from) {
                    Some(last) => format!("what it last took part in was {last}"),
                    None => "it has not taken part in anything so far".to_owned(),
                };
                return Err(Failure(format!(
                    "{} has waited {:.1} s for process {from} in {collective}; {last}",
                    self.here(),
                    waited.as_secs_f64()
                )));
            }
            if self.look(LOOK.min(patience - waited))? {
                since = Instant::now();
            }
        }
    }

    /// Takes in a message, if there is one.
    fn look(&mut self, patience: Duration) -> Result<bool, Failure> {
        let received = self.transport.receive(patience);
        let received = received.map_err(|error| Failure(format!("{}: {error}", self.here())))?;
        match received {
            None => return Ok(false),
            Some((from, Message::Left { why })) => {
                self.left.insert(from, why);
            }
            Some((
                from,
                Message::Part {
                    context,
                    what,
                    location,
                    elements,
                },
            )) => {
                self.seen
                    .insert(from, format!("{what}, called at {location}"));
                let queue = self.arrived.entry((context, from)).or_default();
                queue.push_back(Arrived {
                    what,
                    location,
                    elements,
                });
            }
        }
        Ok(true)
    }

    fn here(&self) -> String {
        format!("process {}", self.transport.rank())
    }

    fn ended(&self, collective: &Collective<'_>, other: usize, why: Option<&String>) -> Failure {
        let how = match why {
            Some(why) => format!("ended by an error: {why}"),
            None => "ended".to_owned(),
        };
        Failure(format!(
            "{} is at {collective}, but process {other} has {how}",
            self.here()
        ))
    }
}

/// A collective as its messages name it.
struct Collective<'a> {
    group: &'a Group,
    what: &'a str,
    location: Location,
}

impl Collective<'_> {
    /// Returns the other processes of the group, beginning behind this one, so that not all send to the
    /// same one first.
    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let (size, rank) = (self.group.ranks.len(), self.group.rank);
        (1..size).map(move |step| (rank + step) % size)
    }
}

impl fmt::Display for Collective<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, called at {}", self.what, self.location)
    }
}

/// Returns one of `count` parts of an array of rank 1, whose lengths differ by one at most.
fn part_of(x: &Array, part: usize, count: usize) -> Array {
    let at = |part: usize| (x.size() * part / count) as isize;
    x.slice(&[Index::from(at(part)..at(part + 1))])
}

/// Adds up in the order of the ranks, so that the bits do not depend on which array arrives first. 16-bit
/// floats are added in `f32`.
fn sum(parts: impl Iterator<Item = Result<Array, Failure>>, scale: f64) -> Result<Array, Failure> {
    let mut sum: Option<(Array, DType)> = None;
    for part in parts {
        let part = part?;
        let dtype = part.dtype();
        let part = part.cast(dtype.accumulator());
        sum = Some(match sum {
            None => (part, dtype),
            Some((sum, dtype)) => (sum + part, dtype),
        });
    }
    let (sum, dtype) = sum.expect("a group has a process");
    let sum = match scale == 1.0 {
        true => sum,
        false => {
            let scale = Array::scalar(scale).cast(sum.dtype());
            sum * scale
        }
    };
    Ok(sum.cast(dtype))
}

fn joined(parts: Vec<Array>) -> Array {
    let parts: Vec<&Array> = parts.iter().collect();
    bibun_array::concat(&parts, 0)
}

/// Starts the thread of a process, with a transport that is made on it.
///
/// # Errors
/// Returns the error of `connect`.
pub(super) fn start<E: Send + 'static>(
    settings: Arc<Settings>,
    orders: Receiver<Order>,
    connect: impl FnOnce() -> Result<Box<dyn Transport>, E> + Send + 'static,
) -> Result<(std::thread::JoinHandle<()>, usize, usize), E> {
    let (tell, told) = std::sync::mpsc::sync_channel(1);
    let run = move || {
        let transport = match connect() {
            Ok(transport) => transport,
            Err(error) => {
                let _ = tell.send(Err(error));
                return;
            }
        };
        let _ = tell.send(Ok((transport.rank(), transport.size())));
        Engine::new(transport, settings).run(&orders);
    };
    let thread = std::thread::Builder::new().name("communicator".to_owned());
    let thread = thread.spawn(run).expect("a thread can be started");
    let (rank, size) = told.recv().expect("the thread tells how it began")?;
    Ok((thread, rank, size))
}

/// The sender of orders to the thread of a process, shared by all its communicators. When the last of them is
/// dropped, the process takes leave of the others.
pub(super) struct Handle {
    pub(super) orders: Sender<Order>,
    pub(super) settings: Arc<Settings>,
    pub(super) thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        let why = std::thread::panicking().then(|| "a panic".to_owned());
        // The thread may have ended already.
        let _ = self.orders.send(Order::Leave(why));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handle")
    }
}

/// Returns whether a job has been answered.
pub(super) fn try_answer(reply: &Receiver<Outcome>) -> Option<Outcome> {
    match reply.try_recv() {
        Ok(outcome) => Some(outcome),
        Err(TryRecvError::Empty) => None,
        Err(TryRecvError::Disconnected) => Some(Err(lost())),
    }
}

/// The failure of a thread that has ended without an answer.
pub(super) fn lost() -> Failure {
    Failure("the thread that speaks with the other processes has ended".to_owned())
}
