//! Orthonormal bases of the columns of matrices.

use super::batch::{Large, Results, Rule, TINY, run};
use super::numbers::Numbers;
use super::{expect_matrices, small};
use crate::Array;

/// Computes `a = q r` of matrices `[.., m, n]`, where the columns of q are orthonormal and r is an upper
/// triangle whose diagonal is not negative, which makes both unique if the columns of a are independent. q has
/// `min(m, n)` columns, or, if it is `full`, m.
///
/// Source: reflections of A. Householder (G. Golub and C. Van Loan, "Matrix Computations", 5.2).
///
/// ```
/// use bibun_array::{Array, linalg::qr};
/// let [q, r] = qr(&Array::from([[0.0, 1.0], [2.0, 3.0]]), false);
/// assert_eq!(q.to_vec::<f64>(), [0.0, 1.0, 1.0, 0.0]);
/// assert_eq!(r.to_vec::<f64>(), [2.0, 3.0, 0.0, 1.0]);
/// ```
///
/// # Panics
/// Panics if there are no two axes, or the dtype is neither f32 nor f64.
#[track_caller]
pub fn qr(a: &Array, full: bool) -> [Array; 2] {
    let [m, n] = expect_matrices("qr", a);
    let k = if full { m } else { m.min(n) };
    super::results(run(Qr { m, n, k }, &[a]))
}

#[derive(Clone, Copy)]
struct Qr {
    m: usize,
    n: usize,
    /// The number of columns of q.
    k: usize,
}

impl Qr {
    /// Makes the diagonal positive.
    #[inline(always)]
    fn normalize<V: Numbers>(&self, q: &mut [V], r: &mut [V]) {
        let (n, k, zero) = (self.n, self.k, V::of(0.0));
        let size = k.min(n);
        for row in q.chunks_exact_mut(k.max(1)) {
            for (i, x) in row[..size].iter_mut().enumerate() {
                *x = r[i * n + i].if_less(zero, -*x, *x);
            }
        }
        for (i, row) in r.chunks_exact_mut(n.max(1)).take(size).enumerate() {
            let pivot = row[i];
            for x in &mut row[i..] {
                *x = pivot.if_less(zero, -*x, *x);
            }
        }
    }
}

impl Rule for Qr {
    fn name(&self) -> &'static str {
        "qr"
    }
    fn ranks(&self) -> &[usize] {
        &[2]
    }
    fn results(&self) -> Results {
        Results::new([vec![self.m, self.k], vec![self.k, self.n]], [])
    }
    fn work(&self) -> usize {
        4 * self.m * self.n * self.m.min(self.n) + 1
    }
    fn is_tiny(&self) -> bool {
        self.m.max(self.n) <= TINY
    }
    /// Columns, their units, and the factors of reflections.
    fn memory(&self) -> usize {
        let Self { m, n, k } = *self;
        m * n.max(k) + n + m.min(n)
    }

    #[inline(always)]
    fn compute<V: Numbers>(&self, x: &[&[V]], y: &mut [&mut [V]]) {
        let Self { m, n, k } = *self;
        let size = m.min(n);
        let [q, r, memory] = y else {
            unreachable!("two results and memory")
        };
        let (columns, rest) = memory.split_at_mut(m * n.max(k));
        let (units, factors) = rest.split_at_mut(n);
        for j in 0..n {
            let column = &mut columns[j * m..][..m];
            for (i, to) in column.iter_mut().enumerate() {
                *to = x[0][i * n + j];
            }
            // The squares of numbers near 1 neither overflow nor underflow.
            units[j] = small::largest(column, small::smallest()).binade();
            let inverse = V::of(1.0) / units[j];
            for x in column {
                *x = *x * inverse;
            }
        }
        for i in 0..size {
            let (own, rest) = columns.split_at_mut((i + 1) * m);
            let axis = &mut own[i * m + i..];
            [r[i * n + i], factors[i]] = small::reflection(axis, 0);
            for (column, j) in rest.chunks_exact_mut(m).zip(i + 1..n) {
                small::reflect(&mut column[i..], axis, factors[i]);
                r[i * n + j] = column[i] * units[j];
            }
            r[i * n + i] = r[i * n + i] * units[i];
        }
        small::turn_left(&mut columns[..k * m], m, factors);
        for (j, column) in columns.chunks_exact(m.max(1)).take(k).enumerate() {
            for (i, &x) in column.iter().enumerate() {
                q[i * k + j] = x;
            }
        }
        self.normalize(q, r);
    }

    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], _: &mut [&mut [i64]]) {
        let [q, r] = y else {
            unreachable!("two results")
        };
        if self.m * self.n == 0 {
            return (0..self.k).for_each(|i| q[i * self.k + i] = T::of(1.0));
        }
        super::reflections::qr(x[0], [self.m, self.n], self.k, q, r);
    }
}
