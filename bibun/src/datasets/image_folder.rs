//! Images in folders.

use std::fs;
use std::path::{Path, PathBuf};

use bibun_array::{Array, DType, Generator};
use image::imageops::FilterType;
use image::{ColorType, DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits};

use super::{DataError, Dataset};

/// Images in one folder per class: `root/class/*.png` (also `.jpg`, `.jpeg`), read and decoded when
/// they are requested.
///
/// Requires the feature `images`.
///
/// Classes are numbered in the order of their names, and images are in the order of class and name.
/// An example is an image as f32 from 0 to 1, `[channels, height, width]`, and its class. By
/// default, images have three colour channels and their original size; a batch needs images of one
/// size.
///
/// An image may have up to 16,384 pixels a side, and reading it, from its file to the resulting
/// array, may take 256 MiB of memory ([`memory_limit`](ImageFolder::memory_limit)). An image that
/// would take more is refused because of its header, before the memory is allocated.
///
/// ```
/// use bibun::datasets::{DataError, Dataset, ImageFolder};
/// let error = ImageFolder::open("no/such/folder").unwrap_err();
/// assert!(error.to_string().starts_with("no/such/folder: "));
/// # fn with_images(folder: &str) -> Result<(), DataError> {
/// let images = ImageFolder::open(folder)?.grey().resize(28, 28);
/// assert_eq!(images.classes(), ["cat", "dog"]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct ImageFolder {
    classes: Vec<String>,
    files: Vec<(PathBuf, usize)>,
    grey: bool,
    size: Option<(usize, usize)>,
    memory_limit: u64,
}

const LONGEST_SIDE: u32 = 1 << 14;
/// The fraction of the memory, as a divisor, that other contents of a file (texts, profiles,
/// unpacked rows) may take.
const PART_FOR_THE_REST: u64 = 8;
/// The number of pixels converted at a time.
const BAND: u32 = 1 << 16;

impl ImageFolder {
    /// Lists the images in the folder. Files whose names are not those of images are ignored, and
    /// so are names that begin with a dot.
    ///
    /// # Errors
    /// Returns an error if a folder cannot be read, or there are no images.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, DataError> {
        let root = root.as_ref();
        let folders = sorted(root)?.into_iter().filter(|path| path.is_dir());
        let (mut classes, mut files) = (Vec::new(), Vec::new());
        for folder in folders {
            let class = classes.len();
            let images = sorted(&folder)?.into_iter().filter(|path| is_image(path));
            files.extend(images.map(|file| (file, class)));
            let name = folder.file_name().unwrap_or_default();
            classes.push(name.to_string_lossy().into_owned());
        }
        if files.is_empty() {
            let what = "no images; expected folders named after classes, with .png or .jpg in them";
            return Err(DataError::format(root, what));
        }
        Ok(Self {
            classes,
            files,
            grey: false,
            size: None,
            memory_limit: 256 << 20,
        })
    }

    /// Reads images with one channel, the brightness.
    #[must_use]
    pub fn grey(mut self) -> Self {
        self.grey = true;
        self
    }

    /// Resizes every image to this size with a triangle filter (linear interpolation, or averages
    /// when it becomes smaller).
    ///
    /// # Panics
    /// Panics if a side is 0 or above 16,384.
    #[must_use]
    #[track_caller]
    pub fn resize(mut self, height: usize, width: usize) -> Self {
        let sides = 1..=LONGEST_SIDE as usize;
        if !sides.contains(&height) || !sides.contains(&width) {
            let what = format!("{height} x {width} pixels, expected 1 to {LONGEST_SIDE} a side");
            crate::error::raise(crate::Error::argument("resize", what));
        }
        self.size = Some((height, width));
        self
    }

    /// Sets the number of bytes of memory that reading one image may take. Defaults to 256 MiB.
    ///
    /// An image of 16 megapixels that is not resized becomes an array of 192 MB.
    ///
    /// ```
    /// # use bibun::datasets::{DataError, ImageFolder};
    /// # fn photographs(folder: &str) -> Result<ImageFolder, DataError> {
    /// Ok(ImageFolder::open(folder)?.memory_limit(1 << 30))
    /// # }
    /// ```
    #[must_use]
    pub fn memory_limit(mut self, bytes: u64) -> Self {
        self.memory_limit = bytes;
        self
    }

    /// Returns the names of the classes.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// Returns the class of every image.
    pub fn labels(&self) -> Vec<usize> {
        self.files.iter().map(|&(_, class)| class).collect()
    }

    /// Returns the file of an image.
    ///
    /// # Panics
    /// Panics if there is no such image.
    pub fn file(&self, index: usize) -> &Path {
        &self.files[index].0
    }

    fn read(&self, file: &Path) -> Result<Array, DataError> {
        let refused = |what: String| DataError::format(file, what);
        let wrong = |error: ImageError| refused(error.to_string());
        let io = |source| DataError::io(file, source);
        let mut limits = Limits::default();
        limits.max_image_width = Some(LONGEST_SIDE);
        limits.max_image_height = Some(LONGEST_SIDE);
        limits.max_alloc = Some(self.memory_limit / PART_FOR_THE_REST);
        let length = fs::metadata(file).map_err(io)?.len();
        let reader = ImageReader::open(file).and_then(ImageReader::with_guessed_format);
        let mut reader = reader.map_err(io)?;
        reader.limits(limits);
        let is_jpeg = reader.format() == Some(ImageFormat::Jpeg);
        // JPEG decoders read the whole file into memory.
        let in_file = if is_jpeg { 2 * length } else { 0 };
        let expect_room = |bytes: u64, of: &str| match bytes <= self.memory_limit {
            true => Ok(()),
            false => Err(refused(format!(
                "{of} takes {bytes} bytes of memory to read, the limit is {} \
                 (`ImageFolder::memory_limit`)",
                self.memory_limit
            ))),
        };
        expect_room(in_file, "a JPEG as large as this")?;
        let decoder = reader.into_decoder().map_err(wrong)?;
        let (width, height) = decoder.dimensions();
        let claim = Claim {
            size: [height.into(), width.into()],
            color: decoder.color_type(),
            is_jpeg,
        };
        let bytes = claim.memory(self.size, self.grey) + in_file;
        let bytes = bytes + self.memory_limit / PART_FOR_THE_REST;
        expect_room(bytes, &format!("an image of {width} x {height} pixels"))?;
        let mut image = DynamicImage::from_decoder(decoder).map_err(wrong)?;
        if let Some((height, width)) = self.size {
            image = image.resize_exact(width as u32, height as u32, FilterType::Triangle);
        }
        Ok(to_array(&image, self.grey))
    }
}

/// The properties that the header of an image claims.
struct Claim {
    size: [u64; 2],
    color: ColorType,
    is_jpeg: bool,
}

impl Claim {
    /// Returns the largest number of bytes in use at once between reading the header and having the
    /// array.
    fn memory(&self, new_size: Option<(usize, usize)>, grey: bool) -> u64 {
        let [height, width] = self.size;
        let pixel = u64::from(self.color.bytes_per_pixel());
        let decoded = height * width * pixel;
        // A progressive JPEG is assembled from its coefficients, of two bytes each, in blocks of up
        // to 32 pixels a side; one in colour may have four channels of them.
        let blocks = height.next_multiple_of(32) * width.next_multiple_of(32);
        let channels = if self.color.has_color() { 4 } else { 1 };
        let coefficients = if self.is_jpeg {
            2 * channels * blocks
        } else {
            0
        };
        let (resizing, [height, width]) = match new_size {
            None => (0, self.size),
            Some((new_height, new_width)) => {
                let [new_height, new_width] = [new_height as u64, new_width as u64];
                // Rows are resized first, in four channels of f32.
                let rows = 16 * new_height * width;
                (
                    rows + new_height * new_width * pixel,
                    [new_height, new_width],
                )
            }
        };
        // Buffers may have up to a quarter more capacity than they need.
        let array = height * width * if grey { 1 } else { 3 } * 4;
        let array = array + array / 4 + 16 * u64::from(BAND);
        decoded + coefficients.max(resizing).max(array)
    }
}

/// Converts an image to an array `[channels, height, width]`.
fn to_array(image: &DynamicImage, grey: bool) -> Array {
    let (height, width) = (image.height(), image.width());
    let channels = if grey { 1 } else { 3 };
    let shape = [channels, height as usize, width as usize];
    let mut array = Array::zeros(shape, DType::F32);
    let planes = array.as_mut_slice::<f32>();
    let size = height as usize * width as usize;
    // Converting in bands avoids a second array as large as the first.
    let rows = (BAND / width.max(1)).max(1);
    for top in (0..height).step_by(rows as usize) {
        let band = image.crop_imm(0, top, width, rows.min(height - top));
        let pixels = match grey {
            true => band.to_luma32f().into_raw(),
            false => band.to_rgb32f().into_raw(),
        };
        let start = top as usize * width as usize;
        for (i, pixel) in pixels.chunks_exact(channels).enumerate() {
            for (channel, &value) in pixel.iter().enumerate() {
                planes[channel * size + start + i] = value;
            }
        }
    }
    array
}

fn sorted(folder: &Path) -> Result<Vec<PathBuf>, DataError> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let entries = entries.map_err(|source| DataError::io(folder, source))?;
    let mut paths: Vec<PathBuf> = entries
        .into_iter()
        .filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."))
        .map(|entry| entry.path())
        .collect();
    paths.sort();
    Ok(paths)
}

fn is_image(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default().to_ascii_lowercase();
    ["png", "jpg", "jpeg"].iter().any(|known| ending == *known)
}

impl Dataset for ImageFolder {
    type Example = (Array, i64);

    fn len(&self) -> usize {
        self.files.len()
    }

    fn example(&self, index: usize, _: &mut Generator) -> Result<(Array, i64), DataError> {
        let (file, class) = &self.files[index];
        Ok((self.read(file)?, *class as i64))
    }
}
