//! Links that process sequences step by step.
//!
//! A [`Cell`](RecurrentCell) computes one step; a [`Recurrent`] network runs layers of cells over
//! whole sequences, in one direction or both.

mod builder;
mod gru;
mod lstm;
mod recurrence;
mod rnn;

use std::fmt;
use std::sync::Arc;

use bibun_array::{Array, DType, Shape};

use super::{Chain, Dropout, Link, within};
use crate::error::{Error, raise};
use crate::function::Spec;
use crate::functions::{concat, expand_dims, length_mask, linear, stack, unstack, where_};
use crate::tree::Tree;
use crate::variable::Variable;

pub use builder::{CellBuilder, RecurrentBuilder};
pub use gru::{Gru, GruCell};
pub use lstm::{Lstm, LstmCell, LstmState};
#[cfg(test)]
pub(super) use recurrence::samples;
pub use rnn::{Rnn, RnnCell};

/// A recurrent cell: the state carried from step to step, and how one step changes it.
pub trait RecurrentCell: Tree + Clone + fmt::Debug + Send + Sync + 'static {
    /// The state carried from step to step.
    type State: RecurrentState;

    /// Returns the number of inputs.
    fn inputs(&self) -> usize;

    /// Returns the number of elements of the output.
    fn units(&self) -> usize;

    /// Returns the dtype of the parameters.
    fn dtype(&self) -> DType;

    /// Computes the part of a step that depends only on the input, so that it can be computed for
    /// all steps at once: x `[.., inputs]` → `[.., projected]`.
    ///
    /// # Panics
    /// Panics if x is not `[.., inputs]`.
    fn project(&self, x: &Variable) -> Variable;

    /// Computes the state after a step from the projected input and the previous state.
    ///
    /// # Panics
    /// Panics if the shapes do not fit.
    fn advance(&self, projected: &Variable, state: &Self::State) -> Self::State;

    /// Returns a state of zeros with these leading axes: `&[batch]`, or `&[]` for a single
    /// sequence.
    fn zero_state(&self, leading: &[usize]) -> Self::State;

    /// Computes the outputs of all steps, and the last state: x `[.., time, inputs]` with at least one
    /// step → `[.., time, units]`. By default [`advance`](Self::advance) runs step by step. A cell that
    /// can compute the same faster does so here.
    ///
    /// # Panics
    /// Panics if the shapes do not fit.
    ///
    /// ```
    /// use bibun::array::{Array, DType, Generator};
    /// use bibun::links::{LstmCell, RecurrentCell, RecurrentSteps};
    /// use bibun::Variable;
    /// let cell = LstmCell::new(2, 3, &mut Generator::new(0));
    /// let x = Variable::constant(Array::ones([4, 5, 2], DType::F32));
    /// let (y, state) = cell.unroll(&x, cell.zero_state(&[4]), &RecurrentSteps::default());
    /// assert_eq!((y.shape(), state.c.shape()), ([4, 5, 3].into(), [4, 3].into()));
    /// ```
    #[track_caller]
    fn unroll(
        &self,
        x: &Variable,
        state: Self::State,
        steps: &RecurrentSteps,
    ) -> (Variable, Self::State) {
        by_steps(self, x, state, steps)
    }

    /// Computes the state after one step.
    ///
    /// # Panics
    /// Panics if x is not `[.., inputs]` or the state is not `[.., units]`.
    #[track_caller]
    fn step(&self, x: &Variable, state: &Self::State) -> Self::State {
        self.advance(&self.project(x), state)
    }
}

/// The steps of a batch of sequences: the direction in which a cell goes through them, and the lengths
/// of the sequences. By default these are all steps, from the first to the last.
///
/// ```
/// use bibun::links::RecurrentSteps;
/// let steps = RecurrentSteps::default();
/// assert!(!steps.is_backward() && steps.lengths().is_none());
/// ```
#[derive(Clone, Debug, Default)]
pub struct RecurrentSteps {
    backward: bool,
    lengths: Option<Arc<[usize]>>,
}

impl RecurrentSteps {
    /// Returns whether the cell goes from the last step to the first.
    pub fn is_backward(&self) -> bool {
        self.backward
    }

    /// Returns the length of each sequence, if they differ from the number of steps. Then x is
    /// `[batch, time, inputs]`, the outputs of a sequence beyond its length are zero, and its state
    /// stays as it is there.
    pub fn lengths(&self) -> Option<&[usize]> {
        self.lengths.as_deref()
    }

    /// Returns the steps in the order of the cell.
    fn order(&self, count: usize) -> impl Iterator<Item = usize> + use<> {
        let backward = self.backward;
        (0..count).map(move |step| if backward { count - 1 - step } else { step })
    }
}

/// The state that a [`RecurrentCell`] carries from step to step.
pub trait RecurrentState: Tree + Clone + fmt::Debug {
    /// Returns the output of the step, `[.., units]`.
    fn output(&self) -> &Variable;

    /// Returns all Variables of the state, each `[.., units]`, with a name.
    fn parts(&self) -> Vec<(&'static str, &Variable)>;

    /// Returns this state where the condition, `[.., 1]`, holds, and the other elsewhere.
    #[must_use]
    fn where_(&self, condition: &Variable, other: &Self) -> Self;
}

impl RecurrentState for Variable {
    fn output(&self) -> &Variable {
        self
    }
    fn parts(&self) -> Vec<(&'static str, &Variable)> {
        vec![("h", self)]
    }
    fn where_(&self, condition: &Variable, other: &Self) -> Self {
        where_(condition, self, other)
    }
}

/// A recurrent network of one or more layers, each in one direction or both: [`Rnn`], [`Lstm`],
/// [`Gru`].
///
/// Sequences are `[.., time, features]`: `[batch, time, features]`, or `[time, features]` for a
/// single one. The output of a layer is the input of the next. With both directions, the output is
/// that of the forward cell and that of the backward cell, concatenated along the last axis.
///
/// States are a list with one for each layer or, with both directions, two for each layer, the
/// forward one first. Parameters are named `layers/0/forward/weight_ih`,
/// `layers/0/backward/weight_ih` and so on. Cloning shares them.
///
/// ```
/// use bibun::array::{Array, DType, Generator};
/// use bibun::links::{Chain, Gru};
/// use bibun::Variable;
/// let g = &mut Generator::new(0);
/// let network = Gru::builder(3, 8).layers(2).bidirectional().build(g);
/// let x = Variable::constant(Array::ones([5, 7, 3], DType::F32));
/// let (y, states) = network.forward_sequence(&x, None);
/// assert_eq!(y.shape(), [5, 7, 16]);
/// assert_eq!((states.len(), states[0].shape()), (4, [5, 8].into()));
/// assert_eq!(network.parameters()[4].0, "layers/0/backward/weight_ih");
/// ```
#[derive(Chain, Clone, Debug)]
pub struct Recurrent<C> {
    /// The layers, in order from the input.
    pub layers: Vec<RecurrentLayer<C>>,
    dropout: Option<Dropout>,
}

/// The cells of one layer of a [`Recurrent`] network.
#[derive(Chain, Clone, Debug)]
pub struct RecurrentLayer<C> {
    /// The cell that goes from the first step to the last.
    pub forward: C,
    /// The cell that goes from the last step to the first, if there is one.
    pub backward: Option<C>,
}

impl<C: RecurrentCell> Recurrent<C> {
    /// Creates a network of custom layers, with dropout between them if it is given.
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::links::{LstmCell, Recurrent, RecurrentLayer};
    /// let g = &mut Generator::new(0);
    /// let layer = RecurrentLayer { forward: LstmCell::new(3, 4, g), backward: None };
    /// assert_eq!(Recurrent::of_layers(vec![layer], None).layers.len(), 1);
    /// ```
    ///
    /// # Panics
    /// Panics if there is no layer, or a layer does not accept the output of the one before it.
    #[track_caller]
    pub fn of_layers(layers: Vec<RecurrentLayer<C>>, dropout: Option<Dropout>) -> Self {
        let outputs = |layer: &RecurrentLayer<C>| layer.cells().map(C::units).sum::<usize>();
        let takes = |layer: &RecurrentLayer<C>, size| layer.cells().all(|c| c.inputs() == size);
        let mut size = match layers.first() {
            Some(first) => first.forward.inputs(),
            None => raise(Error::argument("Recurrent", "there are no layers")),
        };
        for (i, layer) in layers.iter().enumerate() {
            if !takes(layer, size) {
                let what = format!("layer {i} does not take {size} inputs");
                raise(Error::argument("Recurrent", what));
            }
            size = outputs(layer);
        }
        Self { layers, dropout }
    }

    /// Returns states of zeros for all layers and directions, with these leading axes.
    pub fn zero_states(&self, leading: &[usize]) -> Vec<C::State> {
        let cells = self.layers.iter().flat_map(RecurrentLayer::cells);
        cells.map(|cell| cell.zero_state(leading)).collect()
    }

    /// Computes the outputs of all steps and the last states, from the initial states or from
    /// zeros.
    ///
    /// Shapes: x `[.., time, inputs]`, states `[.., units]` → outputs `[.., time, units]` (twice
    /// the units with both directions), states as the initial ones. The last state of a backward
    /// cell is the one at the first time step, where that cell ends.
    ///
    /// # Panics
    /// Panics if x or the initial states have other shapes; the message has all of them.
    ///
    /// ```
    /// use bibun::array::{Array, DType, Generator};
    /// use bibun::links::Lstm;
    /// use bibun::Variable;
    /// let network = Lstm::new(3, 4, &mut Generator::new(0));
    /// let x = Variable::constant(Array::ones([2, 6, 3], DType::F32));
    /// let (all, _) = network.forward_sequence(&x, None);
    /// // The same in two parts.
    /// let parts = x.split(2, 1);
    /// let (_, states) = network.forward_sequence(&parts[0], None);
    /// let (rest, _) = network.forward_sequence(&parts[1], Some(&states));
    /// assert_eq!(all.split(2, 1)[1].to_vec::<f32>(), rest.to_vec::<f32>());
    /// ```
    #[track_caller]
    pub fn forward_sequence(
        &self,
        x: &Variable,
        initial: Option<&[C::State]>,
    ) -> (Variable, Vec<C::State>) {
        within(self, || {
            self.check(x);
            self.run(x.clone(), initial, None)
        })
    }

    /// Computes [`forward_sequence`](Self::forward_sequence) of sequences of different lengths that
    /// have been padded to one length: the results are those of each sequence alone.
    ///
    /// Outputs beyond a sequence's length are zero, its last state is the one at its own end, and
    /// backward cells start there. The padding in x does not affect the results and has a gradient
    /// of zero. The states of an empty sequence are returned unchanged.
    ///
    /// Shapes: x `[batch, time, inputs]`, one length for each sequence → as `forward_sequence`.
    ///
    /// # Panics
    /// Panics if x is not `[batch, time, inputs]`, there is not one length for each sequence, a
    /// length exceeds the number of steps, or the initial states have other shapes.
    ///
    /// ```
    /// use bibun::array::{Array, DType, Generator};
    /// use bibun::links::Gru;
    /// use bibun::{s, Variable};
    /// let network = Gru::new(3, 4, &mut Generator::new(0));
    /// let x = Variable::constant(Array::ones([2, 6, 3], DType::F32));
    /// let (y, states) = network.forward_lengths(&x, &[6, 2], None);
    /// let last = y.slice(s![1, 1]).to_vec::<f32>();
    /// assert_eq!(states[0].slice(s![1]).to_vec::<f32>(), last);
    /// assert_eq!(y.slice(s![1, 2..]).to_vec::<f32>(), [0.0; 16]);
    /// ```
    #[track_caller]
    pub fn forward_lengths(
        &self,
        x: &Variable,
        lengths: &[usize],
        initial: Option<&[C::State]>,
    ) -> (Variable, Vec<C::State>) {
        within(self, || {
            let spec = self.check(x);
            let Some([batch, steps, _]) = spec.shape.dims() else {
                let what =
                    format!("x is {spec}, sequences with lengths must be [batch, time, inputs]");
                raise(Error::argument("Recurrent", what))
            };
            if lengths.len() != batch || lengths.iter().any(|&length| length > steps) {
                let what = format!(
                    "the lengths are {lengths:?}, expected one for each of {batch} sequences, \
                 none above {steps}: x is {spec}"
                );
                raise(Error::argument("Recurrent", what));
            }
            if lengths.iter().all(|&length| length == steps) {
                return self.run(x.clone(), initial, None);
            }
            let inside = length_mask(lengths, steps).to(x.device());
            // The padding of x must not get into a product.
            let x = where_(expand_dims(inside, -1), x, 0.0);
            self.run(x, initial, Some(lengths.into()))
        })
    }

    /// Computes the states after one step, for decoding and the like; the output of the network is
    /// that of the last state.
    ///
    /// Shapes: x `[.., inputs]`, states `[.., units]` → states of the same shapes.
    ///
    /// # Panics
    /// Panics if the network has both directions, or the shapes do not fit.
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::links::{Lstm, RecurrentState};
    /// use bibun::Variable;
    /// let network = Lstm::builder(2, 4).layers(2).build(&mut Generator::new(0));
    /// let states = network.zero_states(&[1]);
    /// let states = network.step(&Variable::constant([[1.0f32, 2.0]]), &states);
    /// assert_eq!(states[1].output().shape(), [1, 4]);
    /// ```
    #[track_caller]
    pub fn step(&self, x: &Variable, states: &[C::State]) -> Vec<C::State> {
        within(self, || {
            if self.layers.iter().any(|layer| layer.backward.is_some()) {
                let what = "a network in both directions needs whole sequences, not single steps";
                raise(Error::argument("Recurrent", what));
            }
            let spec = x.spec();
            let inputs = self.layers[0].forward.inputs();
            if spec.shape.last() != Some(&inputs) {
                mismatch(
                    &[("x [.., inputs]", &spec)],
                    format!("there are {inputs} inputs"),
                );
            }
            self.check_states(&spec, &spec.shape[..spec.shape.rank() - 1], states);
            let mut x = x.clone();
            let mut after = Vec::with_capacity(states.len());
            for (i, (layer, state)) in self.layers.iter().zip(states).enumerate() {
                if let (Some(dropout), true) = (&self.dropout, i > 0) {
                    x = dropout.forward(&x);
                }
                let state = layer.forward.step(&x, state);
                x = state.output().clone();
                after.push(state);
            }
            after
        })
    }

    /// Returns the spec of x if it is a batch of sequences for this network, and panics otherwise.
    #[track_caller]
    fn check(&self, x: &Variable) -> Spec {
        let (spec, inputs) = (x.spec(), self.layers[0].forward.inputs());
        if spec.shape.rank() < 2 || spec.shape.last() != Some(&inputs) {
            let must_hold = format!("there are {inputs} inputs");
            mismatch(&[("x [.., time, inputs]", &spec)], must_hold);
        }
        spec
    }

    #[track_caller]
    fn check_states(&self, x: &Spec, leading: &[usize], states: &[C::State]) {
        let cells: Vec<&C> = self.layers.iter().flat_map(RecurrentLayer::cells).collect();
        if states.len() != cells.len() {
            let what = format!(
                "there are {} states, expected {}, one for each layer and direction",
                states.len(),
                cells.len()
            );
            raise(Error::argument("Recurrent", what));
        }
        for (cell, state) in cells.into_iter().zip(states) {
            let expected: Shape = leading.iter().copied().chain([cell.units()]).collect();
            for (name, part) in state.parts() {
                if part.shape() != expected {
                    let must_hold = format!("the state must be {expected}");
                    mismatch(&[("x", x), (name, &part.spec())], must_hold);
                }
            }
        }
    }

    /// Runs all layers through all steps of sequences of these lengths, or of one length.
    #[track_caller]
    fn run(
        &self,
        mut x: Variable,
        initial: Option<&[C::State]>,
        lengths: Option<Arc<[usize]>>,
    ) -> (Variable, Vec<C::State>) {
        let spec = x.spec();
        let leading = &spec.shape[..spec.shape.rank() - 2];
        let mut states = match initial {
            Some(states) => {
                self.check_states(&spec, leading, states);
                states.to_vec()
            }
            None => self.zero_states(leading),
        };
        let mut places = states.iter_mut();
        for (i, layer) in self.layers.iter().enumerate() {
            if let (Some(dropout), true) = (&self.dropout, i > 0) {
                x = dropout.forward(&x);
            }
            let mut walk = |cell: &C, backward: bool| {
                let state = places.next().expect("one for each layer and direction");
                if spec.shape[spec.shape.rank() - 2] == 0 {
                    let shape = x.shape().replaced(x.rank() - 1, cell.units());
                    return Variable::constant(Array::zeros(shape, cell.dtype()));
                }
                let lengths = lengths.clone();
                let steps = RecurrentSteps { backward, lengths };
                let (outputs, last) = cell.unroll(&x, state.clone(), &steps);
                *state = last;
                outputs
            };
            let forward = walk(&layer.forward, false);
            x = match &layer.backward {
                Some(cell) => concat([&forward, &walk(cell, true)], -1),
                None => forward,
            };
        }
        (x, states)
    }
}

impl<C> RecurrentLayer<C> {
    /// Returns the cells in the order of their states.
    fn cells(&self) -> impl Iterator<Item = &C> {
        [&self.forward].into_iter().chain(&self.backward)
    }
}

impl<C: RecurrentCell> Link for Recurrent<C> {
    /// Computes the outputs of all steps from states of zero: x `[.., time, inputs]` →
    /// `[.., time, units]`.
    ///
    /// # Panics
    /// Panics if x has another shape; the message has it.
    fn compute(&self, x: &Variable) -> Variable {
        self.forward_sequence(x, None).0
    }
}

/// Runs a cell step by step; returns the outputs and the last state.
#[track_caller]
fn by_steps<C: RecurrentCell>(
    cell: &C,
    x: &Variable,
    mut state: C::State,
    steps: &RecurrentSteps,
) -> (Variable, C::State) {
    let time = x.rank() - 2;
    let count = x.shape()[time];
    let running = (steps.lengths.as_ref()).map(|lengths| {
        let inside = length_mask(lengths, count).to(x.device()).array();
        move |step: usize| {
            let column = inside.slice(bibun_array::s![.., step, new]);
            let some_ended = lengths.iter().any(|&length| step >= length);
            some_ended.then(|| Variable::constant(column))
        }
    });
    let projected = unstack(cell.project(x), time as isize);
    let mut outputs = Vec::with_capacity(count);
    for step in steps.order(count) {
        let next = cell.advance(&projected[step], &state);
        match running.as_ref().and_then(|running| running(step)) {
            Some(running) => {
                outputs.push(where_(&running, next.output(), 0.0));
                state = next.where_(&running, &state);
            }
            None => {
                outputs.push(next.output().clone());
                state = next;
            }
        }
    }
    if steps.backward {
        outputs.reverse();
    }
    let outputs: Vec<&Variable> = outputs.iter().collect();
    (stack(&outputs, time as isize), state)
}

/// Defines the methods of a [`RecurrentCell`] that follow from its fields `weight_ih`, `weight_hh`
/// and `bias`.
macro_rules! from_weights {
    () => {
        fn inputs(&self) -> usize {
            self.weight_ih.shape()[1]
        }

        fn units(&self) -> usize {
            self.weight_hh.shape()[1]
        }

        fn dtype(&self) -> bibun_array::DType {
            self.weight_hh.dtype()
        }

        #[track_caller]
        fn project(&self, x: &Variable) -> Variable {
            $crate::functions::linear(x, &self.weight_ih, self.bias.as_ref())
        }
    };
}
use from_weights;

/// Returns `projected + h weight_hhᵀ`. The check gives a clear message if h does not fit.
#[track_caller]
fn from_both(
    cell: &'static str,
    projected: &Variable,
    h: &Variable,
    weight_hh: &Variable,
) -> Variable {
    check_state(cell, projected, h, weight_hh);
    projected + linear(h, weight_hh, None)
}

/// Checks that a part of a state fits the projected input.
#[track_caller]
fn check_state(cell: &'static str, projected: &Variable, state: &Variable, weight_hh: &Variable) {
    let (shape, units) = (projected.shape(), weight_hh.shape()[1]);
    let expected = shape.replaced(shape.rank() - 1, units);
    if state.shape() != expected {
        let what = format!(
            "the state is {}, expected {expected} as the input",
            state.spec()
        );
        raise(Error::argument(cell, what));
    }
}

#[cold]
#[track_caller]
fn mismatch(named: &[(&str, &Spec)], must_hold: String) -> ! {
    crate::error::mismatch("Recurrent", named, must_hold)
}

/// Returns zeros for a state with these leading axes.
fn zeros(leading: &[usize], weight_hh: &Variable) -> Variable {
    let units = weight_hh.shape()[1];
    let shape: Shape = leading.iter().copied().chain([units]).collect();
    Variable::constant(Array::zeros(shape, weight_hh.dtype()))
}
