//! Images in folders.

use std::fs;
use std::path::{Path, PathBuf};

use bibun_array::{Array, Generator};
use image::imageops::FilterType;
use image::{DynamicImage, ImageReader, Limits};

use super::{DataError, Dataset};

/// Images in one folder per class: `root/class/*.png` (also `.jpg`, `.jpeg`), read and decoded
/// when they are asked for.
///
/// Classes are numbered in the order of their names, and images come in the order of class and
/// name. An example is an image as f32 from 0 to 1, `[channels, height, width]`, and its class.
/// Images are three colours by default and as large as they are; a batch needs images of one size.
///
/// An image may have 16,384 pixels a side, and decoding it may take 256 MiB; whatever claims more
/// is refused before memory is asked for.
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
}

const LONGEST_SIDE: u32 = 1 << 14;
const MOST_MEMORY: u64 = 1 << 28;

impl ImageFolder {
    /// Looks which images there are. What is no image by its name is left alone, and so is what
    /// begins with a dot.
    ///
    /// # Errors
    /// If a folder cannot be read, or there are no images.
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
        })
    }

    /// One channel, the brightness.
    #[must_use]
    pub fn grey(mut self) -> Self {
        self.grey = true;
        self
    }

    /// Brings every image to this size, by triangles (linear interpolation; averages where it
    /// becomes smaller).
    ///
    /// # Panics
    /// If a side is 0 or above 16,384.
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

    /// The names of the classes.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The class of every image.
    pub fn labels(&self) -> Vec<usize> {
        self.files.iter().map(|&(_, class)| class).collect()
    }

    /// The file of an image.
    ///
    /// # Panics
    /// If there is no such image.
    pub fn file(&self, index: usize) -> &Path {
        &self.files[index].0
    }

    fn read(&self, file: &Path) -> Result<Array, DataError> {
        let mut limits = Limits::default();
        limits.max_image_width = Some(LONGEST_SIDE);
        limits.max_image_height = Some(LONGEST_SIDE);
        limits.max_alloc = Some(MOST_MEMORY);
        let reader = ImageReader::open(file).and_then(ImageReader::with_guessed_format);
        let mut reader = reader.map_err(|source| DataError::io(file, source))?;
        reader.limits(limits);
        let decoded = reader.decode();
        let mut image = decoded.map_err(|error| DataError::format(file, error.to_string()))?;
        if let Some((height, width)) = self.size {
            image = image.resize_exact(width as u32, height as u32, FilterType::Triangle);
        }
        Ok(to_array(&image, self.grey))
    }
}

/// `[channels, height, width]`.
fn to_array(image: &DynamicImage, grey: bool) -> Array {
    let size = [image.height() as usize, image.width() as usize];
    if grey {
        return Array::from_vec(image.to_luma32f().into_raw(), [1, size[0], size[1]]);
    }
    let pixels = Array::from_vec(image.to_rgb32f().into_raw(), [size[0], size[1], 3]);
    pixels.move_axis(2, 0).to_row_major()
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
