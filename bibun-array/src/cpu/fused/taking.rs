//! A pass whose results take the place of inputs that nobody else holds.

use smallvec::SmallVec;

use super::super::elementwise::{Input, PARALLEL, RUN, Scratch, Source};
use super::super::threads::for_each;
use super::{Access, CODE_RUN, Computed, Fused, Parts, input};
use crate::storage::Buffer;
use crate::waiting::shared;
use crate::{Array, Slice, SliceMut};

impl Fused {
    /// Computes the outputs as [`run`](Self::run) does, in the memory of inputs where it can be taken.
    pub(crate) fn run_taking(&self, mut inputs: Vec<Array>) -> Vec<Array> {
        // Rows are read where they lie, and a single element is in no memory.
        if self.size == 1 || self.row.is_some() {
            return self.run(&inputs);
        }
        let homes = self.homes(&mut inputs);
        if homes.iter().all(Option::is_none) {
            return self.run(&inputs);
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
                len: PARALLEL / 4,
                size: self.size,
            };
            let threads = self.size >= PARALLEL && rayon::current_num_threads() > 1;
            for_each(parts, threads, 1, &|i, mut outs| {
                self.fill_taking(i * (PARALLEL / 4), &sources, &homes, &mut outs);
            });
        });
        made
    }

    /// The input whose memory becomes that of each result, if there is one. Each is read from its first
    /// element to its last, so what a block needs of it is where the block of the result will be.
    fn homes(&self, inputs: &mut [Array]) -> Vec<Option<usize>> {
        let mut homes: Vec<Option<usize>> = Vec::with_capacity(self.outputs.len());
        for (dtype, _) in &self.outputs {
            let home = (0..inputs.len()).find(|&i| {
                let (own, access) = &self.inputs[i];
                let is_whole = own == dtype
                    && matches!(access, Access::Direct)
                    && inputs[i].layout().offset == 0
                    && !homes.contains(&Some(i));
                let buffer = inputs[i].unique_buffer().filter(|_| is_whole);
                buffer.is_some_and(|buffer| buffer.as_run().len() == self.size)
            });
            homes.push(home);
        }
        homes
    }

    /// Fills the part of the results that starts at `start` in memory order. A block of what is taken is
    /// copied before results are written over it.
    fn fill_taking(
        &self,
        start: usize,
        inputs: &[Input<'_>],
        homes: &[Option<usize>],
        outs: &mut [SliceMut<'_>],
    ) {
        let run = match &self.computed {
            Computed::Code(_) => CODE_RUN,
            Computed::Loops(_) => RUN,
        };
        let len = outs[0].len();
        let home = |i: usize| homes.iter().position(|home| *home == Some(i));
        let mut scratch: SmallVec<[Scratch; 8]> = (inputs.iter().zip(&self.inputs))
            .map(|(input, (_, access))| match self.takes_one(access) {
                true => input.scratch(0),
                false => input.scratch(run.min(len)),
            })
            .collect();
        for done in (0..len).step_by(run) {
            let (position, len) = (start + done, run.min(len - done));
            let mut block: SmallVec<[SliceMut<'_>; 4]> =
                outs.iter_mut().map(|out| out.range(done, len)).collect();
            for (i, (input, scratch)) in inputs.iter().zip(&mut scratch).enumerate() {
                let own = block[home(i).unwrap_or(0)].as_slice();
                input.bring(position, own, scratch);
            }
            let slices: SmallVec<[Slice<'_>; 8]> = (inputs.iter().zip(&self.inputs))
                .zip(&scratch)
                .map(|((input, (_, access)), scratch)| match &input.source {
                    Source::Repeat(element) if self.takes_one(access) => Slice::of_scalar(element),
                    _ => input.run(position, len, scratch),
                })
                .collect();
            match &self.computed {
                Computed::Code(code) => code.run(&slices, &mut block),
                Computed::Loops(interpreter) => interpreter.run(&slices, &mut block),
            }
        }
    }
}
