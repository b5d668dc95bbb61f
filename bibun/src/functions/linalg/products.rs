//! Products and powers of matrices, matrices made of others, and covariances.

use bibun_array::{Array, keep_dims, normalize_axis};

use super::matrices::{expect_matrices, expect_square, in_batch, t};
#[cfg(test)]
use super::reference::Matrix;
use super::solve::inv;
use crate::call::composite;
use crate::error::{Error, mismatch, raise};
use crate::functions::{
    broadcast_to, clip, complex, concat, conj, constant_beside, diagonal, expand_dims, imag,
    in_accumulator, matmul, mean, moveaxis, ones_like, pad, pow, real, reshape, slice, sqrt, stack,
    to_differentiable, to_number,
};
use crate::variable::Variable;

/// Computes an integer power of square matrices by repeated squaring; of a negative one, that of the inverse.
///
/// Shapes: a `[.., n, n]` → the same. Types: numbers; of integers the power must not be negative.
/// Gradient: that of the products, and of [`inv`]. The power 0 is the identity, with the gradient zero.
/// Source: `numpy.linalg.matrix_power`.
///
/// # Panics
/// Panics if a is not square, or singular and the power negative, or it is one of integers.
///
/// ```
/// use bibun::{linalg::matrix_power, Variable};
/// let y = matrix_power(Variable::new([[1.0, 1.0], [0.0, 1.0]]), 5);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 5.0, 0.0, 1.0]);
/// ```
#[track_caller]
pub fn matrix_power(a: impl Into<Variable>, power: i32) -> Variable {
    let _whole = composite("matrix_power");
    let a = to_number(a.into());
    let n = expect_square("matrix_power", &a);
    if power < 0 && !a.dtype().is_differentiable() {
        let what = format!(
            "the power of {} is {power}; it must not be negative",
            a.dtype()
        );
        raise(Error::argument("matrix_power", what));
    }
    let mut square = if power < 0 { inv(a.clone()) } else { a.clone() };
    let mut left = power.unsigned_abs();
    let mut y: Option<Variable> = None;
    while left > 0 {
        if left % 2 == 1 {
            y = Some(match y {
                Some(y) => matmul(y, &square),
                None => square.clone(),
            });
        }
        left /= 2;
        if left > 0 {
            square = matmul(&square, &square);
        }
    }
    y.unwrap_or_else(|| broadcast_to(constant_beside(&[&a], Array::eye(n, a.dtype())), a.shape()))
}

/// Computes the Kronecker product of matrices: a, with each element replaced by it times b.
///
/// Shapes: a `[.., m, n]`, b `[.., p, q]`, whose axes in front broadcast → `[.., m p, n q]`. Types: all numbers, promoted.
/// Gradient: that of the product. Source: `numpy.kron` of matrices, `torch.kron`.
///
/// # Panics
/// Panics if a or b has no two axes, or those in front do not broadcast.
///
/// ```
/// use bibun::{linalg::kron, Variable};
/// let y = kron(Variable::new([[1.0, 2.0]]), Variable::new([[1.0], [10.0]]));
/// assert_eq!(y.to_vec::<f64>(), [1.0, 2.0, 10.0, 20.0]);
/// ```
#[track_caller]
pub fn kron(a: impl Into<Variable>, b: impl Into<Variable>) -> Variable {
    let _whole = composite("kron");
    let (a, b) = (a.into(), b.into());
    let ([m, n], [p, q]) = (expect_matrices("kron", &a), expect_matrices("kron", &b));
    let a = expand_dims(expand_dims(a, -1), -3);
    let b = expand_dims(expand_dims(b, -2), -4);
    let y = a * b;
    let shape = y.shape();
    let whole = [&shape[..shape.rank() - 4], &[m * p, n * q]].concat();
    reshape(y, whole)
}

/// Puts matrices along the diagonal of one that is zero elsewhere.
///
/// Shapes: each `[.., m, n]`, whose axes in front broadcast → `[.., Σ m, Σ n]`. Types: all, promoted.
/// Gradient: the block of each. Source: `scipy.linalg.block_diag`, `torch.block_diag`.
///
/// # Panics
/// Panics if there are no matrices, one has no two axes, or those in front do not broadcast.
///
/// ```
/// use bibun::{linalg::block_diag, Variable};
/// let y = block_diag([Variable::new([[1.0]]), Variable::new([[2.0, 3.0]])]);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 0.0, 0.0, 0.0, 2.0, 3.0]);
/// ```
#[track_caller]
pub fn block_diag(blocks: impl IntoIterator<Item = impl Into<Variable>>) -> Variable {
    let _whole = composite("block_diag");
    let blocks: Vec<Variable> = blocks.into_iter().map(Into::into).collect();
    let mut batch = bibun_array::Shape::default();
    let mut width = 0;
    for x in &blocks {
        let [_, n] = expect_matrices("block_diag", x);
        let spec = x.spec();
        let front = bibun_array::Shape::new(&spec.shape[..spec.shape.rank() - 2]);
        let Some(both) = batch.broadcast(&front) else {
            mismatch(
                "block_diag",
                &[("a block [.., m, n]", &spec)],
                "the axes in front must broadcast",
            );
        };
        batch = both;
        width += n;
    }
    if blocks.is_empty() {
        raise(Error::argument("block_diag", "there are no matrices"));
    }
    let mut before = 0;
    let mut rows = Vec::new();
    for x in blocks {
        let x = in_batch(x, &batch, 2);
        let (rank, n) = (x.rank(), x.shape()[x.rank() - 1]);
        let mut widths = vec![(0, 0); rank];
        widths[rank - 1] = (before, width - before - n);
        before += n;
        rows.push(pad(x, &widths, 0.0));
    }
    concat(rows, -2)
}

/// Computes the cross product of vectors of 3 elements along an axis.
///
/// Shapes: a and b, which broadcast to one shape with 3 elements along the axis → the same. Types: all numbers, promoted.
/// Gradient: that of the products. Source: `numpy.linalg.cross`.
///
/// # Panics
/// Panics if they do not broadcast, there is no such axis, or it has not 3 elements.
///
/// ```
/// use bibun::{linalg::cross, Variable};
/// assert_eq!(cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0], -1).to_vec::<f64>(), [0.0, 0.0, 1.0]);
/// ```
#[track_caller]
pub fn cross(a: impl Into<Variable>, b: impl Into<Variable>, axis: isize) -> Variable {
    let _whole = composite("cross");
    let (a, b) = (to_number(a.into()), to_number(b.into()));
    let (a_spec, b_spec) = (a.spec(), b.spec());
    let inputs = [("a", &a_spec), ("b", &b_spec)];
    let Some(shape) = a_spec.shape.broadcast(&b_spec.shape) else {
        mismatch("cross", &inputs, "they must broadcast");
    };
    let axis = normalize_axis("cross", axis, shape.rank());
    if shape[axis] != 3 {
        mismatch("cross", &inputs, "the axis must have 3 elements");
    }
    let [a, b] = [a, b].map(|x| moveaxis(broadcast_to(x, &shape), axis as isize, 0));
    let part = |x: &Variable, i: isize| slice(x, crate::s![i]);
    let of = |i: isize, j: isize| part(&a, i) * part(&b, j) - part(&a, j) * part(&b, i);
    stack([of(1, 2), of(2, 0), of(0, 1)], axis as isize)
}

/// Computes the product of several matrices in the order of the fewest multiplications. The first may be a vector, a row,
/// and the last one a column.
///
/// Shapes: `[n₀, n₁]`, `[n₁, n₂]`, .. → `[n₀, nₖ]`, without the axes of vectors. Types: floats and integers, promoted.
/// Gradient: that of the products. Source: T. Cormen and others, "Introduction to Algorithms", 15.2;
/// `numpy.linalg.multi_dot`.
///
/// # Panics
/// Panics if there are fewer than two, they have not two axes, or their sizes do not fit.
///
/// ```
/// use bibun::{linalg::multi_dot, Variable};
/// let a = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(multi_dot([&a, &a, &Variable::new([1.0, 0.0])]).to_vec::<f64>(), [7.0, 15.0]);
/// ```
#[track_caller]
pub fn multi_dot(matrices: impl IntoIterator<Item = impl Into<Variable>>) -> Variable {
    let _whole = composite("multi_dot");
    let mut xs: Vec<Variable> = matrices.into_iter().map(Into::into).collect();
    let count = xs.len();
    if count < 2 {
        let what = format!("the number of matrices is {count}; it must be 2 or more");
        raise(Error::argument("multi_dot", what));
    }
    let (is_row, is_column) = (xs[0].rank() == 1, xs[count - 1].rank() == 1);
    if is_row {
        xs[0] = expand_dims(&xs[0], 0);
    }
    if is_column {
        xs[count - 1] = expand_dims(&xs[count - 1], 1);
    }
    for (i, x) in xs.iter().enumerate() {
        let fits = x.rank() == 2 && (i == 0 || xs[i - 1].shape()[1] == x.shape()[0]);
        if !fits {
            let spec = x.spec();
            let must = format!(
                "matrix {i} must have two axes, and as many rows as the one before it columns"
            );
            mismatch("multi_dot", &[("a matrix [m, n]", &spec)], must);
        }
    }
    let sizes: Vec<usize> = xs
        .iter()
        .map(|x| x.shape()[0])
        .chain([xs[count - 1].shape()[1]])
        .collect();
    let splits = best_splits(&sizes);
    let y = product_of(&xs, &splits, 0, count - 1);
    let y = if is_row { slice(y, crate::s![0]) } else { y };
    match is_column {
        true => slice(y, crate::s![..., 0]),
        false => y,
    }
}

/// Returns, for each range of matrices, the last of its left part in the best order.
fn best_splits(sizes: &[usize]) -> Vec<Vec<usize>> {
    let count = sizes.len() - 1;
    let mut costs = vec![vec![0.0; count]; count];
    let mut splits = vec![vec![0; count]; count];
    for length in 1..count {
        for first in 0..count - length {
            let last = first + length;
            costs[first][last] = f64::INFINITY;
            for split in first..last {
                let own = sizes[first] as f64 * sizes[split + 1] as f64 * sizes[last + 1] as f64;
                let cost = costs[first][split] + costs[split + 1][last] + own;
                if cost < costs[first][last] {
                    costs[first][last] = cost;
                    splits[first][last] = split;
                }
            }
        }
    }
    splits
}

fn product_of(xs: &[Variable], splits: &[Vec<usize>], first: usize, last: usize) -> Variable {
    if first == last {
        return xs[first].clone();
    }
    let split = splits[first][last];
    let left = product_of(xs, splits, first, split);
    matmul(left, product_of(xs, splits, split + 1, last))
}

/// Returns the powers of numbers from `n - 1` to 0 (or, if it is `increasing`, from 0), as rows.
///
/// Shapes: x `[.., m]` → `[.., m, n]`. Types: floats and complex numbers; integers give f64. Gradient: that of the powers,
/// 0 for the power 0.
/// Source: `numpy.vander`; PyTorch's is increasing.
///
/// # Panics
/// Panics if x has no axis.
///
/// ```
/// use bibun::{linalg::vander, Variable};
/// assert_eq!(vander([2.0, 3.0], 3, false).to_vec::<f64>(), [4.0, 2.0, 1.0, 9.0, 3.0, 1.0]);
/// ```
#[track_caller]
pub fn vander(x: impl Into<Variable>, n: usize, increasing: bool) -> Variable {
    let _whole = composite("vander");
    let x = to_differentiable(x.into());
    normalize_axis("vander", -1, x.rank());
    let exponents = (0..n).map(|k| if increasing { k } else { n - 1 - k });
    let power = |k| match k {
        0 => ones_like(&x),
        k => pow(&x, k as f64),
    };
    let columns: Vec<Variable> = exponents.map(power).collect();
    match columns.is_empty() {
        true => slice(expand_dims(x, -1), crate::s![..., ..0]),
        false => stack(columns, -1),
    }
}

/// Computes the covariances of variables, which are rows, over observations, which are columns: the sums of products of
/// their distances from their means, by the number of observations less `correction` (1 for NumPy's default, which has
/// no bias). Of complex numbers, the second distance is conjugated.
///
/// Shapes: x `[.., variables, observations]` → `[.., variables, variables]`. Types: floats and complex numbers; integers
/// give f64.
/// Gradient: that of the product and the mean. Source: `numpy.cov`.
///
/// # Panics
/// Panics if x has no two axes. (With no more observations than `correction`, the result is NaN or infinite.)
///
/// ```
/// use bibun::{linalg::cov, Variable};
/// let y = cov(Variable::new([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]]), 1);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 2.0, 2.0, 4.0]);
/// ```
#[track_caller]
pub fn cov(x: impl Into<Variable>, correction: usize) -> Variable {
    let _whole = composite("cov");
    in_accumulator(to_differentiable(x.into()), |x| {
        covariances("cov", x, correction)
    })
}

#[track_caller]
fn covariances(function: &'static str, x: Variable, correction: usize) -> Variable {
    let [_, count] = expect_matrices(function, &x);
    let apart = &x - mean(&x, keep_dims(-1));
    matmul(&apart, t(conj(&apart))) / count.saturating_sub(correction) as f64
}

/// Computes the correlation coefficients of variables, which are rows: covariances by the deviations of both.
///
/// Shapes: x `[.., variables, observations]` → `[.., variables, variables]`. Types: floats and complex numbers; integers
/// give f64.
/// Gradient: that of [`cov`] and the quotients, but none of what exceeds -1 and 1 by rounding (of complex numbers, each
/// part). Variables that do not vary
/// give NaN. Source: `numpy.corrcoef`.
///
/// # Panics
/// Panics if x has no two axes.
///
/// ```
/// use bibun::{linalg::corrcoef, Variable};
/// let y = corrcoef(Variable::new([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])).to_vec::<f64>();
/// assert!((y[1] + 1.0).abs() < 1e-15);
/// ```
#[track_caller]
pub fn corrcoef(x: impl Into<Variable>) -> Variable {
    let _whole = composite("corrcoef");
    in_accumulator(to_differentiable(x.into()), |x| {
        let covariance = covariances("corrcoef", x, 0);
        let deviations = sqrt(real(diagonal(&covariance, 0, [-2, -1])));
        let y = covariance / expand_dims(&deviations, -1) / expand_dims(deviations, -2);
        let clipped = |part| clip(part, -1.0, 1.0);
        match y.dtype().is_complex() {
            true => complex(clipped(real(&y)), clipped(imag(y))),
            false => clipped(y),
        }
    })
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::reference::{each, each_complex};
    use crate::conformance::{Draw, Sample};
    use bibun_array::{Array, Complex};

    let range = -1.0..1.0;
    let parts = [range.clone(), range.clone()];
    vec![
        Sample::new(
            "matrix_power",
            |x| vec![matrix_power(&x[0], 5)],
            move |x| {
                each(x, |x| {
                    vec![(1..5).fold(x[0].clone(), |y, _| y.times(&x[0]))]
                })
            },
        )
        .input([2, 3, 3], range.clone()),
        Sample::new(
            "matrix_power",
            |x| vec![matrix_power(&x[0], -2)],
            move |x| {
                each(x, |x| {
                    let y = x[0].inverse();
                    vec![y.times(&y)]
                })
            },
        )
        .input([2, 2], Draw::Regular),
        Sample::new(
            "kron",
            |x| vec![kron(&x[0], &x[1])],
            move |x| {
                each(x, |x| {
                    let (a, b) = (&x[0], &x[1]);
                    vec![Matrix::of(a.m * b.m, a.n * b.n, |i, j| {
                        a.at(i / b.m, j / b.n) * b.at(i % b.m, j % b.n)
                    })]
                })
            },
        )
        .input([2, 2, 2], range.clone())
        .input([1, 3], range.clone()),
        Sample::new(
            "block_diag",
            |x| vec![block_diag([&x[0], &x[1]])],
            move |x| {
                each(x, |x| {
                    let (a, b) = (&x[0], &x[1]);
                    let at = |i: usize, j: usize| match (i < a.m, j < a.n) {
                        (true, true) => a.at(i, j),
                        (false, false) => b.at(i - a.m, j - a.n),
                        _ => 0.0,
                    };
                    vec![Matrix::of(a.m + b.m, a.n + b.n, at)]
                })
            },
        )
        .input([2, 2, 1], range.clone())
        .input([1, 3], range.clone()),
        Sample::new(
            "cross",
            |x| vec![cross(&x[0], &x[1], 0)],
            |x| {
                let (a, b) = (x[0].to_vec::<f64>(), x[1].to_vec::<f64>());
                let at = |i: usize, c: usize| {
                    let (j, k) = ((i + 1) % 3, (i + 2) % 3);
                    a[j * 2 + c] * b[k] - a[k * 2 + c] * b[j]
                };
                vec![Array::from_vec(
                    (0..6).map(|k| at(k / 2, k % 2)).collect(),
                    [3, 2],
                )]
            },
        )
        .input([3, 2], range.clone())
        .input([3, 1], range.clone()),
        Sample::new(
            "multi_dot",
            |x| vec![multi_dot(x)],
            move |x| each(x, |x| vec![x[0].times(&x[1].times(&x[2]))]),
        )
        .input([2, 3], range.clone())
        .input([3, 1], range.clone())
        .input([1, 2], range.clone()),
        Sample::new(
            "vander",
            |x| vec![vander(&x[0], 4, false)],
            |x| {
                let x = x[0].to_vec::<f64>().into_iter();
                let all = x.flat_map(|x| [x * x * x, x * x, x, 1.0]);
                vec![Array::from_vec(all.collect(), [2, 4])]
            },
        )
        .input([2], range.clone()),
        Sample::new(
            "cov",
            |x| vec![cov(&x[0], 1)],
            move |x| each(x, |x| vec![covariance(&x[0], 1.0)]),
        )
        .input([2, 2, 3], range.clone()),
        Sample::new(
            "corrcoef",
            |x| vec![corrcoef(&x[0])],
            move |x| each(x, |x| vec![correlation(&covariance(&x[0], 1.0))]),
        )
        .input([2, 4], range),
        Sample::of_complex(
            "vander",
            &[([2].into(), parts.clone())],
            |x| vec![vander(&x[0], 4, true)],
            |x| {
                let x = x[0].to_vec::<Complex<f64>>().into_iter();
                let all = x.flat_map(|x| [Complex::ONE, x, x * x, x * x * x]);
                vec![Array::from_vec(all.collect(), [2, 4])]
            },
        ),
        Sample::of_complex(
            "cov",
            &[([2, 2, 3].into(), parts.clone())],
            |x| vec![cov(&x[0], 1)],
            |x| each_complex(x, |x| vec![complex_covariance(&x[0], 1.0)]),
        ),
        Sample::of_complex(
            "corrcoef",
            &[([2, 4].into(), parts)],
            |x| vec![corrcoef(&x[0])],
            |x| each_complex(x, |x| vec![correlation(&complex_covariance(&x[0], 1.0))]),
        ),
    ]
}

#[cfg(test)]
fn covariance(x: &Matrix, correction: f64) -> Matrix {
    let mean = |i: usize| (0..x.n).map(|j| x.at(i, j)).sum::<f64>() / x.n as f64;
    let apart = Matrix::of(x.m, x.n, |i, j| x.at(i, j) - mean(i));
    let products = apart.times(&apart.transposed());
    products.map(|x| x / (apart.n as f64 - correction))
}

/// The same of a complex matrix that is given as a real one.
#[cfg(test)]
fn complex_covariance(x: &Matrix, correction: f64) -> Matrix {
    let n = x.n / 2;
    let mean = |i: usize, j: usize| (0..n).map(|k| x.at(i, k + j / n * n)).sum::<f64>() / n as f64;
    let apart = Matrix::of(x.m, x.n, |i, j| x.at(i, j) - mean(i, j));
    let products = apart.times(&apart.transposed());
    products.map(|x| x / (n as f64 - correction))
}

#[cfg(test)]
fn correlation(c: &Matrix) -> Matrix {
    Matrix::of(c.m, c.n, |i, j| {
        c.at(i, j) / (c.at(i, i) * c.at(j, j)).sqrt()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bibun_array::Array;

    #[test]
    fn the_order_of_fewest_multiplications() {
        // The example of the book: ((a (b c)) ((d e) f)).
        let splits = best_splits(&[30, 35, 15, 5, 10, 20, 25]);
        assert_eq!((splits[0][5], splits[0][2], splits[3][5]), (2, 0, 4));
    }

    #[test]
    fn powers_of_integers_and_zero() {
        let a = Variable::constant(Array::from([[1i64, 1], [0, 1]]));
        assert_eq!(matrix_power(&a, 3).to_vec::<i64>(), [1, 3, 0, 1]);
        assert_eq!(matrix_power(&a, 0).to_vec::<i64>(), [1, 0, 0, 1]);
    }
}
