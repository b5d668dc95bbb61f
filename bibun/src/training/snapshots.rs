//! Snapshots: everything, in files.

use std::fs;
use std::path::{Path, PathBuf};

use super::{TrainingError, Trigger};
use crate::serializers::{FileError, State, load_snapshot, save_snapshot};

/// When snapshots are made, and how many are kept.
///
/// A snapshot has everything: parameters, which of them are frozen, buffers, optimizer, place in the
/// data, random numbers, log, extensions. Training that is resumed from one goes on bit for bit as if it had never
/// stopped. It is an `.npz` file that NumPy can open; it appears whole or not at all and has a
/// checksum of all that is in it.
#[derive(Debug)]
pub struct Snapshots {
    pub(super) trigger: Trigger,
    keep: usize,
}

impl Snapshots {
    /// A snapshot whenever it is due, and at the end; the last two are kept.
    pub fn every(trigger: Trigger) -> Self {
        Self { trigger, keep: 2 }
    }

    /// Keeps so many of the newest, at least one.
    #[must_use]
    pub fn keep(mut self, count: usize) -> Self {
        self.keep = count.max(1);
        self
    }

    /// Writes a snapshot, and takes away those that are too old.
    pub(super) fn save(
        &self,
        folder: &Path,
        iteration: u64,
        state: &State,
    ) -> Result<(), TrainingError> {
        let file = folder.join(format!("snapshot_{iteration:08}.npz"));
        save_snapshot(&file, state)?;
        for (_, old) in found(folder)?.into_iter().skip(self.keep) {
            fs::remove_file(&old).map_err(TrainingError::io(&old))?;
        }
        Ok(())
    }
}

/// The snapshots in a folder with their iterations, the newest first; none if there is no folder.
pub(super) fn found(folder: &Path) -> Result<Vec<(u64, PathBuf)>, TrainingError> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(TrainingError::io(folder))? {
        let path = entry.map_err(TrainingError::io(folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = name
            .strip_prefix("snapshot_")
            .and_then(|rest| rest.strip_suffix(".npz"));
        if let Some(iteration) = number.and_then(|number| number.parse().ok()) {
            found.push((iteration, path));
        }
    }
    found.sort();
    found.reverse();
    Ok(found)
}

/// Takes away what a killed process was writing.
pub(super) fn clear_unfinished(folder: &Path) -> Result<(), TrainingError> {
    for entry in fs::read_dir(folder).map_err(TrainingError::io(folder))? {
        let path = entry.map_err(TrainingError::io(folder))?.path();
        if is_unfinished(&path.file_name().unwrap_or_default().to_string_lossy()) {
            fs::remove_file(&path).map_err(TrainingError::io(&path))?;
        }
    }
    Ok(())
}

/// Whether a file is called as those are that `write_whole` has not finished:
/// `NAME.PROCESS-NUMBER.part`.
fn is_unfinished(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = name
        .strip_suffix(".part")
        .and_then(|rest| rest.rsplit_once('.'));
    let numbers = numbers.and_then(|(_, numbers)| numbers.split_once('-'));
    numbers.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

/// The newest snapshot that can be read, and those that cannot with what is wrong with them.
#[derive(Debug)]
pub(super) struct Newest {
    pub(super) snapshot: Option<(PathBuf, State)>,
    pub(super) damaged: Vec<FileError>,
}

pub(super) fn newest(folder: &Path) -> Result<Newest, TrainingError> {
    let mut damaged = Vec::new();
    for (_, file) in found(folder)? {
        match load_snapshot(&file) {
            Ok(state) => {
                let snapshot = Some((file, state));
                return Ok(Newest { snapshot, damaged });
            }
            Err(error) => damaged.push(error),
        }
    }
    Ok(Newest {
        snapshot: None,
        damaged,
    })
}

#[cfg(test)]
mod tests {
    use super::is_unfinished;

    #[test]
    fn only_files_of_ours_are_taken_away() {
        assert!(is_unfinished("snapshot_00000012.npz.4711-0.part"));
        assert!(is_unfinished("best.npz.1-22.part"));
        for other in [
            "snapshot_00000012.npz",
            "song.part",
            "a.1-x.part",
            "a.-1.part",
            "notes.1-2",
        ] {
            assert!(!is_unfinished(other), "{other}");
        }
    }
}
