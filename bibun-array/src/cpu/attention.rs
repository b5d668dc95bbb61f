//! Attention, some queries and keys at a time, so that their scores stay in the cache: the memory it
//! needs grows with the number of queries and keys, not with their product.
//!
//! The softmax is computed online: sums so far are scaled whenever a larger score is found. On the
//! way back, the scores are computed again, from the logarithm of each query's sum. Blocks of keys
//! behind all of their queries are left out if the attention is causal. Only sizes decide where
//! blocks begin, and so the order of each sum.
//!
//! Source: Dao, Fu, Ermon, Rudra and Ré, "FlashAttention" (2022); Rabe and Staats, "Self-attention
//! does not need O(n²) memory" (2021); Milakov and Gimelshein, "Online normalizer calculation for
//! softmax" (2018).

use std::ops::Range;

use pulp::{Arch, NullaryFnOnce};

use super::matmul::{Matrix, MatrixProduct, Number, Operand, usable};
use super::normalize::spread;
use super::threads::{chunks, for_each};
use super::worth_threads;
use crate::device::Attention;
use crate::dtype::with_float;
use crate::math::exponential::exp_near_one;
use crate::storage::list;
use crate::{Array, DType, Element, Scalar};

/// The number of queries and of keys whose scores are computed at once.
const QUERIES: usize = 64;
const KEYS: usize = 128;
/// The number of sums computed side by side.
const LANES: usize = 16;
/// The number of multiplications in a nanosecond, about.
const SPEED: usize = 16;

/// A float of which an exponential is computed.
trait Real: Number + PartialOrd {
    const NEG_INFINITY: Self;
    const INFINITY: Self;
    fn of(x: f64) -> Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn over(self, other: Self) -> Self;
    fn ln(self) -> Self;
    /// `e^self` for a number that is not positive, and 0 where it is not a normal number.
    fn power(self) -> Self;
}

macro_rules! real {
    ($($float:ident $least:literal;)*) => {$(
        impl Real for $float {
            const NEG_INFINITY: Self = Self::NEG_INFINITY;
            const INFINITY: Self = Self::INFINITY;
            #[inline(always)]
            fn of(x: f64) -> Self {
                x as $float
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn over(self, other: Self) -> Self {
                self / other
            }
            #[inline(always)]
            fn ln(self) -> Self {
                crate::math::Float::ln(self)
            }
            #[inline(always)]
            fn power(self) -> Self {
                let zero = self < $least;
                let y = exp_near_one(if zero { 0.0 } else { self });
                if zero { 0.0 } else { y }
            }
        }
    )*};
}
real! { f32 -87.0; f64 -708.0; }

/// The mask of one matrix of scores.
#[derive(Clone, Copy)]
enum Mask<'a, T> {
    None,
    /// Scores that count.
    Kept(Matrix<'a, bool>),
    /// Numbers that are added to the scores.
    Added(Matrix<'a, T>),
}

/// The masks of all matrices of scores.
enum Masks<'a, T> {
    None,
    Kept(Operand<'a, bool>),
    Added(Operand<'a, T>),
}

impl<'a, T: Element> Masks<'a, T> {
    fn new(mask: Option<&'a Array>, inline: &'a Option<Scalar>) -> Self {
        match mask {
            None => Self::None,
            Some(mask) if mask.dtype() == DType::Bool => Self::Kept(Operand::new(mask, inline)),
            Some(mask) => Self::Added(Operand::new(mask, inline)),
        }
    }

    fn of(&self, i: usize) -> Mask<'a, T> {
        match self {
            Self::None => Mask::None,
            Self::Kept(all) => Mask::Kept(all.matrix(i)),
            Self::Added(all) => Mask::Added(all.matrix(i)),
        }
    }
}

/// One attention: its queries, keys and values.
struct Head<'a, T> {
    rule: Attention,
    /// The numbers of queries and of keys, and the sizes of a key and of a value.
    sizes: [usize; 4],
    query: Matrix<'a, T>,
    key: Matrix<'a, T>,
    value: Matrix<'a, T>,
    mask: Mask<'a, T>,
}

impl<'a, T: Real> Head<'a, T> {
    /// The blocks of keys to which some of these queries attend.
    fn blocks(&self, queries: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<T> {
        let end = match self.rule.causal {
            true => queries.end.min(self.sizes[1]),
            false => self.sizes[1],
        };
        let start = |i| i * KEYS;
        (0..end.div_ceil(KEYS)).map(move |i| start(i)..(start(i) + KEYS).min(end))
    }

    /// Computes the scores of some queries and keys, `-∞` where a query does not attend to a key.
    fn scores(&self, queries: &Range<usize>, keys: &Range<usize>, out: &mut [T]) {
        let query = self.query.rows_from(queries.start);
        let key = self.key.rows_from(keys.start);
        T::product(
            MatrixProduct {
                m: queries.len(),
                n: keys.len(),
                k: self.sizes[2],
                alpha: T::of(self.rule.scale),
                a: query,
                b: key.transposed(),
                beta: T::ZERO,
                addend: None,
                out,
                step: keys.len(),
            },
            false,
        );
        if let Mask::None = self.mask
            && !self.rule.causal
        {
            return;
        }
        match self.mask {
            Mask::None => {}
            Mask::Kept(mask) => Arch::new().dispatch(Masked {
                scores: &mut *out,
                mask,
                queries,
                keys,
                change: |score, kept| if kept { score } else { T::NEG_INFINITY },
            }),
            Mask::Added(mask) => Arch::new().dispatch(Masked {
                scores: &mut *out,
                mask,
                queries,
                keys,
                change: |score: T, added| {
                    let sum = score.plus(added);
                    if added == T::NEG_INFINITY { added } else { sum }
                },
            }),
        }
        if self.rule.causal {
            for (query, row) in queries.clone().zip(out.chunks_exact_mut(keys.len())) {
                let attended = (query + 1).saturating_sub(keys.start).min(row.len());
                row[attended..].fill(T::NEG_INFINITY);
            }
        }
    }

    /// Computes the averages of the values for some queries, and the logarithms of their sums.
    fn attend(&self, queries: &Range<usize>, out: &mut [T], log_sums: &mut [T]) {
        let [_, _, _, size] = self.sizes;
        let mut scores = list(T::ZERO, queries.len() * KEYS.min(self.sizes[1]));
        let (mut largest, mut sums) = ([T::NEG_INFINITY; QUERIES], [T::ZERO; QUERIES]);
        out.fill(T::ZERO);
        for keys in self.blocks(queries) {
            let scores = &mut scores[..queries.len() * keys.len()];
            self.scores(queries, &keys, scores);
            Arch::new().dispatch(Raise {
                scores,
                count: keys.len(),
                largest: &mut largest,
                sums: &mut sums,
                out,
                size,
            });
            T::product(
                MatrixProduct {
                    m: queries.len(),
                    n: size,
                    k: keys.len(),
                    alpha: T::ONE,
                    a: Matrix::of_rows(scores, keys.len()),
                    b: self.value.rows_from(keys.start),
                    beta: T::ONE,
                    addend: None,
                    out,
                    step: size,
                },
                false,
            );
        }
        Arch::new().dispatch(Averages {
            largest: &largest,
            sums: &sums,
            size,
            out,
            log_sums,
        });
    }

    /// Adds the cotangents of queries, keys and values to `out`.
    fn pull_back(&self, results: &Results<'_, T>, out: [&mut [T]; 3]) {
        let [queries, keys, depth, size] = self.sizes;
        let [gquery, gkey, gvalue] = out;
        let room = QUERIES.min(queries) * KEYS.min(keys);
        let (mut weights, mut slopes) = (list(T::ZERO, room), list(T::ZERO, room));
        let mut along = [T::ZERO; QUERIES];
        for start in (0..queries).step_by(QUERIES) {
            let queries = start..(start + QUERIES).min(queries);
            let rows = start * size..queries.end * size;
            let gy = &results.gy[rows.clone()];
            Arch::new().dispatch(Dots {
                a: &results.y[rows],
                b: gy,
                size,
                out: &mut along[..queries.len()],
            });
            let gy = Matrix::of_rows(gy, size);
            for keys in self.blocks(&queries) {
                let [m, n] = [queries.len(), keys.len()];
                let (weights, slopes) = (&mut weights[..m * n], &mut slopes[..m * n]);
                self.scores(&queries, &keys, weights);
                let value = self.value.rows_from(keys.start);
                let product = |k, alpha, a, b| MatrixProduct {
                    m,
                    n,
                    k,
                    alpha,
                    a,
                    b,
                    beta: T::ZERO,
                    addend: None,
                    out: &mut [][..],
                    step: n,
                };
                let of_slopes = product(size, T::ONE, gy, value.transposed());
                T::product(
                    MatrixProduct {
                        out: &mut *slopes,
                        ..of_slopes
                    },
                    false,
                );
                Arch::new().dispatch(Slopes {
                    weights,
                    slopes,
                    count: n,
                    log_sums: &results.log_sums[queries.clone()],
                    along: &along[..m],
                    scale: T::of(self.rule.scale),
                });
                let (weights, slopes) = (Matrix::of_rows(weights, n), Matrix::of_rows(slopes, n));
                let add = |m, n, k, a, b, out: &mut [T]| {
                    T::product(
                        MatrixProduct {
                            m,
                            n,
                            k,
                            alpha: T::ONE,
                            a,
                            b,
                            beta: T::ONE,
                            addend: None,
                            out,
                            step: n,
                        },
                        false,
                    );
                };
                let (query, key) = (
                    self.query.rows_from(queries.start),
                    self.key.rows_from(keys.start),
                );
                let own = |size: usize, range: &Range<usize>| range.start * size..range.end * size;
                let of_values = &mut gvalue[own(size, &keys)];
                add(n, size, m, weights.transposed(), gy, of_values);
                let of_keys = &mut gkey[own(depth, &keys)];
                add(n, depth, m, slopes.transposed(), query, of_keys);
                let of_queries = &mut gquery[own(depth, &queries)];
                add(m, depth, n, slopes, key, of_queries);
            }
        }
    }
}

/// What the way back knows of one attention: its averages, the logarithms of its sums, and the
/// cotangents of the averages.
struct Results<'a, T> {
    y: &'a [T],
    log_sums: &'a [T],
    gy: &'a [T],
}

/// Changes each score of a block by the element of a mask for it.
struct Masked<'a, T, M, F> {
    scores: &'a mut [T],
    mask: Matrix<'a, M>,
    queries: &'a Range<usize>,
    keys: &'a Range<usize>,
    change: F,
}

impl<T: Copy, M: Copy, F: Fn(T, M) -> T> NullaryFnOnce for Masked<'_, T, M, F> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let rows = self.scores.chunks_exact_mut(self.keys.len());
        for (query, row) in self.queries.clone().zip(rows) {
            let first = query * self.mask.row + self.keys.start * self.mask.column;
            let elements = &self.mask.memory[first..];
            match self.mask.column {
                0 => {
                    let element = elements[0];
                    row.iter_mut()
                        .for_each(|score| *score = (self.change)(*score, element));
                }
                // PERF: neighbours are changed by vectors, without branches on the mask.
                1 => {
                    for (score, &element) in row.iter_mut().zip(elements) {
                        *score = (self.change)(*score, element);
                    }
                }
                step => {
                    for (score, &element) in row.iter_mut().zip(elements.iter().step_by(step)) {
                        *score = (self.change)(*score, element);
                    }
                }
            }
        }
    }
}

/// The sum of a function of the elements at each position.
#[inline(always)]
fn sum<T: Real>(len: usize, f: impl Fn(usize) -> T) -> T {
    let mut lanes = [T::ZERO; LANES];
    let whole = len / LANES * LANES;
    for at in (0..whole).step_by(LANES) {
        for (i, lane) in lanes.iter_mut().enumerate() {
            *lane = lane.plus(f(at + i));
        }
    }
    let mut total = folded(lanes, T::plus);
    for i in whole..len {
        total = total.plus(f(i));
    }
    total
}

/// Folds pairs of lanes until one is left.
#[inline(always)]
fn folded<T: Copy>(mut lanes: [T; LANES], fold: impl Fn(T, T) -> T) -> T {
    let mut half = LANES / 2;
    while half > 0 {
        for i in 0..half {
            lanes[i] = fold(lanes[i], lanes[i + half]);
        }
        half /= 2;
    }
    lanes[0]
}

/// Raises e to the scores of a block, less the largest of a query so far, and scales its sums so
/// far if a larger one was found.
struct Raise<'a, T> {
    scores: &'a mut [T],
    /// The number of keys.
    count: usize,
    largest: &'a mut [T; QUERIES],
    sums: &'a mut [T; QUERIES],
    out: &'a mut [T],
    /// The size of a value.
    size: usize,
}

impl<T: Real> NullaryFnOnce for Raise<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (i, row) in self.scores.chunks_exact_mut(self.count).enumerate() {
            let mut lanes = [self.largest[i]; LANES];
            let (runs, rest) = row.as_chunks::<LANES>();
            for run in runs {
                for (lane, &score) in lanes.iter_mut().zip(run) {
                    *lane = if score > *lane { score } else { *lane };
                }
            }
            for (lane, &score) in lanes.iter_mut().zip(rest) {
                *lane = if score > *lane { score } else { *lane };
            }
            let largest = folded(lanes, |a, b| if b > a { b } else { a });
            if largest == T::NEG_INFINITY {
                // None of these keys counts; but NaN does.
                for score in row {
                    *score = if *score == T::NEG_INFINITY {
                        T::ZERO
                    } else {
                        *score
                    };
                }
                continue;
            }
            let total = raise_row(row, largest);
            let scale = self.largest[i].minus(largest).power();
            self.largest[i] = largest;
            self.sums[i] = self.sums[i].times(scale).plus(total);
            if scale != T::ONE {
                for y in &mut self.out[i * self.size..(i + 1) * self.size] {
                    *y = y.times(scale);
                }
            }
        }
    }
}

/// Divides the sums of values by those of weights, and computes the logarithms of the latter.
struct Averages<'a, T> {
    largest: &'a [T; QUERIES],
    sums: &'a [T; QUERIES],
    /// The size of a value.
    size: usize,
    out: &'a mut [T],
    log_sums: &'a mut [T],
}

impl<T: Real> NullaryFnOnce for Averages<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (i, log_sum) in self.log_sums.iter_mut().enumerate() {
            // A query without keys has weights of zero, here and on the way back.
            if self.largest[i] == T::NEG_INFINITY {
                *log_sum = T::INFINITY;
                continue;
            }
            *log_sum = self.largest[i].plus(self.sums[i].ln());
            let scale = T::ONE.over(self.sums[i]);
            for y in &mut self.out[i * self.size..(i + 1) * self.size] {
                *y = y.times(scale);
            }
        }
    }
}

/// Raises e to the scores of a row, less the largest, and returns the sum of these powers: that of
/// [`sum`], while each of them is in a register.
#[inline(always)]
fn raise_row<T: Real>(row: &mut [T], largest: T) -> T {
    let mut lanes = [T::ZERO; LANES];
    let (runs, rest) = row.as_chunks_mut::<LANES>();
    for run in runs {
        for (lane, score) in lanes.iter_mut().zip(run) {
            *score = score.minus(largest).power();
            *lane = lane.plus(*score);
        }
    }
    let mut total = folded(lanes, T::plus);
    for score in rest {
        *score = score.minus(largest).power();
        total = total.plus(*score);
    }
    total
}

/// The products of rows.
struct Dots<'a, T> {
    a: &'a [T],
    b: &'a [T],
    size: usize,
    out: &'a mut [T],
}

impl<T: Real> NullaryFnOnce for Dots<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        for (i, out) in self.out.iter_mut().enumerate() {
            let [a, b] = [self.a, self.b].map(|x| &x[i * self.size..(i + 1) * self.size]);
            *out = sum(
                a.len(),
                #[inline(always)]
                |j| a[j].times(b[j]),
            );
        }
    }
}

/// Computes the weights from scores, and the cotangents of scores from those of weights.
struct Slopes<'a, T> {
    weights: &'a mut [T],
    slopes: &'a mut [T],
    count: usize,
    log_sums: &'a [T],
    along: &'a [T],
    scale: T,
}

impl<T: Real> NullaryFnOnce for Slopes<'_, T> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let rows = self.weights.chunks_exact_mut(self.count);
        let rows = rows.zip(self.slopes.chunks_exact_mut(self.count));
        for (i, (weights, slopes)) in rows.enumerate() {
            let (log_sum, along) = (self.log_sums[i], self.along[i]);
            for (weight, slope) in weights.iter_mut().zip(slopes) {
                *weight = weight.minus(log_sum).power();
                let scaled = slope.minus(along).times(*weight).times(self.scale);
                // What is masked may be anything.
                *slope = if *weight == T::ZERO { T::ZERO } else { scaled };
            }
        }
    }
}

/// `[y, log sums]`; see [`crate::Device::attention`].
pub(super) fn attention(rule: Attention, x: [&Array; 3], mask: Option<&Array>) -> [Array; 2] {
    with_float!(x[0].dtype(), T => attention_of_floats::<T>(rule, x, mask))
}

/// The numbers of queries and of keys, and the sizes of a key and of a value.
fn sizes([query, key, value]: [&Array; 3]) -> [usize; 4] {
    let last = |x: &Array, i: usize| x.shape()[x.rank() - i];
    [last(query, 2), last(key, 2), last(query, 1), last(value, 1)]
}

fn attention_of_floats<T: Real>(
    rule: Attention,
    x: [&Array; 3],
    mask: Option<&Array>,
) -> [Array; 2] {
    let sizes = sizes(x);
    let [queries, keys, depth, size] = sizes;
    let shape = x[0].shape().replaced(x[0].rank() - 1, size);
    let of_sums = x[0].shape().replaced(x[0].rank() - 1, 1);
    let usable_x = x.map(usable);
    let inline = usable_x.each_ref().map(|x| x.inline());
    let operand = |i: usize| Operand::<T>::new(&usable_x[i], &inline[i]);
    let [query, key, value] = [0, 1, 2].map(operand);
    let mask = mask.map(usable);
    let inline_mask = mask.as_ref().and_then(|mask| mask.inline());
    let masks = Masks::<T>::new(mask.as_deref(), &inline_mask);
    let mut log_sums = list(T::INFINITY, of_sums.size());
    let y = Array::filled_by(shape, |out: &mut [T]| {
        if out.is_empty() {
            return;
        }
        let mut blocks = Vec::new();
        let heads = out.chunks_mut(queries * size);
        for (head, (out, sums)) in heads.zip(log_sums.chunks_mut(queries)).enumerate() {
            let parts = out.chunks_mut(QUERIES * size);
            for (i, part) in parts.zip(sums.chunks_mut(QUERIES)).enumerate() {
                blocks.push((head, i * QUERIES, part));
            }
        }
        if rule.causal {
            // Those of the most keys first, so that no thread waits for the last one.
            blocks.reverse();
        }
        let work = blocks.len() * QUERIES * keys * (depth + size + SPEED) / SPEED;
        for_each(
            chunks(&mut blocks, 1),
            worth_threads(work),
            1,
            &|_, block| {
                let (i, start, (out, log_sums)) = &mut block[0];
                let head = Head {
                    rule,
                    sizes,
                    query: query.matrix(*i),
                    key: key.matrix(*i),
                    value: value.matrix(*i),
                    mask: masks.of(*i),
                };
                head.attend(&(*start..*start + log_sums.len()), out, log_sums);
            },
        );
    });
    [y, Array::from_vec(log_sums, of_sums)]
}

/// As many parts of this length.
fn parts<T>(mut x: &mut [T], count: usize, len: usize) -> impl Iterator<Item = &mut [T]> {
    (0..count).map(move |_| {
        let (part, rest) = std::mem::take(&mut x).split_at_mut(len);
        x = rest;
        part
    })
}

/// The cotangents of queries, keys and values; see [`crate::Device::attention_gradient`].
pub(super) fn gradient(
    rule: Attention,
    x: [&Array; 3],
    mask: Option<&Array>,
    results: [&Array; 3],
) -> [Array; 3] {
    with_float!(x[0].dtype(), T => gradient_of_floats::<T>(rule, x, mask, results))
}

fn gradient_of_floats<T: Real>(
    rule: Attention,
    x: [&Array; 3],
    mask: Option<&Array>,
    results: [&Array; 3],
) -> [Array; 3] {
    let sizes = sizes(x);
    let [queries, keys, depth, size] = sizes;
    let usable_x = x.map(usable);
    let inline = usable_x.each_ref().map(|x| x.inline());
    let operand = |i: usize| Operand::<T>::new(&usable_x[i], &inline[i]);
    let [query, key, value] = [0, 1, 2].map(operand);
    let mask = mask.map(usable);
    let inline_mask = mask.as_ref().and_then(|mask| mask.inline());
    let masks = Masks::<T>::new(mask.as_deref(), &inline_mask);
    let results = results.map(Array::to_row_major);
    let [y, log_sums, gy] = results.each_ref().map(spread::<T>);
    let mut out = x.map(|x| list(T::ZERO, x.size()));
    {
        let count = log_sums.len() / queries.max(1);
        let [gqueries, gkeys, gvalues] = &mut out;
        let gqueries = parts(gqueries, count, queries * depth);
        let gkeys = parts(gkeys, count, keys * depth);
        let gvalues = parts(gvalues, count, keys * size);
        let mut heads: Vec<_> = gqueries.zip(gkeys.zip(gvalues)).collect();
        let work = heads.len() * queries * keys * (2 * depth + size + SPEED) / SPEED;
        for_each(chunks(&mut heads, 1), worth_threads(work), 1, &|i, head| {
            let (gquery, (gkey, gvalue)) = &mut head[0];
            let rows = |size: usize| i * queries * size..(i + 1) * queries * size;
            let head = Head {
                rule,
                sizes,
                query: query.matrix(i),
                key: key.matrix(i),
                value: value.matrix(i),
                mask: masks.of(i),
            };
            let results = Results {
                y: &y[rows(size)],
                log_sums: &log_sums[rows(1)],
                gy: &gy[rows(size)],
            };
            head.pull_back(&results, [gquery, gkey, gvalue]);
        });
    }
    let shapes = x.map(Array::shape);
    let mut shapes = shapes.into_iter();
    out.map(|out| Array::from_vec(out, shapes.next().expect("one for each")))
}
