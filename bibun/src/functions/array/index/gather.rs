//! Elements picked along an axis, and values added to them: [`gather`] and its adjoint [`scatter_add`].

use bibun_array::Index;
use smallvec::SmallVec;

use super::scatter::Writing;
use super::{Combine, Picking};
use crate::call::{composite, composite_if};
use crate::functions::families::method;
use crate::functions::{Operand, expand_dims, reshape, slice, to_indices};
use crate::variable::Variable;

/// Picks along `axis` with one index for each element of the result (NumPy's `take_along_axis`):
/// `y[i, j] = x[indices[i, j], j]` for `axis` 0 of a matrix. Negative indices count from the end.
///
/// Shapes: x `[a.., n, b..]`, indices `[a'.., m, b'..]` with no size above that of x but m → as indices.
/// Types: x all, indices integers. Gradient: `gy`, summed where x was picked ([`scatter_add`]); indices
/// have none.
///
/// # Panics
/// Panics if `indices` are not integers, an index is out of bounds, the shapes do not fit, or `axis` does
/// not exist.
///
/// ```
/// use bibun::{functions::gather, Variable};
/// let x = Variable::new([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// assert_eq!(gather(&x, [[2i64], [0]], 1).to_vec::<f64>(), [3.0, 4.0]);
/// ```
#[track_caller]
pub fn gather(x: impl Into<Variable>, indices: impl Into<Variable>, axis: isize) -> Variable {
    let (mut x, indices) = (x.into(), to_indices(indices));
    let (picking, sizes) = (Picking::elements("gather", &x, axis), indices.shape());
    let narrow = narrow(&x.shape(), &sizes, picking.axis());
    let _whole = composite_if(narrow, "gather");
    if narrow {
        let range = |axis: usize| match axis == picking.axis() {
            true => Index::ALL,
            false => Index::from(..sizes[axis]),
        };
        let ranges: SmallVec<[Index; 4]> = (0..x.rank()).map(range).collect();
        x = slice(x, &ranges);
    }
    picking.pick(x, indices)
}
method!(gather, indices: impl Into<Variable>, axis: isize);

/// Returns x with `value`, broadcast, added to the elements that [`gather`] picks. The values of equal
/// indices are summed.
///
/// Shapes: x `[a.., n, b..]`, indices `[a'.., m, b'..]` with no size above that of x but m, value that
/// broadcasts to that → as x. Types: x all, indices integers, value as x (integers wrap around, bools
/// combine by "or"). Gradient: `gy` to x, what [`gather`] picks from `gy` to value; indices have none.
///
/// # Panics
/// Panics where [`gather`] does, and if `value` does not broadcast.
///
/// ```
/// use bibun::{functions::scatter_add, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// let y = scatter_add(&x, [[1i64], [0]], 1, 10.0);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 12.0, 13.0, 4.0]);
/// ```
#[track_caller]
pub fn scatter_add(
    x: impl Into<Variable>,
    indices: impl Into<Variable>,
    axis: isize,
    value: impl Into<Operand>,
) -> Variable {
    let (x, indices) = (x.into(), to_indices(indices));
    let picking = Picking::elements("scatter_add", &x, axis);
    if narrow(&x.shape(), &indices.shape(), picking.axis()) {
        let _whole = composite("scatter_add");
        let writing = Writing::new("scatter_add", Combine::Sum);
        return writing.to_elements(x, indices, axis, value.into());
    }
    picking.add_operand(x, indices, value.into())
}
method!(scatter_add, indices: impl Into<Variable>, axis: isize, value: impl Into<Operand>);

/// Returns whether indices for `gather` have the axes of x, with fewer positions along others than
/// `axis`.
pub(super) fn narrow(x: &[usize], indices: &[usize], axis: usize) -> bool {
    let others = || {
        let pairs = x.iter().zip(indices).enumerate();
        pairs
            .filter(move |(of, _)| *of != axis)
            .map(|(_, pair)| pair)
    };
    x.len() == indices.len()
        && others().all(|(x, own)| own <= x)
        && others().any(|(x, own)| own < x)
}

/// Picks one element of each row: `y[i] = x[i, t[i]]`. Negative indices count from the end.
///
/// Shapes: x `[n, c]`, t `[n]` → `[n]`. Types: x all, t integers.
/// Gradient: `gy` at the picked elements, zero elsewhere; t has none.
///
/// # Panics
/// Panics if t is not integers, an index is out of bounds, or the shapes do not fit.
///
/// ```
/// use bibun::{functions::select_item, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(select_item(&x, [1i64, 0]).to_vec::<f64>(), [2.0, 3.0]);
/// ```
#[track_caller]
pub fn select_item(x: impl Into<Variable>, t: impl Into<Variable>) -> Variable {
    let _whole = composite("select_item");
    let (x, t) = (x.into(), to_indices(t));
    let shape = t.shape();
    let t = expand_dims(t, -1);
    // Each row has its index.
    let picking = Picking::elements("select_item", &x, 1);
    picking.expect("select_item", &x, &t);
    reshape(picking.pick(x, t), shape)
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::super::{at, by_index};
    use crate::conformance::{Sample, beside};
    let range = -2.0..2.0;
    vec![
        Sample::new(
            "gather",
            |x| vec![gather(&x[0], beside(x, [[2i64, 0], [-1, 1]]), 1)],
            move |x| {
                let indices = [[2, 0], [2, 1]];
                vec![by_index([2, 2], |i| {
                    at(&x[0], &[i[0], indices[i[0]][i[1]]])
                })]
            },
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "gather",
            |x| vec![gather(&x[0], beside(x, [[0i64, 1, -2]]), -2)],
            move |x| vec![by_index([1, 3], |i| at(&x[0], &[[0, 1, 0][i[1]], i[1]]))],
        )
        .input([2, 3], range.clone()),
        // Fewer rows.
        Sample::new(
            "gather",
            |x| vec![gather(&x[0], beside(x, [[2i64, 0, -1, 1]]), 1)],
            move |x| vec![by_index([1, 4], |i| at(&x[0], &[0, [2, 0, 2, 1][i[1]]]))],
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "scatter_add",
            |x| {
                vec![scatter_add(
                    &x[0],
                    beside(x, [[2i64, 0], [-1, 2]]),
                    0,
                    &x[1],
                )]
            },
            move |x| {
                let indices = [[2, 0], [2, 2]];
                vec![by_index([3, 3], |i| {
                    let own = (0..2).filter(|&j| i[1] < 2 && indices[j][i[1]] == i[0]);
                    own.fold(at(&x[0], i), |sum, j| sum + at(&x[1], &[j, i[1]]))
                })]
            },
        )
        .input([3, 3], range.clone())
        .input([2, 2], range.clone()),
        Sample::new(
            "scatter_add",
            |x| {
                vec![scatter_add(
                    &x[0],
                    beside(x, [[1i64, 1, 0], [1, 0, -1]]),
                    0,
                    &x[1],
                )]
            },
            move |x| {
                let indices = [[1, 1, 0], [1, 0, 1]];
                vec![by_index([2, 3], |i| {
                    let mut sum = at(&x[0], i);
                    for (j, row) in indices.iter().enumerate() {
                        if row[i[1]] == i[0] {
                            sum += at(&x[1], &[j, i[1]]);
                        }
                    }
                    sum
                })]
            },
        )
        .input([2, 3], range.clone())
        .input([2, 3], range.clone()),
        Sample::new(
            "scatter_add",
            |x| vec![scatter_add(&x[0], beside(x, [[1i64, 0, -1]]), 1, &x[1])],
            move |x| {
                vec![by_index([1, 2], |i| {
                    at(&x[0], i) + [1.0, 2.0][i[1]] * at(&x[1], &[])
                })]
            },
        )
        .input([1, 2], range.clone())
        .input((), range.clone()),
        Sample::new(
            "select_item",
            |x| vec![select_item(&x[0], beside(x, [1i64, 2, -3]))],
            move |x| vec![by_index([3], |i| at(&x[0], &[i[0], [1, 2, 0][i[0]]]))],
        )
        .input([3, 3], range),
    ]
}
