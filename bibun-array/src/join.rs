//! Joining, splitting, repeating and shifting arrays. Everything is done by views and
//! [`Device::assign`](crate::Device::assign), which copies contiguous parts whole.

use smallvec::SmallVec;

use crate::placement::common;
use crate::shape::Layout;
use crate::view::sliced;
use crate::{Array, Error, Index, Scalar, Shape, allocating, normalize_axis, raise};

/// Concatenates arrays along `axis`. Their sizes along all other axes and their dtypes are equal.
///
/// # Panics
/// Panics if there are no arrays, no such axis, or the shapes or dtypes do not fit.
///
/// ```
/// use bibun_array::{concat, Array};
/// let x = Array::from([[1.0, 2.0]]);
/// let y = concat(&[&x, &x, &x], 0);
/// assert_eq!(y.shape(), &[3, 2][..]);
/// ```
#[track_caller]
pub fn concat(arrays: &[&Array], axis: isize) -> Array {
    let first = same_dtype("concat", arrays);
    let axis = normalize_axis("concat", axis, first.rank());
    for array in arrays {
        let fits = array.rank() == first.rank()
            && *array.shape() == first.shape().replaced(axis, array.shape()[axis]);
        if !fits {
            let what = format!(
                "the shapes {} and {} do not fit (all axes but {axis} must be equal)",
                first.shape(),
                array.shape()
            );
            raise(Error::invalid("concat", what));
        }
    }
    if let [only] = arrays {
        return Array::clone(only);
    }
    let sizes = arrays.iter().map(|array| array.shape()[axis]);
    let size = sizes.fold(0, usize::saturating_add);
    let shape = first.shape().replaced(axis, size).addressable("concat");
    let inputs: Vec<Array> = arrays.iter().copied().cloned().collect();
    let device = common("concat", &inputs);
    allocating("concat", || {
        let mut joined = device.empty(&shape, first.dtype());
        let mut start = 0;
        for array in inputs {
            let stop = start + array.shape()[axis];
            joined.write(along(joined.shape(), axis, start, stop), &array);
            start = stop;
        }
        joined
    })
}

/// Stacks arrays, all of one shape and dtype, along a new axis at `axis`, which may be the rank (or
/// `-1`: after all axes).
///
/// # Panics
/// Panics if there are no arrays, no such axis, or the shapes or dtypes differ.
///
/// ```
/// use bibun_array::{stack, Array};
/// let y = stack(&[&Array::from([1.0, 2.0]), &Array::from([3.0, 4.0])], 1);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 3.0, 2.0, 4.0]);
/// ```
#[track_caller]
pub fn stack(arrays: &[&Array], axis: isize) -> Array {
    let first = same_dtype("stack", arrays);
    let axis = normalize_axis("stack", axis, first.rank() + 1) as isize;
    if let Some(other) = arrays.iter().find(|array| array.shape() != first.shape()) {
        let what = format!("the shapes {} and {} differ", first.shape(), other.shape());
        raise(Error::invalid("stack", what));
    }
    let layers: Vec<Array> = arrays.iter().map(|array| array.expand_dims(axis)).collect();
    concat(&layers.iter().collect::<Vec<_>>(), axis)
}

impl Array {
    /// Splits the array into `sections` views of equal size along `axis`.
    ///
    /// # Panics
    /// Panics if the axis cannot be cut into equal sections (see [`Array::array_split`]) or does
    /// not exist.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let parts = Array::arange(0, 6).split(2, 0);
    /// assert_eq!(parts[1].to_vec::<i64>(), [3, 4, 5]);
    /// ```
    #[track_caller]
    pub fn split(&self, sections: usize, axis: isize) -> Vec<Self> {
        let axis = normalize_axis("split", axis, self.rank());
        if sections == 0 || !self.shape()[axis].is_multiple_of(sections) {
            let what = format!(
                "axis {axis} of the shape {} cannot be cut into {sections} equal sections",
                self.shape()
            );
            raise(Error::invalid("split", what));
        }
        self.array_split(sections, axis as isize)
    }

    /// Splits the array into `sections` views along `axis` whose sizes differ by at most one, the
    /// larger ones first.
    ///
    /// # Panics
    /// Panics if `sections` is zero or there is no such axis.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let parts = Array::arange(0, 5).array_split(3, 0);
    /// let sizes: Vec<usize> = parts.iter().map(Array::size).collect();
    /// assert_eq!(sizes, [2, 2, 1]);
    /// ```
    #[track_caller]
    pub fn array_split(&self, sections: usize, axis: isize) -> Vec<Self> {
        let axis = normalize_axis("array_split", axis, self.rank());
        if sections == 0 {
            raise(Error::invalid("array_split", "no sections are asked for"));
        }
        let size = self.shape()[axis];
        let (each, larger) = (size / sections, size % sections);
        let start = |section: usize| section * each + section.min(larger);
        (0..sections)
            .map(|section| self.part(axis, start(section), start(section + 1)))
            .collect()
    }

    /// Splits the array into views along `axis`, cut before each of `positions`: from the start to
    /// the first position, from there to the second, and from the last to the end. Positions beyond
    /// the end make empty views.
    ///
    /// # Panics
    /// Panics if the positions are not in ascending order or there is no such axis.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let parts = Array::arange(0, 5).split_at(&[1, 3], 0);
    /// assert_eq!(parts[1].to_vec::<i64>(), [1, 2]);
    /// assert_eq!(parts[2].to_vec::<i64>(), [3, 4]);
    /// ```
    #[track_caller]
    pub fn split_at(&self, positions: &[usize], axis: isize) -> Vec<Self> {
        let axis = normalize_axis("split_at", axis, self.rank());
        if !positions.is_sorted() {
            let what = format!("the positions {positions:?} are not in ascending order");
            raise(Error::invalid("split_at", what));
        }
        let size = self.shape()[axis];
        let cuts = positions.iter().map(|&position| position.min(size));
        let starts = std::iter::once(0).chain(cuts.clone());
        let stops = cuts.chain([size]);
        starts
            .zip(stops)
            .map(|(start, stop)| self.part(axis, start, stop))
            .collect()
    }

    /// Repeats the array as a whole, `repeats[i]` times along axis `i`. If there are fewer repeats
    /// than axes, they are for the last axes; if there are more, the array gets new axes in front.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([1.0, 2.0]);
    /// assert_eq!(x.tile(&[2]).to_vec::<f64>(), [1.0, 2.0, 1.0, 2.0]);
    /// assert_eq!(x.tile(&[3, 1]).shape(), &[3, 2][..]);
    /// ```
    ///
    /// # Panics
    /// Panics if the result has more elements than memory holds.
    #[must_use]
    #[track_caller]
    pub fn tile(&self, repeats: &[usize]) -> Self {
        let rank = self.rank().max(repeats.len());
        let from_back =
            |values: &[usize], axis: usize| match (axis + values.len()).checked_sub(rank) {
                Some(axis) => values[axis],
                None => 1,
            };
        let pairs = (0..rank).map(|axis| (from_back(repeats, axis), from_back(self.shape(), axis)));
        let apart: Shape = pairs.clone().flat_map(|(_, size)| [1, size]).collect();
        let repeated: Shape = pairs
            .clone()
            .flat_map(|(times, size)| [times, size])
            .collect();
        let tiled: Shape = pairs
            .map(|(times, size)| times.saturating_mul(size))
            .collect();
        let (repeated, tiled) = (repeated.addressable("tile"), tiled.addressable("tile"));
        allocating("tile", || {
            self.reshape(apart).broadcast_to(repeated).reshape(tiled)
        })
    }

    /// Repeats each element along `axis` `times` times, with its repeats side by side.
    ///
    /// # Panics
    /// Panics if there is no such axis, or the result has more elements than memory holds.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([1.0, 2.0]);
    /// assert_eq!(x.repeat(2, 0).to_vec::<f64>(), [1.0, 1.0, 2.0, 2.0]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn repeat(&self, times: usize, axis: isize) -> Self {
        let axis = normalize_axis("repeat", axis, self.rank());
        let size = self.shape()[axis].saturating_mul(times);
        let repeated = self.shape().inserted(axis + 1, times).addressable("repeat");
        let joined = self.shape().replaced(axis, size).addressable("repeat");
        allocating("repeat", || {
            self.expand_dims(axis as isize + 1)
                .broadcast_to(repeated)
                .reshape(joined)
        })
    }

    /// Pads the array with `value`: `widths[i]` elements before and after axis `i`.
    ///
    /// # Panics
    /// Panics if there is not one pair of widths for each axis, or the result has more elements
    /// than memory holds.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([1.0, 2.0]).pad(&[(1, 2)], 0.0);
    /// assert_eq!(x.to_vec::<f64>(), [0.0, 1.0, 2.0, 0.0, 0.0]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn pad(&self, widths: &[(usize, usize)], value: impl Into<Scalar>) -> Self {
        if widths.len() != self.rank() {
            let what = format!(
                "{} pairs of widths for the shape {}",
                widths.len(),
                self.shape()
            );
            raise(Error::invalid("pad", what));
        }
        let sizes = self.shape().iter().zip(widths);
        let shape: Shape = sizes
            .clone()
            .map(|(size, (before, after))| before.saturating_add(*size).saturating_add(*after))
            .collect();
        let shape = shape.addressable("pad");
        let inside: SmallVec<[Index; 4]> = sizes
            .map(|(&size, &(before, _))| Index::from(before..before + size))
            .collect();
        let mut padded = Self::full(shape, value.into().beside(self.dtype()).cast(self.dtype()));
        allocating("pad", || padded.assign(&inside, self));
        padded
    }

    /// Shifts the elements by `shift` along `axis`. Elements that leave at the end come in at the
    /// start. A negative shift moves towards the start.
    ///
    /// # Panics
    /// Panics if there is no such axis.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::arange(0, 5).roll(2, 0).to_vec::<i64>(), [3, 4, 0, 1, 2]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn roll(&self, shift: isize, axis: isize) -> Self {
        let axis = normalize_axis("roll", axis, self.rank());
        let size = self.shape()[axis];
        let split = match size {
            0 => 0,
            _ => size - shift.rem_euclid(size as isize) as usize,
        };
        let parts = [self.part(axis, split, size), self.part(axis, 0, split)];
        concat(&[&parts[0], &parts[1]], axis as isize)
    }

    /// Returns the lower triangle of the last two axes, with zeros above the diagonal `offset`
    /// (positive to the upper right).
    ///
    /// # Panics
    /// Panics if there are fewer than two axes.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.tril(0).to_vec::<f64>(), [1.0, 0.0, 3.0, 4.0]);
    /// assert_eq!(x.tril(-1).to_vec::<f64>(), [0.0, 0.0, 3.0, 0.0]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn tril(&self, offset: isize) -> Self {
        self.with_zeros_in_rows("tril", |row, columns| {
            let first = (row as isize + 1).saturating_add(offset);
            first.clamp(0, columns as isize) as usize..columns
        })
    }

    /// Returns the upper triangle of the last two axes, with zeros below the diagonal `offset`
    /// (positive to the upper right).
    ///
    /// # Panics
    /// Panics if there are fewer than two axes.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([[1.0, 2.0], [3.0, 4.0]]);
    /// assert_eq!(x.triu(0).to_vec::<f64>(), [1.0, 2.0, 0.0, 4.0]);
    /// assert_eq!(x.triu(1).to_vec::<f64>(), [0.0, 2.0, 0.0, 0.0]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn triu(&self, offset: isize) -> Self {
        self.with_zeros_in_rows("triu", |row, columns| {
            let stop = (row as isize).saturating_add(offset);
            0..stop.clamp(0, columns as isize) as usize
        })
    }

    /// Creates square matrices that have the vectors of the last axis on the diagonal `offset`
    /// (positive to the upper right) and zeros elsewhere. [`Array::diagonal`] is the inverse.
    ///
    /// # Panics
    /// Panics if the array has no axes, or the matrices have more elements than memory holds.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let y = Array::from([1.0, 2.0]).diag(0);
    /// assert_eq!(y.to_vec::<f64>(), [1.0, 0.0, 0.0, 2.0]);
    /// assert_eq!(Array::from([1.0, 2.0]).diag(-1).shape(), &[3, 3][..]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn diag(&self, offset: isize) -> Self {
        let axis = normalize_axis("diag", -1, self.rank());
        let size = self.shape()[axis].saturating_add(offset.unsigned_abs());
        let shape = self.shape().replaced(axis, size).inserted(axis, size);
        let shape = shape.addressable("diag");
        let mut part = Layout::row_major(shape.clone());
        let (outer, matrix) = part.strides.split_at(axis);
        let step: isize = matrix.iter().sum();
        part.strides = outer.iter().copied().chain([step]).collect();
        part.shape = self.shape().clone();
        part.offset = match offset < 0 {
            true => offset.unsigned_abs() * size,
            false => offset.unsigned_abs(),
        };
        let mut matrices = Self::zeros(shape, self.dtype());
        allocating("diag", || matrices.write(part, self));
        matrices
    }

    /// A copy with zeros in the columns that `zeros(row, columns)` returns for each row of the last
    /// two axes.
    #[track_caller]
    fn with_zeros_in_rows(
        &self,
        function: &'static str,
        zeros: impl Fn(usize, usize) -> std::ops::Range<usize>,
    ) -> Self {
        let &[.., rows, columns] = &**self.shape() else {
            let what = format!("needs at least two axes, the shape is {}", self.shape());
            raise(Error::invalid(function, what))
        };
        let mut result = self.clone();
        let zero = Self::zeros((), self.dtype());
        for row in 0..rows {
            let part = [Index::Ellipsis, row.into(), zeros(row, columns).into()];
            result.assign(&part, &zero);
        }
        result
    }

    /// The view of `start..stop` along an axis.
    fn part(&self, axis: usize, start: usize, stop: usize) -> Self {
        self.with_layout(sliced("split", self.layout(), &range_of(axis, start, stop)))
    }
}

/// The layout of `start..stop` along an axis of a row-major array.
fn along(shape: &Shape, axis: usize, start: usize, stop: usize) -> Layout {
    let layout = Layout::row_major(shape.clone());
    sliced("concat", &layout, &range_of(axis, start, stop))
}

fn range_of(axis: usize, start: usize, stop: usize) -> SmallVec<[Index; 4]> {
    let before = std::iter::repeat_n(Index::ALL, axis);
    before.chain([Index::from(start..stop)]).collect()
}

/// The first of the arrays, after a check that there is one and that all have its dtype.
#[track_caller]
fn same_dtype<'a>(function: &'static str, arrays: &[&'a Array]) -> &'a Array {
    let Some(&first) = arrays.first() else {
        raise(Error::invalid(function, "there are no arrays"))
    };
    if let Some(other) = arrays.iter().find(|array| array.dtype() != first.dtype()) {
        let what = format!("the dtypes {} and {} differ", first.dtype(), other.dtype());
        raise(Error::invalid(function, what));
    }
    first
}
