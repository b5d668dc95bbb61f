//! States in `.safetensors` files.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::Write;
use std::path::Path;

use bibun_array::{Array, Element, FileError, Shape, attempt, bf16, f16, write_whole};
use rustc_hash::FxHashSet;
use safetensors::tensor::{Dtype, TensorInfo};
use safetensors::{SafeTensorError, SafeTensors};
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::json;

use super::elements::little_endian;
use super::{State, Value};

/// The key of the texts in the header.
const METADATA: &str = "__metadata__";
/// The length above which headers are refused: those of the largest models have some hundred
/// thousand bytes.
const LONGEST_HEADER: u64 = 1 << 24;
/// The same limit as for `.npy` files.
const LARGEST_RANK: usize = 64;

impl State {
    /// Returns the bytes of a `.safetensors` file; see [`save_safetensors`].
    ///
    /// # Errors
    /// Returns an error as [`save_safetensors`] does, except for errors of files.
    ///
    /// ```
    /// use bibun::serializers::State;
    /// let state: State = [("epoch", 3u64)].into_iter().collect();
    /// let bytes = state.to_safetensors()?;
    /// assert_eq!(State::from_safetensors(&bytes)?.count("epoch")?, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn to_safetensors(&self) -> Result<Vec<u8>, FileError> {
        let mut bytes = Vec::new();
        write(self, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads a state from the bytes of a `.safetensors` file; see [`load_safetensors`].
    ///
    /// # Errors
    /// Returns an error as [`load_safetensors`] does.
    pub fn from_safetensors(bytes: &[u8]) -> Result<Self, FileError> {
        read(bytes)
    }
}

/// Saves a state as a `.safetensors` file, which the package for PyTorch reads. Texts are stored in
/// the header, in `__metadata__`. Equal states give equal files.
///
/// Requires the feature `safetensors`.
///
/// Source: the format's description in the repository huggingface/safetensors.
///
/// The file appears complete or not at all ([`write_whole`]).
///
/// # Errors
/// Returns an error if the file cannot be written, an array is called `__metadata__`, or one is
/// `c128`, which the format does not have.
pub fn save_safetensors(path: impl AsRef<Path>, state: &State) -> Result<(), FileError> {
    write_whole(path, |file| write(state, file))
}

/// Loads a state from a `.safetensors` file written by bibun or PyTorch: tensors in the order of
/// their data, and the texts of the header.
///
/// Requires the feature `safetensors`.
///
/// Integers of a type that arrays do not have become `i64`.
///
/// # Errors
/// Returns an error if the file cannot be read, is not a `.safetensors` file, has tensors of
/// another dtype, or holds an unsigned number that does not fit in `i64`.
pub fn load_safetensors(path: impl AsRef<Path>) -> Result<State, FileError> {
    let load = || read(&fs::read(&path)?);
    load().map_err(|error| error.in_file(&path))
}

fn write(state: &State, file: &mut impl Write) -> Result<(), FileError> {
    let mut arrays: Vec<(&str, &Array)> = Vec::new();
    let mut texts = BTreeMap::new();
    for (name, value) in state.iter() {
        match value {
            Value::Array(x) => arrays.push((name, x)),
            Value::Text(text) => {
                texts.insert(name, text);
            }
        }
    }
    // Wide elements first, so that all are aligned.
    arrays.sort_by_key(|(_, x)| std::cmp::Reverse(x.dtype().size()));
    let mut entries = Vec::new();
    if !texts.is_empty() {
        entries.push(format!("{}:{}", json!(METADATA), json!(texts)));
    }
    let mut end = 0;
    for (name, x) in &arrays {
        if *name == METADATA {
            return Err(FileError::format(format!(
                "no array can be called `{name}`"
            )));
        }
        let Some(dtype) = x.dtype().safetensors() else {
            let what = format!(
                "`{name}` is {}, for which the format has no name; cast it to another dtype",
                x.dtype()
            );
            return Err(FileError::format(what));
        };
        let start = end;
        end += x.size() * x.dtype().size();
        let entry = json!({ "dtype": dtype, "shape": x.shape()[..], "data_offsets": [start, end] });
        entries.push(format!("{}:{entry}", json!(name)));
    }
    let mut header = format!("{{{}}}", entries.join(","));
    let padding = header.len().next_multiple_of(8) - header.len();
    header += &" ".repeat(padding);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    for (_, x) in arrays {
        little_endian(x, |bytes| file.write_all(bytes))?;
    }
    Ok(())
}

fn read(bytes: &[u8]) -> Result<State, FileError> {
    let header = bytes
        .first_chunk()
        .map_or(0, |&start| u64::from_le_bytes(start));
    if header > LONGEST_HEADER {
        let what = format!("a header of {header} bytes, expected at most {LONGEST_HEADER}");
        return Err(FileError::format(what));
    }
    let refused =
        |error: SafeTensorError| FileError::format(format!("is no .safetensors file: {error}"));
    let (header, metadata) = SafeTensors::read_metadata(bytes).map_err(refused)?;
    let (header, data) = bytes[size_of::<u64>()..].split_at(header);
    serde_json::from_slice::<OnlyOnce>(header)
        .map_err(|error| FileError::format(format!("is no .safetensors file: {error}")))?;
    let mut state = State::new();
    for name in metadata.offset_keys() {
        let Some(TensorInfo {
            dtype,
            shape,
            data_offsets: (start, end),
        }) = metadata.info(&name)
        else {
            continue;
        };
        let array = decode(*dtype, shape, &data[*start..*end])
            .map_err(|what| FileError::format(format!("tensor `{name}`: {what}")))?;
        state.insert(name, array);
    }
    let texts: BTreeMap<_, _> = metadata.metadata().iter().flatten().collect();
    for (name, text) in texts {
        if state.get(name).is_some() {
            return Err(FileError::format(format!(
                "`{name}` is a tensor and a text"
            )));
        }
        state.insert(name, text.as_str());
    }
    Ok(state)
}

/// A map in which no key occurs twice. The package would accept duplicates.
struct OnlyOnce;

impl<'de> Deserialize<'de> for OnlyOnce {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self)
    }
}

impl<'de> Visitor<'de> for OnlyOnce {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut seen = FxHashSet::default();
        while let Some((key, IgnoredAny)) = map.next_entry::<String, _>()? {
            if let Some(twice) = seen.replace(key) {
                return Err(A::Error::custom(format!("`{twice}` is there twice")));
            }
        }
        Ok(self)
    }
}

fn decode(dtype: Dtype, shape: &[usize], data: &[u8]) -> Result<Array, String> {
    if !Shape::new(shape).is_addressable() || shape.len() > LARGEST_RANK {
        return Err(format!("no array has the shape {shape:?}"));
    }
    macro_rules! number {
        ($number:ty) => {
            elements(data, shape, |x| i64::from(<$number>::from_le_bytes(x)))
        };
    }
    match dtype {
        Dtype::BOOL => elements(data, shape, |[x]| x != 0),
        Dtype::F64 => elements(data, shape, f64::from_le_bytes),
        Dtype::C64 => elements(data, shape, |x: [u8; 8]| {
            let (real, imag) = x.split_at(4);
            let part = |bytes: &[u8]| bytes.try_into().map_or(0.0, f32::from_le_bytes);
            bibun_array::Complex::new(part(real), part(imag))
        }),
        Dtype::F32 => elements(data, shape, f32::from_le_bytes),
        Dtype::F16 => elements(data, shape, f16::from_le_bytes),
        Dtype::BF16 => elements(data, shape, bf16::from_le_bytes),
        Dtype::I64 => elements(data, shape, i64::from_le_bytes),
        Dtype::I32 => elements(data, shape, i32::from_le_bytes),
        Dtype::I16 => number!(i16),
        Dtype::I8 => number!(i8),
        Dtype::U32 => number!(u32),
        Dtype::U16 => number!(u16),
        Dtype::U8 => elements(data, shape, u8::from_le_bytes),
        Dtype::U64 => {
            let mut largest = 0;
            let array = elements(data, shape, |x| {
                let x = u64::from_le_bytes(x);
                largest = x.max(largest);
                x as i64
            });
            if i64::try_from(largest).is_err() {
                return Err(format!("{largest} is greater than i64 can be"));
            }
            array
        }
        other => {
            let expected = "expected BOOL, I8 to I64, U8 to U64, BF16, F16, F32, F64 or C64";
            Err(format!("the dtype is {other}, {expected}"))
        }
    }
}

/// Decodes elements of `N` bytes each.
fn elements<T: Element, const N: usize>(
    data: &[u8],
    shape: &[usize],
    mut convert: impl FnMut([u8; N]) -> T,
) -> Result<Array, String> {
    let mut array = Array::zeros(shape, T::DTYPE);
    let memory = attempt(|| array.as_mut_slice::<T>().len());
    memory.map_err(|error: bibun_array::Error| error.to_string())?;
    let (elements, _) = data.as_chunks::<N>();
    for (y, &x) in array.as_mut_slice::<T>().iter_mut().zip(elements) {
        *y = convert(x);
    }
    Ok(array)
}
