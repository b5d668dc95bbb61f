//! Triangular factors of any matrices, and the systems of equations that they solve.

use super::batch::{Large, Results, Rule, TINY, run};
use super::blocked::{self, Triangular};
use super::cholesky::wrong_pivot;
use super::numbers::{Numbers, Real};
use super::triangular::Triangle;
use super::{expect_matrices, expect_square, raise_mismatch};
use crate::Array;
use crate::cpu::matmul::Matrix;

/// Computes `P a = L U` of matrices `[.., m, n]`, by elimination with row exchanges: L (below the diagonal,
/// which is of ones) and U in one matrix; the row of a that is in each row of `P a`, `[.., m]`; and for each
/// matrix the number that says whether it is regular: 0; or k if the k-th element on the diagonal of U is the
/// first that is zero; or -1 if one is not a finite number.
///
/// Source: LAPACK's `getrf`.
///
/// ```
/// use bibun_array::{Array, linalg::lu_factor};
/// let [lu, rows, info] = lu_factor(&Array::from([[1.0, 2.0], [2.0, 2.0]]));
/// assert_eq!(lu.to_vec::<f64>(), [2.0, 2.0, 0.5, 1.0]);
/// assert_eq!((rows.to_vec::<i64>(), info.item::<i64>()), (vec![1, 0], 0));
/// ```
///
/// # Panics
/// Panics if there are no two axes, or the dtype is neither f32, f64 nor complex.
#[track_caller]
pub fn lu_factor(a: &Array) -> [Array; 3] {
    if a.dtype().is_complex() {
        return super::complex::lu_factor(a);
    }
    let [m, n] = expect_matrices("lu_factor", a);
    super::results(run(Lu { m, n }, &[a]))
}

/// Solves `a x = b`, or `aᵀ x = b` if it is `transposed`, by the factors that [`lu_factor`] has computed.
///
/// ```
/// use bibun_array::{Array, linalg::{lu_factor, lu_solve}};
/// let [lu, rows, _] = lu_factor(&Array::from([[1.0, 2.0], [2.0, 2.0]]));
/// let x = lu_solve(&lu, &rows, &Array::from([[5.0], [6.0]]), false);
/// assert_eq!(x.to_vec::<f64>(), [1.0, 2.0]);
/// ```
///
/// # Panics
/// Panics if the shapes or the dtypes do not fit.
#[track_caller]
pub fn lu_solve(lu: &Array, rows: &Array, b: &Array, transposed: bool) -> Array {
    if lu.dtype().is_complex() {
        return super::complex::lu_solve(lu, rows, b, transposed);
    }
    let n = expect_square("lu_solve", lu);
    let [own, m] = expect_matrices("lu_solve", b);
    let front = |x: &Array, rank: usize| x.shape()[..x.rank().saturating_sub(rank)].to_vec();
    let fits = own == n && front(lu, 2) == front(b, 2) && front(lu, 2) == front(rows, 1);
    if !fits || rows.shape().last() != Some(&n) || lu.dtype() != b.dtype() {
        raise_mismatch("lu_solve", &[("lu", lu), ("rows", rows), ("b", b)]);
    }
    let rows = rows.cast(lu.dtype());
    let [x] = super::results(run(LuSolve { n, m, transposed }, &[lu, &rows, b]));
    x
}

/// Computes the inverse of matrices `[.., n, n]`, and the number of [`lu_factor`] that says whether there is
/// one; if not, the result is NaN.
///
/// ```
/// use bibun_array::{Array, linalg::inv};
/// let [y, info] = inv(&Array::from([[2.0, 0.0], [0.0, 4.0]]));
/// assert_eq!(y.to_vec::<f64>(), [0.5, 0.0, 0.0, 0.25]);
/// assert_eq!(info.item::<i64>(), 0);
/// ```
///
/// # Panics
/// Panics if the matrices are not square, or neither of f32, f64 nor complex numbers.
#[track_caller]
pub fn inv(a: &Array) -> [Array; 2] {
    if a.dtype().is_complex() {
        return super::complex::inv(a);
    }
    let n = expect_square("inv", a);
    super::results(run(Inverse(n), &[a]))
}

/// Eliminates in place. `rows` becomes the row of each row.
#[inline(always)]
pub(super) fn eliminate<V: Numbers>(a: &mut [V], m: usize, n: usize, rows: &mut [V]) {
    let (zero, one) = (V::of(0.0), V::of(1.0));
    for (i, row) in rows.iter_mut().enumerate() {
        *row = V::of(i as f64);
    }
    for k in 0..m.min(n) {
        let (mut best, mut at) = (a[k * n + k].abs(), V::of(k as f64));
        for i in k + 1..m {
            let size = a[i * n + k].abs();
            at = best.if_less(size, V::of(i as f64), at);
            best = best.max(size);
        }
        V::exchange_rows(a, n, k, at);
        V::exchange_rows(rows, 1, k, at);
        // Below a zero there are zeros.
        let pivot = zero.if_less(best, a[k * n + k], one);
        let (upper, lower) = a.split_at_mut((k + 1) * n);
        let own = &upper[k * n..][..n];
        for row in lower.chunks_exact_mut(n) {
            let factor = row[k] / pivot;
            row[k] = factor;
            for (x, &own) in row[k + 1..].iter_mut().zip(&own[k + 1..]) {
                *x = *x - factor * own;
            }
        }
    }
}

/// Subtracts `factor` times a row of m elements from another.
#[inline(always)]
fn subtract<V: Numbers>(x: &mut [V], m: usize, from: usize, row: usize, factor: V) {
    let (own, other) = super::triangular::two_rows(x, m, from, row);
    for (own, &other) in own.iter_mut().zip(other) {
        *own = *own - factor * other;
    }
}

#[inline(always)]
fn divide<V: Numbers>(row: &mut [V], by: V) {
    for x in row {
        *x = *x / by;
    }
}

/// Solves with the factors, for right sides `[n, m]` in rows that are already exchanged.
#[inline(always)]
pub(super) fn substitute<V: Numbers>(lu: &[V], n: usize, x: &mut [V], m: usize) {
    for i in 0..n {
        for j in 0..i {
            subtract(x, m, i, j, lu[i * n + j]);
        }
    }
    for i in (0..n).rev() {
        for j in i + 1..n {
            subtract(x, m, i, j, lu[i * n + j]);
        }
        divide(&mut x[i * m..][..m], lu[i * n + i]);
    }
}

/// The triangles L and U of factors in rows.
fn triangles<T: Large>(lu: &[T], n: usize) -> [Triangular<'_, T>; 2] {
    [(Triangle::Lower, true), (Triangle::Upper, false)].map(|(triangle, has_ones)| Triangular {
        n,
        matrix: Matrix::of_rows(lu, n),
        triangle,
        has_ones,
    })
}

/// [`substitute`] for large matrices.
pub(super) fn solve<T: Large>(lu: &[T], n: usize, x: &mut [T], m: usize) {
    for triangle in triangles(lu, n) {
        triangle.solve(x, m, m);
    }
}

#[derive(Clone)]
struct Lu {
    m: usize,
    n: usize,
}

impl Rule for Lu {
    fn name(&self) -> &'static str {
        "lu_factor"
    }
    fn ranks(&self) -> &[usize] {
        &[2]
    }
    fn results(&self) -> Results {
        Results::new([vec![self.m, self.n]], [vec![self.m], vec![]])
    }
    fn work(&self) -> usize {
        self.m * self.n * self.m.min(self.n) + 1
    }
    fn is_tiny(&self) -> bool {
        self.m.max(self.n) <= TINY
    }
    fn memory(&self) -> usize {
        self.m
    }

    #[inline(always)]
    fn compute<V: Numbers>(&self, x: &[&[V]], y: &mut [&mut [V]]) {
        let [lu, rows] = y else {
            unreachable!("two results")
        };
        lu.copy_from_slice(x[0]);
        eliminate(lu, self.m, self.n, rows);
    }

    fn finish<T: Real>(&self, y: &mut [&mut [T]], integers: &mut [&mut [i64]]) {
        for (row, &found) in integers[0].iter_mut().zip(y[1].iter()) {
            *row = found.to_f64() as i64;
        }
        let pivots = (0..self.m.min(self.n)).map(|k| (k, y[0][k * self.n + k]));
        integers[1][0] = { pivots }.find_map(|(k, x)| wrong_pivot(k, x)).unwrap_or(0);
    }

    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], integers: &mut [&mut [i64]]) {
        let Self { m, n } = *self;
        y[0].copy_from_slice(x[0]);
        blocked::lu(y[0], m, n, integers[0]);
        let pivots = (0..m.min(n)).map(|k| (k, y[0][k * n + k]));
        integers[1][0] = { pivots }.find_map(|(k, x)| wrong_pivot(k, x)).unwrap_or(0);
    }
}

#[derive(Clone)]
struct LuSolve {
    n: usize,
    m: usize,
    transposed: bool,
}

impl Rule for LuSolve {
    fn name(&self) -> &'static str {
        "lu_solve"
    }
    fn ranks(&self) -> &[usize] {
        &[2, 1, 2]
    }
    fn results(&self) -> Results {
        Results::new([vec![self.n, self.m]], [])
    }
    fn work(&self) -> usize {
        2 * self.n * self.n * self.m + 1
    }
    fn is_tiny(&self) -> bool {
        self.n <= TINY && self.m <= TINY
    }
    fn memory(&self) -> usize {
        match self.transposed {
            true => self.n * self.m,
            false => 0,
        }
    }

    #[inline(always)]
    fn compute<V: Numbers>(&self, x: &[&[V]], y: &mut [&mut [V]]) {
        let Self { n, m, transposed } = *self;
        let (lu, rows, b) = (x[0], x[1], x[2]);
        if !transposed {
            for i in 0..n {
                V::gather_row(b, m, rows[i], &mut y[0][i * m..][..m]);
            }
            return substitute(lu, n, y[0], m);
        }
        let [out, x] = y else {
            unreachable!("a result and memory")
        };
        x.copy_from_slice(b);
        for i in 0..n {
            for j in 0..i {
                subtract(x, m, i, j, lu[j * n + i]);
            }
            divide(&mut x[i * m..][..m], lu[i * n + i]);
        }
        for i in (0..n).rev() {
            for j in i + 1..n {
                subtract(x, m, i, j, lu[j * n + i]);
            }
        }
        for i in 0..n {
            V::scatter_row(&x[i * m..][..m], m, rows[i], out);
        }
    }

    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], _: &mut [&mut [i64]]) {
        let Self { n, m, transposed } = *self;
        let (lu, rows, b) = (x[0], x[1], x[2]);
        if !transposed {
            for i in 0..n {
                T::gather_row(b, m, rows[i], &mut y[0][i * m..][..m]);
            }
            return solve(lu, n, y[0], m);
        }
        let mut memory = b.to_vec();
        let [lower, upper] = triangles(lu, n).map(Triangular::transposed);
        upper.solve(&mut memory, m, m);
        lower.solve(&mut memory, m, m);
        for i in 0..n {
            T::scatter_row(&memory[i * m..][..m], m, rows[i], y[0]);
        }
    }
}

#[derive(Clone)]
struct Inverse(usize);

impl Rule for Inverse {
    fn name(&self) -> &'static str {
        "inv"
    }
    fn ranks(&self) -> &[usize] {
        &[2]
    }
    fn results(&self) -> Results {
        Results::new([vec![self.0; 2]], [vec![]])
    }
    fn work(&self) -> usize {
        3 * self.0.pow(3) + 1
    }
    fn is_tiny(&self) -> bool {
        self.0 <= TINY
    }
    fn memory(&self) -> usize {
        self.0 * (self.0 + 1)
    }

    #[inline(always)]
    fn compute<V: Numbers>(&self, x: &[&[V]], y: &mut [&mut [V]]) {
        let n = self.0;
        let [out, memory] = y else {
            unreachable!("a result and memory")
        };
        let (lu, rows) = memory.split_at_mut(n * n);
        lu.copy_from_slice(x[0]);
        eliminate(lu, n, n, rows);
        // Row i of the exchanged identity has its one where the row came from.
        let one = [V::of(1.0)];
        for i in 0..n {
            V::scatter_row(&one, 1, rows[i], &mut out[i * n..][..n]);
        }
        substitute(lu, n, out, n);
    }

    fn finish<T: Real>(&self, y: &mut [&mut [T]], integers: &mut [&mut [i64]]) {
        let n = self.0;
        let pivots = (0..n).map(|k| (k, y[1][k * n + k]));
        integers[0][0] = { pivots }.find_map(|(k, x)| wrong_pivot(k, x)).unwrap_or(0);
        if integers[0][0] != 0 {
            y[0].fill(T::of(f64::NAN));
        }
    }

    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], integers: &mut [&mut [i64]]) {
        let n = self.0;
        let (mut lu, mut rows) = (x[0].to_vec(), vec![0; n]);
        blocked::lu(&mut lu, n, n, &mut rows);
        for (i, &row) in rows.iter().enumerate() {
            y[0][i * n + row as usize] = T::of(1.0);
        }
        solve(&lu, n, y[0], n);
        let pivots = (0..n).map(|k| (k, lu[k * n + k]));
        integers[0][0] = { pivots }.find_map(|(k, x)| wrong_pivot(k, x)).unwrap_or(0);
        if integers[0][0] != 0 {
            y[0].fill(T::of(f64::NAN));
        }
    }
}
