//! Elements as bytes.

use bibun_array::{Array, Complex, DType, Element, bf16, cpu, f16};

/// Calls `each` with the bytes of the elements in row-major order, in chunks.
pub(crate) fn little_endian<E>(
    x: &Array,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    by_dtype(x, &mut each)
}

fn by_dtype<E>(x: &Array, each: &mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
    match x.dtype() {
        DType::Bool => convert(x, |x: bool| [u8::from(x)], each),
        DType::U8 => convert(x, u8::to_le_bytes, each),
        DType::I32 => convert(x, i32::to_le_bytes, each),
        DType::I64 => convert(x, i64::to_le_bytes, each),
        DType::F16 => convert(x, f16::to_le_bytes, each),
        DType::BF16 => convert(x, bf16::to_le_bytes, each),
        DType::F32 => convert(x, f32::to_le_bytes, each),
        DType::F64 => convert(x, f64::to_le_bytes, each),
        DType::C64 => convert::<_, 8, _>(x, |x| pair(x, f32::to_le_bytes), each),
        DType::C128 => convert::<_, 16, _>(x, |x| pair(x, f64::to_le_bytes), each),
    }
}

/// The bytes of the real part, then those of the imaginary one.
fn pair<T, const PART: usize, const BOTH: usize>(
    x: Complex<T>,
    convert: impl Fn(T) -> [u8; PART],
) -> [u8; BOTH] {
    let mut bytes = [0; BOTH];
    let (real, imag) = bytes.split_at_mut(PART);
    real.copy_from_slice(&convert(x.re));
    imag.copy_from_slice(&convert(x.im));
    bytes
}

fn convert<T: Element, const N: usize, E>(
    x: &Array,
    convert: impl Fn(T) -> [u8; N],
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    /// The number of elements converted at a time.
    const CHUNK: usize = 4096;
    let x = x.to(cpu()).to_row_major();
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
        each(bytes.as_flattened())?;
    }
    Ok(())
}
