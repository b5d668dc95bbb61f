//! The highway layer.

use bibun_array::{DType, Generator};

use super::{Chain, FunctionLink, Linear, LinearBuilder, Link};
use crate::call::calling;
use crate::functions::sigmoid;
use crate::initializers::{Constant, Initializer};
use crate::variable::Variable;

/// A fully connected layer with a gate that lets part of the input pass as it is,
/// `y = t f(x wᵀ + b) + (1 - t) x` with `t = sigmoid(x vᵀ + c)`: plain/w, plain/b, transform/w and
/// transform/b.
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
    /// The layer.
    pub plain: Linear,
    /// The gate.
    pub transform: Linear,
    activation: FunctionLink,
}

impl Highway {
    /// A layer in f32 with `relu`, weights from [`HeNormal`](crate::initializers::HeNormal), biases
    /// of zero and those of the gate -1, so that at first most passes.
    #[track_caller]
    pub fn new(size: usize, generator: &mut Generator) -> Self {
        Self::builder(size).build(generator)
    }

    /// A layer with choices of one's own.
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
    /// The mixture of the layer's result and the input.
    ///
    /// # Panics
    /// If x is not `[.., size]`; the message has both shapes.
    fn compute(&self, x: &Variable) -> Variable {
        let y = self.activation.forward(&self.plain.forward(x));
        let gate = sigmoid(self.transform.forward(x));
        gate * (y - x) + x
    }
}

/// What a [`Highway`] will be; see [`Highway::builder`].
#[derive(Debug)]
#[must_use = "nothing is made before `build`"]
pub struct HighwayBuilder {
    plain: LinearBuilder,
    transform: LinearBuilder,
    activation: FunctionLink,
}

impl HighwayBuilder {
    /// What the result of the layer is put through; `relu` if nothing is said.
    pub fn activation(
        mut self,
        activation: impl Fn(&Variable) -> Variable + Send + Sync + 'static,
    ) -> Self {
        self.activation = FunctionLink::new(activation);
        self
    }

    /// How the weights of layer and gate start; [`HeNormal`](crate::initializers::HeNormal) if
    /// nothing is said.
    pub fn initializer(mut self, w: impl Initializer + Clone + 'static) -> Self {
        self.plain = self.plain.initializer(w.clone());
        self.transform = self.transform.initializer(w);
        self
    }

    /// How the biases of the layer start; [`Zero`](crate::initializers::Zero) if nothing is said.
    pub fn bias_initializer(mut self, b: impl Initializer + 'static) -> Self {
        self.plain = self.plain.bias_initializer(b);
        self
    }

    /// How the biases of the gate start; -1 if nothing is said.
    pub fn gate_bias_initializer(mut self, b: impl Initializer + 'static) -> Self {
        self.transform = self.transform.bias_initializer(b);
        self
    }

    /// Leaves the biases of layer and gate out.
    pub fn without_bias(mut self) -> Self {
        self.plain = self.plain.without_bias();
        self.transform = self.transform.without_bias();
        self
    }

    /// The dtype of the parameters, `f32` if nothing is said.
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.plain = self.plain.dtype(dtype);
        self.transform = self.transform.dtype(dtype);
        self
    }

    /// Draws the parameters.
    ///
    /// # Panics
    /// If the dtype is no float type.
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
