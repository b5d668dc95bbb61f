//! Models that are spread over processes, statistics of a batch over all, and private training.

use bibun::array::{Array, DType, Generator};
use bibun::functions::{all_reduce, receive, relu, send};
use bibun::links::{BatchNorm, Chain, Link};
use bibun::optimizers::{Optimizer, Sgd};
use bibun::parallel::{Communicator, DataParallel, local};
use bibun::{Spec, Variable, clip_factors, grad, per_example};

fn normal(seed: u64, shape: &[usize]) -> Array {
    Generator::new(seed).normal(shape, 0.0, 1.0, DType::F64)
}

fn close(a: &Array, b: &Array) -> bool {
    a.shape() == b.shape() && (a - b).abs().max(..).item::<f64>() < 1e-12
}

#[test]
fn a_tensor_parallel_perceptron_is_that_of_one_process() {
    let (w1, w2) = (normal(1, &[3, 12]), normal(2, &[12, 2]));
    let x = Variable::constant(normal(3, &[5, 3]));
    let whole = [&w1, &w2].map(Variable::new);
    let y = relu(x.matmul(&whole[0])).matmul(&whole[1]);
    y.square().sum(..).backward();
    for count in 1..=4 {
        local::run(count, |world| {
            // Each process has some of the hidden units.
            let own = world.share(12);
            let w1 = Variable::new(w1.slice(&[(..).into(), own.clone().into()]));
            let w2 = Variable::new(w2.slice(&[own.clone().into()]));
            let parts = all_reduce(relu(x.matmul(&w1)).matmul(&w2), &world);
            assert!(close(&parts.array(), &y.array()));
            // Every process computes the whole loss, so it counts as many times.
            (parts.square().sum(..) / world.size() as f64).backward();
            let gradients = whole.each_ref().map(|w| w.grad().unwrap().array());
            let columns = gradients[0].slice(&[(..).into(), own.clone().into()]);
            assert!(close(&w1.grad().unwrap().array(), &columns));
            assert!(close(
                &w2.grad().unwrap().array(),
                &gradients[1].slice(&[own.into()])
            ));
        });
    }
}

#[test]
fn a_pipeline_of_two_stages_is_the_model_of_one_process() {
    let (w1, w2) = (normal(1, &[3, 4]), normal(2, &[4, 2]));
    let x = normal(3, &[6, 3]);
    let whole = [&w1, &w2].map(Variable::new);
    let y = relu(Variable::constant(&x).matmul(&whole[0])).matmul(&whole[1]);
    let loss = y.square().sum(..);
    loss.backward();
    let gradients = whole.each_ref().map(|w| w.grad().unwrap().array());
    local::run(2, |world| {
        let w = Variable::new([&w1, &w2][world.rank()]);
        // Three small batches are on their way at the same time.
        let part = |i: usize| Variable::constant(x.slice(&[(2 * i..2 * i + 2).into()]));
        let stage = |i: usize| match world.rank() {
            0 => send(relu(part(i).matmul(&w)), 1, &world),
            _ => {
                let h = receive(&w, Spec::new([2, 4], DType::F64), 0, &world);
                h.matmul(&w).square().sum(..)
            }
        };
        let losses = [0, 1, 2].map(stage);
        losses.iter().for_each(Variable::backward);
        assert!(close(&w.grad().unwrap().array(), &gradients[world.rank()]));
        let own: f64 = losses.iter().map(|loss| loss.item::<f64>()).sum();
        let all = world.all_reduce(&Array::from(own)).item::<f64>();
        assert!((all - loss.item::<f64>()).abs() < 1e-10);
        // By `grad`, where the token leads to what the gradient is taken of.
        let again = grad(
            |w| match world.rank() {
                0 => send(relu(part(0).matmul(w)), 1, &world),
                _ => receive(w, Spec::new([2, 4], DType::F64), 0, &world)
                    .matmul(w)
                    .square()
                    .sum(..),
            },
            &w,
        );
        let alone = [0, 1].map(|i| Variable::new([&w1, &w2][i]));
        let first = relu(part(0).matmul(&alone[0]))
            .matmul(&alone[1])
            .square()
            .sum(..);
        first.backward();
        assert!(close(
            &again.array(),
            &alone[world.rank()].grad().unwrap().array()
        ));
    });
}

/// A layer with batch normalisation; returns the results, the gradients and the running statistics.
fn normalised(count: usize, examples: usize) -> Vec<Array> {
    let x = normal(1, &[examples, 3]);
    let weight = normal(2, &[examples, 3]);
    let mut parts = local::run(count, |world| {
        let own = [world.share(examples).into()];
        let layer = BatchNorm::builder(3).dtype(DType::F64).build();
        let layer = if count == 1 {
            layer
        } else {
            layer.over(&world)
        };
        let mut optimizer = DataParallel::new(Sgd::new(0.1), &world);
        let x = Variable::new(x.slice(&own));
        let mut y = None;
        for _ in 0..2 {
            optimizer.minimize(&layer, &mut || {
                let result = layer.forward(&x);
                y = Some(result.array());
                // The mean over processes is that over examples.
                (result * Variable::constant(weight.slice(&own)))
                    .square()
                    .sum(..)
                    * world.size() as f64
            });
        }
        let mut all = vec![world.all_gather_uneven(&y.unwrap())];
        all.extend(
            layer
                .parameters()
                .into_iter()
                .map(|(_, parameter)| parameter.array()),
        );
        all.extend(
            layer
                .buffers()
                .into_iter()
                .map(|(_, buffer)| buffer.array()),
        );
        all
    });
    parts.swap_remove(0)
}

trait Uneven {
    fn all_gather_uneven(&self, x: &Array) -> Array;
}

impl Uneven for Communicator {
    /// Puts the rows of all processes together.
    fn all_gather_uneven(&self, x: &Array) -> Array {
        let bytes: Vec<u8> = x
            .to_vec::<f64>()
            .into_iter()
            .flat_map(f64::to_le_bytes)
            .collect();
        let all = self.gather_bytes(&bytes).concat();
        let all: Vec<f64> = all
            .as_chunks::<8>()
            .0
            .iter()
            .map(|&x| f64::from_le_bytes(x))
            .collect();
        let rows = all.len() / x.shape()[1];
        Array::from_vec(all, [rows, x.shape()[1]])
    }
}

#[test]
fn batch_normalisation_over_all_processes_is_that_of_the_whole_batch() {
    for examples in [8, 9] {
        let expected = normalised(1, examples);
        for count in 2..=4 {
            for (found, expected) in normalised(count, examples).iter().zip(&expected) {
                let error = (found - expected).abs().max(..).item::<f64>();
                assert!(error < 1e-9, "{count}: {error}");
            }
        }
    }
}

#[test]
fn private_gradients_have_the_noise_once() {
    let (x, t) = (normal(1, &[12, 3]), normal(2, &[12]));
    let w = normal(3, &[3]);
    let run = |count: usize| {
        local::run(count, |world| {
            let own = [world.share(12).into()];
            let w = Variable::new(&w);
            let [x, t] = [&x, &t].map(|all| Variable::constant(all.slice(&own)));
            let losses = (x.matmul(&w) - t).square();
            let rows = per_example(&losses, &w);
            let sum = rows.weighted_sum(&clip_factors(&rows.norms(), 0.5));
            // All draw the same noise, which is added to the sum of all.
            let noise = Generator::new(9).normal([3], 0.0, 0.7, DType::F64);
            let private = world.all_reduce(&sum.array()) + noise;
            let norms = world.all_gather(&Array::from([rows.norms().max(..).item::<f64>()]));
            (private.to_vec::<f64>(), norms.max(..).item::<f64>())
        })
    };
    let expected = run(1).remove(0);
    for count in [2, 3, 4] {
        let all = run(count);
        for found in &all {
            assert_eq!(found, &all[0]);
            let pairs = found.0.iter().zip(&expected.0);
            assert!(
                pairs.clone().all(|(a, b)| (a - b).abs() < 1e-12),
                "{found:?} {expected:?}"
            );
            assert!((found.1 - expected.1).abs() < 1e-12);
        }
    }
}
