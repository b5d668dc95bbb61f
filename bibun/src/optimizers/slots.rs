//! The state that an optimizer has for each parameter, by name.

use std::sync::Arc;

use bibun_array::{Array, Complex, Scalar};
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
    /// The name of the parameter in its model at the last step of the whole model, or of its largest part that has made
    /// one.
    pub name: Arc<str>,
    pub memory: Memory<N>,
    /// Whether the memory was loaded, by this name, and has made no step since.
    is_loaded: bool,
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
    /// Whether the state was loaded and none of its parameters has been seen yet.
    are_loaded: bool,
}

/// The state of parameters by name.
pub(super) type Memories<const N: usize> = IndexMap<Arc<str>, Memory<N>, FxBuildHasher>;

impl<const N: usize> Slots<N> {
    /// Returns the place of a model's parameter, adding one if it is new; or `None` if the names of all have to be
    /// [settled](Self::settle) first, because it has another name now, or one that another parameter has.
    pub(super) fn find<R: UpdateRule<N, G>, const G: usize>(
        &mut self,
        name: &str,
        parameter: &Variable,
        are_settled: bool,
    ) -> Option<usize> {
        let key = parameter.key().expect("a parameter is a leaf");
        if let Some((place, _, slot)) = self.seen.get_full_mut(&key) {
            if !is_part_of(&slot.name, name) {
                return None;
            }
            slot.is_loaded = false;
            return Some(place);
        }
        // The parameter that has this name may be gone.
        if !are_settled && self.seen.values().any(|slot| *slot.name == *name) {
            return None;
        }
        let name = Arc::<str>::from(name);
        let spec = spec_of_state(&parameter.spec());
        // What does not fit stays where it is.
        if let Some(memory) = self.waiting.get(&name) {
            for (array, part) in memory.arrays.iter().zip(R::STATE) {
                expect_spec(&name, part, array, &spec);
            }
        }
        let loaded = self.waiting.shift_remove(&name);
        let memory = loaded.unwrap_or_else(|| Memory::initial::<R, G>(&spec));
        self.are_loaded = false;
        let slot = Slot {
            parameter: parameter.clone(),
            name,
            memory,
            is_loaded: false,
        };
        let (place, _) = self.seen.insert_full(key, slot);
        Some(place)
    }

    /// Gives the parameters of a model the names that they have in it now, and drops those that nobody else has: a
    /// saved state would have moments under names that belong to others.
    pub(super) fn settle(&mut self, model: &dyn Chain) {
        let mut now: FxHashMap<Key, Arc<str>> = FxHashMap::default();
        for_each_parameter(model, |name, parameter| {
            now.extend(parameter.key().map(|key| (key, Arc::from(name))));
        });
        self.seen.retain(|key, slot| {
            let Some(name) = now.get(key) else {
                return !slot.parameter.is_held_alone();
            };
            if is_part_of(&slot.name, name) {
                return true;
            }
            if slot.is_loaded && !is_part_of(name, &slot.name) {
                // What was loaded belongs to the parameter that has its name now.
                self.waiting
                    .insert(Arc::clone(&slot.name), slot.memory.clone());
                return false;
            }
            slot.name = Arc::clone(name);
            // It has moments of its own.
            self.waiting.shift_remove(name);
            true
        });
    }

    /// Returns the parameters that are in use: all but those that nobody else has, unless the whole model is gone.
    fn in_use(&self) -> impl Iterator<Item = &Slot<N>> + Clone {
        let is_alone = |slot: &&Slot<N>| slot.parameter.is_held_alone();
        let all = self.seen.values().all(|slot| is_alone(&slot));
        self.seen
            .values()
            .filter(move |slot| all || !is_alone(slot))
    }

    /// Creates the state of parameters that have not been seen yet.
    pub(super) fn of(waiting: Memories<N>, are_loaded: bool) -> Self {
        let seen = IndexMap::default();
        Self {
            seen,
            waiting,
            are_loaded,
        }
    }

    /// Whether the state was loaded and none of its parameters has made a step since.
    pub(super) fn are_loaded(&self) -> bool {
        self.are_loaded
    }

    /// Returns the state of each parameter, with its name.
    pub(super) fn memories(&self) -> impl Iterator<Item = (&Arc<str>, &Memory<N>)> + Clone {
        let seen = self.in_use().map(|slot| (&slot.name, &slot.memory));
        seen.chain(&self.waiting)
    }

    /// Checks that names tell the parameters apart, for a function that knows them by these.
    #[track_caller]
    pub(super) fn expect_one_model(&self, function: &'static str) {
        let mut names = FxHashSet::default();
        if let Some(slot) = self.in_use().find(|slot| !names.insert(&slot.name)) {
            let name = match &*slot.name {
                "" => String::from("without a name"),
                name => format!("called `{name}`"),
            };
            let what = format!(
                "the optimizer has updated several models that are in use, with parameters {name} in each, and here it \
                 knows parameters by their names only; use one optimizer for each model, or one struct of both, and \
                 drop what is not trained any more"
            );
            raise(Error::argument(function, what));
        }
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
            let seen = self.in_use().find(|slot| *slot.name == *name);
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
        self.seen.retain(|_, slot| {
            // Another parameter may have its name by now.
            if slot.parameter.is_held_alone() {
                return false;
            }
            let memory = memories.shift_remove(&slot.name);
            slot.is_loaded = true;
            memory.map(|memory| slot.memory = memory).is_some()
        });
        self.waiting = memories;
        self.are_loaded = self.seen.is_empty() && !self.waiting.is_empty();
    }
}

/// Returns whether a parameter that has a name in a model may have the second one in a part of it.
fn is_part_of(whole: &str, part: &str) -> bool {
    let rest = whole.strip_suffix(part);
    part.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
}

/// The name of the number of steps of a parameter.
pub(super) const STEPS: &str = "steps";

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

/// Checks, at the first step after loading, that the model has a parameter that is in the loaded state: it may be
/// another model, or a part of it, where parameters have other names.
#[track_caller]
pub(super) fn expect_loaded<'a>(
    function: &'static str,
    loaded: impl Iterator<Item = &'a str> + Clone,
    model: impl Iterator<Item = &'a str> + Clone,
) {
    if model
        .clone()
        .any(|name| loaded.clone().any(|known| known == name))
    {
        return;
    }
    if let (Some(known), Some(name)) = (loaded.clone().next(), model.clone().next()) {
        let more = |names: usize| match names {
            1 => String::new(),
            _ => format!(" and {} more", names - 1),
        };
        let what = format!(
            "the loaded state is of other parameters (`{known}`{}) than the model's (`{name}`{}); use the model that \
             the state was saved with, or a new optimizer",
            more(loaded.count()),
            more(model.count()),
        );
        raise(Error::argument(function, what));
    }
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
