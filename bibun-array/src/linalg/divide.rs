//! Eigenvectors of tridiagonal matrices and singular vectors of bidiagonal ones, by dividing them.
//!
//! A matrix becomes two halves and what joins them, and the vectors of the halves make it a diagonal matrix and a vector.
//! What is nearly a vector of the whole already is left alone, and the others are multiplied with those that are found,
//! by products of matrices, which threads share. The sizes alone decide how it is divided, and products have the same
//! bits for any number of threads.

mod bidiagonal;
mod golub_kahan;
mod ql;
mod secular;
mod tridiagonal;

use std::iter::zip;

pub(super) use bidiagonal::{Singular, divide_bidiagonal};
pub(super) use tridiagonal::divide_tridiagonal;

use super::batch::Large;
use super::blocked::multiply;
use super::numbers::Numbers;
use crate::cpu::matmul::Matrix;

/// The largest order of a matrix that is not divided, and that of matrices that threads share one by one.
const LEAF: usize = 24;
const WHOLE: usize = 256;

/// Which elements of the vectors are computed: all, or the first and the last one, of which values are made.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Extent {
    All,
    Ends,
}

/// Returns the number of rows of the parts that are not divided.
fn smallest(n: usize) -> usize {
    let mut parts = 1;
    while n.div_ceil(parts) > LEAF {
        parts *= 2;
    }
    n.div_ceil(parts)
}

/// Vectors of neighbouring rows or columns of a matrix, each in a row.
struct Vectors<'a, T> {
    memory: &'a mut [T],
    /// The distance of rows.
    step: usize,
    /// The number of the first element, and how many there are of each half.
    first: usize,
    widths: [usize; 2],
}

/// The halves in which a vector has elements.
const UPPER: u8 = 1;
const LOWER: u8 = 2;
const BOTH: u8 = UPPER | LOWER;

/// How the vectors of two halves become those of the whole.
struct Joint {
    /// The vectors that are multiplied, those of the upper half first, then those of both, and those that stay as they are.
    kept: Vec<usize>,
    left: Vec<usize>,
    /// The halves of each vector.
    sides: Vec<u8>,
}

impl Joint {
    /// Sets vectors apart that are those of the whole, if what joins the halves is `rho z zᵀ`. `order` is the ascending one of
    /// values, of which there are `half` of the upper half. Where two values are nearly equal, a function rotates
    /// two vectors such that one is left.
    fn new<T: Large>(
        [values, z]: [&mut [T]; 2],
        order: &[usize],
        half: usize,
        (rho, least): (T, T),
        mut rotate: impl FnMut([usize; 2], [T; 2]),
    ) -> Self {
        let zero = T::of(0.0);
        let sides = (0..values.len()).map(|i| if i < half { UPPER } else { LOWER });
        let mut own = Self {
            kept: Vec::with_capacity(values.len()),
            left: Vec::new(),
            sides: sides.collect(),
        };
        for &next in order {
            if rho * Numbers::abs(z[next]) <= least {
                own.left.push(next);
                continue;
            }
            let Some(&last) = own.kept.last() else {
                own.kept.push(next);
                continue;
            };
            let length = z[last].hypot(z[next]);
            let (cosine, sine) = (z[next] / length, z[last] / length);
            let gap = values[next] - values[last];
            if Numbers::abs(gap * cosine * sine) > least {
                own.kept.push(next);
                continue;
            }
            (z[last], z[next]) = (zero, length);
            let (low, high) = (values[last], values[next]);
            let [c, s] = [cosine * cosine, sine * sine];
            (values[last], values[next]) = (low * c + high * s, low * s + high * c);
            rotate([last, next], [cosine, sine]);
            own.sides[next] |= own.sides[last];
            own.left.push(last);
            own.kept.pop();
            own.kept.push(next);
        }
        own
    }

    /// Returns values of those that are kept.
    fn of_kept<T: Large>(&self, x: &[T]) -> Vec<f64> {
        self.kept.iter().map(|&i| x[i].to_f64()).collect()
    }

    /// Orders those that are kept by their halves, and returns their numbers before.
    fn by_halves(&mut self) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.kept.len()).collect();
        places.sort_by_key(|&i| match self.sides[self.kept[i]] {
            UPPER => 0,
            LOWER => 2,
            _ => 1,
        });
        self.kept = places.iter().map(|&i| self.kept[i]).collect();
        places
    }
}

impl<T: Large> Vectors<'_, T> {
    fn row(&mut self, i: usize) -> &mut [T] {
        &mut self.memory[i * self.step + self.first..][..self.widths[0] + self.widths[1]]
    }

    /// Rotates two vectors.
    fn rotate(&mut self, [i, j]: [usize; 2], [cosine, sine]: [T; 2]) {
        let width = self.widths[0] + self.widths[1];
        let (upper, lower) = self.memory.split_at_mut(i.max(j) * self.step);
        let upper = &mut upper[i.min(j) * self.step + self.first..][..width];
        let lower = &mut lower[self.first..][..width];
        let sine = if i < j { sine } else { -sine };
        for (x, y) in zip(upper, lower) {
            (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
        }
    }

    /// Multiplies those that are kept, by halves, with the rows of a matrix. The others come after the results.
    fn join(&mut self, joint: &Joint, by: &[T]) {
        let Joint { kept, left, sides } = joint;
        let Self {
            step,
            first,
            widths: [upper, lower],
            ..
        } = *self;
        let count = kept.len();
        let of = |side| kept.iter().filter(|&&i| sides[i] == side).count();
        let [of_upper, of_lower] = [UPPER, LOWER].map(of);
        let rows = &mut *self.memory;
        let copies = |which: &[usize], from: usize, width: usize| -> Vec<T> {
            let each = which.iter().map(|&i| &rows[i * step + from..][..width]);
            each.flatten().copied().collect()
        };
        let halves = [
            (first, upper, 0, &kept[..count - of_lower]),
            (first + upper, lower, of_upper, &kept[of_upper..]),
        ];
        let before = halves.map(|(from, width, _, own)| copies(own, from, width));
        let others = copies(left, first, upper + lower);
        for ((from, width, at, own), memory) in zip(halves, &before) {
            let by = Matrix {
                memory: &by[at..],
                row: count,
                column: 1,
            };
            let own = (own.len(), Matrix::of_rows(memory, width.max(1)));
            multiply(&mut rows[from..], step, [count, width, own.0], by, own.1);
        }
        let rest = rows[count * step..].chunks_exact_mut(step);
        for (row, other) in zip(rest, others.chunks_exact((upper + lower).max(1))) {
            row[first..][..upper + lower].copy_from_slice(other);
        }
    }
}
