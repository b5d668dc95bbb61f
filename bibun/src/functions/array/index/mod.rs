//! Picking by computed indices, and adding back to the positions that were picked.
//!
//! Each function of indices is beside its adjoint: [`take`] and [`add_at`], [`gather`] and
//! [`scatter_add`]. Indices are integers, have no gradient, and may differ between the elements of a
//! batch.

mod batch;
mod gather;
mod one_hot;
mod picking;
mod take;

pub use gather::*;
pub use one_hot::*;
use picking::Picking;
pub use take::*;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [take::samples(), gather::samples()].concat()
}
