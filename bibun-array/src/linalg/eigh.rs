//! Eigenvalues and eigenvectors of symmetric matrices.

use std::mem::take;

use super::batch::{Large, Results, Rule, TINY, run};
use super::blocked::{row_step, transpose};
use super::cholesky::symmetric_part;
use super::divide::{Extent, divide_tridiagonal};
use super::numbers::{Numbers, Real};
use super::tridiagonal::Tridiagonal;
use super::{NOT_A_NUMBER, expect_square};
use crate::Array;

/// More sweeps than any matrix needs: the number of right bits doubles in each of the last ones.
pub(super) const SWEEPS: usize = 40;

/// Computes the eigenvalues of symmetric matrices `[.., n, n]` in ascending order, `[.., n]`; orthonormal
/// eigenvectors, the columns of a matrix `[.., n, n]`; and for each matrix 0, or -1 if its elements are not
/// finite, where the results are NaN. Only the symmetric part `(a + aᵀ) / 2` counts. In each eigenvector, the
/// first of the elements with the largest absolute value is positive.
///
/// Source: of small matrices, the cyclic method of Jacobi (G. Golub and C. Van Loan, "Matrix Computations", 8.5); of
/// others, reflections and division (8.3 and 8.4 there).
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

/// Cosine and sine of the rotation that makes two products zero: `difference` is that of the two elements on
/// the diagonal and `product` that beside it. Where `is_small`, nothing is rotated.
#[inline(always)]
pub(super) fn rotation<V: Numbers>(difference: V, product: V, least: V) -> [V; 3] {
    let (zero, one) = (V::of(0.0), V::of(1.0));
    let divisor = least.if_less(product.abs(), product, one);
    let ratio = difference / (divisor + divisor);
    let tangent = ratio.sign() / (ratio.abs() + (one + ratio * ratio).sqrt());
    let tangent = least.if_less(product.abs(), tangent, zero);
    let cosine = one / (one + tangent * tangent).sqrt();
    [cosine, tangent * cosine, tangent]
}

/// Rotates two rows of n elements.
#[inline(always)]
pub(super) fn rotate<V: Numbers>(x: &mut [V], n: usize, p: usize, q: usize, cosine: V, sine: V) {
    let (first, second) = x.split_at_mut(q * n);
    let (first, second) = (&mut first[p * n..][..n], &mut second[..n]);
    for (a, b) in first.iter_mut().zip(second) {
        (*a, *b) = (cosine * *a - sine * *b, sine * *a + cosine * *b);
    }
}

/// Rotates what lies beside the diagonal in two rows and columns of a symmetric matrix, of which the lower triangle
/// counts, for `p < q`.
#[inline(always)]
fn rotate_sides<V: Numbers>(a: &mut [V], n: usize, p: usize, q: usize, cosine: V, sine: V) {
    let rotate = |x: &mut V, y: &mut V| {
        (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
    };
    let (upper, lower) = a.split_at_mut(q * n);
    let (row, lower) = lower.split_at_mut(n);
    let (before, between) = upper.split_at_mut((p + 1) * n);
    let own = &mut before[p * n..][..p];
    own.iter_mut()
        .zip(&mut row[..])
        .for_each(|(x, y)| rotate(x, y));
    for (x, y) in between.chunks_exact_mut(n).zip(&mut row[p + 1..q]) {
        rotate(&mut x[p], y);
    }
    for x in lower.chunks_exact_mut(n) {
        let (first, second) = x.split_at_mut(q);
        rotate(&mut first[p], &mut second[0]);
    }
}

/// Makes a symmetric matrix, of which the lower triangle counts, diagonal. `vectors` become the eigenvectors,
/// each in a row.
#[inline(always)]
pub(super) fn diagonalize<V: Numbers>(a: &mut [V], n: usize, mut vectors: Option<&mut [V]>) {
    let zero = V::of(0.0);
    for _ in 0..SWEEPS {
        let mut is_done = true;
        for q in 1..n {
            for p in 0..q {
                let [app, aqq, apq] = [a[p * n + p], a[q * n + q], a[q * n + p]];
                let largest = app.abs().max(aqq.abs());
                let least = V::of(0.25) * V::epsilon() * largest;
                if !least.any_less(apq.abs()) {
                    continue;
                }
                is_done = false;
                let [cosine, sine, tangent] = rotation(aqq - app, apq, least);
                a[p * n + p] = app - tangent * apq;
                a[q * n + q] = aqq + tangent * apq;
                a[q * n + p] = least.if_less(apq.abs(), zero, apq);
                rotate_sides(a, n, p, q, cosine, sine);
                if let Some(vectors) = vectors.as_deref_mut() {
                    rotate(vectors, n, p, q, cosine, sine);
                }
            }
        }
        if is_done {
            break;
        }
    }
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

impl Eigh {
    /// Writes eigenvectors, which are in rows, as columns in the order of their values.
    fn arrange<T: Real>(&self, values: &[T], rows: &[T], y: &mut [&mut [T]]) {
        let n = self.n;
        for (to, &from) in ascending(values).iter().enumerate() {
            y[0][to] = values[from];
            if self.vectors {
                let row = &rows[from * n..][..n];
                let is_negative = normalize_sign(row.iter().copied());
                for (i, &x) in row.iter().enumerate() {
                    y[1][i * n + to] = if is_negative { -x } else { x };
                }
            }
        }
    }

    /// Fills the results of a matrix that is not finite with NaN, and returns the number that says so.
    fn checked<T: Real>(&self, a_is_finite: bool, y: &mut [&mut [T]]) -> i64 {
        if a_is_finite {
            return 0;
        }
        y[0].fill(T::of(f64::NAN));
        if self.vectors {
            y[1].fill(T::of(f64::NAN));
        }
        NOT_A_NUMBER
    }
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
        30 * self.n.pow(3) + 1
    }
    fn is_tiny(&self) -> bool {
        self.n <= TINY
    }
    fn memory(&self) -> usize {
        self.n * self.n * if self.vectors { 2 } else { 1 }
    }

    #[inline(always)]
    fn compute<V: Numbers>(&self, x: &[&[V]], y: &mut [&mut [V]]) {
        let n = self.n;
        let memory = y.last_mut().expect("the memory");
        let (a, vectors) = memory.split_at_mut(n * n);
        symmetric_part(x[0], n, a);
        let mut vectors = self.vectors.then_some(vectors);
        if let Some(vectors) = vectors.as_deref_mut() {
            for (i, x) in vectors.iter_mut().enumerate() {
                *x = V::of(if i.is_multiple_of(n + 1) { 1.0 } else { 0.0 });
            }
        }
        diagonalize(a, n, vectors);
    }

    const FINISHES: bool = true;
    fn finish<T: Real>(&self, y: &mut [&mut [T]]) {
        let n = self.n;
        let (memory, y) = y.split_last_mut().expect("the memory");
        let (info, y) = y.split_last_mut().expect("the number");
        let (a, rows) = memory.split_at(n * n);
        let values: Vec<T> = (0..n).map(|i| a[i * n + i]).collect();
        // Of a matrix with an element that is not finite, rotations make others.
        let is_finite = (0..n).all(|i| a[i * n..][..=i].iter().all(|x| x.is_finite()));
        self.arrange(&values, rows, y);
        info[0] = T::of(self.checked(is_finite, y) as f64);
    }

    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], integers: &mut [&mut [i64]]) {
        let n = self.n;
        let extent = match self.vectors {
            true => Extent::All,
            false => Extent::Ends,
        };
        let found = Tridiagonal::of(x[0], n).and_then(|mut form| {
            let mut values = take(&mut form.diagonal);
            let (order, rows) = divide_tridiagonal(&mut values, &form.beside, extent);
            let is_finite = values.iter().all(|&x| Real::is_finite(x));
            is_finite.then_some((form, values, order, rows))
        });
        integers[0][0] = self.checked(found.is_some(), y);
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
