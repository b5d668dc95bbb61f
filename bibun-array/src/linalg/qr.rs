//! Orthonormal bases of the columns of matrices.

use super::batch::{Large, Results, Rule, TINY, run};
use super::expect_matrices;
use super::numbers::Numbers;
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
    /// The reflected matrix, the vectors of the reflections and a row of products.
    fn memory(&self) -> usize {
        let Self { m, n, k } = *self;
        m * n + m.min(n) * (m + 1) + n.max(k)
    }

    #[inline(always)]
    fn compute<V: Numbers>(&self, x: &[&[V]], y: &mut [&mut [V]]) {
        let Self { m, n, k } = *self;
        let (zero, one, size) = (V::of(0.0), V::of(1.0), m.min(n));
        let [q, r, memory] = y else {
            unreachable!("two results and memory")
        };
        let (a, rest) = memory.split_at_mut(m * n);
        let (axes, rest) = rest.split_at_mut(size * m);
        let (factors, row) = rest.split_at_mut(size);
        let largest = x[0].iter().fold(zero, |largest, x| largest.max(x.abs()));
        let scale = zero.if_less(largest, largest.binade(), one);
        for (a, &x) in a.iter_mut().zip(x[0]) {
            *a = x / scale;
        }
        // Subtracts `factor axis (axisᵀ x)` from a matrix of `width` columns.
        #[inline(always)]
        fn reflect<V: Numbers>(
            x: &mut [V],
            width: usize,
            from: usize,
            axis: &[V],
            factor: V,
            row: &mut [V],
        ) {
            row.fill(V::of(0.0));
            for (x, &axis) in x.chunks_exact(width).zip(axis).skip(from) {
                for (sum, &x) in row.iter_mut().zip(x) {
                    *sum = *sum + axis * x;
                }
            }
            for (x, &axis) in x.chunks_exact_mut(width).zip(axis).skip(from) {
                let by = factor * axis;
                for (x, &sum) in x.iter_mut().zip(&*row) {
                    *x = *x - by * sum;
                }
            }
        }
        for i in 0..size {
            let axis = &mut axes[i * m..][..m];
            let mut squares = zero;
            for j in i..m {
                axis[j] = a[j * n + i];
                if j > i {
                    squares = squares + axis[j] * axis[j];
                }
            }
            // Where there is nothing below the diagonal, nothing is reflected.
            let head = axis[i];
            let norm = (head * head + squares).sqrt();
            axis[i] = head + head.sign() * norm;
            let length = axis[i] * axis[i] + squares;
            let divisor = zero.if_less(squares, length, one);
            factors[i] = zero.if_less(squares, V::of(2.0), zero) / divisor;
            // What is not a number stays so.
            factors[i] = factors[i] + zero * squares;
            reflect(a, n, i, axis, factors[i], &mut row[..n]);
            for j in i + 1..m {
                a[j * n + i] = zero;
            }
        }
        for i in 0..k {
            for j in i..n {
                r[i * n + j] = a[i * n + j] * scale;
            }
            q[i * k + i] = one;
        }
        for i in (0..size).rev() {
            reflect(q, k, i, &axes[i * m..][..m], factors[i], &mut row[..k]);
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
        self.normalize(q, r);
    }
}
