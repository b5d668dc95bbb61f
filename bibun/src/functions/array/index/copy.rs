//! Slices written along an axis: [`index_copy`], [`index_fill`], and the sums and extremes of segments.

use bibun_array::{Array, DType, Scalar, Shape, normalize_axis};

use super::scatter::Writing;
use super::{Combine, Picking};
use crate::call::composite;
use crate::error::mismatch;
use crate::functions::families::method;
use crate::functions::{Operand, add_at, broadcast_to, cast, reshape, to_float_of, to_indices};
use crate::variable::Variable;

/// Returns x with `value`, broadcast, in the place of the slices that [`take`](crate::functions::take)
/// picks. Of the slices of equal indices the last one stays.
///
/// Shapes: x `[a.., n, b..]`, indices any `[i..]`, value that broadcasts to `[a.., i.., b..]` → as x.
/// Types: x all, indices integers, value of a dtype that becomes that of x. Gradient: `gy` to the slices
/// of x that stay and to the values that do; indices have none.
///
/// # Panics
/// Panics where [`take`](crate::functions::take) does, and if `value` does not fit.
///
/// ```
/// use bibun::{functions::index_copy, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// let y = index_copy(&x, [1i64], 1, [[7.0], [8.0]]);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 7.0, 3.0, 8.0]);
/// ```
#[track_caller]
pub fn index_copy(
    x: impl Into<Variable>,
    indices: impl Into<Variable>,
    axis: isize,
    value: impl Into<Operand>,
) -> Variable {
    let _whole = composite("index_copy");
    let writing = Writing::new("index_copy", Combine::Replace);
    writing.to_slices(x.into(), indices.into(), axis, value.into())
}
method!(index_copy, indices: impl Into<Variable>, axis: isize, value: impl Into<Operand>);

/// Returns x with one value in all slices that [`take`](crate::functions::take) picks.
///
/// Shapes: x `[a.., n, b..]`, indices any, value a number or of shape `[]` → as x. Types: x all, indices
/// integers, value of a dtype that becomes that of x. Gradient: `gy` to the slices of x that stay, its
/// sum over the others to value; indices have none.
///
/// # Panics
/// Panics where [`take`](crate::functions::take) does, and if `value` is not one element.
///
/// ```
/// use bibun::{functions::index_fill, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(index_fill(&x, [0i64], 0, 9.0).to_vec::<f64>(), [9.0, 9.0, 3.0, 4.0]);
/// ```
#[track_caller]
pub fn index_fill(
    x: impl Into<Variable>,
    indices: impl Into<Variable>,
    axis: isize,
    value: impl Into<Operand>,
) -> Variable {
    let _whole = composite("index_fill");
    let (x, value) = (x.into(), value.into());
    let value = one_element("index_fill", &x, value);
    Writing::new("index_fill", Combine::Replace).to_slices(x, indices.into(), axis, value)
}
method!(index_fill, indices: impl Into<Variable>, axis: isize, value: impl Into<Operand>);

/// Returns a value after a check that it is a number or has the shape `[]`.
#[track_caller]
pub(in crate::functions::array) fn one_element(
    function: &'static str,
    x: &Variable,
    value: Operand,
) -> Operand {
    if let Operand::Variable(value) = &value
        && value.rank() > 0
    {
        let inputs = [("x", &x.spec()), ("value", &value.spec())];
        mismatch(function, &inputs, "the value must be one element")
    }
    value
}

impl Writing {
    /// Writes to the slices that `take` picks.
    #[track_caller]
    pub(super) fn to_slices(
        self,
        x: Variable,
        indices: Variable,
        axis: isize,
        value: Operand,
    ) -> Variable {
        let (axis, shape) = (normalize_axis(self.function, axis, x.rank()), x.shape());
        let indices = to_indices(indices);
        Picking::slices(self.function, &x, axis as isize).expect(self.function, &x, &indices);
        let count = indices.size();
        let (own, before, behind) = (indices.shape(), &shape[..axis], &shape[axis + 1..]);
        let picked = before.iter().chain(own.iter()).chain(behind).copied();
        let picked: Shape = picked.collect();
        let value = self.fitting(&x, value, &picked);
        let mut aligned = vec![1; shape.rank()];
        aligned[axis] = count;
        let slices = shape.replaced(axis, count);
        let indices = broadcast_to(reshape(indices, aligned), &slices);
        self.along(x, indices, axis, reshape(value, slices))
    }
}

/// Defines functions of segments.
macro_rules! segments {
    ($($(#[$documentation:meta])* $name:ident -> $combine:expr, $empty:expr;)+) => {$(
        $(#[$documentation])*
        ///
        /// Shapes: x `[n, ..]`, ids `[n]` → `[count, ..]`.
        #[track_caller]
        pub fn $name(
            x: impl Into<Variable>,
            ids: impl Into<Variable>,
            count: usize,
        ) -> Variable {
            let _whole = composite(stringify!($name));
            let empty: fn(DType) -> Scalar = $empty;
            segments(stringify!($name), $combine, empty, x.into(), ids.into(), count)
        }
        method!($name, ids: impl Into<Variable>, count: usize);
    )+};
}

segments! {
    /// Computes the sums of the slices of x with the same id, for the ids `0..count`. The sum of no slice
    /// is 0.
    ///
    /// Types: x all (integers and bools are added up as i64), ids integers. Gradient: `gy` of its segment
    /// to each slice.
    ///
    /// Source: `jax.ops.segment_sum`, which leaves out ids that are out of bounds.
    ///
    /// # Panics
    /// Panics if the ids are not one for each slice, or out of bounds (negative ones count from the end).
    ///
    /// ```
    /// use bibun::{functions::segment_sum, Variable};
    /// let x = Variable::new([1.0, 2.0, 3.0]);
    /// assert_eq!(segment_sum(&x, [2i64, 0, 2], 3).to_vec::<f64>(), [2.0, 0.0, 4.0]);
    /// ```
    segment_sum -> Combine::Sum, Scalar::zero;

    /// Computes the products of the slices of x with the same id, for the ids `0..count`. The product of
    /// no slice is 1.
    ///
    /// Types: x all (integers and bools are multiplied as i64), ids integers. Gradient: `gy` times the
    /// product of the other slices, exact with zeros, at every order.
    ///
    /// Source: `jax.ops.segment_prod`, which leaves out ids that are out of bounds.
    ///
    /// # Panics
    /// Panics if the ids are not one for each slice, or out of bounds (negative ones count from the end).
    ///
    /// ```
    /// use bibun::{functions::segment_prod, Variable};
    /// let x = Variable::new([4.0, 2.0, 3.0]);
    /// assert_eq!(segment_prod(&x, [2i64, 0, 2], 3).to_vec::<f64>(), [2.0, 1.0, 12.0]);
    /// ```
    segment_prod -> Combine::Product, Scalar::one;

    /// Computes the means of the slices of x with the same id, for the ids `0..count`. The mean of no
    /// slice is NaN.
    ///
    /// Types: x floats; integers and bools give f64; ids integers. Gradient: an equal part of `gy` of its
    /// segment to each slice.
    ///
    /// Source: `tf.math.segment_mean`, which has 0 for no slice.
    ///
    /// # Panics
    /// Panics if the ids are not one for each slice, or out of bounds (negative ones count from the end).
    ///
    /// ```
    /// use bibun::{functions::segment_mean, Variable};
    /// let x = Variable::new([1.0, 2.0, 3.0]);
    /// assert_eq!(segment_mean(&x, [1i64, 0, 1], 2).to_vec::<f64>(), [2.0, 2.0]);
    /// ```
    segment_mean -> Combine::Mean, |dtype| Scalar::from(f64::NAN).cast(dtype);

    /// Computes the maxima of the slices of x with the same id, for the ids `0..count`. The maximum of no
    /// slice is `-∞`, or the smallest integer; that of a NaN is NaN.
    ///
    /// Types: x all, ids integers. Gradient: `gy` to the maximum; equal maxima share it equally; NaN if it is NaN.
    ///
    /// Source: `jax.ops.segment_max`, which leaves out ids that are out of bounds.
    ///
    /// # Panics
    /// Panics if the ids are not one for each slice, or out of bounds (negative ones count from the end).
    ///
    /// ```
    /// use bibun::{functions::segment_max, Variable};
    /// let x = Variable::new([1.0, 2.0, 3.0]);
    /// assert_eq!(segment_max(&x, [1i64, 0, 1], 2).to_vec::<f64>(), [2.0, 3.0]);
    /// ```
    segment_max -> Combine::Max, |dtype| Combine::Max.neutral(dtype);

    /// Computes the minima of the slices of x with the same id, for the ids `0..count`. The minimum of no
    /// slice is `∞`, or the largest integer; that of a NaN is NaN.
    ///
    /// Types: x all, ids integers. Gradient: `gy` to the minimum; equal minima share it equally; NaN if it is NaN.
    ///
    /// Source: `jax.ops.segment_min`, which leaves out ids that are out of bounds.
    ///
    /// # Panics
    /// Panics if the ids are not one for each slice, or out of bounds (negative ones count from the end).
    ///
    /// ```
    /// use bibun::{functions::segment_min, Variable};
    /// let x = Variable::new([1.0, 2.0, 3.0]);
    /// assert_eq!(segment_min(&x, [1i64, 0, 1], 2).to_vec::<f64>(), [2.0, 1.0]);
    /// ```
    segment_min -> Combine::Min, |dtype| Combine::Min.neutral(dtype);
}

#[track_caller]
fn segments(
    function: &'static str,
    combine: Combine,
    empty: fn(DType) -> Scalar,
    x: Variable,
    ids: Variable,
    count: usize,
) -> Variable {
    let (spec, own) = (x.spec(), ids.spec());
    if spec.shape.rank() == 0 || own.shape != [spec.shape[0]] {
        let must_hold = "there must be one id for each slice along the first axis";
        mismatch(function, &[("x", &spec), ("ids", &own)], must_hold)
    }
    let x = match combine {
        Combine::Sum | Combine::Product if !spec.dtype.is_float() => cast(x, DType::I64),
        Combine::Mean => to_float_of(function, x),
        _ => x,
    };
    let shape = spec.shape.replaced(0, count).addressable(function);
    let start = Variable::constant(Array::full(shape, empty(x.dtype())));
    if combine == Combine::Sum {
        return add_at(start, ids, 0, x);
    }
    let include_self = combine == Combine::Product;
    let writing = Writing {
        function,
        combine,
        include_self,
    };
    writing.to_slices(start, ids, 0, x.into())
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use super::super::{at, by_index};
    use crate::conformance::{Sample, beside};
    let range = -2.0..2.0;
    let mut samples = vec![
        Sample::new(
            "index_copy",
            |x| vec![index_copy(&x[0], beside(x, [2i64, 0, -1]), 1, &x[1])],
            move |x| {
                vec![by_index([2, 3], |i| match i[1] {
                    1 => at(&x[0], i),
                    column => at(&x[1], &[i[0], [1, 0, 2][column]]),
                })]
            },
        )
        .input([2, 3], range.clone())
        .input([2, 3], range.clone()),
        Sample::new(
            "index_copy",
            |x| vec![index_copy(&x[0], beside(x, 1i64), 0, &x[1])],
            move |x| {
                vec![by_index([2, 3], |i| match i[0] {
                    0 => at(&x[0], i),
                    _ => at(&x[1], &[i[1]]),
                })]
            },
        )
        .input([2, 3], range.clone())
        .input([3], range.clone()),
        Sample::new(
            "index_fill",
            |x| vec![index_fill(&x[0], beside(x, [0i64, -1]), 0, &x[1])],
            move |x| {
                vec![by_index([3, 2], |i| match i[0] {
                    1 => at(&x[0], i),
                    _ => at(&x[1], &[]),
                })]
            },
        )
        .input([3, 2], range.clone())
        .input((), range.clone()),
    ];
    type Segments = fn(&Variable, Variable) -> Variable;
    type Reduced = fn(&[f64]) -> f64;
    let functions: [(&'static str, Segments, Reduced); 5] = [
        (
            "segment_sum",
            |x, ids| segment_sum(x, ids, 3),
            |x| x.iter().sum(),
        ),
        (
            "segment_prod",
            |x, ids| segment_prod(x, ids, 3),
            |x| x.iter().product(),
        ),
        (
            "segment_mean",
            |x, ids| segment_mean(x, ids, 3),
            |x| x.iter().sum::<f64>() / x.len() as f64,
        ),
        (
            "segment_max",
            |x, ids| segment_max(x, ids, 3),
            |x| x.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        ),
        (
            "segment_min",
            |x, ids| segment_min(x, ids, 3),
            |x| x.iter().copied().fold(f64::INFINITY, f64::min),
        ),
    ];
    for (name, call, reduced) in functions {
        samples.push(
            Sample::new(
                name,
                move |x| vec![call(&x[0], beside(x, [2i64, 0, 1, -1, 0]))],
                move |x| {
                    let ids = [2, 0, 1, 2, 0];
                    vec![by_index([3, 2], |i| {
                        let own = (0..5).filter(|&j| ids[j] == i[0]);
                        reduced(&own.map(|j| at(&x[0], &[j, i[1]])).collect::<Vec<f64>>())
                    })]
                },
            )
            .input([5, 2], range.clone()),
        );
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{attempt, gradients};

    #[test]
    fn extremes_that_are_nan_have_a_gradient_that_is() {
        let (x, ids) = (Variable::new([3.0, f64::NAN, 2.0, 5.0]), [0i64, 0, 1, 0]);
        for y in [segment_max(&x, ids, 2), segment_min(&x, ids, 2)] {
            let gx = crate::gradients(&[&y.sum(..)], &[&x]).remove(0).unwrap();
            let is_nan = gx.to_vec::<f64>().into_iter().map(f64::is_nan);
            assert_eq!(is_nan.collect::<Vec<_>>(), [true, true, false, true]);
        }
    }

    #[test]
    fn empty_segments_have_neutral_values() {
        let (x, ids) = (Variable::new([3.0, 2.0]), [2i64, 2]);
        let infinity = f64::INFINITY;
        assert_eq!(segment_sum(&x, ids, 3).to_vec::<f64>(), [0.0, 0.0, 5.0]);
        assert_eq!(segment_prod(&x, ids, 3).to_vec::<f64>(), [1.0, 1.0, 6.0]);
        assert_eq!(
            segment_max(&x, ids, 3).to_vec::<f64>(),
            [-infinity, -infinity, 3.0]
        );
        assert_eq!(
            segment_min(&x, ids, 3).to_vec::<f64>(),
            [infinity, infinity, 2.0]
        );
        let y = segment_mean(&x, ids, 3);
        assert!(y.to_vec::<f64>()[0].is_nan() && y.to_vec::<f64>()[2] == 2.5);
        let gx = gradients(&[&y.slice(crate::s![2])], &[&x]);
        assert_eq!(gx[0].as_ref().unwrap().to_vec::<f64>(), [0.5, 0.5]);
        let nothing = Variable::new(Array::zeros([0, 2], DType::F64));
        let none = Variable::constant(Array::zeros([0], DType::I64));
        assert_eq!(segment_prod(&nothing, &none, 2).to_vec::<f64>(), [1.0; 4]);
        assert_eq!(segment_max(&nothing, &none, 0).shape(), [0, 2]);
    }

    #[test]
    fn integers_and_their_ends() {
        let x = Variable::constant([200u8, 100]);
        assert_eq!(segment_sum(&x, [0i64, 0], 1).to_vec::<i64>(), [300]);
        assert_eq!(segment_prod(&x, [0i64, 0], 1).to_vec::<i64>(), [20_000]);
        assert_eq!(segment_max(&x, [1i64, 1], 2).to_vec::<u8>(), [0, 200]);
        assert_eq!(segment_mean(&x, [0i64, 0], 1).to_vec::<f64>(), [150.0]);
        let error = attempt(|| segment_sum(&x, [0i64, 2], 2))
            .unwrap_err()
            .to_string();
        assert!(error.contains("index 2 is outside of axis 0"), "{error}");
    }
}
