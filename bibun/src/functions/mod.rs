//! Functions of Variables.
//!
//! Each function is defined in one place with all of its rules. Most are members of a family
//! (elementwise, linear, bilinear, discrete; see `families`), which leaves only a line or two to
//! write for each.

#[macro_use]
mod families;

mod activation;
mod array;
mod attention;
mod complex;
pub(crate) mod condition;
mod convolution;
#[cfg(feature = "fft")]
pub mod fft;
mod fused;
pub mod linalg;
mod loss;
mod math;
mod metrics;
mod normalization;
mod operand;
mod operators;
mod optional;
mod parallel;
mod per_axis;
mod pooling;
#[cfg(test)]
mod probe;
mod products;
pub(crate) mod random;
mod special;

#[cfg(test)]
pub(crate) use families::ElementFunction;

pub use activation::*;
pub use array::*;
pub use attention::*;
pub use complex::*;
pub use convolution::*;
pub use families::derivative;
#[cfg(feature = "fft")]
pub use fft::*;
pub use linalg::{Triangle, triangular_solve};
pub use loss::*;
pub use math::*;
pub use metrics::*;
pub use normalization::*;
pub use operand::{Bound, Operand};
pub use optional::OptionalVariable;
pub use parallel::*;
pub use per_axis::PerAxis;
pub use pooling::*;
pub use products::*;
pub use random::*;
pub use special::*;

/// Returns every sample of every function, for the conformance test.
#[cfg(test)]
pub(crate) fn samples() -> Vec<crate::conformance::Sample> {
    [
        activation::samples(),
        array::samples(),
        attention::samples(),
        complex::samples(),
        convolution::samples(),
        #[cfg(feature = "fft")]
        fft::samples(),
        linalg::samples(),
        loss::samples(),
        math::samples(),
        normalization::samples(),
        parallel::samples(),
        pooling::samples(),
        products::samples(),
        random::samples(),
        special::samples(),
    ]
    .concat()
}
