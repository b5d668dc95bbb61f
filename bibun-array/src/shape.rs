//! Shapes, strides and the arithmetic of both.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::{Error, raise};

/// The sizes of an array's axes; `[]` is the shape of a scalar. A clone costs next to nothing.
///
/// ```
/// use bibun_array::Shape;
/// let shape = Shape::from([2, 3]);
/// assert_eq!(shape.size(), 6);
/// assert_eq!(shape.to_string(), "[2, 3]");
/// ```
// PERF: a pointer, which is null for a scalar: arrays are moved and cloned all the time, and their
// shapes are created once.
#[derive(Clone, Default)]
pub struct Shape(Option<Arc<Sizes>>);

/// The sizes of one or more axes and the values that follow from them.
struct Sizes {
    sizes: SmallVec<[usize; 4]>,
    row_major: SmallVec<[isize; 4]>,
    size: usize,
    is_addressable: bool,
}

/// The largest number of elements of an array, so that an `isize` can count the bytes of the
/// widest.
const MOST_ELEMENTS: usize = isize::MAX as usize / size_of::<f64>();

/// Steps between neighbouring elements of each axis, in elements. They may be zero or negative.
#[derive(Clone)]
pub(crate) enum Strides {
    /// Zero for this number of axes.
    Zero(usize),
    /// The strides of the row-major order of a shape.
    RowMajor(Shape),
    List(Arc<[isize]>),
}

impl Shape {
    /// Creates a shape from its sizes.
    pub fn new(sizes: &[usize]) -> Self {
        Self::from_sizes(SmallVec::from_slice(sizes))
    }

    fn from_sizes(sizes: SmallVec<[usize; 4]>) -> Self {
        if sizes.is_empty() {
            return Self(None);
        }
        let mut row_major = SmallVec::from_elem(0, sizes.len());
        // Strides are products of sizes, so the products must not overflow even if there is a zero
        // among the sizes.
        let (mut step, mut size, mut others) = (1isize, 1usize, 1usize);
        for (stride, &length) in row_major.iter_mut().zip(&sizes).rev() {
            *stride = step;
            step = step.wrapping_mul(length as isize);
            size = size.saturating_mul(length);
            others = others.saturating_mul(length.max(1));
        }
        let is_addressable = others <= MOST_ELEMENTS;
        Self(Some(Arc::new(Sizes {
            sizes,
            row_major,
            size,
            is_addressable,
        })))
    }

    /// Returns the number of axes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.len()
    }

    /// Returns the number of elements, or `usize::MAX` if there are more.
    #[inline]
    pub fn size(&self) -> usize {
        self.0.as_ref().map_or(1, |sizes| sizes.size)
    }

    /// Returns whether an array can have this shape: all sizes but zeros multiply to less than 2⁶⁰,
    /// so that elements, their bytes and the steps between them can be counted.
    ///
    /// ```
    /// use bibun_array::Shape;
    /// assert!(Shape::from([1 << 30, 1 << 29]).is_addressable());
    /// assert!(!Shape::from([1 << 30, 1 << 30]).is_addressable());
    /// assert!(!Shape::from([1 << 30, 0, 1 << 30]).is_addressable());
    /// ```
    #[inline]
    pub fn is_addressable(&self) -> bool {
        self.0.as_ref().is_none_or(|sizes| sizes.is_addressable)
    }

    /// Returns the shape itself, after checking that an array can have it.
    ///
    /// # Panics
    /// Panics if no array can have it ([`Shape::is_addressable`]), with the name of the function
    /// whose result it is.
    ///
    /// ```
    /// use bibun_array::{attempt, Error, Shape};
    /// let shape = Shape::from([usize::MAX]);
    /// let refused = attempt(|| shape.addressable("tile")).unwrap_err();
    /// assert!(matches!(refused, Error::TooLarge { function: "tile", .. }));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn addressable(self, function: &'static str) -> Self {
        if !self.is_addressable() {
            raise(Error::TooLarge {
                function,
                shape: self,
                location: crate::caller(),
            });
        }
        self
    }

    /// Returns the index of the element with this number in row-major order.
    ///
    /// ```
    /// use bibun_array::Shape;
    /// assert_eq!(Shape::from([2, 3]).unravel(4), [1, 1]);
    /// ```
    pub fn unravel(&self, number: usize) -> Vec<usize> {
        let (mut rest, mut index) = (number, vec![0; self.rank()]);
        for (i, &size) in index.iter_mut().zip(self.iter()).rev() {
            (*i, rest) = (rest % size, rest / size);
        }
        index
    }

    /// Returns the sizes as a Rust array, or `None` if the number of axes is not `N`.
    pub fn dims<const N: usize>(&self) -> Option<[usize; N]> {
        (**self).try_into().ok()
    }

    /// Returns the shape with one more axis of size `size` before `axis`.
    pub fn inserted(&self, axis: usize, size: usize) -> Self {
        let mut sizes: SmallVec<[usize; 4]> = SmallVec::from_slice(self);
        sizes.insert(axis, size);
        Self::from_sizes(sizes)
    }

    /// Returns the shape without `axis`.
    pub fn removed(&self, axis: usize) -> Self {
        let mut sizes: SmallVec<[usize; 4]> = SmallVec::from_slice(self);
        sizes.remove(axis);
        Self::from_sizes(sizes)
    }

    /// Returns the shape with another size at `axis`.
    pub fn replaced(&self, axis: usize, size: usize) -> Self {
        if self[axis] == size {
            return self.clone();
        }
        let mut sizes: SmallVec<[usize; 4]> = SmallVec::from_slice(self);
        sizes[axis] = size;
        Self::from_sizes(sizes)
    }

    /// Returns the shape after `axes` have been reduced: without them, or with size 1 there if
    /// `keep_dims` is set.
    pub fn reduced(&self, axes: &[usize], keep_dims: bool) -> Self {
        let kept = self.iter().enumerate().filter_map(|(axis, &size)| {
            if !axes.contains(&axis) {
                Some(size)
            } else {
                keep_dims.then_some(1)
            }
        });
        kept.collect()
    }

    /// Returns the shape that both broadcast to by NumPy's rule, or `None` if there is none.
    ///
    /// ```
    /// use bibun_array::Shape;
    /// let y = Shape::from([2, 1, 3]).broadcast(&Shape::from([4, 1]));
    /// assert_eq!(y, Some(Shape::from([2, 4, 3])));
    /// ```
    pub fn broadcast(&self, other: &Self) -> Option<Self> {
        if self.broadcasts_to(other) {
            return Some(other.clone());
        }
        if other.broadcasts_to(self) {
            return Some(self.clone());
        }
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
            .collect()
    }

    /// Returns whether an array of this shape can be repeated to the other shape by NumPy's rule.
    ///
    /// ```
    /// use bibun_array::Shape;
    /// assert!(Shape::from([1, 3]).broadcasts_to(&Shape::from([4, 2, 3])));
    /// assert!(!Shape::from([2, 3]).broadcasts_to(&Shape::from([1, 3])));
    /// ```
    pub fn broadcasts_to(&self, other: &Self) -> bool {
        let Some(new) = other.rank().checked_sub(self.rank()) else {
            return false;
        };
        let mut sizes = self.iter().zip(&other[new..]);
        sizes.all(|(&own, &size)| own == size || own == 1)
    }

    /// Strides of a single value repeated over the shape.
    pub(crate) fn no_steps(&self) -> Strides {
        match self.rank() {
            rank if rank <= ZEROS.len() => Strides::Zero(rank),
            rank => std::iter::repeat_n(0, rank).collect(),
        }
    }

    /// Strides of the row-major order.
    pub(crate) fn row_major(&self) -> Strides {
        Strides::RowMajor(self.clone())
    }
}

impl Deref for Shape {
    type Target = [usize];
    #[inline]
    fn deref(&self) -> &[usize] {
        self.0.as_ref().map_or(&[], |sizes| &sizes.sizes)
    }
}

impl PartialEq for Shape {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a.sizes == b.sizes,
            _ => false,
        }
    }
}

impl Eq for Shape {}

impl Hash for Shape {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &**self)
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &**self)
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
        Self::from_sizes(SmallVec::from_vec(sizes))
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
/// The shape to which [`Array::reshape`](crate::Array::reshape) changes an array: a [`Shape`], or
/// sizes of which one is -1 and is computed from the others.
///
/// ```
/// use bibun_array::{NewShape, Shape};
/// let shape = NewShape::from([4, -1]).resolve(&Shape::from([2, 6]));
/// assert_eq!(shape, Ok(Shape::from([4, 3])));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewShape(Result<Shape, SmallVec<[isize; 4]>>);

impl NewShape {
    /// Returns the shape for an array that has another shape now.
    ///
    /// # Errors
    /// Returns a message if the sizes differ, a size is negative, or more than one is -1.
    pub fn resolve(self, from: &Shape) -> Result<Shape, String> {
        let sizes = match self.0 {
            Ok(shape) if shape.size() == from.size() => return Ok(shape),
            Ok(shape) => return Err(format!("the sizes differ: x {from} and shape {shape}")),
            Err(sizes) => sizes,
        };
        let is_free = |&&size: &&isize| size == -1;
        let known = sizes.iter().filter(|size| !is_free(size));
        if known.clone().any(|&size| size < 0) || sizes.iter().filter(is_free).count() > 1 {
            return Err(format!(
                "one size of {sizes:?} may be -1, all others must be at least 0"
            ));
        }
        let known = known.fold(1, |all: usize, &size| all.saturating_mul(size as usize));
        let free = match known {
            0 => None,
            known => (from.size().is_multiple_of(known)).then(|| from.size() / known),
        };
        let Some(free) = free else {
            return Err(format!(
                "no size in place of -1 makes x {from} fit to {sizes:?}"
            ));
        };
        let size = |&size: &isize| if size == -1 { free } else { size as usize };
        Ok(sizes.iter().map(size).collect())
    }

    fn of(sizes: &[isize]) -> Self {
        match sizes.iter().any(|&size| size < 0) {
            true => Self(Err(SmallVec::from_slice(sizes))),
            false => Self(Ok(sizes.iter().map(|&size| size as usize).collect())),
        }
    }
}

macro_rules! new_shape_from {
    ($($Shape:ty),*; $($size:ty),*) => {
        $(impl From<$Shape> for NewShape {
            fn from(shape: $Shape) -> Self {
                Self(Ok(shape.into()))
            }
        })*
        $(impl From<$size> for NewShape {
            fn from(size: $size) -> Self {
                Self::of(&[size as isize])
            }
        }
        impl From<Vec<$size>> for NewShape {
            fn from(sizes: Vec<$size>) -> Self {
                Self::of(&sizes.iter().map(|&size| size as isize).collect::<Vec<_>>())
            }
        }
        impl<const N: usize> From<[$size; N]> for NewShape {
            fn from(sizes: [$size; N]) -> Self {
                Self::of(&sizes.map(|size| size as isize))
            }
        })*
    };
}
new_shape_from!(Shape, &Shape, &[usize], Vec<usize>, &Vec<usize>, (), usize; isize, i32);

impl<const N: usize> From<[usize; N]> for NewShape {
    fn from(sizes: [usize; N]) -> Self {
        Self(Ok(sizes.into()))
    }
}
impl<const N: usize> From<&[usize; N]> for NewShape {
    fn from(sizes: &[usize; N]) -> Self {
        Self(Ok(sizes.into()))
    }
}
impl From<&[isize]> for NewShape {
    fn from(sizes: &[isize]) -> Self {
        Self::of(sizes)
    }
}

impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(sizes: I) -> Self {
        Self::from_sizes(sizes.into_iter().collect())
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

/// The strides of [`Strides::Zero`].
static ZEROS: [isize; 16] = [0; 16];

impl Deref for Strides {
    type Target = [isize];
    #[inline]
    fn deref(&self) -> &[isize] {
        match self {
            Self::Zero(rank) => &ZEROS[..*rank],
            Self::RowMajor(shape) => shape.0.as_ref().map_or(&[], |sizes| &sizes.row_major),
            Self::List(list) => list,
        }
    }
}
impl Default for Strides {
    fn default() -> Self {
        Self::Zero(0)
    }
}
impl fmt::Debug for Strides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &**self)
    }
}
impl FromIterator<isize> for Strides {
    fn from_iter<I: IntoIterator<Item = isize>>(steps: I) -> Self {
        let steps: SmallVec<[isize; 8]> = steps.into_iter().collect();
        match steps.is_empty() {
            true => Self::default(),
            false => Self::List(Arc::from(&steps[..])),
        }
    }
}

/// The positions of an array's elements in its memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    pub(crate) shape: Shape,
    pub(crate) strides: Strides,
    /// The position of the element at index zero of every axis.
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

    /// Dense strides with the axes in `order`, outermost first.
    pub(crate) fn in_order(shape: Shape, order: &[usize]) -> Self {
        let mut strides: SmallVec<[isize; 4]> = SmallVec::from_elem(0, shape.rank());
        let mut step = 1;
        for &axis in order.iter().rev() {
            strides[axis] = step;
            step *= shape[axis] as isize;
        }
        Self {
            shape,
            strides: strides.into_iter().collect(),
            offset: 0,
        }
    }

    /// Whether the elements are in row-major order without gaps.
    pub(crate) fn is_row_major(&self) -> bool {
        if matches!(self.strides, Strides::RowMajor(_)) {
            return true;
        }
        let mut step = 1;
        for (&size, &stride) in self.shape.iter().zip(self.strides.iter()).rev() {
            if size != 1 && stride != step {
                return self.shape.size() == 0;
            }
            step *= size as isize;
        }
        true
    }

    /// The axes from the largest step to the smallest. Axes of equal step keep their order.
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

    /// Whether two layouts of one shape have the same steps through memory.
    pub(crate) fn has_steps_of(&self, other: &Self) -> bool {
        let mut axes = self
            .shape
            .iter()
            .zip(self.strides.iter().zip(other.strides.iter()));
        self.shape.size() == 0 || axes.all(|(&size, (a, b))| size == 1 || a == b)
    }
}
