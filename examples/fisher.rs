//! A network learns a second task without forgetting the first. Weights that matter for the first
//! are held near their old values. The measure of how much a weight matters is the diagonal of the Fisher
//! information: the mean, over examples, of its squared derivative. The tasks are the original digits, and
//! digits whose pixels are permuted.
//!
//! In the Fisher information the labels are drawn from the network's predictions, not taken from the
//! data. With labels from the data it is the "empirical" Fisher information, which does not estimate the
//! true one: where the network fits the data, gradients at the labels vanish, whatever the curvature
//! (Kunstner, Balles, Hennig, "Limitations of the empirical Fisher approximation for natural gradient
//! descent", arXiv:1905.12558, NeurIPS 2019). Both are shown.
//!
//! Source: Kirkpatrick et al., "Overcoming catastrophic forgetting in neural networks",
//! arXiv:1612.00796, PNAS 2017.
//!
//! ```sh
//! cargo run --release --example fisher                     # digits that the program draws
//! cargo run --release --example fisher -- --data FOLDER    # MNIST, from its four files
//! ```

use std::path::PathBuf;
use std::process::ExitCode;

use bibun::array::{Array, DType, Generator};
use bibun::datasets::{Digits, LabeledImages, Mnist, mnist};
use bibun::functions::{
    Reduction, relu, softmax, softmax_cross_entropy, softmax_cross_entropy_with,
};
use bibun::links::{Chain, Linear, Link};
use bibun::optimizers::{Adam, Optimizer};
use bibun::{
    GradOptions, Variable, no_grad, per_example, per_example_with, ravel_tree, s, tree_map,
    tree_zip,
};
use clap::Parser;

/// Learns two tasks, one after the other.
#[derive(Parser)]
struct Options {
    /// Folder with the four files of MNIST, compressed or not; without it, digits are drawn
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Images to learn from (fewer, if there are fewer); a fifth as many to test
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(100..))]
    images: u64,
}

const EPOCHS: usize = 10;
const BATCH_SIZE: usize = 100;
/// How strongly weights are held, relative to the loss of the second task.
const STRENGTH: f64 = 100.0;

#[derive(Chain)]
struct Mlp {
    l1: Linear,
    l2: Linear,
    l3: Linear,
}

impl Link for Mlp {
    fn compute(&self, x: &Variable) -> Variable {
        let h = relu(self.l1.forward(x));
        self.l3.forward(&relu(self.l2.forward(&h)))
    }
}

/// Images as rows, and what they show.
struct Task {
    train: (Array, Array),
    test: (Array, Array),
}

impl Task {
    fn new(data: &Mnist, images: u64) -> Self {
        let first = |of: &LabeledImages, count: u64| {
            let indices: Vec<usize> = (0..of.len().min(count as usize)).collect();
            of.batch(&indices)
        };
        Self {
            train: first(&data.train, images),
            test: first(&data.test, images / 5),
        }
    }

    fn permuted(&self, random: &mut Generator) -> Self {
        let order = random.permutation(784);
        let of = |(x, t): &(Array, Array)| (x.take(&order, 1), t.clone());
        Self {
            train: of(&self.train),
            test: of(&self.test),
        }
    }

    fn accuracy(&self, model: &Mlp) -> f64 {
        let (x, t) = &self.test;
        let y = no_grad(|| model.forward(&x.into()));
        y.array().argmax(1).equal(t).sum(..).item::<i64>() as f64 / t.size() as f64
    }
}

/// Trains on a task, with something added to the loss.
fn learn(model: &Mlp, task: &Task, penalty: impl Fn(&Mlp) -> Variable) {
    let mut random = Generator::new(1);
    let mut optimizer = Adam::new(0.001);
    let (x, t) = &task.train;
    for _ in 0..EPOCHS {
        let order = random.permutation(t.size());
        for start in (0..t.size()).step_by(BATCH_SIZE) {
            let batch = order.slice(s![start..t.size().min(start + BATCH_SIZE)]);
            let y = model.forward(&x.take(&batch, 0).into());
            let loss = softmax_cross_entropy(y, t.take(&batch, 0)) + penalty(model);
            model.clear_grads();
            loss.backward();
            // Without history the parameters are updated in place.
            drop(loss);
            optimizer.update(model);
        }
    }
}

/// The loss of each image.
fn losses(y: &Variable, t: &Variable) -> Variable {
    softmax_cross_entropy_with(y, t, Reduction::None)
}

/// The diagonal of the Fisher information of a task, estimated by one label for each image, drawn
/// from what the network believes.
fn fisher(model: &Mlp, (x, _): &(Array, Array)) -> Mlp {
    let y = model.forward(&x.into());
    // The largest of scores with noise of Gumbel's distribution: a draw from their softmax.
    let uniform = Generator::new(2).uniform(y.shape(), 0.0, 1.0, DType::F64);
    let gumbel = -(-Variable::from(uniform).log()).log();
    let drawn = (&y + gumbel).argmax(1);
    per_example(&losses(&y, &drawn), model).second_moment()
}

/// What [`fisher`] is in expectation: the mean over all labels, a walk for each.
fn exact_fisher(model: &Mlp, (x, t): &(Array, Array)) -> Mlp {
    let y = model.forward(&x.into());
    let probabilities = no_grad(|| softmax(&y, 1));
    let of_class = |class: usize| {
        let t = Variable::constant(Array::full(t.shape(), class as i64));
        let options = GradOptions {
            cotangents: vec![probabilities.slice(s![.., class]).sqrt()],
            ..Default::default()
        };
        per_example_with(&losses(&y, &t), model, &options).second_moment()
    };
    let classes = (0..10).map(of_class);
    let sum = classes.reduce(|sum, more| tree_zip(|a, b| a + b, &sum, &more));
    sum.expect("ten classes")
}

/// The same with the labels of the data.
fn empirical_fisher(model: &Mlp, (x, t): &(Array, Array)) -> Mlp {
    let y = model.forward(&x.into());
    per_example(&losses(&y, &t.into()), model).second_moment()
}

/// `strength / 2 · Σ importance (w - w₀)²`, by which weights are held where they are now.
fn spring(model: &Mlp, importance: &Mlp) -> impl Fn(&Mlp) -> Variable {
    let here = ravel_tree(&tree_map(|w| w.array().into(), model)).0;
    let importance = ravel_tree(importance).0;
    move |model| {
        let moved = ravel_tree(model).0 - &here;
        0.5 * STRENGTH * (&importance * moved.square()).sum(..)
    }
}

fn main() -> ExitCode {
    let Options { data, images } = Options::parse();
    let data = match data {
        Some(folder) => match mnist(folder) {
            Ok(data) => data,
            Err(error) => {
                eprintln!("error: {error}");
                return ExitCode::from(2);
            }
        },
        None => {
            let digits = Digits::new(0);
            Mnist {
                train: digits.images(0..images),
                test: digits.images(images..images + images / 5),
            }
        }
    };
    let random = Generator::new(0);
    let first = Task::new(&data, images);
    let second = first.permuted(&mut random.split(1));
    let layers = &mut random.split(0);
    let start = Mlp {
        l1: Linear::new(784, 100, layers),
        l2: Linear::new(100, 100, layers),
        l3: Linear::new(100, 10, layers),
    };
    learn(&start, &first, |_| Variable::constant(0f32));
    let drawn = fisher(&start, &first.train);
    let given = empirical_fisher(&start, &first.train);
    let exact = exact_fisher(&start, &first.train);
    let trace = |fisher: &Mlp| ravel_tree(fisher).0.sum(..).item::<f64>();
    let [estimate, truth, empirical] = [&drawn, &exact, &given].map(trace);
    println!(
        "trace of the Fisher information: {truth:.1}, estimated by drawn labels {estimate:.1}"
    );
    // The network is right more often than it believes: this one is smaller, and holds less.
    println!("trace of the empirical one: {empirical:.1}");
    // One label is drawn for each image, so that of few images the estimate is rough.
    let tolerance = if images < 10_000 { 0.25 } else { 0.1 };
    assert!((estimate / truth - 1.0).abs() < tolerance && empirical < 0.7 * truth);

    let accuracies = |model: &Mlp| [&first, &second].map(|task| task.accuracy(model));
    let show = |what: &str, [first, second]: [f64; 2]| {
        println!("{what:26}  {first:10.3}  {second:11.3}");
        [first, second]
    };
    println!("accuracy on                 first task  second task");
    let known = show("after the first task", accuracies(&start));
    println!("after the second as well,");
    let second_task = |what, importance: &Mlp| {
        let model = tree_map(|w| Variable::new(w.array()), &start);
        learn(&model, &second, spring(&start, importance));
        show(what, accuracies(&model))
    };
    let mean = truth / start.parameter_count() as f64;
    let free = second_task("  free", &tree_map(|w| w * 0.0, &drawn));
    second_task("  all held alike", &tree_map(|w| w * 0.0 + mean, &drawn));
    let held = second_task("  held by Fisher", &drawn);
    second_task("  held by empirical Fisher", &given);
    assert!(held[0] > free[0] + 0.05 && held[1] > free[1] - 0.1);
    assert!(held[0] > known[0] - 0.03);
    ExitCode::SUCCESS
}
