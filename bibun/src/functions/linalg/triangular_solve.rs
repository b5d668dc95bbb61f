//! Systems of linear equations with a triangular matrix.

use bibun_array::{Array, Triangle};

use super::matrices::{expect_square, in_batch, pair, t};
use crate::call::composite;
use crate::context::Context;
use crate::function::{Fixed, Needs, Saved, Spec};
use crate::functions::families::{MatrixRule, OfMatrices, sum_of};
use crate::functions::{matmul, tril, triu};
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
/// Shapes: a `[.., n, n]`, b `[.., n, m]`, whose axes in front broadcast → `[.., n, m]`; or b `[n]` → `[.., n]`.
/// Types: floats and complex numbers, promoted; integers give f64. 16-bit floats are computed in f32.
/// Gradient: `gb = a⁻ᵀ gy` to b, and the triangle of `-gb yᵀ` to a; of complex numbers `a⁻ᴴ gy` and `-gb yᴴ`.
/// Source: M. B. Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
/// differentiation", 2008; `torch.linalg.solve_triangular`.
///
/// # Panics
/// Panics if a is not square, or the shapes do not fit.
///
/// ```
/// use bibun::functions::{triangular_solve, Triangle};
/// use bibun::Variable;
/// let a = Variable::new([[2.0, 0.0], [1.0, 4.0]]);
/// let x = triangular_solve(&a, [2.0, 9.0], Triangle::Lower);
/// assert_eq!(x.to_vec::<f64>(), [1.0, 2.0]);
/// ```
#[track_caller]
pub fn triangular_solve(
    a: impl Into<Variable>,
    b: impl Into<Variable>,
    triangle: Triangle,
) -> Variable {
    let _whole = composite("triangular_solve");
    let a = a.into();
    expect_square("triangular_solve", &a);
    let pair = pair("triangular_solve", a, b.into());
    let a = in_batch(pair.a.clone(), &pair.batch, 2);
    pair.result(TriangularSolve::of(triangle, a, pair.b.clone()))
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

    fn results(&self, [_, b]: [&Spec; 2]) -> [Spec; 1] {
        [b.clone()]
    }

    fn forward(&self, [a, b]: [Array; 2]) -> [Array; 1] {
        [bibun_array::triangular_solve(&a, &b, self.0)]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 2] {
        let gb = Self::of(self.0.transposed(), t(cx.input(0)), gy);
        let ga = cx
            .needs(0)
            .then(|| part(self.0, -matmul(&gb, t(cx.output(0)))));
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
    use super::reference::{self, each, each_complex};
    use crate::conformance::{Draw, Sample};

    let sample = |triangle: Triangle, a: &[usize], b: &[usize]| {
        Sample::new(
            "triangular_solve",
            move |x| vec![triangular_solve(&x[0], &x[1], triangle)],
            |x| each(x, |x| vec![x[0].solve(&x[1])]),
        )
        .input(a, Draw::Triangular(triangle))
        .input(b, -1.0..1.0)
    };
    vec![
        sample(Triangle::Lower, &[3, 3], &[3, 2]),
        sample(Triangle::Upper, &[3, 3], &[3, 1]),
        sample(Triangle::Lower, &[2, 3, 3], &[2, 3, 2]),
        sample(Triangle::Upper, &[3, 3], &[2, 3, 2]),
        Sample::new(
            "triangular_solve",
            |x| vec![triangular_solve(&x[0], &x[1], Triangle::Upper)],
            |x| {
                let b = x[1].expand_dims(1);
                let y = each(&[x[0].clone(), b], |x| vec![x[0].solve(&x[1])]);
                vec![reference::vector(&y[0])]
            },
        )
        .input([2, 3, 3], Draw::Triangular(Triangle::Upper))
        .input([3], -1.0..1.0),
        Sample::of_complex(
            "triangular_solve",
            &[
                (
                    [3, 3].into(),
                    [
                        Draw::Triangular(Triangle::Lower),
                        Draw::Uniform(-0.25..0.25),
                    ],
                ),
                ([3, 2].into(), [-1.0..1.0, -1.0..1.0].map(Draw::Uniform)),
            ],
            |x| vec![triangular_solve(&x[0], &x[1], Triangle::Lower)],
            |x| {
                let x = [x[0].tril(0), x[1].clone()];
                each_complex(&x, |x| vec![x[0].solve(&x[1])])
            },
        ),
    ]
}
