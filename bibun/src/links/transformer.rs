//! The transformer block and its position encoding.

use bibun_array::{DType, Generator, Index};

use super::{
    Chain, Dropout, FunctionLink, KeyValueCache, LayerNorm, Link, Mlp, MultiHeadAttention,
    MultiHeadAttentionBuilder, within,
};
use crate::call::calling;
use crate::error::{Error, raise};
use crate::functions::sinusoidal_positions;
use crate::initializers::GlorotUniform;
use crate::variable::Variable;

/// A transformer block: self-attention and a perceptron for each position, each with a
/// normalisation and a residual connection.
///
/// With the normalisation before them (the default), `h = x + attention(norm(x))` and
/// `y = h + feed_forward(norm(h))`; with the normalisation after them, `h = norm(x + attention(x))`
/// and `y = norm(h + feed_forward(h))`. Dropout, if there is any, applies to the attention weights,
/// to the hidden values of the perceptron, and to the output of each of the two before it is added.
///
/// Shapes: x `[.., t, size]` → the same. Parameters: `attention/query/weight` and so on,
/// `attention_norm/gamma`, `feed_forward/layers/0/weight`, `feed_forward_norm/gamma`. Cloning
/// shares them.
///
/// Sources: Vaswani et al., "Attention Is All You Need", NeurIPS 2017; Xiong et al., "On Layer
/// Normalization in the Transformer Architecture", ICML 2020, for the normalisation before them.
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
    /// The normalisation of the attention's input, or with
    /// [`post_norm`](TransformerBlockBuilder::post_norm) of the sum after it.
    pub attention_norm: LayerNorm,
    /// The perceptron applied to each position.
    pub feed_forward: Mlp,
    /// The normalisation of the perceptron's input, or with
    /// [`post_norm`](TransformerBlockBuilder::post_norm) of the sum after it.
    pub feed_forward_norm: LayerNorm,
    dropout: Option<Dropout>,
    is_post_norm: bool,
}

impl TransformerBlock {
    /// Creates a block in f32 with the normalisation before attention and perceptron, `4 size`
    /// hidden values and `gelu`, weights from [`GlorotUniform`], and no dropout.
    ///
    /// # Panics
    /// Panics if the size is not a multiple of the number of heads.
    #[track_caller]
    pub fn new(size: usize, heads: usize, generator: &mut Generator) -> Self {
        Self::builder(size, heads).build(generator)
    }

    /// Returns a builder of a block with custom options.
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

    /// Applies the block to a sequence under an attention mask, of bools or floats; see
    /// [`MultiHeadAttention::attend`].
    ///
    /// # Panics
    /// Panics if the shapes do not fit; the message has all of them.
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
        within(self, || {
            self.run(x, |x| self.attention.attend(x, x, x, Some(mask)))
        })
    }

    /// Applies a causal block to the next positions of a sequence, behind those in the cache, which x
    /// is added to; see [`MultiHeadAttention::forward_with_cache`].
    ///
    /// # Panics
    /// Panics if the attention is not causal, or the shapes do not fit each other or the cache; the
    /// message has all of them.
    ///
    /// ```
    /// use bibun::array::{Array, DType, Generator};
    /// use bibun::links::{KeyValueCache, TransformerBlock};
    /// use bibun::Variable;
    /// let block = TransformerBlock::builder(8, 2).causal().build(&mut Generator::new(0));
    /// let mut cache = KeyValueCache::new();
    /// let x = Variable::constant(Array::ones([2, 3, 8], DType::F32));
    /// assert_eq!(block.forward_with_cache(&x, None, &mut cache).shape(), [2, 3, 8]);
    /// assert_eq!(cache.len(), 3);
    /// ```
    #[track_caller]
    pub fn forward_with_cache(
        &self,
        x: &Variable,
        mask: Option<&Variable>,
        cache: &mut KeyValueCache,
    ) -> Variable {
        within(self, || {
            self.run(x, |x| self.attention.forward_with_cache(x, mask, cache))
        })
    }

    #[track_caller]
    fn run(&self, x: &Variable, attend: impl FnOnce(&Variable) -> Variable) -> Variable {
        let dropped = |x: Variable| match &self.dropout {
            Some(dropout) => dropout.forward(&x),
            None => x,
        };
        if self.is_post_norm {
            let found = attend(x);
            let h = self.attention_norm.forward(&(x + dropped(found)));
            let added = self.feed_forward.forward(&h);
            return self.feed_forward_norm.forward(&(&h + dropped(added)));
        }
        let normal = self.attention_norm.forward(x);
        let h = x + dropped(attend(&normal));
        let added = self
            .feed_forward
            .forward(&self.feed_forward_norm.forward(&h));
        h + dropped(added)
    }
}

impl Link for TransformerBlock {
    /// Applies the block to a sequence.
    ///
    /// # Panics
    /// Panics if x is not `[.., t, size]`; the message has all shapes.
    fn compute(&self, x: &Variable) -> Variable {
        self.run(x, |x| self.attention.attend(x, x, x, None))
    }
}

/// A builder of a [`TransformerBlock`]; see [`TransformerBlock::builder`].
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
    /// Sets the number of hidden values of the perceptron. Defaults to `4 size`.
    pub fn feed_forward(mut self, hidden: usize) -> Self {
        self.hidden = hidden;
        self
    }

    /// Sets the activation of the perceptron. Defaults to `gelu`.
    pub fn activation(
        mut self,
        activation: impl Fn(&Variable) -> Variable + Send + Sync + 'static,
    ) -> Self {
        self.activation = FunctionLink::new(activation);
        self
    }

    /// Puts the normalisations after the sums, as in the original transformer.
    pub fn post_norm(mut self) -> Self {
        self.is_post_norm = true;
        self
    }

    /// Makes the attention causal: no position attends to later ones.
    pub fn causal(mut self) -> Self {
        self.attention = self.attention.causal();
        self
    }

    /// Sets the probability with which elements are dropped in training mode. Defaults to no
    /// dropout.
    pub fn dropout(mut self, rate: f64) -> Self {
        self.dropout = Some(rate);
        self
    }

    /// Sets the dtype of the parameters. Defaults to `f32`.
    pub fn dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }

    /// Draws the parameters and builds the block.
    ///
    /// # Panics
    /// Panics if the size is not a multiple of the number of heads, the dtype is not a float type,
    /// or the dropout rate is not in `[0, 1)`.
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

/// A link that adds to each vector of a sequence an encoding of its position
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

impl SinusoidalPositions {
    /// Returns x plus the encoding of the positions from `first` on, for a part of a sequence.
    ///
    /// # Panics
    /// Panics if x has fewer than two axes or is not of floats.
    ///
    /// ```
    /// use bibun::links::SinusoidalPositions;
    /// use bibun::Variable;
    /// let x = Variable::constant([[0.0, 0.0]]);
    /// let y = SinusoidalPositions.forward_from(&x, 1).to_vec::<f64>();
    /// assert_eq!(y, [1f64.sin(), 1f64.cos()]);
    /// ```
    #[must_use]
    #[track_caller]
    pub fn forward_from(&self, x: &Variable, first: usize) -> Variable {
        let Some(&[length, size]) = x.shape().last_chunk::<2>() else {
            let what = format!("x is {}, expected [.., t, size]", x.spec());
            raise(Error::argument("SinusoidalPositions", what))
        };
        if !x.dtype().is_float() {
            let what = format!("x is {}, expected floats", x.spec());
            raise(Error::argument("SinusoidalPositions", what));
        }
        let positions = sinusoidal_positions(first.saturating_add(length), size, x.dtype());
        x + positions.slice(&[Index::from(first..)]).to(x.device())
    }
}

impl Link for SinusoidalPositions {
    /// Returns x plus the encoding of the positions.
    ///
    /// # Panics
    /// Panics if x has fewer than two axes or is not of floats.
    fn compute(&self, x: &Variable) -> Variable {
        self.forward_from(x, 0)
    }
}
