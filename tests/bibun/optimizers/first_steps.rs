//! The first ten steps against the formulae of the papers, element by element.

use bibun::Variable;
use bibun::array::{Array, DType, Generator};
use bibun::optimizers::*;

/// Two parameters of random elements, one of them with strides.
fn parameters(g: &mut Generator, dtype: DType) -> Vec<Variable> {
    let dense = g.normal([3, 7], 0.0, 1.0, dtype);
    let turned = g.normal([5, 2], 0.0, 1.0, dtype).transpose();
    [dense, turned].map(Variable::new).into()
}

fn wide(x: &Array) -> Vec<f64> {
    x.cast(DType::F64).to_vec()
}

/// Ten steps; `reference` makes one step of one whole parameter, with three numbers of state for
/// each element, and knows the loss.
fn compare_whole<O: Optimizer>(
    make: impl Fn() -> O,
    initial: [f64; 3],
    reference: impl Fn(i32, &[f64], &mut [f64], &[f64], &mut [[f64; 3]]),
) {
    for (dtype, tolerance) in [(DType::F64, 2e-14), (DType::F32, 4e-6)] {
        let mut optimizer = make();
        let g = &mut Generator::new(3);
        let model = parameters(g, dtype);
        let mut expected: Vec<Vec<f64>> = model.iter().map(|w| wide(&w.array())).collect();
        let mut states: Vec<_> = expected.iter().map(|w| vec![initial; w.len()]).collect();
        let mut losses = Vec::new();
        for step in 1..=10 {
            let gradients: Vec<Array> = model
                .iter()
                .map(|w| g.normal(w.shape(), 0.0, 1.0, dtype))
                .collect();
            let loss = optimizer.minimize(&model, &mut || {
                let terms = model.iter().zip(&gradients).map(|(w, g)| (w * g).sum(..));
                // It goes up and down with the gradients.
                terms.reduce(|a, b| a + b).expect("there are two") + 20.0
            });
            losses.push(loss.item::<f64>());
            let each = expected.iter_mut().zip(&gradients).zip(&mut states);
            for ((w, gradient), state) in each {
                reference(step, &losses, w, &wide(gradient), state);
            }
            for (w, expected) in model.iter().zip(&expected) {
                for (found, expected) in wide(&w.array()).iter().zip(expected) {
                    let error = (found - expected).abs() / expected.abs().max(1.0);
                    assert!(
                        error < tolerance,
                        "{dtype}, step {step}: {found} for {expected}"
                    );
                }
            }
        }
    }
}

/// [`compare_whole`] for formulae of single elements: step, w, gradient, state.
fn compare<O: Optimizer>(
    make: impl Fn() -> O,
    initial: [f64; 3],
    reference: impl Fn(i32, f64, f64, &mut [f64; 3]) -> f64,
) {
    compare_whole(make, initial, |step, _, w, gw, state| {
        for ((w, &gw), state) in w.iter_mut().zip(gw).zip(state) {
            *w = reference(step, *w, gw, state);
        }
    });
}

const ZEROS: [f64; 3] = [0.0; 3];

#[test]
fn sgd() {
    compare(|| Sgd::new(0.1), ZEROS, |_, w, gw, _| w - 0.1 * gw);
}

#[test]
fn momentum_sgd() {
    let reference = |_, w, gw, [v, ..]: &mut [f64; 3]| {
        *v = 0.9 * *v - 0.1 * gw;
        w + *v
    };
    compare(|| MomentumSgd::new(0.1, 0.9), ZEROS, reference);
}

/// In the form of Sutskever et al.: the gradient is taken at `θ + μ v`, which is the parameter.
#[test]
fn nesterov_ag() {
    let reference = |_, w: f64, gw, [v, ..]: &mut [f64; 3]| {
        let behind = w - 0.9 * *v;
        *v = 0.9 * *v - 0.1 * gw;
        behind + *v + 0.9 * *v
    };
    compare(|| NesterovAg::new(0.1, 0.9), ZEROS, reference);
}

#[test]
fn ada_grad() {
    let reference = |_, w, gw: f64, [h, ..]: &mut [f64; 3]| {
        *h += gw * gw;
        w - 0.1 * gw / (h.sqrt() + 1e-3)
    };
    compare(|| AdaGrad::new(0.1).epsilon(1e-3), ZEROS, reference);
}

#[test]
fn ada_delta() {
    let reference = |_, w, gw: f64, [g, d, _]: &mut [f64; 3]| {
        *g = 0.8 * *g + 0.2 * gw * gw;
        let change = -((*d + 1e-4).sqrt() / (*g + 1e-4).sqrt()) * gw;
        *d = 0.8 * *d + 0.2 * change * change;
        w + 0.5 * change
    };
    compare(
        || AdaDelta::new(0.5).rho(0.8).epsilon(1e-4),
        ZEROS,
        reference,
    );
}

fn adam_direction(step: i32, gw: f64, m: &mut f64, v: &mut f64, epsilon: f64) -> f64 {
    *m = 0.8 * *m + 0.2 * gw;
    *v = 0.99 * *v + 0.01 * gw * gw;
    let m_hat = *m / (1.0 - 0.8f64.powi(step));
    let v_hat = *v / (1.0 - 0.99f64.powi(step));
    m_hat / (v_hat.sqrt() + epsilon)
}

#[test]
fn adam() {
    compare(
        || Adam::new(0.01).betas(0.8, 0.99).epsilon(1e-6),
        ZEROS,
        |step, w, gw, [m, v, _]| w - 0.01 * adam_direction(step, gw, m, v, 1e-6),
    );
}

#[test]
fn adam_w() {
    compare(
        || {
            AdamW::new(0.01)
                .betas(0.8, 0.99)
                .epsilon(1e-6)
                .weight_decay(0.3)
        },
        ZEROS,
        |step, w, gw, [m, v, _]| {
            let decayed = w * (1.0 - 0.01 * 0.3);
            decayed - 0.01 * adam_direction(step, gw, m, v, 1e-6)
        },
    );
}

#[test]
fn ams_grad() {
    compare(
        || AmsGrad::new(0.01).betas(0.8, 0.5).epsilon(1e-6),
        ZEROS,
        |step, w, gw, [m, v, largest]| {
            *m = 0.8 * *m + 0.2 * gw;
            *v = 0.5 * *v + 0.5 * gw * gw;
            *largest = largest.max(*v);
            let m_hat = *m / (1.0 - 0.8f64.powi(step));
            let root = (*largest / (1.0 - 0.5f64.powi(step))).sqrt();
            w - 0.01 * m_hat / (root + 1e-6)
        },
    );
}

#[test]
fn rms_prop() {
    compare(
        || RmsProp::new(0.01).alpha(0.9).epsilon(1e-3),
        ZEROS,
        |_, w, gw, [v, ..]| {
            *v = 0.9 * *v + (1.0 - 0.9) * gw * gw;
            w - 0.01 * gw / (v.sqrt() + 1e-3)
        },
    );
}

#[test]
fn rms_prop_graves() {
    compare(
        || {
            RmsPropGraves::new(0.01)
                .alpha(0.9)
                .momentum(0.7)
                .epsilon(1e-2)
        },
        ZEROS,
        |_, w, gw, [n, g, d]| {
            *n = 0.9 * *n + (1.0 - 0.9) * gw * gw;
            *g = 0.9 * *g + (1.0 - 0.9) * gw;
            *d = 0.7 * *d - 0.01 * gw / (*n - *g * *g + 1e-2).sqrt();
            w + *d
        },
    );
}

#[test]
fn smorms3() {
    compare(
        || Smorms3::new(0.3).epsilon(1e-8),
        [0.0, 0.0, 1.0],
        |_, w, gw, [g, v, memory]| {
            let r = 1.0 / (*memory + 1.0);
            *g = (1.0 - r) * *g + r * gw;
            *v = (1.0 - r) * *v + r * gw * gw;
            let x = *g * *g / (*v + 1e-8);
            *memory = 1.0 + *memory * (1.0 - x);
            w - gw * x.min(0.3) / (v.sqrt() + 1e-8)
        },
    );
}

/// With the step lengths themselves, as in the paper.
#[test]
fn rprop() {
    compare(
        || Rprop::new(0.1).factors(0.4, 1.5).bounds(0.3, 2.0),
        [0.1, 0.0, 0.0],
        |_, w, mut gw, [length, last, _]| {
            if gw * *last > 0.0 {
                *length = (*length * 1.5).min(0.2);
            } else if gw * *last < 0.0 {
                *length = (*length * 0.4).max(0.03);
                gw = 0.0;
            }
            *last = gw;
            match gw == 0.0 {
                true => w,
                false => w - *length * gw.signum(),
            }
        },
    );
}

#[test]
fn eve() {
    let divisor = |losses: &[f64]| {
        let mut d = 1.0;
        for pair in losses.windows(2) {
            let change = (pair[1] - pair[0]).abs() / (pair[1].min(pair[0]) - 2.0);
            d = 0.6 * d + 0.4 * change.clamp(1.0 / 4.0, 4.0);
        }
        d
    };
    compare_whole(
        || {
            Eve::new(0.01)
                .betas(0.8, 0.99, 0.6)
                .bound(4.0)
                .epsilon(1e-6)
                .least(2.0)
        },
        ZEROS,
        |step, losses, w, gw, state| {
            let rate = 0.01 / divisor(losses);
            for ((w, &gw), [m, v, _]) in w.iter_mut().zip(gw).zip(state) {
                *w -= rate * adam_direction(step, gw, m, v, 1e-6);
            }
        },
    );
}

#[test]
fn lion() {
    compare(
        || Lion::new(0.01).betas(0.7, 0.9).weight_decay(0.2),
        ZEROS,
        |_, w, gw, [m, ..]| {
            let direction = (0.7 * *m + (1.0 - 0.7) * gw).signum();
            *m = 0.9 * *m + (1.0 - 0.9) * gw;
            w - 0.01 * (direction + 0.2 * w)
        },
    );
}

#[test]
fn lamb() {
    compare_whole(
        || Lamb::new(0.01).betas(0.8, 0.99).weight_decay(0.2),
        ZEROS,
        |step, _, w, gw, state| {
            let directions: Vec<f64> = w
                .iter()
                .zip(gw)
                .zip(state)
                .map(|((w, &gw), [m, v, _])| adam_direction(step, gw, m, v, 1e-6) + 0.2 * w)
                .collect();
            let norm = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>().sqrt();
            let ratio = norm(w) / norm(&directions);
            for (w, r) in w.iter_mut().zip(directions) {
                *w -= 0.01 * ratio * r;
            }
        },
    );
}

/// Lone updates: the direction is `-H g` with the matrix H written out by the formula of BFGS.
#[test]
fn lbfgs() {
    let g = &mut Generator::new(8);
    let w = Variable::new(g.normal(4, 0.0, 1.0, DType::F64));
    let mut optimizer = Lbfgs::new(0.3).memory(3);
    let mut expected = w.to_vec::<f64>();
    let mut pairs: Vec<(Vec<f64>, Vec<f64>)> = Vec::new();
    let mut last: Option<(Vec<f64>, Vec<f64>)> = None;
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let minus = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a - b).collect::<Vec<_>>();
    for step in 1..=10 {
        // The gradient of Σ k wₖ² / 2 + Σ cos w.
        let slope: Vec<f64> = (1..)
            .zip(&expected)
            .map(|(k, w)| f64::from(k) * w - w.sin())
            .collect();
        if let Some((w, gw)) = last.replace((expected.clone(), slope.clone())) {
            pairs.push((minus(&expected, &w), minus(&slope, &gw)));
        }
        let kept = &pairs[pairs.len().saturating_sub(3)..];
        let scale = match kept.last() {
            Some((s, y)) => dot(s, y) / dot(y, y),
            None => 1.0 / slope.iter().map(|g| g.abs()).sum::<f64>().max(1.0),
        };
        let mut h: Vec<Vec<f64>> = (0..4)
            .map(|i| (0..4).map(|j| if i == j { scale } else { 0.0 }).collect())
            .collect();
        for (s, y) in kept {
            let rho = 1.0 / dot(s, y);
            let v = |i: usize, j: usize| f64::from(u8::from(i == j)) - rho * y[i] * s[j];
            let old = h.clone();
            for i in 0..4 {
                for j in 0..4 {
                    h[i][j] = rho * s[i] * s[j];
                    for (k, row) in old.iter().enumerate() {
                        for (l, old) in row.iter().enumerate() {
                            h[i][j] += v(k, i) * old * v(l, j);
                        }
                    }
                }
            }
        }
        for (w, row) in expected.iter_mut().zip(&h) {
            *w -= 0.3 * dot(row, &slope);
        }
        w.set_grad(&Variable::constant(slope));
        optimizer.update(&w);
        for (found, expected) in w.to_vec::<f64>().iter().zip(&expected) {
            assert!(
                (found - expected).abs() < 1e-11,
                "step {step}: {found} for {expected}"
            );
        }
    }
}
