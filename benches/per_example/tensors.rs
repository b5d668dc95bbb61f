//! Arrays in a file, by name.

use std::borrow::Cow;
use std::error::Error;
use std::path::Path;

use bibun::array::{Array, DType};
use safetensors::{Dtype, SafeTensors, View};

/// The arrays that every library computes with.
#[derive(Debug)]
pub(crate) struct Tensors(Vec<u8>);

impl Tensors {
    pub(crate) fn read(path: &Path) -> Result<Self, Box<dyn Error>> {
        Ok(Self(std::fs::read(path)?))
    }

    /// The array of this name.
    pub(crate) fn get(&self, name: &str) -> Result<Array, Box<dyn Error>> {
        let tensors = SafeTensors::deserialize(&self.0)?;
        let tensor = tensors.tensor(name)?;
        let (data, shape) = (tensor.data(), tensor.shape());
        match tensor.dtype() {
            Dtype::F32 => {
                let words = data.as_chunks::<4>().0.iter();
                let elements: Vec<f32> = words.map(|&word| f32::from_le_bytes(word)).collect();
                Ok(Array::from_vec(elements, shape))
            }
            Dtype::I64 => {
                let words = data.as_chunks::<8>().0.iter();
                let elements: Vec<i64> = words.map(|&word| i64::from_le_bytes(word)).collect();
                Ok(Array::from_vec(elements, shape))
            }
            other => Err(format!("{name} has the type {other:?}").into()),
        }
    }
}

/// An array of floats on its way into a file.
struct Floats {
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl View for Floats {
    fn dtype(&self) -> Dtype {
        Dtype::F32
    }
    fn shape(&self) -> &[usize] {
        &self.shape
    }
    fn data(&self) -> Cow<'_, [u8]> {
        self.bytes.as_slice().into()
    }
    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// Writes arrays by their names, as f32.
pub(crate) fn write(
    path: &Path,
    arrays: impl IntoIterator<Item = (String, Array)>,
) -> Result<(), Box<dyn Error>> {
    let tensors = arrays.into_iter().map(|(name, array)| {
        let elements = array.cast(DType::F32).to_vec::<f32>();
        let bytes = elements.iter().flat_map(|x| x.to_le_bytes()).collect();
        let shape = array.shape().to_vec();
        (name, Floats { shape, bytes })
    });
    Ok(std::fs::write(
        path,
        safetensors::serialize(tensors, None)?,
    )?)
}
