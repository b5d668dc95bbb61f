//! The training step that more than one benchmark measures.

use bibun::Variable;
use bibun::array::{DType, Generator};
use bibun::functions::{relu, softmax_cross_entropy};
use bibun::links::{Chain, Linear, Link};
use bibun::optimizers::{Optimizer, Sgd};

#[derive(Chain)]
struct Mlp {
    l1: Linear,
    l2: Linear,
    l3: Linear,
}

/// One training step of the network 784-100-100-10 at batch 128: forward, loss, backward, update.
pub(crate) fn mlp_step() -> impl FnMut() {
    let mut random = Generator::new(0);
    let mut layer = |inputs, outputs| Linear::new(inputs, outputs, &mut random);
    let model = Mlp {
        l1: layer(784, 100),
        l2: layer(100, 100),
        l3: layer(100, 10),
    };
    let mut optimizer = Sgd::new(0.01);
    let x = Variable::constant(random.uniform([128, 784], 0.0, 1.0, DType::F32));
    let t = Variable::constant(random.integers(0, 10, [128]));
    move || {
        model.clear_grads();
        let h = relu(model.l1.forward(&x));
        let h = relu(model.l2.forward(&h));
        softmax_cross_entropy(model.l3.forward(&h), &t).backward();
        optimizer.update(&model);
    }
}
