//! The fully connected layer.

use bibun_array::Generator;

use super::{Chain, Link, Start, expect_float, start_setters};
use crate::call::calling;
use crate::functions::linear;
use crate::initializers::HeNormal;
use crate::variable::Variable;

/// The fully connected layer, `y = x wᵀ + b` with w the weight and b the bias.
///
/// Shapes: x `[.., i]` → `[.., o]`, with weight `[o, i]` and bias `[o]`. Cloning shares the
/// parameters.
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
    /// Creates a layer in f32 with weights from [`HeNormal`] and biases of zero.
    #[track_caller]
    pub fn new(inputs: usize, outputs: usize, generator: &mut Generator) -> Self {
        Self::builder(inputs, outputs).build(generator)
    }

    /// Returns a builder of a layer with custom options.
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
            start: Start::new(HeNormal),
        }
    }

    #[track_caller]
    pub(super) fn drawn(
        inputs: usize,
        outputs: usize,
        start: &Start,
        generator: &mut Generator,
    ) -> Self {
        let _called = calling("Linear");
        expect_float("Linear", start.dtype);
        let (weight, bias) = start.draw([outputs, inputs].into(), generator);
        Self {
            weight: Variable::new(weight),
            bias,
        }
    }
}

impl Link for Linear {
    /// Computes `x wᵀ + b`.
    ///
    /// # Panics
    /// Panics if x is not `[.., inputs]`; the message has both shapes.
    fn compute(&self, x: &Variable) -> Variable {
        linear(x, &self.weight, self.bias.as_ref())
    }
}

/// A builder of a [`Linear`]; see [`Linear::builder`].
#[derive(Debug)]
#[must_use = "nothing is made before `build`"]
pub struct LinearBuilder {
    inputs: usize,
    outputs: usize,
    pub(super) start: Start,
}

impl LinearBuilder {
    start_setters!(start, HeNormal);

    /// Draws the parameters and builds the link.
    ///
    /// # Panics
    /// Panics if the dtype is not a float type.
    #[track_caller]
    pub fn build(self, generator: &mut Generator) -> Linear {
        Linear::drawn(self.inputs, self.outputs, &self.start, generator)
    }
}
