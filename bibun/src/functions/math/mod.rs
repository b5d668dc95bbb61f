//! Functions of mathematics: arithmetic, exponentials, trigonometry, reductions.

mod arithmetic;
mod hyperbolic;
mod reduction;

pub use arithmetic::*;
pub use hyperbolic::*;
pub use reduction::*;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [
        arithmetic::samples(),
        hyperbolic::samples(),
        reduction::samples(),
    ]
    .concat()
}
