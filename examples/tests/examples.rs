//! Every example runs to its last assertion. `cargo test -p bibun-examples --all-features` builds them
//! and runs these tests; with `--test examples` it would build these alone, and the examples would be old.

use std::fs;
use std::num::NonZero;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use bibun::datasets::{Digits, LabeledImages};

/// For its tests. (Declared as an example with tests, the program would only be built as those.)
#[path = "../private_training/accountant.rs"]
mod accountant;

/// An example that learns, made short.
struct Short {
    name: &'static str,
    arguments: &'static [&'static str],
    /// Its last line, up to a number.
    last: &'static str,
    /// Where that number has to be.
    within: RangeInclusive<f64>,
    /// What is in `--out FOLDER` then; nothing for one without that option.
    files: &'static [&'static str],
}

const SHORT: &[Short] = &[
    Short {
        name: "autoencoder",
        arguments: &["--images", "1000", "--epochs", "3"],
        last: "images whose nearest neighbour on the map is of their class:",
        within: 0.2..=1.0,
        files: &[
            "digits.png",
            "map.png",
            "codes.png",
            "epoch_03/map.png",
            "loss.svg",
        ],
    },
    Short {
        name: "character_model",
        arguments: &["--epochs", "3", "--units", "32"],
        last: "bits per letter on unseen text:",
        within: 1.0..=4.5,
        files: &["bits.svg", "log.jsonl"],
    },
    Short {
        name: "convolutional",
        arguments: &["--images", "2000", "--epochs", "4"],
        last: "test accuracy:",
        within: 0.7..=1.0,
        files: &["loss.svg", "accuracy.svg", "graph.html"],
    },
    Short {
        name: "fisher",
        arguments: &["--images", "2000"],
        last: "held by empirical Fisher",
        within: 0.6..=1.0,
        files: &[],
    },
    Short {
        name: "numerical_definitions",
        arguments: &["--size", "1000"],
        last: "mean squared error:",
        within: 0.008..=0.012,
        files: &["softmax.html"],
    },
    Short {
        name: "private_training",
        arguments: &["--images", "4000", "--epochs", "2"],
        last: "test accuracy, learned privately:",
        within: 0.3..=1.0,
        files: &[],
    },
    Short {
        name: "sequence_labelling",
        arguments: &["--sentences", "1000", "--epochs", "4"],
        last: "the network",
        within: 0.9..=1.0,
        files: &[],
    },
    Short {
        name: "transformer",
        arguments: &["--digits", "2", "--sums", "8000", "--epochs", "4"],
        last: "exact on unseen sums:",
        within: 0.03..=1.0,
        files: &["loss.svg", "exact.svg"],
    },
];

fn program(name: &str) -> Command {
    // Tests lie in `deps/` beside the `examples/` that `cargo test` builds with them.
    let mut path: PathBuf = std::env::current_exe().expect("this program has a path");
    path.pop();
    path.pop();
    path.push("examples");
    path.push(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(
        path.exists(),
        "{} is built by `cargo test --workspace --all-features`",
        path.display()
    );
    Command::new(path)
}

/// What an example prints, after it has ended well.
fn printed(name: &str, command: &mut Command) -> String {
    let output = command.output().expect("it starts");
    let [printed, errors] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(
        output.status.success(),
        "example {name} failed:\n{printed}{errors}"
    );
    printed
}

/// The first number behind the beginning of the last line.
fn result(printed: &str, last: &str) -> f64 {
    let line = printed.lines().last().unwrap_or_default().trim();
    let rest = line
        .strip_prefix(last)
        .unwrap_or_else(|| panic!("the last line is {line:?}"));
    let number = rest.split_whitespace().next().unwrap_or_default();
    number
        .parse()
        .unwrap_or_else(|_| panic!("the last line is {line:?}"))
}

/// A new folder for the files of a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("examples")
        .join(name);
    // What an earlier run of the test has left.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("the folder for tests");
    folder
}

/// Runs an example, and looks at its result and its files.
fn check(short: &Short) {
    let mut command = program(short.name);
    command.args(short.arguments);
    let out = folder(short.name);
    if !short.files.is_empty() {
        command.arg("--out").arg(&out);
    }
    let result = result(&printed(short.name, &mut command), short.last);
    assert!(short.within.contains(&result), "{}: {result}", short.name);
    for file in short.files {
        let written = out.join(file).exists();
        assert!(written, "{} has not written {file}", short.name);
    }
}

#[test]
fn every_example_runs() {
    let apart = |name: &str| name == "mnist" || SHORT.iter().any(|short| short.name == name);
    let manifest = include_str!("../Cargo.toml");
    let names = manifest.split("[[example]]\nname = \"").skip(1);
    let names = names.map(|rest| rest.split('"').next().expect("a name"));
    let names: Vec<&str> = names.filter(|name| !apart(name)).collect();
    assert!(names.len() >= 7, "found only {names:?}");

    // Most of them keep one processor busy, so as many run at a time as there are.
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            match SHORT.get(at) {
                Some(short) => check(short),
                None => match names.get(at - SHORT.len()) {
                    Some(name) => drop(printed(name, &mut program(name))),
                    None => break,
                },
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(work);
        }
    });
}

/// Writes images and labels as the two files of MNIST.
fn write_idx(folder: &Path, name: &str, images: &LabeledImages) {
    let file = |magic: u32, sizes: &[usize], data: &[u8]| {
        let sizes = sizes.iter().map(|&size| size as u32);
        let header = std::iter::once(magic)
            .chain(sizes)
            .flat_map(u32::to_be_bytes);
        header.chain(data.iter().copied()).collect::<Vec<u8>>()
    };
    let pixels: Vec<u8> = (0..images.len())
        .flat_map(|i| images.pixels(i).to_vec())
        .collect();
    let shape = [images.len(), images.height(), images.width()];
    let images_file = folder.join(format!("{name}-images-idx3-ubyte"));
    let labels_file = folder.join(format!("{name}-labels-idx1-ubyte"));
    fs::write(images_file, file(0x803, &shape, &pixels)).expect("the file of images");
    fs::write(labels_file, file(0x801, &shape[..1], images.labels())).expect("that of labels");
}

#[test]
fn mnist_goes_on_where_it_stopped() {
    let digits = Digits::new(0);
    let (data, out) = (folder("mnist_data"), folder("mnist"));
    write_idx(&data, "train", &digits.images(0..1000));
    write_idx(&data, "t10k", &digits.images(1000..1200));
    let train = |epochs: &str| {
        let mut command = program("mnist");
        command.args(["--batch-size", "20", "--epochs", epochs]);
        command.arg("--data").arg(&data).arg("--out").arg(&out);
        printed("mnist", &mut command)
    };
    let first = result(&train("2"), "test accuracy:");
    let printed = train("6");
    assert!(printed.contains("goes on from"), "{printed}");
    let second = result(&printed, "test accuracy:");
    assert!(first < second && second > 0.6, "{first}, then {second}");

    let log = fs::read_to_string(out.join("log.jsonl")).expect("the log");
    assert_eq!(log.lines().count(), 6, "{log}");
    for file in ["loss.svg", "accuracy.svg", "histograms.svg", "graph.html"] {
        assert!(out.join(file).exists(), "there is no {file}");
    }
    let count = |folder: &Path, part: &str| {
        let files = fs::read_dir(folder).expect("the folder");
        let names = files.map(|file| file.expect("a file").file_name());
        names
            .filter(|name| name.to_string_lossy().contains(part))
            .count()
    };
    assert_eq!(count(&out, "snapshot_"), 2);
    assert!(count(&out.join("tensorboard"), "tfevents") >= 1);
}
