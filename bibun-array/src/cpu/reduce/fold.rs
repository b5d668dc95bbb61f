//! Folds: how elements become parts, and parts a result.

use std::marker::PhantomData;

use pulp::Simd;

use super::LANES;
use super::lanes::{Added, Largest, Smallest, add_vectors, halved, halved_in_vectors};
use crate::Element;

/// A fold of elements into one value.
pub(in crate::cpu) trait Fold: Send + Sync {
    type Input: Element;
    /// The type of a lane.
    type Part: Copy + Send + Sync;
    /// The type in which parts are collected.
    type Total: Copy + Send + Sync;
    type Output: Element;
    /// The number of elements that a part takes before it is collected, if it does not take all.
    const RUN: Option<usize> = None;
    /// Whether it is so rare that it needs no version for the widest vectors.
    const SELDOM: bool = false;
    const START: Self::Part;
    const EMPTY: Self::Total;
    /// The element that changes no part.
    const NEUTRAL: Self::Input;
    fn add(part: Self::Part, x: Self::Input) -> Self::Part;
    fn join(a: Self::Part, b: Self::Part) -> Self::Part;
    fn collect(total: Self::Total, part: Self::Part) -> Self::Total;
    fn merge(a: Self::Total, b: Self::Total) -> Self::Total;
    /// Adds an element to each part.
    #[inline(always)]
    fn add_lanes<S: Simd>(_: S, parts: &mut [Self::Part; LANES], elements: &[Self::Input; LANES]) {
        for lane in 0..LANES {
            parts[lane] = Self::add(parts[lane], elements[lane]);
        }
    }
    /// Joins the parts of a result.
    #[inline(always)]
    fn join_lanes<S: Simd>(_: S, parts: [Self::Part; LANES]) -> Self::Part {
        halved::<S, _>(parts, Self::join)
    }
    /// Merges what was collected of each part.
    #[inline(always)]
    fn merge_lanes<S: Simd>(_: S, totals: [Self::Total; LANES]) -> Self::Total {
        halved::<S, _>(totals, Self::merge)
    }
    /// The result, if every element stands for `repeats` equal ones.
    fn finish(total: Self::Total, repeats: usize) -> Self::Output;
}

pub(in crate::cpu) struct Sum<T>(PhantomData<T>);
pub(in crate::cpu) struct Product<T>(PhantomData<T>);
pub(super) struct Max<T>(PhantomData<T>);
pub(super) struct Min<T>(PhantomData<T>);
pub(super) struct All;
pub(super) struct Any;

/// A fold whose parts are also its totals: how to start, add an element, join two parts and finish.
macro_rules! fold {
    ($fold:ty: $input:ty => $part:ty => $output:ty, $start:expr, $neutral:expr,
     $add:expr, $join:expr, $finish:expr $(, seldom: $seldom:expr)? $(, vectors: $vectors:ty)?) => {
        impl Fold for $fold {
            type Input = $input;
            type Part = $part;
            type Total = $part;
            type Output = $output;
            const START: $part = $start;
            const EMPTY: $part = $start;
            const NEUTRAL: $input = $neutral;
            $(const SELDOM: bool = $seldom;)?
            #[inline(always)]
            fn add(part: $part, x: $input) -> $part {
                let add: fn($part, $input) -> $part = $add;
                add(part, x)
            }
            #[inline(always)]
            fn join(a: $part, b: $part) -> $part {
                let join: fn($part, $part) -> $part = $join;
                join(a, b)
            }
            #[inline(always)]
            fn collect(total: $part, part: $part) -> $part {
                Self::join(total, part)
            }
            #[inline(always)]
            fn merge(a: $part, b: $part) -> $part {
                Self::join(a, b)
            }
            $(
                #[inline(always)]
                fn add_lanes<S: Simd>(simd: S, parts: &mut [$part; LANES], x: &[$input; LANES]) {
                    add_vectors::<S, $part, $vectors>(simd, parts, x);
                }
                #[inline(always)]
                fn join_lanes<S: Simd>(simd: S, parts: [$part; LANES]) -> $part {
                    halved_in_vectors::<S, $part, $vectors>(simd, parts, Self::join)
                }
            )?
            fn finish(total: $part, repeats: usize) -> $output {
                let finish: fn($part, usize) -> $output = $finish;
                finish(total, repeats)
            }
        }
    };
}

fold!(Sum<bool>: bool => i64 => i64, 0, false, |a, x| a + i64::from(x), |a, b| a + b,
      |a, n| a.wrapping_mul(n as i64), seldom: true);
fold!(Sum<i64>: i64 => i64 => i64, 0, 0, |a, x| a.wrapping_add(x), |a, b| a.wrapping_add(b),
      |a, n| a.wrapping_mul(n as i64), seldom: true);
fold!(Product<i64>: i64 => i64 => i64, 1, 1, |a, x| a.wrapping_mul(x), |a, b| a.wrapping_mul(b),
      |a, n| power(a, n, i64::wrapping_mul), seldom: true);
fold!(Product<f32>: f32 => f64 => f32, 1.0, 1.0, |a, x| a * f64::from(x), |a, b| a * b,
      |a, n| power(a, n, |a, b| a * b) as f32, seldom: true);
fold!(Product<f64>: f64 => f64 => f64, 1.0, 1.0, |a, x| a * x, |a, b| a * b,
      |a, n| power(a, n, |a, b| a * b), seldom: true);
fold!(Any: bool => bool => bool, false, false, |a, x| a | x, |a, b| a | b, |a, _| a,
      seldom: true);
fold!(All: bool => bool => bool, true, true, |a, x| a & x, |a, b| a & b, |a, _| a,
      seldom: true);
fold!(Max<i64>: i64 => i64 => i64, i64::MIN, i64::MIN, |a, x| a.max(x), |a, b| a.max(b), |a, _| a,
      seldom: true);
fold!(Min<i64>: i64 => i64 => i64, i64::MAX, i64::MAX, |a, x| a.min(x), |a, b| a.min(b), |a, _| a,
      seldom: true);

// PERF: the choice of an extreme is one instruction, and so is that of a constant. To choose the element itself
// if it is NaN, too, would be one choice by two conditions, which takes twice as long.
macro_rules! fold_float_extremes {
    ($($float:ty),*) => {$(
        fold!(Max<$float>: $float => $float => $float, <$float>::NEG_INFINITY, <$float>::NEG_INFINITY,
              |a, x| if x.is_nan() { <$float>::NAN } else if x > a { x } else { a },
              |a, x| if x.is_nan() { <$float>::NAN } else if x > a { x } else { a }, |a, _| a,
              vectors: Largest);
        fold!(Min<$float>: $float => $float => $float, <$float>::INFINITY, <$float>::INFINITY,
              |a, x| if x.is_nan() { <$float>::NAN } else if x < a { x } else { a },
              |a, x| if x.is_nan() { <$float>::NAN } else if x < a { x } else { a }, |a, _| a,
              vectors: Smallest);
    )*};
}
fold_float_extremes!(f32, f64);

/// The number of elements in a part of a sum of floats, before it is collected in twice the precision.
pub(crate) const RUN: usize = 16;

/// Floats: parts of few elements, collected in doubles.
impl Fold for Sum<f32> {
    type Input = f32;
    type Part = f32;
    type Total = f64;
    type Output = f32;
    const RUN: Option<usize> = Some(RUN);
    const START: f32 = 0.0;
    const EMPTY: f64 = 0.0;
    const NEUTRAL: f32 = 0.0;
    #[inline(always)]
    fn add(part: f32, x: f32) -> f32 {
        part + x
    }
    #[inline(always)]
    fn join(a: f32, b: f32) -> f32 {
        a + b
    }
    #[inline(always)]
    fn collect(total: f64, part: f32) -> f64 {
        total + f64::from(part)
    }
    #[inline(always)]
    fn merge(a: f64, b: f64) -> f64 {
        a + b
    }
    #[inline(always)]
    fn join_lanes<S: Simd>(simd: S, parts: [f32; LANES]) -> f32 {
        halved_in_vectors::<S, f32, Added>(simd, parts, Self::join)
    }
    #[inline(always)]
    fn merge_lanes<S: Simd>(simd: S, totals: [f64; LANES]) -> f64 {
        halved_in_vectors::<S, f64, Added>(simd, totals, Self::merge)
    }
    fn finish(total: f64, repeats: usize) -> f32 {
        (total * repeats as f64) as f32
    }
}

/// Doubles: the same, collected with the errors of rounding.
impl Fold for Sum<f64> {
    type Input = f64;
    type Part = f64;
    type Total = Compensated;
    type Output = f64;
    const RUN: Option<usize> = Some(RUN);
    const START: f64 = 0.0;
    const EMPTY: Compensated = Compensated {
        sum: 0.0,
        error: 0.0,
    };
    const NEUTRAL: f64 = 0.0;
    #[inline(always)]
    fn add(part: f64, x: f64) -> f64 {
        part + x
    }
    #[inline(always)]
    fn join(a: f64, b: f64) -> f64 {
        a + b
    }
    #[inline(always)]
    fn collect(total: Compensated, part: f64) -> Compensated {
        total.plus(part)
    }
    #[inline(always)]
    fn merge(a: Compensated, b: Compensated) -> Compensated {
        let mut total = a.plus(b.sum);
        total.error += b.error;
        total
    }
    #[inline(always)]
    fn join_lanes<S: Simd>(simd: S, parts: [f64; LANES]) -> f64 {
        halved_in_vectors::<S, f64, Added>(simd, parts, Self::join)
    }
    fn finish(total: Compensated, repeats: usize) -> f64 {
        total.value() * repeats as f64
    }
}

/// A sum and the error of its rounding.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct Compensated {
    sum: f64,
    error: f64,
}

impl Compensated {
    /// Adds `x` and its exact rounding error (Knuth, The Art of Computer Programming, volume 2,
    /// 4.2.2, theorem B).
    #[inline(always)]
    fn plus(self, x: f64) -> Self {
        let sum = self.sum + x;
        let taken = sum - self.sum;
        let error = (self.sum - (sum - taken)) + (x - taken);
        Self {
            sum,
            error: self.error + error,
        }
    }

    fn value(self) -> f64 {
        // Once the sum is infinite, its error means nothing.
        match self.error.is_finite() {
            true => self.sum + self.error,
            false => self.sum,
        }
    }
}

/// `x` to the power `n` by squaring.
fn power<T: Copy>(x: T, n: usize, times: fn(T, T) -> T) -> T {
    match n {
        1 => x,
        _ if n.is_multiple_of(2) => power(times(x, x), n / 2, times),
        _ => times(power(times(x, x), n / 2, times), x),
    }
}

/// A fold that finds an extreme.
pub(super) trait Extreme<T: Element>:
    Fold<Input = T, Part = T, Total = T, Output = T>
{
    /// Whether `x`, which comes after `best`, replaces it.
    fn beats(x: T, best: T) -> bool;
    /// Whether `x` is the extreme that the fold found.
    fn is(x: T, extreme: T) -> bool;
}

macro_rules! extremes {
    ($($type:ty),*) => {$(
        extremes!(@one Max<$type>, $type, >);
        extremes!(@one Min<$type>, $type, <);
    )*};
    (@one $fold:ty, $type:ty, $before:tt) => {
        impl Extreme<$type> for $fold {
            #[inline(always)]
            fn beats(x: $type, best: $type) -> bool {
                // Only NaN is unequal to itself.
                #[allow(clippy::eq_op)]
                let nan = (x != x) & (best == best);
                (x $before best) | nan
            }
            #[inline(always)]
            fn is(x: $type, extreme: $type) -> bool {
                #[allow(clippy::eq_op)]
                let nan = (x != x) & (extreme != extreme);
                (x == extreme) | nan
            }
        }
    };
}
extremes!(i64, f32, f64);
