//! The samples of complex numbers, and of functions that take them.

use crate::conformance::Sample;

pub(in crate::functions) fn samples() -> Vec<Sample> {
    Vec::new()
}
