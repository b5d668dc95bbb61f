//! Memory stays flat: what a training step takes, it gives back.

use bibun::array::{DType, Generator};
use bibun::{GradOptions, Variable, gradients_with};

/// Bytes of this process in memory, where the system tells.
fn resident_bytes() -> Option<usize> {
    // Linux counts in pages; the second number is the resident set. Pages of 4096 bytes are
    // assumed, larger ones would only make the bound below stricter in pages.
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: usize = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

/// Runs `step` 10,000 times and bounds the growth after the first 1,000.
fn stays_flat(mut step: impl FnMut()) {
    if resident_bytes().is_none() {
        println!("skipped: there is no /proc/self/statm to read the memory in use from");
        return;
    }
    for _ in 0..1_000 {
        step();
    }
    let before = resident_bytes().expect("read before");
    for _ in 0..9_000 {
        step();
    }
    let after = resident_bytes().expect("read before");
    // A leak of 100 bytes in each step would be 900 kB.
    let growth = after.saturating_sub(before);
    assert!(growth < 512 << 10, "{growth} bytes more after 9,000 steps");
}

/// Every kind of history in one process, one after the other, for memory is counted as a whole.
#[test]
fn ten_thousand_training_steps() {
    let mut generator = Generator::new(1);
    let x = Variable::constant(generator.normal([8, 4], 0.0, 1.0, DType::F64));
    let t = Variable::constant(generator.normal([8, 4], 0.0, 1.0, DType::F64));
    let w = Variable::new(generator.normal([1, 4], 0.0, 1.0, DType::F64));
    let b = Variable::new(generator.normal(4, 0.0, 1.0, DType::F64));
    let loss = || {
        let difference = (&x * &w + &b).tanh() - &t;
        (&difference * &difference).sum(..)
    };

    // A step of gradient descent.
    let start = loss().item::<f64>();
    stays_flat(|| {
        for parameter in [&w, &b] {
            parameter.clear_grad();
        }
        loss().backward();
        for parameter in [&w, &b] {
            let gradient = parameter.grad().expect("a gradient").array();
            parameter.update(|value| value - &gradient * 0.001);
        }
    });
    assert!(loss().item::<f64>() < start);

    // Gradients of gradients, and gradients with history kept in a leaf until the next step.
    stays_flat(|| {
        for parameter in [&w, &b] {
            parameter.clear_grad();
        }
        let options = GradOptions::new().create_graph();
        let gradient = gradients_with(&[&loss()], &[&w], &options)
            .remove(0)
            .expect("a gradient");
        let penalty = (&gradient * &gradient).sum(..);
        penalty.backward_with(&options);
    });

    // A step that fails in the middle.
    let misfit = Variable::constant([1.0, 2.0, 3.0]);
    stays_flat(|| {
        assert!(bibun::attempt(|| loss() + &x * &misfit).is_err());
    });
}
