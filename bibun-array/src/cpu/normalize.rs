//! Normalisation: each line of elements is read from memory once, and its results are computed
//! while it is in the cache.

use std::borrow::Cow;

use pulp::{Arch, NullaryFnOnce};
use smallvec::SmallVec;

use super::threads::{chunks, for_each};
use super::worth_threads;
use crate::device::Normalization;
use crate::dtype::with_float;
use crate::storage::list;
use crate::{Array, DType, Element, Shape, Slice, SliceMut};

/// The number of sums computed side by side.
const LANES: usize = 16;
/// The number of elements that are summed before their sum is added to the total.
const BLOCK: usize = 1024;
/// Pieces shorter than this are moved together before they are summed.
const SHORT: usize = 16;
/// The smallest number of elements for a thread.
const SHARE: usize = 1 << 13;

/// A float whose sums are computed in double precision.
trait Real: Element {
    fn wide(self) -> f64;
    fn narrow(x: f64) -> Self;
    /// `self * a + b`.
    fn scaled(self, a: Self, b: Self) -> Self;
    /// `(self - mean) * scale`.
    fn standard(self, mean: Self, scale: Self) -> Self;
}

macro_rules! real {
    ($($float:ty),*) => {$(
        impl Real for $float {
            #[inline(always)]
            fn wide(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn narrow(x: f64) -> Self {
                x as $float
            }
            #[inline(always)]
            fn scaled(self, a: Self, b: Self) -> Self {
                self * a + b
            }
            #[inline(always)]
            fn standard(self, mean: Self, scale: Self) -> Self {
                (self - mean) * scale
            }
        }
    )*};
}
real!(f32, f64);

/// The lines of a row-major array, which is seen as `[outer, pieces, inner, length]`: a line
/// consists of pieces of neighbouring elements.
#[derive(Clone, Copy)]
struct Lines {
    outer: usize,
    pieces: usize,
    inner: usize,
    length: usize,
}

impl Lines {
    /// The lines along `axes`, or `None` if the axes have no such order.
    fn of(shape: &Shape, axes: &[usize]) -> Option<Self> {
        let mut sizes = [1; 4];
        // From the back, places 3 and 1 are for reduced axes, 2 and 0 for the others.
        let mut place = 3_usize;
        for (axis, &size) in shape.iter().enumerate().rev() {
            if size == 1 {
                continue;
            }
            let is_reduced = axes.contains(&axis);
            if (place % 2 == 1) != is_reduced {
                place = place.checked_sub(1)?;
            }
            sizes[place] *= size;
        }
        let [outer, pieces, inner, length] = sizes;
        Some(Self {
            outer,
            pieces,
            inner,
            length,
        })
    }

    /// Lines that are neighbours in memory. There may be any number of them.
    const fn of_rows(width: usize) -> Self {
        Self {
            outer: usize::MAX,
            pieces: 1,
            inner: 1,
            length: width,
        }
    }

    fn count(&self) -> usize {
        self.outer * self.inner
    }

    /// The number of elements of a line.
    fn size(&self) -> usize {
        self.pieces * self.length
    }

    /// The pieces of one line.
    #[inline(always)]
    fn pieces<T>(self, x: &[T], line: usize) -> impl Iterator<Item = &[T]> + Clone {
        let (outer, inner) = (line / self.inner, line % self.inner);
        (0..self.pieces).map(move |piece| {
            let start = ((outer * self.pieces + piece) * self.inner + inner) * self.length;
            &x[start..start + self.length]
        })
    }

    /// Fills every line of `out` and its statistics.
    fn fill<T: Real, S: Send>(
        self,
        out: &mut [T],
        statistics: &mut [S],
        line: &(dyn Fn(usize, Pieces<'_, T>) -> S + Sync),
    ) {
        let threads = worth_threads(out.len());
        let least = (SHARE / self.size()).max(1);
        if self.pieces == 1 {
            let lines = (chunks(out, self.length), chunks(statistics, 1));
            return for_each(lines, threads, least, &|i, (out, statistic)| {
                statistic[0] = line(i, SmallVec::from_buf([out]));
            });
        }
        let mut lines: Vec<Pieces<'_, T>> = Vec::new();
        lines.resize_with(self.count(), || SmallVec::with_capacity(self.pieces));
        for (i, piece) in out.chunks_mut(self.length).enumerate() {
            let outer = i / (self.pieces * self.inner);
            lines[outer * self.inner + i % self.inner].push(piece);
        }
        let lines = (chunks(&mut lines, 1), chunks(statistics, 1));
        for_each(lines, threads, least, &|i, (out, statistic)| {
            statistic[0] = line(i, std::mem::take(&mut out[0]));
        });
    }
}

/// The parts of the result for one line.
type Pieces<'a, T> = SmallVec<[&'a mut [T]; 1]>;

/// The sum of a function of elements at the same position.
#[inline(always)]
fn sum<const N: usize, T: Real>(x: [&[T]; N], f: impl Fn([f64; N]) -> f64) -> f64 {
    let len = x[0].len();
    let x = x.map(|x| &x[..len]);
    let mut total = 0.0;
    for start in (0..len).step_by(BLOCK) {
        let end = (start + BLOCK).min(len);
        let block = x.map(|x| &x[start..end]);
        let whole = (end - start) / LANES * LANES;
        let mut lanes = [0.0; LANES];
        for at in (0..whole).step_by(LANES) {
            let run = block.map(|x| &x[at..at + LANES]);
            for (i, lane) in lanes.iter_mut().enumerate() {
                *lane += f(std::array::from_fn(
                    #[inline(always)]
                    |k| run[k][i].wide(),
                ));
            }
        }
        let mut rest = 0.0;
        #[expect(
            clippy::needless_range_loop,
            reason = "it is the position in every block"
        )]
        for i in whole..end - start {
            rest += f(std::array::from_fn(
                #[inline(always)]
                |k| block[k][i].wide(),
            ));
        }
        let mut all = 0.0;
        for lane in lanes {
            all += lane;
        }
        total += all + rest;
    }
    total
}

/// Computes the mean and variance of a line, and its normalised elements.
struct Normalize<'a, 'o, T> {
    rule: Normalization,
    lines: Lines,
    x: &'a [T],
    line: usize,
    out: Pieces<'o, T>,
}

impl<T: Real> Normalize<'_, '_, T> {
    /// The sum of a function of the elements of the line.
    // PERF: a loop, because what an adapter of iterators calls has no vector instructions.
    #[inline(always)]
    fn sum(&self, f: impl Fn(f64) -> f64) -> f64 {
        let mut total = 0.0;
        for x in self.lines.pieces(self.x, self.line) {
            total += sum(
                [x],
                #[inline(always)]
                |[x]| f(x),
            );
        }
        total
    }
}

impl<T: Real> NullaryFnOnce for Normalize<'_, '_, T> {
    type Output = [T; 2];

    #[inline(always)]
    fn call(self) -> [T; 2] {
        let count = self.lines.size() as f64;
        let mean = match self.rule.centered {
            true => self.sum(|x| x) / count,
            false => 0.0,
        };
        let variance = self.sum(|x| (x - mean) * (x - mean)) / count;
        let scale = T::narrow(1.0 / (variance + self.rule.epsilon).sqrt());
        let mean = T::narrow(mean);
        let pieces = self.lines.pieces(self.x, self.line);
        for (x, out) in pieces.zip(self.out) {
            for (x, y) in x.iter().zip(out) {
                *y = x.standard(mean, scale);
            }
        }
        [mean, T::narrow(variance)]
    }
}

/// Computes the cotangent of a line.
struct Gradient<'a, 'o, T> {
    rule: Normalization,
    lines: Lines,
    y: &'a [T],
    gy: &'a [T],
    /// The line's variance, and the cotangents of its mean and of its variance.
    statistics: [T; 3],
    line: usize,
    out: Pieces<'o, T>,
}

impl<T: Real> Gradient<'_, '_, T> {
    /// The sum of a function of the elements of the line and of their cotangents.
    #[inline(always)]
    fn sum(&self, f: impl Fn(f64, f64) -> f64) -> f64 {
        let y = self.lines.pieces(self.y, self.line);
        let mut total = 0.0;
        for (y, gy) in y.zip(self.lines.pieces(self.gy, self.line)) {
            total += sum(
                [y, gy],
                #[inline(always)]
                |[y, gy]| f(y, gy),
            );
        }
        total
    }
}

impl<T: Real> NullaryFnOnce for Gradient<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let count = self.lines.size() as f64;
        let [variance, gmean, gvariance] = self.statistics.map(T::wide);
        let deviation = (variance + self.rule.epsilon).sqrt();
        let along_y = self.sum(|y, gy| y * gy);
        let shift = match self.rule.centered {
            true => {
                let all = self.sum(|_, gy| gy);
                (gmean - all / deviation) / count
            }
            false => 0.0,
        };
        let slope = (2.0 * gvariance * deviation - along_y / deviation) / count;
        let scale = T::narrow(1.0 / deviation);
        let (shift, slope) = (T::narrow(shift), T::narrow(slope));
        let y = self.lines.pieces(self.y, self.line);
        let gy = self.lines.pieces(self.gy, self.line);
        for ((y, gy), out) in y.zip(gy).zip(self.out) {
            for ((y, gy), gx) in y.iter().zip(gy).zip(out) {
                *gx = gy.scaled(scale, y.scaled(slope, shift));
            }
        }
    }
}

/// The lines along `axes`, and the order of axes for them if it is not the array's.
fn arranged(shape: &Shape, axes: &[usize]) -> (Lines, Option<SmallVec<[isize; 4]>>) {
    if let Some(lines) = Lines::of(shape, axes)
        && (lines.pieces == 1 || lines.length >= SHORT)
    {
        return (lines, None);
    }
    let kept = (0..shape.rank()).filter(|axis| !axes.contains(axis));
    let order: SmallVec<[isize; 4]> = kept
        .chain(axes.iter().copied())
        .map(|i| i as isize)
        .collect();
    let sorted: Shape = order.iter().map(|&axis| shape[axis as usize]).collect();
    let behind: SmallVec<[usize; 4]> = (shape.rank() - axes.len()..shape.rank()).collect();
    let lines = Lines::of(&sorted, &behind).expect("what is reduced lies behind");
    (lines, Some(order))
}

/// `x` with its axes in the order of its lines.
fn ordered(x: &Array, order: Option<&[isize]>) -> Array {
    match order {
        Some(order) => x.permute(order).to_row_major(),
        None => x.to_row_major(),
    }
}

/// An array in the order of lines, with its axes moved back.
fn put_back(x: Array, order: Option<&[isize]>) -> Array {
    let Some(order) = order else {
        return x;
    };
    let mut back: SmallVec<[isize; 4]> = SmallVec::from_elem(0, order.len());
    for (i, &axis) in order.iter().enumerate() {
        back[axis as usize] = i as isize;
    }
    x.permute(&back)
}

/// The elements of a row-major array.
pub(super) fn spread<T: Element>(x: &Array) -> Cow<'_, [T]> {
    match x.inline() {
        Some(value) => Cow::Owned(list(T::from_scalar(value), x.size())),
        None => Cow::Borrowed(x.host_slice()),
    }
}

/// `[y, mean, variance]` of lines along `axes`.
pub(super) fn normalize(rule: Normalization, x: &Array, axes: &[usize]) -> [Array; 3] {
    with_float!(x.dtype(), T => normalize_floats::<T>(rule, x, axes))
}

fn normalize_floats<T: Real>(rule: Normalization, x: &Array, axes: &[usize]) -> [Array; 3] {
    let reduced = x.shape().reduced(axes, true);
    if x.size() == 0 {
        // No elements have no mean; without centering the mean is zero by definition.
        let nan = || Array::full(&reduced, T::narrow(f64::NAN).to_scalar());
        let mean = match rule.centered {
            true => nan(),
            false => Array::zeros(&reduced, T::DTYPE),
        };
        return [x.clone(), mean, nan()];
    }
    let (lines, order) = arranged(x.shape(), axes);
    let x = ordered(x, order.as_deref());
    let elements = spread::<T>(&x);
    let mut statistics = list([T::default(); 2], lines.count());
    let y = Array::filled_by(x.shape().clone(), |out: &mut [T]| {
        lines.fill(out, &mut statistics, &|line, out| {
            Arch::new().dispatch(Normalize {
                rule,
                lines,
                x: &elements,
                line,
                out,
            })
        });
    });
    let [mean, variance] = [0, 1].map(|k| {
        let elements = statistics.iter().map(|statistic| statistic[k]).collect();
        Array::from_vec::<T>(elements, &reduced)
    });
    [put_back(y, order.as_deref()), mean, variance]
}

/// Normalises rows of `width` neighbouring elements. `out` are those, their means and variances.
pub(super) fn normalize_rows(
    rule: Normalization,
    x: Slice<'_>,
    width: usize,
    out: [SliceMut<'_>; 3],
) {
    fn rows<T: Real>(rule: Normalization, x: &[T], width: usize, out: [SliceMut<'_>; 3]) {
        let [y, mean, variance] = out.map(|out| T::from_slice_mut(out).expect("of the same dtype"));
        let lines = Lines::of_rows(width);
        for (line, y) in y.chunks_exact_mut(width).enumerate() {
            let out = SmallVec::from_buf([y]);
            [mean[line], variance[line]] = Arch::new().dispatch(Normalize {
                rule,
                lines,
                x,
                line,
                out,
            });
        }
    }
    match x {
        Slice::F32(x) => rows(rule, x, width, out),
        Slice::F64(x) => rows(rule, x, width, out),
        Slice::Bool(_)
        | Slice::U8(_)
        | Slice::I32(_)
        | Slice::I64(_)
        | Slice::F16(_)
        | Slice::BF16(_) => unreachable!("rows of f32 or f64 are normalised"),
    }
}

/// The cotangents of rows that were normalised: `results` are the rows and their cotangents, and
/// `statistics` the variances and the cotangents of means and of variances.
pub(super) fn gradient_rows(
    rule: Normalization,
    results: [Slice<'_>; 2],
    statistics: [Slice<'_>; 3],
    width: usize,
    out: SliceMut<'_>,
) {
    fn rows<T: Real>(
        rule: Normalization,
        results: [Slice<'_>; 2],
        statistics: [Slice<'_>; 3],
        width: usize,
        out: SliceMut<'_>,
    ) {
        let [y, gy] = results.map(|x| T::from_slice(x).expect("of one dtype"));
        let statistics = statistics.map(|x| T::from_slice(x).expect("of one dtype"));
        let lines = Lines::of_rows(width);
        let out = T::from_slice_mut(out).expect("of one dtype");
        for (line, out) in out.chunks_exact_mut(width).enumerate() {
            Arch::new().dispatch(Gradient {
                rule,
                lines,
                y,
                gy,
                statistics: statistics.map(|x| x[line]),
                line,
                out: SmallVec::from_buf([out]),
            });
        }
    }
    match out.dtype() {
        DType::F64 => rows::<f64>(rule, results, statistics, width, out),
        DType::F32 => rows::<f32>(rule, results, statistics, width, out),
        DType::Bool | DType::U8 | DType::I32 | DType::I64 | DType::F16 | DType::BF16 => {
            unreachable!("rows of f32 or f64 are normalised")
        }
    }
}

/// Whether arrays of this shape are normalised along `axes` row by row, without being moved: the
/// number of rows, and their width.
pub(crate) fn rows(shape: &Shape, axes: &[usize]) -> Option<(usize, usize)> {
    let lines = Lines::of(shape, axes)?;
    (lines.pieces == 1 && shape.size() > 0).then_some((lines.count(), lines.length))
}

/// The cotangent of an array that was normalised along `axes`.
pub(super) fn gradient(
    rule: Normalization,
    results: [&Array; 2],
    cotangents: [&Array; 3],
    axes: &[usize],
) -> Array {
    with_float!(results[0].dtype(), T => {
        gradient_of_floats::<T>(rule, results, cotangents, axes)
    })
}

fn gradient_of_floats<T: Real>(
    rule: Normalization,
    [y, variance]: [&Array; 2],
    [gy, gmean, gvariance]: [&Array; 3],
    axes: &[usize],
) -> Array {
    if y.size() == 0 {
        return gy.clone();
    }
    let (lines, order) = arranged(y.shape(), axes);
    let [y, gy] = [y, gy].map(|x| ordered(x, order.as_deref()));
    let [y_elements, gy_elements] = [&y, &gy].map(spread::<T>);
    let statistics = [variance, gmean, gvariance].map(Array::to_row_major);
    let statistics = statistics.each_ref().map(spread::<T>);
    let gx = Array::filled_by(y.shape().clone(), |out: &mut [T]| {
        lines.fill(out, &mut vec![(); lines.count()], &|line, out| {
            Arch::new().dispatch(Gradient {
                rule,
                lines,
                y: &y_elements,
                gy: &gy_elements,
                statistics: statistics.each_ref().map(|x| x[line]),
                line,
                out,
            });
        });
    });
    put_back(gx, order.as_deref())
}
