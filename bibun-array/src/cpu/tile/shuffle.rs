//! Transposes of squares of 64-byte vectors by shuffles that need no register of indices.
//!
//! Two steps exchange elements within the 16-byte blocks of vectors, which are then exchanged as a whole: every
//! shuffle takes half of its blocks from each of two vectors.

// PERF: the exchanges that serve all machines become shuffles with indices in registers, of which there are too few
// for those and a square. Loops over indices are unrolled early enough for a square to stay in registers.
#![allow(clippy::needless_range_loop)]

use std::arch::x86_64::__m512d;

use pulp::Simd;
use pulp::bytemuck::cast;
use pulp::x86::V4;

use super::LANES;

/// Transposes sixteen rows of sixteen.
#[inline(always)]
pub(super) fn transpose_singles<S: Simd>(simd: V4, square: &mut [S::f32s; LANES]) {
    let machine = simd.avx512f;
    // Vector `4 i + j` has column `4 b + j` of rows `4 i` to `4 i + 3` in its block `b`.
    let mut blocks: [__m512d; LANES] = [cast(square[0]); LANES];
    for i in 0..4 {
        let (x, y) = (cast(square[4 * i]), cast(square[4 * i + 1]));
        let (z, w) = (cast(square[4 * i + 2]), cast(square[4 * i + 3]));
        let low = cast(machine._mm512_unpacklo_ps(x, y));
        let high = cast(machine._mm512_unpackhi_ps(x, y));
        let others_low = cast(machine._mm512_unpacklo_ps(z, w));
        let others_high = cast(machine._mm512_unpackhi_ps(z, w));
        blocks[4 * i] = machine._mm512_unpacklo_pd(low, others_low);
        blocks[4 * i + 1] = machine._mm512_unpackhi_pd(low, others_low);
        blocks[4 * i + 2] = machine._mm512_unpacklo_pd(high, others_high);
        blocks[4 * i + 3] = machine._mm512_unpackhi_pd(high, others_high);
    }
    for j in 0..4 {
        let [x, y, z, w] = [blocks[j], blocks[4 + j], blocks[8 + j], blocks[12 + j]];
        let [x, y, z, w] = transposed_blocks(simd, [x, y, z, w]);
        square[j] = cast(x);
        square[4 + j] = cast(y);
        square[8 + j] = cast(z);
        square[12 + j] = cast(w);
    }
}

/// Transposes the first eight rows of eight.
#[inline(always)]
pub(super) fn transpose_doubles<S: Simd>(simd: V4, square: &mut [S::f64s; LANES]) {
    let machine = simd.avx512f;
    // Vector `2 i + j` has column `2 b + j` of rows `2 i` and `2 i + 1` in its block `b`.
    let mut blocks: [__m512d; 8] = [cast(square[0]); 8];
    for i in 0..4 {
        let (x, y) = (cast(square[2 * i]), cast(square[2 * i + 1]));
        blocks[2 * i] = machine._mm512_unpacklo_pd(x, y);
        blocks[2 * i + 1] = machine._mm512_unpackhi_pd(x, y);
    }
    for j in 0..2 {
        let [x, y, z, w] = [blocks[j], blocks[2 + j], blocks[4 + j], blocks[6 + j]];
        let [x, y, z, w] = transposed_blocks(simd, [x, y, z, w]);
        square[j] = cast(x);
        square[2 + j] = cast(y);
        square[4 + j] = cast(z);
        square[6 + j] = cast(w);
    }
}

/// Returns vectors of which block `i` of vector `j` is block `j` of vector `i`.
#[inline(always)]
fn transposed_blocks(simd: V4, [x, y, z, w]: [__m512d; 4]) -> [__m512d; 4] {
    let (low, high) = (even(simd, x, y), even(simd, z, w));
    let (odd_low, odd_high) = (odd(simd, x, y), odd(simd, z, w));
    [
        even(simd, low, high),
        even(simd, odd_low, odd_high),
        odd(simd, low, high),
        odd(simd, odd_low, odd_high),
    ]
}

/// The blocks with even numbers of two vectors.
#[inline(always)]
fn even(simd: V4, x: __m512d, y: __m512d) -> __m512d {
    simd.avx512f._mm512_shuffle_f64x2::<0b10_00_10_00>(x, y)
}

/// The blocks with odd numbers of two vectors.
#[inline(always)]
fn odd(simd: V4, x: __m512d, y: __m512d) -> __m512d {
    simd.avx512f._mm512_shuffle_f64x2::<0b11_01_11_01>(x, y)
}
