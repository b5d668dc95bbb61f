//! The conformance test: one table of samples, and every check for every function.
//!
//! Each test here is one check. It goes through all samples of all functions and reports all
//! failures, so that one run shows the state of the whole library.

mod checks;
mod costs;
mod device;
mod draw;
mod edges;
mod misfits;
mod sample;
mod wrong;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) use draw::Draw;
pub(crate) use sample::{Sample, beside};

/// The result of a check of a sample: nothing, or a description of the error.
type Verdict = Result<(), String>;

/// Returns the verdict on one sample; a panic is a failure like any other.
fn verdict(check: Check, sample: &Sample) -> Verdict {
    let attempted = catch_unwind(AssertUnwindSafe(|| crate::attempt(|| check(sample))));
    match attempted {
        Ok(Ok(verdict)) => verdict,
        Ok(Err(error)) => Err(format!("raised: {error}")),
        Err(payload) => {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
            Err(format!("panicked: {}", text.unwrap_or("without a message")))
        }
    }
}

/// Returns the samples of all functions, and of those that belong to a link.
fn samples() -> Vec<Sample> {
    [
        crate::functions::samples(),
        crate::links::samples(),
        crate::distributions::samples(),
    ]
    .concat()
}

/// Runs a check on every sample.
fn every_sample(check: Check) {
    every_one(&samples(), check);
}

fn every_one(samples: &[Sample], check: Check) {
    let failures: Vec<String> = (samples.iter().enumerate())
        .filter_map(|(i, sample)| {
            let wrong = verdict(check, sample).err()?;
            Some(format!("sample {i}, {sample:?}: {wrong}"))
        })
        .collect();
    assert!(
        failures.is_empty(),
        "{} of {} samples fail:\n{}",
        failures.len(),
        samples.len(),
        failures.join("\n")
    );
}

/// A check.
type Check = fn(&Sample) -> Verdict;

/// Defines one test for each check, and a list of all checks.
macro_rules! tests {
    ($($check:ident),+ $(,)?) => {
        $(
            #[test]
            fn $check() {
                every_sample(checks::$check);
            }
        )+

        const CHECKS: &[(&str, Check)] = &[$((stringify!($check), checks::$check)),+];

        /// The same tests on a device whose elements can only be read by moving them to the CPU.
        mod on_a_device {
            $(
                #[test]
                fn $check() {
                    super::device::every_sample(super::checks::$check);
                }
            )+
        }
    };
}

tests! {
    values,
    finite_differences,
    dot_products,
    subsets_of_inputs,
    the_same_input_twice,
    second_order,
    third_order,
    forward_over_reverse,
    batch,
    vmap_of_derivatives,
    gradients_of_vmap,
    examples,
    examples_of_halves,
    layouts,
    shapes,
    special_points,
    precisions,
    repetition,
    kept_values,
    derived_derivatives,
}

#[test]
fn misfits() {
    every_sample(misfits::misfits_are_computed_or_refused);
}

// Programs are for the CPU.
#[test]
fn compiled() {
    every_sample(checks::compiled);
}
