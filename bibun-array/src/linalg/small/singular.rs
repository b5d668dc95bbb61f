//! Singular vectors of small matrices.
//!
//! Source: G. Golub and W. Kahan, "Calculating the singular values and pseudo-inverse of a matrix" (1965); G. Golub and
//! C. Van Loan, "Matrix Computations", 5.4 and 8.6.

use super::super::numbers::Numbers;
use super::{
    SWEEPS, Turns, direction, exchange, for_comparisons, largest, reflect, reflection, smallest,
    turn_left,
};

/// Memory for the elements beside the diagonal, and for the factors of reflections on both sides or the rotations of a
/// sweep: as many numbers as there are singular values.
pub(in super::super) struct Bidiagonal<'a, V> {
    pub(in super::super) beside: &'a mut [V],
    pub(in super::super) factors: [&'a mut [V]; 2],
    pub(in super::super) others: [&'a mut [V]; 2],
}

/// Computes the singular values of a matrix, in descending order. `long` holds the columns of the matrix, of which it has
/// not more than elements in each, and they become its left singular vectors, followed by others as far as there is
/// memory; `short` becomes its right ones, each in a row. Without vectors, both are lost.
#[inline(always)]
pub(in super::super) fn singular<V: Numbers>(
    long: &mut [V],
    most: usize,
    short: &mut [V],
    values: &mut [V],
    vectors: bool,
    memory: Bidiagonal<'_, V>,
) {
    let (zero, k) = (V::of(0.0), values.len());
    // The squares of numbers near 1 neither overflow nor underflow.
    let unit = largest(&long[..k * most], smallest()).binade();
    let inverse = V::of(1.0) / unit;
    for x in &mut long[..k * most] {
        *x = *x * inverse;
    }
    let Bidiagonal {
        beside,
        factors,
        others,
    } = memory;
    for i in 0..k {
        let (own, rest) = long.split_at_mut((i + 1) * most);
        let axis = &mut own[i * most + i..];
        [values[i], factors[0][i]] = reflection(axis, 0);
        let rest = &mut rest[..(k - i - 1) * most];
        for row in rest.chunks_exact_mut(most) {
            reflect(&mut row[i..], axis, factors[0][i]);
        }
        let axis = &mut short[i * k + i + 1..(i + 1) * k];
        if axis.is_empty() {
            break;
        }
        for (axis, row) in axis.iter_mut().zip(rest.chunks_exact(most)) {
            *axis = row[i];
        }
        [beside[i], factors[1][i]] = reflection(axis, 0);
        for j in i + 1..most {
            let mut product = zero;
            for (&axis, row) in axis.iter().zip(rest.chunks_exact(most)) {
                product = product + axis * row[j];
            }
            let product = factors[1][i] * product;
            for (&axis, row) in axis.iter().zip(rest.chunks_exact_mut(most)) {
                row[j] = row[j] - product * axis;
            }
        }
    }
    if vectors {
        turn_left(long, most, factors[0]);
        turn_right(short, factors[1]);
    }
    let [right, left] = [factors, others].map(|[cosines, sines]| Turns { cosines, sines });
    let rows = vectors.then_some([(&mut *long, most), (&mut *short, k)]);
    diagonalize(values, beside, rows, [left, right]);
    for (i, x) in values.iter_mut().enumerate() {
        let is_negative = |a, b| x.if_less(zero, a, b);
        if vectors {
            for y in &mut short[i * k..][..k] {
                *y = is_negative(-*y, *y);
            }
        }
        *x = x.abs() * unit;
    }
    for_comparisons(k, |i, j| {
        let [x, y] = [values[i], values[j]];
        exchange(values, 1, [i, j], x, y);
        if vectors {
            exchange(long, most, [i, j], x, y);
            exchange(short, k, [i, j], x, y);
        }
    });
}

/// The same as [`turn_left`] for reflections on the right, whose axes begin beside the diagonal.
#[inline(always)]
fn turn_right<V: Numbers>(short: &mut [V], factors: &[V]) {
    let k = factors.len();
    for i in (0..k).rev() {
        let (own, rest) = short.split_at_mut((i + 1) * k);
        let own = &mut own[i * k..];
        for row in rest.chunks_exact_mut(k) {
            reflect(&mut row[i + 1..], &own[i + 1..], factors[i]);
        }
        own.fill(V::of(0.0));
        own[i] = V::of(1.0);
    }
}

/// Makes an upper bidiagonal matrix diagonal.
#[inline(always)]
fn diagonalize<V: Numbers>(
    diagonal: &mut [V],
    beside: &mut [V],
    mut rows: Option<[(&mut [V], usize); 2]>,
    mut turns: [Turns<'_, V>; 2],
) {
    let (zero, one, k) = (V::of(0.0), V::of(1.0), diagonal.len());
    let half = V::of(0.5) * V::epsilon();
    let number = |i: usize| V::of(i as f64);
    let sides = &beside[..k.saturating_sub(1)];
    let nothing = half * largest(sides, largest(diagonal, zero));
    for last in (1..k).rev() {
        for _ in 0..SWEEPS {
            // The block that ends here, its first elements, and whether it is singular.
            let (mut start, mut head, mut side, mut singular) = (zero, zero, zero, zero);
            let mut before = zero;
            for i in 0..=last {
                let is_joined = |a, b| zero.if_less(before, a, b);
                let mut after = zero;
                if i < last {
                    let size = beside[i].abs();
                    let is_something = |a, b| nothing.if_less(size, a, b);
                    beside[i] = is_something(beside[i], zero);
                    after = is_something(size, zero);
                    side = is_joined(side, beside[i]);
                }
                let own = diagonal[i];
                let is_something = |a, b| nothing.if_less(own.abs(), a, b);
                let is_kept = |a, b| zero.if_less(before.max(after), is_something(a, b), a);
                diagonal[i] = is_kept(own, zero);
                singular = is_kept(is_joined(singular, zero), one);
                start = is_joined(start, number(i));
                head = is_joined(head, diagonal[i]);
                before = after;
            }
            if !start.any_less(number(last)) {
                break;
            }
            let mut first = 0;
            while !start.any_less(number(first + 1)) {
                first += 1;
            }
            // The eigenvalue of the product's last corner that is nearer to its last element is the square of the last
            // singular value, less `by`. Without a shift, one sweep brings a zero of the diagonal to its end.
            let [before, own, corner] = [diagonal[last - 1], diagonal[last], beside[last - 1]];
            let middle = V::of(0.5) * ((before + own) * (before - own) + corner * corner);
            let product = (own * corner) * (own * corner);
            let root = (middle * middle + product).sqrt();
            let divisor = middle + middle.if_less(zero, -root, root);
            let by = product / divisor.if_equal(zero, one, divisor);
            let shifted = ((head + own) * (head - own) + by) / head;
            let [mut x, mut y] = [zero.if_less(singular, head, shifted), side];
            let [left, right] = &mut turns;
            for i in first..last {
                let outside = |a, b| number(i).if_less(start, a, b);
                let [c, s, length] = direction(x, y);
                if i > first {
                    let before = &mut beside[i - 1];
                    *before = number(i - 1).if_less(start, *before, length);
                }
                let (c, s) = (outside(one, c), outside(zero, s));
                right.put(i, c, s);
                let [own, side, next] = [diagonal[i], beside[i], diagonal[i + 1]];
                let (turned, side) = (c * own + s * side, c * side - s * own);
                let (below, next) = (s * next, c * next);
                let [c, s, length] = direction(turned, below);
                let (c, s) = (outside(one, c), outside(zero, s));
                left.put(i, c, s);
                diagonal[i] = outside(own, length);
                diagonal[i + 1] = c * next - s * side;
                x = outside(x, c * side + s * next);
                if i + 1 < last {
                    y = outside(y, s * beside[i + 1]);
                    beside[i + 1] = c * beside[i + 1];
                }
            }
            let side = &mut beside[last - 1];
            *side = start.if_less(number(last), x, *side);
            if let Some([(long, most), (short, k)]) = &mut rows {
                left.apply(long, *most, [first, last]);
                right.apply(short, *k, [first, last]);
            }
        }
    }
}
