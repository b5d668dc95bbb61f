//! A multilayer perceptron learns to read digits.
//!
//! ```sh
//! cargo run --release --example mnist                     # digits that the program draws
//! cargo run --release --example mnist -- --data FOLDER    # MNIST, from its four files
//! ```

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use bibun::array::Generator;
use bibun::datasets::{Digits, LabeledImages, Mnist, mnist};
use bibun::functions::{CrossEntropyOptions, Reduce, relu, softmax_cross_entropy_with};
use bibun::links::{Chain, Linear, Link};
use bibun::optimizers::{Adam, MomentumSgd, Optimizer, Sgd};
use bibun::{Variable, no_grad};
use clap::{Parser, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

/// Trains a multilayer perceptron with two hidden layers on images of digits.
#[derive(Parser)]
struct Options {
    /// Folder with the four files of MNIST, compressed or not; without it, digits are drawn
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// How often to go through all training images
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// Images in a step
    #[arg(long, default_value_t = 128, value_parser = positive)]
    batch_size: usize,
    /// Units in each hidden layer
    #[arg(long, default_value_t = 256, value_parser = positive)]
    hidden: usize,
    /// How the parameters follow their gradients
    #[arg(long, value_enum, default_value_t = Method::Adam)]
    optimizer: Method,
    /// Learning rate [default: 0.1 for sgd, 0.05 for momentum, 0.001 for adam]
    #[arg(long, value_parser = learning_rate)]
    lr: Option<f64>,
    /// Seed of everything random: the same seed, the same result
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The settings of the article that bibun began with: 100 hidden units, plain gradient descent
    /// on the summed loss with rate 0.0001, images shuffled once, 30 epochs
    #[arg(long, conflicts_with_all = ["epochs", "batch_size", "hidden", "optimizer", "lr"])]
    seed_recipe: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Method {
    Sgd,
    Momentum,
    Adam,
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".into()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

fn learning_rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if rate > 0.0 && f64::is_finite(rate) => Ok(rate),
        Ok(_) => Err("must be positive and finite".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// The perceptron.
#[derive(Chain)]
struct Mlp {
    l1: Linear,
    l2: Linear,
    l3: Linear,
}

impl Mlp {
    fn new(hidden: usize, generator: &mut Generator) -> Self {
        Self {
            l1: Linear::new(784, hidden, generator),
            l2: Linear::new(hidden, hidden, generator),
            l3: Linear::new(hidden, 10, generator),
        }
    }
}

impl Link for Mlp {
    fn forward(&self, x: &Variable) -> Variable {
        let h = relu(self.l1.forward(x));
        let h = relu(self.l2.forward(&h));
        self.l3.forward(&h)
    }
}

fn main() -> ExitCode {
    let mut options = Options::parse();
    if options.seed_recipe {
        options.epochs = 30;
        options.batch_size = 128;
        options.hidden = 100;
        options.optimizer = Method::Sgd;
        options.lr = Some(0.0001);
    }
    let data = match &options.data {
        Some(folder) => match mnist(folder) {
            Ok(data) => data,
            Err(error) => {
                eprintln!("error: {error}");
                return ExitCode::from(2);
            }
        },
        None => {
            println!(
                "no --data FOLDER given: learning to read digits that the program draws itself"
            );
            let digits = Digits::new(options.seed);
            Mnist {
                train: digits.images(0..60_000),
                test: digits.images(60_000..70_000),
            }
        }
    };
    run(&options, &data);
    ExitCode::SUCCESS
}

fn run(options: &Options, data: &Mnist) {
    let generator = Generator::new(options.seed);
    let model = Mlp::new(options.hidden, &mut generator.split(0));
    let mut shuffler = generator.split(1);
    let mut optimizer = optimizer(options);
    println!(
        "{} images to train, {} to test, {} parameters",
        data.train.len(),
        data.test.len(),
        model.parameter_count(),
    );

    let mut order = shuffled(data.train.len(), &mut shuffler);
    let mut accuracy = 0.0;
    for epoch in 1..=options.epochs {
        let start = Instant::now();
        if epoch > 1 && !options.seed_recipe {
            order = shuffled(data.train.len(), &mut shuffler);
        }
        let trained = train(&model, &mut *optimizer, &data.train, &order, epoch, options);
        accuracy = test(&model, &data.test);
        println!(
            "epoch {epoch:2}: loss {:.4}, accuracy {:.4}, test accuracy {accuracy:.4}, {:.1} s",
            trained.loss,
            trained.accuracy,
            start.elapsed().as_secs_f64(),
        );
    }
    println!("test accuracy: {accuracy:.4}");
}

fn optimizer(options: &Options) -> Box<dyn Optimizer> {
    let rate = |default| options.lr.unwrap_or(default);
    match options.optimizer {
        Method::Sgd => Box::new(Sgd::new(rate(0.1))),
        Method::Momentum => Box::new(MomentumSgd::new(rate(0.05), 0.9)),
        Method::Adam => Box::new(Adam::new(rate(0.001))),
    }
}

/// What an epoch was like, on average over its images.
struct Trained {
    loss: f64,
    accuracy: f64,
}

fn train(
    model: &Mlp,
    optimizer: &mut dyn Optimizer,
    images: &LabeledImages,
    order: &[usize],
    epoch: u32,
    options: &Options,
) -> Trained {
    // Drawn to the terminal if there is one; the cursor stays visible, so Ctrl-C leaves no traces.
    let style = ProgressStyle::with_template("{prefix} {bar:40} {pos}/{len} {msg}");
    let bar = ProgressBar::new(order.len() as u64)
        .with_style(style.expect("a template as the crate wants it"))
        .with_prefix(format!("epoch {epoch:2}"));
    let summed = CrossEntropyOptions {
        reduce: Reduce::Sum,
        ..Default::default()
    };
    let (mut total, mut correct) = (0.0, 0);
    for batch in order.chunks(options.batch_size) {
        let (x, t) = images.batch(batch);
        model.clear_grads();
        {
            let y = model.forward(&x.into());
            correct += count_correct(&y, &t.clone().into());
            let sum = softmax_cross_entropy_with(y, t, &summed);
            total += sum.item::<f64>();
            let loss = if options.seed_recipe {
                sum
            } else {
                sum / batch.len() as f64
            };
            loss.backward();
            // Here the history ends, so that parameters can be updated in place.
        }
        optimizer.update(model);
        bar.set_message(format!(
            "loss {:.4}",
            total / (bar.position() as f64 + batch.len() as f64)
        ));
        bar.inc(batch.len() as u64);
    }
    bar.finish_and_clear();
    let count = order.len() as f64;
    Trained {
        loss: total / count,
        accuracy: correct as f64 / count,
    }
}

/// The share of images that are read right.
fn test(model: &Mlp, images: &LabeledImages) -> f64 {
    let indices: Vec<usize> = (0..images.len()).collect();
    let correct: i64 = indices
        .chunks(1000)
        .map(|batch| {
            let (x, t) = images.batch(batch);
            count_correct(&no_grad(|| model.forward(&x.into())), &t.into())
        })
        .sum();
    correct as f64 / images.len() as f64
}

/// How often the largest output is that of the right class.
fn count_correct(y: &Variable, t: &Variable) -> i64 {
    let read = y.array().argmax(1);
    read.equal(&t.array()).sum(..).item()
}

fn shuffled(count: usize, generator: &mut Generator) -> Vec<usize> {
    let order = generator.permutation(count).to_vec::<i64>();
    order.into_iter().map(|index| index as usize).collect()
}
