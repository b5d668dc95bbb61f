//! Attention: averages whose weights are told by how well keys fit queries.

use crate::error::{Error, raise};
use crate::function::{Mismatch, Spec};
use crate::functions::{masked_softmax, matmul, softmax, swap_axes};
use crate::variable::Variable;

/// Scaled dot-product attention: for each query the average of the values, with the weights that
/// [`attention_weights`] gives.
///
/// Shapes: query `[.., q, d]`, key `[.., k, d]`, value `[.., k, v]`, mask bool that broadcasts to
/// `[.., q, k]` → `[.., q, v]`. Types: f32, f64, promoted. Gradient: to all but the mask. A query
/// for which the mask leaves no key gives zeros.
///
/// Source: Vaswani et al., "Attention Is All You Need", NeurIPS 2017.
///
/// # Panics
/// If the shapes do not fit.
///
/// ```
/// use bibun::{functions::attention, Variable};
/// let query = Variable::new([[0.0, 0.0], [1000.0, 0.0]]);
/// let key = Variable::new([[1.0, 0.0], [0.0, 1.0]]);
/// let value = Variable::new([[1.0], [3.0]]);
/// assert_eq!(attention(&query, &key, &value, None).to_vec::<f64>(), [2.0, 1.0]);
/// ```
#[track_caller]
pub fn attention(
    query: impl Into<Variable>,
    key: impl Into<Variable>,
    value: impl Into<Variable>,
    mask: Option<&Variable>,
) -> Variable {
    let (query, key, value) = (query.into(), key.into(), value.into());
    check("attention", &query, &key, Some(&value));
    matmul(attention_weights(query, key, mask), value)
}

/// How much each query looks at each key: `softmax(q kᵀ / √d)` over the keys, or over those where the
/// mask is true.
///
/// Shapes: query `[.., q, d]`, key `[.., k, d]`, mask bool that broadcasts to `[.., q, k]` →
/// `[.., q, k]`. Types: f32, f64, promoted. Gradient: to query and key. A query for which the mask
/// leaves no key has weights of zero ([`masked_softmax`]).
///
/// Source: Vaswani et al., "Attention Is All You Need", NeurIPS 2017.
///
/// # Panics
/// If the shapes do not fit.
///
/// ```
/// use bibun::functions::{attention_weights, causal_mask};
/// use bibun::Variable;
/// let x = Variable::new([[0.0, 1.0], [0.0, 1.0]]);
/// let weights = attention_weights(&x, &x, Some(&causal_mask(2)));
/// assert_eq!(weights.to_vec::<f64>(), [1.0, 0.0, 0.5, 0.5]);
/// ```
#[track_caller]
pub fn attention_weights(
    query: impl Into<Variable>,
    key: impl Into<Variable>,
    mask: Option<&Variable>,
) -> Variable {
    let (query, key) = (query.into(), key.into());
    check("attention_weights", &query, &key, None);
    let size = query.shape()[query.rank() - 1];
    let scores = matmul(query * (1.0 / (size as f64).sqrt()), swap_axes(key, -1, -2));
    match mask {
        Some(mask) => masked_softmax(scores, mask, -1),
        None => softmax(scores, -1),
    }
}

#[track_caller]
fn check(function: &'static str, query: &Variable, key: &Variable, value: Option<&Variable>) {
    let specs = [Some(query), Some(key), value].map(|x| x.map(Variable::spec));
    let last = |spec: &Spec| spec.shape.last_chunk::<2>().copied();
    let fits = match (&specs[0], &specs[1], &specs[2]) {
        (Some(query), Some(key), value) => match (last(query), last(key)) {
            (Some([_, d]), Some([k, own])) => {
                d == own && (value.as_ref()).is_none_or(|v| last(v).is_some_and(|[n, _]| n == k))
            }
            _ => false,
        },
        _ => unreachable!("query and key are always there"),
    };
    if !fits {
        let names = ["query [.., q, d]", "key [.., k, d]", "value [.., k, v]"];
        let named: Vec<(&str, &Spec)> = (names.into_iter().zip(&specs))
            .filter_map(|(name, spec)| Some((name, spec.as_ref()?)))
            .collect();
        raise(Error::Mismatch {
            function,
            what: Mismatch::new(&named, "sizes of one name must be equal").0,
            place: std::panic::Location::caller(),
        });
    }
}

#[cfg(test)]
pub(super) fn samples() -> Vec<crate::conformance::Sample> {
    use crate::conformance::Sample;
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
            |x| vec![attention_weights(&x[0], &x[1], Some(&length_mask(&[2], 3)))],
            |x| vec![Array::from_vec(weights(x, |k| k < 2), [2, 2, 3])],
        )
        .input([2, 2, 2], range.clone())
        .input([2, 3, 2], range),
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
}
