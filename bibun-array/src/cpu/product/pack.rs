//! Copies of factors, so that what is read one after the other lies side by side.

use std::array;

use pulp::{Simd, WithSimd};

use super::from;
use super::tiles::HIGH;
use crate::cpu::matmul::Matrix;
use crate::cpu::tile::{Float, LANES, transposed};

/// The numbers of vectors of panels, which are as even as possible.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct Panels {
    panels: usize,
    vectors: usize,
    /// The number of panels that have one more vector.
    wider: usize,
}

impl Panels {
    #[inline]
    pub(in crate::cpu) fn new(vectors: usize, wide: usize, scalar: bool) -> Self {
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

/// Copies rows of `a` so that they become neighbours.
#[inline(never)]
pub(super) fn copy_rows<T: Float>(a: Matrix<'_, T>, height: usize, to: &mut [T]) {
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
pub(in crate::cpu) struct Pack<'a, T> {
    pub(in crate::cpu) from: Matrix<'a, T>,
    pub(in crate::cpu) depth: usize,
    pub(in crate::cpu) columns: usize,
    pub(in crate::cpu) panels: Panels,
    pub(in crate::cpu) to: &'a mut [T],
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
pub(super) fn square<S: Simd, T: Float>(
    simd: S,
    from: Matrix<'_, T>,
    row: usize,
    column: usize,
    columns: usize,
) -> [T::Vector<S>; LANES] {
    let column = |i: usize| (column + i).min(columns - 1) * from.column;
    transposed::<S, T>(simd, |i| &from.memory[row + column(i)..])
}
