//! Memory: aligned buffers that return to a pool when they are dropped.
//!
//! A fresh page costs about ten times as much as a reused one, so buffers are kept for the next
//! array of about their size: small ones by the thread that dropped them, large ones for all
//! threads. Sizes are rounded up to a quarter of a power of two. The largest are in huge pages, where
//! the system has them. Memory that something else owns is read through its owner.
//!
//! The other files of the crate with `unsafe` code are `cpu/matmul.rs`, `cpu/product.rs` and
//! `assembler/pages.rs`.

mod memory;

use std::any::TypeId;
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use memory::Memory;

use crate::dtype::with_dtype;
use crate::{DType, Element, Error, Scalar, Slice, SliceMut, raise};

/// The bytes that come from memory together.
pub(crate) const LINE: usize = memory::LINE;

/// The bytes in a page of memory, at whose end processors stop to look ahead by themselves.
const PAGE: usize = 4096;

/// The number of elements in a page of memory.
pub(crate) const fn page<T>() -> usize {
    PAGE / size_of::<T>()
}

/// Asks for as many elements so many elements behind some that are read, so that they are in the cache
/// when they are needed.
#[inline(always)]
pub(crate) fn prefetch<T>(elements: &[T], ahead: usize) {
    #[cfg(target_arch = "x86_64")]
    for offset in (0..size_of_val(elements)).step_by(LINE) {
        let ahead = elements
            .as_ptr()
            .wrapping_add(ahead)
            .wrapping_byte_add(offset);
        // SAFETY: nothing is read. An address that is not mapped is ignored.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(ahead.cast());
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (elements, ahead);
}

/// The bytes at the beginning of a page after which processors look ahead in it.
const BEGINNING: usize = 4 * LINE;

/// Asks for the beginning of the next page, if some elements are at the beginning of theirs.
// PERF: to ask for whole pages keeps some processors from looking ahead by themselves.
#[inline(always)]
pub(crate) fn prefetch_page<T>(elements: &[T]) {
    if elements.as_ptr().addr() % PAGE < BEGINNING {
        prefetch(elements, page::<T>());
    }
}

/// Initialised memory for elements of one type.
pub(crate) struct Buffer {
    source: Source,
    dtype: DType,
    bytes: usize,
}

/// The owner of memory.
enum Source {
    Pool(Memory),
    /// Memory that something else owns. It is only read.
    Lent(Box<dyn Lender>),
}

/// An owner of elements.
trait Lender: Send + Sync {
    fn elements(&self) -> Slice<'_>;
}

/// An owner of elements of one type.
struct Owner<T, O>(O, PhantomData<fn() -> T>);

impl<T: Element, O: AsRef<[T]> + Send + Sync> Lender for Owner<T, O> {
    fn elements(&self) -> Slice<'_> {
        T::to_slice(self.0.as_ref())
    }
}

impl Buffer {
    /// Memory for `len` elements. Their values are unspecified (but `false` for `bool`).
    ///
    /// # Panics
    /// Panics if the system refuses the memory; see [`crate::error::allocating`].
    #[track_caller]
    pub(crate) fn new<T: Element>(len: usize) -> Self {
        Self::try_new::<T>(len).unwrap_or_else(|| refused::<T>(len))
    }

    /// [`Buffer::new`], or `None` if the system refuses the memory.
    pub(crate) fn try_new<T: Element>(len: usize) -> Option<Self> {
        let bytes = len.checked_mul(size_of::<T>())?;
        let mut memory = POOL.take(bytes.div_ceil(LINE))?;
        if T::DTYPE == DType::Bool {
            // Whatever bytes were here before, a bool must be 0 or 1.
            memory.clear();
        }
        Some(Self {
            source: Source::Pool(memory),
            dtype: T::DTYPE,
            bytes,
        })
    }

    /// The memory of another owner.
    pub(crate) fn lent<T: Element>(owner: impl AsRef<[T]> + Send + Sync + 'static) -> Self {
        Self {
            bytes: size_of_val(owner.as_ref()),
            source: Source::Lent(Box::new(Owner(owner, PhantomData))),
            dtype: T::DTYPE,
        }
    }

    /// Whether the memory may be written.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self.source, Source::Pool(_))
    }

    /// The type of the elements.
    pub(crate) fn dtype(&self) -> DType {
        self.dtype
    }

    /// The number of bytes of the elements.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The elements.
    pub(crate) fn as_slice<T: Element>(&self) -> &[T] {
        debug_assert_eq!(T::DTYPE, self.dtype);
        match &self.source {
            // SAFETY: memory is aligned for every element type, all of its bytes are initialised,
            // and `bytes <= memory.lines() * LINE`. Every bit pattern is a valid number; a
            // buffer made for bool was zeroed and has since been written as bool only, because a
            // buffer is read and written through arrays of the dtype it was made for.
            Source::Pool(memory) => unsafe {
                std::slice::from_raw_parts(memory.as_ptr().cast(), self.bytes / size_of::<T>())
            },
            Source::Lent(owner) => {
                let elements = T::from_slice(owner.elements()).expect("the dtype is known");
                assert!(size_of_val(elements) == self.bytes, "the owner has changed");
                elements
            }
        }
    }

    /// The elements as a mutable slice.
    pub(crate) fn as_mut_slice<T: Element>(&mut self) -> &mut [T] {
        debug_assert_eq!(T::DTYPE, self.dtype);
        let Source::Pool(memory) = &mut self.source else {
            unreachable!("only memory of our own is written")
        };
        // SAFETY: as in `as_slice`; `&mut self` makes the borrow exclusive.
        unsafe {
            std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), self.bytes / size_of::<T>())
        }
    }
}

/// A word as which elements are moved: one type for all elements of a size, except `bool`, which
/// has only two values.
pub(crate) trait Word: Copy + Send + Sync + 'static {
    fn of(scalar: Scalar) -> Self;
    fn to_le_bytes(self) -> impl AsRef<[u8]>;
}

macro_rules! words {
    ($($word:ty as $number:ty: $bits:ident => $of:expr;)*) => {$(
        impl Word for $word {
            fn of(scalar: Scalar) -> Self {
                let $bits = scalar.to_bits();
                $of
            }
            fn to_le_bytes(self) -> impl AsRef<[u8]> {
                <$number>::from(self).to_le_bytes()
            }
        }
    )*};
}
words! {
    bool as u8: bits => bits != 0;
    u8 as u8: bits => bits as u8;
    u16 as u16: bits => bits as u16;
    u32 as u32: bits => bits as u32;
    u64 as u64: bits => bits as u64;
    u128 as u128: bits => bits;
}

impl Buffer {
    /// Memory for `len` elements; see [`Buffer::new`].
    ///
    /// # Panics
    /// Panics if the system refuses the memory; see [`crate::error::allocating`].
    #[track_caller]
    pub(crate) fn of(dtype: DType, len: usize) -> Self {
        with_dtype!(dtype, T => Self::new::<T>(len))
    }

    /// Whether the elements are moved as these words.
    fn is_of<W: Word>(&self) -> bool {
        let bools = TypeId::of::<W>() == TypeId::of::<bool>();
        size_of::<W>() == self.dtype.size() && bools == (self.dtype == DType::Bool)
    }

    /// The elements as words.
    pub(crate) fn as_words<W: Word>(&self) -> &[W] {
        assert!(self.is_of::<W>(), "words of another size");
        let (start, len) = with_dtype!(self.dtype, T => {
            let elements = self.as_slice::<T>();
            (elements.as_ptr().cast(), elements.len())
        });
        // SAFETY: an element has the size and the alignment of the word, of which every bit pattern is
        // valid, and the words of bools are bools.
        unsafe { std::slice::from_raw_parts(start, len) }
    }

    /// The elements as mutable words.
    pub(crate) fn as_mut_words<W: Word>(&mut self) -> &mut [W] {
        assert!(self.is_of::<W>(), "words of another size");
        let (start, len) = with_dtype!(self.dtype, T => {
            let elements = self.as_mut_slice::<T>();
            (elements.as_mut_ptr().cast(), elements.len())
        });
        // SAFETY: as in `as_words`; `&mut self` makes the borrow exclusive. Every word is an element too.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }

    /// The elements, of any dtype.
    pub(crate) fn as_run(&self) -> Slice<'_> {
        with_dtype!(self.dtype, T => T::to_slice(self.as_slice::<T>()))
    }

    /// The elements, of any dtype, as a mutable slice.
    pub(crate) fn as_mut_run(&mut self) -> SliceMut<'_> {
        with_dtype!(self.dtype, T => T::to_slice_mut(self.as_mut_slice::<T>()))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Source::Pool(memory) = &mut self.source {
            POOL.give(std::mem::take(memory));
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.bytes)
    }
}

/// Buffers of at most this many lines (64 KiB) stay with their thread.
const SMALL: usize = 1024;
/// The number of small buffers of one size that a thread keeps.
const SMALL_KEPT: usize = 64;
/// The number of bytes of large buffers that are kept, unless [`set_pool_limit`] changes it.
const LARGE_KEPT: usize = 1 << 30;

struct Pool {
    large: Mutex<Vec<Vec<Memory>>>,
    kept: AtomicUsize,
    limit: AtomicUsize,
}

static POOL: Pool = Pool {
    large: Mutex::new(Vec::new()),
    kept: AtomicUsize::new(0),
    limit: AtomicUsize::new(LARGE_KEPT),
};

thread_local! {
    static SMALL_POOL: RefCell<Vec<Vec<Memory>>> = const { RefCell::new(Vec::new()) };
}

/// The class of buffers that hold at least `lines` lines, and the number of lines that they hold:
/// there are four classes for each power of two.
fn class(lines: usize) -> (usize, usize) {
    if lines <= 4 {
        return (lines, lines);
    }
    let power = (lines - 1).ilog2() as usize;
    let quarter = 1 << (power - 2);
    let quarters = lines.div_ceil(quarter);
    ((power - 2) * 4 + quarters, quarters * quarter)
}

/// A list of `count` times `value`.
///
/// # Panics
/// Panics if the system refuses the memory; see [`crate::error::allocating`].
#[track_caller]
pub(crate) fn list<T: Clone>(value: T, count: usize) -> Vec<T> {
    let mut list = reserved(count);
    list.resize(count, value);
    list
}

/// Raises that the system refuses memory for this number of elements. A thread of a pool passes the
/// error on without a message, because the thread that waits for it reports it.
#[cold]
#[track_caller]
fn refused<T>(elements: usize) -> ! {
    let error = Error::out_of_memory::<T>(elements);
    match rayon::current_thread_index() {
        Some(_) => std::panic::resume_unwind(Box::new(error)),
        None => raise(error),
    }
}

/// An empty list with room for `count` elements.
///
/// # Panics
/// Panics if the system refuses the memory; see [`crate::error::allocating`].
#[track_caller]
pub(crate) fn reserved<T>(count: usize) -> Vec<T> {
    let mut list = Vec::new();
    if list.try_reserve_exact(count).is_err() {
        POOL.free();
        if list.try_reserve_exact(count).is_err() {
            refused::<T>(count);
        }
    }
    list
}

impl Pool {
    fn take(&self, lines: usize) -> Option<Memory> {
        let (class, capacity) = class(lines);
        let kept = if lines <= SMALL {
            SMALL_POOL
                .try_with(|pool| pool.borrow_mut().get_mut(class).and_then(Vec::pop))
                .ok()
                .flatten()
        } else {
            let mut large = self
                .large
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            large.get_mut(class).and_then(Vec::pop).inspect(|memory| {
                self.kept
                    .fetch_sub(memory.lines() * LINE, Ordering::Relaxed);
            })
        };
        kept.or_else(|| {
            Memory::new(capacity).or_else(|| {
                // The buffers that the pool keeps may be just the memory that is missing.
                self.free();
                Memory::new(capacity)
            })
        })
    }

    /// Frees the large buffers that are kept.
    fn free(&self) {
        let kept = std::mem::take(
            &mut *self
                .large
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner()),
        );
        let bytes = |memory: &Memory| memory.lines() * LINE;
        let freed = kept.iter().flatten().map(bytes).sum();
        self.kept.fetch_sub(freed, Ordering::Relaxed);
    }

    fn give(&self, memory: Memory) {
        let lines = memory.lines();
        if lines == 0 {
            return;
        }
        let (class, _) = class(lines);
        let keep = |kept: &mut Vec<Vec<Memory>>, memory| {
            if kept.len() <= class {
                kept.resize_with(class + 1, Vec::new);
            }
            kept[class].push(memory);
        };
        if lines <= SMALL {
            // When a thread ends, its pool may already be gone. The buffer is then simply freed.
            let _ = SMALL_POOL.try_with(|pool| {
                let mut pool = pool.borrow_mut();
                if pool.get(class).is_none_or(|kept| kept.len() < SMALL_KEPT) {
                    keep(&mut pool, memory);
                }
            });
        } else if self.kept.load(Ordering::Relaxed) + lines * LINE
            <= self.limit.load(Ordering::Relaxed)
        {
            self.kept.fetch_add(lines * LINE, Ordering::Relaxed);
            keep(
                &mut self
                    .large
                    .lock()
                    .unwrap_or_else(|poisoned| poisoned.into_inner()),
                memory,
            );
        }
    }
}

/// Returns the number of bytes of large buffers in the pool.
pub fn pooled_bytes() -> usize {
    POOL.kept.load(Ordering::Relaxed)
}

/// Sets whether new buffers of 2 MiB and more ask the system for huge pages, and frees those that the pool keeps
/// now. Defaults to `true`. Only Linux is asked, and may have none. What goes through large arrays once takes up to
/// a quarter less time in them; a system whose memory is in pieces may take longer to find some. Results do not
/// depend on it.
///
/// ```
/// use bibun_array::{Array, DType, set_huge_pages};
/// set_huge_pages(false);
/// let x = Array::ones([1024, 1024], DType::F32).cumsum(0);
/// assert_eq!(x.max(..).item::<f32>(), 1024.0);
/// ```
pub fn set_huge_pages(wanted: bool) {
    memory::HUGE_PAGES.store(wanted, Ordering::Relaxed);
    POOL.free();
}

/// Sets the number of bytes of large buffers that the pool may keep, and frees those that it keeps
/// now. Defaults to 1 GiB. Results do not depend on it.
pub fn set_pool_limit(bytes: usize) {
    POOL.limit.store(bytes, Ordering::Relaxed);
    POOL.free();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_what_they_promise_and_do_not_collide() {
        let mut seen = std::collections::BTreeMap::new();
        for lines in 1..10_000 {
            let (class, capacity) = class(lines);
            assert!(capacity >= lines && capacity <= lines + lines.div_ceil(4));
            assert_eq!(super::class(capacity), (class, capacity));
            assert_eq!(*seen.entry(class).or_insert(capacity), capacity);
        }
    }

    #[test]
    fn memory_that_the_system_refuses_is_none() {
        for len in [usize::MAX, usize::MAX / 8, 1 << 57, 1 << 50] {
            assert!(Buffer::try_new::<f64>(len).is_none(), "{len}");
            let refused = crate::attempt(|| list(0.0, len)).unwrap_err();
            assert!(matches!(refused, Error::OutOfMemory { .. }), "{refused}");
        }
    }

    #[test]
    fn what_is_lent_is_read_through_its_owner_and_given_back_to_nobody() {
        let owner = std::sync::Arc::<[i64]>::from([1, 2]);
        let buffer = Buffer::lent(std::sync::Arc::clone(&owner));
        assert_eq!(
            (buffer.as_slice::<i64>(), buffer.bytes()),
            (&[1, 2][..], 16)
        );
        assert!(!buffer.is_ours() && Buffer::new::<i64>(2).is_ours());
        assert_eq!(buffer.as_slice::<i64>().as_ptr(), owner.as_ptr());
        drop(buffer);
        assert_eq!(std::sync::Arc::strong_count(&owner), 1);
    }

    #[test]
    fn pages_hold_what_lines_hold() {
        for is_huge in [true, false] {
            set_huge_pages(is_huge);
            for bytes in [(1 << 21) - 64, 1 << 21, (1 << 21) + 1, 5 << 20] {
                let mut buffer = Buffer::new::<u8>(bytes);
                let elements = buffer.as_mut_slice::<u8>();
                assert_eq!(elements.as_ptr().addr() % LINE, 0);
                elements.fill(255);
                drop(buffer);
                let buffer = Buffer::new::<bool>(bytes);
                assert!(buffer.as_slice::<bool>().iter().all(|&x| !x), "{bytes}");
                assert_eq!(buffer.as_slice::<bool>().len(), bytes);
            }
        }
        set_huge_pages(true);
    }

    #[test]
    fn buffers_are_reused_and_bools_are_clean() {
        let mut buffer = Buffer::new::<i64>(1000);
        buffer.as_mut_slice::<i64>().fill(-1);
        let address = buffer.as_slice::<i64>().as_ptr() as usize;
        drop(buffer);
        let buffer = Buffer::new::<bool>(8000);
        assert_eq!(buffer.as_slice::<bool>().as_ptr() as usize, address);
        assert!(buffer.as_slice::<bool>().iter().all(|&x| !x));
    }
}
