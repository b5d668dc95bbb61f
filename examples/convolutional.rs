//! A convolutional network learns to read digits from images that are rotated, shifted and scaled a
//! little each time they are used.
//!
//! ```sh
//! cargo run --release --example convolutional --features pictures                     # digits that the program draws
//! cargo run --release --example convolutional --features pictures -- --data FOLDER    # MNIST, from its four files
//! cargo run --release --example convolutional --features pictures -- --out FOLDER     # with plots and snapshots: stop
//!                                                                 # it by Ctrl-C, and it goes on
//!                                                                 # next time
//! ```
//!
//! In about a minute it reads 99 of 100 images that it has not been trained on, of either kind.

use std::path::PathBuf;
use std::process::ExitCode;

use bibun::Variable;
use bibun::array::{Array, Generator};
use bibun::datasets::transforms::{Affine, random_affine};
use bibun::datasets::{DataLoader, Dataset, Digits, LabeledImages, Mnist, Planes, Subset, mnist};
use bibun::functions::{accuracy, max_pool, relu, softmax_cross_entropy};
use bibun::links::{BatchNorm, Chain, Conv2d, Dropout, Linear, Link};
use bibun::optimizers::Adam;
use bibun::optimizers::schedule::one_cycle;
use bibun::training::{
    BoxError, Evaluator, Plot, PrintReport, ProgressBar, Snapshots, Step, Trainer, Trigger, Until,
};
use clap::Parser;

/// Trains a convolutional network on images of digits.
#[derive(Parser)]
struct Options {
    /// Folder with the four files of MNIST, compressed or not; without it, digits are drawn
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Folder for the log, plots and snapshots; if it has a snapshot, training goes on from there
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Images to learn from (fewer, if there are fewer); a sixth as many to test
    #[arg(long, default_value_t = 60_000, value_parser = clap::value_parser!(u64).range(1..))]
    images: u64,
    /// How often to go through all training images
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,
    /// Seed of everything random: the same seed, the same result
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// A convolution, brought to mean 0 and variance 1 in each channel, and pooled to half the size.
#[derive(Chain)]
struct Stage {
    convolution: Conv2d,
    norm: BatchNorm,
}

impl Stage {
    fn new(inputs: usize, outputs: usize, g: &mut Generator) -> Self {
        // The shifts of the normalisation are bias enough.
        let convolution = Conv2d::builder(inputs, outputs, 3)
            .padding(1)
            .without_bias();
        Self {
            convolution: convolution.build(g),
            norm: BatchNorm::new(outputs),
        }
    }
}

impl Link for Stage {
    fn compute(&self, x: &Variable) -> Variable {
        max_pool(
            relu(self.norm.forward(&self.convolution.forward(x))),
            [2, 2],
        )
    }
}

/// The network: from 28 × 28 pixels in one channel to 7 × 7 in 32, and from these to ten scores.
#[derive(Chain)]
struct Network {
    stages: [Stage; 2],
    hidden: Linear,
    dropout: Dropout,
    scores: Linear,
}

impl Network {
    fn new(g: &mut Generator) -> Self {
        Self {
            stages: [Stage::new(1, 16, g), Stage::new(16, 32, g)],
            hidden: Linear::new(32 * 7 * 7, 64, g),
            dropout: Dropout::new(0.3, g),
            scores: Linear::new(64, 10, g),
        }
    }
}

impl Link for Network {
    fn compute(&self, x: &Variable) -> Variable {
        let [first, second] = &self.stages;
        let h = second.forward(&first.forward(x));
        let h = relu(self.hidden.forward(&h.reshape([x.shape()[0], 32 * 7 * 7])));
        self.scores.forward(&self.dropout.forward(&h))
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
    let generator = Generator::new(options.seed);
    let model = Network::new(&mut generator.split(0));
    let [train, test] = data(options)?;
    println!(
        "{} images to train, {} to test, {} parameters",
        train.len(),
        test.len(),
        model.parameter_count(),
    );

    let a_little = Affine {
        degrees: 10.0,
        shift: 0.07,
        scale: 0.9..=1.1,
        shear: 5.0,
    };
    let train = train
        .map(move |(image, class), random| Ok((random_affine(&image, &a_little, random), class)));
    // A thread turns the images of the next batches while this one is learned from.
    let train = DataLoader::new(train, 100)
        .shuffle(options.seed)
        .prefetch(4, 1);
    let test = DataLoader::new(test, 500);

    let loss = |model: &Network, (x, t): &(Array, Array), step: &mut Step<'_>| {
        let y = model.forward(&Variable::constant(x));
        step.report("accuracy", accuracy(&y, t));
        softmax_cross_entropy(y, t)
    };
    let steps = options.epochs * train.batches_per_epoch() as u64;
    let optimizer = Adam::new(0.005).schedule(one_cycle(steps));
    let mut trainer = Trainer::new(model, train, optimizer, loss)
        .until(Until::Epochs(options.epochs as f64))
        .stop_on_interrupt()
        .extend(Evaluator::new("test", test, loss))
        .extend(PrintReport::new([
            "epoch",
            "loss",
            "accuracy",
            "test/loss",
            "test/accuracy",
            "elapsed_time",
        ]))
        .extend(ProgressBar::new());
    if let Some(folder) = &options.out {
        trainer = trainer
            .folder(folder)
            .snapshots(Snapshots::every(Trigger::Epochs(0.25)))
            .draw_graph("graph.html")
            .extend(Plot::new("loss.svg", ["loss", "test/loss"]).logarithmic())
            .extend(Plot::new("accuracy.svg", ["accuracy", "test/accuracy"]));
    }
    println!("{}", trainer.resume()?);
    println!("{}", trainer.run()?);
    if let Some((_, accuracy)) = trainer.log().values("test/accuracy").last() {
        println!("test accuracy: {accuracy:.4}");
    }
    Ok(())
}

/// Images to learn from and images to test.
fn data(options: &Options) -> Result<[Subset<Planes>; 2], BoxError> {
    let counts = [options.images, options.images.div_ceil(6)];
    let images = match &options.data {
        Some(folder) => {
            let Mnist { train, test } = mnist(folder)?;
            [train, test]
        }
        None => {
            println!(
                "no --data FOLDER given: learning to read digits that the program draws itself"
            );
            let [train, test] = counts;
            let digits = Digits::new(options.seed);
            [digits.images(0..train), digits.images(train..train + test)]
        }
    };
    let [train, test] = images.map(LabeledImages::planes);
    let first = |images: Planes, count: u64| {
        let count = images.len().min(count as usize);
        images.subset((0..count).collect::<Vec<_>>())
    };
    Ok([first(train, counts[0]), first(test, counts[1])])
}
