//! Data sets: images of digits and the like, from files or drawn.
//!
//! [`mnist`] reads the files of MNIST and of all that came after it in its format. [`Digits`] needs
//! no files: it draws.

mod digits;
mod mnist;

pub use digits::Digits;
pub use mnist::{IdxError, Mnist, mnist};

use bibun_array::Array;

/// Grey images of one size, each with the class it belongs to.
///
/// ```
/// use bibun::datasets::Digits;
/// let images = Digits::new(0).images(0..100);
/// assert_eq!(images.len(), 100);
/// let (x, t) = images.batch(&[3, 1, 4]);
/// assert_eq!((x.shape(), t.shape()), (&[3, 784].into(), &[3].into()));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LabeledImages {
    height: usize,
    width: usize,
    pixels: Vec<u8>,
    labels: Vec<u8>,
}

impl LabeledImages {
    /// The number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Rows of an image.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Columns of an image.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The pixels of an image, row after row, 0 for the ground and 255 for full ink.
    ///
    /// # Panics
    /// If there is no such image.
    pub fn pixels(&self, index: usize) -> &[u8] {
        let size = self.height * self.width;
        &self.pixels[index * size..][..size]
    }

    /// The class of an image.
    ///
    /// # Panics
    /// If there is no such image.
    pub fn label(&self, index: usize) -> u8 {
        self.labels[index]
    }

    /// The images with these indices as f32 from 0 to 1, `[n, height · width]`, and their classes
    /// as i64, `[n]`.
    ///
    /// # Panics
    /// If there is no such image.
    pub fn batch(&self, indices: &[usize]) -> (Array, Array) {
        let size = self.height * self.width;
        let mut x = Vec::with_capacity(indices.len() * size);
        for &index in indices {
            x.extend(
                self.pixels(index)
                    .iter()
                    .map(|&pixel| f32::from(pixel) / 255.0),
            );
        }
        let t: Vec<i64> = indices
            .iter()
            .map(|&index| self.label(index).into())
            .collect();
        (Array::from_vec(x, [indices.len(), size]), Array::from(t))
    }
}
