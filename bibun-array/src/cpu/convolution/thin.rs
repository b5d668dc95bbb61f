//! The weights of groups with one input channel and few output channels, in vectors of positions.

use std::ops::Range;

use pulp::{Arch, Simd, WithSimd};

use super::correlation::Correlation;
use super::memory::{Scratch, for_each_with, worth};
use crate::convolution::Convolution;
use crate::cpu::tile::{Float, dots};

/// The number of output channels up to which a group of one input channel is summed over positions.
const THIN: usize = 4;

/// Returns whether vectors of channels would stay almost empty.
pub(super) fn is_thin(convolution: &Convolution) -> bool {
    convolution.inputs == 1 && convolution.outputs <= THIN
}

impl Correlation {
    /// Computes the weights, `[parts, groups * outputs, 1, taps]`, of each part of the examples.
    pub(super) fn thin_weights<T: Float>(
        &self,
        n: usize,
        parts: usize,
        x: &[T],
        y: &[T],
        w: &mut [T],
    ) {
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
