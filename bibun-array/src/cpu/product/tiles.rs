//! The inner loop: a tile of sums, which stays in registers.

use std::array;

use pulp::{Simd, WithSimd};

use super::part::Rows;
use crate::cpu::is_plain;
use crate::cpu::matmul::Matrix;
use crate::cpu::tile::{Float, LANES};

/// The largest number of rows of a tile, and of vectors.
pub(in crate::cpu) const HIGH: usize = 6;
pub(super) const WIDE: usize = 4;
/// The number of rows of tiles of a single vector, so that a sum does not wait for the previous one.
pub(super) const TALL: usize = 8;

/// The largest number of vectors of a tile: with [`HIGH`] rows, as many sums as there are
/// registers.
#[inline]
pub(in crate::cpu) const fn wide<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 { WIDE } else { 2 }
}

impl<T: Float> Matrix<'_, T> {
    /// Some neighbours in a row, at most as many as a vector has.
    #[inline(always)]
    fn vector<S: Simd>(self, simd: S, row: usize, column: usize, len: usize) -> T::Vector<S> {
        let start = row * self.row + column * self.column;
        match self.column {
            0 => T::splat(simd, self.memory[start]),
            1 if len == T::lanes::<S>() => T::load::<S>(&self.memory[start..]),
            1 => T::load_part(simd, &self.memory[start..][..len]),
            step => {
                let mut line = [T::ZERO; LANES];
                for (i, line) in line[..len].iter_mut().enumerate() {
                    *line = self.memory[start + i * step];
                }
                T::load::<S>(&line)
            }
        }
    }
}

/// Tiles below one another: some strips of `a` by a panel of `b`.
pub(super) struct Tiles<'a, 'b, T> {
    pub(super) a: Matrix<'a, T>,
    /// The step from one strip of `a` to the next, and their number.
    pub(super) strip: usize,
    pub(super) count: usize,
    /// Vectors for one `k` after the other, `step` apart.
    pub(super) b: &'a [T],
    pub(super) step: usize,
    pub(super) depth: usize,
    /// More of them, without gaps.
    pub(super) rest: &'a [T],
    pub(super) rest_depth: usize,
    pub(super) alpha: T,
    pub(super) beta: T,
    pub(super) addend: Option<Matrix<'a, T>>,
    pub(super) out: &'a mut Rows<'b, T>,
    pub(super) row: usize,
    /// The number of rows that have been computed before.
    pub(super) skip: usize,
    /// Columns of the result.
    pub(super) start: usize,
    pub(super) len: usize,
    /// The sums of each tile up to these `k`, a step apart, if they go on from there, or are not the last
    /// ones.
    pub(super) sums: &'a mut [T],
    pub(super) sums_step: usize,
    pub(super) goes_on: bool,
    pub(super) is_last: bool,
}

impl<T: Float> Tiles<'_, '_, T> {
    #[inline(always)]
    pub(super) fn run<S: Simd>(&mut self, simd: S, height: usize, vectors: usize) {
        if const { is_plain::<S>() } {
            return self.fixed::<S, 2, 2, false>(simd);
        }
        match height {
            TALL if const { !S::IS_SCALAR } => self.fixed::<S, TALL, 1, false>(simd),
            HIGH => self.of_height::<S, HIGH>(simd, vectors),
            3 => self.of_height::<S, 3>(simd, vectors),
            _ => self.of_height::<S, 2>(simd, vectors),
        }
    }

    #[inline(always)]
    fn of_height<S: Simd, const M: usize>(&mut self, simd: S, vectors: usize) {
        // Tiles that do not suit the vectors of a machine are not compiled for it.
        if const { wide::<S>() == WIDE } {
            match vectors {
                4 if const { M == HIGH } && self.is_unscaled() => {
                    return self.fixed::<S, M, 4, true>(simd);
                }
                4 => return self.fixed::<S, M, 4, false>(simd),
                3 => return self.fixed::<S, M, 3, false>(simd),
                _ => {}
            }
        }
        if const { !S::IS_SCALAR } && vectors == 1 {
            return self.fixed::<S, M, 1, false>(simd);
        }
        self.fixed::<S, M, 2, false>(simd);
    }

    /// Whether sums, or their negatives, are written or added as they are.
    #[inline(always)]
    fn is_unscaled(&self) -> bool {
        match self.beta == T::ZERO {
            true => self.alpha == T::ONE,
            false => self.beta == T::ONE && self.alpha.times(self.alpha) == T::ONE,
        }
    }

    /// A separate function, so that all registers are available for its sums.
    #[inline(never)]
    fn fixed<S: Simd, const M: usize, const N: usize, const UNSCALED: bool>(&mut self, simd: S) {
        simd.vectorize(Fixed::<T, M, N, UNSCALED>(self));
    }
}

/// Tiles of `M` rows and `N` vectors.
// PERF: without factors, the tile of a short sum ends with a third of the instructions.
struct Fixed<'t, 'a, 'b, T, const M: usize, const N: usize, const UNSCALED: bool>(
    &'t mut Tiles<'a, 'b, T>,
);

impl<T: Float, const M: usize, const N: usize, const UNSCALED: bool> WithSimd
    for Fixed<'_, '_, '_, T, M, N, UNSCALED>
{
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Tiles {
            a,
            strip,
            count,
            b,
            step,
            depth,
            rest,
            rest_depth,
            ..
        } = *self.0;
        let Tiles {
            alpha,
            beta,
            addend,
            ref mut out,
            row,
            skip,
            start,
            len,
            sums: ref mut kept,
            sums_step,
            goes_on,
            is_last,
            ..
        } = *self.0;
        let lanes = T::lanes::<S>();
        let width = N * lanes;
        // The start of the last of `count` items that are `step` apart.
        let last = |count: usize, step: usize| count.saturating_sub(1).saturating_mul(step);
        let last_factor = last(count, strip)
            .saturating_add(last(M, a.row))
            .saturating_add(last(depth + rest_depth, a.column));
        assert!(
            last_factor < a.memory.len()
                && (depth == 0 || last(depth, step).saturating_add(width) <= b.len())
                && (rest_depth == 0 || last(rest_depth, width) + width <= rest.len())
        );
        let add = beta != T::ZERO;
        let (alpha, beta) = (T::splat(simd, alpha), T::splat(simd, beta));
        for s in 0..count {
            let row = row + s * M;
            let mut sums = [[T::splat(simd, T::ZERO); N]; M];
            if goes_on {
                let kept = &kept[s * sums_step..][..M * width];
                for i in 0..M {
                    for v in 0..N {
                        sums[i][v] = T::load::<S>(&kept[i * width + v * lanes..]);
                    }
                }
            }
            let factors: [*const T; M] =
                array::from_fn(|i| a.memory.as_ptr().wrapping_add(s * strip + i * a.row));
            let mut at = 0;
            for (memory, step, depth) in [(b, step, depth), (rest, width, rest_depth)] {
                let mut read = memory.as_ptr();
                for _ in 0..depth {
                    let mut vectors = [sums[0][0]; N];
                    for v in 0..N {
                        // SAFETY: `read` is `l * step` elements into `memory` for an `l < depth`,
                        // and by the assertion at least `width` elements follow.
                        let vector =
                            unsafe { std::slice::from_raw_parts(read.add(v * lanes), lanes) };
                        vectors[v] = T::load::<S>(vector);
                    }
                    for i in 0..M {
                        // SAFETY: it is `s * strip + i * a.row + l * a.column` elements into
                        // `a.memory` for an `l` below the sum of both depths, no more than
                        // `last_factor`.
                        let factor = T::splat(simd, unsafe { *factors[i].add(at) });
                        for v in 0..N {
                            sums[i][v] = T::multiply_add(simd, factor, vectors[v], sums[i][v]);
                        }
                    }
                    at += a.column;
                    read = read.wrapping_add(step);
                }
            }
            if !is_last {
                let kept = &mut kept[s * sums_step..][..M * width];
                for i in 0..M {
                    for v in 0..N {
                        T::store::<S>(&mut kept[i * width + v * lanes..], sums[i][v]);
                    }
                }
                continue;
            }
            if const { !UNSCALED } {
                for i in 0..M {
                    for v in 0..N {
                        sums[i][v] = T::multiply(simd, alpha, sums[i][v]);
                    }
                }
            }
            // Not a fused multiply-add, so that scalar code has the same result. (Without factors it is the same.)
            let plus = |old: T::Vector<S>, sum: T::Vector<S>| match const { UNSCALED } {
                true => T::multiply_add(simd, alpha, sum, old),
                false => T::add(simd, T::multiply(simd, beta, old), sum),
            };
            let is_whole = skip == 0 && len == width;
            let neighbours = addend.filter(|addend| is_whole && add && addend.column == 1);
            if let Some(addend) = neighbours {
                for i in 0..M {
                    let old = &addend.memory[(row + i) * addend.row + start..][..width];
                    for v in 0..N {
                        sums[i][v] = plus(T::load::<S>(&old[v * lanes..]), sums[i][v]);
                    }
                }
            }
            if is_whole && (addend.is_none() || neighbours.is_some()) {
                for i in 0..M {
                    let out = out.some(row + i, start, width);
                    if add && addend.is_none() {
                        for v in 0..N {
                            sums[i][v] = plus(T::load::<S>(&out[v * lanes..]), sums[i][v]);
                        }
                    }
                    for v in 0..N {
                        T::store::<S>(&mut out[v * lanes..], sums[i][v]);
                    }
                }
                continue;
            }
            // Only now in memory, to be read at any index.
            let mut results = [[sums[0][0]; N]; M];
            for i in 0..M {
                for v in 0..N {
                    results[i][v] = sums[i][v];
                }
            }
            for (i, sums) in results.iter().enumerate().skip(skip) {
                let out = out.some(row + i, start, len);
                for ((out, &sum), v) in out.chunks_mut(lanes).zip(sums).zip(0..) {
                    let mut sum = sum;
                    if add {
                        let old = match addend {
                            None => T::load_part(simd, out),
                            Some(addend) => {
                                addend.vector(simd, row + i, start + v * lanes, out.len())
                            }
                        };
                        sum = plus(old, sum);
                    }
                    T::store_part(simd, out, sum);
                }
            }
        }
    }
}
