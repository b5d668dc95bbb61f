//! Checks of the checks: a function that is wrong on purpose must fail the check that is meant for
//! its fault.

use std::sync::atomic::{AtomicU64, Ordering};

use bibun_array::{Array, DType};

use super::{CHECKS, Sample, verdict};
use crate::{
    Batched, Context, ExampleCotangent, ExampleGradient, Fixed, Function, Mismatch, Needs, Saved,
    Spec, Variable, apply,
};

/// `a b²`, with a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
struct WrongProduct(Fault);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// No fault.
    None,
    /// The value is off by a billionth.
    Value,
    /// The value in f32 is off by a hundredth.
    Narrow,
    /// The value is wrong where both inputs are the same.
    Aliased,
    /// Each call gives a slightly larger value.
    Drift,
    /// The derivative with respect to b is off by 0.05 %, in both rules.
    SlightlyOff,
    /// There is no gradient for b.
    Missing,
    /// The forward derivative has the wrong sign for b.
    Sign,
    /// The reverse rule multiplies by the cotangent twice.
    CotangentTwice,
    /// The reverse rule computes with arrays instead of Variables.
    RawArray,
    /// The reverse rule detaches b.
    Detached,
    /// The reverse rule is right up to its first derivative only.
    DetachedTwice,
    /// The forward rule detaches b.
    DetachedTangent,
    /// The batch rule assumes that the batch axis is in front.
    BatchInFront,
    /// The batch rule detaches b.
    DetachedBatch,
    /// The per-example rule is off by a billionth.
    Examples,
    /// The per-example rule returns the examples along the other axis.
    OtherAxis,
    /// The per-example rule refuses a case that it could compute.
    Refused,
    /// The value depends on the layout of memory.
    Layout,
    /// The value is right for matrices only.
    FirstRow,
    /// The gradient is NaN at 0.
    Kink,
    /// The reverse rule reads a value that is not saved if only a has a gradient.
    Dishonest,
}

impl Function for WrongProduct {
    type Inputs = Fixed<2>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "product"
    }

    fn saves(&self, needs: Needs<'_>) -> Saved {
        match (self.0, needs[1]) {
            (Fault::Dishonest, false) => Saved::NOTHING.input(0),
            (_, false) => Saved::NOTHING.input(1),
            (_, true) => Saved::NOTHING.input(0).input(1),
        }
    }

    fn shape(&self, [a, b]: [&Spec; 2]) -> Result<[Spec; 1], Mismatch> {
        match a == b {
            true => Ok([a.clone()]),
            false => Err(Mismatch::new(&[("a", a), ("b", b)], "both must be equal")),
        }
    }

    fn forward(&self, [a, b]: [Array; 2]) -> [Array; 1] {
        static CALLS: AtomicU64 = AtomicU64::new(0);
        let y = &a * &(&b * &b);
        [match self.0 {
            Fault::Value => y * (1.0 + 1e-9),
            Fault::Narrow if y.dtype() == DType::F32 => y * 1.01,
            Fault::Aliased if a.shares_memory_with(&b) => y * 1.01,
            Fault::Drift => y * (1.0 + 1e-14 * CALLS.fetch_add(1, Ordering::Relaxed) as f64),
            Fault::Layout if a.as_slice::<f64>().is_none() => y.flip(&[]),
            Fault::FirstRow if a.rank() != 2 => y * 2.0,
            _ => y,
        }]
    }

    fn in_accumulator(&self) -> bool {
        true
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 2] {
        let from_a = || {
            let b = cx.input(1);
            Some(match self.0 {
                Fault::RawArray => &gy * b.array() * b.array(),
                Fault::Detached => &gy * b.detach() * b.detach(),
                Fault::DetachedTwice => {
                    let fixed = b.detach();
                    &gy * (2.0 * &fixed * &b - &fixed * &fixed)
                }
                Fault::CotangentTwice => &gy * &gy * &b * &b,
                Fault::Kink => &gy * &b * &b * &b / &b,
                _ => &gy * &b * &b,
            })
        };
        let from_b = || match self.0 {
            Fault::Missing => None,
            Fault::SlightlyOff => Some(2.001 * &gy * cx.input(0) * cx.input(1)),
            _ => Some(2.0 * &gy * cx.input(0) * cx.input(1)),
        };
        [
            cx.needs(0).then(from_a).flatten(),
            cx.needs(1).then(from_b).flatten(),
        ]
    }

    fn jvp(&self, cx: &Context<'_>, [da, db]: [Option<Variable>; 2]) -> [Option<Variable>; 1] {
        let (a, b) = (cx.input(0), cx.input(1));
        let from_a = da.map(|da| match self.0 {
            Fault::DetachedTangent => da * b.detach() * b.detach(),
            _ => da * &b * &b,
        });
        let factor = match self.0 {
            Fault::Sign => -2.0,
            Fault::SlightlyOff => 2.001,
            _ => 2.0,
        };
        let from_b = db.map(|db| factor * db * &a * &b);
        [match (from_a, from_b) {
            (Some(from_a), Some(from_b)) => Some(from_a + from_b),
            (from_a, from_b) => from_a.or(from_b),
        }]
    }

    fn batch(&self, inputs: [Batched; 2]) -> [Batched; 1] {
        let inputs = match self.0 {
            Fault::BatchInFront => {
                let count = Batched::batch_size(&inputs);
                let in_front = |input: Batched| match input.axis {
                    Some(_) => Batched::along(input.value, 0),
                    None => input,
                };
                inputs.map(|input| in_front(input).to_front(count))
            }
            _ => {
                let count = Batched::batch_size(&inputs);
                inputs.map(|input| input.to_front(count))
            }
        };
        let [a, b] = inputs;
        let b = match self.0 {
            Fault::DetachedBatch => b.detach(),
            _ => b,
        };
        let [y] = apply(*self, [a, b]);
        [Batched::along(y, 0)]
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 2] {
        let more = |mut gy: ExampleCotangent| {
            gy.cotangent *= 1.0 + 1e-9;
            gy
        };
        match self.0 {
            Fault::Refused => [Some(ExampleGradient::Mixed), Some(ExampleGradient::Mixed)],
            Fault::Examples => more(gy).pull_back(|gy| self.vjp(cx, [gy])),
            Fault::OtherAxis if cx.input_shape(0).rank() == 2 => {
                let examples = gy.examples.moved(1 - gy.examples.axis());
                let gradients = self.vjp(cx, [gy.cotangent]);
                gradients.map(|gx| Some(ExampleGradient::sliced(gx?, examples.clone())))
            }
            _ => gy.pull_back(|gy| self.vjp(cx, [gy])),
        }
    }
}

/// Returns a sample of the function. Its two sizes are equal, so that mistaken axes show in the
/// values.
fn sample(fault: Fault) -> Sample {
    let call = move |a: &Variable, b: &Variable| {
        let [y] = apply(WrongProduct(fault), [a.clone(), b.clone()]);
        y
    };
    let mut sample = Sample::binary("product", -2.0..2.0, -2.0..2.0, call, |a, b| a * (b * b));
    for (shape, _) in &mut sample.inputs {
        *shape = [3, 3].into();
    }
    sample
}

/// Returns the checks that a function with this fault fails.
fn failed(fault: Fault) -> Vec<&'static str> {
    let sample = sample(fault);
    let failed = CHECKS
        .iter()
        .filter(|(_, check)| verdict(*check, &sample).is_err());
    failed.map(|&(name, _)| name).collect()
}

#[test]
fn a_right_function_passes_every_check() {
    assert_eq!(failed(Fault::None), [""; 0]);
}

/// Asserts that the function with the fault fails the named checks, and passes those for which it
/// is right.
fn caught(fault: Fault, by: &[&str], passes: &[&str]) {
    let failed = failed(fault);
    for name in by.iter().chain(passes) {
        assert!(
            CHECKS.iter().any(|(check, _)| check == name),
            "no check {name}"
        );
    }
    for name in by {
        assert!(
            failed.contains(name),
            "{fault:?} is not caught by {name}, only by {failed:?}"
        );
    }
    for name in passes {
        assert!(
            !failed.contains(name),
            "{fault:?} fails {name}, where it is right"
        );
    }
}

#[test]
fn wrong_values_are_caught() {
    caught(Fault::Value, &["values"], &["dot_products", "layouts"]);
    caught(Fault::Narrow, &["precisions"], &["values", "third_order"]);
    caught(
        Fault::Aliased,
        &["the_same_input_twice"],
        &["values", "third_order", "subsets_of_inputs"],
    );
    caught(Fault::Drift, &["repetition"], &["dot_products"]);
    caught(Fault::Layout, &["layouts"], &["values", "dot_products"]);
    caught(
        Fault::FirstRow,
        &["shapes"],
        &["values", "dot_products", "layouts"],
    );
}

#[test]
fn wrong_first_derivatives_are_caught() {
    caught(
        Fault::SlightlyOff,
        &["finite_differences", "subsets_of_inputs"],
        &["values", "dot_products", "batch"],
    );
    caught(
        Fault::Missing,
        &["dot_products", "subsets_of_inputs"],
        &["values", "finite_differences", "kept_values"],
    );
    caught(
        Fault::Sign,
        &["finite_differences", "dot_products"],
        &["values"],
    );
    caught(
        Fault::CotangentTwice,
        &["dot_products"],
        &["finite_differences"],
    );
    caught(
        Fault::Kink,
        &["special_points"],
        &["dot_products", "third_order"],
    );
    caught(
        Fault::Dishonest,
        &["kept_values", "subsets_of_inputs"],
        &["dot_products", "finite_differences"],
    );
}

#[test]
fn wrong_higher_derivatives_are_caught() {
    let first = [
        "finite_differences",
        "dot_products",
        "subsets_of_inputs",
        "batch",
    ];
    caught(
        Fault::RawArray,
        &["second_order", "third_order", "vmap_of_derivatives"],
        &first,
    );
    caught(
        Fault::Detached,
        &["second_order", "forward_over_reverse"],
        &first,
    );
    caught(
        Fault::DetachedTwice,
        &["third_order"],
        &["second_order", "forward_over_reverse"],
    );
    caught(Fault::DetachedTangent, &["forward_over_reverse"], &first);
}

#[test]
fn wrong_rules_for_examples_are_caught() {
    let right = ["values", "third_order", "batch", "vmap_of_derivatives"];
    for fault in [Fault::Examples, Fault::OtherAxis, Fault::Refused] {
        caught(fault, &["examples"], &right);
    }
}

#[test]
fn wrong_batch_elements_are_caught() {
    caught(
        Fault::BatchInFront,
        &["batch", "gradients_of_vmap"],
        &["third_order"],
    );
    caught(
        Fault::DetachedBatch,
        &["gradients_of_vmap"],
        &["batch", "third_order"],
    );
}
