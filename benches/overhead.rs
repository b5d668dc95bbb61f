//! Nanoseconds of bookkeeping per scalar function, forward and backward, in a chain.
//!
//! `cargo bench -p bibun-benches --bench overhead`. The limit is the cost of the memory a node takes: two
//! allocations, a few hundred bytes written and read once, a few dozen nanoseconds.

use bibun::Variable;
use divan::{Bencher, counter::ItemsCount};

const LENGTH: usize = 10_000;

fn chain(x: &Variable, f: fn(&Variable) -> Variable) -> Variable {
    let mut y = x.clone();
    for _ in 0..LENGTH {
        y = f(&y);
    }
    y
}

type Unary = fn(&Variable) -> Variable;
const FUNCTIONS: &[(&str, Unary)] = &[
    ("multiply by a number", |x| x * 1.000_1),
    ("add to itself", |x| x + x),
    ("sin", |x| x.sin()),
    ("tanh", |x| x.tanh()),
];

fn named() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|(name, _)| *name)
}

fn function(name: &str) -> fn(&Variable) -> Variable {
    FUNCTIONS
        .iter()
        .find(|(other, _)| *other == name)
        .expect("one of the list")
        .1
}

#[divan::bench(args = named())]
fn forward(bencher: Bencher<'_, '_>, name: &str) {
    let (x, f) = (Variable::new(1e-4), function(name));
    bencher
        .counter(ItemsCount::new(LENGTH))
        .bench_local(|| chain(&x, f));
}

#[divan::bench(args = named())]
fn forward_and_backward(bencher: Bencher<'_, '_>, name: &str) {
    let (x, f) = (Variable::new(1e-4), function(name));
    bencher.counter(ItemsCount::new(LENGTH)).bench_local(|| {
        x.clear_grad();
        chain(&x, f).backward();
    });
}

fn main() {
    divan::main();
}
