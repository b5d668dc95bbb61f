//! Eigenvalues and eigenvectors of symmetric matrices.

use std::mem::take;

use super::batch::{Large, Results, Rule, TINY, run};
use super::divide::{Extent, divide_tridiagonal};
use super::numbers::{Numbers, Real};
use super::tiles::{row_step, transpose};
use super::{checked, expect_square, small, tridiagonal};
use crate::Array;

/// Computes the eigenvalues of symmetric matrices `[.., n, n]` in ascending order, `[.., n]`; orthonormal
/// eigenvectors, the columns of a matrix `[.., n, n]`; and for each matrix 0, or -1 if its elements are not
/// finite, where the results are NaN. Only the symmetric part `(a + aᵀ) / 2` counts. In each eigenvector, the
/// first of the elements with the largest absolute value is positive.
///
/// Source: reflections, then of small matrices implicit QR sweeps, of others division (G. Golub and C. Van Loan, "Matrix
/// Computations", 8.3 and 8.4).
///
/// ```
/// use bibun_array::{Array, linalg::eigh};
/// let [values, vectors, _] = eigh(&Array::from([[2.0, 0.0], [0.0, 1.0]]));
/// assert_eq!(values.to_vec::<f64>(), [1.0, 2.0]);
/// assert_eq!(vectors.to_vec::<f64>(), [0.0, 1.0, 1.0, 0.0]);
/// ```
///
/// # Panics
/// Panics if the matrices are not square, or neither f32 nor f64.
#[track_caller]
pub fn eigh(a: &Array) -> [Array; 3] {
    let n = expect_square("eigh", a);
    super::results(run(Eigh { n, vectors: true }, &[a]))
}

/// Computes only the eigenvalues and the numbers of [`eigh`].
///
/// # Panics
/// Panics as [`eigh`] does.
#[track_caller]
pub fn eigvalsh(a: &Array) -> [Array; 2] {
    let n = expect_square("eigvalsh", a);
    super::results(run(Eigh { n, vectors: false }, &[a]))
}

#[derive(Clone)]
struct Eigh {
    n: usize,
    vectors: bool,
}

/// Makes the largest element of a vector positive. Returns whether it was not.
pub(super) fn normalize_sign<T: Real>(vector: impl Iterator<Item = T> + Clone) -> bool {
    let mut largest = T::of(0.0);
    for x in vector {
        // Equal ones that differ by rounding are equal here.
        if largest.abs() * T::of(1.0 + 1e-4) < x.abs() {
            largest = x;
        }
    }
    largest < T::of(0.0)
}

/// Returns the order of numbers, from the smallest.
pub(super) fn ascending<T: Real>(x: &[T]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..x.len()).collect();
    order.sort_by(|&i, &j| x[i].to_f64().total_cmp(&x[j].to_f64()));
    order
}

impl Rule for Eigh {
    fn name(&self) -> &'static str {
        match self.vectors {
            true => "eigh",
            false => "eigvalsh",
        }
    }
    fn ranks(&self) -> &[usize] {
        &[2]
    }
    fn results(&self) -> Results {
        match self.vectors {
            true => Results::new([vec![self.n], vec![self.n; 2]], [vec![]]),
            false => Results::new([vec![self.n]], [vec![]]),
        }
    }
    fn work(&self) -> usize {
        10 * self.n.pow(3) + 1
    }
    fn is_tiny(&self) -> bool {
        self.n <= TINY
    }
    fn memory(&self) -> usize {
        self.n * (self.n + 3)
    }

    #[inline(always)]
    fn compute<V: Numbers>(&self, x: &[&[V]], y: &mut [&mut [V]]) {
        let (n, zero) = (self.n, V::of(0.0));
        let [y @ .., info, memory] = y else {
            unreachable!("results, a number and memory")
        };
        let (rows, rest) = memory.split_at_mut(n * n);
        let (beside, rest) = rest.split_at_mut(n);
        let (factors, others) = rest.split_at_mut(n);
        let memory = small::Tridiagonal {
            beside,
            factors,
            others,
        };
        small::symmetric(x[0], y[0], rows, self.vectors, memory);
        if self.vectors {
            for i in 0..n {
                let row = &rows[i * n..][..n];
                let sign = small::sign(row);
                for (j, &x) in row.iter().enumerate() {
                    y[1][j * n + i] = sign * x + zero;
                }
            }
        }
        info[0] = small::checked(x[0], y);
    }

    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], integers: &mut [&mut [i64]]) {
        let n = self.n;
        let extent = match self.vectors {
            true => Extent::All,
            false => Extent::Ends,
        };
        let found = tridiagonal::Tridiagonal::of(x[0], n).and_then(|mut form| {
            let mut values = take(&mut form.diagonal);
            let (order, rows) = divide_tridiagonal(&mut values, &form.beside, extent);
            let is_finite = values.iter().all(|&x| Real::is_finite(x));
            is_finite.then_some((form, values, order, rows))
        });
        integers[0][0] = checked(found.is_some(), y);
        let Some((form, values, order, mut rows)) = found else {
            return;
        };
        for (value, &from) in y[0].iter_mut().zip(&order) {
            *value = values[from] * form.unit;
        }
        if !self.vectors {
            return;
        }
        form.turn_back(&mut rows);
        let mut sorted = Vec::with_capacity(n * n);
        for &from in &order {
            let row = &rows[from * row_step(n)..][..n];
            match normalize_sign(row.iter().copied()) {
                true => sorted.extend(row.iter().map(|&x| -x)),
                false => sorted.extend_from_slice(row),
            }
        }
        transpose((&sorted, n), [n, n], (&mut *y[1], n));
    }
}
