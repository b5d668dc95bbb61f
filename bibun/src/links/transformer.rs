//! The transformer's block and the positions it needs.

use bibun_array::{DType, Generator};

use super::{
    Chain, Dropout, FunctionLink, LayerNorm, Link, Mlp, MultiHeadAttention,
    MultiHeadAttentionBuilder, within,
};
use crate::call::calling;
use crate::error::{Error, raise};
use crate::functions::sinusoidal_positions;
use crate::initializers::GlorotUniform;
use crate::variable::Variable;

/// One block of a transformer: attention of a sequence to itself and a perceptron for each position,
/// each with a normalisation and a way around it.
///
/// With the normalisation in front (the default), `h = x + attention(norm(x))` and
/// `y = h + feed_forward(norm(h))`; with it behind, `h = norm(x + attention(x))` and
/// `y = norm(h + feed_forward(h))`. Dropout, if there is any, is put on the weights of the attention,
/// on the hidden values of the perceptron, and on what each of the two adds.
///
/// Shapes: x `[.., t, size]` → the same. Parameters: attention/query/w and so on,
/// attention_norm/gamma, feed_forward/layers/0/w, feed_forward_norm/gamma. Cloning shares them.
///
/// Sources: Vaswani et al., "Attention Is All You Need", NeurIPS 2017; Xiong et al., "On Layer
/// Normalization in the Transformer Architecture", ICML 2020, for the normalisation in front.
///
/// ```
/// use bibun::array::{Array, DType, Generator};
/// use bibun::links::{Link, TransformerBlock};
/// use bibun::Variable;
/// let block = TransformerBlock::new(8, 2, &mut Generator::new(0));
/// let x = Variable::constant(Array::ones([3, 5, 8], DType::F32));
/// assert_eq!(block.forward(&x).shape(), [3, 5, 8]);
/// ```
#[derive(Chain, Clone, Debug)]
pub struct TransformerBlock {
    /// The attention.
    pub attention: MultiHeadAttention,
    /// The normalisation beside the attention.
    pub attention_norm: LayerNorm,
    /// What each position is put through.
    pub feed_forward: Mlp,
    /// The normalisation beside the perceptron.
    pub feed_forward_norm: LayerNorm,
    dropout: Option<Dropout>,
    is_post_norm: bool,
}

impl TransformerBlock {
    /// A block in f32 with the normalisation in front, `4 size` hidden values and `gelu`, weights
    /// from [`GlorotUniform`], and no dropout.
    ///
    /// # Panics
    /// If the size is no multiple of the number of heads.
    #[track_caller]
    pub fn new(size: usize, heads: usize, generator: &mut Generator) -> Self {
        Self::builder(size, heads).build(generator)
    }

    /// A block with choices of one's own.
    ///
    /// ```
    /// use bibun::array::{DType, Generator};
    /// use bibun::links::TransformerBlock;
    /// use bibun::Variable;
    /// let block = TransformerBlock::builder(8, 2)
    ///     .post_norm()
    ///     .causal()
    ///     .feed_forward(16)
    ///     .activation(Variable::relu)
    ///     .dropout(0.1)
    ///     .dtype(DType::F64)
    ///     .build(&mut Generator::new(0));
    /// assert_eq!(block.feed_forward.layers[0].weight.shape(), [16, 8]);
    /// ```
    pub fn builder(size: usize, heads: usize) -> TransformerBlockBuilder {
        TransformerBlockBuilder {
            size,
            attention: MultiHeadAttention::builder(size, heads),
            hidden: size.saturating_mul(4),
            activation: FunctionLink::new(Variable::gelu),
            is_post_norm: false,
            dropout: None,
            dtype: DType::F32,
        }
    }

    /// The block's result for a sequence that looks at itself under a mask, of bools or of floats; see
    /// [`MultiHeadAttention::attend`].
    ///
    /// # Panics
    /// If the shapes do not fit; the message has all.
    ///
    /// ```
    /// use bibun::array::{Array, DType, Generator};
    /// use bibun::functions::length_mask;
    /// use bibun::links::TransformerBlock;
    /// use bibun::Variable;
    /// let block = TransformerBlock::new(8, 2, &mut Generator::new(0));
    /// let x = Variable::constant(Array::ones([2, 3, 8], DType::F32));
    /// let mask = length_mask(&[1, 3], 3).expand_dims(1);
    /// assert_eq!(block.forward_masked(&x, &mask).shape(), [2, 3, 8]);
    /// ```
    #[track_caller]
    pub fn forward_masked(&self, x: &Variable, mask: &Variable) -> Variable {
        within(self, || self.run(x, Some(mask)))
    }

    #[track_caller]
    fn run(&self, x: &Variable, mask: Option<&Variable>) -> Variable {
        let dropped = |x: Variable| match &self.dropout {
            Some(dropout) => dropout.forward(&x),
            None => x,
        };
        if self.is_post_norm {
            let found = self.attention.attend(x, x, x, mask);
            let h = self.attention_norm.forward(&(x + dropped(found)));
            let added = self.feed_forward.forward(&h);
            return self.feed_forward_norm.forward(&(&h + dropped(added)));
        }
        let normal = self.attention_norm.forward(x);
        let h = x + dropped(self.attention.attend(&normal, &normal, &normal, mask));
        let added = self
            .feed_forward
            .forward(&self.feed_forward_norm.forward(&h));
        h + dropped(added)
    }
}

impl Link for TransformerBlock {
    /// The block's result for a sequence.
    ///
    /// # Panics
    /// If x is not `[.., t, size]`; the message has all shapes.
    fn compute(&self, x: &Variable) -> Variable {
        self.run(x, None)
    }
}

/// What a [`TransformerBlock`] will be; see [`TransformerBlock::builder`].
#[derive(Debug)]
#[must_use = "nothing is made before `build`"]
pub struct TransformerBlockBuilder {
    size: usize,
    attention: MultiHeadAttentionBuilder,
    hidden: usize,
    activation: FunctionLink,
    is_post_norm: bool,
    dropout: Option<f64>,
    dtype: DType,
}

impl TransformerBlockBuilder {
    /// The number of hidden values of the perceptron, `4 size` if nothing is said.
    pub fn feed_forward(mut self, hidden: usize) -> Self {
        self.hidden = hidden;
        self
    }

    /// The activation of the perceptron, `gelu` if nothing is said.
    pub fn activation(
        mut self,
        activation: impl Fn(&Variable) -> Variable + Send + Sync + 'static,
    ) -> Self {
        self.activation = FunctionLink::new(activation);
        self
    }

    /// Puts the normalisations behind the sums, as in the first transformers.
    pub fn post_norm(mut self) -> Self {
        self.is_post_norm = true;
        self
    }

    /// Lets no position look at those after it.
    pub fn causal(mut self) -> Self {
        self.attention = self.attention.causal();
        self
    }

    /// The probability with which elements are left out in training mode.
    pub fn dropout(mut self, rate: f64) -> Self {
        self.dropout = Some(rate);
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
    /// If the size is no multiple of the number of heads, the dtype is no float type, or the rate
    /// of dropout is not in `[0, 1)`.
    #[track_caller]
    pub fn build(self, generator: &mut Generator) -> TransformerBlock {
        let _called = calling("TransformerBlock");
        let (size, dtype, activation) = (self.size, self.dtype, self.activation);
        let (mut attention, mut feed_forward) = (
            self.attention.dtype(dtype),
            Mlp::builder(&[size, self.hidden, size])
                .activation(move |x| activation.forward(x))
                .initializer(GlorotUniform)
                .dtype(dtype),
        );
        if let Some(rate) = self.dropout {
            attention = attention.dropout(rate);
            feed_forward = feed_forward.dropout(rate);
        }
        TransformerBlock {
            attention: attention.build(generator),
            attention_norm: LayerNorm::builder(size).dtype(dtype).build(),
            feed_forward: feed_forward.build(generator),
            feed_forward_norm: LayerNorm::builder(size).dtype(dtype).build(),
            dropout: Dropout::of_rate(self.dropout, generator),
            is_post_norm: self.is_post_norm,
        }
    }
}

/// Adds to each vector of a sequence one that tells its position
/// ([`sinusoidal_positions`](crate::functions::sinusoidal_positions)).
///
/// Shapes: x `[.., t, size]` → the same. There are no parameters.
///
/// ```
/// use bibun::links::{Link, SinusoidalPositions};
/// use bibun::Variable;
/// let x = Variable::constant([[0.0, 0.0], [0.0, 0.0]]);
/// let y = SinusoidalPositions.forward(&x).to_vec::<f64>();
/// assert_eq!(y, [0.0, 1.0, 1f64.sin(), 1f64.cos()]);
/// ```
#[derive(Chain, Clone, Copy, Debug, Default)]
pub struct SinusoidalPositions;

impl Link for SinusoidalPositions {
    /// x and its positions.
    ///
    /// # Panics
    /// If x has fewer than two axes or is no float.
    fn compute(&self, x: &Variable) -> Variable {
        let Some(&[length, size]) = x.shape().last_chunk::<2>() else {
            let what = format!("x is {}, expected [.., t, size]", x.spec());
            raise(Error::argument("SinusoidalPositions", what))
        };
        if !x.dtype().is_float() {
            let what = format!("x is {}, expected floats", x.spec());
            raise(Error::argument("SinusoidalPositions", what));
        }
        x + sinusoidal_positions(length, size, x.dtype()).to(x.device())
    }
}
