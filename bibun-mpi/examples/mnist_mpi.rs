//! A multilayer perceptron learns to read digits, on as many processes as `mpiexec` starts.
//!
//! ```sh
//! cargo build --release --example mnist_mpi
//! mpiexec -n 2 target/release/examples/mnist_mpi
//! mpiexec -n 2 target/release/examples/mnist_mpi --out FOLDER   # goes on from its last snapshot
//! ```
//!
//! The program is that of the example `mnist` with five words more: `init`, `DataParallel`, `shard` twice and
//! `parallel`.

use std::path::PathBuf;
use std::process::ExitCode;

use bibun::Variable;
use bibun::array::{Array, Generator};
use bibun::datasets::{DataLoader, Digits, Mnist, mnist};
use bibun::functions::{accuracy, relu, softmax_cross_entropy};
use bibun::links::{Chain, Linear, Link};
use bibun::optimizers::Adam;
use bibun::optimizers::schedule::linear;
use bibun::parallel::DataParallel;
use bibun::training::{
    BoxError, Evaluator, PrintReport, ProgressBar, Snapshots, Step, Trainer, Trigger, Until,
};
use clap::Parser;

/// Trains a multilayer perceptron with two hidden layers on images of digits, on many processes.
#[derive(Parser)]
struct Options {
    /// Folder with the four files of MNIST, compressed or not; without it, digits are drawn
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Folder for the log and snapshots; if it has a snapshot, training goes on from there
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// How often to go through all training images
    #[arg(long, default_value_t = 10)]
    epochs: usize,
    /// Images in a step, of all processes together
    #[arg(long, default_value_t = 128)]
    batch_size: usize,
    /// Digits to draw for training
    #[arg(long, default_value_t = 60_000)]
    images: u64,
    /// Divide the optimizer's state among the processes
    #[arg(long)]
    sharded: bool,
}

#[derive(Chain)]
struct Mlp {
    l1: Linear,
    l2: Linear,
    l3: Linear,
}

impl Link for Mlp {
    fn compute(&self, x: &Variable) -> Variable {
        let h = relu(self.l1.forward(x));
        let h = relu(self.l2.forward(&h));
        self.l3.forward(&h)
    }
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> Result<(), BoxError> {
    let world = bibun_mpi::init()?;
    let random = &mut Generator::new(0).split(0);
    let model = Mlp {
        l1: Linear::new(784, 256, random),
        l2: Linear::new(256, 256, random),
        l3: Linear::new(256, 10, random),
    };
    let data = match &options.data {
        Some(folder) => mnist(folder)?,
        None => {
            let digits = Digits::new(0);
            let test = options.images..options.images + options.images / 6;
            Mnist {
                train: digits.images(0..options.images),
                test: digits.images(test),
            }
        }
    };
    let train = DataLoader::new(data.train, options.batch_size)
        .shuffle(0)
        .shard(&world);
    let test = DataLoader::new(data.test, 1000).shard(&world);
    let learn = |model: &Mlp, (x, t): &(Array, Array), step: &mut Step<'_>| {
        let (y, t) = (model.forward(&Variable::constant(x)), Variable::constant(t));
        step.report_metric("accuracy", [&y, &t], |[y, t]| accuracy(y, t));
        softmax_cross_entropy(y, t)
    };
    let steps = options.epochs * train.batches_per_epoch();
    let adam = Adam::new(0.001).schedule(linear(steps as u64));
    let mut optimizer = DataParallel::new(adam, &world);
    if options.sharded {
        optimizer = optimizer.sharded();
    }
    let mut trainer = Trainer::new(model, train, optimizer, learn)
        .until(Until::Epochs(options.epochs as f64))
        .extend(Evaluator::new("test", test, learn))
        .extend(PrintReport::new([
            "epoch",
            "loss",
            "accuracy",
            "test/accuracy",
            "elapsed_time",
        ]))
        .extend(ProgressBar::new())
        .parallel(&world);
    if let Some(folder) = &options.out {
        trainer = trainer
            .folder(folder)
            .snapshots(Snapshots::every(Trigger::Epochs(1.0)));
    }
    let resumed = trainer.resume()?;
    if world.is_first() {
        println!("{} processes; {resumed}", world.size());
    }
    let outcome = trainer.run()?;
    let accuracy = trainer.log().values("test/accuracy").last();
    if let (true, Some((_, accuracy))) = (world.is_first(), accuracy) {
        println!("{outcome}\ntest accuracy: {accuracy:.4}");
    }
    Ok(())
}
