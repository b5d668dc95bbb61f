//! Gradient reversal (Ganin & Lempitsky 2015, arXiv:1409.7495): features that serve a task and contain no
//! information about the domain they came from. A function that returns its input unchanged, with a rule
//! that reverses its gradient, lets one loss train both sides of the contest.

use bibun::array::{DType, Generator};
use bibun::functions::{concat, identity, sigmoid_cross_entropy};
use bibun::{Rules, Tree, Variable, tree_zip, value_and_grad};

#[derive(Tree)]
struct Model {
    features: Variable,
    task: Variable,
    domain: Variable,
}

fn main() {
    // The first input decides the label, the second the domain; a third has a little of both.
    let random = &mut Generator::new(0);
    let n = 400;
    let signs = |random: &mut Generator| random.bernoulli(0.5, [n, 1]);
    let (label, domain) = (signs(random), signs(random));
    let plus_minus = |x: &bibun::array::Array| 2.0 * Variable::constant(x.cast(DType::F64)) - 1.0;
    let (a, b) = (plus_minus(&label), plus_minus(&domain));
    let x = concat([&a, &b, &(0.5 * &a + 0.5 * &b)], 1);
    let [label, domain] = [label, domain].map(|t| Variable::constant(t.cast(DType::I64)));

    let mut draw =
        |shape: [usize; 2]| Variable::constant(random.normal(shape, 0.0, 0.5, DType::F64));
    let start = [draw([3, 1]), draw([1, 1]), draw([1, 1])];
    let train = |rules: Rules| {
        let [features, task, domain_head] = start.clone();
        let mut model = Model {
            features,
            task,
            domain: domain_head,
        };
        for _ in 0..500 {
            let (_, gradient) = value_and_grad(
                |model| {
                    let h = x.matmul(&model.features);
                    let turned = rules.scope(|| identity(&h));
                    sigmoid_cross_entropy(h.matmul(&model.task), &label)
                        + sigmoid_cross_entropy(turned.matmul(&model.domain), &domain)
                },
                &model,
            );
            model = tree_zip(|w, gw| w - 0.3 * gw, &model, &gradient);
        }
        // How far the features move with the label, and with the domain.
        let w = model.features.to_vec::<f64>();
        ((w[0] + 0.5 * w[2]).abs(), (w[1] + 0.5 * w[2]).abs())
    };

    let (task, domain) = train(Rules::new());
    println!("without reversal: features follow the label {task:.2}, the domain {domain:.2}");
    let reverse = Rules::new().vjp("identity", |_, gy| vec![Some(-&gy[0])]);
    let (reversed_task, reversed_domain) = train(reverse);
    println!(
        "with reversal:    features follow the label {reversed_task:.2}, the domain {reversed_domain:.2}"
    );
    assert!(domain > 0.5 * task);
    assert!(reversed_domain < 0.1 * reversed_task);
}
