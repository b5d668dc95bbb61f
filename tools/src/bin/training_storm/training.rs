//! What is trained, in a process of its own, and what it comes to undisturbed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bibun::Variable;
use bibun::array::{Array, DType, Generator};
use bibun::datasets::{DataLoader, Dataset};
use bibun::functions::softmax_cross_entropy;
use bibun::links::{Link, Mlp};
use bibun::optimizers::Adam;
use bibun::optimizers::schedule::cosine;
use bibun::serializers::{State, Value, load_snapshot};
use bibun::training::{
    Evaluator, Goal, KeepBest, Outcome, Plot, Snapshots, BatchSource, Step, TensorBoard, Trainer,
    TrainingError, Trigger, Until,
};

/// After so many steps training is finished.
pub(crate) const STEPS: u64 = 12;
/// What a process ends with that has said why it cannot go on.
pub(crate) const REFUSED: i32 = 3;

/// Snapshots of 30 MB after every step: parameters, twice as much for Adam, and the best model.
fn trainer(folder: &Path, keep: usize) -> Trainer<Mlp, impl BatchSource + use<>> {
    let loss = |model: &Mlp, (x, t): &(Array, Array), step: &mut Step<'_>| {
        let noise = step.random().normal(x.shape(), 0.0, 0.1, DType::F32);
        softmax_cross_entropy(model.forward(&Variable::constant(x + noise)), t)
    };
    let data = |count, seed| {
        let random = &mut Generator::new(seed);
        let x = random.uniform([count, 600], -1.0, 1.0, DType::F32);
        let t = x.slice(bibun::s![.., 0..10]).argmax(1);
        let moved = |(x, t): (Array, Array), random: &mut Generator| {
            Ok((x + random.normal(600, 0.0, 0.1, DType::F32), t))
        };
        (x, t).map(moved)
    };
    let model = Mlp::new(&[600, 1400, 700, 10], &mut Generator::new(0));
    let batches = DataLoader::new(data(40, 1), 8).shuffle(2).prefetch(2, 1);
    let evaluator = Evaluator::new("test", DataLoader::new(data(16, 3), 8), loss);
    Trainer::new(
        model,
        batches,
        Adam::new(0.001).schedule(cosine(STEPS)),
        loss,
    )
    .until(Until::Iterations(STEPS))
    .folder(folder)
    .log_every(Trigger::Iterations(1))
    .snapshots(Snapshots::every(Trigger::Iterations(1)).keep(keep))
    .draw_graph("graph.svg")
    .extend(evaluator.every(Trigger::Iterations(2)))
    .extend(KeepBest::new("best.npz", "test/loss", Goal::Lowest))
    .extend(Plot::new("loss.svg", ["loss", "test/loss"]))
    .extend(TensorBoard::new())
}

/// What the process does: trains in a folder, from its newest snapshot or from that of a step. The
/// outcome is the process's, said on standard error.
pub(crate) fn train(folder: &Path, keep: usize, from: Option<u64>) -> i32 {
    let mut trainer = trainer(folder, keep);
    let mut run = || -> Result<Outcome, TrainingError> {
        let resumed = match from {
            Some(step) => trainer.resume_from(snapshot(folder, step))?,
            None => trainer.resume()?,
        };
        eprintln!("{resumed}");
        trainer.run()
    };
    match run() {
        Ok(Outcome::Finished) => 0,
        Ok(outcome) => {
            eprintln!("{outcome}");
            1
        }
        Err(error) => {
            eprintln!("refused: {error}");
            REFUSED
        }
    }
}

/// The program, to be started as the process that trains.
pub(crate) fn program() -> PathBuf {
    std::env::current_exe().expect("a program has a path")
}

pub(crate) fn command(folder: &Path) -> Command {
    keeping(folder, 2)
}

/// A process that keeps so many snapshots.
pub(crate) fn keeping(folder: &Path, keep: usize) -> Command {
    let mut command = Command::new(program());
    command.arg("train").arg(folder).arg(keep.to_string());
    command
}

pub(crate) fn start(command: &mut Command) -> Child {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::piped()).spawn().expect("it starts")
}

/// What the snapshot of a step is called.
pub(crate) fn snapshot(folder: &Path, step: u64) -> PathBuf {
    folder.join(format!("snapshot_{step:08}.npz"))
}

/// The steps of the files that are called as snapshots are, in order.
pub(crate) fn snapshots(folder: &Path) -> Vec<u64> {
    let step = |entry: io::Result<fs::DirEntry>| {
        let name = entry.ok()?.file_name();
        let name = name.to_str()?.strip_prefix("snapshot_")?;
        name.strip_suffix(".npz")?.parse().ok()
    };
    let entries = fs::read_dir(folder).into_iter().flatten();
    let mut steps: Vec<u64> = entries.filter_map(step).collect();
    steps.sort_unstable();
    steps
}

/// A checksum of all in a snapshot but for the time that it took.
fn essence(mut state: State) -> String {
    state.remove("clock/elapsed");
    state.remove("extensions/tensorboard/last_time");
    let lines = match state.get("log/lines") {
        Some(Value::Text(lines)) => timeless(lines),
        _ => String::new(),
    };
    state.insert("log/lines", lines);
    state.checksum()
}

/// The lines of a log without their times.
fn timeless(lines: &str) -> String {
    let line = |line: &str| {
        let values = line
            .split(',')
            .filter(|part| !part.contains("elapsed_time"));
        values.collect::<Vec<_>>().join(",") + "\n"
    };
    lines.lines().map(line).collect()
}

/// What an undisturbed training comes to.
pub(crate) struct Undisturbed {
    /// The essence of the snapshot after each step.
    snapshots: BTreeMap<u64, String>,
    log: String,
    best: Vec<u8>,
}

impl Undisturbed {
    pub(crate) fn run(folder: &Path) -> Self {
        let mut trainer = trainer(folder, STEPS as usize);
        trainer.run().expect("nobody disturbs it");
        let essence = |step| {
            (
                step,
                essence(load_snapshot(snapshot(folder, step)).expect("whole")),
            )
        };
        let snapshots = snapshots(folder).into_iter().map(essence).collect();
        let log = fs::read_to_string(folder.join("log.jsonl")).expect("a log");
        let best = fs::read(folder.join("best.npz")).expect("the best");
        fs::remove_dir_all(folder).expect("it was there");
        Self {
            snapshots,
            log: timeless(&log),
            best,
        }
    }

    /// The latest snapshot in a folder that can be loaded; every one that can must be as it is in
    /// the undisturbed training.
    pub(crate) fn newest(&self, folder: &Path) -> Result<Option<u64>, String> {
        let mut newest = None;
        for step in snapshots(folder) {
            let Ok(state) = load_snapshot(snapshot(folder, step)) else {
                continue;
            };
            // One that was renamed is none of this folder.
            if state.count("clock/iteration") != Ok(step) {
                continue;
            }
            if self.snapshots.get(&step) != Some(&essence(state)) {
                return Err(format!(
                    "the snapshot of step {step} is of another training"
                ));
            }
            newest = Some(step);
        }
        Ok(newest)
    }

    /// That a training has come to its end and to the same.
    pub(crate) fn is_reached(&self, folder: &Path) -> Result<(), String> {
        let newest = self.newest(folder)?;
        if newest != Some(STEPS) {
            return Err(format!("finished with {newest:?} as its last snapshot"));
        }
        let log =
            fs::read_to_string(folder.join("log.jsonl")).map_err(|error| error.to_string())?;
        if timeless(&log) != self.log {
            return Err("the log is another".to_owned());
        }
        let best = fs::read(folder.join("best.npz")).map_err(|error| error.to_string())?;
        if best != self.best {
            return Err("another model was the best".to_owned());
        }
        Ok(())
    }
}
