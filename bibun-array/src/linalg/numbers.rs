//! Numbers of one matrix, or of several matrices side by side.

use std::array;
use std::ops::{Add, Div, DivAssign, Mul, Neg, Sub, SubAssign};

use crate::Element;

/// The number of matrices in a group: the vectors of AVX-512 hold so many f64.
pub(super) const GROUP: usize = 8;

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
    /// Whether `self < other` in some matrix.
    fn any_less(self, other: Self) -> bool;
    /// Returns the greatest power of two that is not greater, for numbers that are not negative.
    fn binade(self) -> Self;
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
pub(super) trait Real: Numbers + Element + PartialOrd + SubAssign + DivAssign {
    fn to_f64(self) -> f64;
    #[inline(always)]
    fn is_finite(self) -> bool {
        self.to_f64().is_finite()
    }
}

macro_rules! real {
    ($T:ident) => {
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
            fn any_less(self, other: Self) -> bool {
                self < other
            }
            #[inline(always)]
            fn binade(self) -> Self {
                $T::from_bits(self.to_bits() & $T::INFINITY.to_bits())
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
        }
    };
}
real!(f32);
real!(f64);

/// One number of each matrix of a group.
#[derive(Clone, Copy)]
pub(super) struct Group<T>(pub(super) [T; GROUP]);

macro_rules! lane_by_lane {
    ($($Trait:ident $method:ident),*) => {$(
        impl<T: Real> $Trait for Group<T> {
            type Output = Self;
            #[inline(always)]
            fn $method(self, other: Self) -> Self {
                Self(array::from_fn(|i| self.0[i].$method(other.0[i])))
            }
        }
    )*};
}
lane_by_lane!(Add add, Sub sub, Mul mul, Div div);

impl<T: Real> Neg for Group<T> {
    type Output = Self;
    #[inline(always)]
    fn neg(self) -> Self {
        Self(self.0.map(Neg::neg))
    }
}

impl<T: Real> Numbers for Group<T> {
    #[inline(always)]
    fn of(x: f64) -> Self {
        Self([T::of(x); GROUP])
    }
    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(self.0.map(Numbers::sqrt))
    }
    #[inline(always)]
    fn abs(self) -> Self {
        Self(self.0.map(Numbers::abs))
    }
    #[inline(always)]
    fn if_less(self, other: Self, a: Self, b: Self) -> Self {
        Self(array::from_fn(|i| {
            self.0[i].if_less(other.0[i], a.0[i], b.0[i])
        }))
    }
    #[inline(always)]
    fn any_less(self, other: Self) -> bool {
        let less = (0..GROUP).map(|i| self.0[i] < other.0[i]);
        less.fold(false, |any, less| any | less)
    }
    #[inline(always)]
    fn binade(self) -> Self {
        Self(self.0.map(Numbers::binade))
    }
    #[inline(always)]
    fn exchange_rows(rows: &mut [Self], n: usize, row: usize, other: Self) {
        for lane in 0..GROUP {
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
        for lane in 0..GROUP {
            let from = from.0[lane].to_f64() as usize;
            for j in 0..n {
                out[j].0[lane] = rows[from * n + j].0[lane];
            }
        }
    }
    #[inline(always)]
    fn scatter_row(row: &[Self], n: usize, to: Self, out: &mut [Self]) {
        for lane in 0..GROUP {
            let to = to.0[lane].to_f64() as usize;
            for j in 0..n {
                out[to * n + j].0[lane] = row[j].0[lane];
            }
        }
    }
    #[inline(always)]
    fn epsilon() -> Self {
        Self([T::epsilon(); GROUP])
    }
    #[inline(always)]
    fn least() -> Self {
        Self([T::least(); GROUP])
    }
}
