//! Triangular factors of any matrices, and the systems of equations that they solve.

use super::batch::{Large, Results, Rule, TINY, run};
use super::blocked;
use super::entries::{Entry, Field, with_field};
use super::numbers::Numbers;
use super::triangular::{Equations, Triangle};
use super::{NOT_A_NUMBER, expect_entries, expect_square_entries, raise_mismatch, results};
use crate::Array;

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
    let [m, n] = expect_entries("lu_factor", a);
    with_field!(a, field => {
        let [lu, rows, info] = results(run(Lu { m, n, field }, &[&field.numbers(a)]));
        [field.entries(lu), rows, info]
    })
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
    let n = expect_square_entries("lu_solve", lu);
    let [own, m] = expect_entries("lu_solve", b);
    let front = |x: &Array, rank: usize| x.shape()[..x.rank().saturating_sub(rank)].to_vec();
    let fits = own == n && front(lu, 2) == front(b, 2) && front(lu, 2) == front(rows, 1);
    if !fits || rows.shape().last() != Some(&n) || lu.dtype() != b.dtype() {
        raise_mismatch("lu_solve", &[("lu", lu), ("rows", rows), ("b", b)]);
    }
    with_field!(lu, field => {
        let [lu, b] = [lu, b].map(|x| field.numbers(x));
        let rows = rows.cast(lu.dtype());
        let rule = LuSolve { n, m, transposed, field };
        let [x] = results(run(rule, &[&lu, &rows, &b]));
        field.entries(x)
    })
}

/// Solves `a x = b`, or `aᵀ x = b` if it is `transposed`, and returns the number of [`lu_factor`], too. Of small
/// matrices, up to the order [`TINY`](super::TINY), this reads and writes less than [`lu_factor`] and [`lu_solve`].
/// What singular matrices solve is infinite or NaN.
///
/// ```
/// use bibun_array::{Array, linalg::solve};
/// let a = Array::from([[1.0, 2.0], [2.0, 2.0]]);
/// let [x, info] = solve(&a, &Array::from([[5.0], [6.0]]), false);
/// assert_eq!(x.to_vec::<f64>(), [1.0, 2.0]);
/// assert_eq!(info.item::<i64>(), 0);
/// ```
///
/// # Panics
/// Panics if the shapes or the dtypes do not fit.
#[track_caller]
pub fn solve(a: &Array, b: &Array, transposed: bool) -> [Array; 2] {
    let n = expect_square_entries("solve", a);
    let [own, m] = expect_entries("solve", b);
    let front = |x: &Array| x.shape()[..x.rank() - 2].to_vec();
    if own != n || front(a) != front(b) || a.dtype() != b.dtype() {
        raise_mismatch("solve", &[("a", a), ("b", b)]);
    }
    with_field!(a, field => {
        let [a, b] = [a, b].map(|x| field.numbers(x));
        let rule = LuSolve { n, m, transposed, field };
        let [x, info] = results(run(Solve(rule), &[&a, &b]));
        [field.entries(x), info]
    })
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
    let n = expect_square_entries("inv", a);
    with_field!(a, field => {
        let [y, info] = results(run(Inverse(n, field), &[&field.numbers(a)]));
        [field.entries(y), info]
    })
}

/// Eliminates in place. `rows` becomes the row of each row. Returns the sign of this permutation.
#[inline(always)]
pub(super) fn eliminate<F: Field, V: Numbers>(
    a: &mut [V],
    m: usize,
    n: usize,
    rows: &mut [V],
) -> V {
    // Loops of known lengths are unrolled.
    match (m, n) {
        (2, 2) => eliminate_sized::<F, V>(a, 2, 2, rows),
        (3, 3) => eliminate_sized::<F, V>(a, 3, 3, rows),
        (4, 4) => eliminate_sized::<F, V>(a, 4, 4, rows),
        _ => eliminate_sized::<F, V>(a, m, n, rows),
    }
}

#[inline(always)]
fn eliminate_sized<F: Field, V: Numbers>(a: &mut [V], m: usize, n: usize, rows: &mut [V]) -> V {
    let (a, rows) = (&mut a[..F::WIDTH * m * n], &mut rows[..m]);
    let mut sign = V::of(1.0);
    let width = F::WIDTH * n;
    let read = F::Entry::<V>::read;
    for (i, row) in rows.iter_mut().enumerate() {
        *row = V::of(i as f64);
    }
    for k in 0..m.min(n) {
        let (mut best, mut at) = (read(a, k * n + k).size(), V::of(k as f64));
        for i in k + 1..m {
            let size = read(a, i * n + k).size();
            at = best.if_less(size, V::of(i as f64), at);
            best = best.max(size);
        }
        sign = at.if_equal(V::of(k as f64), sign, -sign);
        V::exchange_rows(a, width, k, at);
        V::exchange_rows(rows, 1, k, at);
        // Below a zero there are zeros.
        let pivot = read(a, k * n + k).or_one(best).divisor();
        let (upper, lower) = a.split_at_mut((k + 1) * width);
        let own = &upper[k * width..][..width];
        for row in lower.chunks_exact_mut(width) {
            let factor = read(row, k).over(pivot);
            factor.write(row, k);
            for j in k + 1..n {
                (read(row, j) - factor * read(own, j)).write(row, j);
            }
        }
    }
    sign
}

/// The triangles L and U of factors, or those of the transposed matrix, in the order in which they are solved.
#[inline(always)]
fn triangles<V>(lu: &[V], n: usize, transposed: bool) -> [Equations<'_, V>; 2] {
    let of = |triangle, has_ones| Equations {
        matrix: lu,
        n,
        triangle,
        has_ones,
        transposed,
    };
    [
        (Triangle::Lower, !transposed),
        (Triangle::Upper, transposed),
    ]
    .map(|(triangle, has_ones)| of(triangle, has_ones))
}

/// Solves with the factors, for right sides `[n, m]` in rows that are already exchanged.
#[inline(always)]
pub(super) fn substitute<F: Field, V: Numbers>(lu: &[V], n: usize, x: &mut [V], m: usize) {
    for equations in triangles(lu, n, false) {
        equations.substitute::<F>(x, m);
    }
}

/// [`substitute`] for large matrices.
pub(super) fn solve_large<F: Field, T: Large>(field: F, lu: &[T], n: usize, x: &mut [T], m: usize) {
    for equations in triangles(lu, n, false) {
        equations.solve(field, x, m);
    }
}

/// Returns the first pivot that is zero, from 1, or says that one is not a finite number.
#[inline(always)]
fn info_of<F: Field, V: Numbers>(lu: &[V], m: usize, n: usize) -> V {
    let zero = V::of(0.0);
    let mut info = zero;
    for k in (0..m.min(n)).rev() {
        let pivot = F::Entry::read(lu, k * n + k);
        let not_zero = pivot.if_finite(info, V::of(NOT_A_NUMBER as f64));
        info = (pivot.size()).if_equal(zero, V::of((k + 1) as f64), not_zero);
    }
    info
}

#[derive(Clone)]
struct Lu<F> {
    m: usize,
    n: usize,
    field: F,
}

impl<F: Field> Rule for Lu<F> {
    fn name(&self) -> &'static str {
        "lu_factor"
    }
    fn ranks(&self) -> &[usize] {
        const { &[F::RANK] }
    }
    fn results(&self) -> Results {
        Results::new(
            [self.field.shape(&[self.m, self.n])],
            [vec![self.m], vec![]],
        )
    }
    fn work(&self) -> usize {
        F::WIDTH * F::WIDTH * self.m * self.n * self.m.min(self.n) + 1
    }
    fn is_tiny(&self) -> bool {
        self.m.max(self.n) <= TINY
    }

    const IN_PLACE: Option<usize> = Some(0);
    #[inline(always)]
    fn compute<V: Numbers>(&self, _: &[&[V]], y: &mut [&mut [V]]) {
        let [lu, rows, info, _] = y else {
            unreachable!("three results and memory")
        };
        eliminate::<F, V>(lu, self.m, self.n, rows);
        info[0] = info_of::<F, V>(lu, self.m, self.n);
    }

    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], integers: &mut [&mut [i64]]) {
        let Self { m, n, .. } = *self;
        y[0].copy_from_slice(x[0]);
        blocked::lu(self.field, y[0], m, n, integers[0]);
        integers[1][0] = info_of::<F, T>(y[0], m, n).to_f64() as i64;
    }
}

#[derive(Clone)]
struct LuSolve<F> {
    n: usize,
    m: usize,
    transposed: bool,
    field: F,
}

impl<F: Field> Rule for LuSolve<F> {
    fn name(&self) -> &'static str {
        "lu_solve"
    }
    fn ranks(&self) -> &[usize] {
        const { &[F::RANK, 1, F::RANK] }
    }
    fn results(&self) -> Results {
        Results::new([self.field.shape(&[self.n, self.m])], [])
    }
    fn work(&self) -> usize {
        2 * F::WIDTH * F::WIDTH * self.n * self.n * self.m + 1
    }
    fn is_tiny(&self) -> bool {
        self.n <= TINY && self.m <= TINY
    }
    fn memory(&self) -> usize {
        match self.transposed {
            true => F::WIDTH * self.n * self.m,
            false => 0,
        }
    }

    #[inline(always)]
    fn compute<V: Numbers>(&self, x: &[&[V]], y: &mut [&mut [V]]) {
        let [out, memory] = y else {
            unreachable!("a result and memory")
        };
        self.substitute([x[0], x[1], x[2]], out, memory);
    }

    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], _: &mut [&mut [i64]]) {
        self.substitute_large([x[0], x[1], x[2]], y[0]);
    }
}

impl<F: Field> LuSolve<F> {
    /// Solves with the factors and rows for b. The memory is as long as the result if it is `transposed`.
    #[inline(always)]
    fn substitute<V: Numbers>(&self, [lu, rows, b]: [&[V]; 3], out: &mut [V], memory: &mut [V]) {
        let Self { n, m, .. } = *self;
        let width = F::WIDTH * m;
        if !self.transposed {
            for i in 0..n {
                V::gather_row(b, width, rows[i], &mut out[i * width..][..width]);
            }
            return substitute::<F, V>(lu, n, out, m);
        }
        memory.copy_from_slice(b);
        for equations in triangles(lu, n, true) {
            equations.substitute::<F>(memory, m);
        }
        for i in 0..n {
            V::scatter_row(&memory[i * width..][..width], width, rows[i], out);
        }
    }

    /// The same for one large matrix.
    fn substitute_large<T: Large>(&self, [lu, rows, b]: [&[T]; 3], out: &mut [T]) {
        let Self { n, m, .. } = *self;
        let width = F::WIDTH * m;
        if !self.transposed {
            for i in 0..n {
                T::gather_row(b, width, rows[i], &mut out[i * width..][..width]);
            }
            return solve_large(self.field, lu, n, out, m);
        }
        let mut memory = b.to_vec();
        for equations in triangles(lu, n, true) {
            equations.solve(self.field, &mut memory, m);
        }
        for i in 0..n {
            T::scatter_row(&memory[i * width..][..width], width, rows[i], out);
        }
    }
}

/// Factors, and then solves.
#[derive(Clone)]
struct Solve<F>(LuSolve<F>);

impl<F: Field> Rule for Solve<F> {
    fn name(&self) -> &'static str {
        "solve"
    }
    fn ranks(&self) -> &[usize] {
        const { &[F::RANK, F::RANK] }
    }
    fn results(&self) -> Results {
        Results::new([self.0.field.shape(&[self.0.n, self.0.m])], [vec![]])
    }
    fn work(&self) -> usize {
        F::WIDTH * F::WIDTH * self.0.n.pow(3) + self.0.work()
    }
    fn is_tiny(&self) -> bool {
        self.0.is_tiny()
    }
    /// The factors, the rows, and what the solution takes.
    fn memory(&self) -> usize {
        let n = self.0.n;
        n * (F::WIDTH * n + 1) + self.0.memory()
    }

    const IN_PLACE: Option<usize> = Some(2);
    #[inline(always)]
    fn compute<V: Numbers>(&self, x: &[&[V]], y: &mut [&mut [V]]) {
        let n = self.0.n;
        let [out, info, memory] = y else {
            unreachable!("two results and memory")
        };
        let (lu, memory) = memory.split_at_mut(F::WIDTH * n * n);
        let (rows, memory) = memory.split_at_mut(n);
        eliminate::<F, V>(lu, n, n, rows);
        self.0.substitute([lu, rows, x[0]], out, memory);
        info[0] = info_of::<F, V>(lu, n, n);
    }

    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], integers: &mut [&mut [i64]]) {
        let n = self.0.n;
        let (mut lu, mut rows) = (x[0].to_vec(), vec![0; n]);
        blocked::lu(self.0.field, &mut lu, n, n, &mut rows);
        let rows: Vec<T> = rows.iter().map(|&row| T::of(row as f64)).collect();
        self.0.substitute_large([&lu, &rows, x[1]], y[0]);
        integers[0][0] = info_of::<F, T>(&lu, n, n).to_f64() as i64;
    }
}

#[derive(Clone)]
struct Inverse<F>(usize, F);

impl<F: Field> Inverse<F> {
    /// Fills what is no inverse with NaN, and returns the number of [`lu_factor`].
    #[inline(always)]
    fn checked<V: Numbers>(lu: &[V], n: usize, out: &mut [V]) -> V {
        let info = info_of::<F, V>(lu, n, n);
        let zero = V::of(0.0);
        if zero.any_less(info.abs()) {
            for x in out {
                *x = info.if_equal(zero, *x, V::of(f64::NAN));
            }
        }
        info
    }
}

impl<F: Field> Rule for Inverse<F> {
    fn name(&self) -> &'static str {
        "inv"
    }
    fn ranks(&self) -> &[usize] {
        const { &[F::RANK] }
    }
    fn results(&self) -> Results {
        Results::new([self.1.shape(&[self.0; 2])], [vec![]])
    }
    fn work(&self) -> usize {
        3 * F::WIDTH * F::WIDTH * self.0.pow(3) + 1
    }
    fn is_tiny(&self) -> bool {
        self.0 <= TINY
    }
    fn memory(&self) -> usize {
        self.0 * (F::WIDTH * self.0 + 1)
    }

    const IN_PLACE: Option<usize> = Some(2);
    #[inline(always)]
    fn compute<V: Numbers>(&self, _: &[&[V]], y: &mut [&mut [V]]) {
        let n = self.0;
        let width = F::WIDTH * n;
        let [out, info, memory] = y else {
            unreachable!("two results and memory")
        };
        let (lu, rows) = memory.split_at_mut(n * width);
        eliminate::<F, V>(lu, n, n, rows);
        // Row i of the exchanged identity has its one where the row came from.
        for i in 0..n {
            for j in 0..n {
                let from = V::of(j as f64);
                out[i * width + F::WIDTH * j] = rows[i].if_equal(from, V::of(1.0), V::of(0.0));
            }
        }
        substitute::<F, V>(lu, n, out, n);
        info[0] = Self::checked(lu, n, out);
    }

    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], integers: &mut [&mut [i64]]) {
        let n = self.0;
        let (mut lu, mut rows) = (x[0].to_vec(), vec![0; n]);
        blocked::lu(self.1, &mut lu, n, n, &mut rows);
        for (i, &row) in rows.iter().enumerate() {
            y[0][F::WIDTH * (i * n + row as usize)] = T::of(1.0);
        }
        solve_large(self.1, &lu, n, y[0], n);
        integers[0][0] = Self::checked(&lu, n, y[0]).to_f64() as i64;
    }
}
