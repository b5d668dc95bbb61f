//! What the tests of elementwise functions ask about single points.

use bibun_array::{Array, DType};

use crate::variable::Variable;
use crate::{GradOptions, grad, grad_with};

/// The derivative of the sum of `y` with respect to `x`, zeros where there is none.
fn derivative(y: &Variable, x: &Variable) -> Variable {
    let gradients = grad_with(&[&y.sum(..)], &[x], &GradOptions::create_graph());
    let gradient = gradients.into_iter().next().flatten();
    gradient.unwrap_or_else(|| Variable::constant(Array::zeros(x.shape(), x.dtype())))
}

/// The value and the derivatives of `f` up to `order` at `x`, in f64.
pub(super) fn derivatives(f: impl Fn(&Variable) -> Variable, x: f64, order: usize) -> Vec<f64> {
    let x = Variable::new([x]);
    let mut y = f(&x);
    let mut values = vec![y.to_vec::<f64>()[0]];
    for _ in 0..order {
        y = derivative(&y, &x);
        values.push(y.to_vec::<f64>()[0]);
    }
    values
}

/// The gradient as the fused loop computes it.
pub(super) fn gradient(f: impl Fn(&Variable) -> Variable, x: f64) -> f64 {
    let x = Variable::new([x]);
    grad(&[&f(&x).sum(..)], &[&x])[0]
        .as_ref()
        .expect("a gradient")
        .to_vec::<f64>()[0]
}

/// Both gradients of a function of two numbers.
pub(super) fn gradients(f: impl Fn(&Variable, &Variable) -> Variable, a: f64, b: f64) -> [f64; 2] {
    let (a, b) = (Variable::new([a]), Variable::new([b]));
    let gradients = grad(&[&f(&a, &b).sum(..)], &[&a, &b]);
    [0, 1].map(|i| gradients[i].as_ref().expect("a gradient").to_vec::<f64>()[0])
}

/// Asserts that the value, the gradient and two more derivatives are finite at all of `points`, in
/// both precisions, and that the two ways to compute the gradient agree.
pub(super) fn assert_finite(name: &str, f: impl Fn(&Variable) -> Variable, points: &[f64]) {
    for dtype in [DType::F32, DType::F64] {
        let x = Variable::new(Array::from_vec(points.to_vec(), [points.len()]).cast(dtype));
        let y = f(&x);
        assert_eq!(y.dtype(), dtype, "{name}");
        let fused = grad(&[&y.sum(..)], &[&x])[0].clone().expect("a gradient");
        let tolerance = if dtype == DType::F32 { 1e-5 } else { 1e-13 };
        let mut derived = y;
        for order in 0..=3 {
            let values = derived.cast(DType::F64).to_vec::<f64>();
            assert!(
                values.iter().all(|value| value.is_finite()),
                "{name}, derivative {order} in {dtype} at {points:?}: {values:?}"
            );
            if order == 1 {
                let fused = fused.cast(DType::F64).to_vec::<f64>();
                for (a, b) in values.iter().zip(&fused) {
                    assert!(
                        (a - b).abs() <= tolerance * (1.0 + a.abs()),
                        "{name}: {a} {b}"
                    );
                }
            }
            derived = derivative(&derived, &x);
        }
    }
}
