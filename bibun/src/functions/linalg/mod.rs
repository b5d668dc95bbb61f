//! Linear algebra.

mod triangular_solve;

pub use triangular_solve::{Triangle, triangular_solve};

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    triangular_solve::samples()
}
