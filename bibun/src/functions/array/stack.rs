//! Arrays joined along an axis that is new to some of them, and taken apart again.

use bibun_array::{Shape, normalize_axis};

use super::concat::{joined, promoted, variables};
use super::split::cut;
use crate::call::composite;
use crate::error::{Error, raise};
use crate::functions::families::method;
use crate::functions::{expand_dims, reshape};
use crate::variable::Variable;

/// Joins arrays of one shape along a new axis at `axis`, which may be the rank (or `-1`) for a new last
/// axis. They are taken as by [`concat`](crate::functions::concat).
///
/// Shapes: n arrays `[a, ..]` → `[a, .., n, ..]`. Types: all, promoted.
/// Gradient: for each array its part of `gy`.
///
/// # Panics
/// Panics if there are no arrays, `axis` does not exist, or the shapes differ.
///
/// ```
/// use bibun::{functions::stack, Variable};
/// let (a, b) = (Variable::new([1.0, 2.0]), Variable::new([3.0, 4.0]));
/// assert_eq!(stack([&a, &b], 1).to_vec::<f64>(), [1.0, 3.0, 2.0, 4.0]);
/// ```
#[track_caller]
pub fn stack(xs: impl IntoIterator<Item = impl Into<Variable>>, axis: isize) -> Variable {
    let _whole = composite("stack");
    let xs = promoted("stack", variables(xs));
    let (first, rank) = (xs[0].spec(), xs[0].rank());
    if let Some(other) = xs.iter().find(|x| x.shape() != first.shape) {
        let what = format!("the shapes {} and {} differ", first.shape, other.shape());
        raise(Error::argument("stack", what));
    }
    let axis = normalize_axis("stack", axis, rank + 1);
    joined(layers(xs, axis), axis)
}

/// Joins arrays horizontally: along the second axis, and vectors and scalars along their only one.
///
/// Shapes: `[n, a]`, `[n, b]`, ... → `[n, a + b + ...]`. Types: all, promoted.
/// Gradient: for each array its part of `gy`.
///
/// # Panics
/// Panics if there are no arrays or the shapes do not fit.
///
/// ```
/// use bibun::{functions::hstack, Variable};
/// let (a, b) = (Variable::new([[1.0], [2.0]]), Variable::new([[3.0], [4.0]]));
/// assert_eq!(hstack([&a, &b]).to_vec::<f64>(), [1.0, 3.0, 2.0, 4.0]);
/// ```
#[track_caller]
pub fn hstack(xs: impl IntoIterator<Item = impl Into<Variable>>) -> Variable {
    let _whole = composite("hstack");
    let xs = with_axes(promoted("hstack", variables(xs)), |shape| match shape {
        [] => Some([1].into()),
        _ => None,
    });
    let axis = usize::from(xs[0].rank() > 1);
    joined(xs, axis)
}

/// Joins arrays vertically: along the first axis, with vectors as rows.
///
/// Shapes: `[a, m]`, `[b, m]`, ... → `[a + b + ..., m]`; `[m]` counts as `[1, m]`. Types: all,
/// promoted. Gradient: for each array its part of `gy`.
///
/// # Panics
/// Panics if there are no arrays or the shapes do not fit.
///
/// ```
/// use bibun::{functions::vstack, Variable};
/// let (a, b) = (Variable::new([1.0, 2.0]), Variable::new([[3.0, 4.0]]));
/// assert_eq!(vstack([&a, &b]).shape(), [2, 2]);
/// ```
#[track_caller]
pub fn vstack(xs: impl IntoIterator<Item = impl Into<Variable>>) -> Variable {
    let _whole = composite("vstack");
    let xs = with_axes(promoted("vstack", variables(xs)), |shape| match *shape {
        [] => Some([1, 1].into()),
        [m] => Some([1, m].into()),
        _ => None,
    });
    joined(xs, 0)
}

/// Joins arrays in depth: along the third axis. Vectors `[m]` become `[1, m, 1]`, and matrices `[n, m]`
/// become `[n, m, 1]`.
///
/// Shapes: `[n, m, a]`, `[n, m, b]`, ... → `[n, m, a + b + ...]`. Types: all, promoted.
/// Gradient: for each array its part of `gy`.
///
/// # Panics
/// Panics if there are no arrays or the shapes do not fit.
///
/// ```
/// use bibun::{functions::dstack, Variable};
/// let (a, b) = (Variable::new([1.0, 2.0]), Variable::new([3.0, 4.0]));
/// let y = dstack([&a, &b]);
/// assert_eq!(y.shape(), [1, 2, 2]);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 3.0, 2.0, 4.0]);
/// ```
#[track_caller]
pub fn dstack(xs: impl IntoIterator<Item = impl Into<Variable>>) -> Variable {
    let _whole = composite("dstack");
    let xs = with_axes(promoted("dstack", variables(xs)), |shape| match *shape {
        [] => Some([1, 1, 1].into()),
        [m] => Some([1, m, 1].into()),
        [n, m] => Some([n, m, 1].into()),
        _ => None,
    });
    joined(xs, 2)
}

/// Returns the slices along `axis`, without that axis: the inverse of [`stack`].
///
/// Shapes: x `[.., n, ..]` → n arrays `[.., ..]`. Types: all.
/// Gradient: those of the slices, stacked; unused slices have zeros.
///
/// # Panics
/// Panics if `axis` does not exist.
///
/// ```
/// use bibun::{functions::unstack, Variable};
/// let columns = unstack(&Variable::new([[1.0, 2.0], [3.0, 4.0]]), 1);
/// assert_eq!(columns[1].to_vec::<f64>(), [2.0, 4.0]);
/// ```
#[track_caller]
pub fn unstack(x: impl Into<Variable>, axis: isize) -> Vec<Variable> {
    let _whole = composite("unstack");
    let x = x.into();
    let shape = x.shape();
    let axis = normalize_axis("unstack", axis, shape.rank());
    if shape[axis] == 0 {
        return Vec::new();
    }
    let layer = shape.removed(axis);
    let positions = (1..shape[axis]).collect();
    let layers = cut(x, positions, axis);
    layers.into_iter().map(|x| reshape(x, &layer)).collect()
}
method!(unstack -> Vec<Self>, axis: isize);

/// Gives each array a new axis of size 1.
#[track_caller]
fn layers(xs: Vec<Variable>, axis: usize) -> Vec<Variable> {
    let axis = axis as isize;
    xs.into_iter().map(|x| expand_dims(x, axis)).collect()
}

/// Reshapes each array to the shape that `longer` returns for its own, if any.
#[track_caller]
fn with_axes(xs: Vec<Variable>, longer: impl Fn(&[usize]) -> Option<Shape>) -> Vec<Variable> {
    xs.into_iter()
        .map(|x| match longer(&x.shape()) {
            Some(shape) => reshape(x, shape),
            None => x,
        })
        .collect()
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::{at, by_index};
    use crate::conformance::Sample;
    let range = -2.0..2.0;
    vec![
        Sample::new(
            "stack",
            |x| vec![stack([&x[0], &x[1]], 1)],
            move |x| vec![by_index([3, 2, 1], |i| at(&x[i[1]], &[i[0], i[2]]))],
        )
        .input([3, 1], range.clone())
        .input([3, 1], range.clone()),
        Sample::new(
            "stack",
            |x| vec![stack([&x[0], &x[1]], -1)],
            move |x| vec![by_index([2], |i| at(&x[i[0]], &[]))],
        )
        .input((), range.clone())
        .input((), range.clone()),
        Sample::new(
            "hstack",
            |x| vec![hstack([&x[0], &x[1]])],
            move |x| {
                vec![by_index([2, 4], |i| match i[1] {
                    0 => at(&x[0], i),
                    _ => at(&x[1], &[i[0], i[1] - 1]),
                })]
            },
        )
        .input([2, 1], range.clone())
        .input([2, 3], range.clone()),
        Sample::new(
            "vstack",
            |x| vec![vstack([&x[0], &x[1]])],
            move |x| {
                vec![by_index([3, 3], |i| match i[0] {
                    0 => at(&x[0], &[i[1]]),
                    _ => at(&x[1], &[i[0] - 1, i[1]]),
                })]
            },
        )
        .input([3], range.clone())
        .input([2, 3], range.clone()),
        Sample::new(
            "dstack",
            |x| vec![dstack([&x[0], &x[1]])],
            move |x| vec![by_index([2, 3, 2], |i| at(&x[i[2]], &[i[0], i[1]]))],
        )
        .input([2, 3], range.clone())
        .input([2, 3], range.clone()),
        Sample::new(
            "unstack",
            |x| unstack(&x[0], 1),
            move |x| {
                let layer = |p: usize| by_index([2, 2], |i| at(&x[0], &[i[0], p, i[1]]));
                vec![layer(0), layer(1), layer(2)]
            },
        )
        .input([2, 3, 2], range),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;
    use bibun_array::{Array, DType};

    #[test]
    fn integers_and_bools_are_stacked() {
        let a = Variable::constant([1i64, 2]);
        assert_eq!(stack([&a, &a], 0).to_vec::<i64>(), [1, 2, 1, 2]);
        let flags = Variable::constant([true, false]);
        assert!(!unstack(&flags, 0)[1].item::<bool>());
    }

    #[test]
    fn scalars_and_vectors_get_axes() {
        let scalar = Variable::new(1.0);
        assert_eq!(hstack([&scalar, &Variable::new([2.0, 3.0])]).shape(), [3]);
        assert_eq!(vstack([&scalar, &scalar]).shape(), [2, 1]);
        assert_eq!(dstack([&scalar, &scalar]).shape(), [1, 1, 2]);
    }

    #[test]
    fn nothing_is_separated_into_nothing() {
        assert!(unstack(Variable::new(Array::zeros([2, 0], DType::F64)), 1).is_empty());
    }

    #[test]
    fn a_slice_that_is_not_used_has_zero_gradient() {
        let x = Variable::new([1.0, 2.0, 3.0]);
        (3.0 * &unstack(&x, 0)[1]).backward();
        assert_eq!(x.grad().unwrap().to_vec::<f64>(), [0.0, 3.0, 0.0]);
    }

    #[test]
    fn mistakes_are_named() {
        let (a, b) = (Variable::new([[1.0, 2.0]]), Variable::new([[1.0]]));
        let error = attempt(|| stack([&a, &b], 0)).unwrap_err().to_string();
        assert!(error.contains("[1, 2] and [1, 1] differ"), "{error}");
    }
}
