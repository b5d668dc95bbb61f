//! Recurrent networks: forward runs and training steps, eager and compiled.
//!
//! `cargo bench -p bibun-benches --bench recurrent [-- BATCH TIME INPUTS UNITS]`. The times are medians;
//! `benches/peers/recurrent.py` measures the same with PyTorch.

use std::time::{Duration, Instant};

use bibun::array::{DType, Generator};
use bibun::links::{Gru, Link, Lstm, Recurrent, RecurrentCell, Rnn};
use bibun::{Variable, compile, eval_mode, grad, no_grad};

/// How long each of them is run.
const PATIENCE: Duration = Duration::from_millis(1200);

/// Returns the median in milliseconds.
fn median(run: &dyn Fn()) -> f64 {
    for _ in 0..3 {
        run();
    }
    let (begin, mut times) = (Instant::now(), Vec::new());
    while begin.elapsed() < PATIENCE || times.len() < 5 {
        let begin = Instant::now();
        run();
        times.push(begin.elapsed());
    }
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}

fn row<C: RecurrentCell>(name: &str, network: Recurrent<C>, x: &Variable) {
    let loss = |network: &Recurrent<C>, x: &Variable| network.forward(x).square().sum(..);
    let forward = median(&|| drop(no_grad(|| eval_mode(|| network.forward(x)))));
    let eager = median(&|| drop(grad(|network| loss(network, x), &network)));
    let step = compile(move |(network, x): &(Recurrent<C>, Variable)| {
        grad(|network: &Recurrent<C>| loss(network, x), network)
    });
    let argument = (network, x.clone());
    let begin = Instant::now();
    step.call(&argument);
    let first = begin.elapsed().as_secs_f64() * 1e3;
    let compiled = median(&|| drop(step.call(&argument)));
    println!("| {name} | {forward:.2} | {eager:.2} | {compiled:.2} | {first:.1} |");
}

fn main() {
    let sizes: Vec<usize> = (std::env::args().skip(1))
        .filter_map(|word| word.parse().ok())
        .collect();
    let [batch, time, inputs, units] = <[usize; 4]>::try_from(sizes).unwrap_or([32, 64, 64, 128]);
    println!("{batch} sequences of {time} steps, {inputs} inputs, {units} units");
    println!("| | forward, ms | step, ms | compiled step, ms | first call, ms |");
    println!("|---|---|---|---|---|");
    let generator = &mut Generator::new(0);
    let x = generator.normal([batch, time, inputs], 0.0, 1.0, DType::F32);
    let x = Variable::constant(x);
    row("lstm", Lstm::new(inputs, units, generator), &x);
    row("gru", Gru::new(inputs, units, generator), &x);
    row("rnn", Rnn::new(inputs, units, generator), &x);
}
