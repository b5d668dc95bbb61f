//! A pass whose results take the place of inputs that nobody else holds.

use smallvec::SmallVec;

use super::super::elementwise::{Input, Source, sharing};
use super::super::threads::{Chunks, for_each_run};
use super::{Access, Computed, Fused, PART, Parts, input};
use crate::Array;
use crate::storage::Buffer;
use crate::waiting::shared;

impl Fused {
    /// Computes the outputs as [`run`](Self::run) does, in the memory of inputs where it can be taken.
    pub(crate) fn run_taking(&self, inputs: &mut [Array]) -> Vec<Array> {
        if !inputs.iter_mut().any(|x| x.unique_buffer().is_some()) || !self.can_take() {
            return self.run(inputs);
        }
        let homes = self.homes(inputs);
        if homes.iter().all(Option::is_none) {
            return self.run(inputs);
        }
        let outputs = self.outputs.iter().zip(&homes);
        let made = outputs.map(|((dtype, layout), home)| match home {
            None => Array::of_buffer(Buffer::of(*dtype, self.size), layout.clone()),
            Some(i) => {
                let placeholder = Array::zeros((), *dtype);
                let taken = std::mem::replace(&mut inputs[*i], placeholder);
                taken.with_layout(layout.clone())
            }
        });
        let mut made: Vec<Array> = made.collect();
        shared(|| {
            let sources: SmallVec<[Input<'_>; 8]> = (inputs.iter().zip(&self.inputs).enumerate())
                .map(|(i, (x, (dtype, access)))| match homes.contains(&Some(i)) {
                    true => input(*dtype, Source::Result, 0),
                    false => input(*dtype, self.source(x, access), 0),
                })
                .collect();
            let outs = made.iter_mut().map(|y| {
                let buffer = y.unique_buffer().expect("it is new, or was the only one");
                buffer.as_mut_run()
            });
            let parts = Parts {
                outs: outs.collect(),
                len: PART,
                size: self.size,
            };
            for_each_run(parts, sharing(self.size), 1, &|first, run| {
                self.fill_blocks(first * PART, &sources, &homes, &mut run.one());
            });
        });
        made
    }

    /// The input whose memory becomes that of each result, if there is one. Each is read from its first
    /// element to its last, so what a block needs of it is where the block of the result will be.
    fn homes(&self, inputs: &mut [Array]) -> Vec<Option<usize>> {
        let mut candidates: Vec<(usize, Vec<usize>)> = (self.outputs.iter().enumerate())
            .map(|(output, (dtype, _))| {
                let all = 0..inputs.len();
                let fitting = all.filter(|&i| {
                    let (own, access) = &self.inputs[i];
                    let is_whole = own == dtype
                        && matches!(access, Access::Direct)
                        && inputs[i].layout().offset == 0
                        && self.may_take(output, i);
                    let buffer = inputs[i].unique_buffer().filter(|_| is_whole);
                    buffer.is_some_and(|buffer| buffer.as_run().len() == self.size)
                });
                (output, fitting.collect())
            })
            .collect();
        // Those that have the fewest to choose from come first.
        candidates.sort_by_key(|(_, fitting)| fitting.len());
        let mut homes: Vec<Option<usize>> = vec![None; self.outputs.len()];
        for (output, fitting) in candidates {
            homes[output] = fitting.into_iter().find(|&i| !homes.contains(&Some(i)));
        }
        homes
    }

    /// Whether a result may be written to the memory of some input. Rows are read where they lie, and a single
    /// element is in no memory.
    pub(crate) fn can_take(&self) -> bool {
        let is_direct = |i: usize| matches!(self.inputs[i].1, Access::Direct);
        let may_take = |output: usize| {
            (0..self.inputs.len()).any(|i| is_direct(i) && self.may_take(output, i))
        };
        self.size > 1 && self.row.is_none() && (0..self.outputs.len()).any(may_take)
    }

    /// Whether a result may be written to the memory of an input while it is computed. Loops copy a block of
    /// the input first.
    fn may_take(&self, output: usize, input: usize) -> bool {
        match &self.computed {
            Computed::Code(code) if !self.gathers() => code.may_take(output, input, self.size),
            Computed::Code(_) | Computed::Loops(_) => true,
        }
    }
}
