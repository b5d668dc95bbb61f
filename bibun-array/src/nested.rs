//! Arrays from nested Rust arrays, vectors and slices.

use smallvec::SmallVec;

use crate::{Array, Element, Error, Shape, raise};

/// The sizes of the axes found so far.
type Sizes = SmallVec<[usize; 4]>;

/// An element of an array, or elements nested to any depth in Rust's arrays, vectors and slices, such
/// as `[[1.0, 2.0], [3.0, 4.0]]` or a `Vec<Vec<f32>>`. Everything of this kind but a single element is
/// an argument of [`Array::from`].
///
/// ```
/// use bibun_array::Array;
/// let x = Array::from(vec![[vec![1.0, 2.0]], [vec![3.0, 4.0]]]);
/// assert_eq!(x.shape(), &[2, 1, 2][..]);
/// ```
pub trait Nested: Clone {
    /// Adds the size of this value to `sizes`, and those of the first values in it; without a value,
    /// those that its type knows.
    #[doc(hidden)]
    fn sizes(value: Option<&Self>, sizes: &mut SmallVec<[usize; 4]>);

    /// Returns the array of this shape whose elements are those of values that all have these sizes.
    ///
    /// # Panics
    /// Panics if some have other sizes.
    #[doc(hidden)]
    #[track_caller]
    fn array(values: &[Self], sizes: &[usize], shape: Shape) -> Array;
}

impl<T: Element> Nested for T {
    fn sizes(_: Option<&Self>, _: &mut Sizes) {}

    fn array(values: &[Self], _: &[usize], shape: Shape) -> Array {
        Array::from_slice(values, shape)
    }
}

impl<T: Nested, const N: usize> Nested for [T; N] {
    fn sizes(value: Option<&Self>, sizes: &mut Sizes) {
        sizes.push(N);
        T::sizes(value.and_then(|value| value.first()), sizes);
    }

    fn array(values: &[Self], sizes: &[usize], shape: Shape) -> Array {
        T::array(values.as_flattened(), &sizes[1..], shape)
    }
}

/// Values that are not side by side in memory, whose sizes may differ.
macro_rules! nested_values {
    ($([$($bounds:tt)*] $Value:ty, $unknown:expr;)+) => {$(
        impl<$($bounds)*> Nested for $Value {
            fn sizes(value: Option<&Self>, sizes: &mut Sizes) {
                sizes.push(value.map_or($unknown, |value| value.len()));
                T::sizes(value.and_then(|value| value.first()), sizes);
            }

            fn array(values: &[Self], sizes: &[usize], shape: Shape) -> Array {
                if let Some(other) = values.iter().find(|value| value.len() != sizes[0]) {
                    let (first, other) = (sizes[0], other.len());
                    let what = format!("values of {first} and of {other} parts make no array");
                    raise(Error::invalid("from", what));
                }
                let parts = values.iter().flat_map(|value| value.iter().cloned());
                T::array(&parts.collect::<Vec<T>>(), &sizes[1..], shape)
            }
        }
    )+};
}
nested_values! {
    [T: Nested] Vec<T>, 0;
    [T: Nested] &Vec<T>, 0;
    [T: Nested] &[T], 0;
    [T: Nested, const N: usize] &[T; N], N;
}

macro_rules! array_from {
    ($([$($bounds:tt)*] $Value:ty;)+) => {$(
        impl<$($bounds)*> From<$Value> for Array {
            #[track_caller]
            fn from(values: $Value) -> Self {
                nested(&values[..])
            }
        }
    )+};
}
array_from! {
    [T: Nested] Vec<T>;
    [T: Nested] &Vec<T>;
    [T: Nested] &[T];
    [T: Nested, const N: usize] [T; N];
    [T: Nested, const N: usize] &[T; N];
}

#[track_caller]
fn nested<T: Nested>(values: &[T]) -> Array {
    let mut sizes = Sizes::new();
    <&[T]>::sizes(Some(&values), &mut sizes);
    let shape = Shape::from(&sizes[..]);
    T::array(values, &sizes[1..], shape)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, attempt};

    #[test]
    fn any_depth_of_arrays_vectors_and_slices() {
        let x = Array::from([[[[1.0f32, 2.0]], [[3.0, 4.0]]]]);
        assert_eq!(x.shape(), &[1, 2, 1, 2][..]);
        assert_eq!(
            (x.dtype(), x.to_vec::<f32>()),
            (DType::F32, vec![1.0, 2.0, 3.0, 4.0])
        );
        let rows = vec![vec![1i64, 2, 3], vec![4, 5, 6]];
        let slices: Vec<&[i64]> = rows.iter().map(|row| &row[1..]).collect();
        assert_eq!(Array::from(&rows).shape(), &[2, 3][..]);
        assert_eq!(Array::from(slices).to_vec::<i64>(), [2, 3, 5, 6]);
        assert_eq!(
            Array::from(vec![rows.clone(), rows]).shape(),
            &[2, 2, 3][..]
        );
        assert_eq!(Array::from(&[[true], [false]]).shape(), &[2, 1][..]);
        assert_eq!(
            Array::from(vec![vec![[0.5; 2]; 3]; 4]).shape(),
            &[4, 3, 2][..]
        );
    }

    #[test]
    fn empty_values_have_the_sizes_of_their_types() {
        assert_eq!(Array::from(Vec::<[f64; 3]>::new()).shape(), &[0, 3][..]);
        assert_eq!(Array::from(Vec::<Vec<f64>>::new()).shape(), &[0, 0][..]);
        assert_eq!(Array::from([[0u8; 0]; 2]).shape(), &[2, 0][..]);
    }

    #[test]
    fn vectors_of_different_lengths_are_refused() {
        let ragged = || Array::from(vec![vec![1.0, 2.0], vec![3.0]]);
        let error: Error = attempt(ragged).expect_err("an error");
        let message = error.to_string();
        assert!(message.contains("values of 2 and of 1 parts"), "{message}");
        let inner = [vec![vec![1.0], vec![2.0]], vec![vec![], vec![2.0]]];
        let result: Result<_, Error> = attempt(|| Array::from(inner));
        assert!(result.is_err());
    }
}
