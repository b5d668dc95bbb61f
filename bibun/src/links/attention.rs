//! Multi-head attention.

use bibun_array::{DType, Generator, Index};

use super::{Chain, Dropout, KeyValueCache, Linear, Link, Start, start_setters, within};
use crate::call::calling;
use crate::error::{Error, mismatch, raise};
use crate::function::Spec;
use crate::functions::{
    AttentionOptions, attention_weights, attention_with, causal_mask, expand_dims, expect_mask,
    logical_and, matmul, repeat, reshape, swapaxes, where_,
};
use crate::initializers::GlorotUniform;
use crate::variable::Variable;

/// Multi-head attention: queries, keys and values are projected, each head attends with its own
/// part of them ([`attention`](crate::functions::attention)), and the outputs of all heads are
/// joined and projected once more.
///
/// Shapes: queries `[.., q, size]`, keys `[.., k, key size]`, values `[.., k, value size]` →
/// `[.., q, size]`. Parameters: `query/weight`, `key/weight`, `value/weight`, `output/weight`, and
/// the biases. A query for which the mask leaves no key gets weights of zero, never NaN: its output
/// is the projection of zeros. Cloning shares the parameters.
///
/// Source: Vaswani et al., "Attention Is All You Need", NeurIPS 2017.
///
/// ```
/// use bibun::array::{Array, DType, Generator};
/// use bibun::functions::length_mask;
/// use bibun::links::{Link, MultiHeadAttention};
/// use bibun::Variable;
/// let layer = MultiHeadAttention::new(8, 2, &mut Generator::new(0));
/// let x = Variable::constant(Array::ones([3, 5, 8], DType::F32));
/// assert_eq!(layer.forward(&x).shape(), [3, 5, 8]);
/// // Another sequence looked at, of which the first example has two elements.
/// let memory = Variable::constant(Array::ones([3, 4, 8], DType::F32));
/// let mask = length_mask(&[2, 4, 4], 4).expand_dims(1);
/// assert_eq!(layer.attend(&x, &memory, &memory, Some(&mask)).shape(), [3, 5, 8]);
/// ```
#[derive(Chain, Clone, Debug)]
pub struct MultiHeadAttention {
    /// The projection of the queries.
    pub query: Linear,
    /// The projection of the keys.
    pub key: Linear,
    /// The projection of the values.
    pub value: Linear,
    /// The projection of the joined outputs of all heads.
    pub output: Linear,
    heads: usize,
    key_value_heads: usize,
    is_causal: bool,
    dropout: Option<Dropout>,
}

impl MultiHeadAttention {
    /// Creates attention in f32 with weights from [`GlorotUniform`] and biases of zero.
    ///
    /// # Panics
    /// Panics if the size is not a multiple of the number of heads.
    #[track_caller]
    pub fn new(size: usize, heads: usize, generator: &mut Generator) -> Self {
        Self::builder(size, heads).build(generator)
    }

    /// Returns a builder of attention with custom options.
    ///
    /// ```
    /// use bibun::array::{DType, Generator};
    /// use bibun::links::MultiHeadAttention;
    /// let layer = MultiHeadAttention::builder(8, 2)
    ///     .memory_sizes(6, 4)
    ///     .without_bias()
    ///     .dropout(0.1)
    ///     .dtype(DType::F64)
    ///     .build(&mut Generator::new(0));
    /// assert_eq!((layer.key.weight.shape(), layer.value.weight.shape()), ([8, 6].into(), [8, 4].into()));
    /// ```
    pub fn builder(size: usize, heads: usize) -> MultiHeadAttentionBuilder {
        MultiHeadAttentionBuilder {
            size,
            heads,
            key_value_heads: heads,
            key_size: size,
            value_size: size,
            is_causal: false,
            dropout: None,
            start: Start::new(GlorotUniform),
        }
    }

    /// Returns the number of heads.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// Computes the attention of queries to keys and values. Where a bool mask is false, a query
    /// does not attend to the key; a float mask is added to the scores of every head. The mask
    /// broadcasts to `[.., q, k]`: `[q, k]`, `[n, 1, k]` (which keys are present, from
    /// [`length_mask`](crate::functions::length_mask)) or `[n, q, k]`.
    ///
    /// # Panics
    /// Panics if the shapes do not fit, the mask is of integers, or the attention is causal and the
    /// numbers of keys and queries differ; the message has all shapes.
    #[track_caller]
    pub fn attend(
        &self,
        query: &Variable,
        key: &Variable,
        value: &Variable,
        mask: Option<&Variable>,
    ) -> Variable {
        within(self, || {
            self.check(query, key, value, mask);
            let heads = self.heads_of([query, key, value]);
            let found = self.weighted(heads, mask);
            self.output.forward(&reshape(found, query.shape()))
        })
    }

    /// Computes causal attention for the next positions of a sequence: x are those behind the ones in
    /// the cache, which x is added to. The results are those of the whole sequence at these positions,
    /// without computing keys and values of earlier ones again. The mask, if there is one, broadcasts
    /// to `[.., t, k]` for the `t` positions of x and all `k` positions up to its last.
    ///
    /// Shapes: x `[.., t, size]` → the same. Gradients reach all positions, through the cache.
    ///
    /// # Panics
    /// Panics if the attention is not causal, or the shapes do not fit each other or the cache; the
    /// message has all shapes. The cache is then as it was.
    ///
    /// ```
    /// use bibun::array::{Array, DType, Generator};
    /// use bibun::links::{KeyValueCache, Link, MultiHeadAttention};
    /// use bibun::{s, Variable};
    /// let layer = MultiHeadAttention::builder(8, 2).causal().build(&mut Generator::new(0));
    /// let x = Variable::constant(Generator::new(1).normal([1, 3, 8], 0.0, 1.0, DType::F32));
    /// let mut cache = KeyValueCache::new();
    /// layer.forward_with_cache(&x.slice(s![.., ..2]), None, &mut cache);
    /// let last = layer.forward_with_cache(&x.slice(s![.., 2..]), None, &mut cache);
    /// assert_eq!(cache.len(), 3);
    /// let difference = last - layer.forward(&x).slice(s![.., 2..]);
    /// assert!(difference.abs().max(..).item::<f32>() < 1e-6);
    /// ```
    #[track_caller]
    pub fn forward_with_cache(
        &self,
        x: &Variable,
        mask: Option<&Variable>,
        cache: &mut KeyValueCache,
    ) -> Variable {
        within(self, || {
            if !self.is_causal {
                let what =
                    "a cache is for causal attention, where no position attends to later ones";
                raise(Error::argument("MultiHeadAttention", what));
            }
            self.check(x, x, x, None);
            let [q, k, v] = self.heads_of([x, x, x]);
            let longer = cache.extended("MultiHeadAttention", k, v);
            let [k, v] = longer.parts().expect("those of x");
            if let Some(mask) = mask {
                let (rank, spec) = (x.rank(), x.spec());
                let scores = spec.shape.replaced(rank - 1, longer.len());
                let scores = Spec::new(scores, spec.dtype);
                expect_mask(
                    "MultiHeadAttention",
                    &[("x [.., t, size]", &spec)],
                    &scores,
                    mask,
                );
            }
            let found = self.weighted([q, k.clone(), v.clone()], mask);
            *cache = longer;
            self.output.forward(&reshape(found, x.shape()))
        })
    }

    /// Returns queries, keys and values, projected, for each head.
    fn heads_of(&self, [query, key, value]: [&Variable; 3]) -> [Variable; 3] {
        let few = self.key_value_heads;
        [
            (&self.query, query, self.heads),
            (&self.key, key, few),
            (&self.value, value, few),
        ]
        .map(|(layer, x, heads)| to_heads(&layer.forward(x), heads))
    }

    /// Returns the averages of the values of all heads, `[.., q, heads, d]`. The queries are the last
    /// positions, if attention is causal.
    fn weighted(&self, [q, k, v]: [Variable; 3], mask: Option<&Variable>) -> Variable {
        // All heads use the same mask.
        let mask = mask.map(|mask| match mask.rank() {
            0..3 => mask.clone(),
            _ => expand_dims(mask, -3),
        });
        let [queries, keys] = [&q, &k].map(|x| x.shape()[x.rank() - 2]);
        let (mask, is_causal) = match self.is_causal && queries < keys {
            // The last position attends to all.
            true if queries == 1 => (mask, false),
            true => (Some(with_causal_mask(&q, keys, mask)), false),
            false => (mask, self.is_causal),
        };
        let found = match &self.dropout {
            None => {
                let options = AttentionOptions::new().causal(is_causal);
                let options = options.grouped_queries(self.key_value_heads != self.heads);
                attention_with(q, k, v, mask.as_ref(), options)
            }
            // Which weights are dropped is drawn for all of them at once.
            Some(dropout) => {
                let times = self.heads / self.key_value_heads;
                let [k, v] = match times {
                    1 => [k, v],
                    _ => [k, v].map(|x| repeat(x, times, -3)),
                };
                let weights = match is_causal {
                    false => attention_weights(q, k, mask.as_ref()),
                    true => attention_weights(&q, k, with_causal_mask(&q, keys, mask)),
                };
                matmul(dropout.forward(&weights), v)
            }
        };
        swapaxes(found, -2, -3)
    }

    /// Computes the attention of a sequence to itself under a mask; see [`attend`](Self::attend).
    ///
    /// # Panics
    /// Panics if the shapes do not fit; the message has all of them.
    ///
    /// ```
    /// use bibun::array::{Array, DType, Generator};
    /// use bibun::functions::length_mask;
    /// use bibun::links::MultiHeadAttention;
    /// use bibun::Variable;
    /// let layer = MultiHeadAttention::builder(8, 2).causal().build(&mut Generator::new(0));
    /// let x = Variable::constant(Array::ones([2, 3, 8], DType::F32));
    /// let mask = length_mask(&[1, 3], 3).expand_dims(1);
    /// assert_eq!(layer.forward_masked(&x, &mask).shape(), [2, 3, 8]);
    /// ```
    #[track_caller]
    pub fn forward_masked(&self, x: &Variable, mask: &Variable) -> Variable {
        self.attend(x, x, x, Some(mask))
    }

    #[track_caller]
    fn check(&self, query: &Variable, key: &Variable, value: &Variable, mask: Option<&Variable>) {
        let specs = [query, key, value].map(Variable::spec);
        let sizes = [&self.query, &self.key, &self.value].map(|layer| layer.weight.shape()[1]);
        let fits = (specs.iter().zip(sizes))
            .all(|(spec, size)| spec.shape.rank() >= 2 && spec.shape.last() == Some(&size));
        let length = |spec: &Spec| spec.shape[spec.shape.rank() - 2];
        let names = [
            "query [.., q, size]",
            "key [.., k, size]",
            "value [.., k, size]",
        ];
        let must_hold = if !fits {
            format!("the last sizes must be {sizes:?}")
        } else if length(&specs[1]) != length(&specs[2]) {
            "there must be as many values as keys".to_owned()
        } else if self.is_causal && length(&specs[0]) != length(&specs[1]) {
            "causal attention needs as many keys as queries".to_owned()
        } else {
            if let Some(mask) = mask {
                let [q, k, _] = &specs;
                let scores = q.shape.replaced(q.shape.rank() - 1, length(k));
                let scores = Spec::new(scores, q.dtype);
                let named: Vec<(&str, &Spec)> = names.into_iter().zip(&specs).collect();
                expect_mask("MultiHeadAttention", &named, &scores, mask);
            }
            return;
        };
        let mask = mask.map(Variable::spec);
        let mut named: Vec<(&str, &Spec)> = names.into_iter().zip(&specs).collect();
        named.extend(mask.as_ref().map(|mask| ("mask", mask)));
        mismatch("MultiHeadAttention", &named, must_hold);
    }
}

/// Returns `[.., t, heads · d]` as `[.., heads, t, d]`.
fn to_heads(x: &Variable, heads: usize) -> Variable {
    let (shape, last) = (x.shape(), x.rank() - 1);
    let parted = shape.replaced(last, shape[last] / heads);
    swapaxes(reshape(x, parted.inserted(last, heads)), -2, -3)
}

/// The mask without the keys behind a query; the queries are the last of the positions of the keys.
fn with_causal_mask(query: &Variable, keys: usize, mask: Option<Variable>) -> Variable {
    let queries = query.shape()[query.rank() - 2];
    let causal = causal_mask(keys).slice(&[Index::from(keys - queries..)]);
    let causal = causal.to(query.device());
    match mask {
        None => causal,
        Some(mask) if mask.dtype() == DType::Bool => logical_and(causal, mask),
        Some(mask) => where_(causal, mask, f64::NEG_INFINITY),
    }
}

impl Link for MultiHeadAttention {
    /// Computes the attention of a sequence to itself: x `[.., t, size]` → the same shape.
    ///
    /// # Panics
    /// Panics if x has another shape; the message has it.
    fn compute(&self, x: &Variable) -> Variable {
        self.attend(x, x, x, None)
    }
}

/// A builder of a [`MultiHeadAttention`]; see [`MultiHeadAttention::builder`].
#[derive(Debug)]
#[must_use = "nothing is made before `build`"]
pub struct MultiHeadAttentionBuilder {
    size: usize,
    heads: usize,
    key_value_heads: usize,
    key_size: usize,
    value_size: usize,
    is_causal: bool,
    dropout: Option<f64>,
    start: Start,
}

impl MultiHeadAttentionBuilder {
    /// Sets the sizes of keys and values. Both default to the size of the queries.
    pub fn memory_sizes(mut self, key_size: usize, value_size: usize) -> Self {
        (self.key_size, self.value_size) = (key_size, value_size);
        self
    }

    /// Sets the number of heads of keys and values, each of which is for as many neighbouring heads of
    /// queries ([`attention_with`](crate::functions::attention_with)). Defaults to the number of heads.
    ///
    /// ```
    /// use bibun::array::Generator;
    /// use bibun::links::MultiHeadAttention;
    /// let builder = MultiHeadAttention::builder(8, 4).key_value_heads(2);
    /// let layer = builder.build(&mut Generator::new(0));
    /// assert_eq!((layer.query.weight.shape(), layer.key.weight.shape()), ([8, 8].into(), [4, 8].into()));
    /// ```
    pub fn key_value_heads(mut self, heads: usize) -> Self {
        self.key_value_heads = heads;
        self
    }

    /// Makes the attention causal: no position attends to later ones.
    pub fn causal(mut self) -> Self {
        self.is_causal = true;
        self
    }

    /// Sets the probability with which each attention weight is dropped in training mode. Defaults
    /// to no dropout. With it, the weights of all queries and keys are in memory at once.
    pub fn dropout(mut self, rate: f64) -> Self {
        self.dropout = Some(rate);
        self
    }

    start_setters!(start, GlorotUniform);

    /// Draws the parameters and builds the attention.
    ///
    /// # Panics
    /// Panics if the size is not a multiple of the number of heads, the number of heads is not one of
    /// the number of heads of keys and values, the dtype is not a float type, or the dropout rate is
    /// not in `[0, 1)`.
    #[track_caller]
    pub fn build(self, generator: &mut Generator) -> MultiHeadAttention {
        let _called = calling("MultiHeadAttention");
        let Self { size, heads, .. } = self;
        if heads == 0 || !size.is_multiple_of(heads) {
            let what = format!("the size {size} does not make {heads} heads");
            raise(Error::argument("MultiHeadAttention", what));
        }
        let few = self.key_value_heads;
        if few == 0 || !heads.is_multiple_of(few) {
            let what =
                format!("{few} heads of keys and values do not divide {heads} heads of queries");
            raise(Error::argument("MultiHeadAttention", what));
        }
        let mut layers = Vec::with_capacity(4);
        for (inputs, outputs) in [
            (size, size),
            (self.key_size, size / heads * few),
            (self.value_size, size / heads * few),
            (size, size),
        ] {
            layers.push(Linear::drawn(inputs, outputs, &self.start, generator));
        }
        let [query, key, value, output] = layers.try_into().expect("four layers");
        let dropout = Dropout::of_rate(self.dropout, generator);
        MultiHeadAttention {
            query,
            key,
            value,
            output,
            heads,
            key_value_heads: few,
            is_causal: self.is_causal,
            dropout,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{attempt, eval_mode};

    /// With the weights of a layer of all heads in which those of a group are equal, and with a dropout
    /// that drops nothing, the same comes out.
    #[test]
    fn groups_share_keys_and_values() {
        for causal in [false, true] {
            let build = |builder: MultiHeadAttentionBuilder| {
                let builder = if causal { builder.causal() } else { builder };
                builder.dtype(DType::F64).build(&mut Generator::new(1))
            };
            let builder = || MultiHeadAttention::builder(8, 4).key_value_heads(2);
            let layer = build(builder());
            let dropping = build(builder().dropout(0.5));
            let mut whole = build(MultiHeadAttention::builder(8, 4));
            (whole.query, whole.output) = (layer.query.clone(), layer.output.clone());
            for (few, all) in [(&layer.key, &whole.key), (&layer.value, &whole.value)] {
                // Two rows for each head.
                let rows = few.weight.array().reshape([2, 1, 2, 8]);
                all.weight
                    .set_array(rows.broadcast_to([2, 2, 2, 8]).reshape([8, 8]));
            }
            let x = Generator::new(2).uniform([3, 5, 8], -1.0, 1.0, DType::F64);
            let x = Variable::constant(x);
            let found = layer.forward(&x).to_vec::<f64>();
            let others = [whole.forward(&x), eval_mode(|| dropping.forward(&x))];
            for other in others.map(|other| other.to_vec::<f64>()) {
                let pairs = found.iter().zip(&other);
                assert!(pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) < 1e-14);
            }
        }
        let builder = MultiHeadAttention::builder(8, 4).key_value_heads(3);
        let error = attempt(|| builder.build(&mut Generator::new(0)).heads()).unwrap_err();
        assert!(
            error.to_string().contains("3 heads of keys and values"),
            "{error}"
        );
    }
}
