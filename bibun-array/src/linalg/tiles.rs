//! Transposes of large matrices, tile by tile.

use pulp::{Arch, Simd, WithSimd};

use super::batch::Large;
use super::triangular::Triangle;
use crate::cpu::threads::{Sharing, chunks, for_each};
use crate::cpu::tile::{SQUARE, transpose_square};

/// The order of blocks that are transposed in cache.
pub(super) const TILE: usize = SQUARE;

/// The rows of a transposed tile.
type Tile<T> = [[T; TILE]; TILE];

/// Returns a distance of rows of n elements: those that are a power of two apart push each other out of the cache.
pub(super) fn row_step(n: usize) -> usize {
    (n.div_ceil(TILE) | 1) * TILE
}

/// Writes the transpose of a matrix `[m, n]`. The rows of both are steps apart.
pub(super) fn transpose<T: Large>(
    (a, step): (&[T], usize),
    sizes: [usize; 2],
    (out, out_step): (&mut [T], usize),
) {
    Arch::new().dispatch(Transpose {
        a,
        step,
        sizes,
        out,
        out_step,
    });
}

struct Transpose<'a, 'y, T> {
    a: &'a [T],
    step: usize,
    sizes: [usize; 2],
    out: &'y mut [T],
    out_step: usize,
}

impl<T: Large> WithSimd for Transpose<'_, '_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            a,
            step,
            sizes: [m, n],
            out,
            out_step,
        } = self;
        let mut tile = [[T::of(0.0); TILE]; TILE];
        for i in (0..m).step_by(TILE) {
            for j in (0..n).step_by(TILE) {
                let (height, width) = (TILE.min(m - i), TILE.min(n - j));
                turn(simd, &a[i * step + j..], step, [height, width], &mut tile);
                for (j, row) in (j..j + width).zip(&tile) {
                    out[j * out_step + i..][..height].copy_from_slice(&row[..height]);
                }
            }
        }
    }
}

/// Writes the transpose of a block `[m, n]` to a tile.
#[inline(always)]
fn turn<S: Simd, T: Large>(simd: S, a: &[T], step: usize, [m, n]: [usize; 2], tile: &mut Tile<T>) {
    if m < TILE || n < TILE {
        for i in 0..m {
            for (row, &x) in tile.iter_mut().zip(&a[i * step..][..n]) {
                row[i] = x;
            }
        }
        return;
    }
    transpose_square::<S, T>(simd, |row| &a[row * step..], tile);
}

/// Writes a part of the symmetric part `(a + aᵀ) / 2`, with whole tiles on the diagonal. The rows of `out` are `step`
/// apart.
pub(super) fn symmetric_part<T: Large>(
    a: &[T],
    n: usize,
    triangle: Triangle,
    (out, step): (&mut [T], usize),
) {
    for_each(chunks(out, TILE * step), sharing(n), 1, &|i, out| {
        let first = i * TILE;
        if first < n {
            Arch::new().dispatch(SymmetricBand {
                a,
                n,
                triangle,
                first,
                out,
                step,
            });
        }
    });
}

/// Some rows of the symmetric part.
struct SymmetricBand<'a, 'y, T> {
    a: &'a [T],
    n: usize,
    triangle: Triangle,
    first: usize,
    out: &'y mut [T],
    step: usize,
}

impl<T: Large> WithSimd for SymmetricBand<'_, '_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            a,
            n,
            triangle,
            first,
            out,
            step,
        } = self;
        let columns = match triangle {
            Triangle::Lower => 0..first + 1,
            Triangle::Upper => first..n,
        };
        let (half, height) = (T::of(0.5), TILE.min(n - first));
        let mut tile = [[T::of(0.0); TILE]; TILE];
        for j in columns.step_by(TILE) {
            let width = TILE.min(n - j);
            turn(simd, &a[j * n + first..], n, [width, height], &mut tile);
            for (i, row) in tile[..height].iter().enumerate() {
                let own = &a[(first + i) * n + j..][..width];
                let out = &mut out[i * step + j..][..width];
                for ((out, &own), &other) in out.iter_mut().zip(own).zip(row) {
                    *out = half * own + half * other;
                }
            }
        }
    }
}

/// Writes an upper triangle as a lower one, with zeros beside it. The rows of `a` are `step` apart.
pub(super) fn turn_triangle<T: Large>((a, step): (&[T], usize), n: usize, out: &mut [T]) {
    for_each(chunks(out, (TILE * n).max(1)), sharing(n), 1, &|i, out| {
        Arch::new().dispatch(TriangleBand {
            a,
            step,
            n,
            first: i * TILE,
            out,
        });
    });
}

/// Some rows of a triangle.
struct TriangleBand<'a, 'y, T> {
    a: &'a [T],
    step: usize,
    n: usize,
    first: usize,
    out: &'y mut [T],
}

impl<T: Large> WithSimd for TriangleBand<'_, '_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            a,
            step,
            n,
            first,
            out,
        } = self;
        let height = TILE.min(n - first);
        let mut tile = [[T::of(0.0); TILE]; TILE];
        for j in (0..=first).step_by(TILE) {
            let width = TILE.min(n - j);
            turn(
                simd,
                &a[j * step + first..],
                step,
                [width, height],
                &mut tile,
            );
            for (i, row) in tile[..height].iter().enumerate() {
                out[i * n + j..][..width].copy_from_slice(&row[..width]);
            }
        }
        for (i, row) in out.chunks_exact_mut(n).enumerate() {
            row[first + i + 1..].fill(T::of(0.0));
        }
    }
}

/// Half a square is read and written, at about an element in a nanosecond.
fn sharing(n: usize) -> Sharing {
    Sharing::of(n * n / 2)
}
