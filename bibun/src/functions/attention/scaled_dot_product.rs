//! Attention: averages of values, weighted by the similarity of queries and keys.

use bibun_array::Shape;

use crate::call::composite;
use crate::error::mismatch;
use crate::function::Spec;
use crate::functions::OptionalVariable;
use crate::functions::{cast, expect_mask, float_of, masked_softmax, matmul, softmax, swapaxes};
use crate::variable::Variable;

/// Computes scaled dot-product attention: for each query the average of the values, with the
/// weights of [`attention_weights`].
///
/// Shapes: query `[.., q, d]`, key `[.., k, d]`, value `[.., k, v]`, mask that broadcasts to
/// `[.., q, k]` → `[.., q, v]`.
/// Types: floats, promoted; the mask bool (true where a query attends to a key) or float (added to
/// the scores).
/// Gradient: to all inputs, including a mask of floats. A query for which all keys are masked gives
/// zeros.
///
/// Source: Vaswani et al., "Attention Is All You Need", NeurIPS 2017.
///
/// # Panics
/// Panics if the shapes do not fit, or the mask is of integers.
///
/// ```
/// use bibun::{functions::attention, Variable};
/// let query = Variable::new([[0.0, 0.0], [1000.0, 0.0]]);
/// let key = Variable::new([[1.0, 0.0], [0.0, 1.0]]);
/// let value = Variable::new([[1.0], [3.0]]);
/// assert_eq!(attention(&query, &key, &value, None).to_vec::<f64>(), [2.0, 1.0]);
/// let hidden = Variable::constant([0.0, f64::NEG_INFINITY]);
/// assert_eq!(attention(&query, &key, &value, &hidden).to_vec::<f64>(), [1.0, 1.0]);
/// ```
#[track_caller]
pub fn attention(
    query: impl Into<Variable>,
    key: impl Into<Variable>,
    value: impl Into<Variable>,
    mask: impl Into<OptionalVariable>,
) -> Variable {
    let _whole = composite("attention");
    let (query, key, value, mask) = (query.into(), key.into(), value.into(), mask.into());
    check("attention", &query, &key, Some(&value), mask.get());
    matmul(weights(query, key, mask.get()), value)
}

/// Computes the attention of each query to each key: `softmax(q kᵀ / √d)` over the keys, or over
/// those where a mask of bools is true, or with a mask of floats added before the softmax.
///
/// Shapes: query `[.., q, d]`, key `[.., k, d]`, mask that broadcasts to `[.., q, k]`
/// → `[.., q, k]`.
/// Types: floats, promoted; the mask bool or float.
/// Gradient: to query and key, and to a mask of floats. A query for which all keys are masked (all
/// false, or all -∞) has weights of zero ([`masked_softmax`]).
///
/// Source: Vaswani et al., "Attention Is All You Need", NeurIPS 2017.
///
/// # Panics
/// Panics if the shapes do not fit, or the mask is of integers.
///
/// ```
/// use bibun::functions::{attention_weights, causal_mask};
/// use bibun::Variable;
/// let x = Variable::new([[0.0, 1.0], [0.0, 1.0]]);
/// let weights = attention_weights(&x, &x, causal_mask(2));
/// assert_eq!(weights.to_vec::<f64>(), [1.0, 0.0, 0.5, 0.5]);
/// ```
#[track_caller]
pub fn attention_weights(
    query: impl Into<Variable>,
    key: impl Into<Variable>,
    mask: impl Into<OptionalVariable>,
) -> Variable {
    let _whole = composite("attention_weights");
    let (query, key, mask) = (query.into(), key.into(), mask.into());
    check("attention_weights", &query, &key, None, mask.get());
    weights(query, key, mask.get())
}

#[track_caller]
fn weights(query: Variable, key: Variable, mask: Option<&Variable>) -> Variable {
    let size = query.shape()[query.rank() - 1];
    // An integer query is cast to the floats of the key.
    let dtype = float_of(query.dtype(), [&key]);
    let query = cast(query, dtype);
    let scores = matmul(query * (1.0 / (size as f64).sqrt()), swapaxes(key, -1, -2));
    match mask {
        Some(mask) => masked_softmax(scores, mask, -1),
        None => softmax(scores, -1),
    }
}

#[track_caller]
fn check(
    function: &'static str,
    query: &Variable,
    key: &Variable,
    value: Option<&Variable>,
    mask: Option<&Variable>,
) {
    let inputs = [
        ("query [.., q, d]", Some(query)),
        ("key [.., k, d]", Some(key)),
        ("value [.., k, v]", value),
    ];
    let inputs: Vec<(&str, Spec)> = (inputs.into_iter())
        .filter_map(|(name, input)| Some((name, input?.spec())))
        .collect();
    let named: Vec<(&str, &Spec)> = inputs.iter().map(|(name, spec)| (*name, spec)).collect();
    let last = |i: usize| named.get(i)?.1.shape.last_chunk::<2>().copied();
    let sizes = match (last(0), last(1), last(2)) {
        (Some([q, d]), Some([k, own]), value) => {
            let fits = d == own && (named.len() == 2 || value.is_some_and(|[n, _]| n == k));
            fits.then_some([q, k])
        }
        _ => None,
    };
    let Some([q, k]) = sizes else {
        mismatch(function, &named, "sizes of one name must be equal")
    };
    // The axes in front are checked by the product of queries and keys.
    let front = |i: usize| Shape::new(&named[i].1.shape[..named[i].1.shape.rank() - 2]);
    if let (Some(mask), Some(front)) = (mask, front(0).broadcast(&front(1))) {
        let shape = front
            .inserted(front.rank(), q)
            .inserted(front.rank() + 1, k);
        expect_mask(function, &named, &Spec::new(shape, named[0].1.dtype), mask);
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::{Sample, beside};
    use crate::functions::length_mask;
    use bibun_array::Array;
    // Two heads of two queries with three keys, by loops.
    fn weights(x: &[Array], kept: impl Fn(usize) -> bool) -> Vec<f64> {
        let (query, key) = (x[0].to_vec::<f64>(), x[1].to_vec::<f64>());
        let score = |head: usize, q: usize, k: usize| {
            let products =
                (0..2).map(|i| query[(head * 2 + q) * 2 + i] * key[(head * 3 + k) * 2 + i]);
            products.sum::<f64>() / 2f64.sqrt()
        };
        let mut weights = Vec::new();
        for (head, q) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let power = |k: usize| {
                if kept(k) {
                    score(head, q, k).exp()
                } else {
                    0.0
                }
            };
            let sum: f64 = (0..3).map(power).sum();
            weights.extend((0..3).map(|k| power(k) / sum));
        }
        weights
    }
    let range = -2.0..2.0;
    vec![
        Sample::new(
            "attention",
            |x| vec![attention(&x[0], &x[1], &x[2], None)],
            |x| {
                let (weights, value) = (weights(x, |_| true), x[2].to_vec::<f64>());
                let average = |i: usize| {
                    let (row, head) = (i / 2, i / 4);
                    let terms =
                        (0..3).map(|k| weights[row * 3 + k] * value[(head * 3 + k) * 2 + i % 2]);
                    terms.sum::<f64>()
                };
                vec![Array::from_vec((0..8).map(average).collect(), [2, 2, 2])]
            },
        )
        .input([2, 2, 2], range.clone())
        .input([2, 3, 2], range.clone())
        .input([2, 3, 2], range.clone()),
        Sample::new(
            "attention_weights",
            |x| {
                let mask = beside(x, length_mask(&[2], 3));
                vec![attention_weights(&x[0], &x[1], Some(&mask))]
            },
            |x| vec![Array::from_vec(weights(x, |k| k < 2), [2, 2, 3])],
        )
        .input([2, 2, 2], range.clone())
        .input([2, 3, 2], range.clone()),
        Sample::new(
            "attention_weights",
            |x| {
                let mask = beside(x, length_mask(&[2], 3));
                let added = mask.where_(&x[2], f64::NEG_INFINITY);
                vec![attention_weights(&x[0], &x[1], Some(&added))]
            },
            |x| {
                let added = x[2].to_vec::<f64>();
                let weights = weights(x, |k| k < 2);
                let weights = weights.chunks(3).enumerate().flat_map(|(row, weights)| {
                    let raised: Vec<f64> = (weights.iter().enumerate())
                        .map(|(k, weight)| weight * added[row % 2 * 3 + k].exp())
                        .collect();
                    let total: f64 = raised.iter().sum();
                    raised.into_iter().map(move |weight| weight / total)
                });
                vec![Array::from_vec(weights.collect(), [2, 2, 3])]
            },
        )
        .input([2, 2, 2], range.clone())
        .input([2, 3, 2], range.clone())
        .input([2, 3], range),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt;

    #[test]
    fn shapes_that_do_not_fit_are_all_named() {
        let x = Variable::new([[1.0, 2.0]]);
        let error = attempt(|| attention(&x, &x, [[1.0], [2.0]], None)).unwrap_err();
        let expected = "attention: shapes do not fit: query [.., q, d] = [1, 2] f64, \
                        key [.., k, d] = [1, 2] f64, value [.., k, v] = [2, 1] f64";
        assert!(error.to_string().contains(expected), "{error}");
        assert!(attempt(|| attention_weights(&x, [1.0, 2.0], None)).is_err());
    }

    #[test]
    fn a_mask_is_bool_or_added() {
        let x = Variable::new([[0.0], [0.0]]);
        let value = Variable::new([[1.0], [100.0]]);
        let with = |mask: Variable| attention(&x, &x, &value, Some(&mask)).to_vec::<f64>();
        assert_eq!(with(Variable::constant([true, false])), [1.0, 1.0]);
        assert_eq!(
            with(Variable::constant([0.0, f64::NEG_INFINITY])),
            [1.0, 1.0]
        );
        assert_eq!(
            with(Variable::constant([0.0f32, f32::NEG_INFINITY])),
            [1.0, 1.0]
        );
        assert_eq!(with(Variable::constant([0.0, 0.0])), [50.5, 50.5]);
        for mask in [Variable::constant([1i64, 0]), Variable::constant([true; 3])] {
            for error in [
                attempt(|| attention(&x, &x, &value, Some(&mask))).unwrap_err(),
                attempt(|| attention_weights(&x, &x, Some(&mask))).unwrap_err(),
            ] {
                let message = error.to_string();
                assert!(message.starts_with("attention"), "{message}");
                let named = format!("mask = {} (the mask must broadcast to [2, 2]", mask.spec());
                assert!(message.contains(&named), "{message}");
            }
        }
    }
}
