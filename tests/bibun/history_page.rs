//! The page of a history, opened and used in a browser.
//!
//! Chromium is looked for by its usual names and in the variable `CHROME`; where there is none, the
//! test says so and passes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bibun::array::{DType, Generator};
use bibun::functions::{relu, softmax_cross_entropy};
use bibun::links::{Chain, Linear, Link};
use bibun::{Variable, history, retain};
use roxmltree::Document;

pub(crate) fn browser() -> Option<PathBuf> {
    let named = std::env::var_os("CHROME").map(PathBuf::from);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["chromium", "chromium-browser", "google-chrome"];
    let found = std::env::split_paths(&paths)
        .flat_map(|folder| usual.map(|name| folder.join(name)))
        .find(|path| path.is_file());
    named.or(found)
}

/// A page as it is after its script and the commands behind `#` have run.
pub(crate) struct Page {
    pub(crate) text: String,
}

impl Page {
    pub(crate) fn open(browser: &Path, file: &Path, commands: &str) -> Self {
        let folder = file.parent().expect("a folder");
        let dump = folder.join("dom.html");
        let mut child = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
            .args(["--window-size=1000,800", "--virtual-time-budget=2000"])
            .arg(format!(
                "--user-data-dir={}",
                folder.join("profile").display()
            ))
            .arg(format!("file://{}#{commands}", file.display()))
            .stdout(File::create(&dump).expect("a file for the page"))
            .stderr(Stdio::null())
            .spawn()
            .expect("the browser starts");
        let begin = Instant::now();
        while child.try_wait().expect("its state").is_none() {
            if begin.elapsed() > Duration::from_secs(120) {
                child.kill().expect("it ends");
                panic!("the browser did not end with {commands:?}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let text = fs::read_to_string(dump).expect("the page");
        let page = Self { text };
        assert_eq!(page.root("data-error"), None, "after {commands:?}");
        assert_eq!(page.root("data-ready"), Some("true"), "after {commands:?}");
        page
    }

    /// An attribute of the page's root.
    pub(crate) fn root(&self, name: &str) -> Option<&str> {
        let from = self.text.find("<html").expect("a page");
        let tag = &self.text[from..from + self.text[from..].find('>').expect("its end")];
        let (_, rest) = tag.split_once(&format!("{name}=\""))?;
        rest.split_once('"').map(|(value, _)| value)
    }

    pub(crate) fn attribute(&self, id: &str, name: &str) -> String {
        let from = self.text.find("<svg").expect("the picture");
        let to = self.text.find("</svg>").expect("its end") + "</svg>".len();
        let document = Document::parse(&self.text[from..to]).expect("a picture");
        let element = (document.descendants())
            .find(|node| node.attribute("id") == Some(id))
            .unwrap_or_else(|| panic!("no element {id}"));
        match name {
            "text" => (element.descendants().filter(|node| node.is_text()))
                .filter_map(|node| node.text())
                .collect::<Vec<_>>()
                .join(" "),
            name => element.attribute(name).unwrap_or_default().to_owned(),
        }
    }

    pub(crate) fn has_class(&self, id: &str, class: &str) -> bool {
        self.attribute(id, "class")
            .split(' ')
            .any(|other| other == class)
    }

    /// The functions with a class, by number.
    fn functions(&self, class: &str) -> Vec<usize> {
        (0..COUNT)
            .filter(|f| self.has_class(&format!("f{f}"), class))
            .collect()
    }

    fn scale(&self) -> f64 {
        let transform = self.attribute("scene", "transform");
        let (_, scale) = transform.split_once("scale(").expect("a scale");
        scale.trim_end_matches(')').parse().expect("a number")
    }
}

#[derive(Chain)]
struct Network {
    layers: Vec<Linear>,
}

/// As many functions lie on the way to the loss, one after the other.
const COUNT: usize = 5;

#[test]
fn the_page_plays_folds_and_tells() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium, chromium-browser or google-chrome, and no CHROME");
        return;
    };
    let g = &mut Generator::new(0);
    let network = Network {
        layers: vec![Linear::new(3, 4, g), Linear::new(4, 2, g)],
    };
    let x = Variable::constant(g.normal([5, 3], 0.0, 1.0, DType::F32));
    let loss = retain(|| {
        let h = relu(network.layers[0].forward(&x));
        let y = network.layers[1].forward(&h);
        (&y * &y).sum(..).named("loss")
    });
    loss.backward();
    let history = history(&loss).with_links(&network);
    assert_eq!(history.function_count(), COUNT);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("history_page");
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("page.html");
    history.save(&file).expect("a page");
    let open = |commands: &str| Page::open(&browser, &file, commands);

    let start = open("");
    assert_eq!(start.root("data-phase"), Some("idle"));
    assert!(start.functions("now").is_empty() && start.functions("ahead").is_empty());
    assert!(start.functions("away").is_empty());
    let bare = start.text.split("<script>").next().expect("a page");
    assert!(!bare.contains("src=") && !bare.contains("href="));

    // Forward: one generation at a time, and the values appear.
    let page = open("forward=2");
    assert_eq!(page.root("data-phase"), Some("forward"));
    assert_eq!(page.functions("done"), [0]);
    assert_eq!(page.functions("now"), [1]);
    assert_eq!(page.functions("ahead"), [2, 3, 4]);
    assert!(page.text.contains("forward 2 of 5: relu"));
    let value = page.attribute("d0", "data-value");
    assert!(value.contains('±') && page.attribute("d0", "text").contains(&value));
    // Playing on reaches the end and the first gradients; going on starts again.
    assert_eq!(open("forward=6").functions("now"), [0]);

    // Backward: gradients start at the loss and flow to the data.
    let page = open("backward=2");
    assert_eq!(page.root("data-phase"), Some("backward"));
    assert_eq!(page.functions("done"), [4]);
    assert_eq!(page.functions("now"), [3]);
    assert_eq!(page.functions("ahead"), [0, 1, 2]);
    let page = open("backward=5");
    assert_eq!(page.functions("now"), [0]);
    assert!(page.has_class("d1", "now") && page.has_class("d1", "backward"));
    assert!(
        page.attribute("d1", "text").contains('∇'),
        "{}",
        page.attribute("d1", "text")
    );
    assert!(page.has_class("d0", "constant") && page.has_class("d0", "ahead"));
    assert_eq!(open("backward=5,reset").root("data-phase"), Some("idle"));

    // Folding hides what is inside and nothing else.
    let page = open("fold=layers/0");
    assert_eq!(page.functions("away"), [0]);
    let links = ["l0", "l1", "l2"];
    let path = |id: &str| page.attribute(id, "data-path");
    let inner = links
        .into_iter()
        .find(|id| path(id) == "layers/0")
        .expect("the link");
    let outer = links
        .into_iter()
        .find(|id| path(id) == "layers")
        .expect("the link");
    assert!(page.has_class(inner, "folded") && !page.has_class(outer, "folded"));
    assert!(page.attribute(inner, "text").contains("1 function"));
    let height = |page: &Page| -> f64 {
        let place = page.attribute("f4", "transform");
        let y = place
            .trim_end_matches(')')
            .rsplit(' ')
            .next()
            .expect("a place");
        y.parse().expect("a number")
    };
    assert!(height(&page) < height(&start) - 50.0, "folding makes room");
    let page = open("fold=layers");
    assert_eq!(page.functions("away"), [0, 1, 2]);
    assert!(page.has_class(inner, "away") && page.has_class(outer, "folded"));
    let page = open("fold-all,forward=3");
    assert!(
        page.has_class(outer, "now"),
        "{}",
        page.attribute(outer, "class")
    );
    let page = open("fold-all,unfold-all");
    assert!(page.functions("away").is_empty());
    assert_eq!(height(&page), height(&start));

    // Looking closer.
    assert!(open("zoom-in").scale() > start.scale());
    assert!(open("zoom-out").scale() < start.scale());
    assert!(open("wheel=-300").scale() > start.scale() * 1.5);
    assert!(open("zoom-in=3,fit").scale() < open("zoom-in=3").scale());

    // Pointing and focusing tells.
    let page = open("about=d1");
    let (_, told) = page.text.split_once("<aside").expect("the panel");
    let (told, _) = told.split_once("</aside>").expect("its end");
    for text in [
        "layers/0/weight",
        "[4, 3]",
        "f32",
        "mean",
        "standard deviation",
        "gradient",
    ] {
        assert!(told.contains(text), "{text} in {told}");
    }
    let page = open("about=f0");
    let (_, told) = page.text.split_once("<aside").expect("the panel");
    for text in ["history_page.rs:", "saves", "bytes"] {
        assert!(told.contains(text));
    }

    // Everything by keys.
    assert_eq!(open("key=ArrowRight,key=ArrowRight").functions("now"), [1]);
    assert_eq!(open("key=ArrowLeft").functions("now"), [4]);
    assert!(open("key=+").scale() > start.scale());
    assert_eq!(
        open(&format!("about={inner},key=Enter")).functions("away"),
        [0]
    );
    assert_eq!(open("theme=dark").root("data-theme"), Some("dark"));
}

#[test]
fn functions_made_of_others_begin_folded() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium, chromium-browser or google-chrome, and no CHROME");
        return;
    };
    let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
    let loss = softmax_cross_entropy(x.exp(), Variable::constant([0i64, 1]));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("composite_page");
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("page.html");
    history(&loss).save(&file).expect("a page");
    let page = Page::open(&browser, &file, "");
    assert!(page.has_class("l0", "folded"));
    assert!(
        page.attribute("l0", "text")
            .contains("softmax_cross_entropy")
    );
    assert!(page.has_class("f1", "away") && !page.has_class("f0", "away"));
    let page = Page::open(&browser, &file, "unfold=softmax_cross_entropy");
    assert!(!page.has_class("l0", "folded") && !page.has_class("f1", "away"));
}

#[test]
fn an_empty_history_has_a_page_too() {
    let Some(browser) = browser() else {
        println!("skipped: no chromium, chromium-browser or google-chrome, and no CHROME");
        return;
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("empty_page");
    fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("page.html");
    let t = Variable::constant([0i64, 1]);
    let y = softmax_cross_entropy(Variable::constant([[1.0, 2.0], [3.0, 4.0]]), t);
    history(&y).save(&file).expect("a page");
    let page = Page::open(&browser, &file, "zoom-in,key=ArrowRight,key=%20");
    assert_eq!(page.root("data-phase"), Some("idle"));
    assert!(page.has_class("d0", "output"));
}
