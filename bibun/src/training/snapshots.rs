//! Snapshots: the complete state of training, in files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{TrainingError, Trigger};
use crate::serializers::{FileError, State, load_snapshot, save_snapshot};

/// The times at which snapshots are made, and the number of them that are kept.
///
/// A snapshot contains everything: parameters, which of them are frozen, buffers, optimizer,
/// position in the data, random numbers, log, extensions. Training that is resumed from one
/// continues bit for bit as if it had not stopped. A snapshot is an `.npz` file that NumPy can
/// open; it appears complete or not at all and has a checksum of its contents.
///
/// Only snapshots of the present line are ever removed, the oldest first: those that this training
/// has written or was resumed from, and older ones that could be read when it was resumed.
/// Snapshots that are damaged, or of later steps than the one from which training was resumed, are
/// not counted and are set aside; see [`Trainer::run`](super::Trainer::run).
#[derive(Debug)]
pub struct Snapshots {
    pub(super) trigger: Trigger,
    keep: usize,
}

impl Snapshots {
    /// Creates the settings for a snapshot whenever the trigger is due, and at the end of training. The
    /// last two are kept.
    ///
    /// # Panics
    /// Panics if a period in epochs is not more than 0.
    #[track_caller]
    pub fn every(trigger: Trigger) -> Self {
        trigger.expect("every");
        Self { trigger, keep: 2 }
    }

    /// Sets the number of newest snapshots to keep, at least one. Defaults to two.
    #[must_use]
    pub fn keep(mut self, count: usize) -> Self {
        self.keep = count.max(1);
        self
    }

    /// Writes the next snapshot of a line, and removes the oldest of the line beyond the number to
    /// keep.
    pub(super) fn save(
        &self,
        folder: &Path,
        line: &mut Line,
        iteration: u64,
        state: &State,
    ) -> Result<(), TrainingError> {
        save_snapshot(folder.join(name(iteration)), state)?;
        line.kept.push(iteration);
        while line.kept.len() > self.keep {
            let old = folder.join(name(line.kept[0]));
            match fs::remove_file(&old) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(TrainingError::io(old)(error));
                }
                _ => line.kept.remove(0),
            };
        }
        Ok(())
    }
}

/// Returns the name of the snapshot after this many steps.
pub(super) fn name(iteration: u64) -> String {
    format!("snapshot_{iteration:08}.npz")
}

/// Returns the steps of the snapshots in a folder, the latest first; none if there is no folder.
fn found(folder: &Path) -> Result<Vec<u64>, TrainingError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(TrainingError::io(folder))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let file = entry.map_err(TrainingError::io(folder))?.file_name();
        let file = file.to_string_lossy();
        let number = file
            .strip_prefix("snapshot_")
            .and_then(|rest| rest.strip_suffix(".npz"));
        let iteration = number.and_then(|number| number.parse().ok());
        found.extend(iteration.filter(|&iteration| name(iteration) == file));
    }
    found.sort_unstable();
    found.reverse();
    Ok(found)
}

/// The snapshots in a folder that a training knows, by their steps.
#[derive(Default, Debug)]
pub(super) struct Line {
    /// The snapshots that the training continues from, the oldest first. All of them could be read.
    kept: Vec<u64>,
    /// The snapshots that are damaged, or of later steps, the latest first.
    strange: Vec<u64>,
}

impl Line {
    /// Returns whether the snapshot after this many steps is in the line.
    pub(super) fn has(&self, iteration: u64) -> bool {
        self.kept.contains(&iteration)
    }

    /// Returns the snapshots that are to be set aside, the latest first.
    pub(super) fn strange(&self) -> impl Iterator<Item = u64> + '_ {
        self.strange.iter().copied()
    }

    /// Records that no snapshots are left to be set aside.
    pub(super) fn forget_strange(&mut self) {
        self.strange.clear();
    }

    /// Compares the line with the present contents of the folder. Another training may have run
    /// there since the folder was examined.
    pub(super) fn check(&mut self, folder: &Path) -> Result<(), TrainingError> {
        let found = found(folder)?;
        let is_known =
            |iteration| self.kept.contains(iteration) || self.strange.contains(iteration);
        match found.iter().find(|iteration| !is_known(iteration)) {
            Some(&iteration) => Err(TrainingError::OtherSnapshots {
                folder: folder.to_owned(),
                snapshot: name(iteration).into(),
            }),
            None => {
                self.kept.retain(|iteration| found.contains(iteration));
                Ok(())
            }
        }
    }
}

/// The snapshots found in a folder.
#[derive(Default, Debug)]
pub(super) struct Examined {
    /// The newest of those that were read successfully.
    pub(super) newest: Option<(PathBuf, State)>,
    /// The errors of those that cannot be read.
    pub(super) damaged: Vec<FileError>,
    /// The snapshots of later steps.
    pub(super) later: Vec<PathBuf>,
    pub(super) line: Line,
}

/// Reads the snapshots in a folder, for a training that continues from one of them: from the newest
/// that can be read, or from that of a given step, which has been read already.
pub(super) fn examine(folder: &Path, from: Option<u64>) -> Result<Examined, TrainingError> {
    let mut examined = Examined::default();
    for iteration in found(folder)? {
        let file = folder.join(name(iteration));
        if from == Some(iteration) {
            examined.line.kept.push(iteration);
        } else if from.is_some_and(|from| iteration > from) {
            examined.line.strange.push(iteration);
            examined.later.push(file);
        } else {
            match load(&file, iteration) {
                Ok(state) => {
                    examined.line.kept.push(iteration);
                    examined.newest.get_or_insert((file, state));
                }
                // Another training has removed it, after writing a newer one: begin again.
                Err(_) if is_gone(&file) => return examine(folder, from),
                Err(error) => {
                    examined.line.strange.push(iteration);
                    examined.damaged.push(error);
                }
            }
        }
    }
    examined.line.kept.reverse();
    Ok(examined)
}

fn is_gone(file: &Path) -> bool {
    fs::symlink_metadata(file).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn load(file: &Path, iteration: u64) -> Result<State, FileError> {
    let state = load_snapshot(file)?;
    match state.count("clock/iteration") {
        Ok(found) if found != iteration => {
            let what = format!("is the snapshot of step {found} under another name");
            Err(FileError::format(what).in_file(file))
        }
        _ => Ok(state),
    }
}
