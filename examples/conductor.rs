//! An eigenvalue optimised under constraints: a wall is kept cold on one side and insulated on the other. How must a given
//! amount of a conductor be spread over its depth, so that the wall cools as fast as it can? Its heat decays with the least
//! eigenvalue of `-(a u')' = λ u`, where a is the density of the conductor: it must not be negative, and its mean is 1.
//!
//! The solution is known: where `u' = 1`, the eigenvalue does not change with the place of conductor, so `u = x`,
//! `a = 3 (1 - x²) / 2`, and λ is 3, where it is π²/4 for a constant density. Of `n` layers, the same argument gives
//! `λ = 6 n² / ((n + 1) (2 n + 1))`, and the density of a layer is `λ / n²` times the numbers of all layers from it on.

use bibun::array::{Array, DType};
use bibun::functions::{diag, softmax};
use bibun::linalg::{eigh, eigvalsh};
use bibun::links::Chain;
use bibun::optimizers::{Adam, Optimizer};
use bibun::{Variable, grad, hessian, s};

/// The number of layers.
const N: usize = 40;

/// The density as numbers of which every value is allowed.
#[derive(Clone, Chain)]
struct Conductor {
    free: Variable,
}

impl Conductor {
    fn density(&self) -> Variable {
        N as f64 * softmax(&self.free, 0)
    }
}

/// `-(a u')'` by differences of neighbours. The first layer has the cold at its left, the last one nothing at its right.
fn operator(density: &Variable) -> Variable {
    let difference = Array::eye(N, DType::F64) - eye_below();
    let difference = Variable::constant(difference) * N as f64;
    difference
        .swapaxes(0, 1)
        .matmul(diag(density, 0))
        .matmul(difference)
}

fn eye_below() -> Array {
    let at = |i: usize| f64::from(i / N == i % N + 1);
    Array::from_vec((0..N * N).map(at).collect(), [N, N])
}

fn least(density: &Variable) -> Variable {
    eigvalsh(operator(density)).slice(s![0])
}

fn main() {
    let conductor = Conductor {
        free: Variable::new(Array::zeros([N], DType::F64)),
    };
    let before = least(&conductor.density()).item::<f64>();
    let mut optimizer = Adam::new(0.05);
    for step in 0..800 {
        optimizer.set_learning_rate(0.05 * (1.0 - f64::from(step) / 800.0));
        let loss = optimizer.minimize(&conductor, &mut || -least(&conductor.density()));
        if step % 200 == 0 {
            println!(
                "step {step:3}: the eigenvalue is {:.4}",
                -loss.item::<f64>()
            );
        }
    }

    let density = conductor.density().detach();
    let after = least(&density).item::<f64>();
    println!("{before:.4} before, {after:.4} after");
    let constant = std::f64::consts::PI.powi(2) / 4.0;
    assert!((before / constant - 1.0).abs() < 0.03);
    let n = N as f64;
    let greatest = 6.0 * n * n / ((n + 1.0) * (2.0 * n + 1.0));
    assert!((after / greatest - 1.0).abs() < 1e-4);

    // The constraints hold.
    let values = density.to_vec::<f64>();
    let mean = values.iter().sum::<f64>() / N as f64;
    assert!((mean - 1.0).abs() < 1e-12 && values.iter().all(|&a| a >= 0.0));
    for (i, a) in values.iter().enumerate() {
        let known = greatest / (n * n) * (i + 1..=N).sum::<usize>() as f64;
        assert!(
            (a - known).abs() < 0.01,
            "{a} instead of {known} in layer {i}"
        );
    }

    // No layer would use more conductor better than another: the gradient is that of the constraint, times λ.
    let slope = grad(least, &density).to_vec::<f64>();
    let multiplier = after / N as f64;
    let worst = slope
        .iter()
        .map(|g| (g / multiplier - 1.0).abs())
        .fold(0.0, f64::max);
    println!("the gradient differs by {worst:.1e} from that of the constraint");
    assert!(worst < 1e-2);
    // The least eigenvalue is concave, so no other density is better.
    let curvature = eigh(hessian(least, &density)).0.max(..).item::<f64>();
    println!("the greatest curvature is {curvature:.1e}");
    assert!(curvature < 1e-9);
}
