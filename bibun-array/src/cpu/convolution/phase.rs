//! The positions that read the same elements of the kernel.

use pulp::Simd;

use super::channels::Channels;
use super::grid::{Grid, Vector};
use super::lines::Lines;
use super::memory::SLACK;
use crate::cpu::tile::{Float, Lane, WIDE};

/// Positions that read the same elements of the kernel, and these elements.
pub(super) struct Phase {
    /// Which elements of the kernel.
    pub(super) taps: Vec<usize>,
    /// The steps from the position to all elements of a patch.
    pub(super) steps: Vec<usize>,
    /// The largest of them.
    pub(super) last: usize,
    /// Their places among the gathered elements.
    pub(super) gathered: Option<Vec<usize>>,
    /// The step between neighbours of a row where they are written.
    pub(super) step: usize,
    /// For a block of examples, and for the remaining examples.
    pub(super) grids: [Grid; 2],
    /// The positions in vectors of channels instead, where that takes fewer vectors.
    pub(super) channels: Option<Channels>,
    /// The positions in lines instead, if there is one output channel.
    pub(super) lines: Option<Lines>,
}

impl Phase {
    /// Returns the places where the vectors begin, the steps from there and their largest, after gathering
    /// if needed.
    #[inline(always)]
    pub(super) fn read<S: Simd, T: Float>(
        &self,
        _: S,
        grid: &Grid,
        vectors: &[Vector],
        source: &[T],
        patches: &mut [T],
    ) -> ([Lane; WIDE], &[usize], usize) {
        let mut lanes = [Lane::default(); WIDE];
        for (lane, vector) in lanes.iter_mut().zip(vectors) {
            *lane = vector.lane;
        }
        let Some(gathered) = &self.gathered else {
            return (lanes, &self.steps, self.last);
        };
        let len = T::lanes::<S>();
        for (i, lane) in lanes.iter_mut().enumerate() {
            lane.start = i * len;
        }
        let mut copies = [[0; 2]; WIDE * SLACK];
        let mut count = 0;
        for (i, vector) in vectors.iter().enumerate() {
            for piece in &grid.pieces[vector.pieces.clone()] {
                copies[count] = [piece.start, i * len + piece.lane];
                count += 1;
            }
        }
        for (&step, &place) in self.steps.iter().zip(gathered) {
            for [from, to] in &copies[..count] {
                let x = T::load::<S>(&source[step + from..]);
                T::store::<S>(&mut patches[place + to..], x);
            }
        }
        (lanes, gathered, gathered.last().copied().unwrap_or(0))
    }

    /// Writes one row of a tile to its places.
    #[inline(always)]
    pub(super) fn spread<S: Simd, T: Float>(
        &self,
        simd: S,
        grid: &Grid,
        vectors: &[Vector],
        row: &[T],
        out: &mut [T],
    ) {
        for (i, vector) in vectors.iter().enumerate() {
            for piece in &grid.pieces[vector.pieces.clone()] {
                let row = &row[i * T::lanes::<S>() + piece.lane..][..piece.len];
                let out = &mut out[piece.place..];
                match self.step {
                    1 => T::store_part(simd, &mut out[..piece.len], T::load_part(simd, row)),
                    step => {
                        for (i, &x) in row.iter().enumerate() {
                            out[i * step] = x;
                        }
                    }
                }
            }
        }
    }
}
