//! Systems of equations and inverses, by triangular factors.

use bibun_array::Array;
use bibun_array::linalg::TINY;

use super::lu::Factor;
use super::matrices::{
    Pair, expect_square, expect_success, in_batch, info, pair, product3, t, widened_or_complex,
};
use crate::call::composite;
use crate::context::Context;
use crate::function::{Fixed, Needs, Saved, Spec};
use crate::functions::families::{MatrixRule, OfMatrices, sum_of};
use crate::functions::{cast, matmul};
use crate::variable::Variable;

/// Solves `a x = b` for regular matrices a, by elimination. a is factored once, also for all gradients, unless both are
/// small (at most 16 rows and columns): then factoring a again takes less time than reading its factors.
///
/// Shapes: a `[.., n, n]`, b `[.., n, m]`, whose axes in front broadcast → `[.., n, m]`; or b `[n]` → `[.., n]`.
/// Types: floats and complex numbers, promoted; integers give f64. 16-bit floats are computed in f32.
/// Gradient: `gb = a⁻ᵀ gy` to b, `-gb yᵀ` to a; of complex numbers with conjugates, `gb = a⁻ᴴ gy` and `-gb yᴴ`. Source: M. B. Giles, 2008; `numpy.linalg.solve`.
///
/// # Panics
/// Panics if a is not square, the shapes do not fit, or a matrix is singular or not finite; in a compiled
/// function, what it solves is then infinite or NaN ([`solve_ex`] tells of it).
///
/// ```
/// use bibun::{linalg::solve, Variable};
/// let x = solve(Variable::new([[1.0, 2.0], [2.0, 2.0]]), [5.0, 6.0]);
/// assert_eq!(x.to_vec::<f64>(), [1.0, 2.0]);
/// ```
#[track_caller]
pub fn solve(a: impl Into<Variable>, b: impl Into<Variable>) -> Variable {
    let _whole = composite("solve");
    let (x, info) = solution("solve", a.into(), b.into());
    expect_success("solve", &info, is_singular);
    x
}

/// Solves as [`solve`] does, and says of each matrix whether it is regular: 0; or the number of the first pivot
/// that is zero, from 1; or -1 for elements that are not finite. What singular matrices solve is infinite or NaN.
///
/// Shapes: as [`solve`], and `[..]` of a. Types: as [`solve`]; i64. Gradient: that of [`solve`].
///
/// # Panics
/// Panics if a is not square, or the shapes do not fit.
///
/// ```
/// use bibun::{linalg::solve_ex, Variable};
/// let (_, info) = solve_ex(Variable::new([[1.0, 2.0], [2.0, 4.0]]), [5.0, 6.0]);
/// assert_eq!(info.item::<i64>(), 2);
/// ```
#[track_caller]
pub fn solve_ex(a: impl Into<Variable>, b: impl Into<Variable>) -> (Variable, Variable) {
    let _whole = composite("solve_ex");
    solution("solve_ex", a.into(), b.into())
}

fn is_singular(k: i64) -> String {
    format!("is singular: pivot {k} is zero")
}

#[track_caller]
fn solution(function: &'static str, a: Variable, b: Variable) -> (Variable, Variable) {
    expect_square(function, &a);
    let pair = pair(function, a, b);
    let (a_shape, columns) = (pair.a.shape(), pair.b.shape()[pair.b.rank() - 1]);
    let (front, own) = a_shape.split_at(a_shape.rank() - 2);
    if own[0].max(columns) <= TINY && *front == pair.batch[..] {
        let rule = SolveTiny { transposed: false };
        let [x, info] = OfMatrices::of(rule, [pair.a.clone(), pair.b.clone()]);
        return (pair.result(x), info);
    }
    // The derivatives know of a itself.
    let [lu, rows, info] = OfMatrices::of(Factor, [pair.a.detach()]);
    let Pair { a, b, batch, .. } = &pair;
    let [a, lu] = [a, &lu].map(|x| in_batch(x.clone(), batch, 2));
    let rows = in_batch(rows, batch, 1);
    let solved = Solve { transposed: false }.of([a, b.clone(), lu, rows]);
    (pair.result(solved), info)
}

/// Computes the inverse of matrices. (To solve equations, [`solve`] takes less time and rounds less.)
///
/// Shapes: a `[.., n, n]` → the same. Types: floats and complex numbers; integers give f64. 16-bit floats are computed
/// in f32.
/// Gradient: `-yᵀ gy yᵀ`; of complex numbers `-yᴴ gy yᴴ`. Source: M. B. Giles, 2008; `numpy.linalg.inv`.
///
/// # Panics
/// Panics if a is not square, or a matrix is singular or not finite; in a compiled function, its inverse is then
/// NaN ([`inv_ex`] tells of it).
///
/// ```
/// use bibun::{linalg::inv, Variable};
/// let y = inv(Variable::new([[2.0, 0.0], [0.0, 4.0]]));
/// assert_eq!(y.to_vec::<f64>(), [0.5, 0.0, 0.0, 0.25]);
/// ```
#[track_caller]
pub fn inv(a: impl Into<Variable>) -> Variable {
    let _whole = composite("inv");
    let (y, info) = inverse("inv", a.into());
    expect_success("inv", &info, is_singular);
    y
}

/// Computes the inverses of [`inv`], and of each matrix the number of [`solve_ex`]. The inverse of a singular matrix
/// is NaN.
///
/// Shapes: a `[.., n, n]` → the same, `[..]`. Types: floats and complex numbers; integers give f64; i64. Gradient: that of [`inv`].
///
/// # Panics
/// Panics if a is not square.
///
/// ```
/// use bibun::{linalg::inv_ex, Variable};
/// let (y, info) = inv_ex(Variable::new([[0.0, 0.0], [0.0, 4.0]]));
/// assert!(info.item::<i64>() == 1 && y.to_vec::<f64>()[0].is_nan());
/// ```
#[track_caller]
pub fn inv_ex(a: impl Into<Variable>) -> (Variable, Variable) {
    let _whole = composite("inv_ex");
    inverse("inv_ex", a.into())
}

#[track_caller]
fn inverse(function: &'static str, a: Variable) -> (Variable, Variable) {
    expect_square(function, &a);
    let (a, dtype) = widened_or_complex(a);
    let [y, info] = OfMatrices::of(Inverse, [a]);
    (cast(y, dtype), info)
}

/// Returns the inverse of matrices in the dtype of computation, NaN if there is none.
pub(super) fn inverse_or_nan(a: Variable) -> Variable {
    let [y, _] = OfMatrices::of(Inverse, [a]);
    y
}
// ----- equations

/// `a x = b` or `aᵀ x = b`, of a, b, and the factors of a and their rows, which only the value depends on.
#[derive(Clone, Debug)]
struct Solve {
    transposed: bool,
}

impl Solve {
    #[track_caller]
    fn of(self, x: [Variable; 4]) -> Variable {
        let [y] = OfMatrices::of(self, x);
        y
    }
}

impl MatrixRule for Solve {
    type Inputs = Fixed<4>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "solve"
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn saves(&self, needs: Needs<'_>) -> Saved {
        let factors = Saved::NOTHING.input(0).input(2).input(3);
        factors.and(Saved::NOTHING.output(0).only_if(needs[0]))
    }
    fn results(&self, [_, b, ..]: [&Spec; 4]) -> [Spec; 1] {
        [b.clone()]
    }
    fn forward(&self, [_, b, lu, rows]: [Array; 4]) -> [Array; 1] {
        [bibun_array::linalg::lu_solve(
            &lu,
            &rows,
            &b,
            self.transposed,
        )]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 4] {
        let back = Self {
            transposed: !self.transposed,
        };
        let gb = back.of([cx.input(0), gy, cx.input(2), cx.input(3)]);
        let ga = gradient_of_matrix(cx, &gb, self.transposed);
        [ga, cx.needs(1).then_some(gb), None, None]
    }

    fn jvp(&self, cx: &Context<'_>, [da, db, ..]: [Option<Variable>; 4]) -> [Option<Variable>; 1] {
        let solved = |d| self.clone().of([cx.input(0), d, cx.input(2), cx.input(3)]);
        [right_side(cx, [da, db], self.transposed).map(solved)]
    }
}

/// The cotangent of a, if it is asked for, from that of b.
fn gradient_of_matrix(cx: &Context<'_>, gb: &Variable, transposed: bool) -> Option<Variable> {
    cx.needs(0).then(|| match transposed {
        false => -matmul(gb, t(cx.output(0))),
        true => -matmul(cx.output(0), t(gb)),
    })
}

/// The right side of the equations that the tangent solves: `db - da x`.
fn right_side(
    cx: &Context<'_>,
    [da, db]: [Option<Variable>; 2],
    transposed: bool,
) -> Option<Variable> {
    let of_a = da.map(|da| {
        let da = if transposed { t(da) } else { da };
        -matmul(da, cx.output(0))
    });
    sum_of(of_a, db)
}

/// `a x = b` or `aᵀ x = b` of small matrices, and whether they are regular.
#[derive(Clone, Debug)]
struct SolveTiny {
    transposed: bool,
}

impl MatrixRule for SolveTiny {
    type Inputs = Fixed<2>;
    type Outputs = Fixed<2>;

    fn name(&self) -> &'static str {
        "solve"
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn saves(&self, needs: Needs<'_>) -> Saved {
        let matrix = Saved::NOTHING.input(0);
        matrix.and(Saved::NOTHING.output(0).only_if(needs[0]))
    }
    fn results(&self, [a, b]: [&Spec; 2]) -> [Spec; 2] {
        [b.clone(), info(a)]
    }
    fn forward(&self, [a, b]: [Array; 2]) -> [Array; 2] {
        bibun_array::linalg::solve(&a, &b, self.transposed)
    }

    fn vjp(&self, cx: &Context<'_>, [gy, _]: [Variable; 2]) -> [Option<Variable>; 2] {
        let transposed = !self.transposed;
        let [gb, _] = OfMatrices::of(Self { transposed }, [cx.input(0), gy]);
        let ga = gradient_of_matrix(cx, &gb, self.transposed);
        [ga, cx.needs(1).then_some(gb)]
    }

    fn jvp(&self, cx: &Context<'_>, dx: [Option<Variable>; 2]) -> [Option<Variable>; 2] {
        let d = right_side(cx, dx, self.transposed);
        let solved = d.map(|d| {
            let [dx, _] = OfMatrices::of(self.clone(), [cx.input(0), d]);
            dx
        });
        [solved, None]
    }
}

// ----- inverses

#[derive(Clone, Debug)]
struct Inverse;

impl MatrixRule for Inverse {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<2>;

    fn name(&self) -> &'static str {
        "inv"
    }
    fn takes_complex(&self) -> bool {
        true
    }
    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.output(0)
    }
    fn results(&self, [a]: [&Spec; 1]) -> [Spec; 2] {
        [a.clone(), info(a)]
    }
    fn forward(&self, [a]: [Array; 1]) -> [Array; 2] {
        bibun_array::linalg::inv(&a)
    }
    fn vjp(&self, cx: &Context<'_>, [gy, _]: [Variable; 2]) -> [Option<Variable>; 1] {
        let y = t(cx.output(0));
        [Some(-product3(&y, gy, &y))]
    }
    fn jvp(&self, cx: &Context<'_>, [da]: [Option<Variable>; 1]) -> [Option<Variable>; 2] {
        let y = cx.output(0);
        [da.map(|da| -product3(&y, da, &y)), None]
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::reference::{self, each, each_complex};
    use crate::conformance::{Draw, Sample};

    let sample = |a: &[usize], b: &[usize]| {
        Sample::new(
            "solve",
            |x| vec![solve(&x[0], &x[1])],
            |x| each(x, |x| vec![x[0].solve(&x[1])]),
        )
        .input(a, Draw::Regular)
        .input(b, -1.0..1.0)
    };
    vec![
        sample(&[3, 3], &[3, 2]),
        sample(&[2, 2, 2], &[2, 2, 1]),
        // One matrix for all.
        sample(&[2, 2], &[3, 2, 1]),
        Sample::new(
            "solve",
            |x| vec![solve(&x[0], &x[1])],
            |x| {
                let x = [x[0].clone(), x[1].expand_dims(1)];
                let y = each(&x, |x| vec![x[0].solve(&x[1])]);
                vec![reference::vector(&y[0])]
            },
        )
        .input([3, 3], Draw::Regular)
        .input([3], -1.0..1.0),
        Sample::new(
            "inv",
            |x| vec![inv(&x[0])],
            |x| each(x, |x| vec![x[0].inverse()]),
        )
        .input([2, 3, 3], Draw::Regular),
        Sample::of_complex(
            "solve",
            &[
                ([2, 3, 3].into(), reference::REGULAR),
                ([2, 3, 2].into(), [-1.0..1.0, -1.0..1.0].map(Draw::Uniform)),
            ],
            |x| vec![solve(&x[0], &x[1])],
            |x| each_complex(x, |x| vec![x[0].solve(&x[1])]),
        ),
        Sample::of_complex(
            "inv",
            &[([3, 3].into(), reference::REGULAR)],
            |x| vec![inv(&x[0])],
            |x| each_complex(x, |x| vec![x[0].inverse()]),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{attempt, vmap};

    #[test]
    fn singular_matrices_are_named() {
        let a = Variable::new([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 4.0]]]);
        let message = attempt(|| inv(&a)).unwrap_err().to_string();
        let expected = "inv: the matrix at [1] is singular: pivot 2 is zero";
        assert!(message.starts_with(expected), "{message}");
        let solved = attempt(|| vmap(|a: &Variable| solve(a, [1.0, 2.0]), &a));
        assert!(
            solved
                .unwrap_err()
                .to_string()
                .contains("at [1] is singular")
        );
        let message = attempt(|| inv(&a * f64::INFINITY)).unwrap_err().to_string();
        assert!(
            message.contains("at [0] has elements that are not finite"),
            "{message}"
        );
        assert_eq!(inv_ex(&a).1.to_vec::<i64>(), [0, 2]);
        assert_eq!(solve_ex(&a, [1.0, 2.0]).1.to_vec::<i64>(), [0, 2]);
    }
}
