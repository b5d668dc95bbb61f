//! The highway layer.

use bibun_array::{DType, Generator};

use super::{Chain, FunctionLink, Linear, LinearBuilder, Link};
use crate::call::calling;
use crate::functions::sigmoid;
use crate::initializers::{Constant, Initializer};
use crate::variable::Variable;

/// A fully connected layer with a gate that lets part of the input pass unchanged,
/// `y = t f(x wᵀ + b) + (1 - t) x` with `t = sigmoid(x vᵀ + c)`. Here `w` and `b` are
/// `plain/weight` and `plain/bias`, `v` and `c` are `transform/weight` and `transform/bias`.
///
/// Shapes: x `[.., size]` → the same. Cloning shares the parameters.
///
/// Source: Srivastava, Greff, Schmidhuber, "Highway Networks", arXiv:1505.00387, 2015.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::links::{Highway, Link};
/// use bibun::Variable;
/// let layer = Highway::new(3, &mut Generator::new(0));
/// assert_eq!(layer.forward(&Variable::constant([[1.0f32, 2.0, 3.0]])).shape(), [1, 3]);
/// ```
#[derive(Chain, Clone, Debug)]
pub struct Highway {
    /// The layer that computes the candidate output.
    pub plain: Linear,
    /// The layer that computes the gate.
    pub transform: Linear,
    activation: FunctionLink,
}

impl Highway {
    /// Creates a layer in f32 with `relu`, weights from
    /// [`HeNormal`](crate::initializers::HeNormal), biases of zero and gate biases of -1, so that
    /// at first most of the input passes.
    #[track_caller]
    pub fn new(size: usize, generator: &mut Generator) -> Self {
        Self::builder(size).build(generator)
    }

    /// Returns a builder of a layer with custom options.
    ///
    /// ```
    /// use bibun::array::{DType, Generator};
    /// use bibun::initializers::Constant;
    /// use bibun::links::Highway;
    /// use bibun::Variable;
    /// let layer = Highway::builder(3)
    ///     .activation(Variable::tanh)
    ///     .gate_bias_initializer(Constant(-3.0))
    ///     .dtype(DType::F64)
    ///     .build(&mut Generator::new(0));
    /// assert_eq!(layer.transform.bias.unwrap().to_vec::<f64>(), [-3.0; 3]);
    /// ```
    pub fn builder(size: usize) -> HighwayBuilder {
        HighwayBuilder {
            plain: Linear::builder(size, size),
            transform: Linear::builder(size, size).bias_initializer(Constant(-1.0)),
            activation: FunctionLink::new(Variable::relu),
        }
    }
}

impl Link for Highway {
    /// Computes the mixture of the layer's result and the input.
    ///
    /// # Panics
    /// Panics if x is not `[.., size]`; the message has both shapes.
    fn compute(&self, x: &Variable) -> Variable {
        let y = self.activation.forward(&self.plain.forward(x));
        let gate = sigmoid(self.transform.forward(x));
        gate * (y - x) + x
    }
}

/// A builder of a [`Highway`]; see [`Highway::builder`].
#[derive(Debug)]
#[must_use = "nothing is made before `build`"]
pub struct HighwayBuilder {
    plain: LinearBuilder,
    transform: LinearBuilder,
    activation: FunctionLink,
}

impl HighwayBuilder {
    /// Sets the activation applied to the result of the layer. Defaults to `relu`.
    pub fn activation(
        mut self,
        activation: impl Fn(&Variable) -> Variable + Send + Sync + 'static,
    ) -> Self {
        self.activation = FunctionLink::new(activation);
        self
    }

    /// Sets the initializer of the weights of layer and gate. Defaults to
    /// [`HeNormal`](crate::initializers::HeNormal).
    pub fn initializer(mut self, w: impl Initializer + Clone + 'static) -> Self {
        self.plain = self.plain.initializer(w.clone());
        self.transform = self.transform.initializer(w);
        self
    }

    /// Sets the initializer of the layer's biases. Defaults to [`Zero`](crate::initializers::Zero).
    pub fn bias_initializer(mut self, b: impl Initializer + 'static) -> Self {
        self.plain = self.plain.bias_initializer(b);
        self
    }

    /// Sets the initializer of the gate's biases. Defaults to -1.
    pub fn gate_bias_initializer(mut self, b: impl Initializer + 'static) -> Self {
        self.transform = self.transform.bias_initializer(b);
        self
    }

    /// Leaves out the biases of layer and gate.
    pub fn without_bias(mut self) -> Self {
        self.plain = self.plain.without_bias();
        self.transform = self.transform.without_bias();
        self
    }

    /// Sets the dtype of the parameters. Defaults to `f32`.
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.plain = self.plain.dtype(dtype);
        self.transform = self.transform.dtype(dtype);
        self
    }

    /// Draws the parameters and builds the link.
    ///
    /// # Panics
    /// Panics if the dtype is not a float type.
    #[track_caller]
    pub fn build(self, generator: &mut Generator) -> Highway {
        let _called = calling("Highway");
        Highway {
            plain: self.plain.build(generator),
            transform: self.transform.build(generator),
            activation: self.activation,
        }
    }
}
