//! The maxout layer.

use bibun_array::Generator;

use super::{Chain, Linear, LinearBuilder, Link, start_setters};
use crate::call::calling;
use crate::error::{Error, raise};
use crate::functions::maxout;
use crate::variable::Variable;

/// A fully connected layer in which each output is the greatest of `pool_size` values,
/// `y_o = max_k (x wᵀ + b)_{o, k}`: a learned activation.
///
/// Shapes: x `[.., i]` → `[.., o]`, with `linear/weight` `[o · pool_size, i]`; the rows of one
/// output are next to each other. Cloning shares the parameters.
///
/// Source: Goodfellow, Warde-Farley, Mirza, Courville, Bengio, "Maxout Networks", ICML 2013.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::links::{Link, Maxout};
/// use bibun::Variable;
/// let layer = Maxout::new(3, 2, 4, &mut Generator::new(0));
/// assert_eq!(layer.forward(&Variable::constant([[1.0f32, 2.0, 3.0]])).shape(), [1, 2]);
/// assert_eq!(layer.linear.weight.shape(), [8, 3]);
/// ```
#[derive(Chain, Clone, Debug)]
pub struct Maxout {
    /// The layer that computes the values of all pools.
    pub linear: Linear,
    pool_size: usize,
}

impl Maxout {
    /// Creates a layer in f32 with weights from [`HeNormal`](crate::initializers::HeNormal) and
    /// biases of zero.
    ///
    /// # Panics
    /// Panics if `pool_size` is 0.
    #[track_caller]
    pub fn new(inputs: usize, outputs: usize, pool_size: usize, generator: &mut Generator) -> Self {
        Self::builder(inputs, outputs, pool_size).build(generator)
    }

    /// Returns a builder of a layer with custom options.
    ///
    /// ```
    /// use bibun::array::{DType, Generator};
    /// use bibun::links::Maxout;
    /// let builder = Maxout::builder(3, 2, 4).without_bias().dtype(DType::F64);
    /// assert!(builder.build(&mut Generator::new(0)).linear.bias.is_none());
    /// ```
    pub fn builder(inputs: usize, outputs: usize, pool_size: usize) -> MaxoutBuilder {
        MaxoutBuilder {
            linear: Linear::builder(inputs, outputs * pool_size),
            pool_size,
        }
    }
}

impl Link for Maxout {
    /// Computes the greatest value of each pool.
    ///
    /// # Panics
    /// Panics if x is not `[.., inputs]`; the message has both shapes.
    fn compute(&self, x: &Variable) -> Variable {
        maxout(self.linear.forward(x), self.pool_size, -1)
    }
}

/// A builder of a [`Maxout`]; see [`Maxout::builder`].
#[derive(Debug)]
#[must_use = "nothing is made before `build`"]
pub struct MaxoutBuilder {
    linear: LinearBuilder,
    pool_size: usize,
}

impl MaxoutBuilder {
    start_setters!(linear.start, HeNormal);

    /// Draws the parameters and builds the link.
    ///
    /// # Panics
    /// Panics if the pool size is 0 or the dtype is not a float type.
    #[track_caller]
    pub fn build(self, generator: &mut Generator) -> Maxout {
        let _called = calling("Maxout");
        if self.pool_size == 0 {
            raise(Error::argument(
                "Maxout",
                "the pool size is 0, it must not be",
            ));
        }
        Maxout {
            linear: self.linear.build(generator),
            pool_size: self.pool_size,
        }
    }
}
