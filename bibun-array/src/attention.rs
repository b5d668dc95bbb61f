//! Attention: averages of values, weighted by the softmax of products of queries and keys.

use crate::error::allocating;
use crate::placement::common;
use crate::{Array, Attention, DType, Error, Shape, raise};

/// Computes the attention of queries `[.., q, d]` to keys `[.., k, d]` with values `[.., k, v]`, and
/// the logarithm of the sum of powers of each query's scores, `[.., q, 1]`.
///
/// The scores are `scale query keyᵀ`. A mask `[.., q, k]` of bools leaves out those where it is
/// false, one of floats is added. A query without keys has an average of zeros and an infinite
/// logarithm. The scores are computed in blocks, so that memory grows with the number of queries
/// and keys, not with their product.
///
/// # Panics
/// Panics if the shapes do not fit, or the dtypes differ or are not floats.
///
/// Source: Dao, Fu, Ermon, Rudra and Ré, "FlashAttention", NeurIPS 2022.
///
/// ```
/// use bibun_array::{attention, Array, Attention};
/// let rule = Attention { causal: true, scale: 1.0 };
/// let x = Array::from([[0.0], [0.0]]);
/// let value = Array::from([[1.0], [3.0]]);
/// let [y, log_sums] = attention(rule, [&x, &x, &value], None);
/// assert_eq!(y.to_vec::<f64>(), [1.0, 2.0]);
/// assert_eq!(log_sums.to_vec::<f64>(), [0.0, 2f64.ln()]);
/// ```
#[must_use]
#[track_caller]
pub fn attention(rule: Attention, inputs: [&Array; 3], mask: Option<&Array>) -> [Array; 2] {
    check("attention", inputs, mask);
    let device = common("attention", inputs.into_iter().chain(mask));
    allocating("attention", || device.attention(rule, inputs, mask))
}

/// Computes the cotangents of queries, keys and values from the results of [`attention`] and the
/// cotangent of the first, `[y, log sums, gy]`. The scores are computed again.
///
/// # Panics
/// Panics if the shapes do not fit, or the dtypes differ or are not floats.
///
/// ```
/// use bibun_array::{attention, attention_gradient, Array, Attention};
/// let rule = Attention { causal: false, scale: 1.0 };
/// let x = Array::from([[0.0], [0.0]]);
/// let value = Array::from([[1.0], [3.0]]);
/// let [y, log_sums] = attention(rule, [&x, &x, &value], None);
/// let gy = Array::from([[1.0], [0.0]]);
/// let [_, _, gvalue] = attention_gradient(rule, [&x, &x, &value], None, [&y, &log_sums, &gy]);
/// assert_eq!(gvalue.to_vec::<f64>(), [0.5, 0.5]);
/// ```
#[must_use]
#[track_caller]
pub fn attention_gradient(
    rule: Attention,
    inputs: [&Array; 3],
    mask: Option<&Array>,
    results: [&Array; 3],
) -> [Array; 3] {
    check("attention_gradient", inputs, mask);
    let [query, _, value] = inputs;
    let [y, log_sums, gy] = results;
    let last = query.rank() - 1;
    let averages = query.shape().replaced(last, value.shape()[last]);
    let is_result = |x: &Array| *x.shape() == averages && x.dtype() == query.dtype();
    if !is_result(y) || !is_result(gy) || *log_sums.shape() != query.shape().replaced(last, 1) {
        let what = format!("y and gy must be {averages} {}", query.dtype());
        raise(Error::invalid("attention_gradient", what));
    }
    let all = inputs.into_iter().chain(mask).chain(results);
    let device = common("attention_gradient", all);
    allocating("attention_gradient", || {
        device.attention_gradient(rule, inputs, mask, results)
    })
}

#[track_caller]
fn check(function: &'static str, inputs: [&Array; 3], mask: Option<&Array>) {
    let [query, key, value] = inputs;
    let dtype = query.dtype();
    let parts = |x: &Array| {
        let shape = x.shape();
        let (front, [rows, size]) = shape.split_last_chunk::<2>()?;
        Some((Shape::new(front), *rows, *size))
    };
    let fits = match [query, key, value].map(parts) {
        [
            Some((front, q, d)),
            Some((of_keys, k, own)),
            Some((of_values, n, _)),
        ] => {
            let scores = front.inserted(front.rank(), q);
            let scores = scores.inserted(scores.rank(), k);
            let is_mask = |mask: &Array| {
                *mask.shape() == scores && [DType::Bool, dtype].contains(&mask.dtype())
            };
            front == of_keys && front == of_values && d == own && n == k && mask.is_none_or(is_mask)
        }
        _ => false,
    };
    if !fits || !dtype.is_float() || inputs.iter().any(|x| x.dtype() != dtype) {
        let what = "there must be queries [.., q, d], keys [.., k, d] and values [.., k, v] of one \
                    float dtype, and a mask [.., q, k] of it or of bools";
        raise(Error::invalid(function, what.to_owned()));
    }
}
