//! A perceptron that is divided among processes in two ways, each equal to the one that is not.
//!
//! ```sh
//! cargo build --example model_parallel
//! mpiexec -n 2 target/debug/examples/model_parallel
//! ```
//!
//! Tensor parallel: each process has some of the hidden units, and one `all_reduce` adds up what they give.
//! Pipeline: the first process has the first layer and the second one the other, and small batches follow each
//! other through both.

use bibun::array::{Array, DType, Generator};
use bibun::functions::{all_reduce, receive, relu, send};
use bibun::parallel::Communicator;
use bibun::{Spec, Variable};

const HIDDEN: usize = 64;

/// The weights of both layers, a batch and its targets.
struct Problem {
    w1: Array,
    w2: Array,
    x: Array,
    t: Array,
}

fn main() {
    let world = bibun_mpi::init().unwrap_or_else(|error| panic!("{error}"));
    let mut random = Generator::new(0);
    let mut normal = |shape: [usize; 2], scale| random.normal(shape, 0.0, scale, DType::F64);
    let problem = Problem {
        w1: normal([16, HIDDEN], 0.2),
        w2: normal([HIDDEN, 4], 0.1),
        x: normal([32, 16], 1.0),
        t: normal([32, 4], 1.0),
    };
    let whole = alone(&problem);
    let tell = |name: &str, losses: &[f64]| {
        for (loss, expected) in losses.iter().zip(&whole) {
            assert!(
                (loss - expected).abs() < 1e-9,
                "{name}: {loss}, alone {expected}"
            );
        }
        if world.is_first() {
            println!(
                "{name}: {:.6} to {:.6}, as alone",
                losses[0],
                losses[losses.len() - 1]
            );
        }
    };
    tell("tensor parallel", &tensor_parallel(&world, &problem));
    if world.size() == 2 {
        tell("pipeline", &pipeline(&world, &problem));
    } else if world.is_first() {
        println!("the pipeline has two stages and takes 2 processes");
    }
}

/// Makes a step of gradient descent.
fn descend(parameters: &[&Variable]) {
    for parameter in parameters {
        let change = parameter.grad().expect("a gradient").array() * Array::from(0.05);
        parameter.update(|old| old - &change);
        parameter.clear_grad();
    }
}

const STEPS: usize = 20;

fn alone(problem: &Problem) -> Vec<f64> {
    let [w1, w2] = [&problem.w1, &problem.w2].map(Variable::new);
    let step = |_| {
        let y = relu(Variable::constant(&problem.x).matmul(&w1)).matmul(&w2);
        let loss = (y - &problem.t).square().mean(..);
        loss.backward();
        descend(&[&w1, &w2]);
        loss.item()
    };
    (0..STEPS).map(step).collect()
}

fn tensor_parallel(world: &Communicator, problem: &Problem) -> Vec<f64> {
    let own = world.share(HIDDEN);
    let w1 = Variable::new(problem.w1.slice(&[(..).into(), own.clone().into()]));
    let w2 = Variable::new(problem.w2.slice(&[own.into()]));
    let step = |_| {
        let part = relu(Variable::constant(&problem.x).matmul(&w1)).matmul(&w2);
        let loss = (all_reduce(part, world) - &problem.t).square().mean(..);
        // Every process has the whole loss, and what is differentiated is the sum over all.
        (&loss / world.size() as f64).backward();
        descend(&[&w1, &w2]);
        loss.item()
    };
    (0..STEPS).map(step).collect()
}

/// The number of small batches that are on their way at the same time.
const PARTS: usize = 4;

fn pipeline(world: &Communicator, problem: &Problem) -> Vec<f64> {
    let w = Variable::new([&problem.w1, &problem.w2][world.rank()]);
    let rows = problem.x.shape()[0] / PARTS;
    let part = |all: &Array, i: usize| all.slice(&[(i * rows..(i + 1) * rows).into()]);
    let step = |_| {
        let stage = |i: usize| match world.rank() {
            0 => send(
                relu(Variable::constant(part(&problem.x, i)).matmul(&w)),
                1,
                world,
            ),
            _ => {
                let hidden = receive(&w, Spec::new([rows, HIDDEN], DType::F64), 0, world);
                (hidden.matmul(&w) - part(&problem.t, i)).square().mean(..) / PARTS as f64
            }
        };
        let losses: Vec<Variable> = (0..PARTS).map(stage).collect();
        losses.iter().for_each(Variable::backward);
        descend(&[&w]);
        let own: f64 = losses.iter().map(|loss| loss.item::<f64>()).sum();
        world.all_reduce(&Array::from(own)).item()
    };
    (0..STEPS).map(step).collect()
}
