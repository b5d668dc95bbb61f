//! Systems of linear equations with triangular matrices.

use super::batch::{Large, Results, Rule, TINY, run};
use super::blocked::Triangular;
use super::numbers::Numbers;
use crate::cpu::matmul::Matrix;
use crate::{Array, DType, Error, raise};

/// The part of a matrix that counts; the rest is not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Triangle {
    /// The diagonal and what is below it.
    Lower,
    /// The diagonal and what is above it.
    Upper,
}

impl Triangle {
    /// Returns the part of the transposed matrix.
    #[must_use]
    pub const fn transposed(self) -> Self {
        match self {
            Self::Lower => Self::Upper,
            Self::Upper => Self::Lower,
        }
    }
}

/// Solves `a x = b` by substitution, for matrices `[.., n, n]` and right sides `[.., n, m]`, both f32 or f64 or
/// complex.
/// It is computed on the CPU.
///
/// ```
/// use bibun_array::{Array, linalg::{Triangle, triangular_solve}};
/// let a = Array::from([[2.0, 0.0], [1.0, 4.0]]);
/// let x = triangular_solve(&a, &Array::from([[2.0], [9.0]]), Triangle::Lower);
/// assert_eq!(x.to_vec::<f64>(), [1.0, 2.0]);
/// ```
///
/// # Panics
/// Panics if the shapes or the dtypes do not fit.
#[track_caller]
pub fn triangular_solve(a: &Array, b: &Array, triangle: Triangle) -> Array {
    if a.dtype().is_complex() {
        return super::complex::triangular_solve(a, b, triangle);
    }
    let fits = match (&a.shape()[..], &b.shape()[..]) {
        ([front @ .., n, columns], [others @ .., rows, _]) => {
            front == others && n == columns && n == rows
        }
        _ => false,
    };
    let is_known = matches!(a.dtype(), DType::F32 | DType::F64);
    if !fits || !is_known || a.dtype() != b.dtype() {
        let of = |x: &Array| format!("{} {}", x.shape(), x.dtype());
        let what = format!(
            "a is {} and b {}; they must be [.., n, n] and [.., n, m] of f32 or of f64",
            of(a),
            of(b)
        );
        raise(Error::invalid("triangular_solve", what));
    }
    let (n, m) = (b.shape()[b.rank() - 2], b.shape()[b.rank() - 1]);
    let [y] = super::results(run(Solve { n, m, triangle }, &[a, b]));
    y
}

#[derive(Clone)]
struct Solve {
    n: usize,
    m: usize,
    triangle: Triangle,
}

impl Rule for Solve {
    fn name(&self) -> &'static str {
        "triangular_solve"
    }
    fn ranks(&self) -> &[usize] {
        &[2, 2]
    }
    fn results(&self) -> Results {
        Results::new([vec![self.n, self.m]], [])
    }
    fn work(&self) -> usize {
        self.n * self.n * self.m + 1
    }
    fn is_tiny(&self) -> bool {
        self.n <= TINY && self.m <= TINY
    }

    #[inline(always)]
    fn compute<V: Numbers>(&self, x: &[&[V]], y: &mut [&mut [V]]) {
        let (n, m) = (self.n, self.m);
        let (a, y) = (x[0], &mut *y[0]);
        y.copy_from_slice(x[1]);
        for step in 0..n {
            let (row, known) = match self.triangle {
                Triangle::Lower => (step, 0..step),
                Triangle::Upper => (n - 1 - step, n - step..n),
            };
            for j in known {
                let factor = a[row * n + j];
                let (own, other) = two_rows(y, m, row, j);
                for (own, &other) in own.iter_mut().zip(other) {
                    *own = *own - factor * other;
                }
            }
            let pivot = a[row * n + row];
            for own in &mut y[row * m..][..m] {
                *own = *own / pivot;
            }
        }
    }

    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], _: &mut [&mut [i64]]) {
        y[0].copy_from_slice(x[1]);
        let a = Triangular {
            n: self.n,
            matrix: Matrix::of_rows(x[0], self.n),
            triangle: self.triangle,
            has_ones: false,
        };
        a.solve(y[0], self.m, self.m);
    }
}

/// Two rows of m elements.
#[inline(always)]
pub(super) fn two_rows<T>(y: &mut [T], m: usize, own: usize, other: usize) -> (&mut [T], &[T]) {
    let middle = own.max(other) * m;
    let (first, second) = y.split_at_mut(middle);
    match own > other {
        true => (&mut second[..m], &first[other * m..][..m]),
        false => (&mut first[own * m..][..m], &second[..m]),
    }
}
