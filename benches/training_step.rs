//! One step of training a 784-100-100-10 network at batch 128: forward, loss, backward, update.
//!
//! `cargo bench -p bibun-benches --bench training_step`. The limit: 6 x 128 x (784 x 100 + 100 x 100 +
//! 100 x 10) floating-point operations less the first layer's input gradient, 2 x 128 x 784 x 100:
//! about 49 million, over the machine's peak.

use bibun::Variable;
use bibun::array::{DType, Generator};
use bibun::functions::softmax_cross_entropy;
use bibun::links::{Chain, Link, Mlp};
use bibun::optimizers::{Optimizer, Sgd};
use divan::Bencher;

#[divan::bench]
fn mlp_784_100_100_10_batch_128(bencher: Bencher<'_, '_>) {
    let mut random = Generator::new(0);
    let model = Mlp::new(&[784, 100, 100, 10], &mut random);
    let mut optimizer = Sgd::new(0.01);
    let x = Variable::constant(random.uniform([128, 784], 0.0, 1.0, DType::F32));
    let t = Variable::constant(random.integers(0, 10, [128]));
    bencher.bench_local(|| {
        model.clear_grads();
        softmax_cross_entropy(model.forward(&x), &t).backward();
        optimizer.update(&model);
    });
}

fn main() {
    divan::main();
}
