//! The state of an optimizer whose parts are on many processes.

use rustc_hash::FxHashMap;

use super::buckets::Parameter;
#[cfg(feature = "npz")]
use super::communicator::Communicator;
#[cfg(feature = "npz")]
use crate::serializers::State;

/// Returns a function from the names of an optimizer's state to the process that keeps the value, or `None`
/// for what all keep.
pub(super) fn owner(parameters: &[Parameter]) -> impl Fn(&str) -> Option<usize> + use<> {
    let owners = parameters.iter();
    let owners: FxHashMap<String, usize> = owners
        .map(|parameter| (parameter.name.clone(), parameter.owner))
        .collect();
    move |name| {
        let name = name.strip_prefix("parameters/")?;
        let (name, _) = name.rsplit_once('/').unwrap_or(("", name));
        owners.get(name).copied()
    }
}

/// Returns the state of all processes: of each parameter that of its owner. A collective.
#[cfg(feature = "npz")]
#[track_caller]
pub(super) fn gathered(world: &Communicator, parameters: &[Parameter], own: State) -> State {
    let owner = owner(parameters);
    let kept = own.filter(|name| owner(name).is_none_or(|owner| owner == world.rank()));
    let bytes = kept
        .to_npz()
        .expect("the state of an optimizer has no texts that end in NUL");
    let all = world.gather_bytes(&bytes);
    let all = all
        .iter()
        .map(|bytes| State::from_npz(bytes).expect("it was written so"));
    let all: Vec<State> = all.collect();
    let mut whole = all[0].filter(|name| owner(name).is_none());
    for (name, value) in all.iter().flat_map(State::iter) {
        if owner(name).is_some() {
            whole.insert(name, value.clone());
        }
    }
    whole
}
