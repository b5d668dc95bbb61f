//! Random computations under random scopes in many threads, until the time is over: what each gives
//! must be what it gives when it is run alone, bit for bit.
//!
//! `scope_storm [--minutes N] [--seed S] [--tasks N]`: with a seed, this one round again and again, for
//! what went wrong once depends on the schedule.

#[path = "../../../bibun/tests/threads/storm.rs"]
mod storm;

use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use storm::{Threads, Watch, round};

fn main() -> ExitCode {
    let option = |name: &str| {
        let value = std::env::args()
            .skip_while(|argument| argument != name)
            .nth(1)?;
        let number = value.parse::<u64>();
        Some(number.unwrap_or_else(|_| panic!("{name} takes a number, not {value}")))
    };
    let minutes = option("--minutes").unwrap_or(60);
    let tasks = option("--tasks").unwrap_or(32) as usize;
    let clock = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
    };
    let first = option("--seed").unwrap_or_else(|| clock().as_secs());
    let again = option("--seed").is_some();

    let watch = Watch::begin(Duration::from_secs(120));
    let (start, mut wrong, mut rounds) = (Instant::now(), 0, 0);
    while start.elapsed() < Duration::from_secs(60 * minutes) {
        let seed = if again { first } else { first + rounds };
        let threads = match seed % 10 {
            0 => Threads::Global,
            9 => Threads::Scoped(2 + rounds as usize % 7),
            count => Threads::Pool(count as usize),
        };
        for line in round(seed, tasks, threads, &watch) {
            println!("{line}");
            wrong += 1;
        }
        rounds += 1;
    }
    println!("{rounds} rounds of {tasks} tasks, {wrong} wrong");
    match wrong {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
