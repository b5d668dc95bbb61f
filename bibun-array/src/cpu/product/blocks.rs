//! The order of a product: blocks of `b`, strips of `a`, and what is copied before it is read.

use std::iter;
use std::mem::take;

use pulp::{Simd, WithSimd};

use super::from;
use super::pack::{Pack, Panels, copy_rows};
use super::part::Part;
use super::scratch::Scratch;
use super::tiles::{HIGH, TALL, Tiles, WIDE, wide};
use crate::cpu::is_plain;
use crate::cpu::matmul::Matrix;
use crate::cpu::tile::Float;
use crate::storage::LINE;

/// The largest number of products of a sum in one block.
const DEPTH: usize = 512;
/// Bytes of a block of `b`, which fits the second-level cache.
const BLOCK: usize = 1 << 19;
/// The number of strips of `a`, each with the rows of a tile, for which a panel of `b` is read.
const STRIPS: usize = 4;
/// Bytes of rows of `a` that are copied for all blocks of `b`: a little more than a power of two, as sizes are.
const COPIED: usize = 9 << 18;
/// The number of panels of `b` for which a copy of rows of `a` costs more than it gains, if they are neighbours.
const IN_PLACE: usize = 4;
/// Bytes of `b` up to which it is read in place, and the number of rows of `a` below which larger
/// ones are, too.
const SMALL: usize = 1 << 19;
const FEW: usize = 128;
/// The number of rows of `a` up to which reading `b` from far memory takes longer than the multiplications.
const FEWEST: usize = 16;
/// What a processor reads ahead: the number of rows, a line of each at a time, if they are so many bytes
/// apart.
const STREAMS: usize = 32;
const AHEAD: usize = 1 << 10;
/// The bytes of a cache in which a line has one place, and the number of lines that share this place.
const PAGE: usize = 1 << 12;
const WAYS: usize = 8;

/// The number of products of a sum in a block: as even as possible.
#[inline]
pub(super) fn depth(k: usize) -> usize {
    // Divisions take a noticeable part of a small product.
    match k <= DEPTH {
        true => k,
        false => k.div_ceil(k.div_ceil(DEPTH)),
    }
}

/// Computes a part, block by block.
pub(super) struct Product<'t, 'a, T>(pub(super) &'t mut Part<'a, T>);

impl<T: Float> WithSimd for Product<'_, '_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Part {
            m,
            n,
            k,
            alpha,
            mut a,
            b,
            beta,
            addend,
            ref mut out,
        } = *self.0;
        let lanes = T::lanes::<S>();
        let wide = wide::<S>();
        let depth = depth(k);
        let block = match n * depth * size_of::<T>() <= BLOCK {
            true => n,
            false => {
                let most = (BLOCK / (size_of::<T>() * depth)).next_multiple_of(wide * lanes);
                n.div_ceil(n.div_ceil(most))
            }
        }
        .next_multiple_of(if S::IS_SCALAR { wide } else { lanes });
        // Copied if vectors cannot be read directly, or are read often and from far away.
        let packed = b.column != 1
            || m >= FEW && k * n * size_of::<T>() > SMALL
            || m > FEW && const { S::REGISTER_COUNT < 32 } && is_crowded::<T>(b.row, depth);
        // Read for some `k` at a time, in whole rows, if reading it is most of the work. Sums are then kept
        // in memory in between.
        let share = match !packed && m <= FEWEST && b.row * size_of::<T>() > AHEAD {
            true => depth.min(STREAMS * (wide * lanes * size_of::<T>()).div_ceil(LINE)),
            false => depth,
        };
        // Copied if consecutive reads, for one `k` after the other, are far apart: few rows at once, some rows
        // once for all blocks of `b`, or a few strips at a time.
        let turned = share < depth && a.column > 1;
        let copied = !turned && is_copied(a, n, wide * lanes);
        let kept = copied && n > block;
        let tall = match kept {
            true => COPIED / (size_of::<T>() * depth) / HIGH * HIGH,
            false => m,
        };
        let high = match n <= wide * lanes {
            true => m.div_ceil(HIGH),
            false => STRIPS,
        };
        let strips_of_a = if kept { tall + 2 } else { high * HIGH };
        let mut scratch = Scratch::<T>::take();
        let of_b = if packed { block } else { wide * lanes } * depth;
        let of_sums = if share < depth { (m + 1) * block } else { 0 };
        let of_a = match turned {
            true => m * k,
            false if copied => strips_of_a * depth,
            false => 0,
        };
        let (for_b, mut for_a) = scratch.split(of_b + of_sums, of_a);
        if turned {
            for (i, row) in for_a.chunks_exact_mut(k).enumerate() {
                for (l, to) in row.iter_mut().enumerate() {
                    *to = a.at(i, l);
                }
            }
            let rows: &mut [T] = take(&mut for_a);
            a = Matrix::of_rows(rows, k);
        }
        let (for_b, for_sums) = for_b.split_at_mut(of_b);
        // Strips that are kept serve all blocks of some `k`.
        let ((outer, size_of_outer), (inner, size_of_inner)) = match kept {
            true => ((k, depth), (n, block)),
            false => ((n, block), (k, depth)),
        };
        let blocks = pieces(outer, size_of_outer)
            .flat_map(|outer| pieces(inner, size_of_inner).map(move |inner| (outer, inner)));
        let mut below = 0;
        while below < m {
            // No tile has a single row.
            let rows = if m - below <= tall + 1 {
                m - below
            } else {
                tall
            };
            for (outer, inner) in blocks.clone() {
                let ((first, depth), (start, columns)) = match kept {
                    true => (outer, inner),
                    false => (inner, outer),
                };
                let panels = Panels::new(columns.div_ceil(lanes), wide, S::IS_SCALAR);
                let b = from(b, first * b.row + start * b.column);
                let (beta, addend) = match first {
                    0 => (beta, addend),
                    _ => (T::ONE, None),
                };
                if packed {
                    simd.vectorize(Pack {
                        from: b,
                        depth,
                        columns,
                        panels,
                        to: for_b,
                    });
                }
                let whole = depth;
                for (part, depth) in pieces(whole, share) {
                    let (is_last, b) = (part + depth == whole, from(b, part * b.row));
                    for Strips {
                        row,
                        height,
                        count,
                        skip,
                    } in strips(rows, tallest::<S>(n.div_ceil(lanes)))
                    {
                        for (done, count) in pieces(count, high) {
                            let row = row + done * height;
                            let mut a = from(a, (below + row) * a.row + (first + part) * a.column);
                            let mut strip = height * a.row;
                            if copied {
                                strip = height * depth;
                                let place = if kept { (row + skip) * depth } else { 0 };
                                let to = &mut for_a[place..][..count * strip];
                                if !kept || start == 0 {
                                    for (i, to) in to.chunks_exact_mut(strip).enumerate() {
                                        copy_rows(from(a, i * height * a.row), height, to);
                                    }
                                }
                                a = Matrix {
                                    memory: to,
                                    row: 1,
                                    column: height,
                                };
                            }
                            let row = below + row;
                            let mut at = 0;
                            for vectors in panels {
                                let width = vectors * lanes;
                                let len = width.min(columns - at);
                                let mut tiles = Tiles {
                                    a,
                                    strip,
                                    count,
                                    b: &[],
                                    step: width,
                                    depth,
                                    rest: &[],
                                    rest_depth: 0,
                                    alpha,
                                    beta,
                                    addend,
                                    out,
                                    row,
                                    skip,
                                    start: start + at,
                                    len,
                                    sums: &mut [],
                                    sums_step: 0,
                                    goes_on: part > 0,
                                    is_last,
                                };
                                if share < whole {
                                    tiles.sums =
                                        &mut for_sums[(row + skip) * block + at * height..];
                                    tiles.sums_step = height * block;
                                }
                                if packed {
                                    tiles.b = &for_b[at * depth..(at + width) * depth];
                                } else {
                                    tiles.b = &b.memory[at..];
                                    tiles.step = b.row;
                                    if (depth - 1) * b.row + width > tiles.b.len() {
                                        // Whole vectors cannot be read up to the end.
                                        tiles.depth = match tiles.b.len().checked_sub(width) {
                                            None => 0,
                                            Some(_) if b.row == 0 => depth,
                                            Some(rest) => depth.min(rest / b.row + 1),
                                        };
                                        tiles.rest_depth = depth - tiles.depth;
                                        let rest = &mut for_b[..tiles.rest_depth * width];
                                        for (l, to) in
                                            (tiles.depth..).zip(rest.chunks_exact_mut(width))
                                        {
                                            to[..len].copy_from_slice(&tiles.b[l * b.row..][..len]);
                                        }
                                        tiles.rest = rest;
                                    }
                                }
                                tiles.run(simd, height, vectors);
                                at += width;
                            }
                        }
                    }
                }
            }
            below += rows;
        }
        scratch.give_back();
    }
}

/// Whether rows of `a` are copied for a product of n columns, of which a panel has `wide`.
#[inline]
fn is_copied<T>(a: Matrix<'_, T>, n: usize, wide: usize) -> bool {
    let in_place = if a.row == 1 { IN_PLACE } else { 1 };
    a.column > 1 && n > in_place * wide
}

/// Pieces of a size and the rest: where each of them begins, and its length.
// PERF: `step_by` divides, and a small product takes no longer than a few divisions.
#[inline(always)]
fn pieces(len: usize, size: usize) -> impl Iterator<Item = (usize, usize)> + Clone {
    let mut start = 0;
    iter::from_fn(move || {
        let piece = (start, size.min(len - start));
        start += piece.1;
        (piece.1 > 0).then_some(piece)
    })
}

/// `count` strips of `height` rows each. The first `skip` rows have been computed before.
#[derive(Clone, Copy)]
struct Strips {
    row: usize,
    height: usize,
    count: usize,
    skip: usize,
}

/// All `m >= 2` rows, in heights for which there are tiles, most of them `high`. A single last row is
/// computed together with the one before it.
#[inline]
fn strips(m: usize, high: usize) -> [Strips; 3] {
    let strips = |row, height, count, skip| Strips {
        row,
        height,
        count,
        skip,
    };
    let none = strips(0, high, 0, 0);
    let rest = match m % high {
        0 => [none, none],
        1 => [none, strips(m - 2, 2, 1, 1)],
        2 => [none, strips(m - 2, 2, 1, 0)],
        3 => [none, strips(m - 3, 3, 1, 0)],
        4 => [none, strips(m - 4, 2, 2, 0)],
        5 => [strips(m - 5, 3, 1, 0), strips(m - 2, 2, 1, 0)],
        6 => [none, strips(m - 6, 6, 1, 0)],
        _ => [strips(m - 7, 3, 1, 0), strips(m - 4, 2, 2, 0)],
    };
    [strips(0, high, m / high, 0), rest[0], rest[1]]
}

/// The largest number of rows of tiles for a product with this number of vectors in a row.
#[inline(always)]
fn tallest<S: Simd>(vectors: usize) -> usize {
    match const { is_plain::<S>() } {
        true => 2,
        false if const { !S::IS_SCALAR } && vectors == 1 => TALL,
        false => HIGH,
    }
}

/// Whether so many cache lines, the same number of elements apart, displace each other from the nearest
/// cache again and again. What it gains has been measured with AVX2 only.
#[inline]
fn is_crowded<T>(step: usize, count: usize) -> bool {
    let apart = (step * size_of::<T>())
        .trailing_zeros()
        .min(PAGE.trailing_zeros());
    count > 2 * WAYS * (PAGE >> apart).min(PAGE / LINE)
}

/// Whether the transposed product is computed: vectors are then columns of `a`, whose copy costs less
/// than that of `b`, or fewer of them are partly empty.
#[inline]
pub(super) fn is_turned<S: Simd, T: Float>(
    [m, n, k]: [usize; 3],
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
) -> bool {
    let lanes = T::lanes::<S>();
    if b.column == 1 || b.row != 1 || lanes == 1 {
        return false;
    }
    // In multiplications of vectors, with two for three elements that are copied. Squares of vectors take
    // longer to transpose where there are few registers.
    let cost = |rows: usize, columns: usize, copies: usize| {
        rows * columns.div_ceil(lanes) * k + copies * 2 / 3
    };
    let of_a = |is_copied: bool| if is_copied { m * k } else { 0 };
    let slow = if S::REGISTER_COUNT < 32 { 8 } else { 1 };
    cost(n, m, slow * m * n + of_a(a.row != 1))
        < cost(m, n, n * k + of_a(is_copied(a, n, WIDE * lanes)))
}
