//! The patches of an input: the elements that a kernel reads at each position.

use pulp::{Arch, Simd, WithSimd};

use super::dense;
use super::gradient::Gradient;
use super::memory::{Scratch, Unit, copy, for_each_with, lanes, worth};
use crate::Array;
use crate::convolution::Convolution;
use crate::cpu::tile::Float;
use crate::dtype::with_float;

/// See [`crate::Device::patches`].
pub(in crate::cpu) fn patches(convolution: &Convolution, x: &Array) -> Array {
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
