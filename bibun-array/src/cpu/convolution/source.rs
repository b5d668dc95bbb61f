//! The elements that are read, between their padding.

use pulp::Simd;

use super::memory::{copy, places, steps};
use crate::cpu::tile::{Float, transposed};

/// The places of the elements of one channel between their padding.
pub(super) struct Source {
    /// Where rows begin.
    pub(super) rows: Vec<usize>,
    pub(super) width: usize,
    /// The number of elements of the padding before a row.
    pub(super) before: usize,
    /// The number of parts of a row. Elements that are `split` apart are neighbours in one part.
    pub(super) split: usize,
    pub(super) part: usize,
    /// The number of elements of a channel with its padding.
    pub(super) size: usize,
}

impl Source {
    /// Creates it from the padding before every axis and the sizes with all padding.
    pub(super) fn new(sizes: &[usize], before: &[usize], padded: &[usize], split: usize) -> Self {
        let last = sizes.len() - 1;
        let part = padded[last].div_ceil(split);
        let mut padded = padded.to_vec();
        padded[last] = part.saturating_mul(split);
        let steps = steps(&padded, 1);
        let along = |axis: usize| (0..sizes[axis]).map(move |i| before[axis] + i);
        let rows = places((0..last).map(|axis| {
            let step = steps[axis];
            along(axis).map(move |i| i * step)
        }));
        Self {
            rows,
            width: sizes[last],
            before: before[last],
            split,
            part,
            size: padded.into_iter().fold(1, usize::saturating_mul),
        }
    }

    /// Returns whether the elements can be read where they are: without padding, in one part.
    pub(super) fn is_bare(&self) -> bool {
        self.size == self.rows.len() * self.width && self.split == 1
    }

    /// Writes channels between their padding.
    #[inline(always)]
    pub(super) fn enter<S: Simd, T: Float>(
        &self,
        simd: S,
        channels: usize,
        x: &[T],
        source: &mut [T],
    ) {
        let size = self.rows.len() * self.width;
        for (x, source) in x[..channels * size]
            .chunks_exact(size)
            .zip(source.chunks_exact_mut(self.size))
        {
            for (x, &row) in x.chunks_exact(self.width).zip(&self.rows) {
                if self.split == 1 {
                    copy(simd, x, &mut source[row + self.before..][..self.width]);
                    continue;
                }
                for first in 0..self.split.min(self.width) {
                    let at = self.before + first;
                    let at = row + at % self.split * self.part + at / self.split;
                    for i in 0..(self.width - first).div_ceil(self.split) {
                        source[at + i] = x[first + i * self.split];
                    }
                }
            }
        }
    }
}

/// The places of the elements of a group between their padding, channels last.
pub(super) struct ChannelsLast {
    pub(super) channels: usize,
    /// Where rows begin.
    pub(super) rows: Vec<usize>,
    pub(super) width: usize,
    /// The number of elements with the padding.
    pub(super) size: usize,
}

impl ChannelsLast {
    #[inline(always)]
    pub(super) fn enter<S: Simd, T: Float>(&self, simd: S, x: &[T], source: &mut [T]) {
        let (channels, width) = (self.channels, self.width);
        let size = self.rows.len() * width;
        for (i, &row) in self.rows.iter().enumerate() {
            let source = &mut source[row..][..width * channels];
            if channels == 1 {
                copy(simd, &x[i * width..][..width], source);
                continue;
            }
            transpose(simd, &x[i * width..], size, channels, source);
        }
    }
}

/// Writes channels that are `size` apart with the channels last, as many elements of each as there is
/// room for.
#[inline(always)]
fn transpose<S: Simd, T: Float>(simd: S, x: &[T], size: usize, channels: usize, out: &mut [T]) {
    let lanes = T::lanes::<S>();
    let count = out.len() / channels;
    let is_inside = (channels - 1) * size + lanes.max(count) <= x.len();
    // PERF: with fewer registers, squares of vectors are in memory.
    if const { S::REGISTER_COUNT < 32 } || channels < lanes || !is_inside {
        return transpose_blocks(x, size, channels, out);
    }
    // The last squares share elements with those before.
    for first in (0..count).step_by(lanes) {
        let first = first.min(count.saturating_sub(lanes));
        for channel in (0..channels).step_by(lanes) {
            let channel = channel.min(channels - lanes);
            let row = |i: usize| &x[(channel + i) * size + first..];
            let square = transposed::<S, T>(simd, row);
            if count >= lanes {
                for i in 0..lanes {
                    T::store::<S>(&mut out[(first + i) * channels + channel..], square[i]);
                }
            } else {
                for (i, &row) in square.iter().take(count).enumerate() {
                    T::store::<S>(&mut out[i * channels + channel..], row);
                }
            }
        }
    }
}

/// The same by blocks of a few elements.
#[inline(always)]
fn transpose_blocks<T: Float>(x: &[T], size: usize, channels: usize, out: &mut [T]) {
    const SIDE: usize = 8;
    let count = out.len() / channels;
    let (whole, rows) = (channels / SIDE * SIDE, count / SIDE * SIDE);
    for first in (0..rows).step_by(SIDE) {
        for channel in (0..whole).step_by(SIDE) {
            let mut block = [[T::ZERO; SIDE]; SIDE];
            for (i, line) in block.iter_mut().enumerate() {
                line.copy_from_slice(&x[(channel + i) * size + first..][..SIDE]);
            }
            for i in 0..SIDE {
                let out = &mut out[(first + i) * channels + channel..][..SIDE];
                for (out, line) in out.iter_mut().zip(&block) {
                    *out = line[i];
                }
            }
        }
    }
    for channel in 0..channels {
        let from = if channel < whole { rows } else { 0 };
        let line = &x[channel * size..][..count];
        for (i, &x) in line.iter().enumerate().skip(from) {
            out[i * channels + channel] = x;
        }
    }
}
