//! Families of functions: what their members share, so that each says only what is its own.
//!
//! A family is a type, not a habit: [`Elementwise`] takes `vjp` and `jvp` from one partial
//! derivative, [`Linear`] from one transpose, [`Bilinear`] from two.

mod bilinear;
mod discrete;
mod elementwise;
mod examples;
mod lanes;
mod linear;

pub(crate) use bilinear::{Bilinear, BilinearRule};
pub(crate) use discrete::{Discrete, DiscreteRule};
pub(crate) use elementwise::{
    Elementwise, ElementwiseRule, binary, function_type, kernel_if, method, number_kernel, partial,
    plain, unary, value_of,
};
pub(crate) use linear::{Linear, LinearRule};
