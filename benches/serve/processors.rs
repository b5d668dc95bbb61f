//! How far the processors are from each other.

use std::hint;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// The number of messages of which the mean is taken, and of such means.
const MESSAGES: u64 = 100;
const MEANS: u64 = 11;

/// Returns the nanoseconds that a message takes from one processor to another and back.
///
/// Virtual processors are near each other at some times and far at others, which decides what a second thread
/// gains for short rows.
pub(crate) fn round_trip() -> u128 {
    let [there, back] = [AtomicU64::new(0), AtomicU64::new(0)];
    let wait = |flag: &AtomicU64, message| {
        while flag.load(Ordering::Acquire) != message {
            hint::spin_loop();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for message in 1..=MESSAGES * MEANS {
                wait(&there, message);
                back.store(message, Ordering::Release);
            }
        });
        // The first one waits for the thread to begin, and others for a thread that the system stops.
        let mut means = (0..MEANS).map(|mean| {
            let start = Instant::now();
            for message in 1..=MESSAGES {
                let message = mean * MESSAGES + message;
                there.store(message, Ordering::Release);
                wait(&back, message);
            }
            start.elapsed().as_nanos() / u128::from(MESSAGES)
        });
        let mut means: [u128; MEANS as usize] =
            std::array::from_fn(|_| means.next().expect("there is one for each"));
        means.sort_unstable();
        means[means.len() / 2]
    })
}
