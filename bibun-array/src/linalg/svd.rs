//! Singular values and vectors.

use std::borrow::Cow;
use std::mem::take;

use super::batch::{Large, Results, Rule, TINY, run};
use super::bidiagonal::Bidiagonal;
use super::blocked::{divide_by_unit, multiply, transpose};
use super::divide::{Extent, Singular, divide_bidiagonal};
use super::eigh::{SWEEPS, ascending, normalize_sign, rotate, rotation};
use super::numbers::{Numbers, Real};
use super::reflections;
use super::{NOT_A_NUMBER, expect_matrices};
use crate::Array;
use crate::cpu::matmul::Matrix;

/// Computes `a = u diag(s) vt` of matrices `[.., m, n]`: the left singular vectors, columns of u; the singular
/// values in descending order, `[.., k]` with `k = min(m, n)`; the right singular vectors, rows of vt; and for
/// each matrix 0, or -1 if its elements are not finite, where the results are NaN. There are k vectors on
/// each side, or, if it is `full`, m and n. In each column of u, the first of the elements with the largest
/// absolute value is positive, and in those rows of vt that have no value.
///
/// Source: of small matrices, the one-sided method of Jacobi (M. Hestenes, 1958; G. Golub and C. Van Loan,
/// "Matrix Computations", 8.6); of others, reflections (5.4 there) and division (M. Gu and S. Eisenstat, 1995).
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

    /// Arranges vectors by their values: `long` and `short` have those of the longer and of the shorter side in
    /// rows, and only the first k are there.
    fn arrange<T: Real>(&self, values: &[T], long: &[T], short: &[T], y: &mut [&mut [T]]) {
        let (m, n, [most, k]) = (self.m, self.n, self.sides());
        let order: Vec<usize> = ascending(values).into_iter().rev().collect();
        let Some([of_u, of_v]) = self.vectors else {
            for (to, &from) in order.iter().enumerate() {
                y[0][to] = values[from];
            }
            return;
        };
        let [u, s, vt] = y else {
            unreachable!("three results")
        };
        let is_tall = m >= n;
        let count = if is_tall { of_u } else { of_v };
        let mut rows: Vec<T> = Vec::with_capacity(count * most);
        for (to, &from) in order.iter().enumerate() {
            s[to] = values[from];
            rows.extend_from_slice(&long[from * most..][..most]);
        }
        complete(&mut rows, most, k, count);
        let mut row_of =
            |i: usize, left: &mut dyn Iterator<Item = T>, right: &mut dyn Iterator<Item = T>| {
                let left: Vec<T> = left.collect();
                let right: Vec<T> = right.collect();
                let sign = |x: &[T]| normalize_sign(x.iter().copied());
                let turned = if left.is_empty() {
                    sign(&right)
                } else {
                    sign(&left)
                };
                let signed = |x: T| if turned { -x } else { x };
                for (j, &x) in left.iter().enumerate() {
                    u[j * of_u + i] = signed(x);
                }
                for (j, &x) in right.iter().enumerate() {
                    vt[i * n + j] = signed(x);
                }
            };
        for i in 0..of_u.max(of_v) {
            let mut long = rows
                .chunks_exact(most)
                .nth(i)
                .unwrap_or(&[])
                .iter()
                .copied();
            let short = order
                .get(i)
                .map_or(&[][..], |&from| &short[from * k..][..k]);
            let mut short = short.iter().copied();
            match is_tall {
                true => row_of(i, &mut long, &mut short),
                false => row_of(i, &mut short, &mut long),
            }
        }
    }

    /// Fills the results of a matrix that is not finite with NaN, and returns the number that says so.
    fn checked<T: Real>(&self, is_finite: bool, y: &mut [&mut [T]]) -> i64 {
        if is_finite {
            return 0;
        }
        y.iter_mut().for_each(|y| y.fill(T::of(f64::NAN)));
        NOT_A_NUMBER
    }
}

/// Makes rows of `size` elements orthonormal: those that are zero among the first k, and those up to `count`
/// that are not there yet.
fn complete<T: Real>(rows: &mut Vec<T>, size: usize, k: usize, count: usize) {
    rows.resize(count * size, T::of(0.0));
    let zero = T::of(0.0);
    let is_there = |rows: &[T], i: usize| rows[i * size..][..size].iter().any(|&x| x != zero);
    let missing: Vec<usize> = (0..count)
        .filter(|&i| i >= k || !is_there(rows, i))
        .collect();
    for i in missing {
        // Of all unit vectors, the one that is farthest from the span of the others.
        let outside = |axis: usize| -> f64 {
            let inside = (0..count).map(|r| rows[r * size + axis].to_f64().powi(2));
            1.0 - inside.sum::<f64>()
        };
        let axis = (0..size).max_by(|&a, &b| outside(a).total_cmp(&outside(b)));
        let mut own = vec![zero; size];
        own[axis.expect("there are rows only where there are elements")] = T::of(1.0);
        for _ in 0..2 {
            for other in rows.chunks_exact(size) {
                let product = (own.iter().zip(other)).fold(zero, |sum, (&a, &b)| sum + a * b);
                for (own, &other) in own.iter_mut().zip(other) {
                    *own -= product * other;
                }
            }
        }
        let norm = own.iter().fold(zero, |sum, &x| sum + x * x).sqrt();
        for (to, &x) in rows[i * size..].iter_mut().zip(&own) {
            *to = x / norm;
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
        60 * most * k * k + 1
    }
    fn is_tiny(&self) -> bool {
        self.sides()[0] <= TINY
    }
    fn memory(&self) -> usize {
        let [most, k] = self.sides();
        k * (most + 1) + k * k
    }

    #[inline(always)]
    fn compute<V: Numbers>(&self, x: &[&[V]], y: &mut [&mut [V]]) {
        let ([most, k], zero, one) = (self.sides(), V::of(0.0), V::of(1.0));
        let memory = y.last_mut().expect("the memory");
        let (values, rest) = memory.split_at_mut(k);
        let (long, short) = rest.split_at_mut(k * most);
        // The squares of numbers near 1 neither overflow nor underflow.
        let largest = x[0].iter().fold(zero, |largest, x| largest.max(x.abs()));
        let scale = zero.if_less(largest, largest.binade(), one);
        for i in 0..k {
            for j in 0..most {
                let at = if self.m >= self.n {
                    j * self.n + i
                } else {
                    i * self.n + j
                };
                long[i * most + j] = x[0][at] / scale;
            }
        }
        for (i, x) in short.iter_mut().enumerate() {
            *x = V::of(if i.is_multiple_of(k + 1) { 1.0 } else { 0.0 });
        }
        let product = |rows: &[V], p: usize, q: usize| {
            let (a, b) = (&rows[p * most..][..most], &rows[q * most..][..most]);
            a.iter().zip(b).fold(zero, |sum, (&a, &b)| sum + a * b)
        };
        for _ in 0..SWEEPS {
            let mut is_done = true;
            for q in 1..k {
                for p in 0..q {
                    let [a, b, ab] = [(p, p), (q, q), (p, q)].map(|(p, q)| product(long, p, q));
                    let least = V::of(most as f64) * V::epsilon() * (a.sqrt() * b.sqrt());
                    if !least.any_less(ab.abs()) {
                        continue;
                    }
                    is_done = false;
                    let [cosine, sine, _] = rotation(b - a, ab, least);
                    rotate(long, most, p, q, cosine, sine);
                    rotate(short, k, p, q, cosine, sine);
                }
            }
            if is_done {
                break;
            }
        }
        for i in 0..k {
            let square = product(long, i, i);
            values[i] = square.sqrt() * scale;
            // The direction of what has underflowed is lost. (What is not a number goes through.)
            let is_lost = |a, b| square.if_less(V::least(), a, b);
            for x in &mut long[i * most..][..most] {
                *x = is_lost(zero, *x) / is_lost(one, square.sqrt());
            }
        }
    }

    const FINISHES: bool = true;
    fn finish<T: Real>(&self, y: &mut [&mut [T]]) {
        let [most, k] = self.sides();
        let (memory, y) = y.split_last_mut().expect("the memory");
        let (info, y) = y.split_last_mut().expect("the number");
        let (values, rest) = memory.split_at(k);
        let (long, short) = rest.split_at(k * most);
        let is_finite = long.iter().chain(values).all(|x| x.is_finite());
        if is_finite {
            self.arrange(values, long, short, y);
        }
        info[0] = T::of(self.checked(is_finite, y) as f64);
    }

    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], integers: &mut [&mut [i64]]) {
        let is_finite = self.of_square(x[0], y).is_some();
        integers[0][0] = self.checked(is_finite, y);
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
