//! Folds along memory: the elements of each result are distributed over [`LANES`] parts, which vector
//! instructions advance together.

use pulp::Simd;

use super::{BLOCK, Fold, LANES};
use crate::Element;
use crate::cpu::is_plain;
use crate::cpu::steps::Steps;
use crate::storage::{prefetch, prefetch_page};

/// The number of results that are folded on one walk over the elements.
const SIDE: usize = 8;

/// The number of lanes that take the last elements, if there are no more.
const HALF: usize = LANES / 2;

pub(super) type Parts<F> = [<F as Fold>::Part; LANES];

/// Takes `count` elements, from position `from` of the walk `reduced` on, into each result. The first
/// elements of results are `step` apart.
#[inline(always)]
pub(super) fn take<S: Simd, F: Fold>(
    simd: S,
    memory: &[F::Input],
    step: usize,
    reduced: &Steps,
    (from, count): (usize, usize),
    totals: &mut [F::Total],
) {
    let mut beside = Beside::default();
    let mut collected: Vec<[F::Total; LANES]> = Vec::new();
    for (i, totals) in totals.chunks_mut(SIDE).enumerate() {
        let mut parts = [[F::START; LANES]; SIDE];
        // The number of elements in the fullest part.
        let mut taken = 0;
        collected.clear();
        let mut last = None;
        for run in reduced.runs(from, count) {
            let apart = run.step as usize;
            // The next run is as far from this one as this one from the last.
            let ahead = Some(last.map_or(0, |last| run.start.wrapping_sub(last)));
            last = Some(run.start);
            let mut done = 0;
            while done < run.len {
                let mut len = run.len - done;
                if apart != 1 {
                    len = len.min(BLOCK);
                }
                if let Some(most) = F::RUN {
                    if taken == most {
                        collected.resize(totals.len(), [F::EMPTY; LANES]);
                        for (totals, parts) in collected.iter_mut().zip(&mut parts) {
                            collect::<F>(totals, parts);
                        }
                        taken = 0;
                    }
                    len = len.min((most - taken) * LANES);
                }
                for (result, parts) in (i * SIDE..).zip(&mut parts[..totals.len()]) {
                    let memory = &memory[result * step + run.start + done * apart..];
                    advance::<S, F>(simd, parts, beside.one_another(memory, apart, len), ahead);
                }
                done += len;
                taken += len.div_ceil(LANES);
            }
        }
        if collected.is_empty() {
            for (total, parts) in totals.iter_mut().zip(parts) {
                *total = F::collect(*total, F::join_lanes(simd, parts));
            }
        }
        for ((total, collected), parts) in totals.iter_mut().zip(&mut collected).zip(&mut parts) {
            collect::<F>(collected, parts);
            *total = F::merge(*total, F::merge_lanes(simd, *collected));
        }
    }
}

/// Takes neighbouring elements into a result, as [`take`] does.
#[inline(always)]
pub(super) fn take_row<S: Simd, F: Fold>(simd: S, row: &[F::Input], total: &mut F::Total) {
    let mut parts = [F::START; LANES];
    match F::RUN {
        Some(most) if row.len() > most * LANES => {
            let mut collected = [F::EMPTY; LANES];
            for run in row.chunks(most * LANES) {
                advance::<S, F>(simd, &mut parts, run, None);
                collect::<F>(&mut collected, &mut parts);
            }
            *total = F::merge(*total, F::merge_lanes(simd, collected));
        }
        _ => {
            advance::<S, F>(simd, &mut parts, row, None);
            *total = F::collect(*total, F::join_lanes(simd, parts));
        }
    }
}

/// Takes at most [`LANES`] neighbouring elements into each result, one after the other.
#[inline(always)]
pub(super) fn take_few<S: Simd, F: Fold>(
    memory: &[F::Input],
    step: usize,
    count: usize,
    totals: &mut [F::Total],
) {
    // Several results at a time, because each waits for its last element.
    let whole = match const { is_plain::<S>() } {
        true => 0,
        false => totals.len() / SIDE * SIDE,
    };
    let (sides, rest) = totals.split_at_mut(whole);
    let sides = sides.as_chunks_mut::<SIDE>().0;
    let done = sides.len() * SIDE;
    for (i, totals) in sides.iter_mut().enumerate() {
        let rows: [&[F::Input]; SIDE] =
            std::array::from_fn(|row| &memory[(i * SIDE + row) * step..][..count]);
        let mut parts = [F::START; SIDE];
        for at in 0..count {
            for (part, row) in parts.iter_mut().zip(rows) {
                *part = F::add(*part, row[at]);
            }
        }
        for (total, part) in totals.iter_mut().zip(parts) {
            *total = F::collect(*total, part);
        }
    }
    for (i, total) in rest.iter_mut().enumerate() {
        let elements = memory[(done + i) * step..][..count].iter();
        *total = F::collect(*total, elements.fold(F::START, |part, &x| F::add(part, x)));
    }
}

/// Distributes elements over the parts of a result, and asks for those that are so many elements behind them,
/// or else for the next page.
#[inline(always)]
pub(super) fn advance<S: Simd, F: Fold>(
    simd: S,
    parts: &mut Parts<F>,
    memory: &[F::Input],
    ahead: Option<usize>,
) {
    let (chunks, rest) = memory.as_chunks::<LANES>();
    if const { is_plain::<S>() } {
        for chunk in chunks.iter().map(|chunk| &chunk[..]).chain([rest]) {
            for (part, &x) in parts.iter_mut().zip(chunk) {
                *part = F::add(*part, x);
            }
        }
        return;
    }
    // PERF: a copy that is only indexed by constants stays in registers.
    let mut own = *parts;
    for chunk in chunks {
        match ahead {
            Some(ahead) => prefetch(chunk, ahead),
            None => prefetch_page(chunk),
        }
        F::add_lanes(simd, &mut own, chunk);
    }
    let padded = |few: &[F::Input]| {
        let mut padded = [F::NEUTRAL; HALF];
        padded[..few.len()].copy_from_slice(few);
        padded
    };
    match rest.split_first_chunk::<HALF>() {
        Some((half, few)) => {
            for lane in 0..HALF {
                own[lane] = F::add(own[lane], half[lane]);
            }
            if !few.is_empty() {
                let few = padded(few);
                for lane in 0..HALF {
                    own[HALF + lane] = F::add(own[HALF + lane], few[lane]);
                }
            }
        }
        None if !rest.is_empty() => {
            let few = padded(rest);
            for lane in 0..HALF {
                own[lane] = F::add(own[lane], few[lane]);
            }
        }
        None => {}
    }
    *parts = own;
}

/// Collects parts, which start anew.
#[inline(always)]
fn collect<F: Fold>(totals: &mut [F::Total; LANES], parts: &mut Parts<F>) {
    for lane in 0..LANES {
        totals[lane] = F::collect(totals[lane], parts[lane]);
    }
    *parts = [F::START; LANES];
}

/// Moves elements together that are apart, so that only contiguous vectors are processed.
#[derive(Default)]
pub(super) struct Beside<T>(Vec<T>);

impl<T: Element> Beside<T> {
    /// `count` elements in steps of `step`.
    #[inline(always)]
    pub(super) fn one_another<'a>(
        &'a mut self,
        memory: &'a [T],
        step: usize,
        count: usize,
    ) -> &'a [T] {
        match step {
            1 => &memory[..count],
            _ => self.copied(memory, step, count),
        }
    }

    /// Compiled once for all folds.
    #[inline(never)]
    fn copied(&mut self, memory: &[T], step: usize, count: usize) -> &[T] {
        self.0.resize(count, memory[(count - 1) * step]);
        let (last, others) = self.0.split_last_mut().expect("a run has elements");
        for (y, x) in others.iter_mut().zip(memory.chunks_exact(step)) {
            *y = x[0];
        }
        *last = memory[(count - 1) * step];
        &self.0
    }
}
