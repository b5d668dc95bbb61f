//! Systems of linear equations with triangular matrices.

use super::batch::{Large, Results, Rule, TINY, run};
use super::blocked::Triangular;
use super::entries::{Entry, Field, with_field};
use super::numbers::Numbers;
use crate::{Array, DType, Error, raise};

/// The number of right sides for which loops take less time than a copy of the matrix.
const FEW: usize = 4;

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
    let fits = match (&a.shape()[..], &b.shape()[..]) {
        ([front @ .., n, columns], [others @ .., rows, _]) => {
            front == others && n == columns && n == rows
        }
        _ => false,
    };
    let is_known = matches!(a.dtype(), DType::F32 | DType::F64) || a.dtype().is_complex();
    if !fits || !is_known || a.dtype() != b.dtype() {
        let of = |x: &Array| format!("{} {}", x.shape(), x.dtype());
        let what = format!(
            "a is {} and b {}; they must be [.., n, n] and [.., n, m] of f32, f64 or complex numbers",
            of(a),
            of(b)
        );
        raise(Error::invalid("triangular_solve", what));
    }
    let (n, m) = (b.shape()[b.rank() - 2], b.shape()[b.rank() - 1]);
    with_field!(a, field => {
        let inputs = [a, b].map(|x| field.numbers(x));
        let rule = Solve { n, m, triangle, field };
        let [y] = super::results(run(rule, &inputs.each_ref()));
        field.entries(y)
    })
}

/// The equations of a triangle of a matrix of order n, which may be read transposed, perhaps with ones on its diagonal
/// instead of what is there.
#[derive(Clone, Copy)]
pub(super) struct Equations<'a, V> {
    pub(super) matrix: &'a [V],
    pub(super) n: usize,
    /// The triangle after transposing.
    pub(super) triangle: Triangle,
    pub(super) has_ones: bool,
    pub(super) transposed: bool,
}

impl<V: Numbers> Equations<'_, V> {
    #[inline(always)]
    fn at<F: Field>(&self, i: usize, j: usize) -> F::Entry<V> {
        let at = match self.transposed {
            true => j * self.n + i,
            false => i * self.n + j,
        };
        F::Entry::read(self.matrix, at)
    }

    /// Solves them in place, for right sides of m columns.
    #[inline(always)]
    pub(super) fn substitute<F: Field>(&self, x: &mut [V], m: usize) {
        // Loops of known lengths are unrolled.
        match (self.n, m) {
            (2, 1) => Self { n: 2, ..*self }.substitute_sized::<F>(x, 1),
            (3, 1) => Self { n: 3, ..*self }.substitute_sized::<F>(x, 1),
            (3, 3) => Self { n: 3, ..*self }.substitute_sized::<F>(x, 3),
            (4, 1) => Self { n: 4, ..*self }.substitute_sized::<F>(x, 1),
            _ => self.substitute_sized::<F>(x, m),
        }
    }

    #[inline(always)]
    fn substitute_sized<F: Field>(&self, x: &mut [V], m: usize) {
        let (n, width) = (self.n, F::WIDTH * m);
        let x = &mut x[..n * width];
        let read = F::Entry::<V>::read;
        for step in 0..n {
            let (row, known) = match self.triangle {
                Triangle::Lower => (step, 0..step),
                Triangle::Upper => (n - 1 - step, n - step..n),
            };
            if m == 1 {
                // A sum that stays in a register.
                let own = known.fold(read(x, row), |own, j| {
                    own - self.at::<F>(row, j) * read(x, j)
                });
                let own = match self.has_ones {
                    true => own,
                    false => own.over(self.at::<F>(row, row).divisor()),
                };
                own.write(x, row);
                continue;
            }
            for j in known {
                let factor = self.at::<F>(row, j);
                let (own, other) = two_rows(x, width, row, j);
                for k in 0..m {
                    (read(own, k) - factor * read(other, k)).write(own, k);
                }
            }
            if !self.has_ones {
                let divisor = self.at::<F>(row, row).divisor();
                let own = &mut x[row * width..][..width];
                for k in 0..m {
                    read(own, k).over(divisor).write(own, k);
                }
            }
        }
    }
}

impl<T: Large> Equations<'_, T> {
    /// Solves those of a large triangle in place, for right sides of m columns.
    pub(super) fn solve<F: Field>(&self, field: F, x: &mut [T], m: usize) {
        // The transpose of complex numbers is a copy.
        if self.transposed && F::WIDTH > 1 && m <= FEW {
            return self.substitute::<F>(x, m);
        }
        let mut memory = Vec::new();
        let triangular = Triangular {
            n: self.n,
            matrix: field.left(self.matrix, self.n, self.transposed, &mut memory),
            triangle: self.triangle,
            has_ones: self.has_ones,
        };
        triangular.solve_in(field, x, m, F::WIDTH * m);
    }
}

#[derive(Clone)]
struct Solve<F> {
    n: usize,
    m: usize,
    triangle: Triangle,
    field: F,
}

impl<F> Solve<F> {
    fn equations<'a, V>(&self, matrix: &'a [V]) -> Equations<'a, V> {
        Equations {
            matrix,
            n: self.n,
            triangle: self.triangle,
            has_ones: false,
            transposed: false,
        }
    }
}

impl<F: Field> Rule for Solve<F> {
    fn name(&self) -> &'static str {
        "triangular_solve"
    }
    fn ranks(&self) -> &[usize] {
        const { &[F::RANK, F::RANK] }
    }
    fn results(&self) -> Results {
        Results::new([self.field.shape(&[self.n, self.m])], [])
    }
    fn work(&self) -> usize {
        F::WIDTH * F::WIDTH * self.n * self.n * self.m + 1
    }
    fn is_tiny(&self) -> bool {
        self.n <= TINY && self.m <= TINY
    }

    #[inline(always)]
    fn compute<V: Numbers>(&self, x: &[&[V]], y: &mut [&mut [V]]) {
        y[0].copy_from_slice(x[1]);
        self.equations(x[0]).substitute::<F>(y[0], self.m);
    }

    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], _: &mut [&mut [i64]]) {
        y[0].copy_from_slice(x[1]);
        self.equations(x[0]).solve(self.field, y[0], self.m);
    }
}

/// Two rows of m elements.
#[inline(always)]
fn two_rows<T>(y: &mut [T], m: usize, own: usize, other: usize) -> (&mut [T], &[T]) {
    let middle = own.max(other) * m;
    let (first, second) = y.split_at_mut(middle);
    match own > other {
        true => (&mut second[..m], &first[other * m..][..m]),
        false => (&mut first[own * m..][..m], &second[..m]),
    }
}
