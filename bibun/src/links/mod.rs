//! Links, which hold parameters and the computation that uses them, and Chains, whose parameters
//! are walked by name.

mod attention;
mod cache;
mod chain;
mod convolution;
mod dropout;
mod embedding;
mod evaluation;
mod function;
mod highway;
mod linear;
mod made;
mod maxout;
mod mlp;
mod normalization;
mod parameter;
mod path;
mod recurrent;
mod sequential;
mod spectral_norm;
mod start;
mod transformer;
mod weight_norm;
mod weight_standardization;

use std::any::TypeId;

pub use attention::{MultiHeadAttention, MultiHeadAttentionBuilder};
pub use bibun_derive::Chain;
pub use cache::KeyValueCache;
pub use chain::Chain;
pub(crate) use chain::for_each_parameter;
pub use convolution::{
    Conv, Conv1d, Conv2d, Conv3d, ConvBuilder, ConvTranspose, ConvTranspose1d, ConvTranspose2d,
    ConvTranspose3d, ConvTransposeBuilder,
};
pub use dropout::Dropout;
pub use embedding::{Embedding, EmbeddingBuilder};
pub use evaluation::Evaluation;
pub use function::FunctionLink;
pub use highway::{Highway, HighwayBuilder};
pub use linear::{Linear, LinearBuilder};
pub use made::Made;
pub use maxout::{Maxout, MaxoutBuilder};
pub use mlp::{Mlp, MlpBuilder};
pub use normalization::{BatchNorm, GroupNorm, InstanceNorm, LayerNorm, NormBuilder, RmsNorm};
pub use parameter::Parameter;
pub(crate) use path::put_aside;
pub use path::within;
pub use recurrent::{
    CellBuilder, Gru, GruCell, Lstm, LstmCell, LstmState, Recurrent, RecurrentBuilder,
    RecurrentCell, RecurrentLayer, RecurrentState, RecurrentSteps, Rnn, RnnCell,
};
pub use sequential::Sequential;
pub use spectral_norm::SpectralNorm;
use start::{Start, expect_float, start_setters};
pub use transformer::{SinusoidalPositions, TransformerBlock, TransformerBlockBuilder};
pub use weight_norm::{WeightNorm, Weighted};
pub use weight_standardization::WeightStandardization;

pub use crate::tree::Buffer;
use crate::tree::{Mapper, Tree, Visitor};
use crate::variable::Variable;

/// A Chain that computes one Variable from another.
///
/// ```
/// use bibun::array::Generator;
/// use bibun::links::{Chain, Linear, Link};
/// use bibun::Variable;
///
/// #[derive(Chain)]
/// struct Stack(Vec<Box<dyn Link>>);
///
/// impl Link for Stack {
///     fn compute(&self, x: &Variable) -> Variable {
///         self.0.iter().fold(x.clone(), |x, link| link.forward(&x))
///     }
/// }
///
/// let g = &mut Generator::new(0);
/// let stack = Stack(vec![Box::new(Linear::new(3, 4, g)), Box::new(Linear::new(4, 2, g))]);
/// let x = Variable::constant([[1.0f32, 2.0, 3.0]]);
/// assert_eq!(stack.forward(&x).shape(), [1, 2]);
/// assert_eq!(stack.parameters()[0].0, "0/weight");
/// ```
pub trait Link: Chain + MapLink + Send + Sync {
    /// Computes the output of the link. Implement this method for a custom link; [`forward`](Link::forward) runs
    /// it.
    fn compute(&self, x: &Variable) -> Variable;

    /// Applies the link to `x`.
    ///
    /// The location of an error is the line of this call, also for a `dyn Link`, and the error
    /// names the part of the model that raised it:
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::links::{Linear, Link, Sequential};
    /// use bibun::{attempt, Variable};
    /// let g = &mut Generator::new(0);
    /// let model = Sequential::new().then(Linear::new(4, 8, g)).then(Linear::new(9, 2, g));
    /// let x = Variable::constant([[1.0f32, 2.0, 3.0, 4.0]]);
    /// let error = attempt(|| model.forward(&x)).unwrap_err();
    /// assert!(error.to_string().starts_with("in 1: linear: inputs do not fit"));
    /// ```
    ///
    /// # Panics
    /// Panics if the link does not accept `x`, with [`Error::InLink`](crate::Error::InLink) if the
    /// link is a part of another.
    #[track_caller]
    fn forward(&self, x: &Variable) -> Variable {
        within(self, || self.compute(x))
    }
}

/// Support for mapping a `Box<dyn Link>` like any other [`Tree`]. Every sized [`Link`] implements
/// it.
pub trait MapLink {
    /// Returns the same link with its Variables mapped.
    fn map_link(&self, mapper: &mut Mapper<'_>) -> Box<dyn Link>;

    /// Returns the type of the link.
    fn link_type(&self) -> TypeId;
}

impl<L: Link + 'static> MapLink for L {
    fn map_link(&self, mapper: &mut Mapper<'_>) -> Box<dyn Link> {
        Box::new(self.map(mapper))
    }

    fn link_type(&self) -> TypeId {
        TypeId::of::<L>()
    }
}

impl Tree for Box<dyn Link> {
    fn visit(&self, visitor: &mut Visitor<'_>) {
        visitor.plain(&(**self).link_type());
        (**self).visit(visitor);
    }
    fn map(&self, mapper: &mut Mapper<'_>) -> Self {
        (**self).map_link(mapper)
    }
}

/// Returns the samples of functions that belong to links, for the conformance test.
#[cfg(test)]
pub(crate) fn samples() -> Vec<crate::conformance::Sample> {
    recurrent::samples()
}
