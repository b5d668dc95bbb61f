//! Random numbers, and functions that use them.
//!
//! Under `vmap` every batch element draws its own numbers, as the iterations of a loop would, or
//! all draw the same: see [`Randomness`](crate::Randomness).

mod activation;
mod draws;
mod dropout;

pub use activation::*;
pub use draws::*;
pub use dropout::dropout;
pub(crate) use dropout::dropout_of_call;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [activation::samples(), dropout::samples()].concat()
}
