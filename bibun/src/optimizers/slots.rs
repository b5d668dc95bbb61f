//! The state that an optimizer has for each parameter, by name.

use std::sync::Arc;

use bibun_array::{Array, Complex, Scalar};
use indexmap::map::Entry;
use indexmap::{IndexMap, IndexSet};
use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::rule::UpdateRule;
use crate::error::{Error, raise};
use crate::function::Spec;
use crate::links::{Chain, for_each_parameter};
use crate::node::Key;
use crate::serializers::{State, StateError};
use crate::variable::Variable;

/// The state of one parameter.
#[derive(Debug)]
pub(super) struct Slot<const N: usize> {
    /// Holding the parameter also keeps its key from being reused for another.
    pub parameter: Variable,
    /// The name under which the parameter was first seen, with a number appended if a parameter of another model has
    /// it.
    pub name: Arc<str>,
    is_numbered: bool,
    pub memory: Memory<N>,
}

/// The parameters of a step, each at a place.
pub(super) trait Parameters<const N: usize> {
    /// Returns the name of a parameter.
    fn name(&self, place: usize) -> &str;
    /// Returns its elements.
    fn array(&self, place: usize) -> Array;
    /// Returns its state.
    fn memory(&mut self, place: usize) -> &mut Memory<N>;
    /// Changes its elements and the arrays of its state.
    #[track_caller]
    fn change(&mut self, place: usize, change: impl FnOnce(&mut Array, &mut [Array; N]));
}

/// The leaves that have been seen.
impl<const N: usize> Parameters<N> for Slots<N> {
    fn name(&self, place: usize) -> &str {
        &self.seen[place].name
    }

    fn array(&self, place: usize) -> Array {
        self.seen[place].parameter.array()
    }

    fn memory(&mut self, place: usize) -> &mut Memory<N> {
        &mut self.seen[place].memory
    }

    #[track_caller]
    fn change(&mut self, place: usize, change: impl FnOnce(&mut Array, &mut [Array; N])) {
        let Slot {
            parameter, memory, ..
        } = &mut self.seen[place];
        parameter.update_in_place(|w| change(w, &mut memory.arrays));
    }
}

/// The numbers that change.
#[derive(Clone, Debug)]
pub(super) struct Memory<const N: usize> {
    pub steps: u64,
    pub arrays: [Array; N],
}

impl<const N: usize> Memory<N> {
    /// Creates the state before the first step.
    pub(super) fn initial<R: UpdateRule<N, G>, const G: usize>(spec: &Spec) -> Self {
        // Both parts of a complex number begin alike.
        let scalar = |value: f64| match spec.dtype.is_complex() {
            true => Scalar::from(Complex::new(value, value)),
            false => Scalar::from(value),
        };
        let full = |value: f64| Array::full(&spec.shape, scalar(value).cast(spec.dtype));
        Self {
            steps: 0,
            arrays: R::INITIAL.map(full),
        }
    }
}

/// The state of every parameter that has had a gradient, and of those in a loaded state that have
/// not been seen yet.
#[derive(Debug, Default)]
pub(super) struct Slots<const N: usize> {
    seen: IndexMap<Key, Slot<N>, FxBuildHasher>,
    waiting: Memories<N>,
}

/// The state of parameters by name.
pub(super) type Memories<const N: usize> = IndexMap<Arc<str>, Memory<N>, FxBuildHasher>;

impl<const N: usize> Slots<N> {
    /// Returns the index of the slot of a model's parameter, adding one if it is new.
    pub(super) fn find<R: UpdateRule<N, G>, const G: usize>(
        &mut self,
        model: &dyn Chain,
        name: &str,
        parameter: &Variable,
    ) -> usize {
        let key = parameter.key().expect("a parameter is a leaf");
        if let Some(place) = self.seen.get_index_of(&key) {
            return place;
        }
        if self.seen.values().any(|slot| *slot.name == *name) {
            self.rename(model);
        }
        let names = || self.seen.values().map(|slot| &*slot.name);
        let own = unused(name, |name| names().any(|other| other == name));
        let (is_numbered, name) = (own != name, Arc::<str>::from(own));
        let spec = spec_of_state(&parameter.spec());
        // What does not fit stays where it is.
        if let Some(memory) = self.waiting.get(&name) {
            for (array, part) in memory.arrays.iter().zip(R::STATE) {
                expect_spec(&name, part, array, &spec);
            }
        }
        let loaded = self.waiting.shift_remove(&name);
        let memory = loaded.unwrap_or_else(|| Memory::initial::<R, G>(&spec));
        let slot = Slot {
            parameter: parameter.clone(),
            name,
            is_numbered,
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

    /// Gives parameters the names that they have in a model now, where another parameter of it has their old one, as
    /// when a layer was put in front: a state could not tell them apart otherwise.
    fn rename(&mut self, model: &dyn Chain) {
        let mut now: FxHashMap<Key, Arc<str>> = FxHashMap::default();
        for_each_parameter(model, |name, parameter| {
            now.extend(parameter.key().map(|key| (key, Arc::from(name))));
        });
        let names: FxHashSet<Arc<str>> = now.values().cloned().collect();
        let elsewhere = self.seen.iter().filter(|(key, _)| !now.contains_key(*key));
        let elsewhere = elsewhere
            .map(|(_, slot)| &slot.name)
            .chain(self.waiting.keys());
        let elsewhere: FxHashSet<Arc<str>> = elsewhere.cloned().collect();
        let moved = |key: &Key, own: &Arc<str>| {
            let name = now.get(key).filter(|&name| name != own);
            name.filter(|_| names.contains(own)).cloned()
        };
        let moves = self.seen.iter().map(|(key, slot)| moved(key, &slot.name));
        let moves: Vec<Option<Arc<str>>> = moves.collect();
        // All or none: one that stayed could have the name that another one gets.
        if moves.iter().flatten().any(|name| elsewhere.contains(name)) {
            return;
        }
        for (slot, name) in self.seen.values_mut().zip(moves) {
            if let Some(name) = name {
                (slot.name, slot.is_numbered) = (name, false);
            }
        }
    }

    /// Creates the state of parameters that have not been seen yet.
    pub(super) fn of(waiting: Memories<N>) -> Self {
        let seen = IndexMap::default();
        Self { seen, waiting }
    }

    /// Returns the state of each parameter, with its name.
    pub(super) fn memories(&self) -> impl Iterator<Item = (&Arc<str>, &Memory<N>)> {
        let seen = self.seen.values().map(|slot| (&slot.name, &slot.memory));
        seen.chain(&self.waiting)
    }

    /// Returns the name of a parameter that was seen under a name that another one had already.
    pub(super) fn numbered(&self) -> Option<&str> {
        let mut numbered = self.seen.values().filter(|slot| slot.is_numbered);
        Some(&numbered.next()?.name)
    }

    /// Returns the whole state, as `name/m`, `name/steps`.
    pub(super) fn state<R: UpdateRule<N, G>, const G: usize>(&self) -> State {
        let mut state = State::new();
        for (name, memory) in self.memories() {
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
    ) -> Result<Memories<N>, StateError> {
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
        let mut memories = Memories::default();
        for name in names {
            let seen = self.seen.values().find(|slot| *slot.name == *name);
            let steps = state.count(&within(name, STEPS));
            let steps = steps.map_err(|wrong| error.add(wrong)).unwrap_or_default();
            let arrays = R::STATE.map(|part| {
                let part = within(name, part);
                let array = match seen {
                    Some(slot) => {
                        let Spec { shape, dtype } = spec_of_state(&slot.parameter.spec());
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
            memories.insert(name.into(), Memory { steps, arrays });
        }
        error.or_ok().map(|()| memories)
    }

    /// Continues from the memories that were read; a parameter without one counts as not having
    /// made a step.
    pub(super) fn replace(&mut self, mut memories: Memories<N>) {
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
pub(super) fn spec_of_state(parameter: &Spec) -> Spec {
    Spec::new(&parameter.shape, parameter.dtype.accumulator())
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
