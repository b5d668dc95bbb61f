//! The fully connected layer.

use bibun_array::{DType, Generator};

use super::{Chain, Link};
use crate::call::calling;
use crate::error::{Error, raise};
use crate::functions::linear;
use crate::initializers::{HeNormal, Initializer, Zero};
use crate::variable::Variable;

/// The fully connected layer, `y = x wᵀ + b`.
///
/// Shapes: x `[.., i]` → `[.., o]`, with w `[o, i]` and b `[o]`. Cloning shares the parameters.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::links::{Linear, Link};
/// use bibun::Variable;
/// let layer = Linear::new(3, 2, &mut Generator::new(0));
/// let x = Variable::constant([[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]]);
/// assert_eq!(layer.forward(&x).shape(), [2, 2]);
/// assert_eq!(layer.weight.shape(), [2, 3]);
/// ```
#[derive(Chain, Clone, Debug)]
pub struct Linear {
    /// The weights, `[outputs, inputs]`.
    pub weight: Variable,
    /// The biases, `[outputs]`, if there are any.
    pub bias: Option<Variable>,
}

impl Linear {
    /// A layer in f32 with weights from [`HeNormal`] and biases of zero.
    #[track_caller]
    pub fn new(inputs: usize, outputs: usize, generator: &mut Generator) -> Self {
        Self::builder(inputs, outputs).build(generator)
    }

    /// A layer with choices of one's own.
    ///
    /// ```
    /// use bibun::array::{DType, Generator};
    /// use bibun::initializers::GlorotUniform;
    /// use bibun::links::Linear;
    /// let layer = Linear::builder(3, 2)
    ///     .initializer(GlorotUniform)
    ///     .without_bias()
    ///     .dtype(DType::F64)
    ///     .build(&mut Generator::new(0));
    /// assert!(layer.bias.is_none());
    /// ```
    pub fn builder(inputs: usize, outputs: usize) -> LinearBuilder {
        LinearBuilder {
            inputs,
            outputs,
            dtype: DType::F32,
            w: Box::new(HeNormal),
            b: Some(Box::new(Zero)),
        }
    }
}

impl Link for Linear {
    /// `x wᵀ + b`.
    ///
    /// # Panics
    /// If x is not `[.., inputs]`; the message has both shapes.
    fn compute(&self, x: &Variable) -> Variable {
        linear(x, &self.weight, self.bias.as_ref())
    }
}

/// What a [`Linear`] will be; see [`Linear::builder`].
#[derive(Debug)]
#[must_use = "nothing is made before `build`"]
pub struct LinearBuilder {
    inputs: usize,
    outputs: usize,
    dtype: DType,
    w: Box<dyn Initializer>,
    b: Option<Box<dyn Initializer>>,
}

impl LinearBuilder {
    /// How the weights start; [`HeNormal`] if nothing is said.
    pub fn initializer(mut self, w: impl Initializer + 'static) -> Self {
        self.w = Box::new(w);
        self
    }

    /// How the biases start; [`Zero`] if nothing is said.
    pub fn bias_initializer(mut self, b: impl Initializer + 'static) -> Self {
        self.b = Some(Box::new(b));
        self
    }

    /// Leaves the biases out.
    pub fn without_bias(mut self) -> Self {
        self.b = None;
        self
    }

    /// The dtype of the parameters, `f32` if nothing is said.
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }

    /// Draws the parameters.
    ///
    /// # Panics
    /// If the dtype is no float type.
    #[track_caller]
    pub fn build(self, generator: &mut Generator) -> Linear {
        let _called = calling("Linear");
        if !self.dtype.is_float() {
            let what = format!("the dtype is {}, parameters must be floats", self.dtype);
            raise(Error::argument("Linear", what));
        }
        let w = self
            .w
            .initialize(&[self.outputs, self.inputs].into(), self.dtype, generator);
        let b = self
            .b
            .map(|b| b.initialize(&[self.outputs].into(), self.dtype, generator));
        Linear {
            weight: Variable::new(w),
            bias: b.map(Variable::new),
        }
    }
}
