//! Borders that continue an array: [`reflection_pad`], [`replication_pad`] and [`circular_pad`].

use bibun_array::Array;

use crate::call::composite;
use crate::error::mismatch;
use crate::functions::families::method;
use crate::functions::{constant_beside, take};
use crate::variable::Variable;

/// Pads x with its reflection at the first and last elements, which are not repeated: `widths[i]` is the
/// number of elements before and after axis `i`. Borders wider than the axis are reflected again and
/// again.
///
/// Shapes: x `[n, ..]` → `[before + n + after, ..]`. Types: all. Gradient: `gy`, summed where x is
/// repeated.
///
/// Source: `numpy.pad(mode="reflect")`; PyTorch's `mode="reflect"` is for widths below the size.
///
/// # Panics
/// Panics if the number of pairs in `widths` is not the number of axes, or an axis with a border is
/// empty.
///
/// ```
/// use bibun::{functions::reflection_pad, Variable};
/// let y = reflection_pad(&Variable::new([1.0, 2.0, 3.0]), &[(2, 1)]);
/// assert_eq!(y.to_vec::<f64>(), [3.0, 2.0, 1.0, 2.0, 3.0, 2.0]);
/// ```
#[track_caller]
pub fn reflection_pad(x: impl Into<Variable>, widths: &[(usize, usize)]) -> Variable {
    let _whole = composite("reflection_pad");
    continued("reflection_pad", x.into(), widths, |at, size| {
        let at = at.rem_euclid((2 * size - 2).max(1));
        at.min(2 * size - 2 - at)
    })
}
method!(reflection_pad, widths: &[(usize, usize)]);

/// Pads x with its first and last elements: `widths[i]` is the number of elements before and after axis
/// `i`.
///
/// Shapes: x `[n, ..]` → `[before + n + after, ..]`. Types: all. Gradient: `gy`, summed where x is
/// repeated.
///
/// Source: `numpy.pad(mode="edge")`, PyTorch's `mode="replicate"`.
///
/// # Panics
/// Panics if the number of pairs in `widths` is not the number of axes, or an axis with a border is
/// empty.
///
/// ```
/// use bibun::{functions::replication_pad, Variable};
/// let y = replication_pad(&Variable::new([1.0, 2.0]), &[(2, 1)]);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 1.0, 1.0, 2.0, 2.0]);
/// ```
#[track_caller]
pub fn replication_pad(x: impl Into<Variable>, widths: &[(usize, usize)]) -> Variable {
    let _whole = composite("replication_pad");
    continued("replication_pad", x.into(), widths, |at, size| {
        at.clamp(0, size - 1)
    })
}
method!(replication_pad, widths: &[(usize, usize)]);

/// Pads x with its elements from the other end, as if it went round: `widths[i]` is the number of
/// elements before and after axis `i`.
///
/// Shapes: x `[n, ..]` → `[before + n + after, ..]`. Types: all. Gradient: `gy`, summed where x is
/// repeated.
///
/// Source: `numpy.pad(mode="wrap")`; PyTorch's `mode="circular"` is for widths up to the size.
///
/// # Panics
/// Panics if the number of pairs in `widths` is not the number of axes, or an axis with a border is
/// empty.
///
/// ```
/// use bibun::{functions::circular_pad, Variable};
/// let y = circular_pad(&Variable::new([1.0, 2.0, 3.0]), &[(1, 2)]);
/// assert_eq!(y.to_vec::<f64>(), [3.0, 1.0, 2.0, 3.0, 1.0, 2.0]);
/// ```
#[track_caller]
pub fn circular_pad(x: impl Into<Variable>, widths: &[(usize, usize)]) -> Variable {
    let _whole = composite("circular_pad");
    continued("circular_pad", x.into(), widths, i64::rem_euclid)
}
method!(circular_pad, widths: &[(usize, usize)]);

/// Continues x beyond its ends by the elements at other positions: `source(position, size)`.
#[track_caller]
fn continued(
    function: &'static str,
    x: Variable,
    widths: &[(usize, usize)],
    source: impl Fn(i64, i64) -> i64,
) -> Variable {
    let shape = x.shape();
    let is_wide = |&(before, after): &(usize, usize)| before + after > 0;
    let fits = widths.len() == shape.rank()
        && shape
            .iter()
            .zip(widths)
            .all(|(&size, width)| size > 0 || !is_wide(width));
    if !fits {
        let must_hold =
            format!("each axis needs a pair of widths of {widths:?}, and elements for its border");
        mismatch(function, &[("x", &x.spec())], must_hold)
    }
    let borders = widths
        .iter()
        .enumerate()
        .filter(|(_, width)| is_wide(width));
    borders.fold(x, |x, (axis, &(before, after))| {
        let size = shape[axis] as i64;
        let positions = -(before as i64)..size + after as i64;
        let positions: Vec<i64> = positions.map(|at| source(at, size)).collect();
        take(
            &x,
            constant_beside(&[&x], Array::from(positions)),
            axis as isize,
        )
    })
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::{at, by_index};
    use crate::conformance::Sample;
    let range = -2.0..2.0;
    let picked = |x: &[Array], rows: &[usize], columns: &[usize]| {
        let shape = [rows.len(), columns.len()];
        vec![by_index(shape, |i| at(&x[0], &[rows[i[0]], columns[i[1]]]))]
    };
    vec![
        Sample::new(
            "reflection_pad",
            |x| vec![reflection_pad(&x[0], &[(0, 1), (2, 3)])],
            move |x| picked(x, &[0, 1, 0], &[2, 1, 0, 1, 2, 1, 0, 1]),
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "replication_pad",
            |x| vec![replication_pad(&x[0], &[(1, 0), (2, 1)])],
            move |x| picked(x, &[0, 0, 1], &[0, 0, 0, 1, 2, 2]),
        )
        .input([2, 3], range.clone()),
        Sample::new(
            "circular_pad",
            |x| vec![circular_pad(&x[0], &[(3, 0), (1, 4)])],
            move |x| picked(x, &[1, 0, 1, 0, 1], &[2, 0, 1, 2, 0, 1, 2, 0]),
        )
        .input([2, 3], range),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;
    use bibun_array::DType;

    #[test]
    fn axes_of_one_element_and_none() {
        let one = Variable::constant([5i64]);
        assert_eq!(reflection_pad(&one, &[(2, 1)]).to_vec::<i64>(), [5; 4]);
        assert_eq!(circular_pad(&one, &[(2, 1)]).to_vec::<i64>(), [5; 4]);
        let none = Variable::new(Array::zeros([0, 2], DType::F64));
        assert_eq!(reflection_pad(&none, &[(0, 0), (1, 0)]).shape(), [0, 3]);
        assert!(attempt(|| replication_pad(&none, &[(1, 0), (0, 0)])).is_err());
        assert!(attempt(|| circular_pad(&one, &[])).is_err());
        assert_eq!(replication_pad(7.0, &[]).item::<f64>(), 7.0);
    }
}
