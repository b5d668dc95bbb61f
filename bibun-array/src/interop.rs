//! Conversions from and to the arrays of the crate `ndarray` (feature `ndarray`).
//! Elements are copied.

use ndarray::{ArrayBase, Data, Dimension, IxDyn};

use crate::{Array, Element, Error, Shape};

/// Copies an array or view of the crate `ndarray`, of any rank.
///
/// ```
/// use bibun_array::Array;
/// let x = Array::from(ndarray::arr2(&[[1.0, 2.0], [3.0, 4.0]]).t());
/// assert_eq!(x.to_vec::<f64>(), [1.0, 3.0, 2.0, 4.0]);
/// ```
impl<T: Element, S: Data<Elem = T>, D: Dimension> From<ArrayBase<S, D>> for Array {
    fn from(x: ArrayBase<S, D>) -> Self {
        Self::from(&x)
    }
}

/// Copies an array or view of the crate `ndarray` from a reference.
impl<T: Element, S: Data<Elem = T>, D: Dimension> From<&ArrayBase<S, D>> for Array {
    fn from(x: &ArrayBase<S, D>) -> Self {
        let shape = Shape::new(x.shape());
        if let Some(elements) = x.as_slice() {
            return Self::from_slice(elements, shape);
        }
        // Column-major order is kept.
        if let Some(elements) = x.t().as_slice() {
            let reversed: Shape = shape.iter().rev().copied().collect();
            return Self::from_slice(elements, reversed).transpose();
        }
        Self::from_vec(x.iter().copied().collect(), shape)
    }
}

/// Converts an array to one of the crate `ndarray`.
///
/// # Errors
/// Returns an error if the dtype is not `T` or the rank is not that of `D`.
///
/// ```
/// use bibun_array::Array;
/// let x: ndarray::Array2<f64> = Array::from([[1.0, 2.0]]).try_into()?;
/// assert_eq!(x[[0, 1]], 2.0);
/// # Ok::<(), bibun_array::Error>(())
/// ```
impl<T: Element, D: Dimension> TryFrom<&Array> for ndarray::Array<T, D> {
    type Error = Error;
    #[track_caller]
    fn try_from(x: &Array) -> Result<Self, Error> {
        if x.dtype() != T::DTYPE {
            return Err(Error::DType {
                function: "try_from",
                found: x.dtype(),
                expected: T::DTYPE,
                location: crate::caller(),
            });
        }
        let misfit = || {
            let what = format!(
                "the shape {} does not fit the rank of the ndarray",
                x.shape()
            );
            Error::invalid("try_from", what)
        };
        ndarray::Array::from_shape_vec(IxDyn(x.shape()), x.to_vec::<T>())
            .and_then(ndarray::Array::into_dimensionality)
            .map_err(|_| misfit())
    }
}

/// Converts an array by value to one of the crate `ndarray`.
impl<T: Element, D: Dimension> TryFrom<Array> for ndarray::Array<T, D> {
    type Error = Error;
    #[track_caller]
    fn try_from(x: Array) -> Result<Self, Error> {
        Self::try_from(&x)
    }
}
