//! NumPy's files: `.npy` (one array) and, with the feature `npz`, `.npz` (a zip archive of named
//! arrays).
//!
//! Source: NumPy Enhancement Proposal 1, versions 1 to 3 of the format. The claims of a header are
//! checked against the length of the file before any memory is allocated.

mod file;
#[cfg(feature = "npz")]
mod npz;
#[cfg(feature = "npz")]
mod text;

pub use file::{FileError, remove_unfinished, write_whole};
#[cfg(feature = "npz")]
pub use npz::{NpzReader, NpzValue, NpzWriter, read_npz, write_npz};

use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::iter;
use std::path::Path;

use crate::dtype::{with_dtype, with_word};
use crate::storage::Word;
use crate::{Array, DType, Element, Error, Scalar, Shape, raise};

impl Array {
    /// Reads a `.npy` file.
    ///
    /// `b1`, `u1`, `i4`, `i8`, `f2`, `f4` and `f8` become `bool`, `u8`, `i32`, `i64`, `f16`, `f32`
    /// and `f64`, `V2` becomes `bf16`, and all other integers become `i64`. Either byte order and
    /// either order of axes can be read.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is not a `.npy` file, ends early, has elements
    /// of another kind, or contains an unsigned number that does not fit into `i64`.
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
        read().map_err(|error: FileError| error.in_file(path))
    }

    /// Reads the bytes of a `.npy` file.
    ///
    /// # Errors
    /// Returns an error as [`Array::read_npy`] does.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let bytes = Array::from([1, 2, 3]).to_npy();
    /// assert_eq!(Array::from_npy(&bytes)?.to_vec::<i64>(), [1, 2, 3]);
    /// assert!(Array::from_npy(&bytes[..100]).is_err());
    /// # Ok::<(), bibun_array::FileError>(())
    /// ```
    pub fn from_npy(mut bytes: &[u8]) -> Result<Self, FileError> {
        let length = bytes.len() as u64;
        read_array(&mut bytes, length)
    }

    /// Returns the bytes of a `.npy` file.
    ///
    /// # Panics
    /// Panics if the shape is too long for a header, which takes thousands of axes.
    #[track_caller]
    pub fn to_npy(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let Err(error) = write_array(&mut bytes, self) {
            raise(Error::invalid("to_npy", error.to_string()));
        }
        bytes
    }

    /// Writes a `.npy` file, identical to NumPy's for the same elements in row-major order.
    ///
    /// The file appears whole or not at all ([`write_whole`]).
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    ///
    /// ```
    /// use bibun_array::Array;
    /// # let folder = std::env::temp_dir().join(format!("bibun-write-npy-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// let file = folder.join("x.npy");
    /// Array::from([1.0, 2.0, 3.0]).write_npy(&file)?;
    /// assert_eq!(std::fs::metadata(&file)?.len(), 128 + 3 * 8);
    /// # std::fs::remove_dir_all(folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_npy(&self, path: impl AsRef<Path>) -> Result<(), FileError> {
        write_whole(path, |file| Ok(write_array(file, self)?))
    }
}

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Longer headers describe records of many fields, which are refused anyway.
const LONGEST_HEADER: u32 = 1 << 16;
/// The same limit as NumPy's.
const LARGEST_RANK: usize = 64;
/// The number of elements converted at a time.
const CHUNK: usize = 4096;

/// The content of a header.
struct Header {
    descr: String,
    fortran_order: bool,
    shape: Vec<usize>,
}

/// The dtypes that can be read.
const EXPECTED: &str = "expected b1, i1 to i8, u1 to u8, f2, f4, f8, c8, c16 or V2 (bfloat16)";

impl Header {
    /// Whether numbers are in big-endian order, the letter of their kind, and the rest: `f` and
    /// `8`.
    fn parts(&self) -> Option<(bool, &str, &str)> {
        let (order, kind) = self.descr.split_at_checked(1)?;
        let (letter, width) = kind.split_at_checked(1)?;
        let big_endian = match order {
            "<" | "|" => false,
            ">" => true,
            "=" => cfg!(target_endian = "big"),
            _ => return None,
        };
        Some((big_endian, letter, width))
    }

    /// Whether numbers are in big-endian order, and their kind: `f8`.
    fn numbers(&self) -> Option<(bool, String)> {
        let (big_endian, letter, width) = self.parts()?;
        let widths: &[&str] = match letter {
            "b" => &["1"],
            "i" | "u" => &["1", "2", "4", "8"],
            "f" => &["2", "4", "8"],
            "c" => &["8", "16"],
            "V" => &["2"],
            _ => return None,
        };
        widths
            .contains(&width)
            .then(|| (big_endian, format!("{letter}{width}")))
    }

    fn unknown(&self) -> String {
        format!("the dtype is `{}`", self.descr.escape_debug())
    }
}

/// Reads one array from a file (or part of one) of at most `length` bytes.
fn read_array(reader: &mut dyn Read, length: u64) -> Result<Array, FileError> {
    let (header, header_length) = read_header(reader)?;
    let Some((big_endian, kind)) = header.numbers() else {
        return Err(FileError::format(format!(
            "{}, {EXPECTED}",
            header.unknown()
        )));
    };
    let rest = length.saturating_sub(header_length);
    read_numbers(reader, header, big_endian, &kind, rest)
}

/// Reads numbers from at most `rest` bytes.
fn read_numbers(
    reader: &mut dyn Read,
    header: Header,
    big_endian: bool,
    kind: &str,
    rest: u64,
) -> Result<Array, FileError> {
    let Header {
        descr,
        fortran_order,
        mut shape,
    } = header;
    let width = match &kind[1..] {
        "1" => 1,
        "2" => 2,
        "4" => 4,
        "16" => 16,
        _ => 8,
    };
    // Strides are products of sizes, so the products must not overflow even if there is a zero
    // among the sizes; nor may they in memory, where elements may be wider than in the file.
    let multiply = |count: u64, &size: &usize| count.checked_mul(size.max(1) as u64);
    let count = shape.iter().try_fold(1, multiply);
    let possible = shape.len() <= LARGEST_RANK && Shape::new(&shape).is_addressable();
    let count = count.filter(|_| possible);
    let bytes = match count.map(|count| count * width) {
        None => {
            return Err(FileError::format(format!(
                "no array has the shape {shape:?}"
            )));
        }
        Some(_) if shape.contains(&0) => 0,
        Some(bytes) => bytes,
    };
    if bytes != rest {
        let what = format!("{rest} bytes of data, expected {bytes} for {descr} of shape {shape:?}");
        return Err(FileError::format(what));
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
        "i1" => decode::<i64, 1>(reader, shape, big_endian, number!(i8)),
        "i2" => decode::<i64, 2>(reader, shape, big_endian, number!(i16)),
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
                return Err(FileError::format(format!(
                    "{largest} is greater than i64 can be"
                )));
            }
            array
        }
        _ => {
            let mut own = DType::ALL.into_iter();
            let dtype = own.find(|dtype| &dtype.numpy()[1..] == kind);
            let dtype = dtype.expect("`numbers` knows it");
            with_dtype!(dtype, T => decode_bits::<T>(reader, shape, big_endian))
        }
    }?;
    Ok(if fortran_order {
        array.transpose()
    } else {
        array
    })
}

/// Reads elements from their bits, in little-endian order.
fn decode_bits<T: Element>(
    reader: &mut dyn Read,
    shape: Shape,
    big_endian: bool,
) -> io::Result<Array> {
    fn element<T: Element, const N: usize>(bytes: [u8; N]) -> T {
        let mut bits = [0; 16];
        bits[..N].copy_from_slice(&bytes);
        let scalar = Scalar::from_bits(T::DTYPE, u128::from_le_bytes(bits));
        *T::borrow_scalar(&scalar).expect("a value of the dtype")
    }
    match size_of::<T>() {
        1 => decode(reader, shape, big_endian, element::<T, 1>),
        2 => decode(reader, shape, big_endian, element::<T, 2>),
        4 => decode(reader, shape, big_endian, element::<T, 4>),
        8 => decode(reader, shape, big_endian, element::<T, 8>),
        _ => decode(reader, shape, big_endian, element::<T, 16>),
    }
}

/// Reads elements of `N` bytes each, converted from little-endian order.
fn decode<T: Element, const N: usize>(
    reader: &mut dyn Read,
    shape: Shape,
    big_endian: bool,
    mut convert: impl FnMut([u8; N]) -> T,
) -> io::Result<Array> {
    let mut outcome = Ok(());
    let bytes = shape.size().saturating_mul(size_of::<T>());
    let array = Array::try_filled_by(shape, |out: &mut [T]| {
        let mut bytes = vec![[0; N]; CHUNK.min(out.len())];
        for out in out.chunks_mut(CHUNK) {
            let bytes = &mut bytes[..out.len()];
            outcome = reader.read_exact(bytes.as_flattened_mut());
            if outcome.is_err() {
                return;
            }
            for (y, x) in out.iter_mut().zip(bytes) {
                if big_endian {
                    // The parts of complex numbers are in order.
                    let parts = if T::DTYPE.is_complex() { 2 } else { 1 };
                    x.chunks_mut(N / parts).for_each(<[u8]>::reverse);
                }
                *y = convert(*x);
            }
        }
    });
    outcome?;
    array.ok_or_else(|| {
        let what = format!("the system refuses {bytes} bytes of memory");
        io::Error::new(io::ErrorKind::OutOfMemory, what)
    })
}

/// Reads the header, and returns it with the number of bytes up to its end.
fn read_header(reader: &mut dyn Read) -> Result<(Header, u64), FileError> {
    let mut start = [0; 8];
    reader.read_exact(&mut start)?;
    let [magic @ .., major, minor] = &start;
    if magic != MAGIC {
        return Err(FileError::format(
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
            return Err(FileError::format(what));
        }
    };
    if length > LONGEST_HEADER {
        let what = format!("a header of {length} bytes, expected at most {LONGEST_HEADER}");
        return Err(FileError::format(what));
    }
    let mut text = vec![0; length as usize];
    reader.read_exact(&mut text)?;
    let text = String::from_utf8_lossy(&text);
    let header = Literal(&text).header().ok_or_else(|| {
        let expected = "expected {'descr': '...', 'fortran_order': ..., 'shape': (...)}";
        FileError::format(format!(
            "the header is `{}`, {expected}",
            text.trim().escape_debug()
        ))
    })?;
    Ok((header, before + u64::from(length)))
}

/// The unread rest of a Python literal.
struct Literal<'a>(&'a str);

impl<'a> Literal<'a> {
    /// Reads a dictionary with exactly the three keys, in any order.
    fn header(mut self) -> Option<Header> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.token("{")?;
        while self.token("}").is_none() {
            let key = self.string()?;
            self.token(":")?;
            match key {
                "descr" => descr = Some(self.dtype()?.to_owned()),
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

    /// Reads a string, or the list of fields that describes records, as text.
    fn dtype(&mut self) -> Option<&'a str> {
        let text = self.0.trim_start();
        if !text.starts_with('[') {
            return self.string();
        }
        let mut depth = 0usize;
        let mut quote = None;
        for (at, c) in text.char_indices() {
            match c {
                _ if quote.is_some() => quote = quote.filter(|&quote| quote != c),
                '\'' | '"' => quote = Some(c),
                '[' => depth += 1,
                ']' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                let (list, rest) = text.split_at(at + 1);
                self.0 = rest;
                return Some(list);
            }
        }
        None
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
            // Python 2 wrote long integers with an L.
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
fn write_array(writer: &mut dyn Write, x: &Array) -> io::Result<()> {
    write_header(writer, x.dtype().numpy(), x.shape())?;
    let x = x.on_host("save");
    with_word!(x.dtype(), W => match x.inline() {
        Some(value) => encode(writer, iter::repeat_n(W::of(value), x.size())),
        None => encode(writer, x.host_words::<W>().iter().copied()),
    })
}

fn write_header(writer: &mut dyn Write, descr: &str, shape: &Shape) -> io::Result<()> {
    let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
    let comma = if sizes.len() == 1 { "," } else { "" };
    let tuple = format!("({}{comma})", sizes.join(", "));
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {tuple}, }}");
    // Like NumPy, leave room for the first axis to grow, then fill up to a multiple of 64.
    header += &" ".repeat(sizes.first().map_or(0, |size| 21 - size.len()));
    let before = MAGIC.len() + 4;
    header += &" ".repeat(64 - (before + header.len() + 1) % 64);
    header.push('\n');
    let length = u16::try_from(header.len()).map_err(|_| {
        let what = format!("the shape {shape} is too long for a header");
        io::Error::new(io::ErrorKind::InvalidInput, what)
    })?;
    writer.write_all(MAGIC)?;
    writer.write_all(&[1, 0])?;
    writer.write_all(&length.to_le_bytes())?;
    writer.write_all(header.as_bytes())
}

/// Writes words in little-endian order.
fn encode<W: Word>(writer: &mut dyn Write, words: impl Iterator<Item = W>) -> io::Result<()> {
    const FULL: usize = CHUNK * size_of::<u64>();
    let mut bytes = Vec::with_capacity(FULL);
    for word in words {
        bytes.extend_from_slice(word.to_le_bytes().as_ref());
        if bytes.len() >= FULL {
            writer.write_all(&bytes)?;
            bytes.clear();
        }
    }
    writer.write_all(&bytes)
}
