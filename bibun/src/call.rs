//! The running call: the user's line, and the composite function that was called there.

use std::cell::RefCell;
use std::sync::Arc;

use bibun_array::{Call, Device, Entered, Settled, folder, is_another_device, settle};

use crate::error::Location;
use crate::surroundings::{Aside, keep_to_this_task};
use crate::variable::Variable;

const SOURCES: &str = folder(file!(), "call.rs");

/// A call of a composite function, as the history of its parts remembers it.
#[derive(Debug)]
pub(crate) struct Composite {
    pub(crate) name: &'static str,
    pub(crate) location: Location,
    /// The composite function that this one is a part of.
    pub(crate) parent: Option<Arc<Composite>>,
}

/// A composite function while it runs. Its [`Composite`] is made only when there is history.
struct Open {
    name: &'static str,
    location: Location,
    is_part: bool,
    remembered: Option<Arc<Composite>>,
}

thread_local! {
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn put_aside() -> impl Sized {
    Aside::of(&OPEN, Vec::new())
}

/// A call of a function, for its errors and its history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Called {
    pub(crate) location: Location,
    /// The device of the inputs, or `None` if they are on every device.
    pub(crate) device: Option<&'static dyn Device>,
    /// Whether it was called by a composite function and not by the user.
    is_part: bool,
}

impl Called {
    /// Begins the call of a function at `location`, until the guard is dropped. Calls by the library
    /// itself belong to the call that is already running.
    #[inline]
    pub(crate) fn begin(function: &'static str, location: Location) -> (Self, Option<Entered>) {
        match Call::running() {
            Some(call) if call.is_around(location) => {
                let called = Self {
                    location: call.location,
                    device: None,
                    is_part: call.is_composite,
                };
                (called, None)
            }
            Some(_) | None => {
                let called = Self {
                    location,
                    device: None,
                    is_part: false,
                };
                let call = Call {
                    function,
                    location,
                    sources: SOURCES,
                    is_composite: false,
                };
                (called, Some(call.enter()))
            }
        }
    }

    /// Computes on the device of the inputs until the guard is dropped, even if a computation uses
    /// only values that are on every device.
    #[inline]
    pub(crate) fn settle(&mut self, inputs: &[Variable]) -> Option<Settled> {
        if !is_another_device() {
            return None;
        }
        self.device = inputs.iter().find_map(Variable::known_device);
        self.device.map(settle)
    }

    /// Returns the composite function that the call is a part of.
    pub(crate) fn composite(self) -> Option<Arc<Composite>> {
        if !self.is_part {
            return None;
        }
        OPEN.with_borrow_mut(|open| {
            let first = open.iter().rposition(|open| !open.is_part)?;
            let mut parent = None;
            for open in &mut open[first..] {
                let (name, location) = (open.name, open.location);
                let remembered = open.remembered.get_or_insert_with(|| {
                    Arc::new(Composite {
                        name,
                        location,
                        parent,
                    })
                });
                parent = Some(Arc::clone(remembered));
            }
            parent
        })
    }
}

/// Returns the call of a function at a location: its own call if the user called it, or the running
/// call if a part of the library called it.
fn call_at(function: &'static str, location: Location) -> Call {
    match Call::running() {
        Some(call) if call.is_around(location) => Call {
            function: match call.function {
                "" => function,
                outer => outer,
            },
            ..call
        },
        Some(_) | None => Call {
            function,
            location,
            sources: SOURCES,
            is_composite: false,
        },
    }
}

/// Begins a function of the library that calls others for its caller. Until the guard is dropped,
/// errors name the caller's line, also those in closures.
#[track_caller]
pub(crate) fn calling(function: &'static str) -> Entered {
    call_at(function, std::panic::Location::caller()).enter()
}

/// A composite function that is running, until this guard is dropped.
#[must_use = "it is over when this is dropped"]
pub(crate) struct Whole {
    _entered: Entered,
}

impl Drop for Whole {
    fn drop(&mut self) {
        OPEN.with_borrow_mut(Vec::pop);
    }
}

/// Begins a composite function. Until the guard is dropped, errors name the caller's line, and
/// history shows its calls as one.
#[track_caller]
pub(crate) fn composite(function: &'static str) -> Whole {
    let caller = std::panic::Location::caller();
    let is_part = Call::running().is_some_and(|call| call.is_composite && call.is_around(caller));
    let call = Call {
        is_composite: true,
        ..call_at(function, caller)
    };
    keep_to_this_task();
    OPEN.with_borrow_mut(|open| {
        open.push(Open {
            name: function,
            location: call.location,
            is_part,
            remembered: None,
        });
    });
    Whole {
        _entered: call.enter(),
    }
}

/// Returns the name of the composite function that is running, the innermost one.
pub(crate) fn innermost() -> Option<&'static str> {
    OPEN.with_borrow(|open| open.last().map(|open| open.name))
}

/// Does the same as [`composite`], for a function that is composite only sometimes.
#[track_caller]
pub(crate) fn composite_if(condition: bool, function: &'static str) -> Option<Whole> {
    match condition {
        true => Some(composite(function)),
        false => None,
    }
}
