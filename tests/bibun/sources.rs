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
    let mut functions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for path in files(&root, ".rs") {
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
        let folder = folder.to_string_lossy().into_owned();
        for name in functions_of(&read(&path)) {
            let is_new = functions
                .entry(folder.clone())
                .or_default()
                .insert(name.clone());
            assert!(is_new, "{name} stands twice in {folder}");
        }
    }
    functions
}

/// The public functions of a file, those too that macros make of their entries.
fn functions_of(text: &str) -> Vec<String> {
    const MAKE_FUNCTIONS: [&str; 6] = [
        "unary",
        "binary",
        "binary_function",
        "binary_predicates",
        "unary_predicates",
        "convolutions",
    ];
    const MAKE_NONE: [&str; 8] = [
        "element_function",
        "function_type",
        "known_exponents",
        "macro_rules",
        "method",
        "operand_from_numbers",
        "operators",
        "setters",
    ];
    let mut names = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(declared) = line.strip_prefix("pub fn ") {
            names.push(first_name(declared).to_owned());
        }
        let called = first_name(line);
        if called.is_empty() || !line[called.len()..].starts_with('!') {
            continue;
        }
        if MAKE_NONE.contains(&called) {
            continue;
        }
        assert!(
            MAKE_FUNCTIONS.contains(&called),
            "does {called}! make public functions?"
        );
        let before = names.len();
        for line in lines.by_ref().take_while(|line| !line.starts_with('}')) {
            let entry = line.strip_prefix("    ").unwrap_or_default();
            let name = first_name(entry);
            let rest = &entry[name.len()..];
            let has_arrow = rest.starts_with(['(', ' ']) && rest.contains(" -> ");
            if name.starts_with(char::is_lowercase) && (has_arrow || rest == ";") {
                names.push(name.to_owned());
            }
        }
        assert!(names.len() > before, "{called}! has no entries: {line}");
    }
    names
}

#[test]
fn entries_of_macros_are_functions() {
    let text = "pub fn one<T>(x: T) {}\npub(crate) fn hidden() {}\nunary! {\n    samples in s;\n\n    \
                two(x, a) via to_float -> Two {\n        value: f(x) -> 1,\n    }\n}\nmethod!(one);\n\
                unary_predicates! {\n    /// three -> four\n    three;\n}\nconvolutions! {\n    1 \"axis\";\n    \
                conv9d -> \"[1.0]\" {\n        \"w -> b\"\n    }\n}\nfn private() {}";
    assert_eq!(functions_of(text), ["one", "two", "three", "conv9d"]);
}
