//! Groups with one output channel: its positions, with the padding between rows, in lines of neighbours.

use std::ops::Range;

use pulp::{Simd, WithSimd};

use super::grid::PositionRows;
use super::memory::copy;
use super::phase::Phase;
use crate::cpu::tile::Float;

/// The number of vectors that are summed at once.
const WIDE: usize = 8;
/// The length from which a line is not made longer.
const LENGTH: usize = 1 << 11;

/// Sums at all positions of one channel, for a block of examples and for the remaining examples.
pub(super) struct Lines {
    blocks: [Vec<Line>; 2],
    /// The length of the longest.
    pub(super) longest: usize,
}

/// Neighbours where they are read, some of which belong to no position.
struct Line {
    start: usize,
    len: usize,
    pieces: Vec<Piece>,
}

/// Positions in a line, and the place of the first one in the output.
struct Piece {
    positions: Range<usize>,
    place: usize,
}

impl Lines {
    pub(super) fn new(
        rows: &PositionRows,
        blocks: [usize; 2],
        apart: [usize; 2],
        lanes: usize,
    ) -> Self {
        let blocks = blocks.map(|examples| lines(rows, examples, apart, lanes));
        let lengths = blocks.iter().flatten().map(|line| line.len);
        Self {
            longest: lengths.max().unwrap_or(0),
            blocks,
        }
    }

    /// Computes the channel, with a factor for each step of the phase. `sums` has room for the longest line.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub(super) fn run<S: Simd, T: Float>(
        &self,
        simd: S,
        is_rest: bool,
        source: &[T],
        phase: &Phase,
        factors: &[T],
        sums: &mut [T],
        out: &mut [T],
    ) {
        let width = T::lanes::<S>();
        for line in &self.blocks[usize::from(is_rest)] {
            let mut first = 0;
            while first < line.len {
                let vectors = (line.len - first).div_ceil(width);
                let work = Part {
                    source: &source[line.start + first..],
                    last: phase.last,
                    steps: &phase.steps,
                    factors,
                    sums: &mut sums[first..],
                };
                let vectors = match vectors {
                    WIDE.. => WIDE,
                    4.. => 4,
                    2.. => 2,
                    _ => 1,
                };
                match vectors {
                    WIDE => simd.vectorize(Fixed::<T, WIDE>(work)),
                    4 => simd.vectorize(Fixed::<T, 4>(work)),
                    2 => simd.vectorize(Fixed::<T, 2>(work)),
                    _ => simd.vectorize(Fixed::<T, 1>(work)),
                }
                first += vectors * width;
            }
            for piece in &line.pieces {
                let sums = &sums[piece.positions.clone()];
                let out = &mut out[piece.place..];
                match phase.step {
                    1 => copy(simd, sums, &mut out[..sums.len()]),
                    step => {
                        for (i, &sum) in sums.iter().enumerate() {
                            out[i * step] = sum;
                        }
                    }
                }
            }
        }
    }
}

/// Returns the lines of all rows. Rows with few elements between them share one.
fn lines(rows: &PositionRows, examples: usize, apart: [usize; 2], lanes: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for [row, place] in rows.all(examples, apart) {
        for first in (0..rows.len).step_by(LENGTH) {
            let start = row + first;
            let len = LENGTH.min(rows.len - first);
            let place = place + first * rows.step;
            let is_near = |line: &&mut Line| {
                let end = line.start + line.len;
                (end..=end + 2 * lanes).contains(&start) && line.len < LENGTH
            };
            match lines.last_mut().filter(is_near) {
                Some(line) => line.push(start, len, place),
                None => {
                    let mut line = Line {
                        start,
                        len: 0,
                        pieces: Vec::new(),
                    };
                    line.push(start, len, place);
                    lines.push(line);
                }
            }
        }
    }
    lines
}

impl Line {
    fn push(&mut self, start: usize, len: usize, place: usize) {
        let first = start - self.start;
        self.len = first + len;
        self.pieces.push(Piece {
            positions: first..first + len,
            place,
        });
    }
}

/// The sums of some neighbours, of which the first reads at the beginning of the source.
struct Part<'a, T> {
    source: &'a [T],
    last: usize,
    steps: &'a [usize],
    factors: &'a [T],
    sums: &'a mut [T],
}

/// `N` vectors of them.
struct Fixed<'a, T, const N: usize>(Part<'a, T>);

impl<T: Float, const N: usize> WithSimd for Fixed<'_, T, N> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Part {
            source,
            last,
            steps,
            factors,
            sums,
        } = self.0;
        let lanes = T::lanes::<S>();
        let len = N * lanes;
        let mut vectors = [T::splat(simd, T::ZERO); N];
        let source = &source[..last + len];
        for (&step, &factor) in steps.iter().zip(factors) {
            let factor = T::splat(simd, factor);
            let read = &source[step..][..len];
            for (v, sum) in vectors.iter_mut().enumerate() {
                let read = T::load::<S>(&read[v * lanes..]);
                *sum = T::multiply_add(simd, factor, read, *sum);
            }
        }
        let sums = &mut sums[..len];
        for (v, sum) in vectors.into_iter().enumerate() {
            T::store::<S>(&mut sums[v * lanes..], sum);
        }
    }
}
