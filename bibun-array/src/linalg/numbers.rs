//! Numbers of one matrix, or of several matrices side by side.

use std::f64::consts::LN_2;
use std::hint::black_box;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, Neg, Sub, SubAssign};

use crate::Element;

/// The number of rows up to which they are exchanged by choosing.
const CHOSEN: usize = 8;

/// A number, or one number of each matrix of a group, which the same operations go through: they become
/// vector instructions. So an algorithm for it does not branch on values, but chooses.
pub(super) trait Numbers:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    fn of(x: f64) -> Self;
    fn sqrt(self) -> Self;
    fn abs(self) -> Self;
    /// Returns `a` where `self < other`, and `b` elsewhere.
    fn if_less(self, other: Self, a: Self, b: Self) -> Self;
    /// Returns `a` where `self == other`, and `b` elsewhere.
    fn if_equal(self, other: Self, a: Self, b: Self) -> Self;
    /// Whether `self < other` in some matrix.
    fn any_less(self, other: Self) -> bool;
    /// Returns the greatest power of two that is not greater, for numbers that are not negative.
    fn binade(self) -> Self;
    /// Returns the logarithm of a power of two, to base 2.
    fn exponent(self) -> Self;
    /// Returns a number from 1 to 2, which may be negative, or 0, times this power of two.
    fn scaled(self, exponent: Self) -> Self;
    /// Returns the natural logarithm of a number times this power of two.
    fn ln_scaled(self, exponent: Self) -> Self;
    fn hypot(self, other: Self) -> Self;
    fn atan2(self, other: Self) -> Self;
    /// Exchanges a row of n elements with the row whose number is `other`, in each matrix its own.
    fn exchange_rows(rows: &mut [Self], n: usize, row: usize, other: Self);
    /// Copies the row of n elements whose number is `from`, in each matrix its own, to a row of `out`.
    fn gather_row(rows: &[Self], n: usize, from: Self, out: &mut [Self]);
    /// Copies a row of n elements to the row of `out` whose number is `to`.
    fn scatter_row(row: &[Self], n: usize, to: Self, out: &mut [Self]);
    /// The machine's epsilon.
    fn epsilon() -> Self;
    /// The smallest number whose products with numbers near 1 keep all their bits.
    fn least() -> Self;

    #[inline(always)]
    fn max(self, other: Self) -> Self {
        self.if_less(other, other, self)
    }
    /// Returns 1 or -1, which is the sign of zero, too.
    #[inline(always)]
    fn sign(self) -> Self {
        self.if_less(Self::of(0.0), Self::of(-1.0), Self::of(1.0))
    }
}

/// A number of the CPU's.
pub(super) trait Real:
    Numbers + Element + PartialOrd + AddAssign + SubAssign + DivAssign
{
    fn to_f64(self) -> f64;
    /// Exchanges two numbers, or not, without a branch and without a masked store, which some processors are slow at.
    fn exchange_if(condition: bool, a: &mut Self, b: &mut Self);
    #[inline(always)]
    fn is_finite(self) -> bool {
        self.to_f64().is_finite()
    }
}

macro_rules! real {
    ($T:ident, $exact:expr) => {
        impl Numbers for $T {
            #[inline(always)]
            fn of(x: f64) -> Self {
                x as $T
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                $T::sqrt(self)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                $T::abs(self)
            }
            #[inline(always)]
            fn if_less(self, other: Self, a: Self, b: Self) -> Self {
                if self < other { a } else { b }
            }
            #[inline(always)]
            fn if_equal(self, other: Self, a: Self, b: Self) -> Self {
                if self == other { a } else { b }
            }
            #[inline(always)]
            fn any_less(self, other: Self) -> bool {
                self < other
            }
            #[inline(always)]
            fn binade(self) -> Self {
                $T::from_bits(self.to_bits() & $T::INFINITY.to_bits())
            }
            #[inline(always)]
            fn exponent(self) -> Self {
                // A number whose last bits are the biased exponent: there are vector instructions for that.
                const EXACT: $T = $exact;
                let biased = (self.to_bits() >> ($T::MANTISSA_DIGITS - 1)) | EXACT.to_bits();
                $T::from_bits(biased) - (EXACT + ($T::MAX_EXP - 1) as $T)
            }
            #[inline(always)]
            fn scaled(self, exponent: Self) -> Self {
                // In two factors, of which each is a power of two that there is, and the second one rounds.
                let most = 2 * $T::MAX_EXP - 4;
                let exponent = (exponent as i32).clamp(-most, most);
                let power = |exponent: i32| {
                    let biased = exponent + $T::MAX_EXP - 1;
                    $T::from_bits(((biased as u64) << ($T::MANTISSA_DIGITS - 1)) as _)
                };
                self * power(exponent / 2) * power(exponent - exponent / 2)
            }
            #[inline(always)]
            fn ln_scaled(self, exponent: Self) -> Self {
                (f64::from(self).ln() + f64::from(exponent) * LN_2) as $T
            }
            #[inline(always)]
            fn hypot(self, other: Self) -> Self {
                $T::hypot(self, other)
            }
            #[inline(always)]
            fn atan2(self, other: Self) -> Self {
                $T::atan2(self, other)
            }
            #[inline(always)]
            fn exchange_rows(rows: &mut [Self], n: usize, row: usize, other: Self) {
                let other = other as usize;
                if other != row {
                    for j in 0..n {
                        rows.swap(row * n + j, other * n + j);
                    }
                }
            }
            #[inline(always)]
            fn gather_row(rows: &[Self], n: usize, from: Self, out: &mut [Self]) {
                out.copy_from_slice(&rows[from as usize * n..][..n]);
            }
            #[inline(always)]
            fn scatter_row(row: &[Self], n: usize, to: Self, out: &mut [Self]) {
                out[to as usize * n..][..n].copy_from_slice(row);
            }
            #[inline(always)]
            fn epsilon() -> Self {
                $T::EPSILON
            }
            #[inline(always)]
            fn least() -> Self {
                $T::MIN_POSITIVE / $T::EPSILON
            }
        }
        impl Real for $T {
            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn exchange_if(condition: bool, a: &mut Self, b: &mut Self) {
                let difference = if condition {
                    a.to_bits() ^ b.to_bits()
                } else {
                    0
                };
                *a = $T::from_bits(a.to_bits() ^ difference);
                *b = $T::from_bits(b.to_bits() ^ difference);
            }
        }
    };
}
// 2²³ and 2⁵², whose neighbours are 1 away.
real!(f32, 8_388_608.0);
real!(f64, 4_503_599_627_370_496.0);

/// One number of each of N matrices, as many as the widest vectors hold, in one line of the cache.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Group<T, const N: usize>(pub(super) [T; N]);

/// Makes the compiler use a vector instruction for the lanes of a group, and not for the same lane of many groups,
/// which are far apart: it leaves loops alone that have something unknown in them.
#[inline(always)]
fn keep_together() {
    black_box(());
}

/// A group of the values of an expression for each lane: a closure, which is shared by many operations, would not be
/// inlined in long functions.
macro_rules! lanes {
    ($i:ident => $value:expr) => {{
        let mut out = Self([T::of(0.0); N]);
        for $i in 0..N {
            out.0[$i] = $value;
        }
        out
    }};
}

macro_rules! lane_by_lane {
    ($($Trait:ident $method:ident),*) => {$(
        impl<T: Real, const N: usize> $Trait for Group<T, N> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                keep_together();
                lanes!(i => self.0[i].$method(other.0[i]))
            }
        }
    )*};
}
lane_by_lane!(Add add, Sub sub, Mul mul, Div div);

impl<T: Real, const N: usize> Neg for Group<T, N> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        keep_together();
        lanes!(i => -self.0[i])
    }
}

impl<T: Real, const N: usize> Group<T, N> {
    #[inline(always)]
    fn any_equal(self, other: Self) -> bool {
        let mut any = false;
        for i in 0..N {
            any |= self.0[i] == other.0[i];
        }
        any
    }
}

impl<T: Real, const N: usize> Numbers for Group<T, N> {
    #[inline(always)]
    fn of(x: f64) -> Self {
        Self([T::of(x); N])
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        keep_together();
        lanes!(i => self.0[i].sqrt())
    }
    #[inline(always)]
    fn abs(self) -> Self {
        keep_together();
        lanes!(i => self.0[i].abs())
    }
    #[inline(always)]
    fn if_less(self, other: Self, a: Self, b: Self) -> Self {
        keep_together();
        lanes!(i => self.0[i].if_less(other.0[i], a.0[i], b.0[i]))
    }
    #[inline(always)]
    fn if_equal(self, other: Self, a: Self, b: Self) -> Self {
        keep_together();
        lanes!(i => self.0[i].if_equal(other.0[i], a.0[i], b.0[i]))
    }
    #[inline(always)]
    fn any_less(self, other: Self) -> bool {
        let mut any = false;
        for i in 0..N {
            any |= self.0[i] < other.0[i];
        }
        any
    }
    #[inline(always)]
    fn binade(self) -> Self {
        lanes!(i => self.0[i].binade())
    }
    #[inline(always)]
    fn exponent(self) -> Self {
        lanes!(i => self.0[i].exponent())
    }
    #[inline(always)]
    fn scaled(self, exponent: Self) -> Self {
        lanes!(i => self.0[i].scaled(exponent.0[i]))
    }
    #[inline(always)]
    fn ln_scaled(self, exponent: Self) -> Self {
        lanes!(i => self.0[i].ln_scaled(exponent.0[i]))
    }
    #[inline(always)]
    fn hypot(self, other: Self) -> Self {
        lanes!(i => Numbers::hypot(self.0[i], other.0[i]))
    }
    #[inline(always)]
    fn atan2(self, other: Self) -> Self {
        lanes!(i => Numbers::atan2(self.0[i], other.0[i]))
    }
    #[inline(always)]
    fn exchange_rows(rows: &mut [Self], n: usize, row: usize, other: Self) {
        let count = rows.len() / n.max(1);
        // To choose between a few rows takes less time than to move elements of each matrix alone.
        if count - row <= CHOSEN {
            for i in row + 1..count {
                let number = Self::of(i as f64);
                if !other.any_equal(number) {
                    continue;
                }
                for j in 0..n {
                    keep_together();
                    let (mut a, mut b) = (rows[row * n + j], rows[i * n + j]);
                    for lane in 0..N {
                        let is_other = other.0[lane] == number.0[lane];
                        T::exchange_if(is_other, &mut a.0[lane], &mut b.0[lane]);
                    }
                    (rows[row * n + j], rows[i * n + j]) = (a, b);
                }
            }
            return;
        }
        for lane in 0..N {
            let other = other.0[lane].to_f64() as usize;
            if other != row {
                for j in 0..n {
                    let (a, b) = (rows[row * n + j].0[lane], rows[other * n + j].0[lane]);
                    rows[row * n + j].0[lane] = b;
                    rows[other * n + j].0[lane] = a;
                }
            }
        }
    }
    #[inline(always)]
    fn gather_row(rows: &[Self], n: usize, from: Self, out: &mut [Self]) {
        let count = rows.len() / n.max(1);
        if count <= CHOSEN {
            for j in 0..n {
                let number = |i: usize| Self::of(i as f64);
                out[j] = (1..count).fold(rows[j], |chosen, i| {
                    from.if_equal(number(i), rows[i * n + j], chosen)
                });
            }
            return;
        }
        for lane in 0..N {
            let from = from.0[lane].to_f64() as usize;
            for j in 0..n {
                out[j].0[lane] = rows[from * n + j].0[lane];
            }
        }
    }
    #[inline(always)]
    fn scatter_row(row: &[Self], n: usize, to: Self, out: &mut [Self]) {
        for lane in 0..N {
            let to = to.0[lane].to_f64() as usize;
            for j in 0..n {
                out[to * n + j].0[lane] = row[j].0[lane];
            }
        }
    }
    #[inline(always)]
    fn epsilon() -> Self {
        Self([T::epsilon(); N])
    }
    #[inline(always)]
    fn least() -> Self {
        Self([T::least(); N])
    }
}
