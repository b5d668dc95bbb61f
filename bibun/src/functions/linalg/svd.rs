//! Singular values and vectors.

use bibun_array::Array;

use super::eigh::quotient;
use super::matrices::{
    beside, expect_matrices, expect_success, info, product3, t, widened, widened_or_complex,
};
use crate::call::composite;
use crate::context::Context;
use crate::function::{Fixed, Needs, Saved, Spec, no_rule};
use crate::functions::families::{MatrixRule, OfMatrices};
use crate::functions::{
    cast, concat, constant_beside, diag, diagonal, expand_dims, imag, matmul, mean, real, reshape,
    sum, where_,
};
use crate::variable::Variable;

/// The factors of [`svd`].
#[derive(Clone, Debug)]
pub struct Svd {
    /// The left singular vectors, columns.
    pub u: Variable,
    /// The singular values, in descending order.
    pub s: Variable,
    /// The right singular vectors, rows.
    pub vt: Variable,
}

/// Computes the thin singular value decomposition `a = u diag(s) vt`: singular values s in descending order, and
/// orthonormal vectors. In each column of u, the first of the elements with the largest absolute value (within a
/// ten-thousandth) is positive.
///
/// Shapes: a `[.., m, n]` → u `[.., m, k]`, s `[.., k]`, vt `[.., k, n]` with `k = min(m, n)`.
/// Types: floats; integers give f64. 16-bit floats are computed in f32.
/// Gradient: by the differences of squares of singular values, and for m ≠ n by the values themselves. Vectors of equal
/// values, and of zeros of matrices that are not square, have no derivative: it is infinite or NaN, as in JAX and
/// PyTorch, unless nothing depends on it (as where only s is used). The derivative of a zero in s, which has a kink
/// there, is that of one sign.
/// Source: J. Townsend, "Differentiating the singular value decomposition", 2016; `numpy.linalg.svd` with
/// `full_matrices=False`.
///
/// # Panics
/// Panics if a has no two axes, or has elements that are not finite; in a compiled function, the results are NaN then.
///
/// ```
/// use bibun::{linalg::svd, Variable};
/// let f = svd(Variable::new([[0.0, 2.0], [1.0, 0.0]]));
/// assert_eq!(f.s.to_vec::<f64>(), [2.0, 1.0]);
/// assert_eq!(f.vt.to_vec::<f64>(), [0.0, 1.0, 1.0, 0.0]);
/// ```
#[track_caller]
pub fn svd(a: impl Into<Variable>) -> Svd {
    let _whole = composite("svd");
    decomposition("svd", a.into(), false)
}

/// Computes the singular value decomposition with all vectors: `a = u[.., :k] diag(s) vt[:k]`, where u and vt are square.
/// The vectors that have no singular value complete the others, in a way that is not said.
///
/// Shapes: a `[.., m, n]` → u `[.., m, m]`, s `[.., min(m, n)]`, vt `[.., n, n]`. Types: as [`svd`].
/// Gradient: that of [`svd`] for square matrices. For others there is none, because the further vectors are
/// not determined: asking for one is an error.
/// Source: `numpy.linalg.svd`.
///
/// # Panics
/// Panics as [`svd`] does.
///
/// ```
/// use bibun::{linalg::svd_full, Variable};
/// let f = svd_full(Variable::new([[2.0], [0.0]]));
/// assert_eq!(f.u.to_vec::<f64>(), [1.0, 0.0, 0.0, 1.0]);
/// ```
#[track_caller]
pub fn svd_full(a: impl Into<Variable>) -> Svd {
    let _whole = composite("svd_full");
    decomposition("svd_full", a.into(), true)
}

#[track_caller]
fn decomposition(function: &'static str, a: Variable, full: bool) -> Svd {
    let [m, n] = expect_matrices(function, &a);
    let (a, dtype) = widened(a);
    let full = full && m != n;
    let rule = Decomposition {
        full,
        ..Decomposition::THIN
    };
    let [u, s, vt, info] = OfMatrices::of(rule, [a]);
    expect_success(function, &info, |_| {
        unreachable!("there is no other number")
    });
    let [u, s, vt] = [u, s, vt].map(|y| cast(y, dtype));
    Svd { u, s, vt }
}

/// Computes the singular values of [`svd`] alone.
///
/// Shapes: a `[.., m, n]` → `[.., min(m, n)]`. Types: floats; complex numbers, whose values are real; integers give f64.
/// 16-bit floats are computed in f32.
/// Gradient: `u diag(gs) vt`; of equal values that of one order, of zeros that of one sign. Second derivatives are
/// those of [`svd`]. Source: `numpy.linalg.svdvals`.
///
/// # Panics
/// Panics as [`svd`] does.
///
/// ```
/// use bibun::{linalg::svdvals, Variable};
/// assert_eq!(svdvals(Variable::new([[0.0, 2.0], [1.0, 0.0]])).to_vec::<f64>(), [2.0, 1.0]);
/// ```
#[track_caller]
pub fn svdvals(a: impl Into<Variable>) -> Variable {
    let _whole = composite("svdvals");
    checked_values("svdvals", a.into())
}

/// Returns singular values for the function with this name.
#[track_caller]
pub(super) fn checked_values(function: &'static str, a: Variable) -> Variable {
    expect_matrices(function, &a);
    let (a, dtype) = widened_or_complex(a);
    let [s, info] = match dtype.is_complex() {
        true => complex_values(a),
        false => values(a),
    };
    expect_success(function, &info, |_| {
        unreachable!("there is no other number")
    });
    cast(s, dtype.to_real())
}

/// Returns singular values, and what was found, in the dtype of computation.
pub(super) fn values(a: Variable) -> [Variable; 2] {
    OfMatrices::of(Values { repeats: 1 }, [a])
}

/// Returns those of complex matrices `b + i c`: of the real ones `[[b, -c], [c, b]]`, which have each of them twice.
fn complex_values(a: Variable) -> [Variable; 2] {
    let (b, c) = (real(&a), imag(a));
    let above = concat([&b, &-&c], -1);
    let below = concat([c, b], -1);
    let whole = concat([above, below], -2);
    let [s, info] = OfMatrices::of(Values { repeats: 2 }, [whole]);
    let shape = s.shape();
    let (front, count) = (&shape[..shape.rank() - 1], shape[shape.rank() - 1]);
    [
        mean(reshape(s, [front, &[count / 2, 2]].concat()), -1),
        info,
    ]
}

/// Returns the thin decomposition, and what was found, in the dtype of computation.
pub(super) fn thin(a: Variable) -> [Variable; 4] {
    OfMatrices::of(Decomposition::THIN, [a])
}

#[derive(Clone, Debug)]
struct Decomposition {
    full: bool,
    /// How often each value comes, whatever the matrix is. What is asked of its left and right vectors does not depend on
    /// how they are turned together, so that they only turn against each other.
    repeats: usize,
}

impl Decomposition {
    const THIN: Self = Self {
        full: false,
        repeats: 1,
    };

    /// Returns where i and j count the same value, for all of them.
    fn is_same(&self, s: &Variable) -> Variable {
        let k = s.shape()[s.rank() - 1];
        let value = |i: usize| i / self.repeats;
        let is_same = (0..k * k).map(|at| value(at / k) == value(at % k));
        let is_same = Array::from_vec(is_same.collect::<Vec<bool>>(), [k, k]);
        constant_beside(&[s], is_same)
    }

    /// Returns `x[i, j] / (s[j]² - s[i]²)`, with zeros for the same value.
    fn by_gaps(&self, x: Variable, s: &Variable) -> Variable {
        let (i, j) = (expand_dims(s, -1), expand_dims(s, -2));
        let gaps = (&j - &i) * (j + i);
        quotient(where_(self.is_same(s), 0.0, x), gaps)
    }

    /// Returns `x[i, j] / 2 (s[j] + s[i])` for the same value, with zeros for others.
    fn by_sums(&self, x: Variable, s: &Variable) -> Variable {
        let sums = (expand_dims(s, -1) + expand_dims(s, -2)) * 2.0;
        quotient(where_(self.is_same(s), x, 0.0), sums)
    }

    fn expect_thin(&self) {
        if self.full {
            no_rule(
                "svd_full",
                "vjp",
                "the vectors without a value are not determined; use svd",
            );
        }
    }
}

/// Returns columns scaled by numbers.
fn columns(x: Variable, s: &Variable) -> Variable {
    x * expand_dims(s, -2)
}

fn rows(x: Variable, s: &Variable) -> Variable {
    x * expand_dims(s, -1)
}

/// Returns what is left of columns beside the span of others.
fn outside(x: Variable, u: &Variable) -> Variable {
    let inside = matmul(u, matmul(t(u), &x));
    x - inside
}

impl MatrixRule for Decomposition {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<4>;

    fn name(&self) -> &'static str {
        if self.full { "svd_full" } else { "svd" }
    }
    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.output(0).output(1).output(2)
    }
    fn results(&self, [a]: [&Spec; 1]) -> [Spec; 4] {
        let rank = a.shape.rank();
        let (m, n) = (a.shape[rank - 2], a.shape[rank - 1]);
        let k = m.min(n);
        let [of_u, of_v] = if self.full { [m, n] } else { [k, k] };
        [
            beside(a, &[m, of_u]),
            beside(a, &[k]),
            beside(a, &[of_v, n]),
            info(a),
        ]
    }
    fn forward(&self, [a]: [Array; 1]) -> [Array; 4] {
        bibun_array::linalg::svd(&a, self.full)
    }

    fn vjp(&self, cx: &Context<'_>, [gu, gs, gvt, _]: [Variable; 4]) -> [Option<Variable>; 1] {
        self.expect_thin();
        let (u, s, vt) = (cx.output(0), cx.output(1), cx.output(2));
        let of_u = matmul(t(&u), &gu);
        let of_v = matmul(&vt, t(&gvt));
        let (of_u, of_v) = (&of_u - t(&of_u), &of_v - t(&of_v));
        let turn = (self.repeats > 1).then(|| self.by_sums(&of_u - &of_v, &s));
        let (of_u, of_v) = (self.by_gaps(of_u, &s), self.by_gaps(of_v, &s));
        let mut inner = columns(of_u, &s) + diag(gs, 0) + rows(of_v, &s);
        if let Some(turn) = turn {
            inner += turn;
        }
        let mut ga = product3(&u, inner, &vt);
        let shape = cx.input_shape(0);
        let (m, n) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
        if m > n {
            let scaled = quotient_of_columns(outside(gu, &u), &s);
            ga += matmul(scaled, vt);
        } else if n > m {
            let scaled = quotient_of_columns(outside(t(gvt), &t(vt)), &s);
            ga += matmul(u, t(scaled));
        }
        [Some(ga)]
    }

    fn jvp(&self, cx: &Context<'_>, [da]: [Option<Variable>; 1]) -> [Option<Variable>; 4] {
        let Some(da) = da else {
            return [const { None }; 4];
        };
        self.expect_thin();
        let (u, s, vt) = (cx.output(0), cx.output(1), cx.output(2));
        let inner = product3(t(&u), &da, t(&vt));
        let ds = diagonal(&inner, 0, [-2, -1]);
        let scaled = [columns(inner.clone(), &s), rows(inner.clone(), &s)];
        let [mut of_u, mut of_v] = scaled.map(|x| self.by_gaps(&x + t(&x), &s));
        if self.repeats > 1 {
            let turn = self.by_sums(&inner - t(&inner), &s);
            of_u += &turn;
            of_v -= turn;
        }
        let mut du = matmul(&u, of_u);
        let mut dv = matmul(t(&vt), of_v);
        let shape = cx.input_shape(0);
        let (m, n) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
        if m > n {
            du += quotient_of_columns(outside(matmul(da, t(vt)), &u), &s);
        } else if n > m {
            dv += quotient_of_columns(outside(matmul(t(da), u), &t(vt)), &s);
        }
        [Some(du), Some(ds), Some(t(dv)), None]
    }
}

fn quotient_of_columns(x: Variable, s: &Variable) -> Variable {
    let s = crate::functions::broadcast_to(expand_dims(s, -2), x.shape());
    quotient(x, s)
}

#[derive(Clone, Debug)]
struct Values {
    /// As in [`Decomposition`].
    repeats: usize,
}

impl Values {
    fn vectors(&self, cx: &Context<'_>) -> [Variable; 2] {
        let rule = Decomposition {
            repeats: self.repeats,
            ..Decomposition::THIN
        };
        let [u, _, vt, _] = OfMatrices::of(rule, [cx.input(0)]);
        [u, vt]
    }
}

impl MatrixRule for Values {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<2>;

    fn name(&self) -> &'static str {
        "svdvals"
    }
    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(0)
    }
    fn results(&self, [a]: [&Spec; 1]) -> [Spec; 2] {
        let rank = a.shape.rank();
        let k = a.shape[rank - 2].min(a.shape[rank - 1]);
        [beside(a, &[k]), info(a)]
    }
    fn forward(&self, [a]: [Array; 1]) -> [Array; 2] {
        bibun_array::linalg::svdvals(&a)
    }
    fn vjp(&self, cx: &Context<'_>, [gs, _]: [Variable; 2]) -> [Option<Variable>; 1] {
        let [u, vt] = self.vectors(cx);
        [Some(matmul(columns(u, &gs), vt))]
    }
    fn jvp(&self, cx: &Context<'_>, [da]: [Option<Variable>; 1]) -> [Option<Variable>; 2] {
        let Some(da) = da else { return [None, None] };
        let [u, vt] = self.vectors(cx);
        [Some(sum(u * matmul(da, t(vt)), -2)), None]
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::reference::{self, Matrix, vector};
    use crate::conformance::{Draw, Sample};

    let of = |shape: &[usize]| {
        Sample::new(
            "svd",
            |x| {
                let Svd { u, s, vt } = svd(&x[0]);
                vec![u, s, vt]
            },
            |x| {
                let mut y = reference::each(x, |x| x[0].svd().to_vec());
                y[1] = vector(&y[1]);
                y
            },
        )
        .input(shape, Draw::Separated)
    };
    let values = |shape: &[usize]| {
        Sample::new(
            "svdvals",
            |x| vec![svdvals(&x[0])],
            |x| {
                let y = reference::each(x, |x| vec![x[0].svd()[1].clone()]);
                vec![vector(&y[0])]
            },
        )
        .input(shape, Draw::Separated)
    };
    let complex_values = |shape: &[usize]| {
        Sample::of_complex(
            "svdvals",
            &[(shape.into(), reference::SEPARATED)],
            |x| vec![svdvals(&x[0])],
            |x| {
                let y = reference::each_embedded(x, |x| {
                    let [_, s, _] = x[0].svd();
                    vec![Matrix::of(s.m / 2, 1, |i, _| s.at(2 * i, 0))]
                });
                vec![vector(&y[0])]
            },
        )
    };
    vec![
        of(&[3, 3]),
        of(&[2, 3, 2]),
        of(&[2, 4]),
        values(&[3, 3]),
        values(&[2, 2, 3]),
        complex_values(&[2, 2]),
        complex_values(&[2, 2, 3]),
        Sample::new(
            "svd_full",
            |x| {
                let Svd { u, s, vt } = svd_full(&x[0]);
                vec![u, s, vt]
            },
            |x| {
                let mut y = reference::each(x, |x| x[0].svd().to_vec());
                y[1] = vector(&y[1]);
                y
            },
        )
        .input([2, 2], Draw::Separated),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{attempt, grad};
    use bibun_array::DType;

    #[test]
    fn further_vectors_have_no_derivative() {
        let a = Variable::new([[1.0], [2.0]]);
        let f = svd_full(&a);
        assert_eq!((f.u.shape(), f.vt.shape()), ([2, 2].into(), [1, 1].into()));
        let error = attempt(|| grad(|a| svd_full(a).u.sum(..), &a)).unwrap_err();
        assert!(
            error.to_string().contains("are not determined; use svd"),
            "{error}"
        );
    }

    #[test]
    fn values_at_matrices_of_low_rank() {
        let a = Variable::new(Array::ones([2, 3], DType::F64));
        for values in [|a: &Variable| svd(a).s, |a: &Variable| svdvals(a)] {
            let g = grad(|a| values(a).slice(crate::s![0]), &a).to_vec::<f64>();
            assert!(
                g.iter().all(|g| (g - 1.0 / 6f64.sqrt()).abs() < 1e-15),
                "{g:?}"
            );
        }
        let equal = Variable::new(Array::eye(3, DType::F64));
        let g = grad(|a| svd(a).s.sum(..), &equal);
        assert_eq!(g.to_vec::<f64>(), Array::eye(3, DType::F64).to_vec::<f64>());
    }
}
