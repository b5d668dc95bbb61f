//! Systems of linear equations with triangular matrices.

use std::ops::{Div, Mul, Sub};

use crate::{Array, DType, Element, Error, cpu, raise, record_call};

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

/// Solves `a x = b` by substitution, for matrices `[.., n, n]` and right sides `[.., n, m]`, both f32 or f64.
/// It is computed on the CPU.
///
/// ```
/// use bibun_array::{Array, Triangle, triangular_solve};
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
    // A repeated value is on every device.
    let device = match a.device() == cpu() {
        true => b.device(),
        false => a.device(),
    };
    let spec = (b.shape().clone(), b.dtype());
    let solve = move |x: Vec<Array>| {
        let [a, b] = [0, 1].map(|i| x[i].to(cpu()));
        let y = match a.dtype() == DType::F32 {
            true => solved::<f32>(&a, &b, triangle),
            false => solved::<f64>(&a, &b, triangle),
        };
        vec![y.to(device)]
    };
    let mut results = record_call("triangular_solve", &[a.clone(), b.clone()], &[spec], solve);
    results.pop().expect("there is one result")
}

/// Solves each of the systems.
fn solved<T>(a: &Array, b: &Array, triangle: Triangle) -> Array
where
    T: Element + Sub<Output = T> + Mul<Output = T> + Div<Output = T>,
{
    let shape = b.shape();
    let (n, m) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
    if shape.size() == 0 {
        return b.clone();
    }
    let (a, mut y) = (a.to_vec::<T>(), b.to_vec::<T>());
    for (a, y) in a.chunks_exact(n * n).zip(y.chunks_exact_mut(n * m)) {
        for step in 0..n {
            let (row, known) = match triangle {
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
    Array::from_vec(y, shape)
}

/// Two rows of m elements.
fn two_rows<T>(y: &mut [T], m: usize, own: usize, other: usize) -> (&mut [T], &[T]) {
    let middle = own.max(other) * m;
    let (first, second) = y.split_at_mut(middle);
    match own > other {
        true => (&mut second[..m], &first[other * m..][..m]),
        false => (&mut first[own * m..][..m], &second[..m]),
    }
}
