//! An autoencoder puts images of digits on a map: each image becomes two numbers, from which it is
//! drawn again.
//!
//! ```sh
//! cargo run --release --example autoencoder --features images                     # digits that the program draws
//! cargo run --release --example autoencoder --features images -- --data FOLDER    # MNIST, from its four files
//! ```
//!
//! The results are then in `result/autoencoder` (or `--out FOLDER`):
//!
//! - `digits.png`: images that it has not been trained on, and below each the image drawn from its code;
//! - `map.png`: images drawn from the codes of a grid, on which every part of the map has equal weight;
//! - `codes.png`: the positions of these images on the map, coloured by class;
//! - the same pictures after each epoch in separate folders, plots, a log and snapshots: stop it by
//!   Ctrl-C, and it goes on next time.
//!
//! All digits are first brought upright, to one height and to the centre, because two numbers cannot encode
//! that as well.
//!
//! It is never given the classes, and yet it separates them: the nearest neighbour of an image on
//! the map has the same class in about 88 of 100 cases, with MNIST in about 75, by chance in 10.
//!
//! It is a variational autoencoder: a code is drawn from a normal distribution whose mean and variance are
//! computed from the image, and all codes together are held close to the standard normal distribution.
//! This makes a useful map: no holes between the digits, and neighbours that resemble each other.
//!
//! Source: Kingma, Welling, "Auto-encoding variational Bayes", arXiv:1312.6114, 2013.

mod pictures;
mod upright;

use std::path::PathBuf;
use std::process::ExitCode;

use bibun::Variable;
use bibun::array::{Array, DType, Generator};
use bibun::datasets::{DataLoader, Digits, LabeledImages, Mnist, mnist};
use bibun::functions::{Reduction, exp, sigmoid, sigmoid_cross_entropy_with};
use bibun::links::{Chain, Link, Mlp};
use bibun::optimizers::Adam;
use bibun::optimizers::schedule::cosine;
use bibun::training::{
    BoxError, Callback, Evaluator, Plot, PrintReport, ProgressBar, Snapshots, Step, Trainer,
    Trigger, Until,
};
use clap::Parser;
use pictures::Pictures;

/// Trains an autoencoder on images of digits and draws what it has found.
#[derive(Parser)]
struct Options {
    /// Folder with the four files of MNIST, compressed or not; without it, digits are drawn
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Folder for pictures, log and snapshots; if it has a snapshot, training goes on from there
    #[arg(long, value_name = "FOLDER", default_value = "result/autoencoder")]
    out: PathBuf,
    /// Images to draw if no others are given; a sixth as many to test
    #[arg(long, conflicts_with = "data", default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(1..))]
    images: u64,
    /// How often to go through all training images
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    epochs: u64,
    /// Seed of everything random: the same seed, the same result
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

/// The autoencoder.
#[derive(Chain)]
struct Autoencoder {
    encoder: Mlp,
    decoder: Mlp,
}

impl Autoencoder {
    fn new(g: &mut Generator) -> Self {
        Self {
            encoder: Mlp::new(&[784, 256, 64, 2 * 2], g),
            decoder: Mlp::new(&[2, 64, 256, 784], g),
        }
    }

    /// Means and logarithms of variances of the codes, each `[n, 2]`.
    fn encode(&self, x: &Variable) -> [Variable; 2] {
        let y = self.encoder.forward(x).split(2, 1);
        y.try_into().expect("two parts")
    }

    /// Images from codes.
    fn decode(&self, z: &Variable) -> Variable {
        sigmoid(self.decoder.forward(z))
    }

    /// The bound of what an image costs: what is drawn wrong, and how much its code says.
    fn loss(&self, x: &Variable, random: &mut Generator) -> Variable {
        let [mean, log_variance] = self.encode(x);
        let noise = Variable::constant(random.normal(mean.shape(), 0.0, 1.0, DType::F32));
        let y = self
            .decoder
            .forward(&(&mean + exp(0.5 * &log_variance) * noise));
        let wrong = sigmoid_cross_entropy_with(y, x, Reduction::Sum);
        let said = 0.5 * (exp(&log_variance) + mean.square() - &log_variance - 1.0).sum(..);
        (wrong + said) / x.shape()[0] as f64
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
    let model = Autoencoder::new(&mut generator.split(0));
    let [train, test] = data(options)?;
    println!(
        "{} images to train, {} to test, {} parameters",
        train.len(),
        test.len(),
        model.parameter_count(),
    );

    let pictures = Pictures::of(&test);
    let [train, test] = [train, test].map(|images| upright::all(&images));
    let train = DataLoader::new(train, 100).shuffle(options.seed);
    let loss = |model: &Autoencoder, x: &Array, step: &mut Step<'_>| {
        model.loss(&Variable::constant(x), step.random())
    };
    let steps = options.epochs * train.batches_per_epoch() as u64;
    let optimizer = Adam::new(0.002).schedule(cosine(steps));
    let often = pictures.clone();
    let mut trainer = Trainer::new(model, train, optimizer, loss)
        .until(Until::Epochs(options.epochs as f64))
        .seed(options.seed)
        .folder(&options.out)
        .snapshots(Snapshots::every(Trigger::Epochs(1.0)))
        .stop_on_interrupt()
        .extend(Evaluator::new("test", DataLoader::new(test, 500), loss))
        .extend(PrintReport::new([
            "epoch",
            "loss",
            "test/loss",
            "elapsed_time",
        ]))
        .extend(Plot::new("loss.svg", ["loss", "test/loss"]))
        .extend(Callback::new(
            "pictures",
            Trigger::Epochs(1.0),
            move |session| {
                let epoch = format!("epoch_{:02}", session.clock().epochs());
                often.draw(session.model(), &session.folder()?.join(epoch))
            },
        ))
        .extend(ProgressBar::new());
    println!("{}", trainer.resume()?);
    println!("{}", trainer.run()?);
    pictures.draw(trainer.model(), &options.out)?;
    println!("pictures are in {}", options.out.display());
    let neighbours = pictures.neighbours_alike(trainer.model());
    println!("images whose nearest neighbour on the map is of their class: {neighbours:.4}");
    Ok(())
}

/// Images to learn from and images to test.
fn data(options: &Options) -> Result<[LabeledImages; 2], BoxError> {
    match &options.data {
        Some(folder) => {
            let Mnist { train, test } = mnist(folder)?;
            Ok([train, test])
        }
        None => {
            println!("no --data FOLDER given: learning from digits that the program draws itself");
            let digits = Digits::new(options.seed);
            let (images, test) = (options.images, options.images.div_ceil(6));
            Ok([
                digits.images(0..images),
                digits.images(images..images + test),
            ])
        }
    }
}
