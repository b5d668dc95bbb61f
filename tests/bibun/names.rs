//! The chapter of names: whatever is public has one row there, whose names are spelled as elsewhere or
//! explained. `tests/golden/tables/names.py` looks the names of the other libraries up in these.

use std::collections::{BTreeMap, BTreeSet};

use crate::sources::{files, first_name, public_functions, read, workspace};

/// A row of one of the chapter's tables.
struct Row {
    /// The heading above it.
    group: String,
    name: String,
    /// What PyTorch, JAX, and Chainer or NumPy have.
    counterparts: [String; 3],
    remark: String,
}

fn rows(chapter: &str) -> Vec<Row> {
    let mut group = "";
    let mut rows = Vec::new();
    for line in chapter.lines() {
        if let Some(heading) = line.strip_prefix('#') {
            group = heading.trim_matches(['#', ' ']);
        }
        if !line.starts_with("| `") {
            continue;
        }
        let cells: Vec<String> = line.split('|').map(|cell| cell.trim().to_owned()).collect();
        let [_, name, pytorch, jax, chainer, remark, _] = cells.try_into().expect(line);
        let bare = name.trim_matches('`');
        assert_eq!(first_name(bare), bare, "{line}");
        rows.push(Row {
            group: group.to_owned(),
            name: bare.to_owned(),
            counterparts: [pytorch, jax, chainer],
            remark,
        });
    }
    rows
}

fn chapter() -> Vec<Row> {
    rows(&read(workspace().join("docs/src/names.md")))
}

/// The names that a module exports by `pub use`, with the paths they come from, and those that it declares.
fn exports(text: &str) -> Vec<(&str, &str)> {
    let mut exports = Vec::new();
    for (at, _) in text.match_indices("\npub ") {
        let item = &text[at + "\npub ".len()..];
        let (kind, rest) = item.split_once(' ').unwrap_or((item, ""));
        match kind {
            "use" => {
                let used = rest.split(';').next().unwrap_or_default();
                let (path, names) = match used.split_once("::{") {
                    Some((path, names)) => (path, names.trim_end_matches('}')),
                    None => used.rsplit_once("::").unwrap_or(("", used)),
                };
                let names = names.split(',').map(str::trim);
                let names = names.filter(|name| !name.is_empty() && first_name(name) == *name);
                exports.extend(names.map(|name| (path, name)));
            }
            "fn" | "struct" | "enum" | "type" => exports.push(("", first_name(rest))),
            _ => {}
        }
    }
    exports
}

fn is_function(name: &str) -> bool {
    name.starts_with(char::is_lowercase)
}

/// What must have a row, by the headings of the chapter.
pub(crate) fn public_names() -> BTreeMap<String, BTreeSet<String>> {
    let mut names = public_functions();
    let mut add = |group: &str, exports: Vec<(&str, &str)>, is_in: &dyn Fn(&str, &str) -> bool| {
        let found = exports.into_iter().filter(|(path, name)| is_in(path, name));
        let found: BTreeSet<String> = found.map(|(_, name)| name.to_owned()).collect();
        assert!(!found.is_empty(), "nothing for {group}");
        names.insert(group.to_owned(), found);
    };
    let source = |path: &str| read(workspace().join("bibun/src").join(path));

    // Not links: traits, and what belongs to one link.
    let others = [
        "Chain",
        "LstmState",
        "PerAxis",
        "RecurrentCell",
        "RecurrentState",
        "RecurrentSteps",
        "Weighted",
    ];
    add("Links", exports(&source("links/mod.rs")), &|_, name| {
        !others.contains(&name) && !name.ends_with("Builder")
    });
    // Not optimizers: their rules and what all of them are made of.
    let others = ["ParameterStep", "RuleOptimizer", "Settings"];
    add(
        "Optimizers",
        exports(&source("optimizers/mod.rs")),
        &|_, name| !others.contains(&name) && !name.ends_with("Rule"),
    );
    add(
        "Hooks",
        exports(&source("optimizers/hooks/mod.rs")),
        &|_, name| name != "Site",
    );
    // A function and the type of what it gives are one.
    let schedules = source("optimizers/schedule/mod.rs");
    let schedules = exports(&schedules);
    let functions: BTreeSet<String> = (schedules.iter().map(|(_, name)| *name))
        .filter(|name| is_function(name))
        .map(spelling)
        .collect();
    add("Schedules", schedules.clone(), &|_, name| {
        is_function(name) || !functions.contains(&spelling(name))
    });
    let choices = ["Fan", "Nonlinearity", "Spread"];
    add(
        "Initializers",
        exports(&source("initializers/mod.rs")),
        &|_, name| !choices.contains(&name),
    );
    // Not distributions: traits, and what describes one.
    let others = [
        "Distribution",
        "KlDivergence",
        "Reparameterized",
        "Statistic",
        "Support",
    ];
    add(
        "Distributions",
        exports(&source("distributions/mod.rs")),
        &|_, name| !others.contains(&name),
    );
    add(
        "Bijectors",
        exports(&source("distributions/bijectors/mod.rs")),
        &|_, _| true,
    );
    let root = source("lib.rs");
    add("Transformations", exports(&root), &|path, name| {
        is_function(name) && path == "transformations"
    });
    add(
        "Gradients, scopes and trees",
        exports(&root),
        &|path, name| is_function(name) && path != "transformations",
    );
    names
}

/// The letters of a name, whatever the case; two axes stand for any number of them.
fn spelling(name: &str) -> String {
    let letters = name.chars().filter(|c| c.is_alphanumeric());
    letters.collect::<String>().to_lowercase().replace("2d", "")
}

/// What is wrong with the rows for these names, by group.
fn disagreements(rows: &[Row], names: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut told = BTreeSet::new();
    for Row { group, name, .. } in rows {
        if !told.insert((group, name)) {
            wrong.push(format!("{group}: `{name}` stands twice"));
        }
        if !names.get(group).is_some_and(|names| names.contains(name)) {
            wrong.push(format!("{group}: there is no `{name}`"));
        }
    }
    for (group, names) in names {
        let missing = names.iter().filter(|name| !told.contains(&(group, name)));
        wrong.extend(missing.map(|name| format!("{group}: `{name}` has no row")));
    }
    wrong
}

#[test]
fn every_public_name_has_one_row() {
    let mut names = public_names();
    let functions = public_functions();
    for (group, known) in [
        ("activation", "relu"),
        ("math", "less"),
        ("convolution", "conv3d"),
    ] {
        assert!(functions[group].contains(known), "{known} was not found");
    }
    let count: usize = names.values().map(BTreeSet::len).sum();
    assert!(count > 330, "only {count} names were found");

    // Of the words for ideas there is a choice.
    let mut types = BTreeSet::new();
    for crate_ in ["bibun/src", "bibun-array/src"] {
        for path in files(&workspace().join(crate_), ".rs") {
            let text = read(path);
            let items = ["\npub struct ", "\npub trait ", "\npub enum "];
            let items = items.iter().flat_map(|item| text.split(item).skip(1));
            types.extend(items.map(|item| first_name(item).to_owned()));
        }
    }
    let chapter = chapter();
    let ideas = chapter.iter().filter(|row| row.group == "Ideas");
    types.retain(|name| ideas.clone().any(|row| row.name == *name));
    names.insert("Ideas".to_owned(), types);

    let wrong = disagreements(&chapter, &names);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The names in a cell, without the arguments they are called with; nothing for a dash.
fn counterparts(cell: &str) -> Option<Vec<&str>> {
    if cell == "–" {
        return Some(Vec::new());
    }
    cell.split(", ")
        .map(|part| part.strip_prefix('`')?.strip_suffix('`'))
        .map(|part| part.filter(|name| !name.contains('`')))
        .collect()
}

/// What is wrong with a row by itself.
fn mistake(row: &Row) -> Option<String> {
    let roots: [&[&str]; 3] = [
        &["torch.", "F.", "nn.", "optim.", "x."],
        &["jax.", "jnp.", "lax.", "nnx.", "optax.", "flax.", "x."],
        &["chainer.", "F.", "L.", "np."],
    ];
    let mut found = Vec::new();
    for (cell, roots) in row.counterparts.iter().zip(roots) {
        let Some(names) = counterparts(cell) else {
            return Some(format!("neither `name`s nor a dash: {cell}"));
        };
        let known =
            |name: &&str| *name == "x[..]" || roots.iter().any(|root| name.starts_with(root));
        if let Some(name) = names.iter().find(|name| !known(name)) {
            return Some(format!("`{name}` is in the wrong column"));
        }
        found.extend(names);
    }
    let ours = spelling(&row.name);
    let is_theirs = found.iter().any(|name| {
        let path = name.split('(').next().unwrap_or_default();
        spelling(path.rsplit('.').next().unwrap_or_default()).starts_with(&ours)
    });
    if row.remark.is_empty() && found.is_empty() {
        Some("no counterpart, and no reason why it is there".to_owned())
    } else if row.remark.is_empty() && !is_theirs {
        Some("a name that no other library has, and no reason".to_owned())
    } else if !row.remark.is_empty() && !row.remark.ends_with('.') {
        Some("the remark does not end".to_owned())
    } else {
        None
    }
}

#[test]
fn every_row_has_a_counterpart_or_a_reason() {
    let chapter = chapter();
    let wrong = chapter.iter().filter_map(|row| {
        let mistake = mistake(row)?;
        Some(format!("{}: `{}`: {mistake}", row.group, row.name))
    });
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn wrong_tables_are_told() {
    let table = "## Links\n| bibun | a | b | c | remarks |\n|---|---|---|---|---|\n\
                 | `One` | `nn.One2d` | – | `L.OneND` | |\n\
                 | `Two` | `nn.Other` | – | – | |\n\
                 | `Two` | – | `nn.Two` | – | Why. |\n\
                 | `Three` | – | – | – | |\n";
    let rows = rows(table);
    let names = ["One", "Two", "Four"].map(str::to_owned).into();
    let found = disagreements(&rows, &[("Links".to_owned(), names)].into());
    let expected = [
        "Links: `Two` stands twice",
        "Links: there is no `Three`",
        "Links: `Four` has no row",
    ];
    assert_eq!(found, expected);
    let mistakes: Vec<Option<String>> = rows.iter().map(mistake).collect();
    let expected = [
        None,
        Some("a name that no other library has, and no reason"),
        Some("`nn.Two` is in the wrong column"),
        Some("no counterpart, and no reason why it is there"),
    ];
    assert_eq!(mistakes, expected.map(|text| text.map(str::to_owned)));

    let module = "mod a;\npub use a::{B, c,\n    D};\npub use e::F;\npub use e::*;\npub use x as y;\n\
                  pub(crate) use g::H;\npub struct I<T>(T);\n    pub fn method() {}\n";
    let expected = [("a", "B"), ("a", "c"), ("a", "D"), ("e", "F"), ("", "I")];
    assert_eq!(exports(module), expected);
}
