//! Sums in vectors of output channels, for any number of positions.

use std::sync::OnceLock;

use pulp::{Arch, Simd, WithSimd};

use super::border::Meetings;
use super::correlation::Correlation;
use super::grid::PositionRows;
use crate::cpu::matmul::Matrix;
use crate::cpu::product::{Pack, Panels, wide};
use crate::cpu::threads::{Sharing, chunks, for_each};
use crate::cpu::tile::{Float, HEIGHTS, Scattered, Tap, scattered, tall, transposed};
use crate::storage::Buffer;

/// The number of positions whose sums are kept until they are written, and the most vectors of a sum.
const POSITIONS: usize = 480;
const WIDE: usize = 4;
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

/// Sums at all positions.
pub(super) struct Channels {
    /// Those of a block of examples, and of the remaining examples.
    blocks: [Positions; 2],
    /// The taps that meet elements, and the step to each.
    meetings: Meetings,
    offsets: Vec<usize>,
    /// The step between channels.
    apart: usize,
}

struct Positions {
    /// Where each position begins to read.
    starts: Vec<usize>,
    /// Positions that are written at even steps.
    runs: Vec<Run>,
    step: usize,
    /// The positions in tiles of each height.
    tiles: [OnceLock<Tiles>; 2],
}

/// Positions in tiles of one height.
struct Tiles {
    /// For as many positions as are kept.
    bands: Vec<Vec<Band>>,
    sets: Vec<Vec<Tap>>,
}

/// Tiles that have the same taps.
struct Band {
    positions: Vec<usize>,
    set: usize,
}

struct Run {
    first: usize,
    place: usize,
    len: usize,
}

impl Channels {
    /// Creates them for a block of examples and the remaining ones, which are `apart` where they are read and
    /// written, with the steps to the taps and from channel to channel.
    pub(super) fn new(
        rows: &PositionRows,
        blocks: [usize; 2],
        apart: [usize; 2],
        meetings: Meetings,
        (offsets, channel): (Vec<usize>, usize),
    ) -> Self {
        Self {
            blocks: blocks.map(|examples| Positions::new(rows, examples, apart)),
            meetings,
            offsets,
            apart: channel,
        }
    }

    /// Puts the positions in the tiles of so many vectors, before threads need them, which would wait for each other.
    fn prepare<S: Simd>(&self, vectors: usize) {
        for vectors in Panels::new(vectors, wide::<S>(), false) {
            for positions in &self.blocks {
                positions.tiles(tall::<S>(vectors), self);
            }
        }
    }

    /// Whether so many outputs leave so little of their vectors empty that no other way is better where
    /// positions are not side by side.
    pub(super) const fn are_full(outputs: usize, lanes: usize) -> bool {
        lanes > 1 && outputs.next_multiple_of(lanes) <= outputs + outputs / 8
    }

    /// Returns the cost, in multiplications of two vectors, with this number of outputs and of elements that the
    /// positions of an example meet.
    pub(super) fn cost(
        rows: &PositionRows,
        examples: usize,
        [outputs, met]: [usize; 2],
        lanes: usize,
    ) -> usize {
        let positions = rows.rows.len() * rows.len;
        let count = positions * examples;
        let vectors = outputs.div_ceil(lanes);
        // The last positions of a tile may be repeated.
        let tile = HEIGHTS[1];
        let repeated = (count.next_multiple_of(tile) - count) * met.div_ceil(positions.max(1));
        let products = (examples * met + repeated) * vectors;
        // A single vector in a tile waits for the factors.
        let waiting = if vectors == 1 { products / 4 } else { 0 };
        let writing = if rows.step == 1 { 1 } else { 4 };
        products + waiting + count * outputs * writing
    }

    /// The number of sums that are kept.
    pub(super) const fn results(lanes: usize) -> usize {
        POSITIONS * WIDE * lanes
    }

    /// Computes some channels of the output from so many of the input, with panels of weights.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)]
    pub(super) fn run<S: Simd, T: Float>(
        &self,
        simd: S,
        is_rest: bool,
        channels: usize,
        [source, weights]: [&[T]; 2],
        inputs: usize,
        results: &mut [T],
        (out, size): (&mut [T], usize),
    ) {
        let positions = &self.blocks[usize::from(is_rest)];
        let lanes = T::lanes::<S>();
        for (i, starts) in positions.starts.chunks(POSITIONS).enumerate() {
            let mut at = 0;
            for vectors in Panels::new(channels.div_ceil(lanes), wide::<S>(), false) {
                // The weights of one channel, and the number of channels at once.
                let width = vectors * lanes;
                let kernel = width * self.offsets.len();
                let weights = &weights[at * self.offsets.len() * inputs..][..kernel * inputs];
                let most = (const { panel::<S>() } / (kernel * size_of::<T>())).max(1);
                let length = inputs.div_ceil(inputs.div_ceil(most));
                let tiles = positions.tiles(tall::<S>(vectors), self);
                for (part, weights) in weights.chunks(length * kernel).enumerate() {
                    for band in &tiles.bands[i] {
                        let work = Scattered {
                            memory: &source[part * length * self.apart..],
                            starts,
                            positions: &band.positions,
                            taps: &tiles.sets[band.set],
                            kernel: self.offsets.len(),
                            apart: self.apart,
                            weights,
                            out: &mut *results,
                            add: part > 0,
                        };
                        scattered(simd, work, vectors);
                    }
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
            tiles: Default::default(),
        }
    }

    /// Returns the positions in tiles of this one of the heights.
    fn tiles(&self, height: usize, channels: &Channels) -> &Tiles {
        self.tiles[height].get_or_init(|| {
            let Channels {
                meetings, offsets, ..
            } = channels;
            let mut sets = meetings.sets.clone();
            let examples = self.starts.len() / meetings.of.len();
            let of = meetings.of.repeat(examples);
            let bands = of
                .chunks(POSITIONS)
                .map(|of| bands(of, HEIGHTS[height], offsets.len(), &mut sets));
            let bands = bands.collect();
            let taps = |set: Vec<usize>| {
                let step = |number| Tap {
                    number,
                    step: offsets[number],
                };
                set.into_iter().map(step).collect()
            };
            Tiles {
                bands,
                sets: sets.into_iter().map(taps).collect(),
            }
        })
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

/// Returns positions with these sets of taps in tiles of a height. What is left of the sets shares tiles, which
/// have the taps of all their positions.
fn bands(of: &[usize], height: usize, taps: usize, sets: &mut Vec<Vec<usize>>) -> Vec<Band> {
    let mut is_met = vec![false; taps];
    let mut with: Vec<Vec<usize>> = vec![Vec::new(); sets.len()];
    for (position, &set) in of.iter().enumerate() {
        with[set].push(position);
    }
    let (mut bands, mut left) = (Vec::new(), Vec::new());
    for (set, mut positions) in with.into_iter().enumerate() {
        left.extend(positions.split_off(positions.len() / height * height));
        if !positions.is_empty() {
            bands.push(Band { positions, set });
        }
    }
    for tile in left.chunks(height) {
        is_met.fill(false);
        // Positions of one set are neighbours.
        for those in tile.chunk_by(|&a, &b| of[a] == of[b]) {
            sets[of[those[0]]]
                .iter()
                .for_each(|&tap| is_met[tap] = true);
        }
        let taps: Vec<usize> = (0..taps).filter(|&tap| is_met[tap]).collect();
        let known = sets.iter().position(|set| *set == taps);
        let set = known.unwrap_or_else(|| {
            sets.push(taps);
            sets.len() - 1
        });
        match bands.last_mut() {
            Some(band) if band.set == set => band.positions.extend(tile),
            _ => bands.push(Band {
                positions: tile.to_vec(),
                set,
            }),
        }
    }
    bands
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

/// Returns the weights of all phases as panels, for parts of so many channels, which threads share, and makes their tiles.
pub(super) fn packed<T: Float>(correlation: &Correlation, part: usize, w: &[T]) -> Buffer {
    let vectors = part.div_ceil(super::memory::lanes::<T>());
    let width = vectors * super::memory::lanes::<T>();
    let parts = correlation.groups * correlation.outputs / part;
    let depths = correlation.phases.iter().map(|phase| phase.steps.len());
    let mut packed = Buffer::new::<T>(parts * width * depths.sum::<usize>());
    let (mut from, mut to) = (w, packed.as_mut_slice::<T>());
    for phase in &correlation.phases {
        if let Some(channels) = &phase.channels {
            Arch::new().dispatch(Prepare(channels, vectors));
        }
        let depth = phase.steps.len();
        if depth == 0 {
            continue;
        }
        let own = from
            .split_off(..parts * part * depth)
            .expect("weights of the phase");
        let panels = to
            .split_off_mut(..parts * width * depth)
            .expect("their panels");
        // Two elements are copied in a nanosecond, in tiles that are turned.
        let sharing = Sharing::of(own.len() / 2);
        for_each(chunks(panels, width * depth), sharing, 1, &|i, to| {
            let from = &own[i * part * depth..][..part * depth];
            Arch::new().dispatch(PackPart { from, depth, to });
        });
    }
    packed
}

/// See [`Channels::prepare`].
struct Prepare<'a>(&'a Channels, usize);

impl WithSimd for Prepare<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.0.prepare::<S>(self.1);
    }
}

/// The panels of a part.
struct PackPart<'a, 'y, T> {
    from: &'a [T],
    depth: usize,
    to: &'y mut [T],
}

impl<T: Float> WithSimd for PackPart<'_, '_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { from, depth, to } = self;
        let part = from.len() / depth;
        simd.vectorize(Pack {
            from: Matrix {
                memory: from,
                row: 1,
                column: depth,
            },
            depth,
            columns: part,
            panels: Panels::new(part.div_ceil(T::lanes::<S>()), wide::<S>(), false),
            to,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_position_is_in_one_tile_with_its_taps() {
        let known = [vec![0, 1, 2, 3], vec![1, 2, 3], vec![0, 1], vec![]];
        for height in HEIGHTS {
            for count in [1, 5, 6, 8, 31, 64, 480] {
                let of: Vec<usize> = (0..count)
                    .map(|i| [0, 3, 1, 0, 2, 3, 0][i * i % 7])
                    .collect();
                let mut sets = known.to_vec();
                let mut met = vec![0; count];
                let mut products = 0;
                for Band { positions, set } in bands(&of, height, 4, &mut sets) {
                    products += positions.len() * sets[set].len();
                    for position in positions {
                        met[position] += 1;
                        let own = &sets[of[position]];
                        assert!(own.iter().all(|tap| sets[set].contains(tap)));
                    }
                }
                assert_eq!(met, vec![1; count]);
                // At most a tile of each set but the first one has more taps than that.
                let least: usize = of.iter().map(|&set| known[set].len()).sum();
                assert!(products >= least && products <= least + 3 * height * 4);
            }
        }
    }
}
