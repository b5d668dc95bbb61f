//! The book: no chapter is forgotten, every link leads somewhere, and names in tables exist.

use std::collections::BTreeSet;
use std::fs;

use crate::sources::{files, read, workspace};

/// The chapters with their file names, without the list of them.
fn chapters() -> Vec<(String, String)> {
    let files = files(&workspace().join("docs/src"), ".md").into_iter();
    let chapters: Vec<_> = files
        .map(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            (name.into_owned(), read(&path))
        })
        .filter(|(name, _)| name != "SUMMARY.md")
        .collect();
    assert!(chapters.len() >= 18, "only {} chapters", chapters.len());
    chapters
}

/// A text line by line, each with the language of the block of code that it is in.
fn lines(text: &str) -> Vec<(Option<&str>, &str)> {
    let mut block = None;
    let mut lines = Vec::new();
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), block) {
            (Some(language), None) => block = Some(language),
            (Some(_), Some(_)) => block = None,
            (None, _) => lines.push((block, line)),
        }
    }
    assert_eq!(block, None, "a block of code does not end");
    lines
}

fn prose(text: &str) -> impl Iterator<Item = &str> {
    let lines = lines(text).into_iter();
    lines.filter_map(|(block, line)| block.is_none().then_some(line))
}

/// The targets of the links in a line.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1);
    targets.filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

/// What mdBook and GitHub make of a heading, to link to.
fn anchor(heading: &str) -> String {
    let kept = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c.to_ascii_lowercase()),
        _ => None,
    };
    heading.trim().chars().filter_map(kept).collect()
}

#[test]
fn every_chapter_is_run_and_listed() {
    let run = read(workspace().join("bibun/src/book/mod.rs"));
    let summary = read(workspace().join("docs/src/SUMMARY.md"));
    let listed: Vec<&str> = summary.lines().flat_map(links).collect();
    for (name, _) in chapters() {
        assert!(run.contains(&format!("\"{name}\",")), "{name} is not run");
        assert!(listed.contains(&&*name), "{name} is not in the summary");
    }
}

#[test]
fn every_block_says_what_it_is() {
    for (name, text) in chapters() {
        let blocks: BTreeSet<&str> = (lines(&text).into_iter())
            .filter_map(|(block, _)| block)
            .collect();
        assert!(blocks.contains("rust"), "{name} has no program");
        for language in blocks {
            let known = ["rust", "sh", "toml"].contains(&language);
            assert!(known, "{name} has a block of `{language}`");
        }
    }
}

#[test]
fn every_link_leads_somewhere() {
    let root = workspace();
    let mut pages = files(&root.join("docs/src"), ".md");
    pages.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root.join(name)));
    let mut found = 0;
    for page in pages {
        let text = read(&page);
        for target in prose(&text).flat_map(links) {
            if target.starts_with("https://") {
                continue;
            }
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = match file {
                "" => page.clone(),
                file => page.with_file_name("").join(file),
            };
            assert!(file.exists(), "{}: {target}", page.display());
            if !heading.is_empty() {
                let there = read(&file);
                let headings = prose(&there).filter_map(|line| line.strip_prefix('#'));
                let mut anchors = headings.map(|line| anchor(line.trim_start_matches('#')));
                let is_there = anchors.any(|anchor| anchor == heading);
                assert!(is_there, "{}: {target}", page.display());
            }
            found += 1;
        }
    }
    assert!(found > 30, "{found} links");
}

/// The words of a piece of code.
fn words(code: &str) -> impl Iterator<Item = &str> {
    let parts = code.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    parts.filter(|word| word.starts_with(|c: char| c.is_alphabetic()))
}

/// The pieces in back quotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The words of the library's code: what is only spoken of, or named by a test, is not there.
fn words_of_the_sources() -> BTreeSet<String> {
    let root = workspace();
    // A crate is named in the sources of others only.
    let mut known = BTreeSet::from(["bibun_mpi".to_owned()]);
    for folder in [
        "bibun/src",
        "bibun-array/src",
        "bibun-derive/src",
        "bibun-mpi/src",
    ] {
        for source in files(&root.join(folder), ".rs") {
            let text = read(&source);
            let text = text.split("\n#[cfg(test)]\n").next().unwrap_or_default();
            let lines = text.lines().map(str::trim_start);
            let code = lines.filter(|line| !line.starts_with("//"));
            known.extend(code.flat_map(words).map(str::to_owned));
        }
    }
    known
}

#[test]
fn names_in_the_tables_of_other_libraries_exist() {
    let mut known = words_of_the_sources();
    // Variables of the tables, and Rust's own.
    let own = ["f", "x", "y", "v", "axis", "Vec", "for", "while"];
    known.extend(own.map(str::to_owned));
    let mut found = 0;
    for (name, text) in chapters() {
        if !name.starts_with("from-") {
            continue;
        }
        for line in prose(&text).filter(|line| line.starts_with("| ")) {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").collect();
            assert_eq!(cells.len(), 2, "{name}: {line}");
            for word in quoted(cells[1]).flat_map(words) {
                assert!(known.contains(word), "{name}: `{word}` in {line}");
                found += 1;
            }
        }
    }
    assert!(found > 200, "{found} names");
}

#[test]
fn names_in_the_text_exist() {
    let mut known = words_of_the_sources();
    let folders = ["examples", "bibun-mpi/examples"].map(|folder| workspace().join(folder));
    let examples = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).expect("examples"));
    for example in examples {
        let path = example.expect("an entry").path();
        known.extend(
            path.file_stem()
                .map(|name| name.to_string_lossy().into_owned()),
        );
    }
    // Columns of the tables of times, and a name that there is not.
    known.extend(["R_ord", "R_abs", "S_loop", "S_peer", "cifar", "try_"].map(str::to_owned));
    let mut found = 0;
    for (name, text) in chapters() {
        // There, other libraries have the word.
        if name.starts_with("from-") || name == "names.md" || name == "every-function.md" {
            continue;
        }
        for line in prose(&text) {
            for piece in quoted(line) {
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
                if piece.chars().all(is_name) {
                    for word in words(piece) {
                        assert!(known.contains(word), "{name}: `{word}` in {line}");
                        found += 1;
                    }
                }
            }
        }
    }
    assert!(found > 300, "{found} names");
}

#[test]
fn every_example_has_a_line_in_the_readme() {
    let manifest = read(workspace().join("examples/Cargo.toml"));
    let programs = manifest.split("[[example]]\n").skip(1).map(|table| {
        let name = table.lines().find_map(|line| line.strip_prefix("name = "));
        name.expect("a name").trim_matches('"')
    });
    let programs: BTreeSet<&str> = programs.collect();
    let readme = read(workspace().join("README.md"));
    let listed = readme.lines().filter_map(|line| {
        let (command, what) = line.strip_prefix("| `")?.split_once("` | ")?;
        (what.len() > 2).then(|| command.split(' ').next().expect("a name"))
    });
    let listed: BTreeSet<&str> = listed.collect();
    assert!(programs.len() > 30, "only {programs:?}");
    assert_eq!(programs, listed);
}
