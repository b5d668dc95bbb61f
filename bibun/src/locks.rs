//! Locks, none of which is ever held while a kernel or a user's closure runs: the thread could
//! meanwhile run another task that needs the same lock, or the closure could need it.
//!
//! Builds with debug assertions count the locks that each thread holds, and every kernel on a thread
//! of a pool checks the count.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// A lock that is held.
pub(crate) struct Held<G>(G);

impl<G> Held<G> {
    #[inline]
    fn new(guard: G) -> Self {
        if cfg!(debug_assertions) {
            HELD.set(HELD.get() + 1);
        }
        Self(guard)
    }
}

impl<G> Drop for Held<G> {
    #[inline]
    fn drop(&mut self) {
        if cfg!(debug_assertions) {
            HELD.set(HELD.get() - 1);
        }
    }
}

impl<G: Deref> Deref for Held<G> {
    type Target = G::Target;
    #[inline]
    fn deref(&self) -> &G::Target {
        &self.0
    }
}

impl<G: DerefMut> DerefMut for Held<G> {
    #[inline]
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.0
    }
}

// Nothing panics while it holds one of these locks, so none is ever poisoned.

#[inline]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> Held<MutexGuard<'_, T>> {
    Held::new(mutex.lock().unwrap_or_else(PoisonError::into_inner))
}

#[inline]
pub(crate) fn read<T>(lock: &RwLock<T>) -> Held<RwLockReadGuard<'_, T>> {
    Held::new(lock.read().unwrap_or_else(PoisonError::into_inner))
}

#[inline]
pub(crate) fn write<T>(lock: &RwLock<T>) -> Held<RwLockWriteGuard<'_, T>> {
    Held::new(lock.write().unwrap_or_else(PoisonError::into_inner))
}

/// Asserts that no lock is held where a kernel or a user's closure is about to run.
#[inline]
pub(crate) fn assert_none_held() {
    debug_assert_eq!(HELD.get(), 0, "a lock is held over a kernel or a closure");
}
