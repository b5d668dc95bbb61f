//! Functions of mathematics: arithmetic, exponentials, trigonometry, reductions.

mod arithmetic;
mod comparison;
mod error_function;
mod exponential;
mod hyperbolic;
mod power;
mod reduction;
mod rounding;
mod trigonometric;

pub use arithmetic::*;
pub use comparison::*;
pub use error_function::*;
pub use exponential::*;
pub use hyperbolic::*;
pub use power::*;
pub use reduction::*;
pub use rounding::*;
pub use trigonometric::*;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [
        arithmetic::samples(),
        comparison::samples(),
        error_function::samples(),
        exponential::samples(),
        hyperbolic::samples(),
        power::samples(),
        reduction::samples(),
        rounding::samples(),
        trigonometric::samples(),
    ]
    .concat()
}
