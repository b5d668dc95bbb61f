//! The tables of names in the chapters for those who come from PyTorch, JAX and Chainer: what bibun has
//! in place of each name gives the numbers that the other library gave (`golden/tables/of_*.py` wrote
//! them). A name without numbers says why; a row without either fails.

mod chainer;
mod jax;
mod parts;
mod pytorch;
mod pytorch_networks;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use bibun::array::{Array, DType, Generator, Shape};
use bibun::initializers::Initializer;
use bibun::links::Chain;
use bibun::optimizers::Optimizer;
use bibun::optimizers::schedule::Schedule;
use bibun::{Tree, Variable, Visitor};
use serde_json::Value;

/// What bibun gives for one name of a table.
struct Case {
    name: &'static str,
    values: Vec<Variable>,
    /// How far off they may be; by default what the dtype allows.
    tolerance: Option<f64>,
}

/// What bibun gives for the names of one chapter.
#[derive(Default)]
struct Cases(Vec<Case>);

impl Cases {
    fn row(&mut self, name: &'static str, values: impl Into<Vec<Variable>>) {
        self.about(None, name, values);
    }

    /// For what is random, or found by iteration: equal up to a part of the numbers.
    fn about(
        &mut self,
        tolerance: impl Into<Option<f64>>,
        name: &'static str,
        values: impl Into<Vec<Variable>>,
    ) {
        let (values, tolerance) = (values.into(), tolerance.into());
        self.0.push(Case {
            name,
            values,
            tolerance,
        });
    }
}

/// Names that have no numbers, each list with the reason.
type Without = &'static [(&'static str, &'static [&'static str])];

/// The inputs that `golden/tables/common.py` has too.
fn wave(shape: impl Into<Shape>, seed: usize) -> Variable {
    let shape = shape.into();
    let value = |i: usize| (((i * 37 + seed * 53) % 101) as f64 - 50.5) / 25.0;
    let values = (0..shape.size()).map(value).collect();
    Variable::new(Array::from_vec(values, shape))
}

fn array(shape: impl Into<Shape>, seed: usize) -> Array {
    wave(shape, seed).array()
}

fn f32(x: &Variable) -> Variable {
    x.cast(DType::F32)
}

fn random() -> Generator {
    Generator::new(0)
}

fn numbers(values: impl IntoIterator<Item = f64>) -> Variable {
    Variable::constant(Array::from(values.into_iter().collect::<Vec<f64>>()))
}

fn grad_of(x: &Variable) -> Variable {
    x.grad().expect("a gradient")
}

/// Gives a parameter this value, in its own dtype.
fn set(parameter: &Variable, value: &Array) {
    parameter.set_array(value.reshape(parameter.shape()).cast(parameter.dtype()));
}

/// A link whose parameters are waves, in their order.
fn waves<C: Chain>(link: C) -> C {
    for (i, (_, parameter)) in link.parameters().into_iter().enumerate() {
        set(&parameter, &array(parameter.shape(), i + 5));
    }
    link
}

/// A link with these values for the parameters whose names end so.
fn with<C: Chain>(link: C, values: &[(&str, Array)]) -> C {
    let parameters = link.parameters();
    for (name, value) in values {
        let found = parameters.iter().filter(|(known, _)| known.ends_with(name));
        let found: Vec<_> = found.collect();
        assert_eq!(found.len(), 1, "{name} among {parameters:?}");
        set(&found[0].1, value);
    }
    link
}

/// The leaves of a Tree, in order.
fn leaves(tree: &impl Tree) -> Vec<Variable> {
    let mut leaves = Vec::new();
    tree.visit(&mut Visitor::new(&mut |_, x, _| leaves.push(x.clone())));
    leaves
}

/// Where five steps down a bowl lead.
fn steps(mut optimizer: impl Optimizer) -> Variable {
    let p = wave(4, 0);
    for _ in 0..5 {
        p.clear_grad();
        bowl(&p).backward();
        optimizer.update(&p);
    }
    p
}

fn bowl(p: &Variable) -> Variable {
    ((p - 0.3).square() * Variable::constant([1.0, 2.0, 3.0, 4.0])).sum(..)
}

fn rates(schedule: impl Schedule, count: u64) -> Variable {
    numbers((0..count).map(|step| schedule.factor(step)))
}

/// The standard deviation of weights `[400, 300]`.
fn spread(initializer: impl Initializer) -> Variable {
    let w = initializer.initialize(&[400, 300].into(), DType::F64, &mut random());
    Variable::constant(w).std(.., 0).reshape([1])
}

/// The pieces of code in a cell.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

/// The rows of a chapter's tables: the other library's names, and what bibun has for them. A name is a
/// piece of code in the first cell, if there is nothing else in it, or the whole cell.
fn rows(chapter: &str) -> Vec<(Vec<&str>, &str)> {
    // The heads of the tables.
    let heads = ["PyTorch", "JAX", "Chainer", "Flax, Optax"];
    let lines = chapter.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = lines.map(|line| line.split_once(" | ").expect("two cells"));
    let rows = cells.filter(|(name, _)| !heads.contains(name));
    let names = rows.map(|(cell, ours)| {
        let prose: String = cell.split('`').step_by(2).collect();
        let is_list = prose.chars().all(|c| c == ',' || c == ' ');
        match is_list && cell.contains('`') {
            true => (quoted(cell).collect(), ours),
            false => (vec![cell], ours),
        }
    });
    names.collect()
}

/// Whether a text has a name, whole.
fn has_name(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices(name).any(|(start, _)| {
        let (before, behind) = (&text[..start], &text[start + name.len()..]);
        !before.ends_with(is_part) && !behind.starts_with(is_part)
    })
}

/// What is wrong with a case, if anything is.
fn compare(case: &Case, expected: &Value) -> Option<String> {
    let expected = expected.as_array().expect("arrays");
    if expected.len() != case.values.len() {
        let (found, expected) = (case.values.len(), expected.len());
        return Some(format!("{found} arrays for {expected}"));
    }
    for (i, (found, expected)) in case.values.iter().zip(expected).enumerate() {
        let shape = expected["shape"].as_array().expect("a shape").iter();
        let shape: Shape = shape
            .map(|size| size.as_u64().expect("a size") as usize)
            .collect();
        if found.shape() != shape {
            return Some(format!("array {i} is {} for {shape}", found.shape()));
        }
        let by_dtype = if found.dtype() == DType::F32 {
            3e-5
        } else {
            1e-10
        };
        let tolerance = case.tolerance.unwrap_or(by_dtype);
        let values = expected["values"].as_array().expect("values").iter();
        let values = values.map(|value| value.as_f64().expect("a number"));
        let found = found.cast(DType::F64).to_vec::<f64>();
        for (k, (found, expected)) in found.into_iter().zip(values).enumerate() {
            let scale = if case.tolerance.is_some() { 1e-2 } else { 1.0 };
            let difference = (found - expected).abs();
            if difference.is_nan() || difference > tolerance * expected.abs().max(scale) {
                return Some(format!("array {i}, element {k}: {found} for {expected}"));
            }
        }
    }
    None
}

fn check(chapter: &str, golden: &str, cases: &Cases, source: &str, without: Without) {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path| fs::read_to_string(path).expect("a file");
    let chapter = read(tests.join("../docs/src").join(chapter));
    let golden = read(tests.join("golden/tables").join(golden));
    let golden: BTreeMap<String, Value> = serde_json::from_str(&golden).expect("JSON");

    let mut wrong = Vec::new();
    let mut known = BTreeSet::new();
    for case in &cases.0 {
        assert!(known.insert(case.name), "`{}` stands twice", case.name);
        match golden.get(case.name) {
            Some(expected) => {
                if let Some(what) = compare(case, expected) {
                    wrong.push(format!("{}: {what}", case.name));
                }
            }
            None => wrong.push(format!("{}: the other library has no numbers", case.name)),
        }
    }
    for name in golden.keys().filter(|name| *name != "versions") {
        if !known.contains(name.as_str()) {
            wrong.push(format!("{name}: bibun has no numbers"));
        }
    }
    let rows = rows(&chapter);
    // What has numbers has them by the very names that stand in the table.
    let others = ["axis", "Pullback", "Recurrent", "LowerRateOnPlateau"];
    for (names, ours) in &rows {
        if !names.iter().all(|name| known.contains(name)) {
            continue;
        }
        let words = quoted(ours)
            .flat_map(|code| code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
        for word in words.filter(|word| word.len() > 1 && !others.contains(word)) {
            let is_number = word.starts_with(|c: char| c.is_ascii_digit());
            let shared = [include_str!("mod.rs"), include_str!("parts.rs")];
            if !is_number
                && ![source]
                    .iter()
                    .chain(&shared)
                    .any(|text| has_name(text, word))
            {
                wrong.push(format!("{names:?}: the case does without `{word}`"));
            }
        }
    }
    for (reason, names) in without {
        assert!(!reason.is_empty());
        for name in *names {
            assert!(known.insert(name), "`{name}` stands twice");
        }
    }
    let names: Vec<&str> = rows.iter().flat_map(|(names, _)| names.clone()).collect();
    for name in &names {
        if !known.contains(name) {
            wrong.push(format!("{name}: no case and no reason"));
        }
    }
    for name in known {
        if !names.contains(&name) {
            wrong.push(format!("{name}: in no table"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(cases.0.len() > 60, "{} cases", cases.0.len());
}

#[test]
fn what_pytorch_computes() {
    let source = concat!(
        include_str!("pytorch.rs"),
        include_str!("pytorch_networks.rs")
    );
    let without = pytorch::WITHOUT_NUMBERS;
    check(
        "from-pytorch.md",
        "pytorch.json",
        &pytorch::cases(),
        source,
        without,
    );
}

#[test]
fn what_jax_computes() {
    let (source, without) = (include_str!("jax.rs"), jax::WITHOUT_NUMBERS);
    check("from-jax.md", "jax.json", &jax::cases(), source, without);
}

#[test]
fn what_chainer_computes() {
    let (source, without) = (include_str!("chainer.rs"), chainer::WITHOUT_NUMBERS);
    check(
        "from-chainer.md",
        "chainer.json",
        &chainer::cases(),
        source,
        without,
    );
}
