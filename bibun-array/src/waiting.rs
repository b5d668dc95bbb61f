//! What a thread does while it waits for others.
//!
//! A thread of a pool that waits for its part of a kernel to be done by others takes up whatever task
//! comes next in the pool: one that has nothing to do with the task that waits, but runs on its stack
//! and sees its thread-locals. So what belongs to the waiting task is put aside for so long.

use std::any::Any;
use std::sync::OnceLock;

use crate::device::{self, cpu, is_another_device, settle};
use crate::{call, draws, error};

static PUT_ASIDE: OnceLock<fn() -> Box<dyn Any>> = OnceLock::new();

/// Has `put_aside` called wherever a thread is about to wait for other threads of a pool; what it
/// returns is dropped when the thread goes on, and must put everything back.
///
/// For libraries above this one that keep thread-local state. The first call counts, later ones
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
    // What kernels compute with, they compute with on the CPU.
    let _here = is_another_device().then(|| settle(cpu()));
    match rayon::current_thread_index() {
        None => work(),
        Some(_) => {
            let _attempts = error::put_aside();
            let _call = call::put_aside();
            let _draws = draws::put_aside();
            let _device = device::put_aside();
            let _other = PUT_ASIDE.get().map(|put_aside| put_aside());
            work()
        }
    }
}
