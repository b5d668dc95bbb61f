//! Eigenvectors and singular vectors of small matrices, by operations that are the same for all matrices of a group.
//!
//! Reflections leave two diagonals, which sweeps of rotations make one. A sweep goes through the last block of each matrix
//! in which nothing beside the diagonal is negligible. Matrices have different ones: outside of its own, each is turned
//! by nothing and keeps its bits.
//!
//! Vectors are rows. A sweep turns a few columns of all of them at a time, so that it reads and writes each element once.

mod singular;
mod symmetric;

pub(super) use singular::{Bidiagonal, singular};
pub(super) use symmetric::{Tridiagonal, symmetric};

use super::NOT_A_NUMBER;
use super::numbers::Numbers;

/// More sweeps than any value needs.
const SWEEPS: usize = 60;
/// The number of columns that a sweep rotates at once.
const COLUMNS: usize = 4;

/// The largest absolute value of some elements, or the number given, which is larger.
#[inline(always)]
pub(super) fn largest<V: Numbers>(x: &[V], mut largest: V) -> V {
    for x in x {
        largest = largest.max(x.abs());
    }
    largest
}

/// The smallest number whose inverse is finite.
#[inline(always)]
pub(super) fn smallest<V: Numbers>() -> V {
    V::least() * V::epsilon()
}

#[inline(always)]
pub(super) fn dot<V: Numbers>(x: &[V], y: &[V]) -> V {
    let mut sum = V::of(0.0);
    for (&x, &y) in x.iter().zip(y) {
        sum = sum + x * y;
    }
    sum
}

/// Adds a multiple of a vector.
#[inline(always)]
fn add<V: Numbers>(x: &mut [V], factor: V, y: &[V]) {
    for (x, &y) in x.iter_mut().zip(y) {
        *x = *x + factor * y;
    }
}

#[inline(always)]
fn number<V: Numbers>(i: usize) -> V {
    V::of(i as f64)
}

/// Where one number is less than another. (Closures would not be inlined in long functions.)
#[derive(Clone, Copy)]
struct Less<V>(V, V);

impl<V: Numbers> Less<V> {
    /// Returns `a` there, and `b` elsewhere.
    #[inline(always)]
    fn choose(self, a: V, b: V) -> V {
        self.0.if_less(self.1, a, b)
    }
}

/// Makes a vector the axis of the reflection `1 - factor axis axisᵀ` that leaves of it only the element `head`. Returns
/// what this element becomes, and the factor. There is no reflection where the others are negligible.
#[inline(always)]
pub(super) fn reflection<V: Numbers>(axis: &mut [V], head: usize) -> [V; 2] {
    let (zero, one) = (V::of(0.0), V::of(1.0));
    let own = axis[head];
    axis[head] = zero;
    let squares = dot(axis, axis);
    // What is not a number stays so.
    let none = Less(squares, V::least());
    let length = (own * own + squares).sqrt();
    let found = own.if_less(zero, length, -length);
    let factor = one / none.choose(one, length * (length + own.abs()));
    axis[head] = own - found;
    [none.choose(own, found), none.choose(zero, factor)]
}

/// Reflects a vector.
#[inline(always)]
pub(super) fn reflect<V: Numbers>(x: &mut [V], axis: &[V], factor: V) {
    let product = -(factor * dot(x, axis));
    add(x, product, axis);
}

/// Makes the axes of reflections, each in its row from the diagonal on, the first columns of their product, each in a row.
#[inline(always)]
pub(super) fn turn_left<V: Numbers>(long: &mut [V], most: usize, factors: &[V]) {
    let (zero, one, k) = (V::of(0.0), V::of(1.0), factors.len());
    for (i, row) in long.chunks_exact_mut(most.max(1)).enumerate().skip(k) {
        row.fill(zero);
        row[i] = one;
    }
    for i in (0..k).rev() {
        let (own, rest) = long.split_at_mut((i + 1) * most);
        let (before, axis) = own[i * most..].split_at_mut(i);
        for row in rest.chunks_exact_mut(most) {
            reflect(&mut row[i..], axis, factors[i]);
        }
        before.fill(zero);
        let by = factors[i] * axis[0];
        for x in &mut *axis {
            *x = -(by * *x);
        }
        axis[0] = axis[0] + one;
    }
}

/// The cosine and the sine of a vector and its length, of which no square is lost. The cosine of a vector that is
/// negligible is 1, and its length is its first element.
#[inline(always)]
fn direction<V: Numbers>(x: V, y: V) -> [V; 3] {
    let (zero, one) = (V::of(0.0), V::of(1.0));
    let squares = x * x + y * y;
    let vector = Less(smallest(), squares);
    let length = squares.sqrt();
    [
        vector.choose(x / length, one),
        vector.choose(y / length, zero),
        vector.choose(length, x),
    ]
}

/// Where a number is at least `start` and less than `end`.
#[inline(always)]
fn within<V: Numbers>(i: usize, start: V, end: V) -> Less<V> {
    let (zero, i) = (V::of(0.0), number::<V>(i));
    let before_end = i.if_less(end, V::of(1.0), zero);
    Less(zero, i.if_less(start, zero, before_end))
}

/// Returns the smallest of numbers that are at most n, and the largest of others, if that is not zero.
#[inline(always)]
fn bounds<V: Numbers>(n: usize, start: V, end: V) -> Option<[usize; 2]> {
    let mut last = n;
    while last > 0 && !number::<V>(last - 1).any_less(end) {
        last -= 1;
    }
    let mut first = 0;
    while first < last && !start.any_less(number(first + 1)) {
        first += 1;
    }
    (last > 0).then_some([first, last])
}

/// The rotations of a sweep: that of number i turns the rows i and i + 1.
struct Turns<'a, V> {
    cosines: &'a mut [V],
    sines: &'a mut [V],
}

impl<V: Numbers> Turns<'_, V> {
    #[inline(always)]
    fn put(&mut self, i: usize, cosine: V, sine: V) {
        (self.cosines[i], self.sines[i]) = (cosine, sine);
    }

    /// Turns rows from `first` to `last`.
    #[inline(always)]
    fn apply(&self, rows: &mut [V], n: usize, [first, last]: [usize; 2]) {
        let mut column = 0;
        while column + COLUMNS <= n {
            self.columns::<COLUMNS>(rows, n, [first, last], column);
            column += COLUMNS;
        }
        while column < n {
            self.columns::<1>(rows, n, [first, last], column);
            column += 1;
        }
    }

    /// Turns some columns, with the row that is turned next in registers.
    #[inline(always)]
    fn columns<const C: usize>(
        &self,
        rows: &mut [V],
        n: usize,
        [first, last]: [usize; 2],
        column: usize,
    ) {
        let mut own = [V::of(0.0); C];
        own.copy_from_slice(&rows[first * n + column..][..C]);
        for i in first..last {
            let (cosine, sine) = (self.cosines[i], self.sines[i]);
            for j in 0..C {
                let next = rows[(i + 1) * n + column + j];
                rows[i * n + column + j] = cosine * own[j] + sine * next;
                own[j] = cosine * next - sine * own[j];
            }
        }
        rows[last * n + column..][..C].copy_from_slice(&own);
    }
}

/// Exchanges two rows somewhere.
#[inline(always)]
fn exchange<V: Numbers>(rows: &mut [V], n: usize, [i, j]: [usize; 2], there: Less<V>) {
    let (upper, lower) = rows.split_at_mut(j * n);
    for (a, b) in upper[i * n..][..n].iter_mut().zip(&mut lower[..n]) {
        (*a, *b) = (there.choose(*b, *a), there.choose(*a, *b));
    }
}

/// Sorts numbers, with the rows that belong to them, whose lengths are given.
///
/// Source: K. Batcher's merge exchange (D. Knuth, "The Art of Computer Programming", volume 3, 5.2.2).
#[inline(always)]
fn sort<V: Numbers, const R: usize>(
    values: &mut [V],
    is_descending: bool,
    mut rows: [(&mut [V], usize); R],
) {
    let n = values.len();
    let top = n.next_power_of_two() / 2;
    let mut part = top;
    while part > 0 {
        let (mut end, mut rest, mut apart) = (top, 0, part);
        loop {
            for i in 0..n - apart {
                if i & part != rest {
                    continue;
                }
                let j = i + apart;
                let wrong = match is_descending {
                    true => Less(values[i], values[j]),
                    false => Less(values[j], values[i]),
                };
                exchange(values, 1, [i, j], wrong);
                for (rows, n) in &mut rows {
                    exchange(rows, *n, [i, j], wrong);
                }
            }
            if end == part {
                break;
            }
            (apart, end, rest) = (end - part, end / 2, part);
        }
        part /= 2;
    }
}

/// Returns -1 where the first of the elements with the largest absolute value is negative, else 1.
#[inline(always)]
pub(super) fn sign<V: Numbers>(x: &[V]) -> V {
    // Equal ones that differ by rounding are equal here.
    let more = V::of(1.0 + 1e-4);
    let mut largest = V::of(0.0);
    for &x in x {
        largest = (largest.abs() * more).if_less(x.abs(), x, largest);
    }
    largest.sign()
}

/// Fills the results of matrices with elements that are not finite with NaN. Returns the number that says so, or 0.
#[inline(always)]
pub(super) fn checked<V: Numbers>(x: &[V], y: &mut [&mut [V]]) -> V {
    let zero = V::of(0.0);
    let mut sum = zero;
    for &x in x {
        sum = sum + zero * x;
    }
    let info = sum.if_equal(zero, zero, V::of(NOT_A_NUMBER as f64));
    if info.any_less(zero) {
        for y in y {
            for x in y.iter_mut() {
                *x = info.if_less(zero, V::of(f64::NAN), *x);
            }
        }
    }
    info
}
