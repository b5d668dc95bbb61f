//! Sums in vectors of output channels, for any number of positions.

use pulp::{Arch, Simd, WithSimd};

use super::correlation::Correlation;
use super::grid::PositionRows;
use crate::cpu::matmul::Matrix;
use crate::cpu::product::{Pack, Panels, wide};
use crate::cpu::tile::{Float, Scattered, scattered, transposed};
use crate::storage::Buffer;

/// The number of positions whose sums are kept until they are written, a multiple of the heights of
/// tiles, and the most vectors of a sum.
const POSITIONS: usize = 480;
const WIDE: usize = 4;
/// The highest tile, whose last rows may have no position.
const HIGH: usize = 8;
/// Bytes of weights that are read for all of these positions in turn.
// PERF: with AVX2 they come from the nearest cache, which gains 8 % for 3x3 over 64 channels. With AVX-512 only the second
// one has been measured.
const fn panel<S: Simd>() -> usize {
    if S::REGISTER_COUNT >= 32 {
        1 << 17
    } else {
        3 << 13
    }
}

/// Positions one after the other, for a block of examples and for the remaining examples.
pub(super) struct Channels([Positions; 2]);

struct Positions {
    /// Where each position begins to read.
    starts: Vec<usize>,
    /// Positions that are written at even steps.
    runs: Vec<Run>,
    step: usize,
}

struct Run {
    first: usize,
    place: usize,
    len: usize,
}

impl Channels {
    pub(super) fn new(rows: &PositionRows, blocks: [usize; 2], apart: [usize; 2]) -> Self {
        Self(blocks.map(|examples| Positions::new(rows, examples, apart)))
    }

    /// Whether so many outputs leave so little of their vectors empty that no other way is better where
    /// positions are not side by side.
    pub(super) const fn are_full(outputs: usize, lanes: usize) -> bool {
        lanes > 1 && outputs.next_multiple_of(lanes) <= outputs + outputs / 8
    }

    /// Returns the cost, in multiplications of two vectors, with this number of outputs and of products in
    /// each.
    pub(super) fn cost(
        rows: &PositionRows,
        examples: usize,
        [outputs, depth]: [usize; 2],
        lanes: usize,
    ) -> usize {
        let count = rows.rows.len() * rows.len * examples;
        let vectors = outputs.div_ceil(lanes);
        let products = count.next_multiple_of(HIGH) * vectors * depth;
        // A single vector in a tile waits for the factors.
        let waiting = if vectors == 1 { products / 4 } else { 0 };
        let writing = if rows.step == 1 { 1 } else { 4 };
        products + waiting + count * outputs * writing
    }

    /// The number of sums that are kept.
    pub(super) const fn results(lanes: usize) -> usize {
        (POSITIONS + HIGH) * WIDE * lanes
    }

    /// Computes some channels of the output, with panels of weights.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub(super) fn run<S: Simd, T: Float>(
        &self,
        simd: S,
        is_rest: bool,
        channels: usize,
        [source, weights]: [&[T]; 2],
        steps: &[usize],
        results: &mut [T],
        (out, size): (&mut [T], usize),
    ) {
        let positions = &self.0[usize::from(is_rest)];
        let lanes = T::lanes::<S>();
        let span = steps.iter().max().map_or(0, |step| step + 1);
        for (i, starts) in positions.starts.chunks(POSITIONS).enumerate() {
            let mut at = 0;
            for vectors in Panels::new(channels.div_ceil(lanes), wide::<S>(), false) {
                let width = vectors * lanes;
                let weights = &weights[at * steps.len()..][..width * steps.len()];
                let most = const { panel::<S>() } / (width * size_of::<T>());
                let length = steps.len().div_ceil(steps.len().div_ceil(most));
                let parts = steps.chunks(length).zip(weights.chunks(length * width));
                for (part, (steps, weights)) in parts.enumerate() {
                    let work = Scattered {
                        memory: source,
                        starts,
                        steps,
                        span,
                        weights,
                        out: &mut *results,
                        add: part > 0,
                    };
                    scattered(simd, work, vectors);
                }
                let written = width.min(channels - at);
                let out = &mut out[at * size..];
                positions.write(
                    simd,
                    i * POSITIONS..i * POSITIONS + starts.len(),
                    |run, first| {
                        simd.vectorize(Write {
                            results: &results[first * width..],
                            width,
                            channels: written,
                            run,
                            step: positions.step,
                            out: &mut *out,
                            size,
                        });
                    },
                );
                at += width;
            }
        }
    }
}

impl Positions {
    fn new(rows: &PositionRows, examples: usize, apart: [usize; 2]) -> Self {
        let (mut starts, mut runs) = (Vec::new(), Vec::<Run>::new());
        for [start, place] in rows.all(examples, apart) {
            let first = starts.len();
            starts.extend((0..rows.len).map(|i| start + i * rows.read));
            match runs.last_mut() {
                Some(run) if run.place + run.len * rows.step == place => run.len += rows.len,
                _ => runs.push(Run {
                    first,
                    place,
                    len: rows.len,
                }),
            }
        }
        Self {
            starts,
            runs,
            step: rows.step,
        }
    }

    /// Calls `write` with the parts of runs that are in a range, and their positions in it.
    #[inline(always)]
    fn write<S: Simd>(
        &self,
        _: S,
        range: std::ops::Range<usize>,
        mut write: impl FnMut(Run, usize),
    ) {
        for run in &self.runs {
            let first = run.first.max(range.start);
            let end = (run.first + run.len).min(range.end);
            if first < end {
                let part = Run {
                    first,
                    place: run.place + (first - run.first) * self.step,
                    len: end - first,
                };
                write(part, first - range.start);
            }
        }
    }
}

/// Writes sums of channels at positions with the positions last.
struct Write<'a, T> {
    results: &'a [T],
    width: usize,
    channels: usize,
    run: Run,
    step: usize,
    out: &'a mut [T],
    size: usize,
}

impl<T: Float> WithSimd for Write<'_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            results,
            width,
            channels,
            run,
            step,
            out,
            size,
        } = self;
        let lanes = T::lanes::<S>();
        if const { S::REGISTER_COUNT < 32 } {
            for channel in 0..channels {
                let out = &mut out[channel * size + run.place..];
                for i in 0..run.len {
                    out[i * step] = results[i * width + channel];
                }
            }
            return;
        }
        for first in (0..run.len).step_by(lanes) {
            let count = lanes.min(run.len - first);
            for channel in (0..channels).step_by(lanes) {
                let row = |i: usize| &results[(first + i.min(count - 1)) * width + channel..];
                let square = transposed::<S, T>(simd, row);
                let channels = lanes.min(channels - channel);
                for (i, &row) in square.iter().take(channels).enumerate() {
                    let out = &mut out[(channel + i) * size + run.place + first * step..];
                    if step > 1 {
                        let mut line = [T::ZERO; crate::cpu::tile::LANES];
                        T::store::<S>(&mut line, row);
                        for (i, &x) in line[..count].iter().enumerate() {
                            out[i * step] = x;
                        }
                    } else if count == lanes {
                        T::store::<S>(out, row);
                    } else {
                        T::store_part(simd, &mut out[..count], row);
                    }
                }
            }
        }
    }
}

/// Returns the weights of all phases as panels, for parts of so many channels.
pub(super) fn packed<T: Float>(correlation: &Correlation, part: usize, w: &[T]) -> Buffer {
    let lanes = super::memory::lanes::<T>();
    let parts = correlation.groups * correlation.outputs / part * part.next_multiple_of(lanes);
    let depth: usize = correlation
        .phases
        .iter()
        .map(|phase| phase.steps.len())
        .sum();
    let mut packed = Buffer::new::<T>(parts * depth);
    Arch::new().dispatch(Packed {
        correlation,
        part,
        w,
        to: packed.as_mut_slice::<T>(),
    });
    packed
}

struct Packed<'a, T> {
    correlation: &'a Correlation,
    part: usize,
    w: &'a [T],
    to: &'a mut [T],
}

impl<T: Float> WithSimd for Packed<'_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let lanes = T::lanes::<S>();
        let (mut w, mut to) = (self.w, self.to);
        let vectors = self.part.div_ceil(lanes);
        for phase in &self.correlation.phases {
            let depth = phase.steps.len();
            for _ in 0..self.correlation.groups * self.correlation.outputs / self.part {
                let (from, later) = w.split_at(self.part * depth);
                let (panels, rest) = to.split_at_mut(vectors * lanes * depth);
                (w, to) = (later, rest);
                if depth == 0 {
                    continue;
                }
                simd.vectorize(Pack {
                    from: Matrix {
                        memory: from,
                        row: 1,
                        column: depth,
                    },
                    depth,
                    columns: self.part,
                    panels: Panels::new(vectors, wide::<S>(), false),
                    to: panels,
                });
            }
        }
    }
}
