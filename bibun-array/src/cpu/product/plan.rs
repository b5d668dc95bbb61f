//! The decisions about a product: its blocks, strips and tiles, and what is copied before it is read.

use pulp::Simd;

use super::part::Part;
use super::tiles::{HIGH, TALL, WIDE, wide};
use crate::cpu::is_plain;
use crate::cpu::matmul::Matrix;
use crate::cpu::tile::Float;
use crate::storage::LINE;

/// The largest number of products of a sum in one block.
const DEPTH: usize = 512;
/// Bytes of a block of `b`, which fits the second-level cache.
const BLOCK: usize = 1 << 19;
/// The least number of strips of `a`, each with the rows of a tile, for which a panel of `b` is read, and the bytes
/// of strips up to which it is more: to begin with another panel takes as long as the tile of a short sum.
const STRIPS: usize = 4;
const STRIPPED: usize = 1 << 13;
/// The number of products of a sum up to which writing it takes longer, and of strips if rows of the result displace
/// each other from the nearest cache.
const SHORT: usize = 8;
const CROWDED: usize = 6;
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
pub(super) const PAGE: usize = 1 << 12;
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

/// The order of a product, which its sizes and the steps of its factors decide.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    /// Products of a sum, and columns, of a block of `b`.
    pub(super) depth: usize,
    pub(super) block: usize,
    /// Whether blocks of `b` are copied: if vectors cannot be read directly, or are read often and from far
    /// away.
    pub(super) packed: bool,
    /// The number of `k` for which `b` is read at a time, in whole rows, if reading it is most of the work. Sums
    /// are then kept in memory in between.
    pub(super) share: usize,
    /// Whether `a` is copied at once, in the order of rows.
    pub(super) turned: bool,
    /// Whether rows of `a` are copied, because consecutive reads, for one `k` after the other, are far apart: few
    /// rows at once, some rows once for all blocks of `b`, or a few strips at a time.
    pub(super) copied: bool,
    /// Whether these are some rows for all blocks of `b`.
    pub(super) kept: bool,
    /// The number of rows of `a` that are copied for all blocks of `b`, and of strips for which a panel is read.
    pub(super) tall: usize,
    pub(super) high: usize,
    /// The most rows of a tile.
    pub(super) tallest: usize,
    /// If there is one block of one panel.
    pub(super) panel: Option<OnePanel>,
}

/// The only panel of `b`: whether it is copied, its vectors, and the strips of `a`.
#[derive(Clone, Copy)]
pub(super) struct OnePanel {
    pub(super) packed: bool,
    pub(super) vectors: usize,
    pub(super) strips: [Strips; 3],
}

impl Plan {
    #[inline(always)]
    pub(super) fn new<S: Simd, T: Float>(part: &Part<'_, T>) -> Self {
        let Part { m, n, k, a, b, .. } = *part;
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
        let packed = b.column != 1
            || m >= FEW && k * n * size_of::<T>() > SMALL
            || m > FEW && const { S::REGISTER_COUNT < 32 } && is_crowded::<T>(b.row, depth);
        let share = match !packed && m <= FEWEST && b.row * size_of::<T>() > AHEAD {
            true => depth.min(STREAMS * (wide * lanes * size_of::<T>()).div_ceil(LINE)),
            false => depth,
        };
        let turned = share < depth && a.column > 1;
        let copied = !turned && is_copied(a, n, wide * lanes);
        let kept = copied && n > block;
        let vectors = n.div_ceil(lanes);
        let tallest = tallest::<S>(vectors);
        // Rows of `a` are copied only for more panels.
        let is_panel = const { !S::IS_SCALAR } && vectors <= wide && share == k;
        Self {
            depth,
            block,
            packed,
            share,
            turned,
            copied,
            kept,
            tall: match kept {
                true => COPIED / (size_of::<T>() * depth) / HIGH * HIGH,
                false => m,
            },
            high: match n <= wide * lanes {
                true => m.div_ceil(HIGH),
                false if depth <= SHORT && part.out.displace_each_other() => CROWDED,
                false => STRIPS.max(STRIPPED / (size_of::<T>() * HIGH * depth)),
            },
            tallest,
            panel: is_panel.then(|| OnePanel {
                packed,
                vectors,
                strips: strips(m, tallest),
            }),
        }
    }
}

/// Whether rows of `a` are copied for a product of n columns, of which a panel has `wide`.
#[inline]
fn is_copied<T>(a: Matrix<'_, T>, n: usize, wide: usize) -> bool {
    let in_place = if a.row == 1 { IN_PLACE } else { 1 };
    a.column > 1 && n > in_place * wide
}

/// `count` strips of `height` rows each. The first `skip` rows have been computed before.
#[derive(Clone, Copy)]
pub(super) struct Strips {
    pub(super) row: usize,
    pub(super) height: usize,
    pub(super) count: usize,
    pub(super) skip: usize,
}

/// All `m >= 2` rows, in heights for which there are tiles, most of them `high`. A single last row is
/// computed together with the one before it.
#[inline]
pub(super) fn strips(m: usize, high: usize) -> [Strips; 3] {
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
    if b.column != 1 && b.row != 1 || b.column == 1 && a.row != 1 || lanes == 1 {
        return false;
    }
    // In multiplications of vectors, with two for three elements that are copied. Squares of vectors take
    // longer to transpose where there are few registers.
    let cost = |rows: usize, columns: usize, copies: usize| {
        rows * columns.div_ceil(lanes) * k + copies * 2 / 3
    };
    let of_a = |is_copied: bool| if is_copied { m * k } else { 0 };
    let of_b = if b.column == 1 { 0 } else { n * k };
    let slow = if S::REGISTER_COUNT < 32 { 8 } else { 1 };
    cost(n, m, slow * m * n + of_a(a.row != 1))
        < cost(m, n, of_b + of_a(is_copied(a, n, WIDE * lanes)))
}
