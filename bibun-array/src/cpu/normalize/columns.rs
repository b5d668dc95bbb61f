//! Lines side by side: a row of memory has one element of each.

use std::ops::Range;

use pulp::{Arch, NullaryFnOnce};

use super::super::threads::{Sharing, chunks, for_each};
use super::lines::{FEW, LANES, Lines, SHARE};
use super::moments::{carefully, is_far, of_sums};
use super::{Line, Real};
use crate::Shape;
use crate::device::Normalization;
use crate::storage::list;

/// The most parts whose sums are added to each other, if there is one table.
const PARTS: usize = 32;

/// What is called with the number of a chunk of rows, the range of its elements, and its part of a
/// result.
type Each<'a, T> = dyn Fn(usize, Range<usize>, &mut [T]) + Sync + 'a;

/// The lines of a row-major array `[outer, rows, width]` along the rows.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    lines: Lines,
    /// The number of rows that are summed before their sums are added to those of others: all, if
    /// there are several tables.
    together: usize,
}

impl Columns {
    /// The columns of an array that is normalised along `axes`, or `None` if it has other lines, or
    /// columns with several scales each.
    pub(super) fn of(shape: &Shape, axes: &[usize], scale: Option<&Shape>) -> Option<Self> {
        let lines = Lines::of(shape, axes)?;
        let is_same = scale.is_none_or(|scale| axes.iter().all(|&axis| scale[axis] == 1));
        let is_table = lines.length == 1 && lines.pieces > 1 && lines.inner >= FEW;
        let together = match lines.outer {
            1 => ((SHARE / lines.inner).max(lines.pieces.div_ceil(PARTS)))
                .clamp(FEW, lines.pieces.max(FEW)),
            _ => lines.pieces,
        };
        (is_table && is_same).then_some(Self { lines, together })
    }

    pub(super) const fn lines(&self) -> Lines {
        self.lines
    }

    /// The elements of the rows that are summed together.
    fn chunk(&self) -> usize {
        self.together * self.lines.inner
    }

    /// The lines of a chunk of rows.
    fn lines_of(&self, chunk: usize) -> Range<usize> {
        let (outer, width) = (self.lines.outer, self.lines.inner);
        let table = if outer == 1 { 0 } else { chunk };
        table * width..(table + 1) * width
    }

    /// Calls `each` for all chunks of rows: with its number, its range of elements, and its part of
    /// `out`, which has this many elements for each chunk.
    fn for_chunks<T: Send>(&self, size: usize, out: &mut [T], each_out: usize, each: &Each<'_, T>) {
        let chunk = self.chunk();
        let least = (SHARE / chunk).max(1);
        for_each(
            chunks(out, each_out),
            Sharing::of(size),
            least,
            &|i, out| {
                each(i, i * chunk..((i + 1) * chunk).min(size), out);
            },
        );
    }

    /// The two sums of each line, from those of the columns of each chunk.
    fn sums(&self, size: usize, each: &Each<'_, f64>) -> [Vec<f64>; 2] {
        let width = self.lines.inner;
        let mut parts = list(0.0_f64, size.div_ceil(self.chunk()) * 2 * width);
        self.for_chunks(size, &mut parts, 2 * width, each);
        let mut sums = [0, 1].map(|_| list(0.0_f64, self.lines.count()));
        for (i, part) in parts.chunks(2 * width).enumerate() {
            for (sums, part) in sums.iter_mut().zip(part.chunks(width)) {
                let own = sums[self.lines_of(i)].iter_mut();
                own.zip(part).for_each(|(sum, part)| *sum += part);
            }
        }
        sums
    }

    /// The mean and the variance of each line.
    pub(super) fn moments<T: Real>(self, centered: bool, x: &[T]) -> Vec<[f64; 2]> {
        let width = self.lines.inner;
        let of_line = |line: usize| {
            let first = line / width * width * self.lines.pieces + line % width;
            (0..self.lines.pieces).map(move |row| x[first + row * width])
        };
        let mut origins: Vec<T> = (0..self.lines.count())
            .map(|line| match of_line(line).next() {
                Some(first) if centered && first.wide().is_finite() => first,
                _ => T::ZERO,
            })
            .collect();
        let mut found = self.moments_from(&origins, centered, x);
        // Of single precision enough is left.
        if T::IS_SINGLE {
            return found;
        }
        let mut are_far = false;
        for (found, origin) in found.iter().zip(&mut origins) {
            if centered && is_far(origin.wide(), *found) {
                *origin = T::narrow(found[0]);
                are_far = true;
            }
        }
        if are_far {
            found = self.moments_from(&origins, centered, x);
        }
        for (line, found) in found.iter_mut().enumerate() {
            if !found[1].is_finite() {
                *found = carefully(of_line(line).map(T::wide), centered);
            }
        }
        found
    }

    /// The same from the sums of what the elements of each line differ from its origin, and of the squares of that.
    fn moments_from<T: Real>(self, origins: &[T], centered: bool, x: &[T]) -> Vec<[f64; 2]> {
        let [sums, squares] = self.sums(x.len(), &|i, range, out| {
            let origins = &origins[self.lines_of(i)];
            Arch::new().dispatch(ColumnSums {
                x: [&x[range]],
                values: [origins],
                out,
                each: |[x]: [T; 1], [origin]: [T; 1]| {
                    let x = x.wide() - origin.wide();
                    [x, x * x]
                },
            });
        });
        let count = self.lines.size() as f64;
        (sums.iter().zip(squares).zip(origins))
            .map(|((&sum, squares), origin)| {
                of_sums(centered, origin.wide(), [sum, squares], count)
            })
            .collect()
    }

    /// Fills the normalised elements, and returns the mean and the variance of each line. A scale and
    /// a shift are given for each line.
    pub(super) fn normalize<T: Real>(
        self,
        rule: Normalization,
        x: &[T],
        scale: Option<&[T]>,
        shift: Option<&[T]>,
        out: &mut [T],
    ) -> Vec<[T; 2]> {
        let moments = self.moments(rule.centered, x).into_iter();
        let (statistics, factors): (Vec<[T; 2]>, Vec<T>) = moments
            .map(|own| {
                let factor = T::narrow(1.0 / (own[1] + rule.epsilon).sqrt());
                (own.map(T::narrow), factor)
            })
            .unzip();
        let means: Vec<T> = statistics.iter().map(|&[mean, _]| mean).collect();
        self.for_chunks(x.len(), out, self.chunk(), &|i, range, out| {
            let lines = self.lines_of(i);
            Arch::new().dispatch(NormalizeColumns {
                x: &x[range],
                means: &means[lines.clone()],
                factors: &factors[lines.clone()],
                scale: scale.map(|scale| &scale[lines.clone()]),
                shift: shift.map(|shift| &shift[lines.clone()]),
                out,
            });
        });
        statistics
    }

    /// Fills the cotangents of the elements, and returns the sums of the cotangents of each line when
    /// multiplied by normalised elements, and as they are.
    pub(super) fn gradient<T: Real>(
        self,
        rule: Normalization,
        [x, gy]: [&[T]; 2],
        statistics: [&[T]; 4],
        scale: Option<&[T]>,
        out: &mut [T],
    ) -> [Vec<f64>; 2] {
        let lines: Vec<Line<T>> = (0..self.lines.count())
            .map(|line| {
                let [mean, variance, gmean, gvariance] = statistics.map(|all| all[line]);
                Line::of(rule, [mean, variance], [gmean, gvariance])
            })
            .collect();
        let means: Vec<T> = lines.iter().map(|line| line.mean).collect();
        let factors: Vec<T> = lines.iter().map(|line| line.factor).collect();
        let [along, all] = self.sums(x.len(), &|i, range, out| {
            let lines = self.lines_of(i);
            Arch::new().dispatch(ColumnSums {
                x: [&x[range.clone()], &gy[range]],
                values: [&means[lines.clone()], &factors[lines]],
                out,
                each: |[x, gy]: [T; 2], [mean, factor]: [T; 2]| {
                    let normal = (x - mean) * factor;
                    [gy.wide() * normal.wide(), gy.wide()]
                },
            });
        });
        let scale = match scale {
            Some(scale) => scale.to_vec(),
            None => list(T::ONE, lines.len()),
        };
        let tilts = lines.iter().zip(&along).zip(&all).zip(&scale);
        let tilts = tilts.map(|(((line, along), all), scale)| {
            let scale = scale.wide();
            let [slope, shift] = line.tilt(self.lines.size(), [scale * all, scale * along]);
            (slope, shift)
        });
        let (slopes, shifts): (Vec<T>, Vec<T>) = tilts.unzip();
        self.for_chunks(x.len(), out, self.chunk(), &|i, range, out| {
            let lines = self.lines_of(i);
            let all = [&means, &factors, &scale, &slopes, &shifts];
            Arch::new().dispatch(GradientOfColumns {
                x: &x[range.clone()],
                gy: &gy[range],
                lines: all.map(|all| &all[lines.clone()]),
                out,
            });
        });
        [along, all]
    }
}

/// Computes two sums for each column of some rows, of a function of their elements and of values of
/// the columns. All first sums stand before the second ones.
struct ColumnSums<'a, 'o, T, F, const N: usize, const V: usize> {
    x: [&'a [T]; N],
    values: [&'a [T]; V],
    out: &'o mut [f64],
    each: F,
}

impl<T, F, const N: usize, const V: usize> ColumnSums<'_, '_, T, F, N, V>
where
    T: Real,
    F: Fn([T; N], [T; V]) -> [f64; 2],
{
    /// The sums of some columns.
    #[inline(always)]
    fn block<const W: usize>(&mut self, at: usize) {
        let width = self.values[0].len();
        let rows = self.x[0].len() / width;
        let values = self.values.map(|values| *chunk_of::<T, W>(values, at));
        let (mut a, mut b) = ([0.0; W], [0.0; W]);
        for row in 0..rows {
            let x = self.x.map(|x| chunk_of::<T, W>(x, row * width + at));
            for i in 0..W {
                let own = std::array::from_fn(
                    #[inline(always)]
                    |k| x[k][i],
                );
                let of_column = std::array::from_fn(
                    #[inline(always)]
                    |k| values[k][i],
                );
                let [first, second] = (self.each)(own, of_column);
                a[i] += first;
                b[i] += second;
            }
        }
        self.out[at..at + W].copy_from_slice(&a);
        self.out[width + at..width + at + W].copy_from_slice(&b);
    }
}

/// The `W` elements from a place on.
#[inline(always)]
fn chunk_of<T, const W: usize>(x: &[T], at: usize) -> &[T; W] {
    x[at..].first_chunk().expect("there are as many")
}

impl<T, F, const N: usize, const V: usize> NullaryFnOnce for ColumnSums<'_, '_, T, F, N, V>
where
    T: Real,
    F: Fn([T; N], [T; V]) -> [f64; 2],
{
    type Output = ();

    #[inline(always)]
    fn call(mut self) {
        let width = self.values[0].len();
        let mut at = 0;
        while at + LANES <= width {
            self.block::<LANES>(at);
            at += LANES;
        }
        while at + FEW <= width {
            self.block::<FEW>(at);
            at += FEW;
        }
        while at < width {
            self.block::<1>(at);
            at += 1;
        }
    }
}

/// Computes the normalised elements of some rows.
struct NormalizeColumns<'a, 'o, T> {
    x: &'a [T],
    means: &'a [T],
    factors: &'a [T],
    scale: Option<&'a [T]>,
    shift: Option<&'a [T]>,
    out: &'o mut [T],
}

impl<T: Real> NullaryFnOnce for NormalizeColumns<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let width = self.means.len();
        for (x, out) in (self.x.chunks_exact(width)).zip(self.out.chunks_exact_mut(width)) {
            let all = out.iter_mut().zip(x).zip(self.means).zip(self.factors);
            match (self.scale, self.shift) {
                (Some(scale), Some(shift)) => {
                    for (((((y, x), mean), factor), scale), shift) in all.zip(scale).zip(shift) {
                        *y = (*x - *mean) * *factor * *scale + *shift;
                    }
                }
                (Some(scale), None) => {
                    for ((((y, x), mean), factor), scale) in all.zip(scale) {
                        *y = (*x - *mean) * *factor * *scale;
                    }
                }
                (None, _) => {
                    for (((y, x), mean), factor) in all {
                        *y = (*x - *mean) * *factor;
                    }
                }
            }
        }
    }
}

/// Computes the cotangents of some rows, with the means, the factors, the scales, the slopes and the
/// terms of their columns.
struct GradientOfColumns<'a, 'o, T> {
    x: &'a [T],
    gy: &'a [T],
    lines: [&'a [T]; 5],
    out: &'o mut [T],
}

impl<T: Real> NullaryFnOnce for GradientOfColumns<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let [means, factors, scales, slopes, shifts] = self.lines;
        let width = means.len();
        let rows = (self.x.chunks_exact(width)).zip(self.gy.chunks_exact(width));
        for ((x, gy), out) in rows.zip(self.out.chunks_exact_mut(width)) {
            let all = out.iter_mut().zip(x).zip(gy).zip(means).zip(factors);
            let all = all.zip(scales).zip(slopes).zip(shifts);
            for (((((((gx, x), gy), mean), factor), scale), slope), shift) in all {
                let normal = (*x - *mean) * *factor;
                *gx = *gy * *scale * *factor + (normal * *slope + *shift);
            }
        }
    }
}
