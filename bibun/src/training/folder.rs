//! The folder of a training, locked while it trains there.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::process;

use super::TrainingError;
use crate::serializers::remove_unfinished;

/// The file that the training in the folder keeps locked. It contains the id of the process.
const LOCK: &str = ".lock";

/// A folder in which no other training runs. The system releases the lock when this is dropped, and
/// when the process dies.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    lock: File,
}

impl Folder {
    /// Creates the folder, if it does not exist, and locks it.
    pub(super) fn open(path: &Path) -> Result<Self, TrainingError> {
        fs::create_dir_all(path).map_err(TrainingError::io(path))?;
        let file = path.join(LOCK);
        let mut options = OpenOptions::new();
        let opened = options.read(true).write(true).create(true).open(&file);
        let mut lock = opened.map_err(TrainingError::io(&file))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let read = lock.read_to_string(&mut text).ok();
                return Err(TrainingError::FolderInUse {
                    folder: path.to_owned(),
                    process: read.and_then(|_| text.trim().parse().ok()),
                });
            }
            // A file system without locks should not prevent training.
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(error)) => return Err(TrainingError::io(file)(error)),
        }
        // The process id is only for the error above.
        let _ = lock
            .set_len(0)
            .and_then(|()| writeln!(lock, "{}", process::id()));
        remove_unfinished(path)?;
        let path = path.to_owned();
        Ok(Self { path, lock })
    }

    /// Returns the path.
    ///
    /// # Errors
    /// Returns an error if the folder is gone, or if another one is in its place, which may belong
    /// to another training.
    pub(super) fn path(&self) -> Result<&Path, TrainingError> {
        match self.is_there() {
            Ok(true) => Ok(&self.path),
            Ok(false) => Err(TrainingError::FolderGone {
                folder: self.path.clone(),
            }),
            Err(error) => Err(TrainingError::io(&self.path)(error)),
        }
    }

    #[cfg(unix)]
    fn is_there(&self) -> io::Result<bool> {
        use std::os::unix::fs::MetadataExt;
        let own = self.lock.metadata()?;
        match fs::metadata(self.path.join(LOCK)) {
            Ok(there) => Ok((there.dev(), there.ino()) == (own.dev(), own.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns whether the folder is still there. On other systems than Unix, it cannot be moved while a
    /// file in it is open.
    #[cfg(not(unix))]
    fn is_there(&self) -> io::Result<bool> {
        self.path.join(LOCK).try_exists()
    }

    /// Moves files into a new folder in this one, `set_aside_1`, `set_aside_2` and so on, in the
    /// given order. Files that do not exist, or are not below this folder, are skipped.
    pub(super) fn set_aside<F: AsRef<Path>>(
        &self,
        files: impl IntoIterator<Item = F>,
    ) -> Result<(), TrainingError> {
        let mut aside = None;
        for file in files {
            let file = file.as_ref();
            let is_below = |part| matches!(part, Component::Normal(_));
            let from = self.path()?.join(file);
            if !file.components().all(is_below) || !from.is_file() {
                continue;
            }
            let aside = match &aside {
                Some(aside) => aside,
                None => aside.insert(self.new_folder()?),
            };
            let to = aside.join(file);
            let folder = to.parent().unwrap_or(aside);
            fs::create_dir_all(folder).map_err(TrainingError::io(folder))?;
            fs::rename(&from, &to).map_err(TrainingError::io(from))?;
        }
        Ok(())
    }

    fn new_folder(&self) -> Result<PathBuf, TrainingError> {
        let mut number = 1;
        loop {
            let folder = self.path.join(format!("set_aside_{number}"));
            match fs::create_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(TrainingError::io(folder)(error)),
                Ok(()) => return Ok(folder),
            }
        }
    }
}
