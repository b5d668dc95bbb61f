//! Eigenvalues and eigenvectors of tridiagonal matrices, by dividing them.
//!
//! A matrix becomes two halves and a matrix of rank one, and the eigenvectors of the halves make it a diagonal matrix and
//! one of rank one. What is nearly an eigenvector already is left alone, and the others are multiplied with those
//! that are found, by products of matrices, which threads share. The sizes alone decide how it is divided, and
//! products have the same bits for any number of threads.
//!
//! Source: J. Cuppen, "A divide and conquer method for the symmetric tridiagonal eigenproblem" (1981); M. Gu and
//! S. Eisenstat, "A divide-and-conquer algorithm for the symmetric tridiagonal eigenproblem" (1995); LAPACK's `laed2`.

use std::iter::zip;

use pulp::Arch;

use super::batch::Large;
use super::blocked::{multiply, row_step};
use super::eigh::ascending;
use super::numbers::Numbers;
use super::ql::Ql;
use super::secular::Secular;
use crate::cpu::matmul::Matrix;
use crate::cpu::{chunks, for_each};

/// The largest order of a matrix that is not divided, and that of matrices that threads share one by one.
const LEAF: usize = 24;
const WHOLE: usize = 256;

/// Which elements of the eigenvectors are computed: all, or the first and the last one, of which eigenvalues
/// are made.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Extent {
    All,
    Ends,
}

/// Makes the diagonal of a tridiagonal matrix its eigenvalues, and returns their order and elements of the
/// eigenvectors, which are in rows that are [`row_step`] apart if all are computed.
pub(super) fn divide<T: Large>(
    values: &mut [T],
    beside: &[T],
    extent: Extent,
) -> (Vec<usize>, Vec<T>) {
    let n = values.len();
    let mut parts = 1;
    while n.div_ceil(parts) > LEAF {
        parts *= 2;
    }
    let mut width = n.div_ceil(parts);
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
            let first = i * width;
            let column = if extent == Extent::All { first } else { 0 };
            let part = Part {
                rows,
                step,
                column,
                values,
                order,
            };
            each(first, part);
        });
    };
    all(width, &mut rows, values, &mut order, &|first, part| {
        part.solve(&beside[first..], extent);
    });
    while width < n {
        all(2 * width, &mut rows, values, &mut order, &|first, part| {
            if part.values.len() > width {
                part.join(width, beside[first + width - 1], extent);
            }
        });
        width *= 2;
    }
    (order, rows)
}

/// Neighbouring rows and columns of the matrix.
struct Part<'a, T> {
    /// The eigenvectors, which are `step` apart, and the number of their first column.
    rows: &'a mut [T],
    step: usize,
    column: usize,
    /// The eigenvalues, and their numbers in ascending order.
    values: &'a mut [T],
    order: &'a mut [usize],
}

/// The halves in which a vector has elements.
const UPPER: u8 = 1;
const LOWER: u8 = 2;

impl<T: Large> Part<'_, T> {
    /// Computes a small one.
    fn solve(self, beside: &[T], extent: Extent) {
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
            match extent {
                Extent::All => own[self.column..][..n].copy_from_slice(row),
                Extent::Ends => own.copy_from_slice(&[row[0], row[n - 1]]),
            }
        }
        self.order.copy_from_slice(&ascending(self.values));
    }

    /// Joins two halves between which there is the element `beside`. The first one has `half` values.
    fn join(self, half: usize, beside: T, extent: Extent) {
        let Self {
            rows,
            step,
            column,
            values,
            order,
        } = self;
        let (zero, n) = (T::of(0.0), values.len());
        // Of each half, the elements next to the other half are what is joined, and the others stay.
        let (widths, inner) = match extent {
            Extent::All => ([half, n - half], [column + half - 1, column + half]),
            Extent::Ends => ([1, 1], [1, 0]),
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
        let width = widths[0] + widths[1];
        let mut sides: Vec<u8> = (0..n)
            .map(|i| if i < half { UPPER } else { LOWER })
            .collect();
        let [mut kept, mut left] = [Vec::with_capacity(n), Vec::with_capacity(n)];
        let largest = values
            .iter()
            .chain(&z)
            .fold(zero, |most, &x| Numbers::max(most, Numbers::abs(x)));
        let least = T::of(4.0) * T::epsilon() * largest;
        for &next in &*order {
            if rho * Numbers::abs(z[next]) <= least {
                left.push(next);
                continue;
            }
            if let Some(last) = kept.last_mut() {
                let own = *last;
                // Of two that are nearly equal, a rotation makes one an eigenvector.
                let length = z[own].hypot(z[next]);
                let (cosine, sine) = (z[next] / length, z[own] / length);
                let gap = values[next] - values[own];
                if Numbers::abs(gap * cosine * sine) <= least {
                    (z[own], z[next]) = (zero, length);
                    let (low, high) = (values[own], values[next]);
                    let [c, s] = [cosine * cosine, sine * sine];
                    (values[own], values[next]) = (low * c + high * s, low * s + high * c);
                    let [first, second] = [own.min(next), own.max(next)];
                    let (upper, lower) = rows.split_at_mut(second * step);
                    let (x, y) = (
                        &mut upper[first * step + column..][..width],
                        &mut lower[column..][..width],
                    );
                    let sine = if own < next { sine } else { -sine };
                    for (x, y) in zip(x, y) {
                        (*x, *y) = (cosine * *x - sine * *y, sine * *x + cosine * *y);
                    }
                    sides[next] |= sides[own];
                    left.push(own);
                    *last = next;
                    continue;
                }
            }
            kept.push(next);
        }
        let poles: Vec<T> = kept.iter().map(|&i| values[i]).collect();
        let mut weights: Vec<T> = kept.iter().map(|&i| z[i]).collect();
        let left_values: Vec<T> = left.iter().map(|&i| values[i]).collect();
        if kept.is_empty() {
            return;
        }
        let roots = Secular {
            poles: &poles,
            weights: &mut weights,
            rho,
        }
        .solve();
        // Those of the upper half first, then those of both.
        let mut places: Vec<usize> = (0..kept.len()).collect();
        places.sort_by_key(|&i| match sides[kept[i]] {
            UPPER => 0,
            LOWER => 2,
            _ => 1,
        });
        let count = kept.len();
        let of_upper = kept.iter().filter(|&&i| sides[i] == UPPER).count();
        let of_lower = kept.iter().filter(|&&i| sides[i] == LOWER).count();
        let [poles, weights] =
            [&poles, &weights].map(|x| places.iter().map(|&i| x[i]).collect::<Vec<T>>());
        let mut vectors = vec![zero; count * count];
        roots.vectors(&poles, &weights, &mut vectors);
        let vectors = Matrix::of_rows(&vectors, count);
        let copies =
            |which: &mut dyn Iterator<Item = usize>, from: usize, width: usize| -> Vec<T> {
                which
                    .flat_map(|i| rows[i * step + from..][..width].iter().copied())
                    .collect()
            };
        let lower = column + widths[0];
        let before = copies(
            &mut places[..count - of_lower].iter().map(|&i| kept[i]),
            column,
            widths[0],
        );
        let after = copies(
            &mut places[of_upper..].iter().map(|&i| kept[i]),
            lower,
            widths[1],
        );
        let others = copies(&mut left.iter().copied(), column, width);
        for (from, width, memory, first) in [
            (column, widths[0], &before, 0),
            (lower, widths[1], &after, of_upper),
        ] {
            let sizes = [count, width, memory.len() / width];
            let own = Matrix {
                memory: &vectors.memory[first..],
                ..vectors
            };
            multiply(
                &mut rows[from..],
                step,
                sizes,
                own,
                Matrix::of_rows(memory, width),
            );
        }
        for (row, other) in zip(
            rows[count * step..].chunks_exact_mut(step),
            others.chunks_exact(width),
        ) {
            row[column..][..width].copy_from_slice(other);
        }
        for (value, new) in zip(&mut *values, roots.values().chain(left_values)) {
            *value = new;
        }
        order.copy_from_slice(&ascending(values));
    }
}
