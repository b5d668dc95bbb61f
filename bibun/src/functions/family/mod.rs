//! Families of functions: what their members share, so that each says only what is its own.
//!
//! A family is a type, not a habit: [`Elementwise`] takes `vjp` and `jvp` from one partial
//! derivative, [`Linear`] from one transpose, [`Bilinear`] from two.

mod bilinear;
mod derivative;
mod discrete;
mod elementwise;
mod examples;
mod formula;
mod lanes;
mod linear;

pub(crate) use bilinear::{Bilinear, BilinearRule};
pub(crate) use discrete::{Discrete, DiscreteRule};
pub(crate) use elementwise::{Elementwise, ElementwiseRule};
pub(crate) use formula::{
    ElementFunction, Gradient, GradientValue, Read, binary, call, count_of, element_function,
    element_gradient, element_read, element_value, function_type, method, unary,
};
pub(crate) use linear::{Linear, LinearRule};
