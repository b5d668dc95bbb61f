//! Numerical definitions: functions that run as they are, that are differentiated, and that are compiled.
//!
//! ```sh
//! cargo run --release --example numerical_definitions
//! cargo run --release --example numerical_definitions -- --size 100000 --out FOLDER   # the program as a page
//! ```
//!
//! It goes the way of the article that announced Nx, numerical computing for Elixir. There, `defn` marks the
//! functions that may be differentiated and compiled by EXLA; here every function of Variables may, so the
//! transformations take plain Rust functions. The stations are those of the article: softmax, a function of two
//! arguments with its gradient, the compiled softmax beside the eager one. The last one is a step of training as a
//! numerical definition of its own.

use std::path::PathBuf;
use std::time::Instant;

use bibun::array::{DType, Generator};
use bibun::{Variable, compile, grad, tree_zip, value_and_grad};
use clap::Parser;

/// Differentiates and compiles plain functions.
#[derive(Parser)]
struct Options {
    /// Numbers that softmax is timed with
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    size: u64,
    /// Folder for the compiled softmax as a page
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

fn softmax(x: &Variable) -> Variable {
    let powers = (x - x.max(..)).exp();
    &powers / powers.sum(..)
}

fn tanh_power((a, b): &(Variable, Variable)) -> Variable {
    (a.tanh() + b.square()).sum(..)
}

/// The mean squared error of a line through points.
fn error(line: &(Variable, Variable), points: &(Variable, Variable)) -> Variable {
    let ((slope, intercept), (x, y)) = (line, points);
    (slope * x + intercept - y).square().mean(..)
}

/// One step down the gradient: the line, and how far the last one was from the points.
fn descend(
    (line, points): &((Variable, Variable), (Variable, Variable)),
) -> ((Variable, Variable), Variable) {
    let (loss, gradient) = value_and_grad(|line| error(line, points), line);
    let stepped = tree_zip(|w, g| w - 0.1 * g, line, &gradient);
    (stepped, loss)
}

/// The shortest of some runs, in milliseconds.
fn milliseconds(run: impl Fn() -> Variable) -> f64 {
    let times = (0..10).map(|_| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64() * 1e3
    });
    times.fold(f64::INFINITY, f64::min)
}

fn main() {
    let options = Options::parse();

    // A definition runs as it is.
    let y = softmax(&Variable::constant([1.0, 2.0, 3.0, 4.0]));
    println!("softmax: {y}");
    assert!((y.sum(..).item::<f64>() - 1.0).abs() < 1e-15);

    // It has a gradient, and so has the gradient.
    let at = (Variable::constant(1.0), Variable::constant(2.0));
    let (value, (by_a, by_b)) = value_and_grad(tanh_power, &at);
    println!("tanh(1) + 2² = {value}, its gradient {by_a}, {by_b}");
    assert_eq!(by_b.item::<f64>(), 4.0);
    let second = grad(|a| grad(|a| a.tanh(), a), &at.0);
    println!("the second derivative of tanh at 1: {second}");

    // Compiled, it is one program of few passes over memory, with the same bits.
    let compiled = compile(softmax);
    let mut generator = Generator::new(0);
    let numbers = generator.uniform(options.size as usize, 0.0, 1.0, DType::F64);
    let x = Variable::constant(numbers);
    compiled.check(&x).expect("the same bits");
    let [eager, fast] = [
        milliseconds(|| softmax(&x)),
        milliseconds(|| compiled.call(&x)),
    ];
    println!("\n{}\n", compiled.profile(&x));
    println!(
        "softmax of {} numbers: {eager:.2} ms eager, {fast:.2} ms compiled",
        options.size
    );
    if let Some(folder) = options.out {
        compiled
            .save(folder.join("softmax.html"))
            .expect("the page is written");
    }

    // A step of training is a definition, too: the gradient and what becomes of it are compiled as a whole.
    let step = compile(descend);
    let x = Variable::constant(generator.uniform(200, -1.0, 1.0, DType::F64));
    let noise = Variable::constant(generator.normal(200, 0.0, 0.1, DType::F64));
    let y = 3.0 * &x - 0.5 + noise;
    let line = (Variable::constant(0.0), Variable::constant(0.0));
    let mut argument = (line, (x, y));
    let mut by_hand = argument.clone();
    for _ in 0..200 {
        argument.0 = step.call(&argument).0;
        by_hand.0 = descend(&by_hand).0;
    }
    assert_eq!(step.traces(), 1);
    let numbers = |(slope, intercept): &(Variable, Variable)| -> [f64; 2] {
        [slope.item(), intercept.item()]
    };
    let [slope, intercept] = numbers(&argument.0);
    assert_eq!(
        [slope, intercept].map(f64::to_bits),
        numbers(&by_hand.0).map(f64::to_bits)
    );
    println!("after 200 steps: y = {slope:.2} x {intercept:+.2}");
    let loss = error(&argument.0, &argument.1).item::<f64>();
    println!("mean squared error: {loss:.4}");
}
