//! Private training over processes: norms and clipped sums belong to examples, and the noise is added once.
//!
//! ```sh
//! cargo build --release --example private_mpi
//! mpiexec -n 2 target/release/examples/private_mpi
//! ```
//!
//! The result is that of one process up to rounding, and so is what it tells of a single example. All processes
//! draw the same sample of all examples, of which each has its part, and the same noise, for the sum of all. So
//! the accountant, which is that of the example `private_training`, counts the batch of all processes: the
//! probability with which an example is taken, whichever process then has it, and the noise on the whole sum.

#[path = "../../examples/private_training/accountant.rs"]
mod accountant;

use accountant::Accountant;
use bibun::array::{Array, DType, Generator};
use bibun::datasets::Digits;
use bibun::functions::{Reduction, accuracy, softmax_cross_entropy_with};
use bibun::links::{Chain, Linear, Link};
use bibun::optimizers::{MomentumSgd, Optimizer};
use bibun::{Variable, clip_factors, eval_mode, per_example};

/// The examples of a step, of all processes together, on average.
const BATCH: usize = 64;
const NORM: f64 = 1.0;
/// The standard deviation of the noise, in units of the norm.
const NOISE: f64 = 0.6;
const STEPS: usize = 64;
const DELTA: f64 = 1e-5;

fn main() {
    let world = bibun_mpi::init().unwrap_or_else(|error| panic!("{error}"));
    let digits = Digits::new(0);
    let train = digits.images(0..2000);
    let probability = BATCH as f64 / train.len() as f64;
    let model = Linear::new(784, 10, &mut Generator::new(0));
    // No `DataParallel`: the gradient that it gets is that of all processes.
    let mut optimizer = MomentumSgd::new(0.1, 0.9);
    // The same on all processes.
    let [mut sampler, mut noise] = [1, 2].map(Generator::new);
    let mut examples = 0;
    for _ in 0..STEPS {
        let taken = sampler.bernoulli(probability, train.len()).to_vec::<bool>();
        let batch: Vec<usize> = (0..train.len()).filter(|&i| taken[i]).collect();
        let (x, t) = train.batch(&batch[world.share(batch.len())]);
        examples += t.size();
        let y = model.forward(&Variable::constant(x));
        let losses = softmax_cross_entropy_with(y, t, Reduction::None);
        let rows = per_example(&losses, &model);
        let clipped = rows.weighted_sum(&clip_factors(&rows.norms(), NORM));
        drop(losses);
        for ((_, parameter), (_, own)) in model.parameters().into_iter().zip(clipped.parameters()) {
            let sum = world.all_reduce(&own.array());
            let noise = noise.normal(sum.shape(), 0.0, NOISE * NORM, DType::F32);
            // How many examples there are is private too, so it is divided by how many are expected.
            let mean = (sum + noise) * Array::from(1.0 / BATCH as f32);
            parameter.set_grad(&Variable::constant(mean));
        }
        optimizer.update(&model);
    }
    let all = world
        .all_reduce(&Array::from(examples as i64))
        .item::<i64>();
    let indices: Vec<usize> = (0..500).collect();
    let (x, t) = digits.images(2000..2500).batch(&indices);
    let y = eval_mode(|| model.forward(&Variable::constant(x)));
    if world.is_first() {
        let epsilon = Accountant::new(probability, NOISE).epsilon(STEPS, DELTA);
        println!(
            "{} processes: {all} examples in {STEPS} steps, ε = {epsilon:.3} at δ = {DELTA:e}, \
             test accuracy {:.3}",
            world.size(),
            accuracy(&y, &t)
        );
    }
}
