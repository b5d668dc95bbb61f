//! Picking elements by index or mask, adding to them, writing them, and finding them.

use std::ops::Range;
use std::sync::Arc;

use crate::device::Complaint;
use crate::dtype::with_dtype;
use crate::ops::no_such_dtype;
use crate::placement::common;
use crate::shape::Layout;
use crate::view::sliced;
use crate::{
    Array, DType, Error, Index, Scatter, Shape, View, allocating, cpu, normalize_axis, raise,
    user_of,
};

impl Array {
    /// Picks elements along `axis` (NumPy's `take`): the axes of `indices` (integers, of any shape)
    /// replace `axis`. Negative indices count from the end.
    ///
    /// Rows of an embedding are `table.take(&words, 0)`.
    ///
    /// # Panics
    /// Panics if `indices` are not integers, an index is out of bounds, or there is no such axis.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]);
    /// let y = x.take(&Array::from([2i64, 0, -1]), 0);
    /// assert_eq!(y.to_vec::<f64>(), [5.0, 6.0, 1.0, 2.0, 5.0, 6.0]);
    /// ```
    #[track_caller]
    pub fn take(&self, indices: &Self, axis: isize) -> Self {
        let axis = normalize_axis("take", axis, self.rank());
        let indices = &within("take", indices, self.shape(), axis);
        let _ = self.picked("take", indices.shape(), axis);
        let device = common("take", [self, indices]);
        allocating("take", || device.take(self, indices, axis))
    }

    /// The shape of the result of [`Array::take`].
    #[track_caller]
    fn picked(&self, function: &'static str, indices: &Shape, axis: usize) -> Shape {
        let (before, behind) = (&self.shape()[..axis], &self.shape()[axis + 1..]);
        let picked = before.iter().chain(indices.iter()).chain(behind);
        picked.copied().collect::<Shape>().addressable(function)
    }

    /// Adds `value` to the elements that [`Array::take`] picks, and returns the array. Values at
    /// equal indices add up in their order, whatever the number of threads (integers wrap around,
    /// bools combine by "or"). `value` is broadcast to the shape of the result of `take`. An array
    /// that no other array shares is changed in place.
    ///
    /// # Panics
    /// Panics as [`Array::take`] does, and if `value` has another dtype or its shape does not fit.
    ///
    /// ```
    /// use bibun_array::{Array, DType};
    /// let counts = Array::zeros(3, DType::I64);
    /// let counts = counts.add_at(&Array::from([2, 0, 2]), 0, &Array::from(1i64));
    /// assert_eq!(counts.to_vec::<i64>(), [1, 0, 2]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn add_at(self, indices: &Self, axis: isize, value: &Self) -> Self {
        let axis = normalize_axis("add_at", axis, self.rank());
        let indices = &within("add_at", indices, self.shape(), axis);
        let picked = self.picked("add_at", indices.shape(), axis);
        let value = fitted("add_at", value, self.dtype(), &picked);
        let device = common("add_at", [&self, indices, &value]);
        allocating("add_at", || device.add_at(self, indices, axis, &value))
    }

    /// Picks elements along `axis` with one index for each element of the result (NumPy's
    /// `take_along_axis`): `y[i][j] = x[indices[i][j]][j]` for `axis` 0 of a matrix. The shapes of
    /// `indices` (integers) and of the array are equal except along `axis`. Negative indices count
    /// from the end.
    ///
    /// # Panics
    /// Panics if `indices` are not integers, an index is out of bounds, the shapes do not fit, or
    /// there is no such axis.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    /// let y = x.gather(&Array::from([[2i64], [0]]), 1);
    /// assert_eq!(y.to_vec::<f64>(), [3.0, 4.0]);
    /// ```
    #[track_caller]
    pub fn gather(&self, indices: &Self, axis: isize) -> Self {
        let axis = normalize_axis("gather", axis, self.rank());
        expect_aligned("gather", indices, self.shape(), axis);
        let device = common("gather", [self, indices]);
        if device == cpu() {
            let (indices, complaint) = claimed("gather", indices, self.shape(), axis);
            return allocating("gather", || {
                cpu::gather_within(self, &indices, axis, complaint)
            });
        }
        let indices = &within("gather", indices, self.shape(), axis);
        allocating("gather", || device.gather(self, indices, axis))
    }

    /// Adds `value` to the elements that [`Array::gather`] picks, and returns the array. Values at
    /// equal indices add up in their order, whatever the number of threads (integers wrap around,
    /// bools combine by "or"). `value` is broadcast to the shape of `indices`. An array that no
    /// other array shares is changed in place.
    ///
    /// # Panics
    /// Panics as [`Array::gather`] does, and if `value` has another dtype or its shape does not
    /// fit.
    ///
    /// ```
    /// use bibun_array::{Array, DType};
    /// let x = Array::zeros([2, 3], DType::F64);
    /// let y = x.scatter_add(&Array::from([[2i64], [0]]), 1, &Array::from([[3.0], [4.0]]));
    /// assert_eq!(y.to_vec::<f64>(), [0.0, 0.0, 3.0, 4.0, 0.0, 0.0]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn scatter_add(self, indices: &Self, axis: isize, value: &Self) -> Self {
        let axis = normalize_axis("scatter_add", axis, self.rank());
        expect_aligned("scatter_add", indices, self.shape(), axis);
        let device = common("scatter_add", [&self, indices, value]);
        if device == cpu() {
            let (indices, complaint) = claimed("scatter_add", indices, self.shape(), axis);
            let value = fitted("scatter_add", value, self.dtype(), indices.shape());
            return allocating("scatter_add", || {
                cpu::scatter_add_within(self, &indices, axis, &value, Some(complaint))
            });
        }
        let indices = &within("scatter_add", indices, self.shape(), axis);
        let value = fitted("scatter_add", value, self.dtype(), indices.shape());
        allocating("scatter_add", || {
            device.scatter_add(self, indices, axis, &value)
        })
    }

    /// Writes `value` to the elements that [`Array::gather`] picks, by a rule for values that meet
    /// others, and returns the array. Of several values for one element, the last in row-major order is
    /// written by [`Scatter::Set`], whatever the number of threads. `value` is broadcast to the shape of
    /// `indices`. An array that no other array shares is changed in place.
    ///
    /// # Panics
    /// Panics as [`Array::gather`] does, and if `value` has another dtype, its shape does not fit, or the rule needs an
    /// order, which complex numbers do not have.
    ///
    /// ```
    /// use bibun_array::{Array, Scatter};
    /// let (x, indices) = (Array::from([1, 2, 3]), Array::from([0, 2, 0]));
    /// let y = x.clone().scatter(Scatter::Set, &indices, 0, &Array::from([7, 8, 5]));
    /// assert_eq!(y.to_vec::<i64>(), [5, 2, 8]);
    /// let y = x.scatter(Scatter::Max, &indices, 0, &Array::from([7, 0, 5]));
    /// assert_eq!(y.to_vec::<i64>(), [7, 2, 3]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn scatter(self, rule: Scatter, indices: &Self, axis: isize, value: &Self) -> Self {
        if rule != Scatter::Set && self.dtype().is_complex() {
            no_such_dtype("scatter", self.dtype());
        }
        let axis = normalize_axis("scatter", axis, self.rank());
        expect_aligned("scatter", indices, self.shape(), axis);
        let indices = &within("scatter", indices, self.shape(), axis);
        let value = fitted("scatter", value, self.dtype(), indices.shape());
        let device = common("scatter", [&self, indices, &value]);
        allocating("scatter", || {
            device.scatter(rule, self, indices, axis, &value)
        })
    }

    /// Creates an array with ones at the classes in `indices` (integers) and zeros elsewhere, along
    /// a new last axis of size `classes`. Negative indices count from the end.
    ///
    /// # Panics
    /// Panics if `indices` are not integers, an index is out of bounds, or the result has more
    /// elements than memory holds.
    ///
    /// ```
    /// use bibun_array::{Array, DType};
    /// let y = Array::one_hot(&Array::from([1i64, 0]), 3, DType::F32);
    /// assert_eq!(y.to_vec::<f32>(), [0.0, 1.0, 0.0, 1.0, 0.0, 0.0]);
    /// ```
    #[track_caller]
    pub fn one_hot(indices: &Self, classes: usize, dtype: DType) -> Self {
        let axis = indices.rank();
        let shape = indices.shape().inserted(axis, classes);
        let shape = shape.addressable("one_hot");
        let indices = within("one_hot", indices, &shape, axis).expand_dims(-1);
        let ones = Self::ones(indices.shape(), dtype);
        allocating("one_hot", || {
            let zeros = Self::zeros(shape, dtype);
            let device = common("one_hot", [&indices]);
            device.scatter_add(zeros, &indices, axis, &ones)
        })
    }

    /// Returns the indices of the elements that are not zero (or `true`), in row-major order, as
    /// the rows of an `i64` matrix `[count, rank]`. NaN is not zero.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([[0.0, 1.0], [2.0, 0.0]]);
    /// assert_eq!(x.nonzero().to_vec::<i64>(), [0, 1, 1, 0]);
    /// ```
    #[track_caller]
    pub fn nonzero(&self) -> Self {
        let device = common("nonzero", [self]);
        allocating("nonzero", || device.nonzero(self))
    }

    /// Returns the positions, in row-major order, of the elements that are not zero (or `true`).
    /// These are the positions in the flattened array that [`Array::mask_select`] picks. NaN is not
    /// zero.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([false, true, true]).flat_nonzero().to_vec::<i64>(), [1, 2]);
    /// ```
    #[track_caller]
    pub fn flat_nonzero(&self) -> Self {
        allocating("flat_nonzero", || {
            let flat = self.reshape(self.size());
            let device = common("flat_nonzero", [&flat]);
            device.nonzero(&flat).squeeze(&[1])
        })
    }

    /// Checks that all elements, of `i64`, are within `bounds`. If one is not, raises an error with
    /// the description that `what` makes from the first such element, and its position in row-major
    /// order: at once, or, if the device does not wait, when elements are next read from it.
    ///
    /// # Panics
    /// Panics if an element is out of bounds, or the dtype is not `i64`.
    ///
    /// ```
    /// use bibun_array::{attempt, Array, Error};
    /// let classes = Array::from([0i64, 7]);
    /// let what = |class| format!("there is no class {class}");
    /// let refused: Result<(), Error> =
    ///     attempt(|| classes.expect_between("loss", 0..3, what));
    /// let refused = refused.unwrap_err().to_string();
    /// assert!(refused.starts_with("loss: there is no class 7; it is element 1"));
    /// ```
    #[track_caller]
    pub fn expect_between(
        &self,
        function: &'static str,
        bounds: Range<i64>,
        what: impl Fn(i64) -> String + Send + Sync + 'static,
    ) {
        self.expect_dtype::<i64>(function);
        self.device().check(self, bounds, complaint(function, what));
    }

    /// Returns the elements where `mask` is `true`, in row-major order. The axes of `mask` are the
    /// first axes of the array, and the remaining axes stay: `[count, ..]`, as in NumPy's
    /// `x[mask]`.
    ///
    /// # Panics
    /// Panics if `mask` is not `bool`, or the shape of the array does not begin with that of
    /// `mask`.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([[1.0, 2.0], [3.0, 4.0]]);
    /// let one_by_one = x.mask_select(&Array::from([[true, false], [true, true]]));
    /// assert_eq!(one_by_one.to_vec::<f64>(), [1.0, 3.0, 4.0]);
    /// let rows = x.mask_select(&Array::from([false, true]));
    /// assert_eq!(rows.shape(), &[1, 2][..]);
    /// ```
    #[track_caller]
    pub fn mask_select(&self, mask: &Self) -> Self {
        mask.expect_dtype::<bool>("mask_select");
        if !self.shape().starts_with(mask.shape()) {
            let what = format!(
                "the mask {} does not fit the first axes of the shape {}",
                mask.shape(),
                self.shape()
            );
            raise(Error::invalid("mask_select", what));
        }
        let others = &self.shape()[mask.rank()..];
        let flat: Shape = [mask.size()].iter().chain(others).copied().collect();
        let inputs = [self.reshape(flat), mask.flat_nonzero()];
        let device = common("mask_select", &inputs);
        allocating("mask_select", || device.take(&inputs[0], &inputs[1], 0))
    }

    /// Returns the slices along `axis` at which the vector `mask` is `true`.
    ///
    /// # Panics
    /// Panics if `mask` is not a `bool` vector as long as the axis, or there is no such axis.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]);
    /// let y = x.compress(&Array::from([true, false, true]), 1);
    /// assert_eq!(y.to_vec::<f64>(), [1.0, 3.0, 4.0, 6.0]);
    /// ```
    #[track_caller]
    pub fn compress(&self, mask: &Self, axis: isize) -> Self {
        let axis = normalize_axis("compress", axis, self.rank());
        mask.expect_dtype::<bool>("compress");
        if *mask.shape() != [self.shape()[axis]] {
            let what = format!(
                "the mask {} is not a vector as long as axis {axis} of the shape {}",
                mask.shape(),
                self.shape()
            );
            raise(Error::invalid("compress", what));
        }
        let inputs = [self.clone(), mask.flat_nonzero()];
        let device = common("compress", &inputs);
        allocating("compress", || device.take(self, &inputs[1], axis))
    }

    /// Writes `value`, broadcast, over the part that [`Array::slice`] would return:
    /// `x[index] = value`. If another array shares the elements, they are copied first, so that
    /// only this array changes.
    ///
    /// # Panics
    /// Panics as [`Array::slice`] does, and if `value` has another dtype or cannot be broadcast to
    /// the part.
    ///
    /// ```
    /// use bibun_array::{s, Array, DType};
    /// let mut x = Array::zeros([2, 3], DType::F64);
    /// x.assign(s![.., 1], &Array::from([5.0, 6.0]));
    /// assert_eq!(x.to_vec::<f64>(), [0.0, 5.0, 0.0, 0.0, 6.0, 0.0]);
    /// ```
    #[track_caller]
    pub fn assign(&mut self, index: &[Index], value: &Self) {
        let part = sliced("assign", &Layout::row_major(self.shape().clone()), index);
        let value = fitted("assign", value, self.dtype(), &part.shape);
        self.write(part, &value);
    }

    /// Adds `value`, broadcast, to the part that [`Array::slice`] would return:
    /// `x[index] += value`. It works in place as [`Array::assign`] does (integers wrap around,
    /// bools combine by "or").
    ///
    /// # Panics
    /// Panics as [`Array::assign`] does.
    ///
    /// ```
    /// use bibun_array::{s, Array};
    /// let mut x = Array::from([1.0, 2.0, 3.0]);
    /// x.add_assign_slice(s![1..], &Array::from(10.0));
    /// assert_eq!(x.to_vec::<f64>(), [1.0, 12.0, 13.0]);
    /// ```
    #[track_caller]
    pub fn add_assign_slice(&mut self, index: &[Index], value: &Self) {
        let part = sliced(
            "add_assign_slice",
            &Layout::row_major(self.shape().clone()),
            index,
        );
        let value = fitted("add_assign_slice", value, self.dtype(), &part.shape);
        let old = self.slice(index);
        let sum = if self.dtype() == DType::Bool {
            old | value
        } else {
            old + value
        };
        self.write(part, &sum);
    }

    /// Writes over a window on the elements in row-major order. Shapes and dtypes are equal.
    #[track_caller]
    pub(crate) fn write(&mut self, part: Layout, value: &Self) {
        if value.size() == 0 {
            return;
        }
        let inputs = [
            std::mem::replace(self, Self::zeros((), DType::Bool)),
            value.clone(),
        ];
        let device = common("assign", &inputs);
        let [target, value] = inputs;
        *self = target;
        allocating("assign", || device.assign(self, View(part), &value));
    }
}

/// Returns the complaint about an element that is not allowed, with the caller's line.
#[track_caller]
fn complaint(
    function: &'static str,
    what: impl Fn(i64) -> String + Send + Sync + 'static,
) -> Complaint {
    let (location, user) = (crate::caller(), user_of(function));
    Arc::new(move |position, element| Error::Invalid {
        function,
        what: format!("{}; it is element {position}{user}", what(element)),
        location,
    })
}

/// Integers as `i64`, and the complaint about one that is not within the axis.
#[track_caller]
fn claimed(
    function: &'static str,
    indices: &Array,
    shape: &Shape,
    axis: usize,
) -> (Array, Complaint) {
    let shape = shape.clone();
    if !indices.dtype().is_integer() {
        let what = format!("the indices are {}, expected integers", indices.dtype());
        raise(Error::invalid(function, what));
    }
    let complaint = complaint(function, move |index| {
        format!("index {index} is outside of axis {axis} of the shape {shape}")
    });
    (indices.cast(DType::I64), complaint)
}

/// Integers as `i64`, after a check by their device that they are within the axis.
#[track_caller]
fn within(function: &'static str, indices: &Array, shape: &Shape, axis: usize) -> Array {
    let (indices, complaint) = claimed(function, indices, shape, axis);
    let size = shape[axis] as i64;
    indices.device().check(&indices, -size..size, complaint);
    indices
}

/// Raises an error unless the indices have the shape of the array, apart from `axis`.
#[track_caller]
fn expect_aligned(function: &'static str, indices: &Array, shape: &Shape, axis: usize) {
    let fits = indices.rank() == shape.rank()
        && *indices.shape() == shape.replaced(axis, indices.shape()[axis]);
    if !fits {
        let what = format!(
            "the indices {} do not fit the shape {shape} (all axes but {axis} must be equal)",
            indices.shape()
        );
        raise(Error::invalid(function, what));
    }
}

/// `value` broadcast to `shape`, after a check of its dtype.
#[track_caller]
fn fitted(function: &'static str, value: &Array, dtype: DType, shape: &Shape) -> Array {
    with_dtype!(dtype, T => value.expect_dtype::<T>(function));
    if value.shape().broadcast(shape).as_ref() != Some(shape) {
        let what = format!(
            "the value {} cannot be repeated to the shape {shape} of the part",
            value.shape()
        );
        raise(Error::invalid(function, what));
    }
    value.broadcast_to(shape)
}
