//! The gradient of every example in a batch, all at once: their lengths, and a training step in
//! which no example counts for more than another is allowed to.
//!
//! Source of the step: Abadi et al., "Deep learning with differential privacy", 2016.

use bibun::array::{DType, Generator};
use bibun::functions::{relu, softmax_cross_entropy};
use bibun::links::{Chain, Linear, Link};
use bibun::optimizers::{Optimizer, Sgd};
use bibun::{Variable, grad, ravel_tree, s, vmap};

#[derive(Chain)]
struct Mlp {
    l1: Linear,
    l2: Linear,
}

impl Link for Mlp {
    fn forward(&self, x: &Variable) -> Variable {
        self.l2.forward(&relu(self.l1.forward(x)))
    }
}

/// The mean loss of a batch, or the loss of a single example.
fn loss(model: &Mlp, x: &Variable, t: &Variable) -> Variable {
    softmax_cross_entropy(model.forward(x), t)
}

/// The gradient of each example: a model whose parameters have an axis of examples in front.
fn gradients(model: &Mlp, examples: &(Variable, Variable)) -> Mlp {
    vmap(|(x, t)| grad(|model| loss(model, x, t), model), examples)
}

/// Each gradient as a row.
fn rows(gradients: &Mlp) -> Variable {
    vmap(|gradient| ravel_tree(gradient).0, gradients)
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
    let examples = (x.clone(), t.clone());

    // All at once is what a loop over the examples gives, and their mean is the batch's gradient.
    let each = gradients(&model, &examples);
    let [one, all] = [&model, &each].map(|model| model.l1.w.shape());
    println!("a weight {one} has gradients {all}");
    let each = rows(&each);
    let largest = |difference: Variable| difference.abs().max(..).item::<f32>();
    for (i, row) in each.separate(0).iter().enumerate() {
        let (x, t) = (x.slice(s![i]), t.slice(s![i]));
        let (alone, _) = ravel_tree(&grad(|model| loss(model, &x, &t), &model));
        assert!(largest(row - alone) < 1e-6);
    }
    let (of_batch, unravel) = ravel_tree(&grad(|model| loss(model, &x, &t), &model));
    assert!(largest(each.mean(0) - of_batch) < 1e-6);

    // Training on gradients that are cut to a length and blurred by noise.
    let (bound, noise) = (1.0, 0.5);
    let mut optimizer = Sgd::new(0.5);
    for step in 0..200 {
        let each = rows(&gradients(&model, &examples));
        let norms = each.norm2(1);
        if step % 50 == 0 {
            let (short, long) = (norms.min(..).item::<f32>(), norms.max(..).item::<f32>());
            println!("step {step:3}: gradients from {short:.3} to {long:.3} long");
        }
        let clipped = (bound / norms).minimum(1.0).expand_dims(1) * each;
        assert!(clipped.norm2(1).max(..).item::<f32>() <= bound as f32 + 1e-6);
        let blur = random.normal([model.parameter_count()], 0.0, noise * bound, DType::F32);
        model.set_gradients(&unravel(&((clipped.sum(0) + blur) / count)));
        optimizer.update(&model);
    }
    let read = model.forward(&x).argmax(1);
    let correct = read.equal(&t).array().sum(..).item::<i64>();
    println!("{correct} of {count} right");
    assert!(correct > 55);
}
