//! Builders of recurrent cells and networks.

use std::fmt;
use std::sync::Arc;

use bibun_array::{Array, DType, Generator, Shape, concat};

use super::{Recurrent, RecurrentCell, RecurrentLayer};
use crate::call::calling;
use crate::initializers::{Constant, Initializer, LeCunNormal, Orthogonal, Zero};
use crate::links::{Dropout, expect_float};
use crate::variable::Variable;

/// The parameters of a cell as drawn: the weights of all gates, concatenated along the first axis.
pub(super) struct Weights {
    pub(super) weight_ih: Variable,
    pub(super) weight_hh: Variable,
    pub(super) bias: Option<Variable>,
    /// A second bias for the last gate.
    pub(super) bias_hn: Option<Variable>,
}

/// The properties of one kind of cell.
#[derive(Clone)]
pub(super) struct Kind<C> {
    pub(super) name: &'static str,
    pub(super) gates: usize,
    /// The gate whose bias starts at one, if there is one.
    pub(super) open_gate: Option<usize>,
    /// Whether the last gate has a second bias.
    pub(super) has_bias_hn: bool,
    pub(super) make: fn(Weights) -> C,
}

/// A builder of a cell; see [`LstmCell::builder`](super::LstmCell::builder).
///
/// Initializers see the weights of one gate at a time, `[units, inputs]` or `[units, units]`.
#[must_use = "nothing is made before `build`"]
pub struct CellBuilder<C> {
    pub(super) kind: Kind<C>,
    inputs: usize,
    units: usize,
    dtype: DType,
    weight_ih: Arc<dyn Initializer>,
    weight_hh: Arc<dyn Initializer>,
    bias: Option<Arc<dyn Initializer>>,
}

impl<C> CellBuilder<C> {
    pub(super) fn new(kind: Kind<C>, inputs: usize, units: usize) -> Self {
        Self {
            kind,
            inputs,
            units,
            dtype: DType::F32,
            weight_ih: Arc::new(LeCunNormal),
            weight_hh: Arc::new(Orthogonal { gain: 1.0 }),
            bias: Some(Arc::new(Zero)),
        }
    }

    /// Sets the initializer of the weights of the input. Defaults to [`LeCunNormal`].
    pub fn initializer(mut self, initializer: impl Initializer + 'static) -> Self {
        self.weight_ih = Arc::new(initializer);
        self
    }

    /// Sets the initializer of the weights of the state. Defaults to [`Orthogonal`] with a gain of
    /// 1.
    pub fn recurrent_initializer(mut self, initializer: impl Initializer + 'static) -> Self {
        self.weight_hh = Arc::new(initializer);
        self
    }

    /// Sets the initializer of all biases. Defaults to [`Zero`], with one for the forget gate of an
    /// LSTM.
    pub fn bias_initializer(mut self, initializer: impl Initializer + 'static) -> Self {
        self.bias = Some(Arc::new(initializer));
        self.kind.open_gate = None;
        self
    }

    /// Leaves out the biases.
    pub fn without_bias(mut self) -> Self {
        self.bias = None;
        self
    }

    /// Sets the dtype of the parameters. Defaults to `f32`.
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }

    /// Draws the parameters and builds the cell.
    ///
    /// # Panics
    /// Panics if the dtype is not a float type.
    #[track_caller]
    pub fn build(self, generator: &mut Generator) -> C {
        let _called = calling("RecurrentCell");
        self.draw(self.inputs, generator)
    }

    #[track_caller]
    fn draw(&self, inputs: usize, generator: &mut Generator) -> C {
        let Self {
            ref kind,
            units,
            dtype,
            ..
        } = *self;
        expect_float(kind.name, dtype);
        let mut of_gates = |initializer: &dyn Initializer, shape: Shape| {
            let gates = (0..kind.gates).map(|_| initializer.initialize(&shape, dtype, generator));
            joined(gates.collect())
        };
        let weight_ih = of_gates(&self.weight_ih, [units, inputs].into());
        let weight_hh = of_gates(&self.weight_hh, [units, units].into());
        let bias = self.bias.as_ref().map(|initializer| {
            let of_gate = |gate: usize| match kind.open_gate {
                Some(open) if open == gate => {
                    Constant(1.0).initialize(&units.into(), dtype, generator)
                }
                _ => initializer.initialize(&units.into(), dtype, generator),
            };
            joined((0..kind.gates).map(of_gate).collect())
        });
        let bias_hn = (self.bias.as_ref().filter(|_| kind.has_bias_hn)).map(|initializer| {
            Variable::new(initializer.initialize(&units.into(), dtype, generator))
        });
        (kind.make)(Weights {
            weight_ih,
            weight_hh,
            bias,
            bias_hn,
        })
    }
}

/// Concatenates the parts into one parameter.
fn joined(parts: Vec<Array>) -> Variable {
    Variable::new(concat(&parts.iter().collect::<Vec<_>>(), 0))
}

/// Defines `new` and `builder` of a cell, with their documentation, and of its networks.
macro_rules! constructors {
    ($Cell:ident; $(#[$new:meta])* new; $(#[$builder:meta])* builder;) => {
        impl $Cell {
            $(#[$new])*
            pub fn new(inputs: usize, units: usize, generator: &mut bibun_array::Generator) -> Self {
                Self::builder(inputs, units).build(generator)
            }

            $(#[$builder])*
            pub fn builder(inputs: usize, units: usize) -> $crate::links::CellBuilder<Self> {
                $crate::links::CellBuilder::new(Self::KIND, inputs, units)
            }
        }

        impl $crate::links::Recurrent<$Cell> {
            #[doc = concat!(
                "Creates a network of one layer in f32; see [`", stringify!($Cell), "::new`]."
            )]
            pub fn new(inputs: usize, units: usize, generator: &mut bibun_array::Generator) -> Self {
                Self::builder(inputs, units).build(generator)
            }

            /// Returns a builder of a network with custom options.
            pub fn builder(inputs: usize, units: usize) -> $crate::links::RecurrentBuilder<$Cell> {
                $crate::links::RecurrentBuilder::new($Cell::builder(inputs, units))
            }
        }
    };
}
pub(super) use constructors;

impl<C> fmt::Debug for CellBuilder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CellBuilder")
            .field("cell", &self.kind.name)
            .field("inputs", &self.inputs)
            .field("units", &self.units)
            .finish_non_exhaustive()
    }
}

/// A builder of a [`Recurrent`] network; see [`Lstm::builder`](super::Lstm).
#[must_use = "nothing is made before `build`"]
pub struct RecurrentBuilder<C> {
    pub(super) cell: CellBuilder<C>,
    layers: usize,
    bidirectional: bool,
    dropout: Option<f64>,
}

impl<C> RecurrentBuilder<C> {
    pub(super) fn new(cell: CellBuilder<C>) -> Self {
        Self {
            cell,
            layers: 1,
            bidirectional: false,
            dropout: None,
        }
    }

    /// Sets the number of layers. Defaults to 1.
    pub fn layers(mut self, layers: usize) -> Self {
        self.layers = layers;
        self
    }

    /// Adds to each layer a cell that runs from the end of the sequence to its beginning.
    pub fn bidirectional(mut self) -> Self {
        self.bidirectional = true;
        self
    }

    /// Sets the probability with which each value passed from layer to layer is dropped in training
    /// mode. Defaults to no dropout.
    pub fn dropout(mut self, rate: f64) -> Self {
        self.dropout = Some(rate);
        self
    }

    /// Sets the initializer of the weights of the inputs; see [`CellBuilder::initializer`].
    pub fn initializer(mut self, initializer: impl Initializer + 'static) -> Self {
        self.cell = self.cell.initializer(initializer);
        self
    }

    /// Sets the initializer of the weights of the states; see
    /// [`CellBuilder::recurrent_initializer`].
    pub fn recurrent_initializer(mut self, initializer: impl Initializer + 'static) -> Self {
        self.cell = self.cell.recurrent_initializer(initializer);
        self
    }

    /// Sets the initializer of all biases; see [`CellBuilder::bias_initializer`].
    pub fn bias_initializer(mut self, initializer: impl Initializer + 'static) -> Self {
        self.cell = self.cell.bias_initializer(initializer);
        self
    }

    /// Leaves out the biases.
    pub fn without_bias(mut self) -> Self {
        self.cell = self.cell.without_bias();
        self
    }

    /// Sets the dtype of the parameters. Defaults to `f32`.
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.cell = self.cell.dtype(dtype);
        self
    }
}

impl<C: RecurrentCell> RecurrentBuilder<C> {
    /// Draws the parameters and builds the network.
    ///
    /// # Panics
    /// Panics if there are no layers, the dtype is not a float type, or the dropout rate is not in
    /// `[0, 1)`.
    #[track_caller]
    pub fn build(self, generator: &mut Generator) -> Recurrent<C> {
        let _called = calling("Recurrent");
        let mut inputs = self.cell.inputs;
        let mut layers = Vec::with_capacity(self.layers);
        for _ in 0..self.layers {
            layers.push(RecurrentLayer {
                forward: self.cell.draw(inputs, generator),
                backward: match self.bidirectional {
                    true => Some(self.cell.draw(inputs, generator)),
                    false => None,
                },
            });
            inputs = self.cell.units * if self.bidirectional { 2 } else { 1 };
        }
        let dropout = Dropout::of_rate(self.dropout, generator);
        Recurrent::of_layers(layers, dropout)
    }
}

impl<C> fmt::Debug for RecurrentBuilder<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecurrentBuilder")
            .field("cell", &self.cell)
            .field("layers", &self.layers)
            .field("bidirectional", &self.bidirectional)
            .finish_non_exhaustive()
    }
}
