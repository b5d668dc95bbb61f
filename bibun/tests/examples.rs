//! Every example runs to its last assertion.

use std::path::PathBuf;
use std::process::Command;

/// For its tests. (Declared as an example with tests, the program would only be built as those.)
#[path = "../examples/private_training/accountant.rs"]
mod accountant;

/// Examples that are tried with arguments of their own.
const APART: &[&str] = &["mnist"];

fn program(name: &str) -> Command {
    // Tests lie in `deps/` beside the `examples/` that `cargo test` builds with them.
    let mut path: PathBuf = std::env::current_exe().expect("this program has a path");
    path.pop();
    path.pop();
    path.push("examples");
    path.push(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(
        path.exists(),
        "{} is built by `cargo test` or `cargo build --examples`",
        path.display()
    );
    Command::new(path)
}

#[test]
fn every_example_runs() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("the folder of examples")
        .map(|file| file.expect("an entry").path())
        .filter(|path| {
            path.extension().is_some_and(|extension| extension == "rs")
                || path.join("main.rs").exists()
        })
        .map(|path| {
            path.file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned()
        })
        .filter(|name| !APART.contains(&name.as_str()))
        .collect();
    names.sort();
    assert!(names.len() >= 7, "found only {names:?}");
    for name in names {
        let output = program(&name).output().expect("it starts");
        assert!(
            output.status.success(),
            "example {name} failed:\n{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
