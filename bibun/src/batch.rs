//! The batching walk: each function's `batch` rule runs all lanes at once.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use bibun_array::{Array, Shape};

use crate::error::{Error, Place, asked_at, raise};
use crate::function::{AnyFunction, Items, Spec, items};
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
///
/// # Panics
/// If no input has lanes, their numbers differ, an axis does not exist, or `f` reads the elements
/// of a lane.
#[track_caller]
pub(crate) fn vmap(
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
    run_lanes(f, &lanes, Randomness::Same)
        .into_iter()
        .map(|lane| lane.to_front(count))
        .collect()
}

/// Runs `f` on single lanes.
pub(crate) fn run_lanes(
    f: impl FnOnce(&[Variable]) -> Vec<Variable>,
    lanes: &[Lane],
    randomness: Randomness,
) -> Vec<Lane> {
    scope::nested(|level| {
        let count = lanes.iter().find_map(Lane::count).unwrap_or(0);
        let _draws = Draws::begin(level, count, randomness);
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
    x.look(|value| match value {
        Value::Batched(batched) if batched.level == level => batched.lane.clone(),
        _ => Lane {
            value: x.clone(),
            axis: None,
        },
    })
}

/// Whether lanes of `vmap` draw random numbers of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Randomness {
    /// Each lane draws its own, as turns of a loop would.
    Different,
    /// All lanes draw the same.
    Same,
    /// A draw is an error: in lanes that follow others with which they would have to share.
    #[doc(hidden)]
    Impossible,
}

thread_local! {
    /// The transformations whose lanes draw, from the outermost in.
    static DRAWS: RefCell<Vec<Draws>> = const { RefCell::new(Vec::new()) };
    /// How the lanes draw for which a batch rule is running.
    static RULE: Cell<Randomness> = const { Cell::new(Randomness::Different) };
}

/// How the lanes at one level draw random numbers.
#[derive(Clone, Copy)]
struct Draws {
    level: Level,
    count: usize,
    randomness: Randomness,
}

/// Ends the draws of a level, also when a panic passes.
struct EndDraws;

impl Draws {
    fn begin(level: Level, count: usize, randomness: Randomness) -> EndDraws {
        let draws = Self {
            level,
            count,
            randomness,
        };
        DRAWS.with_borrow_mut(|all| all.push(draws));
        EndDraws
    }
}

impl Drop for EndDraws {
    fn drop(&mut self) {
        DRAWS.with_borrow_mut(|all| all.pop());
    }
}

/// Runs a batch rule for the lanes at `level`, which draw nothing meanwhile: where the rule runs a
/// function in lanes of its own, those draw in their place, as [`randomness_of_rule`] says.
fn in_rule<T>(level: Level, rule: impl FnOnce() -> T) -> T {
    struct PutBack(Option<(usize, Draws)>, Randomness);
    impl Drop for PutBack {
        fn drop(&mut self) {
            if let Some((at, draws)) = self.0.take() {
                DRAWS.with_borrow_mut(|all| all.insert(at, draws));
            }
            RULE.set(self.1);
        }
    }
    let put_aside = DRAWS.with_borrow_mut(|all| {
        let at = all.iter().rposition(|draws| draws.level == level)?;
        Some((at, all.remove(at)))
    });
    let randomness = put_aside.map_or(Randomness::Different, |(_, draws)| draws.randomness);
    let _put_back = PutBack(put_aside, RULE.replace(randomness));
    rule()
}

/// How the lanes draw for which a batch rule is running.
pub(crate) fn randomness_of_rule() -> Randomness {
    RULE.get()
}

/// Runs `f` on one lane by itself: what it draws belongs to no others.
pub(crate) fn alone<T>(f: impl FnOnce() -> T) -> T {
    struct PutBack(Vec<Draws>);
    impl Drop for PutBack {
        fn drop(&mut self) {
            DRAWS.set(std::mem::take(&mut self.0));
        }
    }
    let _put_back = PutBack(DRAWS.take());
    f()
}

impl Lane {
    /// Random numbers: `draw` fills an array of the shape it is given, which is that of a single
    /// lane with an axis in front for every `vmap` around whose lanes draw their own.
    ///
    /// # Panics
    /// If `vmap` runs in chunks whose lanes shall all draw the same.
    #[track_caller]
    pub(crate) fn random(shape: Shape, draw: impl FnOnce(Shape) -> Array) -> Variable {
        let draws = DRAWS.with_borrow(Clone::clone);
        if draws
            .iter()
            .any(|draws| draws.randomness == Randomness::Impossible)
        {
            let what = "lanes of several chunks cannot draw the same random numbers; draw them \
                        before, and let the function capture them";
            raise(Error::argument("vmap", what));
        }
        let own: Vec<Draws> = draws
            .into_iter()
            .filter(|draws| draws.randomness == Randomness::Different)
            .collect();
        let sizes: Vec<usize> = own
            .iter()
            .map(|draws| draws.count)
            .chain(shape.iter().copied())
            .collect();
        let all = Variable::constant(draw(Shape::from(sizes)));
        own.into_iter().fold(all, |value, Draws { level, .. }| {
            let lane = Lane {
                value,
                axis: Some(0),
            };
            Variable::from_value(Value::Batched(Batched { level, lane }))
        })
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
        asked_at(place, || in_rule(level, || function.batch(lanes)))
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
            });
        }
    }
    let hide = |lane| Arc::new(Value::Batched(Batched { level, lane }));
    items(outputs.into_iter().map(hide))
}
