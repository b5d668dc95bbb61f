//! What large matrices of complex numbers are made of: factors of products of real numbers, and loops for the last blocks.
//!
//! A matrix is one of real numbers that has two columns for each of its own, as it lies in memory. The product of two is
//! that of real matrices, if the right one has two rows for each of its own, too: the row, by which real parts are
//! multiplied, and that row times i, for imaginary parts. These are the four products of the definition in one sum.

use std::array;

use super::batch::Large;
use super::blocked::{TRIANGLE, Triangular};
use super::entries::{Entry, Pair};
use super::numbers::Numbers;
use super::tiles::TILE;
use super::triangular::Triangle;
use crate::cpu::matmul::Matrix;

/// Returns the transpose of a matrix of order n in memory.
pub(super) fn transposed<'a, T: Large>(a: &[T], n: usize, memory: &'a mut Vec<T>) -> &'a [T] {
    memory.resize(2 * n * n, T::of(0.0));
    for i in (0..n).step_by(TILE) {
        for j in (0..n).step_by(TILE) {
            for i in i..(i + TILE).min(n) {
                for j in j..(j + TILE).min(n) {
                    Pair::read(a, i * n + j).write(memory, j * n + i);
                }
            }
        }
    }
    memory
}

/// Returns a matrix with two rows for each of `[m, n]`.
pub(super) fn right<'a, T: Large>(
    (rows, step): (&[T], usize),
    [m, n]: [usize; 2],
    memory: &'a mut Vec<T>,
) -> Matrix<'a, T> {
    memory.resize(4 * m * n, T::of(0.0));
    for (i, two) in memory.chunks_exact_mut(4 * n).enumerate() {
        let (same, turned) = two.split_at_mut(2 * n);
        same.copy_from_slice(&rows[i * step..][..2 * n]);
        for (turned, same) in turned.chunks_exact_mut(2).zip(same.chunks_exact(2)) {
            (turned[0], turned[1]) = (-same[1], same[0]);
        }
    }
    Matrix::of_rows(memory, 2 * n)
}

/// Solves the equations of a triangle that is not halved, for right sides of m columns.
#[inline(always)]
pub(super) fn substitute<T: Large>(a: Triangular<'_, T>, x: &mut [T], m: usize, step: usize) {
    let zero = T::of(0.0);
    let mut factors = [[Pair { re: zero, im: zero }; TRIANGLE]; TRIANGLE];
    for (i, row) in factors[..a.n].iter_mut().enumerate() {
        let known = match a.triangle {
            Triangle::Lower => 0..i + 1,
            Triangle::Upper => i..a.n,
        };
        for j in known {
            let (re, im) = (a.matrix.at(i, 2 * j), a.matrix.at(i, 2 * j + 1));
            row[j] = Pair { re, im };
        }
        if !a.has_ones {
            row[i] = row[i].divisor();
        }
    }
    let mut at = 0;
    while at + 16 <= m {
        substitute_some::<T, 16>(&factors, a, &mut x[2 * at..], step);
        at += 16;
    }
    while at + 4 <= m {
        substitute_some::<T, 4>(&factors, a, &mut x[2 * at..], step);
        at += 4;
    }
    while at < m {
        substitute_some::<T, 1>(&factors, a, &mut x[2 * at..], step);
        at += 1;
    }
}

/// Solves for some columns, whose parts are apart meanwhile.
#[inline(always)]
fn substitute_some<T: Large, const COLUMNS: usize>(
    factors: &[[Pair<T>; TRIANGLE]; TRIANGLE],
    a: Triangular<'_, T>,
    x: &mut [T],
    step: usize,
) {
    let mut solved = [[[T::of(0.0); COLUMNS]; 2]; TRIANGLE];
    for i in 0..a.n {
        let (row, known) = match a.triangle {
            Triangle::Lower => (i, 0..i),
            Triangle::Upper => (a.n - 1 - i, a.n - i..a.n),
        };
        let place = &mut x[row * step..][..2 * COLUMNS];
        let [mut re, mut im]: [[T; COLUMNS]; 2] =
            array::from_fn(|part| array::from_fn(|j| place[2 * j + part]));
        for j in known {
            let (factor, [other_re, other_im]) = (factors[row][j], &solved[j]);
            for j in 0..COLUMNS {
                re[j] -= factor.re * other_re[j] - factor.im * other_im[j];
                im[j] -= factor.re * other_im[j] + factor.im * other_re[j];
            }
        }
        if !a.has_ones {
            let divisor = factors[row][row];
            for j in 0..COLUMNS {
                let own = Pair {
                    re: re[j],
                    im: im[j],
                }
                .over(divisor);
                (re[j], im[j]) = (own.re, own.im);
            }
        }
        for j in 0..COLUMNS {
            (place[2 * j], place[2 * j + 1]) = (re[j], im[j]);
        }
        solved[row] = [re, im];
    }
}

/// Eliminates columns that are not halved: one of real parts, then one of imaginary parts, of m elements each.
#[inline(always)]
pub(super) fn eliminate<T: Large>(columns: &mut [T], m: usize, top: usize, pivots: &mut [usize]) {
    for k in 0..pivots.len() {
        let row = top + k;
        let [re, im] = [0, 1].map(|part| &columns[(2 * k + part) * m..][row..m]);
        let pivot = row + largest(re, im);
        pivots[k] = pivot;
        if pivot != row {
            for column in columns.chunks_exact_mut(m) {
                column.swap(row, pivot);
            }
        }
        let (upper, lower) = columns.split_at_mut(2 * (k + 1) * m);
        let (re, im) = upper[2 * k * m..].split_at_mut(m);
        let [(own_re, re), (own_im, im)] =
            [re, im].map(|part| part[row..].split_first_mut().expect("the pivot"));
        let (re, im) = (re, &mut im[..m - row - 1]);
        let pivot = Pair {
            re: *own_re,
            im: *own_im,
        };
        // Below a zero there are zeros.
        if pivot.size() > T::of(0.0) {
            let divisor = pivot.divisor();
            for (re, im) in re.iter_mut().zip(&mut *im) {
                let factor = Pair { re: *re, im: *im }.over(divisor);
                (*re, *im) = (factor.re, factor.im);
            }
        }
        for column in lower.chunks_exact_mut(2 * m) {
            let (other_re, other_im) = column.split_at_mut(m);
            let [(&mut factor_re, other_re), (&mut factor_im, other_im)] =
                [other_re, other_im].map(|part| part[row..].split_first_mut().expect("its row"));
            let own = re.iter().zip(&*im);
            for ((x, y), (&re, &im)) in other_re.iter_mut().zip(other_im).zip(own) {
                *x -= factor_re * re - factor_im * im;
                *y -= factor_re * im + factor_im * re;
            }
        }
    }
}

/// Returns the place of the first of the largest elements; of the first element if that is not a number.
#[inline(always)]
fn largest<T: Large>(re: &[T], im: &[T]) -> usize {
    const LANES: usize = 16;
    let im = &im[..re.len()];
    let size = |re: T, im: T| Numbers::abs(re) + Numbers::abs(im);
    let mut sizes = [T::of(0.0); LANES];
    let ((re_whole, re_rest), (im_whole, im_rest)) =
        (re.as_chunks::<LANES>(), im.as_chunks::<LANES>());
    for (re, im) in re_whole.iter().zip(im_whole) {
        for i in 0..LANES {
            sizes[i] = Numbers::max(sizes[i], size(re[i], im[i]));
        }
    }
    let mut most = T::of(0.0);
    for (&re, &im) in re_rest.iter().zip(im_rest) {
        most = Numbers::max(most, size(re, im));
    }
    for size in sizes {
        most = Numbers::max(most, size);
    }
    match size(re[0], im[0]) < most {
        true => { re.iter().zip(im) }.position(|(&re, &im)| size(re, im) == most),
        false => None,
    }
    .unwrap_or(0)
}
