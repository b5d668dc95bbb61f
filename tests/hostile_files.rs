//! Files that nobody should write, of every format that is read: they are refused, and no memory is
//! asked for that the file does not account for. The files of `fuzz/corpus`, crafted or found by
//! fuzzing, are replayed. `tools/file_storm` does the same for hours.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use bibun::array::{Array, Generator};
use bibun::datasets::{Classes, Csv, mnist};
use bibun::serializers::State;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

/// The system's allocator, which remembers the largest piece that was asked for, and the most bytes
/// that were in use at once.
struct Watched;

static LARGEST: AtomicUsize = AtomicUsize::new(0);
static IN_USE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn taken(size: usize) {
    LARGEST.fetch_max(size, Ordering::Relaxed);
    let in_use = IN_USE.fetch_add(size, Ordering::Relaxed) + size;
    MOST.fetch_max(in_use, Ordering::Relaxed);
}

fn given_back(size: usize) {
    IN_USE.fetch_sub(size, Ordering::Relaxed);
}

// SAFETY: every call is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        taken(layout.size());
        // SAFETY: the caller keeps the promises of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        taken(size);
        given_back(layout.size());
        // SAFETY: the caller keeps the promises of `realloc`.
        unsafe { System.realloc(memory, layout, size) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        given_back(layout.size());
        // SAFETY: the caller keeps the promises of `dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

type Reader = fn(&[u8]) -> Result<(), String>;

/// How what is in a corpus is read.
const READERS: [(&str, Reader); 4] = [
    ("npy", |bytes| read(Array::from_npy(bytes))),
    ("npz", |bytes| read(State::from_npz(bytes))),
    ("safetensors", |bytes| read(State::from_safetensors(bytes))),
    ("snapshot", |bytes| read(State::from_snapshot(bytes))),
];

/// How data sets are read, from files.
const DATASETS: [(&str, Reader); 5] = [
    ("csv", |bytes| {
        let folder = Folder::new();
        let table = Csv::new(folder.write("table.csv", bytes));
        read(table.labeled(0, Classes::Sorted)).and(read(table.no_header().double().read()))
    }),
    ("idx", |bytes| {
        let folder = Folder::of_digits();
        folder.write("train-images-idx3-ubyte", bytes);
        read(mnist(&folder.0))
    }),
    ("idx labels", |bytes| {
        let folder = Folder::of_digits();
        folder.write("train-labels-idx1-ubyte", bytes);
        read(mnist(&folder.0))
    }),
    ("idx.gz", |bytes| {
        let folder = Folder::of_digits();
        fs::remove_file(folder.0.join("train-images-idx3-ubyte")).expect("a file");
        folder.write("train-images-idx3-ubyte.gz", bytes);
        read(mnist(&folder.0))
    }),
    ("image", |bytes| {
        images::read_one(bytes, images::LIMIT, |folder| folder)
    }),
];

/// A folder that goes away with its value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("bibun-hostile-{}-{count}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }

    /// Two images and their labels, to learn from and to be tested with.
    fn of_digits() -> Self {
        let folder = Self::new();
        for part in ["train", "t10k"] {
            folder.write(&format!("{part}-images-idx3-ubyte"), &digits());
            folder.write(&format!("{part}-labels-idx1-ubyte"), &labels());
        }
        folder
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let file = self.0.join(name);
        fs::write(&file, bytes).expect("written");
        file
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn numbers(numbers: &[u32]) -> Vec<u8> {
    let bytes = numbers.iter().flat_map(|number| number.to_be_bytes());
    bytes.collect()
}

fn digits() -> Vec<u8> {
    let mut bytes = numbers(&[2051, 2, 28, 28]);
    bytes.extend((0..2 * 784).map(|i| (i % 251) as u8));
    bytes
}

fn labels() -> Vec<u8> {
    [numbers(&[2049, 2]), vec![3, 9]].concat()
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).expect("compressed");
    encoder.finish().expect("compressed")
}

fn read<T>(outcome: Result<T, impl std::fmt::Display>) -> Result<(), String> {
    outcome.map(drop).map_err(|error| error.to_string())
}

fn npy(dtype: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}\n");
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn safetensors(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

/// An archive of two arrays, with other bytes `at` a place in the header of the second one in the
/// archive's list.
fn archive(at: usize, other: &[u8]) -> Vec<u8> {
    let state: State = [("a", Array::from([1.0])), ("b", Array::from([2.0]))]
        .into_iter()
        .collect();
    let mut bytes = state.to_npz().expect("an archive");
    let list = bytes
        .windows(4)
        .rposition(|x| x == b"PK\x01\x02")
        .expect("a list");
    bytes[list + at..][..other.len()].copy_from_slice(other);
    bytes
}

/// An archive with other bytes `at` a place in its last record.
fn ending(at: usize, other: &[u8]) -> Vec<u8> {
    let mut bytes = archive(0, b"");
    let end = bytes
        .windows(4)
        .rposition(|x| x == b"PK\x05\x06")
        .expect("an end");
    bytes[end + at..][..other.len()].copy_from_slice(other);
    bytes
}

/// The header of an array of 8 MiB over the elements of one of 8 KiB.
fn large_claim() -> Vec<u8> {
    npy("<f8", "(1048560,)", &[0; 1 << 13])
}

/// An archive of one array that claims to be much larger than the file, stored as it is.
fn stored_with_false_size() -> Vec<u8> {
    let mut bytes = zipped(&large_claim(), zip::CompressionMethod::Stored);
    let list = (bytes.windows(4).rposition(|x| x == b"PK\x01\x02")).expect("a list");
    bytes[list + 24..][..4].copy_from_slice(&(8u32 << 20).to_le_bytes());
    bytes
}

/// The same, compressed.
fn packed_with_false_size() -> Vec<u8> {
    // Noise, so that there is room for the claim.
    let mut member = large_claim();
    let noise = Generator::new(3).integers(0, 256, 1 << 13).to_vec::<i64>();
    let start = member.len() - noise.len();
    for (byte, noise) in member[start..].iter_mut().zip(noise) {
        *byte = noise as u8;
    }
    let mut bytes = zipped(&member, zip::CompressionMethod::Deflated);
    let list = (bytes.windows(4).rposition(|x| x == b"PK\x01\x02")).expect("a list");
    bytes[list + 24..][..4].copy_from_slice(&(8u32 << 20).to_le_bytes());
    bytes
}

fn zipped(member: &[u8], method: zip::CompressionMethod) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    writer.start_file("x.npy", options).expect("a member");
    writer.write_all(member).expect("written");
    writer.finish().expect("an archive").into_inner()
}

/// Files with their kind, and a part of the reason for which they are refused.
fn hostile() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let giant = |shape: &str| npy("<f8", shape, &[0; 16]);
    let tensor = |dtype: &str, shape: &str, offsets: &str| {
        let entry = format!(r#"{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}"#);
        format!(r#""{shape}{offsets}":{entry}"#)
    };
    let one = |dtype: &str, shape: &str, offsets: &str, data: usize| {
        safetensors(&format!("{{{}}}", tensor(dtype, shape, offsets)), data)
    };
    let two = |first: &str, second: &str, data: usize| {
        let [a, b] = [first, second].map(|offsets| tensor("F32", "[1]", offsets));
        safetensors(&format!("{{{a},{b}}}"), data)
    };
    let twice = r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"#;
    let twice = format!("{twice}{}", &twice[1..]);
    let twice = format!("{}}}", twice.trim_end_matches(','));
    let long = (0xffff_fff0u32).to_le_bytes();
    let mut version2 = b"\x93NUMPY\x02\x00".to_vec();
    version2.extend([255; 4]);
    let prefixed = |length: u64| [&length.to_le_bytes()[..], b"{}      "].concat();
    let rank = format!("[{}]", ["1"; 65].join(","));
    let mut not_unicode = safetensors(
        r#"{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#,
        4,
    );
    not_unicode[10] = 0xff;
    vec![
        ("npy", "expected 8000000000000 ", giant("(1000000000000,)")),
        (
            "npy",
            "no array has the shape",
            giant("(4294967296, 4294967296)"),
        ),
        (
            "npy",
            "no array has the shape",
            giant("(0, 4294967296, 4294967296)"),
        ),
        ("npy", "a header of 4294967295 bytes", version2),
        (
            "npy",
            "the dtype is",
            npy("<U1000000000000", "()", &[0; 16]),
        ),
        ("npz", "members overlap", archive(42, &[0; 4])),
        ("npz", "than the archive can hold", archive(24, &long)),
        ("npz", "", archive(20, &[long, long].concat())),
        (
            "npz",
            "array `x`: claims 8388608 bytes, more than the archive can hold",
            stored_with_false_size(),
        ),
        (
            "npz",
            "array `x`: claims 8388608 bytes, but unpacks to ",
            packed_with_false_size(),
        ),
        (
            "npz",
            "two members have the same name",
            archive(46, b"a.npy"),
        ),
        ("npz", "member 1 is not UTF-8", archive(46, b"\xff")),
        ("npz", "", archive(28, &[255; 2])),
        ("npz", "", archive(42, &long)),
        ("npz", "", ending(8, &[255; 4])),
        ("npz", "", ending(12, &[255; 8])),
        ("npz", "", ending(4, &[255; 18])),
        (
            "safetensors",
            "a header of 18446744073709551615 bytes",
            prefixed(u64::MAX),
        ),
        (
            "safetensors",
            "a header of 16777217 bytes",
            prefixed((1 << 24) + 1),
        ),
        ("safetensors", "invalid header length", prefixed(1 << 24)),
        ("safetensors", "header too small", vec![0; 7]),
        ("safetensors", "invalid JSON", safetensors("", 0)),
        (
            "safetensors",
            "invalid JSON",
            safetensors(&"[".repeat(4000), 0),
        ),
        (
            "safetensors",
            "invalid JSON",
            safetensors(&"{\"a\":".repeat(4000), 0),
        ),
        ("safetensors", "invalid UTF-8", not_unicode),
        (
            "safetensors",
            "overflow",
            one("F64", "[4294967296,4294967296]", "[0,8]", 8),
        ),
        (
            "safetensors",
            "invalid shape",
            one("F64", "[1000000000000]", "[0,8]", 8),
        ),
        (
            "safetensors",
            "incomplete",
            one("F64", "[1000000000000]", "[0,8000000000000]", 8),
        ),
        (
            "safetensors",
            "no array has",
            one("F64", "[0,4294967296,4294967295]", "[0,0]", 0),
        ),
        ("safetensors", "no array has", one("F32", &rank, "[0,4]", 4)),
        (
            "safetensors",
            "invalid JSON",
            one("F32", "[-1]", "[0,4]", 4),
        ),
        ("safetensors", "invalid JSON", one("X32", "[1]", "[0,4]", 4)),
        (
            "safetensors",
            "the dtype is",
            one("F8_E5M2", "[1]", "[0,1]", 1),
        ),
        (
            "safetensors",
            "invalid offset",
            one("F32", "[1]", "[4,0]", 4),
        ),
        ("safetensors", "invalid offset", two("[0,4]", "[2,6]", 6)),
        ("safetensors", "invalid offset", two("[0,4]", "[6,10]", 10)),
        ("safetensors", "invalid offset", two("[0,4]", "[0,4 ]", 4)),
        ("safetensors", "incomplete", two("[0,4]", "[4,8]", 9)),
        ("safetensors", "`a` is there twice", safetensors(&twice, 4)),
        ("snapshot", "it has no checksum", archive(0, b"")),
        ("snapshot", "expected a zip archive", vec![0; 100]),
    ]
}

/// Reads, and returns the largest piece of memory that was asked for in between.
fn watch(reader: Reader, bytes: &[u8]) -> (Result<(), String>, usize) {
    let (outcome, largest, _) = watch_all(|| reader(bytes));
    (outcome, largest)
}

/// What a call gives, with the largest piece of memory that was asked for in between and the most
/// that was in use at once.
fn watch_all<T>(call: impl FnOnce() -> T) -> (T, usize, usize) {
    LARGEST.store(0, Ordering::Relaxed);
    let before = IN_USE.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let outcome = call();
    let most = MOST.load(Ordering::Relaxed) - before;
    (outcome, LARGEST.load(Ordering::Relaxed), most)
}

/// The most bytes that reading a file of a data set may have in use at once.
fn bound(kind: &str, length: usize) -> usize {
    if kind == "image" {
        return images::LIMIT as usize + (1 << 16);
    }
    // Each cell of a table is a number, thrice while they are converted; deflate makes a thousand
    // bytes of one.
    let ratio = match kind {
        "csv" => 32,
        "idx.gz" => 2 * 1032,
        _ => 2,
    };
    (1 << 20) + ratio * length
}

/// What a reader of these many bytes may ask for at once: some buffers of its own, and what the
/// bytes can stand for; deflate makes a thousand of one.
fn allowed(kind: &str, length: usize) -> usize {
    let largest_ratio = match kind {
        "npz" | "snapshot" => 1032,
        _ => 4,
    };
    (256 << 10) + largest_ratio * length
}

fn reader(kind: &str) -> Reader {
    READERS
        .iter()
        .find(|(name, _)| *name == kind)
        .expect("a reader")
        .1
}

/// One test, for memory is counted as a whole.
#[test]
fn hostile_files_are_refused_without_large_allocations() {
    for (at, (kind, reason, bytes)) in hostile().into_iter().enumerate() {
        let (outcome, largest) = watch(reader(kind), &bytes);
        let error = outcome.expect_err(&format!("{kind} file {at}, {reason}"));
        assert!(error.contains(reason), "{at}: {error}, expected {reason}");
        assert!(
            largest <= allowed("", bytes.len()),
            "{kind} file {at}: {largest} bytes"
        );
    }
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus");
    let mut count = 0;
    for (kind, reader) in READERS {
        let files = fs::read_dir(corpus.join(kind)).expect("a corpus");
        for file in files {
            let file = file.expect("a file").path();
            let bytes = fs::read(&file).expect("read");
            // Read or refused, but never a panic.
            let (_, largest) = watch(reader, &bytes);
            let allowed = allowed(kind, bytes.len());
            assert!(largest <= allowed, "{}: {largest} bytes", file.display());
            count += 1;
        }
    }
    assert!(count >= seed_files().len(), "{count} files");
    mutants_are_read_or_refused();
    images::what_takes_more_than_the_limit_is_refused();
}

/// Fuzzing of the plain kind: bytes of good and bad files are changed, doubled, left out and put
/// in from elsewhere. `ROUNDS` sets how often.
fn mutants_are_read_or_refused() {
    let rounds = std::env::var("ROUNDS").map_or(300, |rounds| rounds.parse().expect("a number"));
    let (files, data) = (seed_files(), data_files());
    for (kind, bytes) in &data {
        let (_, reader) = DATASETS.iter().find(|(name, _)| name == kind).expect("one");
        assert_eq!(reader(bytes), Ok(()), "{kind}");
    }
    let random = &mut Generator::new(7);
    let mut read = 0;
    let mut total = 0;
    for _ in 0..rounds {
        for (kind, bytes) in &files {
            let mut bytes = bytes.clone();
            for _ in 0..random.integers(1, 5, ()).item::<i64>() {
                mutate(&mut bytes, random);
            }
            let (outcome, largest) = watch(reader(kind), &bytes);
            assert!(
                largest <= allowed(kind, bytes.len()),
                "{kind}: {largest} bytes for {bytes:02x?}"
            );
            read += usize::from(outcome.is_ok());
            total += 1;
        }
        for (kind, bytes) in &data {
            let mut bytes = bytes.clone();
            for _ in 0..random.integers(1, 5, ()).item::<i64>() {
                mutate(&mut bytes, random);
            }
            let reader = DATASETS.iter().find(|(name, _)| name == kind);
            let (_, reader) = reader.expect("a reader");
            let (outcome, _, most) = watch_all(|| reader(&bytes));
            assert!(
                most <= bound(kind, bytes.len()),
                "{kind}: {most} bytes for {bytes:02x?}"
            );
            read += usize::from(outcome.is_ok());
            total += 1;
        }
    }
    assert!(read > 0 && read < total, "{read} of {total} were read");
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Generator) {
    const SPECIAL: [u8; 10] = [0, 1, 0x7f, 0x80, 0xff, b'[', b'{', b'"', b'9', b','];
    let mut below = |n: usize| random.integers(0, n.max(1) as i64, ()).item::<i64>() as usize;
    let (at, length) = (below(bytes.len()), 1 + below(8));
    let end = (at + length).min(bytes.len());
    match below(6) {
        _ if bytes.is_empty() => bytes.push(0),
        0 => bytes[at] ^= 1 << below(8),
        1 => bytes[at] = SPECIAL[below(SPECIAL.len())],
        2 => bytes[at..end].fill(SPECIAL[below(SPECIAL.len())]),
        3 => drop(bytes.drain(at..end)),
        4 => {
            let from = below(bytes.len());
            let piece = bytes[from..(from + length).min(bytes.len())].to_vec();
            bytes.splice(at..at, piece);
        }
        _ => bytes[at] = bytes[below(bytes.len())],
    }
}

/// The first files of the corpus, in the folder that `FOLDER` names.
#[test]
#[ignore = "writes files to fuzz with"]
fn seeds() {
    let folder = PathBuf::from(std::env::var_os("FOLDER").expect("the variable FOLDER"));
    for (at, (kind, bytes)) in seed_files().into_iter().enumerate() {
        let folder = folder.join(kind);
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join(format!("seed{at:02}")), bytes).expect("written");
    }
}

/// Good files of data sets, with their kinds.
fn data_files() -> Vec<(&'static str, Vec<u8>)> {
    let numbers = "1,2.5,-3e2\n4,5,6\n7, 8 ,\"9\"\n".repeat(3);
    #[allow(unused_mut)]
    let mut files = vec![
        ("csv", numbers.into_bytes()),
        ("idx", digits()),
        ("idx labels", labels()),
        ("idx.gz", compressed(&digits())),
    ];
    files.extend(images::files().map(|bytes| ("image", bytes)));
    files
}

mod images {
    use std::io::Cursor;

    use bibun::array::Generator;
    use bibun::datasets::{Dataset, ImageFolder};
    use image::{DynamicImage, ImageFormat};

    use super::*;

    /// What mutants may take.
    pub(crate) const LIMIT: u64 = 8 << 20;

    /// Reads an image in a folder, with the memory that it may take.
    pub(crate) fn read_one(
        bytes: &[u8],
        limit: u64,
        options: impl FnOnce(ImageFolder) -> ImageFolder,
    ) -> Result<(), String> {
        let folder = Folder::new();
        fs::create_dir(folder.0.join("class")).expect("a folder");
        // What it is shows in its first bytes.
        folder.write("class/image.png", bytes);
        let images = ImageFolder::open(&folder.0).expect("an image");
        let images = options(images.memory_limit(limit));
        read(images.example(0, &mut Generator::new(0)))
    }

    fn written(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Cursor::new(Vec::new());
        image.write_to(&mut bytes, format).expect("an image");
        bytes.into_inner()
    }

    /// With noise, so that there is something to decode.
    fn image(width: u32, height: u32) -> DynamicImage {
        let noise = Generator::new(1).integers(0, 256, (width * height * 3) as usize);
        let noise = noise.to_vec::<i64>().into_iter().map(|x| x as u8).collect();
        let image = image::RgbImage::from_raw(width, height, noise).expect("enough bytes");
        image.into()
    }

    /// The marker of the header of a JPEG; sizes are five bytes behind.
    fn header(jpeg: &[u8]) -> usize {
        let marker = jpeg.windows(2).position(|x| x == [0xff, 0xc0]);
        marker.expect("a baseline JPEG")
    }

    /// The same file as one that is refined in several scans, for which it is damaged.
    fn progressive(mut jpeg: Vec<u8>) -> Vec<u8> {
        let header = header(&jpeg);
        jpeg[header + 1] = 0xc2;
        jpeg
    }

    pub(crate) fn files() -> [Vec<u8>; 4] {
        let image = image(9, 5);
        [
            written(&image, ImageFormat::Png),
            written(&image.to_rgba16().into(), ImageFormat::Png),
            written(&image, ImageFormat::Jpeg),
            written(&image.to_luma8().into(), ImageFormat::Jpeg),
        ]
    }

    /// A JPEG of a few hundred bytes that claims 10505 x 10284 pixels.
    fn vast_jpeg() -> Vec<u8> {
        let mut jpeg = written(&image(8, 8), ImageFormat::Jpeg);
        let header = header(&jpeg);
        jpeg[header + 5..][..4].copy_from_slice(&[0x28, 0x2c, 0x29, 0x09]);
        jpeg
    }

    /// A black PNG of 16384 x 16384 pixels, in 260 kB.
    fn vast_png() -> Vec<u8> {
        const SIDE: usize = 1 << 14;
        let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
        let mut chunk = |kind: &[u8], data: &[u8]| {
            let mut checksum = flate2::Crc::new();
            [kind, data].iter().for_each(|part| checksum.update(part));
            file.extend((data.len() as u32).to_be_bytes());
            file.extend([kind, data].concat());
            file.extend(checksum.sum().to_be_bytes());
        };
        let side = (SIDE as u32).to_be_bytes();
        chunk(b"IHDR", &[&side[..], &side, &[8, 0, 0, 0, 0]].concat());
        let mut rows = ZlibEncoder::new(Vec::new(), Compression::fast());
        let row = [0; SIDE + 1];
        (0..SIDE).for_each(|_| rows.write_all(&row).expect("compressed"));
        chunk(b"IDAT", &rows.finish().expect("compressed"));
        chunk(b"IEND", b"");
        file
    }

    pub(crate) fn what_takes_more_than_the_limit_is_refused() {
        for vast in [vast_jpeg(), progressive(vast_jpeg()), vast_png()] {
            let (outcome, _, most) = watch_all(|| read_one(&vast, 256 << 20, |images| images));
            let error = outcome.expect_err("the limit");
            assert!(error.contains("the limit is 268435456"), "{error}");
            assert!(most < (1 << 20) + 3 * vast.len(), "{most} bytes");
        }
        let image = image(700, 500);
        type Options = fn(ImageFolder) -> ImageFolder;
        let all: [Options; 5] = [
            |images| images,
            ImageFolder::grey,
            |images| images.resize(7, 5),
            |images| images.resize(900, 20),
            |images| images.grey().resize(700, 900),
        ];
        for (at, bytes) in [
            written(&image, ImageFormat::Png),
            written(&image.to_luma8().into(), ImageFormat::Png),
            written(&image.to_rgba16().into(), ImageFormat::Png),
            written(&image, ImageFormat::Jpeg),
            written(&image.to_luma8().into(), ImageFormat::Jpeg),
            progressive(written(&image, ImageFormat::Jpeg)),
        ]
        .into_iter()
        .enumerate()
        {
            for options in all {
                // Arrays do not come from what is kept for reuse.
                bibun::array::set_pool_limit(0);
                let (outcome, _, most) = watch_all(|| read_one(&bytes, 256 << 20, options));
                assert!(outcome.is_ok() || at == 5, "{at}: {outcome:?}");
                // What it took is above every limit that refuses it.
                let less = read_one(&bytes, most as u64 - 1, options);
                let error = less.expect_err("the limit");
                assert!(error.contains("the limit is") || at == 5, "{at}: {error}");
            }
        }
    }
}

/// Hostile files and good ones, with their kinds.
fn seed_files() -> Vec<(&'static str, Vec<u8>)> {
    let hostile = hostile().into_iter();
    let mut files: Vec<_> = hostile.map(|(kind, _, bytes)| (kind, bytes)).collect();
    let mut state: State = [("a/weight", Array::from([[1.0f32, 2.0]]))]
        .into_iter()
        .collect();
    state.insert("flag", true);
    state.insert("count", 3u64);
    state.insert("title", "naïve");
    files.push(("npz", state.to_npz().expect("bytes")));
    files.push(("safetensors", state.to_safetensors().expect("bytes")));
    files.push(("snapshot", state.to_snapshot().expect("bytes")));
    for (kind, name) in [
        ("npz", "tests/golden/chainer/mlp.npz"),
        ("npz", "tests/golden/chainer/lazy.npz"),
        ("npz", "tests/golden/array/texts.npz"),
        ("npz", "tests/golden/array/compressed.npz"),
        ("npy", "tests/golden/array/f2.npy"),
        ("npy", "tests/golden/array/big_i2.npy"),
        ("npy", "tests/golden/array/fortran.npy"),
        ("npy", "tests/golden/array/version2.npy"),
        ("npy", "tests/golden/array/record.npy"),
        ("safetensors", "tests/golden/torch/dtypes.safetensors"),
        ("safetensors", "tests/golden/torch/one_name.safetensors"),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
        files.push((kind, fs::read(path).expect(name)));
    }
    files
}
