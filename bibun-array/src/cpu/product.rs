//! Matrix products of floats: a block of `b` in the second cache, a few rows of `a` in the first and
//! a tile of sums in registers (K. Goto and R. van de Geijn, "Anatomy of High-Performance Matrix
//! Multiplication", 2008; F. Van Zee and R. van de Geijn, "BLIS: A Framework for Rapidly
//! Instantiating BLAS Functionality", 2015).
//!
//! Only the sizes of a product decide the order in which an element of it is summed: over blocks of
//! `k`, and in each of them over one `k` after the other. In a product with a vector, each lane of
//! a vector is summed over its own `k`s, at a distance of one vector, and then the lanes are
//! summed. The layout of the factors, copies, and the distribution over threads change no bit.

// Loops over indices are unrolled early enough for their targets to stay in registers.
#![allow(clippy::needless_range_loop)]

mod narrow;
#[cfg(test)]
mod tests;

use std::array;
use std::mem::take;

use pulp::{Arch, Simd, WithSimd};

use super::is_plain;
use super::matmul::{Matrix, MatrixProduct};
use super::threads::{chunks, for_each};
use super::tile::{Float, LANES, transposed};
use crate::storage::LINE;
use narrow::is_narrow;

/// The largest number of products of a sum in one block.
const DEPTH: usize = 512;
/// The largest number of rows of a tile, and of vectors.
pub(super) const HIGH: usize = 6;
const WIDE: usize = 4;
/// The number of rows of tiles of a single vector, so that a sum does not wait for the previous one.
const TALL: usize = 8;
/// Bytes of a block of `b`, which fits the second-level cache.
const BLOCK: usize = 1 << 19;
/// The number of strips of `a`, each with the rows of a tile, for which a panel of `b` is read.
const STRIPS: usize = 4;
/// Bytes of rows of `a` that are copied for all blocks of `b`.
const COPIED: usize = 1 << 21;
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
/// Rows that are multiplied with a vector at once: when rows are read, and when columns are.
const ROWS: usize = 8;
const COLUMN: usize = 1024;
/// The number of multiplications that are worth a task.
const TASK: usize = 1 << 19;
/// The largest memory that a thread keeps, in elements: more than a block of each matrix.
const KEPT: usize = 3 << 18;

/// Computes `out = alpha a b + beta addend`, where nothing is added if `beta` is 0.
pub(super) fn product<T: Float>(product: MatrixProduct<'_, T>, parallel: bool) {
    let MatrixProduct { m, n, k, .. } = product;
    let tasks = match m * n * k / TASK {
        tasks if parallel && tasks > 1 => tasks.min(rayon::current_num_threads()),
        _ => 1,
    };
    compute(product, tasks, &|work| match work {
        Work::Matrix(part) => Arch::new().dispatch(part),
        Work::Vector(part) => Arch::new().dispatch(part),
    });
}

/// Computes some rows of a product, of which the sums are those of a product of more than one row and
/// column.
pub(super) fn some_rows<T: Float>(product: MatrixProduct<'_, T>) {
    let MatrixProduct {
        m,
        n,
        k,
        alpha,
        a,
        b,
        beta,
        addend,
        out,
        step,
    } = product;
    // No tile has a single row, so it is computed twice.
    let is_alone = m == 1;
    let mut twice = vec![T::ZERO; if is_alone { 2 * n } else { 0 }];
    let (memory, step) = match is_alone {
        true => (&mut twice[..], n),
        false => (&mut out[..(m - 1) * step + n], step),
    };
    let row = |step: usize| if is_alone { 0 } else { step };
    Arch::new().dispatch(&mut Part {
        n,
        k,
        alpha,
        a: Matrix {
            row: row(a.row),
            ..a
        },
        b,
        beta,
        addend: addend.map(|addend| Matrix {
            row: row(addend.row),
            ..addend
        }),
        out: Rows::Even(memory, step),
    });
    if is_alone {
        out[..n].copy_from_slice(&twice[..n]);
    }
}

/// [`product`] with given instructions and tasks.
#[cfg(test)]
fn with<S: Simd, T: Float>(simd: S, product: MatrixProduct<'_, T>, tasks: usize) {
    compute(product, tasks, &|work| match work {
        Work::Matrix(part) => simd.vectorize(part),
        Work::Vector(part) => simd.vectorize(part),
    });
}

fn compute<T: Float>(
    product: MatrixProduct<'_, T>,
    tasks: usize,
    run: &(dyn Fn(&mut Work<'_, T>) + Sync),
) {
    let MatrixProduct {
        m,
        n,
        k,
        alpha,
        a,
        b,
        beta,
        addend,
        out,
        step,
    } = product;
    if m == 0 || n == 0 {
        return;
    }
    let out = &mut out[..(m - 1) * step + n];
    if k == 0 {
        for (i, row) in out.chunks_mut(step).enumerate() {
            for (j, y) in row[..n].iter_mut().enumerate() {
                *y = match beta == T::ZERO {
                    true => T::ZERO,
                    false => beta.times(addend.map_or(*y, |addend| addend.at(i, j))),
                };
            }
        }
        return;
    }
    let copied: Vec<T>;
    let is_one_row = m == 1 && !(n > 1 && is_outer(k, beta, b));
    let mut work = if is_one_row || n == 1 {
        // A row is a column of the transposed product.
        let turned = Matrix {
            memory: b.memory,
            row: b.column,
            column: b.row,
        };
        let (a, x, x_step, step, addend) = match n {
            1 => (a, b.memory, b.row, step, addend),
            _ => (
                turned,
                a.memory,
                a.column,
                1,
                addend.map(Matrix::transposed),
            ),
        };
        let x = if x_step == 1 || k == 1 {
            &x[..k]
        } else {
            copied = (0..k).map(|l| x[l * x_step]).collect();
            &copied
        };
        let alone = m == 1 && n == 1;
        Work::Vector(WithVector {
            alpha,
            a,
            x,
            beta,
            addend,
            y: out,
            step,
            alone,
        })
    } else {
        Work::Matrix(Part {
            n,
            k,
            alpha,
            a,
            b,
            beta,
            addend,
            out: Rows::Even(out, step),
        })
    };
    if tasks == 1 {
        return run(&mut work);
    }
    let mut parts = match work {
        Work::Matrix(part) => part.cut(m, tasks),
        Work::Vector(part) => part.cut(tasks),
    };
    for_each(chunks(&mut parts, 1), true, 1, &|_, part| {
        run(&mut part[0]);
    });
}

/// The work of one thread.
enum Work<'a, T> {
    Matrix(Part<'a, T>),
    Vector(WithVector<'a, T>),
}

/// The rows of a result: a step apart, or parts of such rows.
enum Rows<'a, T> {
    Even(&'a mut [T], usize),
    Any(Vec<&'a mut [T]>),
}

impl<T> Rows<'_, T> {
    fn count(&self) -> usize {
        match self {
            Self::Even(memory, step) => memory.len().div_ceil(*step),
            Self::Any(rows) => rows.len(),
        }
    }

    /// `len` elements of a row.
    #[inline(always)]
    fn some(&mut self, row: usize, start: usize, len: usize) -> &mut [T] {
        match self {
            Self::Even(memory, step) => &mut memory[row * *step + start..][..len],
            Self::Any(rows) => &mut rows[row][start..][..len],
        }
    }
}

/// A product, or the part of it that one thread computes.
struct Part<'a, T> {
    n: usize,
    k: usize,
    alpha: T,
    a: Matrix<'a, T>,
    b: Matrix<'a, T>,
    beta: T,
    addend: Option<Matrix<'a, T>>,
    out: Rows<'a, T>,
}

impl<'a, T: Float> Part<'a, T> {
    /// Parts of about equal size, split so that little of `a` and `b` is read by several threads.
    fn cut(self, m: usize, tasks: usize) -> Vec<Work<'a, T>> {
        let Self {
            n,
            k,
            alpha,
            a,
            b,
            beta,
            addend,
            out,
        } = self;
        let Rows::Even(memory, step) = out else {
            unreachable!("it is cut once");
        };
        // Whole tiles of any vectors. The remainder is in the last part.
        let (high, wide) = (HIGH, WIDE * LANES);
        let (most_down, most_across) = ((m / high).max(1), (n / wide).max(1));
        let (down, across) = (1..=tasks.min(most_across))
            .map(|across| (tasks.div_ceil(across).min(most_down), across))
            .min_by_key(|&(down, across)| {
                let steps = most_down.div_ceil(down) * most_across.div_ceil(across);
                (
                    steps * (down * across).div_ceil(tasks),
                    down * n + across * m,
                )
            })
            .expect("there is a task");
        let part = |row: usize, column: usize, n: usize, out| {
            let (a, b) = (from(a, row * a.row), from(b, column * b.column));
            let addend = addend.map(|c| from(c, row * c.row + column * c.column));
            Work::Matrix(Part {
                n,
                k,
                alpha,
                a,
                b,
                beta,
                addend,
                out,
            })
        };
        let bound = |i: usize, parts: usize, tiles: usize, size: usize, len: usize| match i == parts
        {
            true => len,
            false => i * tiles / parts * size,
        };
        let mut parts = Vec::with_capacity(down * across);
        let mut rest = memory;
        for i in 0..down {
            let first = bound(i, down, most_down, high, m);
            let end = bound(i + 1, down, most_down, high, m);
            let len = ((end - first) * step).min(rest.len());
            let (rows, later) = rest.split_at_mut(len);
            rest = later;
            if across == 1 {
                parts.push(part(first, 0, n, Rows::Even(rows, step)));
                continue;
            }
            let mut rows: Vec<_> = rows.chunks_mut(step).collect();
            for j in 0..across {
                let start = bound(j, across, most_across, wide, n);
                let len = bound(j + 1, across, most_across, wide, n) - start;
                let pieces = rows.iter_mut().map(|row| {
                    let (piece, later) = take(row).split_at_mut(len);
                    *row = later;
                    piece
                });
                parts.push(part(first, start, len, Rows::Any(pieces.collect())));
            }
        }
        parts
    }
}

/// Whether each element of a product is one product, and rows of it are written as they are read.
fn is_outer<T: Float>(k: usize, beta: T, b: Matrix<'_, T>) -> bool {
    k == 1 && beta == T::ZERO && b.column == 1
}

/// The matrix that begins at an element of another one.
fn from<T>(matrix: Matrix<'_, T>, start: usize) -> Matrix<'_, T> {
    Matrix {
        memory: &matrix.memory[start.min(matrix.memory.len())..],
        ..matrix
    }
}

impl<T: Float> Matrix<'_, T> {
    /// Some neighbours in a row, at most as many as a vector has.
    #[inline(always)]
    fn vector<S: Simd>(self, simd: S, row: usize, column: usize, len: usize) -> T::Vector<S> {
        let start = row * self.row + column * self.column;
        match self.column {
            0 => T::splat(simd, self.memory[start]),
            1 if len == T::lanes::<S>() => T::load::<S>(&self.memory[start..]),
            1 => T::load_part(simd, &self.memory[start..][..len]),
            step => {
                let mut line = [T::ZERO; LANES];
                for (i, line) in line[..len].iter_mut().enumerate() {
                    *line = self.memory[start + i * step];
                }
                T::load::<S>(&line)
            }
        }
    }
}

impl<T: Float> Part<'_, T> {
    /// Computes an outer product, row by row.
    // PERF: tiles would write into many pages by turns, for one multiplication each.
    #[inline(always)]
    fn outer<S: Simd>(&mut self, simd: S) {
        let lanes = T::lanes::<S>();
        let x = &self.b.memory[..self.n];
        let (whole, rest) = x.split_at(x.len() / lanes * lanes);
        let (alpha, zero) = (T::splat(simd, self.alpha), T::splat(simd, T::ZERO));
        for row in 0..self.out.count() {
            let factor = T::splat(simd, self.a.at(row, 0));
            // A sum of one product, as in tiles.
            let product = |x| T::multiply(simd, alpha, T::multiply_add(simd, factor, x, zero));
            let out = self.out.some(row, 0, x.len());
            let (out, last) = out.split_at_mut(whole.len());
            for (y, x) in out.chunks_exact_mut(lanes).zip(whole.chunks_exact(lanes)) {
                T::store::<S>(y, product(T::load::<S>(x)));
            }
            if !rest.is_empty() {
                T::store_part(simd, last, product(T::load_part(simd, rest)));
            }
        }
    }

    /// Computes the transposed product, and then its transpose.
    #[inline(always)]
    fn turned<S: Simd>(&mut self, simd: S) {
        let (rows, columns) = (self.out.count(), self.n);
        let mut scratch = Scratch::<T>(T::turned().take());
        let (memory, _) = scratch.split(rows * columns, 0);
        let mut product = Part {
            n: rows,
            a: self.b.transposed(),
            b: self.a.transposed(),
            addend: self.addend.map(Matrix::transposed),
            out: Rows::Even(memory, rows),
            ..*self
        };
        simd.vectorize(Product(&mut product));
        let turned = Matrix {
            memory: &*memory,
            row: 1,
            column: rows,
        };
        simd.vectorize(Turn(turned, &mut self.out, columns));
        if scratch.0.len() <= KEPT {
            T::turned().set(scratch.0);
        }
    }
}

impl<T: Float> WithSimd for &mut Part<'_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if is_outer(self.k, self.beta, self.b) {
            return self.outer(simd);
        }
        let is_new = self.beta == T::ZERO || self.addend.is_some();
        let sizes = [self.out.count(), self.n, self.k];
        match is_new {
            true if is_narrow::<S, T>(sizes, self.a) => self.narrow(simd),
            true if is_turned::<S, T>(sizes, self.a, self.b) => self.turned(simd),
            _ => simd.vectorize(Product(self)),
        }
    }
}

/// Copies a matrix whose columns are contiguous to as many columns of rows.
struct Turn<'t, 'a, 'b, T>(Matrix<'a, T>, &'t mut Rows<'b, T>, usize);

impl<T: Float> WithSimd for Turn<'_, '_, '_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self(from, out, columns) = self;
        let (rows, lanes) = (out.count(), T::lanes::<S>());
        let is_square = const { !S::IS_SCALAR } && rows >= lanes;
        let squares = if is_square {
            columns / lanes * lanes
        } else {
            0
        };
        for column in (0..squares).step_by(lanes) {
            for row in (0..rows).step_by(lanes) {
                let row = row.min(rows - lanes);
                let square = square::<S, T>(simd, from, row, column, columns);
                for i in 0..lanes {
                    T::store::<S>(out.some(row + i, column, lanes), square[i]);
                }
            }
        }
        for row in 0..rows {
            let to = out.some(row, squares, columns - squares);
            for (to, column) in to.iter_mut().zip(squares..) {
                *to = from.at(row, column);
            }
        }
    }
}

/// The number of products of a sum in a block: as even as possible.
fn depth(k: usize) -> usize {
    // Divisions take a noticeable part of a small product.
    match k <= DEPTH {
        true => k,
        false => k.div_ceil(k.div_ceil(DEPTH)),
    }
}

struct Product<'t, 'a, T>(&'t mut Part<'a, T>);

impl<T: Float> WithSimd for Product<'_, '_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Part {
            n,
            k,
            alpha,
            mut a,
            b,
            beta,
            addend,
            ref mut out,
        } = *self.0;
        let m = out.count();
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
        let copied = !turned && a.column > 1 && n > wide * lanes;
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
        let (across, down) = (n.div_ceil(block), k.div_ceil(depth));
        let mut below = 0;
        while below < m {
            // No tile has a single row.
            let rows = if m - below <= tall + 1 {
                m - below
            } else {
                tall
            };
            for i in 0..across * down {
                let (start, first) = match kept {
                    true => (i % across * block, i / across * depth),
                    false => (i / down * block, i % down * depth),
                };
                let columns = block.min(n - start);
                let panels = Panels::new(columns.div_ceil(lanes), wide, S::IS_SCALAR);
                let depth = depth.min(k - first);
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
                for part in (0..depth).step_by(share) {
                    let is_last = part + share >= depth;
                    let (whole, depth, b) = (depth, share.min(depth - part), from(b, part * b.row));
                    for Strips {
                        row,
                        height,
                        count,
                        skip,
                    } in strips(rows, tallest::<S>(n.div_ceil(lanes)))
                    {
                        for done in (0..count).step_by(high) {
                            let (count, row) = (high.min(count - done), row + done * height);
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
fn is_crowded<T>(step: usize, count: usize) -> bool {
    let apart = (step * size_of::<T>())
        .trailing_zeros()
        .min(PAGE.trailing_zeros());
    count > 2 * WAYS * (PAGE >> apart).min(PAGE / LINE)
}

/// Whether the transposed product is computed: vectors are then columns of `a`, whose copy costs less
/// than that of `b`, or fewer of them are partly empty.
fn is_turned<S: Simd, T: Float>([m, n, k]: [usize; 3], a: Matrix<'_, T>, b: Matrix<'_, T>) -> bool {
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
        < cost(m, n, n * k + of_a(a.column != 1 && n > WIDE * lanes))
}

/// The numbers of vectors of panels, which are as even as possible.
#[derive(Clone, Copy)]
pub(super) struct Panels {
    panels: usize,
    vectors: usize,
    /// The number of panels that have one more vector.
    wider: usize,
}

impl Panels {
    pub(super) fn new(vectors: usize, wide: usize, scalar: bool) -> Self {
        let (panels, vectors, wider) = if scalar {
            // One kind of tile is enough.
            (vectors.div_ceil(wide), wide, 0)
        } else if vectors <= wide {
            (1, vectors, 0)
        } else {
            let panels = vectors.div_ceil(wide);
            (panels, vectors / panels, vectors % panels)
        };
        Self {
            panels,
            vectors,
            wider,
        }
    }
}

impl Iterator for Panels {
    type Item = usize;
    #[inline(always)]
    fn next(&mut self) -> Option<usize> {
        self.panels = self.panels.checked_sub(1)?;
        let more = self.wider > 0;
        self.wider -= usize::from(more);
        Some(self.vectors + usize::from(more))
    }
}

/// The largest number of vectors of a tile: with [`HIGH`] rows, as many sums as there are
/// registers.
pub(super) const fn wide<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { WIDE } else { 2 }
}

/// The working memory of this thread. It is taken, because other work may run while this waits.
struct Scratch<T>(Vec<T>);

impl<T: Float> Scratch<T> {
    fn take() -> Self {
        Self(T::scratch().take())
    }

    /// Two parts with any content, which begin at cache lines.
    fn split(&mut self, first: usize, second: usize) -> (&mut [T], &mut [T]) {
        let line = LINE / size_of::<T>();
        let first_len = first.next_multiple_of(line);
        if self.0.len() < first_len + second + line {
            self.0.resize(first_len + second + line, T::ZERO);
        }
        let start = self.0.as_ptr().align_offset(LINE).min(line);
        let (one, other) = self.0[start..].split_at_mut(first_len);
        (&mut one[..first], &mut other[..second])
    }

    fn give_back(self) {
        if self.0.len() <= KEPT {
            T::scratch().set(self.0);
        }
    }
}

/// Copies rows of `a` so that they become neighbours.
#[inline(never)]
fn copy_rows<T: Float>(a: Matrix<'_, T>, height: usize, to: &mut [T]) {
    for (l, to) in to.chunks_exact_mut(height).enumerate() {
        let from = &a.memory[l * a.column..];
        if a.row == 1 && height == HIGH {
            to[..HIGH].copy_from_slice(&from[..HIGH]);
        } else {
            for (i, to) in to.iter_mut().enumerate() {
                *to = from[i * a.row];
            }
        }
    }
}

/// Copies a block of `b` so that its panels are contiguous.
pub(super) struct Pack<'a, T> {
    pub(super) from: Matrix<'a, T>,
    pub(super) depth: usize,
    pub(super) columns: usize,
    pub(super) panels: Panels,
    pub(super) to: &'a mut [T],
}

impl<T: Float> WithSimd for Pack<'_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            from: b,
            depth,
            columns,
            panels,
            to,
        } = self;
        let lanes = T::lanes::<S>();
        if b.column != 1 {
            let mut at = 0;
            for vectors in panels {
                let width = vectors * lanes;
                let to = &mut to[at * depth..][..width * depth];
                transpose(
                    simd,
                    from(b, at * b.column),
                    width.min(columns - at),
                    width,
                    to,
                );
                at += width;
            }
            return;
        }
        // Whole rows, in memory order.
        for l in 0..depth {
            let row = &b.memory[l * b.row..][..columns];
            let mut at = 0;
            for vectors in panels {
                let width = vectors * lanes;
                let to = &mut to[at * depth + l * width..][..width];
                match row.get(at..at + width) {
                    Some(row) => {
                        for v in 0..vectors {
                            T::store::<S>(&mut to[v * lanes..], T::load::<S>(&row[v * lanes..]));
                        }
                    }
                    None => {
                        for (to, row) in to.chunks_mut(lanes).zip(row[at..].chunks(lanes)) {
                            T::store::<S>(to, T::load_part(simd, row));
                        }
                    }
                }
                at += width;
            }
        }
    }
}

/// Copies `len` columns with any step to the first of `width` columns.
#[inline(always)]
fn transpose<S: Simd, T: Float>(simd: S, b: Matrix<'_, T>, len: usize, width: usize, to: &mut [T]) {
    let Matrix {
        memory,
        row,
        column,
    } = b;
    let (lanes, depth) = (T::lanes::<S>(), to.len() / width);
    if const { S::REGISTER_COUNT >= 32 } && row == 1 && depth >= lanes {
        // Squares of vectors. The last ones repeat the last column, or overlap the previous copy.
        for j in (0..len).step_by(lanes) {
            for l in (0..depth).step_by(lanes) {
                let l = l.min(depth - lanes);
                let square = square::<S, T>(simd, b, l, j, len);
                for i in 0..lanes {
                    T::store::<S>(&mut to[(l + i) * width + j..], square[i]);
                }
            }
        }
        return;
    }
    let mut done = 0;
    if row == 1 {
        while done + 4 <= len {
            let columns: [&[T]; 4] = array::from_fn(|i| &memory[(done + i) * column..][..depth]);
            for (l, to) in to.chunks_exact_mut(width).enumerate() {
                let to = &mut to[done..done + 4];
                for i in 0..4 {
                    to[i] = columns[i][l];
                }
            }
            done += 4;
        }
    }
    for j in done..len {
        let from = &memory[j * column..];
        for (l, to) in to.chunks_exact_mut(width).enumerate() {
            to[j] = from[l * row];
        }
    }
}

/// The transpose of a square of vectors, which begins at a row and a column of a matrix whose columns
/// are contiguous. Columns beyond the last one repeat it.
#[inline(always)]
fn square<S: Simd, T: Float>(
    simd: S,
    from: Matrix<'_, T>,
    row: usize,
    column: usize,
    columns: usize,
) -> [T::Vector<S>; LANES] {
    let column = |i: usize| (column + i).min(columns - 1) * from.column;
    transposed::<S, T>(simd, |i| &from.memory[row + column(i)..])
}

/// Tiles below one another: some strips of `a` by a panel of `b`.
struct Tiles<'a, 'b, T> {
    a: Matrix<'a, T>,
    /// The step from one strip of `a` to the next, and their number.
    strip: usize,
    count: usize,
    /// Vectors for one `k` after the other, `step` apart.
    b: &'a [T],
    step: usize,
    depth: usize,
    /// More of them, without gaps.
    rest: &'a [T],
    rest_depth: usize,
    alpha: T,
    beta: T,
    addend: Option<Matrix<'a, T>>,
    out: &'a mut Rows<'b, T>,
    row: usize,
    /// The number of rows that have been computed before.
    skip: usize,
    /// Columns of the result.
    start: usize,
    len: usize,
    /// The sums of each tile up to these `k`, a step apart, if they go on from there, or are not the last
    /// ones.
    sums: &'a mut [T],
    sums_step: usize,
    goes_on: bool,
    is_last: bool,
}

impl<T: Float> Tiles<'_, '_, T> {
    #[inline(always)]
    fn run<S: Simd>(&mut self, simd: S, height: usize, vectors: usize) {
        if const { is_plain::<S>() } {
            return self.fixed::<S, 2, 2>(simd);
        }
        match height {
            TALL if const { !S::IS_SCALAR } => self.fixed::<S, TALL, 1>(simd),
            HIGH => self.of_height::<S, HIGH>(simd, vectors),
            3 => self.of_height::<S, 3>(simd, vectors),
            _ => self.of_height::<S, 2>(simd, vectors),
        }
    }

    #[inline(always)]
    fn of_height<S: Simd, const M: usize>(&mut self, simd: S, vectors: usize) {
        // Tiles that do not suit the vectors of a machine are not compiled for it.
        if const { wide::<S>() == WIDE } {
            match vectors {
                4 => return self.fixed::<S, M, 4>(simd),
                3 => return self.fixed::<S, M, 3>(simd),
                _ => {}
            }
        }
        if const { !S::IS_SCALAR } && vectors == 1 {
            return self.fixed::<S, M, 1>(simd);
        }
        self.fixed::<S, M, 2>(simd);
    }

    /// A separate function, so that all registers are available for its sums.
    #[inline(never)]
    fn fixed<S: Simd, const M: usize, const N: usize>(&mut self, simd: S) {
        simd.vectorize(Fixed::<T, M, N>(self));
    }
}

/// Tiles of `M` rows and `N` vectors.
struct Fixed<'t, 'a, 'b, T, const M: usize, const N: usize>(&'t mut Tiles<'a, 'b, T>);

impl<T: Float, const M: usize, const N: usize> WithSimd for Fixed<'_, '_, '_, T, M, N> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Tiles {
            a,
            strip,
            count,
            b,
            step,
            depth,
            rest,
            rest_depth,
            ..
        } = *self.0;
        let Tiles {
            alpha,
            beta,
            addend,
            ref mut out,
            row,
            skip,
            start,
            len,
            sums: ref mut kept,
            sums_step,
            goes_on,
            is_last,
            ..
        } = *self.0;
        let lanes = T::lanes::<S>();
        let width = N * lanes;
        // The start of the last of `count` items that are `step` apart.
        let last = |count: usize, step: usize| count.saturating_sub(1).saturating_mul(step);
        let last_factor = last(count, strip)
            .saturating_add(last(M, a.row))
            .saturating_add(last(depth + rest_depth, a.column));
        assert!(
            last_factor < a.memory.len()
                && (depth == 0 || last(depth, step).saturating_add(width) <= b.len())
                && (rest_depth == 0 || last(rest_depth, width) + width <= rest.len())
        );
        let add = beta != T::ZERO;
        let (alpha, beta) = (T::splat(simd, alpha), T::splat(simd, beta));
        for s in 0..count {
            let row = row + s * M;
            let mut sums = [[T::splat(simd, T::ZERO); N]; M];
            if goes_on {
                let kept = &kept[s * sums_step..][..M * width];
                for i in 0..M {
                    for v in 0..N {
                        sums[i][v] = T::load::<S>(&kept[i * width + v * lanes..]);
                    }
                }
            }
            let factors: [*const T; M] =
                array::from_fn(|i| a.memory.as_ptr().wrapping_add(s * strip + i * a.row));
            let mut at = 0;
            for (memory, step, depth) in [(b, step, depth), (rest, width, rest_depth)] {
                let mut read = memory.as_ptr();
                for _ in 0..depth {
                    let mut vectors = [sums[0][0]; N];
                    for v in 0..N {
                        // SAFETY: `read` is `l * step` elements into `memory` for an `l < depth`,
                        // and by the assertion at least `width` elements follow.
                        let vector =
                            unsafe { std::slice::from_raw_parts(read.add(v * lanes), lanes) };
                        vectors[v] = T::load::<S>(vector);
                    }
                    for i in 0..M {
                        // SAFETY: it is `s * strip + i * a.row + l * a.column` elements into
                        // `a.memory` for an `l` below the sum of both depths, no more than
                        // `last_factor`.
                        let factor = T::splat(simd, unsafe { *factors[i].add(at) });
                        for v in 0..N {
                            sums[i][v] = T::multiply_add(simd, factor, vectors[v], sums[i][v]);
                        }
                    }
                    at += a.column;
                    read = read.wrapping_add(step);
                }
            }
            if !is_last {
                let kept = &mut kept[s * sums_step..][..M * width];
                for i in 0..M {
                    for v in 0..N {
                        T::store::<S>(&mut kept[i * width + v * lanes..], sums[i][v]);
                    }
                }
                continue;
            }
            for i in 0..M {
                for v in 0..N {
                    sums[i][v] = T::multiply(simd, alpha, sums[i][v]);
                }
            }
            // Not a fused multiply-add, so that scalar code has the same result.
            let is_whole = skip == 0 && len == width;
            let neighbours = addend.filter(|addend| is_whole && add && addend.column == 1);
            if let Some(addend) = neighbours {
                for i in 0..M {
                    let old = &addend.memory[(row + i) * addend.row + start..][..width];
                    for v in 0..N {
                        let old = T::multiply(simd, beta, T::load::<S>(&old[v * lanes..]));
                        sums[i][v] = T::add(simd, old, sums[i][v]);
                    }
                }
            }
            if is_whole && (addend.is_none() || neighbours.is_some()) {
                for i in 0..M {
                    let out = out.some(row + i, start, width);
                    if add && addend.is_none() {
                        for v in 0..N {
                            let read = T::load::<S>(&out[v * lanes..]);
                            sums[i][v] = T::add(simd, T::multiply(simd, beta, read), sums[i][v]);
                        }
                    }
                    for v in 0..N {
                        T::store::<S>(&mut out[v * lanes..], sums[i][v]);
                    }
                }
                continue;
            }
            // Only now in memory, to be read at any index.
            let mut results = [[sums[0][0]; N]; M];
            for i in 0..M {
                for v in 0..N {
                    results[i][v] = sums[i][v];
                }
            }
            for (i, sums) in results.iter().enumerate().skip(skip) {
                let out = out.some(row + i, start, len);
                for ((out, &sum), v) in out.chunks_mut(lanes).zip(sums).zip(0..) {
                    let mut sum = sum;
                    if add {
                        let old = match addend {
                            None => T::load_part(simd, out),
                            Some(addend) => {
                                addend.vector(simd, row + i, start + v * lanes, out.len())
                            }
                        };
                        sum = T::add(simd, T::multiply(simd, beta, old), sum);
                    }
                    T::store_part(simd, out, sum);
                }
            }
        }
    }
}

/// The product `y = alpha a x + beta y`, where `y` has a step.
struct WithVector<'a, T> {
    alpha: T,
    a: Matrix<'a, T>,
    x: &'a [T],
    beta: T,
    addend: Option<Matrix<'a, T>>,
    y: &'a mut [T],
    step: usize,
    /// Whether the product is just this one sum.
    alone: bool,
}

impl<'a, T: Float> WithVector<'a, T> {
    fn cut(self, tasks: usize) -> Vec<Work<'a, T>> {
        let Self {
            alpha,
            a,
            x,
            beta,
            addend,
            y,
            step,
            alone,
        } = self;
        let rows = y
            .len()
            .div_ceil(step)
            .div_ceil(tasks)
            .next_multiple_of(LANES);
        let part = |(i, y)| {
            let a = from(a, i * rows * a.row);
            Work::Vector(WithVector {
                alpha,
                a,
                x,
                beta,
                addend: addend.map(|addend| addend.rows_from(i * rows)),
                y,
                step,
                alone,
            })
        };
        y.chunks_mut(rows * step).enumerate().map(part).collect()
    }

    /// Writes sums, starting at a row.
    #[inline(always)]
    fn finish(&mut self, first: usize, sums: &[T]) {
        let (alpha, beta) = (self.alpha, self.beta);
        for (i, &sum) in sums.iter().enumerate() {
            let y = &mut self.y[(first + i) * self.step];
            let old = self.addend.map_or(*y, |addend| addend.at(first + i, 0));
            *y = match beta == T::ZERO {
                true => alpha.times(sum),
                false => beta.times(old).plus_product(alpha, sum),
            };
        }
    }
}

impl<T: Float> WithSimd for &mut WithVector<'_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let lanes = T::lanes::<S>();
        let m = self.y.len().div_ceil(self.step);
        let WithVector { a, x, .. } = *self;
        let k = x.len();
        let mut scratch = Scratch::<T>::take();
        if self.alone {
            let (buffer, _) = scratch.split(if a.column == 1 { 0 } else { k }, 0);
            for (l, to) in buffer.iter_mut().enumerate() {
                *to = a.memory[l * a.column];
            }
            let a = if a.column == 1 {
                &a.memory[..k]
            } else {
                buffer
            };
            let mut sum = [T::ZERO];
            simd.vectorize(Dot {
                a,
                x,
                sum: &mut sum,
            });
            self.finish(0, &sum);
        } else if a.row == 1 && a.column != 1 {
            let height = COLUMN.min(m.next_multiple_of(lanes));
            let (sums, _) = scratch.split(height * lanes, 0);
            for first in (0..m).step_by(COLUMN) {
                let count = COLUMN.min(m - first);
                simd.vectorize(Columns {
                    a: from(a, first),
                    x,
                    count,
                    height,
                    sums,
                });
                self.finish(first, &sums[..count]);
            }
        } else {
            let (buffer, _) = scratch.split(if a.column == 1 { 0 } else { k * ROWS }, 0);
            for first in (0..m).step_by(ROWS) {
                let count = ROWS.min(m - first);
                let mut rows = from(a, first * a.row);
                if a.column != 1 {
                    for (i, to) in buffer.chunks_exact_mut(k).take(count).enumerate() {
                        for (l, to) in to.iter_mut().enumerate() {
                            *to = rows.memory[i * a.row + l * a.column];
                        }
                    }
                    rows = Matrix {
                        memory: buffer,
                        row: k,
                        column: 1,
                    };
                }
                let mut sums = [T::ZERO; ROWS];
                simd.vectorize(Dots {
                    a: rows,
                    x,
                    count,
                    sums: &mut sums,
                });
                self.finish(first, &sums[..count]);
            }
        }
        scratch.give_back();
    }
}

/// One dot product, in several sums, so that an addition does not wait for the previous one.
struct Dot<'a, T> {
    a: &'a [T],
    x: &'a [T],
    sum: &'a mut [T; 1],
}

impl<T: Float> WithSimd for Dot<'_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { a, x, sum } = self;
        let lanes = T::lanes::<S>();
        let mut sums = [T::splat(simd, T::ZERO); ROWS];
        let (mut a, mut x) = (a.chunks_exact(ROWS * lanes), x.chunks_exact(ROWS * lanes));
        for (a, x) in (&mut a).zip(&mut x) {
            for i in 0..ROWS {
                let (a, x) = (T::load::<S>(&a[i * lanes..]), T::load::<S>(&x[i * lanes..]));
                sums[i] = T::multiply_add(simd, a, x, sums[i]);
            }
        }
        for (a, x) in a.remainder().chunks(lanes).zip(x.remainder().chunks(lanes)) {
            sums[0] = T::multiply_add(simd, T::load_part(simd, a), T::load_part(simd, x), sums[0]);
        }
        for i in [4, 2, 1] {
            for j in 0..i {
                sums[j] = T::add(simd, sums[j], sums[j + i]);
            }
        }
        sum[0] = T::sum(simd, sums[0]);
    }
}

/// `count` dot products of rows with `x`.
struct Dots<'a, T> {
    a: Matrix<'a, T>,
    x: &'a [T],
    count: usize,
    sums: &'a mut [T; ROWS],
}

impl<T: Float> WithSimd for Dots<'_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { a, x, count, sums } = self;
        let lanes = T::lanes::<S>();
        let (whole, rest) = x.split_at(x.len() / lanes * lanes);
        let row = |i: usize| &a.memory[i.min(count - 1) * a.row..][..x.len()];
        let rows: [&[T]; ROWS] = array::from_fn(row);
        let starts: [&[T]; ROWS] = array::from_fn(|i| &rows[i][..whole.len()]);
        let mut partial = [T::splat(simd, T::ZERO); ROWS];
        let mut l = 0;
        while l + lanes <= whole.len() {
            let factor = T::load::<S>(&whole[l..]);
            for i in 0..ROWS {
                let read = T::load::<S>(&starts[i][l..]);
                partial[i] = T::multiply_add(simd, factor, read, partial[i]);
            }
            l += lanes;
        }
        if !rest.is_empty() {
            let factor = T::load_part(simd, rest);
            for i in 0..ROWS {
                let read = T::load_part(simd, &rows[i][whole.len()..]);
                partial[i] = T::multiply_add(simd, factor, read, partial[i]);
            }
        }
        for i in 0..ROWS {
            sums[i] = T::sum(simd, partial[i]);
        }
    }
}

/// The same for `count` rows that are neighbours in memory, with columns apart: `height` sums for
/// each lane of a vector of `x`.
struct Columns<'a, T> {
    a: Matrix<'a, T>,
    x: &'a [T],
    count: usize,
    height: usize,
    sums: &'a mut [T],
}

impl<T: Float> WithSimd for Columns<'_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            a,
            x,
            count,
            height,
            sums,
        } = self;
        let lanes = T::lanes::<S>();
        sums.fill(T::ZERO);
        const MANY: usize = 8;
        for first in (0..x.len()).step_by(MANY * lanes) {
            let end = x.len().min(first + MANY * lanes);
            for l in first..end.min(first + lanes) {
                let sums = &mut sums[(l - first) * height..][..height];
                let mut l = l;
                while l < end {
                    l += lanes
                        * match (end - l).div_ceil(lanes) {
                            MANY => add_columns::<S, T, MANY>(simd, a, x, l, count, sums),
                            4.. => add_columns::<S, T, 4>(simd, a, x, l, count, sums),
                            _ => add_columns::<S, T, 1>(simd, a, x, l, count, sums),
                        };
                }
            }
        }
        let rest = x.len() % lanes;
        if rest > 0 {
            // Missing elements are 0 in dot products, too, which turns -0 into 0.
            let zero = T::splat(simd, T::ZERO);
            for lane in rest..lanes {
                let sums = &mut sums[lane * height..][..height];
                for sums in sums.chunks_exact_mut(lanes) {
                    let sum = T::multiply_add(simd, zero, zero, T::load::<S>(sums));
                    T::store::<S>(sums, sum);
                }
            }
        }
        // The order in which a vector is summed.
        let mut half = lanes / 2;
        while half > 0 {
            let (low, high) = sums.split_at_mut(half * height);
            for (low, high) in low.chunks_exact_mut(lanes).zip(high.chunks_exact(lanes)) {
                T::store::<S>(low, T::add(simd, T::load::<S>(low), T::load::<S>(high)));
            }
            half /= 2;
        }
    }
}

/// Adds `N` columns, starting at `l` and one vector apart, to the sums of one lane.
#[inline(always)]
fn add_columns<S: Simd, T: Float, const N: usize>(
    simd: S,
    a: Matrix<'_, T>,
    x: &[T],
    l: usize,
    count: usize,
    sums: &mut [T],
) -> usize {
    let lanes = T::lanes::<S>();
    let columns: [&[T]; N] = array::from_fn(|i| &a.memory[(l + i * lanes) * a.column..][..count]);
    let factors: [_; N] = array::from_fn(|i| T::splat(simd, x[l + i * lanes]));
    let mut at = 0;
    while at + lanes <= count {
        let mut sum = T::load::<S>(&sums[at..]);
        for i in 0..N {
            sum = T::multiply_add(simd, factors[i], T::load::<S>(&columns[i][at..]), sum);
        }
        T::store::<S>(&mut sums[at..], sum);
        at += lanes;
    }
    if at < count {
        let mut sum = T::load::<S>(&sums[at..]);
        for i in 0..N {
            sum = T::multiply_add(simd, factors[i], T::load_part(simd, &columns[i][at..]), sum);
        }
        T::store::<S>(&mut sums[at..], sum);
    }
    N
}
