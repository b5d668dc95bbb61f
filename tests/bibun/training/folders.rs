//! What training does in its folder: lines that are given up, damaged snapshots, others who train
//! there, and folders that go away.

use std::cell::RefCell;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process;
use std::rc::Rc;

use bibun::optimizers::Adam;
use bibun::serializers::{FileError, load_npz, load_snapshot, write_whole};
use bibun::training::{
    Callback, Evaluator, Goal, KeepBest, Log, Outcome, Plot, Session, Snapshots, Trainer,
    TrainingError, Trigger, Until,
};

use super::points::{Folder, Net, Points, bits, loss, told};

fn trainer(folder: &Path, steps: u64, keep: usize) -> Trainer<Net, Points> {
    Trainer::new(Net::new(0), Points::new(100, 32), Adam::new(0.05), loss)
        .until(Until::Iterations(steps))
        .folder(folder)
        .log_every(Trigger::Iterations(1))
        .snapshots(Snapshots::every(Trigger::Iterations(1)).keep(keep))
        .extend(Evaluator::new("test", Points::new(20, 10), loss).every(Trigger::Iterations(1)))
        .extend(KeepBest::new("models/best.npz", "test/loss", Goal::Lowest))
        .extend(Plot::new("plots/loss.svg", ["loss"]))
}

fn unbroken(steps: u64) -> (Folder, Trainer<Net, Points>) {
    let folder = Folder::new("unbroken");
    let mut trainer = trainer(folder.path(), steps, 2);
    trainer.run().expect("no trouble");
    (folder, trainer)
}

/// The steps of the snapshots in a folder, in order.
fn steps(folder: &Path) -> Vec<u64> {
    let entries = fs::read_dir(folder).expect("a folder");
    let step = |entry: std::io::Result<fs::DirEntry>| {
        let name = entry.expect("an entry").file_name();
        let name = name.to_str()?.strip_prefix("snapshot_")?;
        name.strip_suffix(".npz")?.parse().ok()
    };
    let mut steps: Vec<u64> = entries.filter_map(step).collect();
    steps.sort_unstable();
    steps
}

fn snapshot(folder: &Path, step: u64) -> std::path::PathBuf {
    folder.join(format!("snapshot_{step:08}.npz"))
}

#[test]
fn the_line_that_is_given_up_is_set_aside() {
    let folder = Folder::new("given-up");
    let path = folder.path();
    trainer(path, 12, 100).run().expect("no trouble");
    fs::write(path.join("notes.txt"), "mine").expect("written");
    let files = ["log.jsonl", "plots/loss.svg", "models/best.npz"];
    let before = files.map(|file| fs::read(path.join(file)).expect("a file"));

    let mut second = trainer(path, 8, 3);
    let resumed = second.resume_from(snapshot(path, 5)).expect("a snapshot");
    assert_eq!(resumed.snapshot, Some(snapshot(path, 5)));
    assert_eq!(resumed.abandoned.len(), 7);
    assert!(resumed.to_string().contains("abandoned"), "{resumed}");
    assert_eq!(
        steps(path),
        (1..=12).collect::<Vec<_>>(),
        "only `run` writes"
    );
    assert_eq!(second.run().expect("no trouble"), Outcome::Finished);

    let (whole, other) = unbroken(8);
    assert_eq!(bits(second.model()), bits(other.model()));
    assert_eq!(told(second.log()), told(other.log()));
    let read = Log::read(path.join("log.jsonl")).expect("a log");
    assert_eq!(told(&read), told(other.log()));
    let best = |path: &Path| {
        load_npz(path.join("models/best.npz"))
            .expect("the best")
            .checksum()
    };
    assert_eq!(best(path), best(whole.path()));
    assert_eq!(
        steps(path),
        [6, 7, 8],
        "the oldest of the line are removed, no others"
    );

    let aside = path.join("set_aside_1");
    assert_eq!(steps(&aside), (6..=12).collect::<Vec<_>>());
    assert!(before == files.map(|file| fs::read(aside.join(file)).expect("a file")));
    assert_eq!(
        fs::read_to_string(path.join("notes.txt")).expect("notes"),
        "mine"
    );

    // Once more: nothing of the first line is lost.
    let mut third = trainer(path, 8, 3);
    third.resume_from(snapshot(path, 7)).expect("a snapshot");
    third.run().expect("no trouble");
    assert_eq!(bits(third.model()), bits(other.model()));
    assert_eq!(steps(&path.join("set_aside_2")), [8]);
    assert_eq!(steps(&aside).len(), 7);
    assert_eq!(steps(path), [6, 7, 8]);
}

#[test]
fn the_best_model_is_in_the_snapshot() {
    let (whole, other) = unbroken(12);
    // The best one was early, and the file is lost or of another line.
    let folder = Folder::new("best");
    trainer(folder.path(), 9, 100).run().expect("no trouble");
    fs::write(folder.path().join("models/best.npz"), "another").expect("written");
    let elsewhere = Folder::new("best-elsewhere");
    let mut moved = trainer(elsewhere.path(), 12, 2);
    moved
        .resume_from(snapshot(folder.path(), 9))
        .expect("a snapshot");
    moved.run().expect("no trouble");
    let mut same = trainer(folder.path(), 12, 2);
    same.resume().expect("a snapshot");
    same.run().expect("no trouble");
    let best = |folder: &Folder| load_npz(folder.path().join("models/best.npz")).expect("the best");
    for (folder, trainer) in [(&elsewhere, &moved), (&folder, &same)] {
        assert_eq!(bits(trainer.model()), bits(other.model()));
        assert_eq!(best(folder).checksum(), best(&whole).checksum());
    }
    // Also where nothing is left to be done.
    let only = Folder::new("best-only");
    let mut finished = trainer(only.path(), 9, 2);
    finished
        .resume_from(snapshot(folder.path(), 11))
        .expect("a snapshot");
    finished.run().expect("no trouble");
    assert_eq!(best(&only).checksum(), best(&unbroken(11).0).checksum());
}

#[test]
fn damaged_snapshots_of_later_steps_take_no_places() {
    for keep in [1, 2, 3] {
        for before in [0, 4] {
            let folder = Folder::new("later-damaged");
            let path = folder.path();
            fs::create_dir_all(path).expect("a folder");
            if before > 0 {
                trainer(path, before, keep).run().expect("no trouble");
            }
            for step in [900, 903] {
                fs::write(snapshot(path, step), "rubbish").expect("written");
            }
            let mut second = trainer(path, 8, keep);
            let resumed = second.resume().expect("a folder");
            assert_eq!(resumed.damaged.len(), 2);
            assert!(resumed.to_string().contains("passed over"), "{resumed}");
            assert_eq!(second.clock().iteration(), before);
            assert_eq!(second.run().expect("no trouble"), Outcome::Finished);

            let last = 8 + 1 - keep as u64;
            assert_eq!(steps(path), (last..=8).collect::<Vec<_>>());
            for step in steps(path) {
                load_snapshot(snapshot(path, step)).expect("whole");
            }
            let aside = path.join("set_aside_1");
            assert_eq!(steps(&aside), [900, 903]);
            assert_eq!(aside.join("log.jsonl").exists(), before > 0);
            let (_whole, other) = unbroken(8);
            assert_eq!(bits(second.model()), bits(other.model()));
        }
    }
}

#[test]
fn damaged_snapshots_of_earlier_steps_take_no_places() {
    let folder = Folder::new("earlier-damaged");
    let path = folder.path();
    trainer(path, 6, 4).run().expect("no trouble");
    assert_eq!(steps(path), [3, 4, 5, 6]);
    fs::write(snapshot(path, 5), "rubbish").expect("written");
    let log = fs::read(path.join("log.jsonl")).expect("a log");
    let mut second = trainer(path, 7, 4);
    let resumed = second.resume().expect("a folder");
    assert_eq!(resumed.damaged.len(), 1);
    assert_eq!(second.clock().iteration(), 6);
    second.run().expect("no trouble");
    assert_eq!(steps(path), [3, 4, 6, 7]);
    assert_eq!(steps(&path.join("set_aside_1")), [5]);
    // Training did not go back: its log is where it was.
    assert!(!path.join("set_aside_1").join("log.jsonl").exists());
    assert!(
        fs::read(path.join("log.jsonl"))
            .expect("a log")
            .starts_with(&log)
    );
}

#[test]
fn a_second_training_without_snapshots_sets_the_log_of_the_first_aside() {
    let folder = Folder::new("again");
    let path = folder.path();
    let plain = |steps: u64| {
        Trainer::new(Net::new(0), Points::new(100, 32), Adam::new(0.05), loss)
            .until(Until::Iterations(steps))
            .folder(path)
            .log_every(Trigger::Iterations(1))
            .extend(Plot::new("plots/loss.svg", ["loss"]))
    };
    let read = |path: &Path| fs::read(path.join("log.jsonl")).expect("a log");
    let mut first = plain(3);
    first.run().expect("no trouble");
    // The same training goes on.
    first = first.until(Until::Iterations(5));
    first.run().expect("no trouble");
    assert!(!path.join("set_aside_1").exists());
    let log = read(path);
    assert_eq!(
        Log::read(path.join("log.jsonl"))
            .expect("a log")
            .entries()
            .len(),
        5
    );

    let mut second = plain(2);
    assert!(second.resume().expect("a folder").snapshot.is_none());
    second.run().expect("no trouble");
    assert_eq!(
        Log::read(path.join("log.jsonl"))
            .expect("a log")
            .entries()
            .len(),
        2
    );
    let aside = path.join("set_aside_1");
    assert_eq!(read(&aside), log);
    assert!(aside.join("plots/loss.svg").exists() && path.join("plots/loss.svg").exists());
    // A log without lines is none, but a picture stays one.
    fs::write(path.join("log.jsonl"), "").expect("written");
    plain(1).run().expect("no trouble");
    let aside = path.join("set_aside_2");
    assert!(aside.join("plots/loss.svg").exists() && !aside.join("log.jsonl").exists());
}

#[test]
fn a_snapshot_under_another_name_is_passed_over() {
    let folder = Folder::new("renamed");
    let path = folder.path();
    trainer(path, 5, 3).run().expect("no trouble");
    fs::copy(snapshot(path, 3), snapshot(path, 9)).expect("copied");
    let mut second = trainer(path, 6, 3);
    let resumed = second.resume().expect("a folder");
    let said = resumed.damaged[0].to_string();
    assert!(
        said.ends_with("snapshot_00000009.npz: is the snapshot of step 3 under another name"),
        "{said}"
    );
    assert_eq!(second.clock().iteration(), 5);
}

#[test]
fn a_snapshot_from_elsewhere_begins_a_new_folder() {
    let folder = Folder::new("from");
    trainer(folder.path(), 5, 2).run().expect("no trouble");
    let other = Folder::new("to");
    trainer(other.path(), 3, 2).run().expect("no trouble");
    let before = other.files();
    let mut second = trainer(other.path(), 7, 2);
    second
        .resume_from(snapshot(folder.path(), 5))
        .expect("a snapshot");
    let error = second.run().expect_err("there is another line");
    assert!(
        matches!(error, TrainingError::OtherSnapshots { .. }),
        "{error}"
    );
    assert_eq!(other.files(), before);

    // From its first moment on there is something to be resumed from.
    let new = Folder::new("new");
    let mut third = trainer(new.path(), 5, 2);
    third
        .resume_from(snapshot(folder.path(), 5))
        .expect("a snapshot");
    third.run().expect("nothing to do");
    assert_eq!(steps(new.path()), [5]);
    load_snapshot(snapshot(new.path(), 5)).expect("whole");
}

#[test]
fn a_trainer_resumed_before_another_trained_is_refused() {
    let folder = Folder::new("meanwhile");
    let path = folder.path();
    trainer(path, 3, 2).run().expect("no trouble");
    let mut early = trainer(path, 9, 2);
    early.resume().expect("a snapshot");
    let mut other = trainer(path, 6, 2);
    other.resume().expect("a snapshot");
    other.run().expect("no trouble");
    let error = early.run().expect_err("it stands at an older snapshot");
    let TrainingError::OtherSnapshots { snapshot, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!(snapshot, Path::new("snapshot_00000006.npz"));
    assert_eq!(steps(path), [5, 6]);
    early.resume().expect("a newer one");
    early.run().expect("no trouble");
    assert_eq!(bits(early.model()), bits(unbroken(9).1.model()));
}

#[test]
fn nobody_else_trains_in_the_folder() {
    let folder = Folder::new("two");
    let path = folder.path().to_owned();
    let said = Rc::new(RefCell::new(Vec::new()));
    let (inner_path, inner_said) = (path.clone(), Rc::clone(&said));
    let intruder = move |session: &mut Session<'_, Net>| {
        let mut other = trainer(&inner_path, 9, 2);
        // To look is not forbidden.
        let resumed = other.resume()?;
        assert_eq!(resumed.snapshot.is_some(), session.clock().iteration() > 1);
        inner_said
            .borrow_mut()
            .push(other.run().expect_err("it is taken"));
        Ok(())
    };
    let intruder = Callback::new("intruder", Trigger::Iterations(1), intruder);
    let mut first = trainer(&path, 3, 2).extend(intruder);
    first.run().expect("no trouble");
    assert_eq!(said.borrow().len(), 3);
    for error in said.borrow().iter() {
        let TrainingError::FolderInUse { folder, process } = error else {
            panic!("{error}")
        };
        assert_eq!((folder, *process), (&path, Some(process::id())));
        let text = error.to_string();
        assert!(
            text.contains(path.to_str().expect("words")) && text.contains("this process"),
            "{text}"
        );
    }
    // It was let go of.
    let mut second = trainer(&path, 4, 2);
    second.resume().expect("a snapshot");
    second.run().expect("nobody is there");
    assert_eq!(bits(second.model()), bits(unbroken(4).1.model()));
}

#[test]
fn a_panic_lets_go_of_the_folder() {
    let folder = Folder::new("panic");
    let path = folder.path();
    let fall = Callback::new(
        "fall",
        Trigger::Iterations(2),
        |_: &mut Session<'_, Net>| panic!("it falls"),
    );
    let mut first = trainer(path, 3, 2).extend(fall);
    catch_unwind(AssertUnwindSafe(|| first.run())).expect_err("it falls");
    let mut second = trainer(path, 3, 2);
    second.resume().expect("a snapshot");
    second
        .run()
        .expect("nobody is there, though the first is still around");
    drop(first);
}

#[test]
fn files_that_others_write_stay() {
    let folder = Folder::new("others");
    let path = folder.path();
    fs::create_dir_all(path).expect("a folder");
    let left = path.join("snapshot_00000002.npz.4711-3.part");
    fs::write(&left, "what a killed process has left").expect("written");
    write_whole(path.join("large.bin"), |file| {
        use std::io::Write;
        file.write_all(b"half")?;
        // Meanwhile a training begins and ends.
        trainer(path, 2, 2).run().expect("no trouble");
        assert!(!left.exists());
        Ok(file.write_all(b" and half")?)
    })
    .expect("written");
    assert_eq!(
        fs::read(path.join("large.bin")).expect("a file"),
        b"half and half"
    );
}

/// A training that loses its folder in the fifth step: what remains is what `lose` leaves.
fn loses(folder: &Folder, lose: impl Fn(&Path) + 'static) -> (Trainer<Net, Points>, TrainingError) {
    let path = folder.path().to_owned();
    let lose = Callback::new(
        "lose",
        Trigger::At(vec![5]),
        move |_: &mut Session<'_, Net>| {
            lose(&path);
            Ok(())
        },
    );
    let mut trainer = trainer(folder.path(), 8, 2).extend(lose);
    let error = trainer.run().expect_err("the folder is gone");
    (trainer, error)
}

#[test]
fn a_folder_that_goes_away_is_an_error() {
    let remove = |path: &Path| fs::remove_dir_all(path).expect("removed");
    let folder = Folder::new("gone");
    let (_, error) = loses(&folder, remove);
    assert!(
        matches!(&error, TrainingError::FolderGone { folder: gone } if gone == folder.path()),
        "{error}"
    );
    assert!(!folder.path().exists());

    // Another training has begun in its place: that one's files are left alone.
    let replace = move |path: &Path| {
        remove(path);
        let mut other = trainer(path, 1, 2);
        other.run().expect("no trouble");
    };
    let folder = Folder::new("replaced");
    let (_, error) = loses(&folder, replace);
    assert!(matches!(error, TrainingError::FolderGone { .. }), "{error}");
    assert_eq!(steps(folder.path()), [1]);
}

#[test]
fn a_failed_write_is_repeated_by_the_next_run() {
    // A folder stands where the snapshot is to be.
    let folder = Folder::new("no-room");
    let in_the_way = snapshot(folder.path(), 5).join("in the way");
    let (block, unblock) = (in_the_way.clone(), in_the_way);
    let block = Callback::new(
        "block",
        Trigger::At(vec![4]),
        move |_: &mut Session<'_, Net>| Ok(fs::create_dir_all(&block)?),
    );
    let mut trainer = trainer(folder.path(), 8, 2).extend(block);
    let error = trainer.run().expect_err("it cannot be written");
    let TrainingError::File(FileError::Io { file, .. }) = &error else {
        panic!("{error}")
    };
    assert_eq!(file, &snapshot(folder.path(), 5));
    assert_eq!(steps(folder.path()), [3, 4, 5], "nothing is removed for it");
    fs::remove_dir_all(unblock.parent().expect("a folder")).expect("removed");
    // The step was made, so training stands behind it.
    assert_eq!(trainer.clock().iteration(), 5);
    trainer.run().expect("nothing is in the way");
    assert_eq!(steps(folder.path()), [7, 8]);
    assert_eq!(bits(trainer.model()), bits(unbroken(8).1.model()));
}
