//! Source: M. Gu and S. Eisenstat, "A divide-and-conquer algorithm for the bidiagonal SVD" (1995); LAPACK's `lasd2`.

use std::iter::zip;

use pulp::Arch;

use super::golub_kahan::GolubKahan;
use super::secular::Secular;
use super::{BOTH, Extent, Joint, Vectors, WHOLE, smallest};
use crate::cpu::{chunks, for_each};
use crate::linalg::batch::Large;
use crate::linalg::eigh::ascending;
use crate::linalg::numbers::Numbers;
use crate::linalg::tiles::row_step;

/// What [`divide_bidiagonal`] computes.
pub(in crate::linalg) struct Singular<T> {
    /// The numbers of the values in ascending order.
    pub(in crate::linalg) order: Vec<usize>,
    /// The distance of the vectors, and elements of those of each side, if they are computed.
    pub(in crate::linalg) step: usize,
    pub(in crate::linalg) left: Vec<T>,
    pub(in crate::linalg) right: Vec<T>,
}

/// Makes the diagonal of an upper bidiagonal matrix its singular values. `beside` are the elements beside the diagonal, of
/// which the last is zero.
///
/// A part is a matrix of one more column than rows, and so has one more right vector than values, which is the last one.
/// Between two parts there is a row whose only elements are in the last column of one and the first of the other.
pub(in crate::linalg) fn divide_bidiagonal<T: Large>(
    values: &mut Vec<T>,
    beside: &[T],
    extent: Extent,
) -> Singular<T> {
    let zero = T::of(0.0);
    values.push(zero);
    let n = values.len();
    let diagonal = values.clone();
    let (step, rows) = match extent {
        Extent::All => (row_step(n), n),
        Extent::Ends => (2, 0),
    };
    let mut own = Singular {
        order: vec![0; n],
        step,
        left: vec![zero; rows * step],
        right: vec![zero; n * step],
    };
    // Of all parts of a size together, and their results.
    let all = |own: &mut Singular<T>,
               values: &mut [T],
               width: usize,
               each: &(dyn Fn(usize, Part<'_, T>) + Sync)| {
        let others = (chunks(values, width), chunks(&mut own.order, width));
        let right = chunks(&mut own.right, width * step);
        let threads = width < WHOLE;
        match extent {
            Extent::All => {
                let both = (chunks(&mut own.left, width * step), right);
                for_each((both, others), threads, 1, &|i, ((left, right), others)| {
                    each(i * width, Part::new(extent, step, left, right, others));
                });
            }
            Extent::Ends => {
                for_each((right, others), threads, 1, &|i, (right, others)| {
                    each(i * width, Part::new(extent, step, &mut [], right, others));
                });
            }
        }
    };
    let mut width = smallest(n);
    all(&mut own, values, width, &|first, part| {
        part.solve(first, &beside[first..]);
    });
    while width < n {
        all(&mut own, values, 2 * width, &|first, part| {
            if part.values.len() > width {
                let middle = first + width - 1;
                part.join(first, width, [diagonal[middle], beside[middle]]);
            }
        });
        width *= 2;
    }
    values.pop();
    own.order.pop();
    own
}

/// Neighbouring rows and columns of the matrix.
struct Part<'a, T> {
    extent: Extent,
    step: usize,
    /// The singular vectors, which are `step` apart.
    left: &'a mut [T],
    right: &'a mut [T],
    /// The singular values, and their numbers in ascending order. The last of each counts for nothing.
    values: &'a mut [T],
    order: &'a mut [usize],
}

impl<'a, T: Large> Part<'a, T> {
    fn new(
        extent: Extent,
        step: usize,
        left: &'a mut [T],
        right: &'a mut [T],
        (values, order): (&'a mut [T], &'a mut [usize]),
    ) -> Self {
        Self {
            extent,
            step,
            left,
            right,
            values,
            order,
        }
    }

    /// Computes a small one, whose first row has this number.
    fn solve(self, first: usize, beside: &[T]) {
        let (n, step) = (self.values.len(), self.step);
        let mut left = vec![T::of(0.0); n * n];
        left.iter_mut().step_by(n + 1).for_each(|x| *x = T::of(1.0));
        let mut right = left.clone();
        let mut beside = beside[..n - 1].to_vec();
        beside.push(T::of(0.0));
        // Of its last row there is nothing.
        self.values[n - 1] = T::of(0.0);
        Arch::new().dispatch(GolubKahan {
            diagonal: &mut *self.values,
            beside: &mut beside,
            left: &mut left,
            right: &mut right,
        });
        for (own, rows) in [(self.left, left), (self.right, right)] {
            for (own, row) in zip(own.chunks_exact_mut(step), rows.chunks_exact(n)) {
                match self.extent {
                    Extent::All => own[first..][..n].copy_from_slice(row),
                    Extent::Ends => own.copy_from_slice(&[row[0], row[n - 1]]),
                }
            }
        }
        self.order[..n - 1].copy_from_slice(&ascending(&self.values[..n - 1]));
    }

    /// Joins two parts between which there is a row of these elements. The upper one has `half` columns.
    fn join(self, first: usize, half: usize, middle: [T; 2]) {
        let Self {
            extent,
            step,
            left,
            right,
            values,
            order,
        } = self;
        let (zero, n) = (T::of(0.0), values.len());
        let (ends, of_right, of_left, inner) = match extent {
            Extent::All => (
                first,
                [half, n - half],
                [half, n - half],
                [first + half - 1, first + half],
            ),
            Extent::Ends => (0, [1, 1], [0, 0], [1, 0]),
        };
        let mut largest = zero;
        for &x in values.iter().chain(&middle) {
            largest = Numbers::max(largest, Numbers::abs(x));
        }
        // The squares of numbers near 1 neither overflow nor underflow.
        let unit = match largest > zero {
            true => Numbers::max(largest.binade(), T::least() * T::epsilon()),
            false => T::of(1.0),
        };
        values.iter_mut().for_each(|x| *x /= unit);
        let mut z: Vec<T> = (0..n)
            .map(|i| {
                let of_lower = usize::from(i >= half);
                middle[of_lower] / unit * right[i * step + inner[of_lower]]
            })
            .collect();
        if extent == Extent::Ends {
            for (i, row) in right.chunks_exact_mut(step).enumerate() {
                row[if i < half { 1 } else { 0 }] = zero;
            }
        }
        let mut right = Vectors {
            memory: right,
            step,
            first: ends,
            widths: of_right,
        };
        let mut left = Vectors {
            memory: left,
            step,
            first: ends,
            widths: of_left,
        };
        // Of the two right vectors without a value, one takes all, and the row is its left one.
        let [own, last] = [half - 1, n - 1];
        let length = z[own].hypot(z[last]);
        if length > T::least() {
            right.rotate([last, own], [z[own] / length, z[last] / length]);
        }
        (z[own], z[last]) = (length, zero);
        (values[own], values[last]) = (zero, zero);
        if extent == Extent::All {
            left.row(own)[half - 1] = T::of(1.0);
        }
        if largest == zero {
            return order[..n - 1].copy_from_slice(&ascending(&values[..n - 1]));
        }
        let least = T::of(4.0) * T::epsilon() * (largest / unit);
        let mut others: Vec<usize> = order[..half - 1].to_vec();
        others.extend(order[half..n - 1].iter().map(|&i| half + i));
        others.sort_by(|&i, &j| values[i].to_f64().total_cmp(&values[j].to_f64()));
        let mut joint = Joint::new(
            [values, &mut z],
            &others,
            half,
            (T::of(1.0), least),
            |which, turn| {
                right.rotate(which, turn);
                if extent == Extent::All {
                    left.rotate(which, turn);
                }
            },
        );
        // The pole at zero stays, and is not near the next one.
        z[own] = Numbers::max(z[own], least);
        if let Some(&next) = joint.kept.first() {
            values[next] = Numbers::max(values[next], T::of(0.5) * least);
        }
        joint.kept.insert(0, own);
        joint.sides[own] = BOTH;
        let [poles, mut weights] = [&*values, &z].map(|x| joint.of_kept(x));
        let roots = Secular::<true> {
            poles: &poles,
            weights: &mut weights,
            rho: 1.0,
        }
        .solve();
        let rest: Vec<T> = joint.left.iter().map(|&i| values[i]).collect();
        let places = joint.by_halves();
        let [poles, weights] =
            [&poles, &weights].map(|x| places.iter().map(|&i| x[i]).collect::<Vec<f64>>());
        let mut by = vec![zero; places.len() * places.len()];
        roots.vectors(&poles, &weights, &mut by);
        right.join(&joint, &by);
        if extent == Extent::All {
            roots.left_vectors(&poles, &weights, &mut by);
            left.join(&joint, &by);
        }
        for (value, new) in zip(&mut *values, roots.values().map(T::of).chain(rest)) {
            *value = new * unit;
        }
        order[..n - 1].copy_from_slice(&ascending(&values[..n - 1]));
    }
}
