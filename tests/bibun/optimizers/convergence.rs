//! Every optimizer finds the minimum of a small convex problem; L-BFGS that of a bent valley.

use std::cell::Cell;

use bibun::array::{Array, DType};
use bibun::optimizers::schedule::exponential;
use bibun::optimizers::*;
use bibun::{Variable, attempt};

use super::all;

#[test]
fn a_trial_that_fails_leaves_the_parameters_as_they_were() {
    for fails in 1..5 {
        let w = Variable::new([-1.2, 1.0]);
        let (mut calls, mut before) = (0, w.to_vec::<f64>());
        let mut optimizer = Lbfgs::new(1.0).iterations(1);
        let error = loop {
            let step = attempt(|| {
                optimizer.minimize(&w, &mut || {
                    calls += 1;
                    if calls == fails {
                        let _ = w.reshape([7]);
                    }
                    (&w - 3.0).square().square().sum(..)
                })
            });
            match step {
                Ok(_) => before = w.to_vec(),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.starts_with("reshape"), "{error}");
        assert_eq!(w.to_vec::<f64>(), before, "at evaluation {fails}");
    }
}

/// `Σ k (wₖ - target)²`.
fn bowl(w: &Variable) -> Variable {
    let weights = Variable::constant([1.0, 2.0, 4.0]);
    (weights * (w - 3.0).square()).sum(..)
}

#[test]
fn a_bowl() {
    for (name, mut optimizer) in all(0.02) {
        let w = Variable::new([2.0, 4.5, 3.0]);
        let initial = bowl(&w).item::<f64>();
        // Those that divide by all that has been, or begin with steps of almost nothing.
        let rate = match name {
            "ada_grad" | "ada_delta" => 1.0,
            _ => 0.02,
        };
        for step in 0..6000 {
            // Steps by sign and by relative length need lengths that go to zero.
            optimizer.set_learning_rate(rate * 0.999f64.powi(step));
            optimizer.minimize(&w, &mut || bowl(&w));
        }
        let loss = bowl(&w).item::<f64>();
        assert!(loss < 1e-3 * initial, "{name}: {loss} of {initial}");
    }
}

#[test]
fn the_decay_of_adam_w_and_lion_is_beside_the_gradient() {
    let optimizers: [Box<dyn Optimizer>; 3] = [
        Box::new(AdamW::new(0.1).weight_decay(0.5)),
        Box::new(Lion::new(0.1).weight_decay(0.5).schedule(exponential(1.0))),
        Box::new(AdamW::new(0.2).weight_decay(0.5).schedule(0.5)),
    ];
    for mut optimizer in optimizers {
        let w = Variable::new([1.0, -2.0]);
        for _ in 0..3 {
            w.set_grad(&Variable::constant([0.0, 0.0]));
            optimizer.update(&w);
        }
        for (w, initial) in w.to_vec::<f64>().iter().zip([1.0, -2.0]) {
            assert!((w - initial * 0.95f64.powi(3)).abs() < 1e-14);
        }
    }
}

/// The sum over pairs of `100 (y - x²)² + (1 - x)²`.
fn rosenbrock(w: &Variable) -> Variable {
    let n = w.size();
    let (x, y) = (w.slice(bibun::s![..n - 1]), w.slice(bibun::s![1..]));
    (100.0 * (y - x.square()).square() + (1.0 - x).square()).sum(..)
}

#[test]
fn lbfgs_in_the_valley_of_rosenbrock() {
    for (n, evaluations) in [(2, 60), (20, 200)] {
        let start: Vec<f64> = (0..n)
            .map(|i| if i % 2 == 0 { -1.2 } else { 1.0 })
            .collect();
        let w = Variable::new(start);
        let mut optimizer = Lbfgs::new(1.0).iterations(1000).tolerance(1e-9);
        let count = Cell::new(0);
        let first = optimizer.minimize(&w, &mut || {
            count.set(count.get() + 1);
            rosenbrock(&w)
        });
        assert!(first.item::<f64>() > 1.0);
        let loss = rosenbrock(&w).item::<f64>();
        assert!(loss < 1e-16, "{n}: {loss}");
        for w in w.to_vec::<f64>() {
            assert!((w - 1.0).abs() < 1e-8, "{n}: {w}");
        }
        assert!(
            count.get() <= evaluations,
            "{n}: {} evaluations",
            count.get()
        );
    }
}

#[test]
fn lbfgs_stops_at_a_minimum_and_where_no_step_helps() {
    let count = Cell::new(0);
    let minimize = |optimizer: &mut Lbfgs, w: &Variable, f: &dyn Fn(&Variable) -> Variable| {
        count.set(0);
        optimizer.minimize(w, &mut || {
            count.set(count.get() + 1);
            f(w)
        });
        count.get()
    };
    let w = Variable::new([3.0, 3.0, 3.0]);
    assert_eq!(minimize(&mut Lbfgs::new(1.0), &w, &bowl), 1);
    // A loss that is not finite changes nothing.
    let w = Variable::new([-1.0, 1.0]);
    let count = minimize(&mut Lbfgs::new(1.0), &w, &|w| w.log().sum(..));
    assert_eq!((count, w.to_vec::<f64>()), (1, vec![-1.0, 1.0]));
    // A wall on the way is no obstacle: ln is NaN behind it.
    let w = Variable::new([3.0, 0.1]);
    minimize(&mut Lbfgs::new(10.0).iterations(100), &w, &|w| {
        (w - w.log()).sum(..)
    });
    for w in w.to_vec::<f64>() {
        assert!((w - 1.0).abs() < 1e-6, "{w}");
    }
    // Without a minimum it goes far, and ends.
    let w = Variable::new(0.0);
    minimize(&mut Lbfgs::new(1.0), &w, &|w| -w);
    assert!(w.item::<f64>() > 1e3);
}

#[test]
fn lbfgs_in_single_precision() {
    let w = Variable::new(Array::full([4], -1.5f32));
    let mut optimizer = Lbfgs::new(1.0);
    for _ in 0..20 {
        optimizer.minimize(&w, &mut || rosenbrock(&w));
    }
    assert_eq!(w.dtype(), DType::F32);
    let near = |target: f32| w.to_vec::<f32>().iter().all(|w| (w - target).abs() < 1e-2);
    // The function of four elements has a second minimum, near (-1, 1, 1, 1).
    assert!(near(1.0) || rosenbrock(&w).item::<f64>() < 3.71, "{w:?}");
}
