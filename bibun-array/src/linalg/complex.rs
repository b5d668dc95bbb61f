//! Matrices of complex numbers, as real numbers in pairs: so they share batches, lanes and threads with the others.

use std::ops::{Add, Mul, Sub};

#[cfg(feature = "linalg")]
use num_complex::Complex;

#[cfg(feature = "linalg")]
use super::batch::Large;
use super::batch::{Results, Rule, TINY, run};
use super::numbers::{Numbers, Real};
use super::{NOT_A_NUMBER, Triangle, raise_mismatch, results};
use crate::{Array, Error, raise};

/// Returns the real and imaginary parts of matrices `[.., m, n, 2]`, and the sizes.
#[track_caller]
fn parts(function: &'static str, a: &Array) -> (Array, [usize; 2]) {
    let &[.., m, n] = &a.shape()[..] else {
        let (shape, dtype) = (a.shape(), a.dtype());
        let what = format!("a is {shape} {dtype}; it must be [.., m, n]");
        raise(Error::invalid(function, what))
    };
    (a.view_as_real(), [m, n])
}

#[track_caller]
fn square_parts(function: &'static str, a: &Array) -> (Array, usize) {
    let (parts, [m, n]) = parts(function, a);
    if m != n {
        let what = format!("a is {}; it must be square", a.shape());
        raise(Error::invalid(function, what));
    }
    (parts, n)
}

#[track_caller]
pub(super) fn lu_factor(a: &Array) -> [Array; 3] {
    let (a, [m, n]) = parts("lu_factor", a);
    let [lu, rows, info] = results(run(Lu { m, n }, &[&a]));
    [lu.view_as_complex(), rows, info]
}

#[track_caller]
pub(super) fn lu_solve(lu: &Array, rows: &Array, b: &Array, transposed: bool) -> Array {
    let front = |x: &Array, rank: usize| x.shape()[..x.rank().saturating_sub(rank)].to_vec();
    let fits = b.rank() >= 2
        && lu.shape().last() == b.shape().get(b.rank() - 2)
        && lu.shape().last() == rows.shape().last()
        && front(lu, 2) == front(b, 2)
        && front(lu, 2) == front(rows, 1);
    if !fits || lu.dtype() != b.dtype() {
        raise_mismatch("lu_solve", &[("lu", lu), ("rows", rows), ("b", b)]);
    }
    let ((lu, n), (b, [_, m])) = (square_parts("lu_solve", lu), parts("lu_solve", b));
    let rows = rows.cast(lu.dtype());
    let [x] = results(run(LuSolve { n, m, transposed }, &[&lu, &rows, &b]));
    x.view_as_complex()
}

#[track_caller]
pub(super) fn inv(a: &Array) -> [Array; 2] {
    let (a, n) = square_parts("inv", a);
    let [y, info] = results(run(Inverse(n), &[&a]));
    [y.view_as_complex(), info]
}

/// Returns the determinants, their directions `det / |det|`, and their logarithms, which are complex as well.
#[track_caller]
pub(super) fn determinants(a: &Array) -> [Array; 3] {
    let (a, n) = square_parts("det", a);
    let all: [Array; 3] = results(run(Determinants(n), &[&a]));
    all.map(|y| y.view_as_complex())
}

#[track_caller]
pub(super) fn triangular_solve(a: &Array, b: &Array, triangle: Triangle) -> Array {
    let front = |x: &Array| x.shape()[..x.rank().saturating_sub(2)].to_vec();
    let fits = b.rank() >= 2
        && a.shape().last() == b.shape().get(b.rank() - 2)
        && front(a) == front(b)
        && a.dtype() == b.dtype();
    if !fits {
        raise_mismatch("triangular_solve", &[("a", a), ("b", b)]);
    }
    let (a, n) = square_parts("triangular_solve", a);
    let (b, [_, m]) = parts("triangular_solve", b);
    let [x] = results(run(TriangularSolve { n, m, triangle }, &[&a, &b]));
    x.view_as_complex()
}

// ----- numbers

#[derive(Clone, Copy)]
struct Pair<V> {
    re: V,
    im: V,
}

impl<V: Numbers> Add for Pair<V> {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        let (re, im) = (self.re + other.re, self.im + other.im);
        Self { re, im }
    }
}

impl<V: Numbers> Sub for Pair<V> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        let (re, im) = (self.re - other.re, self.im - other.im);
        Self { re, im }
    }
}

impl<V: Numbers> Mul for Pair<V> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Self {
            re: self.re * other.re - self.im * other.im,
            im: self.re * other.im + self.im * other.re,
        }
    }
}

impl<V: Numbers> Pair<V> {
    #[inline(always)]
    fn of(re: f64) -> Self {
        let (re, im) = (V::of(re), V::of(0.0));
        Self { re, im }
    }
    #[inline(always)]
    fn read(x: &[V], at: usize) -> Self {
        let (re, im) = (x[2 * at], x[2 * at + 1]);
        Self { re, im }
    }
    #[inline(always)]
    fn write(self, x: &mut [V], at: usize) {
        (x[2 * at], x[2 * at + 1]) = (self.re, self.im);
    }
    /// The sum of the parts' sizes, by which LAPACK compares complex numbers.
    #[inline(always)]
    fn size(self) -> V {
        self.re.abs() + self.im.abs()
    }
    /// Returns `1 / self`, without overflow in between (R. L. Smith, "Algorithm 116", 1962).
    #[inline(always)]
    fn reciprocal(self) -> Self {
        let turned = |large: V, small: V| {
            let ratio = small / large;
            let scale = large + small * ratio;
            (V::of(1.0) / scale, ratio / scale)
        };
        let (re_size, im_size) = (self.re.abs(), self.im.abs());
        let is_flat = |a, b| re_size.if_less(im_size, b, a);
        let (one, other) = turned(is_flat(self.re, self.im), is_flat(self.im, self.re));
        Self {
            re: is_flat(one, other),
            im: -is_flat(other, one),
        }
    }
}

/// Whether an element on the diagonal is zero or not finite: the number of the result.
fn wrong_pivot<T: Real>(k: usize, lu: &[T], n: usize) -> Option<i64> {
    let Pair { re, im } = Pair::read(lu, k * n + k);
    if re.to_f64() == 0.0 && im.to_f64() == 0.0 {
        return Some(k as i64 + 1);
    }
    let is_finite = re.to_f64().is_finite() && im.to_f64().is_finite();
    (!is_finite).then_some(NOT_A_NUMBER)
}

fn info<T: Real>(lu: &[T], m: usize, n: usize) -> i64 {
    let found = (0..m.min(n)).find_map(|k| wrong_pivot(k, lu, n));
    found.unwrap_or(0)
}

/// Eliminates in place, as of real numbers.
#[inline(always)]
fn eliminate<V: Numbers>(a: &mut [V], m: usize, n: usize, rows: &mut [V]) {
    let (zero, one) = (V::of(0.0), V::of(1.0));
    for (i, row) in rows.iter_mut().enumerate() {
        *row = V::of(i as f64);
    }
    for k in 0..m.min(n) {
        let (mut best, mut at) = (Pair::read(a, k * n + k).size(), V::of(k as f64));
        for i in k + 1..m {
            let size = Pair::read(a, i * n + k).size();
            at = best.if_less(size, V::of(i as f64), at);
            best = best.max(size);
        }
        V::exchange_rows(a, 2 * n, k, at);
        V::exchange_rows(rows, 1, k, at);
        // Below a zero there are zeros.
        let Pair { re, im } = Pair::read(a, k * n + k);
        let pivot = Pair {
            re: zero.if_less(best, re, one),
            im: zero.if_less(best, im, zero),
        };
        let by = pivot.reciprocal();
        let (upper, lower) = a.split_at_mut(2 * (k + 1) * n);
        let own = &upper[2 * k * n..];
        for row in lower.chunks_exact_mut(2 * n) {
            let factor = Pair::read(row, k) * by;
            factor.write(row, k);
            for j in k + 1..n {
                (Pair::read(row, j) - factor * Pair::read(own, j)).write(row, j);
            }
        }
    }
}

/// Subtracts `factor` times a row of m elements from another.
#[inline(always)]
fn subtract<V: Numbers>(x: &mut [V], m: usize, from: usize, row: usize, factor: Pair<V>) {
    let (own, other) = super::triangular::two_rows(x, 2 * m, from, row);
    for j in 0..m {
        (Pair::read(own, j) - factor * Pair::read(other, j)).write(own, j);
    }
}

#[inline(always)]
fn divide<V: Numbers>(row: &mut [V], by: Pair<V>) {
    let by = by.reciprocal();
    for j in 0..row.len() / 2 {
        (Pair::read(row, j) * by).write(row, j);
    }
}

/// Solves with a triangle whose element at `(i, j)` is `at(i, j)`, and whose diagonal is of ones if it is `unit`.
#[inline(always)]
fn solve<V: Numbers>(
    at: impl Fn(usize, usize) -> Pair<V>,
    n: usize,
    x: &mut [V],
    m: usize,
    triangle: Triangle,
    unit: bool,
) {
    for step in 0..n {
        let (i, before) = match triangle {
            Triangle::Lower => (step, 0..step),
            Triangle::Upper => (n - 1 - step, n - step..n),
        };
        for j in before {
            subtract(x, m, i, j, at(i, j));
        }
        if !unit {
            divide(&mut x[2 * i * m..][..2 * m], at(i, i));
        }
    }
}

/// Solves with the factors, for right sides `[n, m]` in rows that are already exchanged.
#[inline(always)]
fn substitute<V: Numbers>(lu: &[V], n: usize, x: &mut [V], m: usize) {
    let at = |i: usize, j: usize| Pair::read(lu, i * n + j);
    solve(at, n, x, m, Triangle::Lower, true);
    solve(at, n, x, m, Triangle::Upper, false);
}

// ----- rules

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
        &[3]
    }
    fn results(&self) -> Results {
        Results::new([vec![self.m, self.n, 2]], [vec![self.m], vec![]])
    }
    fn work(&self) -> usize {
        4 * self.m * self.n * self.m.min(self.n) + 1
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
        integers[1][0] = info(y[0], self.m, self.n);
    }

    #[cfg(feature = "linalg")]
    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], integers: &mut [&mut [i64]]) {
        let Self { m, n } = *self;
        large::lu(x[0], m, n, y[0], integers[0]);
        integers[1][0] = info(y[0], m, n);
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
        &[3, 1, 3]
    }
    fn results(&self) -> Results {
        Results::new([vec![self.n, self.m, 2]], [])
    }
    fn work(&self) -> usize {
        8 * self.n * self.n * self.m + 1
    }
    fn is_tiny(&self) -> bool {
        self.n <= TINY && self.m <= TINY
    }
    fn memory(&self) -> usize {
        2 * self.n * self.m
    }

    #[inline(always)]
    fn compute<V: Numbers>(&self, x: &[&[V]], y: &mut [&mut [V]]) {
        let Self { n, m, transposed } = *self;
        let (lu, rows, b) = (x[0], x[1], x[2]);
        let [out, memory] = y else {
            unreachable!("a result and memory")
        };
        if !transposed {
            for i in 0..n {
                V::gather_row(b, 2 * m, rows[i], &mut out[2 * i * m..][..2 * m]);
            }
            return substitute(lu, n, out, m);
        }
        memory.copy_from_slice(b);
        let at = |i: usize, j: usize| Pair::read(lu, j * n + i);
        solve(at, n, memory, m, Triangle::Lower, false);
        solve(at, n, memory, m, Triangle::Upper, true);
        for i in 0..n {
            V::scatter_row(&memory[2 * i * m..][..2 * m], 2 * m, rows[i], out);
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
        &[3]
    }
    fn results(&self) -> Results {
        Results::new([vec![self.0, self.0, 2]], [vec![]])
    }
    fn work(&self) -> usize {
        12 * self.0.pow(3) + 1
    }
    fn is_tiny(&self) -> bool {
        self.0 <= TINY
    }
    fn memory(&self) -> usize {
        self.0 * (2 * self.0 + 1)
    }

    #[inline(always)]
    fn compute<V: Numbers>(&self, x: &[&[V]], y: &mut [&mut [V]]) {
        let n = self.0;
        let [out, memory] = y else {
            unreachable!("a result and memory")
        };
        let (lu, rows) = memory.split_at_mut(2 * n * n);
        lu.copy_from_slice(x[0]);
        eliminate(lu, n, n, rows);
        // Row i of the exchanged identity has its one where the row came from.
        let one = [V::of(1.0), V::of(0.0)];
        for i in 0..n {
            V::scatter_row(&one, 2, rows[i], &mut out[2 * i * n..][..2 * n]);
        }
        substitute(lu, n, out, n);
    }

    fn finish<T: Real>(&self, y: &mut [&mut [T]], integers: &mut [&mut [i64]]) {
        integers[0][0] = info(y[1], self.0, self.0);
        if integers[0][0] != 0 {
            y[0].fill(T::of(f64::NAN));
        }
    }

    #[cfg(feature = "linalg")]
    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], integers: &mut [&mut [i64]]) {
        let n = self.0;
        let (mut lu, mut rows) = (vec![T::of(0.0); 2 * n * n], vec![0; n]);
        large::lu(x[0], n, n, &mut lu, &mut rows);
        for (i, &row) in rows.iter().enumerate() {
            y[0][2 * (i * n + row as usize)] = T::of(1.0);
        }
        substitute(&lu, n, y[0], n);
        integers[0][0] = info(&lu, n, n);
        if integers[0][0] != 0 {
            y[0].fill(T::of(f64::NAN));
        }
    }
}

#[derive(Clone)]
struct Determinants(usize);

impl Determinants {
    fn of_pivots<T: Real>(lu: &[T], n: usize, turned: bool, y: &mut [&mut [T]]) {
        let mut det = Pair::<T>::of(if turned { -1.0 } else { 1.0 });
        let (mut direction, mut log) = (Pair::<f64>::of(if turned { -1.0 } else { 1.0 }), 0.0);
        for k in 0..n {
            let pivot = Pair::read(lu, k * n + k);
            det = det * pivot;
            let (re, im) = (pivot.re.to_f64(), pivot.im.to_f64());
            let size = re.hypot(im);
            log += size.ln();
            let (re, im) = match size == 0.0 {
                true => (0.0, 0.0),
                false => (re / size, im / size),
            };
            direction = direction * Pair { re, im };
        }
        // Roundings of many products add up.
        let size = direction.re.hypot(direction.im);
        let by = if size == 0.0 { 1.0 } else { size };
        det.write(y[0], 0);
        (y[1][0], y[1][1]) = (T::of(direction.re / by), T::of(direction.im / by));
        (y[2][0], y[2][1]) = (T::of(log), T::of(direction.im.atan2(direction.re)));
    }
}

impl Rule for Determinants {
    fn name(&self) -> &'static str {
        "det"
    }
    fn ranks(&self) -> &[usize] {
        &[3]
    }
    fn results(&self) -> Results {
        Results::new([vec![2], vec![2], vec![2]], [])
    }
    fn work(&self) -> usize {
        4 * self.0.pow(3) + 20 * self.0 + 1
    }
    fn is_tiny(&self) -> bool {
        self.0 <= TINY
    }
    fn memory(&self) -> usize {
        self.0 * (2 * self.0 + 1)
    }

    #[inline(always)]
    fn compute<V: Numbers>(&self, x: &[&[V]], y: &mut [&mut [V]]) {
        let n = self.0;
        let (lu, rows) = y[3].split_at_mut(2 * n * n);
        lu.copy_from_slice(x[0]);
        eliminate(lu, n, n, rows);
    }

    fn finish<T: Real>(&self, y: &mut [&mut [T]], _: &mut [&mut [i64]]) {
        let n = self.0;
        let (memory, y) = y.split_last_mut().expect("the memory");
        let rows = memory[2 * n * n..].iter().map(|x| x.to_f64() as i64);
        let turned = super::determinant::is_odd(&mut rows.collect::<Vec<_>>());
        Self::of_pivots(memory, n, turned, y);
    }

    #[cfg(feature = "linalg")]
    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], _: &mut [&mut [i64]]) {
        let n = self.0;
        let (mut lu, mut rows) = (vec![T::of(0.0); 2 * n * n], vec![0; n]);
        large::lu(x[0], n, n, &mut lu, &mut rows);
        let turned = super::determinant::is_odd(&mut rows);
        Self::of_pivots(&lu, n, turned, y);
    }
}

#[derive(Clone)]
struct TriangularSolve {
    n: usize,
    m: usize,
    triangle: Triangle,
}

impl Rule for TriangularSolve {
    fn name(&self) -> &'static str {
        "triangular_solve"
    }
    fn ranks(&self) -> &[usize] {
        &[3, 3]
    }
    fn results(&self) -> Results {
        Results::new([vec![self.n, self.m, 2]], [])
    }
    fn work(&self) -> usize {
        4 * self.n * self.n * self.m + 1
    }
    fn is_tiny(&self) -> bool {
        self.n <= TINY && self.m <= TINY
    }

    #[inline(always)]
    fn compute<V: Numbers>(&self, x: &[&[V]], y: &mut [&mut [V]]) {
        let Self { n, m, triangle } = *self;
        y[0].copy_from_slice(x[1]);
        let at = |i: usize, j: usize| Pair::read(x[0], i * n + j);
        solve(at, n, y[0], m, triangle, false);
    }
}

/// Factors of large matrices, by the crate `faer`.
#[cfg(feature = "linalg")]
mod large {
    use faer::MatMut;
    use faer::dyn_stack::{MemBuffer, MemStack};
    use faer::linalg::lu::partial_pivoting::factor as plu;
    use faer::prelude::default;

    use super::super::blocked::for_tiles;
    use super::super::large::parallel;
    use super::{Complex, Large, eliminate};

    /// Computes the factors of a matrix, both in rows, and the row of each row.
    pub(super) fn lu<T: Large>(a: &[T], m: usize, n: usize, out: &mut [T], rows: &mut [i64]) {
        let par = parallel(m * n);
        let mut columns = vec![Complex::new(T::of(0.0), T::of(0.0)); m * n];
        for_tiles(m, n, |i, j| {
            let at = 2 * (i * n + j);
            columns[j * m + i] = Complex::new(a[at], a[at + 1]);
        });
        let (mut order, mut inverse) = (vec![0usize; m], vec![0usize; m]);
        let scratch = plu::lu_in_place_scratch::<usize, Complex<T>>(m, n, par, default());
        let mut memory = MemBuffer::new(scratch);
        plu::lu_in_place(
            MatMut::from_column_major_slice_mut(&mut columns, m, n),
            &mut order,
            &mut inverse,
            par,
            MemStack::new(&mut memory),
            default(),
        );
        for_tiles(m, n, |i, j| {
            let (at, x) = (2 * (i * n + j), columns[j * m + i]);
            (out[at], out[at + 1]) = (x.re, x.im);
        });
        for (row, &from) in rows.iter_mut().zip(&order) {
            *row = from as i64;
        }
        // It divides by a pivot that is zero, where there is nothing to eliminate.
        let is_finite = |x: &[T]| x.iter().all(|x| x.to_f64().is_finite());
        if !is_finite(out) && is_finite(a) {
            let mut order = vec![T::of(0.0); m];
            out.copy_from_slice(a);
            eliminate(out, m, n, &mut order);
            for (row, from) in rows.iter_mut().zip(order) {
                *row = from.to_f64() as i64;
            }
        }
    }
}
