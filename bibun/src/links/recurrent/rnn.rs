//! The plain recurrent cell.

use bibun_array::RecurrenceCell;

use super::builder::{Kind, Weights, constructors};
use super::recurrence::unroll;
use super::{
    CellBuilder, Recurrent, RecurrentBuilder, RecurrentCell, RecurrentSteps, from_both,
    from_weights, zeros,
};
use crate::functions::{relu, tanh};
use crate::links::Chain;
use crate::variable::Variable;

/// A recurrent network of [`RnnCell`]s; see [`Recurrent`].
///
/// ```
/// use bibun::array::{Array, DType, Generator};
/// use bibun::links::{Link, Rnn};
/// use bibun::Variable;
/// let network = Rnn::builder(3, 4).relu().build(&mut Generator::new(0));
/// let x = Variable::constant(Array::ones([2, 5, 3], DType::F32));
/// assert_eq!(network.forward(&x).shape(), [2, 5, 4]);
/// ```
pub type Rnn = Recurrent<RnnCell>;

/// One step of the plain recurrent network, `h' = tanh(x wxᵀ + h whᵀ + b)`, or with `relu` instead
/// of `tanh`; `wx` is weight_ih, `wh` is weight_hh and `b` is bias.
///
/// Shapes: x `[.., i]`, state h `[.., o]` → `[.., o]`, with weight_ih `[o, i]`, weight_hh `[o, o]`,
/// bias `[o]`. Cloning shares the parameters.
///
/// Source: Elman, "Finding Structure in Time", Cognitive Science 14, 1990; Le, Jaitly, Hinton,
/// arXiv:1504.00941, 2015, for `relu`.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::links::{RecurrentCell, RnnCell};
/// use bibun::Variable;
/// let cell = RnnCell::new(2, 3, &mut Generator::new(0));
/// let h = cell.step(&Variable::constant([[1.0f32, 2.0]]), &cell.zero_state(&[1]));
/// assert_eq!(h.shape(), [1, 3]);
/// ```
#[derive(Chain, Clone, Debug)]
pub struct RnnCell {
    /// The weights of the input, `[o, i]`.
    pub weight_ih: Variable,
    /// The weights of the state, `[o, o]`.
    pub weight_hh: Variable,
    /// The biases, `[o]`, if there are any.
    pub bias: Option<Variable>,
    has_relu: bool,
}

impl RnnCell {
    const KIND: Kind<Self> = Kind {
        name: "RnnCell",
        gates: 1,
        open_gate: None,
        has_bias_hn: false,
        make: |weights| Self::of(weights, false),
    };

    fn of(weights: Weights, has_relu: bool) -> Self {
        Self {
            weight_ih: weights.weight_ih,
            weight_hh: weights.weight_hh,
            bias: weights.bias,
            has_relu,
        }
    }
}

constructors! {
    RnnCell;

    /// Creates a cell in f32 with `tanh`, weights from
    /// [`LeCunNormal`](crate::initializers::LeCunNormal) and
    /// [`Orthogonal`](crate::initializers::Orthogonal), and biases of zero.
    new;

    /// Returns a builder of a cell with custom options.
    builder;
}

impl CellBuilder<RnnCell> {
    /// Uses `relu` instead of `tanh`.
    pub fn relu(mut self) -> Self {
        self.kind.make = |weights| RnnCell::of(weights, true);
        self
    }
}

impl RecurrentBuilder<RnnCell> {
    /// Uses `relu` instead of `tanh`.
    pub fn relu(mut self) -> Self {
        self.cell = self.cell.relu();
        self
    }
}

impl RecurrentCell for RnnCell {
    type State = Variable;

    from_weights!();

    #[track_caller]
    fn advance(&self, projected: &Variable, h: &Variable) -> Variable {
        let sum = from_both("RnnCell", projected, h, &self.weight_hh);
        if self.has_relu { relu(sum) } else { tanh(sum) }
    }

    #[track_caller]
    fn unroll(
        &self,
        x: &Variable,
        state: Variable,
        steps: &RecurrentSteps,
    ) -> (Variable, Variable) {
        let (project, w) = (|x: &Variable| self.project(x), &self.weight_hh);
        let cell = match self.has_relu {
            true => RecurrenceCell::Relu,
            false => RecurrenceCell::Tanh,
        };
        let (y, [h]) = unroll(cell, project, x, w, None, [&state], steps);
        (y, h)
    }

    fn zero_state(&self, leading: &[usize]) -> Variable {
        zeros(leading, &self.weight_hh)
    }
}
