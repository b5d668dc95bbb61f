//! Lines of neighbouring elements, or of pieces of such.

use std::ops::Range;

use pulp::NullaryFnOnce;
use smallvec::SmallVec;

use super::super::reduce::RUN;
use super::super::threads::{Chunks, Sharing, chunks, for_each};
use super::moments::{InPieces, moments_of};
use super::{Line, Real};
use crate::Shape;
use crate::device::Normalization;

/// The number of sums computed side by side.
// PERF: of 16 doubles the compiler makes no vectors here.
pub(super) const LANES: usize = 32;
/// The number of sums computed side by side in what is left of a line.
pub(super) const FEW: usize = 8;
/// The smallest number of elements for a thread.
pub(super) const SHARE: usize = 1 << 13;
/// The largest number of lines whose contributions to the gradients of parameters are added in the
/// lines' own precision.
const TOGETHER: usize = 32;

/// The lines of a row-major array, which is seen as `[outer, pieces, inner, length]`: a line
/// consists of pieces of neighbouring elements.
#[derive(Clone, Copy)]
pub(super) struct Lines {
    pub(super) outer: usize,
    pub(super) pieces: usize,
    pub(super) inner: usize,
    pub(super) length: usize,
}

impl Lines {
    /// The lines along `axes`, or `None` if the axes have no such order.
    pub(super) fn of(shape: &Shape, axes: &[usize]) -> Option<Self> {
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

    pub(super) fn count(&self) -> usize {
        self.outer * self.inner
    }

    /// The number of elements of a line.
    pub(super) fn size(&self) -> usize {
        self.pieces * self.length
    }

    /// The number of lines that are gone through together, where there is no other reason.
    pub(super) fn together(&self) -> usize {
        match self.pieces {
            1 => (1024 / self.length).clamp(1, TOGETHER),
            _ => 1,
        }
    }

    /// Whether lines consist of pieces that are moved together to be summed.
    pub(super) fn are_of_short_pieces(&self) -> bool {
        self.pieces > 1 && self.length <= RUNS / 2
    }

    /// The number of a piece of a line, in the order of memory.
    #[inline(always)]
    pub(super) fn number(&self, line: usize, piece: usize) -> usize {
        let (outer, inner) = (line / self.inner, line % self.inner);
        (outer * self.pieces + piece) * self.inner + inner
    }

    /// The pieces of one line.
    #[inline(always)]
    pub(super) fn pieces<T>(self, x: &[T], line: usize) -> impl Iterator<Item = &[T]> + Clone {
        let first = self.number(line, 0) * self.length;
        let step = self.inner * self.length;
        (0..self.pieces).map(move |piece| &x[first + piece * step..][..self.length])
    }

    /// Fills some lines of `out` at a time, with the chunk of `beside` of the same number. `lines`
    /// of several pieces are filled one by one.
    pub(super) fn fill<T: Real, C: Chunks>(
        self,
        out: &mut [T],
        together: usize,
        beside: C,
        each: &Each<'_, T, C::Chunk>,
    ) {
        let sharing = Sharing::of(out.len());
        let least = (SHARE / (self.size() * together)).max(1);
        if self.pieces == 1 {
            let lines = (chunks(out, self.length * together), beside);
            return for_each(lines, sharing, least, &|i, (out, beside)| {
                each(i * together, &mut [out], beside);
            });
        }
        let mut lines: Vec<&mut [T]> = Vec::new();
        lines.resize_with(self.count() * self.pieces, <&mut [T]>::default);
        for (i, own) in out.chunks_mut(self.length).enumerate() {
            let (outer, piece) = (i / self.inner / self.pieces, i / self.inner % self.pieces);
            lines[(outer * self.inner + i % self.inner) * self.pieces + piece] = own;
        }
        let lines = (chunks(&mut lines, self.pieces), beside);
        for_each(lines, sharing, least, &|i, (out, beside)| {
            each(i, out, beside);
        });
    }
}

/// The parts of the result for some lines: those of one line, or one for neighbouring lines.
pub(super) type Pieces<'o, 'a, T> = &'o mut [&'a mut [T]];

/// What is called with the number of the first of some lines, their parts of the result, and what
/// belongs to them beside.
type Each<'a, T, B> = dyn Fn(usize, Pieces<'_, '_, T>, B) + Sync + 'a;

/// Where the scale and the shift of each element are in their array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pattern {
    /// The number of neighbouring elements with the same scale.
    pub(super) run: usize,
    /// The sizes of the axes before those of a piece, and their strides in the scale. Neighbours
    /// that one stride serves are merged.
    pub(super) front: SmallVec<[(usize, usize); 2]>,
    /// Whether all pieces of a line have the scales of the first one.
    repeats: bool,
}

impl Pattern {
    /// The pattern of a row-major scale with axes of size 1 or those of the array's shape, or `None`
    /// if within a piece it is anything else than runs of equal elements.
    pub(super) fn of(shape: &Shape, scale: &Shape, lines: Lines) -> Option<Self> {
        let (mut covered, mut run, mut stride) = (1, 1, 1);
        let mut repeats = true;
        let mut front: SmallVec<[(usize, usize); 2]> = SmallVec::new();
        let axes = (0..shape.rank()).rev().filter(|&axis| shape[axis] != 1);
        for axis in axes {
            let (size, is_same) = (shape[axis], scale[axis] == 1);
            if covered < lines.length {
                match is_same {
                    true if run == covered => run *= size,
                    true => return None,
                    false => stride *= size,
                }
                covered *= size;
                continue;
            }
            let of_pieces = lines.length * lines.inner;
            repeats &= is_same || !(of_pieces..of_pieces * lines.pieces).contains(&covered);
            covered *= size;
            let own = if is_same { 0 } else { stride };
            match front.last_mut() {
                Some((sizes, inner)) if own == *inner * if is_same { 1 } else { *sizes } => {
                    *sizes *= size;
                }
                _ => front.push((size, own)),
            }
            if !is_same {
                stride *= size;
            }
        }
        Some(Self {
            run,
            front,
            repeats,
        })
    }

    /// The index of the first scale of a piece, which is numbered in the order of memory.
    #[inline(always)]
    pub(super) fn start(&self, mut piece: usize) -> usize {
        let mut start = 0;
        for &(size, stride) in &self.front {
            start += piece % size * stride;
            piece /= size;
        }
        start
    }

    /// Whether all elements of a line have the same scale.
    pub(super) fn is_of_lines(&self, lines: Lines) -> bool {
        self.repeats && self.run == lines.length
    }

    /// Whether every element of a line has a scale of its own.
    pub(super) fn is_vector(&self, lines: Lines) -> bool {
        self.run == 1 && lines.length > 1
    }

    /// A number of neighbouring lines that all have the same scales.
    pub(super) fn together(&self, lines: Lines) -> usize {
        match self.front.first() {
            None => lines.count().min(TOGETHER),
            Some(&(size, 0)) if size == lines.count() => size.min(TOGETHER),
            Some(&(size, 0)) => {
                let divisors = (1..=TOGETHER.min(size)).rev();
                let mut divisors = divisors.filter(|&count| size.is_multiple_of(count));
                divisors.next().unwrap_or(1)
            }
            Some(_) => 1,
        }
    }
}

/// The scale of each element, and what is added.
#[derive(Clone, Copy)]
pub(super) struct Parameters<'a, T> {
    pub(super) pattern: &'a Pattern,
    pub(super) scale: &'a [T],
    pub(super) shift: Option<&'a [T]>,
}

/// The ranges of a line whose sums are collected in doubles: of each, [`LANES`] sums side by side, of [`RUN`] elements
/// or fewer.
// PERF: a sum stays in a register where the loop adds to nothing else.
#[inline(always)]
fn runs(length: usize) -> impl Iterator<Item = Range<usize>> {
    let together = RUN * LANES;
    (0..length)
        .step_by(together)
        .map(move |first| first..(first + together).min(length))
}

/// The sum of sums.
#[inline(always)]
fn collected<T: Real>(mut lanes: [T; LANES]) -> f64 {
    let mut count = LANES;
    while count > 1 {
        count /= 2;
        for i in 0..count {
            let other = lanes[i + count];
            lanes[i] += other;
        }
    }
    lanes[0].wide()
}

/// The sums of two functions of the elements.
#[expect(
    clippy::needless_range_loop,
    reason = "it is the lane, and an iterator is no vector instructions"
)]
#[inline(always)]
pub(super) fn sums<T: Real, S: Real>(x: &[T], f: impl Fn(T) -> [S; 2]) -> [f64; 2] {
    let mut total = [0.0; 2];
    for run in runs(x.len()) {
        let (mut a, mut b) = ([S::ZERO; LANES], [S::ZERO; LANES]);
        let mut add = |lane: usize, x: T| {
            let [own_a, own_b] = f(x);
            a[lane] += own_a;
            b[lane] += own_b;
        };
        let (blocks, rest) = x[run].as_chunks::<LANES>();
        for block in blocks {
            for i in 0..LANES {
                add(i, block[i]);
            }
        }
        let (blocks, rest) = rest.as_chunks::<FEW>();
        for block in blocks {
            for i in 0..FEW {
                add(i, block[i]);
            }
        }
        for (i, &x) in rest.iter().enumerate() {
            add(i, x);
        }
        total = [total[0] + collected(a), total[1] + collected(b)];
    }
    total
}

/// The sums of two functions of elements at the same position.
#[inline(always)]
fn sums_of_pairs<T: Real>(x: &[T], y: &[T], f: impl Fn(T, T) -> [T; 2]) -> [f64; 2] {
    let mut total = [0.0; 2];
    for run in runs(x.len()) {
        let (mut a, mut b) = ([T::ZERO; LANES], [T::ZERO; LANES]);
        let mut add = |lane: usize, x: T, y: T| {
            let [own_a, own_b] = f(x, y);
            a[lane] += own_a;
            b[lane] += own_b;
        };
        let (x, y) = (&x[run.clone()], &y[run]);
        let ((x_blocks, x), (y_blocks, y)) = (x.as_chunks::<LANES>(), y.as_chunks::<LANES>());
        for (x, y) in x_blocks.iter().zip(y_blocks) {
            for i in 0..LANES {
                add(i, x[i], y[i]);
            }
        }
        let ((x_blocks, x), (y_blocks, y)) = (x.as_chunks::<FEW>(), y.as_chunks::<FEW>());
        for (x, y) in x_blocks.iter().zip(y_blocks) {
            for i in 0..FEW {
                add(i, x[i], y[i]);
            }
        }
        for (i, (&x, &y)) in x.iter().zip(y).enumerate() {
            add(i, x, y);
        }
        total = [total[0] + collected(a), total[1] + collected(b)];
    }
    total
}

/// The number of elements of short pieces that are moved together, so that their sums are collected at once.
const RUNS: usize = RUN * LANES;

/// Calls `each` with the elements at the same positions in the pieces of some lines, moved together.
#[inline(always)]
pub(super) fn for_pieces<'a, T: Real, const N: usize>(
    pieces: impl Iterator<Item = [&'a [T]; N]>,
    mut each: impl FnMut([&[T]; N]),
) {
    let mut memory = [[T::ZERO; RUNS]; N];
    let mut len = 0;
    for piece in pieces {
        let own = piece[0].len();
        if len + own > RUNS {
            each(memory.each_ref().map(|memory| &memory[..len]));
            len = 0;
        }
        for (memory, piece) in memory.iter_mut().zip(piece) {
            memory[len..][..own].copy_from_slice(piece);
        }
        len += own;
    }
    each(memory.each_ref().map(|memory| &memory[..len]));
}

/// Computes the means and variances of some lines, and their normalised elements.
pub(super) struct Normalize<'a, 'o, 'p, 's, T> {
    pub(super) rule: Normalization,
    pub(super) lines: Lines,
    pub(super) x: &'a [T],
    pub(super) parameters: Option<Parameters<'a, T>>,
    pub(super) first: usize,
    pub(super) out: Pieces<'o, 'p, T>,
    pub(super) statistics: &'s mut [[T; 2]],
}

impl<T: Real> NullaryFnOnce for Normalize<'_, '_, '_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let length = self.lines.length;
        for i in 0..self.statistics.len() {
            let line = self.first + i;
            let pieces = self.lines.pieces(self.x, line);
            let [mean, variance] =
                moments_of(self.rule.centered, &InPieces::of(self.lines, pieces));
            let factor = T::narrow(1.0 / (variance + self.rule.epsilon).sqrt());
            let mean = T::narrow(mean);
            self.statistics[i] = [mean, T::narrow(variance)];
            let mut start = 0;
            for (piece, x) in self.lines.pieces(self.x, line).enumerate() {
                let out = &mut self.out[piece][i * length..][..length];
                let Some(parameters) = self.parameters else {
                    for (x, y) in x.iter().zip(out) {
                        *y = (*x - mean) * factor;
                    }
                    continue;
                };
                if piece == 0 || !parameters.pattern.repeats {
                    start = parameters.pattern.start(self.lines.number(line, piece));
                }
                if parameters.pattern.is_vector(self.lines) {
                    let scales = &parameters.scale[start..start + length];
                    match parameters.shift {
                        Some(shifts) => {
                            let shifts = &shifts[start..start + length];
                            for (((x, y), scale), shift) in
                                x.iter().zip(out).zip(scales).zip(shifts)
                            {
                                *y = (*x - mean) * factor * *scale + *shift;
                            }
                        }
                        None => {
                            for ((x, y), scale) in x.iter().zip(out).zip(scales) {
                                *y = (*x - mean) * factor * *scale;
                            }
                        }
                    }
                    continue;
                }
                let run = parameters.pattern.run;
                for (k, (x, out)) in x.chunks(run).zip(out.chunks_mut(run)).enumerate() {
                    let scale = parameters.scale[start + k];
                    match parameters.shift {
                        Some(shifts) => {
                            let shift = shifts[start + k];
                            for (x, y) in x.iter().zip(out) {
                                *y = (*x - mean) * factor * scale + shift;
                            }
                        }
                        None => {
                            for (x, y) in x.iter().zip(out) {
                                *y = (*x - mean) * factor * scale;
                            }
                        }
                    }
                }
            }
        }
    }
}

/// What the gradient reads.
#[derive(Clone, Copy)]
pub(super) struct Gradient<'a, T> {
    pub(super) rule: Normalization,
    pub(super) lines: Lines,
    pub(super) x: &'a [T],
    pub(super) gy: &'a [T],
    /// The means and variances of lines, and their cotangents.
    pub(super) statistics: [&'a [T]; 4],
    pub(super) parameters: Option<Parameters<'a, T>>,
}

impl<T: Real> Gradient<'_, T> {
    #[inline(always)]
    fn line(&self, line: usize) -> Line<T> {
        let [mean, variance, gmean, gvariance] = self.statistics.map(|all| all[line]);
        Line::of(self.rule, [mean, variance], [gmean, gvariance])
    }
}

/// The gradient where every element of a line has a scale of its own, which is the same in all these
/// lines. What they contribute to the gradients of scales and of shifts is written behind each other.
pub(super) struct GradientOfVectors<'a, 'o, 'c, T> {
    pub(super) gradient: Gradient<'a, T>,
    pub(super) first: usize,
    pub(super) out: &'o mut [T],
    pub(super) contribution: &'c mut [T],
}

impl<T: Real> NullaryFnOnce for GradientOfVectors<'_, '_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self {
            gradient,
            first,
            out,
            contribution,
        } = self;
        let length = gradient.lines.length;
        let parameters = gradient.parameters.expect("every element has a scale");
        let start = parameters.pattern.start(first);
        let scales = &parameters.scale[start..start + length];
        let (gscales, gshifts) = contribution.split_at_mut(length);
        for (i, out) in out.chunks_exact_mut(length).enumerate() {
            let at = first + i;
            let line = gradient.line(at);
            let range = at * length..(at + 1) * length;
            let (x, gy) = (&gradient.x[range.clone()], &gradient.gy[range]);
            let mut total = [0.0; 2];
            for run in runs(length) {
                let (mut a, mut b) = ([T::ZERO; LANES], [T::ZERO; LANES]);
                let mut element =
                    |lane: usize, x: T, gy: T, scale: T, [gscale, gshift, g]: [&mut T; 3]| {
                        let normal = line.normal(x);
                        *g = gy * scale;
                        *gscale += gy * normal;
                        *gshift += gy;
                        a[lane] += *g;
                        b[lane] += *g * normal;
                    };
                let (xs, x_rest) = x[run.clone()].as_chunks::<LANES>();
                let (gys, gy_rest) = gy[run.clone()].as_chunks::<LANES>();
                let (all_scales, scale_rest) = scales[run.clone()].as_chunks::<LANES>();
                let (all_gscales, gscale_rest) = gscales[run.clone()].as_chunks_mut::<LANES>();
                let (all_gshifts, gshift_rest) = gshifts[run.clone()].as_chunks_mut::<LANES>();
                let (outs, out_rest) = out[run].as_chunks_mut::<LANES>();
                for (((((x, gy), scale), gscale), gshift), g) in
                    (xs.iter().zip(gys).zip(all_scales))
                        .zip(all_gscales)
                        .zip(all_gshifts)
                        .zip(outs)
                {
                    for k in 0..LANES {
                        let results = [&mut gscale[k], &mut gshift[k], &mut g[k]];
                        element(k, x[k], gy[k], scale[k], results);
                    }
                }
                for (k, (((((x, gy), scale), gscale), gshift), g)) in
                    (x_rest.iter().zip(gy_rest).zip(scale_rest))
                        .zip(gscale_rest)
                        .zip(gshift_rest)
                        .zip(out_rest)
                        .enumerate()
                {
                    element(k, *x, *gy, *scale, [gscale, gshift, g]);
                }
                total = [total[0] + collected(a), total[1] + collected(b)];
            }
            let [slope, shift] = line.tilt(gradient.lines.size(), total);
            for (x, g) in x.iter().zip(out) {
                *g = *g * line.factor + (line.normal(*x) * slope + shift);
            }
        }
    }
}

/// The gradient where neighbours have the same scale. What each run of neighbours contributes to the
/// gradients of scales and of shifts is written in the order of lines.
pub(super) struct GradientOfRuns<'a, 'o, 'p, 'c, T> {
    pub(super) gradient: Gradient<'a, T>,
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) out: Pieces<'o, 'p, T>,
    pub(super) contributions: &'c mut [[f64; 2]],
}

impl<T: Real> NullaryFnOnce for GradientOfRuns<'_, '_, '_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self {
            gradient,
            first,
            count,
            out,
            contributions,
        } = self;
        let (lines, parameters) = (gradient.lines, gradient.parameters);
        let length = lines.length;
        let run = parameters.map_or(length, |parameters| parameters.pattern.run);
        let one = [T::ONE];
        let scales = |line: usize, piece: usize| match parameters {
            Some(parameters) => {
                let start = parameters.pattern.start(lines.number(line, piece));
                &parameters.scale[start..start + length / run]
            }
            None => &one[..],
        };
        let mut contributions = contributions.iter_mut();
        for i in 0..count {
            let at = first + i;
            let line = gradient.line(at);
            let mut total = [0.0; 2];
            let pieces = (lines.pieces(gradient.x, at)).zip(lines.pieces(gradient.gy, at));
            for (piece, (x, gy)) in pieces.clone().enumerate() {
                let runs = x.chunks(run).zip(gy.chunks(run));
                for ((x, gy), scale) in runs.zip(scales(at, piece)) {
                    let [all, along] = sums_of_pairs(
                        x,
                        gy,
                        #[inline(always)]
                        |x, gy| [gy, gy * line.normal(x)],
                    );
                    *contributions.next().expect("one for each run") = [along, all];
                    let scale = scale.wide();
                    total = [total[0] + scale * all, total[1] + scale * along];
                }
            }
            let [slope, shift] = line.tilt(lines.size(), total);
            for (piece, (x, gy)) in pieces.enumerate() {
                let out = &mut out[piece][i * length..][..length];
                let runs = x.chunks(run).zip(gy.chunks(run)).zip(out.chunks_mut(run));
                for (((x, gy), out), scale) in runs.zip(scales(at, piece)) {
                    for ((x, gy), gx) in x.iter().zip(gy).zip(out) {
                        *gx = *gy * *scale * line.factor + (line.normal(*x) * slope + shift);
                    }
                }
            }
        }
    }
}

/// The gradient of a line of several short pieces that all have the same scale. What it contributes to the gradients of
/// the scale and of the shift is written beside.
// PERF: as a branch of the one for runs it makes that slower by a fifth.
pub(super) struct GradientOfPieces<'a, 'o, 'p, 'c, T> {
    pub(super) gradient: Gradient<'a, T>,
    pub(super) line: usize,
    pub(super) out: Pieces<'o, 'p, T>,
    pub(super) contribution: &'c mut [f64; 2],
}

impl<T: Real> NullaryFnOnce for GradientOfPieces<'_, '_, '_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let (gradient, lines) = (self.gradient, self.gradient.lines);
        let line = gradient.line(self.line);
        let scale = gradient.parameters.map_or(T::ONE, |own| {
            own.scale[own.pattern.start(lines.number(self.line, 0))]
        });
        let [x, gy] = [gradient.x, gradient.gy].map(|all| lines.pieces(all, self.line));
        let pairs = x.zip(gy).map(|(x, gy)| [x, gy]);
        let mut sums = [0.0; 2];
        for_pieces(
            pairs.clone(),
            #[inline(always)]
            |[x, gy]| {
                let [all, along] = sums_of_pairs(
                    x,
                    gy,
                    #[inline(always)]
                    |x, gy| [gy, gy * line.normal(x)],
                );
                sums = [sums[0] + all, sums[1] + along];
            },
        );
        let [all, along] = sums;
        *self.contribution = [along, all];
        let sums = sums.map(|sum| scale.wide() * sum);
        let [slope, shift] = line.tilt(lines.size(), sums);
        for ([x, gy], out) in pairs.zip(self.out) {
            for ((x, gy), gx) in x.iter().zip(gy).zip(&mut **out) {
                *gx = *gy * scale * line.factor + (line.normal(*x) * slope + shift);
            }
        }
    }
}
