//! Orthonormal bases of the columns of matrices.

use bibun_array::{Array, Triangle};

use super::matrices::{beside, expect_matrices, first_columns, t, widened};
use super::triangular_solve;
use crate::call::composite;
use crate::context::Context;
use crate::function::{Fixed, Needs, Saved, Spec, no_rule};
use crate::functions::families::{MatrixRule, OfMatrices};
use crate::functions::{cast, concat, matmul, slice, tril, triu};
use crate::variable::Variable;

/// The factors of [`qr`].
#[derive(Clone, Debug)]
pub struct Qr {
    /// Orthonormal columns.
    pub q: Variable,
    /// An upper triangle.
    pub r: Variable,
}

/// Computes the thin decomposition `a = q r` into orthonormal columns and an upper triangle, whose diagonal is not
/// negative. (That makes both unique and continuous; NumPy and PyTorch leave the signs to LAPACK.)
///
/// Shapes: a `[.., m, n]` → q `[.., m, k]`, r `[.., k, n]` with `k = min(m, n)`.
/// Types: floats; integers give f64. 16-bit floats are computed in f32.
/// Gradient: `(gq + q S) r⁻ᵀ`, where S is the lower triangle of `r grᵀ - gqᵀ q` and its mirror image; of further columns
/// by `r = qᵀ a`. Infinite or NaN where the first k columns are dependent.
/// Source: S. F. Walter and L. Lehmann, 2013; `numpy.linalg.qr`.
///
/// # Panics
/// Panics if a has no two axes.
///
/// ```
/// use bibun::{linalg::qr, Variable};
/// let f = qr(Variable::new([[0.0, 1.0], [2.0, 3.0]]));
/// assert_eq!(f.q.to_vec::<f64>(), [0.0, 1.0, 1.0, 0.0]);
/// assert_eq!(f.r.to_vec::<f64>(), [2.0, 3.0, 0.0, 1.0]);
/// ```
#[track_caller]
pub fn qr(a: impl Into<Variable>) -> Qr {
    let _whole = composite("qr");
    let a = a.into();
    let [m, n] = expect_matrices("qr", &a);
    let (a, dtype) = widened(a);
    let [q, r] = OfMatrices::of(Columns { full: false }, [first_columns(&a, m.min(n))]);
    let r = match n > m {
        true => {
            let others = matmul(t(&q), slice(a, crate::s![..., m as isize..]));
            concat([r, others], -1)
        }
        false => r,
    };
    Qr {
        q: cast(q, dtype),
        r: cast(r, dtype),
    }
}

/// Computes the decomposition `a = q r` with a square q, whose further columns complete the others in a way that is not
/// said.
///
/// Shapes: a `[.., m, n]` → q `[.., m, m]`, r `[.., m, n]`. Types: as [`qr`].
/// Gradient: that of [`qr`] if `m ≤ n`. For others there is none, because the further columns are not determined:
/// asking for one is an error.
/// Source: `numpy.linalg.qr` with `mode="complete"`.
///
/// # Panics
/// Panics if a has no two axes.
///
/// ```
/// use bibun::{linalg::qr_full, Variable};
/// assert_eq!(qr_full(Variable::new([[2.0], [0.0]])).r.to_vec::<f64>(), [2.0, 0.0]);
/// ```
#[track_caller]
pub fn qr_full(a: impl Into<Variable>) -> Qr {
    let _whole = composite("qr_full");
    let a = a.into();
    let [m, n] = expect_matrices("qr_full", &a);
    if m <= n {
        return qr(a);
    }
    let (a, dtype) = widened(a);
    let [q, r] = OfMatrices::of(Columns { full: true }, [a]);
    Qr {
        q: cast(q, dtype),
        r: cast(r, dtype),
    }
}

/// The decomposition of matrices that are not wider than high.
#[derive(Clone, Debug)]
struct Columns {
    full: bool,
}

impl Columns {
    fn expect_thin(&self) {
        if self.full {
            no_rule(
                "qr_full",
                "vjp",
                "the further columns are not determined; use qr",
            );
        }
    }
}

/// Returns `x r⁻¹`.
fn by(x: Variable, r: &Variable) -> Variable {
    t(triangular_solve(t(r), t(x), Triangle::Lower))
}

impl MatrixRule for Columns {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<2>;

    fn name(&self) -> &'static str {
        if self.full { "qr_full" } else { "qr" }
    }
    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.output(0).output(1)
    }
    fn results(&self, [a]: [&Spec; 1]) -> [Spec; 2] {
        let rank = a.shape.rank();
        let (m, n) = (a.shape[rank - 2], a.shape[rank - 1]);
        let k = if self.full { m } else { n };
        [beside(a, &[m, k]), beside(a, &[k, n])]
    }
    fn forward(&self, [a]: [Array; 1]) -> [Array; 2] {
        bibun_array::linalg::qr(&a, self.full)
    }

    fn vjp(&self, cx: &Context<'_>, [gq, gr]: [Variable; 2]) -> [Option<Variable>; 1] {
        self.expect_thin();
        let (q, r) = (cx.output(0), cx.output(1));
        let inner = matmul(&r, t(triu(gr, 0))) - matmul(t(&gq), &q);
        let mirrored = tril(&inner, 0) + t(tril(inner, -1));
        let right = gq + matmul(q, mirrored);
        // `right r⁻ᵀ`
        [Some(t(triangular_solve(r, t(right), Triangle::Upper)))]
    }

    /// With `c = da r⁻¹` and the skew `Ω` that has the lower triangle of `qᵀ c`: `dr = (qᵀ c - Ω) r` and
    /// `dq = c - q (qᵀ c - Ω)`.
    fn jvp(&self, cx: &Context<'_>, [da]: [Option<Variable>; 1]) -> [Option<Variable>; 2] {
        let Some(da) = da else { return [None, None] };
        self.expect_thin();
        let (q, r) = (cx.output(0), cx.output(1));
        let c = by(da, &r);
        let inner = matmul(t(&q), &c);
        let below = tril(&inner, -1);
        let upper = inner - &below + t(below);
        let dq = c - matmul(q, &upper);
        [Some(dq), Some(matmul(upper, r))]
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::reference;
    use crate::conformance::{Draw, Sample};

    let of = |name: &'static str, call: fn(Variable) -> Qr, shape: &[usize]| {
        Sample::new(
            name,
            move |x| {
                let Qr { q, r } = call(x[0].clone());
                vec![q, r]
            },
            |x| reference::each(x, |x| x[0].qr().to_vec()),
        )
        .input(shape, Draw::Regular)
    };
    vec![
        of("qr", |a| qr(a), &[3, 3]),
        of("qr", |a| qr(a), &[2, 4, 2]),
        of("qr", |a| qr(a), &[2, 3]),
        of("qr_full", |a| qr_full(a), &[2, 2, 3]),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{attempt, grad};

    #[test]
    fn further_columns_have_no_derivative() {
        let a = Variable::new([[1.0], [2.0]]);
        assert_eq!(qr_full(&a).q.shape(), [2, 2]);
        let error = attempt(|| grad(|a| qr_full(a).q.sum(..), &a)).unwrap_err();
        assert!(
            error.to_string().contains("are not determined; use qr"),
            "{error}"
        );
    }
}
