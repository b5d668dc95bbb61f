//! The workloads that other libraries are measured against, on request: each line on standard input
//! is a workload and a count; the answer is the nanoseconds that so many runs took.
//!
//! `benches/peers/run` starts this program beside the peers and takes turns between them, so that
//! all see the same state of the machine.

mod mlp_step;

use std::error::Error;
use std::io::{BufRead, Write};
use std::time::Instant;

use bibun::Variable;
use mlp_step::mlp_step;

const SCALAR_FUNCTIONS: usize = 1000;

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
