//! Attention and transformer blocks against plain loops, and under masks.

use bibun::array::{Array, DType, Generator, Index};
use bibun::functions::{
    attention, causal_attention, causal_mask, concat, length_mask, logical_and, stack, take,
};
use bibun::links::{
    Chain, KeyValueCache, Linear, Link, MultiHeadAttention, MultiHeadAttentionBuilder, Sequential,
    SinusoidalPositions, TransformerBlock,
};
use bibun::{
    GradientCheckOptions, Variable, assert_gradients, attempt, compile, eval_mode, grad, hvp, jvp,
    per_example, s, tree_map, vmap,
};

fn normal(shape: &[usize], seed: u64) -> Variable {
    Variable::new(Generator::new(seed).normal(shape, 0.0, 1.0, DType::F64))
}

fn built(builder: MultiHeadAttentionBuilder) -> MultiHeadAttention {
    let biases = bibun::initializers::Normal {
        mean: 0.0,
        std: 0.5,
    };
    let builder = builder.bias_initializer(biases).dtype(DType::F64);
    builder.build(&mut Generator::new(7))
}

fn assert_close(found: &Variable, expected: &[f64], what: &str) {
    let found = found.to_vec::<f64>();
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let difference = (found - expected).abs();
        assert!(
            difference <= 1e-11 * expected.abs().max(1.0),
            "{what}, {i}: {found} for {expected}"
        );
    }
}

/// Rows `[t, inputs]` through a layer, by loops.
fn rows(layer: &Linear, x: &Variable) -> Vec<Vec<f64>> {
    let (w, b) = (
        layer.weight.to_vec::<f64>(),
        layer.bias.as_ref().unwrap().to_vec::<f64>(),
    );
    let inputs = layer.weight.shape()[1];
    let of_row = |x: &[f64]| {
        let products = w
            .chunks(inputs)
            .map(|w| w.iter().zip(x).map(|(w, x)| w * x).sum::<f64>());
        products.zip(&b).map(|(y, b)| y + b).collect()
    };
    x.to_vec::<f64>().chunks(inputs).map(of_row).collect()
}

/// One example's attention by loops; `seen` tells which query sees which key.
fn by_loops(
    layer: &MultiHeadAttention,
    [query, key, value]: [&Variable; 3],
    seen: impl Fn(usize, usize) -> bool,
) -> Vec<f64> {
    let (q, k, v) = (
        rows(&layer.query, query),
        rows(&layer.key, key),
        rows(&layer.value, value),
    );
    let (size, heads) = (q[0].len(), layer.heads());
    let d = size / heads;
    let mut found = Vec::new();
    for (i, q) in q.iter().enumerate() {
        let mut row = vec![0.0; size];
        for head in 0..heads {
            let part = head * d..(head + 1) * d;
            let score = |k: &[f64]| {
                let products = q[part.clone()]
                    .iter()
                    .zip(&k[part.clone()])
                    .map(|(q, k)| q * k);
                products.sum::<f64>() / (d as f64).sqrt()
            };
            let powers: Vec<f64> = (k.iter().enumerate())
                .map(|(j, k)| if seen(i, j) { score(k).exp() } else { 0.0 })
                .collect();
            let sum: f64 = powers.iter().sum();
            for (power, v) in powers.iter().zip(&v).filter(|(power, _)| **power > 0.0) {
                for at in part.clone() {
                    row[at] += power / sum * v[at];
                }
            }
        }
        found.extend(row);
    }
    let found = Variable::constant(Array::from_vec(found, [q.len(), size]));
    rows(&layer.output, &found).concat()
}

#[test]
fn attention_by_loops() {
    let layer = built(MultiHeadAttention::builder(6, 3).memory_sizes(4, 5));
    let (query, key, value) = (
        normal(&[2, 3, 6], 1),
        normal(&[2, 4, 4], 2),
        normal(&[2, 4, 5], 3),
    );
    let lengths = [4, 2];
    let mask = length_mask(&lengths, 4).expand_dims(1);
    let open = layer.attend(&query, &key, &value, None);
    let masked = layer.attend(&query, &key, &value, Some(&mask));
    for (i, length) in lengths.into_iter().enumerate() {
        let own = [&query, &key, &value].map(|x| x.slice(s![i]));
        let own = [&own[0], &own[1], &own[2]];
        assert_close(
            &open.slice(s![i]),
            &by_loops(&layer, own, |_, _| true),
            "open",
        );
        let expected = by_loops(&layer, own, |_, k| k < length);
        assert_close(&masked.slice(s![i]), &expected, "masked");
        // One alone is the same as one of a batch.
        assert_close(
            &layer.attend(own[0], own[1], own[2], None),
            &open.slice(s![i]).to_vec::<f64>(),
            "alone",
        );
    }
    let names: Vec<String> = layer
        .parameters()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let expected = [
        "query/weight",
        "query/bias",
        "key/weight",
        "key/bias",
        "value/weight",
        "value/bias",
    ];
    assert_eq!(names[..6], expected);
    assert_eq!(names[6..], ["output/weight", "output/bias"]);
}

/// All scores would be 64 MiB; queries, keys, values, their cotangents and the results are 2 MiB.
#[test]
fn memory_grows_with_the_length_of_a_sequence() {
    let length = 4096;
    let x = Variable::constant(Generator::new(1).normal([length, 16], 0.0, 1.0, DType::F32));
    let gradient = compile(|x: &Variable| grad(|x| causal_attention(x, x, x, None).sum(..), x));
    let peak = gradient.peak_bytes(&x);
    assert!(peak < length * length / 8, "{peak}");
    // History holds no scores either.
    let x = Variable::new(x.array());
    let y = attention(&x, &x, &x, None);
    let saved = y.creator().expect("recorded").outputs();
    let bytes = saved
        .iter()
        .filter_map(|output| Some(output.value()?.array().size() * 4));
    assert!(bytes.sum::<usize>() <= length * 17 * 4);
}

#[test]
fn causal_attention_sees_no_future() {
    let layer = built(MultiHeadAttention::builder(4, 2).causal());
    let x = normal(&[2, 5, 4], 1);
    let y = layer.forward(&x);
    for i in 0..2 {
        let x = x.slice(s![i]);
        let expected = by_loops(&layer, [&x, &x, &x], |q, k| k <= q);
        assert_close(&y.slice(s![i]), &expected, "causal");
    }
    let gradient = grad(|x| layer.forward(x).slice(s![.., ..2]).square().sum(..), &x);
    assert!(
        gradient
            .slice(s![.., 2..])
            .to_vec::<f64>()
            .iter()
            .all(|&g| g == 0.0)
    );
    // With another mask both hold.
    let mask = length_mask(&[5, 3], 5).expand_dims(1);
    let open = built(MultiHeadAttention::builder(4, 2));
    let both = logical_and(causal_mask(5), &mask);
    assert_close(
        &layer.forward_masked(&x, &mask),
        &open.forward_masked(&x, &both).to_vec::<f64>(),
        "both",
    );
}

#[test]
fn queries_without_keys_get_zeros() {
    let layer = built(MultiHeadAttention::builder(4, 2));
    let x = normal(&[2, 3, 4], 1);
    let mask = length_mask(&[0, 2], 3).expand_dims(1);
    let y = layer.forward_masked(&x, &mask);
    let bias = layer.output.bias.as_ref().unwrap().to_vec::<f64>();
    assert_close(
        &y.slice(s![0]),
        &[&bias[..], &bias, &bias].concat(),
        "nothing seen",
    );
    let loss = |(layer, x): &(MultiHeadAttention, Variable)| {
        layer.forward_masked(x, &mask).square().sum(..)
    };
    let (gradient, gx) = grad(loss, &(layer, x));
    let parts = gradient
        .parameters()
        .into_iter()
        .map(|(_, g)| g)
        .chain([gx]);
    for part in parts {
        assert!(part.to_vec::<f64>().iter().all(|g| g.is_finite()));
    }
}

fn block(is_post_norm: bool) -> TransformerBlock {
    let builder = TransformerBlock::builder(4, 2)
        .feed_forward(3)
        .dtype(DType::F64);
    let builder = if is_post_norm {
        builder.post_norm().activation(Variable::tanh)
    } else {
        builder
    };
    builder.build(&mut Generator::new(3))
}

#[test]
fn blocks_are_made_of_their_parts() {
    let x = normal(&[2, 3, 4], 1);
    for is_post_norm in [false, true] {
        let block = block(is_post_norm);
        let (attention, norm) = (&block.attention, &block.attention_norm);
        let (feed_forward, second) = (&block.feed_forward, &block.feed_forward_norm);
        let expected = if is_post_norm {
            let h = norm.forward(&(&x + attention.forward(&x)));
            second.forward(&(&h + feed_forward.forward(&h)))
        } else {
            let h = &x + attention.forward(&norm.forward(&x));
            &h + feed_forward.forward(&second.forward(&h))
        };
        assert_close(&block.forward(&x), &expected.to_vec::<f64>(), "block");
        let [first, last] = &feed_forward.layers[..] else {
            panic!("two layers")
        };
        let hidden = first.forward(&x);
        let hidden = if is_post_norm {
            hidden.tanh()
        } else {
            hidden.gelu()
        };
        let expected = last.forward(&hidden).to_vec::<f64>();
        assert_close(&feed_forward.forward(&x), &expected, "feed forward");
    }
}

#[test]
fn derivatives_of_blocks() {
    let x = normal(&[2, 3, 4], 5);
    let mask = length_mask(&[3, 2], 3).expand_dims(1);
    for is_post_norm in [false, true] {
        let block = block(is_post_norm);
        let (vector, unravel) = bibun::ravel_tree(&block);
        let inputs = [Variable::new(vector.array()), x.clone()];
        let options = GradientCheckOptions {
            positions: 10,
            tolerance: 1e-5,
            ..GradientCheckOptions::new().order(2)
        };
        let call = |x: &[Variable]| unravel(&x[0]).forward_masked(&x[1], &mask);
        assert_gradients(call, &inputs, &options);
        // Each example's gradient by itself.
        let losses = block.forward_masked(&x, &mask).square().sum([1, 2]);
        let rows = per_example(&losses, &block).rows();
        for i in 0..2 {
            let loss = |block: &TransformerBlock| {
                block
                    .forward_masked(&x, &mask)
                    .slice(s![i])
                    .square()
                    .sum(..)
            };
            let expected = grad(loss, &block).parameters().into_iter();
            for ((name, row), (_, expected)) in rows.parameters().iter().zip(expected) {
                assert_close(&row.slice(s![i]), &expected.to_vec::<f64>(), name);
            }
        }
        // Batch elements are turns of a loop.
        let turns: Vec<Variable> = x.unstack(0).iter().map(|x| block.forward(x)).collect();
        let turns = stack(turns.iter(), 0).to_vec::<f64>();
        assert_close(&vmap(|x: &Variable| block.forward(x), &x), &turns, "batch");
    }
}

#[test]
fn dropout_is_for_training() {
    let block = TransformerBlock::builder(4, 2)
        .dropout(0.5)
        .dtype(DType::F64);
    let block = block.build(&mut Generator::new(3));
    let x = normal(&[2, 3, 4], 1);
    let [a, b] = [(); 2].map(|()| block.forward(&x).to_vec::<f64>());
    assert_ne!(a, b);
    let [a, b] = [(); 2].map(|()| eval_mode(|| block.forward(&x)).to_vec::<f64>());
    assert_eq!(a, b);
}

#[test]
fn a_small_language_model_is_a_sequence() {
    let g = &mut Generator::new(0);
    let model = Sequential::new()
        .then(bibun::links::Embedding::new(10, 8, g))
        .then(SinusoidalPositions)
        .then(TransformerBlock::builder(8, 2).causal().build(g))
        .then(Linear::new(8, 10, g));
    let words = Variable::constant([[1i64, 2, 3], [4, 5, 6]]);
    assert_eq!(model.forward(&words).shape(), [2, 3, 10]);
}

/// Scores of the lowest number of a dtype are allowed, with which users of PyTorch hide padding.
#[test]
fn derivatives_beside_the_lowest_number() {
    let (low, hidden) = (f64::MIN, f64::NEG_INFINITY);
    let mask = Variable::constant([[low, hidden], [low, 0.0]]);
    let q = Variable::constant([[1.0], [1.0]]);
    let v = Variable::constant([[1.0], [2.0]]);
    let f = |v: &Variable| attention(&q, &q, v, &mask);
    let (y, dy) = jvp(f, &v, &v);
    assert_eq!(
        (y.to_vec::<f64>(), dy.to_vec::<f64>()),
        (vec![1.0, 2.0], vec![1.0, 2.0])
    );
    let squares = |v: &Variable| f(v).square().sum(..);
    let ones = Variable::constant([[1.0], [1.0]]);
    assert_eq!(hvp(squares, &v, &ones).1.to_vec::<f64>(), [2.0, 2.0]);
    let twice = grad(|v: &Variable| grad(squares, v).sum(..), &v);
    assert_eq!(twice.to_vec::<f64>(), [2.0, 2.0]);
    let of_mask = grad(|mask: &Variable| attention(&q, &q, &v, mask).sum(..), &mask);
    assert_eq!(of_mask.to_vec::<f64>(), [0.0; 4]);
}

#[test]
fn mistakes_are_named() {
    let message = |call: &dyn Fn()| attempt(call).unwrap_err().to_string();
    let layer = built(MultiHeadAttention::builder(4, 2).causal());
    let (x, long) = (normal(&[2, 3, 4], 1), normal(&[2, 5, 4], 1));
    let found = message(&|| drop(layer.forward(&normal(&[2, 3, 5], 1))));
    let here = format!("{}:{}:", file!(), line!() - 1);
    assert!(
        found.contains("query [.., q, size] = [2, 3, 5] f64"),
        "{found}"
    );
    assert!(found.contains(&here), "{found}");
    let found = message(&|| drop(layer.attend(&x, &long, &long, None)));
    assert!(
        found.contains("causal attention needs as many keys as queries"),
        "{found}"
    );
    let found = message(&|| drop(layer.attend(&x, &x, &long, None)));
    assert!(found.contains("as many values as keys"), "{found}");
    let found = message(&|| drop(layer.forward_masked(&x, &length_mask(&[1, 2], 3))));
    assert!(
        found.contains("the mask must broadcast to [2, 3, 3]"),
        "{found}"
    );
    let found = message(&|| drop(MultiHeadAttention::new(5, 2, &mut Generator::new(0))));
    assert!(
        found.contains("the size 5 does not make 2 heads"),
        "{found}"
    );
    let found = message(&|| drop(SinusoidalPositions.forward(&Variable::constant([1.0]))));
    assert!(found.contains("expected [.., t, size]"), "{found}");
}

#[test]
fn float_masks_are_added_and_integer_masks_refused() {
    let x = normal(&[2, 3, 4], 1);
    let (hidden, lengths) = (f64::NEG_INFINITY, length_mask(&[2, 3], 3).expand_dims(1));
    let added = lengths.where_(0.0, hidden);
    for layer in [
        built(MultiHeadAttention::builder(4, 2)),
        built(MultiHeadAttention::builder(4, 2).causal()),
    ] {
        let expected = layer.forward_masked(&x, &lengths).to_vec::<f64>();
        assert_close(&layer.forward_masked(&x, &added), &expected, "added");
        assert_close(
            &layer.forward_masked(&x, &added.cast(DType::F32)),
            &expected,
            "f32",
        );
        // Moving all scores of a query by one number changes nothing; moving one does, and is learnt.
        let moved = layer.forward_masked(&x, &(&added + 3.0));
        assert_close(&moved, &expected, "moved");
        let bias = normal(&[3, 3], 5);
        let loss = |bias: &Variable| layer.forward_masked(&x, bias).square().sum(..);
        let options = GradientCheckOptions::new().order(2);
        assert_gradients(|b| [loss(&b[0])], std::slice::from_ref(&bias), &options);
        let integers = lengths.cast(DType::I64);
        let message = attempt(|| layer.forward_masked(&x, &integers))
            .unwrap_err()
            .to_string();
        assert!(message.starts_with("MultiHeadAttention: "), "{message}");
        assert!(message.contains("mask = [2, 1, 3] i64"), "{message}");
    }
    let block = TransformerBlock::new(4, 2, &mut Generator::new(0));
    let x = x.cast(DType::F32);
    let (by_bools, by_floats) = (
        block.forward_masked(&x, &lengths),
        block.forward_masked(&x, &added),
    );
    assert_eq!(by_floats.dtype(), DType::F32);
    assert_eq!(by_bools.to_vec::<f32>(), by_floats.to_vec::<f32>());
}

/// Passes the parts of a sequence one after another.
fn by_parts(
    x: &Variable,
    lengths: &[usize],
    mut part: impl FnMut(&Variable) -> Variable,
) -> Variable {
    let mut first = 0;
    let parts = lengths.iter().map(|length| {
        let positions = first..first + length;
        first = positions.end;
        part(&x.slice(&[Index::Ellipsis, Index::from(positions), Index::from(..)]))
    });
    concat(parts.collect::<Vec<_>>(), -2)
}

#[test]
fn with_a_cache_the_parts_of_a_sequence_are_those_of_the_whole() {
    let layer = built(MultiHeadAttention::builder(6, 2).causal());
    let block = TransformerBlock::builder(6, 2)
        .causal()
        .dtype(DType::F64)
        .build(&mut Generator::new(3));
    let x = normal(&[2, 5, 6], 1);
    for lengths in [&[5][..], &[1, 1, 1, 1, 1], &[3, 1, 1], &[2, 3], &[1, 4]] {
        let mut cache = KeyValueCache::new();
        let y = by_parts(&x, lengths, |x| {
            layer.forward_with_cache(x, None, &mut cache)
        });
        assert_close(&y, &layer.forward(&x).to_vec::<f64>(), "attention");
        assert_eq!((cache.len(), cache.is_empty()), (5, false));
        let mut cache = KeyValueCache::new();
        let y = by_parts(&x, lengths, |x| {
            block.forward_with_cache(x, None, &mut cache)
        });
        assert_close(&y, &block.forward(&x).to_vec::<f64>(), "block");
    }
    // Gradients go through the cache.
    let whole = grad(|x| layer.forward(x).square().sum(..), &x);
    let by_steps = |x: &Variable| {
        let mut cache = KeyValueCache::new();
        let y = by_parts(x, &[2, 1, 2], |x| {
            layer.forward_with_cache(x, None, &mut cache)
        });
        y.square().sum(..)
    };
    assert_close(&grad(by_steps, &x), &whole.to_vec::<f64>(), "gradient");
    let each = vmap(|x| grad(by_steps, x), &x);
    assert_close(&each, &whole.to_vec::<f64>(), "gradients of examples");
}

#[test]
fn caches_have_masks_and_can_be_cut() {
    let layer = built(MultiHeadAttention::builder(6, 2).causal());
    let x = normal(&[2, 4, 6], 1);
    // The first example begins with two positions of padding.
    let present = Variable::constant([[false, false, true, true], [true; 4]]).expand_dims(1);
    let whole = layer.forward_masked(&x, &present);
    let mut cache = KeyValueCache::new();
    let y = by_parts(&x, &[2, 1, 1], |x| {
        let seen = cache.len() + x.shape()[1];
        layer.forward_with_cache(x, Some(&present.slice(s![.., .., ..seen])), &mut cache)
    });
    assert_close(&y, &whole.to_vec::<f64>(), "masked");
    // Other positions behind the first two, and the sequences the other way round.
    cache.truncate(2);
    assert_eq!(cache.keys().unwrap().shape(), [2, 2, 2, 3]);
    let mut swapped = tree_map(|x| take(x, [1i64, 0], 0), &cache);
    let next = x.slice(s![.., 3..]);
    let y = layer.forward_with_cache(&take(&next, [1i64, 0], 0), None, &mut swapped);
    let expected = layer.forward(&concat([x.slice(s![.., ..2]), next], 1));
    let expected = take(expected.slice(s![.., 2..]), [1i64, 0], 0);
    assert_close(&y, &expected.to_vec::<f64>(), "cut");
}

#[test]
fn a_cache_that_does_not_fit_is_refused_and_stays() {
    let layer = built(MultiHeadAttention::builder(6, 2).causal());
    let mut cache = KeyValueCache::new();
    layer.forward_with_cache(&normal(&[2, 3, 6], 1), None, &mut cache);
    let error = attempt(|| layer.forward_with_cache(&normal(&[3, 1, 6], 1), None, &mut cache));
    let message = error.expect_err("another batch").to_string();
    assert!(
        message.contains("cached [.., heads, k, d] = [2, 2, 3, 3] f64"),
        "{message}"
    );
    let mask = Variable::constant([[true; 3]]);
    let x = normal(&[2, 1, 6], 1);
    assert!(attempt(|| layer.forward_with_cache(&x, Some(&mask), &mut cache)).is_err());
    assert_eq!(cache.len(), 3);
    assert!(attempt(|| cache.clone().truncate(4)).is_err());
    let plain = built(MultiHeadAttention::builder(6, 2));
    let error = attempt(|| plain.forward_with_cache(&x, None, &mut cache)).expect_err("not causal");
    assert!(
        error
            .to_string()
            .contains("a cache is for causal attention"),
        "{error}"
    );
}

#[test]
fn positions_go_on_behind_a_cache() {
    let x = normal(&[2, 5, 4], 1);
    let mut first = 0;
    let y = by_parts(&x, &[2, 3], |x| {
        let y = SinusoidalPositions.forward_from(x, first);
        first += x.shape()[1];
        y
    });
    assert_eq!(
        y.to_vec::<f64>(),
        SinusoidalPositions.forward(&x).to_vec::<f64>()
    );
}
