//! The batching walk: each function's `batch` rule computes all batch elements at once.

use std::sync::Arc;

use bibun_array::{Array, DType};

use crate::apply::Call;
use crate::context::ask_batch;
use crate::function::{AnyFunction, Items, Spec, items};
use crate::hidden::Hidden;
use crate::randomness::{self, Draw};
use crate::scope::{self, Level};
use crate::variable::{Value, Variable};

/// A value of `vmap`: batch elements along `axis`, or one value for all batch elements.
#[derive(Clone, Debug)]
pub struct Batched {
    /// The value, including the batch axis if there is one.
    pub value: Variable,
    /// The batch axis, or `None` if the value is the same for all batch elements.
    pub axis: Option<usize>,
}

impl Batched {
    /// Returns the shape and dtype of one batch element.
    pub fn spec(&self) -> Spec {
        let Spec { shape, dtype } = self.value.spec();
        match self.axis {
            Some(axis) => Spec {
                shape: shape.removed(axis),
                dtype,
            },
            None => Spec { shape, dtype },
        }
    }

    /// Returns the number of batch elements, or `None` if the value is the same for all.
    pub fn count(&self) -> Option<usize> {
        self.axis.map(|axis| self.value.shape()[axis])
    }
}

/// A value that `vmap` hides at one level.
#[derive(Debug)]
struct HiddenBatch {
    level: Level,
    batched: Batched,
}

/// Runs `f` once for all batch elements. `axes` has the batch axis of each input, or `None` for
/// inputs that are the same for every batch element. `f` sees single batch elements, and the results
/// have the batch axis in front. (This is the walk itself, for slices and for other walks: all batch
/// elements draw the same random numbers, because they are derivatives of one run.)
pub(crate) fn vmap(
    f: impl FnOnce(&[Variable]) -> Vec<Variable>,
    inputs: &[Variable],
    axes: &[Option<isize>],
) -> Vec<Variable> {
    let batched = |(value, axis): (&Variable, &Option<isize>)| Batched {
        value: value.clone(),
        axis: axis.map(|axis| bibun_array::normalize_axis("vmap", axis, value.rank())),
    };
    let inputs: Vec<Batched> = inputs.iter().zip(axes).map(batched).collect();
    let count = Batched::batch_size(&inputs);
    run_batch(f, &inputs, Draw::Shared)
        .into_iter()
        .map(|y| y.to_front(count))
        .collect()
}

/// Runs `f` on single batch elements.
pub(crate) fn run_batch(
    f: impl FnOnce(&[Variable]) -> Vec<Variable>,
    inputs: &[Batched],
    draw: Draw,
) -> Vec<Batched> {
    scope::nested(|level| {
        let count = inputs.iter().find_map(Batched::count).unwrap_or(0);
        let _drawing = randomness::drawing(level, count, draw);
        let inputs: Vec<Variable> = inputs.iter().map(|x| x.clone().hidden(level)).collect();
        f(&inputs).iter().map(|y| split(y, level)).collect()
    })
}

impl Batched {
    /// Returns the value as one batch element sees it, at `level`.
    pub(crate) fn hidden(self, level: Level) -> Variable {
        Variable::from_value(Value::hiding(HiddenBatch {
            level,
            batched: self,
        }))
    }

    /// Returns the elements of the array below all hidden values: all batch elements, or the primals.
    #[track_caller]
    pub(crate) fn all(x: &Variable) -> Array {
        let first = |hidden: &Arc<dyn Hidden>| hidden.parts().first().map(|&x| x.clone());
        match x.look(|value| value.hidden().and_then(first)) {
            Some(hidden) => Self::all(&hidden),
            None => x.array(),
        }
    }
}

/// Returns the batch elements of a value at `level`.
fn split(x: &Variable, level: Level) -> Batched {
    let lost = x.edge().lost_at();
    x.look(|value| match value.hidden_at(level) {
        Some(HiddenBatch { batched, .. }) => {
            let Batched { value, axis } = batched.clone();
            let value = match lost {
                Some(location) if !value.has_history() => value.lost_at(location),
                Some(_) | None => value,
            };
            Batched { value, axis }
        }
        None => Batched {
            value: x.clone(),
            axis: None,
        },
    })
}

impl Hidden for HiddenBatch {
    fn level(&self) -> Level {
        self.level
    }

    fn spec(&self) -> Spec {
        self.batched.spec()
    }

    fn dtype(&self) -> DType {
        self.batched.value.dtype()
    }

    fn hidden_by(&self) -> (&'static str, &'static str) {
        (
            "vmap",
            "choose by where_ instead of by the values of one batch element",
        )
    }

    fn parts(&self) -> Items<&Variable> {
        items([&self.batched.value])
    }

    fn is_differentiated(&self) -> bool {
        false
    }

    fn detach(&self) -> Variable {
        let Batched { value, axis } = &self.batched;
        let (value, axis) = (value.detach(), *axis);
        Batched { value, axis }.hidden(self.level)
    }

    fn run(
        &self,
        function: &dyn AnyFunction,
        inputs: Items<Variable>,
        call: &Call<'_>,
    ) -> Items<Arc<Value>> {
        let level = self.level;
        let batched = items(inputs.iter().map(|input| split(input, level)));
        drop(inputs);
        let outputs: Items<Batched> = if batched.iter().all(|input| input.axis.is_none()) {
            let inputs = items(batched.into_iter().map(|input| input.value));
            let outputs = function.apply(inputs, call.location).into_iter();
            items(outputs.map(|value| Batched { value, axis: None }))
        } else {
            randomness::in_rule(level, || ask_batch(function, batched, call))
        };
        let hide = |batched| Arc::new(Value::hiding(HiddenBatch { level, batched }));
        items(outputs.into_iter().map(hide))
    }
}
