//! Views: new shapes over the same elements. None of them copies, except `reshape` of an array
//! whose elements are not in row-major order.

use smallvec::SmallVec;

use crate::axes::{normalize_axes, normalize_axis};
use crate::error::allocating;
use crate::placement::common;
use crate::shape::{Layout, Strides};
use crate::{Array, Error, NewShape, Shape, raise};

/// The index of one axis, as [`Array::slice`] takes it for each axis.
///
/// It is made from a Rust range (`1..3`, `..`, `-2..`), an integer (which removes the axis), or by
/// [`s!`](crate::s) and the constructors here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Index {
    /// One element; the axis is removed. A negative number counts from the end.
    At(isize),
    /// `start..stop` in steps. Omitted bounds run to the ends, negative ones count from the end,
    /// and bounds outside the axis are cut off, all as in Python.
    Range {
        /// The first element. Defaults to the first one in the direction of the step.
        start: Option<isize>,
        /// The end, not included.
        stop: Option<isize>,
        /// The step, which is not zero and may be negative.
        step: isize,
    },
    /// A new axis of size 1.
    NewAxis,
    /// All axes that the other indices leave over, whole.
    Ellipsis,
}

impl Index {
    /// The whole axis.
    pub const ALL: Self = Self::Range {
        start: None,
        stop: None,
        step: 1,
    };

    /// Returns the same range with another step.
    ///
    /// # Panics
    /// Panics if the step is zero or this is not a range.
    #[must_use]
    #[track_caller]
    pub fn step_by(self, step: isize) -> Self {
        match self {
            Self::Range { start, stop, .. } if step != 0 => Self::Range { start, stop, step },
            _ => raise(Error::invalid(
                "step_by",
                format!("no step {step} of {self:?}"),
            )),
        }
    }
}

/// A position outside of the range of `isize` is behind the end of every axis, as the largest is.
fn signed(bound: impl TryInto<isize>) -> isize {
    bound.try_into().unwrap_or(isize::MAX)
}

macro_rules! index_from {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Index {
            fn from(at: $integer) -> Self {
                Self::At(signed(at))
            }
        }
        impl From<std::ops::Range<$integer>> for Index {
            fn from(range: std::ops::Range<$integer>) -> Self {
                let (start, stop) = (signed(range.start), signed(range.end));
                Self::Range { start: Some(start), stop: Some(stop), step: 1 }
            }
        }
        impl From<std::ops::RangeFrom<$integer>> for Index {
            fn from(range: std::ops::RangeFrom<$integer>) -> Self {
                Self::Range { start: Some(signed(range.start)), stop: None, step: 1 }
            }
        }
        impl From<std::ops::RangeTo<$integer>> for Index {
            fn from(range: std::ops::RangeTo<$integer>) -> Self {
                Self::Range { start: None, stop: Some(signed(range.end)), step: 1 }
            }
        }
    )*};
}
index_from!(isize, i8, i16, i32, i64, usize, u8, u16, u32, u64);
impl From<std::ops::RangeFull> for Index {
    fn from(_: std::ops::RangeFull) -> Self {
        Self::ALL
    }
}

/// Creates the index of [`Array::slice`] in NumPy's notation: ranges, integers,
/// `start..stop; step`, `new` for a new axis and `...` for the axes left over.
///
/// ```
/// use bibun_array::{s, Array};
/// let x = Array::arange(0, 12).reshape([3, 4]);
/// assert_eq!(x.slice(s![1, ..; -1]).to_vec::<i64>(), [7, 6, 5, 4]);
/// assert_eq!(x.slice(s![..2, new, -1]).shape(), &[2, 1][..]);
/// ```
#[macro_export]
macro_rules! s {
    (@list [$($done:expr),*]) => { &[$($done),*][..] };
    (@list [$($done:expr),*] new $(, $($rest:tt)*)?) => {
        $crate::s!(@list [$($done,)* $crate::Index::NewAxis] $($($rest)*)?)
    };
    (@list [$($done:expr),*] ... $(, $($rest:tt)*)?) => {
        $crate::s!(@list [$($done,)* $crate::Index::Ellipsis] $($($rest)*)?)
    };
    (@list [$($done:expr),*] $range:expr; $step:expr $(, $($rest:tt)*)?) => {
        $crate::s!(@list [$($done,)* $crate::Index::from($range).step_by($step)] $($($rest)*)?)
    };
    (@list [$($done:expr),*] $index:expr $(, $($rest:tt)*)?) => {
        $crate::s!(@list [$($done,)* $crate::Index::from($index)] $($($rest)*)?)
    };
    ($($index:tt)*) => { $crate::s!(@list [] $($index)*) };
}

impl Array {
    /// Returns the elements in another shape, in row-major order. They are copied only if their
    /// order in memory requires it.
    ///
    /// One size may be -1: it is computed from the others.
    ///
    /// # Panics
    /// Panics if the shapes have different sizes.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::arange(0, 6).reshape([2, 3]).shape(), &[2, 3][..]);
    /// assert_eq!(Array::arange(0, 6).reshape([-1, 2]).shape(), &[3, 2][..]);
    /// ```
    #[track_caller]
    pub fn reshape(&self, shape: impl Into<NewShape>) -> Self {
        let shape = match shape.into().resolve(self.shape()) {
            Ok(shape) => shape,
            Err(what) => raise(Error::invalid("reshape", what)),
        };
        let shape = shape.addressable("reshape");
        if let Some(value) = self.inline() {
            return Self::constant(value, shape);
        }
        match reshaped_strides(self.layout(), &shape) {
            Some(strides) => self.with_layout(Layout {
                shape,
                strides,
                offset: self.layout().offset,
            }),
            None => {
                let copy = allocating("reshape", || common("reshape", [self]).copy(self));
                copy.with_layout(Layout::row_major(shape))
            }
        }
    }

    /// Returns a view with the axes in another order.
    ///
    /// # Panics
    /// Panics if `axes` does not name each axis exactly once.
    ///
    /// ```
    /// use bibun_array::{Array, DType};
    /// let x = Array::zeros([2, 3, 4], DType::F32);
    /// assert_eq!(x.permute(&[2, 0, 1]).shape(), &[4, 2, 3][..]);
    /// ```
    #[track_caller]
    pub fn permute(&self, axes: &[isize]) -> Self {
        let rank = self.rank();
        if axes.len() != rank {
            let what = format!(
                "{} axes in {axes:?} for the shape {}",
                axes.len(),
                self.shape()
            );
            raise(Error::invalid("permute", what));
        }
        normalize_axes("permute", axes, rank);
        let axes = axes.iter();
        self.with_axes(axes.map(|&axis| normalize_axis("permute", axis, rank)))
    }

    /// Returns a view with the axes in reverse order: the transpose of a matrix.
    pub fn transpose(&self) -> Self {
        self.with_axes((0..self.rank()).rev())
    }

    /// The view with all axes in some order.
    fn with_axes(&self, axes: impl Iterator<Item = usize> + Clone) -> Self {
        let Layout {
            shape,
            strides,
            offset,
        } = self.layout();
        self.with_layout(Layout {
            shape: axes.clone().map(|axis| shape[axis]).collect(),
            strides: axes.map(|axis| strides[axis]).collect(),
            offset: *offset,
        })
    }

    /// Returns a view with two axes exchanged.
    ///
    /// # Panics
    /// Panics if there is no such axis.
    #[track_caller]
    pub fn swapaxes(&self, a: isize, b: isize) -> Self {
        let (a, b) = (
            normalize_axis("swapaxes", a, self.rank()),
            normalize_axis("swapaxes", b, self.rank()),
        );
        let mut axes: SmallVec<[isize; 4]> = (0..self.rank() as isize).collect();
        axes.swap(a, b);
        self.permute(&axes)
    }

    /// Returns a view with one axis moved to another position. The other axes keep their order.
    ///
    /// # Panics
    /// Panics if there is no such axis.
    #[track_caller]
    pub fn moveaxis(&self, from: isize, to: isize) -> Self {
        let from = normalize_axis("moveaxis", from, self.rank());
        let to = normalize_axis("moveaxis", to, self.rank());
        let mut axes: SmallVec<[isize; 4]> = (0..self.rank() as isize).collect();
        let axis = axes.remove(from);
        axes.insert(to, axis);
        self.permute(&axes)
    }

    /// Inserts a new axis of size 1 before `axis`, which may be the rank (or `-1`: after all axes).
    ///
    /// # Panics
    /// Panics if `axis` is greater than the rank.
    #[track_caller]
    pub fn expand_dims(&self, axis: isize) -> Self {
        let axis = normalize_axis("expand_dims", axis, self.rank() + 1);
        let (outer, inner) = self.layout().strides.split_at(axis);
        let strides = outer.iter().chain(&[0]).chain(inner).copied().collect();
        let shape = self.shape().inserted(axis, 1);
        self.with_layout(Layout {
            shape,
            strides,
            offset: self.layout().offset,
        })
    }

    /// Removes the named axes, which must have size 1. If none is named, removes all axes of size
    /// 1.
    ///
    /// # Panics
    /// Panics if an axis has another size or does not exist.
    #[track_caller]
    pub fn squeeze(&self, axes: &[isize]) -> Self {
        let mut gone = normalize_axes("squeeze", axes, self.rank());
        if let Some(&axis) = gone.iter().find(|&&axis| self.shape()[axis] != 1) {
            let what = format!("axis {axis} of the shape {} is not of size 1", self.shape());
            raise(Error::invalid("squeeze", what));
        }
        if axes.is_empty() {
            gone = (0..self.rank())
                .filter(|&axis| self.shape()[axis] == 1)
                .collect();
        }
        let kept = (0..self.rank()).filter(|axis| !gone.contains(axis));
        let Layout {
            shape,
            strides,
            offset,
        } = self.layout();
        self.with_layout(Layout {
            shape: kept.clone().map(|axis| shape[axis]).collect(),
            strides: kept.map(|axis| strides[axis]).collect(),
            offset: *offset,
        })
    }

    /// Repeats axes of size 1, and adds new axes in front, until the shape is `shape`. The result
    /// is a view in which repeats have stride 0.
    ///
    /// # Panics
    /// Panics if the array cannot be broadcast to the shape.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([1.0, 2.0]).broadcast_to([3, 2]);
    /// assert_eq!(x.to_vec::<f64>(), [1.0, 2.0, 1.0, 2.0, 1.0, 2.0]);
    /// ```
    #[track_caller]
    pub fn broadcast_to(&self, shape: impl Into<Shape>) -> Self {
        let shape = shape.into();
        if !self.shape().broadcasts_to(&shape) {
            raise(Error::invalid(
                "broadcast_to",
                format!("x {} cannot be repeated to the shape {shape}", self.shape()),
            ));
        }
        if shape == *self.shape() {
            return self.clone();
        }
        let shape = shape.addressable("broadcast_to");
        let new = shape.rank() - self.rank();
        let strides = (0..shape.rank()).map(|axis| match axis.checked_sub(new) {
            Some(old) if self.shape()[old] == shape[axis] => self.layout().strides[old],
            _ => 0,
        });
        let strides = strides.collect();
        self.with_layout(Layout {
            shape,
            strides,
            offset: self.layout().offset,
        })
    }

    /// Returns a view of a part of the array; see [`s!`](crate::s) for its notation. Axes that are
    /// not mentioned are taken whole.
    ///
    /// # Panics
    /// Panics if there are more indices than axes, or an integer index is out of bounds.
    ///
    /// ```
    /// use bibun_array::{s, Array};
    /// let x = Array::arange(0, 6).reshape([2, 3]);
    /// assert_eq!(x.slice(s![.., 1]).to_vec::<i64>(), [1, 4]);
    /// ```
    #[track_caller]
    pub fn slice(&self, index: &[Index]) -> Self {
        self.with_layout(sliced("slice", self.layout(), index))
    }

    /// Returns a view with the elements in reverse order along `axes`, or along all axes if none is
    /// named.
    ///
    /// # Panics
    /// Panics if there is no such axis.
    #[track_caller]
    pub fn flip(&self, axes: &[isize]) -> Self {
        let axes = normalize_axes("flip", axes, self.rank());
        let index: SmallVec<[Index; 4]> = (0..self.rank())
            .map(|axis| match axes.is_empty() || axes.contains(&axis) {
                true => Index::ALL.step_by(-1),
                false => Index::ALL,
            })
            .collect();
        self.slice(&index)
    }

    /// Returns a view of a diagonal of the last two axes, as the last axis. A positive `offset` is
    /// to the upper right.
    ///
    /// # Panics
    /// Panics if there are fewer than two axes.
    #[track_caller]
    pub fn diagonal(&self, offset: isize) -> Self {
        let Some(rows) = self.rank().checked_sub(2) else {
            let what = format!("needs at least two axes, the shape is {}", self.shape());
            raise(Error::invalid("diagonal", what))
        };
        let Layout {
            shape,
            strides,
            offset: first,
        } = self.layout();
        let (down, right) = match offset < 0 {
            true => (offset.unsigned_abs(), 0),
            false => (0, offset.unsigned_abs()),
        };
        let length = shape[rows]
            .saturating_sub(down)
            .min(shape[rows + 1].saturating_sub(right));
        let first = if length == 0 || shape.size() == 0 {
            *first
        } else {
            let steps = down as isize * strides[rows] + right as isize * strides[rows + 1];
            first.strict_add_signed(steps)
        };
        self.with_layout(Layout {
            shape: shape[..rows].iter().copied().chain([length]).collect(),
            strides: strides[..rows]
                .iter()
                .copied()
                .chain([strides[rows] + strides[rows + 1]])
                .collect(),
            offset: first,
        })
    }
}

/// The window that an index cuts out.
#[track_caller]
pub(crate) fn sliced(function: &'static str, layout: &Layout, index: &[Index]) -> Layout {
    let Layout {
        shape,
        strides,
        offset,
    } = layout;
    let used = index
        .iter()
        .filter(|i| matches!(i, Index::At(_) | Index::Range { .. }))
        .count();
    let ellipses = index
        .iter()
        .filter(|i| matches!(i, Index::Ellipsis))
        .count();
    if used > shape.rank() || ellipses > 1 {
        let what = format!("the index {index:?} does not fit the shape {shape}");
        raise(Error::invalid(function, what));
    }
    let rest = if ellipses == 1 {
        &[][..]
    } else {
        &[Index::Ellipsis][..]
    };
    let mut axis = 0;
    let mut offset = *offset as isize;
    let (mut sizes, mut steps) = (SmallVec::<[usize; 4]>::new(), SmallVec::<[isize; 4]>::new());
    for part in index.iter().chain(rest) {
        match *part {
            Index::At(at) => {
                let size = shape[axis];
                let normal = if at < 0 { at + size as isize } else { at };
                if normal < 0 || normal >= size as isize {
                    let what = format!("index {at} is outside of axis {axis} of the shape {shape}");
                    raise(Error::invalid(function, what));
                }
                offset += normal * strides[axis];
                axis += 1;
            }
            Index::Range { start, stop, step } => {
                let (first, count) = resolve_range(start, stop, step, shape[axis]);
                if count > 0 {
                    offset += first * strides[axis];
                }
                sizes.push(count);
                // A step that leads out of the axis is never taken.
                steps.push(if count > 1 {
                    strides[axis] * step
                } else {
                    strides[axis]
                });
                axis += 1;
            }
            Index::NewAxis => {
                sizes.push(1);
                steps.push(0);
            }
            Index::Ellipsis => {
                for _ in 0..shape.rank() - used {
                    sizes.push(shape[axis]);
                    steps.push(strides[axis]);
                    axis += 1;
                }
            }
        }
    }
    // An empty window could start beyond the end of the memory.
    if sizes.contains(&0) {
        offset = 0;
    }
    Layout {
        shape: sizes.into_iter().collect(),
        strides: steps.into_iter().collect(),
        offset: usize::try_from(offset).expect("an index within bounds starts within bounds"),
    }
}

/// The first element and the number of elements of a Python slice of an axis.
fn resolve_range(
    start: Option<isize>,
    stop: Option<isize>,
    step: isize,
    size: usize,
) -> (isize, usize) {
    let size = size as isize;
    let (low, high) = if step > 0 { (0, size) } else { (-1, size - 1) };
    let resolve = |bound: Option<isize>, default| match bound {
        Some(bound) if bound < 0 => (bound + size).clamp(low, high),
        Some(bound) => bound.clamp(low, high),
        None => default,
    };
    let (start, stop) = match step > 0 {
        true => (resolve(start, low), resolve(stop, high)),
        false => (resolve(start, high), resolve(stop, low)),
    };
    let span = if step > 0 { stop - start } else { start - stop };
    (
        start,
        span.max(0).unsigned_abs().div_ceil(step.unsigned_abs()),
    )
}

/// The strides with which `shape` has the elements of `layout` in row-major order, if there are
/// such: each group of axes that split or join must be evenly spaced.
fn reshaped_strides(layout: &Layout, shape: &Shape) -> Option<Strides> {
    if layout.is_row_major() {
        return Some(shape.row_major());
    }
    let old: SmallVec<[(usize, isize); 4]> = (layout.shape.iter().copied())
        .zip(layout.strides.iter().copied())
        .filter(|&(size, _)| size != 1)
        .collect();
    let mut strides: SmallVec<[isize; 4]> = SmallVec::from_elem(0, shape.rank());
    let (mut from, mut to) = (old.len(), shape.rank());
    while from > 0 {
        // Take axes from the back on either side until both groups have the same number of
        // elements.
        let (from_end, to_end) = (from, to);
        from -= 1;
        let mut from_size = old[from].0;
        let mut to_size = 1;
        while to_size != from_size {
            if to_size < from_size {
                to -= 1;
                to_size *= shape[to];
            } else {
                from -= 1;
                from_size *= old[from].0;
            }
        }
        for pair in old[from..from_end].windows(2) {
            if pair[0].1 != pair[1].1 * pair[1].0 as isize {
                return None;
            }
        }
        let mut step = old[from_end - 1].1;
        for axis in (to..to_end).rev() {
            strides[axis] = step;
            step *= shape[axis] as isize;
        }
    }
    Some(strides.into_iter().collect())
}
