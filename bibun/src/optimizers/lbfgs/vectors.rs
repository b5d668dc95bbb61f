//! All parameters as one vector.

use bibun_array::{Array, DType, Shape, cpu};
use indexmap::IndexMap;

use crate::function::Spec;
use crate::links::{Chain, for_each_parameter};
use crate::optimizers::slots::{expect_spec, unused, within};
use crate::serializers::{State, StateError};
use crate::variable::Variable;

/// The parameters that had a gradient and were not frozen, in the order of the model, by name.
#[derive(Default, Debug)]
pub(super) struct Parts(IndexMap<String, Variable>);

impl Parts {
    pub(super) fn of(model: &dyn Chain) -> Self {
        let mut parts = IndexMap::<String, Variable>::new();
        for_each_parameter(model, |name, parameter| {
            if parameter.grad().is_some() && !parameter.is_frozen() {
                let name = unused(name, |name| parts.contains_key(name));
                parts.insert(name, parameter.clone());
            }
        });
        Self(parts)
    }

    pub(super) fn are_same(&self, other: &Self) -> bool {
        let mut both = self.0.values().zip(other.0.values());
        self.0.len() == other.0.len() && both.all(|(a, b)| a.is_identical(b))
    }

    /// Returns whether a loaded state has arrays of these parameters and of no others.
    pub(super) fn have_names(&self, arrays: &IndexMap<String, Vec<Array>>) -> bool {
        let are_known = self.0.keys().all(|name| arrays.contains_key(name));
        are_known && self.0.len() == arrays.len()
    }

    pub(super) fn values(&self) -> Vec<f64> {
        let elements = |parameter: &Variable| numbers(&parameter.array());
        self.0.values().flat_map(elements).collect()
    }

    /// Returns the gradients, with zeros for parameters that no longer have one.
    pub(super) fn gradients(&self) -> Vec<f64> {
        let elements = |parameter: &Variable| match parameter.grad() {
            Some(gradient) => numbers(&gradient.array()),
            None => vec![0.0; count(parameter)],
        };
        self.0.values().flat_map(elements).collect()
    }

    pub(super) fn set_values(&self, mut vector: &[f64]) {
        for parameter in self.0.values() {
            let own = take(&mut vector, count(parameter));
            // A parameter of one repeated value is on every device, but its gradient is not.
            let places = [
                parameter.known_device(),
                parameter
                    .grad()
                    .and_then(|gradient| gradient.known_device()),
            ];
            let home = places.into_iter().flatten().next().unwrap_or(cpu());
            parameter.update_in_place(|w| {
                *w = w.to(cpu());
                let own = match w.dtype().is_complex() {
                    true => {
                        let parts = [&w.shape()[..], &[2]].concat();
                        Array::from_slice(own, Shape::new(&parts)).view_as_complex()
                    }
                    false => Array::from_slice(own, w.shape()),
                };
                w.assign(&[], &own.cast(w.dtype()));
                *w = w.to(home);
            });
        }
    }

    /// Returns, for each parameter, its part of each vector, in its shape.
    pub(super) fn split(&self, vectors: &[&[f64]]) -> IndexMap<String, Vec<Array>> {
        let mut vectors = vectors.to_vec();
        let parts = self.0.iter().map(|(name, parameter)| {
            let cut = |vector: &mut &[f64]| {
                Array::from_slice(take(vector, parameter.size()), parameter.shape())
            };
            (name.clone(), vectors.iter_mut().map(cut).collect())
        });
        parts.collect()
    }

    /// Joins loaded arrays of these parameters into vectors: the inverse of [`Parts::split`].
    #[track_caller]
    pub(super) fn join<N: Iterator<Item = String>>(
        &self,
        arrays: &IndexMap<String, Vec<Array>>,
        vector_names: impl Fn() -> N,
    ) -> Vec<Vec<f64>> {
        let mut vectors: Vec<Vec<f64>> = vector_names().map(|_| Vec::new()).collect();
        for (name, parameter) in &self.0 {
            let own = &arrays[name];
            let spec = Spec::new(parameter.shape(), DType::F64);
            for ((vector, array), part) in vectors.iter_mut().zip(own).zip(vector_names()) {
                expect_spec(name, &part, array, &spec);
                vector.extend(array.to_vec::<f64>());
            }
        }
        vectors
    }

    /// Reads the arrays of each parameter in a state, if they fit those that have been seen.
    pub(super) fn read<N: Iterator<Item = String>>(
        &self,
        state: &State,
        vector_names: &impl Fn() -> N,
    ) -> Result<IndexMap<String, Vec<Array>>, StateError> {
        let mut error = StateError::default();
        let mut found = IndexMap::<String, Vec<Array>>::new();
        let wanted: Vec<String> = vector_names().collect();
        for (whole, _) in state.iter() {
            let (name, part) = whole.rsplit_once('/').unwrap_or(("", whole));
            if wanted.iter().any(|wanted| wanted == part) {
                found.entry(name.to_owned()).or_default();
            } else {
                error.unexpected.push(whole.to_owned());
            }
        }
        for (name, arrays) in &mut found {
            for part in &wanted {
                let part = within(name, part);
                let array = match self.0.get(name) {
                    Some(seen) => state.array_like(&part, &Array::zeros(seen.shape(), DType::F64)),
                    None => state.array(&part),
                };
                match array {
                    Ok(array) => arrays.push(array.clone()),
                    Err(wrong) => error.add(wrong),
                }
            }
        }
        error.or_ok().map(|()| found)
    }
}

/// Removes the first elements and returns them.
fn take<'a>(vector: &mut &'a [f64], size: usize) -> &'a [f64] {
    let (first, rest) = vector.split_at(size);
    *vector = rest;
    first
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns the elements, or both parts of each complex one.
fn numbers(x: &Array) -> Vec<f64> {
    let parts = match x.dtype().is_complex() {
        true => x.view_as_real(),
        false => x.clone(),
    };
    parts.cast(DType::F64).to_vec()
}

/// Returns the number of [`numbers`] of a parameter.
fn count(parameter: &Variable) -> usize {
    parameter.size() * if parameter.dtype().is_complex() { 2 } else { 1 }
}
