//! Copies of an array in which a mask or a slice is replaced.

use bibun_array::{Array, DType, Shape, normalize_axis};

use super::index::{fitting, one_element, places};
use crate::call::composite;
use crate::error::{Error, mismatch, raise};
use crate::functions::families::method;
use crate::functions::{
    Operand, broadcast_to, cast, concat, cumsum, equal, expand_dims, reshape, take, where_,
};
use crate::variable::Variable;

/// Returns x with `value` where the mask, broadcast, holds.
///
/// Shapes: x any, mask that broadcasts to x, value a number or of shape `[]` → as x. Types: x all, mask
/// any, zero is false, value of a dtype that becomes that of x. Gradient: `gy` to x where the mask does
/// not hold, its sum where it does to value; the mask has none.
///
/// # Panics
/// Panics if the mask does not broadcast, or the value does not fit.
///
/// ```
/// use bibun::{functions::masked_fill, Variable};
/// let x = Variable::new([1.0, 2.0, 3.0]);
/// assert_eq!(masked_fill(&x, x.greater(1), 0.0).to_vec::<f64>(), [1.0, 0.0, 0.0]);
/// ```
#[track_caller]
pub fn masked_fill(
    x: impl Into<Variable>,
    mask: impl Into<Variable>,
    value: impl Into<Operand>,
) -> Variable {
    let _whole = composite("masked_fill");
    let x = x.into();
    let mask = mask_of("masked_fill", &x, mask.into());
    let value = one_element("masked_fill", &x, value.into());
    let value = fitting("masked_fill", &x, value, &Shape::from(()));
    where_(mask, value, x)
}
method!(masked_fill, mask: impl Into<Variable>, value: impl Into<Operand>);

/// Returns x with the elements of `value`, in row-major order, where the mask, broadcast, holds: the
/// first element where it holds first, and so on. Elements that are left over are not used.
///
/// Shapes: x any, mask that broadcasts to x, value any → as x. Types: x all, mask any, zero is false,
/// value of a dtype that becomes that of x. Gradient: `gy` to x where the mask does not hold, and where
/// it does to the elements of value that are used; the mask has none.
///
/// # Panics
/// Panics if the mask does not broadcast, there are too few values, or their dtype does not fit.
///
/// ```
/// use bibun::{functions::masked_scatter, Variable};
/// let x = Variable::new([1.0, 2.0, 3.0]);
/// let y = masked_scatter(&x, [true, false, true], Variable::new([7.0, 8.0, 9.0]));
/// assert_eq!(y.to_vec::<f64>(), [7.0, 2.0, 8.0]);
/// ```
#[track_caller]
pub fn masked_scatter(
    x: impl Into<Variable>,
    mask: impl Into<Variable>,
    value: impl Into<Variable>,
) -> Variable {
    let _whole = composite("masked_scatter");
    let (x, value) = (x.into(), value.into());
    let mask = mask_of("masked_scatter", &x, mask.into());
    let part = value.shape();
    let value = fitting("masked_scatter", &x, value.into(), &part);
    let (shape, size) = (x.shape(), x.size());
    let mask = reshape(broadcast_to(mask, &shape), size);
    // Elements that are not replaced take a zero in front of the values.
    let zero = Variable::constant(Array::zeros(1, x.dtype()));
    let values = concat([&zero, &reshape(value, part.size())], 0);
    let places = where_(&mask, cumsum(&mask, 0), 0);
    let y = where_(mask, take(values, places, 0), reshape(x, size));
    reshape(y, shape)
}
method!(masked_scatter, mask: impl Into<Variable>, value: impl Into<Variable>);

/// Returns x with `value`, broadcast, in the place of the slice at `position` of an axis. Negative
/// positions count from the end.
///
/// Shapes: x `[a.., n, b..]`, value that broadcasts to `[a.., b..]` → as x. Types: x all, value of a
/// dtype that becomes that of x. Gradient: `gy` at the slice to value, elsewhere to x.
///
/// # Panics
/// Panics if there is no such axis or position, or the value does not fit.
///
/// ```
/// use bibun::{functions::select_scatter, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(select_scatter(&x, [7.0, 8.0], 1, 0).to_vec::<f64>(), [7.0, 2.0, 8.0, 4.0]);
/// ```
#[track_caller]
pub fn select_scatter(
    x: impl Into<Variable>,
    value: impl Into<Operand>,
    axis: isize,
    position: isize,
) -> Variable {
    let _whole = composite("select_scatter");
    let (x, value) = (x.into(), value.into());
    let axis = normalize_axis("select_scatter", axis, x.rank());
    let size = x.shape()[axis];
    let own = if position < 0 {
        position + size as isize
    } else {
        position
    };
    if !(0..size as isize).contains(&own) {
        let what = format!(
            "position {position} is outside of axis {axis} of x = {}",
            x.spec()
        );
        raise(Error::argument("select_scatter", what));
    }
    let value = fitting("select_scatter", &x, value, &x.shape().removed(axis));
    let is_own = equal(places(&[&x, &value], size, x.rank(), axis), own as i64);
    where_(is_own, expand_dims(value, axis as isize), x)
}
method!(select_scatter, value: impl Into<Operand>, axis: isize, position: isize);

/// Returns a mask after a check that it broadcasts to x.
#[track_caller]
fn mask_of(function: &'static str, x: &Variable, mask: Variable) -> Variable {
    let (x, spec) = (x.spec(), mask.spec());
    if !spec.shape.broadcasts_to(&x.shape) {
        mismatch(
            function,
            &[("x", &x), ("mask", &spec)],
            "the mask must broadcast to x",
        )
    }
    cast(mask, DType::Bool)
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::{at, by_index};
    use crate::conformance::{Sample, beside};
    let range = -2.0..2.0;
    vec![
        Sample::new(
            "masked_fill",
            |x| vec![masked_fill(&x[0], beside(x, [true, false, true]), &x[1])],
            move |x| {
                vec![by_index([2, 3], |i| match i[1] {
                    1 => at(&x[0], i),
                    _ => at(&x[1], &[]),
                })]
            },
        )
        .input([2, 3], range.clone())
        .input((), range.clone()),
        Sample::new(
            "masked_scatter",
            |x| {
                let mask = beside(x, [[true, false, true], [false, true, false]]);
                vec![masked_scatter(&x[0], mask, &x[1])]
            },
            move |x| {
                vec![by_index([2, 3], |i| match i {
                    [0, 0] => at(&x[1], &[0, 0]),
                    [0, 2] => at(&x[1], &[0, 1]),
                    [1, 1] => at(&x[1], &[1, 0]),
                    _ => at(&x[0], i),
                })]
            },
        )
        .input([2, 3], range.clone())
        .input([2, 2], range.clone()),
        Sample::new(
            "select_scatter",
            |x| vec![select_scatter(&x[0], &x[1], 1, -1)],
            move |x| {
                vec![by_index([2, 3, 2], |i| match i[1] {
                    2 => at(&x[1], &[i[0], i[2]]),
                    _ => at(&x[0], i),
                })]
            },
        )
        .input([2, 3, 2], range.clone())
        .input([2, 2], range.clone()),
        Sample::new(
            "select_scatter",
            |x| vec![select_scatter(&x[0], &x[1], 0, 1)],
            move |x| {
                vec![by_index([3], |i| match i[0] {
                    1 => at(&x[1], &[]),
                    _ => at(&x[0], i),
                })]
            },
        )
        .input([3], range.clone())
        .input((), range),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;

    #[test]
    fn there_must_be_enough_values() {
        let x = Variable::new([1.0, 2.0]);
        let short = attempt(|| masked_scatter(&x, true, [5.0]))
            .unwrap_err()
            .to_string();
        assert!(short.contains("index 2 is outside"), "{short}");
        let nothing = Variable::constant(Array::zeros([0], DType::F64));
        assert_eq!(
            masked_scatter(&x, false, &nothing).to_vec::<f64>(),
            [1.0, 2.0]
        );
        assert_eq!(masked_scatter(&nothing, true, &x).shape(), [0]);
    }

    #[test]
    fn the_dtype_stays() {
        let x = Variable::constant([1i64, 2]);
        assert_eq!(masked_fill(&x, [true, false], 7).to_vec::<i64>(), [7, 2]);
        assert!(attempt(|| masked_fill(&x, [true, false], 0.5)).is_err());
        assert_eq!(select_scatter(&x, 7u8, 0, -1).to_vec::<i64>(), [1, 7]);
        assert!(attempt(|| select_scatter(&x, 7, 0, 2)).is_err());
    }
}
