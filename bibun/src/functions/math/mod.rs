//! Functions of mathematics: arithmetic, exponentials, trigonometry, reductions.

mod arithmetic;
mod comparison;
mod derivatives;
mod error_function;
mod exponential;
mod extreme;
mod finding;
mod hyperbolic;
mod logsumexp;
mod norm;
mod piecewise;
mod power;
mod reduction;
mod rounding;
mod scan;
mod sort;
mod trigonometric;

pub use arithmetic::*;
pub use comparison::*;
pub use error_function::*;
pub use exponential::*;
pub use extreme::*;
pub use finding::*;
pub use hyperbolic::*;
pub use logsumexp::*;
pub use norm::*;
pub use piecewise::*;
pub use power::*;
pub use reduction::*;
pub use rounding::*;
pub use scan::*;
pub use sort::*;
pub use trigonometric::*;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [
        arithmetic::samples(),
        comparison::samples(),
        derivatives::samples(),
        error_function::samples(),
        exponential::samples(),
        extreme::samples(),
        finding::samples(),
        hyperbolic::samples(),
        logsumexp::samples(),
        norm::samples(),
        piecewise::samples(),
        power::samples(),
        reduction::samples(),
        rounding::samples(),
        scan::samples(),
        sort::samples(),
        trigonometric::samples(),
    ]
    .concat()
}
