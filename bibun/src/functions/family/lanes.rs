//! What batch rules do with lanes before they run all at once.

use smallvec::SmallVec;

use crate::batch::Lane;
use crate::functions::{broadcast_to, expand_dims, move_axis};
use crate::variable::Variable;

impl Lane {
    /// A value with its lanes along an axis.
    pub fn along(value: Variable, axis: usize) -> Self {
        Self {
            value,
            axis: Some(axis),
        }
    }

    /// The value with its lanes on the first axis; the same value for all is repeated `count`
    /// times (without memory).
    pub fn to_front(&self, count: usize) -> Variable {
        match self.axis {
            Some(0) => self.value.clone(),
            Some(axis) => move_axis(&self.value, axis as isize, 0),
            None => {
                let shape = self.value.shape().inserted(0, count);
                broadcast_to(expand_dims(&self.value, 0), shape)
            }
        }
    }

    /// How many lanes a list of inputs has, of which at least one has any.
    pub fn common_count(inputs: &[Self]) -> usize {
        let mut counts = inputs.iter().filter_map(Self::count);
        counts
            .next()
            .expect("a batch rule is asked only where there are lanes")
    }

    /// All values with their lanes along one common axis, and that axis.
    pub(crate) fn aligned(inputs: &[Self]) -> (SmallVec<[Variable; 4]>, usize) {
        // Where all mapped inputs agree already, nothing moves; one input alone always does.
        let mut axes = inputs.iter().filter_map(|lane| lane.axis);
        let first = axes
            .next()
            .expect("a batch rule is asked only where there are lanes");
        let count = Self::common_count(inputs);
        if inputs.iter().all(|lane| lane.axis == Some(first)) {
            return (
                inputs.iter().map(|lane| lane.value.clone()).collect(),
                first,
            );
        }
        (inputs.iter().map(|lane| lane.to_front(count)).collect(), 0)
    }
}
