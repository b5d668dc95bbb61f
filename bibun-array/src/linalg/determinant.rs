//! Determinants and cofactors.

use super::batch::{Large, Results, Rule, TINY, run};
use super::blocked;
use super::entries::{Field, Pair, with_field};
use super::lu::eliminate;
use super::numbers::{Numbers, Real};
use super::svd::svd;
use super::{expect_square, expect_square_entries, results};
use crate::{Array, Index, matmul};

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
    let is_own = Array::eye(n, crate::DType::Bool).to(u.device());
    let others = is_own.where_(1.0, alone).cast(a.dtype()).prod(-1);
    let scaled = u * others.expand_dims(-2);
    let signs = (left * right).slice(&[Index::Ellipsis, Index::NewAxis, Index::NewAxis]);
    matmul(&scaled, &vt) * signs
}

/// A product of sizes, which neither overflows nor underflows on the way.
struct Product<V> {
    /// From 1 to 2; or 0 or infinite.
    mantissa: V,
    exponent: V,
}

impl<V: Numbers> Product<V> {
    #[inline(always)]
    fn of_nothing() -> Self {
        Self {
            mantissa: V::of(1.0),
            exponent: V::of(0.0),
        }
    }

    /// Multiplies by what is not negative.
    #[inline(always)]
    fn times(self, size: V) -> Self {
        // The exponent of a subnormal number is found after scaling.
        const SCALE: i32 = 64;
        let (zero, scale) = (V::of(0.0), V::of(f64::exp2(f64::from(SCALE))));
        let is_small = |a, b| size.if_less(V::least(), a, b);
        let own = is_small(size * scale, size);
        let [own, shift] = normalized(own);
        let shift = shift - is_small(V::of(f64::from(SCALE)), zero);
        let [mantissa, further] = normalized(self.mantissa * own);
        Self {
            mantissa,
            exponent: self.exponent + shift + further,
        }
    }

    #[inline(always)]
    fn value(&self) -> V {
        self.mantissa.scaled(self.exponent)
    }

    #[inline(always)]
    fn ln(self) -> V {
        self.mantissa.ln_scaled(self.exponent)
    }
}

/// Returns a number that is at least 1 and less than 2, and the exponent of the power of two before it. Zero and what
/// is not finite stay as they are.
#[inline(always)]
fn normalized<V: Numbers>(x: V) -> [V; 2] {
    let power = power_of(x);
    [x / power, power.exponent()]
}

/// Returns the greatest power of two that is not greater; 1 for zero and what is not finite.
#[inline(always)]
fn power_of<V: Numbers>(x: V) -> V {
    let (zero, one) = (V::of(0.0), V::of(1.0));
    let power = x.binade();
    let power = power.if_less(V::of(f64::INFINITY), power, one);
    zero.if_less(power, power, one)
}

/// Computes a determinant, its sign and its logarithm from pivots and the sign of their permutation.
#[inline(always)]
pub(super) fn of_reals<V: Numbers>(pivots: impl Iterator<Item = V>, sign: V, y: &mut [&mut [V]]) {
    let zero = V::of(0.0);
    let (mut sign, mut product) = (sign, Product::of_nothing());
    for pivot in pivots {
        // What is not a number stays so.
        let turned = pivot.if_less(zero, -sign, pivot.if_equal(zero, zero, sign));
        sign = turned + zero * pivot;
        product = product.times(pivot.abs());
    }
    (y[0][0], y[1][0], y[2][0]) = (sign * product.value(), sign, product.ln());
}

/// The same of complex numbers: the sign is of size 1, and the logarithm complex.
#[inline(always)]
pub(super) fn of_complexes<V: Numbers>(
    pivots: impl Iterator<Item = Pair<V>>,
    sign: V,
    y: &mut [&mut [V]],
) {
    let (zero, one) = (V::of(0.0), V::of(1.0));
    let mut det = Pair { re: sign, im: zero };
    let (mut direction, mut product, mut exponent) = (det, Product::of_nothing(), zero);
    // Parts of which the larger one is at least 1 and less than 2, and what they are to be multiplied by.
    let scaled = |x: Pair<V>| {
        let power = power_of(Numbers::max(x.re.abs(), x.im.abs()));
        let (re, im) = (x.re / power, x.im / power);
        (Pair { re, im }, power.exponent())
    };
    let turned = |x: Pair<V>, size: V| {
        let by = size.if_equal(zero, one, size);
        let (re, im) = (x.re / by, x.im / by);
        Pair { re, im }
    };
    for pivot in pivots {
        let (own, first) = scaled(pivot);
        let (next, second) = scaled(det * own);
        (det, exponent) = (next, exponent + first + second);
        let size = pivot.re.hypot(pivot.im);
        product = product.times(size);
        direction = direction * turned(pivot, size);
    }
    // Roundings of many products add up.
    let direction = turned(direction, direction.re.hypot(direction.im));
    (y[0][0], y[0][1]) = (det.re.scaled(exponent), det.im.scaled(exponent));
    (y[1][0], y[1][1]) = (direction.re, direction.im);
    (y[2][0], y[2][1]) = (product.ln(), direction.im.atan2(direction.re));
}

/// Returns the sign of a permutation.
fn sign_of<T: Real>(order: &mut [i64]) -> T {
    let mut sign = T::of(1.0);
    for i in 0..order.len() {
        while order[i] != i as i64 {
            let to = order[i] as usize;
            order.swap(i, to);
            sign = -sign;
        }
    }
    sign
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

    const IN_PLACE: Option<usize> = Some(3);
    #[inline(always)]
    fn compute<V: Numbers>(&self, _: &[&[V]], y: &mut [&mut [V]]) {
        let n = self.0;
        let (memory, y) = y.split_last_mut().expect("the memory");
        let (lu, rows) = memory.split_at_mut(F::WIDTH * n * n);
        let sign = eliminate::<F, V>(lu, n, n, rows);
        self.1.determinant(lu, n, sign, y);
    }

    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], _: &mut [&mut [i64]]) {
        let n = self.0;
        let (mut lu, mut rows) = (x[0].to_vec(), vec![0; n]);
        blocked::lu(self.1, &mut lu, n, n, &mut rows);
        self.1.determinant(&lu, n, sign_of(&mut rows), y);
    }
}
