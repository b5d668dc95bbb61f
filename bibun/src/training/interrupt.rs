//! Handling of Ctrl-C.

use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::TrainingError;

/// The number of interrupts that no training has answered. Signals come to the process as a whole.
static HEARD: AtomicUsize = AtomicUsize::new(0);
/// The number of trainings that listen for interrupts.
static LISTENING: AtomicUsize = AtomicUsize::new(0);

/// A listener for Ctrl-C (and for termination requests, on systems that have them) while it lives.
#[derive(Debug)]
pub(super) struct Interrupts(());

impl Interrupts {
    /// Begins to listen. If an interrupt comes before the previous one is answered, or when nothing
    /// listens any more, it ends the program at once, as it would have otherwise.
    pub(super) fn listen() -> Result<Self, TrainingError> {
        static INSTALLED: OnceLock<Result<(), String>> = OnceLock::new();
        let installed = INSTALLED.get_or_init(|| {
            let handler = || {
                if LISTENING.load(Ordering::SeqCst) == 0 || HEARD.fetch_add(1, Ordering::SeqCst) > 0
                {
                    process::exit(130);
                }
            };
            ctrlc::set_handler(handler).map_err(|error| error.to_string())
        });
        if let Err(what) = installed {
            return Err(TrainingError::Interrupts(what.clone().into()));
        }
        LISTENING.fetch_add(1, Ordering::SeqCst);
        Ok(Self(()))
    }

    /// Returns whether there was an interrupt since the last call.
    pub(super) fn heard(&self) -> bool {
        HEARD.swap(0, Ordering::SeqCst) > 0
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        LISTENING.fetch_sub(1, Ordering::SeqCst);
    }
}
