//! The workloads that other libraries are measured against, on request: each line on standard input
//! is a workload and a count; the answer is the nanoseconds that so many runs took.
//!
//! `benches/peers/run` starts this program beside the peers and takes turns between them, so that
//! all see the same state of the machine.

use std::error::Error;
use std::io::{BufRead, Write};
use std::time::Instant;

use bibun::Variable;
use bibun::array::{DType, Generator};
use bibun::functions::{relu, softmax_cross_entropy};
use bibun::links::{Chain, Linear, Link};
use bibun::optimizers::{Optimizer, Sgd};

const SCALAR_FUNCTIONS: usize = 1000;

#[derive(Chain)]
struct Mlp {
    l1: Linear,
    l2: Linear,
    l3: Linear,
}

/// One step of the network 784-100-100-10 at batch 128: forward, loss, backward, update.
fn mlp_step() -> impl FnMut() {
    let mut random = Generator::new(0);
    let mut layer = |inputs, outputs| Linear::new(inputs, outputs, &mut random);
    let model = Mlp {
        l1: layer(784, 100),
        l2: layer(100, 100),
        l3: layer(100, 10),
    };
    let mut optimizer = Sgd::new(0.01);
    let x = Variable::constant(random.uniform([128, 784], 0.0, 1.0, DType::F32));
    let t = Variable::constant(random.integers(0, 10, [128]));
    move || {
        model.clear_grads();
        let h = relu(model.l1.forward(&x));
        let h = relu(model.l2.forward(&h));
        softmax_cross_entropy(model.l3.forward(&h), &t).backward();
        optimizer.update(&model);
    }
}

/// A chain of scalar functions, forward and backward.
fn scalar_chain(f: fn(&Variable) -> Variable) -> impl FnMut() {
    let x = Variable::new(1e-4);
    move || {
        x.clear_grad();
        let mut y = f(&x);
        for _ in 1..SCALAR_FUNCTIONS {
            y = f(&y);
        }
        y.backward();
    }
}

fn workload(name: &str) -> Option<Box<dyn FnMut()>> {
    Some(match name {
        "mlp-step" => Box::new(mlp_step()),
        "scalar-multiply" => Box::new(scalar_chain(|x| x * 1.000_1)),
        "scalar-sin" => Box::new(scalar_chain(|x| x.sin())),
        "scalar-tanh" => Box::new(scalar_chain(|x| x.tanh())),
        _ => return None,
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let mut words = line.split_whitespace();
        let (Some(name), Some(count)) = (words.next(), words.next()) else {
            return Err(format!("expected a workload and a count, got {line:?}").into());
        };
        let mut run = workload(name).ok_or_else(|| format!("there is no workload {name}"))?;
        let count: u32 = count.parse()?;
        // The first runs fill caches and pools.
        for _ in 0..count.div_ceil(10) {
            run();
        }
        let start = Instant::now();
        for _ in 0..count {
            run();
        }
        println!("{}", start.elapsed().as_nanos());
        std::io::stdout().flush()?;
    }
    Ok(())
}
