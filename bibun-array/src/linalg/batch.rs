//! The same computation for every matrix of a batch.

use std::mem::{size_of, take};

use pulp::{Arch, NullaryFnOnce};
use smallvec::SmallVec;

use super::numbers::{GROUP, Group, Numbers, Real};
use crate::cpu::Float;
use crate::cpu::threads::{Chunks, for_each_run};
use crate::waiting::shared;
use crate::{Array, DType, Shape, cpu, in_row_major_memory, record_call};

/// The work, in operations, from which on threads share it.
const WORK: usize = 1 << 16;
/// The order of matrices up to which our own loops are used, for several matrices at once.
pub(super) const TINY: usize = 16;

type List<T> = SmallVec<[T; 4]>;

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
    /// Computes the results of one matrix or of a group. Results are zeros at first, the memory is not.
    fn compute<V: Numbers>(&self, x: &[&[V]], y: &mut [&mut [V]]);
    /// Computes the integers, and what depends on them, after `compute`.
    fn finish<T: Real>(&self, _y: &mut [&mut [T]], _integers: &mut [&mut [i64]]) {}
    /// Does both for one large matrix, perhaps on several threads.
    fn large<T: Large>(&self, x: &[&[T]], y: &mut [&mut [T]], integers: &mut [&mut [i64]]) {
        let mut memory = vec![T::of(0.0); self.memory()];
        {
            let mut y: List<&mut [T]> = y.iter_mut().map(|y| &mut **y).collect();
            y.push(&mut memory);
            Arch::new().dispatch(Compute(self, x, &mut y));
        }
        let mut y: List<&mut [T]> = y.iter_mut().map(|y| &mut **y).collect();
        y.push(&mut memory);
        self.finish(&mut y, integers);
    }
}

/// A number for which there are large matrices.
#[cfg(feature = "linalg")]
pub(super) trait Large: Real + Float + faer::traits::RealField {}
#[cfg(feature = "linalg")]
impl<T: Real + Float + faer::traits::RealField> Large for T {}
#[cfg(not(feature = "linalg"))]
pub(super) trait Large: Real + Float {}
#[cfg(not(feature = "linalg"))]
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
    // A repeated value is on every device.
    let device = inputs.iter().map(|x| x.device());
    let device = device.clone().find(|&x| x != cpu()).unwrap_or(cpu());
    let (name, count) = (rule.name(), batch.size());
    let all = specs.clone();
    let work = move |x: Vec<Array>| {
        let x = x.into_iter().map(|x| in_row_major_memory(x.to(cpu())));
        let x: List<Array> = x.collect();
        let y = match dtype == DType::F32 {
            true => computed::<f32, R>(&rule, count, &x, &all),
            false => computed::<f64, R>(&rule, count, &x, &all),
        };
        y.into_iter().map(|y| y.to(device)).collect()
    };
    let inputs: Vec<Array> = inputs.iter().map(|&x| x.clone()).collect();
    record_call(name, &inputs, &specs, work)
}

fn computed<T: Large, R: Rule>(
    rule: &R,
    count: usize,
    x: &[Array],
    specs: &[(Shape, DType)],
) -> Vec<Array> {
    let mut y: Vec<Array> = (specs.iter())
        .map(|(shape, dtype)| Array::zeros(shape, *dtype))
        .collect();
    if count == 0 {
        return y;
    }
    let x: List<&[T]> = (x.iter())
        .map(|x| x.as_slice::<T>().expect("a row-major array on the CPU"))
        .collect();
    let group = match rule.is_tiny() {
        true => GROUP,
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
            Arch::new().dispatch(Run(rule, &x, count, first * group, run));
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

/// Takes the results of the next matrix.
fn next<'a, T>(lists: &mut [(&'a mut [T], usize)]) -> List<&'a mut [T]> {
    let taken = lists.iter_mut().map(|(memory, each)| {
        let (own, rest) = take(memory).split_at_mut(*each);
        *memory = rest;
        own
    });
    taken.collect()
}

struct Compute<'a, 'b, R, V>(&'a R, &'a [&'a [V]], &'a mut [&'b mut [V]]);

impl<R: Rule, V: Numbers> NullaryFnOnce for Compute<'_, '_, R, V> {
    type Output = ();
    #[inline(always)]
    fn call(self) {
        self.0.compute(self.1, self.2);
    }
}

struct Run<'a, 'b, T, R>(&'a R, &'a [&'a [T]], usize, usize, Places<'b, T>);

impl<T: Large, R: Rule> NullaryFnOnce for Run<'_, '_, T, R> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        let Self(rule, x, total, first, mut run) = self;
        let lengths: List<usize> = x.iter().map(|x| x.len() / total).collect();
        let memory = rule.memory();
        let mut i = first;
        let end = first + run.count;
        if rule.is_tiny() && end - i >= GROUP {
            let total: usize = lengths.iter().sum();
            let mut grouped = vec![Group::<T>::of(0.0); total];
            let sizes: List<usize> = run.floats.iter().map(|&(_, each)| each).collect();
            let mut results = vec![Group::<T>::of(0.0); sizes.iter().sum::<usize>() + memory];
            let mut scratch = vec![T::of(0.0); memory];
            while end - i >= GROUP {
                let mut at = 0;
                for (x, &length) in x.iter().zip(&lengths) {
                    interleave(&x[i * length..], length, &mut grouped[at..][..length]);
                    at += length;
                }
                let inputs = parts(&grouped, &lengths);
                results.fill(Group::of(0.0));
                {
                    let mut y = parts_mut(&mut results, &sizes, memory);
                    rule.compute(&inputs, &mut y);
                }
                for lane in 0..GROUP {
                    let taken = next(&mut run.floats).into_iter();
                    let mut floats: List<&mut [T]> = taken.map(|y| -> &mut [T] { y }).collect();
                    let mut integers = next(&mut run.integers);
                    let mut at = 0;
                    floats.push(&mut scratch);
                    for y in &mut floats {
                        let from = &results[at..][..y.len()];
                        for (y, from) in y.iter_mut().zip(from) {
                            *y = from.0[lane];
                        }
                        at += y.len();
                    }
                    rule.finish(&mut floats, &mut integers);
                }
                i += GROUP;
            }
        }
        let mut scratch = vec![T::of(0.0); memory];
        while i < end {
            let inputs: List<&[T]> = (x.iter().zip(&lengths))
                .map(|(x, &length)| &x[i * length..][..length])
                .collect();
            let taken = next(&mut run.floats).into_iter();
            let mut floats: List<&mut [T]> = taken.map(|y| -> &mut [T] { y }).collect();
            let mut integers = next(&mut run.integers);
            match rule.is_tiny() {
                true => {
                    floats.push(&mut scratch);
                    rule.compute(&inputs, &mut floats);
                    rule.finish(&mut floats, &mut integers);
                }
                false => rule.large(&inputs, &mut floats, &mut integers),
            }
            i += 1;
        }
    }
}

/// Puts elements of neighbouring matrices side by side.
#[inline(always)]
fn interleave<T: Real>(x: &[T], length: usize, out: &mut [Group<T>]) {
    debug_assert!(size_of::<Group<T>>() >= GROUP * size_of::<T>());
    for lane in 0..GROUP {
        for (out, &x) in out.iter_mut().zip(&x[lane * length..][..length]) {
            out.0[lane] = x;
        }
    }
}

fn parts<'a, V>(mut all: &'a [V], lengths: &[usize]) -> List<&'a [V]> {
    let mut list = List::new();
    for &length in lengths {
        let (own, rest) = all.split_at(length);
        list.push(own);
        all = rest;
    }
    list
}

fn parts_mut<'a, V>(mut all: &'a mut [V], sizes: &[usize], memory: usize) -> List<&'a mut [V]> {
    let mut list = List::new();
    for &length in sizes.iter().chain([&memory]) {
        let (own, rest) = all.split_at_mut(length);
        list.push(own);
        all = rest;
    }
    list
}
