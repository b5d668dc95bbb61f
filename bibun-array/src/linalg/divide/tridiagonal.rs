//! Source: J. Cuppen, "A divide and conquer method for the symmetric tridiagonal eigenproblem" (1981); M. Gu and
//! S. Eisenstat, "A divide-and-conquer algorithm for the symmetric tridiagonal eigenproblem" (1995); LAPACK's `laed2`.

use std::iter::zip;

use pulp::Arch;

use super::ql::Ql;
use super::secular::Secular;
use super::{Extent, Joint, Vectors, WHOLE, smallest};
use crate::cpu::{chunks, for_each};
use crate::linalg::batch::Large;
use crate::linalg::eigh::ascending;
use crate::linalg::numbers::Numbers;
use crate::linalg::tiles::row_step;

/// Makes the diagonal of a tridiagonal matrix its eigenvalues, and returns their order and elements of the
/// eigenvectors, which are in rows that are [`row_step`] apart if all are computed.
pub(in crate::linalg) fn divide_tridiagonal<T: Large>(
    values: &mut [T],
    beside: &[T],
    extent: Extent,
) -> (Vec<usize>, Vec<T>) {
    let n = values.len();
    let mut width = smallest(n);
    for cut in (width..n).step_by(width) {
        let size = Numbers::abs(beside[cut - 1]);
        values[cut - 1] -= size;
        values[cut] -= size;
    }
    let step = match extent {
        Extent::All => row_step(n),
        Extent::Ends => 2,
    };
    let mut rows = vec![T::of(0.0); n * step];
    let mut order = vec![0; n];
    // Of all matrices of an order together, and their results.
    let all = |width: usize,
               rows: &mut [T],
               values: &mut [T],
               order: &mut [usize],
               each: &(dyn Fn(usize, Part<'_, T>) + Sync)| {
        let own = (
            chunks(rows, width * step),
            (chunks(values, width), chunks(order, width)),
        );
        for_each(own, width < WHOLE, 1, &|i, (rows, (values, order))| {
            let part = Part {
                rows,
                step,
                values,
                order,
                extent,
            };
            each(i * width, part);
        });
    };
    all(width, &mut rows, values, &mut order, &|first, part| {
        part.solve(first, &beside[first..]);
    });
    while width < n {
        all(2 * width, &mut rows, values, &mut order, &|first, part| {
            if part.values.len() > width {
                part.join(first, width, beside[first + width - 1]);
            }
        });
        width *= 2;
    }
    (order, rows)
}

/// Neighbouring rows and columns of the matrix.
struct Part<'a, T> {
    /// The eigenvectors, which are `step` apart.
    rows: &'a mut [T],
    step: usize,
    /// The eigenvalues, and their numbers in ascending order.
    values: &'a mut [T],
    order: &'a mut [usize],
    extent: Extent,
}

impl<T: Large> Part<'_, T> {
    /// Computes a small one, whose first row has this number.
    fn solve(self, first: usize, beside: &[T]) {
        let n = self.values.len();
        let mut rows = vec![T::of(0.0); n * n];
        rows.iter_mut().step_by(n + 1).for_each(|x| *x = T::of(1.0));
        let mut beside = beside[..n].to_vec();
        Arch::new().dispatch(Ql {
            diagonal: &mut *self.values,
            beside: &mut beside,
            rows: &mut rows,
        });
        for (own, row) in zip(self.rows.chunks_exact_mut(self.step), rows.chunks_exact(n)) {
            match self.extent {
                Extent::All => own[first..][..n].copy_from_slice(row),
                Extent::Ends => own.copy_from_slice(&[row[0], row[n - 1]]),
            }
        }
        self.order.copy_from_slice(&ascending(self.values));
    }

    /// Joins two halves between which there is the element `beside`. The upper one has `half` values.
    fn join(self, first: usize, half: usize, beside: T) {
        let Self {
            rows,
            step,
            values,
            order,
            extent,
        } = self;
        let (zero, n) = (T::of(0.0), values.len());
        // Of each half, the elements next to the other half are what is joined, and the others stay.
        let (first, widths, inner) = match extent {
            Extent::All => (first, [half, n - half], [first + half - 1, first + half]),
            Extent::Ends => (0, [1, 1], [1, 0]),
        };
        let scale = T::of(0.5f64.sqrt());
        let signed = if beside < zero { -scale } else { scale };
        let mut z: Vec<T> = (0..n)
            .map(|i| match i < half {
                true => rows[i * step + inner[0]] * scale,
                false => rows[i * step + inner[1]] * signed,
            })
            .collect();
        if extent == Extent::Ends {
            for (i, row) in rows.chunks_exact_mut(step).enumerate() {
                row[if i < half { 1 } else { 0 }] = zero;
            }
        }
        let rho = Numbers::abs(beside) * T::of(2.0);
        order[half..].iter_mut().for_each(|i| *i += half);
        order.sort_by(|&i, &j| values[i].to_f64().total_cmp(&values[j].to_f64()));
        let mut largest = zero;
        for &x in values.iter().chain(&z) {
            largest = Numbers::max(largest, Numbers::abs(x));
        }
        let least = T::of(4.0) * T::epsilon() * largest;
        let mut vectors = Vectors {
            memory: rows,
            step,
            first,
            widths,
        };
        let mut joint = Joint::new(
            [values, &mut z],
            order,
            half,
            (rho, least),
            |which, turn| vectors.rotate(which, turn),
        );
        if joint.kept.is_empty() {
            return order.copy_from_slice(&ascending(values));
        }
        let [poles, mut weights] = [&*values, &z].map(|x| joint.of_kept(x));
        let roots = Secular::<false> {
            poles: &poles,
            weights: &mut weights,
            rho: rho.to_f64(),
        }
        .solve();
        let left: Vec<T> = joint.left.iter().map(|&i| values[i]).collect();
        let places = joint.by_halves();
        let [poles, weights] =
            [&poles, &weights].map(|x| places.iter().map(|&i| x[i]).collect::<Vec<f64>>());
        let mut by = vec![zero; places.len() * places.len()];
        roots.vectors(&poles, &weights, &mut by);
        vectors.join(&joint, &by);
        for (value, new) in zip(&mut *values, roots.values().map(T::of).chain(left)) {
            *value = new;
        }
        order.copy_from_slice(&ascending(values));
    }
}
