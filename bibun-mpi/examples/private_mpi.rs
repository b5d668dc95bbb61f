//! Private training over processes: norms and clipped sums belong to examples, and the noise is added once.
//!
//! ```sh
//! cargo build --example private_mpi
//! mpiexec -n 2 target/debug/examples/private_mpi
//! ```
//!
//! The result is that of one process up to rounding. What the training tells of a single example depends on the
//! noise, on the norm that gradients are clipped to, and on the batch of all processes, which an accountant
//! would count; that of bibun is in the example `private_training`.

use bibun::array::{Array, DType, Generator};
use bibun::datasets::{DataLoader, Digits};
use bibun::functions::{Reduction, accuracy, softmax_cross_entropy_with};
use bibun::links::{Chain, Linear, Link};
use bibun::optimizers::{MomentumSgd, Optimizer};
use bibun::{Variable, clip_factors, eval_mode, per_example};

const BATCH: usize = 64;
const NORM: f64 = 1.0;
const NOISE: f64 = 0.5;

fn main() {
    let world = bibun_mpi::init().unwrap_or_else(|error| panic!("{error}"));
    let digits = Digits::new(0);
    let mut train = DataLoader::new(digits.images(0..2000), BATCH)
        .shuffle(0)
        .drop_last()
        .shard(&world);
    let model = Linear::new(784, 10, &mut Generator::new(0));
    // No `DataParallel`: the gradient that it gets is that of all processes.
    let mut optimizer = MomentumSgd::new(0.1, 0.9);
    // The same on all processes.
    let mut noise = Generator::new(1);
    for _ in 0..2 * train.batches_per_epoch() {
        let (x, t) = train.next_batch().unwrap_or_else(|error| panic!("{error}"));
        let y = model.forward(&Variable::constant(x));
        let losses = softmax_cross_entropy_with(y, t, Reduction::None);
        let rows = per_example(&losses, &model);
        let clipped = rows.weighted_sum(&clip_factors(&rows.norms(), NORM));
        drop(losses);
        for ((_, parameter), (_, own)) in model.parameters().into_iter().zip(clipped.parameters()) {
            let sum = world.all_reduce(&own.array());
            let noise = noise.normal(sum.shape(), 0.0, NOISE * NORM, DType::F32);
            let mean = (sum + noise) * Array::from(1.0 / BATCH as f32);
            parameter.set_grad(&Variable::constant(mean));
        }
        optimizer.update(&model);
    }
    let (x, t) = DataLoader::new(digits.images(2000..2500), 500)
        .next_batch()
        .unwrap_or_else(|error| panic!("{error}"));
    let y = eval_mode(|| model.forward(&Variable::constant(x)));
    if world.is_first() {
        println!(
            "{} processes, test accuracy: {:.3}",
            world.size(),
            accuracy(&y, &t)
        );
    }
}
