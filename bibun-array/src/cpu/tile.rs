//! Sums of products in registers: the core of a matrix product of which one operand need not be a
//! matrix in memory.
//!
//! A tile is a few rows by a few vectors. For each `k`, its vectors are read from anywhere, and its
//! rows from memory in which `k` runs along neighbours. An element of the result is the sum over
//! `k` in order, in any tile, so the shapes of tiles change no result.

// Loops over indices are unrolled early enough for their targets to stay in registers.
#![allow(clippy::needless_range_loop)]

#[cfg(target_arch = "x86_64")]
mod shuffle;

#[cfg(target_arch = "x86_64")]
use std::any::Any;
use std::cell::Cell;
use std::slice;
use std::thread::LocalKey;

use pulp::{Simd, WithSimd};

use super::is_plain;
use super::matmul::Number;

/// The largest number of vectors in a tile.
pub(super) const WIDE: usize = 3;
/// The largest number of elements of any vector.
pub(super) const LANES: usize = 16;

/// A float with its vectors.
pub(crate) trait Float: Number {
    type Vector<S: Simd>: Copy;
    fn splat<S: Simd>(simd: S, x: Self) -> Self::Vector<S>;
    fn add<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    fn multiply<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// `a * b + c`, rounded once if the machine can.
    fn multiply_add<S: Simd>(
        simd: S,
        a: Self::Vector<S>,
        b: Self::Vector<S>,
        c: Self::Vector<S>,
    ) -> Self::Vector<S>;
    /// The sum of halves, of halves of this, and so on.
    fn sum<S: Simd>(simd: S, x: Self::Vector<S>) -> Self;
    fn first<S: Simd>(x: Self::Vector<S>) -> Self;
    /// `a` where it is greater than `b`, else `b`.
    fn larger<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// `a` where it is less than `b`, else `b`.
    fn smaller<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// NaN where `a` is NaN, else `b`.
    fn nan_or<S: Simd>(simd: S, a: Self::Vector<S>, b: Self::Vector<S>) -> Self::Vector<S>;
    /// The elements so many places to the left, the first ones at the end.
    fn rotate<S: Simd>(simd: S, x: Self::Vector<S>, places: usize) -> Self::Vector<S>;
    /// The first elements of a slice that has at least as many as a vector.
    fn load<S: Simd>(x: &[Self]) -> Self::Vector<S>;
    fn store<S: Simd>(x: &mut [Self], vector: Self::Vector<S>);
    /// All elements of a slice that has at most as many as a vector, then zeros.
    fn load_part<S: Simd>(simd: S, x: &[Self]) -> Self::Vector<S>;
    fn store_part<S: Simd>(simd: S, x: &mut [Self], vector: Self::Vector<S>);
    /// Two rows of blocks of `distance` elements, transposed in pairs.
    fn exchange<S: Simd>(
        simd: S,
        x: Self::Vector<S>,
        y: Self::Vector<S>,
        distance: usize,
    ) -> (Self::Vector<S>, Self::Vector<S>);
    /// Transposes a square of vectors.
    fn transpose<S: Simd>(simd: S, square: &mut [Self::Vector<S>; LANES]);
    /// The working memory of a thread. Its user takes it and puts it back.
    fn scratch() -> &'static LocalKey<Cell<Vec<Self>>>;
    /// The same for transposed results.
    fn turned() -> &'static LocalKey<Cell<Vec<Self>>>;
    /// The number of elements of a vector.
    #[inline(always)]
    fn lanes<S: Simd>() -> usize {
        size_of::<Self::Vector<S>>() / size_of::<Self>()
    }
}

macro_rules! float {
    (
        $T:ident, $vector:ident, $splat:ident, $add:ident, $multiply:ident, $multiply_add:ident,
        $sum:ident, $load:ident, $store:ident, $load_part:ident, $store_part:ident,
        $max:ident, $min:ident, $equal:ident, $greater:ident, $select:ident,
        $left:ident, $right:ident, $transposed:ident
    ) => {
        impl Float for $T {
            type Vector<S: Simd> = S::$vector;
            #[inline(always)]
            fn splat<S: Simd>(simd: S, x: $T) -> S::$vector {
                simd.$splat(x)
            }
            #[inline(always)]
            fn add<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$add(a, b)
            }
            #[inline(always)]
            fn multiply<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$multiply(a, b)
            }
            #[inline(always)]
            fn multiply_add<S: Simd>(
                simd: S,
                a: S::$vector,
                b: S::$vector,
                c: S::$vector,
            ) -> S::$vector {
                simd.$multiply_add(a, b, c)
            }
            #[inline(always)]
            fn sum<S: Simd>(simd: S, x: S::$vector) -> $T {
                simd.$sum(x)
            }
            #[inline(always)]
            fn first<S: Simd>(x: S::$vector) -> $T {
                let mut all = [0.0; LANES];
                Self::store::<S>(&mut all, x);
                all[0]
            }
            #[inline(always)]
            fn larger<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                match const { chooses_second::<S>() } {
                    true => simd.$max(a, b),
                    false => simd.$select(simd.$greater(a, b), a, b),
                }
            }
            #[inline(always)]
            fn smaller<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                match const { chooses_second::<S>() } {
                    true => simd.$min(a, b),
                    false => simd.$select(simd.$greater(b, a), a, b),
                }
            }
            #[inline(always)]
            fn nan_or<S: Simd>(simd: S, a: S::$vector, b: S::$vector) -> S::$vector {
                simd.$select(simd.$equal(a, a), b, simd.$splat(<$T>::NAN))
            }
            #[inline(always)]
            fn rotate<S: Simd>(simd: S, x: S::$vector, places: usize) -> S::$vector {
                simd.$left(x, places)
            }
            #[inline(always)]
            fn load<S: Simd>(x: &[$T]) -> S::$vector {
                S::$load(&x[..Self::lanes::<S>()]).0[0]
            }
            #[inline(always)]
            fn store<S: Simd>(x: &mut [$T], vector: S::$vector) {
                S::$store(&mut x[..Self::lanes::<S>()]).0[0] = vector;
            }
            #[inline(always)]
            fn load_part<S: Simd>(simd: S, x: &[$T]) -> S::$vector {
                simd.$load_part(x)
            }
            #[inline(always)]
            fn store_part<S: Simd>(simd: S, x: &mut [$T], vector: S::$vector) {
                simd.$store_part(x, vector);
            }
            #[inline(always)]
            fn exchange<S: Simd>(
                simd: S,
                x: S::$vector,
                y: S::$vector,
                distance: usize,
            ) -> (S::$vector, S::$vector) {
                let first: [$T; LANES] = std::array::from_fn(|i| (i & distance == 0) as u8 as $T);
                let first = simd.$greater(Self::load::<S>(&first), simd.$splat(0.5));
                (
                    simd.$select(first, x, simd.$right(y, distance)),
                    simd.$select(first, simd.$left(x, distance), y),
                )
            }
            #[inline(always)]
            fn transpose<S: Simd>(simd: S, square: &mut [S::$vector; LANES]) {
                #[cfg(target_arch = "x86_64")]
                if let Some(simd) = (&simd as &dyn Any).downcast_ref() {
                    shuffle::$transposed::<S>(*simd, square);
                    return;
                }
                exchange_all::<S, $T, 8>(simd, square);
                exchange_all::<S, $T, 4>(simd, square);
                exchange_all::<S, $T, 2>(simd, square);
                exchange_all::<S, $T, 1>(simd, square);
            }
            fn scratch() -> &'static LocalKey<Cell<Vec<$T>>> {
                thread_local!(static SCRATCH: Cell<Vec<$T>> = const { Cell::new(Vec::new()) });
                &SCRATCH
            }
            fn turned() -> &'static LocalKey<Cell<Vec<$T>>> {
                thread_local!(static TURNED: Cell<Vec<$T>> = const { Cell::new(Vec::new()) });
                &TURNED
            }
        }
    };
}

float!(
    f32,
    f32s,
    splat_f32s,
    add_f32s,
    mul_f32s,
    mul_add_e_f32s,
    reduce_sum_f32s,
    as_simd_f32s,
    as_mut_simd_f32s,
    partial_load_f32s,
    partial_store_f32s,
    max_f32s,
    min_f32s,
    equal_f32s,
    greater_than_f32s,
    select_f32s,
    rotate_left_f32s,
    rotate_right_f32s,
    transpose_singles
);
float!(
    f64,
    f64s,
    splat_f64s,
    add_f64s,
    mul_f64s,
    mul_add_e_f64s,
    reduce_sum_f64s,
    as_simd_f64s,
    as_mut_simd_f64s,
    partial_load_f64s,
    partial_store_f64s,
    max_f64s,
    min_f64s,
    equal_f64s,
    greater_than_f64s,
    select_f64s,
    rotate_left_f64s,
    rotate_right_f64s,
    transpose_doubles
);

/// Whether the greater and the smaller one of two elements are the second one where neither is, or where one
/// of them is NaN.
const fn chooses_second<S: Simd>() -> bool {
    cfg!(target_arch = "x86_64") && !S::IS_SCALAR
}

/// Rows of factors: `memory[segment * segment_step + row * step + k]`.
#[derive(Clone, Copy)]
pub(super) struct Rows<'a, T> {
    pub(super) memory: &'a [T],
    pub(super) step: usize,
    pub(super) segment: usize,
}

/// Memory from which vectors are read: vector `v` for `k` is at
/// `memory[segment * segment_step + starts[v] + steps[k]]`.
#[derive(Clone, Copy)]
pub(super) struct Vectors<'a, T> {
    pub(super) memory: &'a [T],
    pub(super) steps: &'a [usize],
    /// The largest of the steps.
    pub(super) last: usize,
    pub(super) segment: usize,
}

/// One vector of a tile: where it is read and written, and the number of elements that are written.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Lane {
    pub(super) start: usize,
    pub(super) place: usize,
    pub(super) len: usize,
}

/// The target of tiles: row `i` of vector `v` is written to `memory[i * step + places[v]]`.
pub(super) struct Target<'a, T> {
    pub(super) memory: &'a mut [T],
    pub(super) step: usize,
    /// Whether the sums are added to the content of the memory.
    pub(super) add: bool,
}

/// Computes sums over `k` and over all segments, for `count` rows and up to [`WIDE`] vectors.
#[inline(always)]
pub(super) fn sums<S: Simd, T: Float>(
    simd: S,
    count: usize,
    segments: usize,
    rows: Rows<'_, T>,
    vectors: Vectors<'_, T>,
    lanes: &[Lane],
    target: Target<'_, T>,
) {
    if const { is_plain::<S>() } {
        for row in 0..count {
            for lane in lanes {
                simd.vectorize(Fixed::<T, 1, 1>(Tile {
                    segments,
                    row,
                    rows,
                    vectors,
                    lanes: slice::from_ref(lane),
                    target: Target {
                        memory: &mut *target.memory,
                        ..target
                    },
                }));
            }
        }
        return;
    }
    let high = const { high::<S>() };
    let mut row = 0;
    while row < count {
        let height = match count - row {
            rest if rest >= high => high,
            rest if rest >= 4 => 4,
            rest if rest >= 2 => 2,
            _ => 1,
        };
        let tile = Tile {
            segments,
            row,
            rows,
            vectors,
            lanes,
            target: Target {
                memory: &mut *target.memory,
                ..target
            },
        };
        tile.run(simd, height);
        row += height;
    }
}

/// The largest number of rows of a tile: as many sums as there are registers, less those for
/// factors.
// PERF: of the 16 registers of AVX2, 12 are for sums and 4 for factors: were 3 of these for a row of vectors, one
// sum would be in memory, and every step would wait for it.
pub(super) const fn high<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { 8 } else { 6 }
}

/// The largest number of vectors of a tile of several rows.
const fn wide<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { WIDE } else { 2 }
}

/// Returns the number of vectors in the next tile, of those that are left.
pub(super) fn width<S: Simd>(rest: usize) -> usize {
    match rest {
        4 => 2,
        rest => rest.min(const { wide::<S>() }),
    }
}

struct Tile<'a, T> {
    segments: usize,
    row: usize,
    rows: Rows<'a, T>,
    vectors: Vectors<'a, T>,
    lanes: &'a [Lane],
    target: Target<'a, T>,
}

impl<T: Float> Tile<'_, T> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S, height: usize) {
        // Tiles for which a machine has no registers are not compiled for it.
        if const { high::<S>() == 8 } && height == 8 {
            return self.of_height::<S, 8>(simd);
        }
        if const { high::<S>() == 6 } && height == 6 {
            return self.of_height::<S, 6>(simd);
        }
        match height {
            4 => self.of_height::<S, 4>(simd),
            2 => self.of_height::<S, 2>(simd),
            _ => self.of_height::<S, 1>(simd),
        }
    }

    #[inline(always)]
    fn of_height<S: Simd, const M: usize>(self, simd: S) {
        if const { wide::<S>() == 3 } && self.lanes.len() == 3 {
            return simd.vectorize(Fixed::<T, M, 3>(self));
        }
        match self.lanes.len() {
            2 => simd.vectorize(Fixed::<T, M, 2>(self)),
            _ => simd.vectorize(Fixed::<T, M, 1>(self)),
        }
    }
}

/// A tile of `M` rows and `N` vectors.
struct Fixed<'a, T, const M: usize, const N: usize>(Tile<'a, T>);

impl<T: Float, const M: usize, const N: usize> WithSimd for Fixed<'_, T, M, N> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Tile {
            segments,
            row,
            rows,
            vectors,
            lanes,
            target,
        } = self.0;
        let steps = vectors.steps;
        let span = vectors.last + T::lanes::<S>();
        let mut sums = [[T::splat(simd, T::ZERO); N]; M];
        for segment in 0..segments {
            let rows_from = &rows.memory[segment * rows.segment..];
            let mut factors = [&rows_from[..0]; M];
            for (i, factors) in factors.iter_mut().enumerate() {
                *factors = &rows_from[(row + i) * rows.step..][..steps.len()];
            }
            let memory = &vectors.memory[segment * vectors.segment..];
            let mut windows = [&memory[..0]; N];
            for v in 0..N {
                windows[v] = &memory[lanes[v].start..][..span];
            }
            for (k, &step) in steps.iter().enumerate() {
                let end = step + T::lanes::<S>();
                // Known of all vectors at once.
                assert!(step <= end && end <= span);
                let mut read = [sums[0][0]; N];
                for v in 0..N {
                    read[v] = T::load::<S>(&windows[v][step..end]);
                }
                for i in 0..M {
                    let factor = T::splat(simd, factors[i][k]);
                    for v in 0..N {
                        sums[i][v] = T::multiply_add(simd, factor, read[v], sums[i][v]);
                    }
                }
            }
        }
        // Only now in memory, to be read at any index.
        let mut results = [[sums[0][0]; N]; M];
        for i in 0..M {
            for v in 0..N {
                results[i][v] = sums[i][v];
            }
        }
        for i in 0..M {
            let out = &mut target.memory[(row + i) * target.step..];
            for v in 0..N {
                let (mut sum, lane) = (results[i][v], lanes[v]);
                let out = &mut out[lane.place..][..lane.len];
                if lane.len == T::lanes::<S>() {
                    if target.add {
                        sum = T::add(simd, T::load::<S>(out), sum);
                    }
                    T::store::<S>(out, sum);
                } else {
                    if target.add {
                        sum = T::add(simd, T::load_part(simd, out), sum);
                    }
                    T::store_part(simd, out, sum);
                }
            }
        }
    }
}

/// Rows of factors that are read anywhere, `memory[starts[position] + channel * apart + step]` for each channel and
/// tap, and vectors of weights for all of them, one channel after the other.
pub(super) struct Scattered<'a, T> {
    pub(super) memory: &'a [T],
    pub(super) starts: &'a [usize],
    /// Which of the starts, in the order of tiles.
    pub(super) positions: &'a [usize],
    pub(super) taps: &'a [Tap],
    /// The number of taps that have weights.
    pub(super) kernel: usize,
    pub(super) apart: usize,
    pub(super) weights: &'a [T],
    /// The sums, a row for each start.
    pub(super) out: &'a mut [T],
    /// Whether the sums go on from the content of the memory.
    pub(super) add: bool,
}

/// An element of a kernel, and the step to what it is multiplied with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tap {
    pub(super) number: usize,
    pub(super) step: usize,
}

/// The heights of tiles with many and with fewer vectors.
pub(super) const HEIGHTS: [usize; 2] = [6, 8];

/// Which of the heights tiles of so many vectors have, for which a machine has registers.
pub(super) const fn tall<S: Simd>(vectors: usize) -> usize {
    let most = if S::REGISTER_COUNT >= 32 { 4 } else { 2 };
    (vectors < most) as usize
}

/// Computes the sums of so many vectors, one step after the other.
#[inline(always)]
pub(super) fn scattered<S: Simd, T: Float>(simd: S, work: Scattered<'_, T>, vectors: usize) {
    const LOW: usize = HEIGHTS[0];
    const HIGH: usize = HEIGHTS[1];
    // Tiles for which a machine has no registers are not compiled for it.
    if const { S::REGISTER_COUNT >= 32 } {
        match vectors {
            4 => return simd.vectorize(FixedScattered::<T, LOW, 4>(work)),
            3 => return simd.vectorize(FixedScattered::<T, HIGH, 3>(work)),
            2 => return simd.vectorize(FixedScattered::<T, HIGH, 2>(work)),
            _ => {}
        }
    }
    match vectors {
        2 => simd.vectorize(FixedScattered::<T, LOW, 2>(work)),
        _ => simd.vectorize(FixedScattered::<T, HIGH, 1>(work)),
    }
}

/// The same in tiles of `M` rows and `N` vectors.
struct FixedScattered<'a, T, const M: usize, const N: usize>(Scattered<'a, T>);

impl<T: Float, const M: usize, const N: usize> WithSimd for FixedScattered<'_, T, M, N> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Scattered {
            memory,
            starts,
            positions,
            taps,
            kernel,
            apart,
            weights,
            out,
            add,
        } = self.0;
        let lanes = T::lanes::<S>();
        let width = N * lanes;
        let channels = weights.len() / (kernel * width);
        let farthest = taps.iter().map(|tap| tap.step).max().unwrap_or(0);
        let span = (channels - 1) * apart + farthest + 1;
        for tile in positions.chunks(M) {
            // A row without a position is that of the last one.
            let position = |i: usize| tile[i.min(tile.len() - 1)];
            let mut factors = [&memory[..0]; M];
            for (i, factors) in factors.iter_mut().enumerate() {
                *factors = &memory[starts[position(i)]..][..span];
            }
            let mut sums = [[T::splat(simd, T::ZERO); N]; M];
            if add {
                for i in 0..M {
                    let out = &out[position(i) * width..][..width];
                    for v in 0..N {
                        sums[i][v] = T::load::<S>(&out[v * lanes..]);
                    }
                }
            }
            for (channel, weights) in weights.chunks_exact(kernel * width).enumerate() {
                for tap in taps {
                    let step = channel * apart + tap.step;
                    // Known of all rows at once.
                    assert!(step < span);
                    let weights = &weights[tap.number * width..][..width];
                    let mut read = [sums[0][0]; N];
                    for v in 0..N {
                        read[v] = T::load::<S>(&weights[v * lanes..]);
                    }
                    for i in 0..M {
                        let factor = T::splat(simd, factors[i][step]);
                        for v in 0..N {
                            sums[i][v] = T::multiply_add(simd, factor, read[v], sums[i][v]);
                        }
                    }
                }
            }
            for i in 0..M {
                let out = &mut out[position(i) * width..][..width];
                for v in 0..N {
                    T::store::<S>(&mut out[v * lanes..], sums[i][v]);
                }
            }
        }
    }
}

/// The transpose of a square of vectors, each at the beginning of a slice.
#[inline(always)]
pub(crate) fn transposed<'a, S: Simd, T: Float>(
    simd: S,
    row: impl Fn(usize) -> &'a [T],
) -> [T::Vector<S>; LANES] {
    let mut square = [T::splat(simd, T::ZERO); LANES];
    for i in 0..T::lanes::<S>() {
        square[i] = T::load::<S>(row(i));
    }
    T::transpose(simd, &mut square);
    square
}

/// The order of squares that are transposed in cache: sixteen floats are a line of it.
pub(crate) const SQUARE: usize = 16;

/// Writes the transpose of a square, each row of which is at the beginning of a slice. Lines are read whole: those of
/// rows that are a power of two apart push each other out of the cache.
#[inline(always)]
pub(crate) fn transpose_square<'a, S: Simd, T: Float>(
    simd: S,
    row: impl Fn(usize) -> &'a [T],
    to: &mut [[T; SQUARE]; SQUARE],
) {
    let lanes = T::lanes::<S>();
    for i in (0..SQUARE).step_by(lanes) {
        for j in (0..SQUARE).step_by(lanes) {
            let square = transposed::<S, T>(simd, |place| &row(i + place)[j..]);
            for (to, &vector) in to[j..].iter_mut().zip(&square[..lanes]) {
                T::store::<S>(&mut to[i..], vector);
            }
        }
    }
}

/// One step of transposing a square of vectors.
#[inline(always)]
fn exchange_all<S: Simd, T: Float, const D: usize>(simd: S, square: &mut [T::Vector<S>; LANES]) {
    let lanes = T::lanes::<S>();
    for i in 0..LANES {
        if D < lanes && i < lanes && i & D == 0 {
            (square[i], square[i + D]) = T::exchange(simd, square[i], square[i + D], D);
        }
    }
}

/// Adds to every sum the products of the rows of `a`, each of length `len` and one after the other,
/// with the elements of `memory` that begin at the row's start plus the sum's step.
#[inline(always)]
pub(super) fn dots<S: Simd, T: Float>(
    simd: S,
    a: &[T],
    starts: &[usize],
    len: usize,
    memory: &[T],
    steps: &[usize],
    out: &mut [T],
) {
    let mut steps = steps;
    let mut out = out;
    while !steps.is_empty() {
        let count = match steps.len() {
            9.. => 9,
            3.. => 3,
            _ => 1,
        };
        let (now, later) = steps.split_at(count);
        let (sums, rest) = out.split_at_mut(count);
        let (a, starts) = (a, starts);
        match count {
            9 => simd.vectorize(Dots::<T, 9>(a, starts, len, memory, now, sums)),
            3 => simd.vectorize(Dots::<T, 3>(a, starts, len, memory, now, sums)),
            _ => simd.vectorize(Dots::<T, 1>(a, starts, len, memory, now, sums)),
        }
        (steps, out) = (later, rest);
    }
}

/// `N` of the sums of [`dots`], with its arguments.
struct Dots<'a, T, const N: usize>(
    &'a [T],
    &'a [usize],
    usize,
    &'a [T],
    &'a [usize],
    &'a mut [T],
);

impl<T: Float, const N: usize> WithSimd for Dots<'_, T, N> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self(a, starts, len, memory, steps, out) = self;
        let lanes = T::lanes::<S>();
        let whole = len / lanes * lanes;
        let mut sums = [T::splat(simd, T::ZERO); N];
        for (a, &start) in a.chunks_exact(len).zip(starts) {
            for first in (0..whole).step_by(lanes) {
                let factor = T::load::<S>(&a[first..]);
                for i in 0..N {
                    let read = T::load::<S>(&memory[start + first + steps[i]..]);
                    sums[i] = T::multiply_add(simd, factor, read, sums[i]);
                }
            }
            if whole < len {
                let factor = T::load_part(simd, &a[whole..]);
                for i in 0..N {
                    let read = &memory[start + whole + steps[i]..][..len - whole];
                    sums[i] = T::multiply_add(simd, factor, T::load_part(simd, read), sums[i]);
                }
            }
        }
        for i in 0..N {
            out[i] = out[i].plus_product(T::ONE, T::sum(simd, sums[i]));
        }
    }
}
