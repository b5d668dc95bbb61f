//! Helpers for testing elementwise functions at single points.

use bibun_array::{Array, DType};

use crate::variable::Variable;
use crate::{GradOptions, grad, gradients_with};

/// Returns the value and the derivatives of `f` up to `order` at `x`, in f64.
pub(super) fn derivatives(f: impl Fn(&Variable) -> Variable, x: f64, order: usize) -> Vec<f64> {
    fn derivative(f: &dyn Fn(&Variable) -> Variable, order: usize, x: &Variable) -> Variable {
        match order {
            0 => f(x),
            _ => grad(|x| derivative(f, order - 1, x).sum(..), x),
        }
    }
    let x = Variable::new([x]);
    (0..=order)
        .map(|order| derivative(&f, order, &x).to_vec::<f64>()[0])
        .collect()
}

/// Returns the gradient as the fused loop computes it.
pub(super) fn gradient(f: impl Fn(&Variable) -> Variable, x: f64) -> f64 {
    grad(|x| f(x).sum(..), &Variable::new([x])).to_vec::<f64>()[0]
}

/// Returns both partial derivatives of a function of two numbers.
pub(super) fn partial_derivatives(
    f: impl Fn(&Variable, &Variable) -> Variable,
    a: f64,
    b: f64,
) -> [f64; 2] {
    let inputs = [Variable::new([a]), Variable::new([b])];
    grad(|[a, b]| f(a, b).sum(..), &inputs).map(|gradient| gradient.to_vec::<f64>()[0])
}

/// Asserts that the value, the gradient and two more derivatives are finite at all of `points`, in
/// both precisions, and that the two ways to compute the gradient agree.
pub(super) fn assert_finite(name: &str, f: impl Fn(&Variable) -> Variable, points: &[f64]) {
    for dtype in [DType::F32, DType::F64] {
        let x = Variable::new(Array::from_vec(points.to_vec(), [points.len()]).cast(dtype));
        let y = f(&x);
        assert_eq!(y.dtype(), dtype, "{name}");
        let fused = grad(|x| f(x).sum(..), &x);
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
            let options = GradOptions::new().create_graph();
            let gradients = gradients_with(&[&derived.sum(..)], &[&x], &options);
            let gradient = gradients.into_iter().next().flatten();
            derived =
                gradient.unwrap_or_else(|| Variable::constant(Array::zeros(x.shape(), x.dtype())));
        }
    }
}
