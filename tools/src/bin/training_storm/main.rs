//! Storms over the folders of trainings: kills while snapshots of 30 MB are written, full disks,
//! read-only and vanishing folders, damaged files, several processes at once. After each, training
//! goes on with the bits of one that nobody has disturbed, or says why it cannot; and once a snapshot
//! was written, there is always one that can be loaded.
//!
//!     training_storm [--minutes 60] [--seed 1] [--only kills]
//!
//! What cannot be done here (mounts need privileges or user namespaces) is skipped with a line.

mod storms;
mod training;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use bibun::array::{DType, Generator};

use storms::STORMS;
use training::Undisturbed;

/// Where a storm is made, by what numbers, and what it must come to.
struct Site {
    folder: PathBuf,
    random: Generator,
    undisturbed: Undisturbed,
    /// How long an undisturbed training takes.
    time: Duration,
}

impl Site {
    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        let x = self.random.uniform((), 0.0, end as f64, DType::F64);
        (x.item::<f64>() as usize).min(end.saturating_sub(1))
    }

    /// A time within that of a training.
    fn wait(&mut self) {
        let part = self.random.uniform((), 0.0, 1.1, DType::F64);
        std::thread::sleep(self.time.mul_f64(part.item()));
    }
}

/// How a storm ended that went well.
enum Weather {
    Passed,
    /// It cannot be made here, and why.
    Skipped(String),
}

struct Arguments {
    minutes: f64,
    seed: u64,
    only: Option<String>,
}

impl Arguments {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut arguments = Self {
            minutes: 1.0,
            seed: std::process::id().into(),
            only: None,
        };
        while let Some(word) = words.next() {
            let value = words.next().ok_or(format!("{word} wants a value"))?;
            let wrong = || format!("{word} {value} is no number");
            match &*word {
                "--minutes" => arguments.minutes = value.parse().map_err(|_| wrong())?,
                "--seed" => arguments.seed = value.parse().map_err(|_| wrong())?,
                "--only" => arguments.only = Some(value),
                _ => return Err(format!("{word} is not known: --minutes, --seed, --only")),
            }
        }
        Ok(arguments)
    }
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1).peekable();
    if words.peek().is_some_and(|word| word == "train") {
        let words: Vec<String> = words.skip(1).collect();
        let keep = words[1].parse().expect("a number of snapshots");
        let from = words.get(2).map(|step| step.parse().expect("a step"));
        return ExitCode::from(training::train(Path::new(&words[0]), keep, from) as u8);
    }
    let arguments = match Arguments::read(words) {
        Ok(arguments) => arguments,
        Err(what) => {
            eprintln!("{what}");
            return ExitCode::FAILURE;
        }
    };
    let name = format!("bibun-training-storm-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    let begin = Instant::now();
    let mut site = Site {
        undisturbed: Undisturbed::run(&folder),
        time: begin.elapsed(),
        random: Generator::new(arguments.seed),
        folder: folder.clone(),
    };
    println!(
        "seed {}, a training takes {:.1?}",
        arguments.seed, site.time
    );
    let is_wanted = |name: &str| arguments.only.as_ref().is_none_or(|only| only == name);
    let storms: Vec<_> = STORMS.iter().filter(|(name, _)| is_wanted(name)).collect();
    if storms.is_empty() {
        let names: Vec<&str> = STORMS.iter().map(|(name, _)| *name).collect();
        eprintln!("the storms are {}", names.join(", "));
        return ExitCode::FAILURE;
    }
    let begin = Instant::now();
    let mut rounds = 0;
    // What was skipped once is not tried again.
    let mut skipped = Vec::new();
    while begin.elapsed().as_secs_f64() < arguments.minutes * 60.0 && skipped.len() < storms.len() {
        for (name, storm) in &storms {
            if skipped.contains(name) {
                continue;
            }
            let _ = fs::remove_dir_all(&folder);
            let start = Instant::now();
            match storm(&mut site) {
                Ok(Weather::Passed) => println!("{name} passed in {:.1?}", start.elapsed()),
                Ok(Weather::Skipped(why)) => {
                    println!("{name} is skipped: {why}");
                    skipped.push(name);
                }
                Err(what) => {
                    println!("{name}: {what}");
                    println!("see {}; the seed is {}", folder.display(), arguments.seed);
                    return ExitCode::FAILURE;
                }
            }
            rounds += 1;
        }
    }
    let _ = fs::remove_dir_all(&folder);
    println!("{rounds} storms, and nothing was lost");
    ExitCode::SUCCESS
}
