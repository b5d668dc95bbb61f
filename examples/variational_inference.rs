//! Variational inference against a posterior that is known: the weights of a line through noisy points. The
//! approximation is a normal distribution whose mean and Cholesky factor are learnt by gradients through its
//! samples; the exact posterior is normal, too, so that nothing but the optimisation stands between them.
//!
//! Source: D. P. Kingma, M. Welling, "Auto-encoding variational Bayes", 2014.

use bibun::array::{Array, DType, Generator};
use bibun::distributions::{
    Distribution, MultivariateNormal, Normal, Reparameterized, kl_divergence,
};
use bibun::functions::{concat, matmul};
use bibun::links::Chain;
use bibun::optimizers::{Adam, Optimizer};
use bibun::{Variable, no_grad};

const NOISE: f64 = 0.3;
const POINTS: usize = 40;

/// What is learnt: the mean, and the Cholesky factor with the logarithms of its diagonal in place of the
/// diagonal, so that every value is allowed.
#[derive(Chain)]
struct Posterior {
    mean: Variable,
    factor: Variable,
}

impl Posterior {
    fn distribution(&self) -> MultivariateNormal {
        let diagonal = Variable::constant(Array::eye(2, DType::F64));
        let factor = self.factor.tril(-1) + self.factor.exp() * diagonal;
        MultivariateNormal::new(&self.mean, factor)
    }
}

/// The exact posterior of weights with the prior `N(0, I)`: its precision is `XᵀX / σ² + I`.
fn exact(x: &Variable, y: &Variable) -> ([f64; 2], [f64; 3]) {
    let square = NOISE * NOISE;
    let precision = matmul(x.transpose(), x) / square + Array::eye(2, DType::F64);
    let [a, b, _, d] = precision.to_vec::<f64>()[..] else {
        unreachable!("two by two")
    };
    let determinant = a * d - b * b;
    let covariance = [d / determinant, -b / determinant, a / determinant];
    let [u, v] = (matmul(x.transpose(), y) / square).to_vec::<f64>()[..] else {
        unreachable!("two")
    };
    let mean = [
        covariance[0] * u + covariance[1] * v,
        covariance[1] * u + covariance[2] * v,
    ];
    (mean, covariance)
}

fn main() {
    let random = &mut Generator::new(0);
    let inputs = Variable::constant(random.uniform([POINTS, 1], 0.0, 2.0, DType::F64));
    let ones = Variable::constant(Array::full([POINTS, 1], 1.0));
    let x = concat([&ones, &inputs], 1);
    let truth = Variable::constant([[0.7], [-1.2]]);
    let noise = Variable::constant(random.normal([POINTS, 1], 0.0, NOISE, DType::F64));
    let y = matmul(&x, &truth) + noise;

    let prior = MultivariateNormal::new([0.0, 0.0], Array::eye(2, DType::F64));
    let posterior = Posterior {
        mean: Variable::new([0.0, 0.0]),
        factor: Variable::new([[0.0, 0.0], [0.0, 0.0]]),
    };
    // The bound on the evidence, by 16 samples.
    let mut loss = || {
        let q = posterior.distribution();
        let w = q.rsample([16], random);
        let lines = matmul(&x, w.transpose());
        let likelihood = Normal::new(lines, NOISE).log_prob(&y).sum(0).mean(..);
        kl_divergence(&q, &prior) - likelihood
    };
    let mut optimizer = Adam::new(0.05);
    for step in 0..1500 {
        if step % 300 == 0 {
            println!(
                "step {step:4}: bound {:.3}",
                -no_grad(&mut loss).item::<f64>()
            );
        }
        if step == 1000 {
            optimizer = Adam::new(0.005);
        }
        optimizer.minimize(&posterior, &mut loss);
    }

    let q = posterior.distribution();
    let (mean, covariance) = exact(&x, &y);
    let found = q.covariance().to_vec::<f64>();
    println!(
        "mean        {:.4?}, exactly {mean:.4?}",
        q.loc.to_vec::<f64>()
    );
    println!(
        "covariance  {:.5?}, exactly {covariance:.5?}",
        [found[0], found[1], found[3]]
    );
    for (i, (found, exact)) in q.loc.to_vec::<f64>().iter().zip(mean).enumerate() {
        let deviation = covariance[2 * i].sqrt();
        assert!(
            (found - exact).abs() < 0.1 * deviation,
            "component {i} of the mean"
        );
    }
    for (found, exact) in [found[0], found[1], found[3]].iter().zip(covariance) {
        assert!((found - exact).abs() < 0.1 * exact.abs(), "covariance");
    }
}
