//! Attention: averages of values, weighted by the similarity of queries and keys.

use bibun_array::{self as array, Array, Attention, DType, Shape, keep_dims};

use crate::batch::Batched;
use crate::call::composite;
use crate::context::Context;
use crate::error::mismatch;
use crate::examples::{ExampleCotangent, ExampleGradient};
use crate::function::{Fixed, Function, Mismatch, Needs, Saved, Spec, Variadic};
use crate::functions::{
    OptionalVariable, broadcast_to, cast, expect_mask, float_of, logical_and, masked_softmax,
    matmul, softmax, sum, swapaxes, where_, zeros_like,
};
use crate::variable::Variable;

/// Computes scaled dot-product attention: for each query the average of the values, with the
/// weights of [`attention_weights`]. The scores are computed in blocks and again on the way back, so
/// that memory grows with the number of queries and keys, not with their product; only derivatives
/// of derivatives, tangents, and gradients of a mask have all scores in memory.
///
/// Shapes: query `[.., q, d]`, key `[.., k, d]`, value `[.., k, v]`, mask that broadcasts to
/// `[.., q, k]` → `[.., q, v]`.
/// Types: floats, promoted; the mask bool (true where a query attends to a key) or float (added to
/// the scores).
/// Gradient: to all inputs, including a mask of floats. A query for which all keys are masked gives
/// zeros.
///
/// Source: Vaswani et al., "Attention Is All You Need", NeurIPS 2017; Dao, Fu, Ermon, Rudra and Ré,
/// "FlashAttention", NeurIPS 2022.
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
    let rule = rule(&query, false);
    averages(rule, query, key, value, mask.get())
}

/// Computes [`attention`] in which no query attends to a key behind its own position, as if the mask
/// were also [`causal_mask`](crate::functions::causal_mask). Blocks of scores that are masked as a
/// whole are not computed.
///
/// Shapes: those of [`attention`].
/// Types: those of [`attention`].
/// Gradient: that of [`attention`].
///
/// # Panics
/// Panics in the cases of [`attention`].
///
/// ```
/// use bibun::{functions::causal_attention, Variable};
/// let x = Variable::new([[0.0], [0.0]]);
/// let value = Variable::new([[1.0], [3.0]]);
/// assert_eq!(causal_attention(&x, &x, &value, None).to_vec::<f64>(), [1.0, 2.0]);
/// ```
#[track_caller]
pub fn causal_attention(
    query: impl Into<Variable>,
    key: impl Into<Variable>,
    value: impl Into<Variable>,
    mask: impl Into<OptionalVariable>,
) -> Variable {
    let _whole = composite("causal_attention");
    let (query, key, value, mask) = (query.into(), key.into(), value.into(), mask.into());
    check("causal_attention", &query, &key, Some(&value), mask.get());
    let rule = rule(&query, true);
    averages(rule, query, key, value, mask.get())
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
    let rule = rule(&query, false);
    // An integer query is cast to the floats of the key.
    let dtype = float_of(query.dtype(), [&key]);
    weights_by(rule, &cast(query, dtype), &key, mask)
}

pub(super) fn rule(query: &Variable, causal: bool) -> Attention {
    let size = query.shape()[query.rank() - 1];
    let scale = 1.0 / (size as f64).sqrt();
    Attention { causal, scale }
}

/// Computes the weights at once.
#[track_caller]
fn weights_by(
    rule: Attention,
    query: &Variable,
    key: &Variable,
    mask: Option<&Variable>,
) -> Variable {
    let scores = matmul(query * rule.scale, swapaxes(key, -1, -2));
    let causal = rule.causal.then(|| {
        let shape = scores.shape();
        let sizes = Shape::new(&shape[shape.rank() - 2..]);
        let causal = Array::ones(sizes, DType::Bool).tril(0);
        // Repeated values are on every device, so the scores alone do not tell where the others are.
        let device =
            (mask.into_iter().chain([&scores, query, key])).find_map(Variable::known_device);
        Variable::constant(causal).to(device.unwrap_or(array::cpu()))
    });
    match (causal, mask) {
        (None, None) => softmax(scores, -1),
        (None, Some(mask)) => masked_softmax(scores, mask, -1),
        (Some(causal), None) => masked_softmax(scores, causal, -1),
        (Some(causal), Some(mask)) if mask.dtype() == DType::Bool => {
            masked_softmax(scores, logical_and(causal, mask), -1)
        }
        (Some(causal), Some(mask)) => {
            masked_softmax(scores, where_(causal, mask, f64::NEG_INFINITY), -1)
        }
    }
}

/// Applies the function to inputs of one dtype, with equal axes in front.
#[track_caller]
pub(super) fn averages(
    rule: Attention,
    query: Variable,
    key: Variable,
    value: Variable,
    mask: Option<&Variable>,
) -> Variable {
    let dtype = float_of(query.dtype(), [&key, &value]);
    let parts = [query, key, value].map(|x| {
        let shape = x.shape();
        let rank = shape.rank() - 2;
        (
            cast(x, dtype),
            Shape::new(&shape[..rank]),
            [shape[rank], shape[rank + 1]],
        )
    });
    let fronts = parts.iter().map(|(_, front, _)| front);
    let front = fronts
        .skip(1)
        .try_fold(parts[0].1.clone(), |all, front| all.broadcast(front));
    let Some(front) = front else {
        let specs = parts.each_ref().map(|(x, ..)| x.spec());
        let names = ["query [.., q, d]", "key [.., k, d]", "value [.., k, v]"];
        let named: Vec<(&str, &Spec)> = names.into_iter().zip(&specs).collect();
        let name = if rule.causal {
            "causal_attention"
        } else {
            "attention"
        };
        mismatch(name, &named, "the axes in front must broadcast")
    };
    let [queries, keys] = [parts[0].2[0], parts[1].2[0]];
    let broadcast = |x: Variable, sizes: [usize; 2]| {
        let shape: Shape = front.iter().copied().chain(sizes).collect();
        match x.shape() == shape {
            true => x,
            false => broadcast_to(x, shape),
        }
    };
    let mask = mask.map(|mask| match mask.dtype() == DType::Bool {
        true => broadcast(mask.clone(), [queries, keys]),
        false => broadcast(cast(mask.clone(), dtype), [queries, keys]),
    });
    let inputs = parts.into_iter().map(|(x, _, sizes)| broadcast(x, sizes));
    let [y, _] = crate::apply(DotProductAttention(rule), inputs.chain(mask).collect());
    y
}

/// `p (w - Σ p w)`: the cotangent of scores from that of their softmax `p`, and the same for
/// tangents.
fn through_softmax(p: &Variable, w: &Variable) -> Variable {
    p * (w - sum(p * w, keep_dims(-1)))
}

fn transposed(x: &Variable) -> Variable {
    swapaxes(x, -1, -2)
}

/// The sum of the terms that are there.
fn total(terms: impl IntoIterator<Item = Option<Variable>>) -> Option<Variable> {
    terms.into_iter().flatten().reduce(|sum, term| sum + term)
}

/// Attention of inputs with equal axes in front: query, key, value, and perhaps a mask with all
/// axes of the scores. The results are the averages and the logarithms of the sums of powers, which
/// nobody but the gradient gets to see.
#[derive(Clone, Debug)]
struct DotProductAttention(Attention);

impl Function for DotProductAttention {
    type Inputs = Variadic;
    type Outputs = Fixed<2>;

    fn name(&self) -> &'static str {
        "attention"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::ALL
    }

    fn shape(&self, inputs: Vec<&Spec>) -> Result<[Spec; 2], Mismatch> {
        let (query, value) = (inputs[0], inputs[2]);
        let last = query.shape.rank() - 1;
        let size = value.shape[value.shape.rank() - 1];
        Ok([
            Spec::new(query.shape.replaced(last, size), query.dtype),
            Spec::new(query.shape.replaced(last, 1), query.dtype.accumulator()),
        ])
    }

    fn forward(&self, inputs: Vec<Array>) -> [Array; 2] {
        array::attention(self.0, [&inputs[0], &inputs[1], &inputs[2]], inputs.get(3))
    }

    fn in_accumulator(&self) -> bool {
        true
    }

    fn vjp(&self, cx: &Context<'_>, [gy, _]: [Variable; 2]) -> Vec<Option<Variable>> {
        let count = cx.input_count();
        let mask = (count > 3).then(|| cx.input(3));
        let mut gradients = vec![None; count];
        if (0..3).any(|i| cx.needs(i)) {
            let inputs = (0..3).map(|i| cx.input(i));
            let results = [cx.output(0), cx.output(1), gy.clone()];
            let inputs = inputs.chain(results).chain(mask.clone()).collect();
            let found = crate::apply(AttentionGradient(self.0), inputs);
            for (gradient, found) in gradients.iter_mut().zip(found) {
                *gradient = Some(found);
            }
        }
        if count > 3 && cx.needs(3) {
            let p = weights_by(self.0, &cx.input(0), &cx.input(1), mask.as_ref());
            gradients[3] = Some(through_softmax(&p, &matmul(gy, transposed(&cx.input(2)))));
        }
        gradients
    }

    fn jvp(&self, cx: &Context<'_>, dx: Vec<Option<Variable>>) -> [Option<Variable>; 2] {
        let inputs: Vec<Variable> = (0..dx.len()).map(|i| cx.input(i)).collect();
        let [query, key, value] = [&inputs[0], &inputs[1], &inputs[2]];
        let p = weights_by(self.0, query, key, inputs.get(3));
        let dp = tangent_of_scores(self.0, [query, key], &dx).map(|ds| through_softmax(&p, &ds));
        let dy = [
            dp.map(|dp| matmul(dp, value)),
            dx[2].as_ref().map(|dvalue| matmul(&p, dvalue)),
        ];
        // Only the gradient reads the logarithms, and its rules take them for functions of the
        // other inputs.
        [total(dy), None]
    }

    fn batch(&self, inputs: Vec<Batched>) -> [Batched; 2] {
        Batched::in_front(self.clone(), inputs)
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        [gy, _]: [ExampleCotangent; 2],
    ) -> Vec<Option<ExampleGradient>> {
        let count = cx.input_count();
        let front = cx.input_shape(0).rank() - 2;
        if gy.examples.axis() >= front || count > 3 && cx.needs(3) {
            return vec![Some(ExampleGradient::Unknown); count];
        }
        let examples = gy.examples;
        let log_sums = zeros_like(cx.output(1));
        let gradients = self.vjp(cx, [gy.cotangent, log_sums]);
        let sliced = |gx: Option<Variable>| Some(ExampleGradient::sliced(gx?, examples.clone()));
        gradients.into_iter().map(sliced).collect()
    }
}

/// The tangent of the scores: those of queries, keys and the mask, which are 0, 1 and 3 of `dx`.
fn tangent_of_scores(
    rule: Attention,
    [query, key]: [&Variable; 2],
    dx: &[Option<Variable>],
) -> Option<Variable> {
    let by_query = dx[0]
        .as_ref()
        .map(|dquery| matmul(dquery, transposed(key)) * rule.scale);
    let by_key = dx[1]
        .as_ref()
        .map(|dkey| matmul(query, transposed(dkey)) * rule.scale);
    total([by_query, by_key, dx.get(3).cloned().flatten()])
}

/// The cotangents of query, key and value. The inputs are these, the two results of the attention,
/// the cotangent of the first, and perhaps a mask.
///
/// With the weights `p`, `w = gy valueᵀ` and `c = p (w - Σ p w)`, these are `scale c key`,
/// `scale cᵀ query` and `pᵀ gy`. The rules compute derivatives of that, with all scores at once.
/// They take the results for functions of query, key, value and mask, whose cotangents contain what
/// would come by them.
#[derive(Clone, Debug)]
struct AttentionGradient(Attention);

/// Where the cotangent of the averages is among the inputs of the gradient, and where the mask is.
const GY: usize = 5;
const MASK: usize = 6;

impl Function for AttentionGradient {
    type Inputs = Variadic;
    type Outputs = Fixed<3>;

    fn name(&self) -> &'static str {
        "attention gradient"
    }

    fn saves(&self, _: Needs<'_>) -> Saved {
        let saved = Saved::NOTHING.input(0).input(1).input(2);
        saved.input(GY).input(MASK)
    }

    fn shape(&self, inputs: Vec<&Spec>) -> Result<[Spec; 3], Mismatch> {
        Ok([0, 1, 2].map(|i| inputs[i].clone()))
    }

    fn forward(&self, inputs: Vec<Array>) -> [Array; 3] {
        let [query, key, value, y, log_sums, gy] = inputs.first_chunk().expect("there are six");
        let results = [y, log_sums, gy];
        array::attention_gradient(self.0, [query, key, value], inputs.get(MASK), results)
    }

    fn in_accumulator(&self) -> bool {
        true
    }

    fn vjp(&self, cx: &Context<'_>, [hq, hk, hv]: [Variable; 3]) -> Vec<Option<Variable>> {
        let mask = (cx.input_count() > MASK).then(|| cx.input(MASK));
        let [query, key, value, gy] = [0, 1, 2, GY].map(|i| cx.input(i));
        let scale = self.0.scale;
        let p = weights_by(self.0, &query, &key, mask.as_ref());
        // The product of the cotangents and the gradients is that of gy and the tangent of the
        // averages along the cotangents; a and b are the tangents of scores and of weights.
        let tangents = [Some(hq.clone()), Some(hk.clone())];
        let a = tangent_of_scores(self.0, [&query, &key], &tangents).expect("there are two");
        let b = through_softmax(&p, &a);
        let w = matmul(&gy, transposed(&value));
        let c = through_softmax(&p, &w);
        let mean_a = sum(&p * &a, keep_dims(-1));
        let mean_w = sum(&p * &w, keep_dims(-1));
        let of_p = matmul(&gy, transposed(&hv)) + &w * (&a - mean_a) - &a * mean_w;
        let e = through_softmax(&p, &of_p);
        let mut gradients = vec![None; cx.input_count()];
        gradients[0] = Some((matmul(&c, &hk) + matmul(&e, &key)) * scale);
        gradients[1] = Some((matmul(transposed(&c), &hq) + matmul(transposed(&e), &query)) * scale);
        gradients[2] = Some(matmul(transposed(&b), &gy));
        gradients[GY] = Some(matmul(b, value) + matmul(p, hv));
        if mask.is_some() && cx.needs(MASK) {
            gradients[MASK] = Some(e);
        }
        gradients
    }

    fn jvp(&self, cx: &Context<'_>, dx: Vec<Option<Variable>>) -> [Option<Variable>; 3] {
        let mask = (dx.len() > MASK).then(|| cx.input(MASK));
        let [query, key, value, gy] = [0, 1, 2, GY].map(|i| cx.input(i));
        let scale = self.0.scale;
        let [dquery, dkey, dvalue, dgy] = [0, 1, 2, GY].map(|i| dx[i].clone());
        let dmask = dx.get(MASK).cloned().flatten();
        let p = weights_by(self.0, &query, &key, mask.as_ref());
        let w = matmul(&gy, transposed(&value));
        let c = through_softmax(&p, &w);
        let of_scores = [dquery.clone(), dkey.clone(), None, dmask];
        let dp = tangent_of_scores(self.0, [&query, &key], &of_scores)
            .map(|ds| through_softmax(&p, &ds));
        let dw = total([
            dgy.as_ref().map(|dgy| matmul(dgy, transposed(&value))),
            dvalue.map(|dvalue| matmul(&gy, transposed(&dvalue))),
        ]);
        let dc = total([
            dp.as_ref().map(|dp| {
                let mean = sum(&p * &w, keep_dims(-1));
                dp * (&w - mean) - &p * sum(dp * &w, keep_dims(-1))
            }),
            dw.map(|dw| through_softmax(&p, &dw)),
        ]);
        let of_query = [
            dc.as_ref().map(|dc| matmul(dc, &key) * scale),
            dkey.map(|dkey| matmul(&c, dkey) * scale),
        ];
        let of_key = [
            dc.map(|dc| matmul(transposed(&dc), &query) * scale),
            dquery.map(|dquery| matmul(transposed(&c), dquery) * scale),
        ];
        let of_value = [
            dp.map(|dp| matmul(transposed(&dp), &gy)),
            dgy.map(|dgy| matmul(transposed(&p), dgy)),
        ];
        [total(of_query), total(of_key), total(of_value)]
    }

    fn batch(&self, inputs: Vec<Batched>) -> [Batched; 3] {
        Batched::in_front(self.clone(), inputs)
    }

    fn per_example(
        &self,
        cx: &Context<'_>,
        _: [ExampleCotangent; 3],
    ) -> Vec<Option<ExampleGradient>> {
        vec![Some(ExampleGradient::Unknown); cx.input_count()]
    }
}

#[track_caller]
pub(super) fn check(
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
            "attention",
            |x| {
                let mask = beside(x, length_mask(&[2], 3));
                let added = mask.where_(&x[3], f64::NEG_INFINITY);
                vec![attention(&x[0], &x[1], &x[2], &added)]
            },
            |x| {
                let (added, value) = (x[3].to_vec::<f64>(), x[2].to_vec::<f64>());
                let weights = weights(x, |k| k < 2);
                let average = |i: usize| {
                    let (row, head) = (i / 2, i / 4);
                    let weight = |k: usize| weights[row * 3 + k] * added[row % 2 * 3 + k].exp();
                    let terms = (0..3).map(|k| weight(k) * value[(head * 3 + k) * 2 + i % 2]);
                    terms.sum::<f64>() / (0..3).map(weight).sum::<f64>()
                };
                vec![Array::from_vec((0..8).map(average).collect(), [2, 2, 2])]
            },
        )
        .input([2, 2, 2], range.clone())
        .input([2, 3, 2], range.clone())
        .input([2, 3, 2], range.clone())
        .input([2, 3], range.clone()),
        Sample::new(
            "causal_attention",
            |x| vec![causal_attention(&x[0], &x[1], &x[2], None)],
            |x| {
                let value = x[2].to_vec::<f64>();
                let average = |i: usize| {
                    let (row, head) = (i / 2, i / 4);
                    let weights = weights(x, |k| k <= row % 2);
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
    use bibun_array::Generator;

    use super::*;
    use crate::{attempt, gradients};

    /// Several blocks of queries and keys, their ends, and all kinds of masks.
    #[test]
    fn long_sequences_agree_with_all_scores_at_once() {
        for (queries, keys, causal) in [(200, 300, false), (150, 150, true), (70, 300, true)] {
            for kind in 0..4 {
                for dtype in [DType::F32, DType::F64] {
                    agrees([queries, keys], causal, kind, dtype);
                }
            }
        }
    }

    fn agrees([queries, keys]: [usize; 2], causal: bool, kind: usize, dtype: DType) {
        let generator = &mut Generator::new(5);
        let draw = |generator: &mut Generator, shape: [usize; 4]| {
            generator.normal(shape, 0.0, 1.0, DType::F64).cast(dtype)
        };
        let inputs = [[2, 2, queries, 5], [1, 2, keys, 5], [2, 1, keys, 7]];
        let inputs = inputs.map(|shape| Variable::new(draw(generator, shape)));
        let gy = Variable::constant(draw(generator, [2, 2, queries, 7]));
        let kept = generator.bernoulli(0.5, [2, 1, queries, keys]);
        // The first query has no keys, and the last examples have fewer.
        let mask = match kind {
            0 => None,
            1 => Some(Variable::constant(kept)),
            2 => Some(crate::functions::length_mask(&[3, keys], keys).reshape([2, 1, 1, keys])),
            _ => {
                let added = Variable::constant(draw(generator, [2, 1, queries, keys]));
                Some(where_(Variable::constant(kept), added, f64::NEG_INFINITY))
            }
        };
        let wide = inputs
            .each_ref()
            .map(|x| Variable::new(x.cast(DType::F64).array()));
        let [q, k, v] = &inputs;
        let y = match causal {
            true => causal_attention(q, k, v, &mask),
            false => attention(q, k, v, &mask),
        };
        let p = weights_by(rule(&wide[0], causal), &wide[0], &wide[1], mask.as_ref());
        let expected = matmul(p, &wide[2]);
        let tolerance = if dtype == DType::F32 { 2e-5 } else { 1e-12 };
        let close = |found: &Variable, expected: &Variable, what: &str| {
            let difference = (found.cast(DType::F64) - expected).abs().max(..);
            let difference = difference.item::<f64>();
            assert!(
                difference < tolerance,
                "{what} {queries} {keys} {causal} {kind} {dtype}: {difference}"
            );
        };
        close(&y, &expected, "y");
        let found = gradients(&[&(y * &gy).sum(..)], &inputs.each_ref());
        let gy = gy.cast(DType::F64);
        let expected = gradients(&[&(expected * gy).sum(..)], &wide.each_ref());
        for (found, expected) in found.iter().zip(&expected) {
            let [found, expected] = [found, expected].map(|g| g.as_ref().expect("a gradient"));
            close(found, expected, "gradient");
        }
    }

    #[test]
    fn queries_without_keys_give_zeros() {
        let x = Variable::new([[1.0], [2.0]]);
        let value = Variable::new([[1.0], [100.0]]);
        let mask = Variable::constant([[false, false], [true, true]]);
        let y = attention(&x, &x, &value, &mask);
        assert_eq!(y.to_vec::<f64>()[0], 0.0);
        let found = gradients(&[&y.slice(bibun_array::s![0]).sum(..)], &[&x, &value]);
        for gradient in found {
            assert_eq!(gradient.expect("a gradient").to_vec::<f64>(), [0.0, 0.0]);
        }
        let none = Variable::new(Array::zeros([0, 1], DType::F64));
        assert_eq!(
            attention(&x, &none, &none, None).to_vec::<f64>(),
            [0.0, 0.0]
        );
        assert_eq!(attention(&none, &x, &x, None).shape(), [0, 1]);
    }

    #[test]
    fn shapes_that_do_not_fit_are_all_named() {
        let x = Variable::new([[1.0, 2.0]]);
        let error = attempt(|| attention(&x, &x, [[1.0], [2.0]], None)).unwrap_err();
        let expected = "attention: inputs do not fit: query [.., q, d] = [1, 2] f64, \
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
