//! The sources as text, for tests of what stands in them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn workspace() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().expect("the workspace").to_owned()
}

pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// All files below a folder that end so, but for what builds and hidden folders hold.
pub(crate) fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            files.extend(self::files(&path, ending));
        } else if path.is_file() && name.ends_with(ending) {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The name that a text begins with.
pub(crate) fn first_name(text: &str) -> &str {
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_'));
    &text[..end.unwrap_or(text.len())]
}

/// The names of all public functions, as the sources declare them, by their folders in `functions`.
pub(crate) fn public_functions() -> BTreeMap<String, BTreeSet<String>> {
    let root = workspace().join("bibun/src/functions");
    let sources: Vec<_> = (files(&root, ".rs").into_iter())
        .map(|path| (read(&path), path))
        .collect();
    let makers = makers(sources.iter().flat_map(|(text, _)| blocks(text)));
    let mut functions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (text, path) in &sources {
        // The folder in `functions`, whatever is below it.
        let below = path.strip_prefix(&root).unwrap_or(path);
        let folder = match below.components().count() {
            1 => String::from("functions"),
            _ => (below.iter().next().unwrap_or_default())
                .to_string_lossy()
                .into_owned(),
        };
        for name in functions_of(text, &makers) {
            let is_new = functions
                .entry(folder.clone())
                .or_default()
                .insert(name.clone());
            assert!(is_new, "{name} stands twice in {folder}");
        }
    }
    functions
}

/// What begins at the start of a line, with the indented lines below it.
fn blocks(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let mut lines = text.lines().peekable();
    std::iter::from_fn(move || {
        let mut block = vec![lines.next()?];
        while let Some(line) = lines.next_if(|line| line.is_empty() || line.starts_with(' ')) {
            block.push(line);
        }
        Some(block)
    })
}

/// The macros that declare public functions, themselves or by another, and not as methods.
fn makers<'a>(blocks: impl Iterator<Item = Vec<&'a str>>) -> BTreeSet<&'a str> {
    let macros = blocks.filter_map(|block| {
        let name = first_name(block[0].strip_prefix("macro_rules! ")?);
        Some((name, block))
    });
    let macros: Vec<(&str, Vec<&str>)> = macros.collect();
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut makers = BTreeSet::new();
    loop {
        let declares = |block: &[&str]| {
            block.iter().enumerate().any(|(at, line)| {
                let mut above = block[..at].iter().rev();
                let around = above.find(|above| !above.is_empty() && indent(above) < indent(line));
                let is_method = around.is_some_and(|line| line.trim_start().starts_with("impl"));
                line.trim_start().starts_with("pub fn $") && !is_method
            })
        };
        let calls = |block: &[&str]| {
            block.iter().any(|line| {
                let mut calls = line.match_indices('!').map(|(at, _)| &line[..at]);
                calls.any(|code| {
                    let name = code.rsplit([':', ' ']).next();
                    name.is_some_and(|name| makers.contains(name))
                })
            })
        };
        let found = macros
            .iter()
            .filter(|(_, block)| declares(block) || calls(&block[1..]));
        let found: BTreeSet<&str> = found.map(|(name, _)| *name).collect();
        if found == makers {
            return makers;
        }
        makers = found;
    }
}

/// The public functions of a file, those too that macros make of their entries.
fn functions_of(text: &str, makers: &BTreeSet<&str>) -> Vec<String> {
    let mut names = Vec::new();
    for block in blocks(text) {
        let called = first_name(block[0]);
        if let Some(declared) = block[0].strip_prefix("pub fn ") {
            names.push(first_name(declared).to_owned());
        } else if makers.contains(called) && block[0][called.len()..].starts_with('!') {
            let before = names.len();
            for line in &block[1..] {
                let entry = line.strip_prefix("    ").unwrap_or_default();
                let name = first_name(entry);
                let rest = &entry[name.len()..];
                let has_arrow = rest.starts_with(['(', ' ']) && rest.contains(" -> ");
                if name.starts_with(char::is_lowercase) && (has_arrow || rest == ";") {
                    names.push(name.to_owned());
                }
            }
            assert!(names.len() > before, "which functions does {block:?} make?");
        }
    }
    names
}

#[test]
fn entries_of_macros_are_functions() {
    let text = "\
macro_rules! method {
    () => {
        impl Variable {
            #[must_use]
            pub fn $name() {}
        }
    };
}
macro_rules! unary {
    () => {
        $crate::binary! { $name }
        $crate::method! { $name }
    };
}
macro_rules! binary {
    () => {$(
        #[doc = \"..\"]
        pub fn $name() {}
    )+};
}
pub fn one<T>(x: T) {}
pub(crate) fn hidden() {}
fn private() {}
method!(one);
unary! {
    samples in s;

    /// three -> four
    two(x, a) via to_float -> Two {
        value: f(x) -> 1,
    }

    three;
}
binary! {
    1 \"axis\";
    conv9d -> \"[1.0]\" {
        \"w -> b\"
    }
}
";
    let makers = makers(blocks(text));
    assert_eq!(makers, ["binary", "unary"].into());
    let found = functions_of(text, &makers);
    assert_eq!(found, ["one", "two", "three", "conv9d"]);
}
