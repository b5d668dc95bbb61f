//! Triangular factors of any matrices.

use bibun_array::{Array, DType, Triangle};

use super::matrices::{
    beside, expect_matrices, first_columns, first_rows, info, product3, t, widened_or_complex,
};
use super::triangular_solve;
use crate::call::composite;
use crate::context::Context;
use crate::function::{Fixed, Needs, Saved, Spec};
use crate::functions::families::{MatrixRule, OfMatrices};
use crate::functions::{
    cast, concat, constant_beside, equal, expand_dims, matmul, slice, tril, triu,
};
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
/// Types: floats and complex numbers; integers give f64. 16-bit floats are computed in f32.
/// Gradient: of the square part `dL = L tril(L⁻¹ Pᵀ da U⁻¹)` (below the diagonal) and
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
    let (a, dtype) = widened_or_complex(a);
    let k = m.min(n);
    let [packed, rows, _] = OfMatrices::of(Factor, [a]);
    let order = constant_beside(&[&rows], Array::arange(0, m as i64));
    // Row i of `pᵀ a` is row `rows[i]` of a.
    let p = equal(expand_dims(&rows, -2), expand_dims(order, -1));
    let lower = tril(first_columns(&packed, k), -1)
        + first_columns(
            constant_beside(&[&packed], Array::eye(m, packed.dtype())),
            k,
        );
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
/// Shapes: a `[.., m, n]` → the same, `[.., m]`, `[..]`. Types: floats and complex numbers; integers give f64; the others
/// are i64.
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
    let (a, dtype) = widened_or_complex(a);
    let [packed, rows, info] = OfMatrices::of(Factor, [a]);
    (cast(packed, dtype), rows, info)
}
// ----- factors

#[derive(Clone, Debug)]
pub(super) struct Factor;

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
        let l = tril(&square, -1) + constant_beside(&[packed], Array::eye(k, packed.dtype()));
        let u = triu(square, 0);
        Self { l, u, sizes }
    }
}

/// Returns the rows or columns from k on.
fn after_columns(x: &Variable, k: usize) -> Variable {
    slice(x, crate::s![..., k as isize..])
}

fn after_rows(x: &Variable, k: usize) -> Variable {
    t(after_columns(&t(x), k))
}

/// Returns `b a⁻¹`.
fn solve_right(b: Variable, a: &Variable, triangle: Triangle) -> Variable {
    t(triangular_solve(t(a), t(b), triangle.transposed()))
}

/// Returns `x` with its rows in the order of `rows`, or, if it is `back`, put back from there.
fn exchanged(x: Variable, rows: &Variable, back: bool) -> Variable {
    let m = rows.shape()[rows.rank() - 1];
    let order = constant_beside(&[rows], Array::arange(0, m as i64));
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
    fn takes_complex(&self) -> bool {
        true
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
            let g2 = triangular_solve(t(&l), after_columns(&g, k), Triangle::Upper);
            let u2 = after_columns(&cx.output(0), k);
            inner -= tril(product3(t(&l), &g2, t(u2)), -1);
            right = Some(g2);
        }
        let inner = triangular_solve(t(&l), inner, Triangle::Upper);
        let mut gx = solve_right(inner, &t(&u), Triangle::Lower);
        if let Some(below) = below {
            gx = concat([gx, below], -2);
        }
        if let Some(right) = right {
            gx = concat([gx, right], -1);
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
        let inner = triangular_solve(
            &l,
            solve_right(square, &u, Triangle::Upper),
            Triangle::Lower,
        );
        let dl = matmul(&l, tril(&inner, -1));
        let du = matmul(triu(&inner, 0), &u);
        let mut d = tril(&dl, -1) + triu(&du, 0);
        if m > k {
            let rest = after_rows(&dx, k) - matmul(after_rows(&packed, k), du);
            d = concat([d, solve_right(rest, &u, Triangle::Upper)], -2);
        } else if n > k {
            let rest = after_columns(&dx, k) - matmul(dl, after_columns(&packed, k));
            d = concat([d, triangular_solve(&l, rest, Triangle::Lower)], -1);
        }
        [Some(d), None, None]
    }
}
#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::reference::{self, Matrix};
    use crate::conformance::{Draw, Sample};

    // Of three rows and two columns, as real matrices of twice the sizes: `P L`, and U.
    let complex_lu = |a: &Matrix| {
        // The rows of a in the order of the pivots.
        const ORDER: [usize; 3] = [2, 0, 1];
        let two = |i: usize, j: usize| Matrix::of(2, 2, |r, c| a.at(ORDER[i] + r * 3, j + c * 2));
        let pivot = two(0, 0).inverse();
        let factor = |i: usize| two(i, 0).times(&pivot);
        let minus = |a: &Matrix, b: &Matrix| Matrix::of(2, 2, |i, j| a.at(i, j) - b.at(i, j));
        let rest = |i: usize| minus(&two(i, 1), &factor(i).times(&two(0, 1)));
        let (one, zero) = (two(0, 0).times(&pivot), minus(&pivot, &pivot));
        let l = |i: usize, j: usize| match (i, j) {
            _ if i == j => one.clone(),
            _ if i < j => zero.clone(),
            (_, 0) => factor(i),
            _ => rest(i).times(&rest(1).inverse()),
        };
        let u = |i: usize, j: usize| match (i, j) {
            (0, _) => two(0, j),
            (1, 1) => rest(1),
            _ => zero.clone(),
        };
        let place = |i: usize| ORDER.iter().position(|&row| row == i).expect("a row");
        vec![
            Matrix::of(6, 4, |i, j| l(place(i % 3), j % 2).at(i / 3, j / 2)),
            Matrix::of(4, 4, |i, j| u(i % 2, j % 2).at(i / 2, j / 2)),
        ]
    };
    let of = |shape: &[usize]| {
        Sample::new(
            "lu",
            |x| {
                let Lu { p, l, u } = lu(&x[0]);
                vec![p, l, u]
            },
            |x| reference::each(x, |x| x[0].lu().to_vec()),
        )
        .input(shape, Draw::Regular)
    };
    vec![
        of(&[3, 3]),
        of(&[2, 4, 2]),
        of(&[2, 4]),
        Sample::of_complex(
            "lu",
            &[([3, 2].into(), reference::REGULAR)],
            |x| {
                let Lu { p, l, u } = lu(&x[0]);
                vec![matmul(p, l), u]
            },
            move |x| reference::each_complex(x, |x| complex_lu(&x[0])),
        ),
    ]
}
