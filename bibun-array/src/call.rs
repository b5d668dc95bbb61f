//! The call that is running: the line to blame for an error, however deep inside a library it is
//! raised.
//!
//! `#[track_caller]` passes the line on from function to function, but not through closures, trait
//! objects and stored functions. So code that runs something for a user [enters](Call::enter) the
//! user's call, and errors raised inside name that line instead of one of the library's.

use std::cell::Cell;
use std::sync::LazyLock;

/// A location in the source.
pub type Location = &'static std::panic::Location<'static>;

/// A running call by a user of a library.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The function that the user called; empty if it has no name to report.
    pub function: &'static str,
    /// The location of the user's call.
    pub location: Location,
    /// The folder of the library's sources. Calls from there are not calls by the user.
    pub sources: &'static str,
    /// Whether the function is made of others, which are then parts of it.
    pub is_composite: bool,
}

thread_local! {
    static RUNNING: Cell<Option<Call>> = const { Cell::new(None) };
}

/// The folder of this crate's sources.
const SOURCES: &str = folder(file!(), "call.rs");

/// The folder of the standard library's sources, as a function that is called from there sees it.
static STANDARD: LazyLock<&str> = LazyLock::new(|| {
    #[track_caller]
    fn here((): ()) -> Location {
        std::panic::Location::caller()
    }
    let [location] = [()].map(here);
    let file = location.file();
    file.split_at(file.find("core/src").unwrap_or(file.len())).0
});

/// Returns the folder of a source file: `file!()` without the name at its end.
///
/// ```
/// assert_eq!(bibun_array::folder("bibun/src/call.rs", "call.rs"), "bibun/src/");
/// ```
pub const fn folder(file: &'static str, name: &str) -> &'static str {
    file.split_at(file.len() - name.len()).0
}

impl Call {
    /// Returns the innermost call that is running on this thread.
    #[inline]
    pub fn running() -> Option<Self> {
        RUNNING.get()
    }

    /// Makes this the running call until the result is dropped.
    #[inline]
    pub fn enter(self) -> Entered {
        Entered(RUNNING.replace(Some(self)))
    }

    /// Returns whether a call at this location is a part of this call: at a line of the library, or
    /// at the line of this very call, which functions with `#[track_caller]` pass on. The standard
    /// library belongs to no user, but a line of it is useless in a message: functions passed to
    /// `map` are "called" there.
    pub fn is_around(&self, location: Location) -> bool {
        let file = location.file();
        std::ptr::eq(location, self.location)
            || file.starts_with(self.sources)
            || file.starts_with(SOURCES)
            || file.starts_with(*STANDARD)
    }
}

/// A call that has been [entered](Call::enter). Dropping this makes the surrounding call the
/// running one again.
#[derive(Debug)]
#[must_use = "the call ends when this is dropped"]
pub struct Entered(Option<Call>);

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}

/// Begins a function of this crate that a device carries out, until the result is dropped: its errors name
/// the caller's line.
#[track_caller]
pub(crate) fn calling(function: &'static str) -> Entered {
    let location = std::panic::Location::caller();
    let call = match Call::running() {
        Some(call) if call.is_around(location) => call,
        Some(_) | None => Call {
            function,
            location,
            sources: SOURCES,
            is_composite: false,
        },
    };
    call.enter()
}

/// Puts the running call aside until the result is dropped.
pub(crate) fn put_aside() -> Entered {
    Entered(RUNNING.take())
}

/// Returns the location at which to report a mistake: that of the caller, or, if that is in the
/// library itself, the location of the user's running call.
///
/// ```
/// use bibun_array::{caller, Call};
/// let call = Call {
///     function: "demo",
///     location: std::panic::Location::caller(),
///     sources: file!(),
///     is_composite: false,
/// };
/// let entered = call.enter();
/// let location = [1].map(|_| caller())[0];
/// assert_eq!(location, call.location);
/// drop(entered);
/// assert_ne!(caller(), call.location);
/// ```
#[track_caller]
pub fn caller() -> Location {
    let caller = std::panic::Location::caller();
    match Call::running() {
        Some(call) if call.is_around(caller) => call.location,
        Some(_) | None => caller,
    }
}

/// Returns the name of the function that the user called, in the form ` (in std)`, or an empty
/// string if that is `function` itself.
#[track_caller]
pub fn user_of(function: &str) -> String {
    match Call::running() {
        Some(call)
            if !(call.function.is_empty() || call.function == function)
                && call.is_around(std::panic::Location::caller()) =>
        {
            format!(" (in {})", call.function)
        }
        Some(_) | None => String::new(),
    }
}
