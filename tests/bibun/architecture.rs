//! What the design says of the sources, read in the sources.

use std::fs;
use std::path::{Path, PathBuf};

/// One source file: where it is, and its code without comments, strings and tests.
struct Source {
    path: PathBuf,
    code: String,
}

impl Source {
    fn is(&self, name: &str) -> bool {
        self.path.ends_with(name)
    }

    /// The words of the code, in order.
    fn words(&self) -> impl Iterator<Item = &str> {
        let parts = self
            .code
            .split(|c: char| !(c.is_alphanumeric() || c == '_'));
        parts.filter(|word| !word.is_empty())
    }

    /// The paths that the code imports or names from the crate's root, one for each name.
    fn crate_paths(&self) -> Vec<String> {
        let dense: String = self.code.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut paths = Vec::new();
        for rest in dense.split("crate::").skip(1) {
            unfold("", rest, &mut paths);
        }
        paths
    }

    /// Lines that hold code.
    fn lines(&self) -> usize {
        let lines = self.code.lines();
        lines.filter(|line| !line.trim().is_empty()).count()
    }
}

/// The paths that begin `text`: `a::b`, or `{a, b::{c, d}}` one by one.
fn unfold(prefix: &str, text: &str, paths: &mut Vec<String>) {
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let end = text.find(|c| !is_path(c)).unwrap_or(text.len());
    let (path, rest) = text.split_at(end);
    let path = format!("{prefix}{path}");
    let Some(group) = rest.strip_prefix('{') else {
        return paths.push(path);
    };
    let (mut depth, mut start) = (0, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => return unfold(&path, group[start..at].trim(), paths),
            '}' => depth -= 1,
            ',' if depth == 0 => {
                unfold(&path, group[start..at].trim(), paths);
                start = at + 1;
            }
            _ => {}
        }
    }
}

/// Code without comments and the contents of strings; what stands behind the first `#[cfg(test)]`
/// that begins a line is a file's tests.
fn without_comments(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\n").next().unwrap_or_default();
    let mut code = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("'\"'") {
            3
        } else if c == '"' {
            let mut escaped = false;
            let end = rest[1..].find(|c: char| {
                let end = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                end
            });
            end.map_or(rest.len(), |end| end + 2)
        } else {
            code.push(c);
            c.len_utf8()
        };
        rest = &rest[length..];
    }
    code
}

fn workspace() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().expect("the workspace").to_owned()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.expect("an entry").path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            files.extend(self::files(&path));
        } else if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn sources(folder: &str) -> Vec<Source> {
    let paths = files(&workspace().join(folder)).into_iter();
    let sources: Vec<Source> = paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| Source {
            code: without_comments(&fs::read_to_string(&path).expect("a text")),
            path,
        })
        .collect();
    assert!(!sources.is_empty(), "no sources in {folder}");
    sources
}

/// The files of the crate's root: the vocabulary, the door and the walks.
fn core() -> Vec<Source> {
    let root = workspace().join("bibun/src");
    let mut core = sources("bibun/src");
    core.retain(|source| source.path.parent() == Some(&root));
    core
}

/// Whether a file is declared as a module of tests.
fn is_for_tests(path: &Path) -> bool {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let parent = fs::read_to_string(path.with_file_name("mod.rs")).unwrap_or_default();
    parent.contains(&format!("#[cfg(test)]\nmod {stem};"))
}

const WALKS: [&str; 5] = [
    "reverse.rs",
    "forward.rs",
    "batch.rs",
    "per_example.rs",
    "apply.rs",
];

#[test]
fn the_reader_of_sources_reads() {
    let source = Source {
        path: PathBuf::from("here/made_up.rs"),
        code: without_comments(
            "use crate::{gradients, batch::{Batched, vmap}}; // unsafe\nlet s = \"unsafe \\\" { \"; \
             crate::apply(x)\n#[cfg(test)]\nmod tests { unsafe {} }",
        ),
    };
    let paths = ["gradients", "batch::Batched", "batch::vmap", "apply"];
    assert_eq!(source.crate_paths(), paths);
    assert!(!source.words().any(|word| word == "unsafe"));
    assert_eq!(source.lines(), 2);
    assert!(source.is("made_up.rs"));
}

#[test]
fn a_walk_never_names_a_function() {
    let core = core();
    for walk in WALKS {
        let source = core.iter().find(|source| source.is(walk)).expect(walk);
        let named: Vec<String> = (source.crate_paths().into_iter())
            .filter(|path| path.split("::").any(|part| part == "functions"))
            .collect();
        assert!(named.is_empty(), "{walk} names {named:?}");
    }
}

#[test]
fn a_function_never_names_a_walk() {
    let walks = [
        "reverse",
        "forward",
        "batch",
        "per_example",
        "transformations",
        "grad",
        "gradients",
        "gradients_with",
        "value_and_grad",
        "vmap",
        "vmap_with",
        "jvp",
        "vjp",
        "GradOptions",
    ];
    for source in sources("bibun/src/functions") {
        if is_for_tests(&source.path) {
            continue;
        }
        let named: Vec<String> = (source.crate_paths().into_iter())
            .filter(|path| path != "batch::Batched")
            .filter(|path| walks.contains(&path.split("::").next().unwrap_or_default()))
            .collect();
        assert!(named.is_empty(), "{:?} names {named:?}", source.path);
        let calls = ["backward", "backward_with"];
        let called = source.words().find(|word| calls.contains(word));
        assert_eq!(called, None, "{:?}", source.path);
    }
}

/// Elements are on a device, and whoever reads them waits for it.
#[test]
fn functions_do_not_read_elements() {
    let reads = [
        ".item(",
        ".item::<",
        "to_vec::<",
        ".as_slice::<",
        ".element(",
    ];
    let allowed = [
        // Indices and positions that are known without waiting.
        "functions/array/index/picking.rs",
        "functions/array/slice.rs",
        // The place in a stream of random numbers, which nobody computes.
        "functions/random/draws.rs",
        // Only tests.
        "functions/probe.rs",
        // What is asked for are numbers.
        "functions/metrics/classification.rs",
        "functions/metrics/regression.rs",
    ];
    let found: Vec<PathBuf> = (sources("bibun/src/functions").into_iter())
        .filter(|source| !is_for_tests(&source.path))
        .filter(|source| reads.iter().any(|read| source.code.contains(read)))
        .filter(|source| !allowed.iter().any(|allowed| source.is(allowed)))
        .map(|source| source.path)
        .collect();
    assert_eq!(found, [""; 0].map(PathBuf::from));
}

/// The patterns of every `match` in some code, those of one block together.
fn matches(code: &str) -> Vec<Vec<&str>> {
    let mut blocks = Vec::new();
    // Where the pattern begins that is being read, in each block that is open and is one.
    let mut open: Vec<Option<(usize, Vec<&str>)>> = Vec::new();
    let (mut round, mut words_since) = (0, String::new());
    let mut is_match = false;
    for (at, c) in code.char_indices() {
        if c.is_alphanumeric() || c == '_' {
            words_since.push(c);
            continue;
        }
        is_match |= words_since == "match";
        words_since.clear();
        match c {
            '{' => {
                open.push((is_match && round == 0).then(|| (at + 1, Vec::new())));
                is_match &= round != 0;
            }
            '}' => {
                if let Some(Some((_, patterns))) = open.pop() {
                    blocks.push(patterns);
                }
                if let Some(Some((start, _))) = open.last_mut() {
                    *start = at + 1;
                }
            }
            '(' | '[' => round += 1,
            ')' | ']' => round -= 1,
            ';' => is_match = false,
            ',' => {
                if let (Some(Some((start, _))), 0) = (open.last_mut(), round) {
                    *start = at + 1;
                }
            }
            '>' if code[..at].ends_with('=') => {
                if let Some(Some((start, patterns))) = open.last_mut()
                    && *start < at
                {
                    patterns.push(code[*start..at - 1].trim());
                }
            }
            _ => {}
        }
    }
    blocks
}

#[test]
fn whoever_asks_for_a_dtype_knows_them_all() {
    let dtypes = [
        "DType::",
        "Accumulator::",
        "Scalar::",
        "Slice::",
        "SliceMut::",
    ];
    let sample = "match x { DType::F32 | DType::F64 => f(|| { a => b }), (_, 1) => {} other => 2 }";
    assert_eq!(
        matches(sample),
        [["DType::F32 | DType::F64", "(_, 1)", "other"]]
    );
    let is_of_dtypes = |pattern: &&str| dtypes.iter().any(|name| pattern.contains(name));
    let is_name = |pattern: &&str| pattern.chars().all(|c| c.is_lowercase() || c == '_');
    let mut found = Vec::new();
    for source in ["bibun-array/src", "bibun/src"]
        .map(sources)
        .iter()
        .flatten()
    {
        for patterns in matches(&source.code) {
            if patterns.iter().any(&is_of_dtypes) && patterns.iter().any(&is_name) {
                found.push(format!("{}: {patterns:?}", source.path.display()));
            }
        }
    }
    assert!(
        found.is_empty(),
        "what comes after is taken for what there is:\n{}",
        found.join("\n")
    );
}

#[test]
fn unsafe_code_is_where_it_is_allowed() {
    let root = fs::read_to_string(workspace().join("bibun/src/lib.rs")).expect("lib.rs");
    assert!(root.contains("\n#![forbid(unsafe_code)]\n"));
    let allowed = [
        "bibun-array/src/storage.rs",
        "bibun-array/src/cpu/matmul.rs",
        "bibun-array/src/cpu/product.rs",
    ];
    for source in sources("bibun-array/src") {
        let has_unsafe = source.words().any(|word| word == "unsafe");
        let may_have = allowed.iter().any(|allowed| source.path.ends_with(allowed));
        assert!(may_have || !has_unsafe, "{:?} has unsafe code", source.path);
    }
}

#[test]
fn the_core_stays_small() {
    let mut counts: Vec<(usize, PathBuf)> = (core().iter())
        .map(|source| (source.lines(), source.path.clone()))
        .collect();
    counts.sort();
    let total: usize = counts.iter().map(|(lines, _)| lines).sum();
    assert!(total <= 4900, "{total} lines of code: {counts:#?}");
    assert!(total > 500, "{total} lines are too few to be all");
}

#[test]
fn no_file_is_called_utils() {
    let root = workspace();
    for path in files(&root) {
        let path = path.strip_prefix(&root).expect("in the workspace");
        let named = path.iter().any(|part| {
            let part = part.to_string_lossy().to_lowercase();
            let stem = part.split('.').next().unwrap_or_default();
            ["utils", "util", "helpers", "misc"].contains(&stem)
        });
        assert!(!named, "{path:?}");
    }
}
