//! Eigenvalues and eigenvectors of symmetric matrices.

use bibun_array::Array;

use super::matrices::{
    beside, expect_square, expect_success, info, product3, symmetric, t, widened,
};
use crate::call::composite;
use crate::context::Context;
use crate::function::{Fixed, Needs, Saved, Spec};
use crate::functions::families::{MatrixRule, OfMatrices};
use crate::functions::{cast, diag, diagonal, equal, expand_dims, logical_and, matmul, where_};
use crate::variable::Variable;

/// Computes the eigenvalues w of symmetric matrices in ascending order, and orthonormal eigenvectors, the columns of v:
/// `a = v diag(w) vᵀ`. In each vector, the first of the elements with the largest absolute value (within a
/// ten-thousandth) is positive.
///
/// Only the symmetric part `(a + aᵀ) / 2` counts, so the gradient is symmetric and right along any direction.
///
/// Shapes: a `[.., n, n]` → `[.., n]`, `[.., n, n]`. Types: floats; integers give f64. 16-bit floats are computed in f32.
/// Gradient: `v (diag(gw) + F ∘ (vᵀ gv)) vᵀ` with `F[i, j] = 1 / (w[j] - w[i])` beside the diagonal. Eigenvectors of
/// equal eigenvalues have no derivative: it is infinite or NaN, as in JAX and PyTorch, unless nothing depends on it
/// (`(vᵀ gv)[i, j]` is zero, as it is if only w is used). For functions of the whole matrix that are smooth there, see
/// [`sqrtm`](super::sqrtm) and its neighbours.
/// Source: M. B. Giles, 2008; `numpy.linalg.eigh`.
///
/// # Panics
/// Panics if a is not square, or has elements that are not finite; in a compiled function, the results are NaN then.
///
/// ```
/// use bibun::{linalg::eigh, Variable};
/// let (w, v) = eigh(Variable::new([[2.0, 0.0], [0.0, 1.0]]));
/// assert_eq!(w.to_vec::<f64>(), [1.0, 2.0]);
/// assert_eq!(v.to_vec::<f64>(), [0.0, 1.0, 1.0, 0.0]);
/// ```
#[track_caller]
pub fn eigh(a: impl Into<Variable>) -> (Variable, Variable) {
    let _whole = composite("eigh");
    let a = a.into();
    expect_square("eigh", &a);
    let (a, dtype) = widened(a);
    let [w, v, info] = OfMatrices::of(Eigh, [a]);
    expect_success("eigh", &info, |_| unreachable!("there is no other number"));
    (cast(w, dtype), cast(v, dtype))
}

/// Computes the eigenvalues of [`eigh`] alone.
///
/// Shapes: a `[.., n, n]` → `[.., n]`. Types: floats; integers give f64. 16-bit floats are computed in f32.
/// Gradient: `v diag(gw) vᵀ`. Of equal eigenvalues, whose order has kinks, it is that of one order; a function that
/// takes all of them alike, such as their sum, has the right one. Second derivatives are those of [`eigh`].
/// Source: `numpy.linalg.eigvalsh`.
///
/// # Panics
/// Panics as [`eigh`] does.
///
/// ```
/// use bibun::{linalg::eigvalsh, Variable};
/// let w = eigvalsh(Variable::new([[0.0, 2.0], [2.0, 0.0]])).to_vec::<f64>();
/// assert!((w[0] + 2.0).abs() < 1e-15 && (w[1] - 2.0).abs() < 1e-15);
/// ```
#[track_caller]
pub fn eigvalsh(a: impl Into<Variable>) -> Variable {
    let _whole = composite("eigvalsh");
    let a = a.into();
    expect_square("eigvalsh", &a);
    let (a, dtype) = widened(a);
    let [w, info] = OfMatrices::of(Eigvalsh, [a]);
    expect_success("eigvalsh", &info, |_| {
        unreachable!("there is no other number")
    });
    cast(w, dtype)
}

/// Returns `x / divisor`, and 0 for 0 / 0.
pub(super) fn quotient(x: Variable, divisor: Variable) -> Variable {
    let is_nothing = logical_and(equal(&x, 0.0), equal(&divisor, 0.0));
    x / where_(is_nothing, 1.0, divisor)
}

/// Returns `f[i, j] / (w[j] - w[i])`, with zeros on the diagonal.
fn by_gaps(x: Variable, w: &Variable) -> Variable {
    let gaps = expand_dims(w, -2) - expand_dims(w, -1);
    let beside_diagonal = &x - diag(diagonal(&x, 0, [-2, -1]), 0);
    quotient(beside_diagonal, gaps)
}

#[derive(Clone, Debug)]
struct Eigh;

impl MatrixRule for Eigh {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<3>;

    fn name(&self) -> &'static str {
        "eigh"
    }
    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.output(0).output(1)
    }
    fn results(&self, [a]: [&Spec; 1]) -> [Spec; 3] {
        let n = a.shape[a.shape.rank() - 1];
        [beside(a, &[n]), a.clone(), info(a)]
    }
    fn forward(&self, [a]: [Array; 1]) -> [Array; 3] {
        bibun_array::linalg::eigh(&a)
    }
    fn vjp(&self, cx: &Context<'_>, [gw, gv, _]: [Variable; 3]) -> [Option<Variable>; 1] {
        let (w, v) = (cx.output(0), cx.output(1));
        let inner = diag(gw, 0) + by_gaps(matmul(t(&v), gv), &w);
        [Some(symmetric(product3(&v, inner, t(&v))))]
    }
    fn jvp(&self, cx: &Context<'_>, [da]: [Option<Variable>; 1]) -> [Option<Variable>; 3] {
        let Some(da) = da else {
            return [const { None }; 3];
        };
        let (w, v) = (cx.output(0), cx.output(1));
        let inner = product3(t(&v), symmetric(da), &v);
        let dw = diagonal(&inner, 0, [-2, -1]);
        [Some(dw), Some(matmul(&v, by_gaps(inner, &w))), None]
    }
}

#[derive(Clone, Debug)]
struct Eigvalsh;

impl Eigvalsh {
    fn vectors(cx: &Context<'_>) -> Variable {
        let [_, v, _] = OfMatrices::of(Eigh, [cx.input(0)]);
        v
    }
}

impl MatrixRule for Eigvalsh {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<2>;

    fn name(&self) -> &'static str {
        "eigvalsh"
    }
    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(0)
    }
    fn results(&self, [a]: [&Spec; 1]) -> [Spec; 2] {
        let n = a.shape[a.shape.rank() - 1];
        [beside(a, &[n]), info(a)]
    }
    fn forward(&self, [a]: [Array; 1]) -> [Array; 2] {
        bibun_array::linalg::eigvalsh(&a)
    }
    fn vjp(&self, cx: &Context<'_>, [gw, _]: [Variable; 2]) -> [Option<Variable>; 1] {
        let v = Self::vectors(cx);
        [Some(matmul(&v * expand_dims(gw, -2), t(&v)))]
    }
    fn jvp(&self, cx: &Context<'_>, [da]: [Option<Variable>; 1]) -> [Option<Variable>; 2] {
        let Some(da) = da else { return [None, None] };
        let v = Self::vectors(cx);
        let dw = crate::functions::sum(&v * matmul(symmetric(da), &v), -2);
        [Some(dw), None]
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::reference::{self, vector};
    use crate::conformance::{Draw, Sample};

    let of = |shape: &[usize]| {
        Sample::new(
            "eigh",
            |x| {
                let (w, v) = eigh(&x[0]);
                vec![w, v]
            },
            |x| {
                let y = reference::each(x, |x| x[0].eigh().to_vec());
                vec![vector(&y[0]), y[1].clone()]
            },
        )
        .input(shape, Draw::Symmetric)
    };
    let values = |shape: &[usize]| {
        Sample::new(
            "eigvalsh",
            |x| vec![eigvalsh(&x[0])],
            |x| {
                let y = reference::each(x, |x| x[0].eigh()[..1].to_vec());
                vec![vector(&y[0])]
            },
        )
        .input(shape, Draw::Symmetric)
    };
    vec![
        of(&[3, 3]),
        of(&[2, 2, 2]),
        values(&[3, 3]),
        values(&[2, 2, 2]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{attempt, grad};
    use bibun_array::DType;

    #[test]
    fn equal_eigenvalues() {
        let a = Variable::new(Array::eye(3, DType::F64) * 2.0);
        for values in [|a: &Variable| eigh(a).0, |a: &Variable| eigvalsh(a)] {
            let g = grad(|a| values(a).square().sum(..), &a);
            assert_eq!(
                g.to_vec::<f64>(),
                (Array::eye(3, DType::F64) * 4.0).to_vec::<f64>()
            );
        }
        // Vectors of a plane may be any, so there is no derivative.
        let g = grad(
            |a| {
                (eigh(a).1
                    * Variable::constant([[1.0, 2.0, 0.0], [0.5, 1.0, 4.0], [3.0, 1.0, 0.0]]))
                .sum(..)
            },
            &a,
        );
        assert!(g.to_vec::<f64>().iter().any(|g| !g.is_finite()));
    }

    #[test]
    fn what_is_not_finite_is_an_error() {
        let a = Variable::new([[1.0, f64::NAN], [0.0, 1.0]]);
        for call in [|a: &Variable| eigh(a).0, |a: &Variable| eigvalsh(a)] {
            let message = attempt(|| call(&a)).unwrap_err().to_string();
            assert!(
                message.contains("the matrix has elements that are not finite"),
                "{message}"
            );
        }
    }
}
