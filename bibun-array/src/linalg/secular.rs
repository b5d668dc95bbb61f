//! Eigenvalues and eigenvectors of a diagonal matrix to which one of rank one is added, `D + rho z zᵀ`.
//!
//! The eigenvalues are the roots of `1 / rho + Σ zᵢ² / (dᵢ - x)`, one above each pole. Each root is known as its distance
//! to the nearest pole, so that its distances to all poles are exact to the last bits; and the vectors are those of the
//! z whose roots they are exactly, which makes them orthogonal. A group of roots has the lanes of vectors.
//!
//! Source: M. Gu and S. Eisenstat, "A stable and efficient algorithm for the rank-one modification of the symmetric
//! eigenproblem" (1994); R. Li, "Solving secular equations stably and efficiently" (1993).

use std::array;

use pulp::{Arch, NullaryFnOnce};

use super::batch::Large;
use super::numbers::Numbers;
use super::reflections::dot;
use crate::cpu::{chunks, for_each};

/// The number of roots of a group.
const LANES: usize = 16;
/// More steps than any root needs: it is between two numbers, of which one comes nearer in each step.
const STEPS: usize = 100;
/// The number of poles from which on threads share the roots, and the number of vectors that a thread computes.
const SHARED: usize = 128;
const VECTORS: usize = 16;

/// The numbers of a group.
type Group<T> = [T; LANES];

/// The matrix. The poles ascend, and neither two of them nor a weight and zero are nearly equal; rho is positive.
pub(super) struct Secular<'a, T> {
    pub(super) poles: &'a [T],
    /// The elements of z.
    pub(super) weights: &'a mut [T],
    pub(super) rho: T,
}

/// Roots: poles, and the distances from them.
pub(super) struct Roots<T> {
    poles: Vec<T>,
    distances: Vec<T>,
}

impl<T: Large> Roots<T> {
    pub(super) fn values(&self) -> impl Iterator<Item = T> {
        (self.poles.iter().zip(&self.distances)).map(|(&pole, &distance)| pole + distance)
    }
}

impl<T: Large> Secular<'_, T> {
    /// Computes the roots, and makes the weights those of which they are exactly the roots, times a factor.
    pub(super) fn solve(self) -> Roots<T> {
        let Self {
            poles,
            weights,
            rho,
        } = self;
        let (zero, count) = (T::of(0.0), poles.len());
        let squares: Vec<T> = weights.iter().map(|&x| x * x).collect();
        let mut roots = Roots {
            poles: vec![zero; count],
            distances: vec![zero; count],
        };
        let groups = (
            chunks(&mut roots.poles, LANES),
            chunks(&mut roots.distances, LANES),
        );
        let spread = rho * squares.iter().fold(zero, |sum, &x| sum + x);
        let threads = count >= SHARED;
        for_each(groups, threads, 1, &|i, (origins, distances)| {
            Arch::new().dispatch(Solve {
                poles,
                squares: &squares,
                constant: T::of(1.0) / rho,
                spread,
                first: i * LANES,
                origins,
                distances,
            });
        });
        for_each(chunks(weights, LANES), threads, 1, &|i, weights| {
            Arch::new().dispatch(Weights(poles, &roots, i * LANES, weights));
        });
        roots
    }
}

impl<T: Large> Roots<T> {
    /// Computes the vectors, each in a row, of poles and their weights in any order.
    pub(super) fn vectors(&self, poles: &[T], weights: &[T], out: &mut [T]) {
        let count = poles.len();
        let shares = chunks(out, VECTORS * count);
        for_each(shares, count >= SHARED, 1, &|i, out| {
            let first = i * VECTORS;
            Arch::new().dispatch(Vectors {
                roots: (&self.poles[first..], &self.distances[first..]),
                poles,
                weights,
                out,
            });
        });
    }
}

/// Solves for a group of roots.
struct Solve<'a, T> {
    poles: &'a [T],
    squares: &'a [T],
    constant: T,
    /// The largest root is so near to the last pole.
    spread: T,
    /// The number of the first root.
    first: usize,
    origins: &'a mut [T],
    distances: &'a mut [T],
}

/// The terms of a group: the sums of those of the poles below and above each root, which are negative and positive, and
/// their derivatives.
struct Terms<T> {
    below: [Group<T>; 2],
    above: [Group<T>; 2],
}

impl<T: Large> Solve<'_, T> {
    #[inline(always)]
    fn terms(&self, origins: &Group<T>, distances: &Group<T>) -> Terms<T> {
        let zero = T::of(0.0);
        let (first, end) = (self.first, (self.first + LANES).min(self.poles.len()));
        let mut terms = Terms {
            below: [[zero; LANES]; 2],
            above: [[zero; LANES]; 2],
        };
        let add = |[sums, slopes]: &mut [Group<T>; 2], pole: T, square: T| {
            for i in 0..LANES {
                let inverse = T::of(1.0) / ((pole - origins[i]) - distances[i]);
                let term = square * inverse;
                sums[i] += term;
                slopes[i] += term * inverse;
            }
        };
        let all = |range: std::ops::Range<usize>| {
            (self.poles[range.clone()].iter().copied()).zip(self.squares[range].iter().copied())
        };
        // The sums begin with the smallest terms.
        for (pole, square) in all(0..first) {
            add(&mut terms.below, pole, square);
        }
        for (pole, square) in all(end..self.poles.len()).rev() {
            add(&mut terms.above, pole, square);
        }
        for (k, (pole, square)) in all(first..end).enumerate() {
            for i in 0..LANES {
                let inverse = T::of(1.0) / ((pole - origins[i]) - distances[i]);
                let term = square * inverse;
                let [below, above] = if k <= i { [term, zero] } else { [zero, term] };
                terms.below[0][i] += below;
                terms.below[1][i] += below * inverse;
                terms.above[0][i] += above;
                terms.above[1][i] += above * inverse;
            }
        }
        terms
    }
}

impl<T: Large> NullaryFnOnce for Solve<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let (zero, half, count) = (T::of(0.0), T::of(0.5), self.poles.len());
        let index: [usize; LANES] = array::from_fn(|i| (self.first + i).min(count - 1));
        let low = index.map(|i| self.poles[i]);
        let high = index.map(|i| match self.poles.get(i + 1) {
            Some(&pole) => pole,
            None => self.poles[count - 1] + self.spread,
        });
        let weights =
            [0, 1].map(|next| index.map(|i| self.squares.get(i + next).copied().unwrap_or(zero)));
        let gaps: Group<T> = array::from_fn(|i| high[i] - low[i]);
        let mut origins = low;
        let mut distances: Group<T> = gaps.map(|gap| half * gap);
        let [mut least, mut most] = [[zero; LANES], gaps];
        let mut is_done = [false; LANES];
        for step in 0..STEPS {
            let terms = self.terms(&origins, &distances);
            for i in 0..LANES {
                let [below, above] = [terms.below, terms.above].map(|[x, y]| [x[i], y[i]]);
                let sum = self.constant + below[0] + above[0];
                let sizes = self.constant - below[0] + above[0];
                let slope = below[1] + above[1];
                let is_low = sum < zero;
                if step == 0 && is_low && index[i] + 1 < count {
                    // It is nearer to the pole above.
                    origins[i] = high[i];
                    for x in [&mut distances, &mut least, &mut most] {
                        x[i] -= gaps[i];
                    }
                }
                if is_done[i] {
                    continue;
                }
                let own = distances[i];
                match is_low {
                    true => least[i] = own,
                    false => most[i] = own,
                }
                let error = T::of(4.0) * sizes + Numbers::abs(own) * slope;
                let far = [low[i], high[i]].map(|pole| (pole - origins[i]) - own);
                let near = match step {
                    0 => [weights[0][i], weights[1][i]],
                    _ => [far[0] * far[0] * below[1], far[1] * far[1] * above[1]],
                };
                let mut next = own + change(sum, far, near);
                if !(least[i] < next && next < most[i]) {
                    next = half * (least[i] + most[i]);
                }
                is_done[i] = Numbers::abs(sum) <= T::epsilon() * error
                    || Numbers::abs(next - own) <= T::of(0.5) * T::epsilon() * Numbers::abs(own);
                if !is_done[i] {
                    distances[i] = next;
                }
            }
            if is_done.iter().all(|&x| x) {
                break;
            }
        }
        self.origins.copy_from_slice(&origins[..self.origins.len()]);
        self.distances
            .copy_from_slice(&distances[..self.distances.len()]);
    }
}

/// The distance to the root of a function with this value and two poles `far` away, which have these weights.
#[inline(always)]
fn change<T: Large>(value: T, far: [T; 2], near: [T; 2]) -> T {
    let (zero, two) = (T::of(0.0), T::of(2.0));
    let constant = value - near[0] / far[0] - near[1] / far[1];
    let a = constant * (far[0] + far[1]) + near[0] + near[1];
    let b = far[0] * far[1] * value;
    let root = Numbers::sqrt(Numbers::max(a * a - two * two * b * constant, zero));
    match a > zero {
        true => two * b / (a + root),
        false => (a - root) / (two * constant),
    }
}

/// Computes the weights whose roots are given, from the number of the first one.
struct Weights<'a, T>(&'a [T], &'a Roots<T>, usize, &'a mut [T]);

impl<T: Large> NullaryFnOnce for Weights<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Self(poles, roots, first, weights) = self;
        let (zero, one) = (T::of(0.0), T::of(1.0));
        let own: Group<T> = array::from_fn(|i| poles[(first + i).min(poles.len() - 1)]);
        let mut squares = [one; LANES];
        for ((&pole, &origin), &distance) in poles.iter().zip(&roots.poles).zip(&roots.distances) {
            for i in 0..LANES {
                let gap = pole - own[i];
                let gap = if gap == zero { one } else { gap };
                squares[i] = squares[i] * (((origin - own[i]) + distance) / gap);
            }
        }
        for (weight, square) in weights.iter_mut().zip(squares) {
            *weight = weight.sign() * Numbers::sqrt(Numbers::abs(square));
        }
    }
}

/// Computes some vectors.
struct Vectors<'a, T> {
    roots: (&'a [T], &'a [T]),
    poles: &'a [T],
    weights: &'a [T],
    out: &'a mut [T],
}

impl<T: Large> NullaryFnOnce for Vectors<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Self {
            roots,
            poles,
            weights,
            out,
        } = self;
        for ((row, &origin), &distance) in (out.chunks_exact_mut(poles.len()))
            .zip(roots.0)
            .zip(roots.1)
        {
            for ((x, &pole), &weight) in row.iter_mut().zip(poles).zip(weights) {
                *x = weight / ((pole - origin) - distance);
            }
            let norm = Numbers::sqrt(dot(row, row));
            row.iter_mut().for_each(|x| *x /= norm);
        }
    }
}
