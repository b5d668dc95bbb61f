//! Functions that rearrange, pick, join and convert.

mod cast;
mod identity;
mod movement;

pub use cast::*;
pub use identity::*;
pub use movement::*;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [cast::samples(), identity::samples(), movement::samples()].concat()
}
