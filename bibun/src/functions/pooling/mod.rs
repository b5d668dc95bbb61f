//! Pooling and resizing: what windows over the last axes see, however many axes these are.
//!
//! All that is an average or an interpolation is one linear function, [`window::WindowSum`]: a
//! sparse matrix for each axis, whose transposes make its transpose. Largest elements are picked by
//! positions, so their derivatives are those of picking.

mod average;
mod interpolate;
mod maximum;
mod shuffle;
mod window;

pub use average::*;
pub use interpolate::*;
pub use maximum::*;
pub use shuffle::*;
pub use window::Pooling;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [
        average::samples(),
        maximum::samples(),
        interpolate::samples(),
        shuffle::samples(),
    ]
    .concat()
}
