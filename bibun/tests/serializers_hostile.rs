//! Files that nobody should write: they are refused, and no memory is asked for that the file does
//! not account for. The files of `fuzz/corpus`, crafted or found by fuzzing, are replayed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use bibun::array::{Array, Generator};
use bibun::serializers::State;

/// The system's allocator, which remembers the largest piece that was asked for.
struct Watched;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is handed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the promises of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the promises of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Ordering::Relaxed);
        // SAFETY: the caller keeps the promises of `realloc`.
        unsafe { System.realloc(memory, layout, size) }
    }
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the promises of `dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

type Reader = fn(&[u8]) -> Result<(), String>;

const READERS: [(&str, Reader); 4] = [
    ("npy", |bytes| read(Array::from_npy(bytes))),
    ("npz", |bytes| read(State::from_npz(bytes))),
    ("safetensors", |bytes| read(State::from_safetensors(bytes))),
    ("snapshot", |bytes| read(State::from_snapshot(bytes))),
];

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
        ("safetensors", "the dtype is", one("C64", "[1]", "[0,8]", 8)),
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
    LARGEST.store(0, Ordering::Relaxed);
    let outcome = reader(bytes);
    (outcome, LARGEST.load(Ordering::Relaxed))
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
}

/// Fuzzing of the plain kind: bytes of good and bad files are changed, doubled, left out and put
/// in from elsewhere. `ROUNDS` sets how often.
fn mutants_are_read_or_refused() {
    let rounds = std::env::var("ROUNDS").map_or(300, |rounds| rounds.parse().expect("a number"));
    let files = seed_files();
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

/// Hostile files and good ones, with their kinds.
fn seed_files() -> Vec<(&'static str, Vec<u8>)> {
    let hostile = hostile().into_iter();
    let mut files: Vec<_> = hostile.map(|(kind, _, bytes)| (kind, bytes)).collect();
    let mut state: State = [("a/w", Array::from([[1.0f32, 2.0]]))]
        .into_iter()
        .collect();
    state.insert("flag", true);
    state.insert("count", 3u64);
    state.insert("title", "naïve");
    files.push(("npz", state.to_npz().expect("bytes")));
    files.push(("safetensors", state.to_safetensors().expect("bytes")));
    files.push(("snapshot", state.to_snapshot().expect("bytes")));
    for (kind, name) in [
        ("npz", "bibun/tests/golden/chainer/mlp.npz"),
        ("npz", "bibun/tests/golden/chainer/lazy.npz"),
        ("npz", "bibun-array/tests/golden/texts.npz"),
        ("npz", "bibun-array/tests/golden/compressed.npz"),
        ("npy", "bibun-array/tests/golden/f2.npy"),
        ("npy", "bibun-array/tests/golden/big_i2.npy"),
        ("npy", "bibun-array/tests/golden/fortran.npy"),
        ("npy", "bibun-array/tests/golden/version2.npy"),
        ("npy", "bibun-array/tests/golden/record.npy"),
        ("safetensors", "bibun/tests/golden/torch/dtypes.safetensors"),
        (
            "safetensors",
            "bibun/tests/golden/torch/one_name.safetensors",
        ),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name);
        files.push((kind, fs::read(path).expect(name)));
    }
    files
}
