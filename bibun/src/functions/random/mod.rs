//! Random numbers, and functions that use them.
//!
//! Under `vmap` every batch element draws its own numbers, as the iterations of a loop would, or
//! all draw the same: see [`Randomness`](crate::Randomness).

mod activation;
mod draws;
mod dropout;
mod feature_dropout;
mod rejection;

pub use activation::*;
pub(crate) use draws::Random;
pub use draws::{random_bernoulli, random_normal, random_uniform};
pub use dropout::dropout;
pub(crate) use dropout::dropout_of_call;
pub use feature_dropout::*;
pub use rejection::*;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [
        activation::samples(),
        dropout::samples(),
        feature_dropout::samples(),
    ]
    .concat()
}
