//! Convolutions as sums of products in registers.
//!
//! Every one of the three parts is a product of matrices of which one is never made as a whole: its
//! elements are read from where they lie in the input, with its padding around it.
//!
//! The output is made by [`Correlation`] in vectors of neighbouring positions, each channel of the
//! input by itself. The input is the correlation of the output with mirrored kernels; where kernels
//! move by more than one element, one for each remainder of the place, with the part of the kernel
//! that meets it. The weights are made by [`Gradient`] in vectors of neighbouring input channels,
//! which lie last in its memory. Where vectors would stay half empty, what they read is first
//! gathered into whole ones.
//!
//! Every element is a sum in an order that follows from the sizes of one group of the convolution
//! and the number of examples, so that neither threads nor further groups change it.

use std::borrow::Cow;
use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::matmul::{STREAMED, fence, stream};
use super::threads::{chunks, for_each_of, for_each_run};
use super::tile::{Float, Lane, Rows, Target, Vectors, WIDE, dots, sums};
use super::worth_threads;
use crate::convolution::{Convolution, ConvolutionPart, Window};
use crate::dtype::with_float;
use crate::storage::{Buffer, list, reserved};
use crate::{Array, Shape, matmul};

/// Elements of the largest vectors, which may be read beyond what they are for.
const SLACK: usize = 16;
/// Outputs whose weights are made before they are written past the caches.
const HIGH: usize = 8;
/// Positions that are worth setting up for; of smaller examples, several are taken at once.
const POSITIONS: usize = 256;
/// As many at most.
const EXAMPLES: usize = 16;
/// Positions over which the weights are summed at once: what the nearest cache holds of a tile.
const LENGTH: usize = 192;
/// Bytes of patches that are gathered at once; a part of a core's cache.
const PATCHES: usize = 1 << 19;
/// Output channels up to which a group of one input channel is summed in other directions.
const THIN: usize = 4;
/// Parts that the sum over examples is cut into.
const PARTS: usize = 8;
/// Weights of a group from which on it is not, and multiplications up to which it is not.
const MANY_WEIGHTS: usize = 1 << 14;
const FEW_PRODUCTS: usize = 1 << 22;
/// What the copy of a vector costs, in multiplications of two vectors, and that of a part of one.
const COPY: usize = 5;
const SPREAD: usize = 16;
/// A kernel of one element, and the sizes from which on it makes matrices that are worth a product.
const POINT: Window = Window {
    kernel: 1,
    stride: 1,
    padding: [0, 0],
    dilation: 1,
};
const MATRIX: usize = 16;
/// Bytes of which multiples between channels let them meet in few lines of a cache.
const CROWDED: usize = 1 << 10;

/// See [`crate::Device::convolve`].
pub(super) fn convolve(
    convolution: &Convolution,
    made: ConvolutionPart,
    a: &Array,
    b: &Array,
) -> Array {
    with_float!(a.dtype(), T => product::<T>(convolution, made, a, b))
}

fn product<T: Float>(
    convolution: &Convolution,
    made: ConvolutionPart,
    a: &Array,
    b: &Array,
) -> Array {
    let n = match made {
        ConvolutionPart::Input => b.shape()[0],
        _ => a.shape()[0],
    };
    let shape = convolution.shape(made, n);
    if [shape.size(), a.size(), b.size()].contains(&0) {
        return Array::zeros(shape, T::DTYPE);
    }
    let convolution = &*joined(convolution);
    if is_product(convolution) {
        return pointwise(convolution, made, a, b, n).reshape(shape);
    }
    let (a, b) = (a.to_row_major(), b.to_row_major());
    let (a, b) = (dense::<T>(&a), dense::<T>(&b));
    match made {
        ConvolutionPart::Output => {
            let correlation = Correlation::forward(convolution, n, Unit::of::<T>());
            Array::filled_by(shape, |y| correlation.run(n, &a, &b, y))
        }
        ConvolutionPart::Input => {
            let correlation = Correlation::backward(convolution, n, Unit::of::<T>());
            let w = correlation.turned(&a);
            Array::filled_by(shape, |x| correlation.run(n, &b, w.as_slice(), x))
        }
        ConvolutionPart::Weights if is_thin(convolution) => {
            let correlation = Correlation::forward(convolution, n, Unit::of::<T>());
            let parts = parts(convolution, n);
            let each = [parts].into_iter().chain(shape.iter().copied());
            let w = Array::filled_by(each.collect(), |w| {
                correlation.thin_weights(n, parts, &a, &b, w);
            });
            w.sum(0)
        }
        ConvolutionPart::Weights => {
            let gradient = Gradient::new(convolution, n, Unit::of::<T>());
            let parts = parts(convolution, n);
            let kernel = shape[2..].iter().copied();
            let each = [parts * shape[0]].into_iter().chain(kernel);
            let w = Array::filled_by(each.chain([shape[1]]).collect(), |w| {
                gradient.run(n, parts, &a, &b, w);
            });
            // The channels stay last in memory.
            let w = w.moveaxis(-1, 1);
            match parts {
                1 => w,
                _ => {
                    let each = [parts].into_iter().chain(shape.iter().copied());
                    w.reshape(each.collect::<Shape>()).sum(0)
                }
            }
        }
    }
}

/// See [`crate::Device::patches`].
pub(super) fn patches(convolution: &Convolution, x: &Array) -> Array {
    with_float!(x.dtype(), T => patches_of::<T>(convolution, x))
}

fn patches_of<T: Float>(convolution: &Convolution, x: &Array) -> Array {
    struct Patches<'a, T>(&'a Gradient, &'a [T], &'a mut [T], &'a mut [T]);
    impl<T: Float> WithSimd for Patches<'_, T> {
        type Output = ();
        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) {
            let Self(plan, x, source, out) = self;
            plan.source.enter(simd, x, source);
            let out = out.chunks_exact_mut(plan.depth);
            for (patch, &start) in out.zip(&plan.starts) {
                for (run, &from) in patch.chunks_exact_mut(plan.run).zip(&plan.runs) {
                    copy(simd, &source[start + from..][..plan.run], run);
                }
            }
        }
    }
    let n = x.shape()[0];
    let plan = Gradient::new(convolution, n.max(1), Unit::of::<T>());
    let shape = [n, plan.groups, plan.starts.len(), plan.depth];
    if shape.contains(&0) || x.size() == 0 {
        return Array::zeros(shape, T::DTYPE);
    }
    let x = x.to_row_major();
    let (x, len) = (dense::<T>(&x), plan.starts.len() * plan.depth);
    let channels = x.len() / (n * plan.groups);
    Array::filled_by(shape.into(), |out| {
        let threads = worth::<T>(out.len() * lanes::<T>());
        let scratch = || Scratch::new::<T>(plan.source.size, 0, 0);
        for_each_with(&scratch, out, len, threads, &|i, out, scratch| {
            let x = &x[i * channels..][..channels];
            let source = scratch.source.as_mut_slice::<T>();
            Arch::new().dispatch(Patches(&plan, x, source, out));
        });
    })
}

/// The same convolution over one axis where no kernel reaches over more than one element.
fn joined(convolution: &Convolution) -> Cow<'_, Convolution> {
    let plain = |window: &Window| {
        Window {
            dilation: 1,
            ..*window
        } == POINT
    };
    match convolution.windows.iter().all(plain) {
        true => Cow::Owned(Convolution {
            sizes: [convolution.sizes.size()].into(),
            windows: [POINT].into_iter().collect(),
            ..*convolution
        }),
        false => Cow::Borrowed(convolution),
    }
}

/// Whether it is a product of matrices that are there already, and large enough.
fn is_product(convolution: &Convolution) -> bool {
    let [window] = convolution.windows[..] else {
        return false;
    };
    let sizes = [
        convolution.inputs,
        convolution.outputs,
        convolution.sizes[0],
    ];
    window == POINT && sizes.iter().all(|&size| size >= MATRIX)
}

/// The products of matrices that are a convolution whose kernels have one element.
fn pointwise(
    convolution: &Convolution,
    made: ConvolutionPart,
    a: &Array,
    b: &Array,
    n: usize,
) -> Array {
    let Convolution {
        groups,
        inputs,
        outputs,
        ref sizes,
        ..
    } = *convolution;
    let every = |part: &Array, channels: usize| part.reshape([n, groups, channels, sizes[0]]);
    let kernels = |w: &Array| {
        let w = w.reshape([groups, outputs, inputs]);
        w.broadcast_to([n, groups, outputs, inputs])
    };
    match made {
        ConvolutionPart::Output => matmul(&kernels(b), &every(a, inputs)),
        ConvolutionPart::Input => matmul(&kernels(a).swapaxes(-1, -2), &every(b, outputs)),
        ConvolutionPart::Weights => {
            let (x, y) = (every(a, inputs), every(b, outputs));
            let of_each = matmul(&y, &x.swapaxes(-1, -2));
            match n {
                1 => of_each,
                _ => of_each.sum(0),
            }
        }
    }
}

/// Whether vectors of channels would stay all but empty.
fn is_thin(convolution: &Convolution) -> bool {
    convolution.inputs == 1 && convolution.outputs <= THIN
}

/// How many parts the sum over `n` examples is cut into.
fn parts(convolution: &Convolution, n: usize) -> usize {
    let taps: usize = convolution.windows.iter().map(|w| w.kernel).product();
    let weights = convolution.outputs * convolution.inputs * taps;
    let products = n * weights * convolution.positions().size();
    match weights >= MANY_WEIGHTS || products <= FEW_PRODUCTS {
        true => 1,
        false => PARTS.min(n),
    }
}

/// The elements of a row-major array.
fn dense<T: Float>(x: &Array) -> Cow<'_, [T]> {
    match x.as_slice() {
        Some(elements) => Cow::Borrowed(elements),
        None => {
            let value = x.inline().expect("row-major or a repeated value");
            Cow::Owned(list(T::from_scalar(value), x.size()))
        }
    }
}

/// What of a type decides how it is read and written.
#[derive(Clone, Copy)]
struct Unit {
    lanes: usize,
    bytes: usize,
}

impl Unit {
    fn of<T: Float>() -> Self {
        Self {
            lanes: lanes::<T>(),
            bytes: size_of::<T>(),
        }
    }
}

/// How many elements of a type the vectors of this machine have.
fn lanes<T: Float>() -> usize {
    struct Lanes<T>(std::marker::PhantomData<T>);
    impl<T: Float> WithSimd for Lanes<T> {
        type Output = usize;
        fn with_simd<S: Simd>(self, _: S) -> usize {
            T::lanes::<S>()
        }
    }
    Arch::new().dispatch(Lanes::<T>(std::marker::PhantomData))
}

/// All sums of one of the places of each axis.
fn places<I: IntoIterator<Item = usize>>(axes: impl IntoIterator<Item = I>) -> Vec<usize> {
    axes.into_iter().fold(vec![0], |places, axis| {
        let along: Vec<usize> = axis.into_iter().collect();
        let mut sums = reserved(places.len().saturating_mul(along.len()));
        for place in places {
            sums.extend(along.iter().map(|step| place + step));
        }
        sums
    })
}

/// The steps between neighbours along axes of such sizes.
fn steps(sizes: &[usize], last: usize) -> Vec<usize> {
    let mut steps = vec![last; sizes.len()];
    for axis in (1..sizes.len()).rev() {
        steps[axis - 1] = steps[axis].saturating_mul(sizes[axis]);
    }
    steps
}

/// How many multiplications are worth cutting into parts for threads, in nanoseconds of one.
fn worth<T: Float>(multiplications: usize) -> bool {
    worth_threads(multiplications / (2 * lanes::<T>()))
}

/// Calls `each` for every chunk of `len` elements with memory of the thread's own, on threads where
/// that is told.
fn for_each_with<T: Float>(
    scratch: &(dyn Fn() -> Scratch + Sync),
    out: &mut [T],
    len: usize,
    threads: bool,
    each: &(dyn Fn(usize, &mut [T], &mut Scratch) + Sync),
) {
    for_each_run(chunks(out, len), threads, 1, &|first, run| {
        let scratch = &mut scratch();
        for_each_of(first, run, &mut |i, out| each(i, out, scratch));
    });
}

/// Memory that one thread works in.
struct Scratch {
    /// What is read, between its padding.
    source: Buffer,
    /// What is gathered from there.
    patches: Buffer,
    /// Results that do not go to one place.
    results: Buffer,
}

impl Scratch {
    fn new<T: Float>(source: usize, patches: usize, results: usize) -> Self {
        let mut scratch = Self {
            source: Buffer::new::<T>(source.saturating_add(SLACK)),
            patches: Buffer::new::<T>(patches.saturating_add(SLACK)),
            results: Buffer::new::<T>(results.saturating_add(SLACK)),
        };
        // The padding; nothing else writes there.
        scratch.source.as_mut_slice().fill(T::ZERO);
        scratch
    }
}

/// Where the elements of one channel lie between their padding.
struct Source {
    /// Where rows begin.
    rows: Vec<usize>,
    width: usize,
    /// How many elements of the padding come before a row.
    before: usize,
    /// Neighbours in a row lie in as many parts of it, so that every so-manieth are neighbours.
    split: usize,
    part: usize,
    /// Elements of a channel with its padding.
    size: usize,
}

impl Source {
    /// For padding before every axis, and sizes with all padding.
    fn new(sizes: &[usize], before: &[usize], padded: &[usize], split: usize) -> Self {
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

    /// Whether it is what it is made of.
    fn is_bare(&self) -> bool {
        self.size == self.rows.len() * self.width && self.split == 1
    }

    /// Writes channels between their padding.
    #[inline(always)]
    fn enter<S: Simd, T: Float>(&self, simd: S, channels: usize, x: &[T], source: &mut [T]) {
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

/// Copies a few elements.
#[inline(always)]
fn copy<S: Simd, T: Float>(simd: S, x: &[T], y: &mut [T]) {
    let lanes = T::lanes::<S>();
    for (x, y) in x.chunks(lanes).zip(y.chunks_mut(lanes)) {
        match x.len() == lanes {
            true => T::store::<S>(y, T::load::<S>(x)),
            false => T::store_part(simd, y, T::load_part(simd, x)),
        }
    }
}

/// Positions that are neighbours where they are read.
struct Piece {
    /// The first one's place in its vector.
    lane: usize,
    len: usize,
    /// Where it is read and where it is written.
    start: usize,
    place: usize,
}

/// Positions of one or more examples, in vectors.
#[derive(Default)]
struct Grid {
    vectors: Vec<Vector>,
    pieces: Vec<Piece>,
}

struct Vector {
    lane: Lane,
    /// Whether its positions are neighbours where they are written.
    whole: bool,
    pieces: Range<usize>,
}

/// Rows of positions: where they are read and where they are written, how long they are, and how
/// far neighbours lie from each other where they are written.
struct PositionRows {
    rows: Vec<[usize; 2]>,
    len: usize,
    step: usize,
}

impl PositionRows {
    /// The rows of examples that lie so far apart.
    fn all(&self, examples: usize, steps: [usize; 2]) -> impl Iterator<Item = [usize; 2]> {
        (0..examples).flat_map(move |example| {
            let rows = self.rows.iter();
            rows.map(move |&[start, place]| {
                [start + example * steps[0], place + example * steps[1]]
            })
        })
    }

    /// Vectors of positions of one row.
    fn apart(&self, examples: usize, steps: [usize; 2], lanes: usize) -> Grid {
        let mut grid = Grid::default();
        for [start, place] in self.all(examples, steps) {
            for first in (0..self.len).step_by(lanes) {
                let piece = Piece {
                    lane: 0,
                    len: lanes.min(self.len - first),
                    start: start + first,
                    place: place + first * self.step,
                };
                grid.push(piece, self.step);
            }
        }
        grid
    }

    /// Vectors of positions of rows at even distances, with what lies between them.
    fn flat(&self, examples: usize, steps: [usize; 2], lanes: usize) -> Grid {
        let mut grid = Grid::default();
        let (mut begin, mut end) = (0, 0);
        for [start, place] in self.all(examples, steps) {
            let mut first = 0;
            while first < self.len {
                let at = start + first;
                if at >= end {
                    (begin, end) = (at, at + lanes);
                }
                let piece = Piece {
                    lane: at - begin,
                    len: (end - at).min(self.len - first),
                    start: at,
                    place: place + first * self.step,
                };
                first += piece.len;
                grid.push(piece, self.step);
            }
        }
        grid
    }

    /// Vectors of positions of any rows.
    fn gathered(&self, examples: usize, steps: [usize; 2], lanes: usize) -> Grid {
        let mut grid = Grid::default();
        let mut lane = 0;
        for [start, place] in self.all(examples, steps) {
            let mut first = 0;
            while first < self.len {
                let piece = Piece {
                    lane,
                    len: (lanes - lane).min(self.len - first),
                    start: start + first,
                    place: place + first * self.step,
                };
                first += piece.len;
                lane = (lane + piece.len) % lanes;
                grid.push(piece, self.step);
            }
        }
        grid
    }
}

impl Grid {
    fn push(&mut self, piece: Piece, step: usize) {
        match self.vectors.last_mut() {
            Some(vector) if piece.lane > 0 => {
                let place = vector.lane.place + piece.lane;
                vector.whole &= vector.lane.len == piece.lane && piece.place == place;
                vector.lane.len = piece.lane + piece.len;
                vector.pieces.end += 1;
            }
            _ => self.vectors.push(Vector {
                lane: Lane {
                    start: piece.start,
                    place: piece.place,
                    len: piece.len,
                },
                whole: step == 1,
                pieces: self.pieces.len()..self.pieces.len() + 1,
            }),
        }
        self.pieces.push(piece);
    }

    /// What tiles of it cost, in multiplications of two vectors, with so many rows and products of
    /// each.
    fn cost(&self, rows: usize, depth: usize, gathered: bool) -> usize {
        let copies = if gathered { self.pieces.len() } else { 0 };
        let spread = self.vectors.iter().filter(|vector| !vector.whole);
        let spread: usize = spread.map(|vector| vector.pieces.len()).sum();
        (self.vectors.len() * rows + copies * COPY) * depth + spread * rows * SPREAD
    }
}

/// How many of as many vectors go into the next tile.
fn width(rest: usize) -> usize {
    match rest {
        4 => 2,
        rest => rest.min(WIDE),
    }
}

/// Some positions and the elements of the kernel that they read.
struct Phase {
    /// Which elements of the kernel.
    taps: Vec<usize>,
    /// Where all elements of a patch lie from the position.
    steps: Vec<usize>,
    /// Where they lie in what is gathered.
    gathered: Option<Vec<usize>>,
    /// Neighbours of a row lie so far apart where they are written.
    step: usize,
    /// For a block of examples, and for what remains.
    grids: [Grid; 2],
}

impl Phase {
    /// Where the vectors begin, gathered if that is to be.
    #[inline(always)]
    fn read<S: Simd, T: Float>(
        &self,
        _: S,
        grid: &Grid,
        vectors: &[Vector],
        source: &[T],
        patches: &mut [T],
    ) -> ([Lane; WIDE], &[usize]) {
        let mut lanes = [Lane::default(); WIDE];
        for (lane, vector) in lanes.iter_mut().zip(vectors) {
            *lane = vector.lane;
        }
        let Some(gathered) = &self.gathered else {
            return (lanes, &self.steps);
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
        (lanes, gathered)
    }

    /// Writes one row of a tile to where it belongs.
    #[inline(always)]
    fn spread<S: Simd, T: Float>(
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

/// Sums of the channels of one group in windows around positions.
struct Correlation {
    groups: usize,
    /// Channels of a group that are read.
    channels: usize,
    source: Source,
    phases: Vec<Phase>,
    /// Channels of a group that are written, and how many elements they have.
    outputs: usize,
    size: usize,
    /// How many examples are taken at once.
    block: usize,
    lanes: usize,
    taps: usize,
    /// Where the rows of positions of the last phase begin, and how long they are.
    rows: Vec<usize>,
    row: usize,
}

/// A [`Phase`] along one axis.
struct AxisPhase {
    /// Elements of the kernel, and where they lie from the position.
    taps: Vec<[usize; 2]>,
    /// Where the first position is read, and where it is written.
    first: [usize; 2],
    count: usize,
    /// How far apart positions are read and written.
    steps: [usize; 2],
}

impl Correlation {
    fn forward(convolution: &Convolution, n: usize, unit: Unit) -> Self {
        let windows = &convolution.windows;
        let sizes = &convolution.sizes;
        let before: Vec<usize> = windows.iter().map(|window| window.padding[0]).collect();
        let padded = windows.iter().zip(sizes.iter());
        let padded: Vec<usize> = padded.map(|(window, &size)| window.padded(size)).collect();
        let last = sizes.rank() - 1;
        let split = windows[last].stride;
        let source = Source::new(sizes, &before, &padded, split);
        let positions = convolution.positions();
        let axes = (0..=last).map(|axis| {
            let Window {
                kernel,
                stride,
                dilation,
                ..
            } = windows[axis];
            let tap = |tap| match (axis == last, tap * dilation) {
                (false, at) => [tap, at],
                (true, at) => [tap, at % split * source.part + at / split],
            };
            vec![AxisPhase {
                taps: (0..kernel).map(tap).collect(),
                first: [0, 0],
                count: positions[axis],
                steps: [if axis == last { 1 } else { stride }, 1],
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

    fn backward(convolution: &Convolution, n: usize, unit: Unit) -> Self {
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
            let phases = (0..stride).filter_map(|remainder| {
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
                AxisPhase {
                    first: [(lowest + t).saturating_sub(farthest), first],
                    taps: taps
                        .iter()
                        .map(|&tap| [tap, farthest - back(tap)])
                        .collect(),
                    count,
                    steps: [1, stride],
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

    /// With all combinations of the phases of the axes, for sizes of what is written.
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
        let mut first = (vec![], 0);
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
                step: of(last).steps[1],
            };
            first = (rows.rows.iter().map(|row| row[0]).collect(), rows.len);
            let depth = channels * taps.len();
            let mut ways = [
                (rows.apart(block, apart, lanes), false),
                (rows.flat(block, apart, lanes), false),
                (rows.gathered(block, apart, lanes), true),
            ];
            let crowded = (source.size * unit.bytes).is_multiple_of(CROWDED) && outputs > WIDE * 8;
            let costs = [0, 1, 2].map(|way: usize| {
                let (grid, gathered) = &ways[way];
                match crowded && !gathered {
                    true => usize::MAX,
                    false => grid.cost(outputs, depth, *gathered),
                }
            });
            let way = (0..3)
                .min_by_key(|&way| costs[way])
                .expect("there are three");
            let rest = n % block;
            let grids = [
                std::mem::take(&mut ways[way].0),
                match way {
                    0 => rows.apart(rest, apart, lanes),
                    1 => rows.flat(rest, apart, lanes),
                    _ => rows.gathered(rest, apart, lanes),
                },
            ];
            let gathered = ways[way].1;
            let channels = (0..channels).map(|channel| channel * source.size);
            let steps = places([channels.collect::<Vec<_>>(), offsets]);
            Phase {
                taps,
                gathered: gathered.then(|| (0..steps.len()).map(|k| k * WIDE * lanes).collect()),
                steps,
                step: rows.step,
                grids,
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
            rows,
            row,
        }
    }

    /// The weights with the channels of every group the other way round, for each phase.
    fn turned<T: Float>(&self, w: &[T]) -> Buffer {
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
            let groups = part.chunks_exact_mut(channels * outputs * of_phase);
            for (group, w) in groups.zip(w.chunks_exact(channels * outputs * taps)) {
                for (i, to) in group.chunks_exact_mut(of_phase).enumerate() {
                    let (output, channel) = (i / channels, i % channels);
                    let from = &w[(channel * outputs + output) * taps..][..taps];
                    for (to, &tap) in to.iter_mut().zip(&phase.taps) {
                        *to = from[tap];
                    }
                }
            }
        }
        turned
    }

    fn scratch<T: Float>(&self) -> Scratch {
        let gathered = self.phases.iter().filter(|phase| phase.gathered.is_some());
        let longest = gathered.map(|phase| phase.steps.len()).max().unwrap_or(0);
        let source = self.block * self.channels * self.source.size;
        let tile = WIDE * self.lanes;
        Scratch::new::<T>(source, longest * tile, self.outputs * tile)
    }

    /// What is written, `[n, groups * outputs, size]`, from what is read, `[n, groups * channels,
    /// ..]`, and for each phase and group a matrix of which each row makes one output.
    fn run<T: Float>(&self, n: usize, x: &[T], w: &[T], out: &mut [T]) {
        let of_group = self.outputs * self.size;
        let depth: usize = self.phases.iter().map(|phase| phase.steps.len()).sum();
        let positions = self.size.div_ceil(self.phases.len().max(1));
        let threads = worth::<T>(n * self.groups * self.outputs * positions * depth);
        // Blocks of examples with all groups, one group of one example or some of its channels.
        let mut outputs = self.outputs;
        let len = match self.block {
            1 => {
                let most = 2 * rayon::current_num_threads();
                if threads && n * self.groups < most {
                    let parts = most.div_ceil(n * self.groups);
                    let part = self.outputs.div_ceil(parts).next_multiple_of(8);
                    if self.outputs.is_multiple_of(part) {
                        outputs = part;
                    }
                }
                outputs * self.size
            }
            block => block * self.groups * of_group,
        };
        let scratch = || self.scratch::<T>();
        for_each_with(&scratch, out, len, threads, &|i, out, scratch| {
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
                    examples: out.len() / (self.groups * of_group),
                    groups: 0..self.groups,
                    channels: 0..outputs,
                },
            };
            Arch::new().dispatch(Correlate {
                correlation: self,
                work,
                x,
                w,
                out,
                scratch,
            });
        });
    }

    /// The weights, `[parts, groups * outputs, 1, taps]`: of each part of the examples.
    fn thin_weights<T: Float>(&self, n: usize, parts: usize, x: &[T], y: &[T], w: &mut [T]) {
        let len = self.outputs * self.taps;
        let threads = worth::<T>(n * self.groups * len * self.size);
        let scratch = || self.scratch::<T>();
        for_each_with(&scratch, w, len, threads, &|i, w, scratch| {
            let (part, group) = (i / self.groups, i % self.groups);
            Arch::new().dispatch(ThinWeights {
                correlation: self,
                examples: part * n / parts..(part + 1) * n / parts,
                group,
                x,
                y,
                w,
                scratch,
            });
        });
    }
}

/// What one call makes.
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
            let mut first_weight = 0;
            for phase in &plan.phases {
                let depth = phase.steps.len();
                let row = (group * plan.outputs + work.channels.start) * depth;
                let rows = Rows {
                    memory: &w[first_weight + row..],
                    step: depth,
                    segment: 0,
                };
                first_weight += plan.groups * plan.outputs * depth;
                let grid = &phase.grids[usize::from(examples != plan.block)];
                let mut first = 0;
                while first < grid.vectors.len() {
                    let width = width(grid.vectors.len() - first);
                    let vectors = &grid.vectors[first..first + width];
                    first += width;
                    let patches = scratch.patches.as_mut_slice();
                    let (mut lanes, steps) = phase.read(simd, grid, vectors, source, patches);
                    let memory = if phase.gathered.is_some() {
                        &*patches
                    } else {
                        source
                    };
                    let from = Vectors {
                        memory,
                        steps,
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
                        (&mut *results, WIDE * T::lanes::<S>())
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

/// The weights of one group with one channel, in vectors of positions.
struct ThinWeights<'a, T> {
    correlation: &'a Correlation,
    examples: Range<usize>,
    group: usize,
    x: &'a [T],
    y: &'a [T],
    w: &'a mut [T],
    scratch: &'a mut Scratch,
}

impl<T: Float> WithSimd for ThinWeights<'_, T> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            correlation: plan,
            examples,
            group,
            x,
            y,
            w,
            scratch,
        } = self;
        let [phase] = &plan.phases[..] else {
            unreachable!("what is read forward has one phase");
        };
        let source_size = plan.source.rows.len() * plan.source.width;
        let source = scratch.source.as_mut_slice::<T>();
        w.fill(T::ZERO);
        for example in examples {
            let at = example * plan.groups + group;
            plan.source.enter(simd, 1, &x[at * source_size..], source);
            for output in 0..plan.outputs {
                let y = &y[(at * plan.outputs + output) * plan.size..][..plan.size];
                let w = &mut w[output * plan.taps..][..plan.taps];
                dots(simd, y, &plan.rows, plan.row, source, &phase.steps, w);
            }
        }
    }
}

/// The weights of a group from input and output: sums over positions, in vectors of neighbouring
/// channels and elements of the kernel.
struct Gradient {
    groups: usize,
    inputs: usize,
    outputs: usize,
    source: ChannelsLast,
    /// Where positions begin to read.
    starts: Vec<usize>,
    /// Where what a kernel reads lies from there, in runs of so many neighbours.
    runs: Vec<usize>,
    run: usize,
    /// How many weights one output has.
    depth: usize,
    /// What is gathered into whole vectors, and where it lies then.
    gathered: Option<Gathered>,
    vectors: Vec<Lane>,
    /// How many examples and positions are taken at once.
    block: usize,
    length: usize,
}

/// Patches of so many elements, made of vectors with a place in the input and one in the patch.
struct Gathered {
    copies: Vec<[usize; 2]>,
    patch: usize,
    /// Where patches begin.
    steps: Vec<usize>,
}

/// Where the elements of a group lie between their padding, channels last.
struct ChannelsLast {
    channels: usize,
    /// Where rows begin.
    rows: Vec<usize>,
    width: usize,
    /// Elements with the padding.
    size: usize,
}

impl ChannelsLast {
    #[inline(always)]
    fn enter<S: Simd, T: Float>(&self, simd: S, x: &[T], source: &mut [T]) {
        let (channels, width) = (self.channels, self.width);
        let size = self.rows.len() * width;
        for (i, &row) in self.rows.iter().enumerate() {
            let source = &mut source[row..][..width * channels];
            if channels == 1 {
                copy(simd, &x[i * width..][..width], source);
                continue;
            }
            transpose(&x[i * width..], size, channels, source);
        }
    }
}

/// Writes channels `size` apart, as many elements of each as there is room for, with the channels
/// last.
#[inline(always)]
fn transpose<T: Float>(x: &[T], size: usize, channels: usize, out: &mut [T]) {
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

impl Gradient {
    fn new(convolution: &Convolution, n: usize, unit: Unit) -> Self {
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
        // What a kernel reads at a position lies in runs of neighbours.
        let (runs, run) = match windows[last].dilation {
            1 => (places((0..last).map(tap)), windows[last].kernel * inputs),
            _ => (places((0..=last).map(tap)), inputs),
        };
        let depth = runs.len() * run;
        let pieces = runs.iter().enumerate().flat_map(|(i, &start)| {
            (0..run).step_by(lanes).map(move |first| Lane {
                start: start + first,
                place: i * run + first,
                len: lanes.min(run - first),
            })
        });
        let pieces: Vec<Lane> = pieces.collect();
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
            length,
        }
    }

    /// The weights, `[parts, groups * outputs, taps, inputs]`: of each part of the examples.
    fn run<T: Float>(&self, n: usize, parts: usize, x: &[T], y: &[T], w: &mut [T]) {
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

/// What one call makes.
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
                            segment: chunk.len() * patch,
                        }
                    }
                };
                let count = outputs.len();
                let high = if streamed { HIGH } else { count };
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
                        let width = width(plan.vectors.len() - lane);
                        let lanes = &plan.vectors[lane..lane + width];
                        let target = Target {
                            memory: &mut *out,
                            step: plan.depth,
                            add,
                        };
                        sums(simd, high, block, rows, from, lanes, target);
                        lane += width;
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

#[cfg(test)]
mod tests {
    use super::super::matmul::PRODUCTS;
    use super::*;
    use crate::{DType, Generator, Window};

    #[test]
    fn kernels_of_one_element_are_products_of_matrices() {
        let products = |kernel, made: ConvolutionPart| {
            let window = Window {
                kernel,
                stride: 1,
                padding: [0; 2],
                dilation: 1,
            };
            let convolution = Convolution {
                groups: 1,
                inputs: 32,
                outputs: 32,
                sizes: [8, 8].into(),
                windows: [window; 2].into_iter().collect(),
            };
            let [a, b] = made.others().map(|part| {
                Generator::new(0).normal(convolution.shape(part, 2), 0.0, 1.0, DType::F32)
            });
            let before = PRODUCTS.get();
            let _ = convolution.product(made, &a, &b);
            PRODUCTS.get() - before
        };
        use ConvolutionPart::{Input, Output, Weights};
        for made in [Output, Input, Weights] {
            assert_eq!((products(1, made), products(3, made)), (1, 0), "{made:?}");
        }
    }
}
