//! What data parallel training costs on these processes, and what it would cost on more of them.
//!
//! ```sh
//! mpiexec -n 2 target/release/examples/scaling
//! ```
//!
//! It measures a step of a perceptron alone and together, the bytes that a process sends for a step beside the
//! least that is possible, the part of the communication that is hidden behind the walk back, and the latency
//! and bandwidth of messages. The prediction is for gradients of P bytes in b buckets, of which a process sends
//! a part to each of the others, one after the other, and gets their sums:
//! `2 (n - 1) b α + 2 (n - 1) / n P / β`, with the measured latency α and the bandwidth β of the network. Of that
//! the part is hidden that was hidden here, as long as the walk back, two thirds of a step, is long enough.
//! Times are medians and, of messages, the least: other programs on the machine only add to them.

use std::time::{Duration, Instant};

use bibun::Variable;
use bibun::array::{Array, DType, Generator};
use bibun::links::{Chain, Link, Mlp};
use bibun::optimizers::{Optimizer, Sgd};
use bibun::parallel::{Communicator, DataParallel};

const SIZES: [usize; 5] = [784, 1024, 1024, 1024, 10];
const EXAMPLES: usize = 128;
const STEPS: u32 = 30;
/// The default of `DataParallel::bucket_bytes`.
const BUCKET: f64 = (4 << 20) as f64;

fn main() {
    let world = bibun_mpi::init().unwrap_or_else(|error| panic!("{error}"));
    let model = Mlp::new(&SIZES, &mut Generator::new(0));
    let bytes = 4.0 * model.parameter_count() as f64;
    let x = Generator::new(1).normal([EXAMPLES, SIZES[0]], 0.0, 1.0, DType::F32);
    let x = Variable::constant(x);
    let train = |optimizer: &mut dyn Optimizer| {
        let mut step =
            || drop(optimizer.minimize(&model, &mut || model.forward(&x).square().mean(..)));
        step();
        world.barrier();
        let timed = |_| {
            let began = Instant::now();
            step();
            began.elapsed()
        };
        let mut times: Vec<Duration> = (0..STEPS).map(timed).collect();
        times.sort();
        times[times.len() / 2]
    };
    let alone = train(&mut Sgd::new(0.0));
    let before = world.traffic();
    let together = train(&mut DataParallel::new(Sgd::new(0.0), &world).check_every(0));
    let after = world.traffic();
    let steps = f64::from(STEPS + 1);
    let sent = (after.bytes_sent - before.bytes_sent) as f64 / steps;
    let n = world.size() as f64;
    let least = 2.0 * (n - 1.0) / n * bytes;
    let seconds = |time: Duration| time.as_secs_f64() / steps;
    let (busy, waited) = (
        seconds(after.busy - before.busy),
        seconds(after.waited - before.waited),
    );
    let hidden = (1.0 - waited / busy).max(0.0);
    let message = (world.size() > 1).then(|| messages(&world));
    if !world.is_first() {
        return;
    }
    println!(
        "{} processes, {:.1} MB of parameters",
        world.size(),
        bytes / 1e6
    );
    println!(
        "a step: {:.1} ms alone, {:.1} ms together",
        ms(alone),
        ms(together)
    );
    println!(
        "sent for a step: {:.3} MB, at least {:.3} MB",
        sent / 1e6,
        least / 1e6
    );
    let Some((latency, bandwidth)) = message else {
        return;
    };
    println!(
        "under way {:.1} ms, hidden {:.0} %",
        busy * 1e3,
        hidden * 100.0
    );
    println!(
        "a message: {:.1} µs, and {:.2} GB/s",
        latency * 1e6,
        bandwidth / 1e9
    );
    println!(
        "\npredicted, at {:.1} ms for a step alone and the measured latency:",
        ms(alone)
    );
    println!(
        "{:>10} {:>12} {:>16} {:>12}",
        "processes", "Gbit/s", "communication", "efficiency"
    );
    for n in [8.0, 64.0, 1024.0] {
        for network in [10.0, 100.0] {
            let buckets = (bytes / BUCKET).ceil();
            let time = 2.0 * (n - 1.0) * buckets * latency
                + 2.0 * (n - 1.0) / n * bytes / (network * 1e9 / 8.0);
            let behind = (time * hidden).min(alone.as_secs_f64() * 2.0 / 3.0);
            let step = alone.as_secs_f64() + time - behind;
            let efficiency = alone.as_secs_f64() / step * 100.0;
            println!(
                "{n:>10} {network:>12} {:>13.1} ms {efficiency:>10.0} %",
                time * 1e3
            );
        }
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Measures the seconds that a message takes one way, and the bytes per second of a large one, at best.
fn messages(world: &Communicator) -> (f64, f64) {
    let there = |size: usize, times: u32| {
        let x = Array::zeros([size], DType::U8);
        let spec = bibun::Spec::new([size], DType::U8);
        world.barrier();
        let there_and_back = |_| {
            let began = Instant::now();
            match world.rank() {
                0 => {
                    world.send(&x, 1);
                    world.receive(&spec, 1);
                }
                1 => {
                    world.receive(&spec, 0);
                    world.send(&x, 0);
                }
                _ => {}
            }
            began.elapsed()
        };
        let least = (0..times).map(there_and_back).min();
        least.unwrap_or_default().as_secs_f64() / 2.0
    };
    let latency = there(8, 500);
    let size = 16 << 20;
    (latency, size as f64 / (there(size, 20) - latency))
}
