//! Matrices made of the elements of vectors.

use crate::call::composite;
use crate::error::mismatch;
use crate::function::Spec;
use crate::functions::families::method;
use crate::functions::{broadcast_to, concat, flip, reshape, slice};
use crate::s;
use crate::variable::Variable;

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
    ]
}
