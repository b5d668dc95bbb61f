//! What the entries of a matrix are: numbers, or pairs of numbers, which are complex. Pairs share batches, lanes and
//! threads with the others.

use std::ops::{Add, Mul, Sub};

use super::batch::Large;
use super::blocked::{self, Triangular};
use super::numbers::Numbers;
use super::{complex, determinant};
use crate::Array;
use crate::cpu::matmul::Matrix;

/// The kind of the entries of a matrix.
pub(super) trait Field: Copy + Send + Sync + 'static {
    /// The count of numbers of an entry, which are neighbours in memory.
    const WIDTH: usize;
    /// The number of axes of a matrix of numbers.
    const RANK: usize;
    type Entry<V: Numbers>: Entry<V>;

    /// Returns an array of the numbers of entries.
    fn numbers(self, entries: &Array) -> Array;
    /// Returns the entries with these numbers.
    fn entries(self, numbers: Array) -> Array;
    /// Returns the shape of an array of numbers.
    fn shape(self, entries: &[usize]) -> Vec<usize>;
    /// Returns a square matrix of order n, or its transpose, as the left factor of a product of numbers. It may be a copy,
    /// which `memory` then holds.
    fn left<'a, T: Large>(
        self,
        matrix: &'a [T],
        n: usize,
        transposed: bool,
        memory: &'a mut Vec<T>,
    ) -> Matrix<'a, T>;
    /// Returns a matrix `[m, n]`, whose rows are a step apart, as the right factor of a product of numbers that has the
    /// numbers of the product of entries. It may be a copy, too.
    fn right<'a, T: Large>(
        self,
        rows: (&'a [T], usize),
        sizes: [usize; 2],
        memory: &'a mut Vec<T>,
    ) -> Matrix<'a, T>;
    /// Solves the equations of a block in place, by loops, for right sides of m columns in rows that are `step` apart.
    fn substitute<T: Large>(self, block: Triangular<'_, T>, x: &mut [T], m: usize, step: usize);
    /// Eliminates columns of m elements by loops; see [`blocked::lu`].
    fn eliminate<T: Large>(self, columns: &mut [T], m: usize, top: usize, pivots: &mut [usize]);
    /// Computes a determinant, its sign and its logarithm from the factors and the sign of the permutation.
    fn determinant<V: Numbers>(self, lu: &[V], n: usize, sign: V, y: &mut [&mut [V]]);
}

/// One entry, or one of each matrix of a group.
pub(super) trait Entry<V: Numbers>:
    Copy + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self>
{
    fn read(x: &[V], at: usize) -> Self;
    fn write(self, x: &mut [V], at: usize);
    /// What pivots are chosen by, as in LAPACK: of complex numbers the sum of the sizes of both parts.
    fn size(self) -> V;
    /// Returns `a` where it is a finite number, and `b` elsewhere.
    fn if_finite(self, a: V, b: V) -> V;
    /// Returns 1 where the size is zero.
    fn or_one(self, size: V) -> Self;
    /// Returns what [`over`](Self::over) divides by.
    fn divisor(self) -> Self;
    fn over(self, divisor: Self) -> Self;
}

/// Calls an expression with the [`Field`] of the entries of an array.
macro_rules! with_field {
    ($x:expr, $field:ident => $body:expr) => {
        if $x.dtype().is_complex() {
            let $field = $crate::linalg::entries::Complexes;
            $body
        } else {
            let $field = $crate::linalg::entries::Reals;
            $body
        }
    };
}
pub(super) use with_field;

#[derive(Clone, Copy)]
pub(super) struct Reals;

#[derive(Clone, Copy)]
pub(super) struct Complexes;

impl Field for Reals {
    const WIDTH: usize = 1;
    const RANK: usize = 2;
    type Entry<V: Numbers> = V;

    fn numbers(self, entries: &Array) -> Array {
        entries.clone()
    }
    fn entries(self, numbers: Array) -> Array {
        numbers
    }
    fn shape(self, entries: &[usize]) -> Vec<usize> {
        entries.to_vec()
    }
    fn left<'a, T: Large>(
        self,
        matrix: &'a [T],
        n: usize,
        transposed: bool,
        _: &'a mut Vec<T>,
    ) -> Matrix<'a, T> {
        let matrix = Matrix::of_rows(matrix, n);
        match transposed {
            true => matrix.transposed(),
            false => matrix,
        }
    }
    fn right<'a, T: Large>(
        self,
        (rows, step): (&'a [T], usize),
        _: [usize; 2],
        _: &'a mut Vec<T>,
    ) -> Matrix<'a, T> {
        Matrix::of_rows(rows, step)
    }
    #[inline(always)]
    fn substitute<T: Large>(self, block: Triangular<'_, T>, x: &mut [T], m: usize, step: usize) {
        blocked::substitute_reals(block, x, m, step);
    }
    #[inline(always)]
    fn eliminate<T: Large>(self, columns: &mut [T], m: usize, top: usize, pivots: &mut [usize]) {
        blocked::eliminate_reals(columns, m, top, pivots);
    }
    #[inline(always)]
    fn determinant<V: Numbers>(self, lu: &[V], n: usize, sign: V, y: &mut [&mut [V]]) {
        determinant::of_reals((0..n).map(|i| lu[i * n + i]), sign, y);
    }
}

impl Field for Complexes {
    const WIDTH: usize = 2;
    const RANK: usize = 3;
    type Entry<V: Numbers> = Pair<V>;

    fn numbers(self, entries: &Array) -> Array {
        entries.view_as_real()
    }
    fn entries(self, numbers: Array) -> Array {
        numbers.view_as_complex()
    }
    fn shape(self, entries: &[usize]) -> Vec<usize> {
        [entries, &[2]].concat()
    }
    fn left<'a, T: Large>(
        self,
        matrix: &'a [T],
        n: usize,
        transposed: bool,
        memory: &'a mut Vec<T>,
    ) -> Matrix<'a, T> {
        Matrix::of_rows(
            match transposed {
                true => complex::transposed(matrix, n, memory),
                false => matrix,
            },
            2 * n,
        )
    }
    fn right<'a, T: Large>(
        self,
        rows: (&'a [T], usize),
        sizes: [usize; 2],
        memory: &'a mut Vec<T>,
    ) -> Matrix<'a, T> {
        complex::right(rows, sizes, memory)
    }
    #[inline(always)]
    fn substitute<T: Large>(self, block: Triangular<'_, T>, x: &mut [T], m: usize, step: usize) {
        complex::substitute(block, x, m, step);
    }
    #[inline(always)]
    fn eliminate<T: Large>(self, columns: &mut [T], m: usize, top: usize, pivots: &mut [usize]) {
        complex::eliminate(columns, m, top, pivots);
    }
    #[inline(always)]
    fn determinant<V: Numbers>(self, lu: &[V], n: usize, sign: V, y: &mut [&mut [V]]) {
        determinant::of_complexes((0..n).map(|i| Pair::read(lu, i * n + i)), sign, y);
    }
}

impl<V: Numbers> Entry<V> for V {
    #[inline(always)]
    fn read(x: &[V], at: usize) -> Self {
        x[at]
    }
    #[inline(always)]
    fn write(self, x: &mut [V], at: usize) {
        x[at] = self;
    }
    #[inline(always)]
    fn size(self) -> V {
        self.abs()
    }
    #[inline(always)]
    fn if_finite(self, a: V, b: V) -> V {
        self.abs().if_less(V::of(f64::INFINITY), a, b)
    }
    #[inline(always)]
    fn or_one(self, size: V) -> Self {
        V::of(0.0).if_less(size, self, V::of(1.0))
    }
    #[inline(always)]
    fn divisor(self) -> Self {
        self
    }
    #[inline(always)]
    fn over(self, divisor: Self) -> Self {
        self / divisor
    }
}

/// A complex number.
#[derive(Clone, Copy)]
pub(super) struct Pair<V> {
    pub(super) re: V,
    pub(super) im: V,
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

impl<V: Numbers> Entry<V> for Pair<V> {
    #[inline(always)]
    fn read(x: &[V], at: usize) -> Self {
        let (re, im) = (x[2 * at], x[2 * at + 1]);
        Self { re, im }
    }
    #[inline(always)]
    fn write(self, x: &mut [V], at: usize) {
        (x[2 * at], x[2 * at + 1]) = (self.re, self.im);
    }
    #[inline(always)]
    fn size(self) -> V {
        self.re.abs() + self.im.abs()
    }
    #[inline(always)]
    fn if_finite(self, a: V, b: V) -> V {
        self.re.if_finite(self.im.if_finite(a, b), b)
    }
    #[inline(always)]
    fn or_one(self, size: V) -> Self {
        let zero = V::of(0.0);
        Self {
            re: zero.if_less(size, self.re, V::of(1.0)),
            im: zero.if_less(size, self.im, zero),
        }
    }
    /// Returns the reciprocal, without overflow in between (R. L. Smith, "Algorithm 116", 1962).
    #[inline(always)]
    fn divisor(self) -> Self {
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
    #[inline(always)]
    fn over(self, divisor: Self) -> Self {
        self * divisor
    }
}
