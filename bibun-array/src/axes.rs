//! Axes as arguments of functions.

use smallvec::SmallVec;

use crate::{Error, raise};

/// The axes that a function works along: `..` for all, `1`, `-1`, `[0, -1]`, `&[0, -1]`, a `Vec<isize>`.
/// [`keep_dims`] around them leaves them in the result with size 1.
///
/// ```
/// use bibun_array::{keep_dims, Axes};
/// let (axes, keep) = Axes::from([0, -1]).resolve("sum", 3);
/// assert_eq!((&axes[..], keep), (&[0, 2][..], false));
/// let (axes, keep) = keep_dims(..).resolve("sum", 2);
/// assert_eq!((&axes[..], keep), (&[0, 1][..], true));
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Axes {
    /// `None` for all axes.
    axes: Option<SmallVec<[isize; 4]>>,
    keep_dims: bool,
}

/// Returns the same axes, to be left in the result with size 1.
///
/// ```
/// use bibun_array::{keep_dims, Array};
/// let x = Array::from([[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(x.sum(keep_dims(1)).shape(), &[2, 1][..]);
/// ```
pub fn keep_dims(axes: impl Into<Axes>) -> Axes {
    Axes {
        keep_dims: true,
        ..axes.into()
    }
}

impl Axes {
    /// Creates axes from numbers, which may be negative. An empty list means no axes.
    pub fn new(axes: &[isize]) -> Self {
        Self {
            axes: Some(SmallVec::from_slice(axes)),
            keep_dims: false,
        }
    }

    /// Returns the axes of an array of this rank in their order, of which one may be named twice.
    ///
    /// # Panics
    /// Panics if there is no such axis.
    #[track_caller]
    pub fn in_order(&self, function: &'static str, rank: usize) -> SmallVec<[usize; 4]> {
        let Some(axes) = &self.axes else {
            return (0..rank).collect();
        };
        // A loop, because a closure would not know the line of the call.
        let mut normal = SmallVec::new();
        for &axis in axes {
            normal.push(normalize_axis(function, axis, rank));
        }
        normal
    }

    /// Returns the axes of an array of this rank, sorted, and whether they stay with size 1.
    ///
    /// # Panics
    /// Panics if there is no such axis or one is named twice.
    #[track_caller]
    pub fn resolve(&self, function: &'static str, rank: usize) -> (SmallVec<[usize; 4]>, bool) {
        let axes = match &self.axes {
            None => (0..rank).collect(),
            Some(axes) => normalize_axes(function, axes, rank),
        };
        (axes, self.keep_dims)
    }
}

impl From<std::ops::RangeFull> for Axes {
    fn from(_: std::ops::RangeFull) -> Self {
        Self {
            axes: None,
            keep_dims: false,
        }
    }
}
impl From<isize> for Axes {
    fn from(axis: isize) -> Self {
        Self::new(&[axis])
    }
}
impl From<i32> for Axes {
    fn from(axis: i32) -> Self {
        Self::new(&[axis as isize])
    }
}
impl From<&[isize]> for Axes {
    fn from(axes: &[isize]) -> Self {
        Self::new(axes)
    }
}
impl<const N: usize> From<&[isize; N]> for Axes {
    fn from(axes: &[isize; N]) -> Self {
        Self::new(axes)
    }
}
impl<const N: usize> From<[isize; N]> for Axes {
    fn from(axes: [isize; N]) -> Self {
        Self::new(&axes)
    }
}
impl From<usize> for Axes {
    fn from(axis: usize) -> Self {
        Self::new(&[from_front(axis)])
    }
}
impl From<Vec<isize>> for Axes {
    fn from(axes: Vec<isize>) -> Self {
        Self::new(&axes)
    }
}
impl From<&Vec<isize>> for Axes {
    fn from(axes: &Vec<isize>) -> Self {
        Self::new(axes)
    }
}
impl<const N: usize> From<[usize; N]> for Axes {
    fn from(axes: [usize; N]) -> Self {
        Self::new(&axes.map(from_front))
    }
}
impl<const N: usize> From<[i32; N]> for Axes {
    fn from(axes: [i32; N]) -> Self {
        Self::new(&axes.map(|axis| axis as isize))
    }
}

/// Returns the axis as a signed number, which does not become one from the back: no array has so many.
pub(crate) fn from_front(axis: usize) -> isize {
    isize::try_from(axis).unwrap_or(isize::MAX)
}

/// Returns the axis counted from the front. A negative axis counts from the back, as in NumPy.
///
/// # Panics
/// Panics if there is no such axis.
#[track_caller]
pub fn normalize_axis(function: &'static str, axis: isize, rank: usize) -> usize {
    let normal = if axis < 0 { axis + rank as isize } else { axis };
    if normal < 0 || normal >= rank as isize {
        raise(Error::invalid(
            function,
            format!("axis {axis} is outside of the rank {rank}"),
        ));
    }
    normal as usize
}

/// Returns sorted, distinct axes, each as by [`normalize_axis`].
///
/// # Panics
/// Panics if there is no such axis or one is named twice.
#[track_caller]
pub fn normalize_axes(function: &'static str, axes: &[isize], rank: usize) -> SmallVec<[usize; 4]> {
    let mut normal: SmallVec<[usize; 4]> = SmallVec::new();
    for &named in axes {
        let axis = normalize_axis(function, named, rank);
        if normal.contains(&axis) {
            raise(Error::invalid(
                function,
                format!("axis {named} is named twice in {axes:?}"),
            ));
        }
        normal.push(axis);
    }
    normal.sort_unstable();
    normal
}
