//! Nanoseconds per element of elementary functions of f32, alone and with their gradients, in cache
//! and in memory.
//!
//! `cargo bench -p bibun-benches --bench elementary [-- NAME..]`; `peers/elementary.py` prints the
//! same of PyTorch.

use std::time::Instant;

use bibun::array::{Array, DType, Generator};
use bibun::{Variable, functions, gradients};

type Function = fn(&Variable) -> Variable;

/// The functions, each with the range of its arguments.
const FUNCTIONS: &[(&str, f64, f64, Function)] = &[
    ("relu", -4.0, 4.0, |x| functions::relu(x)),
    ("exp", -10.0, 10.0, |x| functions::exp(x)),
    ("exp of lowest", -3.4e38, -3.3e38, |x| functions::exp(x)),
    ("tanh", -4.0, 4.0, |x| functions::tanh(x)),
    ("erf", -4.0, 4.0, |x| functions::erf(x)),
    ("gelu", -4.0, 4.0, |x| functions::gelu(x)),
    ("gelu_tanh", -4.0, 4.0, |x| functions::gelu_tanh(x)),
    ("sigmoid", -8.0, 8.0, |x| functions::sigmoid(x)),
    ("silu", -8.0, 8.0, |x| functions::silu(x)),
    ("softplus", -8.0, 8.0, |x| functions::softplus(x, 1.0)),
    ("mish", -8.0, 8.0, |x| functions::mish(x)),
    ("log", 0.01, 10.0, |x| functions::log(x)),
    ("sin", -10.0, 10.0, |x| functions::sin(x)),
    ("cos", -10.0, 10.0, |x| functions::cos(x)),
    ("pow 2.5", 0.01, 10.0, |x| functions::pow(x, 2.5)),
];

/// The median time of a call in nanoseconds, of as many calls as fit into a fifth of a second.
fn median(mut call: impl FnMut()) -> f64 {
    let (start, mut times) = (Instant::now(), Vec::new());
    while times.len() < 5 || start.elapsed().as_millis() < 200 {
        let before = Instant::now();
        call();
        times.push(before.elapsed().as_secs_f64() * 1e9);
    }
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let chosen: Vec<String> = std::env::args()
        .skip(1)
        .filter(|name| !name.starts_with('-'))
        .collect();
    println!(
        "{:16}{:>10}{:>14}{:>10}{:>14}",
        "", "16384", "with gradient", "1000000", "with gradient"
    );
    for &(name, low, high, function) in FUNCTIONS {
        if !chosen.is_empty() && !chosen.iter().any(|chosen| chosen == name) {
            continue;
        }
        print!("{name:16}");
        for size in [16_384, 1_000_000] {
            let x: Array = Generator::new(1).uniform([size], low, high, DType::F32);
            let constant = Variable::constant(x.clone());
            let leaf = Variable::new(x);
            let ones = Variable::constant(Array::ones([size], DType::F32));
            let forward = median(|| drop(function(&constant)));
            let both = median(|| {
                let y = function(&leaf);
                drop(gradients(&[&(y * &ones).sum(..)], &[&leaf]));
            });
            print!(
                "{:>10.3}{:>14.3}",
                forward / size as f64,
                both / size as f64
            );
        }
        println!();
    }
}
