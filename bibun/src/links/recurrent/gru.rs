//! The gated recurrent unit.

use bibun_array::{Array, RecurrenceCell};

use super::builder::{Kind, constructors};
use super::recurrence::unroll;
use super::{Recurrent, RecurrentCell, RecurrentSteps, check_state, from_weights, zeros};
use crate::functions::{linear, sigmoid, split_at, tanh};
use crate::links::Chain;
use crate::variable::Variable;

/// A recurrent network of [`GruCell`]s; see [`Recurrent`].
///
/// ```
/// use bibun::array::{Array, DType, Generator};
/// use bibun::links::{Gru, Link};
/// use bibun::Variable;
/// let network = Gru::builder(3, 4).bidirectional().build(&mut Generator::new(0));
/// let x = Variable::constant(Array::ones([2, 5, 3], DType::F32));
/// assert_eq!(network.forward(&x).shape(), [2, 5, 8]);
/// ```
pub type Gru = Recurrent<GruCell>;

/// One step of the gated recurrent unit: `r = sigmoid(x rₓᵀ + h rₕᵀ + bᵣ)`,
/// `z = sigmoid(x zₓᵀ + h zₕᵀ + b_z)`, `n = tanh(x nₓᵀ + bₙ + r (h nₕᵀ + bₕₙ))`, and
/// `h' = (1 - z) n + z h`.
///
/// The reset gate `r` is applied *after* the product with the state, as in PyTorch and cuDNN; Cho
/// et al. and Chainer apply it before, so their weights are not interchangeable with these. The
/// rows of weights and biases are those of `r`, `z`, `n`, in this order, as in PyTorch. PyTorch has
/// two biases for each of `r` and `z`; here there is one, their sum. `bias_hn` is `bₕₙ`, the bias
/// of the state in `n`.
///
/// Shapes: x `[.., i]`, state h `[.., o]` → `[.., o]`, with weight_ih `[3 o, i]`, weight_hh
/// `[3 o, o]`, bias `[3 o]`, bias_hn `[o]`. Cloning shares the parameters.
///
/// Source: Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", EMNLP 2014.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::links::{GruCell, RecurrentCell};
/// use bibun::Variable;
/// let cell = GruCell::new(2, 3, &mut Generator::new(0));
/// let h = cell.step(&Variable::constant([[1.0f32, 2.0]]), &cell.zero_state(&[1]));
/// assert_eq!(h.shape(), [1, 3]);
/// ```
#[derive(Chain, Clone, Debug)]
pub struct GruCell {
    /// The weights of the input, `[3 o, i]`.
    pub weight_ih: Variable,
    /// The weights of the state, `[3 o, o]`.
    pub weight_hh: Variable,
    /// The biases, `[3 o]`, if there are any.
    pub bias: Option<Variable>,
    /// The biases of the state for the candidate, `[o]`, if there are any.
    pub bias_hn: Option<Variable>,
}

impl GruCell {
    const KIND: Kind<Self> = Kind {
        name: "GruCell",
        gates: 3,
        open_gate: None,
        has_bias_hn: true,
        make: |weights| Self {
            weight_ih: weights.weight_ih,
            weight_hh: weights.weight_hh,
            bias: weights.bias,
            bias_hn: weights.bias_hn,
        },
    };
}

constructors! {
    GruCell;

    /// Creates a cell in f32 with weights from [`LeCunNormal`](crate::initializers::LeCunNormal)
    /// and [`Orthogonal`](crate::initializers::Orthogonal), and biases of zero.
    new;

    /// Returns a builder of a cell with custom options.
    builder;
}

impl RecurrentCell for GruCell {
    type State = Variable;

    from_weights!();

    #[track_caller]
    fn advance(&self, projected: &Variable, h: &Variable) -> Variable {
        check_state("GruCell", projected, h, &self.weight_hh);
        let units = self.units();
        let cut = |x: &Variable| split_at(x, &[2 * units], -1);
        let (from_x, from_h) = (cut(projected), cut(&linear(h, &self.weight_hh, None)));
        let gates = split_at(sigmoid(&from_x[0] + &from_h[0]), &[units], -1);
        let (r, z) = (&gates[0], &gates[1]);
        let candidate = match &self.bias_hn {
            Some(bias) => &from_h[1] + bias,
            None => from_h[1].clone(),
        };
        let n = tanh(&from_x[1] + r * candidate);
        z * (h - &n) + n
    }

    #[track_caller]
    fn unroll(
        &self,
        x: &Variable,
        state: Variable,
        steps: &RecurrentSteps,
    ) -> (Variable, Variable) {
        let (project, w) = (|x: &Variable| self.project(x), &self.weight_hh);
        let none = || Variable::constant(Array::zeros(self.units(), self.dtype()));
        let bias = Some(self.bias_hn.clone().unwrap_or_else(none));
        let (y, [h]) = unroll(RecurrenceCell::Gru, project, x, w, bias, [&state], steps);
        (y, h)
    }

    fn zero_state(&self, leading: &[usize]) -> Variable {
        zeros(leading, &self.weight_hh)
    }
}
