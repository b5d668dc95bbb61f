//! Eigenvalues and eigenvectors of a diagonal matrix to which one of rank one is added, `D + rho z zᵀ`, and singular values
//! and vectors of a matrix of the row z and a diagonal, whose squares are those of `D² + z zᵀ`.
//!
//! The eigenvalues are the roots of `1 / rho + Σ zᵢ² / (dᵢ - x)`, one above each pole; singular values, those of the same
//! sum with the squares of dᵢ and x. Each root is known as its distance to the nearest pole, so that its distances to all
//! poles are exact to the last bits; and the vectors are those of the z whose roots they are exactly, which makes them
//! orthogonal. They are computed in f64, and a group of roots has the lanes of vectors.
//!
//! Source: M. Gu and S. Eisenstat, "A stable and efficient algorithm for the rank-one modification of the symmetric
//! eigenproblem" (1994) and "A divide-and-conquer algorithm for the bidiagonal SVD" (1995); R. Li, "Solving secular equations stably and efficiently" (1993).

use std::array;

use pulp::{Arch, NullaryFnOnce};

use crate::cpu::{chunks, for_each};
use crate::linalg::batch::Large;
use crate::linalg::reflections::dot;

/// The number of roots of a group.
const LANES: usize = 16;
/// More steps than any root needs: it is between two numbers, of which one comes nearer in each step.
const STEPS: usize = 100;
/// The number of poles from which on threads share the roots, and the number of vectors that a thread computes.
const SHARED: usize = 128;
const VECTORS: usize = 16;

/// The numbers of a group.
type Group = [f64; LANES];

/// The matrix; if it has `SQUARES`, its singular values are meant, and the first pole is zero. The poles ascend, and neither
/// two of them nor a weight and zero are nearly equal; rho is positive.
pub(super) struct Secular<'a, const SQUARES: bool> {
    pub(super) poles: &'a [f64],
    /// The elements of z.
    pub(super) weights: &'a mut [f64],
    pub(super) rho: f64,
}

/// Roots: poles, and the distances from them.
pub(super) struct Roots<const SQUARES: bool> {
    poles: Vec<f64>,
    distances: Vec<f64>,
}

/// The difference of a pole and a root, or of their squares.
#[inline(always)]
fn difference<const SQUARES: bool>(pole: f64, origin: f64, distance: f64) -> f64 {
    let difference = (pole - origin) - distance;
    match SQUARES {
        true => difference * ((pole + origin) + distance),
        false => difference,
    }
}

impl<const SQUARES: bool> Roots<SQUARES> {
    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        (self.poles.iter().zip(&self.distances)).map(|(&pole, &distance)| pole + distance)
    }
}

impl<const SQUARES: bool> Secular<'_, SQUARES> {
    /// Computes the roots, and makes the weights those of which they are exactly the roots, times a factor.
    pub(super) fn solve(self) -> Roots<SQUARES> {
        let Self {
            poles,
            weights,
            rho,
        } = self;
        let (zero, count) = (0.0, poles.len());
        let squares: Vec<f64> = weights.iter().map(|&x| x * x).collect();
        let mut roots = Roots {
            poles: vec![zero; count],
            distances: vec![zero; count],
        };
        let groups = (
            chunks(&mut roots.poles, LANES),
            chunks(&mut roots.distances, LANES),
        );
        let sum = rho * squares.iter().fold(zero, |sum, &x| sum + x);
        let spread = match SQUARES {
            true => {
                let last = poles[count - 1];
                sum / (last + (last * last + sum).sqrt())
            }
            false => sum,
        };
        let threads = count >= SHARED;
        for_each(groups, threads, 1, &|i, (origins, distances)| {
            Arch::new().dispatch(Solve::<SQUARES> {
                poles,
                squares: &squares,
                constant: 1.0 / rho,
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

impl<const SQUARES: bool> Roots<SQUARES> {
    /// Computes the vectors, each in a row, of poles and their weights in any order; if they are of `SQUARES`, the right
    /// ones.
    pub(super) fn vectors<T: Large>(&self, poles: &[f64], weights: &[f64], out: &mut [T]) {
        self.all::<T, false>(poles, weights, out);
    }

    fn all<T: Large, const LEFT: bool>(&self, poles: &[f64], weights: &[f64], out: &mut [T]) {
        let count = poles.len();
        let shares = chunks(out, VECTORS * count);
        for_each(shares, count >= SHARED, 1, &|i, out| {
            let first = i * VECTORS;
            Arch::new().dispatch(Vectors::<T, SQUARES, LEFT> {
                roots: (&self.poles[first..], &self.distances[first..]),
                poles,
                weights,
                out,
            });
        });
    }
}

impl Roots<true> {
    /// Computes the left vectors.
    pub(super) fn left_vectors<T: Large>(&self, poles: &[f64], weights: &[f64], out: &mut [T]) {
        self.all::<T, true>(poles, weights, out);
    }
}

/// Solves for a group of roots.
struct Solve<'a, const SQUARES: bool> {
    poles: &'a [f64],
    squares: &'a [f64],
    constant: f64,
    /// The largest root is so near to the last pole.
    spread: f64,
    /// The number of the first root.
    first: usize,
    origins: &'a mut [f64],
    distances: &'a mut [f64],
}

/// The terms of a group: the sums of those of the poles below and above each root, which are negative and positive, and
/// their derivatives.
struct Terms {
    below: [Group; 2],
    above: [Group; 2],
}

impl<const SQUARES: bool> Solve<'_, SQUARES> {
    #[inline(always)]
    fn terms(&self, origins: &Group, distances: &Group) -> Terms {
        let zero = 0.0;
        let (first, end) = (self.first, (self.first + LANES).min(self.poles.len()));
        let mut terms = Terms {
            below: [[zero; LANES]; 2],
            above: [[zero; LANES]; 2],
        };
        let add = |[sums, slopes]: &mut [Group; 2], pole: f64, square: f64| {
            for i in 0..LANES {
                let inverse = 1.0 / difference::<SQUARES>(pole, origins[i], distances[i]);
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
                let inverse = 1.0 / difference::<SQUARES>(pole, origins[i], distances[i]);
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

impl<const SQUARES: bool> NullaryFnOnce for Solve<'_, SQUARES> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let (zero, half, count) = (0.0, 0.5, self.poles.len());
        let index: [usize; LANES] = array::from_fn(|i| (self.first + i).min(count - 1));
        let low = index.map(|i| self.poles[i]);
        let high = index.map(|i| self.poles[(i + 1).min(count - 1)]);
        let weights =
            [0, 1].map(|next| index.map(|i| self.squares.get(i + next).copied().unwrap_or(zero)));
        // The sum of a pole and the spread may have lost the spread.
        let gaps: Group = array::from_fn(|i| match index[i] + 1 < count {
            true => high[i] - low[i],
            false => self.spread,
        });
        let mut origins = low;
        let mut distances: Group = gaps.map(|gap| half * gap);
        // Distances of the two poles, and of what the root lies between.
        let mut ends = [[zero; LANES], gaps];
        let [mut least, mut most] = ends;
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
                    let [first, last] = &mut ends;
                    for x in [first, last, &mut distances, &mut least, &mut most] {
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
                let root = origins[i] + own;
                let slope = if SQUARES {
                    (root + root) * slope
                } else {
                    slope
                };
                let error = 4.0 * sizes + own.abs() * slope;
                let far = [0, 1].map(|k| match SQUARES {
                    true => (ends[k][i] - own) * (root + (origins[i] + ends[k][i])),
                    false => ends[k][i] - own,
                });
                let near = match step {
                    0 => [weights[0][i], weights[1][i]],
                    _ => [far[0] * far[0] * below[1], far[1] * far[1] * above[1]],
                };
                let change = change(sum, far, near);
                let mut next = match SQUARES {
                    true => own + change / (root + (root * root + change).sqrt()),
                    false => own + change,
                };
                if !(least[i] < next && next < most[i]) {
                    next = half * (least[i] + most[i]);
                }
                is_done[i] = sum.abs() <= f64::EPSILON * error
                    || (next - own).abs() <= 0.5 * f64::EPSILON * own.abs();
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
fn change(value: f64, far: [f64; 2], near: [f64; 2]) -> f64 {
    let constant = value - near[0] / far[0] - near[1] / far[1];
    let a = constant * (far[0] + far[1]) + near[0] + near[1];
    let b = far[0] * far[1] * value;
    let root = (a * a - 4.0 * b * constant).max(0.0).sqrt();
    match a > 0.0 {
        true => 2.0 * b / (a + root),
        false => (a - root) / (2.0 * constant),
    }
}

/// Computes the weights whose roots are given, from the number of the first one.
struct Weights<'a, const SQUARES: bool>(&'a [f64], &'a Roots<SQUARES>, usize, &'a mut [f64]);

impl<const SQUARES: bool> NullaryFnOnce for Weights<'_, SQUARES> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Self(poles, roots, first, weights) = self;
        let (zero, one) = (0.0, 1.0);
        let own: Group = array::from_fn(|i| poles[(first + i).min(poles.len() - 1)]);
        let mut squares = [one; LANES];
        for ((&pole, &origin), &distance) in poles.iter().zip(&roots.poles).zip(&roots.distances) {
            for i in 0..LANES {
                let gap = difference::<SQUARES>(pole, own[i], zero);
                let gap = if pole == own[i] { one } else { gap };
                let apart = difference::<SQUARES>(own[i], origin, distance);
                squares[i] *= apart / gap;
            }
        }
        for (weight, square) in weights.iter_mut().zip(squares) {
            *weight = square.abs().sqrt().copysign(*weight);
        }
    }
}

/// Computes some vectors.
struct Vectors<'a, T, const SQUARES: bool, const LEFT: bool> {
    roots: (&'a [f64], &'a [f64]),
    poles: &'a [f64],
    weights: &'a [f64],
    out: &'a mut [T],
}

impl<T: Large, const SQUARES: bool, const LEFT: bool> NullaryFnOnce
    for Vectors<'_, T, SQUARES, LEFT>
{
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let Self {
            roots,
            poles,
            weights,
            out,
        } = self;
        let mut own = vec![0.0; poles.len()];
        for ((row, &origin), &distance) in (out.chunks_exact_mut(poles.len()))
            .zip(roots.0)
            .zip(roots.1)
        {
            for ((x, &pole), &weight) in own.iter_mut().zip(poles).zip(weights) {
                *x = weight / difference::<SQUARES>(pole, origin, distance);
                // The row z times the right one is -1.
                if LEFT {
                    *x = if pole == 0.0 { -1.0 } else { pole * *x };
                }
            }
            let factor = 1.0 / dot(&own, &own).sqrt();
            for (row, &x) in row.iter_mut().zip(&own) {
                *row = T::of(x * factor);
            }
        }
    }
}
