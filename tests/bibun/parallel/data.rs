//! Data that is divided among processes.

use std::sync::Arc;

use bibun::array::{Array, DType, Generator};
use bibun::datasets::{DataLoader, Dataset};
use bibun::functions::{
    alpha_dropout, dropout, feature_dropout, gumbel_softmax, random_bernoulli, random_normal,
    random_uniform,
};
use bibun::links::{Dropout, Link};
use bibun::parallel::local;
use bibun::serializers::Stateful;
use bibun::{
    BatchPart, Scopes, Variable, VmapOptions, attempt, checkpoint, compile, train_mode, vmap,
    vmap_with,
};

/// The batches of two epochs, as each process sees them: examples and weights.
fn batches(count: usize, examples: i64, size: usize, threads: usize) -> Vec<Vec<(Vec<i64>, f64)>> {
    local::run(count, |world| {
        let data: Vec<i64> = (0..examples).collect();
        let loader = DataLoader::new(data, size).shuffle(3).shard(&world);
        let mut loader = loader.prefetch(2 * threads, threads);
        let steps = 2 * loader.batches_per_epoch();
        let next = |_| (loader.next_batch().unwrap().to_vec::<i64>(), loader.share());
        (0..steps).map(next).collect()
    })
}

#[test]
fn parts_are_those_of_the_whole_batch_without_overlap() {
    let whole = &batches(1, 23, 8, 0)[0];
    for (count, threads) in [(2, 0), (3, 2), (4, 1), (9, 0)] {
        let parts = batches(count, 23, 8, threads);
        for (step, (expected, weight)) in whole.iter().enumerate() {
            assert_eq!(*weight, 1.0);
            let own = parts
                .iter()
                .map(|part| &part[step])
                .filter(|(_, share)| *share > 0.0);
            let together: Vec<i64> = own.flat_map(|(examples, _)| examples.clone()).collect();
            assert_eq!(together, *expected, "{count} processes, step {step}");
            // Weights are shares of the mean.
            let weights: f64 = parts.iter().map(|part| part[step].1).sum();
            assert!((weights - count as f64).abs() < 1e-12);
        }
    }
}

#[test]
fn the_position_is_that_of_all() {
    let states = local::run(2, |world| {
        let mut loader = DataLoader::new((0..10i64).collect::<Vec<_>>(), 4)
            .shuffle(1)
            .shard(&world);
        loader.next_batch().unwrap();
        loader.state()
    });
    assert_eq!(states[0].checksum(), states[1].checksum());
    let mut alone = DataLoader::new((0..10i64).collect::<Vec<_>>(), 4).shuffle(1);
    alone.load_state(&states[0]).unwrap();
    let next = alone.next_batch().unwrap().to_vec::<i64>();
    assert_eq!(next, batches_after_one(4));
    // The rest of the epoch with another number of processes.
    let parts = local::run(3, |world| {
        let data: Vec<i64> = (0..10).collect();
        let mut loader = DataLoader::new(data, 4).shuffle(1).shard(&world);
        loader.load_state(&states[0]).unwrap();
        loader.next_batch().unwrap().to_vec::<i64>()
    });
    assert_eq!(parts.concat(), next);
}

fn batches_after_one(size: usize) -> Vec<i64> {
    let mut loader = DataLoader::new((0..10i64).collect::<Vec<_>>(), size).shuffle(1);
    loader.next_batch().unwrap();
    loader.next_batch().unwrap().to_vec::<i64>()
}

#[test]
fn a_pass_for_evaluation_is_divided_too() {
    for (count, examples) in [(2, 9), (3, 10), (4, 2)] {
        let parts = local::run(count, |world| {
            let loader = DataLoader::new((0..examples).collect::<Vec<i64>>(), 4).shard(&world);
            let batches = loader.once().map(|batch| batch.unwrap().to_vec::<i64>());
            batches.collect::<Vec<_>>().concat()
        });
        let mut all = parts.concat();
        all.sort_unstable();
        assert_eq!(
            all,
            (0..examples).collect::<Vec<i64>>(),
            "{count} {examples}"
        );
    }
}

/// The augmentation of an example is its own, whoever has it.
#[test]
fn randomness_belongs_to_examples() {
    let noisy = || {
        let data: Vec<f64> = (0..12).map(f64::from).collect();
        data.map(|x, random| Ok(x + random.uniform((), 0.0, 1.0, DType::F64).item::<f64>()))
    };
    let epoch = |count: usize| {
        let parts = local::run(count, |world| {
            let mut loader = DataLoader::new(noisy(), 12).shuffle(5).shard(&world);
            loader.next_batch().unwrap().to_vec::<f64>()
        });
        parts.concat()
    };
    assert_eq!(epoch(1), epoch(3));
}

/// What is drawn for the examples of a batch, by one draw after the other, with the examples along this axis.
fn drawn(x: &Variable) -> Vec<(Variable, usize)> {
    let random = &mut Generator::new(4);
    let count = x.shape()[0];
    let link = Dropout::new(0.4, random);
    link.forward(x);
    let turned = x.swapaxes(0, 1);
    let mut draws = vec![
        (dropout(x, 0.5, random), 0),
        (link.forward(x), 0),
        (dropout(&turned, 0.5, random), 1),
        (dropout(x.reshape([count, 1, 7]), 0.3, random), 0),
        (feature_dropout(x.reshape([count, 7, 1]), 0.3, random), 0),
        (alpha_dropout(x, 0.3, random), 0),
        (gumbel_softmax(x, 1.0, false, -1, random), 0),
        (random_normal([count], 0.0, 1.0, DType::F64, random), 0),
        (
            random_normal([9, 8, count, 5], 0.0, 1.0, DType::F32, random),
            2,
        ),
        (random_uniform([count, 3], -1.0, 1.0, DType::F64, random), 0),
        (random_bernoulli([count], 0.5, random).cast(DType::F64), 0),
        (vmap(|x| dropout(x, 0.5, random), x), 0),
    ];
    let options = VmapOptions::new().chunk_size(1);
    draws.push((vmap_with(|x| dropout(x, 0.5, random), x, &options), 0));
    // An ensemble, each of which sees the batch.
    let members = Variable::constant(vec![1.0; 12]);
    let of_all = vmap(|m| dropout(x, 0.5, random) * m, &members);
    draws.push((of_all, 1));
    // In parts that run again.
    let again = checkpoint(|x: &Variable| dropout(x, 0.5, &mut Generator::new(9)), x);
    draws.push((again, 0));
    draws
}

#[test]
fn examples_draw_what_they_draw_in_the_whole_batch() {
    let batch = 11;
    let all = Generator::new(2).uniform([batch, 7], 1.0, 2.0, DType::F64);
    let whole = drawn(&Variable::constant(&all));
    for count in 1..=4 {
        let parts = local::run(count, |world| {
            let own = world.share(batch);
            let x = Variable::constant(all.slice(&[own.clone().into()]));
            let draws = BatchPart::new(own, batch).run(|| drawn(&x));
            draws
                .into_iter()
                .map(|(y, _)| y.array())
                .collect::<Vec<_>>()
        });
        for (i, (expected, axis)) in whole.iter().enumerate() {
            let of_all: Vec<&Array> = parts.iter().map(|draws| &draws[i]).collect();
            let together = bibun::array::concat(&of_all, *axis as isize);
            let expected = expected.array().to_row_major();
            assert!(together.has_same_bits(&expected), "draw {i} of {count}");
        }
    }
}

#[test]
fn a_part_of_a_batch_is_a_scope() {
    let x = Variable::constant(Array::ones([2, 64], DType::F64));
    let draw = |x: &Variable| dropout(x, 0.5, &mut Generator::new(1)).to_vec::<f64>();
    let (first, last) = (BatchPart::new(0..2, 4), BatchPart::new(2..4, 4));
    assert_eq!(first.run(|| draw(&x)), draw(&x));
    let of_last = last.run(|| draw(&x));
    assert_ne!(of_last, draw(&x));
    // Other threads see it by the scopes, and it ends with a panic.
    let scopes = last.run(Scopes::current);
    let elsewhere = std::thread::scope(|threads| {
        let run = || scopes.run(|| draw(&x));
        threads.spawn(run).join().unwrap()
    });
    assert_eq!(elsewhere, of_last);
    attempt(|| last.run(|| x.reshape([3]))).unwrap_err();
    assert_eq!(draw(&x), first.run(|| draw(&x)));
    // A program belongs to a part.
    type Dropped = (Arc<Dropout>, Variable);
    let program = compile(|(dropout, x): &Dropped| dropout.forward(x));
    let link = || Arc::new(Dropout::new(0.5, &mut Generator::new(1)));
    for part in [first, last, first] {
        let ran = part.run(|| train_mode(|| program.call(&(link(), x.clone()))));
        let expected = part.run(|| train_mode(|| link().forward(&x)));
        assert_eq!(ran.to_vec::<f64>(), expected.to_vec::<f64>());
    }
    // Noise on weights is that of all.
    let noise = |part: BatchPart| {
        let random = &mut Generator::new(1);
        let noise = part.run(|| random_normal([5, 3], 0.0, 1.0, DType::F64, random));
        noise.to_vec::<f64>()
    };
    assert_eq!(noise(first), noise(last));
    let error = attempt(|| BatchPart::new(3..5, 4)).unwrap_err().to_string();
    assert!(
        error.contains("a batch of 4 examples has no examples 3..5"),
        "{error}"
    );
}

#[test]
fn other_data_on_a_process_is_named() {
    let errors = |make: &(dyn Fn(usize) -> DataLoader<Vec<i64>> + Sync)| {
        let results = local::try_run(3, |world| {
            let mut loader = make(world.rank()).shard(&world);
            loader
                .next_batch()
                .map(drop)
                .map_err(|error| error.to_string())
        });
        let errors = results
            .into_iter()
            .map(|result| result.unwrap_err().to_string());
        errors.collect::<Vec<_>>().join("\n")
    };
    let numbers = |count: usize| (0..count as i64).collect::<Vec<_>>();
    let found = errors(&|rank| DataLoader::new(numbers(20 - rank / 2), 4));
    let expected = "the number of examples is 20 on process 0 and 19 on process 2";
    assert!(found.contains(expected), "{found}");
    assert!(found.contains("data.rs"), "{found}");
    let found = errors(&|rank| DataLoader::new(numbers(20), 4 + rank));
    assert!(
        found.contains("the batch size is 4 on process 0 and 5 on process 1"),
        "{found}"
    );
    let found = errors(&|rank| DataLoader::new(numbers(20), 4).shuffle(rank as u64));
    assert!(
        found.contains("the seed is 0 on process 0 and 1 on process 1"),
        "{found}"
    );
}
