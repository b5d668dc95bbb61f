//! Eigenvectors of small symmetric matrices.
//!
//! Source: Householder's reduction and the implicit QR method (G. Golub and C. Van Loan, "Matrix Computations", 8.3;
//! LAPACK's `sytd2` and `steqr`).

use super::super::cholesky::symmetric_part;
use super::super::numbers::Numbers;
use super::{
    SWEEPS, Turns, add, direction, dot, exchange, for_comparisons, largest, reflect, reflection,
    smallest,
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
    for_comparisons(n, |i, j| {
        let [x, y] = [values[i], values[j]];
        exchange(values, 1, [i, j], y, x);
        if vectors {
            exchange(rows, n, [i, j], y, x);
        }
    });
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
    let number = |i: usize| V::of(i as f64);
    for last in (1..n).rev() {
        for _ in 0..SWEEPS {
            // The block that ends here.
            let (mut start, mut head) = (zero, diagonal[0]);
            for i in 0..last {
                let sizes = diagonal[i].abs() + diagonal[i + 1].abs();
                let least = half * sizes + V::epsilon() * V::epsilon();
                let is_joined = |a, b| least.if_less(beside[i].abs(), a, b);
                start = is_joined(start, number(i + 1));
                head = is_joined(head, diagonal[i + 1]);
                beside[i] = is_joined(beside[i], zero);
            }
            if !start.any_less(number(last)) {
                break;
            }
            let mut first = 0;
            while !start.any_less(number(first + 1)) {
                first += 1;
            }
            // Wilkinson's shift.
            let side = beside[last - 1];
            let ratio = (diagonal[last - 1] - diagonal[last]) / (side + side);
            let root = (ratio * ratio + one).sqrt();
            let root = ratio + ratio.if_less(zero, -root, root);
            let mut rest = head - diagonal[last] + side / root;
            let (mut cosine, mut sine, mut shift) = (one, one, zero);
            for i in first..last {
                let outside = |a, b| number(i).if_less(start, a, b);
                let (bulge, side) = (sine * beside[i], cosine * beside[i]);
                let [c, s, length] = direction(rest, bulge);
                if i > first {
                    let before = &mut beside[i - 1];
                    *before = number(i - 1).if_less(start, *before, length);
                }
                let own = diagonal[i] - shift;
                let sum = (diagonal[i + 1] - own) * s + (c + c) * side;
                let by = s * sum;
                diagonal[i] = outside(diagonal[i], own + by);
                shift = outside(zero, by);
                rest = outside(rest, c * sum - side);
                cosine = outside(one, c);
                sine = outside(one, s);
                turns.put(i, cosine, outside(zero, s));
            }
            diagonal[last] = diagonal[last] - shift;
            let side = &mut beside[last - 1];
            *side = start.if_less(number(last), rest, *side);
            if let Some(rows) = rows.as_deref_mut() {
                turns.apply(rows, n, [first, last]);
            }
        }
    }
}
