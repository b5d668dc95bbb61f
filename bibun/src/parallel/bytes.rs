//! Messages as bytes, for transports between processes.

use std::convert::Infallible;

use bibun_array::{Array, Complex, DType, Element, bf16, f16};

use super::transport::Message;
use crate::serializers::little_endian;

/// The number of a [`Message::Left`] in place of a dtype.
const LEFT: u8 = u8::MAX;

impl Message {
    /// Returns the message as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self {
            Self::Part {
                context,
                what,
                location,
                elements,
            } => {
                let size = elements.size() * elements.dtype().size();
                bytes.reserve_exact(32 + what.len() + location.len() + size);
                bytes.push(number_of(elements.dtype()));
                bytes.extend(context.to_le_bytes());
                put_text(&mut bytes, what);
                put_text(&mut bytes, location);
                let Ok(()) = little_endian(elements, |part| {
                    bytes.extend_from_slice(part);
                    Ok::<(), Infallible>(())
                });
            }
            Self::Left { why } => {
                bytes.push(LEFT);
                bytes.push(u8::from(why.is_some()));
                bytes.extend(why.iter().flat_map(|why| why.bytes()));
            }
        }
        bytes
    }

    /// Reads a message from its bytes, or returns `None` if they are not of one.
    ///
    /// ```
    /// use bibun::parallel::Message;
    /// let message = Message::Left { why: Some("an error".to_owned()) };
    /// let read = Message::from_bytes(&message.to_bytes()).unwrap();
    /// assert!(matches!(read, Message::Left { why: Some(why) } if why == "an error"));
    /// assert!(Message::from_bytes(&[]).is_none());
    /// ```
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Self> {
        let [kind] = take(&mut bytes)?;
        if kind == LEFT {
            let [is_error] = take(&mut bytes)?;
            let why = String::from_utf8_lossy(bytes).into_owned();
            let why = (is_error != 0).then_some(why);
            return Some(Self::Left { why });
        }
        let dtype = DTYPES.into_iter().find(|&dtype| number_of(dtype) == kind)?;
        let context = u64::from_le_bytes(take(&mut bytes)?);
        let (what, location) = (take_text(&mut bytes)?, take_text(&mut bytes)?);
        Some(Self::Part {
            context,
            what,
            location,
            elements: from_little_endian(bytes, dtype)?,
        })
    }
}

const DTYPES: [DType; 10] = [
    DType::Bool,
    DType::U8,
    DType::I32,
    DType::I64,
    DType::F16,
    DType::BF16,
    DType::F32,
    DType::F64,
    DType::C64,
    DType::C128,
];

fn number_of(dtype: DType) -> u8 {
    match dtype {
        DType::Bool => 0,
        DType::U8 => 1,
        DType::I32 => 2,
        DType::I64 => 3,
        DType::F16 => 4,
        DType::BF16 => 5,
        DType::F32 => 6,
        DType::F64 => 7,
        DType::C64 => 8,
        DType::C128 => 9,
    }
}

fn put_text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u32).to_le_bytes());
    bytes.extend(text.as_bytes());
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

fn take_text(bytes: &mut &[u8]) -> Option<String> {
    let length = u32::from_le_bytes(take(bytes)?) as usize;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    String::from_utf8(text.to_vec()).ok()
}

/// Reads elements from their bytes, or returns `None` if there are not whole elements.
fn from_little_endian(bytes: &[u8], dtype: DType) -> Option<Array> {
    match dtype {
        DType::Bool => read(bytes, |[x]| x != 0),
        DType::U8 => read(bytes, u8::from_le_bytes),
        DType::I32 => read(bytes, i32::from_le_bytes),
        DType::I64 => read(bytes, i64::from_le_bytes),
        DType::F16 => read(bytes, f16::from_le_bytes),
        DType::BF16 => read(bytes, bf16::from_le_bytes),
        DType::F32 => read(bytes, f32::from_le_bytes),
        DType::F64 => read(bytes, f64::from_le_bytes),
        DType::C64 => read(bytes, |bytes: [u8; 8]| {
            let [re, im] = halves(&bytes).map(f32::from_le_bytes);
            Complex::new(re, im)
        }),
        DType::C128 => read(bytes, |bytes: [u8; 16]| {
            let [re, im] = halves(&bytes).map(f64::from_le_bytes);
            Complex::new(re, im)
        }),
    }
}

/// The bytes of the parts of a complex number.
fn halves<const N: usize>(bytes: &[u8]) -> [[u8; N]; 2] {
    let (parts, _) = bytes.as_chunks::<N>();
    [parts[0], parts[1]]
}

fn read<T: Element, const N: usize>(bytes: &[u8], element: impl Fn([u8; N]) -> T) -> Option<Array> {
    let (elements, rest) = bytes.as_chunks::<N>();
    let elements: Vec<T> = elements.iter().map(|&bytes| element(bytes)).collect();
    let count = elements.len();
    rest.is_empty().then(|| Array::from_vec(elements, [count]))
}
