//! States in `.npz` files.

use std::io::{Cursor, Seek, Write};
use std::path::Path;

use bibun_array::{FileError, NpzReader, NpzValue, NpzWriter, write_whole};

use super::{State, Value};

/// The name of the checksum in a snapshot.
const CHECKSUM: &str = "checksum";

impl State {
    /// Returns the bytes of a `.npz` file; see [`save_npz`].
    ///
    /// # Errors
    /// Returns an error if a text ends in a NUL, which NumPy would drop.
    ///
    /// ```
    /// use bibun::serializers::State;
    /// let state: State = [("epoch", 3u64)].into_iter().collect();
    /// let bytes = state.to_npz()?;
    /// assert_eq!(State::from_npz(&bytes)?.count("epoch")?, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_npz(&self) -> Result<Vec<u8>, FileError> {
        in_memory(|bytes| write(self, bytes))
    }

    /// Reads a state from the bytes of a `.npz` file; see [`load_npz`].
    ///
    /// # Errors
    /// Returns an error as [`load_npz`] does.
    pub fn from_npz(bytes: &[u8]) -> Result<Self, FileError> {
        read(NpzReader::new(Cursor::new(bytes))?)
    }

    /// Returns the bytes of a snapshot; see [`save_snapshot`].
    ///
    /// # Errors
    /// Returns an error as [`save_snapshot`] does, except for errors of files.
    pub fn to_snapshot(&self) -> Result<Vec<u8>, FileError> {
        in_memory(|bytes| write_snapshot(self, bytes))
    }

    /// Reads a state from the bytes of a snapshot; see [`load_snapshot`].
    ///
    /// # Errors
    /// Returns an error as [`load_snapshot`] does.
    pub fn from_snapshot(bytes: &[u8]) -> Result<Self, FileError> {
        read_snapshot(NpzReader::new(Cursor::new(bytes))?)
    }
}

/// Saves a state as a `.npz` file, which [`numpy.load`] reads: arrays by name, texts as strings of
/// rank 0.
///
/// Requires the feature `npz`.
///
/// The file appears complete or not at all ([`write_whole`]).
///
/// [`numpy.load`]: https://numpy.org/doc/stable/reference/generated/numpy.load.html
///
/// # Errors
/// Returns an error if the file cannot be written, or a text ends in a NUL, which NumPy would drop.
pub fn save_npz(path: impl AsRef<Path>, state: &State) -> Result<(), FileError> {
    write_whole(path, |file| write(state, file))
}

/// Loads a state from a `.npz` file written by bibun, NumPy or Chainer.
///
/// Requires the feature `npz`.
///
/// Numbers keep their dtype if arrays have it; integers of other types become `i64`. Values other
/// than arrays of numbers and single texts (pickled objects, for example, in a snapshot of a
/// Chainer trainer) are left out.
///
/// # Errors
/// Returns an error if the file cannot be read, is not a `.npz` file or is damaged, or holds an
/// unsigned number that does not fit in `i64`.
pub fn load_npz(path: impl AsRef<Path>) -> Result<State, FileError> {
    read(NpzReader::open(&path)?).map_err(|error| error.in_file(path))
}

/// Saves a state so that any damage is detected: a `.npz` file with one more text in it,
/// `checksum`, which is [`State::checksum`].
///
/// Requires the feature `npz`.
///
/// The file appears complete or not at all, and is on the disk when this function returns
/// ([`write_whole`]).
///
/// ```
/// use bibun::serializers::{load_snapshot, save_snapshot, State};
/// # let folder = std::env::temp_dir().join(format!("bibun-snapshot-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let file = folder.join("snapshot.npz");
/// let state: State = [("epoch", 3u64)].into_iter().collect();
/// save_snapshot(&file, &state)?;
/// assert_eq!(load_snapshot(&file)?.checksum(), state.checksum());
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Returns an error if the file cannot be written, a text ends in a NUL, or a value of the state is
/// called `checksum`.
pub fn save_snapshot(path: impl AsRef<Path>, state: &State) -> Result<(), FileError> {
    write_whole(path, |file| write_snapshot(state, file))
}

/// Loads a state saved by [`save_snapshot`]: exactly that state, or an error.
///
/// # Errors
/// Returns an error if the file cannot be read, is not a snapshot, or is damaged in any way.
pub fn load_snapshot(path: impl AsRef<Path>) -> Result<State, FileError> {
    read_snapshot(NpzReader::open(&path)?).map_err(|error| error.in_file(path))
}

fn in_memory(
    write: impl FnOnce(&mut Cursor<Vec<u8>>) -> Result<(), FileError>,
) -> Result<Vec<u8>, FileError> {
    let mut bytes = Cursor::new(Vec::new());
    write(&mut bytes)?;
    Ok(bytes.into_inner())
}

fn write(state: &State, file: &mut (impl Write + Seek)) -> Result<(), FileError> {
    let mut writer = NpzWriter::new(file);
    for (name, value) in state.iter() {
        match value {
            Value::Array(x) => writer.array(name, x)?,
            Value::Text(text) => writer.text(name, text)?,
        }
    }
    writer.finish()
}

fn read(mut reader: NpzReader<'_>) -> Result<State, FileError> {
    let names: Vec<String> = reader.names().map(str::to_owned).collect();
    let mut state = State::new();
    for name in names {
        match reader.read(&name)? {
            NpzValue::Array(x) => state.insert(name, x),
            NpzValue::Text(text) => state.insert(name, text),
            _ => {}
        }
    }
    Ok(state)
}

fn write_snapshot(state: &State, file: &mut (impl Write + Seek)) -> Result<(), FileError> {
    if state.get(CHECKSUM).is_some() {
        let what = format!("`{CHECKSUM}` is the name of the checksum, and of something else");
        return Err(FileError::format(what));
    }
    let mut whole = state.clone();
    whole.insert(CHECKSUM, state.checksum());
    write(&whole, file)
}

fn read_snapshot(reader: NpzReader<'_>) -> Result<State, FileError> {
    let mut state = read(reader)?;
    let Some(Value::Text(kept)) = state.remove(CHECKSUM) else {
        return Err(FileError::format("is no snapshot: it has no checksum"));
    };
    let found = state.checksum();
    if kept != found {
        let what = format!("is damaged: the checksum is {found}, expected {kept}");
        return Err(FileError::format(what));
    }
    Ok(state)
}
