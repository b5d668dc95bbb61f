//! Hamiltonian Monte Carlo: many chains at once, each of which follows the gradient of a log-density as a
//! particle does a force. The density of one point is written for one point; `vmap` makes it that of all
//! chains, and `compile` turns the step into a program.
//!
//! The distribution is a banana, `a ~ N(0, 1)`, `b ~ N(a², ½)`, whose moments are known.
//!
//! Source: R. M. Neal, "MCMC using Hamiltonian dynamics", 2011.

use bibun::array::{DType, Generator};
use bibun::distributions::{Distribution, Normal};
use bibun::functions::{expand_dims, random_normal, random_uniform, where_};
use bibun::{Variable, compile, s, value_and_grad, vmap};

const CHAINS: usize = 500;
const STEPS: usize = 2000;
const WARM_UP: usize = 100;
const LEAPS: usize = 12;
const LEAP: f64 = 0.15;

fn log_density(x: &Variable) -> Variable {
    let (a, b) = (x.slice(s![0]), x.slice(s![1]));
    Normal::new(0.0, 1.0).log_prob(&a) + Normal::new(a.square(), 0.5).log_prob(b)
}

/// The next position of every chain, and whether it moved.
fn step((positions, random): &(Variable, Generator)) -> (Variable, Variable) {
    let mut random = random.clone();
    let of_all = |x: &Variable| vmap(|x| value_and_grad(log_density, x), x);
    let start = random_normal([CHAINS, 2], 0.0, 1.0, DType::F64, &mut random);
    let (before, mut force) = of_all(positions);
    let (mut x, mut momentum, mut after) = (positions.clone(), start.clone(), before.clone());
    for _ in 0..LEAPS {
        momentum += 0.5 * LEAP * force;
        x += LEAP * &momentum;
        (after, force) = of_all(&x);
        momentum += 0.5 * LEAP * &force;
    }
    // A step is taken with a probability that makes up for the errors of the leaps.
    let energy =
        |log_density: &Variable, momentum: &Variable| 0.5 * momentum.square().sum(1) - log_density;
    let gain = energy(&before, &start) - energy(&after, &momentum);
    let u = random_uniform([CHAINS], 0.0, 1.0, DType::F64, &mut random);
    let moves = u.log().less(gain);
    (where_(expand_dims(&moves, 1), x, positions), moves)
}

fn main() {
    let random = Generator::new(0);
    let step = compile(step);
    let mut x = Variable::constant(random.split(0).normal([CHAINS, 2], 0.0, 1.0, DType::F64));
    let (mut sums, mut moved) = ([0.0; 4], 0.0);
    for i in 0..STEPS {
        let (next, moves) = step.call(&(x, random.split(1 + i as u64)));
        x = next;
        if i >= WARM_UP {
            moved += moves.cast(DType::F64).mean(..).item::<f64>();
            for (column, power) in [(0, 1), (0, 2), (1, 1), (1, 2)].into_iter().enumerate() {
                let (axis, power) = power;
                let part = x.slice(s![.., axis as isize]).pow(power);
                sums[column] += part.mean(..).item::<f64>();
            }
        }
    }
    let count = (STEPS - WARM_UP) as f64;
    let [a, a2, b, b2] = sums.map(|sum| sum / count);
    println!(
        "accepted {:.3} of {} steps",
        moved / count,
        CHAINS * (STEPS - WARM_UP)
    );
    println!(
        "mean of a {a:7.4} (0), of a² {a2:.4} (1), of b {b:.4} (1), variance of b {:.4} (2.25)",
        b2 - b * b
    );
    assert!(moved / count > 0.8, "too many steps were refused");
    assert!(
        a.abs() < 0.05 && (a2 - 1.0).abs() < 0.08,
        "the moments of a"
    );
    assert!(
        (b - 1.0).abs() < 0.08 && (b2 - b * b - 2.25).abs() < 0.25,
        "the moments of b"
    );
}
