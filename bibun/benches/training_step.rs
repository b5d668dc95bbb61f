//! One step of training a 784-100-100-10 network at batch 128: forward, loss, backward, update.
//!
//! `cargo bench -p bibun --bench training_step`. The limit: 6 x 128 x (784 x 100 + 100 x 100 +
//! 100 x 10) floating-point operations less the first layer's input gradient, about 56 million,
//! over the machine's peak.

use bibun::Variable;
use bibun::array::{DType, Generator};
use bibun::functions::{linear, relu, softmax_cross_entropy};
use divan::Bencher;

#[divan::bench]
fn mlp_784_100_100_10_batch_128(bencher: Bencher<'_, '_>) {
    let mut random = Generator::new(0);
    let sizes = [784, 100, 100, 10];
    let layers: Vec<(Variable, Variable)> = sizes
        .windows(2)
        .map(|size| {
            let w = random.normal([size[1], size[0]], 0.0, 0.05, DType::F32);
            let b = random.normal([size[1]], 0.0, 0.05, DType::F32);
            (Variable::new(w), Variable::new(b))
        })
        .collect();
    let x = Variable::constant(random.uniform([128, 784], 0.0, 1.0, DType::F32));
    let t = Variable::constant(random.integers(0, 10, [128]));
    bencher.bench_local(|| {
        let mut h = x.clone();
        for (i, (w, b)) in layers.iter().enumerate() {
            w.clear_grad();
            b.clear_grad();
            h = linear(h, w, Some(b));
            if i + 1 < layers.len() {
                h = relu(h);
            }
        }
        softmax_cross_entropy(h, &t).backward();
        for (w, b) in &layers {
            for parameter in [w, b] {
                let gradient = parameter.grad().expect("every layer took part").array();
                parameter.update(|p| p - gradient * 0.01);
            }
        }
    });
}

fn main() {
    divan::main();
}
