//! Walking history backwards, through two identity functions to the data.

use bibun::Variable;
use bibun::functions::identity;

fn main() {
    let x = Variable::new([0.0, 1.0, 2.0, 3.0]).named("x");
    let y1 = identity(&x);
    let y2 = identity(&y1);

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
    assert!(f2.place().file().ends_with("history.rs"));

    // The same walk for any history, down to its leaves.
    let mut steps = Vec::new();
    let mut at = (&y2 * 2.0).creator();
    while let Some(creator) = at {
        steps.push(creator.name());
        at = creator.inputs()[0].creator();
    }
    assert_eq!(steps, ["multiply", "identity", "identity"]);
}
