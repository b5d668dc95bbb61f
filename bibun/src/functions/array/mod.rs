//! Functions that rearrange, pick, join and convert.

mod border;
mod cast;
mod combination;
mod concat;
mod counted;
mod creation;
mod device;
mod diagonal;
mod flatten;
mod flip;
mod identity;
mod index;
mod mask;
mod movement;
mod named;
mod overwrite;
mod pad;
mod positions;
mod ravel;
mod repeat;
mod roll;
mod slice;
mod split;
mod stack;
mod structured;
mod triangle;
mod window;

pub use border::*;
pub use cast::*;
pub use combination::*;
pub use concat::*;
pub use counted::*;
pub use creation::*;
pub use device::*;
pub use diagonal::*;
pub use flatten::*;
pub use flip::*;
pub use identity::*;
pub use index::*;
pub use mask::*;
pub use movement::*;
pub use named::*;
pub use overwrite::*;
pub use pad::*;
pub use positions::*;
pub use ravel::*;
pub use repeat::*;
pub use roll::*;
pub use slice::*;
pub use split::*;
pub use stack::*;
pub use structured::*;
pub use triangle::*;
pub use window::*;

use crate::function::{Mismatch, Spec};

/// Checks that an array is a matrix or a batch of matrices.
fn expect_matrix(x: &Spec) -> Result<(), Mismatch> {
    match x.shape.rank() {
        0 | 1 => Err(Mismatch::new(&[("x", x)], "at least two axes are needed")),
        _ => Ok(()),
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    [
        border::samples(),
        cast::samples(),
        concat::samples(),
        counted::samples(),
        creation::samples(),
        device::samples(),
        diagonal::samples(),
        flatten::samples(),
        flip::samples(),
        identity::samples(),
        index::samples(),
        mask::samples(),
        movement::samples(),
        overwrite::samples(),
        pad::samples(),
        positions::samples(),
        ravel::samples(),
        repeat::samples(),
        roll::samples(),
        slice::samples(),
        split::samples(),
        stack::samples(),
        triangle::samples(),
        combination::samples(),
        structured::samples(),
        named::samples(),
        window::samples(),
    ]
    .concat()
}

/// Returns an array of this shape whose elements are computed from their index, for references.
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

/// Returns one element, for references.
#[cfg(test)]
fn at(x: &bibun_array::Array, index: &[usize]) -> f64 {
    x.element(index).to_f64()
}
