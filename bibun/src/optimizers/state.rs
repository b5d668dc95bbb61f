//! What optimizers share: state for each parameter, and the pass over its memory.

use std::borrow::Cow;

use bibun_array::math::Float;
use bibun_array::{Array, DType, Element};
use rustc_hash::FxHashMap;

use crate::links::{Chain, for_each_parameter};
use crate::node::Key;
use crate::variable::Variable;

/// The formula of an optimizer, with `N` numbers of state for each element.
pub(super) trait Formula<const N: usize> {
    /// Updates elements of a parameter from their gradients. `step` counts from 1.
    fn apply<T: Real>(&self, step: u64, w: &mut [T], gw: &[T], state: [&mut [T]; N]);
}

/// The element types of parameters.
pub(super) trait Real: Element + Float {}
impl<T: Element + Float> Real for T {}

/// What is remembered for one parameter.
#[derive(Debug)]
struct State<const N: usize> {
    /// Also keeps the key from being given to another parameter.
    parameter: Variable,
    step: u64,
    arrays: [Array; N],
}

/// The state of every parameter that has had a gradient.
#[derive(Debug, Default)]
pub(super) struct States<const N: usize>(FxHashMap<Key, State<N>>);

impl<const N: usize> States<N> {
    /// One step of every parameter that has a gradient.
    pub(super) fn update(&mut self, model: &dyn Chain, formula: &impl Formula<N>) {
        for_each_parameter(model, |_, parameter| {
            if let Some(gradient) = parameter.grad() {
                let key = parameter.key().expect("a parameter is a leaf");
                let state = self.0.entry(key).or_insert_with(|| State::new(parameter));
                state.update(&gradient.array(), formula);
            }
        });
    }
}

impl<const N: usize> State<N> {
    fn new(parameter: &Variable) -> Self {
        let zeros = || Array::zeros(parameter.shape(), parameter.dtype());
        Self {
            parameter: parameter.clone(),
            step: 0,
            arrays: std::array::from_fn(|_| zeros()),
        }
    }

    fn update(&mut self, gradient: &Array, formula: &impl Formula<N>) {
        self.step += 1;
        let (step, arrays) = (self.step, &mut self.arrays);
        self.parameter.update(|mut w| {
            match w.dtype() {
                DType::F32 => run::<f32, N>(formula, step, &mut w, gradient, arrays),
                DType::F64 => run::<f64, N>(formula, step, &mut w, gradient, arrays),
                DType::I64 | DType::Bool => unreachable!("a leaf holds floats"),
            }
            w
        });
    }
}

fn run<T: Real, const N: usize>(
    formula: &impl Formula<N>,
    step: u64,
    w: &mut Array,
    gradient: &Array,
    arrays: &mut [Array; N],
) {
    let gradient = match gradient.as_slice::<T>() {
        Some(gradient) => Cow::Borrowed(gradient),
        None => Cow::Owned(gradient.to_vec()),
    };
    let arrays = arrays.each_mut().map(Array::as_mut_slice::<T>);
    formula.apply(step, w.as_mut_slice(), &gradient, arrays);
}
