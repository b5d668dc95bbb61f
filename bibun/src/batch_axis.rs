//! Helpers of batch rules, which prepare batch elements before computing them all at once.

use smallvec::SmallVec;

use crate::batch::Batched;
use crate::function::{Arity, Fixed, Function, Inputs, Outputs};
use crate::functions::{broadcast_to, expand_dims, moveaxis, reshape};
use crate::variable::Variable;

impl Batched {
    /// Creates a batch whose batch axis is `axis` of `value`.
    pub fn along(value: Variable, axis: usize) -> Self {
        Self {
            value,
            axis: Some(axis),
        }
    }

    /// Returns the value with the batch axis in front. A value that is the same for all batch
    /// elements is repeated `count` times (without memory).
    pub fn to_front(&self, count: usize) -> Variable {
        match self.axis {
            Some(0) => self.value.clone(),
            Some(axis) => moveaxis(&self.value, axis as isize, 0),
            None => {
                let shape = self.value.shape().inserted(0, count);
                broadcast_to(expand_dims(&self.value, 0), shape)
            }
        }
    }

    /// Returns the number of batch elements of a list of inputs, at least one of which has a batch
    /// axis.
    pub fn batch_size(inputs: &[Self]) -> usize {
        let mut counts = inputs.iter().filter_map(Self::count);
        counts
            .next()
            .expect("a batch rule is asked only where there is a batch")
    }

    /// Returns all values with one common batch axis, and that axis.
    pub(crate) fn aligned(inputs: &[Self]) -> (SmallVec<[Variable; 4]>, usize) {
        // Nothing moves if all inputs have the same batch axis, as a single input always does.
        let mut axes = inputs.iter().filter_map(|input| input.axis);
        let first = axes
            .next()
            .expect("a batch rule is asked only where there is a batch");
        let count = Self::batch_size(inputs);
        if inputs.iter().all(|input| input.axis == Some(first)) {
            return (
                inputs.iter().map(|input| input.value.clone()).collect(),
                first,
            );
        }
        (
            inputs.iter().map(|input| input.to_front(count)).collect(),
            0,
        )
    }

    /// Returns the only input of a function, and its batch axis.
    pub(crate) fn mapped([input]: [Self; 1]) -> (Variable, usize) {
        (
            input.value,
            input.axis.expect("the only input has a batch axis"),
        )
    }

    /// Applies an elementwise function to all batch elements, along any common batch axis.
    pub(crate) fn of_elements<F>(function: &F, inputs: Inputs<F, Self>) -> [Self; 1]
    where
        F: Function<Outputs = Fixed<1>>,
    {
        let (inputs, axis) = Self::aligned(inputs.as_ref());
        let inputs = F::Inputs::collect(inputs.into_iter());
        crate::apply(function.clone(), inputs).map(|y| Self::along(y, axis))
    }

    /// Applies a function to all batch elements, with the batch axis in front of its own axes.
    pub(crate) fn in_front<F: Function>(function: F, inputs: Inputs<F, Self>) -> Outputs<F, Self> {
        let count = Self::batch_size(inputs.as_ref());
        let inputs = F::Inputs::map(inputs, |input| input.to_front(count));
        F::Outputs::map(crate::apply(function, inputs), |y| Self::along(y, 0))
    }

    /// Applies a function of examples, which are on the first axis, to all batch elements as
    /// further examples.
    pub(crate) fn as_examples<F>(function: F, inputs: Inputs<F, Self>) -> Outputs<F, Self>
    where
        F: Function,
    {
        let all = inputs.as_ref();
        let (n, count) = (all[0].spec().shape[0], Self::batch_size(all));
        let inputs = F::Inputs::map(inputs, |input| {
            let x = input.to_front(count);
            let shape = x.shape().removed(0).replaced(0, count * n);
            reshape(x, shape)
        });
        F::Outputs::map(crate::apply(function, inputs), |y| {
            let shape = y.shape().replaced(0, n).inserted(0, count);
            Self::along(reshape(y, shape), 0)
        })
    }
}
