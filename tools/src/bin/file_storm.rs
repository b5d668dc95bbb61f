//! Reads damaged files of every format, in processes whose memory the system bounds: each is read or
//! refused, and nothing aborts, hangs, panics or takes more memory than is promised.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};

use bibun::array::{Array, Generator, set_pool_limit};
use bibun::datasets::{Classes, Csv, Dataset, Digits, ImageFolder, mnist};
use bibun::links::{Chain, Mlp};
use bibun::serializers::{LoadOptions, Names, State};
use clap::Parser;
use flate2::Compression;
use flate2::write::GzEncoder;
use image::{DynamicImage, ImageFormat, RgbImage};

#[derive(Parser)]
#[command(about = "Reads damaged files of every format for a while")]
struct Options {
    /// How long.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// Of the first round; each round after it has the next one.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Only this format.
    #[arg(long)]
    format: Option<String>,
    /// The only round, in this process: how the program calls itself, and how a failure is seen again.
    #[arg(long)]
    round: Option<u64>,
}

/// Files of one round.
const FILES: usize = 200;
/// The bytes of address space of one process: stacks, the program, and twice what any format may take.
const ADDRESSES: u64 = 2 << 30;
/// A round that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);
/// What images may take.
const IMAGE_LIMIT: u64 = 64 << 20;

/// How a format is read, from a folder with its file in it.
struct Format {
    name: &'static str,
    /// Where its file is.
    file: &'static str,
    read: fn(&Path) -> Result<(), String>,
    /// The most bytes that reading may take, of a file of a length.
    bound: fn(u64) -> u64,
}

fn outcome<T, E: std::fmt::Display>(result: Result<T, E>) -> Result<(), String> {
    result.map(drop).map_err(|error| error.to_string())
}

/// Loads what was read into a model, in the way that other frameworks' files are loaded.
fn loaded(state: Result<State, impl std::fmt::Display>, names: Names) -> Result<(), String> {
    let state = state.map_err(|error| error.to_string())?;
    let model = Mlp::new(&[3, 4, 2], &mut Generator::new(0));
    outcome(model.load_state_with(&state, &LoadOptions::new().names(names).convert_floats()))
}

/// Elements become wider, once as they are read and once as they are kept.
const fn widened(length: u64) -> u64 {
    24 * length
}

/// Deflate makes a thousand bytes of one.
const fn unpacked(length: u64) -> u64 {
    1032 * length
}

const FORMATS: [Format; 9] = [
    Format {
        name: "npy",
        file: "x.npy",
        read: |folder| outcome(Array::read_npy(folder.join("x.npy"))),
        bound: widened,
    },
    Format {
        name: "npz",
        file: "x.npz",
        read: |folder| {
            let file = folder.join("x.npz");
            outcome(bibun::array::read_npz(&file))
                .and(loaded(bibun::serializers::load_npz(file), Names::Chainer))
        },
        bound: |length| widened(unpacked(length)),
    },
    Format {
        name: "safetensors",
        file: "x.safetensors",
        read: |folder| {
            let state = bibun::serializers::load_safetensors(folder.join("x.safetensors"));
            loaded(state, Names::PyTorch)
        },
        bound: widened,
    },
    Format {
        name: "snapshot",
        file: "snapshot.npz",
        read: |folder| {
            let state = bibun::serializers::load_snapshot(folder.join("snapshot.npz"));
            loaded(state, Names::Bibun)
        },
        bound: |length| widened(unpacked(length)),
    },
    Format {
        name: "csv",
        file: "table.csv",
        read: |folder| {
            let table = Csv::new(folder.join("table.csv"));
            outcome(table.labeled(0, Classes::Sorted)).and(outcome(table.no_header().read()))
        },
        bound: |length| 32 * length,
    },
    Format {
        name: "idx",
        file: "train-images-idx3-ubyte",
        read: |folder| outcome(mnist(folder)),
        bound: |length| 4 * length,
    },
    Format {
        name: "idx.gz",
        file: "train-labels-idx1-ubyte.gz",
        read: |folder| outcome(mnist(folder)),
        bound: |length| 2 * unpacked(length),
    },
    Format {
        name: "png",
        file: "class/image.png",
        read: image_of,
        bound: |_| IMAGE_LIMIT,
    },
    Format {
        name: "jpeg",
        file: "class/image.jpg",
        read: image_of,
        bound: |_| IMAGE_LIMIT,
    },
];

fn image_of(folder: &Path) -> Result<(), String> {
    let images = ImageFolder::open(folder).map_err(|error| error.to_string())?;
    let images = images.memory_limit(IMAGE_LIMIT);
    let random = &mut Generator::new(0);
    outcome(images.example(0, random)).and(outcome(images.grey().resize(9, 7).example(0, random)))
}

/// Good files, from which the damaged ones are made.
fn seeds(format: &Format) -> Vec<Vec<u8>> {
    let mut random = Generator::new(1);
    let mut state: State = [(
        "l0/w",
        random.uniform([4, 3], -1.0, 1.0, bibun::array::DType::F32),
    )]
    .into_iter()
    .collect();
    state.insert("title", "naïve");
    state.insert("count", 3u64);
    let from_corpus = |kind: &str| files_of(&format!("fuzz/corpus/{kind}"));
    let images = Digits::new(0).images(0..3);
    let idx = |numbers: &[u32], bytes: &[u8]| {
        let numbers = numbers.iter().flat_map(|number| number.to_be_bytes());
        numbers.chain(bytes.iter().copied()).collect::<Vec<u8>>()
    };
    let picture = |width: u32, height: u32, format: ImageFormat| {
        let noise = Generator::new(2).integers(0, 256, (width * height * 3) as usize);
        let noise = noise.to_vec::<i64>().into_iter().map(|x| x as u8).collect();
        let image = RgbImage::from_raw(width, height, noise).expect("enough bytes");
        let mut bytes = std::io::Cursor::new(Vec::new());
        let image = DynamicImage::from(image);
        image.write_to(&mut bytes, format).expect("an image");
        bytes.into_inner()
    };
    match format.name {
        "npy" => [from_corpus("npy"), files_of("tests/golden/array")].concat(),
        "npz" => [from_corpus("npz"), files_of("tests/golden/chainer")].concat(),
        "safetensors" => [
            from_corpus("safetensors"),
            files_of("tests/golden/torch"),
        ]
        .concat(),
        "snapshot" => vec![state.to_snapshot().expect("bytes")],
        "csv" => vec![
            "name,x,y\na,1,2.5\nb, 3 ,\"4\"\n".repeat(20).into_bytes(),
            b"1;2\r\n3;4\r\n".to_vec(),
        ],
        "idx" => vec![idx(&[2051, 3, 28, 28], &images_of(&images))],
        "idx.gz" => {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
            let labels = idx(&[2049, 3], images.labels());
            std::io::Write::write_all(&mut encoder, &labels).expect("compressed");
            vec![encoder.finish().expect("compressed")]
        }
        "png" => vec![
            picture(9, 5, ImageFormat::Png),
            picture(300, 200, ImageFormat::Png),
        ],
        _ => vec![
            picture(9, 5, ImageFormat::Jpeg),
            picture(300, 200, ImageFormat::Jpeg),
        ],
    }
}

fn images_of(images: &bibun::datasets::LabeledImages) -> Vec<u8> {
    (0..images.labels().len())
        .flat_map(|i| images.pixels(i).to_vec())
        .collect()
}

/// What is in a folder of the repository, of moderate size.
fn files_of(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(folder);
    let files =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = files.flatten().map(|file| file.path()).collect();
    paths.sort();
    let bytes = paths.iter().filter(|path| path.is_file());
    let bytes = bytes.map(|path| fs::read(path).expect("a file"));
    bytes.filter(|bytes| bytes.len() < 1 << 18).collect()
}

/// Changes, doubles, leaves out and puts in a few bytes.
fn mutate(bytes: &mut Vec<u8>, random: &mut Generator) {
    const SPECIAL: [u8; 12] = [
        0, 1, 2, 0x7f, 0x80, 0xfe, 0xff, b'[', b'{', b'"', b'9', b',',
    ];
    let mut below = |n: usize| random.integers(0, n.max(1) as i64, ()).item::<i64>() as usize;
    if bytes.is_empty() {
        return bytes.push(0);
    }
    // Headers are what claims sizes.
    let reach = if below(2) == 0 {
        bytes.len()
    } else {
        bytes.len().min(128)
    };
    let (at, length) = (below(reach), 1 + below(8));
    let end = (at + length).min(bytes.len());
    match below(7) {
        0 => bytes[at] ^= 1 << below(8),
        1 => bytes[at] = SPECIAL[below(SPECIAL.len())],
        2 => bytes[at..end].fill(SPECIAL[below(SPECIAL.len())]),
        3 => drop(bytes.drain(at..end)),
        4 => {
            let from = below(bytes.len());
            let piece = bytes[from..(from + length).min(bytes.len())].to_vec();
            bytes.splice(at..at, piece);
        }
        5 => bytes.truncate(at),
        _ => bytes[at] = bytes[below(bytes.len())],
    }
}

/// The most memory that this process has had since it was last asked to forget, and what it has now.
fn memory() -> Option<(u64, u64)> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let number = line.trim().strip_suffix(" kB")?.trim();
        Some(1024 * number.parse::<u64>().ok()?)
    };
    Some((of("VmHWM:")?, of("VmRSS:")?))
}

/// One round in this process: files of each format, read one after another.
fn round(round: u64, only: Option<&str>) -> Result<(), String> {
    // Memory that is kept for reuse would count for the next file.
    set_pool_limit(0);
    let folder = folder_of(round);
    let mut failure = Ok(());
    for format in FORMATS
        .iter()
        .filter(|format| only.is_none_or(|name| name == format.name))
    {
        fs::create_dir_all(folder.join("class")).map_err(|error| error.to_string())?;
        let images = Digits::new(0).images(0..3);
        let pixels = [2051u32, 3, 28, 28].iter().flat_map(|n| n.to_be_bytes());
        let pixels: Vec<u8> = pixels.chain(images_of(&images)).collect();
        let labels = [2049u32, 3].iter().flat_map(|n| n.to_be_bytes());
        let labels: Vec<u8> = labels.chain(images.labels().iter().copied()).collect();
        for part in ["train", "t10k"] {
            let write = |name: String, bytes: &[u8]| fs::write(folder.join(name), bytes);
            write(format!("{part}-images-idx3-ubyte"), &pixels).expect("written");
            write(format!("{part}-labels-idx1-ubyte"), &labels).expect("written");
        }
        if format.name == "idx.gz" {
            fs::remove_file(folder.join("train-labels-idx1-ubyte")).expect("a file");
        }
        let file = folder.join(format.file);
        let seeds = seeds(format);
        let mut random = Generator::new(round);
        for _ in 0..FILES {
            let pick = random.integers(0, seeds.len() as i64, ()).item::<i64>();
            let mut bytes = seeds[pick as usize].clone();
            for _ in 0..random.integers(1, 9, ()).item::<i64>() {
                mutate(&mut bytes, &mut random);
            }
            fs::write(&file, &bytes).map_err(|error| error.to_string())?;
            // 5: the largest size is to be measured from here on.
            let measured = fs::write("/proc/self/clear_refs", "5").is_ok();
            let before = memory();
            // Whether it is read or refused does not matter, only that one of these happens.
            if catch_unwind(AssertUnwindSafe(|| (format.read)(&folder))).is_err() {
                failure = Err(format!("a panic at a file of {}", format.name));
            }
            if let (true, Some((_, before)), Some((most, _))) = (measured, before, memory()) {
                let bound = (format.bound)(bytes.len() as u64) + (8 << 20);
                let taken = most.saturating_sub(before);
                if taken > bound {
                    let what = format!("{taken} bytes of memory, {bound} are promised");
                    failure = Err(format!("a file of {} took {what}", format.name));
                }
            }
            if failure.is_err() {
                return failure.map_err(|what| format!("{what}: {}", file.display()));
            }
        }
        fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn folder_of(round: u64) -> PathBuf {
    std::env::temp_dir().join(format!("bibun-file-storm-{round}"))
}

/// A round in a process of its own, whose memory the system bounds.
fn process(round: u64, only: Option<&str>) -> std::io::Result<Child> {
    let program = std::env::current_exe()?;
    // No standard function bounds a process; every shell can.
    let limit = format!("ulimit -v {} && exec \"$0\" \"$@\"", ADDRESSES / 1024);
    let mut command = Command::new("sh");
    command.args(["-c", &limit]).arg(program);
    command.args(["--round", &round.to_string()]);
    if let Some(format) = only {
        command.args(["--format", format]);
    }
    // One thread, and few arenas: both take addresses.
    command.env("RAYON_NUM_THREADS", "1");
    command.env("MALLOC_ARENA_MAX", "1");
    command.spawn()
}

/// Whether the process ended well, and in time.
fn waited(mut child: Child) -> Result<(), String> {
    let start = Instant::now();
    loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("the process ended with {status}")),
            None if start.elapsed() > PATIENCE => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no end after {} seconds", PATIENCE.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let only = options.format.as_deref();
    if let Some(only) = only
        && FORMATS.iter().all(|format| format.name != only)
    {
        eprintln!("there is no format {only}");
        return ExitCode::FAILURE;
    }
    if let Some(seed) = options.round {
        return match round(seed, only) {
            Ok(()) => ExitCode::SUCCESS,
            Err(what) => {
                eprintln!("{what}");
                ExitCode::FAILURE
            }
        };
    }
    let start = Instant::now();
    let length = Duration::from_secs_f64(60.0 * options.minutes);
    let mut seed = options.seed;
    while start.elapsed() < length {
        let ended = process(seed, only).map_err(|error| error.to_string());
        if let Err(what) = ended.and_then(waited) {
            eprintln!(
                "round {seed}: {what}; its last file is in {}",
                folder_of(seed).display()
            );
            eprintln!("again: file_storm --round {seed}");
            return ExitCode::FAILURE;
        }
        seed += 1;
    }
    let formats = if only.is_some() { 1 } else { FORMATS.len() };
    let files = (seed - options.seed) * (FILES * formats) as u64;
    println!("{files} damaged files were read or refused");
    ExitCode::SUCCESS
}
