//! A product of two inputs by a weight for each pair of their elements.

use crate::call::composite;
use crate::error::mismatch;
use crate::functions::{OptionalVariable, cast, einsum};
use crate::variable::Variable;

/// Computes a bilinear layer, `y[o] = Σ a[i] w[o, i, j] b[j] + bias[o]`.
///
/// Shapes: a `[.., i]`, b `[.., j]` with the same axes in front, w `[o, i, j]`, bias `[o]` → `[.., o]`.
/// Types: floats and integers, promoted.
/// Gradient: `Σ gy w b` to a, `Σ gy w a` to b, `Σ gy a b` to w, `Σ gy` to the bias.
///
/// Source: `torch.nn.functional.bilinear`.
///
/// # Panics
/// Panics if the shapes do not fit.
///
/// ```
/// use bibun::{functions::bilinear, Variable};
/// let (a, b) = (Variable::new([[1.0, 2.0]]), Variable::new([[3.0, 5.0]]));
/// let w = Variable::new([[[1.0, 0.0], [0.0, 1.0]]]);
/// assert_eq!(bilinear(&a, &b, &w, None).to_vec::<f64>(), [13.0]);
/// ```
#[track_caller]
pub fn bilinear(
    a: impl Into<Variable>,
    b: impl Into<Variable>,
    w: impl Into<Variable>,
    bias: impl Into<OptionalVariable>,
) -> Variable {
    let function = "bilinear";
    let _whole = composite(function);
    let (a, b, w, bias) = (a.into(), b.into(), w.into(), bias.into());
    let (a_spec, b_spec, w_spec) = (a.spec(), b.spec(), w.spec());
    let bias_spec = bias.get().map(Variable::spec);
    let fits = match (&a_spec.shape[..], &b_spec.shape[..], &w_spec.shape[..]) {
        ([front @ .., i], [others @ .., j], [o, rows, columns]) => {
            let biases = bias_spec.as_ref().is_none_or(|bias| bias.shape[..] == [*o]);
            front == others && i == rows && j == columns && biases
        }
        _ => false,
    };
    if !fits {
        let mut inputs = vec![
            ("a [.., i]", &a_spec),
            ("b [.., j]", &b_spec),
            ("w [o, i, j]", &w_spec),
        ];
        inputs.extend(bias_spec.as_ref().map(|bias| ("bias [o]", bias)));
        mismatch(function, &inputs, "equal letters must be equal sizes")
    }
    let dtype = [&b, &w].map(Variable::dtype);
    let dtype = dtype
        .into_iter()
        .fold(a.dtype(), |all, dtype| all.promote(dtype));
    let [a, b, w] = [a, b, w].map(|x| cast(x, dtype));
    // Weights and the wider input first, so that what is between has no more elements than either.
    let y = einsum("...i,oij,...j->...o", [a, w, b]);
    match bias.get() {
        Some(bias) => y + bias,
        None => y,
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use bibun_array::Array;
    let value = |x: &[Array], shape: &[usize]| {
        let x: Vec<Vec<f64>> = x.iter().map(|x| x.to_vec()).collect();
        let n = shape.iter().product::<usize>() / 2;
        let y = (0..n * 2).map(|at| {
            let (n, o) = (at / 2, at % 2);
            let terms = (0..6).map(|k| {
                let (i, j) = (k / 2, k % 2);
                x[0][n * 3 + i] * x[2][o * 6 + k] * x[1][n * 2 + j]
            });
            terms.sum::<f64>() + x.get(3).map_or(0.0, |bias| bias[o])
        });
        vec![Array::from_vec(y.collect(), bibun_array::Shape::new(shape))]
    };
    vec![
        Sample::new(
            "bilinear",
            |x| vec![bilinear(&x[0], &x[1], &x[2], &x[3])],
            move |x| value(x, &[4, 2]),
        )
        .input([4, 3], -1.0..1.0)
        .input([4, 2], -1.0..1.0)
        .input([2, 3, 2], -1.0..1.0)
        .input([2], -1.0..1.0),
        Sample::new(
            "bilinear",
            |x| vec![bilinear(&x[0], &x[1], &x[2], None)],
            move |x| value(x, &[2]),
        )
        .input([3], -1.0..1.0)
        .input([2], -1.0..1.0)
        .input([2, 3, 2], -1.0..1.0),
    ]
}
