//! Single texts, which NumPy stores as arrays of rank 0 of the dtypes `U` and `S`.

use std::io::{Read, Write};

use super::{FileError, Header, write_header};
use crate::Shape;

impl Header {
    /// The number of characters of a single text, the number of bytes of each, and whether they are
    /// big-endian.
    pub(super) fn text(&self) -> Option<(u64, u64, bool)> {
        let (big_endian, letter, width) = self.parts()?;
        let bytes = match letter {
            "U" => 4,
            "S" => 1,
            _ => return None,
        };
        let is_number = width.bytes().all(|digit| digit.is_ascii_digit());
        let count = width.parse().ok().filter(|_| is_number)?;
        self.shape.is_empty().then_some((count, bytes, big_endian))
    }
}

/// Reads the characters of a text, without the NULs at its end.
pub(super) fn read_text(
    reader: &mut dyn Read,
    (count, width, big_endian): (u64, u64, bool),
    rest: u64,
) -> Result<String, FileError> {
    let length = count.checked_mul(width).filter(|&length| length == rest);
    let Some(length) = length.and_then(|length| usize::try_from(length).ok()) else {
        let what = format!("{rest} bytes of data, expected {width} for each of {count} characters");
        return Err(FileError::format(what));
    };
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes)?;
    let text = match bytes.as_chunks::<4>() {
        _ if width == 1 => String::from_utf8(bytes).ok(),
        (characters, _) => characters
            .iter()
            .map(|&x| match big_endian {
                true => char::from_u32(u32::from_be_bytes(x)),
                false => char::from_u32(u32::from_le_bytes(x)),
            })
            .collect(),
    };
    let mut text =
        text.ok_or_else(|| FileError::format("the text has characters that are none"))?;
    text.truncate(text.trim_end_matches('\0').len());
    Ok(text)
}

/// Writes a text as an array of rank 0.
pub(super) fn write_text(writer: &mut dyn Write, text: &str) -> Result<(), FileError> {
    if text.ends_with('\0') {
        let what = "the text ends in a NUL, which NumPy does not keep";
        return Err(FileError::format(what));
    }
    let mut bytes: Vec<[u8; 4]> = text.chars().map(|c| u32::from(c).to_le_bytes()).collect();
    if bytes.is_empty() {
        // NumPy has no strings without characters; NULs at the end do not count.
        bytes.push([0; 4]);
    }
    write_header(writer, &format!("<U{}", bytes.len()), &Shape::from(()))?;
    Ok(writer.write_all(bytes.as_flattened())?)
}
