//! Compiled functions beside the functions themselves: the time of each, and their ratio.
//!
//! `cargo bench -p bibun-benches --bench compiled [-- NAME]`. Both run in turns of some calls; the times are
//! medians. With a name, the time of each step of that program follows.

use std::time::{Duration, Instant};

use bibun::array::{DType, Generator};
use bibun::functions::{
    Reduction, gelu, layer_normalization, softmax_cross_entropy, softmax_cross_entropy_with, stack,
};
use bibun::links::{Gru, Link, Lstm, Mlp, TransformerBlock};
use bibun::{
    Tree, Variable, compile, eval_mode, grad, hessian, jacobian_forward, per_example, tree_map,
    value_and_grad, vmap,
};

/// How long each of the two is run in all.
const PATIENCE: Duration = Duration::from_millis(600);

/// How long a turn takes at least, so that the clock and caches that the other one has used do not count.
const TURN: Duration = Duration::from_micros(100);

fn normal(shape: &[usize]) -> Variable {
    let mut generator = Generator::new(shape.iter().sum::<usize>() as u64);
    Variable::constant(generator.normal(shape, 0.0, 1.0, DType::F32))
}

fn classes(count: usize, of: i64) -> Variable {
    Variable::constant(Generator::new(1).integers(0, of, count))
}

/// Measures a function, and prints a row of the table.
fn row<A, Y>(name: &str, f: fn(&A) -> Y, argument: A)
where
    A: Tree + Send + Sync + 'static,
    Y: Tree + Send + 'static,
{
    let chosen = std::env::args()
        .skip(1)
        .find(|word| !word.starts_with("--"));
    if chosen.as_ref().is_some_and(|chosen| chosen != name) {
        return;
    }
    let compiled = compile(f);
    let begin = Instant::now();
    compiled.call(&argument);
    let first = begin.elapsed();
    if let Err(error) = compiled.check(&argument) {
        println!("{name}: {error}");
        return;
    }
    let timed = |run: &dyn Fn() -> Y| {
        let (begin, mut calls) = (Instant::now(), 1);
        loop {
            (0..calls).for_each(|_| drop(run()));
            calls *= 2;
            let elapsed = begin.elapsed();
            if elapsed >= TURN {
                return elapsed / (calls - 1);
            }
        }
    };
    let (mut eager_times, mut compiled_times) = (Vec::new(), Vec::new());
    let begin = Instant::now();
    while begin.elapsed() < 2 * PATIENCE || eager_times.len() < 5 {
        eager_times.push(timed(&|| f(&argument)));
        compiled_times.push(timed(&|| compiled.call(&argument)));
    }
    let median = |mut times: Vec<Duration>| {
        times.sort();
        times[times.len() / 2].as_secs_f64() * 1e6
    };
    let (eager, run) = (median(eager_times), median(compiled_times));
    println!(
        "| {name} | {eager:.1} | {run:.2} | {:.2} | {:.1} | {} |",
        eager / run,
        first.as_secs_f64() * 1e3,
        compiled.peak_bytes(&argument)
    );
    if chosen.is_some() {
        println!("\n{}", compiled.profile(&argument));
    }
}

/// The function of Goldstein and Price, at each element.
fn goldstein_price(x: &Variable, y: &Variable) -> Variable {
    let sum = (x + y + 1.0).square();
    let difference = (2.0 * x - 3.0 * y).square();
    let a = 19.0 - 14.0 * x + 3.0 * x.square() - 14.0 * y + 6.0 * x * y + 3.0 * y.square();
    let b = 18.0 - 32.0 * x + 12.0 * x.square() + 48.0 * y - 36.0 * x * y + 27.0 * y.square();
    (1.0 + sum * a) * (30.0 + difference * b)
}

/// The place and the orientation of a robot's hand, `[4, 4]`, for the angles of its joints, `[6]`.
fn hand(angles: &Variable) -> Variable {
    let turn = |angle: &Variable, length: f64, twist: f64| {
        let (sin, cos) = (angle.sin(), angle.cos());
        let (zero, one) = (Variable::constant(0.0), Variable::constant(1.0));
        let (up, along) = (twist.sin(), twist.cos());
        let rows = [
            cos.clone(),
            -&sin * along,
            &sin * up,
            &cos * length,
            sin.clone(),
            &cos * along,
            -&cos * up,
            &sin * length,
            zero.clone(),
            &one * up,
            &one * along,
            &one * (0.1 * length),
            zero.clone(),
            zero.clone(),
            zero,
            one,
        ];
        stack(rows.iter(), 0).reshape([4, 4])
    };
    let links = [
        (0.3, 1.5),
        (0.4, 0.0),
        (0.2, 0.1),
        (0.1, 1.5),
        (0.1, -1.5),
        (0.05, 0.0),
    ];
    let joints = angles.unstack(0);
    let frames = joints
        .iter()
        .zip(links)
        .map(|(angle, (length, twist))| turn(angle, length, twist));
    let hand = frames.reduce(|hand, joint| hand.matmul(&joint));
    hand.expect("there are six joints")
}

/// 5,000 operations on two numbers.
fn orbit(x: &Variable, y: &Variable) -> Variable {
    let (mut x, mut y) = (x.clone(), y.clone());
    for _ in 0..1250 {
        x = &x * 0.999 + &y * 0.01;
        y = &y - &x * 0.01;
    }
    x * y
}

type Two = (Variable, Variable);
type Three = (Variable, Variable, Variable);
type Four = (Variable, Variable, Variable, Variable);

fn main() {
    println!("| | function, us | compiled, us | ratio | first call, ms | peak, bytes |");
    println!("|---|---|---|---|---|---|");
    let million = normal(&[1_000_000]);
    let goldstein = |point: &Two| grad(|(x, y)| goldstein_price(x, y).sum(..), point);
    row("goldstein", goldstein, (million.clone(), million.sin()));
    let point = (Variable::constant(0.5), Variable::constant(0.25));
    row("goldstein-point", goldstein, point);
    let numbers = |(x, y): &Two| value_and_grad(|(x, y)| orbit(x, y), &(x.clone(), y.clone()));
    let point = (Variable::constant(0.5), Variable::constant(0.25));
    row("scalars", numbers, point);
    let angles = Variable::constant([0.1, -0.7, 0.9, 0.3, 1.1, 0.2]);
    let arm = |angles: &Variable| jacobian_forward(hand, angles);
    row("robot-arm", arm, angles);
    row("gelu", |x: &Variable| gelu(x), million.clone());
    let by_hand = |x: &Variable| {
        let gelu =
            |x: &Variable| 0.5 * x * (1.0 + (0.797_884_56 * (x + 0.044715 * x * x * x)).tanh());
        grad(|x| gelu(x).sum(..), x)
    };
    row("gelu-by-hand", by_hand, million.clone());
    let adam = |(w, g, m, v): &Four| {
        let m = 0.9 * m + 0.1 * g;
        let v = 0.999 * v + 0.001 * g.square();
        (w - 0.001 * &m / (v.sqrt() + 1e-8), m, v)
    };
    let state = (
        million.clone(),
        million.cos(),
        million.sin(),
        million.square(),
    );
    row("adam", adam, state);
    let entropy = |(x, t): &Two| grad(|x| softmax_cross_entropy(x, t), x);
    row(
        "softmax",
        entropy,
        (normal(&[1024, 1024]), classes(1024, 1024)),
    );
    let norm = |argument: &Three| {
        let y = |(x, gamma, beta): &Three| layer_normalization(x, -1, gamma, beta, 1e-5);
        grad(|argument| y(argument).square().sum(..), argument)
    };
    row(
        "layer-norm",
        norm,
        (normal(&[4096, 768]), normal(&[768]), normal(&[768])),
    );
    let generator = &mut Generator::new(0);
    let mlp = |(mlp, x, t): &(Mlp, Variable, Variable)| {
        value_and_grad(|mlp: &Mlp| softmax_cross_entropy(mlp.forward(x), t), mlp)
    };
    let network = Mlp::new(&[784, 100, 100, 10], generator);
    row("mlp", mlp, (network, normal(&[128, 784]), classes(128, 10)));
    let clipped = |(mlp, x, t): &(Mlp, Variable, Variable)| {
        let mlp = tree_map(|w| Variable::new(w.array()), mlp);
        let losses = softmax_cross_entropy_with(mlp.forward(x), t, Reduction::None);
        per_example(&losses, &mlp).clipped_sum(1.0)
    };
    let network = Mlp::new(&[784, 100, 100, 10], generator);
    let batch = (network, normal(&[128, 784]), classes(128, 10));
    row("per-example", clipped, batch);
    let lstm =
        |(lstm, x): &(Lstm, Variable)| grad(|lstm: &Lstm| lstm.forward(x).square().sum(..), lstm);
    let sequence = normal(&[64, 32, 64]);
    row(
        "lstm",
        lstm,
        (Lstm::new(64, 128, generator), sequence.clone()),
    );
    let gru = |(gru, x): &(Gru, Variable)| grad(|gru: &Gru| gru.forward(x).square().sum(..), gru);
    row("gru", gru, (Gru::new(64, 128, generator), sequence));
    let block = |(block, x): &(TransformerBlock, Variable)| {
        let loss = |block: &TransformerBlock| block.forward(x).square().sum(..);
        eval_mode(|| grad(loss, block))
    };
    let transformer = TransformerBlock::new(128, 4, generator);
    row("transformer", block, (transformer, normal(&[8, 64, 128])));
    let residual = |(mlp, points): &(Mlp, Variable)| {
        let loss = |mlp: &Mlp| {
            let u = |point: &Variable| mlp.forward(&point.expand_dims(0)).tanh().sum(..);
            vmap(|point| hessian(u, point), points).square().mean(..)
        };
        grad(loss, mlp)
    };
    row(
        "physics",
        residual,
        (Mlp::new(&[2, 64, 64, 1], generator), normal(&[128, 2])),
    );
}
