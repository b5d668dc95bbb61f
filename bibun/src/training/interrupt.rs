//! Ctrl-C.

use std::process;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::TrainingError;

/// Interrupts that no training has answered. Signals come to the process as a whole.
static HEARD: AtomicUsize = AtomicUsize::new(0);
/// Trainings that listen.
static LISTENING: AtomicUsize = AtomicUsize::new(0);

/// Listens to Ctrl-C (and to being asked to end, where the system has that) as long as it lives.
#[derive(Debug)]
pub(super) struct Interrupts(());

impl Interrupts {
    /// Begins to listen. An interrupt that is not answered yet when the next one comes, or that comes
    /// when nobody listens any more, ends the program at once, as it would have otherwise.
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

    /// Whether there was an interrupt since the last time this was asked.
    pub(super) fn heard(&self) -> bool {
        HEARD.swap(0, Ordering::SeqCst) > 0
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        LISTENING.fetch_sub(1, Ordering::SeqCst);
    }
}
