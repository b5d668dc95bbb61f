//! An element by its rank among the others.

use crate::call::composite;
use crate::error::{Error, raise};
use crate::functions::families::method;
use crate::functions::{slice, top_k};
use crate::variable::Variable;
use bibun_array::{Index, ascending, normalize_axis};

/// Returns the `k`-th smallest element along an axis, and its position: the smallest for `k = 1`. NaN counts as
/// larger than all numbers; of equal elements the first comes first.
///
/// Shapes: x any → two results without the axis. Types: all; positions are i64.
/// Gradient: that of the value goes to its position; the positions have none.
///
/// Source: `torch.kthvalue`.
///
/// # Panics
/// Panics if there is no such axis, or `k` is 0 or greater than the number of elements along it.
///
/// ```
/// use bibun::{functions::kthvalue, Variable};
/// let (y, position) = kthvalue(&Variable::new([30.0, 10.0, 20.0]), 2, 0);
/// assert_eq!((y.item::<f64>(), position.item::<i64>()), (20.0, 2));
/// ```
#[track_caller]
pub fn kthvalue(x: impl Into<Variable>, k: usize, axis: isize) -> (Variable, Variable) {
    let function = "kthvalue";
    let _whole = composite(function);
    let x = x.into();
    let axis = normalize_axis(function, axis, x.rank());
    if k == 0 || k > x.shape()[axis] {
        let what = format!(
            "k is {k}, it must be from 1 to the number of elements along axis {axis} of x = {}",
            x.spec()
        );
        raise(Error::argument(function, what));
    }
    let (y, positions) = top_k(x, k, ascending(axis as isize));
    let mut last = vec![Index::ALL; axis];
    last.push(Index::from(-1));
    (slice(y, &last), slice(positions, &last))
}
method!(kthvalue -> (Self, Self), k: usize, axis: isize);

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use crate::functions::over_axes;
    let sample = |k: usize, axis: isize| {
        Sample::new(
            "kthvalue",
            move |x| vec![kthvalue(&x[0], k, axis).0],
            move |x| {
                let own = axis.rem_euclid(2) as usize;
                vec![over_axes(&x[0], &[own], false, |x| {
                    let mut x = x.to_vec();
                    x.sort_by(f64::total_cmp);
                    x[k - 1]
                })]
            },
        )
        .input([3, 4], -2.0..2.0)
    };
    vec![sample(2, 0), sample(4, -1), sample(1, 1)]
}
