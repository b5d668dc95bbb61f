//! The costs of every function, in numbers that do not depend on the machine: kernels, allocations,
//! copies, and the bytes that history saves.

use std::collections::BTreeMap;

use test_device::{Counting, expect_golden};

use super::Sample;
use super::checks::generator;
use crate::check::{floats, normal_like};
use crate::history::History;
use crate::reverse::{GradOptions, gradients_with};
use crate::variable::Variable;

const HEAD: &str = "\
# What functions cost on a device, by the inputs that have gradients: kernels, allocations and copies
# on the way forward, bytes that history keeps, and kernels, allocations and copies on the way back.
# Behind each result stands a product with 2, so that its cotangent is nobody else's.
# BLESS=1 cargo test -p bibun-units costs
";

#[test]
fn functions_cost_what_they_did() {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut table = HEAD.to_owned();
    for sample in super::samples() {
        let name = format!("{sample:?}");
        let number = seen.entry(name.clone()).or_default();
        *number += 1;
        let count = sample.inputs.len();
        let alone = (0..count).filter(|_| count > 1).map(|i| vec![i]);
        for wanted in [(0..count).collect()].into_iter().chain(alone) {
            let name = format!("{name} ({number}), {wanted:?}");
            table += &format!("{name:90} | {}\n", costs(&sample, &wanted));
        }
    }
    expect_golden("costs/functions.txt", &table);
}

/// Returns the costs of a sample if some inputs have gradients.
fn costs(sample: &Sample, wanted: &[usize]) -> String {
    let device = Counting::new(&["to"]);
    let mut generator = generator(sample);
    let inputs = sample.draw(&mut generator).into_iter().enumerate();
    let inputs: Vec<Variable> = inputs
        .map(|(i, x)| match wanted.contains(&i) {
            true => Variable::new(x.to(device)),
            false => Variable::constant(x.to(device)),
        })
        .collect();
    let call = || -> Vec<Variable> {
        let results = floats((sample.call)(&inputs)).into_iter();
        results.map(|y| y * 2.0).collect()
    };
    let (mut results, forward) = device.counting(call);
    results.retain(Variable::requires_grad);
    let results: Vec<&Variable> = results.iter().collect();
    let kept = History::of(&results).kept_bytes();
    let mut cells = format!("{} | {kept:5}", forward.cell());
    if !results.is_empty() {
        let results_alone: Vec<Variable> = results.iter().copied().cloned().collect();
        let cotangents = normal_like(&results_alone, &mut generator);
        let options = GradOptions {
            cotangents: cotangents.iter().map(|w| w.to(device)).collect(),
            ..GradOptions::new()
        };
        let targets: Vec<&Variable> = wanted.iter().map(|&i| &inputs[i]).collect();
        let (_gradients, backward) =
            device.counting(|| gradients_with(&results, &targets, &options));
        cells += &format!(" | {}", backward.cell());
    }
    cells
}
