//! What the types promise to refuse, and how the compiler says so: each program of `compile_fail/`
//! does not compile, with the message beside it.
//!
//! The compiler is called with the library that this test is linked to, which takes a tenth of a
//! second for each program. After a change of messages, or of the compiler:
//! `BLESS=1 cargo test -p bibun-tests --test bibun compile_fail`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Where cargo puts libraries and this test.
fn libraries() -> PathBuf {
    let test = env::current_exe().expect("this program");
    test.parent().expect("its folder").to_owned()
}

/// The library as it was built last.
fn bibun() -> PathBuf {
    let entries = fs::read_dir(libraries()).expect("the folder of this program");
    let built = entries.flatten().filter_map(|entry| {
        let name = entry.file_name();
        let name = name.to_str()?;
        let is_ours = name.starts_with("libbibun-") && name.ends_with(".rlib");
        let time = entry.metadata().ok()?.modified().ok()?;
        is_ours.then(|| (time, entry.path()))
    });
    let (_, newest): (SystemTime, PathBuf) = built.max().expect("bibun beside its test");
    newest
}

/// What the compiler says to a program, without what changes with every line of the library.
fn said(program: &str) -> String {
    let made = env::temp_dir().join(format!("bibun-compile-fail-{}", std::process::id()));
    let output = Command::new(env::var_os("RUSTC").unwrap_or("rustc".into()))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["--edition=2024", "--emit=metadata", "--color=never", "-o"])
        .arg(&made)
        .arg(format!("--extern=bibun={}", bibun().display()))
        .arg(format!("-Ldependency={}", libraries().display()))
        .arg(program)
        .output()
        .expect("the compiler");
    let _ = fs::remove_file(made);
    let text = String::from_utf8(output.stderr).expect("a message");
    assert!(!output.status.success(), "{program} compiles: {text}");
    // Lists of whatever else there is change with every type of the library.
    let mut listing = false;
    let told = text.lines().filter(|line| {
        let begins = line.contains("the following other types implement");
        let ends = listing && line.ends_with(" others");
        listing = begins || listing && !ends;
        let summary = [
            "error: aborting",
            "For more information",
            "Some errors have detailed",
        ];
        !(begins || listing || ends || summary.iter().any(|start| line.starts_with(start)))
    });
    let told = told.map(|line| match line.split_once("--> ") {
        Some((arrow, place)) if !place.starts_with("compile_fail/") => {
            let file = place.split(':').next().unwrap_or(place);
            let file = file.split_once("/library/").map_or(file, |(_, file)| file);
            format!("{arrow}--> {file}\n")
        }
        _ => format!("{line}\n"),
    });
    told.collect::<String>().trim_end().to_owned() + "\n"
}

#[test]
fn what_the_types_refuse() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("compile_fail");
    let files = fs::read_dir(&folder).expect("the programs").flatten();
    let names = files.filter_map(|file| file.file_name().into_string().ok());
    let mut programs: Vec<String> = names.filter(|name| name.ends_with(".rs")).collect();
    programs.sort();
    assert!(!programs.is_empty());
    for program in programs {
        let said = said(&format!("compile_fail/{program}"));
        let expected = folder.join(&program).with_extension("stderr");
        if env::var_os("BLESS").is_some() {
            fs::write(&expected, &said).expect("written");
        }
        let expected = fs::read_to_string(&expected).unwrap_or_default();
        assert!(
            said == expected,
            "{program}: the compiler says\n{said}\nexpected\n{expected}"
        );
    }
}
