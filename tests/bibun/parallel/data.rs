//! Data that is divided among processes.

use bibun::array::DType;
use bibun::datasets::{DataLoader, Dataset};
use bibun::parallel::local;
use bibun::serializers::Stateful;

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
