//! Threads that share the work of the thread that brings it.
//!
//! The threads of a pool sleep when there is nothing to do, and waking them takes tens of
//! microseconds, longer than most kernels run. Those of the team look for the next work for a while
//! before they sleep, as the threads of OpenMP do, and the thread that brings the work does shares of
//! it itself.

use std::any::Any;
use std::cell::Cell;
use std::hint::spin_loop;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// The time for which a thread looks for the next work before it sleeps.
const AWAKE: Duration = Duration::from_millis(1);

/// The time that it takes to wake a thread.
const WAKING: Duration = Duration::from_micros(50);

/// Looks, with a pause after each, before other threads get the processor.
const LOOKS: usize = 1024;

thread_local! {
    /// Whether this thread does a share of some work.
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
}

/// The threads, and the place where they find their work.
struct Team {
    /// When the last work was done. It is locked while there is some.
    last: Mutex<Option<Instant>>,
    /// The work that is open to all, or null.
    work: AtomicPtr<Work<'static>>,
    /// The number of works so far.
    count: AtomicUsize,
    /// The number of threads that may be at the work.
    inside: AtomicUsize,
    members: Vec<Member>,
}

#[derive(Default)]
struct Member {
    thread: OnceLock<Thread>,
    sleeps: AtomicBool,
}

/// Work in shares with numbers from 0 on.
struct Work<'a> {
    share: &'a (dyn Fn(usize) + Sync),
    shares: usize,
    /// The first share that nobody has begun.
    next: AtomicUsize,
    /// The first panic of a share.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

impl Work<'_> {
    /// Does one more share. Returns false if there is none.
    fn help(&self) -> bool {
        let share = self.next.fetch_add(1, Ordering::Relaxed);
        if share >= self.shares {
            return false;
        }
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.share)(share))) {
            lock(&self.panic).get_or_insert(panic);
            // The others are not begun any more.
            self.next.store(self.shares, Ordering::Relaxed);
        }
        true
    }

    fn left(&self) -> usize {
        self.shares
            .saturating_sub(self.next.load(Ordering::Relaxed))
    }
}

/// Whether this thread does a share of some work.
pub(super) fn is_busy() -> bool {
    IS_BUSY.get()
}

/// Calls `share` with all numbers below `shares`, on this thread and on those of a team of
/// `threads`. Returns false, and calls it with none, if the team works for another thread.
///
/// # Panics
/// Panics if a share does.
pub(super) fn share(threads: usize, shares: usize, share: &(dyn Fn(usize) + Sync)) -> bool {
    static TEAM: OnceLock<&'static Team> = OnceLock::new();
    let team = TEAM.get_or_init(|| Team::new(threads - 1));
    let mut last = match team.last.try_lock() {
        Ok(last) => last,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return false,
    };
    let work = Work {
        share,
        shares,
        next: AtomicUsize::new(0),
        panic: Mutex::default(),
    };
    let start = Instant::now();
    let are_due = last.is_some_and(|last| start.duration_since(last) < AWAKE);
    team.open(&work);
    // A few shares are long ones, and after the first of them little would be left to do.
    if are_due || shares <= 2 * threads {
        team.wake();
    }
    IS_BUSY.set(true);
    work.help();
    if start.elapsed() * work.left() as u32 > WAKING {
        team.wake();
    }
    while work.help() {}
    IS_BUSY.set(false);
    team.close();
    *last = Some(Instant::now());
    drop(last);
    let panic = lock(&work.panic).take();
    if let Some(panic) = panic {
        resume_unwind(panic);
    }
    true
}

impl Team {
    fn new(members: usize) -> &'static Self {
        let team: &'static Self = Box::leak(Box::new(Self {
            last: Mutex::new(None),
            work: AtomicPtr::new(ptr::null_mut()),
            count: AtomicUsize::new(0),
            inside: AtomicUsize::new(0),
            members: (0..members).map(|_| Member::default()).collect(),
        }));
        for member in &team.members {
            // A system that gives no more threads gets fewer of them.
            let made = thread::Builder::new().name("bibun".to_owned());
            if let Ok(made) = made.spawn(|| team.serve(member)) {
                let _ = member.thread.set(made.thread().clone());
            }
        }
        team
    }

    fn open(&self, work: &Work<'_>) {
        let work = ptr::from_ref(work).cast::<Work<'static>>();
        self.work.store(work.cast_mut(), Ordering::SeqCst);
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    fn wake(&self) {
        for member in &self.members {
            if member.sleeps.load(Ordering::SeqCst)
                && let Some(thread) = member.thread.get()
            {
                thread.unpark();
            }
        }
    }

    /// Ends the work, and waits for the threads that are at it.
    fn close(&self) {
        self.work.store(ptr::null_mut(), Ordering::SeqCst);
        wait_until(|| self.inside.load(Ordering::SeqCst) == 0, None);
    }

    /// What a thread of the team does.
    fn serve(&self, member: &Member) {
        IS_BUSY.set(true);
        let mut seen = 0;
        loop {
            let is_new = || self.count.load(Ordering::SeqCst) != seen;
            if !wait_until(is_new, Some(AWAKE)) {
                member.sleeps.store(true, Ordering::SeqCst);
                // Who brings work counts it first, and then looks who sleeps.
                if !is_new() {
                    thread::park();
                }
                member.sleeps.store(false, Ordering::SeqCst);
                continue;
            }
            seen = self.count.load(Ordering::SeqCst);
            self.inside.fetch_add(1, Ordering::SeqCst);
            let work = self.work.load(Ordering::SeqCst);
            if !work.is_null() {
                // SAFETY: `close` makes the pointer null and waits until nobody is inside, before
                // the work ends. This thread was inside before it read the pointer.
                let work = unsafe { &*work };
                while work.help() {}
            }
            self.inside.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Looks until something holds, or until a time has passed. Returns whether it holds.
fn wait_until(holds: impl Fn() -> bool, most: Option<Duration>) -> bool {
    let mut start = None;
    loop {
        for _ in 0..LOOKS {
            if holds() {
                return true;
            }
            spin_loop();
        }
        if let Some(most) = most
            && start.get_or_insert_with(Instant::now).elapsed() > most
        {
            return false;
        }
        thread::yield_now();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic;

    /// Work of some microseconds, in which each number is met once.
    fn count(shares: usize) -> Option<Vec<usize>> {
        let met: Vec<AtomicUsize> = (0..shares).map(|_| AtomicUsize::new(0)).collect();
        let is_done = share(3, shares, &|i| {
            (0..100).for_each(|_| spin_loop());
            met[i].fetch_add(1, Ordering::Relaxed);
        });
        is_done.then(|| met.iter().map(|met| met.load(Ordering::Relaxed)).collect())
    }

    #[test]
    fn each_share_is_done_once() {
        // Some of the pauses are longer than threads stay awake.
        for round in 0..300 {
            if round % 100 == 99 {
                thread::sleep(AWAKE * 3);
            }
            let shares = 1 + round % 17;
            if let Some(met) = count(shares) {
                assert_eq!(met, vec![1; shares]);
            }
        }
    }

    #[test]
    fn those_who_sleep_help_with_a_few_long_shares() {
        let patience = Duration::from_secs(20);
        // Those who are new do not sleep yet.
        while count(3).is_none() {}
        loop {
            thread::sleep(AWAKE * 5);
            let begun = AtomicUsize::new(0);
            let met = AtomicUsize::new(0);
            // Each share ends when the other one has begun.
            let is_done = share(3, 2, &|_| {
                begun.fetch_add(1, Ordering::SeqCst);
                if wait_until(|| begun.load(Ordering::SeqCst) == 2, Some(patience)) {
                    met.fetch_add(1, Ordering::SeqCst);
                }
            });
            if is_done {
                return assert_eq!(met.load(Ordering::SeqCst), 2);
            }
        }
    }

    #[test]
    fn several_threads_bring_work() {
        thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    for _ in 0..200 {
                        if let Some(met) = count(8) {
                            assert_eq!(met, [1; 8]);
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_reaches_the_thread_that_brought_the_work() {
        for bad in [0, 5] {
            let run = || {
                let one = |i: usize| assert!(i != bad, "share {i}");
                while !share(3, 6, &one) {}
            };
            let panic = panic::catch_unwind(run).expect_err("a share panics");
            assert_eq!(
                panic.downcast_ref::<String>(),
                Some(&format!("share {bad}"))
            );
            assert!(!is_busy());
        }
        // The team goes on.
        while count(6).is_none() {}
    }
}
