//! Systems of linear equations with a triangular matrix.

use bibun_array::{Array, Triangle};

use crate::call::composite;
use crate::context::Context;
use crate::error::mismatch;
use crate::function::{Fixed, Needs, Saved, Spec};
use crate::functions::families::{MatrixRule, OfMatrices, sum_of};
use crate::functions::{broadcast_to, cast, matmul, swapaxes, to_differentiable, tril, triu};
use crate::variable::Variable;

/// Returns the part of x that counts.
fn part(triangle: Triangle, x: Variable) -> Variable {
    match triangle {
        Triangle::Lower => tril(x, 0),
        Triangle::Upper => triu(x, 0),
    }
}

/// Solves `a x = b` for a triangular matrix a, by substitution. Zeros on the diagonal give infinities or NaN.
///
/// For the transposed system, pass `a.swapaxes(-1, -2)` and the other triangle.
///
/// Shapes: a `[.., n, n]`, b `[.., n, m]`, whose axes in front broadcast → `[.., n, m]`.
/// Types: floats and complex numbers, promoted; integers give f64.
/// Gradient: `gb = a⁻ᵀ gy` to b, and the triangle of `-gb yᵀ` to a; of complex numbers `a⁻ᴴ gy` and `-gb yᴴ`.
/// Source: M. B. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
/// differentiation", 2008; `torch.linalg.solve_triangular`.
///
/// # Panics
/// Panics if the shapes do not fit.
///
/// ```
/// use bibun::functions::{triangular_solve, Triangle};
/// use bibun::Variable;
/// let a = Variable::new([[2.0, 0.0], [1.0, 4.0]]);
/// let x = triangular_solve(&a, [[2.0], [9.0]], Triangle::Lower);
/// assert_eq!(x.to_vec::<f64>(), [1.0, 2.0]);
/// ```
#[track_caller]
pub fn triangular_solve(
    a: impl Into<Variable>,
    b: impl Into<Variable>,
    triangle: Triangle,
) -> Variable {
    let _whole = composite("triangular_solve");
    let (a, b) = (to_differentiable(a.into()), to_differentiable(b.into()));
    let dtype = a.dtype().promote(b.dtype());
    let (a_spec, b_spec) = (a.spec(), b.spec());
    let inputs = [("a [.., n, n]", &a_spec), ("b [.., n, m]", &b_spec)];
    let ([.., n, columns], [.., rows, m]) = (&a_spec.shape[..], &b_spec.shape[..]) else {
        mismatch(
            "triangular_solve",
            &inputs,
            "both must have two axes or more",
        );
    };
    if n != columns || n != rows {
        let must = "a must be square, with as many rows as b";
        mismatch("triangular_solve", &inputs, must);
    }
    let front = |spec: &Spec| bibun_array::Shape::new(&spec.shape[..spec.shape.rank() - 2]);
    let Some(batch) = front(&a_spec).broadcast(&front(&b_spec)) else {
        mismatch(
            "triangular_solve",
            &inputs,
            "the axes in front must broadcast",
        );
    };
    let whole = |last: [usize; 2]| [&batch[..], &last].concat();
    let a = broadcast_to(cast(a, dtype), whole([*n, *n]));
    let b = broadcast_to(cast(b, dtype), whole([*n, *m]));
    TriangularSolve::of(triangle, a, b)
}

#[derive(Clone, Copy, Debug)]
struct TriangularSolve(Triangle);

impl TriangularSolve {
    #[track_caller]
    fn of(triangle: Triangle, a: Variable, b: Variable) -> Variable {
        let [y] = OfMatrices::of(Self(triangle), [a, b]);
        y
    }
}

impl MatrixRule for TriangularSolve {
    type Inputs = Fixed<2>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "triangular_solve"
    }
    fn takes_complex(&self) -> bool {
        true
    }

    fn saves(&self, needs: Needs<'_>) -> Saved {
        Saved::NOTHING
            .input(0)
            .and(Saved::NOTHING.output(0).only_if(needs[0]))
    }

    fn in_accumulator(&self) -> bool {
        true
    }

    fn results(&self, [_, b]: [&Spec; 2]) -> [Spec; 1] {
        [b.clone()]
    }

    fn forward(&self, [a, b]: [Array; 2]) -> [Array; 1] {
        [bibun_array::triangular_solve(&a, &b, self.0)]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 2] {
        let gb = Self::of(self.0.transposed(), swapaxes(cx.input(0), -1, -2), gy);
        let ga = cx.needs(0).then(|| {
            let y = swapaxes(cx.output(0), -1, -2);
            part(self.0, -matmul(&gb, y))
        });
        [ga, cx.needs(1).then_some(gb)]
    }

    /// `a dy = db - da y`
    fn jvp(&self, cx: &Context<'_>, [da, db]: [Option<Variable>; 2]) -> [Option<Variable>; 1] {
        let of_a = da.map(|da| -matmul(part(self.0, da), cx.output(0)));
        [sum_of(of_a, db).map(|right| Self::of(self.0, cx.input(0), right))]
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use bibun_array::{DType, Shape};

    use crate::conformance::{Sample, beside};

    // The random matrix over 4 on a diagonal of ones is far from singular.
    let matrix =
        |x: &[Variable]| &x[0] * 0.25 + beside(x, Array::eye(3, DType::F64)).cast(x[0].dtype());
    let reference = |triangle: Triangle| {
        move |x: &[Array]| {
            let shape = x[1].shape().clone();
            let (n, m) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
            let (a, b) = (x[0].to_vec::<f64>(), x[1].to_vec::<f64>());
            let count = shape.size() / (n * m);
            let shared = a.len() == n * n;
            let mut y = vec![0.0; b.len()];
            for k in 0..count {
                let a = &a[if shared { 0 } else { k * n * n }..][..n * n];
                for c in 0..m {
                    for step in 0..n {
                        let i = if triangle == Triangle::Lower {
                            step
                        } else {
                            n - 1 - step
                        };
                        let mut rest = b[k * n * m + i * m + c];
                        for j in 0..n {
                            let is_known = if triangle == Triangle::Lower {
                                j < i
                            } else {
                                j > i
                            };
                            if is_known {
                                rest -= 0.25 * a[i * n + j] * y[k * n * m + j * m + c];
                            }
                        }
                        y[k * n * m + i * m + c] = rest / (1.0 + 0.25 * a[i * n + i]);
                    }
                }
            }
            vec![Array::from_vec(y, shape)]
        }
    };
    let sample = |triangle: Triangle, a: Shape, b: Shape| {
        let call = move |x: &[Variable]| vec![triangular_solve(matrix(x), &x[1], triangle)];
        Sample::new("triangular_solve", call, reference(triangle))
            .input(a, -1.0..1.0)
            .input(b, -1.0..1.0)
    };
    vec![
        sample(Triangle::Lower, [3, 3].into(), [3, 2].into()),
        sample(Triangle::Upper, [3, 3].into(), [3, 1].into()),
        sample(Triangle::Lower, [2, 3, 3].into(), [2, 3, 2].into()),
        sample(Triangle::Upper, [3, 3].into(), [2, 3, 2].into()),
    ]
}
