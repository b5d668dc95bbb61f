//! The diagonals of matrices, and matrices with a given diagonal.

use bibun_array::{Array, DType, Index, normalize_axis, settle};
use smallvec::SmallVec;

use super::expect_matrix;
use super::index::{device_of, fitting};
use crate::batch::Batched;
use crate::call::composite;
use crate::error::{Error, raise};
use crate::examples::Examples;
use crate::function::{Mismatch, Spec};
use crate::functions::families::{Linear, LinearRule, method};
use crate::functions::{Operand, permute, sum, where_};
use crate::variable::Variable;

/// Returns matrices with x on the diagonal `offset` and zeros elsewhere. Positive offsets are to the
/// upper right of the main diagonal.
///
/// Shapes: x `[.., n]` → `[.., m, m]` with `m = n + |offset|`. Types: all.
/// Gradient: the diagonal of `gy` ([`diagonal`]).
///
/// # Panics
/// Panics if there are no axes.
///
/// ```
/// use bibun::{functions::diag, Variable};
/// assert_eq!(diag(&Variable::new([1.0, 2.0]), 0).to_vec::<f64>(), [1.0, 0.0, 0.0, 2.0]);
/// ```
#[track_caller]
pub fn diag(x: impl Into<Variable>, offset: isize) -> Variable {
    let x = x.into();
    let axis = normalize_axis("diag", -1, x.rank());
    let size = x.shape()[axis].saturating_add(offset.unsigned_abs());
    let matrix = [size, size];
    Linear::of(PutDiagonal { offset, matrix }, x)
}
method!(diag, offset: isize);

/// Returns the diagonal `offset` of two axes, rows and columns, as the last axis. Positive offsets are
/// to the upper right of the main diagonal.
///
/// Shapes: x `[.., n, m]` (for the axes `[-2, -1]`) → `[.., k]`, where k is the length of the diagonal.
/// Types: all. Gradient: `gy` on the diagonal, zero elsewhere.
///
/// # Panics
/// Panics if an axis does not exist or both are the same.
///
/// ```
/// use bibun::{functions::diagonal, Variable};
/// let x = Variable::new([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// assert_eq!(diagonal(&x, 1, [0, 1]).to_vec::<f64>(), [2.0, 6.0]);
/// assert_eq!(diagonal(&x, 1, [1, 0]).to_vec::<f64>(), [4.0]);
/// ```
#[track_caller]
pub fn diagonal(x: impl Into<Variable>, offset: isize, axes: [isize; 2]) -> Variable {
    let _whole = composite("diagonal");
    let x = x.into();
    let order = with_matrices_last("diagonal", x.rank(), axes);
    Linear::of(Diagonal { offset }, permute(x, &order))
}
method!(diagonal, offset: isize, axes: [isize; 2]);

/// Returns x with `value`, broadcast, in the place of the diagonal `offset` of two axes, rows and
/// columns. Positive offsets are to the upper right of the main diagonal.
///
/// Shapes: x `[.., n, m]` (for the axes `[-2, -1]`), value that broadcasts to what [`diagonal`] returns →
/// as x.
/// Types: x all, value of a dtype that becomes that of x. Gradient: `gy` on the diagonal to value,
/// elsewhere to x.
///
/// # Panics
/// Panics where [`diagonal`] does, and if the value does not fit.
///
/// ```
/// use bibun::{functions::diagonal_scatter, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(diagonal_scatter(&x, 0.0, 0, [0, 1]).to_vec::<f64>(), [0.0, 2.0, 3.0, 0.0]);
/// ```
#[track_caller]
pub fn diagonal_scatter(
    x: impl Into<Variable>,
    value: impl Into<Operand>,
    offset: isize,
    axes: [isize; 2],
) -> Variable {
    let _whole = composite("diagonal_scatter");
    let x = x.into();
    let order = with_matrices_last("diagonal_scatter", x.rank(), axes);
    let x = permute(x, &order);
    let shape = x.shape();
    let matrix = [shape[shape.rank() - 2], shape[shape.rank() - 1]];
    let line = Diagonal { offset };
    let line = line.shape(&x.spec()).expect("there are two axes").shape;
    let value = fitting("diagonal_scatter", &x, value.into(), &line);
    let put = |value| Linear::of(PutDiagonal { offset, matrix }, value);
    let ones = Array::ones(line[line.rank() - 1], DType::Bool);
    let _here = device_of(&[&x, &value]).map(settle);
    let y = where_(put(Variable::constant(ones)), put(value), x);
    let mut back: SmallVec<[isize; 4]> = SmallVec::from_elem(0, order.len());
    for (to, &from) in order.iter().enumerate() {
        back[from as usize] = to as isize;
    }
    permute(y, &back)
}
method!(diagonal_scatter, value: impl Into<Operand>, offset: isize, axes: [isize; 2]);

/// Returns the order of axes in which rows and columns are last.
#[track_caller]
fn with_matrices_last(
    function: &'static str,
    rank: usize,
    axes: [isize; 2],
) -> SmallVec<[isize; 4]> {
    let [rows, columns] = axes.map(|axis| normalize_axis(function, axis, rank));
    if rows == columns {
        let what = format!("the axes {axes:?} are the same");
        raise(Error::argument(function, what));
    }
    let others = (0..rank).filter(|&axis| axis != rows && axis != columns);
    others
        .chain([rows, columns])
        .map(|axis| axis as isize)
        .collect()
}

/// Computes the sum of the main diagonal of the last two axes.
///
/// Shapes: x `[.., n, m]` → `[..]`. Types: all; integers and bools are summed as i64.
/// Gradient: `gy` on the diagonal, zero elsewhere.
///
/// # Panics
/// Panics if there are fewer than two axes.
///
/// ```
/// use bibun::{functions::trace, Variable};
/// assert_eq!(trace(&Variable::new([[1.0, 2.0], [3.0, 4.0]])).item::<f64>(), 5.0);
/// ```
#[track_caller]
pub fn trace(x: impl Into<Variable>) -> Variable {
    let _whole = composite("trace");
    sum(diagonal(x, 0, [-2, -1]), -1)
}
method!(trace);

/// Returns the positions of the diagonal `offset` of a matrix among its elements in row-major order.
fn positions(offset: isize, [rows, columns]: [usize; 2]) -> Option<Index> {
    let (down, right) = match offset < 0 {
        true => (offset.unsigned_abs(), 0),
        false => (0, offset.unsigned_abs()),
    };
    let length = rows.saturating_sub(down).min(columns.saturating_sub(right));
    let last = length.checked_sub(1)?;
    let start = down * columns + right;
    let step = columns + 1;
    // The last element of the diagonal ends the range.
    let stop = start + last * step + 1;
    Some(Index::from(start..stop).step_by(step as isize))
}

#[derive(Clone, Debug)]
struct Diagonal {
    offset: isize,
}

impl LinearRule for Diagonal {
    fn name(&self) -> &'static str {
        "diagonal"
    }
    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        expect_matrix(x)?;
        let axis = x.shape.rank() - 2;
        let (rows, columns) = (x.shape[axis] as isize, x.shape[axis + 1] as isize);
        let length = (rows + self.offset.min(0)).min(columns - self.offset.max(0));
        let shape = x.shape.removed(axis).replaced(axis, length.max(0) as usize);
        Ok(Spec::new(shape, x.dtype))
    }
    fn forward(&self, x: Array) -> Array {
        x.diagonal(self.offset)
    }
    fn transpose(&self, x: &Spec, gy: Variable) -> Variable {
        let axis = x.shape.rank() - 2;
        let matrix = [x.shape[axis], x.shape[axis + 1]];
        let offset = self.offset;
        Linear::of(PutDiagonal { offset, matrix }, gy)
    }
    fn batch(&self, x: Variable, axis: usize) -> Batched {
        Linear::in_front(self.clone(), x, axis)
    }

    fn examples(&self, x: &Spec, y: &Examples) -> Option<Examples> {
        (y.axis() + 2 < x.shape.rank()).then(|| y.clone())
    }
}

/// Zeros with x on a diagonal of the last two axes.
#[derive(Clone, Debug)]
struct PutDiagonal {
    offset: isize,
    /// Rows and columns.
    matrix: [usize; 2],
}

impl LinearRule for PutDiagonal {
    fn name(&self) -> &'static str {
        "diag"
    }
    fn shape(&self, x: &Spec) -> Result<Spec, Mismatch> {
        let axis = x.shape.rank() - 1;
        let [rows, columns] = self.matrix;
        let shape = x.shape.replaced(axis, columns).inserted(axis, rows);
        Ok(Spec::new(shape, x.dtype))
    }
    fn forward(&self, x: Array) -> Array {
        let axis = x.rank() - 1;
        let [rows, columns] = self.matrix;
        let flat = x.shape().replaced(axis, rows * columns);
        let mut matrices = Array::zeros(flat, x.dtype());
        if let Some(positions) = positions(self.offset, self.matrix) {
            matrices.assign(&[Index::Ellipsis, positions], &x);
        }
        matrices.reshape(x.shape().replaced(axis, columns).inserted(axis, rows))
    }
    fn transpose(&self, _: &Spec, gy: Variable) -> Variable {
        let offset = self.offset;
        Linear::of(Diagonal { offset }, gy)
    }
    fn batch(&self, x: Variable, axis: usize) -> Batched {
        Linear::in_front(self.clone(), x, axis)
    }

    fn examples(&self, x: &Spec, y: &Examples) -> Option<Examples> {
        (y.axis() + 1 < x.shape.rank()).then(|| y.clone())
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::{at, by_index};
    use crate::conformance::Sample;
    let range = -2.0..2.0;
    vec![
        Sample::new(
            "diagonal_scatter",
            |x| vec![diagonal_scatter(&x[0], &x[1], 1, [2, 0])],
            move |x| {
                vec![by_index([3, 2, 2], |i| match i[0] == i[2] + 1 {
                    true => at(&x[1], &[i[1], i[2]]),
                    false => at(&x[0], i),
                })]
            },
        )
        .input([3, 2, 2], range.clone())
        .input([2, 2], range.clone()),
        Sample::new(
            "diagonal_scatter",
            |x| vec![diagonal_scatter(&x[0], &x[1], -1, [0, 1])],
            move |x| {
                vec![by_index([3, 2], |i| match i[0] == i[1] + 1 {
                    true => at(&x[1], &[]),
                    false => at(&x[0], i),
                })]
            },
        )
        .input([3, 2], range.clone())
        .input((), range.clone()),
        Sample::new(
            "diag",
            |x| vec![diag(&x[0], 1)],
            move |x| {
                vec![by_index([4, 4], |i| match i[1] == i[0] + 1 {
                    true => at(&x[0], &[i[0]]),
                    false => 0.0,
                })]
            },
        )
        .input([3], range.clone()),
        Sample::new(
            "diag",
            |x| vec![diag(&x[0], -2)],
            move |x| {
                vec![by_index([2, 3, 3], |i| match i[1] == i[2] + 2 {
                    true => at(&x[0], &[i[0], i[2]]),
                    false => 0.0,
                })]
            },
        )
        .input([2, 1], range.clone()),
        Sample::new(
            "diagonal",
            |x| vec![diagonal(&x[0], 1, [0, 2])],
            move |x| vec![by_index([2, 2], |i| at(&x[0], &[i[1], i[0], i[1] + 1]))],
        )
        .input([2, 2, 3], range.clone()),
        Sample::new(
            "diagonal",
            |x| vec![diagonal(&x[0], -1, [-2, -1])],
            move |x| vec![by_index([2], |i| at(&x[0], &[i[0] + 1, i[0]]))],
        )
        .input([3, 2], range.clone()),
        Sample::new(
            "diagonal",
            |x| vec![diagonal(&x[0], 5, [0, 1])],
            |_| vec![by_index([0], |_| 0.0)],
        )
        .input([3, 2], range.clone()),
        Sample::new(
            "trace",
            |x| vec![trace(&x[0])],
            move |x| {
                vec![by_index([3], |i| {
                    at(&x[0], &[i[0], 0, 0]) + at(&x[0], &[i[0], 1, 1])
                })]
            },
        )
        .input([3, 2, 2], range),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use bibun_array::DType;

    #[test]
    fn integers_and_bools_have_diagonals() {
        let x = Variable::constant([[1i64, 2], [3, 4]]);
        assert_eq!(x.trace().item::<i64>(), 5);
        let flags = Variable::constant([true, false]);
        let matrix = [true, false, false, false];
        assert_eq!(flags.diag(0).to_vec::<bool>(), matrix);
        assert_eq!(flags.diag(0).trace().item::<i64>(), 1);
    }

    #[test]
    fn nothing_stays_nothing() {
        let x = Variable::new(Array::zeros([2, 0], DType::F64));
        assert_eq!(x.diagonal(0, [0, 1]).shape(), [0]);
        assert_eq!(x.diag(1).shape(), [2, 1, 1]);
    }
}
