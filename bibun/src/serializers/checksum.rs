//! The checksum of a State.

use std::convert::Infallible;

use bibun_array::{Array, DType};
use hmac_sha256::Hash;

use super::elements::little_endian;
use super::{State, Value};

impl State {
    /// Computes the SHA-256 checksum over all names and values, in hexadecimal digits. It is equal
    /// for states that have the same names with the same dtypes, shapes and bits, in any order.
    ///
    /// Source: FIPS 180-4.
    ///
    /// ```
    /// use bibun::serializers::State;
    /// let state: State = [("a", 1.0), ("b", 2.0)].into_iter().collect();
    /// let turned: State = [("b", 2.0), ("a", 1.0)].into_iter().collect();
    /// let other: State = [("a", 2.0), ("b", 1.0)].into_iter().collect();
    /// assert_eq!(state.checksum(), turned.checksum());
    /// assert_ne!(state.checksum(), other.checksum());
    /// assert_eq!(state.checksum().len(), 64);
    /// ```
    pub fn checksum(&self) -> String {
        let mut values: Vec<_> = self.iter().collect();
        values.sort_unstable_by_key(|(name, _)| *name);
        let mut hash = Hash::new();
        for (name, value) in values {
            text(&mut hash, name);
            match value {
                Value::Text(words) => {
                    hash.update(b"t");
                    text(&mut hash, words);
                }
                Value::Array(x) => array(&mut hash, x),
            }
        }
        let digits = hash.finalize();
        digits.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Hashes a text. Its length comes first, so that no two lists of texts give the same bytes.
fn text(hash: &mut Hash, text: &str) {
    number(hash, text.len());
    hash.update(text);
}

fn number(hash: &mut Hash, number: usize) {
    hash.update((number as u64).to_le_bytes());
}

fn array(hash: &mut Hash, x: &Array) {
    hash.update(match x.dtype() {
        DType::Bool => b"b",
        DType::U8 => b"B",
        DType::I32 => b"l",
        DType::I64 => b"i",
        DType::F16 => b"e",
        DType::BF16 => b"E",
        DType::F32 => b"f",
        DType::F64 => b"d",
        DType::C64 => b"F",
        DType::C128 => b"D",
    });
    number(hash, x.rank());
    for &size in x.shape().iter() {
        number(hash, size);
    }
    let Ok(()) = little_endian(x, |bytes| {
        hash.update(bytes);
        Ok::<(), Infallible>(())
    });
}
