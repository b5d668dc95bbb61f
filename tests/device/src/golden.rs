//! Tables that are kept in files, so that a change of what nobody sees is seen.

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

/// Compares a table, of lines that begin with a name and a bar, with that in a file of `tests/golden`.
/// With `BLESS` in the environment the file is written instead.
///
/// # Panics
/// If they differ, with the lines that do.
pub fn expect_golden(file: &str, table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../golden")
        .join(file);
    if env::var_os("BLESS").is_some() {
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, table).expect("written");
        return;
    }
    let golden = fs::read_to_string(path).expect(file);
    let rows = |text: &str| -> BTreeMap<String, String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let row = |line: &str| {
            let (name, _) = line.split_once('|').unwrap_or((line, ""));
            (name.trim().to_owned(), line.to_owned())
        };
        lines.map(row).collect()
    };
    let (golden, found) = (rows(&golden), rows(table));
    let mut differences = Vec::new();
    for name in golden
        .keys()
        .chain(found.keys().filter(|name| !golden.contains_key(*name)))
    {
        let (old, new) = (golden.get(name), found.get(name));
        if old != new {
            differences.extend(old.map(|line| format!("- {line}")));
            differences.extend(new.map(|line| format!("+ {line}")));
        }
    }
    assert!(
        differences.is_empty(),
        "tests/golden/{file} says otherwise (BLESS=1 writes it anew, if the change is meant):\n{}",
        differences.join("\n")
    );
}
