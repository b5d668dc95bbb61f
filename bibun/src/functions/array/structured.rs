//! Matrices made of the elements of vectors.

use crate::call::composite;
use crate::error::mismatch;
use crate::function::Spec;
use crate::functions::families::method;
use crate::functions::{
    abs, broadcast_to, concat, constant_beside, flip, pad, reshape, slice, to_float,
};
use crate::s;
use crate::variable::Variable;
use bibun_array::Array;

/// Returns the matrix that is constant along its diagonals, with this first column and first row, whose first
/// element is not read.
///
/// Shapes: column `[n]`, row `[m]` → `[n, m]`. Types: all, promoted.
/// Gradient: to each element the sum of those along its diagonal.
///
/// Source: `scipy.linalg.toeplitz`.
///
/// # Panics
/// Panics if column or row are not vectors of one element or more.
///
/// ```
/// use bibun::{functions::toeplitz, Variable};
/// let y = toeplitz(&Variable::new([1.0, 2.0]), [9.0, 3.0, 4.0]);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 3.0, 4.0, 2.0, 1.0, 3.0]);
/// ```
#[track_caller]
pub fn toeplitz(column: impl Into<Variable>, row: impl Into<Variable>) -> Variable {
    let function = "toeplitz";
    let _whole = composite(function);
    let (column, row) = (column.into(), row.into());
    expect_vectors(function, &[("column [n]", &column), ("row [m]", &row)]);
    let (n, m) = (column.size(), row.size());
    falling(concat([flip(slice(row, s![1..]), 0), column], 0), n, m)
}
method!(toeplitz, row: impl Into<Self>);

/// Returns the matrix that is constant along the diagonals that rise, with this first column and last row,
/// whose first element is not read.
///
/// Shapes: column `[n]`, row `[m]` → `[n, m]`. Types: all, promoted.
/// Gradient: to each element the sum of those along its diagonal.
///
/// Source: `scipy.linalg.hankel`.
///
/// # Panics
/// Panics if column or row are not vectors of one element or more.
///
/// ```
/// use bibun::{functions::hankel, Variable};
/// let y = hankel(&Variable::new([1.0, 2.0]), [9.0, 3.0, 4.0]);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 2.0, 3.0, 2.0, 3.0, 4.0]);
/// ```
#[track_caller]
pub fn hankel(column: impl Into<Variable>, row: impl Into<Variable>) -> Variable {
    let function = "hankel";
    let _whole = composite(function);
    let (column, row) = (column.into(), row.into());
    expect_vectors(function, &[("column [n]", &column), ("row [m]", &row)]);
    let (n, m) = (column.size(), row.size());
    rising(concat([column, slice(row, s![1..])], 0), n, m)
}
method!(hankel, row: impl Into<Self>);

/// Returns the matrix whose columns are a vector, each moved on by one place more, round the end.
///
/// Shapes: x `[n]` → `[n, n]`. Types: all.
/// Gradient: to each element the sum of those along its diagonals.
///
/// Source: `scipy.linalg.circulant`.
///
/// # Panics
/// Panics if x is not a vector of one element or more.
///
/// ```
/// use bibun::{functions::circulant, Variable};
/// assert_eq!(circulant(&Variable::new([1.0, 2.0])).to_vec::<f64>(), [1.0, 2.0, 2.0, 1.0]);
/// ```
#[track_caller]
pub fn circulant(x: impl Into<Variable>) -> Variable {
    let function = "circulant";
    let _whole = composite(function);
    let x = x.into();
    expect_vectors(function, &[("x [n]", &x)]);
    let n = x.size();
    falling(concat([slice(&x, s![1..]), x], 0), n, n)
}
method!(circulant);

/// Returns the companion matrix of a polynomial, that of the highest power first: its eigenvalues are the roots.
///
/// Shapes: p `[n]` → `[n - 1, n - 1]`. Types: floats; integers give f64.
/// Gradient: that of the quotients `-pᵢ / p₀` of the first row.
///
/// Source: `scipy.linalg.companion`.
///
/// # Panics
/// Panics if p is not a vector of two elements or more.
///
/// ```
/// use bibun::{functions::companion, Variable};
/// let y = companion(&Variable::new([2.0, -6.0, 4.0]));
/// assert_eq!(y.to_vec::<f64>(), [3.0, -2.0, 1.0, 0.0]);
/// ```
#[track_caller]
pub fn companion(p: impl Into<Variable>) -> Variable {
    let function = "companion";
    let _whole = composite(function);
    let p = to_float(p.into());
    if p.rank() != 1 || p.size() < 2 {
        mismatch(
            function,
            &[("p [n]", &p.spec())],
            "there must be an axis, with two elements or more",
        )
    }
    let n = p.size() - 1;
    let row = reshape(-slice(&p, s![1..]) / slice(&p, s![..1]), [1, n]);
    let below = Array::eye(n, p.dtype())
        .slice(s![..n - 1])
        .pad(&[(1, 0), (0, 0)], 0.0);
    pad(row, &[(0, n - 1), (0, 0)], 0.0) + constant_beside(&[&p], below)
}
method!(companion);

/// Returns the matrix of Leslie of a population: its first row is what each age brings forth, and below the
/// diagonal are the shares that live on to the next age.
///
/// Shapes: births `[n]`, shares `[n - 1]` → `[n, n]`. Types: all, promoted.
/// Gradient: that of the elements.
///
/// Source: `scipy.linalg.leslie`.
///
/// # Panics
/// Panics if births and shares are not vectors, or the sizes do not fit.
///
/// ```
/// use bibun::{functions::leslie, Variable};
/// let y = leslie(&Variable::new([0.1, 2.0]), [0.5]);
/// assert_eq!(y.to_vec::<f64>(), [0.1, 2.0, 0.5, 0.0]);
/// ```
#[track_caller]
pub fn leslie(births: impl Into<Variable>, shares: impl Into<Variable>) -> Variable {
    let function = "leslie";
    let _whole = composite(function);
    let (births, shares) = (births.into(), shares.into());
    if births.rank() != 1 || shares.rank() != 1 || births.size() != shares.size() + 1 {
        mismatch(
            function,
            &[
                ("births [n]", &births.spec()),
                ("shares [n - 1]", &shares.spec()),
            ],
            "both must be vectors, the second one shorter by one",
        )
    }
    let n = births.size();
    let lines = constant_beside(&[&shares, &births], Array::eye(n, shares.dtype()));
    let below = slice(lines, s![..n - 1]) * reshape(shares, [n - 1, 1]);
    concat([&reshape(births, [1, n]), &below], 0)
}
method!(leslie, shares: impl Into<Self>);

/// Returns Fiedler's matrix of the distances `|aᵢ - aⱼ|`.
///
/// Shapes: a `[n]` → `[n, n]`. Types: numbers.
/// Gradient: that of [`abs`].
///
/// Source: `scipy.linalg.fiedler`.
///
/// # Panics
/// Panics if a is not a vector.
///
/// ```
/// use bibun::{functions::fiedler, Variable};
/// assert_eq!(fiedler(&Variable::new([1.0, 4.0])).to_vec::<f64>(), [0.0, 3.0, 3.0, 0.0]);
/// ```
#[track_caller]
pub fn fiedler(a: impl Into<Variable>) -> Variable {
    let function = "fiedler";
    let _whole = composite(function);
    let a = a.into();
    if a.rank() != 1 {
        mismatch(function, &[("a [n]", &a.spec())], "it must be a vector")
    }
    let n = a.size();
    abs(reshape(&a, [n, 1]) - a)
}
method!(fiedler);

#[track_caller]
fn expect_vectors(function: &'static str, xs: &[(&str, &Variable)]) {
    if xs.iter().any(|(_, x)| x.rank() != 1 || x.size() == 0) {
        let specs: Vec<Spec> = xs.iter().map(|(_, x)| x.spec()).collect();
        let inputs: Vec<(&str, &Spec)> = xs.iter().map(|(name, _)| *name).zip(&specs).collect();
        mismatch(
            function,
            &inputs,
            "there must be an axis, with one element or more",
        )
    }
}

/// Returns `y[i, j] = x[i + j]`: of rows that repeat x, each read from one place further on.
fn rising(x: Variable, n: usize, m: usize) -> Variable {
    let size = x.size();
    let repeated = reshape(broadcast_to(x, [n + 1, size]), [(n + 1) * size]);
    let read = slice(repeated, s![..n * (size + 1)]);
    slice(reshape(read, [n, size + 1]), s![.., ..m])
}

/// Returns `y[i, j] = x[m - 1 + i - j]`.
fn falling(x: Variable, n: usize, m: usize) -> Variable {
    flip(rising(flip(x, 0), n, m), 0)
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::{at, by_index};
    use crate::conformance::Sample;
    vec![
        Sample::new(
            "toeplitz",
            |x| vec![toeplitz(&x[0], &x[1])],
            |x| {
                vec![by_index([3, 2], |i| match i[0] >= i[1] {
                    true => at(&x[0], &[i[0] - i[1]]),
                    false => at(&x[1], &[i[1] - i[0]]),
                })]
            },
        )
        .input([3], -1.0..1.0)
        .input([2], -1.0..1.0),
        Sample::new(
            "hankel",
            |x| vec![hankel(&x[0], &x[1])],
            |x| {
                vec![by_index([2, 3], |i| match i[0] + i[1] {
                    k @ 0..2 => at(&x[0], &[k]),
                    k => at(&x[1], &[k - 1]),
                })]
            },
        )
        .input([2], -1.0..1.0)
        .input([3], -1.0..1.0),
        Sample::new(
            "circulant",
            |x| vec![circulant(&x[0])],
            |x| vec![by_index([3, 3], |i| at(&x[0], &[(3 + i[0] - i[1]) % 3]))],
        )
        .input([3], -1.0..1.0),
        Sample::new(
            "companion",
            |x| vec![companion(&x[0])],
            |x| {
                let n = x[0].size() - 1;
                vec![by_index([n, n], |i| match i[0] {
                    0 => -at(&x[0], &[i[1] + 1]) / at(&x[0], &[0]),
                    row => f64::from(u8::from(row == i[1] + 1)),
                })]
            },
        )
        .input([2], 0.5..1.5),
        Sample::new(
            "leslie",
            |x| vec![leslie(&x[0], &x[1])],
            |x| {
                vec![by_index([3, 3], |i| match i[0] {
                    0 => at(&x[0], &[i[1]]),
                    row if row == i[1] + 1 => at(&x[1], &[i[1]]),
                    _ => 0.0,
                })]
            },
        )
        .input([3], -1.0..1.0)
        .input([2], -1.0..1.0),
        Sample::new(
            "fiedler",
            |x| vec![fiedler(&x[0])],
            |x| {
                vec![by_index([3, 3], |i| {
                    (at(&x[0], &[i[0]]) - at(&x[0], &[i[1]])).abs()
                })]
            },
        )
        .input([3], -1.0..1.0),
    ]
}
