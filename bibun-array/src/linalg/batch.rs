//! The same computation for every matrix of a batch.

use std::array;
use std::mem::take;

use pulp::{Arch, NullaryFnOnce, Simd, WithSimd};
use smallvec::SmallVec;

use super::numbers::{Group, Numbers, Real};
use crate::cpu::Float;
use crate::cpu::threads::{Chunks, for_each_run};
use crate::cpu::tile::transposed;
use crate::placement::on_cpu;
use crate::waiting::shared;
use crate::{Array, DType, Shape, cpu, in_row_major_memory};

/// The work, in operations, from which on threads share it.
const WORK: usize = 1 << 16;
/// The order up to which the matrices of a batch are computed together, several at once.
pub const TINY: usize = 16;

/// The most inputs or results of a rule, with its memory.
const PARTS: usize = 6;

type List<T> = SmallVec<[T; PARTS]>;

/// What a rule computes of each matrix: the shapes of floats, and of integers.
#[derive(Clone, Debug, Default)]
pub(super) struct Results {
    pub(super) floats: Vec<Vec<usize>>,
    pub(super) integers: Vec<Vec<usize>>,
}

impl Results {
    pub(super) fn new<const F: usize, const I: usize>(
        floats: [Vec<usize>; F],
        integers: [Vec<usize>; I],
    ) -> Self {
        Self {
            floats: floats.to_vec(),
            integers: integers.to_vec(),
        }
    }
}

/// A computation of matrices (and of vectors that belong to them), whose inputs and results are row-major.
pub(super) trait Rule: Clone + Send + Sync + 'static {
    fn name(&self) -> &'static str;
    /// The number of axes of each input that are not of the batch.
    fn ranks(&self) -> &[usize];
    fn results(&self) -> Results;
    /// The number of operations, roughly.
    fn work(&self) -> usize;
    /// Whether matrices are small enough to be computed in groups.
    fn is_tiny(&self) -> bool;
    /// The length of further memory for `compute`, which is the last of its results.
    fn memory(&self) -> usize {
        0
    }
    /// The place, of those that `compute` is given, at whose beginning the first input is put, which it is not given
    /// then.
    const IN_PLACE: Option<usize> = None;
    /// Computes the results of one matrix or of a group: floats, integers as numbers, and the memory. Floats are
    /// zeros at first, the others are not.
    fn compute<V: Numbers>(&self, x: &[&[V]], y: &mut [&mut [V]]);
    /// Does so for one large matrix, perhaps on several threads.
    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], integers: &mut [&mut [i64]]) {
        let count: usize = integers.iter().map(|own| own.len()).sum();
        let mut numbers = vec![T::of(0.0); count];
        let mut memory = vec![T::of(0.0); self.memory()];
        let lengths: List<usize> = integers.iter().map(|own| own.len()).collect();
        let mut y: List<&mut [T]> = y.iter_mut().map(|y| &mut **y).collect();
        let parts = parts_mut(&mut numbers, &lengths).into_iter();
        y.extend(parts.take(lengths.len()));
        y.push(&mut memory);
        let x = put_in_place::<T, Self>(x, &mut y);
        Arch::new().dispatch(Compute(self, x, &mut y));
        drop(y);
        let mut numbers = numbers.iter();
        for integers in integers {
            to_integers(numbers.by_ref(), integers);
        }
    }
}

/// A number for which there are large matrices.
pub(super) trait Large: Real + Float {}
impl<T: Real + Float> Large for T {}

/// Runs a rule for all matrices of arrays that have the same axes in front, and are all f32 or all f64.
#[track_caller]
pub(super) fn run<R: Rule>(rule: R, inputs: &[&Array]) -> Vec<Array> {
    let first = inputs[0];
    let batch: Shape = (first.shape()[..first.rank() - rule.ranks()[0]].iter())
        .copied()
        .collect();
    let dtype = first.dtype();
    let Results { floats, integers } = rule.results();
    let whole = |own: &Vec<usize>| -> Shape { batch.iter().chain(own).copied().collect() };
    let floats = floats.iter().map(|own| (whole(own), dtype));
    let integers = integers.iter().map(|own| (whole(own), DType::I64));
    let specs: Vec<(Shape, DType)> = floats.chain(integers).collect();
    let (name, count) = (rule.name(), batch.size());
    let all = specs.clone();
    let work = move |x: &[Array]| {
        let x: List<Array> = x.iter().cloned().map(in_row_major_memory).collect();
        match dtype == DType::F32 {
            true => computed::<f32, R, 16>(&rule, count, &x, &all),
            false => computed::<f64, R, 8>(&rule, count, &x, &all),
        }
    };
    on_cpu(name, inputs, &specs, work)
}

/// Computes in groups of N matrices, if they are small.
fn computed<T: Large, R: Rule, const N: usize>(
    rule: &R,
    count: usize,
    x: &[Array],
    specs: &[(Shape, DType)],
) -> Vec<Array> {
    let mut y: Vec<Array> = (specs.iter())
        .map(|(shape, dtype)| cpu().empty(shape, *dtype))
        .collect();
    if count == 0 {
        return y;
    }
    let x: List<&[T]> = (x.iter())
        .map(|x| x.as_slice::<T>().expect("a row-major array on the CPU"))
        .collect();
    let group = match rule.is_tiny() {
        true => N,
        false => 1,
    };
    let (mut floats, mut integers) = (List::new(), List::new());
    for y in &mut y {
        let each = y.size() / count;
        match y.dtype() == DType::I64 {
            true => integers.push((y.as_mut_slice::<i64>(), each)),
            false => floats.push((y.as_mut_slice::<T>(), each)),
        }
    }
    let run = Places {
        count,
        group,
        floats,
        integers,
    };
    let groups = run.count();
    let each = group * rule.work();
    let threads = groups > 1 && groups * each > WORK;
    shared(|| {
        for_each_run(run, threads, (WORK / each.max(1)).max(1), &|first, run| {
            Arch::new().dispatch(Run::<T, R, N>(rule, &x, count, first * group, run));
        });
    });
    y
}

/// The results of some neighbouring matrices, in groups.
struct Places<'a, T> {
    count: usize,
    group: usize,
    floats: List<(&'a mut [T], usize)>,
    integers: List<(&'a mut [i64], usize)>,
}

impl<T: Send> Chunks for Places<'_, T> {
    type Chunk = Self;
    fn count(&self) -> usize {
        self.count.div_ceil(self.group)
    }
    fn split(self, count: usize) -> (Self, Self) {
        let count = (count * self.group).min(self.count);
        let (mut left, mut right) = ((List::new(), List::new()), (List::new(), List::new()));
        for (memory, each) in self.floats {
            let (a, b) = memory.split_at_mut(count * each);
            left.0.push((a, each));
            right.0.push((b, each));
        }
        for (memory, each) in self.integers {
            let (a, b) = memory.split_at_mut(count * each);
            left.1.push((a, each));
            right.1.push((b, each));
        }
        let of = |count, (floats, integers)| Self {
            count,
            group: self.group,
            floats,
            integers,
        };
        (of(count, left), of(self.count - count, right))
    }
    fn one(self) -> Self {
        self
    }
}

/// Takes the first elements of memory.
fn taken<'a, T>(memory: &mut &'a mut [T], count: usize) -> &'a mut [T] {
    let (own, rest) = take(memory).split_at_mut(count);
    *memory = rest;
    own
}

impl<'a, T: Real> Places<'a, T> {
    /// Takes the places of the next matrix, with zeros in them.
    fn next(&mut self) -> (List<&'a mut [T]>, List<&'a mut [i64]>) {
        let floats = (self.floats.iter_mut()).map(|(memory, each)| taken(memory, *each));
        let mut floats: List<&mut [T]> = floats.collect();
        floats.iter_mut().for_each(|own| own.fill(T::of(0.0)));
        let integers = (self.integers.iter_mut()).map(|(memory, each)| taken(memory, *each));
        let mut integers: List<&mut [i64]> = integers.collect();
        integers.iter_mut().for_each(|own| own.fill(0));
        (floats, integers)
    }

    /// Writes the results of a group.
    #[inline(always)]
    fn take_group<S: Simd, const N: usize>(&mut self, simd: S, mut results: &[Group<T, N>])
    where
        T: Float,
    {
        for (memory, each) in &mut self.floats {
            let own = taken(memory, N * *each);
            separate(simd, &results[..*each], own);
            results = &results[*each..];
        }
        for (memory, each) in &mut self.integers {
            let own = taken(memory, N * *each);
            for (lane, own) in own.chunks_exact_mut((*each).max(1)).enumerate() {
                to_integers(results.iter().map(|x| &x.0[lane]), own);
            }
            results = &results[*each..];
        }
    }
}

struct Compute<'a, 'b, R, V>(&'a R, &'a [&'a [V]], &'a mut [&'b mut [V]]);

impl<R: Rule, V: Numbers> NullaryFnOnce for Compute<'_, '_, R, V> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        self.0.compute(self.1, self.2);
    }
}

/// Writes integers that were computed as numbers.
#[inline(always)]
fn to_integers<'a, T: Real>(numbers: impl Iterator<Item = &'a T>, out: &mut [i64]) {
    for (out, x) in out.iter_mut().zip(numbers) {
        *out = x.to_f64() as i64;
    }
}

struct Run<'a, 'b, T, R, const N: usize>(&'a R, &'a [&'a [T]], usize, usize, Places<'b, T>);

impl<'a, T: Large, R: Rule, const N: usize> WithSimd for Run<'a, '_, T, R, N> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self(rule, x, total, first, mut run) = self;
        let lengths: List<usize> = x.iter().map(|x| x.len() / total).collect();
        let inputs = |i: usize| -> List<&[T]> {
            let own = |(x, &length): (&&'a [T], &usize)| &x[i * length..][..length];
            x.iter().zip(&lengths).map(own).collect()
        };
        let end = first + run.count;
        if !rule.is_tiny() {
            for i in first..end {
                let (mut floats, mut integers) = run.next();
                rule.large(&inputs(i), &mut floats, &mut integers);
            }
            return;
        }
        let floats: usize = run.floats.iter().map(|&(_, each)| each).sum();
        let numbers: usize = run.integers.iter().map(|&(_, each)| each).sum();
        let sizes: List<usize> = (run.floats.iter().map(|&(_, each)| each))
            .chain(run.integers.iter().map(|&(_, each)| each))
            .chain([rule.memory()])
            .collect();
        let count = floats + numbers + rule.memory();
        let mut i = first;
        if end - i >= N {
            let mut grouped = vec![Group::<T, N>::of(0.0); lengths.iter().sum()];
            let mut results = vec![Group::<T, N>::of(0.0); count];
            while end - i >= N {
                results[..floats].fill(Group::of(0.0));
                {
                    let mut y = parts_mut(&mut results, &sizes);
                    let mut at = 0;
                    for (k, (x, &length)) in x.iter().zip(&lengths).enumerate() {
                        let place = match R::IN_PLACE {
                            Some(place) if k == 0 => &mut *y[place],
                            _ => &mut grouped[at..],
                        };
                        interleave(simd, &x[i * length..], length, place);
                        at += length;
                    }
                    let given = parts(&grouped, &lengths);
                    let given = &given[R::IN_PLACE.map_or(0, |_| 1)..x.len()];
                    rule.compute(given, &mut y[..sizes.len()]);
                }
                run.take_group(simd, &results);
                i += N;
            }
        }
        let mut further = vec![T::of(0.0); count - floats];
        for i in i..end {
            let (floats, mut integers) = run.next();
            let rest = parts_mut(&mut further, &sizes[floats.len()..]).into_iter();
            let mut y: List<&mut [T]> = floats.into_iter().map(|y| -> &mut [T] { y }).collect();
            y.extend(rest.take(sizes.len() - y.len()));
            rule.compute(put_in_place::<T, R>(&inputs(i), &mut y), &mut y);
            drop(y);
            let mut numbers = further.iter();
            for integers in &mut integers {
                to_integers(numbers.by_ref(), integers);
            }
        }
    }
}

/// Puts the first input of one matrix in its place, if it has one, and returns the other inputs.
#[inline(always)]
fn put_in_place<'a, 'b, T: Copy, R: Rule>(x: &'a [&'b [T]], y: &mut [&mut [T]]) -> &'a [&'b [T]] {
    match R::IN_PLACE {
        None => x,
        Some(place) => {
            y[place][..x[0].len()].copy_from_slice(x[0]);
            &x[1..]
        }
    }
}

/// Puts elements of neighbouring matrices side by side.
#[inline(always)]
fn interleave<S: Simd, T: Float, const N: usize>(
    simd: S,
    x: &[T],
    length: usize,
    out: &mut [Group<T, N>],
) {
    let out = &mut out[..length];
    let lanes = T::lanes::<S>();
    for first in (0..N).step_by(lanes) {
        let x = &x[first * length..][..lanes * length];
        for i in squares(length, lanes) {
            let square = transposed::<S, T>(simd, |row| &x[row * length + i..]);
            for (out, &vector) in out[i..].iter_mut().zip(&square[..lanes]) {
                T::store::<S>(&mut out.0[first..], vector);
            }
        }
        if length < lanes {
            for (i, out) in out.iter_mut().enumerate() {
                for lane in 0..lanes {
                    out.0[first + lane] = x[lane * length + i];
                }
            }
        }
    }
}

/// Writes elements of neighbouring matrices that are side by side one matrix after the other.
#[inline(always)]
fn separate<S: Simd, T: Float, const N: usize>(simd: S, x: &[Group<T, N>], out: &mut [T]) {
    let (lanes, length) = (T::lanes::<S>(), x.len());
    for first in (0..N).step_by(lanes) {
        let out = &mut out[first * length..][..lanes * length];
        for i in squares(length, lanes) {
            let square = transposed::<S, T>(simd, |row| &x[i + row].0[first..]);
            for (row, &vector) in square[..lanes].iter().enumerate() {
                T::store::<S>(&mut out[row * length + i..], vector);
            }
        }
        if length < lanes {
            for (i, x) in x.iter().enumerate() {
                for lane in 0..lanes {
                    out[lane * length + i] = x.0[first + lane];
                }
            }
        }
    }
}

/// The places at which squares begin that cover a length. The last one overlaps the one before.
fn squares(length: usize, lanes: usize) -> impl Iterator<Item = usize> {
    let count = if length < lanes {
        0
    } else {
        length.div_ceil(lanes)
    };
    (0..count).map(move |i| (i * lanes).min(length - lanes))
}

/// Returns the parts of memory that have these lengths, at most [`PARTS`].
#[inline(always)]
fn parts<'a, V>(mut all: &'a [V], lengths: &[usize]) -> [&'a [V]; PARTS] {
    array::from_fn(|i| {
        let (own, rest) = all.split_at(lengths.get(i).copied().unwrap_or(0));
        all = rest;
        own
    })
}

#[inline(always)]
fn parts_mut<'a, V>(mut all: &'a mut [V], lengths: &[usize]) -> [&'a mut [V]; PARTS] {
    array::from_fn(|i| taken(&mut all, lengths.get(i).copied().unwrap_or(0)))
}
