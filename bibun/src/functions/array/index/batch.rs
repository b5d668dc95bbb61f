//! Indices that differ between batch elements: the batch becomes a part of the axis that is indexed.

use bibun_array::{Array, Device, cpu};

use crate::batch::Batched;
use crate::function::{Fixed, Mismatch, Spec};
use crate::functions::families::{Discrete, DiscreteRule};
use crate::functions::{moveaxis, reshape};
use crate::variable::Variable;

/// Moves `axis` to the front and folds the batch axis, which is in front, into it: batch element `l` has
/// the rows from `l n` on.
pub(super) fn fold_batch(x: Variable, axis: usize) -> Variable {
    let x = moveaxis(x, axis as isize + 1, 1);
    let shape = x.shape();
    let folded = shape.removed(0).replaced(0, shape[0] * shape[1]);
    reshape(x, folded)
}

/// Computes rows of a folded batch, `size` for each batch element, from the indices of each batch element,
/// whose batch axis is `axis`. An index that is out of bounds must not reach the next batch element.
#[derive(Clone, Debug)]
struct RowsOfBatch {
    axis: usize,
    size: usize,
    /// The device of the rows.
    device: &'static dyn Device,
}

/// Applies [`RowsOfBatch`] along an axis of `x` to indices with the batch axis in front.
#[track_caller]
pub(super) fn rows_of_batch(indices: Variable, x: &Variable, axis: usize) -> Variable {
    let function = RowsOfBatch {
        axis: 0,
        size: x.shape()[axis],
        device: x.known_device().or(indices.known_device()).unwrap_or(cpu()),
    };
    Discrete::of(function, [indices])
}

impl DiscreteRule for RowsOfBatch {
    type Inputs = Fixed<1>;

    fn name(&self) -> &'static str {
        "rows_of_batch"
    }

    fn shape(&self, [indices]: [&Spec; 1]) -> Result<Spec, Mismatch> {
        Ok(indices.clone())
    }

    fn forward(&self, [indices]: [Array; 1]) -> Array {
        let batch = indices.shape()[self.axis];
        // Picking from all positions checks indices, and makes negative ones count from the front.
        let positions = |count| Array::arange(0, count as i64).to(self.device);
        let own = positions(self.size).take(&indices, 0);
        let mut aligned = vec![1; indices.rank() - self.axis];
        aligned[0] = batch;
        let first = positions(batch) * self.size as i64;
        own + first.reshape(aligned)
    }

    fn batch(&self, indices: [Batched; 1]) -> [Batched; 1] {
        let axis = self.axis + 1;
        Batched::in_front(Discrete(Self { axis, ..*self }), indices)
    }
}
