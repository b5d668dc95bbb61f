//! The maximum or minimum of elements and the values that are written to them.

use std::cmp::Ordering;

use bibun_array::{Array, DType, Scatter, ops};

use super::Combine;
use super::picking::zeros;
use crate::batch::Batched;
use crate::context::Context;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec};
use crate::functions::{
    cast, gather, greater, if_number, less, logical_not, logical_or, scatter_add, where_,
};
use crate::variable::Variable;

/// The maximum or minimum of elements and the values that are written to them.
#[derive(Clone, Debug)]
pub(super) struct ScatterExtreme {
    pub(super) axis: usize,
    pub(super) is_maximum: bool,
    /// Whether an element that is written to takes part.
    pub(super) include_self: bool,
}

/// What a maximum or minimum was chosen from.
struct Chosen {
    /// The elements of x that are less extreme than the result.
    elements: Variable,
    /// The values that are.
    values: Variable,
    /// The number of those that are not, as floats that hold it.
    count: Variable,
}

impl ScatterExtreme {
    fn is_less(&self, a: &Variable, b: &Variable) -> Variable {
        // Written so that NaN is not less than NaN.
        match self.is_maximum {
            true => less(a, b),
            false => greater(a, b),
        }
    }

    fn chosen(&self, cx: &Context<'_>) -> Chosen {
        let (axis, y) = (self.axis as isize, cx.output(0));
        let [x, indices, value] = [0, 1, 2].map(|i| cx.input(i));
        let values = self.is_less(&value, &gather(&y, &indices, axis));
        let mut elements = self.is_less(&x, &y);
        if !self.include_self {
            let written = zeros(&Spec::new(x.shape(), DType::Bool));
            elements = logical_or(elements, scatter_add(written, &indices, axis, true));
        }
        let counted = y.dtype().accumulator();
        let [own, others] = [&elements, &values].map(|others| cast(logical_not(others), counted));
        Chosen {
            count: if_number(&y, scatter_add(own, indices, axis, others)),
            elements,
            values,
        }
    }
}

impl Function for ScatterExtreme {
    type Inputs = Fixed<3>;
    type Outputs = Fixed<1>;

    fn name(&self) -> &'static str {
        if self.is_maximum {
            "scatter_max"
        } else {
            "scatter_min"
        }
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::NOTHING.input(0).input(1).input(2).output(0)
    }

    fn shape(&self, [x, indices, value]: [&Spec; 3]) -> Result<[Spec; 1], Mismatch> {
        let own = (indices.shape.rank() == x.shape.rank()).then(|| indices.shape[self.axis]);
        let fits = own.is_some_and(|own| indices.shape == x.shape.replaced(self.axis, own));
        if !fits || indices.dtype != DType::I64 || *value != Spec::new(&indices.shape, x.dtype) {
            let inputs = [("x", x), ("indices", indices), ("value", value)];
            let must_hold = format!(
                "indices are integers, sizes but those of axis {} equal",
                self.axis
            );
            return Err(Mismatch::new(&inputs, must_hold));
        }
        Ok([x.clone()])
    }

    fn forward(&self, [mut x, indices, value]: [Array; 3]) -> [Array; 1] {
        let axis = self.axis as isize;
        let (rule, combine) = match self.is_maximum {
            true => (Scatter::Max, Combine::Max),
            false => (Scatter::Min, Combine::Min),
        };
        if !self.include_self {
            let written = Array::zeros(x.shape(), DType::Bool);
            let written = written.scatter_add(&indices, axis, &Array::from(true));
            let neutral = Array::full((), combine.neutral(x.dtype()));
            x = ops::where_(written, neutral, x);
        }
        [x.scatter(rule, &indices, axis, &value)]
    }

    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 3] {
        let chosen = self.chosen(cx);
        let dtype = gy.dtype();
        let share = cast(cast(gy, chosen.count.dtype()) / chosen.count, dtype);
        let of_value = cx.needs(2).then(|| {
            let share = gather(&share, cx.input(1), self.axis as isize);
            where_(chosen.values, 0.0, share)
        });
        let of_x = cx.needs(0).then(|| where_(chosen.elements, 0.0, share));
        [of_x, None, of_value]
    }

    fn jvp(
        &self,
        cx: &Context<'_>,
        [dx, _, dvalue]: [Option<Variable>; 3],
    ) -> [Option<Variable>; 1] {
        let chosen = self.chosen(cx);
        let (dtype, summed) = (cx.input_spec(0).dtype, chosen.count.dtype());
        let mut total = match dx {
            Some(dx) => cast(where_(chosen.elements, 0.0, dx), summed),
            None => zeros(&Spec::new(cx.input_shape(0), summed)),
        };
        if let Some(dvalue) = dvalue {
            let dvalue = cast(where_(chosen.values, 0.0, dvalue), summed);
            total = scatter_add(total, cx.input(1), self.axis as isize, dvalue);
        }
        [Some(cast(total / chosen.count, dtype))]
    }

    fn batch(&self, inputs: [Batched; 3]) -> [Batched; 1] {
        let axis = self.axis + 1;
        Batched::in_front(Self { axis, ..*self }, inputs)
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy]: [ExampleCotangent; 1],
    ) -> [Option<ExampleGradient>; 3] {
        let examples = gy.examples;
        let [gx, _, gvalue] = self.vjp(cx, [gy.cotangent]);
        let of_value = match examples.axis().cmp(&self.axis) {
            Ordering::Equal => gvalue.map(|_| ExampleGradient::Unknown),
            _ => gvalue.map(|gvalue| ExampleGradient::sliced(gvalue, examples.clone())),
        };
        let of_x = gx.map(|gx| ExampleGradient::sliced(gx, examples));
        [of_x, None, of_value]
    }
}
