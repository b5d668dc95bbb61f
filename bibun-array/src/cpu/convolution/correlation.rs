//! Sums of products of channels in windows around positions: the output of a convolution, and its input.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::EXAMPLES;
use super::border::{AxisMeetings, Meetings};
use super::channels::{Channels, packed};
use super::grid::PositionRows;
use super::lines::Lines;
use super::memory::{SLACK, Scratch, Unit, for_each_with, places, steps, worth};
use super::phase::Phase;
use super::source::Source;
use super::thin::is_thin;
use crate::convolution::{Convolution, Window};
use crate::cpu::threads::{Sharing, chunks, for_each};
use crate::cpu::tile::{Float, Rows, Target, Vectors, WIDE, sums, width};
use crate::storage::Buffer;

/// The number of positions that is worth setting up for. Smaller examples are taken several at once.
const POSITIONS: usize = 256;
/// Channels that are a multiple of this number of bytes apart share few lines of a cache.
const CROWDED: usize = 1 << 10;

/// Sums of the channels of one group in windows around positions.
pub(super) struct Correlation {
    pub(super) groups: usize,
    /// The number of channels of a group that are read.
    channels: usize,
    pub(super) source: Source,
    pub(super) phases: Vec<Phase>,
    /// The number of channels of a group that are written, and the size of one.
    pub(super) outputs: usize,
    pub(super) size: usize,
    /// The number of examples that are taken at once.
    pub(super) block: usize,
    lanes: usize,
    pub(super) taps: usize,
    /// Whether no phase has some of the positions, because they meet no element of the kernel.
    has_gaps: bool,
    /// The starts of the rows of positions of the last phase, and their length.
    pub(super) rows: Vec<usize>,
    pub(super) row: usize,
}

/// A [`Phase`] along one axis.
struct AxisPhase {
    /// Elements of the kernel, and the steps to them from the position.
    taps: Vec<[usize; 2]>,
    /// The places where the first position is read and written.
    first: [usize; 2],
    count: usize,
    /// The steps between positions where they are read and written.
    steps: [usize; 2],
    meetings: AxisMeetings,
}

impl Correlation {
    pub(super) fn forward(convolution: &Convolution, n: usize, unit: Unit) -> Self {
        let windows = &convolution.windows;
        let sizes = &convolution.sizes;
        let before: Vec<usize> = windows.iter().map(|window| window.padding[0]).collect();
        let padded = windows.iter().zip(sizes.iter());
        let padded: Vec<usize> = padded.map(|(window, &size)| window.padded(size)).collect();
        let last = sizes.rank() - 1;
        // Vectors of positions are read from parts of rows.
        let stride = windows[last].stride;
        let in_channels =
            !is_thin(convolution) && Channels::are_full(convolution.outputs, unit.lanes);
        let (split, read) = if in_channels {
            (1, stride)
        } else {
            (stride, 1)
        };
        let source = Source::new(sizes, &before, &padded, split);
        let positions = convolution.positions();
        let axes = (0..=last).map(|axis| {
            let Window {
                kernel,
                stride,
                dilation,
                padding: [padding, _],
            } = windows[axis];
            let elements = padding..padding + sizes[axis];
            let tap = |tap| match (axis == last, tap * dilation) {
                (false, at) => [tap, at],
                (true, at) => [tap, at % split * source.part + at / split],
            };
            vec![AxisPhase {
                taps: (0..kernel).map(tap).collect(),
                first: [0, 0],
                count: positions[axis],
                steps: [if axis == last { read } else { stride }, 1],
                meetings: AxisMeetings::new(positions[axis], kernel, |i, tap| {
                    elements.contains(&(i * stride + tap * dilation))
                }),
            }]
        });
        let axes = axes.collect();
        let channels = [convolution.inputs, convolution.outputs];
        Self::new(
            convolution,
            (n, unit),
            channels,
            (source, padded),
            axes,
            &positions,
        )
    }

    pub(super) fn backward(convolution: &Convolution, n: usize, unit: Unit) -> Self {
        let (sizes, positions) = (&convolution.sizes, convolution.positions());
        let (mut before, mut padded, mut axes) = (vec![], vec![], vec![]);
        for (axis, window) in convolution.windows.iter().enumerate() {
            let Window {
                kernel,
                stride,
                padding: [padding, _],
                dilation,
            } = *window;
            // The element i is met by the element k of the kernel at position t - k * dilation /
            // stride where i + padding = t * stride + remainder; the same remainder as k's.
            let mut remainders: Vec<usize> =
                (0..kernel).map(|tap| tap * dilation % stride).collect();
            remainders.sort_unstable();
            remainders.dedup();
            let phases = remainders.into_iter().filter_map(|remainder| {
                let first = (remainder + stride - padding % stride) % stride;
                let count = sizes[axis].saturating_sub(first).div_ceil(stride);
                let meets = |&tap: &usize| tap * dilation % stride == remainder;
                let taps: Vec<usize> = (0..kernel).filter(meets).collect();
                (count > 0).then_some((first, (first + padding) / stride, count, taps))
            });
            let phases: Vec<_> = phases.collect();
            let back = |tap: usize| tap * dilation / stride;
            let farthest = |taps: &[usize]| taps.last().map_or(0, |&tap| back(tap));
            let lowest = phases
                .iter()
                .map(|(_, t, _, taps)| farthest(taps).saturating_sub(*t));
            let lowest = lowest.max().unwrap_or(0);
            let highest = phases.iter().map(|(_, t, count, taps)| {
                lowest + t + count - taps.first().map_or(0, |&tap| back(tap))
            });
            padded.push(highest.max().unwrap_or(0).max(lowest + positions[axis]));
            before.push(lowest);
            let phases = phases.into_iter().map(|(first, t, count, taps)| {
                let farthest = farthest(&taps);
                let start = (lowest + t).saturating_sub(farthest);
                let taps = taps.iter().map(|&tap| [tap, farthest - back(tap)]);
                let taps: Vec<[usize; 2]> = taps.collect();
                let elements = lowest..lowest + positions[axis];
                let meetings = AxisMeetings::new(count, taps.len(), |i, tap| {
                    elements.contains(&(start + i + taps[tap][1]))
                });
                AxisPhase {
                    first: [start, first],
                    taps,
                    count,
                    steps: [1, stride],
                    meetings,
                }
            });
            axes.push(phases.collect());
        }
        let source = Source::new(&positions, &before, &padded, 1);
        let channels = [convolution.outputs, convolution.inputs];
        Self::new(
            convolution,
            (n, unit),
            channels,
            (source, padded),
            axes,
            sizes,
        )
    }

    /// Creates it with all combinations of the phases of the axes, for an output of these sizes.
    fn new(
        convolution: &Convolution,
        (n, unit): (usize, Unit),
        [channels, outputs]: [usize; 2],
        (source, mut padded): (Source, Vec<usize>),
        axes: Vec<Vec<AxisPhase>>,
        sizes: &[usize],
    ) -> Self {
        let lanes = unit.lanes;
        let size: usize = sizes.iter().product();
        let block = (POSITIONS / size).clamp(1, EXAMPLES).min(n);
        let last = axes.len() - 1;
        padded[last] = source.part * source.split;
        let kernel: Vec<usize> = convolution.windows.iter().map(|w| w.kernel).collect();
        let kernel = steps(&kernel, 1);
        let (from, to) = (steps(&padded, 1), steps(sizes, 1));
        let groups = convolution.groups;
        let apart = [channels * source.size, groups * outputs * size];
        let count = axes.iter().map(Vec::len).product();
        let along = |axis: &Vec<AxisPhase>| axis.iter().map(|phase| phase.count).sum::<usize>();
        let has_gaps = axes.iter().map(along).product::<usize>() < size;
        let mut first = (vec![], 0);
        let inputs = channels;
        let phases = (0..count).map(|mut index| {
            let pick = |axis: &Vec<AxisPhase>| {
                let pick = index % axis.len();
                index /= axis.len();
                pick
            };
            let picks: Vec<usize> = axes.iter().map(pick).collect();
            let of = |axis: usize| &axes[axis][picks[axis]];
            let taps = places((0..=last).map(|axis| {
                let kernel = kernel[axis];
                of(axis).taps.iter().map(move |tap| tap[0] * kernel)
            }));
            let offsets = places((0..=last).map(|axis| {
                let step = from[axis];
                of(axis).taps.iter().map(move |tap| tap[1] * step)
            }));
            let along = |side: usize, step: &[usize]| {
                let first = of(last).first[side] * step[last];
                let rows = places((0..last).map(|axis| {
                    let (phase, step) = (of(axis), step[axis]);
                    let place = move |i| (phase.first[side] + i * phase.steps[side]) * step;
                    (0..phase.count).map(place)
                }));
                rows.into_iter().map(move |row| first + row)
            };
            let rows = PositionRows {
                rows: along(0, &from)
                    .zip(along(1, &to))
                    .map(|(a, b)| [a, b])
                    .collect(),
                len: of(last).count,
                read: of(last).steps[0],
                step: of(last).steps[1],
            };
            first = (rows.rows.iter().map(|row| row[0]).collect(), rows.len);
            let depth = channels * taps.len();
            let rest = n % block;
            let of_channels = (0..inputs).map(|channel| channel * source.size);
            let steps = places([of_channels.collect::<Vec<_>>(), offsets.clone()]);
            let phase = Phase {
                taps,
                last: steps.iter().copied().max().unwrap_or(0),
                steps,
                step: rows.step,
                gathered: None,
                grids: Default::default(),
                channels: None,
                lines: None,
            };
            if outputs == 1 {
                let lines = Lines::new(&rows, depth, [block, rest], apart, lanes);
                return Phase {
                    lines: Some(lines),
                    ..phase
                };
            }
            let mut ways = [
                (rows.apart(block, apart, lanes), false),
                (rows.flat(block, apart, lanes), false),
                (rows.gathered(block, apart, lanes), true),
            ];
            let crowded = (source.size * unit.bytes).is_multiple_of(CROWDED) && outputs > WIDE * 8;
            let costs = [0, 1, 2].map(|way: usize| {
                let (grid, gathered) = &ways[way];
                match crowded && !gathered || rows.read > 1 {
                    true => usize::MAX,
                    false => grid.cost(outputs, depth, *gathered),
                }
            });
            let way = (0..3)
                .min_by_key(|&way| costs[way])
                .expect("there are three");
            let meetings: Vec<&AxisMeetings> = (0..=last).map(|axis| &of(axis).meetings).collect();
            let met = Meetings::count(&meetings) * channels;
            let in_channels = Channels::cost(&rows, block, [outputs, met], lanes);
            // Not for a gain that its writing may use up.
            let is_worth = lanes > 1 && depth > 0 && in_channels + in_channels / 32 < costs[way];
            let channels = is_worth.then(|| {
                let meetings = Meetings::new(&meetings);
                Channels::new(
                    &rows,
                    [block, rest],
                    apart,
                    meetings,
                    (offsets, source.size),
                )
            });
            let grids = [
                std::mem::take(&mut ways[way].0),
                match way {
                    0 => rows.apart(rest, apart, lanes),
                    1 => rows.flat(rest, apart, lanes),
                    _ => rows.gathered(rest, apart, lanes),
                },
            ];
            let gathered = ways[way].1;
            Phase {
                gathered: gathered.then(|| (0..depth).map(|k| k * WIDE * lanes).collect()),
                grids,
                channels,
                ..phase
            }
        });
        let phases = phases.collect();
        let (rows, row) = first;
        Self {
            groups,
            channels,
            source,
            phases,
            outputs,
            size,
            block,
            lanes,
            taps: convolution.windows.iter().map(|w| w.kernel).product(),
            has_gaps,
            rows,
            row,
        }
    }

    /// Returns the weights with input and output channels of every group exchanged, for each phase.
    pub(super) fn turned<T: Float>(&self, w: &[T]) -> Buffer {
        let mut turned = Buffer::new::<T>(w.len());
        let mut rest = turned.as_mut_slice::<T>();
        let (channels, outputs, taps) = (self.channels, self.outputs, self.taps);
        for phase in &self.phases {
            let of_phase = phase.taps.len();
            let (part, later) = rest.split_at_mut(self.groups * channels * outputs * of_phase);
            rest = later;
            if of_phase == 0 {
                continue;
            }
            // An element takes about a nanosecond.
            let sharing = Sharing::of(part.len());
            for_each(chunks(part, channels * of_phase), sharing, 1, &|i, to| {
                let (group, output) = (i / outputs, i % outputs);
                let w = &w[group * channels * outputs * taps..];
                for (channel, to) in to.chunks_exact_mut(of_phase).enumerate() {
                    let from = &w[(channel * outputs + output) * taps..][..taps];
                    for (to, &tap) in to.iter_mut().zip(&phase.taps) {
                        *to = from[tap];
                    }
                }
            });
        }
        turned
    }

    pub(super) fn scratch<T: Float>(&self) -> Scratch {
        let gathered = self.phases.iter().filter(|phase| phase.gathered.is_some());
        let longest = gathered.map(|phase| phase.steps.len()).max().unwrap_or(0);
        let source = self.block * self.channels * self.source.size;
        let tile = WIDE * self.lanes;
        let lines = self.phases.iter().filter_map(|phase| phase.lines.as_ref());
        let line = lines.map(|lines| lines.longest).max().unwrap_or(0);
        let mut results = (self.outputs * tile).max(line.next_multiple_of(self.lanes));
        if self.is_in_channels() {
            results = results.max(Channels::results(self.lanes));
        }
        Scratch::new::<T>(source, longest * tile, results)
    }

    /// Whether some of it is computed in vectors of channels.
    pub(super) fn is_in_channels(&self) -> bool {
        self.phases.iter().any(|phase| phase.channels.is_some())
    }

    /// Computes `out`, `[n, groups * outputs, size]`, from x, `[n, groups * channels, ..]`, and for each
    /// phase and group a matrix with one row for each output.
    pub(super) fn run<T: Float>(&self, n: usize, x: &[T], w: &[T], out: &mut [T]) {
        let of_group = self.outputs * self.size;
        let depth: usize = self.phases.iter().map(|phase| phase.steps.len()).sum();
        let positions = self.size.div_ceil(self.phases.len().max(1));
        let threads = worth::<T>(n * self.groups * self.outputs * positions * depth);
        // Blocks of examples with all groups, one group of one example or some of its channels.
        let whole = if self.is_in_channels() {
            2 * self.lanes
        } else {
            8
        };
        let mut outputs = self.outputs;
        let len = match self.block {
            1 => {
                let most = 2 * rayon::current_num_threads();
                if threads && n * self.groups < most {
                    let parts = most.div_ceil(n * self.groups);
                    let part = self.outputs.div_ceil(parts).next_multiple_of(whole);
                    if self.outputs.is_multiple_of(part) {
                        outputs = part;
                    }
                }
                outputs * self.size
            }
            block => block * self.groups * of_group,
        };
        let panels = self.is_in_channels().then(|| packed(self, outputs, w));
        let panels = panels.as_ref().map(|panels| panels.as_slice::<T>());
        let scratch = || self.scratch::<T>();
        for_each_with(&scratch, out, len, threads, &|i, out, scratch| {
            self.part((i, outputs), x, (w, panels), scratch, out);
        });
    }

    /// Computes the results of some examples on this thread. The weights may also be panels of all channels.
    pub(super) fn run_some<T: Float>(
        &self,
        x: &[T],
        weights: (&[T], Option<&[T]>),
        scratch: &mut Scratch,
        out: &mut [T],
    ) {
        let len = match self.block {
            1 => self.outputs * self.size,
            block => block * self.groups * self.outputs * self.size,
        };
        for (i, out) in out.chunks_mut(len).enumerate() {
            self.part((i, self.outputs), x, weights, scratch, out);
        }
    }

    /// Computes the part with this number: a block of examples with all groups, or so many channels of a
    /// group of one example.
    fn part<T: Float>(
        &self,
        (i, outputs): (usize, usize),
        x: &[T],
        (w, panels): (&[T], Option<&[T]>),
        scratch: &mut Scratch,
        out: &mut [T],
    ) {
        if self.has_gaps {
            out.fill(T::ZERO);
        }
        let work = match self.block {
            1 => {
                let parts = self.outputs / outputs;
                let (part, group) = (i % parts, i / parts % self.groups);
                CorrelationBlock {
                    example: i / parts / self.groups,
                    examples: 1,
                    groups: group..group + 1,
                    channels: part * outputs..(part + 1) * outputs,
                }
            }
            block => CorrelationBlock {
                example: i * block,
                examples: out.len() / (self.groups * self.outputs * self.size),
                groups: 0..self.groups,
                channels: 0..outputs,
            },
        };
        Arch::new().dispatch(Correlate {
            correlation: self,
            work,
            x,
            w,
            panels,
            out,
            scratch,
        });
    }
}

/// The part of the result that one call computes.
struct CorrelationBlock {
    example: usize,
    examples: usize,
    groups: Range<usize>,
    channels: Range<usize>,
}

struct Correlate<'a, T> {
    correlation: &'a Correlation,
    work: CorrelationBlock,
    x: &'a [T],
    w: &'a [T],
    /// The weights as panels, for vectors of channels.
    panels: Option<&'a [T]>,
    out: &'a mut [T],
    scratch: &'a mut Scratch,
}

impl<T: Float> WithSimd for Correlate<'_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            correlation: plan,
            work,
            x,
            w,
            panels,
            out,
            scratch,
        } = self;
        let source_size = plan.source.rows.len() * plan.source.width;
        let examples = work.examples;
        let first_group = work.groups.start;
        let count = work.channels.len();
        for group in work.groups {
            let at = |example: usize| {
                ((work.example + example) * plan.groups + group) * plan.channels * source_size
            };
            let len = plan.channels * plan.source.size;
            let bare = plan.source.is_bare()
                && (examples == 1 || plan.groups == 1)
                && at(0) + examples * len + SLACK <= x.len();
            let source = match bare {
                true => &x[at(0)..],
                false => {
                    let source = scratch.source.as_mut_slice::<T>();
                    for example in 0..examples {
                        let source = &mut source[example * len..][..len];
                        plan.source
                            .enter(simd, plan.channels, &x[at(example)..], source);
                    }
                    &*source
                }
            };
            let out = &mut out[(group - first_group) * plan.outputs * plan.size..];
            let is_rest = examples != plan.block;
            let (mut first_weight, mut first_panel) = (0, 0);
            for phase in &plan.phases {
                let depth = phase.steps.len();
                let row = (group * plan.outputs + work.channels.start) * depth;
                let rows = Rows {
                    memory: &w[first_weight + row..],
                    step: depth,
                    segment: 0,
                };
                first_weight += plan.groups * plan.outputs * depth;
                // Parts of as many channels have panels of the same size.
                let of_part = count.next_multiple_of(plan.lanes) * depth;
                let part = (group * plan.outputs + work.channels.start) / count;
                let panel = first_panel + part * of_part;
                first_panel += plan.groups * plan.outputs / count * of_part;
                if let (Some(channels), Some(panels)) = (&phase.channels, panels) {
                    let results = scratch.results.as_mut_slice::<T>();
                    channels.run(
                        simd,
                        is_rest,
                        count,
                        [source, &panels[panel..]],
                        plan.channels,
                        results,
                        (&mut *out, plan.size),
                    );
                    continue;
                }
                if let Some(lines) = &phase.lines {
                    let factors = &rows.memory[..depth];
                    let results = scratch.results.as_mut_slice::<T>();
                    lines.run(simd, is_rest, source, phase, factors, results, &mut *out);
                    continue;
                }
                let grid = &phase.grids[usize::from(is_rest)];
                let mut first = 0;
                while first < grid.vectors.len() {
                    let width = width::<S>(grid.vectors.len() - first);
                    let vectors = &grid.vectors[first..first + width];
                    first += width;
                    let patches = scratch.patches.as_mut_slice();
                    let (mut lanes, steps, last) = phase.read(simd, grid, vectors, source, patches);
                    let memory = if phase.gathered.is_some() {
                        &*patches
                    } else {
                        source
                    };
                    let from = Vectors {
                        memory,
                        steps,
                        last,
                        segment: 0,
                    };
                    let whole = vectors.iter().all(|vector| vector.whole);
                    let results = scratch.results.as_mut_slice::<T>();
                    let (memory, step) = if whole {
                        (&mut *out, plan.size)
                    } else {
                        for (i, lane) in lanes.iter_mut().enumerate() {
                            (lane.place, lane.len) = (i * T::lanes::<S>(), T::lanes::<S>());
                        }
                        (&mut *results, width * T::lanes::<S>())
                    };
                    let target = Target {
                        memory,
                        step,
                        add: false,
                    };
                    sums(simd, count, 1, rows, from, &lanes[..width], target);
                    if whole {
                        continue;
                    }
                    for (i, row) in results.chunks_exact(step).take(count).enumerate() {
                        phase.spread(simd, grid, vectors, row, &mut out[i * plan.size..]);
                    }
                }
            }
        }
    }
}
