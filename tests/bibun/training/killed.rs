//! A process that trains is killed at random moments, or interrupted, and goes on.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bibun::array::{Array, DType, Generator};
use bibun::datasets::{DataLoader, Dataset};
use bibun::optimizers::Adam;
use bibun::optimizers::schedule::{ReduceOnPlateau, cosine};
use bibun::training::{
    BatchSource, Callback, EarlyStopping, Evaluator, Goal, KeepBest, LowerRateOnPlateau, Outcome,
    Session, Snapshots, TensorBoard, Trainer, TrainingError, Trigger, Until,
};

use super::points::{Folder, Net, Points, bits, still, told};

/// Set in the process that is killed: where it trains.
const FOLDER: &str = "BIBUN_TRAIN_HERE";
const PERIOD: u64 = 3;
const STEPS: u64 = 240;

/// DataLoader made on threads, of points that are moved a little.
fn batches() -> DataLoader<impl Dataset<Example = (Array, Array)>> {
    let moved = |(x, t): (Array, Array), random: &mut Generator| {
        Ok((x + random.normal(2, 0.0, 0.01, DType::F32), t))
    };
    DataLoader::new(Points::new(70, 16).into_arrays().map(moved), 16)
        .shuffle(3)
        .prefetch(3, 2)
}

fn trainer(folder: &Path) -> Trainer<Net, impl BatchSource<Batch = (Array, Array)>> {
    Trainer::new(
        Net::new(0),
        batches(),
        Adam::new(0.01).schedule(cosine(STEPS)),
        still,
    )
    .until(Until::Iterations(STEPS))
    .folder(folder)
    .log_every(Trigger::Iterations(4))
    .snapshots(Snapshots::every(Trigger::Iterations(PERIOD)))
    .extend(Evaluator::new("test", Points::new(20, 10), still).every(Trigger::Iterations(8)))
    .extend(EarlyStopping::new("test/loss", Goal::Lowest).patience(1000))
    .extend(LowerRateOnPlateau::new(
        "loss",
        ReduceOnPlateau::new(0.5).patience(5),
    ))
    .extend(KeepBest::new("best.npz", "test/loss", Goal::Lowest))
    .extend(TensorBoard::new().histograms(Trigger::Iterations(20)))
}

/// What the process does; nothing where it runs as a test among others.
#[test]
fn trains_in_a_process_of_its_own() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let folder = Path::new(&folder);
    fs::create_dir_all(folder).expect("a folder");
    let diary = folder.join("diary.txt");
    let write = move |line: String| {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&diary)
            .expect("a diary");
        // One write, so that a line is whole or not there.
        file.write_all(format!("{line}\n").as_bytes())
            .expect("written");
    };
    let write_step = write.clone();
    // Compiled, where the training that is never stopped is not.
    let trainer = trainer(folder).compiled();
    let mut trainer = trainer.stop_on_interrupt().extend(Callback::new(
        "diary",
        Trigger::Iterations(1),
        move |session: &mut Session<'_, Net>| {
            write_step(format!("step {}", session.clock().iteration()));
            std::thread::sleep(Duration::from_micros(500));
            Ok(())
        },
    ));
    let resumed = trainer.resume().expect("a folder without half files");
    write(format!("resumed {}", trainer.clock().iteration()));
    for damaged in resumed.damaged {
        write(format!("damaged {damaged}"));
    }
    match trainer.run() {
        Ok(Outcome::Finished) => write("finished".to_owned()),
        Ok(Outcome::Interrupted) => write(format!("interrupted {}", trainer.clock().iteration())),
        Ok(Outcome::Stopped(reason)) => panic!("{reason}"),
        Err(TrainingError::FolderInUse { process, .. }) => {
            write(format!("refused {}", process.expect("it is told")));
        }
        Err(error) => panic!("{error}"),
    }
}

fn start(folder: &Path) -> Child {
    let program = std::env::current_exe().expect("this program has a path");
    Command::new(program)
        .args([
            "--exact",
            "training::killed::trains_in_a_process_of_its_own",
        ])
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts")
}

/// The diary from a line on.
fn diary(folder: &Path, from: usize) -> Vec<(String, u64)> {
    let text = fs::read_to_string(folder.join("diary.txt")).unwrap_or_default();
    let entry = |line: &str| {
        let (what, number) = line.split_once(' ').unwrap_or((line, "0"));
        (
            what.to_owned(),
            number.parse().unwrap_or_else(|_| panic!("{line}")),
        )
    };
    text.lines().skip(from).map(entry).collect()
}

/// That the training in a folder came to what one that was never stopped comes to.
fn assert_unbroken(folder: &Path) {
    let elsewhere = Folder::new("never-killed");
    let mut unbroken = trainer(elsewhere.path());
    unbroken.run().expect("no trouble");
    let mut last = trainer(folder);
    last.resume().expect("a snapshot");
    assert_eq!(last.clock().iteration(), STEPS);
    assert_eq!(bits(last.model()), bits(unbroken.model()));
    assert_eq!(told(last.log()), told(unbroken.log()));
    let read = |folder: &Path| fs::read(folder.join("best.npz")).expect("the best");
    assert!(
        read(folder) == read(elsewhere.path()),
        "other models were the best"
    );
}

#[test]
fn a_killed_training_loses_only_the_steps_since_the_last_snapshot() {
    let folder = Folder::new("killed");
    let folder = folder.path();
    let random = &mut Generator::new(std::process::id().into());
    let (mut kills, mut written, mut last_step) = (0, 0, 0);
    let mut moments = Vec::new();
    loop {
        let mut child = start(folder);
        // The last rounds are not disturbed.
        if kills < 25 {
            // Every other time it is first let to where it makes steps.
            let is_at_work = |child: &mut Child| {
                let began = diary(folder, written)
                    .iter()
                    .any(|(what, _)| what == "step");
                began || child.try_wait().expect("it runs").is_some()
            };
            while kills % 2 == 1 && !is_at_work(&mut child) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let wait = random.uniform((), 0.0, 60.0, DType::F64).item::<f64>();
            std::thread::sleep(Duration::from_secs_f64(wait / 1e3));
            child.kill().expect("killed");
            moments.push(wait as u64);
        }
        let status = child.wait().expect("it ends");
        kills += 1;
        let lines = diary(folder, written);
        written += lines.len();
        for (what, number) in &lines {
            match what.as_str() {
                // The step after a snapshot tells that the snapshot was made.
                "resumed" => {
                    let safe = u64::saturating_sub(last_step, 1) / PERIOD * PERIOD;
                    assert!(*number >= safe, "went back from {last_step} to {number}");
                    assert!(*number % PERIOD == 0 && *number <= last_step.max(1));
                    last_step = *number;
                }
                "step" => {
                    assert_eq!(*number, last_step + 1, "steps follow each other");
                    last_step = *number;
                }
                "finished" => assert_eq!(last_step, STEPS),
                other => panic!("{other} {number}"),
            }
        }
        if status.success() {
            break;
        }
    }
    let runs = diary(folder, 0)
        .into_iter()
        .filter(|(what, _)| what == "resumed")
        .count();
    assert!(runs >= 3, "killed too early to see anything: {moments:?}");
    assert_unbroken(folder);
}

#[test]
fn a_second_trainer_is_told_of_the_first() {
    let folder = Folder::new("two-processes");
    let folder = folder.path();
    let others_come = {
        let folder = folder.to_owned();
        move |_: &mut Session<'_, Net>| {
            // All at once, and each sees a snapshot that is being worked on from.
            for mut child in [(); 3].map(|()| start(&folder)) {
                assert!(child.wait()?.success(), "it died");
            }
            Ok(())
        }
    };
    let others_come = Callback::new("others_come", Trigger::At(vec![20, 21]), others_come);
    let mut first = trainer(folder).extend(others_come);
    first.run().expect("nobody disturbs it");
    let refused = ("refused".to_owned(), u64::from(std::process::id()));
    let lines = diary(folder, 0);
    assert_eq!(
        lines.iter().filter(|line| **line == refused).count(),
        6,
        "{lines:?}"
    );
    assert!(lines.iter().all(|(what, _)| what != "step"), "{lines:?}");
    assert_unbroken(folder);
}

#[cfg(unix)]
#[test]
fn an_interrupted_training_ends_with_a_snapshot() {
    let folder = Folder::new("interrupted");
    let folder = folder.path();
    for _ in 0..2 {
        let written = diary(folder, 0).len();
        let mut child = start(folder);
        // It listens once it has made steps.
        while !diary(folder, written)
            .iter()
            .any(|(what, _)| what == "step")
        {
            std::thread::sleep(Duration::from_millis(2));
            assert!(
                child.try_wait().expect("it runs").is_none(),
                "it ended early"
            );
        }
        let pid = child.id().to_string();
        let status = Command::new("kill")
            .args(["-INT", &pid])
            .status()
            .expect("kill is there");
        assert!(status.success());
        assert!(child.wait().expect("it ends").success());
        let lines = diary(folder, written);
        let (what, at) = lines.last().expect("lines");
        assert_eq!(what, "interrupted");
        assert_eq!(lines[lines.len() - 2], ("step".to_owned(), *at));
        assert!(folder.join(format!("snapshot_{at:08}.npz")).exists());
    }
    assert!(start(folder).wait().expect("it ends").success());
    assert_unbroken(folder);
}
