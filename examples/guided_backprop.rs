//! Guided backpropagation (Springenberg et al. 2015, arXiv:1412.6806): another gradient rule for `relu`
//! shows which inputs of a trained network speak *for* its answer, and the network stays unchanged.

use bibun::functions::{Relu, greater};
use bibun::{Rules, Variable, grad};

fn main() {
    // One detector of an edge (dark on the left, bright on the right), and one of its opposite,
    // which counts against the answer.
    let detectors = Variable::constant([[-1.0, -1.0, 1.0, 1.0], [1.0, 1.0, -1.0, -1.0]]);
    let vote = Variable::constant([1.0, -1.0]);
    let answer = |x: &Variable| (detectors.matmul(x).relu() * &vote).sum(..);

    let image = Variable::constant([0.1, 0.3, 0.9, 0.8]);
    let plain = grad(answer, &image);

    // Through relu goes only what is positive, and only where the input was.
    let guided = Rules::new().set::<Relu>(|cx, [gy]| {
        let open = greater(cx.input(0), 0.0).cast(gy.dtype());
        [Some(gy.relu() * open)]
    });
    let by_guide = guided.scope(|| grad(answer, &image));
    println!(
        "gradient: {:?}\nguided:   {:?}",
        plain.array(),
        by_guide.array()
    );

    assert_eq!(by_guide.to_vec::<f64>(), plain.to_vec::<f64>());

    // The image turned round: the answer is negative, and nothing in it speaks for an edge.
    let turned = image.flip(..);
    let plain = grad(answer, &turned);
    let by_guide = guided.scope(|| grad(answer, &turned));
    println!(
        "turned:   {:?}\nguided:   {:?}",
        plain.array(),
        by_guide.array()
    );
    assert_eq!(plain.to_vec::<f64>(), [-1.0, -1.0, 1.0, 1.0]);
    assert_eq!(by_guide.to_vec::<f64>(), [0.0; 4]);
    assert!(guided.unused().is_empty());
    // Outside of the scope the rule is what it was.
    assert_eq!(grad(answer, &turned).to_vec::<f64>(), plain.to_vec::<f64>());
}
