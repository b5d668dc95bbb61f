//! Convolutions, and the patches of images that their kernels read.

mod conv;
mod options;
mod product;
#[cfg(test)]
mod samples;
mod unfold;

pub use conv::*;
pub use options::*;
pub use unfold::*;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [samples::samples(), unfold::samples()].concat()
}
