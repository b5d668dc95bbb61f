//! Microseconds of causal attention of f32, alone and with its gradients.
//!
//! `cargo bench -p bibun-benches --bench attention`; `peers/attention.py` prints the same of PyTorch.
//! The number of threads is that of `RAYON_NUM_THREADS`.

use std::time::Instant;

use bibun::array::{Array, DType, Generator};
use bibun::functions::{attention, causal_attention};
use bibun::{Variable, gradients};

/// The median time of a call in microseconds, of as many calls as fit into a third of a second.
fn median(mut call: impl FnMut()) -> f64 {
    let (start, mut times) = (Instant::now(), Vec::new());
    while times.len() < 3 || start.elapsed().as_millis() < 300 {
        let before = Instant::now();
        call();
        times.push(before.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    println!(
        "{:24}{:>12}{:>14}",
        "batch, heads, length, size", "forward", "with gradient"
    );
    for causal in [true, false] {
        for [batch, heads, length, size] in [
            [8, 4, 64, 24],
            [8, 4, 64, 64],
            [4, 4, 256, 32],
            [2, 4, 512, 64],
            [1, 4, 2048, 24],
            [1, 4, 2048, 64],
        ] {
            let shape = [batch, heads, length, size];
            let draw = |seed| Generator::new(seed).normal(shape, 0.0, 1.0, DType::F32);
            let constants = [1, 2, 3].map(|seed| Variable::constant(draw(seed)));
            let leaves = [1, 2, 3].map(|seed| Variable::new(draw(seed)));
            let ones = Variable::constant(Array::ones(shape, DType::F32));
            let attend = |[q, k, v]: &[Variable; 3]| match causal {
                true => causal_attention(q, k, v, None),
                false => attention(q, k, v, None),
            };
            let forward = median(|| drop(attend(&constants)));
            let both = median(|| {
                let y = attend(&leaves);
                drop(gradients(&[&(y * &ones).sum(..)], &leaves.each_ref()));
            });
            let name = format!("{shape:?}{}", if causal { " causal" } else { "" });
            println!("{name:24}{forward:>12.1}{both:>14.1}");
        }
    }
}
