//! Hooks against plain loops over all parameters.

use bibun::array::math::Float;
use bibun::array::{Array, Change, DType, ElementFormula, Generator, Number};
use bibun::optimizers::hooks::{
    ClipNorm, ClipValue, GradientNoise, Hook, Lasso, Site, WeightDecay,
};
use bibun::optimizers::*;
use bibun::{Variable, attempt};

/// Steps of gradient descent with hooks, on parameters of many blocks, against `reference`, which
/// changes all gradients.
fn compare(add: impl Fn(Sgd) -> Sgd, reference: impl Fn(&[(String, Vec<f64>)], &mut [Vec<f64>])) {
    for (dtype, tolerance) in [(DType::F64, 1e-13), (DType::F32, 1e-5)] {
        let g = &mut Generator::new(3);
        let mut optimizer = add(Sgd::new(0.5));
        let shapes: [&[usize]; 4] = [&[70, 90], &[5], &[3000], &[1]];
        let model: Vec<Variable> = shapes
            .iter()
            .map(|&shape| Variable::new(g.normal(shape, 0.0, 1.0, dtype)))
            .collect();
        let wide = |x: &Array| x.cast(DType::F64).to_vec::<f64>();
        let mut expected: Vec<(String, Vec<f64>)> = (0..)
            .zip(&model)
            .map(|(i, w): (usize, _)| (i.to_string(), wide(&w.array())))
            .collect();
        for _ in 0..3 {
            let mut gradients = Vec::new();
            for (i, w) in model.iter().enumerate() {
                // Turned, broadcast and dense.
                let gradient = match i {
                    0 => g.normal([90, 70], 0.0, 2.0, dtype).transpose(),
                    1 => Array::full([5], 0.5).cast(dtype),
                    _ => g.normal(w.shape(), 0.0, 2.0, dtype),
                };
                w.set_grad(&Variable::constant(gradient.clone()));
                gradients.push(wide(&gradient));
            }
            optimizer.update(&model);
            reference(&expected, &mut gradients);
            for ((_, w), gw) in expected.iter_mut().zip(&gradients) {
                for (w, gw) in w.iter_mut().zip(gw) {
                    *w -= 0.5 * gw;
                }
            }
            for (w, (name, expected)) in model.iter().zip(&expected) {
                for (found, expected) in wide(&w.array()).iter().zip(expected) {
                    assert!(
                        (found - expected).abs() < tolerance,
                        "{dtype}, {name}: {found} for {expected}"
                    );
                }
            }
        }
    }
}

fn each(gradients: &mut [Vec<f64>], f: impl Fn(usize, usize, &mut f64)) {
    for (i, gradient) in gradients.iter_mut().enumerate() {
        for (j, gw) in gradient.iter_mut().enumerate() {
            f(i, j, gw);
        }
    }
}

fn clip(gradients: &mut [Vec<f64>], bound: f64) {
    let norm = gradients
        .iter()
        .flatten()
        .map(|g| g * g)
        .sum::<f64>()
        .sqrt();
    each(gradients, |_, _, gw| *gw *= (bound / norm).min(1.0));
}

#[test]
fn weight_decay() {
    compare(
        |sgd| sgd.hook(WeightDecay(0.1)),
        |ws, gws| each(gws, |i, j, gw| *gw += 0.1 * ws[i].1[j]),
    );
}

#[test]
fn lasso() {
    compare(
        |sgd| sgd.hook(Lasso(0.1)),
        |ws, gws| each(gws, |i, j, gw| *gw += 0.1 * ws[i].1[j].signum()),
    );
}

#[test]
fn clip_value() {
    compare(
        |sgd| sgd.hook(ClipValue(0.7)),
        |_, gws| each(gws, |_, _, gw| *gw = gw.clamp(-0.7, 0.7)),
    );
}

#[test]
fn clip_norm() {
    compare(|sgd| sgd.hook(ClipNorm(3.0)), |_, gws| clip(gws, 3.0));
    compare(|sgd| sgd.hook(ClipNorm(1e6)), |_, _| {});
}

#[test]
fn the_order_matters() {
    compare(
        |sgd| sgd.hook(WeightDecay(0.5)).hook(ClipNorm(3.0)),
        |ws, gws| {
            each(gws, |i, j, gw| *gw += 0.5 * ws[i].1[j]);
            clip(gws, 3.0);
        },
    );
    compare(
        |sgd| sgd.hook(ClipNorm(3.0)).hook(WeightDecay(0.5)),
        |ws, gws| {
            clip(gws, 3.0);
            each(gws, |i, j, gw| *gw += 0.5 * ws[i].1[j]);
        },
    );
    compare(
        |sgd| {
            sgd.hook(ClipNorm(50.0))
                .hook(Lasso(0.5))
                .hook(ClipValue(0.2))
                .hook(ClipNorm(3.0))
        },
        |ws, gws| {
            clip(gws, 50.0);
            each(gws, |i, j, gw| *gw += 0.5 * ws[i].1[j].signum());
            each(gws, |_, _, gw| *gw = gw.clamp(-0.2, 0.2));
            clip(gws, 3.0);
        },
    );
}

#[test]
fn some_parameters() {
    compare(
        |sgd| {
            sgd.hook_where(|name| name == "0", WeightDecay(0.5))
                .hook_where(|name| name != "2", ClipNorm(3.0))
        },
        |ws, gws| {
            each(&mut gws[..1], |i, j, gw| *gw += 0.5 * ws[i].1[j]);
            let untouched = std::mem::take(&mut gws[2]);
            clip(gws, 3.0);
            gws[2] = untouched;
        },
    );
}

#[test]
fn norms_that_are_not_finite_clip_nothing() {
    for bad in [f64::NAN, f64::INFINITY, 1e200] {
        let model = (Variable::new(1.0), Variable::new(2.0));
        model.0.set_grad(&Variable::constant(bad));
        model.1.set_grad(&Variable::constant(5.0));
        Sgd::new(1.0).hook(ClipNorm(0.5)).update(&model);
        assert_eq!(model.0.item::<f64>().to_bits(), (1.0 - bad).to_bits());
        assert_eq!(model.1.item::<f64>(), -3.0);
    }
    let w = Variable::new([0.0, 0.0, 0.0]);
    w.set_grad(&Variable::constant([
        f64::NAN,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ]));
    Sgd::new(1.0).hook(ClipValue(2.0)).update(&w);
    let w = w.to_vec::<f64>();
    assert!(w[0].is_nan() && w[1..] == [-2.0, 2.0], "{w:?}");
}

/// What noise alone does to a parameter of zeros, in the first `steps` steps.
fn noise(shape: &[usize], turned: bool, steps: usize, seed: u64) -> Vec<Vec<f64>> {
    let model = (
        Variable::new(1.0),
        Variable::new(Array::zeros(shape, DType::F64)),
    );
    let mut optimizer = Sgd::new(1.0).hook(GradientNoise::new(0.04, seed));
    let step = |_| {
        let before = model.1.to_vec::<f64>();
        let gradient = match turned {
            // Not in row-major order and not one repeated value.
            true => {
                Array::from_vec(vec![0.0; shape.iter().product()], [shape[1], shape[0]]).transpose()
            }
            false => Array::from_vec(vec![0.0; shape.iter().product()], shape),
        };
        model.1.set_grad(&Variable::constant(gradient));
        optimizer.update(&model);
        let after = model.1.to_vec::<f64>();
        after.iter().zip(before).map(|(a, b)| b - a).collect()
    };
    (0..steps).map(step).collect()
}

#[test]
fn gradient_noise() {
    let found = noise(&[101, 103], false, 3, 7);
    for (step, noise) in found.iter().enumerate() {
        let n = noise.len() as f64;
        let mean = noise.iter().sum::<f64>() / n;
        let variance = noise.iter().map(|x| x * x).sum::<f64>() / n;
        let expected = 0.04 / (1.0 + step as f64).powf(0.55);
        assert!(mean.abs() < 4.0 * (expected / n).sqrt());
        assert!((variance / expected - 1.0).abs() < 4.0 * (2.0 / n).sqrt());
    }
    // Nothing is drawn twice, in other steps or other blocks.
    let mut all: Vec<u64> = found.iter().flatten().map(|x| x.to_bits()).collect();
    all.sort_unstable();
    all.dedup();
    assert!(all.len() > 3 * 101 * 103 - 10);
    // The same for the same seed, however the gradient lies.
    for (a, b) in found
        .iter()
        .flatten()
        .zip(noise(&[101, 103], true, 3, 7).iter().flatten())
    {
        assert!((a - b).abs() < 1e-14);
    }
    assert_ne!(found, noise(&[101, 103], false, 3, 8));
}

/// Sees which elements it gets.
#[derive(Clone, Copy, Debug)]
struct Positions;

impl ElementFormula<3, 1> for Positions {
    const NAME: &'static str = "positions";

    fn value<T: Float>([_, _, own]: [Number<T>; 3], [first]: [Number<T>; 1]) -> Number<T> {
        first + own
    }
}

impl Hook for Positions {
    fn change(&self, site: &Site<'_>) -> Option<Change> {
        assert_eq!(site.name, site.number.to_string());
        let own = Array::arange(0, site.gradient.size() as i64).cast(site.gradient.dtype());
        let first = 1e6 * site.number as f64 + 1e7 * site.step as f64;
        Some(Change::of(*self, [own], [first]))
    }
}

/// Changes gradients by an array, whatever it is.
#[derive(Clone, Debug)]
struct By(Array);

impl ElementFormula<3> for By {
    const NAME: &'static str = "by";

    fn value<T: Float>([_, gw, by]: [Number<T>; 3], []: [Number<T>; 0]) -> Number<T> {
        gw * by
    }
}

impl Hook for By {
    fn change(&self, _: &Site<'_>) -> Option<Change> {
        Some(Change::of(self.clone(), [self.0.clone()], []))
    }
}

#[test]
fn arrays_of_a_hook_that_do_not_fit_are_refused() {
    let good = [Array::from(2.0), Array::ones([2, 3], DType::F64)];
    let bad = [
        Array::ones([3, 2], DType::F64),
        Array::ones([6], DType::F64),
        Array::ones([3], DType::F64),
        Array::ones([9], DType::F64),
        Array::ones([0], DType::F64),
        Array::ones([2, 3], DType::F32),
    ];
    let w = Variable::new([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    w.set_grad(&Variable::constant(Array::ones([2, 3], DType::F64)));
    for array in good {
        Sgd::new(0.0).hook(By(array)).update(&w);
    }
    for array in bad {
        let mut optimizer = Sgd::new(1.0).hook(By(array.clone()));
        let error = attempt(|| optimizer.update(&w)).unwrap_err().to_string();
        let expected = format!(
            "changes the gradient of the parameter ``, f64 [2, 3], by an array {} {}; it must have",
            array.dtype(),
            array.shape()
        );
        assert!(
            error.starts_with("update: ") && error.contains(&expected),
            "{error}"
        );
        assert!(error.contains(file!()), "{error}");
        assert_eq!(w.to_vec::<f64>(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    }
}

#[test]
fn a_hook_of_ones_own() {
    let model: Vec<Variable> = [3, 5000].map(|n| Variable::new(vec![0.0; n])).into();
    let mut optimizer = Sgd::new(1.0).hook(Positions);
    for step in 0..2 {
        let before: Vec<Vec<f64>> = model.iter().map(Variable::to_vec).collect();
        for w in &model {
            w.set_grad(&Variable::constant(vec![1.0; w.size()]));
        }
        optimizer.update(&model);
        for (number, (w, before)) in model.iter().zip(before).enumerate() {
            for (i, (w, before)) in w.to_vec::<f64>().iter().zip(before).enumerate() {
                assert_eq!(
                    before - w,
                    i as f64 + 1e6 * number as f64 + 1e7 * f64::from(step)
                );
            }
            // The gradient that others see is the same.
            assert_eq!(
                w.grad().expect("it was set").to_vec::<f64>(),
                vec![1.0; w.size()]
            );
        }
    }
}
