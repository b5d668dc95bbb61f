//! The exponential of matrices.

use super::batch::{Large, Results, Rule, TINY, run};
use super::blocked;
use super::entries::{Entry, Field, with_field};
use super::expect_square_entries;
use super::lu::{eliminate, substitute};
use super::numbers::Numbers;
use crate::Array;

/// Computes the exponential `Σ aᵏ / k!` of matrices `[.., n, n]`. Elements that are not finite make the whole
/// result NaN.
///
/// Source: N. Higham, "The scaling and squaring method for the matrix exponential revisited", 2005, with its
/// Padé approximant of degree 13.
///
/// ```
/// use bibun_array::{Array, linalg::expm};
/// let y = expm(&Array::from([[0.0, 1.0], [0.0, 0.0]]));
/// assert_eq!(y.to_vec::<f64>(), [1.0, 1.0, 0.0, 1.0]);
/// ```
///
/// # Panics
/// Panics if the matrices are not square, or neither of f32, f64 nor complex numbers.
#[track_caller]
pub fn expm(a: &Array) -> Array {
    let n = expect_square_entries("expm", a);
    with_field!(a, field => {
        let [y] = super::results(run(Exponential(n, field), &[&field.numbers(a)]));
        field.entries(y)
    })
}

#[derive(Clone)]
struct Exponential<F>(usize, F);

/// The coefficients of the numerator; those of the denominator have alternating signs.
const COEFFICIENTS: [f64; 14] = [
    64_764_752_532_480_000.0,
    32_382_376_266_240_000.0,
    7_771_770_303_897_600.0,
    1_187_353_796_428_800.0,
    129_060_195_264_000.0,
    10_559_470_521_600.0,
    670_442_572_800.0,
    33_522_128_640.0,
    1_323_241_920.0,
    40_840_800.0,
    960_960.0,
    16_380.0,
    182.0,
    1.0,
];
/// The norm up to which the approximant is exact to the last bit of f64.
const NORM: f64 = 5.371_920_351_148_152;

/// Half of the numbers of f64: no finite matrix needs more squarings.
const SQUARINGS: usize = 1100;

#[inline(always)]
fn multiply<F: Field, V: Numbers>(a: &[V], b: &[V], out: &mut [V], n: usize) {
    out.fill(V::of(0.0));
    let (read, width) = (F::Entry::<V>::read, F::WIDTH * n);
    for (row, out) in a.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
        for (k, b) in b.chunks_exact(width).enumerate() {
            let a = read(row, k);
            for j in 0..n {
                (read(out, j) + a * read(b, j)).write(out, j);
            }
        }
    }
}

/// Computes `y = eˣ` with these products of matrices, and these solutions of equations (in place, of a matrix
/// that is lost). `memory` is that of six matrices.
#[inline(always)]
fn exponential<F: Field, V: Numbers>(
    x: &[V],
    n: usize,
    y: &mut [V],
    memory: &mut [V],
    multiply: impl Fn(&[V], &[V], &mut [V], usize),
    solve: impl FnOnce(&mut [V], &[V], &mut [V]),
) {
    let (zero, one, size) = (V::of(0.0), V::of(1.0), F::WIDTH * n * n);
    let mut norm = zero;
    for j in 0..n {
        let column = (0..n).fold(zero, |sum, i| {
            sum + F::Entry::<V>::read(x, i * n + j).size()
        });
        norm = norm.max(column);
    }
    // `0 x` is NaN if x is not finite, and so is the result.
    let fault = x.iter().fold(zero, |sum, &x| sum + zero * x);
    let mut scale = one;
    let mut doublings = 0;
    while V::of(NORM).any_less(norm * scale) && doublings < SQUARINGS {
        scale = V::of(NORM).if_less(norm * scale, V::of(0.5) * scale, scale);
        doublings += 1;
    }
    let (a, rest) = memory.split_at_mut(size);
    let (a2, rest) = rest.split_at_mut(size);
    let (a4, rest) = rest.split_at_mut(size);
    let (a6, rest) = rest.split_at_mut(size);
    let (odd, even) = rest.split_at_mut(size);
    for (a, &x) in a.iter_mut().zip(x) {
        *a = x * scale;
    }
    multiply(a, a, a2, n);
    multiply(a2, a2, a4, n);
    multiply(a4, a2, a6, n);
    let c = COEFFICIENTS.map(V::of);
    let diagonal = F::WIDTH * (n + 1);
    let identity = |at: usize| {
        if at.is_multiple_of(diagonal) {
            one
        } else {
            zero
        }
    };
    let sum = |at: usize, first: usize, a2: &[V], a4: &[V], a6: &[V]| {
        c[first] * identity(at)
            + c[first + 2] * a2[at]
            + c[first + 4] * a4[at]
            + c[first + 6] * a6[at]
    };
    for at in 0..size {
        y[at] = c[9] * a2[at] + c[11] * a4[at] + c[13] * a6[at];
    }
    multiply(a6, y, even, n);
    for (at, even) in even.iter_mut().enumerate() {
        *even = *even + sum(at, 1, a2, a4, a6);
    }
    multiply(a, even, odd, n);
    for at in 0..size {
        y[at] = c[8] * a2[at] + c[10] * a4[at] + c[12] * a6[at];
    }
    multiply(a6, y, even, n);
    for (at, even) in even.iter_mut().enumerate() {
        *even = *even + sum(at, 0, a2, a4, a6);
    }
    for at in 0..size {
        a[at] = even[at] - odd[at];
        even[at] = even[at] + odd[at];
    }
    solve(a, even, y);
    let mut left = scale;
    for _ in 0..doublings {
        multiply(y, y, a2, n);
        for (y, &square) in y.iter_mut().zip(&*a2) {
            *y = left.if_less(one, square, *y);
        }
        left = left.if_less(one, left + left, left);
    }
    for y in y.iter_mut() {
        *y = *y + fault;
    }
}

impl<F: Field> Rule for Exponential<F> {
    fn name(&self) -> &'static str {
        "expm"
    }
    fn ranks(&self) -> &[usize] {
        const { &[F::RANK] }
    }
    fn results(&self) -> Results {
        Results::new([self.1.shape(&[self.0; 2])], [])
    }
    fn work(&self) -> usize {
        12 * F::WIDTH * F::WIDTH * self.0.pow(3) + 1
    }
    fn is_tiny(&self) -> bool {
        self.0 <= TINY
    }
    fn memory(&self) -> usize {
        6 * F::WIDTH * self.0 * self.0 + self.0
    }

    #[inline(always)]
    fn compute<V: Numbers>(&self, x: &[&[V]], y: &mut [&mut [V]]) {
        let n = self.0;
        let [y, memory] = y else {
            unreachable!("a result and memory")
        };
        if n == 0 {
            return;
        }
        let (memory, rows) = memory.split_at_mut(6 * F::WIDTH * n * n);
        let solve = |a: &mut [V], b: &[V], y: &mut [V]| {
            let width = F::WIDTH * n;
            eliminate::<F, V>(a, n, n, rows);
            for i in 0..n {
                V::gather_row(b, width, rows[i], &mut y[i * width..][..width]);
            }
            substitute::<F, V>(a, n, y, n);
        };
        exponential::<F, V>(x[0], n, y, memory, multiply::<F, V>, solve);
    }

    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], _: &mut [&mut [i64]]) {
        let Self(n, field) = *self;
        let width = F::WIDTH * n;
        let mut memory = vec![T::of(0.0); 6 * n * width];
        let solve = |a: &mut [T], b: &[T], y: &mut [T]| {
            let mut rows = vec![0; n];
            blocked::lu(field, a, n, n, &mut rows);
            for (y, &row) in y.chunks_exact_mut(width).zip(&rows) {
                y.copy_from_slice(&b[row as usize * width..][..width]);
            }
            super::lu::solve_large(field, a, n, y, n);
        };
        let multiply =
            |a: &[T], b: &[T], y: &mut [T], n: usize| blocked::multiply_squares(field, a, b, y, n);
        exponential::<F, T>(x[0], n, y[0], &mut memory, multiply, solve);
    }
}
