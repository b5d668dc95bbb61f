//! The samples on a device other than the CPU.

use std::sync::Arc;

use bibun_array::{Device, cpu};
use test_device::Counting;

use super::{Check, Sample, every_one};
use crate::functions::{moved, to};

/// Runs a check on every sample on a device whose elements can only be read by moving them to the
/// CPU: inputs and results of the sample as a whole, and their derivatives.
pub(super) fn every_sample(check: Check) {
    let device = Counting::new(&["to"]);
    let samples: Vec<Sample> = (super::samples().iter())
        .map(|sample| on(device, sample))
        .collect();
    every_one(&samples, check);
}

/// Returns the sample with everything between its inputs and its results on a device.
fn on(device: &'static dyn Device, sample: &Sample) -> Sample {
    let call = Arc::clone(&sample.call);
    Sample {
        call: Arc::new(move |x| {
            let there: Vec<_> = x.iter().map(|x| to(x, device)).collect();
            let results = call(&there).into_iter();
            // Values without a known device are on every device, and results computed from them are
            // on the CPU.
            match there.iter().any(|x| x.known_device().is_some()) {
                true => results.map(|y| moved(y, device, cpu())).collect(),
                false => results.collect(),
            }
        }),
        ..sample.clone()
    }
}
