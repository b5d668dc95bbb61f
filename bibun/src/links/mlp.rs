//! The multilayer perceptron.

use bibun_array::Generator;

use super::{Chain, Dropout, FunctionLink, Linear, Link, Start, start_setters};
use crate::call::calling;
use crate::error::{Error, raise};
use crate::initializers::HeNormal;
use crate::variable::Variable;

/// The multilayer perceptron: fully connected layers with an activation between them, and
/// optionally dropout after each activation.
///
/// Shapes: x `[.., first size]` → `[.., last size]`. Parameters: `layers/0/weight`, `layers/0/bias`
/// and so on. Cloning shares them.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::links::{Link, Mlp};
/// use bibun::Variable;
/// let model = Mlp::new(&[4, 8, 8, 2], &mut Generator::new(0));
/// let x = Variable::constant([[1.0f32, 2.0, 3.0, 4.0]]);
/// assert_eq!(model.forward(&x).shape(), [1, 2]);
/// assert_eq!(model.layers[1].weight.shape(), [8, 8]);
/// ```
#[derive(Chain, Clone, Debug)]
pub struct Mlp {
    /// The layers.
    pub layers: Vec<Linear>,
    activation: FunctionLink,
    dropout: Option<Dropout>,
}

impl Mlp {
    /// Creates layers in f32 between these sizes (of the input, the hidden values and the output),
    /// with `relu` between them, weights from [`HeNormal`] and biases of zero.
    ///
    /// # Panics
    /// Panics if there are fewer than two sizes.
    #[track_caller]
    pub fn new(sizes: &[usize], generator: &mut Generator) -> Self {
        Self::builder(sizes).build(generator)
    }

    /// Returns a builder of layers with custom options.
    ///
    /// ```
    /// use bibun::array::{DType, Generator};
    /// use bibun::initializers::GlorotUniform;
    /// use bibun::links::Mlp;
    /// use bibun::Variable;
    /// let model = Mlp::builder(&[4, 8, 2])
    ///     .activation(Variable::tanh)
    ///     .initializer(GlorotUniform)
    ///     .dropout(0.5)
    ///     .dtype(DType::F64)
    ///     .build(&mut Generator::new(0));
    /// assert_eq!(model.layers.len(), 2);
    /// ```
    pub fn builder(sizes: &[usize]) -> MlpBuilder {
        MlpBuilder {
            sizes: sizes.to_vec(),
            activation: FunctionLink::new(Variable::relu),
            dropout: None,
            start: Start::new(HeNormal),
        }
    }
}

impl Link for Mlp {
    /// Computes the output of the last layer; no activation follows it.
    ///
    /// # Panics
    /// Panics if x is not `[.., first size]`; the message has all shapes.
    fn compute(&self, x: &Variable) -> Variable {
        let mut y = self.layers[0].forward(x);
        for layer in &self.layers[1..] {
            y = self.activation.forward(&y);
            if let Some(dropout) = &self.dropout {
                y = dropout.forward(&y);
            }
            y = layer.forward(&y);
        }
        y
    }
}

/// A builder of an [`Mlp`]; see [`Mlp::builder`].
#[derive(Debug)]
#[must_use = "nothing is made before `build`"]
pub struct MlpBuilder {
    sizes: Vec<usize>,
    activation: FunctionLink,
    dropout: Option<f64>,
    start: Start,
}

impl MlpBuilder {
    /// Sets the activation between the layers. Defaults to `relu`.
    pub fn activation(
        mut self,
        activation: impl Fn(&Variable) -> Variable + Send + Sync + 'static,
    ) -> Self {
        self.activation = FunctionLink::new(activation);
        self
    }

    /// Sets the probability with which each hidden value is dropped in training mode. Defaults to
    /// no dropout.
    pub fn dropout(mut self, rate: f64) -> Self {
        self.dropout = Some(rate);
        self
    }

    start_setters!(start, HeNormal);

    /// Draws the parameters and builds the link.
    ///
    /// # Panics
    /// Panics if there are fewer than two sizes, the dtype is not a float type, or the dropout rate
    /// is not in `[0, 1)`.
    #[track_caller]
    pub fn build(self, generator: &mut Generator) -> Mlp {
        let _called = calling("Mlp");
        if self.sizes.len() < 2 {
            let what = format!(
                "the sizes are {:?}, expected at least those of input and output",
                self.sizes
            );
            raise(Error::argument("Mlp", what));
        }
        let mut layers = Vec::new();
        for sizes in self.sizes.windows(2) {
            layers.push(Linear::drawn(sizes[0], sizes[1], &self.start, generator));
        }
        let dropout = Dropout::of_rate(self.dropout, generator);
        Mlp {
            layers,
            activation: self.activation,
            dropout,
        }
    }
}
