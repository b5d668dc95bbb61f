//! NumPy's files: `.npy` (one array) and `.npz` (a zip archive of named ones).
//!
//! Source: NumPy Enhancement Proposal 1, versions 1 to 3 of the format. What a header claims is
//! held against the length of the file before any memory is asked for.

use std::borrow::{Borrow, Cow};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use indexmap::IndexMap;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use crate::{Array, DType, Element, Shape};

/// Why a file could not be read or written.
///
/// ```
/// use bibun_array::{Array, FileError};
/// let missing = Array::read_npy("no/such/file.npy");
/// assert!(matches!(missing, Err(FileError::Io { .. })));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The operating system says no.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The content is not what it should be.
    #[error("{}{}: {what}", file.display(), in_member(member))]
    Format {
        /// The file.
        file: PathBuf,
        /// The array in it, if the file holds several.
        member: Option<String>,
        /// What was met and what was expected.
        what: String,
    },
}

fn in_member(member: &Option<String>) -> String {
    member
        .as_ref()
        .map_or_else(String::new, |member| format!(", array `{member}`"))
}

/// What went wrong, while it is not yet known in which file.
enum Problem {
    Io(io::Error),
    Format(String),
}

impl Problem {
    fn within(self, file: &Path, member: Option<&str>) -> FileError {
        let file = file.to_owned();
        match self {
            Self::Io(source) => FileError::Io { file, source },
            Self::Format(what) => {
                let member = member.map(str::to_owned);
                FileError::Format { file, member, what }
            }
        }
    }
}

impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => Self::Format("the data end early".to_owned()),
            io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput => {
                Self::Format(error.to_string())
            }
            _ => Self::Io(error),
        }
    }
}

impl From<zip::result::ZipError> for Problem {
    fn from(error: zip::result::ZipError) -> Self {
        match error {
            zip::result::ZipError::Io(error) => error.into(),
            other => Self::Format(format!("{other}, expected a zip archive of .npy files")),
        }
    }
}

impl Array {
    /// Reads a `.npy` file.
    ///
    /// `f4`, `f8`, `i8` and `b1` become `f32`, `f64`, `i64` and `bool`; of the rest, `f2` becomes
    /// `f32` and all other integers become `i64`. Either byte order and either order of axes will
    /// do.
    ///
    /// # Errors
    /// If the file cannot be read, is no such file, ends early, has elements of another kind, or
    /// holds an unsigned number that `i64` does not.
    ///
    /// ```
    /// use bibun_array::Array;
    /// # let folder = std::env::temp_dir().join(format!("bibun-read-npy-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let file = folder.join("x.npy");
    /// Array::from([[1.0, 2.0], [3.0, 4.0]]).write_npy(&file)?;
    /// assert_eq!(Array::read_npy(&file)?.to_vec::<f64>(), [1.0, 2.0, 3.0, 4.0]);
    /// # std::fs::remove_dir_all(folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_npy(path: impl AsRef<Path>) -> Result<Self, FileError> {
        let path = path.as_ref();
        let read = || {
            let file = File::open(path)?;
            let length = file.metadata()?.len();
            read_array(&mut BufReader::new(file), length)
        };
        read().map_err(|problem: Problem| problem.within(path, None))
    }

    /// Writes a `.npy` file, just as NumPy would from the same elements in row-major order.
    ///
    /// The file appears whole or not at all: it is written beside its place under another name and
    /// then renamed, over a file that may have been there.
    ///
    /// # Errors
    /// If the file cannot be written.
    ///
    /// ```
    /// use bibun_array::Array;
    /// # let folder = std::env::temp_dir().join(format!("bibun-write-npy-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let file = folder.join("x.npy");
    /// Array::from([1, 2, 3]).write_npy(&file)?;
    /// assert_eq!(std::fs::metadata(&file)?.len(), 128 + 3 * 8);
    /// # std::fs::remove_dir_all(folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_npy(&self, path: impl AsRef<Path>) -> Result<(), FileError> {
        let path = path.as_ref();
        write_whole(path, |file| {
            write_array(file, self)?;
            Ok(())
        })
        .map_err(|problem| problem.within(path, None))
    }
}

/// Reads the arrays of a `.npz` file, in the order in which they are there; see [`Array::read_npy`]
/// for their dtypes.
///
/// # Errors
/// As for [`Array::read_npy`], and if the file is no zip archive or something else than `.npy`
/// files is in it.
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
    let open = || {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Ok((ZipArchive::new(BufReader::new(file))?, length))
    };
    let (mut archive, length) = open().map_err(|problem: Problem| problem.within(path, None))?;
    let mut arrays = IndexMap::new();
    for i in 0..archive.len() {
        let name = archive.name_for_index(i).and_then(Result::ok);
        let name = name.map_or_else(|| format!("number {i}"), Cow::into_owned);
        let name = name.strip_suffix(".npy").unwrap_or(&name).to_owned();
        let array = read_member(&mut archive, i, length)
            .map_err(|problem| problem.within(path, Some(&name)))?;
        arrays.insert(name, array);
    }
    Ok(arrays)
}

fn read_member<R: Read + Seek>(
    archive: &mut ZipArchive<R>,
    index: usize,
    archive_length: u64,
) -> Result<Array, Problem> {
    /// Deflate makes 258 bytes of two bits at best.
    const LARGEST_RATIO: u64 = 1032;
    let mut member = archive.by_index(index)?;
    if !member.name()?.ends_with(".npy") {
        return Err(Problem::Format("is no .npy file".to_owned()));
    }
    let size = member.size();
    if size > archive_length.saturating_mul(LARGEST_RATIO) {
        let what = format!("claims {size} bytes, more than the archive can hold");
        return Err(Problem::Format(what));
    }
    let array = read_array(&mut member, size)?;
    // The archive compares its checksum at the end.
    io::copy(&mut member, &mut io::sink())?;
    Ok(array)
}

/// Writes named arrays as a `.npz` file without compression, in their order. As with
/// [`Array::write_npy`], the file appears whole or not at all, and equal arrays give equal files.
///
/// # Errors
/// If the file cannot be written or two arrays have the same name.
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
    let path = path.as_ref();
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .large_file(true);
    write_whole(path, |file| {
        let mut archive = ZipWriter::new(file);
        for (name, array) in arrays {
            let name = name.as_ref();
            archive
                .start_file(format!("{name}.npy"), options)
                .map_err(|error| Problem::Format(format!("array `{name}`: {error}")))?;
            let mut member = BufWriter::new(&mut archive);
            write_array(&mut member, array.borrow())?;
            member.flush()?;
        }
        archive.finish()?;
        Ok(())
    })
    .map_err(|problem| problem.within(path, None))
}

/// Writes a file beside `path` and puts it there when it is complete.
fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), Problem>,
) -> Result<(), Problem> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let Some(name) = path.file_name() else {
        return Err(Problem::Format("is not the name of a file".to_owned()));
    };
    let mut temporary = name.to_owned();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    temporary.push(format!(".{}-{count}.part", std::process::id()));
    let temporary = path.with_file_name(temporary);
    let mut file = BufWriter::new(File::create_new(&temporary)?);
    let written = write(&mut file).and_then(|()| {
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        drop(file);
        Ok(fs::rename(&temporary, path)?)
    });
    if written.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&temporary);
    }
    written
}

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Longer headers describe records of many fields, which are refused anyway.
const LONGEST_HEADER: u32 = 1 << 16;
/// NumPy's limit, too.
const LARGEST_RANK: usize = 64;
/// Elements converted at a time.
const CHUNK: usize = 4096;

/// What a header says.
struct Header {
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

/// Reads one array from a file (or part of one) of at most `length` bytes.
fn read_array(reader: &mut impl Read, length: u64) -> Result<Array, Problem> {
    let (header, header_length) = read_header(reader)?;
    let Header {
        descr,
        fortran_order,
        mut shape,
    } = header;
    let unknown = || {
        let expected = "expected b1, i1 to i8, u1 to u8, f2, f4 or f8";
        Problem::Format(format!("the dtype is `{descr}`, {expected}"))
    };
    let (order, kind) = descr.split_at_checked(1).ok_or_else(unknown)?;
    let big_endian = match order {
        "<" | "|" => false,
        ">" => true,
        "=" => cfg!(target_endian = "big"),
        _ => return Err(unknown()),
    };
    let width: u64 = match kind {
        "b1" | "i1" | "u1" => 1,
        "i2" | "u2" | "f2" => 2,
        "i4" | "u4" | "f4" => 4,
        "i8" | "u8" | "f8" => 8,
        _ => return Err(unknown()),
    };
    // Strides are products of sizes, so those must not overflow even where a zero stands among
    // them.
    let multiply = |bytes: u64, &size: &usize| bytes.checked_mul(size.max(1) as u64);
    let bytes = shape.iter().try_fold(width, multiply);
    let bytes = bytes.filter(|&bytes| bytes <= isize::MAX as u64 && shape.len() <= LARGEST_RANK);
    let bytes = match bytes {
        None => return Err(Problem::Format(format!("no array has the shape {shape:?}"))),
        Some(_) if shape.contains(&0) => 0,
        Some(bytes) => bytes,
    };
    let rest = length.saturating_sub(header_length);
    if bytes > rest {
        let what = format!("{rest} bytes of data, expected {bytes} for {descr} of shape {shape:?}");
        return Err(Problem::Format(what));
    }
    if fortran_order {
        shape.reverse();
    }
    let shape = Shape::from(shape);
    macro_rules! number {
        ($number:ty) => {
            |bytes| <$number>::from_le_bytes(bytes).into()
        };
    }
    let array = match kind {
        "b1" => decode(reader, shape, big_endian, |[byte]| byte != 0),
        "i1" => decode::<i64, 1>(reader, shape, big_endian, number!(i8)),
        "i2" => decode::<i64, 2>(reader, shape, big_endian, number!(i16)),
        "i4" => decode::<i64, 4>(reader, shape, big_endian, number!(i32)),
        "i8" => decode(reader, shape, big_endian, i64::from_le_bytes),
        "u1" => decode::<i64, 1>(reader, shape, big_endian, number!(u8)),
        "u2" => decode::<i64, 2>(reader, shape, big_endian, number!(u16)),
        "u4" => decode::<i64, 4>(reader, shape, big_endian, number!(u32)),
        "u8" => {
            let mut largest = 0;
            let array = decode(reader, shape, big_endian, |bytes| {
                let x = u64::from_le_bytes(bytes);
                largest = x.max(largest);
                x as i64
            });
            if i64::try_from(largest).is_err() {
                return Err(Problem::Format(format!(
                    "{largest} is greater than i64 can be"
                )));
            }
            array
        }
        "f2" => decode(reader, shape, big_endian, |bytes| {
            half(u16::from_le_bytes(bytes))
        }),
        "f4" => decode(reader, shape, big_endian, f32::from_le_bytes),
        _ => decode(reader, shape, big_endian, f64::from_le_bytes),
    }?;
    Ok(if fortran_order {
        array.transpose()
    } else {
        array
    })
}

/// Elements of `N` bytes each, converted from little-endian order.
fn decode<T: Element, const N: usize>(
    reader: &mut impl Read,
    shape: Shape,
    big_endian: bool,
    mut convert: impl FnMut([u8; N]) -> T,
) -> io::Result<Array> {
    let mut outcome = Ok(());
    let array = Array::filled_by(shape, |out: &mut [T]| {
        let mut bytes = vec![[0; N]; CHUNK.min(out.len())];
        for out in out.chunks_mut(CHUNK) {
            let bytes = &mut bytes[..out.len()];
            outcome = reader.read_exact(bytes.as_flattened_mut());
            if outcome.is_err() {
                return;
            }
            for (y, x) in out.iter_mut().zip(bytes) {
                if big_endian {
                    x.reverse();
                }
                *y = convert(*x);
            }
        }
    });
    outcome.map(|()| array)
}

/// A half-precision number: 1 sign bit, 5 bits of exponent, 10 of fraction.
fn half(bits: u16) -> f32 {
    let (exponent, fraction) = (bits >> 10 & 31, bits & 1023);
    let magnitude = match exponent {
        0 => f32::from(fraction) * 2.0f32.powi(-24),
        31 if fraction == 0 => f32::INFINITY,
        31 => f32::NAN,
        _ => f32::from(fraction | 1024) * 2.0f32.powi(i32::from(exponent) - 25),
    };
    if bits >> 15 == 1 {
        -magnitude
    } else {
        magnitude
    }
}

/// The header, and how many bytes it takes with all that stands before it.
fn read_header(reader: &mut impl Read) -> Result<(Header, u64), Problem> {
    let mut start = [0; 8];
    reader.read_exact(&mut start)?;
    let [magic @ .., major, minor] = &start;
    if magic != MAGIC {
        return Err(Problem::Format(
            "is no .npy file: the first bytes are others".to_owned(),
        ));
    }
    let (before, length) = match major {
        1 => {
            let mut length = [0; 2];
            reader.read_exact(&mut length)?;
            (10, u32::from(u16::from_le_bytes(length)))
        }
        2 | 3 => {
            let mut length = [0; 4];
            reader.read_exact(&mut length)?;
            (12, u32::from_le_bytes(length))
        }
        _ => {
            let what = format!("version {major}.{minor} of the format, expected 1 to 3");
            return Err(Problem::Format(what));
        }
    };
    if length > LONGEST_HEADER {
        let what = format!("a header of {length} bytes, expected at most {LONGEST_HEADER}");
        return Err(Problem::Format(what));
    }
    let mut text = vec![0; length as usize];
    reader.read_exact(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let header = Literal(&text).header().ok_or_else(|| {
        let expected = "expected {'descr': '...', 'fortran_order': ..., 'shape': (...)}";
        Problem::Format(format!(
            "the header is `{}`, {expected}",
            text.trim().escape_debug()
        ))
    })?;
    Ok((header, before + u64::from(length)))
}

/// What is left of a Python literal.
struct Literal<'a>(&'a str);

impl<'a> Literal<'a> {
    /// A dictionary of just the three keys, in any order.
    fn header(mut self) -> Option<Header> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.token("{")?;
        while self.token("}").is_none() {
            let key = self.string()?;
            self.token(":")?;
            match key {
                "descr" => descr = Some(self.string()?.to_owned()),
                "fortran_order" => fortran_order = Some(self.boolean()?),
                "shape" => shape = Some(self.tuple()?),
                _ => return None,
            }
            if self.token(",").is_none() {
                self.token("}")?;
                break;
            }
        }
        let header = Header {
            descr: descr?,
            fortran_order: fortran_order?,
            shape: shape?,
        };
        self.0.trim().is_empty().then_some(header)
    }

    fn token(&mut self, token: &str) -> Option<()> {
        self.0 = self.0.trim_start().strip_prefix(token)?;
        Some(())
    }

    fn string(&mut self) -> Option<&'a str> {
        let text = self.0.trim_start();
        let quote = text
            .chars()
            .next()
            .filter(|quote| ['\'', '"'].contains(quote))?;
        let (string, rest) = text[1..].split_once(quote)?;
        self.0 = rest;
        Some(string)
    }

    fn boolean(&mut self) -> Option<bool> {
        let yes = self.token("True").map(|()| true);
        yes.or_else(|| self.token("False").map(|()| false))
    }

    fn tuple(&mut self) -> Option<Vec<usize>> {
        let mut sizes = Vec::new();
        self.token("(")?;
        while self.token(")").is_none() {
            let text = self.0.trim_start();
            let end = text.find(|c: char| !c.is_ascii_digit())?;
            sizes.push(text[..end].parse().ok()?);
            self.0 = &text[end..];
            // Python 2 wrote long integers so.
            let _ = self.token("L");
            if self.token(",").is_none() {
                self.token(")")?;
                break;
            }
        }
        Some(sizes)
    }
}

/// Writes version 1 of the format.
fn write_array(writer: &mut impl Write, x: &Array) -> io::Result<()> {
    let descr = match x.dtype() {
        DType::Bool => "|b1",
        DType::I64 => "<i8",
        DType::F32 => "<f4",
        DType::F64 => "<f8",
    };
    let sizes: Vec<String> = x.shape().iter().map(usize::to_string).collect();
    let comma = if sizes.len() == 1 { "," } else { "" };
    let shape = format!("({}{comma})", sizes.join(", "));
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}");
    // Like NumPy, leave room for the first axis to grow, then fill up to a multiple of 64.
    header += &" ".repeat(sizes.first().map_or(0, |size| 21 - size.len()));
    let before = MAGIC.len() + 4;
    header += &" ".repeat(64 - (before + header.len() + 1) % 64);
    header.push('\n');
    let length = u16::try_from(header.len()).map_err(|_| {
        let what = format!("the shape {} is too long for a header", x.shape());
        io::Error::new(io::ErrorKind::InvalidInput, what)
    })?;
    writer.write_all(MAGIC)?;
    writer.write_all(&[1, 0])?;
    writer.write_all(&length.to_le_bytes())?;
    writer.write_all(header.as_bytes())?;
    match x.dtype() {
        DType::Bool => encode(writer, x, |x: bool| [u8::from(x)]),
        DType::I64 => encode(writer, x, i64::to_le_bytes),
        DType::F32 => encode(writer, x, f32::to_le_bytes),
        DType::F64 => encode(writer, x, f64::to_le_bytes),
    }
}

/// The elements in row-major order as `N` bytes each.
fn encode<T: Element, const N: usize>(
    writer: &mut impl Write,
    x: &Array,
    convert: impl Fn(T) -> [u8; N],
) -> io::Result<()> {
    let x = x.to_row_major();
    let repeated;
    let elements = match x.as_slice::<T>() {
        Some(elements) => elements,
        None => {
            repeated = x.to_vec::<T>();
            &repeated
        }
    };
    let mut bytes = Vec::with_capacity(CHUNK.min(elements.len()));
    for elements in elements.chunks(CHUNK) {
        bytes.clear();
        bytes.extend(elements.iter().map(|&x| convert(x)));
        writer.write_all(bytes.as_flattened())?;
    }
    Ok(())
}
