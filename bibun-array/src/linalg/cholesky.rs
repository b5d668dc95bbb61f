//! Cholesky factors.

use super::batch::{Large, Results, Rule, TINY, run};
use super::blocked;
use super::expect_square;
use super::numbers::Numbers;
use super::small::dot;
use super::tiles;
use super::triangular::Triangle;
use crate::Array;
use crate::storage::Buffer;

/// Computes the lower Cholesky factor L of matrices `[.., n, n]`, `a = L Lᵀ`, and for each the number that
/// says whether there is one: 0; or k if the leading k rows and columns are not positive definite, where L is
/// NaN. Only the symmetric part `(a + aᵀ) / 2` counts.
///
/// Source: LAPACK's `potrf`.
///
/// ```
/// use bibun_array::{Array, linalg::cholesky};
/// let [l, info] = cholesky(&Array::from([[4.0, 2.0], [2.0, 5.0]]));
/// assert_eq!(l.to_vec::<f64>(), [2.0, 0.0, 1.0, 2.0]);
/// assert_eq!(info.item::<i64>(), 0);
/// ```
///
/// # Panics
/// Panics if the matrices are not square, or neither f32 nor f64.
#[track_caller]
pub fn cholesky(a: &Array) -> [Array; 2] {
    let n = expect_square("cholesky", a);
    super::results(run(Cholesky(n), &[a]))
}

#[derive(Clone)]
struct Cholesky(usize);

/// Writes the lower triangle of the symmetric part.
#[inline(always)]
pub(super) fn symmetric_part<V: Numbers>(a: &[V], n: usize, out: &mut [V]) {
    let half = V::of(0.5);
    for i in 0..n {
        for j in 0..i {
            out[i * n + j] = half * a[i * n + j] + half * a[j * n + i];
        }
        out[i * n + i] = a[i * n + i];
    }
}

impl Cholesky {
    /// Fills what has no factor with NaN, and returns where it ends, from 1, or 0.
    #[inline(always)]
    fn checked<V: Numbers>(&self, l: &mut [V]) -> V {
        let (n, zero, infinity) = (self.0, V::of(0.0), V::of(f64::INFINITY));
        let mut wrong = zero;
        for i in (0..n).rev() {
            let (pivot, number) = (l[i * n + i], V::of((i + 1) as f64));
            let of_finite = pivot.if_less(infinity, wrong, number);
            wrong = zero.if_less(pivot, of_finite, number);
        }
        if zero.any_less(wrong) {
            for x in l.iter_mut() {
                *x = zero.if_less(wrong, V::of(f64::NAN), *x);
            }
        }
        wrong
    }
}

impl Rule for Cholesky {
    fn name(&self) -> &'static str {
        "cholesky"
    }
    fn ranks(&self) -> &[usize] {
        &[2]
    }
    fn results(&self) -> Results {
        Results::new([vec![self.0; 2]], [vec![]])
    }
    fn work(&self) -> usize {
        self.0.pow(3) / 3 + self.0
    }
    fn is_tiny(&self) -> bool {
        self.0 <= TINY
    }
    fn memory(&self) -> usize {
        self.0
    }

    #[inline(always)]
    fn compute<V: Numbers>(&self, x: &[&[V]], y: &mut [&mut [V]]) {
        let [l, info, inverses] = y else {
            unreachable!("a result, a number and memory")
        };
        let n = self.0;
        symmetric_part(x[0], n, l);
        for i in 0..n {
            let (before, own) = l.split_at_mut(i * n);
            for j in 0..i {
                let row = &before[j * n..][..j];
                own[j] = (own[j] - dot(&own[..j], row)) * inverses[j];
            }
            own[i] = (own[i] - dot(&own[..i], &own[..i])).sqrt();
            if i + 1 < n {
                inverses[i] = V::of(1.0) / own[i];
            }
        }
        info[0] = self.checked(l);
    }

    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], integers: &mut [&mut [i64]]) {
        let (n, l) = (self.0, &mut *y[0]);
        let step = tiles::row_step(n);
        let mut upper = Buffer::new::<T>(n * step);
        let upper = upper.as_mut_slice::<T>();
        tiles::symmetric_part(x[0], n, Triangle::Upper, (&mut *upper, step));
        match blocked::cholesky(upper, n, step) {
            Ok(()) => {
                tiles::turn_triangle((upper, step), n, l);
                integers[0][0] = self.checked(l).to_f64() as i64;
            }
            Err(k) => {
                integers[0][0] = k as i64 + 1;
                l.fill(T::of(f64::NAN));
            }
        }
    }
}
