//! The mean and the variance of each line.
//!
//! Both come from sums of the differences between elements and one number near them, and of the squares of these, in
//! one pass; where that number was not near, in a second one.
//!
//! Source: T. Chan, G. Golub and R. LeVeque, "Algorithms for computing the sample variance: analysis and
//! recommendations" (1983), where the differences are called shifted data.

use pulp::{Arch, NullaryFnOnce};
use smallvec::SmallVec;

use super::super::threads::{Sharing, chunks, for_each};
use super::columns::Columns;
use super::lines::{FEW, Lines, SHARE, for_pieces, sums};
use super::{Arrangement, Real, ordered, put_back, spread};
use crate::Array;
use crate::dtype::with_float;
use crate::storage::list;

/// The number of elements of one of a few long lines that are summed by themselves.
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
    if lines.pieces == 1 && lines.length > PART && lines.count() < FEW {
        for (x, out) in x.chunks_exact(lines.length).zip(&mut statistics) {
            *out = moments_of(true, &InParts(x));
        }
        return statistics;
    }
    let together = lines.together();
    let least = (SHARE / (lines.size() * together)).max(1);
    let out = chunks(&mut statistics, together);
    for_each(out, Sharing::of(x.len()), least, &|i, out| {
        let first = i * together;
        Arch::new().dispatch(Moments {
            lines,
            x,
            first,
            out,
        });
    });
    statistics
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
            *out = moments_of(
                true,
                &InPieces::of(self.lines, self.lines.pieces(self.x, self.first + i)),
            );
        }
    }
}

/// The elements of a line.
pub(super) trait Elements<'a, T: Real> {
    fn count(&self) -> usize;
    /// Some elements, at least one.
    fn some(&self) -> &'a [T];
    fn all(&self) -> impl Iterator<Item = f64> + Clone;
    /// The sum of what all differ from a number, and that of the squares of it, where S is the precision of differences
    /// and squares.
    fn sums<S: Real>(&self, origin: S) -> [f64; 2];
}

/// A line of pieces.
pub(super) struct InPieces<I> {
    pieces: I,
    are_short: bool,
}

impl<I> InPieces<I> {
    #[inline(always)]
    pub(super) fn of(lines: Lines, pieces: I) -> Self {
        let are_short = lines.are_of_short_pieces();
        Self { pieces, are_short }
    }
}

impl<'a, T: Real, I: Iterator<Item = &'a [T]> + Clone> Elements<'a, T> for InPieces<I> {
    #[inline(always)]
    fn count(&self) -> usize {
        self.pieces.clone().map(<[T]>::len).sum()
    }
    #[inline(always)]
    fn some(&self) -> &'a [T] {
        self.pieces.clone().next().expect("a line has elements")
    }
    fn all(&self) -> impl Iterator<Item = f64> + Clone {
        self.pieces.clone().flatten().map(|x| x.wide())
    }
    #[inline(always)]
    fn sums<S: Real>(&self, origin: S) -> [f64; 2] {
        if self.are_short {
            return Arch::new().dispatch(SumsOfPieces(self.pieces.clone(), origin));
        }
        let mut total = [0.0; 2];
        // PERF: a function that is not inlined, as `fold`, has no wide vectors.
        for x in self.pieces.clone() {
            let [a, b] = sums_of_differences(x, origin);
            total = [total[0] + a, total[1] + b];
        }
        total
    }
}

/// Computes the sums of a line of several short pieces.
// PERF: a function of its own, because its loops make those of other lines slower where they are inlined.
struct SumsOfPieces<I, S>(I, S);

impl<'a, T: Real, S: Real, I: Iterator<Item = &'a [T]>> NullaryFnOnce for SumsOfPieces<I, S> {
    type Output = [f64; 2];

    #[inline(always)]
    fn call(self) -> [f64; 2] {
        let Self(pieces, origin) = self;
        let mut total = [0.0; 2];
        for_pieces(
            pieces.map(|x| [x]),
            #[inline(always)]
            |[x]| {
                let own = sums_of_differences(x, origin);
                total = [total[0] + own[0], total[1] + own[1]];
            },
        );
        total
    }
}

/// One of a few long lines, whose parts threads share.
struct InParts<'a, T>(&'a [T]);

impl<'a, T: Real> Elements<'a, T> for InParts<'a, T> {
    fn count(&self) -> usize {
        self.0.len()
    }
    fn some(&self) -> &'a [T] {
        self.0
    }
    fn all(&self) -> impl Iterator<Item = f64> + Clone {
        self.0.iter().map(|x| x.wide())
    }
    fn sums<S: Real>(&self, origin: S) -> [f64; 2] {
        let x = self.0;
        let mut parts = list([0.0; 2], x.len().div_ceil(PART));
        for_each(chunks(&mut parts, 1), Sharing::of(x.len()), 1, &|i, out| {
            let x = &x[i * PART..((i + 1) * PART).min(x.len())];
            out[0] = Arch::new().dispatch(Sums { x, origin });
        });
        (parts.iter()).fold([0.0; 2], |sums, part| {
            [sums[0] + part[0], sums[1] + part[1]]
        })
    }
}

/// Computes the sums of one part.
struct Sums<'a, T, S> {
    x: &'a [T],
    origin: S,
}

impl<T: Real, S: Real> NullaryFnOnce for Sums<'_, T, S> {
    type Output = [f64; 2];

    #[inline(always)]
    fn call(self) -> [f64; 2] {
        sums_of_differences(self.x, self.origin)
    }
}

#[inline(always)]
fn sums_of_differences<T: Real, S: Real>(x: &[T], origin: S) -> [f64; 2] {
    sums(
        x,
        #[inline(always)]
        |x| {
            let x = S::narrow(x.wide()) - origin;
            [x, x * x]
        },
    )
}

/// The mean and the variance of a line. Without `centered` the mean is taken to be zero.
#[inline(always)]
pub(super) fn moments_of<'a, T: Real>(centered: bool, x: &impl Elements<'a, T>) -> [f64; 2] {
    let count = x.count() as f64;
    let mut origin = origin(centered, x.some());
    if T::IS_SINGLE {
        for _ in 0..2 {
            let sums = x.sums::<T>(origin);
            // Squares beyond this cannot be told from those that were rounded to zero or are too large.
            if !(1e-20..1e30).contains(&(sums[1] / count)) {
                break;
            }
            let found = of_sums(centered, origin.wide(), sums, count);
            if !centered || !is_far(origin.wide(), found) {
                return found;
            }
            origin = T::narrow(found[0]);
        }
    }
    let mut origin = origin.wide();
    let mut found = of_sums(centered, origin, x.sums(origin), count);
    // Of single precision enough is left.
    if T::IS_SINGLE {
        return found;
    }
    if centered && is_far(origin, found) {
        origin = found[0];
        found = of_sums(centered, origin, x.sums(origin), count);
    }
    match found[1].is_finite() {
        true => found,
        false => carefully(x.all(), centered),
    }
}

/// The mean of a few elements of a line, if it is finite and the line is centred.
#[inline(always)]
fn origin<T: Real>(centered: bool, x: &[T]) -> T {
    let first = &x[..x.len().min(FEW)];
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
