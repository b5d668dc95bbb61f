//! Singular values and vectors.

use std::borrow::Cow;
use std::mem::take;

use super::batch::{Large, Results, Rule, TINY, run};
use super::bidiagonal::Bidiagonal;
use super::blocked::{divide_by_unit, multiply};
use super::divide::{Extent, Singular, divide_bidiagonal};
use super::eigh::normalize_sign;
use super::numbers::{Numbers, Real};
use super::tiles::transpose;
use super::{checked, expect_matrices, reflections, small};
use crate::Array;
use crate::cpu::matmul::Matrix;

/// Computes `a = u diag(s) vt` of matrices `[.., m, n]`: the left singular vectors, columns of u; the singular
/// values in descending order, `[.., k]` with `k = min(m, n)`; the right singular vectors, rows of vt; and for
/// each matrix 0, or -1 if its elements are not finite, where the results are NaN. There are k vectors on
/// each side, or, if it is `full`, m and n. In each column of u, the first of the elements with the largest
/// absolute value is positive, and in those rows of vt that have no value.
///
/// Source: reflections, then of small matrices implicit QR sweeps (G. Golub and C. Van Loan, "Matrix Computations", 5.4
/// and 8.6), of others division (M. Gu and S. Eisenstat, 1995).
///
/// ```
/// use bibun_array::{Array, linalg::svd};
/// let [u, s, vt, _] = svd(&Array::from([[0.0, 2.0], [1.0, 0.0]]), false);
/// assert_eq!(s.to_vec::<f64>(), [2.0, 1.0]);
/// assert_eq!(u.to_vec::<f64>(), [1.0, 0.0, 0.0, 1.0]);
/// assert_eq!(vt.to_vec::<f64>(), [0.0, 1.0, 1.0, 0.0]);
/// ```
///
/// # Panics
/// Panics if there are no two axes, or the dtype is neither f32 nor f64.
#[track_caller]
pub fn svd(a: &Array, full: bool) -> [Array; 4] {
    let [m, n] = expect_matrices("svd", a);
    let vectors = Some(match full {
        true => [m, n],
        false => [m.min(n); 2],
    });
    super::results(run(Svd { m, n, vectors }, &[a]))
}

/// Computes only the singular values and the numbers of [`svd`].
///
/// # Panics
/// Panics as [`svd`] does.
#[track_caller]
pub fn svdvals(a: &Array) -> [Array; 2] {
    let [m, n] = expect_matrices("svdvals", a);
    let vectors = None;
    super::results(run(Svd { m, n, vectors }, &[a]))
}

#[derive(Clone)]
struct Svd {
    m: usize,
    n: usize,
    /// The numbers of left and right vectors.
    vectors: Option<[usize; 2]>,
}

impl Svd {
    /// The longer and the shorter side.
    fn sides(&self) -> [usize; 2] {
        [self.m.max(self.n), self.m.min(self.n)]
    }

    /// The number of vectors of the longer side, or of its reflections.
    fn long(&self) -> usize {
        let [most, k] = self.sides();
        match self.vectors {
            Some([u, v]) if u.max(v) > k => most,
            _ => k,
        }
    }
}

impl Rule for Svd {
    fn name(&self) -> &'static str {
        match self.vectors {
            Some(_) => "svd",
            None => "svdvals",
        }
    }
    fn ranks(&self) -> &[usize] {
        &[2]
    }
    fn results(&self) -> Results {
        let values = vec![self.m.min(self.n)];
        match self.vectors {
            Some([u, v]) => Results::new([vec![self.m, u], values, vec![v, self.n]], [vec![]]),
            None => Results::new([values], [vec![]]),
        }
    }
    fn work(&self) -> usize {
        let [most, k] = self.sides();
        20 * most * k * k + 1
    }
    fn is_tiny(&self) -> bool {
        self.sides()[0] <= TINY
    }
    fn memory(&self) -> usize {
        let [most, k] = self.sides();
        self.long() * most + k * (k + 5)
    }

    #[inline(always)]
    fn compute<V: Numbers>(&self, x: &[&[V]], y: &mut [&mut [V]]) {
        let (Self { m, n, vectors }, [most, k], zero) = (self.clone(), self.sides(), V::of(0.0));
        let [y @ .., info, memory] = y else {
            unreachable!("results, a number and memory")
        };
        let (long, rest) = memory.split_at_mut(self.long() * most);
        let (short, rest) = rest.split_at_mut(k * k);
        let mut parts = rest.chunks_exact_mut(k.max(1));
        let mut part = || parts.next().unwrap_or_default();
        let memory = small::Bidiagonal {
            beside: part(),
            factors: [part(), part()],
            others: [part(), part()],
        };
        for i in 0..k {
            for j in 0..most {
                let at = if m >= n { j * n + i } else { i * n + j };
                long[i * most + j] = x[0][at];
            }
        }
        let values = &mut *y[if vectors.is_some() { 1 } else { 0 }];
        small::singular(long, most, short, values, vectors.is_some(), memory);
        if let (Some([of_u, of_v]), [u, _, vt]) = (vectors, &mut *y) {
            let (left, right) = if m >= n { (long, short) } else { (short, long) };
            for i in 0..of_u.max(of_v) {
                let left = if i < of_u { &left[i * m..][..m] } else { &[] };
                let right = if i < of_v { &right[i * n..][..n] } else { &[] };
                let sign = small::sign(if i < of_u { left } else { right });
                for (j, &x) in left.iter().enumerate() {
                    u[j * of_u + i] = sign * x + zero;
                }
                for (vt, &x) in vt.iter_mut().skip(i * n).zip(right) {
                    *vt = sign * x + zero;
                }
            }
        }
        info[0] = small::checked(x[0], y);
    }

    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], integers: &mut [&mut [i64]]) {
        let is_finite = self.of_square(x[0], y).is_some();
        integers[0][0] = checked(is_finite, y);
    }
}

impl Svd {
    /// Computes what there is of a large matrix, by one that is square. There is nothing if its elements are not finite,
    /// or if its values cannot be found.
    fn of_square<T: Large>(&self, a: &[T], y: &mut [&mut [T]]) -> Option<()> {
        let (m, n, [most, k], zero) = (self.m, self.n, self.sides(), T::of(0.0));
        let is_tall = m >= n;
        let counts = match (self.vectors, is_tall) {
            (None, _) => None,
            (Some([u, v]), true) => Some([u, v]),
            (Some([u, v]), false) => Some([v, u]),
        };
        if k == 0 {
            // All there is are the vectors of the longer side that have no value.
            if let Some([most, _]) = counts {
                let long = &mut *y[if is_tall { 0 } else { 2 }];
                long.iter_mut()
                    .step_by(most + 1)
                    .for_each(|x| *x = T::of(1.0));
            }
            return Some(());
        }
        // The longer side has the columns.
        let mut tall = match is_tall {
            true => Cow::Borrowed(a),
            false => {
                let mut turned = vec![zero; m * n];
                transpose((a, n), [m, n], (&mut turned, m));
                Cow::Owned(turned)
            }
        };
        let width = counts.map_or(k, |[long, _]| long);
        let (mut q, mut unit) = (Vec::new(), T::of(1.0));
        let square = match most > k {
            true => {
                // Sums of large elements must not be infinite.
                unit = divide_by_unit(tall.to_mut())?;
                q = vec![zero; most * width];
                let mut r = vec![zero; width * k];
                reflections::qr(&tall, [most, k], width, &mut q, &mut r);
                Cow::Owned(r)
            }
            false => tall,
        };
        let mut form = Bidiagonal::of(&square[..k * k], k)?;
        let extent = match counts {
            Some(_) => Extent::All,
            None => Extent::Ends,
        };
        let mut values = take(&mut form.diagonal);
        let Singular {
            order,
            step,
            mut left,
            mut right,
        } = divide_bidiagonal(&mut values, &form.beside, extent);
        if !values.iter().all(|&x| Real::is_finite(x)) {
            return None;
        }
        let s = &mut *y[if counts.is_some() { 1 } else { 0 }];
        for (s, &from) in s.iter_mut().zip(order.iter().rev()) {
            *s = values[from] * form.unit * unit;
        }
        let Some([of_long, of_short]) = counts else {
            return Some(());
        };
        // The bidiagonal matrix is the transpose of the one that was divided.
        form.turn_left(&mut right, step);
        form.turn_right(&mut left, step);
        let [mut long, mut short] = [&right, &left].map(|rows| -> Vec<T> {
            let rows = order.iter().rev().map(|&i| &rows[i * step..][..k]);
            rows.flatten().copied().collect()
        });
        if most > k {
            let mut all = vec![zero; of_long * most];
            let own = Matrix::of_rows(&long, k);
            let columns = Matrix::of_rows(&q, width);
            multiply(&mut all, most, [k, most, k], own, columns.transposed());
            if width > k {
                let rest = (&q[k..], width);
                transpose(rest, [most, width - k], (&mut all[k * most..], most));
            }
            long = all;
        }
        let [u, _, vt] = y else {
            unreachable!("three results")
        };
        let (mut left, mut right) = ((&mut long, most), (&mut short, k));
        if !is_tall {
            (left, right) = (right, left);
        }
        let [of_u, of_v] = if is_tall {
            [of_long, of_short]
        } else {
            [of_short, of_long]
        };
        for i in 0..of_u.max(of_v) {
            let mut rows = [(&mut left, of_u), (&mut right, of_v)].map(|((rows, size), count)| {
                let size = if i < count { *size } else { 0 };
                &mut rows[i * size..][..size]
            });
            let first = if i < of_u { &rows[0] } else { &rows[1] };
            if normalize_sign(first.iter().copied()) {
                let both = rows.iter_mut().flat_map(|row| row.iter_mut());
                both.for_each(|x| *x = -*x);
            }
        }
        transpose((left.0, m), [of_u, m], (u, of_u));
        vt.copy_from_slice(right.0);
        Some(())
    }
}
