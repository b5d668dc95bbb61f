//! Processes that are threads of one program: for tests, and for programs that shall run both ways.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::communicator::Communicator;
use super::transport::{Message, Transport};
use crate::error::{Error, attempt};

/// Runs `f` on `count` threads, each with a communicator as if it were a process of its own, and returns the
/// results in the order of the ranks.
///
/// ```
/// use bibun::array::Array;
/// use bibun::parallel::local;
/// let sums = local::run(3, |world| {
///     world.all_reduce(&Array::from([world.rank() as f64, 1.0])).to_vec::<f64>()
/// });
/// assert_eq!(sums, vec![vec![3.0, 3.0]; 3]);
/// ```
///
/// # Panics
/// Panics if one of them panics, with the panic that was the first cause.
pub fn run<T: Send>(count: usize, f: impl Fn(Communicator) -> T + Sync) -> Vec<T> {
    // In the order in which they were thrown: what comes later may be of those who saw somebody go.
    let panics = Mutex::new(Vec::new());
    let caught = |world: Communicator| {
        // Others hear of the panic when the last communicator goes: after it has been noted.
        let _last = world.clone();
        let outcome = catch_unwind(AssertUnwindSafe(|| f(world)));
        outcome.unwrap_or_else(|panic| {
            let mut panics = panics.lock().unwrap_or_else(PoisonError::into_inner);
            panics.push(panic);
            drop(panics);
            resume_unwind(Box::new("noted"))
        })
    };
    let outcomes = on_threads(count, &caught);
    match outcomes.into_iter().collect() {
        Ok(results) => results,
        Err(_) => {
            let mut panics = panics.into_inner().unwrap_or_else(PoisonError::into_inner);
            resume_unwind(panics.swap_remove(0))
        }
    }
}

/// Returns the communicator of a process that is alone, with which a program for many runs as well.
///
/// ```
/// let world = bibun::parallel::local::alone();
/// assert_eq!((world.size(), world.is_first()), (1, true));
/// ```
pub fn alone() -> Communicator {
    let (outbox, inbox) = channel();
    let transport = Threads {
        rank: 0,
        inbox,
        outboxes: vec![outbox],
    };
    let alone = Communicator::new(move || Ok::<_, ()>(Box::new(transport) as _));
    alone.expect("a thread is there")
}

/// Does the same as [`run`], and returns the error of each process that failed in its place.
///
/// # Panics
/// Panics if one of them panics with something else than an [`Error`].
pub fn try_run<T: Send>(
    count: usize,
    f: impl Fn(Communicator) -> T + Sync,
) -> Vec<Result<T, Error>> {
    let outcomes = on_threads(count, &|world| attempt(|| f(world)));
    let ended = |outcome: thread::Result<_>| {
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    };
    outcomes.into_iter().map(ended).collect()
}

fn on_threads<T: Send>(
    count: usize,
    f: &(impl Fn(Communicator) -> T + Sync),
) -> Vec<thread::Result<T>> {
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..count).map(|_| channel()).unzip();
    thread::scope(|threads| {
        let start = |(rank, inbox)| {
            let outboxes = senders.clone();
            threads.spawn(move || {
                let transport = Threads {
                    rank,
                    inbox,
                    outboxes,
                };
                let world = Communicator::new(move || Ok::<_, ()>(Box::new(transport) as _));
                f(world.expect("threads are there"))
            })
        };
        let threads: Vec<_> = receivers.into_iter().enumerate().map(start).collect();
        threads
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect()
    })
}

/// A number and a mailbox for each thread.
struct Threads {
    rank: usize,
    inbox: Receiver<(usize, Message)>,
    outboxes: Vec<Sender<(usize, Message)>>,
}

impl Transport for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.outboxes.len()
    }

    fn send(&mut self, to: usize, message: Message) -> Result<(), String> {
        let sent = self.outboxes[to].send((self.rank, message));
        sent.map_err(|_| "it has ended".to_owned())
    }

    fn receive(&mut self, patience: Duration) -> Result<Option<(usize, Message)>, String> {
        match self.inbox.recv_timeout(patience) {
            Ok(received) => Ok(Some(received)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err("all others have ended".to_owned()),
        }
    }

    fn is_idle(&mut self) -> bool {
        true
    }

    fn close(self: Box<Self>, _: bool) {}
}
