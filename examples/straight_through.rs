//! A straight-through estimator (Bengio et al. 2013, arXiv:1308.3432): weights of -1 and 1 are learnt
//! by letting gradients pass through `sign` unchanged.

use bibun::array::{DType, Generator};
use bibun::{Rules, Variable, grad};

fn main() {
    let random = &mut Generator::new(1);
    let secret = [1.0, -1.0, -1.0, 1.0, 1.0, -1.0];
    let x = Variable::constant(random.normal([64, 6], 0.0, 1.0, DType::F64));
    let t = x.matmul(Variable::constant(secret));
    let loss = |w: &Variable| (x.matmul(w.sign()) - &t).square().mean(..);

    let mut w = Variable::constant(random.uniform([6], -0.1, 0.1, DType::F64));
    assert_eq!(
        grad(loss, &w).to_vec::<f64>(),
        [0.0; 6],
        "sign is flat: nothing to learn from"
    );

    // Hinton's estimator, with the gradient cut where a weight has left [-1, 1].
    let through = Rules::new().vjp("sign", |cx, gy| {
        let inside = cx.input(0).abs().less_equal(1.0).cast(gy[0].dtype());
        vec![Some(&gy[0] * inside)]
    });
    through.scope(|| {
        for step in 0..60 {
            if step % 10 == 0 {
                println!("step {step:>2}: loss {:.4}", loss(&w).item::<f64>());
            }
            w = &w - 0.001 * grad(loss, &w);
        }
    });
    println!("learnt {:?}", w.sign().array());
    assert_eq!(w.sign().to_vec::<f64>(), secret);
}
