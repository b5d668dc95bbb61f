//! Positions of extremes along one axis.

use std::marker::PhantomData;

use pulp::Simd;

use super::along::{Beside, advance};
use super::fold::Extreme;
use super::{BLOCK, LANES, Part, PartOf, Reducer};
use crate::cpu::is_plain;
use crate::storage::list;
use crate::{DType, Element};

/// The position of the extreme along one axis.
pub(super) struct Position<T, F>(PhantomData<(T, F)>);

/// The best value so far and its position, if there is one.
pub(super) type Best<T> = Option<(T, usize)>;

impl<T: Element, F: Extreme<T>> Reducer for Position<T, F> {
    type Input = T;
    type Total = Best<T>;
    type Output = i64;
    const EMPTY: Best<T> = None;
    const SELDOM: bool = matches!(T::DTYPE, DType::I64);

    #[inline(always)]
    fn take<S: Simd>(simd: S, part: PartOf<'_, Self>) {
        let Part {
            memory,
            plan,
            first,
            totals,
            from,
            count,
        } = part;
        let mut beside = Beside::default();
        // One axis makes one run.
        let (mut start_of_axis, mut axis_step) = (0, 0);
        plan.reduced.for_each_run(from, count, |_, start, step, _| {
            (start_of_axis, axis_step) = (start, step as usize);
        });
        plan.kept.for_each_run(
            first,
            totals.len(),
            #[inline(always)]
            |done, start, step, len| {
                let step = step as usize;
                let totals = &mut totals[done..done + len];
                let memory = &memory[start + start_of_axis..];
                if plan.across {
                    take_rows::<T, F>(memory, step, axis_step, from, count, totals);
                } else {
                    for (i, total) in totals.iter_mut().enumerate() {
                        let best = best_of_run::<S, T, F>(
                            simd,
                            &mut beside,
                            &memory[i * step..],
                            axis_step,
                            count,
                        );
                        *total = Self::merge(*total, best.map(|(x, at)| (x, at + from)));
                    }
                }
            },
        );
    }

    #[inline(always)]
    fn merge(a: Best<T>, b: Best<T>) -> Best<T> {
        match (a, b) {
            (Some((best, _)), Some((x, _))) if !F::beats(x, best) => a,
            (_, None) => a,
            (_, Some(_)) => b,
        }
    }
    fn finish(total: Best<T>, _repeats: usize) -> i64 {
        total.map_or(0, |(_, at)| at as i64)
    }
}

/// The best of `count` elements in steps of `step`.
#[inline(always)]
fn best_of_run<S: Simd, T: Element, F: Extreme<T>>(
    simd: S,
    beside: &mut Beside<T>,
    memory: &[T],
    step: usize,
    count: usize,
) -> Best<T> {
    let run = &memory[..(count - 1) * step + 1];
    if const { is_plain::<S>() } || count <= LANES {
        let (mut best, mut at) = (run[0], 0);
        for i in 1..count {
            let x = run[i * step];
            let beats = F::beats(x, best);
            best = if beats { x } else { best };
            at = if beats { i } else { at };
        }
        return Some((best, at));
    }
    let mut best: Best<T> = None;
    for (i, block) in run.chunks(BLOCK * step).enumerate() {
        let mut parts = [F::START; LANES];
        advance::<S, F>(
            simd,
            &mut parts,
            beside.one_another(block, step, block.len().div_ceil(step)),
            None,
        );
        let extreme = F::join_lanes(simd, parts);
        if best.is_none_or(|(best, _)| F::beats(extreme, best)) {
            best = Some((extreme, i));
        }
    }
    best.map(|(extreme, block)| {
        let candidates = &run[block * BLOCK * step..];
        let is_extreme = |x: T| F::is(x, extreme);
        // PERF: many neighbours are compared by one instruction.
        let passed = match step {
            1 => {
                let chunks = candidates.as_chunks::<LANES>().0;
                let holds =
                    |chunk: &[T; LANES]| chunk.iter().fold(false, |any, &x| any | is_extreme(x));
                chunks.iter().take_while(|chunk| !holds(chunk)).count() * LANES
            }
            _ => 0,
        };
        let mut rest = candidates[passed..].iter().step_by(step);
        let at = rest.position(|&x| is_extreme(x));
        let at = passed + at.expect("the extreme is one of them");
        (extreme, block * BLOCK + at)
    })
}

/// Takes `count` rows, `row_step` apart, into neighbouring results.
#[inline(always)]
fn take_rows<T: Element, F: Extreme<T>>(
    memory: &[T],
    step: usize,
    row_step: usize,
    from: usize,
    count: usize,
    totals: &mut [Best<T>],
) {
    // Positions of 32 bits, counted anew in each block of rows, because vectors hold more of them.
    let mut best = list(F::EMPTY, totals.len());
    let mut at = list(0u32, totals.len());
    let mut beside = Beside::default();
    for block in (0..count).step_by(u32::MAX as usize) {
        let memory = &memory[block * row_step..];
        for (best, &x) in best.iter_mut().zip(memory.iter().step_by(step)) {
            *best = x;
        }
        at.fill(0);
        for i in 1..(count - block).min(u32::MAX as usize) {
            let row = beside.one_another(&memory[i * row_step..], step, totals.len());
            for ((best, at), &x) in best.iter_mut().zip(&mut at).zip(row) {
                let beats = F::beats(x, *best);
                *best = if beats { x } else { *best };
                *at = if beats { i as u32 } else { *at };
            }
        }
        for (total, (&x, &at)) in totals.iter_mut().zip(best.iter().zip(&at)) {
            let found = Some((x, from + block + at as usize));
            *total = <Position<T, F> as Reducer>::merge(*total, found);
        }
    }
}
