//! The batching walk: each function's `batch` rule runs all lanes at once.

use std::sync::Arc;

use crate::error::{Error, Place, asked_at, raise};
use crate::function::{AnyFunction, Items, Spec};
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
pub(crate) struct Batched {
    pub(crate) level: Level,
    pub(crate) lane: Lane,
}

/// Runs `f` once for all lanes: `axes` says for each input along which axis its lanes lie, `None`
/// for inputs that are the same in every lane. `f` sees single lanes; the results have the lanes
/// on their first axis. (The interface for one function over slices; any order nests.)
///
/// # Panics
/// If no input has lanes, their numbers differ, an axis does not exist, or `f` reads the elements
/// of a lane.
///
/// ```
/// use bibun::{vmap, Variable};
/// let x = Variable::new([[1.0, 2.0], [3.0, 4.0]]);
/// let w = Variable::new([10.0, 1.0]);
/// let y = vmap(|v| vec![(&v[0] * &v[1]).sum(..)], &[x, w], &[Some(0), None]);
/// assert_eq!(y[0].to_vec::<f64>(), [12.0, 34.0]);
/// ```
#[track_caller]
pub fn vmap(
    f: impl FnOnce(&[Variable]) -> Vec<Variable>,
    inputs: &[Variable],
    axes: &[Option<isize>],
) -> Vec<Variable> {
    if inputs.len() != axes.len() {
        let what = format!("{} inputs, but {} axes", inputs.len(), axes.len());
        raise(Error::argument("vmap", what));
    }
    let mut lanes: Vec<Lane> = Vec::with_capacity(inputs.len());
    for (input, &axis) in inputs.iter().zip(axes) {
        // In a closure the caller's place would be lost.
        #[allow(clippy::manual_map)]
        let axis = match axis {
            Some(axis) => Some(bibun_array::normalize_axis("vmap", axis, input.rank())),
            None => None,
        };
        let value = input.clone();
        lanes.push(Lane { value, axis });
    }
    let mut counts = lanes.iter().filter_map(Lane::count);
    let Some(count) = counts.next() else {
        raise(Error::argument("vmap", "no input has an axis of lanes"))
    };
    if let Some(other) = counts.find(|&other| other != count) {
        let what = format!("one input has {count} lanes, another {other}");
        raise(Error::argument("vmap", what));
    }
    run_lanes(f, &lanes)
        .into_iter()
        .map(|lane| lane.to_front(count))
        .collect()
}

/// Runs `f` on single lanes.
pub(crate) fn run_lanes(f: impl FnOnce(&[Variable]) -> Vec<Variable>, lanes: &[Lane]) -> Vec<Lane> {
    scope::nested(|level| {
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
    match &*x.value() {
        Value::Batched(batched) if batched.level == level => batched.lane.clone(),
        _ => Lane {
            value: x.clone(),
            axis: None,
        },
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
    let lanes: Items<Lane> = inputs.iter().map(|input| split(input, level)).collect();
    drop(inputs);
    let outputs: Items<Lane> = if lanes.iter().all(|lane| lane.axis.is_none()) {
        let inputs = lanes.into_iter().map(|lane| lane.value).collect();
        let outputs = function.apply(inputs, place);
        outputs
            .into_iter()
            .map(|value| Lane { value, axis: None })
            .collect()
    } else {
        asked_at(place, || function.batch(lanes))
    };
    assert_eq!(
        outputs.len(),
        output_specs.len(),
        "{}: wrong number of outputs",
        function.name()
    );
    for (i, (lane, expected)) in outputs.iter().zip(output_specs).enumerate() {
        if lane.spec() != *expected {
            raise(Error::WrongRule {
                function: function.name(),
                rule: "batch",
                argument: format!("output {i}"),
                found: Box::new(lane.spec()),
                expected: Box::new(expected.clone()),
            });
        }
    }
    outputs
        .into_iter()
        .map(|lane| Arc::new(Value::Batched(Batched { level, lane })))
        .collect()
}
