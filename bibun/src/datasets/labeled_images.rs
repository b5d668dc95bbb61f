//! Grey images in memory.

use bibun_array::{Array, Generator};

use super::{Batch, DataError, Dataset};

/// Grey images of one size, each with its class.
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
    pub(super) height: usize,
    pub(super) width: usize,
    pub(super) pixels: Vec<u8>,
    pub(super) labels: Vec<u8>,
}

impl LabeledImages {
    /// Returns the number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Returns whether there are no images.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Returns the number of rows of an image.
    pub fn height(&self) -> usize {
        self.height
    }

    /// Returns the number of columns of an image.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the pixels of an image, row after row, from 0 for the background to 255 for full
    /// ink.
    ///
    /// # Panics
    /// Panics if there is no such image.
    pub fn pixels(&self, index: usize) -> &[u8] {
        let size = self.height * self.width;
        &self.pixels[index * size..][..size]
    }

    /// Returns an image as f32 from 0 to 1, `[1, height, width]`, the shape for convolutions.
    ///
    /// # Panics
    /// Panics if there is no such image.
    ///
    /// ```
    /// use bibun::datasets::Digits;
    /// let images = Digits::new(0).images(0..3);
    /// assert_eq!(images.image(2).shape(), &[1, 28, 28]);
    /// ```
    pub fn image(&self, index: usize) -> Array {
        let (image, _) = self.batch(&[index]);
        image.reshape([1, self.height, self.width])
    }

    /// Returns the classes of all images.
    pub fn labels(&self) -> &[u8] {
        &self.labels
    }

    /// Returns the same images with examples of the shape `[1, height, width]`.
    ///
    /// ```
    /// use bibun::datasets::{DataLoader, Digits};
    /// let planes = Digits::new(0).images(0..100).planes();
    /// let (x, t) = DataLoader::new(planes, 32).next_batch()?;
    /// assert_eq!((x.shape(), t.shape()), (&[32, 1, 28, 28].into(), &[32].into()));
    /// # Ok::<(), bibun::datasets::DataError>(())
    /// ```
    pub fn planes(self) -> Planes {
        Planes(self)
    }

    /// Returns the class of an image.
    ///
    /// # Panics
    /// Panics if there is no such image.
    pub fn label(&self, index: usize) -> u8 {
        self.labels[index]
    }

    /// Returns the images with these indices as f32 from 0 to 1, `[n, height · width]`, and their
    /// classes as i64, `[n]`.
    ///
    /// # Panics
    /// Panics if there is no such image.
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

/// An example is an image as f32 from 0 to 1, `[height · width]`, and its class.
impl Dataset for LabeledImages {
    type Example = (Array, i64);

    fn len(&self) -> usize {
        self.labels.len()
    }

    fn example(&self, index: usize, _: &mut Generator) -> Result<(Array, i64), DataError> {
        let (image, _) = self.batch(&[index]);
        Ok((
            image.reshape(self.height * self.width),
            self.label(index).into(),
        ))
    }

    fn gathered(&self, indices: &[usize]) -> Option<Result<Batch<Self>, DataError>> {
        Some(Ok(self.batch(indices)))
    }
}

/// [`LabeledImages`] in the shape for convolutions: an example is an image `[1, height, width]` and
/// its class. Made by [`LabeledImages::planes`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Planes(LabeledImages);

impl Planes {
    /// Returns the images.
    pub fn images(&self) -> &LabeledImages {
        &self.0
    }
}

impl Dataset for Planes {
    type Example = (Array, i64);

    fn len(&self) -> usize {
        self.0.len()
    }

    fn example(&self, index: usize, _: &mut Generator) -> Result<(Array, i64), DataError> {
        Ok((self.0.image(index), self.0.label(index).into()))
    }

    fn gathered(&self, indices: &[usize]) -> Option<Result<Batch<Self>, DataError>> {
        let (x, t) = self.0.batch(indices);
        Some(Ok((
            x.reshape([indices.len(), 1, self.0.height, self.0.width]),
            t,
        )))
    }
}
