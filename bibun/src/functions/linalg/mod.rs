//! Linear algebra.

mod triangular_solve;

pub use bibun_array::Triangle;
pub use triangular_solve::triangular_solve;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    triangular_solve::samples()
}
