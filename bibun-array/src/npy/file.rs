//! Files in general: their errors, and writing a file whole or not at all.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// An error of reading or writing a file.
///
/// ```
/// use bibun_array::{Array, FileError};
/// let missing = Array::read_npy("no/such/file.npy");
/// assert!(matches!(missing, Err(FileError::Io { .. })));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum FileError {
    /// The operating system reports an error.
    Io {
        /// The file; empty if only bytes were read or written.
        file: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The content is not as expected.
    Format {
        /// The file; empty if only bytes were read or written.
        file: PathBuf,
        /// The array in it, if the file holds several.
        member: Option<String>,
        /// What was found and what was expected.
        what: String,
    },
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Format { .. } => None,
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { file, source } => write!(f, "{}{source}", before(file, None)),
            Self::Format { file, member, what } => {
                write!(f, "{}{what}", before(file, member.as_deref()))
            }
        }
    }
}

/// The beginning of a message.
fn before(file: &Path, member: Option<&str>) -> String {
    let file = file.display().to_string();
    let member = member.map(|member| format!("array `{member}`"));
    let places: Vec<String> = (!file.is_empty())
        .then_some(file)
        .into_iter()
        .chain(member)
        .collect();
    match places.is_empty() {
        true => String::new(),
        false => places.join(", ") + ": ",
    }
}

impl FileError {
    /// Creates an error of content that is not what it should be, in a file that is not named yet.
    ///
    /// ```
    /// use bibun_array::FileError;
    /// let error = FileError::format("3 columns, expected 4");
    /// assert_eq!(error.to_string(), "3 columns, expected 4");
    /// assert_eq!(error.in_file("table.csv").to_string(), "table.csv: 3 columns, expected 4");
    /// ```
    pub fn format(what: impl Into<String>) -> Self {
        Self::Format {
            file: PathBuf::new(),
            member: None,
            what: what.into(),
        }
    }

    /// Returns the error with the name of the file, unless it already has one.
    #[must_use]
    pub fn in_file(mut self, path: impl AsRef<Path>) -> Self {
        let (Self::Io { file, .. } | Self::Format { file, .. }) = &mut self;
        if file.as_os_str().is_empty() {
            *file = path.as_ref().to_owned();
        }
        self
    }

    #[cfg(feature = "npz")]
    pub(super) fn in_member(mut self, name: &str) -> Self {
        if let Self::Format { member, .. } = &mut self {
            member.get_or_insert_with(|| name.to_owned());
        }
        self
    }
}

impl From<io::Error> for FileError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::format("the data end early"),
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                Self::format(error.to_string())
            }
            _ => Self::Io {
                file: PathBuf::new(),
                source: error,
            },
        }
    }
}

#[cfg(feature = "npz")]
impl From<zip::result::ZipError> for FileError {
    fn from(error: zip::result::ZipError) -> Self {
        match error {
            zip::result::ZipError::Io(error) => error.into(),
            other => Self::format(format!("{other}, expected a zip archive of .npy files")),
        }
    }
}

/// Writes a file that appears whole or not at all, whatever happens in between: it is written next
/// to `path` under a name that ends in `.part`, forced to the disk, and then renamed, over any
/// existing file. A symbolic link stays, and the file that it leads to is replaced. When this function returns, the new
/// file survives a loss of power. If the process is killed before, a `.part` file may be left behind, which [`remove_unfinished`] removes.
///
/// # Errors
/// Returns the errors of `write`, and an error if the file cannot be written, or if there is something else in its place,
/// such as a device. An existing file is then unchanged.
///
/// ```
/// use std::io::Write;
/// use bibun_array::{write_whole, FileError};
/// # let folder = std::env::temp_dir().join(format!("bibun-write-whole-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let file = folder.join("log.txt");
/// write_whole(&file, |file| Ok(writeln!(file, "one line")?))?;
/// let failed = write_whole(&file, |file| {
///     writeln!(file, "half")?;
///     Err(FileError::format("no more"))
/// });
/// assert!(failed.is_err());
/// assert_eq!(std::fs::read_to_string(&file)?, "one line\n");
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write_whole(
    path: impl AsRef<Path>,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), FileError>,
) -> Result<(), FileError> {
    let mut write = Some(write);
    write_beside(path.as_ref(), &mut |file| {
        let write = write.take().expect("a file is written once");
        write(file)
    })
}

fn write_beside(
    path: &Path,
    write: &mut dyn FnMut(&mut BufWriter<File>) -> Result<(), FileError>,
) -> Result<(), FileError> {
    let whole = place_of(path).and_then(|path| write_in(&path, write));
    whole.map_err(|error| error.in_file(path))
}

/// Returns the file that a path leads to, which is a plain one or does not exist.
fn place_of(path: &Path) -> Result<PathBuf, FileError> {
    let Ok(found) = fs::symlink_metadata(path) else {
        return Ok(path.to_owned());
    };
    let place = match found.is_symlink() {
        true => fs::canonicalize(path)?,
        false => path.to_owned(),
    };
    match fs::metadata(&place)?.is_file() {
        true => Ok(place),
        false => Err(io::Error::other("there is something in its place that is no file").into()),
    }
}

fn write_in(
    path: &Path,
    write: &mut dyn FnMut(&mut BufWriter<File>) -> Result<(), FileError>,
) -> Result<(), FileError> {
    create_beside(path).and_then(|(temporary, file)| {
        let mut file = BufWriter::new(file);
        let written = write(&mut file).and_then(|()| {
            let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.sync_all()?;
            // The file is closed, and thereby unlocked, once it has its name.
            Ok(fs::rename(&temporary, path)?)
        });
        if written.is_err() {
            // The first error is the one to report.
            let _ = fs::remove_file(&temporary);
        }
        written.and_then(|()| Ok(sync_folder(path)?))
    })
}

/// A new file in the same folder, locked while it is open.
fn create_beside(path: &Path) -> Result<(PathBuf, File), FileError> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let Some(name) = path.file_name() else {
        return Err(FileError::format("is not the name of a file"));
    };
    loop {
        let mut temporary = name.to_owned();
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        temporary.push(format!(".{}-{count}.part", std::process::id()));
        let temporary = path.with_file_name(temporary);
        let file = match File::create_new(&temporary) {
            // Left by a process that was killed and had the same number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            file => file?,
        };
        // Where files cannot be locked, `remove_unfinished` leaves them alone.
        let _ = file.lock();
        // It may have been taken for a leftover before it was locked.
        if temporary.try_exists()? {
            return Ok((temporary, file));
        }
    }
}

/// Removes the files that processes killed in [`write_whole`] have left in a folder. A file that is
/// being written, by any process, stays.
///
/// # Errors
/// Returns an error if the folder cannot be read, or a file cannot be removed.
///
/// ```
/// use bibun_array::{FileError, remove_unfinished, write_whole};
/// # let folder = std::env::temp_dir().join(format!("bibun-unfinished-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let left = folder.join("log.txt.4711-0.part");
/// std::fs::write(&left, "hal")?;
/// write_whole(folder.join("other.txt"), |_| Ok(remove_unfinished(&folder)?))?;
/// assert!(!left.exists() && folder.join("other.txt").exists());
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn remove_unfinished(folder: impl AsRef<Path>) -> Result<(), FileError> {
    let folder = folder.as_ref();
    let in_folder = |error: io::Error| FileError::from(error).in_file(folder);
    for entry in fs::read_dir(folder).map_err(in_folder)? {
        let path = entry.map_err(in_folder)?.path();
        if !is_unfinished(&path.file_name().unwrap_or_default().to_string_lossy()) {
            continue;
        }
        let file = OpenOptions::new().read(true).write(true).open(&path);
        // The lock is held until the file is gone.
        if let Ok(file) = file
            && file.try_lock().is_ok()
        {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(FileError::from(error).in_file(path));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether a name is that of a file that [`write_whole`] has not finished:
/// `NAME.PROCESS-NUMBER.part`.
fn is_unfinished(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = name
        .strip_suffix(".part")
        .and_then(|rest| rest.rsplit_once('.'));
    let numbers = numbers.and_then(|(_, numbers)| numbers.split_once('-'));
    numbers.is_some_and(|(process, number)| is_number(process) && is_number(number))
}

/// Forces the names in the folder of a file to the disk.
fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(unix) {
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    }
    Ok(())
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
