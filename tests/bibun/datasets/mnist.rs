//! Files of MNIST in order and out of order, and digits that are drawn.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use bibun::datasets::{Digits, IdxError, LabeledImages, mnist};
use flate2::Compression;
use flate2::write::GzEncoder;

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    /// Three images to train and two to test.
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("bibun-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let folder = Self(folder);
        for (part, count) in [("train", 3), ("t10k", 2)] {
            folder.write(&format!("{part}-images-idx3-ubyte"), &images(count));
            folder.write(&format!("{part}-labels-idx1-ubyte"), &labels(count));
        }
        folder
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.0.join(name), bytes).unwrap();
    }

    fn error(&self) -> IdxError {
        mnist(&self.0).unwrap_err()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn header(numbers: &[u32]) -> Vec<u8> {
    numbers
        .iter()
        .flat_map(|number| number.to_be_bytes())
        .collect()
}

fn images(count: u32) -> Vec<u8> {
    let mut bytes = header(&[2051, count, 28, 28]);
    bytes.extend((0..count * 784).map(|i| (i % 251) as u8));
    bytes
}

fn labels(count: u32) -> Vec<u8> {
    let mut bytes = header(&[2049, count]);
    bytes.extend((0..count).map(|i| (i % 10) as u8));
    bytes
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

const IMAGES: &str = "train-images-idx3-ubyte";
const LABELS: &str = "train-labels-idx1-ubyte";

#[test]
fn files_plain_or_compressed_by_either_name() {
    let folder = Folder::new("plain");
    let plain = mnist(&folder.0).unwrap();
    assert_eq!((plain.train.len(), plain.test.len()), (3, 2));
    assert_eq!(
        plain.train.pixels(1)[..3],
        [(784 % 251) as u8, (785 % 251) as u8, (786 % 251) as u8]
    );
    assert_eq!([0, 1, 2].map(|i| plain.train.label(i)), [0, 1, 2]);
    let (x, t) = plain.train.batch(&[2, 0]);
    assert_eq!(
        (x.shape(), t.to_vec::<i64>()),
        (&[2, 784].into(), vec![2, 0])
    );
    assert_eq!(x.to_vec::<f32>()[784 + 250], 250.0 / 255.0);

    folder.write(LABELS, &compressed(&labels(3)));
    fs::remove_file(folder.0.join(IMAGES)).unwrap();
    folder.write(&format!("{IMAGES}.gz"), &compressed(&images(3)));
    assert_eq!(mnist(&folder.0).unwrap().train, plain.train);
}

#[test]
fn a_missing_file_is_named() {
    let folder = Folder::new("missing");
    fs::remove_file(folder.0.join("t10k-labels-idx1-ubyte")).unwrap();
    let error = folder.error();
    assert!(
        matches!(&error, IdxError::Missing { file, .. } if file.ends_with("t10k-labels-idx1-ubyte"))
    );
    let message = error.to_string();
    assert!(
        message.contains("no such file") && message.contains(".gz; expected"),
        "{message}"
    );
}

#[test]
fn a_folder_in_place_of_a_file() {
    let folder = Folder::new("folder");
    fs::remove_file(folder.0.join(LABELS)).unwrap();
    fs::create_dir(folder.0.join(LABELS)).unwrap();
    assert!(matches!(folder.error(), IdxError::Io { file, .. } if file.ends_with(LABELS)));
}

#[test]
fn wrong_magic() {
    let folder = Folder::new("magic");
    folder.write(LABELS, &images(3));
    let error = folder.error();
    assert!(matches!(
        error,
        IdxError::Magic {
            found: 2051,
            expected: 2049,
            ..
        }
    ));
    let message = error.to_string();
    assert!(
        message.contains("begins with 2051, expected 2049"),
        "{message}"
    );
    assert!(message.contains(LABELS), "{message}");
}

#[test]
fn files_that_end_early() {
    let folder = Folder::new("early");
    let whole = images(3);
    for length in [0, 3, 4, 10, 16, 17, whole.len() - 1] {
        folder.write(IMAGES, &whole[..length]);
        let error = folder.error();
        let IdxError::Truncated {
            file,
            found,
            expected,
        } = &error
        else {
            panic!("{error}")
        };
        assert!(
            file.ends_with(IMAGES) && *found == length as u64 && expected > found,
            "{error}"
        );
    }
    // The claim is far beyond the file, and nothing is asked for in its name.
    let mut hostile = header(&[2051, 1_000_000, 28, 28]);
    hostile.extend([0; 100]);
    folder.write(IMAGES, &hostile);
    assert!(matches!(
        folder.error(),
        IdxError::Truncated {
            found: 116,
            expected: 784_000_016,
            ..
        }
    ));
}

#[test]
fn compressed_files_that_end_early_or_are_damaged() {
    let folder = Folder::new("damaged");
    let whole = compressed(&images(3));
    for length in 2..whole.len() {
        folder.write(IMAGES, &whole[..length]);
        let error = folder.error();
        let named = match &error {
            IdxError::Truncated { file, .. } | IdxError::Io { file, .. } => file,
            _ => panic!("{length} bytes: {error}"),
        };
        assert!(named.ends_with(IMAGES));
    }
    let mut damaged = whole;
    let checksum = damaged.len() - 6;
    damaged[checksum] ^= 1;
    folder.write(IMAGES, &damaged);
    assert!(matches!(folder.error(), IdxError::Io { .. }));
}

#[test]
fn files_that_do_not_end() {
    let folder = Folder::new("trailing");
    for compress in [false, true] {
        let mut long = images(3);
        long.push(7);
        folder.write(IMAGES, &if compress { compressed(&long) } else { long });
        let error = folder.error();
        assert!(
            matches!(error, IdxError::TrailingBytes { expected: 2368, .. }),
            "{error}"
        );
        assert!(error.to_string().contains("goes on after 2368 bytes"));
    }
}

#[test]
fn sizes_that_cannot_be() {
    let folder = Folder::new("sizes");
    for (numbers, what, found) in [
        ([2051, 0, 28, 28], "count", 0),
        ([2051, u32::MAX, 28, 28], "count", u32::MAX),
        ([2051, 3, 27, 28], "height of the images", 27),
        ([2051, 3, 28, u32::MAX], "width of the images", u32::MAX),
    ] {
        folder.write(IMAGES, &header(&numbers));
        let error = folder.error();
        assert!(
            matches!(&error, IdxError::Size { what: w, found: f, .. } if *w == what && *f == found),
            "{error}"
        );
        assert!(
            error
                .to_string()
                .contains(&format!("the {what} is {found}, expected"))
        );
    }
}

#[test]
fn labels_that_do_not_fit() {
    let folder = Folder::new("labels");
    folder.write(LABELS, &labels(4));
    let error = folder.error();
    assert!(matches!(
        error,
        IdxError::Count {
            labels: 4,
            images: 3,
            ..
        }
    ));
    assert!(
        error
            .to_string()
            .contains("4 labels, expected one for each of the 3 images")
    );

    let mut wrong = labels(3);
    wrong[9] = 10;
    folder.write(LABELS, &wrong);
    let error = folder.error();
    assert!(matches!(
        error,
        IdxError::Label {
            index: 1,
            found: 10,
            ..
        }
    ));
    assert!(error.to_string().contains("label 1 is 10, expected 0 to 9"));
}

#[test]
fn digits_are_the_same_however_they_are_asked_for() {
    let digits = Digits::new(5);
    let all = digits.images(0..40);
    for i in [0, 17, 39] {
        let one = digits.images(i..i + 1);
        assert_eq!(
            (one.pixels(0), one.label(0)),
            (all.pixels(i as usize), all.label(i as usize))
        );
    }
    assert_eq!(digits.images(u64::MAX - 1..u64::MAX).len(), 1);
    assert_ne!(Digits::new(6).images(0..40), all);
}

#[test]
fn digits_have_some_ink_and_all_classes() {
    let images = Digits::new(1).images(0..2000);
    let mut counts = [0; 10];
    for i in 0..images.len() {
        counts[images.label(i) as usize] += 1;
        let ink: usize = images
            .pixels(i)
            .iter()
            .map(|&pixel| usize::from(pixel))
            .sum();
        let share = ink as f64 / (255.0 * 784.0);
        assert!((0.01..0.4).contains(&share), "image {i}: {share}");
    }
    assert!(
        counts.iter().all(|count| (140..260).contains(count)),
        "{counts:?}"
    );
}

/// The nearest mean image of each class reads about every other digit (chance would read one in
/// ten): they look like their classes, and yet there is much to learn.
#[test]
fn digits_are_neither_noise_nor_stencils() {
    let train = Digits::new(2).images(0..4000);
    let means = means(&train);
    let test = Digits::new(2).images(4000..5000);
    let right = (0..test.len())
        .filter(|&i| {
            let distance = |mean: &[f64]| -> f64 {
                let pixels = test.pixels(i).iter();
                pixels
                    .zip(mean)
                    .map(|(&pixel, mean)| (f64::from(pixel) - mean).powi(2))
                    .sum()
            };
            let nearest =
                (0..10).min_by(|&a, &b| distance(&means[a]).total_cmp(&distance(&means[b])));
            nearest == Some(usize::from(test.label(i)))
        })
        .count();
    assert!((400..800).contains(&right), "{right} of 1000");
}

fn means(images: &LabeledImages) -> Vec<Vec<f64>> {
    let mut sums = vec![vec![0.0; 784]; 10];
    let mut counts = [0.0; 10];
    for i in 0..images.len() {
        let class = usize::from(images.label(i));
        counts[class] += 1.0;
        for (sum, &pixel) in sums[class].iter_mut().zip(images.pixels(i)) {
            *sum += f64::from(pixel);
        }
    }
    for (sum, count) in sums.iter_mut().zip(counts) {
        sum.iter_mut().for_each(|x| *x /= count);
    }
    sums
}
