//! Eigenvectors of small tridiagonal matrices.
//!
//! Source: the implicit QL method (H. Bowdler, R. Martin, C. Reinsch and J. Wilkinson, "The QR and QL algorithms for
//! symmetric matrices", 1968).

use pulp::NullaryFnOnce;

use crate::linalg::batch::Large;
use crate::linalg::numbers::Numbers;

/// More rotations of the whole than any eigenvalue needs.
const TURNS: usize = 60;

/// Makes a tridiagonal matrix diagonal. `rows`, an identity at first, become the eigenvectors; the elements beside the
/// diagonal, of which the last counts for nothing, are lost. If one is not found, the diagonal is NaN.
pub(super) struct Ql<'a, T> {
    pub(super) diagonal: &'a mut [T],
    pub(super) beside: &'a mut [T],
    pub(super) rows: &'a mut [T],
}

impl<T: Large> NullaryFnOnce for Ql<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Self {
            diagonal,
            beside,
            rows,
        } = self;
        let n = diagonal.len();
        let mut largest = T::of(0.0);
        for &x in diagonal.iter().chain(&beside[..n - 1]) {
            largest = Numbers::max(largest, Numbers::abs(x));
        }
        if largest == T::of(0.0) {
            return;
        }
        let unit = Numbers::max(largest.binade(), T::least() * T::epsilon());
        diagonal.iter_mut().for_each(|x| *x /= unit);
        beside.iter_mut().for_each(|x| *x /= unit);
        let least = T::epsilon() * T::epsilon();
        for first in 0..n {
            for turns in 0.. {
                let is_apart = |&i: &usize| {
                    let sizes = Numbers::abs(diagonal[i]) + Numbers::abs(diagonal[i + 1]);
                    Numbers::abs(beside[i]) <= T::of(0.5) * T::epsilon() * sizes + least
                };
                let last = (first..n - 1).find(is_apart).unwrap_or(n - 1);
                if last == first {
                    break;
                }
                if turns == TURNS {
                    return diagonal.fill(T::of(f64::NAN));
                }
                // Small elements that come after large ones would be lost.
                if Numbers::abs(diagonal[last]) < Numbers::abs(diagonal[first]) {
                    reverse(first, last, diagonal, beside, rows);
                }
                turn(first, last, diagonal, beside, rows);
            }
        }
        diagonal.iter_mut().for_each(|x| *x = *x * unit);
    }
}

/// Reverses the order of the rows and columns `first..=last`.
#[inline(always)]
fn reverse<T: Large>(
    first: usize,
    last: usize,
    diagonal: &mut [T],
    beside: &mut [T],
    rows: &mut [T],
) {
    let n = diagonal.len();
    diagonal[first..=last].reverse();
    beside[first..last].reverse();
    for i in 0..(last - first).div_ceil(2) {
        let (upper, lower) = rows.split_at_mut((last - i) * n);
        upper[(first + i) * n..][..n].swap_with_slice(&mut lower[..n]);
    }
}

/// Rotates the part of the rows and columns `first..=last` once, with a shift near its first eigenvalue.
#[inline(always)]
fn turn<T: Large>(first: usize, last: usize, diagonal: &mut [T], beside: &mut [T], rows: &mut [T]) {
    let (zero, one, n) = (T::of(0.0), T::of(1.0), diagonal.len());
    let ratio = (diagonal[first + 1] - diagonal[first]) / (beside[first] + beside[first]);
    let root = ratio + ratio.sign() * norm(ratio, one);
    let mut rest = diagonal[last] - diagonal[first] + beside[first] / root;
    let (mut sine, mut cosine, mut shift) = (one, one, zero);
    for i in (first..last).rev() {
        let (bulge, side) = (sine * beside[i], cosine * beside[i]);
        let length = norm(bulge, rest);
        beside[i + 1] = length;
        (sine, cosine) = match length > zero {
            true => (bulge / length, rest / length),
            false => (zero, one),
        };
        rest = diagonal[i + 1] - shift;
        let sum = (diagonal[i] - rest) * sine + (cosine + cosine) * side;
        shift = sine * sum;
        diagonal[i + 1] = rest + shift;
        rest = cosine * sum - side;
        let (upper, lower) = rows[i * n..][..2 * n].split_at_mut(n);
        for (x, y) in upper.iter_mut().zip(lower) {
            (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
        }
    }
    diagonal[first] -= shift;
    beside[first] = rest;
    beside[last] = zero;
}

/// The length of a vector. One that has lost its last bits is zero.
#[inline(always)]
pub(super) fn norm<T: Large>(x: T, y: T) -> T {
    let squares = x * x + y * y;
    if squares > T::least() && squares < T::of(1.0) / T::least() {
        return Numbers::sqrt(squares);
    }
    let length = x.hypot(y);
    match length < T::least() {
        true => T::of(0.0),
        false => length,
    }
}
