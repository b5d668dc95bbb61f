//! The same network written once with hand-made derivatives and once with define-by-run.

use bibun::Variable;
use bibun::array::{Array, DType, Generator, matmul};
use bibun::functions::{Reduction, linear, relu, softmax_cross_entropy_with};

/// Gradients of the summed loss by formulae worked out on paper.
fn by_hand(x: &Array, t: &Array, w: [&Array; 2], b: [&Array; 2]) -> ([Array; 2], [Array; 2]) {
    let u = matmul(x, &w[0].transpose()) + b[0];
    let h = u.maximum(0.0);
    let y = matmul(&h, &w[1].transpose()) + b[1];
    let e = (&y - &y.max(bibun::array::keep_dims(1))).exp();
    let gy = &e / &e.sum(bibun::array::keep_dims(1)) - Array::one_hot(t, 3, DType::F64);
    let gu = matmul(&gy, w[1]) * u.greater(0.0).cast(DType::F64);
    (
        [matmul(&gu.transpose(), x), matmul(&gy.transpose(), &h)],
        [gu.sum(0), gy.sum(0)],
    )
}

fn main() {
    let mut random = Generator::new(7);
    let x = random.normal([8, 5], 0.0, 1.0, DType::F64);
    let t = random.integers(0, 3, [8]);
    let w = [[4, 5], [3, 4]].map(|shape| random.normal(shape, 0.0, 0.5, DType::F64));
    let b = [4, 3].map(|shape| random.normal([shape], 0.0, 0.5, DType::F64));

    // Both train for some steps, each by its own gradients, from the same start.
    let (mut w1, mut b1) = (w.clone(), b.clone());
    let (w2, b2) = (w.map(Variable::new), b.map(Variable::new));
    for step in 0..20 {
        let (gw, gb) = by_hand(&x, &t, w1.each_ref(), b1.each_ref());
        let h = relu(linear(&x, &w2[0], Some(&b2[0])));
        let y = linear(h, &w2[1], Some(&b2[1]));
        let loss = softmax_cross_entropy_with(y, &t, Reduction::Sum);
        w2.iter().chain(&b2).for_each(Variable::clear_grad);
        loss.backward();
        for i in 0..2 {
            let found = [w2[i].grad().unwrap().array(), b2[i].grad().unwrap().array()];
            for (found, expected) in found.iter().zip([&gw[i], &gb[i]]) {
                let error = (found - expected).abs().max(..).item::<f64>();
                assert!(error < 1e-12, "step {step}: {error:e}");
            }
            w1[i] -= &gw[i] * 0.05;
            b1[i] -= &gb[i] * 0.05;
            w2[i].update(|w| w - &found[0] * 0.05);
            b2[i].update(|b| b - &found[1] * 0.05);
        }
    }
    let difference = (&w1[0] - &w2[0].array()).abs().max(..).item::<f64>();
    println!("after 20 steps the weights differ by {difference:e}");
    assert!(difference < 1e-12);
}
