//! Optimizers against plain loops, and what they promise.

use bibun::Variable;
use bibun::array::{Array, DType, Generator};
use bibun::links::Chain;
use bibun::optimizers::{Adam, MomentumSgd, Optimizer, Sgd};

/// Ten steps on random gradients; `reference` makes one step for one element, which has two
/// numbers of state, in the precision of the parameter.
fn compare(
    make: impl Fn() -> Box<dyn Optimizer>,
    reference: impl Fn(i32, f64, f64, &mut [f64; 2]) -> f64,
) {
    for (dtype, tolerance) in [(DType::F64, 1e-14), (DType::F32, 2e-6)] {
        let mut optimizer = make();
        let g = &mut Generator::new(3);
        let w = Variable::new(g.normal([3, 7], 0.0, 1.0, dtype));
        let mut expected = w.array().cast(DType::F64).to_vec::<f64>();
        let mut state = vec![[0.0; 2]; expected.len()];
        for step in 1..=10 {
            let gradient = g.normal([3, 7], 0.0, 1.0, dtype);
            w.clear_grads();
            (&w * &gradient).sum(..).backward();
            optimizer.update(&w);
            let gradient = gradient.cast(DType::F64).to_vec::<f64>();
            for ((w, gw), state) in expected.iter_mut().zip(gradient).zip(&mut state) {
                *w = reference(step, *w, gw, state);
            }
            let found = w.array().cast(DType::F64).to_vec::<f64>();
            for (found, expected) in found.iter().zip(&expected) {
                let error = (found - expected).abs();
                assert!(
                    error < tolerance,
                    "{dtype}, step {step}: {found} for {expected}"
                );
            }
        }
    }
}

#[test]
fn sgd() {
    compare(|| Box::new(Sgd::new(0.1)), |_, w, gw, _| w - 0.1 * gw);
}

#[test]
fn momentum_sgd() {
    compare(
        || Box::new(MomentumSgd::new(0.1, 0.9)),
        |_, w, gw, [v, _]| {
            *v = 0.9 * *v - 0.1 * gw;
            w + *v
        },
    );
}

#[test]
fn adam() {
    compare(
        || Box::new(Adam::new(0.01).betas(0.8, 0.99).epsilon(1e-6)),
        |step, w, gw, [m, v]| {
            *m = 0.8 * *m + 0.2 * gw;
            *v = 0.99 * *v + 0.01 * gw * gw;
            let m_hat = *m / (1.0 - 0.8f64.powi(step));
            let v_hat = *v / (1.0 - 0.99f64.powi(step));
            w - 0.01 * m_hat / (v_hat.sqrt() + 1e-6)
        },
    );
}

fn all() -> [Box<dyn Optimizer>; 3] {
    [
        Box::new(Sgd::new(0.5)),
        Box::new(MomentumSgd::new(0.5, 0.9)),
        Box::new(Adam::new(0.5)),
    ]
}

#[test]
fn no_gradient_no_change() {
    for mut optimizer in all() {
        let model = (Variable::new([1.0, 2.0]), Variable::new([3.0, 4.0]));
        for _ in 0..3 {
            model.0.set_grad(&Variable::constant([1.0, 1.0]));
            optimizer.update(&model);
        }
        assert_ne!(model.0.to_vec::<f64>(), [1.0, 2.0]);
        assert_eq!(model.1.to_vec::<f64>(), [3.0, 4.0]);
        model.0.clear_grad();
        let before = model.0.to_vec::<f64>();
        model.1.set_grad(&Variable::constant([1.0, 1.0]));
        optimizer.update(&model);
        assert_eq!(model.0.to_vec::<f64>(), before);
        // The second takes its first step, of half its gradient of ones in all three ways.
        for (w, expected) in model.1.to_vec::<f64>().iter().zip([2.5, 3.5]) {
            assert!((w - expected).abs() < 1e-7);
        }
    }
}

#[test]
fn shared_parameters_move_once() {
    for (mut once, mut twice) in all().into_iter().zip(all()) {
        let (a, b) = (Variable::new([1.0, 2.0]), Variable::new([1.0, 2.0]));
        for _ in 0..3 {
            for w in [&a, &b] {
                w.set_grad(&Variable::constant([0.5, -1.0]));
            }
            once.update(&a);
            twice.update(&(b.clone(), vec![b.clone()]));
        }
        assert_eq!(a.to_vec::<f64>(), b.to_vec::<f64>());
    }
}

#[test]
fn learning_rates_change() {
    for mut optimizer in all() {
        assert_eq!(optimizer.learning_rate(), 0.5);
        optimizer.set_learning_rate(0.0);
        assert_eq!(optimizer.learning_rate(), 0.0);
        let w = Variable::new([1.0, 2.0]);
        w.set_grad(&Variable::constant([1.0, 1.0]));
        optimizer.update(&w);
        assert_eq!(w.to_vec::<f64>(), [1.0, 2.0]);
    }
}

#[test]
fn gradients_of_any_layout_and_parameters_of_any_size() {
    for mut optimizer in all() {
        let w = Variable::new(Array::zeros([2, 3], DType::F32));
        let rows = Array::from([[1f32, 3.0], [2.0, 4.0], [3.0, 5.0]]);
        for gradient in [rows.transpose(), Array::ones([2, 3], DType::F32)] {
            w.set_grad(&Variable::constant(gradient));
            optimizer.update(&w);
        }
        let w = w.to_vec::<f32>();
        assert!(w.iter().all(|&w| w < 0.0), "{w:?}");
        let scalar = Variable::new(1.0);
        scalar.set_grad(&Variable::constant(1.0));
        optimizer.update(&scalar);
        assert!(scalar.item::<f64>() < 1.0);
        let empty = Variable::new(Array::zeros([0, 3], DType::F64));
        empty.set_grad(&Variable::constant(Array::zeros([0, 3], DType::F64)));
        optimizer.update(&empty);
    }
}

#[test]
fn memory_is_kept_and_history_is_not_changed() {
    for mut optimizer in all() {
        let w = Variable::new(vec![1.0; 100]);
        w.set_grad(&Variable::constant(vec![1.0; 100]));
        optimizer.update(&w);
        let address = w.array().as_slice::<f64>().unwrap().as_ptr();
        optimizer.update(&w);
        assert_eq!(w.array().as_slice::<f64>().unwrap().as_ptr(), address);

        let before = w.array();
        let values = before.to_vec::<f64>();
        optimizer.update(&w);
        assert_eq!(before.to_vec::<f64>(), values);
        assert_ne!(w.to_vec::<f64>(), values);
    }
}
