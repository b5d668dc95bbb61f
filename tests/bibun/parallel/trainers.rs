//! A trainer over several processes.

use std::fs;
use std::path::Path;

use bibun::array::{Array, Generator};
use bibun::datasets::{DataLoader, Digits};
use bibun::functions::{accuracy, dropout, softmax_cross_entropy};
use bibun::links::{Chain, Link, Mlp};
use bibun::optimizers::{Adam, Optimizer, Sgd};
use bibun::parallel::{Communicator, DataParallel, local};
use bibun::training::{
    EarlyStopping, Evaluator, Goal, Log, Outcome, PrintReport, Snapshots, Step, Trainer,
    TrainingError, Trigger, Until,
};
use bibun::{Variable, attempt};

use crate::training::points::Folder;

type Batch = (Array, Array);

fn loss(model: &Mlp, (x, t): &Batch, step: &mut Step<'_>) -> Variable {
    let y = model.forward(&Variable::constant(x));
    step.report("accuracy", accuracy(&y, t));
    softmax_cross_entropy(y, t)
}

fn trainer(
    world: &Communicator,
    folder: &Path,
    until: u64,
    is_sharded: bool,
) -> Trainer<Mlp, DataLoader<impl bibun::datasets::Dataset<Example = (Array, i64)> + use<>>> {
    let digits = Digits::new(0);
    let train = DataLoader::new(digits.images(0..70), 16)
        .shuffle(3)
        .shard(world);
    let test = DataLoader::new(digits.images(70..95), 10).shard(world);
    let model = Mlp::new(&[784, 16, 10], &mut Generator::new(0));
    let adam = DataParallel::new(Adam::new(0.01), world).check_every(1);
    let optimizer: Box<dyn Optimizer> = match is_sharded {
        true => Box::new(adam.sharded()),
        false => Box::new(adam),
    };
    Trainer::new(model, train, optimizer, loss)
        .until(Until::Iterations(until))
        .folder(folder)
        .log_every(Trigger::Iterations(3))
        .snapshots(Snapshots::every(Trigger::Iterations(4)))
        .extend(Evaluator::new("test", test, loss).every(Trigger::Iterations(3)))
        .extend(PrintReport::new(["epoch", "loss"]))
        .parallel(world)
}

fn values(model: &Mlp) -> Vec<f32> {
    let parameters = model.parameters().into_iter();
    parameters
        .flat_map(|(_, parameter)| parameter.to_vec::<f32>())
        .collect()
}

fn numbers(log: &Log) -> Vec<Vec<(String, f64)>> {
    let of_entry = |entry: &bibun::training::Entry| {
        let values = entry.iter().filter(|(name, _)| *name != "elapsed_time");
        values
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    };
    log.entries().iter().map(of_entry).collect()
}

#[test]
fn there_is_one_log_and_one_line_of_snapshots() {
    let mut of_one = Vec::new();
    for count in 1..=3 {
        let folder = Folder::new("parallel");
        let results = local::run(count, |world| {
            let mut trainer = trainer(&world, folder.path(), 12, false);
            assert_eq!(trainer.run().unwrap(), Outcome::Finished);
            // Five batches of 70 examples: 16, 16, 16, 16, 6.
            assert_eq!(trainer.clock().examples(), 70 + 70 + 32);
            (numbers(trainer.log()), values(trainer.model()))
        });
        for result in &results {
            assert_eq!(result.0, results[0].0, "the log is that of all");
            assert_eq!(result.1, results[0].1);
        }
        let written = Log::read(folder.path().join("log.jsonl")).unwrap();
        assert_eq!(numbers(&written), results[0].0);
        let snapshots = fs::read_dir(folder.path()).unwrap().filter(|entry| {
            let name = entry.as_ref().unwrap().file_name();
            name.to_string_lossy().starts_with("snapshot_")
        });
        assert_eq!(snapshots.count(), 2);
        if count == 1 {
            of_one = results[0].0.clone();
        }
        for (a, b) in results[0].0.iter().flatten().zip(of_one.iter().flatten()) {
            assert_eq!(a.0, b.0);
            assert!(
                (a.1 - b.1).abs() <= 2e-3 * (1.0 + b.1.abs()),
                "{count}: {a:?} {b:?}"
            );
        }
    }
}

#[test]
fn training_goes_on_with_the_same_or_another_number_of_processes() {
    for is_sharded in [false, true] {
        let whole = Folder::new("parallel");
        let uninterrupted = local::run(2, |world| {
            let mut trainer = trainer(&world, whole.path(), 12, is_sharded);
            trainer.run().unwrap();
            (numbers(trainer.log()), values(trainer.model()))
        });
        for count in [2, 3, 1] {
            let folder = Folder::new("parallel");
            local::run(2, |world| {
                trainer(&world, folder.path(), 7, is_sharded).run().unwrap();
            });
            let resumed = local::run(count, |world| {
                let mut trainer = trainer(&world, folder.path(), 12, is_sharded);
                let found = trainer.resume().unwrap();
                assert!(found.snapshot.is_some());
                assert_eq!(trainer.clock().iteration(), 7);
                trainer.run().unwrap();
                (numbers(trainer.log()), values(trainer.model()))
            });
            match count {
                2 => assert_eq!(resumed[0], uninterrupted[0], "the same bits"),
                _ => {
                    let pairs = resumed[0].1.iter().zip(&uninterrupted[0].1);
                    assert!(pairs.clone().all(|(a, b)| (a - b).abs() < 1e-3), "{count}");
                }
            }
        }
    }
}

#[test]
fn an_error_of_one_ends_all() {
    let outcomes = local::run(2, |world| {
        let data = DataLoader::new(vec![1.0, 2.0, 3.0, 4.0], 2).shard(&world);
        let rank = world.rank();
        let bad = move |w: &Variable, x: &Array, step: &mut Step<'_>| {
            let is_bad = rank == 1 && step.clock().iteration() == 1;
            let factor = if is_bad { f64::NAN } else { 1.0 };
            (w * factor - x).square().mean(..)
        };
        let optimizer = DataParallel::new(Adam::new(0.1), &world);
        let mut trainer = Trainer::new(Variable::new(0.0), data, optimizer, bad)
            .until(Until::Iterations(5))
            .parallel(&world);
        drop(world);
        let outcome = trainer.run();
        // The process ends with it.
        drop(trainer);
        outcome.unwrap_err()
    });
    assert!(
        matches!(outcomes[1], TrainingError::NotFinite { iteration: 2, .. }),
        "{outcomes:?}"
    );
    let TrainingError::Communication(error) = &outcomes[0] else {
        panic!("{outcomes:?}");
    };
    assert!(error.to_string().contains("process 1 has ended"), "{error}");
}

#[test]
fn a_stop_is_that_of_all() {
    let stopped = local::run(2, |world| {
        let data = DataLoader::new(vec![1.0; 8], 4).shard(&world);
        let loss = |w: &Variable, x: &Array, _: &mut Step<'_>| (w - x).square().mean(..);
        let optimizer = DataParallel::new(Adam::new(0.0), &world);
        let mut trainer = Trainer::new(Variable::new(0.0), data, optimizer, loss)
            .until(Until::Epochs(100.0))
            .extend(EarlyStopping::new("loss", Goal::Lowest).patience(2))
            .parallel(&world);
        let outcome = trainer.run().unwrap();
        (outcome, trainer.clock().iteration())
    });
    assert!(matches!(stopped[0].0, Outcome::Stopped(_)));
    assert_eq!(stopped[0], stopped[1]);
}

#[test]
fn only_the_first_has_a_folder() {
    let folder = Folder::new("parallel");
    local::run(2, |world| {
        let data = DataLoader::new(vec![1.0; 4], 4).shard(&world);
        let loss = |w: &Variable, x: &Array, _: &mut Step<'_>| (w - x).square().mean(..);
        let look = bibun::training::Callback::new("look", Trigger::Iterations(1), {
            let is_first = world.is_first();
            move |session: &mut bibun::training::Session<'_, Variable>| {
                assert_eq!(session.is_first(), is_first);
                assert_eq!(session.folder().is_ok(), is_first);
                Ok(())
            }
        });
        let mut trainer = Trainer::new(Variable::new(0.0), data, Adam::new(0.1), loss)
            .folder(folder.path())
            .extend(look)
            .parallel(&world);
        attempt(|| trainer.run().unwrap()).unwrap();
    });
}

/// A training with dropout is that of one process up to rounding, whose masks belong to examples.
#[test]
fn dropout_does_not_depend_on_the_number_of_processes() {
    for is_compiled in [false, true] {
        let run = |count: usize| {
            let all = local::run(count, |world| {
                let digits = Digits::new(0);
                let data = DataLoader::new(digits.images(0..22), 8)
                    .shuffle(3)
                    .shard(&world);
                let model = Mlp::builder(&[784, 16, 10])
                    .dropout(0.5)
                    .build(&mut Generator::new(0));
                let loss = move |model: &Mlp, (x, t): &Batch, step: &mut Step<'_>| {
                    let mut x = Variable::constant(x);
                    // A step that is traced draws by links alone.
                    if !is_compiled {
                        x = dropout(x, 0.2, step.random());
                    }
                    softmax_cross_entropy(model.forward(&x), Variable::constant(t))
                };
                let optimizer = DataParallel::new(Sgd::new(0.1), &world);
                let mut trainer = Trainer::new(model, data, optimizer, loss)
                    .until(Until::Iterations(6))
                    .parallel(&world);
                if is_compiled {
                    trainer = trainer.compiled();
                }
                trainer.run().unwrap();
                values(trainer.model())
            });
            all[0].clone()
        };
        let expected = run(1);
        for count in [2, 3] {
            let found = run(count);
            let pairs = found.iter().zip(&expected);
            let error = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(
                error < 1e-5,
                "{count} processes, compiled {is_compiled}: {error}"
            );
        }
    }
}
