//! History step by step, as a table, and as a page that animates it.
//!
//! The page is written to the path given as an argument (which may also end in .svg or .dot), or to
//! the folder for temporary files.

use std::path::PathBuf;

use bibun::array::{DType, Generator};
use bibun::functions::{identity, relu, softmax_cross_entropy};
use bibun::links::{Linear, Link};
use bibun::{GradOptions, Variable, history, retain};

fn main() {
    let x = Variable::new([0.0, 1.0, 2.0, 3.0]).named("x");
    let y1 = identity(&x);
    let y2 = identity(&y1);

    // Backwards, through two identity functions to the data.
    let f2 = y2.creator().expect("y2 was made by a function");
    let before = &f2.inputs()[0];
    let f1 = before.creator().expect("y1 was made by a function");
    let data = &f1.inputs()[0];
    println!("y2 <- {f2:?}");
    println!("y1 <- {f1:?}");
    println!(
        "x  =  {}",
        data.value().expect("a leaf keeps its value").array()
    );

    assert_eq!((f2.name(), f1.name()), ("identity", "identity"));
    assert!(f1.is_same(&y1.creator().unwrap()));
    assert_eq!((f2.generation(), f1.generation()), (2, 1));
    assert!(data.is_leaf() && data.creator().is_none());
    assert_eq!(data.name().as_deref(), Some("x"));
    assert_eq!(data.value().unwrap().to_vec::<f64>(), [0.0, 1.0, 2.0, 3.0]);
    assert!(f2.location().file().ends_with("history.rs"));

    // The same walk for any history, down to its leaves.
    let mut steps = Vec::new();
    let mut at = (&y2 * 2.0).creator();
    while let Some(creator) = at {
        steps.push(creator.name());
        at = creator.inputs()[0].creator();
    }
    assert_eq!(steps, ["multiply", "identity", "identity"]);

    // All of a network at once. `retain` keeps what no rule needs, so that it can be shown.
    let g = &mut Generator::new(0);
    let layers = [Linear::new(8, 16, g), Linear::new(16, 4, g)];
    let x = Variable::constant(g.normal([5, 8], 0.0, 1.0, DType::F32));
    let t = Variable::constant([0i64, 1, 2, 3, 0]);
    let loss = retain(|| {
        let hidden = relu(layers[0].forward(&x));
        softmax_cross_entropy(layers[1].forward(&hidden), &t).named("loss")
    });
    // Gradients of everything between too, for the page to show.
    loss.backward_with(&GradOptions {
        retain_grad: true,
        ..GradOptions::new()
    });
    let history = history(&loss).with_links(&layers);
    println!("\n{history}");

    assert!(history.html().contains("gradient: min"));

    let path = std::env::args_os().nth(1).map(PathBuf::from);
    let path = path.unwrap_or_else(|| std::env::temp_dir().join("bibun-history.html"));
    history.save(&path).expect("a place that can be written");
    println!("to zoom, fold and play: {}", path.display());
}
