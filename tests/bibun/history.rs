//! Looking at history: the table, the graph, the picture, and what the page is made of.

use std::collections::{BTreeMap, BTreeSet};

use bibun::array::{DType, Generator};
use bibun::functions::{
    CrossEntropyOptions, batch_normalization_with_statistics, flatten, mean_squared_error, prelu,
    relu, softmax_cross_entropy_with,
};
use bibun::links::{Chain, LayerNorm, Linear, Link};
use bibun::{History, Variable, history, jvp, retain, vmap};
use roxmltree::{Document, Node, ParsingOptions};

fn parse(text: &str) -> Document<'_> {
    let options = ParsingOptions {
        allow_dtd: false,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(text, options).unwrap_or_else(|error| panic!("{error}"))
}

/// The picture in a page.
fn picture(page: &str) -> &str {
    let from = page.find("<svg").expect("a picture");
    let to = page.find("</svg>").expect("its end") + "</svg>".len();
    &page[from..to]
}

fn with_class<'a>(document: &'a Document<'_>, class: &str) -> Vec<Node<'a, 'a>> {
    let nodes = document.descendants();
    nodes
        .filter(|node| {
            let mut classes = node.attribute("class").unwrap_or_default().split(' ');
            classes.any(|other| other == class)
        })
        .collect()
}

/// For each function, in order, its name and the link it is shown in.
fn places(history: &History) -> Vec<(String, String)> {
    let page = history.html();
    let document = parse(picture(&page));
    let links: BTreeMap<&str, &str> = (with_class(&document, "link").iter())
        .map(|link| {
            (
                link.attribute("id").unwrap(),
                link.attribute("data-path").unwrap(),
            )
        })
        .collect();
    let mut functions: Vec<(usize, String, String)> = (with_class(&document, "function").iter())
        .map(|function| {
            let number = function.attribute("id").unwrap()[1..].parse().unwrap();
            let name = function
                .descendants()
                .find(|node| node.has_tag_name("text"));
            let name = name.and_then(|text| text.text()).unwrap().to_owned();
            let link = function
                .attribute("data-link")
                .map_or("", |link| links[link]);
            (number, name, link.to_owned())
        })
        .collect();
    functions.sort();
    functions
        .into_iter()
        .map(|(_, name, link)| (name, link))
        .collect()
}

fn is(places: &[(String, String)], expected: &[(&str, &str)]) {
    let places: Vec<(&str, &str)> = (places.iter())
        .map(|(name, link)| (name.as_str(), link.as_str()))
        .collect();
    assert_eq!(places, expected);
}

#[derive(Chain)]
struct Block {
    a: Linear,
    b: Linear,
}

impl Link for Block {
    fn compute(&self, x: &Variable) -> Variable {
        self.b.forward(&relu(self.a.forward(x)))
    }
}

#[derive(Chain)]
struct Network {
    blocks: Vec<Block>,
    head: Linear,
}

impl Link for Network {
    fn compute(&self, x: &Variable) -> Variable {
        let mut h = x.clone();
        for block in &self.blocks {
            h = block.forward(&h).tanh();
        }
        self.head.forward(&h)
    }
}

fn network() -> (Network, Variable) {
    let g = &mut Generator::new(0);
    let block = |g: &mut Generator| Block {
        a: Linear::new(3, 4, g),
        b: Linear::new(4, 3, g),
    };
    let network = Network {
        blocks: vec![block(g), block(g)],
        head: Linear::new(3, 2, g),
    };
    let x = Variable::constant(g.normal([5, 3], 0.0, 1.0, DType::F32));
    (network, x)
}

#[test]
fn the_table_tells_shapes_places_and_bytes() {
    let x = Variable::new([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).named("x");
    let line = line!() + 1;
    let y = (x.sin() * x.cos()).named("y");
    let text = history(&y).to_string();
    let place = format!("{}:{line}", file!().replace('\\', "/"));
    let width = place.len();
    let called = format!("{:width$}", "called at");
    let expected = format!(
        "\
function  shapes                    dtype  generation  {called}  bytes kept
sin       x [2, 3] -> [2, 3]        f64             1  {place}          48
cos       x [2, 3] -> [2, 3]        f64             1  {place}          48
multiply  [2, 3], [2, 3] -> y [2, 3]  f64             2  {place}          96
3 functions, 1 leaf, 0 constants; 144 bytes kept
"
    );
    let squeezed = |text: &str| -> Vec<Vec<String>> {
        let lines = text.lines();
        lines
            .map(|line| line.split_whitespace().map(str::to_owned).collect())
            .collect()
    };
    assert_eq!(squeezed(&text), squeezed(&expected));
    // Every column begins or ends at the same place in all lines.
    let lines: Vec<&str> = text.lines().take(4).collect();
    for (word, at_end) in [("dtype", false), ("called", false), ("kept", true)] {
        let head = lines[0].find(word).unwrap() + if at_end { word.len() } else { 0 };
        for line in &lines[1..] {
            assert!(!line[..head].ends_with(' ') || !at_end, "{text}");
            assert!(at_end || line[..head].ends_with("  "), "{text}");
            assert!(!at_end || line.len() == head, "{text}");
        }
    }
}

#[test]
fn bytes_that_several_functions_keep_count_once() {
    let x = Variable::new([1.0, 2.0, 3.0]);
    let y = &x * &x + x.sin();
    let history = history(&y);
    assert_eq!(history.kept_bytes(), 24);
    let text = history.to_string();
    assert!(text.ends_with("; 24 bytes kept\n"), "{text}");
    let row = text
        .lines()
        .find(|line| line.starts_with("multiply"))
        .unwrap();
    assert!(row.ends_with(" 24"), "{row}");
}

#[test]
fn values_without_history_are_shown_alone() {
    for x in [
        Variable::constant([1.0, 2.0]),
        Variable::new([1.0, 2.0]).named("x"),
    ] {
        let history = history(&x);
        assert_eq!(history.function_count(), 0);
        assert_eq!(history.to_string().lines().count(), 1);
        assert!(history.dot().contains("[2]"));
        let svg = history.svg();
        assert_eq!(with_class(&parse(&svg), "output").len(), 1);
        let page = history.html();
        assert!(picture(&page).contains("mean 1.5"));
    }
    let nothing = History::of(&[]);
    assert_eq!(
        nothing.to_string(),
        "0 functions, 0 leaves, 0 constants; 0 bytes kept\n"
    );
    parse(&nothing.svg());
    assert!(nothing.dot().starts_with("digraph"));
    assert!(nothing.html().contains("</html>"));
}

#[test]
fn names_are_escaped() {
    let name = "a\"b\\c\n<&>\u{1}]]>";
    let x = Variable::new([1.0, 2.0]).named(name);
    let y = x.sin();
    let history = history(&y);
    let dot = history.dot();
    assert!(dot.contains(r#"label="a\"b\\c\n<&>"#), "{dot}");
    assert!(!dot.contains('\u{1}'));
    for text in [history.svg(), picture(&history.html()).to_owned()] {
        let document = parse(&text);
        let names: Vec<&str> = document
            .descendants()
            .filter_map(|node| node.text())
            .collect();
        assert!(
            names.iter().any(|text| text.starts_with("a\"b\\c")),
            "{names:?}"
        );
    }
    assert!(history.html().matches("</script>").count() == 1);
}

#[test]
fn every_function_and_variable_is_drawn_once() {
    let (network, x) = network();
    let loss = network.forward(&x).sum(..);
    let side = loss.exp();
    let history = History::of(&[&loss, &side, &loss]).with_links(&network);
    let page = history.html();
    let inside = picture(&page);
    for text in [history.svg().as_str(), inside] {
        let document = parse(text);
        let ids: Vec<&str> = (document.descendants())
            .filter_map(|node| node.attribute("id"))
            .collect();
        let distinct: BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(ids.len(), distinct.len());
        let functions = with_class(&document, "function");
        assert_eq!(functions.len(), history.function_count());
        for (at, function) in functions.iter().enumerate() {
            assert_eq!(function.attribute("id"), Some(&*format!("f{at}")));
        }
        // Ten parameters, the data, a result of each function.
        assert_eq!(with_class(&document, "parameter").len(), 10);
        assert_eq!(with_class(&document, "datum").len(), 11 + functions.len());
        assert_eq!(with_class(&document, "output").len(), 2);
        assert_eq!(with_class(&document, "link").len(), 8);
    }
    let dot = history.dot();
    for at in 0..history.function_count() {
        assert_eq!(dot.matches(&format!("\nf{at} [label=")).count(), 1);
    }
    assert_eq!(dot.matches("subgraph cluster_").count(), 8);
    assert_eq!(dot.matches('{').count(), dot.matches('}').count());
}

#[test]
fn pictures_are_the_same_on_every_machine() {
    let (network, x) = network();
    let y = network.forward(&x);
    let shown = |history: History| {
        [
            history.to_string(),
            history.dot(),
            history.svg(),
            history.html(),
        ]
    };
    let first = shown(history(&y).with_links(&network));
    let second = shown(history(&y).with_links(&network));
    assert_eq!(first, second);
    let workspace = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap();
    let home = std::env::var("HOME").unwrap_or_default();
    for text in &first {
        assert!(!text.contains(&*workspace.to_string_lossy()));
        assert!(home.len() < 2 || !text.contains(&home));
        assert!(!text.contains("0x"));
    }
}

#[test]
fn links_hold_their_functions() {
    let (network, x) = network();
    let y = network.forward(&x);
    let history = history(&y).with_links(&network);
    is(
        &places(&history),
        &[
            ("linear", "blocks/0/a"),
            ("relu", "blocks/0"),
            ("linear", "blocks/0/b"),
            ("tanh", "blocks"),
            ("linear", "blocks/1/a"),
            ("relu", "blocks/1"),
            ("linear", "blocks/1/b"),
            ("tanh", ""),
            ("linear", "head"),
        ],
    );
    assert!(
        history
            .to_string()
            .contains("blocks/0/a/weight [4, 3], blocks/0/a/bias [4]")
    );
    // Without a model there are no links, and a model without parameters here has none.
    is(&places(&self::history(&x.sin())), &[]);
    let other = self::network().0;
    let places = places(&self::history(&y).with_links(&other));
    assert!(places.iter().all(|(_, link)| link.is_empty()));
}

#[test]
fn links_in_each_others_midst_give_way() {
    let g = &mut Generator::new(0);
    #[derive(Chain)]
    struct Cells {
        cells: (Linear, Linear),
        head: Linear,
    }
    let model = Cells {
        cells: (Linear::new(3, 3, g), Linear::new(3, 3, g)),
        head: Linear::new(3, 1, g),
    };
    let mut h = Variable::constant(g.normal([1, 3], 0.0, 1.0, DType::F32));
    for _ in 0..2 {
        h = model.cells.0.forward(&h).tanh();
        h = model.cells.1.forward(&h);
    }
    let y = model.head.forward(&h);
    let cells = ("linear", "cells");
    is(
        &places(&history(&y).with_links(&model)),
        &[
            cells,
            ("tanh", "cells"),
            cells,
            cells,
            ("tanh", "cells"),
            cells,
            ("linear", "head"),
        ],
    );
    // A cell that is called again and again by itself holds all of its calls.
    let mut h = Variable::constant(g.normal([1, 3], 0.0, 1.0, DType::F32));
    for _ in 0..2 {
        h = model.cells.0.forward(&h).tanh();
    }
    let cell = "cells/0";
    is(
        &places(&history(&h).with_links(&model)),
        &[
            ("linear", cell),
            ("tanh", cell),
            ("linear", cell),
            ("tanh", ""),
        ],
    );
}

#[test]
fn long_histories_are_walked_on_a_small_stack() {
    let small = std::thread::Builder::new().stack_size(256 << 10);
    let walk = small.spawn(|| {
        let mut x = Variable::new(0.5).named("x");
        for _ in 0..100_000 {
            x = x.sin();
        }
        let history = history(&x);
        let text = history.to_string();
        assert_eq!(text.lines().count(), 100_002);
        assert!(text.contains("\n100,000 functions, 1 leaf, 0 constants; "));
        assert_eq!(history.dot().matches(" -> ").count(), 200_000);
        history
    });
    let history = walk.unwrap().join().unwrap();
    let svg = history.svg();
    let document = parse(&svg);
    assert_eq!(with_class(&document, "function").len(), 1_000);
    assert_eq!(with_class(&document, "earlier").len(), 1);
    assert!(svg.contains("99,000 earlier functions"));
    assert!(history.html().contains("data-generation=\"100000\""));
}

#[test]
fn less_is_drawn_of_long_edges() {
    // Every result is used by all later ones.
    let mut all = vec![Variable::new(0.1)];
    for _ in 0..60 {
        let sum = all.iter().fold(Variable::constant(0.0), |sum, x| sum + x);
        all.push(sum.sin());
    }
    let history = history(&all[60]);
    assert!(history.function_count() > 1_000);
    let svg = history.svg();
    let drawn = with_class(&parse(&svg), "function").len();
    assert!((1..=1_000).contains(&drawn), "{drawn}");
    assert!(svg.contains("earlier functions"));
}

#[test]
fn hidden_values_have_shapes_but_no_statistics() {
    let w = Variable::new([1.0, 2.0]).named("w");
    let look = |x: &Variable| {
        let y = (x * &w).sin();
        let page = history(&y).html();
        let page = picture(&page);
        assert!(page.contains("value: hidden by a transformation"));
        // What is not hidden is shown.
        assert!(page.contains("mean 1.5"));
        assert!(history(&y).to_string().contains("[2], w [2] -> [2]"));
        y
    };
    let x = Variable::constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    let batch = vmap(|x| vec![look(x)], &x);
    assert_eq!(batch[0].shape(), [3, 2]);
    let x = Variable::constant([1.0, 2.0]);
    let one = Variable::constant([1.0, 1.0]);
    jvp(|x| vec![look(&x[0])], &[x], &[one]);
}

#[test]
fn values_and_gradients_are_told_where_they_are() {
    let x = Variable::new([1.0, 2.0, 3.0]).named("x");
    let y = retain(|| -(&x + 1.0).sum(..));
    let page = |y: &Variable| picture(&history(y).html()).to_owned();
    assert!(page(&y).contains("x&#10;shape: [3]&#10;dtype: f64&#10;value: min 1, max 3, mean 2"));
    assert!(!page(&y).contains("gradient"));
    y.backward();
    assert!(page(&y).contains("gradient: min -1, max -1, mean -1, standard deviation 0"));
    // Without `retain` no rule needs the sum.
    let y = -(&x + 1.0).sum(..);
    assert!(page(&y).contains("value: not kept"));
}

#[test]
fn a_file_has_the_form_of_its_name() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let y = Variable::new([1.0, 2.0]).sin();
    let history = history(&y);
    let forms = [
        ("html", history.html()),
        ("svg", history.svg()),
        ("dot", history.dot()),
        ("GV", history.dot()),
        ("txt", history.to_string()),
    ];
    for (extension, text) in forms {
        let path = folder.join(format!("saved.{extension}"));
        history.save(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    for name in ["saved.png", "saved"] {
        let error = history.save(folder.join(name)).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        assert!(error.to_string().contains(".html"), "{error}");
    }
    assert!(history.save(folder.join("missing/saved.svg")).is_err());
}

#[test]
fn single_numbers_stay_in_their_link() {
    let g = &mut Generator::new(0);
    let layers = [Linear::new(3, 3, g)];
    let x = Variable::constant(g.normal([1, 3], 0.0, 1.0, DType::F32));
    let y = retain(|| {
        let h = layers[0].forward(&x) * 2.0;
        layers[0].forward(&h)
    });
    let page = history(&y).with_links(&layers).html();
    let document = parse(picture(&page));
    let constants = with_class(&document, "constant");
    let inside: Vec<bool> = (constants.iter())
        .map(|constant| constant.attribute("data-link").is_some())
        .collect();
    // The data come from outside, the factor does not.
    assert_eq!(inside, [false, true]);
}

/// The names and places of the rows of the table.
fn rows(history: &History) -> Vec<(String, String)> {
    let text = history.to_string();
    let place = |line: &str| {
        let at = line
            .find(&file!().replace('\\', "/"))
            .expect("a place in this file");
        line[at..]
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    let lines = text
        .lines()
        .skip(1)
        .take_while(|line| line.contains(" -> "));
    lines
        .map(|line| {
            (
                line.split_whitespace().next().unwrap().to_owned(),
                place(line),
            )
        })
        .collect()
}

#[test]
fn a_function_made_of_others_is_one() {
    let x = Variable::new([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).named("x");
    let weight = Variable::new([1.0, 2.0, 3.0]).named("weight");
    let t = Variable::constant([0i64, -1]);
    let options = CrossEntropyOptions {
        class_weight: Some(weight),
        ..CrossEntropyOptions::new()
    };
    let loss = softmax_cross_entropy_with(x.exp(), &t, options);
    let place = format!("{}:{}", file!().replace('\\', "/"), line!() - 1);
    let history = history(&loss);
    let expected = ["exp", "softmax_cross_entropy"].map(|name| (name.to_owned(), place.clone()));
    assert_eq!(rows(&history), expected);
    assert_eq!(history.function_count(), 2);
    let text = history.to_string();
    // Constants are behind what has a gradient.
    assert!(text.contains("[2, 3], weight [3], [2"), "{text}");
    assert!(text.contains("-> []"), "{text}");
    assert!(text.contains("\n2 functions, 2 leaves, "), "{text}");
    // In the picture too, where nothing of its inside is seen.
    for text in [history.svg(), history.dot()] {
        let part = text.contains(">reshape<") || text.contains("label=\"reshape");
        assert!(text.contains("softmax_cross_entropy") && !part, "{text}");
    }
    let svg = history.svg();
    let document = parse(&svg);
    assert_eq!(with_class(&document, "function").len(), 2);
    assert!(with_class(&document, "link").is_empty());

    // Unfolded all parts are there, at the same line, in a frame.
    let unfolded = history.clone().unfolded();
    assert!(unfolded.function_count() > 6);
    let parts = rows(&unfolded);
    for name in [
        "exp",
        "softmax_cross_entropy",
        "reshape",
        "where_",
        "sum",
        "divide",
    ] {
        assert!(
            parts.iter().any(|(part, _)| part == name),
            "{name} in {parts:?}"
        );
    }
    assert!(parts.iter().all(|(_, line)| *line == place), "{parts:?}");
    assert_eq!(unfolded.kept_bytes(), history.kept_bytes());
    let svg = unfolded.svg();
    let document = parse(&svg);
    assert_eq!(
        with_class(&document, "function").len(),
        unfolded.function_count()
    );
    assert!(!with_class(&document, "composite").is_empty());

    // The page has all, folded at first.
    for (history, folded) in [(&history, "true"), (&unfolded, "false")] {
        let page = history.html();
        let document = parse(picture(&page));
        let count = unfolded.function_count();
        assert_eq!(with_class(&document, "function").len(), count);
        let whole = with_class(&document, "composite")
            .into_iter()
            .find(|frame| frame.attribute("data-path") == Some("softmax_cross_entropy"))
            .expect("a frame");
        assert_eq!(whole.attribute("data-folded"), Some(folded));
        let about = whole.attribute("data-about").unwrap_or_default();
        assert!(about.ends_with(&format!("called at: {place}")), "{about}");
        assert_eq!(
            whole.attribute("data-count"),
            Some(&*(count - 1).to_string())
        );
    }
    assert!(history.html().contains("2 functions, "));
}

#[test]
fn functions_made_of_functions_made_of_others_nest() {
    let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
    // `prelu` is made of slopes in the shape of x and `leaky_relu`, and this of a repetition and itself.
    let y = prelu(&x, Variable::new([0.1, 0.2]));
    let history = history(&y).unfolded();
    let page = history.html();
    let document = parse(picture(&page));
    let frames: BTreeMap<&str, Option<&str>> = (with_class(&document, "composite").iter())
        .map(|frame| {
            (
                frame.attribute("data-path").unwrap(),
                frame.attribute("data-link"),
            )
        })
        .collect();
    assert_eq!(
        frames.keys().copied().collect::<Vec<_>>(),
        ["leaky_relu", "prelu"]
    );
    assert!(frames["prelu"].is_none() && frames["leaky_relu"].is_some());
    // What has a single part is that part, by the name that was called.
    let y = flatten(x.exp());
    let history = self::history(&y);
    assert_eq!(rows(&history)[1].0, "flatten");
    assert_eq!(y.creator().expect("a function").name(), "reshape");
    assert!(with_class(&parse(&history.svg()), "link").is_empty());
    // Plain functions are not touched.
    let y = (x.exp() * x.sin()).sum(..);
    let history = self::history(&y);
    assert_eq!((history.function_count(), history.to_string()), {
        let unfolded = history.unfolded();
        (unfolded.function_count(), unfolded.to_string())
    });
}

#[test]
fn functions_made_of_others_lie_in_links() {
    let (network, x) = network();
    let loss = mean_squared_error(network.forward(&x), x.sum(-1).expand_dims(-1).repeat(2, 1));
    let history = history(&loss).with_links(&network);
    assert_eq!(rows(&history).last().unwrap().0, "mean_squared_error");
    #[derive(Chain)]
    struct Normed {
        norm: LayerNorm,
        linear: Linear,
    }
    let g = &mut Generator::new(0);
    let model = Normed {
        norm: LayerNorm::new(3),
        linear: Linear::new(3, 2, g),
    };
    let y = model.linear.forward(&model.norm.forward(&x));
    let history = self::history(&y).with_links(&model);
    let text = history.to_string();
    let row = text.lines().nth(1).unwrap();
    assert!(
        row.starts_with("layer_normalization") && row.ends_with(" norm"),
        "{text}"
    );
    assert_eq!(history.function_count(), 2);
    let page = history.html();
    let document = parse(picture(&page));
    let links = with_class(&document, "link");
    let by_path = |path: &str| {
        let mut links = links.iter();
        *links
            .find(|link| link.attribute("data-path") == Some(path))
            .expect(path)
    };
    let (norm, whole) = (by_path("norm"), by_path("layer_normalization"));
    assert_eq!(whole.attribute("data-link"), norm.attribute("id"));
    // The parameters are shown where they are used.
    let parameters = with_class(&document, "parameter");
    assert_eq!(parameters.len(), 4);
    assert!(
        parameters
            .iter()
            .all(|parameter| parameter.attribute("data-link").is_some())
    );
}

#[test]
fn a_result_that_leaves_early_does_not_tie_a_knot() {
    // The statistics leave the normalization; what they are used for may run before its end.
    let x = Variable::new([[1.0, 2.0], [3.0, 5.0]]);
    let [y, mean, _] = batch_normalization_with_statistics(&x, None, None, 1e-5);
    let z = (y * mean.exp()).sum(..);
    let history = history(&z);
    let names: Vec<String> = rows(&history).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["batch_normalization", "exp", "multiply", "sum"]);
}
