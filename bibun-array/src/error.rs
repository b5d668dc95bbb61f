//! Errors, and how mistakes in calls are raised.
//!
//! A mistake in a call (shapes, dtypes, axes) panics, so that formulae need no `?`, and the panic
//! carries the typed error. [`attempt`] runs any piece of code and returns such an error as a
//! `Result`, so one implementation serves both styles.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};

use crate::call::{Call, Location, caller, user_of};
use crate::{DType, Shape};

/// An error of an array operation.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// Shapes, axes or dtypes do not fit together.
    Invalid {
        /// The function that was called.
        function: &'static str,
        /// The shapes or values found, and the condition that they do not meet.
        what: String,
        /// The location of the call.
        location: Location,
    },
    /// Two shapes cannot be broadcast against each other.
    Broadcast {
        /// The function that was called.
        function: &'static str,
        /// The first shape.
        left: Shape,
        /// The second shape.
        right: Shape,
        /// The location of the call.
        location: Location,
    },
    /// An array has another dtype than the one needed.
    DType {
        /// The function that was called.
        function: &'static str,
        /// The dtype of the array.
        found: DType,
        /// The dtype that is needed.
        expected: DType,
        /// The location of the call.
        location: Location,
    },
    /// A result would have more elements than memory has addresses.
    TooLarge {
        /// The function that was called.
        function: &'static str,
        /// The shape of the result. Sizes that cannot be counted are `usize::MAX`.
        shape: Shape,
        /// The location of the call.
        location: Location,
    },
    /// The system refuses memory.
    OutOfMemory {
        /// The function that was called.
        function: &'static str,
        /// The number of bytes asked for at once.
        bytes: usize,
        /// The location of the call.
        location: Location,
    },
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { function, what, .. } => write!(f, "{function}: {what}"),
            Self::Broadcast {
                function,
                left,
                right,
                ..
            } => write!(
                f,
                "{function}: shapes do not broadcast: {left} and {right} (sizes must be equal or 1, \
                 counted from the last axis)"
            ),
            Self::DType {
                function,
                found,
                expected,
                ..
            } => write!(f, "{function}: the dtype is {found}, expected {expected}"),
            Self::TooLarge {
                function, shape, ..
            } => write!(
                f,
                "{function}: no array has the shape {shape} (all sizes but zeros must multiply to \
                 less than 2^60)"
            ),
            Self::OutOfMemory {
                function, bytes, ..
            } => write!(f, "{function}: the system refuses {bytes} bytes of memory"),
        }?;
        write!(f, ", called at {}", self.location())
    }
}

impl Error {
    /// Creates an [`Error::Invalid`] at the location of the [caller](caller()).
    #[track_caller]
    pub fn invalid(function: &'static str, what: impl Into<String>) -> Self {
        Self::Invalid {
            function,
            what: what.into() + &user_of(function),
            location: caller(),
        }
    }

    /// Returns the location of the call.
    pub fn location(&self) -> Location {
        match self {
            Self::Invalid { location, .. }
            | Self::Broadcast { location, .. }
            | Self::DType { location, .. }
            | Self::TooLarge { location, .. }
            | Self::OutOfMemory { location, .. } => location,
        }
    }

    /// An [`Error::OutOfMemory`] for this number of elements, at the location of the caller.
    #[cold]
    #[track_caller]
    pub(crate) fn out_of_memory<T>(elements: usize) -> Self {
        Self::OutOfMemory {
            function: "memory",
            bytes: elements.saturating_mul(size_of::<T>()),
            location: caller(),
        }
    }
}

thread_local! {
    static ATTEMPTS: Cell<usize> = const { Cell::new(0) };
}

/// Makes the thread count as outside of [`attempt`] until the result is dropped.
pub(crate) fn put_aside() -> impl Drop {
    struct PutBack(usize);
    impl Drop for PutBack {
        fn drop(&mut self) {
            ATTEMPTS.set(self.0);
        }
    }
    PutBack(ATTEMPTS.replace(0))
}

/// Panics with `error`. Inside [`attempt`] nothing is printed, and `attempt` returns the error.
///
/// Elsewhere the payload of the panic is the error's message. On a thread of one of rayon's pools it is the error
/// itself, so that an `attempt` around the pool's `install` returns it, too; there the message is printed.
///
/// ```should_panic
/// bibun_array::raise(bibun_array::Error::invalid("demo", "nothing fits"));
/// ```
#[cold]
#[track_caller]
pub fn raise<E: std::error::Error + Send + 'static>(error: E) -> ! {
    if ATTEMPTS.get() > 0 {
        panic::resume_unwind(Box::new(error));
    }
    // A pool gives the payload to the thread that waits for it.
    if rayon::current_thread_index().is_some() {
        let message = error.to_string();
        // The hook prints it.
        let _ = panic::catch_unwind(|| panic!("{message}"));
        panic::resume_unwind(Box::new(error));
    }
    panic!("{error}")
}

/// Runs `f` and returns the error of type `E` that it raised, if any. Every other panic goes on.
///
/// In a program that aborts on panic nothing can be caught: the error's message is printed.
///
/// ```
/// use bibun_array::{attempt, Array, Error};
/// let a = Array::from([1.0, 2.0]);
/// let b = Array::from([1.0, 2.0, 3.0]);
/// let sum: Result<Array, Error> = attempt(|| &a + &b);
/// assert!(matches!(sum, Err(Error::Broadcast { function: "add", .. })));
/// ```
pub fn attempt<T, E: 'static>(f: impl FnOnce() -> T) -> Result<T, E> {
    attempt_with(f, |payload| Ok(*payload.downcast::<E>()?))
}

/// Runs `f` and returns the error that `error` finds in the payload of a panic of `f`. If `error`
/// returns the payload as its `Err`, the panic goes on. [`attempt`] does this for errors of one
/// type.
///
/// ```
/// use bibun_array::attempt_with;
/// let text = attempt_with(|| panic!("no"), |payload| Ok(*payload.downcast::<&str>()?));
/// assert_eq!(text, Err::<(), _>("no"));
/// ```
pub fn attempt_with<T, E>(
    f: impl FnOnce() -> T,
    error: impl FnOnce(Payload) -> Result<E, Payload>,
) -> Result<T, E> {
    let (mut f, mut value) = (Some(f), None);
    match caught(&mut || value = f.take().map(|f| f())) {
        Ok(()) => Ok(value.expect("it has returned")),
        Err(payload) => match error(payload) {
            Ok(error) => Err(error),
            Err(payload) => panic::resume_unwind(payload),
        },
    }
}

/// The payload of a panic.
type Payload = Box<dyn Any + Send>;

/// Catches a panic of `f`. Not generic, so that it is compiled once.
fn caught(f: &mut dyn FnMut()) -> Result<(), Payload> {
    struct Attempting;
    impl Drop for Attempting {
        fn drop(&mut self) {
            ATTEMPTS.set(ATTEMPTS.get() - 1);
        }
    }
    if cfg!(panic = "abort") {
        f();
        return Ok(());
    }
    ATTEMPTS.set(ATTEMPTS.get() + 1);
    let _attempting = Attempting;
    panic::catch_unwind(AssertUnwindSafe(f))
}

/// Runs the part of a function that asks for memory.
///
/// # Panics
/// Panics if the system refuses memory, with an [`Error::OutOfMemory`] that has the name of the
/// function, or of the one that the user called and that this is a part of, and the location of the call.
///
/// ```
/// use bibun_array::{allocating, attempt, Array, DType, Error};
/// let refused: Result<Array, Error> =
///     attempt(|| allocating("mask", || Array::ones([1 << 29, 1 << 29], DType::Bool).tril(0)));
/// assert!(matches!(refused, Err(Error::OutOfMemory { function: "mask", .. })));
/// ```
#[track_caller]
pub fn allocating<T>(function: &'static str, work: impl FnOnce() -> T) -> T {
    let place = std::panic::Location::caller();
    attempt(work).unwrap_or_else(|error| refused(function, error, place))
}

#[cold]
fn refused(function: &'static str, error: Error, place: Location) -> ! {
    // The user knows no functions that others are made of.
    let call = Call::running().filter(|call| call.is_around(place));
    let named = call.filter(|call| !call.function.is_empty());
    raise(match error {
        Error::OutOfMemory { bytes, .. } => Error::OutOfMemory {
            function: named.map_or(function, |call| call.function),
            bytes,
            location: call.map_or(place, |call| call.location),
        },
        other => other,
    })
}
