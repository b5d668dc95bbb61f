//! Triangular factors of any matrices, systems of equations and inverses.

use bibun_array::{Array, DType, Triangle};

use super::matrices::{
    MatrixRule, OfMatrices, Pair, beside, expect_matrices, expect_square, expect_success, in_batch,
    info, near, pair, product3, sum_of, t, widened,
};
use super::triangular_solve;
use crate::call::composite;
use crate::context::Context;
use crate::function::{Fixed, Needs, Saved, Spec};
use crate::functions::{cast, concat, equal, expand_dims, eye, matmul, slice, tril, triu};
use crate::variable::Variable;

/// The factors of [`lu`].
#[derive(Clone, Debug)]
pub struct Lu {
    /// P, a permutation of rows.
    pub p: Variable,
    /// L, a lower triangle with ones on the diagonal.
    pub l: Variable,
    /// U, an upper triangle.
    pub u: Variable,
}

/// Computes `a = P L U`, by elimination with row exchanges: a permutation of rows, a lower triangle with ones on
/// the diagonal, and an upper triangle.
///
/// Shapes: a `[.., m, n]` → p `[.., m, m]`, l `[.., m, k]`, u `[.., k, n]` with `k = min(m, n)`.
/// Types: floats; integers give f64. 16-bit floats are computed in f32.
/// Gradient: with `K = min`, of the square part `dL = L tril(L⁻¹ Pᵀ da U⁻¹)` (below the diagonal) and
/// `dU = triu(L⁻¹ Pᵀ da U⁻¹) U`, of further rows and columns by `L = (Pᵀ a) U⁻¹` and `U = L⁻¹ Pᵀ a`. It is infinite or
/// NaN where the first k columns or rows are dependent. P has none.
/// Source: S. F. Walter and L. Lehmann, 2013; `jax.scipy.linalg.lu`, `torch.linalg.lu`.
///
/// # Panics
/// Panics if a has no two axes.
///
/// ```
/// use bibun::{linalg::lu, functions::matmul, Variable};
/// let a = Variable::new([[1.0, 2.0], [2.0, 2.0]]);
/// let f = lu(&a);
/// assert_eq!(f.u.to_vec::<f64>(), [2.0, 2.0, 0.0, 1.0]);
/// assert_eq!(matmul(f.p, matmul(f.l, f.u)).to_vec::<f64>(), a.to_vec::<f64>());
/// ```
#[track_caller]
pub fn lu(a: impl Into<Variable>) -> Lu {
    let _whole = composite("lu");
    let a = a.into();
    let [m, n] = expect_matrices("lu", &a);
    let (a, dtype) = widened(a);
    let k = m.min(n);
    let [packed, rows, _] = OfMatrices::of(Factor, [a]);
    let order = near(&rows, Array::arange(0, m as i64));
    // Row i of `pᵀ a` is row `rows[i]` of a.
    let p = equal(expand_dims(&rows, -2), expand_dims(order, -1));
    let lower = tril(first_columns(&packed, k), -1)
        + first_columns(near(&packed, eye(m, packed.dtype())), k);
    let upper = triu(first_rows(packed, k), 0);
    Lu {
        p: cast(p, dtype),
        l: cast(lower, dtype),
        u: cast(upper, dtype),
    }
}

/// Computes the factors of [`lu`] in one matrix, L below the diagonal and U on it and above; the row of a that is in
/// each row of `Pᵀ a`; and for each matrix a number: 0; or k if the k-th element on the diagonal of U is the first
/// that is zero; or -1 if one is not finite.
///
/// Shapes: a `[.., m, n]` → the same, `[.., m]`, `[..]`. Types: floats; integers give f64; the others are i64.
/// Gradient: that of [`lu`]. Source: LAPACK's `getrf`; `torch.linalg.lu_factor_ex`, `jax.scipy.linalg.lu_factor`,
/// whose pivots are exchanges one after the other, while these are a permutation.
///
/// # Panics
/// Panics if a has no two axes.
///
/// ```
/// use bibun::{linalg::lu_factor, Variable};
/// let (lu, rows, info) = lu_factor(Variable::new([[1.0, 2.0], [2.0, 2.0]]));
/// assert_eq!(lu.to_vec::<f64>(), [2.0, 2.0, 0.5, 1.0]);
/// assert_eq!((rows.to_vec::<i64>(), info.item::<i64>()), (vec![1, 0], 0));
/// ```
#[track_caller]
pub fn lu_factor(a: impl Into<Variable>) -> (Variable, Variable, Variable) {
    let _whole = composite("lu_factor");
    let a = a.into();
    expect_matrices("lu_factor", &a);
    let (a, dtype) = widened(a);
    let [packed, rows, info] = OfMatrices::of(Factor, [a]);
    (cast(packed, dtype), rows, info)
}

/// Solves `a x = b` for regular matrices a, by elimination. a is factored once, also for all gradients.
///
/// Shapes: a `[.., n, n]`, b `[.., n, m]`, whose axes in front broadcast → `[.., n, m]`; or b `[n]` → `[.., n]`.
/// Types: floats, promoted; integers give f64. 16-bit floats are computed in f32.
/// Gradient: `gb = a⁻ᵀ gy` to b, `-gb yᵀ` to a. Source: M. B. Giles, 2008; `numpy.linalg.solve`.
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
/// Shapes: a `[.., n, n]` → the same. Types: floats; integers give f64. 16-bit floats are computed in f32.
/// Gradient: `-yᵀ gy yᵀ`. Source: M. B. Giles, 2008; `numpy.linalg.inv`.
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
/// Shapes: a `[.., n, n]` → the same, `[..]`. Types: floats; integers give f64; i64. Gradient: that of [`inv`].
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
    let (a, dtype) = widened(a);
    let [y, info] = OfMatrices::of(Inverse, [a]);
    (cast(y, dtype), info)
}

/// Returns the inverse of matrices in the dtype of computation, NaN if there is none.
pub(super) fn inverse_or_nan(a: Variable) -> Variable {
    let [y, _] = OfMatrices::of(Inverse, [a]);
    y
}

/// Returns the first k columns.
pub(super) fn first_columns(x: impl Into<Variable>, k: usize) -> Variable {
    let x = x.into();
    match x.shape()[x.rank() - 1] == k {
        true => x,
        false => slice(x, crate::s![..., ..k as isize]),
    }
}

/// Returns the first k rows.
pub(super) fn first_rows(x: impl Into<Variable>, k: usize) -> Variable {
    t(first_columns(t(x), k))
}

// ----- factors

#[derive(Clone, Debug)]
struct Factor;

/// The factors in one matrix, apart.
struct Factors {
    /// The square parts.
    l: Variable,
    u: Variable,
    sizes: [usize; 2],
}

impl Factors {
    fn of(packed: &Variable) -> Self {
        let shape = packed.shape();
        let sizes = [shape[shape.rank() - 2], shape[shape.rank() - 1]];
        let k = sizes[0].min(sizes[1]);
        let square = first_rows(first_columns(packed, k), k);
        let l = tril(&square, -1) + near(packed, eye(k, packed.dtype()));
        let u = triu(square, 0);
        Self { l, u, sizes }
    }
}

/// Puts parts side by side.
fn beside_each_other(parts: [Variable; 2], axis: isize) -> Variable {
    concat(parts, axis)
}

/// Returns the rows or columns from k on.
fn after_columns(x: &Variable, k: usize) -> Variable {
    slice(x, crate::s![..., k as isize..])
}

fn after_rows(x: &Variable, k: usize) -> Variable {
    t(after_columns(&t(x), k))
}

fn solve_left(a: &Variable, b: Variable, triangle: Triangle) -> Variable {
    triangular_solve(a, b, triangle)
}

/// Returns `b a⁻¹`.
fn solve_right(b: Variable, a: &Variable, triangle: Triangle) -> Variable {
    t(triangular_solve(t(a), t(b), triangle.transposed()))
}

/// Returns `x` with its rows in the order of `rows`, or, if it is `back`, put back from there.
fn exchanged(x: Variable, rows: &Variable, back: bool) -> Variable {
    let m = rows.shape()[rows.rank() - 1];
    let order = near(rows, Array::arange(0, m as i64));
    // `p[i, j]` is 1 if row j of x becomes row i.
    let p = equal(expand_dims(rows, -1), order);
    let p = cast(p, x.dtype());
    matmul(if back { t(p) } else { p }, x)
}

impl MatrixRule for Factor {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<3>;

    fn name(&self) -> &'static str {
        "lu_factor"
    }
    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.output(0).output(1)
    }
    fn results(&self, [a]: [&Spec; 1]) -> [Spec; 3] {
        let m = a.shape[a.shape.rank() - 2];
        let rows = Spec::new(beside(a, &[m]).shape, DType::I64);
        [a.clone(), rows, info(a)]
    }
    fn forward(&self, [a]: [Array; 1]) -> [Array; 3] {
        bibun_array::linalg::lu_factor(&a)
    }

    /// The transpose of what `jvp` does.
    fn vjp(&self, cx: &Context<'_>, [g, ..]: [Variable; 3]) -> [Option<Variable>; 1] {
        let Factors {
            l,
            u,
            sizes: [m, n],
        } = Factors::of(&cx.output(0));
        let k = m.min(n);
        let square = first_rows(first_columns(&g, k), k);
        let mut inner =
            tril(matmul(t(&l), tril(&square, -1)), -1) + triu(matmul(triu(square, 0), t(&u)), 0);
        let (mut below, mut right) = (None, None);
        if m > k {
            // `dL₂ = (da₂ - L₂ dU) U⁻¹`
            let g2 = solve_right(after_rows(&g, k), &t(&u), Triangle::Lower);
            let l2 = after_rows(&cx.output(0), k);
            inner -= triu(product3(t(l2), &g2, t(&u)), 0);
            below = Some(g2);
        }
        if n > k {
            // `dU₂ = L⁻¹ (da₂ - dL U₂)`
            let g2 = solve_left(&t(&l), after_columns(&g, k), Triangle::Upper);
            let u2 = after_columns(&cx.output(0), k);
            inner -= tril(product3(t(&l), &g2, t(u2)), -1);
            right = Some(g2);
        }
        let inner = solve_left(&t(&l), inner, Triangle::Upper);
        let mut gx = solve_right(inner, &t(&u), Triangle::Lower);
        if let Some(below) = below {
            gx = beside_each_other([gx, below], -2);
        }
        if let Some(right) = right {
            gx = beside_each_other([gx, right], -1);
        }
        [Some(exchanged(gx, &cx.output(1), true))]
    }

    fn jvp(&self, cx: &Context<'_>, [da]: [Option<Variable>; 1]) -> [Option<Variable>; 3] {
        let Some(da) = da else {
            return [const { None }; 3];
        };
        let packed = cx.output(0);
        let Factors {
            l,
            u,
            sizes: [m, n],
        } = Factors::of(&packed);
        let k = m.min(n);
        let dx = exchanged(da, &cx.output(1), false);
        let square = first_rows(first_columns(&dx, k), k);
        let inner = solve_left(
            &l,
            solve_right(square, &u, Triangle::Upper),
            Triangle::Lower,
        );
        let dl = matmul(&l, tril(&inner, -1));
        let du = matmul(triu(&inner, 0), &u);
        let mut d = tril(&dl, -1) + triu(&du, 0);
        if m > k {
            let rest = after_rows(&dx, k) - matmul(after_rows(&packed, k), du);
            d = beside_each_other([d, solve_right(rest, &u, Triangle::Upper)], -2);
        } else if n > k {
            let rest = after_columns(&dx, k) - matmul(dl, after_columns(&packed, k));
            d = beside_each_other([d, solve_left(&l, rest, Triangle::Lower)], -1);
        }
        [Some(d), None, None]
    }
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
        let ga = cx.needs(0).then(|| match self.transposed {
            false => -matmul(&gb, t(cx.output(0))),
            true => -matmul(cx.output(0), t(&gb)),
        });
        [ga, cx.needs(1).then_some(gb), None, None]
    }

    fn jvp(&self, cx: &Context<'_>, [da, db, ..]: [Option<Variable>; 4]) -> [Option<Variable>; 1] {
        let of_a = da.map(|da| {
            let da = if self.transposed { t(da) } else { da };
            -matmul(da, cx.output(0))
        });
        let solved = |d| self.clone().of([cx.input(0), d, cx.input(2), cx.input(3)]);
        [sum_of(of_a, db).map(solved)]
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
    use super::reference::{self, Matrix};
    use crate::conformance::Sample;

    let sample = |a: &[usize], b: &[usize]| {
        Sample::new(
            "solve",
            |x| vec![solve(reference::regular(&x[0]), &x[1])],
            |x| reference::each(x, |x| vec![Matrix::regular(&x[0]).solve(&x[1])]),
        )
        .input(a, -1.0..1.0)
        .input(b, -1.0..1.0)
    };
    let lu_of = |shape: &[usize]| {
        Sample::new(
            "lu",
            |x| {
                let Lu { p, l, u } = lu(reference::regular(&x[0]));
                vec![p, l, u]
            },
            |x| reference::each(x, |x| Matrix::regular(&x[0]).lu().to_vec()),
        )
        .input(shape, -1.0..1.0)
    };
    vec![
        sample(&[3, 3], &[3, 2]),
        sample(&[2, 2, 2], &[2, 2, 1]),
        Sample::new(
            "solve",
            |x| vec![solve(reference::regular(&x[0]), &x[1])],
            |x| {
                let b = x[1].expand_dims(1);
                let y = reference::each(&[x[0].clone(), b], |x| {
                    vec![Matrix::regular(&x[0]).solve(&x[1])]
                });
                vec![y[0].reshape([3])]
            },
        )
        .input([3, 3], -1.0..1.0)
        .input([3], -1.0..1.0),
        Sample::new(
            "inv",
            |x| vec![inv(reference::regular(&x[0]))],
            |x| reference::each(x, |x| vec![Matrix::regular(&x[0]).inverse()]),
        )
        .input([2, 3, 3], -1.0..1.0),
        lu_of(&[3, 3]),
        lu_of(&[2, 4, 2]),
        lu_of(&[2, 4]),
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
