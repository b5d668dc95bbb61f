//! Helpers of per-example rules, which prepare examples before computing.

use bibun_array::Array;

use crate::examples::{ExampleCotangent, Examples};
use crate::functions::{concat, expand_dims, moveaxis, reshape, take, where_};
use crate::variable::Variable;

impl ExampleCotangent {
    /// Returns the cotangents as one of the whole value for each example, `[examples, ..]`, which
    /// is zero outside of the example's own slices.
    pub(crate) fn stacked(&self) -> Variable {
        let Self {
            cotangent,
            examples,
        } = self;
        let (count, slices) = (examples.count(), examples.slices());
        let own: Vec<bool> = (0..count)
            .flat_map(|example| {
                (0..slices).map(move |slice| examples.owner(slice) == Some(example))
            })
            .collect();
        let mut along = vec![1; cotangent.rank() + 1];
        (along[0], along[examples.axis() + 1]) = (count, slices);
        let own = Array::from_vec(own, along).to(cotangent.device());
        where_(Variable::constant(own), expand_dims(cotangent, 0), 0.0)
    }
}

impl Examples {
    /// Returns the slices of each example, `[examples, l, ..]`, followed by the other axes of x.
    /// Examples with fewer slices are padded with zeros.
    pub(crate) fn of_each(&self, x: &Variable) -> Variable {
        let x = moveaxis(x, self.axis() as isize, 0);
        let shape = x.shape();
        let rest = shape.removed(0);
        let count = self.count();
        if self.is_each() {
            return reshape(x, rest.inserted(0, 1).inserted(0, count));
        }
        let slices = self.slices_of_each();
        let most = slices.first().map_or(0, Vec::len);
        let laid = |place: &dyn Fn(usize, usize) -> usize| {
            let mut own = slices.iter().enumerate();
            own.all(|(example, own)| {
                (own.iter().enumerate()).all(|(i, &slice)| slice == Some(place(example, i)))
            })
        };
        if most * count == shape[0] {
            if laid(&|example, i| example * most + i) {
                return reshape(x, rest.inserted(0, most).inserted(0, count));
            }
            if laid(&|example, i| i * count + example) {
                let apart = reshape(x, rest.inserted(0, count).inserted(0, most));
                return moveaxis(apart, 1, 0);
            }
        }
        let fill = shape[0];
        let short = slices.iter().flatten().any(Option::is_none);
        let x = match short {
            true => {
                let zeros = Array::zeros(shape.replaced(0, 1), x.dtype());
                concat([&x, &Variable::constant(zeros)], 0)
            }
            false => x,
        };
        let positions = slices.into_iter().flatten();
        let positions = positions
            .map(|slice| slice.unwrap_or(fill) as i64)
            .collect();
        let positions = Array::from_vec(positions, [count, most]).to(x.device());
        take(x, positions, 0)
    }
}
