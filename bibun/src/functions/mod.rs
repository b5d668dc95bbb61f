//! The functions: what Variables can be put through.
//!
//! Each function stands in one place with all of its rules, most of them as a member of a family
//! (elementwise, linear, bilinear, discrete; see `family`), where a line or two is all that is left to say.

#[macro_use]
mod family;

mod activation;
mod array;
mod connection;
mod evaluation;
mod loss;
mod math;
mod noise;
mod normalization;
mod operand;
mod operators;
mod pooling;
#[cfg(test)]
mod probe;

#[cfg(test)]
pub(crate) use family::ElementFunction;

pub use activation::*;
pub use array::*;
pub use connection::*;
pub use evaluation::*;
pub use family::derivative;
pub use loss::*;
pub use math::*;
pub use noise::*;
pub use normalization::*;
pub use operand::Operand;
pub use pooling::*;

/// Every sample of every function, for the conformance test.
#[cfg(test)]
pub(crate) fn samples() -> Vec<crate::conformance::Sample> {
    [
        activation::samples(),
        array::samples(),
        connection::samples(),
        loss::samples(),
        math::samples(),
        noise::samples(),
        normalization::samples(),
        pooling::samples(),
    ]
    .concat()
}
