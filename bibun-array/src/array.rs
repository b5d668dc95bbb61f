//! The array: a window (shape, strides, offset) on typed memory that any number of arrays share.

use std::any::Any;
use std::sync::Arc;

use crate::call::calling;
use crate::cpu::{Sharing, chunks, for_each};
use crate::device::{Device, Memory, uploaded};
use crate::dtype::{with_dtype, with_word};
use crate::error::allocating;
use crate::placement::{cpu, is_used};
use crate::shape::{Layout, Strides};
use crate::storage::{self, Buffer, Word};
use crate::{DType, Element, Error, Scalar, Shape, SliceMut, raise};

/// An n-dimensional array of numbers or booleans. [`DType`] lists the types of elements.
///
/// Clones and views (`reshape` of dense arrays, `transpose`, slices, `broadcast_to`) share the
/// elements and cost a few nanoseconds. Writing to an array copies its elements first if another
/// array shares them, so no array changes because another one does.
///
/// Arrays are created on the CPU, and [`Array::to`] moves them to another [`Device`]. Results are
/// computed on the device of their inputs; arrays on two devices cannot be combined. A single
/// repeated value, such as a number or [`Array::zeros`], takes no memory and is on every device.
///
/// ```
/// use bibun_array::Array;
/// let x = Array::from([[1.0, 2.0], [3.0, 4.0]]);
/// let y = &x + &x.transpose();
/// assert_eq!(y.to_vec::<f64>(), [2.0, 5.0, 5.0, 8.0]);
/// ```
#[derive(Clone)]
pub struct Array {
    dtype: DType,
    layout: Layout,
    data: Data,
}

/// A single value, repeated to any shape (an empty one, too), is stored in the array itself; all
/// other elements are in shared memory.
#[derive(Clone, Debug)]
enum Data {
    Inline(Scalar),
    Shared(Arc<dyn Memory>),
}

impl Array {
    // ----- construction

    /// Creates an array of `shape` from its elements in row-major order.
    ///
    /// # Panics
    /// Panics if the number of elements is not the size of `shape`.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from_vec(vec![1i64, 2, 3, 4, 5, 6], [2, 3]);
    /// assert_eq!(x.shape(), &[2, 3][..]);
    /// ```
    #[track_caller]
    pub fn from_vec<T: Element>(elements: Vec<T>, shape: impl Into<Shape>) -> Self {
        Self::from_slice(&elements, shape)
    }

    /// Creates an array of `shape` from a slice of its elements in row-major order.
    ///
    /// # Panics
    /// Panics if the number of elements is not the size of `shape`.
    #[track_caller]
    pub fn from_slice<T: Element>(elements: &[T], shape: impl Into<Shape>) -> Self {
        let shape = shape.into();
        if elements.len() != shape.size() {
            raise(Error::invalid(
                "from_vec",
                format!("{} elements do not fill the shape {shape}", elements.len()),
            ));
        }
        let shape = shape.addressable("from_vec");
        if let [] | [_] = elements {
            let element = elements.first().copied().unwrap_or_default();
            return Self::constant(element.to_scalar(), shape);
        }
        let memory = allocating("from_vec", || cpu().upload(T::to_slice(elements)));
        Self {
            dtype: T::DTYPE,
            layout: Layout::row_major(shape),
            data: Data::Shared(memory),
        }
    }

    /// Creates an array over elements that something else owns, such as a file mapped into memory
    /// or a buffer of another library, without a copy. The elements are only read: writing to the
    /// array copies them first. The owner is dropped with the last array that uses it.
    ///
    /// # Panics
    /// Panics if the number of elements is not the size of `shape`.
    ///
    /// ```
    /// use bibun_array::Array;
    /// use std::sync::Arc;
    /// let theirs: Arc<[f32]> = Arc::from([1.0, 2.0, 3.0, 4.0]);
    /// let x = Array::from_buffer(Arc::clone(&theirs), [2, 2]);
    /// assert_eq!(x.as_slice::<f32>().unwrap().as_ptr(), theirs.as_ptr());
    /// assert_eq!((&x + &x.transpose()).to_vec::<f32>(), [2.0, 5.0, 5.0, 8.0]);
    /// ```
    #[track_caller]
    pub fn from_buffer<T: Element>(
        owner: impl AsRef<[T]> + Send + Sync + 'static,
        shape: impl Into<Shape>,
    ) -> Self {
        let shape = shape.into();
        let len = owner.as_ref().len();
        if len != shape.size() {
            raise(Error::invalid(
                "from_buffer",
                format!("{len} elements do not fill the shape {shape}"),
            ));
        }
        let layout = Layout::row_major(shape.addressable("from_buffer"));
        Self::of_buffer(Buffer::lent(owner), layout)
    }

    /// Creates a row-major array over the memory of a device. For implementations of devices.
    ///
    /// # Panics
    /// Panics if the number of bytes in the memory is not that of the elements of `shape`.
    #[track_caller]
    pub fn from_memory(memory: Arc<dyn Memory>, shape: impl Into<Shape>) -> Self {
        let (dtype, shape) = (memory.dtype(), shape.into());
        let shape = shape.addressable("from_memory");
        if memory.bytes() != shape.size() * dtype.size() {
            let bytes = memory.bytes();
            let what = format!("{bytes} bytes of {dtype} do not fill the shape {shape}");
            raise(Error::invalid("from_memory", what));
        }
        is_used(memory.device());
        Self {
            dtype,
            layout: Layout::row_major(shape),
            data: Data::Shared(memory),
        }
    }

    /// An array over the memory of values that are not there yet, in this layout.
    pub(crate) fn on_memory(memory: Arc<dyn Memory>, layout: Layout) -> Self {
        let dtype = memory.dtype();
        match layout.shape.size() {
            0 => Self::constant(Scalar::zero(dtype), layout.shape),
            _ => Self {
                dtype,
                layout,
                data: Data::Shared(memory),
            },
        }
    }

    /// Replaces the memory and keeps the window on it; a repeated single value, which has no
    /// memory, is left unchanged. For implementations of devices.
    ///
    /// # Panics
    /// Panics if the new memory has another dtype or another number of bytes.
    #[must_use]
    #[track_caller]
    pub fn map_memory(self, other: impl FnOnce(Arc<dyn Memory>) -> Arc<dyn Memory>) -> Self {
        let Data::Shared(memory) = self.data else {
            return self;
        };
        let bytes = memory.bytes();
        let memory = other(memory);
        if memory.dtype() != self.dtype || memory.bytes() != bytes {
            let what = format!(
                "{} bytes of {} are no image of {bytes} bytes of {}",
                memory.bytes(),
                memory.dtype(),
                self.dtype
            );
            raise(Error::invalid("map_memory", what));
        }
        is_used(memory.device());
        let data = Data::Shared(memory);
        Self { data, ..self }
    }

    /// Creates an array whose elements the function `fill` writes. It is passed the row-major slice
    /// to fill, whose content is unspecified.
    ///
    /// # Panics
    /// Panics if the system refuses the memory; see [`allocating`].
    #[track_caller]
    pub(crate) fn filled_by<T: Element>(shape: Shape, fill: impl FnOnce(&mut [T])) -> Self {
        let mut fill = Some(fill);
        Self::dense(T::DTYPE, Layout::row_major(shape), &mut |elements| {
            let fill = fill.take().expect("it is called once");
            fill(T::from_slice_mut(elements).expect("the array was made for it"));
        })
    }

    /// [`Array::filled_by`] for elements that are moved without being interpreted, as words of the
    /// size of the dtype's elements.
    #[track_caller]
    pub(crate) fn moved<W: Word>(dtype: DType, shape: Shape, fill: impl FnOnce(&mut [W])) -> Self {
        let mut buffer = Buffer::of(dtype, shape.size());
        fill(buffer.as_mut_words());
        match shape.size() {
            0 => Self::constant(Scalar::zero(dtype), shape),
            1 => Self::constant(buffer.as_run().first(), shape),
            _ => Self::of_buffer(buffer, Layout::row_major(shape)),
        }
    }

    /// [`Array::filled_by`] for any dtype and dense layout. The run passed to `fill` is in memory
    /// order.
    #[track_caller]
    pub(crate) fn dense(dtype: DType, layout: Layout, fill: &mut dyn FnMut(SliceMut<'_>)) -> Self {
        let size = layout.shape.size();
        if size <= 1 {
            let mut element = Scalar::zero(dtype);
            fill(SliceMut::of_scalar(&mut element).range(0, size));
            return Self::constant(element, layout.shape);
        }
        let mut buffer = Buffer::of(dtype, size);
        fill(buffer.as_mut_run());
        Self::of_buffer(buffer, layout)
    }

    /// [`Array::filled_by`], or `None` if the system refuses the memory.
    pub(crate) fn try_filled_by<T: Element>(
        shape: Shape,
        fill: impl FnOnce(&mut [T]),
    ) -> Option<Self> {
        if shape.size() <= 1 {
            return Some(Self::filled_by(shape, fill));
        }
        let mut buffer = Buffer::try_new::<T>(shape.size())?;
        fill(buffer.as_mut_slice());
        Some(Self::of_buffer(buffer, Layout::row_major(shape)))
    }

    pub(crate) fn of_buffer(buffer: Buffer, layout: Layout) -> Self {
        Self {
            dtype: buffer.dtype(),
            layout,
            data: Data::Shared(Arc::new(buffer)),
        }
    }

    /// Arrays that share memory, each in its layout.
    pub(crate) fn parts_of_buffer(
        buffer: Buffer,
        layouts: impl Iterator<Item = Layout>,
    ) -> Vec<Self> {
        let (dtype, memory): (_, Arc<dyn Memory>) = (buffer.dtype(), Arc::new(buffer));
        let part = |layout: Layout| Self {
            dtype,
            layout,
            data: Data::Shared(Arc::clone(&memory)),
        };
        layouts.map(part).collect()
    }

    /// An array of `value` at every index of `shape`, without memory of its own.
    pub(crate) fn constant(value: Scalar, shape: Shape) -> Self {
        debug_assert!(shape.is_addressable(), "{shape}");
        let strides = shape.no_steps();
        Self {
            dtype: value.dtype(),
            layout: Layout {
                shape,
                strides,
                offset: 0,
            },
            data: Data::Inline(value),
        }
    }

    /// Creates an array filled with one value. It takes no memory until it is written to.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::full([2, 2], 7.0f32).to_vec::<f32>(), [7.0; 4]);
    /// ```
    ///
    /// # Panics
    /// Panics if no array can have the shape; see [`Shape::is_addressable`].
    #[track_caller]
    pub fn full(shape: impl Into<Shape>, value: impl Into<Scalar>) -> Self {
        Self::constant(value.into(), shape.into().addressable("full"))
    }

    /// Creates an array of zeros (`false` for bool).
    ///
    /// # Panics
    /// Panics if no array can have the shape; see [`Shape::is_addressable`].
    #[track_caller]
    pub fn zeros(shape: impl Into<Shape>, dtype: DType) -> Self {
        Self::constant(Scalar::zero(dtype), shape.into().addressable("zeros"))
    }

    /// Creates an array of ones (`true` for bool).
    ///
    /// # Panics
    /// Panics if no array can have the shape; see [`Shape::is_addressable`].
    #[track_caller]
    pub fn ones(shape: impl Into<Shape>, dtype: DType) -> Self {
        Self::constant(Scalar::one(dtype), shape.into().addressable("ones"))
    }

    /// Creates an array of rank 0.
    pub fn scalar(value: impl Into<Scalar>) -> Self {
        Self::constant(value.into(), Shape::default())
    }

    /// Creates an array of the integers `start..stop` as `i64`.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::arange(2, 5).to_vec::<i64>(), [2, 3, 4]);
    /// ```
    ///
    /// # Panics
    /// Panics if there are more integers than memory holds.
    #[track_caller]
    pub fn arange(start: i64, stop: i64) -> Self {
        let count = if start < stop {
            start.abs_diff(stop)
        } else {
            0
        };
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let shape = Shape::from(count).addressable("arange");
        allocating("arange", || {
            Self::filled_by(shape, |elements| {
                for (element, number) in elements.iter_mut().zip(start..) {
                    *element = number;
                }
            })
        })
    }

    /// Creates an array of `count` numbers in equal steps from `start` to `stop`, both included, as
    /// `f64`.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::linspace(0.0, 1.0, 5).to_vec::<f64>(), [0.0, 0.25, 0.5, 0.75, 1.0]);
    /// ```
    ///
    /// # Panics
    /// Panics if there are more numbers than memory holds.
    #[track_caller]
    pub fn linspace(start: f64, stop: f64, count: usize) -> Self {
        let last = count.saturating_sub(1);
        let step = (stop - start) / last as f64;
        let element = |i: usize| match i {
            0 => start,
            i if i == last => stop,
            i if step != 0.0 && step.is_finite() => start + step * i as f64,
            // The step is out of range.
            i => {
                let part = i as f64 / last as f64;
                start * (1.0 - part) + stop * part
            }
        };
        let shape = Shape::from(count).addressable("linspace");
        allocating("linspace", || {
            Self::filled_by(shape, |elements| {
                for (i, x) in elements.iter_mut().enumerate() {
                    *x = element(i);
                }
            })
        })
    }

    /// Creates the identity matrix of `sizes` n, or, for two of them, a matrix `[m, n]` with ones on its diagonal and
    /// zeros elsewhere.
    ///
    /// ```
    /// use bibun_array::{Array, DType};
    /// assert_eq!(Array::eye(2, DType::F64).to_vec::<f64>(), [1.0, 0.0, 0.0, 1.0]);
    /// assert_eq!(Array::eye([1, 2], DType::F64).to_vec::<f64>(), [1.0, 0.0]);
    /// ```
    ///
    /// # Panics
    /// Panics if there are not one or two sizes, or the matrix has more elements than memory holds.
    #[track_caller]
    pub fn eye(sizes: impl Into<Shape>, dtype: DType) -> Self {
        let sizes = sizes.into();
        let [m, n] = match sizes[..] {
            [n] => [n, n],
            [m, n] => [m, n],
            _ => {
                let what = format!("the sizes are {sizes}; there must be one or two");
                raise(Error::invalid("eye", what))
            }
        };
        let shape = Shape::from([m, n]).addressable("eye");
        allocating("eye", || {
            with_word!(dtype, W => {
                let [zero, one] = [Scalar::zero(dtype), Scalar::one(dtype)].map(W::of);
                Self::moved::<W>(dtype, shape, |elements| {
                    elements.fill(zero);
                    let rows = elements.chunks_exact_mut(n.max(1)).take(n);
                    rows.enumerate().for_each(|(i, row)| row[i] = one);
                })
            })
        })
    }

    // ----- properties

    /// Returns the shape: the sizes of the axes.
    pub fn shape(&self) -> &Shape {
        &self.layout.shape
    }

    /// Returns the number of axes.
    pub fn rank(&self) -> usize {
        self.layout.shape.rank()
    }

    /// Returns the number of elements.
    pub fn size(&self) -> usize {
        self.layout.shape.size()
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the steps between neighbours along each axis, in elements.
    pub fn strides(&self) -> &[isize] {
        &self.layout.strides
    }

    /// Returns the position of the first element in the memory, in elements.
    pub fn offset(&self) -> usize {
        self.layout.offset
    }

    /// Returns the memory that holds the elements, or `None` for a repeated single value, which is
    /// stored in the array itself.
    pub fn memory(&self) -> Option<&dyn Memory> {
        match &self.data {
            Data::Inline(_) => None,
            Data::Shared(memory) => Some(&**memory),
        }
    }

    /// Returns the device that holds the elements. For a repeated single value, which is on every
    /// device, this is the CPU.
    pub fn device(&self) -> &'static dyn Device {
        self.memory().map_or_else(cpu, Memory::device)
    }

    /// Returns the array on a device: the array itself if it is there already, as a repeated single
    /// value is, or else a row-major copy.
    ///
    /// ```
    /// use bibun_array::{cpu, Array, DType};
    /// let x = Array::eye(3, DType::F32).to(cpu());
    /// assert!(x.device() == cpu());
    /// ```
    #[must_use]
    #[track_caller]
    pub fn to(&self, device: &'static dyn Device) -> Self {
        if self.memory().is_none_or(|memory| memory.device() == device) {
            return self.clone();
        }
        let x = self.on_host("to");
        match device == cpu() {
            true => x,
            false => allocating("to", || uploaded(device, x)),
        }
    }

    /// Returns the number of bytes of memory that this array keeps alive (0 for a repeated single
    /// value, which is stored in the array itself).
    pub fn memory_bytes(&self) -> usize {
        match &self.data {
            Data::Inline(_) => 0,
            Data::Shared(memory) => memory.bytes(),
        }
    }

    /// Returns a key that identifies the memory of this array while it is alive, or `None` for a
    /// repeated single value, which is stored in the array itself.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([1.0, 2.0]);
    /// assert_eq!(x.memory_key(), x.reshape([2, 1]).memory_key());
    /// assert_ne!(x.memory_key(), Array::from([1.0, 2.0]).memory_key());
    /// assert_eq!(Array::zeros([3], x.dtype()).memory_key(), None);
    /// ```
    pub fn memory_key(&self) -> Option<usize> {
        match &self.data {
            Data::Inline(_) => None,
            Data::Shared(memory) => Some(Arc::as_ptr(memory).addr()),
        }
    }

    /// Returns whether both arrays use the same memory.
    pub fn shares_memory_with(&self, other: &Self) -> bool {
        match (&self.data, &other.data) {
            (Data::Shared(a), Data::Shared(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    // ----- elements

    /// Returns whether both arrays have the same shape, dtype and elements to the bit, so that 0 and
    /// -0 differ. All NaNs count as one.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let x = Array::from([0.0, f64::NAN]);
    /// assert!(x.has_same_bits(&x) && !x.has_same_bits(&-x.clone()));
    /// ```
    #[track_caller]
    pub fn has_same_bits(&self, other: &Self) -> bool {
        fn bits<T: Element>(x: &Array) -> Vec<Option<u128>> {
            // Only NaN differs from itself.
            let of_element = |x: T| x.eq(&x).then(|| x.to_scalar().to_bits());
            x.to_vec::<T>().into_iter().map(of_element).collect()
        }
        self.shape() == other.shape()
            && self.dtype == other.dtype
            && with_dtype!(self.dtype, T => bits::<T>(self) == bits::<T>(other))
    }

    /// Returns the elements in row-major order.
    ///
    /// # Panics
    /// Panics if the dtype is not `T`, and `T` does not [hold](DType::holds) all its values either
    /// (see [`Array::cast`]).
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([1.5f32, 2.0]).to_vec::<f64>(), [1.5, 2.0]);
    /// ```
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Vec<T> {
        if self.dtype != T::DTYPE {
            if !T::DTYPE.holds(self.dtype) {
                self.expect_dtype::<T>("to_vec");
            }
            return self.on_host("to_vec").cast(T::DTYPE).to_vec();
        }
        let copied = |elements: &[T]| {
            let mut copy = storage::reserved(elements.len());
            copy.extend_from_slice(elements);
            copy
        };
        if self.buffer().is_none() && self.inline().is_none() {
            return self.on_host("to_vec").to_vec();
        }
        allocating("to_vec", || match self.as_slice::<T>() {
            Some(elements) => copied(elements),
            None => match self.inline() {
                Some(scalar) => storage::list(T::from_scalar(scalar), self.size()),
                None => copied(self.device().download(self, "to_vec").host_slice::<T>()),
            },
        })
    }

    /// Returns the single element of an array of size 1, converted to `T`.
    ///
    /// # Panics
    /// Panics if the array has more elements, or none.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::scalar(2.5f32).item::<f64>(), 2.5);
    /// ```
    #[track_caller]
    pub fn item<T: Element>(&self) -> T {
        if self.size() != 1 {
            let what = format!("the shape is {}, expected a single element", self.shape());
            raise(Error::invalid("item", what));
        }
        T::from_scalar(self.element_for("item", &vec![0; self.rank()]))
    }

    /// Returns the single element of an array of size 1 if it is on the CPU, or `None`. Unlike
    /// [`Array::item`], this never waits for another device.
    ///
    /// ```
    /// use bibun_array::Array;
    /// assert_eq!(Array::from([true, false]).all(..).known_item(), Some(false));
    /// assert_eq!(Array::from([1.0, 2.0]).known_item::<f64>(), None);
    /// ```
    pub fn known_item<T: Element>(&self) -> Option<T> {
        (self.size() == 1 && self.device() == cpu()).then(|| self.item())
    }

    /// Returns the element at an index, which has one number for each axis.
    ///
    /// # Panics
    /// Panics if the length of the index is not the rank, or the index is out of bounds.
    #[track_caller]
    pub fn element(&self, index: &[usize]) -> Scalar {
        self.element_for("element", index)
    }

    #[track_caller]
    fn element_for(&self, asked_by: &'static str, index: &[usize]) -> Scalar {
        let fits =
            index.len() == self.rank() && index.iter().zip(&**self.shape()).all(|(i, n)| i < n);
        if !fits {
            let what = format!(
                "the index {index:?} is outside of the shape {}",
                self.shape()
            );
            raise(Error::invalid(asked_by, what));
        }
        if let Some(scalar) = self.inline() {
            return scalar;
        }
        let steps = index
            .iter()
            .zip(self.strides())
            .map(|(&i, &step)| i as isize * step);
        let position = self.layout.offset.strict_add_signed(steps.sum());
        match self.buffer() {
            Some(buffer) => buffer.as_run().range(position, 1).first(),
            None => {
                let part = Layout {
                    offset: position,
                    ..Layout::default()
                };
                let part = self.with_layout(part);
                let _called = calling(asked_by);
                self.device().download(&part, asked_by).element(&[])
            }
        }
    }

    /// Returns the elements if they are on the CPU in row-major order without gaps and have type
    /// `T`.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        if self.dtype != T::DTYPE || !self.layout.is_row_major() {
            return None;
        }
        match &self.data {
            Data::Inline(scalar) if self.size() == 1 => {
                T::borrow_scalar(scalar).map(std::slice::from_ref)
            }
            Data::Inline(_) => (self.size() == 0).then_some(&[]),
            Data::Shared(_) => {
                let start = self.layout.offset;
                Some(&self.buffer()?.as_slice()[start..start + self.size()])
            }
        }
    }

    /// Returns the elements in row-major order as a mutable slice. They are copied first if they
    /// are in another order or if another array shares them.
    ///
    /// # Panics
    /// Panics if the dtype is not `T`, or the array is not on the CPU.
    ///
    /// ```
    /// use bibun_array::Array;
    /// let mut x = Array::from([1.0, 2.0]);
    /// let y = x.clone();
    /// x.as_mut_slice::<f64>()[0] = 5.0;
    /// assert_eq!(x.to_vec::<f64>(), [5.0, 2.0]);
    /// assert_eq!(y.to_vec::<f64>(), [1.0, 2.0]);
    /// ```
    #[track_caller]
    pub fn as_mut_slice<T: Element>(&mut self) -> &mut [T] {
        self.expect_dtype::<T>("as_mut_slice");
        if self.device() != cpu() {
            let name = self.device().name();
            let what = format!("the elements are on {name}; `to(cpu())` brings them here");
            raise(Error::invalid("as_mut_slice", what));
        }
        if self.size() == 0 {
            return &mut [];
        }
        if self.size() == 1 {
            let value = self.element(&vec![0; self.rank()]);
            *self = Self::constant(value, self.shape().clone());
        } else {
            self.make_unique();
        }
        let (start, size) = (self.layout.offset, self.size());
        match &mut self.data {
            Data::Inline(scalar) => {
                std::slice::from_mut(T::borrow_scalar_mut(scalar).expect("the dtype was checked"))
            }
            Data::Shared(memory) => {
                let buffer = as_unique_buffer(memory).expect("made unique above");
                &mut buffer.as_mut_slice()[start..start + size]
            }
        }
    }

    /// Copies the elements unless they are in row-major order in memory that no other array shares.
    #[track_caller]
    fn make_unique(&mut self) {
        if self.is_unique() {
            return;
        }
        *self = allocating("as_mut_slice", || match self.inline() {
            Some(value) => with_word!(self.dtype, W => self.spread(W::of(value))),
            None => cpu().copy(self),
        });
    }

    /// Whether the elements are in row-major order in memory that no other array shares.
    pub(crate) fn is_unique(&mut self) -> bool {
        self.layout.is_row_major() && self.unique_buffer().is_some()
    }

    /// Returns a copy in row-major order, or the array itself if it is in that order already.
    #[must_use]
    #[track_caller]
    pub fn to_row_major(&self) -> Self {
        if self.layout.is_row_major() || self.inline().is_some() {
            return self.clone();
        }
        allocating("to_row_major", || self.device().copy(self))
    }

    // ----- for the rest of the crate

    /// [`Array::as_mut_slice`] as words, for an array of two elements or more.
    #[track_caller]
    pub(crate) fn as_mut_words<W: Word>(&mut self) -> &mut [W] {
        self.make_unique();
        let (start, size) = (self.layout.offset, self.size());
        let buffer = self.unique_buffer().expect("made unique above");
        &mut buffer.as_mut_words()[start..start + size]
    }

    /// The words of a row-major array on the CPU that has memory.
    pub(crate) fn host_words<W: Word>(&self) -> &[W] {
        let buffer = self.buffer().expect("a row-major array on the CPU");
        &buffer.as_words()[self.layout.offset..][..self.size()]
    }

    /// An array of this shape that has memory, with one word everywhere.
    pub(crate) fn spread<W: Word>(&self, word: W) -> Self {
        Self::moved(self.dtype, self.shape().clone(), |out: &mut [W]| {
            // About the bytes that are written in a nanosecond, and those of a part.
            let sharing = Sharing::of(size_of_val(out) / 16);
            let part = (1 << 17) / size_of::<W>();
            for_each(chunks(out, part), sharing, 1, &|_, out| out.fill(word));
        })
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The elements in row-major order on the CPU, for a function that reads them.
    #[track_caller]
    pub(crate) fn on_host(&self, asked_by: &'static str) -> Self {
        match self.device() == cpu() {
            true => self.to_row_major(),
            false => {
                let _called = calling(asked_by);
                allocating(asked_by, || self.device().download(self, asked_by))
            }
        }
    }

    /// Another window on the same elements.
    pub(crate) fn with_layout(&self, layout: Layout) -> Self {
        if layout.shape.size() == 0 {
            return Self::constant(Scalar::zero(self.dtype), layout.shape);
        }
        Self {
            dtype: self.dtype,
            layout,
            data: self.data.clone(),
        }
    }

    /// The same window with these strides, which are others only along axes of one element.
    pub(crate) fn with_strides(mut self, strides: &Strides) -> Self {
        if self.memory().is_some() && *self.layout.strides != **strides {
            self.layout.strides = strides.clone();
        }
        self
    }

    /// The single value that an array without memory repeats.
    pub(crate) fn inline(&self) -> Option<Scalar> {
        match self.data {
            Data::Inline(scalar) => Some(scalar),
            Data::Shared(_) => None,
        }
    }

    /// The element at a place in the CPU's memory under the array, or the one that is repeated.
    pub(crate) fn element_at(&self, place: usize) -> Scalar {
        match self.data {
            Data::Inline(scalar) => scalar,
            Data::Shared(_) => {
                let buffer = self.buffer().expect("it is on the CPU");
                buffer.as_run().range(place, 1).first()
            }
        }
    }

    /// All of the CPU's memory under the array.
    pub(crate) fn buffer(&self) -> Option<&Buffer> {
        (self.memory()? as &dyn Any).downcast_ref()
    }

    /// The CPU's memory, if no other array holds it.
    pub(crate) fn unique_buffer(&mut self) -> Option<&mut Buffer> {
        match &mut self.data {
            Data::Inline(_) => None,
            Data::Shared(memory) => as_unique_buffer(memory),
        }
    }

    /// The elements of a row-major array on the CPU.
    pub(crate) fn host_slice<T: Element>(&self) -> &[T] {
        self.as_slice().expect("a row-major array on the CPU")
    }

    #[track_caller]
    pub(crate) fn expect_dtype<T: Element>(&self, function: &'static str) {
        if self.dtype != T::DTYPE {
            raise(Error::DType {
                function,
                found: self.dtype,
                expected: T::DTYPE,
                location: crate::caller(),
            });
        }
    }
}

fn as_unique_buffer(memory: &mut Arc<dyn Memory>) -> Option<&mut Buffer> {
    let buffer: Option<&mut Buffer> = (Arc::get_mut(memory)? as &mut dyn Any).downcast_mut();
    buffer.filter(|buffer| buffer.is_ours())
}

impl Strides {
    /// Whether every index is the same element.
    pub(crate) fn repeat_one(&self, shape: &Shape) -> bool {
        self.iter()
            .zip(shape.iter())
            .all(|(&step, &size)| step == 0 || size == 1)
    }
}

impl<T: Element> From<T> for Array
where
    Scalar: From<T>,
{
    fn from(value: T) -> Self {
        Self::scalar(value)
    }
}

impl From<&&Array> for Array {
    fn from(x: &&Array) -> Self {
        Array::clone(x)
    }
}

impl From<&Array> for Array {
    /// Returns the same array, which shares its elements.
    fn from(x: &Array) -> Self {
        x.clone()
    }
}
