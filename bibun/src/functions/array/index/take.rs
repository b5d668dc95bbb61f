//! Slices picked along an axis, and values added to them: [`take`] and its adjoint [`add_at`].

use super::Picking;
use crate::functions::families::method;
use crate::functions::{Operand, to_indices};
use crate::variable::Variable;

/// Picks slices along `axis`: the axes of `indices` replace `axis`. Negative indices count from the end.
/// The rows of an embedding are `take(&table, &words, 0)`.
///
/// Shapes: x `[a.., n, b..]`, indices any `[i..]` → `[a.., i.., b..]`. Types: x all, indices integers.
/// Gradient: `gy`, summed where x was picked ([`add_at`]); indices have none.
///
/// # Panics
/// Panics if `indices` are not integers, an index is out of bounds, or `axis` does not exist.
///
/// ```
/// use bibun::{functions::take, Variable};
/// let x = Variable::new([1.0, 2.0, 3.0]);
/// let y = take(&x, [2i64, 0, -1], 0);
/// assert_eq!(y.to_vec::<f64>(), [3.0, 1.0, 3.0]);
/// y.sum(..).backward();
/// assert_eq!(x.grad().unwrap().to_vec::<f64>(), [1.0, 0.0, 2.0]);
/// ```
#[track_caller]
pub fn take(x: impl Into<Variable>, indices: impl Into<Variable>, axis: isize) -> Variable {
    let x = x.into();
    Picking::slices("take", &x, axis).pick(x, to_indices(indices))
}
method!(take, indices: impl Into<Variable>, axis: isize);

/// Returns x with `value`, broadcast, added to the slices that [`take`] picks. The values of equal indices
/// are summed.
///
/// Shapes: x `[a.., n, b..]`, indices any `[i..]`, value that broadcasts to `[a.., i.., b..]` →
/// `[a.., n, b..]`. Types: x all, indices integers, value as x (integers wrap around, bools combine by
/// "or"). Gradient: `gy` to x, what [`take`] picks from `gy` to value; indices have none.
///
/// # Panics
/// Panics where [`take`] does, and if `value` does not broadcast.
///
/// ```
/// use bibun::{functions::add_at, Variable};
/// let x = Variable::new([1.0, 2.0, 3.0]);
/// let y = add_at(&x, [2i64, 0, 2], 0, 10.0);
/// assert_eq!(y.to_vec::<f64>(), [11.0, 2.0, 23.0]);
/// ```
#[track_caller]
pub fn add_at(
    x: impl Into<Variable>,
    indices: impl Into<Variable>,
    axis: isize,
    value: impl Into<Operand>,
) -> Variable {
    let x = x.into();
    Picking::slices("add_at", &x, axis).add_operand(x, to_indices(indices), value.into())
}
method!(add_at, indices: impl Into<Variable>, axis: isize, value: impl Into<Operand>);

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::super::{at, by_index};
    use crate::conformance::{Sample, beside};
    let range = -2.0..2.0;
    vec![
        Sample::new(
            "take",
            |x| vec![take(&x[0], beside(x, [2i64, 0, -1, 2]), 0)],
            move |x| vec![by_index([4, 2], |i| at(&x[0], &[[2, 0, 2, 2][i[0]], i[1]]))],
        )
        .input([3, 2], range.clone()),
        Sample::new(
            "take",
            |x| vec![take(&x[0], beside(x, [[1i64, 0], [-1, 1], [0, 0]]), 1)],
            move |x| {
                let indices = [[1, 0], [1, 1], [0, 0]];
                vec![by_index([3, 3, 2, 1], |i| {
                    at(&x[0], &[i[0], indices[i[1]][i[2]], i[3]])
                })]
            },
        )
        .input([3, 2, 1], range.clone()),
        Sample::new(
            "take",
            |x| vec![take(&x[0], 1i64, -1)],
            move |x| vec![by_index([2], |i| at(&x[0], &[i[0], 1]))],
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "add_at",
            |x| vec![add_at(&x[0], beside(x, [[2i64, 0], [-1, 2]]), 1, &x[1])],
            move |x| {
                let indices = [[2, 0], [2, 2]];
                vec![by_index([2, 3], |i| {
                    let mut sum = at(&x[0], i);
                    for (j, row) in indices.iter().enumerate() {
                        for (k, &index) in row.iter().enumerate() {
                            if index == i[1] {
                                sum += at(&x[1], &[i[0], j, k]);
                            }
                        }
                    }
                    sum
                })]
            },
        )
        .input([2, 3], range.clone())
        .input([2, 2, 2], range.clone()),
        Sample::new(
            "add_at",
            |x| vec![add_at(&x[0], beside(x, [1i64, 1]), 0, &x[1])],
            move |x| {
                vec![by_index([2, 3], |i| {
                    at(&x[0], i) + (2 * i[0]) as f64 * at(&x[1], &[i[1]])
                })]
            },
        )
        .input([2, 3], range.clone())
        .input([3], range),
    ]
}
