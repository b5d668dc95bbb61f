//! Thread-local state while a thread waits for others.
//!
//! A thread of a pool that waits for other threads to finish their parts of a kernel takes up the
//! next task of the pool. That task has nothing to do with the one that waits, but runs on its
//! stack and sees its thread-locals. So the state of the waiting task is put aside during that
//! time.

use std::any::Any;
use std::sync::OnceLock;

use crate::placement::{cpu, is_another_device, settle};
use crate::{call, draws, error, placement, trace};

static PUT_ASIDE: OnceLock<fn() -> Box<dyn Any>> = OnceLock::new();

/// Registers a function that is called wherever a thread is about to wait for other threads of a
/// pool. The value that it returns is dropped when the thread goes on, and must then restore
/// everything.
///
/// For libraries built on this one that have thread-local state. The first call counts, later ones
/// change nothing.
///
/// ```
/// use std::{any::Any, cell::Cell};
/// thread_local!(static DEPTH: Cell<usize> = const { Cell::new(0) });
/// struct PutBack(usize);
/// impl Drop for PutBack {
///     fn drop(&mut self) {
///         DEPTH.set(self.0);
///     }
/// }
/// bibun_array::set_put_aside(|| -> Box<dyn Any> { Box::new(PutBack(DEPTH.replace(0))) });
/// ```
pub fn set_put_aside(put_aside: fn() -> Box<dyn Any>) {
    let _ = PUT_ASIDE.set(put_aside);
}

/// Runs a kernel of the CPU, which may share its work with the threads of a pool.
// PERF: a thread outside of pools sleeps while it waits, and has nothing to put aside.
#[inline]
pub(crate) fn shared<T>(work: impl FnOnce() -> T) -> T {
    // Kernels of the CPU compute on the CPU alone.
    let _here = is_another_device().then(|| settle(cpu()));
    match rayon::current_thread_index() {
        None => work(),
        Some(_) => {
            let _attempts = error::put_aside();
            let _call = call::put_aside();
            let _draws = draws::put_aside();
            let _device = placement::put_aside();
            let _trace = trace::put_aside();
            let _other = PUT_ASIDE.get().map(|put_aside| put_aside());
            work()
        }
    }
}
