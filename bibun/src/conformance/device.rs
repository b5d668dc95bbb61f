//! The samples on another device than the CPU.

use std::sync::Arc;

use bibun_array::{Device, cpu};
use test_device::Counting;

use super::{Check, Sample, every_one};
use crate::functions::{moved, to};

/// Puts every sample through a check, on a device that shows its elements to nobody but to whoever
/// moves them to the CPU: inputs and results of the sample as a whole, and their derivatives.
pub(super) fn every_sample(check: Check) {
    let device = Counting::new(&["to"]);
    let samples: Vec<Sample> = (crate::functions::samples().iter())
        .map(|sample| on(device, sample))
        .collect();
    every_one(&samples, check);
}

/// The sample with everything between its inputs and its results on a device.
fn on(device: &'static dyn Device, sample: &Sample) -> Sample {
    let call = Arc::clone(&sample.call);
    Sample {
        call: Arc::new(move |x| {
            let there: Vec<_> = x.iter().map(|x| to(x, device)).collect();
            let results = call(&there).into_iter();
            // What comes of values that are everywhere is computed on the CPU.
            match there.iter().any(|x| x.known_device().is_some()) {
                true => results.map(|y| moved(y, device, cpu())).collect(),
                false => results.collect(),
            }
        }),
        ..sample.clone()
    }
}
