//! Transforms of examples, mostly of images `[channels, height, width]`, for
//! [`Dataset::map`](super::Dataset::map).
//!
//! Each transform draws only from the stream that it is given, so that an epoch can be repeated. A
//! plain closure combines them:
//!
//! ```
//! use bibun::datasets::transforms::{random_crop, random_flip};
//! use bibun::datasets::{DataLoader, Dataset, Digits};
//! let images = Digits::new(0).images(0..64).planes();
//! let augmented = images.map(|(image, class), random| {
//!     let image = random_crop(&image, [28, 28], 2, random);
//!     Ok((random_flip(&image, 0.5, random), class))
//! });
//! let (x, _) = DataLoader::new(augmented, 32).shuffle(0).next_batch()?;
//! assert_eq!(x.shape(), &[32, 1, 28, 28]);
//! # Ok::<(), bibun::datasets::DataError>(())
//! ```

use std::ops::RangeInclusive;

use bibun_array::{Array, DType, Generator, Shape, s};

use super::DataError;
use crate::error::{Error, raise};

/// The mean and standard deviation of each channel, that is, of each slice along the first axis of
/// an example: the planes of an image or the columns of a table.
#[derive(Clone, PartialEq, Debug)]
pub struct Statistics {
    /// The means.
    pub mean: Vec<f64>,
    /// The standard deviations (of the population: divided by the count).
    pub std: Vec<f64>,
}

impl Statistics {
    /// Computes the statistics of examples, in one pass. Source: Chan, Golub, LeVeque, "Updating
    /// formulae and a pairwise algorithm for computing sample variances", 1979.
    ///
    /// # Errors
    /// Returns the first error among the examples, [`DataError::Empty`] if there are no elements,
    /// and [`DataError::Shapes`] if their first axes differ.
    ///
    /// ```
    /// use bibun::array::Array;
    /// use bibun::datasets::transforms::Statistics;
    /// let rows = [[1.0, 10.0], [3.0, 10.0]].map(Array::from);
    /// let statistics = Statistics::of(rows.iter().cloned().map(Ok))?;
    /// assert_eq!(statistics.mean, [2.0, 10.0]);
    /// assert_eq!(statistics.std, [1.0, 0.0]);
    /// // A channel that does not vary is moved to 0.
    /// assert_eq!(statistics.normalize(&rows[0]).to_vec::<f64>(), [-1.0, 0.0]);
    /// # Ok::<(), bibun::datasets::DataError>(())
    /// ```
    pub fn of(
        examples: impl IntoIterator<Item = Result<Array, DataError>>,
    ) -> Result<Self, DataError> {
        struct Sums {
            shape: bibun_array::Shape,
            count: f64,
            mean: Vec<f64>,
            squares: Vec<f64>,
        }
        let mut sums: Option<Sums> = None;
        for example in examples {
            let example = example?;
            let channels = channels_of("Statistics", &example);
            let sums = sums.get_or_insert_with(|| Sums {
                shape: example.shape().clone(),
                count: 0.0,
                mean: vec![0.0; channels],
                squares: vec![0.0; channels],
            });
            if sums.mean.len() != channels {
                return Err(DataError::Shapes {
                    left: sums.shape.clone(),
                    right: example.shape().clone(),
                });
            }
            let elements = example.size() / channels.max(1);
            if elements == 0 {
                continue;
            }
            let values = example.cast(DType::F64).to_vec::<f64>();
            let count = elements as f64;
            let total = sums.count + count;
            for (channel, values) in values.chunks_exact(elements).enumerate() {
                let mean = values.iter().sum::<f64>() / count;
                let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
                let off = mean - sums.mean[channel];
                sums.mean[channel] += off * count / total;
                sums.squares[channel] += squares + off * off * sums.count * count / total;
            }
            sums.count = total;
        }
        let sums = sums
            .filter(|sums| sums.count > 0.0)
            .ok_or(DataError::Empty)?;
        let std = sums
            .squares
            .iter()
            .map(|squares| (squares / sums.count).sqrt());
        Ok(Self {
            std: std.collect(),
            mean: sums.mean,
        })
    }

    /// Subtracts the mean from an example and divides it by the standard deviation (by 1 where that
    /// is 0).
    ///
    /// # Panics
    /// Panics as [`normalize`] does.
    #[track_caller]
    pub fn normalize(&self, example: &Array) -> Array {
        let divisors: Vec<f64> = self
            .std
            .iter()
            .map(|&std| if std == 0.0 { 1.0 } else { std })
            .collect();
        normalize(example, &self.mean, &divisors)
    }
}

/// Computes `(x - mean) / std` with a mean and a standard deviation for each slice along the first
/// axis, in the dtype of `x`.
///
/// # Panics
/// Panics if `x` is not of floats, or the length of its first axis differs from that of `mean` or
/// `std`.
///
/// ```
/// use bibun::array::Array;
/// use bibun::datasets::transforms::normalize;
/// let image = Array::from([[[1.0, 3.0]], [[5.0, 5.0]]]);
/// let y = normalize(&image, &[2.0, 5.0], &[0.5, 1.0]);
/// assert_eq!(y.to_vec::<f64>(), [-2.0, 2.0, 0.0, 0.0]);
/// ```
#[track_caller]
pub fn normalize(x: &Array, mean: &[f64], std: &[f64]) -> Array {
    let channels = channels_of("normalize", x);
    if !x.dtype().is_float() || mean.len() != channels || std.len() != channels {
        let what = format!(
            "x is {} {}, with {} means and {} standard deviations; it must be of floats, with one of each along its first axis",
            x.dtype(),
            x.shape(),
            mean.len(),
            std.len()
        );
        raise(Error::argument("normalize", what));
    }
    let shape: Vec<usize> = (0..x.rank())
        .map(|axis| if axis == 0 { channels } else { 1 })
        .collect();
    let [mean, std] = [mean, std].map(|list| Array::from(list).cast(x.dtype()).reshape(&shape));
    &(x - &mean) / &std
}

#[track_caller]
fn channels_of(function: &'static str, x: &Array) -> usize {
    match x.shape().first() {
        Some(&channels) => channels,
        None => raise(Error::argument(function, "a single number has no channels")),
    }
}

/// Returns channels, height and width.
#[track_caller]
fn image_size(function: &'static str, image: &Array) -> [usize; 3] {
    match image.shape().dims() {
        Some(size) => size,
        None => {
            let what = format!(
                "the image is {}, expected [channels, height, width]",
                image.shape()
            );
            raise(Error::argument(function, what))
        }
    }
}

fn unit(random: &mut Generator) -> f64 {
    random.uniform((), 0.0, 1.0, DType::F64).item()
}

fn between(range: &RangeInclusive<f64>, random: &mut Generator) -> f64 {
    range.start() + (range.end() - range.start()) * unit(random)
}

fn below(count: usize, random: &mut Generator) -> usize {
    random.integers(0, count as i64, ()).item::<i64>() as usize
}

/// Crops a window of `[height, width]` at a random position of the image, after padding it with
/// `padding` zeros (or `false`) on all sides. It may be part of a [compiled](crate::compile) function.
///
/// # Panics
/// Panics if `image` is not `[channels, height, width]` or the window is larger than the padded
/// image.
///
/// ```
/// use bibun::array::{Array, DType, Generator};
/// use bibun::datasets::transforms::random_crop;
/// let image = Array::ones([3, 32, 32], DType::F32);
/// let crop = random_crop(&image, [32, 32], 4, &mut Generator::new(0));
/// assert_eq!(crop.shape(), &[3, 32, 32]);
/// ```
#[track_caller]
pub fn random_crop(
    image: &Array,
    [height, width]: [usize; 2],
    padding: usize,
    random: &mut Generator,
) -> Array {
    let [channels, rows, columns] = image_size("random_crop", image);
    let padded = |size: usize| size.saturating_add(padding).saturating_add(padding);
    let (padded_rows, padded_columns) = (padded(rows), padded(columns));
    let shape = Shape::from([channels, padded_rows, padded_columns]).addressable("random_crop");
    if height > padded_rows || width > padded_columns {
        let what = format!(
            "a window of {height} x {width} does not fit into {padded_rows} x {padded_columns}"
        );
        raise(Error::argument("random_crop", what));
    }
    let mut below = |count: usize| random.integers(0, count as i64, ());
    let top = below(padded_rows - height + 1);
    let left = below(padded_columns - width + 1);
    let window = |image: &Array| match (top.known_item::<i64>(), left.known_item::<i64>()) {
        (Some(top), Some(left)) => {
            let [top, left] = [top, left].map(|first| first as isize);
            let [bottom, right] = [top + height as isize, left + width as isize];
            image.slice(s![.., top..bottom, left..right]).to_row_major()
        }
        // The place is not known while a function is traced.
        _ => {
            let from = |first: &Array, size: usize| Array::arange(0, size as i64) + first;
            let rows = image.take(&from(&top, height), 1);
            rows.take(&from(&left, width), 2)
        }
    };
    if padding == 0 {
        return window(image);
    }
    let mut padded = Array::zeros(shape, image.dtype());
    let [p, bottom, right] = [padding, padding + rows, padding + columns].map(|x| x as isize);
    padded.assign(s![.., p..bottom, p..right], image);
    window(&padded)
}

/// Mirrors the image from left to right, with this probability. It may be part of a
/// [compiled](crate::compile) function.
///
/// # Panics
/// Panics if `image` is not `[channels, height, width]`.
///
/// ```
/// use bibun::array::{Array, Generator};
/// use bibun::datasets::transforms::random_flip;
/// let image = Array::from([[[1.0, 2.0, 3.0]]]);
/// let flipped = random_flip(&image, 1.0, &mut Generator::new(0));
/// assert_eq!(flipped.to_vec::<f64>(), [3.0, 2.0, 1.0]);
/// ```
#[track_caller]
pub fn random_flip(image: &Array, probability: f64, random: &mut Generator) -> Array {
    let [_, _, width] = image_size("random_flip", image);
    let drawn = random.uniform((), 0.0, 1.0, DType::F64);
    match drawn.known_item::<f64>() {
        Some(drawn) if drawn < probability => image.flip(&[2]).to_row_major(),
        Some(_) => image.clone(),
        // It is not known while a function is traced.
        None => {
            let columns = Array::arange(0, width as i64);
            let chosen = drawn.less(probability).where_(columns.flip(&[0]), columns);
            image.take(&chosen, 2)
        }
    }
}

/// The limits of [`random_affine`]. They default to no change.
///
/// ```
/// use bibun::datasets::transforms::Affine;
/// let some = Affine { degrees: 10.0, shift: 0.1, scale: 0.9..=1.1, ..Affine::default() };
/// assert_eq!(some.shear, 0.0);
/// ```
#[derive(Clone, PartialEq, Debug)]
pub struct Affine {
    /// The largest angle in degrees, in either direction.
    pub degrees: f64,
    /// The largest shift along either axis, as a fraction of its length.
    pub shift: f64,
    /// The range of the factor by which the content is scaled.
    pub scale: RangeInclusive<f64>,
    /// The largest slant in degrees, in either direction.
    pub shear: f64,
}

impl Default for Affine {
    fn default() -> Self {
        Self {
            degrees: 0.0,
            shift: 0.0,
            scale: 1.0..=1.0,
            shear: 0.0,
        }
    }
}

/// Rotates, shifts, scales and slants the image about its centre at random, uniformly within the
/// limits. Values between pixels are interpolated linearly, and pixels from beyond the edges are 0.
///
/// # Panics
/// Panics if `image` is not `[channels, height, width]` of f32.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::datasets::Digits;
/// use bibun::datasets::transforms::{Affine, random_affine};
/// let image = Digits::new(0).images(0..1).image(0);
/// let some = Affine { degrees: 10.0, ..Affine::default() };
/// let turned = random_affine(&image, &some, &mut Generator::new(0));
/// assert_eq!(turned.shape(), image.shape());
/// ```
#[track_caller]
pub fn random_affine(image: &Array, limits: &Affine, random: &mut Generator) -> Array {
    let [channels, height, width] = image_size("random_affine", image);
    let image = image.to_row_major();
    let Some(pixels) = image.as_slice::<f32>() else {
        let what = format!("the image is of {}, expected f32", image.dtype());
        raise(Error::argument("random_affine", what));
    };
    let both_ways = |limit: f64| -limit..=limit;
    let angle = between(&both_ways(limits.degrees), random).to_radians();
    let slant = between(&both_ways(limits.shear), random).to_radians().tan();
    let scale = between(&limits.scale, random);
    let down = between(&both_ways(limits.shift), random) * height as f64;
    let right = between(&both_ways(limits.shift), random) * width as f64;

    // Maps a pixel of the result back to the position that it comes from.
    let (sin, cos) = angle.sin_cos();
    let (middle_y, middle_x) = ((height as f64 - 1.0) / 2.0, (width as f64 - 1.0) / 2.0);
    let origin = |row: usize, column: usize| {
        let y = (row as f64 - middle_y - down) / scale;
        let x = (column as f64 - middle_x - right) / scale;
        let (y, x) = (cos * y - sin * x, sin * y + cos * x);
        (y + middle_y, x - slant * y + middle_x)
    };
    let mut result = vec![0.0; pixels.len()];
    for row in 0..height {
        for column in 0..width {
            let (y, x) = origin(row, column);
            let (top, left) = (y.floor(), x.floor());
            let (lower, righter) = ((y - top) as f32, (x - left) as f32);
            let corners = [
                (0, 0, (1.0 - lower) * (1.0 - righter)),
                (0, 1, (1.0 - lower) * righter),
                (1, 0, lower * (1.0 - righter)),
                (1, 1, lower * righter),
            ];
            for (down, across, weight) in corners {
                let (from_row, from_column) = (top as i64 + down, left as i64 + across);
                let inside = (0..height as i64).contains(&from_row)
                    && (0..width as i64).contains(&from_column);
                if weight == 0.0 || !inside {
                    continue;
                }
                let from = from_row as usize * width + from_column as usize;
                for plane in (0..channels).map(|channel| channel * height * width) {
                    result[plane + row * width + column] += weight * pixels[plane + from];
                }
            }
        }
    }
    Array::from_vec(result, [channels, height, width])
}

/// Sets a rectangle of the image to 0, with this probability: 2 to 33 percent of its area, with
/// sides between 3:10 and 10:3. Rectangles that do not fit are cut to the image. Source: Zhong,
/// Zheng, Kang, Li, Yang, "Random erasing data augmentation", 2017.
///
/// # Panics
/// Panics if `image` is not `[channels, height, width]`.
///
/// ```
/// use bibun::array::{Array, DType, Generator};
/// use bibun::datasets::transforms::random_erasing;
/// let image = Array::ones([1, 20, 20], DType::F32);
/// let erased = random_erasing(&image, 1.0, &mut Generator::new(0));
/// assert!(erased.sum(..).item::<f32>() < 400.0);
/// ```
#[track_caller]
pub fn random_erasing(image: &Array, probability: f64, random: &mut Generator) -> Array {
    let [_, height, width] = image_size("random_erasing", image);
    if unit(random) >= probability || height * width == 0 {
        return image.clone();
    }
    let area = between(&(0.02..=0.33), random) * (height * width) as f64;
    // Uniform on a logarithmic scale, so that tall and wide rectangles are equally likely.
    let ratio = (between(&(-1.0..=1.0), random) * f64::ln(10.0 / 3.0)).exp();
    let side = |length: f64, most: usize| (length.round() as usize).clamp(1, most);
    let rows = side((area * ratio).sqrt(), height);
    let columns = side((area / ratio).sqrt(), width);
    let top = below(height - rows + 1, random) as isize;
    let left = below(width - columns + 1, random) as isize;
    let mut erased = image.clone();
    let [bottom, right] = [top + rows as isize, left + columns as isize];
    erased.assign(
        s![.., top..bottom, left..right],
        &Array::full((), bibun_array::Scalar::zero(image.dtype())),
    );
    erased
}

/// Adds normally distributed noise to an array of floats, of any shape.
///
/// # Panics
/// Panics if `x` is not of floats or `std` is negative.
///
/// ```
/// use bibun::array::{Array, DType, Generator};
/// use bibun::datasets::transforms::add_noise;
/// let noisy = add_noise(&Array::zeros(1000, DType::F32), 0.1, &mut Generator::new(0));
/// assert!((noisy.std(.., 0).item::<f32>() - 0.1).abs() < 0.01);
/// ```
#[track_caller]
pub fn add_noise(x: &Array, std: f64, random: &mut Generator) -> Array {
    x + &random.normal(x.shape(), 0.0, std, x.dtype())
}

/// Returns a class as f32 `[classes]`: 1 at its index and 0 elsewhere.
///
/// # Panics
/// Panics if there is no such class.
///
/// ```
/// use bibun::datasets::transforms::one_hot;
/// assert_eq!(one_hot(1, 3).to_vec::<f32>(), [0.0, 1.0, 0.0]);
/// ```
#[track_caller]
pub fn one_hot(class: i64, classes: usize) -> Array {
    if usize::try_from(class).is_ok_and(|class| class < classes) {
        return Array::one_hot(&Array::scalar(class), classes, DType::F32);
    }
    let what = format!("there is no class {class} among {classes}");
    raise(Error::argument("one_hot", what))
}
