//! Families of functions, which hold the code that their members share.
//!
//! A family is a type: [`ElementFunction`] takes `vjp` and `jvp` from formulas, [`Linear`] from one
//! transpose, [`Bilinear`] from two; [`Discrete`] has none. [`OfMatrices`] knows which axes are those of a
//! batch.

mod bilinear;
mod derivative;
mod discrete;
mod formula;
mod linear;
mod matrices;
mod parameter;

pub(crate) use bilinear::{Bilinear, BilinearRule};
pub use derivative::derivative;
pub(crate) use discrete::{Discrete, DiscreteRule};
pub(crate) use formula::{
    ElementFunction, Gradient, Read, binary, binary_function, call, count_of, element_definition,
    element_formula, element_function, function_type, gradient, method, shapes_and_types, unary,
};
pub(crate) use linear::{Linear, LinearRule};
pub(crate) use matrices::{MatrixRule, OfMatrices};
pub(crate) use parameter::call_with;

use crate::variable::Variable;

/// Returns the sum of the tangents that there are.
pub(crate) fn sum_of(a: Option<Variable>, b: Option<Variable>) -> Option<Variable> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        (a, b) => a.or(b),
    }
}
