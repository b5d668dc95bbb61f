//! Per-example gradients against a loop over single examples: for every link, through everything
//! that other libraries get wrong, and with what must be refused.

use bibun::array::{Array, DType, Generator};
use bibun::functions::*;
use bibun::links::*;
use bibun::{
    Error, GradOptions, PerExample, Rows, Rules, Tree, Variable, attempt, checkpoint, clip_factors,
    custom_gradient, grad, gradients, per_example, per_example_with, s, vmap,
};

fn normal(seed: u64, shape: impl Into<bibun::array::Shape>) -> Array {
    Generator::new(seed).normal(shape, 0.0, 1.0, DType::F64)
}

fn weight(seed: u64, shape: impl Into<bibun::array::Shape>) -> Variable {
    Variable::new(normal(seed, shape))
}

fn data(seed: u64, shape: impl Into<bibun::array::Shape>) -> Variable {
    Variable::constant(normal(seed, shape))
}

fn close(found: &Array, expected: &Array, tolerance: f64) {
    assert_eq!(found.shape(), expected.shape());
    let (found, expected) = (
        found.cast(DType::F64).to_vec::<f64>(),
        expected.cast(DType::F64).to_vec::<f64>(),
    );
    let size = expected.iter().fold(1e-3f64, |size, x| size.max(x.abs()));
    for (i, (a, b)) in found.iter().zip(&expected).enumerate() {
        assert!((a - b).abs() <= tolerance * size, "{i}: {a} is not {b}");
    }
}

fn leaves<T: Tree>(tree: &T) -> Vec<Array> {
    let mut leaves = Vec::new();
    tree.visit(&mut bibun::Visitor::new(&mut |_, x, role| {
        if role != bibun::Role::Buffer {
            leaves.push(x.array());
        }
    }));
    leaves
}

/// Rows, and what is made without them, against the rows of a reference.
fn agree<T: Tree>(found: &PerExample<'_, T>, expected: &[Array], tolerance: f64) {
    let n = found.count();
    let rows = leaves(&found.rows());
    assert_eq!(rows.len(), expected.len());
    for (rows, expected) in rows.iter().zip(expected) {
        close(rows, expected, tolerance);
    }
    let flat = |x: &Array| {
        x.reshape([n, x.shape()[1..].iter().product()])
            .cast(DType::F64)
    };
    let squares: Vec<Array> = expected.iter().map(&flat).collect();
    let squares = squares.iter().map(|x| (x * x).sum(1));
    let norms = squares.reduce(|a, b| a + b).expect("parameters");
    let norms = Variable::constant(norms).sqrt().array();
    close(&found.norms().array(), &norms, tolerance);
    let c = Generator::new(1).normal([n], 0.0, 1.0, rows[0].dtype());
    let weighted = leaves(&found.weighted_sum(&Variable::constant(c.clone())));
    for (found, rows) in weighted.iter().zip(expected) {
        let mut along = vec![1; rows.rank()];
        along[0] = n;
        close(found, &(rows * &c.reshape(along)).sum(0), tolerance * 10.0);
    }
    for (found, rows) in leaves(&found.second_moment()).iter().zip(expected) {
        close(
            found,
            &((rows * rows).sum(0) / n.max(1) as f64),
            tolerance * 10.0,
        );
    }
    let gram = expected.iter().map(|x| {
        let x = flat(x);
        bibun::array::matmul(&x, &x.transpose())
    });
    let gram = gram.reduce(|a, b| a + b).expect("parameters");
    close(&found.gram().array(), &gram, tolerance);
}

/// A model on single examples, one after the other: `f` is given example `i` as a batch of one.
fn looped<T: Tree>(n: usize, model: &T, f: impl Fn(&T, usize) -> Variable) -> Vec<Array> {
    let each: Vec<Vec<Array>> = (0..n)
        .map(|i| leaves(&grad(|model: &T| f(model, i).sum(..), model)))
        .collect();
    let parameters = leaves(model);
    let rows = |p: usize| {
        let rows: Vec<&Array> = each.iter().map(|row| &row[p]).collect();
        match rows.is_empty() {
            true => Array::zeros(parameters[p].shape().inserted(0, 0), parameters[p].dtype()),
            false => bibun::array::stack(&rows, 0),
        }
    };
    (0..parameters.len()).map(rows).collect()
}

/// A batch at once against batches of one.
fn like_single_examples<T: Tree>(
    model: &T,
    x: &Variable,
    f: impl Fn(&T, &Variable) -> Variable,
    tolerance: f64,
) {
    let n = x.shape()[0];
    let losses = |model: &T, x: &Variable| {
        let y = f(model, x);
        let rest: Vec<isize> = (1..y.rank() as isize).collect();
        // Every output element counts, with a weight of its own.
        let along = y.shape().replaced(0, 1);
        let weights = Generator::new(9).normal(along, 0.0, 1.0, y.dtype());
        (y * Variable::constant(weights)).sum(&rest[..])
    };
    let one = |model: &T, i: usize| {
        let i = i as isize;
        losses(model, &x.slice(s![i..i + 1]))
    };
    let found = losses(model, x);
    agree(
        &per_example(&found, model),
        &looped(n, model, one),
        tolerance,
    );
}

// ----- every link

#[test]
fn every_link_has_rows_like_batches_of_one() {
    let g = &mut Generator::new(3);
    let f64s = DType::F64;
    for n in [0, 1, 4] {
        let linear = Linear::builder(3, 5).dtype(f64s).build(g);
        like_single_examples(&linear, &data(1, [n, 3]), |l, x| l.forward(x), 1e-10);
        like_single_examples(&linear, &data(1, [n, 7, 3]), |l, x| l.forward(x), 1e-10);
        like_single_examples(&linear, &data(1, [n, 2, 2, 3]), |l, x| l.forward(x), 1e-10);
        let norm = LayerNorm::builder(4).dtype(f64s).build();
        like_single_examples(&norm, &data(2, [n, 3, 4]), |l, x| l.forward(x), 1e-10);
        let norm = RmsNorm::builder(4).dtype(f64s).build();
        like_single_examples(&norm, &data(2, [n, 4]), |l, x| l.forward(x), 1e-10);
        let norm = GroupNorm::builder(2, 4).dtype(f64s).build();
        like_single_examples(&norm, &data(3, [n, 4, 3, 2]), |l, x| l.forward(x), 1e-10);
        let norm = InstanceNorm::builder(4).dtype(f64s).build();
        like_single_examples(&norm, &data(3, [n, 4, 3, 2]), |l, x| l.forward(x), 1e-10);
        let norm = BatchNorm::builder(4).dtype(f64s).build();
        let still = |l: &BatchNorm, x: &Variable| bibun::eval_mode(|| l.forward(x));
        like_single_examples(&norm, &data(3, [n, 4, 3, 2]), still, 1e-10);
        let embedding = Embedding::builder(6, 3).dtype(f64s).build(g);
        let ids = Generator::new(4).integers(0, 6, [n, 5]);
        let ids = Variable::constant(ids);
        like_single_examples(&embedding, &ids, |l, x| l.forward(x), 1e-10);
        let single = ids.slice(s![.., 0]);
        like_single_examples(&embedding, &single, |l, x| l.forward(x), 1e-10);
    }
}

#[test]
fn every_convolution_has_rows_like_batches_of_one() {
    let g = &mut Generator::new(5);
    let f64s = DType::F64;
    type Axes = [usize; 2];
    let grid: [([usize; 3], Axes, Axes, Axes, Axes); 8] = [
        // channels in and out, groups, kernel, stride, padding, dilation
        ([1, 1, 1], [1, 1], [1, 1], [0, 0], [1, 1]),
        ([3, 4, 1], [3, 2], [1, 1], [1, 0], [1, 1]),
        ([3, 4, 1], [3, 2], [2, 3], [1, 1], [1, 2]),
        ([4, 6, 2], [2, 2], [1, 2], [0, 1], [2, 1]),
        ([4, 4, 4], [3, 3], [1, 1], [1, 1], [1, 1]),
        ([3, 6, 3], [2, 3], [3, 1], [2, 2], [1, 1]),
        ([1, 3, 1], [4, 4], [3, 3], [2, 2], [1, 1]),
        ([2, 3, 1], [5, 7], [1, 1], [0, 0], [1, 1]),
    ];
    for ([i, o, groups], kernel, stride, padding, dilation) in grid {
        let conv = Conv2d::builder(i, o, kernel)
            .stride(stride)
            .padding(padding)
            .dilation(dilation)
            .groups(groups)
            .dtype(f64s)
            .build(g);
        for n in [0, 1, 3] {
            like_single_examples(&conv, &data(6, [n, i, 5, 7]), |l, x| l.forward(x), 1e-10);
        }
        let back = ConvTranspose2d::builder(i, o, kernel)
            .stride(stride)
            .dilation(dilation)
            .groups(groups)
            .dtype(f64s)
            .build(g);
        like_single_examples(&back, &data(6, [3, i, 4, 3]), |l, x| l.forward(x), 1e-10);
    }
    let conv = Conv1d::builder(3, 4, 2).dtype(f64s).build(g);
    like_single_examples(&conv, &data(7, [3, 3, 6]), |l, x| l.forward(x), 1e-10);
    let conv = Conv3d::builder(2, 3, 2).dtype(f64s).build(g);
    like_single_examples(&conv, &data(7, [3, 2, 3, 4, 3]), |l, x| l.forward(x), 1e-10);
}

/// Two convolutions, pooling, normalisation and a head, in any dtype.
#[derive(Chain)]
struct Network {
    first: Conv2d,
    norm: GroupNorm,
    second: Conv2d,
    head: Linear,
}

impl Network {
    fn new(dtype: DType) -> Self {
        let g = &mut Generator::new(11);
        Self {
            first: Conv2d::builder(2, 4, 3).padding(1).dtype(dtype).build(g),
            norm: GroupNorm::builder(2, 4).dtype(dtype).build(),
            second: Conv2d::builder(4, 6, 3).stride(2).dtype(dtype).build(g),
            head: Linear::builder(6, 3).dtype(dtype).build(g),
        }
    }

    fn forward(&self, x: &Variable) -> Variable {
        let h = relu(self.norm.forward(&self.first.forward(x)));
        let h = avg_pool(h, Pooling::new([2, 2]));
        let h = tanh(self.second.forward(&h));
        self.head.forward(&global_avg_pool(h))
    }
}

fn each(scores: Variable, t: &Variable) -> Variable {
    softmax_cross_entropy_with(scores, t, Reduction::None)
}

#[test]
fn rows_of_a_network_in_both_precisions() {
    let x = normal(12, [6, 2, 12, 12]);
    let t = Variable::constant(Generator::new(13).integers(0, 3, [6]));
    let exact = Network::new(DType::F64);
    let x64 = Variable::constant(x);
    let one = |model: &Network, x: &Variable, i: usize| {
        let i = i as isize;
        each(
            model.forward(&x.slice(s![i..i + 1])),
            &t.slice(s![i..i + 1]),
        )
    };
    let reference = looped(6, &exact, |model, i| one(model, &x64, i));
    let losses = each(exact.forward(&x64), &t);
    let gradients = per_example(&losses, &exact);
    agree(&gradients, &reference, 1e-10);
    // Their sum is the gradient of the sum.
    let whole = grad(
        |model: &Network| each(model.forward(&x64), &t).sum(..),
        &exact,
    );
    for (sum, whole) in leaves(&gradients.sum()).iter().zip(&leaves(&whole)) {
        close(sum, whole, 1e-12);
    }
    // The same in f32.
    let coarse = Network::new(DType::F32);
    let values = leaves(&exact);
    let mut values = values.iter();
    let coarse = bibun::tree_map(
        |_| Variable::new(values.next().expect("alike").cast(DType::F32)),
        &coarse,
    );
    let losses = each(coarse.forward(&x64.cast(DType::F32)), &t);
    let rows = leaves(&per_example(&losses, &coarse).rows());
    for (rows, reference) in rows.iter().zip(&reference) {
        close(rows, reference, 1e-5);
    }
    // A part of the model alone.
    let losses = each(exact.forward(&x64), &t);
    let head = leaves(&per_example(&losses, &exact.head).rows());
    close(&head[0], &reference[6], 1e-10);
}

/// Convolutions, pooling and normalisation take one example after the other; products of matrices
/// take all rows at once, and may round another way for another number of rows.
#[test]
fn a_row_is_bitwise_what_a_batch_of_one_gives() {
    let model = Network::new(DType::F32);
    let x = Variable::constant(normal(12, [5, 2, 12, 12]).cast(DType::F32));
    let rows = |x: &Variable| {
        let h = relu(model.norm.forward(&model.first.forward(x)));
        let h = tanh(model.second.forward(&avg_pool(h, Pooling::new([2, 2]))));
        leaves(&per_example(&h.square().sum([1, 2, 3]), &model).rows())
    };
    let all = rows(&x);
    for i in 0..5 {
        let one = rows(&x.slice(s![i..i + 1]));
        for (p, (all, one)) in all.iter().zip(&one).enumerate() {
            let all = all.slice(s![i..i + 1]).to_vec::<f32>();
            let one = one.to_vec::<f32>();
            let same = all
                .iter()
                .zip(&one)
                .all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "example {i}, parameter {p}");
        }
    }
}

#[test]
fn examples_stay_apart_whatever_the_others_are() {
    let model = Network::new(DType::F64);
    let mut x = normal(12, [5, 2, 12, 12]);
    let rows = |x: &Array| {
        let losses = model
            .forward(&Variable::constant(x.clone()))
            .square()
            .sum(1);
        let gradients = per_example(&losses, &model);
        let c = Variable::constant([1.0, 1.0, 0.0, 1.0, 1.0]);
        let norms = gradients.norms().to_vec::<f64>();
        (
            leaves(&gradients.rows()),
            norms,
            leaves(&gradients.weighted_sum(&c)),
        )
    };
    let (before, norms, sum) = rows(&x);
    x.assign(s![2], &Array::scalar(f64::NAN));
    let (after, norms_after, sum_after) = rows(&x);
    for (before, after) in before.iter().zip(&after) {
        for i in [0, 1, 3, 4] {
            let same = |x: &Array| x.slice(s![i]).to_vec::<f64>();
            assert_eq!(same(before), same(after), "example {i}");
        }
    }
    assert!(norms_after[2].is_nan());
    assert_eq!(norms_after[4], norms[4]);
    for (before, after) in sum.iter().zip(&sum_after) {
        close(after, before, 1e-12);
    }
    // Permuted examples have permuted rows.
    let order = [3i64, 0, 4, 1, 2];
    let (permuted, ..) = rows(&x.take(&Array::from(order), 0));
    for (permuted, after) in permuted.iter().zip(&after) {
        let expected = after.take(&Array::from(order), 0);
        for i in [0, 1, 3] {
            let same = |x: &Array| x.slice(s![i]).to_vec::<f64>();
            assert_eq!(same(&permuted.clone()), same(&expected));
        }
    }
}

// ----- what others get wrong

/// Rows against one ordinary walk for each loss.
fn like_a_loop_over_losses<T: Tree>(model: &T, losses: &Variable) {
    let variables: Vec<Variable> = {
        let mut list = Vec::new();
        model.visit(&mut bibun::Visitor::new(&mut |_, x, _| {
            list.push(x.clone())
        }));
        list
    };
    let inputs: Vec<&Variable> = variables.iter().collect();
    let n = losses.size();
    let each: Vec<Vec<Array>> = (0..n)
        .map(|i| {
            let loss = losses.slice(s![i as isize]);
            let found = gradients(&[&loss], &inputs).into_iter().zip(&inputs);
            let found = found.map(|(g, x)| match g {
                Some(g) => g.array(),
                None => Array::zeros(x.shape(), x.dtype()),
            });
            found.collect()
        })
        .collect();
    let expected: Vec<Array> = (0..inputs.len())
        .map(|p| bibun::array::stack(&each.iter().map(|row| &row[p]).collect::<Vec<_>>(), 0))
        .collect();
    agree(&per_example(losses, model), &expected, 1e-10);
}

fn sum_of_each(y: &Variable) -> Variable {
    let rest: Vec<isize> = (1..y.rank() as isize).collect();
    (y * y.sin()).sum(&rest[..])
}

#[test]
fn permuted_routed_and_repeated_examples() {
    let (w, v) = (weight(1, [4, 3]), weight(2, [4, 3]));
    let x = data(3, [5, 3]);
    let p = Variable::constant([4i64, 2, 0, 1, 3]);
    let both = (w.clone(), v.clone());
    // fc(h[p])[p]
    let h = linear(&x, &w, None);
    let y = take(&h, &p, 0) * linear(take(&x, &p, 0), &v, None);
    like_a_loop_over_losses(&both, &sum_of_each(&take(y, &p, 0)));
    // Two experts on parts of the batch, put together again in either way.
    let (first, second) = (
        Variable::constant([0i64, 3, 4]),
        Variable::constant([1i64, 2]),
    );
    let a = linear(take(&x, &first, 0), &w, None).tanh();
    let b = linear(take(&x, &second, 0), &v, None).sigmoid();
    let order = Variable::constant([0i64, 3, 4, 1, 2]);
    let joined = take(concat([&a, &b], 0), &order, 0);
    like_a_loop_over_losses(&both, &sum_of_each(&joined));
    let zeros = Variable::constant(Array::zeros([5, 4], DType::F64));
    let scattered = add_at(add_at(&zeros, &first, 0, &a), &second, 0, &b);
    like_a_loop_over_losses(&both, &sum_of_each(&scattered));
    // An example that is picked twice belongs to two losses.
    let twice = take(
        linear(&x, &w, None),
        Variable::constant([0i64, 0, 2, 2, 2]),
        0,
    );
    like_a_loop_over_losses(&w, &sum_of_each(&twice));
    // Slices, flips and rolls of the batch.
    let h = linear(&x, &w, None);
    like_a_loop_over_losses(&w, &sum_of_each(&h.slice(s![1..4])));
    like_a_loop_over_losses(&w, &sum_of_each(&h.slice(s![..; -2])));
    like_a_loop_over_losses(&w, &sum_of_each(&(flip(&h, 0) + roll(&h, 2, 0).tanh())));
    // A loss that leaves some out.
    let mask = Variable::constant([1.0, 0.0, 1.0, 0.0, 0.0]);
    like_a_loop_over_losses(&w, &(sum_of_each(&h) * mask));
}

#[test]
fn folded_axes_and_sequences() {
    let (w, b) = (weight(1, [4, 3]), weight(2, [4]));
    let x = data(3, [5, 6, 3]);
    let both = (w.clone(), b.clone());
    let folded = linear(x.reshape([30, 3]), &w, Some(&b))
        .tanh()
        .reshape([5, 6, 4]);
    like_a_loop_over_losses(&both, &sum_of_each(&folded));
    let behind = x.permute(&[1, 0, 2]).reshape([30, 3]);
    let folded = linear(behind, &w, Some(&b)).tanh().reshape([6, 5, 4]);
    like_a_loop_over_losses(&both, &sum_of_each(&folded.permute(&[1, 0, 2])));
    // Convolutions over folded frames.
    let (k, frames) = (weight(4, [2, 3, 2]), data(5, [4, 6, 3, 5]));
    let options = ConvOptions::<1>::default();
    let y = conv1d(frames.reshape([24, 3, 5]), &k, None, options).reshape([4, 6, 2, 4]);
    like_a_loop_over_losses(&k, &sum_of_each(&y));
    // A recurrent network: one weight at every step.
    let (wx, wh) = (weight(6, [4, 3]), weight(7, [4, 4]));
    let mut h = Variable::constant(Array::zeros([5, 4], DType::F64));
    for step in 0..6 {
        let x = x.slice(s![.., step]);
        h = (linear(x, &wx, None) + linear(&h, &wh, None)).tanh();
    }
    like_a_loop_over_losses(&(wx, wh), &sum_of_each(&h));
    // Attention, with the same projection for queries and keys.
    let (q, v) = (weight(8, [3, 3]), weight(9, [3, 3]));
    let (queries, values) = (x.matmul(&q), x.matmul(&v));
    let scores = softmax(queries.matmul(swapaxes(&queries, 1, 2)), -1);
    like_a_loop_over_losses(&(q, v), &sum_of_each(&scores.matmul(values)));
    let q = weight(8, [3, 2]);
    let y = einsum("ntd,de->nte", [&x, &q]);
    like_a_loop_over_losses(&q, &sum_of_each(&y));
}

#[test]
fn shared_bare_and_computed_parameters() {
    let x = data(3, [5, 6, 4]);
    let w = weight(1, [4, 4]);
    // The same weight three times, once transposed.
    let h = linear(&x, &w, None).tanh();
    let y = linear(linear(&h, &w, None), w.transpose(), None);
    like_a_loop_over_losses(&w, &sum_of_each(&y));
    // Positions, scales, gates, a class token.
    let (positions, scale, token) = (weight(2, [6, 4]), weight(3, [4]), weight(4, [4]));
    let tokens = token.reshape([1, 1, 4]).broadcast_to([5, 1, 4]);
    let y = concat([&tokens, &((&x + &positions) * &scale)], 1);
    like_a_loop_over_losses(&(positions, scale, token), &sum_of_each(&y));
    // Positions looked up by ids that have no axis of examples of their own.
    let table = weight(5, [8, 4]);
    let ids = Variable::constant([[0i64, 1, 2, 3, 2, 1]]);
    let y = &x + take(&table, ids, 0);
    like_a_loop_over_losses(&table, &sum_of_each(&y));
    // Weight normalisation, standardisation, a mask, a low-rank correction, a spectral norm.
    let (direction, length) = (weight(6, [4, 4]), weight(7, [4, 1]));
    let keep = bibun::array::keep_dims;
    let w = &length * &direction / direction.norm(keep(1));
    let y = linear(&x, &w, None);
    like_a_loop_over_losses(&(direction, length), &sum_of_each(&y));
    let w = weight(8, [4, 4]);
    let standard = (&w - w.mean(keep(1))) / w.std(keep(1), 0);
    like_a_loop_over_losses(&w, &sum_of_each(&linear(&x, standard, None)));
    let (a, b) = (weight(9, [4, 2]), weight(10, [2, 4]));
    let y = linear(&x, &w + a.matmul(&b), None);
    like_a_loop_over_losses(&(a, b), &sum_of_each(&y));
    let u = data(11, [4]);
    let spectral = &w / u.matmul(&w).norm(..);
    like_a_loop_over_losses(&w, &sum_of_each(&linear(&x, spectral, None)));
    // A table that is the output layer as well.
    let table = weight(12, [7, 4]);
    let ids = Variable::constant(Generator::new(1).integers(0, 7, [5, 3]));
    let scores = linear(take(&table, ids, 0).mean(1), &table, None);
    like_a_loop_over_losses(&table, &sum_of_each(&scores));
    // One row for each example: a diagonal.
    let own = weight(13, [5, 4]);
    like_a_loop_over_losses(&own, &sum_of_each(&(own.tanh() * x.sum(1))));
    like_a_loop_over_losses(
        &own,
        &sum_of_each(&(&own * 2.0 + &own * own.sum(0).detach())),
    );
}

#[test]
fn kernels_that_libraries_count_wrong() {
    // Groups: norms from the patches of all groups at once are several times too large.
    let g = &mut Generator::new(5);
    let conv = Conv2d::builder(8, 8, 3)
        .groups(4)
        .padding(1)
        .dtype(DType::F64)
        .build(g);
    let x = data(1, [3, 8, 5, 5]);
    let losses = sum_of_each(&conv.forward(&x));
    like_a_loop_over_losses(&conv.weight, &losses);
    // Few positions: norms by the products of patches, of both directions, also in several chunks.
    let conv = Conv2d::builder(16, 16, [3, 2])
        .padding(1)
        .stride([2, 1])
        .dtype(DType::F64)
        .build(g);
    let x = data(1, [3, 16, 3, 2]);
    like_a_loop_over_losses(&conv.weight, &sum_of_each(&conv.forward(&x)));
    let twice = concat([&x, &x.tanh()], 0);
    let folded = conv.forward(&twice).reshape([2, 3, 16, 2, 3]);
    like_a_loop_over_losses(&conv.weight, &sum_of_each(&folded));
    let back = ConvTranspose2d::builder(16, 16, 3)
        .dtype(DType::F64)
        .build(g);
    let x = data(1, [3, 16, 1, 2]);
    like_a_loop_over_losses(&back.weight, &sum_of_each(&back.forward(&x)));
    let conv = Conv2d::builder(64, 96, 3)
        .padding(1)
        .dtype(DType::F64)
        .build(g);
    let x = data(1, [5, 64, 4, 4]);
    like_a_loop_over_losses(&conv.weight, &sum_of_each(&conv.forward(&x)));
    let conv = Conv2d::builder(8, 8, 3)
        .groups(4)
        .padding(1)
        .dtype(DType::F64)
        .build(g);
    let x = data(1, [3, 8, 5, 5]);
    let losses = sum_of_each(&conv.forward(&x));
    // Clipping divides large gradients and leaves small ones.
    let norms = Variable::constant([0.5, 1.0, 4.0]);
    assert_eq!(clip_factors(&norms, 1.0).to_vec::<f64>(), [1.0, 1.0, 0.25]);
    let gradients = per_example(&losses, &conv);
    let norms = gradients.norms();
    let half = norms.mean(..).item::<f64>();
    let clipped = leaves(&gradients.clipped_sum(half));
    let c = clip_factors(&norms, half);
    for (clipped, rows) in clipped.iter().zip(leaves(&gradients.rows())) {
        let mut along = vec![1; rows.rank()];
        along[0] = 3;
        close(clipped, &(&rows * &c.array().reshape(along)).sum(0), 1e-10);
    }
    // Tiny gradients have tiny norms, not less than none.
    let (w, x) = (weight(1, [30, 40]), data(2, [3, 5, 40]));
    let losses = (linear(&x, &w, None) * 1e-9).sum([1, 2]);
    let norms = per_example(&losses, &w).norms().to_vec::<f64>();
    let row = per_example(&losses, &w).rows().reshape([3, 1200]).norm(1);
    for (norm, row) in norms.iter().zip(row.to_vec::<f64>()) {
        assert!((norm - row).abs() <= 1e-7 * row, "{norm} {row}");
    }
}

// ----- losses, scalars, nothing

#[test]
fn sums_and_means_are_undone() {
    let w = weight(1, [3]);
    let x = data(2, [4, 3]);
    let losses = || x.matmul(&w).square();
    let rows = |losses: Variable| per_example(&losses, &w).rows().to_vec::<f64>();
    let expected = rows(losses());
    assert_eq!(rows(losses().sum(..)), expected);
    assert_eq!(rows(losses().mean(..)), expected);
    assert_eq!(rows(losses().sum(0)), expected);
    assert_eq!(rows(losses().sum(..) / 4.0), expected);
    let (scores, t) = (
        x.matmul(weight(3, [3, 5])),
        Variable::constant([0i64, 1, 2, 3]),
    );
    let v = weight(3, [3, 5]);
    let of = |losses: Variable| per_example(&losses, &v).rows().to_vec::<f64>();
    let scores = || x.matmul(&v) + scores.detach() * 0.0;
    assert_eq!(
        of(softmax_cross_entropy(scores(), &t)),
        of(each(scores(), &t))
    );
    // A mean over the examples that are not ignored is not the mean over all.
    let t = Variable::constant([0i64, 1, -1, 3]);
    let error = attempt(|| per_example(&softmax_cross_entropy(scores(), &t), &v)).unwrap_err();
    assert!(error.to_string().contains("the vector [n]"), "{error}");
    for wrong in [
        losses().sum(..) * 2.0,
        losses().sum(..) / 5.0,
        x.matmul(&w).square().sum(..).exp(),
    ] {
        let error = attempt(|| per_example(&wrong, &w)).unwrap_err();
        assert!(error.to_string().contains("the sum or mean"), "{error}");
    }
    let matrix = &x * &w;
    let error = attempt(|| per_example(&matrix, &w)).unwrap_err();
    let (here, location) = ((file!(), line!() - 1), error.location());
    assert_eq!((location.file(), location.line()), here, "{error}");
    assert!(
        error.to_string().contains("losses is [4, 3] f64"),
        "{error}"
    );
    let error = attempt(|| per_example(&x.sum(1), &w))
        .unwrap_err()
        .to_string();
    assert!(error.contains("no history leads to it"), "{error}");
    let whole = Variable::constant(1i64);
    let error = attempt(|| per_example(&losses(), &whole)).unwrap_err();
    assert!(error.to_string().contains("i64"), "{error}");
}

#[test]
fn unused_parameters_and_empty_batches() {
    let (w, unused) = (weight(1, [3]), weight(2, [2, 2]));
    let both = (w.clone(), unused);
    let losses = data(2, [4, 3]).matmul(&w);
    let gradients = per_example(&losses, &both);
    assert_eq!(gradients.rows().1.shape(), [4, 2, 2]);
    assert_eq!(gradients.layer_norms().1.to_vec::<f64>(), [0.0; 4]);
    assert_eq!(gradients.bytes(), 4 * (3 + 4) * 8);
    let frozen = Variable::constant([1.0, 2.0]);
    assert_eq!(
        per_example(&losses, &frozen).rows().to_vec::<f64>(),
        [0.0; 8]
    );
    let model = Network::new(DType::F64);
    let losses = model.forward(&data(1, [0, 2, 12, 12])).square().sum(1);
    let gradients = per_example(&losses, &model);
    assert_eq!(gradients.rows().first.weight.shape(), [0, 4, 2, 3, 3]);
    assert_eq!(gradients.norms().shape(), [0]);
    assert_eq!(gradients.gram().shape(), [0, 0]);
    for sum in leaves(&gradients.clipped_sum(1.0))
        .iter()
        .chain(&leaves(&gradients.second_moment()))
    {
        assert!(sum.to_vec::<f64>().iter().all(|&x| x == 0.0));
    }
}

// ----- what is refused

/// The message of the refusal, which names this file.
fn refusal(f: impl FnOnce() -> Variable, w: &Variable) -> String {
    let losses = f();
    let error = attempt(|| per_example(&losses, w)).expect_err("a refusal");
    assert!(matches!(error, Error::MixesExamples { .. }), "{error}");
    let message = error.to_string();
    let location = error.location();
    assert_eq!(location.file(), file!(), "{message}");
    message
}

#[test]
fn mixed_examples_are_refused_with_the_function() {
    let w = weight(1, [4, 3]);
    let x = data(2, [5, 3]);
    let h = || linear(&x, &w, None);
    let keep = bibun::array::keep_dims;
    let named = |message: String, function: &str| {
        assert!(
            message.starts_with(&format!("{function}: examples are mixed")),
            "{message}"
        );
    };
    named(refusal(|| sum_of_each(&(h() - h().mean(0))), &w), "linear");
    named(
        refusal(
            || {
                let h = h();
                sum_of_each(&(&h - h.mean(0)))
            },
            &w,
        ),
        "sum",
    );
    named(refusal(|| sum_of_each(&softmax(h(), 0)), &w), "softmax");
    named(
        refusal(|| sum_of_each(&log_softmax(h(), 0)), &w),
        "log_softmax",
    );
    named(refusal(|| sum_of_each(&cumsum(h(), 0)), &w), "cumsum");
    named(
        refusal(
            || {
                let h = h();
                sum_of_each(&(&h / h.max(keep(0))))
            },
            &w,
        ),
        "max",
    );
    let norm = BatchNorm::builder(4).dtype(DType::F64).build();
    let message = refusal(
        || bibun::train_mode(|| sum_of_each(&norm.forward(&h()))),
        &w,
    );
    assert!(message.contains("batch_normalization"), "{message}");
    // Contrast of all with all.
    named(
        refusal(
            || {
                let h = h();
                each(
                    h.matmul(h.transpose()),
                    &Variable::constant([0i64, 1, 2, 3, 4]),
                )
            },
            &w,
        ),
        "permute",
    );
    // Detached statistics are constants.
    let h = h();
    like_a_loop_over_losses(&w, &sum_of_each(&(&h - h.mean(0).detach())));
}

// ----- rules, custom functions, checkpoints, higher derivatives

#[test]
fn rules_of_a_users_own() {
    let w = weight(1, [4, 3]);
    let x = data(2, [5, 3]);
    // A function with a gradient of its own is right without a rule.
    let own = |h: &Variable| custom_gradient(|[h]| h * 2.0, |_, _, gy| [gy * 20.0]).call([h]);
    let losses = sum_of_each(&own(&linear(&x, &w, None)));
    like_a_loop_over_losses(&w, &losses);
    // A replaced gradient is the one that is used.
    let rules = Rules::new().vjp("tanh", |_, gy| vec![Some(&gy[0] * 3.0)]);
    let losses = rules.scope(|| sum_of_each(&linear(&x, &w, None).tanh()));
    like_a_loop_over_losses(&w, &losses);
    // A rule that says what it likes.
    let rules = Rules::new().per_example("linear", |cx, gy| {
        let rows = Array::ones(
            cx.input_shape(1).inserted(0, gy[0].examples.count()),
            DType::F64,
        );
        vec![
            None,
            Some(bibun::ExampleGradient::Stacked(Variable::constant(rows))),
        ]
    });
    let losses = rules.scope(|| sum_of_each(&linear(&x, &w, None)));
    assert_eq!(per_example(&losses, &w).rows().to_vec::<f64>(), [1.0; 60]);
    assert!(rules.unused().is_empty());
    // A rule that gives a wrong shape is told.
    let rules = Rules::new().per_example("linear", |_, gy| {
        vec![
            None,
            Some(bibun::ExampleGradient::Stacked(gy[0].cotangent.clone())),
        ]
    });
    let losses = rules.scope(|| sum_of_each(&linear(&x, &w, None)));
    let error = attempt(|| per_example(&losses, &w))
        .unwrap_err()
        .to_string();
    assert!(error.contains("per_example rule gave [5, 4]"), "{error}");
}

#[test]
fn through_checkpoints_and_under_transformations() {
    let (w, v) = (weight(1, [4, 3]), weight(2, [4, 4]));
    let x = data(3, [5, 3]);
    let both = (w.clone(), v.clone());
    let h = checkpoint(
        |(x, w): &(Variable, Variable)| linear(x, w, None).tanh(),
        &(x.clone(), w.clone()),
    );
    let losses = sum_of_each(&linear(h, &v, None));
    like_a_loop_over_losses(&both, &losses);
    // vmap(grad) gives the same.
    let single = |x: &Variable| {
        grad(
            |(w, v): &(Variable, Variable)| {
                let y = linear(linear(x, w, None).tanh(), v, None);
                (&y * y.sin()).sum(..)
            },
            &both,
        )
    };
    let rows = per_example(&losses, &both).rows();
    let others = vmap(single, &x);
    close(&rows.0.array(), &others.0.array(), 1e-12);
    close(&rows.1.array(), &others.1.array(), 1e-12);
    // Gradients of norms: differentiated again.
    let total = |w: &Variable| {
        let losses = sum_of_each(&linear(&x, w, None));
        per_example_with(&losses, w, GradOptions::new().create_graph())
            .norms()
            .sum(..)
    };
    let found = grad(|w: &Variable| total(w), &w);
    let step = 1e-6;
    let direction = data(7, [4, 3]);
    let ahead = total(&Variable::new((&w + &direction * step).array())).item::<f64>();
    let behind = total(&Variable::new((&w - &direction * step).array())).item::<f64>();
    let slope = (&found * &direction).sum(..).item::<f64>();
    assert!(((ahead - behind) / (2.0 * step) - slope).abs() < 1e-6 * slope.abs().max(1.0));
}

#[test]
fn sparse_rows_are_the_dense_ones() {
    let table = weight(1, [6, 3]);
    let ids = Variable::constant([[1i64, 1, 5], [0, 2, 1]]);
    let losses = sum_of_each(&take(&table, &ids, 0));
    let gradients = per_example(&losses, &table);
    let sparse = gradients.sparse_rows();
    let Rows::Sparse { indices, values } = &sparse[0].1 else {
        panic!("sparse rows")
    };
    assert_eq!(
        (indices.shape(), values.shape()),
        ([2, 3].into(), [2, 3, 3].into())
    );
    let dense = gradients.rows().array();
    for i in 0..2isize {
        let sum = Array::zeros([6, 3], DType::F64);
        let sum = sum.add_at(
            &indices.array().slice(s![i]),
            0,
            &values.array().slice(s![i]),
        );
        close(&sum, &dense.slice(s![i]), 1e-12);
    }
}
