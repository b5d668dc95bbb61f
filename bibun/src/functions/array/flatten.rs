//! Axes joined into one.

use bibun_array::{Shape, normalize_axis};

use crate::call::composite;
use crate::functions::families::method;
use crate::functions::reshape;
use crate::variable::Variable;

/// Returns the elements in row-major order as a vector.
///
/// Shapes: x any → `[n]`. Types: all. Gradient: `gy` in the shape of x.
///
/// ```
/// use bibun::{functions::flatten, Variable};
/// assert_eq!(flatten(&Variable::new([[1.0, 2.0]])).shape(), [2]);
/// ```
#[track_caller]
pub fn flatten(x: impl Into<Variable>) -> Variable {
    let _whole = composite("flatten");
    let x = x.into();
    let size = x.size();
    reshape(x, size)
}
method!(flatten);

/// Joins the axes from `axis` on into one. Images become the inputs of a linear layer this way.
///
/// Shapes: x `[n, ...]`, axis 1 → `[n, m]`. Types: all. Gradient: `gy` in the shape of x.
///
/// ```
/// use bibun::{array::{Array, DType}, functions::flatten_from, Variable};
/// let x = Variable::new(Array::zeros([2, 3, 4, 4], DType::F32));
/// assert_eq!(flatten_from(&x, 1).shape(), [2, 48]);
/// assert_eq!(flatten_from(&x, -2).shape(), [2, 3, 16]);
/// ```
///
/// # Panics
/// Panics if `axis` does not exist.
#[track_caller]
pub fn flatten_from(x: impl Into<Variable>, axis: isize) -> Variable {
    let _whole = composite("flatten_from");
    let x = x.into();
    let shape = x.shape();
    let axis = normalize_axis("flatten_from", axis, shape.rank());
    let (before, joined) = shape.split_at(axis);
    let shape: Shape = before
        .iter()
        .copied()
        .chain([joined.iter().product()])
        .collect();
    reshape(x, shape)
}
method!(flatten_from, axis: isize);

/// Returns the elements in row-major order as a vector: [`flatten`] by its name in NumPy.
///
/// Shapes: x any → `[n]`. Types: all. Gradient: `gy` in the shape of x.
///
/// ```
/// use bibun::{functions::ravel, Variable};
/// assert_eq!(ravel(&Variable::new([[1.0, 2.0]])).shape(), [2]);
/// ```
#[track_caller]
pub fn ravel(x: impl Into<Variable>) -> Variable {
    let _whole = composite("ravel");
    flatten(x)
}
method!(ravel);

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::{at, by_index};
    use crate::conformance::Sample;
    let range = -2.0..2.0;
    vec![
        Sample::new(
            "flatten",
            |x| vec![flatten(&x[0]), ravel(&x[0])],
            move |x| {
                let y = by_index([6], |i| at(&x[0], &[i[0] / 3, i[0] % 3]));
                vec![y.clone(), y]
            },
        )
        .input([2, 3], range),
    ]
}
