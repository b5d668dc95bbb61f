//! Recurrent cells over whole sequences.

use std::sync::Arc;

use crate::error::allocating;
use crate::placement::common;
use crate::{Array, DType, Error, Shape, raise};

/// The cell of a [`Recurrence`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecurrenceCell {
    /// `h' = tanh(p + h wᵀ)`.
    Tanh,
    /// `h' = max(p + h wᵀ, 0)`.
    Relu,
    /// `i, f, g, o` are the parts of `p + h wᵀ`, through `tanh` for `g` and `sigmoid` for the others;
    /// `c' = f c + i g` and `h' = o tanh(c')`.
    Lstm,
    /// With the parts `p₁ p₂ p₃` of `p` and `q₁ q₂ q₃` of `h wᵀ`: `r = sigmoid(p₁ + q₁)`,
    /// `z = sigmoid(p₂ + q₂)`, `m = q₃ + b`, `n = tanh(p₃ + r m)` and `h' = z (h - n) + n`.
    Gru,
}

impl RecurrenceCell {
    /// Returns the number of parts of `p`, each with as many elements as the state.
    pub fn gates(self) -> usize {
        match self {
            Self::Tanh | Self::Relu => 1,
            Self::Lstm => 4,
            Self::Gru => 3,
        }
    }

    /// Returns whether there are a memory and gates beside the state.
    pub fn has_gates(self) -> bool {
        match self {
            Self::Tanh | Self::Relu => false,
            Self::Lstm | Self::Gru => true,
        }
    }
}

/// A cell that goes through all steps of a batch of sequences.
///
/// Its inputs are `[p, w, h]`, and for an LSTM the start of the memory `c`, for a GRU the bias `b`:
/// p `[time, batch, gates * units]`, w `[gates * units, units]`, h and c `[batch, units]`,
/// b `[units]`. Its outputs are `[h, memory, gates]` after each step, or `[h]` alone for cells
/// without gates: h and memory `[time, batch, units]`, gates as p. The memory is `c` or `m`, the gates
/// are those behind their functions. A sequence that has ended keeps `h` and `c`, and its gates and
/// `m` are zero.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recurrence {
    /// The cell.
    pub cell: RecurrenceCell,
    /// Whether it goes from the last step to the first.
    pub reverse: bool,
    /// The length of each sequence, if they are not all those of p.
    pub lengths: Option<Arc<[usize]>>,
}

/// The sizes of a recurrence.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) steps: usize,
    pub(crate) batch: usize,
    pub(crate) units: usize,
    /// Of all gates.
    pub(crate) width: usize,
}

impl Recurrence {
    /// Returns the shapes of the inputs of these sizes, with their names.
    pub fn inputs(&self, steps: usize, batch: usize, units: usize) -> Vec<(&'static str, Shape)> {
        let width = self.cell.gates() * units;
        let mut inputs = vec![
            ("p [time, batch, gates]", [steps, batch, width].into()),
            ("w [gates, units]", [width, units].into()),
            ("h [batch, units]", [batch, units].into()),
        ];
        match self.cell {
            RecurrenceCell::Tanh | RecurrenceCell::Relu => {}
            RecurrenceCell::Lstm => inputs.push(("c [batch, units]", [batch, units].into())),
            RecurrenceCell::Gru => inputs.push(("b [units]", [units].into())),
        }
        inputs
    }

    /// Returns the shapes of the outputs for a `p` and a `w` of these shapes.
    pub fn outputs(&self, p: &Shape, w: &Shape) -> Vec<Shape> {
        let h = p.replaced(2, w[1]);
        match self.cell.has_gates() {
            true => vec![h.clone(), h, p.clone()],
            false => vec![h],
        }
    }

    /// Returns the shapes of the results of [`recurrence_gradient`] for a `p` and a `w` of these
    /// shapes.
    pub fn gradients(&self, p: &Shape, w: &Shape) -> Vec<Shape> {
        let start = Shape::from([p[1], w[1]]);
        match self.cell {
            RecurrenceCell::Tanh | RecurrenceCell::Relu => vec![p.clone(), start],
            RecurrenceCell::Lstm => vec![p.clone(), start.clone(), start],
            RecurrenceCell::Gru => vec![p.clone(), start, p.clone()],
        }
    }

    /// The inputs of the gradient: w, the start, the outputs and their cotangents.
    fn inputs_of_gradient(&self, p: &Shape, w: &Shape) -> Vec<Shape> {
        let outputs = self.outputs(p, w);
        let mut inputs = vec![w.clone(), [p[1], w[1]].into()];
        inputs.extend(outputs.iter().cloned());
        inputs.extend(outputs);
        inputs
    }

    pub(crate) fn sizes(&self, p: &Shape, w: &Shape) -> Sizes {
        Sizes {
            steps: p[0],
            batch: p[1],
            units: w[1],
            width: p[2],
        }
    }

    /// Whether sequence `i` has ended before `step`.
    pub(crate) fn is_over(&self, i: usize, step: usize) -> bool {
        self.lengths
            .as_ref()
            .is_some_and(|lengths| step >= lengths[i])
    }
}

/// Runs a [`Recurrence`] over all steps, and returns its outputs.
///
/// ```
/// use bibun_array::{recurrence, Array, Recurrence, RecurrenceCell};
/// let sum = Recurrence { cell: RecurrenceCell::Relu, reverse: false, lengths: None };
/// let p = Array::from([[[1.0]], [[2.0]], [[4.0]]]);
/// let (w, h) = (Array::from([[1.0]]), Array::from([[0.5]]));
/// let y = recurrence(&sum, vec![p, w, h]);
/// assert_eq!(y[0].to_vec::<f64>(), [1.5, 3.5, 7.5]);
/// ```
///
/// # Panics
/// Panics if the shapes do not fit, or the arrays are not floats of one dtype.
#[must_use]
#[track_caller]
pub fn recurrence(rule: &Recurrence, inputs: Vec<Array>) -> Vec<Array> {
    let expected = match inputs.first().zip(inputs.get(1)) {
        Some((p, w)) if p.rank() == 3 && w.rank() == 2 => {
            let shapes = rule.inputs(p.shape()[0], p.shape()[1], w.shape()[1]);
            shapes.into_iter().map(|(_, shape)| shape).collect()
        }
        _ => Vec::new(),
    };
    expect("recurrence", rule, &inputs, &expected, inputs.get(2));
    let device = common("recurrence", &inputs);
    allocating("recurrence", || device.recurrence(rule, inputs))
}

/// Computes the cotangents of `[p, h]`, then that of `c` for an LSTM, or that of `h wᵀ` at each step
/// for a GRU (for the others it is that of `p`). The inputs are `[w, start]`, the outputs of the
/// recurrence and their cotangents, where start is `c` for an LSTM and `h` for the others.
///
/// ```
/// use bibun_array::{recurrence_gradient, Array, Recurrence, RecurrenceCell};
/// let sum = Recurrence { cell: RecurrenceCell::Relu, reverse: false, lengths: None };
/// let (w, h) = (Array::from([[1.0]]), Array::from([[0.5]]));
/// let (y, gy) = (Array::from([[[1.5]], [[3.5]]]), Array::from([[[1.0]], [[10.0]]]));
/// let gradients = recurrence_gradient(&sum, &[w, h, y, gy]);
/// assert_eq!(gradients[0].to_vec::<f64>(), [11.0, 10.0]);
/// assert_eq!(gradients[1].to_vec::<f64>(), [11.0]);
/// ```
///
/// # Panics
/// Panics if the shapes do not fit, or the arrays are not floats of one dtype.
#[must_use]
#[track_caller]
pub fn recurrence_gradient(rule: &Recurrence, inputs: &[Array]) -> Vec<Array> {
    let expected = match inputs.first().zip(inputs.get(2)) {
        Some((w, h)) if h.rank() == 3 && w.rank() == 2 => {
            let p = h.shape().replaced(2, rule.cell.gates() * w.shape()[1]);
            rule.inputs_of_gradient(&p, w.shape())
        }
        _ => Vec::new(),
    };
    expect(
        "recurrence_gradient",
        rule,
        inputs,
        &expected,
        inputs.get(1),
    );
    let device = common("recurrence_gradient", inputs);
    allocating("recurrence_gradient", || {
        device.recurrence_gradient(rule, inputs)
    })
}

/// Checks the shapes of the inputs, their dtypes, and the lengths.
#[track_caller]
fn expect(
    function: &'static str,
    rule: &Recurrence,
    inputs: &[Array],
    expected: &[Shape],
    state: Option<&Array>,
) {
    let dtype = inputs.first().map_or(DType::Bool, Array::dtype);
    let fit = inputs.len() == expected.len()
        && (inputs.iter().zip(expected)).all(|(x, shape)| x.shape() == shape)
        && inputs.iter().all(|x| x.dtype() == dtype)
        && dtype.is_float();
    let batch = state.and_then(|state| state.shape().first().copied());
    let of_batch = |lengths: &Arc<[usize]>| Some(lengths.len()) == batch;
    if !fit || !rule.lengths.as_ref().is_none_or(of_batch) {
        let spec = |x: &Array| format!("{} {}", x.shape(), x.dtype());
        let found: Vec<String> = inputs.iter().map(spec).collect();
        let what = format!(
            "the inputs are {}; they must be floats of one dtype, of the shapes {expected:?}, with a \
             length for each sequence",
            found.join(", ")
        );
        raise(Error::invalid(function, what));
    }
}
