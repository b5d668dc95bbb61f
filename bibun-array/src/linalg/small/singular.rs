//! Singular vectors of small matrices.
//!
//! Source: G. Golub and W. Kahan, "Calculating the singular values and pseudo-inverse of a matrix" (1965); G. Golub and
//! C. Van Loan, "Matrix Computations", 5.4 and 8.6.

use super::super::numbers::Numbers;
use super::{
    SWEEPS, Turns, bounds, direction, exchange, for_comparisons, largest, reflect, reflection,
    smallest, turn_left,
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
    for _ in 0..SWEEPS * k {
        // The last block: where it starts and ends, whether it is singular, its first elements, the last two, and what is
        // beside them.
        let [mut start, mut end, mut singular] = [number(k), zero, zero];
        let [mut head, mut side, mut above, mut tail, mut corner] = [zero; 5];
        let [mut own_start, mut own_head, mut own_side, mut own_singular] = [zero; 4];
        let mut before = zero;
        for i in 0..k {
            let is_joined = |a, b| zero.if_less(before.abs(), a, b);
            let mut after = zero;
            if i + 1 < k {
                let x = beside[i];
                after = nothing.if_less(x.abs(), x, zero);
                beside[i] = after;
            }
            let x = diagonal[i];
            let is_something = |a, b| nothing.if_less(x.abs(), a, b);
            let is_kept = |a, b| zero.if_less(before.abs().max(after.abs()), is_something(a, b), a);
            let own = is_kept(x, zero);
            diagonal[i] = own;
            own_singular = is_kept(is_joined(own_singular, zero), one);
            own_start = is_joined(own_start, number(i));
            own_head = is_joined(own_head, own);
            own_side = is_joined(own_side, after);
            if i > 0 {
                start = is_joined(own_start, start);
                end = is_joined(number(i), end);
                singular = is_joined(own_singular, singular);
                head = is_joined(own_head, head);
                side = is_joined(own_side, side);
                above = is_joined(diagonal[i - 1], above);
                tail = is_joined(own, tail);
                corner = is_joined(before, corner);
            }
            before = after;
        }
        let Some([first, last]) = bounds(k, start, end) else {
            break;
        };
        // The eigenvalue of the product's last corner that is nearer to its last element is the square of the last singular
        // value, less `by`. Without a shift, one sweep brings a zero of the diagonal to its end.
        let middle = V::of(0.5) * ((above + tail) * (above - tail) + corner * corner);
        let product = (tail * corner) * (tail * corner);
        let root = (middle * middle + product).sqrt();
        let divisor = middle + middle.if_less(zero, -root, root);
        let by = product / divisor.if_equal(zero, one, divisor);
        let shifted = ((head + tail) * (head - tail) + by) / head;
        let [mut x, mut y] = [zero.if_less(singular, head, shifted), side];
        let [left, right] = &mut turns;
        let mut before = zero;
        for i in first..last {
            let inside = number(i).if_less(start, zero, number(i).if_less(end, one, zero));
            let is_inside = |a, b| zero.if_less(inside, a, b);
            let [c, s, length] = direction(x, y);
            if i > first {
                let side = &mut beside[i - 1];
                *side = zero.if_less(before, is_inside(length, x), *side);
            }
            let (c, s) = (is_inside(c, one), is_inside(s, zero));
            right.put(i, c, s);
            let [own, side, next] = [diagonal[i], beside[i], diagonal[i + 1]];
            let (turned, side) = (c * own + s * side, c * side - s * own);
            let (below, next) = (s * next, c * next);
            let [c, s, length] = direction(turned, below);
            let (c, s) = (is_inside(c, one), is_inside(s, zero));
            left.put(i, c, s);
            diagonal[i] = is_inside(length, own);
            diagonal[i + 1] = c * next - s * side;
            x = is_inside(c * side + s * next, x);
            if i + 1 < last {
                y = is_inside(s * beside[i + 1], y);
                beside[i + 1] = c * beside[i + 1];
            }
            before = inside;
        }
        beside[last - 1] = zero.if_less(before, x, beside[last - 1]);
        if let Some([(long, most), (short, k)]) = &mut rows {
            left.apply(long, *most, [first, last]);
            right.apply(short, *k, [first, last]);
        }
    }
}
