//! Families of functions, which hold the code that their members share.
//!
//! A family is a type: [`ElementFunction`] takes `vjp` and `jvp` from formulas, [`Linear`] from one
//! transpose, [`Bilinear`] from two; [`Discrete`] has none.

mod bilinear;
mod derivative;
mod discrete;
mod formula;
mod linear;
mod parameter;

pub(crate) use bilinear::{Bilinear, BilinearRule};
pub use derivative::derivative;
pub(crate) use discrete::{Discrete, DiscreteRule};
pub(crate) use formula::{
    ElementFunction, Gradient, Read, binary, binary_function, call, count_of, element_definition,
    element_formula, element_function, function_type, gradient, method, shapes_and_types, unary,
};
pub(crate) use linear::{Linear, LinearRule};
pub(crate) use parameter::call_with;
