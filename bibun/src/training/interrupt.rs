//! Ctrl-C.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::TrainingError;

/// Interrupts heard since listening began. Signals come to the process as a whole.
static HEARD: AtomicUsize = AtomicUsize::new(0);

/// Listens to Ctrl-C (and to being asked to end, where the system has that) from now on.
///
/// The second interrupt that nobody has answered ends the program at once, as it would have without
/// listening.
pub(super) fn listen() -> Result<(), TrainingError> {
    static LISTENING: OnceLock<Result<(), String>> = OnceLock::new();
    let listening = LISTENING.get_or_init(|| {
        let handler = || {
            if HEARD.fetch_add(1, Ordering::SeqCst) > 0 {
                std::process::exit(130);
            }
        };
        ctrlc::set_handler(handler).map_err(|error| error.to_string())
    });
    match listening {
        Ok(()) => Ok(()),
        Err(what) => Err(TrainingError::Interrupts(what.clone().into())),
    }
}

/// Whether there was an interrupt since the last time this was asked.
pub(super) fn heard() -> bool {
    HEARD.swap(0, Ordering::SeqCst) > 0
}
