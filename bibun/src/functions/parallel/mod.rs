//! Collectives as functions of the values of all processes, so that a model can be spread over them.
//!
//! What is differentiated is the sum of the losses of all processes. A gradient goes back by the transposed
//! collective, which all processes take part in as they did in the first: each must use the result in its
//! loss, if only times zero.

mod collectives;
mod message;

use bibun_array::{Array, is_traced, record_call};

pub use collectives::{all_gather, all_reduce, all_to_all, broadcast, reduce, reduce_scatter};
pub use message::{receive, send};

use crate::function::Spec;

/// Runs a collective, now or whenever the program runs that is being traced.
fn run(
    name: &'static str,
    x: Array,
    y: Spec,
    collective: impl Fn(&Array) -> Array + Send + Sync + 'static,
) -> Array {
    if !is_traced(&x) {
        return collective(&x);
    }
    let run = move |inputs: Vec<Array>| vec![collective(&inputs[0])];
    let mut results = record_call(name, &[x], &[(y.shape, y.dtype)], run);
    results.pop().expect("there is one result")
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    collectives::samples()
}
