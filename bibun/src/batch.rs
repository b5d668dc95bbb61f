//! The batching walk: each function's `batch` rule runs all lanes at once.

use std::sync::Arc;

use bibun_array::Array;

use crate::error::{Error, Place, asked_at, caller, raise};
use crate::function::{AnyFunction, Items, Spec, items};
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
#[derive(Clone, Debug)]
pub(crate) struct Batched {
    pub(crate) level: Level,
    pub(crate) lane: Lane,
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
            .map(|lane| {
                Variable::from_value(Value::Batched(Batched {
                    level,
                    lane: lane.clone(),
                }))
            })
            .collect();
        f(&inputs).iter().map(|y| split(y, level)).collect()
    })
}

/// A value's lanes at `level`.
fn split(x: &Variable, level: Level) -> Lane {
    let lost = x.edge().lost_at();
    x.look(|value| match value {
        Value::Batched(batched) if batched.level == level => {
            let Lane { value, axis } = batched.lane.clone();
            let value = match lost {
                Some(place) if !value.has_history() => value.lost_at(place),
                Some(_) | None => value,
            };
            Lane { value, axis }
        }
        _ => Lane {
            value: x.clone(),
            axis: None,
        },
    })
}

impl Lane {
    /// The elements of every lane of all transformations that hide a value.
    pub(crate) fn all(x: &Variable) -> Array {
        match &*x.value() {
            Value::Array(elements) => elements.clone(),
            Value::Dual(dual) => Self::all(&dual.primal),
            Value::Batched(Batched { lane, .. }) => Self::all(&lane.value),
        }
    }

    /// One lane by itself, as a plain constant (of zeros if there is none): what a value looks
    /// like inside of all transformations that hide it.
    pub(crate) fn specimen(x: &Variable) -> Variable {
        match &*x.value() {
            Value::Array(elements) => Variable::constant(elements.clone()),
            Value::Dual(dual) => Self::specimen(&dual.primal),
            Value::Batched(Batched { lane, .. }) => {
                let lanes = Self::specimen(&lane.value).array();
                Variable::constant(match lane.axis {
                    None => lanes,
                    Some(axis) if lanes.shape()[axis] > 0 => {
                        lanes.move_axis(axis as isize, 0).slice(bibun_array::s![0])
                    }
                    Some(axis) => Array::zeros(lanes.shape().removed(axis), lanes.dtype()),
                })
            }
        }
    }
}

/// Runs a function on inputs of which some have lanes at `level`.
pub(crate) fn run(
    function: &dyn AnyFunction,
    inputs: Items<Variable>,
    level: Level,
    output_specs: &[Spec],
    place: Place,
) -> Items<Arc<Value>> {
    let lanes = items(inputs.iter().map(|input| split(input, level)));
    drop(inputs);
    let outputs: Items<Lane> = if lanes.iter().all(|lane| lane.axis.is_none()) {
        let inputs = items(lanes.into_iter().map(|lane| lane.value));
        let outputs = function.apply(inputs, place).into_iter();
        items(outputs.map(|value| Lane { value, axis: None }))
    } else {
        asked_at(function.name(), place, || {
            randomness::in_rule(level, || function.batch(lanes))
        })
    };
    if outputs.len() != output_specs.len() {
        raise(Error::wrong_number(
            function.name(),
            "batch",
            outputs.len(),
            output_specs.len(),
        ));
    }
    for (i, (lane, expected)) in outputs.iter().zip(output_specs).enumerate() {
        if lane.spec() != *expected {
            raise(Error::WrongRule {
                function: function.name(),
                rule: "batch",
                argument: format!("output {i}"),
                found: Box::new(lane.spec()),
                expected: Box::new(expected.clone()),
                place: caller(),
            });
        }
    }
    let hide = |lane| Arc::new(Value::Batched(Batched { level, lane }));
    items(outputs.into_iter().map(hide))
}
