//! Per-example gradients of a batch, from one forward and one backward run: their rows, their norms, and
//! training in which every example counts for at most a bound.
//!
//! Source of the step: Abadi et al., "Deep learning with differential privacy", 2016. The example
//! `private_training` adds the part that makes it private; `mislabelled`, `gradient_noise_scale` and
//! `fisher` show other uses of such gradients.

use bibun::array::{DType, Generator};
use bibun::functions::{Reduction, relu, softmax_cross_entropy_with};
use bibun::links::{Chain, Linear, Link};
use bibun::optimizers::{Optimizer, Sgd};
use bibun::{Variable, clip_factors, grad, per_example, ravel_tree, s, tree_map, vmap};

#[derive(Chain)]
struct Mlp {
    l1: Linear,
    l2: Linear,
}

impl Link for Mlp {
    fn compute(&self, x: &Variable) -> Variable {
        self.l2.forward(&relu(self.l1.forward(x)))
    }
}

/// The loss of each example by itself, or of a single one.
fn losses(model: &Mlp, x: &Variable, t: &Variable) -> Variable {
    softmax_cross_entropy_with(model.forward(x), t, Reduction::None)
}

fn assert_close(found: &Mlp, expected: &Mlp) {
    let (found, expected) = (ravel_tree(found).0, ravel_tree(expected).0);
    assert!((found - expected).abs().max(..).item::<f32>() < 1e-5);
}

fn main() {
    let mut random = Generator::new(0);
    let model = Mlp {
        l1: Linear::new(4, 16, &mut random),
        l2: Linear::new(16, 3, &mut random),
    };
    // Which of the first three numbers is the largest?
    let count = 64;
    let x = Variable::constant(random.normal([count, 4], 0.0, 1.0, DType::F32));
    let t = x.slice(s![.., ..3]).argmax(1);

    // The losses as a vector, not their mean, tell whose is whose.
    let each = losses(&model, &x, &t);
    let gradients = per_example(&each, &model);
    let rows: Mlp = gradients.rows();
    let [one, all] = [&model, &rows].map(|model| model.l1.weight.shape());
    println!("a weight {one} has gradients {all}");

    // They are what a loop over the examples gives, and add up to the gradient of the sum.
    for i in 0..count {
        let (x, t) = (x.slice(s![i]), t.slice(s![i]));
        let alone = grad(|model| losses(model, &x, &t), &model);
        assert_close(&tree_map(|row| row.slice(s![i]), &rows), &alone);
    }
    let of_sum = grad(|model| losses(model, &x, &t).sum(..), &model);
    assert_close(&gradients.sum(), &of_sum);
    // `vmap` of `grad` gives them too: for any function, with one example at a time in view.
    let examples = (x.clone(), t.clone());
    let mapped = vmap(
        |(x, t)| grad(|model| losses(model, x, t), &model),
        &examples,
    );
    assert_close(&rows, &mapped);

    // Lengths and sums take no rows.
    let norms = gradients.norms();
    let clipped = gradients.weighted_sum(&clip_factors(&norms, 1.0));
    assert_close(&gradients.clipped_sum(1.0), &clipped);
    assert!(ravel_tree(&clipped).0.norm(..).item::<f32>() <= count as f32);

    // Training on gradients that are cut to a length.
    let mut optimizer = Sgd::new(0.5);
    for step in 0..200 {
        let losses = losses(&model, &x, &t);
        let gradients = per_example(&losses, &model);
        if step % 50 == 0 {
            let norms = gradients.norms();
            let (short, long) = (norms.min(..).item::<f32>(), norms.max(..).item::<f32>());
            println!("step {step:3}: gradients from {short:.3} to {long:.3} long");
        }
        let sum = gradients.clipped_sum(1.0);
        model.set_gradients(&tree_map(|gw| gw / count, &sum));
        optimizer.update(&model);
    }
    let read = model.forward(&x).argmax(1);
    let correct = read.equal(&t).array().sum(..).item::<i64>();
    println!("{correct} of {count} right");
    assert!(correct > 55);
}
