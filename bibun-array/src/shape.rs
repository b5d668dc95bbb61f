//! Shapes, strides and the arithmetic of both.

use std::fmt;
use std::ops::Deref;

use smallvec::SmallVec;

/// The sizes of an array's axes; `[]` is a scalar.
///
/// ```
/// use bibun_array::Shape;
/// let shape = Shape::from([2, 3]);
/// assert_eq!(shape.size(), 6);
/// assert_eq!(shape.to_string(), "[2, 3]");
/// ```
#[derive(PartialEq, Eq, Hash, Default)]
pub struct Shape(SmallVec<[usize; 4]>);

/// Steps between neighbouring elements of each axis, in elements; they may be zero or negative.
#[derive(PartialEq, Eq, Debug, Default)]
pub(crate) struct Strides(SmallVec<[isize; 4]>);

// PERF: `SmallVec::clone` pushes element by element; a copy of the slice is a few instructions.
impl Clone for Shape {
    #[inline]
    fn clone(&self) -> Self {
        Self(SmallVec::from_slice(&self.0))
    }
}

impl Clone for Strides {
    #[inline]
    fn clone(&self) -> Self {
        Self(SmallVec::from_slice(&self.0))
    }
}

impl Shape {
    /// A shape from its sizes.
    pub fn new(sizes: &[usize]) -> Self {
        Self(SmallVec::from_slice(sizes))
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The number of elements.
    pub fn size(&self) -> usize {
        self.0.iter().product()
    }

    /// The sizes as an array, if there are just `N` axes.
    pub fn dims<const N: usize>(&self) -> Option<[usize; N]> {
        self.0.as_slice().try_into().ok()
    }

    /// The shape with one more axis of size `size` in front of `axis`.
    pub fn inserted(&self, axis: usize, size: usize) -> Self {
        let mut sizes = self.0.clone();
        sizes.insert(axis, size);
        Self(sizes)
    }

    /// The shape without `axis`.
    pub fn removed(&self, axis: usize) -> Self {
        let mut sizes = self.0.clone();
        sizes.remove(axis);
        Self(sizes)
    }

    /// The shape with another size at `axis`.
    pub fn replaced(&self, axis: usize, size: usize) -> Self {
        let mut sizes = self.0.clone();
        sizes[axis] = size;
        Self(sizes)
    }

    /// The shape after `axes` have been reduced: left out, or of size 1 where `keep_dims`.
    pub fn reduced(&self, axes: &[usize], keep_dims: bool) -> Self {
        let kept = self.iter().enumerate().filter_map(|(axis, &size)| {
            if !axes.contains(&axis) {
                Some(size)
            } else {
                keep_dims.then_some(1)
            }
        });
        Self(kept.collect())
    }

    /// The shape that both broadcast to (NumPy's rule), or `None` if there is none.
    ///
    /// ```
    /// use bibun_array::Shape;
    /// let y = Shape::from([2, 1, 3]).broadcast(&Shape::from([4, 1]));
    /// assert_eq!(y, Some(Shape::from([2, 4, 3])));
    /// ```
    pub fn broadcast(&self, other: &Self) -> Option<Self> {
        let rank = self.rank().max(other.rank());
        let size_at = |shape: &Self, axis: usize| match (axis + shape.rank()).checked_sub(rank) {
            Some(axis) => shape[axis],
            None => 1,
        };
        (0..rank)
            .map(|axis| match (size_at(self, axis), size_at(other, axis)) {
                (a, b) if a == b => Some(a),
                (1, b) => Some(b),
                (a, 1) => Some(a),
                _ => None,
            })
            .collect::<Option<_>>()
            .map(Self)
    }

    /// Strides of a single value repeated over the shape.
    pub(crate) fn no_steps(&self) -> Strides {
        Strides(SmallVec::from_elem(0, self.rank()))
    }

    /// Strides of the row-major order.
    pub(crate) fn row_major(&self) -> Strides {
        let mut strides = SmallVec::from_elem(0, self.rank());
        let mut step = 1;
        for (stride, &size) in strides.iter_mut().zip(&self.0).rev() {
            *stride = step;
            step *= size as isize;
        }
        Strides(strides)
    }
}

impl Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.0
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.as_slice())
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0.as_slice())
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(sizes: [usize; N]) -> Self {
        Self::new(&sizes)
    }
}
impl<const N: usize> From<&[usize; N]> for Shape {
    fn from(sizes: &[usize; N]) -> Self {
        Self::new(sizes)
    }
}
impl From<&[usize]> for Shape {
    fn from(sizes: &[usize]) -> Self {
        Self::new(sizes)
    }
}
impl From<Vec<usize>> for Shape {
    fn from(sizes: Vec<usize>) -> Self {
        Self(SmallVec::from_vec(sizes))
    }
}
impl From<&Vec<usize>> for Shape {
    fn from(sizes: &Vec<usize>) -> Self {
        Self::new(sizes)
    }
}
impl From<&Shape> for Shape {
    fn from(shape: &Shape) -> Self {
        shape.clone()
    }
}
impl From<()> for Shape {
    fn from((): ()) -> Self {
        Self::default()
    }
}
impl From<usize> for Shape {
    fn from(size: usize) -> Self {
        Self::new(&[size])
    }
}
impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(sizes: I) -> Self {
        Self(sizes.into_iter().collect())
    }
}
impl PartialEq<[usize]> for Shape {
    fn eq(&self, other: &[usize]) -> bool {
        **self == *other
    }
}
impl<const N: usize> PartialEq<[usize; N]> for Shape {
    fn eq(&self, other: &[usize; N]) -> bool {
        **self == *other
    }
}

impl Deref for Strides {
    type Target = SmallVec<[isize; 4]>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}
impl std::ops::DerefMut for Strides {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
impl FromIterator<isize> for Strides {
    fn from_iter<I: IntoIterator<Item = isize>>(steps: I) -> Self {
        Self(steps.into_iter().collect())
    }
}

/// Where the elements of an array lie in its memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    pub(crate) shape: Shape,
    pub(crate) strides: Strides,
    /// The element at index zero of every axis.
    pub(crate) offset: usize,
}

impl Layout {
    pub(crate) fn row_major(shape: Shape) -> Self {
        let strides = shape.row_major();
        Self {
            shape,
            strides,
            offset: 0,
        }
    }

    /// Dense strides in which the axes follow each other in `order`, outermost first.
    pub(crate) fn in_order(shape: Shape, order: &[usize]) -> Self {
        let mut strides = SmallVec::from_elem(0, shape.rank());
        let mut step = 1;
        for &axis in order.iter().rev() {
            strides[axis] = step;
            step *= shape[axis] as isize;
        }
        Self {
            shape,
            strides: Strides(strides),
            offset: 0,
        }
    }

    /// Whether the elements follow each other in row-major order without gaps.
    pub(crate) fn is_row_major(&self) -> bool {
        let mut step = 1;
        for (&size, &stride) in self.shape.iter().zip(self.strides.iter()).rev() {
            if size != 1 && stride != step {
                return self.shape.size() == 0;
            }
            step *= size as isize;
        }
        true
    }

    /// The axes from the largest step to the smallest; axes of equal step keep their order.
    pub(crate) fn order(&self) -> SmallVec<[usize; 4]> {
        let mut order: SmallVec<[usize; 4]> = (0..self.shape.rank()).collect();
        order.sort_by_key(|&axis| std::cmp::Reverse(self.strides[axis].unsigned_abs()));
        order
    }

    /// Whether the elements fill a stretch of memory without gaps or repeats, in any order of axes.
    pub(crate) fn is_dense(&self) -> bool {
        if self.is_row_major() {
            return true;
        }
        let dense = Self::in_order(self.shape.clone(), &self.order());
        self.has_steps_of(&dense)
    }

    /// Whether two layouts of one shape step through memory alike.
    pub(crate) fn has_steps_of(&self, other: &Self) -> bool {
        let mut axes = self
            .shape
            .iter()
            .zip(self.strides.iter().zip(other.strides.iter()));
        self.shape.size() == 0 || axes.all(|(&size, (a, b))| size == 1 || a == b)
    }
}
