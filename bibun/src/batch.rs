//! The batching walk: each function's `batch` rule runs all lanes at once.

use std::sync::Arc;

use bibun_array::{Array, DType};

use crate::apply::Call;
use crate::context::ask_batch;
use crate::function::{AnyFunction, Items, Spec, items};
use crate::hidden::Hidden;
use crate::randomness::{self, Draw};
use crate::scope::{self, Level};
use crate::variable::{Value, Variable};

/// All lanes of a value: they lie along `axis`, or every lane is the same value.
#[derive(Clone, Debug)]
pub struct Lane {
    /// The value, with the lanes' axis if there is one.
    pub value: Variable,
    /// Where the lanes lie; `None` if the value is the same for all.
    pub axis: Option<usize>,
}

impl Lane {
    /// What one lane looks like.
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

    /// How many lanes there are; `None` if the value is the same for all.
    pub fn count(&self) -> Option<usize> {
        self.axis.map(|axis| self.value.shape()[axis])
    }
}

/// The lanes of `vmap` at one level.
#[derive(Debug)]
struct Batched {
    level: Level,
    lane: Lane,
}

/// Runs `f` once for all lanes: `axes` says for each input along which axis its lanes lie, `None`
/// for inputs that are the same in every lane. `f` sees single lanes; the results have the lanes
/// on their first axis. (The walk itself, over slices, and for walks: all lanes draw the same random
/// numbers, for they are derivatives of one run.)
pub(crate) fn vmap(
    f: impl FnOnce(&[Variable]) -> Vec<Variable>,
    inputs: &[Variable],
    axes: &[Option<isize>],
) -> Vec<Variable> {
    let lane = |(value, axis): (&Variable, &Option<isize>)| Lane {
        value: value.clone(),
        axis: axis.map(|axis| bibun_array::normalize_axis("vmap", axis, value.rank())),
    };
    let lanes: Vec<Lane> = inputs.iter().zip(axes).map(lane).collect();
    let count = Lane::common_count(&lanes);
    run_lanes(f, &lanes, Draw::Shared)
        .into_iter()
        .map(|lane| lane.to_front(count))
        .collect()
}

/// Runs `f` on single lanes.
pub(crate) fn run_lanes(
    f: impl FnOnce(&[Variable]) -> Vec<Variable>,
    lanes: &[Lane],
    draw: Draw,
) -> Vec<Lane> {
    scope::nested(|level| {
        let count = lanes.iter().find_map(Lane::count).unwrap_or(0);
        let _drawing = randomness::drawing(level, count, draw);
        let inputs: Vec<Variable> = lanes
            .iter()
            .map(|lane| lane.clone().hidden(level))
            .collect();
        f(&inputs).iter().map(|y| split(y, level)).collect()
    })
}

impl Lane {
    /// The value as one lane sees it, at `level`.
    pub(crate) fn hidden(self, level: Level) -> Variable {
        Variable::from_value(Value::hiding(Batched { level, lane: self }))
    }

    /// The elements of every lane of all transformations that hide a value.
    #[track_caller]
    pub(crate) fn all(x: &Variable) -> Array {
        let first = |hidden: &Arc<dyn Hidden>| hidden.parts().first().map(|&x| x.clone());
        match x.look(|value| value.hidden().and_then(first)) {
            Some(hidden) => Self::all(&hidden),
            None => x.array(),
        }
    }
}

/// A value's lanes at `level`.
fn split(x: &Variable, level: Level) -> Lane {
    let lost = x.edge().lost_at();
    x.look(|value| match value.hidden_at(level) {
        Some(Batched { lane, .. }) => {
            let Lane { value, axis } = lane.clone();
            let value = match lost {
                Some(place) if !value.has_history() => value.lost_at(place),
                Some(_) | None => value,
            };
            Lane { value, axis }
        }
        None => Lane {
            value: x.clone(),
            axis: None,
        },
    })
}

impl Hidden for Batched {
    fn level(&self) -> Level {
        self.level
    }

    fn spec(&self) -> Spec {
        self.lane.spec()
    }

    fn dtype(&self) -> DType {
        self.lane.value.dtype()
    }

    fn hidden_by(&self) -> (&'static str, &'static str) {
        (
            "vmap",
            "choose by where_ instead of by the values of one lane",
        )
    }

    fn parts(&self) -> Items<&Variable> {
        items([&self.lane.value])
    }

    fn is_differentiated(&self) -> bool {
        false
    }

    fn detach(&self) -> Variable {
        let Lane { value, axis } = &self.lane;
        let (value, axis) = (value.detach(), *axis);
        Lane { value, axis }.hidden(self.level)
    }

    fn run(
        &self,
        function: &dyn AnyFunction,
        inputs: Items<Variable>,
        call: &Call<'_>,
    ) -> Items<Arc<Value>> {
        let level = self.level;
        let lanes = items(inputs.iter().map(|input| split(input, level)));
        drop(inputs);
        let outputs: Items<Lane> = if lanes.iter().all(|lane| lane.axis.is_none()) {
            let inputs = items(lanes.into_iter().map(|lane| lane.value));
            let outputs = function.apply(inputs, call.place).into_iter();
            items(outputs.map(|value| Lane { value, axis: None }))
        } else {
            randomness::in_rule(level, || ask_batch(function, lanes, call))
        };
        let hide = |lane| Arc::new(Value::hiding(Batched { level, lane }));
        items(outputs.into_iter().map(hide))
    }
}
