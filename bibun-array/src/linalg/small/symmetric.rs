//! Eigenvectors of small symmetric matrices.
//!
//! Source: Householder's reduction and the implicit QR method (G. Golub and C. Van Loan, "Matrix Computations", 8.3;
//! LAPACK's `sytd2` and `steqr`).

use super::super::cholesky::symmetric_part;
use super::super::numbers::Numbers;
use super::{
    Less, SWEEPS, Turns, add, bounds, direction, dot, largest, number, reflect, reflection,
    smallest, sort, within,
};

/// Memory for the elements beside the diagonal, and for the factors of reflections or the rotations of a sweep: as many
/// numbers as there are eigenvalues.
pub(in super::super) struct Tridiagonal<'a, V> {
    pub(in super::super) beside: &'a mut [V],
    pub(in super::super) factors: &'a mut [V],
    pub(in super::super) others: &'a mut [V],
}

/// Computes the eigenvalues of the symmetric part of a matrix, in ascending order. `rows` become eigenvectors, if they are
/// wanted.
#[inline(always)]
pub(in super::super) fn symmetric<V: Numbers>(
    x: &[V],
    values: &mut [V],
    rows: &mut [V],
    vectors: bool,
    memory: Tridiagonal<'_, V>,
) {
    let n = values.len();
    let Tridiagonal {
        beside,
        factors,
        others,
    } = memory;
    symmetric_part(x, n, rows);
    // The squares of numbers near 1 neither overflow nor underflow.
    let mut unit = smallest();
    for i in 0..n {
        unit = largest(&rows[i * n..][..=i], unit);
    }
    let unit = unit.binade();
    let inverse = V::of(1.0) / unit;
    for i in 0..n {
        for x in &mut rows[i * n..][..=i] {
            *x = *x * inverse;
        }
    }
    reduce(rows, n, beside, factors, others);
    for i in 0..n {
        values[i] = rows[i * n + i];
    }
    if vectors {
        turn(rows, factors);
    }
    let turns = Turns {
        cosines: factors,
        sines: others,
    };
    diagonalize(values, beside, vectors.then_some(&mut *rows), turns);
    sort(values, false, [(rows, if vectors { n } else { 0 })]);
    for x in values {
        *x = *x * unit + V::of(0.0);
    }
}

/// Makes a matrix, of which the lower triangle counts, tridiagonal, from the last row on.
#[inline(always)]
fn reduce<V: Numbers>(
    matrix: &mut [V],
    n: usize,
    beside: &mut [V],
    factors: &mut [V],
    product: &mut [V],
) {
    for i in (1..n).rev() {
        let (rest, axis) = matrix.split_at_mut(i * n);
        let axis = &mut axis[..i];
        let [found, factor] = reflection(axis, i - 1);
        (beside[i - 1], factors[i]) = (found, factor);
        for j in 0..i {
            let (before, own) = product.split_at_mut(j);
            let row = &rest[j * n..][..=j];
            own[0] = dot(row, axis);
            add(before, axis[j], row);
        }
        let product = &mut product[..i];
        let middle = V::of(0.5) * factor * dot(product, axis);
        for (product, &axis) in product.iter_mut().zip(&*axis) {
            *product = factor * (*product - middle * axis);
        }
        for j in 0..i {
            let (a, p) = (axis[j], product[j]);
            for (k, x) in rest[j * n..][..=j].iter_mut().enumerate() {
                *x = *x - (a * product[k] + p * axis[k]);
            }
        }
    }
}

/// Makes the axes of reflections, each in its row before the diagonal, the rows of their product.
#[inline(always)]
fn turn<V: Numbers>(rows: &mut [V], factors: &[V]) {
    let n = factors.len();
    for i in 0..n {
        let (before, own) = rows.split_at_mut(i * n);
        for row in before.chunks_exact_mut(n) {
            reflect(&mut row[..i], &own[..i], factors[i]);
        }
        own[..n].fill(V::of(0.0));
        own[i] = V::of(1.0);
    }
}

/// Makes a tridiagonal matrix diagonal.
#[inline(always)]
fn diagonalize<V: Numbers>(
    diagonal: &mut [V],
    beside: &mut [V],
    mut rows: Option<&mut [V]>,
    mut turns: Turns<'_, V>,
) {
    let (zero, one, n) = (V::of(0.0), V::of(1.0), diagonal.len());
    let half = V::of(0.5) * V::epsilon();
    for _ in 0..SWEEPS * n {
        // The last block: where it starts and ends, its first and last element, the last two and what is beside them.
        let [mut start, mut end] = [number(n), zero];
        let [mut head, mut above, mut tail, mut corner] = [zero; 4];
        let (mut own_start, mut own_head) = (zero, diagonal.first().copied().unwrap_or(zero));
        for i in 0..n.saturating_sub(1) {
            let [x, y, side] = [diagonal[i], diagonal[i + 1], beside[i]];
            let least = half * (x.abs() + y.abs()) + V::epsilon() * V::epsilon();
            let joined = Less(least, side.abs());
            beside[i] = joined.choose(side, zero);
            start = joined.choose(own_start, start);
            head = joined.choose(own_head, head);
            end = joined.choose(number(i + 1), end);
            above = joined.choose(x, above);
            tail = joined.choose(y, tail);
            corner = joined.choose(side, corner);
            own_start = joined.choose(own_start, number(i + 1));
            own_head = joined.choose(own_head, y);
        }
        let Some([first, last]) = bounds(n, start, end) else {
            break;
        };
        // Wilkinson's shift.
        let ratio = (above - tail) / (corner + corner);
        let root = (ratio * ratio + one).sqrt();
        let root = ratio + ratio.if_less(zero, -root, root);
        let mut rest = head - tail + corner / root;
        // What a block of two elements ends with, without the roundings of a rotation: a zero stays one.
        let two = Less(end - start, V::of(1.5));
        let by_two = corner * (corner / rest);
        let (mut cosine, mut sine, mut shift) = (one, one, zero);
        let mut before = Less(zero, zero);
        for i in first..last {
            let inside = within(i, start, end);
            let (bulge, side) = (sine * beside[i], cosine * beside[i]);
            let [c, s, length] = direction(rest, bulge);
            if i > first {
                let side = &mut beside[i - 1];
                *side = before.choose(inside.choose(length, rest), *side);
            }
            let old = diagonal[i];
            let own = old - shift;
            let sum = (diagonal[i + 1] - own) * s + (c + c) * side;
            let by = two.choose(by_two, s * sum);
            diagonal[i] = inside.choose(own + by, before.choose(own, old));
            shift = inside.choose(by, shift);
            rest = inside.choose(c * sum - side, rest);
            cosine = inside.choose(c, cosine);
            sine = inside.choose(s, sine);
            turns.put(i, inside.choose(c, one), inside.choose(s, zero));
            before = inside;
        }
        diagonal[last] = before.choose(diagonal[last] - shift, diagonal[last]);
        beside[last - 1] = before.choose(rest, beside[last - 1]);
        if let Some(rows) = rows.as_deref_mut() {
            turns.apply(rows, n, [first, last]);
        }
    }
}
