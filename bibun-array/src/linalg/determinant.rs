//! Determinants and cofactors.

use super::batch::{Large, Results, Rule, TINY, run};
use super::entries::{Field, Pair, with_field};
use super::lu::eliminate;
use super::numbers::{Numbers, Real};
use super::svd::svd;
use super::{expect_square, expect_square_entries, results};
use crate::{Array, Index, cpu, matmul};

/// Computes the determinants of matrices `[.., n, n]`, their signs and the logarithms of their absolute values, each
/// `[..]`. Of complex numbers, the signs are of size 1, and the logarithms those of the determinants, whose
/// imaginary parts are from -π to π.
///
/// ```
/// use bibun_array::{Array, linalg::determinants};
/// let [det, sign, log] = determinants(&Array::from([[0.0, 1.0], [1.0, 0.0]]));
/// assert_eq!([det, sign, log].map(|y| y.item::<f64>()), [-1.0, -1.0, 0.0]);
/// ```
///
/// # Panics
/// Panics if the matrices are not square, or neither of f32, f64 nor complex numbers.
#[track_caller]
pub fn determinants(a: &Array) -> [Array; 3] {
    let n = expect_square_entries("det", a);
    with_field!(a, field => {
        let all: [Array; 3] = results(run(Determinants(n, field), &[&field.numbers(a)]));
        all.map(|y| field.entries(y))
    })
}

/// Computes the cofactors of matrices `[.., n, n]`, the derivatives of their determinants, by singular values: they are
/// right for singular matrices, too.
///
/// ```
/// use bibun_array::{Array, linalg::cofactors};
/// let y = cofactors(&Array::from([[1.0, 0.0], [0.0, 0.0]]));
/// assert_eq!(y.to_vec::<f64>(), [0.0, 0.0, 0.0, 1.0]);
/// ```
///
/// # Panics
/// Panics if the matrices are not square, or neither f32 nor f64.
#[track_caller]
pub fn cofactors(a: &Array) -> Array {
    let n = expect_square("cofactors", a);
    let [u, s, vt, _] = svd(a, false);
    let [[_, left, _], [_, right, _]] = [&u, &vt].map(determinants);
    let alone = s.expand_dims(-2).broadcast_to(a.shape());
    let is_own = Array::eye(n, crate::DType::Bool);
    let is_own = match a.device() == cpu() {
        true => is_own,
        false => is_own.to(a.device()),
    };
    let others = is_own.where_(1.0, alone).cast(a.dtype()).prod(-1);
    let scaled = u * others.expand_dims(-2);
    let signs = (left * right).slice(&[Index::Ellipsis, Index::NewAxis, Index::NewAxis]);
    matmul(&scaled, &vt) * signs
}

/// Computes a determinant, its sign and its logarithm from pivots.
pub(super) fn of_reals<T: Real>(
    pivots: impl Iterator<Item = T>,
    is_turned: bool,
    y: &mut [&mut [T]],
) {
    let (zero, one) = (T::of(0.0), T::of(1.0));
    let (mut det, mut sign, mut log) = (if is_turned { -one } else { one }, is_turned, 0.0);
    let (mut is_zero, mut product) = (false, 1.0);
    for pivot in pivots {
        det = det * pivot;
        sign ^= pivot < zero;
        is_zero |= pivot == zero;
        // One logarithm of as many pivots as their product keeps its bits for.
        let next = product * pivot.to_f64().abs();
        if (1e-280..1e280).contains(&next) {
            product = next;
        } else {
            log += f64::ln(product);
            product = pivot.to_f64().abs();
        }
    }
    log += product.ln();
    y[0][0] = det;
    y[1][0] = match is_zero {
        true => zero,
        false if log.is_nan() => T::of(f64::NAN),
        false if sign => -one,
        false => one,
    };
    y[2][0] = T::of(log);
}
/// The same of complex numbers: the sign is of size 1, and the logarithm complex.
pub(super) fn of_complexes<T: Real>(
    pivots: impl Iterator<Item = Pair<T>>,
    is_turned: bool,
    y: &mut [&mut [T]],
) {
    let first = if is_turned { -1.0 } else { 1.0 };
    let (re, im) = (T::of(first), T::of(0.0));
    let mut det = Pair { re, im };
    let (mut direction, mut log) = (Pair { re: first, im: 0.0 }, 0.0);
    for pivot in pivots {
        det = det * pivot;
        let (re, im) = (pivot.re.to_f64(), pivot.im.to_f64());
        let size = re.hypot(im);
        log += size.ln();
        let by = if size == 0.0 { 1.0 } else { size };
        direction = direction
            * Pair {
                re: re / by,
                im: im / by,
            };
    }
    // Roundings of many products add up.
    let size = direction.re.hypot(direction.im);
    let by = if size == 0.0 { 1.0 } else { size };
    (y[0][0], y[0][1]) = (det.re, det.im);
    (y[1][0], y[1][1]) = (T::of(direction.re / by), T::of(direction.im / by));
    (y[2][0], y[2][1]) = (T::of(log), T::of(direction.im.atan2(direction.re)));
}

/// Whether a permutation is one of an odd number of exchanges.
fn is_odd(order: &mut [i64]) -> bool {
    let mut odd = false;
    for i in 0..order.len() {
        while order[i] != i as i64 {
            let to = order[i] as usize;
            order.swap(i, to);
            odd = !odd;
        }
    }
    odd
}

#[derive(Clone)]
struct Determinants<F>(usize, F);

impl<F: Field> Rule for Determinants<F> {
    fn name(&self) -> &'static str {
        "det"
    }
    fn ranks(&self) -> &[usize] {
        const { &[F::RANK] }
    }
    fn results(&self) -> Results {
        Results::new([(); 3].map(|()| self.1.shape(&[])), [])
    }
    fn work(&self) -> usize {
        F::WIDTH * F::WIDTH * self.0.pow(3) + 20 * self.0 + 1
    }
    fn is_tiny(&self) -> bool {
        self.0 <= TINY
    }
    fn memory(&self) -> usize {
        self.0 * (F::WIDTH * self.0 + 1)
    }

    #[inline(always)]
    fn compute<V: Numbers>(&self, x: &[&[V]], y: &mut [&mut [V]]) {
        let n = self.0;
        let (lu, rows) = y[3].split_at_mut(F::WIDTH * n * n);
        lu.copy_from_slice(x[0]);
        eliminate::<F, V>(lu, n, n, rows);
    }

    fn finish<T: Real>(&self, y: &mut [&mut [T]], _: &mut [&mut [i64]]) {
        let n = self.0;
        let (memory, y) = y.split_last_mut().expect("the memory");
        let mut rows = [0; TINY];
        for (row, x) in rows.iter_mut().zip(&memory[F::WIDTH * n * n..]) {
            *row = x.to_f64() as i64;
        }
        self.1.determinant(memory, n, is_odd(&mut rows[..n]), y);
    }

    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], _: &mut [&mut [i64]]) {
        let n = self.0;
        let (mut lu, mut rows) = (x[0].to_vec(), vec![0; n]);
        self.1.factor(&mut lu, n, n, &mut rows);
        self.1.determinant(&lu, n, is_odd(&mut rows), y);
    }
}
