//! The weights of a convolution, from its input and output.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::EXAMPLES;
use super::grid::COPY;
use super::memory::{STREAMED, Scratch, Unit, fence, for_each_with, places, steps, stream, worth};
use super::source::ChannelsLast;
use crate::convolution::{Convolution, Window};
use crate::cpu::tile::{Float, Lane, Rows, Target, Vectors, high, sums, width};

/// The most outputs whose weights are computed before they are written past the caches: a row of tiles.
const HIGH: usize = 8;
/// The number of positions that the weights are summed over at once: a tile fits in the nearest cache.
const LENGTH: usize = 192;
/// The number of bytes of patches that are gathered at once: a part of a core's cache.
const PATCHES: usize = 1 << 19;

/// The weights of a group from input and output: sums over positions, in vectors of neighbouring
/// channels and elements of the kernel.
pub(super) struct Gradient {
    pub(super) groups: usize,
    inputs: usize,
    outputs: usize,
    pub(super) source: ChannelsLast,
    /// The places where positions begin to read.
    pub(super) starts: Vec<usize>,
    /// The steps from there to the elements that a kernel reads, in runs of `run` neighbours.
    pub(super) runs: Vec<usize>,
    pub(super) run: usize,
    /// The number of weights of one output.
    pub(super) depth: usize,
    /// The patches that are gathered into whole vectors, if they are.
    gathered: Option<Gathered>,
    vectors: Vec<Lane>,
    /// The positions from which each vector meets elements along the first axis, and not only padding.
    met: Vec<Range<usize>>,
    /// The numbers of examples and positions that are taken at once.
    block: usize,
    length: usize,
}

/// Patches of `patch` elements, made of vectors with a place in the input and one in the patch.
struct Gathered {
    copies: Vec<[usize; 2]>,
    patch: usize,
    /// The places where patches begin.
    steps: Vec<usize>,
}

impl Gradient {
    pub(super) fn new(convolution: &Convolution, n: usize, unit: Unit) -> Self {
        let Convolution {
            groups,
            inputs,
            outputs,
            ref sizes,
            ref windows,
        } = *convolution;
        let lanes = unit.lanes;
        let last = sizes.rank() - 1;
        let padded = windows.iter().zip(sizes.iter());
        let padded: Vec<usize> = padded.map(|(window, &size)| window.padded(size)).collect();
        let steps = steps(&padded, inputs);
        let positions = convolution.positions();
        let corner: usize = (0..=last).map(|i| windows[i].padding[0] * steps[i]).sum();
        let rows = places((0..last).map(|axis| {
            let step = steps[axis];
            (0..sizes[axis]).map(move |i| i * step)
        }));
        let starts = places((0..=last).map(|axis| {
            let step = windows[axis].stride * steps[axis];
            (0..positions[axis]).map(move |i| i * step)
        }));
        let tap = |axis: usize| {
            let step = windows[axis].dilation * steps[axis];
            (0..windows[axis].kernel).map(move |i| i * step)
        };
        // The elements that a kernel reads at a position are runs of neighbours.
        let (runs, run) = match windows[last].dilation {
            1 => (places((0..last).map(tap)), windows[last].kernel * inputs),
            _ => (places((0..=last).map(tap)), inputs),
        };
        let depth = runs.len() * run;
        let rows_of = |run: usize| {
            let Window {
                kernel,
                stride,
                padding: [padding, _],
                dilation,
            } = windows[0];
            // A run of one axis may hold all taps.
            let of_tap = runs.len() / kernel;
            if of_tap == 0 {
                return 0..positions[0];
            }
            let tap = run / of_tap * dilation;
            let first = padding.saturating_sub(tap).div_ceil(stride);
            let end = (padding + sizes[0]).saturating_sub(tap).div_ceil(stride);
            let end = end.min(positions[0]);
            first.min(end)..end
        };
        let of_row = starts.len() / positions[0].max(1);
        let pieces = runs.iter().enumerate().flat_map(|(i, &start)| {
            (0..run).step_by(lanes).map(move |first| Lane {
                start: start + first,
                place: i * run + first,
                len: lanes.min(run - first),
            })
        });
        let pieces: Vec<Lane> = pieces.collect();
        let mut met: Vec<_> = pieces
            .iter()
            .map(|piece| {
                let rows = rows_of(piece.place / run);
                rows.start * of_row..rows.end * of_row
            })
            .collect();
        let patch = depth.next_multiple_of(lanes);
        let is_gathered = patch / lanes * outputs + pieces.len() * COPY < pieces.len() * outputs;
        let mut most = LENGTH;
        let mut vectors = pieces;
        let mut gathered = None;
        if is_gathered {
            most = most.min(PATCHES / unit.bytes / patch).max(2 * lanes);
            gathered = Some(
                vectors
                    .iter()
                    .map(|piece| [piece.start, piece.place])
                    .collect(),
            );
            vectors = (0..depth)
                .step_by(lanes)
                .map(|place| Lane {
                    start: place,
                    place,
                    len: lanes.min(depth - place),
                })
                .collect();
            met = vec![0..starts.len(); vectors.len()];
        }
        let length = starts.len().div_ceil(starts.len().div_ceil(most));
        Self {
            groups,
            inputs,
            outputs,
            source: ChannelsLast {
                channels: inputs,
                rows: rows.into_iter().map(|row| corner + row).collect(),
                width: sizes[last],
                size: padded.iter().product::<usize>() * inputs,
            },
            block: (most / starts.len()).clamp(1, EXAMPLES).min(n),
            starts,
            runs,
            run,
            depth,
            gathered: gathered.map(|copies| Gathered {
                copies,
                patch,
                steps: (0..length).map(|k| k * patch).collect(),
            }),
            vectors,
            met,
            length,
        }
    }

    /// Computes the weights, `[parts, groups * outputs, taps, inputs]`, of each part of the examples.
    pub(super) fn run<T: Float>(&self, n: usize, parts: usize, x: &[T], y: &[T], w: &mut [T]) {
        let multiplications = n * self.groups * self.outputs * self.starts.len() * self.depth;
        let threads = worth::<T>(multiplications);
        let mut outputs = self.outputs;
        let most = 2 * rayon::current_num_threads();
        if threads && parts * self.groups < most {
            let chunks = most.div_ceil(parts * self.groups);
            let chunk = self.outputs.div_ceil(chunks).next_multiple_of(8);
            if self.outputs.is_multiple_of(chunk) {
                outputs = chunk;
            }
        }
        let patches = self
            .gathered
            .as_ref()
            .map_or(0, |gathered| self.block * self.length * gathered.patch);
        // A large result that is written once goes past the caches, from a part of it that fits.
        let once = n.div_ceil(parts) <= self.block && self.starts.len() <= self.length;
        let streamed = once && size_of_val(w) >= STREAMED;
        let results = if streamed { HIGH * self.depth } else { 0 };
        let scratch = || Scratch::new::<T>(self.block * self.source.size, patches, results);
        let len = outputs * self.depth;
        for_each_with(&scratch, w, len, threads, &|i, w, scratch| {
            let chunks = self.outputs / outputs;
            let (chunk, group) = (i % chunks, i / chunks % self.groups);
            let part = i / chunks / self.groups;
            Arch::new().dispatch(GradientOf {
                gradient: self,
                examples: part * n / parts..(part + 1) * n / parts,
                group,
                outputs: chunk * outputs..(chunk + 1) * outputs,
                x,
                y,
                w,
                streamed,
                scratch,
            });
        });
    }
}

/// The part of the result that one call computes.
struct GradientOf<'a, T> {
    gradient: &'a Gradient,
    examples: Range<usize>,
    group: usize,
    outputs: Range<usize>,
    x: &'a [T],
    y: &'a [T],
    w: &'a mut [T],
    streamed: bool,
    scratch: &'a mut Scratch,
}

impl<T: Float> WithSimd for GradientOf<'_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            gradient: plan,
            examples,
            group,
            outputs,
            x,
            y,
            w,
            streamed,
            scratch,
        } = self;
        let size = plan.source.rows.len() * plan.source.width;
        let positions = plan.starts.len();
        let source = scratch.source.as_mut_slice::<T>();
        let mut add = false;
        let mut first = examples.start;
        while first < examples.end {
            let block = plan.block.min(examples.end - first);
            for example in 0..block {
                let at = ((first + example) * plan.groups + group) * plan.inputs * size;
                let source = &mut source[example * plan.source.size..][..plan.source.size];
                plan.source.enter(simd, &x[at..], source);
            }
            let of_y = (first * plan.groups + group) * plan.outputs + outputs.start;
            for start in (0..positions).step_by(plan.length) {
                let chunk = start..(start + plan.length).min(positions);
                let rows = Rows {
                    memory: &y[of_y * positions + start..],
                    step: positions,
                    segment: plan.groups * plan.outputs * positions,
                };
                let starts = &plan.starts[chunk.clone()];
                let from = match &plan.gathered {
                    None => Vectors {
                        memory: &*source,
                        steps: starts,
                        last: starts.iter().copied().max().unwrap_or(0),
                        segment: plan.source.size,
                    },
                    Some(Gathered {
                        copies,
                        patch,
                        steps,
                    }) => {
                        let patches = scratch.patches.as_mut_slice::<T>();
                        let mut place = 0;
                        for example in 0..block {
                            let source = &source[example * plan.source.size..];
                            for start in starts {
                                for [from, to] in copies {
                                    let x = T::load::<S>(&source[start + from..]);
                                    T::store::<S>(&mut patches[place + to..], x);
                                }
                                place += patch;
                            }
                        }
                        Vectors {
                            memory: &*patches,
                            steps: &steps[..chunk.len()],
                            last: steps[chunk.len() - 1],
                            segment: chunk.len() * patch,
                        }
                    }
                };
                let count = outputs.len();
                let high = if streamed {
                    const { high::<S>() }
                } else {
                    count
                };
                for first_row in (0..count).step_by(high) {
                    let high = high.min(count - first_row);
                    let rows = Rows {
                        memory: &rows.memory[first_row * rows.step..],
                        ..rows
                    };
                    let written = &mut w[first_row * plan.depth..][..high * plan.depth];
                    let results = scratch.results.as_mut_slice::<T>();
                    let out = if streamed {
                        &mut *results
                    } else {
                        &mut *written
                    };
                    let mut lane = 0;
                    while lane < plan.vectors.len() {
                        let width = width::<S>(plan.vectors.len() - lane);
                        let lanes = &plan.vectors[lane..lane + width];
                        // Of a tile, all that one of its vectors meets.
                        let met = &plan.met[lane..lane + width];
                        lane += width;
                        let bound = |at: usize| at.clamp(chunk.start, chunk.end) - chunk.start;
                        let begin = met.iter().map(|met| bound(met.start)).min().unwrap_or(0);
                        let end = met
                            .iter()
                            .map(|met| bound(met.end))
                            .max()
                            .unwrap_or(0)
                            .max(begin);
                        if add && begin == end {
                            continue;
                        }
                        let rows = Rows {
                            memory: &rows.memory[begin..],
                            ..rows
                        };
                        let from = Vectors {
                            steps: &from.steps[begin..end],
                            ..from
                        };
                        let target = Target {
                            memory: &mut *out,
                            step: plan.depth,
                            add,
                        };
                        sums(simd, high, block, rows, from, lanes, target);
                    }
                    if streamed {
                        stream(&results[..written.len()], written);
                    }
                }
                add = true;
            }
            first += block;
        }
        if streamed {
            fence();
        }
    }
}
