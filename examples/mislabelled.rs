//! Wrong labels are found by their effect on the network: a tenth of the digits get another label,
//! and the examples are ranked by the squared lengths of their own gradients, summed over three moments of
//! training.
//!
//! To first order, a step on an example changes its own loss by the learning rate times
//! the squared norm of its gradient. An example that only its own gradient explains is either rare or
//! wrongly labelled.
//!
//! Source: Pruthi, Liu, Kale, Sundararajan, "Estimating training data influence by tracing gradient
//! descent", arXiv:2002.08484, NeurIPS 2020: self-influence by checkpoints (TracInCP).
//!
//! ```sh
//! cargo run --release --example mislabelled                     # digits that the program draws
//! cargo run --release --example mislabelled -- --data FOLDER    # MNIST, from its four files
//! ```

use std::path::PathBuf;
use std::process::ExitCode;

use bibun::array::{Array, Generator};
use bibun::datasets::{Digits, LabeledImages, mnist};
use bibun::functions::{
    Reduction, max_pool, relu, softmax_cross_entropy, softmax_cross_entropy_with,
};
use bibun::links::{Chain, Conv2d, Linear, Link};
use bibun::optimizers::{Optimizer, Sgd};
use bibun::{Variable, per_example};
use clap::Parser;

/// Finds digits with wrong labels.
#[derive(Parser)]
struct Options {
    /// Folder with the four files of MNIST, compressed or not; without it, digits are drawn
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
}

const COUNT: usize = 5000;
const WRONG: usize = COUNT / 10;
const CHECKPOINTS: usize = 3;
const EPOCHS_BETWEEN: usize = 4;
const LEARNING_RATE: f64 = 0.1;

#[derive(Chain)]
struct Network {
    convolutions: [Conv2d; 2],
    last: Linear,
}

impl Network {
    fn new(random: &mut Generator) -> Self {
        Self {
            convolutions: [Conv2d::new(1, 8, 5, random), Conv2d::new(8, 16, 5, random)],
            last: Linear::new(16 * 4 * 4, 10, random),
        }
    }
}

impl Link for Network {
    fn compute(&self, x: &Variable) -> Variable {
        let mut h = x.reshape([x.shape()[0], 1, 28, 28]);
        for convolution in &self.convolutions {
            h = max_pool(relu(convolution.forward(&h)), [2, 2]);
        }
        self.last.forward(&h.reshape([x.shape()[0], 256]))
    }
}

/// Images and the labels that they are said to have.
fn batch(images: &LabeledImages, labels: &[i64], indices: &[usize]) -> (Variable, Variable) {
    let (x, _) = images.batch(indices);
    let t: Vec<i64> = indices.iter().map(|&i| labels[i]).collect();
    (x.into(), Array::from(t).into())
}

fn train(model: &Network, images: &LabeledImages, labels: &[i64], random: &mut Generator) {
    let mut optimizer = Sgd::new(LEARNING_RATE);
    let order = random.permutation(COUNT).to_vec::<i64>();
    let order: Vec<usize> = order.into_iter().map(|i| i as usize).collect();
    for indices in order.chunks(50) {
        let (x, t) = batch(images, labels, indices);
        model.clear_grads();
        softmax_cross_entropy(model.forward(&x), t).backward();
        optimizer.update(model);
    }
}

/// The squared norm of each example's gradient.
fn squared_norms(model: &Network, images: &LabeledImages, labels: &[i64]) -> Vec<f32> {
    let all: Vec<usize> = (0..COUNT).collect();
    let parts = all.chunks(250).flat_map(|indices| {
        let (x, t) = batch(images, labels, indices);
        let losses = softmax_cross_entropy_with(model.forward(&x), t, Reduction::None);
        let norms = per_example(&losses, model).squared_norms();
        norms.to_vec::<f32>()
    });
    parts.collect()
}

fn main() -> ExitCode {
    let images = match Options::parse().data {
        Some(folder) => match mnist(folder) {
            Ok(data) => data.train,
            Err(error) => {
                eprintln!("error: {error}");
                return ExitCode::from(2);
            }
        },
        None => Digits::new(0).images(0..COUNT as u64),
    };
    let random = Generator::new(0);
    let mut labels: Vec<i64> = (0..COUNT).map(|i| images.label(i).into()).collect();
    let chosen = random
        .split(0)
        .choice(COUNT, WRONG, false, None)
        .to_vec::<i64>();
    let shifts = random.split(1).integers(1, 10, WRONG).to_vec::<i64>();
    let mut wrong = vec![false; COUNT];
    for (i, shift) in chosen.into_iter().zip(shifts) {
        labels[i as usize] = (labels[i as usize] + shift) % 10;
        wrong[i as usize] = true;
    }

    let model = Network::new(&mut random.split(2));
    let mut shuffler = random.split(3);
    let mut influence = vec![0.0; COUNT];
    for checkpoint in 1..=CHECKPOINTS {
        for _ in 0..EPOCHS_BETWEEN {
            train(&model, &images, &labels, &mut shuffler);
        }
        let squares = squared_norms(&model, &images, &labels);
        for (influence, square) in influence.iter_mut().zip(&squares) {
            *influence += LEARNING_RATE as f32 * square;
        }
        let mean = |of: bool| {
            let norms = squares
                .iter()
                .zip(&wrong)
                .filter(|(_, wrong)| **wrong == of);
            let (sum, count) = norms.fold((0.0, 0), |(sum, n), (s, _)| (sum + s.sqrt(), n + 1));
            sum / count as f32
        };
        println!(
            "checkpoint {checkpoint}: gradients are on average {:.2} long for right labels, {:.2} for wrong",
            mean(false),
            mean(true)
        );
    }

    let mut order: Vec<usize> = (0..COUNT).collect();
    order.sort_by(|&i, &j| influence[j].total_cmp(&influence[i]));
    let found = [10, 20].map(|percent| {
        let top = &order[..COUNT * percent / 100];
        let found = top.iter().filter(|&&i| wrong[i]).count() as f64 / WRONG as f64;
        println!(
            "in the top {percent} %: {:.1} % of the wrong labels (by chance {percent} %)",
            100.0 * found
        );
        found
    });
    assert!(found[0] > 0.75 && found[1] > 0.95);
    ExitCode::SUCCESS
}
