//! The page of a compiled function, opened and used in a browser.

use std::fs;
use std::path::{Path, PathBuf};

use bibun::array::{DType, Generator};
use bibun::functions::{softmax, softmax_cross_entropy};
use bibun::links::{Link, Mlp};
use bibun::{Variable, compile, value_and_grad};
use roxmltree::Document;

use crate::history_page::{Page, browser};

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

fn data(shape: &[usize]) -> Variable {
    Variable::constant(Generator::new(0).normal(shape, 0.0, 1.0, DType::F32))
}

#[test]
fn the_page_shows_steps_and_opens_passes() {
    let f = compile(|(x, w): &(Variable, Variable)| {
        let h = (x.matmul(w).sin() + 1.0).exp();
        h.matmul(w.transpose()) / 2.0
    });
    let argument = (data(&[8, 4]), data(&[4, 16]));
    let file = folder("compile_page").join("page.html");
    f.call(&argument);
    f.save(&file).expect("a page");
    assert!(!fs::read_to_string(&file).unwrap().contains("% of the run"));
    let text = f.profile(&argument);
    f.save(&file).expect("a page");
    let page = fs::read_to_string(&file).unwrap();
    assert!(page.contains("% of the run"), "a profile adds times");
    assert!(page.contains("tests/bibun/compile_page.rs:"));
    f.save(file.with_extension("txt")).expect("a text");
    // A line of the text with times is that line of the text.
    assert_eq!(
        fs::read_to_string(file.with_extension("txt")).unwrap(),
        text
    );
    f.save(file.with_extension("svg")).expect("a picture");
    let picture = fs::read_to_string(file.with_extension("svg")).unwrap();
    assert!(Document::parse(&picture).is_ok());
    // Steps that go through the same rows are one box.
    let rows = compile(|x: &Variable| softmax(x, 1));
    rows.check(&data(&[64, 32])).expect("the same bits");
    let text = rows.to_string();
    assert!(
        text.contains("rows at a time of %0; 8192 bytes in, 8192 bytes out\n    %"),
        "{text}"
    );
    rows.save(file.with_extension("svg")).expect("a picture");
    let picture = fs::read_to_string(file.with_extension("svg")).unwrap();
    assert!(picture.contains(r#"class="link rows""#));

    let Some(browser) = browser() else {
        println!("skipped: no chromium, chromium-browser or google-chrome, and no CHROME");
        return;
    };
    let open = |commands: &str| Page::open(&browser, &file, commands);
    let page = open("");
    // The pass of sin, add and exp is folded.
    assert!(page.has_class("l0", "pass") && page.has_class("l0", "folded"));
    let text = page.attribute("l0", "text");
    assert!(text.contains("sin, add, exp"), "{text}");
    assert!(text.contains("3 operations, 512 B → 512 B"), "{text}");
    let operation = (0..12)
        .map(|i| format!("v{i}"))
        .find(|id| page.attribute(id, "data-link") == "l0")
        .expect("an operation of the pass");
    assert!(page.has_class(&operation, "away"));
    let open_page = open("unfold-all");
    assert!(!open_page.has_class("l0", "folded") && !open_page.has_class(&operation, "away"));
    let about = open_page.attribute(&operation, "aria-label");
    assert!(
        about.contains("called at: tests/bibun/compile_page.rs:"),
        "{about}"
    );
    // Steps have their turn one after the other: the product, the pass, the product, the quotient.
    assert!(open("forward=2").text.contains("step 2 of 4: "));
    assert!(
        open("forward=2,backward=1")
            .text
            .contains("step 1 of 4: gemm")
    );
    assert_eq!(open("forward=2").root("data-phase"), Some("forward"));
}

#[test]
fn inputs_of_large_programs_are_beside_the_steps_that_read_them() {
    let step = compile(|(model, x, t): &(Mlp, Variable, Variable)| {
        value_and_grad(
            |model: &Mlp| softmax_cross_entropy(model.forward(x), t),
            model,
        )
    });
    let model = Mlp::new(&[6, 8, 8, 3], &mut Generator::new(0));
    let t = Variable::constant([0i64, 1, 2, 1]);
    step.profile(&(model, data(&[4, 6]), t));
    let file = folder("compile_large").join("page.html");
    step.save(&file).expect("a page");
    let page = fs::read_to_string(&file).unwrap();
    let (_, rest) = page.split_once("<svg").expect("a picture");
    let (picture, _) = rest.split_once("</svg>").expect("its end");
    let picture = format!("<svg{picture}</svg>");
    let document = Document::parse(&picture).expect("a picture");
    let named = |name: &str, class: &str| {
        let is_it = |node: &roxmltree::Node<'_, '_>| {
            let classes = node.attribute("class").unwrap_or_default();
            classes.split(' ').any(|one| one == class)
                && node.descendants().any(|text| text.text() == Some(name))
        };
        document.descendants().filter(is_it).count()
    };
    // The weight of the last layer is read on the way there and on the way back.
    assert_eq!(named("0/layers/2/weight", "leaf"), 2);
    // Its gradient is a result.
    assert_eq!(named("1/layers/2/weight", "output"), 1);
    assert!(named("from step 2", "remote") > 0);
    // Every edge is short: none passes more than a few layers.
    let points = document
        .descendants()
        .filter_map(|node| node.attribute("data-points"));
    assert!(points.map(|points| points.split(' ').count()).max() < Some(30));
}
