//! Groups with one output channel: its positions row by row where few vectors are a row, or in lines of neighbours
//! with the padding between rows.

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
/// The most vectors of a row that is computed alone.
const MOST: usize = 4;
/// The time in which a vector of sums is copied to its place, in multiplications of vectors.
const COPY: usize = 3;

/// Sums at all positions of one channel, for a block of examples and for the remaining examples.
pub(super) struct Lines {
    blocks: [Block; 2],
    /// The length of the longest.
    pub(super) longest: usize,
}

/// Some examples.
enum Block {
    Lines(Vec<Line>),
    /// Rows of `len` positions, each of which is `vectors` vectors, of which the last two may share elements.
    Rows {
        rows: Vec<[usize; 2]>,
        vectors: usize,
        len: usize,
    },
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
    /// `taps`: the number of products of a sum.
    pub(super) fn new(
        rows: &PositionRows,
        taps: usize,
        blocks: [usize; 2],
        apart: [usize; 2],
        lanes: usize,
    ) -> Self {
        let blocks = blocks.map(|examples| Block::new(rows, taps, examples, apart, lanes));
        let lengths = blocks.iter().flat_map(|block| match block {
            Block::Lines(lines) => &lines[..],
            Block::Rows { .. } => &[],
        });
        Self {
            longest: lengths.map(|line| line.len).max().unwrap_or(0),
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
        let lines = match &self.blocks[usize::from(is_rest)] {
            Block::Lines(lines) => lines,
            Block::Rows { rows, vectors, len } => {
                let of_rows = Rows {
                    source,
                    last: phase.last,
                    steps: &phase.steps,
                    factors,
                    rows,
                    len: *len,
                    out,
                };
                return match vectors {
                    1 => simd.vectorize(Together::<T, { together(1) }, 1>(of_rows)),
                    2 => simd.vectorize(Together::<T, { together(2) }, 2>(of_rows)),
                    3 => simd.vectorize(Together::<T, { together(3) }, 3>(of_rows)),
                    4 => simd.vectorize(Together::<T, { together(4) }, 4>(of_rows)),
                    _ => unreachable!("no more are a row"),
                };
            }
        };
        for line in lines {
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

/// The number of rows of so many vectors that are computed together.
const fn together(vectors: usize) -> usize {
    match vectors {
        1 => 8,
        2 => 4,
        _ => 2,
    }
}

impl Block {
    fn new(
        rows: &PositionRows,
        taps: usize,
        examples: usize,
        apart: [usize; 2],
        lanes: usize,
    ) -> Self {
        let (len, vectors) = (rows.len, rows.len.div_ceil(lanes));
        let can_be_alone = len >= lanes
            && vectors <= MOST
            && rows.step == 1
            && rows.rows.len() * examples >= together(vectors);
        // How far the line goes on for a row.
        let on = match rows.rows[..] {
            [[first, _], [second, _], ..] => second.saturating_sub(first),
            _ => len,
        };
        let is_faster = || vectors * lanes * taps <= on * taps + vectors * lanes * COPY;
        match can_be_alone && is_faster() {
            true => Self::Rows {
                rows: rows.all(examples, apart).collect(),
                vectors,
                len,
            },
            false => Self::Lines(lines(rows, examples, apart, lanes)),
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

/// Sums at all positions of some rows.
struct Rows<'a, T> {
    source: &'a [T],
    last: usize,
    steps: &'a [usize],
    factors: &'a [T],
    /// Where each of them begins, and its place in the output.
    rows: &'a [[usize; 2]],
    len: usize,
    out: &'a mut [T],
}

/// `R` rows of `V` vectors at a time. The last rows may be computed twice.
struct Together<'a, T, const R: usize, const V: usize>(Rows<'a, T>);

impl<T: Float, const R: usize, const V: usize> WithSimd for Together<'_, T, R, V> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Rows {
            source,
            last,
            steps,
            factors,
            rows,
            len,
            out,
        } = self.0;
        let lanes = T::lanes::<S>();
        // Where vectors begin in a row.
        let mut starts = [0; V];
        for (v, start) in starts.iter_mut().enumerate() {
            *start = (v * lanes).min(len - lanes);
        }
        let mut first = 0;
        while first < rows.len() {
            let rows: &[[usize; 2]; R] = rows[first.min(rows.len() - R)..]
                .first_chunk()
                .expect("there are as many");
            first += R;
            let mut read = [[source; V]; R];
            let mut sums = [[T::splat(simd, T::ZERO); V]; R];
            for r in 0..R {
                for v in 0..V {
                    read[r][v] = &source[rows[r][0] + starts[v]..][..last + lanes];
                }
            }
            for (&step, &factor) in steps.iter().zip(factors) {
                let factor = T::splat(simd, factor);
                for r in 0..R {
                    for v in 0..V {
                        let read = T::load::<S>(&read[r][v][step..]);
                        sums[r][v] = T::multiply_add(simd, factor, read, sums[r][v]);
                    }
                }
            }
            for r in 0..R {
                let out = &mut out[rows[r][1]..][..len];
                for v in 0..V {
                    T::store::<S>(&mut out[starts[v]..], sums[r][v]);
                }
            }
        }
    }
}
