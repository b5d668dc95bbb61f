//! Picking by computed indices, and adding back to the positions that were picked.
//!
//! Each function of indices is beside its adjoint: [`take`] and [`add_at`], [`gather`] and
//! [`scatter_add`]. Indices are integers, have no gradient, and may differ between the elements of a
//! batch.

mod batch;
mod copy;
mod extreme;
mod gather;
mod nonzero;
mod one_hot;
mod picking;
mod positions;
mod request;
mod scatter;
mod selection;
mod take;

pub(super) use copy::one_element;
pub use copy::*;
pub use gather::*;
pub use nonzero::*;
pub use one_hot::*;
use picking::Picking;
pub(crate) use positions::constant_beside;
pub(super) use positions::{device_of, places};
pub(super) use scatter::fitting;
pub use scatter::*;
pub use selection::*;
pub use take::*;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [
        take::samples(),
        copy::samples(),
        gather::samples(),
        nonzero::samples(),
        scatter::samples(),
        selection::samples(),
    ]
    .concat()
}
