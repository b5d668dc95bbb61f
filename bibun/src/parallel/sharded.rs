//! The part of a model that one of many processes updates, and the state of an optimizer in such parts.

use std::sync::Arc;

use bibun_array::Array;
use rustc_hash::FxHashMap;

use super::buckets::{Division, Parameter, Plan, elements};
#[cfg(feature = "npz")]
use super::communicator::Communicator;
use crate::links::Chain;
use crate::serializers::{State, Value};
use crate::tree::{Mapper, Tree, Visitor};
use crate::variable::Variable;

/// The elements that this process updates, as leaves that the optimizer sees in place of the parameters, by
/// their names. A part of a parameter has one axis; a whole one has its shape.
#[derive(Clone, Debug)]
pub(super) struct Shard {
    plan: Arc<Plan>,
    rank: usize,
    leaves: Vec<Variable>,
}

impl Shard {
    /// Returns the part of a process, if the plan divides the parameters.
    pub(super) fn of(plan: &Arc<Plan>, rank: usize) -> Option<Self> {
        let division = plan.division.as_ref()?;
        let parameters = plan.parameters.iter().enumerate();
        let leaves =
            parameters.map(|(i, parameter)| Variable::new(part(division, i, parameter, rank)));
        Some(Self {
            leaves: leaves.collect(),
            plan: Arc::clone(plan),
            rank,
        })
    }

    fn division(&self) -> &Division {
        self.plan
            .division
            .as_ref()
            .expect("a shard is of a divided plan")
    }

    /// Puts gradients into the leaves; of a parameter without one, the leaf has none.
    pub(super) fn put(&self, gradients: &[Option<Array>]) {
        for (leaf, gradient) in self.leaves.iter().zip(gradients) {
            match gradient {
                Some(gradient) => {
                    leaf.set_grad(&Variable::constant(gradient.reshape(leaf.shape())));
                }
                None => leaf.clear_grad(),
            }
        }
    }

    /// Gives the leaves the values that the parameters have. A leaf is frozen if its parameter is, unless a
    /// gradient has come from a process where it is not.
    pub(super) fn take_values(&self) {
        let all = self.leaves.iter().zip(&self.plan.parameters).enumerate();
        for (i, (leaf, parameter)) in all {
            leaf.set_array(part(self.division(), i, parameter, self.rank));
            let is_trained = leaf.size() == 0 || leaf.grad().is_some();
            leaf.set_requires_grad(is_trained || !parameter.variable.is_frozen());
        }
    }

    /// Returns the value of a leaf.
    pub(super) fn value(&self, parameter: usize) -> Array {
        self.leaves[parameter].array()
    }

    /// Drops the gradients.
    pub(super) fn clear(&self) {
        self.leaves.iter().for_each(Variable::clear_grad);
    }

    /// Returns the part of a whole state that belongs to this process.
    pub(super) fn cut(&self, whole: &State) -> State {
        let place = places(&self.plan.parameters);
        let mut own = State::new();
        for (name, value) in whole.iter() {
            let Some(i) = place(name) else {
                own.insert(name, value.clone());
                continue;
            };
            let (part, shape) = (
                self.division().part(i, self.rank),
                self.plan.parameters[i].variable.shape(),
            );
            match value {
                _ if part.is_empty() && shape.size() > 0 => {}
                Value::Array(value) if *value.shape() == shape && part.len() < shape.size() => {
                    own.insert(name, elements(value, part).to_row_major());
                }
                _ => own.insert(name, value.clone()),
            }
        }
        own
    }

    /// Returns the whole state, of which each process has a part. A collective.
    #[cfg(feature = "npz")]
    #[track_caller]
    pub(super) fn gathered(&self, world: &Communicator, own: &State) -> State {
        let bytes = own
            .to_npz()
            .expect("the state of an optimizer has no texts that end in NUL");
        let all = world.gather_bytes(&bytes);
        let all = all
            .iter()
            .map(|bytes| State::from_npz(bytes).expect("it was written so"));
        let all: Vec<State> = all.collect();
        let place = places(&self.plan.parameters);
        let mut whole = State::new();
        for (name, value) in all.iter().flat_map(State::iter) {
            if whole.get(name).is_some() {
                continue;
            }
            let parts = all.iter().filter_map(|state| match state.get(name) {
                Some(Value::Array(part)) if part.rank() == 1 => Some(part),
                _ => None,
            });
            let parts: Vec<&Array> = parts.collect();
            match place(name).map(|i| self.plan.parameters[i].variable.shape()) {
                Some(shape) if parts.len() > 1 => {
                    whole.insert(name, bibun_array::concat(&parts, 0).reshape(shape));
                }
                _ => whole.insert(name, value.clone()),
            }
        }
        whole
    }
}

impl Tree for Shard {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        for (leaf, Parameter { name, .. }) in self.leaves.iter().zip(&self.plan.parameters) {
            match name.as_str() {
                "" => leaf.visit(visitor),
                name => visitor.child(name, leaf),
            }
        }
    }

    fn map(&self, mapper: &mut Mapper<'_>) -> Self {
        Self {
            plan: Arc::clone(&self.plan),
            rank: self.rank,
            leaves: self.leaves.iter().map(|leaf| leaf.map(mapper)).collect(),
        }
    }
}

impl Chain for Shard {}

/// Returns the elements of a parameter that belong to a process.
fn part(division: &Division, i: usize, parameter: &Parameter, rank: usize) -> Array {
    let (own, whole) = (division.part(i, rank), parameter.variable.array());
    match own.len() == whole.size() {
        true => whole,
        false => elements(&whole, own),
    }
}

/// Returns a function from the names of an optimizer's state to the numbers of the parameters that they belong
/// to.
fn places(parameters: &[Parameter]) -> impl Fn(&str) -> Option<usize> + use<> {
    let names = parameters.iter().enumerate();
    let names: FxHashMap<String, usize> = names.map(|(i, own)| (own.name.clone(), i)).collect();
    move |name| {
        let name = name.strip_prefix(OF_PARAMETERS)?;
        let (name, _) = name.rsplit_once('/').unwrap_or(("", name));
        names.get(name).copied()
    }
}

/// Returns the state without that of the parameters.
pub(super) fn bare(state: &State) -> State {
    state.filter(|name| !name.starts_with(OF_PARAMETERS))
}

/// The beginning of the names of the state of parameters.
const OF_PARAMETERS: &str = "parameters/";
