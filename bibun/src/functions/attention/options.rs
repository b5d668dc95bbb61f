//! Attention with options: groups of queries that share keys, and other scales.

use super::scaled_dot_product::{averages, check, rule};
use crate::call::composite;
use crate::error::mismatch;
use crate::functions::{OptionalVariable, repeat};
use crate::variable::Variable;

/// Options of [`attention_with`].
///
/// ```
/// use bibun::functions::AttentionOptions;
/// let options = AttentionOptions::new().causal(true).grouped_queries(true).scale(0.5);
/// assert!(options.causal && options.grouped_queries && options.scale == Some(0.5));
/// ```
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct AttentionOptions {
    /// Whether no query attends to a key behind its own position. Defaults to false.
    pub causal: bool,
    /// Whether there may be fewer heads (the third axis from the end) of keys and values than of queries,
    /// each for as many neighbouring heads of queries. Defaults to false.
    pub grouped_queries: bool,
    /// The factor of the scores. Defaults to `1 / √d`.
    pub scale: Option<f64>,
}

impl AttentionOptions {
    /// Returns the defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether no query attends to a key behind its own position. Defaults to false.
    #[must_use]
    pub fn causal(self, causal: bool) -> Self {
        Self { causal, ..self }
    }

    /// Sets whether there may be fewer heads of keys and values than of queries. Defaults to false.
    #[must_use]
    pub fn grouped_queries(self, grouped_queries: bool) -> Self {
        Self {
            grouped_queries,
            ..self
        }
    }

    /// Sets the factor of the scores. Defaults to `1 / √d`.
    #[must_use]
    pub fn scale(self, scale: f64) -> Self {
        let scale = Some(scale);
        Self { scale, ..self }
    }
}

/// Computes [`attention`](crate::functions::attention) with options: causal, with another scale, or with
/// fewer heads of keys and values than of queries.
///
/// Shapes: query `[.., h, q, d]`, key `[.., g, k, d]`, value `[.., g, k, v]`, mask that broadcasts to
/// `[.., h, q, k]` → `[.., h, q, v]`. With grouped queries, g divides h, and head `i` of the queries has
/// the keys and values of head `⌊i g / h⌋`; without, g is h or 1.
/// Types: those of [`attention`](crate::functions::attention).
/// Gradient: to all inputs, including a mask of floats.
/// Source: J. Ainslie et al., GQA: training generalized multi-query transformer models from multi-head
/// checkpoints, 2023.
///
/// # Panics
/// Panics in the cases of [`attention`](crate::functions::attention), or if the numbers of heads do not
/// divide.
///
/// ```
/// use bibun::array::{Array, DType};
/// use bibun::functions::{attention_with, AttentionOptions};
/// use bibun::Variable;
/// let x = |heads| Variable::constant(Array::ones([2, heads, 5, 8], DType::F32));
/// let options = AttentionOptions::new().grouped_queries(true);
/// assert_eq!(attention_with(x(6), x(2), x(2), None, options).shape(), [2, 6, 5, 8]);
/// ```
#[track_caller]
pub fn attention_with(
    query: impl Into<Variable>,
    key: impl Into<Variable>,
    value: impl Into<Variable>,
    mask: impl Into<OptionalVariable>,
    options: AttentionOptions,
) -> Variable {
    let function = "attention";
    let _whole = composite(function);
    let (query, mut key, mut value, mask) = (query.into(), key.into(), value.into(), mask.into());
    if options.grouped_queries {
        let specs = [&query, &key, &value].map(Variable::spec);
        let heads = (specs.each_ref()).map(|spec| spec.shape.iter().nth_back(2).copied());
        let times = match heads {
            [Some(h), Some(g), Some(own)] if g == own && g > 0 && h.is_multiple_of(g) => h / g,
            _ => {
                let names = [
                    "query [.., h, q, d]",
                    "key [.., g, k, d]",
                    "value [.., g, k, v]",
                ];
                let named: Vec<_> = names.into_iter().zip(&specs).collect();
                mismatch(function, &named, "g must be equal and divide h")
            }
        };
        if times != 1 {
            [key, value] = [key, value].map(|x| repeat(x, times, -3));
        }
    }
    check(function, &query, &key, Some(&value), mask.get());
    let mut rule = rule(&query, options.causal);
    rule.scale = options.scale.unwrap_or(rule.scale);
    averages(rule, query, key, value, mask.get())
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
    use bibun_array::Array;
    // Four heads of two queries, and two heads of two keys.
    let reference = |x: &[Array], causal: bool| {
        let [query, key, value, bias] = [0, 1, 2, 3].map(|i| x[i].to_vec::<f64>());
        let mut y = Vec::new();
        for (head, q) in (0..4).flat_map(|head| [(head, 0), (head, 1)]) {
            let at = |k: usize| (head / 2 * 2 + k) * 3;
            let seen = if causal { q + 1 } else { 2 };
            let powers = (0..seen).map(|k| {
                let pairs = query[(head * 2 + q) * 3..][..3].iter().zip(&key[at(k)..]);
                let score: f64 = pairs.map(|(a, b)| a * b).sum();
                (0.4 * score + bias[q * 2 + k]).exp()
            });
            let powers: Vec<f64> = powers.collect();
            let total: f64 = powers.iter().sum();
            y.extend((0..3).map(|i| {
                let terms = powers.iter().enumerate();
                terms
                    .map(|(k, power)| power * value[at(k) + i])
                    .sum::<f64>()
                    / total
            }));
        }
        vec![Array::from_vec(y, [4, 2, 3])]
    };
    let sample = |causal| {
        Sample::new(
            "attention",
            move |x| {
                let options = AttentionOptions::new().causal(causal).scale(0.4);
                let options = options.grouped_queries(true);
                vec![attention_with(&x[0], &x[1], &x[2], &x[3], options)]
            },
            move |x| reference(x, causal),
        )
        .input([4, 2, 3], -2.0..2.0)
        .input([2, 2, 3], -2.0..2.0)
        .input([2, 2, 3], -2.0..2.0)
        .input([2, 2], -1.0..1.0)
    };
    vec![sample(false), sample(true)]
}
