//! Random numbers, and functions that use them.
//!
//! Under `vmap` every lane draws its own, as turns of a loop would, or all draw the same: see
//! [`Randomness`](crate::Randomness).

mod draws;
mod dropout;

pub use draws::*;
pub use dropout::dropout;
pub(crate) use dropout::dropout_of_call;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    dropout::samples()
}
