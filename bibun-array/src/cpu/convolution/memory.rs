//! Memory that threads work in, and the places of elements in it.

use pulp::{Arch, Simd, WithSimd};

use crate::cpu::threads::{chunks, for_each_of, for_each_run};
use crate::cpu::tile::Float;
use crate::cpu::worth_threads;
use crate::storage::{Buffer, reserved};

/// The number of elements of the largest vectors, which may be read beyond the end of a buffer.
pub(super) const SLACK: usize = 16;

/// The properties of a dtype that decide how it is read and written.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    pub(super) lanes: usize,
    pub(super) bytes: usize,
}

impl Unit {
    pub(super) fn of<T: Float>() -> Self {
        Self {
            lanes: lanes::<T>(),
            bytes: size_of::<T>(),
        }
    }
}

/// Returns the number of elements of a type in the vectors of this machine.
pub(super) fn lanes<T: Float>() -> usize {
    struct Lanes<T>(std::marker::PhantomData<T>);
    impl<T: Float> WithSimd for Lanes<T> {
        type Output = usize;
        fn with_simd<S: Simd>(self, _: S) -> usize {
            T::lanes::<S>()
        }
    }
    Arch::new().dispatch(Lanes::<T>(std::marker::PhantomData))
}

/// Returns all sums of one place of each axis.
pub(super) fn places<I: IntoIterator<Item = usize>>(
    axes: impl IntoIterator<Item = I>,
) -> Vec<usize> {
    axes.into_iter().fold(vec![0], |places, axis| {
        let along: Vec<usize> = axis.into_iter().collect();
        let mut sums = reserved(places.len().saturating_mul(along.len()));
        for place in places {
            sums.extend(along.iter().map(|step| place + step));
        }
        sums
    })
}

/// Returns the steps between neighbours along axes of these sizes.
pub(super) fn steps(sizes: &[usize], last: usize) -> Vec<usize> {
    let mut steps = vec![last; sizes.len()];
    for axis in (1..sizes.len()).rev() {
        steps[axis - 1] = steps[axis].saturating_mul(sizes[axis]);
    }
    steps
}

/// Returns whether a number of multiplications is worth cutting into parts for threads.
pub(super) fn worth<T: Float>(multiplications: usize) -> bool {
    worth_threads(multiplications / (2 * lanes::<T>()))
}

/// Calls `each` for every chunk of `len` elements, with memory of the thread's own, and on several
/// threads if `threads` is true.
pub(super) fn for_each_with<T: Float>(
    scratch: &(dyn Fn() -> Scratch + Sync),
    out: &mut [T],
    len: usize,
    threads: bool,
    each: &(dyn Fn(usize, &mut [T], &mut Scratch) + Sync),
) {
    for_each_run(chunks(out, len), threads, 1, &|first, run| {
        let scratch = &mut scratch();
        for_each_of(first, run, &mut |i, out| each(i, out, scratch));
    });
}

/// Memory that one thread works in.
pub(in crate::cpu) struct Scratch {
    /// The elements that are read, between their padding.
    pub(super) source: Buffer,
    /// The elements gathered from there.
    pub(super) patches: Buffer,
    /// Results that are not written to one place.
    pub(super) results: Buffer,
}

impl Scratch {
    pub(super) fn new<T: Float>(source: usize, patches: usize, results: usize) -> Self {
        let mut scratch = Self {
            source: Buffer::new::<T>(source.saturating_add(SLACK)),
            patches: Buffer::new::<T>(patches.saturating_add(SLACK)),
            results: Buffer::new::<T>(results.saturating_add(SLACK)),
        };
        // Nothing else writes to the padding.
        scratch.source.as_mut_slice().fill(T::ZERO);
        scratch
    }
}

/// The bytes of a result that fits no cache. If it is written once, it is written past the caches, which
/// would otherwise read the old content first.
pub(super) const STREAMED: usize = 1 << 22;

/// Copies elements past the caches.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn stream<T: Copy>(from: &[T], to: &mut [T]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    const LANE: usize = size_of::<__m128i>();
    assert_eq!(from.len(), to.len());
    let head = to.as_ptr().align_offset(LANE).min(to.len());
    let lanes = size_of_val(&to[head..]) / LANE;
    let whole = head + lanes * (LANE / size_of::<T>());
    let start = from.as_ptr().wrapping_add(head).cast::<__m128i>();
    let target = to.as_mut_ptr().wrapping_add(head).cast::<__m128i>();
    let lane = |i: usize| {
        // SAFETY: `i < lanes`, so both are in their slices, whose lengths are equal; `target`
        // begins at a multiple of 16 if there is a lane, and every bit pattern that is read is an
        // element that is written. SSE2 is part of x86-64.
        unsafe {
            let bits = _mm_loadu_si128(start.wrapping_add(i));
            _mm_stream_si128(target.wrapping_add(i), bits);
        }
    };
    (0..lanes).for_each(lane);
    to[..head].copy_from_slice(&from[..head]);
    to[whole..].copy_from_slice(&from[whole..]);
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn stream<T: Copy>(from: &[T], to: &mut [T]) {
    to.copy_from_slice(from);
}

/// Makes the streamed elements visible to other threads.
#[inline(always)]
pub(super) fn fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// Copies a few elements.
// PERF: the last vector is copied together with elements of the one before, because a part of one is a call.
#[inline(always)]
pub(super) fn copy<S: Simd, T: Float>(simd: S, x: &[T], y: &mut [T]) {
    let lanes = T::lanes::<S>();
    let len = x.len();
    assert_eq!(len, y.len());
    if len < lanes {
        return T::store_part(simd, y, T::load_part(simd, x));
    }
    let mut first = 0;
    while first + lanes < len {
        T::store::<S>(&mut y[first..], T::load::<S>(&x[first..]));
        first += lanes;
    }
    let last = len - lanes;
    T::store::<S>(&mut y[last..], T::load::<S>(&x[last..]));
}
