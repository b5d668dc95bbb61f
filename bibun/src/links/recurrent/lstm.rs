//! Long short-term memory.

use bibun_array::{DType, Generator};

use super::builder::Kind;
use super::{
    CellBuilder, Recurrent, RecurrentBuilder, RecurrentCell, RecurrentState, check_state,
    from_both, zeros,
};
use crate::Tree;
use crate::functions::{linear, sigmoid, split, tanh, where_};
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

/// One step of long short-term memory: gates `i`, `f`, `o` and the candidate `g` from
/// `x wxᵀ + h whᵀ + b`, through `sigmoid`, `g` through `tanh`; then `c' = f c + i g` and
/// `h' = o tanh(c')`.
///
/// The rows of weights and biases are those of `i`, `f`, `g`, `o`, in this order, as PyTorch has
/// them; its two biases are one here, their sum. There are no peepholes.
///
/// Shapes: x `[.., i]`, state h, c `[.., o]` → the same, with wx `[4 o, i]`, wh `[4 o, o]`,
/// b `[4 o]`. Cloning shares the parameters.
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

/// What an [`LstmCell`] keeps from step to step.
#[derive(Tree, Clone, Debug)]
pub struct LstmState {
    /// The output, `[.., o]`.
    pub h: Variable,
    /// The memory, `[.., o]`.
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
        has_bn: false,
        make: |weights| Self {
            weight_ih: weights.wx,
            weight_hh: weights.wh,
            bias: weights.b,
        },
    };

    /// A cell in f32 with weights from [`LeCunNormal`](crate::initializers::LeCunNormal) and
    /// [`Orthogonal`](crate::initializers::Orthogonal), biases of zero, and those of the forget gate
    /// one, so that at first it remembers (Jozefowicz, Zaremba, Sutskever, ICML 2015).
    pub fn new(inputs: usize, units: usize, generator: &mut Generator) -> Self {
        Self::builder(inputs, units).build(generator)
    }

    /// A cell with choices of one's own.
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
    pub fn builder(inputs: usize, units: usize) -> CellBuilder<Self> {
        CellBuilder::new(Self::KIND, inputs, units)
    }
}

impl Lstm {
    /// A network of one layer in f32; see [`LstmCell::new`].
    pub fn new(inputs: usize, units: usize, generator: &mut Generator) -> Self {
        Self::builder(inputs, units).build(generator)
    }

    /// A network with choices of one's own.
    pub fn builder(inputs: usize, units: usize) -> RecurrentBuilder<LstmCell> {
        RecurrentBuilder::new(LstmCell::builder(inputs, units))
    }
}

impl RecurrentCell for LstmCell {
    type State = LstmState;

    fn inputs(&self) -> usize {
        self.weight_ih.shape()[1]
    }

    fn units(&self) -> usize {
        self.weight_hh.shape()[1]
    }

    fn dtype(&self) -> DType {
        self.weight_hh.dtype()
    }

    #[track_caller]
    fn project(&self, x: &Variable) -> Variable {
        linear(x, &self.weight_ih, self.bias.as_ref())
    }

    #[track_caller]
    fn advance(&self, projected: &Variable, state: &LstmState) -> LstmState {
        check_state("LstmCell", projected, &state.c, &self.weight_hh);
        let gates = from_both("LstmCell", projected, &state.h, &self.weight_hh);
        let gates = split(gates, 4, -1);
        let c = sigmoid(&gates[1]) * &state.c + sigmoid(&gates[0]) * tanh(&gates[2]);
        let h = sigmoid(&gates[3]) * tanh(&c);
        LstmState { h, c }
    }

    fn zero_state(&self, leading: &[usize]) -> LstmState {
        let zeros = zeros(leading, &self.weight_hh);
        LstmState {
            h: zeros.clone(),
            c: zeros,
        }
    }
}
