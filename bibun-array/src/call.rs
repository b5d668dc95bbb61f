//! Whose call it is: the line to blame, however deep inside of a library an error is raised.
//!
//! `#[track_caller]` hands the line on from function to function, but not through closures, trait
//! objects and stored functions. So whoever runs something for a user [enters](Call::enter) the
//! user's call, and what is raised inside names that line instead of one of the library's.

use std::cell::Cell;
use std::sync::LazyLock;

/// A place in the source.
pub type Location = &'static std::panic::Location<'static>;

/// A call by a user of a library, while it runs.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The function that the user called; empty where it has no name to speak of.
    pub function: &'static str,
    /// The user's line.
    pub location: Location,
    /// The folder of the library's sources: what was called there was not called by the user.
    pub sources: &'static str,
    /// Whether the function is made of others, which then are parts of it.
    pub is_composite: bool,
}

thread_local! {
    static RUNNING: Cell<Option<Call>> = const { Cell::new(None) };
}

/// The folder of this crate's sources.
const SOURCES: &str = folder(file!(), "call.rs");

/// The folder of the standard library's sources, as a function learns it that is called from there.
static STANDARD: LazyLock<&str> = LazyLock::new(|| {
    #[track_caller]
    fn here((): ()) -> Location {
        std::panic::Location::caller()
    }
    let [location] = [()].map(here);
    let file = location.file();
    file.split_at(file.find("core/src").unwrap_or(file.len())).0
});

/// The folder of a source file: `file!()` without the name at its end.
///
/// ```
/// assert_eq!(bibun_array::folder("bibun/src/call.rs", "call.rs"), "bibun/src/");
/// ```
pub const fn folder(file: &'static str, name: &str) -> &'static str {
    file.split_at(file.len() - name.len()).0
}

impl Call {
    /// The innermost call that is running on this thread.
    #[inline]
    pub fn running() -> Option<Self> {
        RUNNING.get()
    }

    /// Makes this the call that is running, until the result is dropped.
    #[inline]
    pub fn enter(self) -> Entered {
        Entered(RUNNING.replace(Some(self)))
    }

    /// Whether what was called at this place is a part of this call: at a line of the library, or at
    /// that of this very call, which functions with `#[track_caller]` hand on. The standard library
    /// belongs to nobody, but a line of it is of no use: functions called by `map` are "called" there.
    pub fn is_around(&self, location: Location) -> bool {
        let file = location.file();
        std::ptr::eq(location, self.location)
            || file.starts_with(self.sources)
            || file.starts_with(SOURCES)
            || file.starts_with(*STANDARD)
    }
}

/// A call that has been [entered](Call::enter); when it is dropped, the one around it goes on.
#[derive(Debug)]
#[must_use = "the call ends when this is dropped"]
pub struct Entered(Option<Call>);

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}

/// Puts the call that is running aside until the result is dropped.
pub(crate) fn put_aside() -> Entered {
    Entered(RUNNING.take())
}

/// The line that a mistake here is to be reported at: that of the caller, or if it is the library's
/// own, that of the user's call which is running.
///
/// ```
/// use bibun_array::{caller, Call};
/// let call = Call {
///     function: "demo",
///     location: std::panic::std::panic::Location::caller(),
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

/// Says which function the user called, if it is another than the one that speaks: ` (in std)`.
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
