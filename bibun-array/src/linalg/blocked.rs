//! Triangular factors of large matrices, and equations with triangles, by the products of blocks.
//!
//! A triangle is halved until its blocks fit the nearest cache, where loops do the rest, and what lies beside two
//! halves is a matrix product, which threads share. The sizes alone decide how it is halved, and products have the same
//! bits for any number of threads.
//!
//! What the entries are is left to a [`Field`]: a matrix of them is a matrix of numbers, whose products are all there is,
//! and rows and columns are counted in entries, but steps in numbers.
//!
//! Source: E. Peise and P. Bientinesi, "Recursive algorithms for dense linear algebra: the ReLAPACK collection" (2016);
//! S. Toledo, "Locality of reference in LU decomposition with partial pivoting" (1997).

use pulp::{Arch, NullaryFnOnce};

use super::batch::Large;
use super::entries::{Field, Reals};
use super::numbers::{Numbers, Real};
use super::tiles::{TILE, transpose};
use super::triangular::Triangle;
use crate::cpu::matmul::{Matrix, MatrixProduct};
use crate::storage::Buffer;

/// The largest order of a triangle whose equations are solved by loops.
pub(super) const TRIANGLE: usize = 16;
/// The largest order of a symmetric matrix that is factored by loops.
const SYMMETRIC: usize = 32;
/// The number of rows of a symmetric matrix whose upper part one product updates.
const STRIP: usize = 128;
/// The number of columns, of numbers, that are eliminated together before the columns to the right are updated.
const PANEL: usize = 64;
/// The number of columns that are eliminated by loops, for each number of an entry.
const COLUMNS: usize = 8;

/// The block of a matrix that begins at an element.
fn block<T>(a: Matrix<'_, T>, row: usize, column: usize) -> Matrix<'_, T> {
    Matrix {
        memory: &a.memory[row * a.row + column * a.column..],
        ..a
    }
}

/// Computes `out -= a b`, where the rows of `out` are `step` apart.
pub(super) fn subtract_product<T: Large>(
    out: &mut [T],
    step: usize,
    sizes: [usize; 3],
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
) {
    scaled_product([-1.0, 1.0], out, step, sizes, [a, b]);
}

/// Computes `out = a b`, where the rows of `out` are `step` apart.
pub(super) fn multiply<T: Large>(
    out: &mut [T],
    step: usize,
    sizes: [usize; 3],
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
) {
    scaled_product([1.0, 0.0], out, step, sizes, [a, b]);
}

/// Computes the product of square matrices of order n, of any entries.
pub(super) fn multiply_squares<F: Field, T: Large>(
    field: F,
    a: &[T],
    b: &[T],
    out: &mut [T],
    n: usize,
) {
    let (width, mut memory) = (F::WIDTH * n, Vec::new());
    let b = field.right((b, width), [n, n], &mut memory);
    multiply(out, width, [n, width, width], Matrix::of_rows(a, width), b);
}

/// Computes `out = alpha a b + beta out`.
fn scaled_product<T: Large>(
    factors: [f64; 2],
    out: &mut [T],
    step: usize,
    [m, n, k]: [usize; 3],
    [a, b]: [Matrix<'_, T>; 2],
) {
    let [alpha, beta] = factors.map(T::of);
    let product = MatrixProduct {
        m,
        n,
        k,
        alpha,
        a,
        b,
        beta,
        addend: None,
        out,
        step,
    };
    T::product(product, true);
}

// ----- units

/// Divides numbers by a power of two, such that their squares are neither zero nor infinite, and returns it. There is
/// none if they are not finite.
pub(super) fn divide_by_unit<T: Large>(x: &mut [T]) -> Option<T> {
    let largest = Arch::new().dispatch(Largest(x));
    if !Real::is_finite(largest) {
        return None;
    }
    let unit = Numbers::max(largest.binade(), T::least() * T::epsilon());
    Arch::new().dispatch(Divide(x, unit));
    Some(unit)
}

/// The largest absolute value, which is no finite number if some element is none.
struct Largest<'a, T>(&'a [T]);

impl<T: Large> NullaryFnOnce for Largest<'_, T> {
    type Output = T;
    #[inline(always)]
    fn call(self) -> T {
        let zero = T::of(0.0);
        let (mut most, mut none) = ([zero; TILE], [zero; TILE]);
        let (whole, rest) = self.0.as_chunks::<TILE>();
        for x in whole {
            for i in 0..TILE {
                most[i] = Numbers::max(most[i], Numbers::abs(x[i]));
                none[i] += x[i] * zero;
            }
        }
        for (i, &x) in rest.iter().enumerate() {
            most[i] = Numbers::max(most[i], Numbers::abs(x));
            none[i] += x * zero;
        }
        let none = none.into_iter().fold(zero, |sum, x| sum + x);
        most.into_iter().fold(zero, Numbers::max) + none
    }
}

struct Divide<'a, T>(&'a mut [T], T);

impl<T: Large> NullaryFnOnce for Divide<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        self.0.iter_mut().for_each(|x| *x /= self.1);
    }
}

// ----- equations with triangles

/// A triangle of a matrix of order n, a left factor, perhaps with ones on its diagonal instead of what is there.
#[derive(Clone, Copy)]
pub(super) struct Triangular<'a, T> {
    pub(super) n: usize,
    pub(super) matrix: Matrix<'a, T>,
    pub(super) triangle: Triangle,
    pub(super) has_ones: bool,
}

impl<T: Large> Triangular<'_, T> {
    fn diagonal_block<F: Field>(self, first: usize, n: usize) -> Self {
        Self {
            n,
            matrix: block(self.matrix, first, F::WIDTH * first),
            ..self
        }
    }

    /// Solves equations of real numbers in place, for right sides of m columns in rows that are `step` apart.
    pub(super) fn solve(self, x: &mut [T], m: usize, step: usize) {
        self.solve_in(Reals, x, m, step);
    }

    /// The same of any entries.
    pub(super) fn solve_in<F: Field>(self, field: F, x: &mut [T], m: usize, step: usize) {
        let n = self.n;
        if n == 0 || m == 0 {
            return;
        }
        if n <= TRIANGLE {
            return Arch::new().dispatch(Substitute(field, self, x, m, step));
        }
        let half = (n / 2).next_multiple_of(TRIANGLE);
        let (upper, lower) = x.split_at_mut(half * step);
        let [first, second] =
            [(0, half), (half, n - half)].map(|(i, n)| self.diagonal_block::<F>(i, n));
        let mut memory = Vec::new();
        let width = F::WIDTH * m;
        match self.triangle {
            Triangle::Lower => {
                first.solve_in(field, upper, m, step);
                let a = block(self.matrix, half, 0);
                let b = field.right((upper, step), [half, m], &mut memory);
                subtract_product(lower, step, [n - half, width, F::WIDTH * half], a, b);
                second.solve_in(field, lower, m, step);
            }
            Triangle::Upper => {
                second.solve_in(field, lower, m, step);
                let a = block(self.matrix, 0, F::WIDTH * half);
                let b = field.right((lower, step), [n - half, m], &mut memory);
                subtract_product(upper, step, [half, width, F::WIDTH * (n - half)], a, b);
                first.solve_in(field, upper, m, step);
            }
        }
    }
}

struct Substitute<'a, 'x, F, T>(F, Triangular<'a, T>, &'x mut [T], usize, usize);

impl<F: Field, T: Large> NullaryFnOnce for Substitute<'_, '_, F, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Self(field, a, x, m, step) = self;
        field.substitute(a, x, m, step);
    }
}

/// Solves the equations of a triangle that is not halved, of real numbers.
#[inline(always)]
pub(super) fn substitute_reals<T: Large>(a: Triangular<'_, T>, x: &mut [T], m: usize, step: usize) {
    let mut factors = [[T::of(0.0); TRIANGLE]; TRIANGLE];
    for (i, row) in factors[..a.n].iter_mut().enumerate() {
        let known = match a.triangle {
            Triangle::Lower => 0..i + 1,
            Triangle::Upper => i..a.n,
        };
        for j in known {
            row[j] = a.matrix.at(i, j);
        }
    }
    let mut at = 0;
    while at + 32 <= m {
        substitute::<T, 32>(&factors, a, &mut x[at..], step);
        at += 32;
    }
    while at + 8 <= m {
        substitute::<T, 8>(&factors, a, &mut x[at..], step);
        at += 8;
    }
    while at < m {
        substitute::<T, 1>(&factors, a, &mut x[at..], step);
        at += 1;
    }
}

/// Solves for some columns, each row of which stays in registers.
#[inline(always)]
fn substitute<T: Large, const COLUMNS: usize>(
    factors: &[[T; TRIANGLE]; TRIANGLE],
    a: Triangular<'_, T>,
    x: &mut [T],
    step: usize,
) {
    for i in 0..a.n {
        let (row, known) = match a.triangle {
            Triangle::Lower => (i, 0..i),
            Triangle::Upper => (a.n - 1 - i, a.n - i..a.n),
        };
        let mut own = [T::of(0.0); COLUMNS];
        own.copy_from_slice(&x[row * step..][..COLUMNS]);
        for j in known {
            let factor = factors[row][j];
            let other = &x[j * step..][..COLUMNS];
            for (own, &other) in own.iter_mut().zip(other) {
                *own -= factor * other;
            }
        }
        if !a.has_ones {
            let pivot = factors[row][row];
            own.iter_mut().for_each(|own| *own /= pivot);
        }
        x[row * step..][..COLUMNS].copy_from_slice(&own);
    }
}

// ----- symmetric matrices

/// Computes the upper factor U of `Uᵀ U` in place, of a matrix of order n whose upper part counts and whose rows are
/// `step` apart. The error is the row without one.
pub(super) fn cholesky<T: Large>(a: &mut [T], n: usize, step: usize) -> Result<(), usize> {
    if n <= SYMMETRIC {
        return Arch::new().dispatch(Roots(a, n, step));
    }
    let half = (n / 2).next_multiple_of(TRIANGLE);
    let others = n - half;
    cholesky(a, half, step)?;
    let (upper, lower) = a.split_at_mut(half * step);
    // What is below its diagonal is not read.
    let mut factor = Buffer::new::<T>(half * half);
    let factor = factor.as_mut_slice::<T>();
    for (i, row) in factor.chunks_exact_mut(half).enumerate() {
        row[i..].copy_from_slice(&upper[i * step + i..i * step + half]);
    }
    let triangle = Triangular {
        n: half,
        matrix: Matrix::of_rows(factor, half).transposed(),
        triangle: Triangle::Lower,
        has_ones: false,
    };
    triangle.solve(&mut upper[half..], others, step);
    let beside = Matrix::of_rows(&upper[half..], step);
    for first in (0..others).step_by(STRIP) {
        let rows = STRIP.min(others - first);
        let b = block(beside, 0, first);
        let out = &mut lower[first * step + half + first..];
        subtract_product(out, step, [rows, others - first, half], b.transposed(), b);
    }
    cholesky(&mut lower[half..], others, step).map_err(|k| half + k)
}

struct Roots<'a, T>(&'a mut [T], usize, usize);

impl<T: Large> NullaryFnOnce for Roots<'_, T> {
    type Output = Result<(), usize>;
    #[inline(always)]
    fn call(self) -> Self::Output {
        let Self(a, n, step) = self;
        for k in 0..n {
            let (upper, lower) = a.split_at_mut(((k + 1) * step).min(a.len()));
            let own = &mut upper[k * step..][..n];
            if !(own[k] > T::of(0.0) && own[k].to_f64().is_finite()) {
                return Err(k);
            }
            let pivot = Numbers::sqrt(own[k]);
            own[k] = pivot;
            for x in &mut own[k + 1..] {
                *x /= pivot;
            }
            for (i, row) in (k + 1..n).zip(lower.chunks_mut(step)) {
                let factor = own[i];
                for (x, &own) in row[i..n].iter_mut().zip(&own[i..]) {
                    *x -= factor * own;
                }
            }
        }
        Ok(())
    }
}

// ----- elimination with exchanges of rows

/// Computes the factors of a matrix `[m, n]` in place, and the row of each row.
pub(super) fn lu<F: Field, T: Large>(field: F, a: &mut [T], m: usize, n: usize, rows: &mut [i64]) {
    for (i, row) in rows.iter_mut().enumerate() {
        *row = i as i64;
    }
    let (size, step, most) = (m.min(n), F::WIDTH * n, PANEL / F::WIDTH);
    let mut memory = vec![T::of(0.0); F::WIDTH * most.min(size) * m];
    let (mut pivots, mut further) = ([0; PANEL], Vec::new());
    for first in (0..size).step_by(most) {
        let (count, height) = (most.min(size - first), m - first);
        let (width, pivots) = (F::WIDTH * count, &mut pivots[..count]);
        // Its columns are neighbours in memory.
        let panel = &mut memory[..width * height];
        let own = first * step + F::WIDTH * first;
        transpose((&a[own..], step), [height, width], (panel, height));
        eliminate(field, panel, height, 0, pivots);
        for (k, &pivot) in pivots.iter().enumerate() {
            if pivot != k {
                rows.swap(first + k, first + pivot);
                let (upper, lower) = a.split_at_mut((first + pivot) * step);
                upper[(first + k) * step..][..step].swap_with_slice(&mut lower[..step]);
            }
        }
        transpose((panel, height), [width, height], (&mut a[own..], step));
        let (end, others) = (first + count, n - first - count);
        if others == 0 {
            continue;
        }
        let columns = Matrix::of_rows(panel, height).transposed();
        let (upper, lower) = a.split_at_mut(end * step);
        let beside = &mut upper[first * step + F::WIDTH * end..];
        unit_lower(columns, count).solve_in(field, beside, others, step);
        if height > count {
            let a = block(columns, count, 0);
            let b = field.right((beside, step), [count, others], &mut further);
            let sizes = [height - count, F::WIDTH * others, width];
            subtract_product(&mut lower[F::WIDTH * end..], step, sizes, a, b);
        }
    }
}

fn unit_lower<T: Large>(matrix: Matrix<'_, T>, n: usize) -> Triangular<'_, T> {
    Triangular {
        n,
        matrix,
        triangle: Triangle::Lower,
        has_ones: true,
    }
}

/// Eliminates below the diagonal of columns of m elements, which begins at the element `top` of the first. `pivots`
/// become the rows that were exchanged with each of those from `top` on. The numbers of an entry are in neighbouring
/// columns of numbers.
fn eliminate<F: Field, T: Large>(
    field: F,
    columns: &mut [T],
    m: usize,
    top: usize,
    pivots: &mut [usize],
) {
    let count = pivots.len();
    let most = F::WIDTH * COLUMNS;
    if count <= most {
        return Arch::new().dispatch(Eliminate(field, columns, m, top, pivots));
    }
    let half = (count / 2).next_multiple_of(most);
    let others = count - half;
    let (known, width) = (F::WIDTH * half, F::WIDTH * others);
    let (left, right) = columns.split_at_mut(known * m);
    let (first, second) = pivots.split_at_mut(half);
    eliminate(field, left, m, top, first);
    exchange(right, m, top, first);
    let factors = Matrix::of_rows(&left[top..], m).transposed();
    let mut beside = vec![T::of(0.0); half * width];
    transpose((&right[top..], m), [width, half], (&mut beside, width));
    unit_lower(factors, half).solve_in(field, &mut beside, others, width);
    transpose((&beside, width), [half, width], (&mut right[top..], m));
    let below = top + half;
    if below < m {
        let mut further = Vec::new();
        let a = field.right((&beside, width), [half, others], &mut further);
        let b = Matrix::of_rows(&left[below..], m);
        let sizes = [width, m - below, known];
        subtract_product(&mut right[below..], m, sizes, a.transposed(), b);
    }
    eliminate(field, right, m, below, second);
    exchange(left, m, below, second);
}

/// Exchanges elements of columns.
fn exchange<T>(columns: &mut [T], m: usize, top: usize, pivots: &[usize]) {
    for column in columns.chunks_exact_mut(m) {
        for (k, &pivot) in pivots.iter().enumerate() {
            column.swap(top + k, pivot);
        }
    }
}

struct Eliminate<'a, F, T>(F, &'a mut [T], usize, usize, &'a mut [usize]);

impl<F: Field, T: Large> NullaryFnOnce for Eliminate<'_, F, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Self(field, columns, m, top, pivots) = self;
        field.eliminate(columns, m, top, pivots);
    }
}

/// Eliminates columns that are not halved, of real numbers.
#[inline(always)]
pub(super) fn eliminate_reals<T: Large>(
    columns: &mut [T],
    m: usize,
    top: usize,
    pivots: &mut [usize],
) {
    for k in 0..pivots.len() {
        let row = top + k;
        let pivot = row + largest(&columns[k * m..][row..m]);
        pivots[k] = pivot;
        if pivot != row {
            for column in columns.chunks_exact_mut(m) {
                column.swap(row, pivot);
            }
        }
        let (upper, lower) = columns.split_at_mut((k + 1) * m);
        let own = &mut upper[k * m + row..];
        let (pivot, own) = own.split_first_mut().expect("the pivot");
        // Below a zero there are zeros.
        if *pivot != T::of(0.0) {
            let pivot = *pivot;
            own.iter_mut().for_each(|x| *x /= pivot);
        }
        for column in lower.chunks_exact_mut(m) {
            let (&mut factor, column) = column[row..].split_first_mut().expect("its row");
            for (x, &own) in column.iter_mut().zip(&*own) {
                *x -= factor * own;
            }
        }
    }
}

/// Returns the place of the first of the largest elements; of the first element if that is not a number.
#[inline(always)]
fn largest<T: Large>(x: &[T]) -> usize {
    const LANES: usize = 16;
    let mut sizes = [T::of(0.0); LANES];
    let (whole, rest) = x.as_chunks::<LANES>();
    for x in whole {
        for (size, &x) in sizes.iter_mut().zip(x) {
            *size = Numbers::max(*size, Numbers::abs(x));
        }
    }
    let all = rest.iter().map(|&x| Numbers::abs(x)).chain(sizes);
    let most = all.fold(T::of(0.0), Numbers::max);
    match Numbers::abs(x[0]) < most {
        true => { x.iter() }.position(|&x| Numbers::abs(x) == most),
        false => None,
    }
    .unwrap_or(0)
}
