//! Windows along axes: the elements that each element of a result reads, and their sum and maximum.

use std::fmt;

use smallvec::SmallVec;

use crate::error::allocating;
use crate::placement::common;
use crate::storage::reserved;
use crate::{Array, DType, Error, Shape, raise};

/// The elements along an axis that each element of a result reads, and their weights: a sparse
/// matrix, row by row.
///
/// Pooling, resizing and their transposes are one such matrix for each axis.
///
/// ```
/// use bibun_array::{Array, Stencil};
/// // The means of neighbours.
/// let stencil = Stencil::new(3, (0..2).map(|i| [(i, 0.5), (i + 1, 0.5)]));
/// let y = Array::from([1.0, 3.0, 7.0]).reduce_window(&[stencil]);
/// assert_eq!(y.to_vec::<f64>(), [2.0, 5.0]);
/// ```
#[derive(Clone, PartialEq)]
pub struct Stencil {
    size: usize,
    /// The end of the taps of each element of the result.
    ends: Vec<usize>,
    positions: Vec<usize>,
    weights: Vec<f64>,
}

impl Stencil {
    /// Creates a stencil from the taps, as positions and weights, of each element of the result, on
    /// an axis of `size` elements.
    ///
    /// # Panics
    /// Panics if a position is not below `size`.
    #[track_caller]
    pub fn new<I: IntoIterator<Item = (usize, f64)>>(
        size: usize,
        of_each: impl IntoIterator<Item = I>,
    ) -> Self {
        let of_each = of_each.into_iter();
        let (mut ends, mut positions, mut weights) = allocating("Stencil::new", || {
            let count = of_each.size_hint().0;
            (reserved(count), reserved(count), reserved(count))
        });
        for stencil in of_each {
            for (position, weight) in stencil {
                positions.push(position);
                weights.push(weight);
            }
            ends.push(positions.len());
        }
        if let Some(position) = positions.iter().find(|&&position| position >= size) {
            let what = format!("position {position} is outside of an axis of {size} elements");
            raise(Error::invalid("Stencil::new", what));
        }
        Self {
            size,
            ends,
            positions,
            weights,
        }
    }

    /// Returns the number of elements of the axis that is read.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The order in which the sums along several axes are computed: rows are added up faster than columns, so
    /// columns are left for when there is less to add up.
    pub(crate) fn order(stencil: &[Self]) -> SmallVec<[usize; 3]> {
        let all = |of: fn(&Self) -> usize| stencil.iter().map(of).fold(1, usize::saturating_mul);
        let axes = 0..stencil.len();
        match all(Self::count) <= all(Self::size) {
            true => axes.collect(),
            false => axes.rev().collect(),
        }
    }

    /// Returns the number of elements of the result.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Returns the positions and weights of one element of the result.
    pub fn of(&self, i: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let range = self.range(i);
        let weights = self.weights[range.clone()].iter().copied();
        self.positions[range].iter().copied().zip(weights)
    }

    /// Returns the transposed matrix: the elements of the result that read each element of the
    /// axis.
    ///
    /// ```
    /// use bibun_array::Stencil;
    /// let stencil = Stencil::new(2, [[(0, 1.0)], [(1, 2.0)], [(1, 3.0)]]).transposed();
    /// assert_eq!((stencil.size(), stencil.count()), (3, 2));
    /// assert_eq!(stencil.of(1).collect::<Vec<_>>(), [(1, 2.0), (2, 3.0)]);
    /// ```
    #[must_use]
    pub fn transposed(&self) -> Self {
        let mut readers = vec![Vec::new(); self.size];
        for i in 0..self.count() {
            for (position, weight) in self.of(i) {
                readers[position].push((i, weight));
            }
        }
        Self::new(self.count(), readers)
    }

    /// The only window on an axis of one element.
    pub(crate) fn one() -> Self {
        Self::new(1, [[(0, 1.0)]])
    }

    /// The stencil on two axes joined into one, with the axis of `self` first.
    pub(crate) fn joined(&self, inner: &Self) -> Self {
        let pairs = (0..self.count()).flat_map(|i| (0..inner.count()).map(move |j| (i, j)));
        let stencil = pairs.map(|(i, j)| {
            self.of(i).flat_map(move |(position, weight)| {
                let start = position * inner.size;
                inner.of(j).map(move |(p, w)| (start + p, weight * w))
            })
        });
        Self::new(self.size * inner.size, stencil)
    }

    pub(crate) fn range(&self, i: usize) -> std::ops::Range<usize> {
        let begin = i.checked_sub(1).map_or(0, |before| self.ends[before]);
        begin..self.ends[i]
    }

    pub(crate) fn positions(&self) -> &[usize] {
        &self.positions
    }

    pub(crate) fn weights(&self) -> &[f64] {
        &self.weights
    }
}

impl fmt::Debug for Stencil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stencil({} to {})", self.size, self.count())
    }
}

impl Array {
    /// Computes weighted sums over windows on the last axes, with one `stencil` for each of these
    /// axes. Sums along an axis are computed in `f64` where they are of more than 16 elements or a weight has more than
    /// the digits of the dtype, and rounded after each axis: halves to `f32`, and once at the end.
    ///
    /// # Panics
    /// Panics if the dtype is not a float, or the array has other sizes along these axes.
    ///
    /// ```
    /// use bibun_array::{Array, Stencil};
    /// let columns = Stencil::new(2, [[(0, 1.0), (1, -1.0)]]);
    /// let y = Array::from([[5.0, 3.0], [1.0, 4.0]]).reduce_window(&[columns]);
    /// assert_eq!(y.shape(), &[2, 1][..]);
    /// assert_eq!(y.to_vec::<f64>(), [2.0, -3.0]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn reduce_window(&self, stencil: &[Stencil]) -> Self {
        let first = self.expect_windows("reduce_window", stencil);
        if !self.dtype().is_float() {
            let what = format!("{} cannot be weighted, only floats", self.dtype());
            raise(Error::invalid("reduce_window", what));
        }
        let device = common("windows", [self]);
        let mut shape = self.shape().clone();
        for axis in Stencil::order(stencil) {
            shape = shape.replaced(first + axis, stencil[axis].count());
            let _ = shape.clone().addressable("reduce_window");
        }
        allocating("reduce_window", || match stencil {
            [] => self.clone(),
            _ => device.reduce_window(self, first, stencil),
        })
    }

    /// Returns the largest element in each window on the last axes, with one `stencil` for each of
    /// these axes (weights are not read), and its position as `i64`, in row-major order over these
    /// axes. NaN counts as larger than all numbers, and of equal elements the first one is taken. Over no axes, these
    /// are the elements themselves, each at position 0.
    ///
    /// # Panics
    /// Panics if the array has other sizes along these axes or 2³² elements, or a window is empty.
    ///
    /// ```
    /// use bibun_array::{Array, Stencil};
    /// let all = || Stencil::new(2, [[(0, 1.0), (1, 1.0)]]);
    /// let (y, at) = Array::from([[1.0, 3.0], [4.0, 4.0]]).window_max(&[all(), all()]);
    /// assert_eq!((y.to_vec::<f64>(), at.to_vec::<i64>()), (vec![4.0], vec![2]));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn window_max(&self, stencil: &[Stencil]) -> (Self, Self) {
        let first = self.expect_windows("window_max", stencil);
        let Some((columns, others)) = stencil.split_last() else {
            return (self.clone(), Self::zeros(self.shape(), DType::I64));
        };
        let sees_nothing =
            |stencil: &Stencil| (0..stencil.count()).any(|i| stencil.range(i).is_empty());
        if stencil.iter().any(sees_nothing) {
            let what = "every window must see at least one element";
            raise(Error::invalid("window_max", what));
        }
        let rows = (others.iter()).fold(Stencil::one(), |rows, stencil| rows.joined(stencil));
        if u32::try_from(rows.size.saturating_mul(columns.size)).is_err() {
            let what = "there are more than 2^32 elements along the axes of the windows";
            raise(Error::invalid("window_max", what));
        }
        let in_front = &self.shape()[..first];
        let folded = in_front.iter().copied().chain([rows.size, columns.size]);
        let x = self.reshape(folded.collect::<Shape>());
        let windows = stencil.iter().map(Stencil::count);
        let shape: Shape = in_front.iter().copied().chain(windows).collect();
        let shape = shape.addressable("window_max");
        let device = common("windows", [self]);
        let (y, positions) = allocating("window_max", || device.window_max(&x, &rows, columns));
        (y.reshape(&shape), positions.reshape(&shape))
    }

    /// The first of the axes that the windows are on.
    #[track_caller]
    fn expect_windows(&self, function: &'static str, stencil: &[Stencil]) -> usize {
        let first = self.rank().checked_sub(stencil.len());
        let fits = |&first: &usize| {
            let sizes = self.shape()[first..].iter();
            sizes
                .zip(stencil)
                .all(|(&size, stencil)| size == stencil.size)
        };
        match first.filter(fits) {
            Some(first) => first,
            None => {
                let what = format!("{stencil:?} do not fit the last axes of {}", self.shape());
                raise(Error::invalid(function, what))
            }
        }
    }
}
