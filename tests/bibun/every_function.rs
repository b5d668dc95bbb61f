//! The chapter of every function of others: what it names exists, and what it counts is right.
//! `tests/golden/tables/every_function.py` tells whether it has all of them.

use std::collections::BTreeSet;

use crate::names::public_names;
use crate::sources::{files, first_name, read, workspace};

/// The rows below a heading of the chapter: a name there, and what is written for it.
struct Section {
    title: String,
    rows: Vec<(String, String)>,
}

fn sections(chapter: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for line in chapter.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            let title = title.to_owned();
            sections.push(Section {
                title,
                rows: Vec::new(),
            });
        } else if line.starts_with("| `")
            && let Some(section) = sections.last_mut()
        {
            let cells: Vec<&str> = line.split(" | ").collect();
            let [there, here] = cells[..] else {
                panic!("two cells: {line}")
            };
            let here = here.trim_end_matches(" |");
            (section.rows).push((there.trim_matches(['|', ' ', '`']).into(), here.into()));
        }
    }
    sections
}

/// The names that a piece of code calls, and the name that it is.
fn called(code: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut names = Vec::new();
    let mut at = 0;
    while let Some(start) = code[at..].find(is_name) {
        let name = first_name(&code[at + start..]);
        at += start + name.len();
        let whole = code
            .rsplit("::")
            .next()
            .unwrap_or(code)
            .trim_matches(['.', '!'])
            == name;
        if whole || code[at..].starts_with('(') {
            names.push(name);
        }
    }
    names
}

/// All names of functions, methods and types.
fn known() -> BTreeSet<String> {
    let mut known: BTreeSet<String> = public_names().into_values().flatten().collect();
    // Of Rust itself.
    known.extend(["ln", "clone", "to_string", "at"].map(str::to_owned));
    for package in ["bibun/src", "bibun-array/src"] {
        for path in files(&workspace().join(package), ".rs") {
            let text = read(path);
            for item in ["pub fn ", "pub const fn ", "pub struct "] {
                known.extend(
                    text.split(item)
                        .skip(1)
                        .map(|rest| first_name(rest).to_owned()),
                );
            }
        }
    }
    known
}

/// Returns the names that do not exist.
fn unknown(sections: &[Section], known: &BTreeSet<String>) -> Vec<String> {
    let rows = sections.iter().flat_map(|section| &section.rows);
    rows.flat_map(|(there, here)| {
        let codes: Vec<&str> = here.split('`').skip(1).step_by(2).collect();
        let names = codes.iter().flat_map(|code| called(code));
        let missing = names.filter(|name| !known.contains(*name));
        let mut wrong: Vec<String> = missing.map(|name| format!("{there}: `{name}`")).collect();
        if codes.is_empty() && here != "no" {
            wrong.push(format!("{there}: neither `code` nor no: {here}"));
        }
        wrong
    })
    .collect()
}

#[test]
fn what_stands_for_a_function_exists() {
    let chapter = read(workspace().join("docs/src/every-function.md"));
    let sections = sections(&chapter);
    let wrong = unknown(&sections, &known());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

    let mut counts: Vec<(String, usize, usize)> = Vec::new();
    for Section { title, rows } in sections {
        let names: BTreeSet<&String> = rows.iter().map(|(there, _)| there).collect();
        assert_eq!(names.len(), rows.len(), "a row of {title} stands twice");
        let none = rows.iter().filter(|(_, here)| here == "no").count();
        counts.push((title, rows.len(), none));
    }
    let sum = |count: fn(&(String, usize, usize)) -> usize| counts.iter().map(count).sum();
    let (all, none): (usize, usize) = (sum(|c| c.1), sum(|c| c.2));
    assert!(all > 1000, "only {all} rows were found");
    counts.push(("all".into(), all, none));
    for (title, count, none) in counts {
        let row = format!("| {title} | {count} | {none} |");
        assert!(chapter.contains(&row), "the count is {row}");
    }
}

#[test]
fn names_that_do_not_exist_are_told() {
    let text =
        "## `a`\n| `x` | `one(two(x), k.three())`, `Four::five` |\n| `y` | no |\n| `z` | – |\n";
    let known = ["one", "three"].map(str::to_owned).into();
    let expected = ["x: `two`", "x: `five`", "z: neither `code` nor no: –"];
    assert_eq!(unknown(&sections(text), &known), expected);
    assert_eq!(called(".rank"), ["rank"]);
    assert_eq!(called("x + k * a"), [""; 0]);
}
