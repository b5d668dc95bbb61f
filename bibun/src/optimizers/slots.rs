//! The state that an optimizer has for each parameter, by name.

use bibun_array::{Array, Scalar};
use indexmap::map::Entry;
use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxBuildHasher;

use super::rule::UpdateRule;
use crate::error::{Error, raise};
use crate::function::Spec;
use crate::node::Key;
use crate::serializers::{State, StateError};
use crate::variable::Variable;

/// The state of one parameter.
#[derive(Debug)]
pub(super) struct Slot<const N: usize> {
    /// Holding the parameter also keeps its key from being reused for another.
    pub parameter: Variable,
    /// The name under which the parameter was first seen, with a number appended if another has it.
    pub name: String,
    pub memory: Memory<N>,
}

/// The numbers that change.
#[derive(Clone, Debug)]
pub(super) struct Memory<const N: usize> {
    pub steps: u64,
    pub arrays: [Array; N],
}

/// The state of every parameter that has had a gradient, and of those in a loaded state that have
/// not been seen yet.
#[derive(Debug, Default)]
pub(super) struct Slots<const N: usize> {
    seen: IndexMap<Key, Slot<N>, FxBuildHasher>,
    waiting: IndexMap<String, Memory<N>>,
}

impl<const N: usize> Slots<N> {
    /// Returns the index of a parameter's slot, adding one if it is new.
    pub(super) fn find<R: UpdateRule<N, G>, const G: usize>(
        &mut self,
        name: &str,
        parameter: &Variable,
    ) -> usize {
        let key = parameter.key().expect("a parameter is a leaf");
        let names = || self.seen.values().map(|slot| &*slot.name);
        if let Some(place) = self.seen.get_index_of(&key) {
            return place;
        }
        let name = unused(name, |name| names().any(|other| other == name));
        let spec = spec_of_state(parameter);
        let memory = match self.waiting.shift_remove(&name) {
            Some(memory) => {
                for (array, part) in memory.arrays.iter().zip(R::STATE) {
                    expect_spec(&name, part, array, &spec);
                }
                memory
            }
            None => Memory {
                steps: 0,
                arrays: R::INITIAL
                    .map(|value| Array::full(&spec.shape, Scalar::from(value).cast(spec.dtype))),
            },
        };
        let slot = Slot {
            parameter: parameter.clone(),
            name,
            memory,
        };
        match self.seen.entry(key) {
            Entry::Vacant(entry) => {
                let place = entry.index();
                entry.insert(slot);
                place
            }
            Entry::Occupied(_) => unreachable!("it was looked for above"),
        }
    }

    pub(super) fn at(&self, place: usize) -> &Slot<N> {
        &self.seen[place]
    }

    pub(super) fn at_mut(&mut self, place: usize) -> &mut Slot<N> {
        &mut self.seen[place]
    }

    /// Returns the whole state, as `name/m`, `name/steps`.
    pub(super) fn state<R: UpdateRule<N, G>, const G: usize>(&self) -> State {
        let mut state = State::new();
        let seen = self.seen.values().map(|slot| (&slot.name, &slot.memory));
        for (name, memory) in seen.chain(&self.waiting) {
            for (part, array) in R::STATE.into_iter().zip(&memory.arrays) {
                state.insert(within(name, part), array.clone());
            }
            state.insert(within(name, STEPS), memory.steps);
        }
        state
    }

    /// Reads a state, if it fits the rule and the parameters that have been seen.
    pub(super) fn read<R: UpdateRule<N, G>, const G: usize>(
        &self,
        state: &State,
    ) -> Result<IndexMap<String, Memory<N>>, StateError> {
        let mut error = StateError::default();
        let mut names = IndexSet::new();
        for (whole, _) in state.iter() {
            let (name, part) = whole.rsplit_once('/').unwrap_or(("", whole));
            if part != STEPS && !R::STATE.contains(&part) {
                error.unexpected.push(whole.to_owned());
            } else {
                names.insert(name);
            }
        }
        let mut memories = IndexMap::new();
        for name in names {
            let seen = self.seen.values().find(|slot| slot.name == name);
            let steps = state.count(&within(name, STEPS));
            let steps = steps.map_err(|wrong| error.add(wrong)).unwrap_or_default();
            let arrays = R::STATE.map(|part| {
                let part = within(name, part);
                let array = match seen {
                    Some(slot) => {
                        let Spec { shape, dtype } = spec_of_state(&slot.parameter);
                        state.array_like(&part, &Array::zeros(shape, dtype))
                    }
                    None => state.array(&part),
                };
                match array {
                    Ok(array) => array.to_row_major(),
                    Err(wrong) => {
                        error.add(wrong);
                        Array::scalar(0.0)
                    }
                }
            });
            memories.insert(name.to_owned(), Memory { steps, arrays });
        }
        error.or_ok().map(|()| memories)
    }

    /// Continues from the memories that were read; a parameter without one counts as not having
    /// made a step.
    pub(super) fn replace(&mut self, mut memories: IndexMap<String, Memory<N>>) {
        self.seen
            .retain(|_, slot| match memories.shift_remove(&slot.name) {
                Some(memory) => {
                    slot.memory = memory;
                    true
                }
                None => false,
            });
        self.waiting = memories;
    }
}

/// The name of the number of steps of a parameter.
const STEPS: &str = "steps";

/// Returns the name of a part of a parameter's state; a lone parameter has no name.
pub(super) fn within(name: &str, part: &str) -> String {
    match name {
        "" => part.to_owned(),
        _ => format!("{name}/{part}"),
    }
}

/// Returns this name if it is not used, otherwise this name with the first number from 2 that makes
/// it unused.
pub(super) fn unused(name: &str, is_used: impl Fn(&str) -> bool) -> String {
    let numbered = (2..).map(|number| format!("{name}#{number}"));
    std::iter::once(name.to_owned())
        .chain(numbered)
        .find(|name| !is_used(name))
        .expect("there is no end of numbers")
}

/// Returns the shape and dtype of a parameter's state. The state is not rounded to 16 bits, because
/// a step may change it by less than their precision.
fn spec_of_state(parameter: &Variable) -> Spec {
    let Spec { shape, dtype } = parameter.spec();
    Spec::new(shape, dtype.accumulator())
}

/// Checks that a loaded array has the shape and dtype of the state of the parameter that has
/// appeared for it.
#[track_caller]
pub(super) fn expect_spec(name: &str, part: &str, array: &Array, expected: &Spec) {
    let found = Spec::new(array.shape(), array.dtype());
    if found != *expected {
        let part = within(name, part);
        let what = format!("`{part}` of the loaded state is {found}, the parameter's {expected}");
        raise(Error::argument("update", what));
    }
}
