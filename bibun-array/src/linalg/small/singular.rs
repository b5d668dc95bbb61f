//! Singular vectors of small matrices.
//!
//! Source: G. Golub and W. Kahan, "Calculating the singular values and pseudo-inverse of a matrix" (1965); G. Golub and
//! C. Van Loan, "Matrix Computations", 5.4 and 8.6.

use super::super::numbers::Numbers;
use super::{
    Less, SWEEPS, Turns, bounds, direction, largest, number, reflect, reflection, smallest, sort,
    turn_left, within,
};

/// Memory for the elements beside the diagonal, and for the factors of reflections on both sides or the rotations of a
/// sweep: as many numbers as there are singular values.
pub(in super::super) struct Bidiagonal<'a, V> {
    pub(in super::super) beside: &'a mut [V],
    pub(in super::super) factors: [&'a mut [V]; 2],
    pub(in super::super) others: [&'a mut [V]; 2],
}

/// Computes the singular values of a matrix, in descending order. `long` holds its columns, of `most` elements each, which
/// is not less than their number; they become the left singular vectors, followed by as many others as `long` has
/// memory for. `short` becomes the right ones, each in a row. If no `vectors` are wanted, what is in both is lost.
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
        let negative = Less(*x, zero);
        if vectors {
            for y in &mut short[i * k..][..k] {
                *y = negative.choose(-*y, *y);
            }
        }
        *x = x.abs() * unit;
    }
    let sizes = if vectors { [most, k] } else { [0; 2] };
    sort(values, true, [(long, sizes[0]), (short, sizes[1])]);
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
            let joined = Less(zero, before.abs());
            let mut after = zero;
            if i + 1 < k {
                let x = beside[i];
                after = nothing.if_less(x.abs(), x, zero);
                beside[i] = after;
            }
            let x = diagonal[i];
            let has_side = Less(zero, before.abs().max(after.abs()));
            let lost = has_side.choose(nothing.if_less(x.abs(), zero, one), zero);
            let own = zero.if_less(lost, zero, x);
            diagonal[i] = own;
            own_singular = joined.choose(own_singular, zero).max(lost);
            own_start = joined.choose(own_start, number(i));
            own_head = joined.choose(own_head, own);
            own_side = joined.choose(own_side, after);
            if i > 0 {
                start = joined.choose(own_start, start);
                end = joined.choose(number(i), end);
                singular = joined.choose(own_singular, singular);
                head = joined.choose(own_head, head);
                side = joined.choose(own_side, side);
                above = joined.choose(diagonal[i - 1], above);
                tail = joined.choose(own, tail);
                corner = joined.choose(before, corner);
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
        let mut before = Less(zero, zero);
        for i in first..last {
            let inside = within(i, start, end);
            let [c, s, length] = direction(x, y);
            if i > first {
                let side = &mut beside[i - 1];
                *side = before.choose(inside.choose(length, x), *side);
            }
            let (c, s) = (inside.choose(c, one), inside.choose(s, zero));
            right.put(i, c, s);
            let [own, side, next] = [diagonal[i], beside[i], diagonal[i + 1]];
            let (turned, side) = (c * own + s * side, c * side - s * own);
            let (below, next) = (s * next, c * next);
            let [c, s, length] = direction(turned, below);
            let (c, s) = (inside.choose(c, one), inside.choose(s, zero));
            left.put(i, c, s);
            diagonal[i] = inside.choose(length, own);
            diagonal[i + 1] = c * next - s * side;
            x = inside.choose(c * side + s * next, x);
            if i + 1 < last {
                y = inside.choose(s * beside[i + 1], y);
                beside[i + 1] = c * beside[i + 1];
            }
            before = inside;
        }
        beside[last - 1] = before.choose(x, beside[last - 1]);
        if let Some([(long, most), (short, k)]) = &mut rows {
            left.apply(long, *most, [first, last]);
            right.apply(short, *k, [first, last]);
        }
    }
}
