//! Normalisation: each line of elements is read from memory once, and its results are computed
//! while it is in the cache. Lines that lie side by side are read twice, many of them together.

mod columns;
mod lines;
mod moments;

use std::borrow::Cow;
use std::ops::{Add, AddAssign, Mul, Sub};

use pulp::Arch;
use smallvec::SmallVec;

use columns::Columns;
use lines::{
    Gradient, GradientOfPieces, GradientOfRuns, GradientOfVectors, Lines, Normalize, Parameters,
    Pattern,
};
pub(super) use moments::moments;

use super::threads::chunks;
use crate::device::Normalization;
use crate::dtype::with_float;
use crate::storage::list;
use crate::{Array, Element, Shape, keep_dims};

/// Pieces shorter than this are moved together before they are summed.
const SHORT: usize = 16;
/// A float.
trait Real: Element + Add<Output = Self> + AddAssign + Sub<Output = Self> + Mul<Output = Self> {
    const ZERO: Self;
    const ONE: Self;
    /// Whether it has less than double precision.
    const IS_SINGLE: bool;
    fn wide(self) -> f64;
    fn narrow(x: f64) -> Self;
}

macro_rules! real {
    ($($float:ty),*) => {$(
        impl Real for $float {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const IS_SINGLE: bool = size_of::<$float>() < size_of::<f64>();
            #[inline(always)]
            fn wide(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn narrow(x: f64) -> Self {
                x as $float
            }
        }
    )*};
}
real!(f32, f64);

/// What the gradient of one line is computed from.
#[derive(Clone, Copy)]
struct Line<T> {
    is_centered: bool,
    mean: T,
    factor: T,
    deviation: f64,
    gmean: f64,
    gvariance: f64,
}

impl<T: Real> Line<T> {
    /// From the mean and the variance, and their cotangents.
    #[inline(always)]
    fn of(rule: Normalization, [mean, variance]: [T; 2], cotangents: [T; 2]) -> Self {
        let deviation = (variance.wide() + rule.epsilon).sqrt();
        let [gmean, gvariance] = cotangents.map(T::wide);
        Self {
            is_centered: rule.centered,
            mean,
            factor: T::narrow(1.0 / deviation),
            deviation,
            gmean,
            gvariance,
        }
    }

    /// A normalised element.
    #[inline(always)]
    fn normal(self, x: T) -> T {
        (x - self.mean) * self.factor
    }

    /// The factor of normalised elements and the term in the cotangents of the line's `count`
    /// elements. The cotangents of normalised elements have the sum `all`, and `along` when they are
    /// multiplied by the elements.
    #[inline(always)]
    fn tilt(self, count: usize, [all, along]: [f64; 2]) -> [T; 2] {
        let count = count as f64;
        let shift = match self.is_centered {
            true => (self.gmean - all / self.deviation) / count,
            false => 0.0,
        };
        let slope = (2.0 * self.gvariance * self.deviation - along / self.deviation) / count;
        [slope, shift].map(T::narrow)
    }
}

/// How an array is gone through.
struct Arrangement {
    lines: Lines,
    /// The order of axes for the lines, if it is not the array's.
    order: Option<SmallVec<[isize; 4]>>,
    /// Where the scales are.
    pattern: Option<Pattern>,
    /// Whether the scales are repeated for all elements before.
    is_spread: bool,
}

impl Arrangement {
    /// The lines along `axes` of an array whose scale has the shape `scale`.
    fn of(shape: &Shape, axes: &[usize], scale: Option<&Shape>) -> Self {
        let direct =
            Lines::of(shape, axes).filter(|lines| lines.pieces == 1 || lines.length >= SHORT);
        // What has scales of its own for each element is one piece.
        let pattern = |lines: Lines, shape: &Shape, scale: &Shape| {
            let pattern = Pattern::of(shape, scale, lines)?;
            (lines.pieces == 1 || !pattern.is_vector(lines)).then_some(pattern)
        };
        if let Some(lines) = direct {
            let pattern = scale.map(|scale| pattern(lines, shape, scale));
            if pattern != Some(None) {
                let (order, pattern) = (None, pattern.flatten());
                return Self {
                    lines,
                    order,
                    pattern,
                    is_spread: false,
                };
            }
        }
        let kept = (0..shape.rank()).filter(|axis| !axes.contains(axis));
        let order: SmallVec<[isize; 4]> = kept
            .chain(axes.iter().copied())
            .map(|i| i as isize)
            .collect();
        let moved =
            |shape: &Shape| -> Shape { order.iter().map(|&axis| shape[axis as usize]).collect() };
        let behind: SmallVec<[usize; 4]> = (shape.rank() - axes.len()..shape.rank()).collect();
        let own = moved(shape);
        let lines = Lines::of(&own, &behind).expect("what is reduced lies behind");
        let is_moved = direct.is_none_or(|lines| lines.pieces > 1);
        let found = scale.map(|scale| pattern(lines, &own, &moved(scale)));
        let (is_spread, pattern) = match found {
            None => (false, None),
            Some(Some(pattern)) if is_moved => (false, Some(pattern)),
            Some(_) => (true, Pattern::of(&own, &own, lines)),
        };
        let order = is_moved.then_some(order);
        Self {
            lines,
            order,
            pattern,
            is_spread,
        }
    }

    /// A scale or shift in the order of lines, repeated if it must be.
    fn parameter(&self, x: &Array, shape: &Shape) -> Array {
        let x = match self.is_spread {
            true => x.broadcast_to(shape),
            false => x.clone(),
        };
        ordered(&x, self.order.as_deref())
    }
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

/// `[y, mean, variance]` of lines along `axes`. The parameters are none, a scale, or a scale and a
/// shift.
pub(super) fn normalize(
    rule: Normalization,
    x: &Array,
    axes: &[usize],
    parameters: &[&Array],
) -> [Array; 3] {
    with_float!(x.dtype(), T => normalize_floats::<T>(rule, x, axes, parameters))
}

fn normalize_floats<T: Real>(
    rule: Normalization,
    x: &Array,
    axes: &[usize],
    parameters: &[&Array],
) -> [Array; 3] {
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
    let shape = parameters.first().map(|scale| scale.shape());
    let in_lines = |statistics: Vec<[T; 2]>| {
        [0, 1].map(|k| {
            let elements = statistics.iter().map(|statistic| statistic[k]).collect();
            Array::from_vec::<T>(elements, &reduced)
        })
    };
    if let Some(columns) = Columns::of(x.shape(), axes, shape) {
        let of_lines = |parameter: &&Array| of_lines::<T>(columns.lines(), x.shape(), parameter);
        let parameters: SmallVec<[Vec<T>; 2]> = parameters.iter().map(of_lines).collect();
        let (scale, shift) = (parameters.first(), parameters.get(1));
        let x = x.to_row_major();
        let elements = spread::<T>(&x);
        let mut statistics = Vec::new();
        let y = Array::filled_by(x.shape().clone(), |out: &mut [T]| {
            let (scale, shift) = (scale.map(|x| &x[..]), shift.map(|x| &x[..]));
            statistics = columns.normalize(rule, &elements, scale, shift, out);
        });
        let [mean, variance] = in_lines(statistics);
        return [y, mean, variance];
    }
    let arrangement = Arrangement::of(x.shape(), axes, shape);
    let lines = arrangement.lines;
    let parameters: SmallVec<[Array; 2]> = (parameters.iter())
        .map(|parameter| arrangement.parameter(parameter, x.shape()))
        .collect();
    let parameters: SmallVec<[Cow<'_, [T]>; 2]> = parameters.iter().map(spread).collect();
    let parameters = arrangement.pattern.as_ref().map(|pattern| Parameters {
        pattern,
        scale: &parameters[0],
        shift: parameters.get(1).map(|shift| &**shift),
    });
    let order = arrangement.order.as_deref();
    let x = ordered(x, order);
    let elements = spread::<T>(&x);
    let mut statistics = list([T::ZERO; 2], lines.count());
    let together = lines.together();
    let y = Array::filled_by(x.shape().clone(), |out: &mut [T]| {
        let statistics = chunks(&mut statistics, together);
        lines.fill(out, together, statistics, &|first, out, statistics| {
            Arch::new().dispatch(Normalize {
                rule,
                lines,
                x: &elements,
                parameters,
                first,
                out,
                statistics,
            });
        });
    });
    let [mean, variance] = in_lines(statistics);
    [put_back(y, order), mean, variance]
}

/// The cotangent of an array `x` that was normalised along `axes`, and those of its scale and shift
/// if it has a scale.
pub(super) fn gradient(
    rule: Normalization,
    axes: &[usize],
    x: &Array,
    statistics: [&Array; 2],
    scale: Option<&Array>,
    cotangents: [&Array; 3],
) -> Vec<Array> {
    with_float!(x.dtype(), T => {
        gradient_of_floats::<T>(rule, axes, x, statistics, scale, cotangents)
    })
}

fn gradient_of_floats<T: Real>(
    rule: Normalization,
    axes: &[usize],
    x: &Array,
    [mean, variance]: [&Array; 2],
    scale: Option<&Array>,
    [gy, gmean, gvariance]: [&Array; 3],
) -> Vec<Array> {
    if x.size() == 0 {
        let nothing = scale.map(|scale| Array::zeros(scale.shape(), T::DTYPE));
        let nothing = nothing.into_iter().flat_map(|zeros| [zeros.clone(), zeros]);
        return std::iter::once(gy.clone()).chain(nothing).collect();
    }
    let shape = x.shape();
    let statistics = [mean, variance, gmean, gvariance].map(Array::to_row_major);
    let statistics = statistics.each_ref().map(spread::<T>);
    let statistics = statistics.each_ref().map(|x| &**x);
    if let Some(columns) = Columns::of(shape, axes, scale.map(Array::shape)) {
        let scales = scale.map(|scale| of_lines::<T>(columns.lines(), shape, scale));
        let [x, gy] = [x, gy].map(Array::to_row_major);
        let [x_elements, gy_elements] = [&x, &gy].map(spread::<T>);
        let mut sums = [Vec::new(), Vec::new()];
        let gx = Array::filled_by(shape.clone(), |out: &mut [T]| {
            let elements = [&x_elements[..], &gy_elements[..]];
            sums = columns.gradient(rule, elements, statistics, scales.as_deref(), out);
        });
        let Some(scale) = scale else {
            return vec![gx];
        };
        let of_lines = sums.map(|sums| {
            let elements = sums.into_iter().map(T::narrow).collect();
            Array::from_vec::<T>(elements, mean.shape())
        });
        let [gscale, gshift] = of_lines.map(|sums| summed_to(&sums, scale.shape()));
        return vec![gx, gscale, gshift];
    }
    let arrangement = Arrangement::of(shape, axes, scale.map(Array::shape));
    let (lines, order) = (arrangement.lines, arrangement.order.as_deref());
    let scales = scale.map(|scale| arrangement.parameter(scale, shape));
    let elements_of_scale = scales.as_ref().map(spread::<T>);
    let parameters = match (&arrangement.pattern, &elements_of_scale) {
        (Some(pattern), Some(scale)) => Some(Parameters {
            pattern,
            scale,
            shift: None,
        }),
        _ => None,
    };
    let [x, gy] = [x, gy].map(|x| ordered(x, order));
    let [x_elements, gy_elements] = [&x, &gy].map(spread::<T>);
    let gradient = Gradient {
        rule,
        lines,
        x: &x_elements,
        gy: &gy_elements,
        statistics,
        parameters,
    };
    let count = scales.as_ref().map_or(0, Array::size);
    let mut sums = list([0.0_f64; 2], count);
    let gx;
    if let Some(pattern) = (arrangement.pattern.as_ref()).filter(|pattern| pattern.is_vector(lines))
    {
        let (length, together) = (lines.length, pattern.together(lines));
        let mut contributions = list(T::ZERO, lines.count().div_ceil(together) * 2 * length);
        gx = Array::filled_by(x.shape().clone(), |out: &mut [T]| {
            let contributions = chunks(&mut contributions, 2 * length);
            lines.fill(out, together, contributions, &|first, out, contribution| {
                Arch::new().dispatch(GradientOfVectors {
                    gradient,
                    first,
                    out: out[0],
                    contribution,
                });
            });
        });
        for (i, contribution) in contributions.chunks(2 * length).enumerate() {
            let start = pattern.start(i * together);
            let (gscale, gshift) = contribution.split_at(length);
            let own = sums[start..start + length].iter_mut();
            for ((sum, gscale), gshift) in own.zip(gscale).zip(gshift) {
                *sum = [sum[0] + gscale.wide(), sum[1] + gshift.wide()];
            }
        }
    } else if lines.are_of_short_pieces()
        && (arrangement.pattern.as_ref()).is_none_or(|pattern| pattern.is_of_lines(lines))
    {
        let mut contributions = list([0.0_f64; 2], lines.count());
        gx = Array::filled_by(x.shape().clone(), |out: &mut [T]| {
            let contributions = chunks(&mut contributions, 1);
            lines.fill(out, 1, contributions, &|line, out, contribution| {
                Arch::new().dispatch(GradientOfPieces {
                    gradient,
                    line,
                    out,
                    contribution: &mut contribution[0],
                });
            });
        });
        if let Some(pattern) = &arrangement.pattern {
            for (line, contribution) in contributions.iter().enumerate() {
                let sum = &mut sums[pattern.start(lines.number(line, 0))];
                *sum = [sum[0] + contribution[0], sum[1] + contribution[1]];
            }
        }
    } else {
        let run = parameters.map_or(lines.length, |parameters| parameters.pattern.run);
        let (together, runs) = (lines.together(), lines.length / run);
        let each = lines.pieces * runs;
        let mut contributions = list([0.0_f64; 2], lines.count() * each);
        gx = Array::filled_by(x.shape().clone(), |out: &mut [T]| {
            let contributions = chunks(&mut contributions, together * each);
            lines.fill(
                out,
                together,
                contributions,
                &|first, out, contributions| {
                    Arch::new().dispatch(GradientOfRuns {
                        gradient,
                        first,
                        count: contributions.len() / each,
                        out,
                        contributions,
                    });
                },
            );
        });
        if let Some(pattern) = &arrangement.pattern {
            for (i, contributions) in contributions.chunks(runs).enumerate() {
                let start = pattern.start(lines.number(i / lines.pieces, i % lines.pieces));
                for (sum, contribution) in sums[start..start + runs].iter_mut().zip(contributions) {
                    *sum = [sum[0] + contribution[0], sum[1] + contribution[1]];
                }
            }
        }
    }
    let gx = put_back(gx, order);
    let (Some(scale), Some(scales)) = (scale, scales) else {
        return vec![gx];
    };
    let [gscale, gshift] = [0, 1].map(|k| {
        let elements = sums.iter().map(|sum| T::narrow(sum[k])).collect();
        let all = put_back(Array::from_vec::<T>(elements, scales.shape()), order);
        match arrangement.is_spread {
            true => summed_to(&all, scale.shape()),
            false => all,
        }
    });
    vec![gx, gscale, gshift]
}

/// The scale of each line, which does not vary along it.
fn of_lines<T: Real>(lines: Lines, shape: &Shape, scale: &Array) -> Vec<T> {
    let own = scale.to_row_major();
    let elements = spread::<T>(&own);
    let pattern = Pattern::of(shape, scale.shape(), lines).expect("a piece is one element");
    let starts = (0..lines.count()).map(|line| pattern.start(lines.number(line, 0)));
    starts.map(|start| elements[start]).collect()
}

/// The sums over the axes that have size 1 in `shape`.
fn summed_to(x: &Array, shape: &Shape) -> Array {
    let axes = (0..shape.rank()).filter(|&axis| shape[axis] == 1);
    let axes: SmallVec<[isize; 4]> = axes.map(|axis| axis as isize).collect();
    x.sum(keep_dims(&axes[..]))
}
