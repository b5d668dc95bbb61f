//! `.npz` files: zip archives of `.npy` files.

use std::borrow::Borrow;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::text::{read_text, write_text};
use super::{EXPECTED, FileError, read_header, read_numbers, write_array, write_whole};
use crate::Array;

/// A value under a name in a `.npz` file.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum NpzValue {
    /// An array of numbers.
    Array(Array),
    /// A single text: an array of rank 0 of NumPy's dtypes `U` (any characters) or `S` (bytes, here
    /// in UTF-8).
    Text(String),
    /// Anything else, with a description of it; for example pickled objects, which are never run.
    Other(String),
}

/// A reader of a `.npz` file: its names, and the values under them, which are read on demand.
///
/// A member that is not understood is an [`NpzValue::Other`], and does not prevent the others from
/// being read.
///
/// ```
/// use std::io::Cursor;
/// use bibun_array::{Array, NpzReader, NpzValue, NpzWriter};
/// let mut file = Cursor::new(Vec::new());
/// let mut writer = NpzWriter::new(&mut file);
/// writer.array("w", &Array::from([1.0, 2.0]))?;
/// writer.text("title", "naïve")?;
/// writer.finish()?;
/// let mut reader = NpzReader::new(file)?;
/// assert_eq!(reader.names().collect::<Vec<_>>(), ["w", "title"]);
/// let NpzValue::Text(title) = reader.read("title")? else { panic!("a text") };
/// assert_eq!(title, "naïve");
/// # Ok::<(), bibun_array::FileError>(())
/// ```
#[derive(Debug)]
pub struct NpzReader<'a> {
    archive: ZipArchive<Input<'a>>,
    /// The indices of the members in the archive, by name without `.npy`.
    members: IndexMap<String, usize>,
    file: PathBuf,
}

/// The source of an archive: one type, so that the code that unpacks is compiled once.
type Input<'a> = Box<dyn ReadSeek + 'a>;

trait ReadSeek: Read + Seek {}
impl<R: Read + Seek> ReadSeek for R {}

impl fmt::Debug for dyn ReadSeek + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

impl<'a> NpzReader<'a> {
    /// Opens a file and reads its names.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is not a zip archive, if names are repeated
    /// or not in UTF-8, if members overlap, or if they claim to be larger than possible.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = path.as_ref();
        let open = || Self::new(BufReader::new(File::open(path)?));
        let mut reader = open().map_err(|error: FileError| error.in_file(path))?;
        reader.file = path.to_owned();
        Ok(reader)
    }

    /// Reads the names of an open file, or of bytes.
    ///
    /// # Errors
    /// Returns an error as [`open`](NpzReader::open) does.
    pub fn new(reader: impl Read + Seek + 'a) -> Result<Self, FileError> {
        Self::of(Box::new(reader))
    }

    fn of(mut reader: Input<'a>) -> Result<Self, FileError> {
        /// Deflate expands two bits to at most 258 bytes.
        const LARGEST_RATIO: u64 = 1032;
        let length = reader.seek(SeekFrom::End(0))?;
        let mut archive = ZipArchive::new(reader)?;
        if archive.has_duplicate_names() {
            return Err(FileError::format("two members have the same name"));
        }
        if archive.has_overlapping_files()? {
            return Err(FileError::format("members overlap"));
        }
        let mut members = IndexMap::new();
        for i in 0..archive.len() {
            let member = archive.by_index_raw(i)?;
            // The crate would read other bytes as characters of an old code page.
            let name = str::from_utf8(member.name_raw())
                .map_err(|_| FileError::format(format!("the name of member {i} is not UTF-8")))?;
            let name = name.strip_suffix(".npy").unwrap_or(name).to_owned();
            let (size, packed) = (member.size(), member.compressed_size().min(length));
            let ratio = match member.compression() {
                CompressionMethod::Stored => 1,
                _ => LARGEST_RATIO,
            };
            if size > packed.saturating_mul(ratio) {
                let what = format!("claims {size} bytes, more than the archive can hold");
                return Err(FileError::format(what).in_member(&name));
            }
            if let (_, Some(_)) = members.insert_full(name.clone(), i) {
                return Err(FileError::format("the name is there twice").in_member(&name));
            }
        }
        Ok(Self {
            archive,
            members,
            file: PathBuf::new(),
        })
    }

    /// Returns the names, in the order of the file.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.members.keys().map(String::as_str)
    }

    /// Reads the value under a name; see [`Array::read_npy`] for the dtypes.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, has no such name, or is damaged there.
    pub fn read(&mut self, name: &str) -> Result<NpzValue, FileError> {
        let file = &self.file;
        let index = self.members.get(name).copied();
        let mut read = || {
            let missing = || FileError::format("there is no such array");
            read_member(&mut self.archive, index.ok_or_else(missing)?)
        };
        read().map_err(|error| error.in_member(name).in_file(file))
    }
}

fn read_member(archive: &mut ZipArchive<Input<'_>>, index: usize) -> Result<NpzValue, FileError> {
    /// From this number of bytes on, a claim is verified before memory is allocated.
    const LARGE: u64 = 1 << 20;
    let mut member = archive.by_index(index)?;
    if !member.name_raw().ends_with(b".npy") {
        return Ok(NpzValue::Other("is no .npy file".to_owned()));
    }
    let size = member.size();
    if member.compression() != CompressionMethod::Stored && size > LARGE {
        // The real size is only known after unpacking, so the member is unpacked once just for
        // that.
        let unpacked = io::copy(&mut member.take(size), &mut io::sink())?;
        if unpacked < size {
            let what = format!("claims {size} bytes, but unpacks to {unpacked}");
            return Err(FileError::format(what));
        }
        member = archive.by_index(index)?;
    }
    let value = read_value(&mut member, size)?;
    // The archive compares its checksum at the end. A value that is not known may be a damaged one.
    io::copy(&mut member, &mut io::sink())?;
    Ok(value)
}

/// Reads an array or a text, and of anything else the header.
fn read_value(reader: &mut dyn Read, length: u64) -> Result<NpzValue, FileError> {
    let (header, header_length) = read_header(reader)?;
    let rest = length.saturating_sub(header_length);
    if let Some(text) = header.text() {
        return read_text(reader, text, rest).map(NpzValue::Text);
    }
    match header.numbers() {
        None => Ok(NpzValue::Other(header.unknown())),
        Some((big_endian, kind)) => {
            read_numbers(reader, header, big_endian, &kind, rest).map(NpzValue::Array)
        }
    }
}

/// A writer of a `.npz` file without compression, one member after the other. Equal members in
/// equal order make equal files.
///
/// ```
/// use std::io::Cursor;
/// use bibun_array::{Array, NpzWriter};
/// let mut file = Cursor::new(Vec::new());
/// let mut writer = NpzWriter::new(&mut file);
/// writer.array("x", &Array::from(1.0))?;
/// let twice = writer.text("x", "again").unwrap_err().to_string();
/// assert!(twice.starts_with("array `x`: "));
/// # Ok::<(), bibun_array::FileError>(())
/// ```
#[derive(Debug)]
pub struct NpzWriter<'a>(Box<dyn Members + 'a>);

trait WriteSeek: Write + Seek {}
impl<W: Write + Seek> WriteSeek for W {}

impl fmt::Debug for dyn WriteSeek + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

/// An archive, of which no other crate compiles the code.
trait Members: fmt::Debug {
    /// Writes a member, whose contents `write` writes.
    fn member(
        &mut self,
        name: &str,
        write: &mut dyn FnMut(&mut dyn Write) -> Result<(), FileError>,
    ) -> Result<(), FileError>;
    fn finish(self: Box<Self>) -> Result<(), FileError>;
}

impl Members for ZipWriter<&mut dyn WriteSeek> {
    fn member(
        &mut self,
        name: &str,
        write: &mut dyn FnMut(&mut dyn Write) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(true);
        let written = self.start_file(format!("{name}.npy"), options);
        let written = written.map_err(FileError::from).and_then(|()| {
            let mut member = BufWriter::new(self);
            write(&mut member)?;
            Ok(member.flush()?)
        });
        written.map_err(|error| error.in_member(name))
    }

    fn finish(self: Box<Self>) -> Result<(), FileError> {
        ZipWriter::finish(*self)?;
        Ok(())
    }
}

impl<'a> NpzWriter<'a> {
    /// Creates an archive without members.
    pub fn new(writer: &'a mut (impl Write + Seek)) -> Self {
        Self::over(writer)
    }

    fn over(writer: &'a mut dyn WriteSeek) -> Self {
        Self(Box::new(ZipWriter::new(writer)))
    }

    /// Writes an array under a name.
    ///
    /// # Errors
    /// Returns an error if it cannot be written, or the name is already taken.
    pub fn array(&mut self, name: &str, x: &Array) -> Result<(), FileError> {
        self.0
            .member(name, &mut |member| Ok(write_array(member, x)?))
    }

    /// Writes a text under a name, as an array of rank 0 of NumPy's dtype `U`.
    ///
    /// # Errors
    /// Returns an error if it cannot be written, the name is already taken, or the text ends in a
    /// NUL, which NumPy would not keep.
    pub fn text(&mut self, name: &str, text: &str) -> Result<(), FileError> {
        self.0.member(name, &mut |member| write_text(member, text))
    }

    /// Writes the list of the members, without which the file is not valid.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub fn finish(self) -> Result<(), FileError> {
        self.0.finish()
    }
}

/// Reads the arrays of a `.npz` file, in their order in the file; see [`Array::read_npy`] for their
/// dtypes, and [`NpzReader`] for files that also contain other values.
///
/// Requires the feature `npz`.
///
/// # Errors
/// Returns an error as [`Array::read_npy`] and [`NpzReader::open`] do, and if the file contains
/// anything other than arrays of numbers.
///
/// ```
/// use bibun_array::{read_npz, write_npz, Array};
/// # let folder = std::env::temp_dir().join(format!("bibun-read-npz-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let file = folder.join("model.npz");
/// write_npz(&file, [("w", Array::from([1.0, 2.0])), ("b", Array::from([0.5]))])?;
/// let arrays = read_npz(&file)?;
/// assert_eq!(arrays.keys().collect::<Vec<_>>(), ["w", "b"]);
/// assert_eq!(arrays["w"].to_vec::<f64>(), [1.0, 2.0]);
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn read_npz(path: impl AsRef<Path>) -> Result<IndexMap<String, Array>, FileError> {
    let path = path.as_ref();
    let mut reader = NpzReader::open(path)?;
    let names: Vec<String> = reader.names().map(str::to_owned).collect();
    let mut arrays = IndexMap::new();
    for name in names {
        let what = match reader.read(&name)? {
            NpzValue::Array(array) => {
                arrays.insert(name, array);
                continue;
            }
            NpzValue::Text(_) => format!("is a text, {EXPECTED}"),
            NpzValue::Other(what) => format!("{what}, {EXPECTED}"),
        };
        return Err(FileError::format(what).in_member(&name).in_file(path));
    }
    Ok(arrays)
}

/// Writes named arrays as a `.npz` file without compression, in their order. As with
/// [`Array::write_npy`], the file appears whole or not at all, and equal arrays make equal files.
///
/// Requires the feature `npz`.
///
/// # Errors
/// Returns an error if the file cannot be written or two arrays have the same name.
///
/// ```
/// use bibun_array::{write_npz, Array, FileError};
/// let twice = [("x", Array::from(1.0)), ("x", Array::from(2.0))];
/// let written = write_npz(std::env::temp_dir().join("bibun-twice.npz"), twice);
/// assert!(matches!(written, Err(FileError::Format { .. })));
/// ```
pub fn write_npz<N: AsRef<str>, A: Borrow<Array>>(
    path: impl AsRef<Path>,
    arrays: impl IntoIterator<Item = (N, A)>,
) -> Result<(), FileError> {
    write_whole(path, |file| {
        let mut writer = NpzWriter::new(file);
        for (name, array) in arrays {
            writer.array(name.as_ref(), array.borrow())?;
        }
        writer.finish()
    })
}
