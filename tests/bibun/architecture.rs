//! What the design says of the sources, read in the sources.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sources::{files, read, workspace};

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

    /// The word behind each occurrence of a text.
    fn after(&self, text: &str) -> Vec<String> {
        let word = |rest: &str| -> String {
            let rest = rest.trim_start().chars();
            rest.take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect()
        };
        self.code.split(text).skip(1).map(word).collect()
    }

    /// The types that are declared here.
    fn types(&self) -> Vec<String> {
        ["struct ", "enum "]
            .map(|keyword| self.after(keyword))
            .concat()
    }

    /// The types that have methods of their own here.
    fn inherent_impls(&self) -> Vec<String> {
        let lines = self.code.lines().filter(|line| line.starts_with("impl"));
        let of_types = lines.filter(|line| !line.contains(" for "));
        let name = |line: &str| {
            // Behind the type parameters, which may hold others.
            let (mut depth, mut start) = (0, 0);
            for (at, c) in line.char_indices().skip("impl".len()) {
                match c {
                    '<' => depth += 1,
                    '>' => depth -= 1,
                    ' ' if depth == 0 => {
                        start = at + 1;
                        break;
                    }
                    _ => {}
                }
            }
            let rest = line[start..].chars();
            rest.take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect()
        };
        of_types.map(name).collect()
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

fn sources(folder: &str) -> Vec<Source> {
    let paths = files(&workspace().join(folder), ".rs").into_iter();
    let sources: Vec<Source> = paths
        .map(|path| Source {
            code: without_comments(&read(&path)),
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

/// The files through which the core uses functions: to move axes of batches and of examples.
const BRIDGES: [&str; 2] = ["batch_axis.rs", "example_axis.rs"];

/// A method that a folder above the core gives to a type of the core would be a call of a function by
/// another name.
#[test]
fn the_core_calls_functions_through_its_bridges_only() {
    let core = core();
    for source in &core {
        let named: Vec<String> = (source.crate_paths().into_iter())
            .filter(|path| path.split("::").any(|part| part == "functions"))
            .collect();
        let is_bridge = BRIDGES.iter().any(|bridge| source.is(bridge));
        assert_eq!(is_bridge, !named.is_empty(), "{:?}: {named:?}", source.path);
    }
    // Users call functions as methods of a Variable, so these are written beside the functions.
    let of_core: Vec<String> = core.iter().flat_map(Source::types).collect();
    let of_core: Vec<&String> = of_core.iter().filter(|name| *name != "Variable").collect();
    assert!(of_core.iter().any(|name| *name == "Batched"), "{of_core:?}");
    for source in sources("bibun/src/functions") {
        let foreign: Vec<String> = (source.inherent_impls().into_iter())
            .filter(|name| of_core.contains(&name) && !source.types().contains(name))
            .collect();
        assert!(foreign.is_empty(), "{:?} adds to {foreign:?}", source.path);
    }
    // Methods of Variables that are functions.
    let functions: Vec<String> = (sources("bibun/src/functions").iter())
        .flat_map(|source| source.after("method!("))
        .collect();
    assert!(
        functions.iter().any(|name| name == "moveaxis"),
        "{functions:?}"
    );
    // Names that lists, iterators and arrays have too.
    let shared = [
        "all",
        "any",
        "broadcast_to",
        "cast",
        "flatten",
        "max",
        "min",
        "repeat",
        "sum",
        "take",
    ];
    for source in core.iter().filter(|source| !source.is("batch_axis.rs")) {
        let called = (functions.iter())
            .filter(|name| !shared.contains(&name.as_str()))
            .find(|name| source.code.contains(&format!(".{name}(")));
        assert_eq!(called, None, "{:?}", source.path);
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
        // Whether a condition holds, and what is wrong where it does not.
        "functions/condition.rs",
        // Integers that decide the shape of a result.
        "functions/array/counted.rs",
        // The place in a stream of random numbers, which nobody computes.
        "functions/random/draws.rs",
        // Only tests.
        "functions/probe.rs",
        // What is asked for are numbers.
        "functions/metrics/classification.rs",
        "functions/metrics/ranking.rs",
        "functions/metrics/regression.rs",
        "functions/metrics/scores.rs",
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
fn matches_of_dtypes_name_them_all() {
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
fn the_interface_of_devices_names_no_device() {
    let all = sources("bibun-array/src");
    let named = |name: &str, word: &str| {
        let source = all.iter().find(|source| source.is(name)).expect(name);
        source.words().any(|found| found.eq_ignore_ascii_case(word))
    };
    assert!(named("placement.rs", "cpu"));
    assert!(!named("device.rs", "cpu"));
}

#[test]
fn unsafe_code_is_where_it_is_allowed() {
    let root = fs::read_to_string(workspace().join("bibun/src/lib.rs")).expect("lib.rs");
    assert!(root.contains("\n#![forbid(unsafe_code)]\n"));
    let allowed = [
        "bibun-array/src/assembler/pages.rs",
        "bibun-array/src/storage.rs",
        "bibun-array/src/cpu/convolution/memory.rs",
        "bibun-array/src/cpu/product/tiles.rs",
        "bibun-array/src/cpu/threads/team.rs",
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
    assert!(total <= 5500, "{total} lines of code: {counts:#?}");
    assert!(total > 500, "{total} lines are too few to be all");
}

#[test]
fn no_file_is_called_utils() {
    let root = workspace();
    for path in files(&root, "") {
        let path = path.strip_prefix(&root).expect("in the workspace");
        let named = path.iter().any(|part| {
            let part = part.to_string_lossy().to_lowercase();
            let stem = part.split('.').next().unwrap_or_default();
            ["utils", "util", "helpers", "misc"].contains(&stem)
        });
        assert!(!named, "{path:?}");
    }
}
