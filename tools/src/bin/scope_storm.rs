//! Random computations under random scopes in many threads, until the time is over: what each gives
//! must be what it gives when it is run alone, bit for bit.

#[path = "../../../tests/bibun/threads/storm.rs"]
mod storm;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use storm::{Threads, Watch, round};

#[derive(Parser)]
#[command(about = "Runs random computations under random scopes in many threads for a while")]
struct Options {
    /// How long.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Of the first round; each round after it has the next one.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many computations a round has.
    #[arg(long, default_value_t = 64)]
    tasks: usize,
    /// Only the first round, again and again: what goes wrong depends on the schedule too.
    #[arg(long)]
    again: bool,
}

/// A task that takes longer stands still.
const PATIENCE: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    let options = Options::parse();
    let watch = Watch::begin(PATIENCE);
    let (start, mut rounds, mut wrong) = (Instant::now(), 0, 0);
    while start.elapsed().as_secs_f64() < 60.0 * options.minutes {
        let seed = match options.again {
            true => options.seed,
            false => options.seed + rounds,
        };
        let threads = match seed % 10 {
            0 => Threads::Global,
            9 => Threads::Scoped(2 + seed as usize / 10 % 7),
            count => Threads::Pool(count as usize),
        };
        for line in round(seed, options.tasks, threads, &watch) {
            println!("{line}");
            wrong += 1;
        }
        rounds += 1;
    }
    println!("{rounds} rounds of {} tasks, {wrong} wrong", options.tasks);
    match wrong {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
