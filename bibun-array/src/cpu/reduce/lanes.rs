//! Lanes: how vectors of floats are added to the parts of a fold, and how the parts are joined, the second half to
//! the first, until one is left.

use pulp::Simd;

use super::LANES;
use crate::cpu::is_plain;
use crate::cpu::tile::Float;

/// Joins values by any function.
#[inline(always)]
pub(super) fn halved<S: Simd, T: Copy>(mut values: [T; LANES], join: impl Fn(T, T) -> T) -> T {
    if const { is_plain::<S>() } {
        return halved_plainly(values, join);
    }
    join_halves::<T, 16>(&mut values, &join);
    join_halves::<T, 8>(&mut values, &join);
    join_halves::<T, 4>(&mut values, &join);
    join_halves::<T, 2>(&mut values, &join);
    join_halves::<T, 1>(&mut values, &join);
    values[0]
}

/// The same, in few instructions.
#[inline(never)]
fn halved_plainly<T: Copy>(mut values: [T; LANES], join: impl Fn(T, T) -> T) -> T {
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        let (first, others) = values.split_at_mut(width);
        for (value, &other) in first.iter_mut().zip(&*others) {
            *value = join(*value, other);
        }
    }
    values[0]
}

/// Joins each of the first `WIDTH` values with its counterpart in the next ones.
#[inline(always)]
fn join_halves<T: Copy, const WIDTH: usize>(values: &mut [T; LANES], join: impl Fn(T, T) -> T) {
    for lane in 0..WIDTH {
        values[lane] = join(values[lane], values[lane + WIDTH]);
    }
}

/// A function that joins floats, in vectors.
pub(super) trait Join {
    /// Whether it may lose NaN.
    const LOSES_NAN: bool;
    fn join<S: Simd, T: Float>(simd: S, a: T::Vector<S>, b: T::Vector<S>) -> T::Vector<S>;
    /// Joins the elements of a vector.
    #[inline(always)]
    fn within<S: Simd, T: Float>(simd: S, x: T::Vector<S>) -> T
    where
        Self: Sized,
    {
        let x = join_turned::<S, T, Self, 8>(simd, x);
        let x = join_turned::<S, T, Self, 4>(simd, x);
        let x = join_turned::<S, T, Self, 2>(simd, x);
        let x = join_turned::<S, T, Self, 1>(simd, x);
        T::first(x)
    }
}

pub(super) struct Added;
pub(super) struct Largest;
pub(super) struct Smallest;

impl Join for Added {
    const LOSES_NAN: bool = false;
    #[inline(always)]
    fn join<S: Simd, T: Float>(simd: S, a: T::Vector<S>, b: T::Vector<S>) -> T::Vector<S> {
        T::add(simd, a, b)
    }
    #[inline(always)]
    fn within<S: Simd, T: Float>(simd: S, x: T::Vector<S>) -> T {
        T::sum(simd, x)
    }
}

impl Join for Largest {
    const LOSES_NAN: bool = true;
    #[inline(always)]
    fn join<S: Simd, T: Float>(simd: S, a: T::Vector<S>, b: T::Vector<S>) -> T::Vector<S> {
        T::larger(simd, b, a)
    }
}

impl Join for Smallest {
    const LOSES_NAN: bool = true;
    #[inline(always)]
    fn join<S: Simd, T: Float>(simd: S, a: T::Vector<S>, b: T::Vector<S>) -> T::Vector<S> {
        T::smaller(simd, b, a)
    }
}

/// Joins an element to each part, so that NaN stays.
#[inline(always)]
pub(super) fn add_vectors<S: Simd, T: Float, J: Join>(
    simd: S,
    parts: &mut [T; LANES],
    elements: &[T; LANES],
) {
    let lanes = T::lanes::<S>();
    for i in 0..LANES / lanes {
        let at = i * lanes;
        let x = T::load(&elements[at..]);
        let joined = J::join::<S, T>(simd, T::load(&parts[at..]), x);
        T::store(&mut parts[at..], T::nan_or(simd, x, joined));
    }
}

/// Joins floats. `join` is the same function for two of them.
// PERF: of single values the compiler makes vectors of two.
#[inline(always)]
pub(super) fn halved_in_vectors<S: Simd, T: Float, J: Join>(
    simd: S,
    values: [T; LANES],
    join: impl Fn(T, T) -> T,
) -> T {
    if const { is_plain::<S>() } {
        return halved_plainly(values, join);
    }
    if J::LOSES_NAN {
        let sum = halved_of::<S, T, Added>(simd, &values);
        // Only NaN is unequal to itself, and a sum is NaN if anything in it is.
        #[allow(clippy::eq_op)]
        if sum != sum {
            return halved_plainly(values, join);
        }
    }
    halved_of::<S, T, J>(simd, &values)
}

#[inline(always)]
fn halved_of<S: Simd, T: Float, J: Join>(simd: S, values: &[T; LANES]) -> T {
    let lanes = T::lanes::<S>();
    let mut vectors = [T::splat(simd, values[0]); LANES];
    for i in 0..LANES / lanes {
        vectors[i] = T::load(&values[i * lanes..]);
    }
    join_vectors::<S, T, J, 16>(simd, &mut vectors);
    join_vectors::<S, T, J, 8>(simd, &mut vectors);
    join_vectors::<S, T, J, 4>(simd, &mut vectors);
    join_vectors::<S, T, J, 2>(simd, &mut vectors);
    join_vectors::<S, T, J, 1>(simd, &mut vectors);
    J::within::<S, T>(simd, vectors[0])
}

/// Joins each of the first vectors, of `WIDTH` elements in all, with its counterpart in the next ones.
#[inline(always)]
fn join_vectors<S: Simd, T: Float, J: Join, const WIDTH: usize>(
    simd: S,
    vectors: &mut [T::Vector<S>; LANES],
) {
    let count = WIDTH / T::lanes::<S>();
    for i in 0..count {
        vectors[i] = J::join::<S, T>(simd, vectors[i], vectors[i + count]);
    }
}

/// Joins each of the first `WIDTH` elements of a vector with its counterpart in the next ones, if there are so many.
#[inline(always)]
fn join_turned<S: Simd, T: Float, J: Join, const WIDTH: usize>(
    simd: S,
    x: T::Vector<S>,
) -> T::Vector<S> {
    match WIDTH < T::lanes::<S>() {
        true => J::join::<S, T>(simd, x, T::rotate(simd, x, WIDTH)),
        false => x,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::marker::PhantomData;

    use pulp::WithSimd;

    use super::super::fold::{Fold, Max, Min, Sum};
    use super::*;
    use crate::Element;

    /// Compares what a fold makes of lanes with its functions of single elements.
    struct Compare<'a, T, F>(&'a [T; LANES], PhantomData<F>);

    impl<T: Element + Debug, F: Fold<Input = T, Part = T>> WithSimd for Compare<'_, T, F> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let parts = *self.0;
            let joined = F::join_lanes(simd, parts);
            let expected = halved_plainly(parts, F::join);
            assert_eq!(format!("{joined:?}"), format!("{expected:?}"), "{parts:?}");
            let elements = std::array::from_fn(|lane| parts[LANES - 1 - lane]);
            let mut added = parts;
            F::add_lanes(simd, &mut added, &elements);
            let expected = std::array::from_fn(|lane| F::add(parts[lane], elements[lane]));
            let expected: [T; LANES] = expected;
            assert_eq!(format!("{added:?}"), format!("{expected:?}"), "{parts:?}");
        }
    }

    fn compare<T: Element + Debug, F: Fold<Input = T, Part = T>>(parts: &[T; LANES]) {
        let compare = || Compare::<T, F>(parts, PhantomData);
        Simd::vectorize(pulp::Scalar, compare());
        pulp::Arch::new().dispatch(compare());
        // Vectors of AVX2, where there are wider ones.
        crate::cpu::dispatch_short(compare());
    }

    #[test]
    fn vectors_join_lanes_as_single_floats_do() {
        let special = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 3.0];
        for seed in 0..400u32 {
            let parts: [f32; LANES] = std::array::from_fn(|lane| {
                let random = (seed * 32 + lane as u32).wrapping_mul(2_654_435_761) >> 7;
                match random % 7 {
                    // Few lanes, half of the time.
                    kind if seed % 4 < 2 && lane as u32 != seed / 4 % 32 => kind as f32 / 7.0,
                    kind => *special.get(kind as usize).unwrap_or(&-1.5),
                }
            });
            let doubles = parts.map(f64::from);
            compare::<f32, Sum<f32>>(&parts);
            compare::<f32, Max<f32>>(&parts);
            compare::<f32, Min<f32>>(&parts);
            compare::<f64, Sum<f64>>(&doubles);
            compare::<f64, Max<f64>>(&doubles);
            compare::<f64, Min<f64>>(&doubles);
        }
    }
}
