//! Convolutions as matrix products.
//!
//! One example of one group at a time is laid out with its channels last and its padding around it,
//! so that what a kernel reads at a position is a few runs of neighbours. Runs are gathered into
//! patches `[positions, taps * channels]`, as many positions at once as stay in the cache, and
//! products of matrices do the rest. Two cases need no patches: kernels of size 1, where x is the
//! matrix already, and groups of one input channel with few outputs, whose matrices would be too
//! thin to be worth it.
//!
//! What is cut into parts is cut by its size, so that the number of threads changes no result.

use std::borrow::Cow;
use std::ops::Range;

use gemm::Parallelism;
use pulp::{Arch, NullaryFnOnce};
use rayon::prelude::*;

use super::matmul::{Matrix, Number, Product};
use super::worth_threads;
use crate::convolution::{Convolution, ConvolutionPart, Window};
use crate::storage::Buffer;
use crate::{Array, DType, Shape};

/// Bytes of patches that are made at once; about half of a core's cache.
const PATCHES: usize = 1 << 19;
/// Elements of a channel that are moved at once between layouts: what lies in a cache line.
const LINE: usize = 16;
/// Output channels up to which a group of one input channel is not worth a matrix product.
const THIN: usize = 4;
/// Parts that the sum over examples is cut into.
const PARTS: usize = 8;
/// Weights from which on it is not, and multiplications up to which it is not.
const MANY_WEIGHTS: usize = 1 << 18;
const FEW_PRODUCTS: usize = 1 << 22;

/// See [`crate::Device::convolve`].
pub(super) fn convolve(
    convolution: &Convolution,
    made: ConvolutionPart,
    a: &Array,
    b: &Array,
) -> Array {
    match a.dtype() {
        DType::F32 => product::<f32>(convolution, made, a, b),
        _ => product::<f64>(convolution, made, a, b),
    }
}

fn product<T: Number>(
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
    let plan = Plan::new(convolution);
    match made {
        ConvolutionPart::Output => {
            let (x, w) = (a.to_row_major(), b.move_axis(1, -1).to_row_major());
            let (x, w) = (dense::<T>(&x), dense::<T>(&w));
            Array::filled_by(shape, |y| plan.output(&x, &w, y))
        }
        ConvolutionPart::Input => {
            let (w, y) = (a.move_axis(1, -1).to_row_major(), b.to_row_major());
            let (w, y) = (dense::<T>(&w), dense::<T>(&y));
            Array::filled_by(shape, |x| plan.input(&w, &y, x))
        }
        ConvolutionPart::Weights => {
            let (x, y) = (a.to_row_major(), b.to_row_major());
            let (x, y) = (dense::<T>(&x), dense::<T>(&y));
            let parts = plan.parts(n);
            let kernel = shape[2..].iter().copied();
            let each = [parts * shape[0]].into_iter().chain(kernel);
            let w = Array::filled_by(each.chain([shape[1]]).collect(), |w| {
                plan.weights(n, parts, &x, &y, w);
            });
            // The channels stay last in memory.
            let w = w.move_axis(-1, 1);
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

/// The elements of a row-major array.
fn dense<T: Number>(x: &Array) -> Cow<'_, [T]> {
    match x.as_slice() {
        Some(elements) => Cow::Borrowed(elements),
        None => {
            let value = x.inline().expect("row-major or a repeated value");
            Cow::Owned(vec![T::from_scalar(value); x.size()])
        }
    }
}

/// All sums of one multiple of each step: `i * step` for `i < count`.
fn places(axes: impl IntoIterator<Item = (usize, usize)>) -> Vec<usize> {
    axes.into_iter().fold(vec![0], |places, (count, step)| {
        let along = |place| (0..count).map(move |i| place + i * step);
        places.into_iter().flat_map(along).collect()
    })
}

/// Where everything lies in one example of one group.
struct Plan {
    groups: usize,
    /// Channels of a group.
    inputs: usize,
    outputs: usize,
    /// Elements of one channel of the input.
    size: usize,
    /// Elements of the padded input with its channels.
    padded: usize,
    /// Where the rows of the input begin in the padded one, and how long they are.
    rows: Vec<usize>,
    width: usize,
    /// Where the kernel begins to read, for each position; positions in a row, and their distance.
    starts: Vec<usize>,
    row: usize,
    stride: usize,
    /// Where the elements of the kernel lie from there.
    taps: Vec<usize>,
    /// The same with neighbours as one run, and how long runs are.
    runs: Vec<usize>,
    run: usize,
    /// The positions are the input's elements.
    pointwise: bool,
}

impl Plan {
    fn new(convolution: &Convolution) -> Self {
        let Convolution {
            groups,
            inputs,
            outputs,
            ref sizes,
            ref windows,
        } = *convolution;
        let axes = sizes.rank();
        let mut steps = vec![inputs; axes];
        for axis in (1..axes).rev() {
            steps[axis - 1] = steps[axis] * windows[axis].padded(sizes[axis]);
        }
        let positions = convolution.positions();
        let last = axes - 1;
        let along = |axes: Range<usize>, place: fn(&Window) -> (usize, usize)| {
            let of_axis = |axis: usize| {
                let (count, step) = place(&windows[axis]);
                (count, step * steps[axis])
            };
            places(axes.map(of_axis))
        };
        let tap = |window: &Window| (window.kernel, window.dilation);
        let taps = along(0..axes, tap);
        let (runs, run) = match windows[last].dilation {
            1 => (along(0..last, tap), windows[last].kernel * inputs),
            _ => (taps.clone(), inputs),
        };
        let corner: usize = (0..axes).map(|i| windows[i].padding[0] * steps[i]).sum();
        let rows = places((0..last).map(|axis| (sizes[axis], steps[axis])));
        let starts = (0..axes).map(|i| (positions[i], windows[i].stride * steps[i]));
        Self {
            groups,
            inputs,
            outputs,
            size: sizes.size(),
            padded: steps[0] * windows[0].padded(sizes[0]),
            rows: rows.into_iter().map(|row| corner + row).collect(),
            width: sizes[last],
            starts: places(starts),
            row: positions[last],
            stride: windows[last].stride,
            taps,
            runs,
            run,
            pointwise: windows
                .iter()
                .all(|window| window.kernel == 1 && window.stride == 1 && window.padding == [0, 0]),
        }
    }

    /// The length of a patch.
    fn depth(&self) -> usize {
        self.taps.len() * self.inputs
    }

    /// How many positions there are.
    fn positions(&self) -> usize {
        self.starts.len()
    }

    /// Whether groups are too thin for products of matrices.
    fn is_thin(&self) -> bool {
        self.inputs == 1 && self.outputs <= THIN && !self.pointwise
    }

    /// Ranges of positions whose patches stay in the cache.
    fn chunks<T>(&self) -> impl Iterator<Item = Range<usize>> + use<T> {
        let positions = self.positions();
        let fit = PATCHES / size_of::<T>() / self.depth();
        // Whole vectors, and enough of them for a product.
        let chunk = (fit / 16 * 16).max(64);
        (0..positions)
            .step_by(chunk)
            .map(move |start| start..(start + chunk).min(positions))
    }

    fn scratch<T: Number>(&self) -> Scratch {
        let longest = self.chunks::<T>().map(|chunk| chunk.len()).max();
        let (padded, patches) = match (self.pointwise, self.is_thin()) {
            (true, _) => (0, 0),
            (_, true) => (self.padded, 0),
            _ => (self.padded, longest.unwrap_or(0) * self.depth()),
        };
        let mut scratch = Scratch {
            padded: Buffer::new::<T>(padded),
            patches: Buffer::new::<T>(patches),
        };
        // The padding; nothing else writes there but sums, which begin with zeros.
        scratch.padded.as_mut_slice().fill(T::ZERO);
        scratch
    }

    /// The kernels of one group, of which each row is one output's, from `[.., taps, inputs]`.
    fn kernels<'a, T>(&self, w: &'a [T], group: usize) -> &'a [T] {
        let len = self.outputs * self.depth();
        &w[group * len..][..len]
    }

    /// Calls `each` for every chunk of `len` elements, on threads where that many multiplications
    /// are worth it.
    fn for_each<T: Number>(
        &self,
        out: &mut [T],
        len: usize,
        multiplications: usize,
        each: impl Fn(usize, &mut [T], &mut Scratch, Parallelism) + Sync,
    ) {
        let (count, threads) = (out.len() / len, rayon::current_num_threads());
        // Twenty multiplications in a nanosecond, with all that comes beside them.
        if count >= threads && worth_threads(multiplications / 20) {
            out.par_chunks_mut(len)
                .enumerate()
                .with_min_len(count.div_ceil(4 * threads))
                .for_each_init(
                    || self.scratch::<T>(),
                    |scratch, (i, out)| each(i, out, scratch, Parallelism::None),
                );
            return;
        }
        let parallelism = match worth_threads(multiplications / 20) {
            true => Parallelism::Rayon(0),
            false => Parallelism::None,
        };
        let mut scratch = self.scratch::<T>();
        for (i, out) in out.chunks_mut(len).enumerate() {
            each(i, out, &mut scratch, parallelism);
        }
    }

    /// How many multiplications are made for `n` examples.
    fn multiplications(&self, n: usize) -> usize {
        n * self.groups * self.outputs * self.positions() * self.depth()
    }

    /// The output, `[n, groups * outputs, positions]`.
    fn output<T: Number>(&self, x: &[T], w: &[T], y: &mut [T]) {
        let (example, positions) = (self.inputs * self.size, self.positions());
        let len = self.outputs * positions;
        let multiplications = y.len() * self.depth();
        self.for_each(y, len, multiplications, |i, y, scratch, parallelism| {
            let x = &x[i * example..][..example];
            let w = self.kernels(w, i % self.groups);
            if self.pointwise {
                let sizes = [self.outputs, positions, self.inputs];
                let (w, x) = (by_rows(w, self.inputs), by_rows(x, positions));
                return multiply(sizes, w, x, T::ZERO, (y, positions), parallelism);
            }
            let (padded, patches) = scratch.parts::<T>();
            self.enter(x, padded);
            if self.is_thin() {
                y.fill(T::ZERO);
                let (row, stride) = (self.row, self.stride);
                return self.thin(
                    #[inline(always)]
                    |weight, start, from| {
                        let read = padded[from..].iter().step_by(stride);
                        for (y, &x) in y[start..start + row].iter_mut().zip(read) {
                            *y = y.plus_product(w[weight], x);
                        }
                    },
                );
            }
            let depth = self.depth();
            for chunk in self.chunks::<T>() {
                let patches = &mut patches[..chunk.len() * depth];
                self.gather(chunk.clone(), padded, patches);
                let patches = by_columns(patches, depth);
                let sizes = [self.outputs, chunk.len(), depth];
                let y = (&mut y[chunk.start..], positions);
                multiply(sizes, by_rows(w, depth), patches, T::ZERO, y, parallelism);
            }
        });
    }

    /// The input, `[n, groups * inputs, size]`.
    fn input<T: Number>(&self, w: &[T], y: &[T], x: &mut [T]) {
        let (example, positions) = (self.outputs * self.positions(), self.positions());
        let len = self.inputs * self.size;
        let multiplications = y.len() * self.depth();
        self.for_each(x, len, multiplications, |i, x, scratch, parallelism| {
            let y = &y[i * example..][..example];
            let w = self.kernels(w, i % self.groups);
            if self.pointwise {
                let (w, y) = (by_columns(w, self.inputs), by_rows(y, positions));
                let sizes = [self.inputs, positions, self.outputs];
                return multiply(sizes, w, y, T::ZERO, (x, positions), parallelism);
            }
            let (padded, patches) = scratch.parts::<T>();
            padded.fill(T::ZERO);
            if self.is_thin() {
                let (row, stride) = (self.row, self.stride);
                self.thin(
                    #[inline(always)]
                    |weight, start, from| {
                        let written = padded[from..].iter_mut().step_by(stride);
                        for (x, &y) in written.zip(&y[start..start + row]) {
                            *x = x.plus_product(w[weight], y);
                        }
                    },
                );
                return self.leave(padded, x);
            }
            let depth = self.depth();
            for chunk in self.chunks::<T>() {
                let patches = &mut patches[..chunk.len() * depth];
                let y = by_columns(&y[chunk.start..], positions);
                let sizes = [chunk.len(), depth, self.outputs];
                let out = (&mut *patches, depth);
                multiply(sizes, y, by_rows(w, depth), T::ZERO, out, parallelism);
                Arch::new().dispatch(Spread {
                    plan: self,
                    chunk,
                    patches,
                    padded,
                });
            }
            self.leave(padded, x);
        });
    }

    /// How many parts the sum over `n` examples is cut into.
    fn parts(&self, n: usize) -> usize {
        let weights = self.groups * self.outputs * self.depth();
        match weights >= MANY_WEIGHTS || self.multiplications(n) <= FEW_PRODUCTS {
            true => 1,
            false => PARTS.div_ceil(self.groups).min(n),
        }
    }

    /// The weights, `[parts, groups * outputs, taps, inputs]`: of each part of the examples.
    fn weights<T: Number>(&self, n: usize, parts: usize, x: &[T], y: &[T], w: &mut [T]) {
        let (positions, depth) = (self.positions(), self.depth());
        let [of_x, of_y] = [self.inputs * self.size, self.outputs * positions];
        let len = self.outputs * depth;
        self.for_each(
            w,
            len,
            self.multiplications(n),
            |i, w, scratch, parallelism| {
                let (part, group) = (i / self.groups, i % self.groups);
                let mut beta = T::ZERO;
                if self.is_thin() {
                    w.fill(T::ZERO);
                }
                for example in part * n / parts..(part + 1) * n / parts {
                    let at = example * self.groups + group;
                    let (x, y) = (&x[at * of_x..][..of_x], &y[at * of_y..][..of_y]);
                    if self.pointwise {
                        let (y, x) = (by_rows(y, positions), by_columns(x, positions));
                        let sizes = [self.outputs, depth, positions];
                        multiply(sizes, y, x, beta, (&mut *w, depth), parallelism);
                        beta = T::ONE;
                        continue;
                    }
                    let (padded, patches) = scratch.parts::<T>();
                    self.enter(x, padded);
                    if self.is_thin() {
                        let (row, stride) = (self.row, self.stride);
                        self.thin(
                            #[inline(always)]
                            |weight, start, from| {
                                let sum = sum_of_products(
                                    &y[start..start + row],
                                    &padded[from..],
                                    stride,
                                );
                                w[weight] = w[weight].plus_product(T::ONE, sum);
                            },
                        );
                        continue;
                    }
                    for chunk in self.chunks::<T>() {
                        let patches = &mut patches[..chunk.len() * depth];
                        self.gather(chunk.clone(), padded, patches);
                        let y = by_rows(&y[chunk.start..], positions);
                        let sizes = [self.outputs, depth, chunk.len()];
                        let patches = by_rows(patches, depth);
                        multiply(sizes, y, patches, beta, (&mut *w, depth), parallelism);
                        beta = T::ONE;
                    }
                }
            },
        );
    }

    /// Writes an example of one group `[inputs, size]` between its padding, channels last.
    fn enter<T: Number>(&self, x: &[T], padded: &mut [T]) {
        for (i, &start) in self.rows.iter().enumerate() {
            let row = &mut padded[start..][..self.width * self.inputs];
            for (block, first) in row.chunks_mut(LINE * self.inputs).zip((0..).step_by(LINE)) {
                let (len, at) = (block.len() / self.inputs, i * self.width + first);
                for channel in 0..self.inputs {
                    let line = &x[channel * self.size + at..][..len];
                    let elements = block[channel..].iter_mut().step_by(self.inputs);
                    elements.zip(line).for_each(|(y, &x)| *y = x);
                }
            }
        }
    }

    /// The opposite of [`Self::enter`].
    fn leave<T: Number>(&self, padded: &[T], x: &mut [T]) {
        for (i, &start) in self.rows.iter().enumerate() {
            let row = &padded[start..][..self.width * self.inputs];
            for (block, first) in row.chunks(LINE * self.inputs).zip((0..).step_by(LINE)) {
                let (len, at) = (block.len() / self.inputs, i * self.width + first);
                for channel in 0..self.inputs {
                    let line = &mut x[channel * self.size + at..][..len];
                    let elements = block[channel..].iter().step_by(self.inputs);
                    line.iter_mut().zip(elements).for_each(|(x, &y)| *x = y);
                }
            }
        }
    }

    /// The patches of some positions.
    fn gather<T: Number>(&self, chunk: Range<usize>, padded: &[T], patches: &mut [T]) {
        let patches = patches.chunks_exact_mut(self.depth());
        for (patch, &start) in patches.zip(&self.starts[chunk]) {
            for (run, &from) in patch.chunks_exact_mut(self.run).zip(&self.runs) {
                run.copy_from_slice(&padded[start + from..][..self.run]);
            }
        }
    }

    /// Calls `each` with every weight, the first position of every row of that weight's output and
    /// the element that the weight meets there.
    fn thin(&self, each: impl FnMut(usize, usize, usize)) {
        Arch::new().dispatch(Thin { plan: self, each });
    }
}

/// The loops over a thin group.
struct Thin<'a, F> {
    plan: &'a Plan,
    each: F,
}

impl<F: FnMut(usize, usize, usize)> NullaryFnOnce for Thin<'_, F> {
    type Output = ();
    #[inline(always)]
    fn call(mut self) {
        let plan = self.plan;
        for output in 0..plan.outputs {
            for row in (0..plan.positions()).step_by(plan.row) {
                for (i, tap) in plan.taps.iter().enumerate() {
                    let weight = output * plan.taps.len() + i;
                    let start = output * plan.positions() + row;
                    (self.each)(weight, start, plan.starts[row] + tap);
                }
            }
        }
    }
}

/// The sum of the products with every `stride`-th of `b`.
#[inline(always)]
fn sum_of_products<T: Number>(a: &[T], b: &[T], stride: usize) -> T {
    const LANES: usize = 16;
    let mut sums = [T::ZERO; LANES];
    if stride == 1 {
        let b = &b[..a.len()];
        let (whole, rest) = (a.chunks_exact(LANES), a.len() / LANES * LANES);
        for (a, b) in whole.zip(b.chunks_exact(LANES)) {
            for lane in 0..LANES {
                sums[lane] = sums[lane].plus_product(a[lane], b[lane]);
            }
        }
        for (lane, (&a, &b)) in a[rest..].iter().zip(&b[rest..]).enumerate() {
            sums[lane] = sums[lane].plus_product(a, b);
        }
    } else {
        for (i, (&a, &b)) in a.iter().zip(b.iter().step_by(stride)).enumerate() {
            sums[i % LANES] = sums[i % LANES].plus_product(a, b);
        }
    }
    sums.into_iter()
        .fold(T::ZERO, |sum, x| sum.plus_product(T::ONE, x))
}

/// The opposite of [`Plan::gather`]: what lies in one place more than once adds up.
struct Spread<'a, T> {
    plan: &'a Plan,
    chunk: Range<usize>,
    patches: &'a [T],
    padded: &'a mut [T],
}

impl<T: Number> NullaryFnOnce for Spread<'_, T> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        let plan = self.plan;
        let patches = self.patches.chunks_exact(plan.depth());
        for (patch, &start) in patches.zip(&plan.starts[self.chunk]) {
            for (run, &from) in patch.chunks_exact(plan.run).zip(&plan.runs) {
                let sums = &mut self.padded[start + from..][..plan.run];
                for (sum, &x) in sums.iter_mut().zip(run) {
                    *sum = sum.plus_product(T::ONE, x);
                }
            }
        }
    }
}

/// Memory that one thread works in.
struct Scratch {
    padded: Buffer,
    patches: Buffer,
}

impl Scratch {
    fn parts<T: Number>(&mut self) -> (&mut [T], &mut [T]) {
        (self.padded.as_mut_slice(), self.patches.as_mut_slice())
    }
}

/// A matrix whose rows lie `step` apart.
fn by_rows<T>(memory: &[T], step: usize) -> Matrix<'_, T> {
    Matrix {
        memory,
        row: step,
        column: 1,
    }
}

/// A matrix whose columns lie `step` apart.
fn by_columns<T>(memory: &[T], step: usize) -> Matrix<'_, T> {
    Matrix {
        memory,
        row: 1,
        column: step,
    }
}

/// `out = a b + beta out`, with the rows of `out` so far apart as told.
fn multiply<T: Number>(
    [m, n, k]: [usize; 3],
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    beta: T,
    (out, step): (&mut [T], usize),
    parallelism: Parallelism,
) {
    let product = Product {
        m,
        n,
        k,
        alpha: T::ONE,
        a,
        b,
        beta,
        out,
        step,
    };
    T::product(product, parallelism);
}
