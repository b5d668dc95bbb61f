//! What the tests of this crate start under `mpiexec`.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use bibun::array::{Array, DType, Generator};
use bibun::datasets::DataLoader;
use bibun::functions::{
    all_gather, all_reduce, all_to_all, broadcast, receive, reduce, reduce_scatter, send,
};
use bibun::links::{Link, Mlp};
use bibun::optimizers::Adam;
use bibun::parallel::{Communicator, DataParallel};
use bibun::serializers::Stateful;
use bibun::training::{Snapshots, Step, Trainer, Trigger, Until};
use bibun::{Variable, jvp, vjp};
use clap::{Parser, ValueEnum};

#[derive(Parser)]
struct Options {
    #[arg(value_enum)]
    mode: Mode,
    #[arg(long, default_value_t = 20)]
    steps: u64,
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Milliseconds to wait in each step
    #[arg(long, default_value_t = 0)]
    pause: u64,
    #[arg(long)]
    sharded: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Mode {
    Collectives,
    Train,
    OtherShape,
    Hang,
    Panic,
    Again,
}

fn main() {
    let options = Options::parse();
    let world = bibun_mpi::init().unwrap_or_else(|error| panic!("{error}"));
    match options.mode {
        Mode::Collectives => collectives(&world),
        Mode::Train => train(&world, &options),
        Mode::OtherShape => {
            world.all_reduce(&Array::zeros([3 + world.rank() / 2], DType::F32));
        }
        Mode::Hang => {
            world.set_timeout(Duration::from_secs(1));
            if world.rank() == 1 {
                thread::sleep(Duration::from_secs(60));
            }
            world.all_reduce(&Array::from([1.0]));
        }
        Mode::Panic => {
            assert!(world.rank() != 1, "this process is broken");
            world.barrier();
        }
        Mode::Again => println!("{}", bibun_mpi::init().unwrap_err()),
    }
}

fn of_rank(rank: usize, shape: &[usize]) -> Array {
    Generator::new(5)
        .split(rank as u64)
        .normal(shape, 0.0, 1.0, DType::F64)
}

/// Compares every collective with what one process computes of the arrays of all.
fn collectives(world: &Communicator) {
    let (rank, count) = (world.rank(), world.size());
    // The last one is larger than a piece of the memory that MPI shares.
    for rows in [2, 700, 40_000] {
        let shape = [rows * count, 3];
        let all: Vec<Array> = (0..count).map(|rank| of_rank(rank, &shape)).collect();
        let sum = all.iter().skip(1).fold(all[0].clone(), |sum, x| sum + x);
        let part = |x: &Array, rank: usize| x.slice(&[(rows * rank..rows * (rank + 1)).into()]);
        let joined = |parts: &[Array]| bibun::array::concat(&parts.iter().collect::<Vec<_>>(), 0);
        let to_me: Vec<Array> = all.iter().map(|x| part(x, rank)).collect();
        let own = &all[rank];
        let same =
            |found: Array, expected: &Array| assert!(found.has_same_bits(expected), "{rows}");
        same(world.all_reduce(own), &sum);
        same(world.all_gather(own), &joined(&all));
        same(world.reduce_scatter(own), &part(&sum, rank));
        same(world.all_to_all(own), &joined(&to_me));
        same(world.broadcast(own, count - 1), &all[count - 1]);
        if count > 1 {
            world.send(own, (rank + 1) % count);
            let before = (rank + count - 1) % count;
            let spec = bibun::Spec::new(shape, DType::F64);
            same(world.receive(&spec, before), &all[before]);
        }
        world.barrier();
    }
    let calls: [fn(&Variable, &Communicator) -> Variable; 7] = [
        |x, all| all_reduce(x, all),
        |x, all| all_gather(x, all),
        |x, all| reduce_scatter(x, all),
        |x, all| all_to_all(x, all),
        |x, all| broadcast(x, 0, all),
        |x, all| reduce(x, 0, all),
        |x, all| match all.size() {
            1 => x.clone(),
            count => {
                let zero = send(x, (all.rank() + 1) % count, all);
                receive(x, x.spec(), (all.rank() + count - 1) % count, all) + zero
            }
        },
    ];
    for call in calls {
        let x = Variable::constant(of_rank(rank, &[2 * count, 3]));
        let (y, back) = vjp(|x| call(x, world), &x);
        let (w, v) = (
            of_rank(rank + 10, &y.shape()),
            of_rank(rank + 20, &x.shape()),
        );
        let gx = back.call(&Variable::constant(&w)).array();
        let (_, dy) = jvp(|x| call(x, world), &x, &Variable::constant(&v));
        let products = [(&w * &dy.array()).sum(..), (&gx * &v).sum(..)];
        let [ahead, behind] = products.map(|x| world.all_reduce(&x).item::<f64>());
        assert!((ahead - behind).abs() < 1e-10, "{ahead} {behind}");
    }
    println!("all collectives are right");
}

/// Trains, and prints a checksum of everything that a snapshot holds.
fn train(world: &Communicator, options: &Options) {
    world.set_timeout(Duration::from_secs(20));
    let mut random = Generator::new(1);
    let x = random.normal([60, 5], 0.0, 1.0, DType::F32);
    let t = random.normal([60, 3], 0.0, 1.0, DType::F32);
    let rows = |x: &Array| -> Vec<Array> { (0..60).map(|i: usize| x.slice(&[i.into()])).collect() };
    let examples: Vec<(Array, Array)> = rows(&x).into_iter().zip(rows(&t)).collect();
    let data = DataLoader::new(examples, 12).shuffle(2).shard(world);
    let pause = Duration::from_millis(options.pause);
    let loss = move |model: &Mlp, (x, t): &(Array, Array), _: &mut Step<'_>| {
        thread::sleep(pause);
        (model.forward(&Variable::constant(x)) - t)
            .square()
            .mean(..)
    };
    let mut optimizer = DataParallel::new(Adam::new(0.01), world)
        .check_every(1)
        .bucket_bytes(300);
    if options.sharded {
        optimizer = optimizer.sharded();
    }
    let model = Mlp::new(&[5, 16, 3], &mut Generator::new(0));
    let mut trainer = Trainer::new(model, data, optimizer, loss)
        .until(Until::Iterations(options.steps))
        .log_every(Trigger::Iterations(10))
        .parallel(world);
    if let Some(folder) = &options.folder {
        trainer = trainer
            .folder(folder)
            .snapshots(Snapshots::every(Trigger::Iterations(5)));
    }
    trainer.resume().unwrap_or_else(|error| panic!("{error}"));
    trainer.run().unwrap_or_else(|error| panic!("{error}"));
    // The time is another one in every run.
    let state = trainer
        .state()
        .filter(|name| !name.contains("elapsed") && !name.starts_with("log/"));
    println!("result {}", state.checksum());
}
