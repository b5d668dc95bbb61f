//! Digits are learned so that the network reveals little about any single image it was trained on:
//! each image's gradient is clipped to a norm, and noise hides the rest of it in the sum.
//!
//! The printed ε means: whether an image was in the data changes the probability of any result by at most
//! a factor of e^ε (except for a probability of δ). It holds for an observer who sees the network after
//! every step, under these conditions:
//!
//! - Images must be drawn independently for each step, as here; the accountant does not cover epochs over a
//!   shuffled data set.
//! - The generator of random numbers is not cryptographic, and its seed must be unknown.
//! - Noise in floating point is not exactly normal, and its last bits can reveal the number it was added to
//!   (Mironov, "On significance of the least significant bits for differential privacy", 2012).
//! - Every other use of the data counts as well: trying several learning rates and keeping the best
//!   spends more than is printed. (The accuracy is measured on other images.)
//!
//! ```sh
//! cargo run --release --example private_training                     # digits that the program draws
//! cargo run --release --example private_training -- --data FOLDER    # MNIST, from its four files
//! ```
//!
//! Source: Abadi et al., "Deep learning with differential privacy", arXiv:1607.00133, 2016. The
//! network is the one in the tutorial of TensorFlow Privacy.

mod accountant;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use accountant::Accountant;
use bibun::array::{Array, DType, Generator};
use bibun::datasets::{Digits, LabeledImages, Mnist, mnist};
use bibun::functions::{
    Pooling, Reduction, max_pool, relu, softmax_cross_entropy, softmax_cross_entropy_with,
};
use bibun::links::{Chain, Conv2d, Linear, Link};
use bibun::optimizers::{Optimizer, Sgd};
use bibun::{Variable, clip_factors, no_grad, per_example, tree_map, tree_zip};
use clap::Parser;

/// Trains a network on digits, privately and not.
#[derive(Parser)]
struct Options {
    /// Folder with the four files of MNIST, compressed or not; without it, digits are drawn
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Images to draw if no others are given; a sixth as many to test
    #[arg(long, conflicts_with = "data", default_value_t = 30_000, value_parser = clap::value_parser!(u64).range((PADDED + 5) as u64..))]
    images: u64,
    /// How often each image is learned from, on average
    #[arg(long, default_value_t = 3)]
    epochs: usize,
    /// Standard deviation of the noise, in units of the norm to which gradients are clipped
    #[arg(long, default_value_t = 1.1, allow_negative_numbers = true, value_parser = positive)]
    noise: f64,
    /// Seed of everything random: the same seed, the same result, and no privacy once it is known
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(number) if number > 0.0 && f64::is_finite(number) => Ok(number),
        Ok(_) => Err("must be positive and finite".into()),
        Err(error) => Err(error.to_string()),
    }
}

/// Images in a step; in a private one on average.
const BATCH_SIZE: usize = 256;
/// The norm to which gradients are clipped.
const MAX_NORM: f64 = 1.0;
/// Learning rates of private and ordinary steps: those of clipped gradients are shorter.
const RATES: [f64; 2] = [1.0, 0.1];

/// What a private batch is padded to, so that its size does not show in the time it takes and memory
/// is used again: its mean and four standard deviations. The rare one with more goes in two parts.
const PADDED: usize = 320;

/// The probability with which ε may be exceeded.
const DELTA: f64 = 1e-5;

#[derive(Chain)]
struct Network {
    convolutions: [Conv2d; 2],
    hidden: Linear,
    last: Linear,
}

impl Network {
    fn new(random: &mut Generator) -> Self {
        let first = Conv2d::builder(1, 16, 8).stride(2).padding(3).build(random);
        let second = Conv2d::builder(16, 32, 4).stride(2).build(random);
        Self {
            convolutions: [first, second],
            hidden: Linear::new(512, 32, random),
            last: Linear::new(32, 10, random),
        }
    }
}

impl Link for Network {
    fn compute(&self, x: &Variable) -> Variable {
        let mut h = x.reshape([x.shape()[0], 1, 28, 28]);
        for convolution in &self.convolutions {
            h = max_pool(
                relu(convolution.forward(&h)),
                Pooling::new([2, 2]).stride(1),
            );
        }
        let h = h.reshape([x.shape()[0], 512]);
        self.last.forward(&relu(self.hidden.forward(&h)))
    }
}

/// The sum of gradients of the images' losses, each clipped to a norm and then weighted.
fn clipped_sum(
    model: &Network,
    images: &LabeledImages,
    indices: &[usize],
    weights: &[f32],
) -> Network {
    let (x, t) = images.batch(indices);
    let losses = softmax_cross_entropy_with(model.forward(&x.into()), t, Reduction::None);
    let gradients = per_example(&losses, model);
    let factors = clip_factors(&gradients.norms(), MAX_NORM);
    gradients.weighted_sum(&(factors * Array::from(weights)))
}

/// `start` and the sum of the clipped gradients of any number of images, padded with some image of
/// weight 0.
fn padded_clipped_sum(
    start: Network,
    model: &Network,
    images: &LabeledImages,
    batch: &[usize],
) -> Network {
    batch.chunks(PADDED).fold(start, |sum, part| {
        let mut indices = part.to_vec();
        let mut weights = vec![1.0; part.len()];
        indices.resize(PADDED, 0);
        weights.resize(PADDED, 0.0);
        let more = clipped_sum(model, images, &indices, &weights);
        tree_zip(|a, b| a + b, &sum, &more)
    })
}

/// Each image with the same probability, whatever the others.
fn poisson_sample(count: usize, probability: f64, random: &mut Generator) -> Vec<usize> {
    let taken = random.bernoulli(probability, count).to_vec::<bool>();
    (0..count).filter(|&i| taken[i]).collect()
}

/// A step in which no image counts for more than the noise hides. That it divides by the number of
/// images expected, not by how many there are, keeps the latter private.
fn private_step(model: &Network, images: &LabeledImages, noise: f64, random: &mut Generator) {
    let expected = BATCH_SIZE as f64;
    let batch = poisson_sample(images.len(), expected / images.len() as f64, random);
    let deviation = noise * MAX_NORM;
    let blur = |w: &Variable| random.normal(w.shape(), 0.0, deviation, DType::F32).into();
    let sum = padded_clipped_sum(tree_map(blur, model), model, images, &batch);
    model.set_gradients(&tree_map(|gw| gw / expected, &sum));
}

fn ordinary_step(model: &Network, images: &LabeledImages, batch: &[usize]) {
    let (x, t) = images.batch(batch);
    model.clear_grads();
    softmax_cross_entropy(model.forward(&x.into()), t).backward();
}

fn accuracy(model: &Network, images: &LabeledImages) -> f64 {
    let indices: Vec<usize> = (0..images.len()).collect();
    let correct = indices.chunks(1000).map(|batch| {
        let (x, t) = images.batch(batch);
        let y = no_grad(|| model.forward(&x.into()));
        y.array().argmax(1).equal(&t).sum(..).item::<i64>()
    });
    correct.sum::<i64>() as f64 / images.len() as f64
}

/// Padding changes nothing, and a batch without images gives nothing.
fn check_padding(model: &Network, images: &LabeledImages) {
    let zeros = || tree_map(|w| w * 0.0, model);
    let batch: Vec<usize> = (0..PADDED + 5).collect();
    let padded = padded_clipped_sum(zeros(), model, images, &batch);
    let plain = clipped_sum(model, images, &batch, &vec![1.0; batch.len()]);
    let differences = tree_zip(|a, b| (a - b).abs().max(..), &padded, &plain);
    for (name, difference) in differences.parameters() {
        assert!(difference.item::<f32>() < 1e-4, "{name}");
    }
    let padded = padded_clipped_sum(zeros(), model, images, &[]);
    for nothing in [padded, clipped_sum(model, images, &[], &[])] {
        for (name, sum) in nothing.parameters() {
            assert!(sum.to_vec::<f32>().iter().all(|&x| x == 0.0), "{name}");
        }
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let data = match &options.data {
        Some(folder) => match mnist(folder) {
            Ok(data) => data,
            Err(error) => {
                eprintln!("error: {error}");
                return ExitCode::from(2);
            }
        },
        None => {
            println!("no --data FOLDER given: learning from digits that the program draws itself");
            let digits = Digits::new(options.seed);
            let (images, test) = (options.images, options.images.div_ceil(6));
            Mnist {
                train: digits.images(0..images),
                test: digits.images(images..images + test),
            }
        }
    };
    run(&options, &data);
    ExitCode::SUCCESS
}

fn run(options: &Options, Mnist { train, test }: &Mnist) {
    let random = Generator::new(options.seed);
    let [private, ordinary] = [(); 2].map(|()| Network::new(&mut random.split(0)));
    check_padding(&private, train);

    let steps = train.len().div_ceil(BATCH_SIZE);
    let accountant = Accountant::new(BATCH_SIZE as f64 / train.len() as f64, options.noise);
    let mut optimizers = RATES.map(Sgd::new);
    let mut noise = random.split(1);
    let mut shuffler = random.split(2);
    println!(
        "{} parameters, {steps} steps in an epoch",
        private.parameter_count()
    );
    println!("          private                            not private");
    println!("epoch  ε at δ = {DELTA:e}  accuracy  seconds    accuracy  seconds");
    let mut privately = 0.0;
    for epoch in 1..=options.epochs {
        let start = Instant::now();
        for _ in 0..steps {
            private_step(&private, train, options.noise, &mut noise);
            optimizers[0].update(&private);
        }
        let seconds = start.elapsed().as_secs_f64();
        let epsilon = accountant.epsilon(epoch * steps, DELTA);
        privately = accuracy(&private, test);
        print!("{epoch:5}  {epsilon:13.3}  {privately:8.4}  {seconds:7.1}");

        let start = Instant::now();
        let order = shuffler.permutation(train.len()).to_vec::<i64>();
        let order: Vec<usize> = order.into_iter().map(|index| index as usize).collect();
        for batch in order.chunks(BATCH_SIZE) {
            ordinary_step(&ordinary, train, batch);
            optimizers[1].update(&ordinary);
        }
        let seconds = start.elapsed().as_secs_f64();
        println!("    {:8.4}  {seconds:7.1}", accuracy(&ordinary, test));
    }
    if options.epochs >= 3 && options.noise <= 1.1 && train.len() >= 30_000 {
        assert!(privately > 0.85);
    }
    println!("test accuracy, learned privately: {privately:.4}");
}
