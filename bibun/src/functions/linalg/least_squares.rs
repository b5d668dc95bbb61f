//! Pseudoinverses, least squares and what singular values say of matrices.

use bibun_array::{Array, DType};

use super::matrices::{
    beside, expect_matrices, expect_success, in_batch, info, pair, product3, t, widened,
};
use super::svd::checked_values;
use crate::call::composite;
use crate::context::Context;
use crate::error::{Error, raise};
use crate::function::{Fixed, Needs, Saved, Spec};
use crate::functions::families::{MatrixRule, OfMatrices};
use crate::functions::{cast, matmul, sum, to_float};
use crate::variable::Variable;

/// Computes the pseudoinverse of Moore and Penrose, by singular values: those below `max(m, n) ε` times the largest count as
/// zeros, where ε is the machine's epsilon ([`pinv_with`] takes another limit).
///
/// Shapes: a `[.., m, n]` → `[.., n, m]`. Types: floats; integers give f64. 16-bit floats are computed in f32.
/// Gradient: by `dy = -y da y + y yᵀ daᵀ (1 - a y) + (1 - y a) daᵀ yᵀ y`, which is right as long as the rank does not change,
/// whether or not singular values are equal.
/// Source: G. Golub and V. Pereyra, 1973; `numpy.linalg.pinv`, whose limit is `1e-15`, while that of PyTorch is this one.
///
/// # Panics
/// Panics if a has no two axes, or has elements that are not finite; in a compiled function, the result is NaN then.
///
/// ```
/// use bibun::{linalg::pinv, Variable};
/// assert_eq!(pinv(Variable::new([[2.0, 0.0], [0.0, 0.0]])).to_vec::<f64>(), [0.5, 0.0, 0.0, 0.0]);
/// ```
#[track_caller]
pub fn pinv(a: impl Into<Variable>) -> Variable {
    let _whole = composite("pinv");
    pseudoinverse("pinv", a.into(), None)
}

/// Computes [`pinv`] with singular values up to `rcond` times the largest counting as zeros.
///
/// # Panics
/// Panics as [`pinv`] does, and if `rcond` is negative or NaN.
///
/// ```
/// use bibun::{linalg::pinv_with, Variable};
/// let a = Variable::new([[2.0, 0.0], [0.0, 0.01]]);
/// assert_eq!(pinv_with(&a, 0.1).to_vec::<f64>(), [0.5, 0.0, 0.0, 0.0]);
/// ```
#[track_caller]
pub fn pinv_with(a: impl Into<Variable>, rcond: f64) -> Variable {
    let _whole = composite("pinv");
    expect_limit("pinv", rcond);
    pseudoinverse("pinv", a.into(), Some(rcond))
}

#[track_caller]
fn expect_limit(function: &'static str, rcond: f64) {
    if rcond.is_nan() || rcond < 0.0 {
        let what = format!("rcond is {rcond}; it must be a number that is not negative");
        raise(Error::argument(function, what));
    }
}

fn epsilon(dtype: DType) -> f64 {
    if dtype == DType::F32 {
        f64::from(f32::EPSILON)
    } else {
        f64::EPSILON
    }
}

fn usual_limit(a: &Variable) -> f64 {
    let shape = a.shape();
    let most = shape[shape.rank() - 2].max(shape[shape.rank() - 1]);
    most as f64 * epsilon(a.dtype())
}

#[track_caller]
fn pseudoinverse(function: &'static str, a: Variable, rcond: Option<f64>) -> Variable {
    expect_matrices(function, &a);
    let (a, dtype) = widened(a);
    let rcond = rcond.unwrap_or_else(|| usual_limit(&a));
    let [y, info] = OfMatrices::of(Pseudoinverse { rcond }, [a]);
    expect_success(function, &info, |_| {
        unreachable!("there is no other number")
    });
    cast(y, dtype)
}

/// Returns the x of least length among those for which `‖a x - b‖` is least: [`pinv`] times b.
///
/// Shapes: a `[.., m, n]`, b `[.., m, k]`, whose axes in front broadcast → `[.., n, k]`; or b `[m]` → `[.., n]`.
/// Types: floats, promoted; integers give f64. 16-bit floats are computed in f32.
/// Gradient: that of [`pinv`] and the product. Source: `numpy.linalg.lstsq`, which also returns residuals, the rank and
/// the singular values: `a x - b`, [`matrix_rank`], [`svdvals`](super::svdvals).
///
/// # Panics
/// Panics if the shapes do not fit, or a has elements that are not finite; in a compiled function, the result is NaN then.
///
/// ```
/// use bibun::{linalg::lstsq, Variable};
/// let x = lstsq(Variable::new([[1.0], [1.0]]), [1.0, 3.0]);
/// assert!((x.to_vec::<f64>()[0] - 2.0).abs() < 1e-15);
/// ```
#[track_caller]
pub fn lstsq(a: impl Into<Variable>, b: impl Into<Variable>) -> Variable {
    let _whole = composite("lstsq");
    let pair = pair("lstsq", to_float(a.into()), to_float(b.into()));
    let y = pseudoinverse("lstsq", pair.a.clone(), None);
    pair.result(matmul(in_batch(y, &pair.batch, 2), &pair.b))
}

/// Returns the number of singular values above `max(m, n) ε` times the largest, where ε is the machine's epsilon.
///
/// Shapes: a `[.., m, n]` → `[..]`. Types: floats; integers are converted; the ranks are i64. No gradient.
/// Source: `numpy.linalg.matrix_rank`.
///
/// # Panics
/// Panics if a has no two axes, or has elements that are not finite; in a compiled function, the rank is 0 then.
///
/// ```
/// use bibun::{linalg::matrix_rank, Variable};
/// assert_eq!(matrix_rank(Variable::new([[1.0, 2.0], [2.0, 4.0]])).item::<i64>(), 1);
/// ```
#[track_caller]
pub fn matrix_rank(a: impl Into<Variable>) -> Variable {
    let _whole = composite("matrix_rank");
    let a = a.into();
    expect_matrices("matrix_rank", &a);
    let (a, _) = widened(a.detach());
    let limit = usual_limit(&a);
    let s = checked_values("matrix_rank", a);
    if s.shape()[s.rank() - 1] == 0 {
        return cast(sum(s, -1), DType::I64);
    }
    let largest = crate::functions::max(&s, bibun_array::keep_dims(-1));
    let counts = crate::functions::greater(s, largest * limit);
    sum(cast(counts, DType::I64), -1)
}

#[derive(Clone, Debug)]
struct Pseudoinverse {
    rcond: f64,
}

impl MatrixRule for Pseudoinverse {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<2>;

    fn name(&self) -> &'static str {
        "pinv"
    }
    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(0).output(0)
    }
    fn results(&self, [a]: [&Spec; 1]) -> [Spec; 2] {
        let rank = a.shape.rank();
        let (m, n) = (a.shape[rank - 2], a.shape[rank - 1]);
        [beside(a, &[n, m]), info(a)]
    }
    fn forward(&self, [a]: [Array; 1]) -> [Array; 2] {
        let [u, s, vt, info] = bibun_array::linalg::svd(&a, false);
        let rank = a.rank();
        if a.shape()[rank - 2].min(a.shape()[rank - 1]) == 0 {
            return [a.swapaxes(-1, -2), info];
        }
        let limit = s.max(bibun_array::keep_dims(-1)) * self.rcond;
        // What is not a number is not below the limit.
        let is_zero = s.less_equal(limit);
        let inverse = is_zero.where_(0.0, is_zero.where_(1.0, &s).cast(s.dtype()).reciprocal());
        let scaled = u * inverse.cast(s.dtype()).expand_dims(-2);
        [bibun_array::matmul(&scaled, &vt).swapaxes(-1, -2), info]
    }

    fn vjp(&self, cx: &Context<'_>, [gy, _]: [Variable; 2]) -> [Option<Variable>; 1] {
        let (a, y) = (cx.input(0), cx.output(0));
        let (ty, tg) = (t(&y), t(&gy));
        // The transposes of the three terms of `jvp`.
        let first = product3(&ty, &gy, &ty);
        let below = &tg - product3(&a, &y, &tg);
        let second = product3(below, &y, &ty);
        let beside = &tg - product3(&tg, &y, &a);
        let third = product3(ty, y, beside);
        [Some(second + third - first)]
    }

    fn jvp(&self, cx: &Context<'_>, [da]: [Option<Variable>; 1]) -> [Option<Variable>; 2] {
        let Some(da) = da else { return [None, None] };
        let (a, y) = (cx.input(0), cx.output(0));
        let (ty, td) = (t(&y), t(&da));
        let first = product3(&y, da, &y);
        let right = &td - product3(&td, &a, &y);
        let second = product3(&y, &ty, right);
        let left = &td - product3(&y, &a, &td);
        let third = product3(left, ty, y);
        [Some(second + third - first), None]
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::reference::{self, Matrix};
    use crate::conformance::{Draw, Sample};

    // Of full rank.
    fn pseudo(a: &Matrix) -> Matrix {
        let t = a.transposed();
        match a.m >= a.n {
            true => t.times(a).inverse().times(&t),
            false => t.times(&a.times(&t).inverse()),
        }
    }
    let of = |shape: &[usize]| {
        Sample::new(
            "pinv",
            |x| vec![pinv(&x[0])],
            |x| reference::each(x, |x| vec![pseudo(&x[0])]),
        )
        .input(shape, Draw::Separated)
    };
    vec![
        of(&[3, 3]),
        of(&[2, 3, 2]),
        of(&[2, 3]),
        Sample::new(
            "lstsq",
            |x| vec![lstsq(&x[0], &x[1])],
            |x| reference::each(x, |x| vec![pseudo(&x[0]).times(&x[1])]),
        )
        .input([4, 2], Draw::Separated)
        .input([4, 2], Draw::Separated),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Variable, assert_gradients};

    #[test]
    fn ranks() {
        let a = Variable::new([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]);
        assert_eq!(matrix_rank(&a).item::<i64>(), 1);
        assert_eq!(matrix_rank(a * 0.0).item::<i64>(), 0);
        assert_eq!(
            matrix_rank(Variable::new(Array::zeros([3, 0], DType::F64))).item::<i64>(),
            0
        );
    }

    /// Of matrices `u vᵀ` of rank 1, which stay so.
    #[test]
    fn the_gradient_of_low_rank() {
        let u = Variable::new([[1.0], [2.0], [-1.0]]);
        let v = Variable::new([[0.5, 1.5]]);
        let options = crate::GradientCheckOptions::default();
        assert_gradients(|x| vec![pinv(matmul(&x[0], &x[1]))], &[u, v], options);
    }
}
