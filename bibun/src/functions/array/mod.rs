//! Functions that rearrange, pick, join and convert.

mod cast;
mod creation;
mod device;
mod identity;
mod index;
mod join;
mod mask;
mod movement;
mod positions;
mod rearrange;
mod slice;

pub use cast::*;
pub use creation::*;
pub use device::*;
pub use identity::*;
pub use index::*;
pub use join::*;
pub use mask::*;
pub use movement::*;
pub use positions::*;
pub use rearrange::*;
pub use slice::*;

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [
        cast::samples(),
        device::samples(),
        identity::samples(),
        index::samples(),
        join::samples(),
        mask::samples(),
        movement::samples(),
        positions::samples(),
        rearrange::samples(),
        slice::samples(),
    ]
    .concat()
}

/// An array whose elements are told by their index: what references are written in.
#[cfg(test)]
fn by_index(
    shape: impl Into<bibun_array::Shape>,
    element: impl Fn(&[usize]) -> f64,
) -> bibun_array::Array {
    let shape = shape.into();
    let elements = (0..shape.size()).map(|position| {
        let mut rest = position;
        let mut index = vec![0; shape.rank()];
        for (i, &size) in index.iter_mut().zip(shape.iter()).rev() {
            (*i, rest) = (rest % size, rest / size);
        }
        element(&index)
    });
    bibun_array::Array::from_vec(elements.collect(), &shape)
}
