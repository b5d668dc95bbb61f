//! Long short-term memory.

use bibun_array::RecurrenceCell;

use super::builder::{Kind, constructors};
use super::recurrence::unroll;
use super::{
    Recurrent, RecurrentCell, RecurrentState, RecurrentSteps, check_state, from_both, from_weights,
    zeros,
};
use crate::Tree;
use crate::functions::{sigmoid, split, tanh, where_};
use crate::links::Chain;
use crate::variable::Variable;

/// A recurrent network of [`LstmCell`]s; see [`Recurrent`].
///
/// ```
/// use bibun::array::{Array, DType, Generator};
/// use bibun::links::{Link, Lstm};
/// use bibun::Variable;
/// let network = Lstm::builder(3, 4).layers(2).dropout(0.5).build(&mut Generator::new(0));
/// let x = Variable::constant(Array::ones([2, 5, 3], DType::F32));
/// assert_eq!(network.forward(&x).shape(), [2, 5, 4]);
/// ```
pub type Lstm = Recurrent<LstmCell>;

/// One step of long short-term memory. The gates `i`, `f`, `o` and the candidate `g` are the parts
/// of `x wxᵀ + h whᵀ + b`, through `sigmoid` for the gates and `tanh` for `g`; then
/// `c' = f c + i g` and `h' = o tanh(c')`. Here `wx` is weight_ih, `wh` is weight_hh and `b` is
/// bias.
///
/// The rows of weights and biases are those of `i`, `f`, `g`, `o`, in this order, as in PyTorch.
/// PyTorch has two biases; here there is one, their sum. There are no peepholes.
///
/// Shapes: x `[.., i]`, states h and c `[.., o]` → the same, with weight_ih `[4 o, i]`, weight_hh
/// `[4 o, o]`, bias `[4 o]`. Cloning shares the parameters.
///
/// Sources: Hochreiter, Schmidhuber, "Long Short-Term Memory", Neural Computation 9, 1997; Gers,
/// Schmidhuber, Cummins, "Learning to Forget", Neural Computation 12, 2000.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::links::{LstmCell, RecurrentCell};
/// use bibun::Variable;
/// let cell = LstmCell::new(2, 3, &mut Generator::new(0));
/// let state = cell.step(&Variable::constant([[1.0f32, 2.0]]), &cell.zero_state(&[1]));
/// assert_eq!((state.h.shape(), state.c.shape()), ([1, 3].into(), [1, 3].into()));
/// ```
#[derive(Chain, Clone, Debug)]
pub struct LstmCell {
    /// The weights of the input, `[4 o, i]`.
    pub weight_ih: Variable,
    /// The weights of the state, `[4 o, o]`.
    pub weight_hh: Variable,
    /// The biases, `[4 o]`, if there are any.
    pub bias: Option<Variable>,
}

/// The state that an [`LstmCell`] carries from step to step.
#[derive(Tree, Clone, Debug)]
pub struct LstmState {
    /// The output, `[.., o]`.
    pub h: Variable,
    /// The memory cell, `[.., o]`.
    pub c: Variable,
}

impl RecurrentState for LstmState {
    fn output(&self) -> &Variable {
        &self.h
    }
    fn parts(&self) -> Vec<(&'static str, &Variable)> {
        vec![("h", &self.h), ("c", &self.c)]
    }
    fn where_(&self, condition: &Variable, other: &Self) -> Self {
        Self {
            h: where_(condition, &self.h, &other.h),
            c: where_(condition, &self.c, &other.c),
        }
    }
}

impl LstmCell {
    const KIND: Kind<Self> = Kind {
        name: "LstmCell",
        gates: 4,
        open_gate: Some(1),
        has_bias_hn: false,
        make: |weights| Self {
            weight_ih: weights.weight_ih,
            weight_hh: weights.weight_hh,
            bias: weights.bias,
        },
    };
}

constructors! {
    LstmCell;

    /// Creates a cell in f32 with weights from [`LeCunNormal`](crate::initializers::LeCunNormal)
    /// and [`Orthogonal`](crate::initializers::Orthogonal), and biases of zero, except that those
    /// of the forget gate are one, so that at first the cell remembers (Jozefowicz, Zaremba,
    /// Sutskever, ICML 2015).
    new;

    /// Returns a builder of a cell with custom options.
    ///
    /// ```
    /// use bibun::array::{DType, Generator};
    /// use bibun::initializers::{GlorotUniform, Uniform};
    /// use bibun::links::LstmCell;
    /// let cell = LstmCell::builder(2, 3)
    ///     .initializer(GlorotUniform)
    ///     .recurrent_initializer(Uniform { low: -0.1, high: 0.1 })
    ///     .without_bias()
    ///     .dtype(DType::F64)
    ///     .build(&mut Generator::new(0));
    /// assert_eq!(cell.weight_ih.shape(), [12, 2]);
    /// ```
    builder;
}

impl RecurrentCell for LstmCell {
    type State = LstmState;

    from_weights!();

    #[track_caller]
    fn advance(&self, projected: &Variable, state: &LstmState) -> LstmState {
        check_state("LstmCell", projected, &state.c, &self.weight_hh);
        let gates = from_both("LstmCell", projected, &state.h, &self.weight_hh);
        let gates = split(gates, 4, -1);
        let c = sigmoid(&gates[1]) * &state.c + sigmoid(&gates[0]) * tanh(&gates[2]);
        let h = sigmoid(&gates[3]) * tanh(&c);
        LstmState { h, c }
    }

    #[track_caller]
    fn unroll(
        &self,
        x: &Variable,
        state: LstmState,
        steps: &RecurrentSteps,
    ) -> (Variable, LstmState) {
        let (project, states) = (|x: &Variable| self.project(x), [&state.h, &state.c]);
        let (cell, w) = (RecurrenceCell::Lstm, &self.weight_hh);
        let (y, [h, c]) = unroll(cell, project, x, w, None, states, steps);
        (y, LstmState { h, c })
    }

    fn zero_state(&self, leading: &[usize]) -> LstmState {
        let zeros = zeros(leading, &self.weight_hh);
        LstmState {
            h: zeros.clone(),
            c: zeros,
        }
    }
}
