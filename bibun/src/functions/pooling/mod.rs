//! Pooling and resizing over any number of last axes.
//!
//! Averages and interpolations are one linear function, [`window::WindowSum`]: a sparse matrix for
//! each axis, whose transposes make up its transpose. Maxima are gathered by positions, so their
//! derivatives are those of gathering.

mod average;
mod fractional;
mod grid;
mod interpolate;
mod maximum;
mod power;
mod shuffle;
mod window;

pub use average::*;
pub use fractional::*;
pub use grid::*;
pub use interpolate::*;
pub use maximum::*;
pub use power::*;
pub use shuffle::*;
pub use window::{Pooling, PoolingPadding};

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [
        average::samples(),
        fractional::samples(),
        grid::samples(),
        interpolate::samples(),
        maximum::samples(),
        power::samples(),
        shuffle::samples(),
    ]
    .concat()
}
