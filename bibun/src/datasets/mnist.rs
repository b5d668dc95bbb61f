//! The files of MNIST.
//!
//! Source: LeCun, Cortes, Burges, "The MNIST database of handwritten digits", 1998, which describes
//! the IDX format: a magic number, sizes as big-endian 32-bit numbers, then bytes. Fashion-MNIST,
//! KMNIST and others use it too.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;

use super::LabeledImages;

const IMAGE_MAGIC: u32 = 2051;
const LABEL_MAGIC: u32 = 2049;
const SIDE: usize = 28;
const CLASSES: u8 = 10;
/// The largest number of images or labels; a header that claims more is damaged.
const MOST: u32 = 1_000_000;

/// The MNIST data sets.
#[derive(Clone, Debug)]
pub struct Mnist {
    /// The 60,000 images for training.
    pub train: LabeledImages,
    /// The 10,000 images for testing.
    pub test: LabeledImages,
}

/// The reason why a file could not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdxError {
    /// The file does not exist, compressed or not.
    #[error("{0}: no such file, nor {0}.gz; expected {expected}", file.display())]
    Missing {
        /// The file, without `.gz`.
        file: PathBuf,
        /// The expected content.
        expected: &'static str,
    },
    /// An error of the operating system, or damaged compression.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The file begins with another magic number.
    #[error("{}: begins with {found}, expected {expected}: {what}", file.display())]
    Magic {
        /// The file.
        file: PathBuf,
        /// The number it begins with.
        found: u32,
        /// The number it should begin with.
        expected: u32,
        /// The content that this number stands for.
        what: &'static str,
    },
    /// The header claims an impossible size.
    #[error("{}: the {what} is {found}, expected {expected}", file.display())]
    Size {
        /// The file.
        file: PathBuf,
        /// The size that is wrong.
        what: &'static str,
        /// The size in the header.
        found: u32,
        /// The allowed sizes.
        expected: String,
    },
    /// The file ends early.
    #[error("{}: ends after {found} bytes, expected {expected} (uncompressed)", file.display())]
    Truncated {
        /// The file.
        file: PathBuf,
        /// The number of bytes in the file.
        found: u64,
        /// The expected number of bytes.
        expected: u64,
    },
    /// The file continues after its expected end.
    #[error("{}: goes on after {expected} bytes, where it should end (uncompressed)", file.display())]
    TrailingBytes {
        /// The file.
        file: PathBuf,
        /// The expected number of bytes.
        expected: u64,
    },
    /// A label is not a class.
    #[error("{}: label {index} is {found}, expected 0 to 9", file.display())]
    Label {
        /// The file.
        file: PathBuf,
        /// The position of the label, from 0.
        index: usize,
        /// The value of the label.
        found: u8,
    },
    /// The numbers of labels and images differ.
    #[error("{}: {labels} labels, expected one for each of the {images} images", file.display())]
    Count {
        /// The file with the labels.
        file: PathBuf,
        /// The number of labels in the file.
        labels: usize,
        /// The number of images.
        images: usize,
    },
}

/// Reads `train-images-idx3-ubyte`, `train-labels-idx1-ubyte` and the same with `t10k` from a
/// folder, each uncompressed or compressed with the extension `.gz`.
///
/// A file may hold a million images, which is 784 MB. Memory is allocated only as data arrives, at
/// most as much again at a time, whatever the header claims.
///
/// # Errors
/// Returns an error if a file is missing, ends early, is too long, or has other content than
/// expected. The error names the file and what was expected.
///
/// ```
/// use bibun::datasets::{IdxError, mnist};
/// let error = mnist("no/such/folder").unwrap_err();
/// assert!(matches!(error, IdxError::Missing { .. }));
/// assert!(error.to_string().starts_with("no/such/folder/train-images-idx3-ubyte: no such file"));
/// ```
pub fn mnist(folder: impl AsRef<Path>) -> Result<Mnist, IdxError> {
    let folder = folder.as_ref();
    Ok(Mnist {
        train: labeled_images(folder, "train")?,
        test: labeled_images(folder, "t10k")?,
    })
}

/// Reads Fashion-MNIST (Xiao, Rasul, Vollgraf, 2017) from a folder; its files have the names and
/// the format of those of [`mnist`].
///
/// # Errors
/// Returns an error as [`mnist`] does.
///
/// ```
/// use bibun::datasets::{IdxError, fashion_mnist};
/// assert!(matches!(fashion_mnist("no/such/folder"), Err(IdxError::Missing { .. })));
/// ```
pub fn fashion_mnist(folder: impl AsRef<Path>) -> Result<Mnist, IdxError> {
    mnist(folder)
}

fn labeled_images(folder: &Path, part: &str) -> Result<LabeledImages, IdxError> {
    let images = folder.join(format!("{part}-images-idx3-ubyte"));
    let labels = folder.join(format!("{part}-labels-idx1-ubyte"));

    let mut reader = Idx::open(&images, "images of 28 x 28 bytes")?;
    reader.expect_magic(IMAGE_MAGIC)?;
    let count = reader.read_count()?;
    reader.expect_side("height of the images")?;
    reader.expect_side("width of the images")?;
    let pixels = reader.read_rest(count * SIDE * SIDE)?;

    let mut reader = Idx::open(&labels, "labels of a byte")?;
    reader.expect_magic(LABEL_MAGIC)?;
    let label_count = reader.read_count()?;
    if label_count != count {
        return Err(IdxError::Count {
            file: reader.file,
            labels: label_count,
            images: count,
        });
    }
    let labels = reader.read_rest(count)?;
    if let Some(index) = labels.iter().position(|&label| label >= CLASSES) {
        return Err(IdxError::Label {
            file: reader.file,
            index,
            found: labels[index],
        });
    }
    Ok(LabeledImages {
        height: SIDE,
        width: SIDE,
        pixels,
        labels,
    })
}

/// An IDX file that is being read.
struct Idx {
    file: PathBuf,
    /// The expected content.
    content: &'static str,
    reader: Box<dyn Read>,
    /// The bytes read so far, after decompression.
    position: u64,
}

impl Idx {
    /// Opens `file`, or `file.gz` if `file` does not exist. The first bytes show whether it is
    /// compressed, because some programs decompress without changing the name.
    fn open(file: &Path, content: &'static str) -> Result<Self, IdxError> {
        let mut compressed = file.as_os_str().to_owned();
        compressed.push(".gz");
        let candidates = [file.to_owned(), compressed.into()];
        for candidate in candidates {
            match open_either(&candidate) {
                Ok(reader) => {
                    return Ok(Self {
                        file: candidate,
                        content,
                        reader,
                        position: 0,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => {
                    return Err(IdxError::Io {
                        file: candidate,
                        source,
                    });
                }
            }
        }
        Err(IdxError::Missing {
            file: file.to_owned(),
            expected: content,
        })
    }

    fn expect_magic(&mut self, expected: u32) -> Result<(), IdxError> {
        let found = self.read_number()?;
        if found == expected {
            return Ok(());
        }
        Err(IdxError::Magic {
            file: self.file.clone(),
            found,
            expected,
            what: self.content,
        })
    }

    fn read_count(&mut self) -> Result<usize, IdxError> {
        match self.read_number()? {
            found @ 1..=MOST => Ok(found as usize),
            found => Err(self.size("count", found, format!("1 to {MOST}"))),
        }
    }

    fn expect_side(&mut self, what: &'static str) -> Result<(), IdxError> {
        match self.read_number()? {
            found if found as usize == SIDE => Ok(()),
            found => Err(self.size(what, found, SIDE.to_string())),
        }
    }

    fn size(&self, what: &'static str, found: u32, expected: String) -> IdxError {
        IdxError::Size {
            file: self.file.clone(),
            what,
            found,
            expected,
        }
    }

    fn read_number(&mut self) -> Result<u32, IdxError> {
        let bytes = self.read(4)?;
        let bytes = bytes.try_into().expect("a number has four bytes");
        Ok(u32::from_be_bytes(bytes))
    }

    /// Reads the remaining bytes, of which there must be exactly `expected`.
    fn read_rest(&mut self, expected: usize) -> Result<Vec<u8>, IdxError> {
        let bytes = self.read(expected)?;
        // This also makes the decompressor check its checksum.
        match self.reader.read(&mut [0]) {
            Ok(0) => Ok(bytes),
            Ok(_) => Err(IdxError::TrailingBytes {
                file: self.file.clone(),
                expected: self.position,
            }),
            Err(source) => Err(self.io(source)),
        }
    }

    fn io(&self, source: io::Error) -> IdxError {
        IdxError::Io {
            file: self.file.clone(),
            source,
        }
    }

    /// Reads exactly `length` bytes. The list grows with the data that is there, not with the
    /// claimed length.
    fn read(&mut self, length: usize) -> Result<Vec<u8>, IdxError> {
        const LEAST: usize = 1 << 16;
        let mut bytes = Vec::new();
        while bytes.len() < length {
            // The header's claim is not trusted: there is room for as much again as has been read.
            let more = bytes.len().max(LEAST).min(length - bytes.len());
            let reserved = bytes.try_reserve_exact(more).map_err(io::Error::from);
            let mut part = self.reader.by_ref().take(more as u64);
            match reserved.and_then(|()| part.read_to_end(&mut bytes)) {
                Ok(read) if read == more => {}
                Ok(_) => break,
                // A compressed file that was cut off is reported as ending early, like any other.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                Err(source) => return Err(self.io(source)),
            }
        }
        if bytes.len() < length {
            return Err(IdxError::Truncated {
                file: self.file.clone(),
                found: self.position + bytes.len() as u64,
                expected: self.position + length as u64,
            });
        }
        self.position += length as u64;
        Ok(bytes)
    }
}

fn open_either(file: &Path) -> io::Result<Box<dyn Read>> {
    let mut reader = BufReader::with_capacity(1 << 16, File::open(file)?);
    let mut start = Vec::new();
    reader.by_ref().take(2).read_to_end(&mut start)?;
    reader.rewind()?;
    match start[..] {
        [0x1f, 0x8b] => Ok(Box::new(MultiGzDecoder::new(reader))),
        _ => Ok(Box::new(reader)),
    }
}
