//! Cholesky factors, and what is computed with them.

use bibun_array::{Array, Triangle};

use super::matrices::{expect_square, expect_success, info, pair, symmetric, t, widened};
use super::triangular_solve;
use crate::call::composite;
use crate::context::Context;
use crate::function::{Fixed, Needs, Saved, Spec};
use crate::functions::families::{MatrixRule, OfMatrices};
use crate::functions::{cast, constant_beside, diag, diagonal, matmul, to_float, tril};
use crate::variable::Variable;

/// Computes the lower Cholesky factor L of positive definite matrices, `a = L Lᵀ`.
///
/// Only the symmetric part `(a + aᵀ) / 2` counts, so the gradient is symmetric and right along any direction.
///
/// Shapes: a `[.., n, n]` → the same.
/// Types: floats; integers give f64. 16-bit floats are computed in f32.
/// Gradient: the symmetric part of `L⁻ᵀ Φ(Lᵀ gL) L⁻¹`, where Φ takes the lower triangle and half of the diagonal.
/// Source: S. F. Walter, "Structured higher-order algorithmic differentiation", 2011; I. Murray,
/// "Differentiation of the Cholesky decomposition", 2016; `jnp.linalg.cholesky`, which symmetrises too.
///
/// # Panics
/// Panics if a is not square, or a matrix is not positive definite; in a compiled function, its factor is NaN
/// instead ([`cholesky_ex`] tells of it).
///
/// ```
/// use bibun::{linalg::cholesky, Variable};
/// let l = cholesky(Variable::new([[4.0, 2.0], [2.0, 5.0]]));
/// assert_eq!(l.to_vec::<f64>(), [2.0, 0.0, 1.0, 2.0]);
/// ```
#[track_caller]
pub fn cholesky(a: impl Into<Variable>) -> Variable {
    let _whole = composite("cholesky");
    let [l, info] = factor("cholesky", a.into());
    let why = |k| format!("is not positive definite: its first {k} rows and columns are not");
    expect_success("cholesky", &info, why);
    l
}

/// Computes the lower Cholesky factors of [`cholesky`], and whether there are any: 0; or k if the first k rows
/// and columns of a matrix are the smallest that are not positive definite, whose factor is NaN.
///
/// Shapes: a `[.., n, n]` → the same, `[..]`. Types: floats; integers give f64; the numbers are i64.
/// Gradient: that of [`cholesky`]; where there is no factor, NaN.
///
/// # Panics
/// Panics if a is not square.
///
/// ```
/// use bibun::{linalg::cholesky_ex, Variable};
/// let (_, info) = cholesky_ex(Variable::new([[4.0, 2.0], [2.0, -1.0]]));
/// assert_eq!(info.item::<i64>(), 2);
/// ```
#[track_caller]
pub fn cholesky_ex(a: impl Into<Variable>) -> (Variable, Variable) {
    let _whole = composite("cholesky_ex");
    let [l, info] = factor("cholesky_ex", a.into());
    (l, info)
}

#[track_caller]
fn factor(function: &'static str, a: Variable) -> [Variable; 2] {
    expect_square(function, &a);
    let (a, dtype) = widened(a);
    let [l, info] = OfMatrices::of(Cholesky, [a]);
    [cast(l, dtype), info]
}

/// Solves `a x = b` with the lower Cholesky factor L of a.
///
/// Shapes: b `[.., n, m]` or `[n]`, l `[.., n, n]`, whose axes in front broadcast → as b, broadcast.
/// Types: floats, promoted; integers give f64. Only the lower triangle of l is read.
/// Gradient: that of two calls of [`triangular_solve`].
/// Source: `torch.cholesky_solve`.
///
/// # Panics
/// Panics if the shapes do not fit.
///
/// ```
/// use bibun::{linalg::cholesky_solve, Variable};
/// let l = Variable::new([[2.0, 0.0], [1.0, 2.0]]);
/// assert_eq!(cholesky_solve([8.0, 12.0], &l).to_vec::<f64>(), [1.0, 2.0]);
/// ```
#[track_caller]
pub fn cholesky_solve(b: impl Into<Variable>, l: impl Into<Variable>) -> Variable {
    let _whole = composite("cholesky_solve");
    let l = l.into();
    expect_square("cholesky_solve", &l);
    let pair = pair("cholesky_solve", to_float(l), to_float(b.into()));
    let y = triangular_solve(&pair.a, &pair.b, Triangle::Lower);
    pair.result(triangular_solve(t(&pair.a), y, Triangle::Upper))
}

/// Computes the inverse of `a = L Lᵀ` from its lower Cholesky factor L.
///
/// Shapes: l `[.., n, n]` → the same. Types: floats; integers give f64. Only the lower triangle of l is read.
/// Gradient: that of [`triangular_solve`] and the product. Source: `torch.cholesky_inverse`.
///
/// # Panics
/// Panics if l is not square.
///
/// ```
/// use bibun::{linalg::cholesky_inverse, Variable};
/// let y = cholesky_inverse(Variable::new([[2.0, 0.0], [0.0, 4.0]]));
/// assert_eq!(y.to_vec::<f64>(), [0.25, 0.0, 0.0, 0.0625]);
/// ```
#[track_caller]
pub fn cholesky_inverse(l: impl Into<Variable>) -> Variable {
    let _whole = composite("cholesky_inverse");
    let l = l.into();
    let n = expect_square("cholesky_inverse", &l);
    let (l, dtype) = widened(l);
    let identity = constant_beside(&[&l], Array::eye(n, l.dtype()));
    let inverse = triangular_solve(l, identity, Triangle::Lower);
    cast(matmul(t(&inverse), inverse), dtype)
}

#[derive(Clone, Debug)]
struct Cholesky;

/// Returns the lower triangle, with half of the diagonal.
fn lower_half(x: Variable) -> Variable {
    let half = diag(diagonal(&x, 0, [-2, -1]), 0) * 0.5;
    tril(x, 0) - half
}

impl MatrixRule for Cholesky {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<2>;

    fn name(&self) -> &'static str {
        "cholesky"
    }
    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.output(0)
    }
    fn results(&self, [a]: [&Spec; 1]) -> [Spec; 2] {
        [a.clone(), info(a)]
    }
    fn forward(&self, [a]: [Array; 1]) -> [Array; 2] {
        bibun_array::linalg::cholesky(&a)
    }

    fn vjp(&self, cx: &Context<'_>, [gl, _]: [Variable; 2]) -> [Option<Variable>; 1] {
        let l = cx.output(0);
        let upper = t(&l);
        let inner = lower_half(matmul(&upper, tril(gl, 0)));
        let left = triangular_solve(&upper, inner, Triangle::Upper);
        let whole = t(triangular_solve(&upper, t(left), Triangle::Upper));
        [Some(symmetric(whole))]
    }

    /// `dL = L Φ(L⁻¹ da L⁻ᵀ)`
    fn jvp(&self, cx: &Context<'_>, [da]: [Option<Variable>; 1]) -> [Option<Variable>; 2] {
        let Some(da) = da else { return [None, None] };
        let l = cx.output(0);
        let left = triangular_solve(&l, symmetric(da), Triangle::Lower);
        let inner = triangular_solve(&l, t(left), Triangle::Lower);
        [Some(matmul(l, lower_half(inner))), None]
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::reference;
    use crate::conformance::{Draw, Sample};
    use bibun_array::DType;

    let of = |shape: &[usize]| {
        Sample::new(
            "cholesky",
            |x| vec![cholesky(&x[0])],
            |x| reference::each(x, |x| vec![x[0].cholesky()]),
        )
        .input(shape, Draw::PositiveDefinite)
    };
    let solve = |l: &[usize], b: &[usize]| {
        Sample::new(
            "cholesky_solve",
            |x| vec![cholesky_solve(&x[1], &x[0])],
            |x| reference::each(x, |x| vec![x[0].times(&x[0].transposed()).solve(&x[1])]),
        )
        .input(l, Draw::Triangular(Triangle::Lower))
        .input(b, -1.0..1.0)
    };
    vec![
        of(&[3, 3]),
        of(&[2, 2, 2]),
        Sample::new(
            "cholesky_ex",
            |x| {
                let (l, info) = cholesky_ex(&x[0]);
                vec![l, info]
            },
            |x| {
                let mut y = reference::each(x, |x| vec![x[0].cholesky()]);
                y.push(Array::zeros([], DType::I64));
                y
            },
        )
        .input([2, 2], Draw::PositiveDefinite),
        solve(&[3, 3], &[3, 2]),
        solve(&[2, 2, 2], &[2, 2, 1]),
        Sample::new(
            "cholesky_inverse",
            |x| vec![cholesky_inverse(&x[0])],
            |x| reference::each(x, |x| vec![x[0].times(&x[0].transposed()).inverse()]),
        )
        .input([3, 3], Draw::Triangular(Triangle::Lower)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{attempt, compile, vmap};

    #[test]
    fn no_factor_is_an_error_with_the_place_in_the_batch() {
        let a = Variable::new([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 1.0]]]);
        let message = attempt(|| cholesky(&a)).unwrap_err().to_string();
        let expected = "cholesky: the matrix at [1] is not positive definite: its first 2 rows";
        assert!(message.starts_with(expected), "{message}");
        assert!(message.contains("cholesky.rs"), "{message}");
        let mapped = attempt(|| vmap(|a: &Variable| cholesky(a), &a));
        assert!(mapped.unwrap_err().to_string().contains("at [1]"));
        let message = attempt(|| cholesky(a.slice(crate::s![1]) * f64::NAN)).unwrap_err();
        assert!(
            message
                .to_string()
                .contains("the matrix is not positive definite")
        );
        let (_, info) = cholesky_ex(&a);
        assert_eq!(info.to_vec::<i64>(), [0, 2]);
    }

    #[test]
    fn a_program_returns_nan_instead() {
        let f = compile(|a: &Variable| cholesky(a));
        let y = f.call(&Variable::constant([[1.0, 2.0], [2.0, 1.0]]));
        assert!(y.to_vec::<f64>().iter().all(|x| x.is_nan()));
    }
}
