//! The mean and the variance of each line.
//!
//! Both come from sums of the differences between elements and one number near them, and of the squares of these, in
//! one pass; where that number was not near, in a second one. Parts of a long line are merged.
//!
//! Source: T. Chan, G. Golub and R. LeVeque, "Updating formulae and a pairwise algorithm for computing sample
//! variances" (1979).

use std::iter::once;

use pulp::{Arch, NullaryFnOnce};
use smallvec::SmallVec;

use super::super::threads::{chunks, for_each};
use super::super::worth_threads;
use super::columns::Columns;
use super::lines::{FEW, Lines, SHARE, sums};
use super::{Arrangement, Real, ordered, put_back, spread};
use crate::Array;
use crate::dtype::with_float;
use crate::storage::list;

/// The number of elements of a long line that are summed by themselves.
const PART: usize = 1 << 15;

/// `[mean, variance]` of lines along `axes`, which are kept with size 1.
pub(in crate::cpu) fn moments(x: &Array, axes: &[usize]) -> [Array; 2] {
    with_float!(x.dtype(), T => moments_of_floats::<T>(x, axes))
}

fn moments_of_floats<T: Real>(x: &Array, axes: &[usize]) -> [Array; 2] {
    if x.size() == 0 {
        let reduced = x.shape().reduced(axes, true);
        return [0, 1].map(|_| Array::full(&reduced, T::narrow(f64::NAN).to_scalar()));
    }
    // Nothing is moved that can be read in the order of memory.
    let order = x.layout().order();
    let mut axes: SmallVec<[usize; 4]> = (0..order.len())
        .filter(|&place| axes.contains(&order[place]))
        .collect();
    axes.sort_unstable();
    let order: SmallVec<[isize; 4]> = order.iter().map(|&axis| axis as isize).collect();
    let x = x.permute(&order);
    let statistics = match Columns::of(x.shape(), &axes, None) {
        Some(columns) => columns.moments(true, &spread::<T>(&x.to_row_major())),
        None => {
            let arrangement = Arrangement::of(x.shape(), &axes, None);
            let x = ordered(&x, arrangement.order.as_deref());
            of_lines(arrangement.lines, &spread::<T>(&x))
        }
    };
    let reduced = x.shape().reduced(&axes, true);
    [0, 1].map(|k| {
        let elements = statistics.iter().map(|own| T::narrow(own[k])).collect();
        put_back(Array::from_vec::<T>(elements, &reduced), Some(&order))
    })
}

fn of_lines<T: Real>(lines: Lines, x: &[T]) -> Vec<[f64; 2]> {
    let mut statistics = list([0.0; 2], lines.count());
    let threads = worth_threads(x.len());
    if lines.pieces > 1 || lines.length <= PART {
        let together = lines.together();
        let least = (SHARE / (lines.size() * together)).max(1);
        for_each(
            chunks(&mut statistics, together),
            threads,
            least,
            &|i, out| {
                let first = i * together;
                Arch::new().dispatch(Moments {
                    lines,
                    x,
                    first,
                    out,
                });
            },
        );
        return statistics;
    }
    let each = lines.length.div_ceil(PART);
    let mut parts = list([0.0; 2], lines.count() * each);
    let part = |i: usize| {
        let line = &x[i / each * lines.length..][..lines.length];
        let first = i % each * PART;
        &line[first..(first + PART).min(line.len())]
    };
    for_each(chunks(&mut parts, 1), threads, 1, &|i, out| {
        let x = part(i);
        let lines = Lines {
            outer: 1,
            pieces: 1,
            inner: 1,
            length: x.len(),
        };
        Arch::new().dispatch(Moments {
            lines,
            x,
            first: 0,
            out,
        });
    });
    for (line, (own, parts)) in statistics.iter_mut().zip(parts.chunks(each)).enumerate() {
        let sizes = (line * each..).map(|i| part(i).len() as f64);
        *own = merged(parts.iter().copied().zip(sizes));
        if !own[1].is_finite() {
            let x = &x[line * lines.length..][..lines.length];
            *own = carefully(x.iter().map(|x| x.wide()), true);
        }
    }
    statistics
}

/// The mean and the variance of parts with these sizes together.
fn merged(parts: impl Iterator<Item = ([f64; 2], f64)>) -> [f64; 2] {
    let (mut all, mut mean, mut squares) = (0.0, 0.0, 0.0);
    for ([own, variance], count) in parts {
        let (before, difference) = (all, own - mean);
        all += count;
        mean += difference * (count / all);
        squares += variance * count + difference * difference * (before * count / all);
    }
    [mean, squares / all]
}

/// Computes the means and the variances of some lines.
struct Moments<'a, 'o, T> {
    lines: Lines,
    x: &'a [T],
    first: usize,
    out: &'o mut [[f64; 2]],
}

impl<T: Real> NullaryFnOnce for Moments<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (i, out) in self.out.iter_mut().enumerate() {
            let line = self.first + i;
            // A loop over one piece is known to be none.
            *out = match self.lines.pieces {
                1 => moments_of(
                    true,
                    once(&self.x[line * self.lines.length..][..self.lines.length]),
                ),
                _ => moments_of(true, self.lines.pieces(self.x, line)),
            };
        }
    }
}

/// The mean and the variance of a line of pieces. Without `centered` the mean is taken to be zero.
#[inline(always)]
pub(super) fn moments_of<'a, T: Real>(
    centered: bool,
    pieces: impl Iterator<Item = &'a [T]> + Clone,
) -> [f64; 2] {
    let count = pieces.clone().map(<[T]>::len).sum::<usize>() as f64;
    let origin = origin(centered, pieces.clone());
    if T::IS_SINGLE
        && let Some(found) = in_floats(centered, pieces.clone(), count, origin)
    {
        return found;
    }
    let mut origin = origin.wide();
    let mut found = [0.0; 2];
    for _ in 0..2 {
        let sums = sums_of(
            pieces.clone(),
            #[inline(always)]
            |x: T| {
                let x = x.wide() - origin;
                [x, x * x]
            },
        );
        found = of_sums(centered, origin, sums, count);
        // Of single precision enough is left.
        if T::IS_SINGLE || !centered || !is_far(origin, found) {
            break;
        }
        origin = found[0];
    }
    match T::IS_SINGLE || found[1].is_finite() {
        true => found,
        false => carefully(pieces.flatten().map(|x| x.wide()), centered),
    }
}

/// The same from sums of floats, or `None` if squares are out of the range in which they can be told from
/// those that were rounded to zero or are too large.
#[inline(always)]
fn in_floats<'a, T: Real>(
    centered: bool,
    pieces: impl Iterator<Item = &'a [T]> + Clone,
    count: f64,
    mut origin: T,
) -> Option<[f64; 2]> {
    for _ in 0..2 {
        let sums = sums_of(
            pieces.clone(),
            #[inline(always)]
            |x: T| {
                let x = x - origin;
                [x, x * x]
            },
        );
        if !(1e-20..1e30).contains(&(sums[1] / count)) {
            return None;
        }
        let found = of_sums(centered, origin.wide(), sums, count);
        if !centered || !is_far(origin.wide(), found) {
            return Some(found);
        }
        origin = T::narrow(found[0]);
    }
    None
}

/// The mean of a few elements of a line, if it is finite and the line is centred.
#[inline(always)]
fn origin<'a, T: Real>(centered: bool, mut pieces: impl Iterator<Item = &'a [T]>) -> T {
    let first = pieces.next().expect("a line has elements");
    let first = &first[..first.len().min(FEW)];
    let mean = first.iter().map(|x| x.wide()).sum::<f64>() / first.len() as f64;
    match centered && T::narrow(mean).wide().is_finite() {
        true => T::narrow(mean),
        false => T::ZERO,
    }
}

/// Whether too little may be left of squares when that of the mean is subtracted.
#[inline(always)]
pub(super) fn is_far(origin: f64, [mean, variance]: [f64; 2]) -> bool {
    variance.is_finite() && (mean - origin).powi(2) > variance
}

/// The sums of two functions of the elements of a line.
#[inline(always)]
fn sums_of<'a, T: Real, S: Real>(
    pieces: impl Iterator<Item = &'a [T]>,
    f: impl Fn(T) -> [S; 2],
) -> [f64; 2] {
    pieces.fold(
        [0.0; 2],
        #[inline(always)]
        |total, x| {
            let [a, b] = sums(x, &f);
            [total[0] + a, total[1] + b]
        },
    )
}

/// The mean and the variance of a line, from the sums of what its elements differ from some element of
/// it, and of the squares of that.
///
/// They lose as little as squares of differences from the mean: at most as many bits as the number of
/// elements has, if the element is far away from all others.
#[inline(always)]
pub(super) fn of_sums(
    centered: bool,
    origin: f64,
    [sum, squares]: [f64; 2],
    count: f64,
) -> [f64; 2] {
    if !centered {
        return [0.0, squares / count];
    }
    let offset = sum / count;
    // The squares of finite elements may be beyond all numbers, and so is the variance then.
    let variance = match squares == f64::INFINITY && sum.is_finite() {
        true => squares,
        false => (squares - sum * offset) / count,
    };
    [origin + offset, if variance < 0.0 { 0.0 } else { variance }]
}

/// The mean and the variance of doubles whose sums may be beyond all numbers.
#[cold]
pub(super) fn carefully(x: impl Iterator<Item = f64> + Clone, centered: bool) -> [f64; 2] {
    // A power of two; what it rounds to zero is nothing beside elements whose sums are infinite.
    let unit = 2f64.powi(-600);
    // Elements that are equal have no variance, not even by rounding.
    let origin = match x.clone().next() {
        Some(first) if centered && first.is_finite() => first * unit,
        _ => 0.0,
    };
    let count = x.clone().count() as f64;
    let differences = x.map(|x| x * unit - origin);
    let mean = match centered {
        true => differences.clone().sum::<f64>() / count,
        false => 0.0,
    };
    let squares: f64 = differences.map(|x| (x - mean).powi(2)).sum();
    [(origin + mean) / unit, squares / count / unit / unit]
}
