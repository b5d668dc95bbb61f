//! How large should a batch be? The gradients of single examples answer this: as long as their noise
//! is larger than their mean, more examples in a step improve it. The noise scale, the trace of their
//! covariance divided by the squared norm of their mean, is about the batch size at which that ends, and it
//! grows as the loss falls.
//!
//! For a batch of n with gradients gᵢ of mean ḡ, these estimates do not depend on n in expectation:
//!
//! ```text
//! tr Σ = (Σᵢ |gᵢ|² - n |ḡ|²) / (n - 1),    |G|² = |ḡ|² - tr Σ / n
//! ```
//!
//! One walk back computes both and the step itself. Without the norms of single gradients one needs
//! batches of two sizes, and has only their noisy difference to divide by.
//!
//! Source: McCandlish, Kaplan, Amodei, "An empirical model of large-batch training",
//! arXiv:1812.06162, 2018: the simple noise scale, section 2.2 and appendix A.1.
//!
//! ```sh
//! cargo run --release --example gradient_noise_scale                     # digits that it draws
//! cargo run --release --example gradient_noise_scale -- --data FOLDER    # MNIST, from its files
//! ```

use std::path::PathBuf;
use std::process::ExitCode;

use bibun::array::{DType, Generator};
use bibun::datasets::{Digits, LabeledImages, mnist};
use bibun::functions::{Reduction, relu, softmax_cross_entropy_with};
use bibun::links::{Chain, Linear, Link};
use bibun::optimizers::{Optimizer, Sgd};
use bibun::{Tree, Variable, per_example, ravel_tree, tree_map};
use clap::Parser;

/// Measures the noise of gradients while a network learns to read digits.
#[derive(Parser)]
struct Options {
    /// Folder with the four files of MNIST, compressed or not; without it, digits are drawn
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
}

const COUNT: usize = 20_000;
const BATCH_SIZE: usize = 500;

#[derive(Chain)]
struct Mlp {
    l1: Linear,
    l2: Linear,
}

impl Link for Mlp {
    fn compute(&self, x: &Variable) -> Variable {
        self.l2.forward(&relu(self.l1.forward(x)))
    }
}

/// Of the gradients of single examples: the trace of their covariance and the squared norm of their
/// mean, both estimated without bias.
#[derive(Clone, Copy, Default)]
struct Moments {
    trace: f64,
    signal: f64,
}

impl Moments {
    /// From the squared norms in a batch, and that of their mean.
    fn of(squares: &Variable, square_of_mean: f64) -> Self {
        let n = squares.size() as f64;
        let sum = squares.cast(DType::F64).sum(..).item::<f64>();
        let trace = (sum - n * square_of_mean) / (n - 1.0);
        let signal = square_of_mean - trace / n;
        Self { trace, signal }
    }

    /// Means of the parts. The scale is then a quotient of means: a mean of quotients would be biased.
    fn mean(all: &[Self]) -> Self {
        let mean = |part: fn(&Self) -> f64| all.iter().map(part).sum::<f64>() / all.len() as f64;
        Self {
            trace: mean(|moments| moments.trace),
            signal: mean(|moments| moments.signal),
        }
    }

    fn scale(&self) -> f64 {
        self.trace / self.signal
    }
}

fn square<T: Tree>(gradient: &T) -> f64 {
    let (all, _) = ravel_tree(gradient);
    all.cast(DType::F64).square().sum(..).item()
}

/// A step, the loss before it and the moments seen on the way.
fn learn(model: &Mlp, images: &LabeledImages, batch: &[usize]) -> (f64, Moments) {
    let (x, t) = images.batch(batch);
    let losses = softmax_cross_entropy_with(model.forward(&x.into()), t, Reduction::None);
    let gradients = per_example(&losses, model);
    let mean = tree_map(|gw| gw / batch.len() as f64, &gradients.sum());
    model.set_gradients(&mean);
    let moments = Moments::of(&gradients.squared_norms(), square(&mean));
    (losses.cast(DType::F64).mean(..).item(), moments)
}

fn show(when: &str, loss: &str, moments: &Moments) {
    let Moments { trace, signal } = moments;
    let scale = moments.scale();
    println!("{when:11}  {loss:>6}  {trace:7.2}  {signal:7.4}  {scale:11.0}");
}

fn shuffled(random: &mut Generator) -> Vec<usize> {
    let order = random.permutation(COUNT).to_vec::<i64>();
    order.into_iter().map(|i| i as usize).collect()
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
    let layers = &mut random.split(0);
    let model = Mlp {
        l1: Linear::new(784, 64, layers),
        l2: Linear::new(64, 10, layers),
    };
    let mut shuffler = random.split(1);
    // At a higher rate over batch size it is the noise of the steps that keeps the gradient up.
    let mut optimizer = Sgd::new(0.1);

    // Before anything is learned, small batches and one of all examples agree.
    let order = shuffled(&mut shuffler);
    let small: Vec<Moments> = order
        .chunks(BATCH_SIZE)
        .map(|batch| learn(&model, &images, batch).1)
        .collect();
    let (small, all) = (Moments::mean(&small), learn(&model, &images, &order).1);
    println!("               loss     tr Σ     |G|²  noise scale");
    show("at first", "", &small);
    let close = |a: f64, b: f64| (a - b).abs() < 0.03 * b;
    assert!(close(small.trace, all.trace) && close(small.signal, all.signal));

    // The noise of the estimates falls with the number of steps that they are means of.
    let mut scale = small.scale();
    let mut epoch = 0;
    for last in [1, 2, 4, 8, 16] {
        let (mut seen, mut losses) = (Vec::new(), Vec::new());
        while epoch < last {
            epoch += 1;
            for batch in shuffled(&mut shuffler).chunks(BATCH_SIZE) {
                let (loss, moments) = learn(&model, &images, batch);
                optimizer.update(&model);
                losses.push(loss);
                seen.push(moments);
            }
        }
        let loss = losses.iter().sum::<f64>() / losses.len() as f64;
        let moments = Moments::mean(&seen);
        show(&format!("to epoch {last}"), &format!("{loss:.4}"), &moments);
        assert!(moments.scale() > scale);
        scale = moments.scale();
    }
    assert!(scale > 5.0 * small.scale());
    ExitCode::SUCCESS
}
