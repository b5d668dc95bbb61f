//! What one thread computes of a product of matrices.

use std::mem::take;

use pulp::{Simd, WithSimd};

use super::narrow::is_narrow;
use super::pack::square;
use super::plan::{PAGE, Plan, is_turned};
use super::scratch::{KEPT, Scratch};
use super::tiles::{HIGH, WIDE};
use super::{Work, from};
use crate::cpu::matmul::Matrix;
use crate::cpu::tile::{Float, LANES};

/// The rows of a result: a step apart, or parts of such rows.
pub(super) enum Rows<'a, T> {
    Even(&'a mut [T], usize),
    Any(Vec<&'a mut [T]>),
}

impl<T> Rows<'_, T> {
    /// `len` elements of a row.
    #[inline(always)]
    pub(super) fn some(&mut self, row: usize, start: usize, len: usize) -> &mut [T] {
        match self {
            Self::Even(memory, step) => &mut memory[row * *step + start..][..len],
            Self::Any(rows) => &mut rows[row][start..][..len],
        }
    }

    /// Whether elements of a column have one place in the nearest cache.
    #[inline(always)]
    pub(super) fn displace_each_other(&self) -> bool {
        match self {
            Self::Even(_, step) => (step * size_of::<T>()).is_multiple_of(PAGE),
            Self::Any(rows) => match &rows[..] {
                [first, second, ..] => {
                    let apart = second.as_ptr().addr().wrapping_sub(first.as_ptr().addr());
                    apart.is_multiple_of(PAGE)
                }
                _ => false,
            },
        }
    }
}

/// A product, or the part of it that one thread computes.
pub(super) struct Part<'a, T> {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) alpha: T,
    pub(super) a: Matrix<'a, T>,
    pub(super) b: Matrix<'a, T>,
    pub(super) beta: T,
    pub(super) addend: Option<Matrix<'a, T>>,
    pub(super) out: Rows<'a, T>,
}

impl<'a, T: Float> Part<'a, T> {
    /// Parts of about equal size, split so that little of `a` and `b` is read by several threads.
    pub(super) fn cut(self, tasks: usize) -> Vec<Work<'a, T>> {
        let Self {
            m,
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
        let part = |row: usize, column: usize, [m, n]: [usize; 2], out| {
            let (a, b) = (from(a, row * a.row), from(b, column * b.column));
            let addend = addend.map(|c| from(c, row * c.row + column * c.column));
            Work::Matrix(Part {
                m,
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
                parts.push(part(first, 0, [end - first, n], Rows::Even(rows, step)));
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
                let sizes = [end - first, len];
                parts.push(part(first, start, sizes, Rows::Any(pieces.collect())));
            }
        }
        parts
    }
}

/// Whether each element of a product is one product, and rows of it are written as they are read.
#[inline]
pub(super) fn is_outer<T: Float>(k: usize, beta: T, b: Matrix<'_, T>) -> bool {
    k == 1 && beta == T::ZERO && b.column == 1
}

impl<'a, T: Float> Part<'a, T> {
    /// Computes an outer product, row by row.
    // PERF: tiles would write into many pages by turns, for one multiplication each.
    #[inline(always)]
    fn outer<S: Simd>(&mut self, simd: S) {
        let lanes = T::lanes::<S>();
        let x = &self.b.memory[..self.n];
        let (whole, rest) = x.split_at(x.len() / lanes * lanes);
        let (alpha, zero) = (T::splat(simd, self.alpha), T::splat(simd, T::ZERO));
        for row in 0..self.m {
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

    /// The transposed product.
    #[inline]
    fn transposed<'t>(&self, out: &'t mut [T]) -> Part<'t, T>
    where
        'a: 't,
    {
        Part {
            m: self.n,
            n: self.m,
            a: self.b.transposed(),
            b: self.a.transposed(),
            addend: self.addend.map(Matrix::transposed),
            out: Rows::Even(out, self.m),
            ..*self
        }
    }

    /// Computes the transposed product, and then its transpose.
    #[inline(always)]
    fn turned<S: Simd>(&mut self, simd: S, plan: Plan) {
        let (rows, columns) = (self.m, self.n);
        let mut scratch = Scratch::<T>(T::turned().take());
        let (memory, _) = scratch.split(rows * columns, 0);
        self.transposed(memory).in_blocks(simd, plan);
        let turned = Matrix {
            memory: &*memory,
            row: 1,
            column: rows,
        };
        simd.vectorize(Turn(turned, &mut self.out, [rows, columns]));
        if scratch.0.len() <= KEPT {
            T::turned().set(scratch.0);
        }
    }
}

/// How a part is computed. It is the same for all parts of the same sizes and steps.
#[derive(Clone, Copy)]
pub(super) enum Way {
    Outer,
    Narrow,
    Turned(Plan),
    Blocks(Plan),
}

impl<T: Float> Part<'_, T> {
    #[inline(always)]
    pub(super) fn way<S: Simd>(&self) -> Way {
        if is_outer(self.k, self.beta, self.b) {
            return Way::Outer;
        }
        let is_new = self.beta == T::ZERO || self.addend.is_some();
        let sizes = [self.m, self.n, self.k];
        match is_new {
            true if is_narrow::<S, T>(sizes, self.a) => Way::Narrow,
            true if is_turned::<S, T>(sizes, self.a, self.b) => {
                Way::Turned(Plan::new::<S, T>(&self.transposed(&mut [])))
            }
            _ => Way::Blocks(Plan::new::<S, T>(self)),
        }
    }

    #[inline(always)]
    pub(super) fn compute<S: Simd>(&mut self, simd: S, way: Way) {
        match way {
            Way::Outer => self.outer(simd),
            Way::Narrow => self.narrow(simd),
            Way::Turned(plan) => self.turned(simd, plan),
            Way::Blocks(plan) => self.in_blocks(simd, plan),
        }
    }
}

impl<T: Float> WithSimd for &mut Part<'_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let way = self.way::<S>();
        self.compute(simd, way);
    }
}

/// Copies a matrix whose columns are contiguous to so many rows and columns.
struct Turn<'t, 'a, 'b, T>(Matrix<'a, T>, &'t mut Rows<'b, T>, [usize; 2]);

impl<T: Float> WithSimd for Turn<'_, '_, '_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self(from, out, [rows, columns]) = self;
        let lanes = T::lanes::<S>();
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
