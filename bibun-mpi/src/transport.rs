//! Messages by MPI.

use std::collections::VecDeque;
use std::mem;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use bibun::parallel::{Message, Transport};
use mpi::datatype::Equivalence;
use mpi::environment::Universe;
use mpi::point_to_point::{Destination, Source, Status};
use mpi::request::{Request, StaticScope};
use mpi::topology::{Communicator, SimpleCommunicator};
use mpi::{Tag, Threading};

/// The most bytes that travel as one message of MPI, which counts in `int`.
const PIECE: usize = 1 << 30;

/// The tag of the last piece of a message.
const LAST: Tag = 0;
/// The tag of a piece that others follow.
const MORE: Tag = 1;

/// The number of messages that are received at once.
const AT_ONCE: usize = 8;

/// The time that other processes have to report a fault, before the end of this one ends them.
const OTHERS_REPORT: Duration = Duration::from_millis(500);

/// The time that MPI itself has to begin and to end. When a process dies meanwhile, MPI waits for it without
/// end.
const BEGIN: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(10);

/// Ends this process if it has not done something in time, which nothing can interrupt.
struct Watch(Option<Sender<()>>);

impl Watch {
    fn over(what: &'static str, limit: Duration) -> Self {
        let (done, told) = channel::<()>();
        thread::spawn(move || {
            if told.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                eprintln!(
                    "error: MPI has not {what} within {limit:?}: a process has died meanwhile"
                );
                std::process::exit(1);
            }
        });
        Self(Some(done))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

/// Starts MPI on this thread.
pub(crate) fn initialize() -> Option<(Universe, Threading)> {
    let _watch = Watch::over("begun", BEGIN);
    mpi::initialize_with_threading(Threading::Funneled)
}

/// Memory that MPI reads or writes until a request is done.
struct Buffer(*mut [u8]);

impl Buffer {
    fn new(bytes: Vec<u8>) -> Self {
        Self(Box::into_raw(bytes.into_boxed_slice()))
    }

    /// Returns the memory for MPI to read.
    ///
    /// # Safety
    /// The buffer must not be taken back before MPI has done with it.
    unsafe fn shared(&self) -> &'static [u8] {
        // SAFETY: the memory is that of a box, which `take` alone frees.
        unsafe { &*self.0 }
    }

    /// Returns the memory for MPI to write.
    ///
    /// # Safety
    /// Nobody else may use the buffer, nor may it be taken back, before MPI has done with it.
    unsafe fn exclusive(&mut self) -> &'static mut [u8] {
        // SAFETY: the memory is that of a box, which `take` alone frees.
        unsafe { &mut *self.0 }
    }

    /// Returns the bytes.
    ///
    /// # Safety
    /// MPI must have done with the buffer.
    unsafe fn take(self) -> Vec<u8> {
        // SAFETY: the pointer is that of a box, and this is the only place where one is made of it.
        unsafe { Box::from_raw(self.0) }.into_vec()
    }
}

type Pending = Request<'static, [u8], StaticScope>;

/// A piece that MPI sends.
struct Outgoing {
    request: Pending,
    buffer: Buffer,
}

/// A piece that MPI receives.
struct Incoming {
    request: Pending,
    buffer: Buffer,
    from: usize,
    is_last: bool,
}

/// All processes of a program that `mpiexec` started.
pub(crate) struct Mpi {
    world: SimpleCommunicator,
    outgoing: VecDeque<Outgoing>,
    /// In the order in which they are delivered.
    incoming: VecDeque<Incoming>,
    /// The pieces of a message that have come so far, from each process.
    pieces: Vec<Vec<u8>>,
    /// Whether each process has said that nothing more comes from it.
    has_left: Vec<bool>,
    /// Dropped last: this ends MPI.
    universe: Universe,
}

impl Mpi {
    pub(crate) fn new(universe: Universe) -> Self {
        let world = universe.world();
        let pieces = vec![Vec::new(); world.size() as usize];
        let has_left = vec![false; world.size() as usize];
        Self {
            world,
            outgoing: VecDeque::new(),
            incoming: VecDeque::new(),
            pieces,
            has_left,
            universe,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.world.size() as usize
    }

    /// Frees what has been sent.
    fn clear_sent(&mut self) {
        for Outgoing { request, buffer } in mem::take(&mut self.outgoing) {
            match request.test() {
                // SAFETY: the request is done.
                Ok(_) => drop(unsafe { buffer.take() }),
                Err(request) => self.outgoing.push_back(Outgoing { request, buffer }),
            }
        }
    }

    /// Begins to receive what has arrived.
    fn begin(&mut self) {
        while self.incoming.len() < AT_ONCE
            && let Some((message, status)) = self.world.any_process().immediate_matched_probe()
        {
            let size = size_of(&status);
            let mut buffer = Buffer::new(vec![0; size]);
            // SAFETY: the buffer is kept beside the request, and taken back when that is done.
            let memory = unsafe { buffer.exclusive() };
            let request = message.immediate_matched_receive_into(StaticScope, memory);
            self.incoming.push_back(Incoming {
                request,
                buffer,
                from: status.source_rank() as usize,
                is_last: status.tag() == LAST,
            });
        }
    }

    /// Returns the next message that is complete.
    fn complete(&mut self) -> Result<Option<(usize, Message)>, String> {
        while let Some(Incoming {
            request,
            buffer,
            from,
            is_last,
        }) = self.incoming.pop_front()
        {
            let bytes = match request.test() {
                // SAFETY: the request is done.
                Ok(_) => unsafe { buffer.take() },
                Err(request) => {
                    self.incoming.push_front(Incoming {
                        request,
                        buffer,
                        from,
                        is_last,
                    });
                    return Ok(None);
                }
            };
            let pieces = &mut self.pieces[from];
            let whole = match pieces.is_empty() {
                true => bytes,
                false => {
                    pieces.extend(bytes);
                    mem::take(pieces)
                }
            };
            if !is_last {
                *pieces = whole;
                continue;
            }
            let message = Message::from_bytes(&whole);
            let unreadable = || format!("process {from} has sent what is no message of bibun's");
            let message = message.ok_or_else(unreadable)?;
            self.has_left[from] |= matches!(message, Message::Left { .. });
            return Ok(Some((from, message)));
        }
        Ok(None)
    }
}

fn size_of(status: &Status) -> usize {
    usize::try_from(status.count(u8::equivalent_datatype())).expect("a size is not negative")
}

impl Transport for Mpi {
    fn rank(&self) -> usize {
        self.world.rank() as usize
    }

    fn size(&self) -> usize {
        self.count()
    }

    fn send(&mut self, to: usize, message: Message) -> Result<(), String> {
        let mut bytes = message.to_bytes();
        let process = self.world.process_at_rank(to as i32);
        loop {
            let rest = match bytes.len() > PIECE {
                true => bytes.split_off(PIECE),
                false => Vec::new(),
            };
            let is_last = rest.is_empty();
            let buffer = Buffer::new(bytes);
            // SAFETY: the buffer is kept beside the request, and taken back when that is done.
            let memory = unsafe { buffer.shared() };
            let tag = if is_last { LAST } else { MORE };
            let request = process.immediate_send_with_tag(StaticScope, memory, tag);
            self.outgoing.push_back(Outgoing { request, buffer });
            if is_last {
                break;
            }
            bytes = rest;
        }
        self.clear_sent();
        Ok(())
    }

    fn receive(&mut self, patience: Duration) -> Result<Option<(usize, Message)>, String> {
        let began = Instant::now();
        loop {
            self.begin();
            if let Some(received) = self.complete()? {
                return Ok(Some(received));
            }
            self.clear_sent();
            let waited = began.elapsed();
            if waited >= patience {
                return Ok(None);
            }
            // At first a message is near; later this shall not take a processor from those that compute.
            match waited < Duration::from_micros(50) {
                true => thread::yield_now(),
                false => thread::sleep(Duration::from_micros(20)),
            }
        }
    }

    fn is_idle(&mut self) -> bool {
        self.clear_sent();
        self.outgoing.is_empty()
    }

    /// Ends MPI when all processes have taken leave. After a fault some are not there any more: then `mpiexec`
    /// ends the others when it sees this process end without that.
    fn close(mut self: Box<Self>, after_fault: bool) {
        let rank = self.rank();
        self.has_left[rank] = true;
        let mut is_readable = true;
        while !after_fault && is_readable && !self.has_left.iter().all(|&has_left| has_left) {
            is_readable = self.receive(Duration::from_millis(100)).is_ok();
        }
        if after_fault || !is_readable || !self.incoming.is_empty() || !self.is_idle() {
            thread::sleep(OTHERS_REPORT);
            // A request that is not done may not be dropped, and MPI not be ended.
            mem::forget(self);
            return;
        }
        let _watch = Watch::over("ended", END);
        drop(self.universe);
    }
}
